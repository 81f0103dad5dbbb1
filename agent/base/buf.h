// SPDX-License-Identifier: Apache-2.0
// buf — a growing byte buffer with a bound, and an arena with a bound.
//
// Every buffer has a maximum; reaching it is E_TOOBIG and leaves the contents as they were. data is always NUL-terminated
// (the terminator is not counted in len), so text can be used in place.
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/err.h"
#include "base/util.h"

struct buf {
    char *data; // NULL until the first byte
    size_t len;
    size_t alloc;
    size_t max; // bytes, without the terminator
};

void buf_init(struct buf *b, size_t max);
void buf_fini(struct buf *b);  // frees; the buffer can be used again (same max)
void buf_wipe(struct buf *b);  // like buf_fini, overwriting first: for secrets
void buf_reset(struct buf *b); // len = 0, memory kept
#define AUTO_BUF CLEANUP(buf_fini)
#define AUTO_WIPE CLEANUP(buf_wipe)
#define BUF_INIT(maxbytes)     \
    {                          \
        NULL, 0, 0, (maxbytes) \
    }

int buf_add(struct buf *b, const void *p, size_t n, struct err *e) MUST_USE;
int buf_adds(struct buf *b, const char *s, struct err *e) MUST_USE;
int buf_addf(struct buf *b, struct err *e, const char *fmt, ...) PRINTF_LIKE(3, 4) MUST_USE;
int buf_reserve(struct buf *b, size_t more, struct err *e) MUST_USE; // room for `more` bytes after len
void buf_drop(struct buf *b, size_t n);                              // removes the first n bytes
const char *buf_str(const struct buf *b);                            // never NULL
char *buf_steal(struct buf *b);                                      // malloc'd text, buffer empty again; NULL when empty

// A pass's memory: allocated piecewise, freed all at once. Aligned to max_align_t.
struct arena_block;
struct arena {
    struct arena_block *head;
    size_t used; // bytes handed out
    size_t max;
};

void arena_init(struct arena *a, size_t max);
void arena_reset(struct arena *a);                  // frees everything, can be used again
void *arena_alloc(struct arena *a, size_t n);       // zeroed; NULL when over the bound or out of memory
char *arena_strdup(struct arena *a, const char *s); // NULL likewise
char *arena_strndup(struct arena *a, const char *s, size_t n);
char *arena_printf(struct arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
