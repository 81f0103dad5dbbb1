# SPDX-License-Identifier: Apache-2.0
"""An idle agent whose apps are units of systemd, in a machine of its own."""
import os
import subprocess

from figures import Figure
from rig import TOP, BenchError

UNITS = 50


def units(bench):
    """A window of several of the looks that the agent takes every 5 min."""
    seconds = bench.pick(900, 330)
    done = subprocess.run([os.path.join(TOP, "test/bench/units.sh"), str(UNITS), str(seconds)], stdout=subprocess.PIPE, text=True, check=False)
    words = done.stdout.strip().splitlines()[-1].split() if done.stdout.strip() else []
    if done.returncode != 0 or words[:1] != ["units"]:
        raise BenchError(f"units.sh: exit {done.returncode}: {done.stdout[-300:]}")
    got = dict(zip(words[::2], (int(v) for v in words[1::2])))
    percent = lambda ms: ms / seconds / 10
    how = f"{UNITS} EdgeApps of runtime systemd in a booted systemd, {seconds} s, lease and watches included; processor time of the agent "
    yield Figure(f"CPU, idle, {UNITS} units of systemd", "%", percent(got["agent_ms"] + got["children_ms"]), 0.02,
                 how + f"({got['agent_ms']} ms) and of each systemctl that it ran ({got['children_ms']} ms)")
    yield Figure(f"CPU of systemd meanwhile, {UNITS} units", "%", percent(got["systemd_ms"]), None, "PID 1 and the message bus, whoever asked them")
