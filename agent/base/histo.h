// SPDX-License-Identifier: Apache-2.0
// histo — how often something took how long, in buckets of fixed bounds. Never forgets; one costs 120 bytes.
#ifndef BASE_HISTO_H
#define BASE_HISTO_H

#include <stdint.h>

enum { HISTO_BUCKETS = 13 };

struct histo {
    uint64_t n[HISTO_BUCKETS + 1]; // the last one: longer than all bounds
    uint64_t sum_us;
};

extern const int64_t histo_bounds_us[HISTO_BUCKETS]; // upper bounds, inclusive

void histo_add(struct histo *h, int64_t us); // a negative time counts as none
uint64_t histo_count(const struct histo *h);

#endif
