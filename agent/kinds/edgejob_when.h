// SPDX-License-Identifier: Apache-2.0
// edgejob_when — which instant of a schedule is due, which were missed, which is next. Pure.
//
// An instant is decided once: it runs, is skipped, or is missed for good. What was decided is kept as stretches (job_span), so that a
// wall clock that is set back, by an hour or by ten years, neither repeats an instant nor stops the schedule until that time comes again:
// a stretch that lies wholly in the future blocks its own instants and no others.
#ifndef KINDS_EDGEJOB_WHEN_H
#define KINDS_EDGEJOB_WHEN_H

#include "kinds/edgejob_record.h"

enum { JOB_MISSED_MAX = 1000 }; // counted so far, and no further

struct job_due {
    bool any;
    int64_t instant_s; // the latest that is due and not decided
    int64_t first_s;   // the earliest such
    int64_t earlier;   // how many lie before it, undecided: they are missed; at most JOB_MISSED_MAX
    int64_t next_s;    // the first after now, -1 = none
};

// now_s: a wall clock that is trusted. r->since_s must be set. zone NULL = UTC.
void job_when(const struct cron *c, const struct tz *zone, const struct job_record *r, int64_t now_s, struct job_due *out);
// Decides what is due: instant_s, and with it all that lies before.
void job_decide(struct job_record *r, const struct job_due *due, int64_t now_s);
// A schedule begins to count, now, or when the clock turns out to be before that.
bool job_when_begin(struct job_record *r, const char *when, int64_t now_s);

#endif
