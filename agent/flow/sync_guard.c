// SPDX-License-Identifier: Apache-2.0
//
// What counts as deleted. Every removal from the cache passes here; DESIGN.md has the rules in words.
//
// Every delete is pending until it is proven: by a GET of the own namespace that was asked for after the delete was heard (a namespace says
// Terminating before its objects go), by a GET of the object itself (404) on top when the server is a MetaServer, and not before the hold is
// over when a restored database is suspected. Deletes are rare and wait together, so the proof costs one small request.
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "data/key.h"
#include "flow/sync_priv.h"

enum { VERIFY_TIMEOUT_MS = 10000, DOUBT_EVERY_MS = 5000 };

struct pending {
    struct table_node node;
    bool asked; // heard before the question about the namespace that is under way: its answer proves it
    bool in_ns; // MetaServer: that answer came, the namespace is there; now for the object
    bool keep;  // MetaServer: a GET found it
    char key[];
};

static struct pending *pending_of(struct table_node *n)
{
    return container_of(n, struct pending, node);
}

static void pending_free(struct source *src, struct pending *p)
{
    table_del(&src->pending, &p->node);
    free(p);
}

void guard_drop(struct source *src)
{
    table_each_safe(n, &src->pending) pending_free(src, pending_of(n));
    src->unswept = false;
}

void guard_exists(struct source *src, const char *key)
{
    struct table_node *n = table_get(&src->pending, key);
    if (n != NULL)
        pending_free(src, pending_of(n));
}

static int add_pending(struct source *src, const char *key, struct err *e)
{
    size_t n = strlen(key) + 1;
    if (table_get(&src->pending, key) != NULL)
        return 0;
    struct pending *p = calloc(1, sizeof(*p) + n);
    if (p == NULL)
        return err_set(e, E_NOMEM, "pending delete of %s", key);
    memcpy(p->key, key, n);
    p->node.key = p->key;
    int rc = table_put(&src->pending, &p->node, e);
    if (rc < 0)
        free(p);
    return rc;
}

// What others refer to keeps its last value: a row without a source is of an object that is gone.
static int keep_row(struct sync *s, const char *key, struct err *e)
{
    int rc = cache_disown(s->cache, key, e);
    if (rc == 0) {
        log_info("sync", "deleted key=%s kept=\"its last value\"", key);
        s->conf.changed(s->conf.ctx, key);
    }
    return rc;
}

static int take_row(struct sync *s, const char *key, struct err *e)
{
    char rv[OBJ_RV_MAX], uid[OBJ_UID_MAX];
    int rc = cache_rv(s->cache, key, rv, uid, e);
    if (rc == E_NOTFOUND)
        return 0;
    if (rc == 0)
        rc = cache_delete(s->cache, key, e);
    if (rc == 0) {
        log_info("sync", "deleted key=%s", key);
        s->conf.gone(s->conf.ctx, key, uid);
    }
    return rc;
}

// Proven: in one transaction the row goes, the tombstone comes, and no later start begins before it. p is freed.
static int apply_one(struct source *src, struct pending *p, struct err *e)
{
    int rc = src->kind->referred ? keep_row(src->sync, p->key, e) : take_row(src->sync, p->key, e);
    if (rc < 0)
        return rc;
    pending_free(src, p);
    return source_pin_rv(src, e);
}

static void apply_asked(struct source *src)
{
    struct err e = ERR_INIT;
    table_each_safe(n, &src->pending)
    {
        struct pending *p = pending_of(n);
        if (p->asked && apply_one(src, p, &e) < 0) {
            sync_store_failed(src->sync);
            return;
        }
    }
}

static bool is_settled(const struct source *src)
{
    return table_count(&src->pending) == 0;
}

// A sweep takes what has no row, too: not on the word of a MetaServer that does not show the namespace.
static void tell_swept(struct source *src)
{
    struct sync *s = src->sync;
    bool proven = src->unswept && !src->kind->referred && (src->shared || !s->unproven);
    src->unswept = false;
    if (proven)
        s->conf.swept(s->conf.ctx, src->kind, src->ns);
}

