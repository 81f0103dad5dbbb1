// SPDX-License-Identifier: Apache-2.0
#include "port/groups.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/log.h"
#include "shim/group.h"

#define LEAF "agent" // where we and our supervisors are: a group has either processes or limited groups below it
#define COMPANION "limpet-apps.service"
#define CONTROL "cgroup.subtree_control"

enum { EVACUATE_ROUNDS = 16 };

void groups_init(struct groups *g, const char *configured, const char *run_dir)
{
    *g = (struct groups){ .proc = "/proc" };
    snprintf(g->configured, sizeof(g->configured), "%s",
             configured != NULL ? configured : ""); // one that is cut off is refused as too long
    const char *from = strncmp(run_dir, "/run/", 5) == 0 ? run_dir + 5 : run_dir + strspn(run_dir, "/");
    snprintf(g->name, sizeof(g->name), "%s", *from != '\0' ? from : "limpet");
    for (char *c = g->name; *c != '\0'; c++)
        if (*c == '/')
            *c = '-';
    g->systemd = port_systemd_here(NULL) == 0;
}

void groups_path(const struct groups *g, const char *uid, char out[SPEC_PATH_MAX])
{
    snprintf(out, SPEC_PATH_MAX, "%.*s/%s", SPEC_PATH_MAX - INST_UID_MAX - 2, g->dir, uid);
}

static int join(char out[SPEC_PATH_MAX], const char *dir, const char *name, struct err *e)
{
    int n = snprintf(out, SPEC_PATH_MAX, "%s/%s", strcmp(dir, "/") == 0 ? "" : dir, name);
    if (n < 0 || n >= SPEC_PATH_MAX - INST_UID_MAX - 1)
        return err_set(e, E_UNSUP, "the path of the control group %.80s/%.80s is too long", dir, name);
    return 0;
}

// --- where the hierarchy is, and where we are in it

struct place {
    char mount[SPEC_PATH_MAX], root[SPEC_PATH_MAX]; // the mount, and which group of the hierarchy it shows
    char own[SPEC_PATH_MAX];                        // our group, as a directory
};

// "36 35 0:30 ROOT MOUNT options ... - cgroup2 source options"
static bool is_cgroup2(const char *line, struct place *p)
{
    _Static_assert(SPEC_PATH_MAX == 256, "the widths below");
    return strstr(line, " - cgroup2 ") != NULL && sscanf(line, "%*s %*s %*s %255s %255s ", p->root, p->mount) == 2 &&
           strchr(p->mount, '\\') == NULL; // a blank in its name: nobody does that
}

// Looks at each line of a file of /proc/self until fn says that it is the one.
static bool find_line(const char *proc, const char *file, bool (*fn)(const char *line, struct place *p), struct place *p)
{
    char path[SPEC_PATH_MAX], *line = NULL;
    size_t room = 0;
    bool found = false;
    snprintf(path, sizeof(path), "%s/self/%s", proc, file);
    FILE *f = fopen(path, "re");
    while (f != NULL && !found && getline(&line, &room, f) > 0)
        found = fn(line, p);
    if (f != NULL)
        fclose(f);
    free(line);
    return found;
}

// "0::/system.slice/limpet.service", as the mount shows it. "/..": it is outside of what we can see.
static bool is_own(const char *line, struct place *p)
{
    size_t root = strcmp(p->root, "/") == 0 ? 0 : strlen(p->root);
    if (strncmp(line, "0::/", 4) != 0 || strstr(line, "/..") != NULL || strncmp(line + 3, p->root, root) != 0)
        return false;
    const char *rest = line + 3 + root;
    int n = snprintf(p->own, sizeof(p->own), "%s%.*s", p->mount, (int)strcspn(rest, "\n"), strcmp(rest, "/\n") == 0 ? "" : rest);
    return n > 0 && (size_t)n < sizeof(p->own);
}

// --- whose it is

