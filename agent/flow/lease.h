// SPDX-License-Identifier: Apache-2.0
// lease — the heartbeat: renews coordination.k8s.io/v1 Lease <node> in the node's namespace, and stands by when another agent holds it.
//
// The holder is a random id kept in the state directory. Another holder that renewed within its duration, by our own monotonic
// observation of renewTime changing, means: stand by (keep what runs, take no new spec, send nothing but the refusal). A missed renewal
// condemns the connection. Renewal is a merge patch of renewTime; interval +-4 % jitter.
#ifndef FLOW_LEASE_H
#define FLOW_LEASE_H

#include "wire/kube.h"

struct lease;
struct lease_conf {
    const char *ns, *node, *holder;
    int64_t duration_ms, renew_ms;
    // The role changed: true = we hold it, false = another agent does (its id in other).
    void (*role)(void *ctx, bool holder, const char *other);
    // A renewal was answered (true) or failed (false, with the error).
    void (*beat)(void *ctx, bool ok, const struct err *e);
    void *ctx;
};
int lease_new(struct lease **out, struct loop *l, struct kube *k, const struct lease_conf *c, struct err *e) MUST_USE;
void lease_free(struct lease *l);
void lease_start(struct lease *l); // and again after an outage: renews at once
void lease_stop(struct lease *l);
// Other times from now on: the next renewal is due after the new interval, a new duration is written at once.
void lease_tune(struct lease *l, int64_t duration_ms, int64_t renew_ms);
bool lease_is_running(const struct lease *l);
// Of the last renewal: so far the server's database had come then. NULL: it changed nothing, for our clock stands still, and says nothing of that.
const char *lease_rv(const struct lease *l);
#endif
