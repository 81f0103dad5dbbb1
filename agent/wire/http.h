// SPDX-License-Identifier: Apache-2.0
// http — the transport seam: a request in; status, headers, body chunks and one end (or error) out; cancel.
//
// The real one is libcurl's multi interface on the loop, TLS by mbedTLS whose time comes from the clock seam; the simulator
// has its own. Nothing above knows which. Only this module (files wire/http*.c) sees curl and mbedTLS.
// Not a client of Kubernetes: no verbs, no Status objects, no retries (wire/kube.h).
//
// A request is an intrusive node owned by the caller and must stay in place until on_done was called or http_cancel() returned.
// After on_done nothing is called any more, and the node may be submitted again from inside on_done.
#ifndef WIRE_HTTP_H
#define WIRE_HTTP_H

#include "base/buf.h"
#include "base/err.h"
#include "base/loop.h"

enum { HTTP_URL_MAX = 2048, HTTP_ETAG_MAX = 128 };

struct http_head {
    int status;             // 200 ...
    int64_t retry_after_ms; // Retry-After in either form, 0 = none
    int64_t date_sec;       // Date, 0 = none or unreadable
    char content_type[64];  // lower-case, without parameters
    bool verified;          // came over TLS from a peer whose certificate led to the pinned CA
    bool has_length, has_range;
    int64_t length;           // Content-Length
    int64_t range_from;       // Content-Range: where the body begins, -1 = none of it is sent ("bytes */N")
    int64_t range_total;      // and how much there is in all, -1 = it does not say
    char etag[HTTP_ETAG_MAX]; // a strong one, as it came; "" = none, or a longer one
};

struct http_req {
    // Filled in by the caller before http_submit(); pointed-to memory must live until the end.
    const char *method;       // "GET", "PATCH", ...
    char url[HTTP_URL_MAX];   // absolute path and query below the server's base URL: "/api/v1/..."
    const char *content_type; // NULL = no body
    const char *accept;       // NULL = application/json
    const void *body;
    size_t body_len;
    const char *bearer;                                            // overrides the transport's credential, NULL = use that
    int64_t total_timeout_ms;                                      // whole exchange; 0 = none (watches)
    int64_t idle_timeout_ms;                                       // no byte for that long; 0 = none
    bool fresh_connection;                                         // do not reuse any connection
    int64_t range_from;                                            // only what is from there on (Range), 0 = all of it
    const char *if_range;                                          // else all of it, if its ETag is not this one any more; NULL = none
    char *location;                                                // takes HTTP_URL_MAX bytes of Location; NULL = nobody asks
    int (*on_head)(struct http_req *r, const struct http_head *h); // may be NULL; != 0 aborts (E_CANCELED)
    int (*on_body)(struct http_req *r, const void *p, size_t n);   // may be NULL; != 0 aborts (E_CANCELED)
    // Exactly once per submit. e == NULL: the exchange completed (any status). Else E_OFFLINE (resolve, connect, reset), E_TIMEOUT,
    // E_AUTH (TLS: the peer is not who it should be), E_CORRUPT (truncated body, broken framing), E_CANCELED, E_NOMEM.
    void (*on_done)(struct http_req *r, const struct err *e);
    // The transport's own.
    struct http_head head;
    uint64_t bytes_in, bytes_out; // headers and bodies of this exchange, before compression and TLS; see http_stats for the wire
    void *impl;
    struct list link;
};

// Bytes are what TCP carried: TLS records, handshakes and compressed headers included, IP headers and retransmissions not.
struct http_stats {
    uint64_t bytes_in, bytes_out, requests, connections, failures;
};

struct transport;
struct transport_ops {
    int (*submit)(struct transport *t, struct http_req *r, struct err *e);
    // All of these may be called from inside a request's callbacks, except free.
    void (*cancel)(struct transport *t, struct http_req *r); // no on_done; safe when not under way
    // The connection(s) in use are believed dead: requests on them end with E_OFFLINE at the next turn, new ones connect afresh.
    void (*condemn)(struct transport *t);
    void (*stats)(struct transport *t, struct http_stats *out);
    void (*free)(struct transport *t);
};
struct transport {
    const struct transport_ops *ops;
};

