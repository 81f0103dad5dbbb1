// SPDX-License-Identifier: Apache-2.0
// edgeapp_status — an app's slots and instances as status and back.
//
// The previous status is also what survives the agent: restart counts, last exits, "this one ended for good" are read from it after a
// start. What it holds is durable; an exit that it shows may be forgotten by the port.
#ifndef KINDS_EDGEAPP_STATUS_H
#define KINDS_EDGEAPP_STATUS_H

#include "flow/status.h"
#include "kinds/edgeapp_plan.h"
#include "kinds/edgeapp_rollout.h"

// First pass of this agent: takes over what an earlier agent reported, and what of it still runs. lost() is called for each instance that
// must not be started again (restartPolicy Never) and vanished with nobody seeing its end, as in a power cut.
void app_slots_load(struct app_slot *slots, const struct app_spec *spec, const struct json *prev, const struct inst *insts, size_t n_insts,
                    void (*lost)(void *ctx, int index), void *ctx);
// Marks the slots whose last exit the previous status shows.
void app_slots_reported(struct app_slot *slots, int n, const struct json *prev);

struct app_report {
    const struct app_spec *spec;
    const struct inst *insts;
    size_t n_insts;
    const struct app_slot *slots;
    const struct app_summary *summary;
    int64_t now_ms;
    const char *start_error;  // the port refused to start one; NULL = no
    const char *waits_reason; // a word for it
    const char *waits_for;    // one is not started without it; NULL = none waits
    const struct app_rollout *rollout;
    const char *probe_why; // how the readiness probe failed last; "" = it did not
};
void app_report_write(struct status *s, const struct app_report *r);

// For people: "ended with exit code 1", "was ended by signal 9", "could not be started: ...".
void app_exit_text(const struct app_exit *x, char *out, size_t max);

#endif
