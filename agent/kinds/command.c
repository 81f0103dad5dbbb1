// SPDX-License-Identifier: Apache-2.0
#include "kinds/command.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kinds/process.h"

#define COMMAND_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

enum { COMMAND_MEMORY = 8 << 20, SLACK_MS = 5000 };

static const char *lookup(const void *ctx, const char *name, size_t n)
{
    for (const char *const *v = ctx; *v != NULL; v += 2)
        if (strlen(v[0]) == n && memcmp(v[0], name, n) == 0)
            return v[1];
    return NULL;
}

static int build_exec(struct command *c, const char *const *argv, const char *const *vars, struct err *e)
{
    size_t n = 0, v = 0;
    while (argv[n] != NULL)
        n++;
    const char **words = arena_alloc(&c->arena, (n + 1) * sizeof(*words));
    const char **env = arena_alloc(&c->arena, (COMMAND_ENV_MAX + 2) * sizeof(*env));
    bool ok = words != NULL && env != NULL;
    for (size_t i = 0; ok && i < n; i++)
        ok = (words[i] = process_expand(argv[i], lookup, vars, &c->arena)) != NULL;
    for (; ok && vars[2 * v] != NULL && v < COMMAND_ENV_MAX; v++)
        ok = (env[v] = arena_printf(&c->arena, "%s=%s", vars[2 * v], vars[2 * v + 1])) != NULL;
    if (!ok)
        return err_set(e, E_TOOBIG, "the command is too large for the memory of a pass");
    env[v] = COMMAND_PATH;
    c->run.exec = (struct exec_env){ .argv = words, .env = env };
    return 0;
}

// What it printed last, without the white space around it.
static const char *output_text(struct port_run *r)
{
    while (r->output.len > 0 && strchr(" \t\r\n", r->output.data[r->output.len - 1]) != NULL)
        r->output.data[--r->output.len] = '\0';
    const char *s = buf_str(&r->output);
    return s + strspn(s, " \t\r\n");
}

static void on_done(struct port_run *r, const struct err *e)
{
    struct command *c = container_of(r, struct command, run);
    const char *said = output_text(r), *colon = said[0] != '\0' ? ": " : "";
    c->done = true;
    c->ok = e == NULL && r->code == 0 && r->signal == 0;
    // err_set() replaces bytes that are no UTF-8: the output is anybody's.
    if (e != NULL && e->cls == E_TIMEOUT)
        err_set(&c->verdict, E_TIMEOUT, "no end within %" PRId64 " s%s%s", r->timeout_ms / 1000, colon, said);
    else if (e != NULL)
        c->verdict = *e;
    else if (r->signal != 0)
        err_set(&c->verdict, E_TERMINAL, "ended by signal %d%s%s", r->signal, colon, said);
    else
        err_set(&c->verdict, E_TERMINAL, "exit code %d%s%s", r->code, colon, said);
    engine_resume(c->env->engine, c->os);
}

int command_start(struct command **out, struct pass *p, const char *const *argv, const char *const *vars, int64_t timeout_ms, struct err *e)
{
    struct command *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return err_set(e, E_NOMEM, "command");
    c->env = p->env;
    c->os = p->os;
    arena_init(&c->arena, COMMAND_MEMORY);
    buf_init(&c->run.output, COMMAND_OUTPUT_MAX);
    c->run.timeout_ms = timeout_ms;
    c->run.output_max = COMMAND_OUTPUT_MAX;
    c->run.done = on_done;
    int rc = build_exec(c, argv, vars, e);
    if (rc == 0)
        rc = p->env->port->ops->run(p->env->port, &c->run, e);
    if (rc < 0) {
        c->done = true;
        command_free(c);
        return rc;
    }
    *out = c;
    return 0;
}

void command_free(struct command *c)
{
    if (c == NULL)
        return;
    if (!c->done)
        c->env->port->ops->run_cancel(c->env->port, &c->run);
    buf_fini(&c->run.output);
    arena_reset(&c->arena);
    free(c);
}

int command_wait(const struct command *c, struct pass *p)
{
    return pass_wait(p, c->run.timeout_ms + SLACK_MS);
}
