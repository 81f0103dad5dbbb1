// SPDX-License-Identifier: Apache-2.0
#include "wire/http_tls.h"

#include <arpa/inet.h>
#include <mbedtls/error.h>
#include <mbedtls/pem.h>
#include <mbedtls/pk.h>
#include <mbedtls/platform_time.h>
#include <mbedtls/sha256.h>
#include <mbedtls/ssl.h>
#include <mbedtls/x509_crt.h>
#include <stdio.h>
#include <string.h>

// mbedTLS asks for the time without saying for whom, so the clock is the process's. There is one.
static struct clock *tls_clock;

static mbedtls_time_t seam_time(mbedtls_time_t *out)
{
    mbedtls_time_t now = (mbedtls_time_t)(clock_wall_us(tls_clock) / 1000000);

    if (out != NULL)
        *out = now;
    return now;
}

static int seam_random(void *ctx, unsigned char *out, size_t n)
{
    struct clock *c = ctx;

    c->ops->random(c, out, n);
    return 0;
}

static int tls_err(struct err *e, int cls, int rc, const char *what)
{
    char text[128];

    mbedtls_strerror(rc, text, sizeof text);
    return err_set(e, cls, "%s: %s", what, text);
}

void tls_policy_init(struct tls_policy *p, struct clock *c, bool accept_any)
{
    *p = (struct tls_policy){ .clock = c, .accept_any = accept_any };
    buf_init(&p->served, TLS_PEM_MAX);
    tls_clock = c;
    mbedtls_platform_set_time(seam_time);
}

void tls_policy_fini(struct tls_policy *p)
{
    buf_fini(&p->served);
}

// --- judging a chain -------------------------------------------------------------------------------------------------------------

static int add_pem(struct buf *out, const mbedtls_x509_crt *crt, struct err *e)
{
    size_t len = 0;

    // The first call only tells the length.
    (void)mbedtls_pem_write_buffer("-----BEGIN CERTIFICATE-----\n", "-----END CERTIFICATE-----\n", crt->raw.p, crt->raw.len, NULL, 0, &len);
    AUTO_FREE unsigned char *pem = malloc(len);
    if (pem == NULL)
        return err_set(e, E_NOMEM, "no memory for a certificate");
    int rc =
        mbedtls_pem_write_buffer("-----BEGIN CERTIFICATE-----\n", "-----END CERTIFICATE-----\n", crt->raw.p, crt->raw.len, pem, len, &len);
    if (rc != 0)
        return tls_err(e, E_INVAL, rc, "writing a certificate");
    return buf_adds(out, (const char *)pem, e);
}

static void keep_served(struct tls_policy *p, const mbedtls_x509_crt *leaf)
{
    buf_reset(&p->served);
    for (const mbedtls_x509_crt *c = leaf; c != NULL; c = c->next)
        if (add_pem(&p->served, c, NULL) < 0)
            return; // what fits is what the caller can compare
}

static int64_t seconds_of(const mbedtls_x509_time *t)
{
    char text[RFC3339_MAX * 3];
    int64_t us = 0;

    snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02dZ", t->year, t->mon, t->day, t->hour, t->min, t->sec);
    return rfc3339_parse(text, &us) ? us / 1000000 : 0;
}

// Texts of a stranger: what is not plain is shown as a question mark.
static void add_text(char *out, size_t max, const unsigned char *p, size_t n)
{
    size_t at = strlen(out);

    for (size_t i = 0; i < n && at + 1 < max; i++)
        out[at++] = (char)(p[i] > ' ' && p[i] <= '~' ? p[i] : '?');
    out[at] = '\0';
}

static void add_address(char *out, size_t max, const mbedtls_x509_buf *a)
{
    char text[INET6_ADDRSTRLEN];

    if (inet_ntop(a->len == 4 ? AF_INET : AF_INET6, a->p, text, sizeof text) != NULL)
        add_text(out, max, (const unsigned char *)text, strlen(text));
}

static void list_names(char *out, size_t max, const mbedtls_x509_crt *crt)
{
    out[0] = '\0';
    for (const mbedtls_x509_sequence *s = &crt->subject_alt_names; s != NULL && s->buf.p != NULL; s = s->next) {
        mbedtls_x509_subject_alternative_name san;
        if (mbedtls_x509_parse_subject_alt_name(&s->buf, &san) != 0)
            continue;
        size_t len = strlen(out);
        if (len > 0)
            snprintf(out + len, max - len, ", ");
        if (san.type == MBEDTLS_X509_SAN_IP_ADDRESS && (san.san.unstructured_name.len == 4 || san.san.unstructured_name.len == 16))
            add_address(out, max, &san.san.unstructured_name);
        else if (san.type == MBEDTLS_X509_SAN_DNS_NAME)
            add_text(out, max, san.san.unstructured_name.p, san.san.unstructured_name.len);
        mbedtls_x509_free_subject_alt_name(&san);
    }
}

