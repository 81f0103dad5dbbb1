// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "data/key.h"
#include "kinds/edgeapp.h"
#include "kinds/edgeapp_spec.h"
#include "kinds/edgejob.h"
#include "local/control_priv.h"
#include "port/port.h"
#include "wire/base64.h"

static struct agent *agent_of(struct client *c)
{
    return c->control->conf.agent;
}

int control_line(struct client *c, struct json *j)
{
    struct err e = ERR_INIT;
    int rc = json_ok() ? json_print(j, &c->out, &e) : err_set(&e, E_NOMEM, "answer");
    json_free(j);
    if (rc == 0)
        rc = buf_adds(&c->out, "\n", &e);
    return rc;
}

void control_end(struct client *c, const struct err *e)
{
    struct json *j = json_object();
    (void)json_ok();
    if (e == NULL) {
        json_set_bool(j, "end", true);
    } else {
        json_set_str(j, "error", e->msg);
        json_set_str(j, "class", err_word(e->cls));
    }
    if (control_line(c, j) < 0) { // the answer is full: what matters is that it says so
        struct err ignored = ERR_INIT;
        buf_reset(&c->out);
        if (buf_adds(&c->out, "{\"error\":\"the answer is over 4 MiB; stop the agent and ask again\",\"class\":\"TooLarge\"}\n", &ignored) <
            0)
            c->streaming = false;
    }
}

// status

static int add_source(void *ctx, const char *source, const char *state, const char *rv, const char *err)
{
    struct json *j = json_object();
    json_set_str(j, "source", source);
    json_set_str(j, "state", state);
    json_set_str(j, "resourceVersion", rv);
    if (err[0] != '\0')
        json_set_str(j, "error", err);
    json_push(ctx, j);
    return 0;
}

static struct json *link_json(struct agent *a, const char *trouble)
{
    struct json *j = json_object(), *sources = json_array();
    struct sync_stats s;
    if (a->sync == NULL) {
        json_set_str(j, "state", "NotEnrolled");
        json_set_str(j, "why", trouble);
        json_free(sources);
        return j;
    }
    sync_stats(a->sync, &s);
    json_set_str(j, "state", link_state_word(s.link));
    json_set_int(j, "sinceSeconds", (loop_now(a->seams.loop) - s.since_ms) / 1000);
    json_set_str(j, "why", s.link == LINK_ONLINE ? "every source is current" : sync_why(a->sync));
    json_set_int(j, "backoffMs", s.backoff_ms);
    json_set_int(j, "relists", (int64_t)s.relists);
    json_set_int(j, "events", (int64_t)s.events);
    json_set_str(j, "held", sync_held(a->sync));
    sync_each_source(a->sync, add_source, sources);
    json_set(j, "sources", sources);
    return j;
}

// When the credential ends, and what to do when it has, or when the server does not know the node.
static struct json *credential_json(struct agent *a)
{
    struct agent_credential c = { 0 };
    struct sync_stats s = { 0 };
    struct json *j = json_object();
    char text[AGENT_REMEDY_MAX], at[RFC3339_MAX];
    int64_t since_s;
    if (a->sync == NULL || a->credential == NULL)
        return j;
    a->credential(a->ctx, &c);
    sync_stats(a->sync, &s);
    bool expired = agent_expired(a, &since_s);
    if (c.expires_s != 0)
        json_set_str(j, "expires", rfc3339_sec(c.expires_s * 1000000, at));
    json_set_bool(j, "expired", expired);
    if (c.user != NULL) {
        json_set_str(j, "kind", c.certified ? "certificate" : "token");
        json_set_str(j, "user", c.user);
        json_set_str(j, "request", c.reason);
        json_set_str(j, "requestMessage", c.message);
    }
    if (expired || s.link == LINK_IDENTITY_LOST)
        json_set_str(j, "remedy", agent_rejoin(a, text));
    return j;
}

