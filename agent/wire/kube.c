// SPDX-License-Identifier: Apache-2.0
#include "wire/kube.h"

#include <stdio.h>
#include <string.h>

enum {
    WATCH_GRACE_MS = 30000, // how much later than asked for a watch may end
    LIST_TOTAL_MS = 600000,
    LIST_IDLE_MS = 30000,
};

// --- an answer in parts ----------------------------------------------------------------------------------------------------------

static struct kube_call *call_of(struct http_req *r)
{
    return container_of(r, struct kube_call, http);
}

static bool is_success(int status)
{
    return status >= 200 && status <= 299;
}

static bool is_streamed(const struct kube_call *c)
{
    return c->on_chunk != NULL && c->http.head.status == 200;
}

static int on_head(struct http_req *r, const struct http_head *h)
{
    struct kube_call *c = call_of(r);

    if (h->verified && h->date_sec != 0 && c->kube->clock != NULL)
        clock_server_date(c->kube->clock, h->date_sec);
    return 0;
}

// Some page instead of the API's answer: a captive portal, a proxy's login.
static int not_the_api(struct kube_call *c)
{
    const struct http_head *h = &c->http.head;
    int cls = err_set(&c->err, E_OFFLINE, "something between here and the API server answered instead of it (%s, status %d)",
                      h->content_type[0] != '\0' ? h->content_type : "no content type", h->status);

    c->err.http = h->status;
    return cls;
}

// Looks at the first byte that is no space; nothing else is checked here, the reader parses.
static bool begins_as_json(const char *p, size_t n)
{
    while (n > 0 && (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n')) {
        p++;
        n--;
    }
    return n == 0 || *p == '{';
}

static int take_failure(struct kube_call *c, const void *p, size_t n)
{
    size_t room = c->answer.len < KUBE_FAILURE_MAX ? KUBE_FAILURE_MAX - c->answer.len : 0;

    return buf_add(&c->answer, p, MIN(n, room), &c->err);
}

static int on_body(struct http_req *r, const void *p, size_t n)
{
    struct kube_call *c = call_of(r);

    if (!is_success(r->head.status))
        return take_failure(c, p, n);
    if (!c->any_body && !c->begun) {
        if (!begins_as_json(p, n))
            return not_the_api(c);
        c->begun = true;
    }
    if (is_streamed(c))
        return c->on_chunk(c, p, n);
    return buf_add(&c->answer, p, n, &c->err);
}

// --- its end ---------------------------------------------------------------------------------------------------------------------

static int judge(struct kube_call *c)
{
    const struct http_head *h = &c->http.head;

    if (!is_success(h->status))
        return kube_classify(h->status, h, buf_str(&c->answer), c->answer.len, &c->err);
    // Nothing at all is a normal end of a watch and nothing else.
    if (!c->any_body && !c->begun && !is_streamed(c))
        return not_the_api(c);
    return 0;
}

static void end(struct kube_call *c)
{
    c->active = false;
    c->http.total_timeout_ms = c->asked_total_ms;
    c->http.idle_timeout_ms = c->asked_idle_ms;
}

static bool is_count_of(const struct kube_count *x, const char *method, int status)
{
    return x->n == 0 || (x->status == status && strcmp(x->method, method) == 0);
}

static void count(struct kube *k, const char *method, int status)
{
    struct kube_count *x = k->counts, *last = &k->counts[KUBE_COUNTS - 1];
    while (x < last && !is_count_of(x, method, status))
        x++;
    if (x->n++ > 0)
        return;
    snprintf(x->method, sizeof(x->method), "%s", x == last ? "other" : method);
    x->status = x == last ? 0 : status;
}

static void on_http_done(struct http_req *r, const struct err *e)
{
    struct kube_call *c = call_of(r);

    count(c->kube, r->method, r->head.status);
    if (c->err.cls == 0 && e != NULL)
        c->err = *e;
    else if (c->err.cls == 0)
        judge(c);
    if (c->err.cls != 0)
        err_wrap(&c->err, "%s %.*s", r->method, (int)strcspn(r->url, "?"), r->url);
    end(c);
    if (c->on_done == NULL)
        return;
    struct err err = c->err; // the call may be started again inside
    c->on_done(c, err.cls != 0 ? &err : NULL);
}

// --- starting --------------------------------------------------------------------------------------------------------------------

void kube_call_init(struct kube_call *c, struct kube *k)
{
    *c = (struct kube_call){ .kube = k };
    buf_init(&c->answer, KUBE_ANSWER_MAX);
    buf_init(&c->body, KUBE_ANSWER_MAX);
}

void kube_call_cancel(struct kube_call *c)
{
    if (!c->active)
        return;
    http_cancel(c->kube->transport, &c->http);
    end(c);
}

void kube_call_fini(struct kube_call *c)
{
    kube_call_cancel(c);
    buf_wipe(&c->answer); // tokens and Secrets pass here
    buf_wipe(&c->body);
}

static int begin(struct kube_call *c, struct err *e)
{
    if (c->active)
        return err_set(e, E_BUSY, "the call is under way");
    c->http.content_type = NULL;
    c->any_body = false;
    buf_reset(&c->body);
    return 0;
}

static int submit(struct kube_call *c, const char *method, int64_t total_ms, int64_t idle_ms, struct err *e)
{
    struct http_req *r = &c->http;

    r->method = method;
    r->body = c->body.data;
    r->body_len = c->body.len;
    c->asked_total_ms = r->total_timeout_ms;
    c->asked_idle_ms = r->idle_timeout_ms;
    if (r->total_timeout_ms == 0)
        r->total_timeout_ms = total_ms;
    if (r->idle_timeout_ms == 0)
        r->idle_timeout_ms = idle_ms;
    r->on_head = on_head;
    r->on_body = on_body;
    r->on_done = on_http_done;
    c->err = ERR_INIT;
    c->begun = false;
    buf_reset(&c->answer);
    int rc = http_submit(c->kube->transport, r, e);
    c->active = true;
    if (rc < 0)
        end(c);
    return rc;
}

static int set_body(struct kube_call *c, const char *content_type, const char *body, size_t len, struct err *e)
{
    c->http.content_type = content_type;
    return buf_add(&c->body, body, len, e);
}

// --- paths -----------------------------------------------------------------------------------------------------------------------

static int put_url(char url[HTTP_URL_MAX], const struct buf *b)
{
    memcpy(url, buf_str(b), b->len + 1);
    return 0;
}

static int add_segment(struct buf *b, const char *s, struct err *e)
{
    if (*s == '\0' || strcmp(s, ".") == 0 || strcmp(s, "..") == 0)
        return err_set(e, E_INVAL, "\"%s\" cannot be a part of a path", s);
    int rc = buf_add(b, "/", 1, e);
    return rc == 0 ? http_escape(b, s, e) : rc;
}

static int build_path(struct buf *b, const struct kube_type *t, const char *ns, const char *name, const char *sub, struct err *e)
{
    const char *parts[] = { *t->group != '\0' ? "apis" : "api",
                            *t->group != '\0' ? t->group : NULL,
                            t->version,
                            ns != NULL ? "namespaces" : NULL,
                            ns,
                            t->plural,
                            name,
                            sub };

    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        int rc = parts[i] != NULL ? add_segment(b, parts[i], e) : 0;
        if (rc < 0)
            return rc;
    }
    return 0;
}

