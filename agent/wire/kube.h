// SPDX-License-Identifier: Apache-2.0
// kube — the Kubernetes REST verbs as asynchronous calls, and their answers as error classes.
//
// A call is an intrusive node that embeds the HTTP request and a bounded answer buffer. on_done gets NULL on a 2xx, else an error
// whose class follows from HTTP status and Status.reason: 400/422 E_INVAL, 401 E_AUTH, 403 E_FORBIDDEN, 404 E_NOTFOUND,
// 409 AlreadyExists E_EXISTS, else E_CONFLICT, 410 E_GONE, 413 E_TOOBIG, 415/405/406 E_UNSUP, 429/503/504 E_BUSY (with retry_after_ms), 500 "field not
// declared in schema" E_INVAL, other 5xx E_SERVER. A body that is not JSON where JSON must come (a captive portal's HTML with status 200)
// is E_OFFLINE, and so is any redirect. The message carries Status.message (bounded).
// 404 is E_NOTFOUND, so a proof of absence, only when it comes with a Status; the plain text "404 page not found" with which API servers
// answer for a type they do not serve (a CRD that is not installed) is E_UNSUP. HTML with any 4xx but 401 and 413 is E_OFFLINE.
// Verified Date headers are handed to the clock.
// Not here: retries, backoff, caching, resource knowledge beyond paths.
#ifndef WIRE_KUBE_H
#define WIRE_KUBE_H

#include "wire/http.h"

enum {
    KUBE_ANSWER_MAX = 4 * 1024 * 1024,
    KUBE_LINE_MAX = 2 * 1024 * 1024 + 65536,
    KUBE_FAILURE_MAX = 64 * 1024, // of the body of an answer that is no success
    KUBE_TIMEOUT_MS = 30000,
};

// A resource type: "edge.limpet.dev", "v1alpha1", "edgeapps". group "" = core.
struct kube_type {
    const char *group, *version, *plural;
};

// Exchanges by method and status; 0 = none came.
struct kube_count {
    char method[8];
    int status;
    uint64_t n;
};
enum { KUBE_COUNTS = 32 }; // pairs of a method and a status; what comes after these is counted in the last one, under method "other"

struct kube {
    struct transport *transport;
    struct clock *clock;
    struct kube_count counts[KUBE_COUNTS]; // in the order of their first appearance; n 0 = free
};

struct kube_call {
    struct http_req http;
    struct kube *kube;
    struct buf answer; // whole body of the answer (non-streaming)
    // Streaming: called per chunk instead of filling `answer` when status is 200; != 0 aborts.
    int (*on_chunk)(struct kube_call *c, const void *p, size_t n);
    void (*on_done)(struct kube_call *c, struct err *e); // e NULL = 2xx
    struct buf body;                                     // request body, owned
    struct err err;
    bool active;
    bool begun;                            // a byte of a JSON answer was seen
    bool any_body;                         // an answer need not be JSON (kube_raw)
    int64_t asked_total_ms, asked_idle_ms; // the caller's limits, put back at the end
};

// For http.accept of a write: the answer need not carry the whole object back. A server that does not know this form answers as ever.
#define KUBE_METADATA_ONLY "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

// http.total_timeout_ms and http.idle_timeout_ms are the caller's, before the start. 0 means: 30 s for the whole exchange; for a watch
// timeoutSeconds + 30 s, or none; for a list that is streamed 10 min, and 30 s of silence. The call may be started again from inside
// on_done.
void kube_call_init(struct kube_call *c, struct kube *k);
void kube_call_fini(struct kube_call *c); // cancels when active
void kube_call_cancel(struct kube_call *c);

// Writes "/apis/group/version/namespaces/ns/plural/name/sub" into url; ns, name, sub may be NULL.
int kube_path(char url[HTTP_URL_MAX], const struct kube_type *t, const char *ns, const char *name, const char *sub, struct err *e) MUST_USE;

struct kube_list_opts {
    const char *resource_version; // NULL = most recent
    const char *continue_token;
    const char *field_selector, *label_selector;
    int limit; // 0 = none
    bool watch;
    bool bookmarks;
    bool initial_events; // streamed first list
    int timeout_s;       // timeoutSeconds of a watch
};

// Each starts the call; the answer arrives through on_done. E_BUSY when the call is already active.
int kube_get(struct kube_call *c, const struct kube_type *t, const char *ns, const char *name, struct err *e) MUST_USE;
int kube_list(struct kube_call *c, const struct kube_type *t, const char *ns, const struct kube_list_opts *o, struct err *e) MUST_USE;
enum kube_patch { KUBE_MERGE, KUBE_APPLY, KUBE_JSON };
// For KUBE_APPLY fieldManager=limpet&force=true is added. `body` is copied.
int kube_patch(struct kube_call *c, enum kube_patch how, const struct kube_type *t, const char *ns, const char *name, const char *sub,
               const char *body, size_t len, struct err *e) MUST_USE;
int kube_create(struct kube_call *c, const struct kube_type *t, const char *ns, const char *name_for_sub, const char *sub, const char *body,
                size_t len, struct err *e) MUST_USE;
int kube_delete(struct kube_call *c, const struct kube_type *t, const char *ns, const char *name, struct err *e) MUST_USE;
// Any path with its query, any method, any kind of answer (readyz, version, ...).
int kube_raw(struct kube_call *c, const char *method, const char *path, const char *content_type, const char *body, size_t len,
             struct err *e) MUST_USE;

// The class that an answer other than 2xx means. `body` may be damaged or cut. Sets class, http, message, retry_after_ms.
int kube_classify(int status, const struct http_head *h, const char *body, size_t len, struct err *e);

// Blocking, for command-line tools only: turns the loop until the call is done (started by the caller). Returns its error.
int kube_wait(struct loop *l, struct kube_call *c, struct err *e) MUST_USE;

#endif
