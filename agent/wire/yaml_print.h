// SPDX-License-Identifier: Apache-2.0
// yaml_print — a JSON tree as YAML that people read and edit: block style, as kubectl prints it. wire/yaml.h reads the same tree from it.
#ifndef WIRE_YAML_PRINT_H
#define WIRE_YAML_PRINT_H

#include "data/json.h"

// Appends it. E_TOOBIG: `out` is full, or nested deeper than a tree can be.
int yaml_print(const struct json *j, struct buf *out, struct err *e) MUST_USE;

#endif
