// SPDX-License-Identifier: Apache-2.0
// http_tls — how the transport judges a server's certificate, and the few questions others ask about PEM texts.
//
// Part of the transport (wire/http.h); the only file that sees mbedTLS. The chain must lead to the pinned CA and name the server;
// there is no system store. Time comes from the clock seam. While the clock is untrusted, "not yet valid" alone is no reason to refuse.
#ifndef WIRE_HTTP_TLS_H
#define WIRE_HTTP_TLS_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

enum { TLS_HASH_MAX = 72, TLS_CA_KEYS_MAX = 32, TLS_PEM_MAX = 256 * 1024 };

// SHA-256 of the DER SubjectPublicKeyInfo of each certificate, in the order of the text.
struct tls_ca_keys {
    unsigned char digest[TLS_CA_KEYS_MAX][32];
    size_t n;
};

// What the chain of the last handshake says of itself; only with tell.
struct tls_peer {
    int64_t not_before, not_after; // seconds since 1970, of the whole chain; 0 = none was seen
    char names[256], issuer[256];  // of the server's own certificate
};

struct tls_policy {
    struct clock *clock;
    bool accept_any;          // enrolment: nothing secret is sent, the caller compares hashes
    bool tell;                // diagnosis: what the chain says of itself is kept (peer)
    bool any_date;            // dates are not judged
    struct tls_ca_keys extra; // authorities beside the pinned one: they vouch for no certificate that is not yet valid
    bool by_extra;            // the last handshake's chain leads to one of these
    unsigned refused;         // why the last handshake's chain was refused, 0 = it was not
    struct buf served;        // the chain the server sent, PEM; only with accept_any
    struct tls_peer peer;
};

void tls_policy_init(struct tls_policy *p, struct clock *c, bool accept_any);
void tls_policy_fini(struct tls_policy *p);
// To be called for each new connection with its mbedtls_ssl_config. `p` must outlive the connection.
void tls_policy_apply(struct tls_policy *p, void *ssl_config);
// "The certificate validity has expired", ...; "" when the chain was not what failed. Always terminated.
void tls_policy_explain(const struct tls_policy *p, char *out, size_t max);

bool tls_policy_untrusted(const struct tls_policy *p);  // the chain does not lead to the CA
bool tls_policy_other_name(const struct tls_policy *p); // the certificate is for other names

// When the first certificate of the text is good, seconds since 1970. E_INVAL.
int tls_cert_dates(const char *pem, int64_t *not_before, int64_t *not_after, struct err *e) MUST_USE;
// E_INVAL: not one readable certificate (or an unreadable one among them); `what` names the text in the message.
int tls_check_certs(const char *pem, const char *what, struct err *e) MUST_USE;
// E_INVAL: unreadable, encrypted, or not the key of the first certificate. Says nothing about the key's content.
int tls_check_key(const char *cert_pem, const char *key_pem, struct clock *c, struct err *e) MUST_USE;

int tls_ca_keys(const char *pem, struct tls_ca_keys *out, struct err *e) MUST_USE; // E_INVAL, E_TOOBIG
// "sha256:<hex>" as kubeadm writes its pins.
void tls_hash_text(const unsigned char digest[32], char out[TLS_HASH_MAX]);
// Calls fn with each certificate of the text that may sign others, as PEM; fn != 0 stops and is returned.
int tls_each_ca(const char *pem, int (*fn)(void *ctx, const char *one_pem), void *ctx, struct err *e) MUST_USE;

#endif
