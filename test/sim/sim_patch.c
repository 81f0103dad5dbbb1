// SPDX-License-Identifier: Apache-2.0
// Writes: create, merge patch, server-side apply on /status.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim_server.h"

enum { EVENT_WORD_MAX = 128, NOTE_BYTES_MAX = 1024 };

static bool is(const struct json *j, const char *text)
{
    const char *s = json_str(j);
    return s != NULL && strcmp(s, text) == 0;
}

static struct json *body_of(struct sim_server *v, const struct sim_request *r)
{
    struct json *j = NULL;
    struct err e = ERR_INIT;
    if (json_parse(&j, r->body, r->len, &e) < 0)
        sim_violation(v->sim, "%s %.100s: the body is no JSON: %.100s", r->method, r->url, e.msg);
    return j;
}

// RFC 7386.
static void merge(struct json *into, const struct json *patch)
{
    json_each(m, patch)
    {
        struct json *have = (struct json *)json_get(into, json_key(m));
        if (json_type(m) == JSON_NULL)
            json_del(into, json_key(m));
        else if (json_type(m) == JSON_OBJECT && json_type(have) == JSON_OBJECT)
            merge(have, m);
        else
            json_set(into, json_key(m), json_copy(m));
    }
}

// False: answered with a conflict.
static bool rv_matches(const struct sim_object *o, const struct json *body, struct sim_answer *a)
{
    char have[24];
    const char *want = json_str(json_path(body, "metadata.resourceVersion"));
    snprintf(have, sizeof(have), "%" PRId64, o->rv);
    if (want == NULL || strcmp(want, have) == 0)
        return true;
    sim_fail(a, 409, "Conflict",
             "Operation cannot be fulfilled on %s \"%s\": the object has been modified; please apply your changes to the latest version",
             o->type->plural, o->name);
    return false;
}

// --- Conditions are a map by type: those of other managers stay.

static const struct json *condition(const struct json *list, const char *type)
{
    json_each(c, list) if (is(json_get(c, "type"), type)) return c;
    return NULL;
}

static struct json *apply_conditions(const struct json *have, const struct json *applied_before, const struct json *applied)
{
    struct json *out = json_array();
    json_each(c, have)
    {
        const char *type = json_str(json_get(c, "type"));
        if (condition(applied_before, type) == NULL && condition(applied, type) == NULL)
            json_push(out, json_copy(c));
    }
    json_each(c, applied) json_push(out, json_copy(c));
    return out;
}

static struct json *apply_status(const struct sim_object *o, const struct json *applied)
{
    const struct json *have = json_get(o->json, "status");
    struct json *out = have != NULL ? json_copy(have) : json_object();
    json_each(m, o->applied) if (json_get(applied, json_key(m)) == NULL) json_del(out, json_key(m));
    json_each(m, applied)
    {
        const char *key = json_key(m);
        bool conditions = strcmp(key, "conditions") == 0;
        json_set(out, key, conditions ? apply_conditions(json_get(have, key), json_get(o->applied, key), m) : json_copy(m));
    }
    return out;
}

// --- /status

static void check_conditions(struct sim_server *v, const struct sim_object *o, const struct json *list)
{
    static const char *const required[] = { "type", "status", "lastTransitionTime", "reason", "message" };
    json_each(c, list)
    {
        for (size_t i = 0; i < ARRAY_LEN(required); i++)
            if (json_str(json_get(c, required[i])) == NULL)
                sim_violation(v->sim, "%s/%s: a condition without %s", o->type->plural, o->name, required[i]);
        if (json_str(json_get(c, "reason")) != NULL && json_str(json_get(c, "reason"))[0] == '\0')
            sim_violation(v->sim, "%s/%s: a condition with an empty reason", o->type->plural, o->name);
    }
}

static void take_status(struct sim_server *v, struct sim_object *o, struct json *status, const struct json *applied, struct sim_answer *a)
{
    json_free(o->applied);
    o->applied = json_copy(applied);
    v->status_patches++;
    check_conditions(v, o, json_get(status, "conditions"));
    if (json_equal(status, json_get(o->json, "status"))) {
        json_free(status);
    } else {
        json_set(o->json, "status", status);
        sim_store_changed(v, o);
    }
    sim_note(v->sim, "server", "status of %s/%s is taken, rv=%" PRId64 " ready=%s", o->type->plural, o->name, o->rv,
             json_str(json_get(condition(json_path(o->json, "status.conditions"), "Ready"), "status")));
    if (v->accepted != NULL)
        v->accepted(v->ctx, o);
    sim_ok(a, o->text);
}

static void apply(struct sim_server *v, struct sim_object *o, const struct sim_request *r, const struct json *body, struct sim_answer *a)
{
    char manager[32], force[8], api[96];
    snprintf(api, sizeof(api), "%s/%s", o->type->group, o->type->version);
    sim_query(r->url, "fieldManager", manager, sizeof(manager));
    sim_query(r->url, "force", force, sizeof(force));
    if (manager[0] == '\0' || strcmp(force, "true") != 0 || !is(json_get(body, "apiVersion"), api) ||
        !is(json_get(body, "kind"), o->type->kind) || !is(json_path(body, "metadata.name"), o->name))
        sim_violation(v->sim, "apply on %s/%s names no manager, or not this object", o->type->plural, o->name);
    const struct json *applied = json_get(body, "status");
    if (rv_matches(o, body, a))
        take_status(v, o, apply_status(o, applied), applied, a);
}

