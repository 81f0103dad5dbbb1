// SPDX-License-Identifier: Apache-2.0
// The fake port, watched.
#include <stdio.h>
#include <string.h>

#include "sim_world.h"

enum { RUN_TIMEOUT_MS = 30 * 1000 }; // that of the port's contract

static struct sim_port *self(struct port *p)
{
    return (struct sim_port *)((char *)(uintptr_t)p->ops - offsetof(struct sim_port, ops));
}

static struct world *world_of(struct sim_port *sp)
{
    return container_of(sp, struct world, port);
}

static int died(struct err *e)
{
    return err_set(e, E_IO, "the agent is dead");
}

// What is wrong with a program that is started now.
static void count_program(struct sim_port *sp)
{
    const struct fake_behaviour *b = &sp->now;
    if (b->start_errno != 0)
        sim_hit(sp->sim, F_NOT_EXECUTABLE);
    else if (b->linger_ms > 0)
        sim_hit(sp->sim, F_FORK);
    else if (b->run_ms >= 0)
        sim_hit(sp->sim, b->run_ms == 0 ? F_EXITS_AT_ONCE : F_CRASH);
}

static int start(struct port *p, const struct inst_spec *s, struct err *e)
{
    AS_WORLD;
    struct sim_port *sp = self(p);
    if (!sim_effect(sp->sim))
        return died(e);
    sp->starts++;
    rules_start(world_of(sp), s);
    count_program(sp);
    sim_note(sp->sim, "port", "start %s #%d %s", s->owner, s->index, s->revision);
    return sp->fake->start(p, s, e);
}

static int stop(struct port *p, const char *uid, int64_t grace_ms, struct err *e)
{
    AS_WORLD;
    struct sim_port *sp = self(p);
    if (!sim_effect(sp->sim))
        return died(e);
    sp->stops += !rules_is_job(world_of(sp), uid);
    rules_stop(world_of(sp), uid);
    if (sp->now.stop_ms > grace_ms && grace_ms >= 0)
        sim_hit(sp->sim, F_IGNORES_TERM);
    sim_note(sp->sim, "port", "stop %s", uid);
    return sp->fake->stop(p, uid, grace_ms, e);
}

static int forget(struct port *p, const char *uid, struct err *e)
{
    struct sim_port *sp = self(p);
    if (!sim_effect(sp->sim))
        return died(e);
    rules_forgets(world_of(sp), uid);
    return sp->fake->forget(p, uid, e);
}

static int log_remove(struct port *p, const char *log_name, struct err *e)
{
    struct sim_port *sp = self(p);
    if (!sim_effect(sp->sim))
        return died(e);
    sp->logs_removed++;
    return sp->fake->log_remove(p, log_name, e);
}

int sim_port_index_of_config(const char *name)
{
    int n = -1;
    return sscanf(name, "cfg-%d", &n) == 1 && n >= 0 && n < CONFIGS ? n : -1;
}

static int run(struct port *p, struct port_run *r, struct err *e)
{
    struct sim_port *sp = self(p);
    if (!sim_effect(sp->sim))
        return died(e);
    const char *const *argv = r->exec.argv;
    bool in_time = sp->now.run_delay_ms <= (r->timeout_ms > 0 ? r->timeout_ms : RUN_TIMEOUT_MS), well = in_time && sp->now.run_code == 0;
    int i = strcmp(argv[0], "/bin/reload") == 0 && argv[1] != NULL ? sim_port_index_of_config(argv[1]) : -1;
    if (i >= 0 && well) {
        sp->change_began_ms[i] = sp->sim->now_ms;
        sp->change_ends_ms[i] = sp->sim->now_ms + sp->now.run_delay_ms;
    }
    if (!well)
        sim_hit(sp->sim, in_time ? F_COMMAND_FAILS : F_HANG);
    if (strcmp(argv[0], "/bin/ready") != 0) // probes would fill the timeline
        sim_note(sp->sim, "port", "run %s %s", argv[0], argv[1] != NULL ? argv[1] : "");
    return sp->fake->run(p, r, e);
}

static int check(struct port *p, struct port_check *c, struct err *e)
{
    struct sim_port *sp = self(p);
    if (!sp->now.check_ok)
        sim_hit(sp->sim, F_HANG);
    return sp->fake->check(p, c, e);
}

static void wrap(struct sim_port *p, struct port *port)
{
    p->port = port;
    p->fake = port->ops;
    p->ops = *port->ops;
    p->ops.start = start;
    p->ops.stop = stop;
    p->ops.forget = forget;
    p->ops.log_remove = log_remove;
    p->ops.run = run;
    p->ops.check = check;
    port->ops = &p->ops;
}

void sim_port_init(struct sim_port *p, struct sim *s, struct loop *l)
{
    struct port *port = NULL;
    struct err e = ERR_INIT;
    *p = (struct sim_port){ .sim = s };
    p->normal = (struct fake_behaviour){ .start_ms = 40, .run_ms = -1, .stop_ms = 150, .run_delay_ms = 30, .check_ok = true };
    for (int i = 0; i < CONFIGS; i++)
        p->change_began_ms[i] = -1;
    if (port_fake_new(&port, l, &e) < 0)
        abort();
    p->now = p->normal;
    port_fake_behave(port, NULL, &p->normal);
    wrap(p, port);
}

// A command that had not ended died with its agent. One that ends in the moment of that death has ended: the agent may have heard of it, and
// that may have been committed, before (seed 2000).
static void void_unfinished(struct sim_port *p)
{
    for (int i = 0; i < CONFIGS; i++)
        if (p->change_began_ms[i] >= 0 && p->sim->now_ms < p->change_ends_ms[i])
            p->change_began_ms[i] = -1;
}

void sim_port_agent_died(struct sim_port *p, struct loop *next)
{
    struct port *port = NULL;
    struct err e = ERR_INIT;
    void_unfinished(p);
    p->port->ops = p->fake;
    if (port_fake_agent_died(p->port, &port, next, &e) < 0)
        abort();
    wrap(p, port);
}

void sim_port_reboot(struct sim_port *p)
{
    port_fake_reboot(p->port);
}
