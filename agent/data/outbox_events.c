// SPDX-License-Identifier: Apache-2.0
// Events: a ring in the order they happened.
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "data/outbox_priv.h"

// The columns in their order, around those that an update changes.
#define HEAD "seq,name,key,uid,kind,api_version,ns,obj_name,warning,reason,action,note,"
#define FIRST "first_boot,first_ms,first_us,first_trusted,"
#define LAST "last_boot,last_ms,last_us,last_trusted,"
#define EVENT_CRC "row_crc('event'," HEAD "count," FIRST LAST "pending,fold)"
#define EVENT_COLUMNS HEAD "count," FIRST LAST "pending,crc=" EVENT_CRC

// --- Reading

static void text(struct db_stmt *s, int col, char *out, size_t max)
{
    snprintf(out, max, "%s", db_text(s, col));
}

static void instant(struct db_stmt *s, int col, struct instant *out)
{
    text(s, col, out->boot_id, sizeof(out->boot_id));
    out->boot_ms = db_int(s, col + 1);
    out->wall_us = db_int(s, col + 2);
    out->trusted = db_int(s, col + 3) != 0;
}

static int fill(struct outbox *o, struct db_stmt *s, struct event_row *out, struct err *e)
{
    out->seq = db_int(s, 0);
    out->pending = db_int(s, 21) != 0 && !outbox_is_acked(o, out->seq);
    if (db_int(s, 22) == 0)
        return db_bad_row(o->db, "event", db_text(s, 2), e);
    text(s, 1, out->name, sizeof(out->name));
    text(s, 2, out->key, sizeof(out->key));
    text(s, 3, out->uid, sizeof(out->uid));
    text(s, 4, out->kind, sizeof(out->kind));
    text(s, 5, out->api_version, sizeof(out->api_version));
    text(s, 6, out->ns, sizeof(out->ns));
    text(s, 7, out->obj_name, sizeof(out->obj_name));
    out->warning = db_int(s, 8) != 0;
    text(s, 9, out->reason, sizeof(out->reason));
    text(s, 10, out->action, sizeof(out->action));
    text(s, 11, out->note, sizeof(out->note));
    out->count = db_int(s, 12);
    instant(s, 13, &out->first);
    instant(s, 17, &out->last);
    return 0;
}

// One event goes.
static int remove_event(struct outbox *o, int64_t seq, bool pending, struct err *e)
{
    int r = outbox_keep_seq(o, seq, e);
    if (r != 0)
        return r;
    struct db_stmt *s = db_stmt(o->db, "DELETE FROM event WHERE seq=?1");
    db_bind_int(s, 1, seq);
    r = db_run(s, e);
    if (r == 0) {
        o->events_total--;
        o->events_pending -= pending;
    }
    return r;
}

static void count_gone(struct outbox *o, bool pending)
{
    o->gone += pending;
    outbox_count_lost(o, pending);
}

static int drop_damaged(struct outbox *o, const struct event_row *ev, struct err *e)
{
    int r = outbox_recount(o, e);
    if (r == 0)
        r = remove_event(o, ev->seq, ev->pending, e);
    if (r == 0)
        count_gone(o, ev->pending);
    return r;
}

// The first row after ev->seq. 1, 0 at the end, E_CORRUPT with ev->seq moved on for a damaged row.
static int read_after(struct outbox *o, struct event_row *ev, bool pending_only, struct err *e)
{
    struct db_stmt *s = db_stmt(o->db, "SELECT " EVENT_COLUMNS " FROM event WHERE seq>?1 AND (pending OR NOT ?2) ORDER BY seq LIMIT 1");
    db_bind_int(s, 1, ev->seq);
    db_bind_int(s, 2, pending_only);
    int r = db_step(s, e);
    if (r != 1)
        return r;
    r = fill(o, s, ev, e);
    db_done(s);
    return r == 0 ? 1 : r;
}

