// SPDX-License-Identifier: Apache-2.0
// What only the exec port has: processes, supervisors, directories, and all that can happen to them.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "rig.h"
#include "shim/proc.h"
#include "shim/record.h"
#include "tap.h"

static const char APP[] = "edgeapps/ns/app";

// Never to 0 or -1, which would mean ourselves or everybody.
static void send(int pid, int sig)
{
    ok(pid > 0 && kill(pid, sig) == 0, "signal %d is sent", sig);
}

static bool wait_dead(int pid)
{
    for (int i = 0; i < 3000 && rig_alive(pid); i++)
        usleep(10 * 1000);
    return !rig_alive(pid);
}

static int adopt(struct rig *r)
{
    struct err e = ERR_INIT;
    return r->port->ops->adopt(r->port, &e);
}

static bool script(struct rig *r, const char *uid, const char *text)
{
    struct err e = ERR_INIT;
    int rc = rig_script(r, uid, text, &e);
    return is_str(rc == 0 ? "" : e.msg, "", "%s starts", uid);
}

static bool read_state(struct rig *r, const char *uid, struct state_record *out)
{
    char file[128], text[RECORD_MAX];
    snprintf(file, sizeof(file), "run/i/%s/state", uid);
    snprintf(text, sizeof(text), "%s", rig_file(r, file));
    return state_parse(text, out);
}

static int pid_in(struct rig *r, const char *file)
{
    return (int)strtol(rig_file(r, file), NULL, 10);
}

// --- what an instance is given

static void surroundings(struct rig *r)
{
    struct inst i = { 0 };
    setenv("LEAK", "of the agent", 1);
    signal(SIGUSR2, SIG_IGN);
    int leak = open("/dev/null", O_RDONLY); // not close-on-exec, on purpose
    ok(script(r, "a",
              "exec >\"$RIG/out\" 2>&1; ls /proc/self/fd | wc -l; umask; pwd; grep -E '^Sig(Blk|Ign):|^Groups' /proc/self/status;"
              "awk '{print ($1==$5 && $1==$6) ? \"leader\" : \"not leader\"}' /proc/$$/stat; readlink /proc/self/fd/0"),
       "an instance looks around");
    ok(rig_until_exited(r, "a", &i), "ends");
    const char *out = rig_file(r, "out");
    ok(strncmp(out, "4\n", 2) == 0, "it has three descriptors (and ls its own)");
    has_str(out, "\n0022\n/\n", "umask 022, working directory /");
    has_str(out, "SigBlk:\t0000000000000000\n", "no signal blocked");
    const char *ignored = strstr(out, "SigIgn:\t");
    // 32 and 33 belong to the C library; glibc's posix_spawn leaves them ignored.
    ok(ignored != NULL && (strtoull(ignored + 8, NULL, 16) & ~(3ULL << 31)) == 0, "no signal ignored");
    has_str(out, "\nleader\n", "it leads its group and session");
    has_str(out, "/dev/null\n", "its input is empty");
    diag("%s", strncmp(out, "4\n", 2) == 0 ? "as it should be" : out);
    close(leak);
    signal(SIGUSR2, SIG_DFL);
}

static void environment(struct rig *r)
{
    static const char *const argv[] = { "sh", "-c", "tr '\\0' '\\n' </proc/$$/environ", NULL };
    struct inst_spec s = { .uid = "env-1", .owner = APP, .exec = { .argv = argv }, .log_name = "env" };
    struct inst i = { 0 };
    struct err e = ERR_INIT;
    struct buf b = BUF_INIT(4096);
    int64_t at = 0;
    is_int(rig_start_spec(r, &s, &e), 0, "env NULL");
    ok(rig_until_exited(r, "env-1", &i), "ends");
    is_int(r->port->ops->log_read(r->port, "env", &at, 4096, &b, &e), 0, "its environment");
    char want[512];
    snprintf(want, sizeof(want), "_LIMPET_SHIM=%s/i/env-1\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n",
             r->run_dir);
    is_str(buf_str(&b), want, "is its mark and PATH");
    buf_fini(&b);
}

// The user of the tests: in no password file, nobody else's.
enum { STRANGER = 54321 };

