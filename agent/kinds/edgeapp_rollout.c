// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgeapp_rollout.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

// --- The watch

// All there for long enough, or ended well.
static bool is_whole(const struct app_spec *spec, const struct app_summary *sum)
{
    return sum->available + sum->finished - sum->failed == spec->replicas && sum->excess == 0;
}

enum app_verdict app_watch_judge(struct app_watch *w, const struct app_spec *spec, const struct app_summary *sum, const char *good,
                                 int64_t now_ms, int64_t *next_ms)
{
    int now = sum->updated + sum->available;
    *next_ms = INT64_MAX;
    if (spec->replicas == 0) { // stopped, suspended: nothing to judge
        w->revision[0] = '\0';
        return ROLLOUT_UNDER_WAY;
    }
    if (is_whole(spec, sum))
        return ROLLOUT_GOOD;
    if (strcmp(good, spec->asked) == 0)
        return ROLLOUT_UNDER_WAY;
    if (strcmp(w->revision, spec->asked) != 0) {
        *w = (struct app_watch){ .best = now, .since_ms = now_ms };
        snprintf(w->revision, sizeof(w->revision), "%s", spec->asked);
    }
    if (now > w->best) {
        w->best = now;
        w->since_ms = now_ms;
        w->told = false;
    }
    if (now_ms - w->since_ms >= spec->progress_deadline_ms)
        return ROLLOUT_LATE;
    *next_ms = w->since_ms + spec->progress_deadline_ms;
    return ROLLOUT_UNDER_WAY;
}

// --- The way back

static bool is_way_back(const struct app_record *r, const struct app_spec *spec)
{
    return spec->rollback && r->good[0] != '\0' && strcmp(r->good, spec->asked) != 0;
}

static void go_back(struct app_rollout *r, struct pass *p, struct app_spec *spec)
{
    struct app_spec good;
    struct err why = ERR_INIT;
    const struct app_failed *failed = app_record_failed(r->record, spec->asked);
    if (failed == NULL || !is_way_back(r->record, spec))
        return;
    if (app_record_spec(p, &r->kept, &why) < 0 || app_spec_decode(&good, r->kept, p->env->node, p->arena, &why) < 0) {
        log_warn("edgeapp", "no-way-back key=%s error=\"%s\"", p->key, why.msg);
        return;
    }
    app_spec_runtime(&good, p->env->port->ops->name);
    good.replicas = spec->replicas;
    good.suspend = spec->suspend;
    *spec = good;
    r->failed = failed;
}

int app_rollout_begin(struct app_rollout *r, struct pass *p, struct app_spec *spec, struct err *e)
{
    app_rollout_fini(r);
    r->failed = NULL;
    r->late = false;
    r->record = arena_alloc(p->arena, sizeof(*r->record));
    if (r->record == NULL)
        return err_set(e, E_NOMEM, "record of the rollout");
    int rc = app_record_load(r->record, p, e);
    if (rc < 0)
        return rc;
    go_back(r, p, spec);
    return 0;
}

enum app_verdict app_rollout_judge(struct app_rollout *r, const struct app_spec *spec, const struct app_summary *sum, int64_t now_ms,
                                   int64_t *next_ms)
{
    *next_ms = INT64_MAX;
    return r->failed != NULL ? ROLLOUT_UNDER_WAY : app_watch_judge(&r->watch, spec, sum, r->record->good, now_ms, next_ms);
}

int app_rollout_good(struct app_rollout *r, struct pass *p, const struct app_spec *spec, struct err *e)
{
    return app_record_good(r->record, p, spec->asked, e);
}

// One that failed before and is in force all the same has no way back: the good spec cannot be read.
int app_rollout_late(struct app_rollout *r, struct pass *p, const struct app_spec *spec, const char *why, struct err *e)
{
    const char *revision = spec->asked;
    r->late = true;
    if (is_way_back(r->record, spec) && app_record_failed(r->record, revision) == NULL) {
        int rc = app_record_fail(r->record, p, revision, why, clock_wall_us(p->env->clock), e);
        if (rc < 0)
            return err_wrap(e, "noting that the revision failed");
        pass_event(p, true, "RolledBack", "Rollback",
                   "revision %s (generation %" PRId64 ") did not come up: %s; back to revision %s (generation %" PRId64 ")", revision,
                   p->generation, why, r->record->good, r->record->generation);
        return pass_after_commit(p);
    }
    if (!r->watch.told)
        pass_event(p, true, "ProgressDeadlineExceeded", "Update", "revision %s: %s", revision, why);
    r->watch.told = true;
    return 0;
}

void app_rollout_fini(struct app_rollout *r)
{
    json_free(steal(r->kept));
}
