// SPDX-License-Identifier: Apache-2.0
#include "data/cache.h"

#include <stdio.h>
#include <string.h>

#include "base/table.h"
#include "data/marks.h"

// A resourceVersion that is newer than the row's.
struct rv_note {
    struct table_node node;
    bool written; // in the transaction that is open
    char uid[OBJ_UID_MAX], rv[OBJ_RV_MAX];
    char key[];
};

// A list of a source that is under way.
struct marking {
    struct list link;
    struct marks marks;
    char source[];
};

struct cache {
    struct db *db;
    struct db_hook hook;
    struct db_lazy lazy;
    struct table notes;
    struct list markings;
    struct buf stripped; // scratch of cache_put
};

#define FILE_MARK ":file" // follows the key in the rows of files; no name of an object has a colon
#define ROW_CRC(rv) "row_crc('object',key,source,uid," rv ",generation,json)"

// --- Noted resourceVersions

static struct rv_note *find_note(struct cache *c, const char *key)
{
    struct table_node *n = table_get(&c->notes, key);
    return n != NULL ? container_of(n, struct rv_note, node) : NULL;
}

static void drop_note(struct cache *c, struct rv_note *n)
{
    if (n == NULL)
        return;
    table_del(&c->notes, &n->node);
    free(n);
}

static void drop_written(struct cache *c, bool all)
{
    table_each_safe(it, &c->notes)
    {
        struct rv_note *n = container_of(it, struct rv_note, node);
        if (all || n->written)
            drop_note(c, n);
    }
}

static int write_note(struct cache *c, struct rv_note *n, struct err *e)
{
    struct db_stmt *s = db_stmt(c->db, "UPDATE object SET rv=?2,crc=" ROW_CRC("?2") " WHERE key=?1 AND uid=?3");
    db_bind_text(s, 1, n->key);
    db_bind_text(s, 2, n->rv);
    db_bind_text(s, 3, n->uid);
    int r = db_run(s, e);
    n->written = r == 0;
    return r;
}

static int write_notes(struct cache *c, struct err *e)
{
    int r = 0;
    table_each_safe(it, &c->notes)
    {
        struct rv_note *n = container_of(it, struct rv_note, node);
        if (r == 0 && !n->written)
            r = write_note(c, n, e);
    }
    return r;
}

static void on_lazy(struct db_lazy *l)
{
    (void)!write_notes(container_of(l, struct cache, lazy), NULL); // a failure is the transaction's
}

static void on_ended(struct db_hook *h, int cls)
{
    struct cache *c = container_of(h, struct cache, hook);
    if (cls == 0) {
        drop_written(c, false);
        return;
    }
    table_each_safe(it, &c->notes) container_of(it, struct rv_note, node)->written = false;
    if (table_count(&c->notes) > 0)
        db_lazy_add(c->db, &c->lazy);
}

static struct rv_note *new_note(struct cache *c, const char *key)
{
    size_t n = strlen(key) + 1;
    struct rv_note *note = calloc(1, sizeof(*note) + n);
    if (note == NULL)
        return NULL;
    memcpy(note->key, key, n);
    note->node.key = note->key;
    if (table_put(&c->notes, &note->node, NULL) != 0) {
        free(note);
        return NULL;
    }
    return note;
}

// At the bound all notes are written now, with the transaction that this opens.
static int note_rv(struct cache *c, const char *key, const char *uid, const char *rv, struct err *e)
{
    struct rv_note *n = find_note(c, key);
    if (n == NULL && table_count(&c->notes) >= RV_NOTES_MAX) {
        int r = write_notes(c, e);
        if (r != 0)
            return r;
        drop_written(c, true);
    }
    if (n == NULL)
        n = new_note(c, key);
    if (n == NULL)
        return err_set(e, E_NOMEM, "no memory to note a resourceVersion");
    snprintf(n->uid, sizeof(n->uid), "%s", uid);
    snprintf(n->rv, sizeof(n->rv), "%s", rv);
    n->written = false;
    db_lazy_add(c->db, &c->lazy);
    return 0;
}

