// SPDX-License-Identifier: Apache-2.0
//
// One source: first list (streamed or paged), then a watch, delta polls or lists again. The link above decides when it may run.
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "data/key.h"
#include "flow/sync_priv.h"

enum {
    LIST_TIMEOUT_MS = 120000,
    WATCH_IDLE_MS = 200000, // bookmarks come about once a minute: three missed ones mean a dead stream
    WATCH_AGAIN_MS = 1000,
    POLL_SLACK_MS = 15000,
    BOOKMARK_AGE_MS = 45000, // an older resourceVersion earns a poll that waits for a bookmark
    OWN_BACKOFF_MIN_MS = 1000,
    OWN_BACKOFF_MAX_MS = 60000,
    OWN_BACKOFF_BUSY_MAX_MS = 15000, // as with the link: who turns away what is too much is asked again soon
    DOUBT_MIN_MS = 2000,
    DOUBT_SPREAD_MS = 8000, // a fleet notices at the same moment
    DOUBT_AGAIN_MS = 300000,
};

const char *const source_state_words[] = { "Idle", "Listing", "Following", "Waiting", "Backoff" };

static void start_list(struct source *src);
static void list_in_turn(struct source *src);
static void follow(struct source *src);

static void in(struct source *src, int64_t ms)
{
    if (timer_in(src->sync->loop, &src->timer, ms) < 0)
        log_error("sync", "no-timer source=%s", src->name);
}

static const struct config *config_of(const struct source *src)
{
    return src->sync->conf.config;
}

static const char *ns_of(const struct source *src)
{
    return src->ns[0] != '\0' ? src->ns : NULL;
}

// Where a later start may begin: never beyond deletes that still wait for proof, or are held back, nor within a list. What others refer to
// is listed by each start.
static bool may_begin_here(const struct source *src)
{
    return !src->kind->referred && table_count(&src->pending) == 0 && src->rv[0] != '\0' && src->sync->hold_until_ms == 0 && !src->marking;
}

// The resourceVersion is kept lazily: who begins at an older one hears again what its rows know already.
void source_settle_rv(struct source *src)
{
    struct err e = ERR_INIT;
    if (may_begin_here(src) && db_lazy_meta(src->sync->db, src->meta, src->rv, &e) < 0)
        log_debug("sync", "rv-not-kept source=%s error=\"%s\"", src->name, e.msg);
}

// When a row goes it is not for later: an older one would tell the object as new, and nobody remembers that it was here. All that waits
// goes along, for what the rows' own resourceVersions are is not told again by a newer one.
int source_pin_rv(struct source *src, struct err *e)
{
    if (src->kind->referred)
        return 0; // each start lists
    if (!may_begin_here(src))
        return db_meta_set(src->sync->db, src->meta, NULL, e);
    db_lazies_along(src->sync->db);
    return db_lazy_meta(src->sync->db, src->meta, src->rv, e);
}

static void set_rv(struct source *src, const char *rv)
{
    snprintf(src->rv, sizeof(src->rv), "%s", rv);
    src->rv_at_ms = loop_now(src->sync->loop);
    source_settle_rv(src);
}

void source_known(struct source *src, const struct err *e)
{
    struct sync *s = src->sync;
    if (src->kind->referred && !src->unwanted)
        s->conf.known(s->conf.ctx, src->kind, e);
}

static void became_current(struct source *src)
{
    src->current = true;
    src->list_at_ms = 0;
    if (!src->expired_once) // else a list alone is no success: what follows it may be too old again
        src->failures = 0;
    src->last = ERR_INIT;
    if (!src->again)
        source_known(src, NULL);
    sync_settled(src->sync);
}

// A failure of this source alone.
static void own_backoff(struct source *src, const struct err *e)
{
    int64_t d = OWN_BACKOFF_MIN_MS, most = e->retry_after_ms > 0 ? OWN_BACKOFF_BUSY_MAX_MS : OWN_BACKOFF_MAX_MS;
    for (unsigned i = 0; i < src->failures && d < most; i++)
        d *= 2;
    d = MIN(d, most);
    src->failures++;
    if (src->last.cls != e->cls)
        log_warn("sync", "source-failed source=%s class=%s error=\"%s\"", src->name, err_word(e->cls), e->msg);
    src->last = *e;
    src->current = false;
    src->state = SRC_BACKOFF;
    in(src, MAX(e->retry_after_ms, d / 2) + clock_rand(src->sync->kube->clock, d / 2 + 1));
    source_known(src, e);
    sync_settled(src->sync);
}

