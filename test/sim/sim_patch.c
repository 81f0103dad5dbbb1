// SPDX-License-Identifier: Apache-2.0
// Merge patches, and server-side apply on /status.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim_server.h"
#include "wire/yaml.h"

enum { BODY_JSON_MAX = 4 << 20 };

static bool is(const struct json *j, const char *text)
{
    const char *s = json_str(j);
    return s != NULL && strcmp(s, text) == 0;
}

// --- Bodies

// NULL: answered with a 400.
static struct json *merge_body(const struct sim_request *r, struct sim_answer *a)
{
    struct json *j = NULL;
    struct err e = ERR_INIT;
    if (json_parse(&j, r->body, r->len, &e) == 0 && json_type(j) == JSON_OBJECT)
        return j;
    json_free(j);
    sim_fail(a, 400, "BadRequest", "error decoding patch: %.200s", e.msg);
    return NULL;
}

static struct json *apply_body(const struct sim_request *r, struct sim_answer *a)
{
    struct json *j = NULL;
    struct err e = ERR_INIT;
    struct buf text AUTO_BUF = BUF_INIT(BODY_JSON_MAX);
    if (json_parse(&j, r->body, r->len, &e) == 0)
        return j;
    if (yaml_to_json(r->body, r->len, 0, &text, &e) == 0 && json_parse(&j, buf_str(&text), text.len, &e) == 0)
        return j;
    sim_fail(a, 400, "BadRequest", "error decoding YAML: %.200s", e.msg);
    return NULL;
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

// --- Which object, and which version of it?

static bool rv_is_empty(const struct sim_object *o, struct sim_answer *a)
{
    char what[200];
    struct json *causes = json_array();
    sim_cause(causes, "FieldValueInvalid", "metadata.resourceVersion", "Invalid value: 0: must be specified for an update");
    sim_resource_name(o->type, what);
    sim_fail_invalid(a, o->type->group, o->type->plural, o->name, causes);
    return false;
}

// False: answered.
static bool rv_matches(const struct sim_object *o, const struct json *body, bool apply, struct sim_answer *a)
{
    char have[24];
    const char *want = json_str(json_path(body, "metadata.resourceVersion"));
    snprintf(have, sizeof(have), "%" PRId64, o->rv);
    if (want == NULL || strcmp(want, have) == 0)
        return true;
    if (want[0] == '\0')
        return apply || rv_is_empty(o, a);
    if (want[strspn(want, "0123456789")] != '\0')
        sim_fail(a, 500, NULL, "strconv.ParseUint: parsing \"%s\": invalid syntax", want);
    else
        sim_fail_object(a, 409, "Conflict", o->type, o->name);
    return false;
}

static bool name_matches(const struct sim_object *o, const struct json *body, struct sim_answer *a)
{
    const char *name = json_str(json_path(body, "metadata.name")), *ns = json_str(json_path(body, "metadata.namespace"));
    if (name != NULL && name[0] != '\0' && strcmp(name, o->name) != 0)
        sim_fail(a, 400, "BadRequest", "the name of the object (%s) does not match the name on the URL (%s)", name, o->name);
    else if (ns != NULL && ns[0] != '\0' && strcmp(ns, o->ns) != 0)
        sim_fail(a, 400, "BadRequest", "the namespace of the provided object does not match the namespace sent on the request");
    else
        return true;
    return false;
}

static bool kind_matches(const struct sim_object *o, const struct json *body, struct sim_answer *a)
{
    char api[128];
    const char *have = json_str(json_get(body, "apiVersion")), *kind = json_str(json_get(body, "kind"));
    snprintf(api, sizeof(api), "%s/%s", o->type->group, o->type->version);
    if (is(json_get(body, "apiVersion"), api) && is(json_get(body, "kind"), o->type->kind))
        return true;
    sim_fail(a, 400, "BadRequest", "invalid object type: %s, Kind=%s", have != NULL ? have : "/", kind != NULL ? kind : "");
    return false;
}

static void manager_of(const char *url, char manager[64])
{
    if (!sim_query(url, "fieldManager", manager, 64) || manager[0] == '\0')
        snprintf(manager, 64, "unknown");
}

// It is read with another schema than the one it was written with: the next write stores what that one makes of it.
static bool reads_otherwise(const struct sim_object *o)
{
    return o->stored != NULL && !json_equal(o->stored, o->json);
}

// --- /status

// Takes `whole`, of which only the status counts. `applied`: what of it the agent said; `before`: who had set what. Another owner of a field
// is a change, too.
static void take_status(struct sim_server *v, struct sim_object *o, struct json *whole, const struct json *before,
                        const struct json *applied, struct sim_answer *a)
{
    const struct json *status = json_get(whole, "status");
    json_free(o->applied);
    o->applied = applied != NULL ? json_copy(applied) : NULL;
    v->status_patches++;
    if (!json_equal(status, json_get(o->json, "status")) || !json_equal(before, o->managers) || reads_otherwise(o)) {
        if (status != NULL)
            json_set(o->json, "status", json_copy(status));
        else
            json_del(o->json, "status");
        sim_store_changed(v, o);
    }
    json_free(whole);
    sim_note(v->sim, "server", "status of %s/%s is taken, rv=%" PRId64, o->type->plural, o->name, o->rv);
    if (v->accepted != NULL)
        v->accepted(v->ctx, o);
    sim_ok(a, o->text);
}

// False: answered. Prunes it first.
static bool status_is_valid(const struct sim_object *o, struct json *whole, struct sim_answer *a)
{
    sim_schema_prune(o->type->schema, whole);
    struct json *causes = sim_schema_validate(o->type->schema, whole, "status");
    if (causes == NULL)
        return true;
    sim_fail_invalid(a, o->type->group, o->type->kind, o->name, causes);
    return false;
}

static bool is_declared(const struct sim_object *o, const struct json *body, struct sim_answer *a)
{
    char why[400];
    const char *ns = json_str(json_path(body, "metadata.namespace"));
    if (!sim_schema_is_untyped(o->type->schema, body, why, sizeof(why)))
        return true;
    sim_fail(a, 500, NULL, "failed to create typed patch object (%s/%s; %s/%s, Kind=%s): %s", ns != NULL ? ns : "", o->name, o->type->group,
             o->type->version, o->type->kind, why);
    return false;
}

static void apply(struct sim_server *v, struct sim_object *o, const struct sim_request *r, const struct json *body, struct sim_answer *a)
{
    char manager[64], force[8];
    const struct json *applied = json_get(body, "status");
    manager_of(r->url, manager);
    sim_query(r->url, "force", force, sizeof(force));
    if (v->strict && strcmp(force, "true") != 0)
        sim_violation(v->sim, "apply on %s/%s without force", o->type->plural, o->name);
    if (!kind_matches(o, body, a) || !name_matches(o, body, a) || !is_declared(o, body, a))
        return;
    if (!rv_matches(o, body, true, a))
        return;
    struct json *before AUTO_JSON = o->managers != NULL ? json_copy(o->managers) : NULL;
    struct json *whole = sim_apply_status(o, manager, strcmp(force, "true") == 0, applied, a);
    if (whole == NULL)
        return;
    if (status_is_valid(o, whole, a)) {
        take_status(v, o, whole, before, applied, a);
        return;
    }
    json_free(whole);
    json_free(o->managers);
    o->managers = steal(before);
}

static void merge_status(struct sim_server *v, struct sim_object *o, const struct sim_request *r, const struct json *body,
                         struct sim_answer *a)
{
    char manager[64];
    const struct json *have = json_get(o->json, "status"), *patch = json_get(body, "status");
    if (!rv_matches(o, body, false, a) || !name_matches(o, body, a))
        return;
    struct json *whole = json_object(), *part AUTO_JSON = json_object();
    if (have != NULL)
        json_set(whole, "status", json_copy(have));
    if (patch != NULL)
        json_set(part, "status", json_copy(patch));
    merge(whole, part);
    if (!status_is_valid(o, whole, a)) {
        json_free(whole);
        return;
    }
    struct json *before AUTO_JSON = o->managers != NULL ? json_copy(o->managers) : NULL;
    manager_of(r->url, manager);
    sim_note_update(o, manager, have, json_get(whole, "status"));
    take_status(v, o, whole, before, patch, a);
}

// --- The rest of an object

static bool uid_matches(const struct sim_object *o, const struct json *body, struct sim_answer *a)
{
    const char *uid = json_str(json_path(body, "metadata.uid"));
    if (uid == NULL || strcmp(uid, o->uid) == 0)
        return true;
    struct json *causes = json_array();
    sim_cause(causes, "FieldValueInvalid", "metadata.uid", "field is immutable");
    sim_fail_invalid(a, o->type->group, o->type->kind, o->name, causes);
    return false;
}

// What a patch may say of the metadata.
static void merge_metadata(struct json *meta, const struct json *patch)
{
    static const char *const keys[] = { "labels", "annotations" };
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const struct json *m = json_get(patch, keys[i]);
        if (json_type(m) == JSON_OBJECT && json_get(meta, keys[i]) == NULL)
            json_set(meta, keys[i], json_object());
        if (json_type(m) == JSON_OBJECT)
            merge((struct json *)json_get(meta, keys[i]), m);
        if (json_type(m) == JSON_NULL || (m != NULL && json_len(json_get(meta, keys[i])) == 0))
            json_del(meta, keys[i]);
    }
    if (json_get(patch, "managedFields") != NULL) // [{}] resets them
        json_del(meta, "managedFields");
}

