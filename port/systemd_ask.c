// SPDX-License-Identifier: Apache-2.0
// One systemctl at a time, each with a deadline; what is due is collected until it is its turn, so that a burst of changes costs one
// daemon-reload, one start and one show. The order is that of what must not wait: stop, kill, reset, reload, start, look.
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "port/systemd.h"

enum {
    DEADLINE_MS = 60 * 1000, // of one systemctl; a daemon-reload of a large machine takes seconds
    OUTPUT_MAX = 1024 * 1024,
    UNITS_A_TIME = 128, // named in one command
    ARGS_MAX = 256 * 1024,
    RESET_MAX = 2 * PORT_INSTANCES_MAX * UNIT_NAME_MAX, // beyond: a failed unit stays listed until somebody resets it
    AGAIN_FIRST_MS = 20,
    AGAIN_MAX_MS = 5000,
    RETRY_FIRST_MS = 500,
    RETRY_MAX_MS = 60 * 1000,
    SLOW_MS = 5 * 60 * 1000,
};

// --- what is due

static bool is_due(const struct sd_inst *x, enum sd_step step)
{
    switch (step) {
    case SD_STOP:
        return x->stop_due;
    case SD_KILL: // only what SIGTERM did not end: a kill that comes too late would hit the poke
        return x->kill_due && x->stop_told && x->killable;
    case SD_START:
        return x->start_due;
    default:
        return false;
    }
}

static bool any_due(struct sd_port *p, enum sd_step step)
{
    struct sd_inst *x;
    sd_each(x, p) if (is_due(x, step)) return true;
    return false;
}

static enum sd_step next_step(struct sd_port *p)
{
    if (any_due(p, SD_STOP))
        return SD_STOP;
    if (any_due(p, SD_KILL))
        return SD_KILL;
    if (p->reset.len > 0)
        return SD_RESET;
    if (p->dirty)
        return SD_RELOAD;
    if (any_due(p, SD_START))
        return SD_START;
    if (p->look)
        return SD_LOOK;
    return p->version == 0 ? SD_VERSION : SD_NOTHING;
}

// --- the command

static const char *const *words_of(enum sd_step step)
{
    static const char *const stop[] = { "stop", "--no-block", "--", NULL }, *const kill[] = { "kill", "--signal=KILL", "--", NULL };
    static const char *const reset[] = { "reset-failed", "--", NULL };
    static const char *const reload[] = { "daemon-reload", NULL }, *const start[] = { "start", "--no-block", "--", NULL };
    static const char *const look[] = { "show", show_properties, "--", "limpet-*.service", NULL };
    static const char *const version[] = { "show", "--property=Version", NULL };
    static const char *const *const words[] = { [SD_STOP] = stop,   [SD_KILL] = kill, [SD_RESET] = reset,    [SD_RELOAD] = reload,
                                                [SD_START] = start, [SD_LOOK] = look, [SD_VERSION] = version };
    return words[step];
}

static void mark(struct sd_inst *x, enum sd_step step)
{
    x->in_step = true;
    if (step == SD_STOP)
        x->stop_due = false;
    else if (step == SD_KILL)
        x->kill_due = false;
    else
        x->start_due = false;
}

static const char **add_units(struct sd_port *p, const char **at, size_t room)
{
    struct sd_inst *x;
    sd_each(x, p)
    {
        char *unit = room > 0 && is_due(x, p->step) ? arena_strdup(&p->args, x->unit) : NULL;
        if (unit == NULL)
            continue;
        mark(x, p->step);
        *at++ = unit;
        room--;
    }
    return at;
}

// Of units that are forgotten already. Some may be gone from systemd's memory by themselves; that they are is all that is wanted.
static const char **add_reset(struct sd_port *p, const char **at, size_t room)
{
    while (p->reset.len > 0 && room-- > 0) {
        char *unit = arena_strdup(&p->args, p->reset.data);
        if (unit != NULL)
            *at++ = unit;
        buf_drop(&p->reset, strlen(p->reset.data) + 1);
    }
    return at;
}

static int command(struct sd_port *p, struct err *e)
{
    static const char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "SYSTEMD_COLORS=0", "SYSTEMD_PAGER=", NULL };
    enum { WORDS = 8 };
    const char **argv = arena_alloc(&p->args, (WORDS + UNITS_A_TIME + 1) * sizeof(*argv)), **at = argv;
    if (argv == NULL)
        return err_set(e, E_NOMEM, "no memory for systemctl");
    *at++ = p->systemctl;
    for (const char *const *w = words_of(p->step); *w != NULL; w++)
        *at++ = *w;
    at = p->step == SD_RESET ? add_reset(p, at, UNITS_A_TIME) : add_units(p, at, UNITS_A_TIME);
    *at = NULL;
    p->run.exec = (struct exec_env){ .argv = argv, .env = env };
    return p->exec->ops->run(p->exec, &p->run, e);
}

// --- its end

static void again_later(struct sd_port *p)
{
    p->retry_ms = p->retry_ms > 0 ? MIN(p->retry_ms * 2, RETRY_MAX_MS) : RETRY_FIRST_MS;
    (void)timer_in(p->loop, &p->next, p->retry_ms);
}

// It was not heard: everything that was in it is due again.
static void take_back(struct sd_port *p)
{
    struct sd_inst *x;
    sd_each(x, p)
    {
        if (!x->in_step)
            continue;
        x->in_step = false;
        x->stop_due |= p->step == SD_STOP;
        x->kill_due |= p->step == SD_KILL;
        x->start_due |= p->step == SD_START && !x->stopping;
    }
    p->dirty |= p->step == SD_RELOAD;
    p->look |= p->step == SD_LOOK;
}

