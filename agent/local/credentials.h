// SPDX-License-Identifier: Apache-2.0
// credentials — which of the configured credentials counts, and the way to the server by it. What the agent and `limpet check` share, so
// that the check looks at what the agent would use. Reads files; nothing else blocks.
#ifndef LOCAL_CREDENTIALS_H
#define LOCAL_CREDENTIALS_H

#include "config/config.h"
#include "wire/cred.h"

enum credential { CREDENTIAL_NONE, CREDENTIAL_KEYS, CREDENTIAL_KUBECONFIG, CREDENTIAL_IDENTITY, CREDENTIAL_IN_CLUSTER };

// First found wins: explicit keys, kubeconfig, the stored identity, in-cluster. None is no error. `state` is the machine's disk, where the
// identity lies; `files` is our own root, from which the files of the configuration are named. An identity tells the node's name. On an
// error *from says which one it was that cannot be used; out is for cred_fini() in any case.
int credentials_load(struct cred *out, enum credential *from, const struct config *c, struct disk *state, struct disk *files,
                     char node[254], struct err *e) MUST_USE;
// The way through a proxy, where the configuration or the environment names one, and what is trusted beside the CA: for join, too, which has no
// credential yet. `server`: the URL, NULL = not known yet.
int credentials_way(struct cred *out, const struct config *c, struct disk *files, const char *server, struct err *e) MUST_USE;
// node: what the configuration says, else what is in it, else the host's name. ns: "" = nobody has said it.
void credentials_names(const struct config *c, const struct cred *cred, char node[254], char ns[64]);

#endif
