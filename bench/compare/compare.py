#!/usr/bin/env python3
"""Compares Quire with llama.cpp on the same model file and threads, in one run.

    .venv/bin/python bench/compare/compare.py [--model F] [--threads N] [--rounds N] [--json OUT]

Each figure is measured in turns (A B A B ...), so that a machine that slows down slows both; the table has
medians and their ratio. llama.cpp: scripts/install_peers.sh, or a folder named by LLAMA_CPP_BIN.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import peers  # noqa: E402
import startup  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEFAULT_MODEL = ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"

# What is measured: name, tokens of the prompt, tokens generated, sequences, which speed, target ratio.
CASES = [
    ("prefill 512, tok/s", 512, 0, 1, "prefill_tok_s", 2.0),
    ("decode, batch 1, tok/s", 0, 64, 1, "decode_tok_s", 1.1),
    ("decode, batch 16, tok/s", 64, 64, 16, "decode_tok_s", 1.5),
]


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def measure(case, sides, rounds):
    """{side: [speed of each round]}, the sides taking turns; one round of warm-up is dropped."""
    _, prefill, decode, batch, field, _ = case
    found = {name: [] for name in sides}
    for number in range(rounds + 1):
        order = list(sides) if number % 2 == 0 else list(reversed(sides))
        for name in order:
            speed = sides[name].run(prefill, decode, batch)[field]
            if number > 0:
                found[name].append(speed)
    return found


def spread(values):
    return f"{min(values):.0f}-{max(values):.0f}"


def report_roofline(results, model):
    """Our speeds as fractions of the machine's peaks: prefill of the dot product's, decode at batch 1 of the read rate."""
    peaks = results["roofline"] = peers.roofline(ROOT)
    speeds = {name: statistics.median(v["quire"]) for name, v in results["figures"].items()}
    macs = int(next(line.split("(")[1].split(")")[0] for line in subprocess.run(
        [ROOT / "build" / "quire", "inspect", model], capture_output=True, text=True, check=True).stdout.splitlines()
        if line.startswith("parameters:")))
    dot = max(peaks["vpdpbusd_gmacs"], peaks["fma_gmacs"]) * peaks["threads"]
    prefill = next(v for k, v in speeds.items() if k.startswith("prefill"))
    decode = next(v for k, v in speeds.items() if "batch 1," in k)
    print(f"roofline: {peaks}")
    print(f"prefill: at most {prefill * macs / 1e9 / dot:.2f} of the dot-product peak (the head, used once, counted for every token)")
    print(f"decode, batch 1: {decode * model.stat().st_size / 1e9 / peaks['read_gb_s']:.2f} of the read rate")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=pathlib.Path, default=DEFAULT_MODEL)
    parser.add_argument("--quire", type=pathlib.Path, default=ROOT / "build" / "quire")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "build" / "bench-compare.json")
    args = parser.parse_args()

    quire = peers.QuireEngine(args.quire, args.model, args.threads)
    llama = peers.LlamaCpp(peers.find_llama_cpp(ROOT), args.model, args.threads)
    print(f"CPU: {cpu_name()}, {args.threads} threads; {args.model.name}, {args.rounds} rounds in turns, medians")
    print(f"Quire: {quire.version()}\nllama.cpp: {llama.version()}\n", flush=True)

    results = {"cpu": cpu_name(), "threads": args.threads, "model": args.model.name, "rounds": args.rounds, "figures": {}}
    print(f"{'':26}{'Quire':>9}{'llama.cpp':>11}{'ratio':>8}{'target':>8}   spread Quire, llama.cpp")
    for case in CASES:
        found = measure(case, {"quire": quire, "llama.cpp": llama}, args.rounds)
        ours, theirs = (statistics.median(found[side]) for side in ("quire", "llama.cpp"))
        print(f"{case[0]:26}{ours:9.0f}{theirs:11.0f}{ours / theirs:8.2f}{case[5]:8.1f}   "
              f"{spread(found['quire'])}, {spread(found['llama.cpp'])}", flush=True)
        results["figures"][case[0]] = {"quire": found["quire"], "llama.cpp": found["llama.cpp"],
                                       "ratio": ours / theirs, "target": case[5]}
    print()
    results["start"] = startup.report(args.quire, args.model, args.threads, args.rounds)
    report_roofline(results, args.model)
    for note in llama.notes:
        print(f"note: {note}")
    args.json.parent.mkdir(exist_ok=True)
    args.json.write_text(json.dumps(results, indent=1))
    print(f"all values: {args.json}")


if __name__ == "__main__":
    try:
        main()
    except (peers.BenchError, subprocess.CalledProcessError) as e:
        raise SystemExit(f"compare: {e}")
