// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgejob.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "flow/policy.h"
#include "kinds/edgejob_rebuild.h"
#include "kinds/exit_text.h"
#include "kinds/observe.h"
#include "kinds/process_refs.h"
#include "kinds/registry.h"

enum { GRACE_OF_START = -1, ZONE_AGAIN_MS = 3600000, LONG_WAIT_MS = 300000, NOTE_OUTPUT_MAX = 400 };

struct job_state {
    uint64_t armed[JOB_RUNS_MAX]; // attempts that this agent began and has not started yet; 0 = none
    bool late;
    int64_t late_since_ms; // boot time; see struct job_seen
    struct tz *zone;
    char zone_name[160]; // what `zone` was loaded for; "" = nothing is loaded
    int64_t zone_at_ms;  // boot time of that
    bool has_grace;
    int64_t grace_ms; // of the last spec that was read
    bool stopped;     // offline for too long, as a policy says
    char stop_why[ERR_MSG_MAX];
};

// One pass.
struct work {
    struct job_spec spec;
    struct process_refs refs;
    struct job_record record;
    struct observed observed;
    struct job_seen seen;
    struct job_plan plan;
    struct err zone_error;
};

enum { CHECK_MEMORY = 8 << 20 };

static int job_check(const struct kind *k, const struct kind_env *env, const struct json *object, struct err *e)
{
    struct job_spec spec;
    struct arena a;
    (void)k;
    arena_init(&a, CHECK_MEMORY);
    int rc = job_spec_decode(&spec, json_get(object, "spec"), env->node, &a, e);
    arena_reset(&a);
    return rc;
}

// Another revision of a one-shot ends what runs of the old one, and runs. A schedule has its own times, and what it runs counts from the next
// attempt on.
static bool job_disturbs(const struct kind *k, const struct kind_env *env, const struct json *now, const struct json *next)
{
    struct job_spec was, will;
    struct err e = ERR_INIT;
    struct arena a;
    (void)k;
    arena_init(&a, CHECK_MEMORY);
    bool disturbs = job_spec_decode(&was, json_get(now, "spec"), env->node, &a, &e) == 0 &&
                    job_spec_decode(&will, json_get(next, "spec"), env->node, &a, &e) == 0 && !will.scheduled && !will.suspend &&
                    (was.scheduled || strcmp(was.process.revision, will.process.revision) != 0);
    arena_reset(&a);
    return disturbs;
}

// --- What there is

static void keep_zone(struct job_state *st, struct tz *z, const char *name)
{
    tz_free(st->zone);
    st->zone = z;
    snprintf(st->zone_name, sizeof(st->zone_name), "%s", name);
}

// A zone that is not known may become known, by an update of tzdata: asked for again each time. A known one each hour; it stays when that
// fails.
static void load_zone(struct pass *p, struct work *w)
{
    struct job_state *st = p->state;
    struct tz *z = NULL;
    int64_t now_ms = clock_boot(p->env->clock);
    bool known = strcmp(st->zone_name, w->spec.zone) == 0;
    if (w->spec.scheduled && (!known || now_ms - st->zone_at_ms >= ZONE_AGAIN_MS)) {
        st->zone_at_ms = now_ms;
        if (tz_load(&z, p->env->disk, w->spec.zone, &w->zone_error) == 0)
            keep_zone(st, z, w->spec.zone);
        else if (known)
            log_warn("edgejob", "zone_kept key=%s zone=%s error=\"%s\"", p->key, w->spec.zone, w->zone_error.msg);
        else
            keep_zone(st, NULL, "");
    }
    w->seen.zone_ok = st->zone_name[0] != '\0';
    w->seen.zone = st->zone;
}

static void forget_armed(struct job_state *st, uint64_t hash)
{
    for (size_t i = 0; i < JOB_RUNS_MAX; i++)
        if (st->armed[i] == hash)
            st->armed[i] = 0;
}

// Of attempts that the record speaks of no more, nothing is left to start.
static void drop_stale_armed(struct pass *p, struct work *w)
{
    struct job_state *st = p->state;
    char uid[INST_UID_MAX];
    for (size_t i = 0; i < JOB_RUNS_MAX; i++) {
        bool known = false;
        for (size_t k = 0; k < w->record.n_runs && !known; k++) {
            job_inst_uid(uid, p->key, p->uid, &w->record.runs[k]);
            known = st->armed[i] == job_inst_hash(uid);
        }
        if (!known)
            st->armed[i] = 0;
    }
}

