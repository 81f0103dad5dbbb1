// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { BUF_FIRST = 64 };

void buf_init(struct buf *b, size_t max)
{
    *b = (struct buf)BUF_INIT(max);
}

void buf_fini(struct buf *b)
{
    free(b->data);
    buf_init(b, b->max);
}

void buf_wipe(struct buf *b)
{
    if (b->data != NULL)
        explicit_bzero(b->data, b->alloc);
    buf_fini(b);
}

void buf_reset(struct buf *b)
{
    b->len = 0;
    if (b->data != NULL)
        b->data[0] = '\0';
}

int buf_reserve(struct buf *b, size_t more, struct err *e)
{
    // max itself may be SIZE_MAX; the terminator must still fit.
    size_t max = MIN(b->max, SIZE_MAX - 1);
    if (more > max - MIN(b->len, max))
        return err_set(e, E_TOOBIG, "buffer would exceed %zu bytes", b->max);
    size_t need = b->len + more + 1;
    if (need <= b->alloc)
        return 0;
    size_t alloc = MAX(need, MAX(b->alloc, (size_t)BUF_FIRST));
    if (b->alloc > 0 && alloc < b->alloc * 2 && b->alloc < SIZE_MAX / 2)
        alloc = b->alloc * 2;
    alloc = MAX(need, MIN(alloc, max + 1));
    char *data = realloc(b->data, alloc);
    if (data == NULL)
        return err_set(e, E_NOMEM, "no memory for %zu bytes", alloc);
    b->data = data;
    b->alloc = alloc;
    b->data[b->len] = '\0';
    return 0;
}

int buf_add(struct buf *b, const void *p, size_t n, struct err *e)
{
    int r = buf_reserve(b, n, e);
    if (r != 0)
        return r;
    if (n > 0)
        memcpy(b->data + b->len, p, n);
    b->len += n;
    b->data[b->len] = '\0';
    return 0;
}

int buf_adds(struct buf *b, const char *s, struct err *e)
{
    return buf_add(b, s, strlen(s), e);
}

int buf_addf(struct buf *b, struct err *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        return err_set(e, E_INVAL, "text cannot be formatted");
    int r = buf_reserve(b, (size_t)n, e);
    if (r != 0)
        return r;
    va_start(ap, fmt);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
    return 0;
}

void buf_drop(struct buf *b, size_t n)
{
    if (n == 0)
        return;
    if (n >= b->len) {
        buf_reset(b);
        return;
    }
    memmove(b->data, b->data + n, b->len - n + 1);
    b->len -= n;
}

const char *buf_str(const struct buf *b)
{
    return b->data != NULL ? b->data : "";
}

char *buf_steal(struct buf *b)
{
    if (b->len == 0)
        return NULL;
    char *data = b->data;
    buf_init(b, b->max);
    return data;
}

struct arena_block {
    struct arena_block *next;
    size_t used, size;
    max_align_t data[];
};

enum { ARENA_BLOCK = 4000 }; // with malloc's own header, a page

void arena_init(struct arena *a, size_t max)
{
    *a = (struct arena){ .max = MIN(max, SIZE_MAX / 2) }; // so that no sum below can wrap
}

void arena_reset(struct arena *a)
{
    while (a->head != NULL) {
        struct arena_block *next = a->head->next;
        free(a->head);
        a->head = next;
    }
    a->used = 0;
}

static struct arena_block *arena_grow(struct arena *a, size_t n)
{
    size_t size = MAX(n, (size_t)ARENA_BLOCK - sizeof(struct arena_block));
    struct arena_block *b = malloc(sizeof(*b) + size);
    if (b == NULL)
        return NULL;
    *b = (struct arena_block){ .next = a->head, .size = size };
    a->head = b;
    return b;
}

void *arena_alloc(struct arena *a, size_t n)
{
    const size_t align = _Alignof(max_align_t);
    if (n > a->max)
        return NULL;
    size_t room = (n + align - 1) / align * align;
    if (room > a->max - a->used)
        return NULL;
    struct arena_block *b = a->head;
    if (b == NULL || room > b->size - b->used)
        b = arena_grow(a, room);
    if (b == NULL)
        return NULL;
    void *p = (char *)b->data + b->used;
    b->used += room;
    a->used += room;
    return memset(p, 0, n);
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
    size_t len = strnlen(s, n);
    char *p = arena_alloc(a, len + 1);
    if (p != NULL)
        memcpy(p, s, len);
    return p;
}

char *arena_strdup(struct arena *a, const char *s)
{
    return arena_strndup(a, s, strlen(s));
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *p = n < 0 ? NULL : arena_alloc(a, (size_t)n + 1);
    if (p == NULL)
        return NULL;
    va_start(ap, fmt);
    vsnprintf(p, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return p;
}
