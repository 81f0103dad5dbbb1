// SPDX-License-Identifier: Apache-2.0
// The machine itself: its clock, the store, the disks, and whether programs can be started.
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/statvfs.h>

#include "data/db.h"
#include "local/check.h"
#include "version.h"

enum { KIB = 1024, SPACE_FAIL_KIB = 256, SPACE_WARN_KIB = 2048, INODES_FAIL = 16, INODES_WARN = 256 };

// --- clock -----------------------------------------------------------------------------------------------------------------------

void check_clock(struct check *k, struct check_result *r)
{
    struct clock *c = &k->cli->clock;
    char now[RFC3339_MAX], built[RFC3339_MAX];
    int64_t wall = c->ops->wall_us(c), build = LIMPET_BUILD_EPOCH * INT64_C(1000000);
    bool trusted = k->agent != NULL ? json_bool(json_get(k->agent, "clockTrusted"), false) : clock_trusted(c);
    if (k->clock_off) {
        check_needs(r, "server-clock");
        return;
    }
    check_say(r, wall < build ? CHECK_FAIL : (trusted ? CHECK_OK : CHECK_WARN), "%s, %ssynchronised, %strusted", rfc3339_sec(wall, now),
              c->ops->synced(c) ? "" : "not ", trusted ? "" : "not ");
    if (r->status == CHECK_OK)
        return;
    if (wall < build)
        check_cause(r, "it stands before this program was made (%s): no battery keeps it, and nothing has set it since boot",
                    rfc3339_sec(build, built));
    else
        check_cause(r, "nothing has set it since boot, and it is kept by no battery");
    check_remedy(r, "let chrony, systemd-timesyncd or ntpd set it. Until then nothing runs by a schedule; all else goes on");
}

// --- store -----------------------------------------------------------------------------------------------------------------------

static void store_of_agent(struct check *k, struct check_result *r)
{
    const struct json *s = json_get(k->agent, "store");
    const char *damaged = json_path_str(s, "damagedFile");
    int64_t failures = json_path_i64(s, "commitFailures");
    check_say(r, damaged[0] != '\0' || failures > 0 ? CHECK_WARN : CHECK_OK, "%" PRId64 " KiB, open in the running agent%s%s",
              json_path_i64(s, "bytes") / KIB, damaged[0] != '\0' ? "; it was damaged, the old file is " : "", damaged);
    if (damaged[0] != '\0') {
        check_cause(r, "the disk or a power cut has damaged it; what could be read was taken over, the rest comes from the server");
        check_remedy(r, "look at the disk (dmesg, smartctl); remove the old file when it is not needed");
    } else if (failures > 0) {
        check_cause(r, "%" PRId64 " writes failed since the agent started: a full or failing disk; see state-dir", failures);
        check_remedy(r, "make room on the file system of %s, or look at the disk (dmesg)", k->config->state_dir);
    }
}

static void judge_file(struct check *k, struct check_result *r, int rc, const struct db_look *l, const struct err *e)
{
    switch (rc) {
    case 0:
        check_say(r, CHECK_OK, "%" PRId64 " rows in %" PRId64 " KiB, every checksum is right", l->rows, l->bytes / KIB);
        return;
    case E_NOTFOUND:
        check_say(r, CHECK_OK, "there is none yet: the agent makes it");
        return;
    case E_FORBIDDEN:
        check_say(r, CHECK_SKIP, "%s", e->msg);
        check_remedy(r, "run limpet check as root: only root may read the store");
        return;
    case E_UNSUP:
        check_say(r, CHECK_FAIL, "%s", e->msg);
        check_cause(r, "an older limpet was installed over a newer one");
        check_remedy(r, "install the newer one again; or move %s/limpet.db aside, and everything is taken from the server",
                     k->config->state_dir);
        return;
    default:
        check_say(r, CHECK_FAIL, "%s", e->msg);
        check_cause(r, "the disk, a power cut or somebody's hand has damaged it");
        check_remedy(r,
                     "start the agent: it sets the damaged file aside and takes over what can be read. Look at the disk (dmesg, smartctl)");
    }
}

// What could not be written home lies in the run directory (flow/agent_store.h).
static bool is_away(struct check *k)
{
    char path[512];
    struct fs_stat st;
    snprintf(path, sizeof(path), "%s/store", k->config->run_dir);
    return k->disk->ops->stat(k->disk, path, 0, &st, NULL) == 0;
}

void check_store(struct check *k, struct check_result *r)
{
    char path[512];
    struct db_look l = { 0 };
    struct err e = ERR_INIT;
    snprintf(path, sizeof(path), "%s/limpet.db", k->config->state_dir);
    if (is_away(k)) {
        check_say(r, CHECK_FAIL, "it is a copy in memory (%s/store), lost at the next boot", k->config->run_dir);
        check_cause(r, "%s could not be written when the agent started", k->config->state_dir);
        check_remedy(r, "make it writable: the agent takes the store home by itself, within two minutes");
    } else if (k->agent != NULL) {
        store_of_agent(k, r);
    } else if (k->agent_hangs) {
        check_needs(r, "agent");
    } else {
        int rc = db_look(k->disk, path, &l, &e);
        judge_file(k, r, rc, &l, &e);
    }
}

// --- disks -----------------------------------------------------------------------------------------------------------------------

