// SPDX-License-Identifier: Apache-2.0
// One file at a time: read, replace, look at, change, remove.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/fsio_real.h"

// --- read

static int read_all(int fd, const char *path, size_t max, struct buf *out, struct err *e)
{
    for (;;) {
        // One byte more than may be there tells a full file from one that is too long.
        size_t room = out->alloc > out->len + 1 ? out->alloc - out->len - 1 : 0;
        if (room == 0) {
            int r = buf_reserve(out, MIN((size_t)4096, max + 1 - out->len), e);
            if (r != 0)
                return err_wrap(e, "%s", path);
            continue;
        }
        ssize_t n = read(fd, out->data + out->len, MIN(room, max + 1 - out->len));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, errno, "%s", path);
        out->len += (size_t)n;
        out->data[out->len] = '\0';
        if (out->len > max)
            return err_set(e, E_TOOBIG, "%s: longer than %zu bytes", path, max);
        if (n == 0)
            return 0;
    }
}

static int read_file(int fd, const char *path, size_t max, struct buf *out, struct err *e)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return err_sys(e, errno, "%s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(e, E_INVAL, "%s: not a regular file", path);
    if (st.st_size > 0 && (uint64_t)st.st_size > max)
        return err_set(e, E_TOOBIG, "%s: %lld bytes, more than %zu", path, (long long)st.st_size, max);
    // At once, so that a secret is not left behind in memory that the buffer grew out of.
    int r = buf_reserve(out, (size_t)st.st_size + 1, e);
    return r != 0 ? err_wrap(e, "%s", path) : read_all(fd, path, max, out, e);
}

int fs_real_read(struct disk *d, const char *path, size_t max, unsigned flags, struct buf *out, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    // O_NONBLOCK: a FIFO in the place of a file must not hold the loop.
    int r = fs_open(fs_real(d), path, O_RDONLY | O_NONBLOCK | O_NOCTTY, flags, &fd, e);
    if (r != 0)
        return r;
    struct buf got = BUF_INIT(max < SIZE_MAX ? max + 1 : max);
    r = read_file(fd, path, MIN(max, SIZE_MAX - 2), &got, e);
    if (r == 0) {
        got.max = out->max;
        if (got.len > out->max)
            r = err_set(e, E_TOOBIG, "%s: %zu bytes, more than %zu", path, got.len, out->max);
    }
    if (r != 0) {
        buf_wipe(&got);
        return r;
    }
    buf_wipe(out);
    *out = got;
    return 0;
}

// --- write

static const char tmp_suffix[] = ".limpet-tmp";

// Always the same name for one target: what a crash left is found and removed by the next write, and never two are left.
static void tmp_name(const char *name, char out[NAME_MAX + 1])
{
    size_t n = strlen(name);
    if (n + sizeof(tmp_suffix) + 1 <= NAME_MAX)
        snprintf(out, NAME_MAX + 1, ".%s%s", name, tmp_suffix);
    else
        snprintf(out, NAME_MAX + 1, ".%016llx%s", (unsigned long long)hash_bytes(HASH_SEED, name, n), tmp_suffix);
}

bool fs_is_temporary(const char *name)
{
    size_t n = strlen(name), k = sizeof(tmp_suffix) - 1;
    return name[0] == '.' && n > k + 1 && strcmp(name + n - k, tmp_suffix) == 0;
}

static int create_tmp(int dir, const char *tmp)
{
    const int how = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(dir, tmp, how, 0600);
    if (fd < 0 && errno == EEXIST && unlinkat(dir, tmp, 0) == 0)
        fd = openat(dir, tmp, how, 0600);
    return fd;
}

static int write_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t w = write(fd, p, n);
        if (w < 0 && errno != EINTR)
            return -1;
        if (w > 0) {
            p += w;
            n -= (size_t)w;
        }
    }
    return 0;
}

// The owner first: a change of owner takes set-id bits away again.
static int set_owner_mode(int fd, uint32_t mode, uint32_t uid, uint32_t gid)
{
    if ((uid != UINT32_MAX || gid != UINT32_MAX) && fchown(fd, uid, gid) != 0)
        return -1;
    return fchmod(fd, mode);
}

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif

static int rename_new(int dir, const char *tmp, const char *name)
{
    if (syscall(SYS_renameat2, dir, tmp, dir, name, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    // A kernel or file system that cannot: a link does not replace either.
    return linkat(dir, tmp, dir, name, 0) == 0 ? unlinkat(dir, tmp, 0) : -1;
}

struct content {
    const void *p;
    size_t n;
    uint32_t mode, uid, gid;
    unsigned flags;
};

// Fills the temporary and puts it in its place; errno on failure, the temporary is the caller's to remove.
static int fill_and_move(int dir, int fd, const char *tmp, const char *name, const struct content *c)
{
    if (write_all(fd, c->p, c->n) != 0 || set_owner_mode(fd, c->mode, c->uid, c->gid) != 0)
        return -1;
    if ((c->flags & FS_NOSYNC) == 0 && fsync(fd) != 0)
        return -1;
    return c->flags & FS_EXCL ? rename_new(dir, tmp, name) : renameat(dir, tmp, dir, name);
}

static int check_target(const struct fs_place *p, const char *path, unsigned flags, struct err *e)
{
    struct stat st;
    struct err why = ERR_INIT;
    int r = fs_place_stat(p, path, flags, &st, &why);
    if (r == E_NOTFOUND)
        return 0;
    if (r != 0)
        return fs_fail(e, &why);
    if (flags & FS_EXCL)
        return err_set(e, E_EXISTS, "%s: exists", path);
    if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
        return err_set(e, E_INVAL, "%s: not a regular file", path);
    return 0;
}

static int write_at(const struct fs_place *p, const char *path, const struct content *c, struct err *e)
{
    char tmp[NAME_MAX + 1];
    tmp_name(p->name, tmp);
    AUTO_CLOSE int fd = create_tmp(p->dir, tmp);
    if (fd < 0)
        return err_sys(e, errno, "%s: creating a temporary file", path);
    if (fill_and_move(p->dir, fd, tmp, p->name, c) != 0) {
        int r = err_sys(e, errno, "%s", path);
        unlinkat(p->dir, tmp, 0);
        return r;
    }
    return fs_sync_dir(p->dir, path, c->flags, e);
}

int fs_real_write(struct disk *d, const char *path, const void *p, size_t n, uint32_t mode, uint32_t uid, uint32_t gid, unsigned flags,
                  struct err *e)
{
    if (mode > 07777)
        return err_set(e, E_INVAL, "%s: mode %o", path, (unsigned)mode);
    AUTO_PLACE struct fs_place place = FS_PLACE_INIT;
    int r = fs_place(fs_real(d), path, flags, &place, e);
    if (r == 0)
        r = check_target(&place, path, flags, e);
    if (r != 0)
        return r;
    struct content c = { p, n, mode, uid, gid, flags };
    return write_at(&place, path, &c, e);
}

static int append_to(int fd, const char *path, int64_t at, const void *p, size_t n, struct err *e)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return err_sys(e, errno, "%s", path);
    if (!S_ISREG(st.st_mode) || st.st_size < at)
        return err_set(e, E_INVAL, "%s: not a regular file of %lld bytes or more", path, (long long)at);
    if (st.st_size > at && ftruncate(fd, at) != 0)
        return err_sys(e, errno, "%s", path);
    if (lseek(fd, at, SEEK_SET) < 0 || write_all(fd, p, n) != 0)
        return err_sys(e, errno, "%s", path);
    return 0;
}

int fs_real_append(struct disk *d, const char *path, int64_t at, const void *p, size_t n, unsigned flags, struct err *e)
{
    AUTO_PLACE struct fs_place place = FS_PLACE_INIT;
    int r = fs_place(fs_real(d), path, flags, &place, e);
    if (r != 0)
        return r;
    AUTO_CLOSE int fd = openat(place.dir, place.name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | (at == 0 ? O_CREAT : 0), 0600);
    if (fd < 0)
        return err_sys(e, errno, "%s", path);
    return append_to(fd, path, at, p, n, e);
}

// --- look at, change, remove

int fs_real_stat(struct disk *d, const char *path, unsigned flags, struct fs_stat *out, struct err *e)
{
    AUTO_PLACE struct fs_place place = FS_PLACE_INIT;
    struct stat st;
    int r = fs_place(fs_real(d), path, flags, &place, e);
    if (r == 0)
        r = fs_place_stat(&place, path, flags, &st, e);
    if (r != 0)
        return r;
    *out = (struct fs_stat){
        .type = fs_type_of(st.st_mode),
        .mode = st.st_mode & 07777,
        .uid = st.st_uid,
        .gid = st.st_gid,
        .size = st.st_size,
        .mtime_us = (int64_t)st.st_mtim.tv_sec * 1000000 + st.st_mtim.tv_nsec / 1000,
        .inode = st.st_ino,
    };
    return 0;
}

// An O_PATH descriptor cannot be fchmod()ed; its name under /proc can, and is this very file.
static int chattr_fd(int fd, uint32_t mode, uint32_t uid, uint32_t gid)
{
    char name[32];
    if ((uid != UINT32_MAX || gid != UINT32_MAX) && fchownat(fd, "", uid, gid, AT_EMPTY_PATH) != 0)
        return -1;
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    return chmod(name, mode);
}

// A second name of a file may lie outside the guarded tree: what is changed here would change there.
static int check_chattr(int fd, const char *path, unsigned flags, struct err *e)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return err_sys(e, errno, "%s", path);
    if (S_ISLNK(st.st_mode))
        return err_set(e, E_FORBIDDEN, "%s: is a symbolic link", path);
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return err_set(e, E_INVAL, "%s: neither a file nor a directory", path);
    if ((flags & FS_GUARDED) && S_ISREG(st.st_mode) && st.st_nlink > 1)
        return err_set(e, E_FORBIDDEN, "%s: has another name (hard link)", path);
    return 0;
}