static void user_and_group(struct rig *r)
{
    static const struct {
        const char *user, *group, *id;
    } table[] = {
        { "nobody", NULL, "uid=65534(nobody) gid=65534(nogroup) groups=65534(nogroup)\n" },
        { "nobody", "daemon", "uid=65534(nobody) gid=1(daemon) groups=1(daemon)\n" },
        { "65534", NULL, "uid=65534(nobody) gid=65534(nogroup) groups=65534(nogroup)\n" },
        { "54321", "54321", "uid=54321 gid=54321 groups=54321\n" },
        { NULL, "1", "uid=0(root) gid=1(daemon) groups=1(daemon)" },
    };
    static const char *const argv[] = { "id", NULL };
    if (getuid() != 0) {
        skip("not root: users cannot be changed");
        return;
    }
    for (size_t k = 0; k < ARRAY_LEN(table); k++) {
        char uid[16] = "u-";
        struct inst i = { 0 };
        struct err e = ERR_INIT;
        struct buf b = BUF_INIT(4096);
        int64_t at = 0;
        uid[2] = (char)('0' + k);
        struct inst_spec s = { .uid = uid, .owner = APP, .exec = { .argv = argv, .user = table[k].user, .group = table[k].group } };
        is_int(rig_start_spec(r, &s, &e), 0, "user %s, group %s", table[k].user, table[k].group);
        ok(rig_until_exited(r, uid, &i), "ends");
        is_str(i.exit.detail, "", "without a complaint");
        ok(r->port->ops->log_read(r->port, uid, &at, 4096, &b, &e) == 0, "what it says");
        ok(strncmp(buf_str(&b), table[k].id, strlen(table[k].id)) == 0, "is %s", table[k].id);
        buf_fini(&b);
    }
}

static void limits(struct rig *r)
{
    static const char *const argv[] = { "sh", "-c", "ulimit -Sn; ulimit -Hn; ulimit -Sc", NULL };
    struct rlimit core = { 0 }, was;
    struct inst_spec s = { .uid = "lim", .owner = APP, .exec = { .argv = argv } };
    struct inst i = { 0 };
    struct err e = ERR_INIT;
    struct buf b = BUF_INIT(4096);
    int64_t at = 0;
    getrlimit(RLIMIT_CORE, &was);
    core = (struct rlimit){ 2048 * 512, was.rlim_max };
    bool raised = setrlimit(RLIMIT_CORE, &core) == 0;
    s.exec.rlimits[0] = (struct rlimit_spec){ .resource = RLIMIT_NOFILE, .soft = 77, .hard = 99 };
    s.exec.n_rlimits = 1;
    is_int(rig_start_spec(r, &s, &e), 0, "an instance with a limit");
    ok(rig_until_exited(r, "lim", &i), "ends");
    is_int(r->port->ops->log_read(r->port, "lim", &at, 4096, &b, &e), 0, "what it says");
    ok(strncmp(buf_str(&b), "77\n99\n", 6) == 0, "the limit is set");
#ifdef __SANITIZE_ADDRESS__
    raised = false; // the sanitizer's start-up sets it to 0
#endif
    if (raised)
        has_str(buf_str(&b), "\n2048\n", "its core limit is the agent's, though the shim's is 0");
    setrlimit(RLIMIT_CORE, &was);
    buf_fini(&b);
}

// --- secrets

static bool has_bytes(const char *p, size_t n, const char *s)
{
    return memmem(p, n, s, strlen(s)) != NULL;
}

// Every readable page of a process.
static bool memory_has(int pid, const char *s)
{
    char path[64], line[512];
    static char page[1 << 20];
    bool found = false;
    snprintf(path, sizeof(path), "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "re");
    snprintf(path, sizeof(path), "/proc/%d/mem", pid);
    AUTO_CLOSE int mem = open(path, O_RDONLY | O_CLOEXEC);
    while (maps != NULL && mem >= 0 && fgets(line, sizeof(line), maps) != NULL) {
        unsigned long from, to;
        char mode;
        if (sscanf(line, "%lx-%lx %c", &from, &to, &mode) != 3 || mode != 'r')
            continue;
        for (unsigned long at = from; at < to && !found; at += sizeof(page)) {
            ssize_t n = pread(mem, page, MIN(to - at, sizeof(page)), (off_t)at);
            found = n > 0 && has_bytes(page, (size_t)n, s);
        }
    }
    if (maps != NULL)
        fclose(maps);
    return found;
}

static bool file_has(int pid, const char *name, const char *s)
{
    char path[64], text[65536];
    snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text));
    return n > 0 && has_bytes(text, (size_t)n, s);
}

static bool dir_has(const char *dir, const char *s)
{
    bool found = false;
    DIR *d = opendir(dir);
    for (struct dirent *de; d != NULL && (de = readdir(d)) != NULL;) {
        char text[8192];
        AUTO_CLOSE int fd = openat(dirfd(d), de->d_name, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text));
        found = found || (n > 0 && has_bytes(text, (size_t)n, s));
    }
    if (d != NULL)
        closedir(d);
    return found;
}

