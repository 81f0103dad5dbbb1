// SPDX-License-Identifier: Apache-2.0
// EdgeJobs: what users want of them, and what must be true of their runs.
//
// Four jobs, each of a sort of its own. The uid of an instance names run and attempt ("<run>-<attempt>"), so no uid is ever started twice,
// whatever died meanwhile; and an AtMostOnce run has one attempt. An AtLeastOnce run is not given up before its last attempt, and one that
// was due while nobody was there, or while the clock could not be trusted, is caught up within its startingDeadlineSeconds.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kinds/edgejob_spec.h"
#include "sim_world.h"

enum { SPEC_MEMORY = 1 << 20, SPEC_MAX = 500, BACKOFF_LIMIT = 2, EVERY_MIN = 7, DEADLINE_S = 360 };
#define CAUGHT_UP 3 // the job whose runs are caught up
#define CAUGHT_UP_KEY "edgejobs/" SIM_NS "/job-3"

static const struct {
    const char *fields;
    bool at_most_once, alone; // alone: never two instances at a time
    struct fake_behaviour runs;
} sorts[JOBS] = {
    { "\"execution\":\"AtMostOnce\"", true, true, { .start_ms = 40, .run_ms = 60000, .stop_ms = 100 } },
    { "\"execution\":\"AtLeastOnce\",\"backoffLimit\":2", false, true, { .start_ms = 40, .run_ms = 3000, .exit_code = 1, .stop_ms = 100 } },
    { "\"schedule\":\"*/10 * * * *\",\"execution\":\"AtMostOnce\",\"concurrencyPolicy\":\"Forbid\"", true, true, { .run_ms = 200000 } },
    { "\"schedule\":\"*/7 * * * *\",\"startingDeadlineSeconds\":360,\"concurrencyPolicy\":\"Replace\",\"backoffLimit\":2",
      false,
      true,
      { .run_ms = 480000, .stop_ms = 100 } },
};

struct job_run {
    struct list link;
    char run[INST_UID_MAX];
    int job, attempts;
};

// --- Users

static void name_of(int64_t job, char out[16])
{
    snprintf(out, 16, "job-%d", (int)job);
}

void user_edits_job(struct world *w, const struct act *a)
{
    char name[16], owner[64], spec[SPEC_MAX];
    struct sim_rng r = { a->seed };
    name_of(a->a, name);
    struct sim_object *o = sim_server_find(&w->server, "edgejobs", name);
    if (!sim_type_find(&w->server, "edge.limpet.dev", "v1alpha1", "edgejobs")->served)
        return;
    snprintf(spec, sizeof(spec), "{\"command\":[\"/bin/job\",\"%d\"],\"suspend\":%s,%s}", a->number, rng_chance(&r, 10) ? "true" : "false",
             sorts[a->a].fields);
    snprintf(owner, sizeof(owner), "edgejobs/" SIM_NS "/%s", name);
    port_fake_behave(w->port.port, owner, &sorts[a->a].runs);
    if (o == NULL)
        o = sim_server_create(&w->server, "edgejobs", name, spec);
    else
        sim_server_set_spec(&w->server, o, spec);
    history_edited(w, o);
}

void user_deletes_job(struct world *w, const struct act *a)
{
    char name[16];
    name_of(a->a, name);
    struct sim_object *o = sim_server_find(&w->server, "edgejobs", name);
    if (o == NULL)
        return;
    history_deleted(w, o);
    sim_server_delete(&w->server, o);
}

void kill_job_shims(struct world *w, const struct act *a)
{
    char name[16], owner[64];
    name_of(a->a, name);
    snprintf(owner, sizeof(owner), "edgejobs/" SIM_NS "/%s", name);
    if (port_fake_lose(w->port.port, owner, -1) > 0)
        sim_hit(&w->sim, F_SHIM_KILLED);
}

// --- Runs

