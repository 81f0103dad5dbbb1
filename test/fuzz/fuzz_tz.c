// SPDX-License-Identifier: Apache-2.0
//
// Time zones: any bytes are a TZif file or a POSIX TZ string, or are refused; what is taken has offsets of about a day at most at any
// instant, and a schedule in it ends, after the instant that was asked about.
#include <stdlib.h>
#include <string.h>

#include "expr/cron.h"
#include "expr/tz_priv.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

enum { OFFSET_MAX = 100000 };

static void check_offset(const struct tz *z, int64_t at_s)
{
    int offset = tz_offset(z, at_s);
    if (offset < -OFFSET_MAX || offset > OFFSET_MAX)
        abort();
}

static void check_next(const struct tz *z, const char *schedule, int64_t after_s)
{
    struct cron c;
    if (cron_parse(&c, schedule, NULL) != 0)
        abort();
    int64_t next = cron_next(&c, z, after_s);
    if (next != -1 && next <= after_s)
        abort();
}

static void check_zone(const struct tz *z)
{
    static const char *const schedules[] = { "* * * * *", "30 2 * * *", "0 0 29 2 *", "15 3 1 JAN MON", "59 23 31 4 *" };
    for (int i = 0; i < 64; i++) {
        check_offset(z, (int64_t)(UINT64_C(1) << i));
        check_offset(z, -(int64_t)(UINT64_C(1) << i >> 1));
    }
    for (size_t i = 0; i < ARRAY_LEN(schedules); i++)
        for (int64_t at = -1; at < INT64_C(1) << 33; at += INT64_C(1) << 30)
            check_next(z, schedules[i], at);
    if (z->n > 0)
        check_next(z, schedules[1], z->change[z->n / 2].at_s - 3600);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct tz *z = NULL;
    if (tz_parse_file(&z, data, size, NULL) == 0)
        check_zone(z);
    tz_free(z);

    char text[128];
    size_t n = MIN(size, sizeof text - 1);
    struct tz rule = { .ruled = true };
    memcpy(text, data, n);
    text[n] = '\0';
    if (tz_rule_parse(&rule.rule, text, NULL) == 0)
        check_zone(&rule);
    return 0;
}
