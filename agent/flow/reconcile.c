// SPDX-License-Identifier: Apache-2.0
#include "flow/reconcile_priv.h"
#include "flow/refs.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

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
    timer_init(&os->deadline, pass_on_deadline);
    snprintf(os->key, sizeof(os->key), "%s", key);
    os->node.key = os->key;
    if (table_put(&g->states, &os->node, e) < 0) {
        free(os);
        return NULL;
    }
    return os;
}

struct kind_run *engine_run_of(struct engine *g, const struct kind *k)
{
    for (size_t i = 0; i < g->n_kinds; i++)
        if (g->kinds[i].kind == k)
            return &g->kinds[i];
    if (g->n_kinds == KINDS_MAX)
        return NULL;
    g->kinds[g->n_kinds] = (struct kind_run){ .kind = k };
    return &g->kinds[g->n_kinds++];
}

void state_stop_waiting(struct object_state *os)
{
    if (!os->waiting)
        return;
    os->waiting = false;
    timer_cancel(os->engine->env->loop, &os->deadline);
    struct kind_run *r = engine_run_of(os->engine, os->kind);
    if (r != NULL && r->stats.open > 0)
        r->stats.open--;
}

void state_count(struct object_state *os, size_t counter)
{
    struct kind_run *r = engine_run_of(os->engine, os->kind);
    if (r == NULL)
        return;
    ++*(uint64_t *)((char *)&r->stats + counter);
    histo_add(&r->stats.time, clock_mono_us(os->engine->env->clock) - os->began_us);
}

void state_free(struct object_state *os)
{
    struct engine *g = os->engine;
    state_stop_waiting(os);
    list_del(&os->turn);
    table_del(&g->states, &os->node);
    if (os->kind->fini != NULL)
        os->kind->fini(g->env, os->data);
    refs_forget(g->env->refs, os->key);
    free(os);
}
// Queueing.

void engine_queue(struct engine *g, const char *key, int64_t delay_ms, enum workq_prio prio, const char *why)
{
    struct err e = ERR_INIT;
    if (workq_push(g->q, key, loop_in(g->env->loop, delay_ms), prio, why, &e) < 0)
        log_error("engine", "not-queued key=%s error=\"%s\"", key, e.msg);
}

void engine_touch(struct engine *g, const char *key, const char *why)
{
    engine_queue(g, key, 0, WORKQ_HIGH, why);
}

void engine_touch_state(struct engine *g, struct object_state *os, const char *why)
{
    engine_queue(g, os->key, 0, WORKQ_HIGH, why);
}

void engine_object_changed(struct engine *g, const char *key)
{
    workq_forget(g->q, key); // a new spec deserves a new try
    engine_queue(g, key, 0, WORKQ_HIGH, "change");
}

void engine_object_gone(struct engine *g, const char *key)
{
    workq_forget(g->q, key);
    engine_queue(g, key, 0, WORKQ_HIGH, "gone");
}

int engine_tombstone(struct db *db, const char *key, const char *uid, struct err *e)
{
    return intent_put(db, key, TOMBSTONE, uid, e);
}

// The turn.

static bool may_run(void *ctx, const char *key)
{
    struct engine *g = ctx;
    struct object_state *os = engine_state_of(g, key);
    if (os != NULL && os->awaits_commit)
        return false;
    const struct kind *k = registry_of_key(g->registry, key);
    struct kind_run *r = k != NULL ? engine_run_of(g, k) : NULL;
    return r == NULL || r->stats.open < MAX(1, k->max_concurrent);
}

static void release_committed(struct engine *g)
{
    list_each_safe(n, tmp, &g->awaiting_commit) {
        struct object_state *os = container_of(n, struct object_state, turn);
        list_del(&os->turn);
        os->awaits_commit = false;
        engine_queue(g, os->key, 0, WORKQ_HIGH, "intent");
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
        engine_queue(g, key, workq_fail(g->q, key, 0, clock_rand64(g->env->clock)), WORKQ_LOW, "retry");
        workq_done(g->q, key);
        return;
    }
    snprintf(os->why, sizeof(os->why), "%s", why);
    os->pass_id = clock_rand64(g->env->clock) | 1;
    os->began_us = clock_mono_us(g->env->clock);
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
    g->stats.settled |= left > 0 && list_empty(&g->awaiting_commit) && list_empty(&g->resumed);
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
        out->waiting += (size_t)g->kinds[i].stats.open;
}

void engine_queue_stats(struct engine *g, struct workq_stats *out)
{
    workq_stats(g->q, out);
}

int engine_each_kind(struct engine *g, int (*fn)(void *ctx, const struct kind *k, const struct kind_stats *s), void *ctx)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < g->n_kinds; i++)
        rc = fn(ctx, g->kinds[i].kind, &g->kinds[i].stats);
    return rc;
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

void engine_clock_changed(struct engine *g)
{
    table_each_safe(n, &g->states)
    {
        struct object_state *os = state_of(n);
        if (os->kind->follows_clock)
            engine_touch_state(g, os, "clock");
    }
}
