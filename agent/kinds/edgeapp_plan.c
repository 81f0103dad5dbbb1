// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgeapp_plan.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

uint64_t uid_hash(const char *uid)
{
    return hash_bytes(HASH_SEED, uid, strlen(uid));
}

static bool is_live(const struct inst *i)
{
    return i->state != INST_EXITED;
}

bool app_is_current(const struct app_spec *spec, const struct inst *i)
{
    return strcmp(i->revision, spec->process.revision) == 0 && !app_mark_outdates(&spec->mark, i);
}

const struct inst *app_live(const struct inst *insts, size_t n, int index)
{
    while (n-- > 0)
        if (insts[n].index == index && is_live(&insts[n]))
            return &insts[n];
    return NULL;
}

void app_slot_revision(struct app_slot *s, const char *revision)
{
    if (strcmp(s->revision, revision) == 0)
        return;
    snprintf(s->revision, sizeof(s->revision), "%s", revision);
    app_slot_begin_anew(s);
}

void app_slot_begin_anew(struct app_slot *s)
{
    s->ended = false;
    s->crashes = 0;
    s->restarts = 0;
}

bool app_exit_failed(const struct app_exit *x)
{
    return !x->known || x->code != 0 || x->start_errno != 0 || x->unhealthy;
}

// 0, 10 s, 20 s, ... for the first, second, third crash in a row.
static int64_t crash_delay(unsigned crashes)
{
    if (crashes == 0)
        return 0;
    return crashes > 5 ? APP_BACKOFF_MAX_MS : MIN(APP_BACKOFF_FIRST_MS << (crashes - 1), APP_BACKOFF_MAX_MS);
}

int64_t app_slot_delay(const struct app_slot *s)
{
    return s->crashes > 0 ? crash_delay(s->crashes - 1) : 0;
}

static void take_exit(struct app_exit *x, const struct inst *i)
{
    *x = (struct app_exit){ .present = true,
                            .known = i->exit.known,
                            .code = i->exit.code,
                            .signal = i->exit.signal,
                            .start_errno = i->exit.start_errno,
                            .at_us = i->ended.wall_us };
    snprintf(x->reason, sizeof(x->reason), "%.*s", (int)sizeof(x->reason) - 1, i->exit.reason);
    if (x->start_errno == 0)
        return;
    struct err clean = ERR_INIT; // it quotes paths, and was cut somewhere: what is no UTF-8 must not reach a status
    err_set(&clean, E_IO, "%s", i->exit.detail);
    snprintf(x->detail, sizeof(x->detail), "%.*s", (int)utf8_cut(clean.msg, MIN(strlen(clean.msg), sizeof(x->detail) - 1)), clean.msg);
}

static void blame_probe(struct app_exit *x)
{
    x->unhealthy = true;
    snprintf(x->reason, sizeof(x->reason), "%s", APP_UNHEALTHY);
}

// How long it ran, by boot-time: the wall clock may have jumped meanwhile.
static int64_t run_time(const struct inst *i)
{
    return strcmp(i->started.boot_id, i->ended.boot_id) == 0 ? i->ended.boot_ms - i->started.boot_ms : 0;
}

bool app_slot_exit(struct app_slot *s, const struct inst *i, int64_t now_ms, int64_t boot_ms, const char *boot_id)
{
    uint64_t uid = uid_hash(i->uid);
    if (s->counted == uid)
        return false;
    s->counted = uid;
    s->reported = false;
    take_exit(&s->exit, i);
    if (s->unhealthy == uid)
        blame_probe(&s->exit);
    if (s->told == uid || strcmp(i->revision, s->revision) != 0)
        return true;
    s->ended = true;
    if (run_time(i) >= APP_BACKOFF_RESET_MS)
        s->crashes = 0;
    int64_t age = strcmp(i->ended.boot_id, boot_id) == 0 ? MAX(boot_ms - i->ended.boot_ms, 0) : 0;
    s->not_before_ms = now_ms + MAX(crash_delay(s->crashes) - age, 0);
    s->crashes++;
    return true;
}

