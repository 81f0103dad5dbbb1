// SPDX-License-Identifier: Apache-2.0
#include "port/runtimes.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "port/insts.h"

struct runtimes {
    struct port port;
    struct port_ops ops; // with the default's name
    struct port *all[RUNTIMES_MAX];
    size_t n;
    char why_not[RUNTIMES_MAX][160]; // "" = usable
    char dflt[32];
    const struct inst **seen; // while each() merges
    size_t seen_room;
};

static struct runtimes *self(struct port *p)
{
    return container_of(p, struct runtimes, port);
}

static struct port *first(struct port *p)
{
    return self(p)->all[0];
}

// A walk over the usable ones.
#define each_port(q, r)                    \
    for (size_t k_ = 0; k_ < (r)->n; k_++) \
        for (struct port *q = (r)->why_not[k_][0] == '\0' ? (r)->all[k_] : NULL; q != NULL; q = NULL)

static void sub_changed(void *ctx, const char *owner)
{
    struct runtimes *r = ctx;
    if (r->port.changed != NULL)
        r->port.changed(r->port.ctx, owner);
}

static int rt_probe(struct port *p, struct err *e)
{
    return first(p)->ops->probe(first(p), e);
}

// One that fails does not keep the others from theirs.
static int rt_adopt(struct port *p, struct err *e)
{
    int worst = 0;
    each_port(q, self(p))
    {
        struct err why = ERR_INIT;
        int rc = q->ops->adopt(q, &why);
        if (rc != 0 && worst == 0)
            worst = err_set(e, rc, "%s: %s", q->ops->name, why.msg);
    }
    return worst;
}

// --- each

static int room_for_one(struct runtimes *r, size_t n, struct err *e)
{
    if (n < r->seen_room)
        return 0;
    size_t room = r->seen_room > 0 ? 2 * r->seen_room : 16;
    const struct inst **more = realloc(r->seen, room * sizeof(struct inst *));
    if (more == NULL)
        return err_set(e, E_NOMEM, "%zu instances", room);
    r->seen = more;
    r->seen_room = room;
    return 0;
}

struct merge {
    struct runtimes *r;
    size_t n;
    struct err *e;
};

// Each port gives its own in order, so that most find their place at the end.
static int insert(void *ctx, const struct inst *i)
{
    struct merge *m = ctx;
    int rc = room_for_one(m->r, m->n, m->e);
    if (rc < 0)
        return rc;
    size_t at = m->n++;
    for (; at > 0 && inst_order(m->r->seen[at - 1], i) > 0; at--)
        m->r->seen[at] = m->r->seen[at - 1];
    m->r->seen[at] = i;
    return 0;
}

// What a port shows stays where it is until a verb is called, and fn calls none.
static int rt_each(struct port *p, const char *owner, int (*fn)(void *ctx, const struct inst *i), void *ctx, struct err *e)
{
    struct merge m = { .r = self(p), .e = e };
    int rc = 0;
    each_port(q, m.r) if (rc == 0) rc = q->ops->each(q, owner, insert, &m, e);
    for (size_t i = 0; i < m.n && rc == 0; i++)
        rc = fn(ctx, m.r->seen[i]);
    return rc;
}

// --- verbs

// What it lacked may have been installed meanwhile.
static void look_again(struct runtimes *r, size_t i)
{
    struct port *q = r->all[i];
    struct err why = ERR_INIT;
    if (r->why_not[i][0] == '\0' || q->ops->probe(q, &why) != 0)
        return;
    r->why_not[i][0] = '\0';
    log_info("runtimes", "usable-now name=%s", q->ops->name);
    if (q->ops->adopt(q, &why) != 0)
        log_warn("runtimes", "not-adopted name=%s error=\"%s\"", q->ops->name, why.msg);
}

static struct port *usable(struct runtimes *r, const char *name, struct err *e)
{
    for (size_t i = 0; i < r->n; i++) {
        if (strcmp(r->all[i]->ops->name, name) != 0)
            continue;
        look_again(r, i);
        if (r->why_not[i][0] == '\0')
            return r->all[i];
        err_set(e, E_UNSUP, "runtime %s: %s", name, r->why_not[i]);
        return NULL;
    }
    err_set(e, E_UNSUP, "there is no runtime %.40s here", name);
    return NULL;
}

static int rt_start(struct port *p, const struct inst_spec *s, struct err *e)
{
    struct port *q = usable(self(p), s->runtime != NULL ? s->runtime : self(p)->dflt, e);
    return q != NULL ? q->ops->start(q, s, e) : E_UNSUP;
}

// That of the one platform that knows images.
static int rt_image(struct port *p, const char *owner, const char *revision, const char *image, enum image_pull pull,
                    struct image_view *out, struct err *e)
{
    struct runtimes *r = self(p);
    for (size_t i = 0; i < r->n; i++) {
        struct port *q = r->all[i]->ops->image != NULL ? usable(r, r->all[i]->ops->name, e) : NULL;
        if (q != NULL)
            return q->ops->image(q, owner, revision, image, pull, out, e);
        if (r->all[i]->ops->image != NULL)
            return E_UNSUP;
    }
    return err_set(e, E_UNSUP, "no runtime here knows images");
}

