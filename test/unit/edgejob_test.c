// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgejob.c"

#include "kind_rig.h"

#define JOB "edgejobs", "backup"
#define ONE_SHOT ""
#define EACH_MINUTE ",\"schedule\":\"* * * * *\""

enum { SETTLE_MS = 200, MINUTE = 60000, HOUR = 60 * MINUTE, SECOND = 1000 };

static void apply(struct rig *r, const char *sort, const char *more)
{
    char spec[1024];
    snprintf(spec, sizeof(spec), "{\"command\":[\"x\"]%s%s}", sort, more);
    rig_apply(r, JOB, spec);
}

static void behave(struct rig *r, int64_t run_ms, int exit_code)
{
    port_fake_behave(r->port, NULL, &(struct fake_behaviour){ .run_ms = run_ms, .exit_code = exit_code, .stop_ms = 500 });
}

static struct inst all[OBSERVE_MAX];

static int collect_insts(void *ctx, const struct inst *i)
{
    size_t *n = ctx;
    all[(*n)++] = *i;
    return 0;
}

static int live(struct rig *r)
{
    size_t n = 0;
    int alive = 0;
    struct err e = ERR_INIT;
    rig_must(r->port->ops->each(r->port, rig_key(r, JOB), collect_insts, &n, &e), &e, "each");
    for (size_t i = 0; i < n; i++)
        alive += all[i].state != INST_EXITED;
    return alive;
}

static int insts(struct rig *r)
{
    size_t n = 0;
    struct err e = ERR_INIT;
    rig_must(r->port->ops->each(r->port, rig_key(r, JOB), collect_insts, &n, &e), &e, "each");
    return (int)n;
}

static int64_t count(struct rig *r, const char *field)
{
    return strtoll(rig_field(r, JOB, field), NULL, 10);
}

static void start(struct rig *r, int64_t run_ms, int exit_code)
{
    rig_start(r);
    behave(r, run_ms, exit_code);
}

// --- One-shot

static void test_succeeds(void)
{
    struct rig r;
    start(&r, 3 * SECOND, 0);
    apply(&r, ONE_SHOT, "");
    rig_run(&r, SETTLE_MS);
    is_int(live(&r), 1, "one-shot: it runs");
    is_str(rig_field(&r, JOB, "state"), "\"Running\"", "state");
    is_str(rig_condition(&r, JOB, "Complete"), "False Running", "not complete yet");
    is_str(rig_condition(&r, JOB, "Ready"), "False Running", "nor ready");
    is_str(rig_field(&r, JOB, "active.0.attempts"), "1", "its first attempt");
    is_str(rig_field(&r, JOB, "active.0.startTime"), "\"2026-01-01T00:00:00Z\"", "since when");
    uint64_t writes = rig_status_writes(&r);
    rig_run(&r, 4 * SECOND);
    is_str(rig_condition(&r, JOB, "Complete"), "True Succeeded", "complete");
    is_str(rig_condition(&r, JOB, "Failed"), "False NotFailed", "not failed");
    is_str(rig_condition(&r, JOB, "Ready"), "True Succeeded", "ready");
    is_str(rig_field(&r, JOB, "state"), "\"Succeeded\"", "state");
    is_str(rig_field(&r, JOB, "active"), "[]", "nothing is active");
    is_str(rig_field(&r, JOB, "runs.0.outcome"), "\"Succeeded\"", "the history has it");
    is_str(rig_field(&r, JOB, "runs.0.exitCode"), "0", "with its exit code");
    is_str(rig_field(&r, JOB, "runs.0.completionTime"), "\"2026-01-01T00:00:03Z\"", "and when it ended");
    is_str(rig_field(&r, JOB, "runs.0.attempts"), "1", "in one attempt");
    has_str(rig_field(&r, JOB, "runs.0.name"), "\"backup-", "and its name");
    is_str(rig_field(&r, JOB, "succeeded"), "1", "counted");
    is_int(rig_events(&r, "RunSucceeded"), 1, "one event");
    is_int(insts(&r), 0, "the port forgot it");
    is_int((intmax_t)(rig_status_writes(&r) - writes), 1, "its end is one status");
    writes = rig_status_writes(&r);
    rig_run(&r, 2 * HOUR);
    is_int((intmax_t)(rig_status_writes(&r) - writes), 0, "afterwards nothing is written");
    is_int(count(&r, "succeeded"), 1, "and nothing runs");
    apply(&r, ONE_SHOT, ",\"backoffLimit\":3");
    rig_run(&r, MINUTE);
    is_int(count(&r, "succeeded"), 1, "a change that is no new revision runs nothing");
    apply(&r, ONE_SHOT, ",\"args\":[\"more\"]");
    rig_run(&r, MINUTE);
    is_int(count(&r, "succeeded"), 2, "a new revision runs again");
    rig_end(&r);
}

