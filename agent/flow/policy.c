// SPDX-License-Identifier: Apache-2.0
#include "flow/policy.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

// A wall clock may be set at any time; the housekeeping of the agent looks once a minute.
enum { LOOK_AGAIN_MS = 60000 };

static int64_t wall_s(const struct policy *p)
{
    return clock_wall_us(p->conf.clock) / 1000000;
}

static bool has(const struct policy *p, enum policy_field f)
{
    return p->merged.from[f] != NULL;
}

static bool is_pinned(const struct policy *p, enum policy_field f)
{
    return (p->pinned & 1U << f) != 0;
}

// --- The effective view

static bool is_metered_now(const struct policy *p)
{
    const struct policy_windows *w = &p->merged.v.metered;
    return w->n > 0 && p->clock_trusted && policy_windows_at(w, wall_s(p)).open;
}

// Without a mode of its own a metered link is polled: a watch pays for each foreign change and its keepalives.
static void apply_metered(const struct policy *p, struct config *c)
{
    const struct policy_values *v = &p->merged.v;
    if (!p->metered)
        return;
    if (!is_pinned(p, POLICY_SYNC_MODE))
        c->sync_mode = has(p, POLICY_METERED_MODE) ? v->metered_mode : SYNC_POLL;
    if (has(p, POLICY_METERED_INTERVAL) && !is_pinned(p, POLICY_SYNC_INTERVAL))
        c->sync_interval_ms = v->metered_interval_ms;
}

static void apply_policies(const struct policy *p, struct config *c)
{
    const struct policy_values *v = &p->merged.v;
    *c = *p->conf.config;
    if (has(p, POLICY_SYNC_MODE))
        c->sync_mode = v->sync_mode;
    if (has(p, POLICY_SYNC_INTERVAL))
        c->sync_interval_ms = v->sync_interval_ms;
    if (has(p, POLICY_LEASE_INTERVAL))
        c->lease_renew_ms = v->lease_interval_ms;
    if (has(p, POLICY_LEASE_DURATION))
        c->lease_duration_ms = v->lease_duration_ms;
    // They may come from two policies that do not know of each other; one lost renewal must not make the node unknown.
    c->lease_duration_ms = MAX(c->lease_duration_ms, 2 * c->lease_renew_ms);
    if (has(p, POLICY_MAX_EVENTS))
        c->outbox_max_events = v->max_events;
    apply_metered(p, c);
}

static unsigned differing(const struct config *a, const struct config *b)
{
    unsigned what = 0;
    if (a->sync_mode != b->sync_mode || a->sync_interval_ms != b->sync_interval_ms)
        what |= POLICY_CHANGED_SYNC;
    if (a->lease_renew_ms != b->lease_renew_ms || a->lease_duration_ms != b->lease_duration_ms)
        what |= POLICY_CHANGED_LEASE;
    return a->outbox_max_events != b->outbox_max_events ? what | POLICY_CHANGED_OUTBOX : what;
}

// --- What time brings

static size_t stage_now(const struct policy *p)
{
    const struct policy_rules *r = &p->merged.v.offline;
    int64_t ms = policy_offline_ms(p);
    size_t n = 0;
    for (size_t i = 0; !p->online && i < r->n; i++)
        n += r->list[i].behavior != POLICY_KEEP && ms >= r->list[i].after_ms;
    return n;
}

static int64_t next_stage_ms(const struct policy *p)
{
    const struct policy_rules *r = &p->merged.v.offline;
    int64_t ms = policy_offline_ms(p), next = INT64_MAX;
    for (size_t i = 0; !p->online && i < r->n; i++)
        if (r->list[i].behavior != POLICY_KEEP && r->list[i].after_ms > ms)
            next = MIN(next, r->list[i].after_ms - ms);
    return next;
}

static int64_t next_edge_ms(const struct policy *p, const struct policy_windows *w)
{
    if (w->n == 0 || !p->clock_trusted)
        return INT64_MAX;
    struct policy_gate g = policy_windows_at(w, wall_s(p));
    int64_t ms = g.until_s < 0 ? INT64_MAX : g.until_s * 1000 - clock_wall_us(p->conf.clock) / 1000;
    return ms <= LOOK_AGAIN_MS ? MAX(ms, (int64_t)1) : INT64_MAX; // a later one is seen by a later look
}

static void set_edge(struct policy *p)
{
    int64_t next = MIN(next_stage_ms(p), MIN(next_edge_ms(p, &p->merged.v.metered), next_edge_ms(p, &p->merged.v.maintenance)));
    timer_cancel(p->conf.loop, &p->edge);
    if (next < INT64_MAX && timer_in(p->conf.loop, &p->edge, next) < 0)
        log_error("policy", "no-timer");
}

static struct policy_gate maintenance_now(const struct policy *p)
{
    if (!policy_has_windows(p))
        return (struct policy_gate){ true, -1 };
    if (!p->clock_trusted)
        return (struct policy_gate){ false, -1 };
    return policy_windows_at(&p->merged.v.maintenance, wall_s(p));
}

static void tell(struct policy *p, unsigned what)
{
    if (!p->held && what != 0 && p->conf.changed != NULL)
        p->conf.changed(p->conf.ctx, what);
}

void policy_look(struct policy *p)
{
    struct config before = p->effective;
    bool was_open = p->maintenance.open, was_trusted = p->clock_trusted;
    size_t was_stage = p->stage;
    p->clock_trusted = clock_trusted(p->conf.clock);
    p->metered = is_metered_now(p);
    p->maintenance = maintenance_now(p);
    p->stage = stage_now(p);
    apply_policies(p, &p->effective);
    unsigned what = differing(&before, &p->effective);
    if (was_open != p->maintenance.open || (was_trusted != p->clock_trusted && policy_has_windows(p)))
        what |= POLICY_CHANGED_WINDOWS;
    if (was_stage != p->stage) {
        policy_keep_offline(p, true); // who is stopped now stays so over a loss of power
        what |= POLICY_CHANGED_OFFLINE;
    }
    set_edge(p);
    tell(p, what);
}

