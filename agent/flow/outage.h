// SPDX-License-Identifier: Apache-2.0
// outage — the times without the server, as somebody on call reads them: one event Offline and one Online for each.
//
// Offline is told once the server was out of reach for as long as a Lease lasts (of a shorter time nobody there can know), with the moment at
// which it began; Online when it is reached again. Between two Offline lie OUTAGE_GAP_MS at least, so that a link that comes and goes does not
// fill the outbox: what is not told by itself is counted, and told as one event Flapping when those minutes are over.
// That Offline was told is kept in the store, in the transaction of the event: an outage that outlasts the agent, or the boot, is still one
// pair. What is only counted ends with the agent.
//
// Decides; flow/agent_outage.c tells. Not for stopping anything: that is policy_offline.c.
#ifndef FLOW_OUTAGE_H
#define FLOW_OUTAGE_H

#include "base/clock.h"
#include "data/db.h"

enum { OUTAGE_GAP_MS = 600000, OUTAGE_FLAPS = 3, OUTAGE_NOTE_MAX = 400 }; // FLAPS: fewer short ones in those minutes are nobody's business

enum outage_link { OUTAGE_NOBODYS, OUTAGE_AWAY, OUTAGE_REACHED }; // nobody's: another agent speaks for this node

struct outage {
    struct clock *clock;
    struct db *db;
    int64_t least_ms; // an outage that is told lasts at least so long
    enum outage_link link;
    bool unread;          // what the store says is not known
    bool told;            // Offline was, and Online was not
    struct instant since; // when it began
    int64_t told_ms;      // monotonic: when Offline was told last; 0 = not by this agent
    bool was_reached;     // before it began: a start is nobody's outage, unless it lasts
    // Those that were over before they were told, since the first of them:
    int64_t window_ms; // monotonic; 0 = none
    int untold, untold_long;
    int64_t untold_ms;
};

struct outage_news {
    const char *reason; // "Offline", "Online", "Flapping"
    char id[64];        // of the event
    struct instant at;
    char note[OUTAGE_NOTE_MAX];
};

// At the start, and after a commit that failed: what the store says was told. While it cannot be read nothing is told; outage_news() asks it
// again.
void outage_recall(struct outage *o);
void outage_link(struct outage *o, enum outage_link link);
// Is there something to tell now? `why`: what stands between us and the server.
bool outage_news(struct outage *o, const char *why, struct outage_news *out);
// It was told: takes note, also in the store.
int outage_told(struct outage *o, const struct outage_news *n, struct err *e) MUST_USE;
int64_t outage_next_ms(const struct outage *o); // monotonic, when there may be news by itself; INT64_MAX = when the link changes

#endif
