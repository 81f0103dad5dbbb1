// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgejob_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "kinds/exit_text.h"

struct work {
    const struct job_seen *seen;
    const struct job_spec *spec;
    struct job_record *r;
    struct job_plan *out;
    uint64_t settled[2 * JOB_RUNS_MAX]; // instances of runs whose end is in this plan: forgotten only once it is durable
    size_t n_settled;
};

int64_t job_backoff_ms(int attempts)
{
    int64_t ms = JOB_BACKOFF_FIRST_MS;
    for (int i = 1; i < attempts && ms < JOB_BACKOFF_MAX_MS; i++)
        ms *= 2;
    return MIN(ms, (int64_t)JOB_BACKOFF_MAX_MS);
}

uint64_t job_inst_hash(const char *inst_uid)
{
    return hash_bytes(HASH_SEED, inst_uid, strlen(inst_uid)) | 1; // never 0
}

int64_t job_age_ms(const struct instant *then, const struct instant *now)
{
    return strcmp(then->boot_id, now->boot_id) == 0 ? MAX(now->boot_ms - then->boot_ms, 0) : -1;
}

const struct inst *job_run_inst(const struct job_seen *seen, const struct job_run *run)
{
    char uid[INST_UID_MAX];
    job_inst_uid(uid, seen->key, seen->uid, run);
    for (size_t i = 0; run->attempts > 0 && i < seen->n_insts; i++)
        if (strcmp(seen->insts[i].uid, uid) == 0)
            return &seen->insts[i];
    return NULL;
}

static uint64_t run_hash(const struct work *w, const struct job_run *run)
{
    char uid[INST_UID_MAX];
    job_inst_uid(uid, w->seen->key, w->seen->uid, run);
    return job_inst_hash(uid);
}

static bool is_armed(const struct work *w, const struct job_run *run)
{
    uint64_t h = run_hash(w, run);
    for (size_t i = 0; i < JOB_RUNS_MAX; i++)
        if (w->seen->armed[i] == h)
            return true;
    return false;
}

static void look_again(struct work *w, int64_t in_ms)
{
    w->out->wait_ms = MIN(w->out->wait_ms, MAX(in_ms, 1));
}

static void add_step(struct work *w, enum job_step_kind kind, const struct job_run *run, const struct inst *inst)
{
    if (w->out->n_steps == JOB_STEPS_MAX)
        return;
    struct job_step *s = &w->out->steps[w->out->n_steps++];
    *s = (struct job_step){ .kind = kind, .inst = inst };
    snprintf(s->run, sizeof(s->run), "%s", run != NULL ? run->id : "");
}

static struct job_note *add_note(struct work *w, enum job_note_kind kind)
{
    static struct job_note none;
    struct job_note *n = w->out->n_notes < JOB_NOTES_MAX ? &w->out->notes[w->out->n_notes++] : &none;
    *n = (struct job_note){ .kind = kind };
    return n;
}

// --- How runs end

// A copy that is UTF-8 and fits, whatever the program's name was made of.
static void copy_clean(char *out, size_t max, const char *in)
{
    size_t n = 0, left = strlen(in);
    while (left > 0) {
        size_t len = utf8_seq(in, left), take = MAX(len, (size_t)1);
        if (n + take >= max)
            break;
        memcpy(out + n, len > 0 ? in : "?", take);
        n += take;
        in += take;
        left -= take;
    }
    out[n] = '\0';
}

static void say_how(struct job_finished *f)
{
    static const char *const words[JOB_ENDS] = {
        [JOB_NO_END] = "",
        [JOB_SUCCEEDED] = "",
        [JOB_FAILED] = "its last attempt vanished, and nobody knows how it ended",
        [JOB_UNKNOWN] = "nobody knows whether it ran, or how it ended; execution AtMostOnce does not try it again",
        [JOB_DEADLINE_EXCEEDED] = "it took longer than activeDeadlineSeconds",
        [JOB_REPLACED] = "it was replaced before it ended",
    };
    char text[256];
    bool by_exit = f->ran && (f->end == JOB_SUCCEEDED || f->end == JOB_FAILED);
    if (by_exit)
        exit_text(&f->exit, text, sizeof(text));
    copy_clean(f->text, sizeof(f->text), by_exit ? text : words[f->end]);
}

