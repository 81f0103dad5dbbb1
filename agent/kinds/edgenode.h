// SPDX-License-Identifier: Apache-2.0
// edgenode — the kind EdgeNode: what this machine is, and what is slowly wrong with it.
//
// It writes status only. Inventory is read by the pass; so are the conditions ClockTrusted, DiskPressure, OutboxBacklog and StoreSalvaged.
// IdentityLost, DuplicateNode and ManifestsAccepted are known elsewhere: whoever knows calls node_facts_set(), which may also overrule the others.
// Nothing here changes by the minute, and there is no "Online": a dead node cannot say so.
#ifndef KINDS_EDGENODE_H
#define KINDS_EDGENODE_H

#include "flow/status.h"
#include "kinds/kind.h"

enum { NODE_FACTS_MAX = 6 };

struct node_fact {
    const char *type; // one of the condition types above, a literal; NULL = free
    enum cond value;
    char reason[64];
    char message[1024];
};

// Zeroed = nothing known. Belongs to the agent (kind_env.facts).
struct node_facts {
    struct node_fact fact[NODE_FACTS_MAX];
};

// Keeps a fact and, when it changed, has the node's status looked at. env->facts NULL: does nothing.
void node_facts_set(const struct kind_env *env, const char *type, enum cond value, const char *reason, const char *fmt, ...)
    PRINTF_LIKE(5, 6);

#endif
