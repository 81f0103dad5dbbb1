// SPDX-License-Identifier: Apache-2.0
// The server's kinds, objects and their history, and what users do to them.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl/manifests.h"
#include "sim_server.h"
#include "wire/yaml.h"

// A resource version at which every server of ours began.
enum { FIRST_RV = 1000, HISTORY_KEPT = 400, RING_LEAST = 100, RING_MOST = 102400, FRESH_MS = 75 * 1000, CRD_JSON_MAX = 1 << 20 };

// --- Kinds. Types stay for good, served or not: objects of the past and watches know them.

struct sim_type *sim_type_find(struct sim_server *v, const char *group, const char *version, const char *plural)
{
    list_each(it, &v->types) {
        struct sim_type *t = container_of(it, struct sim_type, link);
        if (strcmp(t->group, group) == 0 && strcmp(t->version, version) == 0 && strcmp(t->plural, plural) == 0)
            return t;
    }
    return NULL;
}

static struct sim_type *type_of_plural(struct sim_server *v, const char *plural)
{
    list_each(it, &v->types) {
        struct sim_type *t = container_of(it, struct sim_type, link);
        if (strcmp(t->plural, plural) == 0)
            return t;
    }
    abort();
}

static struct sim_type *type_add(struct sim_server *v, const char *group, const char *version, const char *plural, const char *kind)
{
    struct sim_type *t = calloc(1, sizeof(*t));
    if (t == NULL)
        abort();
    *t = (struct sim_type){ .namespaced = true, .served = true, .oldest_rv = v->rv };
    t->group = strdup(group);
    t->version = strdup(version);
    t->plural = strdup(plural);
    t->kind = strdup(kind);
    list_add_tail(&v->types, &t->link);
    return t;
}

struct sim_object *sim_store_get(struct sim_server *v, const struct sim_type *t, const char *ns, const char *name)
{
    sim_each_object(o, v) if (o->type == t && strcmp(o->ns, ns) == 0 && strcmp(o->name, name) == 0) return o;
    return NULL;
}

// --- As text

// Most of a small object's bytes are these; the agent must drop them.
static struct json *managed_fields(const struct sim_object *o)
{
    char when[RFC3339_MAX];
    struct json *list = json_array(), *m = json_object(), *fields = json_object(), *spec = json_object();
    json_set_str(m, "manager", "kubectl-client-side-apply");
    json_set_str(m, "operation", "Update");
    json_set_str(m, "apiVersion", o->type->version);
    json_set_str(m, "time", rfc3339_sec(INT64_C(1893456000) * 1000000, when));
    json_set(spec, "f:replicas", json_object());
    json_set(fields, "f:spec", spec);
    json_set(m, "fieldsV1", fields);
    json_push(list, m);
    return list;
}

static void print(struct sim_object *o)
{
    char text[24];
    struct buf b = BUF_INIT(4 << 20);
    struct err e = ERR_INIT;
    struct json *meta = (struct json *)json_get(o->json, "metadata");
    snprintf(text, sizeof(text), "%" PRId64, o->rv);
    json_set_str(meta, "resourceVersion", text);
    if (o->type->schema != NULL)
        json_set_int(meta, "generation", o->generation);
    if (json_print(o->json, &b, &e) < 0 || !json_ok())
        abort();
    free(o->text);
    o->text = buf_steal(&b);
}

// --- History

static void change_free(struct sim_change *c)
{
    list_del(&c->link);
    free(c->text);
    free(c->before);
    free(c);
}

static struct sim_change *change_of(struct list *l)
{
    return container_of(l, struct sim_change, link);
}

static void compact_to(struct sim_server *v, int64_t rv)
{
    v->compacted_rv = MAX(v->compacted_rv, rv);
    while (!list_empty(&v->history) && change_of(v->history.next)->rv <= rv)
        change_free(change_of(v->history.next));
}

