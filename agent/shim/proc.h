// SPDX-License-Identifier: Apache-2.0
// proc — what /proc says about processes, read so that no process can mislead by its name.
//
// A pid alone names nobody: it is given again to others. (pid, start time) does, within one boot.
// Nothing here blocks; no heap but opendir()'s.
#ifndef SHIM_PROC_H
#define SHIM_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proc_stat {
    int pid, ppid, pgrp, session;
    char state;    // 'R', 'S', 'Z', ...
    int64_t start; // clock ticks since boot
};

// One line of /proc/PID/stat. false: it is none.
bool proc_stat_parse(const char *line, struct proc_stat *out);
// false: no such process.
bool proc_stat(int pid, struct proc_stat *out);

// Start time of a process, 0 when there is none.
int64_t proc_start(int pid);
// Is this very process there? A zombie is not: it has ended.
bool proc_is(int pid, int64_t start);

// Calls fn for each process; fn true stops and is returned. What starts or ends meanwhile may be seen or not.
bool proc_each(bool (*fn)(void *ctx, const struct proc_stat *s), void *ctx);

// Did the process start with exactly this "NAME=value" in its environment? Reads the first 256 KiB of it.
bool proc_has_env(int pid, const char *entry);

#endif
