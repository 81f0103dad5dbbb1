// SPDX-License-Identifier: Apache-2.0
// cache — the desired state as last heard: one row an object, byte for byte. flow/sync alone writes (and removes) what the server said,
// flow/manifests alone what files say. An object that both define has two rows of one key: the file's is what cache_get() and the
// cache_each*() without a source give, the server's is what cache_rv() and whatever else sync calls speak of.
//
// A key is "<plural>/<namespace>/<name>" for namespaced objects ("edgeapps/edge-a/web"), "<plural>//<name>" for cluster-wide ones. A
// source is a short stable string that sync gives ("edge.limpet.dev/v1alpha1/edgeapps@edge-a"): rows remember the source that brought them.
// Each row has a CRC; a row that fails it is reported as E_CORRUPT and treated by callers as "unknown", never as "absent"; the next put
// makes it whole.
// A resourceVersion that moved without the spec (somebody's status write) is kept in memory and written along with the next real
// transaction; at most RV_NOTES_MAX wait, the next one writes them all.
#ifndef DATA_CACHE_H
#define DATA_CACHE_H

#include "data/db.h"
#include "data/object.h"

enum { KEY_MAX = 400, SOURCE_MAX = 400, RV_NOTES_MAX = 256 };

struct cache;
// At most one to a db. Close it before the db, unless that was abandoned.
int cache_open(struct cache **out, struct db *db, struct err *e) MUST_USE;
void cache_close(struct cache *c);

struct cached {
    char key[KEY_MAX], source[SOURCE_MAX], uid[OBJ_UID_MAX], rv[OBJ_RV_MAX];
    int64_t generation;
    struct buf json; // without status and managedFields
};
#define CACHED_INIT                      \
    {                                    \
        .json = BUF_INIT(OBJ_MAX + 4096) \
    }
void cached_fini(struct cached *c);
#define AUTO_CACHED CLEANUP(cached_fini)

enum cache_change { CACHE_SAME, CACHE_RV_ONLY, CACHE_CHANGED, CACHE_NEW, CACHE_REPLACED }; // REPLACED: same name, another uid
// Stores an object. CACHE_SAME writes nothing; CACHE_RV_ONLY (only status, managedFields and the resourceVersion differed) notes the new
// resourceVersion. Marks the key when its source is being marked. < 0 on error: E_TOOBIG, E_INVAL (key or source over its bound), the store's.
int cache_put(struct cache *c, const char *source, const char *key, const struct object_view *v, const char *json, size_t len,
              struct err *e) MUST_USE;
// What is wanted of the key: the file's row if there is one, also when that is damaged.
int cache_get(struct cache *c, const char *key, struct cached *out, struct err *e) MUST_USE; // E_NOTFOUND, E_CORRUPT
int cache_delete(struct cache *c, const char *key, struct err *e) MUST_USE;                  // absent is success
// The row stays, its source is "" from now on: no list asks for it. Absent is success.
int cache_disown(struct cache *c, const char *key, struct err *e) MUST_USE;
// The newest resourceVersion known for key (from memory when lazy), of the server's row; E_NOTFOUND.
int cache_rv(struct cache *c, const char *key, char rv[OBJ_RV_MAX], char uid[OBJ_UID_MAX], struct err *e) MUST_USE;
// After our own status write was answered: the new resourceVersion, lazily. Nothing when it is not newer, or of another uid.
void cache_note_rv(struct cache *c, const char *key, const char *uid, const char *rv);

// Mark and sweep for a complete list. begin forgets earlier marks of this source (others may be under way at the same time); put and mark
// mark; cache_unmarked calls fn for each key of the source without a mark, in order, and ends the marking when it went through. fn may
// write. Marks are 8 bytes a key, in memory. E_INVAL: no marking of this source is under way, so absence proves nothing.
int cache_mark_begin(struct cache *c, const char *source, struct err *e) MUST_USE;
int cache_mark(struct cache *c, const char *key, struct err *e) MUST_USE;
int cache_unmarked(struct cache *c, const char *source, int (*fn)(void *ctx, const char *key), void *ctx, struct err *e) MUST_USE;

// Rows of files. `source` is CACHE_FILE_SOURCE and the name of the file; the uid of such an object begins with CACHE_FILE_UID.
#define CACHE_FILE_SOURCE "manifest:"
#define CACHE_FILE_SOURCES_END "manifest;"
#define CACHE_FILE_UID "manifest-"
bool cache_is_file(const char *source);
bool cache_is_file_uid(const char *uid);
int cache_put_file(struct cache *c, const char *source, const char *key, const struct object_view *v, const char *json, size_t len,
                   struct err *e) MUST_USE; // as cache_put()
int cache_delete_file(struct cache *c, const char *key, struct err *e) MUST_USE;
int cache_each_file(struct cache *c, int (*fn)(void *ctx, const char *key), void *ctx, struct err *e) MUST_USE; // fn may write
int cache_has(struct cache *c, const char *key, struct err *e) MUST_USE; // 1: a row of either kind, perhaps damaged; 0: none

// In the order of their keys (an object of a file behind those whose names begin with its own); fn may write, and != 0 stops and is returned. A damaged row is left out and counted, its key is not.
int cache_each(struct cache *c, const char *prefix, int (*fn)(void *ctx, const struct cached *row), void *ctx,
               struct err *e) MUST_USE; // json filled
int cache_each_key(struct cache *c, const char *source, int (*fn)(void *ctx, const char *key), void *ctx,
                   struct err *e) MUST_USE;                                                   // source NULL = all
int cache_generation(struct cache *c, const char *key, int64_t *out, struct err *e) MUST_USE; // of the server's row; E_NOTFOUND
int cache_count(struct cache *c, const char *source, int64_t *n, struct err *e) MUST_USE;

// Intent: what must not be repeated or forgotten ("owed onChange", "backup taken"). Small JSON or text, by (key, name). Putting what is
// there already writes nothing. A damaged row is E_CORRUPT when asked for, and left out (and counted) by each.
enum { INTENT_NAME_MAX = 1280 }; // a word and a path
int intent_put(struct db *db, const char *key, const char *name, const char *data, struct err *e) MUST_USE;
int intent_get(struct db *db, const char *key, const char *name, struct buf *data, struct err *e) MUST_USE; // E_NOTFOUND
int intent_delete(struct db *db, const char *key, const char *name, struct err *e) MUST_USE;                // absent is success
int intent_delete_all(struct db *db, const char *key, struct err *e) MUST_USE;
int intent_each(struct db *db, const char *key, int (*fn)(void *ctx, const char *key, const char *name, const char *data), void *ctx,
                struct err *e) MUST_USE; // key NULL = all; in order; fn may write
// Of any key, those named from `from` up to and without `to` (byte order), by name: as many steps as there are hits. fn must not write.
int intent_named(struct db *db, const char *from, const char *to, int (*fn)(void *ctx, const char *key, const char *name), void *ctx,
                 struct err *e) MUST_USE;

#endif
