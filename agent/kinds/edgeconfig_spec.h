// SPDX-License-Identifier: Apache-2.0
// edgeconfig_spec — what an EdgeConfig asks for, decoded, with defaults and revision. Pure.
//
// A path is refused here when it is not below one of the guarded trees of the node's own settings, or lies in the agent's own directories;
// whether it leads through a symlink only the disk can tell (edgeconfig_apply.h).
#ifndef KINDS_EDGECONFIG_SPEC_H
#define KINDS_EDGECONFIG_SPEC_H

#include "base/sha256.h"
#include "kinds/references.h"
#include "port/port.h"

enum { CFG_FILES_MAX = 64, CFG_DIRS_MAX = 32, CFG_ENTRIES_MAX = CFG_FILES_MAX + CFG_DIRS_MAX };
enum { CFG_CONTENT_MAX = 1024 * 1024, CFG_PATH_MAX = 1024, CFG_OWN_DIRS_MAX = 4 };

struct kind_env;

#define CFG_DIR_SHA "directory" // of a directory: it stands where a file has the digest of its content

// A file or a directory.
struct cfg_entry {
    const char *path;
    bool is_dir;
    const char *content; // bytes
    size_t len;
    char sha[SHA256_HEX];
    bool is_template;
    bool former;     // what lay there before a change that was put back: its bytes are the copy in edgeconfig_undo.h
    struct ref from; // where the content comes from: cfg_resolve() brings it. No name = it is in the spec
    uint32_t mode;
    const char *owner, *group; // NULL = as the agent; NULL = the owner's group
};

// Of an onChange as JSON: as much as a spec that a server stores can have.
enum { CFG_ON_CHANGE_MAX = 2 * 1024 * 1024 };

struct cfg_command {
    const char *const *argv; // NULL-terminated; NULL = none
    int64_t timeout_ms;
};

// An EdgeApp that reads the files: a signal to its instances, or new instances.
struct cfg_app {
    const char *name; // NULL = none
    int signal;
    bool restart;
};

enum cfg_deletion { CFG_RESTORE, CFG_DELETE, CFG_KEEP };
extern const char *const cfg_deletion_words[]; // NULL-terminated, by enum cfg_deletion

struct cfg_spec {
    struct cfg_entry *entries; // the directories, each after the one that it lies in, then the files as they stand in the spec
    size_t n_entries, n_dirs;
    struct cfg_command validate, on_change; // at most one of on_change and on_app
    struct cfg_app on_app;
    int64_t confirm_ms; // 0 = a change is not on trial
    enum cfg_deletion deletion;
    // "<version>-<12 hex>" of all paths, contents (of a reference: what it refers to), modes and owners, in whatever order they stand
    char revision[INST_REV_MAX];
};

struct cfg_guard {
    const char *const *paths;          // NULL-terminated: trees that may be written
    const char *own[CFG_OWN_DIRS_MAX]; // trees that never may; NULL = unused
};

// E_INVAL names the field; E_TOOBIG: over the memory of a pass. Texts are borrowed from `spec`.
int cfg_spec_decode(struct cfg_spec *s, const struct json *spec, const char *node, const struct cfg_guard *g, struct arena *a,
                    struct err *e) MUST_USE;
// Puts the facts of this node into its templates; the revision is of the result. Reads the machine. E_NOTFOUND names the place: a fact that this
// node does not have now.
int cfg_spec_render(struct cfg_spec *s, const struct kind_env *env, struct arena *a, struct err *e) MUST_USE;
// Decodes an onChange alone, out of its JSON, NULL = none. *out holds what s borrows from then; free with json_free().
int cfg_spec_on_change(struct cfg_spec *s, const char *text, struct json **out, struct arena *a, struct err *e) MUST_USE;
// The list of entries was changed: sorts it and names it anew.
int cfg_spec_revise(struct cfg_spec *s, struct arena *a, struct err *e) MUST_USE;
const struct cfg_entry *cfg_spec_entry(const struct cfg_spec *s, const char *path, bool is_dir); // NULL = not on the list

#endif
