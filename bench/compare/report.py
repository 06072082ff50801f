"""Results of all runs on one kind of machine: kept as JSON, told as Markdown tables."""
import json
import statistics

import machine
from turns import Figure


class Results:
    """A JSON file and a Markdown file; what is measured again replaces what was there."""

    def __init__(self, folder, cpu):
        self.json_path, self.cpu = folder / f"{machine.slug(cpu)}.json", cpu
        self.kept = json.loads(self.json_path.read_text()) if self.json_path.exists() else {}
        self.kept.setdefault("figures", [])

    def update(self, figures, peaks, versions, notes):
        key = lambda f: (f["section"], f["model"], f["name"], sorted(f["values"]))  # noqa: E731
        new = [f.__dict__ for f in figures]
        fresh = [key(f) for f in new]
        self.kept["figures"] = [f for f in self.kept["figures"] if key(f) not in fresh] + new
        before = self.kept.get("machine", {}).get("peaks", {})
        self.kept["machine"] = {**self.cpu, "peaks": {name: max(value, before.get(name, 0)) for name, value in peaks.items()}}
        self.kept.setdefault("versions", {}).update(versions)
        self.kept["notes"] = sorted({*self.kept.get("notes", []), *notes})

    def write(self):
        self.json_path.parent.mkdir(parents=True, exist_ok=True)
        self.json_path.write_text(json.dumps(self.kept, indent=1) + "\n")
        self.json_path.with_suffix(".md").write_text(markdown(self.kept))
        return self.json_path


def number(value):
    if value is None:
        return "–"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def cell(figure, side):
    """The median, and the least and greatest of several."""
    values = figure.values.get(side)
    if not values:
        return f"missing: {figure.missing[side].splitlines()[0]}" if side in figure.missing else "–"
    middle = number(statistics.median(values))
    return middle if len(values) == 1 else f"{middle} ({number(min(values))}–{number(max(values))})"


def target_text(figure):
    parts = [f"≥ {target:.2g} × {side}" for side, target in figure.targets.items() if side in figure.values or side in figure.missing]
    if figure.peak_instead and parts:
        parts[-1] += f" or {figure.peak_instead:.2f} of peak"
    if figure.peak_too and parts:
        parts.append(f"≥ {figure.peak_too:.2f} of peak")
    if figure.limit is not None:
        parts.append(f"{'≥' if figure.higher_is_better else '≤'} {number(figure.limit)}")
    return ", ".join(parts)


def table(figures):
    """One Markdown table of figures that were measured with the same sides."""
    sides = list(dict.fromkeys(side for f in figures for side in [*f.values, *f.missing]))
    others = [side for side in sides if side != "Quire"]
    head = ["", "unit", *sides, *(f"Quire / {side}" for side in others), "target", "reached"]
    if any(f.peaks for f in figures):
        head.append(f"of the machine's peak: {', '.join(sides)}")
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for f in figures:
        row = [f.name, f.unit, *(cell(f, side) for side in sides)]
        row += [f"{f.ratio(side):.2f}" if f.ratio(side) else "–" for side in others]
        row += [target_text(f), {True: "yes", False: "**no**", None: ""}[f.reached()]]
        if any(f.peaks for f in figures):
            row.append(", ".join(f"{f.peaks[side]:.2f}" if side in f.peaks else "–" for side in sides))
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def grouped(figures):
    """{(section, model, sides): figures}, in the order of measuring."""
    groups = {}
    for f in figures:
        groups.setdefault((f.section, f.model, tuple(sorted([*f.values, *f.missing]))), []).append(f)
    return groups


def markdown(kept):
    box, figures = kept["machine"], [Figure(**f) for f in kept["figures"]]
    peaks = ", ".join(f"{name} {value:g}" for name, value in box["peaks"].items() if value)
    text = [f"# {box['name']}, {box['threads']} threads", "",
            f"Family {box['family']}, model {box['model']}; {', '.join(box['flags'])}.", "",
            f"The greatest peaks that our own probes ever saw here (10^9 multiply-adds a second of one thread and of all, GB/s of all): {peaks}. "
            "Fractions are of those of the same run.", "",
            "Medians (least–greatest) of rounds in turns. A ratio says how many times better Quire is. See [benchmarks](../../docs/benchmarks.md).", ""]
    text += [f"- {name}: {version}" for name, version in kept["versions"].items()] + [""]
    for (section, model, _), group in grouped(figures).items():
        text += [f"## {section}: {model}", "", table(group), ""]
        noted = {}
        for f in group:
            noted.setdefault(f.note, []).append(f.name)
        text += [f"{', '.join(names)}: {note}" + "\n" for note, names in noted.items() if note]
        settings = {side: how for f in group for side, how in f.settings.items() if how}
        text += [f"{side}: `{how}`" + "\n" for side, how in settings.items()]
        text += [f"Measured {', '.join(sorted({f.date for f in group}))}.", ""]
    text += ["## Notes", ""] + [f"- {note}" for note in kept["notes"]] if kept.get("notes") else []
    return "\n".join(text).rstrip() + "\n"
