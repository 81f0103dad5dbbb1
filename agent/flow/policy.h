// SPDX-License-Identifier: Apache-2.0
// policy — the EdgePolicies of this node merged into the values that are in force, and what follows from them now.
//
// A policy is a document with a priority and some fields. For each field the document of the highest priority that has it counts; of two
// with one priority the one whose name comes first, and of two with one name that of the node's own namespace. A list is one field. What no
// policy sets is the local configuration's; what the environment or a flag set stays whatever policies say (config_origin).
// Everybody who reads one of these values reads it from `effective`, a copy of the configuration: so the others need not know of policies.
//
// Not here: where documents come from and how they are read (kinds/edgepolicy.c), what becomes of a change (flow/agent_policy.c).
// Merging, windows and verdicts are pure; the clock, the link's state and the store come in through policy_conf.
#ifndef FLOW_POLICY_H
#define FLOW_POLICY_H

#include "base/loop.h"
#include "config/config.h"
#include "data/cache.h"
#include "data/json.h"
#include "data/outbox.h"
#include "expr/cron.h"

enum policy_field {
    POLICY_SYNC_MODE,
    POLICY_SYNC_INTERVAL,
    POLICY_METERED_MODE,
    POLICY_METERED_INTERVAL,
    POLICY_METERED_WINDOWS,
    POLICY_LEASE_INTERVAL,
    POLICY_LEASE_DURATION,
    POLICY_OFFLINE,
    POLICY_MAX_EVENTS,
    POLICY_SHED_FIRST,
    POLICY_MAINTENANCE,
    POLICY_FIELDS
};

// The configuration key that a field overrides; section NULL = none.
struct policy_field_row {
    const char *name; // below spec
    const char *section, *key;
};
extern const struct policy_field_row policy_fields[POLICY_FIELDS];

// --- Windows

enum { POLICY_WINDOWS_MAX = 16, POLICY_WINDOW_MAX_S = 7 * 86400 };

struct policy_window {
    struct cron at;
    const struct tz *zone; // NULL = UTC
    int64_t duration_s;    // elapsed seconds, whatever the clocks do meanwhile
};

struct policy_windows {
    struct policy_window *list;
    size_t n;
};

struct policy_gate {
    bool open;
    int64_t until_s; // open: closes then; closed: opens then; -1 = never. Seconds since 1970
};
struct policy_gate policy_windows_at(const struct policy_windows *w, int64_t wall_s);

// --- Offline behaviour

enum policy_behavior { POLICY_KEEP, POLICY_STOP, POLICY_RUN_ONLY };
enum { POLICY_RULES_MAX = 16, POLICY_NAMES_MAX = 64, POLICY_LABELS_MAX = 16 };

struct policy_label {
    const char *key, *value;
};

struct policy_labels {
    struct policy_label *list;
    size_t n;
};

struct policy_rule {
    enum policy_behavior behavior;
    int64_t after_ms;
    const char *const *kinds; // NULL-terminated; empty = every kind that can be stopped
    const char *const *names; // empty = any
    struct policy_labels labels;
};

struct policy_rules {
    struct policy_rule *list;
    size_t n;
};

struct policy_subject {
    const char *kind, *name;
    const struct json *labels; // metadata.labels, NULL = none
};

// Does `labels` hold all of what is asked for?
bool policy_labels_match(const struct policy_labels *wanted, const struct json *labels);
// The rule by which the subject is to be stopped after having been offline for `offline_ms`; NULL: it runs. The first rule that says
// something of the subject decides: Keep and Stop of what they select, RunOnly of everything.
const struct policy_rule *policy_stops(const struct policy_rules *r, const struct policy_subject *s, int64_t offline_ms);

// --- Documents and their merge

struct policy_values {
    unsigned set; // bit (1 << enum policy_field): the document has it
    enum sync_mode sync_mode, metered_mode;
    int64_t sync_interval_ms, metered_interval_ms, lease_interval_ms, lease_duration_ms, max_events;
    enum outbox_shed shed_first;
    struct policy_windows metered, maintenance;
    struct policy_rules offline;
};

