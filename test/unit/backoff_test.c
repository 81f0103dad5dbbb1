// SPDX-License-Identifier: Apache-2.0
#include "flow/backoff.c"

#include "tap.h"

enum { MIN_MS = 800, CAP_MS = 60000 };

// The greatest delay of a try: the draw that leaves nothing out.
static int64_t greatest(int64_t outage_ms, unsigned tries)
{
    int64_t most = bound(outage_ms, tries, MIN_MS, CAP_MS);
    return backoff_next_ms(outage_ms, tries, MIN_MS, CAP_MS, (uint64_t)(most - most / 2));
}

static void doubles(void)
{
    is_int(greatest(0, 0), 800, "the first try waits at most the minimum");
    is_int(greatest(0, 1), 1600, "the second twice that");
    is_int(greatest(0, 2), 3200, "and again");
    is_int(greatest(0, 3), 5000, "up to 5 s in a young outage");
}

static void follows_the_outage(void)
{
    is_int(greatest(100000, 50), 5000, "a twentieth of 100 s is 5 s");
    is_int(greatest(300000, 50), 15000, "of 5 min, 15 s");
    is_int(greatest(INT64_C(86400000), 50), CAP_MS, "a day away: the configured cap");
    is_int(greatest(INT64_C(86400000), UINT32_MAX), CAP_MS, "however many tries");
    is_int(backoff_next_ms(0, 9, MIN_MS, 2000, 1000), 2000, "a cap below 5 s is obeyed");
    is_int(backoff_next_ms(0, 9, MIN_MS, 0, 500), 1000, "and is never below a second");
}

static void is_spread(void)
{
    bool inside = true;
    int low = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        int64_t d = backoff_next_ms(300000, 50, MIN_MS, CAP_MS, i * UINT64_C(0x9e3779b97f4a7c15));
        inside = inside && d >= 7500 && d <= 15000;
        low += d < 11250 ? 1 : 0;
    }
    ok(inside, "every draw lies between half of the bound and the bound");
    ok(low > 400 && low < 600, "half of the draws lie in the lower half (%d of 1000)", low);
    is_int(backoff_next_ms(0, 0, 0, CAP_MS, UINT64_MAX), (int64_t)(UINT64_MAX % 2), "a minimum of 0 is taken as 1 ms");
}

int main(void)
{
    doubles();
    follows_the_outage();
    is_spread();
    return done_testing();
}