static void ask_again(struct source *src)
{
    source_stop(src);
    src->state = SRC_PAUSE;
    in(src, sync_again_ms(src->sync));
}

static void failed(struct source *src, const struct err *e)
{
    if (e->cls == E_CANCELED)
        return;
    if (!sync_is_link_error(e->cls)) {
        own_backoff(src, e);
        return;
    }
    src->last = *e;
    src->current = false;
    if (sync_asks_again(src->sync, e))
        ask_again(src);
    else
        sync_link_down(src->sync, e);
}

// "Too old": once a complete relist, at once unless the whole fleet was away; again without having become current: a backoff first.
static void expired(struct source *src)
{
    struct err e = ERR_INIT;
    src->sync->stats.gone_410++;
    src->rv[0] = '\0';
    if (!src->expired_once) {
        src->expired_once = true;
        list_in_turn(src);
        return;
    }
    err_set(&e, E_BUSY, "the server says again that the resourceVersion is too old");
    own_backoff(src, &e);
}

static void ended(struct source *src, const struct err *e)
{
    if (e->cls == E_GONE)
        expired(src);
    else
        failed(src, e);
}

// Objects.

static bool is_ours(const struct source *src, const struct object_view *v)
{
    return src->kind->cluster_scoped || strcmp(v->ns, src->ns) == 0;
}

// A stream that begins at an older bookmark tells again what was before the row that is known, deletions of earlier objects of the name
// included. What a list says counts all the same: its database may have been restored.
static bool is_old_news(const struct source *src, const char *key, const struct object_view *v)
{
    char known[OBJ_RV_MAX], uid[OBJ_UID_MAX];
    bool ordered = false;
    return cache_rv(src->sync->cache, key, known, uid, NULL) == 0 && rv_compare(v->rv, known, &ordered) < 0 && ordered;
}

// Of what others refer to, only that is taken. Nothing of it: no row, and none that could be missing in a list.
static int put_reduced(struct source *src, const char *key, const char *json, size_t len, struct err *e)
{
    struct sync *s = src->sync;
    struct buf part AUTO_WIPE = BUF_INIT(OBJ_MAX);
    struct object_view v;
    int rc = s->conf.reduce(s->conf.ctx, key, json, len, &part, e);
    if (rc < 0 || part.len == 0)
        return rc;
    rc = object_scan(&v, part.data, part.len, e);
    return rc < 0 ? rc : cache_put(s->cache, src->name, key, &v, part.data, part.len, e);
}

static int store(struct source *src, const struct object_view *v, const char *json, size_t len, struct err *e)
{
    struct sync *s = src->sync;
    char key[KEY_MAX];
    int rc = key_make(key, src->kind->type.plural, v->ns, v->name, e);
    if (rc < 0)
        return rc;
    bool old = is_old_news(src, key, v);
    if (old && !src->marking)
        return 0;
    if (old && config_of(src)->server_metaserver) // its cache remembers older ones
        return cache_mark(s->cache, key, e);
    guard_exists(src, key);
    rc = src->kind->referred ? put_reduced(src, key, json, len, e) : cache_put(s->cache, src->name, key, v, json, len, e);
    if (rc < 0)
        return rc;
    if (src->marking) {
        int mrc = cache_mark(s->cache, key, e);
        if (mrc < 0)
            return mrc;
    }
    src->seen++;
    if (rc >= CACHE_CHANGED)
        s->conf.changed(s->conf.ctx, key);
    if (!old && src->kind->write_status && !src->shared)
        s->conf.server_status(s->conf.ctx, key, v->uid, v->status.p, v->status.n);
    return 0;
}

// An object over the bound cannot be taken, but it is there: never swept away for being unreadable.
static void on_too_big(void *ctx, const char *ns, const char *name)
{
    struct source *src = ctx;
    struct err e = ERR_INIT;
    char key[KEY_MAX];
    src->sync->conf.too_large(src->sync->conf.ctx, src->kind, name, "over the bound of an object");
    if (name[0] == '\0' || key_make(key, src->kind->type.plural, ns, name, &e) < 0) {
        src->unnamed = true;
        return;
    }
    guard_exists(src, key);
    if (src->marking && cache_mark(src->sync->cache, key, &e) < 0)
        src->unnamed = true;
}

