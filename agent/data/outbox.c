// SPDX-License-Identifier: Apache-2.0
// What statuses and events have in common: the sequence, acknowledgements that wait, counts.
#include "data/outbox.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "data/outbox_priv.h"

// --- Acknowledgements

bool outbox_is_acked(const struct outbox *o, int64_t seq)
{
    for (size_t i = 0; i < o->n_acks; i++)
        if (o->acks[i].seq == seq)
            return true;
    return false;
}

static void drop_written(struct outbox *o)
{
    size_t kept = 0;
    for (size_t i = 0; i < o->n_acks; i++)
        if (!o->acks[i].written)
            o->acks[kept++] = o->acks[i];
    o->n_acks = kept;
}

static int write_ack(struct outbox *o, struct ack *a, struct err *e)
{
    struct db_stmt *s = db_stmt(o->db, "DELETE FROM unsent WHERE seq=?1");
    db_bind_int(s, 1, a->seq);
    int r = db_run(s, e);
    if (r == 0 && db_changes(o->db) == 0) {
        s = db_stmt(
            o->db,
            "UPDATE event SET pending=0,crc=row_crc('event',seq,name,key,uid,kind,api_version,ns,obj_name,warning,reason,action,note,count,"
            "first_boot,first_ms,first_us,first_trusted,last_boot,last_ms,last_us,last_trusted,0,fold)"
            " WHERE seq=?1");
        db_bind_int(s, 1, a->seq);
        r = db_run(s, e);
    }
    a->written = r == 0;
    return r;
}

int outbox_write_acks(struct outbox *o, struct err *e)
{
    int r = 0;
    for (size_t i = 0; i < o->n_acks && r == 0; i++)
        if (!o->acks[i].written)
            r = write_ack(o, &o->acks[i], e);
    return r;
}

// At the bound all are written now, with the transaction that this opens. If that fails they are forgotten: the server is told again.
void outbox_ack(struct outbox *o, int64_t seq)
{
    o->acked++;
    if (o->n_acks == ACKS_MAX) {
        if (outbox_write_acks(o, NULL) != 0) {
            o->stale = true;
            o->none_pending_to = 0;
        }
        o->n_acks = 0;
    }
    o->acks[o->n_acks++] = (struct ack){ .seq = seq };
    db_lazy_add(o->db, &o->lazy);
}

// --- The transaction

static int write_lost(struct outbox *o, struct err *e)
{
    char text[24];
    if (!o->lost_changed)
        return 0;
    snprintf(text, sizeof(text), "%" PRId64, o->lost);
    o->lost_changed = false;
    return db_meta_set(o->db, "outbox_lost", text, e);
}

static void on_lazy(struct db_lazy *l)
{
    struct outbox *o = container_of(l, struct outbox, lazy);
    if (outbox_write_acks(o, NULL) == 0)
        (void)!write_lost(o, NULL); // a failure is the transaction's
}

void outbox_count_lost(struct outbox *o, int64_t n)
{
    if (n <= 0)
        return;
    o->lost += n;
    o->lost_changed = true;
    // In the transaction that removes the rows: a crash must not leave them gone and uncounted.
    if (!db_dirty(o->db) || write_lost(o, NULL) != 0)
        db_lazy_add(o->db, &o->lazy);
}

static void on_ended(struct db_hook *h, int cls)
{
    struct outbox *o = container_of(h, struct outbox, hook);
    int64_t events = o->uncommitted;
    o->uncommitted = 0;
    if (cls == 0) {
        o->gone = 0;
        drop_written(o);
        return;
    }
    for (size_t i = 0; i < o->n_acks; i++)
        o->acks[i].written = false;
    o->stale = true;
    o->none_pending_to = 0;
    o->shed = o->shed || cls == E_NOSPC;
    o->lost += events - o->gone; // what had made room is back
    o->gone = 0;
    o->lost_changed = o->lost_changed || o->lost > 0;
    if (o->n_acks > 0 || o->lost_changed)
        db_lazy_add(o->db, &o->lazy);
}

// --- Counting

int outbox_query(struct outbox *o, const char *sql, int64_t *v, struct err *e)
{
    struct db_stmt *s = db_stmt(o->db, sql);
    int r = db_step(s, e);
    if (r != 1)
        return r == 0 ? err_set(e, E_NOTFOUND, "store: nothing to count") : r;
    *v = db_int(s, 0);
    db_done(s);
    return 0;
}

// Acknowledgements that the tables do not know of.
static int subtract_acks(struct outbox *o, struct err *e)
{
    for (size_t i = 0; i < o->n_acks; i++) {
        struct db_stmt *s =
            db_stmt(o->db, "SELECT (SELECT count(*) FROM unsent WHERE seq=?1),(SELECT count(*) FROM event WHERE pending AND seq=?1)");
        db_bind_int(s, 1, o->acks[i].seq);
        int r = db_step(s, e);
        if (r < 0)
            return r;
        o->status_pending -= db_int(s, 0);
        o->events_pending -= db_int(s, 1);
        db_done(s);
    }
    return 0;
}

