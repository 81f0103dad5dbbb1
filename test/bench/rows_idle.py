# SPDX-License-Identifier: Apache-2.0
"""An agent with nothing to do: memory, CPU, wakeups, bytes on the wire, bytes to the disk.

Three agents with the same few objects stand side by side: `idle` as installed, `watch` and `poll` without a lease. What the lease costs is
the difference between the first two.
"""
import os
import threading
import time

import proc
from figures import Figure
from rig import Agent, Births, Relay, Watch, edgeapp, edgeconfig

POLL_S = 10
OBJECTS = 1000


def _few_objects(agent, births):
    client = agent.cluster.client()
    for i in range(3):
        client.create(agent.ns, "edgeconfigs", edgeconfig(f"file-{i}", {f"{agent.files}/{i}": f"content {i}\n"}))
    client.create(agent.ns, "edgeapps", edgeapp("app", births.command(agent.name)))
    births.wait(agent.name)
    agent.settle()
    client.close()


def _agents(bench, cluster):
    births = Births(bench.rig, "idle")
    for name, settings in (("idle", {}), ("watch", {"lease.enabled": "false"}),
                           ("poll", {"lease.enabled": "false", "sync.mode": "poll", "sync.interval": f"{POLL_S}s"})):
        relay = Relay(bench.rig, cluster)
        agent = Agent(bench.rig, cluster, name, settings, relay).start()
        _few_objects(agent, births)
        yield agent, relay


class Window:
    """Readings at the start, and their growth at the end."""

    def __init__(self, agent, relay):
        self.agent, self.relay = agent, relay
        self.start = self._read()

    def _read(self):
        pid = self.agent.pid
        return {"wakeups": self.agent.status()["wakeups"], "cpu": proc.cpu_s(pid), "disk": proc.write_bytes(pid), "net": self.relay.bytes()}

    def end(self):
        now = self._read()
        return {key: now[key] - self.start[key] for key in now}


def _sleep_to_phase():
    """Polls begin at multiples of their interval on the monotonic clock; just before one, none is under way."""
    time.sleep((POLL_S - 0.5 - time.monotonic()) % POLL_S)


def idle(bench):
    cluster = bench.rig.cluster()
    agents = list(_agents(bench, cluster))
    seconds = bench.pick(180, 60)
    time.sleep(5)
    _sleep_to_phase()
    leases = Watch(cluster, f"/apis/coordination.k8s.io/v1/namespaces/{agents[0][0].ns}/leases")
    windows = [Window(agent, relay) for agent, relay in agents]
    time.sleep(seconds - 1)
    _sleep_to_phase()
    grown = {w.agent.name: w.end() for w in windows}
    sources = len(agents[0][0].status()["link"]["sources"])
    leases.stop()
    renewals = sum(leases.counts.values())
    yield from _memory_idle(agents[0][0])
    yield from _quiet(grown, seconds)
    yield from _traffic(grown, seconds, sources, renewals)


def _memory_idle(agent):
    yield Figure("memory, idle", "MB PSS", proc.pss_kb(agent.pid) / 1000, 4, "smaps_rollup of the agent with 5 objects, one of them a running app")
    shims = agent.shims()
    yield Figure("memory, one shim", "KB private", max(proc.private_kb(pid) for pid in shims), 150, "Private_Clean + Private_Dirty of the supervisor of that app")


def _quiet(grown, seconds):
    with_lease, without = grown["idle"], grown["watch"]
    yield Figure("CPU, idle", "%", 100 * with_lease["cpu"] / seconds, 0.01, f"process clock over {seconds} s, watch mode, lease renewed each 10 s")
    yield Figure("CPU, idle, beside the lease", "%", 100 * without["cpu"] / seconds, None, f"the same of an agent with the lease switched off")
    how = f"returns of epoll_wait over {seconds} s, by the agent's own count; being asked for it is included"
    yield Figure("wakeups, idle, beside the lease", "a minute", without["wakeups"] * 60 / seconds, 20, how + "; lease switched off")
    yield Figure("wakeups, idle", "a minute", with_lease["wakeups"] * 60 / seconds, None, how)
    writes = sum(g["disk"] for g in grown.values())
    yield Figure("disk, idle", "bytes", writes, 0, f"write_bytes of /proc/PID/io over {seconds} s, three agents (watch, watch without lease, poll) together", fails=True)


def _traffic(grown, seconds, sources, renewals):
    counted = "payload of TCP both ways (TLS included), counted by a relay"
    watch = grown["watch"]["net"] * 60 / seconds / sources
    yield Figure("traffic, watch", "B a minute a source", watch, 250, f"{counted}, {seconds} s, {sources} sources, lease switched off", fails=True)
    polls = round(seconds / POLL_S) * sources
    yield Figure("traffic, poll", "B a poll a source", grown["poll"]["net"] / polls, 400, f"{counted}, {polls} idle polls, every {POLL_S} s", fails=True)
    yield Figure("traffic, lease", "B a renewal", (grown["idle"]["net"] - grown["watch"]["net"]) / max(renewals, 1), 700,
                 f"{counted}: the agent with a lease less the one without, by the {renewals} renewals that the server saw", fails=True)


def objects(bench):
    """1,000 EdgeConfigs with a small file each, in one node."""
    agent = Agent(bench.rig, bench.rig.cluster(), "thousand", {"outbox.rate": "1000"}).start()
    threads = [threading.Thread(target=_create_some, args=(agent, i)) for i in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    agent.settle()
    missing = [i for i in range(OBJECTS) if not os.path.exists(f"{agent.files}/{i}")]
    assert not missing, f"files are missing: {missing[:3]}"
    yield Figure("memory, 1,000 objects", "MB PSS", proc.pss_kb(agent.pid) / 1000, 6, "smaps_rollup after 1,000 EdgeConfigs of one small file each came and were reported")
    agent.stop()
    agent.start().settle()
    yield Figure("memory, 1,000 objects, after a restart", "MB PSS", proc.pss_kb(agent.pid) / 1000, 6, "the same after the agent booted from its cache and listed again")
    agent.stop()


def _create_some(agent, remainder):
    client = agent.cluster.client()
    for i in range(remainder, OBJECTS, 2):
        client.create(agent.ns, "edgeconfigs", edgeconfig(f"c-{i}", {f"{agent.files}/{i}": f"content {i}\n"}))
    client.close()
