// SPDX-License-Identifier: Apache-2.0
#include "flow/manifest.h"

#include <stdio.h>
#include <string.h>

#include "data/key.h"
#include "wire/yaml.h"

enum { JSON_MAX = 8 * 1024 * 1024 };

struct reader {
    const struct manifest_env *m;
    int (*fn)(void *ctx, struct manifest_object *o);
    void *ctx;
    struct err *e;
    const char *text;
    size_t len, line;
    size_t item; // of the List that the document is, from 1; 0 = it is none
};

bool manifest_is_name(const char *name)
{
    static const char *const ends[] = { ".yaml", ".yml", ".json" };
    size_t n = strlen(name);
    for (size_t i = 0; name[0] != '.' && i < ARRAY_LEN(ends); i++)
        if (n > strlen(ends[i]) && strcmp(name + n - strlen(ends[i]), ends[i]) == 0)
            return true;
    return false;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

// A DNS name in lower case, as the API server wants it.
static bool is_object_name(const char *s)
{
    char before = '.';
    if (strlen(s) >= OBJ_NAME_MAX)
        return false;
    for (; *s != '\0'; before = *s++)
        if (!is_word(*s) && !(*s == '-' && before != '.') && !(*s == '.' && is_word(before)))
            return false;
    return is_word(before);
}

static const struct kind *kind_of(const struct reader *r, const struct json *doc, struct err *e)
{
    const char *kind = json_str(json_get(doc, "kind")), *version = json_str(json_get(doc, "apiVersion"));
    char known[160];
    if (kind == NULL || version == NULL) {
        err_set(e, E_INVAL, "line %zu: apiVersion and kind are needed", r->line);
        return NULL;
    }
    const struct kind *k = registry_find(r->m->registry, kind);
    snprintf(known, sizeof(known), "%s/%s", k != NULL ? k->type.group : "", k != NULL ? k->type.version : "");
    if (k != NULL && strcmp(k->name, kind) == 0 && strcmp(known, version) == 0)
        return k;
    err_set(e, E_INVAL, "line %zu: %.100s of %.100s is no kind that a node makes true", r->line, kind, version);
    return NULL;
}

static int check_names(const struct reader *r, const struct kind *k, const char *name, const char *ns, struct err *e)
{
    if (name == NULL || !is_object_name(name))
        return err_set(e, E_INVAL, "line %zu: %s %.100s: metadata.name: must be a DNS name in lower case", r->line, k->name,
                       name != NULL ? name : "");
    if (ns != NULL && r->m->ns != NULL && strcmp(ns, r->m->ns) != 0)
        return err_set(e, E_INVAL, "line %zu: %s %s: metadata.namespace: must be absent or %s, the namespace of this node", r->line,
                       k->name, name, r->m->ns);
    return 0;
}

// In which line of the file it stands.
static size_t line_of(const struct reader *r, const char *path, size_t n)
{
    char whole[FIELDS_PATH_MAX + 32];
    if (r->item > 0)
        snprintf(whole, sizeof(whole), "items[%zu].%.*s", r->item - 1, (int)MIN(n, (size_t)FIELDS_PATH_MAX), path);
    else
        snprintf(whole, sizeof(whole), "%.*s", (int)MIN(n, (size_t)FIELDS_PATH_MAX), path);
    return yaml_line_of(r->text, r->len, r->line, whole);
}

// A server takes only texts there, and who selects by labels compares texts.
static int check_texts(const struct reader *r, const struct manifest_object *o, const struct json *doc, const char *member, struct err *e)
{
    char path[FIELDS_PATH_MAX];
    const struct json *j = json_get(json_get(doc, "metadata"), member);
    snprintf(path, sizeof(path), "metadata.%s", member);
    if (j != NULL && json_type(j) != JSON_OBJECT && json_type(j) != JSON_NULL)
        return err_set(e, E_INVAL, "line %zu: %s %s: %s: must be an object", line_of(r, path, sizeof(path)), o->kind->name, o->name, path);
    json_each(m, j)
    {
        if (json_type(m) == JSON_STRING)
            continue;
        snprintf(path, sizeof(path), "metadata.%s.%.120s", member, json_key(m));
        return err_set(e, E_INVAL, "line %zu: %s %s: %s: must be text", line_of(r, path, sizeof(path)), o->kind->name, o->name, path);
    }
    return 0;
}

static void copy_member(struct json *to, const struct json *from, const char *name)
{
    const struct json *j = json_get(from, name);
    if (j != NULL && json_type(j) != JSON_NULL)
        json_set(to, name, json_copy(j));
}

static struct json *stripped(const struct reader *r, const struct json *doc, const char *name)
{
    const struct json *old = json_get(doc, "metadata");
    struct json *j = json_object(), *meta = json_object();
    json_set_str(meta, "name", name);
    json_set_str(meta, "namespace", r->m->ns);
    copy_member(meta, old, "labels");
    copy_member(meta, old, "annotations");
    copy_member(j, doc, "apiVersion");
    copy_member(j, doc, "kind");
    json_set(j, "metadata", meta);
    copy_member(j, doc, "spec");
    return j;
}

static int check_object(const struct reader *r, const struct manifest_object *o, const struct json *json, struct err *e)
{
    int (*check)(const struct kind *, const struct kind_env *, const struct json *, struct err *) =
        o->kind->check_file != NULL ? o->kind->check_file : o->kind->check;
    struct err why = ERR_INIT;
    if (check == NULL || check(o->kind, r->m->env, json, &why) == 0)
        return 0;
    const char *colon = strchr(why.msg, ':'); // it begins with the field
    size_t line = colon != NULL ? line_of(r, why.msg, (size_t)(colon - why.msg)) : r->line;
    return err_set(e, why.cls, "line %zu: %s %s: %s", line, o->kind->name, o->name, why.msg);
}

static void look_for_unknown(const struct reader *r, const struct json *doc, struct manifest_object *o)
{
    o->n_unknown = fields_unknown(o->kind, doc, o->unknown);
    if (o->n_unknown > 0)
        o->unknown_line = line_of(r, o->unknown, strlen(o->unknown));
}

void manifest_say_unknown(const struct manifest_object *o, char *out, size_t max)
{
    char more[40] = "";
    if (o->n_unknown > 1)
        snprintf(more, sizeof(more), ", and %zu more", o->n_unknown - 1);
    snprintf(out, max, "line %zu: %s %s: unknown field %s%s", o->unknown_line, o->kind->name, o->name, o->unknown, more);
}

static int take_object(struct reader *r, const struct json *doc, struct err *e)
{
    struct manifest_object o = { .line = r->line };
    o.kind = kind_of(r, doc, e);
    if (o.kind == NULL)
        return e->cls;
    o.name = json_str(json_path(doc, "metadata.name"));
    const char *ns = json_str(json_path(doc, "metadata.namespace"));
    int rc = check_names(r, o.kind, o.name, ns, e);
    if (rc == 0)
        rc = check_texts(r, &o, doc, "labels", e);
    if (rc == 0)
        rc = check_texts(r, &o, doc, "annotations", e);
    if (rc == 0)
        rc = key_make(o.key, o.kind->type.plural, r->m->ns != NULL ? r->m->ns : "", o.name, e);
    if (rc < 0)
        return rc;
    (void)json_ok();
    struct json *json AUTO_JSON = stripped(r, doc, o.name);
    if (!json_ok())
        return err_set(e, E_NOMEM, "line %zu: no memory", r->line);
    rc = check_object(r, &o, json, e);
    if (rc < 0)
        return rc;
    look_for_unknown(r, doc, &o);
    o.name = json_path_str(json, "metadata.name");
    o.json = steal(json);
    rc = r->fn(r->ctx, &o);
    json_free(o.json);
    return rc;
}

static bool is_list(const struct json *doc)
{
    const char *kind = json_str(json_get(doc, "kind"));
    size_t n = kind != NULL ? strlen(kind) : 0;
    return n >= 4 && strcmp(kind + n - 4, "List") == 0 && json_type(json_get(doc, "items")) == JSON_ARRAY;
}

static int take_document(void *ctx, const char *text, size_t len, size_t line)
{
    struct reader *r = ctx;
    struct json *doc AUTO_JSON = NULL;
    struct err why = ERR_INIT;
    int rc = json_parse(&doc, text, len, &why);
    r->line = line;
    r->item = 0;
    if (rc < 0)
        return err_set(r->e, rc, "line %zu: %s", line, why.msg);
    if (json_type(doc) == JSON_NULL)
        return 0;
    if (json_type(doc) != JSON_OBJECT)
        return err_set(r->e, E_INVAL, "line %zu: not an object", line);
    if (!is_list(doc))
        return take_object(r, doc, r->e);
    json_each(item, json_get(doc, "items"))
    {
        r->item++;
        if (rc == 0)
            rc = take_object(r, item, r->e);
    }
    return rc;
}

int manifest_read(const struct manifest_env *m, const char *text, size_t len, int (*fn)(void *ctx, struct manifest_object *o), void *ctx,
                  struct err *e)
{
    struct reader r = { .m = m, .fn = fn, .ctx = ctx, .e = e, .text = text, .len = len };
    return yaml_documents(text, len, JSON_MAX, take_document, &r, e);
}
