// SPDX-License-Identifier: Apache-2.0
// spec — what the agent hands to a shim: one record of fixed size and the strings, in a memory file.
//
// A memory file (memfd) and not a file, a pipe or argv: environments hold secrets and may be a megabyte. Only the process that becomes the
// command maps the strings, so that they are never in the memory of the shim, which closes the file once the command executes.
// Both ends are one binary (the agent starts /proc/self/exe or the path it came from); a record of another version is refused.
#ifndef SHIM_SPEC_H
#define SHIM_SPEC_H

#include "base/err.h"
#include "port/port.h"

// The descriptors a shim is born with; all else is closed.
enum {
    SPEC_FD = 3,    // the memory file
    SPEC_REPORT_FD, // to the agent: one struct shim_report when the command executes or cannot
    SPEC_DIR_FD,    // the instance's directory                (an instance only)
    SPEC_LOCK_FD,   // its lock file, locked                   (an instance only)
    SPEC_FD_END
};

#define SPEC_MARK "_LIMPET_SHIM"

enum {
    SPEC_STRINGS_MAX = 2 * 1024 * 1024, // argv, environment and working directory together
    SPEC_NAME_MAX = 64,                 // user, group
    SPEC_PATH_MAX = 256,                // log directory, directory of the instance
    SPEC_LOG_NAME_MAX = 160,
};

// Everything but the strings; no secrets, so the shim keeps it.
struct shim_spec {
    char magic[8];
    uint32_t size;    // of this record
    uint32_t strings; // bytes after it: argv, then the environment, then the working directory, each with its NUL
    uint32_t argc, envc;
    uint32_t n_rlimits;
    int32_t index;
    int32_t log_files;
    int32_t agent; // pid of the agent
    int64_t log_max, grace_ms;
    struct rlimit_spec rlimits[RLIMITS_MAX];
    struct instant now; // the moment of the start as the agent's clock believes it
    char uid[INST_UID_MAX], owner[INST_OWNER_MAX], revision[INST_REV_MAX];
    char log_dir[SPEC_PATH_MAX], log_name[SPEC_LOG_NAME_MAX];
    char user[SPEC_NAME_MAX], group[SPEC_NAME_MAX]; // "" = as the agent
    char mark[SPEC_PATH_MAX];                       // path of its directory: what is left of an instance is known by it
    char cgroup[SPEC_PATH_MAX];                     // control group with its limits (shim/group.h), "" = none: it stays in the agent's
};

// What the shim answers. err 0: the command executes; else an errno and a text ("exec /x: Exec format error").
struct shim_report {
    int32_t err;
    char detail[160];
};

// Writes head (magic, sizes and counts are filled in here) and the strings of x into a new memory file. NULL for env means PATH alone; an
// instance (head->uid set) gets SPEC_MARK=mark in front. E_INVAL, E_TOOBIG, E_NOMEM.
int spec_write(int *fd_out, const struct shim_spec *head, const struct exec_env *x, struct err *e) MUST_USE;

// Reads and checks the record; false: it is not one of ours.
bool spec_read(int fd, struct shim_spec *out);

// The strings, mapped; lives until exec. argv and env are NULL-terminated.
struct spec_strings {
    char **argv, **env;
    const char *workdir;
};
bool spec_map(int fd, const struct shim_spec *head, struct spec_strings *out);

#endif
