// SPDX-License-Identifier: Apache-2.0
// references — what kinds that refer to Secrets and ConfigMaps have in common: the fields of a spec, what a pass found, and the condition
// ResolvedRefs that tells of it. Values are never part of a text here.
#ifndef KINDS_REFERENCES_H
#define KINDS_REFERENCES_H

#include "flow/refs.h"
#include "kinds/field.h"

struct status;

// `f`, a field like env[].valueFrom, names exactly one of secretKeyRef and configMapKeyRef.
void ref_decode_key(struct ref *r, const struct field *f);
// Member `name` of f as a reference to a whole object of that kind; out->name stays NULL where it is absent.
void ref_decode_whole(struct ref *r, const struct field *f, const char *name, enum ref_kind kind);

// What a pass found, the worst of it.
struct references {
    size_t n;           // references noted
    bool missing;       // something that is needed is not there: nothing that needs it may begin
    const char *reason; // NULL = all is as it should be
    char why[320];
};
// Whether the value may be used, be there one or not.
bool references_note(struct references *x, const struct refs *refs, const struct ref *ref, enum ref_state state);
// It is there, and can be no such thing as it has to be.
void references_unfit(struct references *x, const struct ref *ref, const char *what);
void references_condition(const struct references *x, struct status *s);

#endif
