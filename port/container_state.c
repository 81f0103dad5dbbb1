// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/log.h"
#include "port/container.h"
#include "shim/proc.h"

// --- one

static void on_kill(struct timer *t)
{
    struct ct_inst *x = container_of(t, struct ct_inst, kill);
    x->kill_due = true;
    ct_ask(x->port);
}

struct ct_inst *ct_inst_new(struct ct_port *p)
{
    struct ct_inst *x = calloc(1, sizeof(*x));
    if (x == NULL)
        return NULL;
    x->port = p;
    x->process.fd = -1;
    x->grace_ms = 30 * 1000;
    snprintf(x->signal, sizeof(x->signal), "TERM");
    timer_init(&x->kill, on_kill);
    // Its room in the heap is taken now, so that arming it later cannot fail.
    if (timer_in(p->loop, &x->kill, 0) != 0) {
        free(x);
        return NULL;
    }
    timer_cancel(p->loop, &x->kill);
    return x;
}

static void unwatch(struct ct_inst *x)
{
    if (x->process.fd < 0)
        return;
    loop_fd_del(x->port->loop, &x->process);
    close(x->process.fd);
    x->process.fd = -1;
}

void ct_inst_free(struct ct_inst *x)
{
    struct ct_port *p = x->port;
    unwatch(x);
    timer_cancel(p->loop, &x->kill);
    if (p->one == x)
        p->one = NULL;
    if (list_linked(&x->node.link))
        insts_del(&p->insts, &x->node);
    container_command_free(&x->command);
    free(x);
}

void ct_arm_kill(struct ct_inst *x)
{
    (void)timer_in(x->port->loop, &x->kill, MAX(x->kill_at - clock_boot(x->port->clock), 0));
}

// --- records of the boot

int ct_open_records(struct ct_port *p, struct err *e)
{
    if (p->records.fd >= 0)
        return 0;
    int rc = p->disk->ops->mkdirs(p->disk, p->used, 0700, 0, e);
    return rc < 0 ? rc : records_open(&p->records, p->disk, e);
}

void ct_records_remove(struct ct_port *p, const char *uid)
{
    static const char *const names[] = { CT_STATE_RECORD, CT_STOP_RECORD, "env" };
    records_remove(&p->records, uid, names, ARRAY_LEN(names));
}

// Whose it is, and which process, for the next agent.
bool ct_record_state(struct ct_inst *x)
{
    const struct inst *i = &x->node.i;
    char text[RECORD_MAX];
    struct state_record r = { .index = i->index, .child_pid = i->pid, .child_start = x->child_start, .started = i->started };
    memcpy(r.uid, i->uid, sizeof(r.uid));
    memcpy(r.owner, i->owner, sizeof(r.owner));
    memcpy(r.revision, i->revision, sizeof(r.revision));
    return state_format(&r, text) && records_write(&x->port->records, i->uid, CT_STATE_RECORD, text);
}

// --- how it ended

void ct_end(struct ct_inst *x, const struct inst_exit *exit, const struct instant *at)
{
    struct inst *i = &x->node.i;
    i->exit = *exit;
    i->ended = *at;
    i->pid = 0;
    i->state = INST_EXITED;
    x->run_due = x->start_due = x->stop_due = x->kill_due = false;
    timer_cancel(x->port->loop, &x->kill);
    unwatch(x);
    insts_changed(&x->port->insts, &x->node);
}

static void end_now(struct ct_inst *x, const struct inst_exit *exit)
{
    struct instant now;
    clock_instant(x->port->clock, &now);
    ct_end(x, exit, &now);
}

void ct_never_ran(struct ct_inst *x)
{
    container_command_free(&x->command);
    end_now(x, &(struct inst_exit){
                   .known = true, .code = -1, .signal = SIGTERM, .reason = "Error", .detail = "stopped before it was started" });
}

static void end_unseen(struct ct_inst *x)
{
    end_now(x, &(struct inst_exit){ .code = -1, .reason = "Unknown" });
}

// The tools' own exit codes (docker-run(1), podman-run(1), "Exit status").
static int start_errno(int code, const char *why)
{
    if (code == 127 || strstr(why, "no such file or directory") != NULL || strstr(why, "not found") != NULL)
        return ENOENT;
    if (code == 126)
        return EACCES;
    return strstr(why, "already in use") != NULL ? EEXIST : EIO;
}

