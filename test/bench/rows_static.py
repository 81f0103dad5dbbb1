# SPDX-License-Identifier: Apache-2.0
"""What needs no cluster: sizes, and the backoff as a function."""
import os
import subprocess

from figures import Figure
from rig import HELPERS, OUT

SIZE_BUDGET_MB = 2.5
OUTAGE_S, SEEDS = 300, 10000


def size(_bench):
    for program in ("limpet", "limpetctl"):
        mb = os.path.getsize(os.path.join(OUT, program)) / 1e6
        yield Figure(f"{program}, static binary", "MB", mb, SIZE_BUDGET_MB, "bytes of the stripped static-pie file", fails=True)


def backoff(_bench):
    out = subprocess.run([os.path.join(HELPERS, "backoff"), str(OUTAGE_S), str(SEEDS)], stdout=subprocess.PIPE, text=True, check=True).stdout
    middle, _, worst = (int(word) / 1000 for word in out.split())
    how = f"the agent's own backoff function, {SEEDS:,} seeds, an outage of {OUTAGE_S // 60} min in which each try is refused at once: " \
          "from its end to the next try"
    yield Figure("pure backoff after 5 min away, median", "s", middle, None, how)
    yield Figure("pure backoff after 5 min away, worst", "s", worst, 15, how, fails=True)
