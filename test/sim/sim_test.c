// SPDX-License-Identifier: Apache-2.0
// sim — the very agent in a simulated world, seed by seed.
//
//     sim_test [--seed N] [--seeds N] [-v]
//
// One check a seed: chaos, then peace, doubt, chaos again, peace, an idle hour; whatever breaks an invariant ends the seed and shows the
// timeline. --seed N runs that one alone, -v shows everything it does. The last check runs a seed twice: both times the same to the byte.
//
// timeout: 600
#include <stdlib.h>
#include <string.h>

#include "sim_world.h"
#include "tap.h"

enum { SEEDS = 50, SHOWN_NOTES = 70, SHOWN_LOG = 40 };

static void story(struct world *w)
{
    story_begin(w);
    story_chaos(w, 40);
    story_peace(w);
    story_doubt(w);
    story_chaos(w, 40);
    story_peace(w);
    story_idle_hour(w);
}

// The hash of its timeline; *right tells whether all invariants held.
static uint64_t run_seed(uint64_t seed, bool verbose, bool *right)
{
    struct world *w = calloc(1, sizeof(*w));
    if (w == NULL)
        abort();
    world_init(w, seed, verbose);
    story(w);
    uint64_t hash = w->sim.hash;
    *right = ok(!w->sim.broken, "seed %" PRIu64 ": %d lives in %.1f h, %" PRIu64 " requests, %" PRIu64 " facts, hash %016" PRIx64, seed,
                w->lives, (double)w->sim.now_ms / HOUR, w->server.requests, w->sim.n_notes, hash);
    if (!*right) {
        diag("%s", w->sim.verdict);
        sim_shows(&w->sim, SHOWN_NOTES);
        diag("the agent's log:");
        world_shows_log(w, SHOWN_LOG);
        diag("again: make sim-smoke SEED=%" PRIu64, seed);
    }
    world_fini(w);
    free(w);
    return hash;
}

static void twice(uint64_t seed)
{
    bool right;
    uint64_t a = run_seed(seed, false, &right), b = run_seed(seed, false, &right);
    ok(a == b, "seed %" PRIu64 " twice is the same world (%016" PRIx64 ")", seed, a);
}

int main(int argc, char **argv)
{
    uint64_t seed = 0, seeds = SEEDS;
    bool verbose = false, right;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-v") == 0)
            verbose = true;
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc)
            seeds = strtoull(argv[++i], NULL, 10);
        else
            return fprintf(stderr, "usage: %s [--seed N] [--seeds N] [-v]\n", argv[0]), 2;
    }
    if (seed != 0) {
        run_seed(seed, verbose, &right);
        return done_testing();
    }
    for (uint64_t s = 1; s <= seeds; s++)
        run_seed(s, verbose, &right);
    twice(7);
    return done_testing();
}
