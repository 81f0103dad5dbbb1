// SPDX-License-Identifier: Apache-2.0
// fields — which fields an object of a kind has, as its CRD says: made from crd/ when the agent is built (fields.awk).
//
// The API server tells of a field that it does not know, or drops it; who reads objects from files asks here. Names only: what a value may be is
// check()'s.
#ifndef FLOW_FIELDS_H
#define FLOW_FIELDS_H

#include "kinds/kind.h"

struct kind_fields {
    const char *kind; // NULL ends the table
    // The fields of spec, one a line, those of an object below it and one blank further in. Lists are left out, as if each of their items
    // stood in their place. "{}" behind a name: any member.
    const char *outline;
};
extern const struct kind_fields kind_fields[];

enum { FIELDS_PATH_MAX = 200 };

// How many fields `object` has that its kind does not; `first` is the path of the first, "spec.env[2].vlaue", cut with "..." when it is longer. A kind
// that was registered at run time has no table, and nothing in its spec is unknown.
size_t fields_unknown(const struct kind *k, const struct json *object, char first[FIELDS_PATH_MAX]);

#endif
