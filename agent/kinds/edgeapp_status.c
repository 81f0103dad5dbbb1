// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgeapp_status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kinds/exit_text.h"

// --- Words

void app_exit_text(const struct app_exit *x, char *out, size_t max)
{
    struct inst_exit exit = { .known = x->known, .code = x->code, .signal = x->signal, .start_errno = x->start_errno };
    snprintf(exit.reason, sizeof(exit.reason), "%s", x->reason);
    snprintf(exit.detail, sizeof(exit.detail), "%s", x->detail);
    exit_text(&exit, out, max);
}

static const char *instance_word(const struct app_spec *spec, const struct inst *live, const struct app_slot *s, int64_t now_ms)
{
    static const char *const words[] = { [INST_STARTING] = "Starting", [INST_RUNNING] = "Running", [INST_STOPPING] = "Stopping" };
    if (live != NULL)
        return words[live->state];
    if (app_slot_finished(s, spec))
        return app_exit_failed(&s->exit) ? "Failed" : "Succeeded";
    if (app_slot_waits(s, spec, now_ms))
        return "CrashLoopBackOff";
    return spec->replicas < spec->remembered ? "Stopped" : "Pending";
}

// --- status.instances

static struct json *exit_json(const struct app_exit *x)
{
    char at[RFC3339_MAX];
    struct json *j = json_object();
    if (x->known && x->signal == 0 && x->start_errno == 0)
        json_set_int(j, "code", x->code & 0xff);
    if (x->signal > 0)
        json_set_int(j, "signal", x->signal);
    json_set_str(j, "reason", x->reason);
    json_set_str(j, "at", rfc3339_sec(x->at_us, at));
    return j;
}

static void add_process(struct json *j, const struct inst *live)
{
    char at[RFC3339_MAX];
    if (live->pid > 0)
        json_set_int(j, "pid", live->pid);
    if (live->state != INST_STARTING)
        json_set_str(j, "startedAt", rfc3339_sec(live->started.wall_us, at));
    json_set_str(j, "revision", live->revision);
}

static struct json *instance_json(const struct app_report *r, int index, const struct inst *live)
{
    const struct app_slot *s = index < app_remembers(r->spec) ? &r->slots[index] : NULL;
    struct json *j = json_object();
    json_set_int(j, "index", index);
    json_set_str(j, "state", instance_word(r->spec, live, s, r->now_ms));
    json_set_bool(j, "ready", live != NULL && s != NULL && app_is_ready(live, s));
    if (live != NULL)
        add_process(j, live);
    if (s == NULL)
        return j;
    if (live != NULL && r->spec->probes[APP_STARTUP].kind != PROBE_NONE)
        json_set_bool(j, "started", s->probed == uid_hash(live->uid) && s->probes[APP_STARTUP].ok);
    if (live == NULL && s->ended)
        json_set_str(j, "revision", s->revision);
    json_set_int(j, "restarts", s->restarts);
    if (s->exit.present)
        json_set(j, "lastExit", exit_json(&s->exit));
    return j;
}

static struct json *failed_json(const struct app_report *r)
{
    char at[RFC3339_MAX];
    struct json *list = json_array();
    for (size_t i = 0; i < r->rollout->record->n_failed; i++) {
        const struct app_failed *f = &r->rollout->record->failed[i];
        struct json *j = json_object();
        json_set_str(j, "revision", f->revision);
        json_set_str(j, "message", f->why);
        json_set_str(j, "at", rfc3339_sec(f->at_us, at));
        json_push(list, j);
    }
    return list;
}

static struct json *instances_json(const struct app_report *r)
{
    struct json *list = json_array();
    for (int index = 0; index < APP_REPLICAS_MAX; index++) {
        const struct inst *live = app_live(r->insts, r->n_insts, index);
        if (live != NULL || index < app_remembers(r->spec))
            json_push(list, instance_json(r, index, live));
    }
    return list;
}

// --- Conditions

// Does a probe tell why it is not ready?
static bool is_blamed(const struct app_slot *s)
{
    for (int use = 0; use < APP_PROBES; use++)
        if (s->probes[use].told)
            return true;
    return false;
}

static void ready_because_of(struct status *s, const struct app_report *r)
{
    char text[256];
    const struct app_summary *sum = r->summary;
    const struct app_slot *w = sum->worst >= 0 ? &r->slots[sum->worst] : NULL;
    if (w != NULL && w->ended) {
        app_exit_text(&w->exit, text, sizeof(text));
        const char *reason = w->exit.start_errno != 0 ? "StartFailed" : sum->state == APP_FAILED ? "Failed" : "CrashLoopBackOff";
        if (app_slot_finished(w, r->spec))
            status_cond(s, "Ready", COND_FALSE, reason, "instance %d %s", sum->worst, text);
        else
            status_cond(s, "Ready", COND_FALSE, reason, "instance %d %s; it is started again after %" PRId64 " s", sum->worst, text,
                        app_slot_delay(w) / 1000);
    } else if (w != NULL && is_blamed(w) && r->probe_why[0] != '\0') {
        status_cond(s, "Ready", COND_FALSE, "ProbeFailed", "instance %d: %s", sum->worst, r->probe_why);
    } else {
        status_cond(s, "Ready", COND_FALSE, sum->state == APP_STOPPING ? "Stopping" : "Starting", "%d of %d instances are ready",
                    sum->ready, r->spec->replicas);
    }
}

