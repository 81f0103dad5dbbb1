// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgejob_rebuild.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/num.h"

static const char *text_of(const struct json *j, const char *name)
{
    const char *s = json_str(json_get(j, name));
    return s != NULL ? s : "";
}

static int64_t count_of(const struct json *j, const char *name)
{
    int64_t v;
    return json_i64(json_get(j, name), &v) && v > 0 ? v : 0;
}

static int64_t second_of(const struct json *j, const char *name)
{
    int64_t us = 0;
    return rfc3339_parse(text_of(j, name), &us) && us > 0 ? us / 1000000 : 0;
}

static bool is_one_of(const char *s, const char *const *words)
{
    for (; *words != NULL; words++)
        if (strcmp(s, *words) == 0)
            return true;
    return false;
}

static enum job_end end_of_state(const char *state)
{
    if (strcmp(state, "Succeeded") == 0)
        return JOB_SUCCEEDED;
    if (strcmp(state, "Unknown") == 0)
        return JOB_UNKNOWN;
    return strcmp(state, "Failed") == 0 ? JOB_FAILED : JOB_NO_END;
}

static void decide_instant(struct job_record *r, int64_t at_s)
{
    if (at_s <= 0)
        return;
    r->last_scheduled_s = MAX(r->last_scheduled_s, at_s);
    if (r->n_spans == 0)
        r->spans[r->n_spans++] = (struct job_span){ at_s, at_s };
    r->spans[0].from = MIN(r->spans[0].from, at_s);
    r->spans[0].to = MAX(r->spans[0].to, at_s);
}

// "<hex>-<n>": numbers of one-shots are not given twice.
static void note_number(struct job_record *r, const char *id)
{
    int64_t n;
    const char *dash = strrchr(id, '-');
    if (dash != NULL && num_i64(dash + 1, 1, INT32_MAX, &n, NULL) == 0)
        r->runs_made = MAX(r->runs_made, n);
}

static struct job_run *add_run(struct job_record *r, const struct job_run *run, const struct job_spec *spec)
{
    if (r->n_runs == JOB_RUNS_MAX)
        return NULL;
    struct job_run *new = &r->runs[r->n_runs++];
    *new = *run;
    new->once = spec->once;
    decide_instant(r, new->scheduled_s);
    note_number(r, new->id);
    return new;
}

// A run that the status calls active. What is not waiting was begun; the port knows more.
static void add_active(struct job_record *r, const struct json *j, const char *job, const struct job_spec *spec)
{
    struct job_run run = { .attempts = (int)MIN(count_of(j, "attempts"), (int64_t)INT32_MAX) };
    const char *name = text_of(j, "name"), *state = text_of(j, "state");
    size_t n = strlen(job);
    if (strncmp(name, job, n) != 0 || name[n] != '-' || strlen(name + n + 1) >= JOB_ID_MAX)
        return;
    snprintf(run.id, sizeof(run.id), "%s", name + n + 1);
    run.begun = run.attempts > 0 && strcmp(state, "BackOff") != 0;
    run.scheduled_s = second_of(j, "scheduledTime");
    snprintf(run.revision, sizeof(run.revision), "%s", spec->process.revision);
    (void)add_run(r, &run, spec);
}

static void from_status(struct pass *p, struct job_record *r, const struct json *prev, const struct job_spec *spec)
{
    static const char *const begun[] = { "Running", "Stopping", "BackOff", "Succeeded", "Failed", "Unknown", NULL };
    r->succeeded = count_of(prev, "succeeded");
    r->failed = count_of(prev, "failed");
    r->skipped = count_of(prev, "skipped");
    r->missed = count_of(prev, "missed");
    r->last_success_s = second_of(prev, "lastSuccessfulTime");
    decide_instant(r, second_of(prev, "lastScheduleTime"));
    json_each(j, json_get(prev, "active")) add_active(r, j, p->name, spec);
    json_each(j, json_get(prev, "runs")) note_number(r, text_of(j, "name"));
    if (is_one_of(text_of(prev, "state"), begun) && strlen(text_of(prev, "revision")) < INST_REV_MAX)
        snprintf(r->done, sizeof(r->done), "%s", text_of(prev, "revision"));
    r->last_end = end_of_state(text_of(prev, "state"));
}

