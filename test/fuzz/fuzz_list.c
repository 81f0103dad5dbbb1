// SPDX-License-Identifier: Apache-2.0
//
// A List in random pieces: however it is cut, the items and the verdict are the same.
#include <stdlib.h>
#include <string.h>

#include "data/object.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

struct seen {
    size_t items;
    uint64_t hash;
};

static int on_item(void *ctx, const char *json, size_t len)
{
    struct seen *s = ctx;
    s->items++;
    s->hash = hash_bytes(s->hash, json, len);
    return 0;
}

static int split(const char *text, size_t size, size_t piece, struct seen *s)
{
    struct list_splitter l;
    struct err e = ERR_INIT;
    int rc = 0;
    *s = (struct seen){ 0, HASH_SEED };
    list_splitter_init(&l, on_item, s);
    for (size_t at = 0; rc == 0 && at < size; at += piece)
        rc = list_splitter_feed(&l, text + at, MIN(piece, size - at), &e);
    if (rc == 0)
        rc = list_splitter_end(&l, &e);
    list_splitter_fini(&l);
    return rc;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct seen whole, pieces;
    if (size < 1)
        return 0;
    const char *text = (const char *)data + 1;
    int a = split(text, size - 1, size, &whole), b = split(text, size - 1, 1 + data[0] % 7, &pieces);
    if (a != b || (a == 0 && (whole.items != pieces.items || whole.hash != pieces.hash)))
        abort();
    return 0;
}
