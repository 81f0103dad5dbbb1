// SPDX-License-Identifier: Apache-2.0
// group — the control group (cgroup v2) of one instance, known by its path. port/groups.h makes them and sets their limits.
//
// Everything here is a few bytes of a file of the kernel's and does not block.
#ifndef SHIM_GROUP_H
#define SHIM_GROUP_H

#include <stdbool.h>

#define GROUP_PROCS "cgroup.procs"

// Writes to a file of the group. 0 or an errno; ENOENT: no such group, or its controller is not there.
int group_write(const char *group, const char *file, const char *text);
int group_enter(const char *group); // the calling process; what it starts from then on is in it, too. 0 or an errno
// SIGKILL to all in it and below at once, so that nobody can fork away. Before Linux 5.14 nothing: then the caller goes by processes.
void group_kill(const char *group);
bool group_has_processes(const char *group); // in it or below; not those that have ended
bool group_out_of_memory(const char *group); // has the kernel ended somebody in it for want of memory?
int group_remove(const char *group);         // absent is success; EBUSY: somebody is in it, or it has groups of its own. 0 or an errno

#endif