static int take_object(struct source *src, const char *json, size_t len, struct err *e)
{
    struct object_view v;
    int rc = object_scan(&v, json, len, e);
    if (rc == E_TOOBIG) {
        src->sync->conf.too_large(src->sync->conf.ctx, src->kind, NULL, e->msg);
        return 0;
    }
    if (rc < 0)
        return err_set(e, E_CORRUPT, "%s: an object that cannot be read", src->name);
    return is_ours(src, &v) ? store(src, &v, json, len, e) : 0;
}

// Streams.

static void list_complete(struct source *src)
{
    struct err e = ERR_INIT;
    src->sync->stats.relists++;
    if (guard_sweep(src, &e) < 0) { // the store failed: nothing of this list counts
        src->rv[0] = '\0';
        own_backoff(src, &e);
        return;
    }
    src->marking = false;
    source_settle_rv(src);
    log_info("sync", "listed source=%s objects=%zu rv=%s", src->name, src->seen, src->rv);
    if (table_count(&src->pending) == 0)
        became_current(src);
    guard_listed(src);
    if (src->again)
        source_refresh(src);
}

static bool ends_initial_events(struct span object)
{
    struct span a, v;
    char word[8];
    return object_member(object.p, object.n, "metadata", "annotations", &a) &&
           object_member(a.p, a.n, NULL, "k8s.io/initial-events-end", &v) && span_string(v, word, sizeof(word)) &&
           strcmp(word, "true") == 0;
}

// The server's database is older than what we know: it was restored.
static bool went_back(const struct source *src, const char *rv)
{
    bool ordered = false;
    return src->rv[0] != '\0' && !config_of(src)->server_metaserver && rv_compare(rv, src->rv, &ordered) < 0 && ordered;
}

static int take_bookmark(struct source *src, struct span object, struct err *e)
{
    struct object_view v;
    if (object_scan(&v, object.p, object.n, e) < 0)
        return err_set(e, E_CORRUPT, "%s: a bookmark that cannot be read", src->name);
    if (went_back(src, v.rv)) {
        guard_restored(src->sync, src->rv, v.rv);
        return err_set(e, E_GONE, "%s: the server's resourceVersion went back from %s to %s", src->name, src->rv, v.rv);
    }
    set_rv(src, v.rv);
    if (!src->marking || !ends_initial_events(object))
        return 0;
    list_complete(src);
    if (src->state == SRC_BACKOFF)
        return E_CANCELED;
    src->state = SRC_FOLLOW;
    return sync_mode_now(src->sync) == SYNC_WATCH ? 0 : E_CANCELED; // a poll does not stay
}

static int take_error(struct source *src, struct span object, struct err *e)
{
    struct span sp;
    int64_t code = 0;
    (void)src;
    if (object_member(object.p, object.n, NULL, "code", &sp) && sp.n < 8) {
        char digits[8] = "";
        memcpy(digits, sp.p, sp.n);
        code = strtol(digits, NULL, 10);
    }
    return kube_classify((int)code, NULL, object.p, object.n, e);
}

// Nobody referred to it, so that nothing has to be proven.
static bool is_nobodys(const struct source *src, const char *key)
{
    char rv[OBJ_RV_MAX], uid[OBJ_UID_MAX];
    return src->kind->referred && cache_rv(src->sync->cache, key, rv, uid, NULL) == E_NOTFOUND;
}

static int take_deleted(struct source *src, struct span object, struct err *e)
{
    struct object_view v;
    char key[KEY_MAX];
    if (object_scan(&v, object.p, object.n, e) < 0)
        return err_set(e, E_CORRUPT, "%s: a deleted object that cannot be read", src->name);
    if (!is_ours(src, &v))
        return 0;
    int rc = key_make(key, src->kind->type.plural, v.ns, v.name, e);
    if (rc == 0 && !is_old_news(src, key, &v) && !is_nobodys(src, key))
        rc = guard_deleted(src, key, e);
    if (rc == 0 && src->state != SRC_IDLE) // else nobody could be asked for proof, and a list comes
        set_rv(src, v.rv);
    return rc;
}

