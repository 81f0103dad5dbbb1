// SPDX-License-Identifier: Apache-2.0
// Changes that wait for a maintenance window.
//
// While policies have windows, the engine keeps of each object of a kind that can disturb the version that was last let through (an
// intent). A newer one that would disturb waits for a window; until then the kept one is made true, drift and crashes included. It is let
// through by replacing the kept one, durably, before the pass that acts: a loss of power in the middle goes on with the new one.
// Without windows nothing is kept. A new object, or one made again under its name, disturbs nobody; a deletion is nobody's to delay.
#include <string.h>

#include "base/log.h"
#include "flow/policy.h"
#include "flow/reconcile_priv.h"

#define KEPT "let-through" // intent: the whole object as it lay in the cache

static bool is_gated(const struct engine *g, const struct kind *k)
{
    return k->disturbs != NULL && g->env->policy != NULL && policy_has_windows(g->env->policy);
}

static bool is_same_object(const struct json *kept, const char *uid)
{
    const char *other = json_str(json_path(kept, "metadata.uid"));
    return other != NULL && strcmp(other, uid) == 0;
}

// NULL: nothing kept, or what is kept cannot be read.
static struct json *load_kept(struct engine *g, const char *key)
{
    struct buf text AUTO_BUF = BUF_INIT(OBJ_MAX + 4096);
    struct json *j = NULL;
    if (intent_get(g->env->db, key, KEPT, &text, NULL) < 0 || json_parse(&j, buf_str(&text), text.len, NULL) < 0)
        return NULL;
    return j;
}

int gate_decide(struct engine *g, const struct pass *p, const char *row, struct gate *out, struct err *e)
{
    const struct kind *k = p->kind;
    *out = (struct gate){ .verdict = GATE_GO };
    if (!is_gated(g, k))
        return 0;
    struct json *kept AUTO_JSON = load_kept(g, p->key);
    if (kept != NULL && json_equal(json_get(kept, "spec"), p->spec) && is_same_object(kept, p->uid))
        return 0;
    bool disturbs = kept != NULL && is_same_object(kept, p->uid) && k->disturbs(k, g->env, kept, p->object);
    if (disturbs && !policy_disruption_allowed(g->env->policy, out->why, sizeof(out->why))) {
        out->verdict = GATE_WAIT;
        if (!json_i64(json_path(kept, "metadata.generation"), &out->generation))
            out->generation = 0;
        out->object = steal(kept);
        return 0;
    }
    out->verdict = disturbs ? GATE_COMMIT : GATE_GO;
    return intent_put(g->env->db, p->key, KEPT, row, e);
}

void gate_fini(struct gate *x)
{
    json_free(x->object);
    x->object = NULL;
}

// Nobody has windows any more: what was kept would be old when somebody has some again.
static int collect(void *ctx, const char *key, const char *name)
{
    struct err e = ERR_INIT;
    return strcmp(name, KEPT) == 0 ? buf_add(ctx, key, strlen(key) + 1, &e) : 0;
}

static int forget_kept(struct engine *g, struct err *e)
{
    struct buf keys AUTO_BUF = BUF_INIT(16 * 1024 * 1024);
    int rc = intent_named(g->env->db, KEPT, KEPT "!", collect, &keys, e);
    for (size_t at = 0; rc == 0 && at < keys.len; at += strlen(keys.data + at) + 1)
        rc = intent_delete(g->env->db, keys.data + at, KEPT, e);
    return rc;
}

static int touch(void *ctx, struct object_state *os)
{
    if (os->kind->disturbs != NULL)
        engine_touch_state(ctx, os, "window");
    return 0;
}

void engine_windows_changed(struct engine *g)
{
    struct err e = ERR_INIT;
    if (!policy_has_windows(g->env->policy) && forget_kept(g, &e) < 0)
        log_error("engine", "kept-not-forgotten error=\"%s\"", e.msg);
    engine_each(g, touch, g);
}
