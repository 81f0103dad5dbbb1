// SPDX-License-Identifier: Apache-2.0
// What refs asks of sync and of the engine, and what sync tells it.
#include "base/log.h"
#include "flow/agent.h"

static void on_follow(void *ctx, const struct kind *k, bool on)
{
    struct agent *a = ctx;
    struct err e = ERR_INIT;
    if (a->sync != NULL && sync_follow(a->sync, k, on, &e) < 0)
        log_error("agent", "not-followed kind=%s error=\"%s\"", k->name, e.msg);
}

static void on_refresh(void *ctx, const struct kind *k)
{
    struct agent *a = ctx;
    if (a->sync != NULL)
        sync_refresh(a->sync, k);
}

static void on_touch(void *ctx, const char *key)
{
    struct agent *a = ctx;
    engine_touch(a->engine, key, "reference");
}

int agent_refs_new(struct agent *a, struct err *e)
{
    struct refs_conf c = { .ns = a->ns, .follow = on_follow, .refresh = on_refresh, .touch = on_touch, .ctx = a };
    return refs_new(&a->refs, a->cache, &c, e);
}

void agent_refs_run(struct agent *a)
{
    struct engine_stats s;
    engine_stats(a->engine, &s);
    refs_run(a->refs, s.settled);
}

int agent_refs_reduce(void *ctx, const char *key, const char *json, size_t len, struct buf *out, struct err *e)
{
    struct agent *a = ctx;
    return refs_reduce(a->refs, key, json, len, out, e);
}

void agent_refs_known(void *ctx, const struct kind *k, const struct err *e)
{
    struct agent *a = ctx;
    refs_known(a->refs, k, e);
}
