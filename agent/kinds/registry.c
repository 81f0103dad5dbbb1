// SPDX-License-Identifier: Apache-2.0
#include "kinds/registry.h"

#include <string.h>
#include <strings.h>

// A handful of kinds, looked up once a pass: a list in order of registration is enough.
struct entry {
    struct list link;
    const struct kind *kind;
};

struct registry {
    struct list kinds;
    size_t count;
};

#define entry_of(it) container_of(it, struct entry, link)

int registry_new(struct registry **out, struct err *e)
{
    struct registry *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return err_set(e, E_NOMEM, "registry");
    list_init(&r->kinds);
    *out = r;
    return 0;
}

void registry_free(struct registry *r)
{
    if (r == NULL)
        return;
    list_each_safe(it, next, &r->kinds)
        free(entry_of(it));
    free(r);
}

int registry_add(struct registry *r, const struct kind *k, struct err *e)
{
    list_each(it, &r->kinds) {
        const struct kind *other = entry_of(it)->kind;
        if (strcmp(other->type.plural, k->type.plural) == 0)
            return err_set(e, E_EXISTS, "kind %s: %s is taken by %s of group \"%s\"", k->name, k->type.plural, other->name,
                           other->type.group);
    }
    struct entry *n = calloc(1, sizeof(*n));
    if (n == NULL)
        return err_set(e, E_NOMEM, "kind %s", k->name);
    n->kind = k;
    list_add_tail(&r->kinds, &n->link);
    r->count++;
    return 0;
}

void registry_remove(struct registry *r, const struct kind *k)
{
    list_each_safe(it, next, &r->kinds) {
        if (entry_of(it)->kind != k)
            continue;
        list_del(it);
        free(entry_of(it));
        r->count--;
    }
}

const struct kind *registry_of_key(const struct registry *r, const char *key)
{
    size_t n = strcspn(key, "/");
    list_each(it, &r->kinds) {
        const struct kind *k = entry_of(it)->kind;
        if (strncmp(k->type.plural, key, n) == 0 && k->type.plural[n] == '\0')
            return k;
    }
    return NULL;
}

// The singular is the Kind in lower case, as in the CRDs.
static bool is_called(const struct kind *k, const char *name)
{
    if (strcasecmp(k->type.plural, name) == 0 || strcasecmp(k->name, name) == 0)
        return true;
    for (const char *const *s = k->short_names; s != NULL && *s != NULL; s++)
        if (strcasecmp(*s, name) == 0)
            return true;
    return false;
}

const struct kind *registry_find(const struct registry *r, const char *name)
{
    list_each(it, &r->kinds)
        if (is_called(entry_of(it)->kind, name))
            return entry_of(it)->kind;
    return NULL;
}

int registry_each(const struct registry *r, int (*fn)(void *ctx, const struct kind *k), void *ctx)
{
    list_each_safe(it, next, &r->kinds) {
        int rc = fn(ctx, entry_of(it)->kind);
        if (rc != 0)
            return rc;
    }
    return 0;
}

size_t registry_count(const struct registry *r)
{
    return r->count;
}
