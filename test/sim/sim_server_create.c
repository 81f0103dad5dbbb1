// SPDX-License-Identifier: Apache-2.0
// Create and delete, and what the built-in kinds insist on.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim_server.h"

enum { EVENT_WORD_MAX = 128, NOTE_BYTES_MAX = 1024 };

static bool is(const struct json *j, const char *text)
{
    const char *s = json_str(j);
    return s != NULL && strcmp(s, text) == 0;
}

static const char *text_of(const struct json *j, const char *path)
{
    const char *s = json_str(json_path(j, path));
    return s != NULL ? s : "";
}

// --- Events, as events.k8s.io/v1 has them

static void check_word(const struct json *ev, const char *key, struct json *causes)
{
    const char *s = text_of(ev, key);
    if (s[0] == '\0')
        sim_cause(causes, "FieldValueRequired", key, "Required value");
    else if (strlen(s) > EVENT_WORD_MAX)
        sim_cause(causes, "FieldValueInvalid", key, "can have at most %d characters", EVENT_WORD_MAX);
}

static bool is_name_part(const char *s)
{
    size_t n = strlen(s);
    bool ends = n > 0 && strchr("-_.", s[0]) == NULL && strchr("-_.", s[n - 1]) == NULL;
    return ends && n <= 63 && strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == n;
}

// A qualified name: [PREFIX/]NAME.
static void check_controller(const struct json *ev, struct json *causes)
{
    static const char field[] = "reportingController";
    const char *s = text_of(ev, field), *slash = strchr(s, '/');
    if (s[0] == '\0') {
        sim_cause(causes, "FieldValueRequired", field, "Required value");
        sim_cause(causes, "FieldValueInvalid", field, "name part must be non-empty");
        sim_cause(causes, "FieldValueInvalid", field, "name part must consist of alphanumeric characters");
    } else if (!is_name_part(slash != NULL ? slash + 1 : s)) {
        sim_cause(causes, "FieldValueInvalid", field, "name part must consist of alphanumeric characters");
    }
}

static void check_series(const struct json *ev, struct json *causes)
{
    int64_t count = 0;
    const struct json *series = json_get(ev, "series");
    if (series == NULL)
        return;
    if (!json_i64(json_get(series, "count"), &count) || count < 2)
        sim_cause(causes, "FieldValueInvalid", "series.count", "should be at least 2");
    if (json_get(series, "lastObservedTime") == NULL)
        sim_cause(causes, "FieldValueRequired", "series.lastObservedTime", "Required value");
}

static struct json *check_event(const struct json *ev, const char *ns)
{
    struct json *causes = json_array();
    if (!is(json_path(ev, "regarding.namespace"), ns) && text_of(ev, "regarding.namespace")[0] == '\0')
        sim_cause(causes, "FieldValueInvalid", "involvedObject.namespace", "does not match event.namespace");
    if (json_type(json_get(ev, "eventTime")) != JSON_STRING)
        sim_cause(causes, "FieldValueRequired", "eventTime", "Required value");
    if (!is(json_get(ev, "type"), "Normal") && !is(json_get(ev, "type"), "Warning"))
        sim_cause(causes, "FieldValueInvalid", "type", "has invalid value");
    check_word(ev, "reason", causes);
    check_word(ev, "action", causes);
    check_word(ev, "reportingInstance", causes);
    check_controller(ev, causes);
    if (strlen(text_of(ev, "note")) > NOTE_BYTES_MAX)
        sim_cause(causes, "FieldValueInvalid", "message", "can have at most %d characters", NOTE_BYTES_MAX);
    check_series(ev, causes);
    return causes;
}

// Times with microseconds and nothing else.
static bool is_micro_time(const struct json *v)
{
    int64_t us;
    const char *s = json_str(v);
    return s != NULL && strlen(s) == strlen("2030-01-01T00:00:00.000000Z") && rfc3339_parse(s, &us);
}

static bool times_can_be_read(const struct sim_type *t, const struct json *body, const char *const *paths, struct sim_answer *a)
{
    for (; *paths != NULL; paths++) {
        const struct json *v = json_path(body, *paths);
        if (v == NULL || json_type(v) == JSON_NULL || is_micro_time(v))
            continue;
        sim_fail(a, 400, "BadRequest", "%s in version \"%s\" cannot be handled as a %s: parsing time \"%.60s\"", t->kind, t->version,
                 t->kind, text_of(body, *paths));
        return false;
    }
    return true;
}

