// SPDX-License-Identifier: Apache-2.0
// registry — the kinds this agent knows, built in and registered at run time.
#ifndef KINDS_REGISTRY_H
#define KINDS_REGISTRY_H

#include "kinds/kind.h"

struct registry;
int registry_new(struct registry **out, struct err *e) MUST_USE;
void registry_free(struct registry *r);
// The kind is the caller's and must stay until removed. E_EXISTS: the plural is taken; a key names no group.
int registry_add(struct registry *r, const struct kind *k, struct err *e) MUST_USE;
void registry_remove(struct registry *r, const struct kind *k);
const struct kind *registry_of_key(const struct registry *r, const char *key); // by plural; NULL = unknown
const struct kind *registry_find(const struct registry *r, const char *name);  // plural, singular, Kind or short name, any case
int registry_each(const struct registry *r, int (*fn)(void *ctx, const struct kind *k), void *ctx);
size_t registry_count(const struct registry *r);

extern const struct kind kind_edgeapp, kind_edgeconfig, kind_edgejob, kind_edgenode, kind_edgepolicy;

#endif
