// SPDX-License-Identifier: Apache-2.0
// yaml_scalar — what a YAML scalar is in JSON, by the core schema. Part of wire/yaml.h. Pure.
#ifndef WIRE_YAML_SCALAR_H
#define WIRE_YAML_SCALAR_H

#include "base/buf.h"

struct yaml_scalar {
    const char *text; // terminated, may hold NULs
    size_t len;
    const char *tag; // NULL = none
    bool plain;      // not quoted, not a block
};

// Appends it. When it must be refused, *why says for which reason and the result is E_INVAL.
int yaml_put_scalar(struct buf *out, const struct yaml_scalar *s, const char **why, struct err *e) MUST_USE;
// Appends text as a JSON string, quotes included. `text` is UTF-8.
int yaml_put_string(struct buf *out, const char *text, size_t len, struct err *e) MUST_USE;

#endif
