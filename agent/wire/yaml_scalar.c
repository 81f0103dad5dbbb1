// SPDX-License-Identifier: Apache-2.0
#include "wire/yaml_scalar.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TAG_PREFIX "tag:yaml.org,2002:"

enum { NUMBER_MAX = 60 }; // bytes; the JSON reader takes no number longer than 63, and one may grow by a 0 on either side of its point

enum type { T_STRING, T_NULL, T_BOOL, T_INT, T_FLOAT, T_UNWRITABLE };

// A decimal number, taken apart.
struct number {
    bool minus;
    const char *whole, *fraction, *exponent; // digits; exponent with its sign
    size_t n_whole, n_fraction, n_exponent;
};

struct reading {
    enum type type;
    bool yes;           // T_BOOL
    bool minus;         // T_INT
    uint64_t magnitude; // T_INT
    struct number number;
    char digits[NUMBER_MAX + 1]; // what `number` points into: the text without its underscores
};

static bool is_any(const char *s, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(s, words[i]) == 0)
            return true;
    return false;
}

static bool is_null(const char *s)
{
    static const char *const words[] = { "", "~", "null", "Null", "NULL" };
    return is_any(s, words, ARRAY_LEN(words));
}

static bool is_true(const char *s)
{
    static const char *const words[] = { "true", "True", "TRUE", "yes", "Yes", "YES", "y", "Y", "on", "On", "ON" };
    return is_any(s, words, ARRAY_LEN(words));
}

static bool is_false(const char *s)
{
    static const char *const words[] = { "false", "False", "FALSE", "no", "No", "NO", "n", "N", "off", "Off", "OFF" };
    return is_any(s, words, ARRAY_LEN(words));
}

static bool is_unwritable(const char *s) // JSON has no word for these
{
    static const char *const words[] = { ".inf",  ".Inf",  ".INF",  "+.inf", "+.Inf", "+.INF",
                                         "-.inf", "-.Inf", "-.INF", ".nan",  ".NaN",  ".NAN" };
    return is_any(s, words, ARRAY_LEN(words));
}

// The base that a prefix names, which is passed over; 0 for one that has no digits behind it.
static int base_of(const char **s)
{
    static const char letters[] = "xXbBoO";
    static const int bases[] = { 16, 16, 2, 2, 8, 8 };
    const char *at = **s == '0' && (*s)[1] != '\0' ? strchr(letters, (*s)[1]) : NULL;
    if (at != NULL)
        *s += 2;
    if (at != NULL)
        return bases[at - letters];
    return **s == '0' ? 8 : 10;
}

// As Go's strconv reads an integer of any base: 64 bits, signed or not. 0644 is octal there.
static bool read_integer(const char *s, struct reading *r)
{
    bool sign = *s == '-' || *s == '+';
    r->minus = *s == '-';
    s += sign;
    int base = base_of(&s);
    const char *digits = base == 16 ? "0123456789abcdefABCDEF" : base == 10 ? "0123456789" : base == 8 ? "01234567" : "01";
    if (*s == '\0' || s[strspn(s, digits)] != '\0')
        return false;
    errno = 0;
    r->magnitude = strtoull(s, NULL, base);
    uint64_t most = r->minus ? (uint64_t)INT64_MAX + 1 : sign ? INT64_MAX : UINT64_MAX;
    return errno == 0 && r->magnitude <= most;
}

static const char *skip_digits(const char *s)
{
    return s + strspn(s, "0123456789");
}

// Takes a decimal number apart.
static bool split_number(const char *s, struct number *n)
{
    *n = (struct number){ .minus = *s == '-' };
    if (*s == '-' || *s == '+')
        s++;
    n->whole = s;
    s = skip_digits(s);
    n->n_whole = (size_t)(s - n->whole);
    if (*s == '.') {
        n->fraction = ++s;
        s = skip_digits(s);
        n->n_fraction = (size_t)(s - n->fraction);
    }
    if (n->n_whole + n->n_fraction == 0)
        return false;
    if (*s == 'e' || *s == 'E') {
        n->exponent = ++s;
        s = skip_digits(*s == '-' || *s == '+' ? s + 1 : s);
        n->n_exponent = (size_t)(s - n->exponent);
        if (n->n_exponent == 0 || s[-1] < '0')
            return false;
    }
    return *s == '\0';
}

// Those that do not stand between two digits make text of what begins with a point.
static bool is_parted(const char *s)
{
    for (const char *at = strchr(s, '_'); at != NULL; at = strchr(at + 1, '_'))
        if (at == s || strchr("0123456789", at[-1]) == NULL || at[1] == '\0' || strchr("0123456789", at[1]) == NULL)
            return false;
    return true;
}

// Underscores are passed over.
static bool without_underscores(const char *s, char out[NUMBER_MAX + 1])
{
    size_t n = 0;
    for (; *s != '\0'; s++) {
        if (*s == '_')
            continue;
        if (n == NUMBER_MAX)
            return false;
        out[n++] = *s;
    }
    out[n] = '\0';
    return true;
}

static enum type read_number(const char *s, struct reading *r)
{
    if (s[0] == '\0' || strchr("+-.0123456789", s[0]) == NULL || (s[0] == '.' && !is_parted(s)))
        return T_STRING;
    if (!without_underscores(s, r->digits))
        return T_STRING;
    if (s[0] != '.' && read_integer(r->digits, r))
        return T_INT;
    return split_number(r->digits, &r->number) && isfinite(strtod(r->digits, NULL)) ? T_FLOAT : T_STRING;
}

