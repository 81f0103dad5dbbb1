// SPDX-License-Identifier: Apache-2.0
// The REST calls on a transport that only notes what it is given and answers what the test says.
#include "wire/kube.c"
#include "wire/kube_status.c"

#include "fake_clock.h"
#include "tap.h"

struct fake_transport {
    struct transport base;
    struct http_req *req; // under way
    int submits, cancels;
    int fail;
};

static struct fake_transport net;
static struct fake_clock fc;
static struct kube k;

static int fake_submit(struct transport *t UNUSED, struct http_req *r, struct err *e)
{
    if (net.fail != 0)
        return err_set(e, net.fail, "no");
    net.req = r;
    net.submits++;
    return 0;
}

static void fake_cancel(struct transport *t UNUSED, struct http_req *r UNUSED)
{
    net.req = NULL;
    net.cancels++;
}

static const struct transport_ops fake_ops = { .submit = fake_submit, .cancel = fake_cancel };

// Answers what is under way: 1 = the call took all of it, 0 = it stopped.
static int answer(int status, const char *type, const char *const *chunks)
{
    struct http_req *r = net.req;
    struct err e = ERR_INIT;

    r->head = (struct http_head){ .status = status };
    snprintf(r->head.content_type, sizeof r->head.content_type, "%s", type);
    int rc = r->on_head != NULL ? r->on_head(r, &r->head) : 0;
    for (size_t i = 0; rc == 0 && chunks[i] != NULL; i++)
        rc = r->on_body(r, chunks[i], strlen(chunks[i]));
    if (rc != 0)
        err_set(&e, E_CANCELED, "stopped by the receiver");
    r->on_done(r, rc != 0 ? &e : NULL);
    return rc == 0;
}

static int answer_one(int status, const char *body)
{
    return answer(status, "application/json", (const char *const[]){ body, NULL });
}

static int dones;
static struct err last;
static struct buf streamed = BUF_INIT(1 << 20);

static void note_done(struct kube_call *c UNUSED, struct err *e)
{
    dones++;
    last = e != NULL ? *e : ERR_INIT;
}

static int note_chunk(struct kube_call *c UNUSED, const void *p, size_t n)
{
    return buf_add(&streamed, p, n, NULL);
}

static const struct kube_type pods = { "", "v1", "pods" };
static const struct kube_type apps = { "edge.limpet.dev", "v1alpha1", "edgeapps" };

static void set_up(struct kube_call *c)
{
    fake_clock_init(&fc, 1);
    net = (struct fake_transport){ .base.ops = &fake_ops };
    k = (struct kube){ .transport = &net.base, .clock = &fc.clock };
    kube_call_init(c, &k);
    c->on_done = note_done;
    dones = 0;
    buf_reset(&streamed);
}

static void get(struct kube_call *c)
{
    if (kube_get(c, &pods, "n", "p", NULL) < 0)
        abort();
}

static void test_paths(void)
{
    static const struct {
        const struct kube_type *t;
        const char *ns, *name, *sub, *url;
    } cases[] = {
        { &pods, NULL, NULL, NULL, "/api/v1/pods" },
        { &pods, "n", "p", NULL, "/api/v1/namespaces/n/pods/p" },
        { &apps, "edge-a", "x.y", "status", "/apis/edge.limpet.dev/v1alpha1/namespaces/edge-a/edgeapps/x.y/status" },
        { &apps, NULL, "a b/c?d#e%", NULL, "/apis/edge.limpet.dev/v1alpha1/edgeapps/a%20b%2Fc%3Fd%23e%25" },
        { &apps, "..", "x", NULL, NULL },
        { &apps, "n", "", NULL, NULL },
        { &apps, "n", ".", NULL, NULL },
    };
    char url[HTTP_URL_MAX], longest[HTTP_URL_MAX + 1];
    struct err e = ERR_INIT;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int rc = kube_path(url, cases[i].t, cases[i].ns, cases[i].name, cases[i].sub, &e);
        is_str(rc == 0 ? url : NULL, cases[i].url, "path %d", (int)i);
    }
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    is_int(kube_path(url, &apps, "n", longest, NULL, &e), E_TOOBIG, "a name without end");
}

