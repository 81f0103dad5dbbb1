// SPDX-License-Identifier: Apache-2.0
#include "unpack/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

enum { DIR_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, LOOK_BYTES = 1 << 20, DIR_MODE = 0755 };

// A name in an open directory.
struct place {
    int dir;
    const char *name;
};

static void place_fini(const struct place *p)
{
    if (p->dir >= 0)
        close(p->dir);
}
#define AUTO_DIR CLEANUP(place_fini)

void tree_init(struct tree *t, int top)
{
    *t = (struct tree){ .top = top, .file = -1, .max_bytes = INT64_MAX, .max_entries = INT64_MAX };
}

void tree_fini(struct tree *t)
{
    if (t->file >= 0)
        close(steal_fd(&t->file));
}

static int count(struct tree *t, struct err *e)
{
    if (t->entries >= t->max_entries)
        return err_set(e, E_TOOBIG, "more than %lld files and directories", (long long)t->max_entries);
    t->entries++;
    return 0;
}

// Goes down one directory; makes it where it is missing.
static int enter(struct tree *t, int *dir, const char *name, bool make, struct err *e)
{
    int fd = openat(*dir, name, DIR_FLAGS);
    if (fd < 0 && errno == ENOENT && make) {
        int rc = count(t, e);
        if (rc < 0)
            return rc;
        if (mkdirat(*dir, name, DIR_MODE) < 0)
            return err_sys(e, errno, "directory %.200s", name);
        fd = openat(*dir, name, DIR_FLAGS);
    }
    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
        return err_set(e, E_INVAL, "%.200s is no directory, and another entry lies below it", name);
    if (fd < 0)
        return err_sys(e, errno, "directory %.200s", name);
    close(*dir);
    *dir = fd;
    return 0;
}

// The directory that holds `path`, and its last component. Without `make` all of it is there already.
static int find(struct tree *t, const char *path, bool make, struct place *out, struct err *e)
{
    char name[256];
    int depth = 0, rc = 0;
    out->dir = fcntl(t->top, F_DUPFD_CLOEXEC, 0);
    if (out->dir < 0)
        return err_sys(e, errno, "unpacking");
    for (const char *slash; rc == 0 && (slash = strchr(path, '/')) != NULL; path = slash + 1) {
        size_t n = (size_t)(slash - path); // tar_clean_name() bounds it
        memcpy(name, path, n);
        name[n] = '\0';
        rc = ++depth < TREE_DEPTH_MAX ? enter(t, &out->dir, name, make, e) : err_set(e, E_TOOBIG, "directories lie too deep");
    }
    out->name = path;
    return rc;
}

static int make_dir(struct tree *t, const char *path, struct err *e)
{
    AUTO_DIR struct place p = { -1, NULL };
    if (path[0] == '\0')
        return 0;
    int rc = find(t, path, true, &p, e);
    return rc == 0 ? enter(t, &p.dir, p.name, true, e) : rc;
}

