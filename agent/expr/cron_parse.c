// SPDX-License-Identifier: Apache-2.0
// Reading a schedule: the grammar is that of the Go library, with its oddities, for a text that the server took must not be refused
// here, nor the other way round. Empty list items are skipped ("1,,2"; a lone "," names nothing), what follows a star up to its step
// is not read ("*-x/2"), numbers may have a plus.
#include <string.h>
#include <strings.h>

#include "base/util.h"
#include "expr/cron_priv.h"

struct field {
    const char *name;
    unsigned min, max;
    const char *words; // three letters each, from min on; NULL: none
};
static const struct field fields[] = {
    { "minute", 0, 59, NULL },
    { "hour", 0, 23, NULL },
    { "day of month", 1, 31, NULL },
    { "month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec" },
    { "day of week", 0, 6, "sunmontuewedthufrisat" },
};

// A piece of the text, not terminated.
struct piece {
    const char *p;
    size_t n;
};

static bool piece_is(struct piece t, const char *s)
{
    return t.n == strlen(s) && memcmp(t.p, s, t.n) == 0;
}

// Takes what stands before the first `c`, or all, off *t into *head. True when there was a `c`; it is gone, too.
static bool cut(struct piece *t, char c, struct piece *head)
{
    const char *at = memchr(t->p, c, t->n);
    *head = (struct piece){ t->p, at != NULL ? (size_t)(at - t->p) : t->n };
    size_t taken = head->n + (at != NULL);
    t->p += taken;
    t->n -= taken;
    return at != NULL;
}

#define PIECE_FMT "%.*s"
#define PIECE_ARG(t) (int)MIN((t).n, (size_t)40), (t).p

static int bad(struct err *e, const struct field *f, struct piece item, const char *what)
{
    return err_set(e, E_INVAL, "schedule: %s \"" PIECE_FMT "\": %s", f->name, PIECE_ARG(item), what);
}

// --- a field

static bool read_digits(struct piece t, int64_t *out)
{
    int64_t v = 0;
    if (t.n > 0 && *t.p == '+')
        t = (struct piece){ t.p + 1, t.n - 1 };
    for (size_t i = 0; i < t.n; i++) {
        if (t.p[i] < '0' || t.p[i] > '9' || __builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, t.p[i] - '0', &v))
            return false;
    }
    *out = v;
    return t.n > 0;
}

static bool read_word(const struct field *f, struct piece t, int64_t *out)
{
    if (f->words == NULL || t.n != 3)
        return false;
    for (unsigned v = f->min; v <= f->max; v++) {
        if (strncasecmp(t.p, f->words + (size_t)(v - f->min) * 3, 3) == 0) {
            *out = v;
            return true;
        }
    }
    return false;
}

static int read_value(const struct field *f, struct piece item, struct piece t, int64_t *out, struct err *e)
{
    if (read_word(f, t, out) || read_digits(t, out))
        return 0;
    return bad(e, f, item, f->words != NULL ? "want a number or a name of three letters" : "want a number");
}

struct range {
    int64_t first, last, step;
    bool star, single;
};

static int read_span(const struct field *f, struct piece item, struct piece span, struct range *r, struct err *e)
{
    struct piece low, high;
    *r = (struct range){ f->min, f->max, 1, false, false };
    r->single = !cut(&span, '-', &low);
    r->star = piece_is(low, "*") || piece_is(low, "?");
    if (r->star)
        return 0;
    int rc = read_value(f, item, low, &r->first, e);
    r->last = r->first;
    if (rc != 0 || r->single)
        return rc;
    if (cut(&span, '-', &high))
        return bad(e, f, item, "more than one hyphen");
    return read_value(f, item, high, &r->last, e);
}

static int read_step(const struct field *f, struct piece item, struct piece step, struct range *r, struct err *e)
{
    struct piece rest = step;
    if (cut(&rest, '/', &step))
        return bad(e, f, item, "more than one slash");
    if (!read_digits(step, &r->step) || r->step == 0)
        return bad(e, f, item, "want a step of 1 or more");
    if (r->single)
        r->last = f->max;
    if (r->step > 1)
        r->star = false;
    return 0;
}

static int check_range(const struct field *f, struct piece item, const struct range *r, struct err *e)
{
    if (r->first < f->min || r->last > f->max)
        return err_set(e, E_INVAL, "schedule: %s \"" PIECE_FMT "\": want %u to %u", f->name, PIECE_ARG(item), f->min, f->max);
    if (r->first > r->last)
        return bad(e, f, item, "its beginning is after its end");
    return 0;
}

