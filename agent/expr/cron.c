// SPDX-License-Identifier: Apache-2.0
// The search for the next instant.
//
// It walks as the Go library walks: from the largest unit to the smallest, each time by calendar arithmetic in the zone, and from the
// beginning again where a smaller unit ran over. Most of what happens around a change of the clocks follows from these very steps (a
// day whose midnight does not exist is left out east of Greenwich and is not west of it), so they are not made any nicer.
#include "expr/cron.h"

#include "base/util.h"
#include "expr/cron_priv.h"

enum { YEARS = 5 };
static const int64_t first_s = INT64_C(-62135596800), last_s = INT64_C(253086940800); // the years 1 and 9990

struct walk {
    const struct tz *z;
    int64_t at_s;
    struct tz_civil c; // what the clocks show then
    bool began;        // the smaller units stand at their beginning, for some larger one has moved
};

static void go_to(struct walk *w, int64_t at_s)
{
    w->at_s = at_s;
    tz_civil_of(at_s + tz_offset(w->z, at_s), &w->c);
}

// Until the clocks show w->c; units may be over their ends.
static void go_to_civil(struct walk *w)
{
    go_to(w, tz_from_local(w->z, tz_civil_s(&w->c)));
}

static bool has(uint64_t bits, int n)
{
    return (bits >> n & 1) != 0;
}

static bool is_day(const struct cron *c, const struct tz_civil *t)
{
    bool dom = has(c->dom, t->day), dow = has(c->dow, t->wday);
    return ((c->dom | c->dow) & CRON_STAR) != 0 ? dom && dow : dom || dow;
}

static void begin_day(struct walk *w)
{
    w->c.hour = w->c.min = w->c.sec = 0;
    go_to_civil(w);
    w->began = true;
}

// Where clocks were set at midnight, calendar arithmetic lands beside it.
static void to_midnight(struct walk *w)
{
    if (w->c.hour != 0)
        go_to(w, w->at_s + (int64_t)(w->c.hour > 12 ? 24 - w->c.hour : -w->c.hour) * 3600);
}

static void next_day(struct walk *w)
{
    int64_t was_s = w->at_s;
    w->c.day++;
    go_to_civil(w);
    to_midnight(w);
    if (w->at_s > was_s)
        return;
    // The zone left out a whole day (Samoa, 30 December 2011). The Go library would stand here for ever.
    go_to(w, was_s + 86400);
    to_midnight(w);
}

// Each of these goes on to the next that the schedule names. False: it ran over into a larger unit, which has to be looked at again.
static bool to_month(const struct cron *c, struct walk *w)
{
    while (!has(c->month, w->c.month)) {
        if (!w->began) {
            w->c.day = 1;
            begin_day(w);
        }
        w->c.month++;
        go_to_civil(w);
        if (w->c.month == 1)
            return false;
    }
    return true;
}

static bool to_day(const struct cron *c, struct walk *w)
{
    while (!is_day(c, &w->c)) {
        if (!w->began)
            begin_day(w);
        next_day(w);
        if (w->c.day == 1)
            return false;
    }
    return true;
}

static bool to_hour(const struct cron *c, struct walk *w)
{
    while (!has(c->hour, w->c.hour)) {
        if (!w->began) {
            w->began = true;
            w->c.min = w->c.sec = 0;
            go_to_civil(w);
        }
        go_to(w, w->at_s + 3600);
        if (w->c.hour == 0)
            return false;
    }
    return true;
}

// Down to the minute as UTC counts it: a local mean time is off by seconds.
static int64_t minute_of(int64_t at_s)
{
    return at_s - (at_s % 60 + 60) % 60;
}

static bool to_minute(const struct cron *c, struct walk *w)
{
    while (!has(c->minute, w->c.min)) {
        if (!w->began) {
            w->began = true;
            go_to(w, minute_of(w->at_s));
        }
        go_to(w, w->at_s + 60);
        if (w->c.min == 0)
            return false;
    }
    return true;
}

static bool to_second(struct walk *w)
{
    while (w->c.sec != 0) {
        w->began = true;
        go_to(w, w->at_s + 1);
        if (w->c.sec == 0)
            return false;
    }
    return true;
}

static int64_t search(const struct cron *c, const struct tz *z, int64_t from_s)
{
    struct walk w = { .z = z };
    go_to(&w, from_s);
    int64_t year_end = w.c.year + YEARS;
    while (w.c.year <= year_end) {
        if (to_month(c, &w) && to_day(c, &w) && to_hour(c, &w) && to_minute(c, &w) && to_second(&w))
            return w.at_s;
    }
    return -1;
}

int64_t cron_next(const struct cron *c, const struct tz *z, int64_t after_s)
{
    if (after_s < first_s || after_s > last_s)
        return -1;
    if (c->every_s > 0)
        return after_s + c->every_s;
    if (c->minute == 0 || c->hour == 0 || c->month == 0) // a field such as ",": five years of single minutes would be looked at
        return -1;
    int64_t next_s, from_s = after_s + 1;
    // Where clocks were set back, the beginning of an hour may be that of the first time it is shown, and what is found lies behind us.
    while ((next_s = search(c, z, from_s)) != -1 && next_s <= after_s)
        from_s = minute_of(from_s) + 60;
    return next_s;
}
