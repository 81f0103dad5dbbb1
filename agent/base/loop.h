// SPDX-License-Identifier: Apache-2.0
// loop — one thread, one wait: timers, descriptors and end-of-turn hooks as intrusive nodes.
//
// A turn is: wait (the backend), descriptor callbacks, due timers, then the hooks in the order they were added. The agent
// adds them so that a turn's store changes are committed before anything acts on them:
//   commit -> work (reconcile passes) -> commit -> send.
// The wait is injected: the real backend is epoll, the simulator's moves its own clock. Children are pidfds, so they are
// descriptors too. Nothing here blocks but the wait; no callback may block either.
//
// Nodes are owned by whoever embeds them; they must be removed before their memory goes. Removing any node, or adding one, from
// inside any callback is allowed.
#ifndef BASE_LOOP_H
#define BASE_LOOP_H

#include "base/clock.h"
#include "base/err.h"
#include "base/util.h"

struct loop;

struct timer {
    void (*fn)(struct timer *t);
    int64_t at_ms;   // monotonic
    size_t heap_pos; // 1-based place in the heap, 0 = not set
};

enum { LOOP_IN = 1, LOOP_OUT = 2 }; // errors and hang-ups are reported as LOOP_IN

struct loop_fd {
    int fd;
    unsigned events;
    void (*fn)(struct loop_fd *f, unsigned events);
    bool added;
};

struct loop_hook {
    struct list link;
    // Returns true when it has more to do at once: the next wait then does not sleep.
    bool (*fn)(struct loop_hook *h);
};

// The wait. timeout_ms < 0 = for ever. Calls loop_dispatch_fd() for each ready descriptor.
struct loop_backend {
    int (*fd_set)(struct loop_backend *b, struct loop_fd *f, struct err *e); // add or modify
    void (*fd_del)(struct loop_backend *b, struct loop_fd *f);
    int (*wait)(struct loop_backend *b, struct loop *l, int64_t timeout_ms, struct err *e);
    void (*free)(struct loop_backend *b);
};

// Takes the backend, also on failure; frees it with the loop. E_NOMEM.
int loop_new(struct loop **out, struct clock *c, struct loop_backend *b, struct err *e) MUST_USE;
int loop_backend_epoll(struct loop_backend **out, struct err *e) MUST_USE;
void loop_free(struct loop *l);
struct clock *loop_clock(struct loop *l);
int64_t loop_now(struct loop *l); // monotonic ms, read once a turn
// The moment that lies delay_ms ahead by the clock, for loop_now() stands still in a turn, which an fsync can make long: a wait that begins
// late in it would be too short. 0 or less is loop_now(): due in this turn.
int64_t loop_in(struct loop *l, int64_t delay_ms);
uint64_t loop_wakeups(const struct loop *l); // turns that began with a sleep

void timer_init(struct timer *t, void (*fn)(struct timer *t));
// Sets or moves it; one set from a callback to a time gone by runs in the next turn. The heap of timers grows by doubling and never
// shrinks, so memory is asked for only while there are more timers than ever before; moving a set timer cannot fail.
int timer_set(struct loop *l, struct timer *t, int64_t at_ms);   // 0, or E_NOMEM (the timer is then unset)
int timer_in(struct loop *l, struct timer *t, int64_t delay_ms); // at loop_in(delay_ms)
void timer_cancel(struct loop *l, struct timer *t);              // safe when not set
bool timer_is_set(const struct timer *t);

// No events at all = watched for nothing, also not for errors, until loop_fd_mod().
int loop_fd_add(struct loop *l, struct loop_fd *f, int fd, unsigned events, void (*fn)(struct loop_fd *, unsigned), struct err *e) MUST_USE;
int loop_fd_mod(struct loop *l, struct loop_fd *f, unsigned events, struct err *e) MUST_USE;
void loop_fd_del(struct loop *l, struct loop_fd *f);                       // does not close; safe when not added
void loop_dispatch_fd(struct loop *l, struct loop_fd *f, unsigned events); // for backends

void loop_hook_add(struct loop *l, struct loop_hook *h, bool (*fn)(struct loop_hook *h)); // appended
void loop_hook_del(struct loop_hook *h);

int loop_turn(struct loop *l, int64_t max_wait_ms, struct err *e) MUST_USE; // one turn
int loop_run(struct loop *l, struct err *e) MUST_USE;                       // until loop_stop()
void loop_stop(struct loop *l);

#endif
