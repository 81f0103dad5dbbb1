// SPDX-License-Identifier: Apache-2.0
// edgeapp_probe — has an instance started, does it live, is it ready? Tries the probes and counts.
//
// As in Kubernetes: a verdict turns good after successThreshold successes in a row, and bad after failureThreshold failures in a row. An
// instance begins as not started, alive and not ready. Until it has started the other two are not tried. A pass starts the tries that are
// due; their answers come from the loop. What follows from a verdict is for edgeapp.c.
// Owns what a try needs (struct app_try) until its answer came or it is cancelled.
#ifndef KINDS_EDGEAPP_PROBE_H
#define KINDS_EDGEAPP_PROBE_H

#include "kinds/edgeapp_plan.h"

struct app_try {
    struct port *port;
    struct app_probing *slot; // whose try this is; kept right by app_try_moved()
    int index;
    enum app_probe_use use;
    int successes, failures; // thresholds when it began
    // changed: the verdict became another; failing: the failures reached their threshold for the first time since it was good or
    // began. `why` says how the last try failed. The try is gone afterwards.
    void (*answer)(void *ctx, int index, enum app_probe_use use, bool changed, bool failing, const char *why);
    void *ctx;
    char inside[INST_UID_MAX]; // the instance in whose container a command runs; "" = none
    bool is_run;
    struct arena arena;
    struct port_run run;
    struct port_check check;
};

// A running instance takes the slot over: its counts begin anew, unless it is the one they speak of. One of an older revision that nobody knows
// passes for ready, for it is not asked any more: it is replaced in its turn, not at once. What has no probe is good, and stays
// good until a probe that comes later finds otherwise. now_ms: monotonic.
void app_probes_follow(struct app_slot *s, const struct app_spec *spec, const struct inst *i, int64_t now_ms);
// Pure: is this probe tried now, on the live instance i (NULL = none) of the slot? Those of an older revision are asked nothing any more.
bool app_probe_applies(const struct app_spec *spec, const struct app_slot *s, const struct inst *i, enum app_probe_use use);
// Pure: counts one answer; see struct app_try.
void app_probing_count(struct app_probing *r, int successes, int failures, bool ok, bool *changed, bool *failing);

// Starts a try. `exec` (for PROBE_EXEC) must lie in t->arena already; argv is replaced by the probe's command. Takes t, also on failure.
int app_try_start(struct app_try *t, const struct app_probe *p, struct exec_env *exec, struct err *e) MUST_USE;
struct app_try *app_try_new(struct port *port, struct app_probing *r, int index, enum app_probe_use use, const struct app_probe *p);
void app_try_drop(struct app_try *t);       // one that was not started
void app_try_cancel(struct app_probing *r); // safe when none is under way
void app_tries_cancel(struct app_slot *s);
void app_tries_moved(struct app_slot *s); // the slot lies elsewhere now

#endif
