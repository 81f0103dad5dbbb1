// SPDX-License-Identifier: Apache-2.0
// The port of the simulator and of unit tests: instances are timers of the loop, what happens to them is said beforehand
// (port_fake_behave) or done to them (port_fake_crash). With a fake clock everything here is determined by the calls.
//
// An instance is a small machine of its own that goes on while no agent is there:
//   STARTING --start_ms--> RUNNING --run_ms--> EXITED
//                             |--stop--> STOPPING --min(stop_ms, grace)--> EXITED
// Moments are those at which something was due, not those at which a late agent heard of it.
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "port/insts.h"
#include "port/pretend.h"

enum { FIRST_PID = 1000, NEVER = -1 };

struct fake_rule {
    struct list link;
    char owner[INST_OWNER_MAX];
    struct fake_behaviour b;
};

struct fake_port {
    struct port port;
    struct insts insts;
    struct list latent; // not adopted yet by this agent
    struct list rules;
    struct fake_behaviour all; // for whom no rule is
    struct pretend pretend;
    int pids;
};

struct fake_inst {
    struct inst_node node;
    struct fake_port *port;
    struct fake_behaviour b;
    struct timer next;
    int64_t run_at, end_at, stop_at; // monotonic ms: becomes RUNNING, ends by itself, ends because told to; NEVER
    int64_t grace_ms;
    int stop_signal;
};

static struct fake_port *self(struct port *p)
{
    return container_of(p, struct fake_port, port);
}

static struct fake_inst *inst_of(struct list *l)
{
    return container_of(container_of(l, struct inst_node, link), struct fake_inst, node);
}

static struct fake_inst *find(struct port *p, const char *uid)
{
    struct inst_node *n = insts_find(&self(p)->insts, uid);
    return n != NULL ? container_of(n, struct fake_inst, node) : NULL;
}

// --- the life of an instance

static struct instant moment(struct fake_port *p, int64_t at_ms)
{
    struct instant t;
    int64_t late_ms = MAX(clock_mono(loop_clock(p->insts.loop)) - at_ms, 0);
    clock_instant(loop_clock(p->insts.loop), &t);
    t.boot_ms -= late_ms;
    t.wall_us -= late_ms * 1000;
    return t;
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a == NEVER || (b != NEVER && b < a) ? b : a;
}

// Has room: the timer was set once before, and heaps do not shrink.
static void plan(struct fake_inst *x)
{
    int64_t at = x->node.i.state == INST_EXITED ? NEVER : sooner(sooner(x->run_at, x->end_at), x->stop_at);
    if (at == NEVER)
        timer_cancel(x->port->insts.loop, &x->next);
    else
        (void)timer_set(x->port->insts.loop, &x->next, at);
}

static void end(struct fake_inst *x, int64_t at_ms, const struct inst_exit *exit)
{
    struct inst *i = &x->node.i;
    i->state = INST_EXITED;
    i->pid = 0;
    i->exit = *exit;
    i->ended = moment(x->port, at_ms);
    insts_changed(&x->port->insts, &x->node);
}

static struct inst_exit exit_code(int code)
{
    struct inst_exit e = { .known = true, .code = code };
    snprintf(e.reason, sizeof(e.reason), "%s", code == 0 ? "Completed" : "Error");
    return e;
}

static struct inst_exit exit_signal(int sig)
{
    struct inst_exit e = { .known = true, .code = -1, .signal = sig, .reason = "Error" };
    snprintf(e.detail, sizeof(e.detail), "signal %d", sig);
    return e;
}

static struct inst_exit exit_unknown(void)
{
    return (struct inst_exit){ .known = false, .code = -1, .reason = "Unknown" };
}

static struct inst_exit exit_not_started(int errnum)
{
    struct inst_exit e = { .known = true, .code = -1, .start_errno = errnum, .reason = "StartError" };
    snprintf(e.detail, sizeof(e.detail), "exec: %s", strerror(errnum));
    return e;
}

static void become_running(struct fake_inst *x)
{
    int64_t at = x->run_at;
    x->run_at = NEVER;
    if (x->b.start_errno != 0) {
        struct inst_exit e = exit_not_started(x->b.start_errno);
        end(x, at, &e);
        return;
    }
    x->end_at = x->b.run_ms < 0 ? NEVER : at + x->b.run_ms + x->b.linger_ms;
    if (x->node.i.state == INST_STARTING)
        x->node.i.state = INST_RUNNING;
    x->node.i.pid = FIRST_PID + x->port->pids++;
    x->node.i.started = moment(x->port, at);
    insts_changed(&x->port->insts, &x->node);
}

static void on_next(struct timer *t)
{
    struct fake_inst *x = container_of(t, struct fake_inst, next);
    int64_t at = sooner(sooner(x->run_at, x->end_at), x->stop_at);
    struct inst_exit e;
    if (at == x->run_at) {
        become_running(x);
    } else if (at == x->end_at) {
        e = exit_code(x->b.exit_code);
        end(x, at, &e);
    } else {
        e = exit_signal(x->stop_signal);
        end(x, at, &e);
    }
    plan(x);
}

// --- the verbs

