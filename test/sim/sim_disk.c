// SPDX-License-Identifier: Apache-2.0
// Names, files, and what a power cut leaves of them.
#include "sim_disk.h"

#include <stdio.h>
#include <string.h>

enum { FILE_MAX = 64 * 1024 * 1024 };

// --- Files

static struct sim_file *file_new(struct sim_disk *d, enum fs_type type, uint32_t mode)
{
    AS_WORLD;
    struct sim_file *f = calloc(1, sizeof(*f));
    if (f == NULL)
        abort();
    *f = (struct sim_file){ .refs = 1, .type = type, .mode = mode, .mtime_us = sim_true_us(d->sim) };
    buf_init(&f->now, FILE_MAX);
    buf_init(&f->synced, FILE_MAX);
    list_init(&f->writes);
    return f;
}

struct sim_file *sim_file_ref(struct sim_file *f)
{
    if (f != NULL)
        f->refs++;
    return f;
}

static void forget_writes(struct sim_file *f)
{
    list_each_safe(it, next, &f->writes) {
        struct sim_write *w = container_of(it, struct sim_write, link);
        list_del(it);
        free(w->p);
        free(w);
    }
}

void sim_file_unref(struct sim_file *f)
{
    if (f == NULL || --f->refs > 0)
        return;
    forget_writes(f);
    buf_fini(&f->now);
    buf_fini(&f->synced);
    free(f);
}

static int resize(struct buf *b, size_t size)
{
    AS_WORLD;
    if (size > b->len) {
        size_t old = b->len;
        if (buf_reserve(b, size - old, NULL) < 0)
            return -1;
        memset(b->data + old, 0, size - old);
    }
    b->len = size;
    if (b->data != NULL)
        b->data[size] = '\0';
    return 0;
}

static int put_bytes(struct buf *b, const char *p, size_t n, int64_t off)
{
    size_t end = (size_t)off + n;
    if (end > b->len && resize(b, end) < 0)
        return -1;
    if (n > 0)
        memcpy(b->data + off, p, n);
    return 0;
}

static int note_write(struct sim_file *f, const void *p, size_t n, int64_t off)
{
    AS_WORLD;
    struct sim_write *w = calloc(1, sizeof(*w));
    char *copy = p != NULL ? malloc(n + 1) : NULL;
    if (w == NULL || (p != NULL && copy == NULL)) {
        free(w);
        free(copy);
        return -1;
    }
    if (p != NULL)
        memcpy(copy, p, n);
    *w = (struct sim_write){ .off = off, .n = n, .p = copy };
    list_add_tail(&f->writes, &w->link);
    return 0;
}

int sim_file_write(struct sim_file *f, const void *p, size_t n, int64_t off)
{
    return note_write(f, p, n, off) < 0 ? -1 : put_bytes(&f->now, p, n, off);
}

int sim_file_truncate(struct sim_file *f, int64_t size)
{
    return note_write(f, NULL, 0, size) < 0 ? -1 : resize(&f->now, (size_t)size);
}

static void apply_write(struct sim_file *f, const struct sim_write *w)
{
    int rc = w->p == NULL ? resize(&f->synced, (size_t)w->off) : put_bytes(&f->synced, w->p, w->n, w->off);
    if (rc < 0)
        abort();
}

bool sim_disk_errs(struct sim_disk *d, enum sim_fault f)
{
    if (d->error_permille == 0 || d->calm || (f == F_READ_ERROR && !d->reads_fail) || rng_below(&d->rng, 1000) >= d->error_permille)
        return false;
    sim_hit(d->sim, f);
    return true;
}

void sim_file_settle(struct sim_file *f)
{
    list_each(it, &f->writes)
        apply_write(f, container_of(it, struct sim_write, link));
    forget_writes(f);
}

// Blocks with a write since the last sync.
uint64_t sim_file_dirty(const struct sim_file *f)
{
    unsigned char dirty[FILE_MAX / SIM_BLOCK / 8] = { 0 };
    uint64_t n = 0;
    list_each(it, &f->writes) {
        const struct sim_write *w = container_of(it, struct sim_write, link);
        for (int64_t b = w->off / SIM_BLOCK; w->n > 0 && b <= (w->off + (int64_t)w->n - 1) / SIM_BLOCK; b++) {
            n += (dirty[b / 8] & 1u << b % 8) == 0;
            dirty[b / 8] |= (unsigned char)(1u << b % 8);
        }
    }
    return n;
}