static void obey_offline(struct pass *p)
{
    struct job_state *st = p->state;
    struct policy_subject self = { p->kind->name, p->name, json_path(p->object, "metadata.labels") };
    bool was = st->stopped;
    st->stopped = p->env->policy != NULL && policy_stopped_offline(p->env->policy, &self, st->stop_why, sizeof(st->stop_why));
    if (st->stopped && !was)
        pass_event(p, false, "StoppedOffline", "Stop", "%s", st->stop_why);
}

static void look(struct pass *p, struct work *w)
{
    struct job_state *st = p->state;
    struct job_seen *s = &w->seen;
    *s = (struct job_seen){ .spec = &w->spec, .insts = w->observed.insts, .n_insts = w->observed.n, .key = p->key, .uid = p->uid };
    clock_instant(p->env->clock, &s->now.at);
    s->now.wall_s = s->now.at.wall_us / 1000000;
    s->spread = hash_bytes(hash_bytes(HASH_SEED, p->env->node, strlen(p->env->node)), p->key, strlen(p->key));
    s->late_since_ms = st->late ? st->late_since_ms : -1;
    drop_stale_armed(p, w);
    memcpy(s->armed, st->armed, sizeof(s->armed));
    load_zone(p, w);
    obey_offline(p);
    s->stopped = st->stopped;
    s->waits = w->refs.found.missing;
}

static int prepare(struct pass *p, struct work **out, struct err *e)
{
    struct job_state *st = p->state;
    struct work *w = arena_alloc(p->arena, sizeof(*w));
    if (w == NULL)
        return err_set(e, E_NOMEM, "pass");
    int rc = job_spec_decode(&w->spec, p->spec, p->env->node, p->arena, e);
    if (rc == 0)
        rc = process_resolve(&w->spec.process, p, false, &w->refs, e);
    if (rc == 0)
        rc = observe(p, &w->observed, e);
    if (rc == 0)
        rc = job_record_get(p, &w->spec, w->observed.insts, w->observed.n, &w->record, e);
    if (rc < 0)
        return rc;
    st->grace_ms = w->spec.process.grace_ms;
    st->has_grace = true;
    look(p, w);
    job_plan(&w->seen, &w->record, &w->plan);
    *out = w;
    return 0;
}

// --- What is told

// The tail of a run's log. Without a log, or with one that cannot be read, there is none.
static void read_tail(struct pass *p, const char *id, size_t max, struct buf *out)
{
    struct port *port = p->env->port;
    char name[JOB_LOG_NAME_MAX];
    struct err e = ERR_INIT;
    struct buf raw AUTO_BUF = BUF_INIT(JOB_OUTPUT_MAX);
    int64_t offset = -(int64_t)max;
    job_log_name(name, p->ns, p->name, id);
    int rc = max > 0 ? port->ops->log_read(port, name, &offset, max, &raw, &e) : 0;
    if (rc == 0)
        rc = job_tail_text(raw.data, raw.len, max, out, &e);
    if (rc < 0 && rc != E_NOTFOUND)
        log_warn("edgejob", "no_output key=%s run=%s error=\"%s\"", p->key, id, e.msg);
}

static void note_duration(const struct job_finished *f, char *out, size_t max)
{
    int64_t ms = job_age_ms(&f->start, &f->ended);
    out[0] = '\0';
    if (ms >= 0 && f->run.attempts > 0)
        snprintf(out, max, ", %" PRId64 ".%" PRId64 " s after it began", ms / 1000, ms % 1000 / 100);
}

static void finished_event(struct pass *p, const struct job_finished *f, const char *text, const char *output)
{
    static const char *const reasons[JOB_ENDS] = { "", "RunSucceeded", "RunFailed", "RunUnknown", "RunDeadlineExceeded", "RunReplaced" };
    char scheduled[64] = "", took[64], at[RFC3339_MAX];
    bool good = f->end == JOB_SUCCEEDED;
    size_t n = strlen(output), skip = n > NOTE_OUTPUT_MAX ? n - NOTE_OUTPUT_MAX : 0;
    while (skip > 0 && ((unsigned char)output[skip] & 0xC0) == 0x80)
        skip++;
    if (f->run.scheduled_s > 0)
        snprintf(scheduled, sizeof(scheduled), ", scheduled for %s", rfc3339_sec(f->run.scheduled_s * 1000000, at));
    note_duration(f, took, sizeof(took));
    pass_event_of(p, f->run.id, &f->ended, !good && f->end != JOB_REPLACED, reasons[f->end], "Run", "run %s-%s%s: %s%s; attempt %d%s%s",
                  p->name, f->run.id, scheduled, text, took, f->run.attempts, n > 0 ? ". Its output ends: " : "", output + skip);
}

