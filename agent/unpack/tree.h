// SPDX-License-Identifier: Apache-2.0
// tree — the entries of an archive as files below one directory, and nowhere else.
//
// No path is followed through a symbolic link, and a link is made only where its target lies in the tree whatever else is in there: it is
// relative, and goes up only at its beginning, by fewer levels than it lies deep. Owners, times and set-id bits of the archive do not count: what is
// executable for anybody is 0755, other files 0644, directories 0755. The bounds are of what is written, not of what the archive says.
#ifndef UNPACK_TREE_H
#define UNPACK_TREE_H

#include "unpack/tar.h"

enum { TREE_DEPTH_MAX = 48 };

struct tree {
    int top; // the directory
    int64_t max_bytes, max_entries;
    int64_t reserve; // bytes that stay free on its file system
    // What there is so far:
    int64_t bytes, entries, looked; // looked: bytes when the free space was asked for last
    int file;                       // the one that is being written, -1 = none
};

void tree_init(struct tree *t, int top);
void tree_fini(struct tree *t);
// The sink of a tar_reader. E_TOOBIG: over a bound; E_NOSPC; E_INVAL: a name or a link that leads out, or one thing in the place of another.
int tree_entry(struct tree *t, const struct tar_entry *en, struct err *e) MUST_USE;
int tree_data(struct tree *t, const void *p, size_t n, struct err *e) MUST_USE;
int tree_end(struct tree *t, struct err *e) MUST_USE;
struct tar_sink tree_sink(struct tree *t);

#endif
