// SPDX-License-Identifier: Apache-2.0
// One pass: what lies in the cache, what the kind makes of it, what follows for the queue.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "data/key.h"
#include "flow/action.h"
#include "flow/reconcile_priv.h"

enum { OBJECT_ACCEPT_MAX = 2000000, PASS_ARENA_MAX = 8 * 1024 * 1024, GONE_RETRY_MS = 1000, BUSY_RETRY_MS = 1000 };

// Jitter of +-10 % so that objects that became stable together do not stay together, then up to the next beat (10 s of 5 min), so that a
// thousand objects share a few wakeups.
static int64_t long_requeue(struct engine *g)
{
    int64_t d = g->conf.requeue_ms, beat = MAX(d / 30, (int64_t)1), now = loop_now(g->env->loop);
    int64_t at = now + d - d / 10 + clock_rand(g->env->clock, d / 5 + 1);
    return (at + beat - 1) / beat * beat - now;
}
struct work {
    struct engine *g;
    struct object_state *os;
    struct pass pass;
    struct cached row;
    struct status_slot slot;
    struct arena arena;
    struct json *object, *prev;
    struct key_parts parts;
    struct gate gate;
    int checked; // what the kind's check says of the newest version, and why
    struct err refused;
};

static void work_fini(struct work *w)
{
    status_free(w->pass.status);
    json_free(w->object);
    gate_fini(&w->gate);
    json_free(w->prev);
    cached_fini(&w->row);
    status_slot_fini(&w->slot);
    arena_reset(&w->arena);
    json_cap(0);
    log_set_trace(0);
}

static void work_init(struct work *w, struct engine *g, struct object_state *os)
{
    *w = (struct work){ .g = g, .os = os, .row = CACHED_INIT, .slot = STATUS_SLOT_INIT };
    arena_init(&w->arena, PASS_ARENA_MAX);
    w->pass =
        (struct pass){ .env = g->env, .kind = os->kind, .key = os->key, .state = os->data, .arena = &w->arena, .os = os, .why = os->why };
    log_set_trace(os->pass_id);
    json_cap(g->conf.pass_memory);
}

static void work_object(struct work *w, const struct cached *row)
{
    struct object_state *os = w->os;
    snprintf(os->uid, sizeof(os->uid), "%s", row->uid);
    os->generation = row->generation;
    os->local = cache_is_file(row->source);
    w->pass.uid = os->uid;
    w->pass.generation = row->generation;
}

static int work_load(struct work *w, struct err *e)
{
    int rc = key_split(w->os->key, &w->parts, e);
    if (rc < 0)
        return rc;
    w->pass.ns = w->parts.ns;
    w->pass.name = w->parts.name;
    rc = cache_get(w->g->env->cache, w->os->key, &w->row, e);
    if (rc < 0)
        return rc;
    work_object(w, &w->row);
    if (w->row.json.len > OBJECT_ACCEPT_MAX)
        return err_set(e, E_TOOBIG, "the object has %zu bytes; at most %d are taken", w->row.json.len, OBJECT_ACCEPT_MAX);
    rc = json_parse(&w->object, buf_str(&w->row.json), w->row.json.len, e);
    if (rc < 0)
        return err_wrap(e, "reading %s", w->os->key);
    w->pass.object = w->object;
    w->pass.spec = json_get(w->object, "spec");
    return 0;
}

// What waits for a window is not made true: the pass sees the version that was let through last. Only what is understood may wait.
static int work_gate(struct work *w, struct err *e)
{
    const struct kind *k = w->os->kind;
    w->checked = k->check != NULL ? k->check(k, w->g->env, w->object, &w->refused) : 0;
    if (w->checked < 0)
        return 0;
    int rc = gate_decide(w->g, &w->pass, buf_str(&w->row.json), &w->gate, e);
    if (rc < 0 || w->gate.verdict != GATE_WAIT)
        return rc;
    w->pass.object = w->gate.object;
    w->pass.spec = json_get(w->gate.object, "spec");
    w->pass.generation = w->gate.generation;
    return 0;
}

// The previous status gives the transition times; a damaged or foreign one (another uid) gives none.
static int work_status(struct work *w, struct err *e)
{
    const struct kind *k = w->os->kind;
    if (outbox_status_get(w->g->env->outbox, w->os->key, &w->slot, NULL) == 0 && strcmp(w->slot.uid, w->os->uid) == 0 &&
        json_parse(&w->prev, buf_str(&w->slot.json), w->slot.json.len, NULL) < 0)
        w->prev = NULL;
    if (!w->os->local && cache_is_file_uid(w->slot.uid)) { // it is the server's object again
        int rc = twin_forget(w->g, w->os->key, e);
        if (rc < 0)
            return rc;
    }
    return status_new(&w->pass.status, w->g->env->clock, w->prev, k->conditions, w->pass.generation, e);
}

