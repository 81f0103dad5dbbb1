// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgejob_plan.c"

#include "tap.h"

#define KEY "edgejobs/edge-a/j"
#define UID "u1"
#define REV "1-0123456789ab"
#define T0 INT64_C(1767225600)
#define BOOT "boot-1"

// A world for one plan: what a test says of it, and what the plan made of it.
static struct job_spec spec;
static struct job_record record;
static struct job_seen seen;
static struct job_plan plan;
static struct inst insts[4];

static struct instant at(int64_t boot_ms)
{
    struct instant t = { .boot_ms = boot_ms, .wall_us = T0 * 1000000 + boot_ms * 1000, .trusted = true };
    snprintf(t.boot_id, sizeof(t.boot_id), BOOT);
    return t;
}

static void world(void)
{
    struct err e = ERR_INIT;
    spec = (struct job_spec){ .backoff_limit = 2, .active_deadline = -1, .starting_deadline_s = -1, .keep_succeeded = 3, .keep_failed = 1 };
    snprintf(spec.process.revision, sizeof(spec.process.revision), REV);
    if (cron_parse(&spec.cron, "* * * * *", &e) < 0)
        fail("%s", e.msg);
    record = (struct job_record){ 0 };
    seen = (struct job_seen){ .spec = &spec, .zone_ok = true, .insts = insts, .key = KEY, .uid = UID, .late_since_ms = -1 };
}

static void go(int64_t boot_ms)
{
    seen.now.at = at(boot_ms);
    seen.now.wall_s = seen.now.at.wall_us / 1000000;
    job_plan(&seen, &record, &plan);
}

// What the agent does after the commit: the attempts that were begun are its own.
static void commit(void)
{
    memset(seen.armed, 0, sizeof(seen.armed));
    memcpy(seen.armed, plan.begun, plan.n_begun * sizeof(plan.begun[0]));
}

static struct inst *instance(size_t run, enum inst_state state)
{
    struct inst *i = &insts[seen.n_insts++];
    *i = (struct inst){ .state = state, .started = at(0), .ended = at(0) };
    job_inst_uid(i->uid, KEY, UID, &record.runs[run]);
    memset(seen.armed, 0, sizeof(seen.armed));
    return i;
}

static void exited(struct inst *i, int code, int64_t boot_ms)
{
    i->state = INST_EXITED;
    i->exit = (struct inst_exit){ .known = true, .code = code };
    i->ended = at(boot_ms);
}

static int steps(enum job_step_kind kind)
{
    int n = 0;
    for (size_t i = 0; i < plan.n_steps; i++)
        n += plan.steps[i].kind == kind;
    return n;
}

static void test_decide_commit_act(void)
{
    world();
    go(1000);
    ok(plan.changed && record.n_runs == 1 && record.runs[0].begun, "a one-shot is begun in the record");
    is_int(steps(JOB_START), 0, "and not started in the same pass");
    commit();
    go(1001);
    ok(!plan.changed && steps(JOB_START) == 1, "once that is committed it is started");
    struct inst *i = instance(0, INST_RUNNING);
    go(2000);
    ok(!plan.changed && plan.n_steps == 0, "while it runs there is nothing to do");
    exited(i, 0, 2500);
    go(3000);
    ok(plan.changed && plan.n_finished == 1 && plan.finished[0].end == JOB_SUCCEEDED, "it succeeds");
    is_int(plan.finished[0].ended.boot_ms, 2500, "when it ended, not when that was seen");
    is_int(steps(JOB_FORGET), 0, "not forgotten before that is committed");
    go(3001);
    ok(!plan.changed && steps(JOB_FORGET) == 1, "but then");
}

static void begin(void)
{
    go(0);
    commit();
}