static void take_done(struct sd_port *p)
{
    struct sd_inst *x;
    sd_each(x, p)
    {
        if (!x->in_step)
            continue;
        x->in_step = false;
        x->stop_told |= p->step == SD_STOP;
        x->started |= p->step == SD_START;
    }
    if (p->step == SD_STOP || p->step == SD_KILL || p->step == SD_START)
        p->look = true;
}

static void take_version(struct sd_port *p, const char *text)
{
    int version = 0;
    p->version = sscanf(text, "Version=v%d", &version) == 1 || sscanf(text, "Version=%d", &version) == 1 ? version : -1;
    log_info("systemd", "version=%d", p->version);
}

// A start or stop that systemctl calls failed was heard all the same; what became of each unit, the look tells.
// An answer that lost its beginning would show units as gone that run.
static bool was_heard(const struct sd_port *p, const struct err *e)
{
    if (p->step == SD_LOOK && p->run.output_dropped > 0)
        return false;
    return e == NULL && (p->run.code == 0 || p->step == SD_START || p->step == SD_STOP || p->step == SD_KILL || p->step == SD_RESET);
}

static void say(struct sd_port *p, const struct err *e)
{
    char text[200];
    snprintf(text, sizeof(text), "%.199s", e != NULL ? e->msg : buf_str(&p->run.output));
    text[strcspn(text, "\n")] = '\0';
    for (char *c = text; *c != '\0'; c++)
        if (*c == '"')
            *c = '\'';
    log_warn("systemd", "systemctl step=%s code=%d error=\"%s\"", words_of(p->step)[0], p->run.code, text);
}

static void on_done(struct port_run *r, const struct err *e)
{
    struct sd_port *p = container_of(r, struct sd_port, run);
    enum sd_step step = p->step;
    bool heard = was_heard(p, e);
    if (e != NULL || (r->code != 0 && step != SD_RESET))
        say(p, e);
    if (heard)
        take_done(p);
    else
        take_back(p);
    p->step = SD_NOTHING;
    arena_reset(&p->args);
    if (!heard) {
        again_later(p);
        return;
    }
    p->retry_ms = 0;
    if (step == SD_LOOK)
        sd_take_show(p, buf_str(&r->output));
    else if (step == SD_VERSION)
        take_version(p, buf_str(&r->output));
    buf_fini(&r->output);
    sd_ask(p);
}

static void on_next(struct timer *t)
{
    struct sd_port *p = container_of(t, struct sd_port, next);
    struct err e = ERR_INIT;
    if (p->step != SD_NOTHING)
        return;
    p->step = next_step(p);
    if (p->step == SD_NOTHING)
        return;
    p->dirty &= p->step != SD_RELOAD;
    p->look &= p->step != SD_LOOK;
    p->run = (struct port_run){ .timeout_ms = DEADLINE_MS, .output_max = OUTPUT_MAX, .done = on_done, .output = p->run.output };
    if (command(p, &e) == 0)
        return;
    take_back(p);
    p->step = SD_NOTHING;
    arena_reset(&p->args);
    log_warn("systemd", "systemctl-not-started error=\"%s\"", e.msg);
    again_later(p);
}

// --- when

void sd_ask(struct sd_port *p)
{
    if (p->step == SD_NOTHING && next_step(p) != SD_NOTHING && p->retry_ms == 0)
        (void)timer_in(p->loop, &p->next, 0); // the heap has room for it: sd_ask_init() took it
    if (p->insts.n > 0 && !timer_is_set(&p->slow))
        (void)timer_in(p->loop, &p->slow, SLOW_MS);
}

void sd_look(struct sd_port *p)
{
    p->look = true;
    p->again_ms = 0;
    sd_ask(p);
}

void sd_look_again(struct sd_port *p)
{
    if (timer_is_set(&p->again))
        return;
    p->again_ms = p->again_ms > 0 ? MIN(p->again_ms * 2, AGAIN_MAX_MS) : AGAIN_FIRST_MS;
    (void)timer_in(p->loop, &p->again, p->again_ms);
}

static void on_again(struct timer *t)
{
    struct sd_port *p = container_of(t, struct sd_port, again);
    p->look = true;
    sd_ask(p);
}

static void on_slow(struct timer *t)
{
    struct sd_port *p = container_of(t, struct sd_port, slow);
    if (p->insts.n > 0)
        sd_look(p); // sets the timer again; a node without such instances has none
}

// Set once, so that setting it later cannot fail.
static void take_room(struct sd_port *p, struct timer *t)
{
    if (timer_in(p->loop, t, 0) == 0)
        timer_cancel(p->loop, t);
}

void sd_ask_init(struct sd_port *p)
{
    arena_init(&p->args, ARGS_MAX);
    buf_init(&p->reset, RESET_MAX);
    timer_init(&p->next, on_next);
    timer_init(&p->again, on_again);
    timer_init(&p->slow, on_slow);
    take_room(p, &p->next);
    take_room(p, &p->again);
    take_room(p, &p->slow);
}

void sd_ask_fini(struct sd_port *p)
{
    if (p->step != SD_NOTHING)
        p->exec->ops->run_cancel(p->exec, &p->run);
    timer_cancel(p->loop, &p->next);
    timer_cancel(p->loop, &p->again);
    timer_cancel(p->loop, &p->slow);
    arena_reset(&p->args);
    buf_fini(&p->run.output);
    buf_fini(&p->reset);
}