bool app_slot_finished(const struct app_slot *s, const struct app_spec *spec)
{
    if (!s->ended || spec->restart == APP_ALWAYS)
        return false;
    return spec->restart == APP_NEVER || !app_exit_failed(&s->exit);
}

bool app_slot_waits(const struct app_slot *s, const struct app_spec *spec, int64_t now_ms)
{
    return s->ended && !app_slot_finished(s, spec) && now_ms < s->not_before_ms;
}

static void add_step(struct app_plan *p, enum app_step_kind kind, int index, const struct inst *i, const char *why)
{
    p->steps[p->n++] = (struct app_step){ kind, index, i, why };
}

static bool newer_ended(const struct inst *insts, size_t n, size_t at)
{
    for (size_t i = at + 1; i < n; i++)
        if (insts[i].index == insts[at].index && !is_live(&insts[i]))
            return true;
    return false;
}

static bool counts(const struct app_spec *spec, const struct inst *i, const struct app_slot *s)
{
    return app_is_ready(i, s) && (s->available || !app_is_current(spec, i));
}

// How many of those wanted may be taken away while they are ready. Those that are missing count already, but for one that has ended for
// good: nobody waits for it.
static int spare(const struct app_spec *spec, const struct inst *insts, size_t n, const struct app_slot *slots)
{
    int left = spec->max_unavailable;
    for (int index = 0; index < spec->replicas; index++) {
        const struct inst *i = app_live(insts, n, index);
        left -= i != NULL ? !counts(spec, i, &slots[index]) : !app_slot_finished(&slots[index], spec);
    }
    return left;
}

// Why a live instance must go now; NULL = it may stay.
static const char *unwanted(const struct app_spec *spec, const struct inst *insts, size_t n, const struct inst *i,
                            const struct app_slot *slots, int *left)
{
    if (i->index >= spec->replicas)
        return spec->suspend ? "suspended" : i->index < spec->remembered ? "stopped offline" : "scaled down";
    if (app_live(insts, n, i->index) != i)
        return "duplicate";
    const struct app_slot *s = &slots[i->index];
    if (!app_is_current(spec, i))
        return !app_is_ready(i, s) || (*left)-- > 0 ? "superseded" : NULL;
    return s->unhealthy == uid_hash(i->uid) ? "unhealthy" : NULL;
}

static void plan_instance(const struct app_spec *spec, const struct inst *insts, size_t n, size_t at, const struct app_slot *slots,
                          int *left, struct app_plan *out)
{
    const struct inst *i = &insts[at];
    if (is_live(i)) {
        const char *why = i->state != INST_STOPPING ? unwanted(spec, insts, n, i, slots, left) : NULL;
        if (why != NULL)
            add_step(out, APP_STOP, i->index, i, why);
        return;
    }
    if (i->index >= app_remembers(spec) || newer_ended(insts, n, at) || slots[i->index].reported)
        add_step(out, APP_FORGET, i->index, i, "reported");
}

static void plan_start(const struct app_spec *spec, int index, const struct app_slot *s, int64_t now_ms, struct app_plan *out)
{
    if (app_slot_finished(s, spec))
        return;
    if (app_slot_waits(s, spec, now_ms))
        out->next_ms = MIN(out->next_ms, s->not_before_ms);
    else
        add_step(out, APP_START, index, NULL, s->ended ? "restart" : "missing");
}

void app_plan(const struct app_spec *spec, const struct inst *insts, size_t n_insts, const struct app_slot *slots, int64_t now_ms,
              struct app_plan *out)
{
    out->n = 0;
    out->next_ms = INT64_MAX;
    int left = spare(spec, insts, n_insts, slots);
    for (size_t i = 0; i < n_insts; i++)
        plan_instance(spec, insts, n_insts, i, slots, &left, out);
    for (int index = 0; index < spec->replicas; index++)
        if (app_live(insts, n_insts, index) == NULL)
            plan_start(spec, index, &slots[index], now_ms, out);
}

// --- In one word