// "5", "MON-FRI", "*/10", "3-17/2"
static int read_item(const struct field *f, struct piece item, uint64_t *bits, struct err *e)
{
    struct piece span, rest = item;
    struct range r;
    bool stepped = cut(&rest, '/', &span);
    int rc = read_span(f, item, span, &r, e);
    if (rc == 0 && stepped)
        rc = read_step(f, item, rest, &r, e);
    if (rc == 0)
        rc = check_range(f, item, &r, e);
    if (rc != 0)
        return rc;
    for (int64_t i = r.first; i <= r.last; i += MIN(r.step, 64))
        *bits |= UINT64_C(1) << i;
    if (r.star)
        *bits |= CRON_STAR;
    return 0;
}

static int read_field(const struct field *f, struct piece text, uint64_t *bits, struct err *e)
{
    struct piece item;
    int rc = 0;
    *bits = 0;
    while (text.n > 0 && rc == 0) {
        cut(&text, ',', &item);
        if (item.n > 0)
            rc = read_item(f, item, bits, e);
    }
    return rc;
}

// --- the five of them

// Bytes of the white space at p, as Unicode has it: a schedule pasted from a page may hold no-break spaces.
static size_t space(const char *p)
{
    static const char *const wide[] = { "\xc2\x85", "\u00a0", "\u1680", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000" };
    if (*p == ' ' || (*p >= '\t' && *p <= '\r'))
        return 1;
    for (size_t i = 0; i < ARRAY_LEN(wide); i++)
        if (strncmp(p, wide[i], strlen(wide[i])) == 0)
            return strlen(wide[i]);
    bool is_em = strncmp(p, "\xe2\x80", 2) == 0 && (unsigned char)p[2] >= 0x80 && (unsigned char)p[2] <= 0x8a; // U+2000 to U+200A
    return is_em ? 3 : 0;
}

// The number of words in the text; the first ones are in `words`.
static size_t split(const char *p, struct piece *words, size_t max)
{
    size_t n = 0, width;
    for (; *p != '\0'; n++) {
        while ((width = space(p)) > 0)
            p += width;
        const char *from = p;
        while (*p != '\0' && space(p) == 0)
            p++;
        if (p == from)
            break;
        if (n < max)
            words[n] = (struct piece){ from, (size_t)(p - from) };
    }
    return n;
}

static int read_fields(struct cron *c, const char *text, struct err *e)
{
    struct piece words[ARRAY_LEN(fields)];
    uint64_t *const bits[] = { &c->minute, &c->hour, &c->dom, &c->month, &c->dow };
    size_t n = split(text, words, ARRAY_LEN(words));
    int rc = 0;
    if (n != ARRAY_LEN(fields))
        return err_set(e, E_INVAL, "schedule \"%.60s\": want five fields (minute hour day-of-month month day-of-week), not %zu", text, n);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = read_field(&fields[i], words[i], bits[i], e);
    return rc;
}

static int read_descriptor(struct cron *c, const char *text, struct err *e)
{
    static const struct {
        const char *name, *means;
    } known[] = {
        { "@yearly", "0 0 1 1 *" }, { "@annually", "0 0 1 1 *" }, { "@monthly", "0 0 1 * *" }, { "@weekly", "0 0 * * 0" },
        { "@daily", "0 0 * * *" },  { "@midnight", "0 0 * * *" }, { "@hourly", "0 * * * *" },
    };
    static const char every[] = "@every ";
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strcmp(text, known[i].name) == 0)
            return read_fields(c, known[i].means, e);
    if (strncmp(text, every, sizeof every - 1) == 0)
        return cron_parse_every(text + sizeof every - 1, &c->every_s, e);
    return err_set(e, E_INVAL, "schedule \"%.60s\": want @hourly, @daily, @weekly, @monthly, @yearly or \"@every 1h30m\"", text);
}

int cron_parse(struct cron *c, const char *text, struct err *e)
{
    struct cron got = { 0 };
    if (strstr(text, "TZ") != NULL)
        return err_set(e, E_INVAL, "schedule \"%.60s\": a time zone does not belong here, use spec.timeZone", text);
    int rc = *text == '@' ? read_descriptor(&got, text, e) : read_fields(&got, text, e);
    if (rc == 0)
        *c = got;
    return rc;
}
