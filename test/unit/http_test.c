// SPDX-License-Identifier: Apache-2.0
// The transport against servers that misbehave, over real sockets on loopback. (Name resolution: http_dns_test.c.)
#include "wire/http_curl.c"

#include "config/options.h"
#include "http_rig.h"
#include "tap.h"

static struct http_rig g;

static const char *url_of(const char *scheme, const char *server)
{
    static char url[64];

    snprintf(url, sizeof url, "%s://127.0.0.1:%d", scheme, http_rig_port(&g, server));
    return url;
}

static struct transport *connect_to(const struct http_conf *c)
{
    struct transport *t = NULL;
    struct err e = ERR_INIT;

    if (http_new(&t, g.loop, c, &e) < 0)
        diag("http_new: %s", e.msg);
    return t;
}

static struct transport *plain(const char *server)
{
    return connect_to(&(struct http_conf){ .base_url = url_of("http", server) });
}

static struct transport *secure(const char *server)
{
    return connect_to(&(struct http_conf){ .base_url = url_of("https", server), .ca_pem = g.ca });
}

static void start(struct transport *t, struct probe *p)
{
    struct err e = ERR_INIT;

    p->transport = t;
    if (http_submit(t, &p->req, &e) < 0) {
        diag("submit: %s", e.msg);
        abort();
    }
}

// One exchange, begun and waited for.
static void fetch(struct transport *t, struct probe *p, const char *method, const char *url)
{
    probe_init(p, method, url);
    start(t, p);
    if (!wait_for(&g, &p->dones, 1))
        diag("%s %s does not end", method, url);
}

static int fetch_class(struct transport *t, const char *url)
{
    struct probe p;

    fetch(t, &p, "GET", url);
    if (p.err.cls != 0)
        diag("%s: %s", url, p.err.msg);
    probe_fini(&p);
    return p.dones == 1 ? p.err.cls : 1;
}

static void test_exchange(void)
{
    struct transport *t = plain("http");
    struct probe p;
    char want[200];
    int port = http_rig_port(&g, "http");

    fetch(t, &p, "GET", "/echo?x=1");
    is_int(p.err.cls, 0, "GET completes");
    is_int(p.req.head.status, 200, "its status");
    is_str(p.req.head.content_type, "application/json", "content type without parameters");
    is_int(p.req.head.date_sec, 784111777, "Date is read");
    ok(!p.req.head.verified, "plain HTTP verifies nobody");
    snprintf(want, sizeof want, "GET 0 - - 127.0.0.1:%d -", port);
    is_str(buf_str(&p.body), want, "what the server saw");
    ok(p.req.bytes_in > p.body.len && p.req.bytes_out > 50, "headers are counted");
    probe_fini(&p);

    probe_init(&p, "PATCH", "/echo");
    p.req.content_type = "application/merge-patch+json";
    p.req.body = "{\"a\":1}";
    p.req.body_len = 7;
    is_int(http_set_bearer(t, "tok", NULL), 0, "a token");
    start(t, &p);
    wait_for(&g, &p.dones, 1);
    snprintf(want, sizeof want, "PATCH 7 application/merge-patch+json Bearer tok 127.0.0.1:%d -", port);
    is_str(buf_str(&p.body), want, "body, its type and the token are sent");
    probe_fini(&p);

    probe_init(&p, "GET", "/echo");
    p.req.bearer = "own";
    start(t, &p);
    wait_for(&g, &p.dones, 1);
    has_str(buf_str(&p.body), "Bearer own", "a request's own token wins");
    probe_fini(&p);

    is_int(http_set_bearer(t, NULL, NULL), 0, "no token any more");
    fetch(t, &p, "DELETE", "/echo");
    snprintf(want, sizeof want, "DELETE 0 - - 127.0.0.1:%d -", port);
    is_str(buf_str(&p.body), want, "and none is sent");
    probe_fini(&p);

    struct err e = ERR_INIT;
    is_int(http_set_bearer(t, "two\r\nlines: x", &e), E_INVAL, "a token with a line break is refused");

    fetch(t, &p, "GET", "/status/503");
    is_int(p.err.cls, 0, "any status is a completed exchange");
    is_int(p.req.head.status, 503, "503");
    is_int(p.req.head.retry_after_ms, 7000, "Retry-After");
    probe_fini(&p);

    struct http_stats s;
    t->ops->stats(t, &s);
    is_int(s.requests, 5, "requests are counted");
    is_int(s.connections, 1, "one connection was enough");
    ok(s.bytes_in > 700 && s.bytes_out > 500, "bytes on the wire: %d in, %d out", (int)s.bytes_in, (int)s.bytes_out);

    fetch(t, &p, "GET", "/big");
    is_int(p.body.len, 3000000, "a large body arrives whole");
    probe_fini(&p);
    t->ops->stats(t, &s);
    ok(s.bytes_in > 3000000, "and is on the bill");
    transport_free(t);
}

static void test_limits_of_submit(void)
{
    struct transport *t = plain("http");
    struct probe p;
    struct err e = ERR_INIT;

    probe_init(&p, "GET", "/hang");
    start(t, &p);
    is_int(http_submit(t, &p.req, &e), E_BUSY, "a request under way cannot be submitted again");
    http_cancel(t, &p.req);
    http_cancel(t, &p.req);
    is_int(p.dones, 0, "canceled: on_done is not called");
    snprintf(p.req.url, sizeof p.req.url, "relative");
    is_int(http_submit(t, &p.req, &e), E_INVAL, "a relative path is refused");
    memset(p.req.url, 'x', sizeof p.req.url);
    p.req.url[0] = '/';
    is_int(http_submit(t, &p.req, &e), E_INVAL, "a path without an end is refused");
    probe_fini(&p);
    transport_free(t);
}

