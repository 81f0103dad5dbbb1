// SPDX-License-Identifier: Apache-2.0
// Durations of "@every", as Go reads them: a sign, ".5h", "1h30m", down to nanoseconds, up to 292 years. Configuration has a stricter
// form (base/num.h); this one takes what a CronJob takes.
#include <string.h>

#include "base/util.h"
#include "expr/cron_priv.h"

static const uint64_t max_ns = UINT64_C(1) << 63;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *take_whole(const char *s, uint64_t *out)
{
    uint64_t v = 0;
    for (; is_digit(*s); s++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v) || v > max_ns)
            return NULL;
    *out = v;
    return s;
}

// The digits behind a point, as many as fit; those beyond change no nanosecond.
static const char *take_fraction(const char *s, uint64_t *digits, double *scale)
{
    bool full = false;
    *digits = 0;
    *scale = 1;
    for (; is_digit(*s); s++) {
        full = full || *digits > (max_ns - 1) / 10;
        if (full)
            continue;
        *digits = *digits * 10 + (uint64_t)(*s - '0');
        *scale *= 10;
    }
    return s;
}

static const char *take_unit(const char *s, uint64_t *ns)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {
        { "ns", 1 },       { "us", 1000 },      { "\u00b5s", 1000 },  { "\u03bcs", 1000 },
        { "ms", 1000000 }, { "s", 1000000000 }, { "m", 60000000000 }, { "h", 3600000000000 },
    };
    size_t n = strcspn(s, ".0123456789");
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (strlen(units[i].name) == n && memcmp(s, units[i].name, n) == 0) {
            *ns = units[i].ns;
            return s + n;
        }
    }
    return NULL;
}

// One number with its unit, added to *total.
static const char *take_part(const char *s, uint64_t *total)
{
    uint64_t whole, unit, fraction = 0;
    double scale = 1;
    const char *from = s;
    if ((s = take_whole(s, &whole)) == NULL)
        return NULL;
    size_t digits = (size_t)(s - from);
    if (*s == '.') {
        from = s + 1;
        s = take_fraction(from, &fraction, &scale);
        digits += (size_t)(s - from);
    }
    if (digits == 0 || (s = take_unit(s, &unit)) == NULL || whole > max_ns / unit)
        return NULL;
    *total += whole * unit + (uint64_t)((double)fraction * ((double)unit / scale));
    return *total <= max_ns ? s : NULL;
}

static bool read_ns(const char *s, int64_t *out)
{
    bool negative = *s == '-';
    uint64_t total = 0;
    if (*s == '-' || *s == '+')
        s++;
    *out = 0;
    if (strcmp(s, "0") == 0)
        return true;
    do
        s = take_part(s, &total);
    while (s != NULL && *s != '\0');
    if (s == NULL || (total == max_ns && !negative))
        return false;
    *out = negative ? (int64_t)(0 - total) : (int64_t)total;
    return true;
}

int cron_parse_every(const char *text, int64_t *s, struct err *e)
{
    int64_t ns;
    if (!read_ns(text, &ns))
        return err_set(e, E_INVAL, "schedule: @every \"%.40s\": want a duration such as 90s, 5m or 1h30m", text);
    *s = MAX(ns / 1000000000, 1);
    return 0;
}