static void on_edge(struct timer *t)
{
    policy_look(container_of(t, struct policy, edge));
}

// --- Documents

// Lists are told about whenever their document was touched: what they hold is not compared.
static unsigned about(const struct policy_doc *d)
{
    unsigned what = 0;
    if (d == NULL)
        return 0;
    if ((d->v.set & 1U << POLICY_OFFLINE) != 0)
        what |= POLICY_CHANGED_OFFLINE;
    if ((d->v.set & 1U << POLICY_MAINTENANCE) != 0)
        what |= POLICY_CHANGED_WINDOWS;
    return (d->v.set & 1U << POLICY_SHED_FIRST) != 0 ? what | POLICY_CHANGED_OUTBOX : what;
}

static struct policy_doc *find(const struct policy *p, const char *key)
{
    list_each(n, &p->docs) {
        struct policy_doc *d = container_of(n, struct policy_doc, link);
        if (strcmp(d->key, key) == 0)
            return d;
    }
    return NULL;
}

void policy_hold(struct policy *p)
{
    p->held = true;
}

void policy_go_on(struct policy *p)
{
    p->held = false;
    policy_look(p);
    tell(p, ~0U);
}

bool policy_has(const struct policy *p, const char *key)
{
    return find(p, key) != NULL;
}

// `old` leaves, `d` comes; either may be NULL.
static void exchange(struct policy *p, struct policy_doc *old, struct policy_doc *d)
{
    unsigned what = about(old) | about(d);
    if (old != NULL)
        list_del(&old->link);
    if (d != NULL)
        list_add_tail(&p->docs, &d->link);
    p->n_docs += (size_t)(d != NULL) - (size_t)(old != NULL);
    policy_merge(&p->merged, &p->docs, p->pinned);
    policy_doc_free(old);
    policy_look(p);
    tell(p, what);
}

// Each pass over a policy puts it again; only what is new is news.
static bool is_known(const struct policy_doc *old, const struct policy_doc *d)
{
    return old != NULL && old->generation == d->generation && json_equal(old->spec, d->spec);
}

int policy_put(struct policy *p, struct policy_doc *d, struct err *e)
{
    struct policy_doc *old = find(p, d->key);
    if (is_known(old, d)) {
        policy_doc_free(d);
        return 0;
    }
    if (old == NULL && p->n_docs >= POLICY_DOCS_MAX) {
        policy_doc_free(d);
        return err_set(e, E_NOSPC, "more than %d policies are for this node", POLICY_DOCS_MAX);
    }
    log_info("policy", "in-force key=%s generation=%lld priority=%lld", d->key, (long long)d->generation, (long long)d->priority);
    exchange(p, old, d);
    return 0;
}

void policy_drop(struct policy *p, const char *key)
{
    struct policy_doc *old = find(p, key);
    if (old == NULL)
        return;
    log_info("policy", "dropped key=%s", key);
    exchange(p, old, NULL);
}

// --- For the engine

bool policy_has_windows(const struct policy *p)
{
    return p->merged.v.maintenance.n > 0;
}

bool policy_disruption_allowed(const struct policy *p, char *why, size_t max)
{
    char at[RFC3339_MAX];
    const struct policy_doc *from = p->merged.from[POLICY_MAINTENANCE];
    if (from == NULL || !policy_has_windows(p) || p->maintenance.open)
        return true;
    if (!p->clock_trusted)
        snprintf(why, max, "no maintenance window of policy %s/%s opens while the clock is not trusted", from->ns, from->name);
    else if (p->maintenance.until_s < 0)
        snprintf(why, max, "no maintenance window of policy %s/%s ever opens", from->ns, from->name);
    else
        snprintf(why, max, "until the maintenance window of policy %s/%s opens at %s", from->ns, from->name,
                 rfc3339_sec(p->maintenance.until_s * 1000000, at));
    return false;
}

// --- Life

static unsigned pinned_fields(const struct config *c)
{
    unsigned pinned = 0;
    for (int f = 0; f < POLICY_FIELDS; f++) {
        const struct policy_field_row *r = &policy_fields[f];
        if (r->section != NULL && config_origin_of(c, r->section, r->key) >= CONFIG_ENVIRONMENT)
            pinned |= 1U << f;
    }
    return pinned;
}

int policy_new(struct policy **out, const struct policy_conf *c, struct err *e)
{
    struct policy *p = calloc(1, sizeof(*p));
    if (p == NULL)
        return err_set(e, E_NOMEM, "policy");
    p->conf = *c;
    p->conf.changed = NULL; // until somebody can hear it
    p->pinned = pinned_fields(c->config);
    list_init(&p->docs);
    timer_init(&p->edge, on_edge);
    policy_merge(&p->merged, &p->docs, p->pinned);
    policy_recall_offline(p);
    p->ended.ended = policy_kept;
    if (p->conf.db != NULL)
        db_hook_add(p->conf.db, &p->ended);
    p->effective = *c->config;
    policy_look(p);
    p->conf.changed = c->changed;
    *out = p;
    return 0;
}

void policy_free(struct policy *p)
{
    if (p == NULL)
        return;
    timer_cancel(p->conf.loop, &p->edge);
    if (p->conf.db != NULL)
        db_hook_del(&p->ended);
    list_each_safe(n, tmp, &p->docs)
        policy_doc_free(container_of(n, struct policy_doc, link));
    free(p);
}