static void test_faults(void)
{
    static const struct {
        const char *path;
        int cls;
    } cases[] = {
        { "/short", E_CORRUPT },       { "/short-chunks", E_CORRUPT }, { "/bad-chunks", E_OFFLINE }, { "/garbage", E_CORRUPT },
        { "/long-header", E_CORRUPT }, { "/close", E_OFFLINE },        { "/reset", E_OFFLINE },
    };
    struct transport *t = plain("http");

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        is_int(fetch_class(t, cases[i].path), cases[i].cls, "%s is %s", cases[i].path, err_word(cases[i].cls));
    is_int(fetch_class(t, "/echo"), 0, "and afterwards all is well");
    struct http_stats s;
    t->ops->stats(t, &s);
    is_int(s.failures, ARRAY_LEN(cases), "failures are counted");
    transport_free(t);

    t = plain("closed");
    struct probe p;
    fetch(t, &p, "GET", "/");
    is_int(p.err.cls, E_OFFLINE, "nobody listens");
    has_str(p.err.msg, "connection refused", "and the message says so");
    has_str(p.err.msg, "127.0.0.1:", "naming the host");
    probe_fini(&p);
    transport_free(t);
}

static void test_time_limits(void)
{
    struct transport *t = plain("http");
    struct probe p;

    probe_init(&p, "GET", "/hang");
    p.req.total_timeout_ms = 100;
    start(t, &p);
    ok(wait_for(&g, &p.dones, 1), "no answer");
    is_int(p.err.cls, E_TIMEOUT, "is a timeout");
    probe_fini(&p);

    probe_init(&p, "GET", "/begin");
    p.req.idle_timeout_ms = 300;
    start(t, &p);
    ok(wait_for(&g, &p.dones, 1), "an answer that stops in the middle");
    is_int(p.err.cls, E_TIMEOUT, "is a timeout");
    has_str(p.err.msg, "no byte for", "which says which");
    is_str(buf_str(&p.body), "{}", "what came before was delivered");
    probe_fini(&p);

    probe_init(&p, "GET", "/drip");
    p.req.idle_timeout_ms = 1500;
    start(t, &p);
    ok(wait_for(&g, &p.dones, 1), "an answer that trickles for longer than the idle limit");
    is_int(p.err.cls, 0, "is no timeout");
    is_int(p.body.len, 12, "and whole");
    probe_fini(&p);
    transport_free(t);
}

static int abort_head(struct http_req *r UNUSED, const struct http_head *h UNUSED)
{
    return -1;
}

static int abort_chunk(struct probe *p UNUSED)
{
    return 1;
}

static int cancel_self(struct probe *p)
{
    http_cancel(p->transport, &p->req);
    return 0;
}

static int cancel_other(struct probe *p)
{
    if (p->other != NULL)
        http_cancel(p->transport, &p->other->req);
    p->other = NULL;
    return 0;
}

static int submit_other(struct probe *p)
{
    if (p->other != NULL)
        start(p->transport, p->other);
    p->other = NULL;
    return 0;
}

static void again(struct probe *p)
{
    if (p->left-- > 0)
        start(p->transport, &*p);
}

static void then_cancel_other(struct probe *p)
{
    cancel_other(p);
}

static void test_callbacks(void)
{
    struct transport *t = plain("http");
    struct probe p, q;

    probe_init(&p, "GET", "/echo");
    p.req.on_head = abort_head;
    start(t, &p);
    wait_for(&g, &p.dones, 1);
    is_int(p.err.cls, E_CANCELED, "stopped by on_head");
    is_int(p.body.len, 0, "before its body");
    probe_fini(&p);

    probe_init(&p, "GET", "/big");
    p.chunk = abort_chunk;
    start(t, &p);
    wait_for(&g, &p.dones, 1);
    is_int(p.err.cls, E_CANCELED, "stopped by on_body");
    probe_fini(&p);

    probe_init(&p, "GET", "/big");
    p.chunk = cancel_self;
    start(t, &p);
    is_int(fetch_class(t, "/echo"), 0, "another request meanwhile");
    while (p.body.len == 0)
        turn_for(&g, 20);
    size_t had = p.body.len;
    turn_for(&g, 100);
    is_int(p.dones, 0, "canceled from its own on_body: no on_done");
    is_int(p.body.len, had, "and no further byte");
    probe_fini(&p);

    probe_init(&p, "GET", "/begin");
    probe_init(&q, "GET", "/hang");
    p.chunk = cancel_other;
    p.other = &q;
    start(t, &q);
    start(t, &p);
    while (p.body.len == 0)
        turn_for(&g, 20);
    turn_for(&g, 100);
    is_int(q.dones, 0, "canceled from another's on_body: no on_done");
    ok(q.req.impl == NULL, "and it can be used again");
    http_cancel(t, &p.req);
    probe_fini(&p);
    probe_fini(&q);

    probe_init(&p, "GET", "/begin");
    probe_init(&q, "GET", "/echo");
    p.chunk = submit_other;
    p.other = &q;
    start(t, &p);
    ok(wait_for(&g, &q.dones, 1), "submitted from another's on_body");
    is_int(q.err.cls, 0, "works");
    http_cancel(t, &p.req);
    probe_fini(&p);
    probe_fini(&q);

    probe_init(&p, "GET", "/echo");
    p.then = again;
    p.left = 3;
    start(t, &p);
    ok(wait_for(&g, &p.dones, 4), "submitted again from on_done, three times");
    turn_for(&g, 50);
    is_int(p.dones, 4, "and no more");
    probe_fini(&p);

    // Both end in one turn; the first to be told takes the other back.
    probe_init(&p, "GET", "/hang");
    probe_init(&q, "GET", "/hang");
    p.then = q.then = then_cancel_other;
    p.other = &q;
    q.other = &p;
    start(t, &p);
    start(t, &q);
    http_condemn(t);
    turn_for(&g, 100);
    is_int(p.dones + q.dones, 1, "canceled between end and on_done: no on_done");
    probe_fini(&p);
    probe_fini(&q);
    transport_free(t);
}