// Damaged rows go, acknowledged ones are passed over when only pending ones are wanted.
static int next(struct outbox *o, struct event_row *ev, bool pending_only, struct err *e)
{
    for (;;) {
        struct err why = ERR_INIT;
        int64_t before = ev->seq;
        int r = read_after(o, ev, pending_only, &why);
        bool damaged = r == E_CORRUPT && ev->seq > before;
        if (damaged)
            r = drop_damaged(o, ev, &why);
        else if (r == 1 && (ev->pending || !pending_only))
            return 1;
        if (r < 0 && e != NULL)
            *e = why;
        if (r < 0 || (r == 0 && !damaged))
            return r;
    }
}

// The first pending one after a seq; from the start, the search begins where the last one found something.
static int next_pending(struct outbox *o, struct event_row *ev, struct err *e)
{
    bool from_start = ev->seq < o->none_pending_to;
    if (from_start)
        ev->seq = o->none_pending_to;
    int r = next(o, ev, true, e);
    if (from_start && r == 1)
        o->none_pending_to = ev->seq - 1;
    return r;
}

int outbox_events(struct outbox *o, int64_t after_seq, int max, bool pending_only, int (*fn)(void *ctx, const struct event_row *ev),
                  void *ctx, struct err *e)
{
    struct event_row ev = { .seq = after_seq };
    int r = outbox_recount(o, e);
    if (r != 0 || (pending_only && o->events_pending == 0))
        return r;
    for (int i = 0; i < max; i++) {
        r = pending_only ? next_pending(o, &ev, e) : next(o, &ev, false, e);
        if (r != 1)
            return r;
        o->handed_out = MAX(o->handed_out, ev.seq);
        r = fn(ctx, &ev);
        if (r != 0)
            return r;
    }
    return 0;
}

int outbox_events_oldest(struct outbox *o, int64_t *us, struct err *e)
{
    struct event_row ev = { 0 };
    int r = o->events_pending > 0 ? next_pending(o, &ev, e) : 0;
    *us = r == 1 ? ev.first.wall_us : 0;
    return MIN(r, 0);
}

// --- Making room

// ?1: NULL, or whether a warning is wanted. E_NOTFOUND.
static int oldest(struct outbox *o, const char *sql, const bool *warning, int64_t *seq, bool *pending, struct err *e)
{
    struct db_stmt *s = db_stmt(o->db, sql);
    if (warning != NULL)
        db_bind_int(s, 1, *warning);
    else
        db_bind_text(s, 1, NULL);
    int r = db_step(s, e);
    if (r != 1)
        return r == 0 ? E_NOTFOUND : r;
    *seq = db_int(s, 0);
    *pending = db_int(s, 1) != 0 && !outbox_is_acked(o, *seq);
    db_done(s);
    return 0;
}

#define OLDEST(which) "SELECT seq,pending FROM event WHERE " which " AND (?1 IS NULL OR warning=?1) ORDER BY seq LIMIT 1"

// The oldest that the server has goes; when it has none of them, the oldest of the type that goes first, or at all.
static int evict(struct outbox *o, struct err *e)
{
    int64_t seq = 0;
    bool pending = false;
    int r = E_NOTFOUND;
    if (o->events_total > o->events_pending) {
        r = outbox_write_acks(o, e); // we write anyway
        if (r == 0)
            r = oldest(o, OLDEST("NOT pending"), NULL, &seq, &pending, e);
    }
    if (r == E_NOTFOUND && o->shed_first != OUTBOX_SHED_OLDEST)
        r = oldest(o, OLDEST("1"), &(bool){ o->shed_first == OUTBOX_SHED_WARNING }, &seq, &pending, e);
    if (r == E_NOTFOUND)
        r = oldest(o, OLDEST("1"), NULL, &seq, &pending, e);
    if (r == 0)
        r = remove_event(o, seq, pending, e);
    if (r == 0)
        count_gone(o, pending);
    return r;
}

