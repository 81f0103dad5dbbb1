// SPDX-License-Identifier: Apache-2.0
// db_priv — what the files of the store share. Private to agent/data/db*.c.
#ifndef DATA_DB_PRIV_H
#define DATA_DB_PRIV_H

#include "data/db.h"

struct sqlite3;
struct sqlite3_stmt;
struct sqlite3_value;

enum {
    DB_PAGE = 1024,       // bytes; small, because a status change rewrites whole pages
    DB_STMTS = 32,        // prepared statements kept
    DB_WAL_FRAMES = 400,  // pages in the write-ahead log before it is emptied into the file
    DB_CHUNK = 64 * 1024, // bytes; the file grows by so many at a time
    DB_TIGHT_MS = 60 * 1000,
    DB_READ_TRIES = 3,            // at once, before what cannot be read is taken for damaged
    DB_ROW_MAX = 5 * 1024 * 1024, // an object (OBJ_MAX) and what stands beside it
};

struct db_stmt {
    struct db *db;
    const char *sql; // the literal, by address
    struct sqlite3_stmt *st;
    uint64_t used; // when, for replacing the one unused for longest
    bool busy, reads;
    struct err err; // the first thing that went wrong
};

struct db {
    struct sqlite3 *sq; // NULL: could not be opened again after damage; db_commit() tries again
    struct disk *disk;
    struct clock *clock;
    char *path; // below disk->root
    int64_t max_pages;
    bool open, damaged; // a transaction; pages are not what they should be
    bool doubtful;      // a read failed, which may have been the cable's fault; doubts: so often in a row, each at its own time
    int doubts;
    bool log_old;         // the log has transactions of a predecessor that may not lie on the disk
    int64_t next_back_ms; // monotonic: writing it back is not tried again before
    int64_t next_lazy_ms; // monotonic: what waits is not written before
    int64_t tight_to_ms;  // monotonic: the disk was full, until then the log is emptied after each commit
    int64_t next_heal_ms; // monotonic: a salvage that failed is not tried again before
    int failed;           // class that ended the last transaction rolled back
    bool wrote;           // a statement of the open transaction did
    bool doomed;          // a later one failed: what others wrote in this turn is gone, and db_commit() has to say so
    int wal_frames;
    int found_frames; // in the log when it was attached, -1 = not known
    uint64_t uses;
    struct db_stmt stmts[DB_STMTS], broken; // broken: handed out when all are in use
    struct list lazies, hooks, metas;       // struct db_lazy, db_hook, lazy_meta
    size_t n_metas;
    struct db_salvage salvage;
    struct db_stats stats;
};

// db_sql.c: connections and error classes.

// Sets the error from what `sq` met (NULL: from rc alone).
int db_error(struct sqlite3 *sq, int rc, struct err *e, const char *doing);
// The name that the kernel knows: root, path, suffix. malloc'd; NULL when out of memory.
char *db_full_path(const struct db *db, const char *path, const char *suffix);
// Opens the file `path` (below the root) that is there, with our settings. E_CORRUPT: damaged, or no database at all.
void db_configure(void); // SQLite itself, once in a process, before anything else is asked of it
int db_connect(const struct db *db, const char *path, struct sqlite3 **out, struct err *e) MUST_USE;
// Closes; with `keep_log` without emptying the write-ahead log into the file, as a crash would leave it.
void db_disconnect(struct sqlite3 *sq, bool keep_log);
// The last thing that went wrong was a page that could not be read. Of a statement that is E_IO, while opening E_CORRUPT.
bool db_read_failed(struct sqlite3 *sq);
int db_exec(struct sqlite3 *sq, const char *sql, struct err *e) MUST_USE;
// The first column of the first row; no row is E_NOTFOUND.
int db_query_int(struct sqlite3 *sq, const char *sql, int64_t *out, struct err *e) MUST_USE;
// Reads every page: E_CORRUPT with the first thing that is wrong.
int db_quick_check(struct sqlite3 *sq, struct err *e) MUST_USE;

// db_schema.c: what the tables are.

int db_migrate(struct sqlite3 *sq, struct err *e) MUST_USE;
// Whether it is a store of ours: E_UNSUP one of a newer program, E_CORRUPT. Writes nothing.
int db_check_version(struct sqlite3 *sq, struct err *e) MUST_USE;
// Tables and the number of their columns, for salvage. NULL ends.
struct db_table {
    const char *name;
    int columns;
    bool rowid; // the first column, the rowid, means something: it is in the checksum and kept. Else it is any number
};
extern const struct db_table db_tables[];

// db_crc.c

// The row that a "SELECT *" of the table stands at has the checksum that it should have.
bool db_row_ok(struct sqlite3_stmt *st, const struct db_table *t);
int db_add_crc_function(struct sqlite3 *sq, struct err *e) MUST_USE;
// One value's share in a row's CRC.
uint32_t db_crc_null(uint32_t crc);
uint32_t db_crc_int(uint32_t crc, int64_t v);
uint32_t db_crc_bytes(uint32_t crc, bool text, const void *p, size_t n);
uint32_t db_crc_value(uint32_t crc, struct sqlite3_value *v);

// db_pages.c: the file's pages as bytes, those in the write-ahead log before those in the file.

struct db_pages;
int db_pages_open(struct db_pages **out, const struct db *db, struct err *e) MUST_USE;
void db_pages_free(struct db_pages *p);
uint32_t db_pages_count(const struct db_pages *p);
bool db_pages_read(struct db_pages *p, uint32_t page, unsigned char out[DB_PAGE]); // pages from 1; false: cannot be read
// True when the header of the file is one that this program writes. Looks at the file alone.
bool db_pages_header_ok(struct db_pages *p);
bool db_pages_log_ok(struct db_pages *p); // false: there is a log, and its header is damaged

// db_salvage.c

// Puts a new file with what can be read in the place of the damaged one, which is set aside. Fills db->salvage. No connection may be open.
int db_salvage(struct db *db, const char *why, struct err *e) MUST_USE;
// Takes what is no file out of the way. Fills db->salvage.
int db_set_aside(struct db *db, const char *path, struct err *e) MUST_USE;
// Makes an empty store (an unfinished one is replaced) and puts it in its place.
int db_create(struct db *db, struct err *e) MUST_USE;
// Finishes what a crash left between the two renames of a salvage.
int db_finish_salvage(struct db *db, struct err *e) MUST_USE;

// db_stmt.c

void db_stmts_close(struct db *db);
bool db_stmts_busy(const struct db *db);
int db_begin(struct db *db, struct err *e) MUST_USE;
void db_write_log_back(struct db *db);      // db.c: before anything is added to a log that may not lie on the disk
void db_note_error(struct db *db, int cls); // is the file damaged, or in doubt?
// Rolls back when something is open, tells the hooks why.
void db_end_failed(struct db *db, int cls);
void db_tell_hooks(struct db *db, int cls);

// db_meta.c

int db_metas_write(struct db *db, struct err *e) MUST_USE;
void db_metas_ended(struct db *db, bool committed);
void db_metas_free(struct db *db);

#endif
