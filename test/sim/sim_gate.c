// SPDX-License-Identifier: Apache-2.0
// Changes that wait for a maintenance window: which versions of an app or a config can have been let through.
//
// It is one of [low, high], places in the history of what was wanted. A new one that would disturb waits when no window can have been open
// since it was committed; else it may have been let through. An instance that starts shows that nothing before its revision is kept any more.
// A job is only asked to be of some version that there was.
#include <stdio.h>
#include <string.h>

#include "sim_rules.h"

static struct gate *gate_of(struct world *w, const char *name)
{
    int i = name[strlen(name) - 1] - '0';
    return strncmp(name, "app-", 4) == 0 ? &w->policies.gates[i] : strncmp(name, "cfg-", 4) == 0 ? &w->policies.gates[APPS + i] : NULL;
}

static bool is_app(const char *name)
{
    return strncmp(name, "app-", 4) == 0;
}

// --- What can have been let through

static bool can_be(const struct gate *g, const struct wanted *v)
{
    return v->there && v->valid && v->nth >= g->low && v->nth <= g->high && strcmp(v->uid, g->uid) == 0;
}

// Each other config has an onChange; no two specs of a config have the same texts.
static bool disturbs(struct world *w, const struct gate *g, const struct wanted *next)
{
    bool any = false;
    if (!is_app(next->name))
        return (next->name[4] - '0') % 2 == 0;
    each_wanted(v, w, next->name)
    {
        if (!can_be(g, v))
            continue;
        any = true;
        if (v->replicas == 0 || strcmp(v->revision, next->revision) == 0)
            return false;
    }
    return any;
}

static void row_is(struct world *w, struct gate *g, const struct wanted *v)
{
    if (strcmp(v->uid, g->uid) != 0 || !policies_may_wait(w)) {
        snprintf(g->uid, sizeof(g->uid), "%s", v->uid);
        g->low = g->high = g->row = v->nth;
        g->waits = false;
        return;
    }
    if (v->nth != g->row)
        g->waits = v->valid && policies_make_wait(w) && disturbs(w, g, v);
    if (v->nth != g->row && g->waits)
        sim_hit(&w->sim, F_POLICY_WAITS);
    g->row = v->nth;
    g->waits = g->waits && policies_make_wait(w);
    if (!g->waits && v->valid)
        g->high = MAX(g->high, v->nth);
}

static void look(struct world *w, const char *name)
{
    char key[KEY_MAX];
    snprintf(key, sizeof(key), "%s/" SIM_NS "/%s", is_app(name) ? "edgeapps" : "edgeconfigs", name);
    const struct wanted *v = rules_wanted(w, key);
    if (v != NULL)
        row_is(w, gate_of(w, name), v);
}

void gates_look(struct world *w)
{
    char name[16];
    bool any = policies_may_wait(w);
    for (int i = 0; i < APPS + CONFIGS; i++) {
        if (!any) {
            w->policies.gates[i] = (struct gate){ .waits = false };
            continue;
        }
        snprintf(name, sizeof(name), i < APPS ? "app-%d" : "cfg-%d", i < APPS ? i : i - APPS);
        look(w, name);
    }
}

// --- For the rules

static struct wanted *of_program(struct world *w, const struct inst_spec *s, struct wanted *row)
{
    char program[160];
    struct wanted *found = row;
    rules_started_program(s, program);
    each_wanted(v, w, row->name)
    {
        if (v->there && v->nth <= row->nth && strcmp(v->uid, row->uid) == 0 && strcmp(v->program, program) == 0)
            found = v;
    }
    return found;
}

static struct wanted *let_through(struct world *w, const struct inst_spec *s, struct wanted *row)
{
    struct gate *g = gate_of(w, row->name);
    struct wanted *found = NULL;
    uint64_t first = 0;
    look(w, row->name);
    each_wanted(v, w, row->name)
    {
        if (!can_be(g, v) || strcmp(v->revision, s->revision) != 0 || s->index >= v->replicas)
            continue;
        first = first == 0 ? v->nth : first;
        found = v;
    }
    if (found == NULL && g->waits)
        sim_violation(&w->sim, "%s #%d is started with revision %s, which waits for a window", s->owner, s->index, s->revision);
    g->low = MAX(g->low, first);
    return found != NULL ? found : row;
}

struct wanted *gate_start(struct world *w, const struct inst_spec *s, struct wanted *row)
{
    policies_refresh(w);
    if (row == NULL || !policies_may_wait(w))
        return row;
    return is_app(row->name) ? let_through(w, s, row) : of_program(w, s, row);
}

uint64_t gate_high(struct world *w, const char *name)
{
    policies_refresh(w);
    if (w->agent == NULL || !policies_may_wait(w))
        return UINT64_MAX;
    look(w, name);
    return gate_of(w, name)->high;
}

uint64_t gate_low(struct world *w, const char *name)
{
    return policies_may_wait(w) ? gate_of(w, name)->low : UINT64_MAX;
}

bool gate_let_through(struct world *w, const char *key, const char *uid, int64_t generation)
{
    const char *name = name_in(key);
    struct gate *g = gate_of(w, name);
    if (!policies_may_wait(w) || (g == NULL && strncmp(key, "edgejobs/", 9) != 0))
        return false;
    policies_refresh(w);
    if (g != NULL)
        look(w, name);
    each_wanted(v, w, name)
    {
        if (v->there && v->valid && v->generation == generation && strcmp(v->uid, uid) == 0 && (g == NULL || can_be(g, v)))
            return true;
    }
    return false;
}