// Of a namespace that all nodes share: nothing is written there.
static bool is_shared(const struct work *w)
{
    const char *shared = w->os->kind->shared_ns;
    return shared != NULL && strcmp(w->parts.ns, shared) == 0 && strcmp(w->parts.ns, w->g->env->ns) != 0;
}

// Most passes have nothing new to say; their status is not even printed. `slot` is empty when it could not be read.
static bool is_stored(const struct work *w, uint64_t hash)
{
    return w->slot.hash == hash && strcmp(w->slot.key, w->os->key) == 0 && strcmp(w->slot.uid, w->os->uid) == 0;
}

static int write_status(struct work *w, struct err *e)
{
    if (!w->os->kind->write_status || is_shared(w))
        return 0;
    struct buf text AUTO_BUF = BUF_INIT(256 * 1024);
    uint64_t hash;
    int rc = status_finish(w->pass.status, &hash, e);
    if (rc == 0 && is_stored(w, hash))
        return 0;
    if (rc == 0)
        rc = status_print(w->pass.status, &text, e);
    if (rc == 0)
        rc = (w->os->local ? outbox_status_keep : outbox_status_put)(w->g->env->outbox, w->os->key, w->os->uid, w->pass.generation,
                                                                     buf_str(&text), text.len, hash, e);
    if (rc < 0)
        return err_wrap(e, "status of %s", w->os->key);
    w->g->stats.status_writes += (uint64_t)rc;
    return 0;
}

static void status_from_error(struct work *w, const struct err *e)
{
    struct status *s = w->pass.status;
    const struct action_row *a = action_of(e->cls);
    if (!status_cond_is_set(s, "Ready"))
        status_cond(s, "Ready", COND_FALSE, a->reason, "%s", e->msg);
}

static void log_failure(const struct work *w, const struct err *e)
{
    if (action_of(e->cls)->warn)
        log_warn("engine", "pass-failed key=%s class=%s error=\"%s\"", w->os->key, err_word(e->cls), e->msg);
    else
        log_debug("engine", "pass-failed key=%s class=%s error=\"%s\"", w->os->key, err_word(e->cls), e->msg);
}

// The status speaks of the version that is made true; these two conditions speak of the one that waits.
static void report_waiting(struct work *w)
{
    struct status *s = w->pass.status;
    if (w->gate.verdict != GATE_WAIT) {
        status_cond_drop(s, "Waiting");
        return;
    }
    status_cond(s, "Waiting", COND_TRUE, "MaintenanceWindow", "generation %" PRId64 " waits: %s", w->os->generation, w->gate.why);
    status_cond_generation(s, "Waiting", w->os->generation);
    status_cond_generation(s, "Accepted", w->os->generation);
}

static int run_refused(struct work *w, struct err *e)
{
    struct pass *p = &w->pass;
    status_keep_prev(p->status);
    status_cond(p->status, "Accepted", COND_FALSE, action_of(w->checked)->reason, "%s", w->refused.msg);
    int rc = w->os->kind->refused != NULL ? w->os->kind->refused(p, e) : 0;
    if (rc < 0 || p->waiting || p->after_commit || p->requeue_ms > 0)
        return rc;
    *e = w->refused;
    return w->checked;
}

// Runs reconcile on what passed check; the result decides what the queue does.
static int run_kind(struct work *w, struct err *e)
{
    struct status *s = w->pass.status;
    if (w->checked < 0)
        return run_refused(w, e);
    int rc = w->os->kind->reconcile(&w->pass, e);
    if (!status_cond_is_set(s, "Accepted"))
        status_cond(s, "Accepted", COND_TRUE, "Valid", "the spec is understood");
    report_waiting(w);
    if (rc < 0)
        status_from_error(w, e);
    return rc;
}

static void settle_ok(struct work *w)
{
    struct engine *g = w->g;
    workq_forget(g->q, w->os->key);
    state_count(w->os, w->pass.after_commit     ? offsetof(struct kind_stats, requeue)
                       : w->pass.requeue_ms > 0 ? offsetof(struct kind_stats, requeue_after)
                                                : offsetof(struct kind_stats, success));
    if (w->pass.after_commit) {
        w->os->awaits_commit = true;
        list_del(&w->os->turn);
        list_add_tail(&g->awaiting_commit, &w->os->turn);
    } else if (w->pass.requeue_ms > 0) {
        engine_queue(g, w->os->key, w->pass.requeue_ms, WORKQ_HIGH, "timer");
    } else {
        engine_queue(g, w->os->key, long_requeue(g), WORKQ_LOW, "resync");
    }
}