static void test_tls(void)
{
    struct transport *t = secure("https");
    struct probe p;

    fetch(t, &p, "GET", "/echo");
    is_int(p.err.cls, 0, "a server of our CA: %s", p.err.msg);
    ok(p.req.head.verified, "is verified");
    probe_fini(&p);

    is_int(http_set_identity(t, g.other_ca, NULL, NULL, NULL), 0, "another CA");
    is_int(fetch_class(t, "/echo"), E_AUTH, "refuses the server");
    is_int(http_set_identity(t, g.ca, g.client_cert, g.client_key, NULL), 0, "our CA and a client certificate");
    fetch(t, &p, "GET", "/echo");
    has_str(buf_str(&p.body), " client", "which the server sees");
    probe_fini(&p);
    struct err e = ERR_INIT;
    is_int(http_set_identity(t, "no PEM", NULL, NULL, &e), E_INVAL, "a broken CA is refused");
    is_int(http_set_identity(t, g.ca, g.client_cert, NULL, &e), E_INVAL, "a certificate without its key");
    is_int(http_set_identity(t, g.ca, g.ca, g.client_key, &e), E_INVAL, "a key of another certificate");
    is_int(fetch_class(t, "/echo"), 0, "and the old identity stays in use");
    transport_free(t);

    t = secure("elsewhere");
    fetch(t, &p, "GET", "/echo");
    is_int(p.err.cls, E_AUTH, "a server with another name");
    has_str(p.err.msg, "CN", "and the message says why: %s", p.err.msg);
    probe_fini(&p);
    transport_free(t);

    t = connect_to(&(struct http_conf){ .base_url = url_of("https", "elsewhere"), .ca_pem = g.ca, .server_name = "elsewhere.example" });
    fetch(t, &p, "GET", "/echo");
    has_str(buf_str(&p.body), "elsewhere.example", "tls-server-name: accepted by that name");
    probe_fini(&p);
    transport_free(t);

    t = secure("http");
    is_int(fetch_class(t, "/echo"), E_OFFLINE, "no TLS there");
    transport_free(t);

    t = NULL;
    is_int(http_new(&t, g.loop, &(struct http_conf){ .base_url = "https://x" }, &e), E_INVAL, "https without a CA is refused");

    t = connect_to(&(struct http_conf){ .base_url = url_of("https", "https"), .pin_only_hash = true });
    fetch(t, &p, "GET", "/echo");
    is_int(p.err.cls, 0, "enrolment accepts any chain");
    ok(!p.req.head.verified, "which verifies nothing");
    has_str(http_peer_chain(t), "-----BEGIN CERTIFICATE-----", "and shows it");
    probe_fini(&p);
    transport_free(t);
}

static struct http_look look_at(const struct http_conf *c)
{
    struct http_look l;
    struct transport *t = connect_to(c);

    (void)fetch_class(t, "/echo");
    http_look(t, &l);
    transport_free(t);
    return l;
}

static void test_look(void)
{
    struct http_look l = look_at(&(struct http_conf){ .base_url = url_of("https", "https"), .ca_pem = g.ca, .any_date = true });
    is_int(l.step, HTTP_ANSWERED, "look: answered");
    is_str(l.address, "127.0.0.1", "from there");
    is_str(l.names, "localhost, api.example, 127.0.0.1", "by a certificate for these");
    is_str(l.issuer, "CN=ca", "of this CA");
    ok(l.not_before > 0 && l.not_after > l.not_before + 3000 * INT64_C(86400), "with its time");
    ok(!l.untrusted && !l.other_name, "in which nothing is wrong");

    g.clock.wall_shift_us = INT64_C(30) * 365 * 86400 * 1000000;
    l = look_at(&(struct http_conf){ .base_url = url_of("https", "https"), .ca_pem = g.ca, .any_date = true });
    is_int(l.step, HTTP_ANSWERED, "look: dates are not judged");
    l = look_at(&(struct http_conf){ .base_url = url_of("https", "https"), .ca_pem = g.ca });
    is_int(l.step, HTTP_HANDSHAKE, "but they are unless that is asked for");
    g.clock.wall_shift_us = 0;

    l = look_at(&(struct http_conf){ .base_url = url_of("https", "https"), .ca_pem = g.other_ca, .any_date = true });
    ok(l.step == HTTP_HANDSHAKE && l.untrusted && !l.other_name, "look: another CA");
    is_str(l.issuer, "CN=ca", "that is this one");
    l = look_at(&(struct http_conf){ .base_url = url_of("https", "elsewhere"), .ca_pem = g.ca, .any_date = true });
    ok(l.step == HTTP_HANDSHAKE && l.other_name && !l.untrusted, "look: another name");
    is_str(l.names, "elsewhere.example", "which is told");
    l = look_at(&(struct http_conf){ .base_url = url_of("https", "closed"), .ca_pem = g.ca });
    is_int(l.step, HTTP_CONNECT, "look: nobody listens");
    l = look_at(&(struct http_conf){ .base_url = url_of("https", "mute"), .ca_pem = g.ca, .connect_timeout_ms = 500 });
    is_int(l.step, HTTP_HANDSHAKE, "look: somebody accepts and says nothing");
    l = look_at(&(struct http_conf){ .base_url = url_of("https", "http"), .ca_pem = g.ca });
    is_int(l.step, HTTP_HANDSHAKE, "look: no TLS there");
    l = look_at(&(struct http_conf){ .base_url = "https://nowhere.invalid", .ca_pem = g.ca, .connect_timeout_ms = 2000 });
    is_int(l.step, HTTP_RESOLVE, "look: no such name");

    int64_t from = 0, to = 0;
    is_int(tls_cert_dates(g.client_cert, &from, &to, NULL), 0, "a certificate's dates");
    ok(from > 0 && to > from, "are told");
    is_int(tls_cert_dates("no PEM", &from, &to, NULL), E_INVAL, "not those of what is none");
}