static void test_fails(void)
{
    struct rig r;
    start(&r, 1 * SECOND, 7);
    apply(&r, ONE_SHOT, ",\"backoffLimit\":2");
    rig_run(&r, 2 * SECOND);
    is_str(rig_field(&r, JOB, "state"), "\"BackOff\"", "failure: it waits");
    is_int(rig_events(&r, "BackOff"), 1, "and an event says how long");
    rig_run(&r, 8 * SECOND);
    is_int(live(&r), 0, "not before 10 s");
    rig_run(&r, 1500);
    is_int(live(&r), 1, "then it is tried again");
    rig_run(&r, 25 * SECOND);
    is_str(rig_condition(&r, JOB, "Failed"), "True BackoffLimitExceeded", "20 s later the third attempt was the last");
    has_str(rig_message(&r, JOB, "Failed"), "ended with exit code 7", "the condition says how");
    is_str(rig_condition(&r, JOB, "Ready"), "False Failed", "not ready");
    is_str(rig_field(&r, JOB, "runs.0.attempts"), "3", "three attempts");
    is_str(rig_field(&r, JOB, "runs.0.exitCode"), "7", "the exit code of the last");
    is_str(rig_field(&r, JOB, "runs.0.startTime"), "\"2026-01-01T00:00:00Z\"", "began with the first");
    is_int(rig_events(&r, "RunFailed"), 1, "one event for the run");
    rig_run(&r, HOUR);
    is_str(rig_field(&r, JOB, "failed"), "1", "it stays failed");
    rig_end(&r);
}

static void test_deadline(void)
{
    struct rig r;
    start(&r, -1, 0);
    apply(&r, ONE_SHOT, ",\"activeDeadlineSeconds\":30");
    rig_run(&r, 29 * SECOND);
    is_int(live(&r), 1, "deadline: it has 30 s");
    rig_run(&r, 2 * SECOND);
    is_int(live(&r), 0, "then it is stopped");
    is_str(rig_condition(&r, JOB, "Failed"), "True DeadlineExceeded", "and that is a failure");
    is_str(rig_field(&r, JOB, "runs.0.outcome"), "\"DeadlineExceeded\"", "its outcome");
    is_str(rig_field(&r, JOB, "runs.0.signal"), "15", "by SIGTERM");
    behave(&r, 1 * SECOND, 1);
    apply(&r, ONE_SHOT, ",\"activeDeadlineSeconds\":15,\"args\":[\"2\"]");
    rig_run(&r, 20 * SECOND);
    is_str(rig_field(&r, JOB, "runs.0.outcome"), "\"DeadlineExceeded\"", "the time between attempts counts, too");
    is_int(rig_events(&r, "RunDeadlineExceeded"), 2, "an event each");
    rig_end(&r);
}

