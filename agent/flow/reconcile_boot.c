// SPDX-License-Identifier: Apache-2.0
// Which keys there are: at the start of the agent, after a complete list, and after a commit that failed.
#include <string.h>

#include "base/log.h"
#include "data/key.h"
#include "flow/reconcile_priv.h"

static int queue_key(void *ctx, const char *key)
{
    engine_queue(ctx, key, 0, WORKQ_HIGH, "boot");
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

static int touch(void *ctx, struct object_state *os)
{
    engine_touch_state(ctx, os, "store");
    return 0;
}

static int queue_gone(void *ctx, const char *key, const char *name)
{
    (void)name;
    engine_queue(ctx, key, 0, WORKQ_HIGH, "store");
    return 0;
}

// What the failed commit took with it is made anew. A stop that was finished in it has no state any more, and its tombstone is back.
int engine_store_retry(struct engine *g, struct err *e)
{
    engine_each(g, touch, g);
    return intent_named(g->env->db, TOMBSTONE, TOMBSTONE "!", queue_gone, g, e);
}

// After a sweep: keys of kind k that run or owe something and have no row.
struct sweep {
    struct engine *g;
    const struct kind *k;
    const char *ns;
    struct buf keys; // NUL-separated: rows must not change while they are read
};

static int sweep_key(struct sweep *s, const char *key)
{
    struct key_parts parts;
    struct err e = ERR_INIT;
    if (registry_of_key(s->g->registry, key) != s->k || key_split(key, &parts, &e) < 0 || strcmp(parts.ns, s->ns) != 0 ||
        cache_has(s->g->env->cache, key, &e) != 0)
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

void engine_swept(struct engine *g, const struct kind *k, const char *ns)
{
    struct err e = ERR_INIT;
    struct sweep s = { .g = g, .k = k, .ns = ns, .keys = BUF_INIT(1024 * 1024) };
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
