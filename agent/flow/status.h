// SPDX-License-Identifier: Apache-2.0
// status — builds the status of one object: conditions by KEP-1623, only what differs is written.
//
// Starts from the previous status (the outbox slot), so that lastTransitionTime moves only when a condition's status does, and is the
// time when it happened. What the kind does not set again in a pass is dropped, except conditions of its own types: those stay
// until set. A status never claims Ready for a generation it has not seen (engine, flow/reconcile.c).
#ifndef FLOW_STATUS_H
#define FLOW_STATUS_H

#include "base/clock.h"
#include "data/json.h"

struct status;
enum cond { COND_FALSE = 0, COND_TRUE = 1, COND_UNKNOWN = 2 };

// prev may be NULL. conditions: the NULL-terminated types the kind owns; others in prev are dropped.
int status_new(struct status **out, struct clock *c, const struct json *prev, const char *const *conditions, int64_t generation,
               struct err *e) MUST_USE;
void status_free(struct status *s);
// reason: CamelCase word. message: for people, bounded to 1024 bytes with "...".
void status_cond(struct status *s, const char *type, enum cond value, const char *reason, const char *fmt, ...) PRINTF_LIKE(5, 6);
// Speaks of another generation than the status: of one that is accepted and waits.
void status_cond_generation(struct status *s, const char *type, int64_t generation);
void status_cond_drop(struct status *s, const char *type);                            // one that only stands while it holds
bool status_cond_is_set(const struct status *s, const char *type);                    // in this pass
enum cond status_cond_value(const struct status *s, const char *type, bool *present); // now, previous counts
void status_keep_prev(struct status *s);                // the previous body stays: for a pass that could not look at the machine
struct json *status_body(struct status *s);             // for json_set_*: other members
const struct json *status_prev(const struct status *s); // NULL = none
// The body becomes the whole status value, with observedGeneration and conditions in a stable order. Its hash is by meaning.
int status_finish(struct status *s, uint64_t *hash, struct err *e) MUST_USE;
// The text of a finished one.
int status_print(const struct status *s, struct buf *out, struct err *e) MUST_USE;
// Does the server's status hold all of ours (by meaning; conditions by type; other members and conditions are not ours)?
bool status_covered(const struct json *ours, const struct json *servers);

// What differs, for people: {path, field, want, have}; bounded.
void difference_add(struct json *array, const char *path, const char *field, const char *want, const char *have);

#endif
