// SPDX-License-Identifier: Apache-2.0
// contact — is the server within reach, over a way that is walked anew?
//
// A watch that is open proves nothing of a network that was changed under it: its connection may live on by a route, a name or a firewall
// state that no new one would get. So who changed the machine asks here: one small request on a connection of its own. An answer that is no
// success is none.
// Not the link state, which sync decides; it is only remembered here, as the time when there last was a link.
#ifndef FLOW_CONTACT_H
#define FLOW_CONTACT_H

#include "base/clock.h"
#include "base/err.h"

// The part that kinds see (kind_env.contact); tests have their own. Times are boot-time.
struct contact {
    bool online;
    int64_t online_ms; // the link was up until then, at least; 0 = never since the start of the agent
    int64_t proved_ms; // the newest request that was answered well began then; 0 = none was
    // Asks, unless it is being asked already. The answer is only remembered: who waits looks again.
    void (*ask)(struct contact *c);
};

struct kube;
int contact_new(struct contact **out, struct kube *k, const char *ns, struct err *e) MUST_USE; // ns is borrowed
void contact_free(struct contact *c);
void contact_link(struct contact *c, struct clock *clock, bool online);
// Was the server within reach in the last `window_ms`?
bool contact_recent(const struct contact *c, struct clock *clock, int64_t window_ms);

#endif
