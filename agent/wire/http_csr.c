// SPDX-License-Identifier: Apache-2.0
#include "wire/http_csr.h"

#include <mbedtls/asn1.h>
#include <mbedtls/ecp.h>
#include <mbedtls/pem.h>
#include <mbedtls/pk.h>
#include <mbedtls/x509_csr.h>
#include <stdio.h>
#include <string.h>

enum { SUBJECT_MAX = 400 };

static int seam_random(void *ctx, unsigned char *out, size_t n)
{
    struct clock *c = ctx;

    c->ops->random(c, out, n);
    return 0;
}

static int generate(mbedtls_pk_context *key, struct clock *c)
{
    int rc = mbedtls_pk_setup(key, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY));

    return rc != 0 ? rc : mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(*key), seam_random, c);
}

int tls_make_key(struct clock *c, struct buf *key_pem, struct err *e)
{
    unsigned char text[TLS_KEY_PEM_MAX];
    mbedtls_pk_context key;

    mbedtls_pk_init(&key);
    int rc = generate(&key, c);
    if (rc == 0)
        rc = mbedtls_pk_write_key_pem(&key, text, sizeof text);
    mbedtls_pk_free(&key);
    int cls = rc == 0 ? buf_adds(key_pem, (const char *)text, e) : err_set(e, E_NOMEM, "making a key: error -0x%04x", (unsigned)-rc);
    explicit_bzero(text, sizeof text);
    return cls;
}

// A subject is written as text, in which some characters have a meaning; a node's name has none of them.
static int write_subject(char out[SUBJECT_MAX], const char *organization, const char *name, struct err *e)
{
    int n = snprintf(out, SUBJECT_MAX, "O=%s,CN=%s", organization, name);

    if (n < 0 || n >= SUBJECT_MAX || strpbrk(organization, ",=+\\#\"<>;") != NULL || strpbrk(name, ",=+\\#\"<>;") != NULL)
        return err_set(e, E_INVAL, "not a name for a certificate: %.60s", name);
    return 0;
}

static int write_csr(mbedtls_x509write_csr *csr, mbedtls_pk_context *key, const char *key_pem, const char *subject, struct clock *c,
                     unsigned char text[TLS_CSR_PEM_MAX])
{
    int rc = mbedtls_pk_parse_key(key, (const unsigned char *)key_pem, strlen(key_pem) + 1, NULL, 0, seam_random, c);

    mbedtls_x509write_csr_set_md_alg(csr, MBEDTLS_MD_SHA256);
    mbedtls_x509write_csr_set_key(csr, key);
    if (rc == 0)
        rc = mbedtls_x509write_csr_set_subject_name(csr, subject);
    return rc != 0 ? rc : mbedtls_x509write_csr_pem(csr, text, TLS_CSR_PEM_MAX, seam_random, c);
}

int tls_make_csr(const char *key_pem, const char *organization, const char *name, struct clock *c, struct buf *csr_pem, struct err *e)
{
    char subject[SUBJECT_MAX];
    unsigned char text[TLS_CSR_PEM_MAX];
    mbedtls_x509write_csr csr;
    mbedtls_pk_context key;

    if (write_subject(subject, organization, name, e) < 0)
        return E_INVAL;
    mbedtls_x509write_csr_init(&csr);
    mbedtls_pk_init(&key);
    int rc = write_csr(&csr, &key, key_pem, subject, c, text);
    mbedtls_x509write_csr_free(&csr);
    mbedtls_pk_free(&key);
    return rc == 0 ? buf_adds(csr_pem, (const char *)text, e)
                   : err_set(e, E_INVAL, "making a certificate request: error -0x%04x", (unsigned)-rc);
}

// What of a request is the same in each that is made for one name: all but the key.
struct csr_parts {
    const unsigned char *subject, *rest;
    size_t subject_len, rest_len;
};

static bool enter(unsigned char **p, const unsigned char *end, size_t *len)
{
    return mbedtls_asn1_get_tag(p, end, len, MBEDTLS_ASN1_CONSTRUCTED | MBEDTLS_ASN1_SEQUENCE) == 0;
}

// CertificationRequest ::= SEQUENCE { SEQUENCE { version INTEGER, subject SEQUENCE, key SEQUENCE, attributes [0] }, ...
static bool take_apart(unsigned char *p, const unsigned char *end, struct csr_parts *out)
{
    int version;
    size_t n;

    if (!enter(&p, end, &n) || !enter(&p, end, &n))
        return false;
    end = p + n;
    if (mbedtls_asn1_get_int(&p, end, &version) != 0 || !enter(&p, end, &out->subject_len))
        return false;
    out->subject = p;
    p += out->subject_len;
    if (!enter(&p, end, &n))
        return false;
    out->rest = p + n;
    out->rest_len = (size_t)(end - out->rest);
    return true;
}

static bool name_of(const char *csr_pem, struct buf *out)
{
    struct csr_parts parts;
    unsigned char *der;
    mbedtls_pem_context pem;
    size_t used, n;

    mbedtls_pem_init(&pem);
    bool found = mbedtls_pem_read_buffer(&pem, "-----BEGIN CERTIFICATE REQUEST-----", "-----END CERTIFICATE REQUEST-----",
                                         (const unsigned char *)csr_pem, NULL, 0, &used) == 0;
    if (found) {
        der = (unsigned char *)mbedtls_pem_get_buffer(&pem, &n);
        found = take_apart(der, der + n, &parts) && buf_add(out, parts.subject, parts.subject_len, NULL) == 0 &&
                buf_add(out, "", 1, NULL) == 0 && buf_add(out, parts.rest, parts.rest_len, NULL) == 0;
    }
    mbedtls_pem_free(&pem);
    return found;
}

bool tls_csr_asks_for(const char *csr_pem, const char *organization, const char *name, struct clock *c)
{
    CLEANUP(buf_wipe) struct buf key = BUF_INIT(TLS_KEY_PEM_MAX);
    AUTO_BUF struct buf ours = BUF_INIT(TLS_CSR_PEM_MAX), asked = BUF_INIT(SUBJECT_MAX), wanted = BUF_INIT(SUBJECT_MAX);

    // One made the same way has the same bytes there.
    if (tls_make_key(c, &key, NULL) < 0 || tls_make_csr(buf_str(&key), organization, name, c, &ours, NULL) < 0)
        return false;
    return name_of(csr_pem, &asked) && name_of(buf_str(&ours), &wanted) && asked.len == wanted.len &&
           memcmp(asked.data, wanted.data, wanted.len) == 0;
}
