# SPDX-License-Identifier: Apache-2.0
"""crashes: kill -9 of the agent and of supervisors at random moments, and a network that does what networks do; each alone, and both."""
import time

from node import Node
from report import Row

# What the wire does: a word, and the fault from a source of chance.
FAULTS = {
    "latency of 50 to 400 ms": lambda p, c: p.fault(latency=c.uniform(0.02, 0.1), jitter=c.uniform(0, 0.2)),
    "10 KB/s": lambda p, c: p.fault(rate=10000),
    "connections cut in mid-body": lambda p, c: p.fault(cut=c.choice((300, 1500, 6000))),
    "nothing arrives, both ways": lambda p, c: p.fault(stalled=("up", "down")),
    "nothing arrives at the server": lambda p, c: p.fault(stalled=("up",)),
    "nothing arrives at the agent": lambda p, c: p.fault(stalled=("down",)),
    "connections reset": lambda p, c: p.reset(),
    "half-open: connections lead nowhere": lambda p, c: p.forget(),
    "refused": lambda p, c: p.refuse(),
}


# Many, for who edits one file again and again is taken for another writer, and meets longer and longer waits.
HARMED = tuple(f"h{i}" for i in range(12))


class Life:
    """Objects that change all the time, on a machine that is harmed all the time."""

    def __init__(self, node, row, chance):
        self.node, self.row, self.chance, self.round = node, row, chance, 0
        node.app("one", replicas=2)
        node.app("steady")
        for name in ("a", "b") + HARMED:
            node.config(name, f"{name} 0\n")
        node.start().converge()

    def change(self):
        """One to three changes of specs."""
        self.round += 1
        n = self.node
        self.row.changes += n.refresh(str(self.round))
        for what in self.chance.sample(("app", "scale", "a", "b", "coming"), self.chance.randint(1, 3)):
            self.row.changes += 1
            if what == "app":
                n.app("one", self.chance.randint(1, 3), str(self.round))
            elif what == "scale":
                n.app("one", self.chance.randint(0, 3), n.specs["edgeapps"]["one"]["env"][0]["value"])
            elif what == "coming" and what in n.specs["edgeconfigs"]:
                n.delete("edgeconfigs", what)
            else:
                n.config(what, f"{what} {self.round}\n")

    def harm(self):
        """What runs and lies there is changed by others."""
        self.row.harmed += 1
        if self.chance.random() < 0.5 or not self.node.kill_workload(self.chance):
            self.node.drift(self.chance.choice(HARMED))

    def end(self):
        self.row.judged(self.node.verdict())


def is_fine(proxy):
    proxy.calm()
    proxy.accept()


# --- kill -9 ---------------------------------------------------------------------------------------------------------------------


def strike(node, chance):
    """True: it was the agent."""
    if chance.random() < 0.6 or not node.kill_shims(chance):
        node.kill()
        node.launch()
        return True
    return False


def kills(run, bad_network):
    chance = run.chance(f"kills {bad_network}")
    row = Row("kill -9 of agent or supervisors" + (", on a bad network" if bad_network else ""))
    node = Node(run.rig, run.cluster, run.seed, {"outbox.rate": "200"})
    life, agents = Life(node, row, chance), 0
    while row.tried < run.pick(100, 5):
        if bad_network and chance.random() < 0.7:
            chance.choice(list(FAULTS.values()))(node.proxy, chance)
        life.change()
        life.harm()
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            time.sleep(chance.uniform(0, 0.9))  # a moment, not a wait
            agents += strike(node, chance)
            row.tried += 1
            struck = time.monotonic()
        if bad_network:
            time.sleep(chance.uniform(0, 2))
            is_fine(node.proxy)
        row.right(node.converge(struck))
        run.step(row)
    life.end()
    row.how = f"{agents} x the agent, {row.tried - agents} x 40 % of the supervisors, within 0.9 s of a change of specs and of a process killed or a file edited"
    if bad_network:
        row.how += ", seven of ten while one of the network faults below lasts; time from the last kill, the fault included"
    yield row


# --- The wire --------------------------------------------------------------------------------------------------------------------


def network(run):
    node = Node(run.rig, run.cluster, run.seed)
    chance = run.chance("network")
    life = Life(node, Row("before"), chance)
    for word, fault in FAULTS.items():
        row = life.row = Row(f"network: {word}", "specs change and files are edited while it lasts, 1 to 10 s, once half a minute; time from its end")
        for i in range(run.pick(4, 1)):
            fault(node.proxy, chance)
            row.tried += 1
            for _ in range(run.pick(3, 1)):
                life.change()
                life.harm()
                time.sleep(chance.uniform(0.2, run.pick(3, 1)))
            time.sleep(run.pick(25 if i % 3 == 2 else 0, 0))
            is_fine(node.proxy)
            row.right(node.converge())
            run.step(row)
        yield row
    row = Row("network: all of these, at the end", "the witnesses of the whole life of that node are compared", tried=1)
    row.seconds.append(node.converge())
    row.judged(node.verdict())
    yield row
