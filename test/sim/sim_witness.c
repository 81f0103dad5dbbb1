// SPDX-License-Identifier: Apache-2.0
// What the agent promised, and what the server took.
//
// After each turn that committed, the outbox is read: an event in it is promised to the server from then on, whatever dies; a status in it
// gets its place in the order of what may be reported.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "data/db.h"
#include "data/key.h"
#include "sim_world.h"

enum { TIME_SLACK_US = 15 * 1000 * 1000 };

// --- Reading the outbox

// A clock that lied may be wrong and trusted for long; what it says while it is right stays right.
static bool is_right_now(struct world *w)
{
    int64_t off_us = clock_wall_us(&w->clock.clock) - sim_true_us(&w->sim);
    return off_us < TIME_SLACK_US && off_us > -TIME_SLACK_US;
}

static void promise(struct world *w, int64_t seq, const char *name, const char *reason)
{
    AS_WORLD;
    struct promise *p = calloc(1, sizeof(*p));
    if (p == NULL)
        abort();
    p->seq = seq;
    snprintf(p->name, sizeof(p->name), "%.*s", SIM_NAME_MAX - 1, name);
    p->offline = strcmp(reason, "Offline") == 0;
    p->online = strcmp(reason, "Online") == 0;
    p->after_us = p->offline ? w->witness.life_us : w->witness.seen_us; // an outage is told with the time of its beginning
    p->at_us = sim_true_us(&w->sim);
    p->boot = w->clock.boots;
    p->trusted = clock_trusted(&w->clock.clock) && (!w->clock.lied || is_right_now(w));
    list_add_tail(&w->witness.promises, &p->link);
}

// Only a disk that fails excuses it, and some time after that. Then it is read when it can be.
static void unreadable(struct world *w, const struct err *e)
{
    enum { REPAIR_MS = MINUTE };
    if (w->disk.error_permille > 0 || w->disk.full || w->witness.readable_ms == 0)
        w->witness.readable_ms = w->sim.now_ms;
    if (w->sim.now_ms - w->witness.readable_ms > REPAIR_MS)
        sim_violation(&w->sim, "the outbox cannot be read: %s", e->msg);
    w->witness.commits = UINT64_MAX;
}

// Past the outbox, which does things of its own with an event that it has shown to somebody.
static void read_events(struct world *w)
{
    AS_AGENT;
    struct err e = ERR_INIT;
    struct db_stmt *s = db_stmt(w->agent->db, "SELECT seq,name,reason FROM event WHERE seq>?1 ORDER BY seq");
    int rc;
    db_bind_int(s, 1, w->witness.last_seq);
    while ((rc = db_step(s, &e)) == 1) {
        w->witness.last_seq = db_int(s, 0);
        promise(w, w->witness.last_seq, db_text(s, 1), db_text(s, 2));
    }
    if (rc < 0)
        unreadable(w, &e);
}

static struct version *last_version(struct world *w, const char *key)
{
    for (struct list *it = w->witness.versions.prev; it != &w->witness.versions; it = it->prev)
        if (strcmp(container_of(it, struct version, link)->key, key) == 0)
            return container_of(it, struct version, link);
    return NULL;
}

static void add_version(struct world *w, const char *key, const struct status_slot *slot)
{
    AS_WORLD;
    int64_t generation = 0;
    struct json *status AUTO_JSON = NULL;
    struct version *v = calloc(1, sizeof(*v));
    if (v == NULL)
        abort();
    snprintf(v->key, sizeof(v->key), "%.199s", key);
    snprintf(v->uid, sizeof(v->uid), "%s", slot->uid);
    v->seq = slot->seq;
    list_add_tail(&w->witness.versions, &v->link);
    if (json_parse(&status, buf_str(&slot->json), slot->json.len, NULL) < 0)
        return;
    v->hash = json_hash(status);
    v->let_through = json_i64(json_get(status, "observedGeneration"), &generation) && gate_let_through(w, key, v->uid, generation);
    if (strncmp(key, "edgejobs/", 9) == 0)
        rules_job_told(w, key, status);
}

// Can the status of an object that the store has now have been committed? Not when it was not there at the last look and nothing was since.
bool witness_may_have(struct world *w, const char *key, int64_t seq)
{
    struct db_stats s;
    db_stats(w->agent->db, &s);
    if (s.commits != w->witness.commits)
        return true;
    list_each(it, &w->witness.versions) {
        const struct version *v = container_of(it, struct version, link);
        if (v->seq == seq && strcmp(v->key, key) == 0)
            return true;
    }
    return false;
}

// (What is read here fills the agent's page cache, so it is the agent's.)
static void read_status(struct world *w, const struct sim_object *o)
{
    AS_AGENT;
    char key[KEY_MAX];
    struct status_slot slot AUTO_SLOT = STATUS_SLOT_INIT;
    snprintf(key, sizeof(key), "%s/%s/%s", o->type->plural, o->ns, o->name);
    struct version *last = last_version(w, key);
    if (outbox_status_get(w->agent->outbox, key, &slot, NULL) < 0 || (last != NULL && last->seq == slot.seq))
        return;
    add_version(w, key, &slot);
}

