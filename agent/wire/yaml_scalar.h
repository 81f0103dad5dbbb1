// SPDX-License-Identifier: Apache-2.0
// yaml_scalar — what a YAML scalar is in JSON, as kubectl reads it. Part of wire/yaml.h. Pure.
//
// kubectl reads YAML 1.1 in part: yes, on and y are booleans, 0644 is octal, 1_000 a number; a time is text, and so is 12:30. A number with
// a fraction or beyond 64 bits keeps its digits.
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
// The same for a key of a mapping: always a string in JSON.
int yaml_put_key(struct buf *out, const struct yaml_scalar *s, const char **why, struct err *e) MUST_USE;
// Appends text as a JSON string, quotes included. `text` is UTF-8.
int yaml_put_string(struct buf *out, const char *text, size_t len, struct err *e) MUST_USE;

#endif
