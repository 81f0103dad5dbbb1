// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgeapp.c"

#include "kind_rig.h"

#define APP "edgeapps", "web"
#define LEAST "{\"command\":[\"x\"]}"

enum { SETTLE_MS = 100 };

static struct fake_behaviour runs_for_ever(void)
{
    return (struct fake_behaviour){ .run_ms = -1, .check_ok = true };
}

static int collect_insts(void *ctx, const struct inst *i)
{
    struct observed *o = ctx;
    if (o->n < OBSERVE_MAX)
        o->insts[o->n++] = *i;
    return 0;
}

static struct inst all[OBSERVE_MAX];

// What the port knows of the app.
static struct observed look(struct rig *r)
{
    struct observed o = { .insts = all };
    struct err e = ERR_INIT;
    rig_must(r->port->ops->each(r->port, rig_key(r, APP), collect_insts, &o, &e), &e, "each");
    return o;
}

static int live(struct rig *r)
{
    struct observed o = look(r);
    int n = 0;
    for (size_t i = 0; i < o.n; i++)
        n += o.insts[i].state != INST_EXITED;
    return n;
}

static int pid_of(struct rig *r, int index)
{
    struct observed o = look(r);
    const struct inst *i = app_live(o.insts, o.n, index);
    return i != NULL ? i->pid : 0;
}

static void test_start(void)
{
    struct rig r;
    rig_start(&r);
    rig_apply(&r, APP, LEAST);
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, APP, "Ready"), "True AllReady", "start: ready");
    is_str(rig_condition(&r, APP, "Accepted"), "True Valid", "accepted");
    is_str(rig_condition(&r, APP, "Progressing"), "False Complete", "nothing under way");
    is_str(rig_field(&r, APP, "state"), "\"Running\"", "state");
    is_str(rig_field(&r, APP, "replicas"), "1", "replicas");
    is_str(rig_field(&r, APP, "readyReplicas"), "1", "readyReplicas");
    is_str(rig_field(&r, APP, "updatedReplicas"), "1", "updatedReplicas");
    is_str(rig_field(&r, APP, "observedGeneration"), "1", "observedGeneration");
    is_str(rig_field(&r, APP, "instances.0.restarts"), "0", "no restarts: information, not omitted");
    is_str(rig_field(&r, APP, "instances.0.ready"), "true", "the instance is ready");
    has_str(rig_field(&r, APP, "revision"), "\"1-", "a revision");
    is_int(rig_events(&r, "Started"), 1, "one event Started");
    uint64_t writes = rig_status_writes(&r);
    rig_run(&r, 3600000);
    is_int((intmax_t)(rig_status_writes(&r) - writes), 0, "an hour in which nothing happens writes nothing");
    ok(rig_passes(&r) < 30, "and looks now and then only (%d passes)", (int)rig_passes(&r));
    rig_end(&r);
}

static void test_crash_loop_runs(void)
{
    struct rig r;
    rig_start(&r);
    rig_apply(&r, APP, LEAST);
    rig_run(&r, SETTLE_MS);
    is_int(port_fake_crash(r.port, NULL, 0, 3), 1, "crash: it ends with exit code 3");
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, APP, "Ready"), "True AllReady", "started again at once");
    is_str(rig_field(&r, APP, "instances.0.restarts"), "1", "restarts");
    is_str(rig_field(&r, APP, "instances.0.lastExit.code"), "3", "how it ended");
    is_int(rig_events(&r, "Exited"), 1, "an event says so");
    is_int((intmax_t)look(&r).n, 1, "the old record is forgotten once the status has it");
    port_fake_crash(r.port, NULL, 0, 3);
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, APP, "Ready"), "False CrashLoopBackOff", "the second crash backs off");
    is_str(rig_field(&r, APP, "state"), "\"CrashLoopBackOff\"", "the state says so");
    has_str(rig_message(&r, APP, "Ready"), "instance 0 ended with exit code 3; it is started again after 10 s", "and the message why");
    is_int(rig_events(&r, "BackOff"), 1, "an event, too");
    is_int((intmax_t)look(&r).n, 0, "its record is forgotten, too");
    rig_run(&r, 9000);
    is_int(live(&r), 0, "not before 10 s");
    rig_run(&r, 1500);
    is_int(live(&r), 1, "then it runs again");
    is_str(rig_field(&r, APP, "instances.0.restarts"), "2", "restarts");
    rig_apply(&r, APP, "{\"command\":[\"y\"]}");
    rig_run(&r, SETTLE_MS);
    port_fake_crash(r.port, NULL, 0, 3);
    rig_run(&r, SETTLE_MS);
    is_int(live(&r), 1, "a new revision begins anew: its first crash is restarted at once");
    rig_end(&r);
}

static void test_always_failing(void)
{
    struct rig r;
    struct fake_behaviour b = { .run_ms = 100, .exit_code = 1 };
    rig_start(&r);
    port_fake_behave(r.port, NULL, &b);
    rig_apply(&r, APP, LEAST);
    rig_run(&r, 3600000);
    // 0 s, 0, 10, 20, 40, 80, 160 s after each other, then every 300 s: about 7 + (3600 - 310) / 300.
    int64_t restarts = atoll(rig_field(&r, APP, "instances.0.restarts"));
    ok(restarts >= 15 && restarts <= 18, "an hour of crashing: %lld restarts", (long long)restarts);
    ok(rig_passes(&r) < 150, "no busy loop: %d passes", (int)rig_passes(&r));
    rig_end(&r);
}