static struct json *outbox_json(struct agent *a)
{
    struct outbox_stats s = { 0 };
    struct err e = ERR_INIT;
    struct json *j = json_object();
    char when[RFC3339_MAX];
    if (outbox_stats(a->outbox, &s, &e) < 0)
        json_set_str(j, "error", e.msg);
    json_set_int(j, "statusPending", s.status_pending);
    json_set_int(j, "eventsPending", s.events_pending);
    json_set_int(j, "eventsLost", s.events_lost);
    json_set_int(j, "dropped", s.events_dropped + s.status_dropped);
    if (s.oldest_us > 0)
        json_set_str(j, "oldest", rfc3339_sec(s.oldest_us, when));
    return j;
}

static struct json *engine_json(struct agent *a)
{
    struct engine_stats s;
    struct json *j = json_object();
    engine_stats(a->engine, &s);
    json_set_int(j, "objects", (int64_t)s.objects);
    json_set_int(j, "queued", (int64_t)s.queue_len);
    json_set_int(j, "waiting", (int64_t)s.waiting);
    json_set_int(j, "passes", (int64_t)s.passes);
    json_set_int(j, "errors", (int64_t)s.errors);
    return j;
}

static struct json *store_json(struct agent *a)
{
    struct db_stats s;
    const struct db_salvage *v = db_salvaged(a->db);
    struct json *j = json_object();
    db_stats(a->db, &s);
    json_set_int(j, "bytes", s.file_bytes + s.wal_bytes);
    json_set_int(j, "commits", (int64_t)s.commits);
    json_set_int(j, "commitFailures", (int64_t)a->commit_failures);
    if (v->happened)
        json_set_str(j, "damagedFile", v->aside);
    return j;
}

static struct json *manifests_json(const struct agent *a)
{
    struct manifests_stats s;
    struct json *j = json_object();
    manifests_stats(a->manifests, &s);
    json_set_str(j, "dir", a->config->manifests_dir);
    json_set_int(j, "files", (int64_t)s.files);
    json_set_int(j, "objects", (int64_t)s.objects);
    json_set_int(j, "bad", (int64_t)s.bad);
    json_set_int(j, "unknownFields", (int64_t)s.unknown);
    json_set_str(j, "problem", s.problem[0] != '\0' ? s.problem : NULL);
    return j;
}

static int op_status(struct client *c, const struct json *q, struct err *e)
{
    struct agent *a = agent_of(c);
    struct json *j = json_object();
    (void)q;
    json_set_str(j, "node", a->node);
    json_set_str(j, "namespace", a->ns);
    json_set_str(j, "version", c->control->conf.version);
    json_set_str(j, "server", c->control->conf.server);
    json_set_bool(j, "clockTrusted", clock_trusted(a->seams.clock));
    json_set_str(j, "lease",
                 a->lease == NULL ? "disabled" : (a->is_holder ? "held" : (a->other_holder[0] != '\0' ? "another agent's" : "unknown")));
    json_set_int(j, "wakeups", (int64_t)loop_wakeups(a->seams.loop));
    json_set(j, "link", link_json(a, c->control->conf.trouble));
    json_set(j, "credential", credential_json(a));
    json_set(j, "outbox", outbox_json(a));
    json_set(j, "engine", engine_json(a));
    json_set(j, "store", store_json(a));
    if (a->manifests != NULL)
        json_set(j, "manifests", manifests_json(a));
    return control_line(c, j) < 0 ? err_set(e, E_TOOBIG, "answer") : 0;
}

// get

struct get {
    struct client *c;
    const char *name; // NULL = all
    bool whole, found;
};

static struct json *parsed(const struct buf *b)
{
    struct json *j = NULL;
    return json_parse(&j, buf_str(b), b->len, NULL) == 0 ? j : NULL;
}

