// SPDX-License-Identifier: Apache-2.0
// yaml — YAML text into JSON text, by libyaml; the only user of libyaml.
//
// Core schema scalars (null, booleans, integers, floats, strings; quoted ones are strings), anchors and aliases with an expansion bound
// (no billion laughs), merge keys refused, duplicate keys refused, multi-document by index. Errors name line and column.
#ifndef WIRE_YAML_H
#define WIRE_YAML_H

#include "base/buf.h"

// Converts document number `index` (0-based). E_NOTFOUND: no such document. E_INVAL: "line 3, column 5: ...". E_TOOBIG: `out` full.
int yaml_to_json(const char *yaml, size_t len, int index, struct buf *out, struct err *e) MUST_USE;

#endif
