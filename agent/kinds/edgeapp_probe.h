// SPDX-License-Identifier: Apache-2.0
// edgeapp_probe — is an instance ready? Tries the readiness probe and counts.
//
// As in Kubernetes: an instance is not ready until successThreshold tries in a row succeeded, and not ready again after failureThreshold
// failures in a row. It is never restarted for it. A pass starts the tries that are due; their answers come from the loop.
// Owns what a try needs (struct app_try) until its answer came or it is cancelled.
#ifndef KINDS_EDGEAPP_PROBE_H
#define KINDS_EDGEAPP_PROBE_H

#include "kinds/edgeapp_plan.h"

struct app_try {
    struct port *port;
    struct app_readiness *slot; // whose try this is; kept right by app_try_moved()
    int index;
    int successes, failures; // thresholds when it began
    // changed: ready became another; failing: the failures reached their threshold for the first time since it was ready or
    // began. `why` says how the last try failed. The try is gone afterwards.
    void (*answer)(void *ctx, int index, bool changed, bool failing, const char *why);
    void *ctx;
    bool is_run;
    struct arena arena;
    struct port_run run;
    struct port_check check;
};

// A running instance takes the slot over: counts begin anew unless it is the same. was_ready: an earlier agent found it ready.
void app_readiness_follow(struct app_readiness *r, const char *uid, int64_t first_try_ms, bool was_ready);
// Pure: counts one answer; see struct app_try.
void app_readiness_count(struct app_readiness *r, int successes, int failures, bool ok, bool *changed, bool *failing);

// Starts a try. `exec` (for PROBE_EXEC) must lie in t->arena already; argv is replaced by the probe's command. Takes t, also on failure.
int app_try_start(struct app_try *t, const struct app_probe *p, struct exec_env *exec, struct err *e) MUST_USE;
struct app_try *app_try_new(struct port *port, struct app_readiness *r, int index, const struct app_probe *p);
void app_try_drop(struct app_try *t);         // one that was not started
void app_try_cancel(struct app_readiness *r); // safe when none is under way
void app_try_moved(struct app_readiness *r);  // the slot lies elsewhere now

#endif