static int get_row(void *ctx, const struct cached *row)
{
    struct get *g = ctx;
    struct key_parts p;
    struct status_slot slot AUTO_SLOT = STATUS_SLOT_INIT;
    struct err e = ERR_INIT;
    if (key_split(row->key, &p, &e) < 0 || (g->name != NULL && strcmp(g->name, p.name) != 0))
        return 0;
    g->found = true;
    bool has = outbox_status_get(agent_of(g->c)->outbox, row->key, &slot, NULL) == 0;
    struct json *j = json_object(), *o = parsed(&row->json);
    json_set_str(j, "key", row->key);
    json_set_int(j, "generation", row->generation);
    json_set_bool(j, "reported", has && !slot.pending);
    if (o != NULL && has)
        json_set(o, "status", parsed(&slot.json));
    if (o != NULL && !g->whole)
        json_del(o, "spec");
    if (o != NULL)
        json_set(j, "object", o);
    return control_line(g->c, j) < 0 ? E_TOOBIG : 0;
}

struct get_kinds {
    struct get get;
    struct err *e;
};

static int get_kind(void *ctx, const struct kind *k)
{
    struct get_kinds *g = ctx;
    char prefix[80];
    snprintf(prefix, sizeof(prefix), "%s/", k->type.plural);
    return cache_each(agent_of(g->get.c)->cache, prefix, get_row, &g->get, g->e);
}

static int op_get(struct client *c, const struct json *q, struct err *e)
{
    const char *kind = json_str(json_get(q, "kind"));
    struct get_kinds g = { .get = { .c = c, .name = json_str(json_get(q, "name")), .whole = json_bool(json_get(q, "whole"), false) },
                           .e = e };
    if (kind == NULL)
        return registry_each(agent_of(c)->registry, get_kind, &g);
    const struct kind *k = registry_find(agent_of(c)->registry, kind);
    if (k == NULL)
        return err_set(e, E_NOTFOUND, "no kind \"%.60s\" here", kind);
    int rc = get_kind(&g, k);
    if (rc == 0 && g.get.name != NULL && !g.get.found)
        return err_set(e, E_NOTFOUND, "%s \"%.200s\" not found", k->type.plural, g.get.name);
    return rc;
}

int control_key_of(struct client *c, const struct json *q, const struct kind **k, char key[KEY_MAX], struct err *e)
{
    const char *kind = json_str(json_get(q, "kind")), *name = json_str(json_get(q, "name"));
    if (kind == NULL || name == NULL)
        return err_set(e, E_INVAL, "kind and name are needed");
    *k = registry_find(agent_of(c)->registry, kind);
    if (*k == NULL)
        return err_set(e, E_NOTFOUND, "no kind \"%.60s\" here", kind);
    return key_make(key, (*k)->type.plural, (*k)->cluster_scoped ? NULL : agent_of(c)->ns, name, e);
}

static int op_diff(struct client *c, const struct json *q, struct err *e)
{
    const struct kind *k;
    char key[KEY_MAX];
    int rc = control_key_of(c, q, &k, key, e);
    if (rc < 0)
        return rc;
    struct json *list = json_array(), *j = json_object();
    rc = engine_differences(agent_of(c)->engine, key, list, e);
    json_set(j, "differences", list);
    if (rc < 0) {
        json_free(j);
        return rc;
    }
    return control_line(c, j) < 0 ? err_set(e, E_TOOBIG, "answer") : 0;
}

// logs

// One line with the next piece, in base64: output need not be text. 1: there was something, 0: nothing more now.
static int read_log(struct client *c, struct err *e)
{
    enum { PIECE = 48 * 1024 };
    struct port *p = agent_of(c)->seams.port;
    struct buf bytes AUTO_BUF = BUF_INIT(PIECE), text AUTO_BUF = BUF_INIT(2 * PIECE);
    int rc = p->ops->log_read(p, c->log_name, &c->log_offset, PIECE, &bytes, e);
    if (rc < 0 || bytes.len == 0)
        return rc;
    rc = base64_encode(bytes.data, bytes.len, &text, e);
    if (rc < 0)
        return rc;
    struct json *j = json_object();
    json_set_str(j, "bytes", buf_str(&text));
    return control_line(c, j) < 0 ? err_set(e, E_NOMEM, "log") : 1;
}

