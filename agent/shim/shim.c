// SPDX-License-Identifier: Apache-2.0
#include "shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "shim/child.h"
#include "shim/group.h"
#include "shim/logwriter.h"
#include "shim/oom.h"
#include "shim/proc.h"
#include "shim/record.h"
#include "shim/spec.h"

enum {
    CHUNK = 8192,      // bytes of output moved at once
    LAST_CHUNKS = 128, // moved at most after everybody has ended: a stranger may hold the pipe
    SWEEP_MS = 200,    // between two looks for descendants that are still there
    KILL_AGAIN_MS = 1000,
};

struct shim {
    struct shim_spec spec;
    struct clock clock;
    struct logwriter log;
    struct rlimit core;                       // for the child; ours is 0
    int signals, output, started, kernel_log; // descriptors, -1 = closed
    pid_t child;                              // 0 = never forked
    int64_t child_start;
    struct shim_report failure; // err != 0: the command could not be executed
    bool ended;                 // the child was reaped: status, ended_at
    bool alone;                 // no descendant is left
    int status;
    struct instant ended_at;
    bool stopping;
    int64_t kill_ms; // while stopping: when SIGKILL is due (monotonic)
};

static int64_t now_ms(struct shim *s)
{
    return clock_mono(&s->clock);
}

// The agent's belief at the start, carried on by the boot clock: a step of the wall clock meanwhile does not matter.
static struct instant instant_now(struct shim *s)
{
    struct instant t = s->spec.now;
    t.boot_ms = clock_boot(&s->clock);
    t.wall_us += (t.boot_ms - s->spec.now.boot_ms) * 1000;
    return t;
}

// --- starting

static void fail(struct shim *s, int errnum, const char *what)
{
    s->failure.err = errnum;
    snprintf(s->failure.detail, sizeof(s->failure.detail), "%s: %s", what, strerror(errnum));
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

// The child's side of the fork. It waits for the gate: should the shim die before `state` tells of the child, nothing was executed.
static _Noreturn void run_child(struct shim *s, int output, int started, int gate)
{
    char go;
    setsid();
    if (read(gate, &go, 1) != 1)
        _exit(127);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    child_exec(&s->spec, started, &s->core);
}

static int write_state(struct shim *s)
{
    char text[RECORD_MAX];
    struct state_record r = { .index = s->spec.index, .shim_pid = getpid(), .child_pid = s->child, .child_start = s->child_start };
    r.shim_start = proc_start(r.shim_pid);
    r.started = instant_now(s);
    memcpy(r.uid, s->spec.uid, sizeof(r.uid));
    memcpy(r.owner, s->spec.owner, sizeof(r.owner));
    memcpy(r.revision, s->spec.revision, sizeof(r.revision));
    memcpy(r.cgroup, s->spec.cgroup, sizeof(r.cgroup));
    return state_format(&r, text) ? record_write(SPEC_DIR_FD, SHIM_STATE, text) : EOVERFLOW;
}

static void open_gate(struct shim *s, int gate)
{
    s->child_start = proc_start(s->child);
    int errnum = write_state(s);
    if (errnum != 0)
        fail(s, errnum, "writing the state");
    else
        (void)!write(gate, "", 1);
}

struct pipes {
    int output[2], started[2], gate[2];
};

static bool make_pipes(struct pipes *p)
{
    return pipe2(p->output, O_CLOEXEC) == 0 && pipe2(p->started, O_CLOEXEC) == 0 && pipe2(p->gate, O_CLOEXEC) == 0 &&
           fcntl(p->output[0], F_SETFL, O_NONBLOCK) == 0 && fcntl(p->started[0], F_SETFL, O_NONBLOCK) == 0;
}

// The read end of the gate is closed here, too: only the child holds it.
static void start_child(struct shim *s)
{
    struct pipes p;
    if (!make_pipes(&p)) {
        fail(s, errno, "pipe");
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(p.gate[1]);
        run_child(s, p.output[1], p.started[1], p.gate[0]);
    }
    if (pid < 0)
        fail(s, errno, "fork");
    close(p.output[1]);
    close(p.started[1]);
    close(p.gate[0]);
    if (pid > 0) {
        s->child = pid;
        s->output = p.output[0];
        s->started = p.started[0];
        open_gate(s, p.gate[1]);
    }
    close(p.gate[1]);
}

// Lets go of the secrets and tells the agent, if there is one.
static void report(struct shim *s)
{
    close(SPEC_FD);
    (void)!write(SPEC_REPORT_FD, &s->failure, sizeof(s->failure));
    close(SPEC_REPORT_FD);
}

static void on_started(struct shim *s)
{
    struct shim_report r = { 0 };
    ssize_t n = read(s->started, &r, sizeof(r));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n == (ssize_t)sizeof(r))
        s->failure = r;
    close_fd(&s->started);
    report(s);
}