static bool is_newer(const char *rv, const char *than)
{
    bool ordered;
    int cmp = rv_compare(rv, than, &ordered);
    return ordered ? cmp > 0 : cmp != 0;
}

void cache_note_rv(struct cache *c, const char *key, const char *uid, const char *rv)
{
    char known[OBJ_RV_MAX], known_uid[OBJ_UID_MAX];
    if (strlen(rv) >= OBJ_RV_MAX || cache_rv(c, key, known, known_uid, NULL) != 0 || strcmp(uid, known_uid) != 0)
        return;
    if (is_newer(rv, known))
        (void)!note_rv(c, key, uid, rv, NULL); // not noted: a conflict will tell, and the watch brings it anyway
}

// --- Opening

int cache_open(struct cache **out, struct db *db, struct err *e)
{
    struct cache *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return err_set(e, E_NOMEM, "no memory for the cache");
    c->db = db;
    c->hook.ended = on_ended;
    c->lazy.fn = on_lazy;
    c->stripped = (struct buf)BUF_INIT(OBJ_MAX + 1);
    table_init(&c->notes);
    list_init(&c->markings);
    db_hook_add(db, &c->hook);
    *out = c;
    return 0;
}

static void drop_marking(struct marking *m)
{
    list_del(&m->link);
    marks_fini(&m->marks);
    free(m);
}

// The notes stay in the transaction that closing the db commits; the nodes that it would call are ours, so they go in now.
void cache_close(struct cache *c)
{
    if (c == NULL)
        return;
    if (table_count(&c->notes) > 0 && list_linked(&c->lazy.link))
        (void)!write_notes(c, NULL);
    db_hook_del(&c->hook);
    db_lazy_del(&c->lazy);
    drop_written(c, true);
    table_fini(&c->notes);
    list_each_safe(it, next, &c->markings)
        drop_marking(container_of(it, struct marking, link));
    buf_fini(&c->stripped);
    free(c);
}

void cached_fini(struct cached *c)
{
    buf_fini(&c->json);
}

// --- Marks

static struct marking *find_marking(struct cache *c, const char *source)
{
    list_each(it, &c->markings) {
        struct marking *m = container_of(it, struct marking, link);
        if (strcmp(m->source, source) == 0)
            return m;
    }
    return NULL;
}

int cache_mark_begin(struct cache *c, const char *source, struct err *e)
{
    struct marking *m = find_marking(c, source);
    if (m != NULL) {
        marks_clear(&m->marks);
        return 0;
    }
    size_t n = strlen(source) + 1;
    m = calloc(1, sizeof(*m) + n);
    if (m == NULL)
        return err_set(e, E_NOMEM, "no memory to mark what a list holds");
    memcpy(m->source, source, n);
    list_add_tail(&c->markings, &m->link);
    return 0;
}

// In each list under way: a key belongs to one source, the others never ask for it.
int cache_mark(struct cache *c, const char *key, struct err *e)
{
    int r = 0;
    list_each(it, &c->markings) {
        if (r == 0)
            r = marks_add(&container_of(it, struct marking, link)->marks, key, e);
    }
    return r;
}

// --- Rows. Iteration asks for the next key each time, so that nothing is held open while the caller works.

// Of the rows of one key the file's is what counts; with a source, all of that source.
#define NOT_HIDDEN "NOT EXISTS(SELECT 1 FROM object f WHERE f.key=object.key||'" FILE_MARK "')"

// The object's key of a row's.
static void strip_mark(char *key)
{
    size_t n = strlen(key), m = strlen(FILE_MARK);
    if (n > m && strcmp(key + n - m, FILE_MARK) == 0)
        key[n - m] = '\0';
}

static int step_to_key(struct db_stmt *s, char key[KEY_MAX], struct err *e)
{
    int r = db_step(s, e);
    if (r == 1) {
        snprintf(key, KEY_MAX, "%s", db_text(s, 0));
        db_done(s);
    }
    return r;
}

