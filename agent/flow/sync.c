// SPDX-License-Identifier: Apache-2.0
//
// The link: down -> check (is it the cluster we know?) -> up. Sources run only while it is up.
#include "flow/sync.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "data/key.h"
#include "flow/backoff.h"
#include "flow/sync_priv.h"

enum {
    RECHECK_LOST_MIN_MS = 2000,
    RECHECK_LOST_MAX_MS = 60000,
    KICK_SPREAD_MS = 1500,
    OUR_LINK_MS = 60000,
    LIST_SPREAD_FROM_MS = 600000,
    LIST_SPREAD_PART = 20,
    SHORT_WATCH_LIMIT = 5,
    CHECK_TIMEOUT_MS = 10000,
    AGAIN_MAX = 16,
    AGAIN_SPREAD_MS = 1000,
    UNAUTHORIZED_MS = 10000,
    BUSY_OUTAGE_MS = 300000
};

static const struct kube_type namespaces = { "", "v1", "namespaces" };
const char *link_state_word(enum link_state s)
{
    static const char *const words[] = { "Offline", "Online", "IdentityLost", "Standby" };
    return words[s];
}

static void report(struct sync *s, enum link_state state, const char *why)
{
    if (s->reported_once && s->reported == state)
        return;
    s->reported_once = true;
    s->reported = state;
    s->stats.link = state;
    s->stats.since_ms = loop_now(s->loop);
    log_info("sync", "link state=%s why=\"%s\"", link_state_word(state), why);
    s->conf.link(s->conf.ctx, state, why);
}

bool sync_is_link_error(int cls)
{
    return cls == E_OFFLINE || cls == E_TIMEOUT || cls == E_CORRUPT || cls == E_AUTH;
}

void sync_contact(struct sync *s)
{
    s->stats.last_contact_ms = loop_now(s->loop);
    if (s->contact_ms == 0)
        s->contact_ms = s->stats.last_contact_ms;
}

enum sync_mode sync_mode_now(const struct sync *s)
{
    enum sync_mode m = s->conf.config->sync_mode;
    if (s->conf.config->server_metaserver)
        return SYNC_LIST;
    if (m == SYNC_AUTO)
        return s->poll_instead ? SYNC_POLL : SYNC_WATCH;
    return m;
}

// A busy server's own wish comes on top. It turns away by itself what is too much, so a long outage before is no reason to stay away long.
static int64_t backoff(struct sync *s, int64_t at_least_ms)
{
    const struct config *c = s->conf.config;
    int64_t outage_ms = loop_now(s->loop) - s->down_since_ms;
    if (at_least_ms > 0)
        outage_ms = MIN(outage_ms, (int64_t)BUSY_OUTAGE_MS);
    s->backoff_ms =
        at_least_ms + backoff_next_ms(outage_ms, s->tries++, c->sync_backoff_min_ms, c->sync_backoff_cap_ms, clock_rand64(s->kube->clock));
    return s->backoff_ms;
}

static void retry_in(struct sync *s, int64_t ms)
{
    if (timer_in(s->loop, &s->retry, ms) < 0)
        log_error("sync", "no-retry-timer");
}

// The link comes up with about a dozen requests, and where four of ten are lost nobody gets through all of them at one go: once the server
// has answered any, one that breaks is asked again by itself, so often in an attempt. A server that is away is met by the first request.
bool sync_asks_again(struct sync *s, const struct err *e)
{
    if ((e->cls != E_OFFLINE && e->cls != E_TIMEOUT) || !s->answered || s->reported == LINK_ONLINE || s->again == AGAIN_MAX)
        return false;
    s->again++;
    if (e->cls == E_TIMEOUT)
        http_condemn(s->kube->transport);
    log_debug("sync", "asks-again error=\"%s\"", e->msg);
    return true;
}

int64_t sync_again_ms(struct sync *s)
{
    return clock_rand(s->kube->clock, AGAIN_SPREAD_MS);
}

