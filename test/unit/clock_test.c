// SPDX-License-Identifier: Apache-2.0
#include "base/clock_wall.c"

#include <time.h>

#include "fake_clock.h"
#include "tap.h"

enum { SEC = 1000000 };
#define T2026 (INT64_C(1767225600) * SEC) // what the fake clock starts with

// --- how far the wall clock is believed

static void test_trust_by_sync(void)
{
    struct fake_clock fc;
    fake_clock_init(&fc, 1);
    struct clock *c = &fc.clock;
    ok(clock_trusted(c), "synchronised: trusted");
    is_int(clock_wall_us(c), T2026, "and taken as it is");
    fc.synced = false;
    ok(!clock_trusted(c), "not synchronised, no floor: not trusted");
    c->always = true;
    ok(clock_trusted(c), "trust=always");
}

static void test_floor(void)
{
    struct fake_clock fc;
    fake_clock_init(&fc, 1);
    struct clock *c = &fc.clock;
    fc.synced = false;
    clock_floor(c, T2026 - 5 * SEC);
    ok(clock_trusted(c), "an RTC at or after the floor: trusted");
    clock_floor(c, T2026 - 9 * SEC);
    is_int(c->floor_us, T2026 - 5 * SEC, "the floor is never lowered");

    fc.wall_us = T2026 - 6 * SEC;
    ok(!clock_trusted(c), "a wall clock set back below it is not");
    is_int(clock_wall_us(c), T2026 - 5 * SEC, "and is reported as the floor");

    fake_clock_init(&fc, 1);
    fc.synced = false;
    fc.wall_us = 0;
    clock_floor(c, T2026);
    ok(!clock_trusted(c), "field 3: 1970 after a power loss: not trusted");
    fc.wall_us = T2026 + SEC;
    ok(!clock_trusted(c), "a clock that began below the floor does not become right by passing it");
    fc.synced = true;
    ok(clock_trusted(c), "but by being synchronised");

    fake_clock_init(&fc, 1);
    fc.synced = false;
    c->no_rtc = true;
    clock_floor(c, T2026 - SEC);
    ok(!clock_trusted(c), "without an RTC being past the floor proves nothing");
}

static void test_server_date(void)
{
    struct fake_clock fc;
    fake_clock_init(&fc, 1);
    struct clock *c = &fc.clock;
    fc.synced = false;
    fc.wall_us = 1000 * SEC;
    clock_floor(c, T2026);
    is_int(clock_wall_us(c), T2026, "untrusted: the floor");

    clock_server_date(c, T2026 / SEC - 100);
    ok(!clock_trusted(c), "a server older than the floor is not believed");
    clock_server_date(c, INT64_MAX);
    clock_server_date(c, 0);
    clock_server_date(c, -1);
    ok(!clock_trusted(c), "nor one that says nonsense");

    clock_server_date(c, T2026 / SEC + 3600);
    ok(clock_trusted(c), "a verified date: trusted");
    is_int(clock_wall_us(c), T2026 + 3600 * (int64_t)SEC, "and it is the time");
    fake_clock_advance(&fc, 5000);
    is_int(clock_wall_us(c), T2026 + 3605 * (int64_t)SEC, "which goes on");
    fc.wall_us += 86400 * (int64_t)SEC;
    is_int(clock_wall_us(c), T2026 + 3605 * (int64_t)SEC, "and does not step with the wall clock");
    fc.boot_ms += 60000; // suspended: the monotonic clock stood still
    is_int(clock_wall_us(c), T2026 + 3665 * (int64_t)SEC, "and counts sleep");
    fc.synced = true;
    fc.wall_us = T2026 + 4000 * (int64_t)SEC;
    is_int(clock_wall_us(c), T2026 + 4000 * (int64_t)SEC, "a synchronised wall clock wins over it");
}

