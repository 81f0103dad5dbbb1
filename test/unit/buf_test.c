// SPDX-License-Identifier: Apache-2.0
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

// Memory that ends after so many more allocations; -1 = never.
static long allocations_left = -1;

static void *test_realloc(void *p, size_t n)
{
    if (allocations_left == 0)
        return NULL;
    if (allocations_left > 0)
        allocations_left--;
    return realloc(p, n);
}

// The first bytes of what was freed last, as they were then.
static char freed[8];

static void test_free(void *p)
{
    memset(freed, 0, sizeof(freed));
    if (p != NULL)
        memcpy(freed, p, MIN(malloc_usable_size(p), sizeof(freed)));
    free(p);
}

#define free(p) test_free(p)
#define realloc(p, n) test_realloc(p, n)
#define malloc(n) test_realloc(NULL, n)
#include "base/buf.c"
#undef free
#undef realloc
#undef malloc

#include "tap.h"

static void test_add(void)
{
    struct err e = ERR_INIT;
    AUTO_BUF struct buf b = BUF_INIT(1000);
    is_str(buf_str(&b), "", "an empty buffer reads as empty text");
    ok(b.data == NULL, "and has no memory");
    is_int(buf_adds(&b, "abc", &e), 0, "text");
    is_int(buf_add(&b, "d\0e", 3, &e), 0, "bytes");
    is_int(buf_addf(&b, &e, "%d-%s", 42, "x"), 0, "formatted");
    is_int(b.len, 10, "length");
    ok(memcmp(b.data, "abcd\0e42-x", 11) == 0, "contents with terminator");
    is_int(buf_add(&b, NULL, 0, &e), 0, "nothing from nowhere");
    buf_drop(&b, 6);
    is_str(b.data, "42-x", "dropping the front");
    buf_drop(&b, 0);
    is_str(b.data, "42-x", "dropping nothing");
    buf_drop(&b, 99);
    is_str(buf_str(&b), "", "dropping more than all");
    is_int(b.len, 0, "leaves nothing");
    is_int(e.cls, 0, "success left the error untouched");
}

static void test_bound(void)
{
    struct err e = ERR_INIT;
    AUTO_BUF struct buf b = BUF_INIT(10);
    is_int(buf_adds(&b, "0123456789", &e), 0, "exactly the maximum");
    is_int(buf_adds(&b, "x", &e), E_TOOBIG, "one more is TooLarge");
    is_int(buf_addf(&b, &e, "%s", "y"), E_TOOBIG, "also formatted");
    is_int(buf_reserve(&b, 1, &e), E_TOOBIG, "also reserved");
    is_int(buf_reserve(&b, SIZE_MAX, &e), E_TOOBIG, "also at the end of the numbers");
    is_str(b.data, "0123456789", "contents stayed");
    ok(b.alloc == 11, "memory stayed inside the bound (%zu)", b.alloc);
    buf_drop(&b, 3);
    is_int(buf_adds(&b, "abc", &e), 0, "room is used again");
    is_str(b.data, "3456789abc", "as it should be");

    AUTO_BUF struct buf zero = BUF_INIT(0);
    is_int(buf_adds(&zero, "x", &e), E_TOOBIG, "a buffer of nothing takes nothing");
    is_int(buf_adds(&zero, "", &e), 0, "but that");

    AUTO_BUF struct buf all = BUF_INIT(SIZE_MAX);
    is_int(buf_adds(&all, "x", &e), 0, "a buffer without bound");
    is_int(buf_reserve(&all, SIZE_MAX, &e), E_TOOBIG, "still knows the end of the numbers");
}

static void test_growth(void)
{
    struct err e = ERR_INIT;
    AUTO_BUF struct buf b = BUF_INIT(1 << 20);
    allocations_left = 1000000;
    int failed = 0;
    for (int i = 0; i < 100000; i++)
        failed += buf_add(&b, "0123456789", 10, &e) != 0;
    long used = 1000000 - allocations_left;
    allocations_left = -1;
    is_int(failed, 0, "a megabyte in small pieces");
    ok(used < 20, "grows by doubling: %ld allocations", used);
    ok(memcmp(b.data + 999990, "0123456789", 11) == 0, "and the end is there");
}

