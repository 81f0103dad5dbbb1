// SPDX-License-Identifier: Apache-2.0
// enroll — exchanges a one-hour join token for the node's own credential, and renews that before it expires.
//
// Join: the CA comes with the token, or from --ca-file, or is looked for on a connection that nothing secret is sent over: at /cacerts
// (k3s), in ConfigMap kube-public/cluster-info (kubeadm), in the chain that the server presents. In each case the hash of its public
// key must be --ca-hash (which may be missing only beside --ca-file). Only then, over a connection verified by it, the token is used once to create a long-lived token for the same
// ServiceAccount (TokenRequest).
// The namespace comes from the command line of the join command that limpetctl printed; the agent never computes it.
// Blocking (join runs in the command-line tool); renewal is asynchronous.
#ifndef WIRE_ENROLL_H
#define WIRE_ENROLL_H

#include "wire/cred.h"
#include "wire/kube.h"
#include "wire/token.h"

struct enroll_conf {
    const char *server, *ca_hash, *node, *ns, *proxy, *proxy_auth, *no_proxy, *extra_ca_pem, *proxy_ca_pem;
    const char *server_name;     // that its certificate must carry, NULL = the URL's host
    const char *service_account; // NULL = the one that the token is for
    const char *ca_pem;          // from --ca-file, NULL = what came with the token, else look for it
    const char *token;           // what the token file holds (enroll_parse_token); secret, not kept
    int64_t lifetime_s;          // asked for, 0 = a year; the server may return less
};
// Fills `out` (server, CA, token, namespace, cluster); the caller saves it. E_AUTH: wrong hash or token (says which), E_INVAL: a token for
// another namespace, an http:// server, E_OFFLINE ...
int enroll_join(struct cred *out, struct loop *l, const struct enroll_conf *c, struct err *e) MUST_USE;

// What a token file holds: a bare token, or {"token": "...", "ca": "<PEM>"}. Both results are heap texts, *ca_pem NULL when not there;
// the token is secret.
int enroll_parse_token(const char *text, size_t len, char **token, char **ca_pem, struct err *e) MUST_USE;

// Renewal at a random point of 70-90 % of the token's life: from the expiry that the server set, by boot-time where the token came in this
// boot, else by the wall clock. While that is untrusted it waits: nothing is known about the age then. A token without an expiry is left
// alone. A new one is stored (the previous identity is kept as identity.json.prev), put into *c and given to the transport.
// Where the identity names a user a client certificate is asked for (certify.h), which takes the place of the token; that one is kept aside,
// and used when the certificate is refused.
struct enroll_renew;
int enroll_renew_new(struct enroll_renew **out, struct loop *l, struct kube *k, struct disk *d, const char *state_dir, const char *node,
                     struct cred *c, struct transport *t, struct err *e) MUST_USE;
void enroll_renew_free(struct enroll_renew *r);

// What is known of the client certificate. False: none is wanted.
struct certify_state;
bool enroll_renew_certificate(const struct enroll_renew *r, struct certify_state *out);
uint64_t enroll_renew_count(const struct enroll_renew *r); // tokens and certificates that replaced one, since the start

// What became of the credential in use.
enum enroll_look {
    ENROLL_SAME,     // nothing better is known
    ENROLL_SWITCHED, // another one is in use from now on
    ENROLL_OTHER,    // the identity file speaks of another server or node: begin anew
};
// Reads the identity file again: another hand may have put a new one there.
enum enroll_look enroll_renew_look(struct enroll_renew *r);
// The server refused the credential (401). Unless the file has a new one, the one before is tried, once for each that is refused: it asks
// for a new token at once, and when it is refused, too, the refused one is in use again.
enum enroll_look enroll_renew_refused(struct enroll_renew *r);

// Starts the TokenRequest of ServiceAccount ns/account; lifetime_s 0 = a year.
int enroll_request_token(struct kube_call *call, const char *ns, const char *account, int64_t lifetime_s, struct err *e) MUST_USE;
// The token of its answer, a secret heap text. E_CORRUPT: there is none.
int enroll_token_of(const struct buf *answer, char **token, struct err *e) MUST_USE;

#endif
