// SPDX-License-Identifier: Apache-2.0
// Paths, verbs and Status objects.
#include "sim_server.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const sim_doubt_words[DOUBTS] = {
    "none",           "namespace terminating", "namespace not found", "403", "401", "another cluster", "CRDs not served", "truncated lists",
    "captive portal", "restored database",
};

enum { PARTS_MAX = 9 };

// --- Answers

void sim_answer_fini(struct sim_answer *a)
{
    buf_fini(&a->body);
}

static void put(struct sim_answer *a, const char *text)
{
    struct err e = ERR_INIT;
    buf_reset(&a->body);
    if (buf_adds(&a->body, text, &e) < 0)
        abort();
}

void sim_ok(struct sim_answer *a, const char *text)
{
    a->status = 200;
    put(a, text);
}

void sim_fail(struct sim_answer *a, int code, const char *reason, const char *fmt, ...)
{
    char message[300];
    struct err e = ERR_INIT;
    struct json *j = json_object();
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    json_set_str(j, "kind", "Status");
    json_set_str(j, "apiVersion", "v1");
    json_set(j, "metadata", json_object());
    json_set_str(j, "status", "Failure");
    json_set_str(j, "message", message);
    json_set_str(j, "reason", reason);
    json_set_int(j, "code", code);
    a->status = code;
    buf_reset(&a->body);
    if (json_print(j, &a->body, &e) < 0 || !json_ok())
        abort();
    json_free(j);
}

static void page_not_found(struct sim_answer *a)
{
    a->status = 404;
    a->content_type = "text/plain";
    put(a, "404 page not found\n");
}

// --- Reading a URL

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

static void decode(const char *p, size_t n, char *out, size_t max)
{
    size_t at = 0;
    for (size_t i = 0; i < n && at + 1 < max; i++) {
        if (p[i] == '%' && i + 2 < n) {
            out[at++] = (char)(hex(p[i + 1]) << 4 | hex(p[i + 2]));
            i += 2;
        } else {
            out[at++] = p[i];
        }
    }
    out[at] = '\0';
}

int sim_query(const char *url, const char *key, char *out, size_t max)
{
    size_t n = strlen(key);
    for (const char *p = strchr(url, '?'); p != NULL; p = strchr(p + 1, '&'))
        if (strncmp(p + 1, key, n) == 0 && p[1 + n] == '=') {
            const char *value = p + 2 + n;
            decode(value, strcspn(value, "&"), out, max);
            return 1;
        }
    out[0] = '\0';
    return 0;
}

static void check_parameters(struct sim_server *v, const char *url)
{
    static const char *const known[] = { "watch",
                                         "allowWatchBookmarks",
                                         "sendInitialEvents",
                                         "resourceVersionMatch",
                                         "resourceVersion",
                                         "timeoutSeconds",
                                         "limit",
                                         "continue",
                                         "fieldManager",
                                         "force" };
    for (const char *p = strchr(url, '?'); p != NULL; p = strchr(p + 1, '&')) {
        bool is_known = false;
        size_t n = strcspn(p + 1, "=");
        for (size_t i = 0; i < ARRAY_LEN(known); i++)
            is_known = is_known || (strlen(known[i]) == n && strncmp(known[i], p + 1, n) == 0);
        if (!is_known)
            sim_violation(v->sim, "a parameter that no API server knows: %.*s", (int)n, p + 1);
    }
}

// "/apis/GROUP/VERSION/[namespaces/NS/]PLURAL[/NAME[/SUB]]" or "/api/v1/..."
struct place {
    char part[PARTS_MAX][SIM_NAME_MAX];
    size_t n;
    const struct sim_type *type;
    const char *ns, *name, *sub; // NULL = not named
};

static void split(const char *url, struct place *p)
{
    const char *end = url + strcspn(url, "?");
    for (const char *at = url; at < end && p->n < PARTS_MAX;) {
        const char *slash = memchr(at + 1, '/', (size_t)(end - at - 1));
        const char *stop = slash != NULL ? slash : end;
        decode(at + 1, (size_t)(stop - at - 1), p->part[p->n++], SIM_NAME_MAX);
        at = stop;
    }
}

static bool find_place(const char *url, struct place *p)
{
    *p = (struct place){ .n = 0 };
    split(url, p);
    size_t at = p->n > 0 && strcmp(p->part[0], "apis") == 0 ? 3 : 2;
    if (p->n <= at)
        return false;
    const char *group = at == 3 ? p->part[1] : "", *version = p->part[at - 1];
    if (p->n > at + 2 && strcmp(p->part[at], "namespaces") == 0) {
        p->ns = p->part[at + 1];
        at += 2;
    }
    p->type = sim_type_find(group, version, p->part[at]);
    p->name = p->n > at + 1 ? p->part[at + 1] : NULL;
    p->sub = p->n > at + 2 ? p->part[at + 2] : NULL;
    return p->type != NULL && p->type->namespaced == (p->ns != NULL);
}

// --- Doubt