int control_stream(struct client *c)
{
    struct err e = ERR_INIT;
    (void)json_ok();
    int rc = read_log(c, &e);
    if (rc > 0 || (c->following && (rc == 0 || rc == E_NOTFOUND))) // not there yet: it comes with the first start
        return MAX(rc, 0);
    if (rc == E_NOTFOUND)
        err_set(&e, rc, "%s has written no log yet", c->log_name);
    control_end(c, rc < 0 ? &e : NULL);
    return rc < 0 ? rc : E_GONE;
}

static bool has_object(struct client *c, const struct kind *k, const char *name, char key[KEY_MAX])
{
    return key_make(key, k->type.plural, agent_of(c)->ns, name, NULL) == 0 && cache_has(agent_of(c)->cache, key, NULL) == 1;
}

// Only apps and jobs have logs. Without a kind it is the app of that name, else the job.
static int find_logger(struct client *c, const struct json *q, const struct kind **k, char key[KEY_MAX], struct err *e)
{
    const char *kind = json_str(json_get(q, "kind")), *name = json_str(json_get(q, "name"));
    if (name == NULL)
        return err_set(e, E_INVAL, "a name is needed");
    *k = kind != NULL ? registry_find(agent_of(c)->registry, kind) : &kind_edgeapp;
    if (kind == NULL && !has_object(c, *k, name, key))
        *k = &kind_edgejob;
    if (*k != &kind_edgeapp && *k != &kind_edgejob)
        return err_set(e, E_NOTFOUND, "no kind \"%.60s\" with logs here", kind);
    if (!has_object(c, *k, name, key))
        return err_set(e, E_NOTFOUND, "%s \"%.200s\" not found", kind != NULL ? (*k)->type.plural : "app or job", name);
    return 0;
}

static int find_app_log(struct client *c, const struct json *q, const struct key_parts *parts, struct err *e)
{
    int64_t index = 0;
    if (json_get(q, "run") != NULL)
        return err_set(e, E_INVAL, "an app has no runs");
    if (json_get(q, "index") != NULL && (!json_i64(json_get(q, "index"), &index) || index < 0 || index >= APP_REPLICAS_MAX))
        return err_set(e, E_INVAL, "index: from 0 to %d", APP_REPLICAS_MAX - 1);
    app_log_name(c->log_name, parts->ns, parts->name, (int)index);
    return 0;
}

static bool is_in_journal(struct client *c, const char *key)
{
    struct cached row AUTO_CACHED = CACHED_INIT;
    if (cache_get(agent_of(c)->cache, key, &row, NULL) != 0)
        return false;
    struct json *o AUTO_JSON = parsed(&row.json);
    return o != NULL && app_log_in_journal(o, agent_of(c)->seams.port->ops->name);
}

struct picked {
    int64_t index;
    char uid[INST_UID_MAX];
};

static int pick_newest(void *ctx, const struct inst *i)
{
    struct picked *p = ctx;
    if (i->index == p->index)
        memcpy(p->uid, i->uid, sizeof(p->uid));
    return 0;
}

// The tool has it, for as long as the container is there.
static int tell_container(struct client *c, const struct json *q, const char *key, struct err *e)
{
    struct port *port = agent_of(c)->seams.port;
    struct picked p = { 0 };
    char name[CONTAINER_NAME_MAX];
    (void)json_i64(json_get(q, "index"), &p.index);
    int rc = port->ops->each(port, key, pick_newest, &p, e);
    if (rc < 0)
        return rc;
    if (p.uid[0] == '\0')
        return err_set(e, E_NOTFOUND, "no container of it is there, and its output went with the last one");
    port_container_name(key, p.uid, name);
    struct json *j = json_object();
    json_set_str(j, "container", name);
    return control_line(c, j) < 0 ? err_set(e, E_TOOBIG, "answer") : 0;
}

static bool is_in_container(struct client *c, const char *key)
{
    struct cached row AUTO_CACHED = CACHED_INIT;
    if (cache_get(agent_of(c)->cache, key, &row, NULL) != 0)
        return false;
    struct json *o AUTO_JSON = parsed(&row.json);
    return json_str(json_path(o, "spec.image")) != NULL;
}

