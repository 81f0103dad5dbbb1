// SPDX-License-Identifier: Apache-2.0
#include "port/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "port/logs.h"
#include "shim/group.h"
#include "shim/shim.h"

static struct exec_port *self(struct port *p)
{
    return container_of(p, struct exec_port, port);
}

static struct exec_inst *find(struct port *p, const char *uid)
{
    struct inst_node *n = uid != NULL ? insts_find(&self(p)->insts, uid) : NULL;
    return n != NULL ? exec_inst_of(n) : NULL;
}

// --- can it be used here?

static int exec_probe(struct port *port, struct err *e)
{
    struct exec_port *p = self(port);
    struct loop_fd f = { .fd = -1 };
    if (proc_start(getpid()) == 0)
        return err_set(e, E_UNSUP, "/proc is not mounted");
    if (access(p->self, X_OK) != 0)
        return err_set(e, E_UNSUP, "%s cannot be executed: %s", p->self, strerror(errno));
    int r = exec_watch_pid(p, &f, getpid(), NULL, e);
    exec_fd_close(p, &f);
    return r == 0 || r == E_BUSY ? r : err_set(e, E_UNSUP, "this kernel is too old (no pidfd, Linux 5.3)");
}

// --- start

static bool has_limits(const struct inst_limits *l)
{
    return l->memory > 0 || l->cpu_milli > 0 || l->pids > 0;
}

static void fill_spec(struct exec_port *p, const struct inst *i, const struct inst_spec *s, struct shim_spec *out)
{
    *out = (struct shim_spec){ .index = s->index, .log_files = s->log_files, .log_max = s->log_max, .agent = getpid() };
    out->grace_ms = s->grace_ms > 0 ? s->grace_ms : 30 * 1000;
    out->now = i->started;
    memcpy(out->uid, i->uid, sizeof(out->uid));
    memcpy(out->owner, i->owner, sizeof(out->owner));
    memcpy(out->revision, i->revision, sizeof(out->revision));
    exec_mark(p, i->uid, out->mark);
    if (has_limits(&s->limits))
        groups_path(&p->groups, i->uid, out->cgroup);
    snprintf(out->log_dir, sizeof(out->log_dir), "%s", p->log_dir);
    snprintf(out->log_name, sizeof(out->log_name), "%s", s->log_name != NULL ? s->log_name : s->uid);
}

// The descriptors of a start; all of them are ours to close once the shim has its own.
struct start {
    int dir, lock, spec, report[2];
};

