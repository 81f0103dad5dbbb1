// SPDX-License-Identifier: Apache-2.0
// What happened on this node, as far as it is kept: of everything, of a kind, or of one object.
#include <string.h>

#include "data/key.h"
#include "local/control_priv.h"

enum { EVENTS_SHOWN = 1000, EVENTS_LOOKED = 1000000 };

struct tale {
    const struct event_filter *filter;
    int (*fn)(void *ctx, struct json *ev);
    void *ctx;
    size_t n, skip;
};

static bool is_told(const struct event_filter *f, const struct event_row *ev)
{
    size_t n = f->plural != NULL ? strlen(f->plural) : 0;
    if (f->plural != NULL && (strncmp(ev->key, f->plural, n) != 0 || ev->key[n] != '/'))
        return false;
    return (f->key == NULL || strcmp(f->key, ev->key) == 0) && (f->name == NULL || strcmp(f->name, ev->obj_name) == 0);
}

static int count_event(void *ctx, const struct event_row *ev)
{
    struct tale *t = ctx;
    t->n += is_told(t->filter, ev);
    return 0;
}

static struct json *event_json(const struct event_row *ev)
{
    struct json *j = json_object();
    char when[RFC3339_MAX];
    json_set_str(j, "kind", ev->kind);
    json_set_str(j, "name", ev->obj_name);
    json_set_str(j, "reason", ev->reason);
    json_set_str(j, "note", ev->note);
    json_set_bool(j, "warning", ev->warning);
    json_set_bool(j, "pending", ev->pending);
    json_set_int(j, "count", ev->count);
    json_set_str(j, "at", rfc3339_micro(ev->first.wall_us, when));
    json_set_str(j, "last", rfc3339_micro(ev->last.wall_us, when));
    return j;
}

static int tell_event(void *ctx, const struct event_row *ev)
{
    struct tale *t = ctx;
    if (!is_told(t->filter, ev) || (t->skip > 0 && t->skip-- > 0))
        return 0;
    return t->fn(t->ctx, event_json(ev));
}

int control_newest_events(struct agent *a, const struct event_filter *f, size_t most, int (*fn)(void *ctx, struct json *ev), void *ctx,
                          struct err *e)
{
    struct tale t = { .filter = f, .fn = fn, .ctx = ctx };
    int rc = outbox_events(a->outbox, 0, EVENTS_LOOKED, false, count_event, &t, e);
    t.skip = t.n > most ? t.n - most : 0;
    return rc < 0 ? rc : outbox_events(a->outbox, 0, EVENTS_LOOKED, false, tell_event, &t, e);
}

static int add_line(void *ctx, struct json *ev)
{
    return control_line(ctx, ev) < 0 ? E_TOOBIG : 0;
}

int control_events(struct client *c, const struct json *q, struct err *e)
{
    struct agent *a = c->control->conf.agent;
    const char *kind = json_str(json_get(q, "kind"));
    const struct kind *k = kind != NULL ? registry_find(a->registry, kind) : NULL;
    if (kind != NULL && k == NULL)
        return err_set(e, E_NOTFOUND, "no kind \"%.60s\" here", kind);
    struct event_filter f = { .plural = k != NULL ? k->type.plural : NULL, .name = json_str(json_get(q, "name")) };
    return control_newest_events(a, &f, EVENTS_SHOWN, add_line, c, e);
}