static int take_changed(struct source *src, struct span object, struct err *e)
{
    struct span sp;
    char rv[OBJ_RV_MAX];
    int rc = take_object(src, object.p, object.n, e);
    if (rc < 0 || src->marking)
        return rc; // the streamed first list is not in resourceVersion order
    if (object_member(object.p, object.n, "metadata", "resourceVersion", &sp) && span_string(sp, rv, sizeof(rv)))
        set_rv(src, rv);
    return 0;
}

static int on_line(void *ctx, const char *line, size_t len)
{
    struct source *src = ctx;
    struct watch_event ev;
    struct err e = ERR_INIT;
    int rc;
    if (len == 0)
        return 0;
    if (watch_event_scan(&ev, line, len, &e) < 0) {
        src->sync->stats.bad_lines++;
        rc = err_set(&e, E_CORRUPT, "%s: a watch line that cannot be read: %.200s", src->name, e.msg);
    } else {
        src->sync->stats.events++;
        if (strcmp(ev.type, "ADDED") == 0 || strcmp(ev.type, "MODIFIED") == 0)
            rc = take_changed(src, ev.object, &e);
        else if (strcmp(ev.type, "DELETED") == 0)
            rc = take_deleted(src, ev.object, &e);
        else if (strcmp(ev.type, "BOOKMARK") == 0)
            rc = take_bookmark(src, ev.object, &e);
        else if (strcmp(ev.type, "ERROR") == 0)
            rc = take_error(src, ev.object, &e);
        else
            rc = 0; // a type of the future
    }
    if (rc < 0 && rc != E_CANCELED)
        src->call.err = e; // reported when the transport says that the callback stopped it
    return rc;
}

static int on_stream(struct kube_call *c, const void *p, size_t n)
{
    struct source *src = container_of(c, struct source, call);
    struct err e = ERR_INIT;
    sync_contact(src->sync);
    return line_splitter_feed(&src->lines, p, n, &e);
}

static void pause_until_next(struct source *src)
{
    int64_t every = MAX(config_of(src)->sync_interval_ms, (int64_t)500), now = loop_now(src->sync->loop);
    src->state = SRC_PAUSE;
    in(src, every - now % every); // all sources at the same moment, on one connection
}

// A server that ends each watch at once is asked once a second, not in a circle.
static void follow_again(struct source *src)
{
    int64_t lived = loop_now(src->sync->loop) - src->opened_ms;
    if (lived >= WATCH_AGAIN_MS) {
        follow(src);
        return;
    }
    src->state = SRC_PAUSE;
    in(src, WATCH_AGAIN_MS - lived);
}

// When a CRD changes, streams opened before go on under the old schema for a moment, tell new objects without the fields it does not know,
// and end before their time (measured: 0.5 s). The resourceVersion has moved by then, and only a list tells those objects whole. It is made
// a little later: if it was the server that went away, the link notices first, and nothing of this is needed.
void source_doubt(struct source *src, const char *why)
{
    if (timer_is_set(&src->proof))
        return;
    int64_t now = loop_now(src->sync->loop), at = now + DOUBT_MIN_MS + clock_rand(src->sync->kube->clock, DOUBT_SPREAD_MS);
    if (src->proven_ms > 0)
        at = MAX(at, src->proven_ms + DOUBT_AGAIN_MS); // a proxy that cuts each stream short earns no list for each
    src->proof_why = why;
    if (timer_in(src->sync->loop, &src->proof, at - now) < 0)
        log_error("sync", "no-timer source=%s", src->name);
}

static void on_proof(struct timer *t)
{
    struct source *src = container_of(t, struct source, proof);
    if (src->sync->phase != PHASE_UP || src->state == SRC_LIST || src->unwanted)
        return;
    log_info("sync", "list-for-proof source=%s why=\"%s\"", src->name, src->proof_why);
    src->proven_ms = loop_now(src->sync->loop);
    timer_cancel(src->sync->loop, &src->timer);
    start_list(src);
}

// Rows made by an earlier list hold what was wanted then.
void source_refresh(struct source *src)
{
    if (src->unwanted)
        return;
    src->again = src->state == SRC_LIST;
    if (src->again || src->sync->phase != PHASE_UP) {
        src->rv[0] = '\0';
        return;
    }
    source_known(src, &(struct err){ .cls = E_BUSY });
    src->proof_why = "what is referred to changed";
    if (timer_in(src->sync->loop, &src->proof, 0) < 0)
        log_error("sync", "no-timer source=%s", src->name);
}

