// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgejob_status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/sha256.h"
#include "base/utf8.h"

// --- Names

void job_run_name(char *out, size_t max, const char *job, const char *id)
{
    snprintf(out, max, "%s-%s", job, id);
}

// The last '.' parts the job from the run: an id has none. An app's log ends in "_<number>", so none of them is the same.
void job_log_name(char out[JOB_LOG_NAME_MAX], const char *ns, const char *job, const char *id)
{
    enum { HEAD_MAX = 180 };
    char whole[512], hex[SHA256_HEX];
    snprintf(whole, sizeof(whole), "%s_%s", ns, job);
    sha256_hex(whole, strlen(whole), hex);
    if (strlen(whole) <= HEAD_MAX)
        snprintf(out, JOB_LOG_NAME_MAX, "%.*s.%s", HEAD_MAX, whole, id);
    else
        snprintf(out, JOB_LOG_NAME_MAX, "%.*s-%.12s.%s", HEAD_MAX, whole, hex, id);
}

// --- Output

static int add_character(const char *s, size_t n, struct buf *out, struct err *e)
{
    unsigned char c = (unsigned char)s[0];
    bool control = n == 1 && ((c < ' ' && c != '\n' && c != '\t') || c == 0x7f);
    if (n == 0 || (control && c != '\r'))
        return buf_adds(out, "?", e);
    return control ? 0 : buf_add(out, s, n, e);
}

int job_tail_text(const char *bytes, size_t n, size_t max, struct buf *out, struct err *e)
{
    size_t at = n > max ? n - max : 0;
    int rc = 0;
    while (at > 0 && at < n && ((unsigned char)bytes[at] & 0xC0) == 0x80) // not from the middle of a character
        at++;
    for (size_t step; at < n && rc == 0; at += MAX(step, (size_t)1)) {
        step = utf8_seq(bytes + at, n - at);
        rc = add_character(bytes + at, step, out, e);
    }
    return rc;
}

// --- The history

static void set_time(struct json *j, const char *name, int64_t us)
{
    char at[RFC3339_MAX];
    json_set_str(j, name, rfc3339_sec(us, at));
}

static void set_exit(struct json *j, const struct inst_exit *x)
{
    if (x->known && x->signal == 0 && x->start_errno == 0)
        json_set_int(j, "exitCode", x->code & 0xff);
    if (x->signal > 0)
        json_set_int(j, "signal", x->signal);
    if (x->reason[0] != '\0')
        json_set_str(j, "reason", x->reason);
}

struct json *job_run_json(const char *job, const struct job_finished *f, const char *output)
{
    char name[OBJ_NAME_MAX + JOB_ID_MAX];
    struct json *j = json_object();
    job_run_name(name, sizeof(name), job, f->run.id);
    json_set_str(j, "name", name);
    if (f->run.scheduled_s > 0)
        set_time(j, "scheduledTime", f->run.scheduled_s * 1000000);
    set_time(j, "startTime", f->start.wall_us);
    set_time(j, "completionTime", f->ended.wall_us);
    json_set_str(j, "outcome", job_end_words[f->end]);
    json_set_int(j, "attempts", f->run.attempts);
    if (f->ran)
        set_exit(j, &f->exit);
    if (output[0] != '\0')
        json_set_str(j, "output", output);
    return j;
}

static const char *text_of(const struct json *j, const char *name)
{
    const char *s = json_str(json_get(j, name));
    return s != NULL ? s : "";
}

static bool is_kept(const struct job_spec *spec, const struct json *run, int *succeeded, int *failed)
{
    bool good = strcmp(text_of(run, "outcome"), job_end_words[JOB_SUCCEEDED]) == 0;
    return good ? ++*succeeded <= spec->keep_succeeded : ++*failed <= spec->keep_failed;
}

struct json *job_history(const struct job_spec *spec, const struct json *prev_runs, struct json *new_runs)
{
    int succeeded = 0, failed = 0;
    struct json *list = json_array();
    for (size_t i = json_len(new_runs); i-- > 0;)
        if (is_kept(spec, json_at(new_runs, i), &succeeded, &failed))
            json_push(list, json_copy(json_at(new_runs, i)));
    json_each(run, prev_runs) if (is_kept(spec, run, &succeeded, &failed)) json_push(list, json_copy(run));
    json_free(new_runs);
    return list;
}

static struct json *find_run(const struct json *runs, const char *job, const char *id)
{
    char name[OBJ_NAME_MAX + JOB_ID_MAX];
    job_run_name(name, sizeof(name), job, id);
    json_each(run, runs) if (strcmp(text_of(run, "name"), name) == 0) return (struct json *)run;
    return NULL;
}

bool job_history_has(const struct json *runs, const char *job, const char *id)
{
    return find_run(runs, job, id) != NULL;
}