static void test_lost(void)
{
    world();
    begin();
    memset(seen.armed, 0, sizeof(seen.armed)); // another agent reads the record
    go(1000);
    ok(plan.n_finished == 0 && !record.runs[0].begun, "AtLeastOnce: a begun attempt that nobody knows of waits for the next");
    is_int(plan.n_notes, 1, "which is told");
    go(11000);
    is_int(record.runs[0].attempts, 2, "and comes");
    world();
    spec.once = true;
    spec.backoff_limit = 0;
    begin();
    memset(seen.armed, 0, sizeof(seen.armed));
    go(1000);
    ok(plan.n_finished == 1 && plan.finished[0].end == JOB_UNKNOWN, "AtMostOnce: Unknown");
    go(100000);
    ok(record.n_runs == 0 && !plan.changed, "and never again");
    world();
    spec.once = true;
    begin();
    exited(instance(0, INST_RUNNING), 0, 5);
    insts[0].exit.known = false;
    go(1000);
    is_int(plan.finished[0].end, JOB_UNKNOWN, "a supervisor that was killed is the same");
    world();
    spec.once = true;
    begin();
    spec.once = false; // the spec was changed while it ran
    memset(seen.armed, 0, sizeof(seen.armed));
    go(1000);
    is_int(plan.finished[0].end, JOB_UNKNOWN, "what was begun as AtMostOnce stays so");
}

static void test_backoff(void)
{
    static const int64_t waits[] = { 10000, 20000, 40000, 80000, 160000, 320000, 360000, 360000 };
    for (int i = 0; i < (int)ARRAY_LEN(waits); i++)
        is_int(job_backoff_ms(i + 1), waits[i], "after attempt %d", i + 1);
    world();
    begin();
    exited(instance(0, INST_RUNNING), 1, 1000);
    go(1500);
    is_int(plan.wait_ms, 9500, "counted from the end of the attempt");
    seen.n_insts = 0;
    go(10999);
    ok(!plan.changed, "not before");
    go(11000);
    is_int(record.runs[0].attempts, 2, "then the second");
    is_int(record.runs[0].first.boot_ms, 0, "of the same run");
    exited(instance(0, INST_RUNNING), 1, 12000);
    go(12000);
    seen.n_insts = 0;
    go(32000);
    exited(instance(0, INST_RUNNING), 1, 33000);
    go(33000);
    ok(plan.n_finished == 1 && plan.finished[0].end == JOB_FAILED, "backoffLimit 2: the third was the last");
}

static void test_boot(void)
{
    world();
    spec.active_deadline = 60000;
    begin();
    memset(seen.armed, 0, sizeof(seen.armed));
    snprintf(record.runs[0].first.boot_id, sizeof(record.runs[0].first.boot_id), "another");
    record.runs[0].first.boot_ms = 1 << 30;
    go(5000);
    go(20000);
    ok(record.n_runs == 1 && record.runs[0].first.boot_ms == 20000, "after a reboot the deadline counts anew");
    is_int(job_age_ms(&(struct instant){ .boot_id = "x", .boot_ms = 5 }, &(struct instant){ .boot_id = "y", .boot_ms = 9 }), -1,
           "the age of what was in another boot is nobody's knowledge");
}

static void test_stop_at_once(void)
{
    world();
    spec.active_deadline = 1000;
    begin();
    struct inst *i = instance(0, INST_RUNNING);
    go(1000);
    ok(plan.changed && steps(JOB_STOP) == 1, "what has to end is stopped in the pass that finds out: it needs no commit");
    i->state = INST_STOPPING;
    go(1001);
    is_int(plan.n_steps, 0, "once");
    exited(i, 0, 1100);
    go(1200);
    is_int(plan.finished[0].end, JOB_DEADLINE_EXCEEDED, "the reason is kept, whatever its exit code");
}

static void schedule(enum job_policy policy)
{
    world();
    spec.scheduled = true;
    spec.policy = policy;
    snprintf(spec.when, sizeof(spec.when), "w");
    go(1000); // begins to count
}