// The narrowest span of the chain is what counts.
static void note_peer(struct tls_peer *peer, const mbedtls_x509_crt *crt, int depth)
{
    int64_t from = seconds_of(&crt->valid_from), to = seconds_of(&crt->valid_to);

    peer->not_before = MAX(peer->not_before, from);
    peer->not_after = peer->not_after == 0 ? to : MIN(peer->not_after, to);
    if (depth != 0)
        return;
    list_names(peer->names, sizeof peer->names, crt);
    if (mbedtls_x509_dn_gets(peer->issuer, sizeof peer->issuer, &crt->issuer) < 0)
        peer->issuer[0] = '\0';
}

static bool is_extra(const struct tls_policy *p, const mbedtls_x509_crt *crt)
{
    unsigned char digest[32];

    if (p->extra.n == 0 || mbedtls_sha256(crt->pk_raw.p, crt->pk_raw.len, digest, 0) != 0)
        return false;
    for (size_t i = 0; i < p->extra.n; i++)
        if (memcmp(p->extra.digest[i], digest, sizeof digest) == 0)
            return true;
    return false;
}

// Called for each certificate of the chain, the server's own last (depth 0). mbedTLS refuses if any flag is left.
static int judge(void *ctx, mbedtls_x509_crt *crt, int depth, uint32_t *flags)
{
    struct tls_policy *p = ctx;

    if (p->accept_any) {
        if (depth == 0)
            keep_served(p, crt);
        *flags = 0;
        return 0;
    }
    p->by_extra = p->by_extra || is_extra(p, crt);
    if (p->tell)
        note_peer(&p->peer, crt, depth);
    if (p->any_date)
        *flags &= ~(uint32_t)(MBEDTLS_X509_BADCERT_FUTURE | MBEDTLS_X509_BADCERT_EXPIRED);
    // A clock that starts in the past must not keep the node from the server that would set it right. The chain still has to
    // lead to the pinned CA: that flag is not touched, and an authority beside it does not do.
    if (!clock_trusted(p->clock) && !p->by_extra)
        *flags &= ~(uint32_t)MBEDTLS_X509_BADCERT_FUTURE;
    p->refused |= *flags;
    return 0;
}

void tls_policy_apply(struct tls_policy *p, void *ssl_config)
{
    mbedtls_ssl_config *conf = ssl_config;

    p->refused = 0;
    p->by_extra = false;
    p->peer = (struct tls_peer){ 0 };
    mbedtls_ssl_conf_verify(conf, judge, p);
    mbedtls_ssl_conf_cert_profile(conf, &mbedtls_x509_crt_profile_default);
}

void tls_policy_explain(const struct tls_policy *p, char *out, size_t max)
{
    out[0] = '\0';
    if (p->refused == 0)
        return;
    if (mbedtls_x509_crt_verify_info(out, max, "", p->refused) < 0)
        snprintf(out, max, "certificate flags 0x%x", p->refused);
    for (char *c = out; *c != '\0'; c++) // several reasons come on lines of their own
        if (*c == '\n')
            *c = c[1] == '\0' ? '\0' : ' ';
}

bool tls_policy_untrusted(const struct tls_policy *p)
{
    return (p->refused & MBEDTLS_X509_BADCERT_NOT_TRUSTED) != 0;
}

bool tls_policy_other_name(const struct tls_policy *p)
{
    return (p->refused & MBEDTLS_X509_BADCERT_CN_MISMATCH) != 0;
}

// --- PEM texts -------------------------------------------------------------------------------------------------------------------

static int parse_certs(mbedtls_x509_crt *chain, const char *pem, const char *what, struct err *e)
{
    size_t len = strlen(pem);
    int rc;

    if (len >= TLS_PEM_MAX)
        return err_set(e, E_TOOBIG, "%s: longer than %d bytes", what, TLS_PEM_MAX);
    rc = mbedtls_x509_crt_parse(chain, (const unsigned char *)pem, len + 1);
    if (rc > 0)
        return err_set(e, E_INVAL, "%s: %d of its certificates cannot be read", what, rc);
    if (rc < 0)
        return tls_err(e, E_INVAL, rc, what);
    return 0;
}

