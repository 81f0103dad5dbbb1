// SPDX-License-Identifier: Apache-2.0
// process — what kinds that run programs have in common: the fields of a spec that say how a process is started, their revision, and the
// environment it gets. Decoding is pure; only process_account() looks at the machine.
//
// The revision names what a restart is needed for: command, args, env (of a reference, what it refers to), user, group, workingDir, rlimits, resources. It is computed from decoded
// fields, a field at its default counts as absent, so neither a new default in the CRD nor the order of members moves it. Its form is
// "<version>-<12 hex>"; whoever changes the encoding raises the version and accepts that every app restarts once, and that every one-shot
// job runs again.
#ifndef KINDS_PROCESS_H
#define KINDS_PROCESS_H

#include "base/fsio.h"
#include "kinds/references.h"
#include "port/port.h"

enum { PROCESS_ENV_MAX = 256, PROCESS_ENV_FROM_MAX = 32, PROCESS_ARGS_MAX = 256, PROCESS_OWN_ENV_MAX = 4 };

struct env_var {
    const char *name, *value;
};

// Every key of an object as a variable, its name behind the prefix.
struct env_from {
    struct ref ref;
    const char *prefix;
};

struct process {
    const char *const *command, *const *args; // NULL-terminated
    size_t n_command, n_args;
    struct env_var *env;  // in the order given
    struct ref *env_refs; // by index of env: where its value comes from; no name = it is in env
    size_t n_env;
    struct env_from *env_from;
    size_t n_env_from;
    const char *user, *group;                // NULL = as the agent
    const char *workdir;                     // "/" by default
    struct rlimit_spec rlimits[RLIMITS_MAX]; // by name
    size_t n_rlimits;
    int64_t grace_ms;
    int64_t log_max;
    int log_files;
    struct inst_limits limits; // 0 = none
    char revision[INST_REV_MAX];
};

bool process_is_env_name(const char *s);

// Whether a command has to be there is the kind's affair. Reads command, args, env, envFrom, user, group, workingDir, rlimits, resources, terminationGracePeriodSeconds and logs. Errors stick in the decode. Texts are
// borrowed from the spec.
void process_decode(struct process *s, const struct field *spec);

// Who a process runs as, for HOME and USER. Empty = unknown, the variable is left out.
struct account {
    char name[64];
    char home[256];
};
// Finds the account in the text of a passwd file, by name or number. False: not there.
bool account_find(struct account *out, const char *passwd, const char *user);
// The account of this process, from the machine's passwd file.
void process_account(struct disk *d, const struct process *s, struct account *out);

// What it is started with: PATH, HOME, USER and the kind's `own` variables (at most PROCESS_OWN_ENV_MAX) unless the spec sets them, then the
// spec's; $(NAME) expanded in command and args, unless it is a Secret's: every user of the machine can read those. who NULL: another
// system's files, whose PATH, HOME and USER are not ours to say. In arena `a`; texts of the spec are borrowed.
int process_exec_env(const struct process *s, const struct env_var *own, size_t n_own, const struct account *who, struct arena *a,
                     struct exec_env *out, struct err *e) MUST_USE;

// As Kubernetes expands command and args: $(NAME) is the value where lookup knows it, stays where it does not, $$ is a literal $.
// NULL: over the arena's bound.
char *process_expand(const char *text, const char *(*lookup)(const void *ctx, const char *name, size_t n), const void *ctx,
                     struct arena *a);

#endif