// A floor that a lying clock left, years ahead; the server is right, and says so again and again.
static void test_floor_that_lied(void)
{
    const int64_t year = 365 * 86400 * (int64_t)SEC;
    struct fake_clock fc;
    fake_clock_init(&fc, 1);
    struct clock *c = &fc.clock;
    fc.synced = false;
    fc.wall_us = T2026 + 8 * year;
    c->built_us = T2026 - year;
    clock_floor(c, c->built_us);
    clock_floor(c, T2026 + 8 * year);
    for (int i = 0; i < 100; i++)
        clock_server_date(c, T2026 / SEC);
    is_int(c->floor_us, T2026 + 8 * year, "many answers of one moment lower no floor");
    for (int min = 0; min < 9; min++, fake_clock_advance(&fc, 60000))
        clock_server_date(c, T2026 / SEC + min * 60);
    is_int(c->floor_us, T2026 + 8 * year, "nor do nine minutes");
    clock_server_date(c, T2026 / SEC + 3600);
    for (int min = 9; min < 19; min++, fake_clock_advance(&fc, 60000))
        clock_server_date(c, T2026 / SEC + min * 60);
    is_int(c->floor_us, T2026 + 8 * year, "one that contradicts begins it anew");
    clock_server_date(c, T2026 / SEC + 19 * 60);
    is_int(c->floor_us, T2026 + 19 * 60 * (int64_t)SEC, "ten minutes of agreement do");
    ok(clock_trusted(c) && clock_vouched(c), "and the server's time is trusted");
    is_int(clock_wall_us(c), T2026 + 19 * 60 * (int64_t)SEC, "it is the time, whatever the wall clock says");
    ok(c->floor_lowered, "that is to be told");
    fake_clock_init(&fc, 1);
    fc.synced = false;
    c->built_us = T2026 + year;
    clock_floor(c, T2026 + 8 * year);
    for (int min = 0; min < 60; min++, fake_clock_advance(&fc, 60000))
        clock_server_date(c, T2026 / SEC + min * 60);
    ok(!clock_trusted(c), "a server that is before the making of this program is never right");
}

static void test_step(void)
{
    const int64_t day = 86400 * (int64_t)SEC;
    struct fake_clock fc;
    fake_clock_init(&fc, 1);
    struct clock *c = &fc.clock;
    fc.synced = false;
    clock_floor(c, T2026 - day);
    ok(clock_trusted(c) && !clock_vouched(c), "an RTC after the floor is trusted, but nobody vouches for it");
    fc.wall_us = T2026 + 3650 * day;
    is_int(clock_wall_us(c), T2026 + 3650 * day, "without a server ten years ahead cannot be told from the truth");
    fc.wall_us = T2026;
    clock_server_date(c, T2026 / SEC);
    ok(clock_vouched(c), "a server vouches");
    fc.wall_us = T2026 + day / 2;
    is_int(clock_wall_us(c), T2026 + day / 2, "a small step is the wall clock's to make");
    fc.wall_us = T2026 + 3650 * day;
    is_int(clock_wall_us(c), T2026, "one of ten years is not: the server's time goes on");
    ok(clock_trusted(c), "which is trusted");
    fc.wall_us = 0;
    is_int(clock_wall_us(c), T2026, "field 3: nor is one to 1970");
    fc.synced = true;
    fc.wall_us = T2026 + 5 * day;
    is_int(clock_wall_us(c), T2026 + 5 * day, "a synchronised clock may step");
}

static void test_instant(void)
{
    struct fake_clock fc;
    struct instant i;
    fake_clock_init(&fc, 1);
    clock_instant(&fc.clock, &i);
    is_str(i.boot_id, "00000000-1111-2222-3333-444444444444", "boot id");
    is_int(i.boot_ms, 2000000, "boot-time, not monotonic");
    is_int(i.wall_us, T2026, "wall time");
    ok(i.trusted, "and whether it is believed");
    is_int(clock_mono(&fc.clock), 1000000, "monotonic is the other one");
}

// --- random numbers

static void test_rand(void)
{
    struct fake_clock a, b;
    fake_clock_init(&a, 7);
    fake_clock_init(&b, 7);
    ok(clock_rand64(&a.clock) == clock_rand64(&b.clock), "one seed, one sequence");
    fake_clock_init(&b, 8);
    ok(clock_rand64(&a.clock) != clock_rand64(&b.clock), "another seed, another");
    is_int(clock_rand(&a.clock, 0), 0, "of nothing");
    is_int(clock_rand(&a.clock, -5), 0, "of less");
    is_int(clock_rand(&a.clock, 1), 0, "of one");
    unsigned count[5] = { 0 }, outside = 0;
    for (int i = 0; i < 50000; i++) {
        int64_t r = clock_rand(&a.clock, 5);
        if (r < 0 || r > 4)
            outside++;
        else
            count[r]++;
    }
    is_int(outside, 0, "never outside");
    for (int i = 0; i < 5; i++)
        ok(count[i] > 9500 && count[i] < 10500, "%d comes as often as the others (%u of 50000)", i, count[i]);
    int64_t r = clock_rand(&a.clock, INT64_MAX);
    ok(r >= 0, "the largest range");
}

