// SPDX-License-Identifier: Apache-2.0
//
// backoff OUTAGE-SECONDS SEEDS — how long after the end of an outage the agent's own backoff tries again, over many seeds.
//
// Plays flow/sync.c: a try that is refused at once, a wait, the next try, until the first try after the end. Prints the median, the 99th
// percentile and the worst wait from the end of the outage to that try, in ms.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "flow/backoff.h"

enum { MIN_MS = 800, CAP_MS = 60000 }; // the defaults of [sync] backoff and backoffCap

static uint64_t next_random(uint64_t *state) // splitmix64
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static int64_t late_ms(int64_t outage_ms, uint64_t seed)
{
    int64_t now = 0;
    for (unsigned tries = 0; now < outage_ms; tries++)
        now += backoff_next_ms(now, tries, MIN_MS, CAP_MS, next_random(&seed));
    return now - outage_ms;
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    int64_t outage_ms = argc == 3 ? strtoll(argv[1], NULL, 10) * 1000 : 0;
    size_t n = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    int64_t *late = calloc(n + 1, sizeof(*late));
    if (outage_ms <= 0 || n == 0 || late == NULL) {
        fputs("usage: backoff OUTAGE-SECONDS SEEDS\n", stderr);
        return 64;
    }
    for (size_t i = 0; i < n; i++)
        late[i] = late_ms(outage_ms, i * UINT64_C(0x2545f4914f6cdd1d));
    qsort(late, n, sizeof(*late), ascending);
    printf("%" PRId64 " %" PRId64 " %" PRId64 "\n", late[n / 2], late[n * 99 / 100], late[n - 1]);
    free(late);
    return 0;
}
