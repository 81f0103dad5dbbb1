// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "port/exec.h"
#include "shim/shim.h"

int exec_dir_open(struct exec_port *p, const char *uid, struct err *e)
{
    int fd = openat(p->dir_fd, uid, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 ? fd : err_sys(e, errno, "instance directory %s", uid);
}

void exec_mark(const struct exec_port *p, const char *uid, char out[SPEC_PATH_MAX])
{
    snprintf(out, SPEC_PATH_MAX, "%s/i/%s", p->run_dir, uid);
}

static int open_lock(int dir)
{
    return openat(dir, SHIM_LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
}

static bool is_linked(int dir)
{
    struct stat st;
    return fstat(dir, &st) == 0 && st.st_nlink > 0;
}

// An agent that cleans up takes the lock and then removes the directory; so who has the lock of a directory that is still there has it.
static int lock_dir(int dir, int *lock, struct err *e)
{
    AUTO_CLOSE int fd = open_lock(dir);
    if (fd < 0)
        return err_sys(e, errno, "instance lock");
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 || !is_linked(dir))
        return err_set(e, E_BUSY, "another agent is at it");
    *lock = steal_fd(&fd);
    return 0;
}

// Without pids: tells the next agent whose instance this is, should we die before its shim says so.
static int write_intent(int dir, const struct inst *i, struct err *e)
{
    char text[RECORD_MAX];
    struct state_record r = { .index = i->index, .started = i->started };
    memcpy(r.uid, i->uid, sizeof(r.uid));
    memcpy(r.owner, i->owner, sizeof(r.owner));
    memcpy(r.revision, i->revision, sizeof(r.revision));
    int errnum = state_format(&r, text) ? record_write(dir, SHIM_STATE, text) : EOVERFLOW;
    return errnum != 0 ? err_sys(e, errnum, "instance state") : 0;
}

int exec_dir_make(struct exec_port *p, const struct inst *i, int *dir, int *lock, struct err *e)
{
    if (mkdirat(p->dir_fd, i->uid, 0700) != 0)
        return err_sys(e, errno, "instance directory %s", i->uid);
    AUTO_CLOSE int locked = -1;
    AUTO_CLOSE int fd = exec_dir_open(p, i->uid, e);
    if (fd < 0)
        return fd;
    int r = lock_dir(fd, &locked, e);
    if (r == 0)
        r = write_intent(fd, i, e);
    if (r != 0 && locked >= 0)
        (void)!exec_dir_remove(p, i->uid, NULL); // ours, and nothing was started in it
    if (r != 0)
        return err_wrap(e, "instance %s", i->uid);
    *dir = steal_fd(&fd);
    *lock = steal_fd(&locked);
    return 0;
}

bool exec_dir_is_locked(int dir, int *lock)
{
    AUTO_CLOSE int fd = open_lock(dir);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0)
        return true; // not to be known counts as locked: nothing is removed on doubt
    *lock = steal_fd(&fd);
    return false;
}

static void empty_dir(int dir)
{
    int fd = dup(dir);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (d == NULL && fd >= 0)
        close(fd);
    if (d == NULL)
        return;
    rewinddir(d);
    for (struct dirent *de; (de = readdir(d)) != NULL;)
        if (strcmp(de->d_name, ".") != 0 && strcmp(de->d_name, "..") != 0)
            unlinkat(dir, de->d_name, 0);
    closedir(d);
}

int exec_dir_remove(struct exec_port *p, const char *uid, struct err *e)
{
    struct err why = ERR_INIT;
    AUTO_CLOSE int dir = exec_dir_open(p, uid, &why);
    if (dir == E_NOTFOUND)
        return 0;
    if (dir >= 0)
        empty_dir(dir);
    if (unlinkat(p->dir_fd, uid, AT_REMOVEDIR) != 0 && errno != ENOENT)
        return err_sys(e, errno, "removing instance directory %s", uid);
    return 0;
}
