// SPDX-License-Identifier: Apache-2.0
// Which policies can be in force, and what follows: for each field the version that counts is the one of the highest priority that has it,
// then of the first name, then the node's own.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim_world.h"

// A pass that failed with its disk comes again within five minutes. A wall clock that was set is noticed within one.
enum { PASS_MS = 30 * 1000, BACKOFF_MS = 330 * 1000, CLOCK_SEEN_MS = 75 * 1000, LOOK_MS = 5000, SURE_MS = 60 * 1000 };

// --- Which can be in force

static void may_be(struct world *w, struct known *k, const struct said *v)
{
    for (size_t i = 0; i < k->n; i++)
        if (k->may[i] == v)
            return;
    if (k->n >= MAY_MAX)
        abort();
    k->may[k->n++] = v;
    w->policies.changed_ms = w->sim.now_ms;
}

static void is(struct world *w, struct known *k, const struct said *v)
{
    if (k->n == 1 && k->may[0] == v)
        return;
    k->may[0] = v;
    k->n = 1;
    w->policies.changed_ms = w->sim.now_ms;
}

// What the store has of it; `row` stays what it was when that cannot be read.
static const struct said *committed(struct world *w, int policy)
{
    AS_AGENT;
    char key[KEY_MAX];
    struct cached row AUTO_CACHED = CACHED_INIT;
    snprintf(key, sizeof(key), "edgepolicies/%s", plan_policy_keys[policy]);
    w->disk.calm = true;
    int rc = cache_get(w->agent->cache, key, &row, NULL);
    w->disk.calm = false;
    if (rc < 0)
        return rc == E_NOTFOUND ? NULL : w->policies.known[policy].row;
    return said_of(w, policy, row.uid, row.generation);
}

// The pass over a version may have been overtaken by the next one, or not.
static void row_is_another(struct world *w, int policy, const struct said *now)
{
    struct known *k = &w->policies.known[policy];
    uint64_t before = k->row != NULL ? k->row->nth : 0;
    bool other_uid = now != NULL && k->row != NULL && strcmp(now->uid, k->row->uid) != 0;
    each_said(v, w)
    {
        if (now != NULL && v->policy == policy && v->there && v->valid && v->nth > before && v->nth <= now->nth)
            may_be(w, k, v);
    }
    if (now == NULL || other_uid)
        may_be(w, k, NULL);
    k->row = now;
    k->row_ms = w->sim.now_ms;
}

static void read_rows(struct world *w)
{
    for (int i = 0; i < POLICIES; i++) {
        const struct said *now = committed(w, i);
        if (now != w->policies.known[i].row)
            row_is_another(w, i, now);
    }
}

static bool is_calm(struct world *w, int64_t for_ms)
{
    const struct policies *p = &w->policies;
    int64_t need_ms = p->troubled_life == w->lives ? MAX(for_ms, (int64_t)BACKOFF_MS) : for_ms;
    return w->agent != NULL && w->sim.now_ms - p->calm_ms >= need_ms;
}

// The pass over what was committed long ago is done. Of one that is not valid nothing follows: which was the last good one stays open.
static void settle(struct world *w)
{
    for (int i = 0; i < POLICIES; i++) {
        struct known *k = &w->policies.known[i];
        int64_t need_ms = w->policies.troubled_life == w->lives ? BACKOFF_MS : PASS_MS;
        if (is_calm(w, PASS_MS) && w->sim.now_ms - k->row_ms >= need_ms && (k->row == NULL || k->row->valid))
            is(w, k, k->row);
    }
}

// Whatever there ever was: the row and what was the last good one may be gone, or older ones back.
void policies_doubtful(struct world *w)
{
    for (int i = 0; w->policies.on && i < POLICIES; i++) {
        struct known *k = &w->policies.known[i];
        may_be(w, k, NULL);
        each_said(v, w)
        {
            if (v->policy == i && v->there && v->valid)
                may_be(w, k, v);
        }
        k->row_ms = w->sim.now_ms;
    }
    w->policies.floor_ms = 0;
}

// --- Which can count

static const char *name_of(const struct said *v)
{
    return strchr(plan_policy_keys[v->policy], '/') + 1;
}

static bool beats(const struct said *a, const struct said *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority;
    int by_name = strcmp(name_of(a), name_of(b));
    return by_name != 0 ? by_name < 0 : a->policy < b->policy; // those of the node come first
}

static bool has(const struct said *v, enum said_field f)
{
    return v != NULL && v->selected && (v->set & 1U << f) != 0;
}

// Can it be that policy q has nothing that beats v? v NULL: that it does not have the field at all?
static bool can_yield(const struct known *q, const struct said *v, enum said_field f)
{
    for (size_t i = 0; i < q->n; i++)
        if (!has(q->may[i], f) || (v != NULL && !beats(q->may[i], v)))
            return true;
    return false;
}

