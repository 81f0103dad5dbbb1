// SPDX-License-Identifier: Apache-2.0
// sim_run — plans are played: here, in a child of its own, or thousands of them on several processors.
#ifndef SIM_RUN_H
#define SIM_RUN_H

#include <stdio.h>

#include "sim_world.h"

struct outcome {
    bool broken, hung;            // hung: its child had to be ended
    char rule[200], verdict[512]; // which rule it was, and what it said
    uint64_t hash, requests, facts, hits[SIM_FAULTS];
    int lives;
    int64_t memory, store_memory; // the most that its agents held at a time
    double hours;
};

enum show { SHOW_NOTHING, SHOW_FAILURE, SHOW_ALL };

void run_plan(const struct plan *p, enum show show, struct outcome *out);
// The same in a child, so that a crash or an endless loop of the agent is an outcome, too.
void run_apart(const struct plan *p, enum show show, struct outcome *out);

// Leaves of the plan only what it takes to break the same rule; false: it breaks none.
bool run_shrink(struct plan *p, struct outcome *out);
// A seed that failed: the shrunk plan in words, and the timeline of playing it.
void run_report(uint64_t seed);

struct many {
    uint64_t first, seeds; // seeds 0 = until stopped
    int jobs;
    bool all_faults; // a fault that never hit is a failure
};
// Plays them all, reports failures, prints the table of faults. Returns the number of failures.
int run_many(const struct many *m);

#endif
