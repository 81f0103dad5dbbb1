// SPDX-License-Identifier: Apache-2.0
// node — what a node is on the server: a namespace that says whose it is, and the objects of crd/node.yaml.in in it.
#ifndef CTL_NODE_H
#define CTL_NODE_H

#include "ctl/api.h"
#include "ctl/name.h"

#define NODE_ANNOTATION "edge.limpet.dev/node"
#define NODE_SERVICE_ACCOUNT "limpet"

enum node_claim {
    NODE_ABSENT,      // there is no such namespace
    NODE_OURS,        // it is this node's
    NODE_OTHER,       // it is another node's, or nobody said that it is a node's
    NODE_TERMINATING, // it is being deleted
};

// Whose the namespace is. owner: the node that it names, "" for none.
int node_claim(struct api *a, const char *node, const char *ns, enum node_claim *out, char owner[NODE_NAME_MAX + 1],
               struct err *e) MUST_USE;

// The text of a manifest with @NODE@, @NAMESPACE@ and @USER@ filled in.
struct node_names {
    const char *node, *ns, *user; // user "" = there are no certificates
};
int node_fill(struct buf *out, const char *text, const struct node_names *names, struct err *e) MUST_USE;

#endif
