// SPDX-License-Identifier: Apache-2.0
// Salvage: what can be read of a damaged store, page by page, into a new one.
//
// SQLite reads a tree from its root, so one bad page hides everything below it. Here each page that looks like a table's leaf is taken for
// itself and each row that decodes is offered to all tables: the one whose checksum fits is the one it belongs to. secure_delete
// zeroes what is deleted, so nothing old comes back.
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "data/db_priv.h"

enum { COLUMNS_MAX = 32, LEAF = 0x0d, NAME_ROOM = 300, SCHEMA_ROWS = 2 };

// --- Rows out of pages

struct value {
    int type; // SQLITE_NULL, _INTEGER, _TEXT, _BLOB; 0 = something we do not store
    int64_t i;
    const unsigned char *p;
    size_t n;
};

struct rescue {
    struct db_pages *in;
    struct sqlite3 *out;
    unsigned char page[DB_PAGE], overflow[DB_PAGE];
    struct buf row; // the record being put together
    struct value value[COLUMNS_MAX];
    int columns;
    int64_t rowid;
    int64_t kept, bad;
};

// Bytes it took, 0 when it does not end before `end`.
static size_t varint(const unsigned char *p, const unsigned char *end, uint64_t *out)
{
    uint64_t v = 0;
    for (size_t i = 0; i < 9 && p + i < end; i++) {
        if (i == 8) {
            *out = v << 8 | p[i];
            return 9;
        }
        v = v << 7 | (p[i] & 0x7f);
        if (p[i] < 0x80) {
            *out = v;
            return i + 1;
        }
    }
    return 0;
}

// How much of a payload is in the leaf itself (the file format's section on overflow pages).
static size_t local_size(size_t payload)
{
    const size_t usable = DB_PAGE, most = usable - 35, least = (usable - 12) * 32 / 255 - 23;
    if (payload <= most)
        return payload;
    size_t k = least + (payload - least) % (usable - 4);
    return k <= most ? k : least;
}

