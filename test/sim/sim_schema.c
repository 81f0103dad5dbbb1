// SPDX-License-Identifier: Apache-2.0
#include "sim_schema.h"

#include <regex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"

static bool is(const struct json *j, const char *text)
{
    const char *s = json_str(j);
    return s != NULL && strcmp(s, text) == 0;
}

static bool flag(const struct json *node, const char *key)
{
    return json_bool(json_get(node, key), false);
}

// --- The whole

static bool has_rules(const struct json *node)
{
    if (json_get(node, "x-kubernetes-validations") != NULL)
        return true;
    json_each(m, node)
    {
        if (json_type(m) == JSON_OBJECT && has_rules(m))
            return true;
    }
    return false;
}

static void note_selectable(struct sim_schema *s, const struct json *version)
{
    json_each(f, json_get(version, "selectableFields"))
    {
        const char *path = json_str(json_get(f, "jsonPath"));
        if (path != NULL && path[0] == '.' && s->n_selectable < SCHEMA_SELECTABLE_MAX)
            snprintf(s->selectable[s->n_selectable++], sizeof(s->selectable[0]), "%s", path + 1);
    }
}

struct sim_schema *sim_schema_new(const struct json *crd)
{
    const struct json *version = json_at(json_path(crd, "spec.versions"), 0);
    const struct json *root = json_path(version, "schema.openAPIV3Schema");
    struct sim_schema *s = root != NULL ? calloc(1, sizeof(*s)) : NULL;
    if (s == NULL)
        return NULL;
    *s = (struct sim_schema){ .refs = 1, .root = json_copy(root), .crd = json_copy(crd), .has_rules = has_rules(root) };
    s->has_scale = json_path(version, "subresources.scale") != NULL;
    note_selectable(s, version);
    return s;
}

struct sim_schema *sim_schema_ref(struct sim_schema *s)
{
    if (s != NULL)
        s->refs++;
    return s;
}

void sim_schema_unref(struct sim_schema *s)
{
    if (s == NULL || --s->refs > 0)
        return;
    json_free(s->root);
    json_free(s->crd);
    free(s);
}

// --- Pruning and defaults

// What every object has, whatever its schema says.
static bool is_of_every_object(const char *key)
{
    return strcmp(key, "apiVersion") == 0 || strcmp(key, "kind") == 0 || strcmp(key, "metadata") == 0;
}

const struct json *sim_schema_member(const struct json *node, const char *key)
{
    const struct json *m = json_get(json_get(node, "properties"), key), *more = json_get(node, "additionalProperties");
    if (m == NULL && json_type(more) == JSON_OBJECT)
        return more;
    return m;
}

const struct json *sim_schema_items(const struct json *node)
{
    return json_get(node, "items");
}

static bool takes_all(const struct json *node)
{
    return flag(node, "x-kubernetes-preserve-unknown-fields") || json_bool(json_get(node, "additionalProperties"), false);
}

// A null where the schema allows none is as good as absent.
static const char *first_to_go(const struct json *node, const struct json *value, bool root)
{
    json_each(m, value)
    {
        const struct json *n = sim_schema_member(node, json_key(m));
        if (root && is_of_every_object(json_key(m)))
            continue;
        if (n == NULL ? !takes_all(node) : json_type(m) == JSON_NULL && !flag(n, "nullable"))
            return json_key(m);
    }
    return NULL;
}

static void prune(const struct json *node, struct json *value, bool root)
{
    char name[256];
    const char *key;
    while (json_type(value) == JSON_OBJECT && (key = first_to_go(node, value, root)) != NULL) {
        snprintf(name, sizeof(name), "%s", key);
        json_del(value, name);
    }
    json_each(m, value)
    {
        const struct json *child = json_type(value) == JSON_ARRAY ? sim_schema_items(node) : sim_schema_member(node, json_key(m));
        if (child != NULL && !(root && is_of_every_object(json_key(m))))
            prune(child, (struct json *)m, false);
    }
}

void sim_schema_prune(const struct sim_schema *s, struct json *object)
{
    if (s != NULL)
        prune(s->root, object, true);
}

