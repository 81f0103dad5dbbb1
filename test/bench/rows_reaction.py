# SPDX-License-Identifier: Apache-2.0
"""From the server's answer to the machine, and from drift to repair. Latencies: one after the other, nothing else in that agent.

Negative samples are possible: the server tells its watchers while it still writes the answer.
"""
import os
import random
import signal
import time

from figures import Figure, median, quantile
from rig import Agent, Births, edgeapp, edgeconfig, now_ns, stamp, write


def _ms(samples):
    return [ns / 1e6 for ns in samples]


def _pause():
    """Not in step with any period of the server or the agent."""
    time.sleep(random.uniform(0.005, 0.03))


def _three(name, samples, budget, how):
    ms = _ms(samples)
    how = f"{len(ms)} samples; {how}"
    yield Figure(f"{name}, median", "ms", median(ms), budget, how)
    yield Figure(f"{name}, 99th percentile", "ms", quantile(ms, 0.99), None, how)
    yield Figure(f"{name}, worst", "ms", max(ms), None, how)


def reaction(bench):
    cluster = bench.rig.cluster("reaction")
    agent = Agent(bench.rig, cluster, "reaction", {"outbox.rate": "1000"}).start()
    client = agent.cluster.client()
    yield from _files(bench, agent, client)
    births = Births(bench.rig, "reaction")
    yield from _starts(bench, agent, client, births)
    yield from _restarts(bench, agent, client, births)
    yield from _drift_files(bench, agent, client)
    yield from _killed(bench, agent, client, births)
    agent.leave_machine()
    client.close()
    cluster.command("down")


def _files(bench, agent, client):
    path = f"{agent.files}/one"
    os.makedirs(agent.files, exist_ok=True)
    seen = stamp(bench.rig, agent.files)
    client.create(agent.ns, "edgeconfigs", edgeconfig("one", {path: "first\n"}))
    seen.wait(f"{path} first")
    samples = []
    for i in range(bench.pick(500, 100)):
        _pause()
        client.patch(agent.ns, "edgeconfigs", "one", {"spec": {"files": [{"path": path, "content": f"sample {i}\n"}]}})
        answered = client.answered_ns
        samples.append(seen.wait(f"{path} sample {i}") - answered)
    yield from _three("PATCH answered -> file changed", samples, 4,
                      "from the last byte of the answer to inotify's report of the rename; commit, file fsync and rename included")


def _starts(bench, agent, client, births):
    samples = []
    for i in range(bench.pick(500, 60)):
        name = f"new-{i}"
        _pause()
        client.create(agent.ns, "edgeapps", edgeapp(name, births.command(name)))
        answered = client.answered_ns
        samples.append(births.wait(name) - answered)
        client.delete(agent.ns, "edgeapps", name)
    yield from _three("POST answered -> process started", samples, 6,
                      "a new EdgeApp, from the last byte of the answer to the clock that its process reads first; supervisor included")


def _restarts(bench, agent, client, births):
    client.create(agent.ns, "edgeapps", edgeapp("again", births.command("again"), env=[{"name": "N", "value": "first"}]))
    births.wait("again")
    agent.settle()
    samples = []
    for i in range(bench.pick(200, 40)):
        _pause()
        client.patch(agent.ns, "edgeapps", "again", {"spec": {"env": [{"name": "N", "value": str(i)}]}})
        answered = client.answered_ns
        samples.append(births.wait("again") - answered)
    client.delete(agent.ns, "edgeapps", "again")
    yield from _three("PATCH answered -> process restarted", samples, None,
                      "a changed environment: the old process, which ends at once on SIGTERM, is stopped and reaped before the new one starts")


def _drift_files(bench, agent, client):
    """Each of many files once, for a second edit of one file soon would count as a fight."""
    n = bench.pick(60, 30)
    folder = f"{agent.files}/drift"
    os.makedirs(folder)
    files = {f"{folder}/{i}": f"right {i}\n" for i in range(n)}
    seen = stamp(bench.rig, folder)
    client.create(agent.ns, "edgeconfigs", edgeconfig("drift", files))
    for i in range(n):
        seen.wait(f"{folder}/{i} right {i}")
    agent.settle()
    samples = []
    for i in range(n):
        _pause()
        edited = now_ns()
        write(f"{folder}/{i}", "wrong\n")
        samples.append(seen.wait(f"{folder}/{i} right {i}") - edited)
    yield Figure("drift, file edited -> repaired, worst", "ms", max(_ms(samples)), 1000, f"{n} files edited in place one after the other; median {median(_ms(samples)):.1f} ms")
    client.delete(agent.ns, "edgeconfigs", "drift")


def _killed(bench, agent, client, births):
    """The first crash of each of some apps; later ones wait, as Kubernetes has it."""
    n = bench.pick(40, 15)
    samples = []
    for i in range(n):
        name = f"crash-{i}"
        client.create(agent.ns, "edgeapps", edgeapp(name, births.command(name)))
        births.wait(name)
        agent.settle()
        pid = _pid_of(agent, name)
        killed = now_ns()
        os.kill(pid, signal.SIGKILL)
        samples.append(births.wait(name) - killed)
        client.delete(agent.ns, "edgeapps", name)
    yield Figure("drift, process killed -> started, worst", "ms", max(_ms(samples)), 1000, f"kill -9, {n} apps, first restart of each; median {median(_ms(samples)):.1f} ms")


def _pid_of(agent, name):
    app = agent.ask("get", kind="edgeapp", name=name)[0]["object"]
    return app["status"]["instances"][0]["pid"]
