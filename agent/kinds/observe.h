// SPDX-License-Identifier: Apache-2.0
// observe — the instances of one object as the port has them now, copied into the memory of the pass.
#ifndef KINDS_OBSERVE_H
#define KINDS_OBSERVE_H

#include "kinds/kind.h"

enum { OBSERVE_MAX = 128 };

struct observed {
    struct inst *insts; // in the order of (index, start)
    size_t n, room;
    bool full; // there are more than OBSERVE_MAX: those are not seen, which is logged
};

// Looks anew; `o` is zero before the first time. E_NOMEM, and what the port says.
int observe(struct pass *p, struct observed *o, struct err *e) MUST_USE;

// For an object that is gone: ends each of its instances by `end` (stop, or forget what has ended). 0 when none is left, E_BUSY while one
// still stops: the pass comes again.
int observe_ended(struct pass *p, int (*end)(struct pass *p, const struct inst *i, struct err *e), struct err *e) MUST_USE;

#endif
