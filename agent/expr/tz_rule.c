// SPDX-License-Identifier: Apache-2.0
// POSIX TZ strings: "CET-1CEST,M3.5.0,M10.5.0/3", with what RFC 9636 adds for files (names in <>, times of day beyond a day).
//
// A string with a summer time but without its days is refused: what the days would be then, each system guesses for itself.
#include <ctype.h>
#include <string.h>

#include "expr/tz_priv.h"

enum { OFFSET_HOURS = 24, TIME_HOURS = 167 };

// --- reading: each takes a piece off *s, false when it is not there

static bool take(const char **s, char c)
{
    if (**s != c)
        return false;
    (*s)++;
    return true;
}

static bool take_number(const char **s, int min, int max, int *out)
{
    int n = 0;
    if (!isdigit((unsigned char)**s))
        return false;
    for (; isdigit((unsigned char)**s); (*s)++) {
        n = n * 10 + (**s - '0');
        if (n > max)
            return false;
    }
    *out = n;
    return n >= min;
}

// "CET" or "<+0330>". What it says is nobody's concern here.
static bool take_name(const char **s)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", quoted[] = "+-0123456789";
    bool in_brackets = take(s, '<');
    const char *from = *s;
    while (**s != '\0' && (strchr(letters, **s) != NULL || (in_brackets && strchr(quoted, **s) != NULL)))
        (*s)++;
    return *s - from >= 3 && (!in_brackets || take(s, '>'));
}

// [+-]h[:m[:s]] in seconds.
static bool take_time(const char **s, int max_hours, int32_t *out)
{
    bool negative = take(s, '-');
    int h, m = 0, sec = 0;
    if (!negative)
        take(s, '+');
    if (!take_number(s, 0, max_hours, &h))
        return false;
    if (take(s, ':') && (!take_number(s, 0, 59, &m) || (take(s, ':') && !take_number(s, 0, 59, &sec))))
        return false;
    int32_t v = h * 3600 + m * 60 + sec;
    *out = negative ? -v : v;
    return true;
}

// The sign is the other way round: what must be added to the clock to get UTC.
static bool take_offset(const char **s, int32_t *out)
{
    if (!take_time(s, OFFSET_HOURS, out))
        return false;
    *out = -*out;
    return true;
}

static bool take_date(const char **s, struct tz_day *d)
{
    if (take(s, 'J')) {
        d->kind = DAY_JULIAN;
        return take_number(s, 1, 365, &d->n);
    }
    if (!take(s, 'M')) {
        d->kind = DAY_ZERO;
        return take_number(s, 0, 365, &d->n);
    }
    d->kind = DAY_WEEK;
    return take_number(s, 1, 12, &d->month) && take(s, '.') && take_number(s, 1, 5, &d->week) && take(s, '.') &&
           take_number(s, 0, 6, &d->n);
}

static bool take_day(const char **s, struct tz_day *d)
{
    *d = (struct tz_day){ .time_s = 2 * 3600 };
    return take(s, ',') && take_date(s, d) && (!take(s, '/') || take_time(s, TIME_HOURS, &d->time_s));
}

static bool take_rule(const char **s, struct tz_rule *r)
{
    *r = (struct tz_rule){ 0 };
    if (!take_name(s) || !take_offset(s, &r->std))
        return false;
    if (**s == '\0')
        return true;
    if (!take_name(s))
        return false;
    r->changes = true;
    r->dst = r->std + 3600;
    if (**s != ',' && !take_offset(s, &r->dst))
        return false;
    return take_day(s, &r->from) && take_day(s, &r->to);
}

int tz_rule_parse(struct tz_rule *r, const char *text, struct err *e)
{
    const char *s = text;
    struct tz_rule got;
    if (!take_rule(&s, &got) || *s != '\0')
        return err_set(e, E_INVAL, "\"%.60s\" is no POSIX TZ string such as CET-1CEST,M3.5.0,M10.5.0/3 (wrong at byte %d)", text,
                       (int)(s - text) + 1);
    *r = got;
    return 0;
}

// --- using

static int64_t days_of(int64_t year, int month, int day)
{
    return tz_civil_s(&(struct tz_civil){ .year = year, .month = month, .day = day }) / DAY_S;
}

// The day Mm.w.d, from the first of January.
static int64_t week_day(const struct tz_day *d, int64_t year)
{
    struct tz_civil first;
    tz_civil_of(tz_civil_s(&(struct tz_civil){ .year = year, .month = d->month, .day = 1 }), &first);
    int day = 1 + (d->n - first.wday + 7) % 7 + 7 * (d->week - 1);
    int64_t end = days_of(year, d->month + 1, 1) - days_of(year, d->month, 1);
    if (day > end)
        day -= 7; // only the fifth can be too many
    return days_of(year, d->month, day) - days_of(year, 1, 1);
}

// Seconds from the beginning of the year to the change, by the clocks as they stand before it.
static int64_t change_s(const struct tz_day *d, int64_t year)
{
    int64_t day = d->n;
    if (d->kind == DAY_WEEK)
        day = week_day(d, year);
    else if (d->kind == DAY_JULIAN)
        day += days_of(year, 3, 1) - days_of(year, 1, 1) == 60 && d->n >= 60 ? 0 : -1;
    return day * DAY_S + d->time_s;
}

int32_t tz_rule_offset(const struct tz_rule *r, int64_t at_s)
{
    struct tz_civil c;
    if (!r->changes)
        return r->std;
    tz_civil_of(at_s + r->std, &c);
    int64_t now = at_s + r->std - tz_civil_s(&(struct tz_civil){ .year = c.year, .month = 1, .day = 1 });
    int64_t from = change_s(&r->from, c.year), to = change_s(&r->to, c.year) - (r->dst - r->std);
    // In the south summer goes over the new year.
    bool summer = from <= to ? now >= from && now < to : now >= from || now < to;
    return summer ? r->dst : r->std;
}