static void stop_sources(struct sync *s)
{
    list_each(n, &s->sources)
        source_stop(container_of(n, struct source, link));
}

void sync_link_down(struct sync *s, const struct err *e)
{
    if (s->down_since_ms == 0)
        s->down_since_ms = loop_now(s->loop);
    if (sync_is_link_error(e->cls))
        s->contact_ms = 0;
    s->phase = PHASE_DOWN;
    s->awaits_admission = false;
    kube_call_cancel(&s->check);
    kube_call_cancel(&s->verify);
    s->verifying = false;
    stop_sources(s);
    if (e->cls == E_TIMEOUT)
        http_condemn(s->kube->transport);
    if (e->cls == E_AUTH && s->conf.unauthorized != NULL)
        s->conf.unauthorized(s->conf.ctx);
    snprintf(s->why, sizeof(s->why), "%s", e->msg);
    int64_t d = backoff(s, e->retry_after_ms);
    log_debug("sync", "down retry_ms=%lld error=\"%s\"", (long long)d, e->msg);
    if (!s->lost)
        report(s, LINK_OFFLINE, s->why);
    retry_in(s, d);
}

// Soon at first: a server that is just starting refuses everybody for some seconds, until it knows its own roles.
static int64_t recheck_lost(struct sync *s)
{
    int64_t ms = RECHECK_LOST_MIN_MS << MIN(s->lost_checks++, 5u);
    ms = MIN(ms, (int64_t)RECHECK_LOST_MAX_MS);
    return ms + clock_rand(s->kube->clock, ms / 10);
}

void sync_identity_lost(struct sync *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(s->why, sizeof(s->why), fmt, ap);
    va_end(ap);
    s->lost = true;
    s->phase = PHASE_DOWN;
    kube_call_cancel(&s->verify);
    s->verifying = false;
    stop_sources(s);
    list_each(n, &s->sources) {
        struct source *src = container_of(n, struct source, link);
        guard_drop(src);
        src->rv[0] = '\0'; // what was said meanwhile is not believed: list when the identity is back
    }
    log_warn("sync", "identity-lost why=\"%s\" remedy=\"everything is kept; limpet status says how to join again; or run limpet leave\"",
             s->why);
    report(s, LINK_IDENTITY_LOST, s->why);
    retry_in(s, recheck_lost(s));
}

// A source that fails alone and for long (its CRD is missing, 403) does not keep the others, or the outbox, waiting.
static bool settled(const struct source *src)
{
    int cls = src->last.cls;
    if (src->shared || src->kind->referred)
        return src->current || src->unwanted || src->state == SRC_BACKOFF;
    return src->current || (src->state == SRC_BACKOFF && (cls == E_FORBIDDEN || cls == E_NOTFOUND || cls == E_UNSUP || cls == E_INVAL));
}

// Everything of ours at once: that is about this node, not about a kind. The next check asks for the namespace.
static bool all_forbidden(const struct sync *s)
{
    list_each(n, &s->sources) {
        const struct source *src = container_of(n, struct source, link);
        if (!src->shared && !src->kind->referred && (src->state != SRC_BACKOFF || src->last.cls != E_FORBIDDEN))
            return false;
    }
    return !list_empty(&s->sources);
}

void sync_settled(struct sync *s)
{
    struct err e = ERR_INIT;
    if (s->phase != PHASE_UP)
        return;
    list_each(n, &s->sources)
        if (!settled(container_of(n, struct source, link)))
            return;
    if (all_forbidden(s)) {
        err_set(&e, E_FORBIDDEN, "every kind in namespace %s is forbidden", s->ns);
        sync_link_down(s, &e);
        return;
    }
    s->tries = 0;
    s->backoff_ms = 0;
    s->down_since_ms = 0;
    s->spread_ms = 0;
    s->accept = false;
    report(s, LINK_ONLINE, "every source is current");
}