// Field 28: what cannot be started says why and what to do, and is tried again with the same backoff.
static void test_field_28(void)
{
    static const struct {
        int errnum;
        const char *want;
    } cases[] = { { ENOENT, "install it" },
                  { EACCES, "make it executable" },
                  { ENOEXEC, "not built for this machine" },
                  { EAGAIN, "process table" },
                  { EMFILE, "too many files" } };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct rig r;
        struct fake_behaviour b = { .run_ms = -1, .start_errno = cases[i].errnum };
        rig_start(&r);
        port_fake_behave(r.port, NULL, &b);
        rig_apply(&r, APP, LEAST);
        rig_run(&r, SETTLE_MS);
        is_str(rig_condition(&r, APP, "Ready"), "False StartFailed", "field 28: %s", strerror(cases[i].errnum));
        has_str(rig_message(&r, APP, "Ready"), strerror(cases[i].errnum), "field 28: the errno");
        has_str(rig_message(&r, APP, "Ready"), cases[i].want, "field 28: the remedy");
        b = runs_for_ever();
        port_fake_behave(r.port, NULL, &b);
        rig_run(&r, 30000);
        is_str(rig_condition(&r, APP, "Ready"), "True AllReady", "field 28: once it can be started, it is");
        rig_end(&r);
    }
}

static void test_scale(void)
{
    struct rig r;
    rig_start(&r);
    rig_apply(&r, APP, "{\"command\":[\"x\"],\"replicas\":3}");
    rig_run(&r, SETTLE_MS);
    is_int(live(&r), 3, "scale: three run");
    int first = pid_of(&r, 0);
    rig_apply(&r, APP, "{\"command\":[\"x\"],\"replicas\":1}");
    rig_run(&r, SETTLE_MS);
    is_int(live(&r), 1, "scaled down to one");
    is_int(pid_of(&r, 0), first, "the first goes on");
    is_int((intmax_t)look(&r).n, 1, "the others are forgotten");
    rig_apply(&r, APP, "{\"command\":[\"x\"],\"replicas\":0}");
    rig_run(&r, SETTLE_MS);
    is_int(live(&r), 0, "scaled to zero");
    is_str(rig_condition(&r, APP, "Ready"), "True ScaledToZero", "which is what was asked for");
    is_str(rig_field(&r, APP, "state"), "\"Stopped\"", "state");
    is_str(rig_field(&r, APP, "replicas"), "0", "zero is information");
    is_str(rig_field(&r, APP, "instances"), "[]", "no instances");
    rig_apply(&r, APP, "{\"command\":[\"x\"],\"replicas\":2}");
    rig_run(&r, SETTLE_MS);
    is_int(live(&r), 2, "and up again");
    is_int(rig_events(&r, "Exited") + rig_events(&r, "Killed"), 0, "what was stopped by us is no crash");
    rig_end(&r);
}

// Told to stop, then wanted again before it had ended: that end is still no crash.
static void test_scale_down_and_up(void)
{
    struct rig r;
    struct fake_behaviour b = { .run_ms = -1, .stop_ms = 5000 };
    rig_start(&r);
    port_fake_behave(r.port, NULL, &b);
    rig_apply(&r, APP, "{\"command\":[\"x\"],\"replicas\":2}");
    rig_run(&r, SETTLE_MS);
    rig_apply(&r, APP, "{\"command\":[\"x\"],\"replicas\":1}");
    rig_run(&r, SETTLE_MS);
    rig_apply(&r, APP, "{\"command\":[\"x\"],\"replicas\":2}");
    rig_run(&r, 6000);
    is_str(rig_condition(&r, APP, "Ready"), "True AllReady", "down and up again: ready");
    is_str(rig_field(&r, APP, "instances.1.restarts"), "0", "no restart");
    is_int(rig_events(&r, "Stopped"), 1, "it was stopped");
    is_int(rig_events(&r, "Killed"), 0, "not killed");
    rig_end(&r);
}

// The known accident of SYSTEMS: instances must not start on a superseded configuration, and two revisions of one index never run together.
static void test_replace(void)
{
    struct rig r;
    struct fake_behaviour b = { .run_ms = -1, .stop_ms = 5000, .check_ok = true };
    rig_start(&r);
    port_fake_behave(r.port, NULL, &b);
    rig_apply(&r, APP, "{\"command\":[\"x\"],\"replicas\":2}");
    rig_run(&r, SETTLE_MS);
    int before = pid_of(&r, 0);
    rig_apply(&r, APP,
              "{\"command\":[\"x\"],\"replicas\":2,\"restartPolicy\":\"OnFailure\",\"readinessProbe\":{\"tcpSocket\":{\"port\":1}}}");
    rig_run(&r, SETTLE_MS);
    is_int(pid_of(&r, 0), before, "a probe and a policy restart nothing");
    rig_apply(&r, APP, "{\"command\":[\"y\"],\"replicas\":3}");
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, APP, "Progressing"), "True Replacing", "replacing");
    is_str(rig_field(&r, APP, "state"), "\"Degraded\"", "the third runs already with the new revision");
    is_int(live(&r), 3, "one old one ends, one waits for its turn, one new one runs");
    rig_run(&r, 3000);
    is_int(live(&r), 3, "no new instance beside an old one of its index");
    rig_run(&r, 60000);
    is_str(rig_condition(&r, APP, "Ready"), "True AllReady", "replaced");
    struct observed o = look(&r);
    for (size_t i = 0; i < o.n; i++)
        is_str(o.insts[i].revision, o.insts[0].revision, "instance %zu has the new revision", i);
    is_str(rig_field(&r, APP, "instances.0.restarts"), "0", "a replacement is no restart");
    rig_end(&r);
}

