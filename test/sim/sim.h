// SPDX-License-Identifier: Apache-2.0
// sim — a world of one seed: time, chance, what is due, what happened.
//
// Everything that moves in the simulator moves by this: no part of it asks the real clock or the kernel for anything. Time stands still
// while code runs; it jumps to the next thing due when the agent's loop waits (sim_loop.c) or when nobody is there (sim_run_to).
// Two runs of one seed are the same to the byte; the timeline's hash says so.
#ifndef SIM_H
#define SIM_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/util.h"
#include "sim_fault.h"
#include "sim_heap.h"

enum { NOTES_KEPT = 400, NOTE_MAX = 240, MINUTE = 60 * 1000, HOUR = 60 * MINUTE };

// Chance. Each part of the world has its own stream, so that one more draw here shifts nothing there.
struct sim_rng {
    uint64_t state;
};
uint64_t rng_next(struct sim_rng *r);
int64_t rng_below(struct sim_rng *r, int64_t n);                   // [0, n), 0 for n <= 0
int64_t rng_between(struct sim_rng *r, int64_t low, int64_t high); // both included
bool rng_chance(struct sim_rng *r, int percent);

// Something due at a moment of the world's time. Zeroed = not set. (A pairing heap: a world of a thousand agents has ten thousand of them.)
struct sim_event {
    struct sim_event *child, *next, *prev; // prev: the one before it among the children, the parent of the first; NULL = not set
    int64_t at_ms;
    uint64_t nth;
    void (*fn)(struct sim_event *ev);
};

struct sim {
    uint64_t seed;
    int64_t now_ms;       // since the world began
    struct sim_event due; // its child is what comes next
    uint64_t n_set;
    bool verbose;
    // Who calls an agent when something is there for it; NULL = sim_dispatch() itself, while the agent's loop waits.
    void (*dispatch)(struct sim *s, struct loop *l, struct loop_fd *fd);
    // The timeline.
    char notes[NOTES_KEPT][NOTE_MAX];
    uint64_t n_notes, hash;
    // What must not be: the first one ends the run.
    bool broken;
    char verdict[512];
    const char *rule; // the verdict before it was filled in: which rule it was that broke
    uint64_t hits[SIM_FAULTS];
    // The agent's life hangs on its effects: disk, platform and network count here. At effect number `fatal` it is dead: from then on
    // nothing it does reaches the world, until the world's driver has cleared it away.
    uint64_t effects, fatal; // fatal 0 = never
    bool dead;
};

void sim_init(struct sim *s, uint64_t seed, bool verbose);
struct sim_rng sim_stream(const struct sim *s, const char *name);

void sim_at(struct sim *s, struct sim_event *ev, int64_t at_ms, void (*fn)(struct sim_event *ev)); // moves it when set
void sim_in(struct sim *s, struct sim_event *ev, int64_t delay_ms, void (*fn)(struct sim_event *ev));
void sim_unset(struct sim_event *ev);
bool sim_is_set(const struct sim_event *ev);
int64_t sim_next(const struct sim *s);          // INT64_MAX = nothing is due
void sim_run_to(struct sim *s, int64_t at_ms);  // runs what is due on the way there
void sim_run_due(struct sim *s, int64_t at_ms); // goes there and runs what is due then

// One line of the timeline. It must say nothing that differs between two runs of a seed (no addresses).
void sim_note(struct sim *s, const char *who, const char *fmt, ...) PRINTF_LIKE(3, 4);
void sim_trace(const struct sim *s, const char *fmt, ...) PRINTF_LIKE(2, 3); // with -v only, no part of the timeline
void sim_shows(const struct sim *s, size_t last);                            // prints the last lines as comments of a TAP stream
void sim_hit(struct sim *s, enum sim_fault f);                               // it counts
// An invariant does not hold.
void sim_violation(struct sim *s, const char *fmt, ...) PRINTF_LIKE(2, 3);
// The agent is about to change something outside of itself. False: it is dead, it does not.
bool sim_effect(struct sim *s);

// The clock of the machine the agent runs on.
struct sim_clock {
    struct clock clock;
    struct sim *sim;
    struct sim_rng rng;
    int64_t booted_ms;   // of the world's time
    int64_t wall_off_us; // how wrong the wall clock is
    int64_t drift_s_day; // and becomes, since then
    int64_t drift_from_ms;
    bool synced;
    bool lied; // it was wrong once in a way that nobody could tell: ahead, or claiming to be synchronised
    int boots;
};
void sim_clock_init(struct sim_clock *c, struct sim *s);
void sim_clock_reboot(struct sim_clock *c);
void sim_clock_step(struct sim_clock *c, int64_t off_us);     // from now on it is wrong by that
void sim_clock_drift(struct sim_clock *c, int64_t s_per_day); // from now on it runs fast (> 0) or slow; monotonic time does not
int64_t sim_true_us(const struct sim *s);                     // the right wall time

// Waits by letting the world's time pass.
struct loop_backend *sim_loop_backend(struct sim *s);
struct loop *sim_loop_new(struct sim *s, struct sim_clock *c);
void sim_dispatch(struct sim *s, struct loop *l, struct loop_fd *fd); // something is there for the agent on this loop

#endif