static void forget_snapshots(struct sim_server *v)
{
    for (size_t i = 0; i < SIM_TOKENS; i++)
        sim_snapshot_fini(&v->tokens[i]);
}

void sim_server_compact(struct sim_server *v)
{
    sim_note(v->sim, "server", "history is compacted at rv=%" PRId64, v->rv);
    compact_to(v, v->rv);
    forget_snapshots(v);
}

void sim_store_forget_past(struct sim_server *v, struct sim_type *t)
{
    t->oldest_rv = v->rv;
    t->ring = (struct sim_ring){ .capacity = RING_LEAST, .told_from = v->rv };
    list_each_safe(it, next, &v->history) {
        if (change_of(it)->type == t)
            change_free(change_of(it));
    }
}

static struct sim_ring *ring_of(const struct sim_type *t)
{
    return (struct sim_ring *)&t->ring;
}

// The nth oldest change of a type.
static struct sim_change *nth_of(struct sim_server *v, const struct sim_type *t, size_t nth)
{
    list_each(it, &v->history)
        if (change_of(it)->type == t && nth-- == 0)
            return change_of(it);
    abort();
}

static bool is_fresh(const struct sim_server *v, const struct sim_change *c)
{
    return v->sim->now_ms - c->at_ms < FRESH_MS;
}

static void drop_oldest(struct sim_server *v, const struct sim_type *t, size_t keep)
{
    struct sim_ring *r = ring_of(t);
    while (r->n > keep) {
        change_free(nth_of(v, t, 0));
        r->n--;
    }
    if (r->n > 0)
        r->told_from = nth_of(v, t, 0)->rv - 1;
}

// The ring is full before the new one comes: does it grow, does it shrink, or does the oldest go?
static void add_to_ring(struct sim_server *v, const struct sim_change *c)
{
    struct sim_ring *r = ring_of(c->type);
    if (r->n == r->capacity) {
        if (is_fresh(v, nth_of(v, c->type, 0)))
            r->capacity = MIN(r->capacity * 2, (size_t)RING_MOST);
        else if (!is_fresh(v, nth_of(v, c->type, r->n - r->n / 4)))
            r->capacity = MAX(r->capacity / 2, (size_t)RING_LEAST);
    }
    r->n++;
    if (r->n > r->capacity)
        drop_oldest(v, c->type, r->capacity);
}

void sim_server_keep_rings(struct sim_server *v)
{
    compact_to(v, v->rv);
    v->rings = true;
    list_each(it, &v->types)
        container_of(it, struct sim_type, link)->ring = (struct sim_ring){ .capacity = RING_LEAST, .told_from = v->rv };
}

bool sim_store_too_old(const struct sim_server *v, const struct sim_type *t, int64_t rv)
{
    return rv < MAX(t->oldest_rv, v->rings ? t->ring.told_from : v->compacted_rv);
}

// Leases and events are written all the time, and no agent follows them.
static bool is_followed(const struct sim_type *t)
{
    return strcmp(t->group, "edge.limpet.dev") == 0;
}

// Takes `before`.
static void record(struct sim_server *v, const struct sim_object *o, const char *what, char *before)
{
    if (v->rings && !is_followed(o->type)) {
        free(before);
        return;
    }
    struct sim_change *c = calloc(1, sizeof(*c));
    if (c == NULL)
        abort();
    *c = (struct sim_change){
        .rv = o->rv, .at_ms = v->sim->now_ms, .what = what, .type = o->type, .text = strdup(o->text), .before = before
    };
    snprintf(c->ns, sizeof(c->ns), "%s", o->ns);
    list_add_tail(&v->history, &c->link);
    sim_tell_streams(v, c);
    if (v->rings)
        add_to_ring(v, c);
    else if (v->rv - change_of(v->history.next)->rv > HISTORY_KEPT)
        compact_to(v, v->rv - HISTORY_KEPT);
}