// After an fsync that failed the pages count as clean, whether they reached the disk or not: the next fsync knows nothing of them.
int sim_file_sync(struct sim_disk *d, struct sim_file *f)
{
    bool fails = sim_disk_errs(d, F_SYNC_ERROR);
    d->sync_failed = d->sync_failed || fails;
    if (d->sync_ms > 0) {
        sim_hit(d->sim, F_SLOW_DISK);
        d->sim->now_ms += d->sync_ms;
    }
    list_each(it, &f->writes) {
        if (!fails || rng_chance(&d->rng, 50))
            apply_write(f, container_of(it, struct sim_write, link));
    }
    forget_writes(f);
    return fails ? -1 : 0;
}

// --- Names

static struct sim_name *name_of(struct list *l)
{
    return container_of(l, struct sim_name, link);
}

static struct sim_name *find(struct sim_disk *d, const char *path)
{
    list_each(it, &d->names)
        if (strcmp(name_of(it)->path, path) == 0)
            return name_of(it);
    return NULL;
}

static struct sim_name *find_or_add(struct sim_disk *d, const char *path)
{
    AS_WORLD;
    struct sim_name *n = find(d, path);
    if (n != NULL)
        return n;
    n = calloc(1, sizeof(*n));
    if (n == NULL || strlen(path) >= SIM_PATH_MAX)
        abort();
    strcpy(n->path, path);
    struct list *before = d->names.prev;
    while (before != &d->names && strcmp(name_of(before)->path, path) > 0)
        before = before->prev;
    list_add_tail(before->next, &n->link);
    return n;
}

static void drop_unused(struct sim_name *n)
{
    if (n->now != NULL || n->synced != NULL)
        return;
    list_del(&n->link);
    free(n);
}

void sim_name_set(struct sim_disk *d, const char *path, struct sim_file *f)
{
    struct sim_name *n = find_or_add(d, path);
    struct sim_file *old = n->now;
    n->now = sim_file_ref(f);
    n->change = ++d->changes;
    sim_file_unref(old);
    drop_unused(n);
}

// One change: after a power cut it has happened or it has not.
void sim_name_move(struct sim_disk *d, const char *from, const char *to)
{
    sim_name_set(d, to, sim_disk_at(d, from));
    d->changes--;
    sim_name_set(d, from, NULL);
}

static bool is_in(const char *path, const char *dir, size_t n)
{
    return strncmp(path, dir, n) == 0 && path[n] == '/' && strchr(path + n + 1, '/') == NULL;
}

static size_t dir_len(const char *path)
{
    return (size_t)(strrchr(path, '/') - path);
}

static void settle(struct sim_disk *d, struct sim_name *n, bool keep_now)
{
    if (!keep_now && n->now != n->synced)
        sim_hit(d->sim, F_NAME_UNDONE);
    if (keep_now) {
        sim_file_ref(n->now);
        sim_file_unref(n->synced);
        n->synced = n->now;
    } else {
        sim_file_ref(n->synced);
        sim_file_unref(n->now);
        n->now = n->synced;
    }
    n->change = 0;
    drop_unused(n);
}

void sim_dir_sync(struct sim_disk *d, const char *path)
{
    size_t len = dir_len(path);
    list_each_safe(it, next, &d->names)
        if (is_in(name_of(it)->path, path, len))
            settle(d, name_of(it), true);
}

struct sim_file *sim_file_create(struct sim_disk *d, const char *path)
{
    struct sim_file *f = file_new(d, FS_FILE, 0600);
    sim_name_set(d, path, f);
    sim_file_unref(f); // the name holds it
    return f;
}

struct sim_file *sim_disk_at(struct sim_disk *d, const char *path)
{
    struct sim_name *n = find(d, path);
    return n != NULL ? n->now : NULL;
}

// --- The power cut

