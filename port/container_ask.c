// SPDX-License-Identifier: Apache-2.0
// One podman or docker at a time, each with a deadline, so that a hung one holds up nothing but containers. What is due is collected until
// it is its turn; what must not wait comes first: stop, kill, remove, look, start.
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "port/container.h"

enum {
    DEADLINE_MS = 60 * 1000,
    DEADLINE_RUN_MS = 2 * 60 * 1000, // making a container copies its image on slow storage
    ARGS_MAX = 1024 * 1024,
    IDS_MAX = 4 * PORT_INSTANCES_MAX * CONTAINER_ID_MAX, // beyond: a leftover stays until the next look
    REMOVE_A_TIME = 64,
    AGAIN_FIRST_MS = 20,
    AGAIN_MAX_MS = 5000,
    RETRY_FIRST_MS = 500,
    RETRY_MAX_MS = 60 * 1000,
    SLOW_MS = 5 * 60 * 1000,
};

// --- what is due

static bool is_due(const struct ct_inst *x, enum ct_step step)
{
    bool there = x->id[0] != '\0' && x->node.i.pid > 0;
    switch (step) {
    case CT_STOP:
        return x->stop_due && there;
    case CT_KILL:
        return x->kill_due && there;
    case CT_START:
        return x->start_due;
    case CT_RUN:
        return x->run_due;
    default:
        return false;
    }
}

static struct ct_inst *first_due(struct ct_port *p, enum ct_step step)
{
    struct ct_inst *x;
    ct_each(x, p) if (is_due(x, step)) return x;
    return NULL;
}

static enum ct_step next_step(struct ct_port *p, struct ct_inst **one)
{
    static const enum ct_step urgent[] = { CT_KILL, CT_STOP }, late[] = { CT_START, CT_RUN };
    *one = NULL;
    if (!p->asked_version)
        return p->insts.n > 0 || p->look || p->remove.len > 0 ? CT_VERSION : CT_NOTHING;
    for (size_t i = 0; i < ARRAY_LEN(urgent); i++)
        if ((*one = first_due(p, urgent[i])) != NULL)
            return urgent[i];
    if (p->remove.len > 0)
        return CT_REMOVE;
    if (p->ids.len > 0)
        return CT_INSPECT;
    if (p->look)
        return CT_LIST;
    for (size_t i = 0; i < ARRAY_LEN(late); i++)
        if ((*one = first_due(p, late[i])) != NULL)
            return late[i];
    return CT_NOTHING;
}

// --- the command

const char **ct_environment(struct arena *a, bool network, const char *const *more)
{
    static const char *const names[] = { "HOME",
                                         "TMPDIR",
                                         "XDG_RUNTIME_DIR",
                                         "CONTAINERS_CONF",
                                         "CONTAINERS_STORAGE_CONF",
                                         "DOCKER_CONFIG",
                                         "DOCKER_HOST",
                                         "CONTAINERS_REGISTRIES_CONF",
                                         "REGISTRY_AUTH_FILE" };
    static const char *const proxies[] = { "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy" };
    size_t n_more = 0, n = 0;
    while (more != NULL && more[n_more] != NULL)
        n_more++;
    const char **env = arena_alloc(a, (ARRAY_LEN(names) + ARRAY_LEN(proxies) + n_more + 4) * sizeof(*env));
    if (env == NULL)
        return NULL;
    env[n++] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    env[n++] = "LC_ALL=C";
    if (getenv("HOME") == NULL)
        env[n++] = "HOME=/root";
    for (size_t i = 0; i < ARRAY_LEN(names) + (network ? ARRAY_LEN(proxies) : 0); i++) {
        const char *name = i < ARRAY_LEN(names) ? names[i] : proxies[i - ARRAY_LEN(names)], *value = getenv(name);
        if (value != NULL && (env[n++] = arena_printf(a, "%s=%s", name, value)) == NULL)
            return NULL;
    }
    for (size_t i = 0; i < n_more; i++)
        env[n++] = more[i];
    return env;
}

