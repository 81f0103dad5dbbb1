// SPDX-License-Identifier: Apache-2.0
// sim_server — a small, strict Kubernetes API server.
//
// What it knows: list (whole, paged by continue tokens over a snapshot, streamed with its end bookmark), watch (history, bookmarks,
// compaction, both forms of 410), selectors, get, create, delete, merge patch, server-side apply on /status, resourceVersion, generation and
// uid, Status objects, CustomResourceDefinitions with their schema, namespaces, Leases, Events. What it does not: RBAC, admission webhooks,
// CEL rules, protobuf, PUT, apply outside of /status. test/conformance plays the same requests to it and to a real one.
// In the simulator it is strict: a request that no correct agent sends (unknown path or parameter, an answer of 400, 405, 415 or 422) is a
// violation, so that the agent cannot get by with it.
// It is a thing of the world: it neither knows nor cares whether an agent lives.
#ifndef SIM_SERVER_H
#define SIM_SERVER_H

#include "data/json.h"
#include "sim.h"
#include "sim_schema.h"

enum { SIM_NAME_MAX = 128, SIM_TOKENS = 4 };
#define SIM_NS "edge-sim"
#define SIM_SHARED_NS "edge-system"
#define SIM_NODE "sim"

// What an API server's watch cache keeps of one type: a ring that doubles while what would fall out is fresh, and halves when most of it is
// old. Who asks from before what it holds is told 410, whether anything was lost for him or not.
struct sim_ring {
    size_t n, capacity;
    int64_t told_from; // older resourceVersions are too old
};

struct sim_type {
    struct list link;
    char *group, *version, *plural, *kind;
    bool namespaced, has_status, served; // not served: its CRD is gone
    struct sim_schema *schema;           // NULL = built in
    int64_t oldest_rv;                   // what this kind can tell begins here
    struct sim_ring ring;
    int64_t ready_ms; // until then its storage is being made anew: lists and watches are 429
};

struct sim_object {
    struct list link;
    const struct sim_type *type;
    char ns[64], name[SIM_NAME_MAX], uid[40];
    int64_t rv, generation, changed_ms; // changed: spec, by the user
    struct json *json;                  // whole, as it is read
    struct json *stored;                // as it was written, where another schema reads it now; NULL = the same
    struct json *applied;               // the status that the agent applied last; NULL = none
    struct json *managers;              // who set what in the status (sim_server_apply.c)
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
    char *text, *before; // before: as it was, NULL = it was not there
};

// An open watch. `out` is what was not taken yet.
struct sim_stream {
    struct list link;
    struct sim_server *server;
    const struct sim_type *type;
    struct sim_schema *schema; // with which it was opened; of another one it knows nothing
    char ns[64];               // "" = all
    char labels[200], fields[200];
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
    DOUBT_NAMESAKE,      // another one, and it has a namespace of our name with nothing in it
    DOUBT_NO_CRD,        // the kinds are not served: "404 page not found"
    DOUBT_TRUNCATED,     // lists and streams end in the middle
    DOUBT_PORTAL,        // a page of HTML instead of everything
    DOUBT_RESTORED,      // an older database: resourceVersions went back, newer objects are not there
    DOUBTS
};
extern const char *const sim_doubt_words[DOUBTS];

struct sim_snapshot { // of a paged list
    int id;           // 0 = none
    int64_t rv;
    char **texts, **names;
    size_t n;
};

struct sim_server {
    struct sim *sim;
    struct sim_rng rng;
    struct list types, objects, history, streams;
    int64_t rv, compacted_rv;
    bool rings; // history as a watch cache keeps it, by type; else the last 400 changes of all
    // More requests than this in a second are answered with 429; 0 = no such limit.
    int64_t max_per_s, second, in_second;
    struct sim_snapshot tokens[SIM_TOKENS];
    int n_tokens;
    bool old_server;       // cannot stream the first list
    bool strict;           // what no correct agent asks for is a violation
    int http_410_percent;  // of "too old" that come as HTTP 410 instead of an ERROR event
    int64_t dead_token_ms; // from then on 401; the account is gone a little longer. INT64_MAX = never
    enum sim_doubt doubt;
    struct sim_meta *meta; // NULL = the agent speaks with the server itself
    // Counted.
    uint64_t status_patches, writes, requests, turned_away;
    void (*accepted)(void *ctx, struct sim_object *o); // the agent's status was taken
    void *ctx;
};

struct sim_request {
    const char *method, *url, *content_type, *body;
    size_t len;
    const char *accept; // NULL = JSON
};

struct sim_answer {
    int status;
    int64_t retry_after_s;
    const char *content_type;
    struct buf body;
    bool cut;                  // it ends in the middle
    int64_t delay_ms;          // it takes so long
    struct sim_stream *stream; // goes on; body is its beginning
};

// "/apis/GROUP/VERSION/[namespaces/NS/]PLURAL[/NAME[/SUB]]" or "/api/v1/..."
struct sim_place {
    char part[9][SIM_NAME_MAX];
    size_t n;
    struct sim_type *type;
    const char *ns, *name, *sub; // NULL = not named
};

void sim_server_init(struct sim_server *v, struct sim *s);
void sim_server_fini(struct sim_server *v);
void sim_server_answer(struct sim_server *v, const struct sim_request *r, struct sim_answer *a);
void sim_cloud_answer(struct sim_server *v, const struct sim_request *r, struct sim_answer *a); // past a MetaServer
void sim_answer_fini(struct sim_answer *a);
void sim_stream_close(struct sim_stream *st);

