// SPDX-License-Identifier: Apache-2.0
// TZif, the compiled form of tzdata (RFC 9636). Every count and index is held against the bytes that are there.
//
//     header  32-bit data                                  version 1, and for old readers
//     header  64-bit data  \n POSIX TZ string \n           version 2 and later
#include <stdlib.h>
#include <string.h>

#include "expr/tz_priv.h"

enum { HEADER = 44, TYPE_SIZE = 6, TYPES_MAX = 256, FOOTER_MAX = 127 };
enum { OFFSET_LOW = -89999, OFFSET_HIGH = 93599 }; // more than a day is nowhere, says the RFC

struct header {
    int version;
    size_t isut, isstd, leap, time, type, chars; // counts, as they stand in the file
};

// What is still to be read.
struct bytes {
    const unsigned char *p;
    size_t n;
};

// The next n bytes; NULL when there are not so many.
static const unsigned char *take_bytes(struct bytes *b, size_t n)
{
    if (n > b->n)
        return NULL;
    const unsigned char *p = b->p;
    b->p += n;
    b->n -= n;
    return p;
}

static uint32_t be32(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int64_t be64(const unsigned char *p)
{
    return (int64_t)((uint64_t)be32(p) << 32 | be32(p + 4));
}

static int bad(struct err *e, const char *what)
{
    return err_set(e, E_INVAL, "no usable TZif file: %s", what);
}

static int read_header(struct bytes *b, struct header *h, struct err *e)
{
    const unsigned char *p = take_bytes(b, HEADER);
    if (p == NULL || memcmp(p, "TZif", 4) != 0)
        return bad(e, "it does not begin like one");
    if (p[4] != 0 && (p[4] < '2' || p[4] > '9'))
        return bad(e, "its version is unknown");
    *h = (struct header){
        p[4] == 0 ? 1 : p[4] - '0', be32(p + 20), be32(p + 24), be32(p + 28), be32(p + 32), be32(p + 36), be32(p + 40),
    };
    return 0;
}

// Bytes of the data behind a header; counts of 32 bits cannot overflow this.
static uint64_t data_size(const struct header *h, unsigned time_size)
{
    return (uint64_t)h->time * (time_size + 1) + (uint64_t)h->type * TYPE_SIZE + h->chars + (uint64_t)h->leap * (time_size + 4) + h->isstd +
           h->isut;
}

static int check_header(const struct header *h, unsigned time_size, const struct bytes *b, struct err *e)
{
    if (data_size(h, time_size) > b->n)
        return bad(e, "it is shorter than it says");
    if (h->type == 0 || h->type > TYPES_MAX)
        return bad(e, "its number of local times is wrong");
    if (h->leap != 0)
        return bad(e, "it counts leap seconds, and clocks do not; take the zone without \"right/\"");
    return 0;
}

static int read_offset(const unsigned char *types, size_t i, int32_t *out, struct err *e)
{
    int32_t v = (int32_t)be32(types + i * TYPE_SIZE);
    if (v < OFFSET_LOW || v > OFFSET_HIGH)
        return bad(e, "an offset of more than a day");
    *out = v;
    return 0;
}

static int read_change(struct tz *z, size_t i, int64_t at_s, size_t type, const unsigned char *types, size_t n_types, struct err *e)
{
    struct tz_change *c = &z->change[i];
    if (type >= n_types)
        return bad(e, "a change to a local time that it does not have");
    if (i > 0 && at_s <= c[-1].at_s)
        return bad(e, "its changes are not in order");
    c->at_s = at_s;
    z->n = i + 1;
    return read_offset(types, type, &c->offset, e);
}

// The data behind a checked header.
static int read_data(struct tz *z, struct bytes *b, const struct header *h, unsigned time_size, struct err *e)
{
    const unsigned char *p = take_bytes(b, (size_t)data_size(h, time_size));
    const unsigned char *type_of = p + h->time * time_size, *types = type_of + h->time;
    int rc = read_offset(types, 0, &z->before, e);
    for (size_t i = 0; i < h->time && rc == 0; i++) {
        const unsigned char *at = p + i * time_size;
        rc = read_change(z, i, time_size == 8 ? be64(at) : (int32_t)be32(at), type_of[i], types, h->type, e);
    }
    return rc;
}

// An empty one: the last change holds for ever.
static int read_footer(struct tz *z, struct bytes *b, struct err *e)
{
    char text[FOOTER_MAX + 1];
    const unsigned char *end = b->n > 0 && b->p[0] == '\n' ? memchr(b->p + 1, '\n', b->n - 1) : NULL;
    if (end == NULL)
        return bad(e, "its last line is missing");
    size_t n = (size_t)(end - b->p) - 1;
    if (n > FOOTER_MAX || memchr(b->p + 1, 0, n) != NULL)
        return bad(e, "its last line is no POSIX TZ string");
    memcpy(text, b->p + 1, n);
    text[n] = '\0';
    z->ruled = n > 0;
    return n > 0 ? tz_rule_parse(&z->rule, text, e) : 0;
}

static int read_file(struct tz *z, struct bytes *b, const struct header *h, unsigned time_size, struct err *e)
{
    int rc = read_data(z, b, h, time_size, e);
    return rc == 0 && time_size == 8 ? read_footer(z, b, e) : rc;
}

// Up to the header and the data that count.
static int find_data(struct bytes *b, struct header *h, unsigned *time_size, struct err *e)
{
    *time_size = 4;
    int rc = read_header(b, h, e);
    if (rc == 0 && h->version > 1) {
        uint64_t skip = data_size(h, 4);
        if (skip > b->n)
            return bad(e, "it is shorter than it says");
        take_bytes(b, (size_t)skip);
        *time_size = 8;
        rc = read_header(b, h, e);
    }
    return rc == 0 ? check_header(h, *time_size, b, e) : rc;
}

int tz_parse_file(struct tz **out, const void *data, size_t n, struct err *e)
{
    struct bytes b = { data, n };
    struct header h;
    unsigned time_size;
    int rc = find_data(&b, &h, &time_size, e);
    if (rc != 0)
        return rc;
    struct tz *z = calloc(1, sizeof *z + h.time * sizeof z->change[0]); // bounded by n: each change has its bytes
    if (z == NULL)
        return err_set(e, E_NOMEM, "no memory for a time zone");
    rc = read_file(z, &b, &h, time_size, e);
    if (rc == 0)
        *out = z;
    else
        tz_free(z);
    return rc;
}
