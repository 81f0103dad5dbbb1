// SPDX-License-Identifier: Apache-2.0
#include "flow/reconcile.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/table.h"
#include "data/key.h"
#include "flow/action.h"

enum { OBJECT_ACCEPT_MAX = 2000000 };
enum { KINDS_MAX = 64, PASS_ARENA_MAX = 8 * 1024 * 1024, GONE_RETRY_MS = 1000, BUSY_RETRY_MS = 1000 };
#define TOMBSTONE "gone" // intent: the object is proven gone and its stop is still owed

struct kind_run {
    const struct kind *kind;
    int open; // passes that wait
};

struct engine {
    struct kind_env *env;
    struct registry *registry;
    struct engine_conf conf;
    struct workq *q;
    struct table states;
    struct list resumed;         // object_state.turn: what their pass waited for has ended
    struct list awaiting_commit; // object_state.turn: next pass after this turn's commit
    struct timer due;
    struct kind_run kinds[KINDS_MAX];
    size_t n_kinds;
    struct engine_stats stats;
};

struct object_state {
    struct table_node node;
    struct engine *engine;
    const struct kind *kind;
    struct list turn;
    struct timer deadline;
    bool waiting, awaits_commit;
    uint64_t pass_id;
    char why[WORKQ_WHY_MAX];
    char uid[OBJ_UID_MAX];
    int64_t generation;
    char key[KEY_MAX];
    _Alignas(max_align_t) unsigned char data[];
};

static struct object_state *state_of(struct table_node *n)
{
    return container_of(n, struct object_state, node);
}

// Object states.

struct object_state *engine_state_of(struct engine *g, const char *key)
{
    struct table_node *n = table_get(&g->states, key);
    return n != NULL ? state_of(n) : NULL;
}

const char *object_state_key(const struct object_state *os)
{
    return os->key;
}

struct object_state *object_state_from_data(void *state)
{
    return container_of((unsigned char(*)[])state, struct object_state, data);
}

static void on_deadline(struct timer *t);

static struct object_state *state_new(struct engine *g, const struct kind *k, const char *key, struct err *e)
{
    if (table_count(&g->states) >= g->conf.max_objects) {
        err_set(e, E_TOOBIG, "more than %zu objects on this node", g->conf.max_objects);
        return NULL;
    }
    struct object_state *os = calloc(1, sizeof(*os) + k->state_size);
    if (os == NULL) {
        err_set(e, E_NOMEM, "state of %s", key);
        return NULL;
    }
    os->engine = g;
    os->kind = k;
    list_init(&os->turn);
    timer_init(&os->deadline, on_deadline);
    snprintf(os->key, sizeof(os->key), "%s", key);
    os->node.key = os->key;
    if (table_put(&g->states, &os->node, e) < 0) {
        free(os);
        return NULL;
    }
    return os;
}

static struct kind_run *run_of(struct engine *g, const struct kind *k)
{
    for (size_t i = 0; i < g->n_kinds; i++)
        if (g->kinds[i].kind == k)
            return &g->kinds[i];
    if (g->n_kinds == KINDS_MAX)
        return NULL;
    g->kinds[g->n_kinds] = (struct kind_run){ .kind = k };
    return &g->kinds[g->n_kinds++];
}

static void stop_waiting(struct object_state *os)
{
    if (!os->waiting)
        return;
    os->waiting = false;
    timer_cancel(os->engine->env->loop, &os->deadline);
    struct kind_run *r = run_of(os->engine, os->kind);
    if (r != NULL && r->open > 0)
        r->open--;
}

static void state_free(struct object_state *os)
{
    struct engine *g = os->engine;
    stop_waiting(os);
    list_del(&os->turn);
    table_del(&g->states, &os->node);
    if (os->kind->fini != NULL)
        os->kind->fini(g->env, os->data);
    free(os);
}

// Queueing.

static void queue(struct engine *g, const char *key, int64_t delay_ms, enum workq_prio prio, const char *why)
{
    struct err e = ERR_INIT;
    if (workq_push(g->q, key, loop_now(g->env->loop) + delay_ms, prio, why, &e) < 0)
        log_error("engine", "not-queued key=%s error=\"%s\"", key, e.msg);
}

void engine_touch(struct engine *g, const char *key, const char *why)
{
    queue(g, key, 0, WORKQ_HIGH, why);
}