// Who asks reads it there himself, with his own rights.
static int tell_journal(struct client *c, struct err *e)
{
    struct json *j = json_object();
    json_set_str(j, "journal", c->log_name);
    return control_line(c, j) < 0 ? err_set(e, E_TOOBIG, "answer") : 0;
}

static int find_job_log(struct client *c, const struct json *q, const char *key, const struct key_parts *parts, struct err *e)
{
    struct status_slot slot AUTO_SLOT = STATUS_SLOT_INIT;
    bool told = outbox_status_get(agent_of(c)->outbox, key, &slot, NULL) == 0;
    struct json *status AUTO_JSON = told ? parsed(&slot.json) : NULL;
    if (json_get(q, "index") != NULL)
        return err_set(e, E_INVAL, "a job has runs, not replicas");
    return job_log_find(status, parts->ns, parts->name, json_str(json_get(q, "run")), c->log_name, e);
}

static int op_logs(struct client *c, const struct json *q, struct err *e)
{
    const struct kind *k = NULL;
    char key[KEY_MAX];
    int64_t tail = 0;
    struct key_parts parts;
    int rc = find_logger(c, q, &k, key, e);
    if (rc == 0)
        rc = key_split(key, &parts, e);
    if (rc == 0)
        rc = k == &kind_edgejob ? find_job_log(c, q, key, &parts, e) : find_app_log(c, q, &parts, e);
    if (rc == 0 && k == &kind_edgeapp && is_in_journal(c, key))
        return tell_journal(c, e);
    if (rc == 0 && k == &kind_edgeapp && is_in_container(c, key))
        return tell_container(c, q, key, e);
    if (rc < 0)
        return rc;
    c->log_offset = json_i64(json_get(q, "tailBytes"), &tail) && tail > 0 ? -tail : 0;
    c->following = json_bool(json_get(q, "follow"), false);
    c->streaming = true;
    return 0;
}

// outbox

static int outbox_slot(void *ctx, const struct status_slot *s)
{
    struct json *j = json_object();
    char when[RFC3339_MAX];
    json_set_str(j, "type", "status");
    json_set_str(j, "key", s->key);
    json_set_int(j, "generation", s->generation);
    json_set_str(j, "at", rfc3339_sec(s->at_us, when));
    json_set(j, "status", parsed(&s->json));
    return control_line(ctx, j) < 0 ? E_TOOBIG : 0;
}

static int outbox_row(void *ctx, const struct event_row *ev)
{
    struct json *j = json_object();
    char when[RFC3339_MAX];
    json_set_str(j, "type", "event");
    json_set_str(j, "key", ev->key);
    json_set_str(j, "at", rfc3339_micro(ev->first.wall_us, when));
    json_set_str(j, "reason", ev->reason);
    json_set_str(j, "note", ev->note);
    json_set_int(j, "count", ev->count);
    json_set_bool(j, "warning", ev->warning);
    json_set_bool(j, "pending", ev->pending);
    return control_line(ctx, j) < 0 ? E_TOOBIG : 0;
}

static int op_outbox(struct client *c, const struct json *q, struct err *e)
{
    struct outbox *o = agent_of(c)->outbox;
    bool all = json_bool(json_get(q, "all"), false);
    int rc = outbox_status_pending(o, 0, 10000, outbox_slot, c, e);
    return rc < 0 ? rc : outbox_events(o, 0, 10000, !all, outbox_row, c, e);
}

// What changes.

static int op_resync(struct client *c, const struct json *q, struct err *e)
{
    struct agent *a = agent_of(c);
    bool accept = json_bool(json_get(q, "accept"), false);
    if (a->sync == NULL && a->manifests == NULL)
        return err_set(e, E_OFFLINE, "this node is not enrolled; `limpet join` first");
    if (a->manifests != NULL)
        (accept ? manifests_accept : manifests_again)(a->manifests);
    if (a->sync != NULL)
        sync_resync(a->sync, accept);
    return 0;
}

