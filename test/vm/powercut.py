#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""powercut: a machine loses its power again and again, at random moments, while what is wanted of it changes. TAP on standard output.

usage: powercut.py [--cuts N] [--cuts-only] [--hunt AGENT] [--seed S] [--json FILE] [--page FILE] [--keep]

A seed decides when the power goes and what the disks lose of their write cache; the machine itself never does the same twice. Seven of ten cuts
come right after a write, when a flush is due; a third come while the machine is still booting. It comes back in one of three ways: as it was;
without a network; without a network and with its clock at 1970. Then, without --cuts-only, limits.py and groups.py on the same machine.

  --hunt AGENT  that program in place of the agent; it is broken on purpose, and something must be found within N cuts
  --json FILE   everything that was counted
  --page FILE   the same as a part of docs/RELIABILITY.md, if nothing failed
  --keep        disks and logs stay, and where is said; they do anyway when something failed
"""
import argparse
import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bench"))

import machine  # noqa: E402
import report  # noqa: E402
from groups import Groups  # noqa: E402
from limits import Limits  # noqa: E402
from rig import BenchError, Rig, wait_for  # noqa: E402
from tap import Tap  # noqa: E402
from world import DIR, FILES, Ledger, Monotonic, Server, World, condition, look, not_told  # noqa: E402

LONG = 240  # seconds that only a defect takes
REST = 60  # seconds without enough writes, after which a disk counts as resting
WAYS = ("online", "offline", "1970")
EPOCH = "1970-01-01T00:00:00"


@dataclasses.dataclass
class Cut:
    way: str
    early: bool  # while the machine was booting
    at_stake: int  # sectors that the disks had not flushed
    lost: int  # of those, what the cut took
    first_workload_s: float | None = None  # uptime when the first one ran again
    converged_s: float | None = None  # from the cable, or from power on, until the server knew of everything as it is
    failed: bool = False


class Rounds:
    def __init__(self, rig, tap, seed, program=None):
        self.rig, self.tap, self.seed, self.rng = rig, tap, seed, random.Random(f"cuts {seed}")
        self.cluster = rig.cluster()
        self.machine = machine.Machine(rig, os.path.join(rig.disk, "vm"), self.cluster.port, program)
        self.world, self.server = World(self.cluster, seed), Server(self.cluster)
        self.ledger, self.monotonic = Ledger(), Monotonic(Server(self.cluster))
        self.cuts, self.torn, self.salvaged, self.unexpected = [], [], [], []
        self.back_online_s = []  # limits.py

    # --- the beginning

    def enrol(self):
        self.machine.start()
        self.machine.wait_up()
        join = subprocess.run([self.rig.limpetctl, "node", "add", "vm", "--server", "https://kubernetes.default.svc:6443", "--force"],
                              env=self.cluster.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if join.returncode != 0:
            raise BenchError(f"node add: {join.stderr[-300:]}")
        self.answers()
        self.machine.put("limpet join", join.stdout)
        self.world.create()
        self.monotonic.start()
        with self.world.hold:
            self.converge()

    def answers(self):
        wait_for("the agent answers", LONG, lambda: self.machine.run("limpet status >/dev/null")[0] <= 1, 0.3)

    # --- one cut

    def live(self, seconds):
        """The machine works, is watched, and loses its power after so long: then, or right after one of the next writes to a disk."""
        power = threading.Timer(seconds, self.pull_the_plug)
        power.start()
        try:
            while True:
                self.ledger.witness(look(self.machine))
        except (BenchError, OSError, ValueError):  # the power went while it spoke
            power.join()
            self.is_off()

    def pull_the_plug(self):
        kill = self.machine.process.kill
        if self.cuts and self.rng.random() < 0.3:
            kill()
        else:
            self.rng.choice(self.machine.disks).fuse = (self.rng.randrange(1, 30), kill)

    def boot_until(self, seconds):
        """So long, and then right after a write; a boot makes some all the time."""
        time.sleep(seconds)
        self.pull_the_plug()
        self.is_off()

    def is_off(self):
        """A disk at rest burns no fuse (that of the system, once it has booted): then the power goes all the same."""
        try:
            self.machine.process.wait(REST)
        except subprocess.TimeoutExpired:
            self.machine.process.kill()
            self.machine.process.wait()

    def cut(self, way, early):
        kept = self.rng.choice((0.0, 0.3, 0.7, 0.95)) if self.cuts else 0.0
        at_stake, lost = self.machine.cut(self.rng, kept)
        self.cuts.append(Cut(way, early, at_stake, lost))
        return self.cuts[-1]

    def come_back(self, cut):
        """Power on in the way of `cut`, until all is as it should be."""
        began = time.monotonic()
        self.machine.start(cable=cut.way == "online", clock=EPOCH if cut.way == "1970" else None)
        self.machine.wait_up()
        self.answers()
        self.judge_what_was_left()
        if cut.way != "online":
            self.judge_alone(cut)
            began = time.monotonic()
            self.machine.set_cable(True)
        with self.world.hold:
            self.converge()
            cut.converged_s = time.monotonic() - began
        cut.first_workload_s = float(self.machine.must("cat /run/first"))

    def judge_what_was_left(self):
        """Before the agent touched anything: each file is whole, and the store is."""
        said = self.machine.must("cat /run/at-boot.state; cd /run/at-boot && sha256sum -- * | sed 's/^/file /'")
        for line in said.splitlines():
            if "corrupt" in line:
                self.salvaged.append(line)
            if line.startswith("file "):
                digest, name = line[5:].split("  ")
                if name in sum(FILES.values(), []) + ["owed.seen"] and digest not in self.world.ever:
                    self.torn.append(f"{name} after cut {len(self.cuts)}")
                if name == "twice":
                    self.unexpected.append(f"two instances of one app at once, before cut {len(self.cuts)}")

    def judge_alone(self, cut):
        """Without a network: it runs what it knew, removes nothing, and says what it thinks of its clock."""
        seen, runs = None, self.cron_runs()

        def as_cached():
            nonlocal seen
            seen = look(self.machine)
            return seen.objects and seen.follows_its_cache() is None

        try:
            wait_for("the machine is as its cache wants it", LONG, as_cached, 0.3)
        except BenchError:
            raise BenchError(f"{cut.way}: {seen.follows_its_cache() if seen.objects else 'no objects'}") from None
        self.ledger.witness(seen)
        if seen.status["link"]["state"] != "Offline":
            self.unexpected.append(f"the link is {seen.status['link']['state']} without a cable")
        for name, generation in self.ledger.cached.items():
            if name not in seen.objects or seen.objects[name]["generation"] < generation:
                self.unexpected.append(f"{name} was stored in generation {generation} and is not after cut {len(self.cuts)}")
        trusted = condition({"status": seen.statuses.get("vm")}, "ClockTrusted")
        if cut.way == "1970" and trusted != "False":
            self.unexpected.append(f"1970, and ClockTrusted is {trusted}")
        if cut.way == "1970" and self.cron_runs() != runs:
            self.unexpected.append(f"a schedule ran by a clock that nobody trusts, after cut {len(self.cuts)}")

    def cron_runs(self):
        return sum(m[:2] == ["begin", "cron"] for m in self.machine.marks())

    def converge(self):
        why = "nothing was looked at"

        def settled():
            nonlocal why
            seen = look(self.machine)
            self.ledger.witness(seen)
            why = self.unsettled(seen)
            return why is None

        try:
            wait_for("all is as wanted, and told", LONG, settled, 0.3)
        except BenchError:
            raise BenchError(f"it does not converge: {why}") from None
        self.ledger.settle(self.server)

    def unsettled(self, seen):
        status = seen.status
        if status is None or status["link"]["state"] != "Online":
            return f"the link: {status and status['link']}"
        objects = self.server.objects()
        for name, o in objects.items():
            if name not in seen.objects or seen.objects[name]["generation"] != o["metadata"]["generation"]:
                return f"{name} is not known in its generation {o['metadata']['generation']}"
        if status["outbox"]["eventsPending"] > 0:
            return f"the outbox: {status['outbox']}"
        if status["store"].get("damagedFile"):
            self.salvaged.append(status["store"]["damagedFile"])
        return seen.follows_its_cache() or not_told(objects, seen)

    def round(self, way, early):
        """One cut, or two when the machine loses its power again while it boots."""
        try:
            self.live(self.rng.uniform(1, 10))
            cut = self.cut(way, False)
            if early:
                self.machine.start(cable=way == "online", clock=EPOCH if way == "1970" else None)
                self.boot_until(self.rng.uniform(1, 14))
                cut = self.cut(way, True)
            self.come_back(cut)
        except BenchError as e:
            self.cuts[-1].failed = True
            raise BenchError(f"cut {len(self.cuts)} ({way}): {e}") from None
        self.tap.diag(f"cut {len(self.cuts)} {cut.way}{', while booting' if cut.early else ''}: {cut.lost} of {cut.at_stake} unflushed sectors lost; "
                      f"first workload {cut.first_workload_s:.1f} s after the kernel, converged in {cut.converged_s:.1f} s")

    def end(self):
        """Nothing is changed or watched any more."""
        for thread in (self.world, self.monotonic):
            thread.stop()
            if thread.failure is not None:
                raise thread.failure

    def run(self, cuts, enough=lambda: False):
        """At least so many, unless it is enough after a round."""
        number = 0
        while len(self.cuts) < cuts and not enough():
            early = cuts > len(WAYS) and self.rng.random() < 0.5
            self.round(WAYS[number % len(WAYS)], early)
            number += 1

    def faults(self):
        """Everything so far that must not be, in words."""
        twice, not_run = self.ledger.judge_marks(self.machine.marks())
        return [*self.torn, *self.salvaged, *self.ledger.lost, *self.ledger.twice, *twice, *not_run, *self.monotonic.backward, *self.unexpected]


def check(rounds, tap, failure):
    n = len(rounds.cuts)
    tap.ok(failure is None, f"{n} power cuts: each time all is as wanted again, and the server knows it", failure)
    tap.ok(any(c.lost for c in rounds.cuts), "the disks did lose what was not flushed")
    tap.ok(not rounds.torn, "every managed file was one of the versions ever wanted, whole, before the agent ran", rounds.torn)
    tap.ok(not rounds.salvaged, "the store was never damaged", rounds.salvaged)
    tap.ok(not rounds.ledger.lost, f"nothing that was stored is lost: {len(rounds.ledger.told)} events, and every status", rounds.ledger.lost)
    tap.ok(not rounds.ledger.twice, "nothing is told twice", rounds.ledger.twice)
    twice, not_run = rounds.ledger.judge_marks(rounds.machine.marks())
    tap.ok(not twice, f"no job that runs at most once began twice, of {rounds.cron_runs()} runs by schedule and {rounds.world.version['once']} others", twice)
    tap.ok(not not_run, f"each run that is said to have succeeded did, {len(rounds.ledger.succeeded)} of them", not_run)
    tap.ok(not rounds.monotonic.backward, "no status of an older spec after one of a newer", rounds.monotonic.backward)
    tap.ok(not rounds.unexpected, "alone it forgets nothing, runs nothing twice, and owns up to its clock", rounds.unexpected)


def tell(rounds, tap, wanted):
    result = report.summary(rounds)
    tap.diag(json.dumps({k: v for k, v in result.items() if k != "each"}))
    if wanted.json:
        with open(wanted.json, "w", encoding="utf-8") as f:
            json.dump(result, f, indent=1)
    if wanted.page and tap.failed == 0:
        report.put_into(wanted.page, report.markdown(result))


def full(rounds, tap, wanted):
    failure = None
    try:
        rounds.run(wanted.cuts)
    except BenchError as e:
        failure = str(e)
    rounds.end()
    check(rounds, tap, failure)
    if failure is None and not wanted.cuts_only:
        Limits(rounds, tap).run()
        Groups(rounds, tap).run()
    tell(rounds, tap, wanted)


def hunt(rounds, tap, cuts, failure=None):
    """The agent is broken on purpose: the first thing that is found is enough."""
    try:
        rounds.run(cuts, rounds.faults)
    except BenchError as e:
        failure = str(e)
    rounds.end()
    found = rounds.faults() + ([failure] if failure else [])
    tap.ok(found, f"the broken agent is found, by cut {len(rounds.cuts)} of at most {cuts}")
    for word in found:
        tap.diag(word)


def own_rig(keep):
    """The bench's, under a name of its own: its clean-ups and ours do not meet."""
    rig = Rig(keep)
    os.rmdir(rig.ram)
    rig.ram = tempfile.mkdtemp(prefix="vm-rig.", dir=os.path.dirname(rig.ram))
    return rig


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", type=int, default=3)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    parser.add_argument("--cuts-only", action="store_true")
    parser.add_argument("--hunt")
    parser.add_argument("--json")
    parser.add_argument("--page")
    parser.add_argument("--keep", action="store_true")
    wanted = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    tap = Tap()
    tap.diag(f"seed {wanted.seed}")
    rig = own_rig(wanted.keep)
    try:
        machine.build_images()
        rounds = Rounds(rig, tap, wanted.seed, wanted.hunt)
        rounds.enrol()
        if wanted.hunt:
            hunt(rounds, tap, wanted.cuts)
        else:
            full(rounds, tap, wanted)
    except BenchError as e:
        tap.bail_out(str(e))
    finally:
        rig.keep = rig.keep or tap.failed > 0
        rig.close()
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