static void count_end(struct work *w, struct job_finished *f)
{
    struct job_record *r = w->r;
    r->last_end = f->end;
    r->succeeded += f->end == JOB_SUCCEEDED;
    r->failed += f->end != JOB_SUCCEEDED && f->end != JOB_REPLACED;
    if (f->end == JOB_SUCCEEDED && f->ended.wall_us > 0)
        r->last_success_s = f->ended.wall_us / 1000000;
    say_how(f);
    memcpy(r->last_text, f->text, sizeof(r->last_text));
}

static void finish(struct work *w, struct job_run *run, enum job_end end, const struct inst *inst)
{
    struct job_finished *f = &w->out->finished[w->out->n_finished++];
    bool ran = inst != NULL && inst->state == INST_EXITED;
    *f = (struct job_finished){ .run = *run, .end = end, .ran = ran, .start = run->first, .ended = w->seen->now.at };
    if (ran) {
        f->exit = inst->exit;
        f->ended = inst->ended;
    }
    if (run->attempts == 0)
        f->start = f->ended;
    count_end(w, f);
    job_record_keep(w->r, run->id, &f->start, &f->ended);
    job_record_drop(w->r, run);
    w->out->changed = true;
}

static bool over_deadline(const struct work *w, const struct job_run *run)
{
    int64_t age = run->attempts > 0 ? job_age_ms(&run->first, &w->seen->now.at) : 0;
    return w->spec->active_deadline >= 0 && age >= w->spec->active_deadline;
}

static void retry_later(struct work *w, struct job_run *run, const struct inst *inst, const struct inst_exit *exit)
{
    struct job_note *n = add_note(w, JOB_NOTE_RETRY);
    n->exit = *exit;
    n->delay_ms = job_backoff_ms(run->attempts);
    run->begun = false;
    run->since = inst != NULL ? inst->ended : w->seen->now.at;
    w->out->changed = true;
}

// An attempt is over: inst tells how, NULL: it is gone, if it ever was.
static void attempt_ended(struct work *w, struct job_run *run, const struct inst *inst)
{
    struct inst_exit exit = inst != NULL ? inst->exit : (struct inst_exit){ .code = -1, .reason = "Unknown" };
    bool once = run->once || w->spec->once;
    if (run->stop != JOB_NO_END)
        finish(w, run, run->stop, inst);
    else if (exit.known && exit.code == 0 && exit.signal == 0 && exit.start_errno == 0)
        finish(w, run, JOB_SUCCEEDED, inst);
    else if (once && !exit.known)
        finish(w, run, JOB_UNKNOWN, inst);
    else if (over_deadline(w, run))
        finish(w, run, JOB_DEADLINE_EXCEEDED, inst);
    else if (once || run->attempts > w->spec->backoff_limit)
        finish(w, run, JOB_FAILED, inst);
    else
        retry_later(w, run, inst, &exit);
}

static void settle(struct work *w, const struct inst *inst)
{
    if (inst != NULL)
        w->settled[w->n_settled++] = job_inst_hash(inst->uid);
}

// What became of the attempts that were begun. From the end, as runs may go.
static void take_ends(struct work *w)
{
    for (size_t i = w->r->n_runs; i-- > 0;) {
        struct job_run *run = &w->r->runs[i];
        if (!run->begun)
            continue;
        const struct inst *inst = job_run_inst(w->seen, run);
        settle(w, inst);
        if (inst != NULL ? inst->state == INST_EXITED : !is_armed(w, run) || run->stop != JOB_NO_END)
            attempt_ended(w, run, inst);
    }
}

// --- What has to end

static void stop_run(struct work *w, struct job_run *run, enum job_end as)
{
    if (run->stop != JOB_NO_END)
        return;
    if (!run->begun) {
        finish(w, run, as, NULL);
        return;
    }
    run->stop = as;
    w->out->changed = true;
}

static void stop_all(struct work *w, enum job_end as)
{
    for (size_t i = w->r->n_runs; i-- > 0;)
        stop_run(w, &w->r->runs[i], as);
}

// By its owner, or by a policy while the node is offline: nothing new begins, and no instant is decided.
static bool is_suspended(const struct work *w)
{
    return w->spec->suspend || w->seen->stopped;
}

// A one-shot whose revision is not wanted any more makes room for the new one.
static bool is_superseded(const struct work *w, const struct job_run *run)
{
    return !w->spec->scheduled && !is_suspended(w) && run->scheduled_s == 0 && strcmp(w->r->done, w->spec->process.revision) != 0;
}