// --- Leases

struct json *sim_check_lease(const struct json *lease)
{
    int64_t seconds;
    struct json *causes = json_array();
    const struct json *d = json_path(lease, "spec.leaseDurationSeconds"), *moves = json_path(lease, "spec.leaseTransitions");
    if (d != NULL && (!json_i64(d, &seconds) || seconds <= 0))
        sim_cause(causes, "FieldValueInvalid", "spec.leaseDurationSeconds", "must be greater than 0");
    if (moves != NULL && (!json_i64(moves, &seconds) || seconds < 0))
        sim_cause(causes, "FieldValueInvalid", "spec.leaseTransitions", "must be greater than or equal to 0");
    if (json_len(causes) > 0)
        return causes;
    json_free(causes);
    return NULL;
}

// --- What a kind knows; the rest is dropped

static bool is_one_of(const char *key, const char *const *words)
{
    for (; *words != NULL; words++)
        if (strcmp(*words, key) == 0)
            return true;
    return false;
}

static void keep(struct json *from, const char *const *known)
{
    char name[64];
    for (const struct json *m = json_first(from), *next; m != NULL; m = next) {
        const char *text = json_str(m);
        next = json_next(m);
        snprintf(name, sizeof(name), "%s", json_key(m));
        if (!is_one_of(json_key(m), known) || (text != NULL && text[0] == '\0'))
            json_del(from, name);
    }
}

void sim_keep_known(const struct sim_type *t, struct json *object)
{
    static const char *const of_event[] = {
        "apiVersion", "kind",    "metadata", "eventTime", "series", "reportingController", "reportingInstance", "action", "reason",
        "regarding",  "related", "note",     "type",      NULL
    };
    static const char *const of_lease[] = { "holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime", "leaseTransitions",
                                            "strategy",       "preferredHolder",      NULL };
    sim_schema_prune(t->schema, object);
    sim_schema_default(t->schema, object);
    if (strcmp(t->plural, "events") == 0)
        keep(object, of_event);
    else if (strcmp(t->plural, "leases") == 0)
        keep((struct json *)json_get(object, "spec"), of_lease);
}

// --- Names

static bool is_subdomain(const char *s)
{
    size_t n = strlen(s);
    bool ends = n > 0 && strchr("-.", s[0]) == NULL && strchr("-.", s[n - 1]) == NULL;
    return ends && n <= 253 && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") == n && strstr(s, "..") == NULL;
}

static void check_name(const struct sim_type *t, const char *name, struct json *causes)
{
    bool label = strcmp(t->plural, "namespaces") == 0;
    if (name[0] == '\0')
        sim_cause(causes, "FieldValueRequired", "metadata.name", "Required value: name or generateName is required");
    else if (!is_subdomain(name) || (label && (strlen(name) > 63 || strchr(name, '.') != NULL)))
        sim_cause(causes, "FieldValueInvalid", "metadata.name", "a lowercase RFC 1123 subdomain must consist of lower case ...");
}

// --- Bodies

static void unsupported(struct sim_answer *a)
{
    sim_fail(a, 415, "UnsupportedMediaType",
             "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, "
             "application/vnd.kubernetes.protobuf");
}

// NULL: answered.
static struct json *body_of(const struct sim_type *t, const struct sim_request *r, struct sim_answer *a)
{
    struct json *j = NULL;
    struct err e = ERR_INIT;
    if (strcmp(r->content_type, "application/json") != 0) {
        unsupported(a);
        return NULL;
    }
    if (json_parse(&j, r->body, r->len, &e) == 0 && json_type(j) == JSON_OBJECT)
        return j;
    json_free(j);
    sim_fail(a, 400, "BadRequest", "the object provided is unrecognized (must be of type %s): %.200s", t->kind, e.msg);
    return NULL;
}

