// SPDX-License-Identifier: Apache-2.0
#include "ctl/lease.c"
#include "tap.h"

#define S INT64_C(1000000)

static const int64_t noon = 1796040000 * S;

static void check_judgement(void)
{
    static const struct {
        int64_t age_s, duration_s;
        enum lease_state state;
        const char *name;
    } cases[] = {
        { 0, 40, LEASE_FRESH, "just renewed" },
        { 40, 40, LEASE_FRESH, "renewed exactly its duration ago" },
        { 41, 40, LEASE_EXPIRED, "renewed longer ago than its duration" },
        { 86400 * 365, 40, LEASE_EXPIRED, "a year ago" },
        { -40, 40, LEASE_FRESH, "a clock that is ahead by less than the duration" },
        { -41, 40, LEASE_AHEAD, "a clock that is further ahead" },
        { 1, 0, LEASE_EXPIRED, "no duration" },
        { 100, INT32_MAX, LEASE_FRESH, "the longest duration there is" },
        { 1796040000, 40, LEASE_EXPIRED, "renewed in 1970" },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct lease_facts l = { .renewed = true, .renew_us = noon - cases[i].age_s * S, .duration_s = cases[i].duration_s };
        is_int(lease_judge(&l, noon), cases[i].state, "%s", cases[i].name);
    }
    is_int(lease_judge(&(struct lease_facts){ .duration_s = 40 }, noon), LEASE_NEVER, "never renewed");
}

static void check_words(void)
{
    is_str(lease_ready(LEASE_FRESH), "True", "fresh is ready");
    is_str(lease_ready(LEASE_EXPIRED), "Unknown", "expired is not False: the node may be well");
    is_str(lease_ready(LEASE_NEVER), "Unknown", "never is unknown");
    is_str(lease_ready(LEASE_AHEAD), "Unknown", "a wrong clock tells nothing");
    is_str(lease_reason(LEASE_AHEAD), "ClockAhead", "a word for each");
}

static void check_spans(void)
{
    static const struct {
        int64_t seconds;
        const char *text;
    } cases[] = {
        { -5, "0s" },      { 0, "0s" },         { 59, "59s" },    { 60, "1m" },     { 61, "1m1s" },
        { 599, "9m59s" },  { 600, "10m" },      { 659, "10m" },   { 3599, "59m" },  { 3600, "1h" },
        { 3660, "1h1m" },  { 35999, "9h59m" },  { 36000, "10h" }, { 86399, "23h" }, { 86400, "1d" },
        { 90000, "1d1h" }, { 691199, "7d23h" }, { 691200, "8d" }, { 777599, "8d" }, { 31536000, "365d" },
    };
    char out[SPAN_TEXT_MAX];
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        is_str(span_text(cases[i].seconds, out), cases[i].text, "%lld s", (long long)cases[i].seconds);
    ok(strlen(span_text(INT64_MAX, out)) < SPAN_TEXT_MAX, "the longest span fits");
}

int main(void)
{
    check_judgement();
    check_words();
    check_spans();
    return done_testing();
}
