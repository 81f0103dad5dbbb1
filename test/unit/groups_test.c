// SPDX-License-Identifier: Apache-2.0
// The groups of instances on a made-up hierarchy: files in a directory that behave as the kernel's do where it matters. On a real one
// test/vm/limits.py looks at them.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/util.h"
#include "shim/group.h"
#include "tap.h"

static char top[200];              // a directory of the test's own, the hierarchy is in TOP/cg
static const char *has = "";       // the controllers that this kernel has
static const char *delegated = ""; // the group that systemd has marked

static void path_of(char out[400], const char *dir, const char *file)
{
    snprintf(out, 400, "%s/%s", dir, file);
}

static void slurp(const char *dir, const char *file, char out[256])
{
    char path[400];
    path_of(path, dir, file);
    FILE *f = fopen(path, "r");
    size_t n = f != NULL ? fread(out, 1, 255, f) : 0;
    out[n] = '\0';
    if (f != NULL)
        fclose(f);
}

static void spill(const char *dir, const char *file, const char *text, const char *mode)
{
    char path[400];
    path_of(path, dir, file);
    FILE *f = fopen(path, mode);
    if (f != NULL && (fputs(text, f) < 0 || fclose(f) != 0))
        printf("# %s is not written\n", path);
}

// A new group has the files of the controllers that are on in the one above it.
static int fake_mkdir(const char *dir, mode_t mode)
{
    static const char *const files[][2] = {
        { "+memory", "memory.max" },    { "+memory", "memory.oom.group" }, { "+memory", "memory.swap.max" },
        { "+memory", "memory.events" }, { "+pids", "pids.max" },           { "+cpu", "cpu.max" },
    };
    char above[400], on[256];
    snprintf(above, sizeof(above), "%.*s", (int)(strrchr(dir, '/') - dir), dir);
    slurp(above, "cgroup.subtree_control", on);
    if (mkdir(dir, mode) != 0)
        return -1;
    spill(dir, "cgroup.procs", "", "w");
    spill(dir, "cgroup.subtree_control", "", "w");
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        if (strstr(on, files[i][0]) != NULL)
            spill(dir, files[i][1], "", "w");
    return 0;
}

static int move_here(const char *dir, const char *pid)
{
    char base[400], procs[256], *at;
    snprintf(base, sizeof(base), "%.*s", (int)(strrchr(dir, '/') - dir), dir);
    slurp(base, "cgroup.procs", procs);
    at = strstr(procs, pid);
    if (at == NULL)
        return ESRCH;
    memmove(at, at + strlen(pid), strlen(at + strlen(pid)) + 1);
    spill(base, "cgroup.procs", procs, "w");
    spill(dir, "cgroup.procs", pid, "a");
    return 0;
}

static int fake_write(const char *dir, const char *file, const char *text)
{
    char path[400], procs[256];
    path_of(path, dir, file);
    if (access(path, F_OK) != 0)
        return ENOENT;
    if (strcmp(file, "cgroup.procs") == 0)
        return move_here(dir, text);
    slurp(dir, "cgroup.procs", procs);
    if (strcmp(file, "cgroup.subtree_control") != 0)
        spill(dir, file, text, "w");
    else if (strstr(has, text + 1) == NULL)
        return ENOENT;
    else if (procs[0] != '\0')
        return EBUSY;
    else
        spill(dir, file, text, "a");
    return 0;
}

static int fake_remove(const char *dir)
{
    char procs[256], command[500];
    if (access(dir, F_OK) != 0)
        return 0;
    slurp(dir, "cgroup.procs", procs);
    snprintf(command, sizeof(command), "rm -r '%s'", dir);
    return procs[0] != '\0' ? EBUSY : system(command) == 0 ? 0 : EIO;
}

static ssize_t fake_getxattr(const char *dir, const char *name, void *value, size_t size)
{
    size_t n = strlen(dir), m = strlen(delegated);
    if (m == 0 || n < m || strcmp(dir + n - m, delegated) != 0 || strcmp(name, "trusted.delegate") != 0 || size < 1) {
        errno = ENODATA;
        return -1;
    }
    *(char *)value = '1';
    return 1;
}

#define mkdir fake_mkdir
#define getxattr fake_getxattr
#define group_write fake_write
#define group_remove fake_remove
#include "port/groups.c"

// --- worlds