// What users do, with kubectl. Specs are JSON text.
struct sim_object *sim_server_find(struct sim_server *v, const char *plural, const char *name);
struct sim_object *sim_server_create(struct sim_server *v, const char *plural, const char *name, const char *spec);
struct sim_object *sim_server_create_in(struct sim_server *v, const char *ns, const char *plural, const char *name, const char *spec);
void sim_server_share(struct sim_server *v); // edge-system is there from now on
void sim_server_set_spec(struct sim_server *v, struct sim_object *o, const char *spec);
void sim_server_delete(struct sim_server *v, struct sim_object *o);
void sim_server_wipe_status(struct sim_server *v, struct sim_object *o); // somebody edits what is not his
void sim_server_compact(struct sim_server *v);
void sim_server_restart(struct sim_server *v);    // all connections end, and what watches could be told of the past is forgotten
void sim_server_keep_rings(struct sim_server *v); // from now on, and the caches are empty: a new process over the same database
// A CRD is installed or changed: its text as JSON. What is stored is read with the new schema from then on; lists and watches are 429 for a
// second, and the watches that are open go on for a while with the old schema, then end.
void sim_server_install(struct sim_server *v, const struct json *crd);
void sim_server_remove_kind(struct sim_server *v, const char *plural); // its CRD is deleted, and with it every object
void sim_server_delete_account(struct sim_server *v);                  // its token works for another 8 to 10 s
void sim_server_doubt(struct sim_server *v, enum sim_doubt d);
#define sim_each_object(o, v)                                                                                        \
    for (struct sim_object *o = container_of((v)->objects.next, struct sim_object, link); &o->link != &(v)->objects; \
         o = container_of(o->link.next, struct sim_object, link))

// sim_store.c, for the other files of the server.
struct sim_type *sim_type_find(struct sim_server *v, const char *group, const char *version, const char *plural);
struct sim_object *sim_store_get(struct sim_server *v, const struct sim_type *t, const char *ns, const char *name);
// `json` becomes the store's, with metadata filled in.
struct sim_object *sim_store_add(struct sim_server *v, const struct sim_type *t, const char *ns, const char *name, struct json *json);
void sim_store_changed(struct sim_server *v, struct sim_object *o);   // a new resourceVersion, told to watches
void sim_store_remove(struct sim_server *v, struct sim_object *o);    // DELETED
void sim_store_renumber(struct sim_server *v, int64_t rv);            // another database with the same objects, at rv
void sim_store_reread(struct sim_server *v, struct sim_object *o);    // its kind has another schema
void sim_store_forget_past(struct sim_server *v, struct sim_type *t); // watches of it from before now are too old
bool sim_store_too_old(const struct sim_server *v, const struct sim_type *t, int64_t rv);

// sim_server.c
void sim_fail(struct sim_answer *a, int code, const char *reason, const char *fmt, ...) PRINTF_LIKE(4, 5);
void sim_fail_later(struct sim_answer *a, int code, const char *reason, struct json *causes, const char *fmt, ...) PRINTF_LIKE(5, 6);
void sim_fail_object(struct sim_answer *a, int code, const char *reason, const struct sim_type *t, const char *name);
void sim_fail_invalid(struct sim_answer *a, const char *group, const char *kind, const char *name, struct json *causes); // takes causes
void sim_ok(struct sim_answer *a, const char *text);
void sim_fail_forbidden(struct sim_answer *a, const struct sim_type *t, const char *name, const char *ns); // that namespace is going
void sim_fail_conflicts(struct sim_answer *a, struct json *causes);                                        // takes causes
void sim_page_not_found(struct sim_answer *a);
void sim_no_such_resource(struct sim_answer *a, const struct sim_type *t, const char *name);
bool sim_find_place(struct sim_server *v, const char *url, struct sim_place *p);
int sim_query(const char *url, const char *key, char *out, size_t max); // 1 = there
void sim_resource_name(const struct sim_type *t, char out[200]);        // "edgeapps.edge.limpet.dev"

// sim_server_doubt.c
bool sim_answer_in_doubt(struct sim_server *v, const struct sim_request *r, const struct sim_place *p, struct sim_answer *a);

// sim_watch.c
void sim_list(struct sim_server *v, const struct sim_type *t, const char *ns, const struct sim_request *r, struct sim_answer *a);
void sim_tell_streams(struct sim_server *v, const struct sim_change *c);
void sim_stream_end_in(struct sim_stream *st, int64_t ms);
void sim_snapshot_fini(struct sim_snapshot *s);

// sim_server_select.c
// False: answered with a 400.
bool sim_selectors_are_valid(const struct sim_type *t, const char *labels, const char *fields, struct sim_answer *a);
bool sim_selected(const char *labels, const char *fields, const struct json *object);

// sim_patch.c
void sim_patch(struct sim_server *v, const struct sim_type *t, const char *ns, const char *name, const char *sub,
               const struct sim_request *r, struct sim_answer *a);

// sim_server_apply.c
// An object with nothing but the new status, `applied` in it; notes who set what. NULL: answered with a conflict.
struct json *sim_apply_status(struct sim_object *o, const char *manager, bool force, const struct json *applied, struct sim_answer *a);
void sim_note_update(struct sim_object *o, const char *manager, const struct json *before, const struct json *after);

// sim_server_create.c
void sim_create(struct sim_server *v, const struct sim_type *t, const char *ns, const struct sim_request *r, struct sim_answer *a);
void sim_delete(struct sim_server *v, const struct sim_type *t, const char *ns, const char *name, struct sim_answer *a);
void sim_keep_known(const struct sim_type *t, struct json *object);    // what the kind does not know is dropped, defaults are filled in
void sim_complete_namespace(struct json *namespace, const char *name); // what the server adds
struct json *sim_check_lease(const struct json *lease);                // causes, NULL = valid

#endif