// --- ending

static bool kill_own(void *ctx, const struct proc_stat *p)
{
    const pid_t *self = ctx;
    if (p->ppid == *self)
        kill(p->pid, SIGKILL); // our child, not reaped: the pid cannot mean anybody else
    return false;
}

// Kills our children. Being a subreaper we inherit theirs, so that a few rounds reach everybody, wherever they went. With a group one does.
static void sweep(struct shim *s)
{
    pid_t self = getpid();
    if (s->spec.cgroup[0] != '\0')
        group_kill(s->spec.cgroup);
    proc_each(kill_own, &self);
}

static void reap(struct shim *s)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == s->child) {
            s->ended = true;
            s->status = status;
            s->ended_at = instant_now(s);
        }
    s->alone = pid < 0 && errno == ECHILD;
    if (s->ended && !s->alone)
        sweep(s);
}

// To the group; to the child alone while it has not made its own group yet.
static void signal_child(struct shim *s, int sig)
{
    if (s->child > 0 && !s->ended && kill(-s->child, sig) != 0)
        kill(s->child, sig);
}

static int64_t asked_grace(struct shim *s)
{
    char text[RECORD_MAX];
    long long ms;
    if (record_read(SPEC_DIR_FD, SHIM_GRACE, text) != 0 || sscanf(text, "%lld", &ms) != 1 || ms < 0)
        return s->spec.grace_ms;
    return ms;
}

// Asked again, only an earlier end counts. SIGCONT: who is stopped would not see its SIGTERM.
static void on_stop(struct shim *s)
{
    int64_t at = now_ms(s) + asked_grace(s);
    s->kill_ms = s->stopping ? MIN(s->kill_ms, at) : at;
    if (!s->stopping) {
        signal_child(s, SIGTERM);
        signal_child(s, SIGCONT);
    }
    s->stopping = true;
}

static void on_kill_due(struct shim *s)
{
    signal_child(s, SIGKILL);
    sweep(s);
    s->kill_ms = now_ms(s) + KILL_AGAIN_MS;
}

static void on_signals(struct shim *s)
{
    struct signalfd_siginfo info;
    while (read(s->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGTERM)
            on_stop(s);
        else
            reap(s);
    }
}

// --- output

// true: there may be more.
static bool move_output(struct shim *s)
{
    char chunk[CHUNK];
    ssize_t n = read(s->output, chunk, sizeof(chunk));
    if (n > 0)
        logwriter_add(&s->log, chunk, (size_t)n, now_ms(s));
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        close_fd(&s->output);
    return n > 0;
}

static void finish_output(struct shim *s)
{
    for (int i = 0; i < LAST_CHUNKS && s->output >= 0 && move_output(s); i++)
        ;
    logwriter_fini(&s->log, now_ms(s));
}

// --- the life of a shim

