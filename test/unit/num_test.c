// SPDX-License-Identifier: Apache-2.0
#include "base/num.c"

#include <inttypes.h>

#include "tap.h"

enum { UNTOUCHED = 7777 };

static void good_i64(const char *s, int64_t min, int64_t max, int64_t want)
{
    struct err e = ERR_INIT;
    int64_t v = UNTOUCHED;
    is_int(num_i64(s, min, max, &v, &e), 0, "\"%s\" is a number", s);
    is_int(v, want, "\"%s\" is %" PRId64, s, want);
}

static void bad_i64(const char *s, int64_t min, int64_t max)
{
    struct err e = ERR_INIT;
    int64_t v = UNTOUCHED;
    is_int(num_i64(s, min, max, &v, &e), E_INVAL, "\"%s\" is refused", s);
    ok(v == UNTOUCHED && strstr(e.msg, "want a whole number") != NULL, "\"%s\": out is untouched, the text helps", s);
}

static void test_i64(void)
{
    good_i64("0", 0, 0, 0);
    good_i64("-0", 0, 0, 0);
    good_i64("007", 0, 9, 7);
    good_i64("-5", -5, 5, -5);
    good_i64("9223372036854775807", INT64_MIN, INT64_MAX, INT64_MAX);
    good_i64("-9223372036854775808", INT64_MIN, INT64_MAX, INT64_MIN);
    static const char *const bad[] = {
        "",
        "-",
        "+1",
        " 1",
        "1 ",
        "1\n",
        "0x10",
        "1e3",
        "1.0",
        "--1",
        "1-",
        "abc",
        "NaN",
        "inf",
        "1_0",
        "1,0",
        "\xd9\xa3", // an Arabic three
        "9223372036854775808",
        "-9223372036854775809",
        "18446744073709551616",
        "99999999999999999999999999",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        bad_i64(bad[i], INT64_MIN, INT64_MAX);
    bad_i64("6", -5, 5);
    bad_i64("-6", -5, 5);
    bad_i64("0", 1, 10);

    struct err e = ERR_INIT;
    int64_t v;
    is_int(num_i64("70000", 1, 65535, &v, &e), E_INVAL, "a port too high");
    is_str(e.msg, "\"70000\": want a whole number from 1 to 65535", "says what is wanted");
}

static void test_duration(void)
{
    static const struct {
        const char *s;
        int64_t ms;
    } good[] = {
        { "0", 0 },
        { "0s", 0 },
        { "250ms", 250 },
        { "10s", 10000 },
        { "5m", 300000 },
        { "1h30m", 5400000 },
        { "1.5s", 1500 },
        { "0.25s", 250 },
        { ".5s", 500 },
        { "1.s", 1000 },
        { "2h45m30.5s", 9930500 },
        { "100h", 360000000 },
        { "1m1m", 120000 },
        { "0.001s", 1 },
        { "1.500000000000000000000000s", 1500 },
        { "0.1h", 360000 },
        { "9223372036854775807ms", INT64_MAX },
        { "00010s", 10000 },
        { "0.05m", 3000 },
    };
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        struct err e = ERR_INIT;
        int64_t v = UNTOUCHED;
        is_int(num_duration_ms(good[i].s, &v, &e), 0, "\"%s\" is a duration", good[i].s);
        is_int(v, good[i].ms, "\"%s\" in milliseconds", good[i].s);
    }
    static const char *const bad[] = {
        "",
        "10",
        "1",
        "-1s",
        "+1s",
        "s",
        ".s",
        "1.2.3s",
        "1 s",
        " 1s",
        "1s ",
        "1d",
        "1w",
        "1us",
        "1ns",
        "1S",
        "1h30",
        "1sm",
        "0.0001s",
        "1.5ms",
        "NaN",
        "infs",
        "1e3s",
        "00",
        "0 ",
        "\xc2\xb5s",
        "9223372036854775808ms",
        "18446744073709551616s",
        "9223372036854775807s",
        "5124095576031h",
        "9223372036854775807ms1ms",
        "99999999999999999999999999999999999999h",
        "1s\xff",
        "0.000000000000000000000000000000000000001s",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err e = ERR_INIT;
        int64_t v = UNTOUCHED;
        is_int(num_duration_ms(bad[i], &v, &e), E_INVAL, "\"%s\" is refused", bad[i]);
        ok(v == UNTOUCHED && strstr(e.msg, "want a duration") != NULL, "\"%s\": out is untouched, the text helps", bad[i]);
    }
}

