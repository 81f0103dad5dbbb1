// SPDX-License-Identifier: Apache-2.0
//
// Trees: what is parsed and printed is parsed again and means the same.
#include <stdlib.h>
#include <string.h>

#include "data/json.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct json *a = NULL, *b = NULL;
    struct err e = ERR_INIT;
    struct buf text = BUF_INIT(16 * 1024 * 1024);
    json_cap(8 * 1024 * 1024);
    if (json_parse(&a, (const char *)data, size, &e) == 0 && json_print(a, &text, &e) == 0) {
        if (json_parse(&b, buf_str(&text), text.len, &e) < 0) {
            if (e.cls == E_INVAL)
                abort();
        } else if (!json_equal(a, b) || json_hash(a) != json_hash(b)) {
            abort();
        }
    }
    json_free(a);
    json_free(b);
    json_cap(0);
    buf_fini(&text);
    return 0;
}
