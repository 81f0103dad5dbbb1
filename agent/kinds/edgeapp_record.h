// SPDX-License-Identifier: Apache-2.0
// edgeapp_record — what is kept of an app's revisions: the spec of the last one that came up, and which ones did not.
//
// Intents, read in each pass, so that no copy in memory is newer than the disk. They belong to one object: of one that was deleted and made
// again under its name nothing counts. Not for deciding anything: edgeapp_rollout does.
#ifndef KINDS_EDGEAPP_RECORD_H
#define KINDS_EDGEAPP_RECORD_H

#include "kinds/kind.h"

enum { APP_FAILED_MAX = 8 }; // revisions remembered; the oldest goes

struct app_failed {
    char revision[INST_REV_MAX];
    char why[256];
    int64_t at_us;
};

struct app_record {
    char good[INST_REV_MAX]; // "" = none was good yet
    char uid[OBJ_UID_MAX];   // of the object whose
    int64_t generation;      // spec is kept
    struct app_failed failed[APP_FAILED_MAX];
    size_t n_failed; // oldest first
};

// What is kept of this app; nothing, or something damaged, is an empty record. E_IO and the like: unknown, nothing must follow from it.
int app_record_load(struct app_record *r, const struct pass *p, struct err *e) MUST_USE;
const struct app_failed *app_record_failed(const struct app_record *r, const char *revision); // NULL = it did not
// The spec of the good revision, parsed; the caller frees it. E_NOTFOUND, E_CORRUPT.
int app_record_spec(const struct pass *p, struct json **out, struct err *e) MUST_USE;
// Notes that p->spec, whose revision this is, is good, whatever it was before. Writes nothing when that is known.
int app_record_good(struct app_record *r, const struct pass *p, const char *revision, struct err *e) MUST_USE;
// Notes that a revision failed; the pass must wait for the commit before it acts on it.
int app_record_fail(struct app_record *r, const struct pass *p, const char *revision, const char *why, int64_t at_us,
                    struct err *e) MUST_USE;

#endif