static int op_restart(struct client *c, const struct json *q, struct err *e)
{
    (void)q;
    (void)e;
    c->control->conf.restart(c->control->conf.ctx);
    return 0;
}

// leave: every object counts as proven gone; the cache forgets them.
struct leave {
    struct buf keys;
    struct err *e;
};

static int leave_key(void *ctx, const char *key)
{
    struct leave *l = ctx;
    return buf_add(&l->keys, key, strlen(key) + 1, l->e);
}

static int op_leave(struct client *c, const struct json *q, struct err *e)
{
    struct agent *a = agent_of(c);
    struct leave l = { .keys = BUF_INIT(8 * 1024 * 1024), .e = e };
    (void)q;
    if (a->sync != NULL)
        sync_standby(a->sync, true);
    int rc = cache_each_key(a->cache, NULL, leave_key, &l, e);
    for (size_t at = 0; rc == 0 && at < l.keys.len; at += strlen(l.keys.data + at) + 1) {
        rc = cache_delete(a->cache, l.keys.data + at, e);
        if (registry_of_key(a->registry, l.keys.data + at) == NULL)
            continue; // what others refer to: they are stopped, it needs no stop
        if (rc == 0)
            rc = engine_tombstone(a->db, l.keys.data + at, "", e);
        if (rc == 0)
            engine_object_gone(a->engine, l.keys.data + at);
    }
    buf_fini(&l.keys);
    return rc;
}

// One line for each object that is still here while leaving.
static int leaving_state(void *ctx, struct object_state *os)
{
    struct json *j = json_object();
    json_set_str(j, "key", object_state_key(os));
    return control_line(ctx, j) < 0 ? E_TOOBIG : 0;
}

static int op_leaving(struct client *c, const struct json *q, struct err *e)
{
    (void)q;
    (void)e;
    return engine_each(agent_of(c)->engine, leaving_state, c);
}

static int dump_line(void *ctx, const char *json, size_t n)
{
    struct client *c = ctx;
    struct err e = ERR_INIT;
    int rc = buf_add(&c->out, json, n, &e);
    return rc < 0 ? rc : buf_adds(&c->out, "\n", &e);
}

static int op_dump(struct client *c, const struct json *q, struct err *e)
{
    (void)q;
    return db_dump(agent_of(c)->db, dump_line, c, e);
}

static const struct op {
    const char *name;
    bool changes; // uid 0 only
    int (*fn)(struct client *c, const struct json *q, struct err *e);
} ops[] = {
    { "status", false, op_status },      { "get", false, op_get },
    { "diff", false, op_diff },          { "logs", false, op_logs },
    { "outbox", false, op_outbox },      { "resync", true, op_resync },
    { "restart", true, op_restart },     { "leave", true, op_leave },
    { "policy", false, control_policy }, { "describe", false, control_describe },
    { "dump", true, op_dump },           { "leaving", false, op_leaving },
    { "events", false, control_events },
};

static int dispatch(struct client *c, const struct json *q, struct err *e)
{
    const char *name = json_str(json_get(q, "op"));
    for (size_t i = 0; name != NULL && i < ARRAY_LEN(ops); i++) {
        if (strcmp(ops[i].name, name) != 0)
            continue;
        if (ops[i].changes && !c->may_change)
            return err_set(e, E_FORBIDDEN, "%s: only root may", name);
        return ops[i].fn(c, q, e);
    }
    return err_set(e, E_INVAL, "no such request");
}

void control_answer(struct client *c, const char *request, size_t len)
{
    struct err e = ERR_INIT;
    struct json *q AUTO_JSON = NULL;
    int rc = json_parse(&q, request, len, &e);
    (void)json_ok();
    if (rc == 0)
        rc = dispatch(c, q, &e);
    if (rc < 0 && e.cls == 0)
        err_set(&e, rc, "the answer is over 4 MiB");
    if (!c->streaming)
        control_end(c, rc < 0 ? &e : NULL);
}
