// SPDX-License-Identifier: Apache-2.0
// manifests_priv — what the two files of manifests share: manifests.c (the directory), manifests_file.c (one file and its rows). Not for
// anybody else.
#ifndef FLOW_MANIFESTS_PRIV_H
#define FLOW_MANIFESTS_PRIV_H

#include "base/sha256.h"
#include "base/table.h"
#include "flow/manifests.h"

struct file {
    struct table_node node;
    struct list defines;  // the keys
    char sha[SHA256_HEX]; // "" = not read since the start
    uint64_t seen;        // in which scan
    bool in_force;        // what it says counts, and `problem` is about a field that is unknown
    char problem[ERR_MSG_MAX];
    char name[];
};

struct manifests {
    struct manifests_conf conf;
    struct manifest_env env;
    struct fs_watch watch;
    bool on_parent; // the directory is not there: what is watched is where it would be
    struct timer settle, step;
    int64_t first_event_ms;
    struct table files, claims, absents;
    struct buf names; // of the scan under way, sorted, NUL-separated
    size_t at;
    bool scanning, again, incomplete, accept;
    uint64_t inode; // of the directory that is read
    struct manifests_stats stats;
    char dir_problem[ERR_MSG_MAX];
};

// manifests_file.c
struct file *manifest_file_of(struct manifests *m, const char *name, struct err *e); // made when it is new; NULL: E_NOMEM
void manifest_file_free(struct manifests *m, struct file *f);
// It defines this key. `taken`: another file before it has the key.
int manifest_file_define(struct file *f, const char *key, bool taken, struct err *e) MUST_USE;
// Reads it in its turn of a scan. < 0: the store or the memory failed, and nothing of this scan counts.
int manifest_file_read(struct manifests *m, struct file *f, struct err *e) MUST_USE;
struct file *manifests_owner(const struct manifests *m, const char *key); // who has the key, as far as this scan went; NULL = nobody
void manifests_drop_claims(struct manifests *m);                          // the scan ended
void manifests_uid(const char *key, char uid[OBJ_UID_MAX]);

#endif