static void settle_error(struct work *w, const struct err *e)
{
    struct engine *g = w->g;
    g->stats.errors++;
    state_count(w->os, offsetof(struct kind_stats, error));
    log_failure(w, e);
    int64_t delay;
    switch (action_of(e->cls)->action) {
    case ACT_RETRY:
        delay = workq_fail(g->q, w->os->key, e->retry_after_ms, clock_rand64(g->env->clock));
        break;
    case ACT_WAIT:
        delay = w->pass.requeue_ms > 0 ? w->pass.requeue_ms : MAX((int64_t)BUSY_RETRY_MS, e->retry_after_ms);
        break;
    default:
        workq_forget(g->q, w->os->key);
        delay = long_requeue(g);
        break;
    }
    engine_queue(g, w->os->key, delay, WORKQ_LOW, "retry");
}

static void hold_open(struct work *w)
{
    struct engine *g = w->g;
    struct kind_run *r = engine_run_of(g, w->os->kind);
    int64_t d = w->pass.deadline_ms > 0 ? w->pass.deadline_ms : g->conf.pass_deadline_ms;
    w->os->waiting = true;
    if (r != NULL)
        r->stats.open++;
    if (timer_in(g->env->loop, &w->os->deadline, d) < 0)
        log_error("engine", "no-deadline key=%s", w->os->key);
}

static bool has_tombstone(struct engine *g, const char *key)
{
    struct buf b AUTO_BUF = BUF_INIT(4096);
    return intent_get(g->env->db, key, TOMBSTONE, &b, NULL) == 0;
}

// Of a file's object that is gone: nobody else hears of its end.
static bool was_local(struct engine *g, const char *key)
{
    struct buf b AUTO_BUF = BUF_INIT(4096);
    return intent_get(g->env->db, key, TOMBSTONE, &b, NULL) == 0 && cache_is_file_uid(buf_str(&b));
}

// A pass over an object that exists.
static void pass_present(struct work *w)
{
    struct err e = ERR_INIT;
    int rc = 0;
    if (has_tombstone(w->g, w->os->key)) // it was deleted and made again before its stop began
        rc = intent_delete(w->g->env->db, w->os->key, TOMBSTONE, &e);
    if (rc == 0)
        rc = work_gate(w, &e);
    if (rc == 0 && w->gate.verdict == GATE_COMMIT) {
        (void)pass_after_commit(&w->pass);
        settle_ok(w);
        workq_done(w->g->q, w->os->key);
        return;
    }
    if (rc == 0)
        rc = work_status(w, &e);
    if (rc == 0)
        rc = run_kind(w, &e);
    if (rc == 0 && w->pass.waiting) {
        hold_open(w);
        return;
    }
    struct err se = ERR_INIT;
    int src = w->pass.status != NULL ? write_status(w, &se) : 0;
    if (src >= 0 && w->os->local)
        src = twin_report(w->g, w->os, w->row.source, &se);
    if (rc == 0 && src < 0) {
        rc = src;
        e = se;
    }
    if (rc == 0)
        settle_ok(w);
    else
        settle_error(w, &e);
    workq_done(w->g->q, w->os->key);
}

static int forget_object(struct engine *g, const char *key, struct err *e)
{
    int rc = intent_delete_all(g->env->db, key, e);
    if (rc == 0)
        rc = outbox_status_delete(g->env->outbox, key, e);
    if (rc == 0)
        rc = twin_forget(g, key, e);
    return rc;
}

// The row is not there. Without proof of a deletion nothing happens.
static void pass_gone(struct work *w)
{
    struct engine *g = w->g;
    struct object_state *os = w->os;
    char key[KEY_MAX];
    snprintf(key, sizeof(key), "%s", os->key);
    if (!has_tombstone(g, key)) {
        log_debug("engine", "kept-without-proof key=%s", key);
        workq_done(g->q, key);
        workq_forget(g->q, key);
        return;
    }
    struct err e = ERR_INIT;
    w->pass.why = "gone";
    os->local = was_local(g, key);
    int rc = os->kind->gone != NULL ? os->kind->gone(&w->pass, &e) : 0;
    if (rc == 0 && (w->pass.waiting || w->pass.after_commit || w->pass.requeue_ms > 0)) {
        if (w->pass.waiting) {
            hold_open(w);
            return;
        }
        settle_ok(w);
        workq_done(g->q, key);
        return;
    }
    if (rc == 0)
        rc = forget_object(g, key, &e);
    if (rc < 0) {
        if (rc == E_BUSY)
            engine_queue(g, key, w->pass.requeue_ms > 0 ? w->pass.requeue_ms : GONE_RETRY_MS, WORKQ_LOW, "gone");
        else
            settle_error(w, &e);
        workq_done(g->q, key);
        return;
    }
    log_info("engine", "object-stopped key=%s", key);
    state_count(os, offsetof(struct kind_stats, success));
    state_free(os);
    w->os = NULL;
    workq_done(g->q, key);
    workq_remove(g->q, key);
}

