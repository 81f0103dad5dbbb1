// SPDX-License-Identifier: Apache-2.0
// The store's pages without SQLite's view of them, for salvage: through the VFS, so that every disk has them. A page that a committed
// transaction left in the write-ahead log is read from there.
#include <sqlite3.h>
#include <string.h>

#include "data/db_priv.h"

enum { WAL_HEADER = 32, FRAME_HEADER = 24, HEADER = 100 };

struct db_pages {
    sqlite3_vfs *vfs;
    sqlite3_file *file, *wal;
    sqlite3_filename name; // of the file; the log's follows from it
    uint32_t count;
    uint32_t *frame; // by page - 1: the frame in the log that holds it, from 1; 0 = it is in the file. NULL = no log
};

static uint32_t be32(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void close_file(sqlite3_file *f)
{
    if (f != NULL && f->pMethods != NULL)
        f->pMethods->xClose(f);
    free(f);
}

void db_pages_free(struct db_pages *p)
{
    if (p == NULL)
        return;
    close_file(p->file);
    close_file(p->wal);
    sqlite3_free_filename(p->name);
    free(p->frame);
    free(p);
}

static sqlite3_file *open_file(sqlite3_vfs *vfs, const char *name, int kind)
{
    sqlite3_file *f = calloc(1, (size_t)vfs->szOsFile);
    int got = 0;
    if (f != NULL && vfs->xOpen(vfs, name, f, kind | SQLITE_OPEN_READONLY, &got) != SQLITE_OK) {
        close_file(f);
        f = NULL;
    }
    return f;
}

static bool read_at(sqlite3_file *f, void *p, int n, int64_t at)
{
    int rc = SQLITE_IOERR_READ;
    for (int i = 0; i < DB_READ_TRIES && rc == SQLITE_IOERR_READ; i++)
        rc = f->pMethods->xRead(f, p, n, at);
    return rc == SQLITE_OK || rc == SQLITE_IOERR_SHORT_READ; // what is missing reads as zeros
}

static int64_t size_of(sqlite3_file *f)
{
    sqlite3_int64 n = 0;
    return f->pMethods->xFileSize(f, &n) == SQLITE_OK ? n : 0;
}

// --- The write-ahead log. A frame counts when its salts are those of the header and the running checksum is right up to it, and a
// transaction when its last frame, which tells the size of the file after it, does.

struct wal_sum {
    uint32_t a, b;
    bool big_endian;
};

static uint32_t word(const struct wal_sum *s, const unsigned char *p)
{
    uint32_t v = be32(p);
    return s->big_endian ? v : __builtin_bswap32(v);
}

static void add_sum(struct wal_sum *s, const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        s->a += word(s, p + i) + s->b;
        s->b += word(s, p + i + 4) + s->a;
    }
}

static bool read_wal_header(struct db_pages *p, struct wal_sum *s, unsigned char salt[8])
{
    unsigned char h[WAL_HEADER];
    if (size_of(p->wal) < WAL_HEADER || !read_at(p->wal, h, sizeof(h), 0) || (be32(h) & ~1U) != 0x377f0682 || be32(h + 8) != DB_PAGE)
        return false;
    *s = (struct wal_sum){ .big_endian = be32(h) & 1 };
    add_sum(s, h, 24);
    memcpy(salt, h + 16, 8);
    return s->a == be32(h + 24) && s->b == be32(h + 28);
}

static int64_t frame_at(uint32_t frame)
{
    return WAL_HEADER + (int64_t)(frame - 1) * (FRAME_HEADER + DB_PAGE);
}

// The page in it, 0 when the frame does not count; *commit is the size of the file, 0 inside a transaction.
static uint32_t read_frame(struct db_pages *p, uint32_t frame, struct wal_sum *s, const unsigned char salt[8], uint32_t *commit)
{
    unsigned char f[FRAME_HEADER + DB_PAGE];
    if (!read_at(p->wal, f, sizeof(f), frame_at(frame)) || memcmp(f + 8, salt, 8) != 0)
        return 0;
    add_sum(s, f, 8);
    add_sum(s, f + FRAME_HEADER, DB_PAGE);
    if (s->a != be32(f + 16) || s->b != be32(f + 20))
        return 0;
    *commit = be32(f + 4);
    return be32(f);
}

