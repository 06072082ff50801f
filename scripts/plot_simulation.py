#!/usr/bin/env python3
"""Draws a run of `quire simulate --steps FILE` as an SVG: blocks, sequences and tokens of steps over time.

    quire simulate --steps steps.jsonl ... && scripts/plot_simulation.py steps.jsonl picture.svg [--title T]
"""
import argparse
import json

WIDTH, LEFT, RIGHT, PANEL, GAP, TOP = 860, 70, 150, 120, 46, 40
COLUMNS = 200  # the run is averaged over so many stretches of equal time


def stretches(steps):
    """Means over equal stretches of time, weighted by the time of steps."""
    begin, end = steps[0]["start"], steps[-1]["start"] + steps[-1]["seconds"]
    width = (end - begin) / COLUMNS
    sums = [dict.fromkeys(("time", "live", "cached", "running", "waiting", "prompt", "generating"), 0.0) for _ in range(COLUMNS)]
    marks, before = [], 0
    for step in steps:
        if step["preemptions"] > before:
            marks.append(step["start"])
            before = step["preemptions"]
        blocks = step["num_blocks"] or 1
        values = {"live": step["used_blocks"] / blocks, "cached": step["cached_blocks"] / blocks, "running": step["running"],
                  "waiting": step["waiting"], "prompt": step["prompt_tokens"], "generating": step["generating"]}
        at, until = step["start"], step["start"] + step["seconds"]
        while at < until - 1e-12:
            column = min(COLUMNS - 1, int((at - begin) / width))
            part = min(until, begin + (column + 1) * width) - at
            if part <= 0:
                break
            sums[column]["time"] += part
            for name, value in values.items():
                sums[column][name] += part * value
            at += part
    for column in sums:
        for name in column:
            if name != "time" and column["time"] > 0:
                column[name] /= column["time"]
    return begin, end, sums, marks


class Picture:
    def __init__(self, begin, end, title, panels):
        self.begin, self.end = begin, end
        self.height = TOP + panels * (PANEL + GAP)
        self.parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" '
                      'font-family="sans-serif" font-size="12">',
                      f'<rect width="{WIDTH}" height="{self.height}" fill="white"/>',
                      f'<text x="{LEFT}" y="20" font-size="14">{title}</text>']

    def x(self, time):
        return LEFT + (time - self.begin) / (self.end - self.begin) * (WIDTH - LEFT - RIGHT)

    def panel(self, index, label, top_value, unit, areas, marks=()):
        """areas: (name, colour, values by column), stacked from below."""
        top = TOP + index * (PANEL + GAP)
        bottom = top + PANEL
        step = (WIDTH - LEFT - RIGHT) / COLUMNS
        base = [0.0] * COLUMNS
        self.parts.append(f'<text x="{LEFT}" y="{top - 6}">{label}</text>')
        for number, (name, colour, values) in enumerate(areas):
            upper = [b + v for b, v in zip(base, values)]
            points = [(LEFT + (i + 0.5) * step, bottom - min(1, u / top_value) * PANEL) for i, u in enumerate(upper)]
            lower = [(LEFT + (i + 0.5) * step, bottom - min(1, b / top_value) * PANEL) for i, b in enumerate(base)]
            outline = " ".join(f"{x:.1f},{y:.1f}" for x, y in points + lower[::-1])
            self.parts.append(f'<polygon points="{outline}" fill="{colour}"/>')
            self.parts.append(f'<rect x="{WIDTH - RIGHT + 14}" y="{top + 18 * number}" width="11" height="11" fill="{colour}"/>'
                              f'<text x="{WIDTH - RIGHT + 30}" y="{top + 10 + 18 * number}">{name}</text>')
            base = upper
        for time in marks:
            self.parts.append(f'<line x1="{self.x(time):.1f}" x2="{self.x(time):.1f}" y1="{top}" y2="{top + 8}" stroke="#c0392b"/>')
        self.parts.append(f'<rect x="{LEFT}" y="{top}" width="{WIDTH - LEFT - RIGHT}" height="{PANEL}" fill="none" stroke="#444"/>')
        for share in (0, 0.5, 1):
            self.parts.append(f'<text x="{LEFT - 6}" y="{bottom - share * PANEL + 4}" text-anchor="end">{top_value * share:g}{unit}</text>')
        for part in range(5):
            time = self.begin + (self.end - self.begin) * part / 4
            self.parts.append(f'<text x="{self.x(time):.0f}" y="{bottom + 15}" text-anchor="middle">{time - self.begin:.0f} s</text>')

    def write(self, path):
        with open(path, "w") as file:
            file.write("\n".join(self.parts + ["</svg>\n"]))


def round_up(value):
    scale = 1
    while scale * 10 < value:
        scale *= 10
    return next(m * scale for m in (1, 2, 5, 10, 20) if m * scale >= value) if value > 0 else 1


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("steps")
    arguments.add_argument("picture")
    arguments.add_argument("--title", default="")
    given = arguments.parse_args()
    with open(given.steps) as file:
        begin, end, columns, marks = stretches([json.loads(line) for line in file if line.strip()])
    values = {name: [c[name] for c in columns] for name in columns[0]}
    picture = Picture(begin, end, given.title, 3)
    picture.panel(0, f"KV blocks; {len(marks)} preemptions (red)", 100, " %",
                  [("live", "#2e86ab", [100 * v for v in values["live"]]), ("cached", "#a6cee3", [100 * v for v in values["cached"]])], marks)
    most = round_up(max(r + w for r, w in zip(values["running"], values["waiting"])))
    picture.panel(1, "sequences", most, "", [("running", "#3c8d5a", values["running"]), ("waiting", "#f2b134", values["waiting"])])
    most = round_up(max(p + g for p, g in zip(values["prompt"], values["generating"])))
    picture.panel(2, "tokens per step", most, "",
                  [("generating", "#3c8d5a", values["generating"]), ("of prompts", "#8e6bbf", values["prompt"])])
    picture.write(given.picture)


if __name__ == "__main__":
    main()