static int class_at(int64_t years, bool synced)
{
    g.clock.wall_shift_us = years * 365 * 86400 * INT64_C(1000000);
    g.clock.synced = synced;
    struct transport *t = secure("https");
    int cls = fetch_class(t, "/echo");
    transport_free(t);
    g.clock.wall_shift_us = 0;
    g.clock.synced = true;
    return cls;
}

static void test_certificate_times(void)
{
    is_int(class_at(-30, true), E_AUTH, "field 3: not yet valid by a trusted clock: refused");
    g.clock.clock.floor_us = clock_wall_us(&g.clock.clock) - INT64_C(86400000000) * 365 * 20;
    is_int(class_at(-30, false), 0, "field 3: not yet valid by an untrusted clock: accepted");
    is_int(class_at(+30, true), E_AUTH, "expired by a trusted clock: refused");
    g.clock.clock.floor_us = 0;
}

// Starts n requests and lets each answer begin (or, without a body to come, be sent).
static void start_all(struct transport *t, struct probe *p, size_t n, const char *url)
{
    for (size_t i = 0; i < n; i++) {
        probe_init(&p[i], "GET", url);
        start(t, &p[i]);
    }
}

static void wait_bodies(struct probe *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (int turns = 0; p[i].body.len == 0 && p[i].dones == 0 && turns < 3000; turns++)
            turn_for(&g, 20);
}

static void finish_all(struct probe *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        probe_fini(&p[i]);
}

static void condemn_then(struct probe *p)
{
    http_condemn(p->transport);
}

static int condemn_chunk(struct probe *p)
{
    http_condemn(p->transport);
    return 0;
}

static void test_condemn(void)
{
    struct transport *t = plain("http");
    struct probe p[4];

    start_all(t, p, 4, "/begin");
    wait_bodies(p, 4);
    http_condemn(t);
    is_int(p[0].dones, 0, "condemning calls nobody at once");
    for (size_t i = 0; i < 4; i++) {
        wait_for(&g, &p[i].dones, 1);
        is_int(p[i].err.cls, E_OFFLINE, "in flight: offline");
    }
    finish_all(p, 4);
    is_int(fetch_class(t, "/echo"), 0, "the next connects afresh");

    start_all(t, p, 2, "/begin");
    p[0].chunk = condemn_chunk;
    ok(wait_for(&g, &p[0].dones, 1) && wait_for(&g, &p[1].dones, 1), "condemned from inside on_body");
    is_int(p[0].err.cls, E_OFFLINE, "itself: offline");
    is_int(p[1].err.cls, E_OFFLINE, "the other: offline");
    finish_all(p, 2);

    start_all(t, p, 1, "/echo");
    p[0].then = condemn_then;
    start_all(t, p + 1, 2, "/hang");
    ok(wait_for(&g, &p[1].dones, 1) && wait_for(&g, &p[2].dones, 1), "condemned from inside on_done");
    finish_all(p, 3);

    http_condemn(t);
    http_condemn(t);
    is_int(fetch_class(t, "/echo"), 0, "condemning an idle transport changes nothing");

    start_all(t, p, 3, "/hang");
    turn_for(&g, 50);
    transport_free(t);
    ok(p[0].dones == 0 && p[0].req.impl == NULL, "freed with requests in flight: they are forgotten");
    finish_all(p, 3);
}

// Over HTTP/1.1 each request needs its own connection, also when TLS could have given one for all.
static void test_own_connections(void)
{
    struct transport *t = secure("https");
    struct probe p[4];

    start_all(t, p, 4, "/begin");
    wait_bodies(p, 4);
    for (size_t i = 0; i < 4; i++)
        is_str(buf_str(&p[i].body), "{}", "HTTP/1.1 over TLS: request %d does not wait for the others", (int)i);
    transport_free(t);
    finish_all(p, 4);
}

// A server that takes connections and says nothing: who waits for a shared connection fails with the one that makes it.
static void test_mute_server(void)
{
    struct http_conf c = { .base_url = url_of("https", "mute"), .ca_pem = g.ca, .connect_timeout_ms = 1000 };
    struct transport *t = connect_to(&c);
    struct probe p[8];

    start_all(t, p, 8, "/watch");
    for (size_t i = 0; i < 8; i++) {
        wait_for(&g, &p[i].dones, 1);
        is_int(p[i].err.cls, E_OFFLINE, "no handshake: %s", p[i].err.msg);
        has_str(p[i].err.msg, "says nothing", "told as what it is");
    }
    transport_free(t);
    finish_all(p, 8);
}

