// SPDX-License-Identifier: Apache-2.0
// workq — keys waiting to be reconciled.
//
// A set, not a list: a key queued twice is worked once. A key pushed while it is being worked runs once more afterwards. Two
// priorities: what somebody changed goes before what is merely looked at again. Failures back off per key (5 ms doubling to 5 min, full
// jitter above 1 s) until forget().
// Not a scheduler: it never calls anybody; flow/reconcile.c pops.
// Pure: time and randomness come in as arguments, so tests need no clock.
#ifndef FLOW_WORKQ_H
#define FLOW_WORKQ_H

#include "base/err.h"
#include "base/histo.h"
#include "base/util.h"

struct workq;
enum workq_prio { WORKQ_HIGH, WORKQ_LOW };
enum { WORKQ_BACKOFF_MIN_MS = 5, WORKQ_BACKOFF_MAX_MS = 300000, WORKQ_WHY_MAX = 16 };

int workq_new(struct workq **out, size_t max_keys, struct err *e) MUST_USE; // over max_keys: E_TOOBIG
void workq_free(struct workq *q);
// Queues `key` to run no earlier than `at_ms` (monotonic). An earlier time wins over a later one already set; a higher priority over a
// lower. E_NOMEM, E_TOOBIG: the queue is unchanged.
int workq_push(struct workq *q, const char *key, int64_t at_ms, enum workq_prio prio, const char *why, struct err *e) MUST_USE;
// Next key due at now_ms that `may` allows (NULL = any): marks it as being worked, copies it out. False: none. The order is high before low,
// then due time, then arrival.
bool workq_pop(struct workq *q, int64_t now_ms, bool (*may)(void *ctx, const char *key), void *ctx, char *key, size_t key_max,
               char why[WORKQ_WHY_MAX]);
// The work on key ended. If it was pushed meanwhile it is queued again.
void workq_done(struct workq *q, const char *key);
// Failed: the delay to the next try (jittered by rnd), counting up. retry_after_ms > 0 is a lower bound.
int64_t workq_fail(struct workq *q, const char *key, int64_t retry_after_ms, uint64_t rnd);
void workq_forget(struct workq *q, const char *key); // success: the failure history goes
void workq_remove(struct workq *q, const char *key); // not queued any more; history too
int64_t workq_next_ms(
    const struct workq *q); // due time of the earliest delayed key, INT64_MAX = none; keys that are due and could not run are not counted
size_t workq_len(const struct workq *q); // waiting, not being worked
unsigned workq_failures(const struct workq *q, const char *key);
// Since the queue was made: keys that came to wait, failures that were given a delay, and how long keys waited after their time had come.
struct workq_stats {
    uint64_t adds, retries;
    size_t ready, delayed;
    struct histo waited;
};
void workq_stats(const struct workq *q, struct workq_stats *out);
bool workq_working(const struct workq *q, const char *key);

#endif
