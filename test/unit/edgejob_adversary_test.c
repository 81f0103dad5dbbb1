// SPDX-License-Identifier: Apache-2.0
// EdgeJob against what is out to break it: clocks that are set in the middle of everything, kills and power cuts at any moment, nights on which
// clocks change, and zones that go away. What is watched is the port: which attempt was started, when, and whether it was before.
#include "kinds/edgejob.c"

#include "kind_rig.h"

#define JOB "edgejobs", "backup"
#define EACH_MINUTE "{\"command\":[\"x\"],\"schedule\":\"* * * * *\",\"execution\":\"AtMostOnce\"}"

enum { SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, RUN_MS = 4 * SECOND, SEEN_MAX = 4000, STORMS = 4 };

// --- Each attempt that was ever started, by the name of its instance

struct seen {
    char uid[INST_UID_MAX];
    int pid;
};
static struct seen seen[SEEN_MAX];
static size_t n_seen;
static int twice;    // an attempt has a second process
static int attempts; // that were not the first of their run
static int fresh;    // new since the last look
static int live;     // at the last look
static int crowded;  // looks with more than one

static int note_inst(void *ctx, const struct inst *i)
{
    (void)ctx;
    live += i->state != INST_EXITED;
    for (size_t k = n_seen; k-- > 0;)
        if (strcmp(seen[k].uid, i->uid) == 0) {
            twice += seen[k].pid > 0 && i->pid > 0 && seen[k].pid != i->pid; // 0: it is only just being started
            seen[k].pid = MAX(seen[k].pid, i->pid);
            return 0;
        }
    if (n_seen < SEEN_MAX)
        seen[n_seen++].pid = i->pid;
    snprintf(seen[n_seen - 1].uid, INST_UID_MAX, "%s", i->uid);
    attempts += strcmp(i->uid + strlen(i->uid) - 2, "-1") != 0;
    fresh++;
    return 0;
}

static int look_at_port(struct rig *r)
{
    struct err e = ERR_INIT;
    fresh = live = 0;
    rig_must(r->port->ops->each(r->port, rig_key(r, JOB), note_inst, NULL, &e), &e, "each");
    crowded += live > 1;
    return fresh;
}

// Runs for so long and looks each second; how many attempts were started.
static int watch(struct rig *r, int64_t ms)
{
    int n = 0;
    for (int64_t t = 0; t < ms; t += SECOND) {
        rig_run(r, SECOND);
        n += look_at_port(r);
    }
    return n;
}

static void begin(struct rig *r, const char *spec)
{
    rig_start(r);
    port_fake_behave(r->port, NULL, &(struct fake_behaviour){ .run_ms = RUN_MS, .stop_ms = 500 });
    n_seen = 0;
    twice = attempts = crowded = 0;
    if (spec == NULL)
        return;
    rig_apply(r, JOB, spec);
    rig_run(r, SECOND);
}

static int64_t count(struct rig *r, const char *field)
{
    return strtoll(rig_field(r, JOB, field), NULL, 10);
}

static void set_wall(struct rig *r, int64_t s)
{
    r->fc.wall_us = s * 1000000;
    engine_clock_changed(r->engine);
}

static int64_t instant(const char *text)
{
    int64_t us = 0;
    if (!rfc3339_parse(text, &us))
        fail("%s is a time", text);
    return us / 1000000;
}

// Over hours nothing happens: the clocks go on, an agent is there only around the moments that count.
static void sleep_until(struct rig *r, const char *text)
{
    int64_t ms = instant(text) * 1000 - r->fc.wall_us / 1000;
    if (ms > 0)
        rig_run(r, ms);
}

// --- Any order of faults

static uint64_t dice;

static int64_t roll(int64_t n)
{
    dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((dice >> 33) % (uint64_t)n);
}