static void test_never(void)
{
    struct rig r;
    struct fake_behaviour b = { .run_ms = 1000 };
    rig_start(&r);
    port_fake_behave(r.port, NULL, &b);
    rig_apply(&r, APP, "{\"command\":[\"x\"],\"restartPolicy\":\"Never\"}");
    rig_run(&r, 60000);
    is_str(rig_field(&r, APP, "state"), "\"Succeeded\"", "Never: ended with exit code 0");
    is_str(rig_condition(&r, APP, "Ready"), "False Completed", "done is not ready, as with pods");
    is_int(rig_events(&r, "Started"), 1, "started once");
    rig_crash(&r);
    rig_run(&r, 60000);
    is_int(rig_events(&r, "Started"), 1, "not again after the agent restarted");
    rig_power_cut(&r);
    rig_run(&r, 60000);
    is_int(rig_events(&r, "Started"), 1, "nor after a reboot");
    is_str(rig_field(&r, APP, "state"), "\"Succeeded\"", "the state stands");
    rig_apply(&r, APP, "{\"command\":[\"y\"],\"restartPolicy\":\"Never\"}");
    rig_run(&r, 500);
    is_int(live(&r), 1, "a new revision runs once more");
    rig_power_cut(&r);
    rig_run(&r, 60000);
    is_str(rig_field(&r, APP, "state"), "\"Failed\"", "a power cut in the middle: failed, not run again");
    is_int(rig_events(&r, "Lost"), 1, "and an event says so");
    is_int(live(&r), 0, "nothing runs");
    rig_end(&r);
}

static void test_on_failure(void)
{
    struct rig r;
    rig_start(&r);
    rig_apply(&r, APP, "{\"command\":[\"x\"],\"restartPolicy\":\"OnFailure\"}");
    rig_run(&r, SETTLE_MS);
    port_fake_crash(r.port, NULL, 0, 1);
    rig_run(&r, SETTLE_MS);
    is_int(live(&r), 1, "OnFailure: started again after a failure");
    port_fake_crash(r.port, NULL, 0, 0);
    rig_run(&r, 600000);
    is_int(live(&r), 0, "not after exit code 0");
    is_str(rig_field(&r, APP, "state"), "\"Succeeded\"", "state");
    rig_end(&r);
}

static void test_probe(void)
{
    struct rig r;
    struct fake_behaviour b = { .run_ms = -1, .check_ok = false };
    rig_start(&r);
    port_fake_behave(r.port, NULL, &b);
    rig_apply(&r, APP, "{\"command\":[\"x\"],\"readinessProbe\":{\"httpGet\":{\"port\":8080},\"periodSeconds\":2}}");
    rig_run(&r, 1000);
    is_str(rig_condition(&r, APP, "Ready"), "False Starting", "probe: not ready yet");
    uint64_t before = rig_commits(&r);
    rig_run(&r, 6000);
    is_int((intmax_t)(rig_commits(&r) - before), 1, "status and event are one commit");
    is_str(rig_condition(&r, APP, "Ready"), "False ProbeFailed", "three failures");
    has_str(rig_message(&r, APP, "Ready"), "httpGet 127.0.0.1:8080", "what failed");
    is_int(rig_events(&r, "ProbeFailed"), 1, "told once");
    uint64_t writes = rig_status_writes(&r);
    rig_run(&r, 60000);
    is_int((intmax_t)(rig_status_writes(&r) - writes), 0, "failing on writes nothing more");
    is_int(rig_events(&r, "ProbeFailed"), 1, "nor tells it again");
    b.check_ok = true;
    port_fake_behave(r.port, NULL, &b);
    rig_run(&r, 3000);
    is_str(rig_condition(&r, APP, "Ready"), "True AllReady", "the first success makes it ready");
    b.check_ok = false;
    port_fake_behave(r.port, NULL, &b);
    rig_run(&r, 4500);
    is_str(rig_condition(&r, APP, "Ready"), "True AllReady", "two failures do not unmake it");
    rig_run(&r, 2500);
    is_str(rig_condition(&r, APP, "Ready"), "False ProbeFailed", "the third does");
    is_int(rig_events(&r, "Started"), 1, "a failing readiness probe restarts nothing");
    b.check_ok = true;
    port_fake_behave(r.port, NULL, &b);
    rig_run(&r, 3000);
    writes = rig_status_writes(&r);
    rig_crash(&r);
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, APP, "Ready"), "True AllReady", "an agent that restarts does not make it unready");
    rig_end(&r);
}