static void ready_condition(struct status *s, const struct app_report *r)
{
    const struct app_summary *sum = r->summary;
    if (r->rollout->failed != NULL)
        status_cond(s, "Ready", COND_FALSE, "RolledBack",
                    "revision %s did not come up: %s; revision %s is kept instead, %d of %d instances of it are ready. Another change is "
                    "tried again",
                    r->rollout->failed->revision, r->rollout->failed->why, r->spec->process.revision, sum->ready, r->spec->replicas);
    else if (r->start_error != NULL)
        status_cond(s, "Ready", COND_FALSE, "StartFailed", "%s", r->start_error);
    else if (r->waits_for != NULL)
        status_cond(s, "Ready", COND_FALSE, r->waits_reason, "%s", r->waits_for);
    else if (sum->state == APP_RUNNING)
        status_cond(s, "Ready", COND_TRUE, "AllReady", "%d of %d instances are ready", r->spec->replicas, r->spec->replicas);
    else if (sum->state == APP_STOPPED && r->spec->suspend)
        status_cond(s, "Ready", COND_FALSE, "Suspended", "spec.suspend is true");
    else if (sum->state == APP_STOPPED)
        status_cond(s, "Ready", COND_TRUE, "ScaledToZero", "replicas is 0");
    else if (sum->state == APP_SUCCEEDED)
        status_cond(s, "Ready", COND_FALSE, "Completed", "all instances ended with exit code 0");
    else
        ready_because_of(s, r);
}

static void progressing_condition(struct status *s, const struct app_report *r)
{
    const struct app_summary *sum = r->summary;
    bool moving = sum->state == APP_PENDING || sum->state == APP_STARTING || sum->state == APP_STOPPING || sum->state == APP_CRASH_LOOP;
    if (sum->excess > 0 && r->spec->replicas > 0 && !r->rollout->late)
        status_cond(s, "Progressing", COND_TRUE, "Replacing", "%d of %d instances are of the current revision, %d are to be stopped",
                    sum->updated, r->spec->replicas, sum->excess);
    else if (r->rollout->failed != NULL)
        status_cond(s, "Progressing", COND_FALSE, "RolledBack", "revision %s is not tried again", r->rollout->failed->revision);
    else if (r->rollout->late)
        status_cond(s, "Progressing", COND_FALSE, "ProgressDeadlineExceeded",
                    "%d of %d instances are available, and for %" PRId64 " s nothing got better", sum->available, r->spec->replicas,
                    r->spec->progress_deadline_ms / 1000);
    else if (moving)
        status_cond(s, "Progressing", COND_TRUE, app_state_word(sum->state), "%d of %d instances are ready", sum->ready, r->spec->replicas);
    else
        status_cond(s, "Progressing", COND_FALSE, "Complete", "nothing is under way");
}

void app_report_write(struct status *s, const struct app_report *r)
{
    struct json *body = status_body(s);
    json_set_str(body, "revision", r->spec->process.revision);
    json_set_int(body, "replicas", r->summary->replicas);
    json_set_int(body, "updatedReplicas", r->summary->updated);
    json_set_int(body, "readyReplicas", r->summary->ready);
    json_set_str(body, "state", app_state_word(r->summary->state));
    json_set(body, "instances", instances_json(r));
    if (r->rollout->record->n_failed > 0)
        json_set(body, "failedRevisions", failed_json(r));
    ready_condition(s, r);
    progressing_condition(s, r);
}

// --- Back from the previous status

static int64_t int_of(const struct json *j, const char *name, int64_t dflt)
{
    int64_t v;
    return json_i64(json_get(j, name), &v) ? v : dflt;
}

static bool is_word(const struct json *j, const char *name, const char *word)
{
    const char *s = json_str(json_get(j, name));
    return s != NULL && strcmp(s, word) == 0;
}

static void load_exit(struct app_exit *x, const struct json *j)
{
    const char *at = json_str(json_get(j, "at")), *reason = json_str(json_get(j, "reason"));
    if (at == NULL || !rfc3339_parse(at, &x->at_us))
        return;
    x->present = true;
    snprintf(x->reason, sizeof(x->reason), "%s", reason != NULL ? reason : "Unknown");
    x->code = (int)int_of(j, "code", -1);
    x->signal = (int)int_of(j, "signal", 0);
    x->known = x->code >= 0 || x->signal > 0;
    x->unhealthy = strcmp(x->reason, APP_UNHEALTHY) == 0;
}