int fs_real_chattr(struct disk *d, const char *path, uint32_t mode, uint32_t uid, uint32_t gid, unsigned flags, struct err *e)
{
    if (mode > 07777)
        return err_set(e, E_INVAL, "%s: mode %o", path, (unsigned)mode);
    AUTO_CLOSE int fd = -1;
    int r = fs_open(fs_real(d), path, O_PATH | O_NOFOLLOW, flags, &fd, e);
    if (r == 0)
        r = check_chattr(fd, path, flags, e);
    if (r != 0)
        return r;
    return chattr_fd(fd, mode, uid, gid) == 0 ? 0 : err_sys(e, errno, "%s", path);
}

int fs_real_unlink(struct disk *d, const char *path, unsigned flags, struct err *e)
{
    AUTO_PLACE struct fs_place place = FS_PLACE_INIT;
    struct err why = ERR_INIT;
    struct stat st;
    int r = fs_place(fs_real(d), path, flags, &place, &why);
    if (r == 0)
        r = fs_place_stat(&place, path, flags, &st, &why);
    if (r == 0 && unlinkat(place.dir, place.name, 0) != 0)
        r = err_sys(&why, errno, "%s", path);
    if (r == 0)
        return fs_sync_dir(place.dir, path, flags, e);
    return r == E_NOTFOUND ? 0 : fs_fail(e, &why);
}

int fs_real_rename(struct disk *d, const char *from, const char *to, unsigned flags, struct err *e)
{
    const char *old = strrchr(from, '/'), *new = strrchr(to, '/');
    if (old == NULL || new == NULL || old - from != new - to || memcmp(from, to, (size_t)(old - from)) != 0)
        return err_set(e, E_INVAL, "%s and %s are not in one directory", from, to);
    int r = path_check(to, e);
    if (r != 0)
        return r;
    AUTO_PLACE struct fs_place place = FS_PLACE_INIT;
    struct stat st;
    r = fs_place(fs_real(d), from, flags, &place, e);
    if (r == 0)
        r = fs_place_stat(&place, from, flags, &st, e);
    if (r != 0)
        return r;
    if (renameat(place.dir, place.name, place.dir, new + 1) != 0)
        return err_sys(e, errno, "%s to %s", from, to);
    return fs_sync_dir(place.dir, to, flags, e);
}