// Everything at once and from everywhere: submit, cancel and condemn from outside, from on_body and from on_done, by a seed. Each
// submit ends exactly once: by on_done, or by the cancel that took it back.
enum { CHURNERS = 12 };
static struct {
    struct probe p[CHURNERS];
    bool busy[CHURNERS];
    struct transport *t;
    uint64_t seed;
    int submits, ends, cancels, condemned;
} churn;

static unsigned dice(unsigned n)
{
    churn.seed = churn.seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(churn.seed >> 33) % n;
}

static void churn_submit(size_t i)
{
    static const char *const urls[] = { "/echo", "/short-chunks", "/begin", "/hang", "/close", "/status/500", "/reset", "/echo" };
    struct http_req *r = &churn.p[i].req;

    if (churn.busy[i])
        return;
    snprintf(r->url, sizeof r->url, "%s", urls[dice(ARRAY_LEN(urls))]);
    buf_reset(&churn.p[i].body);
    churn.busy[i] = http_submit(churn.t, r, NULL) == 0;
    churn.submits += churn.busy[i];
}

static void churn_cancel(size_t i)
{
    http_cancel(churn.t, &churn.p[i].req);
    churn.cancels += churn.busy[i];
    churn.busy[i] = false;
}

static void churn_step(void)
{
    size_t i = dice(CHURNERS);

    switch (dice(20)) {
    case 0:
        http_condemn(churn.t);
        churn.condemned++;
        break;
    case 1:
    case 2:
    case 3:
        churn_cancel(i);
        break;
    default:
        churn_submit(i);
    }
}

static int churn_chunk(struct probe *p UNUSED)
{
    if (dice(3) == 0)
        churn_step();
    return dice(10) == 0;
}

static void churn_end(struct probe *p)
{
    size_t i = (size_t)(p - churn.p);

    if (!churn.busy[i])
        fail("request %d ends without having been submitted", (int)i);
    churn.busy[i] = false;
    churn.ends++;
    if (dice(2) == 0)
        churn_step();
}

static void test_churn(void)
{
    churn.t = plain("http");
    churn.seed = clock_rand64(&g.clock.clock);
    diag("seed %" PRIu64, churn.seed);
    for (size_t i = 0; i < CHURNERS; i++) {
        probe_init(&churn.p[i], "GET", "/");
        churn.p[i].then = churn_end;
        churn.p[i].chunk = churn_chunk;
        churn.p[i].transport = churn.t;
    }
    for (int i = 0; i < 1500; i++) {
        churn_step();
        if (loop_turn(g.loop, dice(3), NULL) < 0)
            break;
    }
    // Nothing new from now on.
    for (size_t i = 0; i < CHURNERS; i++) {
        churn.p[i].chunk = NULL;
        churn.p[i].then = NULL;
        churn.p[i].dones = 0;
    }
    http_condemn(churn.t);
    turn_for(&g, 200);
    for (size_t i = 0; i < CHURNERS; i++) {
        churn.ends += churn.p[i].dones;
        if (churn.p[i].dones != churn.busy[i] || churn.p[i].req.impl != NULL)
            fail("request %d ended %d times", (int)i, churn.p[i].dones);
        probe_fini(&churn.p[i]);
    }
    is_int(churn.ends + churn.cancels, churn.submits, "each of %d requests ended once: %d told, %d taken back, %d times condemned",
           churn.submits, churn.ends, churn.cancels, churn.condemned);
    transport_free(churn.t);
}

static void test_http2(void)
{
    struct transport *t = secure("h2hold");
    struct probe p[8], q;
    struct http_stats s;

    start_all(t, p, 8, "/watch");
    wait_bodies(p, 8);
    for (size_t i = 1; i < 8; i++)
        is_str(buf_str(&p[i].body), buf_str(&p[0].body), "watch %d shares the first one's connection", (int)i);
    t->ops->stats(t, &s);
    is_int(s.connections, 1, "one connection in all");
    http_condemn(t);
    for (size_t i = 0; i < 8; i++) {
        wait_for(&g, &p[i].dones, 1);
        is_int(p[i].err.cls, E_OFFLINE, "condemned");
    }
    probe_init(&q, "GET", "/watch");
    start(t, &q);
    wait_bodies(&q, 1);
    ok(q.body.len > 0 && strcmp(buf_str(&q.body), buf_str(&p[0].body)) != 0, "the next is on a new connection");
    finish_all(p, 8);
    probe_fini(&q);
    transport_free(t);

    t = secure("h2answer");
    fetch(t, &p[0], "GET", "/a");
    fetch(t, &p[1], "GET", "/b");
    is_str(buf_str(&p[1].body), buf_str(&p[0].body), "a connection is used again");
    probe_init(&p[2], "GET", "/c");
    p[2].req.fresh_connection = true;
    start(t, &p[2]);
    wait_for(&g, &p[2].dones, 1);
    ok(strcmp(buf_str(&p[2].body), buf_str(&p[0].body)) != 0, "unless a fresh one is asked for");
    finish_all(p, 3);
    transport_free(t);

    t = secure("h2cut");
    is_int(fetch_class(t, "/a"), E_CORRUPT, "a stream reset in its body: the answer is not complete");
    transport_free(t);

    t = secure("h2die");
    start_all(t, p, 3, "/watch");
    for (size_t i = 0; i < 3; i++) {
        ok(wait_for(&g, &p[i].dones, 1), "the connection dies under three watches");
        ok(p[i].err.cls == E_CORRUPT || p[i].err.cls == E_OFFLINE, "each hears of it: %s", p[i].err.msg);
        ok(strstr(p[i].err.msg, "0x") == NULL, "in words");
    }
    finish_all(p, 3);
    transport_free(t);
}

