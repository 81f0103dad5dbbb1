// SPDX-License-Identifier: Apache-2.0
// key — "<plural>/<namespace>/<name>": how an object is named inside the agent. Pure.
#ifndef DATA_KEY_H
#define DATA_KEY_H

#include "data/cache.h"

struct key_parts {
    char plural[64], ns[64], name[OBJ_NAME_MAX];
};
int key_make(char out[KEY_MAX], const char *plural, const char *ns, const char *name,
             struct err *e) MUST_USE;                                          // ns NULL or "" = cluster-wide
int key_split(const char *key, struct key_parts *out, struct err *e) MUST_USE; // E_INVAL

#endif