void ct_run_failed(struct ct_inst *x, int code, const char *output, const struct err *e)
{
    char why[160];
    show_reason(e != NULL ? e->msg : output, why, sizeof(why));
    int errnum = e != NULL ? EIO : start_errno(code, why);
    x->has_failed = true;
    x->failure = (struct inst_exit){ .known = true, .code = -1, .start_errno = errnum, .reason = "StartError" };
    snprintf(x->failure.detail, sizeof(x->failure.detail), "%s: %.120s", strerror(errnum), why);
    if (show_no_image(output))
        ct_image_lost(x->port, x->node.i.owner);
}

// Engines tell an end by a signal as 128 and its number, and so does a program that ends itself with such a code.
static struct inst_exit exit_of(const struct show_container *c)
{
    bool by_signal = c->code > 128 && c->code < 128 + 65;
    struct inst_exit x = { .known = true, .code = by_signal ? -1 : c->code, .signal = by_signal ? c->code - 128 : 0 };
    const char *reason = c->oom ? "OOMKilled" : c->code == 0 ? "Completed" : "Error";
    snprintf(x.reason, sizeof(x.reason), "%s", reason);
    return x;
}

static struct instant moment(const struct ct_port *p, int64_t wall_us)
{
    struct instant t;
    clock_instant(p->clock, &t);
    int64_t ago_us = wall_us > 0 ? MAX(t.wall_us - wall_us, 0) : 0;
    t.wall_us -= ago_us;
    t.boot_ms -= ago_us / 1000;
    return t;
}

static void ended(struct ct_inst *x, const struct show_container *c)
{
    struct inst_exit exit = exit_of(c);
    struct instant at = moment(x->port, c->ended_us);
    struct inst *i = &x->node.i;
    if (c->started_us > 0 && i->pid == 0 && i->state != INST_EXITED)
        i->started = moment(x->port, c->started_us);
    if (at.boot_ms < i->started.boot_ms)
        at = i->started;
    ct_end(x, &exit, &at);
}

// --- what a look says

static void on_process(struct loop_fd *f, unsigned events UNUSED)
{
    struct ct_inst *x = container_of(f, struct ct_inst, process);
    unwatch(x);
    ct_look(x->port);
}

// Without the watch (no descriptors left, or the engine is on another machine) the slow look remains.
static void watch(struct ct_inst *x)
{
    struct err e = ERR_INIT;
    unwatch(x);
    int fd = (int)syscall(SYS_pidfd_open, x->node.i.pid, 0);
    if (fd < 0 && errno == ESRCH)
        ct_look_again(x->port);
    if (fd >= 0 && loop_fd_add(x->port->loop, &x->process, fd, LOOP_IN, on_process, &e) < 0) {
        log_warn("container", "not-watched uid=%s error=\"%s\"", x->node.i.uid, e.msg);
        close(fd);
        x->process.fd = -1;
    }
}

// By the process's own start, which no clock can move.
static void take_start(struct ct_inst *x, const struct show_container *c)
{
    struct inst *i = &x->node.i;
    i->pid = c->pid;
    x->child_start = proc_start(c->pid);
    i->started = moment(x->port, c->started_us);
    if (x->child_start > 0)
        i->started.boot_ms = x->child_start * 1000 / sysconf(_SC_CLK_TCK);
    (void)ct_record_state(x);
    insts_moved(&x->port->insts, &x->node);
}

static void runs(struct ct_inst *x, const struct show_container *c)
{
    struct inst *i = &x->node.i;
    enum inst_state state = x->stopping ? INST_STOPPING : INST_RUNNING;
    bool new = i->pid != c->pid;
    if (new)
        take_start(x, c);
    if (new || i->state != state)
        insts_changed(&x->port->insts, &x->node);
    i->state = state;
    x->has_failed = false;
    if (x->process.fd < 0 && proc_is(i->pid, x->child_start))
        watch(x);
    else if (x->process.fd < 0)
        ct_look_again(x->port);
    x->stop_due = x->stop_due || (x->stopping && !x->stop_told && x->kill_at > clock_boot(x->port->clock));
    x->kill_due = x->kill_due || (x->stopping && x->kill_at <= clock_boot(x->port->clock));
}

// An agent died while it was being made. The container has its environment: it only has to be started. Once.
static void created(struct ct_inst *x, const struct show_container *c)
{
    struct instant now;
    clock_instant(x->port->clock, &now);
    if (x->has_failed) {
        end_now(x, &x->failure);
    } else if (x->stopping) {
        ct_never_ran(x);
    } else if (strcmp(c->boot, now.boot_id) != 0) {
        end_unseen(x);
    } else if (!x->start_tried) {
        x->start_due = x->start_tried = true;
    } else {
        ct_run_failed(x, 125, c->error[0] != '\0' ? c->error : "it was made, and did not start", NULL);
        end_now(x, &x->failure);
    }
}