static void set_defaults(const struct json *node, struct json *value)
{
    json_each(p, json_type(value) == JSON_OBJECT ? json_get(node, "properties") : NULL)
    {
        const struct json *dflt = json_get(p, "default");
        if (dflt != NULL && json_get(value, json_key(p)) == NULL)
            json_set(value, json_key(p), json_copy(dflt));
    }
    json_each(m, value)
    {
        const struct json *child = json_type(value) == JSON_ARRAY ? sim_schema_items(node) : sim_schema_member(node, json_key(m));
        if (child != NULL)
            set_defaults(child, (struct json *)m);
    }
}

void sim_schema_default(const struct sim_schema *s, struct json *object)
{
    if (s != NULL)
        set_defaults(s->root, object);
}

// --- Validation

void sim_cause(struct json *causes, const char *reason, const char *field, const char *fmt, ...)
{
    char message[300];
    struct json *c = json_object();
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    json_set_str(c, "reason", reason);
    json_set_str(c, "message", message);
    json_set_str(c, "field", field); // NULL: no member
    json_push(causes, c);
}

static const char *type_word(const struct json *v)
{
    int64_t i;
    switch (json_type(v)) {
    case JSON_NULL:
        return "null";
    case JSON_BOOL:
        return "boolean";
    case JSON_NUMBER:
        return json_i64(v, &i) ? "integer" : "number";
    case JSON_STRING:
        return "string";
    case JSON_ARRAY:
        return "array";
    default:
        return "object";
    }
}

static bool has_type(const struct json *node, const struct json *v)
{
    const char *want = json_str(json_get(node, "type")), *have = type_word(v);
    if (json_type(v) == JSON_NULL && flag(node, "nullable"))
        return true;
    if (flag(node, "x-kubernetes-int-or-string"))
        return strcmp(have, "integer") == 0 || strcmp(have, "string") == 0;
    return want == NULL || strcmp(want, have) == 0 || (strcmp(want, "number") == 0 && strcmp(have, "integer") == 0);
}

static size_t characters(const char *s)
{
    size_t n = 0;
    for (; *s != '\0'; s++)
        n += (*s & 0xc0) != 0x80;
    return n;
}

// Few patterns, asked for over and over.
static struct {
    char text[256];
    regex_t re;
} patterns[64];
static size_t n_patterns;

static const regex_t *pattern_of(const char *text)
{
    for (size_t i = 0; i < n_patterns; i++)
        if (strcmp(patterns[i].text, text) == 0)
            return &patterns[i].re;
    // \x.. is RE2's; the few patterns with it are for the agent's own validation to refuse.
    if (strstr(text, "\\x") != NULL || strlen(text) >= sizeof(patterns[0].text) || n_patterns == ARRAY_LEN(patterns))
        return NULL;
    if (regcomp(&patterns[n_patterns].re, text, REG_EXTENDED | REG_NOSUB) != 0)
        return NULL;
    snprintf(patterns[n_patterns].text, sizeof(patterns[0].text), "%s", text);
    return &patterns[n_patterns++].re;
}

static void check_string(const struct json *node, const char *s, const char *path, struct json *causes)
{
    int64_t bound, us;
    const char *pattern = json_str(json_get(node, "pattern"));
    const regex_t *re = pattern != NULL ? pattern_of(pattern) : NULL;
    if (json_i64(json_get(node, "maxLength"), &bound) && (int64_t)characters(s) > bound)
        sim_cause(causes, "FieldValueTooLong", path, "Too long: may not be more than %lld bytes", (long long)bound);
    if (json_i64(json_get(node, "minLength"), &bound) && (int64_t)characters(s) < bound)
        sim_cause(causes, "FieldValueInvalid", path, "should be at least %lld chars long", (long long)bound);
    if (re != NULL && regexec(re, s, 0, NULL, 0) != 0)
        sim_cause(causes, "FieldValueInvalid", path, "should match '%s'", pattern);
    if (is(json_get(node, "format"), "date-time") && !rfc3339_parse(s, &us))
        sim_cause(causes, "FieldValueTypeInvalid", path, "must be of type date-time: \"%.100s\"", s);
}