#define LIVENESS "\"livenessProbe\":{\"tcpSocket\":{\"port\":1},\"periodSeconds\":2,\"failureThreshold\":3}"
#define STARTUP "\"startupProbe\":{\"tcpSocket\":{\"port\":1},\"periodSeconds\":1,\"failureThreshold\":5}"
#define READINESS "\"readinessProbe\":{\"tcpSocket\":{\"port\":1},\"periodSeconds\":1,\"failureThreshold\":2}"

static void answer(struct rig *r, bool good)
{
    struct fake_behaviour b = { .run_ms = -1, .check_ok = good };
    port_fake_behave(r->port, NULL, &b);
}

static void test_liveness(void)
{
    struct rig r;
    rig_start(&r);
    answer(&r, true);
    rig_apply(&r, APP, "{\"command\":[\"x\"]," LIVENESS "}");
    rig_run(&r, 10000);
    int first = pid_of(&r, 0);
    is_str(rig_condition(&r, APP, "Ready"), "True AllReady", "liveness: lives, and is ready");
    answer(&r, false);
    rig_run(&r, 4500);
    is_int(pid_of(&r, 0), first, "two failures end nothing");
    rig_run(&r, 2000);
    is_int(rig_events(&r, "ProbeFailed"), 1, "the third does; an event says so");
    is_int(rig_events(&r, "Killed"), 1, "another says how it ended");
    ok(pid_of(&r, 0) != first && live(&r) == 1, "it is started again, at once the first time");
    is_str(rig_field(&r, APP, "instances.0.restarts"), "1", "that is a restart");
    is_str(rig_field(&r, APP, "instances.0.lastExit.reason"), "\"Unhealthy\"", "and why is in the status");
    rig_run(&r, 7000);
    is_str(rig_condition(&r, APP, "Ready"), "False CrashLoopBackOff", "the next failure backs off as a crash does");
    has_str(rig_message(&r, APP, "Ready"), "as its probe failed", "and says why");
    answer(&r, true);
    rig_run(&r, 11000);
    is_str(rig_condition(&r, APP, "Ready"), "True AllReady", "when it answers again it stays");
    first = pid_of(&r, 0);
    rig_run(&r, 600000);
    is_int(pid_of(&r, 0), first, "for good");
    rig_end(&r);
}

static void test_liveness_policies(void)
{
    struct rig r;
    rig_start(&r);
    answer(&r, false);
    rig_apply(&r, APP, "{\"command\":[\"x\"],\"restartPolicy\":\"Never\"," LIVENESS "}");
    rig_run(&r, 60000);
    is_str(rig_field(&r, APP, "state"), "\"Failed\"", "liveness, Never: it is ended, and has failed");
    is_int(live(&r), 0, "nothing runs");
    rig_end(&r);
    rig_start(&r);
    struct fake_behaviour slow = { .run_ms = -1, .stop_ms = 20000, .check_ok = false };
    port_fake_behave(r.port, NULL, &slow);
    rig_apply(&r, APP, "{\"command\":[\"x\"],\"restartPolicy\":\"OnFailure\"," LIVENESS "}");
    rig_run(&r, 8000);
    is_str(rig_field(&r, APP, "instances.0.state"), "\"Stopping\"", "liveness, OnFailure: it is being ended");
    rig_crash(&r);
    rig_run(&r, 30000);
    is_int(live(&r), 1, "an agent that dies meanwhile starts it again all the same");
    rig_end(&r);
}

static void test_startup(void)
{
    struct rig r;
    rig_start(&r);
    answer(&r, false);
    rig_apply(&r, APP, "{\"command\":[\"x\"]," STARTUP "," LIVENESS "," READINESS "}");
    rig_run(&r, 3500);
    int first = pid_of(&r, 0);
    is_str(rig_field(&r, APP, "instances.0.started"), "false", "startup: not started yet");
    is_int(rig_events(&r, "ProbeFailed"), 0, "the other probes are not tried before");
    rig_run(&r, 2000);
    ok(pid_of(&r, 0) != first, "five failures end it");
    is_int(rig_events(&r, "ProbeFailed"), 1, "with an event");
    answer(&r, true);
    rig_run(&r, 12000);
    first = pid_of(&r, 0);
    is_str(rig_field(&r, APP, "instances.0.started"), "true", "a success: it has started");
    is_str(rig_condition(&r, APP, "Ready"), "True AllReady", "and then it is ready");
    rig_crash(&r);
    answer(&r, false);
    rig_run(&r, 3500);
    is_str(rig_condition(&r, APP, "Ready"), "False ProbeFailed",
           "an agent that restarts knows that it had started: readiness is what fails");
    is_int(pid_of(&r, 0), first, "which ends nothing");
    rig_run(&r, 4000);
    ok(pid_of(&r, 0) != first, "and then liveness, which does");
    rig_end(&r);
}