// What plain text is. A text with a NUL in it is none.
static void read_plain(const char *s, struct reading *r)
{
    if (is_null(s))
        r->type = T_NULL;
    else if ((r->yes = is_true(s)) || is_false(s))
        r->type = T_BOOL;
    else if (is_unwritable(s))
        r->type = T_UNWRITABLE;
    else
        r->type = read_number(s, r);
}

static int refuse(const char **why, const char *text)
{
    *why = text;
    return E_INVAL;
}

static int put_float(struct buf *out, const struct number *n, struct err *e)
{
    const char *whole = n->whole;
    size_t n_whole = n->n_whole;
    for (; n_whole > 1 && *whole == '0'; n_whole--)
        whole++;
    int rc = buf_addf(out, e, "%s%.*s", n->minus ? "-" : "", (int)n_whole, n_whole > 0 ? whole : "");
    if (rc == 0 && n_whole == 0)
        rc = buf_add(out, "0", 1, e);
    if (rc == 0 && n->fraction != NULL)
        rc = buf_addf(out, e, ".%.*s%s", (int)n->n_fraction, n->fraction, n->n_fraction == 0 ? "0" : "");
    if (rc == 0 && n->n_exponent > 0)
        rc = buf_addf(out, e, "e%.*s", (int)n->n_exponent, n->exponent);
    return rc;
}

static int put_integer(struct buf *out, const struct reading *r, struct err *e)
{
    return buf_addf(out, e, "%s%" PRIu64, r->minus && r->magnitude > 0 ? "-" : "", r->magnitude);
}

static int put_reading(struct buf *out, const struct reading *r, const struct yaml_scalar *s, const char **why, struct err *e)
{
    switch (r->type) {
    case T_NULL:
        return buf_adds(out, "null", e);
    case T_BOOL:
        return buf_adds(out, r->yes ? "true" : "false", e);
    case T_INT:
        return put_integer(out, r, e);
    case T_FLOAT:
        return put_float(out, &r->number, e);
    case T_UNWRITABLE:
        return refuse(why, "infinity and not-a-number cannot be expressed");
    default:
        return yaml_put_string(out, s->text, s->len, e);
    }
}

// A tag that says what the text already is changes nothing; one that says something else is a mistake.
static bool tag_fits(const char *tag, enum type type)
{
    if (strncmp(tag, TAG_PREFIX, strlen(TAG_PREFIX)) != 0)
        return false;
    tag += strlen(TAG_PREFIX);
    if (strcmp(tag, "null") == 0)
        return type == T_NULL;
    if (strcmp(tag, "bool") == 0)
        return type == T_BOOL;
    return (strcmp(tag, "int") == 0 && type == T_INT) || (strcmp(tag, "float") == 0 && (type == T_FLOAT || type == T_INT));
}

static int read_scalar(const struct yaml_scalar *s, struct reading *r, const char **why)
{
    bool is_string = s->tag == NULL ? !s->plain : strcmp(s->tag, "!") == 0 || strcmp(s->tag, TAG_PREFIX "str") == 0;
    *r = (struct reading){ .type = T_STRING };
    if (strlen(s->text) != s->len)
        return refuse(why, "a NUL character");
    if (!is_string)
        read_plain(s->text, r);
    if (s->tag != NULL && !is_string && !tag_fits(s->tag, r->type))
        return refuse(why, "this tag is not supported, or its value does not fit it");
    return 0;
}

int yaml_put_scalar(struct buf *out, const struct yaml_scalar *s, const char **why, struct err *e)
{
    struct reading r;
    int rc = read_scalar(s, &r, why);
    return rc < 0 ? rc : put_reading(out, &r, s, why, e);
}

int yaml_put_key(struct buf *out, const struct yaml_scalar *s, const char **why, struct err *e)
{
    struct reading r;
    int rc = read_scalar(s, &r, why);
    if (rc < 0)
        return rc;
    if (r.type == T_NULL)
        return refuse(why, "a key without text");
    if (r.type == T_FLOAT || r.type == T_UNWRITABLE)
        return refuse(why, "this key is a number with a fraction: quote it");
    if (r.type == T_STRING)
        return yaml_put_string(out, s->text, s->len, e);
    rc = buf_add(out, "\"", 1, e);
    if (rc == 0)
        rc = put_reading(out, &r, s, why, e);
    return rc == 0 ? buf_add(out, "\"", 1, e) : rc;
}

static int put_char(struct buf *out, unsigned char c, struct err *e)
{
    static const char short_form[] = { ['"'] = '"', ['\\'] = '\\', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't' };

    if (c < sizeof short_form && short_form[c] != 0)
        return buf_addf(out, e, "\\%c", short_form[c]);
    return buf_addf(out, e, "\\u%04x", c);
}

int yaml_put_string(struct buf *out, const char *text, size_t len, struct err *e)
{
    int rc = buf_add(out, "\"", 1, e);

    for (size_t i = 0; i < len && rc == 0;) {
        size_t n = 0; // as many as need no escape, in one piece
        while (i + n < len && (unsigned char)text[i + n] >= 0x20 && text[i + n] != '"' && text[i + n] != '\\')
            n++;
        if (n > 0)
            rc = buf_add(out, text + i, n, e);
        i += n;
        if (rc == 0 && i < len)
            rc = put_char(out, (unsigned char)text[i++], e);
    }
    return rc == 0 ? buf_add(out, "\"", 1, e) : rc;
}