// The object with the patch in it; the caller's.
static struct json *patched(const struct sim_object *o, const struct json *body)
{
    struct json *whole = json_copy(o->json);
    merge_metadata((struct json *)json_get(whole, "metadata"), json_get(body, "metadata"));
    json_each(m, body)
    {
        const char *key = json_key(m);
        if (strcmp(key, "metadata") == 0 || strcmp(key, "apiVersion") == 0 || strcmp(key, "kind") == 0 ||
            (strcmp(key, "status") == 0 && o->type->has_status))
            continue;
        struct json *one AUTO_JSON = json_object();
        json_set(one, key, json_copy(m));
        merge(whole, one);
    }
    sim_keep_known(o->type, whole);
    return whole;
}

static void take_whole(struct sim_server *v, struct sim_object *o, struct json *whole)
{
    bool spec = !json_equal(json_get(whole, "spec"), json_get(o->json, "spec"));
    if (json_equal(whole, o->json) && !reads_otherwise(o)) {
        json_free(whole);
        return;
    }
    json_free(o->json);
    o->json = whole;
    o->generation += spec;
    if (strcmp(o->type->plural, "customresourcedefinitions") == 0)
        sim_server_install(v, o->json);
    if (spec && o->type->schema != NULL)
        o->changed_ms = v->sim->now_ms;
    sim_store_changed(v, o);
}