// Calls of it agree on where the log ends: the last frame of the last whole transaction.
static uint32_t scan_wal(struct db_pages *p, uint32_t end, uint32_t *size)
{
    struct wal_sum s;
    unsigned char salt[8];
    uint32_t last = 0;
    if (!read_wal_header(p, &s, salt))
        return 0;
    uint32_t frames = (uint32_t)((size_of(p->wal) - WAL_HEADER) / (FRAME_HEADER + DB_PAGE));
    for (uint32_t i = 1; i <= MIN(frames, end); i++) {
        uint32_t commit = 0, page = read_frame(p, i, &s, salt, &commit);
        if (page == 0)
            break;
        if (p->frame != NULL && page <= p->count)
            p->frame[page - 1] = i;
        if (commit != 0) {
            last = i;
            *size = commit;
        }
    }
    return last;
}

static int index_wal(struct db_pages *p, struct err *e)
{
    uint32_t size = p->count, last = scan_wal(p, UINT32_MAX, &size);
    if (last == 0)
        return 0;
    p->count = MAX(p->count, size);
    p->frame = calloc(p->count, sizeof(*p->frame));
    if (p->frame == NULL)
        return err_set(e, E_NOMEM, "no memory for the pages of the log");
    scan_wal(p, last, &size);
    return 0;
}

int db_pages_open(struct db_pages **out, const struct db *db, struct err *e)
{
    AUTO_FREE char *full = db_full_path(db, db->path, "");
    AUTO_FREE char *log = db_full_path(db, db->path, "-wal");
    struct db_pages *p = calloc(1, sizeof(*p));
    if (p != NULL && full != NULL && log != NULL)
        p->name = sqlite3_create_filename(full, "", log, 0, NULL);
    if (p == NULL || p->name == NULL) {
        free(p);
        return err_set(e, E_NOMEM, "no memory to read the store");
    }
    p->vfs = sqlite3_vfs_find(db->disk->sqlite_vfs);
    p->file = p->vfs != NULL ? open_file(p->vfs, p->name, SQLITE_OPEN_MAIN_DB) : NULL;
    if (p->file == NULL) {
        db_pages_free(p);
        return err_set(e, E_IO, "%s cannot be opened for reading", db->path);
    }
    p->count = (uint32_t)MIN((size_of(p->file) + DB_PAGE - 1) / DB_PAGE, db->max_pages);
    p->wal = open_file(p->vfs, sqlite3_filename_wal(p->name), SQLITE_OPEN_WAL);
    int r = p->wal != NULL ? index_wal(p, e) : 0;
    if (r != 0) {
        db_pages_free(p);
        return r;
    }
    *out = p;
    return 0;
}

uint32_t db_pages_count(const struct db_pages *p)
{
    return p->count;
}

bool db_pages_read(struct db_pages *p, uint32_t page, unsigned char out[DB_PAGE])
{
    if (page == 0 || page > p->count)
        return false;
    uint32_t frame = p->frame != NULL ? p->frame[page - 1] : 0;
    if (frame != 0)
        return read_at(p->wal, out, DB_PAGE, frame_at(frame) + FRAME_HEADER);
    return read_at(p->file, out, DB_PAGE, (int64_t)(page - 1) * DB_PAGE);
}

// SQLite takes most of these as they come, and what it would do by a wrong one damages more (a store that looks auto-vacuumed, say).
bool db_pages_header_ok(struct db_pages *p)
{
    static const unsigned char zeros[20];
    unsigned char h[HEADER];
    if (size_of(p->file) < HEADER || !read_at(p->file, h, sizeof(h), 0) || memcmp(h, "SQLite format 3", 16) != 0)
        return false;
    if (h[16] != DB_PAGE >> 8 || h[17] != 0 || memcmp(h + 18, "\2\2\0\100\40\40", 6) != 0) // WAL, nothing reserved, payload fractions
        return false;
    // Schema format 4, UTF-8, neither auto-vacuumed nor incrementally, the rest unused.
    return be32(h + 44) == 4 && be32(h + 52) == 0 && be32(h + 56) == 1 && be32(h + 64) == 0 && memcmp(h + 72, zeros, sizeof(zeros)) == 0;
}

// SQLite takes a log whose header is not right for an empty one, and what was committed to it is gone without a word. A header that was
// never written (a power cut) is zeros or not there: nothing was committed to that log.
bool db_pages_log_ok(struct db_pages *p)
{
    static const unsigned char zeros[WAL_HEADER];
    unsigned char h[WAL_HEADER], salt[8];
    struct wal_sum s;
    if (p->wal == NULL || size_of(p->wal) < WAL_HEADER || read_wal_header(p, &s, salt))
        return true;
    return read_at(p->wal, h, sizeof(h), 0) && memcmp(h, zeros, sizeof(h)) == 0;
}