// A new revision that does not come up takes one instance away, no more.
static void test_rolling(void)
{
    struct rig r;
    rig_start(&r);
    answer(&r, true);
    rig_apply(&r, APP, "{\"command\":[\"x\"],\"replicas\":3," READINESS "}");
    rig_run(&r, 3000);
    is_str(rig_condition(&r, APP, "Ready"), "True AllReady", "rolling: three are ready");
    int kept[2] = { pid_of(&r, 1), pid_of(&r, 2) };
    answer(&r, false);
    rig_apply(&r, APP, "{\"command\":[\"y\"],\"replicas\":3," READINESS "}");
    rig_run(&r, 300000);
    ok(pid_of(&r, 1) == kept[0] && pid_of(&r, 2) == kept[1], "the first new one is not ready: the others stay");
    is_str(rig_field(&r, APP, "readyReplicas"), "2", "and count as ready");
    is_str(rig_field(&r, APP, "updatedReplicas"), "1", "one is of the new revision");
    rig_apply(&r, APP, "{\"command\":[\"y\"],\"replicas\":3,\"readinessProbe\":{\"tcpSocket\":{\"port\":2},\"failureThreshold\":2}}");
    rig_crash(&r);
    rig_run(&r, 60000);
    ok(pid_of(&r, 1) == kept[0] && pid_of(&r, 2) == kept[1], "nor does another probe or another agent change that");
    answer(&r, true);
    rig_run(&r, 60000);
    is_str(rig_condition(&r, APP, "Ready"), "True AllReady", "it is ready: the others follow");
    is_str(rig_field(&r, APP, "updatedReplicas"), "3", "all of them");
    is_int(rig_events(&r, "Started"), 6, "each was replaced once");
    rig_end(&r);
}

static void test_max_unavailable(void)
{
    struct rig r;
    struct fake_behaviour b = { .run_ms = -1, .stop_ms = 5000 };
    rig_start(&r);
    port_fake_behave(r.port, NULL, &b);
    rig_apply(&r, APP, "{\"command\":[\"x\"],\"replicas\":4,\"update\":{\"maxUnavailable\":2}}");
    rig_run(&r, SETTLE_MS);
    rig_apply(&r, APP, "{\"command\":[\"y\"],\"replicas\":4,\"update\":{\"maxUnavailable\":2}}");
    rig_run(&r, 2000);
    is_str(rig_field(&r, APP, "readyReplicas"), "2", "maxUnavailable 2: two at a time");
    rig_run(&r, 40000);
    is_str(rig_condition(&r, APP, "Ready"), "True AllReady", "until all are new");
    rig_end(&r);
}

#define BAD "\"command\":[\"bad\"]"
#define GOOD "\"command\":[\"good\"]"
#define FAST "\"update\":{\"progressDeadlineSeconds\":60,\"minReadySeconds\":5}"

static void ends_after(struct rig *r, int64_t ms)
{
    struct fake_behaviour b = { .run_ms = ms, .exit_code = 3, .check_ok = true };
    port_fake_behave(r->port, NULL, &b);
}

static void test_rollback(void)
{
    struct rig r;
    char good[64];
    rig_start(&r);
    answer(&r, true);
    rig_apply(&r, APP, "{" GOOD ",\"replicas\":2," FAST "}");
    rig_run(&r, 20000);
    snprintf(good, sizeof(good), "%s", rig_field(&r, APP, "revision"));
    int kept = pid_of(&r, 1);
    ends_after(&r, 1000);
    rig_apply(&r, APP, "{" BAD ",\"replicas\":2," FAST "}");
    rig_run(&r, 50000);
    is_str(rig_condition(&r, APP, "Progressing"), "True Replacing", "rollback: it is tried until the deadline");
    is_int(rig_events(&r, "RolledBack"), 0, "nothing else yet");
    answer(&r, true); // what is started from now on runs on
    rig_run(&r, 40000);
    is_int(rig_events(&r, "RolledBack"), 1, "then it is given up, with an event");
    is_str(rig_field(&r, APP, "revision"), good, "the good revision is back");
    is_int(pid_of(&r, 1), kept, "the instance that was not replaced yet was never touched");
    is_str(rig_condition(&r, APP, "Ready"), "False RolledBack", "Ready says so");
    has_str(rig_message(&r, APP, "Ready"), "ended with exit code 3", "and why");
    is_str(rig_field(&r, APP, "readyReplicas"), "2", "both are ready");
    is_str(rig_condition(&r, APP, "Progressing"), "False RolledBack", "nothing is under way");
    has_str(rig_field(&r, APP, "failedRevisions.0.message"), "exit code 3", "the failed revision is remembered");
    rig_crash(&r);
    rig_run(&r, 20000);
    uint64_t writes = rig_status_writes(&r);
    rig_run(&r, 3600000);
    is_str(rig_field(&r, APP, "revision"), good, "by the next agent, too: it is not tried again");
    is_int((intmax_t)(rig_status_writes(&r) - writes), 0, "and nothing is written");
    rig_apply(&r, APP, "{" BAD ",\"replicas\":3," FAST "}");
    rig_run(&r, 20000);
    is_str(rig_field(&r, APP, "readyReplicas"), "3", "how many are wanted is heard all the same");
    rig_apply(&r, APP, "{\"command\":[\"bad\",\"again\"],\"replicas\":3," FAST "}");
    rig_run(&r, 60000);
    is_str(rig_condition(&r, APP, "Ready"), "True AllReady", "another revision is tried");
    rig_apply(&r, APP, "{" GOOD ",\"replicas\":3," FAST "}");
    rig_run(&r, 60000);
    is_str(rig_field(&r, APP, "revision"), good, "the good one is no failure");
    rig_end(&r);
}