void sim_store_changed(struct sim_server *v, struct sim_object *o)
{
    char *before = steal(o->text);
    o->rv = ++v->rv;
    v->writes++;
    json_free(steal(o->stored));
    print(o);
    record(v, o, "MODIFIED", before);
}

// Another schema reads what is stored: nothing is written by that.
void sim_store_reread(struct sim_server *v UNUSED, struct sim_object *o)
{
    struct json *stored = o->stored != NULL ? steal(o->stored) : json_copy(o->json);
    json_free(o->json);
    o->json = json_copy(stored);
    o->stored = stored;
    sim_schema_prune(o->type->schema, o->json);
    sim_schema_default(o->type->schema, o->json);
    print(o);
}

// --- Objects

// What of the metadata somebody else may choose.
static void keep_member(struct json *into, const struct json *from, const char *key)
{
    if (json_len(json_get(from, key)) > 0)
        json_set(into, key, json_copy(json_get(from, key)));
}

static void fill_meta(struct sim_server *v, struct sim_object *o)
{
    char when[RFC3339_MAX], api[128];
    struct json *meta = json_object();
    keep_member(meta, json_get(o->json, "metadata"), "labels");
    keep_member(meta, json_get(o->json, "metadata"), "annotations");
    snprintf(api, sizeof(api), "%s%s%s", o->type->group, o->type->group[0] != '\0' ? "/" : "", o->type->version);
    json_set_str(o->json, "apiVersion", api);
    json_set_str(o->json, "kind", o->type->kind);
    json_set_str(meta, "name", o->name);
    if (o->type->namespaced)
        json_set_str(meta, "namespace", o->ns);
    json_set_str(meta, "uid", o->uid);
    json_set_str(meta, "creationTimestamp", rfc3339_sec(sim_true_us(v->sim), when));
    json_set(meta, "managedFields", managed_fields(o));
    json_set(o->json, "metadata", meta);
}

struct sim_object *sim_store_add(struct sim_server *v, const struct sim_type *t, const char *ns, const char *name, struct json *json)
{
    struct sim_object *o = calloc(1, sizeof(*o));
    if (o == NULL || json == NULL)
        abort();
    *o = (struct sim_object){ .type = t, .generation = 1, .json = json, .rv = ++v->rv, .changed_ms = v->sim->now_ms };
    snprintf(o->ns, sizeof(o->ns), "%s", ns);
    snprintf(o->name, sizeof(o->name), "%s", name);
    snprintf(o->uid, sizeof(o->uid), "%08x-%04x-4000-8000-%012x", (unsigned)rng_next(&v->rng), (unsigned)(v->rv & 0xffff), (unsigned)v->rv);
    fill_meta(v, o);
    v->writes++;
    sim_schema_prune(t->schema, o->json);
    sim_schema_default(t->schema, o->json);
    print(o);
    list_add_tail(&v->objects, &o->link);
    record(v, o, "ADDED", NULL);
    return o;
}

static void object_free(struct sim_object *o)
{
    list_del(&o->link);
    json_free(o->json);
    json_free(o->stored);
    json_free(o->applied);
    json_free(o->managers);
    free(o->text);
    free(o);
}

static struct json *parse(const char *text)
{
    struct json *j = NULL;
    struct err e = ERR_INIT;
    if (json_parse(&j, text, strlen(text), &e) < 0) {
        fprintf(stderr, "%s: %s\n", e.msg, text);
        abort();
    }
    return j;
}

struct sim_object *sim_server_find(struct sim_server *v, const char *plural, const char *name)
{
    const struct sim_type *t = type_of_plural(v, plural);
    return sim_store_get(v, t, t->namespaced ? SIM_NS : "", name);
}

