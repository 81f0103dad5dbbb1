// SPDX-License-Identifier: Apache-2.0
#include "base/table.h"

#include <string.h>

enum { FIRST_SLOTS = 16 };

void table_init(struct table *t)
{
    *t = (struct table){ 0 };
}

void table_fini(struct table *t)
{
    free(t->slots);
    table_init(t);
}

static struct table_node **slot_of(const struct table *t, uint64_t hash)
{
    // The multiplication of FNV carries upwards: the high half helps the low bits.
    return &t->slots[(size_t)(hash ^ (hash >> 32)) & (t->n_slots - 1)];
}

static uint64_t hash_key(const char *key)
{
    return hash_bytes(HASH_SEED, key, strlen(key));
}

static struct table_node *find(const struct table *t, const char *key, uint64_t hash)
{
    if (t->n_slots == 0)
        return NULL;
    struct table_node *n = *slot_of(t, hash);
    while (n != NULL && (n->hash != hash || strcmp(n->key, key) != 0))
        n = n->next;
    return n;
}

struct table_node *table_get(const struct table *t, const char *key)
{
    return find(t, key, hash_key(key));
}

static void link_node(struct table *t, struct table_node *n)
{
    struct table_node **slot = slot_of(t, n->hash);
    n->next = *slot;
    *slot = n;
}

static void grow(struct table *t)
{
    struct table old = *t;
    size_t n_slots = old.n_slots > 0 ? old.n_slots * 2 : FIRST_SLOTS;
    struct table_node **slots = calloc(n_slots, sizeof(*slots));
    if (slots == NULL)
        return;
    t->slots = slots;
    t->n_slots = n_slots;
    for (size_t i = 0; i < old.n_slots; i++) {
        for (struct table_node *n = old.slots[i], *next; n != NULL; n = next) {
            next = n->next;
            link_node(t, n);
        }
    }
    free(old.slots);
}

int table_put(struct table *t, struct table_node *n, const char *key, struct err *e)
{
    uint64_t hash = hash_key(key);
    if (find(t, key, hash) != NULL)
        return err_set(e, E_EXISTS, "key %s is there", key);
    if (t->count >= t->n_slots)
        grow(t);
    if (t->n_slots == 0)
        return err_set(e, E_NOMEM, "no memory for a table");
    n->hash = hash;
    n->key = key;
    link_node(t, n);
    t->count++;
    return 0;
}

void table_del(struct table *t, struct table_node *n)
{
    struct table_node **at = slot_of(t, n->hash);
    while (*at != n)
        at = &(*at)->next;
    *at = n->next;
    n->next = NULL;
    t->count--;
}

static struct table_node *first_from(const struct table *t, size_t i)
{
    for (; i < t->n_slots; i++)
        if (t->slots[i] != NULL)
            return t->slots[i];
    return NULL;
}

struct table_node *table_first(const struct table *t)
{
    return first_from(t, 0);
}

struct table_node *table_next(const struct table *t, const struct table_node *n)
{
    if (n->next != NULL)
        return n->next;
    return first_from(t, (size_t)(slot_of(t, n->hash) - t->slots) + 1);
}
