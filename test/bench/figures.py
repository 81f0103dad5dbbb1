# SPDX-License-Identifier: Apache-2.0
"""figures: what a measurement is, and how many of them become a table."""
import dataclasses
import math


@dataclasses.dataclass
class Figure:
    """`budget` None: only reported. `fails`: deterministic, so that missing the budget is a failure of the run."""

    name: str
    unit: str
    value: float
    budget: float | None
    how: str
    fails: bool = False

    @property
    def passes(self):
        return None if self.budget is None else self.value <= self.budget

    def as_json(self):
        return {"name": self.name, "unit": self.unit, "value": self.value, "budget": self.budget, "pass": self.passes, "how": self.how}


def quantile(values, q):
    """The smallest value that at least a share q of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)]


def median(values):
    return quantile(values, 0.5)


def number(x):
    """Three digits that mean something."""
    if x is None:
        return ""
    if x == 0 or abs(x) >= 100:
        return f"{x:,.0f}"
    return f"{x:.{max(0, 2 - math.floor(math.log10(abs(x))))}f}"


def _verdict(f):
    return {None: "", True: "ok", False: "OVER"}[f.passes]


def _cells(f):
    return [f.name, number(f.value), f.unit, "" if f.budget is None else "<= " + number(f.budget), _verdict(f)]


def table(figures):
    """For a terminal."""
    rows = [["figure", "value", "unit", "budget", ""]] + [_cells(f) for f in figures]
    widths = [max(len(r[i]) for r in rows) for i in range(5)]
    lines = []
    for r in rows:
        lines.append(f"{r[0]:<{widths[0]}}  {r[1]:>{widths[1]}} {r[2]:<{widths[2]}}  {r[3]:>{widths[3]}}  {r[4]}".rstrip())
    return "\n".join(lines)


def markdown(figures):
    lines = ["| figure | value | budget | | how |", "|---|--:|--:|---|---|"]
    for f in figures:
        name, value, unit, budget, verdict = _cells(f)
        lines.append(f"| {name} | {value} {unit} | {budget} | {verdict} | {f.how} |")
    return "\n".join(lines)
