// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "port/exec.h"

enum {
    CHUNK = 4096,
    CHUNKS_A_TURN = 16, // a flood must not keep the loop
    LAST_CHUNKS = 64,   // after the end: what is still in the pipe, but not what others go on writing
    DEFAULT_TIMEOUT_MS = 30 * 1000,
};

struct exec_run {
    struct list link;
    struct exec_port *port;
    struct port_run *r; // NULL: cancelled, only waiting to be reaped
    int pid;
    bool timed_out;
    struct loop_fd process, output;
    int report; // what a command that could not be executed says, when it has ended
    struct timer timeout;
};

static struct exec_port *self(struct port *p)
{
    return container_of(p, struct exec_port, port);
}

static void run_free(struct exec_run *x)
{
    struct exec_port *p = x->port;
    exec_fd_close(p, &x->process);
    exec_fd_close(p, &x->output);
    if (x->report >= 0)
        close(x->report);
    timer_cancel(p->loop, &x->timeout);
    if (list_linked(&x->link)) {
        list_del(&x->link);
        p->n_runs--;
    }
    free(x);
}

// Not reaped yet, so the number is still that of its group.
static void kill_group(const struct exec_run *x)
{
    kill(-x->pid, SIGKILL);
}

// --- output

// The newest output_max bytes.
static void keep_tail(struct port_run *r, const char *p, size_t n)
{
    size_t keep = MIN(n, r->output_max);
    size_t over = r->output.len + keep > r->output_max ? r->output.len + keep - r->output_max : 0;
    buf_drop(&r->output, over);
    r->output_dropped += over + (n - keep);
    if (keep > 0 && buf_add(&r->output, p + (n - keep), keep, NULL) != 0)
        r->output_dropped += keep; // no memory: counted
}

static bool move_chunk(struct exec_run *x)
{
    char chunk[CHUNK];
    ssize_t n = read(x->output.fd, chunk, sizeof(chunk));
    if (n > 0 && x->r != NULL)
        keep_tail(x->r, chunk, (size_t)n);
    else if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        exec_fd_close(x->port, &x->output);
    return n > 0;
}

static void on_output(struct loop_fd *f, unsigned events UNUSED)
{
    struct exec_run *x = container_of(f, struct exec_run, output);
    for (int i = 0; i < CHUNKS_A_TURN && x->output.fd >= 0 && move_chunk(x); i++)
        ;
}

// --- the end

// true: it never became the command, and e says why.
static bool take_failure(const struct exec_run *x, struct err *e)
{
    struct shim_report f;
    if (read(x->report, &f, sizeof(f)) != (ssize_t)sizeof(f) || f.err == 0)
        return false;
    f.detail[sizeof(f.detail) - 1] = '\0';
    err_set(e, err_class_of_errno(f.err), "%s", f.detail);
    e->sys = f.err;
    return true;
}

static void finish(struct exec_run *x)
{
    struct port_run *r = x->r;
    struct err e = ERR_INIT;
    bool failed = take_failure(x, &e);
    if (!failed && x->timed_out && r->signal == SIGKILL) {
        err_set(&e, E_TIMEOUT, "no end within %lld ms; killed", (long long)(r->timeout_ms > 0 ? r->timeout_ms : DEFAULT_TIMEOUT_MS));
        failed = true;
    }
    run_free(x);
    r->impl = NULL;
    r->done(r, failed ? &e : NULL); // last: r may be gone after it
}

static void on_process(struct loop_fd *f, unsigned events UNUSED)
{
    struct exec_run *x = container_of(f, struct exec_run, process);
    int code, sig;
    if (!exec_reap(f->fd, &code, &sig))
        return;
    if (x->r == NULL) {
        run_free(x);
        return;
    }
    x->r->code = code;
    x->r->signal = sig;
    for (int i = 0; i < LAST_CHUNKS && x->output.fd >= 0 && move_chunk(x); i++)
        ;
    finish(x);
}

static void on_timeout(struct timer *t)
{
    struct exec_run *x = container_of(t, struct exec_run, timeout);
    x->timed_out = true;
    kill_group(x);
}

// --- the beginning

struct pipes {
    int output[2], report[2];
};

