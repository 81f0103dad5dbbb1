// SPDX-License-Identifier: Apache-2.0
// check — "does it answer?": a TCP connect, or an HTTP/1.1 GET of which only the status line is read.
//
// As a kubelet's probes: 200..399 is a yes. Unlike them a redirect is not followed: it is an answer. No TLS. Not an HTTP client: requests
// have one form, answers are cut off after the first line, at most 1 KiB. Each address of the name is tried, in order.
#ifndef PORT_CHECK_H
#define PORT_CHECK_H

#include "port/port.h"

struct checks {
    struct loop *loop;
    struct list all;
    size_t n;
};

void checks_init(struct checks *s, struct loop *l);
void checks_fini(struct checks *s); // cancels all
// As port_ops.check and check_cancel. E_INVAL, E_NOMEM, E_BUSY (too many). Whatever the network says comes by c->done().
int check_start(struct checks *s, struct port_check *c, struct err *e) MUST_USE;
void check_cancel(struct checks *s, struct port_check *c);

#endif
