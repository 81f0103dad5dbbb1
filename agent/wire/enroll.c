// SPDX-License-Identifier: Apache-2.0
#include "wire/enroll.h"

#include <stdio.h>
#include <string.h>

#include "data/json.h"
#include "wire/http_tls.h"

enum { YEAR_S = 365 * 24 * 3600, TOKEN_FILE_MAX = 512 * 1024, HASH_TEXT_LEN = 7 + 64 };

#define NEW_COMMAND "`limpetctl node add NAME --replace` makes a new join command"

static const struct kube_type service_accounts = { "", "v1", "serviceaccounts" };
static const struct kube_type namespaces = { "", "v1", "namespaces" };

static void free_secret(char **s)
{
    if (*s != NULL)
        explicit_bzero(*s, strlen(*s));
    free(*s);
    *s = NULL;
}

// --- the token file --------------------------------------------------------------------------------------------------------------

static int copy_secret(char **out, const char *s, size_t n, struct err *e)
{
    *out = strndup(s, n);
    return *out != NULL ? 0 : err_set(e, E_NOMEM, "no memory for the token");
}

static bool is_bare_token(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] <= ' ' || s[i] > '~')
            return false;
    return n > 0 && n <= CRED_TOKEN_MAX;
}

static int parse_token_json(const char *text, size_t len, char **token, char **ca_pem, struct err *e)
{
    AUTO_JSON struct json *j = NULL;

    if (json_parse(&j, text, len, NULL) < 0)
        return err_set(e, E_INVAL, "the token is neither a bare one nor JSON");
    const char *t = json_str(json_get(j, "token")), *ca = json_str(json_get(j, "ca"));
    if (t == NULL || !is_bare_token(t, strlen(t)))
        return err_set(e, E_INVAL, "the token's JSON holds no usable \"token\"");
    int rc = copy_secret(token, t, strlen(t), e);
    if (rc == 0 && ca != NULL && *ca != '\0')
        rc = copy_secret(ca_pem, ca, strlen(ca), e);
    if (rc < 0)
        free_secret(token);
    return rc;
}

int enroll_parse_token(const char *text, size_t len, char **token, char **ca_pem, struct err *e)
{
    *token = *ca_pem = NULL;
    if (len > TOKEN_FILE_MAX)
        return err_set(e, E_TOOBIG, "the token is longer than %d bytes", TOKEN_FILE_MAX);
    while (len > 0 && strchr(" \t\r\n", text[len - 1]) != NULL)
        len--;
    while (len > 0 && strchr(" \t\r\n", *text) != NULL) {
        text++;
        len--;
    }
    if (len == 0)
        return err_set(e, E_INVAL, "the token is empty");
    if (*text == '{')
        return parse_token_json(text, len, token, ca_pem, e);
    if (!is_bare_token(text, len))
        return err_set(e, E_INVAL, "the token holds characters that a token cannot hold");
    return copy_secret(token, text, len, e);
}

// --- the server's CA -------------------------------------------------------------------------------------------------------------

struct ca_search {
    const char *wanted;      // "sha256:..."
    char seen[TLS_HASH_MAX]; // a CA that was not it, "" = none
    char *found;             // PEM of the one that is
    struct err *e;
};

static int compare_ca(void *ctx, const char *pem)
{
    struct ca_search *s = ctx;
    char hash[TLS_HASH_MAX];
    int rc = cred_ca_hash(pem, hash, s->e);

    if (rc < 0)
        return rc;
    if (strcmp(hash, s->wanted) != 0) {
        strcpy(s->seen, hash);
        return 0;
    }
    s->found = strdup(pem);
    return s->found != NULL ? 1 : err_set(s->e, E_NOMEM, "no memory for the CA");
}

// Only the certificate whose hash is the right one is taken from what came unverified. What is no PEM is no find.
static int look_into(struct ca_search *s, const char *pem)
{
    struct err why = ERR_INIT;

    s->e = &why;
    int rc = tls_each_ca(pem, compare_ca, s, &why);
    return rc == E_NOMEM ? rc : 0;
}

