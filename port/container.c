// SPDX-License-Identifier: Apache-2.0
#include "port/container.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "port/exec.h"

enum { RECORDS_PATH_MAX = 3800, INSIDE_MEMORY = 1024 * 1024, PODMAN_LEAST = 3, DOCKER_LEAST = 20 };

static struct ct_port *self(struct port *p)
{
    return container_of(p, struct ct_port, port);
}

static struct ct_inst *find(struct port *p, const char *uid)
{
    struct inst_node *n = uid != NULL ? insts_find(&self(p)->insts, uid) : NULL;
    return n != NULL ? ct_inst_of(n) : NULL;
}

// --- the tool

static bool find_in_path(const char *name, char path[CONTAINER_TOOL_MAX])
{
    static const char *const places[] = { "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin" };
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        int n = snprintf(path, CONTAINER_TOOL_MAX, "%s/%s", places[i], name);
        if (n > 0 && n < CONTAINER_TOOL_MAX && access(path, X_OK) == 0)
            return true;
    }
    return false;
}

int port_container_here(const char *tool, char path[CONTAINER_TOOL_MAX], struct err *e)
{
    if (tool == NULL || tool[0] == '\0')
        return find_in_path("podman", path) || find_in_path("docker", path)
                   ? 0
                   : err_set(e, E_UNSUP, "neither podman nor docker is installed here");
    if (strchr(tool, '/') == NULL)
        return find_in_path(tool, path) ? 0 : err_set(e, E_UNSUP, "there is no %.100s, which [port] containerTool names", tool);
    int n = snprintf(path, CONTAINER_TOOL_MAX, "%s", tool);
    return n < CONTAINER_TOOL_MAX && access(path, X_OK) == 0
               ? 0
               : err_set(e, E_UNSUP, "%.100s, which [port] containerTool names, cannot be executed", tool);
}

int port_container_version(const char *said, struct err *e)
{
    int major = 0, least = show_tool(said) == TOOL_PODMAN ? PODMAN_LEAST : DOCKER_LEAST;
    const char *number = said + strcspn(said, "0123456789");
    if (strstr(said, "version") == NULL || sscanf(number, "%d.", &major) != 1)
        return err_set(e, E_UNSUP, "it does not say its version: \"%.*s\"", (int)MIN(strcspn(said, "\n"), (size_t)80), said);
    if (major < least)
        return err_set(e, E_UNSUP, "%.*s is too old, version %d is needed", (int)MIN(strcspn(said, "\n"), (size_t)80), said, least);
    return 0;
}

static int ct_probe(struct port *port, struct err *e)
{
    if (self(port)->disk->root[0] != '\0')
        return err_set(e, E_UNSUP, "a container cannot make containers of the machine");
    return port_container_here(self(port)->wanted, self(port)->tool, e);
}

// --- start

static int start_new(struct ct_port *p, const struct inst_spec *s, struct err *e)
{
    struct instant now;
    char env_file[RECORDS_PATH_MAX + INST_UID_MAX + 8];
    struct ct_inst *x = ct_inst_new(p);
    if (x == NULL)
        return err_set(e, E_NOMEM, "no memory for instance %s", s->uid);
    insts_fill(&p->insts, &x->node, s);
    clock_instant(p->clock, &now);
    snprintf(env_file, sizeof(env_file), "%s/%s/env", p->records.dir, s->uid);
    struct container_place place = { .boot_id = now.boot_id, .dir = p->records.dir, .env_file = env_file };
    int rc = container_command_make(&x->command, s, &place, e);
    if (rc < 0) {
        ct_inst_free(x);
        return rc;
    }
    x->grace_ms = s->grace_ms > 0 ? s->grace_ms : 30 * 1000;
    x->run_due = true;
    insts_add(&p->insts, &x->node);
    ct_ask(p);
    return 0;
}

static int ct_start(struct port *port, const struct inst_spec *s, struct err *e)
{
    struct ct_port *p = self(port);
    int rc = inst_spec_check(s, e);
    if (rc != 0 || find(port, s->uid) != NULL)
        return rc;
    if (s->image == NULL)
        return err_set(e, E_INVAL, "instance %s has no image", s->uid);
    if (p->insts.n >= PORT_INSTANCES_MAX)
        return err_set(e, E_BUSY, "%d instances are there already, no more are kept", PORT_INSTANCES_MAX);
    rc = ct_open_records(p, e);
    return rc < 0 ? rc : start_new(p, s, e);
}

