// SPDX-License-Identifier: Apache-2.0
// egress — sends the outbox: oldest first, rate limited, bounded in flight, a backoff per item so that none blocks the others.
//
// Status by server-side apply on /status with metadata.resourceVersion and uid from the cache (a stale one is 409: take the
// cache's and go on; the object re-created meanwhile: the slot is dropped, it speaks of another uid). 404 and permanent 4xx drop with a
// counted reason; 401 asks for new credentials; 429/5xx/timeouts wait. 500 "field not declared in schema": merge patch instead.
// Events are created under their deterministic names; 409 AlreadyExists is success.
// Runs only between egress_online(true) (after the first complete resync) and (false). After an outage of ten minutes it holds back for a random part of a
// twentieth of it: the server keeps a hundred changes of a type for those who come back after us, and the reports of a fleet that come at
// once would push these out, so that all others have to list.
#ifndef FLOW_EGRESS_H
#define FLOW_EGRESS_H

#include "data/outbox.h"
#include "kinds/registry.h"
#include "wire/kube.h"

struct egress;
struct egress_conf {
    int64_t rate_per_s;  // 0 = 50
    int in_flight;       // 0 = 8
    int64_t hold_max_ms; // the longest time to hold back, 0 = none
    const char *node, *ns;
    void (*unauthorized)(void *ctx);   // 401: read credentials again
    void (*identity_doubt)(void *ctx); // 403/404 on our own namespace's objects
    void *ctx;
};
struct egress_stats {
    uint64_t status_sent, status_dropped, status_conflicts, events_sent, events_dropped, errors;
    int in_flight;
};
int egress_new(struct egress **out, struct loop *l, struct kube *k, struct outbox *o, struct cache *c, struct registry *r,
               const struct egress_conf *conf, struct err *e) MUST_USE;
void egress_free(struct egress *g);
void egress_online(struct egress *g, bool online);
void egress_wake(struct egress *g); // something was put into the outbox and committed
bool egress_run(struct egress *g);  // hook after the commit: starts what may be sent; true = more at once
void egress_stats(struct egress *g, struct egress_stats *out);
#endif
