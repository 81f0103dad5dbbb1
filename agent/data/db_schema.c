// SPDX-License-Identifier: Apache-2.0
// The tables, and how an older store becomes a newer one.
//
// steps[v] leads from version v to v + 1 and is never changed once released. Our SQLite has no ALTER TABLE, and CAST does nothing in it (both
// went with what is left out, see deps/build.sh): a step that changes columns copies the rows into a new table. The version stands twice, in user_version and in a row of `meta`: a flipped bit in one of them
// must not look like a store from the future. Another row holds a checksum of the schema, whose text is as easily damaged as any other.
// Whatever comes later, `meta` keeps its columns.
//
// A row is (rowid, ..., crc). No table is WITHOUT ROWID, since salvage reads table leaves and tells rows apart by their checksum alone. When
// a step changes a table's columns, db_tables keeps the old layout as well.
#include <sqlite3.h>
#include <stdio.h>

#include "data/db_priv.h"

static const char step_1[] =
    "CREATE TABLE meta(id INTEGER PRIMARY KEY, name TEXT NOT NULL, value TEXT NOT NULL, crc INTEGER NOT NULL) STRICT;"
    "CREATE UNIQUE INDEX meta_name ON meta(name);"

    "CREATE TABLE object(id INTEGER PRIMARY KEY, key TEXT NOT NULL, source TEXT NOT NULL, uid TEXT NOT NULL, rv TEXT NOT NULL,"
    " generation INTEGER NOT NULL, json BLOB NOT NULL, crc INTEGER NOT NULL) STRICT;"
    "CREATE UNIQUE INDEX object_key ON object(key);"

    "CREATE TABLE intent(id INTEGER PRIMARY KEY, key TEXT NOT NULL, name TEXT NOT NULL, data TEXT NOT NULL, crc INTEGER NOT NULL) STRICT;"
    "CREATE UNIQUE INDEX intent_key ON intent(key, name);"
    "CREATE INDEX intent_name ON intent(name);"

    // What changes often comes first: it lies in the leaf, also of a row whose JSON goes on in other pages. What the server has not
    // acknowledged stands in a table of its own: the one page of it is cheaper to write than the acknowledged status once more.
    "CREATE TABLE status(id INTEGER PRIMARY KEY, key TEXT NOT NULL, uid TEXT NOT NULL, generation INTEGER NOT NULL, seq INTEGER NOT NULL,"
    " boot INTEGER NOT NULL, boot_ms INTEGER NOT NULL, wall_us INTEGER NOT NULL, trusted INTEGER NOT NULL, hash INTEGER NOT NULL,"
    " json BLOB NOT NULL, crc INTEGER NOT NULL) STRICT;"
    "CREATE UNIQUE INDEX status_key ON status(key);"
    "CREATE TABLE unsent(seq INTEGER PRIMARY KEY, key TEXT NOT NULL, crc INTEGER NOT NULL) STRICT;"

    "CREATE TABLE event(seq INTEGER PRIMARY KEY, name TEXT NOT NULL, key TEXT NOT NULL, uid TEXT NOT NULL, kind TEXT NOT NULL,"
    " api_version TEXT NOT NULL, ns TEXT NOT NULL, obj_name TEXT NOT NULL, warning INTEGER NOT NULL, reason TEXT NOT NULL,"
    " action TEXT NOT NULL, note TEXT NOT NULL, count INTEGER NOT NULL,"
    " first_boot TEXT NOT NULL, first_ms INTEGER NOT NULL, first_us INTEGER NOT NULL, first_trusted INTEGER NOT NULL,"
    " last_boot TEXT NOT NULL, last_ms INTEGER NOT NULL, last_us INTEGER NOT NULL, last_trusted INTEGER NOT NULL,"
    " pending INTEGER NOT NULL, fold INTEGER NOT NULL, crc INTEGER NOT NULL) STRICT;"
    "CREATE INDEX event_fold ON event(fold) WHERE pending;";

static const char *const steps[] = { step_1 };

const struct db_table db_tables[] = {
    { "meta", 4, false },  { "object", 8, false }, { "intent", 5, false }, { "status", 12, false },
    { "unsent", 3, true }, { "event", 24, true },  { NULL, 0, false },
};

