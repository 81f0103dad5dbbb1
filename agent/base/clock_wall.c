// SPDX-License-Identifier: Apache-2.0
// How far the wall clock is believed, and how times are written and read. Asks the kernel nothing.
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"

enum { DATE_SLACK_US = 2000000 };
#define STEP_US INT64_C(86400000000)
enum { DAY_SEC = 86400, YEAR_FIRST = 1970, YEAR_LAST = 9999 };

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t clock_mono(struct clock *c)
{
    return c->ops->mono_ms(c);
}

int64_t clock_mono_us(struct clock *c)
{
    return c->ops->mono_us != NULL ? c->ops->mono_us(c) : 1000 * c->ops->mono_ms(c);
}

int64_t clock_boot(struct clock *c)
{
    return c->ops->boot_ms(c);
}

// What a verified server said this boot, carried on by boot-time.
static int64_t server_us(struct clock *c)
{
    return clock_boot(c) * 1000 + c->offset_us;
}

static bool is_contradicted(struct clock *c, int64_t wall_us)
{
    int64_t said = c->server_dated ? server_us(c) : wall_us;
    return wall_us < said - STEP_US || wall_us > said + STEP_US;
}

// A clock that started before the floor, or that nothing set at boot, does not become right by passing the floor; one that was stepped
// days away from what the server says is no longer right.
static bool wall_trusted(struct clock *c, int64_t wall_us)
{
    if (c->always || c->ops->synced(c))
        return true;
    return c->floor_us > 0 && wall_us >= c->floor_us && !c->was_below_floor && !c->no_rtc && !is_contradicted(c, wall_us);
}

int64_t clock_wall_us(struct clock *c)
{
    int64_t wall = c->ops->wall_us(c);
    if (wall_trusted(c, wall))
        return wall;
    int64_t guess = c->server_dated ? server_us(c) : wall;
    return max64(guess, c->floor_us);
}

bool clock_trusted(struct clock *c)
{
    return c->server_dated || wall_trusted(c, c->ops->wall_us(c));
}

bool clock_vouched(struct clock *c)
{
    return c->always || c->server_dated || c->ops->synced(c);
}

// Whether a Date before the floor is the last of enough that agree.
static bool earlier_dates_agree(struct clock *c, int64_t us)
{
    int64_t boot_ms = clock_boot(c), offset_us = us - boot_ms * 1000, off = offset_us - c->earlier_offset_us;
    if (c->earlier == 0 || off < -DATE_SLACK_US || off > DATE_SLACK_US) {
        c->earlier = 0;
        c->earlier_since_ms = boot_ms;
        c->earlier_offset_us = offset_us;
    }
    c->earlier = MIN(c->earlier + 1, CLOCK_AGREE);
    return c->earlier == CLOCK_AGREE && boot_ms - c->earlier_since_ms >= CLOCK_AGREE_MS && us >= c->built_us;
}

void clock_server_date(struct clock *c, int64_t sec)
{
    if (sec <= 0 || sec > INT64_MAX / 1000000)
        return;
    int64_t us = sec * 1000000;
    if (us < c->floor_us) {
        if (!earlier_dates_agree(c, us))
            return; // the server's clock is the one that is wrong
        c->floor_us = us;
        c->floor_lowered = true;
    }
    c->earlier = 0;
    // A Date has whole seconds and travelled here: an estimate that agrees with it within a few stays, so that time does not jump
    // to and fro with each answer.
    int64_t boot_us = clock_boot(c) * 1000, now = c->server_dated ? server_us(c) : c->ops->wall_us(c);
    if (now < us - DATE_SLACK_US || now > us + 1000000 + DATE_SLACK_US)
        now = us;
    c->offset_us = now - boot_us;
    c->server_dated = true;
}

void clock_floor(struct clock *c, int64_t us)
{
    if (us <= c->floor_us)
        return;
    c->floor_us = us;
    if (c->ops->wall_us(c) < us)
        c->was_below_floor = true;
}

void clock_instant(struct clock *c, struct instant *out)
{
    c->ops->boot_id(c, out->boot_id);
    out->boot_ms = clock_boot(c);
    out->wall_us = clock_wall_us(c);
    out->trusted = clock_trusted(c);
}

uint64_t clock_rand64(struct clock *c)
{
    uint64_t r;
    c->ops->random(c, &r, sizeof(r));
    return r;
}

int64_t clock_rand(struct clock *c, int64_t n)
{
    if (n <= 0)
        return 0;
    uint64_t range = (uint64_t)n;
    uint64_t fair = UINT64_MAX - UINT64_MAX % range; // above it the low values would come more often
    uint64_t r;
    do
        r = clock_rand64(c);
    while (r >= fair);
    return (int64_t)(r % range);
}

struct civil {
    int year, month, day; // month and day from 1
    int hour, min, sec;
};

static bool is_leap(int y)
{
    return (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
}

static int month_days(int y, int m)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    return m == 2 && is_leap(y) ? 29 : days[m - 1];
}

// Days from 1970-01-01 to the first of January of year y.
static int64_t year_days(int64_t y)
{
    int64_t p = y - 1;
    return 365 * (y - YEAR_FIRST) + (p / 4 - 1969 / 4) - (p / 100 - 1969 / 100) + (p / 400 - 1969 / 400);
}

static int64_t civil_to_sec(const struct civil *t)
{
    int64_t days = year_days(t->year) + t->day - 1;
    for (int m = 1; m < t->month; m++)
        days += month_days(t->year, m);
    return days * DAY_SEC + t->hour * 3600 + t->min * 60 + t->sec;
}

