// SPDX-License-Identifier: Apache-2.0
// cron — when a schedule is due.
//
// Takes what Kubernetes takes as a CronJob's schedule and gives the instants that its controller gives, zone by zone and quirk by
// quirk; test/cron holds it against the Go library that Kubernetes uses. Not a scheduler: it keeps no time, starts nothing and knows
// nothing of deadlines. Pure.
//
//     minute(0-59) hour(0-23) day-of-month(1-31) month(1-12, JAN-DEC) day-of-week(0-6, SUN-SAT)
//
// Each field a list of N, N-M, *, ? (the same), any of them with /STEP; N/STEP goes on to the end of the field. Or @yearly (@annually),
// @monthly, @weekly, @daily (@midnight), @hourly, or "@every 1h30m" with a duration as Go writes it, at least a second.
//
// Day of month and day of week: a day that either names is due; when one of them is a star (with a step above 1 it is none), a day
// that both name. Where clocks are set forward over a time of day that is named, that run is left out; where they are set back,
// it comes twice, as each hour of "*/5 * * * *" must. A schedule may be valid and never due (30 February).
#ifndef EXPR_CRON_H
#define EXPR_CRON_H

#include "base/err.h"
#include "expr/tz.h"

// A value: copy it, nothing to free.
struct cron {
    uint64_t minute, hour, dom, month, dow; // bit n: n is named; the top bit of the days: a star
    int64_t every_s;                        // > 0: "@every", and the rest counts for nothing
};

// E_INVAL: which field, and what is wrong with it. *c is untouched then.
int cron_parse(struct cron *c, const char *text, struct err *e) MUST_USE;

// The first instant (seconds since 1970) strictly after `after_s` that the schedule names by the clocks of zone z, NULL = UTC; -1 when
// there is none until the end of the fifth calendar year from now, or `after_s` is not in the years 1 to 9990.
// "@every" is `after_s` plus the duration: the caller keeps the rhythm.
int64_t cron_next(const struct cron *c, const struct tz *z, int64_t after_s);

#endif
