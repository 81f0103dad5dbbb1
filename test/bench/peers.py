# SPDX-License-Identifier: Apache-2.0
"""Other agents, idle in the same role. Measured elsewhere, on one machine of this kind; nothing here measures them again."""
from figures import Figure

HOW = "measured elsewhere, on one such machine, idle in the same role"

#        who                          PSS MB  CPU %  wakeups a minute
IDLE = [("Ankaios agent",                6.1, 0.024, 460),
        ("Greengrass lite, 9 daemons",  14.3, 0.008, 50),
        ("Flight Control",              30, 0.04, 500),
        ("Rancher system-agent",        54, 0.08, 850),
        ("kubelet",                     78, 2.5, None),
        ("containerd beside the kubelet", 45, 1.4, None),
        ("EdgeCore",                   100, 0.8, 11800)]

# Back after an outage of 5 minutes, in seconds; the worse of a range.
BACK = [("Ankaios agent (tries every second)", 1), ("Rancher system-agent", 14), ("EdgeCore (31-41)", 41), ("Greengrass lite", 80), ("Flight Control", 153)]


def figures():
    for who, mb, cpu, wakeups in IDLE:
        yield Figure(f"measured elsewhere: {who}, memory idle", "MB PSS", mb, None, HOW)
        yield Figure(f"measured elsewhere: {who}, CPU idle", "%", cpu, None, HOW)
        if wakeups is not None:
            yield Figure(f"measured elsewhere: {who}, wakeups idle", "a minute", wakeups, None, HOW)
    how = "measured elsewhere, PATCH answered -> file changed"
    yield Figure("measured elsewhere: Rancher system-agent, reaction, median", "ms", 3.6, None, how)
    yield Figure("measured elsewhere: Rancher system-agent, reaction, worst", "ms", 5.1, None, how)
    for who, seconds in BACK:
        yield Figure(f"measured elsewhere: {who}, back after 5 min away", "s", seconds, None, "measured elsewhere, an outage of 5 min")


def table(ours):
    """Side by side, in Markdown and on a terminal: ours is {"MB": ..., "CPU": ..., "wakeups": ..., "back": ..., "reaction": ...}, each may be None."""
    cell = lambda x, unit: "" if x is None else f"{x:g}{unit}"
    back = {name.split(" (")[0]: s for name, s in BACK}
    rows = [("limpet", cell(ours["MB"], " MB"), cell(ours["CPU"], " %"), cell(ours["wakeups"], ""), cell(ours["back"], " s"), cell(ours["reaction"], " ms"))]
    for who, mb, cpu, wakeups in IDLE:
        rows.append((who, cell(mb, " MB"), cell(cpu, " %"), cell(wakeups, ""), cell(back.get(who.split(",")[0]), " s"),
                     "3.6 ms" if "system-agent" in who else ""))
    head = ("idle, in role", "PSS", "CPU", "wakeups a minute", "back after 5 min", "PATCH -> file, median")
    lines = ["| " + " | ".join(head) + " |", "|---|--:|--:|--:|--:|--:|"]
    return "\n".join(lines + ["| " + " | ".join(r) + " |" for r in rows])
