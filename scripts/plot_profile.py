#!/usr/bin/env python3
"""Draws the steps of a recording of `quire serve --profile FILE` as an SVG: their time and their tokens, over time.

    scripts/plot_profile.py trace.json picture.svg [--title T] [--from S] [--to S]
"""
import argparse
import json

import plot_simulation
from plot_simulation import Picture, round_up


def steps_of(events):
    """(begin, seconds, tokens) of each step with a forward pass."""
    spans = sorted((e["ts"], -e["dur"], e["name"], e.get("args", {}).get("rows", 0)) for e in events
                   if e.get("ph") == "X" and e["name"] in ("step", "forward"))
    found = []
    for (begin, length, name, _), (_, _, inner, tokens) in zip(spans, spans[1:]):
        if name == "step" and inner == "forward":
            found.append((begin / 1e6, -length / 1e6, tokens))
    return found


def columns_of(steps):
    """The longest step and the most tokens of a step, of equal stretches of time; a step counts in all that it touches."""
    begin, end = steps[0][0], steps[-1][0] + steps[-1][1]
    columns = [[0.0, 0] for _ in range(plot_simulation.COLUMNS)]
    for at, seconds, tokens in steps:
        first, last = (int((t - begin) / (end - begin) * len(columns)) for t in (at, at + seconds))
        for column in columns[first:last + 1]:
            column[0], column[1] = max(column[0], seconds * 1e3), max(column[1], tokens)
    return begin, end, [c[0] for c in columns], [c[1] for c in columns]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("trace")
    arguments.add_argument("picture")
    arguments.add_argument("--title", default="")
    arguments.add_argument("--from", type=float, default=0, dest="begin", help="seconds after the first step")
    arguments.add_argument("--to", type=float, default=float("inf"), dest="end")
    given = arguments.parse_args()
    with open(given.trace) as file:
        steps = steps_of(json.load(file)["traceEvents"])
    first = steps[0][0]
    begin, end, millis, tokens = columns_of([s for s in steps if given.begin <= s[0] - first <= given.end])
    picture = Picture(begin, end, given.title, 2)
    picture.panel(0, "time of a step", round_up(max(millis)), " ms", [("longest", "#2e86ab", millis)])
    picture.panel(1, "tokens of a step", round_up(max(tokens)), "", [("most", "#8e6bbf", tokens)])
    picture.write(given.picture)


if __name__ == "__main__":
    main()