// The finished runs as the history has them; an event each.
static struct json *tell_finished(struct pass *p, const struct work *w)
{
    struct json *list = json_array();
    for (size_t i = 0; i < w->plan.n_finished; i++) {
        const struct job_finished *f = &w->plan.finished[i];
        struct buf output AUTO_BUF = BUF_INIT(4 * JOB_OUTPUT_MAX);
        read_tail(p, f->run.id, (size_t)w->spec.output_max, &output);
        json_push(list, job_run_json(p->name, f, buf_str(&output)));
        finished_event(p, f, f->text, buf_str(&output));
    }
    return list;
}

static void tell_note(struct pass *p, const struct job_note *n)
{
    char text[256];
    switch (n->kind) {
    case JOB_NOTE_SKIPPED:
        pass_event(p, false, "RunSkipped", "Schedule", "a run was due while another was under way; concurrencyPolicy Forbid leaves it out");
        break;
    case JOB_NOTE_FULL:
        pass_event(p, true, "TooManyRuns", "Schedule", "a run was due while %d others were under way: it was left out", JOB_RUNS_MAX);
        break;
    case JOB_NOTE_MISSED:
        pass_event(p, true, "RunsMissed", "Schedule", "%" PRId64 "%s runs were missed", n->count,
                   n->count >= JOB_MISSED_MAX ? " or more" : "");
        break;
    case JOB_NOTE_RETRY:
        exit_text(&n->exit, text, sizeof(text));
        pass_event(p, true, "BackOff", "Run", "an attempt %s; the next one comes after %" PRId64 " s", text, n->delay_ms / 1000);
        break;
    }
}

// The logs of runs that are in the history no more.
static int drop_logs(struct pass *p, struct work *w, const struct json *runs, struct err *e)
{
    struct job_record *r = &w->record;
    struct port *port = p->env->port;
    char name[JOB_LOG_NAME_MAX];
    size_t kept = 0;
    int rc = 0;
    for (size_t i = 0; i < r->n_kept; i++) {
        const char *id = r->kept[i].id;
        bool goes = !job_history_has(runs, p->name, id) && job_record_run(r, id) == NULL;
        job_log_name(name, p->ns, p->name, id);
        if (goes && rc == 0)
            rc = port->ops->log_remove(port, name, e);
        if (!goes || rc < 0)
            r->kept[kept++] = r->kept[i];
    }
    w->plan.changed |= kept != r->n_kept;
    r->n_kept = kept;
    return rc;
}

static void correct_times(struct work *w, const char *job, struct json *runs)
{
    const struct instant *now = &w->seen.now.at;
    for (size_t i = 0; now->trusted && i < w->record.n_kept; i++) {
        struct job_kept *k = &w->record.kept[i];
        if (!k->timed)
            continue;
        job_history_correct(runs, job, k, now);
        k->timed = false;
        w->plan.changed = true;
    }
}

static int tell(struct pass *p, struct work *w, struct err *e)
{
    const struct json *prev = status_prev(p->status);
    struct json *runs = job_history(&w->spec, json_get(prev, "runs"), tell_finished(p, w));
    for (size_t i = 0; i < w->plan.n_notes; i++)
        tell_note(p, &w->plan.notes[i]);
    correct_times(w, p->name, runs);
    int rc = drop_logs(p, w, runs, e);
    json_set(status_body(p->status), "runs", runs);
    return rc;
}

// --- Acting

static int start_run(struct pass *p, struct work *w, const char *id, struct err *e)
{
    struct port *port = p->env->port;
    const struct job_run *run = job_record_run(&w->record, id);
    const struct process *proc = &w->spec.process;
    struct account who;
    char uid[INST_UID_MAX], log_name[JOB_LOG_NAME_MAX], name[OBJ_NAME_MAX + JOB_ID_MAX], at[RFC3339_MAX] = "", attempt[16];
    struct inst_spec is = { .uid = uid,
                            .runtime = "exec", // a run must not start by itself at the next boot
                            .owner = p->key,
                            .revision = proc->revision,
                            .index = run->attempts,
                            .log_name = log_name,
                            .log_max = proc->log_max,
                            .log_files = proc->log_files,
                            .grace_ms = MAX(proc->grace_ms, 1),
                            .limits = proc->limits };
    job_inst_uid(uid, p->key, p->uid, run);
    job_log_name(log_name, p->ns, p->name, id);
    job_run_name(name, sizeof(name), p->name, id);
    snprintf(attempt, sizeof(attempt), "%d", run->attempts);
    if (run->scheduled_s > 0)
        rfc3339_sec(run->scheduled_s * 1000000, at);
    const struct env_var own[] = { { "LIMPET_RUN", name }, { "LIMPET_ATTEMPT", attempt }, { "LIMPET_SCHEDULED", at } };
    process_account(p->env->disk, proc, &who);
    log_info("edgejob", "start key=%s run=%s attempt=%d revision=%s", p->key, id, run->attempts, proc->revision);
    int rc = process_exec_env(proc, own, ARRAY_LEN(own), &who, p->arena, &is.exec, e);
    if (rc == 0)
        rc = port->ops->start(port, &is, e);
    if (rc < 0)
        return err_wrap(e, "starting run %s", id);
    forget_armed(p->state, job_inst_hash(uid));
    if (w->refs.skipped[0] != '\0')
        pass_event(p, true, "InvalidEnvironmentVariableNames", "Start", "of envFrom these are no variables: %s", w->refs.skipped);
    return 0;
}