// A range that does not divide 2^64 rejects the numbers that would come once too often.
static uint64_t fixed[2];
static unsigned fixed_at;
static void fixed_random(struct clock *c UNUSED, void *p, size_t n)
{
    memcpy(p, &fixed[fixed_at++ % 2], n);
}

static void test_rand_fair(void)
{
    static const struct clock_ops ops = { .random = fixed_random };
    struct clock c = { .ops = &ops };
    fixed[0] = UINT64_MAX;
    fixed[1] = 4;
    is_int(clock_rand(&c, 3), 1, "a number out of the unfair rest is drawn again");
    is_int(fixed_at, 2, "once");
}

// --- times as text

static void test_format(void)
{
    static const struct {
        int64_t us;
        const char *sec, *micro;
    } t[] = {
        { 0, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z" },
        { 999999, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.999999Z" },
        { INT64_C(951827696) * SEC + 123456, "2000-02-29T12:34:56Z", "2000-02-29T12:34:56.123456Z" },
        { INT64_C(4107542399) * SEC, "2100-02-28T23:59:59Z", "2100-02-28T23:59:59.000000Z" },
        { INT64_C(4107542400) * SEC, "2100-03-01T00:00:00Z", "2100-03-01T00:00:00.000000Z" },
        { INT64_C(253402300799) * SEC + 999999, "9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999999Z" },
        { -1, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z" },
        { INT64_MIN, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z" },
        { INT64_MAX, "9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999999Z" },
    };
    for (size_t i = 0; i < ARRAY_LEN(t); i++) {
        char out[RFC3339_MAX];
        is_str(rfc3339_sec(t[i].us, out), t[i].sec, "%" PRId64 " in seconds", t[i].us);
        is_str(rfc3339_micro(t[i].us, out), t[i].micro, "%" PRId64 " in microseconds", t[i].us);
    }
}

// Against libc, one second in every three and a half days of all the years there are.
static void test_against_libc(void)
{
    unsigned long tried = 0, wrong_text = 0, wrong_back = 0;
    for (int64_t sec = 0; sec <= INT64_C(253402300799); sec += 299993, tried++) {
        char got[RFC3339_MAX], want[RFC3339_MAX];
        time_t t = (time_t)sec;
        struct tm tm;
        int64_t back = -1;
        gmtime_r(&t, &tm);
        strftime(want, sizeof(want), "%Y-%m-%dT%H:%M:%SZ", &tm);
        wrong_text += strcmp(rfc3339_sec(sec * SEC, got), want) != 0;
        wrong_back += !rfc3339_parse(got, &back) || back != sec * SEC;
    }
    is_int(wrong_text, 0, "%lu moments written as libc writes them", tried);
    is_int(wrong_back, 0, "and read back");
}

static void test_parse(void)
{
    static const struct {
        const char *s;
        int64_t us;
    } good[] = {
        { "1970-01-01T00:00:00Z", 0 },
        { "2026-01-01T00:00:00Z", T2026 },
        { "2026-01-01t00:00:00z", T2026 },
        { "2026-01-01T02:00:00+02:00", T2026 },
        { "2025-12-31T18:30:00-05:30", T2026 },
        { "2026-01-01T00:00:00-00:00", T2026 },
        { "2026-01-01T00:00:00.5Z", T2026 + 500000 },
        { "2026-01-01T00:00:00.123456Z", T2026 + 123456 },
        { "2026-01-01T00:00:00.123456789Z", T2026 + 123456 },
        { "2025-12-31T23:59:60Z", T2026 },
        { "1970-01-01T00:00:00+01:00", -3600 * (int64_t)SEC },
        { "9999-12-31T23:59:59.999999Z", INT64_C(253402300799) * SEC + 999999 },
    };
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        int64_t us = -42;
        ok(rfc3339_parse(good[i].s, &us), "%s is a time", good[i].s);
        is_int(us, good[i].us, "%s", good[i].s);
    }
    static const char *const bad[] = {
        "",
        "2026",
        "2026-01-01",
        "2026-01-01T00:00:00",
        "2026-01-01 00:00:00Z",
        "2026-1-01T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "2100-02-29T00:00:00Z",
        "2026-01-00T00:00:00Z",
        "2026-01-32T00:00:00Z",
        "2026-04-31T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:60:00Z",
        "2026-01-01T00:00:61Z",
        "2026-01-01T00:00:00.Z",
        "2026-01-01T00:00:00.1234567890Z",
        "2026-01-01T00:00:00+0200",
        "2026-01-01T00:00:00+24:00",
        "2026-01-01T00:00:00+02:60",
        "2026-01-01T00:00:00+02",
        "2026-01-01T00:00:00ZZ",
        "2026-01-01T00:00:00Z ",
        " 2026-01-01T00:00:00Z",
        "-026-01-01T00:00:00Z",
        "+2026-01-01T00:00:00Z",
        "02026-01-01T00:00:00Z",
        "1969-12-31T23:59:59Z",
        "0000-01-01T00:00:00Z",
        "2026-01-01T00:00:00,5Z",
        "2026-01-01T-1:00:00Z",
        "2026-01-01T00:00:0\xd9\xa3Z",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        int64_t us = -42;
        ok(!rfc3339_parse(bad[i], &us) && us == -42, "\"%s\" is none", bad[i]);
    }
    // Cut anywhere, the text is read to its end and no further (the sanitizers watch).
    const char *full = "2026-01-01T00:00:00.123456789+02:00";
    unsigned accepted = 0;
    for (size_t n = 0; n < strlen(full); n++) {
        char *cut = strndup(full, n);
        int64_t us;
        accepted += cut != NULL && rfc3339_parse(cut, &us);
        free(cut);
    }
    is_int(accepted, 0, "no beginning of a time is a time");
}

static void test_http_date(void)
{
    int64_t sec = -42;
    ok(http_date_parse("Sun, 06 Nov 1994 08:49:37 GMT", &sec), "the example of RFC 9110");
    is_int(sec, 784111777, "in seconds");
    ok(http_date_parse("Thu, 01 Jan 1970 00:00:00 GMT", &sec) && sec == 0, "the first second");
    ok(http_date_parse("Thu, 29 Feb 2024 23:59:59 GMT", &sec) && sec == 1709251199, "a leap day");
    static const char *const bad[] = {
        "",
        "Sun",
        "Sun, 06 Nov 1994 08:49:37",
        "Mon, 06 Nov 1994 08:49:37 GMT",
        "sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        "Sun, 06 Nov 1994 24:49:37 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 06 Nov 1994 08:49:60 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 06 Foo 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "Sun,06 Nov 1994 08:49:37 GMT",
        " Sun, 06 Nov 1994 08:49:37 GMT",
        "Wed, 31 Dec 1969 23:59:59 GMT",
        "784111777",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        sec = -42;
        ok(!http_date_parse(bad[i], &sec) && sec == -42, "\"%s\" is none", bad[i]);
    }
}

// --- the machine's own

static void test_real(void)
{
    struct clock c;
    clock_real_init(&c);
    int64_t mono = clock_mono(&c), boot = clock_boot(&c);
    ok(mono > 0 && boot >= mono, "boot-time counts at least what monotonic does");
    ok(clock_mono(&c) >= mono, "monotonic does not go back");
    time_t t = time(NULL);
    int64_t wall = c.ops->wall_us(&c) / SEC;
    ok(wall >= t && wall <= t + 60, "the wall is libc's");

    char id[37], again[37];
    c.ops->boot_id(&c, id);
    c.ops->boot_id(&c, again);
    is_int(strlen(id), 36, "a boot id");
    is_str(again, id, "that stays");
    ok(strspn(id, "0123456789abcdef-") == 36, "in lower case");

    unsigned char a[100] = { 0 }, b[100] = { 0 };
    c.ops->random(&c, a, sizeof(a));
    c.ops->random(&c, b, sizeof(b));
    ok(memcmp(a, b, sizeof(a)) != 0, "random bytes differ");
    bool synced = c.ops->synced(&c);
    ok(c.ops->synced(&c) == synced, "asked twice in a second, one answer");
    c.always = true;
    is_int(clock_wall_us(&c) / SEC >= t, 1, "with trust=always the wall is the time");
}

int main(void)
{
    test_trust_by_sync();
    test_floor();
    test_floor_that_lied();
    test_server_date();
    test_step();
    test_instant();
    test_rand();
    test_rand_fair();
    test_format();
    test_against_libc();
    test_parse();
    test_http_date();
    test_real();
    return done_testing();
}
