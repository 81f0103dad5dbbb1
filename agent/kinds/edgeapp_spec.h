// SPDX-License-Identifier: Apache-2.0
// edgeapp_spec — what an EdgeApp asks for, decoded, with defaults and revision. Pure.
//
// The revision names what a restart is needed for: command, args, env, user, group, workingDir, rlimits. It is computed from decoded
// fields, a field at its default counts as absent, so neither a new default in the CRD nor the order of members moves it. Its form is
// "<version>-<12 hex>"; whoever changes the encoding raises the version and accepts that every app restarts once.
#ifndef KINDS_EDGEAPP_SPEC_H
#define KINDS_EDGEAPP_SPEC_H

#include "data/json.h"
#include "port/port.h"

enum { APP_REPLICAS_MAX = 32, APP_ENV_MAX = 256, APP_ARGS_MAX = 256 };

enum app_restart { APP_ALWAYS, APP_ON_FAILURE, APP_NEVER };
enum app_probe_kind { PROBE_NONE, PROBE_EXEC, PROBE_HTTP, PROBE_TCP };

struct app_env {
    const char *name, *value;
};

struct app_probe {
    enum app_probe_kind kind;
    const char *const *command; // PROBE_EXEC, NULL-terminated
    const char *host, *path;
    int port;
    int64_t delay_ms, period_ms, timeout_ms;
    int successes, failures; // thresholds
};

struct app_spec {
    const char *const *command, *const *args; // NULL-terminated
    size_t n_command, n_args;
    struct app_env *env; // in the order given
    size_t n_env;
    const char *user, *group;                // NULL = as the agent
    const char *workdir;                     // "/" by default
    struct rlimit_spec rlimits[RLIMITS_MAX]; // by name
    size_t n_rlimits;
    int replicas;
    enum app_restart restart;
    int64_t grace_ms;
    struct app_probe probe;
    int64_t log_max;
    int log_files;
    char revision[INST_REV_MAX];
};

// E_INVAL names the field; E_TOOBIG: over the memory of a pass. Texts are borrowed from `spec`.
int app_spec_decode(struct app_spec *s, const struct json *spec, const char *node, struct arena *a, struct err *e) MUST_USE;

// Who an instance runs as, for HOME and USER. Empty = unknown, the variable is left out.
struct app_account {
    char name[64];
    char home[256];
};
// Finds the account in the text of a passwd file, by name or number. False: not there.
bool app_account_find(struct app_account *out, const char *passwd, const char *user);

// What instance `index` is started with: PATH, HOME, USER and LIMPET_INSTANCE unless the spec sets them, then the spec's variables; $(NAME)
// expanded in command and args. In arena `a`; texts of the spec are borrowed.
int app_exec_env(const struct app_spec *s, int index, const struct app_account *who, struct arena *a, struct exec_env *out,
                 struct err *e) MUST_USE;

// As Kubernetes expands command and args: $(NAME) is the value where lookup knows it, stays where it does not, $$ is a literal $.
// NULL: over the arena's bound.
char *app_expand(const char *text, const char *(*lookup)(const void *ctx, const char *name, size_t n), const void *ctx, struct arena *a);

#endif
