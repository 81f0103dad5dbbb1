// SPDX-License-Identifier: Apache-2.0
// Status slots: one an object, the latest wins.
#include <stdio.h>
#include <string.h>

#include "data/outbox_priv.h"

#define STATUS_CRC "row_crc('status',s.key,s.uid,s.generation,s.seq,s.boot,s.boot_ms,s.wall_us,s.trusted,s.hash,s.json)"
#define STATUS_COLUMNS "s.key,s.uid,s.generation,s.seq,s.wall_us,s.hash,s.json,s.crc=" STATUS_CRC
#define IS_UNSENT "EXISTS(SELECT 1 FROM unsent u WHERE u.seq=s.seq)"

void status_slot_fini(struct status_slot *s)
{
    buf_fini(&s->json);
}

// --- Reading

// The columns STATUS_COLUMNS; `unsent` from wherever the statement has it.
static int fill(struct outbox *o, struct db_stmt *s, bool unsent, struct status_slot *out, struct err *e)
{
    size_t n;
    snprintf(out->key, sizeof(out->key), "%s", db_text(s, 0));
    if (db_int(s, 7) == 0)
        return db_bad_row(o->db, "status", out->key, e);
    snprintf(out->uid, sizeof(out->uid), "%s", db_text(s, 1));
    out->generation = db_int(s, 2);
    out->seq = db_int(s, 3);
    out->at_us = db_int(s, 4);
    out->hash = (uint64_t)db_int(s, 5);
    out->pending = unsent && !outbox_is_acked(o, out->seq);
    const void *json = db_blob(s, 6, &n);
    buf_reset(&out->json);
    return buf_add(&out->json, json, n, e);
}

int outbox_status_get(struct outbox *o, const char *key, struct status_slot *out, struct err *e)
{
    struct db_stmt *s = db_stmt(o->db, "SELECT " STATUS_COLUMNS "," IS_UNSENT " FROM status s WHERE s.key=?1");
    db_bind_text(s, 1, key);
    int r = db_step(s, e);
    if (r != 1)
        return r == 0 ? err_set(e, E_NOTFOUND, "no status of %s", key) : r;
    r = fill(o, s, db_int(s, 8) != 0, out, e);
    db_done(s);
    return r;
}

static int forget_unsent(struct outbox *o, int64_t seq, struct err *e)
{
    struct db_stmt *s = db_stmt(o->db, "DELETE FROM unsent WHERE seq=?1");
    db_bind_int(s, 1, seq);
    return db_run(s, e);
}

// What the row of `unsent` after a seq leads to.
enum found { FOUND_END, FOUND_SLOT, FOUND_NOTHING, FOUND_BAD_SLOT, FOUND_BAD_ROW };

// *seq is moved on to that row.
static int find_after(struct outbox *o, int64_t *seq, struct status_slot *out, enum found *what, struct err *e)
{
    struct db_stmt *s = db_stmt(o->db, "SELECT " STATUS_COLUMNS ",u.seq,u.crc=row_crc('unsent',u.seq,u.key) FROM unsent u"
                                       " LEFT JOIN status s ON s.key=u.key AND s.seq=u.seq WHERE u.seq>?1 ORDER BY u.seq LIMIT 1");
    db_bind_int(s, 1, *seq);
    *what = FOUND_END;
    int r = db_step(s, e);
    if (r != 1)
        return r;
    r = 0;
    *seq = db_int(s, 8);
    if (db_int(s, 9) == 0) {
        *what = FOUND_BAD_ROW;
    } else if (db_text(s, 0) == NULL) {
        *what = FOUND_NOTHING;
    } else {
        r = fill(o, s, true, out, e);
        *what = r == E_CORRUPT ? FOUND_BAD_SLOT : FOUND_SLOT;
    }
    db_done(s);
    return *what == FOUND_BAD_SLOT ? 0 : r;
}

int outbox_resend_all(struct outbox *o, struct err *e)
{
    o->stale = true;
    return db_run(db_stmt(o->db, "INSERT OR IGNORE INTO unsent(seq,key,crc) SELECT seq,key,row_crc('unsent',seq,key) FROM status"
                                 " WHERE substr(uid,1,9)<>'" CACHE_FILE_UID "'"), // those of files are nobody else's
                  e);
}

// A row of `unsent` that leads to no status. Which status it was for is not known when it is damaged: all are told again.
static int mend(struct outbox *o, int64_t seq, const struct status_slot *slot, enum found what, struct err *e)
{
    o->stale = true;
    int r = forget_unsent(o, seq, e);
    if (r == 0 && what == FOUND_BAD_ROW) {
        (void)!db_bad_row(o->db, "unsent", "some object", NULL);
        r = outbox_resend_all(o, e);
    }
    if (r == 0 && what == FOUND_BAD_SLOT) {
        o->status_dropped++;
        r = outbox_status_delete(o, slot->key, e);
    }
    return r;
}

