#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torture: what breaks, on the real thing, and whether it comes right. A table on standard output, build/torture.json, and the table of
docs/RELIABILITY.md after a whole run in which every row is green.

usage: torture.py [--sample] [--seed N] [--only NAME]... [--keep] [--list]

  --sample      two minutes of it, told as TAP; docs/RELIABILITY.md stays as it is
  --seed N      the schedule of that seed; it is printed at the start. What the machine does with it is its own affair
  --only NAME   only these
  --keep        logs and state of the agents stay, and where is said
  --list        their names

Exit: 0; 1 something was lost, came twice, or did not come right.
"""
import argparse
import datetime
import json
import os
import random
import signal
import sys
import threading
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))

# pylint: disable=wrong-import-position
import away
import crashes
import identity
import machine
import report
from bench import in_top
from bench import machine as this_machine
from node import TorturedCluster
from rig import OUT, TOP, Rig

SCENARIOS = {
    "kills": lambda run: crashes.kills(run, False),
    "kills-bad-network": lambda run: crashes.kills(run, True),
    "network": crashes.network,
    "away": away.away,
    "disk": machine.full_disk,
    "clock": machine.clock,
    "reborn": away.reborn,
    "revoked": identity.revoked,
    "token": identity.token,
    "ca": identity.authority,
    "crd": identity.crd,
    "namespace": identity.namespace,
    "twins": identity.twins,
}
# Side by side, each line on a server of its own, for most of it is waiting. ca and crd change the server for everybody.
LINES = (("kills", "disk", "reborn", "token"), ("kills-bad-network", "clock", "revoked", "namespace"), ("network",), ("away", "twins"), ("ca",), ("crd",))
SAMPLE_LINES = (("kills-bad-network", "away", "disk", "reborn", "namespace"), ("clock", "kills", "revoked"), ("crd",))


class Run:
    def __init__(self, rig, wanted):
        self.rig, self.seed, self.sample = rig, wanted.seed, wanted.sample
        self.rows, self.failed, self.last_said = [], {}, 0.0
        self.local = threading.local()

    @property
    def cluster(self):
        return self.local.cluster

    def chance(self, name):
        return random.Random(f"{self.seed} {name}")

    def pick(self, full, sample):
        return sample if self.sample else full

    def step(self, row):
        """Now and then a word, so that nobody thinks it hangs."""
        if time.monotonic() - self.last_said > 20:
            self.last_said = time.monotonic()
            say(f"{row.fault}: {row.tried} tried, {len(row.seconds)} times right again")

    def scenario(self, name, cluster):
        self.local.cluster = cluster
        began = time.monotonic()
        try:
            for row in SCENARIOS[name](self):
                self.rows.append((name, row))
                say(f"{'ok  ' if row.good else 'FAIL'} {row.fault}: {row.tried} tried, {len(row.lost)} lost, {len(row.twice)} twice, "
                    f"back in {report.cells(row)[4] or '-'} s (worst {report.cells(row)[5] or '-'})")
        except Exception:  # pylint: disable=broad-except
            self.failed[name] = traceback.format_exc()
            say(f"{name} failed\n{self.failed[name]}")
        say(f"{name} took {time.monotonic() - began:.0f} s")

    def all_of(self, names):
        """`names`: only these; none: all that there are, or are in the sample."""
        lines = [(line[0], [n for n in line if not names or n in names]) for line in (SAMPLE_LINES if self.sample and not names else LINES)]
        threads = [threading.Thread(target=self.line, args=line, daemon=True) for line in lines if line[1]]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    def line(self, cluster_name, names):
        """One after the other."""
        cluster = TorturedCluster(self.rig, cluster_name)
        for n in names:
            self.scenario(n, cluster)
        cluster.command("down")

    def ordered(self):
        order = list(SCENARIOS)
        return [row for _, row in sorted(self.rows, key=lambda pair: order.index(pair[0]))]


def say(text):
    print("\n".join(f"# {line}" for line in text.split("\n")), file=sys.stderr, flush=True)


def tap(run):
    n = 0
    for row in run.ordered():
        n += 1
        print(f"{'ok' if row.good else 'not ok'} {n} - {row.fault}: {row.tried} tried, 0 lost, 0 twice, right again each time")
        if not row.good:
            print("\n".join(f"# {w}" for w in faults_of(row)))
    for name, why in run.failed.items():
        n += 1
        print(f"not ok {n} - {name} came to its end")
        print("\n".join(f"# {line}" for line in why.split("\n")[-8:]))
    print(f"1..{n}")


def faults_of(row):
    return [f"lost: {w}" for w in row.lost[:10]] + [f"twice: {w}" for w in row.twice[:10]] + row.wrong[:10] + \
        ([] if row.arrived == row.changes else [f"{row.arrived} of {row.changes} changes arrived"])


def write_json(run, facts):
    with open(os.path.join(OUT, "torture.json"), "w", encoding="utf-8") as f:
        json.dump({"facts": facts, "rows": [r.as_json() for r in run.ordered()], "failed": run.failed}, f, indent=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 1000000))
    parser.add_argument("--only", action="append", choices=SCENARIOS, default=[])
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--list", action="store_true")
    wanted = parser.parse_args()
    if wanted.list:
        print("\n".join(SCENARIOS))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began = time.monotonic()
    facts = {"date": datetime.date.today().isoformat(), "commit": in_top("git", "describe", "--always", "--dirty"), "seed": wanted.seed,
             "machine": this_machine(), "load": f"{os.getloadavg()[0]:.1f} at its beginning"}
    say(f"seed {wanted.seed}")
    rig = Rig(wanted.keep)
    run = Run(rig, wanted)
    try:
        run.all_of(wanted.only)
    finally:
        rig.close()
    facts["minutes"] = round((time.monotonic() - began) / 60)
    facts["load"] += f", {os.getloadavg()[0]:.1f} at its end"
    write_json(run, facts)
    good = bool(run.rows) and not run.failed and all(r.good for r in run.ordered())
    if wanted.sample:
        tap(run)
        return 0 if good else 1
    print(report.table(run.ordered()))
    print("\n".join(f"{r.fault}: {w}" for r in run.ordered() for w in faults_of(r)))
    if good and not wanted.only:
        report.put_into(os.path.join(TOP, "docs", "RELIABILITY.md"), report.markdown(run.ordered(), facts))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
