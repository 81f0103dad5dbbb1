// SPDX-License-Identifier: Apache-2.0
// Statements, and the transaction that those which write open.
#include <sqlite3.h>
#include <string.h>

#include "data/db_priv.h"

// --- The cache

static void finalize(struct db_stmt *s)
{
    sqlite3_finalize(s->st);
    s->st = NULL;
    s->sql = NULL;
    s->busy = false;
}

void db_stmts_close(struct db *db)
{
    for (size_t i = 0; i < DB_STMTS; i++)
        finalize(&db->stmts[i]);
}

bool db_stmts_busy(const struct db *db)
{
    for (size_t i = 0; i < DB_STMTS; i++)
        if (db->stmts[i].busy)
            return true;
    return false;
}

// One with this text that is free; else an empty place; else the place of the one unused for longest. NULL: all are in use.
static struct db_stmt *find_place(struct db *db, const char *sql)
{
    struct db_stmt *best = NULL;
    for (size_t i = 0; i < DB_STMTS; i++) {
        struct db_stmt *s = &db->stmts[i];
        if (s->busy)
            continue;
        if (s->sql == sql)
            return s;
        if (best == NULL || (best->st != NULL && (s->st == NULL || s->used < best->used)))
            best = s;
    }
    return best;
}

static void prepare(struct db *db, struct db_stmt *s, const char *sql)
{
    finalize(s);
    if (db->sq == NULL) {
        err_set(&s->err, E_IO, "store is closed after damage that could not be repaired yet");
        return;
    }
    int rc = sqlite3_prepare_v3(db->sq, sql, -1, SQLITE_PREPARE_PERSISTENT, &s->st, NULL);
    if (rc != SQLITE_OK) {
        db_note_error(db, db_error(db->sq, rc, &s->err, sql));
        return;
    }
    s->sql = sql;
    s->reads = sqlite3_stmt_readonly(s->st) != 0;
}

struct db_stmt *db_stmt(struct db *db, const char *sql_literal)
{
    struct db_stmt *s = find_place(db, sql_literal);
    if (s == NULL) {
        db->broken.db = db;
        err_set(&db->broken.err, E_BUSY, "store: more than %d statements in use at once", DB_STMTS);
        return &db->broken;
    }
    s->db = db;
    s->err = ERR_INIT;
    s->used = ++db->uses;
    if (s->sql != sql_literal)
        prepare(db, s, sql_literal);
    s->busy = true;
    return s;
}

void db_done(struct db_stmt *s)
{
    if (s->st != NULL) {
        sqlite3_reset(s->st);
        sqlite3_clear_bindings(s->st);
    }
    s->busy = false;
}

// --- Binding and reading

static void bound(struct db_stmt *s, int rc)
{
    if (rc != SQLITE_OK && s->err.cls == 0)
        db_error(s->db->sq, rc, &s->err, "binding a value");
}

void db_bind_text(struct db_stmt *s, int pos, const char *text)
{
    if (s->st != NULL)
        bound(s, sqlite3_bind_text(s->st, pos, text, -1, SQLITE_TRANSIENT));
}

void db_bind_blob(struct db_stmt *s, int pos, const void *p, size_t n)
{
    if (s->st != NULL)
        bound(s, sqlite3_bind_blob64(s->st, pos, n > 0 ? p : "", n, SQLITE_TRANSIENT)); // an empty blob, not NULL
}

void db_bind_int(struct db_stmt *s, int pos, int64_t v)
{
    if (s->st != NULL)
        bound(s, sqlite3_bind_int64(s->st, pos, v));
}

const char *db_text(struct db_stmt *s, int col)
{
    return (const char *)sqlite3_column_text(s->st, col);
}

const void *db_blob(struct db_stmt *s, int col, size_t *n)
{
    const void *p = sqlite3_column_blob(s->st, col);
    *n = (size_t)sqlite3_column_bytes(s->st, col);
    return p;
}

int64_t db_int(struct db_stmt *s, int col)
{
    return sqlite3_column_int64(s->st, col);
}

int64_t db_changes(struct db *db)
{
    return db->sq != NULL ? sqlite3_changes64(db->sq) : 0;
}

// --- Running

void db_note_error(struct db *db, int cls)
{
    db->damaged = db->damaged || cls == E_CORRUPT;
    db->doubtful = db->doubtful || (cls == E_IO && db_read_failed(db->sq));
}

int db_begin(struct db *db, struct err *e)
{
    if (db->open)
        return 0;
    db_write_log_back(db);
    int r = db_exec(db->sq, "BEGIN IMMEDIATE", e);
    db->open = r == 0;
    db->wrote = false;
    db_note_error(db, r);
    return r;
}

void db_tell_hooks(struct db *db, int cls)
{
    list_each_safe(it, next, &db->hooks) {
        struct db_hook *h = container_of(it, struct db_hook, link);
        h->ended(h, cls);
    }
}

void db_end_failed(struct db *db, int cls)
{
    if (!db->open)
        return;
    db->open = false;
    db->failed = cls;
    if (db->sq != NULL && !sqlite3_get_autocommit(db->sq))
        (void)!db_exec(db->sq, "ROLLBACK", NULL);
    if (cls == E_NOSPC && db->sq != NULL) { // the log's blocks are ours already: emptied, it has room for the next transaction
        sqlite3_wal_checkpoint_v2(db->sq, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
        db->tight_to_ms = clock_mono(db->clock) + DB_TIGHT_MS;
    }
    db_metas_ended(db, false);
    db_tell_hooks(db, cls);
}

// Whether the statement alone failed and the transaction stands.
static bool is_own_fault(int cls)
{
    return cls == E_EXISTS || cls == E_INVAL || cls == E_TOOBIG;
}

static int fail(struct db_stmt *s, int rc, struct err *e)
{
    struct db *db = s->db;
    int cls = db_error(db->sq, rc, e, s->sql);
    bool writes = !s->reads;
    db_note_error(db, cls);
    db_done(s);
    db->stats.nospc += cls == E_NOSPC;
    // SQLite may have rolled back by itself, also for a statement that only reads (no memory, a failing disk).
    if (db->open && ((writes && !is_own_fault(cls)) || sqlite3_get_autocommit(db->sq))) {
        db_end_failed(db, cls);
        db->doomed = db->doomed || db->wrote;
    }
    return cls;
}

int db_step(struct db_stmt *s, struct err *e)
{
    int r = s->err.cls;
    if (r != 0) {
        if (e != NULL)
            *e = s->err;
    } else if (!s->reads) {
        r = db_begin(s->db, e);
    }
    if (r != 0) {
        db_done(s);
        return r;
    }
    int rc = sqlite3_step(s->st);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        return fail(s, rc, e);
    s->db->wrote = s->db->wrote || !s->reads;
    if (rc == SQLITE_ROW)
        return 1;
    db_done(s);
    return 0;
}

int db_run(struct db_stmt *s, struct err *e)
{
    int r = db_step(s, e);
    if (r == 1) {
        db_done(s);
        r = 0;
    }
    return r;
}
