// SPDX-License-Identifier: Apache-2.0
// Directories: make, list, remove.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/fsio_real.h"

// --- make

// A new directory gets exactly its mode, whatever the umask.
static int make_dir(struct real_disk *r, const char *path, uint32_t mode, unsigned flags, struct err *e)
{
    AUTO_PLACE struct fs_place p = FS_PLACE_INIT;
    int rc = fs_place(r, path, flags, &p, e);
    if (rc != 0)
        return rc;
    if (mkdirat(p.dir, p.name, 0700) != 0)
        return errno == EEXIST ? 0 : err_sys(e, errno, "%s", path);
    AUTO_CLOSE int fd = openat(p.dir, p.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fchmod(fd, mode) != 0)
        return err_sys(e, errno, "%s: setting its mode", path);
    return fs_sync_dir(p.dir, path, flags, e);
}

static int ensure_dir(struct real_disk *r, const char *path, uint32_t mode, unsigned flags, struct err *e)
{
    struct err why = ERR_INIT;
    AUTO_CLOSE int fd = -1;
    int rc = fs_open(r, path, O_PATH | O_DIRECTORY, flags, &fd, &why);
    if (rc == E_NOTFOUND)
        return make_dir(r, path, mode, flags, e);
    return rc == 0 ? 0 : fs_fail(e, &why);
}

int fs_real_mkdirs(struct disk *d, const char *path, uint32_t mode, unsigned flags, struct err *e)
{
    int rc = path_check(path, e);
    if (rc != 0)
        return rc;
    if (mode > 07777)
        return err_set(e, E_INVAL, "%s: mode %o", path, (unsigned)mode);
    // Most often it is there.
    struct err why = ERR_INIT;
    if (ensure_dir(fs_real(d), path, mode, flags, &why) == 0)
        return 0;
    char upto[PATH_MAX];
    strcpy(upto, path);
    for (char *at = upto + 1; rc == 0 && at != NULL;) {
        char *slash = strchr(at, '/');
        if (slash != NULL)
            *slash = '\0';
        rc = ensure_dir(fs_real(d), upto, mode, flags, e);
        if (slash != NULL)
            *slash = '/';
        at = slash != NULL ? slash + 1 : NULL;
    }
    return rc;
}

// --- list

static bool is_dot(const char *name)
{
    return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

static DIR *open_dir(int at, const char *name)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL && fd >= 0)
        close(fd);
    return dir;
}

static void close_dirp(DIR **dir)
{
    if (*dir != NULL)
        closedir(*dir);
}

// The next entry; NULL at the end, with errno 0, or on an error.
static struct dirent *next_entry(DIR *dir)
{
    struct dirent *de;
    do {
        errno = 0;
        de = readdir(dir);
    } while (de != NULL && is_dot(de->d_name));
    return de;
}

static enum fs_type entry_type(DIR *dir, const struct dirent *de)
{
    struct stat st;
    switch (de->d_type) {
    case DT_REG:
        return FS_FILE;
    case DT_DIR:
        return FS_DIR;
    case DT_LNK:
        return FS_LINK;
    case DT_UNKNOWN: // a file system that does not say
        return fstatat(dirfd(dir), de->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? fs_type_of(st.st_mode) : FS_OTHER;
    default:
        return FS_OTHER;
    }
}

int fs_real_list(struct disk *d, const char *path, int (*fn)(void *ctx, const char *name, enum fs_type t), void *ctx, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    int rc = fs_open(fs_real(d), path, O_PATH | O_DIRECTORY, 0, &fd, e);
    if (rc != 0)
        return rc;
    CLEANUP(close_dirp) DIR *dir = open_dir(fd, ".");
    if (dir == NULL)
        return err_sys(e, errno, "%s", path);
    struct dirent *de;
    while (rc == 0 && (de = next_entry(dir)) != NULL)
        rc = fn(ctx, de->d_name, entry_type(dir, de));
    if (rc == 0 && errno != 0)
        return err_sys(e, errno, "%s", path);
    return rc;
}

// --- remove an empty one

static int remove_empty(const struct fs_place *p, const char *path, struct err *e)
{
    if (unlinkat(p->dir, p->name, AT_REMOVEDIR) == 0)
        return 0;
    if (errno == ENOTEMPTY || errno == EEXIST || errno == EBUSY)
        return err_set(e, E_EXISTS, "%s: is not empty", path);
    return err_sys(e, errno, "%s", path);
}

int fs_real_rmdir(struct disk *d, const char *path, unsigned flags, struct err *e)
{
    AUTO_PLACE struct fs_place p = FS_PLACE_INIT;
    struct err why = ERR_INIT;
    struct stat st;
    int rc = fs_place(fs_real(d), path, flags, &p, &why);
    if (rc == 0)
        rc = fs_place_stat(&p, path, flags, &st, &why);
    if (rc == 0)
        rc = remove_empty(&p, path, &why);
    if (rc == 0)
        return fs_sync_dir(p.dir, path, flags, e);
    return rc == E_NOTFOUND ? 0 : fs_fail(e, &why);
}

// --- remove a tree

// Depth-first without recursion or a stack of descriptors: each round removes what it can of one directory, and the first entry that
// is a full directory becomes the next round's. On the way back every ".." must be the directory it was entered from, so that
// a directory moved meanwhile does not lead out of the tree.
enum { DEPTH_MAX = 64 };

struct sweep {
    int cur;
    dev_t dev; // of the tree; what is mounted in it is not its content
    unsigned depth;
    struct {
        dev_t dev;
        ino_t ino;
    } entered[DEPTH_MAX];
};

static int sweep_down(struct sweep *s, const char *name)
{
    struct stat here, there;
    AUTO_CLOSE int fd = openat(s->cur, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &there) != 0 || fstat(s->cur, &here) != 0)
        return errno;
    if (there.st_dev != s->dev)
        return EBUSY;
    if (s->depth == DEPTH_MAX)
        return ELOOP;
    s->entered[s->depth].dev = here.st_dev;
    s->entered[s->depth].ino = here.st_ino;
    s->depth++;
    close(s->cur);
    s->cur = steal_fd(&fd);
    return 0;
}