static void test_suspend(void)
{
    struct rig r;
    start(&r, 1 * SECOND, 1);
    apply(&r, ONE_SHOT, ",\"suspend\":true");
    rig_run(&r, MINUTE);
    is_int(count(&r, "failed"), 0, "suspended: nothing ran");
    is_str(rig_field(&r, JOB, "state"), "\"Suspended\"", "the state says why");
    is_str(rig_condition(&r, JOB, "Suspended"), "True Suspended", "and the condition");
    apply(&r, ONE_SHOT, "");
    rig_run(&r, 2 * SECOND);
    is_str(rig_field(&r, JOB, "state"), "\"BackOff\"", "resumed: it ran, and waits");
    apply(&r, ONE_SHOT, ",\"suspend\":true");
    rig_run(&r, HOUR);
    is_int(rig_events(&r, "BackOff"), 1, "suspended in between: no further attempt");
    behave(&r, 5 * SECOND, 0);
    apply(&r, ONE_SHOT, "");
    rig_run(&r, SETTLE_MS);
    is_int(live(&r), 1, "resumed: the next attempt comes");
    apply(&r, ONE_SHOT, ",\"suspend\":true");
    rig_run(&r, 10 * SECOND);
    is_int(count(&r, "succeeded"), 1, "suspended while it runs: it ends by itself");
    rig_end(&r);
}

static void test_new_revision_while_running(void)
{
    struct rig r;
    start(&r, -1, 0);
    apply(&r, ONE_SHOT, "");
    rig_run(&r, SETTLE_MS);
    apply(&r, ONE_SHOT, ",\"args\":[\"2\"]");
    rig_run(&r, SETTLE_MS);
    is_int(live(&r), 1, "superseded: the old run is being stopped, the new one waits");
    is_str(rig_field(&r, JOB, "state"), "\"Stopping\"", "the state says so");
    rig_run(&r, SECOND);
    is_str(rig_field(&r, JOB, "runs.0.outcome"), "\"Replaced\"", "its outcome");
    is_int(live(&r), 1, "the new one runs");
    is_str(rig_field(&r, JOB, "state"), "\"Running\"", "state");
    rig_end(&r);
}

static void test_gone(void)
{
    struct rig r;
    start(&r, -1, 0);
    apply(&r, ONE_SHOT, "");
    rig_run(&r, SETTLE_MS);
    rig_delete(&r, JOB);
    rig_run(&r, SETTLE_MS);
    is_int(live(&r), 1, "deleted: it is being stopped");
    rig_run(&r, 2 * SECOND);
    is_int(insts(&r), 0, "nothing is left");
    ok(engine_state_of(r.engine, rig_key(&r, JOB)) == NULL, "and nothing remembered");
    apply(&r, ONE_SHOT, "");
    rig_run(&r, SETTLE_MS);
    is_int(live(&r), 1, "made again, it runs again");
    rig_end(&r);
}

// --- The agent dies

static void test_agent_killed_while_running(void)
{
    struct rig r;
    start(&r, 20 * SECOND, 3);
    apply(&r, ONE_SHOT, ",\"execution\":\"AtMostOnce\"");
    rig_run(&r, 5 * SECOND);
    int pid = live(&r) == 1 ? all[0].pid : 0;
    rig_crash(&r);
    rig_run(&r, SETTLE_MS);
    ok(live(&r) == 1 && all[0].pid == pid && pid > 0, "the agent was killed: the run goes on");
    is_str(rig_field(&r, JOB, "state"), "\"Running\"", "and is known");
    rig_crash(&r);
    fake_clock_advance(&r.fc, 60 * SECOND); // it ends while no agent is there
    rig_run(&r, SETTLE_MS);
    is_str(rig_field(&r, JOB, "runs.0.exitCode"), "3", "its exit is recorded");
    is_str(rig_field(&r, JOB, "runs.0.completionTime"), "\"2026-01-01T00:00:20Z\"", "with its own time");
    is_int(rig_events(&r, "RunFailed"), 1, "and told once");
    rig_run(&r, HOUR);
    is_int(live(&r) + (int)count(&r, "failed"), 1, "it does not run again");
    rig_end(&r);
}

