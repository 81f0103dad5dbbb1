// SPDX-License-Identifier: Apache-2.0
// http_fault — what a failed exchange means: curl's code into an error class and a sentence that says what to look at.
// Part of the transport (wire/http.h). Pure.
#ifndef WIRE_HTTP_FAULT_H
#define WIRE_HTTP_FAULT_H

#include "wire/http.h"

struct http_fault {
    int code; // CURLcode
    int sys;  // errno of the socket, 0 = none
    bool proxied;
    const char *proxy;  // its "host:port"
    int proxy_status;   // how it answered CONNECT, 0 = it did not
    bool resolved;      // the host's name had become an address
    bool connected;     // TCP had a connection
    bool head_seen;     // the answer had begun
    const char *where;  // "host:port"
    const char *detail; // curl's own words, may be ""
    const char *chain;  // why the certificate was refused, "" = it was not
    int64_t connect_timeout_ms;
};

// Sets class and message; returns the class.
int http_fault_explain(const struct http_fault *f, struct err *e);
// What it says of the proxy.
enum http_proxy http_fault_proxy(const struct http_fault *f);
// At which step it happened.
enum http_step http_fault_step(const struct http_fault *f);

#endif
