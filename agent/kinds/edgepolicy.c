// SPDX-License-Identifier: Apache-2.0
// edgepolicy — the kind EdgePolicy: what is valid and meant for this node goes into flow/policy.h; what is not leaves the last good one.
//
// The last good spec of each policy lies in the store as an intent, with whether it was for this node: from there policies are in force at
// boot, before any pass and any network. It goes when the policy is proven gone.
// A policy of the shared namespace is never written to: what is wrong with it is told by an event about the EdgeNode, once a generation.
#include "kinds/edgepolicy.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "data/key.h"
#include "flow/status.h"
#include "kinds/registry.h"

#define GOOD "policy"                    // intent: {"generation","selected","refused","spec"}
#define CHECKED_KEY "edgepolicies//file" // of one that is only checked

struct kept {
    struct json *json; // NULL = nothing is known of it
};

static void kept_fini(struct kept *k)
{
    json_free(k->json);
}
#define AUTO_KEPT CLEANUP(kept_fini)

static int kept_load(struct kept *k, struct db *db, const char *key, struct err *e)
{
    struct buf text AUTO_BUF = BUF_INIT(OBJ_MAX);
    struct err why = ERR_INIT;
    k->json = NULL;
    int rc = intent_get(db, key, GOOD, &text, &why);
    if (rc == 0)
        rc = json_parse(&k->json, buf_str(&text), text.len, &why);
    if (rc == 0 || rc == E_NOTFOUND || rc == E_CORRUPT || rc == E_INVAL) // a damaged one is none
        return 0;
    *e = why;
    return rc;
}

static bool has_good(const struct kept *k)
{
    return json_get(k->json, "spec") != NULL;
}

static int64_t kept_number(const struct kept *k, const char *name)
{
    int64_t v = 0;
    return json_i64(json_get(k->json, name), &v) ? v : 0;
}

static int kept_save(struct kept *k, struct db *db, const char *key, struct err *e)
{
    struct buf text AUTO_BUF = BUF_INIT(OBJ_MAX);
    int rc = json_ok() ? json_print(k->json, &text, e) : err_set(e, E_NOMEM, "policy %s", key);
    return rc < 0 ? rc : intent_put(db, key, GOOD, buf_str(&text), e);
}

// --- Which nodes it is for

// The labels of our EdgeNode, which only people write. NULL = it is not known.
static struct json *node_labels(const struct kind_env *env)
{
    char key[KEY_MAX];
    struct cached row AUTO_CACHED = CACHED_INIT;
    struct json *object AUTO_JSON = NULL;
    if (key_make(key, kind_edgenode.type.plural, env->ns, env->node, NULL) < 0 || cache_get(env->cache, key, &row, NULL) < 0 ||
        json_parse(&object, buf_str(&row.json), row.json.len, NULL) < 0)
        return NULL;
    const struct json *labels = json_path(object, "metadata.labels");
    return labels != NULL ? json_copy(labels) : json_object();
}

// A node's name needs no label. Of the others nothing is known without the EdgeNode: what was selected stays so.
static bool is_for_us(const struct kind_env *env, const struct policy_doc *d, bool before)
{
    struct json *labels AUTO_JSON = d->nodes.n > 0 ? node_labels(env) : NULL;
    if (d->nodes.n == 0 || (labels == NULL && before))
        return true;
    if (labels == NULL && (labels = json_object()) == NULL)
        return false;
    if (json_get(labels, "kubernetes.io/hostname") == NULL)
        json_set_str(labels, "kubernetes.io/hostname", env->node);
    return policy_labels_match(&d->nodes, labels);
}

// --- Into force

static struct policy_doc *document(const struct kind_env *env, const char *key, const struct json *spec, int64_t generation, struct err *e)
{
    struct policy_doc *d = policy_doc_new(key, env->ns, e);
    if (d == NULL)
        return NULL;
    d->generation = generation;
    if (edgepolicy_decode(d, spec, env->disk, e) == 0)
        return d;
    policy_doc_free(d);
    return NULL;
}

// Takes d.
static int apply(const struct kind_env *env, struct policy_doc *d, bool selected, struct err *e)
{
    if (selected)
        return policy_put(env->policy, d, e);
    policy_drop(env->policy, d->key);
    policy_doc_free(d);
    return 0;
}

static int load_one(struct kind_env *env, const char *key, struct err *e)
{
    struct kept k AUTO_KEPT = { NULL };
    int rc = kept_load(&k, env->db, key, e);
    if (rc < 0 || !json_bool(json_get(k.json, "selected"), false))
        return rc;
    struct policy_doc *d = document(env, key, json_get(k.json, "spec"), kept_number(&k, "generation"), e);
    return d == NULL ? e->cls : policy_put(env->policy, d, e);
}

static int collect_key(void *ctx, const char *key, const char *name)
{
    struct err e = ERR_INIT;
    return strcmp(name, GOOD) == 0 ? buf_add(ctx, key, strlen(key) + 1, &e) : 0;
}

static int policy_boot(const struct kind *k, struct kind_env *env, struct err *e)
{
    struct buf keys AUTO_BUF = BUF_INIT(8 * 1024 * 1024);
    (void)k;
    if (env->policy == NULL)
        return 0;
    int rc = intent_named(env->db, GOOD, GOOD "!", collect_key, &keys, e);
    policy_hold(env->policy);
    for (size_t at = 0; rc == 0 && at < keys.len; at += strlen(keys.data + at) + 1) {
        struct err why = ERR_INIT;
        if (load_one(env, keys.data + at, &why) < 0)
            log_error("policy", "not-in-force key=%s error=\"%s\"", keys.data + at, why.msg);
    }
    policy_go_on(env->policy);
    return rc;
}