static const struct fake_behaviour *behaviour_of(const struct fake_port *p, const char *owner)
{
    list_each(it, &p->rules) {
        const struct fake_rule *r = container_of(it, struct fake_rule, link);
        if (strcmp(r->owner, owner) == 0)
            return &r->b;
    }
    return &p->all;
}

static int fake_probe(struct port *p UNUSED, struct err *e UNUSED)
{
    return 0;
}

static void adopt_one(struct fake_port *p, struct fake_inst *x)
{
    list_del(&x->node.link);
    insts_add(&p->insts, &x->node);
    insts_changed(&p->insts, &x->node);
}

static int fake_adopt(struct port *port, struct err *e UNUSED)
{
    struct fake_port *p = self(port);
    list_each_safe(it, next, &p->latent)
        adopt_one(p, inst_of(it));
    return 0;
}

static bool adopt_uid(struct fake_port *p, const char *uid)
{
    list_each_safe(it, next, &p->latent)
        if (strcmp(inst_of(it)->node.i.uid, uid) == 0) {
            adopt_one(p, inst_of(it));
            return true;
        }
    return false;
}

static int fake_each(struct port *p, const char *owner, int (*fn)(void *ctx, const struct inst *i), void *ctx, struct err *e UNUSED)
{
    return insts_each(&self(p)->insts, owner, fn, ctx);
}

static int fake_start(struct port *port, const struct inst_spec *s, struct err *e)
{
    struct fake_port *p = self(port);
    int r = inst_spec_check(s, e);
    if (r != 0 || find(port, s->uid) != NULL || adopt_uid(p, s->uid))
        return r;
    if (p->insts.n >= PORT_INSTANCES_MAX)
        return err_set(e, E_BUSY, "%d instances are there already, no more are kept", PORT_INSTANCES_MAX);
    struct fake_inst *x = calloc(1, sizeof(*x));
    if (x == NULL)
        return err_set(e, E_NOMEM, "no memory for instance %s", s->uid);
    insts_fill(&p->insts, &x->node, s);
    x->port = p;
    x->b = *behaviour_of(p, s->owner);
    x->grace_ms = s->grace_ms > 0 ? s->grace_ms : 30 * 1000;
    x->end_at = x->stop_at = NEVER;
    x->run_at = loop_now(p->insts.loop) + MAX(x->b.start_ms, 0);
    timer_init(&x->next, on_next);
    if (timer_set(p->insts.loop, &x->next, x->run_at) != 0) {
        free(x);
        return err_set(e, E_NOMEM, "no memory for instance %s", s->uid);
    }
    insts_add(&p->insts, &x->node);
    return 0;
}

// Obeys after stop_ms, or is killed when that is longer than the grace. Of two requests the earlier end counts.
static int fake_stop(struct port *port, const char *uid, int64_t grace_ms, struct err *e UNUSED)
{
    struct fake_inst *x = find(port, uid);
    if (x == NULL || x->node.i.state == INST_EXITED)
        return 0;
    int64_t grace = grace_ms < 0 ? x->grace_ms : grace_ms;
    bool obeys = x->b.stop_ms <= grace;
    int64_t at = loop_now(x->port->insts.loop) + (obeys ? x->b.stop_ms : grace);
    if (x->stop_at == NEVER || at < x->stop_at) {
        x->stop_at = at;
        x->stop_signal = obeys ? SIGTERM : SIGKILL;
        plan(x);
    }
    if (x->node.i.state != INST_STOPPING)
        insts_changed(&x->port->insts, &x->node);
    x->node.i.state = INST_STOPPING;
    return 0;
}

static int fake_signal(struct port *port, const char *uid, int sig, struct err *e)
{
    struct fake_inst *x = find(port, uid);
    if (sig <= 0 || sig >= NSIG)
        return err_set(e, E_INVAL, "no signal has the number %d", sig);
    if (x == NULL || x->node.i.pid == 0)
        return err_set(e, E_NOTFOUND, "instance %s is not running", uid);
    if (sig != SIGTERM && sig != SIGKILL)
        return 0;
    x->stop_at = loop_now(x->port->insts.loop);
    x->stop_signal = sig;
    plan(x);
    return 0;
}

static void inst_free(struct fake_inst *x)
{
    timer_cancel(x->port->insts.loop, &x->next);
    free(x);
}

static int fake_forget(struct port *port, const char *uid, struct err *e)
{
    struct fake_inst *x = find(port, uid);
    if (x == NULL)
        return 0;
    if (x->node.i.state != INST_EXITED)
        return err_set(e, E_BUSY, "instance %s has not ended", uid);
    insts_del(&self(port)->insts, &x->node);
    inst_free(x);
    return 0;
}

static int fake_run(struct port *port, struct port_run *r, struct err *e)
{
    struct fake_port *p = self(port);
    return pretend_run(&p->pretend, r, p->all.run_delay_ms, p->all.run_code, e);
}

static void fake_run_cancel(struct port *p UNUSED, struct port_run *r)
{
    pretend_cancel(r->impl);
}

static int fake_check(struct port *port, struct port_check *c, struct err *e)
{
    return pretend_check(&self(port)->pretend, c, self(port)->all.check_ok, e);
}