// The check: uid of kube-system; uid and phase of our own namespace; may specs be taken (that is the lease)? and, where the lease did not
// tell already: did the resourceVersion go backwards?
#define CLUSTER_UID "cluster_uid" // of the store: kube-system's
enum { STEP_CLUSTER, STEP_NAMESPACE, STEP_ADMISSION, STEP_RV, STEPS };

static void check_next(struct sync *s);
static void check_step(struct sync *s);
static void ask_admission(struct sync *s);

// The first check after a join is through: from now on the cluster and the namespace are known ones.
static void join_is_done(struct sync *s)
{
    struct err e = ERR_INIT;
    s->joined = false;
    if (db_meta_set(s->db, SYNC_JOINED, NULL, &e) < 0)
        log_error("sync", "join-not-noted error=\"%s\"", e.msg);
}

// A server that was away for long hears its whole fleet within a minute, and nothing of that costs it more than lists. When it was our own
// link that came back, or somebody asked for this contact, no fleet comes with us.
static int64_t list_spread(const struct sync *s)
{
    int64_t now = loop_now(s->loop), cap = s->conf.config->sync_backoff_cap_ms, outage = s->down_since_ms > 0 ? now - s->down_since_ms : 0;
    if (outage < LIST_SPREAD_FROM_MS || (s->kicked_ms > 0 && now - s->kicked_ms < OUR_LINK_MS))
        return 0;
    return MIN(outage / LIST_SPREAD_PART, cap + cap / 2);
}

static void go_up(struct sync *s)
{
    s->phase = PHASE_UP;
    s->spread_ms = list_spread(s);
    s->lost = false;
    if (s->joined)
        join_is_done(s);
    s->lost_checks = 0;
    list_each(n, &s->sources)
        source_start(container_of(n, struct source, link));
}

// The owner gave this node another cluster or namespace: no place in the history of the old one means anything there.
static void start_over(struct sync *s)
{
    guard_hold(s, "this node was joined to another cluster or namespace");
    s->rows_rv[0] = '\0';
    list_each(n, &s->sources)
        container_of(n, struct source, link)->rv[0] = '\0';
}

// E_NOTFOUND: first contact, it is remembered now.
static int same_as_known(struct sync *s, const char *meta, const char *value, struct err *e)
{
    char known[128];
    int rc = db_meta_get(s->db, meta, known, sizeof(known), e);
    if (rc == 0 && strcmp(known, value) == 0)
        return 0;
    if (rc == 0 && !s->joined)
        return E_CONFLICT;
    if (rc == 0)
        start_over(s);
    return rc == 0 || rc == E_NOTFOUND ? db_meta_set(s->db, meta, value, e) : rc;
}

static bool namespace_terminating(const struct object_view *v, const char *json, size_t len)
{
    char phase[32] = "";
    struct span sp;
    if (object_member(json, len, "status", "phase", &sp))
        (void)span_string(sp, phase, sizeof(phase));
    return v->deleting || strcmp(phase, "Terminating") == 0;
}

// A server that is just starting knows no account for some seconds, and a token may be replaced in a moment: a 401 is read as a bad link
// first. When nothing else comes for longer than that, nobody knows this node any more.
static bool is_disowned(struct sync *s, const struct err *e)
{
    int64_t now = loop_now(s->loop);
    if (e == NULL || e->http != 401) {
        s->unauthorized_since_ms = 0;
        return false;
    }
    if (s->unauthorized_since_ms == 0)
        s->unauthorized_since_ms = now;
    return now - s->unauthorized_since_ms >= UNAUTHORIZED_MS;
}

