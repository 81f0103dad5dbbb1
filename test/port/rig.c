// SPDX-License-Identifier: Apache-2.0
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>

#include "base/log.h"
#include "port/container.h"
#include "port/systemd.h"
#include "shim/proc.h"

enum { DEADLINE_MS = 120 * 1000, TURN_MS = 50 };

static const char *const scripts[PROGRAMS] = {
    [RUNS] = "exec sleep 1000",
    [STUBBORN] = "trap '' TERM; echo ready >>\"$RIG/stubborn\"; while :; do sleep 0.1; done",
    [EXITS_0] = "exit 0",
    [EXITS_3] = "exit 3",
    [EXITS_7_LATER] = "sleep 0.5; exit 7",
};

static const struct fake_behaviour behaviours[PROGRAMS] = {
    [RUNS] = { .start_ms = 1, .run_ms = -1, .stop_ms = 1 },
    [STUBBORN] = { .start_ms = 1, .run_ms = -1, .stop_ms = 3600 * 1000 },
    [EXITS_0] = { .start_ms = 1, .run_ms = 1 },
    [EXITS_3] = { .start_ms = 1, .run_ms = 1, .exit_code = 3 },
    [EXITS_7_LATER] = { .start_ms = 1, .run_ms = 500, .exit_code = 7 },
    [CANNOT_START] = { .start_ms = 1, .start_errno = ENOENT },
};

// --- making and ending

static void on_changed(void *ctx, const char *owner)
{
    struct rig *r = ctx;
    r->changes++;
    r->calls_inside += r->inside;
    snprintf(r->owner, sizeof(r->owner), "%s", owner);
    if (r->on_change != NULL)
        r->on_change(r, owner);
}

static bool is_systemd(const char *name)
{
    return strncmp(name, "systemd", 7) == 0;
}

static int new_systemd(struct rig *r, const struct exec_port_conf *c, struct err *e)
{
    struct systemd_port_conf sc = { .unit_dir = "/etc/systemd/system", .run_dir = r->run_dir, .state_dir = r->dir, .self = c->self };
    int rc = port_exec_new(&r->helper, r->loop, r->disk, c, e);
    if (rc == 0)
        rc = port_systemd_new(&r->port, r->helper, r->loop, r->disk, &sc, e);
    return rc != 0 ? rc : r->port->ops->probe(r->port, e);
}

static bool is_container(const char *name)
{
    return strcmp(name, "container") == 0;
}

static int new_container(struct rig *r, const struct exec_port_conf *c, struct err *e)
{
    const char *tool = getenv("RIG_CONTAINER_TOOL");
    struct container_port_conf cc = { .tool = tool != NULL ? tool : "", .run_dir = r->run_dir, .state_dir = r->dir };
    int rc = port_exec_new(&r->helper, r->loop, r->disk, c, e);
    if (rc == 0)
        rc = port_container_new(&r->port, r->helper, r->loop, r->disk, &cc, e);
    return rc != 0 ? rc : r->port->ops->probe(r->port, e);
}

static void free_port(struct rig *r)
{
    r->port->ops->free(r->port);
    if (r->helper != NULL)
        r->helper->ops->free(r->helper);
    r->helper = NULL;
}

static bool new_port(struct rig *r)
{
    struct err e = ERR_INIT;
    const char *self = getenv("RIG_SELF");
    struct exec_port_conf c = { .run_dir = r->run_dir, .log_dir = r->log_dir, .self = self != NULL ? self : "/proc/self/exe" };
    int rc;
    if (strcmp(r->name, "exec") == 0)
        rc = port_exec_new(&r->port, r->loop, r->disk, &c, &e);
    else if (is_systemd(r->name))
        rc = new_systemd(r, &c, &e);
    else if (is_container(r->name))
        rc = new_container(r, &c, &e);
    else if (strcmp(r->name, "null") == 0)
        rc = port_null_new(&r->port, r->loop, &e);
    else
        rc = port_fake_new(&r->port, r->loop, &e);
    if (rc != 0) {
        printf("# %s\n", e.msg);
        return false;
    }
    r->port->changed = on_changed;
    r->port->ctx = r;
    return true;
}

unsigned rig_abilities(const char *name)
{
    if (strcmp(name, "exec") == 0 || is_systemd(name) || is_container(name))
        return RIG_REAL | RIG_ENDS | RIG_ADOPTS;
    return strcmp(name, "fake") == 0 ? RIG_ENDS | RIG_ADOPTS | RIG_CHEAP : RIG_CHEAP;
}

bool rig_is_there(const char *name)
{
    return is_container(name) ? getenv("RIG_CONTAINER") != NULL : !is_systemd(name) || getenv("RIG_SYSTEMD") != NULL;
}

static void no_log(void *ctx UNUSED, const char *line UNUSED, size_t len UNUSED)
{
}