static bool is_ours(const struct sim_object *o)
{
    return strcmp(o->type->group, "edge.limpet.dev") == 0;
}

static void read_statuses(struct world *w)
{
    sim_each_object(o, &w->server) if (is_ours(o)) read_status(w, o);
}

// Of the agent that lives.
static void look_for_losses(struct world *w)
{
    struct db_stats st;
    db_stats(w->agent->db, &st);
    const struct db_salvage *s = db_salvaged(w->agent->db);
    uint64_t lost = (uint64_t)(s->rows_lost + s->times) + st.rows_bad_crc;
    if (lost != w->witness.salvaged && lost > 0)
        w->witness.rot_ms = w->sim.now_ms;
    w->witness.salvaged = lost;
}

static void look_into_outbox(struct world *w, uint64_t commits)
{
    w->witness.commits = commits;
    w->witness.committed_ms = w->sim.now_ms;
    w->witness.failures = w->agent->commit_failures;
    if (!w->witness.store_rots && db_salvaged(w->agent->db)->rows_lost > 0)
        witness_store_rots(w);
    look_for_losses(w);
    w->disk.calm = true;
    w->witness.readable_ms = 0;
    read_events(w);
    shed_look(w);
    read_statuses(w);
    check_bounds(w);
    w->disk.calm = false;
}

// Nothing is put into the outbox between the turn's last commit and its end.
void witness_turn(struct world *w)
{
    struct db_stats s;
    if (w->agent == NULL)
        return;
    db_stats(w->agent->db, &s);
    if (s.commits != w->witness.commits)
        look_into_outbox(w, s.commits);
    if (w->witness.readable_ms != 0 || w->witness.failures != w->agent->commit_failures)
        return;
    w->witness.seen_us = sim_true_us(&w->sim);
    w->witness.life_us = w->life_us;
}

// It may have committed and even sent something in its last turn. What it promised in it shows when the store is opened again.
void witness_agent_dies(struct world *w)
{
    w->disk.calm = true;
    if (w->agent != NULL)
        read_statuses(w);
    w->disk.calm = false;
}

void witness_store_rots(struct world *w)
{
    w->witness.store_rots = true;
    w->witness.rot_ms = w->sim.now_ms;
    check_forget_paths(w);
    policies_doubtful(w);
}

// Behind damage in its log a row goes with the next opening, however late it was written. A log that could not be written back may lose its
// end with each loss of power.
bool witness_may_lack(struct world *w, int64_t since_ms)
{
    return w->witness.store_rots && (w->witness.rot_unread || since_ms <= w->witness.rot_ms);
}

// What was damaged shows when it is read again. SQLite takes a log up to the first frame that is not as it was written, and goes back to there.
void witness_store_opens(struct world *w)
{
    if (w->witness.rot_unread)
        witness_store_rots(w);
    w->store_went_back |= w->witness.log_rots;
    w->witness.rot_unread = w->witness.log_rots = false;
}

void witness_store_lost(struct world *w)
{
    w->rules.jobs_forgotten = true;
    policies_doubtful(w);
    w->witness.last_seq = 0;
    w->witness.ring.valid = false;
    list_each_safe(it, next, &w->witness.versions) {
        list_del(it);
        free(container_of(it, struct version, link));
    }
    list_each_safe(it, next, &w->witness.promises) {
        if (container_of(it, struct promise, link)->kept)
            continue;
        list_del(it);
        free(container_of(it, struct promise, link));
    }
    sim_each_object(o, &w->server) o->accepted_seq = 0;
}

// --- What the server takes

// The newest one that says this; NULL = none does.
static const struct version *version_of(struct world *w, const struct sim_object *o, uint64_t hash)
{
    const struct version *newest = NULL;
    list_each(it, &w->witness.versions) {
        const struct version *v = container_of(it, struct version, link);
        if (v->hash == hash && strcmp(v->uid, o->uid) == 0 && (newest == NULL || v->seq > newest->seq))
            newest = v;
    }
    return newest;
}

// A commit that failed may have reached the log all the same: it counts when the store is opened anew, and no turn says so.
static const struct version *version_in_store(struct world *w, const struct sim_object *o, uint64_t hash)
{
    if (w->agent == NULL)
        return NULL;
    w->disk.calm = true;
    read_status(w, o);
    w->disk.calm = false;
    return version_of(w, o, hash);
}

