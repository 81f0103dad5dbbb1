// SPDX-License-Identifier: Apache-2.0
// manifest — the text of one manifest file into the objects that it defines. No files, no store.
//
// A file is YAML or JSON of one or several documents, a List counts as its items, an empty document as nothing. An object is judged as one
// of the server's: by its kind's check(). What only a server gives (uid, status, managedFields ...) is left out. Bounded by what wire/yaml.h
// bounds; the pass's bounds on an object come later.
#ifndef FLOW_MANIFEST_H
#define FLOW_MANIFEST_H

#include "kinds/registry.h"

struct manifest_env {
    const struct registry *registry;
    const struct kind_env *env; // what a check may look at
    const char *ns;             // of this node; NULL = any namespace is fine
};

struct manifest_object {
    const struct kind *kind;
    char key[KEY_MAX];
    const char *name;  // in json
    size_t line;       // where its document begins, from 1
    struct json *json; // apiVersion, kind, metadata (name, namespace, labels, annotations), spec
};

// Calls fn for each object, in order; fn may steal json, != 0 stops and is returned. E_INVAL and E_TOOBIG: "line 3, column 5: ...", or
// "line 3: EdgeApp web: spec.command: ...".
int manifest_read(const struct manifest_env *m, const char *text, size_t len, int (*fn)(void *ctx, struct manifest_object *o), void *ctx,
                  struct err *e) MUST_USE;

// A file that counts: not hidden, and named *.yaml, *.yml or *.json.
bool manifest_is_name(const char *name);

#endif