static struct job_run *run_of(struct world *w, const char *uid)
{
    size_t n = (size_t)(strrchr(uid, '-') != NULL ? strrchr(uid, '-') - uid : 0);
    list_each(it, &w->rules.runs) {
        struct job_run *x = container_of(it, struct job_run, link);
        if (strlen(x->run) == n && strncmp(x->run, uid, n) == 0)
            return x;
    }
    return NULL;
}

bool rules_is_job(struct world *w, const char *uid)
{
    return run_of(w, uid) != NULL;
}

static struct job_run *run_add(struct world *w, int job, const char *uid)
{
    struct job_run *x = calloc(1, sizeof(*x));
    if (x == NULL)
        abort();
    x->job = job;
    snprintf(x->run, sizeof(x->run), "%.*s", (int)(strrchr(uid, '-') - uid), uid);
    list_add_tail(&w->rules.runs, &x->link);
    return x;
}

static int is_live(void *ctx UNUSED, const struct inst *i)
{
    return i->state != INST_EXITED;
}

// An instance is about to be started; suspended: so says the spec that is committed.
void rules_job_start(struct world *w, const struct inst_spec *s, bool suspended)
{
    int job = s->owner[strlen(s->owner) - 1] - '0', attempt = atoi(strrchr(s->uid, '-') + 1);
    struct job_run *x = run_of(w, s->uid);
    x = x != NULL ? x : run_add(w, job, s->uid);
    if (w->rules.jobs_forgotten || w->witness.store_rots)
        return;
    if (attempt <= x->attempts)
        sim_violation(&w->sim, "%s: attempt %s is made a second time", s->owner, s->uid);
    x->attempts = attempt;
    if (attempt > (sorts[job].at_most_once ? 1 : 1 + BACKOFF_LIMIT))
        sim_violation(&w->sim, "%s: attempt %s is one too many", s->owner, s->uid);
    if (suspended)
        sim_violation(&w->sim, "%s: %s is started although it is suspended", s->owner, s->uid);
    if (strstr(sorts[job].fields, "schedule") != NULL && attempt == 1 && !clock_trusted(&w->clock.clock))
        sim_violation(&w->sim, "%s: %s is begun by a clock that is not trusted", s->owner, s->uid);
    if (sorts[job].alone && w->port.fake->each(w->port.port, s->owner, is_live, NULL, NULL) != 0)
        sim_violation(&w->sim, "%s: %s is started beside another", s->owner, s->uid);
}

// --- What was due

// The agent is not there, its clock cannot be trusted, or its disk does not take what it writes.
static bool is_hindered(struct world *w)
{
    const struct sim_disk *d = &w->disk;
    return w->lives != w->rules.calm_life || d->full || d->error_permille > 0 || d->sync_ms > 0 || !clock_trusted(&w->clock.clock) ||
           policies_may_stop(w, WHO_JOB(CAUGHT_UP));
}

static int64_t last_due_s(int64_t now_s)
{
    int64_t minute = now_s / 60;
    return (minute - minute % 60 % EVERY_MIN) * 60;
}

static bool was_begun(struct world *w, int64_t due_s)
{
    char id[32];
    snprintf(id, sizeof(id), "-%" PRId64, due_s / 60);
    list_each(it, &w->rules.runs) {
        const struct job_run *x = container_of(it, struct job_run, link);
        size_t n = strlen(x->run), tail = strlen(id);
        if (x->job == CAUGHT_UP && n > tail && strcmp(x->run + n - tail, id) == 0)
            return true;
    }
    return false;
}

// A clock that lied may have begun it before its time, or believe that it is past.
static bool can_judge(const struct world *w)
{
    return w->rules.on && !w->rules.jobs_forgotten && !w->witness.store_rots && !w->clock.lied;
}