static char *under(const char *path)
{
    static char out[4][400];
    static unsigned k;
    char *p = out[k++ % 4];
    snprintf(p, 400, "%s%s", top, path);
    return p;
}

// An empty hierarchy, in which we are in the group `own`.
static void world(struct groups *g, bool systemd, const char *own, const char *configured)
{
    static char proc[400];
    char text[1000];
    groups_init(g, configured, "/run/limpet"); // before `configured` is overwritten
    snprintf(proc, sizeof(proc), "%s/proc", top);
    snprintf(text, sizeof(text), "rm -rf '%s'; mkdir -p '%s'", top, under("/proc/self"));
    if (system(text) != 0)
        printf("# no directory\n");
    (void)fake_mkdir(under("/cg"), 0755);
    snprintf(text, sizeof(text), "22 1 0:5 / /proc rw - proc proc rw\n36 35 0:30 / %s rw,nosuid shared:4 - cgroup2 cgroup2 rw\n",
             under("/cg"));
    spill(under("/proc/self"), "mountinfo", text, "w");
    snprintf(text, sizeof(text), "1:cpu:/x\n0::%s\n", own);
    spill(under("/proc/self"), "cgroup", text, "w");
    has = "memory pids cpu";
    delegated = "";
    g->proc = proc;
    g->systemd = systemd;
}

static void service(const char *name)
{
    char path[400];
    snprintf(path, sizeof(path), "%s/%s", under("/cg/system.slice"), name);
    (void)fake_mkdir(under("/cg/system.slice"), 0755);
    (void)fake_mkdir(path, 0755);
}

static void file_is(const char *dir, const char *file, const char *want)
{
    char got[256];
    slurp(dir, file, got);
    is_str(got, want, "%s of %s", file, strrchr(dir, '/') + 1);
}

static void refused(struct groups *g, const char *why)
{
    struct err e = ERR_INIT;
    is_int(groups_prepare(g, &e), E_UNSUP, "no limits here");
    ok(strstr(e.msg, why) != NULL, "and why: %s", e.msg);
}

static void prepared(struct groups *g, const char *dir)
{
    struct err e = ERR_INIT;
    is_int(groups_prepare(g, &e), 0, "limits are held %s", e.msg);
    is_str(g->dir, under(dir), "in groups here");
}

// --- where

static void names(void)
{
    static const char *const cases[][2] = {
        { "/run/limpet", "limpet" }, { "/run/a/b", "a-b" }, { "/tmp/x.y/run", "tmp-x.y-run" }, { "/", "limpet" }
    };
    struct groups g;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        groups_init(&g, NULL, cases[i][0]);
        is_str(g.name, cases[i][1], "of the agent whose run directory is %s", cases[i][0]);
    }
}

static void without_systemd(void)
{
    struct groups g;
    world(&g, false, "/services/limpet", "");
    prepared(&g, "/cg/limpet");
    file_is(under("/cg"), "cgroup.subtree_control", "+memory+pids+cpu");
    file_is(under("/cg/limpet"), "cgroup.subtree_control", "+memory+pids+cpu");
    ok(access(under("/cg/agent"), F_OK) != 0, "nobody is moved who is not ours");
    world(&g, false, "/", "");
    spill(under("/cg"), "cgroup.procs", "12\n", "w");
    refused(&g, "processes of others are in it");
    world(&g, false, "/../elsewhere", "");
    refused(&g, "no control groups of version 2");
    spill(under("/proc/self"), "mountinfo", "22 1 0:5 / /proc rw - proc proc rw\n", "w");
    refused(&g, "no control groups of version 2");
}

static void with_subgroup(void)
{
    struct groups g;
    world(&g, true, "/system.slice/limpet.service/agent", "");
    service("limpet.service");
    (void)fake_mkdir(under("/cg/system.slice/limpet.service/agent"), 0755);
    spill(under("/cg/system.slice/limpet.service"), "cgroup.procs", "12\n345\n", "w");
    refused(&g, "systemd has left no control group");
    delegated = "/limpet.service";
    prepared(&g, "/cg/system.slice/limpet.service/limpet");
    file_is(under("/cg/system.slice/limpet.service"), "cgroup.procs", "");
    file_is(under("/cg/system.slice/limpet.service/agent"), "cgroup.procs", "12\n345\n");
}