static void secrets(struct rig *r)
{
    static const char *const argv[] = { "/bin/sh", "-c", "echo on >>\"$RIG/on\"; exec sleep 1000", NULL };
    char where[256], secret[64], dir[512];
    // Not a literal: this program is also the shim, which has all its literals in memory.
    snprintf(secret, sizeof(secret), "PASSWORD=%x-%s", 0xabcdef, "hunter");
    snprintf(where, sizeof(where), "RIG=%s", r->dir);
    const char *env[] = { "PATH=/usr/bin:/bin", where, secret, NULL };
    struct inst_spec s = { .uid = "sec", .owner = APP, .exec = { .argv = argv, .env = env } };
    struct state_record st = { .index = 0 };
    struct err e = ERR_INIT;
    struct stat mode;
    struct rlimit was;
    getrlimit(RLIMIT_CORE, &was);
    setrlimit(RLIMIT_CORE, &(struct rlimit){ was.rlim_max, was.rlim_max }); // as an agent that leaves cores
    is_int(rig_start_spec(r, &s, &e), 0, "an instance with a secret");
    setrlimit(RLIMIT_CORE, &was);
    ok(rig_until_state(r, "sec", INST_RUNNING) && rig_until_file(r, "on", 1) && read_state(r, "sec", &st), "runs");
    ok(memory_has(st.child_pid, secret), "the instance has it (so the search works)");
#ifdef __SANITIZE_ADDRESS__
    skip("the memory of a sanitized shim is terabytes of shadow");
#else
    ok(!memory_has(st.shim_pid, secret), "its shim does not have it in memory");
#endif
    ok(!file_has(st.shim_pid, "environ", "="), "the shim has no environment");
    ok(file_has(st.shim_pid, "cmdline", "sec") && !file_has(st.shim_pid, "cmdline", "sleep"), "its title tells the uid, and no argument");
    ok(file_has(st.shim_pid, "comm", "limpet-shim"), "its name");
    snprintf(dir, sizeof(dir), "%s/i/sec", r->run_dir);
    ok(!dir_has(dir, "hunter"), "no file of its directory has it");
    ok(stat(dir, &mode) == 0 && (mode.st_mode & 07777) == 0700, "which nobody else may enter");
    ok(file_has(st.shim_pid, "limits", "Max core file size        0 "), "the shim leaves no core");
    snprintf(dir, sizeof(dir), "/proc/%d/fd/3", st.shim_pid);
    ssize_t n = readlink(dir, where, sizeof(where));
    ok(n < 0 || !has_bytes(where, (size_t)n, "limpet-spec"), "the shim has let go of the memory file");
}

// --- field 28

struct start_case {
    const char *name;
    const char *argv0;
    const char *user, *group, *workdir;
    int resource;
    int err;
    const char *detail;
};

static void make_file(struct rig *r, const char *name, const char *text, mode_t mode)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", r->dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, mode);
    ok(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && fchmod(fd, mode) == 0, "a file %s", name);
    close(fd);
}

static void cannot_be_executed(struct rig *r)
{
    char garbage[300], plain[300], directory[300];
    make_file(r, "garbage", "\x01\x02\x03 not a program\n", 0755);
    make_file(r, "plain", "#!/bin/sh\n", 0644);
    snprintf(garbage, sizeof(garbage), "%s/garbage", r->dir);
    snprintf(plain, sizeof(plain), "%s/plain", r->dir);
    snprintf(directory, sizeof(directory), "%s", r->dir);
    const struct start_case table[] = {
        { "exec format error", garbage, .err = ENOEXEC, .detail = "garbage: Exec format error" },
        { "no such program", "/nonexistent", .err = ENOENT, .detail = "exec /nonexistent: No such file or directory" },
        { "not in PATH", "no-such-program", .err = ENOENT, .detail = "exec no-such-program: No such file or directory" },
        { "not executable", plain, .err = EACCES, .detail = "Permission denied" },
        { "a directory", directory, .err = EACCES, .detail = "Permission denied" },
        { "no such user", "/bin/true", .user = "nosuch", .err = ENOENT, .detail = "user nosuch: no such user" },
        { "no such group", "/bin/true", .group = "nosuch", .err = ENOENT, .detail = "group nosuch: no such group" },
        { "a number without a group", "/bin/true", .user = "54321", .err = ENOENT,
          .detail = "user 54321: not in the password file: set a group, too" },
        { "user -1", "/bin/true", .user = "4294967295", .group = "1", .err = ENOENT, .detail = "user 4294967295: no such user" },
        { "no such directory", "/bin/true", .workdir = "/nonexistent/x", .err = ENOENT,
          .detail = "chdir /nonexistent/x: No such file or directory" },
        { "an impossible limit", "/bin/true", .resource = 12345, .err = EINVAL, .detail = "resource limit ?: Invalid argument" },
    };
    for (size_t k = 0; k < ARRAY_LEN(table); k++) {
        const struct start_case *c = &table[k];
        const char *argv[] = { c->argv0, NULL };
        char uid[16] = "x-a";
        struct inst i = { 0 };
        struct err e = ERR_INIT;
        uid[2] = (char)('a' + k);
        struct inst_spec s = { .uid = uid,
                               .owner = APP,
                               .exec = { .argv = argv, .user = c->user, .group = c->group, .workdir = c->workdir } };
        s.exec.rlimits[0] = (struct rlimit_spec){ .resource = c->resource, .soft = 1, .hard = 1 };
        s.exec.n_rlimits = c->resource != 0;
        is_int(rig_start_spec(r, &s, &e), 0, "field 28: %s: is no error of start()", c->name);
        ok(rig_until_exited(r, uid, &i), "field 28: %s: ends", c->name);
        is_int(i.exit.start_errno, c->err, "field 28: %s: its errno", c->name);
        has_str(i.exit.detail, c->detail, "field 28: %s: in words", c->name);
        ok(i.exit.known && i.exit.code == -1 && i.exit.signal == 0, "field 28: %s: it never ran", c->name);
        is_str(i.exit.reason, "StartError", "field 28: %s: reason", c->name);
    }
}

