// SPDX-License-Identifier: Apache-2.0
// The transport on libcurl's multi interface. All requests share one multi handle and so, over TLS with HTTP/2, one connection.
//
// Three things shape this file. curl may not be called from inside its own callbacks, so what a request's callback asks for (submit,
// cancel, condemn) is noted and done in settle(). A connection that is believed dead would be reused by curl as long as it lies in the
// pool, so condemning replaces the whole multi handle. And curl joins the thread of an unfinished name resolution when a request is
// taken back, unless CURLOPT_QUICK_EXIT is set: without it a dead name server would stop the loop for seconds.
#include <curl/curl.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "wire/http_endpoint.h"
#include "wire/http_fault.h"
#include "wire/http_head.h"
#include "wire/http_tls.h"

enum {
    CONNECT_TIMEOUT_MS = 5000,
    KEEPALIVE_IDLE_S = 15,
    KEEPALIVE_EVERY_S = 5,
    KEEPALIVE_TRIES = 3,
    UNACKED_MAX_MS = 30000, // sent and not acknowledged for that long: the connection is dead (keepalive only looks at idle ones)
    READ_CHUNK = 16 * 1024,
    IDLE_CONNECTIONS = 4,
    CONNECTIONS_MAX = 64, // HTTP/1.1 needs one for each watch
};
// Our timers are never unset but moved to here: moving needs no memory and so cannot fail.
#define PARKED (INT64_MAX / 4)

struct curl_transport {
    struct transport base;
    struct loop *loop;
    CURLM *multi; // NULL after condemn, until the next request
    struct http_endpoint at;
    struct tls_policy tls;
    char *ca_pem, *cert_pem, *key_pem; // key_pem is secret
    char *authorization;               // whole header line; secret
    char *user_agent;
    int64_t connect_timeout_ms;
    struct timer clockwork; // curl's own timeout
    struct timer kick;      // settle() in the next turn
    bool inside;            // curl is on the stack
    bool condemned;         // asked for while inside
    bool nudge;             // a connection was made: see on_connected()
    struct list queued, running, ended, batch, canceled; // of struct xfer
    struct list socks, conns;
    struct http_stats stats; // bytes of closed connections only
};

// One submitted request. It outlives a canceled http_req when curl is on the stack.
struct xfer {
    struct list link;
    struct curl_transport *t;
    struct http_req *req; // NULL = canceled
    CURL *easy;
    struct curl_slist *headers;
    struct timer timer;
    int64_t total_at_ms, last_byte_ms;
    struct http_head_parser head;
    struct err err; // why it ended; class 0 = completed
    char why[CURL_ERROR_SIZE];
};

// A descriptor that curl wants watched.
struct sock {
    struct list link;
    struct loop_fd node;
    struct curl_transport *t;
};

// A socket we opened for curl, until curl closes it.
struct conn {
    struct list link;
    int fd;
};

static struct curl_transport *of(struct transport *t)
{
    return container_of(t, struct curl_transport, base);
}

// --- descriptors and bytes -------------------------------------------------------------------------------------------------------

static void add_wire_bytes(int fd, struct http_stats *s)
{
    struct tcp_info ti = { 0 };
    socklen_t len = sizeof ti;

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &ti, &len) == 0) {
        s->bytes_in += ti.tcpi_bytes_received;
        s->bytes_out += ti.tcpi_bytes_acked;
    }
}

static curl_socket_t open_socket(void *ctx, curlsocktype purpose UNUSED, struct curl_sockaddr *a)
{
    struct curl_transport *t = ctx;
    AUTO_FREE struct conn *c = calloc(1, sizeof *c);
    int unacked_ms = UNACKED_MAX_MS;

    if (c == NULL)
        return CURL_SOCKET_BAD;
    c->fd = socket(a->family, a->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->protocol);
    if (c->fd < 0)
        return CURL_SOCKET_BAD;
    // Only makes the discovery of a dead connection faster, so a kernel without it is good enough.
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacked_ms, sizeof unacked_ms);
    t->stats.connections++;
    int fd = c->fd;
    list_add_tail(&t->conns, &steal(c)->link);
    return fd;
}

