// SPDX-License-Identifier: Apache-2.0
// db — the one SQLite file: opening, migrating, one transaction a loop turn, salvage; the only user of SQLite.
//
// Writes open a transaction by themselves; db_commit() ends it (the loop's commit hook calls it once a turn). "Lazy" writes
// (acknowledgements, bookmark resourceVersions, the clock floor) wait in memory for a transaction that somebody else needs, at most
// one in DB_LAZY_MS, or for db_close(): an idle agent writes nothing, and a busy one does not write three pages more with each status. They
// go together, so a bookmark is never newer than the resourceVersions it stands for. Layout and pragmas: DESIGN.md, Store.
// A damaged file is set aside as <path>.corrupt-<time> (0600), what can be read is salvaged row by row (each row has a CRC), and
// db_salvaged() says so.
// Damage that shows only while running (E_CORRUPT from a statement) is salvaged in the same way by the next db_commit().
// A read that fails (E_IO from a statement) puts the file in doubt: db_commit() judges it by a fresh connection that reads all of it, and
// salvages only what fails three times, 30 s apart. The store works on meanwhile.
// Full disk: a write or the commit is E_NOSPC; the transaction is rolled back, the callers shed by their own rules and go on. The
// write-ahead log is emptied into the file where that can be done, so that its blocks serve the next transaction.
// Rolled back means: everything since the last commit is gone, whoever wrote it. Whoever keeps in memory what follows from the tables
// adds a db_hook to hear of it.
// One process at a time: a second one gets E_BUSY. Blocks on the disk; nothing else.
#ifndef DATA_DB_H
#define DATA_DB_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fsio.h"

struct db;
struct db_stmt;

struct db_conf {
    const char *path;  // absolute, below disk->root
    int64_t max_bytes; // upper bound of the file (max_page_count); 0 = 64 MiB
};

// Makes the file (0600) and its directory (0700) when absent, migrates an older one. A newer one than this program knows is E_UNSUP and
// left as it is. Otherwise fails only where the disk does: E_NOSPC, E_IO, E_FORBIDDEN, E_BUSY, E_NOMEM.
int db_open(struct db **out, struct disk *d, struct clock *c, const struct db_conf *conf, struct err *e) MUST_USE;
void db_close(struct db *db);   // commits with the lazy writes, checkpoints; NULL is fine
void db_abandon(struct db *db); // as a crash would: nothing committed, nothing checkpointed (tests, fork)

// What happened to the file since it was opened.
struct db_salvage {
    bool happened;
    int times;
    int64_t rows_kept;
    int64_t rows_lost; // at least so many; a destroyed page does not tell what was on it, the indexes often do
    char aside[512];   // where the damaged file lies; older ones of its kind are removed
};
const struct db_salvage *db_salvaged(const struct db *db);

// Prepared statements, cached by the address of the SQL literal. Bind, step, read; db_done() resets. Positions from 1.
// A statement that writes opens the transaction. Errors are collected: db_step/db_run returns the first.
// From db_stmt() to the end (0, an error, db_run, db_done) a statement is in use; another db_stmt() of the same text gets a second one, so
// that calls may nest. Never NULL: what went wrong shows in the first step.
struct db_stmt *db_stmt(struct db *db, const char *sql_literal);
void db_bind_text(struct db_stmt *s, int pos, const char *text);        // copied; NULL = NULL
void db_bind_blob(struct db_stmt *s, int pos, const void *p, size_t n); // copied
void db_bind_int(struct db_stmt *s, int pos, int64_t v);
// 1 row, 0 done, < 0 error; done and error reset the statement. E_EXISTS, E_INVAL (constraints) and E_TOOBIG leave the transaction as it
// was; any other error of a statement that writes has rolled it back, and where it held something already, db_commit() will fail, too.
int db_step(struct db_stmt *s, struct err *e) MUST_USE;
int db_run(struct db_stmt *s, struct err *e) MUST_USE; // for statements without rows
const char *db_text(struct db_stmt *s, int col);       // from 0; valid until the next step; NULL = NULL
const void *db_blob(struct db_stmt *s, int col, size_t *n);
int64_t db_int(struct db_stmt *s, int col);
void db_done(struct db_stmt *s);
int64_t db_changes(struct db *db); // rows changed by the last db_run

// Nothing open: returns at once. On error everything since the last commit is gone; it may have been for long, when a statement failed, and
// whoever wrote before that hears of it here. No statement may be in use.
int db_commit(struct db *db, struct err *e) MUST_USE;
void db_rollback(struct db *db);
bool db_dirty(const struct db *db); // db_commit() has something to do, or to say: a transaction, a failed one, damage to repair
// Called at the end of each transaction: cls 0 = committed, else the class of the error (E_CANCELED: db_rollback). Must not write. The
// node is the caller's.
struct db_hook {
    void (*ended)(struct db_hook *h, int cls);
    struct list link;
};
void db_hook_add(struct db *db, struct db_hook *h);
void db_hook_del(struct db_hook *h);
// Bytes that can be added before the file is at its bound.
int64_t db_room(struct db *db);
// Keeps a small named value to be written with a real transaction (or at close). Names and values are copied; at most
// DB_LAZY_META_MAX names wait, a further one is written at once. A transaction that is rolled back takes all that wait with it: a
// resourceVersion must not outlive the rows it stands for.
enum { DB_LAZY_META_MAX = 64, DB_LAZY_MS = 5 * 60 * 1000 };
int db_lazy_meta(struct db *db, const char *name, const char *value, struct err *e) MUST_USE;
void db_lazies_along(struct db *db); // all that waits is written with the transaction that is open, or else with the next
// Runs `fn` inside a real transaction, or at close, and forgets the node first. It is the caller's; adding it twice is once. When
// that transaction is rolled back, fn's work is gone, too: a db_hook tells, add it again.
struct db_lazy {
    void (*fn)(struct db_lazy *l);
    struct list link;
};
void db_lazy_add(struct db *db, struct db_lazy *l);
void db_lazy_del(struct db_lazy *l);

int db_meta_get(struct db *db, const char *name, char *out, size_t max, struct err *e) MUST_USE; // sees lazy values; E_NOTFOUND
int db_meta_set(struct db *db, const char *name, const char *value, struct err *e) MUST_USE;     // NULL removes

// CRC-32C (Castagnoli). crc = 0 to begin, the last result to go on.
uint32_t crc32c_bytes(uint32_t crc, const void *p, size_t n);
// Each table's last column is `crc`, over the table's name and its other columns in order, the rowid only where it means something: in SQL
// row_crc('table', columns...), to be written with each change and compared with each read. For a row where it differs: counts it and returns E_CORRUPT.
int db_bad_row(struct db *db, const char *table, const char *key, struct err *e);

// A look at a store that nobody has open, which changes nothing: every page and every checksum. E_NOTFOUND: there is none; E_FORBIDDEN;
// E_UNSUP: a newer one; E_CORRUPT says what is wrong. out is filled as far as it was read.
struct db_look {
    int64_t bytes, rows, rows_bad;
};
int db_look(struct disk *d, const char *path, struct db_look *out, struct err *e) MUST_USE;

struct db_stats {
    uint64_t commits, rows_bad_crc, nospc;
    uint64_t commit_ns_total, commit_ns_max; // of the clock's milliseconds
    int64_t file_bytes, wal_bytes;
};
void db_stats(struct db *db, struct db_stats *out);
// Whole content as JSON lines for `limpet store dump` (table, row); secrets never are in the store's plain columns.
int db_dump(struct db *db, int (*line)(void *ctx, const char *json, size_t n), void *ctx, struct err *e) MUST_USE;

#endif