static int shed(struct outbox *o, struct err *e)
{
    int r = 0;
    for (int i = 0; i < SHED_EVENTS && o->events_total > 0 && r == 0; i++)
        r = evict(o, e);
    return r;
}

int outbox_make_room(struct outbox *o, int64_t bytes, struct err *e)
{
    int r = outbox_recount(o, e);
    if (r == 0 && o->shed) // the disk was full: what goes here is room in the file, which need not grow for the next writes
        r = shed(o, e);
    if (r == 0)
        o->shed = false;
    while (r == 0 && o->events_total > 0 && db_room(o->db) < bytes)
        r = shed(o, e);
    return r;
}

static int make_room_for_event(struct outbox *o, struct err *e)
{
    int r = outbox_make_room(o, EVENT_RESERVE, e);
    while (r == 0 && o->events_total >= o->max_events)
        r = evict(o, e);
    if (r == 0 && db_room(o->db) < EVENT_RESERVE)
        r = err_set(e, E_NOSPC, "store: no room for an event");
    return r;
}

int outbox_limits(struct outbox *o, int64_t max_events, enum outbox_shed first, struct err *e)
{
    int r = outbox_recount(o, e);
    o->max_events = max_events > 0 ? max_events : EVENTS_DEFAULT;
    o->shed_first = first;
    while (r == 0 && o->events_total > o->max_events)
        r = evict(o, e);
    return r;
}

// --- Adding

// What is stored of an event: its texts within their bounds.
struct draft {
    const struct event_in *in;
    char name[OBJ_NAME_MAX], reason[129], action[129], note[1025];
    int64_t fold;
    struct instant now;
};

static void cut(const char *from, char *out, size_t max)
{
    size_t n = strlen(from);
    if (n < max) {
        memcpy(out, from, n + 1);
        return;
    }
    n = utf8_cut(from, max - 4);
    memcpy(out, from, n);
    memcpy(out + n, "...", 4);
}

static uint64_t mix_text(uint64_t h, const char *s)
{
    return hash_bytes(h, s, strlen(s) + 1); // with its end, so that texts do not run into each other
}

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static uint64_t name_hash(const struct draft *d, int64_t seq)
{
    uint64_t h = mix_text(mix_text(HASH_SEED, d->in->uid), d->reason);
    if (d->in->id != NULL)
        return mix_text(h, d->in->id);
    h = mix_text(h, d->now.boot_id);
    h = hash_bytes(h, &seq, sizeof(seq));
    return hash_bytes(h, &d->now.boot_ms, sizeof(d->now.boot_ms)); // after a lost store the sequence begins anew in the same boot
}

// "<object>.<16 hex digits>", a name as Kubernetes takes it: lower case, digits and '-', a '.' only between two of them, an alphanumeric at
// both ends. An object's name is one already; whatever else it is becomes one.
static void make_name(struct draft *d, int64_t seq)
{
    enum { HEX = 17 };
    uint64_t h = name_hash(d, seq);
    size_t n = 0;
    for (const char *p = d->in->name; *p != '\0' && n < sizeof(d->name) - HEX - 1; p++) {
        char c = (char)tolower((unsigned char)*p);
        bool dot = c == '.' && n > 0 && is_alnum(d->name[n - 1]) && is_alnum((char)tolower((unsigned char)p[1]));
        if (is_alnum(c) || n > 0)
            d->name[n++] = is_alnum(c) || dot ? c : '-';
    }
    while (n > 0 && (d->name[n - 1] == '.' || d->name[n - 1] == '-'))
        n--;
    snprintf(d->name + n, sizeof(d->name) - n, "%s.%016" PRIx64, n > 0 ? "" : "limpet", h);
}

