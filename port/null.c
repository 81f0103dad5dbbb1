// SPDX-License-Identifier: Apache-2.0
// The port that does nothing: an instance runs because it was asked to, ends because it was told to, commands succeed and everything
// answers. For trying specs on a machine that must not be touched. Nothing outlives the agent, so nothing is adopted.
#include <signal.h>
#include <string.h>

#include "base/log.h"
#include "port/insts.h"
#include "port/pretend.h"

struct null_port {
    struct port port;
    struct insts insts;
    struct pretend pretend;
};

static struct null_port *self(struct port *p)
{
    return container_of(p, struct null_port, port);
}

static int null_probe(struct port *p UNUSED, struct err *e UNUSED)
{
    return 0;
}

static int null_adopt(struct port *p UNUSED, struct err *e UNUSED)
{
    log_warn("null", "port-does-nothing detail=\"the null port accepts everything and runs nothing\"");
    return 0;
}

static int null_each(struct port *p, const char *owner, int (*fn)(void *ctx, const struct inst *i), void *ctx, struct err *e UNUSED)
{
    return insts_each(&self(p)->insts, owner, fn, ctx);
}

static int null_start(struct port *p, const struct inst_spec *s, struct err *e)
{
    struct null_port *n = self(p);
    int r = inst_spec_check(s, e);
    if (r != 0 || insts_find(&n->insts, s->uid) != NULL)
        return r;
    if (n->insts.n >= PORT_INSTANCES_MAX)
        return err_set(e, E_BUSY, "%d instances are there already, no more are kept", PORT_INSTANCES_MAX);
    struct inst_node *i = malloc(sizeof(*i));
    if (i == NULL)
        return err_set(e, E_NOMEM, "no memory for instance %s", s->uid);
    insts_fill(&n->insts, i, s);
    i->i.state = INST_RUNNING;
    insts_add(&n->insts, i);
    insts_changed(&n->insts, i);
    return 0;
}

static void end(struct null_port *n, struct inst_node *i)
{
    i->i.state = INST_EXITED;
    i->i.exit = (struct inst_exit){ .known = true, .reason = "Completed" };
    clock_instant(loop_clock(n->insts.loop), &i->i.ended);
    insts_changed(&n->insts, i);
}

static int null_stop(struct port *p, const char *uid, int64_t grace_ms UNUSED, struct err *e UNUSED)
{
    struct inst_node *i = insts_find(&self(p)->insts, uid);
    if (i != NULL && i->i.state != INST_EXITED)
        end(self(p), i);
    return 0;
}

static int null_signal(struct port *p, const char *uid, int sig, struct err *e)
{
    struct inst_node *i = insts_find(&self(p)->insts, uid);
    if (sig <= 0 || sig >= NSIG)
        return err_set(e, E_INVAL, "no signal has the number %d", sig);
    return i != NULL && i->i.state == INST_RUNNING ? 0 : err_set(e, E_NOTFOUND, "instance %s is not running", uid);
}

static int null_forget(struct port *p, const char *uid, struct err *e)
{
    struct inst_node *i = insts_find(&self(p)->insts, uid);
    if (i == NULL)
        return 0;
    if (i->i.state != INST_EXITED)
        return err_set(e, E_BUSY, "instance %s has not ended", uid);
    insts_del(&self(p)->insts, i);
    free(i);
    return 0;
}

static int null_run(struct port *p, struct port_run *r, struct err *e)
{
    return pretend_run(&self(p)->pretend, r, 0, 0, e);
}

static void null_run_cancel(struct port *p UNUSED, struct port_run *r)
{
    pretend_cancel(r->impl);
}

static int null_check(struct port *p, struct port_check *c, struct err *e)
{
    return pretend_check(&self(p)->pretend, c, true, e);
}

static void null_check_cancel(struct port *p UNUSED, struct port_check *c)
{
    pretend_cancel(c->impl);
}

static int null_log_read(struct port *p UNUSED, const char *log, int64_t *offset UNUSED, size_t max UNUSED, struct buf *out UNUSED,
                         struct err *e)
{
    return err_set(e, E_NOTFOUND, "no log named %s: the null port runs nothing", log);
}

static int null_log_remove(struct port *p UNUSED, const char *log UNUSED, struct err *e UNUSED)
{
    return 0;
}

static void null_free(struct port *p)
{
    struct null_port *n = self(p);
    list_each_safe(it, next, &n->insts.all)
        free(container_of(it, struct inst_node, link));
    insts_fini(&n->insts);
    pretend_fini(&n->pretend);
    free(n);
}

static const struct port_ops null_ops = {
    .name = "null",
    .probe = null_probe,
    .adopt = null_adopt,
    .each = null_each,
    .start = null_start,
    .stop = null_stop,
    .signal = null_signal,
    .forget = null_forget,
    .run = null_run,
    .run_cancel = null_run_cancel,
    .check = null_check,
    .check_cancel = null_check_cancel,
    .log_read = null_log_read,
    .log_remove = null_log_remove,
    .free = null_free,
};

int port_null_new(struct port **out, struct loop *l, struct err *e)
{
    struct null_port *n = calloc(1, sizeof(*n));
    if (n == NULL)
        return err_set(e, E_NOMEM, "no memory for the null port");
    n->port.ops = &null_ops;
    insts_init(&n->insts, l, &n->port);
    pretend_init(&n->pretend, l);
    *out = &n->port;
    return 0;
}
