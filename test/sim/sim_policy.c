// SPDX-License-Identifier: Apache-2.0
// What users say with EdgePolicies, and all they ever said. Two lie in the node's namespace, two in the one that all nodes share; two have
// the same name.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim_world.h"

enum { SPEC_MAX = 2500, OTHER_NODE_PERCENT = 20 };

static const char *const behaviors[] = { "Keep", "Stop", "RunOnly" };
static const char *const sheds[] = { "Oldest", "Normal", "Warning" };
static const char *const modes[] = { "auto", "watch", "poll", "list" };

static bool is_shared(int policy)
{
    return strncmp(plan_policy_keys[policy], SIM_SHARED_NS "/", strlen(SIM_SHARED_NS "/")) == 0;
}

static struct sim_object *object_of(struct world *w, int policy)
{
    const struct sim_type *t = sim_type_find(&w->server, "edge.limpet.dev", "v1alpha1", "edgepolicies");
    return sim_store_get(&w->server, t, is_shared(policy) ? SIM_SHARED_NS : SIM_NS, strchr(plan_policy_keys[policy], '/') + 1);
}

// --- What is said

static int64_t after(struct sim_rng *r)
{
    return rng_chance(r, 60) ? rng_between(r, 10, 60) : rng_between(r, 60, 300);
}

static void draw_offline(struct sim_rng *r, struct said *v)
{
    unsigned some = (unsigned)rng_below(r, WHO_APPS + 1) | (rng_chance(r, 70) ? WHO_JOBS : 0);
    switch (rng_below(r, 4)) {
    case 0: // everything that is not safe
        v->rules[v->n_rules++] = (struct said_rule){ SAID_RUN_ONLY, some, after(r) * 1000 };
        break;
    case 1:
        v->rules[v->n_rules++] = (struct said_rule){ SAID_KEEP, some, 0 };
        v->rules[v->n_rules++] = (struct said_rule){ SAID_STOP, WHO_APPS, after(r) * 1000 };
        break;
    case 2:
        v->rules[v->n_rules++] = (struct said_rule){ SAID_STOP, some, after(r) * 1000 };
        break;
    default: // an empty list stops nobody, whatever a lower policy says
        break;
    }
}

static bool draws(struct sim_rng *r, struct said *v, enum said_field f, int percent)
{
    bool yes = rng_chance(r, percent);
    if (yes)
        v->set |= 1U << f;
    return yes;
}

// Windows open often and not for long: what waits gets its turn within ten minutes.
static void draw(struct world *w, const struct act *a, struct said *v)
{
    static const int64_t priorities[] = { 0, 0, 5, 10, 10 };
    struct sim_rng r = { a->seed };
    v->priority = priorities[rng_below(&r, ARRAY_LEN(priorities))];
    v->selected = !is_shared(v->policy) || !rng_chance(&r, OTHER_NODE_PERCENT);
    if (draws(&r, v, SAID_OFFLINE, 50))
        draw_offline(&r, v);
    if (draws(&r, v, SAID_WINDOWS, 35) && !rng_chance(&r, 20)) {
        v->every_min = rng_chance(&r, 50) ? 5 : 10;
        v->open_min = (int)rng_between(&r, 1, 3);
    }
    if (draws(&r, v, SAID_LEASE_INTERVAL, 50))
        v->lease_interval_s = rng_between(&r, 2, 24);
    if (draws(&r, v, SAID_LEASE_DURATION, 50))
        v->lease_duration_s = rng_between(&r, 2 * MAX(v->lease_interval_s, (int64_t)1), 60);
    if (draws(&r, v, SAID_MAX_EVENTS, 40))
        v->max_events = rng_between(&r, 10, 60);
    if (draws(&r, v, SAID_SHED_FIRST, 40))
        v->shed_first = (int)rng_below(&r, 3);
    if (draws(&r, v, SAID_SYNC_MODE, 30))
        v->sync_mode = (int)rng_below(&r, 4);
    if (draws(&r, v, SAID_SYNC_INTERVAL, 30))
        v->sync_interval_s = rng_between(&r, 2, 40);
    if (draws(&r, v, SAID_METERED, 15))
        v->metered_mode = (int)rng_below(&r, 4);
    (void)w;
}

// --- As JSON

struct text {
    char at[SPEC_MAX];
    size_t n;
};

