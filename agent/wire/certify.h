// SPDX-License-Identifier: Apache-2.0
// certify — has the cluster certify a key of the node's own: key, request, approval, signature, trial.
//
// The request is a CertificateSigningRequest for the signer kubernetes.io/kube-apiserver-client. Its name follows from the namespace, so
// that a node may be given the right to its own request alone, and that a cut between two steps needs no memory: whoever comes back looks
// at the request of that name. One for another key is of an earlier life, or of somebody else; it is removed. The certificate is tried on
// a connection of its own before it replaces anything. Not here: who approves (`limpetctl node approve`), when to renew (renew.c).
#ifndef WIRE_CERTIFY_H
#define WIRE_CERTIFY_H

#include "wire/cred.h"
#include "wire/kube.h"

struct certify_conf {
    struct loop *loop;
    struct kube *kube;
    struct disk *disk;
    const struct cred *cred; // in use; its `user` is the one to be certified
    const char *state_dir, *node;
    // Stores the certificate and uses it from now on; not called from inside a request's callback.
    int (*adopt)(void *ctx, const struct cred *proof, struct err *e);
    void *ctx;
};

// What is under way, as the reason of a condition and as text; reason "" = nothing.
struct certify_state {
    char reason[32];
    char message[400];
};

struct certify;
int certify_new(struct certify **out, const struct certify_conf *c, struct err *e) MUST_USE;
void certify_free(struct certify *c);
// Goes on until there is a certificate. Under way already: nothing happens. A request that is denied, fails or is not allowed is made
// anew after an hour, later each time, a day at most; one that nobody approves is looked at every 10 minutes in the end.
void certify_start(struct certify *c);
void certify_stop(struct certify *c); // none is wanted any more
void certify_look(const struct certify *c, struct certify_state *out);

#endif
