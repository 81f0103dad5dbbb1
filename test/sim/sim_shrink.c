// SPDX-License-Identifier: Apache-2.0
#include "sim_shrink.h"

#include <string.h>

enum { ITEMS_MAX = 256 };

struct search {
    int *items;
    size_t n;
    bool (*fails)(void *ctx, const int *items, size_t n);
    void *ctx;
    int tries_left;
};

// True: it fails without those, and they are gone.
static bool leave_out(struct search *s, size_t from, size_t count)
{
    int rest[ITEMS_MAX];
    if (s->tries_left-- <= 0)
        return false;
    memcpy(rest, s->items, from * sizeof(*rest));
    memcpy(rest + from, s->items + from + count, (s->n - from - count) * sizeof(*rest));
    if (!s->fails(s->ctx, rest, s->n - count))
        return false;
    s->n -= count;
    memcpy(s->items, rest, s->n * sizeof(*rest));
    return true;
}

// The last first: what comes after the failure goes with the first try.
static bool leave_out_chunks(struct search *s, size_t size)
{
    bool any = false;
    for (size_t end = s->n; end > 0;) {
        size_t from = end > size ? end - size : 0;
        any = leave_out(s, from, end - from) || any;
        end = from;
    }
    return any;
}

size_t shrink(int *items, size_t n, bool (*fails)(void *ctx, const int *items, size_t n), void *ctx, int max_tries)
{
    struct search s = { items, n, fails, ctx, max_tries };
    if (n > ITEMS_MAX)
        return n;
    for (size_t size = n / 2; size > 1; size /= 2)
        leave_out_chunks(&s, size);
    while (s.n > 0 && leave_out_chunks(&s, 1) && s.tries_left > 0)
        ;
    return s.n;
}