struct answer {
    int rc, start_errno;
    char detail[200];
};

// A child that is an agent of its own: a user without rights may have so many processes and no more.
static void limited_agent(struct rig *r, const char *uid, rlim_t processes, struct answer *a)
{
    struct err e = ERR_INIT;
    struct inst i = { 0 };
    struct rlimit l = { processes, processes };
    char path[512];
    snprintf(path, sizeof(path), "%s/i", r->run_dir);
    a->rc = -101;
    if (chmod(r->dir, 0755) != 0 || chmod(r->run_dir, 0755) != 0 || chown(path, STRANGER, STRANGER) != 0 ||
        chown(r->log_dir, STRANGER, STRANGER) != 0 || !rig_new_agent(r))
        return;
    if (setgroups(0, NULL) != 0 || setgid(STRANGER) != 0 || setuid(STRANGER) != 0 || setrlimit(RLIMIT_NPROC, &l) != 0)
        return;
    a->rc = rig_start(r, uid, APP, 0, RUNS, &e);
    if (a->rc == 0 && rig_until_exited(r, uid, &i)) {
        a->start_errno = i.exit.start_errno;
        snprintf(a->detail, sizeof(a->detail), "%s", i.exit.detail);
    } else {
        snprintf(a->detail, sizeof(a->detail), "%.150s", e.msg);
    }
}

static void try_limited(struct rig *r, const char *uid, rlim_t processes, struct answer *a)
{
    int p[2];
    *a = (struct answer){ .rc = -100 };
    ok(pipe(p) == 0, "a pipe");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        limited_agent(r, uid, processes, a);
        (void)!write(p[1], a, sizeof(*a));
        _exit(0);
    }
    close(p[1]);
    (void)!read(p[0], a, sizeof(*a));
    close(p[0]);
    waitpid(pid, NULL, 0);
}

static void process_table_full(struct rig *r)
{
    struct answer a;
    if (getuid() != 0) {
        skip("field 28: not root: no other user to be limited");
        return;
    }
    try_limited(r, "one", 1, &a);
    is_int(a.rc, E_BUSY, "field 28: no process for the shim: E_BUSY (%s)", a.detail);
    try_limited(r, "two", 2, &a);
    is_int(a.rc, 0, "field 28: a process for the shim, none for the instance: accepted");
    is_int(a.start_errno, EAGAIN, "field 28: and ended with EAGAIN");
    has_str(a.detail, "fork: Resource temporarily unavailable", "field 28: in words");
}

// --- ending

static void leaves_nobody_behind(struct rig *r)
{
    struct inst i = { 0 };
    ok(script(r, "a",
              "sleep 1000 & echo $! >\"$RIG/group\"; setsid sh -c 'echo $$ >\"$RIG/daemon\"; trap \"\" TERM; sleep 1000 & wait' &"
              "while [ ! -s \"$RIG/daemon\" ]; do sleep 0.02; done; echo on >>\"$RIG/on\"; wait"),
       "an instance with a child and a daemon");
    ok(rig_until_file(r, "on", 1), "runs");
    int child = pid_in(r, "group"), daemon = pid_in(r, "daemon");
    ok(rig_alive(child) && rig_alive(daemon), "both are there");
    is_int(rig_stop(r, "a", 60 * 1000), 0, "is told to stop");
    ok(rig_until_exited(r, "a", &i), "ends");
    ok(!rig_alive(child), "its child has ended when that is told");
    ok(!rig_alive(daemon), "and so has the daemon, though it has its own session");
}

static void exit_takes_the_rest_along(struct rig *r)
{
    struct inst i = { 0 };
    ok(script(r, "a", "setsid sleep 1000 & echo $! >\"$RIG/pid\"; exit 5"), "an instance that leaves a daemon and exits");
    ok(rig_until_exited(r, "a", &i), "ends");
    is_int(i.exit.code, 5, "with its code");
    ok(!rig_alive(pid_in(r, "pid")), "the daemon has ended when that is told");
}

