// SPDX-License-Identifier: Apache-2.0
// What an answer other than 2xx means. Bodies come from whoever answers on that address, so nothing is assumed about them.
#include <string.h>

#include "base/utf8.h"
#include "data/object.h"
#include "wire/kube.h"

enum { MESSAGE_MAX = 300, RETRY_MAX_S = 24 * 3600 };

// The parts of a metav1.Status that matter.
struct status {
    bool real; // the body is a Status
    char reason[64];
    char message[MESSAGE_MAX];
    int64_t retry_after_ms;
};

static int64_t small_number(struct span s, int64_t max)
{
    int64_t v = 0;

    for (size_t i = 0; i < s.n && s.p[i] >= '0' && s.p[i] <= '9' && v <= max; i++)
        v = v * 10 + (s.p[i] - '0');
    return MIN(v, max);
}

// A message longer than `out` is shortened, not dropped: the beginning says what is wrong.
static void text_of(struct span s, char *out, size_t max)
{
    char whole[4096];

    if (!span_string(s, whole, sizeof whole))
        return;
    size_t n = utf8_cut(whole, MIN(strlen(whole), max - 1));
    memcpy(out, whole, n);
    out[n] = '\0';
}

static void status_scan(struct status *st, const char *body, size_t len)
{
    struct object_view v;
    struct span s;

    if (object_scan(&v, body, len, NULL) < 0 || strcmp(v.kind, "Status") != 0)
        return;
    st->real = true;
    if (object_member(body, len, NULL, "reason", &s))
        text_of(s, st->reason, sizeof st->reason);
    if (object_member(body, len, NULL, "message", &s))
        text_of(s, st->message, sizeof st->message);
    if (object_member(body, len, "details", "retryAfterSeconds", &s))
        st->retry_after_ms = small_number(s, RETRY_MAX_S) * 1000;
}

static int class_of_4xx(int status, const struct status *st)
{
    switch (status) {
    case 400:
    case 422:
        return E_INVAL;
    case 403:
        return E_FORBIDDEN;
    case 404:
        return E_NOTFOUND;
    case 405:
    case 406:
    case 415:
        return E_UNSUP;
    case 408:
        return E_TIMEOUT;
    case 409:
        return strcmp(st->reason, "AlreadyExists") == 0 ? E_EXISTS : E_CONFLICT;
    case 410:
        return E_GONE;
    default:
        return E_INVAL;
    }
}

static int class_of_5xx(int status, const struct status *st)
{
    // A field that the installed (older) CRD does not know: the server calls it its own failure, but repeating will not help.
    if (status == 500 && strstr(st->message, "field not declared in schema") != NULL)
        return E_INVAL;
    if (status == 501 || status == 505)
        return E_UNSUP;
    if (status == 511) // network authentication required: a portal says what it is
        return E_OFFLINE;
    return status == 503 || status == 504 ? E_BUSY : E_SERVER;
}

// Without a Status it was not the API that spoke, or it does not know the path at all.
static int class_without_status(int status, const struct http_head *h)
{
    if (status == 404 && strcmp(h->content_type, "text/plain") == 0)
        return E_UNSUP;
    return E_OFFLINE;
}

static int class_of(int status, const struct http_head *h, const struct status *st)
{
    switch (status) { // whoever says these, they mean the same
    case 401:
        return E_AUTH;
    case 407:
        return E_OFFLINE;
    case 413:
        return E_TOOBIG;
    case 429:
        return E_BUSY;
    default:
        break;
    }
    if (status >= 500)
        return class_of_5xx(status, st);
    if (status < 400 || !st->real)
        return class_without_status(status, h);
    return class_of_4xx(status, st);
}

static void set_message(int cls, int status, const struct status *st, struct err *e)
{
    if (st->message[0] != '\0')
        err_set(e, cls, "%s (%d%s%s)", st->message, status, st->reason[0] != '\0' ? " " : "", st->reason);
    else if (status == 404 && cls == E_UNSUP)
        err_set(e, cls, "the server does not serve this resource type (404; is the CRD installed?)");
    else if (status == 407)
        err_set(e, cls, "the proxy asks for a login (407)");
    else if (cls == E_OFFLINE)
        err_set(e, cls, "something between here and the API server answered instead of it (%d)", status);
    else
        err_set(e, cls, "the server answered %d%s%s", status, st->reason[0] != '\0' ? " " : "", st->reason);
}

int kube_classify(int status, const struct http_head *h, const char *body, size_t len, struct err *e)
{
    static const struct http_head no_head; // an ERROR event of a watch has none
    struct status st = { 0 };
    struct err own = ERR_INIT;

    h = h != NULL ? h : &no_head;
    status_scan(&st, body, len);
    int cls = class_of(status, h, &st);
    set_message(cls, status, &st, &own);
    own.http = status;
    own.retry_after_ms = h->retry_after_ms > 0 ? h->retry_after_ms : st.retry_after_ms;
    if (e != NULL)
        *e = own;
    return cls;
}