static void test_no_memory(void)
{
    struct err e = ERR_INIT;
    AUTO_BUF struct buf b = BUF_INIT(1 << 20);
    allocations_left = 0;
    is_int(buf_adds(&b, "x", &e), E_NOMEM, "no memory for the first byte");
    is_str(buf_str(&b), "", "is nothing added");
    allocations_left = 1;
    is_int(buf_adds(&b, "keep", &e), 0, "memory once");
    char big[500] = { 0 };
    is_int(buf_add(&b, big, sizeof(big), &e), E_NOMEM, "none to grow");
    is_str(b.data, "keep", "contents stayed");
    is_int(buf_addf(&b, &e, "%500d", 1), E_NOMEM, "nor for text");
    is_str(b.data, "keep", "contents stayed");
    allocations_left = -1;
}

static void test_steal(void)
{
    struct err e = ERR_INIT;
    struct buf b = BUF_INIT(100);
    ok(buf_steal(&b) == NULL, "nothing to steal");
    is_int(buf_adds(&b, "mine", &e), 0, "text");
    char *s = buf_steal(&b);
    is_str(s, "mine", "is stolen");
    ok(b.len == 0 && b.data == NULL && b.max == 100, "and the buffer empty, its bound kept");
    free(s);
    is_int(buf_adds(&b, "again", &e), 0, "used again");
    buf_reset(&b);
    ok(buf_steal(&b) == NULL, "an emptied buffer gives none");
    buf_fini(&b);
    buf_fini(&b);
    ok(true, "freed twice");
}

static void test_wipe(void)
{
    struct err e = ERR_INIT;
    struct buf b = BUF_INIT(100);
    is_int(buf_adds(&b, "secret", &e), 0, "a secret");
    buf_fini(&b);
    ok(memcmp(freed, "secret", 6) == 0, "is still in memory that was only freed");
    is_int(buf_adds(&b, "secret", &e), 0, "a secret");
    buf_drop(&b, 6);
    buf_wipe(&b);
    ok(memcmp(freed, "\0\0\0\0\0\0\0", 8) == 0, "is not in memory that was wiped, even if it was dropped before");
    ok(b.data == NULL && b.alloc == 0, "wiping frees");
    buf_wipe(&b);
    ok(b.data == NULL, "wiping nothing");
}

static void test_arena(void)
{
    struct arena a;
    arena_init(&a, 100000);
    char *s = arena_strdup(&a, "hello");
    is_str(s, "hello", "text");
    is_str(arena_strndup(&a, "hello", 3), "hel", "part of a text");
    is_str(arena_strndup(&a, "hi", 99), "hi", "not beyond its end");
    is_str(arena_printf(&a, "%s/%d", "k", 7), "k/7", "formatted");
    unsigned bad = 0;
    for (size_t n = 1; n < 200; n++) {
        unsigned char *p = arena_alloc(&a, n);
        bad += p == NULL || (uintptr_t)p % _Alignof(max_align_t) != 0;
        for (size_t i = 0; p != NULL && i < n; i++)
            bad += p[i] != 0;
        if (p != NULL)
            memset(p, 0xee, n);
    }
    is_int(bad, 0, "aligned and zeroed, 199 sizes");
    is_str(s, "hello", "and none overlaps the first");
    char *big = arena_alloc(&a, 50000);
    ok(big != NULL, "larger than a block");
    ok(arena_alloc(&a, 60000) == NULL, "over the bound");
    ok(arena_alloc(&a, SIZE_MAX) == NULL, "far over the bound");
    ok(arena_alloc(&a, SIZE_MAX - 8) == NULL, "so far that rounding up would wrap");
    ok(arena_alloc(&a, 100) != NULL, "what fits still fits");
    ok(a.used <= a.max, "never more than the bound");
    arena_reset(&a);
    is_int(a.used, 0, "reset");
    ok(arena_alloc(&a, 60000) != NULL, "room again");
    arena_reset(&a);

    arena_init(&a, 64);
    ok(arena_alloc(&a, 64) != NULL, "exactly the bound");
    ok(arena_alloc(&a, 1) == NULL, "and then nothing");
    arena_reset(&a);
    arena_init(&a, SIZE_MAX);
    ok(arena_alloc(&a, SIZE_MAX - 15) == NULL && arena_alloc(&a, SIZE_MAX - 8) == NULL, "no bound, no wrap");
    allocations_left = 0;
    ok(arena_alloc(&a, 10) == NULL, "no memory");
    is_int(a.used, 0, "counts nothing");
    ok(arena_printf(&a, "%d", 1) == NULL, "nor text");
    allocations_left = -1;
    arena_reset(&a);
}

int main(void)
{
    test_add();
    test_bound();
    test_growth();
    test_no_memory();
    test_steal();
    test_wipe();
    test_arena();
    return done_testing();
}
