// SPDX-License-Identifier: Apache-2.0
// A certificate's way from key to use: an end of the process at each exchange, and each answer that a server can give. The server is a few
// lines here; it keeps one request under its name, as the real one does. What a certificate is to mbedTLS is http_test's and csr.t's.
#include "base/fsio_real.h"
#include "fake_clock.h"
#include "tap.h"
#include "wire/certify.h"
#include "wire/http_csr.h"
#include "wire/http_tls.h"
#include "wire/pending.h"

static int fake_transport_for(struct transport **out, struct loop *l, const struct cred *c, bool any_date, struct err *e);
static int fake_check_key(const char *cert_pem, const char *key_pem, struct clock *c, struct err *e);
#define cred_transport fake_transport_for
#define tls_check_key fake_check_key
#include "wire/certify.c"

static struct server {
    char request[8192]; // base64, "" = there is none
    const char *condition, *certificate;
    int exchanges, created, removed, trials;
    int trial_status, create_status;
    bool approves;
} srv;

static struct fake_clock fc;
static struct loop *loop;
static struct disk *disk;
static struct kube kube;
static struct http_req *waiting[2];
static struct cred cred;
static struct certify *cert;
static char dir[] = "/tmp/certify.XXXXXX";
static int adopted;

// --- the server ------------------------------------------------------------------------------------------------------------------

static int net_submit(struct transport *t UNUSED, struct http_req *r, struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(waiting); i++)
        if (waiting[i] == NULL) {
            waiting[i] = r;
            return 0;
        }
    return err_set(e, E_BUSY, "more than a node asks at once");
}

static void net_cancel(struct transport *t UNUSED, struct http_req *r)
{
    for (size_t i = 0; i < ARRAY_LEN(waiting); i++)
        if (waiting[i] == r)
            waiting[i] = NULL;
}

static void net_free(struct transport *t UNUSED)
{
}

static const struct transport_ops net_ops = { .submit = net_submit, .cancel = net_cancel, .free = net_free };
static struct transport net = { &net_ops }, trial_net = { &net_ops };

static int fake_transport_for(struct transport **out, struct loop *l UNUSED, const struct cred *c, bool any_date UNUSED,
                              struct err *e UNUSED)
{
    ok(c->token == NULL && c->cert_pem != NULL, "the trial shows the certificate alone");
    *out = &trial_net;
    return 0;
}

static int fake_check_key(const char *cert_pem, const char *key_pem UNUSED, struct clock *c UNUSED, struct err *e)
{
    return strncmp(cert_pem, "good", 4) == 0 ? 0 : err_set(e, E_INVAL, "not for this key");
}

static int create_it(const struct http_req *r)
{
    AUTO_JSON struct json *j = NULL;

    if (srv.create_status != 0)
        return srv.create_status;
    if (srv.request[0] != '\0')
        return 409;
    if (json_parse(&j, r->body, r->body_len, NULL) < 0)
        abort();
    snprintf(srv.request, sizeof srv.request, "%s", json_path_str(j, "spec.request"));
    srv.condition = srv.approves ? "Approved" : NULL;
    srv.certificate = srv.approves ? "Z29vZA==" : NULL; // good
    srv.created++;
    return 201;
}

static int remove_the_one(void)
{
    if (srv.request[0] == '\0')
        return 404;
    srv.request[0] = '\0';
    srv.removed++;
    return 200;
}

// Does what is asked; the answer's status.
static int serve(const struct http_req *r, char *body, size_t max)
{
    srv.exchanges++;
    snprintf(body, max, "{\"kind\":\"Status\",\"reason\":\"x\"}");
    if (strstr(r->url, "/namespaces/") != NULL) {
        srv.trials++;
        return srv.trial_status != 0 ? srv.trial_status : 200;
    }
    if (strcmp(r->method, "POST") == 0)
        return create_it(r);
    if (strcmp(r->method, "DELETE") == 0)
        return remove_the_one();
    if (srv.request[0] == '\0') {
        snprintf(body, max, "{\"kind\":\"Status\",\"reason\":\"NotFound\"}");
        return 404;
    }
    snprintf(body, max, "{\"spec\":{\"request\":\"%s\"},\"status\":{\"certificate\":\"%s\",\"conditions\":[{\"type\":\"%s\"}]}}",
             srv.request, srv.certificate != NULL ? srv.certificate : "", srv.condition != NULL ? srv.condition : "None");
    return 200;
}

static void deliver(struct http_req *r, int status, const char *body)
{
    r->head = (struct http_head){ .status = status };
    strcpy(r->head.content_type, "application/json");
    if (r->on_head(r, &r->head) == 0)
        (void)r->on_body(r, body, strlen(body));
    r->on_done(r, NULL);
}

// Serves what waits. lost: the answers do not arrive. False: nothing waits.
static bool serve_one(bool lost)
{
    char body[16384];

    for (size_t i = 0; i < ARRAY_LEN(waiting); i++) {
        struct http_req *r = waiting[i];
        if (r == NULL)
            continue;
        int status = serve(r, body, sizeof body);
        waiting[i] = NULL;
        if (!lost)
            deliver(r, status, body);
        return true;
    }
    return false;
}

