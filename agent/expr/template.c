// SPDX-License-Identifier: Apache-2.0
#include "expr/template.h"

#include <string.h>

#include "base/util.h"

struct place {
    size_t line, column; // from 1; in bytes
};

static struct place place_of(const char *text, size_t at)
{
    struct place p = { 1, 1 };
    for (size_t i = 0; i < at; i++) {
        p.column = text[i] == '\n' ? 1 : p.column + 1;
        p.line += text[i] == '\n';
    }
    return p;
}

static bool starts(const char *text, size_t len, size_t at, const char *with)
{
    size_t n = strlen(with);
    return len - at >= n && memcmp(text + at, with, n) == 0;
}

// The name that begins at `at`; its length, or -1 when it has no end on its line.
static ptrdiff_t name_length(const char *text, size_t len, size_t at)
{
    for (size_t i = at; i < len && text[i] != '\n' && text[i] != '\0'; i++)
        if (text[i] == '}')
            return (ptrdiff_t)(i - at);
    return -1;
}

static int put_name(const char *text, size_t at, size_t n, const struct template_names *names, struct buf *out, struct err *e)
{
    char name[TEMPLATE_NAME_MAX];
    struct place p = place_of(text, at - 2);
    if (n >= sizeof(name))
        return err_set(e, E_INVAL, "line %zu, column %zu: a name of %zu bytes", p.line, p.column, n);
    memcpy(name, text + at, n);
    name[n] = '\0';
    const char *value = names->lookup(names->ctx, name);
    if (value == NULL)
        return err_set(e, E_NOTFOUND, "line %zu, column %zu: nothing is known as ${%s}", p.line, p.column, name);
    return buf_adds(out, value, e);
}

int template_render(const char *text, size_t len, const struct template_names *names, struct buf *out, struct err *e)
{
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < len;) {
        const char *dollar = memchr(text + at, '$', len - at);
        size_t plain = dollar != NULL ? (size_t)(dollar - (text + at)) : len - at;
        rc = buf_add(out, text + at, plain, e);
        at += plain;
        if (rc < 0 || at == len)
            break;
        if (starts(text, len, at, "${")) {
            ptrdiff_t n = name_length(text, len, at + 2);
            struct place p = place_of(text, at);
            if (n < 0)
                return err_set(e, E_INVAL, "line %zu, column %zu: ${ without its }; a literal one is written $${", p.line, p.column);
            rc = put_name(text, at + 2, (size_t)n, names, out, e);
            at += (size_t)n + 3;
        } else {
            bool escaped = starts(text, len, at, "$${");
            rc = buf_adds(out, escaped ? "${" : "$", e);
            at += escaped ? 3 : 1;
        }
    }
    return rc;
}
