// SPDX-License-Identifier: Apache-2.0
// Renewal of the node's own token, and what to do when it is refused (wire/enroll.h).
#include <string.h>

#include "base/log.h"
#include "wire/certify.h"
#include "wire/enroll.h"

enum {
    LOOK_MS = 3600 * 1000, // how often the age is looked at: the wall clock may be set meanwhile
    RETRY_MIN_MS = 60 * 1000,
    RETRY_MAX_MS = 3600 * 1000,
};

struct enroll_renew {
    struct loop *loop;
    struct disk *disk;
    struct cred *cred;
    struct transport *transport;
    char *state_dir, *node;
    struct certify *certify;
    uint64_t renewals; // credentials adopted
    struct timer timer;
    struct kube_call call;
    struct token_claims claims;
    int64_t life_s;      // of the credential in use, 0 = it names no end
    int64_t due_s;       // wall time of the renewal, 0 = never
    int64_t due_boot_ms; // boot-time of the renewal, 0 = the credential is of another boot
    int64_t retry_ms;    // wait after a failure
    bool tried_previous; // for the credential that is in the file now
    bool on_previous;    // that one is in use
    bool asks_as_previous;
};

// --- when ------------------------------------------------------------------------------------------------------------------------

// Somewhere between 70 and 90 % of the life, so that nodes joined together do not renew together.
static int64_t due_after(int64_t life_s, struct clock *c)
{
    return life_s * 7 / 10 + clock_rand(c, life_s / 5);
}

// A wall clock may lie; how long ago it came in this boot is known for certain.
static int64_t boot_time_of(const struct cred *cred, int64_t after_s, struct clock *c)
{
    struct instant now;

    clock_instant(c, &now);
    if (cred->received_boot == NULL || strcmp(cred->received_boot, now.boot_id) != 0 || cred->received_ms > now.boot_ms)
        return 0;
    return cred->received_ms + after_s * 1000;
}

static void plan(struct enroll_renew *r)
{
    struct clock *c = loop_clock(r->loop);
    int64_t began, expires;

    r->life_s = r->due_s = r->due_boot_ms = 0;
    r->claims = (struct token_claims){ 0 };
    if (r->cred->token != NULL && (token_read(r->cred->token, &r->claims, NULL) < 0 || r->claims.account[0] == '\0'))
        return;
    if (r->cred->token == NULL && r->cred->user == NULL) // a certificate that somebody else gave
        return;
    if (!cred_lifetime(r->cred, &began, &expires) || began <= 0 || expires <= began)
        return;
    r->life_s = expires - began;
    int64_t after = due_after(r->life_s, c);
    r->due_s = began + after;
    r->due_boot_ms = boot_time_of(r->cred, after, c);
}

static bool is_due(const struct enroll_renew *r)
{
    struct clock *c = loop_clock(r->loop);

    if (r->due_boot_ms != 0)
        return clock_boot(c) >= r->due_boot_ms;
    return clock_trusted(c) && clock_wall_us(c) / 1000000 >= r->due_s;
}

static void look_in(struct enroll_renew *r, int64_t ms)
{
    if (timer_in(r->loop, &r->timer, ms) < 0)
        log_error("enroll", "no-timer");
}

// No longer than a twentieth of the life: what is left when it is due is a tenth at least.
static int64_t longest_wait(const struct enroll_renew *r, int64_t most_ms)
{
    return MAX(MIN(most_ms, r->life_s * 50), (int64_t)RETRY_MIN_MS);
}

static void look_again(struct enroll_renew *r)
{
    struct clock *c = loop_clock(r->loop);
    int64_t left_ms = r->due_boot_ms != 0 ? r->due_boot_ms - clock_boot(c) : r->due_s * 1000 - clock_wall_us(c) / 1000;

    if (r->due_s == 0)
        timer_cancel(r->loop, &r->timer);
    else if (left_ms > 0)
        look_in(r, MIN(left_ms, longest_wait(r, LOOK_MS)));
    else
        look_in(r, is_due(r) ? 0 : longest_wait(r, LOOK_MS));
}

static void retry(struct enroll_renew *r, const struct err *e)
{
    int64_t ms = r->retry_ms / 2 + clock_rand(loop_clock(r->loop), r->retry_ms / 2);

    ms = MAX(ms, e->retry_after_ms);
    log_warn("enroll", "renewal-failed class=%s retry_s=%lld error=\"%s\"", err_word(e->cls), (long long)ms / 1000, e->msg);
    look_in(r, ms);
    r->retry_ms = MIN(r->retry_ms * 2, longest_wait(r, RETRY_MAX_MS));
}