static int close_socket(void *ctx, curl_socket_t fd)
{
    struct curl_transport *t = ctx;

    list_each_safe(it, tmp, &t->conns) {
        struct conn *c = container_of(it, struct conn, link);
        if (c->fd != fd)
            continue;
        add_wire_bytes(fd, &t->stats);
        list_del(&c->link);
        free(c);
    }
    return close(fd);
}

static void drive(struct curl_transport *t, curl_socket_t fd, int events);

static void on_ready(struct loop_fd *f, unsigned events)
{
    struct sock *s = container_of(f, struct sock, node);
    int what = ((events & LOOP_IN) ? CURL_CSELECT_IN : 0) | ((events & LOOP_OUT) ? CURL_CSELECT_OUT : 0);

    drive(s->t, f->fd, what);
}

static void sock_free(struct sock *s)
{
    loop_fd_del(s->t->loop, &s->node);
    list_del(&s->link);
    free(s);
}

static struct sock *sock_new(struct curl_transport *t, int fd, unsigned events)
{
    struct sock *s = calloc(1, sizeof *s);

    if (s == NULL)
        return NULL;
    s->t = t;
    if (loop_fd_add(t->loop, &s->node, fd, events, on_ready, NULL) < 0) {
        free(s);
        return NULL;
    }
    list_add_tail(&t->socks, &s->link);
    return s;
}

// curl's CURLMOPT_SOCKETFUNCTION. -1 makes curl give up every transfer it has, which is what no memory for a node comes to.
static int watch_socket(CURL *easy UNUSED, curl_socket_t fd, int what, void *ctx, void *known)
{
    struct curl_transport *t = ctx;
    struct sock *s = known;
    unsigned events = ((what & CURL_POLL_IN) ? LOOP_IN : 0u) | ((what & CURL_POLL_OUT) ? LOOP_OUT : 0u);

    if (what == CURL_POLL_REMOVE) {
        if (s != NULL)
            sock_free(s);
        return 0;
    }
    if (s != NULL)
        return loop_fd_mod(t->loop, &s->node, events, NULL) < 0 ? -1 : 0;
    s = sock_new(t, fd, events);
    if (s == NULL)
        return -1;
    curl_multi_assign(t->multi, fd, s);
    return 0;
}

static int watch_time(CURLM *multi UNUSED, long ms, void *ctx)
{
    struct curl_transport *t = ctx;

    timer_set(t->loop, &t->clockwork, ms < 0 ? PARKED : loop_now(t->loop) + ms);
    return 0;
}

static void kick(struct curl_transport *t)
{
    timer_set(t->loop, &t->kick, loop_now(t->loop));
}

// --- the multi handle ------------------------------------------------------------------------------------------------------------

static int need_multi(struct curl_transport *t, struct err *e)
{
    if (t->multi != NULL)
        return 0;
    t->multi = curl_multi_init();
    if (t->multi == NULL)
        return err_set(e, E_NOMEM, "no memory for the HTTP client");
    curl_multi_setopt(t->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
    curl_multi_setopt(t->multi, CURLMOPT_SOCKETDATA, t);
    curl_multi_setopt(t->multi, CURLMOPT_TIMERFUNCTION, watch_time);
    curl_multi_setopt(t->multi, CURLMOPT_TIMERDATA, t);
    curl_multi_setopt(t->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_MULTIPLEX);
    curl_multi_setopt(t->multi, CURLMOPT_MAXCONNECTS, (long)IDLE_CONNECTIONS);
    curl_multi_setopt(t->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)CONNECTIONS_MAX);
    return 0;
}

// Closes every connection. Requests must have been taken out.
static void drop_multi(struct curl_transport *t)
{
    if (t->multi == NULL)
        return;
    curl_multi_cleanup(t->multi);
    t->multi = NULL;
    timer_set(t->loop, &t->clockwork, PARKED);
    list_each_safe(it, tmp, &t->socks)
        sock_free(container_of(it, struct sock, link));
}

// --- one request -----------------------------------------------------------------------------------------------------------------

