// SPDX-License-Identifier: Apache-2.0
// enroll — exchanges a one-hour join token for the node's own credential, and renews that before it expires.
//
// Join: GET /api/v1/namespaces/kube-public... is not needed: the TLS chain's CA is fetched from the connection (or ConfigMap kube-root-ca.crt of the
// namespace), its public key hash compared with --ca-hash, then the token is used once to create a long-lived token for the same
// ServiceAccount (TokenRequest). The identity file is replaced atomically, the previous one kept as identity.json.prev.
// The namespace comes from the command line of the join command that limpetctl printed; the agent never computes it.
// Blocking (join runs in the command-line tool); renewal is asynchronous.
#ifndef WIRE_ENROLL_H
#define WIRE_ENROLL_H

#include "wire/cred.h"
#include "wire/kube.h"

struct enroll_conf {
    const char *server, *ca_hash, *node, *ns, *service_account, *proxy;
    const char *token;  // secret, not kept
    int64_t lifetime_s; // asked for; the server may return less
};
// Fills `out` (server, CA, token, namespace). E_AUTH: wrong hash or token (says which), E_OFFLINE ...
int enroll_join(struct cred *out, struct loop *l, const struct enroll_conf *c, struct err *e) MUST_USE;

// Renewal at a random point of 70-90 % of the token's life (from the expiry that the server returned, on the boot-time clock).
struct enroll_renew;
int enroll_renew_new(struct enroll_renew **out, struct loop *l, struct kube *k, struct disk *d, const char *state_dir, const char *node,
                     struct cred *c, struct transport *t, struct err *e) MUST_USE;
void enroll_renew_free(struct enroll_renew *r);

// Expiry of a JWT (seconds since 1970) from its unverified payload; 0 when there is none.
int64_t token_expiry(const char *jwt);

#endif
