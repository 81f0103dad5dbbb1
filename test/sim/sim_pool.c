// SPDX-License-Identifier: Apache-2.0
#include "sim_pool.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "base/util.h"

// Steps of 16 bytes first, then four to each doubling.
enum { STEP = 16, FINE = 64, FINE_MAX = STEP * FINE, DOUBLINGS = 8, CLASSES = FINE + 4 * DOUBLINGS, POOLED_MAX = FINE_MAX << DOUBLINGS };
enum { CHUNK = 1 << 20 };

struct free_block {
    struct free_block *next;
};

static struct free_block *free_blocks[CLASSES];
static char *chunk;
static size_t chunk_left;

// Of at most POOLED_MAX bytes.
static size_t class_of(size_t n)
{
    if (n <= FINE_MAX)
        return n > 0 ? (n - 1) / STEP : 0;
    int doubling = 63 - __builtin_clzll((n - 1) / FINE_MAX); // n is in ]FINE_MAX << doubling, FINE_MAX << (doubling + 1)]
    return FINE + 4 * (size_t)doubling + ((n - 1) >> (8 + doubling)) % 4;
}

static size_t size_of(size_t class)
{
    if (class < FINE)
        return (class + 1) * STEP;
    size_t doubling = (class - FINE) / 4, quarter = (class - FINE) % 4;
    return (size_t)(5 + quarter) << (8 + doubling);
}

static void *map(size_t n)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p != MAP_FAILED ? p : NULL;
}

static void *cut(size_t n)
{
    if (n > chunk_left) {
        chunk = map(CHUNK);
        chunk_left = chunk != NULL ? CHUNK : 0;
    }
    if (n > chunk_left)
        return NULL;
    chunk_left -= n;
    return chunk + chunk_left;
}

void *sim_pool_take(size_t n)
{
    if (n > POOLED_MAX)
        return map(n);
    size_t class = class_of(n);
    struct free_block *b = free_blocks[class];
    if (b == NULL)
        return cut(size_of(class));
    free_blocks[class] = b->next;
    return b;
}

void sim_pool_give(void *p, size_t n)
{
    struct free_block *b = p;
    if (n > POOLED_MAX) {
        munmap(p, n);
        return;
    }
    b->next = free_blocks[class_of(n)];
    free_blocks[class_of(n)] = b;
}

static bool same_class(size_t a, size_t b)
{
    return a <= POOLED_MAX && b <= POOLED_MAX && class_of(a) == class_of(b);
}

void *sim_pool_resize(void *p, size_t was, size_t n)
{
    if (same_class(was, n))
        return p;
    void *moved = sim_pool_take(n);
    if (moved == NULL)
        return NULL;
    memcpy(moved, p, MIN(was, n));
    sim_pool_give(p, was);
    return moved;
}