// The next pending slot after *seq, which moves on. 1, 0 or < 0.
static int next_pending(struct outbox *o, int64_t *seq, struct status_slot *out, struct err *e)
{
    for (;;) {
        enum found what;
        int64_t before = *seq;
        int r = find_after(o, seq, out, &what, e);
        if (r != 0 || what == FOUND_END)
            return r;
        if (what == FOUND_SLOT && out->pending)
            return 1;
        if (what != FOUND_SLOT) {
            r = mend(o, *seq, out, what, e);
            *seq = before;
        }
        if (r != 0)
            return r;
    }
}

int outbox_status_pending(struct outbox *o, int64_t after_seq, int max, int (*fn)(void *ctx, const struct status_slot *s), void *ctx,
                          struct err *e)
{
    struct status_slot slot AUTO_SLOT = STATUS_SLOT_INIT;
    int64_t seq = after_seq;
    for (int i = 0; i < max; i++) {
        int r = next_pending(o, &seq, &slot, e);
        if (r != 1)
            return r;
        r = fn(ctx, &slot);
        if (r != 0)
            return r;
    }
    return 0;
}

int outbox_status_oldest(struct outbox *o, int64_t *us, struct err *e)
{
    struct status_slot slot AUTO_SLOT = STATUS_SLOT_INIT;
    int64_t seq = 0;
    int r = o->status_pending > 0 ? next_pending(o, &seq, &slot, e) : 0;
    *us = r == 1 ? slot.at_us : 0;
    return MIN(r, 0);
}

// --- Writing

// What of a slot decides whether it must be written.
struct known {
    bool there, whole, pending, same;
    int64_t seq;
};

static int look_up(struct outbox *o, const char *key, const char *uid, uint64_t hash, struct known *k, struct err *e)
{
    struct db_stmt *s =
        db_stmt(o->db, "SELECT s.seq," IS_UNSENT ",s.uid=?2 AND s.hash=?3,s.crc=" STATUS_CRC " FROM status s WHERE s.key=?1");
    db_bind_text(s, 1, key);
    db_bind_text(s, 2, uid);
    db_bind_int(s, 3, (int64_t)hash);
    *k = (struct known){ 0 };
    int r = db_step(s, e);
    if (r != 1)
        return r;
    k->there = true;
    k->seq = db_int(s, 0);
    k->pending = db_int(s, 1) != 0 && !outbox_is_acked(o, k->seq);
    k->same = db_int(s, 2) != 0;
    k->whole = db_int(s, 3) != 0;
    db_done(s);
    return 0;
}

static int write_slot(struct outbox *o, const char *key, const char *uid, int64_t generation, const char *json, size_t len, uint64_t hash,
                      struct err *e)
{
    struct instant now;
    clock_instant(o->clock, &now);
    struct db_stmt *s = db_stmt(o->db, "INSERT INTO status(key,uid,generation,seq,boot,boot_ms,wall_us,trusted,hash,json,crc)"
                                       " VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,row_crc('status',?1,?2,?3,?4,?5,?6,?7,?8,?9,?10))"
                                       " ON CONFLICT(key) DO UPDATE SET uid=excluded.uid,generation=excluded.generation,seq=excluded.seq,"
                                       "boot=excluded.boot,boot_ms=excluded.boot_ms,wall_us=excluded.wall_us,trusted=excluded.trusted,"
                                       "hash=excluded.hash,json=excluded.json,crc=excluded.crc");
    db_bind_text(s, 1, key);
    db_bind_text(s, 2, uid);
    db_bind_int(s, 3, generation);
    db_bind_int(s, 4, o->next_seq);
    db_bind_int(s, 5, outbox_boot_hash(now.boot_id));
    db_bind_int(s, 6, now.boot_ms);
    db_bind_int(s, 7, now.wall_us);
    db_bind_int(s, 8, now.trusted);
    db_bind_int(s, 9, (int64_t)hash);
    db_bind_blob(s, 10, json, len);
    return db_run(s, e);
}

// The slot with the newest seq is to be sent, whatever of it was before.
static int set_unsent(struct outbox *o, const char *key, const struct known *k, struct err *e)
{
    int r = k->there ? forget_unsent(o, k->seq, e) : 0;
    if (r != 0)
        return r;
    struct db_stmt *s = db_stmt(o->db, "INSERT INTO unsent(seq,key,crc) VALUES(?1,?2,row_crc('unsent',?1,?2))");
    db_bind_int(s, 1, o->next_seq);
    db_bind_text(s, 2, key);
    r = db_run(s, e);
    if (r == 0) {
        o->next_seq++;
        o->status_pending += !k->pending;
    }
    return r;
}

// For nobody else: whatever of it was to be sent is not any more.
static int set_kept(struct outbox *o, const struct known *k, struct err *e)
{
    int r = k->there ? forget_unsent(o, k->seq, e) : 0;
    if (r != 0)
        return r;
    o->next_seq++;
    o->status_pending -= k->pending;
    return 0;
}

