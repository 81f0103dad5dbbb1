// SPDX-License-Identifier: Apache-2.0
// Status slots: one an object, the latest wins.
#include <stdio.h>
#include <string.h>

#include "data/outbox_priv.h"

#define STATUS_CRC "row_crc('status',key,uid,generation,seq,boot,boot_ms,wall_us,trusted,hash,pending,json)"
#define STATUS_COLUMNS "key,uid,generation,seq,wall_us,hash,pending,json,crc=" STATUS_CRC

void status_slot_fini(struct status_slot *s)
{
    buf_fini(&s->json);
}

// --- Reading

static int fill(struct outbox *o, struct db_stmt *s, struct status_slot *out, struct err *e)
{
    size_t n;
    snprintf(out->key, sizeof(out->key), "%s", db_text(s, 0));
    out->seq = db_int(s, 3);
    if (db_int(s, 8) == 0)
        return db_bad_row(o->db, "status", out->key, e);
    snprintf(out->uid, sizeof(out->uid), "%s", db_text(s, 1));
    out->generation = db_int(s, 2);
    out->at_us = db_int(s, 4);
    out->hash = (uint64_t)db_int(s, 5);
    out->pending = db_int(s, 6) != 0 && !outbox_is_acked(o, out->seq);
    const void *json = db_blob(s, 7, &n);
    buf_reset(&out->json);
    return buf_add(&out->json, json, n, e);
}

// 1 with a row in *out, 0 without, < 0.
static int take(struct outbox *o, struct db_stmt *s, struct status_slot *out, struct err *e)
{
    int r = db_step(s, e);
    if (r != 1)
        return r;
    r = fill(o, s, out, e);
    db_done(s);
    return r == 0 ? 1 : r;
}

int outbox_status_get(struct outbox *o, const char *key, struct status_slot *out, struct err *e)
{
    struct db_stmt *s = db_stmt(o->db, "SELECT " STATUS_COLUMNS " FROM status WHERE key=?1");
    db_bind_text(s, 1, key);
    int r = take(o, s, out, e);
    return r == 0 ? err_set(e, E_NOTFOUND, "no status of %s", key) : MIN(r, 0);
}

// The next pending slot after out->seq; damaged ones go. 1, 0 or < 0.
static int next_pending(struct outbox *o, struct status_slot *out, struct err *e)
{
    for (int64_t after = out->seq;;) {
        struct err why = ERR_INIT;
        struct db_stmt *s = db_stmt(o->db, "SELECT " STATUS_COLUMNS " FROM status WHERE pending AND seq>?1 ORDER BY seq LIMIT 1");
        db_bind_int(s, 1, after);
        int r = take(o, s, out, &why);
        bool damaged = r == E_CORRUPT && out->seq > after;
        if (damaged) {
            o->status_dropped++;
            r = outbox_status_delete(o, out->key, &why);
        } else if (r == 1 && out->pending) {
            return 1;
        }
        if (r < 0 && e != NULL)
            *e = why;
        if (r < 0 || (r == 0 && !damaged))
            return r;
        after = out->seq;
    }
}

int outbox_status_pending(struct outbox *o, int64_t after_seq, int max, int (*fn)(void *ctx, const struct status_slot *s), void *ctx, struct err *e)
{
    struct status_slot slot AUTO_SLOT = STATUS_SLOT_INIT;
    slot.seq = after_seq;
    for (int i = 0; i < max; i++) {
        int r = next_pending(o, &slot, e);
        if (r == 1)
            r = fn(ctx, &slot);
        else
            return r;
        if (r != 0)
            return r;
    }
    return 0;
}

int outbox_status_oldest(struct outbox *o, int64_t *us, struct err *e)
{
    struct status_slot slot AUTO_SLOT = STATUS_SLOT_INIT;
    int r = o->status_pending > 0 ? next_pending(o, &slot, e) : 0;
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
    struct db_stmt *s = db_stmt(o->db, "SELECT seq,pending,uid=?2 AND hash=?3,crc=" STATUS_CRC " FROM status WHERE key=?1");
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
    struct db_stmt *s = db_stmt(o->db, "INSERT INTO status(key,uid,generation,seq,boot,boot_ms,wall_us,trusted,hash,pending,json,crc)"
                                       " VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,1,?10,row_crc('status',?1,?2,?3,?4,?5,?6,?7,?8,?9,1,?10))"
                                       " ON CONFLICT(key) DO UPDATE SET uid=excluded.uid,generation=excluded.generation,seq=excluded.seq,"
                                       "boot=excluded.boot,boot_ms=excluded.boot_ms,wall_us=excluded.wall_us,trusted=excluded.trusted,"
                                       "hash=excluded.hash,pending=1,json=excluded.json,crc=excluded.crc");
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
    int r = db_run(s, e);
    o->next_seq += r == 0;
    return r;
}

int outbox_status_put(struct outbox *o, const char *key, const char *uid, int64_t generation, const char *json, size_t len, uint64_t hash,
                      struct err *e)
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
    if (r != 0)
        return r;
    o->status_pending += !k.pending;
    return 1;
}

int outbox_status_delete(struct outbox *o, const char *key, struct err *e)
{
    struct known k;
    int r = outbox_recount(o, e);
    if (r == 0)
        r = look_up(o, key, "", 0, &k, e);
    if (r == 0 && k.there)
        r = outbox_keep_seq(o, k.seq, e);
    if (r != 0 || !k.there)
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
    if (r != 0 || k.pending)
        return r;
    struct db_stmt *s = db_stmt(o->db, "UPDATE status SET pending=1,seq=?2,crc=row_crc('status',key,uid,generation,?2,boot,boot_ms,wall_us,trusted,hash,1,json)"
                                       " WHERE key=?1 AND crc=" STATUS_CRC);
    db_bind_text(s, 1, key);
    db_bind_int(s, 2, o->next_seq);
    r = db_run(s, e);
    if (r != 0)
        return r;
    if (db_changes(o->db) == 0) // damaged: its checksum must not be made right
        return db_bad_row(o->db, "status", key, e);
    o->next_seq++;
    o->status_pending++;
    return 0;
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
    s = db_stmt(o->db, "UPDATE status SET wall_us=boot_ms*1000+?2,trusted=1,"
                       "crc=row_crc('status',key,uid,generation,seq,boot,boot_ms,boot_ms*1000+?2,1,hash,pending,json)"
                       " WHERE boot=?1 AND NOT trusted AND crc=" STATUS_CRC);
    db_bind_int(s, 1, outbox_boot_hash(boot_id));
    db_bind_int(s, 2, wall_minus_boot_us);
    return db_run(s, e);
}