static void one_fault(struct rig *r)
{
    static const int64_t steps_s[] = { 1, 30, 59, 60, 61, 600, 3599, 3601, 86400, 30 * 86400, 315576000 };
    int64_t step_s = steps_s[roll(ARRAY_LEN(steps_s))];
    switch (roll(6)) {
    case 0:
        set_wall(r, r->fc.wall_us / 1000000 + step_s);
        break;
    case 1:
        set_wall(r, MAX(r->fc.wall_us / 1000000 - step_s, 0));
        break;
    case 2:
        rig_crash(r);
        break;
    case 3:
        rig_power_cut(r);
        break;
    case 4:
        r->fc.synced = !r->fc.synced;
        engine_clock_changed(r->engine);
        break;
    case 5:
        fake_clock_advance(&r->fc, roll(3 * HOUR)); // as if suspended
        break;
    }
}

static bool started_untrusted(struct rig *r, bool was_trusted, int started)
{
    return started > 0 && !was_trusted && !clock_trusted(&r->fc.clock);
}

// How often what was promised did not hold, over all storms.
struct broken {
    int twice, attempts, crowded, untrusted, stuck;
};

static void blow(struct rig *r, struct broken *b)
{
    bool trusted = clock_trusted(&r->fc.clock);
    one_fault(r);
    look_at_port(r); // what was started before the fault is not this spell's
    bool calm = trusted == clock_trusted(&r->fc.clock);
    rig_run(r, SECOND / 2);
    int late = look_at_port(r);
    b->untrusted += calm && started_untrusted(r, trusted, late);
    b->untrusted += started_untrusted(r, clock_trusted(&r->fc.clock), watch(r, (1 + roll(4)) * MINUTE));
}

// Faults of all sorts, then peace. Side by side runs are short; those of Forbid and Replace last into the next minute.
static void storm(int seed, const char *policy, int64_t run_ms, int runs_in_peace, struct broken *b)
{
    struct rig r;
    char spec[256];
    snprintf(spec, sizeof(spec),
             "{\"command\":[\"x\"],\"schedule\":\"* * * * *\",\"execution\":\"AtMostOnce\",\"concurrencyPolicy\":\"%s\"}", policy);
    begin(&r, spec);
    port_fake_behave(r.port, NULL, &(struct fake_behaviour){ .run_ms = run_ms, .stop_ms = 500 });
    dice = (uint64_t)seed;
    for (int i = 0; i < 25; i++)
        blow(&r, b);
    r.fc.synced = true;
    set_wall(&r, instant("2050-01-01T00:00:00Z"));
    watch(&r, 4 * MINUTE);
    int n = watch(&r, 10 * MINUTE);
    if (n != runs_in_peace)
        diag("seed %d, %s: %d runs in ten minutes of peace", seed, policy, n);
    b->stuck += n != runs_in_peace;
    b->twice += twice;
    b->attempts += attempts;
    b->crowded += strcmp(policy, "Allow") != 0 ? crowded : 0;
    rig_end(&r);
}

static void test_storms(void)
{
    struct broken b = { 0 };
    for (int seed = 1; seed <= STORMS; seed++) {
        storm(seed, "Allow", RUN_MS, 10, &b);
        storm(seed, "Forbid", 90 * SECOND, 5, &b);
        storm(seed, "Replace", 90 * SECOND, 10, &b);
    }
    is_int(b.twice, 0, "storms of clock steps, kills and power cuts: no attempt was started twice");
    is_int(b.attempts, 0, "AtMostOnce: no run was tried again");
    is_int(b.crowded, 0, "Forbid and Replace: never two at a time");
    is_int(b.untrusted, 0, "nothing was started while nobody vouched for the clock");
    is_int(b.stuck, 0, "afterwards each minute has its run");
}

// --- Killed or without power between the intent and the start, by a schedule

static void test_killed_at_each_turn(bool power)
{
    int lost = 0, repeated = 0, unknown = 0;
    for (int turns = 1; turns < 20; turns++) {
        struct rig r;
        struct err e = ERR_INIT;
        begin(&r, EACH_MINUTE);
        rig_run(&r, MINUTE - SECOND - SECOND / 2);
        for (int i = 0; i < turns; i++)
            rig_must(loop_turn(r.loop, i < 12 ? 60 : 500, &e), &e, "turn");
        look_at_port(&r);
        if (power)
            rig_power_cut(&r);
        else
            rig_crash(&r);
        watch(&r, 30 * SECOND);
        repeated += twice + attempts;
        lost += count(&r, "succeeded") + count(&r, "failed") + count(&r, "missed") != 1;
        unknown += (int)count(&r, "failed");
        rig_end(&r);
    }
    const char *how = power ? "power cut" : "killed";
    is_int(repeated, 0, "%s at each turn around a due instant: at most one attempt", how);
    is_int(lost, 0, "%s: the instant has one outcome", how);
    ok(unknown > 0 && unknown < 19, "%s: sometimes nobody knows (%d of 19)", how, unknown);
}

