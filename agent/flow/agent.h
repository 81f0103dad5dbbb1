// SPDX-License-Identifier: Apache-2.0
// agent — the wiring of one agent from its seams; main.c gives the real ones, the simulator and tests give theirs.
//
// Order of a turn (hooks): commit -> passes -> commit -> send. Boot with and without a network is the same code path: the
// engine starts from the cache, sync is one more source of changes.
#ifndef FLOW_AGENT_H
#define FLOW_AGENT_H

#include "config/config.h"
#include "flow/contact.h"
#include "flow/egress.h"
#include "flow/lease.h"
#include "flow/manifests.h"
#include "flow/outage.h"
#include "flow/policy.h"
#include "flow/reconcile.h"
#include "flow/refs.h"
#include "flow/sync.h"
#include "kinds/edgenode.h"
#include "wire/cred.h"

#define AGENT_JOINED "joined" // in the state directory: `limpet join` was here, the agent takes note and removes it

struct agent_seams {
    struct loop *loop;
    struct clock *clock;
    struct disk *disk;
    struct port *port;
    struct transport *transport; // NULL = never enrolled: the agent runs from its cache alone
};

// What is told of the credential in use.
struct agent_credential {
    int64_t expires_s;             // seconds since 1970, 0 = not known
    bool joined;                   // `limpet join` brought it
    const char *server;            // its URL, NULL = not known
    const char *user;              // whose client certificate is wanted, NULL = none
    bool certified;                // such a certificate is in use
    char reason[32], message[400]; // of what is under way for it, "" = nothing
    uint64_t renewals;             // since the start
};

struct agent {
    struct agent_seams seams;
    const struct config *config; // what is in force: policies are in it
    struct policy *policy;
    struct db *db;
    struct cache *cache;
    struct outbox *outbox;
    struct registry *registry;
    struct refs *refs;
    struct engine *engine;
    struct sync *sync;
    struct manifests *manifests; // NULL: no directory is set
    bool manifests_told;         // the condition is there
    struct lease *lease;
    struct egress *egress;
    struct contact *contact;
    struct kube kube;
    struct kind_env env;
    struct node_facts facts;
    struct loop_hook commit_in, work, commit_out, send;
    struct timer housekeeping, store_retry, outage_timer;
    struct outage outage;
    char node[254], ns[64], holder[40];
    void (*unauthorized)(void *ctx); // main.c: read the credentials again
    void (*link_changed)(void *ctx, enum link_state s, const char *why);
    void (*credential)(void *ctx, struct agent_credential *out);
    void (*restart)(void *ctx);
    void *ctx;
    bool expiry_told; // in the log
    bool is_holder, is_online, clock_was_trusted, clock_was_told;
    bool store_away;        // see agent_store.h
    int64_t wall_offset_us; // wall minus monotonic clock when last looked at
    char other_holder[64];
    uint64_t commit_failures;
    struct histo commit_time;
};

struct agent_conf {
    const struct config *config;
    const char *node, *ns;
    const char *cluster; // as in struct sync_conf; read in agent_start() alone
    void (*unauthorized)(void *ctx);
    void (*link_changed)(void *ctx, enum link_state s, const char *why); // may be NULL
    void (*credential)(void *ctx, struct agent_credential *out);         // may be NULL
    void (*restart)(void *ctx); // main.c: end this agent in good order and begin a new one; may be NULL
    void *ctx;
};
int agent_new(struct agent **out, const struct agent_seams *seams, const struct agent_conf *c, struct err *e) MUST_USE;
int agent_start(struct agent *a, struct err *e) MUST_USE; // boot from the cache, then follow the server
void agent_stop(struct agent *a);                         // orderly: cancels, commits, closes the store; workloads stay
void agent_refresh_facts(struct agent *a);                // hands the EdgeNode conditions what is known (agent_facts.c)

// agent_refs.c
int agent_refs_new(struct agent *a, struct err *e) MUST_USE;
void agent_refs_run(struct agent *a); // after the passes of a turn
int agent_refs_reduce(void *ctx, const char *key, const char *json, size_t len, struct buf *out, struct err *e) MUST_USE;
void agent_refs_known(void *ctx, const struct kind *k, const struct err *e);

// What the server does not take any more, because it ended at *since_s: by the clock, unless the server itself shows the contrary.
bool agent_expired(struct agent *a, int64_t *since_s);
// How the owner gives the node a new credential, in one line.
enum { AGENT_REMEDY_MAX = 640 };
const char *agent_rejoin(struct agent *a, char out[AGENT_REMEDY_MAX]);

// agent_policy.c
int agent_policy_new(struct agent *a, struct err *e) MUST_USE;
void agent_policy_heard(struct agent *a, const char *key); // an object is new or changed: the labels of our EdgeNode, perhaps
void agent_policy_link(struct agent *a, enum link_state s);
void agent_policy_minute(struct agent *a);

// agent_outage.c
void agent_outage_init(struct agent *a);
void agent_outage_link(struct agent *a, enum link_state s);
void agent_outage_start(struct agent *a);
void agent_outage_look(struct agent *a); // tells what there is to tell

void agent_abandon(struct agent *a); // as kill -9 would (simulator): nothing is flushed
#endif
