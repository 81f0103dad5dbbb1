// SPDX-License-Identifier: Apache-2.0
// The transport on libcurl's multi interface. All requests share one multi handle and so, over TLS with HTTP/2, one connection.
//
// Three things shape it. curl may not be called from inside its own callbacks, so what a request's callback asks for (submit,
// cancel, condemn) is noted and done in settle(). A connection that is believed dead would be reused by curl as long as it lies in the
// pool, so condemning replaces the whole multi handle. And curl joins the thread of an unfinished name resolution when a request is
// taken back, unless CURLOPT_QUICK_EXIT is set: without it a dead name server would stop the loop for seconds.
#include "wire/http_curl.h"

#include <stdio.h>
#include <string.h>

#include "wire/http_fault.h"

enum { CONNECT_TIMEOUT_MS = 5000, BEARER_LINE_MAX = 32 * 1024 };

static struct curl_transport *of(struct transport *t)
{
    return container_of(t, struct curl_transport, base);
}

void http_kick(struct curl_transport *t)
{
    timer_set(t->loop, &t->kick, loop_now(t->loop));
}

// --- what curl reports, and what was put off -------------------------------------------------------------------------------------

bool http_by_proxy(const struct xfer *x)
{
    long used = 0;

    return x->t->at.proxy != NULL && (curl_easy_getinfo(x->easy, CURLINFO_USED_PROXY, &used) != CURLE_OK || used != 0);
}

static void explain(struct xfer *x, CURLcode rc)
{
    char chain[256];
    long sys = 0, told = 0;

    curl_easy_getinfo(x->easy, CURLINFO_OS_ERRNO, &sys);
    curl_easy_getinfo(x->easy, CURLINFO_HTTP_CONNECTCODE, &told);
    bool before = x->t->at.proxy_tls && http_by_proxy(x) && told == 0; // the proxy itself was not passed
    tls_policy_explain(before ? &x->t->proxy_tls : &x->t->tls, chain, sizeof chain);
    struct http_fault f = {
        .code = (int)rc,
        .sys = (int)sys,
        .proxied = http_by_proxy(x),
        .proxy = x->t->at.proxy_where,
        .proxy_status = (int)told,
        .resolved = x->t->resolved,
        .connected = x->t->connected,
        .head_seen = x->head.complete,
        .where = x->t->at.where,
        .detail = x->why,
        .chain = chain,
        .connect_timeout_ms = x->t->connect_timeout_ms,
    };
    http_fault_explain(&f, &x->err);
    x->t->step = http_fault_step(&f);
    x->t->proxy = http_fault_proxy(&f);
}

static void collect(struct curl_transport *t)
{
    int left;

    while (t->multi != NULL) {
        CURLMsg *m = curl_multi_info_read(t->multi, &left);
        void *ctx = NULL;
        if (m == NULL)
            return;
        CURLcode rc = m->data.result;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &ctx);
        struct xfer *x = ctx;
        http_xfer_sent(x);
        t->step = HTTP_ANSWERED;
        t->proxy = http_by_proxy(x) ? HTTP_PROXY_GOOD : HTTP_PROXY_NONE;
        if (rc != CURLE_OK)
            explain(x, rc);
        http_xfer_end(x);
    }
}

static void condemn_now(struct curl_transport *t)
{
    t->condemned = false;
    list_each_safe(it, tmp, &t->running) {
        struct xfer *x = container_of(it, struct xfer, link);
        err_set(&x->err, E_OFFLINE, "%s: the connection was given up", t->at.where);
        http_xfer_end(x);
    }
    http_drop_multi(t);
}

static void start_queued(struct curl_transport *t)
{
    list_each_safe(it, tmp, &t->queued) {
        struct xfer *x = container_of(it, struct xfer, link);
        if (http_xfer_start(x, &x->err) < 0)
            http_xfer_end(x);
    }
}

// Only those that ended before: what ends because of an on_done waits for the next turn, so nobody is starved.
static void deliver(struct curl_transport *t)
{
    while (!list_empty(&t->ended)) {
        struct list *first = t->ended.next;
        list_del(first);
        list_add_tail(&t->batch, first);
    }
    while (!list_empty(&t->batch)) {
        struct xfer *x = container_of(t->batch.next, struct xfer, link);
        struct http_req *r = x->req;
        struct err err = x->err;
        r->impl = NULL;
        http_xfer_free(x);
        r->on_done(r, err.cls != 0 ? &err : NULL);
    }
}

