// SPDX-License-Identifier: Apache-2.0
#include "flow/egress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/table.h"
#include "data/json.h"
#include "data/key.h"

enum {
    SENDERS_MAX = 16,
    BATCH = 32,
    HOLD_PART = 20,
    HOLD_FROM_MS = 600000, // a link that flaps is no outage of many
    BACKOFFS_MAX = 4096,
    TIMEOUT_MS = 15000,
    UNREADABLE_MS = 5000, // until the outbox is looked into again
    BACKOFF_MIN_MS = 200,
    BACKOFF_MAX_MS = 60000,
    MERGE_KINDS_MAX = 64
};
#define CONTROLLER "edge.limpet.dev/limpet"

static const struct kube_type events = { "events.k8s.io", "v1", "events" };

// An item that failed waits here; the others pass it.
struct delay {
    struct table_node node;
    int64_t at_ms;
    unsigned failures;
    char id[];
};

struct sender {
    struct egress *egress;
    struct kube_call call;
    bool busy, is_event, by_merge;
    bool again; // what it sends failed before
    int64_t seq;
    char id[KEY_MAX + 32]; // key of the object, or name of the event
    char uid[OBJ_UID_MAX];
};

struct egress {
    struct loop *loop;
    struct kube *kube;
    struct outbox *outbox;
    struct cache *cache;
    struct registry *registry;
    struct egress_conf conf;
    bool online, awake;
    int64_t offline_at_ms, hold_until_ms;
    int64_t tokens, tokens_at_ms; // thousandths of a request
    struct timer timer;
    struct table delays;
    const struct kind *merge[MERGE_KINDS_MAX]; // kinds whose CRD lacks a status field: merge patch instead of apply
    size_t n_merge;
    struct sender senders[SENDERS_MAX];
    int n_senders;
    int n_again; // senders with an item that failed before; at most half, so that the others never wait for these
    struct egress_stats stats;
};

// Backoff per item.

static struct delay *delay_of(struct egress *g, const char *id)
{
    struct table_node *n = table_get(&g->delays, id);
    return n != NULL ? container_of(n, struct delay, node) : NULL;
}

static void delay_forget(struct egress *g, const char *id)
{
    struct delay *d = delay_of(g, id);
    if (d == NULL)
        return;
    table_del(&g->delays, &d->node);
    free(d);
}

static struct delay *delay_make(struct egress *g, const char *id)
{
    size_t n = strlen(id) + 1;
    struct delay *d = table_count(&g->delays) < BACKOFFS_MAX ? calloc(1, sizeof(*d) + n) : NULL;
    if (d == NULL)
        return NULL;
    memcpy(d->id, id, n);
    d->node.key = d->id;
    if (table_put(&g->delays, &d->node, NULL) < 0) {
        free(d);
        return NULL;
    }
    return d;
}

// Without room to remember the item, everything waits a little instead.
static void delay_item(struct egress *g, const char *id, int64_t at_least_ms)
{
    struct delay *d = delay_of(g, id);
    if (d == NULL)
        d = delay_make(g, id);
    int64_t ms = BACKOFF_MIN_MS;
    for (unsigned i = 0; d != NULL && i < d->failures && ms < BACKOFF_MAX_MS; i++)
        ms *= 2;
    ms = MIN(ms, (int64_t)BACKOFF_MAX_MS);
    ms = MAX(at_least_ms, ms / 2 + clock_rand(g->kube->clock, ms / 2 + 1));
    if (d == NULL) {
        g->tokens = -ms * g->conf.rate_per_s;
        return;
    }
    d->failures++;
    d->at_ms = loop_in(g->loop, ms);
}

// Rate: a bucket of thousandths. By the clock and not by the loop's time, which stands still during the commit of a turn: after a slow one
// the bucket would be full now, and full again in the next turn.

static void refill(struct egress *g)
{
    int64_t now = clock_mono(g->kube->clock), full = 1000 * MAX(g->conf.rate_per_s / 5, (int64_t)g->n_senders);
    g->tokens = MIN(full, g->tokens + (now - g->tokens_at_ms) * g->conf.rate_per_s);
    g->tokens_at_ms = now;
}

