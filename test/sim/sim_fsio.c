// SPDX-License-Identifier: Apache-2.0
// The seam of base/fsio.h over the simulated disk, step by step as the real one: each step is an effect after which the agent may die.
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "sim_disk.h"

struct watched {
    struct fs_watch *watch; // NULL = not any more
    struct list link, user; // user: the one node in it is watch->link
    char dir[SIM_PATH_MAX];
};

struct news {
    struct list link;
    char path[SIM_PATH_MAX];
};

static struct sim_disk *self(struct disk *d)
{
    return container_of(d, struct sim_disk, disk);
}

static int died(struct err *e)
{
    return err_set(e, E_IO, "the agent is dead");
}

// --- Looking

static int find_file(struct sim_disk *d, const char *path, struct sim_file **out, struct err *e)
{
    int rc = path_check(path, e);
    if (rc < 0)
        return rc;
    *out = sim_disk_at(d, path);
    return *out != NULL ? 0 : err_set(e, E_NOTFOUND, "%s: No such file or directory", path);
}

static int fake_read(struct disk *disk, const char *path, size_t max, unsigned flags UNUSED, struct buf *out, struct err *e)
{
    struct sim_file *f;
    int rc = find_file(self(disk), path, &f, e);
    if (rc < 0)
        return rc;
    if (sim_disk_errs(self(disk), F_READ_ERROR))
        return err_set(e, E_IO, "%s: Input/output error", path);
    if (f->type != FS_FILE)
        return err_set(e, E_INVAL, "%s: not a regular file", path);
    if (f->now.len > max)
        return err_set(e, E_TOOBIG, "%s: more than %zu bytes", path, max);
    buf_reset(out);
    return buf_add(out, f->now.len > 0 ? f->now.data : "", f->now.len, e);
}

static int fake_stat(struct disk *disk, const char *path, unsigned flags UNUSED, struct fs_stat *out, struct err *e)
{
    struct sim_file *f;
    int rc = find_file(self(disk), path, &f, e);
    if (rc < 0)
        return rc;
    *out = (struct fs_stat){ f->type, f->mode, f->uid, f->gid, (int64_t)f->now.len, f->mtime_us, 0 };
    return 0;
}

static bool is_child(const char *path, const char *dir)
{
    size_t n = strcmp(dir, "/") == 0 ? 0 : strlen(dir);
    return strncmp(path, dir, n) == 0 && path[n] == '/' && path[n + 1] != '\0' && strchr(path + n + 1, '/') == NULL;
}