// systemd's mark on a group that it leaves to its service.
static bool is_delegated(const char *dir)
{
    char value[8];
    ssize_t n = getxattr(dir, "trusted.delegate", value, sizeof(value));
    if (n < 0)
        n = getxattr(dir, "user.delegate", value, sizeof(value));
    return n == 1 && value[0] == '1';
}

// The directory above; false: that would be outside of the mount.
static bool parent(const struct place *p, const char *dir, char out[SPEC_PATH_MAX])
{
    const char *slash = strrchr(dir, '/');
    if (slash == NULL || (size_t)(slash - dir) < strlen(p->mount))
        return false;
    snprintf(out, SPEC_PATH_MAX, "%.*s", (int)(slash - dir), dir);
    return true;
}

static int find_delegated(struct groups *g, const struct place *p, struct err *e)
{
    char above[SPEC_PATH_MAX];
    g->ours = true;
    if (parent(p, p->own, above) && is_delegated(above))
        return join(g->dir, strcpy(g->base, above), g->name, e);
    if (!parent(p, p->own, above) || join(g->base, above, COMPANION, e) != 0 || !is_delegated(g->base))
        return err_set(e, E_UNSUP,
                       "systemd has left no control group to limpet: that takes DelegateSubgroup= of systemd 254, or " COMPANION
                       " (systemctl enable --now)");
    return join(g->dir, g->base, g->name, e);
}

static int find(struct groups *g, struct err *e)
{
    struct place p;
    if (g->configured[0] != '\0') {
        g->ours = true;
        snprintf(g->base, sizeof(g->base), "%s", g->configured);
        return join(g->dir, g->configured, g->name, e);
    }
    if (!find_line(g->proc, "mountinfo", is_cgroup2, &p) || !find_line(g->proc, "cgroup", is_own, &p))
        return err_set(e, E_UNSUP, "there are no control groups of version 2");
    if (g->systemd)
        return find_delegated(g, &p, e);
    g->ours = false;
    return join(g->dir, strcpy(g->base, p.mount), g->name, e);
}

// --- making it ready

// Moves the processes of a group into another one. 0 when none is left in it.
static int move_all(const char *from, const char *to)
{
    char path[SPEC_PATH_MAX + 16], line[24];
    int n = 0;
    snprintf(path, sizeof(path), "%s/" GROUP_PROCS, from);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return errno;
    for (; fgets(line, sizeof(line), f) != NULL; n++)
        (void)group_write(to, GROUP_PROCS, line); // one that ended just now is as good
    fclose(f);
    return n > 0 ? EBUSY : 0;
}

// Who forks while being moved is met in the next round.
static int evacuate(const char *base)
{
    char leaf[SPEC_PATH_MAX + 8];
    snprintf(leaf, sizeof(leaf), "%s/" LEAF, base);
    if (mkdir(leaf, 0755) != 0 && errno != EEXIST)
        return errno;
    int r = EBUSY;
    for (int i = 0; i < EVACUATE_ROUNDS && r == EBUSY; i++)
        r = move_all(base, leaf);
    return r;
}

// One by one, so that what this kernel lacks (ENOENT, EINVAL) does not keep the others away: the limit that needs it is refused.
static int enable(const char *dir)
{
    static const char *const controllers[] = { "+memory", "+pids", "+cpu" };
    for (size_t i = 0; i < ARRAY_LEN(controllers); i++) {
        int errnum = group_write(dir, CONTROL, controllers[i]);
        if (errnum != 0 && errnum != ENOENT && errnum != EINVAL)
            return errnum;
    }
    return 0;
}

static int make_dir(const char *path)
{
    return mkdir(path, 0755) == 0 || errno == EEXIST ? 0 : errno;
}

static int look_at(const char *base)
{
    char path[SPEC_PATH_MAX + 16];
    snprintf(path, sizeof(path), "%s/" GROUP_PROCS, base);
    return access(path, W_OK) == 0 ? 0 : errno;
}

