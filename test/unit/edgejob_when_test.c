// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgejob_when.c"

#include "base/fsio.h"
#include "tap.h"

enum { DAY = 86400 };
#define T0 INT64_C(1767225600) // 2026-01-01T00:00:00Z, a Thursday

static struct cron cron_of(const char *text)
{
    struct cron c;
    struct err e = ERR_INIT;
    if (cron_parse(&c, text, &e) < 0)
        fail("%s: %s", text, e.msg);
    return c;
}

static struct job_due ask(const char *schedule, const struct job_record *r, int64_t now_s)
{
    struct job_due due;
    struct cron c = cron_of(schedule);
    job_when(&c, NULL, r, now_s, &due);
    return due;
}

static void decide(const char *schedule, struct job_record *r, int64_t now_s)
{
    struct job_due due = ask(schedule, r, now_s);
    ok(due.any, "%s is due at %lld", schedule, (long long)now_s);
    job_decide(r, &due, now_s);
}

static struct job_record since(int64_t s)
{
    return (struct job_record){ .since_s = s };
}

static void test_on_time(void)
{
    struct job_record r = since(T0 + 30);
    struct job_due due = ask("* * * * *", &r, T0 + 59);
    ok(!due.any, "nothing is due before its time");
    is_int(due.next_s, T0 + 60, "the next is");
    due = ask("* * * * *", &r, T0 + 60);
    ok(due.any && due.instant_s == T0 + 60 && due.earlier == 0, "due at its second");
    is_int(due.next_s, T0 + 120, "and the next after it");
    job_decide(&r, &due, T0 + 60);
    ok(!ask("* * * * *", &r, T0 + 60).any, "decided, it is not due again");
    for (int i = 2; i < 100; i++)
        decide("* * * * *", &r, T0 + 60 * i);
    is_int((intmax_t)r.n_spans, 1, "what follows without a gap is one stretch");
    ok(!ask("0 0 30 2 *", &r, T0).any && ask("0 0 30 2 *", &r, T0).next_s == -1, "a day that does not exist is never due");
}

static void test_missed(void)
{
    struct job_record r = since(T0);
    struct job_due due = ask("0 * * * *", &r, T0 + 10 * 3600 + 5);
    ok(due.any && due.instant_s == T0 + 10 * 3600, "after ten hours the latest is due");
    is_int(due.earlier, 9, "nine were missed");
    is_int(due.first_s, T0 + 3600, "the first of them");
    due = ask("* * * * *", &r, T0 + 400 * DAY);
    is_int(due.earlier, JOB_MISSED_MAX, "counted up to a bound");
    is_int(due.instant_s, T0 + 400 * DAY, "the latest is exact all the same");
    due = ask("0 12 1 1 *", &r, T0 + 300 * DAY);
    ok(due.instant_s == T0 + DAY / 2 && due.earlier == 0, "a yearly one, ten months later");
}

static void test_every(void)
{
    struct job_record r = since(T0 + 7);
    struct job_due due = ask("@every 10s", &r, T0 + 16);
    ok(!due.any && due.next_s == T0 + 17, "@every counts from the beginning");
    due = ask("@every 10s", &r, T0 + 49);
    ok(due.any && due.instant_s == T0 + 47, "and keeps its rhythm");
    is_int(due.earlier, 3, "over what was missed");
    job_decide(&r, &due, T0 + 49);
    is_int(ask("@every 10s", &r, T0 + 49).next_s, T0 + 57, "and what was decided");
}

static void test_clock_set(void)
{
    struct job_record r = since(T0);
    for (int i = 1; i <= 60; i++)
        decide("* * * * *", &r, T0 + 60 * i);
    ok(!ask("* * * * *", &r, T0 + 1800).any, "set back by half an hour: nothing is due");
    is_int(ask("* * * * *", &r, T0 + 1800).next_s, T0 + 3660, "until new instants come");
    int64_t far = T0 + 3650 * (int64_t)DAY;
    decide("* * * * *", &r, far);
    decide("* * * * *", &r, far + 60);
    is_int((intmax_t)r.n_spans, 2, "ten years ahead is another stretch");
    decide("* * * * *", &r, T0 + 3660);
    is_int((intmax_t)r.n_spans, 2, "and back the first one goes on");
    ok(!ask("* * * * *", &r, T0 + 3660).any, "decided");
    struct job_due due = ask("* * * * *", &r, far + 90);
    ok(!due.any, "when that time comes, what ran then does not run again");
    is_int(due.next_s, far + 120, "but what comes after");
    ok(!job_when_begin(&r, "", T0 + 3700), "the same schedule goes on");
    ok(job_when_begin(&r, "other", T0 + 3700) && r.since_s == T0 + 3700, "another counts from now");
    r.since_s = far;
    ok(job_when_begin(&r, "other", T0 + 3700) && r.since_s == T0 + 3700, "one that began in a wrong future begins now");
}

// However the clock is set, to and fro, no instant is decided twice.
static void test_never_twice(void)
{
    enum { ROUNDS = 3000, DECIDED_MAX = ROUNDS };
    static int64_t decided[DECIDED_MAX];
    struct job_record r = since(T0);
    uint64_t seed = 42;
    int64_t now = T0;
    int n = 0, twice = 0, future = 0;
    for (int i = 0; i < ROUNDS; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
        int64_t roll = (int64_t)(seed >> 33) % 1000;
        now += roll < 900 ? roll % 200 : roll < 940 ? -(roll * 3) : roll < 980 ? roll * 60 : 0;
        (void)job_when_begin(&r, "", now);
        struct job_due due = ask("*/2 * * * *", &r, now);
        if (!due.any)
            continue;
        future += due.instant_s > now;
        for (int k = 0; k < n; k++)
            twice += decided[k] == due.instant_s;
        decided[n++] = due.instant_s;
        job_decide(&r, &due, now);
    }
    ok(n > 500, "many instants were decided (%d)", n);
    is_int(twice, 0, "none of them twice");
    is_int(future, 0, "none before its time");
}

// A midnight that does not exist makes the schedule's answers go back in time.
static void test_no_midnight(void)
{
    static const char posix[] = "<-04>4<-03>,M9.1.6/24,M4.1.6/24"; // as in Chile
    struct tz *z = NULL;
    struct err e = ERR_INIT;
    struct disk *d = NULL;
    struct cron c = cron_of("0 5 * * SAT");
    if (!ok(tz_load(&z, d, posix, &e) == 0, "a zone whose clocks are set forward at midnight"))
        return;
    int wrong = 0;
    for (int64_t day = T0; day < T0 + 365 * (int64_t)DAY; day += DAY) {
        struct job_record r = since(day);
        for (int64_t now = day; now < day + 2 * DAY; now += 3600) {
            struct job_due due;
            job_when(&c, z, &r, now, &due);
            wrong += due.any && (due.instant_s > now || due.instant_s <= day);
        }
    }
    is_int(wrong, 0, "no instant is due before its time");
    tz_free(z);
}

int main(void)
{
    test_on_time();
    test_missed();
    test_every();
    test_clock_set();
    test_never_twice();
    test_no_midnight();
    return done_testing();
}
