// SPDX-License-Identifier: Apache-2.0
// A connection with our settings, and SQLite's result codes as error classes.
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "data/db_priv.h"

// Bounds of SQLite's memory. The hard limit only stands against a runaway: the largest row is held three times while it is written.
enum { LOOKASIDE_SLOT = 256, LOOKASIDE_SLOTS = 32, HEAP_MAX = 24 * 1024 * 1024 };

static const char settings[] = "PRAGMA locking_mode=EXCLUSIVE;" // before WAL: no shared memory, works on JFFS2 and overlayfs
                               "PRAGMA page_size=1024;"
                               "PRAGMA synchronous=FULL;"
                               "PRAGMA cache_size=-192;"  // KiB
                               "PRAGMA secure_delete=ON;" // also lets salvage take each page for what it holds
                               "PRAGMA temp_store=MEMORY;"
                               "PRAGMA journal_size_limit=524288;"
                               "PRAGMA cell_size_check=ON;"
                               "PRAGMA trusted_schema=OFF;";

static int class_of(struct sqlite3 *sq, int rc)
{
    int sys = sq != NULL ? sqlite3_system_errno(sq) : 0;
    switch (rc & 0xff) {
    case SQLITE_FULL:
        return E_NOSPC;
    case SQLITE_NOMEM:
        return E_NOMEM;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return E_BUSY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return E_CORRUPT;
    case SQLITE_TOOBIG:
        return E_TOOBIG;
    case SQLITE_CONSTRAINT:
        return rc == SQLITE_CONSTRAINT_UNIQUE || rc == SQLITE_CONSTRAINT_PRIMARYKEY ? E_EXISTS : E_INVAL;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return E_FORBIDDEN;
    case SQLITE_CANTOPEN:
        return sys != 0 ? err_class_of_errno(sys) : E_IO;
    case SQLITE_IOERR:
        if (rc == SQLITE_IOERR_NOMEM)
            return E_NOMEM;
        if (rc == SQLITE_IOERR_SHORT_READ || rc == SQLITE_IOERR_CORRUPTFS)
            return E_CORRUPT;
        return sys == ENOSPC || sys == EDQUOT ? E_NOSPC : E_IO;
    default:
        return E_IO;
    }
}

int db_error(struct sqlite3 *sq, int rc, struct err *e, const char *doing)
{
    const char *text = sq != NULL ? sqlite3_errmsg(sq) : sqlite3_errstr(rc);
    int cls = class_of(sq, rc);
    return cls == E_BUSY ? err_set(e, cls, "store is in use by another process (%s)", doing)
                         : err_set(e, cls, "store: %s: %s (%d)", doing, text, rc);
}

bool db_read_failed(struct sqlite3 *sq)
{
    return sq != NULL && sqlite3_extended_errcode(sq) == SQLITE_IOERR_READ;
}