static bool civil_valid(const struct civil *t)
{
    return t->year >= YEAR_FIRST && t->year <= YEAR_LAST && t->month >= 1 && t->month <= 12 && t->day >= 1 &&
           t->day <= month_days(t->year, t->month) && t->hour <= 23 && t->min <= 59 && t->sec <= 59;
}

static void civil_from_sec(int64_t sec, struct civil *t)
{
    int64_t days = sec / DAY_SEC;
    int in_day = (int)(sec % DAY_SEC);
    int y = (int)(YEAR_FIRST + days / 366); // never after the right year
    while (year_days(y + 1) <= days)
        y++;
    int left = (int)(days - year_days(y));
    int m = 1;
    for (; left >= month_days(y, m); m++)
        left -= month_days(y, m);
    *t = (struct civil){ y, m, left + 1, in_day / 3600, in_day / 60 % 60, in_day % 60 };
}

// What lies outside the years that RFC 3339 can write is written as the nearest that it can.
static int64_t clamp_us(int64_t us)
{
    static const struct civil end = { YEAR_LAST, 12, 31, 23, 59, 59 };
    int64_t last = civil_to_sec(&end) * 1000000 + 999999;
    return us < 0 ? 0 : MIN(us, last);
}

char *rfc3339_sec(int64_t wall_us, char out[RFC3339_MAX])
{
    struct civil t;
    civil_from_sec(clamp_us(wall_us) / 1000000, &t);
    snprintf(out, RFC3339_MAX, "%04u-%02u-%02uT%02u:%02u:%02uZ", (unsigned)t.year % 10000u, (unsigned)t.month % 100u,
             (unsigned)t.day % 100u, (unsigned)t.hour % 100u, (unsigned)t.min % 100u, (unsigned)t.sec % 100u);
    return out;
}

char *rfc3339_micro(int64_t wall_us, char out[RFC3339_MAX])
{
    rfc3339_sec(wall_us, out);
    snprintf(out + strlen("2026-11-30T12:00:00"), sizeof(".000000Z"), ".%06uZ", (unsigned)(clamp_us(wall_us) % 1000000));
    return out;
}

// Exactly n decimal digits; NULL when there are fewer. A NULL `s` passes through, so that steps can be chained.
static const char *digits(const char *s, int n, int *out)
{
    int v = 0;
    for (; s != NULL && n > 0; n--, s++) {
        if (*s < '0' || *s > '9')
            return NULL;
        v = v * 10 + (*s - '0');
    }
    *out = v;
    return s;
}

static const char *literal(const char *s, const char *want)
{
    size_t n = strlen(want);
    return s != NULL && strncmp(s, want, n) == 0 ? s + n : NULL;
}

// ".5", ".123456789": up to nanoseconds, cut to microseconds.
static const char *fraction(const char *s, int64_t *us)
{
    int n = 0;
    int64_t v = 0;
    for (s++; *s >= '0' && *s <= '9'; s++, n++)
        if (n < 6)
            v = v * 10 + (*s - '0');
    if (n == 0 || n > 9)
        return NULL;
    for (; n < 6; n++)
        v *= 10;
    *us = v;
    return s;
}

static const char *zone(const char *s, int64_t *offset_sec)
{
    *offset_sec = 0;
    if (*s == 'Z' || *s == 'z')
        return s + 1;
    if (*s != '+' && *s != '-')
        return NULL;
    int sign = *s == '-' ? -1 : 1;
    int h = 0, m = 0;
    s = digits(literal(digits(s + 1, 2, &h), ":"), 2, &m);
    if (s == NULL || h > 23 || m > 59)
        return NULL;
    *offset_sec = sign * (h * 3600 + m * 60);
    return s;
}

bool rfc3339_parse(const char *s, int64_t *us)
{
    struct civil t = { 0 };
    int64_t frac = 0, offset;
    s = digits(literal(digits(literal(digits(s, 4, &t.year), "-"), 2, &t.month), "-"), 2, &t.day);
    if (s == NULL || (*s != 'T' && *s != 't'))
        return false;
    s = digits(literal(digits(literal(digits(s + 1, 2, &t.hour), ":"), 2, &t.min), ":"), 2, &t.sec);
    if (s != NULL && *s == '.')
        s = fraction(s, &frac);
    if (s != NULL)
        s = zone(s, &offset);
    if (s == NULL || *s != '\0')
        return false;
    bool leap_second = t.sec == 60; // is written as the second that follows it
    t.sec -= leap_second;
    if (!civil_valid(&t))
        return false;
    *us = (civil_to_sec(&t) + leap_second - offset) * 1000000 + frac;
    return true;
}

static const char *name_index(const char *s, const char *const *names, int n, int *out)
{
    for (int i = 0; s != NULL && i < n; i++) {
        if (strncmp(s, names[i], 3) == 0) {
            *out = i;
            return s + 3;
        }
    }
    return NULL;
}

bool http_date_parse(const char *s, int64_t *sec)
{
    static const char *const wdays[] = { "Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed" }; // 1970-01-01 was a Thursday
    static const char *const months[] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
    struct civil t = { 0 };
    int wday = 0, month = 0;
    s = literal(name_index(s, wdays, 7, &wday), ", ");
    s = literal(digits(s, 2, &t.day), " ");
    s = literal(name_index(s, months, 12, &month), " ");
    s = literal(digits(s, 4, &t.year), " ");
    s = digits(literal(digits(literal(digits(s, 2, &t.hour), ":"), 2, &t.min), ":"), 2, &t.sec);
    s = literal(s, " GMT");
    t.month = month + 1;
    if (s == NULL || *s != '\0' || !civil_valid(&t))
        return false;
    int64_t v = civil_to_sec(&t);
    if (v / DAY_SEC % 7 != wday)
        return false;
    *sec = v;
    return true;
}