static void after_stream(struct source *src)
{
    bool watch = sync_mode_now(src->sync) == SYNC_WATCH;
    if (src->marking) { // the stream ended before its end marker: nothing was complete
        struct err e = ERR_INIT;
        err_set(&e, E_CORRUPT, "%s: the first list ended early", src->name);
        src->marking = false;
        failed(src, &e);
    } else if (watch) {
        follow_again(src);
    } else {
        pause_until_next(src);
    }
}

static bool cannot_stream(const struct source *src, const struct err *e)
{
    return src->how == HOW_STREAM && src->seen == 0 && (e->cls == E_INVAL || e->cls == E_UNSUP);
}

static void on_stream_done(struct kube_call *c, struct err *e)
{
    struct source *src = container_of(c, struct source, call);
    if (src->how == HOW_WATCH)
        sync_watch_ended(src->sync, loop_now(src->sync->loop) - src->opened_ms);
    if (src->state == SRC_BACKOFF)
        return;                              // list_complete() failed and set the timer
    if (e == NULL || e->cls == E_CANCELED) { // stopped by ourselves, and not for an error of ours: that would stand in e
        sync_contact(src->sync);
        if (e == NULL && !src->marking && loop_now(src->sync->loop) - src->opened_ms < src->asked_ms)
            source_doubt(src, "a stream ended before its time");
        src->expired_once = src->expired_once && src->marking;
        if (!src->marking && table_count(&src->pending) == 0)
            became_current(src);
        after_stream(src);
    } else if (cannot_stream(src, e)) {
        src->no_stream = true;
        src->marking = false;
        start_list(src);
    } else {
        src->marking = false;
        ended(src, e);
    }
}

static void open_stream(struct source *src, enum how how, const struct kube_list_opts *o, int64_t total_ms, int64_t idle_ms)
{
    struct err e = ERR_INIT;
    src->how = how;
    src->opened_ms = loop_now(src->sync->loop);
    src->asked_ms = (int64_t)o->timeout_s * 1000;
    kube_call_cancel(&src->call);
    line_splitter_fini(&src->lines);
    line_splitter_init(&src->lines, KUBE_LINE_MAX, on_line, src);
    src->lines.too_big = on_too_big;
    src->call.on_chunk = on_stream;
    src->call.on_done = on_stream_done;
    src->call.http.total_timeout_ms = total_ms;
    src->call.http.idle_timeout_ms = idle_ms;
    src->call.err = ERR_INIT;
    src->sync->stats.watches++;
    if (kube_list(&src->call, &src->kind->type, ns_of(src), o, &e) < 0)
        failed(src, &e);
}

static int watch_seconds(struct source *src)
{
    int64_t base = MAX(config_of(src)->sync_watch_timeout_ms, (int64_t)1000);
    return (int)((base + clock_rand(src->sync->kube->clock, base + 1)) / 1000);
}

// A watch never says that it has caught up; a delta poll does, by ending. So the first contact after an outage is a poll, whatever the mode.
static void follow(struct source *src)
{
    struct kube_list_opts o = { .watch = true, .bookmarks = true, .resource_version = src->rv };
    src->state = SRC_FOLLOW;
    if (src->rv[0] == '\0') {
        start_list(src);
    } else if (sync_mode_now(src->sync) == SYNC_WATCH && src->current) {
        o.timeout_s = watch_seconds(src);
        open_stream(src, HOW_WATCH, &o, 0, WATCH_IDLE_MS);
    } else {
        // Reports wait for the first contact, so that one does not wait for a bookmark.
        o.timeout_s = src->current && loop_now(src->sync->loop) - src->rv_at_ms > BOOKMARK_AGE_MS ? 8 : 1;
        open_stream(src, HOW_POLL, &o, o.timeout_s * 1000 + POLL_SLACK_MS, 0);
    }
}

// Lists.

static int on_item(void *ctx, const char *json, size_t len)
{
    struct source *src = ctx;
    struct err e = ERR_INIT;
    int rc = take_object(src, json, len, &e);
    if (rc < 0)
        src->call.err = e;
    return rc;
}

