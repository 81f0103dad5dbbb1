// SPDX-License-Identifier: Apache-2.0
// exec — the port for plain processes, each under its own `limpet shim`. This header is private to port/exec*.c;
// port/systemd.c signals a process through it.
//
//   exec.c        the verbs: start, stop, signal, forget, each
//   exec_spawn.c  handing a command over to a new process of ours
//   exec_dir.c    the directory of an instance: made locked, read, removed
//   exec_watch.c  from the supervisor's reports and its end to the state of the instance
//   exec_adopt.c  finding again what earlier agents started
//   exec_sweep.c  ending what a killed supervisor left behind
//   exec_run.c    commands that run once
// What is true of an instance lies in its directory and in /proc, never only in the agent: an agent that dies at any point is
// replaced by one that reads them.
#ifndef PORT_EXEC_H
#define PORT_EXEC_H

#include "port/check.h"
#include "port/groups.h"
#include "port/insts.h"
#include "shim/proc.h"
#include "shim/record.h"
#include "shim/spec.h"

struct exec_port {
    struct port port;
    struct loop *loop;
    struct clock *clock;
    struct disk *disk;
    char *run_dir, *log_dir, *self; // below the disk's root, already prefixed with it
    int dir_fd;                     // <run_dir>/i
    char boot_id[37];
    struct groups groups;
    struct insts insts;
    struct checks checks;
    struct list runs;
    size_t n_runs;
};

struct exec_inst {
    struct inst_node node;
    struct exec_port *port;
    struct loop_fd shim;   // its pidfd, readable when it has ended; fd -1 = none
    struct loop_fd report; // fd -1 = nothing more will come
    struct timer again;    // sweeping, or waiting for the state file of a shim that was being started
    int64_t again_ms;      // its last delay
    int child;             // pid of the main process, 0 = not known
    int64_t child_start;
    int64_t grace_ms; // while STOPPING: what stop() asked for, -1 = that of the spec
    bool own_session; // the main process was seen alive while sweeping: its session is ours
    struct shim_report failure;
    char *cgroup; // path of its control group, NULL = none
};

static inline struct exec_inst *exec_inst_of(struct inst_node *n)
{
    return container_of(n, struct exec_inst, node);
}

// --- exec_spawn.c

// What the new process gets as its descriptors; -1 = none (/dev/null for output).
struct exec_fds {
    int output, spec, report, dir, lock;
};
// Starts `limpet shim NAME`. E_BUSY: no process to be had.
int exec_spawn(const struct exec_port *p, const char *name, const struct exec_fds *fds, int *pid, struct err *e) MUST_USE;
// A pidfd in the loop. E_BUSY when there are no descriptors left.
// "limpet shim" and no more: 0 when it ran and said so. Blocks for as long as that takes.
int exec_try_shim(const char *path, struct err *e) MUST_USE;
int exec_watch_pid(struct exec_port *p, struct loop_fd *f, int pid, void (*fn)(struct loop_fd *, unsigned), struct err *e) MUST_USE;
void exec_fd_close(struct exec_port *p, struct loop_fd *f); // out of the loop and closed; safe when fd is -1
// Takes the exit status if it was our child; false: it was not, or has not ended.
bool exec_reap(int pidfd, int *code, int *sig);
int exec_pidfd_signal(int pidfd, int sig); // 0 or an errno
// To exactly this process, never to one that got its pid later. E_NOTFOUND.
int exec_signal_process(int pid, int64_t start, int sig, struct err *e) MUST_USE;
// The port's signal(), for one whose instances are processes: pid 0 = it is not running, or unknown. E_INVAL, E_NOTFOUND.
int exec_signal_inst(const char *uid, int pid, int64_t start, int sig, struct err *e) MUST_USE;

// --- exec_dir.c

// Makes and locks <run_dir>/i/<uid> and writes down who it is for. E_EXISTS: there already, maybe by another agent.
int exec_dir_make(struct exec_port *p, const struct inst *i, int *dir, int *lock, struct err *e) MUST_USE;
int exec_dir_open(struct exec_port *p, const char *uid, struct err *e); // descriptor, or an error class
// Is a shim alive in it, or is one being started? When not, *lock is the lock, held by us now.
bool exec_dir_is_locked(int dir, int *lock);
void exec_mark(const struct exec_port *p, const char *uid, char out[SPEC_PATH_MAX]); // its path, in the environment of the instance
int exec_dir_remove(struct exec_port *p, const char *uid, struct err *e) MUST_USE;   // absent is success

// --- exec_watch.c

struct exec_inst *exec_inst_new(struct exec_port *p); // not yet in the table; NULL = no memory
void exec_inst_free(struct exec_inst *x);             // takes it out of the table; the instance itself is left alone
// What the state file says: owner, start, main process. From STARTING to RUNNING when there is one.
void exec_take_state(struct exec_inst *x, const struct state_record *r);
int exec_watch_report(struct exec_inst *x, int fd, struct err *e) MUST_USE; // takes fd when it succeeds
int exec_watch_shim(struct exec_inst *x, int pid, struct err *e) MUST_USE;
// There is no supervisor any more: takes the exit record, or ends what is left.
void exec_shim_ended(struct exec_inst *x);
void exec_ended_unseen(struct exec_inst *x); // nothing is left, and nobody saw how it ended

// --- exec_adopt.c

int exec_adopt(struct exec_port *p, struct err *e) MUST_USE;
// One instance by its directory. 0: it is in the table now, or was none and its directory was cleared away. E_BUSY: not to be understood.
int exec_adopt_one(struct exec_port *p, const char *uid, struct err *e) MUST_USE;
void exec_look_later(struct exec_inst *x); // for one whose shim cannot be watched now: reads its state again until it can

// --- exec_sweep.c

void exec_sweep(struct exec_inst *x); // SIGKILL to all that is left, again until nothing is; then exec_ended_unseen()

// --- exec_run.c

int exec_run(struct port *p, struct port_run *r, struct err *e) MUST_USE;
void exec_run_cancel(struct port *p, struct port_run *r);
void exec_runs_fini(struct exec_port *p);

#endif