int kube_path(char url[HTTP_URL_MAX], const struct kube_type *t, const char *ns, const char *name, const char *sub, struct err *e)
{
    AUTO_BUF struct buf b = BUF_INIT(HTTP_URL_MAX - 1);
    int rc = build_path(&b, t, ns, name, sub, e);

    return rc == 0 ? put_url(url, &b) : err_wrap(e, "path of %s", t->plural);
}

// Parameters are joined by '&' after the first, which follows '?'.
static int add_param(struct buf *b, const char *key, const char *value, struct err *e)
{
    if (value == NULL)
        return 0;
    int rc = buf_addf(b, e, "%c%s=", memchr(buf_str(b), '?', b->len) != NULL ? '&' : '?', key);
    return rc == 0 ? http_escape(b, value, e) : rc;
}

static int add_number(struct buf *b, const char *key, int value, struct err *e)
{
    char text[16];

    snprintf(text, sizeof text, "%d", value);
    return add_param(b, key, value > 0 ? text : NULL, e);
}

static int add_list_opts(struct buf *b, const struct kube_list_opts *o, struct err *e)
{
    // A first list that is streamed names its resourceVersion even when it is "any".
    const char *rv = o->resource_version == NULL && o->initial_events ? "" : o->resource_version;
    const struct {
        const char *key, *value;
    } params[] = {
        { "watch", o->watch ? "1" : NULL },
        { "allowWatchBookmarks", o->bookmarks ? "true" : NULL },
        { "sendInitialEvents", o->initial_events ? "true" : NULL },
        { "resourceVersionMatch", o->initial_events ? "NotOlderThan" : NULL },
        { "resourceVersion", rv },
        { "continue", o->continue_token },
        { "fieldSelector", o->field_selector },
        { "labelSelector", o->label_selector },
    };
    int rc = 0;

    for (size_t i = 0; i < ARRAY_LEN(params) && rc == 0; i++)
        rc = add_param(b, params[i].key, params[i].value, e);
    if (rc == 0)
        rc = add_number(b, "limit", o->limit, e);
    return rc == 0 ? add_number(b, "timeoutSeconds", o->timeout_s, e) : rc;
}

