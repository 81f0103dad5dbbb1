// SPDX-License-Identifier: Apache-2.0
// A look at the store that changes nothing: its pages as they count (those of the log before those of the file) are shown to SQLite as a
// file that cannot be written. No lock is taken, no log is played in.
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "data/db_priv.h"

enum { PAGES_MAX = 1024 * 1024, JOURNAL_BYTES = 18 };

#define VFS_NAME "limpet-look"

struct look_file {
    sqlite3_file base;
    struct db_pages *pages;
};

// SQLite asks for pages, and for pieces of the first.
static int look_read(sqlite3_file *f, void *out, int n, sqlite3_int64 at)
{
    struct db_pages *p = ((struct look_file *)f)->pages;
    unsigned char page[DB_PAGE];
    for (int done = 0, piece; done < n; done += piece) {
        int64_t from = at + done;
        size_t skip = (size_t)(from % DB_PAGE);
        piece = (int)MIN((size_t)(n - done), DB_PAGE - skip);
        if (!db_pages_read(p, (uint32_t)(from / DB_PAGE + 1), page)) {
            memset((char *)out + done, 0, (size_t)(n - done));
            return SQLITE_IOERR_SHORT_READ;
        }
        if (from < DB_PAGE) // there is no log any more
            page[JOURNAL_BYTES] = page[JOURNAL_BYTES + 1] = 1;
        memcpy((char *)out + done, page + skip, (size_t)piece);
    }
    return SQLITE_OK;
}

static int look_size(sqlite3_file *f, sqlite3_int64 *out)
{
    *out = (sqlite3_int64)db_pages_count(((struct look_file *)f)->pages) * DB_PAGE;
    return SQLITE_OK;
}

static int refuse_write(sqlite3_file *f UNUSED, const void *p UNUSED, int n UNUSED, sqlite3_int64 at UNUSED)
{
    return SQLITE_READONLY;
}

static int refuse_truncate(sqlite3_file *f UNUSED, sqlite3_int64 n UNUSED)
{
    return SQLITE_READONLY;
}

static int accept(sqlite3_file *f UNUSED)
{
    return SQLITE_OK;
}

static int accept_flags(sqlite3_file *f UNUSED, int flags UNUSED)
{
    return SQLITE_OK;
}

static int is_reserved(sqlite3_file *f UNUSED, int *out)
{
    *out = 0;
    return SQLITE_OK;
}

static int no_control(sqlite3_file *f UNUSED, int op UNUSED, void *arg UNUSED)
{
    return SQLITE_NOTFOUND;
}

static int sector_size(sqlite3_file *f UNUSED)
{
    return DB_PAGE;
}

static int characteristics(sqlite3_file *f UNUSED)
{
    return SQLITE_IOCAP_IMMUTABLE;
}

static const sqlite3_io_methods look_methods = {
    .iVersion = 1,
    .xClose = accept,
    .xRead = look_read,
    .xWrite = refuse_write,
    .xTruncate = refuse_truncate,
    .xSync = accept_flags,
    .xFileSize = look_size,
    .xLock = accept_flags,
    .xUnlock = accept_flags,
    .xCheckReservedLock = is_reserved,
    .xFileControl = no_control,
    .xSectorSize = sector_size,
    .xDeviceCharacteristics = characteristics,
};

static int look_open(sqlite3_vfs *v, sqlite3_filename name UNUSED, sqlite3_file *f, int flags, int *got)
{
    if ((flags & SQLITE_OPEN_MAIN_DB) == 0)
        return SQLITE_CANTOPEN;
    ((struct look_file *)f)->pages = v->pAppData;
    f->pMethods = &look_methods;
    if (got != NULL)
        *got = SQLITE_OPEN_READONLY;
    return SQLITE_OK;
}

static int never_there(sqlite3_vfs *v UNUSED, const char *name UNUSED, int flags UNUSED, int *out)
{
    *out = 0;
    return SQLITE_OK;
}

static int whole_name(sqlite3_vfs *v UNUSED, const char *name, int max, char *out)
{
    snprintf(out, (size_t)max, "%s", name);
    return SQLITE_OK;
}

