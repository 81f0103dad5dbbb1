// SPDX-License-Identifier: Apache-2.0
#include "wire/token.h"

#include <stdio.h>
#include <string.h>

#include "data/json.h"
#include "wire/base64.h"

enum { PAYLOAD_MAX = 16 * 1024 };

static int read_payload(const char *jwt, struct json **out, struct err *e)
{
    CLEANUP(buf_wipe) struct buf payload = BUF_INIT(PAYLOAD_MAX);
    size_t head = strcspn(jwt, ".");
    size_t body = jwt[head] == '.' ? strcspn(jwt + head + 1, ".") : 0;

    if (body == 0 || jwt[head + 1 + body] != '.')
        return err_set(e, E_INVAL, "not a ServiceAccount token (three parts with dots between them)");
    if (base64_decode(jwt + head + 1, body, &payload, NULL) < 0 || json_parse(out, buf_str(&payload), payload.len, NULL) < 0)
        return err_set(e, E_INVAL, "not a ServiceAccount token (its payload is unreadable)");
    return 0;
}

// "system:serviceaccount:NS:ACCOUNT". What does not fit is another subject.
static void split_subject(const char *sub, struct token_claims *out)
{
    static const char prefix[] = "system:serviceaccount:";

    if (sub == NULL || strncmp(sub, prefix, sizeof prefix - 1) != 0)
        return;
    sub += sizeof prefix - 1;
    size_t n = strcspn(sub, ":");
    if (sub[n] != ':' || n >= sizeof out->ns || strlen(sub + n + 1) >= sizeof out->account)
        return;
    memcpy(out->ns, sub, n);
    strcpy(out->account, sub + n + 1);
}

int token_read(const char *jwt, struct token_claims *out, struct err *e)
{
    AUTO_JSON struct json *j = NULL;
    int rc = read_payload(jwt, &j, e);

    *out = (struct token_claims){ 0 };
    if (rc < 0)
        return rc;
    if (!json_i64(json_get(j, "exp"), &out->expires) || out->expires < 0)
        out->expires = 0;
    if (!json_i64(json_get(j, "iat"), &out->issued) || out->issued < 0)
        out->issued = 0;
    split_subject(json_str(json_get(j, "sub")), out);
    return 0;
}

int64_t token_expiry(const char *jwt)
{
    struct token_claims c;

    return jwt != NULL && token_read(jwt, &c, NULL) == 0 ? c.expires : 0;
}