static const char *const *words_of(enum ct_step step)
{
    static const char *const version[] = { "--version", NULL };
    static const char *const stop[] = { "kill", "--signal", NULL }, *const kill[] = { "kill", "--signal", "KILL", NULL };
    static const char *const remove[] = { "rm", NULL }, *const start[] = { "start", NULL }, *const run[] = { "run", "--detach", NULL };
    static const char *const list[] = { "ps", "--all", "--no-trunc", "--format", show_ids, "--filter", NULL };
    static const char *const inspect[] = { "container", "inspect", "--format", show_container, NULL };
    static const char *const *const words[] = { [CT_VERSION] = version, [CT_STOP] = stop,       [CT_KILL] = kill,   [CT_REMOVE] = remove,
                                                [CT_LIST] = list,       [CT_INSPECT] = inspect, [CT_START] = start, [CT_RUN] = run };
    return words[step];
}

static size_t add_words(const char **argv, size_t n, const char *const *words)
{
    for (; words != NULL && *words != NULL; words++)
        argv[n++] = *words;
    return n;
}

static size_t add_ids(struct ct_port *p, const char **argv, size_t n, struct buf *ids, size_t max)
{
    while (ids->len > 0 && max-- > 0) {
        argv[n++] = arena_strdup(&p->args, ids->data);
        buf_drop(ids, strlen(ids->data) + 1);
    }
    return n;
}

static size_t n_words(const char *const *words)
{
    size_t n = 0;
    while (words != NULL && words[n] != NULL)
        n++;
    return n;
}

// What is left of a list of ids that did not fit into memory is listed again.
static const char **command(struct ct_port *p)
{
    enum { WORDS = 32 };
    struct ct_inst *x = p->one;
    size_t room = WORDS + p->ids.len / 13 + REMOVE_A_TIME + (p->step == CT_RUN ? n_words(x->command.words) : 0), n = 0;
    const char **argv = arena_alloc(&p->args, room * sizeof(*argv));
    const char **logs = p->step == CT_RUN ? container_log_words(&x->command, p->kind, &p->args) : NULL;
    char *filter = p->step == CT_LIST ? arena_printf(&p->args, "label=" CONTAINER_LABEL "dir=%s", p->records.dir) : NULL;
    if (argv == NULL || (p->step == CT_RUN && logs == NULL) || (p->step == CT_LIST && filter == NULL))
        return NULL;
    argv[n++] = p->tool;
    n = add_words(argv, n, words_of(p->step));
    if (p->step == CT_STOP)
        argv[n++] = x->signal;
    if (p->step == CT_LIST)
        argv[n++] = filter;
    if (p->step == CT_INSPECT)
        n = add_ids(p, argv, n, &p->ids, SIZE_MAX);
    else if (p->step == CT_REMOVE)
        n = add_ids(p, argv, n, &p->remove, REMOVE_A_TIME);
    else if (p->step == CT_RUN)
        n = add_words(argv, add_words(argv, n, logs), x->command.words);
    else if (x != NULL)
        argv[n++] = x->id;
    return argv;
}

static void env_file_path(const struct ct_inst *x, char *out, size_t size)
{
    snprintf(out, size, "%s/%s/env", x->port->records.dir, x->node.i.uid);
}

static int write_env_file(const struct ct_inst *x, struct err *e)
{
    char path[4096];
    struct disk *d = x->port->disk;
    if (x->command.file.len == 0)
        return 0;
    env_file_path(x, path, sizeof(path));
    return d->ops->write(d, path, buf_str(&x->command.file), x->command.file.len, 0600, 0, 0, FS_NOSYNC, e);
}

static void remove_env_file(const struct ct_inst *x)
{
    char path[4096];
    env_file_path(x, path, sizeof(path));
    (void)!x->port->disk->ops->unlink(x->port->disk, path, FS_NOSYNC, NULL);
}

static int begin(struct ct_port *p, struct err *e)
{
    bool runs = p->step == CT_RUN;
    const char **argv = command(p), **env = ct_environment(&p->args, false, runs ? p->one->command.env : NULL);
    if (argv == NULL || env == NULL)
        return err_set(e, E_NOMEM, "no memory for the container tool");
    if (runs && !ct_record_state(p->one))
        return err_set(e, E_IO, "the record of instance %s cannot be written", p->one->node.i.uid);
    int rc = runs ? write_env_file(p->one, e) : 0;
    p->run.exec = (struct exec_env){ .argv = argv, .env = env };
    return rc < 0 ? rc : p->exec->ops->run(p->exec, &p->run, e);
}

