// SPDX-License-Identifier: Apache-2.0
// packed — bytes as they come in, unpacked as they go out: gzip, zstd, or as they are. The only module that sees zlib and zstd.
//
// Not a guard against a bomb: whoever takes the output counts it. Memory is bounded: 48 KiB for gzip, for zstd a window of at most 128 MiB
// (what `zstd --ultra -22` makes) and as much as its frame asks for.
#ifndef UNPACK_PACKED_H
#define UNPACK_PACKED_H

#include <stddef.h>

#include "base/err.h"

enum packed_form { PACKED_NOT, PACKED_GZIP, PACKED_ZSTD };

struct packed;
// `out` is called with each piece; what it returns below 0 ends the reading. E_NOMEM.
int packed_new(struct packed **p, enum packed_form form, int (*out)(void *ctx, const void *p, size_t n, struct err *e), void *ctx,
               struct err *e) MUST_USE;
// E_CORRUPT, E_NOMEM, E_TOOBIG (a larger window), or what `out` returned. Several members or frames one after the other are one text.
int packed_feed(struct packed *p, const void *bytes, size_t n, struct err *e) MUST_USE;
int packed_finish(struct packed *p, struct err *e) MUST_USE; // all came: E_CORRUPT when it is cut off
void packed_free(struct packed *p);

#endif
