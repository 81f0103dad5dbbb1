// SPDX-License-Identifier: Apache-2.0
// yaml — YAML text into JSON text, by libyaml; the only user of libyaml.
//
// Core schema scalars (null, booleans, integers, floats, strings; quoted ones are strings), anchors and aliases with an expansion bound
// (no billion laughs), merge keys refused, duplicate keys refused, multi-document by index. Errors name line and column.
// What the YAML versions read differently is refused instead of guessed: 0644 is 420 in one and 644 in another.
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

#endif
