// SPDX-License-Identifier: Apache-2.0
// Paths, verbs and Status objects.
#include "sim_server.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sim_meta.h"

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

static struct json *status_new(int code, const char *reason, const char *message)
{
    struct json *j = json_object();
    json_set_str(j, "kind", "Status");
    json_set_str(j, "apiVersion", "v1");
    json_set(j, "metadata", json_object());
    json_set_str(j, "status", "Failure");
    json_set_str(j, "message", message);
    json_set_str(j, "reason", reason);
    json_set_int(j, "code", code);
    return j;
}

// Takes the Status.
static void put_status(struct sim_answer *a, int code, struct json *j)
{
    struct err e = ERR_INIT;
    a->status = code;
    buf_reset(&a->body);
    if (json_print(j, &a->body, &e) < 0 || !json_ok())
        abort();
    json_free(j);
}

void sim_fail(struct sim_answer *a, int code, const char *reason, const char *fmt, ...)
{
    char message[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    put_status(a, code, status_new(code, reason, message));
}

// Come back in a second. Takes causes, NULL = none.
void sim_fail_later(struct sim_answer *a, int code, const char *reason, struct json *causes, const char *fmt, ...)
{
    char message[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    struct json *j = status_new(code, reason, message), *d = json_object();
    if (causes != NULL)
        json_set(d, "causes", causes);
    json_set_int(d, "retryAfterSeconds", 1);
    json_set(j, "details", d);
    put_status(a, code, j);
    a->retry_after_s = 1;
}

void sim_resource_name(const struct sim_type *t, char out[200])
{
    snprintf(out, 200, "%s%s%s", t->plural, t->group[0] != '\0' ? "." : "", t->group);
}

static struct json *details(const char *name, const char *group, const char *kind)
{
    struct json *d = json_object();
    if (name[0] != '\0')
        json_set_str(d, "name", name);
    if (group[0] != '\0')
        json_set_str(d, "group", group);
    if (kind[0] != '\0')
        json_set_str(d, "kind", kind);
    return d;
}

void sim_fail_object(struct sim_answer *a, int code, const char *reason, const struct sim_type *t, const char *name)
{
    static const struct {
        const char *reason, *before, *after;
    } says[] = {
        { "NotFound", "", " not found" },
        { "AlreadyExists", "", " already exists" },
        { "Conflict", "Operation cannot be fulfilled on ",
          ": the object has been modified; please apply your changes to the latest version and try again" },
    };
    char what[200], message[600] = "";
    sim_resource_name(t, what);
    for (size_t i = 0; i < ARRAY_LEN(says); i++)
        if (strcmp(says[i].reason, reason) == 0)
            snprintf(message, sizeof(message), "%s%s \"%s\"%s", says[i].before, what, name, says[i].after);
    struct json *j = status_new(code, reason, message);
    json_set(j, "details", details(name, t->group, t->plural));
    put_status(a, code, j);
}

void sim_fail_invalid(struct sim_answer *a, const char *group, const char *kind, const char *name, struct json *causes)
{
    char message[600];
    snprintf(message, sizeof(message), "%s%s%s \"%s\" is invalid", kind, group[0] != '\0' ? "." : "", group, name);
    struct json *j = status_new(422, "Invalid", message), *d = details(name, group, kind);
    json_set(d, "causes", causes);
    json_set(j, "details", d);
    put_status(a, 422, j);
}

void sim_fail_forbidden(struct sim_answer *a, const struct sim_type *t, const char *name, const char *ns)
{
    char what[200], message[400], says[200];
    struct json *causes = json_array();
    sim_resource_name(t, what);
    snprintf(message, sizeof(message),
             "%s \"%s\" is forbidden: unable to create new content in namespace %s because it is being terminated", what, name, ns);
    snprintf(says, sizeof(says), "namespace %s is being terminated", ns);
    sim_cause(causes, "NamespaceTerminating", "metadata.namespace", "%s", says);
    struct json *j = status_new(403, "Forbidden", message), *d = details(name, t->group, t->plural);
    json_set(d, "causes", causes);
    json_set(j, "details", d);
    put_status(a, 403, j);
}

void sim_fail_conflicts(struct sim_answer *a, struct json *causes)
{
    char message[100];
    size_t n = json_len(causes);
    snprintf(message, sizeof(message), "Apply failed with %zu conflict%s", n, n > 1 ? "s" : "");
    struct json *j = status_new(409, "Conflict", message), *d = json_object();
    json_set(d, "causes", causes);
    json_set(j, "details", d);
    put_status(a, 409, j);
}

void sim_page_not_found(struct sim_answer *a)
{
    a->status = 404;
    a->content_type = "text/plain";
    put(a, "404 page not found\n");
}

// A kind of a CRD says instead that the object is not there.
void sim_no_such_resource(struct sim_answer *a, const struct sim_type *t, const char *name)
{
    if (t->schema != NULL) {
        sim_fail_object(a, 404, "NotFound", t, name);
        return;
    }
    struct json *j = status_new(404, "NotFound", "the server could not find the requested resource");
    json_set(j, "details", json_object());
    put_status(a, 404, j);
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
                                         "labelSelector",
                                         "fieldSelector",
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

static void split(const char *url, struct sim_place *p)
{
    const char *end = url + strcspn(url, "?");
    for (const char *at = url; at < end && p->n < ARRAY_LEN(p->part);) {
        const char *slash = memchr(at + 1, '/', (size_t)(end - at - 1));
        const char *stop = slash != NULL ? slash : end;
        decode(at + 1, (size_t)(stop - at - 1), p->part[p->n++], SIM_NAME_MAX);
        at = stop;
    }
}

bool sim_find_place(struct sim_server *v, const char *url, struct sim_place *p)
{
    *p = (struct sim_place){ .n = 0 };
    split(url, p);
    size_t at = p->n > 0 && strcmp(p->part[0], "apis") == 0 ? 3 : 2;
    if (p->n <= at)
        return false;
    const char *group = at == 3 ? p->part[1] : "", *version = p->part[at - 1];
    if (p->n > at + 2 && strcmp(p->part[at], "namespaces") == 0) {
        p->ns = p->part[at + 1];
        at += 2;
    }
    p->type = sim_type_find(v, group, version, p->part[at]);
    p->name = p->n > at + 1 ? p->part[at + 1] : NULL;
    p->sub = p->n > at + 2 ? p->part[at + 2] : NULL;
    bool everywhere = p->type != NULL && p->type->namespaced && p->ns == NULL && p->name == NULL;
    return p->type != NULL && (everywhere || p->type->namespaced == (p->ns != NULL));
}

// --- Requests

static void get(struct sim_server *v, const struct sim_place *p, struct sim_answer *a)
{
    struct sim_object *o = sim_store_get(v, p->type, p->ns != NULL ? p->ns : "", p->name);
    if (o == NULL || o->hidden)
        sim_fail_object(a, 404, "NotFound", p->type, p->name);
    else
        sim_ok(a, o->text);
}

static void method_not_allowed(const struct sim_request *r, struct sim_answer *a)
{
    sim_fail(a, 405, "MethodNotAllowed", "%s is not supported", r->method);
}

static void dispatch(struct sim_server *v, const struct sim_request *r, const struct sim_place *p, struct sim_answer *a)
{
    const char *ns = p->ns != NULL ? p->ns : "";
    if (strcmp(r->method, "PATCH") == 0 && p->name != NULL)
        sim_patch(v, p->type, ns, p->name, p->sub, r, a);
    else if (p->sub != NULL && !(p->type->has_status && strcmp(p->sub, "status") == 0))
        sim_no_such_resource(a, p->type, p->name);
    else if (strcmp(r->method, "GET") == 0 && p->name != NULL)
        get(v, p, a);
    else if (strcmp(r->method, "GET") == 0)
        sim_list(v, p->type, ns, r, a);
    else if (strcmp(r->method, "POST") == 0 && p->name == NULL)
        sim_create(v, p->type, ns, r, a);
    else if (strcmp(r->method, "DELETE") == 0 && p->name != NULL && p->sub == NULL)
        sim_delete(v, p->type, ns, p->name, a);
    else
        method_not_allowed(r, a);
}

// Who wants only the metadata gets no more.
static void cut_to_metadata(const struct sim_request *r, struct sim_answer *a)
{
    struct json *j = NULL, *out;
    struct err e = ERR_INIT;
    bool wants = r->accept != NULL && strstr(r->accept, "as=PartialObjectMetadata;") != NULL && strcmp(r->method, "GET") != 0;
    if (!wants || a->status < 200 || a->status > 299 || json_parse(&j, buf_str(&a->body), a->body.len, &e) < 0)
        return;
    out = json_object();
    json_set_str(out, "kind", "PartialObjectMetadata");
    json_set_str(out, "apiVersion", "meta.k8s.io/v1");
    json_set(out, "metadata", json_copy(json_get(j, "metadata")));
    json_free(j);
    put_status(a, a->status, out);
}

// These tell the client that it is wrong. Only an old server may say so to a correct one.
static void be_strict(struct sim_server *v, const struct sim_request *r, const struct sim_answer *a)
{
    bool fault = a->status == 400 || a->status == 405 || a->status == 415 || a->status == 422;
    if (fault && !(v->old_server && strstr(r->url, "sendInitialEvents") != NULL))
        sim_violation(v->sim, "%s %.150s is answered with %.250s", r->method, r->url, buf_str(&a->body));
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
    sim_fail_later(a, 429, "TooManyRequests", NULL, "the server has received too many requests and has asked us to try again later");
    return true;
}

void sim_cloud_answer(struct sim_server *v, const struct sim_request *r, struct sim_answer *a)
{
    struct sim_place p;
    *a = (struct sim_answer){ .content_type = "application/json", .body = BUF_INIT(16 << 20) };
    v->requests++;
    if (turns_away(v, a))
        return;
    if (v->strict)
        check_parameters(v, r->url);
    if (v->sim->now_ms >= v->dead_token_ms) {
        sim_hit(v->sim, F_ACCOUNT);
        sim_fail(a, 401, "Unauthorized", "Unauthorized");
        return;
    }
    if (!sim_find_place(v, r->url, &p) || !p.type->served) {
        if (v->strict && p.type == NULL)
            sim_violation(v->sim, "%s %s: no such resource", r->method, r->url);
        if (p.type != NULL)
            sim_hit(v->sim, F_CRD_REMOVED);
        sim_page_not_found(a);
        return;
    }
    if (!sim_answer_in_doubt(v, r, &p, a)) {
        dispatch(v, r, &p, a);
        cut_to_metadata(r, a);
        if (v->strict)
            be_strict(v, r, a);
    }
    if (v->doubt == DOUBT_TRUNCATED && p.name == NULL && strcmp(r->method, "GET") == 0)
        a->cut = true;
}

void sim_server_answer(struct sim_server *v, const struct sim_request *r, struct sim_answer *a)
{
    if (v->meta != NULL)
        sim_meta_answer(v->meta, r, a);
    else
        sim_cloud_answer(v, r, a);
}
