// SPDX-License-Identifier: Apache-2.0
#include "shim/child.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/group.h"

enum { GROUPS_MAX = 256 };

struct child {
    const struct shim_spec *spec;
    struct spec_strings strings;
    int report_fd;
};

// "<text>: <strerror>" to the one who waits, and the end. errnum 0 in text = the text says it all.
static _Noreturn void fail(const struct child *c, int errnum, const char *what, const char *reason)
{
    struct shim_report r = { .err = errnum };
    snprintf(r.detail, sizeof(r.detail), "%s: %s", what, reason != NULL ? reason : strerror(errnum));
    for (char *p = r.detail; *p != '\0'; p++)
        if ((unsigned char)*p < ' ')
            *p = '?'; // it becomes a line of the exit record
    (void)!write(c->report_fd, &r, sizeof(r));
    _exit(127);
}

static _Noreturn void fail_named(const struct child *c, int errnum, const char *step, const char *name, const char *reason)
{
    char what[128]; // a long path loses its end, never the reason
    snprintf(what, sizeof(what), "%s %.90s", step, name);
    fail(c, errnum, what, reason);
}

// --- limits and signals

static const char *limit_name(int resource)
{
    static const char *const names[] = {
        [RLIMIT_CPU] = "cpu",       [RLIMIT_FSIZE] = "fsize",     [RLIMIT_DATA] = "data",
        [RLIMIT_STACK] = "stack",   [RLIMIT_CORE] = "core",       [RLIMIT_NPROC] = "nproc",
        [RLIMIT_NOFILE] = "nofile", [RLIMIT_MEMLOCK] = "memlock", [RLIMIT_AS] = "as",
    };
    bool known = resource >= 0 && (size_t)resource < ARRAY_LEN(names) && names[resource] != NULL;
    return known ? names[resource] : "?";
}

static rlim_t limit_value(int64_t n)
{
    return n < 0 ? RLIM_INFINITY : (rlim_t)n;
}

static void set_limits(const struct child *c, const struct rlimit *core)
{
    if (core != NULL)
        setrlimit(RLIMIT_CORE, core);
    for (uint32_t i = 0; i < c->spec->n_rlimits; i++) {
        const struct rlimit_spec *l = &c->spec->rlimits[i];
        struct rlimit r = { .rlim_cur = limit_value(l->soft), .rlim_max = limit_value(l->hard) };
        if (setrlimit(l->resource, &r) != 0)
            fail_named(c, errno, "resource limit", limit_name(l->resource), NULL);
    }
}

// Before anything of the command runs, and while we may.
static void enter_group(const struct child *c)
{
    int errnum = c->spec->cgroup[0] != '\0' ? group_enter(c->spec->cgroup) : 0;
    if (errnum != 0)
        fail_named(c, errnum, "control group", c->spec->cgroup, NULL);
}

