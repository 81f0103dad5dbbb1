// SPDX-License-Identifier: Apache-2.0
#include "wire/certify.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "data/json.h"
#include "wire/base64.h"
#include "wire/http_tls.h"
#include "wire/pending.h"

enum {
    LIFETIME_S = 365 * 86400, // asked for; the signer may give less
    POLL_MIN_MS = 2000,
    POLL_MAX_MS = 600 * 1000,
    AGAIN_MIN_MS = 60 * 1000, // after a failure on the way
    AGAIN_MAX_MS = 3600 * 1000,
    NO_MIN_MS = 3600 * 1000, // after a no
    NO_MAX_MS = 24 * 3600 * 1000,
    TRIAL_TIMEOUT_MS = 30000,
    REQUEST_MAX = 16 * 1024,
};

#define SIGNER "kubernetes.io/kube-apiserver-client"

static const struct kube_type requests = { "certificates.k8s.io", "v1", "certificatesigningrequests" };
static const struct kube_type namespaces = { "", "v1", "namespaces" };

enum step { STEP_LOOK, STEP_CREATE, STEP_REMOVE, STEP_TRY, STEP_ADOPT };

struct certify {
    struct certify_conf conf;
    char *state_dir, *node;
    struct timer timer;
    struct kube_call call;
    enum step step; // what comes next, or is under way
    bool wanted;
    bool discard; // the key got a no: the next request is for another one
    struct pending pending;
    struct cred proof; // what is on trial
    struct transport *trial;
    struct kube trial_kube;
    struct kube_call trial_call;
    int64_t waits_since_ms;     // for approval or signature, 0 = it does not
    int64_t again_ms, after_no; // the next waits
    struct certify_state state;
};

// --- waiting ---------------------------------------------------------------------------------------------------------------------

static void go_on(struct certify *c, enum step step, int64_t ms)
{
    c->step = step;
    if (timer_in(c->conf.loop, &c->timer, ms) < 0)
        log_error("certify", "no-timer");
}

