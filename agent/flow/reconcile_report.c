// SPDX-License-Identifier: Apache-2.0
// What leaves: events, and a status that the server no longer has as we said it.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "data/key.h"
#include "flow/reconcile_priv.h"

static bool slot_covered(const struct status_slot *slot, const char *status, size_t len)
{
    struct json *ours AUTO_JSON = NULL, *theirs AUTO_JSON = NULL;
    if (json_parse(&ours, buf_str(&slot->json), slot->json.len, NULL) < 0)
        return true; // ours is damaged: the next pass makes it anew
    if (len > 0 && json_parse(&theirs, status, len, NULL) < 0)
        return false;
    return status_covered(ours, theirs);
}

static void compare_slot(struct engine *g, const char *slot_key, const char *uid, const char *status, size_t len)
{
    struct err e = ERR_INIT;
    struct status_slot slot AUTO_SLOT = STATUS_SLOT_INIT;
    if (outbox_status_get(g->env->outbox, slot_key, &slot, NULL) == 0 && !slot.pending && strcmp(slot.uid, uid) == 0 &&
        !slot_covered(&slot, status, len) && outbox_status_resend(g->env->outbox, slot_key, &e) < 0)
        log_error("engine", "status-not-resent key=%s error=\"%s\"", slot_key, e.msg);
}

void engine_server_status(struct engine *g, const char *key, const char *uid, const char *status, size_t len)
{
    char twin[KEY_MAX + sizeof(OUTBOX_TWIN)];
    struct object_state *os = engine_state_of(g, key);
    outbox_twin_key(key, twin);
    json_cap(g->conf.pass_memory);
    compare_slot(g, os != NULL && os->local ? twin : key, uid, status, len);
    json_cap(0);
}
// Events.

// What an event says besides its note.
struct telling {
    bool warning;
    const char *reason, *action;
    const char *id;
    const struct instant *at;
};

static void send_event(struct engine *g, const struct object_state *os, const struct telling *t, const char *fmt, va_list ap)
{
    char note[1024], api[160];
    struct key_parts p;
    struct err e = ERR_INIT;
    const struct kube_type *type = &os->kind->type;
    vsnprintf(note, sizeof(note), fmt, ap);
    if (key_split(os->key, &p, &e) < 0)
        return;
    snprintf(api, sizeof(api), "%s/%s", type->group, type->version);
    struct event_in ev = { .key = os->key,
                           .uid = os->uid,
                           .kind = os->kind->name,
                           .api_version = api,
                           .ns = p.ns,
                           .name = p.name,
                           .local = os->local,
                           .warning = t->warning,
                           .reason = t->reason,
                           .action = t->action,
                           .note = note,
                           .id = t->id,
                           .at = t->at };
    if (t->warning)
        log_warn("event", "%s key=%s note=\"%s\"", t->reason, os->key, note);
    else
        log_info("event", "%s key=%s note=\"%s\"", t->reason, os->key, note);
    if (outbox_event(g->env->outbox, &ev, &e) < 0)
        log_warn("engine", "event-lost key=%s reason=%s error=\"%s\"", os->key, t->reason, e.msg);
}

void engine_event(struct engine *g, struct object_state *os, bool warning, const char *reason, const char *action, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    send_event(g, os, &(struct telling){ .warning = warning, .reason = reason, .action = action }, fmt, ap);
    va_end(ap);
}

void engine_event_of(struct engine *g, struct object_state *os, const char *id, const struct instant *at, bool warning, const char *reason,
                     const char *action, const char *fmt, ...)
{
    const struct telling t = { warning, reason, action, id, at };
    va_list ap;
    va_start(ap, fmt);
    send_event(g, os, &t, fmt, ap);
    va_end(ap);
}

void pass_event(struct pass *p, bool warning, const char *reason, const char *action, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    send_event(p->env->engine, p->os, &(struct telling){ .warning = warning, .reason = reason, .action = action }, fmt, ap);
    va_end(ap);
}

void pass_event_of(struct pass *p, const char *id, const struct instant *at, bool warning, const char *reason, const char *action,
                   const char *fmt, ...)
{
    const struct telling t = { warning, reason, action, id, at };
    va_list ap;
    va_start(ap, fmt);
    send_event(p->env->engine, p->os, &t, fmt, ap);
    va_end(ap);
}
