// SPDX-License-Identifier: Apache-2.0
// port — the contract of a platform: what can be started, stopped, observed and asked on this machine.
//
// One implementation per init system or sandbox (exec, systemd, container, null, fake). test/port/conformance runs
// the same suite against each. Nothing here blocks: completion comes by callback on the loop, never from inside the call.
// Everything is idempotent: starting what runs, stopping what is gone, forgetting the unknown succeed and change nothing.
//
// The port knows instances, not kinds: an instance belongs to an owner (a cache key) and carries a revision string that the port only
// stores and gives back. Restart policy, backoff and replicas are the kinds' business.
// What is zero: a struct inst_spec with everything but uid, owner and argv zero is valid and means: no environment but PATH, root's
// uid/gid of the agent, "/" as working directory, no limits set, logs kept with the defaults, grace 30 s.
#ifndef PORT_PORT_H
#define PORT_PORT_H

#include "base/buf.h"
#include "base/err.h"
#include "base/fsio.h"
#include "base/loop.h"

// Bounds, each refused with E_BUSY when reached: 512 instances (ended ones count until forgotten), 64 commands, 64 checks at once.
enum { INST_UID_MAX = 64, INST_OWNER_MAX = 400, INST_REV_MAX = 24, RLIMITS_MAX = 10 };
enum { PORT_INSTANCES_MAX = 512, PORT_RUNS_MAX = 64, PORT_CHECKS_MAX = 64 };

struct rlimit_spec {
    int resource;       // RLIMIT_*
    int64_t soft, hard; // -1 = unlimited
};

// What a command runs as. Strings are borrowed for the duration of the call; the port copies what it keeps.
struct exec_env {
    const char *const *argv; // NULL-terminated, argv[0] looked up in PATH of `env` (or the default PATH) when it has no slash
    const char *const
        *env; // NULL-terminated "NAME=value", the whole environment; NULL = only PATH. May hold secrets: never logged, never in argv.
              // An instance gets _LIMPET_SHIM=<its directory, whose name is the uid> besides: by it, what a killed
              // supervisor left is found again
    const char *user, *group; // names or numbers; NULL = as the agent. A user that is in no password file needs a group, too
    const char *workdir;      // NULL = "/"
    struct rlimit_spec rlimits[RLIMITS_MAX];
    size_t n_rlimits;
};

// What the platform does by itself when an instance ends, or the machine boots, while no agent is there. With one, restarts are the kinds'
// business. Only a platform that outlives the agent knows such a thing (systemd); for others it has no meaning.
enum inst_restart { INST_RESTART_NO, INST_RESTART_ON_FAILURE, INST_RESTART_ALWAYS };

// Of an instance with all its processes; 0 = none. A platform that cannot hold them refuses the start with E_UNSUP.
struct inst_limits {
    int64_t memory;    // bytes
    int64_t cpu_milli; // thousandths of a processor
    int64_t pids;      // processes and threads
};

// Where the files of an instance come from, and when the registry is asked for them.
enum image_pull { IMAGE_PULL_ALWAYS, IMAGE_PULL_MISSING, IMAGE_PULL_NEVER };

struct inst_spec {
    const char *uid;   // unique for this start of this instance: [a-z0-9.-]+, shorter than INST_UID_MAX
    const char *owner; // cache key
    const char *revision;
    int index; // which replica
    struct exec_env exec;
    const char *log_name; // file name below the log directory without ".log"; survives restarts of the instance. NULL = uid
    int64_t log_max;      // bytes a file, 0 = 1 MiB
    int log_files;        // 0 = 2
    int64_t grace_ms;     // between SIGTERM and SIGKILL, 0 = 30 s
    const char *runtime;  // which platform, where there are several (port/runtimes.h); NULL = the node's default
    enum inst_restart restart;
    struct inst_limits limits;
    // Of a container: the files that it sees. Its PATH, user and directory are the image's where `exec` does not say.
    const char *image; // NULL = none
    bool entrypoint;   // argv takes the place of the image's entrypoint; else it is the arguments of that, and may be empty
};

// Is an image there to be started from? What a kubelet calls it stands beside.
enum image_state {
    IMAGE_READY,
    IMAGE_ASKED,   // the machine is being asked: Pending
    IMAGE_PULLING, // Pulling
    IMAGE_FAILED,  // ErrImagePull; tried again after a while: ImagePullBackOff
    IMAGE_ABSENT   // ErrImageNeverPull
};
struct image_view {
    enum image_state state;
    bool waits;    // IMAGE_FAILED: for its next try
    bool stale;    // IMAGE_READY: the registry could not be asked, the machine's own copy is used
    char why[200]; // for people; "" where there is nothing to say
};

enum inst_state {
    INST_STARTING, // accepted, no process yet
    INST_RUNNING,
    INST_STOPPING, // told to end, still there
    INST_EXITED    // ended; the record stays until forget()
};

