// SPDX-License-Identifier: Apache-2.0
// groups — control groups (cgroup v2) for the instances of port exec that have limits: <base>/<name>/<uid>, one each.
//
// The base is a directory that somebody gave to us, never one that is merely writable:
//   [port] cgroup       the one that is named; made when it is missing
//   under systemd       the service's own, when the agent sits in a group below it (Delegate=, DelegateSubgroup= of systemd 254), else that of
//                       limpet-apps.service beside it. An older systemd puts a service into the group itself, and the kernel lets no process
//                       into a group that has limited groups below: the agent would never start again
//   without systemd     the root of the hierarchy
// <name> comes from the run directory, so that two agents of one machine do not meet. Nothing is touched before the first instance with
// limits. Not a way to find processes: a group's path is in the instance's state file (shim/record.h), and shim/group.h ends and removes it.
// Nothing here blocks; a few small files of the kernel's are read and written.
#ifndef PORT_GROUPS_H
#define PORT_GROUPS_H

#include "port/port.h"
#include "shim/spec.h"

struct groups {
    const char *proc; // where /proc is
    bool systemd;     // runs this machine
    char name[SPEC_PATH_MAX];
    char configured[SPEC_PATH_MAX];               // "" = look for one
    char base[SPEC_PATH_MAX], dir[SPEC_PATH_MAX]; // dir = base/name
    bool ours;                                    // processes that are in the base itself may be moved
    bool ready;
};

// `configured` NULL = "". Nothing is looked for yet.
void groups_init(struct groups *g, const char *configured, const char *run_dir);
// Finds the base and makes it ready for groups with limits. E_UNSUP: there is none here, and why; asked again, it looks again.
int groups_prepare(struct groups *g, struct err *e) MUST_USE;
// After groups_prepare(). The path of an instance's group, whether it is there or not.
void groups_path(const struct groups *g, const char *uid, char out[SPEC_PATH_MAX]);
// Makes it and sets its limits; nothing is left of it on failure. E_UNSUP: a controller is missing. E_NOSPC and others of the kernel.
int groups_make(const char *path, const struct inst_limits *l, struct err *e) MUST_USE;
// Removes the groups without processes of those that are not known: agents died while they made or removed them.
void groups_sweep(struct groups *g, bool (*is_known)(void *ctx, const char *uid), void *ctx);

#endif