static void test_untrusted(void)
{
    schedule(JOB_ALLOW);
    seen.now.at = at(61000);
    seen.now.at.trusted = false;
    seen.now.wall_s = T0 + 61;
    job_plan(&seen, &record, &plan);
    ok(!plan.changed && record.n_runs == 0 && plan.next_instant_s == -1, "untrusted: nothing is due, nothing is next");
    go(61000);
    is_int((intmax_t)record.n_runs, 1, "trusted: it runs");
    is_str(record.runs[0].id, "29453761", "named after its minute");
}

static void test_policies(void)
{
    schedule(JOB_FORBID);
    go(60000);
    commit();
    struct inst *i = instance(0, INST_RUNNING);
    go(120000);
    ok(record.n_runs == 1 && record.skipped == 1, "Forbid: left out");
    schedule(JOB_REPLACE);
    seen.n_insts = 0;
    go(60000);
    commit();
    i = instance(0, INST_RUNNING);
    go(120000);
    ok(steps(JOB_STOP) == 1 && record.n_runs == 2, "Replace: the old one is stopped");
    is_int((intmax_t)plan.n_begun, 0, "and the new one waits");
    exited(i, -1, 120500);
    go(120500);
    ok(plan.n_finished == 1 && plan.finished[0].end == JOB_REPLACED, "until it ended");
    is_int((intmax_t)plan.n_begun, 1, "then it begins");
}

static void test_catch_up(void)
{
    schedule(JOB_ALLOW);
    seen.spread = 25000;
    go(601 * 1000 + 29000); // ten minutes later
    ok(!plan.changed && record.n_runs == 0, "a catch-up takes its place in the spread");
    is_int(plan.wait_ms, 25000, "which is the job's own");
    seen.late_since_ms = plan.late_since_ms;
    go(601 * 1000 + 54000);
    is_int((intmax_t)record.n_runs, 1, "then it runs, once");
    is_int(record.missed, 9, "the ones before it were missed");
    schedule(JOB_ALLOW);
    spec.starting_deadline_s = 40;
    seen.late_since_ms = -1;
    seen.spread = 59000;
    go(601 * 1000 + 29000); // 30 s late
    is_int(plan.wait_ms, 9000, "no longer than startingDeadlineSeconds allows");
    go(601 * 1000 + 45000);
    ok(record.n_runs == 0 && record.missed == 10, "later than that it is missed");
}

static void test_strays(void)
{
    world();
    insts[0] = (struct inst){ .uid = "somebody-elses-1", .state = INST_RUNNING };
    seen.n_insts = 1;
    go(0);
    ok(steps(JOB_STOP) == 1 && plan.n_begun == 0, "what nobody knows is stopped before anything begins");
    insts[0].state = INST_EXITED;
    go(1);
    ok(steps(JOB_FORGET) == 1 && plan.n_begun == 1, "then forgotten");
}

static void test_names(void)
{
    struct job_run run = { .id = "0123456789ab-7", .attempts = 12 }, back;
    char uid[INST_UID_MAX];
    job_inst_uid(uid, KEY, UID, &run);
    ok(job_inst_parse(uid, KEY, UID, &back) && back.attempts == 12 && strcmp(back.id, run.id) == 0, "an instance's name and back");
    ok(!job_inst_parse(uid, KEY, "u2", &back), "another object's is none of ours");
    snprintf(run.id, sizeof(run.id), "29453761");
    job_inst_uid(uid, KEY, UID, &run);
    ok(job_inst_parse(uid, KEY, UID, &back) && back.scheduled_s == T0 + 60, "a scheduled one tells its instant");
    ok(!job_inst_parse("x", KEY, UID, &back) && !job_inst_parse("", KEY, UID, &back), "and nothing else is one");
}

int main(void)
{
    test_decide_commit_act();
    test_lost();
    test_backoff();
    test_boot();
    test_stop_at_once();
    test_untrusted();
    test_policies();
    test_catch_up();
    test_strays();
    test_names();
    return done_testing();
}