static int next_key(struct cache *c, const char *source, char key[KEY_MAX], struct err *e)
{
    struct db_stmt *s =
        db_stmt(c->db, "SELECT key FROM object WHERE key>?1 AND (source=?2 OR ?2 IS NULL AND " NOT_HIDDEN ") ORDER BY key LIMIT 1");
    db_bind_text(s, 1, key);
    db_bind_text(s, 2, source);
    return step_to_key(s, key, e);
}

int cache_each_key(struct cache *c, const char *source, int (*fn)(void *ctx, const char *key), void *ctx, struct err *e)
{
    char at[KEY_MAX] = "", key[KEY_MAX];
    int r;
    while ((r = next_key(c, source, at, e)) == 1) {
        memcpy(key, at, sizeof(key));
        strip_mark(key);
        r = fn(ctx, key);
        if (r != 0)
            return r;
    }
    return r;
}

int cache_unmarked(struct cache *c, const char *source, int (*fn)(void *ctx, const char *key), void *ctx, struct err *e)
{
    struct marking *m = find_marking(c, source);
    char key[KEY_MAX] = "";
    int r;
    if (m == NULL)
        return err_set(e, E_INVAL, "no list of %s is being marked", source);
    while ((r = next_key(c, source, key, e)) == 1) {
        r = marks_has(&m->marks, key) ? 0 : fn(ctx, key);
        if (r != 0)
            return r;
    }
    if (r == 0)
        drop_marking(m);
    return r;
}

static int fill(struct cache *c, struct db_stmt *s, struct cached *out, struct err *e)
{
    size_t n;
    snprintf(out->key, sizeof(out->key), "%s", db_text(s, 0));
    if (db_int(s, 6) == 0)
        return db_bad_row(c->db, "object", out->key, e);
    snprintf(out->source, sizeof(out->source), "%s", db_text(s, 1));
    snprintf(out->uid, sizeof(out->uid), "%s", db_text(s, 2));
    snprintf(out->rv, sizeof(out->rv), "%s", db_text(s, 3));
    out->generation = db_int(s, 4);
    const void *json = db_blob(s, 5, &n);
    struct rv_note *note = find_note(c, out->key);
    if (note != NULL && strcmp(note->uid, out->uid) == 0)
        snprintf(out->rv, sizeof(out->rv), "%s", note->rv);
    buf_reset(&out->json);
    return buf_add(&out->json, json, n, e);
}

// The row of the statement, then done with it.
static int take_row(struct cache *c, struct db_stmt *s, struct cached *out, struct err *e)
{
    int r = db_step(s, e);
    if (r == 1) {
        r = fill(c, s, out, e);
        db_done(s);
        return r;
    }
    return r == 0 ? E_NOTFOUND : r;
}

int cache_get(struct cache *c, const char *key, struct cached *out, struct err *e)
{
    struct db_stmt *s = db_stmt(c->db, "SELECT key,source,uid,rv,generation,json,crc=" ROW_CRC("rv") " FROM object"
                                                                                                     " WHERE key IN(?1,?1||'" FILE_MARK
                                                                                                     "') ORDER BY key DESC LIMIT 1");
    db_bind_text(s, 1, key);
    int r = take_row(c, s, out, e);
    strip_mark(out->key);
    return r == E_NOTFOUND ? err_set(e, r, "%s is not in the cache", key) : r;
}

// The row after `at`, which moves on, also when the row is damaged.
static int next_row(struct cache *c, char at[KEY_MAX], struct cached *out, struct err *e)
{
    struct db_stmt *s = db_stmt(c->db, "SELECT key,source,uid,rv,generation,json,crc=" ROW_CRC(
                                           "rv") " FROM object WHERE key>?1 AND " NOT_HIDDEN " ORDER BY key LIMIT 1");
    db_bind_text(s, 1, at);
    out->key[0] = '\0';
    int r = take_row(c, s, out, e);
    if (out->key[0] != '\0')
        memcpy(at, out->key, KEY_MAX);
    strip_mark(out->key);
    return r;
}

