# SPDX-License-Identifier: Apache-2.0
"""report: what the runs of one fault came to, as a row; rows as a table and as docs/RELIABILITY.md."""
import dataclasses
import math

BEGIN, END = "<!-- torture: made by `make torture`, do not edit -->", "<!-- torture: end -->"


@dataclasses.dataclass
class Row:
    fault: str
    how: str = ""
    tried: int = 0
    seen: int = 0                                        # observations that the witnesses compared
    lost: list = dataclasses.field(default_factory=list)
    twice: list = dataclasses.field(default_factory=list)
    wrong: list = dataclasses.field(default_factory=list)   # what else was promised and did not come
    seconds: list = dataclasses.field(default_factory=list)  # to converge, one a try
    changes: int = 0                                     # specs changed on the server ...
    arrived: int = 0                                     # ... that machine and server agree on in the end
    harmed: int = 0                                      # files edited, processes killed ...
    healed: int = 0                                      # ... and put right by the node alone

    def judged(self, verdict):
        self.seen += verdict.seen
        self.lost += verdict.lost
        self.twice += verdict.twice

    def right(self, seconds):
        """Converged once: what was outstanding has come."""
        self.seconds.append(seconds)
        self.arrived, self.healed = self.changes, self.harmed

    @property
    def good(self):
        return self.tried > 0 and not (self.lost or self.twice or self.wrong) and self.arrived == self.changes and self.healed == self.harmed

    def as_json(self):
        return dict(dataclasses.asdict(self), good=self.good)


def quantile(values, q):
    ordered = sorted(values)
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)] if ordered else None


def _time(value):
    return "" if value is None else f"{value:.1f}"


def cells(row):
    return [row.fault, str(row.tried), str(len(row.lost)), str(len(row.twice)), _time(quantile(row.seconds, 0.5)),
            _time(max(row.seconds, default=None)), f"{row.seen:,}", row.how]


HEAD = ["fault", "tried", "lost", "twice", "back, median s", "worst s", "observations compared", "how"]


def table(rows):
    lines = [HEAD[:-1]] + [cells(r)[:-1] for r in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join("  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths))) for line in lines)


def rate(good, all_of):
    """With as many digits as the number of tries can tell."""
    if not all_of:
        return "none"
    digits = max(0, math.ceil(math.log10(all_of)) - 2)
    return f"{math.floor(good / all_of * 100 * 10**digits) / 10**digits:.{digits}f} % ({good:,} of {all_of:,})"


def rates(rows):
    return (rate(sum(r.arrived for r in rows), sum(r.changes for r in rows)), rate(sum(r.healed for r in rows), sum(r.harmed for r in rows)))


def markdown(rows, facts):
    sync, repair = rates(rows)
    lines = [BEGIN, "", f"A whole run on {facts['date']}, commit {facts['commit']}, seed {facts['seed']}, {facts['minutes']} min, {facts['machine']}; "
             f"load average {facts['load']}.", "", "| " + " | ".join(HEAD) + " |", "|---|---:|---:|---:|---:|---:|---:|---|"]
    lines += ["| " + " | ".join(cells(r)) + " |" for r in rows]
    lines += ["", f"- Sync success: {sync}. Self-repair: {repair}.", ""]
    lines += [f"- {r.fault}: {'; '.join(r.wrong[:3])}" for r in rows if r.wrong]
    return "\n".join(lines + [END])


def put_into(path, text):
    """Between the marks; what people wrote around them stays."""
    page = open(path, encoding="utf-8").read()
    before, rest = page.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    with open(path, "w", encoding="utf-8") as f:
        f.write(before + text + after)
