// SPDX-License-Identifier: Apache-2.0
// marks — which keys a list has shown, as a set of 64-bit hashes.
//
// Two keys with one hash: the second counts as marked although it was not. An object that is gone then stays until the next list; none is
// ever taken for gone that is there.
#ifndef DATA_MARKS_H
#define DATA_MARKS_H

#include "base/err.h"
#include "base/util.h"

struct marks {
    uint64_t *slot; // 0 = empty
    size_t n_slots, count;
}; // all zero is an empty one

int marks_add(struct marks *m, const char *key, struct err *e) MUST_USE; // E_NOMEM: unchanged
bool marks_has(const struct marks *m, const char *key);
void marks_clear(struct marks *m); // memory kept
void marks_fini(struct marks *m);

#endif