int cache_each(struct cache *c, const char *prefix, int (*fn)(void *ctx, const struct cached *row), void *ctx, struct err *e)
{
    struct cached row AUTO_CACHED = CACHED_INIT;
    struct err why = ERR_INIT;
    size_t n = strlen(prefix);
    char at[KEY_MAX], before[KEY_MAX];
    int r = cache_get(c, prefix, &row, &why); // the prefix itself may be a key
    snprintf(at, sizeof(at), "%s", prefix);
    for (;;) {
        if (r == 0)
            r = fn(ctx, &row);
        else if (r == E_NOTFOUND || r == E_CORRUPT)
            r = 0;
        if (r != 0)
            break;
        do {
            memcpy(before, at, sizeof(before));
            r = next_row(c, at, &row, &why);
        } while (r == 0 && strcmp(row.key, prefix) == 0); // its file's row: told already
        if (r == E_NOTFOUND || (r == 0 && strncmp(row.key, prefix, n) != 0))
            return 0;
        if (r != 0 && strcmp(before, at) == 0) // no damaged row, but a store that cannot be read on
            break;
    }
    if (e != NULL && why.cls == r)
        *e = why;
    return r;
}

int cache_count(struct cache *c, const char *source, int64_t *n, struct err *e)
{
    struct db_stmt *s = db_stmt(c->db, "SELECT count(*) FROM object WHERE ?1 IS NULL OR source=?1");
    db_bind_text(s, 1, source);
    int r = db_step(s, e);
    if (r != 1)
        return r;
    *n = db_int(s, 0);
    db_done(s);
    return 0;
}

int cache_rv(struct cache *c, const char *key, char rv[OBJ_RV_MAX], char uid[OBJ_UID_MAX], struct err *e)
{
    struct rv_note *note = find_note(c, key);
    if (note != NULL) {
        memcpy(rv, note->rv, OBJ_RV_MAX);
        memcpy(uid, note->uid, OBJ_UID_MAX);
        return 0;
    }
    struct db_stmt *s = db_stmt(c->db, "SELECT rv,uid,crc=" ROW_CRC("rv") " FROM object WHERE key=?1");
    db_bind_text(s, 1, key);
    int r = db_step(s, e);
    if (r != 1)
        return r == 0 ? err_set(e, E_NOTFOUND, "%s is not in the cache", key) : r;
    if (db_int(s, 2) == 0) {
        r = db_bad_row(c->db, "object", key, e);
    } else {
        snprintf(rv, OBJ_RV_MAX, "%s", db_text(s, 0));
        snprintf(uid, OBJ_UID_MAX, "%s", db_text(s, 1));
        r = 0;
    }
    db_done(s);
    return r;
}

int cache_generation(struct cache *c, const char *key, int64_t *out, struct err *e)
{
    struct db_stmt *s = db_stmt(c->db, "SELECT generation FROM object WHERE key=?1");
    db_bind_text(s, 1, key);
    int r = db_step(s, e);
    if (r != 1)
        return r == 0 ? err_set(e, E_NOTFOUND, "%s is not in the cache", key) : r;
    *out = db_int(s, 0);
    db_done(s);
    return 0;
}

int cache_delete(struct cache *c, const char *key, struct err *e)
{
    drop_note(c, find_note(c, key));
    struct db_stmt *s = db_stmt(c->db, "SELECT 1 FROM object WHERE key=?1");
    db_bind_text(s, 1, key);
    int r = db_step(s, e);
    if (r != 1) // nothing there: nothing to write
        return r;
    db_done(s);
    s = db_stmt(c->db, "DELETE FROM object WHERE key=?1");
    db_bind_text(s, 1, key);
    return db_run(s, e);
}