static int make_ready(struct groups *g)
{
    int r = g->configured[0] != '\0' ? make_dir(g->base) : 0;
    if (r == 0)
        r = look_at(g->base);
    if (r == 0 && g->ours)
        r = evacuate(g->base);
    if (r == 0)
        r = enable(g->base);
    if (r == 0)
        r = make_dir(g->dir);
    return r != 0 ? r : enable(g->dir);
}

int groups_prepare(struct groups *g, struct err *e)
{
    if (g->ready && access(g->dir, F_OK) == 0)
        return 0;
    g->ready = false;
    int r = find(g, e);
    if (r != 0)
        return r;
    int errnum = make_ready(g);
    if (errnum == EBUSY)
        return err_set(e, E_UNSUP, "control group %s: processes of others are in it", g->base);
    if (errnum != 0)
        return err_set(e, E_UNSUP, "control group %s: %s", g->base, strerror(errnum));
    log_info("groups", "ready dir=%s", g->dir);
    g->ready = true;
    return 0;
}

// --- one group

enum { PERIOD_US = 100 * 1000, PERIOD_MAX_US = 1000 * 1000, QUOTA_MIN_US = 1000 }; // the kernel's default, and its bounds

static void cpu_text(int64_t milli, char out[48])
{
    int64_t period = milli * PERIOD_US / 1000 >= QUOTA_MIN_US ? PERIOD_US : PERIOD_MAX_US;
    snprintf(out, 48, "%" PRId64 " %" PRId64, milli * period / 1000, period);
}

static int set(const char *path, const char *file, const char *text, struct err *e)
{
    int errnum = group_write(path, file, text);
    if (errnum == ENOENT)
        return err_set(e, E_UNSUP, "the control groups of this machine do not limit %.*s", (int)strcspn(file, "."), file);
    return errnum != 0 ? err_sys(e, errnum, "control group %s: %s", path, file) : 0;
}

static int set_number(const char *path, const char *file, int64_t n, struct err *e)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRId64, n);
    return set(path, file, text, e);
}

// The limit is of memory, and no way around it by swap, as in Kubernetes. Who runs out of it is ended as a whole: half of an application is
// no application.
static int set_memory(const char *path, int64_t max, struct err *e)
{
    int r = set_number(path, "memory.max", max, e);
    if (r == 0)
        r = set(path, "memory.oom.group", "1", e);
    int errnum = r == 0 ? group_write(path, "memory.swap.max", "0") : 0;
    if (errnum != 0 && errnum != ENOENT) // a kernel without swap has none
        return err_sys(e, errnum, "control group %s: memory.swap.max", path);
    return r;
}

int groups_make(const char *path, const struct inst_limits *l, struct err *e)
{
    char cpu[48];
    int r = make_dir(path);
    if (r != 0)
        return err_sys(e, r, "making control group %s", path);
    if (l->memory > 0)
        r = set_memory(path, l->memory, e);
    if (r == 0 && l->pids > 0)
        r = set_number(path, "pids.max", l->pids, e);
    cpu_text(l->cpu_milli, cpu);
    if (r == 0 && l->cpu_milli > 0)
        r = set(path, "cpu.max", cpu, e);
    if (r != 0)
        (void)group_remove(path);
    return r;
}

// --- what is left of others

void groups_sweep(struct groups *g, bool (*is_known)(void *ctx, const char *uid), void *ctx)
{
    char path[SPEC_PATH_MAX];
    DIR *d = find(g, NULL) == 0 ? opendir(g->dir) : NULL;
    for (struct dirent *de; d != NULL && (de = readdir(d)) != NULL;) {
        if (de->d_type != DT_DIR || de->d_name[0] == '.' || strlen(de->d_name) >= INST_UID_MAX || is_known(ctx, de->d_name))
            continue;
        groups_path(g, de->d_name, path);
        int errnum = group_remove(path);
        if (errnum != 0)
            log_warn("groups", "left path=%s reason=\"%s\"", path, strerror(errnum));
        else
            log_info("groups", "cleared path=%s", path);
    }
    if (d != NULL)
        closedir(d);
}
