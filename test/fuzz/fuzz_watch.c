// SPDX-License-Identifier: Apache-2.0
//
// Watch lines in random pieces: cutting does not matter, and each event's object lies inside its line.
#include <stdlib.h>
#include <string.h>

#include "data/object.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

struct seen {
    size_t lines;
    uint64_t hash;
};

static int on_line(void *ctx, const char *line, size_t len)
{
    struct seen *s = ctx;
    struct watch_event ev;
    struct object_view v;
    struct err e = ERR_INIT;
    s->lines++;
    s->hash = hash_bytes(s->hash, line, len);
    if (watch_event_scan(&ev, line, len, &e) < 0)
        return 0;
    if (ev.object.p < line || ev.object.p + ev.object.n > line + len)
        abort();
    int rc = object_scan(&v, ev.object.p, ev.object.n, &e);
    return rc < 0 ? 0 : rc;
}

static void feed(const char *text, size_t size, size_t piece, struct seen *s)
{
    enum { LINE_MAX_BYTES = 4096 };
    struct line_splitter l;
    struct err e = ERR_INIT;
    *s = (struct seen){ 0, HASH_SEED };
    line_splitter_init(&l, LINE_MAX_BYTES, on_line, s);
    for (size_t at = 0; at < size; at += piece)
        if (line_splitter_feed(&l, text + at, MIN(piece, size - at), &e) < 0)
            abort();
    line_splitter_fini(&l);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct seen whole, pieces;
    if (size < 1)
        return 0;
    feed((const char *)data + 1, size - 1, size, &whole);
    feed((const char *)data + 1, size - 1, 1 + data[0] % 9, &pieces);
    if (whole.lines != pieces.lines || whole.hash != pieces.hash)
        abort();
    return 0;
}