// With a handler for SIGTERM: without one the kernel ends even a stopped process.
static void stopped_process_sees_term(struct rig *r)
{
    struct inst i = { 0 };
    ok(script(r, "a", "trap 'exit 8' TERM; echo on >>\"$RIG/on\"; while :; do sleep 0.05; done"), "an instance");
    ok(rig_until_file(r, "on", 1) && rig_until_state(r, "a", INST_RUNNING) && rig_inst(r, "a", &i), "runs");
    send(i.pid, SIGSTOP);
    is_int(rig_stop(r, "a", 20 * 1000), 0, "is stopped by SIGSTOP and told to end");
    ok(rig_until_exited(r, "a", &i), "ends");
    is_int(i.exit.code, 8, "by its handler");
}

// An agent that does not know what an earlier one asked for asks for more time.
static void later_end_does_not_count(struct rig *r)
{
    struct inst i = { 0 };
    struct state_record st = { .index = 0 };
    ok(script(r, "a", "trap 'echo term >>\"$RIG/term\"' TERM; echo on >>\"$RIG/on\"; while :; do sleep 0.05; done"), "an instance");
    ok(rig_until_file(r, "on", 1) && read_state(r, "a", &st), "that does not obey");
    is_int(rig_stop(r, "a", 1000), 0, "is told to stop within a second");
    ok(rig_until_file(r, "term", 1), "and hears it");
    make_file(r, "run/i/a/grace", "3600000\n", 0600);
    send(st.shim_pid, SIGTERM);
    ok(rig_until_exited(r, "a", &i), "and again, within an hour: the earlier end counts");
    is_int(i.exit.signal, SIGKILL, "by SIGKILL");
}

// Room for the directory, its lock and the agent's own note, and no more. In a mount namespace of a child that is an agent.
static int agent_on_full_run(struct rig *r, struct inst *out)
{
    char path[512];
    struct err e = ERR_INIT;
    snprintf(path, sizeof(path), "%s/i", r->run_dir);
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", path, "tmpfs", 0, "nr_inodes=4") != 0)
        return -100;
    if (!rig_new_agent(r))
        return -101;
    int rc = rig_script(r, "a", "echo ran >>\"$RIG/ran\"", &e);
    if (rc == 0 && !rig_until_exited(r, "a", out))
        rc = -102;
    umount2(path, MNT_DETACH);
    return rc;
}

static void run_directory_full(struct rig *r)
{
    struct {
        int rc;
        struct inst i;
    } a = { .rc = -103 };
    int p[2];
    ok(pipe(p) == 0, "a pipe");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        a.rc = agent_on_full_run(r, &a.i);
        (void)!write(p[1], &a, sizeof(a));
        _exit(0);
    }
    close(p[1]);
    (void)!read(p[0], &a, sizeof(a));
    close(p[0]);
    waitpid(pid, NULL, 0);
    if (a.rc == -100) {
        skip("field 28: no mount namespace here");
        return;
    }
    is_int(a.rc, 0, "field 28: /run is full: the start is accepted and ends");
    is_int(a.i.exit.start_errno, ENOSPC, "field 28: with ENOSPC");
    has_str(a.i.exit.detail, "writing the state", "field 28: in words");
    is_int(rig_lines(r, "ran"), 0, "field 28: what could not be written down was not executed");
}

// --- field 32: the supervisor is killed

static const char FAMILY[] =
    "echo x >>\"$RIG/starts\"; sleep 1000 & echo $! >\"$RIG/group\"; setsid sh -c 'echo $$ >\"$RIG/daemon\"; exec sleep 1000' &"
    "while [ ! -s \"$RIG/daemon\" ]; do sleep 0.02; done; echo on >>\"$RIG/on\"; wait";

static void supervisor_killed(struct rig *r)
{
    struct inst i = { 0 };
    struct state_record st = { .index = 0 };
    ok(script(r, "a", FAMILY), "an instance with a child and a daemon");
    ok(rig_until_file(r, "on", 1) && read_state(r, "a", &st), "runs");
    int child = pid_in(r, "group"), daemon = pid_in(r, "daemon");
    ok(rig_alive(st.child_pid) && rig_alive(child) && rig_alive(daemon), "field 32: three processes");
    send(st.shim_pid, SIGKILL);
    ok(rig_until_exited(r, "a", &i), "field 32: that the supervisor was killed is noticed");
    ok(!i.exit.known, "field 32: nobody knows how it ended");
    is_str(i.exit.reason, "Unknown", "field 32: reason");
    ok(!rig_alive(st.child_pid) && !rig_alive(child) && !rig_alive(daemon), "field 32: nobody of it is left when that is told");
    ok(script(r, "b", FAMILY), "it can be started again");
    ok(rig_until_file(r, "on", 2), "runs");
    is_int(rig_lines(r, "starts"), 2, "field 32: was started once more, not more often");
    is_int(rig_forget(r, "a"), 0, "the first is forgotten");
}