static struct json *causes_of(const struct sim_object *o, const struct json *whole)
{
    return o->type->schema == NULL ? sim_check_lease(whole) : sim_schema_validate(o->type->schema, whole, NULL);
}

static void merge_main(struct sim_server *v, struct sim_object *o, const struct json *body, struct sim_answer *a)
{
    if (v->strict && strcmp(o->type->plural, "leases") != 0)
        sim_violation(v->sim, "a patch of %s/%s outside of /status", o->type->plural, o->name);
    if (!rv_matches(o, body, false, a) || !name_matches(o, body, a) || !uid_matches(o, body, a))
        return;
    struct json *whole = patched(o, body), *causes = causes_of(o, whole);
    if (causes != NULL) {
        json_free(whole);
        sim_fail_invalid(a, o->type->group, o->type->kind, o->name, causes);
        return;
    }
    take_whole(v, o, whole);
    sim_ok(a, o->text);
}

// --- Which patch is it?

static void unsupported(struct sim_answer *a)
{
    sim_fail(a, 415, "UnsupportedMediaType",
             "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, "
             "application/merge-patch+json, application/apply-patch+yaml");
}

static bool options_are_valid(const char *url, bool by_apply, struct sim_answer *a)
{
    char manager[64], force[8];
    bool named = sim_query(url, "fieldManager", manager, sizeof(manager)) && manager[0] != '\0';
    bool forced = sim_query(url, "force", force, sizeof(force));
    if (by_apply ? named : !forced)
        return true;
    struct json *causes = json_array();
    if (by_apply)
        sim_cause(causes, "FieldValueRequired", "fieldManager", "Required value: is required for apply patch");
    else
        sim_cause(causes, "FieldValueForbidden", "force", "Forbidden: may not be specified for non-apply patch");
    sim_fail_invalid(a, "meta.k8s.io", "PatchOptions", "", causes);
    return false;
}

static void patch_by(struct sim_server *v, struct sim_object *o, bool status, bool by_apply, const struct sim_request *r,
                     const struct json *body, struct sim_answer *a)
{
    if (by_apply && !status)
        sim_violation(v->sim, "apply on %s/%s outside of /status is not modelled", o->type->plural, o->name);
    else if (by_apply)
        apply(v, o, r, body, a);
    else if (status)
        merge_status(v, o, r, body, a);
    else
        merge_main(v, o, body, a);
}

void sim_patch(struct sim_server *v, const struct sim_type *t, const char *ns, const char *name, const char *sub,
               const struct sim_request *r, struct sim_answer *a)
{
    struct sim_object *o = sim_store_get(v, t, ns, name);
    bool status = sub != NULL && strcmp(sub, "status") == 0 && t->has_status && t->schema != NULL;
    bool by_merge = strcmp(r->content_type, "application/merge-patch+json") == 0;
    bool by_apply = strcmp(r->content_type, "application/apply-patch+yaml") == 0;
    struct json *body AUTO_JSON = NULL;
    if (sub != NULL && !status) {
        sim_no_such_resource(a, t, name);
        return;
    }
    if (!by_merge && !by_apply) {
        unsupported(a);
        return;
    }
    if (!options_are_valid(r->url, by_apply, a))
        return;
    if (o == NULL || o->hidden) {
        sim_fail_object(a, 404, "NotFound", t, name);
        return;
    }
    body = by_apply ? apply_body(r, a) : merge_body(r, a);
    if (body != NULL)
        patch_by(v, o, status, by_apply, r, body, a);
    if (!json_ok())
        abort();
}