static void stop_what_must(struct work *w)
{
    for (size_t i = w->r->n_runs; i-- > 0;) {
        struct job_run *run = &w->r->runs[i];
        if (is_superseded(w, run))
            stop_run(w, run, JOB_REPLACED);
        else if (over_deadline(w, run))
            stop_run(w, run, JOB_DEADLINE_EXCEEDED);
        else if (run->attempts > 0 && w->spec->active_deadline >= 0)
            look_again(w, w->spec->active_deadline - MAX(job_age_ms(&run->first, &w->seen->now.at), 0));
    }
}

// --- What begins

static void add_run(struct work *w, const char *id, int64_t scheduled_s)
{
    struct job_run *run = &w->r->runs[w->r->n_runs++];
    *run = (struct job_run){ .scheduled_s = scheduled_s };
    snprintf(run->id, sizeof(run->id), "%s", id);
    w->out->changed = true;
}

static void make_one_shot(struct work *w)
{
    char id[JOB_ID_MAX];
    const char *revision = w->spec->process.revision;
    if (w->spec->scheduled || is_suspended(w) || w->r->n_runs > 0 || strcmp(w->r->done, revision) == 0)
        return;
    const char *hex = strchr(revision, '-');
    snprintf(id, sizeof(id), "%.12s-%" PRId64, hex != NULL ? hex + 1 : revision, ++w->r->runs_made);
    snprintf(w->r->done, sizeof(w->r->done), "%s", revision);
    add_run(w, id, 0);
}

static void note_missed(struct work *w, int64_t n)
{
    if (n == 0)
        return;
    w->r->missed += n;
    add_note(w, JOB_NOTE_MISSED)->count = n;
}

static void make_scheduled_run(struct work *w, int64_t instant_s)
{
    char id[JOB_ID_MAX];
    if (w->spec->policy == JOB_REPLACE)
        stop_all(w, JOB_REPLACED);
    bool full = w->r->n_runs == JOB_RUNS_MAX;
    if (full || (w->spec->policy == JOB_FORBID && w->r->n_runs > 0)) {
        w->r->skipped++;
        add_note(w, full ? JOB_NOTE_FULL : JOB_NOTE_SKIPPED)->instant_s = instant_s;
        return;
    }
    if (instant_s % 60 == 0)
        snprintf(id, sizeof(id), "%" PRId64, instant_s / 60);
    else
        snprintf(id, sizeof(id), "%" PRId64 "s", instant_s);
    add_run(w, id, instant_s);
    w->r->last_scheduled_s = instant_s;
}

// A catch-up waits for the job's own place in the spread; its deadline is not missed for that.
static int64_t spread_left_ms(struct work *w, int64_t late_s)
{
    const struct job_seen *s = w->seen;
    if (late_s < JOB_LATE_S)
        return 0;
    int64_t place = (int64_t)(s->spread % JOB_SPREAD_MS), boot_ms = s->now.at.boot_ms;
    if (w->spec->starting_deadline_s >= 0)
        place = MIN(place, MAX(w->spec->starting_deadline_s - late_s - 1, 0) * 1000);
    w->out->late_since_ms = s->late_since_ms >= 0 ? s->late_since_ms : boot_ms;
    return w->out->late_since_ms + place - boot_ms;
}

static void run_what_is_due(struct work *w, const struct job_due *due)
{
    int64_t now_s = w->seen->now.wall_s, late_s = now_s - due->instant_s;
    bool too_late = w->spec->starting_deadline_s >= 0 && late_s > w->spec->starting_deadline_s;
    int64_t left_ms = too_late ? 0 : spread_left_ms(w, late_s);
    if (left_ms > 0) {
        look_again(w, left_ms);
        return;
    }
    job_decide(w->r, due, now_s);
    w->out->changed = true;
    w->out->late_since_ms = -1;
    note_missed(w, due->earlier + too_late);
    if (!too_late)
        make_scheduled_run(w, due->instant_s);
}

static void follow_schedule(struct work *w)
{
    struct job_due due;
    int64_t now_s = w->seen->now.wall_s;
    w->out->next_instant_s = -1;
    w->out->late_since_ms = -1;
    if (!w->spec->scheduled || !w->seen->now.at.trusted || !w->seen->zone_ok)
        return;
    w->out->changed |= job_when_begin(w->r, w->spec->when, now_s);
    job_when(&w->spec->cron, w->seen->zone, w->r, now_s, &due);
    w->out->next_instant_s = due.next_s;
    if (is_suspended(w))
        return;
    if (due.any)
        run_what_is_due(w, &due);
    if (due.next_s >= 0)
        look_again(w, due.next_s * 1000 - w->seen->now.at.wall_us / 1000);
}

