// SPDX-License-Identifier: Apache-2.0
// The loop's wait: goes to the next thing due, or to when the loop wants to be woken, whichever comes first.
//
// There are no descriptors. Who has something for the agent (transport, disk) holds a loop_fd that is never ready and dispatches it.
#include <stdlib.h>

#include "sim.h"

enum { SPIN_MAX = 20000 }; // turns at one moment: nothing in here needs more than a few

struct sim_backend {
    struct loop_backend backend;
    struct sim *sim;
    int64_t last_ms;
    int turns;
};

static int fd_set_nothing(struct loop_backend *b UNUSED, struct loop_fd *f UNUSED, struct err *e UNUSED)
{
    return 0;
}

static void fd_del_nothing(struct loop_backend *b UNUSED, struct loop_fd *f UNUSED)
{
}

static void watch_for_spinning(struct sim_backend *b)
{
    struct sim *s = b->sim;
    b->turns = s->now_ms == b->last_ms ? b->turns + 1 : 0;
    b->last_ms = s->now_ms;
    if (b->turns > SPIN_MAX)
        sim_violation(s, "the loop turns and turns and no time passes");
}

static int wait_in_world(struct loop_backend *base, struct loop *l UNUSED, int64_t timeout_ms, struct err *e)
{
    AS_WORLD;
    struct sim_backend *b = container_of(base, struct sim_backend, backend);
    int64_t until = timeout_ms < 0 ? INT64_MAX : b->sim->now_ms + timeout_ms;
    int64_t next = sim_next(b->sim);
    if (MIN(until, next) == INT64_MAX)
        return err_set(e, E_IO, "nothing will ever happen again");
    sim_run_due(b->sim, MIN(until, next));
    watch_for_spinning(b);
    return b->sim->broken ? err_set(e, E_IO, "%s", b->sim->verdict) : 0;
}

static void backend_free(struct loop_backend *base)
{
    free(container_of(base, struct sim_backend, backend));
}

struct loop_backend *sim_loop_backend(struct sim *s)
{
    AS_WORLD;
    struct sim_backend *b = calloc(1, sizeof(*b));
    if (b == NULL)
        abort();
    *b = (struct sim_backend){ { fd_set_nothing, fd_del_nothing, wait_in_world, backend_free }, s, -1, 0 };
    return &b->backend;
}

struct loop *sim_loop_new(struct sim *s, struct sim_clock *c)
{
    AS_AGENT;
    struct loop *l = NULL;
    struct err e = ERR_INIT;
    if (loop_new(&l, &c->clock, sim_loop_backend(s), &e) < 0)
        abort();
    return l;
}

void sim_dispatch(struct sim *s, struct loop *l, struct loop_fd *fd)
{
    AS_AGENT;
    if (s->dispatch != NULL)
        s->dispatch(s, l, fd);
    else
        loop_dispatch_fd(l, fd, LOOP_IN);
}
