// SPDX-License-Identifier: Apache-2.0
// oom — did the kernel end a process because memory ran out? Its log says so, by pid, on every kernel and with or without cgroups.
//
// A counter of a control group would say that somebody was ended, not who. Not for a pid namespace of its own: the log has the
// kernel's pids.
#ifndef SHIM_OOM_H
#define SHIM_OOM_H

#include <stdbool.h>

// Before the process is made: a descriptor of the log from now on (close-on-exec, the caller's). -1: it cannot be read here.
int oom_watch(void);
// After it ended: was it ended for memory since oom_watch()? Reads what is there and does not wait. -1 is a false.
bool oom_killed(int fd, int pid);

#endif