static void test_list_urls(void)
{
    static const struct {
        struct kube_list_opts o;
        const char *query;
        int64_t total_ms;
    } cases[] = {
        { { 0 }, "", 30000 },
        { { .limit = 50, .continue_token = "a+b/c=" }, "?continue=a%2Bb%2Fc%3D&limit=50", 30000 },
        { { .watch = true, .bookmarks = true, .resource_version = "12", .timeout_s = 300 },
          "?watch=1&allowWatchBookmarks=true&resourceVersion=12&timeoutSeconds=300",
          330000 },
        { { .watch = true, .bookmarks = true, .initial_events = true },
          "?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=",
          0 },
        { { .field_selector = "spec.nodeName=a,metadata.name!=b", .label_selector = "x in (y, z)" },
          "?fieldSelector=spec.nodeName%3Da%2Cmetadata.name%21%3Db&labelSelector=x%20in%20%28y%2C%20z%29",
          30000 },
    };
    struct kube_call c;

    set_up(&c);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char want[HTTP_URL_MAX];
        snprintf(want, sizeof want, "/apis/edge.limpet.dev/v1alpha1/namespaces/n/edgeapps%s", cases[i].query);
        is_int(kube_list(&c, &apps, "n", &cases[i].o, NULL), 0, "list %d", (int)i);
        is_str(net.req->url, want, "its URL");
        is_int(net.req->total_timeout_ms, cases[i].total_ms, "its time limit");
        kube_call_cancel(&c);
    }
    c.http.total_timeout_ms = 5;
    c.http.idle_timeout_ms = 6;
    is_int(kube_list(&c, &apps, "n", &cases[3].o, NULL), 0, "limits of the caller");
    is_int(net.req->total_timeout_ms, 5, "win");
    is_int(net.req->idle_timeout_ms, 6, "both");
    kube_call_cancel(&c);
    c.http.total_timeout_ms = 0;
    get(&c);
    is_int(net.req->total_timeout_ms, KUBE_TIMEOUT_MS, "and are forgotten when the caller says so");
    answer_one(200, "{}");
    is_int(c.http.total_timeout_ms, 0, "a default is not kept for the next call");
    kube_call_fini(&c);
}

static void test_verbs(void)
{
    struct kube_call c;
    struct err e = ERR_INIT;

    set_up(&c);
    is_int(kube_patch(&c, KUBE_APPLY, &apps, "n", "x", "status", "{}", 2, NULL), 0, "apply");
    is_str(net.req->method, "PATCH", "is a PATCH");
    is_str(net.req->content_type, "application/apply-patch+yaml", "of its type");
    has_str(net.req->url, "/edgeapps/x/status?fieldManager=limpet&force=true", "by our name");
    is_int(net.req->body_len, 2, "with its body");
    is_int(kube_get(&c, &pods, "n", "p", &e), E_BUSY, "a call under way cannot be started");
    kube_call_cancel(&c);
    kube_call_cancel(&c);
    is_int(net.cancels, 1, "canceled once");
    is_int(dones, 0, "without a word");

    is_int(kube_patch(&c, KUBE_MERGE, &apps, "n", "x", NULL, "{}", 2, NULL), 0, "merge");
    is_str(net.req->content_type, "application/merge-patch+json", "its type");
    has_str(net.req->url, "/edgeapps/x", "its path");
    answer_one(200, "{}");
    is_int(kube_patch(&c, KUBE_JSON, &apps, "n", "x", NULL, "[]", 2, NULL), 0, "JSON patch");
    is_str(net.req->content_type, "application/json-patch+json", "its type");
    answer_one(200, "{}");
    is_int(kube_create(&c, &pods, "n", NULL, NULL, "{\"a\":1}", 7, NULL), 0, "create");
    is_str(net.req->method, "POST", "is a POST");
    is_str(net.req->url, "/api/v1/namespaces/n/pods", "on the collection");
    answer_one(201, "{}");
    is_int(last.cls, 0, "201 is a success");
    is_int(kube_delete(&c, &pods, "n", "p", NULL), 0, "delete");
    is_str(net.req->method, "DELETE", "is a DELETE");
    ok(net.req->content_type == NULL && net.req->body_len == 0, "without the body of the call before");
    answer_one(200, "{}");
    is_int(kube_raw(&c, "GET", "/readyz?verbose", NULL, NULL, 0, NULL), 0, "raw");
    is_str(net.req->url, "/readyz?verbose", "any path");
    answer(200, "text/plain", (const char *const[]){ "ok", NULL });
    is_int(last.cls, 0, "any answer");
    is_str(buf_str(&c.answer), "ok", "is kept");
    net.fail = E_NOMEM;
    is_int(kube_get(&c, &pods, "n", "p", &e), E_NOMEM, "a transport that cannot");
    ok(!c.active, "leaves the call free");
    kube_call_fini(&c);
}

