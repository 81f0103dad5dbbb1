// SPDX-License-Identifier: Apache-2.0
#include "data/marks.h"

#include <string.h>

enum { SLOTS_FIRST = 256 }; // a power of two, as all that follow

static uint64_t hash_of(const char *key)
{
    uint64_t h = hash_bytes(HASH_SEED, key, strlen(key));
    return h != 0 ? h : 1;
}

// Where h is, or the empty slot where it would go.
static uint64_t *find(uint64_t *slot, size_t n_slots, uint64_t h)
{
    size_t i = h & (n_slots - 1);
    while (slot[i] != 0 && slot[i] != h)
        i = (i + 1) & (n_slots - 1);
    return &slot[i];
}

static int grow(struct marks *m, struct err *e)
{
    size_t n = m->n_slots > 0 ? m->n_slots * 2 : SLOTS_FIRST;
    uint64_t *slot = calloc(n, sizeof(*slot));
    if (slot == NULL)
        return err_set(e, E_NOMEM, "no memory to mark %zu keys", m->count + 1);
    for (size_t i = 0; i < m->n_slots; i++)
        if (m->slot[i] != 0)
            *find(slot, n, m->slot[i]) = m->slot[i];
    free(m->slot);
    m->slot = slot;
    m->n_slots = n;
    return 0;
}

int marks_add(struct marks *m, const char *key, struct err *e)
{
    int r = m->count * 4 >= m->n_slots * 3 ? grow(m, e) : 0;
    if (r != 0)
        return r;
    uint64_t h = hash_of(key), *at = find(m->slot, m->n_slots, h);
    m->count += *at == 0;
    *at = h;
    return 0;
}

bool marks_has(const struct marks *m, const char *key)
{
    return m->n_slots > 0 && *find(m->slot, m->n_slots, hash_of(key)) != 0;
}

void marks_clear(struct marks *m)
{
    if (m->slot != NULL)
        memset(m->slot, 0, m->n_slots * sizeof(*m->slot));
    m->count = 0;
}

void marks_fini(struct marks *m)
{
    free(m->slot);
    *m = (struct marks){ 0 };
}