static bool can_count(struct world *w, const struct said *v, enum said_field f)
{
    for (int q = 0; q < POLICIES; q++)
        if ((v == NULL || q != v->policy) && !can_yield(&w->policies.known[q], v, f))
            return false;
    return true;
}

// All that can count for a field, NULL = no policy sets it. Never none.
static size_t all_that_count(struct world *w, enum said_field f, const struct said *out[POLICIES * MAY_MAX + 1])
{
    size_t n = 0;
    if (can_count(w, NULL, f))
        out[n++] = NULL;
    for (int p = 0; p < POLICIES; p++) {
        const struct known *k = &w->policies.known[p];
        for (size_t i = 0; i < k->n; i++)
            if (has(k->may[i], f) && can_count(w, k->may[i], f))
                out[n++] = k->may[i];
    }
    return n;
}

#define each_that_counts(v, w, f)                                  \
    const struct said *all_##v[POLICIES * MAY_MAX + 1], *v = NULL; \
    for (size_t n_##v = all_that_count(w, f, all_##v), i_##v = 0; i_##v < n_##v && (v = all_##v[i_##v], true); i_##v++)

// --- How the agent is, and its link

static void note_calm(struct world *w)
{
    struct policies *p = &w->policies;
    const struct sim_disk *d = &w->disk;
    if (p->life != w->lives) {
        p->life = w->lives;
        p->life_ms = p->calm_ms = w->sim.now_ms;
    }
    if (d->full || d->error_permille > 0)
        p->troubled_life = w->lives;
    if (d->full || d->error_permille > 0 || d->sync_ms > 0)
        p->calm_ms = w->sim.now_ms;
}

void policies_link(struct world *w, enum link_state s)
{
    if (s != LINK_ONLINE && s != LINK_STANDBY)
        return;
    w->policies.online_ms = w->sim.now_ms;
    w->policies.floor_ms = 0;
}

static void note_link(struct world *w)
{
    struct sync_stats s;
    sync_stats(w->agent->sync, &s);
    policies_link(w, s.link);
}

// --- Offline

static int64_t at_most_offline_ms(const struct world *w)
{
    int64_t ms = w->sim.now_ms - w->policies.online_ms;
    return w->clock.lied ? INT64_MAX : ms + ms / 8 + LOOK_MS; // a clock that drifts counts the time switched off by that much more
}

// Of this life, or what it is known to remember.
static int64_t at_least_offline_ms(const struct world *w)
{
    return MAX(w->sim.now_ms - MAX(w->policies.online_ms, w->policies.life_ms), w->policies.floor_ms);
}

// After what time offline `who` is stopped; -1 = never.
static int64_t stops_after(const struct said *v, unsigned who)
{
    for (size_t i = 0; v != NULL && i < v->n_rules; i++) {
        const struct said_rule *r = &v->rules[i];
        bool selected = (r->who & who) != 0;
        if (selected || r->behavior == SAID_RUN_ONLY)
            return r->behavior == SAID_STOP || (r->behavior == SAID_RUN_ONLY && !selected) ? r->after_ms : -1;
    }
    return -1;
}

bool policies_may_stop(struct world *w, unsigned who)
{
    if (!w->policies.on || w->agent == NULL)
        return false;
    each_that_counts(v, w, SAID_OFFLINE)
    {
        int64_t after_ms = stops_after(v, who);
        if (after_ms >= 0 && at_most_offline_ms(w) >= after_ms)
            return true;
    }
    return false;
}

// The longest of the times after which `who` is stopped; -1 = it may be that it is not.
static int64_t surely_after(struct world *w, unsigned who)
{
    int64_t most = -1;
    each_that_counts(v, w, SAID_OFFLINE)
    {
        int64_t after_ms = stops_after(v, who);
        if (after_ms < 0)
            return -1;
        most = MAX(most, after_ms);
    }
    return most;
}

bool policies_must_stop(struct world *w, unsigned who, int64_t patience_ms)
{
    if (!w->policies.on || w->agent == NULL || !is_calm(w, patience_ms) || w->sim.now_ms - w->policies.changed_ms < patience_ms)
        return false;
    int64_t after_ms = surely_after(w, who);
    return after_ms >= 0 && at_least_offline_ms(w) >= after_ms + patience_ms;
}

bool policies_forbid_start(struct world *w, unsigned who)
{
    enum { LATE_MS = 5000 };
    if (!w->policies.on || w->agent == NULL)
        return false;
    read_rows(w);
    note_calm(w);
    note_link(w); // perhaps since this very turn
    int64_t after_ms = surely_after(w, who), this_life_ms = w->sim.now_ms - MAX(w->policies.online_ms, w->policies.life_ms);
    return after_ms >= 0 && (this_life_ms >= after_ms + LATE_MS || w->policies.floor_ms >= after_ms);
}

bool policies_have_offline(struct world *w)
{
    if (!w->policies.on)
        return false;
    each_that_counts(v, w, SAID_OFFLINE)
    {
        if (v != NULL && v->n_rules > 0)
            return true;
    }
    return false;
}

// Once somebody was stopped for it, the agent remembers the time it took.
static void note_floor(struct world *w)
{
    for (int i = 0; i < APPS; i++)
        if (policies_must_stop(w, WHO_APP(i), SURE_MS))
            w->policies.floor_ms = MAX(w->policies.floor_ms, surely_after(w, WHO_APP(i)));
}

// --- Windows

static bool is_closed(struct world *w, const struct said *v)
{
    int64_t minute = clock_wall_us(&w->clock.clock) / 60000000;
    return v != NULL && v->every_min > 0 && (!clock_trusted(&w->clock.clock) || minute % v->every_min >= v->open_min);
}

static void look_at_windows(struct world *w)
{
    bool closed = is_calm(w, PASS_MS);
    each_that_counts(v, w, SAID_WINDOWS) closed = closed && is_closed(w, v);
    if (!closed)
        w->policies.closed_ms = INT64_MAX;
    else if (w->policies.closed_ms == INT64_MAX)
        w->policies.closed_ms = w->sim.now_ms;
}

static void look_at_metered(struct world *w)
{
    enum { EVERY_MIN = 15, OPEN_MIN = 3 };
    int64_t minute = clock_wall_us(&w->clock.clock) / 60000000;
    bool open = is_calm(w, PASS_MS) && clock_trusted(&w->clock.clock) && minute % EVERY_MIN < OPEN_MIN;
    each_that_counts(v, w, SAID_METERED) open = open && v != NULL;
    if (!open)
        w->policies.metered_ms = INT64_MAX;
    else if (w->policies.metered_ms == INT64_MAX)
        w->policies.metered_ms = w->sim.now_ms;
}

bool policies_may_wait(struct world *w)
{
    if (!w->policies.on)
        return false;
    each_that_counts(v, w, SAID_WINDOWS)
    {
        if (v != NULL && v->every_min > 0)
            return true;
    }
    return false;
}

bool policies_make_wait(struct world *w)
{
    return w->policies.on && w->policies.closed_ms < w->sim.now_ms - CLOCK_SEEN_MS;
}

// --- Outbox and lease

int64_t policies_max_events(struct world *w)
{
    int64_t most = w->max_events;
    if (!w->policies.on || w->policies.pinned)
        return most;
    bool first = true;
    each_that_counts(v, w, SAID_MAX_EVENTS)
    {
        int64_t n = v != NULL ? v->max_events : w->max_events;
        most = first ? n : MAX(most, n);
        first = false;
    }
    return most;
}

int policies_shed(struct world *w)
{
    int first = -1;
    if (!w->policies.on)
        return OUTBOX_SHED_OLDEST;
    policies_refresh(w);
    each_that_counts(v, w, SAID_SHED_FIRST)
    {
        int kind = v != NULL ? v->shed_first : OUTBOX_SHED_OLDEST;
        if (first >= 0 && first != kind)
            return -1;
        first = kind;
    }
    return first;
}

// --- The mode

// Within a metered window that one's mode counts. How far the clock of the agent has come is not asked: at the edges both can be.
unsigned policies_modes(struct world *w)
{
    unsigned modes = 0;
    if (!w->policies.on || w->policies.pinned)
        return 1U << w->config.sync_mode;
    policies_refresh(w);
    bool metered = w->policies.metered_ms < w->sim.now_ms - CLOCK_SEEN_MS;
    each_that_counts(m, w, SAID_METERED) modes |= m != NULL ? 1U << m->metered_mode : 0;
    each_that_counts(v, w, SAID_SYNC_MODE) modes |= metered ? 0 : 1U << (v != NULL ? v->sync_mode : (int)w->config.sync_mode);
    return modes;
}

static bool duration_can_be(struct world *w, int64_t seconds, int64_t *example)
{
    each_that_counts(d, w, SAID_LEASE_DURATION)
    {
        each_that_counts(i, w, SAID_LEASE_INTERVAL)
        {
            int64_t duration = d != NULL ? d->lease_duration_s : w->config.lease_duration_ms / 1000;
            int64_t interval = i != NULL ? i->lease_interval_s : w->config.lease_renew_ms / 1000;
            *example = MAX(duration, 2 * interval);
            if (*example == seconds)
                return true;
        }
    }
    return false;
}

// --- At peace

#define WRONG(...) (snprintf(why, 256, __VA_ARGS__), why)

static bool can_be_in_force(const struct known *k, int64_t generation)
{
    for (size_t i = 0; i < k->n; i++)
        if ((k->may[i] != NULL && k->may[i]->selected ? k->may[i]->generation : 0) == generation)
            return true;
    return false;
}

static const char *accepted(const struct sim_object *o)
{
    json_each(c, json_path(o->json, "status.conditions"))
    {
        if (strcmp(json_str(json_get(c, "type")), "Accepted") == 0)
            return json_str(json_get(c, "status"));
    }
    return "";
}

static bool is_refused_by_event(struct world *w, const char *name)
{
    char note[2 * SIM_NAME_MAX];
    snprintf(note, sizeof(note), "EdgePolicy " SIM_SHARED_NS "/%s:", name);
    sim_each_object(o, &w->server)
    {
        const char *text = strcmp(o->type->plural, "events") == 0 ? json_str(json_get(o->json, "note")) : NULL;
        if (text != NULL && strncmp(text, note, strlen(note)) == 0)
            return true;
    }
    return false;
}

static bool events_are_lost(struct world *w)
{
    AS_AGENT;
    struct outbox_stats s;
    return w->witness.store_rots || outbox_stats(w->agent->outbox, &s, NULL) < 0 || s.events_lost + s.events_dropped > 0;
}

static const char *policy_is_right(struct world *w, const struct sim_object *o, const struct known *k, char why[256])
{
    int64_t generation = -1;
    const struct said *v = k->row;
    bool shared = strcmp(o->ns, SIM_SHARED_NS) == 0;
    if (v == NULL || v->generation != o->generation || strcmp(v->uid, o->uid) != 0)
        return WRONG("policy %s/%.40s is not the newest", o->ns, o->name);
    if (shared)
        return v->valid || is_refused_by_event(w, o->name) || events_are_lost(w)
                   ? NULL
                   : WRONG("policy %s/%.40s is refused, and no event says so", o->ns, o->name);
    (void)!json_i64(json_path(o->json, "status.inForceGeneration"), &generation);
    if (strcmp(accepted(o), v->valid ? "True" : "False") != 0)
        return WRONG("policy %.40s: Accepted is not %s", o->name, v->valid ? "True" : "False");
    return can_be_in_force(k, generation) ? NULL : WRONG("policy %.40s: generation %" PRId64 " is in force", o->name, generation);
}

static const char *rows_are_right(struct world *w, char why[256])
{
    const struct sim_type *t = sim_type_find(&w->server, "edge.limpet.dev", "v1alpha1", "edgepolicies");
    for (int i = 0; i < POLICIES; i++) {
        char ns[64];
        snprintf(ns, sizeof(ns), "%.*s", (int)strcspn(plan_policy_keys[i], "/"), plan_policy_keys[i]);
        const struct sim_object *o = sim_store_get(&w->server, t, ns, strchr(plan_policy_keys[i], '/') + 1);
        const struct known *k = &w->policies.known[i];
        if (o == NULL && k->row != NULL)
            return WRONG("policy %s is deleted and still there", plan_policy_keys[i]);
        if (o != NULL && policy_is_right(w, o, k, why) != NULL)
            return why;
    }
    return NULL;
}

const char *policies_are_right(struct world *w, char why[256])
{
    int64_t seconds = -1, example = 0;
    if (!w->policies.on)
        return NULL;
    if (rows_are_right(w, why) != NULL)
        return why;
    const struct sim_object *lease = sim_server_find(&w->server, "leases", SIM_NODE);
    (void)!json_i64(json_path(lease != NULL ? lease->json : NULL, "spec.leaseDurationSeconds"), &seconds);
    if (!duration_can_be(w, seconds, &example))
        return WRONG("the lease lasts %" PRId64 " s; by the policies it is %" PRId64, seconds, example);
    return NULL;
}

// --- Each turn

void policies_refresh(struct world *w)
{
    if (!w->policies.on || w->agent == NULL)
        return;
    read_rows(w);
    look_at_windows(w);
    look_at_metered(w);
}

void policies_turn(struct world *w)
{
    struct policies *p = &w->policies;
    if (!p->on || w->agent == NULL)
        return;
    note_calm(w);
    note_link(w);
    look_at_windows(w);
    look_at_metered(w);
    if (p->commits != w->witness.commits) {
        p->commits = w->witness.commits;
        read_rows(w);
        gates_look(w);
    }
    if (w->sim.now_ms < p->looked_ms + LOOK_MS)
        return;
    p->looked_ms = w->sim.now_ms;
    settle(w);
    note_floor(w);
    rules_offline(w);
    rules_modes(w);
}

void policies_init(struct world *w)
{
    list_init(&w->policies.said);
    for (int i = 0; i < POLICIES; i++)
        w->policies.known[i].n = 1; // none
    w->policies.closed_ms = w->policies.metered_ms = INT64_MAX;
}

void policies_fini(struct world *w)
{
    list_each_safe(it, next, &w->policies.said)
        free(container_of(it, struct said, link));
}
