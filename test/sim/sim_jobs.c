// SPDX-License-Identifier: Apache-2.0
// EdgeJobs: what users want of them, and what must be true of their runs.
//
// Four jobs, each of a sort of its own. The uid of an instance names run and attempt ("<run>-<attempt>"), so no uid is ever started twice,
// whatever died meanwhile; and an AtMostOnce run has one attempt.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kinds/edgejob_spec.h"
#include "sim_world.h"

enum { SPEC_MEMORY = 1 << 20, SPEC_MAX = 500, BACKOFF_LIMIT = 2 };

static const struct {
    const char *fields;
    bool at_most_once, alone; // alone: never two instances at a time
    struct fake_behaviour runs;
} sorts[JOBS] = {
    { "\"execution\":\"AtMostOnce\"", true, true, { .start_ms = 40, .run_ms = 4000, .stop_ms = 100 } },
    { "\"execution\":\"AtLeastOnce\",\"backoffLimit\":2", false, true, { .start_ms = 40, .run_ms = 3000, .exit_code = 1, .stop_ms = 100 } },
    { "\"schedule\":\"*/10 * * * *\",\"execution\":\"AtMostOnce\",\"concurrencyPolicy\":\"Forbid\"", true, true, { .run_ms = 30000 } },
    { "\"schedule\":\"*/7 * * * *\",\"concurrencyPolicy\":\"Replace\",\"backoffLimit\":2",
      false,
      true,
      { .run_ms = 480000, .stop_ms = 100 } },
};

struct job_run {
    struct list link;
    char run[INST_UID_MAX];
    int attempts;
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

static struct job_run *run_add(struct world *w, const char *uid)
{
    struct job_run *x = calloc(1, sizeof(*x));
    if (x == NULL)
        abort();
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
    x = x != NULL ? x : run_add(w, s->uid);
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

// --- At peace

static int64_t count(const struct sim_object *o, const char *path)
{
    int64_t n;
    return json_i64(json_path(o->json, path), &n) ? n : 0;
}

// A one-shot has run for the spec as it is now, and has an outcome.
bool job_is_right(const struct sim_object *o, char why[256])
{
    struct job_spec spec;
    struct arena a;
    struct err e = ERR_INIT;
    arena_init(&a, SPEC_MEMORY);
    bool decoded = job_spec_decode(&spec, json_get(o->json, "spec"), SIM_NODE, &a, &e) == 0;
    const char *revision = json_str(json_path(o->json, "status.revision"));
    bool right =
        decoded &&
        (spec.scheduled || spec.suspend ||
         (revision != NULL && strcmp(revision, spec.process.revision) == 0 && json_at(json_path(o->json, "status.active"), 0) == NULL &&
          json_at(json_path(o->json, "status.runs"), 0) != NULL && count(o, "status.succeeded") + count(o, "status.failed") > 0));
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