static void correct(struct json *run, const char *name, const struct instant *then, const struct instant *now)
{
    if (!then->trusted && strcmp(then->boot_id, now->boot_id) == 0)
        set_time(run, name, now->wall_us - (now->boot_ms - then->boot_ms) * 1000);
}

void job_history_correct(struct json *runs, const char *job, const struct job_kept *k, const struct instant *now)
{
    struct json *run = find_run(runs, job, k->id);
    if (run == NULL)
        return;
    correct(run, "startTime", &k->start, now);
    correct(run, "completionTime", &k->end, now);
}

// --- The whole

static int64_t best_wall_us(const struct instant *then, const struct instant *now)
{
    int64_t age = job_age_ms(then, now);
    return then->trusted || !now->trusted || age < 0 ? then->wall_us : now->wall_us - age * 1000;
}

static struct json *active_json(const struct job_report *r)
{
    char name[OBJ_NAME_MAX + JOB_ID_MAX];
    struct json *list = json_array();
    for (size_t i = 0; i < r->record->n_runs; i++) {
        const struct job_run *run = &r->record->runs[i];
        struct json *j = json_object();
        job_run_name(name, sizeof(name), r->job, run->id);
        json_set_str(j, "name", name);
        if (run->scheduled_s > 0)
            set_time(j, "scheduledTime", run->scheduled_s * 1000000);
        if (run->attempts > 0)
            set_time(j, "startTime", best_wall_us(&run->first, &r->seen->now.at));
        json_set_int(j, "attempts", run->attempts);
        json_set_str(j, "state", run->stop != JOB_NO_END ? "Stopping" : run->begun ? "Running" : run->attempts > 0 ? "BackOff" : "Waiting");
        json_push(list, j);
    }
    return list;
}

static bool any_run(const struct job_record *r, bool (*fits)(const struct job_run *run))
{
    for (size_t i = 0; i < r->n_runs; i++)
        if (fits(&r->runs[i]))
            return true;
    return false;
}

static bool is_running(const struct job_run *run)
{
    return run->begun && run->stop == JOB_NO_END;
}

static bool is_stopping(const struct job_run *run)
{
    return run->stop != JOB_NO_END;
}

// A one-shot whose newest run was made for what the spec says now, and ended.
static bool is_over(const struct job_report *r)
{
    return !r->spec->scheduled && r->record->n_runs == 0 && strcmp(r->record->done, r->spec->process.revision) == 0;
}

static bool can_schedule(const struct job_report *r)
{
    return r->seen->zone_ok && r->seen->now.at.trusted;
}

static const char *state_word(const struct job_report *r)
{
    static const char *const ends[JOB_ENDS] = { "Pending", "Succeeded", "Failed", "Unknown", "Failed", "Failed" };
    if (any_run(r->record, is_running))
        return "Running";
    if (any_run(r->record, is_stopping))
        return "Stopping";
    if (is_over(r))
        return ends[r->record->last_end];
    if (r->spec->suspend || r->seen->stopped)
        return "Suspended";
    if (r->spec->scheduled && !can_schedule(r))
        return "Waiting";
    if (r->record->n_runs > 0)
        return "BackOff";
    return r->spec->scheduled ? "Scheduled" : "Pending";
}

static void scheduled_condition(struct status *s, const struct job_report *r)
{
    char at[RFC3339_MAX];
    if (r->spec->suspend)
        status_cond(s, "Scheduled", COND_FALSE, "Suspended", "spec.suspend is true");
    else if (r->seen->stopped)
        status_cond(s, "Scheduled", COND_FALSE, "StoppedOffline", "%s", r->stop_why);
    else if (!r->seen->zone_ok)
        status_cond(s, "Scheduled", COND_FALSE, "UnknownTimeZone", "%s", r->zone_error);
    else if (!r->seen->now.at.trusted)
        status_cond(s, "Scheduled", COND_FALSE, "ClockUntrusted",
                    "nobody vouches for the clock of this machine; nothing scheduled runs until somebody does");
    else if (r->plan->next_instant_s < 0)
        status_cond(s, "Scheduled", COND_FALSE, "NeverDue", "this schedule names no time within the next years");
    else
        status_cond(s, "Scheduled", COND_TRUE, "Scheduled", "next at %s", rfc3339_sec(r->plan->next_instant_s * 1000000, at));
}

static void failed_condition(struct status *s, const struct job_report *r)
{
    static const char *const reasons[JOB_ENDS] = { [JOB_FAILED] = "BackoffLimitExceeded",
                                                   [JOB_UNKNOWN] = "OutcomeUnknown",
                                                   [JOB_DEADLINE_EXCEEDED] = "DeadlineExceeded",
                                                   [JOB_REPLACED] = "Replaced" };
    const char *why = is_over(r) ? reasons[r->record->last_end] : NULL;
    if (why != NULL)
        status_cond(s, "Failed", COND_TRUE, why, "%s", r->record->last_text);
    else
        status_cond(s, "Failed", COND_FALSE, "NotFailed", "no run of this revision failed for good");
}