// Bodies.

static int status_body(struct egress *g, const struct kind *k, const struct status_slot *s, const char *rv, bool merge, struct buf *out,
                       struct err *e)
{
    struct key_parts p;
    char key[KEY_MAX];
    outbox_object_key(s->key, key);
    int rc = key_split(key, &p, e);
    (void)g;
    if (rc == 0 && merge)
        rc = buf_addf(out, e, "{\"metadata\":{\"resourceVersion\":\"%s\"},\"status\":", rv);
    else if (rc == 0)
        rc = buf_addf(out, e,
                      "{\"apiVersion\":\"%s/"
                      "%s\",\"kind\":\"%s\",\"metadata\":{\"name\":\"%s\",\"namespace\":\"%s\",\"resourceVersion\":\"%s\"},\"status\":",
                      k->type.group, k->type.version, k->name, p.name, p.ns, rv);
    if (rc == 0)
        rc = buf_add(out, buf_str(&s->json), s->json.len, e);
    return rc < 0 ? rc : buf_adds(out, "}", e);
}

static struct json *regarding(const struct event_row *ev)
{
    struct json *j = json_object();
    json_set_str(j, "apiVersion", ev->api_version);
    json_set_str(j, "kind", ev->kind);
    json_set_str(j, "name", ev->obj_name);
    json_set_str(j, "namespace", ev->ns);
    if (ev->uid[0] != '\0')
        json_set_str(j, "uid", ev->uid);
    return j;
}

static struct json *event_json(const struct egress *g, const struct event_row *ev)
{
    char when[RFC3339_MAX];
    struct json *j = json_object(), *meta = json_object();
    json_set_str(j, "apiVersion", "events.k8s.io/v1");
    json_set_str(j, "kind", "Event");
    json_set_str(meta, "name", ev->name);
    json_set_str(meta, "namespace", ev->ns);
    json_set(j, "metadata", meta);
    json_set_str(j, "eventTime", rfc3339_micro(ev->first.wall_us, when));
    json_set_str(j, "type", ev->warning ? "Warning" : "Normal");
    json_set_str(j, "reason", ev->reason);
    json_set_str(j, "action", ev->action);
    json_set_str(j, "note", ev->note);
    json_set_str(j, "reportingController", CONTROLLER);
    json_set_str(j, "reportingInstance", g->conf.node);
    json_set(j, "regarding", regarding(ev));
    if (ev->count > 1) {
        struct json *series = json_object();
        json_set_int(series, "count", ev->count);
        json_set_str(series, "lastObservedTime", rfc3339_micro(ev->last.wall_us, when));
        json_set(j, "series", series);
    }
    return j;
}

static int event_body(const struct egress *g, const struct event_row *ev, struct buf *out, struct err *e)
{
    (void)json_ok();
    struct json *j AUTO_JSON = event_json(g, ev);
    return json_ok() ? json_print(j, out, e) : err_set(e, E_NOMEM, "event %s", ev->name);
}

// Answers.

static void note_rv(struct sender *s)
{
    struct span sp;
    char rv[OBJ_RV_MAX], key[KEY_MAX];
    outbox_object_key(s->id, key);
    if (object_member(buf_str(&s->call.answer), s->call.answer.len, "metadata", "resourceVersion", &sp) && span_string(sp, rv, sizeof(rv)))
        cache_note_rv(s->egress->cache, key, s->uid, rv);
}

static bool uses_merge(const struct egress *g, const struct kind *k)
{
    for (size_t i = 0; i < g->n_merge; i++)
        if (g->merge[i] == k)
            return true;
    return false;
}

static void fall_back_to_merge(struct sender *s)
{
    struct egress *g = s->egress;
    const struct kind *k = registry_of_key(g->registry, s->id);
    if (k == NULL || uses_merge(g, k) || g->n_merge == MERGE_KINDS_MAX)
        return;
    g->merge[g->n_merge++] = k;
    log_warn("egress", "older-crd kind=%s error=\"%s\" remedy=\"limpetctl install\"", k->name, s->call.err.msg);
}

