// SPDX-License-Identifier: Apache-2.0
#include "kinds/process_refs.h"

#include <stdio.h>
#include <string.h>

#include "base/sha256.h"

enum { VARIABLES_MAX = 2048, SKIPPED_MAX = 400, SALT_MAX = 33, REVISION_HEX = 12 };

#define PROCESS_SALT "salt" // in the store's meta; db_dump.c hides it

struct resolving {
    struct process *s;
    struct pass *p;
    struct process_refs *out;
    struct refs_reader reader;
    struct sha256 digest;
    struct env_var *env; // to be
    struct ref *refs;
    size_t n;
    const struct env_from *from; // envFrom whose keys are being read
    char *skipped;
    struct err *e;
};

static int declare(const struct process *s, struct pass *p, struct err *e)
{
    size_t n = 0;
    struct ref *list = arena_alloc(p->arena, (s->n_env + s->n_env_from + 1) * sizeof(*list));
    if (list == NULL)
        return err_set(e, E_NOMEM, "references");
    for (size_t i = 0; i < s->n_env_from; i++)
        list[n++] = s->env_from[i].ref;
    for (size_t i = 0; i < s->n_env; i++)
        if (s->env_refs[i].name != NULL)
            list[n++] = s->env_refs[i];
    return p->env->refs != NULL ? refs_declare(p->env->refs, p->key, list, n, e) : 0;
}

// Over one of that name, or behind all.
static int set_variable(struct resolving *x, const char *name, const char *value, const struct ref *ref)
{
    size_t i = 0;
    while (i < x->n && strcmp(x->env[i].name, name) != 0)
        i++;
    if (i == VARIABLES_MAX)
        return err_set(x->e, E_TOOBIG, "more than %d environment variables", VARIABLES_MAX);
    x->n = MAX(x->n, i + 1);
    x->env[i].name = name;
    x->env[i].value = value;
    x->refs[i] = *ref;
    return 0;
}

static void add_digest(struct resolving *x, const char *name, const struct ref_value *v)
{
    uint64_t n = v->len;
    sha256_add(&x->digest, name, strlen(name) + 1);
    sha256_add(&x->digest, &n, sizeof(n));
    sha256_add(&x->digest, v->data, v->len);
}

static bool fits(const struct ref_value *v)
{
    return memchr(v->data, '\0', v->len) == NULL;
}

static void skip(struct resolving *x, const char *name)
{
    size_t n = strlen(x->skipped);
    snprintf(x->skipped + n, SKIPPED_MAX - n, "%s%s", n > 0 ? ", " : "", name);
}

static int take_key(void *ctx, const char *key, const struct ref_value *v)
{
    struct resolving *x = ctx;
    const char *name = arena_printf(x->p->arena, "%s%s", x->from->prefix, key);
    if (name == NULL)
        return err_set(x->e, E_TOOBIG, "spec.envFrom: too large for the memory of a pass");
    if (!process_is_env_name(name) || !fits(v)) {
        skip(x, name);
        return 0;
    }
    add_digest(x, name, v);
    return set_variable(x, name, v->data, &x->from->ref);
}

static int take_whole(struct resolving *x, const struct env_from *from)
{
    enum ref_state state;
    x->from = from;
    int rc = refs_read_all(&x->reader, &from->ref, &state, take_key, x, x->e);
    if (rc == 0)
        (void)references_note(&x->out->found, x->reader.refs, &from->ref, state);
    return rc;
}

static int take_one(struct resolving *x, size_t i)
{
    const struct ref *ref = &x->s->env_refs[i];
    const struct env_var *v = &x->s->env[i];
    struct ref_value value;
    if (ref->name == NULL)
        return set_variable(x, v->name, v->value, ref);
    int rc = refs_read(&x->reader, ref, &value, x->e);
    if (rc < 0 || !references_note(&x->out->found, x->reader.refs, ref, value.state))
        return rc;
    if (!fits(&value)) {
        references_unfit(&x->out->found, ref, "holds a NUL byte, which no environment variable can");
        return 0;
    }
    add_digest(x, v->name, &value);
    return set_variable(x, v->name, value.data, ref);
}

// Made when it is first needed. One that cannot be kept serves nobody: the values would seem to change with each start.
static int salt_of(const struct kind_env *env, char out[SALT_MAX], struct err *e)
{
    unsigned char raw[(SALT_MAX - 1) / 2];
    int rc = db_meta_get(env->db, PROCESS_SALT, out, SALT_MAX, e);
    if (rc != E_NOTFOUND)
        return rc;
    env->clock->ops->random(env->clock, raw, sizeof(raw));
    for (size_t i = 0; i < sizeof(raw); i++)
        snprintf(out + 2 * i, 3, "%02x", raw[i]);
    if (db_meta_set(env->db, PROCESS_SALT, out, e) < 0)
        out[0] = '\0';
    return 0;
}

static int name_values(struct resolving *x)
{
    char hex[SHA256_HEX], salt[SALT_MAX];
    int rc = salt_of(x->p->env, salt, x->e);
    if (rc < 0 || salt[0] == '\0')
        return rc;
    sha256_add(&x->digest, salt, strlen(salt));
    sha256_add(&x->digest, x->s->revision, strlen(x->s->revision));
    sha256_end_hex(&x->digest, hex);
    memcpy(strchr(x->s->revision, '-') + 1, hex, REVISION_HEX); // what it ends in stays
    return 0;
}

static int resolve(struct resolving *x, bool digest)
{
    int rc = 0;
    sha256_init(&x->digest);
    for (size_t i = 0; i < x->s->n_env_from && rc == 0; i++)
        rc = take_whole(x, &x->s->env_from[i]);
    for (size_t i = 0; i < x->s->n_env && rc == 0; i++)
        rc = take_one(x, i);
    return rc == 0 && digest && !x->out->found.missing ? name_values(x) : rc;
}

static bool refers(const struct process *s)
{
    for (size_t i = 0; i < s->n_env; i++)
        if (s->env_refs[i].name != NULL)
            return true;
    return s->n_env_from > 0;
}

int process_resolve(struct process *s, struct pass *p, bool digest, struct process_refs *out, struct err *e)
{
    struct resolving x = { .s = s, .p = p, .out = out, .e = e };
    *out = (struct process_refs){ .skipped = "" };
    int rc = declare(s, p, e);
    if (rc < 0 || !refers(s))
        return rc;
    x.env = arena_alloc(p->arena, VARIABLES_MAX * sizeof(*x.env));
    x.refs = arena_alloc(p->arena, VARIABLES_MAX * sizeof(*x.refs));
    x.skipped = arena_alloc(p->arena, SKIPPED_MAX);
    if (x.env == NULL || x.refs == NULL || x.skipped == NULL)
        return err_set(e, E_NOMEM, "references");
    refs_reader_init(&x.reader, p->env->refs, p->arena);
    rc = resolve(&x, digest);
    refs_reader_fini(&x.reader);
    s->env = x.env;
    s->env_refs = x.refs;
    s->n_env = x.n;
    out->skipped = x.skipped;
    return rc;
}