// What is in `unsent` could be among what a salvage lost: then every status is told again, which the server takes without a change.
static int resend_after_salvage(struct outbox *o, struct err *e)
{
    const struct db_salvage *s = db_salvaged(o->db);
    if (!s->happened || strcmp(o->salvage, s->aside) == 0)
        return 0;
    int r = outbox_resend_all(o, e);
    if (r == 0)
        snprintf(o->salvage, sizeof(o->salvage), "%s", s->aside);
    return r;
}

int outbox_recount(struct outbox *o, struct err *e)
{
    if (!o->stale)
        return 0;
    int r = resend_after_salvage(o, e);
    if (r == 0)
        r = outbox_query(o, "SELECT count(*) FROM unsent", &o->status_pending, e);
    if (r == 0)
        r = outbox_query(o, "SELECT count(*) FROM event WHERE pending", &o->events_pending, e);
    if (r == 0)
        r = outbox_query(o, "SELECT count(*) FROM event", &o->events_total, e);
    if (r == 0)
        r = subtract_acks(o, e);
    o->stale = r != 0;
    return r;
}

int64_t outbox_boot_hash(const char *boot_id)
{
    return (int64_t)hash_bytes(HASH_SEED, boot_id, strlen(boot_id));
}

static int read_number(struct outbox *o, const char *name, int64_t *out, struct err *e)
{
    char text[24];
    struct err why = ERR_INIT;
    int r = db_meta_get(o->db, name, text, sizeof(text), &why);
    if (r == 0 && num_i64(text, 0, INT64_MAX, out, NULL) == 0)
        return 0;
    *out = 0;
    if (r == 0 || r == E_NOTFOUND || r == E_CORRUPT) // a damaged count is no reason not to start
        return 0;
    if (e != NULL)
        *e = why;
    return r;
}

int outbox_keep_seq(struct outbox *o, int64_t seq, struct err *e)
{
    char text[24];
    if (seq != o->next_seq - 1)
        return 0;
    snprintf(text, sizeof(text), "%" PRId64, seq);
    return db_meta_set(o->db, "outbox_seq", text, e);
}

static int load(struct outbox *o, struct err *e)
{
    int64_t kept = 0, status = 0, event = 0;
    int r = read_number(o, "outbox_lost", &o->lost, e);
    if (r == 0)
        r = read_number(o, "outbox_seq", &kept, e);
    if (r == 0)
        r = outbox_query(o, "SELECT max(seq) FROM status", &status, e);
    if (r == 0)
        r = outbox_query(o, "SELECT max(seq) FROM event", &event, e);
    o->next_seq = MAX(kept, MAX(status, event)) + 1;
    o->stale = true;
    return r == 0 ? outbox_recount(o, e) : r;
}

// --- Opening

int outbox_open(struct outbox **out, struct db *db, struct clock *c, const struct outbox_conf *conf, struct err *e)
{
    struct outbox *o = calloc(1, sizeof(*o));
    if (o == NULL)
        return err_set(e, E_NOMEM, "no memory for the outbox");
    o->db = db;
    o->clock = c;
    o->max_events = conf->max_events > 0 ? conf->max_events : EVENTS_DEFAULT;
    o->hook.ended = on_ended;
    o->lazy.fn = on_lazy;
    int r = load(o, e);
    if (r != 0) {
        free(o);
        return r;
    }
    db_hook_add(db, &o->hook);
    *out = o;
    return 0;
}

// What waits goes into the transaction that closing the db commits.
void outbox_close(struct outbox *o)
{
    if (o == NULL)
        return;
    if (list_linked(&o->lazy.link))
        on_lazy(&o->lazy);
    db_lazy_del(&o->lazy);
    db_hook_del(&o->hook);
    free(o);
}

// --- Both

int outbox_clock_corrected(struct outbox *o, const char *boot_id, int64_t wall_minus_boot_us, struct err *e)
{
    int r = outbox_status_corrected(o, boot_id, wall_minus_boot_us, e);
    return r == 0 ? outbox_events_corrected(o, boot_id, wall_minus_boot_us, e) : r;
}

int outbox_stats(struct outbox *o, struct outbox_stats *out, struct err *e)
{
    int64_t status_us = 0, event_us = 0;
    int r = outbox_recount(o, e);
    if (r == 0)
        r = outbox_status_oldest(o, &status_us, e);
    if (r == 0)
        r = outbox_events_oldest(o, &event_us, e);
    if (r != 0)
        return r;
    bool both = status_us != 0 && event_us != 0;
    *out = (struct outbox_stats){
        .status_pending = o->status_pending,
        .events_pending = o->events_pending,
        .events_lost = o->lost,
        .events_dropped = o->dropped,
        .status_dropped = o->status_dropped,
        .acked = o->acked,
        .oldest_us = both ? MIN(status_us, event_us) : MAX(status_us, event_us),
    };
    return 0;
}
