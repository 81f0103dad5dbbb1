// SPDX-License-Identifier: Apache-2.0
// sim — the very agent in a simulated world, seed by seed.
//
//     sim_test [--seeds N]                              TAP, one check a seed; the last one plays a seed twice
//     sim_test --seed N [--only 3,9,17] [-v]            plays that one; when it fails: what it takes to fail, and the timeline
//     sim_test --many N [--first N] [--jobs N] [--all-faults]     N 0 = until stopped; the table of faults
//
// A seed is chaos, then peace, doubt, chaos again, peace, an idle hour. Whatever breaks an invariant ends it.
//
// timeout: 600
#include <stdlib.h>
#include <string.h>

#include "sim_run.h"
#include "tap.h"

enum { SEEDS = 50 };

// The hash of its timeline.
static uint64_t smoke(uint64_t seed)
{
    struct plan p;
    struct outcome out;
    plan_make(&p, seed);
    run_plan(&p, SHOW_FAILURE, &out);
    if (!ok(!out.broken, "seed %" PRIu64 ": %d lives in %.1f h, %" PRIu64 " requests, %" PRIu64 " facts, hash %016" PRIx64, seed, out.lives,
            out.hours, out.requests, out.facts, out.hash))
        diag("again, and what it takes: make sim SEED=%" PRIu64, seed);
    return out.hash;
}

static int smoke_all(uint64_t seeds)
{
    for (uint64_t s = 1; s <= seeds; s++)
        smoke(s);
    uint64_t a = smoke(7), b = smoke(7);
    ok(a == b, "seed 7 twice is the same world (%016" PRIx64 ")", a);
    return done_testing();
}

static size_t numbers_of(const char *text, int numbers[PLAN_MAX])
{
    size_t n = 0;
    char *end;
    for (const char *p = text; *p != '\0' && n < PLAN_MAX; p = *end == ',' ? end + 1 : end) {
        numbers[n++] = (int)strtol(p, &end, 10);
        if (end == p)
            return 0;
    }
    return n;
}

static int play_one(uint64_t seed, const char *only, bool verbose)
{
    int numbers[PLAN_MAX];
    struct plan p;
    struct outcome out;
    plan_make(&p, seed);
    if (only != NULL)
        plan_keep(&p, numbers, numbers_of(only, numbers));
    run_apart(&p, verbose ? SHOW_ALL : SHOW_FAILURE, &out);
    printf("%s - seed %" PRIu64 "%s: %zu acts, %d lives in %.1f h, hash %016" PRIx64 "\n", out.broken ? "not ok" : "ok", seed,
           only != NULL ? " (some)" : "", p.n, out.lives, out.hours, out.hash);
    if (out.broken && only == NULL)
        run_report(seed);
    return out.broken ? 1 : 0;
}

static int usage(const char *name)
{
    fprintf(stderr,
            "usage: %s [--seeds N]\n"
            "       %s --seed N [--only N,N,...] [-v]\n"
            "       %s --many N [--first N] [--jobs N] [--all-faults]\n",
            name, name, name);
    return 2;
}

int main(int argc, char **argv)
{
    uint64_t seed = 0, seeds = SEEDS;
    const char *only = NULL;
    bool verbose = false, many = false;
    struct many m = { .first = 1, .jobs = 1 };
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "-v") == 0) {
            verbose = true;
            continue;
        }
        if (strcmp(argv[i], "--all-faults") == 0) {
            m.all_faults = true;
            continue;
        }
        if (value == NULL)
            return usage(argv[0]);
        if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--seeds") == 0)
            seeds = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--only") == 0)
            only = value;
        else if (strcmp(argv[i], "--first") == 0)
            m.first = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--jobs") == 0)
            m.jobs = atoi(value);
        else if (strcmp(argv[i], "--many") == 0)
            m.seeds = strtoull(value, NULL, 10), many = true;
        else
            return usage(argv[0]);
        i++;
    }
    if (m.jobs < 1 || m.jobs > 64)
        return usage(argv[0]);
    if (many)
        return run_many(&m) > 0 ? 1 : 0;
    return seed != 0 ? play_one(seed, only, verbose) : smoke_all(seeds);
}
