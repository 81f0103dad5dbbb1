// SPDX-License-Identifier: Apache-2.0
//
// One file of the directory: what it says becomes rows of the cache, or it is left alone.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/sha256.h"
#include "data/object.h"
#include "flow/manifests_priv.h"
#include "wire/yaml.h"

// A key that a file defines. `taken`: another one before it has it.
struct defined {
    struct list link;
    bool taken;
    char key[];
};

struct claim {
    struct table_node node;
    struct file *file;
    char key[];
};

// --- What files define

static void forget_defined(struct file *f)
{
    list_each_safe(it, next, &f->defines) {
        list_del(it);
        free(container_of(it, struct defined, link));
    }
}

void manifest_file_free(struct manifests *m, struct file *f)
{
    forget_defined(f);
    table_del(&m->files, &f->node);
    free(f);
}

struct file *manifest_file_of(struct manifests *m, const char *name, struct err *e)
{
    struct table_node *n = table_get(&m->files, name);
    size_t len = strlen(name) + 1;
    if (n != NULL)
        return container_of(n, struct file, node);
    struct file *f = calloc(1, sizeof(*f) + len);
    if (f == NULL) {
        err_set(e, E_NOMEM, "manifest %s", name);
        return NULL;
    }
    memcpy(f->name, name, len);
    f->node.key = f->name;
    list_init(&f->defines);
    if (table_put(&m->files, &f->node, e) == 0)
        return f;
    free(f);
    return NULL;
}

int manifest_file_define(struct file *f, const char *key, bool taken, struct err *e)
{
    size_t n = strlen(key) + 1;
    struct defined *d = calloc(1, sizeof(*d) + n);
    if (d == NULL)
        return err_set(e, E_NOMEM, "manifest %s", f->name);
    memcpy(d->key, key, n);
    d->taken = taken;
    list_add_tail(&f->defines, &d->link);
    return 0;
}

void manifests_drop_claims(struct manifests *m)
{
    table_each_safe(n, &m->claims)
    {
        table_del(&m->claims, n);
        free(container_of(n, struct claim, node));
    }
}

struct file *manifests_owner(const struct manifests *m, const char *key)
{
    struct table_node *n = table_get(&m->claims, key);
    return n != NULL ? container_of(n, struct claim, node)->file : NULL;
}

static int claim(struct manifests *m, struct file *f, const char *key, struct err *e)
{
    size_t n = strlen(key) + 1;
    struct claim *c = calloc(1, sizeof(*c) + n);
    if (c == NULL)
        return err_set(e, E_NOMEM, "manifest %s", f->name);
    memcpy(c->key, key, n);
    c->node.key = c->key;
    c->file = f;
    int rc = table_put(&m->claims, &c->node, e);
    if (rc < 0)
        free(c);
    return rc;
}

// --- Rows

// uid and generation are what a server would give: the one stays as long as the name does, the other moves with the spec.
void manifests_uid(const char *key, char uid[OBJ_UID_MAX])
{
    char hex[SHA256_HEX];
    sha256_hex(key, strlen(key), hex);
    snprintf(uid, OBJ_UID_MAX, CACHE_FILE_UID "%.16s", hex);
}

static int next_generation(struct manifests *m, const struct manifest_object *o, int64_t *generation, struct err *e)
{
    struct cached old AUTO_CACHED = CACHED_INIT;
    struct json *was AUTO_JSON = NULL;
    struct err why = ERR_INIT;
    *generation = 1;
    int rc = cache_get(m->conf.env->cache, o->key, &old, &why);
    if (rc == E_NOTFOUND || rc == E_CORRUPT || (rc == 0 && !cache_is_file(old.source)))
        return 0;
    if (rc < 0) {
        *e = why;
        return rc;
    }
    bool same =
        json_parse(&was, buf_str(&old.json), old.json.len, NULL) == 0 && json_equal(json_get(was, "spec"), json_get(o->json, "spec"));
    *generation = old.generation + !same;
    return 0;
}

static int put_object(struct manifests *m, const struct file *f, struct manifest_object *o, struct err *e)
{
    char uid[OBJ_UID_MAX], source[SOURCE_MAX];
    struct buf text AUTO_BUF = BUF_INIT(OBJ_MAX);
    struct object_view v;
    int64_t generation;
    int rc = next_generation(m, o, &generation, e);
    if (rc < 0)
        return rc;
    struct json *meta = json_copy(json_get(o->json, "metadata"));
    manifests_uid(o->key, uid);
    json_set_str(meta, "uid", uid);
    json_set_int(meta, "generation", generation);
    json_set(o->json, "metadata", meta);
    rc = json_ok() ? json_print(o->json, &text, e) : err_set(e, E_NOMEM, "%s", o->key);
    if (rc == 0)
        rc = object_scan(&v, buf_str(&text), text.len, e);
    snprintf(source, sizeof(source), CACHE_FILE_SOURCE "%s", f->name);
    if (rc == 0)
        rc = cache_put_file(m->conf.env->cache, source, o->key, &v, buf_str(&text), text.len, e);
    if (rc >= CACHE_CHANGED)
        m->conf.changed(m->conf.ctx, o->key);
    return MIN(rc, 0);
}

// --- One file

struct reading {
    struct manifests *m;
    struct file *file;
    struct list objects; // struct kept
    struct err *e;
};

struct kept {
    struct list link;
    struct manifest_object object;
};

static void forget_objects(struct reading *r)
{
    list_each_safe(it, next, &r->objects) {
        struct kept *k = container_of(it, struct kept, link);
        list_del(it);
        json_free(k->object.json);
        free(k);
    }
}

