// SPDX-License-Identifier: Apache-2.0
//
// YAML: what is converted is JSON that the strict parser takes; a kubeconfig never crashes the reader.
#include <stdlib.h>
#include <string.h>

#include "data/json.h"
#include "wire/cred.h"
#include "wire/yaml.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct buf out = BUF_INIT(1024 * 1024);
    struct err e = ERR_INIT;
    const char *text = (const char *)data;
    for (int i = 0; i < 4 && yaml_to_json(text, size, i, &out, &e) == 0; i++) {
        struct json *j = NULL;
        if (json_parse(&j, buf_str(&out), out.len, &e) < 0 && e.cls == E_INVAL && strstr(e.msg, "deep") == NULL)
            abort();
        json_free(j);
        buf_reset(&out);
    }
    buf_fini(&out);
    struct cred c = { 0 };
    int rc = kubeconfig_parse(&c, text, size, "/fuzz/config", NULL, &e);
    (void)rc;
    cred_fini(&c);
    return 0;
}