// --- the node --------------------------------------------------------------------------------------------------------------------

static int wait_only(struct loop_backend *b UNUSED, struct loop *l UNUSED, int64_t timeout_ms, struct err *e UNUSED)
{
    if (timeout_ms > 0)
        fake_clock_advance(&fc, timeout_ms);
    return 0;
}
static int no_fd(struct loop_backend *b UNUSED, struct loop_fd *f UNUSED, struct err *e UNUSED)
{
    return 0;
}
static void no_del(struct loop_backend *b UNUSED, struct loop_fd *f UNUSED)
{
}
static void no_free(struct loop_backend *b UNUSED)
{
}
static struct loop_backend backend = { no_fd, no_del, wait_only, no_free };

static int take_over(void *ctx UNUSED, const struct cred *proof, struct err *e)
{
    adopted++;
    return cred_take_proof(&cred, proof, e);
}

static void must(int rc)
{
    if (rc < 0)
        abort();
}

static void boot(void)
{
    struct certify_conf conf = {
        .loop = loop, .kube = &kube, .disk = disk, .cred = &cred, .state_dir = dir, .node = "a", .adopt = take_over
    };

    must(certify_new(&cert, &conf, NULL));
    if (cred.cert_pem == NULL)
        certify_start(cert);
}

static void begin(void)
{
    srv = (struct server){ 0 };
    adopted = 0;
    cred_fini(&cred);
    must(pending_remove(disk, dir, NULL));
    must(cred_set(&cred.ns, "edge-a", NULL));
    must(cred_set(&cred.token, "token", NULL));
    must(cred_set(&cred.user, "limpet:node:a:1", NULL));
}

static void turn(int64_t ms)
{
    must(loop_turn(loop, ms, NULL));
}

// Until the node waits for longer than `ms`, or has asked `n` times.
static void play(int64_t ms, int n)
{
    int64_t end = fc.mono_ms + ms;

    while (fc.mono_ms < end && srv.exchanges < n) {
        turn(MIN(end - fc.mono_ms, INT64_C(500)));
        if (srv.exchanges < n)
            (void)serve_one(false);
    }
}

static const char *reason(void)
{
    static struct certify_state s;

    certify_look(cert, &s);
    return s.reason;
}

// --- tests -----------------------------------------------------------------------------------------------------------------------

static bool is_key_of(const char *key_pem)
{
    AUTO_BUF struct buf again = BUF_INIT(TLS_CSR_PEM_MAX), coded = BUF_INIT(8192);

    // ECDSA is deterministic here: the same key makes the same request.
    return tls_make_csr(key_pem, CERTIFICATE_GROUP, cred.user, &fc.clock, &again, NULL) == 0 &&
           base64_encode(again.data, again.len, &coded, NULL) == 0 && strcmp(buf_str(&coded), srv.request) == 0;
}

static void test_way(void)
{
    struct fs_stat st;
    char path[300];

    begin();
    boot();
    play(60000, 1000);
    is_int(srv.created, 1, "one request is made");
    is_str(reason(), "WaitingForApproval", "and waits");
    snprintf(path, sizeof path, "%s/" PENDING_FILE, dir);
    must(disk->ops->stat(disk, path, 0, &st, NULL));
    is_int(st.mode & 0777, 0600, "its key is private");
    int before = srv.exchanges;
    play(INT64_C(4) * 3600 * 1000, 100000);
    ok(srv.exchanges - before < 60, "nobody approves: it is looked at less often: %d times in 4 h", srv.exchanges - before);
    srv.condition = "Approved";
    play(700000, 100000);
    is_str(reason(), "WaitingForSignature", "approved, and nobody signs");
    srv.certificate = "Z29vZA==";
    play(3600000, 100000);
    is_int(adopted, 1, "signed: it is taken");
    is_int(srv.trials, 1, "after a trial");
    is_str(cred.spare, "token", "the token is put aside");
    ok(is_key_of(cred.key_pem), "the key is the one that was certified");
    ok(disk->ops->stat(disk, path, 0, &st, NULL) == E_NOTFOUND, "and lies nowhere else");
    before = srv.exchanges;
    play(3600000, 100000);
    is_int(srv.exchanges, before, "then it is quiet");
    certify_start(cert);
    srv.approves = true;
    play(60000, 100000);
    is_int(adopted, 2, "renewed");
    ok(srv.created == 2 && is_key_of(cred.key_pem), "with a new key");
    is_str(cred.spare, "token", "the token stays aside");
    certify_free(cert);
}