// One GET whose failure by status is an answer, too: not here.
static int fetch(struct loop *l, struct kube *k, const char *path, struct kube_call *call, struct err *e)
{
    struct err why = ERR_INIT;

    kube_call_init(call, k);
    int rc = kube_raw(call, "GET", path, NULL, NULL, 0, e);
    if (rc < 0)
        return rc;
    rc = kube_wait(l, call, &why);
    if (rc < 0 && call->err.http == 0) { // no HTTP answer at all
        *e = why;
        return rc;
    }
    if (rc < 0)
        buf_reset(&call->answer);
    return 0;
}

static int look_at_cacerts(struct ca_search *s, struct loop *l, struct kube *k, struct err *e)
{
    CLEANUP(kube_call_fini) struct kube_call call;
    int rc = fetch(l, k, "/cacerts", &call, e);

    return rc == 0 ? look_into(s, buf_str(&call.answer)) : rc;
}

static int look_at_cluster_info(struct ca_search *s, struct loop *l, struct kube *k, struct err *e)
{
    CLEANUP(kube_call_fini) struct kube_call call;
    AUTO_BUF struct buf pem = BUF_INIT(CRED_PEM_MAX);
    AUTO_JSON struct json *j = NULL;
    int rc = fetch(l, k, "/api/v1/namespaces/kube-public/configmaps/cluster-info", &call, e);

    if (rc < 0 || call.answer.len == 0 || json_parse(&j, call.answer.data, call.answer.len, NULL) < 0)
        return rc;
    const char *kubeconfig = json_str(json_path(j, "data.kubeconfig"));
    if (kubeconfig == NULL || kubeconfig_ca(kubeconfig, strlen(kubeconfig), &pem, NULL) < 0)
        return 0;
    return look_into(s, buf_str(&pem));
}

static int search(struct ca_search *s, struct loop *l, struct transport *t, struct err *e)
{
    struct kube k = { .transport = t, .clock = loop_clock(l) };
    int rc = look_at_cacerts(s, l, &k, e);

    if (rc == 0 && s->found == NULL)
        rc = look_at_cluster_info(s, l, &k, e);
    if (rc == 0 && s->found == NULL)
        rc = look_into(s, http_peer_chain(t));
    return rc;
}

static int refuse_ca(const char *seen, const char *wanted, struct err *e)
{
    if (*seen == '\0')
        return err_set(e, E_AUTH, "the server does not show its CA certificate to strangers; give it with --ca-file");
    return err_set(e, E_AUTH, "the server's CA is %s, expected was %s: it is another server, or the join command is of another cluster",
                   seen, wanted);
}

static int find_ca(char **pem, struct loop *l, const struct enroll_conf *c, struct err *e)
{
    struct http_conf http = { .base_url = c->server,
                              .proxy = c->proxy,
                              .proxy_auth = c->proxy_auth,
                              .no_proxy = c->no_proxy,
                              .extra_ca_pem = c->extra_ca_pem,
                              .proxy_ca_pem = c->proxy_ca_pem,
                              .pin_only_hash = true };
    struct ca_search s = { .wanted = c->ca_hash };
    struct transport *t;
    int rc = http_new(&t, l, &http, e);

    if (rc < 0)
        return rc;
    rc = search(&s, l, t, e);
    transport_free(t);
    if (rc == 0 && s.found == NULL)
        rc = refuse_ca(s.seen, c->ca_hash, e);
    *pem = s.found;
    return rc;
}

// A CA that came with the command is believed as a whole when its first certificate has the hash: a bundle stays a bundle.
static int check_ca(const char *pem, const char *wanted, struct err *e)
{
    char hash[TLS_HASH_MAX];
    int rc = cred_ca_hash(pem, hash, e);

    if (rc < 0 || wanted == NULL || strcmp(hash, wanted) == 0)
        return rc;
    return err_set(e, E_AUTH, "the CA certificate given is %s, expected was %s: it is of another cluster", hash, wanted);
}