static bool is_same_exit(const struct app_exit *x, const struct json *j)
{
    char at[RFC3339_MAX];
    if (!x->present || !is_word(j, "at", rfc3339_sec(x->at_us, at)) || int_of(j, "signal", 0) != x->signal)
        return false;
    return int_of(j, "code", -1) == (x->known && x->signal == 0 && x->start_errno == 0 ? x->code & 0xff : -1);
}

void app_slots_reported(struct app_slot *slots, int n, const struct json *prev)
{
    json_each(j, json_get(prev, "instances"))
    {
        int64_t index = int_of(j, "index", -1);
        if (index >= 0 && index < n && is_same_exit(&slots[index].exit, json_get(j, "lastExit")))
            slots[index].reported = true;
    }
}

// The instance that the status spoke of still runs: no news.
static void adopt_running(struct app_slot *s, const struct json *j, const struct inst *live)
{
    if (live->state != INST_RUNNING || live->pid != int_of(j, "pid", 0))
        return;
    bool ready = json_bool(json_get(j, "ready"), false);
    s->running = s->probed = uid_hash(live->uid);
    s->probes[APP_STARTUP].ok = json_bool(json_get(j, "started"), ready);
    s->probes[APP_LIVENESS].ok = true;
    s->probes[APP_READINESS].ok = ready;
    s->available = ready; // for how long, nobody knows any more
}

// An ended instance whose exit the status shows was counted by the earlier agent.
static void adopt_counted(struct app_slot *s, int index, const struct json *j, const struct inst *insts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (insts[i].index != index || insts[i].state != INST_EXITED)
            continue;
        struct app_slot probe = { 0 };
        (void)app_slot_exit(&probe, &insts[i], 0, 0, "");
        if (!is_same_exit(&probe.exit, json_get(j, "lastExit")))
            continue;
        s->counted = probe.counted;
        s->exit = probe.exit;
    }
}

static bool has_instance(const struct inst *insts, size_t n, int index)
{
    for (size_t i = 0; i < n; i++)
        if (insts[i].index == index)
            return true;
    return false;
}

static bool was_running(const struct json *j)
{
    return is_word(j, "state", "Running") || is_word(j, "state", "Starting") || is_word(j, "state", "Stopping");
}

static void load_slot(struct app_slot *s, int index, const struct json *j, const struct inst *insts, size_t n)
{
    enum { CRASHES_MAX = 6 };
    const struct inst *live = app_live(insts, n, index);
    const char *revision = json_str(json_get(j, "revision"));
    snprintf(s->revision, sizeof(s->revision), "%s", revision != NULL ? revision : "");
    s->restarts = int_of(j, "restarts", 0);
    load_exit(&s->exit, json_get(j, "lastExit"));
    adopt_counted(s, index, j, insts, n);
    if (live != NULL)
        adopt_running(s, j, live);
    else if (!was_running(j) && !is_word(j, "state", "Pending") && !is_word(j, "state", "Stopped"))
        s->ended = s->exit.present;
    // How often it crashed in a row was in the memory of the earlier agent; its restarts are close enough.
    if (is_word(j, "state", "CrashLoopBackOff"))
        s->crashes = (unsigned)MIN(s->restarts + 1, CRASHES_MAX);
}

// The earlier agent told it to stop. Why, nobody knows any more; unless it must not be started again, its end is no crash.
static void forgive_stopping(struct app_slot *s, const struct app_spec *spec, const struct inst *live)
{
    if (live != NULL && live->state == INST_STOPPING && spec->restart != APP_NEVER)
        s->told = uid_hash(live->uid);
}

void app_slots_load(struct app_slot *slots, const struct app_spec *spec, const struct json *prev, const struct inst *insts, size_t n_insts,
                    void (*lost)(void *ctx, int index), void *ctx)
{
    json_each(j, json_get(prev, "instances"))
    {
        int64_t index = int_of(j, "index", -1);
        if (index < 0 || index >= spec->replicas)
            continue;
        struct app_slot *s = &slots[index];
        load_slot(s, (int)index, j, insts, n_insts);
        forgive_stopping(s, spec, app_live(insts, n_insts, (int)index));
        bool gone = was_running(j) && !has_instance(insts, n_insts, (int)index) && strcmp(s->revision, spec->process.revision) == 0;
        if (!gone || spec->restart != APP_NEVER)
            continue;
        s->ended = true;
        s->exit = (struct app_exit){ .present = true, .code = -1, .reason = "Lost" };
        lost(ctx, (int)index);
    }
}
