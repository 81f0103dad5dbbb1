// SPDX-License-Identifier: Apache-2.0
// yaml — YAML text into JSON text, by libyaml; with yaml_where.c the only user of libyaml.
//
// What comes out is what kubectl makes of the text, where it makes anything of it: scalars (yaml_scalar.h), anchors and aliases with an
// expansion bound (no billion laughs), merge keys, block scalars, several documents by index; test/yaml compares. Refused is what kubectl
// takes and two readers could take differently: a key that stands twice, a tag of somebody's own, a key before a merge that has it, too.
// Errors name line and column.
#ifndef WIRE_YAML_H
#define WIRE_YAML_H

#include "base/buf.h"

enum {
    YAML_TEXT_MAX = 4 * 1024 * 1024,
    YAML_DEPTH_MAX = 64,
    YAML_ANCHORS_MAX = 256,
    YAML_EXPANSION_MAX = 256 * 1024, // bytes of JSON that all aliases together may add
};

// Appends document number `index` (0-based) as JSON; on error `out` is as it was. E_NOTFOUND: no such document. E_INVAL: "line 3,
// column 5: ...". E_TOOBIG: `out` full or a bound above.
int yaml_to_json(const char *yaml, size_t len, int index, struct buf *out, struct err *e) MUST_USE;

// Calls fn with each document as JSON, which lies in memory until it returns (`max` bytes at most), and the line in which it begins, from 1.
// fn != 0 stops and is returned.
int yaml_documents(const char *yaml, size_t len, size_t max, int (*fn)(void *ctx, const char *json, size_t n, size_t line), void *ctx,
                   struct err *e) MUST_USE;

// The line, from 1, in which "spec.env[2].name" stands in the document that begins in `line`; as near to it as the text has it (what a merge or an
// alias brings stands elsewhere). yaml_where.c
size_t yaml_line_of(const char *yaml, size_t len, size_t line, const char *path);

#endif