static void fake_check_cancel(struct port *p UNUSED, struct port_check *c)
{
    pretend_cancel(c->impl);
}

static int fake_log_read(struct port *p UNUSED, const char *log, int64_t *offset UNUSED, size_t max UNUSED, struct buf *out UNUSED,
                         struct err *e)
{
    return err_set(e, E_NOTFOUND, "no log named %s: the fake port prints nothing", log);
}

static int fake_log_remove(struct port *p UNUSED, const char *log UNUSED, struct err *e UNUSED)
{
    return 0;
}

static void drop_instances(struct fake_port *p)
{
    list_each_safe(it, next, &p->latent) {
        list_del(it);
        inst_free(inst_of(it));
    }
    list_each_safe(it, next, &p->insts.all) {
        struct fake_inst *x = inst_of(it);
        insts_del(&p->insts, &x->node);
        inst_free(x);
    }
}

static void port_fini(struct fake_port *p)
{
    insts_fini(&p->insts);
    pretend_fini(&p->pretend);
    free(p);
}

// The machine goes with its last port.
static void fake_free(struct port *port)
{
    struct fake_port *p = self(port);
    drop_instances(p);
    list_each_safe(it, next, &p->rules)
        free(container_of(it, struct fake_rule, link));
    port_fini(p);
}

static const struct port_ops fake_ops = {
    .name = "fake",
    .probe = fake_probe,
    .adopt = fake_adopt,
    .each = fake_each,
    .start = fake_start,
    .stop = fake_stop,
    .signal = fake_signal,
    .forget = fake_forget,
    .run = fake_run,
    .run_cancel = fake_run_cancel,
    .check = fake_check,
    .check_cancel = fake_check_cancel,
    .log_read = fake_log_read,
    .log_remove = fake_log_remove,
    .free = fake_free,
};

int port_fake_new(struct port **out, struct loop *l, struct err *e)
{
    struct fake_port *p = calloc(1, sizeof(*p));
    if (p == NULL)
        return err_set(e, E_NOMEM, "no memory for the fake port");
    p->port.ops = &fake_ops;
    p->all = (struct fake_behaviour){ .run_ms = -1, .check_ok = true };
    insts_init(&p->insts, l, &p->port);
    pretend_init(&p->pretend, l);
    list_init(&p->latent);
    list_init(&p->rules);
    *out = &p->port;
    return 0;
}

// --- what is done to the machine

static struct fake_rule *rule_of(struct fake_port *p, const char *owner)
{
    list_each(it, &p->rules)
        if (strcmp(container_of(it, struct fake_rule, link)->owner, owner) == 0)
            return container_of(it, struct fake_rule, link);
    struct fake_rule *r = calloc(1, sizeof(*r));
    if (r == NULL)
        abort(); // a test that cannot say what should happen has no meaning
    snprintf(r->owner, sizeof(r->owner), "%s", owner);
    list_add_tail(&p->rules, &r->link);
    return r;
}

void port_fake_behave(struct port *port, const char *owner, const struct fake_behaviour *b)
{
    if (owner == NULL)
        self(port)->all = *b;
    else
        rule_of(self(port), owner)->b = *b;
}

static int end_some(struct port *port, const char *owner, int index, const struct inst_exit *e)
{
    struct fake_port *p = self(port);
    int n = 0;
    list_each(it, &p->insts.all) {
        struct fake_inst *x = inst_of(it);
        bool meant = (owner == NULL || strcmp(x->node.i.owner, owner) == 0) && (index < 0 || x->node.i.index == index);
        if (!meant || x->node.i.pid == 0)
            continue;
        end(x, loop_now(p->insts.loop), e);
        plan(x);
        n++;
    }
    return n;
}

int port_fake_crash(struct port *port, const char *owner, int index, int code)
{
    struct inst_exit e = exit_code(code);
    return end_some(port, owner, index, &e);
}

int port_fake_lose(struct port *port, const char *owner, int index)
{
    struct inst_exit e = exit_unknown();
    return end_some(port, owner, index, &e);
}

static void move_list(struct list *to, struct list *from)
{
    list_each_safe(it, next, from) {
        list_del(it);
        list_add_tail(to, it);
    }
}

int port_fake_agent_died(struct port *port, struct port **successor, struct loop *l, struct err *e)
{
    struct fake_port *old = self(port);
    int r = port_fake_new(successor, l, e);
    if (r != 0)
        return r;
    struct fake_port *p = self(*successor);
    p->all = old->all;
    p->pids = old->pids;
    move_list(&p->rules, &old->rules);
    move_list(&p->latent, &old->latent);
    move_list(&p->latent, &old->insts.all);
    list_each(it, &p->latent) {
        struct fake_inst *x = inst_of(it);
        timer_cancel(old->insts.loop, &x->next);
        x->port = p;
        x->node.changed = false;
        plan(x);
    }
    port_fini(old);
    return 0;
}

void port_fake_reboot(struct port *port)
{
    struct fake_port *p = self(port);
    drop_instances(p);
    pretend_fini(&p->pretend);
}
