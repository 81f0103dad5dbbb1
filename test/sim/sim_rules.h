// SPDX-License-Identifier: Apache-2.0
// sim_rules — what the rules share: what users wanted, and what was started. sim_rules.c owns it; sim_rollout.c judges what goes back.
#ifndef SIM_RULES_H
#define SIM_RULES_H

#include <string.h>

#include "sim_world.h"

struct wanted {
    struct list link;
    char name[16], uid[40];
    uint64_t nth;
    int64_t at_ms;
    bool there, valid; // an invalid spec is no reason for anything
    int64_t generation;
    bool suspended;    // a job
    char program[160]; // of an app or a job: what is started
    // Of an app.
    int replicas;
    char revision[INST_REV_MAX];
    bool seen;     // the agent had it in its store
    bool came_up;  // all of it ran for long enough
    bool given_up; // it did not come up, and an earlier one was started in its place
    // Of a config: what each of its paths should hold, "" = nothing.
    char content[FILES_EACH][48];
};

struct started {
    struct list link;
    char uid[INST_UID_MAX], name[16], revision[INST_REV_MAX];
    int index;
    uint64_t nth; // of what was wanted when it was started
    int64_t at_ms;
};

static inline struct wanted *wanted_of(struct list *l)
{
    return container_of(l, struct wanted, link);
}

// Oldest first.
#define each_wanted(v, w, of)                                                                                               \
    for (struct wanted *v = wanted_of((w)->rules.wanted.next); &v->link != &(w)->rules.wanted; v = wanted_of(v->link.next)) \
        if (strcmp(v->name, of) == 0)

static inline const char *name_in(const char *key)
{
    return strrchr(key, '/') + 1;
}

void rules_started_program(const struct inst_spec *s, char out[160]); // command and environment, as wanted.program has them
bool rules_can_judge(const struct world *w);
struct wanted *rules_wanted(struct world *w, const char *key); // what the agent has committed of an object; NULL = not to be had

// sim_rollout.c
// The earlier spec with this revision that may be made true in the place of v (NULL = nothing); NULL = none may.
const struct wanted *rollout_way_back(struct world *w, const struct wanted *v, const char *revision);
bool rollout_was_given_up(struct world *w, const struct wanted *v);
bool rollout_may_end(struct world *w, const struct started *x); // of the newest revision: is that given up?
bool rollout_is_second_try(struct world *w, const struct started *x);
void rollout_turn(struct world *w);

#endif
