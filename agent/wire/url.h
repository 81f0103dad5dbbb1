// SPDX-License-Identifier: Apache-2.0
// url — an http:// or https:// address of a file: what may be one, its pieces for a transport, and where a Location leads.
//
// Strict on purpose: scheme in lower case, a host of letters, digits, dots and dashes or an IPv6 address in brackets, a port, a path and
// query of printable ASCII without quotes. No user name (a password would be shown), no fragment. What may be more is refused. Pure.
#ifndef WIRE_URL_H
#define WIRE_URL_H

#include "wire/http.h"

enum { URL_BASE_MAX = 300 }; // "https://" host ":" port

bool url_is_file(const char *url);
bool url_is_tls(const char *url);
// "https://host:port" and "/path?query". E_INVAL.
int url_split(const char *url, char base[URL_BASE_MAX], char path[HTTP_URL_MAX], struct err *e) MUST_USE;
// Where `location`, the answer of `from`, leads. E_INVAL: nowhere one would follow, or from TLS to none.
int url_follow(const char *from, const char *location, char out[HTTP_URL_MAX], struct err *e) MUST_USE;
// For people: without the query, which may hold a signature; at most max - 1 bytes.
void url_text(const char *url, char *out, size_t max);

#endif
