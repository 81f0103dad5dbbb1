// SPDX-License-Identifier: Apache-2.0
// edgeapp_rollout — did a new revision come up? If not, the last one that did is put in its place.
//
// A revision is good once all its instances have been available (ready for minReadySeconds) at the same time; its spec is kept then, whole.
// It has failed when progressDeadlineSeconds went by in which nothing got better. A revision that failed is not tried again, by
// this agent or a later one, as long as a good one is there to go back to and spec.update.rollback allows it; any change of it is another
// revision. One that was good before never fails: what happens to it later is its crashes' business.
//
// The watch over a rollout is in memory alone and begins anew with the agent: the deadline is one agent's, uninterrupted.
#ifndef KINDS_EDGEAPP_ROLLOUT_H
#define KINDS_EDGEAPP_ROLLOUT_H

#include "kinds/edgeapp_plan.h"
#include "kinds/edgeapp_record.h"

struct app_watch {
    char revision[INST_REV_MAX];
    int best;         // the most that was seen of what should be
    int64_t since_ms; // monotonic, when that was
    bool told;        // that it takes too long
};
enum app_verdict { ROLLOUT_UNDER_WAY, ROLLOUT_GOOD, ROLLOUT_LATE };
// Pure. good: the revision that is known to be; *next_ms: when to look again, INT64_MAX = when something changes.
enum app_verdict app_watch_judge(struct app_watch *w, const struct app_spec *spec, const struct app_summary *sum, const char *good,
                                 int64_t now_ms, int64_t *next_ms);

struct app_rollout {
    struct app_watch watch;
    struct json *kept; // the spec in force in the place of one that failed: what was decoded from it points here
    // Of the pass, the record in its memory:
    struct app_record *record;
    const struct app_failed *failed; // what was asked for did not come up, and the spec is the one before; NULL = no
    bool late;                       // it takes too long, and there is no way back
};

// Begins a pass: the last good spec takes the place of `spec`, as decoded from p->spec, when that one's revision failed. How many are wanted,
// and whether it is suspended, is for the newest one to say all the same. What cannot be read is not used.
int app_rollout_begin(struct app_rollout *r, struct pass *p, struct app_spec *spec, struct err *e) MUST_USE;
// How the revision in force comes along. ROLLOUT_LATE asks for app_rollout_late().
enum app_verdict app_rollout_judge(struct app_rollout *r, const struct app_spec *spec, const struct app_summary *sum, int64_t now_ms,
                                   int64_t *next_ms);
int app_rollout_good(struct app_rollout *r, struct pass *p, const struct app_spec *spec, struct err *e) MUST_USE;
// Notes that it failed, and goes back to the last good one in the pass after the commit; or says once that it takes too long.
int app_rollout_late(struct app_rollout *r, struct pass *p, const struct app_spec *spec, const char *why, struct err *e) MUST_USE;
void app_rollout_fini(struct app_rollout *r);

#endif
