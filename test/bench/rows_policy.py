# SPDX-License-Identifier: Apache-2.0
"""From the server's answer to a changed EdgePolicy until the agent goes by it."""
import random
import time

from figures import Figure, median, quantile
from rig import API, Agent, now_ns, wait_for


def _value(agent, name):
    """What is in force, and when that was known: after the answer of the control socket, so never too early."""
    values = agent.ask("policy")[0]["values"]
    return next(v["value"] for v in values if v["name"] == name), now_ns()


def _sample(agent, client, ns, i):
    time.sleep(random.uniform(0.005, 0.03))  # not in step with anything
    wanted = f"{1000 + i}s"
    client.patch(ns, "edgepolicies", "bench", {"spec": {"sync": {"interval": wanted}}})
    answered = client.answered_ns
    while True:
        value, seen = _value(agent, "sync.interval")
        if value == wanted:
            return (seen - answered) / 1e6


def policy(bench):
    cluster = bench.rig.cluster("policy")
    agent = Agent(bench.rig, cluster, "policy", {"sync.mode": "watch"}).start()
    client = agent.cluster.client()
    n = bench.pick(300, 60)
    for ns, words in ((agent.ns, "its own"), ("edge-system", "the shared")):
        client.create(ns, "edgepolicies", {"apiVersion": API, "kind": "EdgePolicy", "metadata": {"name": "bench"}, "spec": {"sync": {"interval": "999s"}}})
        wait_for("the policy is in force", 30, lambda: _value(agent, "sync.interval")[0] == "999s")
        ms = [_sample(agent, client, ns, i) for i in range(n)]
        how = f"{n} samples; a PATCH of an EdgePolicy in {words} namespace, from the last byte of its answer to the control socket's first answer with the new value; watch mode"
        yield Figure(f"policy changed -> in force, {words} namespace, median", "ms", median(ms), 50, how)
        yield Figure(f"policy changed -> in force, {words} namespace, 99th percentile", "ms", quantile(ms, 0.99), None, how)
        client.delete(ns, "edgepolicies", "bench")
    agent.leave_machine()
    client.close()
    cluster.command("down")