// --- which -----------------------------------------------------------------------------------------------------------------------

// `next` is in use from now on; what waits for the old one's age waits for the new one's.
static int use(struct enroll_renew *r, const struct cred *next, struct err *e)
{
    int rc = http_set_identity(r->transport, r->cred->ca_pem, next->cert_pem, next->key_pem, e);

    if (rc == 0)
        rc = http_set_bearer(r->transport, next->token, e);
    if (rc == 0)
        rc = cred_take_proof(r->cred, next, e);
    if (rc == 0)
        plan(r);
    return rc;
}

// What comes from a file is in use, or nothing has changed.
static bool switch_to(struct enroll_renew *r, const struct cred *next)
{
    struct err e = ERR_INIT;

    if (use(r, next, &e) == 0)
        return true;
    log_warn("enroll", "not-usable class=%s error=\"%s\"", err_word(e.cls), e.msg);
    return false;
}

// Nothing of what was is left to be tried.
static void settled(struct enroll_renew *r)
{
    r->on_previous = r->tried_previous = false;
    r->retry_ms = RETRY_MIN_MS;
    if (r->cred->user != NULL && r->cred->cert_pem == NULL)
        certify_start(r->certify);
}

enum enroll_look enroll_renew_look(struct enroll_renew *r)
{
    CLEANUP(cred_fini) struct cred stored = { 0 };
    char node[254] = "";

    // Not to be read now is no news.
    if (cred_load_identity(&stored, r->disk, r->state_dir, node, NULL) < 0)
        return ENROLL_SAME;
    if (!cred_same_place(&stored, r->cred) || strcmp(node, r->node) != 0)
        return ENROLL_OTHER;
    if (r->on_previous || cred_same_proof(&stored, r->cred) || !switch_to(r, &stored))
        return ENROLL_SAME;
    log_info("enroll", "found-new-credential");
    certify_stop(r->certify);
    char *user = r->cred->user;
    r->cred->user = steal(stored.user);
    stored.user = user;
    settled(r);
    look_again(r);
    return ENROLL_SWITCHED;
}

// A certificate's is the token that was put aside for this.
static bool load_previous(struct enroll_renew *r, struct cred *previous)
{
    char node[254] = "";

    if (r->cred->cert_pem != NULL)
        return r->cred->spare != NULL && cred_set(&previous->token, r->cred->spare, NULL) == 0;
    return cred_load_previous(previous, r->disk, r->state_dir, node, NULL) == 0 && strcmp(node, r->node) == 0 && previous->token != NULL &&
           cred_same_place(previous, r->cred) && !cred_same_proof(previous, r->cred);
}

enum enroll_look enroll_renew_refused(struct enroll_renew *r)
{
    CLEANUP(cred_fini) struct cred previous = { 0 };
    enum enroll_look found = enroll_renew_look(r);

    if (found != ENROLL_SAME || r->tried_previous)
        return found;
    r->tried_previous = true;
    if (!load_previous(r, &previous) || !switch_to(r, &previous))
        return ENROLL_SAME;
    log_warn("enroll", "refused using=\"the credential before it\"");
    certify_stop(r->certify); // it asked with what was refused
    r->on_previous = true;
    look_in(r, 0); // a new token shows at once whether it is accepted
    return ENROLL_SWITCHED;
}

// The one before is refused, too: back to the one that was stored last.
static void go_back(struct enroll_renew *r)
{
    CLEANUP(cred_fini) struct cred stored = { 0 };
    char node[254];

    log_warn("enroll", "previous-refused");
    r->on_previous = false;
    if (cred_load_identity(&stored, r->disk, r->state_dir, node, NULL) == 0)
        (void)switch_to(r, &stored);
}

// --- renewing --------------------------------------------------------------------------------------------------------------------

// What is stored stays as it is but for the proof: in *r->cred are things that only the configuration says.
static int store(struct enroll_renew *r, const struct cred *proof, struct err *e)
{
    CLEANUP(cred_fini) struct cred stored = { 0 };
    char node[254];
    int rc = cred_load_identity(&stored, r->disk, r->state_dir, node, e);

    if (rc == 0)
        rc = cred_take_proof(&stored, proof, e);
    return rc == 0 ? cred_save_identity(&stored, r->disk, r->state_dir, r->node, e) : rc;
}