// What a row of `meta` says; 0 when it is not there.
static int64_t witness(struct sqlite3 *sq, const char *name)
{
    char sql[160];
    int64_t v = 0;
    snprintf(sql, sizeof(sql), "SELECT value FROM meta WHERE name='%s' AND crc=row_crc('meta',name,value)", name);
    return db_query_int(sq, sql, &v, NULL) == 0 ? v : 0;
}

static int64_t schema_crc(struct sqlite3 *sq)
{
    sqlite3_stmt *st = NULL;
    uint32_t crc = 0;
    if (sqlite3_prepare_v2(sq, "SELECT type,name,tbl_name,sql FROM sqlite_schema", -1, &st, NULL) == SQLITE_OK)
        while (sqlite3_step(st) == SQLITE_ROW)
            for (int i = 0; i < 4; i++)
                crc = db_crc_value(crc, sqlite3_column_value(st, i));
    sqlite3_finalize(st);
    return crc;
}

static int check_version(struct sqlite3 *sq, int64_t v, int64_t known, struct err *e)
{
    int64_t tables = 0, other = witness(sq, "schema");
    if (v > known && other == v)
        return err_set(e, E_UNSUP, "store was written by a newer limpet (schema %lld, this one knows %lld); it is left as it is",
                       (long long)v, (long long)known);
    if (v != other)
        return err_set(e, E_CORRUPT, "store: schema version %lld in the header, %lld in the table", (long long)v, (long long)other);
    int r = db_query_int(sq, "SELECT count(*) FROM sqlite_schema", &tables, e);
    if (r == 0 && (v == 0) != (tables == 0))
        r = err_set(e, E_CORRUPT, "store: %lld tables and indexes at schema version %lld", (long long)tables, (long long)v);
    if (r == 0 && v > 0 && witness(sq, "schema_crc") != schema_crc(sq))
        r = err_set(e, E_CORRUPT, "store: the schema is not what it was made as");
    return r;
}

static int testify(struct sqlite3 *sq, const char *name, int64_t v, struct err *e)
{
    char sql[300];
    snprintf(sql, sizeof(sql),
             "INSERT INTO meta(name,value,crc) VALUES('%s','%lld',row_crc('meta','%s','%lld'))"
             " ON CONFLICT(name) DO UPDATE SET value=excluded.value,crc=excluded.crc",
             name, (long long)v, name, (long long)v);
    return db_exec(sq, sql, e);
}

static int set_version(struct sqlite3 *sq, int64_t v, struct err *e)
{
    char sql[64];
    snprintf(sql, sizeof(sql), "PRAGMA user_version=%lld", (long long)v);
    int r = testify(sq, "schema", v, e);
    if (r == 0)
        r = testify(sq, "schema_crc", schema_crc(sq), e);
    return r == 0 ? db_exec(sq, sql, e) : r;
}

// All steps in one transaction: a crash leaves the old version whole.
static int migrate(struct sqlite3 *sq, const char *const *step, int64_t known, struct err *e)
{
    int64_t v = 0;
    int r = db_query_int(sq, "PRAGMA user_version", &v, e);
    if (r == 0)
        r = check_version(sq, v, known, e);
    if (r != 0 || v == known)
        return r;
    r = db_exec(sq, "BEGIN IMMEDIATE", e);
    for (; v < known && r == 0; v++)
        r = db_exec(sq, step[v], e);
    if (r == 0)
        r = set_version(sq, known, e);
    if (r == 0)
        r = db_exec(sq, "COMMIT", e);
    if (r != 0 && !sqlite3_get_autocommit(sq))
        (void)!db_exec(sq, "ROLLBACK", NULL);
    return r != 0 ? err_wrap(e, "bringing the store to schema %lld", (long long)known) : 0;
}

int db_check_version(struct sqlite3 *sq, struct err *e)
{
    int64_t v = 0;
    int r = db_query_int(sq, "PRAGMA user_version", &v, e);
    return r == 0 ? check_version(sq, v, ARRAY_LEN(steps), e) : r;
}

int db_migrate(struct sqlite3 *sq, struct err *e)
{
    return migrate(sq, steps, ARRAY_LEN(steps), e);
}