static void test_proxy(void)
{
    char proxy[64];
    struct http_conf c = { .ca_pem = g.ca, .proxy = proxy };
    char base[64];

    snprintf(base, sizeof base, "%s", url_of("https", "https"));
    c.base_url = base;
    snprintf(proxy, sizeof proxy, "http://u:pw@127.0.0.1:%d", http_rig_port(&g, "proxy"));
    struct transport *t = connect_to(&c);
    is_int(http_set_bearer(t, "tok", NULL), 0, "with a token");
    struct probe p;
    fetch(t, &p, "GET", "/echo");
    has_str(buf_str(&p.body), "Bearer tok", "through a proxy, which does not see it: %s", p.err.msg);
    probe_fini(&p);
    transport_free(t);

    snprintf(proxy, sizeof proxy, "http://u:secret@127.0.0.1:%d", http_rig_port(&g, "proxy"));
    t = connect_to(&c);
    fetch(t, &p, "GET", "/echo");
    is_int(p.err.cls, E_OFFLINE, "the proxy refuses");
    has_str(p.err.msg, "proxy 127.0.0.1:", "and is named: %s", p.err.msg);
    has_str(p.err.msg, "it wants another user and password", "and why");
    ok(strstr(p.err.msg, "secret") == NULL, "its password is not in the message: %s", p.err.msg);
    probe_fini(&p);
    transport_free(t);

    struct http_look look;
    c.proxy_auth = "u:pw";
    t = connect_to(&c);
    is_int(fetch_class(t, "/echo"), 0, "the credential that is given apart wins over the URL's");
    http_look(t, &look);
    is_int(look.proxy, HTTP_PROXY_GOOD, "the proxy was good");
    transport_free(t);
    c.proxy_auth = NULL;
    snprintf(proxy, sizeof proxy, "http://127.0.0.1:%d", http_rig_port(&g, "closed"));
    t = connect_to(&c);
    fetch(t, &p, "GET", "/echo");
    http_look(t, &look);
    has_str(p.err.msg, "proxy 127.0.0.1:", "a proxy that is not there is named: %s", p.err.msg);
    is_int(look.proxy, HTTP_PROXY_AWAY, "as away");
    probe_fini(&p);
    transport_free(t);
    c.connect_timeout_ms = 500;
    snprintf(proxy, sizeof proxy, "http://127.0.0.1:%d", http_rig_port(&g, "mute"));
    t = connect_to(&c);
    fetch(t, &p, "GET", "/echo");
    http_look(t, &look);
    is_int(look.proxy, HTTP_PROXY_MUTE, "one that says nothing is mute: %s", p.err.msg);
    probe_fini(&p);
    transport_free(t);
    c.connect_timeout_ms = 0;

    c.no_proxy = "127.0.0.1";
    t = connect_to(&c);
    is_int(fetch_class(t, "/echo"), 0, "no_proxy goes around it");
    http_look(t, &look);
    is_int(look.proxy, HTTP_PROXY_NONE, "and it was not used");
    transport_free(t);

    // The certificate is for another name than the host's: it is the host that the list speaks of.
    static const struct {
        const char *list;
        enum http_proxy used;
    } lists[] = { { "api.example", HTTP_PROXY_AWAY }, { "127.0.0.1", HTTP_PROXY_NONE }, { "x, .0.0.1", HTTP_PROXY_NONE },
                  { "7.0.0.1", HTTP_PROXY_AWAY },     { "*", HTTP_PROXY_NONE },         { ",", HTTP_PROXY_AWAY } };
    c.server_name = "api.example";
    snprintf(proxy, sizeof proxy, "http://127.0.0.1:%d", http_rig_port(&g, "closed"));
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        c.no_proxy = lists[i].list;
        t = connect_to(&c);
        fetch(t, &p, "GET", "/echo");
        http_look(t, &look);
        is_int(look.proxy, lists[i].used, "with tlsServerName, no proxy for \"%s\"", lists[i].list);
        probe_fini(&p);
        transport_free(t);
    }
    c.server_name = NULL;

    struct err e = ERR_INIT;
    c.proxy = "socks5://u:secret@x:1";
    is_int(http_new(&t, g.loop, &c, &e), E_UNSUP, "another kind of proxy is refused");
    ok(strstr(e.msg, "secret") == NULL, "without repeating its password");

    setenv("https_proxy", "http://127.0.0.1:1", 1);
    setenv("ALL_PROXY", "http://127.0.0.1:1", 1);
    t = secure("https");
    is_int(fetch_class(t, "/echo"), 0, "the environment's proxy is ignored");
    transport_free(t);
    unsetenv("https_proxy");
    unsetenv("ALL_PROXY");
}

static void fetch_by(const struct http_conf *c, struct probe *p, struct http_look *look)
{
    struct transport *t = connect_to(c);

    is_int(http_set_bearer(t, "tok", NULL), 0, "with a token");
    fetch(t, p, "GET", "/echo");
    http_look(t, look);
    transport_free(t);
}

