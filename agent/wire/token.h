// SPDX-License-Identifier: Apache-2.0
// token — what a ServiceAccount token says of itself. It is not verified here: the server does that; we only plan by it. Pure.
#ifndef WIRE_TOKEN_H
#define WIRE_TOKEN_H

#include "base/err.h"

#include <stdint.h>

struct token_claims {
    int64_t issued, expires;   // seconds since 1970 by the server's clock, 0 = not said
    char ns[64], account[254]; // of "system:serviceaccount:NS:ACCOUNT", "" = another subject
};

// E_INVAL: not a JSON web token.
int token_read(const char *jwt, struct token_claims *out, struct err *e) MUST_USE;
// Expiry of a JWT (seconds since 1970) from its unverified payload; 0 when there is none.
int64_t token_expiry(const char *jwt);

#endif
