# SPDX-License-Identifier: Apache-2.0
"""machine: the disk fills and is freed again, the wall clock leaps."""
import os
import time

from node import CONVERGE_S, Node, torture_program
from report import Row
from rig import wait_for, run as command

YEAR = 365 * 86400


def full_disk(run):
    row = Row("full disk, and room again", "a file system of 3 MB with the state on it, filled to the last byte; every other time kill -9 while it is full; time from the room")
    state = os.path.join(run.rig.ram, "full")
    os.makedirs(state)
    command("mount", "-t", "tmpfs", "-o", "size=3m,mode=700", "limpet-torture", state)
    run.rig.at_exit(command, "umount", "-l", state)
    node = Node(run.rig, run.cluster, run.seed, state=os.path.join(state, "state"))
    chance = run.chance("disk")
    for name in "abcd":
        node.config(name, f"{name} 0\n")
    node.app("one", replicas=2)
    node.start().converge()
    for i in range(run.pick(10, 2)):
        fill(os.path.join(state, "fill"))
        row.tried += 1
        row.harmed += 2
        node.drift(chance.choice("cd"))
        node.kill_workload(chance)
        node.heals()
        if i % 2:
            node.kill()
            node.launch()
            wait_for("the agent answers on a full disk", CONVERGE_S, lambda: node.status() is not None)
            node.heals()
        for name in "abcd":  # more than the store can take without growing
            node.config(name, name * 60000 + f"{i}\n")
        node.app("one", replicas=2, text=str(i + 1))
        row.changes += 5
        time.sleep(chance.uniform(0, 2))
        os.remove(os.path.join(state, "fill"))
        row.right(node.converge())
        run.step(row)
    row.judged(node.verdict())
    yield row


def fill(path):
    """To the last byte."""
    with open(path, "wb", buffering=0) as f:
        for size in (65536, 1024, 1):
            try:
                while f.write(b"\0" * size):
                    pass
            except OSError:
                pass


# --- The wall clock --------------------------------------------------------------------------------------------------------------

STEPS = [  # a word, the offset in seconds, is the agent started anew in that time
    ("to 1970", -56 * YEAR, False), ("right again", 0, False), ("ten years on", 10 * YEAR + 10 * 86400, False), ("right again", 0, False),
    ("to 1970, and the agent starts there", -56 * YEAR, True), ("ten years on from there", 10 * YEAR + 10 * 86400, False), ("right again", 0, True),
    ("ten years on, and the agent starts there", 10 * YEAR + 10 * 86400, True), ("right again", 0, False),
]


def clock(run):
    row = Row("wall clock steps", "to 1970, ten years on (every certificate has expired then) and back, with and without a start of the agent in the wrong time; what is killed and edited is put "
              "right within each step, and after each step back all is right; time from the step back")
    node = Node(run.rig, run.cluster, run.seed, program=torture_program())
    chance = run.chance("clock")
    began = time.time()
    node.config("c", "c 0\n")
    node.config("d", "d 0\n")
    node.app("one", replicas=2)
    node.start().converge()
    for repeat in range(run.pick(3, 1)):
        for i, (word, offset, anew) in enumerate(STEPS):
            _step(run, row, node, chance, offset, anew)
            node.config("c", f"c {repeat}.{i}\n")
            row.changes += 1 + node.refresh(str(repeat * 100 + i + 1))
            if offset == 0 or word == "to 1970":  # with an expired certificate the server has to wait
                row.right(node.converge())
            else:
                time.sleep(chance.uniform(0.5, 2))
            run.step(row)
    row.judged(node.verdict())
    _check_times(row, node, began)
    yield row


def _step(run, row, node, chance, offset, anew):
    with open(node.clock, "w", encoding="ascii") as f:
        f.write(str(offset))
    row.tried += 1
    if anew:
        node.kill()
        node.launch()
        wait_for("the agent answers", CONVERGE_S, lambda: node.status() is not None)
    node.drift("d")
    node.kill_workload(chance)
    row.harmed += 2
    node.heals()
    row.healed = row.harmed


def _check_times(row, node, began):
    """Events bear the true time, wherever the clock stood. Only who starts ten years on, with no server to say so, cannot know better."""
    wrong = [e["eventTime"] for e in node.server.events.values()
             if not began - 60 <= _seconds(e["eventTime"]) <= time.time() + 60]
    row.how += f"; {len(wrong)} of {len(node.server.events)} events bear a time that was not"
    bad = [t for t in wrong if not t.startswith(str(time.gmtime(began).tm_year + 10))]
    if bad:
        row.wrong.append(f"events at {bad[:3]}")


def _seconds(text):
    import calendar
    return calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))