static void headers_free(struct curl_slist *list)
{
    for (struct curl_slist *h = list; h != NULL; h = h->next)
        explicit_bzero(h->data, strlen(h->data));
    curl_slist_free_all(list);
}

static void xfer_free(struct xfer *x)
{
    timer_cancel(x->t->loop, &x->timer);
    list_del(&x->link);
    if (x->easy != NULL) {
        if (x->t->multi != NULL)
            curl_multi_remove_handle(x->t->multi, x->easy); // harmless when it is not in there
        curl_easy_cleanup(x->easy);
    }
    headers_free(x->headers);
    free(x);
}

// Takes it from curl; settle() tells the owner.
static void xfer_end(struct xfer *x)
{
    timer_cancel(x->t->loop, &x->timer);
    if (x->t->multi != NULL)
        curl_multi_remove_handle(x->t->multi, x->easy);
    if (x->err.cls != 0)
        x->t->stats.failures++;
    list_del(&x->link);
    list_add_tail(&x->t->ended, &x->link);
    kick(x->t);
}

static void count_sent(struct xfer *x)
{
    long head = 0;
    curl_off_t body = 0;

    if (x->req == NULL)
        return;
    curl_easy_getinfo(x->easy, CURLINFO_REQUEST_SIZE, &head);
    curl_easy_getinfo(x->easy, CURLINFO_SIZE_UPLOAD_T, &body);
    x->req->bytes_out = (uint64_t)head + (uint64_t)body;
}

static size_t on_header_line(char *p, size_t size UNUSED, size_t n, void *ctx)
{
    struct xfer *x = ctx;
    struct http_req *r = x->req;

    if (r == NULL)
        return CURL_WRITEFUNC_ERROR;
    x->last_byte_ms = loop_now(x->t->loop);
    r->bytes_in += n;
    if (!http_head_line(&x->head, p, n, clock_wall_us(loop_clock(x->t->loop)) / 1000000))
        return n;
    count_sent(x);
    r->head = x->head.head;
    r->head.verified = x->t->at.tls && !x->t->tls.accept_any;
    return r->on_head != NULL && r->on_head(r, &r->head) != 0 ? CURL_WRITEFUNC_ERROR : n;
}

static size_t on_body_bytes(char *p, size_t size UNUSED, size_t n, void *ctx)
{
    struct xfer *x = ctx;
    struct http_req *r = x->req;

    if (r == NULL)
        return CURL_WRITEFUNC_ERROR;
    x->last_byte_ms = loop_now(x->t->loop);
    r->bytes_in += n;
    return r->on_body != NULL && r->on_body(r, p, n) != 0 ? CURL_WRITEFUNC_ERROR : n;
}

// When the next of the two time limits is due; the idle one is moved lazily, not with each byte.
static int64_t next_limit(const struct xfer *x)
{
    int64_t at = x->total_at_ms;

    if (x->req->idle_timeout_ms > 0)
        at = MIN(at, x->last_byte_ms + x->req->idle_timeout_ms);
    return at;
}

static void on_limit(struct timer *timer)
{
    struct xfer *x = container_of(timer, struct xfer, timer);
    int64_t now = loop_now(x->t->loop);

    if (next_limit(x) > now) {
        timer_set(x->t->loop, &x->timer, next_limit(x)); // it just fired, so there is room for it
        return;
    }
    if (x->total_at_ms <= now)
        err_set(&x->err, E_TIMEOUT, "%s: no complete answer within %lld ms", x->t->at.where, (long long)x->req->total_timeout_ms);
    else
        err_set(&x->err, E_TIMEOUT, "%s: no byte for %lld ms", x->t->at.where, (long long)x->req->idle_timeout_ms);
    xfer_end(x);
}

static int add_header(struct xfer *x, const char *name, const char *value, struct err *e)
{
    AUTO_BUF struct buf line = BUF_INIT(1024);
    int rc = buf_addf(&line, e, "%s: %s", name, value);

    if (rc < 0)
        return rc;
    struct curl_slist *more = curl_slist_append(x->headers, buf_str(&line));
    if (more == NULL)
        return err_set(e, E_NOMEM, "no memory for a request header");
    x->headers = more;
    return 0;
}

