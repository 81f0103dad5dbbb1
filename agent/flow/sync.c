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
    AGAIN_MAX = 16,
    AGAIN_SPREAD_MS = 1000,
    BUSY_OUTAGE_MS = 300000
};

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

void sync_retry_in(struct sync *s, int64_t ms)
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
    sync_retry_in(s, d);
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
    sync_retry_in(s, recheck_lost(s));
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

void sync_go_up(struct sync *s)
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

static void try_now(struct sync *s)
{
    timer_cancel(s->loop, &s->retry);
    if (s->standby || s->phase != PHASE_DOWN)
        return;
    s->phase = PHASE_CHECK;
    s->answered = false;
    s->again = 0;
    check_begin(s);
}

static void on_retry(struct timer *t)
{
    struct sync *s = container_of(t, struct sync, retry);
    if (s->phase == PHASE_CHECK)
        check_go_on(s);
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
        sync_retry_in(s, clock_rand(s->kube->clock, KICK_SPREAD_MS));
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

int sync_start(struct sync *s, struct err *e)
{
    if (registry_each(s->registry, add_kind, s) < 0)
        return err_set(e, E_NOMEM, "sources");
    int rc = check_init(s, e);
    if (rc < 0)
        return rc;
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
        if (s->lost) // the owner says so: what answers now is our cluster and namespace
            check_forget(s);
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
