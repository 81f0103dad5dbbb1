// SPDX-License-Identifier: Apache-2.0
// All that is known of one object, in one answer: itself with its status, what differs from the machine, and what happened to it.
#include <string.h>

#include "data/key.h"
#include "local/control_priv.h"

enum { EVENTS_SHOWN = 100, EVENTS_LOOKED = 100000 };

static struct agent *agent_of(struct client *c)
{
    return c->control->conf.agent;
}

struct story {
    const char *key;
    struct json *events;
    size_t n, skip; // the newest EVENTS_SHOWN are told
};

static int count_event(void *ctx, const struct event_row *ev)
{
    struct story *s = ctx;
    s->n += strcmp(ev->key, s->key) == 0;
    return 0;
}

static int add_event(void *ctx, const struct event_row *ev)
{
    struct story *s = ctx;
    if (strcmp(ev->key, s->key) != 0 || (s->skip > 0 && s->skip-- > 0))
        return 0;
    json_push(s->events, control_event_json(ev));
    return 0;
}

static int add_events(struct agent *a, const char *key, struct json *answer, struct err *e)
{
    struct story s = { .key = key, .events = json_array() };
    int rc = outbox_events(a->outbox, 0, EVENTS_LOOKED, false, count_event, &s, e);
    s.skip = s.n > EVENTS_SHOWN ? s.n - EVENTS_SHOWN : 0;
    if (rc == 0)
        rc = outbox_events(a->outbox, 0, EVENTS_LOOKED, false, add_event, &s, e);
    json_set(answer, "events", s.events);
    return rc;
}

static int find_object(struct agent *a, const char *key, struct json **out, struct err *e)
{
    struct cached row AUTO_CACHED = CACHED_INIT;
    int rc = cache_get(a->cache, key, &row, e);
    if (rc == E_NOTFOUND)
        return err_set(e, rc, "%s not found", key);
    return rc < 0 ? rc : json_parse(out, buf_str(&row.json), row.json.len, e);
}

static void add_status(struct agent *a, const char *key, struct json *answer, struct json *object)
{
    struct status_slot slot AUTO_SLOT = STATUS_SLOT_INIT;
    struct json *status = NULL;
    bool has = outbox_status_get(a->outbox, key, &slot, NULL) == 0;
    json_set_bool(answer, "reported", has && !slot.pending);
    if (has && json_parse(&status, buf_str(&slot.json), slot.json.len, NULL) == 0)
        json_set(object, "status", status);
}

static void add_differences(struct agent *a, const char *key, struct json *answer)
{
    struct json *list = json_array();
    struct err why = ERR_INIT;
    if (engine_differences(a->engine, key, list, &why) == 0) {
        json_set(answer, "differences", list);
        return;
    }
    json_free(list);
    json_set_str(answer, "differencesError", why.msg);
}

int control_describe(struct client *c, const struct json *q, struct err *e)
{
    struct agent *a = agent_of(c);
    const struct kind *k;
    char key[KEY_MAX];
    struct json *object = NULL;
    int rc = control_key_of(c, q, &k, key, e);
    if (rc == 0)
        rc = find_object(a, key, &object, e);
    if (rc < 0)
        return rc;
    struct json *answer = json_object();
    add_status(a, key, answer, object);
    json_set(answer, "object", object);
    add_differences(a, key, answer);
    rc = add_events(a, key, answer, e);
    if (rc < 0) {
        json_free(answer);
        return rc;
    }
    return control_line(c, answer) < 0 ? err_set(e, E_TOOBIG, "answer") : 0;
}