// An attempt that the port has and nobody remembers.
static void adopt(struct pass *p, struct job_record *r, const struct inst *i, const struct job_spec *spec)
{
    struct job_run run;
    if (!job_inst_parse(i->uid, p->key, p->uid, &run))
        return;
    struct job_run *known = job_record_run(r, run.id);
    if (known != NULL) {
        known->begun = known->begun || run.attempts > known->attempts;
        known->attempts = MAX(known->attempts, run.attempts);
        return;
    }
    snprintf(run.revision, sizeof(run.revision), "%s", i->revision);
    run.first = i->started;
    if (add_run(r, &run, spec) != NULL && run.scheduled_s == 0)
        snprintf(r->done, sizeof(r->done), "%s", i->revision);
}

// Nothing tells whether it ran, and it must not run twice: as if it had been begun, and nobody knew more.
static void presume_begun(struct job_record *r, const struct job_spec *spec)
{
    struct job_run run = { .attempts = 1, .begun = true };
    const char *revision = spec->process.revision, *hex = strchr(revision, '-');
    snprintf(run.id, sizeof(run.id), "%.12s-%lld", hex != NULL ? hex + 1 : revision, (long long)r->runs_made + 1);
    snprintf(run.revision, sizeof(run.revision), "%s", revision);
    snprintf(r->done, sizeof(r->done), "%s", revision);
    (void)add_run(r, &run, spec);
}

static void rebuild(struct pass *p, const struct job_spec *spec, const struct inst *insts, size_t n, bool damaged, struct job_record *r)
{
    const struct json *prev = p->status != NULL ? status_prev(p->status) : NULL;
    bool told = json_get(prev, "state") != NULL;
    *r = (struct job_record){ 0 };
    snprintf(r->uid, sizeof(r->uid), "%s", p->uid);
    if (told)
        from_status(p, r, prev, spec);
    for (size_t i = 0; i < n; i++)
        adopt(p, r, &insts[i], spec);
    if (damaged && !told && spec->once && !spec->scheduled && r->n_runs == 0)
        presume_begun(r, spec);
    if (damaged || told)
        log_warn("edgejob", "record_rebuilt key=%s damaged=%d runs=%zu", p->key, damaged, r->n_runs);
}

// The object was made again under its name: a new job. Of the former one only its logs are left to see to.
static void begin_anew(struct pass *p, struct job_record *r)
{
    struct job_record *former = arena_alloc(p->arena, sizeof(*former));
    const struct instant none = { .trusted = true };
    if (former != NULL)
        *former = *r;
    *r = (struct job_record){ 0 };
    snprintf(r->uid, sizeof(r->uid), "%s", p->uid);
    for (size_t i = 0; former != NULL && i < former->n_kept; i++)
        job_record_keep(r, former->kept[i].id, &none, &none);
    for (size_t i = 0; former != NULL && i < former->n_runs; i++)
        job_record_keep(r, former->runs[i].id, &none, &none);
}

int job_record_get(struct pass *p, const struct job_spec *spec, const struct inst *insts, size_t n, struct job_record *out, struct err *e)
{
    struct err why = ERR_INIT;
    int rc = job_record_load(p->env->db, p->key, out, &why);
    if (rc < 0 && rc != E_NOTFOUND && rc != E_CORRUPT) {
        *e = why;
        return rc;
    }
    if (rc < 0)
        rebuild(p, spec, insts, n, rc == E_CORRUPT, out);
    else if (strcmp(out->uid, p->uid) != 0)
        begin_anew(p, out);
    return 0;
}