static int authorization_of(struct buf *line, const char *token, struct err *e)
{
    if (token[strcspn(token, "\r\n")] != '\0')
        return err_set(e, E_INVAL, "the bearer token holds a line break");
    return buf_addf(line, e, "Authorization: Bearer %s", token);
}

static int add_authorization(struct xfer *x, struct err *e)
{
    CLEANUP(buf_wipe) struct buf own = BUF_INIT(32 * 1024);
    const char *line = x->t->authorization;

    if (x->req->bearer != NULL) {
        int rc = authorization_of(&own, x->req->bearer, e);
        if (rc < 0)
            return rc;
        line = buf_str(&own);
    }
    if (line == NULL)
        return 0;
    struct curl_slist *more = curl_slist_append(x->headers, line);
    if (more == NULL)
        return err_set(e, E_NOMEM, "no memory for a request header");
    x->headers = more;
    return 0;
}

static int set_headers(struct xfer *x, struct err *e)
{
    const struct http_req *r = x->req;
    int rc = add_header(x, "Accept", r->accept != NULL ? r->accept : "application/json", e);

    if (rc == 0 && r->content_type != NULL)
        rc = add_header(x, "Content-Type", r->content_type, e);
    if (rc == 0)
        rc = add_header(x, "Expect", "", e); // no round trip to ask whether a body is welcome
    if (rc == 0)
        rc = add_authorization(x, e);
    return rc;
}

// A request is about to be sent. If it made a new connection, those that waited to share it must look again: curl only wakes them when
// it can be shared, and over HTTP/1.1 they would wait for its end.
static int on_connected(void *ctx, char *there UNUSED, char *here UNUSED, int their_port UNUSED, int our_port UNUSED)
{
    struct xfer *x = ctx;
    long made = 0;

    curl_easy_getinfo(x->easy, CURLINFO_NUM_CONNECTS, &made);
    if (made > 0)
        x->t->nudge = true;
    return CURL_PREREQFUNC_OK;
}

