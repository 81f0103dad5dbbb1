// SPDX-License-Identifier: Apache-2.0
// reconcile — the engine: pops keys, runs passes, writes status. Owns the per-object state; the only writer of status slots.
//
// One pass a key at a time, at most kind->max_concurrent open passes a kind. A pass that waits has a deadline; at the deadline what it
// started is cancelled and the key fails with E_TIMEOUT. Success forgets the key's failures and requeues after 5 min +-10 %.
// generation == observedGeneration never skips the observation.
// A row that is damaged or a read that fails is "unknown": nothing on the machine changes.
// Order in a loop turn: ingress commit -> engine_run() -> commit -> egress (hooks set by flow/agent.c).
#ifndef FLOW_RECONCILE_H
#define FLOW_RECONCILE_H

#include "flow/status.h"
#include "flow/workq.h"
#include "kinds/kind.h"
#include "kinds/registry.h"

struct engine;
struct engine_conf {
    int64_t requeue_ms;       // when stable; 0 = 5 min
    int64_t pass_deadline_ms; // 0 = 5 s
    size_t max_objects;       // 0 = 20000; over it: counted and refused
    size_t pass_memory;       // JSON cap of a pass; 0 = 8 MiB
    int passes_per_turn;      // 0 = 32: the loop breathes in between
    // The row of an object is damaged: whoever can should bring it again. NULL = nobody. Called with each try to read it.
    void (*unreadable)(void *ctx, const char *key);
    void *ctx;
};
struct engine_stats {
    uint64_t passes, errors, resumed, deadline_hits, skipped_corrupt, status_writes;
    size_t queue_len, objects, waiting;
    bool settled; // everything that was due has been looked at, at least once since the boot
};
// How the passes of one kind ended since the engine was made. A pass that waits counts when it is over, with its waiting.
struct kind_stats {
    uint64_t success, requeue, requeue_after, error;
    int open; // passes that wait now
    struct histo time;
};

int engine_new(struct engine **out, struct kind_env *env, struct registry *r, const struct engine_conf *c, struct err *e) MUST_USE;
void engine_free(struct engine *g); // leaves the machine alone
int engine_boot(struct engine *g, struct err *e)
    MUST_USE; // kind boot hooks, then every cached key and every leftover intent is queued: the first pass needs no network
bool engine_run(struct engine *g);          // the hook: runs due passes; true = more at once
void engine_store_failed(struct engine *g); // the commit of this turn failed; the caller tries again later with engine_store_retry()
int engine_store_retry(struct engine *g, struct err *e) MUST_USE; // everything is looked at again, what is gone and owed included
void engine_object_changed(struct engine *g, const char *key);    // sync: the cache row changed
// sync: the object is proven gone. The caller removes the cache row and writes the tombstone (engine_tombstone) in one transaction.
void engine_object_gone(struct engine *g, const char *key);
int engine_tombstone(struct db *db, const char *key, const char *uid, struct err *e) MUST_USE;
// A complete list of this kind in ns ("" = cluster-wide) was swept: what still runs or is owed for keys without a row is proven orphaned. Before that (an empty or
// salvaged store) such leftovers are kept.
void engine_swept(struct engine *g, const struct kind *k, const char *ns);
// The policy's maintenance windows opened, closed, came or went.
void engine_windows_changed(struct engine *g);
void engine_stats(struct engine *g, struct engine_stats *out);
void engine_queue_stats(struct engine *g, struct workq_stats *out);
int engine_each_kind(struct engine *g, int (*fn)(void *ctx, const struct kind *k, const struct kind_stats *s), void *ctx);
int engine_each(struct engine *g, int (*fn)(void *ctx, struct object_state *os), void *ctx);
// The wall clock was set, or is trusted now, or no longer: kinds that follow it look.
void engine_clock_changed(struct engine *g);
// Runs kind->differences for a key into `out` (array). E_NOTFOUND, E_UNSUP.
int engine_differences(struct engine *g, const char *key, struct json *out, struct err *e) MUST_USE;
// Sync heard the server's status of an object: when it does not cover what our slot says and the slot is not pending, the slot is made
// pending again.
void engine_server_status(struct engine *g, const char *key, const char *uid, const char *status, size_t len);

#endif
