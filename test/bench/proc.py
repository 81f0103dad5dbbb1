# SPDX-License-Identifier: Apache-2.0
"""proc: what the kernel says of one process. Read from outside: the measured process does nothing for it."""
import time


def _fields(path):
    with open(path, encoding="ascii") as f:
        return dict(line.split(":", 1) for line in f if ":" in line)


def _kb(pid, *names):
    fields = _fields(f"/proc/{pid}/smaps_rollup")
    return sum(int(fields[name].split()[0]) for name in names)


def pss_kb(pid):
    """Memory of the process; a page shared by n processes counts as a page/n."""
    return _kb(pid, "Pss")


def private_kb(pid):
    """Memory that would be free if the process ended."""
    return _kb(pid, "Private_Clean", "Private_Dirty")


def cpu_s(pid):
    """CPU seconds of all threads, also the ended ones; by the process clock, which counts nanoseconds where utime counts ticks."""
    return time.clock_gettime_ns(~pid << 3 | 2) / 1e9


def write_bytes(pid):
    """Bytes that the process caused to be sent to a block device."""
    return int(_fields(f"/proc/{pid}/io")["write_bytes"])


def sectors_written(device):
    """Bytes written to a block device, e.g. loop3, journal and metadata of the file system included."""
    with open(f"/sys/block/{device}/stat", encoding="ascii") as f:
        return int(f.read().split()[6]) * 512


def load():
    with open("/proc/loadavg", encoding="ascii") as f:
        return f.read().split()[0]