// --- the verbs -------------------------------------------------------------------------------------------------------------------

int kube_get(struct kube_call *c, const struct kube_type *t, const char *ns, const char *name, struct err *e)
{
    int rc = begin(c, e);

    if (rc == 0)
        rc = kube_path(c->http.url, t, ns, name, NULL, e);
    return rc == 0 ? submit(c, "GET", KUBE_TIMEOUT_MS, 0, e) : rc;
}

int kube_list(struct kube_call *c, const struct kube_type *t, const char *ns, const struct kube_list_opts *o, struct err *e)
{
    AUTO_BUF struct buf url = BUF_INIT(HTTP_URL_MAX - 1);
    int rc = begin(c, e);

    if (rc == 0)
        rc = build_path(&url, t, ns, NULL, NULL, e);
    if (rc == 0)
        rc = add_list_opts(&url, o, e);
    if (rc < 0)
        return rc;
    put_url(c->http.url, &url);
    if (o->watch)
        return submit(c, "GET", o->timeout_s > 0 ? o->timeout_s * INT64_C(1000) + WATCH_GRACE_MS : 0, 0, e);
    if (c->on_chunk != NULL)
        return submit(c, "GET", LIST_TOTAL_MS, LIST_IDLE_MS, e);
    return submit(c, "GET", KUBE_TIMEOUT_MS, 0, e);
}

int kube_patch(struct kube_call *c, enum kube_patch how, const struct kube_type *t, const char *ns, const char *name, const char *sub,
               const char *body, size_t len, struct err *e)
{
    static const char *const types[] = {
        [KUBE_MERGE] = "application/merge-patch+json",
        [KUBE_APPLY] = "application/apply-patch+yaml",
        [KUBE_JSON] = "application/json-patch+json",
    };
    AUTO_BUF struct buf url = BUF_INIT(HTTP_URL_MAX - 1);
    int rc = begin(c, e);

    if (rc == 0)
        rc = build_path(&url, t, ns, name, sub, e);
    if (rc == 0 && how == KUBE_APPLY)
        rc = buf_adds(&url, "?fieldManager=limpet&force=true", e);
    if (rc == 0)
        rc = set_body(c, types[how], body, len, e);
    if (rc < 0)
        return rc;
    put_url(c->http.url, &url);
    return submit(c, "PATCH", KUBE_TIMEOUT_MS, 0, e);
}

int kube_create(struct kube_call *c, const struct kube_type *t, const char *ns, const char *name_for_sub, const char *sub, const char *body,
                size_t len, struct err *e)
{
    int rc = begin(c, e);

    if (rc == 0)
        rc = kube_path(c->http.url, t, ns, name_for_sub, sub, e);
    if (rc == 0)
        rc = set_body(c, "application/json", body, len, e);
    return rc == 0 ? submit(c, "POST", KUBE_TIMEOUT_MS, 0, e) : rc;
}

int kube_delete(struct kube_call *c, const struct kube_type *t, const char *ns, const char *name, struct err *e)
{
    int rc = begin(c, e);

    if (rc == 0)
        rc = kube_path(c->http.url, t, ns, name, NULL, e);
    return rc == 0 ? submit(c, "DELETE", KUBE_TIMEOUT_MS, 0, e) : rc;
}

int kube_raw(struct kube_call *c, const char *method, const char *path, const char *content_type, const char *body, size_t len,
             struct err *e)
{
    int rc = begin(c, e);

    if (rc < 0)
        return rc;
    if ((size_t)snprintf(c->http.url, HTTP_URL_MAX, "%s", path) >= HTTP_URL_MAX)
        return err_set(e, E_TOOBIG, "path: longer than %d bytes", HTTP_URL_MAX - 1);
    c->any_body = true;
    if (content_type != NULL)
        rc = set_body(c, content_type, body, len, e);
    return rc == 0 ? submit(c, method, KUBE_TIMEOUT_MS, 0, e) : rc;
}

int kube_wait(struct loop *l, struct kube_call *c, struct err *e)
{
    while (c->active) {
        int rc = loop_turn(l, -1, e);
        if (rc < 0)
            return rc;
    }
    if (c->err.cls != 0 && e != NULL)
        *e = c->err;
    return c->err.cls;
}
