// SPDX-License-Identifier: Apache-2.0
// edgeapp_spec — what an EdgeApp asks for, decoded, with defaults and revision. Pure.
//
// What an instance is started with, and its revision: kinds/process.h.
#ifndef KINDS_EDGEAPP_SPEC_H
#define KINDS_EDGEAPP_SPEC_H

#include "kinds/edgeapp_mark.h"
#include "kinds/process.h"

enum { APP_REPLICAS_MAX = 32 };

#define RUNTIME_CONTAINER "container"

enum app_restart { APP_ALWAYS, APP_ON_FAILURE, APP_NEVER };
enum app_probe_kind { PROBE_NONE, PROBE_EXEC, PROBE_HTTP, PROBE_TCP };
enum app_probe_use { APP_STARTUP, APP_LIVENESS, APP_READINESS, APP_PROBES };

struct app_probe {
    enum app_probe_kind kind;
    const char *const *command; // PROBE_EXEC, NULL-terminated
    const char *host, *path;
    int port;
    int64_t delay_ms, period_ms, timeout_ms;
    int successes, failures; // thresholds
};

struct app_spec {
    struct process process;
    char asked[INST_REV_MAX]; // its revision without the values that it refers to: by this a rollout is known
    const char *runtime;      // NULL = as the node has it, until app_spec_runtime() was asked
    const char *image;        // of a container; NULL = no container
    enum image_pull pull;
    int replicas;
    int remembered;      // instances whose ends are kept: more than replicas while none may run
    int max_unavailable; // of them at once, while a new revision replaces an older one
    int64_t min_ready_ms, progress_deadline_ms;
    bool rollback;
    bool suspend;
    bool restart_on_change; // of a value that is referred to
    struct app_mark mark;   // not of the spec: instances from before are superseded
    enum app_restart restart;
    struct app_probe probes[APP_PROBES];
};

// How many instances it has something to say of.
static inline int app_remembers(const struct app_spec *s)
{
    return MAX(s->replicas, s->remembered);
}

const char *app_probe_word(enum app_probe_use use); // "startup", "liveness", "readiness"

// E_INVAL names the field; E_TOOBIG: over the memory of a pass. Texts are borrowed from `spec`.
int app_spec_decode(struct app_spec *s, const struct json *spec, const char *node, struct arena *a, struct err *e) MUST_USE;

// Where it runs, given the node's default ([port] name). Another runtime than exec is another revision: it ends in "-systemd".
void app_spec_runtime(struct app_spec *s, const char *dflt);

// What instance `index` is started with; it finds its number in LIMPET_INSTANCE.
int app_exec_env(const struct app_spec *s, int index, const struct account *who, struct arena *a, struct exec_env *out,
                 struct err *e) MUST_USE;

#endif
