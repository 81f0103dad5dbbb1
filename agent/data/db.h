// SPDX-License-Identifier: Apache-2.0
// db — the one SQLite file: opening, migrating, one transaction a loop turn, salvage; the only user of SQLite.
//
// Writes open a transaction by themselves; db_commit() ends it (the loop's commit hook calls it once a turn). "Lazy" writes
// (acknowledgements, bookmark resourceVersions, the clock floor) wait in memory for the next transaction that somebody else needs,
// or for db_close(): an idle agent writes nothing. Layout and pragmas: DESIGN.md, Store.
// A damaged file is set aside as <path>.corrupt-<time> (0600), what can be read is salvaged row by row (each row has a CRC), and
// db_salvaged() says so.
// Full disk: a write is E_NOSPC; the transaction is rolled back, the callers shed by their own rules and go on.
#ifndef DATA_DB_H
#define DATA_DB_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fsio.h"

struct db;
struct db_stmt;

struct db_conf {
    const char *path;      // absolute, below disk->root
    int64_t max_bytes;     // upper bound of the file (max_page_count); 0 = 64 MiB
};

int db_open(struct db **out, struct disk *d, struct clock *c, const struct db_conf *conf, struct err *e) MUST_USE;
void db_close(struct db *db); // commits with the lazy writes, checkpoints
void db_abandon(struct db *db); // as a crash would: nothing committed, nothing checkpointed (tests, fork)

// What happened to the file when it was opened.
struct db_salvage {
    bool happened;
    int64_t rows_kept, rows_lost;
    char aside[512]; // where the damaged file lies
};
const struct db_salvage *db_salvaged(const struct db *db);

// Prepared statements, cached by the address of the SQL literal. Bind, step, read; db_done() resets. Positions from 1.
// A statement that writes opens the transaction. Errors are collected: db_step/db_run returns the first.
struct db_stmt *db_stmt(struct db *db, const char *sql_literal);
void db_bind_text(struct db_stmt *s, int pos, const char *text);              // copied; NULL = NULL
void db_bind_blob(struct db_stmt *s, int pos, const void *p, size_t n);       // copied
void db_bind_int(struct db_stmt *s, int pos, int64_t v);
int db_step(struct db_stmt *s, struct err *e) MUST_USE;  // 1 row, 0 done, < 0 error; done and error reset the statement
int db_run(struct db_stmt *s, struct err *e) MUST_USE;   // for statements without rows
const char *db_text(struct db_stmt *s, int col);         // from 0; valid until the next step; NULL = NULL
const void *db_blob(struct db_stmt *s, int col, size_t *n);
int64_t db_int(struct db_stmt *s, int col);
void db_done(struct db_stmt *s);
int64_t db_changes(struct db *db); // rows changed by the last db_run

int db_commit(struct db *db, struct err *e) MUST_USE; // nothing open: returns at once. On error everything since the last commit is gone
void db_rollback(struct db *db);
bool db_dirty(const struct db *db);                   // a transaction is open
// Keeps a small named value to be written with the next real transaction (or at close). meta names are literals.
int db_lazy_meta(struct db *db, const char *name, const char *value, struct err *e) MUST_USE;
// Runs `fn` inside the next real transaction, or at close. The node is the caller's; adding it twice is once.
struct db_lazy {
    void (*fn)(struct db_lazy *l);
    struct list link;
};
void db_lazy_add(struct db *db, struct db_lazy *l);
void db_lazy_del(struct db_lazy *l);

int db_meta_get(struct db *db, const char *name, char *out, size_t max, struct err *e) MUST_USE; // sees lazy values; E_NOTFOUND
int db_meta_set(struct db *db, const char *name, const char *value, struct err *e) MUST_USE;     // NULL removes

uint32_t crc32c_bytes(uint32_t crc, const void *p, size_t n);

struct db_stats {
    uint64_t commits, commit_ns_total, commit_ns_max, rows_bad_crc, nospc;
    int64_t file_bytes, wal_bytes;
};
void db_stats(struct db *db, struct db_stats *out);
// Whole content as JSON lines for `limpet store dump` (table, row); secrets never are in the store's plain columns.
int db_dump(struct db *db, int (*line)(void *ctx, const char *json, size_t n), void *ctx, struct err *e) MUST_USE;

#endif
