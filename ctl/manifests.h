// SPDX-License-Identifier: Apache-2.0
// manifests — the objects of crd/, compiled in, so that limpetctl is one file that needs no other.
//
// Made by manifests.awk at build time; nothing here is ever changed at run time. In the texts, the names and the namespaces for a
// node, "@NODE@" and "@NAMESPACE@" stand for what `node add` puts there.
#ifndef CTL_MANIFESTS_H
#define CTL_MANIFESTS_H

struct manifest {
    const char *api_version, *kind;
    const char *ns; // "" = not in a namespace
    const char *name;
    const char *text; // YAML, one document
};

// In the order in which they are to be applied. Each ends with an entry whose kind is NULL.
extern const struct manifest cluster_manifests[];
extern const struct manifest node_manifests[];
extern const struct manifest certificate_manifests[]; // for a node with a client certificate, after node_manifests; with "@USER@", too

#endif
