// SPDX-License-Identifier: Apache-2.0
// http_csr — a key of our own, the request to have it certified, and what such a request asks for.
//
// Beside http_tls the only file that sees mbedTLS. Nothing blocks but the arithmetic (some milliseconds for a key). Keys are secret: the
// caller wipes them.
#ifndef WIRE_HTTP_CSR_H
#define WIRE_HTTP_CSR_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

enum { TLS_KEY_PEM_MAX = 1024, TLS_CSR_PEM_MAX = 4096 };

// An EC key on P-256, as PEM. E_NOMEM.
int tls_make_key(struct clock *c, struct buf *key_pem, struct err *e) MUST_USE;
// A PKCS#10 request, as PEM, for that key and the subject O=organization, CN=name. E_INVAL: the name cannot be one.
int tls_make_csr(const char *key_pem, const char *organization, const char *name, struct clock *c, struct buf *csr_pem,
                 struct err *e) MUST_USE;
// Whether the request asks for exactly that subject and nothing more (no other names, no extensions), as one of tls_make_csr() does.
bool tls_csr_asks_for(const char *csr_pem, const char *organization, const char *name, struct clock *c);

#endif
