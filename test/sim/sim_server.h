// SPDX-License-Identifier: Apache-2.0
// sim_server — a small, strict Kubernetes API server.
//
// What it knows: list (whole, paged by continue tokens over a snapshot, streamed with its end bookmark), watch (history, bookmarks,
// compaction, both forms of 410), get, create, merge patch, server-side apply on /status, resourceVersion, generation and uid, Status
// objects. What it does not: RBAC, admission, selectors, protobuf. A request that a real server would not have answered as meant (unknown
// path or parameter, wrong content type, invalid event) is a violation, so that the agent cannot get by with it.
// It is a thing of the world: it neither knows nor cares whether an agent lives.
#ifndef SIM_SERVER_H
#define SIM_SERVER_H

#include "data/json.h"
#include "sim.h"

enum { SIM_NAME_MAX = 128, SIM_TOKENS = 4, SIM_TYPES = 6 };
#define SIM_NS "edge-sim"
#define SIM_NODE "sim"

struct sim_type {
    const char *group, *version, *plural, *kind;
    bool namespaced, has_status;
};

struct sim_object {
    struct list link;
    const struct sim_type *type;
    char ns[64], name[SIM_NAME_MAX], uid[40];
    int64_t rv, generation, changed_ms; // changed: spec, by the user
    struct json *json;                  // whole
    struct json *applied;               // the status that the agent applied last; NULL = none
    char *text;                         // as it is sent
    // What was accepted of its status (sim_check.c).
    int64_t accepted_generation, accepted_seq;
    uint64_t accepted_hash;
    bool hidden; // for a while the server knows nothing of it, see sim_doubt
};

struct sim_change {
    struct list link;
    int64_t rv, at_ms;
    const char *what; // "ADDED", ...
    const struct sim_type *type;
    char ns[64];
    char *text;
};

// What an API server's watch cache keeps of one type: a ring that doubles while what would fall out is fresh, and halves when most of it is
// old. Who asks from before what it holds is told 410, whether anything was lost for him or not.
struct sim_ring {
    size_t n, capacity;
    int64_t told_from; // older resourceVersions are too old
};

// An open watch. `out` is what was not taken yet.
struct sim_stream {
    struct list link;
    struct sim_server *server;
    const struct sim_type *type;
    char ns[64];
    int64_t rv; // up to here it was told
    bool bookmarks, ended;
    bool mute; // asked from a resourceVersion of the future
    struct buf out;
    struct sim_event bookmark, end;
    void (*wake)(struct sim_stream *st); // there is more in `out`, or it ended
    void *ctx;
};

// When what the server says is no proof of anything.
enum sim_doubt {
    DOUBT_NONE,
    DOUBT_TERMINATING,   // the namespace is being deleted: its objects are, too
    DOUBT_NO_NAMESPACE,  // 404, and lists are empty
    DOUBT_FORBIDDEN,     // 403 for everything of ours
    DOUBT_UNAUTHORIZED,  // 401
    DOUBT_OTHER_CLUSTER, // another one answers at this address
    DOUBT_NO_CRD,        // the kinds are not served: "404 page not found"
    DOUBT_TRUNCATED,     // lists and streams end in the middle
    DOUBT_PORTAL,        // a page of HTML instead of everything
    DOUBT_RESTORED,      // an older database: resourceVersions went back, newer objects are not there
    DOUBTS
};
extern const char *const sim_doubt_words[DOUBTS];

struct sim_snapshot { // of a paged list
    bool used;
    int id;
    int64_t rv;
    char *texts[256];
    size_t n;
};

struct sim_server {
    struct sim *sim;
    struct sim_rng rng;
    struct list objects, history, streams;
    int64_t rv, compacted_rv;
    bool rings; // history as a watch cache keeps it, by type; else the last 400 changes of all
    struct sim_ring ring[SIM_TYPES];
    // More requests than this in a second are answered with 429; 0 = no such limit.
    int64_t max_per_s, second, in_second;
    struct sim_snapshot tokens[SIM_TOKENS];
    int n_tokens;
    bool old_server; // cannot stream the first list
    enum sim_doubt doubt;
    // Counted.
    uint64_t status_patches, writes, requests, turned_away;
    void (*accepted)(void *ctx, struct sim_object *o); // the agent's status was taken
    void *ctx;
};

struct sim_request {
    const char *method, *url, *content_type, *body;
    size_t len;
};

struct sim_answer {
    int status;
    int64_t retry_after_s;
    const char *content_type;
    struct buf body;
    bool cut;                  // it ends in the middle
    struct sim_stream *stream; // goes on; body is its beginning
};

void sim_server_init(struct sim_server *v, struct sim *s);
void sim_server_fini(struct sim_server *v);
void sim_server_answer(struct sim_server *v, const struct sim_request *r, struct sim_answer *a);
void sim_answer_fini(struct sim_answer *a);
void sim_stream_close(struct sim_stream *st);

// What users do, with kubectl. Specs are JSON text.
struct sim_object *sim_server_find(struct sim_server *v, const char *plural, const char *name);
struct sim_object *sim_server_create(struct sim_server *v, const char *plural, const char *name, const char *spec);
void sim_server_set_spec(struct sim_server *v, struct sim_object *o, const char *spec);
void sim_server_delete(struct sim_server *v, struct sim_object *o);
void sim_server_wipe_status(struct sim_server *v, struct sim_object *o); // somebody edits what is not his
void sim_server_compact(struct sim_server *v);
void sim_server_restart(struct sim_server *v);    // all connections end
void sim_server_keep_rings(struct sim_server *v); // from now on, and the caches are empty: a new process over the same database
void sim_server_doubt(struct sim_server *v, enum sim_doubt d);
#define sim_each_object(o, v)                                                                                        \
    for (struct sim_object *o = container_of((v)->objects.next, struct sim_object, link); &o->link != &(v)->objects; \
         o = container_of(o->link.next, struct sim_object, link))

// sim_store.c, for the other files of the server.
extern const struct sim_type sim_types[];
const struct sim_type *sim_type_find(const char *group, const char *version, const char *plural);
struct sim_object *sim_store_get(struct sim_server *v, const struct sim_type *t, const char *ns, const char *name);
struct sim_object *sim_store_add(struct sim_server *v, const struct sim_type *t, const char *ns, const char *name, struct json *json);
void sim_store_changed(struct sim_server *v, struct sim_object *o); // a new resourceVersion, told to watches
bool sim_store_too_old(const struct sim_server *v, const struct sim_type *t, int64_t rv);
void sim_store_renumber(struct sim_server *v, int64_t rv); // another database with the same objects, at rv

// sim_server.c
void sim_fail(struct sim_answer *a, int code, const char *reason, const char *fmt, ...) PRINTF_LIKE(4, 5);
void sim_ok(struct sim_answer *a, const char *text);
int sim_query(const char *url, const char *key, char *out, size_t max); // 1 = there

// sim_watch.c
void sim_list(struct sim_server *v, const struct sim_type *t, const char *ns, const struct sim_request *r, struct sim_answer *a);
void sim_tell_streams(struct sim_server *v, const struct sim_change *c);

// sim_patch.c
void sim_patch(struct sim_server *v, const struct sim_type *t, const char *ns, const char *name, const char *sub,
               const struct sim_request *r, struct sim_answer *a);
void sim_create(struct sim_server *v, const struct sim_type *t, const char *ns, const struct sim_request *r, struct sim_answer *a);

#endif