int cache_disown(struct cache *c, const char *key, struct err *e)
{
    struct db_stmt *s = db_stmt(c->db, "UPDATE object SET source='',crc=row_crc('object',key,'',uid,rv,generation,json)"
                                       " WHERE key=?1 AND source<>'' AND crc=" ROW_CRC("rv"));
    db_bind_text(s, 1, key);
    return db_run(s, e);
}

// --- Putting

// What the row of a key says about a new object.
struct old_row {
    enum cache_change change; // as if the resourceVersion were the same: SAME, CHANGED, NEW or REPLACED
    bool same_source;
};

// Whether two stripped objects differ in nothing but metadata.resourceVersion.
static bool same_but_rv(const char *a, size_t na, const char *b, size_t nb)
{
    struct span x, y;
    if (na + OBJ_RV_MAX < nb || nb + OBJ_RV_MAX < na) // the one thing that may differ is no longer than that
        return false;
    if (!object_member(a, na, "metadata", "resourceVersion", &x) || !object_member(b, nb, "metadata", "resourceVersion", &y))
        return na == nb && memcmp(a, b, na) == 0;
    size_t head = (size_t)(x.p - a), tail = na - head - x.n;
    if (head != (size_t)(y.p - b) || tail != nb - head - y.n)
        return false;
    return memcmp(a, b, head) == 0 && memcmp(x.p + x.n, y.p + y.n, tail) == 0;
}

static enum cache_change compare(struct cache *c, struct db_stmt *s, const struct object_view *v, const char *key)
{
    size_t n;
    if (db_int(s, 3) == 0) {
        (void)!db_bad_row(c->db, "object", key, NULL);
        return CACHE_CHANGED; // written anew, whatever it was
    }
    if (strcmp(db_text(s, 0), v->uid) != 0)
        return CACHE_REPLACED;
    const char *json = db_blob(s, 2, &n);
    return same_but_rv(json, n, c->stripped.data, c->stripped.len) ? CACHE_SAME : CACHE_CHANGED;
}

static int look_up(struct cache *c, const char *source, const char *key, const struct object_view *v, struct old_row *old, struct err *e)
{
    struct db_stmt *s = db_stmt(c->db, "SELECT uid,source,json,crc=" ROW_CRC("rv") " FROM object WHERE key=?1");
    db_bind_text(s, 1, key);
    int r = db_step(s, e);
    if (r == 0)
        *old = (struct old_row){ CACHE_NEW, false };
    if (r != 1)
        return r;
    old->change = compare(c, s, v, key);
    old->same_source = strcmp(db_text(s, 1), source) == 0;
    db_done(s);
    return 0;
}

static int write_row(struct cache *c, const char *source, const char *key, const struct object_view *v, struct err *e)
{
    struct db_stmt *s = db_stmt(c->db, "INSERT INTO object(key,source,uid,rv,generation,json,crc)"
                                       " VALUES(?1,?2,?3,?4,?5,?6,row_crc('object',?1,?2,?3,?4,?5,?6))"
                                       " ON CONFLICT(key) DO UPDATE SET source=excluded.source,uid=excluded.uid,rv=excluded.rv,"
                                       "generation=excluded.generation,json=excluded.json,crc=excluded.crc");
    db_bind_text(s, 1, key);
    db_bind_text(s, 2, source);
    db_bind_text(s, 3, v->uid);
    db_bind_text(s, 4, v->rv);
    db_bind_int(s, 5, v->generation);
    db_bind_blob(s, 6, c->stripped.data, c->stripped.len);
    int r = db_run(s, e);
    if (r == 0)
        drop_note(c, find_note(c, key));
    return r;
}

// The spec is the one we have: at most the resourceVersion moved.
static int put_same(struct cache *c, const char *key, const struct object_view *v, struct err *e)
{
    char rv[OBJ_RV_MAX], uid[OBJ_UID_MAX];
    int r = cache_rv(c, key, rv, uid, e);
    if (r != 0)
        return r;
    if (strcmp(rv, v->rv) == 0)
        return CACHE_SAME;
    r = note_rv(c, key, v->uid, v->rv, e);
    return r != 0 ? r : CACHE_RV_ONLY;
}

