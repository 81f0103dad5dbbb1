// SPDX-License-Identifier: Apache-2.0
// outbox — what the server still has to hear, kept until it did. Storage and order only; flow/egress.c sends.
//
// Status: one slot an object, the latest wins. The slot stays after the acknowledgement (it is the "previous status" that condition
// times and comparisons need); `pending` tells. Acknowledging is lazy: a lost acknowledgement repeats an unchanged apply, which the
// server takes without a new resourceVersion.
// Events: a ring of `max_events`. At the bound the oldest that was acknowledged goes, else the oldest, and that is counted as lost. Names are
// deterministic (object uid, reason, boot id, sequence, moment), so that a replay meets 409 AlreadyExists and not a twin. Repeats of one
// (object, reason, action, note) that were not handed out yet are folded: count and last time.
// Which of the two goes first can be set (outbox_limits); "the oldest" is then the oldest of that type, while there is one.
// Store full: events go before anything else does, the oldest first; a status slot is never dropped for room. Events of a transaction
// that could not be committed (full disk) are lost and counted; statuses are made again by the next passes.
// A damaged row is dropped and counted when it is met: an event is lost, the next pass makes a new status.
#ifndef DATA_OUTBOX_H
#define DATA_OUTBOX_H

#include "data/cache.h"

struct outbox;
struct outbox_conf {
    int64_t max_events; // 0 = 5000
};
// Close it before the db.
int outbox_open(struct outbox **out, struct db *db, struct clock *c, const struct outbox_conf *conf, struct err *e) MUST_USE;
void outbox_close(struct outbox *o);
// Other limits from now on; what is over them goes at once. 0 = the default.
enum outbox_shed { OUTBOX_SHED_OLDEST, OUTBOX_SHED_NORMAL, OUTBOX_SHED_WARNING };
int outbox_limits(struct outbox *o, int64_t max_events, enum outbox_shed first, struct err *e) MUST_USE;

// Status slots.
struct status_slot {
    char key[KEY_MAX], uid[OBJ_UID_MAX];
    int64_t generation; // observedGeneration that the status speaks for
    int64_t seq;        // order of the last change; grows over restarts
    int64_t at_us;      // when it changed (best wall estimate)
    uint64_t hash;      // by meaning
    bool pending;
    struct buf json; // the status value
};
#define STATUS_SLOT_INIT             \
    {                                \
        .json = BUF_INIT(256 * 1024) \
    }
void status_slot_fini(struct status_slot *s);
#define AUTO_SLOT CLEANUP(status_slot_fini)

// Puts a status; equal by hash and same uid: nothing is written and 0 returned, 1 when the slot changed. < 0 on error.
int outbox_status_put(struct outbox *o, const char *key, const char *uid, int64_t generation, const char *json, size_t len, uint64_t hash,
                      struct err *e) MUST_USE;
// The same for nobody but this machine: never pending.
int outbox_status_keep(struct outbox *o, const char *key, const char *uid, int64_t generation, const char *json, size_t len, uint64_t hash,
                       struct err *e) MUST_USE;
// What the server hears of an object that a file hides has a slot beside the file's own: the key and OUTBOX_TWIN.
#define OUTBOX_TWIN ":shadowed"
void outbox_twin_key(const char *key, char out[KEY_MAX + sizeof(OUTBOX_TWIN)]);
void outbox_object_key(const char *slot_key, char out[KEY_MAX]);                                           // whose slot it is
int outbox_status_get(struct outbox *o, const char *key, struct status_slot *out, struct err *e) MUST_USE; // E_NOTFOUND, E_CORRUPT
int outbox_status_delete(struct outbox *o, const char *key, struct err *e) MUST_USE;
int outbox_status_resend(struct outbox *o, const char *key, struct err *e) MUST_USE; // pending again (the server lost it)
// Acknowledges only if the slot still has this seq; a newer one stays pending. Lazy: kept in memory (at most ACKS_MAX, then written) until a
// transaction that somebody else needs.
enum { ACKS_MAX = 256 };
void outbox_status_ack(struct outbox *o, const char *key, int64_t seq);
// Oldest pending slots after `after_seq` (0 = from the start): calls fn up to `max` times. fn may write; != 0 stops and is returned.
int outbox_status_pending(struct outbox *o, int64_t after_seq, int max, int (*fn)(void *ctx, const struct status_slot *s), void *ctx,
                          struct err *e) MUST_USE;

// Events.
struct event_in {
    const char *key, *uid, *kind, *api_version, *ns, *name; // the object regarded
    bool local;                                             // for nobody but this machine: never pending
    bool warning;
    const char *reason, *action, *note; // bounds 128, 128, 1024: longer ones are cut with "..."
    const char *id;           // what the Event is named after, within the object; NULL = a name of its own. Never folded with another id
    const struct instant *at; // when it happened; NULL = now
};
// E_NOSPC: no room even after others went; counted as lost.
int outbox_event(struct outbox *o, const struct event_in *ev, struct err *e) MUST_USE;

struct event_row {
    int64_t seq;
    char name[OBJ_NAME_MAX]; // of the Event object
    char key[KEY_MAX], uid[OBJ_UID_MAX], kind[OBJ_KIND_MAX], api_version[128], ns[64], obj_name[OBJ_NAME_MAX];
    bool warning;
    char reason[129], action[129], note[1025];
    int64_t count;
    struct instant first, last; // last == first when count is 1
    bool pending;
};
// In order after `after_seq`: calls fn up to `max` times. fn may write; != 0 stops and is returned.
int outbox_events(struct outbox *o, int64_t after_seq, int max, bool pending_only, int (*fn)(void *ctx, const struct event_row *ev),
                  void *ctx, struct err *e) MUST_USE;
void outbox_event_ack(struct outbox *o, int64_t seq);                         // lazy
int outbox_event_drop(struct outbox *o, int64_t seq, struct err *e) MUST_USE; // permanently refused; counted
// Corrects the wall times of observations of that boot made while the clock was untrusted: to their boot-time plus the difference. Nothing
// to correct writes nothing.
int outbox_clock_corrected(struct outbox *o, const char *boot_id, int64_t wall_minus_boot_us, struct err *e) MUST_USE;

// events_lost: never reached the server (ring, room, failed commits), over restarts. The other three counters: since outbox_open().
struct outbox_stats {
    int64_t status_pending, events_pending, events_lost, events_dropped, status_dropped, acked;
    int64_t oldest_us; // of anything pending, 0 = nothing
};
int outbox_stats(struct outbox *o, struct outbox_stats *out, struct err *e) MUST_USE;

#endif
