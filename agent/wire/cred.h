// SPDX-License-Identifier: Apache-2.0
// cred — who we are towards the server: URL, CA, token or client certificate, and where to read them again.
//
// Sources: a kubeconfig (YAML: server, certificate-authority[-data], token, tokenFile, client-certificate[-data], client-key[-data],
// proxy-url, tls-server-name, insecure-skip-tls-verify is refused, exec and auth-provider are refused by name), ini keys, the
// in-cluster service account, or the identity that `limpet join` stored. Files are re-read every minute and at once on 401; a file that
// cannot be read keeps the old value. Secrets are wiped when freed and never printed.
#ifndef WIRE_CRED_H
#define WIRE_CRED_H

#include "base/fsio.h"
#include "wire/http.h"

enum { CRED_TOKEN_MAX = 16 * 1024, CRED_PEM_MAX = 256 * 1024, KUBECONFIG_MAX = 1024 * 1024 };

struct cred {
    char *server; // base URL
    char *ca_pem;
    char *token; // secret
    char *cert_pem;
    char *key_pem; // secret
    char *server_name;
    char *proxy;                                               // may hold a password: secret
    char *proxy_auth, *no_proxy, *extra_ca_pem, *proxy_ca_pem; // of the configuration, for any credential; the first is secret
    char *ns;                                                  // namespace named by the source, NULL = not named
    // Of an identity only. `user`: whose certificate is wanted, NULL = the token will do. `spare`: the token while a certificate is in use; secret.
    char *user, *spare;
    char *cluster; // uid of the cluster's kube-system when it was joined, NULL = not known
    // When the token or certificate came: in which boot, its boot-time, and the server's own time in seconds; NULL, 0 = not known.
    char *received_boot;
    int64_t received_ms, received_s;
    // Where to read again; NULL = the value above is all there is.
    char *token_file, *ca_file, *cert_file, *key_file;
};

void cred_fini(struct cred *c);
// Replaces a member by a copy of `s` (NULL = none), wiping what was there. E_NOMEM: unchanged.
int cred_set(char **member, const char *s, struct err *e) MUST_USE;

// E_INVAL names file, line or key. `context` NULL = current-context. Relative file names are relative to the kubeconfig.
int cred_from_kubeconfig(struct cred *out, struct disk *d, const char *path, const char *context, struct err *e) MUST_USE;
// The same without reading the files that it names.
int kubeconfig_parse(struct cred *out, const char *yaml, size_t len, const char *path, const char *context, struct err *e) MUST_USE;
// The CA of the first cluster of a kubeconfig (kubeadm's cluster-info holds nothing else) appended to `pem`.
int kubeconfig_ca(const char *yaml, size_t len, struct buf *pem, struct err *e) MUST_USE;

// KUBERNETES_SERVICE_HOST/PORT given as arguments (IPv6 gets brackets); files below /var/run/secrets/kubernetes.io/serviceaccount.
int cred_in_cluster(struct cred *out, struct disk *d, const char *host, const char *port, struct err *e) MUST_USE;

// The file that join wrote: <state>/identity.json (0600, one atomic file holding everything). The one before is kept beside it as
// identity.json.prev and read when the file is damaged. E_NOTFOUND: not joined.
int cred_load_identity(struct cred *out, struct disk *d, const char *state_dir, char node[254], struct err *e) MUST_USE;
int cred_save_identity(const struct cred *c, struct disk *d, const char *state_dir, const char *node, struct err *e) MUST_USE;
// The one before, as it lies beside it. E_NOTFOUND: there is none.
int cred_load_previous(struct cred *out, struct disk *d, const char *state_dir, char node[254], struct err *e) MUST_USE;
// It came just now; server_s: the server's time of its answer, 0 = not told.
int cred_received(struct cred *c, struct clock *clock, int64_t server_s, struct err *e) MUST_USE;
// When the token, or else the client certificate, began and ends, in seconds since 1970 by the server's clock. False: it does not say.
bool cred_lifetime(const struct cred *c, int64_t *began, int64_t *expires);
// Takes over what proves who we are (token, certificate, key, spare token, when they came) and leaves the rest. E_NOMEM: unchanged.
int cred_take_proof(struct cred *c, const struct cred *from, struct err *e) MUST_USE;
// Whether both prove themselves by the same token and certificate; whether both are of the same server,
// CA and namespace; how one gets there may be said by the configuration.
bool cred_same_proof(const struct cred *a, const struct cred *b);
bool cred_same_place(const struct cred *a, const struct cred *b);

// A transport that shows this credential. any_date: see http.h; it shows no token then.
int cred_transport(struct transport **out, struct loop *l, const struct cred *c, bool any_date, struct err *e) MUST_USE;

// Reads the files again. *changed says whether anything differs. Keeps all old values on any error (returned).
int cred_reload(struct cred *c, struct disk *d, bool *changed, struct err *e) MUST_USE;

// "sha256:<hex>" over the DER SubjectPublicKeyInfo of the first certificate in the PEM text (kubeadm's public key pin).
int cred_ca_hash(const char *ca_pem, char out[72], struct err *e) MUST_USE;
// Whether both texts hold the same public keys, in any order; false when one of them is unreadable.
bool cred_same_ca(const char *a_pem, const char *b_pem);

#endif