static void supervisor_killed_without_agent(struct rig *r)
{
    struct inst i = { 0 };
    struct state_record st = { .index = 0 };
    ok(script(r, "a", FAMILY), "an instance with a child and a daemon");
    ok(rig_until_file(r, "on", 1) && read_state(r, "a", &st), "runs");
    int child = pid_in(r, "group"), daemon = pid_in(r, "daemon");
    ok(rig_new_agent(r), "the agent dies");
    send(st.shim_pid, SIGKILL);
    ok(wait_dead(st.shim_pid), "then the supervisor");
    is_int(adopt(r), 0, "another agent comes");
    ok(rig_until_exited(r, "a", &i), "field 32: finds out");
    ok(!i.exit.known, "field 32: not how it ended");
    ok(!rig_alive(st.child_pid) && !rig_alive(child) && !rig_alive(daemon), "field 32: and ends what is left");
    ok(rig_new_agent(r) && adopt(r) == 0 && rig_until_exited(r, "a", &i), "field 32: the next agent finds it ended");
    ok(!i.exit.known, "field 32: in the same way");
}

// The main process is gone, its daemon in another session is not: only the mark in its environment tells.
static void orphan_is_found(struct rig *r)
{
    struct inst i = { 0 };
    struct state_record st = { .index = 0 };
    ok(script(r, "a", FAMILY), "an instance with a child and a daemon");
    ok(rig_until_file(r, "on", 1) && read_state(r, "a", &st), "runs");
    int child = pid_in(r, "group"), daemon = pid_in(r, "daemon");
    ok(rig_new_agent(r), "the agent dies");
    send(st.shim_pid, SIGKILL);
    ok(wait_dead(st.shim_pid), "then the supervisor");
    send(st.child_pid, SIGKILL);
    ok(wait_dead(st.child_pid), "then the main process");
    ok(rig_alive(child) && rig_alive(daemon), "two are left");
    is_int(adopt(r), 0, "another agent comes");
    ok(rig_until_exited(r, "a", &i), "field 32: finds out");
    ok(!rig_alive(child) && !rig_alive(daemon), "field 32: and ends them");
}

// --- field 27: a pid that means somebody else by now

static int innocent(void)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        execlp("sleep", "sleep", "1000", (char *)NULL);
        _exit(1);
    }
    for (int i = 0; i < 1000 && !file_has(pid, "cmdline", "sleep"); i++)
        usleep(1000);
    return pid;
}