// The process ends at exchange `cut`, with its answer or before it.
static void cut_at(int cut, bool lost)
{
    begin();
    srv.approves = true;
    boot();
    play(600000, lost ? cut - 1 : cut);
    if (lost) {
        turn(0);
        turn(0);
        (void)serve_one(true);
    }
    certify_free(cert);
    memset(waiting, 0, sizeof waiting);
    boot();
    play(INT64_C(7200) * 1000, 100000);
    if (cred.cert_pem != NULL)
        ok(srv.created == 1 && srv.removed == 0 && is_key_of(cred.key_pem), "cut at exchange %d%s: one key, one request", cut,
           lost ? ", its answer lost" : "");
    else
        fail("cut at exchange %d%s: no certificate", cut, lost ? ", its answer lost" : "");
    certify_free(cert);
}

static void test_no(void)
{
    char first[8192];

    begin();
    boot();
    play(60000, 100000);
    strcpy(first, srv.request);
    srv.condition = "Denied";
    play(600000, 100000);
    is_str(reason(), "Denied", "denied");
    int before = srv.exchanges;
    play(600000, 100000);
    is_int(srv.exchanges, before, "it does not ask again at once");
    certify_free(cert);
    boot();
    play(600000, 100000);
    is_str(reason(), "Denied", "nor after a restart");
    play(INT64_C(2) * 3600 * 1000, 100000);
    ok(srv.created == 2 && srv.removed == 1 && strcmp(first, srv.request) != 0, "later it asks anew, with another key");
    srv.certificate = "YmFk"; // bad
    play(INT64_C(1800) * 1000, 100000);
    is_str(reason(), "Failed", "a certificate for another key is none");
    is_int(adopted + srv.trials, 0, "and is not even tried");
    certify_free(cert);

    begin();
    srv.approves = true;
    srv.trial_status = 401;
    boot();
    play(60000, 100000);
    is_str(reason(), "NotAccepted", "a certificate that the server does not take");
    ok(adopted == 0 && cred.token != NULL, "the token stays in use");
    certify_free(cert);

    begin();
    srv.create_status = 403;
    boot();
    play(60000, 100000);
    is_str(reason(), "NotAllowed", "a node that may not ask");
    srv.create_status = 0;
    srv.approves = true;
    play(600000, 100000);
    is_int(adopted, 1, "asks again, and has it when it may");
    certify_free(cert);
}

static void test_foreign(void)
{
    begin();
    strcpy(srv.request, "c3RyYW5nZXI=");
    srv.certificate = "Z29vZA==";
    srv.condition = "Approved";
    srv.approves = true;
    boot();
    play(60000, 100000);
    ok(srv.removed == 1 && srv.created == 1 && is_key_of(cred.key_pem), "a request of somebody else under its name is replaced");
    certify_free(cert);

    begin();
    struct pending p = { 0 };
    must(pending_make(&p, disk, dir, "limpet:node:a:0", &fc.clock, NULL));
    boot();
    play(60000, 100000);
    ok(cert->pending.key_pem != NULL && strcmp(cert->pending.key_pem, p.key_pem) != 0, "the key of an earlier join is not used");
    pending_fini(&p);
    certify_free(cert);
}

static void test_request(void)
{
    AUTO_BUF struct buf key = BUF_INIT(TLS_KEY_PEM_MAX), csr = BUF_INIT(TLS_CSR_PEM_MAX), none = BUF_INIT(TLS_CSR_PEM_MAX);

    must(tls_make_key(&fc.clock, &key, NULL));
    must(tls_make_csr(buf_str(&key), "limpet:nodes", "limpet:node:a:1", &fc.clock, &csr, NULL));
    ok(tls_csr_asks_for(buf_str(&csr), "limpet:nodes", "limpet:node:a:1", &fc.clock), "a request asks for its name");
    ok(!tls_csr_asks_for(buf_str(&csr), "limpet:nodes", "limpet:node:a:2", &fc.clock), "and for no other");
    ok(!tls_csr_asks_for(buf_str(&csr), "system:masters", "limpet:node:a:1", &fc.clock), "nor another group");
    ok(!tls_csr_asks_for("-----BEGIN CERTIFICATE REQUEST-----\nMAA=\n-----END CERTIFICATE REQUEST-----\n", "limpet:nodes",
                         "limpet:node:a:1", &fc.clock),
       "a piece of a request asks for nothing");
    is_int(tls_make_csr(buf_str(&key), "limpet:nodes", "a,CN=admin", &fc.clock, &none, NULL), E_INVAL, "a name that is two is refused");
}

int main(void)
{
    fake_clock_init(&fc, 7);
    if (mkdtemp(dir) == NULL || loop_new(&loop, &fc.clock, &backend, NULL) < 0 || disk_real_new(&disk, NULL, "", NULL) < 0)
        abort();
    kube = (struct kube){ .transport = &net, .clock = &fc.clock };
    test_request();
    test_way();
    for (int cut = 1; cut <= 4; cut++) {
        cut_at(cut, false);
        cut_at(cut, true);
    }
    test_no();
    test_foreign();
    cred_fini(&cred);
    must(disk->ops->rmtree(disk, dir, NULL));
    disk_free(disk);
    loop_free(loop);
    return done_testing();
}
