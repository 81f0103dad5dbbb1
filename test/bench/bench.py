#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench: the numbers of DESIGN.md, measured. A table on standard output, build/bench.json, and docs/BENCH.md after a complete run.

usage: bench.py [--quick] [--undisturbed] [--only NAME]... [--keep] [--list]

  --quick       fewer samples, outages of 30 s instead of 5 min; under 4 minutes instead of about 12. docs/BENCH.md stays as it is
  --undisturbed on a machine that is busy with other things: what measures how long something takes runs at real-time priority, its API
                server and agent included. BENCH.md says so
  --only NAME   only these measurements
  --keep        logs and state of the agents stay, and where is said
  --list        their names

Exit: 0; 1 a deterministic figure is over its budget, or a measurement failed. A budget of time that is missed is only shown: machines
differ, and so does what else they do.
"""
import argparse
import datetime
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
import traceback

import peers
import proc
import rows_idle
import rows_modes
import rows_outage
import rows_policy
import rows_reaction
import rows_static
import rows_store
import rows_units
from figures import markdown, table
from rig import OUT, TOP, Rig

# Alone: figures of time, while nothing else goes on. Together: they mostly wait, each with agents of its own.
ALONE = [("size", rows_static.size), ("backoff", rows_static.backoff), ("reaction", rows_reaction.reaction),
         ("policy", rows_policy.policy)]
TOGETHER = [("refused", rows_outage.refused), ("dropped", rows_outage.dropped), ("modes", rows_modes.modes), ("idle", rows_idle.idle),
            ("units", rows_units.units)]
# One after the other, while those wait.
MEANWHILE = [("objects", rows_idle.objects), ("store", rows_store.store), ("replay", rows_outage.replay)]
# What --undisturbed is about. Outages are not: they are waits, of seconds.
TIMED = ("reaction", "policy", "replay")
ORDER = ["size", "objects", "idle", "reaction", "policy", "refused", "dropped", "backoff", "replay", "store", "modes", "units"]


class Bench:
    def __init__(self, rig, wanted):
        self.rig, self.quick, self.undisturbed, self.only = rig, wanted.quick, wanted.undisturbed, wanted.only
        self.figures, self.failed = {}, []

    def pick(self, full, quick):
        return quick if self.quick else full

    def wants(self, name):
        return not self.only or name in self.only

    def measure(self, name, fn):
        """A measurement that fails leaves the others their figures."""
        began, load = time.monotonic(), proc.load()
        say(f"{name} begins (load {load})")
        try:
            prefer(self.undisturbed and name in TIMED)
            for figure in fn(self):
                self.figures.setdefault(name, []).append(figure)
            say(f"{name} took {time.monotonic() - began:.0f} s")
        except Exception:  # pylint: disable=broad-except
            self.failed.append(name)
            say(f"{name} failed\n{traceback.format_exc()}")
        finally:
            prefer(False)

    def run(self):
        chosen = [[(n, f) for n, f in group if self.wants(n)] for group in (ALONE, TOGETHER, MEANWHILE)]
        for name, fn in chosen[0]:
            self.measure(name, fn)
        if chosen[1] or chosen[2]:
            self.rig.cluster()
        threads = [threading.Thread(target=self.measure, args=pair) for pair in chosen[1]]
        for t in threads:
            t.start()
        for name, fn in chosen[2]:
            self.measure(name, fn)
        for t in threads:
            t.join()

    def all_figures(self):
        return [f for name in ORDER for f in self.figures.get(name, [])]


def prefer(on):
    """This thread, and what it starts from now on, before everything else on the machine; or like everybody else."""
    if on:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    elif os.sched_getscheduler(0) != os.SCHED_OTHER:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def in_top(*command):
    return subprocess.run(command, cwd=TOP, stdout=subprocess.PIPE, text=True, check=False).stdout.strip()


def machine():
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8") if line.startswith("model name")), platform.machine())
    kernel = platform.release().split("-")[0]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} x {cpu}, {memory:.0f} GiB, Linux {kernel}"


def ours(figures):
    by_name = {f.name: f.value for f in figures}
    rounded = lambda name, digits: round(by_name[name], digits) if name in by_name else None
    return {"MB": rounded("memory, idle", 1), "CPU": rounded("CPU, idle", 3), "wakeups": rounded("wakeups, idle", 0),
            "back": rounded("back after 5 min away, connections refused", 1), "reaction": rounded("PATCH answered -> file changed, median", 1)}


def document(bench, figures, loads):
    preferred = " Reactions and the replay were measured at real-time priority, since the machine was busy." if bench.undisturbed else ""
    return f"""# Numbers

Written by `make bench` on {datetime.date.today()}, commit {in_top("git", "describe", "--always", "--dirty")}, on {machine()};
load average {loads[0]} at the start, {loads[1]} at the end (the bench itself makes some of it).{preferred} A budget is what DESIGN.md promises.

{markdown(figures)}

## Beside others

All but the first line were measured elsewhere, on one such machine, each agent idle in the same role; they are repeated here for scale.

{peers.table(ours(figures))}
"""


def report(bench, loads):
    figures = bench.all_figures()
    with open(os.path.join(OUT, "bench.json"), "w", encoding="utf-8") as f:
        json.dump([x.as_json() for x in figures + list(peers.figures())], f, indent=1)
        f.write("\n")
    print(table(figures))
    print("\n" + peers.table(ours(figures)))
    if not (bench.quick or bench.only or bench.failed):
        with open(os.path.join(TOP, "docs", "BENCH.md"), "w", encoding="utf-8") as f:
            f.write(document(bench, figures, loads))
    over = [f.name for f in figures if f.fails and f.passes is False]
    for name in over:
        say(f"over its budget: {name}")
    for name in bench.failed:
        say(f"failed: {name}")
    return 1 if over or bench.failed else 0


def options():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--undisturbed", action="store_true")
    parser.add_argument("--only", action="append", default=[], choices=ORDER, metavar="NAME")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--list", action="store_true")
    return parser.parse_args()


def main():
    wanted = options()
    if wanted.list:
        print("\n".join(ORDER))
        return 0
    if os.geteuid() != 0:
        say("only root may make network namespaces and mount a file system")
        return 1
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    before = proc.load()
    rig = Rig(wanted.keep)
    try:
        bench = Bench(rig, wanted)
        bench.run()
        return report(bench, (before, proc.load()))
    finally:
        rig.close()


if __name__ == "__main__":
    sys.exit(main())