// --- Attempts

// Instances of this object that belong to no attempt that the record speaks of; what is in this plan counts as known.
static bool is_stray(const struct work *w, const struct inst *inst)
{
    uint64_t h = job_inst_hash(inst->uid);
    for (size_t i = 0; i < w->n_settled; i++)
        if (w->settled[i] == h)
            return false;
    return true;
}

static bool strays_live(const struct work *w)
{
    for (size_t i = 0; i < w->seen->n_insts; i++)
        if (w->seen->insts[i].state != INST_EXITED && is_stray(w, &w->seen->insts[i]))
            return true;
    return false;
}

static int64_t attempt_due_in_ms(const struct work *w, const struct job_run *run)
{
    int64_t age = run->attempts > 0 ? job_age_ms(&run->since, &w->seen->now.at) : -1;
    return age < 0 ? 0 : job_backoff_ms(run->attempts) - age;
}

static void begin_attempt(struct work *w, struct job_run *run)
{
    if (run->attempts++ == 0 || job_age_ms(&run->first, &w->seen->now.at) < 0) // after a reboot its deadline counts anew
        run->first = w->seen->now.at;
    run->begun = true;
    run->once = w->spec->once;
    snprintf(run->revision, sizeof(run->revision), "%s", w->spec->process.revision);
    w->out->begun[w->out->n_begun++] = run_hash(w, run);
    w->out->changed = true;
}

static bool may_start(const struct work *w, const struct job_run *run)
{
    if (w->seen->waits)
        return false;
    return !is_suspended(w) && (run->scheduled_s == 0 || w->seen->now.at.trusted);
}

// A run waits for the ones before it, unless they may run side by side.
static bool may_begin(const struct work *w, const struct job_run *run)
{
    return may_start(w, run) && (w->spec->policy == JOB_ALLOW || run == w->r->runs);
}

static void begin_attempts(struct work *w)
{
    if (strays_live(w))
        return;
    for (size_t i = 0; i < w->r->n_runs; i++) {
        struct job_run *run = &w->r->runs[i];
        if (run->begun || !may_begin(w, run))
            continue;
        int64_t in_ms = attempt_due_in_ms(w, run);
        if (in_ms <= 0)
            begin_attempt(w, run);
        else
            look_again(w, in_ms);
    }
}

static bool is_begun_here(const struct work *w, const struct job_run *run)
{
    uint64_t h = run_hash(w, run);
    for (size_t i = 0; i < w->out->n_begun; i++)
        if (w->out->begun[i] == h)
            return true;
    return false;
}

// What a committed record says was begun, is started; on the spec of now, whatever it was when it was begun.
static void start_or_stop(struct work *w)
{
    for (size_t i = 0; i < w->r->n_runs; i++) {
        struct job_run *run = &w->r->runs[i];
        const struct inst *inst = job_run_inst(w->seen, run);
        if (!run->begun)
            continue;
        bool ends = run->stop != JOB_NO_END || w->seen->stopped;
        if (inst != NULL && ends && inst->state != INST_STOPPING)
            add_step(w, JOB_STOP, run, inst);
        if (inst != NULL || is_begun_here(w, run) || !is_armed(w, run) || !may_start(w, run))
            continue;
        if (strcmp(run->revision, w->spec->process.revision) == 0) {
            add_step(w, JOB_START, run, NULL);
            continue;
        }
        snprintf(run->revision, sizeof(run->revision), "%s", w->spec->process.revision);
        w->out->changed = true;
    }
}

static void clear_strays(struct work *w)
{
    for (size_t i = 0; i < w->seen->n_insts; i++) {
        const struct inst *inst = &w->seen->insts[i];
        if (!is_stray(w, inst) || inst->state == INST_STOPPING)
            continue;
        add_step(w, inst->state == INST_EXITED ? JOB_FORGET : JOB_STOP, NULL, inst);
    }
}

void job_plan(const struct job_seen *seen, struct job_record *r, struct job_plan *out)
{
    struct work w = { .seen = seen, .spec = seen->spec, .r = r, .out = out };
    out->changed = false;
    out->n_finished = out->n_notes = out->n_steps = out->n_begun = 0;
    out->wait_ms = INT64_MAX;
    take_ends(&w);
    stop_what_must(&w);
    make_one_shot(&w);
    follow_schedule(&w);
    begin_attempts(&w);
    start_or_stop(&w);
    clear_strays(&w);
}
