# SPDX-License-Identifier: Apache-2.0
"""limits: what else a whole machine can do to the agent: run out of memory, processes and disk, and lose its cable.

Runs on the machine that the power cuts left, after the world has stopped changing.
"""
import time

from rig import EDGE, BenchError, wait_for
from world import DIR, HUGE, NS, Seen, World, body, condition, look, sha

LONG = 240
HUNGRY = {"command": ["/usr/bin/tail", "/dev/zero"], "restartPolicy": "Never"}
LATE = {"command": ["/bin/sleep", "100000"], "terminationGracePeriodSeconds": 1}


class Limits:
    def __init__(self, rounds, tap):
        self.rounds, self.tap = rounds, tap
        self.pulls = min(5, len(rounds.cuts))  # of the cable; without an answer it takes the agent a quarter of a minute to notice
        self.machine, self.server, self.client = rounds.machine, rounds.server, rounds.cluster.client()

    def run(self):
        for part in self.parts():
            try:
                part()
            except BenchError as e:
                self.tap.ok(False, f"{part.__name__}: {part.__doc__}", str(e))

    def parts(self):
        return (self.memory, self.processes, self.restarts, self.full_store, self.full_root, self.cable)

    # --- words

    def unit(self, name):
        return self.machine.must(f"systemctl show limpet --property={name} --value").strip()

    def bound(self, **properties):
        self.machine.must("systemctl set-property --runtime limpet " + " ".join(f"{k}={v}" for k, v in properties.items()))

    def pids(self):
        """Of the workloads that never end by themselves."""
        return sorted((app, pid) for app, _, pid in look(self.machine).processes if app in ("steady", "single"))

    def app(self, name):
        return self.client.get(f"{EDGE}/{NS}/edgeapps/{name}")

    def create(self, name, spec):
        self.client.create(NS, "edgeapps", World._object("EdgeApp", name, spec))

    def until(self, what, is_so):
        wait_for(what, LONG, is_so, 0.3)
        self.tap.ok(True, what)

    def delete(self, name):
        self.client.delete(NS, "edgeapps", name)

        def gone():
            seen = look(self.machine)
            return seen.objects and name not in seen.objects

        wait_for(f"{name} is gone", LONG, gone, 0.3)

    # --- control groups

    def memory(self):
        """A workload hits the memory limit of the service's control group."""
        before, agent = self.pids(), self.unit("MainPID")
        self.bound(MemoryMax="64M", MemorySwapMax="0")
        self.create("hungry", HUNGRY)
        last = lambda: ((self.app("hungry").get("status") or {}).get("instances") or [{}])[0].get("lastExit")
        wait_for("the kernel ended it", LONG, last, 0.3)
        self.tap.ok((last()["signal"], last()["reason"]) == (9, "OOMKilled"), "a workload that ran out of memory is reported as OOMKilled", str(last()))
        self.tap.ok(self.pids() == before, "every other workload runs on")
        self.tap.ok(self.unit("MainPID") == agent, "and so does the agent")
        self.bound(MemoryMax="infinity")
        self.delete("hungry")

    def processes(self):
        """No process more may be made in the service's control group."""
        before = self.pids()
        self.bound(TasksMax=self.unit("TasksCurrent"))
        self.create("late", LATE)
        self.until("an app that cannot be started for want of processes says so", lambda: condition(self.app("late"), "Ready") == "False")
        self.bound(TasksMax="infinity")
        self.until("and runs once there may be more", lambda: condition(self.app("late"), "Ready") == "True")
        self.tap.ok(self.pids() == before, "every other workload ran on")
        self.delete("late")

    def restarts(self):
        """The agent ends, in order or not, in its delegated control group."""
        before = self.pids()
        for how in ("systemctl restart limpet", "systemctl kill --signal=KILL --kill-who=main limpet"):
            agent = self.unit("MainPID")
            self.machine.must(how)
            wait_for("there is another agent", LONG, lambda: self.unit("MainPID") not in ("0", agent), 0.3)
            self.rounds.answers()
            self.tap.ok(self.pids() == before, f"after {how.split(' limpet')[0]} every workload is the same process")

    # --- disks

    def full_store(self):
        """The file system of the store is full."""
        self.machine.run("dd if=/dev/zero of=/var/lib/limpet/fill bs=4k; sync")
        self.heals_here("while the store is full")
        failures = lambda: look(self.machine).status["store"]["commitFailures"]
        self.rounds.world.change("other", HUGE)
        self.until("a change that finds no room in the store is not taken", lambda: failures() > 0)
        self.machine.must("rm /var/lib/limpet/fill")
        self.rounds.converge()
        self.tap.ok(True, "freed, it takes what was changed meanwhile, and tells everything")

    def heals_here(self, when):
        """What ends is started again, and what is removed comes back."""
        (_, pid), = [p for p in self.pids() if p[0] == "steady"]
        self.machine.must(f"kill -KILL {pid}; rm {DIR}/plain.a")
        wanted = sha(body("plain.a", self.rounds.world.version["plain"]))

        def healed(seen: Seen):
            pids = [p for app, _, p in seen.processes if app == "steady"]
            return len(pids) == 1 and pids[0] != pid and seen.files.get("plain.a") == wanted

        self.until(f"{when}: a killed workload is started again, a removed file comes back", lambda: healed(look(self.machine)))

    def full_root(self):
        """The file system of the managed files is full."""
        before = self.pids()
        self.machine.run("dd if=/dev/zero of=/fill bs=64k; dd if=/dev/zero of=/fill2 bs=512; sync")
        self.rounds.world.change("other", HUGE + 1)
        self.until("a file that finds no room is reported", lambda: condition(self.server.objects()["other"], "Ready") == "False")
        seen = look(self.machine)
        self.tap.ok(seen.files.get("other.conf") in self.rounds.world.ever, "and left as it was, whole")
        self.tap.ok(self.pids() == before, "every workload runs on")
        self.machine.must("rm /fill /fill2")
        self.rounds.converge()
        self.tap.ok(True, "freed, it is written")

    # --- the cable

    def cable(self):
        """The cable is pulled and plugged in again."""
        for _ in range(self.pulls):
            self.machine.set_cable(False)
            wait_for("offline", LONG, lambda: self.machine.run("limpet status >/dev/null")[0] == 1, 0.3)
            self.machine.set_cable(True)
            began = time.monotonic()
            wait_for("online", LONG, lambda: self.machine.run("limpet status >/dev/null")[0] == 0, 0.1)
            self.rounds.back_online_s.append(time.monotonic() - began)
        self.rounds.converge()
        self.tap.ok(True, f"plugged in again it is online: after {', '.join(f'{s:.1f}' for s in self.rounds.back_online_s)} s")
