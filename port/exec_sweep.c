// SPDX-License-Identifier: Apache-2.0
// A supervisor that was killed can neither end its instance nor say how it ended. What is left of an instance with limits is its control
// group, whole. Of others, and with a kernel that cannot end a group, it is found by three marks, each safe against a pid that means somebody else by now: the main process by its start time; its session, but only if the
// main process was still there when we first looked (else the number may have been given again); anybody by its mark in the
// environment it began with.
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "port/exec.h"
#include "shim/group.h"

enum { AGAIN_FIRST_MS = 20, AGAIN_MAX_MS = 5000 };

struct sweep {
    const struct exec_inst *inst;
    char mark[sizeof(SPEC_MARK "=") + SPEC_PATH_MAX];
    int self;
    size_t left;
};

static bool is_left_over(const struct sweep *s, const struct proc_stat *p)
{
    const struct exec_inst *x = s->inst;
    if (p->pid == s->self || p->state == 'Z' || p->state == 'X')
        return false;
    if (p->pid == x->child && p->start == x->child_start)
        return true;
    if (x->own_session && p->session == x->child)
        return true;
    return proc_has_env(p->pid, s->mark);
}

static bool end_one(void *ctx, const struct proc_stat *p)
{
    struct sweep *s = ctx;
    if (is_left_over(s, p)) {
        s->left++;
        (void)!exec_signal_process(p->pid, p->start, SIGKILL, NULL); // gone meanwhile is as good
    }
    return false;
}

static void on_again(struct timer *t)
{
    exec_sweep(container_of(t, struct exec_inst, again));
}

// A zombie still keeps the number of its session from being given again.
static bool is_main_there(const struct exec_inst *x)
{
    return x->child > 0 && proc_start(x->child) == x->child_start;
}

void exec_sweep(struct exec_inst *x)
{
    struct sweep s = { .inst = x, .self = getpid() };
    struct exec_port *p = x->port;
    char path[SPEC_PATH_MAX];
    exec_mark(p, x->node.i.uid, path);
    snprintf(s.mark, sizeof(s.mark), SPEC_MARK "=%s", path);
    x->own_session = x->own_session || is_main_there(x);
    if (x->cgroup != NULL)
        group_kill(x->cgroup);
    proc_each(end_one, &s);
    if (s.left == 0 && (x->cgroup == NULL || !group_has_processes(x->cgroup))) {
        exec_ended_unseen(x);
        return;
    }
    x->node.i.state = INST_STOPPING;
    insts_changed(&p->insts, &x->node);
    x->again_ms = x->again_ms > 0 ? MIN(x->again_ms * 2, AGAIN_MAX_MS) : AGAIN_FIRST_MS;
    timer_init(&x->again, on_again);
    (void)timer_in(p->loop, &x->again, x->again_ms); // the heap has room: insts.c and adoption took it before
}