int http_submit(struct transport *t, struct http_req *r, struct err *e) MUST_USE;
void http_cancel(struct transport *t, struct http_req *r);
void http_condemn(struct transport *t);
void transport_free(struct transport *t);

// What the real transport needs. All strings are copied. PEM texts, not file names: credentials are read by wire/cred.c.
struct http_conf {
    const char *base_url; // "https://host:6443" (or http:// for MetaServer)
    const char *ca_pem;   // NULL = system store is NOT used; https without CA is E_INVAL
    const char *cert_pem; // client certificate chain, NULL = none
    const char *key_pem;
    const char *server_name; // verify and SNI as this name, NULL = the URL's host
    const char *proxy;       // "http[s]://[user:pass@]host:port", NULL = none (the environment is read by the config module)
    const char *no_proxy;
    const char *proxy_auth;   // "user:password", wins over what the URL holds; NULL = none; secret
    const char *extra_ca_pem; // trusted beside ca_pem, but for no certificate that is not yet valid; NULL = none
    const char *proxy_ca_pem; // judges an https:// proxy; NULL = ca_pem and extra_ca_pem do
    const char *user_agent;
    int64_t connect_timeout_ms; // 0 = 5000
    bool pin_only_hash;         // enrolment: accept any chain here, the caller compares the CA hash (http_peer_chain)
    bool any_date;              // diagnosis: a certificate out of its time is no reason to refuse; http_look() has the dates
};
int http_new(struct transport **out, struct loop *l, const struct http_conf *c, struct err *e) MUST_USE;
// Changes what future connections present or verify; connections in use are condemned when the identity changed.
int http_set_identity(struct transport *t, const char *ca_pem, const char *cert_pem, const char *key_pem, struct err *e) MUST_USE;
// The token sent as "Authorization: Bearer" on requests without their own. Copied, wiped on change. NULL = none.
// E_INVAL: not a token, or a plain http:// server that is not on the loopback interface.
int http_set_bearer(struct transport *t, const char *token, struct err *e) MUST_USE;

// The certificates that the peer of the last handshake sent, as PEM; "" before one. Only with pin_only_hash. Valid until the next turn.
const char *http_peer_chain(struct transport *t);

// What the proxy did, as far as the newest exchange could tell.
enum http_proxy {
    HTTP_PROXY_NONE,
    HTTP_PROXY_GOOD,
    HTTP_PROXY_UNKNOWN,
    HTTP_PROXY_AWAY,
    HTTP_PROXY_MUTE,
    HTTP_PROXY_NO_TLS,
    HTTP_PROXY_STRANGER,
    HTTP_PROXY_ASKS,
    HTTP_PROXY_REFUSES
};
// NONE: it was not used. UNKNOWN: its name does not resolve. AWAY: no connection. MUTE: it does not answer. NO_TLS: an https:// one
// that does not speak it. STRANGER: its certificate is not accepted. ASKS: for a user and password, or
// for other ones. REFUSES: it does not connect us to the server.

// How far the newest exchange of the real transport came, for diagnosis.
enum http_step { HTTP_RESOLVE, HTTP_CONNECT, HTTP_HANDSHAKE, HTTP_EXCHANGE, HTTP_ANSWERED }; // where it ended; HTTP_ANSWERED: nowhere
struct http_look {
    enum http_step step;
    bool tls, proxied; // proxied: names and connections up to the handshake are the proxy's
    enum http_proxy proxy;
    char proxy_where[256];         // "host:port" of the proxy, "" = none is configured
    char where[256];               // "host:port" as configured
    char address[64];              // that was tried last, "" = none
    int64_t not_before, not_after; // seconds since 1970: when the whole chain is good, 0 = no certificate was seen
    bool untrusted, other_name;    // the chain does not lead to the CA; the certificate is for other names
    char names[256], issuer[256];  // of that certificate, "" = not seen; the four are about the proxy when that is the stranger
};
void http_look(struct transport *t, struct http_look *out);

// Percent-encodes a path segment or query value into b.
int http_escape(struct buf *b, const char *s, struct err *e) MUST_USE;

#endif
