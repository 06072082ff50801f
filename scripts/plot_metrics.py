#!/usr/bin/env python3
"""Draws what a running server does with its KV cache, from its /metrics, as an SVG: blocks in use, sequences, and the
tokens of prompts that were computed and those that were found in the prefix cache.

    scripts/plot_metrics.py http://127.0.0.1:8000 picture.svg --seconds 30 [--title T] [--record samples.jsonl]
    scripts/plot_metrics.py samples.jsonl picture.svg            # draws a record
"""
import argparse
import json
import time
import urllib.request

import plot_simulation
from plot_simulation import Picture, round_up

NAMES = {"used": "vllm:kv_cache_usage_perc", "running": "vllm:num_requests_running", "waiting": "vllm:num_requests_waiting",
         "queried": "vllm:prefix_cache_queries_total", "found": "vllm:prefix_cache_hits_total",
         "generated": "vllm:generation_tokens_total"}
EVERY_S = 0.05


def sample(url):
    text = urllib.request.urlopen(f"{url}/metrics").read().decode()
    found = {"time": time.monotonic()}
    for line in text.splitlines():
        name, _, value = line.replace("{", " {", 1).rpartition(" ")
        for key, metric in NAMES.items():
            if name.split(" ")[0] == metric:
                found[key] = float(value)
    return found


def record(url, seconds):
    samples, begin = [], time.monotonic()
    while time.monotonic() < begin + seconds:
        samples.append(sample(url))
        time.sleep(EVERY_S)
    return samples


def columns_of(samples):
    """States as they were last seen at the end of each stretch, counters as what was added in it."""
    begin, end = samples[0]["time"], samples[-1]["time"]
    count = plot_simulation.COLUMNS
    columns, at, before = [], 0, samples[0]
    for i in range(count):
        until = begin + (end - begin) * (i + 1) / count
        while at + 1 < len(samples) and samples[at + 1]["time"] <= until:
            at += 1
        now = samples[at]
        hits = now["found"] - before["found"]
        columns.append({"used": 100 * now["used"], "running": now["running"], "waiting": now["waiting"], "found": hits,
                        "computed": now["queried"] - before["queried"] - hits, "generated": now["generated"] - before["generated"]})
        before = now
    return begin, end, columns


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("source", help="a server's address, or a record")
    arguments.add_argument("picture")
    arguments.add_argument("--seconds", type=float, default=30)
    arguments.add_argument("--title", default="")
    arguments.add_argument("--record", help="keep the samples here")
    given = arguments.parse_args()
    if given.source.startswith("http"):
        samples = record(given.source, given.seconds)
    else:
        with open(given.source) as file:
            samples = [json.loads(line) for line in file]
    if given.record:
        with open(given.record, "w") as file:
            file.writelines(json.dumps(s) + "\n" for s in samples)
    begin, end, columns = columns_of(samples)
    values = {name: [c[name] for c in columns] for name in columns[0]}
    picture = Picture(begin, end, given.title, 3)
    picture.panel(0, "KV blocks in use", round_up(max(values["used"])), " %", [("live", "#2e86ab", values["used"])])
    picture.panel(1, "sequences", round_up(max(r + w for r, w in zip(values["running"], values["waiting"]))), "",
                  [("running", "#3c8d5a", values["running"]), ("waiting", "#f2b134", values["waiting"])])
    tokens = [("generated", "#3c8d5a", values["generated"]), ("prompt, computed", "#8e6bbf", values["computed"]),
              ("prompt, found", "#d5c6e8", values["found"])]
    picture.panel(2, f"tokens in {(end - begin) / plot_simulation.COLUMNS * 1e3:.0f} ms",
                  round_up(max(sum(v) for v in zip(*(t[2] for t in tokens)))), "", tokens)
    picture.write(given.picture)


if __name__ == "__main__":
    main()
