// SPDX-License-Identifier: Apache-2.0
// link — hears from the kernel (rtnetlink) when a link or route comes up, so that an offline agent tries again at once.
#ifndef WIRE_LINK_H
#define WIRE_LINK_H

#include "base/loop.h"

struct link_watch {
    void (*up)(struct link_watch *w); // a link became usable, or a route or address was added; coalesced to one call a turn
    struct loop *loop;
    struct loop_fd fd;
};
// E_UNSUP where there is no rtnetlink: the caller goes on without.
int link_watch_start(struct link_watch *w, struct loop *l, void (*up)(struct link_watch *), struct err *e) MUST_USE;
void link_watch_stop(struct link_watch *w);

#endif