// TLS to the proxy, judged by its own authority, and the server's inside.
static void test_tls_proxy(void)
{
    char proxy[64], base[64], none[64];
    struct http_conf c = { .base_url = base,
                           .ca_pem = g.ca,
                           .cert_pem = g.client_cert,
                           .key_pem = g.client_key,
                           .proxy = proxy,
                           .proxy_auth = "u:pw",
                           .proxy_ca_pem = g.other_ca };
    struct http_look look;
    struct probe p;

    snprintf(base, sizeof base, "%s", url_of("https", "https"));
    snprintf(proxy, sizeof proxy, "https://127.0.0.1:%d", http_rig_port(&g, "tlsproxy"));
    fetch_by(&c, &p, &look);
    has_str(buf_str(&p.body), "Bearer tok", "through a TLS proxy, which sees neither token nor client certificate: %s", p.err.msg);
    is_int(look.proxy, HTTP_PROXY_GOOD, "it was good");
    probe_fini(&p);

    snprintf(base, sizeof base, "%s", url_of("https", "h2answer"));
    fetch_by(&c, &p, &look);
    is_int(p.err.cls, 0, "HTTP/2 inside: %s", p.err.msg);
    probe_fini(&p);
    snprintf(base, sizeof base, "%s", url_of("https", "elsewhere"));
    fetch_by(&c, &p, &look);
    is_int(p.err.cls, E_AUTH, "the server inside is judged as ever: %s", p.err.msg);
    is_int(look.proxy, HTTP_PROXY_GOOD, "and it is not the proxy");
    probe_fini(&p);
    snprintf(base, sizeof base, "%s", url_of("https", "https"));

    c.proxy_ca_pem = NULL;
    c.any_date = true;
    fetch_by(&c, &p, &look);
    is_int(p.err.cls, E_OFFLINE, "by another authority: refused");
    has_str(p.err.msg, "does not prove who it is", "in words: %s", p.err.msg);
    ok(look.proxy == HTTP_PROXY_STRANGER && look.untrusted, "a stranger");
    has_str(look.issuer, "CN=other", "whose authority is named");
    probe_fini(&p);
    c.pin_only_hash = true;
    c.extra_ca_pem = g.ca;
    fetch_by(&c, &p, &look);
    is_int(look.proxy, HTTP_PROXY_STRANGER, "nor while any server is accepted, for it gets the password");
    probe_fini(&p);
    c.pin_only_hash = c.any_date = false;
    c.extra_ca_pem = g.other_ca;
    fetch_by(&c, &p, &look);
    is_int(p.err.cls, 0, "without one of its own the extra authority will do: %s", p.err.msg);
    probe_fini(&p);

    g.clock.clock.floor_us = clock_wall_us(&g.clock.clock) - INT64_C(86400000000) * 365 * 20;
    g.clock.wall_shift_us = -INT64_C(86400000000) * 365 * 30;
    g.clock.synced = false;
    fetch_by(&c, &p, &look);
    is_int(p.err.cls, 0, "not yet valid, by a clock that is not trusted: it is the way to the time: %s", p.err.msg);
    probe_fini(&p);
    g.clock.wall_shift_us = 0;
    g.clock.synced = true;
    g.clock.clock.floor_us = 0;

    snprintf(none, sizeof none, "https://localhost:%d", http_rig_port(&g, "tlsproxy"));
    c.proxy = none;
    fetch_by(&c, &p, &look);
    ok(look.proxy == HTTP_PROXY_STRANGER && look.other_name, "by another name: refused: %s", p.err.msg);
    probe_fini(&p);
    snprintf(none, sizeof none, "https://127.0.0.1:%d", http_rig_port(&g, "proxy"));
    fetch_by(&c, &p, &look);
    ok(look.proxy == HTTP_PROXY_NO_TLS || look.proxy == HTTP_PROXY_MUTE, "one that does not speak TLS: %s", p.err.msg);
    probe_fini(&p);

    struct err e = ERR_INIT;
    struct transport *t;
    c = (struct http_conf){ .base_url = base, .proxy = proxy, .pin_only_hash = true };
    is_int(http_new(&t, g.loop, &c, &e), E_INVAL, "nothing to judge it by");
    has_str(e.msg, "[server] proxyCA", "with the remedy: %s", e.msg);
}

// An authority beside the pinned one is as good, except for a certificate that is not yet valid.
static void test_extra_ca(void)
{
    struct http_conf c = { .ca_pem = g.other_ca, .extra_ca_pem = g.ca };
    char base[64];
    struct err e = ERR_INIT;
    struct transport *t;

    snprintf(base, sizeof base, "%s", url_of("https", "https"));
    c.base_url = base;
    t = connect_to(&c);
    is_int(fetch_class(t, "/echo"), 0, "issued by the extra authority: accepted");
    is_int(http_set_identity(t, g.other_ca, NULL, NULL, &e), 0, "the same identity");
    transport_free(t);
    g.clock.clock.floor_us = clock_wall_us(&g.clock.clock) - INT64_C(86400000000) * 365 * 20;
    g.clock.wall_shift_us = -INT64_C(86400000000) * 365 * 30;
    g.clock.synced = false;
    t = connect_to(&c);
    ok(!clock_trusted(&g.clock.clock), "the clock is not trusted");
    is_int(fetch_class(t, "/echo"), E_AUTH, "field 23: not yet valid, by the extra authority: refused");
    transport_free(t);
    c.ca_pem = g.ca;
    c.extra_ca_pem = g.other_ca;
    t = connect_to(&c);
    is_int(fetch_class(t, "/echo"), 0, "by the pinned one, with an extra one beside it: accepted");
    transport_free(t);
    g.clock.wall_shift_us = 0;
    g.clock.synced = true;
    g.clock.clock.floor_us = 0;
    c.extra_ca_pem = "nonsense";
    is_int(http_new(&t, g.loop, &c, &e), E_INVAL, "what is no certificate is refused: %s", e.msg);
}