static void test_no_way_back(void)
{
    struct rig r;
    rig_start(&r);
    ends_after(&r, 1000);
    rig_apply(&r, APP, "{" BAD "," FAST "}");
    rig_run(&r, 200000);
    is_int(rig_events(&r, "ProgressDeadlineExceeded"), 1, "no revision was good yet: the deadline is told once");
    is_str(rig_condition(&r, APP, "Progressing"), "False ProgressDeadlineExceeded", "a condition says so");
    answer(&r, true);
    rig_run(&r, 400000);
    is_str(rig_condition(&r, APP, "Ready"), "True AllReady", "it was tried on");
    is_str(rig_condition(&r, APP, "Progressing"), "False Complete", "and came up after all");
    ends_after(&r, 1000);
    port_fake_crash(r.port, NULL, 0, 3);
    rig_run(&r, 400000);
    is_int(rig_events(&r, "RolledBack") + rig_events(&r, "ProgressDeadlineExceeded"), 1, "one that was good does not fail later");
    rig_apply(&r, APP, "{\"command\":[\"z\"],\"update\":{\"progressDeadlineSeconds\":60,\"rollback\":false}}");
    rig_run(&r, 400000);
    is_int(rig_events(&r, "RolledBack"), 0, "rollback false: no way back");
    is_str(rig_condition(&r, APP, "Progressing"), "False ProgressDeadlineExceeded", "but the deadline is told");
    rig_end(&r);
}

// Offline, with a power cut between the failure and its consequence: what is durable decides.
static void test_rollback_whole_spec(void)
{
    struct rig r;
    rig_start(&r);
    answer(&r, true);
    rig_apply(&r, APP, "{" GOOD ",\"readinessProbe\":{\"tcpSocket\":{\"port\":1},\"periodSeconds\":1}," FAST "}");
    rig_run(&r, 20000);
    is_str(rig_condition(&r, APP, "Ready"), "True AllReady", "good");
    ends_after(&r, 1000);
    rig_apply(&r, APP, "{" BAD ",\"restartPolicy\":\"Never\"," FAST "}");
    rig_run(&r, 70000);
    answer(&r, true);
    rig_run(&r, 20000);
    is_int(live(&r), 1, "the whole spec comes back: its restartPolicy, too");
    answer(&r, false);
    rig_run(&r, 10000);
    is_str(rig_field(&r, APP, "readyReplicas"), "0", "and its probe");
    rig_end(&r);
}

// The good spec cannot be read any more: the failed one stays, is tried on, and that is told once.
static void test_way_back_is_damaged(void)
{
    struct rig r;
    struct err e = ERR_INIT;
    rig_start(&r);
    answer(&r, true);
    rig_apply(&r, APP, "{" GOOD "," FAST "}");
    rig_run(&r, 20000);
    ends_after(&r, 1000);
    rig_apply(&r, APP, "{" BAD "," FAST "}");
    rig_run(&r, 5000);
    rig_must(intent_put(r.db, "edgeapps/" RIG_NS "/web", "good-spec", "{", &e), &e, "intent");
    rig_run(&r, 400000);
    is_int(rig_events(&r, "RolledBack"), 1, "the good spec is damaged: given up once");
    is_int(rig_events(&r, "ProgressDeadlineExceeded"), 1, "then the deadline is told, once");
    answer(&r, true);
    rig_run(&r, 400000);
    is_str(rig_condition(&r, APP, "Ready"), "True AllReady", "what comes up after all is good");
    is_str(rig_field(&r, APP, "failedRevisions.0.message"), "", "and failed no more");
    rig_must(intent_put(r.db, "edgeapps/" RIG_NS "/web", "rollout", "{", &e), &e, "intent");
    rig_crash(&r);
    rig_run(&r, 20000);
    is_str(rig_condition(&r, APP, "Ready"), "True AllReady", "a damaged record keeps nothing from running");
    rig_end(&r);
}

// What ends well has come up.
static void test_ended_well_is_whole(void)
{
    struct rig r;
    rig_start(&r);
    answer(&r, true);
    rig_apply(&r, APP, "{" GOOD ",\"replicas\":2," FAST "}");
    rig_run(&r, 20000);
    rig_apply(&r, APP, "{\"command\":[\"x\"],\"replicas\":2,\"restartPolicy\":\"OnFailure\"," FAST "}");
    rig_run(&r, 10000);
    port_fake_crash(r.port, NULL, 0, 0);
    rig_run(&r, 400000);
    is_int(rig_events(&r, "RolledBack"), 0, "one ended with 0, the other runs: the revision came up");
    rig_end(&r);
}

static void test_suspend(void)
{
    struct rig r;
    rig_start(&r);
    answer(&r, true);
    rig_apply(&r, APP, "{\"command\":[\"x\"],\"replicas\":2,\"suspend\":true}");
    rig_run(&r, SETTLE_MS);
    is_int(live(&r), 0, "suspended from the start: nothing runs");
    is_str(rig_condition(&r, APP, "Ready"), "False Suspended", "and the status says why");
    is_str(rig_field(&r, APP, "state"), "\"Stopped\"", "state");
    rig_apply(&r, APP, "{\"command\":[\"x\"],\"replicas\":2}");
    rig_run(&r, SETTLE_MS);
    is_int(live(&r), 2, "resumed: both run");
    port_fake_crash(r.port, NULL, 0, 3);
    rig_run(&r, SETTLE_MS);
    port_fake_crash(r.port, NULL, 0, 3);
    rig_run(&r, SETTLE_MS);
    is_int(live(&r), 1, "one waits in its backoff");
    rig_apply(&r, APP, "{\"command\":[\"x\"],\"replicas\":2,\"suspend\":true}");
    rig_run(&r, SETTLE_MS);
    is_int(live(&r), 0, "suspended: all are stopped");
    rig_apply(&r, APP, "{\"command\":[\"x\"],\"replicas\":2}");
    rig_run(&r, SETTLE_MS);
    is_int(live(&r), 2, "resumed: what was before does not count");
    rig_end(&r);
}