static void start_close(struct start *t)
{
    const int fds[] = { t->dir, t->lock, t->spec, t->report[0], t->report[1] };
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

// Its directory is ours by now, so that nobody else makes or removes the group.
static int make_group(struct exec_inst *x, const struct shim_spec *spec, const struct inst_limits *l, struct err *e)
{
    if (spec->cgroup[0] == '\0')
        return 0;
    x->cgroup = strdup(spec->cgroup);
    return x->cgroup == NULL ? err_set(e, E_NOMEM, "no memory for instance %s", spec->uid) : groups_make(x->cgroup, l, e);
}

static int hand_over(struct exec_port *p, struct exec_inst *x, const struct inst_spec *s, struct start *t, struct err *e)
{
    struct shim_spec spec;
    fill_spec(p, &x->node.i, s, &spec);
    int r = spec_write(&t->spec, &spec, &s->exec, e);
    if (r == 0)
        r = exec_dir_make(p, &x->node.i, &t->dir, &t->lock, e);
    if (r == 0)
        r = make_group(x, &spec, &s->limits, e);
    if (r == 0 && pipe2(t->report, O_CLOEXEC | O_NONBLOCK) != 0)
        r = err_set(e, E_BUSY, "starting %s: pipe: %s", x->node.i.uid, strerror(errno));
    if (r == 0)
        r = exec_watch_report(x, t->report[0], e);
    if (r == 0)
        t->report[0] = -1;
    return r;
}

// From the spawn on there is a shim, so there is an instance, even if it cannot be watched at once.
static int launch(struct exec_port *p, struct exec_inst *x, struct start *t, struct err *e)
{
    struct exec_fds fds = { .output = -1, .spec = t->spec, .report = t->report[1], .dir = t->dir, .lock = t->lock };
    AUTO_CLOSE int reserve = open("/", O_PATH | O_CLOEXEC); // the descriptor that the watch will need
    if (reserve < 0)
        return err_set(e, E_BUSY, "starting %s: %s", x->node.i.uid, strerror(errno));
    int pid, r = exec_spawn(p, x->node.i.uid, &fds, &pid, e);
    if (r != 0)
        return r;
    close(steal_fd(&reserve));
    insts_add(&p->insts, &x->node);
    if (exec_watch_shim(x, pid, NULL) != 0)
        exec_look_later(x);
    return 0;
}

static int start_new(struct exec_port *p, const struct inst_spec *s, struct err *e)
{
    struct start t = { -1, -1, -1, { -1, -1 } };
    struct exec_inst *x = exec_inst_new(p);
    if (x == NULL)
        return err_set(e, E_NOMEM, "no memory for instance %s", s->uid);
    insts_fill(&p->insts, &x->node, s);
    int r = hand_over(p, x, s, &t, e);
    if (r == 0)
        r = launch(p, x, &t, e);
    if (r != 0 && x->cgroup != NULL)
        (void)group_remove(x->cgroup);
    if (r != 0)
        exec_inst_free(x);
    if (r != 0 && t.dir >= 0)
        (void)!exec_dir_remove(p, s->uid, NULL);
    start_close(&t);
    return r;
}

// A directory of that name without an entry in our table: another agent's, or one that could not be adopted.
static int start_anew(struct exec_port *p, const struct inst_spec *s, struct err *e)
{
    int r = exec_adopt_one(p, s->uid, e);
    if (r != 0 || insts_find(&p->insts, s->uid) != NULL)
        return r;
    return start_new(p, s, e);
}

// A limit that nobody holds would be worse than none.
static int check_limits(struct exec_port *p, const struct inst_limits *l, struct err *e)
{
    struct err why = ERR_INIT;
    int r = has_limits(l) ? groups_prepare(&p->groups, &why) : 0;
    return r == 0 ? 0 : err_set(e, r, "plain processes are not limited in memory, cpu and pids here: %s", why.msg);
}

static int exec_start(struct port *port, const struct inst_spec *s, struct err *e)
{
    struct exec_port *p = self(port);
    int r = inst_spec_check(s, e);
    if (r == 0)
        r = check_limits(p, &s->limits, e);
    if (r != 0 || find(port, s->uid) != NULL)
        return r;
    if (p->insts.n >= PORT_INSTANCES_MAX)
        return err_set(e, E_BUSY, "%d instances are there already, no more are kept", PORT_INSTANCES_MAX);
    r = start_new(p, s, e);
    return r == E_EXISTS ? start_anew(p, s, e) : r;
}

// --- stop, signal, forget

static bool is_earlier(const struct exec_inst *x, int64_t grace_ms)
{
    if (x->node.i.state != INST_STOPPING)
        return true;
    return grace_ms >= 0 && (x->grace_ms < 0 || grace_ms < x->grace_ms);
}

// The shim reads the file when the signal comes. With a full /run it uses the grace of its spec, which is better than not to stop.
static void write_grace(struct exec_port *p, const char *uid, int64_t grace_ms)
{
    char text[32];
    snprintf(text, sizeof(text), "%lld\n", (long long)grace_ms);
    AUTO_CLOSE int dir = exec_dir_open(p, uid, NULL);
    int errnum = dir < 0 ? ENOENT : record_write(dir, SHIM_GRACE, text);
    if (errnum != 0)
        log_warn("exec", "grace-not-written uid=%s reason=\"%s\"", uid, strerror(errnum));
}

static int exec_stop(struct port *port, const char *uid, int64_t grace_ms, struct err *e UNUSED)
{
    struct exec_inst *x = find(port, uid);
    if (x == NULL || x->node.i.state == INST_EXITED)
        return 0;
    grace_ms = MAX(grace_ms, -1);
    if (!is_earlier(x, grace_ms))
        return 0;
    write_grace(self(port), uid, grace_ms);
    x->grace_ms = grace_ms;
    x->node.i.state = INST_STOPPING;
    if (x->shim.fd >= 0)
        (void)exec_pidfd_signal(x->shim.fd, SIGTERM); // it ended just now: the loop will say so
    insts_changed(&self(port)->insts, &x->node);
    return 0;
}

static int exec_signal(struct port *port, const char *uid, int sig, struct err *e)
{
    struct exec_inst *x = find(port, uid);
    return exec_signal_inst(uid, x != NULL ? x->node.i.pid : 0, x != NULL ? x->child_start : 0, sig, e);
}

static int exec_forget(struct port *port, const char *uid, struct err *e)
{
    struct exec_inst *x = find(port, uid);
    if (x == NULL)
        return 0;
    if (x->node.i.state != INST_EXITED)
        return err_set(e, E_BUSY, "instance %s has not ended", uid);
    int r = exec_dir_remove(self(port), uid, e);
    if (r != 0)
        return r;
    int errnum = x->cgroup != NULL ? group_remove(x->cgroup) : 0; // its supervisor did, if it could
    if (errnum != 0)
        log_warn("exec", "control-group-left path=%s reason=\"%s\"", x->cgroup, strerror(errnum));
    exec_inst_free(x);
    return 0;
}

// --- the rest

static int exec_port_adopt(struct port *port, struct err *e)
{
    return exec_adopt(self(port), e);
}

static int exec_each(struct port *port, const char *owner, int (*fn)(void *ctx, const struct inst *i), void *ctx, struct err *e UNUSED)
{
    return insts_each(&self(port)->insts, owner, fn, ctx);
}

static int exec_check(struct port *port, struct port_check *c, struct err *e)
{
    return check_start(&self(port)->checks, c, e);
}

static void exec_check_cancel(struct port *port, struct port_check *c)
{
    check_cancel(&self(port)->checks, c);
}

static int exec_log_read(struct port *port, const char *log, int64_t *offset, size_t max, struct buf *out, struct err *e)
{
    return logs_read(self(port)->log_dir, log, offset, max, out, e);
}

static int exec_log_remove(struct port *port, const char *log, struct err *e)
{
    return logs_remove(self(port)->log_dir, log, e);
}

static void exec_free(struct port *port)
{
    struct exec_port *p = self(port);
    list_each_safe(it, next, &p->insts.all)
        exec_inst_free(exec_inst_of(container_of(it, struct inst_node, link)));
    exec_runs_fini(p);
    checks_fini(&p->checks);
    insts_fini(&p->insts);
    if (p->dir_fd >= 0)
        close(p->dir_fd);
    free(p->run_dir);
    free(p->log_dir);
    free(p->self);
    free(p);
}

static const struct port_ops exec_ops = {
    .name = "exec",
    .probe = exec_probe,
    .adopt = exec_port_adopt,
    .each = exec_each,
    .start = exec_start,
    .stop = exec_stop,
    .signal = exec_signal,
    .forget = exec_forget,
    .run = exec_run,
    .run_cancel = exec_run_cancel,
    .check = exec_check,
    .check_cancel = exec_check_cancel,
    .log_read = exec_log_read,
    .log_remove = exec_log_remove,
    .free = exec_free,
};

int port_exec_try(struct loop *l, const char *path, struct err *e)
{
    struct exec_port p = { .port = { .ops = &exec_ops }, .loop = l, .self = (char *)(uintptr_t)path, .dir_fd = -1 };
    int r = exec_probe(&p.port, e);
    return r == 0 ? exec_try_shim(path, e) : r;
}

// --- making one

static int copy_conf(struct exec_port *p, const struct exec_port_conf *c, struct err *e)
{
    const char *root = p->disk->root != NULL ? p->disk->root : "";
    if (strlen(root) + strlen(c->log_dir) >= SPEC_PATH_MAX || strlen(root) + strlen(c->run_dir) + INST_UID_MAX + 4 >= SPEC_PATH_MAX)
        return err_set(e, E_INVAL, "the paths of run and log directory are too long for %d bytes", SPEC_PATH_MAX - 1);
    if (asprintf(&p->run_dir, "%s%s", root, c->run_dir) < 0)
        p->run_dir = NULL;
    if (asprintf(&p->log_dir, "%s%s", root, c->log_dir) < 0)
        p->log_dir = NULL;
    p->self = strdup(c->self);
    return p->run_dir == NULL || p->log_dir == NULL || p->self == NULL ? err_set(e, E_NOMEM, "no memory for the exec port") : 0;
}

static int make_dirs(struct exec_port *p, const struct exec_port_conf *c, struct err *e)
{
    char path[SPEC_PATH_MAX];
    snprintf(path, sizeof(path), "%s/i", c->run_dir);
    int r = p->disk->ops->mkdirs(p->disk, path, 0700, FS_NOSYNC, e);
    if (r == 0)
        r = p->disk->ops->mkdirs(p->disk, c->log_dir, 0750, 0, e);
    if (r != 0)
        return r;
    snprintf(path, sizeof(path), "%s/i", p->run_dir);
    p->dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return p->dir_fd < 0 ? err_sys(e, errno, "run directory %s", path) : 0;
}

int port_exec_new(struct port **out, struct loop *l, struct disk *d, const struct exec_port_conf *c, struct err *e)
{
    struct exec_port *p = calloc(1, sizeof(*p));
    if (p == NULL)
        return err_set(e, E_NOMEM, "no memory for the exec port");
    *p = (struct exec_port){ .port = { .ops = &exec_ops }, .loop = l, .clock = loop_clock(l), .disk = d, .dir_fd = -1 };
    insts_init(&p->insts, l, &p->port);
    checks_init(&p->checks, l);
    list_init(&p->runs);
    p->clock->ops->boot_id(p->clock, p->boot_id);
    int r = copy_conf(p, c, e);
    if (r == 0)
        r = make_dirs(p, c, e);
    if (r == 0)
        groups_init(&p->groups, c->cgroup, p->run_dir);
    if (r == 0)
        *out = &p->port;
    else
        exec_free(&p->port);
    return r;
}