static int exec_as(struct sqlite3 *sq, const char *sql, const char *doing, struct err *e)
{
    int rc = sqlite3_exec(sq, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : db_error(sq, rc, e, doing);
}

int db_exec(struct sqlite3 *sq, const char *sql, struct err *e)
{
    return exec_as(sq, sql, sql, e);
}

// Prepares and steps once. The caller finalizes *st, also after an error.
static int query(struct sqlite3 *sq, const char *sql, sqlite3_stmt **st, struct err *e)
{
    int rc = sqlite3_prepare_v2(sq, sql, -1, st, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(*st);
    if (rc == SQLITE_ROW)
        return 0;
    return rc == SQLITE_DONE ? err_set(e, E_NOTFOUND, "store: %s: no row", sql) : db_error(sq, rc, e, sql);
}

int db_query_int(struct sqlite3 *sq, const char *sql, int64_t *out, struct err *e)
{
    sqlite3_stmt *st = NULL;
    int r = query(sq, sql, &st, e);
    if (r == 0)
        *out = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return r;
}

// The pragma answers with what it is now, which is the old mode when it could not be changed.
static int use_wal(struct sqlite3 *sq, struct err *e)
{
    sqlite3_stmt *st = NULL;
    int r = query(sq, "PRAGMA journal_mode=WAL", &st, e);
    const char *mode = r == 0 ? (const char *)sqlite3_column_text(st, 0) : NULL;
    if (r == 0 && (mode == NULL || strcmp(mode, "wal") != 0))
        r = err_set(e, E_IO, "store: no write-ahead log here (journal mode %s)", mode != NULL ? mode : "?");
    sqlite3_finalize(st);
    return r;
}

static int set_up(const struct db *db, struct sqlite3 *sq, struct err *e)
{
    char sql[64];
    snprintf(sql, sizeof(sql), "PRAGMA max_page_count=%lld", (long long)db->max_pages);
    sqlite3_limit(sq, SQLITE_LIMIT_LENGTH, DB_ROW_MAX);
    int r = db_add_crc_function(sq, e);
    if (r == 0)
        r = exec_as(sq, settings, "settings", e);
    if (r != 0 && sqlite3_errcode(sq) == SQLITE_ERROR) // these texts are right: it is the file that is not understood
        r = err_set(e, E_CORRUPT, "store: %s", sqlite3_errmsg(sq));
    if (r == 0)
        r = use_wal(sq, e);
    if (r == 0)
        r = db_exec(sq, sql, e);
    // On a full disk the log can still be emptied into a file that has grown ahead (see empty_log() in db.c).
    sqlite3_file_control(sq, "main", SQLITE_FCNTL_CHUNK_SIZE, &(int){ DB_CHUNK });
    // Emptying the log is ours: done by SQLite inside COMMIT, its failure would look like the commit's.
    sqlite3_wal_autocheckpoint(sq, 0);
    return r;
}

void db_configure(void)
{
    static bool done;
    if (done)
        return;
    done = true;
    sqlite3_config(SQLITE_CONFIG_LOOKASIDE, LOOKASIDE_SLOT, LOOKASIDE_SLOTS);
    if (sqlite3_initialize() == SQLITE_OK)
        sqlite3_hard_heap_limit64(HEAP_MAX);
}

char *db_full_path(const struct db *db, const char *path, const char *suffix)
{
    char *full = NULL;
    return asprintf(&full, "%s%s%s", db->disk->root, path, suffix) < 0 ? NULL : full;
}

int db_connect(const struct db *db, const char *path, struct sqlite3 **out, struct err *e)
{
    db_configure();
    AUTO_FREE char *full = db_full_path(db, path, "");
    if (full == NULL)
        return err_set(e, E_NOMEM, "no memory for a path");
    struct sqlite3 *sq = NULL;
    int rc = sqlite3_open_v2(full, &sq, SQLITE_OPEN_READWRITE | SQLITE_OPEN_EXRESCODE, db->disk->sqlite_vfs);
    int r = rc != SQLITE_OK ? db_error(sq, rc, e, path) : set_up(db, sq, e);
    if (r != 0 && db_read_failed(sq))
        r = err_set(e, E_CORRUPT, "store: %s cannot be read", path);
    if (r != 0) {
        db_disconnect(sq, true);
        return r;
    }
    *out = sq;
    return 0;
}

void db_disconnect(struct sqlite3 *sq, bool keep_log)
{
    if (sq == NULL)
        return;
    if (keep_log)
        sqlite3_db_config(sq, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_close(sq);
}

int db_quick_check(struct sqlite3 *sq, struct err *e)
{
    sqlite3_stmt *st = NULL;
    int r = query(sq, "PRAGMA quick_check(1)", &st, e);
    const char *said = r == 0 ? (const char *)sqlite3_column_text(st, 0) : NULL;
    if (r == 0 && (said == NULL || strcmp(said, "ok") != 0))
        r = err_set(e, E_CORRUPT, "store: %s", said != NULL ? said : "unreadable");
    sqlite3_finalize(st);
    sqlite3_db_release_memory(sq); // the page cache is full of what nobody may ask for
    return r;
}