void rules_jobs_turn(struct world *w)
{
    enum { LOOK_MS = 5000, PATIENCE_MS = 150 * 1000, MARGIN_MS = 30 * 1000 };
    struct rules *u = &w->rules;
    int64_t now_ms = w->sim.now_ms, due_s = last_due_s(sim_true_us(&w->sim) / 1000000);
    int64_t due_ms = now_ms - (sim_true_us(&w->sim) / 1000 - due_s * 1000);
    if (is_hindered(w)) {
        u->calm_since_ms = now_ms;
        u->calm_life = w->lives;
    }
    if (now_ms < u->jobs_looked_ms + LOOK_MS)
        return;
    u->jobs_looked_ms = now_ms;
    uint64_t spec = rules_committed(w, CAUGHT_UP_KEY);
    // With a disk that fails what is read may be rolled back again: it counts from when it was read with one that does not.
    if (spec != u->job_spec || u->job_spec_ms > u->disk_well_ms) {
        u->job_spec = spec;
        u->job_spec_ms = now_ms;
    }
    if (!w->disk.full && w->disk.error_permille == 0)
        u->disk_well_ms = now_ms;
    bool due = spec != 0 && u->job_spec_ms <= due_ms && now_ms >= MAX(due_ms, u->calm_since_ms) + PATIENCE_MS &&
               u->calm_since_ms <= due_ms + DEADLINE_S * 1000 - MARGIN_MS;
    if (due && can_judge(w) && !was_begun(w, due_s))
        sim_violation(&w->sim, CAUGHT_UP_KEY ": the run that was due %" PRId64 " s ago was never begun", (now_ms - due_ms) / 1000);
}

// --- What is told of them

// Given up before its last attempt.
static bool is_given_up(const struct json *run)
{
    int64_t attempts = 0;
    const char *outcome = json_str(json_get(run, "outcome"));
    return outcome != NULL && (strcmp(outcome, "Failed") == 0 || strcmp(outcome, "Unknown") == 0) &&
           json_i64(json_get(run, "attempts"), &attempts) && attempts <= BACKOFF_LIMIT;
}

// A status of it was committed. (At peace the next runs have pushed the one that was given up out of the history.)
void rules_job_told(struct world *w, const char *key, const struct json *status)
{
    if (!w->rules.on || w->rules.jobs_forgotten || w->witness.store_rots || sorts[key[strlen(key) - 1] - '0'].at_most_once)
        return;
    json_each(run, json_get(status, "runs"))
    {
        if (is_given_up(run))
            sim_violation(&w->sim, "%s: a run AtLeastOnce is given up before its last attempt", key);
    }
}

// --- At peace

static int64_t count(const struct sim_object *o, const char *path)
{
    int64_t n;
    return json_i64(json_path(o->json, path), &n) ? n : 0;
}

// The history of runs is in no other row than the status.
static bool has_history(struct world *w, const struct sim_object *o)
{
    return w->witness.store_rots || json_at(json_path(o->json, "status.runs"), 0) != NULL;
}

// A one-shot has run for the spec as it is now, and has an outcome.
bool job_is_right(struct world *w, const struct sim_object *o, char why[256])
{
    struct job_spec spec;
    struct arena a;
    struct err e = ERR_INIT;
    arena_init(&a, SPEC_MEMORY);
    bool decoded = job_spec_decode(&spec, json_get(o->json, "spec"), SIM_NODE, &a, &e) == 0;
    const char *revision = json_str(json_path(o->json, "status.revision"));
    bool right = decoded && (spec.scheduled || spec.suspend ||
                             (revision != NULL && strcmp(revision, spec.process.revision) == 0 &&
                              json_at(json_path(o->json, "status.active"), 0) == NULL && has_history(w, o) &&
                              count(o, "status.succeeded") + count(o, "status.failed") > 0));
    if (!right)
        snprintf(why, 256, "%.60s has no outcome %.150s", o->name, decoded ? "" : e.msg);
    arena_reset(&a);
    return right;
}

void rules_jobs_fini(struct world *w)
{
    list_each_safe(it, next, &w->rules.runs)
        free(container_of(it, struct job_run, link));
}
