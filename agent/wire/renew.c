// SPDX-License-Identifier: Apache-2.0
// Renewal of the node's own token (wire/enroll.h).
#include <string.h>

#include "base/log.h"
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
    struct timer timer;
    struct kube_call call;
    struct token_claims claims;
    int64_t due_s;    // wall time of the renewal, 0 = never
    int64_t retry_ms; // wait after a failure
};

// Somewhere between 70 and 90 % of the life, so that nodes joined together do not renew together.
static int64_t due_at(const struct token_claims *t, struct clock *c)
{
    if (t->expires <= 0 || t->issued <= 0 || t->expires <= t->issued)
        return 0;
    int64_t life = t->expires - t->issued;
    return t->issued + life / 100 * 70 + clock_rand(c, life / 100 * 20);
}

static void read_token(struct enroll_renew *r)
{
    r->due_s = 0;
    if (r->cred->token != NULL && token_read(r->cred->token, &r->claims, NULL) == 0 && r->claims.account[0] != '\0')
        r->due_s = due_at(&r->claims, loop_clock(r->loop));
}

static void look_in(struct enroll_renew *r, int64_t ms)
{
    if (timer_in(r->loop, &r->timer, ms) < 0)
        log_error("enroll", "no-timer");
}

static void look_again(struct enroll_renew *r)
{
    int64_t left_s = r->due_s - clock_wall_us(loop_clock(r->loop)) / 1000000;

    if (r->due_s != 0)
        look_in(r, left_s > 0 ? MIN(left_s * 1000, LOOK_MS) : LOOK_MS);
}

static void retry(struct enroll_renew *r, const struct err *e)
{
    log_warn("enroll", "renewal-failed class=%s retry_s=%lld error=\"%s\"", err_word(e->cls), (long long)r->retry_ms / 1000, e->msg);
    look_in(r, MAX(r->retry_ms, e->retry_after_ms));
    r->retry_ms = MIN(r->retry_ms * 2, RETRY_MAX_MS);
}

// Stored first: a credential that only lives in memory would be lost with the next boot, together with the one it replaced.
static int adopt(struct enroll_renew *r, char **token, struct err *e)
{
    struct cred next = *r->cred;

    next.token = *token;
    int rc = cred_save_identity(&next, r->disk, r->state_dir, r->node, e);
    if (rc == 0)
        rc = http_set_bearer(r->transport, *token, e);
    return rc == 0 ? cred_set(&r->cred->token, *token, e) : rc;
}

static int take_answer(struct enroll_renew *r, struct err *e)
{
    char *token = NULL;
    int rc = enroll_token_of(&r->call.answer, &token, e);

    if (rc < 0)
        return rc;
    rc = adopt(r, &token, e);
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
    if (e != NULL) {
        retry(r, e);
        return;
    }
    r->retry_ms = RETRY_MIN_MS;
    read_token(r);
    log_info("enroll", "renewed expires=%lld", (long long)r->claims.expires);
    look_again(r);
}

static void on_timer(struct timer *t)
{
    struct enroll_renew *r = container_of(t, struct enroll_renew, timer);
    struct clock *c = loop_clock(r->loop);
    struct err e = ERR_INIT;

    if (!clock_trusted(c) || clock_wall_us(c) / 1000000 < r->due_s) {
        look_again(r);
        return;
    }
    if (enroll_request_token(&r->call, r->claims.ns, r->claims.account, r->claims.expires - r->claims.issued, &e) < 0)
        retry(r, &e);
}

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
    if (rc < 0) {
        enroll_renew_free(r);
        return rc;
    }
    read_token(r);
    if (r->due_s != 0)
        look_in(r, 0);
    *out = r;
    return 0;
}

void enroll_renew_free(struct enroll_renew *r)
{
    if (r == NULL)
        return;
    timer_cancel(r->loop, &r->timer);
    kube_call_fini(&r->call);
    free(r->state_dir);
    free(r->node);
    free(r);
}
