// SPDX-License-Identifier: Apache-2.0
#include "unpack/packed.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

enum { OUT_CHUNK = 64 * 1024, GZIP_ONLY = 16 + MAX_WBITS, ZSTD_WINDOW_LOG = 27 };

struct packed {
    enum packed_form form;
    int (*out)(void *ctx, const void *p, size_t n, struct err *e);
    void *ctx;
    z_stream gzip;
    bool inside; // a member or frame has begun and not ended
    bool any;    // one has ended
    ZSTD_DCtx *zstd;
    unsigned char chunk[OUT_CHUNK];
};

static int begin(struct packed *p)
{
    if (p->form == PACKED_GZIP)
        return inflateInit2(&p->gzip, GZIP_ONLY) == Z_OK ? 0 : E_NOMEM;
    if (p->form != PACKED_ZSTD)
        return 0;
    p->zstd = ZSTD_createDCtx();
    if (p->zstd == NULL || ZSTD_isError(ZSTD_DCtx_setParameter(p->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG)))
        return E_NOMEM;
    return 0;
}

int packed_new(struct packed **out, enum packed_form form, int (*fn)(void *ctx, const void *p, size_t n, struct err *e), void *ctx,
               struct err *e)
{
    struct packed *p = calloc(1, sizeof(*p));
    if (p == NULL)
        return err_set(e, E_NOMEM, "unpacking");
    p->form = form;
    p->out = fn;
    p->ctx = ctx;
    if (begin(p) < 0) {
        packed_free(p);
        return err_set(e, E_NOMEM, "unpacking");
    }
    *out = p;
    return 0;
}

void packed_free(struct packed *p)
{
    if (p == NULL)
        return;
    if (p->form == PACKED_GZIP)
        (void)inflateEnd(&p->gzip);
    ZSTD_freeDCtx(p->zstd);
    free(p);
}

static int inflate_once(struct packed *p, struct err *e)
{
    p->gzip.next_out = p->chunk;
    p->gzip.avail_out = OUT_CHUNK;
    p->inside = true;
    int r = inflate(&p->gzip, Z_NO_FLUSH);
    if (r == Z_MEM_ERROR)
        return err_set(e, E_NOMEM, "gzip: no memory");
    if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
        return err_set(e, E_CORRUPT, "gzip: %s", p->gzip.msg != NULL ? p->gzip.msg : "damaged");
    size_t n = OUT_CHUNK - p->gzip.avail_out;
    int rc = n > 0 ? p->out(p->ctx, p->chunk, n, e) : 0;
    if (rc == 0 && r == Z_STREAM_END) {
        p->inside = false;
        p->any = true;
        if (inflateReset(&p->gzip) != Z_OK)
            rc = err_set(e, E_CORRUPT, "gzip: damaged");
    }
    return rc;
}

// Until the input is used up, and nothing more comes of it.
static int feed_gzip(struct packed *p, const void *bytes, size_t n, struct err *e)
{
    int rc = 0;
    p->gzip.next_in = (Bytef *)(uintptr_t)bytes;
    p->gzip.avail_in = (uInt)n;
    p->gzip.avail_out = 1;
    while (rc == 0 && (p->gzip.avail_in > 0 || (p->inside && p->gzip.avail_out == 0)))
        rc = inflate_once(p, e);
    return rc;
}

static int feed_zstd(struct packed *p, const void *bytes, size_t n, struct err *e)
{
    ZSTD_inBuffer in = { bytes, n, 0 };
    ZSTD_outBuffer out = { p->chunk, OUT_CHUNK, 0 };
    int rc = 0;
    while (rc == 0 && (in.pos < in.size || (p->inside && out.pos == out.size))) {
        out.pos = 0;
        size_t left = ZSTD_decompressStream(p->zstd, &out, &in);
        if (ZSTD_isError(left))
            return err_set(e, E_CORRUPT, "zstd: damaged, or it needs a window of more than %d MiB", 1 << (ZSTD_WINDOW_LOG - 20));
        p->inside = left > 0;
        p->any |= left == 0;
        rc = out.pos > 0 ? p->out(p->ctx, p->chunk, out.pos, e) : 0;
    }
    return rc;
}

int packed_feed(struct packed *p, const void *bytes, size_t n, struct err *e)
{
    if (n == 0)
        return 0;
    switch (p->form) {
    case PACKED_GZIP:
        return feed_gzip(p, bytes, n, e);
    case PACKED_ZSTD:
        return feed_zstd(p, bytes, n, e);
    default:
        return p->out(p->ctx, bytes, n, e);
    }
}

int packed_finish(struct packed *p, struct err *e)
{
    if (p->form == PACKED_NOT || (p->any && !p->inside))
        return 0;
    return err_set(e, E_CORRUPT, "%s: ends in the middle: it is truncated", p->form == PACKED_GZIP ? "gzip" : "zstd");
}