static void say(struct text *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void say(struct text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    t->n += (size_t)vsnprintf(t->at + t->n, sizeof(t->at) - t->n, fmt, ap);
    va_end(ap);
    if (t->n >= sizeof(t->at))
        abort();
}

static bool has(const struct said *v, enum said_field f)
{
    return (v->set & 1U << f) != 0;
}

static void say_rule(struct text *t, const struct said_rule *r, bool first)
{
    const char *comma = "";
    say(t, "%s{\"behavior\":\"%s\",\"selector\":{\"names\":[", first ? "" : ",", behaviors[r->behavior]);
    for (int i = 0; i < APPS + JOBS; i++) {
        if ((r->who & 1U << i) == 0)
            continue;
        say(t, i < APPS ? "%s\"app-%d\"" : "%s\"job-%d\"", comma, i < APPS ? i : i - APPS);
        comma = ",";
    }
    say(t, r->who == 0 ? "\"nobody\"]}" : "]}"); // an empty list would be everybody
    if (r->behavior != SAID_KEEP)
        say(t, ",\"after\":\"%" PRId64 "s\"", r->after_ms / 1000);
    say(t, "}");
}

static void say_sync(struct text *t, const struct said *v)
{
    say(t, ",\"sync\":{\"metered\":{");
    if (has(v, SAID_METERED))
        say(t, "\"mode\":\"%s\",\"windows\":[{\"schedule\":\"*/15 * * * *\",\"duration\":\"3m\"}]", modes[v->metered_mode]);
    say(t, "}");
    if (has(v, SAID_SYNC_MODE))
        say(t, ",\"mode\":\"%s\"", modes[v->sync_mode]);
    if (has(v, SAID_SYNC_INTERVAL))
        say(t, ",\"interval\":\"%" PRId64 "s\"", v->sync_interval_s);
    say(t, "}");
}

static void say_windows(struct text *t, const struct said *v)
{
    if (!v->valid)
        say(t, ",\"maintenance\":{\"windows\":[{\"schedule\":\"61 * * * *\",\"duration\":\"5m\"}]}");
    else if (has(v, SAID_WINDOWS) && v->every_min > 0)
        say(t, ",\"maintenance\":{\"windows\":[{\"schedule\":\"*/%d * * * *\",\"duration\":\"%dm\"}]}", v->every_min, v->open_min);
    else if (has(v, SAID_WINDOWS))
        say(t, ",\"maintenance\":{\"windows\":[]}");
}

static void say_lease(struct text *t, const struct said *v)
{
    say(t, ",\"lease\":{");
    if (has(v, SAID_LEASE_INTERVAL))
        say(t, "\"interval\":\"%" PRId64 "s\"", v->lease_interval_s);
    if (has(v, SAID_LEASE_DURATION))
        say(t, "%s\"duration\":\"%" PRId64 "s\"", has(v, SAID_LEASE_INTERVAL) ? "," : "", v->lease_duration_s);
    say(t, "}");
}

static void say_outbox(struct text *t, const struct said *v)
{
    say(t, ",\"outbox\":{");
    if (has(v, SAID_MAX_EVENTS))
        say(t, "\"maxEvents\":%" PRId64, v->max_events);
    if (has(v, SAID_SHED_FIRST))
        say(t, "%s\"shedFirst\":\"%s\"", has(v, SAID_MAX_EVENTS) ? "," : "", sheds[v->shed_first]);
    say(t, "}");
}

static void say_all(struct text *t, const struct said *v)
{
    say(t, "{\"priority\":%" PRId64, v->priority);
    if (is_shared(v->policy))
        say(t, ",\"nodeSelector\":{\"matchLabels\":{\"kubernetes.io/hostname\":\"%s\"}}", v->selected ? SIM_NODE : "another");
    if (has(v, SAID_OFFLINE)) {
        say(t, ",\"offline\":[");
        for (size_t i = 0; i < v->n_rules; i++)
            say_rule(t, &v->rules[i], i == 0);
        say(t, "]");
    }
    say_windows(t, v);
    say_lease(t, v);
    say_outbox(t, v);
    say_sync(t, v);
    say(t, "}");
}

// --- All that was ever said

static struct said *said_new(struct world *w, int policy)
{
    struct said *v = calloc(1, sizeof(*v));
    if (v == NULL)
        abort();
    v->policy = policy;
    v->nth = ++w->policies.nth;
    list_add_tail(&w->policies.said, &v->link);
    return v;
}

const struct said *said_of(struct world *w, int policy, const char *uid, int64_t generation)
{
    const struct said *found = NULL;
    each_said(v, w)
    {
        if (v->policy == policy && v->there && v->generation == generation && strcmp(v->uid, uid) == 0)
            found = v;
    }
    return found;
}

static void edit(struct world *w, const struct act *a, bool valid)
{
    int policy = (int)a->a;
    struct sim_object *o = object_of(w, policy);
    struct text t = { .n = 0 };
    struct said *v = said_new(w, policy);
    v->there = true;
    v->valid = valid;
    draw(w, a, v);
    say_all(&t, v);
    if (o == NULL)
        o = sim_server_create_in(&w->server, is_shared(policy) ? SIM_SHARED_NS : SIM_NS, "edgepolicies",
                                 strchr(plan_policy_keys[policy], '/') + 1, t.at);
    else
        sim_server_set_spec(&w->server, o, t.at);
    snprintf(v->uid, sizeof(v->uid), "%s", o->uid);
    v->generation = o->generation;
    sim_note(&w->sim, "user", "says %s", t.at);
}

void user_edits_policy(struct world *w, const struct act *a)
{
    edit(w, a, true);
}

void user_breaks_policy(struct world *w, const struct act *a)
{
    sim_hit(&w->sim, F_POLICY_INVALID);
    edit(w, a, false);
}

void user_deletes_policy(struct world *w, const struct act *a)
{
    struct sim_object *o = object_of(w, (int)a->a);
    if (o == NULL)
        return;
    said_new(w, (int)a->a);
    sim_server_delete(&w->server, o);
}
