// SPDX-License-Identifier: Apache-2.0
// Intent: what must not be repeated or forgotten, by (key, name). Declared in data/cache.h.
#include <stdio.h>
#include <string.h>

#include "data/cache.h"

#define INTENT_CRC "row_crc('intent',key,name,data)"

// 1 when the row is there, whole and the same.
static int is_same(struct db *db, const char *key, const char *name, const char *data, struct err *e)
{
    struct db_stmt *s = db_stmt(db, "SELECT 1 FROM intent WHERE key=?1 AND name=?2 AND data=?3 AND crc=" INTENT_CRC);
    db_bind_text(s, 1, key);
    db_bind_text(s, 2, name);
    db_bind_text(s, 3, data);
    int r = db_step(s, e);
    if (r == 1)
        db_done(s);
    return r;
}

int intent_put(struct db *db, const char *key, const char *name, const char *data, struct err *e)
{
    if (strlen(key) >= KEY_MAX || strlen(name) >= INTENT_NAME_MAX)
        return err_set(e, E_INVAL, "intent %.60s of %.60s: too long a name", name, key);
    int r = is_same(db, key, name, data, e);
    if (r != 0)
        return r == 1 ? 0 : r;
    struct db_stmt *s = db_stmt(db, "INSERT INTO intent(key,name,data,crc) VALUES(?1,?2,?3,row_crc('intent',?1,?2,?3))"
                                    " ON CONFLICT(key,name) DO UPDATE SET data=excluded.data,crc=excluded.crc");
    db_bind_text(s, 1, key);
    db_bind_text(s, 2, name);
    db_bind_text(s, 3, data);
    return db_run(s, e);
}

int intent_get(struct db *db, const char *key, const char *name, struct buf *data, struct err *e)
{
    struct db_stmt *s = db_stmt(db, "SELECT data,crc=" INTENT_CRC " FROM intent WHERE key=?1 AND name=?2");
    db_bind_text(s, 1, key);
    db_bind_text(s, 2, name);
    int r = db_step(s, e);
    if (r != 1)
        return r == 0 ? err_set(e, E_NOTFOUND, "no intent %s of %s", name, key) : r;
    buf_reset(data);
    r = db_int(s, 1) == 0 ? db_bad_row(db, "intent", key, e) : buf_adds(data, db_text(s, 0), e);
    db_done(s);
    return r;
}

// One or all of a key; nothing there writes nothing.
static int remove_rows(struct db *db, const char *key, const char *name, struct err *e)
{
    struct db_stmt *s = db_stmt(db, "SELECT 1 FROM intent WHERE key=?1 AND (?2 IS NULL OR name=?2) LIMIT 1");
    db_bind_text(s, 1, key);
    db_bind_text(s, 2, name);
    int r = db_step(s, e);
    if (r != 1)
        return r;
    db_done(s);
    s = db_stmt(db, "DELETE FROM intent WHERE key=?1 AND (?2 IS NULL OR name=?2)");
    db_bind_text(s, 1, key);
    db_bind_text(s, 2, name);
    return db_run(s, e);
}

int intent_delete(struct db *db, const char *key, const char *name, struct err *e)
{
    return remove_rows(db, key, name, e);
}

int intent_delete_all(struct db *db, const char *key, struct err *e)
{
    return remove_rows(db, key, NULL, e);
}

struct row {
    char key[KEY_MAX], name[INTENT_NAME_MAX];
    struct buf data;
    bool damaged;
};

// The one after row->key, row->name. 1, 0 at the end.
static int next(struct db *db, const char *key, struct row *row, struct err *e)
{
    struct db_stmt *s =
        db_stmt(db, "SELECT key,name,data,crc=" INTENT_CRC " FROM intent WHERE (key,name)>(?1,?2) ORDER BY key,name LIMIT 1");
    db_bind_text(s, 1, row->key);
    db_bind_text(s, 2, row->name);
    int r = db_step(s, e);
    if (r != 1)
        return r;
    snprintf(row->key, sizeof(row->key), "%s", db_text(s, 0));
    snprintf(row->name, sizeof(row->name), "%s", db_text(s, 1));
    row->damaged = db_int(s, 3) == 0;
    buf_reset(&row->data);
    r = row->damaged ? 0 : buf_adds(&row->data, db_text(s, 2), e);
    if (row->damaged)
        (void)!db_bad_row(db, "intent", row->key, NULL);
    db_done(s);
    return r != 0 ? r : key == NULL || strcmp(row->key, key) == 0;
}

int intent_each(struct db *db, const char *key, int (*fn)(void *ctx, const char *key, const char *name, const char *data), void *ctx,
                struct err *e)
{
    struct row row = { .data = BUF_INIT(4 * 1024 * 1024) };
    snprintf(row.key, sizeof(row.key), "%s", key != NULL ? key : "");
    int r;
    while ((r = next(db, key, &row, e)) == 1) {
        r = row.damaged ? 0 : fn(ctx, row.key, row.name, buf_str(&row.data));
        if (r != 0)
            break;
    }
    buf_fini(&row.data);
    return r;
}

int intent_named(struct db *db, const char *from, const char *to, int (*fn)(void *ctx, const char *key, const char *name), void *ctx,
                 struct err *e)
{
    struct db_stmt *s = db_stmt(db, "SELECT key,name FROM intent WHERE name>=?1 AND name<?2 AND crc=" INTENT_CRC " ORDER BY name");
    db_bind_text(s, 1, from);
    db_bind_text(s, 2, to);
    int r;
    while ((r = db_step(s, e)) == 1) {
        r = fn(ctx, db_text(s, 0), db_text(s, 1));
        if (r != 0) {
            db_done(s);
            return r;
        }
    }
    return r;
}
