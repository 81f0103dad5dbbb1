// SPDX-License-Identifier: Apache-2.0
#include "port/pretend.h"

#include <signal.h>

enum { DEFAULT_TIMEOUT_MS = 30 * 1000 };

struct act {
    struct list link;
    struct pretend *set;
    struct timer due;
    size_t *count;
    struct port_run *run; // one of the two
    struct port_check *check;
    int code;
    bool yes; // of a check; of a run: in time
};

void pretend_init(struct pretend *p, struct loop *l)
{
    *p = (struct pretend){ .loop = l };
    list_init(&p->all);
}

static void act_free(struct act *a)
{
    timer_cancel(a->set->loop, &a->due);
    list_del(&a->link);
    (*a->count)--;
    free(a);
}

static void finish_run(struct port_run *r, bool in_time, int code)
{
    struct err e = ERR_INIT;
    r->impl = NULL;
    r->code = in_time ? code : -1;
    r->signal = in_time ? 0 : SIGKILL;
    if (!in_time)
        err_set(&e, E_TIMEOUT, "no end within its time; killed");
    r->done(r, in_time ? NULL : &e);
}

static void finish_check(struct port_check *c, bool yes)
{
    struct err e = ERR_INIT;
    c->impl = NULL;
    c->status = c->http ? (yes ? 200 : 503) : 0;
    if (!yes)
        err_set(&e, E_OFFLINE, "connect: refused");
    c->done(c, yes ? NULL : &e);
}

static void on_due(struct timer *t)
{
    struct act *a = container_of(t, struct act, due);
    struct act what = *a;
    act_free(a);
    if (what.run != NULL)
        finish_run(what.run, what.yes, what.code);
    else
        finish_check(what.check, what.yes);
}

static struct act *act_new(struct pretend *p, size_t *count, size_t max, int64_t delay_ms, struct err *e)
{
    if (*count >= max) {
        err_set(e, E_BUSY, "%zu are under way already", max);
        return NULL;
    }
    struct act *a = calloc(1, sizeof(*a));
    if (a == NULL) {
        err_set(e, E_NOMEM, "no memory");
        return NULL;
    }
    a->set = p;
    a->count = count;
    timer_init(&a->due, on_due);
    if (timer_in(p->loop, &a->due, delay_ms) != 0) {
        free(a);
        err_set(e, E_NOMEM, "no memory");
        return NULL;
    }
    list_add_tail(&p->all, &a->link);
    (*count)++;
    return a;
}

int pretend_run(struct pretend *p, struct port_run *r, int64_t delay_ms, int code, struct err *e)
{
    struct err why = ERR_INIT;
    int64_t timeout_ms = r->timeout_ms > 0 ? r->timeout_ms : DEFAULT_TIMEOUT_MS;
    r->impl = NULL;
    r->output.max = r->output_max;
    buf_reset(&r->output);
    r->output_dropped = 0;
    if (r->exec.argv == NULL || r->exec.argv[0] == NULL)
        return err_set(e, E_INVAL, "no command");
    struct act *a = act_new(p, &p->n_runs, PORT_RUNS_MAX, MIN(delay_ms, timeout_ms), &why);
    if (a == NULL)
        return err_set(e, why.cls, "command: %s", why.msg);
    a->run = r;
    a->code = code;
    a->yes = delay_ms <= timeout_ms;
    r->impl = a;
    return 0;
}

int pretend_check(struct pretend *p, struct port_check *c, bool answer, struct err *e)
{
    struct err why = ERR_INIT;
    c->impl = NULL;
    c->status = 0;
    if (c->host == NULL || c->port <= 0 || c->port > 65535)
        return err_set(e, E_INVAL, "check: no host, or port %d", c->port);
    struct act *a = act_new(p, &p->n_checks, PORT_CHECKS_MAX, 0, &why);
    if (a == NULL)
        return err_set(e, why.cls, "check: %s", why.msg);
    a->check = c;
    a->yes = answer;
    c->impl = a;
    return 0;
}

static void cancel(struct act *a)
{
    if (a->run != NULL)
        a->run->impl = NULL;
    else
        a->check->impl = NULL;
    act_free(a);
}

void pretend_cancel(void *impl)
{
    if (impl != NULL)
        cancel(impl);
}

void pretend_fini(struct pretend *p)
{
    list_each_safe(it, next, &p->all)
        cancel(container_of(it, struct act, link));
}