static bool is_of_kind(const struct sim_type *t, const struct json *body, struct sim_answer *a)
{
    char api[128];
    const char *have = text_of(body, "apiVersion"), *kind = text_of(body, "kind");
    snprintf(api, sizeof(api), "%s%s%s", t->group, t->group[0] != '\0' ? "/" : "", t->version);
    if (t->schema != NULL && kind[0] == '\0')
        sim_fail(a, 400, "BadRequest", "the object provided is unrecognized (must be of type %s): Object 'Kind' is missing", t->kind);
    else if (have[0] != '\0' && strcmp(have, api) != 0)
        sim_fail(a, 400, "BadRequest", "the API version in the data (%s) does not match the expected API version (%s)", have, api);
    else
        return true;
    return false;
}

static bool is_in_namespace(const char *ns, const struct json *body, struct sim_answer *a)
{
    const char *have = text_of(body, "metadata.namespace");
    if (have[0] == '\0' || strcmp(have, ns) == 0)
        return true;
    sim_fail(a, 400, "BadRequest", "the namespace of the provided object does not match the namespace sent on the request");
    return false;
}

static bool namespace_takes_it(struct sim_server *v, const struct sim_type *t, const char *ns, const char *name, struct sim_answer *a)
{
    const struct sim_type *namespaces = sim_type_find(v, "", "v1", "namespaces");
    struct sim_object *o = t->namespaced ? sim_store_get(v, namespaces, "", ns) : NULL;
    char what[200];
    if (!t->namespaced)
        return true;
    if (o == NULL) {
        sim_fail_object(a, 404, "NotFound", namespaces, ns);
        return false;
    }
    if (json_path(o->json, "metadata.deletionTimestamp") == NULL)
        return true;
    sim_resource_name(t, what);
    sim_fail_forbidden(a, t, name, ns);
    return false;
}

// --- Create

static struct json *causes_of(const struct sim_type *t, const char *ns, const char *name, const struct json *body)
{
    struct json *causes = json_array(), *more = NULL;
    check_name(t, name, causes);
    if (strcmp(t->plural, "events") == 0)
        more = check_event(body, ns);
    else if (strcmp(t->plural, "leases") == 0)
        more = sim_check_lease(body);
    else if (t->schema != NULL && !is(json_get(body, "kind"), t->kind))
        sim_cause(causes, "FieldValueInvalid", "kind", "must be %s", t->kind);
    else
        more = sim_schema_validate(t->schema, body, NULL);
    json_each(c, more) json_push(causes, json_copy(c));
    if (t->schema != NULL && t->schema->has_rules && name[0] == '\0')
        sim_cause(causes, "FieldValueInvalid", "<nil>", "some validation rules were not checked");
    json_free(more);
    return causes;
}

static bool is_valid(const struct sim_type *t, const char *ns, const char *name, const struct json *body, struct sim_answer *a)
{
    struct json *causes = causes_of(t, ns, name, body);
    const char *kind = t->schema != NULL ? text_of(body, "kind") : t->kind;
    if (json_len(causes) == 0) {
        json_free(causes);
        return true;
    }
    sim_fail_invalid(a, strcmp(t->plural, "events") == 0 ? "" : t->group, kind, name, causes);
    return false;
}

static bool can_be_read(const struct sim_type *t, const struct json *body, struct sim_answer *a)
{
    static const char *const of_event[] = { "eventTime", "series.lastObservedTime", NULL };
    static const char *const of_lease[] = { "spec.renewTime", "spec.acquireTime", NULL };
    if (strcmp(t->plural, "events") == 0)
        return times_can_be_read(t, body, of_event, a);
    return strcmp(t->plural, "leases") != 0 || times_can_be_read(t, body, of_lease, a);
}

void sim_complete_namespace(struct json *namespace, const char *name)
{
    struct json *meta = (struct json *)json_get(namespace, "metadata");
    struct json *spec = json_object(), *finalizers = json_array(), *status = json_object();
    json_push(finalizers, json_string("kubernetes"));
    json_set(spec, "finalizers", finalizers);
    json_set_str(status, "phase", "Active");
    json_set(namespace, "spec", spec);
    json_set(namespace, "status", status);
    if (json_get(meta, "labels") == NULL)
        json_set(meta, "labels", json_object());
    json_set_str((struct json *)json_get(meta, "labels"), "kubernetes.io/metadata.name", name);
}

