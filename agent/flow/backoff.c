// SPDX-License-Identifier: Apache-2.0
#include "flow/backoff.h"

#include "base/util.h"

enum { CAP_FLOOR_MS = 5000, CAP_LEAST_MS = 1000, OUTAGE_PART = 20 };

static int64_t bound(int64_t outage_ms, unsigned tries, int64_t min_ms, int64_t cap_ms)
{
    int64_t cap = MIN(MAX(outage_ms / OUTAGE_PART, (int64_t)CAP_FLOOR_MS), MAX(cap_ms, (int64_t)CAP_LEAST_MS));
    int64_t d = MAX(min_ms, (int64_t)1);
    for (unsigned i = 0; i < tries && d < cap; i++)
        d *= 2;
    return MIN(d, cap);
}

int64_t backoff_next_ms(int64_t outage_ms, unsigned tries, int64_t min_ms, int64_t cap_ms, uint64_t rnd)
{
    int64_t most = bound(outage_ms, tries, min_ms, cap_ms), least = most / 2;
    return least + (int64_t)(rnd % (uint64_t)(most - least + 1));
}
