// SPDX-License-Identifier: Apache-2.0
// table — an intrusive hash table keyed by strings. Nodes and keys belong to whoever embeds them; the table owns its bucket array only.
// Grows by doubling; when there is no memory to grow it goes on with longer chains, so only the very first put can fail.
#ifndef BASE_TABLE_H
#define BASE_TABLE_H

#include "base/err.h"
#include "base/util.h"

struct table_node {
    struct table_node *next;
    uint64_t hash;
    const char *key; // set before table_put, unchanged while inside
};

struct table {
    struct table_node **bucket;
    size_t n_buckets, count;
};

void table_init(struct table *t);
void table_fini(struct table *t);                                             // frees the buckets, not the nodes
struct table_node *table_get(const struct table *t, const char *key);         // NULL = absent
int table_put(struct table *t, struct table_node *n, struct err *e) MUST_USE; // E_EXISTS, E_NOMEM
void table_del(struct table *t, struct table_node *n);                        // safe when not inside
static inline size_t table_count(const struct table *t)
{
    return t->count;
}
// Iteration in no particular order; the current node may be deleted or freed inside, others may not, and none may be added.
struct table_node *table_first(const struct table *t);
struct table_node *table_after(const struct table *t, const struct table_node *n);
#define table_each_safe(it, t)                                                                                      \
    for (struct table_node *it = table_first(t), *it##_next = it != NULL ? table_after((t), it) : NULL; it != NULL; \
         it = it##_next, it##_next = it != NULL ? table_after((t), it) : NULL)

#endif
