// SPDX-License-Identifier: Apache-2.0
// http_curl — what the three files of the transport on libcurl share. Not for others: they see wire/http.h.
//
//   http_curl.c     requests come in, endings go out, condemn, credentials
//   http_request.c  one request as a curl handle
//   http_conns.c    curl's sockets and time on our loop, and the multi handle
#ifndef WIRE_HTTP_CURL_H
#define WIRE_HTTP_CURL_H

#include <curl/curl.h>

#include "wire/http_endpoint.h"
#include "wire/http_head.h"
#include "wire/http_tls.h"

// Our timers are never unset but moved to here: moving needs no memory and so cannot fail.
#define PARKED (INT64_MAX / 4)

struct curl_transport {
    struct transport base;
    struct loop *loop;
    CURLM *multi; // NULL after condemn, until the next request
    struct http_endpoint at;
    struct tls_policy tls, proxy_tls;
    char *ca_pem, *cert_pem, *key_pem; // key_pem is secret
    char *extra_ca_pem;                // NULL = none
    char *trusted_pem;                 // both CAs, what is given to curl
    char *proxy_ca_pem;                // NULL = trusted_pem
    char *authorization;               // whole header line; secret
    char *user_agent;
    int64_t connect_timeout_ms;
    struct timer clockwork;                              // curl's own timeout
    struct timer kick;                                   // settle() in the next turn
    bool inside;                                         // curl is on the stack
    bool condemned;                                      // asked for while inside
    bool nudge;                                          // a connection was made: see on_connected()
    struct list queued, running, ended, batch, canceled; // of struct xfer
    struct list socks, conns;
    struct http_stats stats;  // bytes of closed connections only
    bool resolved, connected; // how far the newest attempt to connect came; for messages
    char address[64];         // and where to
    enum http_step step;
    enum http_proxy proxy;
};

// One submitted request. It outlives a canceled http_req when curl is on the stack.
struct xfer {
    struct list link;
    struct curl_transport *t;
    struct http_req *req; // NULL = canceled
    CURL *easy;
    int handshakes; // begun on the connection that it makes
    struct curl_slist *headers;
    struct timer timer;
    int64_t total_at_ms, last_byte_ms;
    struct http_head_parser head;
    struct err err; // why it ended; class 0 = completed
    char why[CURL_ERROR_SIZE];
};

// http_curl.c: lets curl work on a descriptor (CURL_SOCKET_TIMEOUT: on what is due) and handles what came of it.
void http_drive(struct curl_transport *t, curl_socket_t fd, int events);
// The next turn handles what was put off.
void http_kick(struct curl_transport *t);
// Whether it goes through the proxy: not where noProxy names the server.
bool http_by_proxy(const struct xfer *x);

// http_conns.c
int http_need_multi(struct curl_transport *t, struct err *e) MUST_USE; // E_NOMEM
void http_drop_multi(struct curl_transport *t);                        // closes every connection; requests were taken out before
curl_socket_t http_open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *a);
int http_close_socket(void *ctx, curl_socket_t fd);
void http_wire_bytes(const struct curl_transport *t, struct http_stats *s); // adds those of open connections

// http_request.c
int http_xfer_new(struct xfer **out, struct curl_transport *t, struct http_req *r, struct err *e) MUST_USE; // on no list yet
int http_xfer_start(struct xfer *x, struct err *e) MUST_USE;                                                // hands it to curl
void http_xfer_sent(struct xfer *x);                                                                        // counts what was sent so far
void http_xfer_end(struct xfer *x); // takes it from curl, x->err says why; settling tells the owner
void http_xfer_free(struct xfer *x);
int http_bearer_line(struct buf *line, const char *token, struct err *e) MUST_USE; // "Authorization: Bearer ..."

#endif