static int rt_stop(struct port *p, const char *uid, int64_t grace_ms, struct err *e)
{
    int rc = 0;
    each_port(q, self(p)) if (rc == 0) rc = q->ops->stop(q, uid, grace_ms, e);
    return rc;
}

static int rt_signal(struct port *p, const char *uid, int sig, struct err *e)
{
    int rc = E_NOTFOUND;
    struct err why = ERR_INIT;
    each_port(q, self(p)) if (rc == E_NOTFOUND) rc = q->ops->signal(q, uid, sig, &why);
    return rc == 0 ? 0 : err_set(e, rc, "%s", why.msg);
}

static int rt_forget(struct port *p, const char *uid, struct err *e)
{
    int rc = 0;
    each_port(q, self(p)) if (rc == 0) rc = q->ops->forget(q, uid, e);
    return rc;
}

static int is_uid(void *ctx, const struct inst *i)
{
    return strcmp(i->uid, ctx) == 0;
}

// Beside an instance it is run by the platform that has that.
static int rt_run(struct port *p, struct port_run *run, struct err *e)
{
    run->by = first(p);
    if (run->in_uid != NULL)
        each_port(q, self(p)) if (q->ops->each(q, NULL, is_uid, (void *)(uintptr_t)run->in_uid, e) == 1) run->by = q;
    return run->by->ops->run(run->by, run, e);
}

static void rt_run_cancel(struct port *p UNUSED, struct port_run *run)
{
    if (run->by != NULL)
        run->by->ops->run_cancel(run->by, run);
}

static int rt_check(struct port *p, struct port_check *c, struct err *e)
{
    return first(p)->ops->check(first(p), c, e);
}

static void rt_check_cancel(struct port *p, struct port_check *c)
{
    first(p)->ops->check_cancel(first(p), c);
}

static int rt_log_read(struct port *p, const char *log, int64_t *offset, size_t max, struct buf *out, struct err *e)
{
    int rc = E_NOTFOUND;
    struct err why = ERR_INIT;
    each_port(q, self(p)) if (rc == E_NOTFOUND) rc = q->ops->log_read(q, log, offset, max, out, &why);
    return rc < 0 ? err_set(e, rc, "%s", why.msg) : rc;
}

static int rt_log_remove(struct port *p, const char *log, struct err *e)
{
    int rc = 0;
    each_port(q, self(p)) if (rc == 0) rc = q->ops->log_remove(q, log, e);
    return rc;
}

static void rt_free(struct port *p)
{
    struct runtimes *r = self(p);
    while (r->n > 0) {
        struct port *q = r->all[--r->n];
        q->ops->free(q);
    }
    free(r->seen);
    free(r);
}

static const struct port_ops rt_ops = {
    .probe = rt_probe,
    .adopt = rt_adopt,
    .each = rt_each,
    .start = rt_start,
    .stop = rt_stop,
    .signal = rt_signal,
    .forget = rt_forget,
    .run = rt_run,
    .run_cancel = rt_run_cancel,
    .check = rt_check,
    .check_cancel = rt_check_cancel,
    .log_read = rt_log_read,
    .log_remove = rt_log_remove,
    .image = rt_image,
    .free = rt_free,
};

// --- making one

static void take_port(struct runtimes *r, struct port *q)
{
    struct err why = ERR_INIT;
    q->changed = sub_changed;
    q->ctx = r;
    r->all[r->n] = q;
    if (q->ops->probe(q, &why) != 0) {
        snprintf(r->why_not[r->n], sizeof(r->why_not[0]), "%.150s", why.msg[0] != '\0' ? why.msg : "refused");
        log_info("runtimes", "not-usable name=%s reason=\"%s\"", q->ops->name, r->why_not[r->n]);
    }
    r->n++;
}

int port_runtimes_new(struct port **out, struct port *const *ports, size_t n, const char *dflt, struct err *e)
{
    struct runtimes *r = n <= RUNTIMES_MAX ? calloc(1, sizeof(*r)) : NULL;
    if (r == NULL) {
        while (n-- > 0)
            ports[n]->ops->free(ports[n]);
        return err_set(e, E_NOMEM, "no memory for the runtimes");
    }
    r->port.ops = &r->ops;
    r->ops = rt_ops;
    r->ops.name = r->dflt;
    snprintf(r->dflt, sizeof(r->dflt), "%s", dflt);
    for (size_t i = 0; i < n; i++)
        take_port(r, ports[i]);
    if (n > 0 && r->why_not[0][0] == '\0') {
        *out = &r->port;
        return 0;
    }
    int rc = err_set(e, E_UNSUP, "%s", n > 0 ? r->why_not[0] : "no runtimes");
    rt_free(&r->port);
    return rc;
}