// --- stop, signal, forget

static int ct_stop(struct port *port, const char *uid, int64_t grace_ms, struct err *e UNUSED)
{
    struct ct_inst *x = find(port, uid);
    char text[32];
    if (x == NULL || x->node.i.state == INST_EXITED)
        return 0;
    int64_t at = clock_boot(self(port)->clock) + (grace_ms < 0 ? x->grace_ms : grace_ms);
    if (x->stopping && at >= x->kill_at)
        return 0;
    x->kill_at = at;
    snprintf(text, sizeof(text), "%" PRId64 "\n", at);
    (void)records_write(&x->port->records, uid, CT_STOP_RECORD, text);
    ct_arm_kill(x);
    if (!x->stopping) {
        x->stopping = true;
        x->node.i.state = INST_STOPPING;
        insts_changed(&x->port->insts, &x->node);
        if (x->run_due)
            ct_never_ran(x);
        else
            x->stop_due = grace_ms != 0;
    }
    ct_ask(x->port);
    return 0;
}

static int ct_signal(struct port *port, const char *uid, int sig, struct err *e)
{
    struct ct_inst *x = find(port, uid);
    return exec_signal_inst(uid, x != NULL ? x->node.i.pid : 0, x != NULL ? x->child_start : 0, sig, e);
}

static int ct_forget(struct port *port, const char *uid, struct err *e)
{
    struct ct_inst *x = find(port, uid);
    struct ct_port *p = self(port);
    if (x == NULL)
        return 0;
    if (x->node.i.state != INST_EXITED)
        return err_set(e, E_BUSY, "instance %s has not ended", uid);
    if (x->id[0] != '\0')
        (void)!buf_add(&p->remove, x->id, strlen(x->id) + 1, NULL); // without the memory it is a leftover of the next look
    ct_records_remove(p, uid);
    ct_inst_free(x);
    ct_ask(p);
    return 0;
}

static int ct_port_adopt(struct port *port, struct err *e)
{
    return ct_adopt(self(port), e);
}

static int ct_port_each(struct port *port, const char *owner, int (*fn)(void *ctx, const struct inst *i), void *ctx, struct err *e UNUSED)
{
    return insts_each(&self(port)->insts, owner, fn, ctx);
}

// --- commands

struct inside {
    struct list link;
    struct ct_port *port;
    struct port_run run, *asked;
    struct arena arena;
};

static void inside_free(struct inside *c)
{
    list_del(&c->link);
    arena_reset(&c->arena);
    free(c);
}

static void inside_done(struct port_run *r, const struct err *e)
{
    struct inside *c = container_of(r, struct inside, run);
    struct port_run *asked = c->asked;
    asked->output = r->output;
    asked->output_dropped = r->output_dropped;
    asked->code = r->code;
    asked->signal = r->signal;
    asked->impl = NULL;
    inside_free(c);
    asked->done(asked, e);
}

static const char **inside_argv(struct inside *c, const char *id, const char *const *argv)
{
    size_t n = 0;
    while (argv[n] != NULL)
        n++;
    const char **out = arena_alloc(&c->arena, (n + 4) * sizeof(*out));
    if (out == NULL)
        return NULL;
    out[0] = c->port->tool;
    out[1] = "exec";
    out[2] = arena_strdup(&c->arena, id);
    memcpy(&out[3], argv, n * sizeof(*out));
    return out[2] != NULL ? out : NULL;
}

static int run_inside(struct ct_port *p, struct port_run *r, struct err *e)
{
    const struct ct_inst *x = find(&p->port, r->in_uid);
    if (x == NULL || x->node.i.state != INST_RUNNING || x->id[0] == '\0')
        return err_set(e, E_NOTFOUND, "instance %.80s is not running", r->in_uid);
    if (r->exec.argv == NULL || r->exec.argv[0] == NULL || r->exec.argv[0][0] == '-')
        return err_set(e, E_INVAL, "no command");
    struct inside *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return err_set(e, E_NOMEM, "no memory for a command");
    *c = (struct inside){ .port = p, .asked = r, .run = *r };
    arena_init(&c->arena, INSIDE_MEMORY);
    list_add_tail(&p->inside, &c->link);
    const char **argv = inside_argv(c, x->id, r->exec.argv), **env = ct_environment(&c->arena, false, NULL);
    c->run.exec = (struct exec_env){ .argv = argv, .env = env };
    c->run.done = inside_done;
    c->run.in_uid = NULL;
    int rc = argv != NULL && env != NULL ? p->exec->ops->run(p->exec, &c->run, e) : err_set(e, E_TOOBIG, "the command is too large");
    if (rc < 0) {
        inside_free(c);
        return rc;
    }
    r->impl = c;
    return 0;
}