// The server will never take this one.
static void refuse(struct sender *s, const struct err *e)
{
    struct egress *g = s->egress;
    struct err se = ERR_INIT;
    log_error("egress", "refused id=%s class=%s error=\"%s\"", s->id, err_word(e->cls), e->msg);
    delay_forget(g, s->id);
    if (s->is_event) {
        g->stats.events_dropped++;
        if (outbox_event_drop(g->outbox, s->seq, &se) < 0)
            log_error("egress", "not-dropped id=%s error=\"%s\"", s->id, se.msg);
        return;
    }
    g->stats.status_dropped++;
    outbox_status_ack(g->outbox, s->id, s->seq);
}

static void failed(struct sender *s, const struct err *e)
{
    struct egress *g = s->egress;
    g->stats.errors++;
    switch (e->cls) {
    case E_CONFLICT:
        g->stats.status_conflicts++;
        delay_item(g, s->id, 0);
        break;
    case E_AUTH:
        delay_item(g, s->id, 1000);
        if (g->conf.unauthorized != NULL)
            g->conf.unauthorized(g->conf.ctx);
        break;
    case E_FORBIDDEN:
    case E_NOTFOUND:
        delay_item(g, s->id, 1000);
        if (g->conf.identity_doubt != NULL)
            g->conf.identity_doubt(g->conf.ctx);
        break;
    case E_INVAL:
        if (!s->is_event && !s->by_merge && e->http == 500)
            fall_back_to_merge(s);
        else
            refuse(s, e);
        break;
    case E_UNSUP:
    case E_TOOBIG:
        refuse(s, e);
        break;
    default:
        delay_item(g, s->id, e->retry_after_ms);
        break;
    }
    log_debug("egress", "failed id=%s class=%s error=\"%s\"", s->id, err_word(e->cls), e->msg);
}

static void succeeded(struct sender *s)
{
    struct egress *g = s->egress;
    delay_forget(g, s->id);
    if (s->is_event) {
        g->stats.events_sent++;
        outbox_event_ack(g->outbox, s->seq);
        return;
    }
    g->stats.status_sent++;
    note_rv(s);
    outbox_status_ack(g->outbox, s->id, s->seq);
}

static void on_done(struct kube_call *c, struct err *e)
{
    struct sender *s = container_of(c, struct sender, call);
    s->busy = false;
    s->egress->stats.in_flight--;
    s->egress->n_again -= s->again;
    if (e == NULL || (s->is_event && e->cls == E_EXISTS))
        succeeded(s);
    else
        failed(s, e);
    s->egress->awake = true;
}

// Sending.

static struct sender *free_sender(struct egress *g)
{
    for (int i = 0; i < g->n_senders; i++)
        if (!g->senders[i].busy)
            return &g->senders[i];
    return NULL;
}

static bool in_flight(const struct egress *g, const char *id)
{
    for (int i = 0; i < g->n_senders; i++)
        if (g->senders[i].busy && strcmp(g->senders[i].id, id) == 0)
            return true;
    return false;
}

struct round {
    struct egress *g;
    int64_t last_seq; // where the next batch goes on
    int seen;
    int64_t wake_ms; // earliest moment at which a delayed item may go
};

// May `id` go now?
static bool may_send(struct round *r, const char *id)
{
    const struct delay *d = delay_of(r->g, id);
    if (d != NULL && d->at_ms > loop_now(r->g->loop)) {
        r->wake_ms = MIN(r->wake_ms, d->at_ms);
        return false;
    }
    if (d != NULL && r->g->n_again >= MAX(r->g->n_senders / 2, 1))
        return false; // it is looked at again when one of them is done
    return !in_flight(r->g, id);
}

static void took_off(struct sender *s, const char *id, int64_t seq, bool is_event)
{
    struct egress *g = s->egress;
    s->busy = true;
    s->again = delay_of(g, id) != NULL;
    g->n_again += s->again;
    s->is_event = is_event;
    s->seq = seq;
    snprintf(s->id, sizeof(s->id), "%s", id);
    g->tokens -= 1000;
    g->stats.in_flight++;
}

