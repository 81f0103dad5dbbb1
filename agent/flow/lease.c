// SPDX-License-Identifier: Apache-2.0
#include "flow/lease.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "data/json.h"

enum { CALL_TIMEOUT_MS = 10000, JITTER_PART = 25 }; // +-4 %

static const struct kube_type leases = { "coordination.k8s.io", "v1", "leases" };

// state | what is under way or awaited            | next
// IDLE  | nothing                                 | lease_start -> READ
// READ  | GET                                     | ours, free or expired -> CLAIM; another's -> WATCH; 404 -> CREATE
// CLAIM | PATCH of holder, duration, times        | ok -> HELD; 409 -> READ
// CREATE| POST                                    | ok -> HELD; exists -> READ
// HELD  | timer, then PATCH of renewTime          | ok -> HELD; 409 -> READ; error -> HELD (said to beat), after the duration READ
// WATCH | timer, then GET                         | renewTime stood still for its duration -> CLAIM
enum lease_state { L_IDLE, L_READ, L_CLAIM, L_CREATE, L_HELD, L_WATCH };

struct lease {
    struct loop *loop;
    struct kube *kube;
    struct lease_conf conf;
    char ns[64], node[254], holder[64];
    enum lease_state state;
    struct kube_call call;
    struct timer timer;
    char rv[64];
    bool moved;      // the last answer had another rv than the one before
    int64_t said_us; // the time of the last renewal
    // The other holder, as observed by our own clock.
    char other[64], other_renew[64];
    int64_t other_seen_ms, other_duration_ms;
    bool standby, told;
    int64_t asked_ms, written_ms; // the duration asked for last; the one that the server has from us, 0 = nobody knows, it is being asked
};

static void read_lease(struct lease *l);

static void set_role(struct lease *l, bool holder)
{
    if (l->told && l->standby == !holder)
        return;
    l->told = true;
    l->standby = !holder;
    if (!holder)
        log_warn("lease", "standby holder=%s remedy=\"another agent runs with this node's name\"", l->other);
    l->conf.role(l->conf.ctx, holder, l->other);
}

static void again_in(struct lease *l, int64_t ms)
{
    int64_t part = MAX(ms / JITTER_PART, (int64_t)1);
    if (timer_in(l->loop, &l->timer, ms - part + clock_rand(l->kube->clock, 2 * part)) < 0)
        log_error("lease", "no-timer");
}

static void copy(char *out, size_t max, const struct json *s)
{
    snprintf(out, max, "%s", json_str(s) != NULL ? json_str(s) : "");
}

// Takes what the answer says of the lease. False: it is no lease.
static bool learn(struct lease *l, char holder[64], char renew[64])
{
    struct json *j AUTO_JSON = NULL;
    int64_t sec = 0;
    if (json_parse(&j, buf_str(&l->call.answer), l->call.answer.len, NULL) < 0)
        return false;
    char before[sizeof(l->rv)];
    snprintf(before, sizeof(before), "%s", l->rv);
    copy(l->rv, sizeof(l->rv), json_path(j, "metadata.resourceVersion"));
    l->moved = strcmp(before, l->rv) != 0;
    copy(holder, 64, json_path(j, "spec.holderIdentity"));
    copy(renew, 64, json_path(j, "spec.renewTime"));
    l->other_duration_ms = json_i64(json_path(j, "spec.leaseDurationSeconds"), &sec) ? sec * 1000 : l->conf.duration_ms;
    return l->rv[0] != '\0';
}

static void beat(struct lease *l, const struct err *e)
{
    if (l->conf.beat != NULL)
        l->conf.beat(l->conf.ctx, e == NULL, e);
}

static void failed(struct lease *l, const struct err *e)
{
    log_debug("lease", "failed state=%d class=%s error=\"%s\"", (int)l->state, err_word(e->cls), e->msg);
    if (l->state != L_HELD)
        l->state = L_READ;
    again_in(l, MAX(e->retry_after_ms, l->conf.renew_ms));
    beat(l, e);
}

