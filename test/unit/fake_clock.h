// SPDX-License-Identifier: Apache-2.0
// fake_clock — a clock that stands still until it is told otherwise, with random numbers from a seed.
//
//     struct fake_clock fc;
//     fake_clock_init(&fc, 42);
//     fake_clock_advance(&fc, 1500);        // ms, all three times
//     clock_mono(&fc.clock);
//
// Not the simulator's clock: nothing here moves by itself.
#ifndef TEST_FAKE_CLOCK_H
#define TEST_FAKE_CLOCK_H

#include <string.h>

#include "base/clock.h"
#include "base/util.h"

struct fake_clock {
    struct clock clock;
    int64_t mono_ms, boot_ms, wall_us;
    bool synced;
    uint64_t seed;
    char boot_id[37];
};

#define FAKE_CLOCK_OF(c) container_of(c, struct fake_clock, clock)

static inline int64_t fake_clock_mono_(struct clock *c)
{
    return FAKE_CLOCK_OF(c)->mono_ms;
}
static inline int64_t fake_clock_boot_(struct clock *c)
{
    return FAKE_CLOCK_OF(c)->boot_ms;
}
static inline int64_t fake_clock_wall_(struct clock *c)
{
    return FAKE_CLOCK_OF(c)->wall_us;
}
static inline bool fake_clock_synced_(struct clock *c)
{
    return FAKE_CLOCK_OF(c)->synced;
}
// splitmix64: each state gives one number.
static inline void fake_clock_random_(struct clock *c, void *p, size_t n)
{
    struct fake_clock *fc = FAKE_CLOCK_OF(c);
    for (unsigned char *at = p; n > 0;) {
        uint64_t z = (fc->seed += UINT64_C(0x9e3779b97f4a7c15));
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        z ^= z >> 31;
        size_t step = MIN(n, sizeof(z));
        memcpy(at, &z, step);
        at += step;
        n -= step;
    }
}
static inline void fake_clock_boot_id_(struct clock *c, char out[37])
{
    memcpy(out, FAKE_CLOCK_OF(c)->boot_id, 37);
}

// Monotonic 1,000 s, boot-time 2,000 s, wall 2026-01-01T00:00:00Z and synchronised: differing, so that a mix-up shows.
static inline void fake_clock_init(struct fake_clock *fc, uint64_t seed)
{
    static const struct clock_ops ops = {
        fake_clock_mono_, fake_clock_boot_, fake_clock_wall_, fake_clock_synced_, fake_clock_random_, fake_clock_boot_id_, NULL
    };
    *fc = (struct fake_clock){
        .clock.ops = &ops,
        .mono_ms = 1000000,
        .boot_ms = 2000000,
        .wall_us = INT64_C(1767225600) * 1000000,
        .synced = true,
        .seed = seed,
        .boot_id = "00000000-1111-2222-3333-444444444444",
    };
}

static inline void fake_clock_advance(struct fake_clock *fc, int64_t ms)
{
    fc->mono_ms += ms;
    fc->boot_ms += ms;
    fc->wall_us += ms * 1000;
}

#endif