// The last pending delete of a source was decided.
static void settle(struct source *src)
{
    if (!is_settled(src))
        return;
    source_settle_rv(src);
    tell_swept(src);
    if (src->state != SRC_LIST && src->state != SRC_BACKOFF && src->state != SRC_IDLE) {
        src->current = true;
        if (!src->again)
            source_known(src, NULL);
    }
    sync_settled(src->sync);
}

// Verification.

static void verify_next(struct sync *s);

// Which namespace a shared one is must be known before it is needed.
static bool wants_namespace(const struct source *src)
{
    return src->unseen_ns && src->current;
}

static struct source *first_unsettled(struct sync *s)
{
    list_each(n, &s->sources) {
        struct source *src = container_of(n, struct source, link);
        if (!is_settled(src) || wants_namespace(src))
            return src;
    }
    return NULL;
}

static const char *proof_ns(const struct source *src)
{
    return src->shared ? src->ns : src->sync->ns;
}

static void mark_in_ns(struct source *src)
{
    table_each_safe(n, &src->pending)
    {
        struct pending *p = pending_of(n);
        p->in_ns = p->in_ns || p->asked;
    }
}

// Deletes of sources in ns that were heard before it was asked for are proven; those through a MetaServer as far as the namespace goes.
static void apply_proven(struct sync *s, const char *ns)
{
    list_each(n, &s->sources) {
        struct source *src = container_of(n, struct source, link);
        if (is_settled(src) || strcmp(proof_ns(src), ns) != 0)
            continue;
        if (s->conf.config->server_metaserver) {
            mark_in_ns(src);
            continue;
        }
        apply_asked(src);
        if (s->phase != PHASE_UP)
            return;
        settle(src);
    }
    verify_next(s); // what was heard meanwhile
}

// Somebody made the shared namespace again: what it lacks now is held back as after a restored database, and then believed.
static bool other_is_believed(struct source *src)
{
    struct sync *s = src->sync;
    int64_t now = loop_now(s->loop);
    if (src->other_hold_ms == 0)
        src->other_hold_ms = now + MAX(s->conf.config->guard_restore_hold_ms, (int64_t)1);
    return s->accept || now >= src->other_hold_ms;
}

// A namespace that is not ours says nothing about our identity: without proof its objects are kept, and the others go on.
static void decide_shared(struct sync *s, struct source *src, const struct err *e)
{
    struct err why = ERR_INIT;
    if (e != NULL && sync_is_link_error(e->cls)) {
        sync_link_down(s, e);
        return;
    }
    int rc = sync_shared_namespace(s, src->ns, &s->verify, e, &why);
    if (rc == E_CONFLICT && other_is_believed(src))
        rc = sync_shared_accept(s, src->ns, &s->verify, &why);
    if (rc == 0)
        src->other_hold_ms = 0;
    src->unseen_ns = false;
    if (rc < 0 && !is_settled(src))
        source_unproven(src, &why);
    if (rc < 0)
        verify_next(s);
    else
        apply_proven(s, src->ns);
}

static bool something_vanished(const struct sync *s)
{
    list_each(n, &s->sources) {
        const struct source *src = container_of(n, struct source, link);
        if (!src->shared && !is_settled(src))
            return true;
    }
    return false;
}

static void keep_all(struct source *src)
{
    table_each_safe(n, &src->pending) pending_free(src, pending_of(n));
    settle(src);
}

// A namespace that is gone and one that the MetaServer may not read look the same: everything is kept until the next list.
static void keep_unproven(struct sync *s)
{
    list_each(n, &s->sources) {
        struct source *src = container_of(n, struct source, link);
        if (src->shared || is_settled(src))
            continue;
        log_warn("sync", "kept source=%s objects=%zu why=\"absent, but MetaServer does not show namespace %s\"", src->name,
                 table_count(&src->pending), s->ns);
        keep_all(src);
    }
    verify_next(s);
}