static bool is_ours(const struct place *p)
{
    return p->ns != NULL && strcmp(p->ns, SIM_NS) == 0;
}

static bool is_own_namespace(const struct place *p)
{
    return p->ns == NULL && p->name != NULL && strcmp(p->name, SIM_NS) == 0;
}

static void portal(struct sim_answer *a)
{
    a->status = 200;
    a->content_type = "text/html";
    put(a, "<html><body>Please accept our terms of use</body></html>");
}

static void foreign_namespace(struct sim_answer *a)
{
    sim_ok(a, "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"kube-system\",\"uid\":\"ffffffff-0000-4000-8000-"
              "000000000000\","
              "\"resourceVersion\":\"9\"},\"status\":{\"phase\":\"Active\"}}");
}

static void terminating_namespace(struct sim_server *v, struct sim_answer *a)
{
    struct err e = ERR_INIT;
    struct sim_object *o = sim_store_get(v, sim_types, "", SIM_NS);
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
static bool answer_in_doubt(struct sim_server *v, const struct sim_request *r, const struct place *p, struct sim_answer *a)
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
        if (!is_ours(p) && !is_own_namespace(p))
            return false;
        sim_fail(a, 403, "Forbidden", "%s is forbidden", p->type->plural);
        return true;
    case DOUBT_NO_CRD:
        if (strcmp(p->type->group, "edge.limpet.dev") != 0)
            return false;
        page_not_found(a);
        return true;
    case DOUBT_TERMINATING:
        if (is_own_namespace(p))
            terminating_namespace(v, a);
        else if (is_ours(p) && strcmp(r->method, "POST") == 0)
            sim_fail(a, 403, "Forbidden", "unable to create new content in namespace " SIM_NS " because it is being terminated");
        else
            return false;
        return true;
    case DOUBT_OTHER_CLUSTER:
        if (p->ns == NULL && p->name != NULL && strcmp(p->name, "kube-system") == 0) {
            foreign_namespace(a);
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
    return d == DOUBT_TERMINATING || d == DOUBT_NO_NAMESPACE || d == DOUBT_OTHER_CLUSTER;
}

void sim_server_restart(struct sim_server *v)
{
    list_each_safe(it, next, &v->streams) {
        struct sim_stream *st = container_of(it, struct sim_stream, link);
        st->ended = true;
        st->wake(st);
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
        o->hidden = kind && (hides_all(d) || (d == DOUBT_RESTORED && rng_chance(&v->rng, 50)));
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

// --- Requests

static void get(struct sim_server *v, const struct place *p, struct sim_answer *a)
{
    struct sim_object *o = sim_store_get(v, p->type, p->ns != NULL ? p->ns : "", p->name);
    if (o == NULL || o->hidden)
        sim_fail(a, 404, "NotFound", "%s \"%s\" not found", p->type->plural, p->name);
    else
        sim_ok(a, o->text);
}

static void dispatch(struct sim_server *v, const struct sim_request *r, const struct place *p, struct sim_answer *a)
{
    const char *ns = p->ns != NULL ? p->ns : "";
    if (strcmp(r->method, "GET") == 0 && p->name != NULL && p->sub == NULL)
        get(v, p, a);
    else if (strcmp(r->method, "GET") == 0 && p->name == NULL)
        sim_list(v, p->type, ns, r, a);
    else if (strcmp(r->method, "POST") == 0 && p->name == NULL)
        sim_create(v, p->type, ns, r, a);
    else if (strcmp(r->method, "PATCH") == 0 && p->name != NULL)
        sim_patch(v, p->type, ns, p->name, p->sub, r, a);
    else
        sim_violation(v->sim, "%s %s: no API server does that", r->method, r->url);
}

// A server that is asked too much says so, and when to come again.
static bool turns_away(struct sim_server *v, struct sim_answer *a)
{
    if (v->sim->now_ms / 1000 != v->second) {
        v->second = v->sim->now_ms / 1000;
        v->in_second = 0;
    }
    if (v->max_per_s == 0 || ++v->in_second <= v->max_per_s)
        return false;
    v->turned_away++;
    sim_fail(a, 429, "TooManyRequests", "the server has received too many requests and has asked us to try again later");
    a->retry_after_s = 1;
    return true;
}

void sim_server_answer(struct sim_server *v, const struct sim_request *r, struct sim_answer *a)
{
    struct place p;
    *a = (struct sim_answer){ .content_type = "application/json", .body = BUF_INIT(16 << 20) };
    v->requests++;
    if (turns_away(v, a))
        return;
    check_parameters(v, r->url);
    if (!find_place(r->url, &p)) {
        sim_violation(v->sim, "%s %s: no such resource", r->method, r->url);
        page_not_found(a);
        return;
    }
    if (!answer_in_doubt(v, r, &p, a))
        dispatch(v, r, &p, a);
    if (v->doubt == DOUBT_TRUNCATED && p.name == NULL && strcmp(r->method, "GET") == 0)
        a->cut = true;
}
