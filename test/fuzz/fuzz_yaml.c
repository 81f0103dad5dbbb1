// SPDX-License-Identifier: Apache-2.0
//
// YAML: what is converted is JSON that the strict parser takes, and that is read again from its print; a kubeconfig never crashes the reader.
#include <stdlib.h>
#include <string.h>

#include "data/json.h"
#include "wire/cred.h"
#include "wire/yaml.h"
#include "wire/yaml_print.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

// What is printed is read again as the same, but for what is too deep or too large for a text.
static void print_and_read(const struct json *j)
{
    struct buf text = BUF_INIT(1024 * 1024), back = BUF_INIT(1024 * 1024);
    struct json *again = NULL;
    struct err e = ERR_INIT;
    int rc = yaml_print(j, &text, &e);
    if (rc == 0)
        rc = yaml_to_json(buf_str(&text), text.len, 0, &back, &e);
    if (rc == 0)
        rc = json_parse(&again, buf_str(&back), back.len, &e);
    if (rc == 0 ? !json_equal(j, again) : rc == E_INVAL)
        abort();
    json_free(again);
    buf_fini(&back);
    buf_fini(&text);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct buf out = BUF_INIT(1024 * 1024);
    struct err e = ERR_INIT;
    const char *text = (const char *)data;
    for (int i = 0; i < 4 && yaml_to_json(text, size, i, &out, &e) == 0; i++) {
        struct json *j = NULL;
        if (json_parse(&j, buf_str(&out), out.len, &e) < 0 && e.cls == E_INVAL && strstr(e.msg, "deep") == NULL)
            abort();
        if (j != NULL)
            print_and_read(j);
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