static int on_list_chunk(struct kube_call *c, const void *p, size_t n)
{
    struct source *src = container_of(c, struct source, call);
    struct err e = ERR_INIT;
    sync_contact(src->sync);
    int rc = list_splitter_feed(&src->items, p, n, &e);
    if (rc < 0 && src->call.err.cls == 0)
        src->call.err = e;
    return rc;
}

static void next_page(struct source *src);

// A MetaServer without its cloud answers all the same, from a cache that may lack anything, and calls the list of EdgeApps an EdgeappList.
// Such a list proves nothing; nor does a GET that is 404 then.
static int is_from_cloud(const struct source *src, struct err *e)
{
    const char *kind = src->items.kind, *name = src->kind->name;
    size_t n = strlen(name);
    if (!config_of(src)->server_metaserver || (strncmp(kind, name, n) == 0 && strcmp(kind + n, "List") == 0))
        return 0;
    return err_set(e, E_OFFLINE, "%s: MetaServer has no connection to the cloud (its list is a %s)", src->name, kind);
}

static void after_page(struct source *src)
{
    struct err e = ERR_INIT;
    if (list_splitter_end(&src->items, &e) < 0 || is_from_cloud(src, &e) < 0) {
        src->marking = false;
        failed(src, &e);
        return;
    }
    free(src->continue_token);
    src->continue_token = steal(src->items.continue_token);
    if (src->continue_token != NULL && src->continue_token[0] != '\0') {
        next_page(src);
        return;
    }
    if (went_back(src, src->items.rv))
        guard_restored(src->sync, src->rv, src->items.rv);
    set_rv(src, src->items.rv);
    list_complete(src);
    if (src->state == SRC_BACKOFF)
        return;
    if (sync_mode_now(src->sync) == SYNC_LIST)
        pause_until_next(src);
    else
        follow(src);
}

static void on_page_done(struct kube_call *c, struct err *e)
{
    struct source *src = container_of(c, struct source, call);
    struct err own = c->err;
    if (e != NULL && e->cls == E_CANCELED && own.cls != 0)
        e = &own;
    sync_contact(src->sync);
    if (e == NULL) {
        after_page(src);
        return;
    }
    src->marking = false;
    ended(src, e); // an expired continue token is 410: the whole list again
}

static void next_page(struct source *src)
{
    struct err e = ERR_INIT;
    struct kube_list_opts o = { .limit = (int)config_of(src)->sync_page, .continue_token = src->continue_token };
    src->how = HOW_PAGES;
    kube_call_cancel(&src->call);
    list_splitter_fini(&src->items);
    list_splitter_init(&src->items, on_item, src);
    src->items.too_big = on_too_big;
    src->call.on_chunk = on_list_chunk;
    src->call.on_done = on_page_done;
    src->call.http.total_timeout_ms = LIST_TIMEOUT_MS;
    src->call.http.idle_timeout_ms = 0;
    src->call.err = ERR_INIT;
    if (kube_list(&src->call, &src->kind->type, ns_of(src), &o, &e) < 0)
        failed(src, &e);
}

// What waited for proof is found again by a list, and by nothing else.
static void drop_pending(struct source *src)
{
    if (table_count(&src->pending) > 0)
        src->rv[0] = '\0';
    guard_drop(src);
}

static void start_list(struct source *src)
{
    struct err e = ERR_INIT;
    src->state = SRC_LIST;
    src->seen = 0;
    src->unnamed = false;
    src->current = false;
    drop_pending(src);
    free(steal(src->continue_token));
    if (cache_mark_begin(src->sync->cache, src->name, &e) < 0) {
        own_backoff(src, &e);
        return;
    }
    src->marking = true;
    if (src->no_stream || sync_mode_now(src->sync) == SYNC_LIST) {
        next_page(src);
        return;
    }
    struct kube_list_opts o = { .watch = true, .bookmarks = true, .initial_events = true };
    bool watch = sync_mode_now(src->sync) == SYNC_WATCH;
    o.timeout_s = watch ? watch_seconds(src) : LIST_TIMEOUT_MS / 1000;
    open_stream(src, HOW_STREAM, &o, watch ? 0 : LIST_TIMEOUT_MS, WATCH_IDLE_MS);
}