static int fake_list(struct disk *disk, const char *path, int (*fn)(void *ctx, const char *name, enum fs_type t), void *ctx, struct err *e)
{
    struct sim_disk *d = self(disk);
    struct sim_file *f;
    int rc = find_file(d, path, &f, e);
    if (rc < 0)
        return rc;
    list_each_safe(it, next, &d->names) {
        const struct sim_name *n = container_of(it, struct sim_name, link);
        if (n->now == NULL || !is_child(n->path, path))
            continue;
        rc = fn(ctx, strrchr(n->path, '/') + 1, n->now->type);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int fake_free_bytes(struct disk *disk, const char *path UNUSED, uint64_t *avail, uint64_t *total, struct err *e UNUSED)
{
    *total = UINT64_C(8) << 30;
    *avail = self(disk)->full ? 0 : *total / 2;
    return 0;
}

// --- Watching

static void deliver(struct sim_disk *d, const char *path)
{
    const char *slash = strrchr(path, '/');
    list_each(it, &d->watches) {
        struct watched *w = container_of(it, struct watched, link);
        if (w->watch != NULL && is_child(path, w->dir))
            w->watch->fn(w->watch, slash + 1);
    }
}

static void forget_ended(struct sim_disk *d)
{
    list_each_safe(it, next, &d->watches) {
        struct watched *w = container_of(it, struct watched, link);
        if (w->watch != NULL)
            continue;
        list_del(it);
        free(w);
    }
}

static void on_bell(struct loop_fd *fd, unsigned events UNUSED)
{
    struct sim_disk *d = container_of(fd, struct sim_disk, bell);
    struct list now;
    list_init(&now);
    while (!list_empty(&d->news)) {
        struct list *n = d->news.next;
        list_del(n);
        list_add_tail(&now, n);
    }
    list_each_safe(it, next, &now) {
        struct news *n = container_of(it, struct news, link);
        deliver(d, n->path);
        list_del(it);
        free(n);
    }
    forget_ended(d);
}

static void on_ring(struct sim_event *ev)
{
    struct sim_disk *d = container_of(ev, struct sim_disk, ring);
    if (d->loop != NULL)
        sim_dispatch(d->sim, d->loop, &d->bell);
}

// As inotify: the agent's own changes are news to it, too.
static void tell(struct sim_disk *d, const char *path)
{
    AS_WORLD;
    bool heard = false;
    list_each(it, &d->watches)
        heard = heard || is_child(path, container_of(it, struct watched, link)->dir);
    if (!heard || d->loop == NULL)
        return;
    struct news *n = calloc(1, sizeof(*n));
    if (n == NULL)
        abort();
    snprintf(n->path, sizeof(n->path), "%s", path);
    list_add_tail(&d->news, &n->link);
    sim_in(d->sim, &d->ring, 1, on_ring);
}

static int fake_watch(struct disk *disk, struct fs_watch *fw, const char *dir, struct err *e)
{
    AS_WORLD;
    struct sim_disk *d = self(disk);
    struct sim_file *f;
    int rc = find_file(d, dir, &f, e);
    if (rc < 0)
        return rc;
    struct watched *w = calloc(1, sizeof(*w));
    if (w == NULL)
        return err_set(e, E_NOMEM, "no memory to watch %s", dir);
    w->watch = fw;
    snprintf(w->dir, sizeof(w->dir), "%s", dir);
    list_add_tail(&d->watches, &w->link);
    list_init(&w->user);
    list_add_tail(&w->user, &fw->link);
    fw->impl = w;
    return 0;
}

static void fake_unwatch(struct disk *disk UNUSED, struct fs_watch *fw)
{
    struct watched *w = fw->impl;
    if (w == NULL)
        return;
    list_del(&fw->link);
    w->watch = NULL;
    fw->impl = NULL;
}

// --- Changing

static int may_change(struct sim_disk *d, const char *path, struct err *e)
{
    if (!sim_effect(d->sim))
        return died(e);
    if (sim_disk_errs(d, F_WRITE_ERROR))
        return err_set(e, E_IO, "%s: Input/output error", path);
    if (!d->full)
        return 0;
    sim_hit(d->sim, F_FULL);
    return err_set(e, E_NOSPC, "%s: No space left on device", path);
}

static int check_parent(struct sim_disk *d, const char *path, struct err *e)
{
    char dir[SIM_PATH_MAX];
    snprintf(dir, sizeof(dir), "%.*s", (int)MAX(strrchr(path, '/') - path, 1), path);
    struct sim_file *f = sim_disk_at(d, dir);
    return f != NULL && f->type == FS_DIR ? 0 : err_set(e, E_NOTFOUND, "%s: No such file or directory", path);
}

static int write_checked(struct sim_disk *d, const char *path, unsigned flags, struct err *e)
{
    struct sim_file *old = sim_disk_at(d, path);
    int rc = path_check(path, e);
    if (rc == 0)
        rc = check_parent(d, path, e);
    if (rc < 0)
        return rc;
    if (old != NULL && (flags & FS_EXCL))
        return err_set(e, E_EXISTS, "%s: exists", path);
    return old != NULL && old->type != FS_FILE ? err_set(e, E_INVAL, "%s: not a regular file", path) : 0;
}

static void temporary_of(const char *path, char out[SIM_PATH_MAX])
{
    const char *name = strrchr(path, '/') + 1;
    snprintf(out, SIM_PATH_MAX, "%.*s.%s.limpet-tmp", (int)(name - path), path, name);
}

// Temporary, content, sync, rename, sync of the directory.
static int fake_write(struct disk *disk, const char *path, const void *p, size_t n, uint32_t mode, uint32_t uid, uint32_t gid,
                      unsigned flags, struct err *e)
{
    struct sim_disk *d = self(disk);
    char tmp[SIM_PATH_MAX];
    int rc = write_checked(d, path, flags, e);
    if (rc == 0)
        rc = may_change(d, path, e);
    if (rc < 0)
        return rc;
    if (d->written != NULL)
        d->written(d, path, p, n);
    temporary_of(path, tmp);
    struct sim_file *f = sim_file_create(d, tmp);
    f->mode = mode;
    f->uid = uid == UINT32_MAX ? 0 : uid;
    f->gid = gid == UINT32_MAX ? 0 : gid;
    if (sim_file_write(f, p, n, 0) < 0)
        return err_set(e, E_NOMEM, "%s", path);
    if (!sim_effect(d->sim))
        return died(e);
    if ((flags & FS_NOSYNC) == 0 && sim_file_sync(d, f) < 0) {
        sim_name_set(d, tmp, NULL);
        return err_set(e, E_IO, "%s: fsync: Input/output error", path);
    }
    sim_name_move(d, tmp, path);
    d->store_writes++;
    d->last_write_ms = d->sim->now_ms;
    tell(d, path);
    if (!sim_effect(d->sim))
        return died(e);
    if ((flags & FS_NOSYNC) == 0)
        sim_dir_sync(d, path);
    sim_note(d->sim, "disk", "written %s (%zu bytes)", path, n);
    return 0;
}

static int fake_chattr(struct disk *disk, const char *path, uint32_t mode, uint32_t uid, uint32_t gid, unsigned flags UNUSED, struct err *e)
{
    struct sim_disk *d = self(disk);
    struct sim_file *f;
    int rc = find_file(d, path, &f, e);
    if (rc == 0)
        rc = may_change(d, path, e);
    if (rc < 0)
        return rc;
    f->mode = mode;
    f->uid = uid == UINT32_MAX ? f->uid : uid;
    f->gid = gid == UINT32_MAX ? f->gid : gid;
    tell(d, path);
    return 0;
}

static int remove_name(struct sim_disk *d, const char *path, struct err *e)
{
    if (!sim_effect(d->sim))
        return died(e);
    sim_name_set(d, path, NULL);
    tell(d, path);
    if (!sim_effect(d->sim))
        return died(e);
    sim_dir_sync(d, path);
    return 0;
}

static int fake_unlink(struct disk *disk, const char *path, unsigned flags UNUSED, struct err *e)
{
    struct sim_disk *d = self(disk);
    struct sim_file *f;
    int rc = find_file(d, path, &f, e);
    if (rc == E_NOTFOUND)
        return 0;
    if (rc == 0 && f->type == FS_DIR)
        rc = err_set(e, E_INVAL, "%s: Is a directory", path);
    if (rc == 0 && d->removed != NULL && !d->sim->dead) // of what the dead do nothing reaches the world
        d->removed(d, path);
    if (rc == 0)
        rc = remove_name(d, path, e);
    if (rc == 0)
        sim_note(d->sim, "disk", "removed %s", path);
    return rc;
}

static int fake_rename(struct disk *disk, const char *from, const char *to, unsigned flags UNUSED, struct err *e)
{
    struct sim_disk *d = self(disk);
    struct sim_file *f;
    int rc = find_file(d, from, &f, e);
    if (rc == 0)
        rc = may_change(d, from, e);
    if (rc < 0)
        return rc;
    if (d->written != NULL)
        d->written(d, to, buf_str(&f->now), f->now.len);
    sim_name_move(d, from, to);
    tell(d, to);
    if (!sim_effect(d->sim))
        return died(e);
    sim_dir_sync(d, to);
    return 0;
}

static int make_dir(struct sim_disk *d, const char *path, uint32_t mode, struct err *e)
{
    struct sim_file *f = sim_disk_at(d, path);
    if (f != NULL)
        return f->type == FS_DIR ? 0 : err_set(e, E_INVAL, "%s: Not a directory", path);
    int rc = may_change(d, path, e);
    if (rc < 0)
        return rc;
    f = sim_file_create(d, path);
    f->type = FS_DIR;
    f->mode = mode;
    sim_dir_sync(d, path);
    tell(d, path);
    return 0;
}

static int fake_mkdirs(struct disk *disk, const char *path, uint32_t mode, unsigned flags UNUSED, struct err *e)
{
    char upto[SIM_PATH_MAX];
    int rc = path_check(path, e);
    for (const char *at = path; rc == 0 && at != NULL;) {
        at = strchr(at + 1, '/');
        snprintf(upto, sizeof(upto), "%.*s", at != NULL ? (int)(at - path) : SIM_PATH_MAX - 1, path);
        rc = make_dir(self(disk), upto, mode, e);
    }
    return rc;
}

static int fake_rmdir(struct disk *disk, const char *path, unsigned flags UNUSED, struct err *e)
{
    struct sim_disk *d = self(disk);
    struct sim_file *f;
    int rc = find_file(d, path, &f, e);
    if (rc == E_NOTFOUND)
        return 0;
    if (rc == 0 && f->type != FS_DIR)
        rc = err_set(e, E_INVAL, "%s: Not a directory", path);
    list_each(it, &d->names) {
        const struct sim_name *n = container_of(it, struct sim_name, link);
        if (rc == 0 && n->now != NULL && is_child(n->path, path))
            rc = err_set(e, E_EXISTS, "%s: is not empty", path);
    }
    return rc == 0 ? remove_name(d, path, e) : rc;
}

// The deepest first: names are in order, so that is the last one.
static bool last_below(struct sim_disk *d, const char *path, char out[SIM_PATH_MAX])
{
    for (struct list *it = d->names.prev; it != &d->names; it = it->prev) {
        const struct sim_name *n = container_of(it, struct sim_name, link);
        if (n->now == NULL || !path_below(n->path, path))
            continue;
        memcpy(out, n->path, SIM_PATH_MAX);
        return true;
    }
    return false;
}

static int fake_rmtree(struct disk *disk, const char *path, struct err *e)
{
    char name[SIM_PATH_MAX];
    int rc = path_check(path, e);
    while (rc == 0 && last_below(self(disk), path, name))
        rc = remove_name(self(disk), name, e);
    return rc;
}

// --- Accounts: root, and numbers

static int number_or(const char *name, uint32_t *id, struct err *e)
{
    int64_t v;
    if (*name == '\0' || strcmp(name, "root") == 0) {
        *id = *name == '\0' ? UINT32_MAX : 0;
        return 0;
    }
    if (num_i64(name, 0, UINT32_MAX - 1, &v, NULL) < 0)
        return err_set(e, E_NOTFOUND, "%s: no such account", name);
    *id = (uint32_t)v;
    return 0;
}

static int fake_user(struct disk *d UNUSED, const char *name, uint32_t *uid, uint32_t *gid, struct err *e)
{
    int rc = number_or(name, uid, e);
    if (rc == 0)
        *gid = strcmp(name, "root") == 0 ? 0 : UINT32_MAX;
    return rc;
}

static int fake_group(struct disk *d UNUSED, const char *name, uint32_t *gid, struct err *e)
{
    return number_or(name, gid, e);
}

static void fake_free(struct disk *disk)
{
    sim_disk_leave(self(disk));
}

static const struct disk_ops sim_disk_ops = {
    .read = fake_read,
    .write = fake_write,
    .stat = fake_stat,
    .chattr = fake_chattr,
    .unlink = fake_unlink,
    .rename = fake_rename,
    .mkdirs = fake_mkdirs,
    .rmdir = fake_rmdir,
    .rmtree = fake_rmtree,
    .list = fake_list,
    .free_bytes = fake_free_bytes,
    .watch = fake_watch,
    .unwatch = fake_unwatch,
    .user = fake_user,
    .group = fake_group,
    .free = fake_free,
};

// --- The agent comes and goes

struct disk *sim_disk_for(struct sim_disk *d, struct loop *l)
{
    struct err e = ERR_INIT;
    d->loop = l;
    d->disk = (struct disk){ &sim_disk_ops, "", d->vfs_name };
    if (loop_fd_add(l, &d->bell, -1, LOOP_IN, on_bell, &e) < 0)
        abort();
    return &d->disk;
}

void sim_disk_leave(struct sim_disk *d)
{
    if (d->loop == NULL)
        return;
    loop_fd_del(d->loop, &d->bell);
    d->loop = NULL;
    sim_unset(&d->ring);
    list_each_safe(it, next, &d->news) {
        list_del(it);
        free(container_of(it, struct news, link));
    }
    list_each_safe(it, next, &d->watches) {
        list_del(it);
        free(container_of(it, struct watched, link));
    }
}

// --- Somebody else

void sim_disk_put(struct sim_disk *d, const char *path, const char *text, uint32_t mode)
{
    struct sim_file *f = sim_file_create(d, path);
    f->mode = mode;
    if (sim_file_write(f, text, strlen(text), 0) < 0)
        abort();
    sim_file_settle(f);
    sim_dir_sync(d, path);
    tell(d, path);
}

void sim_disk_remove(struct sim_disk *d, const char *path)
{
    if (sim_disk_at(d, path) == NULL)
        return;
    sim_name_set(d, path, NULL);
    sim_dir_sync(d, path);
    tell(d, path);
}