// A token in the clear stays on the machine.
static void test_plain_http(void)
{
    static const struct {
        const char *url;
        int cls;
    } cases[] = { { "http://127.0.0.1:1", 0 },
                  { "http://[::1]:1", 0 },
                  { "http://localhost:1", 0 },
                  { "http://192.0.2.1:1", E_INVAL },
                  { "http://127.example:1", E_INVAL },
                  { "http://127.0.0.1.example:1", E_INVAL },
                  { "http://h:1", E_INVAL } };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct transport *t = NULL;
        struct err e = ERR_INIT;
        struct http_conf c = { .base_url = cases[i].url };
        if (!is_int(http_new(&t, g.loop, &c, &e), 0, "%s: %s", cases[i].url, e.msg))
            continue;
        is_int(http_set_bearer(t, "token", &e), cases[i].cls, "%s: a token %s", cases[i].url, e.cls != 0 ? e.msg : "is sent");
        transport_free(t);
    }
}

static void test_base_urls(void)
{
    static const struct {
        const char *url;
        int cls;
        const char *base;
    } cases[] = {
        { "https://h:6443", 0, "https://h:6443" },
        { "https://h:6443/", 0, "https://h:6443" },
        { "https://h/k8s/clusters/c-1/", 0, "https://h:443/k8s/clusters/c-1" },
        { "https://[fd00::1]:6443", 0, "https://[fd00::1]:6443" },
        { "http://127.0.0.1:10550", 0, "http://127.0.0.1:10550" },
        { "https://user:pass@h", E_INVAL, NULL },
        { "https://h/?a=b", E_INVAL, NULL },
        { "https://h/#f", E_INVAL, NULL },
        { "ftp://h", E_INVAL, NULL },
        { "h:6443", E_INVAL, NULL },
        { "", E_INVAL, NULL },
        { "https://", E_INVAL, NULL },
        { "https://h:99999", E_INVAL, NULL },
        { "https://h h", E_INVAL, NULL },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct http_endpoint at = { 0 };
        struct err e = ERR_INIT;
        is_int(http_endpoint_init(&at, &(struct http_conf){ .base_url = cases[i].url }, &e), cases[i].cls, "\"%s\": %s", cases[i].url,
               e.msg);
        if (cases[i].base != NULL)
            is_str(at.base, cases[i].base, "its base");
        http_endpoint_fini(&at);
    }
    struct http_endpoint at = { 0 };
    struct err e = ERR_INIT;
    struct http_conf c = { .base_url = "https://[fd00::1]:6443/p", .server_name = "api.example" };
    is_int(http_endpoint_init(&at, &c, &e), 0, "a detour to an IPv6 address: %s", e.msg);
    is_str(at.base, "https://api.example:6443/p", "asks for the name");
    is_str(at.connect_to->data, "api.example:6443:[fd00::1]:6443", "and goes to the address");
    http_endpoint_fini(&at);
    c.server_name = "api.example:evil";
    is_int(http_endpoint_init(&at, &c, &e), E_INVAL, "a name that is none");
    http_endpoint_fini(&at);
}

static void test_ranges(void)
{
    struct transport *t = plain("http");
    struct probe p;
    char location[HTTP_URL_MAX] = "old";

    probe_init(&p, "GET", "/range");
    p.req.range_from = 7;
    p.req.if_range = "\"v1\"";
    start(t, &p);
    wait_for(&g, &p.dones, 1);
    is_int(p.req.head.status, 206, "a part is asked for");
    is_str(buf_str(&p.body), "bytes=7- \"v1\" -", "from there on, and while it is the same");
    is_str(p.req.head.etag, "\"v1\"", "its ETag");
    ok(p.req.head.has_range && p.req.head.range_from == 7 && p.req.head.has_length, "where it begins, and how long it is");
    is_int(p.req.head.range_total, 7 + (int64_t)p.body.len, "and the whole");
    probe_fini(&p);
    probe_init(&p, "GET", "/moved");
    p.req.location = location;
    start(t, &p);
    wait_for(&g, &p.dones, 1);
    is_int(p.req.head.status, 302, "a redirect is an answer, and is not followed");
    is_str(location, "https://elsewhere.example/x", "where it leads is told");
    probe_fini(&p);
    transport_free(t);
}

int main(void)
{
    if (!http_rig_start(&g)) {
        fail("the test servers start");
        return done_testing();
    }
    test_plain_http();
    test_base_urls();
    test_exchange();
    test_ranges();
    test_limits_of_submit();
    test_faults();
    test_time_limits();
    test_callbacks();
    test_tls();
    test_certificate_times();
    test_look();
    test_condemn();
    test_own_connections();
    test_mute_server();
    test_churn();
    if (OPT_HTTP2) // built without it, each watch is a connection of its own
        test_http2();
    test_proxy();
    test_tls_proxy();
    test_extra_ca();
    http_rig_stop(&g);
    return done_testing();
}
