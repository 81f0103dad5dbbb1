// SPDX-License-Identifier: Apache-2.0
// edgeconfig_undo — a set of files that is replaced as one: what lay there before is kept until the set stands, and put back as a whole
// when it does not.
//
// The intent "switch" of a key holds the set and how far it came; the bytes are files in <state>/undo/<hash of key>/<hash of path>, mode
// 0600, synced before the intent that speaks of them. A single file without confirmSeconds needs none of this: one rename is all or none.
// Not here: when a set is begun, confirmed or given up (edgeconfig_switch.c).
#ifndef KINDS_EDGECONFIG_UNDO_H
#define KINDS_EDGECONFIG_UNDO_H

#include "kinds/edgeconfig_apply.h"

enum cfg_switch_state {
    SWITCH_NONE,
    SWITCH_GOING, // about to replace files, or some are replaced: after a cut the old ones are put back, then it goes on
    SWITCH_TRIAL, // all are replaced; the server has to be reached in time
    SWITCH_BACK,  // given up: the old ones are being put back
    SWITCH_FAILED // they are back, and kept so; this spec is not tried again
};

struct cfg_undo {
    const char *path;
    bool is_dir;
    bool present;           // something lay there,
    struct cfg_version was; // this
    bool ours;              // the path had a record before this change
    bool lost;              // not of the intent: its copy is gone or damaged, found by cfg_undo_restore()
};

struct cfg_switch {
    enum cfg_switch_state state;
    char revision[INST_REV_MAX];
    uint64_t spec;         // its hash
    const char *on_change; // its onChange as JSON; NULL = none
    int64_t confirm_ms;    // 0 = not on trial
    // SWITCH_TRIAL: the moment by which the server must have been reached.
    char boot_id[37];
    int64_t until_boot_ms;  // boot-time of that boot
    int64_t until_wall_us;  // 0 = the clock was not trusted
    bool rebooted;          // since it began
    struct cfg_undo *files; // and directories, which come first, each after the one that it lies in
    size_t n, room;
};

// SWITCH_NONE when there is none. `more`: room for so many files that are added. E_CORRUPT: nothing may be done on doubt.
int cfg_switch_load(struct cfg_switch *out, struct db *db, const char *key, size_t more, struct arena *a, struct err *e) MUST_USE;
int cfg_switch_put(struct db *db, const char *key, const struct cfg_switch *s, struct err *e) MUST_USE; // SWITCH_NONE removes it

const struct cfg_undo *cfg_undo_of(const struct cfg_switch *s, const char *path); // NULL = not in the set
// Keeps what lies at the path of x now and adds it to the set. The path is borrowed. E_TOOBIG: cannot be kept.
int cfg_undo_add(const struct kind_env *env, const char *key, struct cfg_switch *s, const struct cfg_entry *x, bool ours,
                 struct err *e) MUST_USE;
// Makes the whole set what it was, whatever is there now; also removes what was staged. Running it twice does nothing the second time. What
// cannot be put back does not keep the others from it; the first error is returned. A copy that is lost or damaged is no error, for it would
// be one for ever (a store that went back speaks of copies that were used up): the file stays as it is, and is marked. So does a directory of
// ours that somebody put something into.
int cfg_undo_restore(const struct kind_env *env, const char *key, struct cfg_switch *s, struct err *e) MUST_USE;
// Puts one file back that somebody changed since. E_TERMINAL: its copy is lost.
int cfg_undo_again(const struct kind_env *env, const char *key, struct cfg_switch *s, const char *path, struct err *e) MUST_USE;
int cfg_undo_forget(const struct kind_env *env, const char *key, struct err *e) MUST_USE; // removes the bytes

// Where the new content of path lies, in the same directory, before it takes its place.
void cfg_staged_name(const char *path, char out[CFG_PATH_MAX + 64]);

// Start of the agent: sets that were cut in the middle are put back, and trials that are over by now are given up, before any pass.
int cfg_undo_boot(struct kind_env *env, struct err *e) MUST_USE;

// A trial that an earlier agent began. False: its time is over. True: it goes on; *s says until when. Pure.
bool cfg_trial_resume(struct cfg_switch *s, const struct instant *now);

#endif
