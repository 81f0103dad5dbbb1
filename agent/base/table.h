// SPDX-License-Identifier: Apache-2.0
// table — nodes found by a string key.
//
// Intrusive: a node lies in what it stands for, whose owner also owns the key's text (unchanged while the node is in). The table owns
// only its slots. Not ordered; not against keys made to collide.
#ifndef BASE_TABLE_H
#define BASE_TABLE_H

#include "base/err.h"
#include "base/util.h"

struct table_node {
    struct table_node *next;
    uint64_t hash;
    const char *key;
};

struct table {
    struct table_node **slots;
    size_t n_slots; // 0, or a power of two
    size_t count;   // nodes
};

void table_init(struct table *t);
void table_fini(struct table *t); // forgets the nodes, frees the slots; can be used again

struct table_node *table_get(const struct table *t, const char *key); // NULL = not there
// E_EXISTS: the key is there, the table unchanged. E_NOMEM: only for the very first node; later the table works on with the slots it has.
int table_put(struct table *t, struct table_node *n, const char *key, struct err *e) MUST_USE;
void table_del(struct table *t, struct table_node *n); // n must be in

struct table_node *table_first(const struct table *t); // NULL at the end
struct table_node *table_next(const struct table *t, const struct table_node *n);
// The body may delete (and free) the current node, no other; nothing may be put.
#define table_each(it, t) \
    for (struct table_node *it = table_first(t), *it##_next = NULL; it != NULL && (it##_next = table_next((t), it), true); it = it##_next)

#endif