// However many turns of the loop the agent lived, an AtMostOnce run is started at most once, and an AtLeastOnce one ends well.
static void test_killed_at_each_turn(bool once)
{
    int twice = 0, lost = 0, told_wrong = 0, unknown = 0;
    for (int turns = 1; turns < 25; turns++) {
        struct rig r;
        struct err e = ERR_INIT;
        start(&r, 2 * SECOND, 0);
        apply(&r, ONE_SHOT, once ? ",\"execution\":\"AtMostOnce\"" : "");
        for (int i = 0; i < turns; i++)
            rig_must(loop_turn(r.loop, i < 10 ? 0 : 250, &e), &e, "turn");
        int before = insts(&r);
        rig_crash(&r);
        rig_run(&r, MINUTE);
        int64_t good = count(&r, "succeeded"), bad = count(&r, "failed");
        twice += good > 1 || rig_events(&r, "RunSucceeded") > 1;
        unknown += bad > 0;
        lost += once ? good + bad != 1 : good != 1;
        told_wrong += before > 0 && good != 1; // it was started, and its end was there to be seen
        is_int(insts(&r), 0, "killed after %d turns: nothing is left in the port", turns);
        rig_end(&r);
    }
    const char *what = once ? "AtMostOnce" : "AtLeastOnce";
    is_int(twice, 0, "%s, killed at each turn: never twice", what);
    is_int(lost, 0, "%s: each run has an outcome", what);
    is_int(told_wrong, 0, "%s: a run that was started is taken over", what);
    if (once)
        ok(unknown > 0 && unknown < 5, "field 22: killed between the intent and the start it is Unknown (%d of 24)", unknown);
    else
        is_int(unknown, 0, "tried again after it was lost");
}

static void test_power_cut(void)
{
    struct rig r;
    start(&r, -1, 0);
    apply(&r, ONE_SHOT, ",\"execution\":\"AtMostOnce\"");
    rig_run(&r, SECOND);
    rig_power_cut(&r);
    rig_run(&r, HOUR);
    is_str(rig_condition(&r, JOB, "Failed"), "True OutcomeUnknown", "field 22: power cut, AtMostOnce: nobody knows how it ended");
    is_str(rig_field(&r, JOB, "runs.0.outcome"), "\"Unknown\"", "its outcome");
    is_str(rig_field(&r, JOB, "state"), "\"Unknown\"", "the state");
    is_int(insts(&r), 0, "field 22: it is not started again");
    is_int(rig_events(&r, "RunUnknown"), 1, "an event says so");
    rig_end(&r);

    start(&r, -1, 0);
    apply(&r, ONE_SHOT, "");
    rig_run(&r, SECOND);
    behave(&r, SECOND, 0);
    rig_power_cut(&r);
    rig_run(&r, MINUTE);
    is_str(rig_condition(&r, JOB, "Complete"), "True Succeeded", "power cut, AtLeastOnce: it runs again");
    is_str(rig_field(&r, JOB, "runs.0.attempts"), "2", "in its second attempt");
    rig_end(&r);
}

// The agent looks at everything again after a commit that failed; the rig does not, so the test says when.
static void test_full_disk(void)
{
    struct rig r;
    start(&r, SECOND, 0);
    apply(&r, EACH_MINUTE, ",\"execution\":\"AtMostOnce\"");
    rig_run(&r, 59 * SECOND);
    r.commits_fail = true;
    fake_clock_advance(&r.fc, 2 * SECOND);
    struct err e = ERR_INIT;
    for (int turn = 0; turn < 20; turn++)
        rig_must(loop_turn(r.loop, 0, &e), &e, "turn");
    is_int(insts(&r), 0, "the disk is full: nothing begins that could not be remembered");
    r.commits_fail = false;
    engine_touch(r.engine, rig_key(&r, JOB), "store");
    rig_run(&r, 10 * SECOND);
    is_int(count(&r, "succeeded"), 1, "there is room again: it ran");
    rig_end(&r);
}

// --- By a schedule

