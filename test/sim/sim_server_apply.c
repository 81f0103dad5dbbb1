// SPDX-License-Identifier: Apache-2.0
// Server-side apply on /status: who set what, what another one keeps, what goes.
//
// As in the real one each manager owns a set of fields, kept as a tree in the form of metadata.managedFields: "f:NAME" is a member,
// "k:{...}" an element of a list-map, "." the element itself; what has nothing below it is owned as a whole. Recursion is as deep as the schema.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim_server.h"

enum { KEY_TEXT_MAX = 300 };

static bool is(const struct json *j, const char *text)
{
    const char *s = json_str(j);
    return s != NULL && strcmp(s, text) == 0;
}

// An object of which only the status is there; the caller's.
static struct json *only_status(const struct json *status)
{
    struct json *j = json_object();
    if (status != NULL)
        json_set(j, "status", json_copy(status));
    return j;
}

// --- Trees

static void member_key(char out[KEY_TEXT_MAX], const char *name)
{
    snprintf(out, KEY_TEXT_MAX, "f:%s", name);
}

static void element_key(char out[KEY_TEXT_MAX], const struct json *node, const struct json *item)
{
    struct json *key AUTO_JSON = sim_schema_key(node, item);
    struct buf b AUTO_BUF = BUF_INIT(KEY_TEXT_MAX);
    struct err e = ERR_INIT;
    if (key == NULL || json_print(key, &b, &e) < 0)
        abort(); // a list-map without keys is no valid object
    snprintf(out, KEY_TEXT_MAX, "k:%s", buf_str(&b));
}

// The element of a list that a key of a tree names.
static struct json *element(const struct json *node, const struct json *list, const char *key)
{
    char have[KEY_TEXT_MAX];
    json_each(item, list)
    {
        element_key(have, node, item);
        if (strcmp(have, key) == 0)
            return (struct json *)item;
    }
    return NULL;
}

// Everything that `v` has and `old` has not, or has otherwise; with old NULL everything. NULL = nothing.
static struct json *fields_of(const struct json *node, const struct json *v, const struct json *old);

static struct json *fields_of_members(const struct json *node, const struct json *v, const struct json *old)
{
    char key[KEY_TEXT_MAX];
    struct json *out = json_object();
    json_each(m, v)
    {
        struct json *below = fields_of(sim_schema_member(node, json_key(m)), m, json_get(old, json_key(m)));
        member_key(key, json_key(m));
        if (below != NULL)
            json_set(out, key, below);
    }
    if (json_len(out) > 0 || (json_len(v) == 0 && old == NULL))
        return out;
    json_free(out);
    return NULL;
}

static struct json *fields_of_elements(const struct json *node, const struct json *v, const struct json *old)
{
    char key[KEY_TEXT_MAX];
    struct json *out = json_object();
    json_each(item, v)
    {
        element_key(key, node, item);
        const struct json *was = old != NULL ? element(node, old, key) : NULL;
        struct json *below = fields_of(sim_schema_items(node), item, was);
        if (below == NULL)
            continue;
        if (was == NULL)
            json_set(below, ".", json_object());
        json_set(out, key, below);
    }
    if (json_len(out) > 0)
        return out;
    json_free(out);
    return NULL;
}

static struct json *fields_of(const struct json *node, const struct json *v, const struct json *old)
{
    switch (sim_schema_merge(node, v)) {
    case MERGE_MEMBERS:
        return fields_of_members(node, v, old);
    case MERGE_BY_KEY:
        return fields_of_elements(node, v, old);
    default:
        return old != NULL && json_equal(v, old) ? NULL : json_object();
    }
}

static void add_all(struct json *into, const struct json *from)
{
    json_each(m, from)
    {
        struct json *have = (struct json *)json_get(into, json_key(m));
        if (have == NULL)
            json_set(into, json_key(m), json_copy(m));
        else
            add_all(have, m);
    }
}

// Takes from `set` what `gone` holds; true: nothing is left of it.
static bool subtract(struct json *set, const struct json *gone)
{
    json_each(g, gone)
    {
        struct json *have = (struct json *)json_get(set, json_key(g));
        if (have != NULL && (json_len(g) == 0 || (json_len(have) > 0 && subtract(have, g))))
            json_del(set, json_key(g));
    }
    return json_len(set) == 0;
}

