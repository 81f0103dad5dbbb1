// SPDX-License-Identifier: Apache-2.0
// outbox_priv — what the files of the outbox share. Private to agent/data/outbox*.c.
#ifndef DATA_OUTBOX_PRIV_H
#define DATA_OUTBOX_PRIV_H

#include "data/outbox.h"

enum {
    EVENTS_DEFAULT = 5000,
    EVENT_RESERVE = 256 * 1024, // bytes of the store that events leave to everything else
    STATUS_RESERVE = 64 * 1024, // below this much, a status makes events go
    SHED_EVENTS = 64,           // go at a time
};

// An acknowledgement that is not in the tables yet.
struct ack {
    int64_t seq;
    bool written; // in the transaction that is open
};

struct outbox {
    struct db *db;
    struct clock *clock;
    struct db_hook hook;
    struct db_lazy lazy;
    int64_t max_events;
    enum outbox_shed shed_first;
    int64_t next_seq; // statuses and events share one sequence, so a seq names one thing
    struct ack acks[ACKS_MAX];
    size_t n_acks;
    // Of the tables and the acks together; not to be trusted after a rollback (`stale`) until counted again.
    int64_t status_pending, events_pending, events_total;
    bool stale;
    int64_t lost; // events, over restarts
    int64_t dropped, status_dropped, acked;
    int64_t gone;            // events that were counted as lost and removed in the transaction that is open
    int64_t uncommitted;     // events of the transaction that is open
    int64_t handed_out;      // events up to here were given to somebody: a repeat is a new one
    int64_t none_pending_to; // no event before this seq is pending
    char salvage[512];       // the last one whose losses were seen to: its damaged file
    bool lost_changed, shed; // shed: the disk was full, let events go with the next one
};

// outbox.c
int outbox_recount(struct outbox *o, struct err *e) MUST_USE; // when stale
bool outbox_is_acked(const struct outbox *o, int64_t seq);
void outbox_ack(struct outbox *o, int64_t seq);
int outbox_write_acks(struct outbox *o, struct err *e) MUST_USE;
void outbox_count_lost(struct outbox *o, int64_t n);
// Before a row goes: a seq that was the newest must not be given again after a restart.
int outbox_keep_seq(struct outbox *o, int64_t seq, struct err *e) MUST_USE;
int64_t outbox_boot_hash(const char *boot_id);
int outbox_query(struct outbox *o, const char *sql, int64_t *v, struct err *e) MUST_USE; // one integer

// outbox_events.c
// Lets the oldest events go until there are `bytes` of room or no events.
int outbox_make_room(struct outbox *o, int64_t bytes, struct err *e) MUST_USE;
int outbox_events_corrected(struct outbox *o, const char *boot_id, int64_t wall_minus_boot_us, struct err *e) MUST_USE;
int outbox_events_oldest(struct outbox *o, int64_t *us, struct err *e) MUST_USE; // of the pending ones; 0 = none

// outbox_status.c
int outbox_resend_all(struct outbox *o, struct err *e) MUST_USE; // the counts are stale after it
int outbox_status_corrected(struct outbox *o, const char *boot_id, int64_t wall_minus_boot_us, struct err *e) MUST_USE;
int outbox_status_oldest(struct outbox *o, int64_t *us, struct err *e) MUST_USE;

#endif
