// SPDX-License-Identifier: Apache-2.0
// Which events a full ring lets go of: those that the server has, then the oldest of the type that goes first by the policies, then the oldest.
//
// Two looks at the ring are compared, one commit apart or more: of what was there at both, nothing may be what had to go before something that
// went. Rings of many events are not looked at; they never are full here.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "data/db.h"
#include "data/outbox.h"
#include "sim_world.h"

static bool read_ring(struct world *w, struct ring *out)
{
    AS_AGENT;
    struct outbox_stats st;
    struct db_stmt *s = db_stmt(w->agent->db, "SELECT seq,warning,pending FROM event ORDER BY seq LIMIT 101");
    int rc;
    out->n = 0;
    while ((rc = db_step(s, NULL)) == 1 && out->n < RING_MAX)
        out->at[out->n++] = (struct ring_event){ db_int(s, 0), db_int(s, 1) != 0, db_int(s, 2) != 0 };
    if (rc == 1)
        db_done(s);
    if (rc != 0 || outbox_stats(w->agent->outbox, &st, NULL) < 0)
        return false;
    out->dropped = st.events_dropped;
    return true;
}

static bool is_in(const struct ring *r, int64_t seq)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->at[i].seq == seq)
            return true;
    return false;
}

// The less, the sooner it goes.
static int rank(const struct ring_event *ev, int kind)
{
    if (!ev->waits)
        return 0;
    return kind == OUTBOX_SHED_OLDEST || ev->warning == (kind == OUTBOX_SHED_WARNING) ? 1 : 2;
}

static bool goes_before(const struct ring_event *a, const struct ring_event *b, int kind)
{
    int ra = rank(a, kind), rb = rank(b, kind);
    return ra != rb ? ra < rb : a->seq < b->seq;
}

static bool is_on_server(struct world *w, int64_t seq)
{
    list_each(it, &w->witness.promises) {
        const struct promise *p = container_of(it, struct promise, link);
        if (p->seq == seq && (p->kept || sim_server_find(&w->server, "events", p->name) != NULL))
            return true;
    }
    return false;
}

static void check_gone(struct world *w, const struct ring *before, const struct ring *now, const struct ring_event *gone)
{
    for (size_t i = 0; i < before->n; i++) {
        const struct ring_event *stays = &before->at[i];
        if (is_in(now, stays->seq) && goes_before(stays, gone, now->kind))
            sim_violation(&w->sim, "event %" PRId64 " (%s) is let go of, and %" PRId64 " (%s), which has to go before it, stays", gone->seq,
                          gone->warning ? "Warning" : "Normal", stays->seq, stays->warning ? "Warning" : "Normal");
    }
}

// What the server refused for good goes, too: that look is passed over.
void shed_look(struct world *w)
{
    struct ring now = { 0 }, *before = &w->witness.ring;
    now.valid = read_ring(w, &now);
    now.kind = policies_shed(w);
    now.life = w->lives;
    bool comparable = before->valid && now.valid && before->kind == now.kind && now.kind >= 0 && !w->witness.store_rots &&
                      (before->life == now.life ? before->dropped == now.dropped : now.dropped == 0);
    for (size_t i = 0; comparable && i < before->n; i++) {
        const struct ring_event *ev = &before->at[i];
        if (ev->waits && !is_in(&now, ev->seq) && !is_on_server(w, ev->seq))
            check_gone(w, before, &now, ev);
    }
    *before = now;
}