// Takes from `set` what `v` does not have any more.
static void restrict_to(struct json *set, const struct json *node, const struct json *v)
{
    char name[KEY_TEXT_MAX];
    for (const struct json *m = json_first(set), *next; m != NULL; m = next) {
        next = json_next(m);
        const char *key = json_key(m);
        const struct json *child = key[0] == 'f' ? json_get(v, key + 2) : key[0] == 'k' ? element(node, v, key) : v;
        snprintf(name, sizeof(name), "%s", key);
        if (child == NULL)
            json_del(set, name);
        else if (key[0] != '.')
            restrict_to((struct json *)m, key[0] == 'f' ? sim_schema_member(node, key + 2) : sim_schema_items(node), child);
    }
}

// --- Values

static struct json *merged(const struct json *node, const struct json *have, const struct json *applied);

static struct json *merged_elements(const struct json *node, const struct json *have, const struct json *applied)
{
    char key[KEY_TEXT_MAX];
    struct json *out = json_array();
    json_each(item, have)
    {
        element_key(key, node, item);
        const struct json *with = element(node, applied, key);
        json_push(out, with != NULL ? merged(sim_schema_items(node), item, with) : json_copy(item));
    }
    json_each(item, applied)
    {
        element_key(key, node, item);
        if (have == NULL || element(node, have, key) == NULL)
            json_push(out, json_copy(item));
    }
    return out;
}

static struct json *merged(const struct json *node, const struct json *have, const struct json *applied)
{
    enum sim_merge how = sim_schema_merge(node, applied);
    if (how == MERGE_BY_KEY && (have == NULL || json_type(have) == JSON_ARRAY))
        return merged_elements(node, have, applied);
    if (how != MERGE_MEMBERS || json_type(have) != JSON_OBJECT)
        return json_copy(applied);
    struct json *out = json_copy(have);
    json_each(m, applied) json_set(out, json_key(m), merged(sim_schema_member(node, json_key(m)), json_get(have, json_key(m)), m));
    return out;
}

static void drop(const struct json *node, struct json *v, const struct json *old, const struct json *now, const struct json *others);

static struct json *without_element(const struct json *list, const struct json *gone)
{
    struct json *out = json_array();
    json_each(item, list)
    {
        if (item != gone)
            json_push(out, json_copy(item));
    }
    return out;
}

// Removes from `v` what the manager owned, does not apply any more, and nobody else owns. A list is given back as another one.
static void drop_from_list(const struct json *node, struct json *owner, const char *name, const struct json *old, const struct json *now,
                           const struct json *others)
{
    json_each(m, old)
    {
        const char *key = json_key(m);
        const struct json *list = json_get(owner, name), *still = json_get(now, key), *theirs = json_get(others, key);
        struct json *item = key[0] == 'k' ? element(node, list, key) : NULL;
        if (item == NULL)
            continue;
        if (still == NULL && theirs == NULL)
            json_set(owner, name, without_element(list, item));
        else
            drop(sim_schema_items(node), item, m, still, theirs);
    }
}

static void drop(const struct json *node, struct json *v, const struct json *old, const struct json *now, const struct json *others)
{
    json_each(m, old)
    {
        const char *key = json_key(m), *name = key[0] == 'f' ? key + 2 : "";
        const struct json *still = json_get(now, key), *theirs = json_get(others, key), *child = json_get(v, name);
        const struct json *below = sim_schema_member(node, name);
        if (child == NULL)
            continue;
        if (still == NULL && theirs == NULL)
            json_del(v, name);
        else if (sim_schema_merge(below, child) == MERGE_BY_KEY)
            drop_from_list(below, v, name, m, still, theirs);
        else if (sim_schema_merge(below, child) == MERGE_MEMBERS)
            drop(below, (struct json *)child, m, still, theirs);
    }
}

// --- Managers

static struct json *manager_of(const struct sim_object *o, const char *name, const char *operation)
{
    json_each(m, o->managers)
    {
        if (is(json_get(m, "manager"), name) && is(json_get(m, "operation"), operation))
            return (struct json *)m;
    }
    return NULL;
}

