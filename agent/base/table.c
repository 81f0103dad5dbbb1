// SPDX-License-Identifier: Apache-2.0
#include "base/table.h"

#include <string.h>

enum { BUCKETS_MIN = 16 };

void table_init(struct table *t)
{
    *t = (struct table){ NULL, 0, 0 };
}

void table_fini(struct table *t)
{
    free(t->bucket);
    table_init(t);
}

static struct table_node **bucket_of(const struct table *t, uint64_t hash)
{
    return &t->bucket[hash & (t->n_buckets - 1)];
}

static bool resize(struct table *t, size_t n)
{
    struct table_node **old = t->bucket, **new = calloc(n, sizeof(*new));
    size_t n_old = t->n_buckets;
    if (new == NULL)
        return false;
    t->bucket = new;
    t->n_buckets = n;
    for (size_t i = 0; i < n_old; i++)
        for (struct table_node *it = old[i], *next; it != NULL; it = next) {
            next = it->next;
            struct table_node **b = bucket_of(t, it->hash);
            it->next = *b;
            *b = it;
        }
    free(old);
    return true;
}

struct table_node *table_get(const struct table *t, const char *key)
{
    if (t->count == 0)
        return NULL;
    uint64_t h = hash_bytes(HASH_SEED, key, strlen(key));
    for (struct table_node *it = *bucket_of(t, h); it != NULL; it = it->next)
        if (it->hash == h && strcmp(it->key, key) == 0)
            return it;
    return NULL;
}

int table_put(struct table *t, struct table_node *n, struct err *e)
{
    if (table_get(t, n->key) != NULL)
        return err_set(e, E_EXISTS, "%s is in the table", n->key);
    if (t->count >= t->n_buckets && !resize(t, t->n_buckets != 0 ? t->n_buckets * 2 : BUCKETS_MIN) && t->n_buckets == 0)
        return err_set(e, E_NOMEM, "table");
    n->hash = hash_bytes(HASH_SEED, n->key, strlen(n->key));
    struct table_node **b = bucket_of(t, n->hash);
    n->next = *b;
    *b = n;
    t->count++;
    return 0;
}

void table_del(struct table *t, struct table_node *n)
{
    if (t->n_buckets == 0)
        return;
    for (struct table_node **p = bucket_of(t, n->hash); *p != NULL; p = &(*p)->next)
        if (*p == n) {
            *p = n->next;
            n->next = NULL;
            t->count--;
            return;
        }
}

struct table_node *table_first(const struct table *t)
{
    for (size_t i = 0; i < t->n_buckets; i++)
        if (t->bucket[i] != NULL)
            return t->bucket[i];
    return NULL;
}

struct table_node *table_after(const struct table *t, const struct table_node *n)
{
    if (n->next != NULL)
        return n->next;
    for (size_t i = (n->hash & (t->n_buckets - 1)) + 1; i < t->n_buckets; i++)
        if (t->bucket[i] != NULL)
            return t->bucket[i];
    return NULL;
}