static void prepare(struct outbox *o, const struct event_in *in, struct draft *d)
{
    d->in = in;
    cut(in->reason, d->reason, sizeof(d->reason));
    cut(in->action, d->action, sizeof(d->action));
    cut(in->note, d->note, sizeof(d->note));
    if (in->at != NULL)
        d->now = *in->at;
    else
        clock_instant(o->clock, &d->now);
    make_name(d, o->next_seq);
    uint64_t h = mix_text(mix_text(mix_text(HASH_SEED, in->key), in->uid), d->reason);
    if (in->id != NULL)
        h = mix_text(h, in->id);
    d->fold = (int64_t)hash_bytes(mix_text(mix_text(h, d->action), d->note), &in->warning, sizeof(in->warning));
}

// The seq of a row that says the same and was not handed out; 0 = none.
static int find_same(struct outbox *o, const struct draft *d, int64_t *seq, struct err *e)
{
    struct db_stmt *s =
        db_stmt(o->db, "SELECT seq FROM event WHERE pending AND fold=?1 AND seq>?2 AND key=?3 AND uid=?4 AND reason=?5 AND action=?6"
                       " AND note=?7 AND crc=" EVENT_CRC " ORDER BY seq DESC LIMIT 1");
    db_bind_int(s, 1, d->fold);
    db_bind_int(s, 2, o->handed_out);
    db_bind_text(s, 3, d->in->key);
    db_bind_text(s, 4, d->in->uid);
    db_bind_text(s, 5, d->reason);
    db_bind_text(s, 6, d->action);
    db_bind_text(s, 7, d->note);
    int r = db_step(s, e);
    *seq = r == 1 ? db_int(s, 0) : 0;
    if (r == 1)
        db_done(s);
    return MIN(r, 0);
}

static void bind_instant(struct db_stmt *s, int pos, const struct instant *t)
{
    db_bind_text(s, pos, t->boot_id);
    db_bind_int(s, pos + 1, t->boot_ms);
    db_bind_int(s, pos + 2, t->wall_us);
    db_bind_int(s, pos + 3, t->trusted);
}

static int fold(struct outbox *o, const struct draft *d, int64_t seq, struct err *e)
{
    struct db_stmt *s = db_stmt(o->db, "UPDATE event SET count=count+1,last_boot=?2,last_ms=?3,last_us=?4,last_trusted=?5,"
                                       "crc=row_crc('event'," HEAD "count+1," FIRST "?2,?3,?4,?5,pending,fold) WHERE seq=?1");
    db_bind_int(s, 1, seq);
    bind_instant(s, 2, &d->now);
    return db_run(s, e);
}

static int insert(struct outbox *o, const struct draft *d, struct err *e)
{
    const struct event_in *in = d->in;
    struct db_stmt *s =
        db_stmt(o->db, "INSERT INTO event VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,1,?13,?14,?15,?16,?13,?14,?15,?16,?18,?17,"
                       "row_crc('event',?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,1,?13,?14,?15,?16,?13,?14,?15,?16,?18,?17))");
    db_bind_int(s, 1, o->next_seq);
    db_bind_text(s, 2, d->name);
    db_bind_text(s, 3, in->key);
    db_bind_text(s, 4, in->uid);
    db_bind_text(s, 5, in->kind);
    db_bind_text(s, 6, in->api_version);
    db_bind_text(s, 7, in->ns);
    db_bind_text(s, 8, in->name);
    db_bind_int(s, 9, in->warning);
    db_bind_text(s, 10, d->reason);
    db_bind_text(s, 11, d->action);
    db_bind_text(s, 12, d->note);
    bind_instant(s, 13, &d->now);
    db_bind_int(s, 17, d->fold);
    db_bind_int(s, 18, !in->local);
    int r = db_run(s, e);
    if (r == 0) {
        o->next_seq++;
        o->events_total++;
        o->events_pending += !in->local;
        o->uncommitted++;
    }
    return r;
}

