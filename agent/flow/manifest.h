// SPDX-License-Identifier: Apache-2.0
// manifest — the text of one manifest file into the objects that it defines. No files, no store.
//
// A file is YAML or JSON of one or several documents, a List counts as its items, an empty document as nothing. An object is judged as one
// of the server's: by its kind's check(). What only a server gives (uid, status, managedFields ...) is left out. A field that the kind does not have
// is no mistake here, but told with the object: who applies refuses it, who has to boot takes the rest. Bounded by what wire/yaml.h bounds; the
// pass's bounds on an object come later.
#ifndef FLOW_MANIFEST_H
#define FLOW_MANIFEST_H

#include "flow/fields.h"
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
    size_t n_unknown;  // fields that the kind does not have
    size_t unknown_line;
    char unknown[FIELDS_PATH_MAX]; // the first of them
};

// Calls fn for each object, in order; fn may steal json, != 0 stops and is returned. E_INVAL and E_TOOBIG: "line 3, column 5: ...", or
// "line 7: EdgeApp web: spec.command: ...", the line of the field where it can be told, else of its document.
int manifest_read(const struct manifest_env *m, const char *text, size_t len, int (*fn)(void *ctx, struct manifest_object *o), void *ctx,
                  struct err *e) MUST_USE;

// "line 7: EdgeApp web: unknown field spec.replcias", with how many more there are; n_unknown is not 0.
void manifest_say_unknown(const struct manifest_object *o, char *out, size_t max);

// A file that counts: not hidden, and named *.yaml, *.yml or *.json.
bool manifest_is_name(const char *name);

#endif