static void check_kube_system(struct sync *s, const struct err *e)
{
    struct object_view v;
    struct err pe = ERR_INIT;
    if (is_disowned(s, e)) {
        if (s->conf.unauthorized != NULL)
            s->conf.unauthorized(s->conf.ctx);
        sync_identity_lost(s, "the server does not know the account of this node: %s", e->msg);
        return;
    }
    if (e != NULL && e->cls != E_FORBIDDEN && e->cls != E_NOTFOUND) {
        sync_link_down(s, e);
        return;
    }
    // Without permission the CA alone speaks for the cluster.
    if (e == NULL && object_scan(&v, buf_str(&s->check.answer), s->check.answer.len, &pe) < 0) {
        sync_link_down(s, &pe);
        return;
    }
    int rc = e == NULL ? same_as_known(s, CLUSTER_UID, v.uid, &pe) : 0;
    if (rc == E_CONFLICT)
        sync_identity_lost(s, "another cluster answers at this address (kube-system has uid %s)", v.uid);
    else if (rc < 0)
        sync_link_down(s, &pe);
    else
        check_next(s);
}

// The list that a MetaServer gives for a namespace.
struct shown {
    const char *ns;
    struct object_view *v;
    bool active;
};

static int look_at_namespace(void *ctx, const char *json, size_t len)
{
    struct shown *w = ctx;
    struct object_view v;
    struct span sp;
    char phase[32] = "";
    if (object_scan(&v, json, len, NULL) < 0 || strcmp(v.name, w->ns) != 0) // what it was asked for may mean nothing to it
        return 0;
    if (object_member(json, len, "status", "phase", &sp))
        (void)span_string(sp, phase, sizeof(phase));
    w->active = strcmp(phase, "Active") == 0 && !v.deleting;
    memcpy(w->v->uid, v.uid, sizeof(v.uid));
    return 0;
}

// A GET of a namespace may be answered by MetaServer's cache with what was there once; a list by this selector cannot, for the cache
// finds nothing by a field that it does not know. An item is the word of the cloud, and nothing is no word at all.
static int read_shown(const char *ns, const struct kube_call *c, struct object_view *v, struct err *why)
{
    struct shown w = { .ns = ns, .v = v };
    struct list_splitter items;
    list_splitter_init(&items, look_at_namespace, &w);
    int rc = list_splitter_feed(&items, buf_str(&c->answer), c->answer.len, why);
    if (rc == 0)
        rc = list_splitter_end(&items, why);
    list_splitter_fini(&items);
    if (rc == 0 && !w.active)
        rc = err_set(why, E_UNSUP, "MetaServer does not show namespace %s", ns);
    return rc;
}

int sync_get_namespace(struct sync *s, const char *ns, struct kube_call *c, struct err *e)
{
    char fields[128];
    if (!s->conf.config->server_metaserver)
        return kube_get(c, &namespaces, NULL, ns, e);
    snprintf(fields, sizeof(fields), "metadata.name=%s,status.phase=Active", ns);
    return kube_list(c, &namespaces, NULL, &(struct kube_list_opts){ .field_selector = fields }, e);
}

// Which namespace it is, from the answer to sync_get_namespace(). E_UNSUP: a MetaServer that shows none. E_NOTFOUND: it is being deleted.
static int read_namespace(struct sync *s, const char *ns, const struct kube_call *c, struct object_view *v, struct err *why)
{
    const char *json = buf_str(&c->answer);
    if (s->conf.config->server_metaserver)
        return read_shown(ns, c, v, why);
    int rc = object_scan(v, json, c->answer.len, why);
    return rc == 0 && namespace_terminating(v, json, c->answer.len) ? err_set(why, E_NOTFOUND, "is being deleted") : rc;
}

static enum ns_verdict is_lost(struct sync *s, const char *after, const char *why)
{
    sync_identity_lost(s, "%sown namespace %s %s", after, s->ns, why);
    return NS_LOST;
}