static int add(struct outbox *o, const struct event_in *ev, struct err *e)
{
    struct draft d;
    int64_t same = 0;
    int r = outbox_recount(o, e);
    if (r != 0)
        return r;
    prepare(o, ev, &d);
    r = find_same(o, &d, &same, e);
    if (r != 0 || same != 0)
        return r != 0 ? r : fold(o, &d, same, e);
    r = make_room_for_event(o, e);
    return r == 0 ? insert(o, &d, e) : r;
}

static bool in_bounds(const struct event_in *ev)
{
    return strlen(ev->key) < KEY_MAX && strlen(ev->uid) < OBJ_UID_MAX && strlen(ev->kind) < OBJ_KIND_MAX && strlen(ev->api_version) < 128 &&
           strlen(ev->ns) < 64 && strlen(ev->name) < OBJ_NAME_MAX;
}

int outbox_event(struct outbox *o, const struct event_in *ev, struct err *e)
{
    if (!in_bounds(ev))
        return err_set(e, E_INVAL, "event about %.60s: a name in it is too long", ev->key);
    int r = add(o, ev, e);
    if (r != 0)
        outbox_count_lost(o, 1);
    return r;
}

// --- Answered

static int look_up(struct outbox *o, int64_t seq, bool *there, bool *pending, struct err *e)
{
    struct db_stmt *s = db_stmt(o->db, "SELECT pending FROM event WHERE seq=?1");
    db_bind_int(s, 1, seq);
    int r = db_step(s, e);
    *there = r == 1;
    *pending = r == 1 && db_int(s, 0) != 0 && !outbox_is_acked(o, seq);
    if (r == 1)
        db_done(s);
    return MIN(r, 0);
}

void outbox_event_ack(struct outbox *o, int64_t seq)
{
    bool there, pending;
    if (outbox_recount(o, NULL) != 0 || look_up(o, seq, &there, &pending, NULL) != 0 || !pending)
        return;
    o->events_pending--;
    outbox_ack(o, seq);
}

int outbox_event_drop(struct outbox *o, int64_t seq, struct err *e)
{
    bool there = false, pending = false;
    int r = outbox_recount(o, e);
    if (r == 0)
        r = look_up(o, seq, &there, &pending, e);
    if (r == 0 && there)
        r = remove_event(o, seq, pending, e);
    o->dropped += r == 0 && there;
    return r;
}

// --- Clock

int outbox_events_corrected(struct outbox *o, const char *boot_id, int64_t wall_minus_boot_us, struct err *e)
{
    struct db_stmt *s =
        db_stmt(o->db, "SELECT 1 FROM event WHERE (first_boot=?1 AND NOT first_trusted) OR (last_boot=?1 AND NOT last_trusted) LIMIT 1");
    db_bind_text(s, 1, boot_id);
    int r = db_step(s, e);
    if (r != 1)
        return r;
    db_done(s);
    s = db_stmt(o->db, "UPDATE event SET first_us=first_ms*1000+?2,first_trusted=1,"
                       "crc=row_crc('event'," HEAD "count,first_boot,first_ms,first_ms*1000+?2,1," LAST "pending,fold)"
                       " WHERE first_boot=?1 AND NOT first_trusted AND crc=" EVENT_CRC);
    db_bind_text(s, 1, boot_id);
    db_bind_int(s, 2, wall_minus_boot_us);
    r = db_run(s, e);
    if (r != 0)
        return r;
    s = db_stmt(o->db, "UPDATE event SET last_us=last_ms*1000+?2,last_trusted=1,"
                       "crc=row_crc('event'," HEAD "count," FIRST "last_boot,last_ms,last_ms*1000+?2,1,pending,fold)"
                       " WHERE last_boot=?1 AND NOT last_trusted AND crc=" EVENT_CRC);
    db_bind_text(s, 1, boot_id);
    db_bind_int(s, 2, wall_minus_boot_us);
    return db_run(s, e);
}
