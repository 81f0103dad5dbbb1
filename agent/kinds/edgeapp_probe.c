// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgeapp_probe.h"

#include <stdio.h>
#include <string.h>

enum { TRY_MEMORY = 4 << 20, TRY_OUTPUT = 512 };

void app_probes_follow(struct app_slot *s, const struct app_spec *spec, const struct inst *i, int64_t now_ms)
{
    if (s->probed != uid_hash(i->uid)) {
        app_tries_cancel(s);
        for (int use = 0; use < APP_PROBES; use++)
            s->probes[use] = (struct app_probing){ .ok = use == APP_LIVENESS || !app_is_current(spec, i),
                                                   .next_ms = now_ms + spec->probes[use].delay_ms };
        s->probed = uid_hash(i->uid);
        s->ready_ms = 0;
        s->available = false;
    }
    for (int use = 0; use < APP_PROBES; use++)
        s->probes[use].ok |= spec->probes[use].kind == PROBE_NONE && app_is_current(spec, i);
}

bool app_probe_applies(const struct app_spec *spec, const struct app_slot *s, const struct inst *i, enum app_probe_use use)
{
    if (i == NULL || i->state != INST_RUNNING || !app_is_current(spec, i) || spec->probes[use].kind == PROBE_NONE)
        return false;
    bool has_started = s->probes[APP_STARTUP].ok;
    return s->unhealthy != uid_hash(i->uid) && (use == APP_STARTUP ? !has_started : has_started);
}

void app_probing_count(struct app_probing *r, int successes, int failures, bool ok, bool *changed, bool *failing)
{
    r->successes = ok ? MIN(r->successes + 1, successes) : 0;
    r->failures = ok ? 0 : MIN(r->failures + 1, failures);
    bool good = r->ok ? r->failures < failures : r->successes >= successes;
    *changed = good != r->ok;
    *failing = r->failures >= failures && !r->told;
    r->ok = good;
    r->told = !good && (r->told || *failing);
}

struct app_try *app_try_new(struct port *port, struct app_probing *r, int index, enum app_probe_use use, const struct app_probe *p)
{
    struct app_try *t = calloc(1, sizeof(*t));
    if (t == NULL)
        return NULL;
    t->port = port;
    t->slot = r;
    t->index = index;
    t->use = use;
    t->successes = p->successes;
    t->failures = p->failures;
    arena_init(&t->arena, TRY_MEMORY);
    buf_init(&t->run.output, TRY_OUTPUT);
    return t;
}

void app_try_drop(struct app_try *t)
{
    buf_fini(&t->run.output);
    arena_reset(&t->arena);
    free(t);
}

void app_try_cancel(struct app_probing *r)
{
    struct app_try *t = steal(r->try);
    if (t == NULL)
        return;
    if (t->is_run)
        t->port->ops->run_cancel(t->port, &t->run);
    else
        t->port->ops->check_cancel(t->port, &t->check);
    app_try_drop(t);
}

void app_tries_cancel(struct app_slot *s)
{
    for (int use = 0; use < APP_PROBES; use++)
        app_try_cancel(&s->probes[use]);
}

void app_tries_moved(struct app_slot *s)
{
    for (int use = 0; use < APP_PROBES; use++)
        if (s->probes[use].try != NULL)
            s->probes[use].try->slot = &s->probes[use];
}

static void answered(struct app_try *t, bool ok, const char *why)
{
    bool changed, failing;
    t->slot->try = NULL;
    app_probing_count(t->slot, t->successes, t->failures, ok, &changed, &failing);
    t->answer(t->ctx, t->index, t->use, changed, failing, why);
    app_try_drop(t);
}

// The last line of what it printed says most.
static const char *last_line(struct buf *b)
{
    while (b->len > 0 && (b->data[b->len - 1] == '\n' || b->data[b->len - 1] == '\r'))
        b->data[--b->len] = '\0';
    const char *text = buf_str(b), *nl = strrchr(text, '\n');
    return nl != NULL ? nl + 1 : text;
}

static void run_done(struct port_run *r, const struct err *e)
{
    struct app_try *t = container_of(r, struct app_try, run);
    const char *said = last_line(&r->output);
    struct err why = ERR_INIT; // err_set() replaces bytes that are no UTF-8: the output is anybody's
    if (e != NULL)
        err_set(&why, e->cls, "exec: %.150s", e->msg);
    else if (r->signal != 0)
        err_set(&why, E_TERMINAL, "exec: ended by signal %d", r->signal);
    else
        err_set(&why, E_TERMINAL, "exec: exit code %d%s%.120s", r->code, said[0] != '\0' ? ": " : "", said);
    answered(t, e == NULL && r->code == 0 && r->signal == 0, why.msg);
}

static void check_done(struct port_check *c, const struct err *e)
{
    struct app_try *t = container_of(c, struct app_try, check);
    struct err why = ERR_INIT;
    err_set(&why, E_OFFLINE, "%s %.64s:%d: %.80s", c->http ? "httpGet" : "tcpSocket", c->host, c->port, e != NULL ? e->msg : "ok");
    answered(t, e == NULL, why.msg);
}

static bool keep_text(struct app_try *t, const char **text)
{
    if (*text != NULL)
        *text = arena_strdup(&t->arena, *text);
    return *text != NULL;
}

static const char *const *keep_argv(struct app_try *t, const char *const *command)
{
    size_t n = 0;
    while (command[n] != NULL)
        n++;
    const char **argv = arena_alloc(&t->arena, (n + 1) * sizeof(*argv));
    for (size_t i = 0; argv != NULL && i < n; i++) {
        argv[i] = command[i];
        if (!keep_text(t, &argv[i]))
            return NULL;
    }
    return argv;
}

// The port borrows all of it until the answer, and the pass's memory is gone by then.
static int start_run(struct app_try *t, const struct app_probe *p, struct exec_env *exec, struct err *e)
{
    exec->argv = keep_argv(t, p->command);
    bool kept = exec->argv != NULL && (exec->user == NULL || keep_text(t, &exec->user)) &&
                (exec->group == NULL || keep_text(t, &exec->group)) && (exec->workdir == NULL || keep_text(t, &exec->workdir));
    if (!kept)
        return err_set(e, E_TOOBIG, "spec.%sProbe.exec.command: too large for the memory of a probe", app_probe_word(t->use));
    t->is_run = true;
    t->run.exec = *exec;
    t->run.in_uid = t->inside[0] != '\0' ? t->inside : NULL;
    t->run.timeout_ms = p->timeout_ms;
    t->run.output_max = TRY_OUTPUT;
    t->run.done = run_done;
    return t->port->ops->run(t->port, &t->run, e);
}

static int start_check(struct app_try *t, const struct app_probe *p, struct err *e)
{
    t->check = (struct port_check){ .http = p->kind == PROBE_HTTP, .port = p->port, .timeout_ms = p->timeout_ms, .done = check_done };
    t->check.host = arena_strdup(&t->arena, p->host);
    t->check.path = arena_strdup(&t->arena, p->path != NULL ? p->path : "/");
    if (t->check.host == NULL || t->check.path == NULL)
        return err_set(e, E_NOMEM, "%s probe", app_probe_word(t->use));
    return t->port->ops->check(t->port, &t->check, e);
}

int app_try_start(struct app_try *t, const struct app_probe *p, struct exec_env *exec, struct err *e)
{
    int rc = p->kind == PROBE_EXEC ? start_run(t, p, exec, e) : start_check(t, p, e);
    if (rc == 0)
        t->slot->try = t;
    else
        app_try_drop(t);
    return rc;
}
