// SPDX-License-Identifier: Apache-2.0
// One request as a curl handle: its headers and options, what arrives, its time limits.
#include <stdio.h>
#include <string.h>

#include "config/options.h"
#include "wire/http_curl.h"

enum { KEEPALIVE_IDLE_S = 15, KEEPALIVE_EVERY_S = 5, KEEPALIVE_TRIES = 3, READ_CHUNK = 16 * 1024, BEARER_MAX = 32 * 1024 };

static void headers_free(struct curl_slist *list)
{
    for (struct curl_slist *h = list; h != NULL; h = h->next)
        explicit_bzero(h->data, strlen(h->data));
    curl_slist_free_all(list);
}

void http_xfer_free(struct xfer *x)
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

void http_xfer_end(struct xfer *x)
{
    timer_cancel(x->t->loop, &x->timer);
    if (x->t->multi != NULL)
        curl_multi_remove_handle(x->t->multi, x->easy);
    if (x->err.cls != 0)
        x->t->stats.failures++;
    list_del(&x->link);
    list_add_tail(&x->t->ended, &x->link);
    http_kick(x->t);
}

void http_xfer_sent(struct xfer *x)
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
    http_xfer_sent(x);
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
    http_xfer_end(x);
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

int http_bearer_line(struct buf *line, const char *token, struct err *e)
{
    if (token[strcspn(token, "\r\n")] != '\0')
        return err_set(e, E_INVAL, "the bearer token holds a line break");
    return buf_addf(line, e, "Authorization: Bearer %s", token);
}

static int add_authorization(struct xfer *x, struct err *e)
{
    CLEANUP(buf_wipe) struct buf own = BUF_INIT(BEARER_MAX);
    const char *line = x->t->authorization;

    if (x->req->bearer != NULL) {
        int rc = http_bearer_line(&own, x->req->bearer, e);
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

// No Accept-Encoding is ever sent: ranges are those of the file itself.
static int add_range(struct xfer *x, struct err *e)
{
    char range[48];
    const struct http_req *r = x->req;

    if (r->range_from <= 0)
        return 0;
    snprintf(range, sizeof range, "bytes=%lld-", (long long)r->range_from);
    int rc = add_header(x, "Range", range, e);
    return rc == 0 && r->if_range != NULL ? add_header(x, "If-Range", r->if_range, e) : rc;
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
        rc = add_range(x, e);
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
    SET(HTTP_VERSION, OPT_HTTP2 ? (long)CURL_HTTP_VERSION_2TLS : (long)CURL_HTTP_VERSION_1_1);
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
    SET(OPENSOCKETFUNCTION, http_open_socket);
    SET(OPENSOCKETDATA, x);
    SET(CLOSESOCKETFUNCTION, http_close_socket);
    SET(CLOSESOCKETDATA, t);
    // Without a value curl reads the environment.
    SET(PROXY, t->at.proxy != NULL ? t->at.proxy : "");
    SET(PROXYPORT, (long)t->at.proxy_port);
    SET(NOPROXY, t->at.no_proxy != NULL ? t->at.no_proxy : "");
    if (t->at.proxy_auth != NULL)
        SET(PROXYUSERPWD, t->at.proxy_auth);
    SET(SUPPRESS_CONNECT_HEADERS, 1L);
    SET(HEADEROPT, (long)CURLHEADER_SEPARATE); // the token is not the proxy's business
    if (t->at.connect_to != NULL)
        SET(CONNECT_TO, t->at.connect_to);
    if (x->req->fresh_connection)
        SET(FRESH_CONNECT, 1L);
    return rc;
}

// The first handshake on a connection through an https:// proxy is the proxy's, the one inside it the server's.
static CURLcode on_tls_setup(CURL *easy UNUSED, void *ssl_config, void *ctx)
{
    struct xfer *x = ctx;
    struct curl_transport *t = x->t;
    bool is_proxys = t->at.proxy_tls && x->handshakes++ == 0 && http_by_proxy(x);

    tls_policy_apply(is_proxys ? &t->proxy_tls : &t->tls, ssl_config);
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
    SET(SSL_CTX_DATA, x);
    SET(CAINFO, NULL);
    if (t->trusted_pem != NULL) {
        struct curl_blob b = blob(t->trusted_pem, strlen(t->trusted_pem));
        SET(CAINFO_BLOB, &b);
    }
    if (t->at.proxy_tls) {
        char *ca = t->proxy_ca_pem != NULL ? t->proxy_ca_pem : t->trusted_pem;
        struct curl_blob b = blob(ca, strlen(ca));
        SET(PROXY_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
        SET(PROXY_CAINFO, NULL);
        SET(PROXY_CAINFO_BLOB, &b);
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

int http_xfer_new(struct xfer **out, struct curl_transport *t, struct http_req *r, struct err *e)
{
    struct xfer *x = calloc(1, sizeof *x);

    if (x == NULL)
        return err_set(e, E_NOMEM, "no memory for a request");
    x->t = t;
    x->req = r;
    x->head.location = r->location;
    x->last_byte_ms = loop_now(t->loop);
    x->total_at_ms = r->total_timeout_ms > 0 ? x->last_byte_ms + r->total_timeout_ms : PARKED;
    timer_init(&x->timer, on_limit);
    int cls = xfer_setup(x, e);
    if (cls == 0 && timer_set(t->loop, &x->timer, next_limit(x)) < 0)
        cls = err_set(e, E_NOMEM, "no memory for a timer");
    if (cls < 0) {
        http_xfer_free(x);
        return cls;
    }
    *out = x;
    return 0;
}

int http_xfer_start(struct xfer *x, struct err *e)
{
    int cls = http_need_multi(x->t, e);

    if (cls < 0)
        return cls;
    if (list_empty(&x->t->conns)) {
        x->t->resolved = x->t->connected = false;
        x->t->address[0] = '\0';
    }
    x->t->proxy = HTTP_PROXY_NONE;
    x->t->step = HTTP_EXCHANGE; // what ends it without curl is a limit of ours, and curl's own on connecting is shorter
    CURLMcode rc = curl_multi_add_handle(x->t->multi, x->easy);
    if (rc != CURLM_OK)
        return err_set(e, E_NOMEM, "starting a request: %s", curl_multi_strerror(rc));
    list_del(&x->link);
    list_add_tail(&x->t->running, &x->link);
    return 0;
}