// --- Nights on which clocks change

static void test_nights(void)
{
    struct rig r;
    begin(&r, NULL);
    set_wall(&r, instant("2026-10-24T22:00:00Z"));
    rig_apply(&r, JOB, "{\"command\":[\"x\"],\"schedule\":\"30 2 * * *\",\"timeZone\":\"CET-1CEST,M3.5.0,M10.5.0/3\"}");
    sleep_until(&r, "2026-10-25T00:29:00Z");
    is_int(watch(&r, 2 * MINUTE), 1, "02:30 in summer time runs");
    rig_crash(&r);
    sleep_until(&r, "2026-10-25T01:29:00Z");
    is_int(watch(&r, 2 * MINUTE), 1, "02:30 comes again, in winter time, and runs, as in Kubernetes");
    is_str(rig_field(&r, JOB, "lastScheduleTime"), "\"2026-10-25T01:30:00Z\"", "it is the second of the two");
    rig_power_cut(&r);
    is_int(watch(&r, HOUR), 0, "and neither again");
    is_str(rig_field(&r, JOB, "nextScheduleTime"), "\"2026-10-26T01:30:00Z\"", "next");
    rig_end(&r);

    begin(&r, NULL);
    set_wall(&r, instant("2026-03-28T12:00:00Z"));
    rig_apply(&r, JOB, "{\"command\":[\"x\"],\"schedule\":\"30 2 * * *\",\"timeZone\":\"CET-1CEST,M3.5.0,M10.5.0/3\"}");
    sleep_until(&r, "2026-03-29T12:00:00Z");
    is_int(look_at_port(&r) + count(&r, "succeeded") + count(&r, "missed"), 0,
           "02:30 that the clocks leave out does not run, nor is it missed");
    sleep_until(&r, "2026-03-30T00:31:00Z");
    is_int(count(&r, "succeeded"), 1, "the next night it does");
    rig_end(&r);
}

// Chile goes from Saturday 24:00 to Sunday 01:00. The library of Kubernetes then takes the Sunday for a Saturday; the schedule goes on all the same.
static void test_midnight_left_out(void)
{
    struct rig r;
    begin(&r, NULL);
    set_wall(&r, instant("2026-09-05T13:00:00Z"));
    rig_apply(&r, JOB, "{\"command\":[\"x\"],\"schedule\":\"0 5 * * SAT\",\"timeZone\":\"<-04>4<-03>,M9.1.6/24,M4.1.6/24\"}");
    sleep_until(&r, "2026-09-06T08:01:00Z");
    is_str(rig_field(&r, JOB, "lastScheduleTime"), "\"2026-09-06T08:00:00Z\"",
           "a day without a midnight: what runs is the instant that is due");
    is_int(count(&r, "missed"), 0, "none was missed");
    is_str(rig_field(&r, JOB, "nextScheduleTime"), "\"2026-09-12T08:00:00Z\"", "next");
    sleep_until(&r, "2026-09-12T08:01:00Z");
    is_int(count(&r, "succeeded"), 2, "the Saturday after has its run");
    rig_end(&r);
}

// --- Long away

static void test_thousands_missed(void)
{
    struct rig r;
    begin(&r, EACH_MINUTE);
    watch(&r, 2 * MINUTE + 9 * SECOND);
    rig_power_cut(&r);
    fake_clock_advance(&r.fc, INT64_C(90) * 24 * HOUR + 17 * SECOND);
    int n = watch(&r, 2 * MINUTE);
    ok(n >= 2 && n <= 3, "ninety days without power: one catch-up at most beside the regular runs (%d)", n);
    ok(count(&r, "missed") >= JOB_MISSED_MAX, "the others are counted as far as one counts");
    is_int(rig_events(&r, "RunsMissed"), 1, "and told once");
    is_int(twice + attempts, 0, "none ran twice");
    rig_end(&r);
}

