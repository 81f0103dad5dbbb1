// SPDX-License-Identifier: Apache-2.0
// web — answers GET requests on one TCP address, by libmicrohttpd on the agent's loop. The only user of that library.
//
// At most 8 connections of 8 KiB each; one that says nothing for 10 s is closed. No TLS and no login: what is served here must be fit for
// everybody who reaches the address. Left out with OPT_METRICS=0: web_start() is then E_UNSUP.
#ifndef LOCAL_WEB_H
#define LOCAL_WEB_H

#include "base/buf.h"
#include "base/loop.h"

struct web;

// Fills in the answer to a GET (or HEAD) of `path`; verbose: "?verbose" was given. Returns the HTTP status; *type is a constant. Called from the loop.
typedef int web_answer(void *ctx, const char *path, bool verbose, struct buf *out, const char **type);

// listen_on: "ADDRESS:PORT", the address numeric and in brackets for IPv6; ":PORT" = every address. E_INVAL, E_BUSY (address in use), E_UNSUP.
int web_start(struct web **out, struct loop *l, const char *listen_on, web_answer *answer, void *ctx, struct err *e) MUST_USE;
void web_stop(struct web *w); // NULL is fine

#endif