static void drop_orphan(struct egress *g, const char *key)
{
    struct err e = ERR_INIT;
    g->stats.status_dropped++;
    if (outbox_status_delete(g->outbox, key, &e) < 0)
        log_error("egress", "not-dropped key=%s error=\"%s\"", key, e.msg);
}

static int send_status(struct sender *s, const struct kind *k, const struct status_slot *slot, const char *rv, struct err *e)
{
    struct egress *g = s->egress;
    struct key_parts p;
    struct buf body AUTO_BUF = BUF_INIT(300 * 1024);
    s->by_merge = uses_merge(g, k);
    char key[KEY_MAX];
    outbox_object_key(slot->key, key);
    int rc = status_body(g, k, slot, rv, s->by_merge, &body, e);
    if (rc == 0)
        rc = key_split(key, &p, e);
    s->call.http.total_timeout_ms = TIMEOUT_MS;
    if (rc == 0)
        rc = kube_patch(&s->call, s->by_merge ? KUBE_MERGE : KUBE_APPLY, &k->type, p.ns, p.name, "status", buf_str(&body), body.len, e);
    return rc;
}

static int on_slot(void *ctx, const struct status_slot *slot)
{
    struct round *r = ctx;
    struct egress *g = r->g;
    char rv[OBJ_RV_MAX], uid[OBJ_UID_MAX], key[KEY_MAX];
    struct err e = ERR_INIT;
    const struct kind *k = registry_of_key(g->registry, slot->key);
    outbox_object_key(slot->key, key);
    r->last_seq = slot->seq;
    r->seen++;
    if (k == NULL || !may_send(r, slot->key))
        return 0;
    int rc = cache_rv(g->cache, key, rv, uid, &e);
    if (rc == E_NOTFOUND || (rc == 0 && strcmp(uid, slot->uid) != 0)) {
        drop_orphan(g, slot->key); // it speaks of an object that is no more
        return 0;
    }
    struct sender *s = free_sender(g);
    if (s == NULL || g->tokens < 1000)
        return 1;
    snprintf(s->uid, sizeof(s->uid), "%s", slot->uid);
    if (rc == 0)
        rc = send_status(s, k, slot, rv, &e);
    if (rc == 0) {
        took_off(s, slot->key, slot->seq, false);
        return 0;
    }
    log_error("egress", "not-sent key=%s error=\"%s\"", slot->key, e.msg);
    delay_item(g, slot->key, 1000);
    return 0;
}

static int on_event(void *ctx, const struct event_row *ev)
{
    struct round *r = ctx;
    struct egress *g = r->g;
    struct err e = ERR_INIT;
    struct buf body AUTO_BUF = BUF_INIT(16 * 1024);
    r->last_seq = ev->seq;
    r->seen++;
    if (!may_send(r, ev->name))
        return 0;
    struct sender *s = free_sender(g);
    if (s == NULL || g->tokens < 1000)
        return 1;
    int rc = event_body(g, ev, &body, &e);
    s->call.http.total_timeout_ms = TIMEOUT_MS;
    if (rc == 0)
        rc = kube_create(&s->call, &events, ev->ns, NULL, NULL, buf_str(&body), body.len, &e);
    if (rc == 0) {
        took_off(s, ev->name, ev->seq, true);
        return 0;
    }
    log_error("egress", "not-sent event=%s error=\"%s\"", ev->name, e.msg);
    delay_item(g, ev->name, 1000);
    return 0;
}

// Walks the pending items oldest first until nothing may go; > 0: no sender or token is left.
static int walk(struct egress *g, struct round *r, bool is_event)
{
    struct err e = ERR_INIT;
    int rc;
    r->last_seq = 0;
    do {
        r->seen = 0;
        rc = is_event ? outbox_events(g->outbox, r->last_seq, BATCH, true, on_event, r, &e)
                      : outbox_status_pending(g->outbox, r->last_seq, BATCH, on_slot, r, &e);
    } while (rc == 0 && r->seen == BATCH);
    if (rc < 0)
        log_error("egress", "outbox-unreadable error=\"%s\"", e.msg);
    return rc;
}