static void test_each_minute(void)
{
    struct rig r;
    start(&r, 5 * SECOND, 0);
    apply(&r, EACH_MINUTE, "");
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, JOB, "Scheduled"), "True Scheduled", "each minute: scheduled");
    is_str(rig_condition(&r, JOB, "Ready"), "True Scheduled", "ready");
    is_str(rig_field(&r, JOB, "nextScheduleTime"), "\"2026-01-01T00:01:00Z\"", "next");
    is_int(insts(&r), 0, "the minute that was under way already is not this job's");
    uint64_t writes = rig_status_writes(&r);
    rig_run(&r, 10 * MINUTE + 10 * SECOND);
    is_int(count(&r, "succeeded"), 10, "ten minutes: ten runs");
    is_int((intmax_t)(rig_status_writes(&r) - writes), 20, "two statuses a run");
    is_int(rig_events(&r, "RunSucceeded"), 10, "an event each");
    is_str(rig_field(&r, JOB, "runs.2.outcome"), "\"Succeeded\"", "three of them are kept");
    is_str(rig_field(&r, JOB, "runs.3"), "", "and no more");
    is_str(rig_field(&r, JOB, "runs.0.scheduledTime"), "\"2026-01-01T00:10:00Z\"", "newest first");
    is_str(rig_field(&r, JOB, "lastScheduleTime"), "\"2026-01-01T00:10:00Z\"", "last scheduled");
    is_str(rig_field(&r, JOB, "lastSuccessfulTime"), "\"2026-01-01T00:10:05Z\"", "last successful");
    rig_crash(&r);
    rig_run(&r, 5 * MINUTE);
    is_int(count(&r, "succeeded"), 15, "the agent was killed in between: no instant is lost or repeated");
    rig_end(&r);
}

static void test_policies(void)
{
    struct rig r;
    start(&r, 90 * SECOND, 0);
    apply(&r, EACH_MINUTE, ",\"concurrencyPolicy\":\"Forbid\"");
    rig_run(&r, 2 * MINUTE + SECOND);
    is_int(live(&r), 1, "Forbid: the second is left out");
    is_str(rig_field(&r, JOB, "skipped"), "1", "counted");
    is_int(rig_events(&r, "RunSkipped"), 1, "and told");
    rig_end(&r);

    start(&r, 90 * SECOND, 0);
    apply(&r, EACH_MINUTE, ",\"concurrencyPolicy\":\"Replace\"");
    rig_run(&r, 2 * MINUTE + SETTLE_MS);
    is_int(live(&r), 1, "Replace: the first is stopped before the second begins");
    rig_run(&r, SECOND);
    is_int(live(&r), 1, "then the second runs");
    is_str(rig_field(&r, JOB, "runs.0.outcome"), "\"Replaced\"", "the outcome of the first");
    is_str(rig_field(&r, JOB, "active.0.scheduledTime"), "\"2026-01-01T00:02:00Z\"", "it is the second that runs");
    rig_end(&r);

    start(&r, 90 * SECOND, 0);
    apply(&r, EACH_MINUTE, "");
    rig_run(&r, 2 * MINUTE + SECOND);
    is_int(live(&r), 2, "Allow: side by side");
    behave(&r, -1, 0);
    rig_run(&r, 30 * MINUTE);
    is_int(live(&r), JOB_RUNS_MAX, "up to a bound");
    ok(rig_events(&r, "TooManyRuns") > 0, "at the bound it is told");
    rig_end(&r);
}

static void test_missed(void)
{
    struct rig r;
    start(&r, SECOND, 0);
    apply(&r, EACH_MINUTE, "");
    rig_run(&r, 2 * MINUTE + 10 * SECOND);
    rig_power_cut(&r);
    fake_clock_advance(&r.fc, 3 * HOUR + 20 * SECOND);
    rig_run(&r, SETTLE_MS);
    is_int(count(&r, "succeeded"), 2, "three hours without power: the catch-up takes its place in the spread");
    rig_run(&r, MINUTE);
    is_int(count(&r, "succeeded"), 3, "one catch-up, or the next regular run if that comes first");
    ok(count(&r, "missed") == 179 || count(&r, "missed") == 180, "the others were missed");
    is_int(rig_events(&r, "RunsMissed"), 1, "which is told once");
    rig_end(&r);

    start(&r, SECOND, 0);
    rig_apply(&r, JOB, "{\"command\":[\"x\"],\"schedule\":\"0 * * * *\",\"startingDeadlineSeconds\":600}");
    rig_run(&r, HOUR + MINUTE);
    rig_power_cut(&r);
    fake_clock_advance(&r.fc, 2 * HOUR);
    rig_run(&r, 2 * MINUTE);
    is_int(count(&r, "succeeded"), 2, "within startingDeadlineSeconds the latest is caught up");
    is_int(count(&r, "missed"), 1, "the one before it was missed");
    rig_power_cut(&r);
    fake_clock_advance(&r.fc, HOUR + 20 * MINUTE);
    rig_run(&r, 5 * MINUTE);
    is_int(count(&r, "succeeded"), 2, "later than that it is not");
    is_int(count(&r, "missed"), 2, "but missed");
    rig_end(&r);
}

