// SPDX-License-Identifier: Apache-2.0
// record — the files `state` and `exit` of an instance's directory, as text: one "name value" a line.
//
// Text with names, because the agent that reads is often a newer one than the shim that wrote: what a reader does not know it skips,
// what it misses has a meaning. Written to a temporary and renamed, so a reader sees all or nothing. Not a store: /run dies with the boot.
#ifndef SHIM_RECORD_H
#define SHIM_RECORD_H

#include "port/port.h"

enum { RECORD_GROUP_MAX = 256 };
enum { RECORD_MAX = 2048 }; // bytes of a file

struct state_record {
    char uid[INST_UID_MAX], owner[INST_OWNER_MAX], revision[INST_REV_MAX];
    int index;
    int shim_pid, child_pid;         // both 0: the agent's intent, the shim has not said anything yet
    int64_t shim_start, child_start; // clock ticks since boot, as in /proc/PID/stat
    struct instant started;
    char cgroup[RECORD_GROUP_MAX]; // path of its control group, "" = none
};

struct exit_record {
    struct inst_exit exit;
    struct instant ended;
};

// Text of the record, terminated; false: it does not fit.
bool state_format(const struct state_record *r, char out[RECORD_MAX]);
bool exit_format(const struct exit_record *r, char out[RECORD_MAX]);
// false: damaged, or not one of ours.
bool state_parse(const char *text, struct state_record *out);
bool exit_parse(const char *text, struct exit_record *out);

// Whole files below dirfd; 0 or an errno. Reading a longer one is EFBIG.
int record_write(int dirfd, const char *name, const char *text);
int record_read(int dirfd, const char *name, char out[RECORD_MAX]);

#endif
