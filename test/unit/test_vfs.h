// SPDX-License-Identifier: Apache-2.0
// test_vfs — SQLite's own VFS with a counter before it, a disk that can be full, and reads and writes that fail when told.
//
//     test_vfs_register();            // then disk->sqlite_vfs = "test"
//     test_vfs.room = 4096;           // so many bytes may files still grow
#ifndef TEST_TEST_VFS_H
#define TEST_TEST_VFS_H

#include <sqlite3.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

struct test_vfs_state {
    uint64_t writes, write_bytes, syncs, reads;
    uint64_t blocks;     // of 4 KiB that became dirty, each once between two syncs of its file
    int64_t room;        // bytes that files may still grow; < 0 = no bound
    bool fail_writes;    // every write is an I/O error
    int64_t bad_read_at; // reads that touch this offset of the file `bad_inode` fail; < 0 = none
    uint64_t bad_inode;
    int bad_reads; // so many of them fail, then they are well; 0 = all
    bool fail_sync;
};
static struct test_vfs_state test_vfs = { .room = -1, .bad_read_at = -1 };

enum { TV_BLOCKS = 1024 }; // the first 4 MiB of a file are counted in blocks

struct test_file {
    sqlite3_file base;
    unsigned char dirty[TV_BLOCKS];
    uint64_t inode;
    sqlite3_file *real; // behind this struct
};

static sqlite3_file *tv_real(sqlite3_file *f)
{
    return ((struct test_file *)f)->real;
}
static int tv_close(sqlite3_file *f)
{
    return tv_real(f)->pMethods->xClose(tv_real(f));
}
static int tv_read(sqlite3_file *f, void *p, int n, sqlite3_int64 at)
{
    test_vfs.reads++;
    if (((struct test_file *)f)->inode == test_vfs.bad_inode && test_vfs.bad_read_at >= at && test_vfs.bad_read_at < at + n) {
        if (test_vfs.bad_reads > 0 && --test_vfs.bad_reads == 0)
            test_vfs.bad_read_at = -1;
        return SQLITE_IOERR_READ;
    }
    return tv_real(f)->pMethods->xRead(tv_real(f), p, n, at);
}
static int tv_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
    sqlite3_int64 size = 0;
    tv_real(f)->pMethods->xFileSize(tv_real(f), &size);
    if (test_vfs.fail_writes)
        return SQLITE_IOERR_WRITE;
    if (test_vfs.room >= 0 && at + n > size) {
        if (at + n - size > test_vfs.room)
            return SQLITE_FULL;
        test_vfs.room -= at + n - size;
    }
    test_vfs.writes++;
    test_vfs.write_bytes += (uint64_t)n;
    for (sqlite3_int64 b = at / 4096; b <= (at + n - 1) / 4096 && b < TV_BLOCKS; b++) {
        test_vfs.blocks += !((struct test_file *)f)->dirty[b];
        ((struct test_file *)f)->dirty[b] = 1;
    }
    return tv_real(f)->pMethods->xWrite(tv_real(f), p, n, at);
}
static int tv_truncate(sqlite3_file *f, sqlite3_int64 n)
{
    sqlite3_int64 size = 0;
    tv_real(f)->pMethods->xFileSize(tv_real(f), &size);
    if (test_vfs.room >= 0 && size > n)
        test_vfs.room += size - n;
    return tv_real(f)->pMethods->xTruncate(tv_real(f), n);
}
static int tv_sync(sqlite3_file *f, int flags)
{
    test_vfs.syncs++;
    memset(((struct test_file *)f)->dirty, 0, TV_BLOCKS);
    (void)flags;
    return test_vfs.fail_sync ? SQLITE_IOERR_FSYNC : SQLITE_OK; // counted is enough: no test cuts the power
}
static int tv_size(sqlite3_file *f, sqlite3_int64 *n)
{
    return tv_real(f)->pMethods->xFileSize(tv_real(f), n);
}
static int tv_lock(sqlite3_file *f, int l)
{
    return tv_real(f)->pMethods->xLock(tv_real(f), l);
}
static int tv_unlock(sqlite3_file *f, int l)
{
    return tv_real(f)->pMethods->xUnlock(tv_real(f), l);
}
static int tv_reserved(sqlite3_file *f, int *r)
{
    return tv_real(f)->pMethods->xCheckReservedLock(tv_real(f), r);
}
// The file may be made to grow this way, too: it asks for room and is not counted as written.
static int tv_control(sqlite3_file *f, int op, void *arg)
{
    enum { CHUNK = 64 * 1024 };
    sqlite3_int64 size = 0;
    if (op == SQLITE_FCNTL_SIZE_HINT && test_vfs.room >= 0) {
        sqlite3_int64 want = (*(sqlite3_int64 *)arg + CHUNK - 1) / CHUNK * CHUNK;
        tv_real(f)->pMethods->xFileSize(tv_real(f), &size);
        if (want - size > test_vfs.room)
            return SQLITE_FULL;
        if (want > size)
            test_vfs.room -= want - size;
    }
    return tv_real(f)->pMethods->xFileControl(tv_real(f), op, arg);
}
static int tv_sector(sqlite3_file *f)
{
    return tv_real(f)->pMethods->xSectorSize(tv_real(f));
}
static int tv_device(sqlite3_file *f)
{
    return tv_real(f)->pMethods->xDeviceCharacteristics(tv_real(f));
}

static const sqlite3_io_methods tv_methods = {
    1,          tv_close,  tv_read,   tv_write, tv_truncate, tv_sync, tv_size, tv_lock, tv_unlock, tv_reserved,
    tv_control, tv_sector, tv_device, NULL,     NULL,        NULL,    NULL,    NULL,    NULL, // no shared memory: the store must not need it
};

static sqlite3_vfs tv_vfs, *tv_default;

static int tv_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *out)
{
    (void)vfs;
    struct test_file *t = (struct test_file *)f;
    memset(t, 0, sizeof(*t));
    t->real = (sqlite3_file *)(t + 1);
    memset(t->real, 0, (size_t)tv_default->szOsFile);
    int rc = tv_default->xOpen(tv_default, name, t->real, flags, out);
    if (rc == SQLITE_OK) {
        struct stat st = { 0 };
        t->inode = name != NULL && stat(name, &st) == 0 ? st.st_ino : 0;
        t->base.pMethods = &tv_methods;
    }
    return rc;
}

static inline void test_vfs_register(void)
{
    tv_default = sqlite3_vfs_find(NULL);
    tv_vfs = *tv_default;
    tv_vfs.zName = "test";
    tv_vfs.szOsFile = (int)sizeof(struct test_file) + tv_default->szOsFile;
    tv_vfs.xOpen = tv_open;
    sqlite3_vfs_register(&tv_vfs, 0);
}

#endif
