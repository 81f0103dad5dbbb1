// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "port/exec.h"
#include "shim/shim.h"

enum { FD_HIGH = 16 }; // above every number a shim is born with

// The C libraries of Debian 12 do not all have these.
static int pidfd_open(int pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

int exec_pidfd_signal(int pidfd, int sig)
{
    return syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0) == 0 ? 0 : errno;
}

// --- spawning

// Moved up first: a source that has the number of another's target would be overwritten before its turn.
static int put_fd(posix_spawn_file_actions_t *fa, int fd, int target, int *high)
{
    if (fd < 0)
        return 0;
    *high = fcntl(fd, F_DUPFD_CLOEXEC, FD_HIGH);
    return *high < 0 ? errno : posix_spawn_file_actions_adddup2(fa, *high, target);
}

static int put_output(posix_spawn_file_actions_t *fa, int fd, int *high)
{
    int r = posix_spawn_file_actions_addopen(fa, STDIN_FILENO, "/dev/null", O_RDWR, 0);
    if (r == 0 && fd >= 0)
        r = put_fd(fa, fd, STDOUT_FILENO, high);
    else if (r == 0)
        r = posix_spawn_file_actions_adddup2(fa, STDIN_FILENO, STDOUT_FILENO);
    return r != 0 ? r : posix_spawn_file_actions_adddup2(fa, STDOUT_FILENO, STDERR_FILENO);
}

// Every signal is blocked at birth: a SIGTERM that comes before the shim looks for it stays pending.
static int spawn(const struct exec_port *p, const char *name, posix_spawn_file_actions_t *fa, pid_t *pid)
{
    char *argv[] = { "limpet", "shim", (char *)(uintptr_t)name, NULL }, *env[] = { NULL };
    posix_spawnattr_t attr;
    sigset_t all;
    int r = posix_spawnattr_init(&attr);
    if (r != 0)
        return r;
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attr, &all);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
    r = posix_spawn(pid, p->self, fa, &attr, argv, env);
    posix_spawnattr_destroy(&attr);
    return r;
}

int exec_spawn(const struct exec_port *p, const char *name, const struct exec_fds *fds, int *pid, struct err *e)
{
    AUTO_CLOSE int output = -1;
    AUTO_CLOSE int spec = -1;
    AUTO_CLOSE int report = -1;
    AUTO_CLOSE int dir = -1;
    AUTO_CLOSE int lock = -1;
    posix_spawn_file_actions_t fa;
    int r = posix_spawn_file_actions_init(&fa);
    if (r != 0)
        return err_sys(e, r, "starting %s", name);
    r = put_output(&fa, fds->output, &output);
    if (r == 0)
        r = put_fd(&fa, fds->spec, SPEC_FD, &spec);
    if (r == 0)
        r = put_fd(&fa, fds->report, SPEC_REPORT_FD, &report);
    if (r == 0)
        r = put_fd(&fa, fds->dir, SPEC_DIR_FD, &dir);
    if (r == 0)
        r = put_fd(&fa, fds->lock, SPEC_LOCK_FD, &lock);
    if (r == 0)
        r = spawn(p, name, &fa, pid);
    posix_spawn_file_actions_destroy(&fa);
    if (r == EMFILE || r == ENFILE)
        return err_set(e, E_BUSY, "starting %s: %s", name, strerror(r));
    return r != 0 ? err_sys(e, r, "starting %s under %s", name, p->self) : 0;
}

int exec_try_shim(const char *path, struct err *e)
{
    char *argv[] = { "limpet", "shim", NULL }, *env[] = { NULL };
    posix_spawn_file_actions_t fa;
    int none = -1, status = 0;
    pid_t pid = 0;
    int r = posix_spawn_file_actions_init(&fa);
    if (r == 0)
        r = put_output(&fa, -1, &none);
    if (r == 0)
        r = posix_spawn(&pid, path, &fa, NULL, argv, env);
    posix_spawn_file_actions_destroy(&fa);
    if (r != 0)
        return err_sys(e, r, "starting a supervisor");
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_sys(e, errno, "waiting for a supervisor");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != SHIM_USAGE)
        return err_set(e, E_UNSUP, "a supervisor does not come to life (status 0x%x)", (unsigned)status);
    return 0;
}

// --- processes as descriptors

int exec_watch_pid(struct exec_port *p, struct loop_fd *f, int pid, void (*fn)(struct loop_fd *, unsigned), struct err *e)
{
    AUTO_CLOSE int fd = pidfd_open(pid);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE))
        return err_set(e, E_BUSY, "watching process %d: %s", pid, strerror(errno));
    if (fd < 0)
        return err_sys(e, errno, "watching process %d", pid);
    int r = loop_fd_add(p->loop, f, fd, LOOP_IN, fn, e);
    if (r == 0)
        (void)steal_fd(&fd);
    else
        f->fd = -1;
    return r;
}

void exec_fd_close(struct exec_port *p, struct loop_fd *f)
{
    loop_fd_del(p->loop, f);
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
}

bool exec_reap(int pidfd, int *code, int *sig)
{
    siginfo_t info = { .si_pid = 0 };
    // P_PIDFD may be missing in old headers; its value is part of the kernel's interface.
    if (waitid((idtype_t)3, (id_t)pidfd, &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0)
        return false;
    bool by_signal = info.si_code != CLD_EXITED;
    *code = by_signal ? -1 : info.si_status;
    *sig = by_signal ? info.si_status : 0;
    return true;
}

// The pidfd is opened first and the start time compared then: from there on the two mean the same process.
int exec_signal_process(int pid, int64_t start, int sig, struct err *e)
{
    AUTO_CLOSE int fd = pid > 0 ? pidfd_open(pid) : -1;
    if (fd < 0 || !proc_is(pid, start))
        return err_set(e, E_NOTFOUND, "process %d has ended", pid);
    int errnum = exec_pidfd_signal(fd, sig);
    if (errnum == ESRCH)
        return err_set(e, E_NOTFOUND, "process %d has ended", pid);
    return errnum != 0 ? err_sys(e, errnum, "signal %d to process %d", sig, pid) : 0;
}

int exec_signal_inst(const char *uid, int pid, int64_t start, int sig, struct err *e)
{
    if (sig <= 0 || sig >= NSIG)
        return err_set(e, E_INVAL, "no signal has the number %d", sig);
    if (pid == 0)
        return err_set(e, E_NOTFOUND, "instance %.80s is not running", uid != NULL ? uid : "");
    return exec_signal_process(pid, start, sig, e);
}
