// SPDX-License-Identifier: Apache-2.0
// sync — the only ingress: follows sources on the API server and keeps the cache equal to what the server said.
//
// A source is (resource, namespace or cluster, selectors). Each runs its own state machine (DESIGN.md, "sync states"); sources share one
// connection, one link state and one backoff. What counts as deleted is decided here, in sync_guard.c, and nowhere else.
#ifndef FLOW_SYNC_H
#define FLOW_SYNC_H

#include "config/config.h"
#include "data/cache.h"
#include "kinds/registry.h"
#include "wire/kube.h"

struct sync;

// In the store's meta: the owner joined this node anew. Another cluster or namespace than the known one is then not a lost identity, once;
// what is missing there is kept for [guard] restoreHold all the same.
#define SYNC_JOINED "joined"

enum link_state { LINK_OFFLINE, LINK_ONLINE, LINK_IDENTITY_LOST, LINK_STANDBY };
const char *link_state_word(enum link_state s); // "Offline" ...

struct sync_conf {
    const struct config *config;
    const char *ns, *node;
    const char *cluster; // uid of kube-system as the node's identity has it, counts while the store knows none; NULL = not told
    // Hooks upward.
    void (*changed)(void *ctx, const char *key);                    // cache row new or changed
    void (*gone)(void *ctx, const char *key, const char *uid);      // proven gone; the cache row is removed in this transaction
    void (*swept)(void *ctx, const struct kind *k, const char *ns); // a complete list of the kind in ns was applied, deletes included
    void (*server_status)(void *ctx, const char *key, const char *uid, const char *status, size_t len);
    void (*link)(void *ctx, enum link_state s, const char *why); // online = every source is current
    void (*unauthorized)(void *ctx);                             // 401
    // The server is the one we know: may specs be taken? false: sync_admit() or sync_refused() will follow (the lease is being read).
    bool (*admit)(void *ctx);
    void (*too_large)(void *ctx, const struct kind *k, const char *name, const char *why); // an object over the bounds
    // Of kinds that sync_follow() follows. reduce: what is kept of an object, appended to out; nothing = none of it. known: the kind is
    // current (e NULL), there is no link (E_OFFLINE), it is asked for (E_BUSY), or it cannot be read. NULL where none is followed.
    int (*reduce)(void *ctx, const char *key, const char *json, size_t len, struct buf *out, struct err *e);
    void (*known)(void *ctx, const struct kind *k, const struct err *e);
    void *ctx;
};
struct sync_stats {
    enum link_state link;
    int64_t since_ms; // monotonic, when the link state began
    uint64_t relists, watches, events, gone_410, bad_lines, holds, bytes_in;
    int64_t last_contact_ms; // monotonic, 0 = never
    size_t sources, current; // sources, and those that are up to date
    int64_t backoff_ms;      // current delay, 0 = none
};

int sync_new(struct sync **out, struct loop *l, struct kube *k, struct db *db, struct cache *c, struct registry *r,
             const struct sync_conf *conf, struct err *e) MUST_USE;
void sync_free(struct sync *s);
// Names of sources are stable over restarts. Follows every kind of the registry in ns, and in the namespace that its nodes share. What is missing or forbidden there keeps nobody
// offline; what was heard from it earlier stays.
int sync_start(struct sync *s, struct err *e) MUST_USE;
// A kind that is `referred`, in our own namespace: from now on, or no longer. Each start begins with a list, as what is kept of its objects
// may be something else than before. sync_refresh: list once more, for that same reason.
int sync_follow(struct sync *s, const struct kind *k, bool on, struct err *e) MUST_USE;
void sync_refresh(struct sync *s, const struct kind *k);
// A link came up, credentials changed, the user asked: try now, or spread over 0-2 s.
void sync_kick(struct sync *s, bool now);
// The commit of a turn failed: what was heard in it is not in the cache. Everything is asked again, ever more seldom while that lasts.
void sync_store_failed(struct sync *s);
void sync_stored(struct sync *s);                      // the commit of a turn stands
void sync_unreadable(struct sync *s, const char *key); // its row is damaged: only a list tells it again
void sync_resync(struct sync *s, bool accept);         // complete relist of every source; accept: held deletes are allowed now
void sync_tuned(struct sync *s);                       // mode or interval in the configuration changed: at once
// Answers admit(). rv: a resourceVersion that the server gave to a write just now; NULL = none, one is asked for.
void sync_admit(struct sync *s, const char *rv);
void sync_refused(struct sync *s, const struct err *e); // admit() could not be answered: the link is down after all
void sync_doubt(struct sync *s);                        // another request was refused (401, 403, 404): does the server still know us?
void sync_standby(struct sync *s, bool on);             // another agent holds the lease: take no new spec
void sync_stats(struct sync *s, struct sync_stats *out);
int sync_each_source(struct sync *s, int (*fn)(void *ctx, const char *source, const char *state, const char *rv, const char *err),
                     void *ctx);
// What "deleted" is held back and why, for status: "" = nothing.
const char *sync_held(const struct sync *s);
const char *sync_why(const struct sync *s); // why the link is as it is

#endif