static void end_innocent(int pid)
{
    send(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void write_dir(struct rig *r, const char *uid, const struct state_record *st)
{
    char path[512], text[RECORD_MAX];
    snprintf(path, sizeof(path), "%s/i/%s", r->run_dir, uid);
    ok(mkdir(path, 0700) == 0, "a directory %s", uid);
    AUTO_CLOSE int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (st != NULL)
        ok(state_format(st, text) && record_write(dir, SHIM_STATE, text) == 0, "and its state");
}

static struct state_record state_of(struct rig *r, const char *uid, int pid, int64_t start)
{
    struct state_record st = { .shim_pid = pid, .shim_start = start, .child_pid = pid, .child_start = start };
    snprintf(st.uid, sizeof(st.uid), "%s", uid);
    snprintf(st.owner, sizeof(st.owner), "%s", APP);
    clock_instant(&r->clock, &st.started);
    return st;
}

static void pid_reused(struct rig *r)
{
    struct inst i = { 0 };
    int pid = innocent();
    struct state_record st = state_of(r, "old", pid, proc_start(pid) - 1);
    write_dir(r, "old", &st);
    is_int(adopt(r), 0, "an agent finds the state of an instance whose pids others have now");
    ok(rig_until_exited(r, "old", &i), "field 27: that instance has ended");
    ok(!i.exit.known, "field 27: nobody knows how");
    ok(rig_alive(pid), "field 27: who has its pid now lives");
    struct err e = ERR_INIT;
    is_int(r->port->ops->signal(r->port, "old", SIGKILL, &e), E_NOTFOUND, "field 27: and gets no signal");
    ok(rig_alive(pid), "field 27: and lives");
    is_int(rig_forget(r, "old"), 0, "the old one is forgotten");
    end_innocent(pid);
}

static void earlier_boot(struct rig *r)
{
    int pid = innocent();
    struct state_record st = state_of(r, "boot", pid, proc_start(pid));
    char path[512];
    memset(st.started.boot_id, '0', 8);
    write_dir(r, "boot", &st);
    is_int(adopt(r), 0, "an agent finds a state of an earlier boot, with pids and start times that fit");
    is_int(rig_state(r, "boot"), -1, "field 27: there is no such instance");
    snprintf(path, sizeof(path), "%s/i/boot", r->run_dir);
    ok(access(path, F_OK) != 0, "field 27: its directory is cleared away");
    ok(rig_alive(pid), "field 27: who has its pid lives");
    end_innocent(pid);
}

// --- field 21: agents that die at any point

// A whole agent in a process of its own, killed while its instance runs.
static void agent_killed(struct rig *r)
{
    struct inst i = { 0 };
    struct state_record st = { .index = 0 };
    fflush(stdout);
    pid_t agent = fork();
    if (agent == 0) {
        struct err e = ERR_INIT;
        if (rig_new_agent(r) &&
            rig_script(r, "a", "echo one; echo on >>\"$RIG/on\"; while [ ! -e \"$RIG/go\" ]; do sleep 0.05; done; echo two; exit 6", &e) ==
                0 &&
            rig_until_state(r, "a", INST_RUNNING))
            kill(getpid(), SIGKILL);
        _exit(1);
    }
    int status = 0;
    waitpid(agent, &status, 0);
    ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "field 21: an agent is killed while its instance runs");
    ok(rig_until_file(r, "on", 1) && read_state(r, "a", &st) && rig_alive(st.child_pid), "field 21: which goes on");
    ok(rig_new_agent(r) && adopt(r) == 0, "field 21: another agent adopts");
    ok(rig_inst(r, "a", &i) && i.state == INST_RUNNING && i.pid == st.child_pid, "field 21: the same process");
    make_file(r, "go", "", 0644);
    ok(rig_until_exited(r, "a", &i), "field 21: sees its end");
    ok(i.exit.known && i.exit.code == 6, "field 21: and its exit code");
    struct buf b = BUF_INIT(4096);
    struct err e = ERR_INIT;
    int64_t at = 0;
    is_int(r->port->ops->log_read(r->port, "a", &at, 100, &b, &e), 0, "field 21: its log");
    is_str(buf_str(&b), "one\ntwo\n", "field 21: is whole");
    buf_fini(&b);
}

static void half_made(struct rig *r)
{
    char path[512];
    struct state_record st = state_of(r, "intent", 0, 0);
    write_dir(r, "bare", NULL);
    write_dir(r, "intent", &st);
    is_int(adopt(r), 0, "field 21: an agent finds directories of starts that never came to be");
    is_int(rig_count(r, NULL), 0, "field 21: there is no instance");
    snprintf(path, sizeof(path), "%s/i/bare", r->run_dir);
    ok(access(path, F_OK) != 0, "field 21: without a state: cleared away");
    snprintf(path, sizeof(path), "%s/i/intent", r->run_dir);
    ok(access(path, F_OK) != 0, "field 21: with an intent: cleared away");
    struct err e = ERR_INIT;
    is_int(rig_start(r, "bare", APP, 0, RUNS, &e), 0, "its uid can be started");
    ok(rig_until_state(r, "bare", INST_RUNNING), "runs");
}

// The shim of the other agent has its lock, but has not yet said anything.
static void being_started(struct rig *r)
{
    char path[512];
    struct state_record st = state_of(r, "busy", 0, 0);
    struct err e = ERR_INIT;
    write_dir(r, "busy", &st);
    snprintf(path, sizeof(path), "%s/i/busy/lock", r->run_dir);
    int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ok(lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0, "a start under way");
    is_int(adopt(r), 0, "an agent finds it");
    is_int(rig_state(r, "busy"), INST_STARTING, "field 21: it is starting");
    is_int(rig_start(r, "busy", APP, 0, RUNS, &e), 0, "field 21: and is not started a second time");
    rig_turns(r, 5);
    is_int(rig_state(r, "busy"), INST_STARTING, "field 21: as long as the lock is held");
    close(lock);
    struct inst i = { 0 };
    ok(rig_until_exited(r, "busy", &i), "field 21: when the lock is free and nobody said anything it has ended");
    ok(!i.exit.known && i.pid == 0, "field 21: nothing ran");
}

static void not_understood(struct rig *r)
{
    char path[512];
    write_dir(r, "odd", NULL);
    snprintf(path, sizeof(path), "run/i/odd/state");
    make_file(r, path, "limpet-state 99\nsomething of the future\n", 0600);
    is_int(adopt(r), 0, "an agent finds a state that it does not understand");
    is_int(rig_count(r, NULL), 0, "it is no instance");
    snprintf(path, sizeof(path), "%s/i/odd/state", r->run_dir);
    ok(access(path, F_OK) == 0, "field 21: and is left alone");
    struct err e = ERR_INIT;
    is_int(rig_start(r, "odd", APP, 0, RUNS, &e), E_BUSY, "field 21: nothing is started in its place");
}

static void two_agents(struct rig *r)
{
    struct port *mine = r->port, *other = NULL;
    struct exec_port_conf c = { .run_dir = r->run_dir, .log_dir = r->log_dir, .self = "/proc/self/exe" };
    struct err e = ERR_INIT;
    is_int(port_exec_new(&other, r->loop, r->disk, &c, &e), 0, "field 21: a second agent on the same directories");
    ok(script(r, "a", "echo x >>\"$RIG/starts\"; echo on >>\"$RIG/on\"; exec sleep 1000"), "the first starts an instance");
    r->port = other;
    ok(script(r, "a", "echo x >>\"$RIG/starts\"; echo on >>\"$RIG/on\"; exec sleep 1000"), "the second the same");
    ok(rig_until_file(r, "on", 1) && rig_until_state(r, "a", INST_RUNNING), "it runs for both");
    is_int(rig_lines(r, "starts"), 1, "field 21: once");
    is_int(rig_stop(r, "a", 0), 0, "the second stops it");
    ok(rig_until_state(r, "a", INST_EXITED), "it has ended for the second");
    r->port = mine;
    ok(rig_until_state(r, "a", INST_EXITED), "and for the first");
    other->ops->free(other);
}

// --- the size of a shim

static long field_kb(const char *text, const char *name)
{
    const char *p = strstr(text, name);
    return p != NULL ? strtol(p + strlen(name), NULL, 10) : 0;
}

static long private_kb(int pid)
{
    char path[64], text[4096] = "";
    snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pid);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
        return -1;
    return field_kb(text, "Private_Clean:") + field_kb(text, "Private_Dirty:");
}