// A Status as the API server writes it.
static const char *status(const char *reason, const char *message)
{
    static char text[2000];

    snprintf(text, sizeof text,
             "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"%s\",\"reason\":\"%s\","
             "\"details\":{\"retryAfterSeconds\":3},\"code\":0}",
             message, reason);
    return text;
}

static void test_classes(void)
{
    static const char html[] = "<!DOCTYPE html><html>log in</html>";
    static const struct {
        int status;
        const char *type, *reason, *body; // body NULL = a Status with the reason
        int cls;
    } cases[] = {
        { 400, "application/json", "BadRequest", NULL, E_INVAL },
        { 401, "application/json", "Unauthorized", NULL, E_AUTH },
        { 401, "text/html", "", html, E_AUTH },
        { 403, "application/json", "Forbidden", NULL, E_FORBIDDEN },
        { 403, "text/html", "", html, E_OFFLINE },
        { 404, "application/json", "NotFound", NULL, E_NOTFOUND },
        { 404, "text/plain", "", "404 page not found\n", E_UNSUP },
        { 404, "text/html", "", html, E_OFFLINE },
        { 404, "application/json", "", "", E_OFFLINE },
        { 404, "application/json", "", "{\"kind\":\"Pod\"}", E_OFFLINE },
        { 404, "application/json", "", "{\"kind\":\"Status\",", E_OFFLINE },
        { 405, "application/json", "MethodNotAllowed", NULL, E_UNSUP },
        { 406, "application/json", "NotAcceptable", NULL, E_UNSUP },
        { 407, "text/html", "", html, E_OFFLINE },
        { 408, "application/json", "", NULL, E_TIMEOUT },
        { 409, "application/json", "AlreadyExists", NULL, E_EXISTS },
        { 409, "application/json", "Conflict", NULL, E_CONFLICT },
        { 410, "application/json", "Expired", NULL, E_GONE },
        { 413, "text/html", "", html, E_TOOBIG },
        { 415, "application/json", "UnsupportedMediaType", NULL, E_UNSUP },
        { 422, "application/json", "Invalid", NULL, E_INVAL },
        { 429, "text/plain", "", "Too many requests", E_BUSY },
        { 500, "application/json", "InternalError", NULL, E_SERVER },
        { 502, "text/html", "", html, E_SERVER },
        { 503, "text/plain", "", "", E_BUSY },
        { 504, "application/json", "Timeout", NULL, E_BUSY },
        { 511, "text/html", "", html, E_OFFLINE },
        { 302, "text/html", "", html, E_OFFLINE },
        { 304, "application/json", "", "", E_OFFLINE },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct http_head h = { .status = cases[i].status };
        struct err e = ERR_INIT;
        const char *body = cases[i].body != NULL ? cases[i].body : status(cases[i].reason, "the words of the server");
        snprintf(h.content_type, sizeof h.content_type, "%s", cases[i].type);
        is_int(kube_classify(cases[i].status, &h, body, strlen(body), &e), cases[i].cls, "%d %s %s: %s", cases[i].status, cases[i].type,
               cases[i].reason, e.msg);
        is_int(e.http, cases[i].status, "the status is kept");
        if (cases[i].body == NULL) {
            has_str(e.msg, "the words of the server", "and the words");
            is_int(e.retry_after_ms, 3000, "and how long to wait");
        }
    }
    struct http_head h = { .status = 500, .retry_after_ms = 9000 };
    struct err e = ERR_INIT;
    const char *body = status("", ".status.phase: field not declared in schema");
    is_int(kube_classify(500, &h, body, strlen(body), &e), E_INVAL, "an older CRD: repeating does not help");
    is_int(e.retry_after_ms, 9000, "the header wins over the body");
}

