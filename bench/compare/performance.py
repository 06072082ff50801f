#!/usr/bin/env python3
"""Writes the tables of figures with a target into docs/performance.md, one for each machine's results.

    bench/compare/performance.py bench/results/*.json
"""
import json
import pathlib
import re
import shlex
import sys

import report
from machine import ROOT
from turns import Figure

PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- figures: made by bench/compare/performance.py -->", "<!-- end of figures -->"
SECTIONS = {"engine": "engine", "start and memory": "start", "server, mixed lengths": "server", "server, shared prefix": "prefix",
            "server, a long prompt enters": "stall", "quality": "quality"}


def order(figure):
    """Sections as they are measured, in them models of one kind together."""
    return [list(SECTIONS).index(figure.section), figure.model.startswith("random"), figure.model, "prefill" not in figure.name,
            "behind" in figure.name, int((re.findall(r"\d+", figure.name) or [0])[0])]


# What the sections themselves give `quire serve`, each with a value.
OWN_FLAGS = {"--host", "--port", "--threads", "--served-model-name", "--max-model-len", "--max-step-ratio"}


def flags_from_settings(figure, machine_threads):
    """What is known of the flags of a figure that was kept without them."""
    quire, vllm, flags = figure.settings.get("Quire", ""), figure.settings.get("vLLM", ""), []
    used = re.search(r"--threads (\d+)", quire)
    if used and int(used[1]) != machine_threads:
        flags.append(f"--threads {used[1]}")
    rounds = max(map(len, figure.values.values()), default=0)
    if figure.section != "quality" and "memory" not in figure.name and rounds:
        flags.append(f"--rounds {rounds}")
    peers = [name for name in ("llama.cpp", "vLLM") if name in figure.values or name in figure.missing]
    flags.append(" ".join(["--peers", *peers]))
    if quire.startswith("serve "):
        words = quire.split()[1:]
        more = [word for i, word in enumerate(words) if word not in OWN_FLAGS and (i == 0 or words[i - 1] not in OWN_FLAGS)]
        quire = " ".join(more)
    if quire:
        flags.append(f"--quire-flags={shlex.quote(quire)}")
    if vllm.startswith("compiled") or (vllm.startswith("serve ") and "--enforce-eager" not in vllm):
        flags.append("--vllm-compiled")
    bind = re.match(r"(?:compiled|eager), (\S+)", vllm)
    if bind and bind[1] != "nobind":
        flags.append(f"--vllm-bind={bind[1]}")
    return " ".join(flags)


def rows(figure, machine_threads):
    """One line per target."""
    command = f"`--sections {SECTIONS[figure.section]} --models {figure.model} {figure.flags or flags_from_settings(figure, machine_threads)}`"
    ours = report.cell(figure, "Quire")
    peak = f"{figure.peaks['Quire']:.2f}" if "Quire" in figure.peaks else ""
    mark = {True: "yes", False: "**no**", None: "not measured"}[figure.reached()]
    for side, target in figure.targets.items():
        if side not in figure.values and side not in figure.missing:
            continue
        ratio = f"{figure.ratio(side):.2f} ×" if figure.ratio(side) else ""
        alone = Figure(**{**figure.__dict__, "targets": {side: target}, "limit": None})
        yield [figure.model, figure.name, ours, f"{side}: {report.cell(figure, side)}", ratio, peak, report.target_text(alone),
               {True: "yes", False: "**no**", None: "not measured"}[alone.reached()], command]
    if figure.limit is not None:
        alone = Figure(**{**figure.__dict__, "targets": {}})
        yield [figure.model, figure.name, ours, "", "", peak, report.target_text(alone), mark, command]


def table(path):
    """A machine's figures, as lines of Markdown."""
    kept = json.loads(path.read_text())
    machine = kept["machine"]
    head = ["model", "figure", "Quire", "peer", "ratio", "of peak", "target", "reached", "`compare.py` …"]
    tiles = " with AMX" if "amx_bf16" in machine.get("flags", []) else ""
    lines = [f"On {machine['name']}{tiles}, {machine['threads']} threads ([all values](../bench/results/{path.stem}.md)):", "",
             f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for figure in sorted((Figure(**f) for f in kept["figures"]), key=order):
        name = f"{figure.name}, {figure.unit}"
        lines += [f"| {' | '.join(row)} |" for row in rows(Figure(**{**figure.__dict__, "name": name}), machine["threads"])]
    return "\n".join(lines) + "\n"


def main():
    tables = [table(pathlib.Path(path)) for path in sys.argv[1:]]
    page = PAGE.read_text()
    begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    PAGE.write_text(page[:begin] + "\n" + "\n".join(tables) + page[end:])


if __name__ == "__main__":
    main()
