# SPDX-License-Identifier: Apache-2.0
"""What a day of status changes writes to the flash: sectors of a device that nobody else uses, file system and journal included."""
import os
import subprocess

import proc
from figures import Figure
from rig import HELPERS, Agent, BenchError, edgeconfig, run, stamp, wait_for, write

A_DAY = 1440  # one change a minute
BUDGET_MB = 15
OBJECTS = 100
FILES = 60    # of one EdgeConfig


class Disk:
    """A file system of its own on a loop device."""

    def __init__(self, bench, name):
        image, self.folder = os.path.join(bench.rig.disk, name + ".img"), os.path.join(bench.rig.disk, name + "-disk")
        os.mkdir(self.folder)
        with open(image, "wb") as f:
            f.truncate(64 << 20)
        run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", image)
        device = run("losetup", "--find", "--show", image).strip()
        bench.rig.at_exit(run, "losetup", "-d", device)
        run("mount", device, self.folder)
        bench.rig.at_exit(run, "umount", self.folder)
        self.device = os.path.basename(device)

    def written(self):
        run("sync", "-f", self.folder)
        return proc.sectors_written(self.device)


def store(bench):
    yield from _by_the_clock(bench)
    yield from _whole_agent(bench)


def _by_the_clock(bench):
    """The store alone, a minute from change to change on a clock that is wound forward: what waits for five minutes waits as it does in a day."""
    disk = Disk(bench, "wear")
    process = bench.rig.spawn(os.path.join(HELPERS, "wear"), disk.folder, str(A_DAY), str(OBJECTS), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    readings = []
    for word in ("begins", "ends"):
        if process.stdout.readline() != word + "\n":
            raise BenchError("wear failed")
        readings.append(disk.written())
        process.stdin.write("\n")
        process.stdin.flush()
    if process.wait() != 0:
        raise BenchError("wear failed")
    yield Figure("disk, one status change a minute", "MB a day", (readings[1] - readings[0]) / 1e6, BUDGET_MB,
                 f"sectors that a device of its own got (ext4, journal included): the agent's store, {A_DAY:,} changes of {OBJECTS} objects in turn, "
                 "a minute apart on a clock wound forward, each acknowledged", fails=True)


def _whole_agent(bench):
    """As fast as they are reported, so that what may wait five minutes is written less often than in a real day; but a whole agent, with events."""
    changes = bench.pick(A_DAY // 5, A_DAY // 15)
    disk = Disk(bench, "store")
    files = os.path.join(bench.rig.ram, "store-files")
    agent = Agent(bench.rig, bench.rig.cluster(), "store", {"outbox.rate": "1000"}, state=os.path.join(disk.folder, "state"), files=files).start()
    client = agent.cluster.client()
    paths = _configs(bench, agent, client, changes)
    agent.settle()
    before, commits = disk.written(), agent.status()["store"]["commits"]
    for path, seen in paths:
        write(path, "wrong\n")
        seen.wait(f"{path} right")
        # The report and its acknowledgement go their way before the next change, as they do in a minute.
        wait_for("the change is reported", 60, agent.idle, 0.005)
    written = (disk.written() - before) / changes * A_DAY
    commits = (agent.status()["store"]["commits"] - commits) / changes
    agent.stop()
    client.close()
    yield Figure("disk, one drift repair a minute", "MB a day", written / 1e6, None,
                 f"the same device, a whole agent: {changes} files edited one after the other, each repaired, with a status and an event, reported and "
                 f"acknowledged; {commits:.1f} commits a change; times {A_DAY // changes}")


def _configs(bench, agent, client, changes):
    """(path, who sees it) of as many files as there are changes: a second edit soon would count as a fight."""
    result = []
    for c in range((changes + FILES - 1) // FILES):
        folder = f"{agent.files}/{c}"
        os.makedirs(folder)
        seen = stamp(bench.rig, folder)
        files = {f"{folder}/{i}": "right\n" for i in range(FILES)}
        client.create(agent.ns, "edgeconfigs", edgeconfig(f"c-{c}", files))
        for path in files:
            seen.wait(f"{path} right")
            result.append((path, seen))
    return result[:changes]
