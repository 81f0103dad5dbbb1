// SPDX-License-Identifier: Apache-2.0
// http_endpoint — the base URL and the way to it, checked once: what to ask curl for and what to call it in messages.
// Part of the transport (wire/http.h). Pure.
#ifndef WIRE_HTTP_ENDPOINT_H
#define WIRE_HTTP_ENDPOINT_H

#include "wire/http.h"

enum { HTTP_BASE_MAX = 512 };

struct curl_slist;
struct http_endpoint {
    char base[HTTP_BASE_MAX];  // what request paths are appended to; its host is server_name when there is one
    char where[HTTP_BASE_MAX]; // "host:port" as configured, for people
    bool tls;
    bool loopback;                 // by its name: 127.x.x.x, [::1], localhost
    struct curl_slist *connect_to; // leads from server_name to the real host, NULL = no detour
    char *proxy;                   // may hold a password: secret
    char *proxy_auth;              // secret
    bool proxy_tls;                // https://
    int64_t proxy_port;
    char proxy_where[HTTP_BASE_MAX]; // its "host:port", "" = none
    char *no_proxy;
};

// E_INVAL says what is wrong with base_url, server_name or proxy, without repeating a password.
int http_endpoint_init(struct http_endpoint *at, const struct http_conf *c, struct err *e) MUST_USE;
void http_endpoint_fini(struct http_endpoint *at); // safe on a zeroed or half made one

#endif
