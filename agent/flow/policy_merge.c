// SPDX-License-Identifier: Apache-2.0
// Documents, and which of them sets a field. Pure.
#include <string.h>

#include "data/key.h"
#include "flow/policy.h"

enum { DOC_ARENA_MAX = 256 * 1024 };

const struct policy_field_row policy_fields[POLICY_FIELDS] = {
    [POLICY_SYNC_MODE] = { "sync.mode", "sync", "mode" },
    [POLICY_SYNC_INTERVAL] = { "sync.interval", "sync", "interval" },
    [POLICY_METERED_MODE] = { "sync.metered.mode", NULL, NULL },
    [POLICY_METERED_INTERVAL] = { "sync.metered.interval", NULL, NULL },
    [POLICY_METERED_WINDOWS] = { "sync.metered.windows", NULL, NULL },
    [POLICY_LEASE_INTERVAL] = { "lease.interval", "lease", "renew" },
    [POLICY_LEASE_DURATION] = { "lease.duration", "lease", "duration" },
    [POLICY_OFFLINE] = { "offline", NULL, NULL },
    [POLICY_MAX_EVENTS] = { "outbox.maxEvents", "outbox", "maxEvents" },
    [POLICY_SHED_FIRST] = { "outbox.shedFirst", NULL, NULL },
    [POLICY_MAINTENANCE] = { "maintenance.windows", NULL, NULL },
};

struct policy_doc *policy_doc_new(const char *key, const char *own_ns, struct err *e)
{
    struct key_parts parts;
    struct policy_doc *d = NULL;
    if (key_split(key, &parts, e) < 0)
        return NULL;
    d = calloc(1, sizeof(*d));
    if (d == NULL) {
        err_set(e, E_NOMEM, "policy %s", key);
        return NULL;
    }
    list_init(&d->link);
    arena_init(&d->arena, DOC_ARENA_MAX);
    memcpy(d->key, key, strlen(key) + 1); // key_split() refuses what does not fit
    d->ns = arena_strdup(&d->arena, parts.ns);
    d->name = arena_strdup(&d->arena, parts.name);
    d->shared = strcmp(parts.ns, own_ns) != 0;
    if (d->ns != NULL && d->name != NULL)
        return d;
    policy_doc_free(d);
    err_set(e, E_NOMEM, "policy %s", key);
    return NULL;
}

void policy_doc_free(struct policy_doc *d)
{
    if (d == NULL)
        return;
    list_del(&d->link);
    for (size_t i = 0; i < d->n_zones; i++)
        tz_free(d->zones[i]);
    json_free(d->spec);
    arena_reset(&d->arena);
    free(d);
}

bool policy_doc_beats(const struct policy_doc *a, const struct policy_doc *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority;
    int by_name = strcmp(a->name, b->name);
    return by_name != 0 ? by_name < 0 : !a->shared && b->shared;
}

static void take(struct policy_values *to, const struct policy_values *from, enum policy_field f)
{
    switch (f) {
    case POLICY_SYNC_MODE:
        to->sync_mode = from->sync_mode;
        break;
    case POLICY_SYNC_INTERVAL:
        to->sync_interval_ms = from->sync_interval_ms;
        break;
    case POLICY_METERED_MODE:
        to->metered_mode = from->metered_mode;
        break;
    case POLICY_METERED_INTERVAL:
        to->metered_interval_ms = from->metered_interval_ms;
        break;
    case POLICY_METERED_WINDOWS:
        to->metered = from->metered;
        break;
    case POLICY_LEASE_INTERVAL:
        to->lease_interval_ms = from->lease_interval_ms;
        break;
    case POLICY_LEASE_DURATION:
        to->lease_duration_ms = from->lease_duration_ms;
        break;
    case POLICY_OFFLINE:
        to->offline = from->offline;
        break;
    case POLICY_MAX_EVENTS:
        to->max_events = from->max_events;
        break;
    case POLICY_SHED_FIRST:
        to->shed_first = from->shed_first;
        break;
    case POLICY_MAINTENANCE:
        to->maintenance = from->maintenance;
        break;
    case POLICY_FIELDS:
        break;
    }
    to->set |= 1U << f;
}

static const struct policy_doc *winner(const struct list *docs, enum policy_field f)
{
    const struct policy_doc *best = NULL;
    list_each(n, docs) {
        const struct policy_doc *d = container_of(n, struct policy_doc, link);
        if ((d->v.set & 1U << f) != 0 && (best == NULL || policy_doc_beats(d, best)))
            best = d;
    }
    return best;
}

void policy_merge(struct policy_merged *out, const struct list *docs, unsigned pinned)
{
    *out = (struct policy_merged){ .v = { .set = 0 } };
    for (int f = 0; f < POLICY_FIELDS; f++) {
        const struct policy_doc *d = (pinned & 1U << f) == 0 ? winner(docs, (enum policy_field)f) : NULL;
        out->from[f] = d;
        if (d != NULL)
            take(&out->v, &d->v, (enum policy_field)f);
    }
}
