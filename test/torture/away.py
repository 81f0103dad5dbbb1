# SPDX-License-Identifier: Apache-2.0
"""away: a long time without a server, and all that happened meanwhile is told once."""
import collections
import json
import time

from node import CONVERGE_S, Node
from report import Row
from rig import BenchError, edgeconfig, wait_for

FILES = 10


class Away:
    def __init__(self, run, row):
        self.run, self.row, self.chance = run, row, run.chance("away")
        self.objects, self.rounds, self.apps = run.pick(1000, 30), run.pick(10, 3), run.pick(20, 3)
        self.node = Node(run.rig, run.cluster, run.seed, {"engine.resync": "1h", "outbox.rate": "200"})

    def path(self, o, f):
        return f"{self.node.files}/c{o}-{f}"

    def put(self, o, text):
        self.node._put("edgeconfigs", edgeconfig(f"c{o}", {self.path(o, f): f"{text} {f}\n" for f in range(FILES)}))

    def begin(self):
        for o in range(self.objects):
            self.put(o, "first")
        for a in range(self.apps):
            self.node.app(f"app{a}")
        self.node.start().converge(seconds=600)
        self.node.proxy.refuse()
        wait_for("the agent notices", CONVERGE_S, self.node.offline, 0.2)

    def live_on(self):
        """Each object gets so many changes of its status, one after the other; specs change on the server, which the agent cannot hear."""
        began = time.monotonic()
        for f in range(self.rounds):
            for o in range(self.objects):
                with open(self.path(o, f), "w", encoding="ascii") as file:
                    file.write("drift\n")
            self.row.harmed += self.objects
            wait_for("the files are right again", 300, lambda f=f: all(_reads(self.path(o, f), "first") for o in range(self.objects)), 0.1)
            self.row.healed += self.objects
        for pid, *_ in self.node.workloads():
            self.row.harmed += 1
            self.node.kill_one(pid)
        self.node.heals()
        self.row.healed = self.row.harmed
        wait_for("all is looked at", 300, self.node.quiet, 0.2)
        return time.monotonic() - began

    def change(self):
        changed = self.chance.sample(range(self.objects), self.objects // 2)
        for o in changed:
            self.put(o, "second")
        self.row.changes += len(changed)
        return {f"c{o}" for o in changed}

    def accepted(self):
        """Versions of each status that the server has accepted so far."""
        server = self.node.server
        with server.lock:
            return {name: len(server.statuses[o["metadata"]["uid"]]) for (p, name), o in server.now.items() if p == "edgeconfigs"}


def _reads(path, text):
    with open(path, encoding="ascii") as f:
        return f.read().startswith(text)


def away(run):
    row = Row("the server is away", tried=1)
    a = Away(run, row)
    a.begin()
    took = a.live_on()
    changed = a.change()
    waiting = a.node.status()["outbox"]
    a.node.kill()  # what waits is on the disk
    before = a.accepted()
    a.node.proxy.accept()
    back = time.monotonic()
    a.node.launch()
    row.right(a.node.converge(back, 600))
    for name, count in a.accepted().items():
        more = count - before[name]
        if name not in changed and more != 1:
            (row.lost if more == 0 else row.twice).append(f"status of {name} was accepted {more} times")
    check_restarts(a.node, row)
    row.judged(a.node.verdict())
    row.how = (f"{a.objects * a.rounds:,} status changes of {a.objects:,} objects and {a.apps} processes killed in {took:.0f} s, {row.changes} specs changed on the server, "
               f"kill -9, then back: {waiting['statusPending']:,} statuses and {waiting['eventsPending']:,} events waited "
               f"({waiting['eventsLost']:,} older ones had left the ring of 5,000 and are counted); at 200 requests a second")
    yield row


def check_restarts(node, row):
    """Each start that a workload wrote down is in the status: restarts + 1."""
    for name, obj in node.server.all("edgeapps").items():
        starts = collections.Counter(line.split()[1] for line in open(f"{node.ledger}-{name}", encoding="ascii") if line.startswith("start"))
        told = {str(i["index"]): i["restarts"] + 1 for i in obj["status"]["instances"]}
        if starts != told:
            row.lost.append(f"{name} was started {json.dumps(starts)} times, its status says {json.dumps(told)}")


# --- Made again under the same name ----------------------------------------------------------------------------------------------


def reborn(run):
    """Each object is deleted and made again while the agent is away, with a report about the old one waiting to be sent."""
    row = Row("object deleted and made again under its name")
    node = Node(run.rig, run.cluster, run.seed)
    rounds = run.pick(10, 1)
    for i in range(3):
        node.app(f"app{i}")
    for i in range(3 * rounds):  # three for each round: who edits one again and again is taken for a rival
        node.config(f"f{i}", "first\n")
    node.start().converge()
    for n in range(rounds):
        configs = [f"f{3 * n + i}" for i in range(3)]
        for name in configs:  # so that the old one's reports speak of a generation that the new one does not have
            node.config(name, f"round {n}\n")
        node.converge()
        pids = sorted(w[0] for w in node.workloads())
        node.proxy.refuse()
        wait_for("the agent notices", CONVERGE_S, node.offline, 0.05)
        for name in configs:
            node.drift(name)
            row.harmed += 1
        node.heals()
        for plural, names in (("edgeapps", list(node.specs["edgeapps"])), ("edgeconfigs", configs)):
            for name in names:
                spec = node.specs[plural][name]
                node.delete(plural, name)
                kind = {"edgeapps": "EdgeApp", "edgeconfigs": "EdgeConfig"}[plural]
                node._put(plural, {"apiVersion": "edge.limpet.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})
                row.changes += 1
                row.tried += 1
        node.proxy.accept()
        row.right(node.converge())
        run.step(row)
        if sorted(w[0] for w in node.workloads()) != pids:
            row.wrong.append("processes of an app that is there again were replaced")
        for obj in node.server.all("edgeconfigs").values():
            for status in node.server.statuses[obj["metadata"]["uid"]]:
                if status["observedGeneration"] != obj["metadata"]["generation"]:
                    row.twice.append(f"the new {obj['metadata']['name']} got the old one's status, of generation {status['observedGeneration']}")
    row.judged(node.verdict())
    row.how = "three EdgeApps and three EdgeConfigs; of each EdgeConfig's predecessor a status waits that must reach nobody"
    yield row


__all__ = ["away", "reborn", "BenchError"]
