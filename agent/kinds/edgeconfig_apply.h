// SPDX-License-Identifier: Apache-2.0
// edgeconfig_apply — one managed file or directory at a time: look, compare, save what lies there, write, give back.
//
// Every path goes through the disk guarded: no component may be a symlink, so a managed file cannot be redirected out of its tree.
// Giving back (release) touches only what is ours: a file whose content is neither what we wrote nor what was there before belongs to
// whoever wrote it; it is kept and the caller says so. A directory is only ever removed when it is empty.
#ifndef KINDS_EDGECONFIG_APPLY_H
#define KINDS_EDGECONFIG_APPLY_H

#include "kinds/edgeconfig_record.h"

struct cfg_actual {
    bool present;
    bool too_big; // more than CFG_BACKUP_MAX: no content was read, the hash is empty
    struct cfg_version version;
};

struct cfg_item {
    const struct cfg_entry *want;
    struct cfg_version version; // wanted
    struct cfg_record *record;  // NULL = none yet
    struct cfg_actual actual;
    bool observed, differs;
};

// Reads the file at path, or looks at the directory. `content` may be NULL. E_FORBIDDEN: leads through a symlink (err.sys is 0 then); E_INVAL: it
// is something else.
int cfg_look(const struct kind_env *env, const char *path, bool is_dir, struct cfg_actual *out, struct buf *content,
             struct err *e) MUST_USE;
// Fills in version, actual and differs. E_NOTFOUND: owner or group is unknown on this machine.
int cfg_item_observe(const struct kind_env *env, struct cfg_item *i, struct err *e) MUST_USE;
// What somebody else did to a file that was as it should be, in contrast to what is new in the spec.
bool cfg_item_is_drift(const struct cfg_item *i);
// "content, mode": what differs. With `out` it is also appended there as {path, field, want, have}.
void cfg_item_differences(const struct cfg_item *i, char text[64], struct json *out);

// Before the first write to a path: saves what lies there and fills *r with it. E_TOOBIG: too large to be saved and the policy is Restore.
int cfg_item_backup(const struct kind_env *env, const char *key, struct cfg_item *i, struct cfg_record *r, enum cfg_deletion policy,
                    struct err *e) MUST_USE;
// The record speaks of what is wanted now; `applied` is for the caller.
void cfg_record_aim(struct cfg_record *r, const struct cfg_version *v);
// Replaces the file at path in one step; missing directories are made.
int cfg_version_write(const struct kind_env *env, const char *path, const void *p, size_t n, const struct cfg_version *v,
                      struct err *e) MUST_USE;
// Makes the directory at path, or gives the one that is there this mode and owner.
int cfg_dir_write(const struct kind_env *env, const char *path, const struct cfg_version *v, struct err *e) MUST_USE;
int cfg_item_write(const struct kind_env *env, const struct cfg_item *i, struct err *e) MUST_USE;

enum cfg_release { CFG_UNTOUCHED, CFG_RESTORED, CFG_REMOVED, CFG_FOREIGN, CFG_NO_BACKUP, CFG_NOT_EMPTY };
// What a release would do, without doing it.
int cfg_release_plan(const struct kind_env *env, const struct cfg_record *r, enum cfg_deletion policy, enum cfg_release *out,
                     struct err *e) MUST_USE;
// Does it. Running it twice does nothing the second time. What cannot be done now or later is no error: *what says so. A copy is lost or
// damaged (CFG_NO_BACKUP), a directory is not empty (CFG_NOT_EMPTY): it stays.
int cfg_release_do(const struct kind_env *env, const char *key, const struct cfg_record *r, enum cfg_release *what, struct err *e) MUST_USE;

#endif
