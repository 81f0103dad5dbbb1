// SPDX-License-Identifier: Apache-2.0
// edgeapp_plan — from what should run and what does run to the steps in between, and to one word about it. Pure.
//
// A slot is what is remembered of one replica index while the agent runs: restart counts, the crash backoff, the last exit. Nothing here
// starts or stops anything, asks for the time or touches a status; edgeapp.c does.
//
// Restarts follow Kubernetes: the first comes at once, then 10 s, 20 s, ... 300 s, counted from the end of the process; after 10 min
// of running the count begins anew. A new revision begins anew at once. Ending because we said so is no crash, unless we said so because it
// did not start or live.
//
// A new revision replaces instances that are not ready at once, and of those that are ready so many that never more than maxUnavailable of
// those wanted are missing; one of the new revision counts when it was ready for minReadySeconds. So a revision that does not come up stops
// there, and what is left of the old one goes on.
#ifndef KINDS_EDGEAPP_PLAN_H
#define KINDS_EDGEAPP_PLAN_H

#include "kinds/edgeapp_spec.h"

enum { APP_BACKOFF_FIRST_MS = 10000, APP_BACKOFF_MAX_MS = 300000, APP_BACKOFF_RESET_MS = 600000 };

struct app_exit {
    bool present, known;
    bool unhealthy; // ended by us, for its probe
    int code, signal, start_errno;
    char reason[24];
    int64_t at_us;    // best estimate of the wall time
    char detail[128]; // of a failed start
};

struct app_try; // edgeapp_probe.c: a probe under way
struct app_probing {
    int successes, failures; // in a row
    bool ok;                 // started, alive, ready
    bool told;               // the failing was reported
    int64_t next_ms;
    struct app_try *try;
};

struct app_slot {
    uint64_t running;            // instances by uid_hash(): seen running,
    uint64_t counted;            // its exit was counted,
    uint64_t told;               // told to stop by us
    uint64_t unhealthy;          // its startup or liveness probe failed
    uint64_t probed;             // `probes` speak of it
    char revision[INST_REV_MAX]; // what the fields below belong to
    bool ended;                  // the last instance of this revision ended by itself and none was started since
    unsigned crashes;            // in a row
    int64_t not_before_ms;       // monotonic: the next start
    int64_t restarts;
    uint64_t restarted; // instance whose restarts_seen by the platform are counted
    int restarts_seen;
    struct app_exit exit; // the last one, of whatever revision
    bool reported;        // `exit` is in the durable status
    struct app_probing probes[APP_PROBES];
    int64_t ready_ms; // monotonic, since when it has been ready; 0 = it is not
    bool available;   // for long enough
};

uint64_t uid_hash(const char *uid);

#define APP_UNHEALTHY "Unhealthy" // reason of an exit that a probe brought about

// Another revision: the history of the former one does not count.
void app_slot_revision(struct app_slot *s, const char *revision);
// Whatever it was, it is to be started as if it never had been.
void app_slot_begin_anew(struct app_slot *s);
// An instance of this index ended: takes the exit over, once. Returns whether it was new. now_ms monotonic, boot_ms the boot-time
// now, boot_id of now: an exit of another boot has no known age.
bool app_slot_exit(struct app_slot *s, const struct inst *i, int64_t now_ms, int64_t boot_ms, const char *boot_id);
// Was the exit a crash that waits for its next start now?
bool app_slot_waits(const struct app_slot *s, const struct app_spec *spec, int64_t now_ms);
// Ended for good under this restart policy?
bool app_slot_finished(const struct app_slot *s, const struct app_spec *spec);
bool app_exit_failed(const struct app_exit *x);
int64_t app_slot_delay(const struct app_slot *s); // the wait that its last crash brought, in ms

enum app_step_kind { APP_STOP, APP_FORGET, APP_START };
struct app_step {
    enum app_step_kind kind;
    int index;
    const struct inst *inst; // NULL for a start
    const char *why;
};

struct app_plan {
    struct app_step *steps; // room for n_insts + APP_REPLICAS_MAX
    size_t n;
    int64_t next_ms; // monotonic: when a start that has to wait becomes due; INT64_MAX = none
};

// Instances come in the order of (index, start), as the port lists them. `slots` has spec->replicas entries at least. An ended instance is
// forgotten when a newer one of its index ended too, when its index is not wanted, or when its exit is in the durable status.
void app_plan(const struct app_spec *spec, const struct inst *insts, size_t n_insts, const struct app_slot *slots, int64_t now_ms,
              struct app_plan *out);

enum app_state {
    APP_PENDING,
    APP_STARTING,
    APP_RUNNING,
    APP_DEGRADED,
    APP_CRASH_LOOP,
    APP_STOPPING,
    APP_STOPPED,
    APP_SUCCEEDED,
    APP_FAILED
};
const char *app_state_word(enum app_state s);

struct app_summary {
    enum app_state state;
    int replicas, updated, ready; // as in status
    int available;                // of the current revision, ready for minReadySeconds
    int live, excess;             // processes that exist; those that should not
    int starting, waiting, finished, failed;
    int worst; // index that explains why it is not ready: a failed start, else one that waits, else not ready; -1 = none
};
bool app_is_current(const struct app_spec *spec, const struct inst *i); // of the revision that is wanted
// Notes whether the instance that runs in the slot (NULL = none) is ready, and since when. Returns when that makes it available; INT64_MAX:
// it is, or it is not ready.
int64_t app_slot_ready(struct app_slot *s, const struct app_spec *spec, const struct inst *i, int64_t now_ms);
// Is the instance ready: runs, is of its slot, and its probes (if any) say so? One of an older revision keeps its last verdict: what it is
// asked now belongs to the new one.
bool app_is_ready(const struct inst *i, const struct app_slot *s);
void app_summarize(const struct app_spec *spec, const struct inst *insts, size_t n_insts, const struct app_slot *slots, int64_t now_ms,
                   struct app_summary *out);
// The newest instance of an index that has not ended; NULL = none.
const struct inst *app_live(const struct inst *insts, size_t n, int index);

#endif