// A wall clock that stands (at the floor) must not look like a holder that is gone: a renewal that changes nothing is none.
static void now_micro(struct lease *l, char out[RFC3339_MAX])
{
    int64_t us = MAX(clock_wall_us(l->kube->clock), (int64_t)0);
    l->said_us = us == l->said_us ? us + 1 : us;
    rfc3339_micro(l->said_us, out);
}

static struct json *full_spec(struct lease *l)
{
    char now[RFC3339_MAX];
    struct json *spec = json_object();
    now_micro(l, now);
    json_set_str(spec, "holderIdentity", l->holder);
    json_set_int(spec, "leaseDurationSeconds", l->conf.duration_ms / 1000);
    l->asked_ms = l->conf.duration_ms;
    l->written_ms = 0;
    json_set_str(spec, "acquireTime", now);
    json_set_str(spec, "renewTime", now);
    return spec;
}

static int send_json(struct lease *l, struct json *body, bool create, struct err *e)
{
    struct buf text AUTO_BUF = BUF_INIT(4096);
    int rc = json_ok() ? json_print(body, &text, e) : err_set(e, E_NOMEM, "lease");
    json_free(body);
    l->call.http.total_timeout_ms = CALL_TIMEOUT_MS;
    if (rc < 0)
        return rc;
    if (create)
        return kube_create(&l->call, &leases, l->ns, NULL, NULL, buf_str(&text), text.len, e);
    return kube_patch(&l->call, KUBE_MERGE, &leases, l->ns, l->node, NULL, buf_str(&text), text.len, e);
}

static void start(struct lease *l, enum lease_state state, struct json *body, bool create)
{
    struct err e = ERR_INIT;
    l->state = state;
    l->call.http.accept = state == L_HELD ? KUBE_METADATA_ONLY : NULL; // a fifth of the bytes of a renewal
    if (send_json(l, body, create, &e) < 0)
        failed(l, &e);
}

static void create(struct lease *l)
{
    struct json *j = json_object(), *meta = json_object();
    (void)json_ok();
    json_set_str(j, "apiVersion", "coordination.k8s.io/v1");
    json_set_str(j, "kind", "Lease");
    json_set_str(meta, "name", l->node);
    json_set_str(meta, "namespace", l->ns);
    json_set(j, "metadata", meta);
    json_set(j, "spec", full_spec(l));
    start(l, L_CREATE, j, true);
}

static void claim(struct lease *l)
{
    struct json *j = json_object(), *meta = json_object(), *fields = json_array();
    (void)json_ok();
    json_push(fields, json_object()); // [{}] resets managedFields: each answer of a renewal carries the object
    json_set(meta, "managedFields", fields);
    json_set_str(meta, "resourceVersion", l->rv);
    json_set(j, "metadata", meta);
    json_set(j, "spec", full_spec(l));
    start(l, L_CLAIM, j, false);
}

// With the resourceVersion: when somebody else wrote, this is a 409 and not a silent theft.
static void renew(struct lease *l)
{
    char now[RFC3339_MAX];
    struct json *j = json_object(), *meta = json_object(), *spec = json_object();
    (void)json_ok();
    now_micro(l, now);
    json_set_str(meta, "resourceVersion", l->rv);
    json_set_str(spec, "renewTime", now);
    json_set(j, "metadata", meta);
    json_set(j, "spec", spec);
    start(l, L_HELD, j, false);
}

static void held(struct lease *l)
{
    char holder[64], when[64];
    if (!learn(l, holder, when)) {
        struct err e = ERR_INIT;
        err_set(&e, E_CORRUPT, "the answer is no lease");
        failed(l, &e);
        return;
    }
    if (l->state != L_HELD) // it was more than a renewal
        l->written_ms = l->asked_ms;
    l->state = L_HELD;
    again_in(l, l->conf.renew_ms);
    set_role(l, true);
    beat(l, NULL);
    if (l->state == L_HELD && !l->call.active && l->written_ms != l->conf.duration_ms)
        claim(l);
}

