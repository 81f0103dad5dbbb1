// SPDX-License-Identifier: Apache-2.0
//
// Schedules: any text is one or is refused with a reason, and what is one has its runs in order.
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "expr/cron.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void check_runs(const struct cron *c)
{
    for (int64_t from = -1; from < INT64_C(1) << 33; from += INT64_C(1) << 30) {
        int64_t next = cron_next(c, NULL, from);
        if (next == -1)
            continue;
        if (next <= from || (c->every_s == 0 && next % 60 != 0) || (c->every_s == 0 && cron_next(c, NULL, next - 1) != next))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct err e = ERR_INIT;
    struct cron c;
    char *text AUTO_FREE = malloc(size + 1);
    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (cron_parse(&c, text, &e) == 0)
        check_runs(&c);
    else if (e.cls != E_INVAL || strncmp(e.msg, "schedule", 8) != 0)
        abort();
    return 0;
}
