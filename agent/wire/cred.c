// SPDX-License-Identifier: Apache-2.0
#include "wire/cred.h"

#include <stdio.h>
#include <string.h>

#include "version.h"
#include "wire/http_tls.h"
#include "wire/token.h"

#define SERVICE_ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

// Everything is wiped: which member holds a secret is then nobody's concern.
static void drop(char **member)
{
    if (*member != NULL)
        explicit_bzero(*member, strlen(*member));
    free(*member);
    *member = NULL;
}

void cred_fini(struct cred *c)
{
    char **all[] = { &c->server,     &c->ca_pem,    &c->token,        &c->cert_pem, &c->key_pem, &c->server_name,   &c->proxy,
                     &c->proxy_auth, &c->no_proxy,  &c->extra_ca_pem, &c->ns,       &c->cluster, &c->received_boot, &c->token_file,
                     &c->ca_file,    &c->cert_file, &c->key_file,     &c->user,     &c->spare,   &c->proxy_ca_pem };

    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        drop(all[i]);
    c->received_ms = c->received_s = 0;
}

int cred_set(char **member, const char *s, struct err *e)
{
    char *copy = s != NULL ? strdup(s) : NULL;

    if (s != NULL && copy == NULL)
        return err_set(e, E_NOMEM, "no memory for a credential");
    drop(member);
    *member = copy;
    return 0;
}

// --- files -----------------------------------------------------------------------------------------------------------------------

static void trim_end(struct buf *b)
{
    while (b->len > 0 && strchr(" \t\r\n", b->data[b->len - 1]) != NULL)
        b->data[--b->len] = '\0';
}

// *out stays NULL when no file is named.
static int read_file(struct disk *d, const char *path, size_t max, char **out, struct err *e)
{
    CLEANUP(buf_wipe) struct buf b = BUF_INIT(max);

    if (path == NULL)
        return 0;
    int rc = fs_read(d, path, max, 0, &b, e);
    if (rc < 0)
        return err_wrap(e, "reading %s", path);
    if (b.len > 0 && memchr(b.data, '\0', b.len) != NULL)
        return err_set(e, E_INVAL, "%s: not a text", path);
    trim_end(&b);
    if (b.len == 0) // a writer that is not done yet
        return err_set(e, E_INVAL, "%s: empty", path);
    *out = buf_steal(&b);
    return 0;
}

static void take(char **member, char **fresh, bool *changed)
{
    if (*fresh == NULL)
        return;
    if (*member == NULL || strcmp(*member, *fresh) != 0) {
        drop(member);
        *member = steal(*fresh);
        *changed = true;
    }
}

int cred_reload(struct cred *c, struct disk *d, bool *changed, struct err *e)
{
    CLEANUP(cred_fini) struct cred fresh = { 0 };

    *changed = false;
    int rc = read_file(d, c->token_file, CRED_TOKEN_MAX, &fresh.token, e);
    if (rc == 0)
        rc = read_file(d, c->ca_file, CRED_PEM_MAX, &fresh.ca_pem, e);
    if (rc == 0)
        rc = read_file(d, c->cert_file, CRED_PEM_MAX, &fresh.cert_pem, e);
    if (rc == 0)
        rc = read_file(d, c->key_file, CRED_PEM_MAX, &fresh.key_pem, e);
    if (rc < 0)
        return rc;
    take(&c->token, &fresh.token, changed);
    take(&c->ca_pem, &fresh.ca_pem, changed);
    take(&c->cert_pem, &fresh.cert_pem, changed);
    take(&c->key_pem, &fresh.key_pem, changed);
    return 0;
}

// --- in a pod --------------------------------------------------------------------------------------------------------------------

static int set_pod_server(struct cred *out, const char *host, const char *port, struct err *e)
{
    char url[300];
    bool is_ipv6 = strchr(host, ':') != NULL && host[0] != '[';
    int n = snprintf(url, sizeof url, is_ipv6 ? "https://[%s]:%s" : "https://%s:%s", host, port);

    if (n < 0 || (size_t)n >= sizeof url)
        return err_set(e, E_INVAL, "KUBERNETES_SERVICE_HOST: too long");
    return cred_set(&out->server, url, e);
}

int cred_in_cluster(struct cred *out, struct disk *d, const char *host, const char *port, struct err *e)
{
    bool changed;
    int rc = set_pod_server(out, host, port, e);

    if (rc == 0)
        rc = cred_set(&out->token_file, SERVICE_ACCOUNT_DIR "/token", e);
    if (rc == 0)
        rc = cred_set(&out->ca_file, SERVICE_ACCOUNT_DIR "/ca.crt", e);
    if (rc == 0)
        rc = cred_reload(out, d, &changed, e);
    drop(&out->ns);
    if (rc == 0)
        rc = read_file(d, SERVICE_ACCOUNT_DIR "/namespace", 256, &out->ns, e);
    return rc;
}