// --- its end

static void again_later(struct ct_port *p)
{
    p->retry_ms = p->retry_ms > 0 ? MIN(p->retry_ms * 2, RETRY_MAX_MS) : RETRY_FIRST_MS;
    (void)timer_in(p->loop, &p->next, p->retry_ms);
}

static void say(struct ct_port *p, const struct err *e)
{
    char text[200];
    show_reason(e != NULL ? e->msg : buf_str(&p->run.output), text, sizeof(text));
    log_warn("container", "failed tool=%s step=%s code=%d error=\"%s\"", p->tool, words_of(p->step)[0], p->run.code, text);
}

static void take_version(struct ct_port *p)
{
    struct err why = ERR_INIT;
    const char *said = buf_str(&p->run.output);
    p->asked_version = true;
    p->kind = show_tool(said);
    log_info("container", "tool=%s version=\"%.*s\"", p->tool, (int)strcspn(said, "\n\""), said);
    if (port_container_version(said, &why) < 0)
        log_warn("container", "not-tried tool=%s detail=\"%s\"", p->tool, why.msg);
}

static void take_list(struct ct_port *p)
{
    const char *at = buf_str(&p->run.output);
    char id[CONTAINER_ID_MAX];
    while (show_id_next(&at, id))
        (void)!buf_add(&p->ids, id, strlen(id) + 1, NULL);
    p->partial = false;
    if (p->ids.len == 0)
        ct_take_looked(p, "", false);
}

static void take_run(struct ct_port *p, const struct err *e)
{
    struct ct_inst *x = p->one;
    const char *at = buf_str(&p->run.output);
    container_command_free(&x->command);
    remove_env_file(x);
    if (e == NULL && p->run.code == 0 && show_id_next(&at, x->id)) {
        p->partial = p->ids.len == 0; // the one alone is looked at: a burst of starts does not look at all each time
        (void)!buf_add(&p->ids, x->id, strlen(x->id) + 1, NULL);
        return;
    }
    ct_run_failed(x, p->run.code, at, e);
    p->look = true;
}

// A look that was not heard is one again. Stop and kill that fail say that something changed: the look tells, and they are due again if not.
static bool take_answer(struct ct_port *p, const struct err *e)
{
    bool good = e == NULL && p->run.code == 0, whole = good && p->run.output_dropped == 0;
    switch (p->step) {
    case CT_VERSION:
        if (good)
            take_version(p);
        return good;
    case CT_LIST:
        if (whole)
            take_list(p);
        p->look = p->look || !whole;
        return whole;
    case CT_INSPECT:
        if (whole)
            ct_take_looked(p, buf_str(&p->run.output), p->partial);
        p->look = p->look || !whole;
        return whole;
    case CT_RUN:
        if (p->one != NULL)
            take_run(p, e);
        return true;
    case CT_START:
        if (p->one != NULL && !good)
            ct_run_failed(p->one, p->run.code, buf_str(&p->run.output), e);
        p->look = true;
        return true;
    case CT_STOP:
        if (p->one != NULL)
            p->one->stop_told = good;
        p->look = true;
        return good;
    default:
        p->look = true;
        return good || p->step == CT_REMOVE; // who was removed already is what is wanted
    }
}

static void on_done(struct port_run *r, const struct err *e)
{
    struct ct_port *p = container_of(r, struct ct_port, run);
    if (e != NULL || r->code != 0)
        say(p, e);
    bool heard = take_answer(p, e);
    p->step = CT_NOTHING;
    p->one = NULL;
    arena_reset(&p->args);
    buf_fini(&r->output);
    if (!heard) {
        again_later(p);
        return;
    }
    p->retry_ms = 0;
    ct_ask(p);
}