struct sim_object *sim_server_create_in(struct sim_server *v, const char *ns, const char *plural, const char *name, const char *spec)
{
    const struct sim_type *t = type_of_plural(v, plural);
    struct json *j = json_object();
    json_set(j, "spec", parse(spec));
    struct sim_object *o = sim_store_add(v, t, t->namespaced ? ns : "", name, j);
    sim_note(v->sim, "user", "create %s/%s rv=%" PRId64, plural, name, o->rv);
    return o;
}

struct sim_object *sim_server_create(struct sim_server *v, const char *plural, const char *name, const char *spec)
{
    return sim_server_create_in(v, SIM_NS, plural, name, spec);
}

void sim_server_set_spec(struct sim_server *v, struct sim_object *o, const char *spec)
{
    struct json *j = parse(spec);
    if (json_equal(j, json_get(o->json, "spec"))) {
        json_free(j);
        return;
    }
    json_set(o->json, "spec", j);
    sim_schema_prune(o->type->schema, o->json);
    sim_schema_default(o->type->schema, o->json);
    o->generation++;
    o->changed_ms = v->sim->now_ms;
    sim_store_changed(v, o);
    sim_note(v->sim, "user", "change %s/%s generation=%" PRId64 " rv=%" PRId64, o->type->plural, o->name, o->generation, o->rv);
}

void sim_store_remove(struct sim_server *v, struct sim_object *o)
{
    char *before = steal(o->text);
    o->rv = ++v->rv;
    v->writes++;
    print(o);
    record(v, o, "DELETED", before);
    object_free(o);
}

void sim_server_delete(struct sim_server *v, struct sim_object *o)
{
    sim_note(v->sim, "user", "delete %s/%s rv=%" PRId64, o->type->plural, o->name, v->rv + 1);
    sim_store_remove(v, o);
}

void sim_server_wipe_status(struct sim_server *v, struct sim_object *o)
{
    if (json_get(o->json, "status") == NULL)
        return;
    json_del(o->json, "status");
    json_free(steal(o->applied));
    json_free(steal(o->managers));
    o->accepted_hash = 0;
    sim_store_changed(v, o);
    sim_note(v->sim, "user", "wipe the status of %s/%s rv=%" PRId64, o->type->plural, o->name, o->rv);
}

void sim_store_renumber(struct sim_server *v, int64_t rv)
{
    compact_to(v, INT64_MAX);
    v->compacted_rv = rv;
    v->rv = rv;
    sim_each_object(o, v)
    {
        o->rv = rv - rng_below(&v->rng, 400);
        print(o);
    }
}

// --- CRDs

enum { CRD_READY_MS = 1000, OLD_WATCH_MIN_MS = 2000, OLD_WATCH_MAX_MS = 8000 };

static void end_streams(struct sim_server *v, const struct sim_type *t)
{
    list_each(it, &v->streams) {
        struct sim_stream *st = container_of(it, struct sim_stream, link);
        if (st->type != t || st->ended)
            continue;
        sim_hit(v->sim, F_CRD_CHANGED);
        sim_stream_end_in(st, rng_between(&v->rng, OLD_WATCH_MIN_MS, OLD_WATCH_MAX_MS));
    }
}

static const char *text_of(const struct json *j, const char *path)
{
    const char *s = json_str(json_path(j, path));
    return s != NULL ? s : "";
}

static struct sim_type *type_of_crd(struct sim_server *v, const struct json *crd)
{
    const struct json *version = json_at(json_path(crd, "spec.versions"), 0);
    const char *group = text_of(crd, "spec.group"), *plural = text_of(crd, "spec.names.plural"), *name = text_of(version, "name");
    struct sim_type *t = sim_type_find(v, group, name, plural);
    if (t == NULL)
        t = type_add(v, group, name, plural, text_of(crd, "spec.names.kind"));
    t->namespaced = strcmp(text_of(crd, "spec.scope"), "Namespaced") == 0;
    t->has_status = json_path(version, "subresources.status") != NULL;
    return t;
}