void engine_touch_state(struct engine *g, struct object_state *os, const char *why)
{
    queue(g, os->key, 0, WORKQ_HIGH, why);
}

void engine_object_changed(struct engine *g, const char *key)
{
    workq_forget(g->q, key); // a new spec deserves a new try
    queue(g, key, 0, WORKQ_HIGH, "change");
}

void engine_object_gone(struct engine *g, const char *key)
{
    workq_forget(g->q, key);
    queue(g, key, 0, WORKQ_HIGH, "gone");
}

int engine_tombstone(struct db *db, const char *key, const char *uid, struct err *e)
{
    return intent_put(db, key, TOMBSTONE, uid, e);
}

// Jitter of +-10 % so that objects that became stable together do not stay together, then up to the next beat (10 s of 5 min), so that a
// thousand objects share a few wakeups.
static int64_t long_requeue(struct engine *g)
{
    int64_t d = g->conf.requeue_ms, beat = MAX(d / 30, (int64_t)1), now = loop_now(g->env->loop);
    int64_t at = now + d - d / 10 + clock_rand(g->env->clock, d / 5 + 1);
    return (at + beat - 1) / beat * beat - now;
}

// Passes.

struct work {
    struct engine *g;
    struct object_state *os;
    struct pass pass;
    struct cached row;
    struct status_slot slot;
    struct arena arena;
    struct json *object, *prev;
    struct key_parts parts;
};