static void set_manager(struct sim_object *o, const char *name, const char *operation, struct json *fields)
{
    struct json *m = manager_of(o, name, operation);
    if (o->managers == NULL)
        o->managers = json_array();
    if (m == NULL) {
        m = json_object();
        json_set_str(m, "manager", name);
        json_set_str(m, "operation", operation);
        json_set(m, "fields", fields);
        json_push(o->managers, m);
    } else {
        json_set(m, "fields", fields);
    }
}

static struct json *fields_of_others(const struct sim_object *o, const struct json *but)
{
    struct json *out = json_object();
    json_each(m, o->managers)
    {
        if (m != but)
            add_all(out, json_get(m, "fields"));
    }
    return out;
}

static void take_from_others(struct sim_object *o, const struct json *but, const struct json *fields)
{
    json_each(m, o->managers)
    {
        if (m != but)
            subtract((struct json *)json_get(m, "fields"), fields);
    }
}

// The paths that both trees own, as the causes of a conflict.
static void list_conflicts(struct json *causes, const struct json *a, const struct json *b, const char *path, const char *says)
{
    char child[SCHEMA_PATH_MAX];
    json_each(m, a)
    {
        const char *key = json_key(m);
        const struct json *other = json_get(b, key);
        if (other == NULL || key[0] == '.')
            continue;
        if (key[0] == 'k') { // k:{"type":"Ready"} is written [type="Ready"]
            char inner[KEY_TEXT_MAX];
            snprintf(inner, sizeof(inner), "%s", key + 4);
            char *quote = strchr(inner, '"');
            if (quote != NULL)
                *quote = '\0';
            snprintf(child, sizeof(child), "%s[%s=%.*s]", path, inner, (int)strcspn(key + 4 + strlen(inner) + 2, "}"),
                     key + 4 + strlen(inner) + 2);
        } else {
            snprintf(child, sizeof(child), "%s.%s", path, key + 2);
        }
        if (json_len(m) == 0 && json_len(other) == 0)
            sim_cause(causes, "FieldManagerConflict", child, "%s", says);
        else
            list_conflicts(causes, m, other, child, says);
    }
}

static struct json *conflicts(const struct sim_object *o, const struct json *but, const struct json *changed)
{
    char says[300];
    struct json *causes = json_array();
    json_each(m, o->managers)
    {
        if (m == but)
            continue;
        snprintf(says, sizeof(says), "conflict with \"%s\" with subresource \"status\" using %s/%s", json_str(json_get(m, "manager")),
                 o->type->group, o->type->version);
        list_conflicts(causes, changed, json_get(m, "fields"), "", says);
    }
    return causes;
}

struct json *sim_apply_status(struct sim_object *o, const char *manager, bool force, const struct json *status, struct sim_answer *a)
{
    const struct json *node = o->type->schema->root;
    struct json *have AUTO_JSON = only_status(json_get(o->json, "status")), *applied AUTO_JSON = only_status(status);
    struct json *out = merged(node, have, applied), *mine = manager_of(o, manager, "Apply");
    struct json *changed AUTO_JSON = fields_of(node, out, have), *against = conflicts(o, mine, changed);
    if (json_len(against) > 0 && !force) {
        sim_fail_conflicts(a, against);
        json_free(out);
        return NULL;
    }
    json_free(against);
    take_from_others(o, mine, changed);
    struct json *now = fields_of(node, applied, NULL), *others AUTO_JSON = fields_of_others(o, mine);
    drop(node, out, json_get(mine, "fields"), now, others);
    set_manager(o, manager, "Apply", now);
    return out;
}

void sim_note_update(struct sim_object *o, const char *manager, const struct json *before, const struct json *after)
{
    const struct json *node = o->type->schema->root;
    struct json *old AUTO_JSON = only_status(before), *now AUTO_JSON = only_status(after);
    struct json *mine = manager_of(o, manager, "Update"), *changed AUTO_JSON = fields_of(node, now, old);
    if (changed != NULL) {
        struct json *set = mine != NULL ? json_copy(json_get(mine, "fields")) : json_object();
        take_from_others(o, mine, changed);
        add_all(set, changed);
        set_manager(o, manager, "Update", set);
    }
    json_each(m, o->managers) restrict_to((struct json *)json_get(m, "fields"), node, now);
}
