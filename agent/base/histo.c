// SPDX-License-Identifier: Apache-2.0
#include "base/histo.h"

const int64_t histo_bounds_us[HISTO_BUCKETS] = {
    250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 1000000, 5000000, 30000000
};

void histo_add(struct histo *h, int64_t us)
{
    int i = 0;
    if (us < 0)
        us = 0;
    while (i < HISTO_BUCKETS && us > histo_bounds_us[i])
        i++;
    h->n[i]++;
    h->sum_us += (uint64_t)us;
}

uint64_t histo_count(const struct histo *h)
{
    uint64_t n = 0;
    for (int i = 0; i <= HISTO_BUCKETS; i++)
        n += h->n[i];
    return n;
}