// Blocked signals and ignored ones survive exec; a command expects neither.
static void reset_signals(void)
{
    sigset_t none;
    for (int s = 1; s < NSIG; s++)
        signal(s, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

// The agent may be protected from the OOM killer; what it starts must not be by inheritance.
static void reset_oom_score(void)
{
    char text[16] = "";
    AUTO_CLOSE int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && text[0] == '-')
        (void)!write(fd, "0", 1);
}

// --- user and groups

struct account {
    char buf[4096];   // where name lies
    const char *name; // NULL: not in the password file
    uid_t uid;
    gid_t gid;
    bool has_gid;
};

static bool number(const char *s, unsigned *out)
{
    char *end;
    errno = 0;
    unsigned long n = strtoul(s, &end, 10);
    // (uid_t)-1 means "no change" to the system calls.
    if (*s < '0' || *s > '9' || *end != '\0' || errno != 0 || n >= UINT_MAX)
        return false;
    *out = (unsigned)n;
    return true;
}

static void find_user(const struct child *c, struct account *a)
{
    struct passwd pw, *found = NULL;
    const char *user = c->spec->user;
    bool numeric = number(user, &a->uid);
    int r = numeric ? getpwuid_r(a->uid, &pw, a->buf, sizeof(a->buf), &found) : getpwnam_r(user, &pw, a->buf, sizeof(a->buf), &found);
    if (found == NULL && !numeric)
        fail_named(c, r != 0 ? r : ENOENT, "user", user, r != 0 ? NULL : "no such user");
    if (found == NULL)
        return;
    a->name = pw.pw_name;
    a->uid = pw.pw_uid;
    a->gid = pw.pw_gid;
    a->has_gid = true;
}

static void find_group(const struct child *c, struct account *a)
{
    char buf[8192];
    struct group gr, *found = NULL;
    const char *group = c->spec->group;
    a->has_gid = true;
    if (number(group, &a->gid))
        return;
    int r = getgrnam_r(group, &gr, buf, sizeof(buf), &found);
    if (found == NULL)
        fail_named(c, r != 0 ? r : ENOENT, "group", group, r != 0 ? NULL : "no such group");
    a->gid = gr.gr_gid;
}

static void set_groups(const struct child *c, const struct account *a)
{
    gid_t groups[GROUPS_MAX] = { a->gid };
    int n = GROUPS_MAX;
    if (a->name == NULL)
        n = 1;
    else if (getgrouplist(a->name, a->gid, groups, &n) < 0)
        n = GROUPS_MAX;
    if (setgroups((size_t)n, groups) != 0)
        fail(c, errno, "setgroups", NULL);
}

// A user given as a number that is in no password file has no group of its own, and a guess could be a privileged one.
static void change_user(const struct child *c)
{
    struct account a = { .uid = geteuid(), .gid = getegid() };
    bool has_user = c->spec->user[0] != '\0', has_group = c->spec->group[0] != '\0';
    if (has_user)
        find_user(c, &a);
    if (has_group)
        find_group(c, &a);
    if (has_user && !a.has_gid)
        fail_named(c, ENOENT, "user", c->spec->user, "not in the password file: set a group, too");
    if ((!has_user && !has_group) || (geteuid() != 0 && a.uid == geteuid() && a.gid == getegid()))
        return;
    set_groups(c, &a);
    if (setresgid(a.gid, a.gid, a.gid) != 0)
        fail(c, errno, "setgid", NULL);
    if (has_user && setresuid(a.uid, a.uid, a.uid) != 0)
        fail_named(c, errno, "setuid", c->spec->user, NULL);
}

// --- exec

static const char *path_of(char *const *env)
{
    for (; *env != NULL; env++)
        if (strncmp(*env, "PATH=", 5) == 0)
            return *env + 5;
    return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
}

// Tries the program in each directory of PATH. Unlike execvp(), what is no program is not given to a shell: the user should hear of it.
static int exec_in_path(const struct spec_strings *s)
{
    char file[PATH_MAX];
    int seen = ENOENT;
    for (const char *dir = path_of(s->env); *dir != '\0';) {
        size_t n = strcspn(dir, ":");
        int len = snprintf(file, sizeof(file), "%.*s/%s", (int)n, dir, s->argv[0]);
        if (n > 0 && len > 0 && (size_t)len < sizeof(file)) {
            execve(file, s->argv, s->env);
            if (errno == EACCES)
                seen = EACCES; // a later directory may have one that can be executed
            else if (errno != ENOENT && errno != ENOTDIR)
                return errno;
        }
        dir += n + (dir[n] == ':');
    }
    return seen;
}

static int exec_command(const struct spec_strings *s)
{
    if (strchr(s->argv[0], '/') == NULL)
        return exec_in_path(s);
    execve(s->argv[0], s->argv, s->env);
    return errno;
}

// Before the parent's death is watched it may have died already; then nobody waits for this command.
static void die_with_parent(const struct shim_spec *s)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != s->agent)
        _exit(127);
}

_Noreturn void child_exec(const struct shim_spec *s, int report_fd, const struct rlimit *core)
{
    struct child c = { .spec = s, .report_fd = report_fd };
    if (!spec_map(SPEC_FD, s, &c.strings))
        fail(&c, ENOMEM, "taking over the command", NULL);
    enter_group(&c);
    reset_oom_score();
    set_limits(&c, core);
    umask(022);
    change_user(&c);
    if (chdir(c.strings.workdir) != 0)
        fail_named(&c, errno, "chdir", c.strings.workdir, NULL);
    if (s->uid[0] == '\0')
        die_with_parent(s);
    reset_signals();
    int errnum = exec_command(&c.strings);
    fail_named(&c, errnum, "exec", c.strings.argv[0], NULL);
}
