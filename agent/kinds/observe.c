// SPDX-License-Identifier: Apache-2.0
#include "kinds/observe.h"

#include "base/log.h"

enum { GONE_RETRY_MS = 10000 };

static int collect(void *ctx, const struct inst *i)
{
    struct observed *o = ctx;
    if (o->n == o->room)
        o->full = true;
    else
        o->insts[o->n++] = *i;
    return 0;
}

static int count(void *ctx, const struct inst *i)
{
    (void)i;
    ++*(size_t *)ctx;
    return 0;
}

static int make_room(struct pass *p, struct observed *o, struct err *e)
{
    size_t n = 0;
    int rc = p->env->port->ops->each(p->env->port, p->key, count, &n, e);
    if (rc < 0 || n <= o->room)
        return rc;
    o->room = MIN(n, (size_t)OBSERVE_MAX);
    o->insts = arena_alloc(p->arena, o->room * sizeof(*o->insts));
    return o->insts != NULL ? 0 : err_set(e, E_NOMEM, "%zu instances", n);
}

int observe(struct pass *p, struct observed *o, struct err *e)
{
    int rc = make_room(p, o, e);
    o->n = 0;
    o->full = false;
    if (rc == 0)
        rc = p->env->port->ops->each(p->env->port, p->key, collect, o, e);
    if (rc == 0 && o->full)
        log_warn("kind", "too_many_instances key=%s seen=%d", p->key, OBSERVE_MAX);
    return rc < 0 ? err_wrap(e, "observing") : 0;
}

int observe_ended(struct pass *p, int (*end)(struct pass *p, const struct inst *i, struct err *e), struct err *e)
{
    struct observed o = { 0 };
    size_t live = 0;
    int rc = observe(p, &o, e);
    for (size_t i = 0; rc == 0 && i < o.n; i++) {
        live += o.insts[i].state != INST_EXITED;
        rc = end(p, &o.insts[i], e);
    }
    if (rc < 0)
        return rc;
    if (live == 0 && !o.full)
        return 0;
    p->requeue_ms = GONE_RETRY_MS;
    return err_set(e, E_BUSY, "%zu instances are still stopping", live);
}