static void work_fini(struct work *w)
{
    status_free(w->pass.status);
    json_free(w->object);
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

// The previous status gives the transition times; a damaged or foreign one (another uid) gives none.
static int work_status(struct work *w, struct err *e)
{
    const struct kind *k = w->os->kind;
    if (outbox_status_get(w->g->env->outbox, w->os->key, &w->slot, NULL) == 0 && strcmp(w->slot.uid, w->os->uid) == 0 &&
        json_parse(&w->prev, buf_str(&w->slot.json), w->slot.json.len, NULL) < 0)
        w->prev = NULL;
    return status_new(&w->pass.status, w->g->env->clock, w->prev, k->conditions, w->pass.generation, e);
}

static int write_status(struct work *w, struct err *e)
{
    if (!w->os->kind->write_status)
        return 0;
    struct buf text AUTO_BUF = BUF_INIT(256 * 1024);
    uint64_t hash;
    int rc = status_finish(w->pass.status, &text, &hash, e);
    if (rc == 0)
        rc = outbox_status_put(w->g->env->outbox, w->os->key, w->os->uid, w->pass.generation, buf_str(&text), text.len, hash, e);
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

// Runs check and reconcile; the result decides what the queue does.
static int run_kind(struct work *w, struct err *e)
{
    const struct kind *k = w->os->kind;
    struct status *s = w->pass.status;
    int rc = k->check != NULL ? k->check(k, w->g->env, w->object, e) : 0;
    if (rc < 0) {
        status_keep_prev(s);
        status_cond(s, "Accepted", COND_FALSE, action_of(rc)->reason, "%s", e->msg);
        return rc;
    }
    rc = k->reconcile(&w->pass, e);
    if (!status_cond_is_set(s, "Accepted"))
        status_cond(s, "Accepted", COND_TRUE, "Valid", "the spec is understood");
    if (rc < 0)
        status_from_error(w, e);
    return rc;
}

static void settle_ok(struct work *w)
{
    struct engine *g = w->g;
    workq_forget(g->q, w->os->key);
    if (w->pass.after_commit) {
        w->os->awaits_commit = true;
        list_del(&w->os->turn);
        list_add_tail(&g->awaiting_commit, &w->os->turn);
    } else if (w->pass.requeue_ms > 0) {
        queue(g, w->os->key, w->pass.requeue_ms, WORKQ_HIGH, "timer");
    } else {
        queue(g, w->os->key, long_requeue(g), WORKQ_LOW, "resync");
    }
}

static void settle_error(struct work *w, const struct err *e)
{
    struct engine *g = w->g;
    g->stats.errors++;
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
    queue(g, w->os->key, delay, WORKQ_LOW, "retry");
}

static void hold_open(struct work *w)
{
    struct engine *g = w->g;
    struct kind_run *r = run_of(g, w->os->kind);
    int64_t d = w->pass.deadline_ms > 0 ? w->pass.deadline_ms : g->conf.pass_deadline_ms;
    w->os->waiting = true;
    if (r != NULL)
        r->open++;
    if (timer_in(g->env->loop, &w->os->deadline, d) < 0)
        log_error("engine", "no-deadline key=%s", w->os->key);
}

static bool has_tombstone(struct engine *g, const char *key)
{
    struct buf b AUTO_BUF = BUF_INIT(4096);
    return intent_get(g->env->db, key, TOMBSTONE, &b, NULL) == 0;
}

// A pass over an object that exists.
static void pass_present(struct work *w)
{
    struct err e = ERR_INIT;
    int rc = 0;
    if (has_tombstone(w->g, w->os->key)) // it was deleted and made again before its stop began
        rc = intent_delete(w->g->env->db, w->os->key, TOMBSTONE, &e);
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
            queue(g, key, w->pass.requeue_ms > 0 ? w->pass.requeue_ms : GONE_RETRY_MS, WORKQ_LOW, "gone");
        else
            settle_error(w, &e);
        workq_done(g->q, key);
        return;
    }
    log_info("engine", "object-stopped key=%s", key);
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
    queue(w->g, w->os->key, workq_fail(w->g->q, w->os->key, 0, clock_rand64(w->g->env->clock)), WORKQ_LOW, "retry");
    workq_done(w->g->q, w->os->key);
}

static void pass_run(struct engine *g, struct object_state *os)
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
static void on_deadline(struct timer *t)
{
    struct object_state *os = container_of(t, struct object_state, deadline);
    struct engine *g = os->engine;
    struct work w;
    struct err e = ERR_INIT, ignored = ERR_INIT;
    g->stats.deadline_hits++;
    stop_waiting(os);
    work_init(&w, g, os);
    bool loaded = work_load(&w, &ignored) == 0 && work_status(&w, &ignored) == 0;
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
    stop_waiting(os);
    list_del(&os->turn);
    list_add_tail(&g->resumed, &os->turn);
    g->stats.resumed++;
}

// The turn.

static bool may_run(void *ctx, const char *key)
{
    struct engine *g = ctx;
    struct object_state *os = engine_state_of(g, key);
    if (os != NULL && os->awaits_commit)
        return false;
    const struct kind *k = registry_of_key(g->registry, key);
    struct kind_run *r = k != NULL ? run_of(g, k) : NULL;
    return r == NULL || r->open < MAX(1, k->max_concurrent);
}

static void release_committed(struct engine *g)
{
    list_each_safe(n, tmp, &g->awaiting_commit) {
        struct object_state *os = container_of(n, struct object_state, turn);
        list_del(&os->turn);
        os->awaits_commit = false;
        queue(g, os->key, 0, WORKQ_HIGH, "intent");
    }
}

// The intents are not durable: their passes come with the store's next retry, which looks at everything.
void engine_store_failed(struct engine *g)
{
    list_each_safe(n, tmp, &g->awaiting_commit) {
        list_del(n);
        container_of(n, struct object_state, turn)->awaits_commit = false;
    }
}

static struct list *first_resumed(struct engine *g)
{
    return list_empty(&g->resumed) ? NULL : g->resumed.next;
}

static void start_pass(struct engine *g, const char *key, const char *why)
{
    struct err e = ERR_INIT;
    const struct kind *k = registry_of_key(g->registry, key);
    struct object_state *os = engine_state_of(g, key);
    if (k == NULL) {
        workq_done(g->q, key);
        workq_forget(g->q, key);
        return;
    }
    if (os == NULL && (os = state_new(g, k, key, &e)) == NULL) {
        log_error("engine", "refused key=%s error=\"%s\"", key, e.msg);
        queue(g, key, workq_fail(g->q, key, 0, clock_rand64(g->env->clock)), WORKQ_LOW, "retry");
        workq_done(g->q, key);
        return;
    }
    snprintf(os->why, sizeof(os->why), "%s", why);
    os->pass_id = clock_rand64(g->env->clock) | 1;
    pass_run(g, os);
}

bool engine_run(struct engine *g)
{
    char key[KEY_MAX], why[WORKQ_WHY_MAX];
    int left = g->conf.passes_per_turn;
    release_committed(g);
    for (struct list *n; left > 0 && (n = first_resumed(g)) != NULL; left--) {
        struct object_state *os = container_of(n, struct object_state, turn);
        list_del(&os->turn);
        pass_run(g, os);
    }
    for (; left > 0; left--) {
        if (!workq_pop(g->q, loop_now(g->env->loop), may_run, g, key, sizeof(key), why))
            break;
        start_pass(g, key, why);
    }
    int64_t next = workq_next_ms(g->q);
    if (next == INT64_MAX)
        timer_cancel(g->env->loop, &g->due);
    else if (timer_set(g->env->loop, &g->due, next) < 0)
        log_error("engine", "no-timer");
    return left == 0 || !list_empty(&g->awaiting_commit) || !list_empty(&g->resumed);
}

static void on_due(struct timer *t)
{
    (void)t; // only wakes the loop; the hook does the work
}

// Start.

static int queue_key(void *ctx, const char *key)
{
    queue(ctx, key, 0, WORKQ_HIGH, "boot");
    return 0;
}

static int queue_intent(void *ctx, const char *key, const char *name, const char *data)
{
    (void)name;
    (void)data;
    return queue_key(ctx, key);
}

static int queue_instance(void *ctx, const struct inst *i)
{
    return queue_key(ctx, i->owner);
}

static int boot_kind(void *ctx, const struct kind *k)
{
    struct engine *g = ctx;
    struct err e = ERR_INIT;
    if (k->boot != NULL && k->boot(k, g->env, &e) < 0)
        log_error("engine", "kind-boot kind=%s error=\"%s\"", k->name, e.msg);
    return 0;
}

int engine_boot(struct engine *g, struct err *e)
{
    registry_each(g->registry, boot_kind, g);
    int rc = cache_each_key(g->env->cache, NULL, queue_key, g, e);
    if (rc == 0)
        rc = intent_each(g->env->db, NULL, queue_intent, g, e);
    if (rc == 0)
        rc = g->env->port->ops->each(g->env->port, NULL, queue_instance, g, e);
    return rc;
}

// After a sweep: keys of kind k that run or owe something and have no row.
struct sweep {
    struct engine *g;
    const struct kind *k;
    struct buf keys; // NUL-separated: rows must not change while they are read
};

static int sweep_key(struct sweep *s, const char *key)
{
    char rv[OBJ_RV_MAX], uid[OBJ_UID_MAX];
    struct err e = ERR_INIT;
    if (registry_of_key(s->g->registry, key) != s->k || cache_rv(s->g->env->cache, key, rv, uid, &e) != E_NOTFOUND)
        return 0;
    return buf_add(&s->keys, key, strlen(key) + 1, &e);
}

static int sweep_intent(void *ctx, const char *key, const char *name, const char *data)
{
    (void)data;
    return strcmp(name, TOMBSTONE) == 0 ? 0 : sweep_key(ctx, key);
}

static int sweep_instance(void *ctx, const struct inst *i)
{
    return sweep_key(ctx, i->owner);
}

void engine_swept(struct engine *g, const struct kind *k)
{
    struct err e = ERR_INIT;
    struct sweep s = { .g = g, .k = k, .keys = BUF_INIT(1024 * 1024) };
    int rc = intent_each(g->env->db, NULL, sweep_intent, &s, &e);
    if (rc == 0)
        rc = g->env->port->ops->each(g->env->port, NULL, sweep_instance, &s, &e);
    for (size_t at = 0; rc == 0 && at < s.keys.len; at += strlen(s.keys.data + at) + 1) {
        log_info("engine", "orphan key=%s", s.keys.data + at);
        rc = engine_tombstone(g->env->db, s.keys.data + at, "", &e);
        engine_object_gone(g, s.keys.data + at);
    }
    if (rc < 0)
        log_error("engine", "sweep kind=%s error=\"%s\"", k->name, e.msg);
    buf_fini(&s.keys);
}

static void port_changed(void *ctx, const char *owner)
{
    engine_touch(ctx, owner, "instance");
}

int engine_new(struct engine **out, struct kind_env *env, struct registry *r, const struct engine_conf *c, struct err *e)
{
    struct engine *g = calloc(1, sizeof(*g));
    if (g == NULL)
        return err_set(e, E_NOMEM, "engine");
    g->conf = *c;
    g->conf.requeue_ms = c->requeue_ms > 0 ? c->requeue_ms : 300000;
    g->conf.pass_deadline_ms = c->pass_deadline_ms > 0 ? c->pass_deadline_ms : 5000;
    g->conf.max_objects = c->max_objects > 0 ? c->max_objects : 20000;
    g->conf.pass_memory = c->pass_memory > 0 ? c->pass_memory : 8U * 1024 * 1024;
    g->conf.passes_per_turn = c->passes_per_turn > 0 ? c->passes_per_turn : 32;
    int rc = workq_new(&g->q, g->conf.max_objects + 1024, e);
    if (rc < 0) {
        free(g);
        return rc;
    }
    g->env = env;
    g->registry = r;
    table_init(&g->states);
    list_init(&g->resumed);
    list_init(&g->awaiting_commit);
    timer_init(&g->due, on_due);
    env->engine = g;
    env->port->changed = port_changed;
    env->port->ctx = g;
    *out = g;
    return 0;
}

void engine_free(struct engine *g)
{
    if (g == NULL)
        return;
    timer_cancel(g->env->loop, &g->due);
    table_each_safe(n, &g->states) state_free(state_of(n));
    table_fini(&g->states);
    workq_free(g->q);
    g->env->port->changed = NULL;
    g->env->engine = NULL;
    free(g);
}

void engine_stats(struct engine *g, struct engine_stats *out)
{
    *out = g->stats;
    out->queue_len = workq_len(g->q);
    out->objects = table_count(&g->states);
    for (size_t i = 0; i < g->n_kinds; i++)
        out->waiting += (size_t)g->kinds[i].open;
}

int engine_each(struct engine *g, int (*fn)(void *ctx, struct object_state *os), void *ctx)
{
    table_each_safe(n, &g->states)
    {
        int rc = fn(ctx, state_of(n));
        if (rc != 0)
            return rc;
    }
    return 0;
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
        rc = os->kind->differences(&w.pass, out, e);
    work_fini(&w);
    return rc;
}

static bool slot_covered(const struct status_slot *slot, const char *status, size_t len)
{
    struct json *ours AUTO_JSON = NULL, *theirs AUTO_JSON = NULL;
    if (json_parse(&ours, buf_str(&slot->json), slot->json.len, NULL) < 0)
        return true; // ours is damaged: the next pass makes it anew
    if (len > 0 && json_parse(&theirs, status, len, NULL) < 0)
        return false;
    return status_covered(ours, theirs);
}

void engine_server_status(struct engine *g, const char *key, const char *uid, const char *status, size_t len)
{
    struct err e = ERR_INIT;
    struct status_slot slot = STATUS_SLOT_INIT;
    json_cap(g->conf.pass_memory);
    if (outbox_status_get(g->env->outbox, key, &slot, NULL) == 0 && !slot.pending && strcmp(slot.uid, uid) == 0 &&
        !slot_covered(&slot, status, len) && outbox_status_resend(g->env->outbox, key, &e) < 0)
        log_error("engine", "status-not-resent key=%s error=\"%s\"", key, e.msg);
    json_cap(0);
    status_slot_fini(&slot);
}

// Events.

static void send_event(struct engine *g, const struct object_state *os, bool warning, const char *reason, const char *action,
                       const char *fmt, va_list ap)
{
    char note[1024], api[160];
    struct key_parts p;
    struct err e = ERR_INIT;
    const struct kube_type *t = &os->kind->type;
    vsnprintf(note, sizeof(note), fmt, ap);
    if (key_split(os->key, &p, &e) < 0)
        return;
    snprintf(api, sizeof(api), "%s/%s", t->group, t->version);
    struct event_in ev = { .key = os->key,
                           .uid = os->uid,
                           .kind = os->kind->name,
                           .api_version = api,
                           .ns = p.ns,
                           .name = p.name,
                           .warning = warning,
                           .reason = reason,
                           .action = action,
                           .note = note };
    if (warning)
        log_warn("event", "%s key=%s note=\"%s\"", reason, os->key, note);
    else
        log_info("event", "%s key=%s note=\"%s\"", reason, os->key, note);
    if (outbox_event(g->env->outbox, &ev, &e) < 0)
        log_warn("engine", "event-lost key=%s reason=%s error=\"%s\"", os->key, reason, e.msg);
}

void engine_event(struct engine *g, struct object_state *os, bool warning, const char *reason, const char *action, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    send_event(g, os, warning, reason, action, fmt, ap);
    va_end(ap);
}

void pass_event(struct pass *p, bool warning, const char *reason, const char *action, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    send_event(p->env->engine, p->os, warning, reason, action, fmt, ap);
    va_end(ap);
}