// Stored first: a credential that only lives in memory would be lost with the next boot, together with the one it replaced.
static int adopt(struct enroll_renew *r, const char *token, struct err *e)
{
    CLEANUP(cred_fini) struct cred next = { 0 };
    int rc = cred_set(&next.token, token, e);

    if (rc == 0)
        rc = cred_received(&next, loop_clock(r->loop), r->call.http.head.date_sec, e);
    if (rc == 0)
        rc = store(r, &next, e);
    if (rc == 0)
        rc = use(r, &next, e);
    if (rc == 0)
        r->renewals++;
    return rc;
}

static int adopt_certificate(void *ctx, const struct cred *proof, struct err *e)
{
    struct enroll_renew *r = ctx;
    int64_t began, expires;
    int rc = store(r, proof, e);

    if (rc == 0)
        rc = use(r, proof, e);
    if (rc < 0)
        return rc;
    r->renewals++;
    log_info("enroll", "certified user=%s expires=%lld", r->cred->user, (long long)(cred_lifetime(proof, &began, &expires) ? expires : 0));
    settled(r);
    look_again(r);
    return 0;
}

static int take_answer(struct enroll_renew *r, struct err *e)
{
    char *token = NULL;
    int rc = enroll_token_of(&r->call.answer, &token, e);

    if (rc < 0)
        return rc;
    rc = adopt(r, token, e);
    explicit_bzero(token, strlen(token));
    free(token);
    return rc;
}

static void on_answer(struct kube_call *call, struct err *e)
{
    struct enroll_renew *r = container_of(call, struct enroll_renew, call);
    struct err why = ERR_INIT;

    if (e == NULL && take_answer(r, &why) < 0)
        e = &why;
    buf_wipe(&r->call.answer);
    if (e != NULL && e->http == 401 && r->asks_as_previous)
        go_back(r);
    if (e != NULL) {
        retry(r, e);
        return;
    }
    settled(r);
    log_info("enroll", "renewed expires=%lld", (long long)r->claims.expires);
    look_again(r);
}

static void on_timer(struct timer *t)
{
    struct enroll_renew *r = container_of(t, struct enroll_renew, timer);
    struct err e = ERR_INIT;

    if (r->call.active) // its end sets the timer again
        return;
    if (!r->on_previous && !is_due(r)) {
        look_again(r);
        return;
    }
    if (r->cred->token == NULL) { // its end sets the timer again
        certify_start(r->certify);
        return;
    }
    r->asks_as_previous = r->on_previous;
    if (enroll_request_token(&r->call, r->claims.ns, r->claims.account, r->life_s, &e) < 0)
        retry(r, &e);
}

// --- life ------------------------------------------------------------------------------------------------------------------------

int enroll_renew_new(struct enroll_renew **out, struct loop *l, struct kube *k, struct disk *d, const char *state_dir, const char *node,
                     struct cred *c, struct transport *t, struct err *e)
{
    struct enroll_renew *r = calloc(1, sizeof *r);

    if (r == NULL)
        return err_set(e, E_NOMEM, "no memory for the renewal");
    *r = (struct enroll_renew){ .loop = l, .disk = d, .cred = c, .transport = t, .retry_ms = RETRY_MIN_MS };
    timer_init(&r->timer, on_timer);
    kube_call_init(&r->call, k);
    r->call.on_done = on_answer;
    int rc = cred_set(&r->state_dir, state_dir, e);
    if (rc == 0)
        rc = cred_set(&r->node, node, e);
    if (rc == 0)
        rc = certify_new(
            &r->certify,
            &(struct certify_conf){
                .loop = l, .kube = k, .disk = d, .cred = c, .state_dir = state_dir, .node = node, .adopt = adopt_certificate, .ctx = r },
            e);
    if (rc < 0) {
        enroll_renew_free(r);
        return rc;
    }
    plan(r);
    settled(r);
    look_again(r);
    *out = r;
    return 0;
}

void enroll_renew_free(struct enroll_renew *r)
{
    if (r == NULL)
        return;
    certify_free(r->certify);
    timer_cancel(r->loop, &r->timer);
    kube_call_fini(&r->call);
    free(r->state_dir);
    free(r->node);
    free(r);
}

bool enroll_renew_certificate(const struct enroll_renew *r, struct certify_state *out)
{
    certify_look(r->certify, out);
    return r->cred->user != NULL;
}

uint64_t enroll_renew_count(const struct enroll_renew *r)
{
    return r->renewals;
}