static void test_quantity(void)
{
    static const struct {
        const char *s;
        int64_t scale, want;
    } good[] = {
        { "0", 1, 0 },
        { "1", 1, 1 },
        { "64Mi", 1, 67108864 },
        { "1.5G", 1, 1500000000 },
        { "1.5Gi", 1, 1610612736 },
        { "1Ki", 1, 1024 },
        { "1k", 1, 1000 },
        { "1e3", 1, 1000 },
        { "1E3", 1, 1000 },
        { "1E", 1, 1000000000000000000 },
        { "1Ei", 1, 1152921504606846976 },
        { "7Ei", 1, 8070450532247928832 },
        { "100m", 1, 1 },
        { "100m", 1000, 100 },
        { "1", 1000, 1000 },
        { "0.5", 1000, 500 },
        { "1.5", 1, 2 },
        { "1n", 1, 1 },
        { "0n", 1, 0 },
        { "1u", 1000, 1 },
        { "1500u", 1000, 2 },
        { "2e-3", 1000, 2 },
        { "1e-3", 1, 1 },
        { "5e-400", 1, 1 },
        { "0e999999999999999", 1, 0 },
        { "0e-99999999999999", 1, 0 },
        { "1e+3", 1, 1000 },
        { ".5Ki", 1, 512 },
        { "5.", 1, 5 },
        { "0.1Ki", 1, 103 },
        { "1.0000000000000000000000000000", 1, 1 },
        { "9223372036854775807", 1, INT64_MAX },
        { "0.9Ei", 1, 1037629354146162279 },
        { "1.123456789Gi", 1, 1206302542 },
        { "0.000000000000000001Ei", 1, 2 },
        { "0.5Ki", 1000, 512000 },
        { "3M", 1, 3000000 },
        { "2T", 1, 2000000000000 },
        { "2P", 1, 2000000000000000 },
        { "2Ti", 1, 2199023255552 },
        { "2Pi", 1, 2251799813685248 },
    };
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        struct err e = ERR_INIT;
        int64_t v = UNTOUCHED;
        is_int(num_quantity(good[i].s, good[i].scale, &v, &e), 0, "\"%s\" is a quantity", good[i].s);
        is_int(v, good[i].want, "\"%s\" in units of 1/%" PRId64, good[i].s, good[i].scale);
    }
    static const char *const bad[] = {
        "",
        "-1",
        "+1",
        "Mi",
        ".",
        "1.2.3",
        "1 Mi",
        "1Mi ",
        "1mi",
        "1MI",
        "1ki",
        "1K",
        "1Kib",
        "1MB",
        "1i",
        "1e",
        "1e+",
        "1e-",
        "1e3k",
        "1e3.5",
        "0x10",
        "NaN",
        "inf",
        "1,5",
        "1__",
        "1\xc2\xb5",
        "1Zi",
        "1Y",
        "e3",
        "8Ei",
        "10E",
        "1e19",
        "1e400",
        "1e99999999999999999999999999",
        "9223372036854775808",
        "18446744073709551616",
        "1e-99999999999999999999",
        "99999999999999999999999999999999999Ki",
        "17Ei",
        "18014398509481984Ki",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err e = ERR_INIT;
        int64_t v = UNTOUCHED;
        is_int(num_quantity(bad[i], 1, &v, &e), E_INVAL, "\"%s\" is refused", bad[i]);
        ok(v == UNTOUCHED && strstr(e.msg, "want a quantity") != NULL, "\"%s\": out is untouched, the text helps", bad[i]);
    }
    struct err e = ERR_INIT;
    int64_t v = UNTOUCHED;
    is_int(num_quantity("9223372036854775807", 1000, &v, &e), E_INVAL, "too large only by its scale");
}

// Never rounded down: every quantity of n/10^f Ki is the smallest integer that is not below it.
static void test_round_up(void)
{
    unsigned wrong = 0, tried = 0;
    for (uint64_t n = 0; n < 20000; n += 7, tried++) {
        char s[40];
        int64_t v = 0;
        struct err e = ERR_INIT;
        snprintf(s, sizeof(s), "%" PRIu64 ".%03" PRIu64 "Ki", n / 1000, n % 1000);
        wrong += num_quantity(s, 1, &v, &e) != 0 || (uint64_t)v != (n * 1024 + 999) / 1000;
    }
    is_int(wrong, 0, "%u fractions rounded up", tried);
}

static void test_bool(void)
{
    static const char *const yes[] = { "true", "True", "YES", "on", "1" }, *const no[] = { "false", "No", "OFF", "0" };
    static const char *const bad[] = { "",
                                       "t",
                                       "y",
                                       "truee",
                                       " true",
                                       "2",
                                       "-1",
                                       "tr\xc3\xbc"
                                       "e",
                                       "null" };
    struct err e = ERR_INIT;
    for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
        bool v = false;
        ok(num_bool(yes[i], &v, &e) == 0 && v, "%s is true", yes[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(no); i++) {
        bool v = true;
        ok(num_bool(no[i], &v, &e) == 0 && !v, "%s is false", no[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        bool v = true;
        ok(num_bool(bad[i], &v, &e) == E_INVAL && v, "\"%s\" is neither", bad[i]);
    }
}

// A text of any length costs no more than reading it, and its quotation stays short.
static void test_long(void)
{
    static char s[1 << 20];
    struct err e = ERR_INIT;
    int64_t v;
    bool b;
    memset(s, '9', sizeof(s) - 1);
    is_int(num_i64(s, 0, 9, &v, &e), E_INVAL, "a megabyte of nines is no number");
    ok(strlen(e.msg) < 120, "and is quoted in part");
    is_int(num_quantity(s, 1, &v, &e), E_INVAL, "nor a quantity");
    is_int(num_duration_ms(s, &v, &e), E_INVAL, "nor a duration");
    is_int(num_bool(s, &b, &e), E_INVAL, "nor a truth");
    memset(s, '0', sizeof(s) - 1);
    s[1] = '.';
    is_int(num_quantity(s, 1, &v, &e), 0, "zero with a million zeros is one");
    is_int(v, 0, "of nothing");
}

int main(void)
{
    test_i64();
    test_duration();
    test_quantity();
    test_round_up();
    test_bool();
    test_long();
    return done_testing();
}