static void on_accepted(void *ctx, struct sim_object *o)
{
    struct world *w = ctx;
    uint64_t hash = json_hash(o->applied);
    int64_t generation = 0;
    const struct version *v = version_of(w, o, hash);
    if (v == NULL)
        v = version_in_store(w, o, hash);
    int64_t seq = v != NULL ? v->seq : -1;
    (void)!json_i64(json_get(o->applied, "observedGeneration"), &generation);
    if (seq < 0 && !w->witness.store_rots)
        sim_violation(&w->sim, "a status of %s/%s that was never committed, or that speaks of another uid, was sent", o->type->plural,
                      o->name);
    if (w->witness.store_rots)
        sim_note(&w->sim, "server", "a status of %s/%s from a store that rots", o->type->plural, o->name);
    else if (v == NULL || seq < o->accepted_seq || (generation < o->accepted_generation && !v->let_through))
        sim_violation(&w->sim, "an older status of %s/%s was taken after a newer one (generation %" PRId64 " after %" PRId64 ")",
                      o->type->plural, o->name, generation, o->accepted_generation);
    if (hash == o->accepted_hash)
        sim_note(&w->sim, "server", "the same status of %s/%s again", o->type->plural, o->name);
    o->accepted_seq = seq;
    o->accepted_generation = generation;
    o->accepted_hash = hash;
}

// --- Summing up

static const char *text(const struct sim_object *o, const char *path)
{
    const char *s = json_str(json_path(o->json, path));
    return s != NULL ? s : "";
}

static bool is_event(const struct sim_object *o)
{
    return strcmp(o->type->plural, "events") == 0;
}

static bool same_event(const struct sim_object *a, const struct sim_object *b)
{
    static const char *const paths[] = { "eventTime", "regarding.uid", "reason", "note" };
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        if (strcmp(text(a, paths[i]), text(b, paths[i])) != 0)
            return false;
    return true;
}

// A clock that stands still at its floor says the same of different moments.
static void look_for_twins(struct world *w)
{
    if (w->clock.lied)
        return;
    sim_each_object(a, &w->server)
    {
        if (!is_event(a))
            continue;
        for (struct list *it = a->link.next; it != &w->server.objects; it = it->next) {
            const struct sim_object *b = container_of(it, struct sim_object, link);
            if (is_event(b) && same_event(a, b))
                sim_violation(&w->sim, "one event is there twice: %s and %s (%s)", a->name, b->name, text(a, "reason"));
        }
    }
}

// The time of what happened must be right where the clock was trusted then, or later in the same boot. Agents that die in their turn, one
// after the other, may have committed it long before anybody saw it.
static void check_time(struct world *w, const struct promise *p, const struct sim_object *o)
{
    int64_t us = 0;
    if (!rfc3339_parse(text(o, "eventTime"), &us))
        return;
    if (strncmp(p->name, "job-", 4) == 0) // a run is told with the time of its end, which may lie before its agent's start
        return;
    int64_t wrong_us = us < p->after_us ? us - p->after_us : us > p->at_us ? us - p->at_us : 0;
    if (p->trusted && (wrong_us < -TIME_SLACK_US || wrong_us > TIME_SLACK_US))
        sim_violation(&w->sim, "event %s says %s, which is wrong by %" PRId64 " s", p->name, text(o, "eventTime"), wrong_us / 1000000);
}

static uint64_t missing(struct world *w, const struct promise **first)
{
    uint64_t n = 0;
    list_each(it, &w->witness.promises) {
        struct promise *p = container_of(it, struct promise, link);
        struct sim_object *o = sim_server_find(&w->server, "events", p->name);
        if (o != NULL && !p->kept)
            check_time(w, p, o);
        p->kept = p->kept || o != NULL;
        if (p->kept)
            continue;
        *first = n == 0 ? p : *first;
        n++;
    }
    return n;
}

// The server is reached now, so each outage that was told has its end.
static void check_outages(struct world *w, const struct outbox_stats *s)
{
    int begun = 0, over = 0;
    list_each(it, &w->witness.promises) {
        begun += container_of(it, struct promise, link)->offline;
        over += container_of(it, struct promise, link)->online;
    }
    if (begun != over && s->events_lost + s->events_dropped == 0 && !w->witness.store_rots && !w->rules.jobs_forgotten)
        sim_violation(&w->sim, "%d times Offline was told, and %d times Online", begun, over);
}

void witness_sums_up(struct world *w)
{
    struct outbox_stats s;
    struct err e = ERR_INIT;
    const struct promise *first = NULL;
    if (outbox_stats(w->agent->outbox, &s, &e) < 0) {
        sim_violation(&w->sim, "the outbox cannot be read: %s", e.msg);
        return;
    }
    uint64_t n = missing(w, &first);
    if (n > (uint64_t)(s.events_lost + s.events_dropped) && !w->witness.store_rots)
        sim_violation(&w->sim, "%" PRIu64 " events never arrived, %" PRId64 " are owned up to; the first is %s", n,
                      s.events_lost + s.events_dropped, first->name);
    look_for_twins(w);
    check_outages(w, &s);
}

void witness_init(struct world *w)
{
    list_init(&w->witness.promises);
    list_init(&w->witness.versions);
    w->server.accepted = on_accepted;
    w->server.ctx = w;
}

void witness_fini(struct world *w)
{
    list_each_safe(it, next, &w->witness.promises)
        free(container_of(it, struct promise, link));
    list_each_safe(it, next, &w->witness.versions)
        free(container_of(it, struct version, link));
}
