// SPDX-License-Identifier: Apache-2.0
// sync_priv — what the four files of sync share: sync.c (the link), sync_check.c (is it the cluster we know?), sync_source.c (one
// source), sync_guard.c (what counts as deleted). Not for anybody else.
#ifndef FLOW_SYNC_PRIV_H
#define FLOW_SYNC_PRIV_H

#include "base/table.h"
#include "data/object.h"
#include "flow/sync.h"

enum source_state {
    SRC_IDLE,    // the link is not up
    SRC_LIST,    // first list or relist under way
    SRC_FOLLOW,  // a watch or delta poll is open
    SRC_PAUSE,   // poll and list mode: until the next turn; after a long outage: until its list is due
    SRC_BACKOFF, // this source alone failed (403, CRD missing, 429, 5xx)
};

enum how { HOW_STREAM, HOW_PAGES, HOW_WATCH, HOW_POLL };

struct source {
    struct list link;
    struct sync *sync;
    const struct kind *kind;
    char ns[64];           // "" = cluster-wide
    bool shared;           // not our own namespace: read only
    bool unwanted;         // referred: nobody does at present
    bool again;            // referred: what is wanted changed while a list was under way
    bool unseen_ns;        // shared: which namespace of that name it is was never noted
    int64_t other_hold_ms; // shared: the namespace was made again, and until then its deletes wait; 0 = no
    char name[SOURCE_MAX];
    char meta[SOURCE_MAX]; // store name of the resourceVersion
    enum source_state state;
    enum how how;
    char rv[OBJ_RV_MAX]; // "" = none: the next contact lists
    int64_t opened_ms;   // when the stream under way was asked for
    int64_t asked_ms;    // the life it was asked for
    int64_t rv_at_ms;    // when the server last confirmed it
    int64_t list_at_ms;  // after a long outage it does not list before; 0 = no moment was drawn since it was current
    struct kube_call call;
    struct timer timer;
    struct timer proof; // set: what was heard is in doubt, and a list is due (source_doubt())
    const char *proof_why;
    struct line_splitter lines;
    struct list_splitter items;
    char *continue_token;
    bool marking;      // between mark_begin and the end of a complete list
    bool current;      // equals the server as of the last contact
    bool expired_once; // 410 answered by a relist that was 410 again: back off
    bool no_stream;    // the server cannot stream the first list
    int64_t proven_ms; // when the last list made for such a doubt began
    size_t seen;       // items of the list under way
    unsigned failures; // own backoff
    struct err last;   // why it is not current
    // Deletes that wait for proof (sync_guard.c).
    struct table pending;
    bool unnamed; // an object over the bound did not say its name: nothing is swept by this list
    bool held;    // deletes of the last list are held back: it is listed again after the hold
    bool unswept; // a complete list was applied except for what is pending
};

enum link_phase { PHASE_DOWN, PHASE_CHECK, PHASE_UP };

struct sync {
    struct loop *loop;
    struct kube *kube;
    struct db *db;
    struct cache *cache;
    struct registry *registry;
    struct sync_conf conf;
    char ns[64], node[OBJ_NAME_MAX], ca[80];
    struct list sources;
    // The link.
    enum link_phase phase;
    enum link_state reported;
    bool reported_once, standby, lost;
    bool joined;   // anew, and the check has not been through since
    bool unproven; // MetaServer: it did not show our namespace when it was last asked
    char why[ERR_MSG_MAX];
    struct timer retry;
    struct kube_call check;
    int check_step;
    bool answered;            // in this attempt to come up
    unsigned again;           // requests of this attempt that broke and were asked again
    char rows_rv[OBJ_RV_MAX]; // newest of the cached objects at boot, until the server's was compared with it; "" = none
    bool awaits_admission;
    int64_t down_since_ms, backoff_ms;
    int64_t kicked_ms;  // when our own link came up, or somebody asked
    int64_t contact_ms; // the first answer since there was none, be it that we are turned away; 0 = there is none
    int64_t spread_ms;  // sources that have to list draw a moment within it; 0 = at once
    unsigned tries, short_watches, lost_checks;
    unsigned store_failures;       // in a row: what was heard could not be stored
    int64_t store_failed_ms;       // the first of them
    int64_t unauthorized_since_ms; // the check meets nothing but 401; 0 = no
    bool poll_instead;             // auto mode: watches keep breaking
    // The guard.
    struct kube_call verify;
    bool verifying;
    int64_t doubt_again_ms;    // no doubt is looked into before
    struct source *confirming; // whose namespace, or whose key, is asked for; NULL = our namespace
    char confirm_key[KEY_MAX]; // "" = it is a namespace
    struct timer hold_end;
    int64_t hold_until_ms; // deletes wait: a database was restored; 0 = no
    bool accept;           // limpet resync --accept: the next sweep may delete
    char held[256];
    struct sync_stats stats;
};