enum ns_verdict sync_namespace_verdict(struct sync *s, const struct kube_call *c, const struct err *e, const char *after)
{
    struct object_view v;
    struct err pe = ERR_INIT;
    bool through_meta = s->conf.config->server_metaserver;
    int rc = e != NULL ? err_set(&pe, e->cls, "is refused: %s", e->msg) : read_namespace(s, s->ns, c, &v, &pe);
    if (through_meta && !s->lost && (rc == E_UNSUP || rc == E_FORBIDDEN || rc == E_NOTFOUND)) {
        log_debug("sync", "namespace-unproven why=\"%s\"", pe.msg);
        return NS_UNPROVEN;
    }
    if (rc == E_FORBIDDEN || rc == E_NOTFOUND || (through_meta && rc == E_UNSUP))
        return is_lost(s, after, pe.msg);
    if (rc == 0)
        rc = same_as_known(s, "namespace_uid", v.uid, &pe);
    if (rc == E_CONFLICT)
        return is_lost(s, after, "was deleted and made again");
    if (rc < 0)
        sync_link_down(s, e != NULL ? e : &pe);
    return rc == 0 ? NS_OURS : NS_LOST;
}

static void shared_meta(char out[128], const char *ns)
{
    snprintf(out, 128, "namespace_uid:%s", ns);
}

int sync_shared_namespace(struct sync *s, const char *ns, const struct kube_call *c, const struct err *e, struct err *why)
{
    struct object_view v;
    char meta[128];
    if (e != NULL)
        return err_set(why, e->cls, "namespace %s: %s", ns, e->msg);
    int rc = read_namespace(s, ns, c, &v, why);
    if (rc < 0)
        return err_wrap(why, "namespace %s", ns);
    shared_meta(meta, ns);
    rc = same_as_known(s, meta, v.uid, why);
    return rc == E_CONFLICT ? err_set(why, rc, "namespace %s was deleted and made again", ns) : rc;
}

int sync_shared_accept(struct sync *s, const char *ns, const struct kube_call *c, struct err *e)
{
    struct object_view v;
    char meta[128];
    int rc = read_namespace(s, ns, c, &v, e);
    shared_meta(meta, ns);
    return rc < 0 ? rc : db_meta_set(s->db, meta, v.uid, e);
}

static void check_namespace(struct sync *s, const struct err *e)
{
    enum ns_verdict v = sync_namespace_verdict(s, &s->check, e, "");
    s->unproven = v == NS_UNPROVEN;
    if (v != NS_LOST)
        check_next(s);
}

static bool is_newer(const char *rv, const char *than)
{
    bool ordered = false;
    return rv[0] != '\0' && (than[0] == '\0' || (rv_compare(rv, than, &ordered) > 0 && ordered));
}

static const char *newest_rv(struct sync *s)
{
    const char *best = s->rows_rv;
    list_each(n, &s->sources) {
        const struct source *src = container_of(n, struct source, link);
        if (is_newer(src->rv, best))
            best = src->rv;
    }
    return best;
}

static int note_row(void *ctx, const char *key)
{
    struct sync *s = ctx;
    char rv[OBJ_RV_MAX], uid[OBJ_UID_MAX];
    if (cache_rv(s->cache, key, rv, uid, NULL) == 0 && is_newer(rv, s->rows_rv))
        snprintf(s->rows_rv, sizeof(s->rows_rv), "%s", rv);
    return 0;
}

static void compare_rv(struct sync *s, const char *got)
{
    const char *have = newest_rv(s);
    bool ordered = false;
    if (rv_compare(got, have, &ordered) < 0 && ordered)
        guard_restored(s, have, got);
    s->rows_rv[0] = '\0';
}

static void check_rv(struct sync *s, const struct err *e)
{
    struct span sp;
    char got[OBJ_RV_MAX] = "";
    if (e != NULL && sync_is_link_error(e->cls)) {
        sync_link_down(s, e);
        return;
    }
    if (e == NULL && object_member(buf_str(&s->check.answer), s->check.answer.len, "metadata", "resourceVersion", &sp) &&
        span_string(sp, got, sizeof(got)))
        compare_rv(s, got);
    check_next(s);
}