// --- The pass

static void report(struct pass *p, const struct kept *k, const struct err *refused)
{
    bool selected = json_bool(json_get(k->json, "selected"), false);
    int64_t generation = kept_number(k, "generation");
    struct status *s = p->status;
    json_set_int(status_body(s), "inForceGeneration", selected ? generation : 0);
    if (refused != NULL && has_good(k))
        status_cond(s, "Accepted", COND_FALSE, "Invalid", "%s; generation %lld stays in force", refused->msg, (long long)generation);
    else if (refused != NULL)
        status_cond(s, "Accepted", COND_FALSE, "Invalid", "%s", refused->msg);
    else if (selected)
        status_cond(s, "Ready", COND_TRUE, "InForce", "limpet policy shows which of its fields count");
    else
        status_cond(s, "Ready", COND_TRUE, "NotSelected", "its nodeSelector does not match the labels of this node");
}

// Where no status may be written. False: the EdgeNode that it is about is not known yet.
static bool tell_event(struct pass *p, const struct err *refused)
{
    char key[KEY_MAX];
    struct err e = ERR_INIT;
    const struct kind_env *env = p->env;
    if (key_make(key, kind_edgenode.type.plural, env->ns, env->node, &e) < 0)
        return true;
    struct object_state *node = engine_state_of(env->engine, key);
    if (node != NULL)
        engine_event(env->engine, node, true, "PolicyRefused", "Validate", "EdgePolicy %s/%s: %s", p->ns, p->name, refused->msg);
    return node != NULL;
}

static bool is_shared(const struct pass *p)
{
    return strcmp(p->ns, p->env->ns) != 0;
}

static int accept(struct pass *p, struct kept *k, struct policy_doc *d, struct err *e)
{
    bool selected = is_for_us(p->env, d, json_bool(json_get(k->json, "selected"), false));
    json_free(k->json);
    (void)json_ok();
    k->json = json_object();
    json_set_int(k->json, "generation", p->generation);
    json_set_bool(k->json, "selected", selected);
    json_set(k->json, "spec", json_copy(p->spec));
    int rc = apply(p->env, d, selected, e);
    return rc < 0 ? rc : kept_save(k, p->env->db, p->key, e);
}

// The last good one stays; whether it is for this node may have changed meanwhile.
static int refuse(struct pass *p, struct kept *k, const struct err *refused, struct err *e)
{
    bool told = kept_number(k, "refused") == p->generation;
    if (has_good(k)) {
        struct policy_doc *d = document(p->env, p->key, json_get(k->json, "spec"), kept_number(k, "generation"), e);
        if (d == NULL)
            return e->cls;
        bool selected = is_for_us(p->env, d, json_bool(json_get(k->json, "selected"), false));
        json_set_bool(k->json, "selected", selected);
        int rc = apply(p->env, d, selected, e);
        if (rc < 0)
            return rc;
    } else if (k->json == NULL) {
        (void)json_ok();
        k->json = json_object();
    }
    if (!told && (!is_shared(p) || tell_event(p, refused)))
        json_set_int(k->json, "refused", p->generation);
    return kept_save(k, p->env->db, p->key, e);
}

static int policy_check_file(const struct kind *k, const struct kind_env *env, const struct json *object, struct err *e)
{
    (void)k;
    struct policy_doc *d = document(env, CHECKED_KEY, json_get(object, "spec"), 0, e);
    if (d == NULL)
        return e->cls;
    policy_doc_free(d);
    return 0;
}

static int policy_reconcile(struct pass *p, struct err *e)
{
    struct kept k AUTO_KEPT = { NULL };
    struct err refused = ERR_INIT;
    if (p->env->policy == NULL)
        return 0;
    int rc = kept_load(&k, p->env->db, p->key, e);
    if (rc < 0)
        return rc;
    struct policy_doc *d = document(p->env, p->key, p->spec, p->generation, &refused);
    if (d != NULL)
        rc = accept(p, &k, d, e);
    else if (refused.cls == E_INVAL || refused.cls == E_TOOBIG)
        rc = refuse(p, &k, &refused, e);
    else
        *e = refused, rc = refused.cls;
    if (rc < 0)
        return rc;
    report(p, &k, d == NULL ? &refused : NULL);
    if (d != NULL)
        return 0;
    *e = refused;
    return refused.cls;
}

static int policy_gone(struct pass *p, struct err *e)
{
    (void)e;
    if (p->env->policy != NULL)
        policy_drop(p->env->policy, p->key);
    return 0; // its intent goes with all that the engine forgets of it
}

static const char *const policy_short_names[] = { "epol", NULL };
static const char *const policy_conditions[] = { "Accepted", "Ready", NULL };

const struct kind kind_edgepolicy = {
    .type = { "edge.limpet.dev", "v1alpha1", "edgepolicies" },
    .name = "EdgePolicy",
    .short_names = policy_short_names,
    .conditions = policy_conditions,
    .write_status = true,
    .shared_ns = POLICY_SHARED_NS,
    .boot = policy_boot,
    .check_file = policy_check_file,
    .reconcile = policy_reconcile,
    .gone = policy_gone,
};
