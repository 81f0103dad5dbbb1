// SPDX-License-Identifier: Apache-2.0
// All that is known of one object, in one answer: itself with its status, what differs from the machine, and what happened to it.
#include <string.h>

#include "data/key.h"
#include "local/control_priv.h"

enum { EVENTS_SHOWN = 100 };

static struct agent *agent_of(struct client *c)
{
    return c->control->conf.agent;
}

static int push_event(void *ctx, struct json *ev)
{
    json_push(ctx, ev);
    return 0;
}

static int add_events(struct agent *a, const char *key, struct json *answer, struct err *e)
{
    struct event_filter f = { .key = key };
    struct json *events = json_array();
    int rc = control_newest_events(a, &f, EVENTS_SHOWN, push_event, events, e);
    json_set(answer, "events", events);
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