static void test_hostile_status(void)
{
    AUTO_BUF struct buf b = BUF_INIT(1 << 20);
    struct http_head h = { .status = 403 };
    struct err e = ERR_INIT;
    int rc = buf_adds(&b, "{\"kind\":\"Status\",\"message\":\"", NULL);

    for (int i = 0; i < 3000 && rc == 0; i++)
        rc = buf_adds(&b, "x", NULL);
    if (rc == 0)
        rc = buf_adds(&b, "\"}", NULL);
    is_int(rc, 0, "a message of 3,000 characters");
    is_int(kube_classify(403, &h, b.data, b.len, &e), E_FORBIDDEN, "is understood");
    ok(strlen(e.msg) > 100 && strlen(e.msg) < ERR_MSG_MAX, "and shortened");
    buf_reset(&b);
    for (int i = 0; i < 60000 && rc == 0; i++)
        rc = buf_adds(&b, "[", NULL);
    is_int(kube_classify(403, &h, b.data, b.len, &e), E_OFFLINE, "60,000 brackets are no Status");
    is_int(kube_classify(403, &h, "", 0, &e), E_OFFLINE, "nor is nothing");
    is_int(kube_classify(403, &h, "{\"kind\":\"Status\",\"message\":\"\\u0000\",\"reason\":7}", 47, NULL), E_FORBIDDEN,
           "odd members are ignored");
}

static void test_answers(void)
{
    struct kube_call c;

    set_up(&c);
    get(&c);
    answer(200, "application/json", (const char *const[]){ " \n", "{\"kind\":", "\"Pod\"}", NULL });
    is_int(last.cls, 0, "an answer in pieces");
    is_str(buf_str(&c.answer), " \n{\"kind\":\"Pod\"}", "is put together");
    get(&c);
    is_int(answer(200, "text/html", (const char *const[]){ "<html>", "pay here", NULL }), 0, "a portal's page is cut short");
    is_int(last.cls, E_OFFLINE, "and means offline");
    has_str(last.msg, "GET /api/v1/namespaces/n/pods/p", "naming the call");
    is_int(last.http, 200, "and the status");
    get(&c);
    answer(200, "application/json", (const char *const[]){ NULL });
    is_int(last.cls, E_OFFLINE, "200 without anything");
    get(&c);
    answer_one(404, status("NotFound", "pods \\\"p\\\" not found"));
    is_int(last.cls, E_NOTFOUND, "a failure");
    has_str(last.msg, "pods \"p\" not found (404 NotFound)", "in the server's words");
    is_int(dones, 4, "each told once");

    get(&c);
    struct err e = ERR_INIT;
    err_set(&e, E_TIMEOUT, "slow");
    net.req->on_done(net.req, &e);
    is_int(last.cls, E_TIMEOUT, "what the transport says is passed on");
    kube_call_fini(&c);
}