// Sector by sector: a write that was under way reached the disk in any part.
static void keep_torn(struct sim_disk *d, struct sim_file *f, const struct sim_write *w)
{
    sim_hit(d->sim, F_TORN);
    for (size_t at = 0; at < w->n;) {
        size_t room = SECTOR - ((size_t)w->off + at) % SECTOR, n = MIN(room, w->n - at);
        if (rng_chance(&d->rng, 50) && put_bytes(&f->synced, w->p + at, n, w->off + (int64_t)at) < 0)
            abort();
        at += n;
    }
}

static void keep_some_writes(struct sim_disk *d, struct sim_file *f)
{
    list_each(it, &f->writes) {
        const struct sim_write *w = container_of(it, struct sim_write, link);
        int64_t what = rng_below(&d->rng, 3); // lost, whole, torn
        if (what == 0)
            sim_hit(d->sim, F_FORGOT);
        else if (what == 1 || w->p == NULL)
            apply_write(f, w);
        else
            keep_torn(d, f, w);
    }
    forget_writes(f);
}

// The page cache is gone: what is there now is what was on the disk.
static void reread(struct sim_file *f)
{
    if (resize(&f->now, f->synced.len) < 0)
        abort();
    if (f->synced.len > 0)
        memcpy(f->now.data, f->synced.data, f->synced.len);
}

// What is kept in memory is gone with it.
static bool is_volatile(const char *path)
{
    return strncmp(path, "/run/", 5) == 0;
}

// One cut for each directory: the changes before it are kept, those after it are not.
static bool survives(struct sim_disk *d, const struct sim_name *n)
{
    uint64_t salt = hash_bytes(d->rng.state, n->path, dir_len(n->path));
    struct sim_rng r = { salt };
    return n->change == 0 || n->change <= d->changes - (uint64_t)rng_below(&r, 8);
}

void sim_disk_power_cut(struct sim_disk *d)
{
    d->sync_failed = false;
    list_each_safe(it, next, &d->names) {
        struct sim_name *n = name_of(it);
        if (is_volatile(n->path)) {
            sim_file_unref(n->now);
            n->now = NULL;
            settle(d, n, true);
        } else {
            settle(d, n, survives(d, n));
        }
    }
    rng_next(&d->rng);
    list_each(it, &d->names) {
        struct sim_file *f = name_of(it)->now;
        f->locks = 0;
        if (!list_empty(&f->writes))
            keep_some_writes(d, f);
        reread(f);
    }
}

void sim_disk_write_back(struct sim_disk *d)
{
    list_each_safe(it, next, &d->names) {
        struct sim_file *f = name_of(it)->now;
        if (f != NULL)
            sim_file_settle(f);
        settle(d, name_of(it), true);
    }
}

// --- At rest

static void flip_bit(struct buf *b, uint64_t where)
{
    if (b->len > 0)
        b->data[where / 8 % b->len] ^= (char)(1 << where % 8);
}

// What was written and not synced is left alone: it is not at rest.
bool sim_disk_flip(struct sim_disk *d, const char *path, uint64_t where)
{
    struct sim_file *f = sim_disk_at(d, path);
    if (f == NULL || f->now.len == 0 || f->now.len != f->synced.len || !list_empty(&f->writes))
        return false;
    sim_hit(d->sim, F_FLIPPED);
    flip_bit(&f->now, where);
    flip_bit(&f->synced, where);
    return true;
}

// --- By somebody else

void sim_disk_init(struct sim_disk *d, struct sim *s)
{
    *d = (struct sim_disk){ .sim = s, .rng = sim_stream(s, "disk") };
    list_init(&d->names);
    list_init(&d->watches);
    list_init(&d->news);
    static unsigned disks; // SQLite finds a disk by its name
    snprintf(d->vfs_name, sizeof(d->vfs_name), "sim-%u", ++disks);
    sim_vfs_register(d);
    struct sim_file *root = file_new(d, FS_DIR, 0755);
    sim_name_set(d, "/", root);
    sim_file_unref(root);
}

void sim_disk_fini(struct sim_disk *d)
{
    sim_vfs_unregister(d);
    list_each_safe(it, next, &d->names) {
        struct sim_name *n = name_of(it);
        sim_file_unref(n->now);
        sim_file_unref(n->synced);
        list_del(it);
        free(n);
    }
}