const char *app_state_word(enum app_state s)
{
    static const char *const words[] = { "Pending",  "Starting", "Running",   "Degraded", "CrashLoopBackOff",
                                         "Stopping", "Stopped",  "Succeeded", "Failed" };
    return words[s];
}

bool app_is_ready(const struct inst *i, const struct app_slot *s)
{
    uint64_t uid = uid_hash(i->uid);
    if (i->state != INST_RUNNING || s->probed != uid || s->unhealthy == uid)
        return false;
    return s->probes[APP_STARTUP].ok && s->probes[APP_READINESS].ok;
}

int64_t app_slot_ready(struct app_slot *s, const struct app_spec *spec, const struct inst *i, int64_t now_ms)
{
    if (i == NULL || !app_is_ready(i, s)) {
        s->ready_ms = 0;
        s->available = false;
        return INT64_MAX;
    }
    if (s->ready_ms == 0)
        s->ready_ms = MAX(now_ms, INT64_C(1));
    s->available |= now_ms - s->ready_ms >= spec->min_ready_ms;
    return s->available ? INT64_MAX : s->ready_ms + spec->min_ready_ms;
}

static void count_live(const struct app_spec *spec, const struct inst *i, const struct app_slot *s, struct app_summary *out)
{
    bool current = app_is_current(spec, i);
    bool ready = app_is_ready(i, s);
    out->updated += current;
    out->ready += ready;
    out->available += current && ready && s->available;
    if (!current || i->state == INST_STOPPING)
        out->excess++;
    else if (!ready) {
        out->starting++;
        if (out->worst < 0)
            out->worst = i->index;
    }
}

// A failed start explains more than a crash, a crash more than a slow start.
static void count_ended(const struct app_spec *spec, int index, const struct app_slot *slots, int64_t now_ms, struct app_summary *out)
{
    const struct app_slot *s = &slots[index];
    bool waits = app_slot_waits(s, spec, now_ms), finished = app_slot_finished(s, spec);
    out->waiting += waits;
    out->finished += finished;
    out->failed += finished && app_exit_failed(&s->exit);
    if (!waits && !(finished && app_exit_failed(&s->exit)))
        return;
    const struct app_slot *w = out->worst >= 0 ? &slots[out->worst] : NULL;
    if (w == NULL || !w->ended || (w->exit.start_errno == 0 && s->exit.start_errno != 0))
        out->worst = index;
}

static enum app_state choose_state(const struct app_spec *spec, const struct app_summary *s, int ready_current)
{
    if (spec->replicas == 0)
        return s->live > 0 ? APP_STOPPING : APP_STOPPED;
    if (s->finished == spec->replicas)
        return s->failed > 0 ? APP_FAILED : APP_SUCCEEDED;
    if (ready_current == spec->replicas)
        return APP_RUNNING;
    if (s->waiting > 0)
        return APP_CRASH_LOOP;
    if (s->ready > 0)
        return APP_DEGRADED;
    if (s->starting > 0)
        return APP_STARTING;
    return s->live > 0 ? APP_STOPPING : APP_PENDING;
}

void app_summarize(const struct app_spec *spec, const struct inst *insts, size_t n_insts, const struct app_slot *slots, int64_t now_ms,
                   struct app_summary *out)
{
    int ready_current = 0;
    *out = (struct app_summary){ .worst = -1 };
    for (size_t i = 0; i < n_insts; i++) {
        if (!is_live(&insts[i]))
            continue;
        out->live++;
        if (insts[i].index >= spec->replicas)
            out->excess++;
    }
    for (int index = 0; index < spec->replicas; index++) {
        const struct inst *i = app_live(insts, n_insts, index);
        if (i == NULL) {
            count_ended(spec, index, slots, now_ms, out);
            continue;
        }
        count_live(spec, i, &slots[index], out);
        ready_current += app_is_current(spec, i) && app_is_ready(i, &slots[index]);
    }
    out->replicas = out->live + out->waiting + out->finished;
    out->state = choose_state(spec, out, ready_current);
}