// A later entry of the same name counts, unless one of the two is a directory.
static int make_room(const struct place *p, struct err *e)
{
    if (unlinkat(p->dir, p->name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno == EISDIR || errno == EPERM)
        return err_set(e, E_INVAL, "%.200s is a directory and something else", p->name);
    return err_sys(e, errno, "%.200s", p->name);
}

static int make_file(struct tree *t, const struct place *p, const struct tar_entry *en, struct err *e)
{
    if (en->size > t->max_bytes - t->bytes)
        return err_set(e, E_TOOBIG, "more than %lld bytes", (long long)t->max_bytes);
    t->file = openat(p->dir, p->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (t->file < 0)
        return err_sys(e, errno, "%.200s", p->name);
    return fchmod(t->file, (en->mode & 0111) != 0 ? 0755 : 0644) == 0 ? 0 : err_sys(e, errno, "%.200s", p->name);
}

static int depth_of(const char *path)
{
    int n = 0;
    for (; *path != '\0'; path++)
        n += *path == '/';
    return n;
}

// Each link goes up from the directory in which it really lies, and only then down; so each step of a chain of them stays below the top.
static bool stays_inside(const char *target, int depth)
{
    bool down = false;
    if (target[0] == '/' || target[0] == '\0')
        return false;
    for (size_t n; *target != '\0'; target += n) {
        target += strspn(target, "/");
        n = strcspn(target, "/");
        bool up = n == 2 && memcmp(target, "..", 2) == 0, here = n == 0 || (n == 1 && target[0] == '.');
        if (up && (down || --depth < 0))
            return false;
        down |= !up && !here;
    }
    return true;
}

static int make_symlink(const struct place *p, const struct tar_entry *en, struct err *e)
{
    if (!stays_inside(en->target, depth_of(en->name)))
        return err_set(e, E_INVAL, "link %.150s leads out of the archive: %.150s", en->name, en->target);
    return symlinkat(en->target, p->dir, p->name) == 0 ? 0 : err_sys(e, errno, "link %.200s", en->name);
}

static int make_hardlink(struct tree *t, const struct place *p, const struct tar_entry *en, struct err *e)
{
    AUTO_DIR struct place old = { -1, NULL };
    struct stat st;
    int rc = find(t, en->target, false, &old, e);
    if (rc < 0)
        return rc;
    if (fstatat(old.dir, old.name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
        return err_set(e, E_INVAL, "link %.150s: %.150s is no file of the archive before it", en->name, en->target);
    if (strcmp(en->name, en->target) == 0)
        return 0;
    rc = make_room(p, e);
    if (rc < 0)
        return rc;
    return linkat(old.dir, old.name, p->dir, p->name, 0) == 0 ? 0 : err_sys(e, errno, "link %.200s", en->name);
}

int tree_entry(struct tree *t, const struct tar_entry *en, struct err *e)
{
    AUTO_DIR struct place p = { -1, NULL };
    if (en->type == TAR_DIR)
        return make_dir(t, en->name, e);
    int rc = count(t, e);
    if (rc == 0)
        rc = find(t, en->name, true, &p, e);
    if (rc < 0 || en->type == TAR_HARDLINK)
        return rc < 0 ? rc : make_hardlink(t, &p, en, e);
    rc = make_room(&p, e);
    if (rc < 0)
        return rc;
    return en->type == TAR_FILE ? make_file(t, &p, en, e) : make_symlink(&p, en, e);
}

static int look_at_space(struct tree *t, struct err *e)
{
    struct statvfs v;
    if (t->reserve <= 0 || t->bytes - t->looked < LOOK_BYTES)
        return 0;
    t->looked = t->bytes;
    if (fstatvfs(t->top, &v) < 0)
        return err_sys(e, errno, "free space");
    if ((uint64_t)v.f_bavail * v.f_frsize >= (uint64_t)t->reserve)
        return 0;
    return err_set(e, E_NOSPC, "the file system would be left with less than %lld bytes", (long long)t->reserve);
}

int tree_data(struct tree *t, const void *bytes, size_t n, struct err *e)
{
    const char *p = bytes;
    if ((int64_t)n > t->max_bytes - t->bytes)
        return err_set(e, E_TOOBIG, "more than %lld bytes", (long long)t->max_bytes);
    for (size_t done = 0; done < n;) {
        ssize_t w = write(t->file, p + done, n - done);
        if (w < 0 && errno != EINTR)
            return err_sys(e, errno, "writing");
        done += w > 0 ? (size_t)w : 0;
    }
    t->bytes += (int64_t)n;
    return look_at_space(t, e);
}

int tree_end(struct tree *t, struct err *e)
{
    return close(steal_fd(&t->file)) == 0 ? 0 : err_sys(e, errno, "writing");
}

static int on_entry(void *ctx, const struct tar_entry *en, struct err *e)
{
    return tree_entry(ctx, en, e);
}

static int on_data(void *ctx, const void *p, size_t n, struct err *e)
{
    return tree_data(ctx, p, n, e);
}

static int on_end(void *ctx, struct err *e)
{
    return tree_end(ctx, e);
}

struct tar_sink tree_sink(struct tree *t)
{
    return (struct tar_sink){ .entry = on_entry, .data = on_data, .end = on_end, .ctx = t };
}
