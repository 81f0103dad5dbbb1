// SPDX-License-Identifier: Apache-2.0
//
// One object: what the scanner takes, the strict parser takes too, but for the numbers and the NUL that a tree cannot hold (json.h), and the
// stripped bytes are again an object without status.
#include <stdlib.h>
#include <string.h>

#include "data/json.h"
#include "data/object.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void check_stripped(const struct buf *b)
{
    struct object_view v;
    struct span sp;
    struct err e = ERR_INIT;
    if (object_scan(&v, buf_str(b), b->len, &e) < 0 || v.status.p != NULL || v.managed_fields.p != NULL)
        abort();
    if (object_member(buf_str(b), b->len, NULL, "status", &sp))
        abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct object_view v;
    struct err e = ERR_INIT;
    const char *text = (const char *)data;
    if (object_scan(&v, text, size, &e) < 0)
        return 0;
    struct json *j = NULL;
    if (json_parse(&j, text, size, &e) == E_INVAL && strstr(e.msg, "a number is") == NULL && strstr(e.msg, "a string holds") == NULL)
        abort();
    json_free(j);
    struct buf b = BUF_INIT(OBJ_MAX + 4096);
    if (object_strip(&v, text, size, &b, &e) == 0)
        check_stripped(&b);
    buf_fini(&b);
    return 0;
}
