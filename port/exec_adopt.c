// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include "base/log.h"
#include "port/exec.h"
#include "shim/shim.h"

enum { LOOK_AGAIN_MS = 50 };

// Ended or never begun: takes the directory away while holding its lock, so that no shim can begin in it.
static int clear_away(struct exec_port *p, const char *uid, int dir, struct err *e)
{
    AUTO_CLOSE int lock = -1;
    if (exec_dir_is_locked(dir, &lock))
        return err_set(e, E_BUSY, "instance %s: being started by somebody else", uid);
    log_info("exec", "cleared uid=%s", uid);
    return exec_dir_remove(p, uid, e);
}

// Without pids, and nobody holds the lock: the agent died before it started the shim, or the shim before it started anything.
static bool never_began(const struct state_record *r, int dir)
{
    AUTO_CLOSE int lock = -1;
    return r->shim_pid == 0 && !exec_dir_is_locked(dir, &lock);
}

static void look(struct exec_inst *x, const struct state_record *r, int dir);

static void on_again(struct timer *t)
{
    struct exec_inst *x = container_of(t, struct exec_inst, again);
    char text[RECORD_MAX];
    struct state_record r;
    AUTO_CLOSE int dir = exec_dir_open(x->port, x->node.i.uid, NULL);
    if (dir >= 0 && record_read(dir, SHIM_STATE, text) == 0 && state_parse(text, &r) && !never_began(&r, dir)) {
        exec_take_state(x, &r);
        look(x, &r, dir);
    } else {
        exec_shim_ended(x);
    }
}

void exec_look_later(struct exec_inst *x)
{
    timer_init(&x->again, on_again);
    (void)timer_in(x->port->loop, &x->again, LOOK_AGAIN_MS);
}

// A stop that was asked for goes on; asking twice does no harm, and the earlier agent may have died before it asked.
static void take_stop(struct exec_inst *x, int dir)
{
    char text[RECORD_MAX];
    if (record_read(dir, SHIM_GRACE, text) != 0)
        return;
    x->node.i.state = INST_STOPPING;
    x->grace_ms = strtoll(text, NULL, 10);
    (void)exec_pidfd_signal(x->shim.fd, SIGTERM);
}

// Where does this instance stand? Either its shim is alive and watched from now on, or it has ended, or we look again.
static void look(struct exec_inst *x, const struct state_record *r, int dir)
{
    struct err e = ERR_INIT;
    if (r->shim_pid == 0) {
        exec_look_later(x); // locked: its shim is just starting
    } else if (!proc_is(r->shim_pid, r->shim_start)) {
        exec_shim_ended(x);
    } else if (exec_watch_shim(x, r->shim_pid, &e) != 0) {
        exec_look_later(x); // it ended just now, or no descriptor is left
    } else if (!proc_is(r->shim_pid, r->shim_start)) {
        exec_shim_ended(x);
    } else {
        take_stop(x, dir);
    }
    insts_changed(&x->port->insts, &x->node);
}

static int take(struct exec_port *p, const struct state_record *r, int dir, struct err *e)
{
    struct exec_inst *x = exec_inst_new(p);
    if (x == NULL)
        return err_set(e, E_NOMEM, "no memory for instance %s", r->uid);
    exec_take_state(x, r);
    insts_add(&p->insts, &x->node);
    look(x, r, dir);
    return 0;
}

int exec_adopt_one(struct exec_port *p, const char *uid, struct err *e)
{
    char text[RECORD_MAX];
    struct state_record r;
    struct err why = ERR_INIT;
    AUTO_CLOSE int dir = exec_dir_open(p, uid, &why);
    if (dir < 0)
        return dir == E_NOTFOUND ? 0 : err_set(e, dir, "%s", why.msg);
    int errnum = record_read(dir, SHIM_STATE, text);
    if (errnum == ENOENT)
        return clear_away(p, uid, dir, e);
    if (errnum != 0 || !state_parse(text, &r) || strcmp(r.uid, uid) != 0)
        return err_set(e, E_BUSY, "instance %s: its state file cannot be understood; it is left alone", uid);
    if (strcmp(r.started.boot_id, p->boot_id) != 0 || never_began(&r, dir))
        return clear_away(p, uid, dir, e);
    return take(p, &r, dir, e);
}

static bool is_known(void *ctx, const char *uid)
{
    struct exec_port *p = ctx;
    return insts_find(&p->insts, uid) != NULL;
}

int exec_adopt(struct exec_port *p, struct err *e)
{
    int fd = openat(p->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (d == NULL) {
        if (fd >= 0)
            close(fd);
        return err_sys(e, errno, "instances in %s", p->run_dir);
    }
    for (struct dirent *de; (de = readdir(d)) != NULL;) {
        struct err why = ERR_INIT;
        if (!inst_uid_ok(de->d_name) || insts_find(&p->insts, de->d_name) != NULL)
            continue;
        if (exec_adopt_one(p, de->d_name, &why) != 0)
            log_warn("exec", "not-adopted uid=%s reason=\"%s\"", de->d_name, why.msg); // the others must not wait for it
    }
    closedir(d);
    groups_sweep(&p->groups, is_known, p);
    return 0;
}