// After a long outage when the moment for it has come (source_start()).
static void list_in_turn(struct source *src)
{
    int64_t left = src->list_at_ms - loop_now(src->sync->loop);
    if (src->sync->spread_ms == 0 || left <= 0) {
        start_list(src);
        return;
    }
    src->state = SRC_PAUSE;
    in(src, left);
}

static void on_timer(struct timer *t)
{
    struct source *src = container_of(t, struct source, timer);
    if (src->sync->phase != PHASE_UP)
        return;
    if (sync_mode_now(src->sync) == SYNC_LIST)
        start_list(src);
    else if (src->rv[0] == '\0')
        list_in_turn(src);
    else
        follow(src);
}

// The moment for a list is drawn once an outage: a link that breaks again, or a server that turns us away, puts it off no further.
void source_start(struct source *src)
{
    int64_t spread = src->sync->spread_ms;
    if (src->unwanted)
        return;
    source_known(src, &(struct err){ .cls = E_BUSY });
    if (spread > 0 && src->list_at_ms == 0)
        src->list_at_ms = src->sync->contact_ms + clock_rand(src->sync->kube->clock, spread);
    src->expired_once = false;
    on_timer(&src->timer);
}

void source_stop(struct source *src)
{
    timer_cancel(src->sync->loop, &src->timer);
    timer_cancel(src->sync->loop, &src->proof);
    kube_call_cancel(&src->call);
    drop_pending(src);
    if (src->marking)
        src->rv[0] = '\0';
    src->marking = false;
    src->again = false;
    src->state = SRC_IDLE;
    src->current = false;
    source_known(src, &(struct err){ .cls = E_OFFLINE });
}

void source_relist(struct source *src)
{
    source_stop(src);
    src->rv[0] = '\0';
    if (!src->unwanted)
        start_list(src);
}

// A poll that is under way ends by itself and then goes by the new mode; so does a list.
void source_retune(struct source *src)
{
    bool watch = sync_mode_now(src->sync) == SYNC_WATCH;
    if (src->state == SRC_PAUSE && src->rv[0] == '\0') // its list is due
        return;
    if (src->state == SRC_FOLLOW && src->how != HOW_POLL && !watch) {
        kube_call_cancel(&src->call);
        pause_until_next(src);
    } else if (src->state == SRC_PAUSE && watch) {
        timer_cancel(src->sync->loop, &src->timer);
        on_timer(&src->timer);
    } else if (src->state == SRC_PAUSE) {
        pause_until_next(src);
    }
}

void source_unproven(struct source *src, const struct err *e)
{
    source_stop(src); // what waits for proof is found again by a list
    src->rv[0] = '\0';
    own_backoff(src, e);
}

int source_add(struct sync *s, const struct kind *k, const char *ns, struct err *e)
{
    struct source *src = calloc(1, sizeof(*src));
    if (src == NULL)
        return err_set(e, E_NOMEM, "source of %s", k->name);
    src->sync = s;
    src->kind = k;
    snprintf(src->ns, sizeof(src->ns), "%s", ns);
    src->shared = ns[0] != '\0' && strcmp(ns, s->ns) != 0;
    src->unseen_ns = src->shared;
    int n = snprintf(src->name, sizeof(src->name), "%s/%s/%s@%s", k->type.group, k->type.version, k->type.plural, ns);
    int m = snprintf(src->meta, sizeof(src->meta), "rv:%.300s", src->name);
    if (n < 0 || m < 0 || (size_t)n >= sizeof(src->name)) {
        free(src);
        return err_set(e, E_TOOBIG, "source name of %s", k->name);
    }
    if (k->referred || db_meta_get(s->db, src->meta, src->rv, sizeof(src->rv), NULL) < 0)
        src->rv[0] = '\0';
    table_init(&src->pending);
    timer_init(&src->timer, on_timer);
    timer_init(&src->proof, on_proof);
    kube_call_init(&src->call, s->kube);
    line_splitter_init(&src->lines, KUBE_LINE_MAX, on_line, src);
    list_splitter_init(&src->items, on_item, src);
    list_add_tail(&s->sources, &src->link);
    return 0;
}

void source_free(struct source *src)
{
    source_stop(src);
    kube_call_fini(&src->call);
    line_splitter_fini(&src->lines);
    list_splitter_fini(&src->items);
    guard_drop(src);
    table_fini(&src->pending);
    free(src->continue_token);
    list_del(&src->link);
    free(src);
}