// A clock that was years ahead while a run ended leaves nothing behind that stays in the future.
static void test_back_from_the_future(void)
{
    struct rig r;
    begin(&r, EACH_MINUTE);
    watch(&r, 2 * MINUTE);
    int64_t now_s = r.fc.wall_us / 1000000;
    set_wall(&r, now_s + 315576000);
    watch(&r, 3 * MINUTE);
    set_wall(&r, now_s + 180);
    watch(&r, 3 * MINUTE);
    has_str(rig_field(&r, JOB, "lastScheduleTime"), "2026-01-01T", "back from ten years ahead: the last run is of today");
    has_str(rig_field(&r, JOB, "lastSuccessfulTime"), "2026-01-01T", "so is the last that succeeded");
    has_str(rig_field(&r, JOB, "nextScheduleTime"), "2026-01-01T", "so is the next");
    rig_end(&r);
}

// Without anybody to vouch for the clock the agent boots in 1970, and hours later learns the time.
static void test_boots_in_1970(void)
{
    struct rig r;
    begin(&r, "{\"command\":[\"x\"],\"schedule\":\"0 * * * *\",\"startingDeadlineSeconds\":900,\"execution\":\"AtMostOnce\"}");
    watch(&r, HOUR + MINUTE);
    is_int((intmax_t)n_seen, 1, "before: it ran at one");
    rig_power_cut(&r);
    r.fc.synced = false;
    set_wall(&r, 0);
    is_int(watch(&r, 3 * HOUR), 0, "boot in 1970: nothing runs for hours");
    is_str(rig_condition(&r, JOB, "Scheduled"), "False ClockUntrusted", "and the status says why");
    r.fc.synced = true;
    set_wall(&r, instant("2026-01-01T05:20:00Z"));
    is_int(watch(&r, 30 * MINUTE), 0, "the time is known: 05:00 is older than its deadline");
    is_int(count(&r, "missed"), 4, "the four are missed");
    sleep_until(&r, "2026-01-01T05:59:30Z");
    is_int(watch(&r, MINUTE), 1, "six o'clock runs");
    rig_end(&r);
}

// --- The zone goes away

static void write_zone(struct rig *r)
{
    static const unsigned char file[] = "TZif\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" // version 1, nothing but an offset of 3600 s
                                        "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\4"
                                        "\0\0\x0e\x10\0\0STD";
    struct err e = ERR_INIT;
    rig_must(r->disk->ops->mkdirs(r->disk, "/usr/share/zoneinfo", 0755, 0, &e), &e, "zoneinfo");
    rig_must(fs_write(r->disk, "/usr/share/zoneinfo/Town", file, sizeof(file), 0644, 0, &e), &e, "zone");
}

static void test_zone_goes_away(void)
{
    struct rig r;
    struct err e = ERR_INIT;
    begin(&r, NULL);
    rig_apply(&r, JOB, "{\"command\":[\"x\"],\"schedule\":\"30 * * * *\",\"timeZone\":\"Town\"}");
    rig_run(&r, SECOND);
    is_str(rig_condition(&r, JOB, "Scheduled"), "False UnknownTimeZone", "a zone that is not there");
    has_str(rig_message(&r, JOB, "Scheduled"), "install tzdata", "the condition says what to do");
    write_zone(&r);
    watch(&r, 31 * MINUTE);
    is_int((intmax_t)n_seen, 1, "tzdata is installed: the schedule goes on by itself");
    rig_must(r.disk->ops->unlink(r.disk, "/usr/share/zoneinfo/Town", 0, &e), &e, "unlink");
    watch(&r, 3 * HOUR);
    is_int((intmax_t)n_seen, 4, "its file goes away: what was read of it still counts");
    rig_end(&r);
}

int main(void)
{
    test_storms();
    test_killed_at_each_turn(false);
    test_killed_at_each_turn(true);
    test_nights();
    test_midnight_left_out();
    test_thousands_missed();
    test_back_from_the_future();
    test_boots_in_1970();
    test_zone_goes_away();
    return done_testing();
}