static int take_step(struct pass *p, struct work *w, const struct job_step *s, struct err *e)
{
    struct port *port = p->env->port;
    switch (s->kind) {
    case JOB_START:
        return start_run(p, w, s->run, e);
    case JOB_STOP:
        log_info("edgejob", "stop key=%s instance=%s", p->key, s->inst->uid);
        return port->ops->stop(port, s->inst->uid, w->spec.process.grace_ms, e);
    case JOB_FORGET:
        return port->ops->forget(port, s->inst->uid, e);
    }
    return 0;
}

// One failure does not keep the others from what they need; the first one is returned. Before the commit only what ends, ends.
static int act(struct pass *p, struct work *w, bool committed, struct err *e)
{
    int first = 0;
    for (size_t i = 0; i < w->plan.n_steps; i++) {
        struct err local = ERR_INIT;
        if (!committed && w->plan.steps[i].kind != JOB_STOP)
            continue;
        int rc = take_step(p, w, &w->plan.steps[i], &local);
        if (rc < 0 && first == 0) {
            first = rc;
            *e = local;
        }
    }
    return first;
}

static void arm(struct job_state *st, const struct job_plan *plan)
{
    for (size_t k = 0; k < plan->n_begun; k++)
        for (size_t i = 0; i < JOB_RUNS_MAX; i++)
            if (st->armed[i] == 0 || st->armed[i] == plan->begun[k]) {
                st->armed[i] = plan->begun[k];
                break;
            }
}

// --- The pass

// What waits is a run that has not begun; what runs has what it needs.
static const char *waits_for(const struct work *w)
{
    for (size_t i = 0; i < w->record.n_runs && w->refs.found.missing; i++)
        if (!w->record.runs[i].begun)
            return w->refs.found.why;
    return NULL;
}

static void report(struct pass *p, struct work *w, const char *error)
{
    const struct job_state *st = p->state;
    struct job_report r = { p->name, &w->spec, &w->record, &w->seen, &w->plan, w->zone_error.msg, st->stop_why, error, waits_for(w) };
    job_report_write(p->status, &r);
    references_condition(&w->refs.found, p->status);
}

// Nothing new is known: what was reported stands.
static int unknown(struct pass *p, int rc)
{
    status_keep_prev(p->status);
    return rc;
}

static void come_back(struct pass *p, const struct job_plan *plan)
{
    p->requeue_ms = plan->wait_ms <= LONG_WAIT_MS ? plan->wait_ms : 0;
}

static int job_reconcile(struct pass *p, struct err *e)
{
    struct job_state *st = p->state;
    struct work *w;
    struct err told = ERR_INIT;
    int rc = prepare(p, &w, e);
    if (rc < 0)
        return unknown(p, rc);
    bool decided = w->plan.changed;
    st->late = w->plan.late_since_ms >= 0;
    st->late_since_ms = w->plan.late_since_ms;
    if (tell(p, w, &told) < 0)
        log_warn("edgejob", "log_not_removed key=%s error=\"%s\"", p->key, told.msg);
    if (w->plan.changed)
        rc = job_record_save(p->env->db, p->key, &w->record, e);
    if (rc < 0)
        return unknown(p, rc);
    arm(st, &w->plan);
    rc = act(p, w, !decided, e);
    report(p, w, rc < 0 ? e->msg : NULL);
    if (decided)
        return pass_after_commit(p);
    if (rc == 0)
        come_back(p, &w->plan);
    return rc;
}

// --- The end

