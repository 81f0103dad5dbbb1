// SPDX-License-Identifier: Apache-2.0
// spec_rig — verdicts on specs as a table: a member of the spec, and what the decoder must say about it.
//
// `@` in a text stands for as many letters as `repeat` says, so that lengths at the bound can be written down.
#ifndef TEST_SPEC_RIG_H
#define TEST_SPEC_RIG_H

#include <stdlib.h>

#include "data/json.h"
#include "tap.h"

struct verdict {
    const char *spec; // JSON
    const char *want; // part of the error, NULL = accepted
    size_t repeat;
};

// Free with free().
static inline char *spec_text(const char *spec, size_t repeat)
{
    const char *at = strchr(spec, '@');
    char *out = malloc(strlen(spec) + repeat + 1);
    if (at == NULL || out == NULL)
        return out != NULL ? strcpy(out, spec) : NULL;
    size_t head = (size_t)(at - spec);
    memcpy(out, spec, head);
    memset(out + head, 'a', repeat);
    strcpy(out + head + repeat, at + 1);
    return out;
}

static inline void check_verdicts(const struct verdict *v, size_t n, int (*decode)(const struct json *spec, struct err *e))
{
    for (size_t i = 0; i < n; i++) {
        AUTO_JSON struct json *j = NULL;
        struct err e = ERR_INIT;
        AUTO_FREE char *text = spec_text(v[i].spec, v[i].repeat);
        if (!ok(text != NULL && json_parse(&j, text, strlen(text), &e) == 0, "parses: %.70s", v[i].spec))
            continue;
        e = ERR_INIT;
        int rc = decode(j, &e);
        if (v[i].want == NULL)
            is_str(rc == 0 ? "" : e.msg, "", "accepted: %.80s", v[i].spec);
        else if (ok(rc == E_INVAL, "refused: %.80s", v[i].spec))
            has_str(e.msg, v[i].want, "  because: %s", v[i].want);
    }
}

#endif
