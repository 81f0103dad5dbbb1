// SPDX-License-Identifier: Apache-2.0
// edgepolicy_spec — what an EdgePolicy asks for, decoded into a document of flow/policy.h.
#ifndef KINDS_EDGEPOLICY_H
#define KINDS_EDGEPOLICY_H

#include "flow/policy.h"
#include "kinds/kind.h"

#define POLICY_SHARED_NS "edge-system"

// Fills in d from `spec`, whose texts are copied. E_INVAL names the field, also for a schedule or a time zone that no schema can
// judge; E_TOOBIG: over the memory of a document. Reads tzdata from the disk.
int edgepolicy_decode(struct policy_doc *d, const struct json *spec, struct disk *disk, struct err *e) MUST_USE;

#endif
