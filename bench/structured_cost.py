#!/usr/bin/env python3
"""What a grammar costs a step: BATCH answers of TOKENS tokens at once, without one and with each of three, in turns.

    bench/structured_cost.py --base-url http://127.0.0.1:8000 [--batch 16] [--tokens 96] [--rounds 4]

All kinds generate the same number of tokens; the median over rounds of the ratio to the same round without a grammar is
the cost. "records" has steps whose token is forced, which spare the head; in "texts", long strings, hardly one is."""
import argparse
import concurrent.futures
import statistics
import time

import httpx

RECORDS = {"type": "array", "minItems": 1000, "items": {
    "type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer"}, "ok": {"type": "boolean"}},
    "required": ["name", "n", "ok"], "additionalProperties": False}}

TEXTS = {"type": "array", "minItems": 1000, "items": {"type": "string", "minLength": 200}}
PATTERNS = {"type": "array", "minItems": 1000, "items": {"type": "string", "pattern": "^[A-Z][a-z ]{20,60}[.]$"}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=4)
    args = parser.parse_args()
    client = httpx.Client(base_url=args.base_url, timeout=600, limits=httpx.Limits(max_connections=args.batch))

    def ask(i, fields):
        body = {"prompt": f"Records number {i} as JSON:", "max_tokens": args.tokens, "temperature": 1, "seed": i, **fields}
        answer = client.post("/v1/completions", json=body)
        answer.raise_for_status()
        return answer.json()["usage"]["completion_tokens"]

    def run(fields):
        begin = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(args.batch) as pool:
            counts = list(pool.map(lambda i: ask(i, fields), range(args.batch)))
        assert counts == [args.tokens] * args.batch, counts
        return (time.perf_counter() - begin) / args.tokens * 1000

    kinds = {"free": {"ignore_eos": True}, "records": {"structured_outputs": {"json": RECORDS}},
             "texts": {"structured_outputs": {"json": TEXTS}}, "patterns": {"structured_outputs": {"json": PATTERNS}}}
    times = {kind: [] for kind in kinds}
    for fields in kinds.values():
        run(fields)  # prompts cached, grammar compiled
    for _ in range(args.rounds):
        for kind, fields in kinds.items():
            times[kind].append(run(fields))
    for kind in list(kinds)[1:]:
        cost = statistics.median(with_it / free - 1 for with_it, free in zip(times[kind], times["free"]))
        print(f"batch {args.batch}, {kind}: {statistics.median(times['free']):.2f} ms a step without, "
              f"{statistics.median(times[kind]):.2f} ms with: {100 * cost:+.1f} %")
    for kind, values in times.items():
        print(f"  {kind}: " + " ".join(f"{value:.2f}" for value in values))


if __name__ == "__main__":
    main()