struct policy_doc {
    struct list link;
    char key[KEY_MAX]; // "edgepolicies/edge-system/fleet"
    const char *ns, *name;
    bool shared; // not of the node's own namespace
    int64_t priority, generation;
    struct policy_labels nodes; // which nodes it is for
    struct policy_values v;
    struct arena arena; // what the lists lie in
    struct json *spec;  // what its texts lie in
    struct tz **zones;
    size_t n_zones;
};
struct policy_doc *policy_doc_new(const char *key, const char *own_ns, struct err *e); // NULL: E_INVAL, E_NOMEM
void policy_doc_free(struct policy_doc *d);

struct policy_merged {
    struct policy_values v;
    const struct policy_doc *from[POLICY_FIELDS]; // NULL: no policy sets it
};
bool policy_doc_beats(const struct policy_doc *a, const struct policy_doc *b);
// `pinned`: fields (bits) that no policy may set.
void policy_merge(struct policy_merged *out, const struct list *docs, unsigned pinned);

// --- In force

enum { POLICY_DOCS_MAX = 64 };
// What a change was about.
enum {
    POLICY_CHANGED_SYNC = 1,
    POLICY_CHANGED_LEASE = 2,
    POLICY_CHANGED_OUTBOX = 4,
    POLICY_CHANGED_OFFLINE = 8,
    POLICY_CHANGED_WINDOWS = 16
};

struct policy_conf {
    struct loop *loop;
    struct clock *clock;
    struct db *db; // remembers how long we have been offline; NULL = forget it with the process
    const struct config *config;
    void (*changed)(void *ctx, unsigned what); // in force from now on; may be NULL
    void *ctx;
};

struct policy {
    struct policy_conf conf;
    struct config effective; // borrows its texts from conf.config
    struct list docs;
    size_t n_docs;
    unsigned pinned;
    bool held;
    struct policy_merged merged;
    bool metered;                   // a metered window is open
    bool clock_trusted;             // as of the last look
    struct policy_gate maintenance; // meaningful when there are windows
    struct timer edge;              // when the next of these may change
    // Offline.
    bool online;
    int64_t since_ms;   // boot-time: when this stretch of being offline began
    int64_t carried_ms; // of it, from before that
    int64_t kept_ms;    // what the store knows
    struct db_hook ended;
    bool keeping;    // something of it is in the transaction that is open
    bool keep_again; // and was lost with the last one
    size_t stage;    // how many of the rules' times have passed
};

int policy_new(struct policy **out, const struct policy_conf *c, struct err *e) MUST_USE;
void policy_free(struct policy *p); // NULL is fine
// Takes the document; an older one with its key goes, the same one changes nothing. E_NOSPC: more than POLICY_DOCS_MAX, it is freed.
int policy_put(struct policy *p, struct policy_doc *d, struct err *e) MUST_USE;
void policy_drop(struct policy *p, const char *key);
bool policy_has(const struct policy *p, const char *key);
// From now on changes are told to nobody; then all of them at once. At boot no half of the policies may act.
void policy_hold(struct policy *p);
void policy_go_on(struct policy *p);
// Time went on or the clock became trusted: windows open and close, offline times pass. Also by its own timer.
void policy_look(struct policy *p);
void policy_link(struct policy *p, bool online);   // offline: the server was lost
int64_t policy_offline_ms(const struct policy *p); // 0 = online
// Once a minute: remembers how long we have been offline, so that a reboot does not begin anew. Writes seldom, or `now`, and what a
// transaction that failed took with it.
void policy_keep_offline(struct policy *p, bool now);
void policy_recall_offline(struct policy *p); // by policy_new()
void policy_kept(struct db_hook *h, int cls);

// For the engine. No windows: everything is allowed, always.
bool policy_has_windows(const struct policy *p);
// May what runs be disturbed now? False: `why` says until when.
bool policy_disruption_allowed(const struct policy *p, char *why, size_t max);
// For kinds: must the subject stop now, as we are offline? `why` names policy and time.
bool policy_stopped_offline(const struct policy *p, const struct policy_subject *s, char *why, size_t max);

#endif