static int put(struct cache *c, const char *source, const char *key, const struct object_view *v, struct err *e)
{
    struct old_row old = { 0 };
    int r = look_up(c, source, key, v, &old, e);
    if (r != 0)
        return r;
    if (old.change == CACHE_SAME && old.same_source)
        return put_same(c, key, v, e);
    r = write_row(c, source, key, v, e);
    return r != 0 ? r : old.change == CACHE_SAME ? CACHE_RV_ONLY : (int)old.change;
}

int cache_put(struct cache *c, const char *source, const char *key, const struct object_view *v, const char *json, size_t len,
              struct err *e)
{
    if (strlen(key) >= KEY_MAX || strlen(source) >= SOURCE_MAX)
        return err_set(e, E_INVAL, "key or source of %.60s... is too long", key);
    buf_reset(&c->stripped);
    int r = object_strip(v, json, len, &c->stripped, e);
    if (r == 0)
        r = put(c, source, key, v, e);
    if (c->stripped.alloc > 64 * 1024)
        buf_fini(&c->stripped); // a large one does not stay
    struct marking *m = r >= 0 ? find_marking(c, source) : NULL;
    int marked = m != NULL ? marks_add(&m->marks, key, e) : 0;
    return marked != 0 ? marked : r;
}

// --- Rows of files

bool cache_is_file(const char *source)
{
    return strncmp(source, CACHE_FILE_SOURCE, strlen(CACHE_FILE_SOURCE)) == 0;
}

bool cache_is_file_uid(const char *uid)
{
    return strncmp(uid, CACHE_FILE_UID, strlen(CACHE_FILE_UID)) == 0;
}

static int file_key(char out[KEY_MAX], const char *key, struct err *e)
{
    if (snprintf(out, KEY_MAX, "%s" FILE_MARK, key) >= KEY_MAX)
        return err_set(e, E_TOOBIG, "key of %.60s... is too long", key);
    return 0;
}

int cache_put_file(struct cache *c, const char *source, const char *key, const struct object_view *v, const char *json, size_t len,
                   struct err *e)
{
    char row[KEY_MAX];
    int r = file_key(row, key, e);
    return r != 0 ? r : cache_put(c, source, row, v, json, len, e);
}

int cache_delete_file(struct cache *c, const char *key, struct err *e)
{
    char row[KEY_MAX];
    int r = file_key(row, key, e);
    return r != 0 ? r : cache_delete(c, row, e);
}

int cache_has(struct cache *c, const char *key, struct err *e)
{
    struct db_stmt *s = db_stmt(c->db, "SELECT 1 FROM object WHERE key IN(?1,?1||'" FILE_MARK "') LIMIT 1");
    db_bind_text(s, 1, key);
    int r = db_step(s, e);
    if (r == 1)
        db_done(s);
    return r;
}

// The sources of files stand together in the order of bytes: from the prefix to what begins with the next byte.
static int next_file(struct cache *c, char key[KEY_MAX], struct err *e)
{
    struct db_stmt *s = db_stmt(c->db, "SELECT key FROM object WHERE key>?1 AND source>='" CACHE_FILE_SOURCE
                                       "' AND source<'" CACHE_FILE_SOURCES_END "' ORDER BY key LIMIT 1");
    db_bind_text(s, 1, key);
    return step_to_key(s, key, e);
}

int cache_each_file(struct cache *c, int (*fn)(void *ctx, const char *key), void *ctx, struct err *e)
{
    char at[KEY_MAX] = "", key[KEY_MAX];
    int r;
    while ((r = next_file(c, at, e)) == 1) {
        memcpy(key, at, sizeof(key));
        strip_mark(key);
        r = fn(ctx, key);
        if (r != 0)
            return r;
    }
    return r;
}