static int ct_run(struct port *port, struct port_run *r, struct err *e)
{
    r->impl = NULL;
    return r->in_uid != NULL ? run_inside(self(port), r, e) : self(port)->exec->ops->run(self(port)->exec, r, e);
}

static void ct_run_cancel(struct port *port, struct port_run *r)
{
    struct port *exec = self(port)->exec;
    struct inside *c = r->impl;
    if (r->in_uid == NULL) {
        exec->ops->run_cancel(exec, r);
    } else if (c != NULL) {
        exec->ops->run_cancel(exec, &c->run);
        r->output = c->run.output;
        r->impl = NULL;
        inside_free(c);
    }
}

static int ct_check(struct port *port, struct port_check *c, struct err *e)
{
    return self(port)->exec->ops->check(self(port)->exec, c, e);
}

static void ct_check_cancel(struct port *port, struct port_check *c)
{
    self(port)->exec->ops->check_cancel(self(port)->exec, c);
}

static int ct_log_read(struct port *port UNUSED, const char *log UNUSED, int64_t *offset UNUSED, size_t max UNUSED, struct buf *out UNUSED,
                       struct err *e)
{
    return err_set(e, E_NOTFOUND, "the container has the log, as long as it is there");
}

static int ct_log_remove(struct port *port UNUSED, const char *log UNUSED, struct err *e UNUSED)
{
    return 0; // it goes with the container
}

static void ct_free(struct port *port)
{
    struct ct_port *p = self(port);
    ct_ask_fini(p);
    ct_images_fini(p);
    while (!list_empty(&p->inside)) {
        struct inside *c = container_of(p->inside.next, struct inside, link);
        p->exec->ops->run_cancel(p->exec, &c->run);
        c->asked->output = c->run.output;
        c->asked->impl = NULL;
        inside_free(c);
    }
    list_each_safe(it, next, &p->insts.all)
        ct_inst_free(ct_inst_of(container_of(it, struct inst_node, link)));
    insts_fini(&p->insts);
    records_fini(&p->records);
    free(p->wanted);
    free(p->used);
    free(p);
}

static const struct port_ops ct_ops = {
    .name = "container",
    .probe = ct_probe,
    .adopt = ct_port_adopt,
    .each = ct_port_each,
    .start = ct_start,
    .stop = ct_stop,
    .signal = ct_signal,
    .forget = ct_forget,
    .run = ct_run,
    .run_cancel = ct_run_cancel,
    .check = ct_check,
    .check_cancel = ct_check_cancel,
    .log_read = ct_log_read,
    .log_remove = ct_log_remove,
    .image = ct_image,
    .free = ct_free,
};

static int copy_conf(struct ct_port *p, const struct container_port_conf *c, struct err *e)
{
    if (strlen(c->run_dir) + 16 >= 512 || strlen(c->state_dir) + 16 >= RECORDS_PATH_MAX)
        return err_set(e, E_INVAL, "the paths of run and state directory are too long");
    p->wanted = strdup(c->tool != NULL ? c->tool : "");
    if (asprintf(&p->records.dir, "%s/containers", c->run_dir) < 0)
        p->records.dir = NULL;
    if (asprintf(&p->used, "%s/containers", c->state_dir) < 0)
        p->used = NULL;
    return p->wanted == NULL || p->records.dir == NULL || p->used == NULL ? err_set(e, E_NOMEM, "no memory for the container port") : 0;
}

int port_container_new(struct port **out, struct port *exec, struct loop *l, struct disk *d, const struct container_port_conf *c,
                       struct err *e)
{
    struct ct_port *p = calloc(1, sizeof(*p));
    if (p == NULL)
        return err_set(e, E_NOMEM, "no memory for the container port");
    *p = (struct ct_port){
        .port = { .ops = &ct_ops }, .exec = exec, .loop = l, .clock = loop_clock(l), .disk = d, .records = RECORDS_INIT("container")
    };
    insts_init(&p->insts, l, &p->port);
    list_init(&p->inside);
    ct_ask_init(p);
    ct_images_init(p);
    int rc = copy_conf(p, c, e);
    if (rc == 0)
        *out = &p->port;
    else
        ct_free(&p->port);
    return rc;
}
