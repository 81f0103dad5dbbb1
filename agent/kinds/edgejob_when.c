// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgejob_when.h"

#include <stdio.h>
#include <string.h>

struct series {
    const struct cron *cron;
    const struct tz *zone;
    const struct job_record *record;
    int64_t base; // everything up to here is decided, as seen from now
};

// A clock that was set back by less than this waits for what was decided to be reached again; further back, the schedule goes on at once.
enum { STEP_S = 3600 };

// The newest instant that counts as decided for a clock that shows now_s.
static int64_t base_of(const struct job_record *r, int64_t now_s)
{
    int64_t base = r->since_s;
    for (size_t i = 0; i < r->n_spans; i++)
        if (r->spans[i].from <= now_s + STEP_S)
            base = MAX(base, r->spans[i].to);
    return base;
}

// "@every" keeps the rhythm of what was decided last; the others have their own.
static int64_t named_after(const struct series *s, int64_t after_s)
{
    int64_t every = s->cron->every_s;
    if (every <= 0)
        return cron_next(s->cron, s->zone, after_s);
    return s->base + (MAX(after_s - s->base, 0) / every + 1) * every;
}

// Passes over stretches that were decided while the clock was ahead of now.
static int64_t undecided_after(const struct series *s, int64_t after_s)
{
    int64_t t = named_after(s, after_s);
    for (size_t i = 0; i < s->record->n_spans && t >= 0; i++)
        if (t >= s->record->spans[i].from && t <= s->record->spans[i].to) {
            t = named_after(s, s->record->spans[i].to);
            i = (size_t)-1;
        }
    return t;
}

// The latest instant of [first_s, now_s]: halving, as a schedule can only be asked forward. Where a midnight does not exist the one after
// an earlier moment can lie before the one after a later moment (expr/cron.h); then it is the first that counts.
static int64_t latest_until(const struct series *s, int64_t first_s, int64_t now_s)
{
    int64_t low = first_s - 1, high = now_s; // an instant lies in (low, now_s]; none in (high, now_s]
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2, t = undecided_after(s, middle);
        if (t >= 0 && t <= now_s)
            low = middle;
        else
            high = middle;
    }
    int64_t latest = undecided_after(s, low);
    return latest >= first_s && latest <= now_s ? latest : first_s;
}

static int64_t count_before(const struct series *s, int64_t first_s, int64_t last_s)
{
    int64_t n = 0;
    for (int64_t t = first_s; t >= 0 && t < last_s && n < JOB_MISSED_MAX; t = undecided_after(s, t))
        n++;
    return n;
}

void job_when(const struct cron *c, const struct tz *zone, const struct job_record *r, int64_t now_s, struct job_due *out)
{
    struct series s = { c, zone, r, base_of(r, now_s) };
    int64_t first = undecided_after(&s, s.base);
    *out = (struct job_due){ .next_s = first };
    if (first < 0 || first > now_s)
        return;
    out->any = true;
    out->first_s = first;
    out->instant_s = latest_until(&s, first, now_s);
    out->earlier = count_before(&s, first, out->instant_s);
    out->next_s = undecided_after(&s, now_s);
}

static void add_span(struct job_record *r, int64_t at_s)
{
    size_t oldest = 0;
    if (r->n_spans == JOB_SPANS_MAX) {
        for (size_t i = 1; i < r->n_spans; i++)
            if (r->spans[i].to < r->spans[oldest].to)
                oldest = i;
        r->n_spans--;
        memmove(&r->spans[oldest], &r->spans[oldest + 1], (r->n_spans - oldest) * sizeof(r->spans[0]));
    }
    r->spans[r->n_spans++] = (struct job_span){ at_s, at_s };
}

// Without a gap the stretch grows; a gap begins a new one, so that what was missed because the clock leapt ahead is open again if it comes
// back.
void job_decide(struct job_record *r, const struct job_due *due, int64_t now_s)
{
    int64_t base = base_of(r, now_s);
    for (size_t i = 0; due->earlier == 0 && i < r->n_spans; i++)
        if (r->spans[i].to == base) {
            r->spans[i].to = due->instant_s;
            return;
        }
    add_span(r, due->instant_s);
}

bool job_when_begin(struct job_record *r, const char *when, int64_t now_s)
{
    bool same = strcmp(r->when, when) == 0;
    if (same && r->since_s > 0 && r->since_s <= now_s)
        return false;
    // What ran stays decided under the new schedule, too: an instant that both name does not run twice.
    snprintf(r->when, sizeof(r->when), "%s", when);
    r->since_s = now_s;
    return true;
}