static int keep_object(void *ctx, struct manifest_object *o)
{
    struct reading *r = ctx;
    list_each(it, &r->objects) {
        const struct manifest_object *other = &container_of(it, struct kept, link)->object;
        if (strcmp(other->key, o->key) == 0)
            return err_set(r->e, E_INVAL, "line %zu: %s %s stands twice, first in line %zu", o->line, o->kind->name, o->name, other->line);
    }
    struct kept *k = calloc(1, sizeof(*k));
    if (k == NULL)
        return err_set(r->e, E_NOMEM, "manifest %s", r->file->name);
    k->object = *o;
    o->json = NULL;
    list_add_tail(&r->objects, &k->link);
    return 0;
}

static void say_other(struct file *f, const struct manifest_object *o, const struct file *owner)
{
    f->in_force = false;
    snprintf(f->problem, sizeof(f->problem), "line %zu: %s %s is defined by %s, which comes first", o->line, o->kind->name, o->name,
             owner->name);
}

// A field that no kind here has, a typo or one of a newer agent, must not keep a node from booting what it understands; said it is.
static void say_unknown(struct file *f, const struct manifest_object *o)
{
    if (o->n_unknown > 0 && f->problem[0] == '\0')
        manifest_say_unknown(o, f->problem, sizeof(f->problem));
}

static int put_one(struct reading *r, struct manifest_object *o)
{
    const struct file *owner = manifests_owner(r->m, o->key);
    if (owner != NULL) {
        say_other(r->file, o, owner);
        return manifest_file_define(r->file, o->key, true, r->e);
    }
    say_unknown(r->file, o);
    int rc = put_object(r->m, r->file, o, r->e);
    if (rc == 0)
        rc = claim(r->m, r->file, o->key, r->e);
    return rc < 0 ? rc : manifest_file_define(r->file, o->key, false, r->e);
}

// All of the file is understood: its objects become what is wanted.
static int put_objects(struct reading *r)
{
    int rc = 0;
    forget_defined(r->file);
    r->file->in_force = true;
    list_each(it, &r->objects)
        if (rc == 0)
            rc = put_one(r, &container_of(it, struct kept, link)->object);
    return rc;
}

// What it said before stays in force, but for what a file before it has now.
static int keep_claims(struct manifests *m, struct file *f, struct err *e)
{
    int rc = 0;
    list_each(it, &f->defines) {
        struct defined *d = container_of(it, struct defined, link);
        d->taken = d->taken || manifests_owner(m, d->key) != NULL;
        if (rc == 0 && !d->taken)
            rc = claim(m, f, d->key, e);
    }
    return rc;
}

// Did it change, or who has what it defines?
static bool is_as_before(const struct manifests *m, const struct file *f, const char *sha)
{
    if (strcmp(f->sha, sha) != 0)
        return false;
    list_each(it, &f->defines) {
        const struct defined *d = container_of(it, struct defined, link);
        if (d->taken != (manifests_owner(m, d->key) != NULL))
            return false;
    }
    return true;
}

static void say_problem(struct manifests *m, struct file *f, const char *before)
{
    bool another = strcmp(before, f->problem) != 0;
    if (another && f->problem[0] == '\0')
        log_info("manifests", "right-again file=\"%s/%s\"", m->conf.dir, f->name);
    else if (another && f->in_force)
        log_warn("manifests", "unknown-field file=\"%s/%s\" why=\"%s\"", m->conf.dir, f->name, f->problem);
    else if (another)
        log_error("manifests", "left-alone file=\"%s/%s\" why=\"%s\"", m->conf.dir, f->name, f->problem);
}

static int read_objects(struct manifests *m, struct file *f, const struct buf *text, struct err *e)
{
    struct err why = ERR_INIT;
    struct reading r = { .m = m, .file = f, .e = &why };
    list_init(&r.objects);
    f->problem[0] = '\0';
    int rc = manifest_read(&m->env, buf_str(text), text->len, keep_object, &r, &why);
    if (rc == 0 && list_empty(&r.objects) && !list_empty(&f->defines))
        rc = err_set(&why, E_INVAL, "line 1: it defines nothing any more; remove the file to remove its objects");
    if (rc == 0) {
        r.e = e;
        rc = put_objects(&r);
    } else if (rc != E_NOMEM) {
        snprintf(f->problem, sizeof(f->problem), "%s", why.msg);
        f->in_force = false;
        rc = keep_claims(m, f, e);
    } else {
        *e = why;
    }
    forget_objects(&r);
    return rc;
}

// < 0: the store or the memory failed; nothing of this scan counts.
int manifest_file_read(struct manifests *m, struct file *f, struct err *e)
{
    char path[PATH_MAX], sha[SHA256_HEX], before[ERR_MSG_MAX];
    struct buf text AUTO_BUF = BUF_INIT(YAML_TEXT_MAX);
    struct err why = ERR_INIT;
    snprintf(before, sizeof(before), "%s", f->problem);
    snprintf(path, sizeof(path), "%s/%s", m->conf.dir, f->name);
    int rc = fs_read(m->conf.env->disk, path, YAML_TEXT_MAX, 0, &text, &why);
    if (rc < 0) {
        snprintf(f->problem, sizeof(f->problem), "%s", why.msg);
        f->in_force = false;
        f->sha[0] = '\0';
        rc = keep_claims(m, f, e);
    } else {
        sha256_hex(buf_str(&text), text.len, sha);
        bool same = is_as_before(m, f, sha);
        rc = same ? keep_claims(m, f, e) : read_objects(m, f, &text, e);
        snprintf(f->sha, sizeof(f->sha), "%s", rc == 0 ? sha : "");
    }
    say_problem(m, f, before);
    return rc;
}