static void merge_status(struct sim_server *v, struct sim_object *o, const struct json *body, struct sim_answer *a)
{
    if (!rv_matches(o, body, a))
        return;
    const struct json *have = json_get(o->json, "status"), *patch = json_get(body, "status");
    struct json *out = have != NULL ? json_copy(have) : json_object();
    merge(out, patch);
    take_status(v, o, out, patch, a);
}

static void merge_main(struct sim_server *v, struct sim_object *o, const struct json *body, struct sim_answer *a)
{
    if (strcmp(o->type->plural, "leases") != 0)
        sim_violation(v->sim, "a patch of %s/%s outside of /status", o->type->plural, o->name);
    if (!rv_matches(o, body, a))
        return;
    struct json *spec = (struct json *)json_get(o->json, "spec");
    if (spec != NULL)
        merge(spec, json_get(body, "spec"));
    sim_store_changed(v, o);
    sim_ok(a, o->text);
}

void sim_patch(struct sim_server *v, const struct sim_type *t, const char *ns, const char *name, const char *sub,
               const struct sim_request *r, struct sim_answer *a)
{
    struct sim_object *o = sim_store_get(v, t, ns, name);
    struct json *body AUTO_JSON = body_of(v, r);
    bool by_merge = strcmp(r->content_type, "application/merge-patch+json") == 0;
    bool by_apply = strcmp(r->content_type, "application/apply-patch+yaml") == 0;
    if (o == NULL || o->hidden)
        sim_fail(a, 404, "NotFound", "%s \"%s\" not found", t->plural, name);
    else if (sub != NULL && strcmp(sub, "status") == 0 && t->has_status && by_apply)
        apply(v, o, r, body, a);
    else if (sub != NULL && strcmp(sub, "status") == 0 && t->has_status && by_merge)
        merge_status(v, o, body, a);
    else if (sub == NULL && by_merge)
        merge_main(v, o, body, a);
    else
        sim_violation(v->sim, "PATCH %.100s with %s: no API server does that", r->url, r->content_type);
    if (!json_ok())
        abort();
}

// --- Create

static void require(struct sim_server *v, const struct json *ev, const char *key, size_t max)
{
    const char *s = json_str(json_get(ev, key));
    if (s == NULL || s[0] == '\0' || strlen(s) > max)
        sim_violation(v->sim, "an event whose %s is missing or over %zu bytes", key, max);
}

// As the server's validation of events.k8s.io/v1.
static void check_event(struct sim_server *v, const struct json *ev, const char *ns)
{
    int64_t us;
    const char *when = json_str(json_get(ev, "eventTime")), *note = json_str(json_get(ev, "note"));
    require(v, ev, "reason", EVENT_WORD_MAX);
    require(v, ev, "action", EVENT_WORD_MAX);
    require(v, ev, "reportingController", EVENT_WORD_MAX);
    require(v, ev, "reportingInstance", EVENT_WORD_MAX);
    if (!is(json_get(ev, "type"), "Normal") && !is(json_get(ev, "type"), "Warning"))
        sim_violation(v->sim, "an event that is neither Normal nor Warning");
    if (when == NULL || !rfc3339_parse(when, &us) || strlen(when) != strlen("2030-01-01T00:00:00.000000Z"))
        sim_violation(v->sim, "an event without an eventTime in microseconds");
    if (note != NULL && strlen(note) > NOTE_BYTES_MAX)
        sim_violation(v->sim, "an event with a note over %d bytes", NOTE_BYTES_MAX);
    if (!is(json_path(ev, "regarding.namespace"), ns))
        sim_violation(v->sim, "an event that regards an object of another namespace");
}

static bool is_name(const char *s)
{
    return s != NULL && s[0] != '\0' && s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-.")] == '\0' && strlen(s) < SIM_NAME_MAX;
}

void sim_create(struct sim_server *v, const struct sim_type *t, const char *ns, const struct sim_request *r, struct sim_answer *a)
{
    struct json *body = body_of(v, r);
    const char *name = json_str(json_path(body, "metadata.name"));
    bool event = strcmp(t->plural, "events") == 0;
    if (strcmp(r->content_type, "application/json") != 0 || !is_name(name) || (!event && strcmp(t->plural, "leases") != 0)) {
        sim_violation(v->sim, "POST %s: this object cannot be created: %.120s", t->plural, name != NULL ? name : "without a name");
        json_free(body);
        return;
    }
    if (event)
        check_event(v, body, ns);
    if (sim_store_get(v, t, ns, name) != NULL) {
        sim_fail(a, 409, "AlreadyExists", "%s \"%s\" already exists", t->plural, name);
        json_free(body);
        return;
    }
    char copy[SIM_NAME_MAX];
    snprintf(copy, sizeof(copy), "%s", name);
    struct sim_object *o = sim_store_add(v, t, ns, copy, body);
    if (event)
        sim_note(v->sim, "server", "event %s about %s: %.60s", json_str(json_get(o->json, "reason")),
                 json_str(json_path(o->json, "regarding.name")), json_str(json_get(o->json, "note")));
    sim_ok(a, o->text);
    a->status = 201;
}
