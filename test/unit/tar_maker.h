// SPDX-License-Identifier: Apache-2.0
// tar_maker — archives as nobody's tar makes them, for tests: each header is put together by hand.
#ifndef TEST_TAR_MAKER_H
#define TEST_TAR_MAKER_H

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "tap.h"

enum { BLOCK = 512, ARCHIVE_MAX = 8 << 20 };

static inline void put(struct buf *b, const void *p, size_t n)
{
    if (buf_add(b, p, n, NULL) < 0)
        abort();
}

static inline void put_zeros(struct buf *b, size_t n)
{
    static const char zeros[BLOCK];
    for (; n > 0; n -= MIN(n, sizeof(zeros)))
        put(b, zeros, MIN(n, sizeof(zeros)));
}

static inline void put_padding(struct buf *b)
{
    put_zeros(b, (BLOCK - b->len % BLOCK) % BLOCK);
}

static inline void put_header(struct buf *b, char type, const char *name, const char *link, unsigned mode, size_t size)
{
    unsigned char h[BLOCK] = { 0 };
    unsigned sum = 0;
    char text[16];
    memcpy(h, name, MIN(strlen(name), (size_t)100));
    memcpy(h + 100, text, (size_t)snprintf(text, sizeof(text), "%07o", mode) + 1);
    memcpy(h + 124, text, (size_t)snprintf(text, sizeof(text), "%011zo", size) + 1);
    h[156] = (unsigned char)type;
    memcpy(h + 157, link, MIN(strlen(link), (size_t)100));
    memcpy(h + 257, "ustar\00000", 8);
    memset(h + 148, ' ', 8);
    for (size_t i = 0; i < sizeof(h); i++)
        sum += h[i];
    memcpy(h + 148, text, (size_t)snprintf(text, sizeof(text), "%06o", sum) + 1);
    put(b, h, sizeof(h));
}

static inline void put_text(struct buf *b, char type, const char *name, unsigned mode, const char *content)
{
    put_header(b, type, name, "", mode, strlen(content));
    put(b, content, strlen(content));
    put_padding(b);
}

static inline void put_link(struct buf *b, char type, const char *name, const char *target)
{
    put_header(b, type, name, target, 0777, 0);
}

static inline void put_end(struct buf *b)
{
    put_zeros(b, 2 * BLOCK);
}

#endif