enum check_status check_judge_space(uint64_t avail, uint64_t total)
{
    if (avail < SPACE_FAIL_KIB * KIB)
        return CHECK_FAIL;
    // Two percent of a large disk is much; of a small one, all that there is.
    return avail < SPACE_WARN_KIB * KIB || (avail < total / 50 && avail < UINT64_C(1) << 28) ? CHECK_WARN : CHECK_OK;
}

enum check_status check_judge_inodes(uint64_t avail, uint64_t total)
{
    if (total == 0)
        return CHECK_OK;
    return avail < INODES_FAIL ? CHECK_FAIL : (avail < INODES_WARN ? CHECK_WARN : CHECK_OK);
}

// Of the directory, or of the nearest above it that is there.
static int look_at(char path[PATH_MAX], struct statvfs *st)
{
    while (statvfs(path, st) < 0) {
        char *slash = strrchr(path, '/');
        if (errno != ENOENT || slash == NULL || slash[1] == '\0')
            return errno;
        slash[slash == path ? 1 : 0] = '\0';
    }
    return 0;
}

static void judge_disk(struct check_result *r, const char *dir, const char *found, const struct statvfs *st)
{
    uint64_t avail = (uint64_t)st->f_bavail * st->f_frsize, total = (uint64_t)st->f_blocks * st->f_frsize;
    enum check_status space = check_judge_space(avail, total), inodes = check_judge_inodes(st->f_favail, st->f_files);
    bool there = strcmp(dir, found) == 0;
    if ((st->f_flag & ST_RDONLY) != 0) {
        check_say(r, CHECK_FAIL, "%s is on a file system that is mounted read-only", dir);
        check_cause(r, "the kernel made it read-only after errors (a worn flash?), or it is mounted so");
        check_remedy(r, "dmesg tells of errors; `mount -o remount,rw` once it is sound. The agent works from memory meanwhile");
        return;
    }
    check_say(r, MAX(space, inodes), "%s%s: %" PRIu64 " MiB of %" PRIu64 " free, %" PRIu64 " files more", dir,
              there ? "" : " (not there yet)", avail >> 20, total >> 20, (uint64_t)st->f_favail);
    if (r->status == CHECK_OK)
        return;
    check_cause(r, inodes > space ? "its file system has no room for more files (inodes)" : "its file system is full, or nearly so");
    check_remedy(r, inodes > space ? "remove files: `df -i`, `du --inodes -x`" : "make room: `df -h`, `du -xh | sort -h | tail`");
}

static void check_dir(struct check *k, struct check_result *r, const char *dir)
{
    char path[PATH_MAX];
    struct statvfs st;
    struct fs_stat fs;
    snprintf(path, sizeof(path), "%s%s", k->disk->root, dir);
    int sys = look_at(path, &st);
    if (sys == EACCES) {
        check_say(r, CHECK_SKIP, "%s: %s", dir, strerror(sys));
        check_remedy(r, "run limpet check as root");
    } else if (sys != 0) {
        check_say(r, CHECK_FAIL, "%s: %s", dir, strerror(sys));
        check_remedy(r, "put right what [paths] in limpet.ini names");
    } else if (k->disk->ops->stat(k->disk, dir, 0, &fs, NULL) == 0 && fs.type != FS_DIR && fs.type != FS_LINK) {
        check_say(r, CHECK_FAIL, "%s is no directory", dir);
        check_remedy(r, "move away what stands there");
    } else {
        judge_disk(r, dir, path + strlen(k->disk->root), &st);
    }
}

void check_state_dir(struct check *k, struct check_result *r)
{
    check_dir(k, r, k->config->state_dir);
}

void check_run_dir(struct check *k, struct check_result *r)
{
    check_dir(k, r, k->config->run_dir);
}

void check_log_dir(struct check *k, struct check_result *r)
{
    check_dir(k, r, k->config->log_dir);
}

// --- port ------------------------------------------------------------------------------------------------------------------------

void check_port(struct check *k, struct check_result *r)
{
    struct err e = ERR_INIT;
    char tool[CONTAINER_TOOL_MAX];
    bool systemd = strcmp(k->config->port_name, "systemd") == 0;
    if (strcmp(k->config->port_name, "null") == 0) {
        check_say(r, CHECK_OK, "%s: programs are accepted, and none is run", k->config->port_name);
    } else if (systemd && port_systemd_here(&e) < 0) {
        check_say(r, CHECK_FAIL, "systemd: %s", e.msg);
        check_cause(r, "apps that name no runtime are units of systemd here, as [port] name says");
        check_remedy(r, "[port] name = exec, or runtime: exec in the app");
    } else if (port_exec_try(k->loop, "/proc/self/exe", &e) < 0) {
        check_say(r, CHECK_FAIL, "exec: %s", e.msg);
        check_cause(r, "a supervisor, which is this very program, cannot be started: no process numbers or memory left, a security module, "
                       "/proc not mounted, or a kernel before 5.3");
        check_remedy(r, "`ulimit -u`, /sys/fs/cgroup/.../pids.max, dmesg, `uname -r`");
    } else if (port_container_here(k->config->port_container_tool, tool, &e) < 0 && k->config->port_container_tool != NULL) {
        check_say(r, CHECK_FAIL, "container: %s", e.msg);
        check_cause(r, "apps with an image cannot be started");
        check_remedy(r, "install podman or docker, or put right [port] containerTool");
    } else {
        check_say(r, CHECK_OK, "%sexec: a supervisor starts; container: %s", systemd ? "systemd: it runs this machine; " : "",
                  e.msg[0] != '\0' ? "no podman and no docker, so no app with an image" : tool);
    }
}