// curl looks at the waiting ones again whenever a request is taken out, so one is put in and taken out.
static void nudge_waiting(struct curl_transport *t)
{
    t->nudge = false;
    if (t->multi == NULL || t->running.next == t->running.prev)
        return;
    CURL *easy = curl_easy_init();
    if (easy != NULL && curl_multi_add_handle(t->multi, easy) == CURLM_OK)
        curl_multi_remove_handle(t->multi, easy);
    curl_easy_cleanup(easy);
}

static void settle(struct curl_transport *t)
{
    list_each_safe(it, tmp, &t->canceled)
        http_xfer_free(container_of(it, struct xfer, link));
    collect(t);
    if (t->condemned)
        condemn_now(t);
    if (t->nudge)
        nudge_waiting(t);
    start_queued(t);
    timer_set(t->loop, &t->kick, PARKED);
    deliver(t);
}

void http_drive(struct curl_transport *t, curl_socket_t fd, int events)
{
    int running;

    if (t->multi == NULL)
        return;
    t->inside = true;
    CURLMcode rc = curl_multi_socket_action(t->multi, fd, events, &running);
    t->inside = false;
    if (rc != CURLM_OK)
        t->condemned = true; // no memory for a node: curl has given up everything it had
    settle(t);
}

static void on_clockwork(struct timer *timer)
{
    struct curl_transport *t = container_of(timer, struct curl_transport, clockwork);

    timer_set(t->loop, &t->clockwork, PARKED);
    http_drive(t, CURL_SOCKET_TIMEOUT, 0);
}

static void on_kick(struct timer *timer)
{
    struct curl_transport *t = container_of(timer, struct curl_transport, kick);

    timer_set(t->loop, &t->kick, PARKED);
    settle(t);
}

// --- the operations --------------------------------------------------------------------------------------------------------------

static int submit_req(struct transport *base, struct http_req *r, struct err *e)
{
    struct curl_transport *t = of(base);
    struct xfer *x = NULL;

    if (r->impl != NULL)
        return err_set(e, E_BUSY, "the request is under way");
    if (memchr(r->url, '\0', sizeof r->url) == NULL || r->url[0] != '/')
        return err_set(e, E_INVAL, "not an absolute path: %.40s", r->url);
    int cls = http_xfer_new(&x, t, r, e);
    if (cls < 0)
        return cls;
    r->bytes_in = r->bytes_out = 0;
    r->head = (struct http_head){ 0 };
    list_add_tail(&t->queued, &x->link);
    if (!t->inside)
        cls = http_xfer_start(x, e);
    if (cls < 0) {
        http_xfer_free(x);
        return cls;
    }
    r->impl = x;
    t->stats.requests++;
    return 0;
}

static void cancel_req(struct transport *base, struct http_req *r)
{
    struct curl_transport *t = of(base);
    struct xfer *x = r->impl;

    if (x == NULL)
        return;
    r->impl = NULL;
    x->req = NULL;
    timer_cancel(t->loop, &x->timer);
    if (!t->inside) {
        http_xfer_free(x);
        return;
    }
    list_del(&x->link);
    list_add_tail(&t->canceled, &x->link);
}

static void condemn(struct transport *base)
{
    struct curl_transport *t = of(base);

    if (t->inside)
        t->condemned = true;
    else
        condemn_now(t);
}

static void read_stats(struct transport *base, struct http_stats *out)
{
    struct curl_transport *t = of(base);

    *out = t->stats;
    http_wire_bytes(t, out);
}

static void free_secret(char *s)
{
    if (s != NULL)
        explicit_bzero(s, strlen(s));
    free(s);
}

static void free_all(struct list *head)
{
    list_each_safe(it, tmp, head)
        http_xfer_free(container_of(it, struct xfer, link));
}