int tls_check_certs(const char *pem, const char *what, struct err *e)
{
    mbedtls_x509_crt chain;

    mbedtls_x509_crt_init(&chain);
    int rc = parse_certs(&chain, pem, what, e);
    mbedtls_x509_crt_free(&chain);
    return rc;
}

int tls_cert_dates(const char *pem, int64_t *not_before, int64_t *not_after, struct err *e)
{
    mbedtls_x509_crt chain;

    mbedtls_x509_crt_init(&chain);
    int rc = parse_certs(&chain, pem, "certificate", e);
    if (rc == 0) {
        *not_before = seconds_of(&chain.valid_from);
        *not_after = seconds_of(&chain.valid_to);
    }
    mbedtls_x509_crt_free(&chain);
    return rc;
}

static int check_pair(mbedtls_x509_crt *chain, mbedtls_pk_context *key, const char *key_pem, struct clock *c, struct err *e)
{
    int rc = mbedtls_pk_parse_key(key, (const unsigned char *)key_pem, strlen(key_pem) + 1, NULL, 0, seam_random, c);

    if (rc != 0)
        return tls_err(e, E_INVAL, rc, "client key");
    if (mbedtls_pk_check_pair(&chain->pk, key, seam_random, c) != 0)
        return err_set(e, E_INVAL, "client key: does not belong to the client certificate");
    return 0;
}

int tls_check_key(const char *cert_pem, const char *key_pem, struct clock *c, struct err *e)
{
    mbedtls_x509_crt chain;
    mbedtls_pk_context key;

    mbedtls_x509_crt_init(&chain);
    mbedtls_pk_init(&key);
    int rc = parse_certs(&chain, cert_pem, "client certificate", e);
    if (rc == 0)
        rc = check_pair(&chain, &key, key_pem, c, e);
    mbedtls_pk_free(&key);
    mbedtls_x509_crt_free(&chain);
    return rc;
}

static int hash_keys(const mbedtls_x509_crt *chain, struct tls_ca_keys *out, struct err *e)
{
    out->n = 0;
    for (const mbedtls_x509_crt *c = chain; c != NULL; c = c->next) {
        if (out->n == TLS_CA_KEYS_MAX)
            return err_set(e, E_TOOBIG, "CA: more than %d certificates", TLS_CA_KEYS_MAX);
        int rc = mbedtls_sha256(c->pk_raw.p, c->pk_raw.len, out->digest[out->n], 0);
        if (rc != 0)
            return tls_err(e, E_INVAL, rc, "CA");
        out->n++;
    }
    return 0;
}

int tls_ca_keys(const char *pem, struct tls_ca_keys *out, struct err *e)
{
    mbedtls_x509_crt chain;

    mbedtls_x509_crt_init(&chain);
    int rc = parse_certs(&chain, pem, "CA", e);
    if (rc == 0)
        rc = hash_keys(&chain, out, e);
    mbedtls_x509_crt_free(&chain);
    return rc;
}

void tls_hash_text(const unsigned char digest[32], char out[TLS_HASH_MAX])
{
    char *p = out + sprintf(out, "sha256:");

    for (size_t i = 0; i < 32; i++)
        p += sprintf(p, "%02x", digest[i]);
}

static int visit_cas(const mbedtls_x509_crt *chain, int (*fn)(void *ctx, const char *one_pem), void *ctx, struct err *e)
{
    AUTO_BUF struct buf one = BUF_INIT(TLS_PEM_MAX);

    for (const mbedtls_x509_crt *c = chain; c != NULL; c = c->next) {
        if (mbedtls_x509_crt_get_ca_istrue(c) != 1)
            continue;
        buf_reset(&one);
        int rc = add_pem(&one, c, e);
        if (rc == 0)
            rc = fn(ctx, buf_str(&one));
        if (rc != 0)
            return rc;
    }
    return 0;
}

int tls_each_ca(const char *pem, int (*fn)(void *ctx, const char *one_pem), void *ctx, struct err *e)
{
    mbedtls_x509_crt chain;

    mbedtls_x509_crt_init(&chain);
    int rc = parse_certs(&chain, pem, "certificates", e);
    if (rc == 0)
        rc = visit_cas(&chain, fn, ctx, e);
    mbedtls_x509_crt_free(&chain);
    return rc;
}
