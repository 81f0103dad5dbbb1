// SPDX-License-Identifier: Apache-2.0
// The whole content as JSON lines: {"table":"object","crc_ok":true,"row":{"key":"...",...}}.
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "data/db_priv.h"
#include "data/json.h"
#include "data/json_scan.h"

enum { LINE_MAX_BYTES = 2 * DB_ROW_MAX };

// Our blobs hold JSON: it goes out as it is. A damaged one goes out as text.
static int dump_blob(struct buf *out, const char *p, size_t n, struct err *e)
{
    return n > 0 && json_check(p, n, NULL, NULL) == 0 ? buf_add(out, p, n, e) : json_quote(out, p, n, e);
}

static int dump_value(struct buf *out, sqlite3_stmt *st, int col, struct err *e)
{
    const char *p;
    switch (sqlite3_column_type(st, col)) {
    case SQLITE_INTEGER:
        return buf_addf(out, e, "%lld", (long long)sqlite3_column_int64(st, col));
    case SQLITE_TEXT:
        p = (const char *)sqlite3_column_text(st, col);
        return json_quote(out, p, (size_t)sqlite3_column_bytes(st, col), e);
    case SQLITE_BLOB:
        p = sqlite3_column_blob(st, col);
        return dump_blob(out, p != NULL ? p : "", (size_t)sqlite3_column_bytes(st, col), e);
    default:
        return buf_adds(out, "null", e);
    }
}

// Of a Secret nothing is shown but what it is called; nor is the key of digests.
static bool is_secret(sqlite3_stmt *st, const struct db_table *t, int col)
{
    enum { NAME = 1 }; // the column of its key, or of its name
    static const char secrets[] = "secrets/";
    bool meta = strcmp(t->name, "meta") == 0;
    if (col <= NAME || (!meta && strcmp(t->name, "object") != 0))
        return false;
    const char *key = (const char *)sqlite3_column_text(st, NAME);
    if (meta)
        return key != NULL && strcmp(key, "salt") == 0;
    return key != NULL && strncmp(key, secrets, sizeof(secrets) - 1) == 0 && sqlite3_column_type(st, col) == SQLITE_BLOB;
}

static int dump_row(struct buf *out, sqlite3_stmt *st, const struct db_table *t, struct err *e)
{
    buf_reset(out);
    int r = buf_addf(out, e, "{\"table\":\"%s\",\"crc_ok\":%s,\"row\":{", t->name, db_row_ok(st, t) ? "true" : "false");
    for (int i = 0; i < t->columns - 1 && r == 0; i++) {
        r = buf_addf(out, e, "%s\"%s\":", i > 0 ? "," : "", sqlite3_column_name(st, i));
        if (r == 0)
            r = is_secret(st, t, i) ? buf_adds(out, "\"<redacted>\"", e) : dump_value(out, st, i, e);
    }
    return r == 0 ? buf_adds(out, "}}", e) : r;
}

static int dump_table(struct db *db, const struct db_table *t, struct buf *out, int (*line)(void *, const char *, size_t), void *ctx,
                      struct err *e)
{
    char sql[64];
    sqlite3_stmt *st = NULL;
    snprintf(sql, sizeof(sql), "SELECT * FROM %s ORDER BY 1", t->name);
    int rc = sqlite3_prepare_v2(db->sq, sql, -1, &st, NULL), r = 0;
    while (rc == SQLITE_OK && r == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        r = dump_row(out, st, t, e);
        if (r == 0)
            r = line(ctx, out->data, out->len);
        rc = SQLITE_OK;
    }
    if (r == 0 && rc != SQLITE_DONE)
        r = db_error(db->sq, rc, e, sql);
    sqlite3_finalize(st);
    return r;
}

int db_dump(struct db *db, int (*line)(void *ctx, const char *json, size_t n), void *ctx, struct err *e)
{
    AUTO_BUF struct buf out = BUF_INIT(LINE_MAX_BYTES);
    int r = db->sq != NULL ? 0 : err_set(e, E_IO, "store is closed after damage");
    for (const struct db_table *t = db_tables; t->name != NULL && r == 0; t++)
        r = dump_table(db, t, &out, line, ctx, e);
    return r;
}