static void observe_other(struct lease *l, const char *holder, const char *when)
{
    int64_t now = loop_now(l->loop);
    if (strcmp(l->other, holder) != 0 || strcmp(l->other_renew, when) != 0) {
        snprintf(l->other, sizeof(l->other), "%s", holder);
        snprintf(l->other_renew, sizeof(l->other_renew), "%s", when);
        l->other_seen_ms = now;
    }
    if (now - l->other_seen_ms >= MAX(l->other_duration_ms, (int64_t)1000)) {
        log_info("lease", "takeover from=%s", holder);
        claim(l);
        return;
    }
    l->state = L_WATCH;
    set_role(l, false);
    again_in(l, MIN(l->conf.renew_ms, l->other_duration_ms - (now - l->other_seen_ms) + 100));
}

static void was_read(struct lease *l)
{
    char holder[64], when[64];
    if (!learn(l, holder, when)) {
        struct err e = ERR_INIT;
        err_set(&e, E_CORRUPT, "the answer is no lease");
        failed(l, &e);
    } else if (holder[0] == '\0' || when[0] == '\0' || strcmp(holder, l->holder) == 0) {
        claim(l);
    } else {
        observe_other(l, holder, when);
    }
}

static void on_done(struct kube_call *c, struct err *e)
{
    struct lease *l = container_of(c, struct lease, call);
    if (e != NULL && l->state == L_READ && e->cls == E_NOTFOUND)
        create(l);
    else if (e != NULL && l->state != L_READ && (e->cls == E_CONFLICT || e->cls == E_EXISTS || e->cls == E_NOTFOUND))
        read_lease(l);
    else if (e != NULL)
        failed(l, e);
    else if (l->state == L_READ)
        was_read(l);
    else
        held(l);
}

static void read_lease(struct lease *l)
{
    struct err e = ERR_INIT;
    l->state = L_READ;
    l->call.http.accept = NULL;
    l->call.http.total_timeout_ms = CALL_TIMEOUT_MS;
    if (kube_get(&l->call, &leases, l->ns, l->node, &e) < 0)
        failed(l, &e);
}

static void on_timer(struct timer *t)
{
    struct lease *l = container_of(t, struct lease, timer);
    if (l->call.active)
        return;
    if (l->state == L_HELD)
        renew(l);
    else
        read_lease(l);
}

void lease_tune(struct lease *l, int64_t duration_ms, int64_t renew_ms)
{
    bool same = l->conf.duration_ms == duration_ms && l->conf.renew_ms == renew_ms;
    l->conf.duration_ms = duration_ms;
    l->conf.renew_ms = renew_ms;
    if (same || l->state != L_HELD || l->call.active)
        return; // whatever comes next goes by the new times
    if (l->written_ms != duration_ms)
        claim(l);
    else
        again_in(l, renew_ms);
}

bool lease_is_running(const struct lease *l)
{
    return l->call.active || timer_is_set(&l->timer);
}

const char *lease_rv(const struct lease *l)
{
    return l->moved ? l->rv : NULL;
}

void lease_start(struct lease *l)
{
    timer_cancel(l->loop, &l->timer);
    if (l->call.active)
        return;
    if (l->state == L_IDLE)
        l->state = l->told && !l->standby && l->rv[0] != '\0' ? L_HELD : L_READ;
    on_timer(&l->timer);
}

void lease_stop(struct lease *l)
{
    timer_cancel(l->loop, &l->timer);
    kube_call_cancel(&l->call);
    l->state = L_IDLE;
}

int lease_new(struct lease **out, struct loop *lp, struct kube *k, const struct lease_conf *c, struct err *e)
{
    struct lease *l = calloc(1, sizeof(*l));
    if (l == NULL)
        return err_set(e, E_NOMEM, "lease");
    l->loop = lp;
    l->kube = k;
    l->conf = *c;
    snprintf(l->ns, sizeof(l->ns), "%s", c->ns);
    snprintf(l->node, sizeof(l->node), "%s", c->node);
    snprintf(l->holder, sizeof(l->holder), "%s", c->holder);
    timer_init(&l->timer, on_timer);
    kube_call_init(&l->call, k);
    l->call.on_done = on_done;
    *out = l;
    return 0;
}

void lease_free(struct lease *l)
{
    if (l == NULL)
        return;
    lease_stop(l);
    kube_call_fini(&l->call);
    free(l);
}