static void decide_by_namespace(struct sync *s, const struct err *e)
{
    bool vanished = something_vanished(s);
    const char *after = vanished ? "objects vanished: " : "";
    if (s->confirming != NULL && s->confirming->shared) {
        decide_shared(s, s->confirming, e);
        return;
    }
    if (e != NULL && e->cls == E_AUTH && vanished) { // on top of what vanished a 401 is more than a token to read again
        sync_identity_lost(s, "%sown namespace %s: %s", after, s->ns, e->msg);
        return;
    }
    enum ns_verdict v = sync_namespace_verdict(s, &s->verify, e, after);
    s->unproven = v == NS_UNPROVEN;
    if (v == NS_OURS)
        apply_proven(s, s->ns);
    else if (v == NS_UNPROVEN)
        keep_unproven(s);
}

static void mark_asked(struct sync *s, const char *ns)
{
    list_each(n, &s->sources) {
        struct source *src = container_of(n, struct source, link);
        if (strcmp(proof_ns(src), ns) == 0)
            table_each_safe(t, &src->pending) pending_of(t)->asked = true;
    }
}

static struct pending *next_to_confirm(struct source *src)
{
    table_each_safe(n, &src->pending) if (!pending_of(n)->keep) return pending_of(n);
    return NULL;
}

// MetaServer: one GET an object; 404 while the link is up is the only proof, anything else keeps it until the next list.
static void decide_by_object(struct sync *s, const struct err *e)
{
    struct source *src = s->confirming;
    struct err se = ERR_INIT;
    struct table_node *n = src != NULL ? table_get(&src->pending, s->confirm_key) : NULL;
    if (n == NULL) {
        verify_next(s);
        return;
    }
    if (e != NULL && sync_is_link_error(e->cls)) {
        sync_link_down(s, e);
        return;
    }
    if (e != NULL && e->cls == E_NOTFOUND) {
        if (apply_one(src, pending_of(n), &se) < 0) {
            sync_store_failed(s);
            return;
        }
    } else {
        pending_of(n)->keep = true;
        log_info("sync", "kept key=%s why=\"absent from the list of a cache that still returns it\"", s->confirm_key);
    }
    if (next_to_confirm(src) == NULL)
        keep_all(src);
    verify_next(s);
}

static void on_verify(struct kube_call *c, struct err *e)
{
    struct sync *s = container_of(c, struct sync, verify);
    s->verifying = false;
    if (s->phase != PHASE_UP)
        return;
    if (s->confirm_key[0] != '\0')
        decide_by_object(s, e);
    else
        decide_by_namespace(s, e);
}

static bool asks_for_namespace(const struct sync *s, struct source *src)
{
    if (!s->conf.config->server_metaserver || src == NULL || wants_namespace(src))
        return true;
    table_each_safe(n, &src->pending) if (!pending_of(n)->in_ns) return true;
    return false;
}

static int start_verify(struct sync *s, struct source *src, struct err *e)
{
    s->verify.on_done = on_verify;
    s->verify.http.total_timeout_ms = VERIFY_TIMEOUT_MS;
    s->confirming = src;
    s->confirm_key[0] = '\0';
    if (asks_for_namespace(s, src)) {
        const char *ns = src != NULL ? proof_ns(src) : s->ns;
        mark_asked(s, ns);
        return sync_get_namespace(s, ns, &s->verify, e);
    }
    struct pending *p = next_to_confirm(src);
    struct key_parts parts;
    if (p == NULL)
        return 0;
    snprintf(s->confirm_key, sizeof(s->confirm_key), "%s", p->key);
    int rc = key_split(p->key, &parts, e);
    return rc < 0 ? rc : kube_get(&s->verify, &src->kind->type, parts.ns, parts.name, e);
}

static void verify_next(struct sync *s)
{
    struct err e = ERR_INIT;
    struct source *src = first_unsettled(s);
    if (src == NULL || s->verifying)
        return;
    s->verifying = true;
    if (start_verify(s, src, &e) < 0) {
        s->verifying = false;
        sync_link_down(s, &e);
    }
}