static void on_timer(struct timer *t)
{
    container_of(t, struct egress, timer)->awake = true;
}

static void sleep_until(struct egress *g, int64_t at_ms)
{
    if (at_ms != INT64_MAX && timer_set(g->loop, &g->timer, at_ms) < 0)
        log_error("egress", "no-timer");
}

bool egress_run(struct egress *g)
{
    if (!g->online || !g->awake)
        return false;
    struct round r = { .g = g, .wake_ms = INT64_MAX };
    g->awake = false;
    if (loop_now(g->loop) < g->hold_until_ms) {
        sleep_until(g, g->hold_until_ms);
        return false;
    }
    refill(g);
    int rc = walk(g, &r, false);
    if (rc == 0)
        rc = walk(g, &r, true);
    if (rc > 0 && free_sender(g) != NULL) // the rate is used up
        r.wake_ms = MIN(r.wake_ms, loop_now(g->loop) + MAX((1000 - g->tokens) / g->conf.rate_per_s, (int64_t)5));
    if (rc < 0) // an idle agent commits nothing that would wake us when the disk is well again
        r.wake_ms = MIN(r.wake_ms, loop_in(g->loop, UNREADABLE_MS));
    sleep_until(g, r.wake_ms);
    return false;
}

void egress_wake(struct egress *g)
{
    g->awake = true;
}

static void cancel_all(struct egress *g)
{
    for (int i = 0; i < g->n_senders; i++) {
        kube_call_cancel(&g->senders[i].call);
        g->senders[i].busy = false;
    }
    g->stats.in_flight = 0;
    g->n_again = 0;
}

static void hold(struct egress *g)
{
    int64_t now = loop_now(g->loop), outage = now - g->offline_at_ms;
    int64_t most = outage >= HOLD_FROM_MS ? MIN(outage / HOLD_PART, g->conf.hold_max_ms) : 0;
    g->hold_until_ms = now + clock_rand(g->kube->clock, most);
}

void egress_online(struct egress *g, bool online)
{
    if (online && !g->online)
        hold(g);
    if (!online && g->online)
        g->offline_at_ms = loop_now(g->loop);
    g->online = online;
    g->awake = online;
    if (online)
        return;
    cancel_all(g);
    timer_cancel(g->loop, &g->timer);
}

void egress_stats(struct egress *g, struct egress_stats *out)
{
    *out = g->stats;
}

int egress_new(struct egress **out, struct loop *l, struct kube *k, struct outbox *o, struct cache *c, struct registry *r,
               const struct egress_conf *conf, struct err *e)
{
    struct egress *g = calloc(1, sizeof(*g));
    if (g == NULL)
        return err_set(e, E_NOMEM, "egress");
    g->loop = l;
    g->kube = k;
    g->outbox = o;
    g->cache = c;
    g->registry = r;
    g->conf = *conf;
    g->conf.rate_per_s = conf->rate_per_s > 0 ? conf->rate_per_s : 50;
    g->n_senders = conf->in_flight > 0 ? MIN(conf->in_flight, SENDERS_MAX) : 8;
    g->offline_at_ms = loop_now(l);
    g->tokens_at_ms = clock_mono(k->clock);
    g->tokens = 1000 * g->n_senders;
    table_init(&g->delays);
    timer_init(&g->timer, on_timer);
    for (int i = 0; i < g->n_senders; i++) {
        g->senders[i].egress = g;
        kube_call_init(&g->senders[i].call, k);
        g->senders[i].call.http.accept = KUBE_METADATA_ONLY; // a status is not answered with the spec
        g->senders[i].call.on_done = on_done;
    }
    *out = g;
    return 0;
}

void egress_free(struct egress *g)
{
    if (g == NULL)
        return;
    egress_online(g, false);
    for (int i = 0; i < g->n_senders; i++)
        kube_call_fini(&g->senders[i].call);
    table_each_safe(n, &g->delays) free(container_of(n, struct delay, node));
    table_fini(&g->delays);
    free(g);
}
