// SPDX-License-Identifier: Apache-2.0
// manifests — a directory of files as a source of objects: [manifests] dir. Needs no server, and knows of none.
//
// The directory is watched and, when something in it changed and then kept still for a moment, read as a whole, one file a turn of the
// loop. Each file's objects lie in the cache in rows of their own, with the file as their source (data/cache.h: a file's row hides the
// server's of the same key); this module is the only writer of those. What a file says counts as a whole: one that cannot be read or has a
// mistake is named and left alone, and what it said before stays in force; one with a field that its kind does not have counts without the field,
// and is named as well. Of two files that define one object the first by name has it.
//
// Nothing is removed on doubt. An object is gone when two complete readings, GONE_AFTER_MS apart or more, do not have it, so that an editor may
// take a file away for a moment; an empty file, a directory that cannot be read and one that is another than before (not mounted) are no
// proof of anything. The last is believed after manifests_accept().
#ifndef FLOW_MANIFESTS_H
#define FLOW_MANIFESTS_H

#include "flow/manifest.h"

enum { MANIFEST_FILES_MAX = 1000 }; // with one more nothing is removed, and the ones beyond are not read: logged

struct manifests;
struct manifests_conf {
    const char *dir; // absolute
    const struct registry *registry;
    const struct kind_env *env;                                // loop, disk, db, cache, ns
    void (*changed)(void *ctx, const char *key);               // what is wanted of this key is something else
    void (*gone)(void *ctx, const char *key, const char *uid); // its row is removed in this transaction, and the server has none
    void (*read)(void *ctx);                                   // the directory was read: manifests_stats() may say something else
    void *ctx;
};
struct manifests_stats {
    size_t files, objects;
    size_t bad;     // files that are left alone
    size_t unknown; // files that count, but for fields that their kinds do not have
    uint64_t scans;
    char problem
        [ERR_MSG_MAX]; // of the directory itself, or the first bad file, or the first unknown field: "web.yaml: line 3: ..."; "" = none
};

int manifests_new(struct manifests **out, const struct manifests_conf *c, struct err *e) MUST_USE; // reads nothing yet
void manifests_free(struct manifests *m);
void manifests_start(struct manifests *m);  // in the first turns; from then on by itself
void manifests_look(struct manifests *m);   // once a minute: is it still the directory that is watched?
void manifests_again(struct manifests *m);  // read everything again: a row was lost, or a commit failed
void manifests_accept(struct manifests *m); // what is missing is gone, also from a directory that is another one than before
void manifests_stats(const struct manifests *m, struct manifests_stats *out);

#endif