static void footprint(struct rig *r)
{
    enum { N = 8 };
    long sum = 0, most = 0;
    for (int k = 0; k < N; k++) {
        char uid[8] = "m-0", file[8] = "on0";
        uid[2] = file[2] = (char)('0' + k);
        char text[128];
        snprintf(text, sizeof(text), "echo hello; echo on >>\"$RIG/%s\"; exec sleep 1000", file);
        ok(script(r, uid, text) && rig_until_state(r, uid, INST_RUNNING) && rig_until_file(r, file, 1), "instance %d runs and prints", k);
    }
    usleep(300 * 1000);
    for (int k = 0; k < N; k++) {
        char uid[8] = "m-0";
        struct state_record st = { .index = 0 };
        uid[2] = (char)('0' + k);
        long kb = read_state(r, uid, &st) ? private_kb(st.shim_pid) : -1;
        ok(kb > 0, "the memory of shim %d is read", k);
        sum += kb;
        most = MAX(most, kb);
    }
    diag("a shim: private memory %ld KB on average, %ld KB at most (in this test program)", sum / N, most);
#ifndef __SANITIZE_ADDRESS__
    ok(most <= 150, "a shim has at most 150 KB of its own");
#endif
}

static const struct {
    const char *name;
    void (*fn)(struct rig *r);
} cases[] = {
    { "surroundings", surroundings },
    { "environment", environment },
    { "user and group", user_and_group },
    { "limits", limits },
    { "secrets", secrets },
    { "field 28: what cannot be executed", cannot_be_executed },
    { "field 28: the process table is full", process_table_full },
    { "leaves nobody behind", leaves_nobody_behind },
    { "an exit takes the rest along", exit_takes_the_rest_along },
    { "a stopped process sees SIGTERM", stopped_process_sees_term },
    { "a later end does not count", later_end_does_not_count },
    { "field 28: the run directory is full", run_directory_full },
    { "field 32: the supervisor is killed", supervisor_killed },
    { "field 32: the supervisor is killed while no agent is there", supervisor_killed_without_agent },
    { "field 32: an orphan is found", orphan_is_found },
    { "field 27: a pid was given again", pid_reused },
    { "field 27: an earlier boot", earlier_boot },
    { "field 21: the agent is killed", agent_killed },
    { "field 21: half-made directories", half_made },
    { "field 21: a start under way", being_started },
    { "field 21: a state from the future", not_understood },
    { "field 21: two agents", two_agents },
    { "the size of a shim", footprint },
};

int main(int argc, char **argv)
{
    RIG_MAIN(argc, argv);
    for (size_t c = 0; c < ARRAY_LEN(cases); c++) {
        struct rig r;
        if (argc > 1 && strcmp(argv[1], cases[c].name) != 0)
            continue;
        diag("%s", cases[c].name);
        if (!ok(rig_init(&r, "exec"), "exec: is made"))
            continue;
        cases[c].fn(&r);
        rig_fini(&r);
    }
    return done_testing();
}
