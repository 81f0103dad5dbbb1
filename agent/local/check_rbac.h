// SPDX-License-Identifier: Apache-2.0
// check_rbac — the rights that a node needs, as data: what `limpetctl node add` grants.
#ifndef LOCAL_CHECK_RBAC_H
#define LOCAL_CHECK_RBAC_H

#include <stddef.h>

struct check_right {
    const char *group, *resource, *sub;                   // sub "" = none
    const char *name;                                     // NULL = all; "@NAMESPACE@" is the node's
    const char *verbs;                                    // separated by blanks
    enum { RIGHT_OWN, RIGHT_SHARED, RIGHT_SYSTEM } where; // the node's namespace, edge-system, kube-system
};
extern const struct check_right check_rights[];
extern const size_t n_check_rights;

#endif