// --- the token -------------------------------------------------------------------------------------------------------------------

int enroll_request_token(struct kube_call *call, const char *ns, const char *account, int64_t lifetime_s, struct err *e)
{
    char body[200];
    int n = snprintf(body, sizeof body,
                     "{\"apiVersion\":\"authentication.k8s.io/v1\",\"kind\":\"TokenRequest\",\"spec\":{\"expirationSeconds\":%lld}}",
                     (long long)(lifetime_s > 0 ? lifetime_s : YEAR_S));

    return kube_create(call, &service_accounts, ns, account, "token", body, (size_t)n, e);
}

int enroll_token_of(const struct buf *answer, char **token, struct err *e)
{
    AUTO_JSON struct json *j = NULL;

    if (json_parse(&j, buf_str(answer), answer->len, NULL) < 0)
        return err_set(e, E_CORRUPT, "the server's answer is not JSON");
    const char *t = json_str(json_path(j, "status.token"));
    if (t == NULL || !is_bare_token(t, strlen(t)))
        return err_set(e, E_CORRUPT, "the server answered without a usable token");
    return copy_secret(token, t, strlen(t), e);
}

// --- join ------------------------------------------------------------------------------------------------------------------------

// What is gathered on the way.
struct joining {
    const struct enroll_conf *conf;
    struct loop *loop;
    char *ca_pem;
    char *join_token, *token; // secret: ours for an hour, and the one to keep
    char *cluster;
    int64_t server_s; // the server's time when the token came
    struct token_claims claims;
};

static void joining_fini(struct joining *j)
{
    free_secret(&j->ca_pem);
    free_secret(&j->join_token);
    free_secret(&j->token);
    free_secret(&j->cluster);
}

static int check_conf(const struct enroll_conf *c, struct err *e)
{
    if (strncmp(c->server, "https://", 8) != 0)
        return err_set(e, E_INVAL, "--server: the token is only sent over https://");
    if (c->ca_hash == NULL)
        return c->ca_pem != NULL ? 0 : err_set(e, E_INVAL, "--ca-hash is missing");
    if (strncmp(c->ca_hash, "sha256:", 7) != 0 || strlen(c->ca_hash) != HASH_TEXT_LEN ||
        c->ca_hash[7 + strspn(c->ca_hash + 7, "0123456789abcdef")] != '\0')
        return err_set(e, E_INVAL, "--ca-hash: must be sha256: and 64 hexadecimal digits in lower case");
    return 0;
}

static int take_token(struct joining *j, struct err *e)
{
    const struct enroll_conf *c = j->conf;
    struct err why = ERR_INIT;
    int rc = enroll_parse_token(c->token, strlen(c->token), &j->join_token, &j->ca_pem, &why);

    if (rc == 0)
        rc = token_read(j->join_token, &j->claims, &why);
    if (rc < 0)
        return err_set(e, rc, "%s; " NEW_COMMAND, why.msg);
    if (j->claims.account[0] == '\0')
        return err_set(e, E_INVAL, "the token is not one of a ServiceAccount");
    if (strcmp(j->claims.ns, c->ns) != 0)
        return err_set(e, E_INVAL, "the token is for namespace %s, not for %s", j->claims.ns, c->ns);
    return 0;
}

static int settle_ca(struct joining *j, struct err *e)
{
    const struct enroll_conf *c = j->conf;
    int rc = c->ca_pem != NULL ? cred_set(&j->ca_pem, c->ca_pem, e) : 0;

    if (rc == 0 && j->ca_pem != NULL)
        return check_ca(j->ca_pem, c->ca_hash, e);
    return rc == 0 ? find_ca(&j->ca_pem, j->loop, c, e) : rc;
}

