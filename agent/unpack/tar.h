// SPDX-License-Identifier: Apache-2.0
// tar — reads a tar archive as its bytes come: ustar, pax headers, and GNU's long names. Pure: what an entry becomes is for the sink.
//
// Written for archives that somebody made to do harm. A header counts only with its checksum; names are bounded, relative and without `..`
// when the sink sees them; what this does not know (devices, sparse files, several volumes) is refused, and so the whole archive is.
// An archive ends with a block of zeros; one that ends without is truncated, and E_CORRUPT.
#ifndef UNPACK_TAR_H
#define UNPACK_TAR_H

#include "base/err.h"
#include "base/util.h"

enum { TAR_BLOCK = 512, TAR_NAME_MAX = 4096, TAR_EXTENDED_MAX = 64 * 1024 };

enum tar_type { TAR_FILE, TAR_DIR, TAR_SYMLINK, TAR_HARDLINK };

struct tar_entry {
    enum tar_type type;
    const char *name;   // relative, no empty, "." or ".." component, no slash at its end; "" = the top itself
    const char *target; // of a link, as it stands in the archive; of a hard link checked as `name` is
    uint32_t mode;      // permission bits as in the archive
    int64_t size;       // bytes of data that follow; 0 for all but files
};

// What a sink returns below 0 ends the reading, with its error.
struct tar_sink {
    int (*entry)(void *ctx, const struct tar_entry *t, struct err *e);
    int (*data)(void *ctx, const void *p, size_t n, struct err *e); // of the last entry
    int (*end)(void *ctx, struct err *e);                           // of a file's data
    void *ctx;
};

enum tar_use { TAR_USE_NONE, TAR_USE_DATA, TAR_USE_PAX, TAR_USE_LONG_NAME, TAR_USE_LONG_LINK, TAR_USE_SKIP };

struct tar_reader {
    const struct tar_sink *sink;
    unsigned char block[TAR_BLOCK];
    size_t filled;
    bool ended;
    enum tar_use use; // of the data under way
    int64_t left;     // data bytes still to come, and then
    size_t padding;   // bytes up to the end of their block
    char *extended;   // a pax header or a long name, while it comes
    size_t extended_len;
    // Said by extended headers for the next entry:
    bool has_name, has_target, has_size;
    int64_t size;
    char name[TAR_NAME_MAX], target[TAR_NAME_MAX];
};

void tar_init(struct tar_reader *r, const struct tar_sink *sink);
void tar_fini(struct tar_reader *r);
// E_CORRUPT (no tar, damaged), E_UNSUP (what we do not unpack), E_INVAL (a name that leads out), E_TOOBIG, E_NOMEM, or the sink's.
int tar_feed(struct tar_reader *r, const void *p, size_t n, struct err *e) MUST_USE;
int tar_finish(struct tar_reader *r, struct err *e) MUST_USE; // all bytes came: E_CORRUPT when the archive is not at its end

// Takes `name` to pieces and puts it together again into out: without "." and doubled slashes. E_INVAL: absolute, or with "..".
int tar_clean_name(const char *name, char out[TAR_NAME_MAX], struct err *e) MUST_USE;

#endif