static uint32_t page_number(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

// The whole record, through its overflow pages, into r->row. 0, E_CORRUPT (not to be had) or E_NOMEM.
static int gather(struct rescue *r, const unsigned char *p, const unsigned char *end, size_t payload, struct err *e)
{
    size_t local = local_size(payload);
    buf_reset(&r->row);
    if (payload > DB_ROW_MAX || local + (local < payload ? 4 : 0) > (size_t)(end - p))
        return E_CORRUPT;
    int rc = buf_add(&r->row, p, local, e);
    uint32_t next = local < payload ? page_number(p + local) : 0;
    while (rc == 0 && r->row.len < payload) { // each round adds something, so a ring of pages ends, too
        if (!db_pages_read(r->in, next, r->overflow))
            return E_CORRUPT;
        next = page_number(r->overflow);
        rc = buf_add(&r->row, r->overflow + 4, MIN(payload - r->row.len, (size_t)DB_PAGE - 4), e);
    }
    return rc;
}

static int64_t big_endian(const unsigned char *p, size_t n)
{
    uint64_t v = p[0] >= 0x80 ? UINT64_MAX : 0;
    for (size_t i = 0; i < n; i++)
        v = v << 8 | p[i];
    return (int64_t)v;
}

// One value of the given serial type; its size, or SIZE_MAX when it is over the end.
static size_t decode_value(struct value *v, uint64_t serial, const unsigned char *p, size_t room)
{
    static const unsigned char int_size[] = { 0, 1, 2, 3, 4, 6, 8 };
    *v = (struct value){ 0 };
    if (serial == 0) {
        v->type = SQLITE_NULL;
        return 0;
    }
    if (serial == 8 || serial == 9) {
        v->type = SQLITE_INTEGER;
        v->i = serial == 9;
        return 0;
    }
    v->n = serial < ARRAY_LEN(int_size) ? int_size[serial] : serial >= 12 ? (serial - 12) / 2 : SIZE_MAX;
    if (v->n > room)
        return SIZE_MAX;
    v->p = p;
    v->type = serial < 12 ? SQLITE_INTEGER : serial % 2 ? SQLITE_TEXT : SQLITE_BLOB;
    if (serial < 12)
        v->i = big_endian(p, v->n);
    return v->n;
}

// r->row into r->value.
static bool decode_row(struct rescue *r)
{
    const unsigned char *p = (const unsigned char *)buf_str(&r->row), *end = p + r->row.len;
    uint64_t header = 0, serial;
    size_t n = varint(p, end, &header);
    if (n == 0 || header > r->row.len || header < n)
        return false;
    const unsigned char *body = p + header, *types_end = body;
    for (r->columns = 0, p += n; p < types_end; p += n, r->columns++) {
        n = varint(p, types_end, &serial);
        if (n == 0 || r->columns == COLUMNS_MAX)
            return false;
        size_t size = decode_value(&r->value[r->columns], serial, body, (size_t)(end - body));
        if (size == SIZE_MAX)
            return false;
        body += size;
    }
    return body == end;
}

// --- Rows into the new store

static uint32_t row_crc(const struct rescue *r, const struct db_table *t)
{
    uint32_t crc = db_crc_bytes(0, true, t->name, strlen(t->name));
    if (t->rowid)
        crc = db_crc_int(crc, r->rowid);
    for (int i = 1; i < r->columns - 1; i++) {
        const struct value *v = &r->value[i];
        if (v->type == SQLITE_INTEGER)
            crc = db_crc_int(crc, v->i);
        else if (v->type == SQLITE_NULL)
            crc = db_crc_null(crc);
        else
            crc = db_crc_bytes(crc, v->type == SQLITE_TEXT, v->p, v->n);
    }
    return crc;
}

// The table that a row belongs to; *like tells whether it could have been one of ours at all.
static const struct db_table *table_of(const struct rescue *r, bool *like)
{
    *like = false;
    if (r->columns < 2 || r->value[0].type != SQLITE_NULL || r->value[r->columns - 1].type != SQLITE_INTEGER)
        return NULL;
    for (const struct db_table *t = db_tables; t->name != NULL; t++) {
        if (t->columns != r->columns)
            continue;
        *like = true;
        if (r->value[r->columns - 1].i == (int32_t)row_crc(r, t))
            return t;
    }
    return NULL;
}

static void bind(sqlite3_stmt *st, int pos, const struct value *v)
{
    if (v->type == SQLITE_INTEGER)
        sqlite3_bind_int64(st, pos, v->i);
    else if (v->type == SQLITE_TEXT)
        sqlite3_bind_text(st, pos, (const char *)v->p, (int)v->n, SQLITE_STATIC);
    else if (v->type == SQLITE_BLOB)
        sqlite3_bind_blob(st, pos, v->p, (int)v->n, SQLITE_STATIC);
}

// Of two rows with one key (possible only when the log was lost in the middle of being emptied) the later one is kept.
static int insert(struct rescue *r, const struct db_table *t, struct err *e)
{
    char sql[64 + 2 * COLUMNS_MAX];
    int n = snprintf(sql, sizeof(sql), "INSERT OR REPLACE INTO %s VALUES(?", t->name);
    for (int i = 1; i < r->columns; i++, n += 2)
        memcpy(sql + n, ",?", 2);
    memcpy(sql + n, ")", 2);
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(r->out, sql, -1, &st, NULL);
    if (rc == SQLITE_OK) {
        if (t->rowid)
            sqlite3_bind_int64(st, 1, r->rowid);
        for (int i = 1; i < r->columns; i++)
            bind(st, i + 1, &r->value[i]);
        rc = sqlite3_step(st);
    }
    int result = rc == SQLITE_DONE ? 0 : db_error(r->out, rc, e, "keeping a row");
    sqlite3_finalize(st);
    r->kept += result == 0;
    return result == E_INVAL || result == E_EXISTS ? 0 : result;
}

// The rows about the schema (SCHEMA_ROWS of them) are the new store's own.
static bool is_about_schema(const struct rescue *r, const struct db_table *t)
{
    return t == db_tables && r->value[1].n >= 6 && memcmp(r->value[1].p, "schema", 6) == 0;
}

static int rescue_cell(struct rescue *r, const unsigned char *p, const unsigned char *end, struct err *e)
{
    uint64_t payload = 0, rowid = 0;
    size_t a = varint(p, end, &payload), b = a > 0 ? varint(p + a, end, &rowid) : 0;
    int rc = b > 0 ? gather(r, p + a + b, end, payload, e) : E_CORRUPT;
    if (rc == E_CORRUPT || (rc == 0 && !decode_row(r))) {
        r->bad++;
        return 0;
    }
    if (rc != 0)
        return rc;
    bool like;
    r->rowid = (int64_t)rowid;
    const struct db_table *t = table_of(r, &like);
    if (t == NULL) {
        r->bad += like;
        return 0;
    }
    return is_about_schema(r, t) ? 0 : insert(r, t, e);
}

static int rescue_page(struct rescue *r, uint32_t page, struct err *e)
{
    if (!db_pages_read(r->in, page, r->page))
        return 0;
    const unsigned char *head = r->page + (page == 1 ? 100 : 0), *end = r->page + DB_PAGE;
    if (head[0] != LEAF)
        return 0;
    int cells = head[3] << 8 | head[4], rc = 0;
    for (const unsigned char *at = head + 8; cells > 0 && at + 2 <= end && rc == 0; cells--, at += 2) {
        int cell = at[0] << 8 | at[1];
        if (cell < DB_PAGE)
            rc = rescue_cell(r, r->page + cell, end, e);
    }
    return rc;
}

static int rescue_all(struct rescue *r, struct err *e)
{
    int rc = db_exec(r->out, "BEGIN IMMEDIATE", e);
    for (uint32_t page = 1; page <= db_pages_count(r->in) && rc == 0; page++)
        rc = rescue_page(r, page, e);
    return rc == 0 ? db_exec(r->out, "COMMIT", e) : rc;
}

// --- A new file in the place of the old one

static int with_suffix(const struct db *db, const char *suffix, char out[NAME_ROOM], struct err *e)
{
    int n = snprintf(out, NAME_ROOM, "%s%s", db->path, suffix);
    return n < NAME_ROOM ? 0 : err_set(e, E_INVAL, "store path %s is too long", db->path);
}

static int remove_with_logs(const struct db *db, const char *name, struct err *e)
{
    static const char *const tail[] = { "", "-wal", "-journal" };
    char path[NAME_ROOM + 16];
    int r = 0;
    for (size_t i = 0; i < ARRAY_LEN(tail) && r == 0; i++) {
        snprintf(path, sizeof(path), "%s%s", name, tail[i]);
        r = db->disk->ops->unlink(db->disk, path, 0, e);
    }
    return r;
}

// Everything in the file itself, nothing in its log: from here on it can be renamed alone.
static int empty_log(struct sqlite3 *sq, struct err *e)
{
    int rc = sqlite3_wal_checkpoint_v2(sq, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    return rc == SQLITE_OK ? 0 : db_error(sq, rc, e, "emptying the log");
}

static int fill(const struct db *db, const char *name, struct rescue *r, struct err *e)
{
    int rc = db_connect(db, name, &r->out, e);
    if (rc == 0)
        rc = db_migrate(r->out, e);
    if (rc == 0 && r->in != NULL)
        rc = rescue_all(r, e);
    if (rc == 0)
        rc = empty_log(r->out, e);
    db_disconnect(r->out, rc != 0);
    return rc;
}

// A whole store under `name`, or nothing. r->in NULL: an empty one.
static int build(const struct db *db, const char *name, struct rescue *r, struct err *e)
{
    int rc = remove_with_logs(db, name, e);
    if (rc == 0)
        rc = fs_write(db->disk, name, "", 0, 0600, FS_EXCL, e);
    if (rc == 0)
        rc = fill(db, name, r, e);
    if (rc != 0)
        (void)!remove_with_logs(db, name, NULL);
    return rc;
}

int db_create(struct db *db, struct err *e)
{
    char fresh[NAME_ROOM];
    struct rescue none = { 0 };
    int r = with_suffix(db, ".fresh", fresh, e);
    if (r == 0)
        r = build(db, fresh, &none, e);
    return r == 0 ? db->disk->ops->rename(db->disk, fresh, db->path, 0, e) : r;
}

// --- Setting aside

struct asides {
    const struct db *db;
    const char *base; // the store's name without its directory
    struct buf names; // each with its NUL
};

static int note_aside(void *ctx, const char *name, enum fs_type t)
{
    struct asides *a = ctx;
    size_t n = strlen(a->base);
    if (t != FS_FILE || strncmp(name, a->base, n) != 0 || strncmp(name + n, ".corrupt-", 9) != 0)
        return 0;
    return buf_add(&a->names, name, strlen(name) + 1, NULL);
}

// Earlier damaged files go: they are for whoever looks into it, and one is enough to look at.
static void remove_asides(const struct db *db)
{
    const char *slash = strrchr(db->path, '/');
    struct asides a = { .db = db, .base = slash + 1, .names = BUF_INIT(64 * 1024) };
    char dir[NAME_ROOM], path[2 * NAME_ROOM];
    snprintf(dir, sizeof(dir), "%.*s", slash == db->path ? 1 : (int)(slash - db->path), db->path);
    (void)!db->disk->ops->list(db->disk, dir, note_aside, &a, NULL);
    for (size_t at = 0; at < a.names.len; at += strlen(a.names.data + at) + 1) {
        snprintf(path, sizeof(path), "%.*s%s", (int)(slash + 1 - db->path), db->path, a.names.data + at);
        (void)!db->disk->ops->unlink(db->disk, path, 0, NULL);
    }
    buf_fini(&a.names);
}

static void name_aside(struct db *db, const char *path)
{
    snprintf(db->salvage.aside, sizeof(db->salvage.aside), "%.250s.corrupt-%lld", path, (long long)(clock_wall_us(db->clock) / 1000000));
}

int db_set_aside(struct db *db, const char *path, struct err *e)
{
    name_aside(db, path);
    int r = db->disk->ops->rename(db->disk, path, db->salvage.aside, 0, e);
    if (r != 0)
        return r;
    db->salvage.happened = true;
    db->salvage.times++;
    log_warn("db", "store-set-aside path=%s aside=%s why=\"it is no regular file\"", path, db->salvage.aside);
    return 0;
}

// The file before its log: as long as the damaged store is in its place, its log is, too.
static int swap(struct db *db, const char *salvaged, struct err *e)
{
    char log[NAME_ROOM], aside_log[NAME_ROOM];
    struct disk *d = db->disk;
    name_aside(db, db->path);
    snprintf(log, sizeof(log), "%.250s-wal", db->path);
    snprintf(aside_log, sizeof(aside_log), "%.280s-wal", db->salvage.aside);
    int r = d->ops->rename(d, db->path, db->salvage.aside, 0, e);
    if (r == 0 && d->ops->rename(d, log, aside_log, 0, NULL) != 0)
        r = d->ops->unlink(d, log, 0, e);
    return r == 0 ? d->ops->rename(d, salvaged, db->path, 0, e) : r;
}

int db_finish_salvage(struct db *db, struct err *e)
{
    char salvaged[NAME_ROOM];
    struct fs_stat st;
    struct err why = ERR_INIT;
    int r = with_suffix(db, ".salvaged", salvaged, e);
    if (r != 0)
        return r;
    r = db->disk->ops->stat(db->disk, db->path, 0, &st, &why);
    if (r == 0)
        return remove_with_logs(db, salvaged, e); // never finished
    if (r != E_NOTFOUND || db->disk->ops->stat(db->disk, salvaged, 0, &st, NULL) != 0)
        return r == E_NOTFOUND ? 0 : err_set(e, r, "%s", why.msg);
    r = remove_with_logs(db, db->path, e);
    return r == 0 ? db->disk->ops->rename(db->disk, salvaged, db->path, 0, e) : r;
}

// --- How much there was. The indexes count a table's rows without reading it, and the other way round.

static int64_t expected_rows(const struct db *db)
{
    struct sqlite3 *sq = NULL;
    char sql[100];
    int64_t all = 0;
    if (db_connect(db, db->path, &sq, NULL) != 0)
        return -1;
    for (const struct db_table *t = db_tables; t->name != NULL && all >= 0; t++) {
        int64_t by_index = -1, by_table = -1;
        snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", t->name);
        (void)!db_query_int(sq, sql, &by_index, NULL);
        snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s NOT INDEXED", t->name);
        (void)!db_query_int(sq, sql, &by_table, NULL);
        int64_t n = MAX(by_index, by_table);
        all = n < 0 ? -1 : all + n;
    }
    db_disconnect(sq, true);
    return all >= SCHEMA_ROWS ? all - SCHEMA_ROWS : -1; // those are not carried over
}

static int rescue_into(struct db *db, struct rescue *r, struct err *e)
{
    char salvaged[NAME_ROOM];
    int rc = with_suffix(db, ".salvaged", salvaged, e);
    if (rc == 0)
        rc = db_pages_open(&r->in, db, e);
    if (rc == 0)
        rc = build(db, salvaged, r, e);
    db_pages_free(r->in);
    return rc == 0 ? swap(db, salvaged, e) : rc;
}

int db_salvage(struct db *db, const char *why, struct err *e)
{
    struct rescue r = { .row = BUF_INIT(DB_ROW_MAX) };
    int64_t expected = expected_rows(db);
    remove_asides(db); // before, so that there is room
    int rc = rescue_into(db, &r, e);
    buf_fini(&r.row);
    if (rc != 0)
        return err_wrap(e, "salvaging %s", db->path);
    struct db_salvage *s = &db->salvage;
    s->rows_lost += expected >= 0 ? MAX(expected - r.kept, 0) : r.bad;
    s->rows_kept = r.kept;
    s->happened = true;
    s->times++;
    log_warn("db", "store-salvaged kept=%lld lost=%lld aside=%s why=\"%s\"", (long long)s->rows_kept, (long long)s->rows_lost, s->aside,
             why);
    return 0;
}
