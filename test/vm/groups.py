# SPDX-License-Identifier: Apache-2.0
"""groups: limits of runtime exec, held by control groups of version 2, which no other rig of ours has.

After limits.py, on the same machine. Its systemd is older than 254, so the groups are below limpet-apps.service.
"""
from limits import LATE, LONG, Limits
from rig import wait_for
from world import NS

BASE = "/sys/fs/cgroup/system.slice/limpet-apps.service/limpet"
NEVER = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
CAPPED = {**LATE, "resources": {"limits": {"memory": "32Mi", "cpu": "500m", "pids": 9}}}
BUSY = {"command": ["/bin/sh", "-c", "while :; do :; done"], "terminationGracePeriodSeconds": 1, "resources": {"limits": {"cpu": "50m"}}}
GREEDY = {"command": ["/bin/sh", "-c", "tail /dev/zero; exit 0"], **NEVER, "resources": {"limits": {"memory": "16Mi"}}}
# A shell that cannot fork ends with 2.
FORKING = {"command": ["/bin/sh", "-c", "for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done; exit 0"], **NEVER, "resources": {"limits": {"pids": 5}}}
UNIT = {"command": ["/usr/bin/tail", "/dev/zero"], **NEVER, "runtime": "systemd", "resources": {"limits": {"memory": "16Mi"}}}


class Groups(Limits):
    def parts(self):
        return (self.refused, self.held, self.ends, self.agents, self.supervisor, self.nothing_left)

    # --- words

    def instance(self, name):
        return ((self.app(name).get("status") or {}).get("instances") or [{}])[0]

    def ended(self, name):
        wait_for(f"{name} has ended", LONG, lambda: self.instance(name).get("lastExit"), 0.3)
        return self.instance(name)["lastExit"]

    def running(self, name, other_than=None):
        """Its pid, by the server."""
        pid = lambda: self.instance(name).get("pid")
        wait_for(f"{name} runs", LONG, lambda: pid() and pid() != other_than and self.instance(name).get("state") == "Running", 0.3)
        return pid()

    def group(self, pid):
        return "/sys/fs/cgroup" + self.machine.must(f"cat /proc/{pid}/cgroup").strip().split("::", 1)[1]

    def groups(self):
        return sorted(self.machine.must(f"find {BASE} -mindepth 1 -type d -printf '%f\\n'").split())

    def said(self, name, reason):
        events = self.client.get(f"/apis/events.k8s.io/v1/namespaces/{NS}/events")["items"]
        return [e["note"] for e in events if e["regarding"]["name"] == name and e["reason"] == reason]

    # --- parts

    def refused(self):
        """Nobody has given a control group to limpet."""
        self.create("capped", CAPPED)
        why = lambda: next((c["message"] for c in (self.app("capped").get("status") or {}).get("conditions", []) if c["type"] == "Ready" and c["status"] == "False"), "")
        self.until("an app with limits that nobody can hold is not started, and says what it takes", lambda: "limpet-apps.service" in why())
        self.tap.ok(self.machine.run(f"test -e {BASE}")[0] != 0, "no group is made")

    def held(self):
        """Limits are what the kernel was told."""
        self.machine.must("systemctl start limpet-apps && systemctl restart limpet")
        self.rounds.answers()
        group = self.group(self.running("capped"))
        self.tap.ok(group.startswith(BASE + "/"), "once there is one, it runs in a group of its own", group)
        said = self.machine.must(f"cd {group} && cat memory.max memory.swap.max memory.oom.group cpu.max pids.max; cat /proc/$(systemctl show limpet -P MainPID)/cgroup")
        self.tap.ok(said.split() == ["33554432", "0", "1", "50000", "100000", "9", "0::/system.slice/limpet.service"], "with its limits, and the agent is where it was", said)

    def ends(self):
        """Limits bite."""
        before = self.pids()
        for name, spec in ("greedy", GREEDY), ("forking", FORKING), ("busy", BUSY), ("unit", UNIT):
            self.create(name, spec)
        last = self.ended("greedy")
        self.tap.ok((last["signal"], last["reason"]) == (9, "OOMKilled"), "who runs out of its memory is reported as OOMKilled, also when it was not its first process", str(last))
        wait_for("it is told", LONG, lambda: any("as memory ran out" in note for note in self.said("greedy", "Killed")), 0.3)
        self.tap.ok(True, "as an event, too")
        last = self.ended("forking")
        self.tap.ok((last.get("code"), last.get("signal", 0)) == (2, 0), "who runs out of processes cannot fork", str(last))
        last = self.ended("unit")
        self.tap.ok(last["reason"] == "OOMKilled", "a unit that runs out of memory is reported as OOMKilled", str(last))
        group = self.group(self.running("busy"))
        throttled = lambda: int(self.machine.must(f"sed -n 's/^nr_throttled //p' {group}/cpu.stat"))
        wait_for("it is throttled", LONG, lambda: throttled() > 0, 0.3)
        self.tap.ok(True, "who wants more of the processor has to wait")
        self.tap.ok(self.pids() == before, "every other workload runs on")

    def agents(self):
        """Agents come and go."""
        pids = [self.running(name) for name in ("capped", "busy")]
        there = self.groups()
        self.machine.must(f"mkdir {BASE}/orphan")
        agent = self.unit("MainPID")
        self.machine.must("systemctl kill --signal=KILL --kill-who=main limpet")
        wait_for("there is another agent", LONG, lambda: self.unit("MainPID") not in ("0", agent), 0.3)
        self.rounds.answers()
        self.until("a group that an agent left empty is removed", lambda: "orphan" not in self.groups())
        self.tap.ok(self.groups() == there and len(there) == 2, "the others are kept, one for each instance", str(there))
        self.tap.ok([self.running(name) for name in ("capped", "busy")] == pids, "with the same processes")

    def supervisor(self):
        """A supervisor is killed."""
        pid = self.running("busy")
        group = self.group(pid)
        self.machine.must(f"kill -KILL $(sed -n 's/^PPid:\\s*//p' /proc/{pid}/status)")
        self.running("busy", pid)
        self.tap.ok(self.machine.run(f"test -e {group} || test -e /proc/{pid}")[0] != 0, "what a killed supervisor had is ended, and its group removed")

    def nothing_left(self):
        """The apps are deleted."""
        for name in "capped", "busy", "greedy", "forking", "unit":
            self.delete(name)
        self.until("no group is left", lambda: self.groups() == [])
        self.machine.must("systemctl stop limpet-apps")