static void free_transport(struct transport *base)
{
    struct curl_transport *t = of(base);
    struct list *all[] = { &t->queued, &t->running, &t->ended, &t->batch, &t->canceled };

    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        list_each(it, all[i]) {
            struct http_req *r = container_of(it, struct xfer, link)->req;
            if (r != NULL)
                r->impl = NULL;
        }
        free_all(all[i]);
    }
    http_drop_multi(t);
    timer_cancel(t->loop, &t->clockwork);
    timer_cancel(t->loop, &t->kick);
    http_endpoint_fini(&t->at);
    tls_policy_fini(&t->tls);
    tls_policy_fini(&t->proxy_tls);
    free(t->ca_pem);
    free(t->extra_ca_pem);
    free(t->trusted_pem);
    free(t->proxy_ca_pem);
    free(t->cert_pem);
    free_secret(t->key_pem);
    free_secret(t->authorization);
    free(t->user_agent);
    free(t);
    curl_global_cleanup();
}

static const struct transport_ops curl_ops = {
    .submit = submit_req,
    .cancel = cancel_req,
    .condemn = condemn,
    .stats = read_stats,
    .free = free_transport,
};

// --- making and changing one -----------------------------------------------------------------------------------------------------

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static int copy_text(char **out, const char *s, struct err *e)
{
    *out = NULL;
    if (s == NULL)
        return 0;
    *out = strdup(s);
    return *out != NULL ? 0 : err_set(e, E_NOMEM, "no memory for a setting");
}

static int check_identity(const struct curl_transport *t, const char *ca, const char *cert, const char *key, struct err *e)
{
    int rc = 0;

    if (t->at.tls && ca == NULL && !t->tls.accept_any)
        return err_set(e, E_INVAL, "%s: no CA certificate is configured for it", t->at.where);
    if ((cert == NULL) != (key == NULL))
        return err_set(e, E_INVAL, "a client certificate needs its key, and the key its certificate");
    if (ca != NULL)
        rc = tls_check_certs(ca, "CA certificate", e);
    if (rc == 0 && cert != NULL)
        rc = tls_check_key(cert, key, loop_clock(t->loop), e);
    return rc;
}

// The server's CA and the extra ones as one text; NULL where there is neither.
static int join_trusted(char **out, const char *ca, const char *extra, struct err *e)
{
    *out = NULL;
    if (ca == NULL && extra == NULL)
        return 0;
    if (asprintf(out, "%s\n%s", ca != NULL ? ca : "", extra != NULL ? extra : "") >= 0)
        return 0;
    *out = NULL;
    return err_set(e, E_NOMEM, "no memory for a setting");
}

int http_set_identity(struct transport *base, const char *ca_pem, const char *cert_pem, const char *key_pem, struct err *e)
{
    struct curl_transport *t = of(base);
    char *ca = NULL, *cert = NULL, *key = NULL, *trusted = NULL;

    if (same_text(t->ca_pem, ca_pem) && same_text(t->cert_pem, cert_pem) && same_text(t->key_pem, key_pem))
        return 0;
    if (t->inside)
        return err_set(e, E_BUSY, "the identity cannot change inside a request's callback");
    int rc = check_identity(t, ca_pem, cert_pem, key_pem, e);
    if (rc == 0)
        rc = copy_text(&ca, ca_pem, e);
    if (rc == 0)
        rc = copy_text(&cert, cert_pem, e);
    if (rc == 0)
        rc = copy_text(&key, key_pem, e);
    if (rc == 0)
        rc = join_trusted(&trusted, ca_pem, t->extra_ca_pem, e);
    if (rc < 0) {
        free(ca);
        free(cert);
        free_secret(key);
        return rc;
    }
    condemn_now(t);
    free(t->trusted_pem);
    t->trusted_pem = trusted;
    free(t->ca_pem);
    free(t->cert_pem);
    free_secret(t->key_pem);
    t->ca_pem = ca;
    t->cert_pem = cert;
    t->key_pem = key;
    return 0;
}

int http_set_bearer(struct transport *base, const char *token, struct err *e)
{
    struct curl_transport *t = of(base);
    CLEANUP(buf_wipe) struct buf line = BUF_INIT(BEARER_LINE_MAX);

    if (token != NULL && !t->at.tls && !t->at.loopback)
        return err_set(e, E_INVAL, "%s: http:// would show the token to the network; it is for the loopback interface only", t->at.where);
    int rc = token != NULL ? http_bearer_line(&line, token, e) : 0;
    if (rc < 0)
        return rc;
    free_secret(t->authorization);
    t->authorization = buf_steal(&line);
    return 0;
}

const char *http_peer_chain(struct transport *base)
{
    return buf_str(&of(base)->tls.served);
}