struct inst_exit {
    bool known;       // false: ended, nobody saw how (supervisor killed)
    int code;         // exit code, -1 when ended by a signal
    int signal;       // 0 when not
    int start_errno;  // != 0: the process never ran: errno of fork/exec/chdir/setuid...
    char reason[64];  // "Completed", "Error", "OOMKilled", "StartError", "Unknown"
    char detail[160]; // human text: "exec /usr/bin/foo: No such file or directory"
};

struct inst {
    char uid[INST_UID_MAX], owner[INST_OWNER_MAX], revision[INST_REV_MAX];
    int index;
    enum inst_state state;
    int pid;      // 0 when none
    int restarts; // how often the platform restarted it by itself while no agent was looking
    struct instant started, ended;
    struct inst_exit exit; // valid in INST_EXITED
};

// A command that runs once, with a deadline and a bounded output (validate, onChange, exec probes).
struct port_run {
    struct exec_env exec; // borrowed until done
    // Borrowed until done; NULL = none. What this instance has for itself (files, environment, user of a container), the command has, too:
    // then of `exec` only argv counts. A command in a container that is cancelled or too late may go on there.
    const char *in_uid;
    int64_t timeout_ms; // then SIGKILL to its group and E_TIMEOUT; 0 = 30 s
    size_t output_max;  // bytes of stdout+stderr kept (the tail); the rest is counted
    struct buf output;  // the caller's, zero or buf_init()ed, to buf_fini() afterwards; filled by the port, its max is set to output_max
    // Result; valid in done():
    int code, signal; // exit code, -1 when ended by a signal; 0 when not
    uint64_t output_dropped;
    // e NULL: it ran and ended (see code); else E_TIMEOUT, or that it could not be executed (sys = errno). Never called after run_cancel.
    // It ends with its own process: what it left in the background goes on, but its output is no longer read. It dies with the agent.
    void (*done)(struct port_run *r, const struct err *e);
    struct port *by; // which of several platforms runs it (port/runtimes.h)
    void *impl;
};

// "Does it answer?" without running anything: an HTTP GET (200..399 is yes) or a TCP connect. A redirect is a yes and is not followed;
// a kubelet follows it within the same host and judges the target. The strings are borrowed for the duration of the call.
struct port_check {
    bool http;        // else TCP
    const char *host; // name or address; names are resolved from /etc/hosts only ("localhost"), else numeric
    int port;
    const char *path;                                        // http; NULL = "/"
    int64_t timeout_ms;                                      // 0 = 1 s
    void (*done)(struct port_check *c, const struct err *e); // e NULL: yes
    int status;                                              // http status seen, 0 = none
    void *impl;
};

struct port;
struct port_ops {
    const char *name; // "exec", "null", "fake"
    // Can this platform be used here? E_UNSUP says why not.
    int (*probe)(struct port *p, struct err *e);
    // After boot of the agent: finds what earlier agents started; changed() is called for each owner from the loop.
    int (*adopt)(struct port *p, struct err *e);
    // Observes: calls fn for each instance of owner (NULL = all), in order of (owner, index, start). fn != 0 stops and is returned.
    // fn only looks: it starts, stops and forgets nothing.
    int (*each)(struct port *p, const char *owner, int (*fn)(void *ctx, const struct inst *i), void *ctx, struct err *e);
    // E_INVAL, E_TOOBIG (spec), E_NOMEM, E_NOSPC, E_BUSY (process table full, too many instances). A program that cannot be executed is
    // not an error here: it is an INST_EXITED with start_errno.
    int (*start)(struct port *p, const struct inst_spec *s, struct err *e);
    // SIGTERM to the process group, after grace_ms SIGKILL to the group and to whatever it left behind. grace_ms < 0: that of its spec; 0:
    // SIGKILL at once. Asked again, an earlier end counts. Unknown uid: success.
    int (*stop)(struct port *p, const char *uid, int64_t grace_ms, struct err *e);
    int (*signal)(struct port *p, const char *uid, int sig, struct err *e); // E_NOTFOUND when not running
    int (*forget)(struct port *p, const char *uid, struct err *e);          // drops an ended instance's record; running: E_BUSY
    int (*run)(struct port *p, struct port_run *r, struct err *e);
    void (*run_cancel)(struct port *p, struct port_run *r); // SIGKILL; safe when not running
    int (*check)(struct port *p, struct port_check *c, struct err *e);
    void (*check_cancel)(struct port *p, struct port_check *c);
    // Appends at most `max` bytes of log_name's log from absolute offset *offset, then moves *offset. Offsets grow over rotations. Older
    // than kept: moved forward. Beyond the end, because the log was removed meanwhile: the oldest kept. *offset < 0: the last -*offset
    // bytes. E_NOTFOUND: no such log.
    int (*log_read)(struct port *p, const char *log_name, int64_t *offset, size_t max, struct buf *out, struct err *e);
    int (*log_remove)(struct port *p, const char *log_name, struct err *e); // absent is success
    // Is the image there, from which this revision of owner is to be started? Sees to it that it comes; changed() tells when there is news.
    // NULL: a platform without images.
    int (*image)(struct port *p, const char *owner, const char *revision, const char *image, enum image_pull pull, struct image_view *out,
                 struct err *e);
    void (*free)(struct port *p); // leaves every instance running
};

