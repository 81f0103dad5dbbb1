// SPDX-License-Identifier: Apache-2.0
#include "wire/yaml_print.h"

#include <string.h>

#include "data/object.h"
#include "wire/yaml_scalar.h"

struct level {
    const struct json *item; // the next one
    bool array, begun;       // begun: its first item stands behind the dash of the level above
    int indent;
};

static bool fits_plain_chars(const char *s)
{
#define WORD "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    size_t n = strlen(s);
    if (n == 0 || strchr(WORD "/_.", s[0]) == NULL || s[strspn(s, WORD "_./:+=@ -")] != '\0')
        return false;
    return strstr(s, ": ") == NULL && s[n - 1] != ':' && s[n - 1] != ' ';
}

// Would it be read as the same text without quotes?
static bool is_plain(const char *s)
{
    struct buf out AUTO_BUF = BUF_INIT(4096);
    const char *why = NULL;
    if (!fits_plain_chars(s) || strlen(s) > 1000)
        return false;
    struct yaml_scalar plain = { .text = s, .len = strlen(s), .plain = true };
    return yaml_put_scalar(&out, &plain, &why, NULL) == 0 && out.data[0] == '"';
}

// Several lines of printable ASCII that begin with neither a blank nor an empty line.
static bool fits_block(const char *s)
{
    if (strchr(s, '\n') == NULL || s[0] == ' ' || s[0] == '\n')
        return false;
    for (; *s != '\0'; s++)
        if (*s != '\n' && (*s < 0x20 || *s > 0x7e))
            return false;
    return true;
}

static int put_block(struct buf *out, const char *s, int indent, struct err *e)
{
    size_t n = strlen(s);
    const char *keep = s[n - 1] != '\n' ? "-" : s[n - 2] == '\n' ? "+" : "";
    int rc = buf_addf(out, e, " |%s\n", keep);
    while (rc == 0 && *s != '\0') {
        size_t line = strcspn(s, "\n");
        rc = line > 0 ? buf_addf(out, e, "%*s%.*s\n", indent, "", (int)line, s) : buf_add(out, "\n", 1, e);
        s += line + (s[line] == '\n');
    }
    return rc;
}

// JSON text holds as they are what YAML takes for line breaks within quotes, or for no text at all. 0 = nothing of that stands here.
static unsigned code_to_escape(const unsigned char *p, size_t *n)
{
    *n = p[0] == 0x7f ? 1 : p[0] == 0xc2 ? 2 : 3;
    if (p[0] == 0x7f)
        return 0x7f;
    if (p[0] == 0xc2 && p[1] < 0xa0)
        return p[1];
    if (p[0] == 0xe2 && p[1] == 0x80 && (p[2] == 0xa8 || p[2] == 0xa9))
        return 0x2028U + (p[2] - 0xa8U);
    if (p[0] == 0xef && ((p[1] == 0xbb && p[2] == 0xbf) || (p[1] == 0xbf && p[2] >= 0xbe)))
        return p[1] == 0xbb ? 0xfeff : 0xfffeU + (p[2] - 0xbeU);
    return 0;
}

static int put_quoted(struct buf *out, const char *s, struct err *e)
{
    struct buf text AUTO_BUF = BUF_INIT(out->max);
    int rc = json_quote(&text, s, strlen(s), e);
    const char *p = buf_str(&text), *end = p + text.len;
    for (size_t n; rc == 0 && p < end; p += n) {
        unsigned code = code_to_escape((const unsigned char *)p, &n);
        if (code == 0)
            n = 1;
        rc = code == 0 ? buf_add(out, p, 1, e) : buf_addf(out, e, "\\u%04x", code);
    }
    return rc;
}

static int put_leaf(struct buf *out, const struct json *j, int indent, struct err *e)
{
    const char *s = json_str(j);
    if (s != NULL && fits_block(s))
        return put_block(out, s, indent, e);
    int rc = buf_add(out, " ", 1, e);
    if (rc == 0 && s != NULL)
        rc = is_plain(s) ? buf_adds(out, s, e) : put_quoted(out, s, e);
    else if (rc == 0)
        rc = json_print(j, out, e); // also {} and []
    return rc == 0 ? buf_add(out, "\n", 1, e) : rc;
}

static int put_head(struct buf *out, struct level *l, const struct json *item, struct err *e)
{
    const char *key = json_key(item);
    int rc = l->begun ? 0 : buf_addf(out, e, "%*s", l->indent, "");
    l->begun = false;
    if (rc < 0 || l->array)
        return rc < 0 ? rc : buf_add(out, "-", 1, e);
    rc = is_plain(key) ? buf_adds(out, key, e) : put_quoted(out, key, e);
    return rc == 0 ? buf_add(out, ":", 1, e) : rc;
}

static bool is_leaf(const struct json *j)
{
    return json_first(j) == NULL;
}

// An array stands as deep as the key that names it.
static struct level level_below(const struct level *l, const struct json *j)
{
    bool array = json_type(j) == JSON_ARRAY;
    return (struct level){ json_first(j), array, l->array, l->array || !array ? l->indent + 2 : l->indent };
}

int yaml_print(const struct json *j, struct buf *out, struct err *e)
{
    struct level stack[JSON_DEPTH_MAX + 1];
    size_t depth = 1;
    if (is_leaf(j))
        return put_leaf(out, j, 0, e);
    stack[0] = (struct level){ json_first(j), json_type(j) == JSON_ARRAY, false, 0 };
    int rc = 0;
    while (rc == 0 && depth > 0) {
        struct level *l = &stack[depth - 1];
        const struct json *item = l->item;
        if (item == NULL) {
            depth--;
            continue;
        }
        l->item = json_next(item);
        rc = put_head(out, l, item, e);
        if (rc == 0 && is_leaf(item)) {
            rc = put_leaf(out, item, l->indent + 2, e);
        } else if (rc == 0 && depth == ARRAY_LEN(stack)) {
            rc = err_set(e, E_TOOBIG, "nested too deeply");
        } else if (rc == 0) {
            rc = buf_adds(out, l->array ? " " : "\n", e);
            stack[depth] = level_below(l, item);
            depth++;
        }
    }
    return rc;
}