bool rig_init(struct rig *r, const char *name)
{
    struct err e = ERR_INIT;
    struct loop_backend *b;
    const char *tmp = getenv("TMPDIR");
    *r = (struct rig){ .name = name, .can = rig_abilities(name) };
    snprintf(r->dir, sizeof(r->dir), "%.100s/rig.XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(r->dir) == NULL)
        return false;
    snprintf(r->run_dir, sizeof(r->run_dir), "%s/run", r->dir);
    snprintf(r->log_dir, sizeof(r->log_dir), "%s/log", r->dir);
    if (getenv("RIG_LOG") == NULL)
        log_set_sink(no_log, NULL);
    clock_real_init(&r->clock);
    if (loop_backend_epoll(&b, &e) != 0 || loop_new(&r->loop, &r->clock, b, &e) != 0 || disk_real_new(&r->disk, r->loop, "", &e) != 0)
        return false;
    return new_port(r);
}

static int stop_one(void *ctx, const struct inst *i)
{
    struct rig *r = ctx;
    return r->port->ops->stop(r->port, i->uid, 0, NULL);
}

static int not_ended(void *ctx UNUSED, const struct inst *i)
{
    return i->state != INST_EXITED;
}

static bool all_ended(struct rig *r, void *ctx UNUSED)
{
    return r->port->ops->each(r->port, NULL, not_ended, NULL, NULL) == 0;
}

static int take_uid(void *ctx, const struct inst *i)
{
    snprintf(ctx, INST_UID_MAX, "%s", i->uid);
    return 1;
}

static bool is_reset(struct rig *r, void *ctx UNUSED)
{
    const struct sd_port *p = container_of(r->port, struct sd_port, port);
    return p->reset.len == 0 && p->step != SD_RESET;
}

static bool is_removed(struct rig *r, void *ctx UNUSED)
{
    const struct ct_port *p = container_of(r->port, struct ct_port, port);
    return p->remove.len == 0 && p->ids.len == 0 && !p->look && p->step == CT_NOTHING;
}

// Unit files and containers are not below our directory, and what failed would stay in systemd's memory.
static void forget_all(struct rig *r)
{
    char uid[INST_UID_MAX];
    while (r->port->ops->each(r->port, NULL, take_uid, uid, NULL) == 1 && r->port->ops->forget(r->port, uid, NULL) == 0)
        ;
    if (is_systemd(r->name))
        rig_until(r, is_reset, NULL);
    else
        rig_until(r, is_removed, NULL);
}

void rig_fini(struct rig *r)
{
    struct err e = ERR_INIT;
    r->on_change = NULL;
    r->port->ops->each(r->port, NULL, stop_one, r, NULL);
    rig_until(r, all_ended, NULL);
    if (is_systemd(r->name) || is_container(r->name))
        forget_all(r);
    free_port(r);
    if (r->disk->ops->rmtree(r->disk, r->dir, &e) != 0)
        printf("# %s\n", e.msg);
    disk_free(r->disk);
    loop_free(r->loop);
}

bool rig_new_agent(struct rig *r)
{
    struct err e = ERR_INIT;
    struct port *next;
    if (strcmp(r->name, "fake") != 0) {
        free_port(r);
        return new_port(r);
    }
    if (port_fake_agent_died(r->port, &next, r->loop, &e) != 0)
        return false;
    r->port = next;
    r->port->changed = on_changed;
    r->port->ctx = r;
    return true;
}

// --- verbs

int rig_start_spec(struct rig *r, const struct inst_spec *s, struct err *e)
{
    struct inst_spec spec = *s;
    if (strcmp(r->name, "systemd-boot") == 0)
        spec.restart = INST_RESTART_ALWAYS;
    if (is_container(r->name)) {
        spec.image = getenv("RIG_CONTAINER");
        spec.entrypoint = true;
    }
    r->inside = true;
    int rc = r->port->ops->start(r->port, &spec, e);
    r->inside = false;
    return rc;
}

static int start_argv(struct rig *r, const char *uid, const char *owner, int index, const char *const *argv, struct err *e)
{
    char where[sizeof(r->dir) + 8];
    snprintf(where, sizeof(where), "RIG=%s", r->dir);
    const char *env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", where, NULL };
    struct inst_spec s = { .uid = uid, .owner = owner, .revision = "r1", .index = index, .exec = { .argv = argv, .env = env } };
    return rig_start_spec(r, &s, e);
}

int rig_start(struct rig *r, const char *uid, const char *owner, int index, enum program what, struct err *e)
{
    const char *argv[] = { "/bin/sh", "-c", scripts[what], NULL };
    const char *missing[] = { "/nonexistent/program", NULL };
    if (strcmp(r->name, "fake") == 0)
        port_fake_behave(r->port, owner, &behaviours[what]);
    if (is_container(r->name) && what == RUNS)
        argv[2] = "trap 'exit 143' TERM; sleep 1000 & wait"; // who is process 1 and has no handler hears no SIGTERM
    return start_argv(r, uid, owner, index, what == CANNOT_START ? missing : argv, e);
}

int rig_script(struct rig *r, const char *uid, const char *script, struct err *e)
{
    const char *argv[] = { "/bin/sh", "-c", script, NULL };
    return start_argv(r, uid, "edgeapps/ns/script", 0, argv, e);
}

int rig_stop(struct rig *r, const char *uid, int64_t grace_ms)
{
    struct err e = ERR_INIT;
    r->inside = true;
    int rc = r->port->ops->stop(r->port, uid, grace_ms, &e);
    r->inside = false;
    return rc;
}

int rig_forget(struct rig *r, const char *uid)
{
    struct err e = ERR_INIT;
    r->inside = true;
    int rc = r->port->ops->forget(r->port, uid, &e);
    r->inside = false;
    return rc;
}

// --- what a process was started with

extern char **environ;

static void dump_text(FILE *f, char kind, const char *s)
{
    putc(kind, f);
    fwrite(s, 1, strlen(s) + 1, f);
}

int rig_dump(int argc, char **argv)
{
    char path[512];
    snprintf(path, sizeof(path), "%s.new", getenv(RIG_DUMP));
    FILE *f = fopen(path, "w");
    if (f == NULL)
        return 1;
    for (int i = 0; i < argc; i++)
        dump_text(f, 'A', argv[i]);
    for (char **v = environ; *v != NULL; v++)
        dump_text(f, 'E', *v);
    return fclose(f) != 0 || rename(path, getenv(RIG_DUMP)) != 0;
}

const char *rig_exe(void)
{
    static char path[512];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    path[MAX(n, 0)] = '\0';
    return path;
}

// --- observing

struct lookup {
    const char *uid;
    struct inst *out;
    size_t n;
};

static int look(void *ctx, const struct inst *i)
{
    struct lookup *l = ctx;
    l->n++;
    if (l->uid == NULL || strcmp(l->uid, i->uid) != 0)
        return 0;
    *l->out = *i;
    return 1;
}

bool rig_inst(struct rig *r, const char *uid, struct inst *out)
{
    struct lookup l = { .uid = uid, .out = out };
    return r->port->ops->each(r->port, NULL, look, &l, NULL) == 1;
}

int rig_state(struct rig *r, const char *uid)
{
    struct inst i;
    return rig_inst(r, uid, &i) ? (int)i.state : -1;
}

size_t rig_count(struct rig *r, const char *owner)
{
    struct lookup l = { .uid = NULL };
    r->port->ops->each(r->port, owner, look, &l, NULL);
    return l.n;
}

// --- waiting

void rig_turns(struct rig *r, int n)
{
    struct err e = ERR_INIT;
    while (n-- > 0)
        if (loop_turn(r->loop, 0, &e) != 0)
            printf("# %s\n", e.msg);
}

bool rig_until(struct rig *r, bool (*fn)(struct rig *r, void *ctx), void *ctx)
{
    struct err e = ERR_INIT;
    int64_t deadline = clock_mono(&r->clock) + DEADLINE_MS;
    while (!fn(r, ctx)) {
        if (clock_mono(&r->clock) > deadline || loop_turn(r->loop, TURN_MS, &e) != 0)
            return false;
    }
    return true;
}

struct awaited {
    const char *uid;
    int state;
};

static bool has_state(struct rig *r, void *ctx)
{
    struct awaited *a = ctx;
    return rig_state(r, a->uid) == a->state;
}

bool rig_until_state(struct rig *r, const char *uid, enum inst_state state)
{
    struct awaited a = { uid, (int)state };
    return rig_until(r, has_state, &a);
}

bool rig_until_exited(struct rig *r, const char *uid, struct inst *out)
{
    return rig_until_state(r, uid, INST_EXITED) && rig_inst(r, uid, out);
}

struct awaited_lines {
    const char *file;
    size_t lines;
};

static bool has_lines(struct rig *r, void *ctx)
{
    struct awaited_lines *a = ctx;
    return rig_lines(r, a->file) >= a->lines;
}

bool rig_until_file(struct rig *r, const char *file, size_t lines)
{
    struct awaited_lines a = { file, lines };
    return rig_until(r, has_lines, &a);
}

const char *rig_file(struct rig *r, const char *file)
{
    static char text[65536];
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", r->dir, file);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
    text[MAX(n, 0)] = '\0';
    return text;
}

size_t rig_lines(struct rig *r, const char *file)
{
    size_t n = 0;
    for (const char *p = rig_file(r, file); *p != '\0'; p++)
        n += *p == '\n';
    return n;
}

bool rig_alive(int pid)
{
    struct proc_stat s;
    return pid > 0 && proc_stat(pid, &s) && s.state != 'Z' && s.state != 'X';
}
