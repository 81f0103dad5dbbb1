// SPDX-License-Identifier: Apache-2.0
// Schedules in UTC and by POSIX rules, which are the same on every machine. test/cron compares many more with the Go library.
#include "base/clock.h"
#include "expr/cron.c"
#include "tap.h"

static struct disk no_disk; // POSIX strings that look like no name never reach it

static int64_t instant(const char *text)
{
    int64_t us = 0;
    if (!rfc3339_parse(text, &us))
        fail("%s is a time", text);
    return us / 1000000;
}

// The runs after `from`, as many as `want` holds, in the zone.
static void runs(const char *schedule, const char *zone, const char *from, const char *const *want, size_t n)
{
    struct err e = ERR_INIT;
    struct cron c;
    struct tz *z = NULL;
    char text[RFC3339_MAX];
    int64_t at = instant(from);
    if (!is_int(cron_parse(&c, schedule, &e), 0, "\"%s\" is a schedule", schedule))
        return diag("%s", e.msg);
    if (zone != NULL && !is_int(tz_load(&z, &no_disk, zone, &e), 0, "%s is a zone", zone))
        return diag("%s", e.msg);
    for (size_t i = 0; i < n; i++) {
        at = cron_next(&c, z, at);
        is_str(at < 0 ? "never" : rfc3339_sec(at * 1000000, text), want[i], "\"%s\" in %s after %s, %zu", schedule, zone ? zone : "UTC",
               from, i);
    }
    tz_free(z);
}
#define RUNS(schedule, zone, from, ...) \
    runs(schedule, zone, from, (const char *const[]){ __VA_ARGS__ }, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

static void test_utc(void)
{
    RUNS("*/15 * * * *", NULL, "2026-11-30T14:45:00Z", "2026-11-30T15:00:00Z", "2026-11-30T15:15:00Z");
    RUNS("0 0 29 2 *", NULL, "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z");
    RUNS("0 0 30 2 *", NULL, "2026-01-01T00:00:00Z", "never");
    RUNS("0 12 31 * *", NULL, "2026-01-31T12:00:00Z", "2026-03-31T12:00:00Z", "2026-05-31T12:00:00Z");
    RUNS("0 0 13 * FRI", NULL, "2026-11-01T00:00:00Z", "2026-11-06T00:00:00Z", "2026-11-13T00:00:00Z", "2026-11-20T00:00:00Z");
    RUNS("@every 90m", NULL, "2026-11-30T14:45:10Z", "2026-11-30T16:15:10Z");
}

static void test_berlin(void)
{
    static const char berlin[] = "CET-1CEST,M3.5.0,M10.5.0/3";
    RUNS("30 2 * * *", berlin, "2026-03-27T12:00:00Z", "2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z");
    RUNS("30 2 * * *", berlin, "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z");
}

int main(void)
{
    test_utc();
    test_berlin();
    return done_testing();
}
