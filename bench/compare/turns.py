"""Measuring sides in turns, and what is kept of each figure."""
import datetime
import statistics
from dataclasses import dataclass, field

import machine

disturbed = []  # shares of the processors that others used when measurements of the last turns began
PATIENCE_S = 60


@dataclass
class Figure:
    """One line of a table: values by side, all of one run."""
    section: str
    model: str
    name: str
    unit: str
    values: dict                                   # side: [value of each round]
    higher_is_better: bool = True
    targets: dict = field(default_factory=dict)    # side: least ratio of Quire to it
    limit: float | None = None                     # of Quire's own value
    peaks: dict = field(default_factory=dict)      # side: fraction of what the machine could do
    peak_instead: float | None = None              # a fraction that is as good as the ratio
    peak_too: float | None = None                  # a fraction that is asked for beside the ratio
    settings: dict = field(default_factory=dict)   # side: how it was run
    missing: dict = field(default_factory=dict)    # side: why it has no value
    note: str = ""
    flags: str = ""                                # of compare.py, beside --sections and --models; older results lack it
    date: str = field(default_factory=lambda: datetime.date.today().isoformat())

    def median(self, side):
        values = self.values.get(side)
        return statistics.median(values) if values else None

    def ratio(self, side):
        """How many times better Quire is."""
        ours, theirs = self.median("Quire"), self.median(side)
        if not ours or not theirs:
            return None
        return ours / theirs if self.higher_is_better else theirs / ours

    def reached(self):
        """True, False, or None where no target was measured."""
        found, peak = [], self.peaks.get("Quire", 0)
        if self.limit is not None and self.median("Quire") is not None:
            value = self.median("Quire")
            found.append(value >= self.limit if self.higher_is_better else value <= self.limit)
        for side, target in self.targets.items():
            if self.ratio(side) is not None:
                found.append(self.ratio(side) >= target or (self.peak_instead is not None and peak >= self.peak_instead))
        if self.peak_too is not None and peak:
            found.append(peak >= self.peak_too)
        return all(found) if found else None


def in_turns(sides, measure, rounds):
    """{side: {what: [values]}} of measure(name, side) -> {what: value}, in turns A B A B, every other round backwards."""
    disturbed.clear()
    found = {name: {} for name in sides}
    for number in range(rounds):
        for name in (list(sides) if number % 2 == 0 else list(reversed(sides))):
            if busy := machine.wait_until_quiet(PATIENCE_S):
                disturbed.append(busy)
            for what, value in measure(name, sides[name]).items():
                found[name].setdefault(what, []).append(value)
    return found


def values_of(found, what):
    return {side: values[what] for side, values in found.items() if what in values}
