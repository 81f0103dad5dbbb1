// SPDX-License-Identifier: Apache-2.0
// edgeconfig_record — what must be known of a managed file or directory after its spec, or the agent, is gone.
//
// One durable intent a path ("file:<path>", "dir:<path>"): what lay there before us, what we wrote last, and what becomes of it. The bytes that lay there
// are a file of their own in <state>/backup/<hash of key>/<hash of path>, mode 0600, synced before the intent that speaks of it.
// "onChange" is the intent of an onChange that is owed.
#ifndef KINDS_EDGECONFIG_RECORD_H
#define KINDS_EDGECONFIG_RECORD_H

#include <limits.h>

#include "kinds/edgeconfig_spec.h"
#include "kinds/kind.h"

enum { CFG_BACKUP_MAX = 4 * 1024 * 1024, CFG_RECORD_MAX = 8192 };

enum cfg_before { CFG_WAS_ABSENT, CFG_WAS_FILE, CFG_WAS_TOO_BIG, CFG_WAS_DIR }; // too big: not kept, cannot be put back

struct cfg_version {
    char sha[SHA256_HEX];
    uint32_t mode, uid, gid;
};

struct cfg_record {
    char *path;
    bool is_dir;
    enum cfg_before before;
    struct cfg_version backup;  // when CFG_WAS_FILE or CFG_WAS_DIR
    struct cfg_version written; // last by us, or about to be
    char former[SHA256_HEX];    // what we had written before that; "" = nothing
    bool applied;               // `written` is known to have reached the disk
    enum cfg_deletion policy;
};

struct cfg_records {
    struct cfg_record *items;
    size_t n;
};

// All records of key, with room for `more`. Damaged ones are an E_CORRUPT: nothing may be done on doubt.
int cfg_records_load(struct cfg_records *out, struct db *db, const char *key, size_t more, struct arena *a, struct err *e) MUST_USE;
struct cfg_record *cfg_record_of(const struct cfg_records *r, const char *path, bool is_dir); // NULL = none
int cfg_record_put(struct db *db, const char *key, const struct cfg_record *r, struct err *e) MUST_USE;
int cfg_record_delete(struct db *db, const char *key, const struct cfg_record *r, struct err *e) MUST_USE;
bool cfg_version_equal(const struct cfg_version *a, const struct cfg_version *b);
struct json *cfg_version_json(const struct cfg_version *v);
bool cfg_version_read(const struct json *j, struct cfg_version *v); // false: damaged

// Another EdgeConfig is in the way: it owns `path`, a file above it or, when a file is to lie there, anything below it. Its key and path.
// False: nobody is. In the directory of another one everybody may have files.
struct cfg_owner {
    char key[KEY_MAX], path[CFG_PATH_MAX + 1];
};
int cfg_find_owner(struct db *db, const char *key, const struct cfg_entry *x, bool *found, struct cfg_owner *out, struct err *e) MUST_USE;

// Where bytes of managed files are kept: DIR/WHAT/KEY/PATH of the state directory, KEY and PATH as the names that cfg_kept_name() makes.
enum { CFG_KEPT_HEX = 16 };
void cfg_kept_name(const char *text, char out[CFG_KEPT_HEX + 1]);
void cfg_kept_dir(const struct kind_env *env, const char *what, const char *key, char out[PATH_MAX]);
void cfg_kept_file(const struct kind_env *env, const char *what, const char *key, const char *path, char out[PATH_MAX]);

// The backup's bytes.
int cfg_backup_write(const struct kind_env *env, const char *key, const char *path, const struct buf *content, struct err *e) MUST_USE;
int cfg_backup_read(const struct kind_env *env, const char *key, const char *path, struct buf *content, struct err *e) MUST_USE;
// Removes copies of key that no record speaks of.
int cfg_backup_tidy(const struct kind_env *env, const char *key, const struct cfg_records *r, struct err *e) MUST_USE;
int cfg_backup_remove_all(const struct kind_env *env, const char *key, struct err *e) MUST_USE;
// After a crash: removes backups of keys without any record.
int cfg_backup_sweep(const struct kind_env *env, struct err *e) MUST_USE;

int cfg_owed_set(struct db *db, const char *key, bool owed, struct err *e) MUST_USE;
int cfg_owed_get(struct db *db, const char *key, bool *owed, struct err *e) MUST_USE;

#endif