static void test_clock(void)
{
    struct rig r;
    start(&r, SECOND, 0);
    r.fc.synced = false;
    apply(&r, EACH_MINUTE, "");
    rig_apply(&r, "edgejobs", "once", "{\"command\":[\"x\"]}");
    rig_run(&r, 10 * MINUTE);
    is_str(rig_condition(&r, JOB, "Scheduled"), "False ClockUntrusted", "an untrusted clock: nothing is scheduled");
    is_str(rig_field(&r, JOB, "state"), "\"Waiting\"", "it waits");
    is_int(count(&r, "succeeded"), 0, "and nothing ran");
    is_str(rig_condition(&r, "edgejobs", "once", "Complete"), "True Succeeded", "a one-shot runs regardless");
    is_str(rig_field(&r, "edgejobs", "once", "runs.0.completionTime"), "\"2026-01-01T00:00:01Z\"", "with what the clock said");
    r.fc.synced = true;
    r.fc.wall_us += INT64_C(3600) * 1000000;
    engine_clock_changed(r.engine);
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, JOB, "Scheduled"), "True Scheduled", "trusted: scheduled");
    is_str(rig_field(&r, "edgejobs", "once", "runs.0.completionTime"), "\"2026-01-01T01:00:01Z\"", "what was told is corrected");
    rig_run(&r, 3 * MINUTE + 5 * SECOND);
    is_int(count(&r, "succeeded"), 3, "from then on it runs");
    is_int(count(&r, "missed"), 0, "what was before is nobody's");
    // Back by half an hour: what ran does not run again.
    r.fc.wall_us -= INT64_C(1800) * 1000000;
    engine_clock_changed(r.engine);
    rig_run(&r, 25 * MINUTE);
    is_int(count(&r, "succeeded"), 3, "set back by half an hour: no instant runs twice");
    rig_run(&r, 10 * MINUTE);
    ok(count(&r, "succeeded") > 3, "then it goes on");
    // Ten years ahead and back.
    int64_t before = count(&r, "succeeded");
    r.fc.wall_us += INT64_C(315576000) * 1000000;
    engine_clock_changed(r.engine);
    rig_run(&r, 5 * MINUTE);
    ok(count(&r, "succeeded") <= before + 6, "ten years ahead: one catch-up at most");
    before = count(&r, "succeeded");
    r.fc.wall_us -= INT64_C(315576000) * 1000000;
    engine_clock_changed(r.engine);
    rig_run(&r, 5 * MINUTE);
    ok(count(&r, "succeeded") >= before + 4, "and back: the schedule goes on at once (%d runs)", (int)(count(&r, "succeeded") - before));
    rig_end(&r);
}