static void complete_condition(struct status *s, const struct job_report *r)
{
    if (is_over(r) && r->record->last_end == JOB_SUCCEEDED)
        status_cond(s, "Complete", COND_TRUE, "Succeeded", "%s", r->record->last_text);
    else
        status_cond(s, "Complete", COND_FALSE, state_word(r), "it has not succeeded yet");
}

static void ready_one_shot(struct status *s, const struct job_report *r)
{
    if (is_over(r) && r->record->last_end == JOB_SUCCEEDED)
        status_cond(s, "Ready", COND_TRUE, "Succeeded", "%s", r->record->last_text);
    else if (is_over(r))
        status_cond(s, "Ready", COND_FALSE, job_end_words[r->record->last_end], "%s", r->record->last_text);
    else
        status_cond(s, "Ready", COND_FALSE, state_word(r), "%s", r->record->n_runs > 0 ? "a run is under way" : "it did not run yet");
}

static void ready_scheduled(struct status *s, const struct job_report *r)
{
    enum job_end last = r->record->last_end;
    if (r->spec->suspend || r->seen->stopped || !can_schedule(r) || r->plan->next_instant_s < 0)
        status_cond(s, "Ready", COND_FALSE, "NotScheduled", "no run is scheduled: see the condition Scheduled");
    else if (last == JOB_NO_END || last == JOB_SUCCEEDED || last == JOB_REPLACED)
        status_cond(s, "Ready", COND_TRUE, "Scheduled", "%s", last == JOB_NO_END ? "no run ended yet" : "the last run did not fail");
    else
        status_cond(s, "Ready", COND_FALSE, "LastRunFailed", "%s: %s", job_end_words[last], r->record->last_text);
}

// A condition that speaks of the other sort of job: only to take back what was said before a schedule came or went.
static void not_for_this_sort(struct status *s, const char *type, const char *reason, const char *text)
{
    bool present;
    (void)status_cond_value(s, type, &present);
    if (present)
        status_cond(s, type, COND_FALSE, reason, "%s", text);
}

static void suspended_condition(struct status *s, const struct job_report *r)
{
    if (r->spec->suspend)
        status_cond(s, "Suspended", COND_TRUE, "Suspended", "nothing is started; what runs may end");
    else if (r->seen->stopped)
        status_cond(s, "Suspended", COND_TRUE, "StoppedOffline", "%s", r->stop_why);
    else
        status_cond(s, "Suspended", COND_FALSE, "NotSuspended", "spec.suspend is not set");
}

static void conditions(struct status *s, const struct job_report *r)
{
    suspended_condition(s, r);
    if (r->spec->scheduled) {
        scheduled_condition(s, r);
        ready_scheduled(s, r);
        not_for_this_sort(s, "Complete", "Scheduled", "a job with a schedule is never complete");
        not_for_this_sort(s, "Failed", "Scheduled", "a job with a schedule goes on after a failed run");
    } else {
        complete_condition(s, r);
        failed_condition(s, r);
        ready_one_shot(s, r);
        not_for_this_sort(s, "Scheduled", "NoSchedule", "spec.schedule is not set");
    }
    if (r->seen->stopped && !is_over(r))
        status_cond(s, "Ready", COND_FALSE, "StoppedOffline", "%s", r->stop_why);
    if (r->waits_for != NULL)
        status_cond(s, "Ready", COND_FALSE, "CreateContainerConfigError", "%s", r->waits_for);
    if (r->error != NULL)
        status_cond(s, "Ready", COND_FALSE, "StartFailed", "%s", r->error);
}

void job_report_write(struct status *s, const struct job_report *r)
{
    struct json *body = status_body(s);
    const struct job_record *rec = r->record;
    json_set_str(body, "state", state_word(r));
    json_set_str(body, "revision", r->spec->process.revision);
    json_set(body, "active", active_json(r));
    json_set_int(body, "succeeded", rec->succeeded);
    json_set_int(body, "failed", rec->failed);
    json_set_int(body, "skipped", rec->skipped);
    json_set_int(body, "missed", rec->missed);
    if (rec->last_scheduled_s > 0)
        set_time(body, "lastScheduleTime", rec->last_scheduled_s * 1000000);
    if (rec->last_success_s > 0)
        set_time(body, "lastSuccessfulTime", rec->last_success_s * 1000000);
    if (r->spec->scheduled && !r->spec->suspend && r->plan->next_instant_s >= 0)
        set_time(body, "nextScheduleTime", r->plan->next_instant_s * 1000000);
    conditions(s, r);
}