static void on_check(struct kube_call *c, struct err *e)
{
    struct sync *s = container_of(c, struct sync, check);
    if (e == NULL || !sync_is_link_error(e->cls)) {
        sync_contact(s);
        s->answered = true;
    } else if (sync_asks_again(s, e)) {
        retry_in(s, sync_again_ms(s));
        return;
    }
    switch (s->check_step) {
    case STEP_CLUSTER:
        check_kube_system(s, e);
        break;
    case STEP_NAMESPACE:
        check_namespace(s, e);
        break;
    default:
        check_rv(s, e);
        break;
    }
}

static int start_check(struct sync *s, struct err *e)
{
    static const struct kube_list_opts one = { .limit = 1 };
    s->check.on_done = on_check;
    s->check.http.total_timeout_ms = CHECK_TIMEOUT_MS;
    switch (s->check_step) {
    case STEP_CLUSTER:
        return kube_get(&s->check, &namespaces, NULL, "kube-system", e);
    case STEP_NAMESPACE:
        return sync_get_namespace(s, s->ns, &s->check, e);
    default:
        return kube_list(&s->check, &container_of(s->sources.next, struct source, link)->kind->type, s->ns, &one, e);
    }
}

static bool step_is_needed(struct sync *s, int step)
{
    if (step == STEP_ADMISSION)
        return s->conf.admit != NULL;
    if (s->conf.config->server_metaserver)
        return step == STEP_NAMESPACE; // of the rest a cache that answers 200 with wrong data proves nothing
    return step != STEP_RV || (!list_empty(&s->sources) && newest_rv(s)[0] != '\0');
}

static void check_step(struct sync *s)
{
    struct err e = ERR_INIT;
    if (s->check_step == STEP_ADMISSION)
        ask_admission(s);
    else if (start_check(s, &e) < 0)
        sync_link_down(s, &e);
}

static void check_next(struct sync *s)
{
    do
        s->check_step++;
    while (s->check_step < STEPS && !step_is_needed(s, s->check_step));
    if (s->check_step == STEPS)
        go_up(s);
    else
        check_step(s);
}

static void ask_admission(struct sync *s)
{
    s->awaits_admission = true;
    if (s->conf.admit(s->conf.ctx))
        sync_admit(s, NULL);
}

// The lease was written, so its resourceVersion is the newest of the database, and nobody has to ask for that.
void sync_admit(struct sync *s, const char *rv)
{
    if (!s->awaits_admission)
        return;
    s->awaits_admission = false;
    if (rv == NULL) {
        check_next(s);
        return;
    }
    compare_rv(s, rv);
    go_up(s);
}

void sync_refused(struct sync *s, const struct err *e)
{
    if (!s->awaits_admission)
        return;
    if (!sync_asks_again(s, e)) {
        sync_link_down(s, e);
        return;
    }
    s->awaits_admission = false;
    retry_in(s, sync_again_ms(s));
}

static void try_now(struct sync *s)
{
    timer_cancel(s->loop, &s->retry);
    if (s->standby || s->phase != PHASE_DOWN)
        return;
    s->phase = PHASE_CHECK;
    s->check_step = -1;
    s->answered = false;
    s->again = 0;
    check_next(s);
}

static void on_retry(struct timer *t)
{
    struct sync *s = container_of(t, struct sync, retry);
    if (s->phase == PHASE_CHECK)
        check_step(s);
    else
        try_now(s);
}

// A try that is under way when a link comes up may hang on a packet that was lost before, for as long as connecting may take.
static void abandon_try(struct sync *s)
{
    kube_call_cancel(&s->check);
    s->awaits_admission = false;
    s->phase = PHASE_DOWN;
    http_condemn(s->kube->transport);
}

void sync_kick(struct sync *s, bool now)
{
    if (s->phase == PHASE_CHECK && !now && !s->standby)
        abandon_try(s);
    if (s->phase != PHASE_DOWN || s->standby)
        return;
    s->tries = 0;
    s->kicked_ms = loop_now(s->loop);
    if (now)
        try_now(s);
    else
        retry_in(s, clock_rand(s->kube->clock, KICK_SPREAD_MS));
}

