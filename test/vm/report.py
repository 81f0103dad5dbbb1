# SPDX-License-Identifier: Apache-2.0
"""report: what the power cuts came to, as JSON and as a part of docs/RELIABILITY.md."""
import dataclasses
import datetime
import os
import subprocess

from figures import quantile
from rig import TOP

BEGIN, END = "<!-- vm: made by `make vm-torture`, do not edit -->", "<!-- vm: end -->"
WAYS = {"online": "the power goes, and comes back", "offline": "... comes back without a network, which is plugged in later",
        "1970": "... and with the clock at 1970"}


def spread(values):
    values = [v for v in values if v is not None]
    return {"n": len(values), "median": round(quantile(values, 0.5), 1), "max": round(max(values), 1)} if values else None


def summary(rounds):
    """Everything that was counted, of a whole run."""
    by_way = {way: {"cuts": sum(c.way == way for c in rounds.cuts),
                    "converged_s": spread(c.converged_s for c in rounds.cuts if c.way == way),
                    "first_workload_s": spread(c.first_workload_s for c in rounds.cuts if c.way == way)} for way in WAYS}
    twice, not_run = rounds.ledger.judge_marks(rounds.machine.marks())
    return {"date": datetime.date.today().isoformat(), "seed": rounds.seed, "load": round(os.getloadavg()[2], 1),
            "commit": subprocess.run(["git", "-C", TOP, "describe", "--always"], stdout=subprocess.PIPE, text=True, check=False).stdout.strip(),
            "cuts": len(rounds.cuts), "while_booting": sum(c.early for c in rounds.cuts), "failed": sum(c.failed for c in rounds.cuts),
            "ways": by_way, "spec_changes": rounds.world.changes, "events": len(rounds.ledger.told), "lost": len(rounds.ledger.lost),
            "twice": len(rounds.ledger.twice), "jobs": rounds.world.version["once"] + rounds.world.version["sure"], "schedule_runs": rounds.cron_runs(),
            "jobs_succeeded": len(rounds.ledger.succeeded), "jobs_twice": len(twice), "jobs_not_run": len(not_run),
            "torn": len(rounds.torn), "salvaged": len(rounds.salvaged), "unexpected": len(rounds.unexpected),
            "sectors_at_stake": sum(c.at_stake for c in rounds.cuts), "sectors_lost": sum(c.lost for c in rounds.cuts),
            "back_online_s": spread(rounds.back_online_s), "each": [dataclasses.asdict(c) for c in rounds.cuts]}


def _row(words, way):
    back, first = way["converged_s"], way["first_workload_s"]
    return f"| {words} | {way['cuts']} | {back['median']} | {back['max']} | {first['median']} | {first['max']} |"


def markdown(s):
    lines = [BEGIN, "", f"A whole run on {s['date']}, commit {s['commit']}, seed {s['seed']}; the processor emulated in software, on 2 cores shared with other "
             f"work (load average {s['load']}).", "",
             "| fault | tried | right again, median s | worst s | first workload after the kernel, median s | worst s |", "|---|---:|---:|---:|---:|---:|"]
    lines += [_row(WAYS[way], s["ways"][way]) for way in WAYS]
    lines += ["", f"- {s['cuts']} cuts, {s['while_booting']} of them while the machine was booting; {s['failed']} after which it did not come right. "
              f"Lost {s['lost']} of {s['events']} events and all statuses that the store was seen to hold; told twice {s['twice']}.",
              f"- {s['spec_changes']} changes of specs meanwhile. Jobs: {s['jobs']} one-shots and {s['schedule_runs']} runs by schedule; began twice though "
              f"AtMostOnce {s['jobs_twice']}, said to have succeeded and did not {s['jobs_not_run']}.",
              f"- Files torn {s['torn']}, stores damaged {s['salvaged']}, though the disks lost {s['sectors_lost']} of {s['sectors_at_stake']} sectors that "
              f"were not flushed; things done alone that should not be {s['unexpected']}."]
    if s["back_online_s"]:
        lines.append(f"- A cable that is plugged in again: online after {s['back_online_s']['median']} s (median of {s['back_online_s']['n']}), "
                     f"{s['back_online_s']['max']} s at worst.")
    return "\n".join(lines + ["", END])


def put_into(path, text):
    """Between the marks; what people wrote around them stays."""
    with open(path, encoding="utf-8") as f:
        before, rest = f.read().split(BEGIN, 1)
    with open(path, "w", encoding="utf-8") as f:
        f.write(before + text + rest.split(END, 1)[1])
