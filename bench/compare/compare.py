#!/usr/bin/env python3
"""Compares Quire with llama.cpp and vLLM's CPU backend on the same models, threads and prompts, in one run.

    .venv/bin/python bench/compare/compare.py [--sections S ...] [--models M ...] [--peers P ...] [--rounds N] [--save]

Each figure is measured in turns (A B A B ...), so that a machine that slows down slows all; tables have medians, their
ratios, and fractions of the machine's own peaks. A peer that is missing is named in the table. docs/benchmarks.md says
how each one is run. Results are merged into build/bench/; with --save into bench/results/, which is committed.
"""
import argparse
import shlex
import sys
import time

import engines
import machine
import models
import report
import section_engine
import section_quality
import section_server
import section_stall
import section_start
import turns
from cpus import QUOTA, THREADS
from machine import ROOT, BenchError

SECTIONS = {"engine": section_engine.measure, "start": section_start.measure, "server": section_server.mixed_lengths,
            "prefix": section_server.shared_prefix, "stall": section_stall.measure, "quality": section_quality.measure}
PEERS = ("llama.cpp", "vLLM")


class Run:
    """One section with one model: what it needs, and what it has found."""

    def __init__(self, model, args, peaks, results):
        self.model, self.args, self.peaks, self.results = model, args, peaks, results
        self.missing, self.versions, self.notes, self.figures = {}, {}, [], []
        self.scratch = ROOT / "build" / "bench"
        self.shown_sides = self.path = None

    def add(self, figure):
        """A figure: shown at once, and kept."""
        if turns.disturbed:
            busy = f"{len(turns.disturbed)} of the measurements began while others used up to {max(turns.disturbed):.0%} of the machine."
            figure.note = f"{busy} {figure.note}".strip()
        figure.flags = repeating_flags(self.args)
        self.figures.append(figure)
        lines = report.table([figure]).splitlines()
        sides = [*figure.values, *figure.missing]
        print("\n".join(lines if sides != self.shown_sides else lines[2:]), flush=True)
        self.shown_sides = sides
        self.results.update(self.figures, self.peaks, self.versions, self.notes)
        self.path = self.results.write()

    def close(self):
        for note in self.notes:
            print(f"note: {note}")
        print(f"{self.path}\n" if self.figures else "nothing could be measured\n", flush=True)


def make_parser():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--models", nargs="+", metavar="M", default=["smollm2-135m"],
                        help=f"a GGUF file, or: {', '.join([*models.GROUPS, *models.NAMES])}")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--threads", type=int, default=THREADS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--figures", nargs="+", choices=("prefill", "decode", "long"), default=["prefill", "decode", "long"],
                        help="of the section engine")
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 4, 8, 16, 32, 64])
    parser.add_argument("--decode-tokens", type=int, default=32)
    parser.add_argument("--clients", nargs="+", type=int, default=[1, 4, 16, 64])
    parser.add_argument("--windows", type=int, default=4, help="of 512 tokens, for the section quality")
    parser.add_argument("--quire-flags", default="", help="more flags for Quire, in one word: '--kv-cache-dtype int8'")
    parser.add_argument("--vllm-compiled", action="store_true", help="vLLM with torch.compile; default: eager")
    parser.add_argument("--vllm-bind", default="nobind", help="VLLM_CPU_OMP_THREADS_BIND")
    parser.add_argument("--patience", type=float, default=60, help="seconds to wait, before each measurement, while others use the machine")
    parser.add_argument("--save", action="store_true", help="keep the results in bench/results")
    return parser


def repeating_flags(args):
    """What is to be added to --sections and --models to measure the same again."""
    words = [f"--threads {args.threads}", f"--rounds {args.rounds}"]
    parser = make_parser()
    for name in ("peers", "figures", "batches", "decode_tokens", "clients", "windows", "quire_flags", "vllm_compiled", "vllm_bind"):
        value, flag = getattr(args, name), "--" + name.replace("_", "-")
        if value == parser.get_default(name):
            continue
        if isinstance(value, list):
            words.append(" ".join([flag, *map(str, value)]))
        elif value is True:
            words.append(flag)
        else:
            words.append(f"{flag}={shlex.quote(str(value))}")  # "=": values that begin with dashes
    return " ".join(words)


def main():
    args = make_parser().parse_args()
    turns.PATIENCE_S = args.patience
    if not 1 <= args.threads <= THREADS:
        quota = f" (its cgroup has a quota of {QUOTA:g} CPUs)" if QUOTA else ""
        raise BenchError(f"--threads {args.threads}: this process may use 1 to {THREADS}{quota}")
    machine.wait_until_quiet(args.patience)
    cpu = machine.cpu_info()
    results = report.Results(ROOT / "bench" / "results" if args.save else ROOT / "build" / "bench", cpu)
    (ROOT / "build" / "bench").mkdir(parents=True, exist_ok=True)
    print(f"{cpu['name']}, {args.threads} threads, {args.rounds} rounds in turns\n", flush=True)
    for name in [each for name in args.models for each in models.GROUPS.get(name, [name])]:
        model = models.find(name)
        for section in args.sections:
            # Of now: the memory of virtual machines has days of half its speed.
            peaks = machine.roofline(int(model.facts["weight_bytes"]), args.threads)
            print(f"{section}: {model.name}; peaks: {peaks}", flush=True)
            run = Run(model, args, peaks, results)
            run.versions["Quire"] = f"{engines.Quire(model, args.threads).version()}, commit {machine.commit()}"
            begin = time.monotonic()
            SECTIONS[section](run)
            print(f"{section}: {model.name} took {(time.monotonic() - begin) / 60:.1f} minutes")
            run.close()


if __name__ == "__main__":
    try:
        main()
    except BenchError as e:
        sys.exit(f"compare: {e}")