struct port {
    const struct port_ops *ops;
    // Set by the agent: something about an instance of owner changed (started, ended, adopted). Called from the loop.
    void (*changed)(void *ctx, const char *owner);
    void *ctx;
};

struct exec_port_conf {
    const char *run_dir; // instances live in <run_dir>/i/<uid>/
    const char *log_dir;
    const char *self;   // path of the limpet binary that can be run as `limpet shim`
    const char *cgroup; // directory of a control group for instances with limits; NULL or "" = look for one (port/groups.h)
};
// Can a supervisor be started here? Starts one that is told nothing and ends at once, and waits for that. Writes nothing. E_UNSUP, E_BUSY.
int port_exec_try(struct loop *l, const char *self, struct err *e) MUST_USE;
int port_exec_new(struct port **out, struct loop *l, struct disk *d, const struct exec_port_conf *c, struct err *e) MUST_USE;

struct systemd_port_conf {
    const char *unit_dir;  // for units that start at boot, with or without an agent: /etc/systemd/system
    const char *run_dir;   // records of the pokes in <run_dir>/units/
    const char *state_dir; // environments in <state_dir>/units/
    const char *self;      // path of, or link to, the limpet binary: systemd runs it as `limpet poke`
};
int port_systemd_here(struct err *e) MUST_USE; // is this machine run by systemd? E_UNSUP says why not
// `exec` runs systemctl, commands and checks; it stays the caller's and must outlive this one.
int port_systemd_new(struct port **out, struct port *exec, struct loop *l, struct disk *d, const struct systemd_port_conf *c,
                     struct err *e) MUST_USE;
struct container_port_conf {
    const char *tool;      // name or path of a podman or docker; "" or NULL = whichever is found, podman first
    const char *run_dir;   // records of this boot in <run_dir>/containers/
    const char *state_dir; // <state_dir>/containers/ is there once a container was
};
// Path of the tool. E_UNSUP: none.
enum { CONTAINER_TOOL_MAX = 256, CONTAINER_NAME_MAX = 256 };
int port_container_here(const char *tool, char path[CONTAINER_TOOL_MAX], struct err *e) MUST_USE;
// limpet-<name of the owner>-<uid>
void port_container_name(const char *owner, const char *uid, char out[CONTAINER_NAME_MAX]);
// Of what `TOOL --version` prints. E_UNSUP: too old, or no such tool.
int port_container_version(const char *said, struct err *e) MUST_USE;
// `exec` runs the tool, commands and checks; it stays the caller's and must outlive this one.
int port_container_new(struct port **out, struct port *exec, struct loop *l, struct disk *d, const struct container_port_conf *c,
                       struct err *e) MUST_USE;
int port_null_new(struct port **out, struct loop *l, struct err *e) MUST_USE; // accepts everything, does nothing, says so
int port_fake_new(struct port **out, struct loop *l, struct err *e) MUST_USE; // test/sim and unit tests; control by port_fake_*

// Fake control: what happens to instances. In the product library too: a dummy platform is a first-class build.
struct fake_behaviour {
    int64_t start_ms;  // STARTING -> RUNNING after this
    int64_t run_ms;    // ends by itself after this, < 0 = runs for ever
    int exit_code;     // with which it ends
    int64_t linger_ms; // so long after its end something that it left behind has to be ended: only then it is EXITED
    int64_t stop_ms;   // how long it takes to obey SIGTERM; longer than the grace: killed
    int start_errno;   // cannot be executed
    int run_code;      // exit code of port_run commands
    int64_t run_delay_ms;
    bool check_ok; // answer of port_check
};
void port_fake_behave(struct port *p, const char *owner, const struct fake_behaviour *b); // owner NULL = default for all
int port_fake_crash(struct port *p, const char *owner, int index, int code);              // ends a running one now; number of instances hit
int port_fake_lose(struct port *p, const char *owner, int index); // its supervisor is killed: it ends, and nobody saw how; number hit
// The instances outlive their agent: p is freed, callbacks under way are never made, and *successor is a new port over the same machine on
// loop `l` (the next agent's; the machine's time goes on meanwhile). E_NOMEM: as before.
int port_fake_agent_died(struct port *p, struct port **successor, struct loop *l, struct err *e) MUST_USE;
void port_fake_reboot(struct port *p); // everything is gone, as /run is

#endif
