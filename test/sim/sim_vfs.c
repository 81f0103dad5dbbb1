// SPDX-License-Identifier: Apache-2.0
// SQLite's VFS over the simulated disk. It is also the process's default one while a world exists, so that SQLite's own randomness comes
// from the seed. Locks only tell a second connection from the first; there is no shared memory (the store asks for none).
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "data/db_priv.h"
#include "sim_disk.h"

struct vfs_file {
    sqlite3_file base;
    struct sim_disk *disk;
    struct sim_file *file;
    char path[SIM_PATH_MAX];
    int lock, chunk; // chunk: it grows by so many bytes at a time, 0 = as it comes
    bool delete_on_close;
};

static struct vfs_file *self(sqlite3_file *f)
{
    return (struct vfs_file *)f;
}

static struct sim_disk *disk_of(sqlite3_vfs *v)
{
    return v->pAppData;
}

// --- A file

static int f_close(sqlite3_file *base)
{
    struct vfs_file *f = self(base);
    if (f->lock > SQLITE_LOCK_NONE)
        f->file->locks--;
    if (f->delete_on_close && !f->disk->sim->dead)
        sim_name_set(f->disk, f->path, NULL);
    sim_file_unref(f->file);
    f->disk->open_files--;
    f->base.pMethods = NULL;
    return SQLITE_OK;
}