// --- what proves who we are -----------------------------------------------------------------------------------------------------

int cred_received(struct cred *c, struct clock *clock, int64_t server_s, struct err *e)
{
    struct instant now;

    clock_instant(clock, &now);
    int rc = cred_set(&c->received_boot, now.boot_id, e);
    if (rc == 0) {
        c->received_ms = now.boot_ms;
        c->received_s = server_s;
    }
    return rc;
}

bool cred_lifetime(const struct cred *c, int64_t *began, int64_t *expires)
{
    struct token_claims claims;

    *began = *expires = 0;
    if (c->token != NULL) {
        if (token_read(c->token, &claims, NULL) < 0)
            return false;
        *began = claims.issued;
        *expires = claims.expires;
    } else if (c->cert_pem == NULL || tls_cert_dates(c->cert_pem, began, expires, NULL) < 0) {
        return false;
    } else if (c->received_s > *began && c->received_s < *expires) {
        *began = c->received_s; // a signer sets the beginning back, for those whose clock is late
    }
    return *expires > 0;
}

int cred_take_proof(struct cred *c, const struct cred *from, struct err *e)
{
    CLEANUP(cred_fini) struct cred copy = { 0 };
    int rc = cred_set(&copy.token, from->token, e);

    if (rc == 0)
        rc = cred_set(&copy.cert_pem, from->cert_pem, e);
    if (rc == 0)
        rc = cred_set(&copy.key_pem, from->key_pem, e);
    if (rc == 0)
        rc = cred_set(&copy.spare, from->spare, e);
    if (rc == 0)
        rc = cred_set(&copy.received_boot, from->received_boot, e);
    if (rc < 0)
        return rc;
    char **to[] = { &c->token, &c->cert_pem, &c->key_pem, &c->spare, &c->received_boot };
    char **of[] = { &copy.token, &copy.cert_pem, &copy.key_pem, &copy.spare, &copy.received_boot };
    for (size_t i = 0; i < ARRAY_LEN(to); i++) {
        drop(to[i]);
        *to[i] = steal(*of[i]);
    }
    c->received_ms = from->received_ms;
    c->received_s = from->received_s;
    return 0;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

bool cred_same_proof(const struct cred *a, const struct cred *b)
{
    return same_text(a->token, b->token) && same_text(a->cert_pem, b->cert_pem) && same_text(a->key_pem, b->key_pem);
}

bool cred_same_place(const struct cred *a, const struct cred *b)
{
    return same_text(a->server, b->server) && same_text(a->ca_pem, b->ca_pem) && same_text(a->ns, b->ns);
}

int cred_transport(struct transport **out, struct loop *l, const struct cred *c, bool any_date, struct err *e)
{
    struct http_conf hc = { .base_url = c->server,
                            .ca_pem = c->ca_pem,
                            .cert_pem = c->cert_pem,
                            .key_pem = c->key_pem,
                            .server_name = c->server_name,
                            .proxy = c->proxy,
                            .no_proxy = c->no_proxy,
                            .proxy_auth = c->proxy_auth,
                            .extra_ca_pem = c->extra_ca_pem,
                            .proxy_ca_pem = c->proxy_ca_pem,
                            .user_agent = "limpet/" LIMPET_VERSION,
                            .any_date = any_date };
    int rc = http_new(out, l, &hc, e);

    if (rc < 0 || any_date)
        return rc;
    rc = http_set_bearer(*out, c->token, e);
    if (rc < 0)
        transport_free(steal(*out));
    return rc;
}

// --- which CA --------------------------------------------------------------------------------------------------------------------

int cred_ca_hash(const char *ca_pem, char out[72], struct err *e)
{
    struct tls_ca_keys keys;
    int rc = tls_ca_keys(ca_pem, &keys, e);

    if (rc == 0)
        tls_hash_text(keys.digest[0], out);
    return rc;
}

static bool has_key(const struct tls_ca_keys *keys, const unsigned char digest[32])
{
    for (size_t i = 0; i < keys->n; i++)
        if (memcmp(keys->digest[i], digest, 32) == 0)
            return true;
    return false;
}

static bool has_all(const struct tls_ca_keys *keys, const struct tls_ca_keys *wanted)
{
    for (size_t i = 0; i < wanted->n; i++)
        if (!has_key(keys, wanted->digest[i]))
            return false;
    return true;
}

bool cred_same_ca(const char *a_pem, const char *b_pem)
{
    struct tls_ca_keys a, b;

    if (a_pem == NULL || b_pem == NULL || tls_ca_keys(a_pem, &a, NULL) < 0 || tls_ca_keys(b_pem, &b, NULL) < 0)
        return false;
    return has_all(&a, &b) && has_all(&b, &a);
}
