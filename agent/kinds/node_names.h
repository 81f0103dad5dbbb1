// SPDX-License-Identifier: Apache-2.0
// node_names — what templates may call by name: facts of this node.
//
// node.name, node.namespace, node.address (the first of the EdgeNode's addresses), node.hostname, node.architecture, node.os, node.kernel;
// node.labels.KEY and node.annotations.KEY of the EdgeNode as it was heard last. None changes by the minute.
#ifndef KINDS_NODE_NAMES_H
#define KINDS_NODE_NAMES_H

#include "expr/template.h"
#include "kinds/edgenode_inventory.h"
#include "kinds/kind.h"

struct node_names {
    const struct kind_env *env;
    struct inventory inventory;
    struct json *node; // the EdgeNode; NULL = none was heard
};

// Reads the machine and the cache. Names that stand for nothing now are no error here.
int node_names_init(struct node_names *n, const struct kind_env *env, struct err *e) MUST_USE;
void node_names_fini(struct node_names *n);
struct template_names node_names_of(const struct node_names *n);
// Any name that could stand for something, for a check that looks at no machine. Each stands for "".
extern const struct template_names node_names_possible;

#endif