static void mark(struct ct_port *p)
{
    struct ct_inst *x = p->one;
    p->look = p->look && p->step != CT_LIST;
    if (p->step == CT_STOP)
        x->stop_due = false;
    else if (p->step == CT_KILL)
        x->kill_due = false;
    else if (p->step == CT_START)
        x->start_due = false;
    else if (p->step == CT_RUN)
        x->run_due = false;
}

static void could_not_begin(struct ct_port *p, const struct err *e)
{
    struct ct_inst *x = p->one;
    log_warn("container", "not-started tool=%s error=\"%s\"", p->tool, e->msg);
    p->look = p->look || p->step == CT_LIST || p->step == CT_INSPECT;
    if (x != NULL) {
        x->stop_due = x->stop_due || p->step == CT_STOP;
        x->kill_due = x->kill_due || p->step == CT_KILL;
        x->start_due = x->start_due || p->step == CT_START;
        x->run_due = x->run_due || p->step == CT_RUN;
    }
    p->step = CT_NOTHING;
    p->one = NULL;
    arena_reset(&p->args);
    again_later(p);
}

static void on_next(struct timer *t)
{
    struct ct_port *p = container_of(t, struct ct_port, next);
    struct err e = ERR_INIT;
    if (p->step != CT_NOTHING)
        return;
    p->step = next_step(p, &p->one);
    if (p->step == CT_NOTHING)
        return;
    mark(p);
    p->run =
        (struct port_run){ .timeout_ms = p->step == CT_RUN ? DEADLINE_RUN_MS : DEADLINE_MS, .output_max = CT_OUTPUT_MAX, .done = on_done };
    if (begin(p, &e) < 0)
        could_not_begin(p, &e);
}

// --- when

void ct_ask(struct ct_port *p)
{
    struct ct_inst *one;
    if (p->step == CT_NOTHING && next_step(p, &one) != CT_NOTHING && p->retry_ms == 0)
        (void)timer_in(p->loop, &p->next, 0); // the heap has room for it: ct_ask_init() took it
    if (p->insts.n > 0 && !timer_is_set(&p->slow))
        (void)timer_in(p->loop, &p->slow, SLOW_MS);
}

void ct_look(struct ct_port *p)
{
    p->look = true;
    p->again_ms = 0;
    ct_ask(p);
}

void ct_look_again(struct ct_port *p)
{
    if (timer_is_set(&p->again))
        return;
    p->again_ms = p->again_ms > 0 ? MIN(p->again_ms * 2, AGAIN_MAX_MS) : AGAIN_FIRST_MS;
    (void)timer_in(p->loop, &p->again, p->again_ms);
}

static void on_again(struct timer *t)
{
    struct ct_port *p = container_of(t, struct ct_port, again);
    p->look = true;
    ct_ask(p);
}

static void on_slow(struct timer *t)
{
    struct ct_port *p = container_of(t, struct ct_port, slow);
    if (p->insts.n > 0)
        ct_look(p); // sets the timer again; a node without containers has none
}

// Set once, so that setting it later cannot fail.
static void take_room(struct ct_port *p, struct timer *t, void (*fn)(struct timer *t))
{
    timer_init(t, fn);
    if (timer_in(p->loop, t, 0) == 0)
        timer_cancel(p->loop, t);
}

void ct_ask_init(struct ct_port *p)
{
    arena_init(&p->args, ARGS_MAX);
    buf_init(&p->ids, IDS_MAX);
    buf_init(&p->remove, IDS_MAX);
    take_room(p, &p->next, on_next);
    take_room(p, &p->again, on_again);
    take_room(p, &p->slow, on_slow);
}

void ct_ask_fini(struct ct_port *p)
{
    if (p->step != CT_NOTHING)
        p->exec->ops->run_cancel(p->exec, &p->run);
    if (p->step == CT_RUN && p->one != NULL)
        remove_env_file(p->one);
    timer_cancel(p->loop, &p->next);
    timer_cancel(p->loop, &p->again);
    timer_cancel(p->loop, &p->slow);
    arena_reset(&p->args);
    buf_fini(&p->run.output);
    buf_fini(&p->ids);
    buf_fini(&p->remove);
}
