// SPDX-License-Identifier: Apache-2.0
// name — what a node may be called, and which namespace is its own.
//
// Pure. The agent does not do this: it is told its namespace when it joins, so the mapping may change without any node
// noticing.
#ifndef CTL_NAME_H
#define CTL_NAME_H

#include <stdbool.h>

#include "base/err.h"

enum {
    NODE_NAME_MAX = 253,
    NAMESPACE_MAX = 63, // characters, without the terminator
};

// A DNS subdomain: labels of at most 63 lower-case letters, digits and inner dashes, joined by dots. E_INVAL says what is wrong.
int node_name_check(const char *node, struct err *e) MUST_USE;

// "edge-" and the name, its dots turned into dashes. Where that is longer than a namespace may be, its end gives way to a dash and
// 10 hexadecimal digits of the name's SHA-256. Two names can map to one namespace ("a.b" and "a-b"): the caller compares the
// node's name that the namespace carries. `node` has passed node_name_check().
void node_namespace(const char *node, char out[NAMESPACE_MAX + 1]);

// Whether `url` is one that another machine can use: E_INVAL unless it is https://HOST[:PORT] without a path, a query or an account.
int server_url_check(const char *url, struct err *e) MUST_USE;
// True for localhost, 127.0.0.0/8, ::1 and the unspecified addresses, which every machine takes for itself.
bool server_url_is_loopback(const char *url);

#endif
