# SPDX-License-Identifier: Apache-2.0
"""What a day of status changes writes to the flash."""
import os

from figures import Figure
from rig import Agent, edgeconfig, run, stamp, wait_for, write
import proc

A_DAY = 1440  # one change a minute
FILES = 60    # of one EdgeConfig


def _disk(bench):
    """A file system of its own, so that its device counts what only this store wrote; (directory, device)."""
    image, folder = os.path.join(bench.rig.disk, "store.img"), os.path.join(bench.rig.disk, "store")
    os.mkdir(folder)
    with open(image, "wb") as f:
        f.truncate(64 << 20)
    run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", image)
    device = run("losetup", "--find", "--show", image).strip()
    bench.rig.at_exit(run, "losetup", "-d", device)
    run("mount", device, folder)
    bench.rig.at_exit(run, "umount", folder)
    return folder, os.path.basename(device)


def store(bench):
    changes = bench.pick(A_DAY, A_DAY // 10)
    folder, device = _disk(bench)
    files = os.path.join(bench.rig.ram, "store-files")
    agent = Agent(bench.rig, bench.rig.cluster(), "store", {"outbox.rate": "1000"}, state=os.path.join(folder, "state"), files=files).start()
    client = agent.cluster.client()
    paths = _configs(bench, agent, client, changes)
    agent.settle()
    run("sync", "-f", folder)
    before, commits = proc.sectors_written(device), agent.status()["store"]["commits"]
    for path, seen in paths:
        write(path, "wrong\n")
        seen.wait(f"{path} right")
        # The report and its acknowledgement go their way before the next change, as they do in a minute.
        wait_for("the change is reported", 30, agent.idle, 0.005)
    run("sync", "-f", folder)
    written = (proc.sectors_written(device) - before) / changes * A_DAY
    commits = (agent.status()["store"]["commits"] - commits) / changes
    agent.stop()
    client.close()
    yield Figure("disk, one status change a minute", "MB a day", written / 1e6, 15,
                 f"sectors that a device of its own (ext4, journal included) got for {changes:,} changes, one after the other: an edited file, its repair, "
                 f"a status and an event, reported and acknowledged; {commits:.1f} commits a change; times {A_DAY // changes}")


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
