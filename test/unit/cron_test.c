// SPDX-License-Identifier: Apache-2.0
// Schedules: public cases of cron, worked out by hand. Most zones are POSIX rules, which are the same on every machine; those with a
// history are the system's. test/cron compares a hundred thousand random cases with the library that Kubernetes uses.
#include "expr/cron.c"

#include "base/clock.h"
#include "tap.h"

static struct disk *disk;

static const char berlin[] = "CET-1CEST,M3.5.0,M10.5.0/3", new_york[] = "EST5EDT,M3.2.0,M11.1.0", dublin[] = "IST-1GMT0,M10.5.0,M3.5.0/1",
                  lord_howe[] = "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", chatham[] = "<+1245>-12:45<+1345>,M9.5.0/2:45,M4.1.0/3:45",
                  kathmandu[] = "<+0545>-5:45", troll[] = "<+00>0<+02>-2,M3.5.0/1,M10.5.0/3";

static int64_t instant(const char *text)
{
    int64_t us = 0;
    if (!rfc3339_parse(text, &us))
        fail("%s is a time", text);
    return us / 1000000;
}

static void check_runs(const struct cron *c, const struct tz *z, const char *what, const char *from, const char *const *want, size_t n)
{
    char text[RFC3339_MAX];
    int64_t at = instant(from);
    for (size_t i = 0; i < n; i++) {
        at = cron_next(c, z, at);
        is_str(at < 0 ? "never" : rfc3339_sec(at * 1000000, text), want[i], "%s: run %zu after %s", what, i + 1, from);
    }
}

