// SPDX-License-Identifier: Apache-2.0
// sim_schema — what the schema of a CustomResourceDefinition does to an object: pruning, defaults, validation, and what server-side apply
// needs to know of it.
//
// A subset, checked against a real server by test/conformance: types, enum, bounds, patterns that POSIX knows, required, list-maps and
// list-sets. Not: CEL rules (x-kubernetes-validations), allOf and its like, formats other than date-time. Recursion is as deep as the schema,
// and schemas are ours.
#ifndef SIM_SCHEMA_H
#define SIM_SCHEMA_H

#include "data/json.h"

enum { SCHEMA_SELECTABLE_MAX = 8, SCHEMA_PATH_MAX = 512 };

// Shared by a type and the watches that were opened with it.
struct sim_schema {
    int refs;
    struct json *root; // openAPIV3Schema
    struct json *crd;  // whole
    bool has_rules, has_scale;
    char selectable[SCHEMA_SELECTABLE_MAX][64]; // dotted paths
    size_t n_selectable;
};

// NULL: this is no CRD with one version. The reference is the caller's.
struct sim_schema *sim_schema_new(const struct json *crd);
struct sim_schema *sim_schema_ref(struct sim_schema *s); // NULL is fine
void sim_schema_unref(struct sim_schema *s);             // NULL is fine

// What reading and writing do to an object, in this order.
void sim_schema_prune(const struct sim_schema *s, struct json *object);
void sim_schema_default(const struct sim_schema *s, struct json *object);
// details.causes of the 422, NULL = valid. `only` = the one member that is looked at (status), NULL = all.
struct json *sim_schema_validate(const struct sim_schema *s, const struct json *object, const char *only);

// Adds {reason, message, field} to an array. field NULL = it is about no field.
void sim_cause(struct json *causes, const char *reason, const char *field, const char *fmt, ...) PRINTF_LIKE(4, 5);

// --- For server-side apply (sim_server_apply.c)

enum sim_merge { MERGE_ATOMIC, MERGE_MEMBERS, MERGE_BY_KEY };
enum sim_merge sim_schema_merge(const struct json *node, const struct json *value); // how values at this node are put together
const struct json *sim_schema_member(const struct json *node, const char *key);     // NULL = not declared
const struct json *sim_schema_items(const struct json *node);
// {"type":"Ready"} of an element of a list-map; NULL = it lacks a key. The caller's.
struct json *sim_schema_key(const struct json *node, const struct json *item);
// What makes a patch no object of this schema: fields that are not declared, wrong types, elements without key or twice. True: `why` says it.
bool sim_schema_is_untyped(const struct sim_schema *s, const struct json *patch, char *why, size_t max);

#endif
