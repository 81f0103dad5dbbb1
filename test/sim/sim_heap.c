// SPDX-License-Identifier: Apache-2.0
// The linker leads every malloc of the program here (--wrap, see the Makefile), those of libraries and of a static libc, too.
#include "sim_heap.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "sim_pool.h"

volatile enum heap_owner sim_heap_owner;

static struct heap_count counts[HEAP_OWNERS];

struct heap_count sim_heap_of(enum heap_owner o)
{
    return counts[o];
}

void sim_heap_begin(void)
{
    for (int i = 0; i < HEAP_OWNERS; i++)
        counts[i].most = counts[i].bytes;
}

#ifdef __SANITIZE_ADDRESS__

bool sim_heap_counts(void)
{
    return false;
}

#else

enum { IN_USE = 0x11e, GIVEN_BACK = 0xdead };

// Before each block. As long as the strictest alignment, so that the block has it, too.
struct head {
    _Alignas(max_align_t) size_t size;
    uint16_t owner, state;
};

void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t each);
void *__wrap_realloc(void *p, size_t n);
void __wrap_free(void *p);
size_t __wrap_malloc_usable_size(void *p);

bool sim_heap_counts(void)
{
    return true;
}

static void count(enum heap_owner o, int64_t bytes, int blocks)
{
    struct heap_count *c = &counts[o];
    c->bytes += bytes;
    c->blocks += blocks;
    c->most = MAX(c->most, c->bytes);
}

// A block that is freed twice, or that came past this file, ends the program.
static struct head *head_of(void *p)
{
    struct head *h = (struct head *)p - 1;
    if (h->state != IN_USE)
        abort();
    return h;
}

void *__wrap_malloc(size_t n)
{
    struct head *h = n < SIZE_MAX / 2 ? sim_pool_take(sizeof(*h) + n) : NULL;
    if (h == NULL)
        return NULL;
    *h = (struct head){ .size = n, .owner = (uint16_t)sim_heap_owner, .state = IN_USE };
    count(sim_heap_owner, (int64_t)n, 1);
    return h + 1;
}

void *__wrap_calloc(size_t n, size_t each)
{
    size_t size;
    void *p = __builtin_mul_overflow(n, each, &size) ? NULL : __wrap_malloc(size);
    return p != NULL ? memset(p, 0, size) : NULL;
}

void __wrap_free(void *p)
{
    if (p == NULL)
        return;
    struct head *h = head_of(p);
    count((enum heap_owner)h->owner, -(int64_t)h->size, -1);
    h->state = GIVEN_BACK;
    sim_pool_give(h, sizeof(*h) + h->size);
}

// It stays with its owner.
void *__wrap_realloc(void *p, size_t n)
{
    if (p == NULL)
        return __wrap_malloc(n);
    struct head *h = head_of(p), *grown = NULL;
    if (n < SIZE_MAX / 2)
        grown = sim_pool_resize(h, sizeof(*h) + h->size, sizeof(*h) + n);
    if (grown == NULL)
        return NULL;
    count((enum heap_owner)grown->owner, (int64_t)n - (int64_t)grown->size, 0);
    grown->size = n;
    return grown + 1;
}

size_t __wrap_malloc_usable_size(void *p)
{
    return p != NULL ? head_of(p)->size : 0;
}

#endif
