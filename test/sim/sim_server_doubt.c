// SPDX-License-Identifier: Apache-2.0
// When what the server says is no proof of anything; its restarts, and the end of a credential.
#include <stdio.h>
#include <string.h>

#include "sim_server.h"

const char *const sim_doubt_words[DOUBTS] = {
    "none",
    "namespace terminating",
    "namespace not found",
    "403",
    "401",
    "another cluster",
    "another cluster with an empty namesake",
    "CRDs not served",
    "truncated lists",
    "captive portal",
    "restored database",
};

enum { READY_MS = 1000, LIVES_ON_MIN_MS = 8000, LIVES_ON_MAX_MS = 10000 };

static bool is_ours(const struct sim_place *p)
{
    return p->ns != NULL && strcmp(p->ns, SIM_NS) == 0;
}

static bool is_namespace(const struct sim_place *p, const char *name)
{
    return p->ns == NULL && p->name != NULL && strcmp(p->name, name) == 0;
}

static bool is_own_namespace(const struct sim_place *p)
{
    return is_namespace(p, SIM_NS);
}

// The one that all nodes share, where this world has it.
static bool is_shared_namespace(struct sim_server *v, const struct sim_place *p)
{
    return is_namespace(p, SIM_SHARED_NS) && sim_store_get(v, p->type, "", SIM_SHARED_NS) != NULL;
}

static void portal(struct sim_answer *a)
{
    sim_ok(a, "<html><body>Please accept our terms of use</body></html>");
    a->content_type = "text/html";
}

static void foreign_namespace(struct sim_answer *a, const char *name)
{
    struct err e = ERR_INIT;
    buf_reset(&a->body);
    if (buf_addf(&a->body, &e,
                 "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"%s\",\"uid\":\"ffffffff-0000-4000-8000-"
                 "%012zu\",\"resourceVersion\":\"9\"},\"status\":{\"phase\":\"Active\"}}",
                 name, strlen(name)) < 0)
        abort();
    a->status = 200;
}

static void terminating_namespace(struct sim_server *v, struct sim_answer *a)
{
    struct err e = ERR_INIT;
    struct sim_object *o = sim_store_get(v, sim_type_find(v, "", "v1", "namespaces"), "", SIM_NS);
    buf_reset(&a->body);
    if (buf_addf(&a->body, &e,
                 "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"" SIM_NS
                 "\",\"uid\":\"%s\",\"resourceVersion\":\"%lld\","
                 "\"deletionTimestamp\":\"2030-01-01T00:00:00Z\"},\"status\":{\"phase\":\"Terminating\"}}",
                 o->uid, (long long)v->rv) < 0)
        abort();
    a->status = 200;
}

// True: answered. Lists go on, with everything hidden.
bool sim_answer_in_doubt(struct sim_server *v, const struct sim_request *r, const struct sim_place *p, struct sim_answer *a)
{
    bool list = p->name == NULL && strcmp(r->method, "GET") == 0;
    switch (v->doubt) {
    case DOUBT_PORTAL:
        portal(a);
        return true;
    case DOUBT_UNAUTHORIZED:
        sim_fail(a, 401, "Unauthorized", "Unauthorized");
        return true;
    case DOUBT_FORBIDDEN:
        if (!is_ours(p) && !is_own_namespace(p) && !(list && strcmp(p->type->plural, "namespaces") == 0))
            return false;
        sim_fail(a, 403, "Forbidden", "%s is forbidden", p->type->plural);
        return true;
    case DOUBT_NO_CRD:
        if (strcmp(p->type->group, "edge.limpet.dev") != 0)
            return false;
        sim_page_not_found(a);
        return true;
    case DOUBT_TERMINATING:
        if (is_own_namespace(p))
            terminating_namespace(v, a);
        else if (is_ours(p) && strcmp(r->method, "POST") == 0)
            sim_fail(a, 403, "Forbidden", "unable to create new content in namespace " SIM_NS " because it is being terminated");
        else
            return false;
        return true;
    case DOUBT_NAMESAKE:
        if (!is_namespace(p, "kube-system") && !is_own_namespace(p) && !is_shared_namespace(v, p))
            return false;
        foreign_namespace(a, p->name);
        return true;
    case DOUBT_OTHER_CLUSTER:
        if (is_namespace(p, "kube-system")) {
            foreign_namespace(a, p->name);
            return true;
        }
        if (is_shared_namespace(v, p)) {
            sim_fail(a, 404, "NotFound", "not found");
            return true;
        }
        // fall through
    case DOUBT_NO_NAMESPACE:
        if (!is_own_namespace(p) && (list || !is_ours(p)))
            return false;
        sim_fail(a, 404, "NotFound", "not found");
        return true;
    default:
        return false;
    }
}