static int put(struct outbox *o, const char *key, const char *uid, int64_t generation, const char *json, size_t len, uint64_t hash,
               bool local, struct err *e)
{
    struct known k;
    if (strlen(key) >= KEY_MAX || strlen(uid) >= OBJ_UID_MAX)
        return err_set(e, E_INVAL, "status of %.60s: key or uid is too long", key);
    int r = outbox_recount(o, e);
    if (r == 0)
        r = look_up(o, key, uid, hash, &k, e);
    if (r != 0 || (k.whole && k.same))
        return r;
    r = outbox_make_room(o, STATUS_RESERVE, e);
    if (r == 0)
        r = write_slot(o, key, uid, generation, json, len, hash, e);
    if (r == 0)
        r = local ? set_kept(o, &k, e) : set_unsent(o, key, &k, e);
    return r != 0 ? r : 1;
}

int outbox_status_put(struct outbox *o, const char *key, const char *uid, int64_t generation, const char *json, size_t len, uint64_t hash,
                      struct err *e)
{
    return put(o, key, uid, generation, json, len, hash, false, e);
}

int outbox_status_keep(struct outbox *o, const char *key, const char *uid, int64_t generation, const char *json, size_t len, uint64_t hash,
                       struct err *e)
{
    return put(o, key, uid, generation, json, len, hash, true, e);
}

void outbox_twin_key(const char *key, char out[KEY_MAX + sizeof(OUTBOX_TWIN)])
{
    snprintf(out, KEY_MAX + sizeof(OUTBOX_TWIN), "%s" OUTBOX_TWIN, key);
}

void outbox_object_key(const char *slot_key, char out[KEY_MAX])
{
    size_t n = strlen(slot_key), m = strlen(OUTBOX_TWIN);
    bool twin = n > m && strcmp(slot_key + n - m, OUTBOX_TWIN) == 0;
    snprintf(out, KEY_MAX, "%.*s", (int)(twin ? n - m : n), slot_key);
}

int outbox_status_delete(struct outbox *o, const char *key, struct err *e)
{
    struct known k;
    int r = outbox_recount(o, e);
    if (r == 0)
        r = look_up(o, key, "", 0, &k, e);
    if (r != 0 || !k.there)
        return r;
    r = outbox_keep_seq(o, k.seq, e);
    if (r == 0)
        r = forget_unsent(o, k.seq, e);
    if (r != 0)
        return r;
    struct db_stmt *s = db_stmt(o->db, "DELETE FROM status WHERE key=?1");
    db_bind_text(s, 1, key);
    r = db_run(s, e);
    if (r == 0)
        o->status_pending -= k.pending;
    return r;
}

// With a new seq: an acknowledgement of the old one may still be under way.
int outbox_status_resend(struct outbox *o, const char *key, struct err *e)
{
    struct known k;
    int r = outbox_recount(o, e);
    if (r == 0)
        r = look_up(o, key, "", 0, &k, e);
    if (r == 0 && !k.there)
        r = err_set(e, E_NOTFOUND, "no status of %s", key);
    if (r == 0 && !k.whole)
        r = db_bad_row(o->db, "status", key, e);
    if (r != 0 || k.pending)
        return r;
    struct db_stmt *s =
        db_stmt(o->db, "UPDATE status SET seq=?2,crc=row_crc('status',key,uid,generation,?2,boot,boot_ms,wall_us,trusted,hash,json)"
                       " WHERE key=?1");
    db_bind_text(s, 1, key);
    db_bind_int(s, 2, o->next_seq);
    r = db_run(s, e);
    return r == 0 ? set_unsent(o, key, &k, e) : r;
}

void outbox_status_ack(struct outbox *o, const char *key, int64_t seq)
{
    struct known k;
    if (outbox_recount(o, NULL) != 0 || look_up(o, key, "", 0, &k, NULL) != 0 || k.seq != seq || !k.pending)
        return;
    o->status_pending--;
    outbox_ack(o, seq);
}

// --- Clock

int outbox_status_corrected(struct outbox *o, const char *boot_id, int64_t wall_minus_boot_us, struct err *e)
{
    struct db_stmt *s = db_stmt(o->db, "SELECT 1 FROM status WHERE boot=?1 AND NOT trusted LIMIT 1");
    db_bind_int(s, 1, outbox_boot_hash(boot_id));
    int r = db_step(s, e);
    if (r != 1)
        return r;
    db_done(s);
    s = db_stmt(o->db, "UPDATE status AS s SET wall_us=boot_ms*1000+?2,trusted=1,"
                       "crc=row_crc('status',key,uid,generation,seq,boot,boot_ms,boot_ms*1000+?2,1,hash,json)"
                       " WHERE boot=?1 AND NOT trusted AND crc=" STATUS_CRC);
    db_bind_int(s, 1, outbox_boot_hash(boot_id));
    db_bind_int(s, 2, wall_minus_boot_us);
    return db_run(s, e);
}