static void test_exec_probe(void)
{
    struct rig r;
    struct fake_behaviour b = { .run_ms = -1, .run_code = 1, .run_delay_ms = 10 };
    rig_start(&r);
    port_fake_behave(r.port, NULL, &b);
    rig_apply(&r, APP,
              "{\"command\":[\"x\"],\"user\":\"0\",\"readinessProbe\":{\"exec\":{\"command\":[\"test\",\"-e\",\"/x\"]},\"periodSeconds\":1,"
              "\"failureThreshold\":2}}");
    rig_run(&r, 3000);
    is_str(rig_condition(&r, APP, "Ready"), "False ProbeFailed", "exec probe: fails");
    has_str(rig_message(&r, APP, "Ready"), "exec: exit code 1", "with its exit code");
    b = (struct fake_behaviour){ .run_ms = -1, .run_delay_ms = 5000 };
    port_fake_behave(r.port, NULL, &b);
    rig_run(&r, 10000);
    is_str(rig_condition(&r, APP, "Ready"), "False ProbeFailed", "one that takes longer than its time-out has failed");
    b.run_delay_ms = 10;
    port_fake_behave(r.port, NULL, &b);
    rig_run(&r, 3000);
    is_str(rig_condition(&r, APP, "Ready"), "True AllReady", "succeeds");
    b.run_delay_ms = 500;
    port_fake_behave(r.port, NULL, &b);
    rig_run(&r, 1100);
    rig_delete(&r, APP);
    rig_run(&r, SETTLE_MS);
    is_int(live(&r), 0, "deleted while a probe is under way");
    rig_end(&r);
}

static void test_gone(void)
{
    struct rig r;
    struct fake_behaviour b = { .run_ms = -1, .stop_ms = 2000 };
    rig_start(&r);
    port_fake_behave(r.port, NULL, &b);
    rig_apply(&r, APP, "{\"command\":[\"x\"],\"replicas\":2,\"terminationGracePeriodSeconds\":1}");
    rig_run(&r, SETTLE_MS);
    rig_delete(&r, APP);
    rig_run(&r, 500);
    is_int(live(&r), 2, "deleted: still ending");
    rig_run(&r, 1000);
    is_int((intmax_t)look(&r).n, 0, "after the spec's grace of 1 s they are killed, ended and forgotten");
    ok(engine_state_of(r.engine, rig_key(&r, APP)) == NULL, "and nothing is remembered");
    rig_apply(&r, APP, LEAST);
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, APP, "Ready"), "True AllReady", "made again, it runs again");
    rig_delete(&r, APP);
    rig_crash(&r);
    rig_run(&r, 60000);
    is_int(live(&r), 1, "a deletion that was not committed did not happen");
    rig_end(&r);
}

static void test_gone_after_crash(void)
{
    struct rig r;
    struct fake_behaviour b = { .run_ms = -1, .stop_ms = 600000 };
    rig_start(&r);
    port_fake_behave(r.port, NULL, &b);
    rig_apply(&r, APP, "{\"command\":[\"x\"],\"terminationGracePeriodSeconds\":7}");
    rig_run(&r, SETTLE_MS);
    rig_delete(&r, APP);
    rig_run(&r, SETTLE_MS);
    rig_crash(&r);
    rig_run(&r, 8000);
    is_int((intmax_t)look(&r).n, 0, "an agent that restarts goes on with a stop, and the instance's own grace holds");
    rig_end(&r);
}

// Fields 2 and 21 as far as the kind is concerned: an agent that restarts takes over what runs, and counts once what ended meanwhile.
static void test_agent_restart(void)
{
    struct rig r;
    rig_start(&r);
    rig_apply(&r, APP, LEAST);
    rig_run(&r, SETTLE_MS);
    port_fake_crash(r.port, NULL, 0, 1);
    rig_run(&r, SETTLE_MS);
    int pid = pid_of(&r, 0);
    uint64_t writes;
    rig_crash(&r);
    writes = rig_status_writes(&r);
    rig_run(&r, 60000);
    is_int(pid_of(&r, 0), pid, "restart of the agent: the process goes on");
    is_int(rig_events(&r, "Started"), 2, "no further event");
    is_int((intmax_t)(rig_status_writes(&r) - writes), 0, "no status written: nothing differs");
    is_str(rig_field(&r, APP, "instances.0.restarts"), "1", "restarts are remembered");
    rig_close(&r, true);
    port_fake_crash(r.port, NULL, 0, 9);
    rig_open(&r);
    rig_run(&r, SETTLE_MS);
    is_str(rig_field(&r, APP, "instances.0.lastExit.code"), "9", "what ended while no agent was there is reported");
    is_int(rig_events(&r, "Exited"), 2, "once");
    is_int(live(&r), 1, "and started again");
    rig_end(&r);
}