// sync.c
void sync_link_down(struct sync *s, const struct err *e); // the server cannot be reached: every source stops, the link backs off
void sync_identity_lost(struct sync *s, const char *fmt, ...) PRINTF_LIKE(2, 3);
void sync_settled(struct sync *s); // a source became current or failed alone: is the link online?
enum sync_mode sync_mode_now(const struct sync *s);
void sync_contact(struct sync *s); // the server answered
bool sync_is_link_error(int cls);
bool sync_asks_again(struct sync *s, const struct err *e); // counts: a request that broke is worth another one, after sync_again_ms()
int64_t sync_again_ms(struct sync *s);
void sync_watch_ended(struct sync *s, int64_t lived_ms);
void sync_retry_in(struct sync *s, int64_t ms); // the next try to come up; within one, the next question
void sync_go_up(struct sync *s);                // the check is through

// sync_check.c: ends in sync_go_up(), sync_link_down() or sync_identity_lost().
int check_init(struct sync *s, struct err *e) MUST_USE; // at boot: reads what the server's answers are compared with
void check_begin(struct sync *s);
void check_go_on(struct sync *s);  // asks the question of this step again
void check_forget(struct sync *s); // the cluster and the namespace that answer next are ours
int sync_get_namespace(struct sync *s, const char *ns, struct kube_call *c, struct err *e) MUST_USE; // starts the question
// The one verdict on the own namespace, from the answer. `after` goes before what is said: what made us ask.
enum ns_verdict {
    NS_OURS,
    NS_UNPROVEN, // MetaServer: nothing says that it is there, and nothing that it is not
    NS_LOST,     // the link is down or the identity lost, and that is said already
};
enum ns_verdict sync_namespace_verdict(struct sync *s, const struct kube_call *c, const struct err *e, const char *after);
// Of a namespace that is not ours: 0 = it is there and the one we know; E_CONFLICT = another one of that name; else why it proves nothing.
int sync_shared_namespace(struct sync *s, const char *ns, const struct kube_call *c, const struct err *e, struct err *why);
int sync_shared_accept(struct sync *s, const char *ns, const struct kube_call *c, struct err *e) MUST_USE; // that is the one from now on

// sync_source.c
int source_add(struct sync *s, const struct kind *k, const char *ns, struct err *e) MUST_USE;
void source_free(struct source *src);
void source_known(struct source *src, const struct err *e); // referred: tells what is known of the kind
void source_start(struct source *src);                      // the link is up: list, or go on from the resourceVersion
void source_stop(struct source *src);                       // the link is down: nothing is lost, nothing current
void source_relist(struct source *src);
void source_refresh(struct source *src); // lists once more, soon: after the list that is under way
void source_doubt(
    struct source *src,
    const char *
        why); // it lists in a few seconds, at most each five minutes; why: static                        // forget the resourceVersion and list
void source_retune(struct source *src);                        // the mode or the interval is another
void source_unproven(struct source *src, const struct err *e); // what was heard cannot be believed: backs off, then lists again
void source_settle_rv(struct source *src);
int source_pin_rv(struct source *src, struct err *e) MUST_USE; // in the transaction that takes a row: where the next start begins
extern const char *const source_state_words[];

// sync_guard.c
void guard_init(struct sync *s);
void guard_fini(struct sync *s);
int guard_deleted(struct source *src, const char *key, struct err *e) MUST_USE; // a DELETED event
void guard_exists(struct source *src, const char *key);                         // it is there after all
int guard_sweep(struct source *src, struct err *e) MUST_USE;                    // the list is complete: what was not in it?
void guard_listed(struct source *src);                                          // it is current after a list
void guard_drop(struct source *src);                                            // forget pending deletes; the caller relists
void guard_restored(struct sync *s, const char *have, const char *got);         // the resourceVersion went backwards
void guard_hold(struct sync *s, const char *fmt, ...) PRINTF_LIKE(2, 3);        // deletes wait, and why

#endif
