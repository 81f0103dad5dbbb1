// SPDX-License-Identifier: Apache-2.0
// sim_policy — EdgePolicies in the world: what users said, and what of it can be in force on the node.
//
// The world keeps each version that a policy ever had (sim_policy.c) and computes from them what counts (sim_inforce.c): the agent is asked for
// nothing but which version its store has committed, as with all objects. Between the commit and the pass that puts it in force, after a
// damage, or when a newer version is not valid and an older one may have been passed over, several can be in force: what any of them allows
// may be, what all of them demand must be.
#ifndef SIM_POLICY_H
#define SIM_POLICY_H

#include "base/util.h"
#include "flow/sync.h"
#include "sim_plan.h"

enum said_field {
    SAID_OFFLINE,
    SAID_WINDOWS,
    SAID_LEASE_INTERVAL,
    SAID_LEASE_DURATION,
    SAID_MAX_EVENTS,
    SAID_SHED_FIRST,
    SAID_SYNC_MODE,
    SAID_SYNC_INTERVAL,
    SAID_METERED,
    SAID_FIELDS
};

// Who may be stopped offline, as bits.
enum { WHO_APPS = (1 << APPS) - 1, WHO_JOBS = ((1 << JOBS) - 1) << APPS };
#define WHO_APP(i) (1U << (i))
#define WHO_JOB(i) (1U << (APPS + (i)))

enum said_behavior { SAID_KEEP, SAID_STOP, SAID_RUN_ONLY };
struct said_rule {
    enum said_behavior behavior;
    unsigned who;
    int64_t after_ms;
};

// A version of a policy, or that it is not there.
struct said {
    struct list link;
    int policy;
    uint64_t nth;
    char uid[40];
    int64_t generation;
    bool there, valid, selected; // selected: its nodeSelector means this node
    int64_t priority;
    unsigned set; // 1 << enum said_field
    size_t n_rules;
    struct said_rule rules[2];
    int every_min, open_min; // of maintenance; 0 = a list without windows
    int64_t lease_interval_s, lease_duration_s, max_events, sync_interval_s;
    int shed_first, sync_mode, metered_mode;
};

enum { MAY_MAX = 24 };
struct known {
    const struct said *row;          // what the store has; NULL = nothing
    int64_t row_ms;                  // since when
    const struct said *may[MAY_MAX]; // in force is one of these; NULL = none
    size_t n;
};

// Of an app or a config: which versions of it can have been let through a window.
struct gate {
    char uid[40];
    uint64_t low, high, row; // places in the history of what was wanted
    bool waits;              // the row is not one of them
};

struct policies {
    bool on, pinned;
    struct list said;
    uint64_t nth;
    struct known known[POLICIES];
    int64_t changed_ms; // when the last of them was another
    // Since when the agent of this life could do what it wants to; with a disk that failed in this life it may be in a backoff.
    int64_t calm_ms, life_ms;
    int life, troubled_life;
    int64_t online_ms;  // seen so last
    int64_t floor_ms;   // it was certainly offline for so long, and knows that for good
    int64_t closed_ms;  // since when no window can have been open; INT64_MAX = one can be
    int64_t metered_ms; // since when a metered window is certainly open; INT64_MAX = it need not be
    int64_t looked_ms;
    uint64_t commits; // of the agent, when the gates were looked at
    struct gate gates[APPS + CONFIGS];
    uint64_t stops; // of apps, that being offline explains
};

struct world;
struct wanted;
struct inst_spec;

// sim_policy.c
void user_edits_policy(struct world *w, const struct act *a);
void user_breaks_policy(struct world *w, const struct act *a);
void user_deletes_policy(struct world *w, const struct act *a);
const struct said *said_of(struct world *w, int policy, const char *uid, int64_t generation); // NULL = nobody ever said that
#define each_said(v, w)                                                                                                    \
    for (const struct said *v = container_of((w)->policies.said.next, struct said, link); &v->link != &(w)->policies.said; \
         v = container_of(v->link.next, struct said, link))

// sim_inforce.c
void policies_init(struct world *w);
void policies_fini(struct world *w);
void policies_turn(struct world *w);
void policies_link(struct world *w, enum link_state s); // it is that now, perhaps for a part of a turn only
void policies_refresh(struct world *w);                 // in the middle of a turn: what its agent has committed by now
void policies_doubtful(struct world *w);                // its store was damaged or lost: any version that there ever was
bool policies_may_stop(struct world *w, unsigned who);  // can being offline be a reason?
bool policies_must_stop(struct world *w, unsigned who, int64_t patience_ms); // is it one, since so long?
bool policies_forbid_start(struct world *w, unsigned who);
bool policies_may_wait(struct world *w);  // for a window
bool policies_make_wait(struct world *w); // no window can have been open for long
int64_t policies_max_events(struct world *w);
int policies_shed(struct world *w);       // enum outbox_shed, -1 = more than one can be in force
unsigned policies_modes(struct world *w); // by which the server can be followed now, 1 << enum sync_mode each
bool policies_have_offline(struct world *w);
const char *policies_are_right(struct world *w, char why[256]); // at peace

// sim_gate.c
void gates_look(struct world *w);
struct wanted *gate_start(struct world *w, const struct inst_spec *s, struct wanted *row); // by which version it is started
// The newest version that can have been let through, and the oldest one that can still count; UINT64_MAX = nothing waits.
uint64_t gate_high(struct world *w, const char *name);
uint64_t gate_low(struct world *w, const char *name);
// While changes can wait: can this generation of an object be what was let through last?
bool gate_let_through(struct world *w, const char *key, const char *uid, int64_t generation);

#endif