#define SET(option, value)                                           \
    do {                                                             \
        if (rc == CURLE_OK)                                          \
            rc = curl_easy_setopt(x->easy, CURLOPT_##option, value); \
    } while (0)

static CURLcode set_connection(struct xfer *x)
{
    struct curl_transport *t = x->t;
    CURLcode rc = CURLE_OK;

    SET(PROTOCOLS_STR, "http,https");
    SET(HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    SET(PIPEWAIT, t->at.tls ? 1L : 0L); // plain HTTP is HTTP/1.1: nothing to wait for
    SET(PREREQFUNCTION, on_connected);
    SET(PREREQDATA, x);
    SET(NOSIGNAL, 1L);
    SET(QUICK_EXIT, 1L);
    SET(CONNECTTIMEOUT_MS, (long)t->connect_timeout_ms);
    SET(BUFFERSIZE, (long)READ_CHUNK);
    SET(TCP_KEEPALIVE, 1L);
    SET(TCP_KEEPIDLE, (long)KEEPALIVE_IDLE_S);
    SET(TCP_KEEPINTVL, (long)KEEPALIVE_EVERY_S);
    SET(TCP_KEEPCNT, (long)KEEPALIVE_TRIES);
    SET(OPENSOCKETFUNCTION, open_socket);
    SET(OPENSOCKETDATA, t);
    SET(CLOSESOCKETFUNCTION, close_socket);
    SET(CLOSESOCKETDATA, t);
    // Without a value curl reads the environment.
    SET(PROXY, t->at.proxy != NULL ? t->at.proxy : "");
    SET(NOPROXY, t->at.no_proxy != NULL ? t->at.no_proxy : "");
    SET(SUPPRESS_CONNECT_HEADERS, 1L);
    SET(HEADEROPT, (long)CURLHEADER_SEPARATE); // the token is not the proxy's business
    if (t->at.connect_to != NULL)
        SET(CONNECT_TO, t->at.connect_to);
    if (x->req->fresh_connection)
        SET(FRESH_CONNECT, 1L);
    return rc;
}

static CURLcode on_tls_setup(CURL *easy UNUSED, void *ssl_config, void *ctx)
{
    struct curl_transport *t = ctx;

    tls_policy_apply(&t->tls, ssl_config);
    return CURLE_OK;
}

// Not copied by curl: set_identity() ends all requests before it frees a text.
static struct curl_blob blob(char *pem, size_t len)
{
    return (struct curl_blob){ .data = pem, .len = len, .flags = CURL_BLOB_NOCOPY };
}

static CURLcode set_tls(struct xfer *x)
{
    struct curl_transport *t = x->t;
    CURLcode rc = CURLE_OK;

    SET(SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(SSL_SESSIONID_CACHE, 0L);
    SET(SSL_CTX_FUNCTION, on_tls_setup);
    SET(SSL_CTX_DATA, t);
    SET(CAINFO, NULL);
    if (t->ca_pem != NULL) {
        struct curl_blob b = blob(t->ca_pem, strlen(t->ca_pem));
        SET(CAINFO_BLOB, &b);
    }
    if (t->cert_pem != NULL) {
        struct curl_blob b = blob(t->cert_pem, strlen(t->cert_pem));
        SET(SSLCERT_BLOB, &b);
        b = blob(t->key_pem, strlen(t->key_pem) + 1); // mbedTLS wants the terminator counted
        SET(SSLKEY_BLOB, &b);
    }
    return rc;
}

static CURLcode set_request(struct xfer *x)
{
    const struct http_req *r = x->req;
    char url[HTTP_URL_MAX + HTTP_BASE_MAX];
    CURLcode rc = CURLE_OK;

    snprintf(url, sizeof url, "%s%s", x->t->at.base, r->url);
    SET(URL, url);
    SET(PATH_AS_IS, 1L);
    SET(USERAGENT, x->t->user_agent);
    SET(HTTPHEADER, x->headers);
    SET(CUSTOMREQUEST, r->method);
    if (r->content_type != NULL) {
        SET(POSTFIELDSIZE_LARGE, (curl_off_t)r->body_len);
        SET(POSTFIELDS, r->body != NULL ? r->body : "");
    } else if (strcmp(r->method, "HEAD") == 0) {
        SET(NOBODY, 1L);
    }
    SET(HEADERFUNCTION, on_header_line);
    SET(HEADERDATA, x);
    SET(WRITEFUNCTION, on_body_bytes);
    SET(WRITEDATA, x);
    SET(ERRORBUFFER, x->why);
    SET(PRIVATE, x);
    return rc;
}
#undef SET

static int xfer_setup(struct xfer *x, struct err *e)
{
    x->easy = curl_easy_init();
    if (x->easy == NULL)
        return err_set(e, E_NOMEM, "no memory for a request");
    int cls = set_headers(x, e);
    if (cls < 0)
        return cls;
    CURLcode rc = set_connection(x);
    if (rc == CURLE_OK)
        rc = set_tls(x);
    if (rc == CURLE_OK)
        rc = set_request(x);
    if (rc != CURLE_OK)
        return err_set(e, rc == CURLE_OUT_OF_MEMORY ? E_NOMEM : E_INVAL, "preparing a request: %s", curl_easy_strerror(rc));
    return 0;
}

static int xfer_new(struct xfer **out, struct curl_transport *t, struct http_req *r, struct err *e)
{
    struct xfer *x = calloc(1, sizeof *x);

    if (x == NULL)
        return err_set(e, E_NOMEM, "no memory for a request");
    x->t = t;
    x->req = r;
    x->last_byte_ms = loop_now(t->loop);
    x->total_at_ms = r->total_timeout_ms > 0 ? x->last_byte_ms + r->total_timeout_ms : PARKED;
    timer_init(&x->timer, on_limit);
    int cls = xfer_setup(x, e);
    if (cls == 0 && timer_set(t->loop, &x->timer, next_limit(x)) < 0)
        cls = err_set(e, E_NOMEM, "no memory for a timer");
    if (cls < 0) {
        xfer_free(x);
        return cls;
    }
    *out = x;
    return 0;
}

static int xfer_start(struct xfer *x, struct err *e)
{
    int cls = need_multi(x->t, e);

    if (cls < 0)
        return cls;
    CURLMcode rc = curl_multi_add_handle(x->t->multi, x->easy);
    if (rc != CURLM_OK)
        return err_set(e, E_NOMEM, "starting a request: %s", curl_multi_strerror(rc));
    list_del(&x->link);
    list_add_tail(&x->t->running, &x->link);
    return 0;
}

// --- what curl reports, and what was put off -------------------------------------------------------------------------------------

static void explain(struct xfer *x, CURLcode rc)
{
    struct http_fault f = { .code = (int)rc, .where = x->t->at.where, .detail = x->why, .proxied = x->t->at.proxy != NULL,
                            .head_seen = x->head.complete };
    char chain[256] = "";
    long sys = 0;

    curl_easy_getinfo(x->easy, CURLINFO_OS_ERRNO, &sys);
    f.sys = (int)sys;
    f.connect_timeout_ms = x->t->connect_timeout_ms;
    tls_policy_explain(&x->t->tls, chain, sizeof chain);
    f.chain = chain;
    http_fault_explain(&f, &x->err);
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
        count_sent(x);
        if (rc != CURLE_OK)
            explain(x, rc);
        xfer_end(x);
    }
}

static void condemn_now(struct curl_transport *t)
{
    t->condemned = false;
    list_each_safe(it, tmp, &t->running) {
        struct xfer *x = container_of(it, struct xfer, link);
        err_set(&x->err, E_OFFLINE, "%s: the connection was given up", t->at.where);
        xfer_end(x);
    }
    drop_multi(t);
}

static void start_queued(struct curl_transport *t)
{
    list_each_safe(it, tmp, &t->queued) {
        struct xfer *x = container_of(it, struct xfer, link);
        if (xfer_start(x, &x->err) < 0)
            xfer_end(x);
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
        xfer_free(x);
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
        xfer_free(container_of(it, struct xfer, link));
    collect(t);
    if (t->condemned)
        condemn_now(t);
    if (t->nudge)
        nudge_waiting(t);
    start_queued(t);
    timer_set(t->loop, &t->kick, PARKED);
    deliver(t);
}

static void drive(struct curl_transport *t, curl_socket_t fd, int events)
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
    drive(t, CURL_SOCKET_TIMEOUT, 0);
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
    int cls = xfer_new(&x, t, r, e);
    if (cls < 0)
        return cls;
    r->bytes_in = r->bytes_out = 0;
    r->head = (struct http_head){ 0 };
    list_add_tail(&t->queued, &x->link);
    if (!t->inside)
        cls = xfer_start(x, e);
    if (cls < 0) {
        xfer_free(x);
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
        xfer_free(x);
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
    list_each(it, &t->conns)
        add_wire_bytes(container_of(it, struct conn, link)->fd, out);
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
        xfer_free(container_of(it, struct xfer, link));
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
    drop_multi(t);
    timer_cancel(t->loop, &t->clockwork);
    timer_cancel(t->loop, &t->kick);
    http_endpoint_fini(&t->at);
    tls_policy_fini(&t->tls);
    free(t->ca_pem);
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

int http_set_identity(struct transport *base, const char *ca_pem, const char *cert_pem, const char *key_pem, struct err *e)
{
    struct curl_transport *t = of(base);
    char *ca = NULL, *cert = NULL, *key = NULL;

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
    if (rc < 0) {
        free(ca);
        free(cert);
        free_secret(key);
        return rc;
    }
    condemn_now(t);
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
    CLEANUP(buf_wipe) struct buf line = BUF_INIT(32 * 1024);
    int rc = token != NULL ? authorization_of(&line, token, e) : 0;

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

static void init_lists(struct curl_transport *t)
{
    struct list *all[] = { &t->queued, &t->running, &t->ended, &t->batch, &t->canceled, &t->socks, &t->conns };

    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        list_init(all[i]);
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
    int rc = set_up(t, c, e);
    if (rc < 0) {
        free_transport(&t->base);
        return rc;
    }
    *out = &t->base;
    return 0;
}
