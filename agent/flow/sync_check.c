// SPDX-License-Identifier: Apache-2.0
//
// What an answering cluster is asked before any source runs: uid of kube-system; uid and phase of our own namespace; may specs be taken (that
// is the lease)? and, where the lease did not tell already: did the resourceVersion go backwards?
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "flow/sync_priv.h"

enum { CHECK_TIMEOUT_MS = 10000, UNAUTHORIZED_MS = 10000 };

static const struct kube_type namespaces = { "", "v1", "namespaces" };

// Names in the store.
#define CLUSTER_UID "cluster_uid" // kube-system's
#define NAMESPACE_UID "namespace_uid"

enum { STEP_CLUSTER, STEP_NAMESPACE, STEP_ADMISSION, STEP_RV, STEPS };

static void check_next(struct sync *s);
static void ask_admission(struct sync *s);

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
        rc = same_as_known(s, NAMESPACE_UID, v.uid, &pe);
    if (rc == E_CONFLICT)
        return is_lost(s, after, "was deleted and made again");
    if (rc < 0)
        sync_link_down(s, e != NULL ? e : &pe);
    return rc == 0 ? NS_OURS : NS_LOST;
}

static void shared_meta(char out[128], const char *ns)
{
    snprintf(out, 128, NAMESPACE_UID ":%s", ns);
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
        sync_retry_in(s, sync_again_ms(s));
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

void check_go_on(struct sync *s)
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
        sync_go_up(s);
    else
        check_go_on(s);
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
    sync_go_up(s);
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
    sync_retry_in(s, sync_again_ms(s));
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
// The sources' own are kept lazily: after a crash there may be none, and a restored database must be noticed all the same.
int check_init(struct sync *s, struct err *e)
{
    int rc = cache_each_key(s->cache, NULL, note_row, s, e);
    if (rc < 0)
        return rc;
    know_cluster(s);
    return 0;
}

void check_forget(struct sync *s)
{
    struct err e = ERR_INIT;
    if (db_meta_set(s->db, CLUSTER_UID, NULL, &e) < 0 || db_meta_set(s->db, NAMESPACE_UID, NULL, &e) < 0)
        log_error("sync", "identity-not-accepted error=\"%s\"", e.msg);
}

void check_begin(struct sync *s)
{
    s->check_step = -1;
    check_next(s);
}