static bool hides_all(enum sim_doubt d)
{
    return d == DOUBT_OTHER_CLUSTER || d == DOUBT_NAMESAKE;
}

static bool hides_ours(enum sim_doubt d)
{
    return d == DOUBT_TERMINATING || d == DOUBT_NO_NAMESPACE || hides_all(d);
}

// A server that starts has heard nothing of the past: what its watches can tell begins at its start.
void sim_server_restart(struct sim_server *v)
{
    list_each_safe(it, next, &v->streams) {
        struct sim_stream *st = container_of(it, struct sim_stream, link);
        st->ended = true;
        st->wake(st);
    }
    list_each(it, &v->types) {
        struct sim_type *t = container_of(it, struct sim_type, link);
        sim_store_forget_past(v, t);
        if (t->schema != NULL)
            t->ready_ms = v->sim->now_ms + READY_MS;
    }
}

static void tell_deleted(struct sim_server *v, const struct sim_object *o)
{
    struct sim_change c = { .rv = ++v->rv, .what = "DELETED", .type = o->type, .text = o->text };
    snprintf(c.ns, sizeof(c.ns), "%s", o->ns);
    sim_tell_streams(v, &c);
}

// Of a restored database half of the objects are too new. A namespace that is being deleted takes its objects along while they are watched.
static void hide(struct sim_server *v, enum sim_doubt d)
{
    sim_each_object(o, v)
    {
        bool kind = strcmp(o->type->group, "edge.limpet.dev") == 0;
        bool own = strcmp(o->type->plural, "namespaces") == 0 && strcmp(o->name, SIM_NS) == 0; // from lists of those that are active
        bool gone = strcmp(o->ns, SIM_NS) == 0 ? hides_ours(d) : hides_all(d);
        o->hidden = (kind && (gone || (d == DOUBT_RESTORED && rng_chance(&v->rng, 50)))) || (own && hides_ours(d));
        if (o->hidden && d == DOUBT_TERMINATING)
            tell_deleted(v, o);
    }
}

// The end is as if nothing had been: the same objects, the same namespace. Only resourceVersions are others after a restored database, and
// higher than ever when the right one is back.
void sim_server_doubt(struct sim_server *v, enum sim_doubt d)
{
    enum { BACK = 500 };
    sim_note(v->sim, "server", "doubt: %s", sim_doubt_words[d]);
    if (d == DOUBT_RESTORED)
        sim_store_renumber(v, v->rv - BACK);
    else if (v->doubt == DOUBT_RESTORED)
        sim_store_renumber(v, v->rv + 2 * BACK);
    v->doubt = d;
    hide(v, d);
    sim_server_compact(v);
    if (d != DOUBT_TERMINATING)
        sim_server_restart(v);
}

void sim_server_delete_account(struct sim_server *v)
{
    sim_note(v->sim, "server", "the account is deleted");
    v->dead_token_ms = v->sim->now_ms + rng_between(&v->rng, LIVES_ON_MIN_MS, LIVES_ON_MAX_MS);
}
