// SPDX-License-Identifier: Apache-2.0
// kind — the contract of a kind: how one resource type is made true on this machine.
//
// A kind is data plus four functions. Built-in kinds are constants; others may be registered while the agent runs (kinds/registry.h), with
// `ctx` as their own data, so nothing here may assume a static set.
//
// A pass works on one key. It reads the cached spec, observes the machine, plans a pure difference, takes a step, writes conditions. It
// must be able to run again at any time and then do nothing. It never blocks. What takes time (a command) is started with
// pass_wait(): the engine holds the key's pass open (others of the kind may wait for the concurrency limit) until
// pass_resume() or its deadline, which calls cancel().
// What reconcile() returns decides by the one table in flow/action.c; an error becomes the Ready condition unless the kind wrote one.
#ifndef KINDS_KIND_H
#define KINDS_KIND_H

#include "base/buf.h"
#include "base/fsio.h"
#include "data/cache.h"
#include "data/json.h"
#include "data/outbox.h"
#include "port/port.h"
#include "wire/kube.h"

struct status; // flow/status.h
struct node_facts;
struct engine;
struct config;
struct policy;
struct refs;
struct contact;

// What kinds may touch. One per agent; outlives every kind.
struct kind_env {
    struct loop *loop;
    struct clock *clock;
    struct disk *disk;
    struct port *port;
    struct db *db;
    struct cache *cache;
    struct outbox *outbox;
    struct engine *engine;
    const struct config *config; // the effective one: policies are in it
    struct policy *policy;       // flow/policy.h; NULL = none (tests of one kind)
    struct refs *refs;           // flow/refs.h; NULL = nothing is known of Secrets and ConfigMaps (tests of one kind)
    struct contact *contact;     // flow/contact.h; NULL = no server that could be asked
    struct node_facts *facts;    // kinds/edgenode.h: what other modules know about this node; NULL = nobody asks
    const char *node;            // our name
    const char *ns;              // our namespace, "" when not enrolled
};

struct kind;
struct object_state; // the engine's per-object block; the kind's state follows it

struct pass {
    struct kind_env *env;
    const struct kind *kind;
    const char *key, *ns, *name, *uid;
    int64_t generation;
    const struct json *object; // whole object without status; NULL in gone()
    const struct json *spec;   // its spec; NULL in gone()
    void *state;               // kind->state_size bytes, zeroed at first, kept until the object is gone and stopped
    struct arena *arena;       // this pass's memory
    struct status *status;     // to be filled in (flow/status.h); NULL in gone()
    const char *why;           // "change", "resync", "drift", "instance", "timer": for logs
    struct object_state *os;
    // Set by the kind:
    int64_t requeue_ms;  // > 0: again after that; 0: the engine's long requeue (5 min)
    bool waiting;        // set by pass_wait()
    bool after_commit;   // set by pass_after_commit()
    int64_t deadline_ms; // allowed for this pass while waiting; 0 = 5 s
};

struct kind {
    struct kube_type type;          // {"edge.limpet.dev","v1alpha1","edgeapps"}
    const char *name;               // "EdgeApp"
    const char *const *short_names; // NULL-terminated, for the command line; may be NULL
    const char *const *conditions;  // NULL-terminated: the condition types this kind owns
    size_t state_size;
    int max_concurrent; // 0 = 1
    bool write_status;  // we may write /status
    bool cluster_scoped;
    bool follows_clock; // its objects are looked at when the wall clock is set, or becomes trusted
    // Others refer to its objects, and it is followed only while they do (flow/refs.h): rows hold what is referred to, and stay when their
    // object goes. Such a kind is not in the registry, and no pass is made for it.
    bool referred;
    // Followed in this namespace, too, which all nodes share: read only, neither a status nor an event is written there. NULL = none.
    const char *shared_ns;
    void *ctx;

    // Pure: can the spec be understood? E_INVAL with "spec.replicas: ..." -> Accepted=False, nothing is changed on the machine.
    int (*check)(const struct kind *k, const struct kind_env *env, const struct json *object, struct err *e);
    // The same for the objects of files, where the pass judges the spec by itself and check() is NULL (EdgePolicy: the last good one stays in
    // force). NULL = check().
    int (*check_file)(const struct kind *k, const struct kind_env *env, const struct json *object, struct err *e);
    int (*reconcile)(struct pass *p, struct err *e);
    // check() said no, so reconcile() is not called, and status says so already: what is under way and cannot wait for a better spec goes on.
    // NULL = nothing is. p->spec is the one that was refused.
    int (*refused)(struct pass *p, struct err *e);
    // Pure: would making `next` true instead of `now` (both whole objects that passed check) disturb what runs? Then it waits for a
    // maintenance window where policies have any, and `now` is kept true meanwhile. NULL = never.
    bool (*disturbs)(const struct kind *k, const struct kind_env *env, const struct json *now, const struct json *next);
    // The object is gone (proven): an ordered local stop. 0 = finished, state is freed; E_BUSY = still stopping, called again at
    // requeue_ms or on a change. Also called at boot for state that was left behind by an object that went away (intents).
    int (*gone)(struct pass *p, struct err *e);
    // The deadline passed or the object changed hands: stop what pass_wait() was waiting for. May be NULL.
    void (*cancel)(struct pass *p);
    // The agent ends (not the object): free what state points to; leave the machine alone. May be NULL.
    void (*fini)(const struct kind_env *env, void *state);
    // Start of the agent, once, before the first pass: subscribe, look for leftovers. May be NULL.
    int (*boot)(const struct kind *k, struct kind_env *env, struct err *e);
    // `limpet get -o diff`: what a pass would change, as an array of {path, field, want, have}. May be NULL.
    int (*differences)(struct pass *p, struct json *out, struct err *e);
};

// Holds the pass open. Returns 0, so that `return pass_wait(p, ms);` reads well.
int pass_wait(struct pass *p, int64_t deadline_ms);

// Durable intent first: what this pass wrote to the store (intent_put...) is committed, then the key's next pass runs at once, in a
// later turn. When the commit fails the next pass simply does not find the intent. Kinds never commit by themselves.
// Returns 0, so that `return pass_after_commit(p);` reads well.
int pass_after_commit(struct pass *p);

// Engine services for kinds (flow/reconcile.c).
void engine_resume(struct engine *g, struct object_state *os);         // what the pass waited for has ended
void engine_touch(struct engine *g, const char *key, const char *why); // look at key soon (high priority)
void engine_touch_state(struct engine *g, struct object_state *os, const char *why);
struct object_state *engine_state_of(struct engine *g, const char *key); // NULL = none
const char *object_state_key(const struct object_state *os);
struct object_state *object_state_from_data(void *state);
// An event about the object of this pass; note is printf-like. Errors are counted, never returned.
void pass_event(struct pass *p, bool warning, const char *reason, const char *action, const char *fmt, ...) PRINTF_LIKE(5, 6);
// One of a thing with a name: `id` makes the Event's name the same however often it is told, `at` is when it happened (NULL = now).
void pass_event_of(struct pass *p, const char *id, const struct instant *at, bool warning, const char *reason, const char *action,
                   const char *fmt, ...) PRINTF_LIKE(7, 8);
void engine_event(struct engine *g, struct object_state *os, bool warning, const char *reason, const char *action, const char *fmt, ...)
    PRINTF_LIKE(6, 7);
void engine_event_of(struct engine *g, struct object_state *os, const char *id, const struct instant *at, bool warning, const char *reason,
                     const char *action, const char *fmt, ...) PRINTF_LIKE(8, 9);

#endif