static void take_container(struct ct_inst *x, const struct show_container *c)
{
    memcpy(x->id, c->id, sizeof(x->id));
    memcpy(x->signal, c->signal, sizeof(x->signal));
    if (x->node.i.state == INST_EXITED)
        return;
    if (c->status == SHOW_RUNNING && c->pid > 0)
        runs(x, c);
    else if (c->status == SHOW_RUNNING)
        ct_look_again(x->port);
    else if (c->status == SHOW_CREATED || (x->has_failed && c->started_us == 0))
        created(x, c);
    else
        ended(x, c);
}

// No container: it could not be made, an agent died before that, or somebody removed it.
static void take_absent(struct ct_inst *x)
{
    if (x->run_due || x->node.i.state == INST_EXITED || x->port->one == x)
        return;
    if (x->has_failed) {
        end_now(x, &x->failure);
    } else if (x->recorded && x->node.i.pid == 0 && x->id[0] == '\0') {
        ct_records_remove(x->port, x->node.i.uid);
        ct_never_ran(x);
    } else {
        end_unseen(x);
    }
}

static void take_unknown(struct ct_port *p, const struct show_container *c)
{
    struct inst_spec s = { .uid = c->uid, .owner = c->owner, .revision = c->revision, .index = c->index };
    if (!inst_uid_ok(c->uid))
        return;
    struct ct_inst *x = c->status == SHOW_RUNNING ? ct_inst_new(p) : NULL;
    if (c->status != SHOW_RUNNING)
        (void)!buf_add(&p->remove, c->id, strlen(c->id) + 1, NULL); // its end was told, or was another boot's
    if (x == NULL)
        return;
    insts_fill(&p->insts, &x->node, &s);
    insts_add(&p->insts, &x->node);
    x->seen = true;
    take_container(x, c);
}

void ct_take_looked(struct ct_port *p, const char *text, bool partial)
{
    struct show_container c;
    struct ct_inst *x;
    ct_each(x, p) x->seen = false;
    while (show_container_next(&text, &c)) {
        struct inst_node *n = insts_find(&p->insts, c.uid);
        if (n == NULL) {
            take_unknown(p, &c);
            continue;
        }
        ct_inst_of(n)->seen = true;
        take_container(ct_inst_of(n), &c);
    }
    ct_each(x, p) if (!x->seen && !partial) take_absent(x);
}

// --- adoption

static void take_stop(struct ct_inst *x)
{
    char text[RECORD_MAX];
    if (!records_read(&x->port->records, x->node.i.uid, CT_STOP_RECORD, text))
        return;
    x->kill_at = strtoll(text, NULL, 10);
    x->stopping = x->stop_due = true; // told again: the earlier agent may have died before it told
    x->node.i.state = INST_STOPPING;
    ct_arm_kill(x);
}

// The process that the record tells of is there: it runs, without waiting for the tool's word.
static int adopt_one(void *ctx, const char *uid, enum fs_type t)
{
    struct ct_port *p = ctx;
    char text[RECORD_MAX];
    struct state_record r;
    if (t != FS_DIR || !inst_uid_ok(uid) || insts_find(&p->insts, uid) != NULL)
        return 0;
    if (!records_read(&p->records, uid, CT_STATE_RECORD, text) || !state_parse(text, &r) || strcmp(r.uid, uid) != 0) {
        ct_records_remove(p, uid);
        return 0;
    }
    struct ct_inst *x = ct_inst_new(p);
    if (x == NULL)
        return E_NOMEM;
    struct inst_spec s = { .uid = r.uid, .owner = r.owner, .revision = r.revision, .index = r.index };
    insts_fill(&p->insts, &x->node, &s);
    x->recorded = true;
    x->node.i.started = r.started;
    if (r.child_pid > 0 && proc_is(r.child_pid, r.child_start)) {
        x->node.i.pid = r.child_pid;
        x->node.i.state = INST_RUNNING;
        x->child_start = r.child_start;
        watch(x);
    }
    take_stop(x);
    insts_add(&p->insts, &x->node);
    insts_changed(&p->insts, &x->node);
    return 0;
}

int ct_adopt(struct ct_port *p, struct err *e)
{
    struct fs_stat st;
    if (p->disk->ops->stat(p->disk, p->used, 0, &st, NULL) != 0)
        return 0; // no container was ever made here
    int rc = ct_open_records(p, e);
    if (rc == 0)
        rc = p->disk->ops->list(p->disk, p->records.dir, adopt_one, p, e);
    ct_look(p);
    return rc;
}
