// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "port/exec.h"
#include "shim/shim.h"

struct exec_inst *exec_inst_new(struct exec_port *p)
{
    struct exec_inst *x = calloc(1, sizeof(*x));
    if (x == NULL)
        return NULL;
    x->port = p;
    x->shim.fd = x->report.fd = -1;
    x->grace_ms = -1;
    return x;
}

void exec_inst_free(struct exec_inst *x)
{
    struct exec_port *p = x->port;
    exec_fd_close(p, &x->shim);
    exec_fd_close(p, &x->report);
    timer_cancel(p->loop, &x->again);
    free(x->cgroup);
    if (list_linked(&x->node.link))
        insts_del(&p->insts, &x->node);
    free(x);
}

// A moment that was noted while the clock was not trusted is told anew from the boot clock once it is.
static struct instant believed(struct exec_port *p, const struct instant *noted)
{
    struct instant now, t = *noted;
    clock_instant(p->clock, &now);
    if (t.trusted || !now.trusted || strcmp(t.boot_id, now.boot_id) != 0)
        return t;
    t.wall_us = now.wall_us - (now.boot_ms - t.boot_ms) * 1000;
    t.trusted = true;
    return t;
}

void exec_take_state(struct exec_inst *x, const struct state_record *r)
{
    struct inst *i = &x->node.i;
    memcpy(i->uid, r->uid, sizeof(i->uid));
    memcpy(i->owner, r->owner, sizeof(i->owner));
    memcpy(i->revision, r->revision, sizeof(i->revision));
    i->index = r->index;
    i->started = believed(x->port, &r->started);
    i->pid = x->child = r->child_pid;
    x->child_start = r->child_start;
    if (x->cgroup == NULL && r->cgroup[0] != '\0')
        x->cgroup = strdup(r->cgroup); // without it: what is left is found by its other marks, and the group at the next start
    if (i->state == INST_STARTING && r->child_pid > 0)
        i->state = INST_RUNNING;
    if (list_linked(&x->node.link))
        insts_moved(&x->port->insts, &x->node);
}

static bool read_file(struct exec_inst *x, const char *name, char text[RECORD_MAX])
{
    AUTO_CLOSE int dir = exec_dir_open(x->port, x->node.i.uid, NULL);
    return dir >= 0 && record_read(dir, name, text) == 0;
}

static bool read_state(struct exec_inst *x)
{
    char text[RECORD_MAX];
    struct state_record r;
    if (!read_file(x, SHIM_STATE, text) || !state_parse(text, &r) || strcmp(r.uid, x->node.i.uid) != 0)
        return false;
    exec_take_state(x, &r);
    return true;
}

// --- the supervisor's word

// Its end without a word says nothing: then its pidfd tells.
static void take_report(struct exec_inst *x)
{
    struct shim_report r;
    bool whole = x->report.fd >= 0 && read(x->report.fd, &r, sizeof(r)) == (ssize_t)sizeof(r);
    exec_fd_close(x->port, &x->report);
    if (!whole)
        return;
    r.detail[sizeof(r.detail) - 1] = '\0';
    x->failure = r;
    if (r.err == 0 && read_state(x))
        insts_changed(&x->port->insts, &x->node);
}

static void on_report(struct loop_fd *f, unsigned events UNUSED)
{
    take_report(container_of(f, struct exec_inst, report));
}

int exec_watch_report(struct exec_inst *x, int fd, struct err *e)
{
    int r = loop_fd_add(x->port->loop, &x->report, fd, LOOP_IN, on_report, e);
    if (r != 0)
        x->report.fd = -1;
    return r;
}

static void on_shim_ended(struct loop_fd *f, unsigned events UNUSED)
{
    struct exec_inst *x = container_of(f, struct exec_inst, shim);
    int code, sig;
    (void)exec_reap(f->fd, &code, &sig); // ours when we started it; how the supervisor ended says nothing of the instance
    if (x->report.fd >= 0)
        take_report(x);
    exec_shim_ended(x);
}

int exec_watch_shim(struct exec_inst *x, int pid, struct err *e)
{
    return exec_watch_pid(x->port, &x->shim, pid, on_shim_ended, e);
}

// --- the end

static void ended(struct exec_inst *x, const struct exit_record *r)
{
    struct inst *i = &x->node.i;
    i->state = INST_EXITED;
    i->pid = 0;
    i->exit = r->exit;
    i->ended = believed(x->port, &r->ended);
    insts_changed(&x->port->insts, &x->node);
}

void exec_shim_ended(struct exec_inst *x)
{
    char text[RECORD_MAX];
    struct exit_record r;
    exec_fd_close(x->port, &x->shim);
    exec_fd_close(x->port, &x->report);
    timer_cancel(x->port->loop, &x->again);
    if (read_file(x, SHIM_EXIT, text) && exit_parse(text, &r)) {
        ended(x, &r);
        return;
    }
    log_warn("exec", "supervisor-lost uid=%s owner=%s", x->node.i.uid, x->node.i.owner);
    (void)read_state(x); // it may have got further than we heard
    exec_sweep(x);
}

static void describe_unseen(const struct exec_inst *x, struct inst_exit *exit)
{
    bool never_ran = x->failure.err != 0;
    *exit = (struct inst_exit){ .known = never_ran, .code = -1, .start_errno = x->failure.err };
    snprintf(exit->reason, sizeof(exit->reason), "%s", never_ran ? "StartError" : "Unknown");
    snprintf(exit->detail, sizeof(exit->detail), "%s",
             never_ran ? x->failure.detail : "its supervisor was killed, nobody saw how it ended; what was left of it was ended");
}

// Written down, so that the next agent need not look again.
void exec_ended_unseen(struct exec_inst *x)
{
    char text[RECORD_MAX];
    struct exit_record r;
    describe_unseen(x, &r.exit);
    clock_instant(x->port->clock, &r.ended);
    AUTO_CLOSE int dir = exec_dir_open(x->port, x->node.i.uid, NULL);
    if (dir >= 0 && exit_format(&r, text))
        (void)record_write(dir, SHIM_EXIT, text);
    ended(x, &r);
}
