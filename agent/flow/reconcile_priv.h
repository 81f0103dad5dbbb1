// SPDX-License-Identifier: Apache-2.0
// reconcile_priv — what the files of the engine share: reconcile.c (states, queue, the turn), reconcile_pass.c (one pass), reconcile_boot.c
// (which keys there are), reconcile_report.c (events, and what the server says of our status). Not for anybody else.
#ifndef FLOW_RECONCILE_PRIV_H
#define FLOW_RECONCILE_PRIV_H

#include "base/table.h"
#include "flow/reconcile.h"

enum { KINDS_MAX = 64 };
#define TOMBSTONE "gone" // intent: the object is proven gone and its stop is still owed

struct kind_run {
    const struct kind *kind;
    struct kind_stats stats;
};

struct engine {
    struct kind_env *env;
    struct registry *registry;
    struct engine_conf conf;
    struct workq *q;
    struct table states;
    struct list resumed;         // object_state.turn: what their pass waited for has ended
    struct list awaiting_commit; // object_state.turn: next pass after this turn's commit
    struct timer due;
    struct kind_run kinds[KINDS_MAX];
    size_t n_kinds;
    struct engine_stats stats;
};

struct object_state {
    struct table_node node;
    struct engine *engine;
    const struct kind *kind;
    struct list turn;
    struct timer deadline;
    bool waiting, awaits_commit;
    bool local; // a file defines it: its status and events are for nobody but this machine
    uint64_t pass_id;
    int64_t began_us; // of the pass
    char why[WORKQ_WHY_MAX];
    char uid[OBJ_UID_MAX];
    int64_t generation;
    char key[KEY_MAX];
    _Alignas(max_align_t) unsigned char data[];
};

// reconcile.c
struct kind_run *engine_run_of(struct engine *g, const struct kind *k); // NULL: more than KINDS_MAX kinds
void engine_queue(struct engine *g, const char *key, int64_t delay_ms, enum workq_prio prio, const char *why);
void state_stop_waiting(struct object_state *os);          // its pass is no longer open
void state_count(struct object_state *os, size_t counter); // its pass is over; counter: offset in struct kind_stats
void state_free(struct object_state *os);

// reconcile_gate.c
enum gate_verdict {
    GATE_GO,     // make the object true as it is
    GATE_COMMIT, // let through just now: act when that is durable
    GATE_WAIT,   // make `object` true instead, the one that was let through last
};
struct gate {
    enum gate_verdict verdict;
    struct json *object; // GATE_WAIT
    int64_t generation;  // of it
    char why[256];       // until when
};
// p has the newest object, `row` its text. Writes what is let through.
int gate_decide(struct engine *g, const struct pass *p, const char *row, struct gate *out, struct err *e) MUST_USE;
void gate_fini(struct gate *x);

// reconcile_twin.c: the server's object of the key, which a file hides. `source`: of the file's row.
int twin_report(struct engine *g, const struct object_state *os, const char *source, struct err *e) MUST_USE;
int twin_forget(struct engine *g, const char *key, struct err *e) MUST_USE;

// reconcile_pass.c
void pass_run(struct engine *g, struct object_state *os);
void pass_on_deadline(struct timer *t); // of object_state.deadline

#endif