static int refuse_delete(sqlite3_vfs *v UNUSED, const char *name UNUSED, int sync UNUSED)
{
    return SQLITE_READONLY;
}

static int no_randomness(sqlite3_vfs *v UNUSED, int n, char *out)
{
    memset(out, 0, (size_t)n); // nothing is made here that would have to differ
    return n;
}

static int no_sleep(sqlite3_vfs *v UNUSED, int us UNUSED)
{
    return 0;
}

static int no_time(sqlite3_vfs *v UNUSED, double *out)
{
    *out = 0;
    return SQLITE_OK;
}

static sqlite3_vfs look_vfs = {
    .iVersion = 1,
    .szOsFile = sizeof(struct look_file),
    .mxPathname = 64,
    .zName = VFS_NAME,
    .xOpen = look_open,
    .xDelete = refuse_delete,
    .xAccess = never_there,
    .xFullPathname = whole_name,
    .xRandomness = no_randomness,
    .xSleep = no_sleep,
    .xCurrentTime = no_time,
};

static int count_rows(struct sqlite3 *sq, const struct db_table *t, struct db_look *out, struct err *e)
{
    char sql[64];
    sqlite3_stmt *st = NULL;
    snprintf(sql, sizeof(sql), "SELECT * FROM %s", t->name);
    int rc = sqlite3_prepare_v2(sq, sql, -1, &st, NULL);
    while (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        out->rows++;
        out->rows_bad += !db_row_ok(st, t);
        rc = SQLITE_OK;
    }
    int r = rc == SQLITE_DONE ? 0 : db_error(sq, rc, e, sql);
    sqlite3_finalize(st);
    return r;
}

static int look_inside(struct sqlite3 *sq, struct db_look *out, struct err *e)
{
    int r = db_add_crc_function(sq, e);
    if (r == 0)
        r = db_quick_check(sq, e);
    if (r == 0)
        r = db_check_version(sq, e);
    for (const struct db_table *t = db_tables; t->name != NULL && r == 0; t++)
        r = count_rows(sq, t, out, e);
    if (r == 0 && out->rows_bad > 0)
        r = err_set(e, E_CORRUPT, "store: %lld of %lld rows have a wrong checksum", (long long)out->rows_bad, (long long)out->rows);
    return r;
}

static int look_at_pages(struct db_pages *p, struct db_look *out, struct err *e)
{
    struct sqlite3 *sq = NULL;
    out->bytes = (int64_t)db_pages_count(p) * DB_PAGE;
    if (out->bytes == 0)
        return err_set(e, E_CORRUPT, "store: the file is empty");
    if (!db_pages_log_ok(p))
        return err_set(e, E_CORRUPT, "store: the log's header is damaged");
    look_vfs.pAppData = p;
    int rc = sqlite3_vfs_register(&look_vfs, 0);
    if (rc == SQLITE_OK)
        rc = sqlite3_open_v2(VFS_NAME, &sq, SQLITE_OPEN_READONLY | SQLITE_OPEN_EXRESCODE, VFS_NAME);
    int r = rc == SQLITE_OK ? look_inside(sq, out, e) : db_error(sq, rc, e, "looking");
    sqlite3_close(sq);
    sqlite3_vfs_unregister(&look_vfs);
    return r;
}

int db_look(struct disk *d, const char *path, struct db_look *out, struct err *e)
{
    struct db db = { .disk = d, .path = (char *)(uintptr_t)path, .max_pages = PAGES_MAX };
    struct db_pages *p = NULL;
    struct fs_stat st;
    *out = (struct db_look){ 0 };
    int r = d->ops->stat(d, path, 0, &st, e);
    if (r == 0 && st.type != FS_FILE)
        r = err_set(e, E_CORRUPT, "%s is no file", path);
    if (r == 0 && st.uid != geteuid() && geteuid() != 0)
        r = err_set(e, E_FORBIDDEN, "%s: permission denied", path);
    if (r == 0)
        r = db_pages_open(&p, &db, e);
    if (r == 0)
        r = look_at_pages(p, out, e);
    db_pages_free(p);
    return r;
}