static int explain_refusal(int rc, struct err *e)
{
    if (rc == E_AUTH && e->http == 401)
        return err_set(e, E_AUTH, "the server does not accept the token: it has expired (after an hour) or was revoked; " NEW_COMMAND);
    return err_wrap(e, "exchanging the token");
}

static int exchange(struct joining *j, struct transport *t, struct err *e)
{
    CLEANUP(kube_call_fini) struct kube_call call;
    struct kube k = { .transport = t, .clock = loop_clock(j->loop) };
    const char *account = j->conf->service_account != NULL ? j->conf->service_account : j->claims.account;

    kube_call_init(&call, &k);
    int rc = enroll_request_token(&call, j->conf->ns, account, j->conf->lifetime_s, e);
    if (rc == 0)
        rc = kube_wait(j->loop, &call, e);
    if (rc < 0)
        return explain_refusal(rc, e);
    j->server_s = call.http.head.date_sec;
    return enroll_token_of(&call.answer, &j->token, e);
}

// Which cluster it is. An account that may not ask leaves it open.
static int ask_cluster(struct joining *j, struct transport *t, struct err *e)
{
    CLEANUP(kube_call_fini) struct kube_call call;
    AUTO_JSON struct json *ns = NULL;
    struct kube k = { .transport = t, .clock = loop_clock(j->loop) };
    struct err why = ERR_INIT;

    kube_call_init(&call, &k);
    int rc = kube_get(&call, &namespaces, NULL, "kube-system", &why);
    if (rc == 0)
        rc = kube_wait(j->loop, &call, &why);
    if (rc < 0 && why.http != 0)
        return 0;
    if (rc < 0) {
        *e = why;
        return err_wrap(e, "asking which cluster it is");
    }
    if (json_parse(&ns, buf_str(&call.answer), call.answer.len, NULL) < 0)
        return 0;
    return cred_set(&j->cluster, json_str(json_path(ns, "metadata.uid")), e);
}

static int trade_token(struct joining *j, struct err *e)
{
    struct http_conf http = { .base_url = j->conf->server,
                              .server_name = j->conf->server_name,
                              .ca_pem = j->ca_pem,
                              .proxy = j->conf->proxy,
                              .proxy_auth = j->conf->proxy_auth,
                              .no_proxy = j->conf->no_proxy,
                              .extra_ca_pem = j->conf->extra_ca_pem,
                              .proxy_ca_pem = j->conf->proxy_ca_pem };
    struct transport *t;
    int rc = http_new(&t, j->loop, &http, e);

    if (rc < 0)
        return rc;
    rc = http_set_bearer(t, j->join_token, e);
    if (rc == 0)
        rc = exchange(j, t, e);
    if (rc == 0)
        rc = ask_cluster(j, t, e);
    transport_free(t);
    return rc;
}

static int fill(struct cred *out, struct joining *j, struct err *e)
{
    int rc = cred_set(&out->server, j->conf->server, e);

    if (rc == 0)
        rc = cred_set(&out->ns, j->conf->ns, e);
    if (rc == 0)
        rc = cred_set(&out->proxy, j->conf->proxy, e);
    if (rc == 0)
        rc = cred_received(out, loop_clock(j->loop), j->server_s, e);
    if (rc < 0)
        return rc;
    out->cluster = steal(j->cluster);
    out->ca_pem = steal(j->ca_pem);
    out->token = steal(j->token);
    return 0;
}

int enroll_join(struct cred *out, struct loop *l, const struct enroll_conf *c, struct err *e)
{
    CLEANUP(joining_fini) struct joining j = { .conf = c, .loop = l };
    int rc = check_conf(c, e);

    if (rc == 0)
        rc = take_token(&j, e);
    if (rc == 0)
        rc = settle_ca(&j, e);
    if (rc == 0)
        rc = trade_token(&j, e);
    return rc == 0 ? fill(out, &j, e) : rc;
}