static void test_schedule_changes(void)
{
    struct rig r;
    start(&r, SECOND, 0);
    rig_apply(&r, JOB, "{\"command\":[\"x\"],\"schedule\":\"0 12 * * *\"}");
    rig_run(&r, 13 * HOUR);
    is_int(count(&r, "succeeded"), 1, "ran at noon");
    rig_apply(&r, JOB, "{\"command\":[\"x\"],\"schedule\":\"30 12 * * *\"}");
    rig_run(&r, 2 * MINUTE);
    is_int(count(&r, "succeeded"), 1, "a schedule that is changed counts from then on: 12:30 is past");
    is_str(rig_field(&r, JOB, "nextScheduleTime"), "\"2026-01-02T12:30:00Z\"", "next");
    rig_apply(&r, JOB, "{\"command\":[\"x\"],\"schedule\":\"30 14 * * *\",\"timeZone\":\"CET-1\"}");
    rig_run(&r, SETTLE_MS);
    is_str(rig_field(&r, JOB, "nextScheduleTime"), "\"2026-01-01T13:30:00Z\"", "in another time zone");
    rig_apply(&r, JOB, "{\"command\":[\"x\"],\"schedule\":\"30 14 * * *\",\"timeZone\":\"Mars/Olympus\"}");
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, JOB, "Scheduled"), "False UnknownTimeZone", "a zone that is not known here");
    is_str(rig_condition(&r, JOB, "Ready"), "False NotScheduled", "not ready");
    rig_end(&r);
}

// The server is away for longer than the ring of events holds: what went is counted; counters and history are whole.
static void test_long_offline(void)
{
    struct rig r;
    struct outbox_stats o;
    struct err e = ERR_INIT;
    enum { RUNS = 600, RING = 500 };
    start(&r, SECOND, 0);
    r.max_events = RING;
    rig_crash(&r);
    apply(&r, EACH_MINUTE, "");
    rig_run(&r, RUNS * (int64_t)MINUTE + 10 * SECOND);
    is_int(count(&r, "succeeded"), RUNS, "ten hours offline: each minute ran, and is counted");
    is_int(count(&r, "missed") + count(&r, "failed"), 0, "none failed or was missed");
    rig_must(outbox_stats(r.outbox, &o, &e), &e, "outbox");
    is_int(o.events_pending, RING, "the outbox holds as many runs as it may");
    is_int(o.events_lost, RUNS - RING, "the others are counted as lost");
    is_str(rig_field(&r, JOB, "runs.2.outcome"), "\"Succeeded\"", "the history has the newest");
    rig_end(&r);
}

// --- What is remembered

static void damage(struct rig *r)
{
    struct err e = ERR_INIT;
    rig_must(intent_put(r->db, rig_key(r, JOB), "job", "{\"version\":1,\"half\":", &e), &e, "damage");
    rig_must(db_commit(r->db, &e), &e, "commit");
}

static void test_damaged_record(void)
{
    struct rig r;
    start(&r, 10 * SECOND, 0);
    apply(&r, ONE_SHOT, ",\"execution\":\"AtMostOnce\"");
    rig_run(&r, SECOND);
    damage(&r);
    rig_crash(&r);
    rig_run(&r, SECOND);
    is_int(live(&r), 1, "the record is damaged: the run is taken over");
    rig_run(&r, MINUTE);
    is_str(rig_condition(&r, JOB, "Complete"), "True Succeeded", "and ends well");
    damage(&r);
    rig_crash(&r);
    rig_run(&r, MINUTE);
    is_str(rig_condition(&r, JOB, "Complete"), "True Succeeded", "damaged after its end: it is known to be over");
    is_int(count(&r, "succeeded"), 1, "and does not run again");
    rig_end(&r);

    start(&r, -1, 0);
    apply(&r, ONE_SHOT, ",\"execution\":\"AtMostOnce\"");
    rig_run(&r, SECOND);
    damage(&r);
    rig_power_cut(&r);
    rig_run(&r, MINUTE);
    is_str(rig_condition(&r, JOB, "Failed"), "True OutcomeUnknown", "damaged, and the power was cut: Unknown");
    is_int(insts(&r), 0, "not started again");
    rig_end(&r);
}

int main(void)
{
    test_succeeds();
    test_fails();
    test_deadline();
    test_suspend();
    test_new_revision_while_running();
    test_gone();
    test_agent_killed_while_running();
    test_killed_at_each_turn(true);
    test_killed_at_each_turn(false);
    test_power_cut();
    test_full_disk();
    test_each_minute();
    test_policies();
    test_missed();
    test_clock();
    test_schedule_changes();
    test_long_offline();
    test_damaged_record();
    return done_testing();
}