static void test_bounds(void)
{
    struct kube_call c;
    char *big = malloc(KUBE_ANSWER_MAX + 2);

    memset(big, ' ', KUBE_ANSWER_MAX + 1);
    big[0] = '{';
    big[KUBE_ANSWER_MAX + 1] = '\0';
    set_up(&c);
    get(&c);
    answer_one(200, big);
    is_int(last.cls, E_TOOBIG, "an answer over the bound is refused");
    get(&c);
    answer(500, "text/plain", (const char *const[]){ big, big, big, NULL });
    is_int(last.cls, E_SERVER, "a failure of any length is a failure");
    is_int(c.answer.len, KUBE_FAILURE_MAX, "of which little is kept");
    kube_call_fini(&c);
    free(big);
}

static void test_streams(void)
{
    struct kube_call c;
    struct kube_list_opts o = { .watch = true };

    set_up(&c);
    c.on_chunk = note_chunk;
    is_int(kube_list(&c, &apps, "n", &o, NULL), 0, "a watch");
    answer(200, "application/json", (const char *const[]){ "{\"type\":\"ADDED\"", "}\n{}\n", NULL });
    is_int(last.cls, 0, "ends well");
    is_str(buf_str(&streamed), "{\"type\":\"ADDED\"}\n{}\n", "and was handed on as it came");
    is_int(c.answer.len, 0, "and not kept");
    is_int(kube_list(&c, &apps, "n", &o, NULL), 0, "again");
    answer(200, "application/json", (const char *const[]){ NULL });
    is_int(last.cls, 0, "an empty watch is a watch in which nothing happened");
    buf_reset(&streamed);
    is_int(kube_list(&c, &apps, "n", &o, NULL), 0, "again");
    answer_one(410, status("Expired", "too old"));
    is_int(last.cls, E_GONE, "a failure of a watch is classified");
    is_int(streamed.len, 0, "and not handed on");
    is_int(kube_list(&c, &apps, "n", &o, NULL), 0, "again");
    answer(200, "text/html", (const char *const[]){ "<html>", NULL });
    is_int(last.cls, E_OFFLINE, "nor is a page");
    is_int(streamed.len, 0, "not a byte of it");
    kube_call_fini(&c);
}

static void again(struct kube_call *c, struct err *e)
{
    note_done(c, e);
    if (dones == 1)
        get(c);
}

static void test_restart(void)
{
    struct kube_call c;

    set_up(&c);
    c.on_done = again;
    get(&c);
    answer_one(500, "");
    is_int(last.cls, E_SERVER, "the first failed");
    ok(c.active, "and was started again from inside on_done");
    answer_one(200, "{}");
    is_int(dones, 2, "and ended again");
    is_int(last.cls, 0, "well");
    kube_call_fini(&c);
}

static void date_answer(bool verified)
{
    struct kube_call c;

    kube_call_init(&c, &k);
    get(&c);
    net.req->head = (struct http_head){ .status = 200, .date_sec = INT64_C(1800000000), .verified = verified };
    net.req->on_head(net.req, &net.req->head);
    kube_call_fini(&c);
}

static void test_dates(void)
{
    struct kube_call c;

    set_up(&c);
    fc.wall_us = 0;
    fc.synced = false;
    fc.clock.floor_us = INT64_C(1700000000) * 1000000;
    ok(!clock_trusted(&fc.clock), "a clock at 1970 is not trusted");
    date_answer(false);
    ok(!clock_trusted(&fc.clock), "nor after the Date of a server that anybody could be");
    date_answer(true);
    is_int(clock_wall_us(&fc.clock) / 1000000, 1800000000, "a verified server's Date sets it right");
    kube_call_fini(&c);
}

int main(void)
{
    test_paths();
    test_list_urls();
    test_verbs();
    test_classes();
    test_hostile_status();
    test_answers();
    test_bounds();
    test_streams();
    test_restart();
    test_dates();
    buf_fini(&streamed);
    return done_testing();
}