static int add_kind(void *ctx, const struct kind *k)
{
    struct sync *s = ctx;
    struct err e = ERR_INIT;
    int rc = source_add(s, k, k->cluster_scoped ? "" : s->ns, &e);
    if (rc == 0 && k->shared_ns != NULL && strcmp(k->shared_ns, s->ns) != 0)
        rc = source_add(s, k, k->shared_ns, &e);
    if (rc < 0)
        log_error("sync", "no-source kind=%s error=\"%s\"", k->name, e.msg);
    return rc;
}

// A store that was lost must not make whichever cluster answers first ours: the identity's own file knows better.
static void know_cluster(struct sync *s)
{
    char known[128];
    struct err e = ERR_INIT;
    if (s->conf.cluster != NULL && db_meta_get(s->db, CLUSTER_UID, known, sizeof(known), NULL) == E_NOTFOUND &&
        db_meta_set(s->db, CLUSTER_UID, s->conf.cluster, &e) < 0)
        log_error("sync", "cluster-not-noted error=\"%s\"", e.msg);
    s->conf.cluster = NULL; // the caller's, who may read its identity again
}

int sync_start(struct sync *s, struct err *e)
{
    if (registry_each(s->registry, add_kind, s) < 0)
        return err_set(e, E_NOMEM, "sources");
    // The sources' own are kept lazily: after a crash there may be none, and a restored database must be noticed all the same.
    int rc = cache_each_key(s->cache, NULL, note_row, s, e);
    if (rc < 0)
        return rc;
    know_cluster(s);
    s->down_since_ms = loop_now(s->loop);
    report(s, LINK_OFFLINE, "starting");
    try_now(s);
    return 0;
}

static struct source *source_of(struct sync *s, const struct kind *k)
{
    list_each(n, &s->sources) {
        struct source *src = container_of(n, struct source, link);
        if (src->kind == k && !src->shared)
            return src;
    }
    return NULL;
}

int sync_follow(struct sync *s, const struct kind *k, bool on, struct err *e)
{
    struct source *src = source_of(s, k);
    if (src == NULL && on) {
        int rc = source_add(s, k, s->ns, e);
        if (rc < 0)
            return rc;
        src = source_of(s, k);
    }
    if (src == NULL)
        return 0;
    src->unwanted = !on;
    src->rv[0] = '\0';
    if (!on) {
        source_stop(src);
        sync_settled(s);
    } else if (s->phase == PHASE_UP) {
        source_start(src);
    }
    return 0;
}

void sync_refresh(struct sync *s, const struct kind *k)
{
    struct source *src = source_of(s, k);
    if (src != NULL)
        source_refresh(src);
}

void sync_resync(struct sync *s, bool accept)
{
    if (accept) {
        s->accept = true;
        s->hold_until_ms = 0;
        s->held[0] = '\0';
        if (s->lost) { // the owner says so: what answers now is our cluster and namespace
            struct err e = ERR_INIT;
            if (db_meta_set(s->db, CLUSTER_UID, NULL, &e) < 0 || db_meta_set(s->db, "namespace_uid", NULL, &e) < 0)
                log_error("sync", "identity-not-accepted error=\"%s\"", e.msg);
        }
    }
    list_each(n, &s->sources) {
        struct source *src = container_of(n, struct source, link);
        if (s->phase == PHASE_UP)
            source_relist(src);
        else
            src->rv[0] = '\0';
    }
    if (s->phase == PHASE_DOWN)
        sync_kick(s, true);
}

void sync_unreadable(struct sync *s, const char *key)
{
    struct key_parts p;
    if (key_split(key, &p, NULL) < 0)
        return;
    list_each(n, &s->sources) {
        struct source *src = container_of(n, struct source, link);
        if (strcmp(src->kind->type.plural, p.plural) == 0 && strcmp(src->ns, p.ns) == 0)
            source_doubt(src, "a row of it is damaged");
    }
}

void sync_tuned(struct sync *s)
{
    list_each(n, &s->sources)
        source_retune(container_of(n, struct source, link));
}