void sim_server_install(struct sim_server *v, const struct json *crd)
{
    struct sim_type *t = type_of_crd(v, crd);
    struct sim_schema *old = t->schema;
    t->schema = sim_schema_new(crd);
    if (t->schema == NULL)
        abort();
    t->served = true;
    if (old == NULL)
        return;
    sim_note(v->sim, "server", "the CRD of %s is another", t->plural);
    t->ready_ms = v->sim->now_ms + CRD_READY_MS;
    sim_store_forget_past(v, t);
    end_streams(v, t);
    sim_each_object(o, v) if (o->type == t) sim_store_reread(v, o);
    sim_schema_unref(old);
}

static void remove_all_of(struct sim_server *v, const struct sim_type *t)
{
    for (struct list *it = v->objects.next, *next; it != &v->objects; it = next) {
        struct sim_object *o = container_of(it, struct sim_object, link);
        next = it->next;
        if (o->type == t)
            sim_store_remove(v, o);
    }
}

void sim_server_remove_kind(struct sim_server *v, const char *plural)
{
    struct sim_type *t = type_of_plural(v, plural);
    sim_note(v->sim, "server", "the CRD of %s is deleted", plural);
    remove_all_of(v, t);
    t->served = false;
    sim_store_forget_past(v, t);
    list_each(it, &v->streams) {
        struct sim_stream *st = container_of(it, struct sim_stream, link);
        if (st->type == t)
            sim_stream_end_in(st, 0);
    }
}

static void install_manifest(struct sim_server *v, const struct manifest *m)
{
    struct buf text AUTO_BUF = BUF_INIT(CRD_JSON_MAX);
    struct err e = ERR_INIT;
    if (yaml_to_json(m->text, strlen(m->text), 0, &text, &e) < 0) {
        fprintf(stderr, "%s: %s\n", m->name, e.msg);
        abort();
    }
    struct json *crd AUTO_JSON = parse(buf_str(&text));
    sim_server_install(v, crd);
}

// --- The whole

static void add_namespace(struct sim_server *v, const char *name)
{
    struct json *j = json_object();
    json_set(j, "metadata", json_object());
    sim_complete_namespace(j, name);
    sim_store_add(v, type_of_plural(v, "namespaces"), "", name, j);
}

void sim_server_share(struct sim_server *v)
{
    add_namespace(v, SIM_SHARED_NS);
}

static void add_types(struct sim_server *v)
{
    type_add(v, "", "v1", "namespaces", "Namespace")->namespaced = false;
    type_add(v, "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition")->namespaced = false;
    type_add(v, "coordination.k8s.io", "v1", "leases", "Lease");
    type_add(v, "events.k8s.io", "v1", "events", "Event");
    for (const struct manifest *m = cluster_manifests; m->kind != NULL; m++)
        if (strcmp(m->kind, "CustomResourceDefinition") == 0)
            install_manifest(v, m);
}

void sim_server_init(struct sim_server *v, struct sim *s)
{
    *v = (struct sim_server){ .sim = s, .rng = sim_stream(s, "server"), .rv = FIRST_RV, .compacted_rv = FIRST_RV };
    v->strict = true;
    v->http_410_percent = 30;
    v->dead_token_ms = INT64_MAX;
    list_init(&v->types);
    list_init(&v->objects);
    list_init(&v->history);
    list_init(&v->streams);
    add_types(v);
    add_namespace(v, "kube-system");
    add_namespace(v, SIM_NS);
}

void sim_server_fini(struct sim_server *v)
{
    while (!list_empty(&v->objects))
        object_free(container_of(v->objects.next, struct sim_object, link));
    while (!list_empty(&v->history))
        change_free(change_of(v->history.next));
    forget_snapshots(v);
    list_each_safe(it, next, &v->types) {
        struct sim_type *t = container_of(it, struct sim_type, link);
        sim_schema_unref(t->schema);
        free(t->group);
        free(t->version);
        free(t->plural);
        free(t->kind);
        free(t);
    }
}
