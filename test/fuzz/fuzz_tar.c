// SPDX-License-Identifier: Apache-2.0
//
// Artifacts: no archive crashes the reader, whether it is plain, gzip or zstd; no name leads out; the pieces in which it comes change nothing.
#include <stdlib.h>
#include <string.h>

#include "unpack/packed.h"
#include "unpack/tar.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

enum { OUTPUT_MAX = 1 << 22 }; // a bomb ends here

struct seen {
    uint64_t hash;
    int64_t left; // of the file that is being told
    size_t bytes;
    struct tar_reader *tar;
};

static void check_name(const char *name)
{
    if (name[0] == '/' || strcmp(name, "..") == 0 || strncmp(name, "../", 3) == 0 || strstr(name, "/../") != NULL)
        abort();
}

static int on_entry(void *ctx, const struct tar_entry *t, struct err *e)
{
    struct seen *s = ctx;
    (void)e;
    check_name(t->name);
    if (t->type == TAR_HARDLINK)
        check_name(t->target);
    if ((t->type != TAR_FILE && t->size != 0) || t->size < 0)
        abort();
    s->hash = hash_bytes(s->hash, t->name, strlen(t->name) + 1);
    s->left = t->size;
    return 0;
}

static int on_data(void *ctx, const void *p, size_t n, struct err *e)
{
    struct seen *s = ctx;
    (void)e;
    s->left -= (int64_t)n;
    s->hash = hash_bytes(s->hash, p, n);
    if (s->left < 0)
        abort();
    return 0;
}

static int on_end(void *ctx, struct err *e)
{
    (void)e;
    if (((struct seen *)ctx)->left != 0)
        abort();
    return 0;
}

static int on_unpacked(void *ctx, const void *p, size_t n, struct err *e)
{
    struct seen *s = ctx;
    s->bytes += n;
    return s->bytes > OUTPUT_MAX ? err_set(e, E_TOOBIG, "enough") : tar_feed(s->tar, p, n, e);
}

static int read_all(const unsigned char *data, size_t size, enum packed_form form, size_t piece, uint64_t *hash)
{
    static struct tar_reader r;
    struct seen s = { .hash = HASH_SEED, .tar = &r };
    struct tar_sink sink = { on_entry, on_data, on_end, &s };
    struct packed *p = NULL;
    struct err e = ERR_INIT;
    tar_init(&r, &sink);
    int rc = packed_new(&p, form, on_unpacked, &s, &e);
    for (size_t at = 0; rc == 0 && at < size; at += piece)
        rc = packed_feed(p, data + at, MIN(piece, size - at), &e);
    if (rc == 0)
        rc = packed_finish(p, &e);
    if (rc == 0)
        rc = tar_finish(&r, &e);
    packed_free(p);
    tar_fini(&r);
    *hash = s.hash;
    return rc;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static const enum packed_form forms[] = { PACKED_NOT, PACKED_GZIP, PACKED_ZSTD };
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        uint64_t whole, pieces;
        int a = read_all(data, size, forms[i], size + 1, &whole), b = read_all(data, size, forms[i], 61, &pieces);
        if ((a == 0) != (b == 0) || (a == 0 && whole != pieces))
            abort();
    }
    return 0;
}
