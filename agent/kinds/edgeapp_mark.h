// SPDX-License-Identifier: Apache-2.0
// edgeapp_mark — "instances from before this moment are to be replaced": how another kind has an EdgeApp restarted, in its own order.
//
// An intent of the app's key, and a copy under the key of who wants it. A moment of another boot outdates nobody: what runs was started
// since. Not a restart by itself: the app's next pass looks at it.
#ifndef KINDS_EDGEAPP_MARK_H
#define KINDS_EDGEAPP_MARK_H

#include "kinds/kind.h"

struct app_mark {
    char boot_id[37]; // "" = there is none
    int64_t boot_ms;
};

int app_mark_put(const struct kind_env *env, const char *key, struct err *e) MUST_USE; // now
int app_mark_copy(struct db *db, const char *from, const char *to, struct err *e) MUST_USE;
int app_mark_load(struct app_mark *m, struct db *db, const char *key, struct err *e) MUST_USE;
int app_mark_delete(struct db *db, const char *key, struct err *e) MUST_USE;
bool app_mark_outdates(const struct app_mark *m, const struct inst *i);

#endif
