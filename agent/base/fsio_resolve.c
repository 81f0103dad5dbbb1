// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/fsio_real.h"

// The kernel's interface (5.6), whose header not every libc installation has.
struct fs_open_how {
    uint64_t flags, mode, resolve;
};
enum { HOW_NO_SYMLINKS = 0x04, HOW_IN_ROOT = 0x10 };

#ifndef SYS_openat2
#define SYS_openat2 437
#endif

enum { MAX_LINKS = 40, MAX_RACES = 32 };

static int sys_openat2(int dir, const char *path, int oflags, uint64_t resolve)
{
    struct fs_open_how how = { .flags = (uint64_t)(unsigned)oflags, .resolve = resolve };
    return (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

// ENOSYS: an old kernel. EPERM: a sandbox that does not know the call.
bool fs_probe_openat2(void)
{
    AUTO_CLOSE int fd = sys_openat2(AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC, HOW_NO_SYMLINKS);
    return fd >= 0;
}

static int open_error(int errnum, const char *path, unsigned flags, struct err *e)
{
    if (errnum == ELOOP && (flags & FS_GUARDED))
        return err_set(e, E_FORBIDDEN, "%s: a component is a symbolic link", path);
    return err_sys(e, errnum, "%s", path);
}

// --- without openat2

// Where a resolution stands: a directory, and what is left to go.
struct walk {
    int root, cur;
    int links;
    char rest[PATH_MAX];
};

static bool is_same_dir(int a, int b)
{
    struct stat x, y;
    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int walk_move(struct walk *w, int fd)
{
    if (fd < 0)
        return -1;
    close(w->cur);
    w->cur = fd;
    return 0;
}

static int walk_to_root(struct walk *w)
{
    return walk_move(w, openat(w->root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

static int walk_up(struct walk *w)
{
    if (is_same_dir(w->cur, w->root))
        return 0;
    return walk_move(w, openat(w->cur, "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

// Puts the link's target before what is left; an absolute one starts at the root again.
static int walk_link(struct walk *w, int link)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(link, "", target, sizeof(target));
    if (n < 0)
        return -1;
    size_t len = strlen(w->rest);
    if (++w->links > MAX_LINKS || (size_t)n + 1 + len >= sizeof(w->rest)) {
        errno = ELOOP;
        return -1;
    }
    memmove(w->rest + n + 1, w->rest, len + 1);
    w->rest[n] = '/';
    memcpy(w->rest, target, (size_t)n);
    return target[0] == '/' ? walk_to_root(w) : 0;
}

// Takes the next component off the rest; false when there is none.
static bool walk_next(struct walk *w, char name[NAME_MAX + 1], bool *last)
{
    size_t skip = strspn(w->rest, "/");
    size_t n = strcspn(w->rest + skip, "/");
    if (n == 0 || n > NAME_MAX)
        return false;
    memcpy(name, w->rest + skip, n);
    name[n] = '\0';
    skip += n;
    *last = w->rest[skip + strspn(w->rest + skip, "/")] == '\0';
    memmove(w->rest, w->rest + skip, strlen(w->rest + skip) + 1);
    return true;
}

// One component. *done is the descriptor asked for, once it is the last; -1 before. Returns -1 with errno.
static int walk_step(struct walk *w, const char *name, bool last, int oflags, bool follow, int *done)
{
    if (strcmp(name, ".") == 0)
        return 0;
    if (strcmp(name, "..") == 0)
        return walk_up(w);
    if (last && (oflags & O_NOFOLLOW))
        return (*done = openat(w->cur, name, oflags)) < 0 ? -1 : 0;
    AUTO_CLOSE int fd = openat(w->cur, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0)
        return -1;
    if (S_ISLNK(st.st_mode)) {
        errno = ELOOP;
        return follow ? walk_link(w, fd) : -1;
    }
    if (last)
        return (*done = openat(w->cur, name, oflags | O_NOFOLLOW)) < 0 ? -1 : 0;
    if (!S_ISDIR(st.st_mode)) {
        errno = ENOTDIR;
        return -1;
    }
    return walk_move(w, steal_fd(&fd));
}

static int walk_open(struct real_disk *r, const char *path, int oflags, bool follow)
{
    struct walk w = { .root = r->root_fd };
    char name[NAME_MAX + 1];
    bool last;
    strcpy(w.rest, path); // path_check() bounded it
    w.cur = openat(r->root_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = -1, failed = w.cur < 0 ? -1 : 0;
    while (failed == 0 && fd < 0 && walk_next(&w, name, &last))
        failed = walk_step(&w, name, last, oflags, follow, &fd);
    if (failed == 0 && fd < 0) // ended in the root, a "." or a ".."
        fd = openat(w.cur, ".", oflags);
    int saved = errno;
    if (w.cur >= 0)
        close(w.cur);
    errno = saved;
    return fd;
}

// --- either way

// EAGAIN: a ".." in a link met a rename; the kernel wants the caller to try again.
static int open_in_root(struct real_disk *r, const char *path, int oflags, bool guarded)
{
    int fd = -1;
    for (int i = 0; i < MAX_RACES; i++) {
        fd = sys_openat2(r->root_fd, path, oflags, HOW_IN_ROOT | (guarded ? HOW_NO_SYMLINKS : 0));
        if (fd >= 0 || errno != EAGAIN)
            break;
    }
    return fd;
}

int fs_open(struct real_disk *r, const char *path, int oflags, unsigned flags, int *fd, struct err *e)
{
    int rc = path_check(path, e);
    if (rc != 0)
        return rc;
    bool guarded = (flags & FS_GUARDED) != 0;
    oflags |= O_CLOEXEC;
    if (!guarded && r->root[0] == '\0')
        *fd = openat(r->root_fd, path, oflags);
    else if (r->has_openat2)
        *fd = open_in_root(r, path, oflags, guarded);
    else
        *fd = walk_open(r, path, oflags, !guarded);
    return *fd >= 0 ? 0 : open_error(errno, path, flags, e);
}

void fs_place_fini(struct fs_place *p)
{
    cleanup_close(&p->dir);
    p->dir = -1;
}

int fs_place(struct real_disk *r, const char *path, unsigned flags, struct fs_place *out, struct err *e)
{
    int rc = path_check(path, e);
    if (rc != 0)
        return rc;
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = (size_t)(slash - path);
    memcpy(parent, n > 0 ? path : "/", MAX(n, (size_t)1));
    parent[MAX(n, (size_t)1)] = '\0';
    out->name = slash[1] != '\0' ? slash + 1 : ".";
    return fs_open(r, parent, O_PATH | O_DIRECTORY, flags, &out->dir, e);
}

int fs_place_stat(const struct fs_place *p, const char *path, unsigned flags, struct stat *st, struct err *e)
{
    if (fstatat(p->dir, p->name, st, AT_SYMLINK_NOFOLLOW) != 0)
        return err_sys(e, errno, "%s", path);
    if (S_ISLNK(st->st_mode) && (flags & FS_GUARDED))
        return err_set(e, E_FORBIDDEN, "%s: is a symbolic link", path);
    return 0;
}

int fs_sync_dir(int dir, const char *path, unsigned flags, struct err *e)
{
    if (flags & FS_NOSYNC)
        return 0;
    AUTO_CLOSE int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, errno, "%s: opening its directory", path);
    if (fsync(fd) != 0 && errno != EINVAL) // EINVAL: a file system whose directories need none
        return err_sys(e, errno, "%s: syncing its directory", path);
    return 0;
}

enum fs_type fs_type_of(mode_t mode)
{
    if (S_ISREG(mode))
        return FS_FILE;
    if (S_ISDIR(mode))
        return FS_DIR;
    return S_ISLNK(mode) ? FS_LINK : FS_OTHER;
}