// Sound as it lies in the cache, but nothing that can be taken: too large, too deep, its tree over a pass's memory, text with a NUL in it.
static bool is_refused(const struct work *w, int rc)
{
    return rc == E_TOOBIG || (rc == E_INVAL && w->pass.uid != NULL);
}

// It says so; the machine stays as it is.
static void pass_refused(struct work *w, const struct err *why)
{
    struct err e = ERR_INIT;
    json_cap(0);
    int rc = work_status(w, &e);
    if (rc == 0) {
        status_keep_prev(w->pass.status);
        status_cond(w->pass.status, "Accepted", COND_FALSE, action_of(why->cls)->reason, "%s", why->msg);
        rc = write_status(w, &e);
    }
    settle_error(w, rc < 0 ? &e : why);
    workq_done(w->g->q, w->os->key);
}

static void pass_unreadable(struct work *w, const struct err *e)
{
    w->g->stats.skipped_corrupt++;
    log_failure(w, e);
    if (e->cls == E_CORRUPT && w->g->conf.unreadable != NULL)
        w->g->conf.unreadable(w->g->conf.ctx, w->os->key);
    engine_queue(w->g, w->os->key, workq_fail(w->g->q, w->os->key, 0, clock_rand64(w->g->env->clock)), WORKQ_LOW, "retry");
    workq_done(w->g->q, w->os->key);
}

void pass_run(struct engine *g, struct object_state *os)
{
    struct err e = ERR_INIT;
    struct work w;
    g->stats.passes++;
    work_init(&w, g, os);
    int rc = work_load(&w, &e);
    if (rc == 0)
        pass_present(&w);
    else if (rc == E_NOTFOUND)
        pass_gone(&w);
    else if (is_refused(&w, rc))
        pass_refused(&w, &e);
    else
        pass_unreadable(&w, &e);
    work_fini(&w);
}

// What the kind started did not end in time: it is cancelled, and the object fails with E_TIMEOUT.
void pass_on_deadline(struct timer *t)
{
    struct object_state *os = container_of(t, struct object_state, deadline);
    struct engine *g = os->engine;
    struct work w;
    struct err e = ERR_INIT, ignored = ERR_INIT;
    g->stats.deadline_hits++;
    state_stop_waiting(os);
    work_init(&w, g, os);
    bool loaded = work_load(&w, &ignored) == 0 && work_gate(&w, &ignored) == 0 && work_status(&w, &ignored) == 0;
    if (os->kind->cancel != NULL)
        os->kind->cancel(&w.pass);
    err_set(&e, E_TIMEOUT, "the pass did not end within its deadline; what it had started was cancelled");
    if (loaded) {
        status_keep_prev(w.pass.status);
        status_from_error(&w, &e);
        if (write_status(&w, &ignored) < 0)
            log_error("engine", "status-not-kept key=%s error=\"%s\"", os->key, ignored.msg);
    }
    settle_error(&w, &e);
    workq_done(g->q, os->key);
    work_fini(&w);
}

int pass_wait(struct pass *p, int64_t deadline_ms)
{
    p->waiting = true;
    p->deadline_ms = deadline_ms;
    return 0;
}

int pass_after_commit(struct pass *p)
{
    p->after_commit = true;
    return 0;
}

void engine_resume(struct engine *g, struct object_state *os)
{
    if (!os->waiting)
        return;
    state_stop_waiting(os);
    list_del(&os->turn);
    list_add_tail(&g->resumed, &os->turn);
    g->stats.resumed++;
}
int engine_differences(struct engine *g, const char *key, struct json *out, struct err *e)
{
    struct object_state *os = engine_state_of(g, key);
    if (os == NULL)
        return err_set(e, E_NOTFOUND, "%s: no such object here", key);
    if (os->kind->differences == NULL)
        return err_set(e, E_UNSUP, "%s shows no differences", os->kind->name);
    struct work w;
    work_init(&w, g, os);
    int rc = work_load(&w, e);
    if (rc == 0)
        rc = work_gate(&w, e);
    if (rc == 0)
        rc = os->kind->differences(&w.pass, out, e);
    work_fini(&w);
    return rc;
}