static void with_companion(void)
{
    struct groups g;
    world(&g, true, "/system.slice/limpet.service", "");
    service("limpet.service");
    delegated = "/limpet.service";
    refused(&g, COMPANION);
    service(COMPANION);
    refused(&g, COMPANION);
    delegated = "/" COMPANION;
    spill(under("/cg/system.slice/" COMPANION), "cgroup.procs", "7\n", "w");
    prepared(&g, "/cg/system.slice/" COMPANION "/limpet");
    file_is(under("/cg/system.slice/" COMPANION "/agent"), "cgroup.procs", "7\n");
    is_int(system("rm -r \"$CG\"/system.slice/limpet-apps.service"), 0, "it is taken away");
    refused(&g, COMPANION);
}

static void configured(void)
{
    struct groups g;
    world(&g, true, "/system.slice/limpet.service", under("/cg/mine"));
    fake_write(under("/cg"), "cgroup.subtree_control", "+pids");
    prepared(&g, "/cg/mine/limpet");
    world(&g, true, "/", under("/cg/none/mine"));
    refused(&g, "No such file");
    char long_path[SPEC_PATH_MAX];
    memset(long_path, 'x', sizeof(long_path));
    long_path[0] = '/';
    long_path[sizeof(long_path) - 1] = '\0';
    world(&g, true, "/", long_path);
    refused(&g, "too long");
}

// --- one group

static void makes(void)
{
    static const struct inst_limits all = { .memory = 1 << 20, .cpu_milli = 250, .pids = 7 }, few = { .cpu_milli = 5 };
    char path[SPEC_PATH_MAX];
    struct err e = ERR_INIT;
    struct groups g;
    world(&g, false, "/", "");
    prepared(&g, "/cg/limpet");
    groups_path(&g, "a-1", path);
    is_int(groups_make(path, &all, &e), 0, "a group with all limits %s", e.msg);
    file_is(path, "memory.max", "1048576");
    file_is(path, "memory.swap.max", "0");
    file_is(path, "memory.oom.group", "1");
    file_is(path, "pids.max", "7");
    file_is(path, "cpu.max", "25000 100000");
    is_int(groups_make(path, &few, &e), 0, "again: an agent died after it");
    file_is(path, "cpu.max", "5000 1000000");
}

static void lacks_a_controller(void)
{
    static const struct inst_limits memory = { .memory = 1 << 20 }, pids = { .pids = 3 };
    char path[SPEC_PATH_MAX];
    struct err e = ERR_INIT;
    struct groups g;
    world(&g, false, "/", "");
    has = "pids";
    prepared(&g, "/cg/limpet");
    groups_path(&g, "a-1", path);
    is_int(groups_make(path, &pids, &e), 0, "a kernel without the memory controller limits processes");
    is_int(fake_remove(path), 0, "the group goes");
    is_int(groups_make(path, &memory, &e), E_UNSUP, "and no memory");
    ok(strstr(e.msg, "do not limit memory") != NULL, "as it says: %s", e.msg);
    ok(access(path, F_OK) != 0, "no group is left");
}

static bool is_b(void *ctx, const char *uid)
{
    (void)ctx;
    return strcmp(uid, "b") == 0;
}

static void sweeps(void)
{
    struct groups g;
    world(&g, false, "/", "");
    groups_sweep(&g, is_b, NULL);
    ok(access(under("/cg/limpet"), F_OK) != 0, "nothing is made by a sweep");
    prepared(&g, "/cg/limpet");
    (void)fake_mkdir(under("/cg/limpet/a"), 0755);
    (void)fake_mkdir(under("/cg/limpet/b"), 0755);
    (void)fake_mkdir(under("/cg/limpet/c"), 0755);
    spill(under("/cg/limpet/c"), "cgroup.procs", "12\n", "w");
    groups_sweep(&g, is_b, NULL);
    ok(access(under("/cg/limpet/a"), F_OK) != 0, "an empty group of nobody is removed");
    ok(access(under("/cg/limpet/b"), F_OK) == 0, "that of an instance stays");
    ok(access(under("/cg/limpet/c"), F_OK) == 0, "and one with processes in it");
}

int main(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(top, sizeof(top), "%.100s/groups.XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(top) == NULL)
        return 1;
    setenv("CG", under("/cg"), 1);
    names();
    without_systemd();
    with_subgroup();
    with_companion();
    configured();
    makes();
    lacks_a_controller();
    sweeps();
    char command[300];
    snprintf(command, sizeof(command), "rm -rf '%s'", top);
    (void)!system(command);
    return done_testing();
}