// The lease or a status was refused: a watch that is open says nothing of that for minutes. Asked once in a while, for a refusal may
// also be about one object, and come for each of them.
void sync_doubt(struct sync *s)
{
    struct err e = ERR_INIT;
    int64_t now = loop_now(s->loop);
    if (s->phase != PHASE_UP || s->verifying || s->conf.config->server_metaserver || now < s->doubt_again_ms)
        return;
    s->doubt_again_ms = now + DOUBT_EVERY_MS;
    s->verifying = true;
    if (start_verify(s, NULL, &e) < 0) {
        s->verifying = false;
        sync_link_down(s, &e);
    }
}

void guard_listed(struct source *src)
{
    if (wants_namespace(src))
        verify_next(src->sync);
}

// The hold after a restored database.

void guard_hold(struct sync *s, const char *fmt, ...)
{
    int64_t hold = s->conf.config->guard_restore_hold_ms;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(s->held, sizeof(s->held), fmt, ap);
    va_end(ap);
    s->stats.holds++;
    s->hold_until_ms = loop_now(s->loop) + MAX(hold, (int64_t)1);
    log_warn("sync", "deletes-wait hold_ms=%lld why=\"%s\"", (long long)hold, s->held);
}

void guard_restored(struct sync *s, const char *have, const char *got)
{
    guard_hold(s, "the server's resourceVersion went back from %s to %s (a restored database?)", have, got);
    list_each(n, &s->sources) {
        struct source *src = container_of(n, struct source, link);
        if (src->state == SRC_IDLE)
            src->rv[0] = '\0'; // those that run notice by their own bookmarks
    }
}

static bool on_hold(struct sync *s)
{
    if (s->hold_until_ms == 0 || s->accept)
        return false;
    if (loop_now(s->loop) < s->hold_until_ms)
        return true;
    s->hold_until_ms = 0;
    s->held[0] = '\0';
    return false;
}

// Held back: the rows stay, and a list comes again when the hold is over.
static void hold_back(struct source *src, size_t n)
{
    struct sync *s = src->sync;
    log_warn("sync", "deletes-held source=%s objects=%zu why=\"%s\" remedy=\"limpet resync --accept\"", src->name, n, s->held);
    guard_drop(src);
    src->held = true;
    if (timer_set(s->loop, &s->hold_end, s->hold_until_ms) < 0)
        log_error("sync", "no-hold-timer");
}

static void on_hold_end(struct timer *t)
{
    struct sync *s = container_of(t, struct sync, hold_end);
    (void)on_hold(s);
    list_each(n, &s->sources) {
        struct source *src = container_of(n, struct source, link);
        if (!src->held)
            continue;
        src->held = false;
        if (s->phase == PHASE_UP)
            source_relist(src);
        else
            src->rv[0] = '\0';
    }
}

// Entrances.

static void act(struct source *src)
{
    if (on_hold(src->sync))
        hold_back(src, table_count(&src->pending));
    else
        verify_next(src->sync);
}

int guard_deleted(struct source *src, const char *key, struct err *e)
{
    int rc = add_pending(src, key, e);
    if (rc == 0)
        act(src);
    return rc;
}

struct sweep_ctx {
    struct source *src;
    struct err *e;
};

static int collect(void *ctx, const char *key)
{
    struct sweep_ctx *c = ctx;
    return add_pending(c->src, key, c->e);
}

int guard_sweep(struct source *src, struct err *e)
{
    struct sweep_ctx c = { src, e };
    struct sync *s = src->sync;
    if (src->unnamed)
        return 0; // who is missing cannot be told from who is too large
    int rc = cache_unmarked(s->cache, src->name, collect, &c, e);
    if (rc < 0)
        return rc;
    src->unswept = true;
    if (table_count(&src->pending) > 0)
        act(src);
    if (src->held)
        src->unswept = false;
    if (is_settled(src))
        tell_swept(src);
    return 0;
}

void guard_init(struct sync *s)
{
    kube_call_init(&s->verify, s->kube);
    timer_init(&s->hold_end, on_hold_end);
}

void guard_fini(struct sync *s)
{
    kube_call_fini(&s->verify);
    timer_cancel(s->loop, &s->hold_end);
}