static void check_number(const struct json *node, double v, const char *path, struct json *causes)
{
    const struct json *low = json_get(node, "minimum"), *high = json_get(node, "maximum");
    if (low != NULL && v < json_num(low, 0))
        sim_cause(causes, "FieldValueInvalid", path, "should be greater than or equal to %g", json_num(low, 0));
    if (high != NULL && v > json_num(high, 0))
        sim_cause(causes, "FieldValueInvalid", path, "should be less than or equal to %g", json_num(high, 0));
}

static void check_enum(const struct json *node, const struct json *v, const char *path, struct json *causes)
{
    const struct json *allowed = json_get(node, "enum");
    json_each(a, allowed)
    {
        if (json_equal(a, v))
            return;
    }
    if (allowed != NULL)
        sim_cause(causes, "FieldValueNotSupported", path, "Unsupported value: \"%.100s\"", json_str(v) != NULL ? json_str(v) : "");
}

static void validate(const struct json *node, const struct json *v, const char *path, struct json *causes);

static void check_members(const struct json *node, const struct json *v, const char *path, struct json *causes)
{
    char child[SCHEMA_PATH_MAX];
    const char *dot = path[0] != '\0' ? "." : "";
    json_each(r, json_get(node, "required"))
    {
        snprintf(child, sizeof(child), "%s%s%s", path, dot, json_str(r));
        if (json_get(v, json_str(r)) == NULL)
            sim_cause(causes, "FieldValueRequired", child, "Required value");
    }
    json_each(m, v)
    {
        const struct json *n = sim_schema_member(node, json_key(m));
        snprintf(child, sizeof(child), "%s%s%s", path, dot, json_key(m));
        if (n != NULL && !(path[0] == '\0' && is_of_every_object(json_key(m))))
            validate(n, m, child, causes);
    }
}

static bool is_twin(const struct json *node, const struct json *a, const struct json *b)
{
    if (!is(json_get(node, "x-kubernetes-list-type"), "map"))
        return json_equal(a, b);
    struct json *ka AUTO_JSON = sim_schema_key(node, a), *kb AUTO_JSON = sim_schema_key(node, b);
    return ka != NULL && kb != NULL && json_equal(ka, kb);
}

static void check_twins(const struct json *node, const struct json *list, const char *path, struct json *causes)
{
    char child[SCHEMA_PATH_MAX];
    for (size_t i = 1; i < json_len(list); i++)
        for (size_t k = 0; k < i; k++) {
            if (!is_twin(node, json_at(list, i), json_at(list, k)))
                continue;
            snprintf(child, sizeof(child), "%s[%zu]", path, i);
            sim_cause(causes, "FieldValueDuplicate", child, "Duplicate value");
            break;
        }
}

static void check_items(const struct json *node, const struct json *list, const char *path, struct json *causes)
{
    int64_t bound;
    char child[SCHEMA_PATH_MAX];
    size_t n = json_len(list), i = 0;
    if (json_i64(json_get(node, "maxItems"), &bound) && (int64_t)n > bound)
        sim_cause(causes, "FieldValueTooMany", path, "Too many: %zu: must have at most %lld items", n, (long long)bound);
    if (json_i64(json_get(node, "minItems"), &bound) && (int64_t)n < bound)
        sim_cause(causes, "FieldValueInvalid", path, "should have at least %lld items", (long long)bound);
    bool map = is(json_get(node, "x-kubernetes-list-type"), "map");
    json_each(item, list)
    {
        snprintf(child, sizeof(child), "%s[%zu]", path, i++);
        validate(sim_schema_items(node), item, child, causes);
        if (map && json_type(item) != JSON_OBJECT)
            sim_cause(causes, "FieldValueInvalid", child, "must be an object for an array of list-type map");
    }
    if (map || is(json_get(node, "x-kubernetes-list-type"), "set"))
        check_twins(node, list, path, causes);
}

static void validate(const struct json *node, const struct json *v, const char *path, struct json *causes)
{
    if (!has_type(node, v)) {
        sim_cause(causes, "FieldValueTypeInvalid", path, "must be of type %s: \"%s\"", json_str(json_get(node, "type")), type_word(v));
        check_enum(node, v, path, causes);
        return;
    }
    check_enum(node, v, path, causes);
    switch (json_type(v)) {
    case JSON_STRING:
        check_string(node, json_str(v), path, causes);
        break;
    case JSON_NUMBER:
        check_number(node, json_num(v, 0), path, causes);
        break;
    case JSON_ARRAY:
        check_items(node, v, path, causes);
        break;
    case JSON_OBJECT:
        check_members(node, v, path, causes);
        break;
    default:
        break;
    }
}

