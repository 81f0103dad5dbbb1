// SPDX-License-Identifier: Apache-2.0
#include "base/num.h"

#include <string.h>
#include <strings.h>

#include "base/util.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool mul(uint64_t *v, uint64_t by)
{
    return !__builtin_mul_overflow(*v, by, v);
}

static bool add(uint64_t *v, uint64_t n)
{
    return !__builtin_add_overflow(*v, n, v);
}

// --- integers

static bool parse_u64(const char *s, uint64_t *out)
{
    uint64_t v = 0;
    if (*s == '\0')
        return false;
    for (; *s != '\0'; s++)
        if (!is_digit(*s) || !mul(&v, 10) || !add(&v, (uint64_t)(*s - '0')))
            return false;
    *out = v;
    return true;
}

int num_i64(const char *s, int64_t min, int64_t max, int64_t *out, struct err *e)
{
    bool negative = *s == '-';
    uint64_t v;
    const uint64_t limit = (uint64_t)INT64_MAX + negative;
    if (!parse_u64(s + negative, &v) || v > limit)
        goto bad;
    int64_t n = negative ? (int64_t)(0 - v) : (int64_t)v;
    if (n < min || n > max)
        goto bad;
    *out = n;
    return 0;
bad:
    return err_set(e, E_INVAL, "\"%.40s\": want a whole number from %lld to %lld", s, (long long)min, (long long)max);
}

// --- decimals: the digits as one integer, and how many of them stood behind the point

struct decimal {
    uint64_t digits;
    unsigned frac;
};

// Zeros behind the point that change nothing do not count, so "1.500000000000000000000" is fine.
static const char *parse_decimal(const char *s, struct decimal *d)
{
    unsigned zeros = 0, seen = 0;
    bool point = false;
    *d = (struct decimal){ 0, 0 };
    for (; is_digit(*s) || (*s == '.' && !point); s++) {
        if (*s == '.') {
            point = true;
            continue;
        }
        seen++;
        if (point && *s == '0') {
            zeros++;
            continue;
        }
        for (; zeros > 0; zeros--, d->frac++)
            if (!mul(&d->digits, 10))
                return NULL;
        if (!mul(&d->digits, 10) || !add(&d->digits, (uint64_t)(*s - '0')))
            return NULL;
        d->frac += point;
    }
    return seen > 0 ? s : NULL;
}

static bool scale_up(uint64_t *v, unsigned tens)
{
    for (; tens > 0 && *v > 0; tens--)
        if (!mul(v, 10))
            return false;
    return true;
}

// --- durations

static const char *unit_ms(const char *s, uint64_t *ms)
{
    static const struct {
        char name[3];
        uint64_t ms;
    } units[] = { { "ms", 1 }, { "h", 3600000 }, { "m", 60000 }, { "s", 1000 } }; // "ms" before "m"
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        size_t n = strlen(units[i].name);
        if (strncmp(s, units[i].name, n) == 0) {
            *ms = units[i].ms;
            return s + n;
        }
    }
    return NULL;
}

static bool parse_duration(const char *s, uint64_t *total)
{
    *total = 0;
    if (strcmp(s, "0") == 0)
        return true;
    do {
        struct decimal d;
        uint64_t unit;
        s = parse_decimal(s, &d);
        if (s == NULL || (s = unit_ms(s, &unit)) == NULL || !mul(&d.digits, unit))
            return false;
        for (; d.frac > 0; d.frac--, d.digits /= 10)
            if (d.digits % 10 != 0)
                return false;
        if (!add(total, d.digits))
            return false;
    } while (*s != '\0');
    return *total <= INT64_MAX;
}

int num_duration_ms(const char *s, int64_t *ms, struct err *e)
{
    uint64_t total;
    if (!parse_duration(s, &total))
        return err_set(e, E_INVAL, "\"%.40s\": want a duration such as 250ms, 10s, 5m or 1h30m", s);
    *ms = (int64_t)total;
    return 0;
}

// --- quantities

struct suffix {
    int tens;      // powers of ten
    unsigned twos; // powers of two
};

static bool parse_exponent(const char *s, struct suffix *out)
{
    bool negative = *s == '-';
    uint64_t v;
    if (*s == '-' || *s == '+')
        s++;
    if (!parse_u64(s, &v))
        return false;
    // Beyond these the result is the same: too large, or the smallest there is.
    int tens = (int)MIN(v, UINT64_C(100));
    *out = (struct suffix){ negative ? -tens : tens, 0 };
    return true;
}

static bool parse_suffix(const char *s, struct suffix *out)
{
    static const char decimal[] = "num\0kMGTPE", binary[] = "KMGTPE";
    *out = (struct suffix){ 0, 0 };
    if (*s == '\0')
        return true;
    if ((*s == 'e' || *s == 'E') && s[1] != '\0' && s[1] != 'i')
        return parse_exponent(s + 1, out);
    const char *at;
    if (s[1] == 'i' && s[2] == '\0' && (at = strchr(binary, *s)) != NULL) {
        out->twos = 10 * (unsigned)(at - binary + 1);
        return true;
    }
    at = memchr(decimal, *s, sizeof(decimal) - 1);
    if (at == NULL || s[1] != '\0')
        return false;
    out->tens = 3 * (int)(at - decimal) - 9;
    return true;
}

// digits * 2^twos / 10^down, rounded up; false when it does not fit.
static bool divide_up(uint64_t digits, unsigned twos, unsigned down, uint64_t *out)
{
    uint64_t div = 1;
    for (; down > 0; down--) {
        if (div > UINT64_MAX / 20) { // div stays below 2^63, so the doubling below cannot overflow
            uint64_t rest = digits % 10;
            digits = digits / 10 + (rest != 0); // only ever the smallest parts, which are rounded up anyway
        } else {
            div *= 10;
        }
    }
    uint64_t whole = digits / div, rest = digits % div;
    for (; twos > 0; twos--) {
        rest *= 2;
        if (!mul(&whole, 2) || !add(&whole, rest / div))
            return false;
        rest %= div;
    }
    *out = whole;
    return rest == 0 || add(out, 1);
}

static bool parse_quantity(const char *s, int64_t scale, uint64_t *out)
{
    struct decimal d;
    struct suffix x;
    s = parse_decimal(s, &d);
    if (s == NULL || !parse_suffix(s, &x) || !mul(&d.digits, (uint64_t)scale))
        return false;
    int tens = x.tens - (int)d.frac;
    if (tens > 0 && !scale_up(&d.digits, (unsigned)tens))
        return false;
    return divide_up(d.digits, x.twos, tens < 0 ? (unsigned)-tens : 0, out) && *out <= INT64_MAX;
}

int num_quantity(const char *s, int64_t scale, int64_t *out, struct err *e)
{
    uint64_t v;
    if (!parse_quantity(s, scale, &v))
        return err_set(e, E_INVAL, "\"%.40s\": want a quantity such as 100m, 1.5G, 64Mi or 1e3", s);
    *out = (int64_t)v;
    return 0;
}

// --- booleans

int num_bool(const char *s, bool *out, struct err *e)
{
    static const char *const words[] = { "false", "true", "no", "yes", "off", "on", "0", "1" };
    for (unsigned i = 0; i < ARRAY_LEN(words); i++) {
        if (strcasecmp(s, words[i]) == 0) {
            *out = i % 2 != 0;
            return 0;
        }
    }
    return err_set(e, E_INVAL, "\"%.40s\": want true or false", s);
}