void http_look(struct transport *base, struct http_look *out)
{
    const struct curl_transport *t = of(base);
    const struct tls_policy *shown = t->proxy == HTTP_PROXY_STRANGER ? &t->proxy_tls : &t->tls;

    *out = (struct http_look){ .step = t->step,
                               .tls = t->at.tls,
                               .proxied = t->proxy != HTTP_PROXY_NONE,
                               .proxy = t->proxy,
                               .not_before = shown->peer.not_before,
                               .not_after = shown->peer.not_after,
                               .untrusted = tls_policy_untrusted(shown),
                               .other_name = tls_policy_other_name(shown) };
    snprintf(out->where, sizeof out->where, "%.250s", t->at.where);
    snprintf(out->proxy_where, sizeof out->proxy_where, "%.250s", t->at.proxy_where);
    memcpy(out->address, t->address, sizeof out->address);
    memcpy(out->names, shown->peer.names, sizeof out->names);
    memcpy(out->issuer, shown->peer.issuer, sizeof out->issuer);
}

static void init_lists(struct curl_transport *t)
{
    struct list *all[] = { &t->queued, &t->running, &t->ended, &t->batch, &t->canceled, &t->socks, &t->conns };

    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        list_init(all[i]);
}

static int set_proxy_ca(struct curl_transport *t, const char *pem, struct err *e)
{
    if (t->at.proxy_tls && pem == NULL && t->trusted_pem == NULL)
        return err_set(e, E_INVAL, "proxy %s: nothing to judge its certificate by: name the PEM file of who issued it in [server] proxyCA",
                       t->at.proxy_where);
    int rc = pem != NULL ? tls_check_certs(pem, "proxy CA", e) : 0;
    return rc == 0 ? copy_text(&t->proxy_ca_pem, pem, e) : rc;
}

static int set_up(struct curl_transport *t, const struct http_conf *c, struct err *e)
{
    int rc = http_endpoint_init(&t->at, c, e);

    if (rc == 0)
        rc = copy_text(&t->user_agent, c->user_agent != NULL ? c->user_agent : "limpet", e);
    if (rc == 0)
        rc = check_identity(t, c->ca_pem, c->cert_pem, c->key_pem, e);
    if (rc == 0)
        rc = copy_text(&t->ca_pem, c->ca_pem, e);
    if (rc == 0 && c->extra_ca_pem != NULL)
        rc = tls_check_certs(c->extra_ca_pem, "extra CA", e);
    if (rc == 0 && c->extra_ca_pem != NULL)
        rc = tls_ca_keys(c->extra_ca_pem, &t->tls.extra, e);
    if (rc == 0)
        rc = copy_text(&t->extra_ca_pem, c->extra_ca_pem, e);
    if (rc == 0)
        rc = join_trusted(&t->trusted_pem, c->ca_pem, c->extra_ca_pem, e);
    if (rc == 0)
        rc = set_proxy_ca(t, c->proxy_ca_pem, e);
    if (rc == 0)
        rc = copy_text(&t->cert_pem, c->cert_pem, e);
    if (rc == 0)
        rc = copy_text(&t->key_pem, c->key_pem, e);
    if (rc == 0 && (timer_set(t->loop, &t->clockwork, PARKED) < 0 || timer_set(t->loop, &t->kick, PARKED) < 0))
        rc = err_set(e, E_NOMEM, "no memory for a timer");
    return rc;
}

int http_new(struct transport **out, struct loop *l, const struct http_conf *c, struct err *e)
{
    struct curl_transport *t = calloc(1, sizeof *t);

    if (t == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        free(t);
        return err_set(e, E_NOMEM, "no memory for the HTTP client");
    }
    t->base.ops = &curl_ops;
    t->loop = l;
    t->connect_timeout_ms = c->connect_timeout_ms > 0 ? c->connect_timeout_ms : CONNECT_TIMEOUT_MS;
    init_lists(t);
    timer_init(&t->clockwork, on_clockwork);
    timer_init(&t->kick, on_kick);
    tls_policy_init(&t->tls, loop_clock(l), c->pin_only_hash);
    tls_policy_init(&t->proxy_tls, loop_clock(l), false);
    t->tls.any_date = c->any_date;
    t->tls.tell = t->proxy_tls.tell = c->any_date;
    int rc = set_up(t, c, e);
    if (rc < 0) {
        free_transport(&t->base);
        return rc;
    }
    *out = &t->base;
    return 0;
}
