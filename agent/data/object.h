// SPDX-License-Identifier: Apache-2.0
// object — Kubernetes objects as bytes: a scanner that finds what matters without building a tree.
//
// Objects keep their bytes as they came (integers beyond 2^53 survive) with `metadata.managedFields` and `status` cut out by span.
// The scanner is iterative, validates the whole text as JSON (json_scan.h) and never allocates.
// A list is split into items while it streams in: memory is one item, not one list.
#ifndef DATA_OBJECT_H
#define DATA_OBJECT_H

#include "base/buf.h"
#include "base/err.h"
#include "data/json_scan.h"

enum { OBJ_NAME_MAX = 254, OBJ_UID_MAX = 64, OBJ_RV_MAX = 64, OBJ_KIND_MAX = 64, OBJ_MAX = 4 * 1024 * 1024 };

struct span {
    const char *p; // NULL = absent
    size_t n;
};

struct object_view {
    char kind[OBJ_KIND_MAX], api_version[128];
    char name[OBJ_NAME_MAX], ns[64], uid[OBJ_UID_MAX], rv[OBJ_RV_MAX];
    int64_t generation;                        // 0 = absent
    bool deleting;                             // deletionTimestamp is set
    struct span spec, status, metadata;        // values, inside the scanned text
    struct span managed_fields, status_member; // whole members with one adjoining comma, as object_strip cuts them
};

// E_INVAL: not an object (offset in the text), E_TOOBIG: over OBJ_MAX or a name over its bound.
int object_scan(struct object_view *v, const char *json, size_t len, struct err *e) MUST_USE;
// Member names are compared as text, escapes undone. A member named here that stands twice is E_INVAL: two readers could disagree on it.
// The same from the head of an object that is cut off or damaged: fills what stands before that. True when it has a name.
bool object_peek(struct object_view *v, const char *json, size_t len);
// Appends the object without managedFields and status to `out`; every other byte as it came.
int object_strip(const struct object_view *v, const char *json, size_t len, struct buf *out, struct err *e) MUST_USE;
// Value of a top-level member (parent NULL) or of a member of a top-level object ("metadata") as a span; the last one where it stands
// twice; false when absent. Text must have been scanned before.
bool object_member(const char *json, size_t len, const char *parent, const char *key, struct span *out);
// Unescapes a JSON string (a span of scanned text, with its quotes) into out; false when it is no string, holds \u0000, or is longer than max - 1.
bool span_string(struct span s, char *out, size_t max);

// Watch events: {"type":"ADDED","object":{...}}
struct watch_event {
    char type[16];
    struct span object;
};
// E_INVAL: no JSON, or without a type or an object. The object is only known to be JSON: object_scan() comes next.
int watch_event_scan(struct watch_event *ev, const char *line, size_t len, struct err *e) MUST_USE;

// What one bad apple does: an object over its bound is dropped, the rest goes on. Tells who it was, as far as its head says; both are ""
// when it does not. NULL = count only. Never take such an object for absent.
typedef void object_too_big_fn(void *ctx, const char *ns, const char *name);

// Splits a watch stream into lines of at most `max` bytes. Feed chunks; fn gets each whole line without its newline.
struct line_splitter {
    struct buf partial;
    int (*fn)(void *ctx, const char *line, size_t len); // != 0 stops, returned by feed
    object_too_big_fn *too_big;                         // set after init
    void *ctx;
    bool skipping;     // inside a line over the bound: reported once, dropped to its end
    uint64_t too_long; // how many lines were over the bound
};
void line_splitter_init(struct line_splitter *s, size_t max, int (*fn)(void *, const char *, size_t), void *ctx);
// fn must not feed or fini. What follows a line that stopped is not kept: after a stop only fini makes sense.
int line_splitter_feed(struct line_splitter *s, const void *p, size_t n, struct err *e) MUST_USE;
void line_splitter_fini(struct line_splitter *s);

// Splits a List document: {"kind":"XList","metadata":{"resourceVersion":..,"continue":..},"items":[ ... ]} in any member order. The
// whole document is validated; memory is one item (OBJ_MAX), never the list.
struct list_splitter {
    int (*item)(void *ctx, const char *json, size_t len); // one item; != 0 stops, returned by feed
    object_too_big_fn *too_big;                           // set after init
    void *ctx;
    // The answer; whole only after list_splitter_end().
    char kind[OBJ_KIND_MAX], rv[OBJ_RV_MAX];
    char *continue_token; // heap, NULL = none
    int64_t remaining;    // remainingItemCount, -1 = unknown
    size_t items;         // handed to item()
    uint64_t too_large;   // items over OBJ_MAX
    // The rest is private.
    struct json_scan scan;
    struct buf pending; // what is being captured: at most one item
    int capture;        // what that is
    bool seen_items, in_items, skipping;
    int failed; // sticky
};
void list_splitter_init(struct list_splitter *s, int (*item)(void *, const char *, size_t), void *ctx);
// E_CORRUPT: not a list, with the offset; every later call repeats it.
int list_splitter_feed(struct list_splitter *s, const void *p, size_t n, struct err *e) MUST_USE;
// E_CORRUPT unless the document was complete, had items (null is an empty list) and a resourceVersion.
int list_splitter_end(struct list_splitter *s, struct err *e) MUST_USE;
void list_splitter_fini(struct list_splitter *s);

// Compares resourceVersions as decimal strings (length, then bytes): <0, 0, >0. Opaque ones compare only for equality: then 0 or 1 with
// *ordered = false. `ordered` may be NULL.
int rv_compare(const char *a, const char *b, bool *ordered);

#endif
