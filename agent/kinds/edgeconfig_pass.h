// SPDX-License-Identifier: Apache-2.0
// edgeconfig_pass — one pass of an EdgeConfig, shared by its parts: edgeconfig.c (order of the steps, validate, report), edgeconfig_act.c
// (intents, single files), edgeconfig_switch.c (files that change as one, trials) and edgeconfig_change.c (onChange). Nobody else includes it.
#ifndef KINDS_EDGECONFIG_PASS_H
#define KINDS_EDGECONFIG_PASS_H

#include "flow/status.h"
#include "kinds/command.h"
#include "kinds/edgeconfig_apply.h"
#include "kinds/edgeconfig_fight.h"
#include "kinds/edgeconfig_undo.h"
#include "kinds/edgeconfig_watch.h"

enum command_role { ROLE_VALIDATE, ROLE_ON_CHANGE };

// What failed is tried again ever more seldom: after 1 s, doubling up to 5 min. Zeroed: nothing failed.
struct cfg_retry {
    int failures;  // in a row
    uint64_t spec; // hash of the spec that they were about
    int64_t at_ms; // the next try
};
int64_t cfg_retry_later(struct cfg_retry *r, uint64_t spec, int64_t now_ms); // it failed: how long until the next try
bool cfg_retry_due(struct cfg_retry *r, uint64_t spec, int64_t now_ms);      // another spec is due at once

// What is remembered of the object while the agent runs.
struct cfg_run {
    struct command *command; // under way, or ended and not looked at yet
    enum command_role role;
    uint64_t command_spec;        // hash of the spec it was started for
    uint64_t validated, rejected; // specs that were judged
    int64_t rejected_ms;          // when
    struct cfg_retry change, set; // onChange; files that change as one
    char *verdict;                // of the last command, or set, that failed
    struct cfg_fight *fight;      // NULL = nothing was ever repaired
    struct cfg_watches watches;
    int64_t repairs, applied_us; // as in status; applied 0 = never
    bool loaded;
    int salvages;       // of the store, that were answered
    bool app_told;      // the app of onChange was told of the restart that it is to make
    bool tidied;        // no bytes lie about that the store does not speak of
    int64_t settled_ms; // boot-time since when the change on trial is in effect; 0 = it is not yet
};

// One pass.
struct cfg_pass {
    struct pass *p;
    struct cfg_run *run;
    struct kind_env *env;
    int64_t now_ms;
    uint64_t spec_hash;
    struct cfg_spec spec;
    struct err unknown; // a fact that a template wants; class 0 = none is missing
    struct references found;
    struct cfg_records records;
    struct cfg_switch sw;
    struct cfg_item *items;
    bool partial;               // `spec` is not all of what is wanted: only what is under way goes on, nothing is given back
    bool former;                // `spec` is what was there before a change that was put back
    bool judged;                // this very pass heard a verdict of validate
    bool owed;                  // an onChange
    bool held;                  // drift stays for now: another writer keeps at it
    int64_t look_ms;            // monotonic: come back then; INT64_MAX = no need
    const char *progress, *why; // reason and message of Progressing=True; NULL = nothing is under way
};

// A step of the pass: < 0 an error, CFG_ON to the next, CFG_END: this pass ends here.
enum { CFG_ON, CFG_END };

// As much of a path as fits a message, cut between characters.
enum { CFG_SHOWN_MAX = 200 };
const char *cfg_shown(char out[CFG_SHOWN_MAX], const char *path);

// Ends the pass with Ready=False.
int cfg_block(struct cfg_pass *w, const char *reason, const char *text);
void cfg_come_back(struct cfg_pass *w, int64_t at_ms);

// Brings what contents come from elsewhere. What is optional and absent leaves the list of files.
int cfg_resolve(struct cfg_pass *w, struct err *e) MUST_USE;
int cfg_observe(struct cfg_pass *w, struct err *e) MUST_USE; // a step
int cfg_start_command(struct cfg_pass *w, enum command_role role, const struct cfg_command *what, const char *const *vars,
                      struct err *e) MUST_USE;
bool cfg_keep_verdict(struct cfg_run *run, const char *text); // true: it is another than the one before, so it is news
void cfg_drop_verdict(struct cfg_run *run);
const char *cfg_verdict(const struct cfg_run *run);

// The steps of edgeconfig_act.c, in their order. What must not be forgotten is written down first; when that has to be durable before the
// machine is touched, the pass ends and the next one goes on.
int cfg_intend(struct cfg_pass *w, struct err *e) MUST_USE;
int cfg_release_files(struct cfg_pass *w, struct err *e) MUST_USE; // that left the list
int cfg_write_files(struct cfg_pass *w, struct err *e) MUST_USE;
int cfg_release_dirs(struct cfg_pass *w, struct err *e) MUST_USE;      // directories that left it, when every file is where it should be
bool cfg_leaves(const struct cfg_pass *w, const struct cfg_record *r); // it is not on the list any more
// Gives one file or directory back by `policy` and forgets it.
int cfg_release(struct pass *p, const struct cfg_record *r, enum cfg_deletion policy, struct err *e) MUST_USE;
void cfg_tell_released(struct pass *p, const char *path, enum cfg_release what);
int cfg_item_stands(struct cfg_pass *w, struct cfg_item *i, struct err *e) MUST_USE; // its new version is in its place

// edgeconfig_switch.c. Steps: what was under way; then the files of a set, after cfg_intend(); then whether a trial is over.
int cfg_settle_switch(struct cfg_pass *w, struct err *e) MUST_USE;
int cfg_switch_intend(struct cfg_pass *w, bool *commit, struct err *e) MUST_USE; // part of cfg_intend()
int cfg_switch_files(struct cfg_pass *w, struct err *e) MUST_USE;
int cfg_confirm(struct cfg_pass *w, struct err *e) MUST_USE;
// Something stands in the way of the rest of the pass: a change on trial is judged all the same.
int cfg_judge(struct cfg_pass *w, struct err *e) MUST_USE;
// After a change was put back, what was there before it is what is wanted, as long as the spec is the same.
int cfg_former(struct cfg_pass *w, struct err *e) MUST_USE;

// edgeconfig_report.c: what the status says after the steps. failed: the error that ended them, NULL = none.
void cfg_report(struct cfg_pass *w, const struct err *failed);

// edgeconfig_change.c
bool cfg_has_on_change(const struct cfg_spec *s);
int cfg_owe_after_salvage(struct cfg_pass *w, struct err *e) MUST_USE;
int cfg_changed(struct cfg_pass *w, const struct command *c, struct err *e) MUST_USE; // its command ended
int cfg_run_on_change(struct cfg_pass *w, struct err *e) MUST_USE;                    // a step
int cfg_change_app(struct cfg_pass *w, struct err *e) MUST_USE;                       // edgeconfig_app.c

#endif