static int remove_log(struct pass *p, const char *id, struct err *e)
{
    char name[JOB_LOG_NAME_MAX];
    job_log_name(name, p->ns, p->name, id);
    return p->env->port->ops->log_remove(p->env->port, name, e);
}

static int remove_logs(struct pass *p, struct err *e)
{
    struct job_record *r = arena_alloc(p->arena, sizeof(*r));
    struct err unread = ERR_INIT;
    if (r == NULL)
        return err_set(e, E_NOMEM, "record");
    if (job_record_load(p->env->db, p->key, r, &unread) < 0) {
        if (unread.cls != E_NOTFOUND)
            log_warn("edgejob", "logs_left key=%s error=\"%s\"", p->key, unread.msg);
        return 0;
    }
    int rc = 0;
    for (size_t i = 0; i < r->n_kept && rc == 0; i++)
        rc = remove_log(p, r->kept[i].id, e);
    for (size_t i = 0; i < r->n_runs && rc == 0; i++)
        rc = remove_log(p, r->runs[i].id, e);
    return rc;
}

static int end_instance(struct pass *p, const struct inst *i, struct err *e)
{
    const struct job_state *st = p->state;
    struct port *port = p->env->port;
    if (i->state == INST_EXITED)
        return port->ops->forget(port, i->uid, e);
    return i->state == INST_STOPPING ? 0 : port->ops->stop(port, i->uid, st->has_grace ? st->grace_ms : GRACE_OF_START, e);
}

static int job_gone(struct pass *p, struct err *e)
{
    int rc = observe_ended(p, end_instance, e);
    return rc < 0 ? rc : remove_logs(p, e);
}

static void job_fini(const struct kind_env *env, void *state)
{
    struct job_state *st = state;
    (void)env;
    tz_free(st->zone);
    st->zone = NULL;
}

// --- For people

static int job_differences(struct pass *p, struct json *out, struct err *e)
{
    static const char *const want[] = { [JOB_START] = "running", [JOB_STOP] = "stopped" };
    struct work *w;
    char path[OBJ_NAME_MAX + JOB_ID_MAX];
    int rc = prepare(p, &w, e);
    for (size_t i = 0; rc == 0 && i < w->record.n_runs; i++) {
        const struct job_run *run = &w->record.runs[i];
        job_run_name(path, sizeof(path), p->name, run->id);
        if (!run->begun)
            difference_add(out, path, "state", "running", run->attempts > 0 ? "its last attempt failed, the next one waits" : "waits");
        else if (run->stop != JOB_NO_END || job_run_inst(&w->seen, run) == NULL)
            difference_add(out, path, "state", want[run->stop != JOB_NO_END ? JOB_STOP : JOB_START],
                           run->stop != JOB_NO_END ? "running" : "not started");
    }
    return rc;
}

static const char *newest_run(const struct json *status)
{
    const struct json *active = json_get(status, "active"), *runs = json_get(status, "runs");
    const struct json *run = json_len(active) > 0 ? json_at(active, json_len(active) - 1) : json_at(runs, 0);
    return json_str(json_get(run, "name"));
}

int job_log_find(const struct json *status, const char *ns, const char *job, const char *run, char out[JOB_LOG_NAME_MAX], struct err *e)
{
    size_t n = strlen(job);
    if (run == NULL)
        run = newest_run(status);
    if (run == NULL)
        return err_set(e, E_NOTFOUND, "%s did not run yet", job);
    if (strncmp(run, job, n) == 0 && run[n] == '-')
        run += n + 1;
    if (strlen(run) >= JOB_ID_MAX || run[0] == '\0' || run[strspn(run, "0123456789abcdefs-")] != '\0')
        return err_set(e, E_NOTFOUND, "%s has no run \"%.100s\"", job, run);
    job_log_name(out, ns, job, run);
    return 0;
}

static const char *const job_short_names[] = { "ejob", NULL };
static const char *const job_conditions[] = { "Accepted", "Ready",        "Scheduled", "Suspended", "Complete",
                                              "Failed",   "ResolvedRefs", "Waiting",   NULL };

const struct kind kind_edgejob = {
    .type = { "edge.limpet.dev", "v1alpha1", "edgejobs" },
    .name = "EdgeJob",
    .short_names = job_short_names,
    .conditions = job_conditions,
    .state_size = sizeof(struct job_state),
    .max_concurrent = 8,
    .write_status = true,
    .follows_clock = true,
    .check = job_check,
    .reconcile = job_reconcile,
    .disturbs = job_disturbs,
    .gone = job_gone,
    .fini = job_fini,
    .differences = job_differences,
};
