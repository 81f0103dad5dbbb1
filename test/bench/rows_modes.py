# SPDX-License-Identifier: Apache-2.0
"""Poll mode against list mode: the same interval, the same objects, the same changes."""
import time

import proc
from figures import Figure
from rig import Agent, Relay, edgeconfig, wait_for

OBJECTS, INTERVAL_S, CHANGE_EVERY_S = 100, 10, 60


class Side:
    def __init__(self, bench, mode):
        cluster = bench.rig.cluster()
        self.relay = Relay(bench.rig, cluster)
        self.agent = Agent(bench.rig, cluster, "by-" + mode, {"sync.mode": mode, "sync.interval": f"{INTERVAL_S}s", "lease.enabled": "false",
                                                              "outbox.rate": "1000"}, self.relay).start()
        self.client = cluster.client()
        for i in range(OBJECTS):
            self.client.create(self.agent.ns, "edgeconfigs", edgeconfig(f"c-{i}", self.files(i, 0)))
        self.changes = 0

    def files(self, i, version):
        return {f"{self.agent.files}/{i}": f"content of file {i}, version {version}\n"}

    def ready(self):
        wait_for("all files are there", 120, lambda: self.is_there(OBJECTS - 1, 0), 0.2)
        self.agent.settle()

    def is_there(self, i, version):
        [(path, content)] = self.files(i, version).items()
        try:
            return open(path, encoding="utf-8").read() == content
        except FileNotFoundError:
            return False

    def begin(self):
        self.bytes, self.cpu = self.relay.bytes(), proc.cpu_s(self.agent.pid)

    def change(self):
        self.changes += 1
        self.client.patch(self.agent.ns, "edgeconfigs", "c-0", {"spec": edgeconfig("", self.files(0, self.changes))["spec"]})

    def end(self):
        self.bytes, self.cpu = self.relay.bytes() - self.bytes, proc.cpu_s(self.agent.pid) - self.cpu
        wait_for("the last change arrived", 60, lambda: self.is_there(0, self.changes), 0.2)
        self.agent.stop()


def modes(bench):
    sides = [Side(bench, mode) for mode in ("poll", "list")]
    for side in sides:
        side.ready()
    time.sleep(2 * INTERVAL_S)  # what the agents wrote themselves has come back to them
    time.sleep((INTERVAL_S / 2 - time.monotonic()) % INTERVAL_S)
    minutes = bench.pick(5, 1)
    for side in sides:
        side.begin()
    for _ in range(minutes):
        time.sleep(CHANGE_EVERY_S / 2)
        for side in sides:
            side.change()
        time.sleep(CHANGE_EVERY_S / 2)
    for side in sides:
        side.end()
    poll, listed = sides
    how = f"{OBJECTS} EdgeConfigs, every {INTERVAL_S} s, one change a minute, two agents side by side for {minutes} min, no lease"
    yield Figure("poll against list, bytes", "%", 100 * poll.bytes / listed.bytes, 5, f"{how}: {poll.bytes:,} B against {listed.bytes:,} B, payload of TCP",
                 fails=True)
    yield Figure("poll against list, CPU", "%", 100 * poll.cpu / listed.cpu, 38, f"{how}: {1000 * poll.cpu:.0f} ms against {1000 * listed.cpu:.0f} ms of the process clock")
