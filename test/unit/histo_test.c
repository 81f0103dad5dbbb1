// SPDX-License-Identifier: Apache-2.0
#include "base/histo.c"

#include "tap.h"

int main(void)
{
    struct histo h = { 0 };
    is_int((intmax_t)histo_count(&h), 0, "nothing yet");
    for (int i = 1; i < HISTO_BUCKETS; i++)
        ok(histo_bounds_us[i] > histo_bounds_us[i - 1], "bound %d is above the one before", i);
    histo_add(&h, 0);
    histo_add(&h, -5);
    histo_add(&h, 250);
    is_int((intmax_t)h.n[0], 3, "up to and with the first bound");
    histo_add(&h, 251);
    is_int((intmax_t)h.n[1], 1, "above it");
    histo_add(&h, 30000000);
    is_int((intmax_t)h.n[HISTO_BUCKETS - 1], 1, "the last bound");
    histo_add(&h, 30000001);
    is_int((intmax_t)h.n[HISTO_BUCKETS], 1, "above all");
    is_int((intmax_t)histo_count(&h), 6, "all of them");
    is_int((intmax_t)h.sum_us, 250 + 251 + 30000000 + 30000001, "and their sum; time that went back is none");
    return done_testing();
}