// These keep the server from trying the rules of CEL, and it says so.
static bool has_blocking(const struct json *causes)
{
    static const char *const blocking[] = { "FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany",
                                            "FieldValueTypeInvalid" };
    json_each(c, causes)
    {
        for (size_t i = 0; i < ARRAY_LEN(blocking); i++)
            if (is(json_get(c, "reason"), blocking[i]))
                return true;
    }
    return false;
}

// Of the rules of CEL the one form that only asks for fields: has(self.a) || has(self.b). False: it is of another form.
static bool asks_for_one_of(const char *rule, const struct json *v, bool *there)
{
    char field[64];
    int end = 0;
    *there = false;
    while (sscanf(rule, "has(self.%63[A-Za-z])%n", field, &end) == 1 && end > 0) {
        *there |= json_get(v, field) != NULL;
        rule += end;
        if (*rule == '\0')
            return true;
        if (strncmp(rule, " || ", 4) != 0)
            return false;
        rule += 4;
        end = 0;
    }
    return false;
}

static void check_presence(const struct json *node, const struct json *v, const char *path, struct json *causes)
{
    bool there;
    char field[SCHEMA_PATH_MAX];
    json_each(rule, json_get(node, "x-kubernetes-validations"))
    {
        const char *text = json_str(json_get(rule, "rule")), *at = json_str(json_get(rule, "fieldPath"));
        if (text == NULL || at == NULL || !asks_for_one_of(text, v, &there) || there)
            continue;
        snprintf(field, sizeof(field), "%s%s", path, at);
        sim_cause(causes, json_str(json_get(rule, "reason")), field, "%s", json_str(json_get(rule, "message")));
    }
}

// The scale subresource reads its numbers by itself.
static void check_scale(const struct json *object, const char *part, struct json *causes)
{
    char path[64], field[64];
    snprintf(path, sizeof(path), "%s.replicas", part);
    snprintf(field, sizeof(field), ".%s.replicas", part);
    const struct json *v = json_path(object, path), *parent = json_get(object, part);
    int64_t i;
    bool unreadable = v != NULL ? !json_i64(v, &i) || i < 0 : parent != NULL && json_type(parent) != JSON_OBJECT;
    if (unreadable)
        sim_cause(causes, "FieldValueInvalid", field, "should be a non-negative integer");
}

struct json *sim_schema_validate(const struct sim_schema *s, const struct json *object, const char *only)
{
    if (s == NULL)
        return NULL;
    struct json *causes = json_array();
    if (only == NULL)
        validate(s->root, object, "", causes);
    else if (json_get(object, only) != NULL)
        validate(sim_schema_member(s->root, only), json_get(object, only), only, causes);
    if (s->has_scale && only == NULL)
        check_scale(object, "spec", causes);
    if (s->has_scale)
        check_scale(object, "status", causes);
    if (s->has_rules && has_blocking(causes))
        sim_cause(causes, "FieldValueInvalid", "<nil>", "some validation rules were not checked");
    else if (only == NULL && json_get(object, "spec") != NULL)
        check_presence(sim_schema_member(s->root, "spec"), json_get(object, "spec"), "spec", causes);
    if (json_len(causes) > 0)
        return causes;
    json_free(causes);
    return NULL;
}

// --- Apply

enum sim_merge sim_schema_merge(const struct json *node, const struct json *value)
{
    if (json_type(value) == JSON_OBJECT && !is(json_get(node, "x-kubernetes-map-type"), "atomic"))
        return MERGE_MEMBERS;
    if (json_type(value) == JSON_ARRAY && is(json_get(node, "x-kubernetes-list-type"), "map"))
        return MERGE_BY_KEY;
    return MERGE_ATOMIC;
}

struct json *sim_schema_key(const struct json *node, const struct json *item)
{
    struct json *key = json_object();
    json_each(k, json_get(node, "x-kubernetes-list-map-keys"))
    {
        const struct json *v = json_get(item, json_str(k));
        if (v == NULL) {
            json_free(key);
            return NULL;
        }
        json_set(key, json_str(k), json_copy(v));
    }
    return key;
}

