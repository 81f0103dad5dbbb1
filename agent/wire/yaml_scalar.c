// SPDX-License-Identifier: Apache-2.0
#include "wire/yaml_scalar.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TAG_PREFIX "tag:yaml.org,2002:"

enum { NUMBER_MAX = 60 }; // bytes; the JSON reader takes no number longer than 63, and one may grow by a 0 on either side of its point

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
    static const char *const words[] = { "true", "True", "TRUE" };
    return is_any(s, words, ARRAY_LEN(words));
}

static bool is_false(const char *s)
{
    static const char *const words[] = { "false", "False", "FALSE" };
    return is_any(s, words, ARRAY_LEN(words));
}

static bool is_unwritable(const char *s) // JSON has no word for these
{
    static const char *const words[] = { ".inf",  ".Inf",  ".INF",  "+.inf", "+.Inf", "+.INF",
                                         "-.inf", "-.Inf", "-.INF", ".nan",  ".NaN",  ".NAN" };
    return is_any(s, words, ARRAY_LEN(words));
}

static const char *skip_digits(const char *s)
{
    return s + strspn(s, "0123456789");
}

// 0x1f, 0o17: the core schema's other bases, no sign.
static bool is_based(const char *s, int *base)
{
    if (s[0] != '0' || (s[1] != 'x' && s[1] != 'o') || s[2] == '\0')
        return false;
    *base = s[1] == 'x' ? 16 : 8;
    return s[2 + strspn(s + 2, *base == 16 ? "0123456789abcdefABCDEF" : "01234567")] == '\0';
}

struct number {
    bool minus;
    const char *whole, *fraction, *exponent; // digits; exponent with its sign
    size_t n_whole, n_fraction, n_exponent;
};

// Takes a decimal integer or float apart.
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

static int refuse(const char **why, const char *text)
{
    *why = text;
    return E_INVAL;
}

static int put_number(struct buf *out, const struct number *n, const char **why, struct err *e)
{
    if (n->n_whole > 1 && n->whole[0] == '0')
        return refuse(why, "a number that begins with 0 is octal in one version of YAML and decimal in another: quote it, or write 0o644");
    int rc = buf_addf(out, e, "%s%.*s", n->minus ? "-" : "", (int)n->n_whole, n->n_whole > 0 ? n->whole : "");
    if (rc == 0 && n->n_whole == 0)
        rc = buf_add(out, "0", 1, e);
    if (rc == 0 && n->fraction != NULL)
        rc = buf_addf(out, e, ".%.*s%s", (int)n->n_fraction, n->fraction, n->n_fraction == 0 ? "0" : "");
    if (rc == 0 && n->n_exponent > 0)
        rc = buf_addf(out, e, "e%.*s", (int)n->n_exponent, n->exponent);
    return rc;
}

static int put_based(struct buf *out, const char *s, int base, const char **why, struct err *e)
{
    errno = 0;
    uint64_t v = strtoull(s + 2, NULL, base);
    if (errno != 0)
        return refuse(why, "this number is too large");
    return buf_addf(out, e, "%" PRIu64, v);
}

static int put_plain(struct buf *out, const struct yaml_scalar *s, const char **why, struct err *e)
{
    struct number n;
    int base;

    if (strlen(s->text) != s->len)
        return refuse(why, "a NUL character");
    if (is_null(s->text))
        return buf_adds(out, "null", e);
    if (is_true(s->text))
        return buf_adds(out, "true", e);
    if (is_false(s->text))
        return buf_adds(out, "false", e);
    if (is_unwritable(s->text))
        return refuse(why, "infinity and not-a-number cannot be expressed");
    if (is_based(s->text, &base))
        return put_based(out, s->text, base, why, e);
    if (split_number(s->text, &n)) {
        if (s->len > NUMBER_MAX || !isfinite(strtod(s->text, NULL)))
            return refuse(why, "this number is too large");
        return put_number(out, &n, why, e);
    }
    return yaml_put_string(out, s->text, s->len, e);
}

// A tag that says what the text already is changes nothing; one that says something else is a mistake.
static bool tag_fits(const char *tag, const char *text)
{
    struct number n;
    int base;

    if (strncmp(tag, TAG_PREFIX, strlen(TAG_PREFIX)) != 0)
        return false;
    tag += strlen(TAG_PREFIX);
    if (strcmp(tag, "null") == 0)
        return is_null(text);
    if (strcmp(tag, "bool") == 0)
        return is_true(text) || is_false(text);
    if (strcmp(tag, "int") == 0)
        return is_based(text, &base) || (split_number(text, &n) && n.fraction == NULL && n.exponent == NULL);
    return strcmp(tag, "float") == 0 && split_number(text, &n);
}

int yaml_put_scalar(struct buf *out, const struct yaml_scalar *s, const char **why, struct err *e)
{
    bool is_string = !s->plain;

    if (s->tag != NULL && (strcmp(s->tag, "!") == 0 || strcmp(s->tag, TAG_PREFIX "str") == 0)) {
        is_string = true;
    } else if (s->tag != NULL) {
        if (!tag_fits(s->tag, s->text))
            return refuse(why, "this tag is not supported, or its value does not fit it");
        is_string = false;
    }
    if (!is_string)
        return put_plain(out, s, why, e);
    if (memchr(s->text, 0, s->len) != NULL)
        return refuse(why, "a NUL character");
    return yaml_put_string(out, s->text, s->len, e);
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
