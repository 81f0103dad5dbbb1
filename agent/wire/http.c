// SPDX-License-Identifier: Apache-2.0
// The seam itself: whoever holds a transport calls through here. The transport on libcurl is http_curl.c.
#include "wire/http.h"

#include <string.h>

int http_submit(struct transport *t, struct http_req *r, struct err *e)
{
    return t->ops->submit(t, r, e);
}

void http_cancel(struct transport *t, struct http_req *r)
{
    t->ops->cancel(t, r);
}

void http_condemn(struct transport *t)
{
    t->ops->condemn(t);
}

void transport_free(struct transport *t)
{
    if (t != NULL)
        t->ops->free(t);
}

// RFC 3986: unreserved characters stand for themselves.
static bool is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c != '\0' && strchr("-._~", c) != NULL);
}

int http_escape(struct buf *b, const char *s, struct err *e)
{
    static const char hex[] = "0123456789ABCDEF";

    for (; *s != '\0'; s++) {
        unsigned char u = (unsigned char)*s;
        char coded[3] = { '%', hex[u >> 4], hex[u & 15] };
        int rc = is_unreserved(*s) ? buf_add(b, s, 1, e) : buf_add(b, coded, sizeof coded, e);
        if (rc < 0)
            return rc;
    }
    return 0;
}
