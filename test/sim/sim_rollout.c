// SPDX-License-Identifier: Apache-2.0
// Back to the last good revision: when an agent may do so, and when it must not, with spec.update at its defaults.
//
// A revision may be given up once it was asked for the whole deadline long, for one that was tried before it; never when all of it ran for
// long enough while an agent was there to see it. What was given up is not started again.
#include <stdio.h>

#include "sim_rules.h"

// LOOK_MS: between two looks at what runs. SURE_MS: an agent that looked on all that time knows that it is available; the longest probe (2 s
// and 11 s), minReadySeconds, and what is between two looks.
enum { MIN_READY_MS = 10000, DEADLINE_MS = 600000, LOOK_MS = 5000, SURE_MS = 40000 };

static bool is_same(const struct wanted *a, const struct wanted *b)
{
    return a->there && a->valid && strcmp(a->uid, b->uid) == 0 && strcmp(a->revision, b->revision) == 0;
}

// Was an instance of it started at least so long ago?
static bool was_tried(struct world *w, const char *name, const char *revision, int64_t ms)
{
    list_each(it, &w->rules.started) {
        const struct started *x = container_of(it, struct started, link);
        if (strcmp(x->name, name) == 0 && strcmp(x->revision, revision) == 0 && w->sim.now_ms - x->at_ms >= ms)
            return true;
    }
    return false;
}

// When the first of the specs in a row was given that ask for the revision of v. One in between that no agent had is no end of it.
static int64_t asked_since(struct world *w, const struct wanted *v)
{
    const struct wanted *first = NULL;
    each_wanted(x, w, v->name)
    {
        if (x->nth > v->nth)
            break;
        if (is_same(x, v))
            first = first == NULL ? x : first;
        else if (!x->there || (x->valid && x->seen))
            first = NULL;
    }
    return first != NULL ? first->at_ms : w->sim.now_ms;
}

bool rollout_was_given_up(struct world *w, const struct wanted *v)
{
    each_wanted(x, w, v->name)
    {
        if (x->given_up && is_same(x, v))
            return true;
    }
    return false;
}

// The last good one is the one that came up last: no other spec may have come in between.
static bool has_come_up(struct world *w, const struct wanted *v)
{
    bool up = false;
    each_wanted(x, w, v->name)
    {
        if (x->nth > v->nth)
            break;
        up = is_same(x, v) ? up || x->came_up : up && x->there && !x->valid;
    }
    return up;
}

// The earlier spec with this revision that may be made true in the place of v; NULL = none may.
static const struct wanted *way_back(struct world *w, const struct wanted *v, const char *revision)
{
    if (!v->valid || strcmp(v->revision, revision) == 0 || has_come_up(w, v))
        return NULL;
    if (!rollout_was_given_up(w, v) && w->sim.now_ms - asked_since(w, v) < DEADLINE_MS)
        return NULL;
    each_wanted(g, w, v->name)
    {
        if (g->nth < v->nth && g->valid && strcmp(g->uid, v->uid) == 0 && strcmp(g->revision, revision) == 0 &&
            was_tried(w, g->name, revision, MIN_READY_MS))
            return g;
    }
    return NULL;
}

const struct wanted *rollout_way_back(struct world *w, const struct wanted *v, const char *revision)
{
    return v != NULL && v->there ? way_back(w, v, revision) : NULL;
}

static const struct wanted *newest(struct world *w, const char *name)
{
    const struct wanted *last = NULL;
    each_wanted(v, w, name)
    {
        if (!v->there || v->valid)
            last = v;
    }
    return last != NULL && last->there ? last : NULL;
}

bool rollout_may_end(struct world *w, const struct started *x)
{
    const struct wanted *last = newest(w, x->name);
    if (last == NULL || strcmp(last->revision, x->revision) != 0)
        return false;
    each_wanted(g, w, x->name)
    {
        if (way_back(w, last, g->revision) != NULL)
            return true;
    }
    return false;
}

// An agent that lost its store does not know what it gave up, and tries it once more in the place of this one.
bool rollout_is_second_try(struct world *w, const struct started *x)
{
    const struct wanted *last = newest(w, x->name);
    return w->store_was_lost && last != NULL && way_back(w, last, x->revision) != NULL;
}

void rules_store_lost(struct world *w)
{
    list_each(it, &w->rules.wanted)
        wanted_of(it)->given_up = wanted_of(it)->came_up = false;
}

// What runs already needs no start: then nobody saw it being given up.
bool rules_gave_up(struct world *w, const struct sim_object *o, const char *revision)
{
    each_wanted(v, w, o->name)
    {
        if (v->there && v->generation == o->generation && strcmp(v->uid, o->uid) == 0)
            return way_back(w, v, revision) != NULL;
    }
    return false;
}

// --- Does all of it run?

struct count {
    const struct wanted *v;
    int good, others;
};

static int count_one(void *ctx, const struct inst *i)
{
    struct count *c = ctx;
    bool good = i->state == INST_RUNNING && i->index < c->v->replicas && strcmp(i->revision, c->v->revision) == 0;
    c->good += good;
    c->others += !good && i->state != INST_EXITED;
    return 0;
}

static void look_at(struct world *w, int app)
{
    char key[64];
    snprintf(key, sizeof(key), "edgeapps/" SIM_NS "/app-%d", app);
    struct wanted *v = rules_wanted(w, key);
    struct count c = { .v = v };
    bool whole = false;
    if (v != NULL && v->valid && v->replicas > 0) {
        whole = w->port.fake->each(w->port.port, key, count_one, &c, NULL) == 0 && c.good == v->replicas && c.others == 0;
        v->seen = true;
    }
    if (!whole || w->port.is_bad || w->rules.whole_of[app] != v->nth) {
        w->rules.whole_since_ms[app] = w->sim.now_ms;
        w->rules.whole_of[app] = whole ? v->nth : 0;
    } else if (w->sim.now_ms - MAX(w->rules.whole_since_ms[app], w->rules.calm_since_ms) >= SURE_MS) {
        v->came_up = true;
    }
}

// (rules.calm_since_ms is kept by sim_jobs.c: since when this agent was there, with a disk that works.)
void rollout_turn(struct world *w)
{
    if (w->sim.now_ms < w->rules.apps_looked_ms + LOOK_MS || !rules_can_judge(w))
        return;
    w->rules.apps_looked_ms = w->sim.now_ms;
    for (int app = 0; app < APPS; app++)
        look_at(w, app);
}