static int f_read(sqlite3_file *base, void *p, int n, sqlite3_int64 off)
{
    const struct buf *b = &self(base)->file->now;
    if (sim_disk_errs(self(base)->disk, F_READ_ERROR))
        return SQLITE_IOERR_READ;
    size_t have = (size_t)off < b->len ? MIN((size_t)n, b->len - (size_t)off) : 0;
    if (have > 0)
        memcpy(p, b->data + off, have);
    memset((char *)p + have, 0, (size_t)n - have);
    return have == (size_t)n ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

static int f_write(sqlite3_file *base, const void *p, int n, sqlite3_int64 off)
{
    struct vfs_file *f = self(base);
    if (!sim_effect(f->disk->sim))
        return SQLITE_IOERR_WRITE;
    sim_trace(f->disk->sim, "    write %s %d at %lld%s", f->path, n, (long long)off, f->disk->full ? " (full)" : "");
    if (sim_disk_errs(f->disk, F_WRITE_ERROR))
        return SQLITE_IOERR_WRITE;
    if (f->disk->full && (size_t)off + (size_t)n > f->file->now.len) {
        sim_hit(f->disk->sim, F_FULL);
        return SQLITE_FULL;
    }
    f->disk->store_writes++;
    f->disk->last_write_ms = f->disk->sim->now_ms;
    return sim_file_write(f->file, p, (size_t)n, off) < 0 ? SQLITE_IOERR_NOMEM : SQLITE_OK;
}

static int f_truncate(sqlite3_file *base, sqlite3_int64 size)
{
    struct vfs_file *f = self(base);
    if (!sim_effect(f->disk->sim))
        return SQLITE_IOERR_TRUNCATE;
    sim_trace(f->disk->sim, "    truncate %s to %lld", f->path, (long long)size);
    if (f->chunk > 0)
        size = (size + f->chunk - 1) / f->chunk * f->chunk;
    return sim_file_truncate(f->file, size) < 0 ? SQLITE_IOERR_NOMEM : SQLITE_OK;
}

static int f_sync(sqlite3_file *base, int flags UNUSED)
{
    struct vfs_file *f = self(base);
    if (!sim_effect(f->disk->sim))
        return SQLITE_IOERR_FSYNC;
    sim_trace(f->disk->sim, "    sync %s", f->path);
    f->disk->blocks_synced += sim_file_dirty(f->file);
    if (sim_file_sync(f->disk, f->file) < 0)
        return SQLITE_IOERR_FSYNC;
    sim_dir_sync(f->disk, f->path); // as Linux's file systems do: with a file, that it was created becomes durable
    f->disk->store_writes++;
    return SQLITE_OK;
}

static int f_size(sqlite3_file *base, sqlite3_int64 *out)
{
    *out = (sqlite3_int64)self(base)->file->now.len;
    return SQLITE_OK;
}

// The first connection that locks has the file to itself, as with locking_mode=EXCLUSIVE.
static int f_lock(sqlite3_file *base, int level)
{
    struct vfs_file *f = self(base);
    if (f->lock == SQLITE_LOCK_NONE) {
        if (f->file->locks > 0)
            return SQLITE_BUSY;
        f->file->locks++;
    }
    f->lock = MAX(f->lock, level);
    return SQLITE_OK;
}

static int f_unlock(sqlite3_file *base, int level)
{
    struct vfs_file *f = self(base);
    if (level == SQLITE_LOCK_NONE && f->lock > SQLITE_LOCK_NONE)
        f->file->locks--;
    f->lock = MIN(f->lock, level);
    return SQLITE_OK;
}

static int f_check_lock(sqlite3_file *base, int *out)
{
    *out = self(base)->file->locks > 0;
    return SQLITE_OK;
}

// As the Unix VFS does it: a byte in each block up to the end of the chunk.
static int grow_ahead(struct vfs_file *f, sqlite3_int64 size)
{
    sqlite3_int64 end = (size + f->chunk - 1) / f->chunk * f->chunk, have = (sqlite3_int64)f->file->now.len;
    for (sqlite3_int64 at = (have / SIM_BLOCK + 1) * SIM_BLOCK - 1; at < end; at += SIM_BLOCK)
        if (f_write(&f->base, "", 1, at) != SQLITE_OK)
            return SQLITE_IOERR_WRITE;
    return SQLITE_OK;
}

static int f_control(sqlite3_file *base, int op, void *arg)
{
    struct vfs_file *f = self(base);
    switch (op) {
    case SQLITE_FCNTL_CHUNK_SIZE:
        f->chunk = *(const int *)arg;
        return SQLITE_OK;
    case SQLITE_FCNTL_SIZE_HINT:
        return f->chunk > 0 ? grow_ahead(f, *(const sqlite3_int64 *)arg) : SQLITE_OK;
    default:
        return SQLITE_NOTFOUND;
    }
}

static int f_sector(sqlite3_file *base UNUSED)
{
    return SECTOR;
}

static int f_traits(sqlite3_file *base UNUSED)
{
    return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

static const sqlite3_io_methods file_methods = {
    .iVersion = 1,
    .xClose = f_close,
    .xRead = f_read,
    .xWrite = f_write,
    .xTruncate = f_truncate,
    .xSync = f_sync,
    .xFileSize = f_size,
    .xLock = f_lock,
    .xUnlock = f_unlock,
    .xCheckReservedLock = f_check_lock,
    .xFileControl = f_control,
    .xSectorSize = f_sector,
    .xDeviceCharacteristics = f_traits,
};

// --- The file system

static int v_open(sqlite3_vfs *v, sqlite3_filename name, sqlite3_file *base, int flags, int *out_flags)
{
    struct sim_disk *d = disk_of(v);
    struct vfs_file *f = self(base);
    *f = (struct vfs_file){ .disk = d };
    if (name == NULL) // the store lets SQLite have no temporary files
        return SQLITE_CANTOPEN;
    snprintf(f->path, sizeof(f->path), "%s", name);
    f->file = sim_disk_at(d, name);
    if (f->file == NULL && (flags & SQLITE_OPEN_CREATE)) {
        if (!sim_effect(d->sim))
            return SQLITE_CANTOPEN;
        f->file = sim_file_create(d, name);
    }
    if (f->file == NULL || f->file->type != FS_FILE)
        return SQLITE_CANTOPEN;
    sim_file_ref(f->file);
    d->open_files++;
    f->delete_on_close = (flags & SQLITE_OPEN_DELETEONCLOSE) != 0;
    f->base.pMethods = &file_methods;
    if (out_flags != NULL)
        *out_flags = flags;
    return SQLITE_OK;
}

static int v_delete(sqlite3_vfs *v, const char *name, int sync_dir)
{
    struct sim_disk *d = disk_of(v);
    if (sim_disk_at(d, name) == NULL)
        return SQLITE_IOERR_DELETE_NOENT;
    if (!sim_effect(d->sim))
        return SQLITE_IOERR_DELETE;
    sim_name_set(d, name, NULL);
    if (sync_dir)
        sim_dir_sync(d, name);
    return SQLITE_OK;
}

static int v_access(sqlite3_vfs *v, const char *name, int how, int *out)
{
    struct sim_file *f = sim_disk_at(disk_of(v), name);
    // As the Unix VFS: an empty file does not count as existing.
    *out = f != NULL && (how != SQLITE_ACCESS_EXISTS || f->now.len > 0);
    return SQLITE_OK;
}

static int v_full(sqlite3_vfs *v UNUSED, const char *name, int n, char *out)
{
    return snprintf(out, (size_t)n, "%s", name) < n ? SQLITE_OK : SQLITE_CANTOPEN;
}

static int v_random(sqlite3_vfs *v, int n, char *out)
{
    for (int i = 0; i < n; i++)
        out[i] = (char)(rng_next(&disk_of(v)->rng) >> 40);
    return n;
}

static int v_sleep(sqlite3_vfs *v, int us)
{
    sim_violation(disk_of(v)->sim, "SQLite sleeps for %d us", us);
    return us;
}

static int v_time64(sqlite3_vfs *v, sqlite3_int64 *out)
{
    *out = 210866760000000 + sim_true_us(disk_of(v)->sim) / 1000; // ms since noon of 24 November 4714 BC
    return SQLITE_OK;
}

static int v_time(sqlite3_vfs *v, double *out)
{
    sqlite3_int64 ms;
    v_time64(v, &ms);
    *out = (double)ms / 86400000.0;
    return SQLITE_OK;
}

static int v_error(sqlite3_vfs *v UNUSED, int n UNUSED, char *out UNUSED)
{
    return 0;
}

// --- SQLite's memory, counted apart

static sqlite3_mem_methods memory;

static void *mem_malloc(int n)
{
    AS_STORE;
    return memory.xMalloc(n);
}

static void *mem_realloc(void *p, int n)
{
    AS_STORE;
    return memory.xRealloc(p, n);
}

static void configure(void)
{
    static bool done;
    sqlite3_mem_methods m;
    if (done)
        return;
    done = true;
    sqlite3_config(SQLITE_CONFIG_GETMALLOC, &memory);
    m = memory;
    m.xMalloc = mem_malloc;
    m.xRealloc = mem_realloc;
    sqlite3_config(SQLITE_CONFIG_MALLOC, &m);
    db_configure();
}

void sim_vfs_register(struct sim_disk *d)
{
    configure();
    sqlite3_vfs *v = calloc(1, sizeof(*v));
    if (v == NULL)
        abort();
    *v = (sqlite3_vfs){
        .iVersion = 2,
        .szOsFile = sizeof(struct vfs_file),
        .mxPathname = SIM_PATH_MAX - 1,
        .zName = d->vfs_name,
        .pAppData = d,
        .xOpen = v_open,
        .xDelete = v_delete,
        .xAccess = v_access,
        .xFullPathname = v_full,
        .xRandomness = v_random,
        .xSleep = v_sleep,
        .xCurrentTime = v_time,
        .xGetLastError = v_error,
        .xCurrentTimeInt64 = v_time64,
    };
    d->vfs = v;
    if (sqlite3_vfs_register(v, 1) != SQLITE_OK)
        abort();
    sqlite3_randomness(0, NULL); // the next number is drawn from this world's seed
}

void sim_vfs_unregister(struct sim_disk *d)
{
    sqlite3_vfs_unregister(d->vfs);
    free(d->vfs);
    d->vfs = NULL;
}

int64_t sim_vfs_memory(void)
{
    return sqlite3_memory_used();
}

void sim_vfs_many_stores(void)
{
    sqlite3_hard_heap_limit64(0);
}
