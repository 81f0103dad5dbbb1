// SPDX-License-Identifier: Apache-2.0
// http_head — one header line after the other into a struct http_head. Pure: for the transports, and for tests with hostile lines.
#ifndef WIRE_HTTP_HEAD_H
#define WIRE_HTTP_HEAD_H

#include "wire/http.h"

struct http_head_parser {
    struct http_head head;
    int64_t retry_at_sec; // Retry-After as a date, 0 = none
    char *location;       // of HTTP_URL_MAX bytes, the caller's; "" = there was none, or a longer one; NULL = nobody asks
    bool complete;        // the empty line of a final answer was seen; later lines are trailers and are ignored
};

// Takes one line, with or without its line end; not terminated. Returns true when this line completed the head of a final answer
// (informational 1xx answers are passed over). `wall_sec` is used when Retry-After is a date and there is no Date header.
bool http_head_line(struct http_head_parser *p, const char *line, size_t len, int64_t wall_sec);

#endif