void sync_standby(struct sync *s, bool on)
{
    if (s->standby == on)
        return;
    s->standby = on;
    if (!on) {
        s->phase = PHASE_DOWN;
        report(s, LINK_OFFLINE, "the lease is ours again");
        sync_kick(s, true);
        return;
    }
    s->phase = PHASE_DOWN;
    s->awaits_admission = false;
    timer_cancel(s->loop, &s->retry);
    kube_call_cancel(&s->check);
    kube_call_cancel(&s->verify);
    s->verifying = false;
    stop_sources(s);
    report(s, LINK_STANDBY, "another agent holds the lease of this node");
}

void sync_store_failed(struct sync *s)
{
    struct err e = ERR_INIT;
    list_each(n, &s->sources)
        container_of(n, struct source, link)->rv[0] = '\0';
    err_set(&e, E_NOSPC, "what the server said could not be stored; it is asked again");
    if (s->phase != PHASE_UP)
        return;
    // The server answers each time, which is no success as long as it is for nothing.
    if (s->store_failures == 0)
        s->store_failed_ms = loop_now(s->loop);
    s->tries = s->store_failures++;
    s->down_since_ms = s->store_failed_ms;
    sync_link_down(s, &e);
}

void sync_stored(struct sync *s)
{
    if (s->phase == PHASE_UP && s->reported == LINK_ONLINE)
        s->store_failures = 0;
}

// Watches that break young make auto mode poll: each costs a reconnect, a poll costs a line.
void sync_watch_ended(struct sync *s, int64_t lived_ms)
{
    if (lived_ms >= 60000)
        s->short_watches = 0;
    else if (++s->short_watches >= SHORT_WATCH_LIMIT && !s->poll_instead) {
        s->poll_instead = true;
        log_info("sync", "poll-instead why=\"watches keep breaking\"");
    }
}

void sync_stats(struct sync *s, struct sync_stats *out)
{
    *out = s->stats;
    out->backoff_ms = s->backoff_ms;
    list_each(n, &s->sources) {
        const struct source *src = container_of(n, struct source, link);
        out->sources += !src->unwanted;
        out->current += src->current;
    }
}

int sync_each_source(struct sync *s, int (*fn)(void *ctx, const char *source, const char *state, const char *rv, const char *err),
                     void *ctx)
{
    list_each(n, &s->sources) {
        const struct source *src = container_of(n, struct source, link);
        if (src->unwanted)
            continue;
        int rc = fn(ctx, src->name, src->current ? "Current" : source_state_words[src->state], src->rv, src->last.msg);
        if (rc != 0)
            return rc;
    }
    return 0;
}

const char *sync_held(const struct sync *s)
{
    return s->held;
}

const char *sync_why(const struct sync *s)
{
    return s->why;
}

int sync_new(struct sync **out, struct loop *l, struct kube *k, struct db *db, struct cache *c, struct registry *r,
             const struct sync_conf *conf, struct err *e)
{
    struct sync *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return err_set(e, E_NOMEM, "sync");
    s->loop = l;
    s->kube = k;
    s->db = db;
    s->cache = c;
    s->registry = r;
    s->conf = *conf;
    snprintf(s->ns, sizeof(s->ns), "%s", conf->ns);
    snprintf(s->node, sizeof(s->node), "%s", conf->node);
    list_init(&s->sources);
    timer_init(&s->retry, on_retry);
    char yes[2];
    s->joined = db_meta_get(db, SYNC_JOINED, yes, sizeof(yes), NULL) == 0;
    kube_call_init(&s->check, k);
    guard_init(s);
    *out = s;
    return 0;
}

void sync_free(struct sync *s)
{
    if (s == NULL)
        return;
    timer_cancel(s->loop, &s->retry);
    kube_call_fini(&s->check);
    guard_fini(s);
    list_each_safe(n, tmp, &s->sources)
        source_free(container_of(n, struct source, link));
    free(s);
}
