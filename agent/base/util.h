// SPDX-License-Identifier: Apache-2.0
// util — the handful of macros that everything uses, intrusive lists, and cleanup attributes.
#ifndef BASE_UTIL_H
#define BASE_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define UNUSED __attribute__((unused))
// Each argument is evaluated once: one that draws a random number or reads a clock gives one answer, not the second of two. Not for constant
// expressions. The counter makes names that a MIN() within a MIN() does not hide.
#define PICK_(op, a, b, x, y)  \
    ({                         \
        __typeof__(a) x = (a); \
        __typeof__(b) y = (b); \
        x op y ? x : y;        \
    })
#define PICK_NAMED(op, a, b, n) PICK_NAMES(op, a, b, n)
#define PICK_NAMES(op, a, b, n) PICK_(op, a, b, pick_a##n, pick_b##n)
#define MIN(a, b) PICK_NAMED(<, a, b, __COUNTER__)
#define MAX(a, b) PICK_NAMED(>, a, b, __COUNTER__)

// Circular doubly linked list; a head is a node that links to itself.
struct list {
    struct list *prev, *next;
};
#define LIST_INIT(name)  \
    {                    \
        &(name), &(name) \
    }

static inline void list_init(struct list *l)
{
    l->prev = l->next = l;
}
static inline bool list_empty(const struct list *l)
{
    return l->next == l;
}
static inline bool list_linked(const struct list *l)
{
    return l->next != NULL && l->next != l;
}
static inline void list_add_tail(struct list *head, struct list *n)
{
    n->prev = head->prev;
    n->next = head;
    head->prev->next = n;
    head->prev = n;
}
// Unlinks `n`; safe to call again.
static inline void list_del(struct list *n)
{
    if (n->next == NULL)
        return;
    n->prev->next = n->next;
    n->next->prev = n->prev;
    list_init(n);
}
#define list_each(it, head) for (struct list *it = (head)->next; it != (head); it = it->next)
#define list_each_safe(it, tmp, head) for (struct list *it = (head)->next, *tmp = it->next; it != (head); it = tmp, tmp = it->next)

// Ownership: CLEANUP(x) frees at scope end, steal() takes it out of the scope.
#define CLEANUP(fn) __attribute__((cleanup(fn)))
static inline void cleanup_free(void *p)
{
    free(*(void **)p);
}
static inline void cleanup_close(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}
#define AUTO_FREE CLEANUP(cleanup_free)
#define AUTO_CLOSE CLEANUP(cleanup_close)
#define steal(p)                        \
    ({                                  \
        __typeof__(p) steal_tmp_ = (p); \
        (p) = NULL;                     \
        steal_tmp_;                     \
    })
static inline int steal_fd(int *fd)
{
    int r = *fd;
    *fd = -1;
    return r;
}

// A name in lower case, cut to max - 1 bytes. ASCII: what the API server writes in capitals.
static inline void ascii_lower(const char *s, char *out, size_t max)
{
    size_t i = 0;
    for (; s[i] != '\0' && i < max - 1; i++)
        out[i] = (char)(s[i] >= 'A' && s[i] <= 'Z' ? s[i] + ('a' - 'A') : s[i]);
    out[i] = '\0';
}

// 64-bit FNV-1a, for tables and change detection inside one process and one store; not against an adversary.
#define HASH_SEED UINT64_C(0xcbf29ce484222325)
static inline uint64_t hash_bytes(uint64_t h, const void *p, size_t n)
{
    const unsigned char *b = p;
    for (size_t i = 0; i < n; i++)
        h = (h ^ b[i]) * UINT64_C(0x100000001b3);
    return h;
}

#endif
