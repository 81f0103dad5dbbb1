// SPDX-License-Identifier: Apache-2.0
// refs_priv — what the files of refs share: refs.c (who refers to what), refs_row.c (what is stored), refs_read.c (what is read). Not for
// anybody else.
#ifndef FLOW_REFS_PRIV_H
#define FLOW_REFS_PRIV_H

#include "base/table.h"
#include "flow/refs.h"

#define WANT_ALL "" // no key has that name

// A Secret or ConfigMap that is referred to, by the key of its row.
struct target {
    struct table_node node;
    struct list wants;
    enum ref_kind kind;
    bool shrunk; // a key is not wanted any more, and its row was not reduced yet
    char key[];
};

// A key of it that is referred to.
struct want {
    struct list link; // of the target
    struct list uses;
    struct target *target;
    char key[];
};

struct use {
    struct list of_want, of_user;
    struct want *want;
    struct user *user;
    bool needed; // by one reference at least that is not optional
};

// An object that refers to something.
struct user {
    struct table_node node;
    struct list uses;
    uint64_t hash; // of what it declared
    char key[];
};

struct known {
    size_t targets;
    bool followed, refresh, offline;
    bool asked; // something is wanted that no complete list since then could have told of
    struct err trouble;
};

struct refs {
    struct cache *cache;
    struct refs_conf conf;
    struct table targets, users;
    struct known kinds[REF_KINDS];
    bool settled, shrunk;
};

struct target *refs_target(const struct refs *r, const char *key);            // NULL = nobody refers to it
struct want *target_want(const struct target *t, const char *key);            // NULL = nobody wants that key
int refs_row_shrink(struct refs *r, const char *key, struct err *e) MUST_USE; // what nobody wants leaves the row, or the row goes
void refs_rows_settle(struct refs *r);                                        // the same for all rows, after a boot

// The members of a row: what the object holds, and what it held when it was last needed.
#define REF_WHOLE "whole"
extern const char *const ref_members[4]; // "data", "binaryData", and their "kept" twins, in that order

#endif
