// SPDX-License-Identifier: Apache-2.0
// template — a text with ${names} in it, each replaced by what it stands for.
//
// `${node.name}` is replaced, `$${` is a literal `${`, any other `$` stands for itself. A name is everything up to the next `}` on the same
// line. No logic, no defaults, no nesting: what a name stands for is put in as it is and not looked at again. Works on bytes. Pure.
#ifndef EXPR_TEMPLATE_H
#define EXPR_TEMPLATE_H

#include "base/buf.h"

enum { TEMPLATE_NAME_MAX = 320 };

struct template_names {
    // What `name` stands for; NULL = nothing is known by that name. Valid until the next call.
    const char *(*lookup)(const void *ctx, const char *name);
    const void *ctx;
};

// Appends the text to `out`; its bound is the caller's (E_TOOBIG). E_INVAL names line and column: a name without an end, or too long.
// E_NOTFOUND likewise: one that stands for nothing.
int template_render(const char *text, size_t len, const struct template_names *names, struct buf *out, struct err *e) MUST_USE;

#endif