// The runs after `from`, as many as `want` has, in the zone; NULL = UTC. A zone that tzdata lacks here is skipped.
static void runs(const char *schedule, const char *zone, const char *from, const char *const *want, size_t n)
{
    struct err e = ERR_INIT;
    struct cron c;
    struct tz *z = NULL;
    char what[200];
    snprintf(what, sizeof what, "\"%s\" in %s", schedule, zone != NULL ? zone : "UTC");
    int rc = zone != NULL ? tz_load(&z, disk, zone, &e) : 0;
    if (rc == E_NOTFOUND && strchr(zone, ',') == NULL)
        return skip("%s: %s", what, e.msg);
    if (rc == 0)
        rc = cron_parse(&c, schedule, &e);
    if (rc != 0)
        fail("%s: %s", what, e.msg);
    else
        check_runs(&c, z, what, from, want, n);
    tz_free(z);
}
#define RUNS(schedule, zone, from, ...) \
    runs(schedule, zone, from, (const char *const[]){ __VA_ARGS__ }, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

static void test_fields(void)
{
    RUNS("*/15 * * * *", NULL, "2026-11-30T14:45:00Z", "2026-11-30T15:00:00Z", "2026-11-30T15:15:00Z");
    RUNS("5/15 * * * *", NULL, "2026-11-30T14:45:00Z", "2026-11-30T14:50:00Z", "2026-11-30T15:05:00Z");
    RUNS("3-17/7 4 * * *", NULL, "2026-11-30T04:00:00Z", "2026-11-30T04:03:00Z", "2026-11-30T04:10:00Z", "2026-11-30T04:17:00Z",
         "2026-12-01T04:03:00Z");
    RUNS("1,,+2 ? ? * *", NULL, "2026-11-30T14:45:00Z", "2026-11-30T15:01:00Z", "2026-11-30T15:02:00Z");
    RUNS("0 9-17/4,23 * * *", NULL, "2026-11-30T09:00:00Z", "2026-11-30T13:00:00Z", "2026-11-30T17:00:00Z", "2026-11-30T23:00:00Z");
    RUNS("0 9 * jan-MAR,Nov mon-Fri", NULL, "2026-11-27T09:00:00Z", "2026-11-30T09:00:00Z", "2027-01-01T09:00:00Z", "2027-01-04T09:00:00Z");
    RUNS("0 0 * * 0", NULL, "2026-11-30T00:00:00Z", "2026-12-06T00:00:00Z", "2026-12-13T00:00:00Z");
    RUNS("\t0  0\u00a0*\u2003* *\n", NULL, "2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z");
    RUNS("*-what/30 * * * *", NULL, "2026-11-30T00:00:00Z", "2026-11-30T00:30:00Z"); // as the library reads it
    RUNS("0 */9223372036854775807 * * *", NULL, "2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z");
}

static void test_strictly_after(void)
{
    RUNS("45 14 * * *", NULL, "2026-11-30T14:44:59Z", "2026-11-30T14:45:00Z");
    RUNS("45 14 * * *", NULL, "2026-11-30T14:45:00Z", "2026-12-01T14:45:00Z");
    RUNS("* * * * *", NULL, "2026-12-31T23:59:59Z", "2027-01-01T00:00:00Z");
    RUNS("* * * * *", NULL, "2026-12-31T23:59:01Z", "2027-01-01T00:00:00Z");
}

static void test_calendar(void)
{
    RUNS("0 0 29 2 *", NULL, "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z");
    RUNS("0 0 29 2 *", NULL, "1999-12-31T00:00:00Z", "2000-02-29T00:00:00Z");
    RUNS("0 0 29 2 *", NULL, "2096-03-01T00:00:00Z", "never"); // 2100 has none, and 2104 is beyond five years
    RUNS("0 0 29 2 *", NULL, "2099-01-01T00:00:00Z", "2104-02-29T00:00:00Z");
    RUNS("0 0 30 2 *", NULL, "2026-01-01T00:00:00Z", "never");
    RUNS("0 0 31 4,JUN,9,11 *", NULL, "2026-01-01T00:00:00Z", "never");
    RUNS("0 12 31 * *", NULL, "2026-01-31T12:00:00Z", "2026-03-31T12:00:00Z", "2026-05-31T12:00:00Z", "2026-07-31T12:00:00Z");
    RUNS("59 23 31 12 *", NULL, "2026-12-31T23:59:00Z", "2027-12-31T23:59:00Z");
    RUNS("0 0 28-31 2 *", NULL, "2027-12-01T00:00:00Z", "2028-02-28T00:00:00Z", "2028-02-29T00:00:00Z", "2029-02-28T00:00:00Z");
}

// Either day will do, unless one of the two is a star.
static void test_days(void)
{
    RUNS("0 0 13 * FRI", NULL, "2026-11-01T00:00:00Z", "2026-11-06T00:00:00Z", "2026-11-13T00:00:00Z", "2026-11-20T00:00:00Z");
    RUNS("0 0 31 2 MON", NULL, "2026-11-30T00:00:00Z", "2027-02-01T00:00:00Z", "2027-02-08T00:00:00Z");
    RUNS("0 0 * * MON", NULL, "2026-11-29T00:00:00Z", "2026-11-30T00:00:00Z", "2026-12-07T00:00:00Z");
    RUNS("0 0 ? * MON", NULL, "2026-11-29T00:00:00Z", "2026-11-30T00:00:00Z", "2026-12-07T00:00:00Z");
    RUNS("0 0 */1 * MON", NULL, "2026-11-29T00:00:00Z", "2026-11-30T00:00:00Z", "2026-12-07T00:00:00Z");
    RUNS("0 0 */10 * MON", NULL, "2026-11-29T00:00:00Z", "2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z", "2026-12-07T00:00:00Z");
    RUNS("0 0 1,* * MON", NULL, "2026-11-29T00:00:00Z", "2026-11-30T00:00:00Z", "2026-12-07T00:00:00Z");
    RUNS("0 0 , * MON", NULL, "2026-11-29T00:00:00Z", "2026-11-30T00:00:00Z", "2026-12-07T00:00:00Z");
}

static void test_nothing_named(void)
{
    RUNS(", * * * *", NULL, "2026-11-29T00:00:00Z", "never");
    RUNS("* , * * *", NULL, "2026-11-29T00:00:00Z", "never");
    RUNS("* * , * *", NULL, "2026-11-29T00:00:00Z", "never");
    RUNS("* * * , *", NULL, "2026-11-29T00:00:00Z", "never");
    RUNS("* * * * ,", NULL, "2026-11-29T00:00:00Z", "never");
}

static void test_descriptors(void)
{
    RUNS("@hourly", NULL, "2026-11-30T14:45:10Z", "2026-11-30T15:00:00Z");
    RUNS("@daily", NULL, "2026-11-30T14:45:10Z", "2026-12-01T00:00:00Z");
    RUNS("@midnight", NULL, "2026-11-30T14:45:10Z", "2026-12-01T00:00:00Z");
    RUNS("@weekly", NULL, "2026-11-30T14:45:10Z", "2026-12-06T00:00:00Z");
    RUNS("@monthly", NULL, "2026-11-30T14:45:10Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z");
    RUNS("@yearly", NULL, "2026-11-30T14:45:10Z", "2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z");
    RUNS("@annually", NULL, "2026-11-30T14:45:10Z", "2027-01-01T00:00:00Z");
    RUNS("@weekly", berlin, "2026-11-30T14:45:10Z", "2026-12-05T23:00:00Z");
}

static void test_every(void)
{
    RUNS("@every 90m", NULL, "2026-11-30T14:45:10Z", "2026-11-30T16:15:10Z", "2026-11-30T17:45:10Z");
    RUNS("@every 1h30m10.7s", berlin, "2026-11-30T14:45:10Z", "2026-11-30T16:15:20Z");
    RUNS("@every .5h", NULL, "2026-11-30T14:45:10Z", "2026-11-30T15:15:10Z");
    RUNS("@every .57h", NULL, "2026-11-30T14:00:00Z", "2026-11-30T14:34:12Z");
    RUNS("@every 1ns", NULL, "2026-11-30T14:45:10Z", "2026-11-30T14:45:11Z");
    RUNS("@every -5h", NULL, "2026-11-30T14:45:10Z", "2026-11-30T14:45:11Z");
    RUNS("@every 0", NULL, "2026-11-30T14:45:10Z", "2026-11-30T14:45:11Z");
    RUNS("@every 3000000\u00b5s", NULL, "2026-11-30T14:45:10Z", "2026-11-30T14:45:13Z");
}

// What the clocks leave out is left out, what they show twice comes twice.
static void test_change_of_clocks(void)
{
    RUNS("30 2 * * *", berlin, "2026-03-27T12:00:00Z", "2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z");
    RUNS("30 2 * * *", berlin, "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z");
    RUNS("0 2 * * *", berlin, "2026-10-24T12:00:00Z", "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-26T01:00:00Z");
    RUNS("0 3 * * *", berlin, "2026-10-24T12:00:00Z", "2026-10-25T02:00:00Z", "2026-10-26T02:00:00Z");
    RUNS("*/30 * * * *", berlin, "2026-03-29T00:00:00Z", "2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z");
    RUNS("*/30 * * * *", berlin, "2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z");
    RUNS("0 */6 * * *", berlin, "2026-03-28T23:00:00Z", "2026-03-29T04:00:00Z", "2026-03-29T10:00:00Z", "2026-03-29T16:00:00Z");
    RUNS("30 2 * * *", new_york, "2026-03-07T12:00:00Z", "2026-03-09T06:30:00Z");
    RUNS("30 1 * * *", new_york, "2026-10-31T12:00:00Z", "2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z", "2026-11-02T06:30:00Z");
    RUNS("0 0 1 1 *", new_york, "2026-06-01T00:00:00Z", "2027-01-01T05:00:00Z");
}

// Half an hour, two hours, a summer time that is the lower one, an hour that does not begin with a full hour.
static void test_odd_changes(void)
{
    RUNS("15 2 * * *", lord_howe, "2026-10-02T00:00:00Z", "2026-10-02T15:45:00Z", "2026-10-04T15:15:00Z");
    RUNS("45 2 * * *", lord_howe, "2026-10-02T00:00:00Z", "2026-10-02T16:15:00Z", "2026-10-03T15:45:00Z", "2026-10-04T15:45:00Z");
    RUNS("45 1 * * *", lord_howe, "2026-04-04T00:00:00Z", "2026-04-04T14:45:00Z", "2026-04-04T15:15:00Z", "2026-04-05T15:15:00Z");
    RUNS("30 2 * * *", troll, "2026-03-27T12:00:00Z", "2026-03-28T02:30:00Z", "2026-03-30T00:30:00Z");
    RUNS("30 1 * * *", dublin, "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z");
    RUNS("30 1 * * *", dublin, "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z");
    RUNS("15 0 * * *", kathmandu, "2026-11-30T00:00:00Z", "2026-11-30T18:30:00Z", "2026-12-01T18:30:00Z");
    // Clocks go from 3:45 back to 2:45. The library finds the 3:00 that has passed; ours never goes back.
    RUNS("* 3 * * *", chatham, "2026-04-04T14:05:00Z", "2026-04-04T14:15:00Z", "2026-04-04T14:16:00Z");
}

// Zones with a history, from tzdata.
static void test_history(void)
{
    // Clocks went from midnight to one. What was on its way to another time of day does not notice the new day: in Kubernetes, too.
    RUNS("0 0 * * *", "America/Sao_Paulo", "2018-11-03T03:00:00Z", "2018-11-05T02:00:00Z", "2018-11-06T02:00:00Z");
    RUNS("0 5 * * SAT", "America/Sao_Paulo", "2018-11-03T12:00:00Z", "2018-11-04T07:00:00Z", "2018-11-10T07:00:00Z");
    RUNS("0 0 * * *", "America/Sao_Paulo", "2019-11-02T03:00:00Z", "2019-11-03T03:00:00Z", "2019-11-04T03:00:00Z"); // no more
    RUNS("0 3 31 3 *", "Asia/Beirut", "2024-03-01T00:00:00Z", "2025-03-31T00:00:00Z");
    RUNS("30 0 * * *", "America/Havana", "2026-10-31T00:00:00Z", "2026-10-31T04:30:00Z", "2026-11-01T04:30:00Z", "2026-11-01T05:30:00Z");
    RUNS("0 12 * * *", "Europe/Moscow", "2014-10-25T00:00:00Z", "2014-10-25T08:00:00Z", "2014-10-26T09:00:00Z");
}

// Samoa had no 30 December 2011. The library would never answer the first of these.
static void test_day_left_out(void)
{
    RUNS("0 0 31 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", "2011-12-30T10:00:00Z", "2012-12-30T10:00:00Z");
    RUNS("0 12 30 12 *", "Pacific/Apia", "2011-06-01T00:00:00Z", "2012-12-29T22:00:00Z");
    RUNS("0 9 * * FRI", "Pacific/Apia", "2011-12-23T00:00:00Z", "2011-12-23T19:00:00Z", "2012-01-05T19:00:00Z");
    RUNS("0 * * * *", "Pacific/Apia", "2011-12-30T08:30:00Z", "2011-12-30T09:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T11:00:00Z");
}

static void refused(const char *schedule, const char *says)
{
    struct err e = ERR_INIT;
    struct cron c = { .every_s = 77 };
    is_int(cron_parse(&c, schedule, &e), E_INVAL, "\"%s\" is refused", schedule);
    has_str(e.msg, says, "\"%s\": the text says %s", schedule, says);
    is_int(c.every_s, 77, "\"%s\": nothing was written", schedule);
}

static void test_refused(void)
{
    static const struct {
        const char *schedule, *says;
    } t[] = {
        { "", "five fields" },
        { "* * * *", "five fields (minute hour day-of-month month day-of-week), not 4" },
        { "0 0 0 0 0 0", "not 6" },
        { "60 * * * *", "minute \"60\": want 0 to 59" },
        { "* 24 * * *", "hour \"24\": want 0 to 23" },
        { "* * 0 * *", "day of month \"0\": want 1 to 31" },
        { "* * 1-32 * *", "day of month \"1-32\": want 1 to 31" },
        { "* * * 13 *", "month \"13\": want 1 to 12" },
        { "* * * * 7", "day of week \"7\": want 0 to 6" },
        { "5-1 * * * *", "beginning" },
        { "*/0 * * * *", "minute \"*/0\": want a step" },
        { "*/-2 * * * *", "step" },
        { "*/ * * * *", "step" },
        { "*/99999999999999999999 * * * *", "step" },
        { "1-2-3 * * * *", "hyphen" },
        { "1/2/3 * * * *", "slash" },
        { "-5 * * * *", "number" },
        { "1- * * * *", "number" },
        { "99999999999999999999 * * * *", "number" },
        { "+ * * * *", "number" },
        { "1.5 * * * *", "number" },
        { "JAN * * * *", "minute \"JAN\": want a number" },
        { "* * * MON *", "month \"MON\"" },
        { "* * * * MONDAY", "name of three letters" },
        { "* * L * *", "day of month \"L\"" },
        { "* * * * 5#3", "day of week" },
        { "TZ=Europe/Berlin 0 0 * * *", "spec.timeZone" },
        { "CRON_TZ=UTC 0 0 * * *", "spec.timeZone" },
        { "TZ=", "spec.timeZone" },
        { "*-TZ * * * *", "spec.timeZone" },
        { "@reboot", "@hourly" },
        { "@Daily", "@hourly" },
        { "@daily ", "@hourly" },
        { " @daily", "five fields" },
        { "@every", "@hourly" },
        { "@every ", "duration" },
        { "@every 5", "duration" },
        { "@every 1d", "duration" },
        { "@every  1h", "duration" },
        { "@every .s", "duration" },
        { "@every 1h ", "duration" },
        { "@every 3000000h", "duration" },
    };
    for (size_t i = 0; i < ARRAY_LEN(t); i++)
        refused(t[i].schedule, t[i].says);
}

// A text from a server may be of any length; what is said about it is not.
static void test_long(void)
{
    static char text[100000];
    struct err e = ERR_INIT;
    struct cron c;
    memset(text, '9', sizeof text - 1);
    memcpy(text + sizeof text - 9, " * * * *", 8);
    is_int(cron_parse(&c, text, &e), E_INVAL, "a number of a hundred thousand digits");
    ok(strlen(e.msg) < 150, "is quoted in part");
    for (size_t i = 0; i + 9 < sizeof text; i++)
        text[i] = i % 2 ? ',' : '7';
    is_int(cron_parse(&c, text, &e), 0, "fifty thousand times the same minute");
}

static void test_ends_of_time(void)
{
    struct err e = ERR_INIT;
    struct cron c;
    if (!is_int(cron_parse(&c, "0 0 1 1 *", &e), 0, "new year"))
        return;
    static const int64_t beyond[] = { INT64_MIN, INT64_MAX, INT64_C(-62135596801), INT64_C(253086940801) };
    for (size_t i = 0; i < ARRAY_LEN(beyond); i++)
        is_int(cron_next(&c, NULL, beyond[i]), -1, "never after %" PRId64, beyond[i]);
    is_int(cron_next(&c, NULL, instant("9988-06-01T00:00:00Z")), instant("9989-01-01T00:00:00Z"), "in the year 9989");
    is_int(cron_next(&c, NULL, -1), 0, "1970 began on time");
}

int main(void)
{
    struct err e = ERR_INIT;
    if (!is_int(disk_real_new(&disk, NULL, "", &e), 0, "the disk of this machine, for its tzdata"))
        return done_testing();
    test_fields();
    test_strictly_after();
    test_calendar();
    test_days();
    test_nothing_named();
    test_descriptors();
    test_every();
    test_change_of_clocks();
    test_odd_changes();
    test_history();
    test_day_left_out();
    test_refused();
    test_long();
    test_ends_of_time();
    disk_free(disk);
    return done_testing();
}