static int sweep_up(struct sweep *s)
{
    struct stat st;
    AUTO_CLOSE int fd = openat(s->cur, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        return errno;
    s->depth--;
    if (st.st_dev != s->entered[s->depth].dev || st.st_ino != s->entered[s->depth].ino)
        return EBUSY;
    close(s->cur);
    s->cur = steal_fd(&fd);
    return 0;
}

// Removes a file or an empty directory. ENOTEMPTY: a full one.
static int remove_entry(int dir, const char *name)
{
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM) // EPERM: what POSIX says for a directory
        return errno;
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    return errno == EEXIST ? ENOTEMPTY : errno;
}

// One round over the current directory. *full names a directory to go into, "" when nothing is left here.
static int sweep_round(struct sweep *s, char full[NAME_MAX + 1])
{
    full[0] = '\0';
    CLEANUP(close_dirp) DIR *dir = open_dir(s->cur, ".");
    if (dir == NULL)
        return errno;
    struct dirent *de;
    while ((de = next_entry(dir)) != NULL) {
        int r = remove_entry(s->cur, de->d_name);
        if (r == ENOTEMPTY) {
            memcpy(full, de->d_name, strnlen(de->d_name, NAME_MAX) + 1);
            return 0;
        }
        if (r != 0)
            return r;
    }
    return errno;
}

static int sweep_all(struct sweep *s)
{
    char full[NAME_MAX + 1];
    for (;;) {
        int r = sweep_round(s, full);
        if (r == 0 && full[0] == '\0' && s->depth == 0)
            return 0;
        if (r == 0)
            r = full[0] != '\0' ? sweep_down(s, full) : sweep_up(s);
        if (r != 0)
            return r;
    }
}

static int empty_tree(const struct fs_place *p)
{
    struct stat st;
    struct sweep s = { .cur = openat(p->dir, p->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) };
    if (s.cur < 0)
        return errno;
    int r = fstat(s.cur, &st) == 0 ? 0 : errno;
    s.dev = st.st_dev;
    if (r == 0)
        r = sweep_all(&s);
    close(s.cur);
    return r;
}

int fs_real_rmtree(struct disk *d, const char *path, struct err *e)
{
    if (strcmp(path, "/") == 0)
        return err_set(e, E_INVAL, "the root is not removed");
    AUTO_PLACE struct fs_place p = FS_PLACE_INIT;
    struct err why = ERR_INIT;
    int rc = fs_place(fs_real(d), path, 0, &p, &why);
    if (rc == E_NOTFOUND)
        return 0;
    if (rc != 0)
        return fs_fail(e, &why);
    int r = remove_entry(p.dir, p.name);
    if (r == ENOTEMPTY) {
        r = empty_tree(&p);
        if (r == 0)
            r = remove_entry(p.dir, p.name);
    }
    return r == 0 ? fs_sync_dir(p.dir, path, 0, e) : err_sys(e, r, "removing %s", path);
}