static bool says(char *why, size_t max, const char *path, const char *what)
{
    snprintf(why, max, "%s: %s", path, what);
    return true;
}

static bool is_untyped(const struct json *node, const struct json *v, const char *path, bool root, char *why, size_t max);

static bool member_is_untyped(const struct json *node, const struct json *v, const char *path, bool root, char *why, size_t max)
{
    char child[SCHEMA_PATH_MAX];
    json_each(m, v)
    {
        const struct json *n = sim_schema_member(node, json_key(m));
        snprintf(child, sizeof(child), "%s.%s", path, json_key(m));
        if (root && is_of_every_object(json_key(m)))
            continue;
        if (n == NULL && !takes_all(node))
            return says(why, max, child, "field not declared in schema");
        if (n != NULL && is_untyped(n, m, child, false, why, max))
            return true;
    }
    return false;
}

static bool key_is_missing(const struct json *node, const struct json *list, const char *path, char *why, size_t max)
{
    char what[200];
    size_t i = 0;
    json_each(item, list)
    {
        struct json *key AUTO_JSON = sim_schema_key(node, item);
        snprintf(what, sizeof(what),
                 "element %zu: associative list with keys has an element that omits all key fields [\"%s\"] (and doesn't have default "
                 "values for any key fields)",
                 i++, json_str(json_at(json_get(node, "x-kubernetes-list-map-keys"), 0)));
        if (key == NULL)
            return says(why, max, path, what);
    }
    return false;
}

static bool key_is_twice(const struct json *node, const struct json *list, const char *path, char *why, size_t max)
{
    char what[200];
    const char *name = json_str(json_at(json_get(node, "x-kubernetes-list-map-keys"), 0));
    for (size_t i = 1; i < json_len(list); i++)
        for (size_t k = 0; k < i; k++)
            if (is_twin(node, json_at(list, i), json_at(list, k))) {
                snprintf(what, sizeof(what), "duplicate entries for key [%s=\"%s\"]", name, json_str(json_get(json_at(list, i), name)));
                return says(why, max, path, what);
            }
    return false;
}

static bool item_is_untyped(const struct json *node, const struct json *v, const char *path, char *why, size_t max)
{
    char child[SCHEMA_PATH_MAX];
    size_t i = 0;
    bool map = is(json_get(node, "x-kubernetes-list-type"), "map");
    if (map && (key_is_missing(node, v, path, why, max) || key_is_twice(node, v, path, why, max)))
        return true;
    json_each(item, v)
    {
        snprintf(child, sizeof(child), "%s[%zu]", path, i++);
        if (map)
            snprintf(child, sizeof(child), "%s[%s=\"%s\"]", path, json_str(json_at(json_get(node, "x-kubernetes-list-map-keys"), 0)),
                     json_str(json_get(item, json_str(json_at(json_get(node, "x-kubernetes-list-map-keys"), 0)))));
        if (is_untyped(sim_schema_items(node), item, child, false, why, max))
            return true;
    }
    return false;
}

static bool is_untyped(const struct json *node, const struct json *v, const char *path, bool root, char *why, size_t max)
{
    char what[100];
    const char *want = json_str(json_get(node, "type"));
    bool number = want != NULL && (strcmp(want, "integer") == 0 || strcmp(want, "number") == 0);
    if (json_type(v) == JSON_NULL)
        return false;
    if (number && json_type(v) != JSON_NUMBER) {
        snprintf(what, sizeof(what), "expected numeric (int or float), got %s", type_word(v));
        return says(why, max, path, what);
    }
    if (!number && !has_type(node, v)) {
        snprintf(what, sizeof(what), "expected %s, got %s", want, type_word(v));
        return says(why, max, path, what);
    }
    if (json_type(v) == JSON_OBJECT)
        return member_is_untyped(node, v, path, root, why, max);
    return json_type(v) == JSON_ARRAY && item_is_untyped(node, v, path, why, max);
}

bool sim_schema_is_untyped(const struct sim_schema *s, const struct json *patch, char *why, size_t max)
{
    return s != NULL && is_untyped(s->root, patch, "", true, why, max);
}