static void pipes_close(struct pipes *p)
{
    const int fds[] = { p->output[0], p->output[1], p->report[0], p->report[1] };
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static int make_pipes(struct pipes *p, struct err *e)
{
    // Only our end of the output does not block: the command expects an ordinary pipe.
    if (pipe2(p->output, O_CLOEXEC) != 0 || pipe2(p->report, O_CLOEXEC | O_NONBLOCK) != 0 || fcntl(p->output[0], F_SETFL, O_NONBLOCK) != 0)
        return err_set(e, E_BUSY, "pipe: %s", strerror(errno));
    return 0;
}

static int launch(struct exec_run *x, struct pipes *p, struct err *e)
{
    struct shim_spec spec = { .agent = getpid() };
    AUTO_CLOSE int spec_fd = -1;
    int r = spec_write(&spec_fd, &spec, &x->r->exec, e);
    if (r != 0)
        return r;
    struct exec_fds fds = { .output = p->output[1], .spec = spec_fd, .report = p->report[1], .dir = -1, .lock = -1 };
    r = exec_spawn(x->port, "run", &fds, &x->pid, e);
    if (r != 0)
        return r;
    x->report = steal_fd(&p->report[0]);
    return exec_watch_pid(x->port, &x->process, x->pid, on_process, e);
}

static int watch_output(struct exec_run *x, struct pipes *p, struct err *e)
{
    int r = loop_fd_add(x->port->loop, &x->output, p->output[0], LOOP_IN, on_output, e);
    if (r == 0)
        p->output[0] = -1;
    else
        x->output.fd = -1;
    return r;
}

// What was started but cannot be watched is killed and waited for: it has just begun, so that takes no time.
static int begin(struct exec_run *x, struct err *e)
{
    struct pipes p = { { -1, -1 }, { -1, -1 } };
    int64_t timeout_ms = x->r->timeout_ms > 0 ? x->r->timeout_ms : DEFAULT_TIMEOUT_MS;
    int r = make_pipes(&p, e);
    if (r == 0)
        r = watch_output(x, &p, e);
    if (r == 0 && timer_in(x->port->loop, &x->timeout, timeout_ms) != 0)
        r = err_set(e, E_NOMEM, "no memory for a command's deadline");
    if (r == 0)
        r = launch(x, &p, e);
    if (r != 0 && x->pid > 0) {
        kill_group(x);
        waitpid(x->pid, NULL, 0);
    }
    pipes_close(&p);
    return r;
}

int exec_run(struct port *port, struct port_run *r, struct err *e)
{
    struct exec_port *p = self(port);
    r->code = r->signal = 0;
    r->output_dropped = 0;
    r->impl = NULL;
    r->output.max = r->output_max;
    buf_reset(&r->output);
    if (p->n_runs >= PORT_RUNS_MAX)
        return err_set(e, E_BUSY, "%d commands are under way already", PORT_RUNS_MAX);
    struct exec_run *x = calloc(1, sizeof(*x));
    if (x == NULL)
        return err_set(e, E_NOMEM, "no memory for a command");
    *x = (struct exec_run){ .port = p, .r = r, .report = -1, .process = { .fd = -1 }, .output = { .fd = -1 } };
    timer_init(&x->timeout, on_timeout);
    int rc = begin(x, e);
    if (rc != 0) {
        run_free(x);
        return rc;
    }
    list_add_tail(&p->runs, &x->link);
    p->n_runs++;
    r->impl = x;
    return 0;
}

void exec_run_cancel(struct port *port UNUSED, struct port_run *r)
{
    struct exec_run *x = r->impl;
    r->impl = NULL;
    if (x == NULL)
        return;
    kill_group(x);
    x->r = NULL;
    timer_cancel(x->port->loop, &x->timeout);
    exec_fd_close(x->port, &x->output);
}

// Killed, and reaped if that is quick; init takes the rest.
void exec_runs_fini(struct exec_port *p)
{
    list_each_safe(it, next, &p->runs) {
        struct exec_run *x = container_of(it, struct exec_run, link);
        int code, sig;
        kill_group(x);
        (void)exec_reap(x->process.fd, &code, &sig);
        if (x->r != NULL)
            x->r->impl = NULL;
        run_free(x);
    }
}