// An exit is forgotten by the port only when it is durable: an agent killed between seeing and committing sees it again.
static void test_exit_is_not_lost(void)
{
    struct rig r;
    rig_start(&r);
    rig_apply(&r, APP, LEAST);
    rig_run(&r, SETTLE_MS);
    r.commits_fail = true;
    port_fake_crash(r.port, NULL, 0, 5);
    rig_settle(&r);
    is_int(rig_events(&r, "Exited"), 0, "nothing is durable");
    is_int((intmax_t)look(&r).n, 2, "so the port keeps its record, and the app runs again all the same");
    r.commits_fail = false;
    rig_crash(&r);
    rig_run(&r, SETTLE_MS);
    is_int(rig_events(&r, "Exited"), 1, "seen again by the next agent, and reported once");
    is_str(rig_field(&r, APP, "instances.0.lastExit.code"), "5", "with its exit code");
    rig_end(&r);
}

static void test_invalid(void)
{
    struct rig r;
    rig_start(&r);
    rig_apply(&r, APP, LEAST);
    rig_run(&r, SETTLE_MS);
    int pid = pid_of(&r, 0);
    rig_apply(&r, APP, "{\"command\":[\"x\"],\"replicas\":99}");
    rig_run(&r, 1000);
    is_str(rig_condition(&r, APP, "Accepted"), "False Invalid", "invalid: not accepted");
    has_str(rig_message(&r, APP, "Accepted"), "spec.replicas: must be 0..32, is 99", "which field, and why");
    is_int(pid_of(&r, 0), pid, "nothing is changed on the machine");
    rig_apply(&r, APP, "{\"command\":[\"x\"],\"nodeName\":\"other\"}");
    rig_run(&r, 1000);
    has_str(rig_message(&r, APP, "Accepted"), "spec.nodeName", "another node's name is not obeyed");
    rig_apply(&r, APP, LEAST);
    rig_run(&r, 1000);
    is_str(rig_condition(&r, APP, "Accepted"), "True Valid", "accepted again");
    is_str(rig_condition(&r, APP, "Ready"), "True AllReady", "and ready, without a restart");
    is_int(pid_of(&r, 0), pid, "of the same process");
    rig_end(&r);
}

static void test_log_name(void)
{
    char name[APP_LOG_NAME_MAX], other[APP_LOG_NAME_MAX], longer[254];
    app_log_name(name, "edge-a", "web", 3);
    is_str(name, "edge-a_web_3", "log name");
    memset(longer, 'x', sizeof(longer) - 1);
    longer[253] = '\0';
    app_log_name(name, "edge-a", longer, 0);
    longer[252] = 'y';
    app_log_name(other, "edge-a", longer, 0);
    ok(strlen(name) < 250 && strcmp(name, other) != 0, "a long one fits a file name and stays its own");
}

static void test_differences(void)
{
    struct rig r;
    struct err e = ERR_INIT;
    struct buf text AUTO_BUF = BUF_INIT(4096);
    struct json *out AUTO_JSON = json_array();
    rig_start(&r);
    rig_apply(&r, APP, LEAST);
    rig_run(&r, SETTLE_MS);
    is_int(engine_differences(r.engine, rig_key(&r, APP), out, &e), 0, "differences");
    is_int((intmax_t)json_len(out), 0, "none");
    port_fake_crash(r.port, NULL, 0, 1);
    rig_run(&r, SETTLE_MS);
    rig_apply(&r, APP, "{\"command\":[\"y\"]}");
    is_int(engine_differences(r.engine, rig_key(&r, APP), out, &e), 0, "differences of a new spec");
    rig_must(json_print(out, &text, &e), &e, "print");
    has_str(buf_str(&text), "superseded", "what would be done");
    is_int(live(&r), 1, "and nothing was");
    port_fake_crash(r.port, NULL, 0, 1);
    rig_apply(&r, APP, LEAST); // a new revision starts at once, and so does its first restart; the second one waits
    for (int i = 0; i < 2; i++) {
        rig_run(&r, SETTLE_MS);
        port_fake_crash(r.port, NULL, 0, 1);
    }
    rig_run(&r, SETTLE_MS);
    struct json *waits AUTO_JSON = json_array();
    buf_reset(&text);
    is_int(engine_differences(r.engine, rig_key(&r, APP), waits, &e), 0, "differences while it waits");
    rig_must(json_print(waits, &text, &e), &e, "print");
    has_str(buf_str(&text), "starts again in", "a wait is a difference, too");
    rig_end(&r);
}

int main(void)
{
    test_start();
    test_crash_loop_runs();
    test_always_failing();
    test_field_28();
    test_scale();
    test_scale_down_and_up();
    test_replace();
    test_never();
    test_on_failure();
    test_probe();
    test_exec_probe();
    test_liveness();
    test_liveness_policies();
    test_startup();
    test_rolling();
    test_max_unavailable();
    test_suspend();
    test_rollback();
    test_no_way_back();
    test_rollback_whole_spec();
    test_way_back_is_damaged();
    test_ended_well_is_whole();
    test_gone();
    test_gone_after_crash();
    test_agent_restart();
    test_exit_is_not_lost();
    test_invalid();
    test_log_name();
    test_differences();
    return done_testing();
}