static void say(struct certify *c, const char *reason, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void say(struct certify *c, const char *reason, const char *fmt, ...)
{
    bool news = strcmp(c->state.reason, reason) != 0;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(c->state.message, sizeof c->state.message, fmt, ap);
    va_end(ap);
    snprintf(c->state.reason, sizeof c->state.reason, "%s", reason);
    if (news)
        log_info("certify", "state reason=%s message=\"%s\"", reason, c->state.message);
}

static int64_t drawn(struct certify *c, int64_t *wait, int64_t max)
{
    int64_t ms = *wait / 2 + clock_rand(loop_clock(c->conf.loop), *wait / 2);

    *wait = MIN(*wait * 2, max);
    return ms;
}

static void failed(struct certify *c, const struct err *e)
{
    say(c, e->cls == E_FORBIDDEN ? "NotAllowed" : "RequestFailed", "%s", e->msg);
    go_on(c, STEP_LOOK, MAX(drawn(c, &c->again_ms, AGAIN_MAX_MS), e->retry_after_ms));
}

// It is of no use to ask for the same thing again at once.
static void refused(struct certify *c, const char *reason, const char *why)
{
    say(c, reason, "%.300s", why);
    c->discard = true;
    go_on(c, STEP_LOOK, drawn(c, &c->after_no, NO_MAX_MS));
}

static void poll_again(struct certify *c)
{
    int64_t now = loop_now(c->conf.loop);

    if (c->waits_since_ms == 0)
        c->waits_since_ms = now;
    go_on(c, STEP_LOOK, MAX(MIN((now - c->waits_since_ms) / 8, (int64_t)POLL_MAX_MS), (int64_t)POLL_MIN_MS));
}

// --- the key ---------------------------------------------------------------------------------------------------------------------

static bool same_text(const char *a, const char *b)
{
    return a != NULL && b != NULL && strcmp(a, b) == 0;
}

// Of another join, or certified already when the power went.
static bool is_stale(const struct certify *c)
{
    return c->discard || !same_text(c->pending.user, c->conf.cred->user) || same_text(c->pending.key_pem, c->conf.cred->key_pem);
}

static int need_key(struct certify *c, struct err *e)
{
    struct err why = ERR_INIT;
    int rc = c->pending.key_pem != NULL ? 0 : pending_load(&c->pending, c->conf.disk, c->state_dir, &why);

    if (rc == 0 && !is_stale(c))
        return 0;
    if (rc < 0 && rc != E_NOTFOUND && rc != E_CORRUPT) {
        if (e != NULL)
            *e = why;
        return rc;
    }
    rc = pending_make(&c->pending, c->conf.disk, c->state_dir, c->conf.cred->user, loop_clock(c->conf.loop), e);
    if (rc == 0)
        c->discard = false;
    return rc;
}

// --- the request -----------------------------------------------------------------------------------------------------------------

static void request_name(const struct certify *c, char out[80])
{
    snprintf(out, 80, "limpet-%.63s", c->conf.cred->ns);
}

static int look(struct certify *c, struct err *e)
{
    char name[80];
    int rc = need_key(c, e);

    request_name(c, name);
    return rc == 0 ? kube_get(&c->call, &requests, NULL, name, e) : rc;
}

static int print_request(const struct certify *c, struct buf *out, struct err *e)
{
    AUTO_JSON struct json *j = json_object();
    AUTO_BUF struct buf coded = BUF_INIT(REQUEST_MAX);
    struct json *meta = json_object(), *spec = json_object(), *usages = json_array(), *notes = json_object();
    char name[80];
    int rc = base64_encode(c->pending.request, strlen(c->pending.request), &coded, e);

    request_name(c, name);
    json_set_str(j, "apiVersion", "certificates.k8s.io/v1");
    json_set_str(j, "kind", "CertificateSigningRequest");
    json_set(j, "metadata", meta);
    json_set_str(meta, "name", name);
    json_set(meta, "annotations", notes);
    json_set_str(notes, "edge.limpet.dev/node", c->node);
    json_set(j, "spec", spec);
    json_set_str(spec, "request", buf_str(&coded));
    json_set_str(spec, "signerName", SIGNER);
    json_set_int(spec, "expirationSeconds", LIFETIME_S);
    json_push(usages, json_string("digital signature"));
    json_push(usages, json_string("client auth"));
    json_set(spec, "usages", usages);
    if (rc == 0 && !json_ok())
        return err_set(e, E_NOMEM, "no memory for a request");
    return rc == 0 ? json_print(j, out, e) : rc;
}

static int create(struct certify *c, struct err *e)
{
    AUTO_BUF struct buf body = BUF_INIT(REQUEST_MAX);
    int rc = print_request(c, &body, e);

    return rc == 0 ? kube_create(&c->call, &requests, NULL, NULL, NULL, buf_str(&body), body.len, e) : rc;
}

static int remove_it(struct certify *c, struct err *e)
{
    char name[80];

    request_name(c, name);
    return kube_delete(&c->call, &requests, NULL, name, e);
}

// --- its answer ------------------------------------------------------------------------------------------------------------------

static const struct json *condition(const struct json *request, const char *type)
{
    json_each(j, json_path(request, "status.conditions")) if (same_text(json_path_str(j, "type"), type)) return j;
    return NULL;
}

static bool is_ours(const struct certify *c, const struct json *request)
{
    AUTO_BUF struct buf text = BUF_INIT(REQUEST_MAX);
    const char *coded = json_path_str(request, "spec.request");

    return base64_decode(coded, strlen(coded), &text, NULL) == 0 && strcmp(buf_str(&text), c->pending.request) == 0;
}

static int take_certificate(struct certify *c, const char *coded, struct err *e)
{
    AUTO_BUF struct buf pem = BUF_INIT(CRED_PEM_MAX);
    const struct cred *now = c->conf.cred;

    cred_fini(&c->proof);
    int rc = base64_decode(coded, strlen(coded), &pem, e);
    if (rc == 0)
        rc = tls_check_key(buf_str(&pem), c->pending.key_pem, loop_clock(c->conf.loop), e);
    if (rc == 0)
        rc = cred_set(&c->proof.cert_pem, buf_str(&pem), e);
    if (rc == 0)
        rc = cred_set(&c->proof.key_pem, c->pending.key_pem, e);
    if (rc == 0)
        rc = cred_set(&c->proof.spare, now->token != NULL ? now->token : now->spare, e);
    return rc == 0 ? cred_received(&c->proof, loop_clock(c->conf.loop), c->call.http.head.date_sec, e) : rc;
}

static void judge(struct certify *c, const struct json *request)
{
    const struct json *no = condition(request, "Denied"), *broken = condition(request, "Failed");
    const char *certificate = json_path_str(request, "status.certificate");
    struct err e = ERR_INIT;

    if (!is_ours(c, request)) {
        go_on(c, STEP_REMOVE, 0);
    } else if (no != NULL || broken != NULL) {
        const char *why = json_path_str(no != NULL ? no : broken, "message");
        refused(c, no != NULL ? "Denied" : "Failed", why[0] != '\0' ? why : "the request was refused");
    } else if (certificate[0] != '\0') {
        if (take_certificate(c, certificate, &e) < 0)
            refused(c, "Failed", e.msg);
        else
            go_on(c, STEP_TRY, 0);
    } else if (condition(request, "Approved") != NULL) {
        say(c, "WaitingForSignature", "the request is approved and not yet signed: does the cluster have a signer for " SIGNER "?");
        poll_again(c);
    } else {
        say(c, "WaitingForApproval", "nobody has approved it yet: limpetctl node approve %.253s", c->node);
        poll_again(c);
    }
}

static void looked(struct certify *c, const struct err *e)
{
    AUTO_JSON struct json *j = NULL;
    struct err why = ERR_INIT;

    if (e != NULL && e->cls == E_NOTFOUND)
        go_on(c, STEP_CREATE, 0);
    else if (e != NULL)
        failed(c, e);
    else if (json_parse(&j, buf_str(&c->call.answer), c->call.answer.len, &why) < 0)
        failed(c, &why);
    else
        judge(c, j);
}

static void on_answer(struct kube_call *call, struct err *e)
{
    struct certify *c = container_of(call, struct certify, call);

    if (c->step == STEP_LOOK) {
        looked(c, e);
    } else if (e != NULL && e->cls != E_EXISTS && e->cls != E_NOTFOUND) {
        failed(c, e);
    } else {
        c->waits_since_ms = 0;
        go_on(c, STEP_LOOK, 0); // made, or there is one already, or it is gone
    }
}

// --- the trial -------------------------------------------------------------------------------------------------------------------

static void end_trial(struct certify *c)
{
    kube_call_fini(&c->trial_call);
    if (c->trial != NULL)
        transport_free(steal(c->trial));
    kube_call_init(&c->trial_call, &c->trial_kube);
}

// Everything as it is but for the proof; the texts stay where they are.
static int open_trial(struct certify *c, struct err *e)
{
    struct cred on_trial = *c->conf.cred;

    on_trial.token = NULL;
    on_trial.cert_pem = c->proof.cert_pem;
    on_trial.key_pem = c->proof.key_pem;
    int rc = cred_transport(&c->trial, c->conf.loop, &on_trial, false, e);
    c->trial_kube = (struct kube){ .transport = c->trial, .clock = loop_clock(c->conf.loop) };
    return rc;
}

static void on_tried(struct kube_call *call, struct err *e)
{
    struct certify *c = container_of(call, struct certify, trial_call);

    if (e == NULL)
        go_on(c, STEP_ADOPT, 0);
    else if (e->http == 401)
        refused(c, "NotAccepted", "the server does not accept the certificate that was issued");
    else
        failed(c, e);
}

static int try_it(struct certify *c, struct err *e)
{
    end_trial(c);
    int rc = open_trial(c, e);

    if (rc < 0)
        return rc;
    c->trial_call.on_done = on_tried;
    c->trial_call.http.total_timeout_ms = TRIAL_TIMEOUT_MS;
    return kube_get(&c->trial_call, &namespaces, NULL, c->conf.cred->ns, e);
}

static void settle(struct certify *c)
{
    c->wanted = false;
    c->waits_since_ms = 0;
    c->again_ms = AGAIN_MIN_MS;
    c->after_no = NO_MIN_MS;
    c->state = (struct certify_state){ 0 };
    pending_fini(&c->pending);
    cred_fini(&c->proof);
}

// The key is in the identity now. Should its file outlive a cut, it is known by that (is_stale).
static int adopt(struct certify *c, struct err *e)
{
    struct err why = ERR_INIT;

    end_trial(c);
    int rc = c->conf.adopt(c->conf.ctx, &c->proof, e);
    if (rc < 0)
        return rc;
    if (pending_remove(c->conf.disk, c->state_dir, &why) < 0)
        log_warn("certify", "key-file-left error=\"%s\"", why.msg);
    settle(c);
    return 0;
}

// --- life ------------------------------------------------------------------------------------------------------------------------

static void on_timer(struct timer *t)
{
    static int (*const steps[])(struct certify * c, struct err * e) = {
        [STEP_LOOK] = look, [STEP_CREATE] = create, [STEP_REMOVE] = remove_it, [STEP_TRY] = try_it, [STEP_ADOPT] = adopt,
    };
    struct certify *c = container_of(t, struct certify, timer);
    struct err e = ERR_INIT;

    if (c->wanted && !c->call.active && !c->trial_call.active && steps[c->step](c, &e) < 0)
        failed(c, &e);
}

int certify_new(struct certify **out, const struct certify_conf *conf, struct err *e)
{
    struct certify *c = calloc(1, sizeof *c);

    if (c == NULL)
        return err_set(e, E_NOMEM, "no memory for a certificate's request");
    c->conf = *conf;
    timer_init(&c->timer, on_timer);
    kube_call_init(&c->call, conf->kube);
    kube_call_init(&c->trial_call, &c->trial_kube);
    c->call.on_done = on_answer;
    settle(c);
    int rc = cred_set(&c->state_dir, conf->state_dir, e);
    if (rc == 0)
        rc = cred_set(&c->node, conf->node, e);
    if (rc < 0) {
        certify_free(c);
        return rc;
    }
    *out = c;
    return 0;
}

void certify_start(struct certify *c)
{
    if (c->wanted)
        return;
    c->wanted = true;
    say(c, "Requesting", "a certificate for %.200s is asked for", c->conf.cred->user);
    go_on(c, STEP_LOOK, 0);
}

void certify_stop(struct certify *c)
{
    kube_call_cancel(&c->call);
    timer_cancel(c->conf.loop, &c->timer);
    end_trial(c);
    settle(c);
}

void certify_look(const struct certify *c, struct certify_state *out)
{
    *out = c->state;
}

void certify_free(struct certify *c)
{
    if (c == NULL)
        return;
    certify_stop(c);
    kube_call_fini(&c->call);
    kube_call_fini(&c->trial_call);
    free(c->state_dir);
    free(c->node);
    free(c);
}