static int64_t sooner(int64_t a, int64_t b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

static int next_timeout(struct shim *s)
{
    int64_t at = logwriter_due(&s->log);
    if (s->stopping)
        at = sooner(at, s->kill_ms);
    if (s->ended)
        at = sooner(at, now_ms(s) + SWEEP_MS);
    return at < 0 ? -1 : (int)MIN(MAX(at - now_ms(s), 0), 3600 * 1000);
}

static void turn(struct shim *s)
{
    struct pollfd p[] = {
        { .fd = s->signals, .events = POLLIN },
        { .fd = s->output, .events = POLLIN },
        { .fd = s->started, .events = POLLIN },
    };
    int n = poll(p, ARRAY_LEN(p), next_timeout(s));
    if (n > 0 && p[0].revents != 0)
        on_signals(s);
    if (n > 0 && p[1].revents != 0)
        move_output(s);
    if (n > 0 && p[2].revents != 0)
        on_started(s);
    logwriter_tick(&s->log, now_ms(s));
    if (s->stopping && now_ms(s) >= s->kill_ms)
        on_kill_due(s);
    if (n == 0 && s->ended)
        reap(s);
}

// The group's own count is of nobody else. Without one the kernel's log tells who it was.
static bool ran_out_of_memory(struct shim *s)
{
    if (s->spec.cgroup[0] != '\0' && group_out_of_memory(s->spec.cgroup))
        return true;
    return oom_killed(s->kernel_log, s->child);
}

static void describe_exit(struct shim *s, struct inst_exit *x)
{
    *x = (struct inst_exit){ .known = true, .code = -1, .start_errno = s->failure.err };
    const char *reason = "Error";
    if (x->start_errno != 0) {
        reason = "StartError";
        memcpy(x->detail, s->failure.detail, sizeof(x->detail));
    } else if (WIFSIGNALED(s->status)) {
        x->signal = WTERMSIG(s->status);
        if (x->signal == SIGKILL && ran_out_of_memory(s))
            reason = "OOMKilled";
        snprintf(x->detail, sizeof(x->detail), "signal %d (%s)", x->signal, strsignal(x->signal));
    } else {
        x->code = WEXITSTATUS(s->status);
        reason = x->code == 0 ? "Completed" : "Error";
    }
    snprintf(x->reason, sizeof(x->reason), "%s", reason);
}

static void write_exit(struct shim *s)
{
    char text[RECORD_MAX];
    struct exit_record r = { .ended = s->ended ? s->ended_at : instant_now(s) };
    describe_exit(s, &r.exit);
    if (s->spec.cgroup[0] != '\0')
        (void)group_remove(s->spec.cgroup); // a stranger is in it: the agent tries again
    if (exit_format(&r, text))
        record_write(SPEC_DIR_FD, SHIM_EXIT, text);
}

static void supervise(struct shim *s)
{
    start_child(s);
    if (s->failure.err != 0) {
        report(s); // a child that was forked ends at its gate
        close_fd(&s->started);
    }
    if (s->child == 0)
        s->ended = s->alone = true;
    while (!s->ended || !s->alone || s->started >= 0)
        turn(s);
    finish_output(s);
    write_exit(s);
}

// --- becoming a shim

static void close_from(int first)
{
    if (syscall(SYS_close_range, first, ~0U, 0) == 0)
        return;
    for (int fd = first; fd < 65536; fd++) // before Linux 5.9
        close(fd);
}

static bool is_handed_over(int last_fd)
{
    for (int fd = SPEC_FD; fd <= last_fd; fd++)
        if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
            return false;
    return true;
}

static int open_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGCHLD);
    return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

static void block_signals(void)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
}

static void become_supervisor(struct shim *s)
{
    prctl(PR_SET_NAME, "limpet-shim");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    getrlimit(RLIMIT_CORE, &s->core);
    setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, s->core.rlim_max });
    umask(077);
    (void)!chdir("/");
    clock_real_init(&s->clock);
    s->kernel_log = oom_watch();
    logwriter_init(&s->log, s->spec.log_dir, s->spec.log_name, s->spec.log_max, s->spec.log_files, now_ms(s));
}

static int usage(void)
{
    fputs("limpet shim: started by the agent only; see `limpet status`\n", stderr);
    return SHIM_USAGE;
}

int shim_main(int argc, char **argv)
{
    struct shim s = { .signals = -1, .output = -1, .started = -1, .kernel_log = -1 };
    bool once = argc == 3 && strcmp(argv[2], "run") == 0;
    int last_fd = once ? SPEC_REPORT_FD : SPEC_LOCK_FD;
    if (argc != 3 || !is_handed_over(last_fd) || !spec_read(SPEC_FD, &s.spec))
        return usage();
    prctl(PR_SET_DUMPABLE, 0); // no core, no debugger but root's: a child of ours has the secrets until it executes
    close_from(last_fd + 1);
    block_signals();
    if (once)
        child_exec(&s.spec, SPEC_REPORT_FD, NULL);
    become_supervisor(&s);
    s.signals = open_signals();
    if (s.signals < 0)
        fail(&s, errno, "signalfd");
    supervise(&s);
    _exit(0);
}