// What the server adds of its own, or leaves out.
static void complete(const struct sim_type *t, const char *name, struct json *body)
{
    if (t->schema != NULL && t->has_status)
        json_del(body, "status");
    sim_keep_known(t, body);
    if (strcmp(t->plural, "namespaces") == 0)
        sim_complete_namespace(body, name);
}

static void add(struct sim_server *v, const struct sim_type *t, const char *ns, const char *name, struct json *body, struct sim_answer *a)
{
    struct sim_object *o = sim_store_add(v, t, ns, name, body);
    if (strcmp(t->plural, "events") == 0)
        sim_note(v->sim, "server", "event %s about %s: %.60s", text_of(o->json, "reason"), text_of(o->json, "regarding.name"),
                 text_of(o->json, "note"));
    if (strcmp(t->plural, "customresourcedefinitions") == 0)
        sim_server_install(v, o->json);
    sim_ok(a, o->text);
    a->status = 201;
}

static bool is_for_the_agent(const struct sim_type *t)
{
    return strcmp(t->plural, "events") == 0 || strcmp(t->plural, "leases") == 0;
}

void sim_create(struct sim_server *v, const struct sim_type *t, const char *ns, const struct sim_request *r, struct sim_answer *a)
{
    char name[SIM_NAME_MAX];
    struct json *body = body_of(t, r, a);
    if (body == NULL)
        return;
    snprintf(name, sizeof(name), "%s", text_of(body, "metadata.name"));
    if (v->strict && !is_for_the_agent(t))
        sim_violation(v->sim, "POST %s: the agent may not make these", t->plural);
    if (v->strict && strcmp(t->plural, "events") == 0 && !is(json_path(body, "regarding.namespace"), ns))
        sim_violation(v->sim, "an event that regards an object of another namespace");
    bool good = is_of_kind(t, body, a) && can_be_read(t, body, a) && is_in_namespace(ns, body, a) && namespace_takes_it(v, t, ns, name, a);
    if (good)
        complete(t, name, body);
    good = good && is_valid(t, ns, name, body, a);
    if (good && sim_store_get(v, t, ns, name) != NULL)
        sim_fail_object(a, 409, "AlreadyExists", t, name);
    else if (good)
        add(v, t, ns, name, steal(body), a);
    json_free(body);
}

// --- Delete

static void put_deleted(const struct sim_object *o, struct sim_answer *a)
{
    struct err e = ERR_INIT;
    struct json *j = json_object(), *d = json_object();
    json_set_str(j, "kind", "Status");
    json_set_str(j, "apiVersion", "v1");
    json_set(j, "metadata", json_object());
    json_set_str(j, "status", "Success");
    json_set_str(d, "name", o->name);
    if (o->type->group[0] != '\0')
        json_set_str(d, "group", o->type->group);
    json_set_str(d, "kind", o->type->plural);
    json_set_str(d, "uid", o->uid);
    json_set(j, "details", d);
    a->status = 200;
    buf_reset(&a->body);
    if (json_print(j, &a->body, &e) < 0)
        abort();
    json_free(j);
}

// Its content goes first, and until then nothing new gets in. Who empties it is no part of this server.
static void terminate(struct sim_server *v, struct sim_object *o, struct sim_answer *a)
{
    char when[RFC3339_MAX];
    json_set_str((struct json *)json_get(o->json, "metadata"), "deletionTimestamp", rfc3339_sec(sim_true_us(v->sim), when));
    json_set_str((struct json *)json_get(o->json, "status"), "phase", "Terminating");
    sim_store_changed(v, o);
    sim_ok(a, o->text);
}

void sim_delete(struct sim_server *v, const struct sim_type *t, const char *ns, const char *name, struct sim_answer *a)
{
    struct sim_object *o = sim_store_get(v, t, ns, name);
    if (v->strict)
        sim_violation(v->sim, "DELETE %s/%s: the agent may not", t->plural, name);
    if (o == NULL || o->hidden) {
        sim_fail_object(a, 404, "NotFound", t, name);
        return;
    }
    if (strcmp(t->plural, "namespaces") == 0) {
        terminate(v, o, a);
        return;
    }
    put_deleted(o, a);
    if (strcmp(t->plural, "customresourcedefinitions") == 0)
        sim_server_remove_kind(v, text_of(o->json, "spec.names.plural"));
    sim_store_remove(v, o);
}
