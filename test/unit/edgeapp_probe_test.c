// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgeapp_probe.c"

#include "tap.h"

// What comes out of a row of answers: + success, - failure. After each: R ready, . not; capital X when the failing is to be told.
static void row(const char *name, int successes, int failures, const char *answers, const char *want)
{
    struct app_probing r = { 0 };
    char got[64] = "";
    bool changed, failing, was = false;
    for (size_t i = 0; answers[i] != '\0'; i++) {
        app_probing_count(&r, successes, failures, answers[i] == '+', &changed, &failing);
        got[i] = failing ? 'X' : r.ok ? 'R' : '.';
        if (changed != (r.ok != was))
            fail("%s: answer %zu: changed is wrong", name, i + 1);
        was = r.ok;
    }
    is_str(got, want, "%s: %s", name, answers);
}

static struct inst running(const char *uid, const char *revision)
{
    struct inst i = { .state = INST_RUNNING };
    snprintf(i.uid, sizeof(i.uid), "%s", uid);
    snprintf(i.revision, sizeof(i.revision), "%s", revision);
    return i;
}

static void test_follow(void)
{
    struct app_spec spec = { .process.revision = "new", .probes[APP_READINESS] = { .kind = PROBE_TCP, .delay_ms = 90 } };
    struct inst a = running("a", "new"), b = running("b", "new"), old = running("c", "old");
    struct app_slot s = { 0 };
    app_probes_follow(&s, &spec, &a, 9);
    ok(s.probes[APP_STARTUP].ok, "what has no startup probe has started");
    ok(s.probes[APP_LIVENESS].ok, "it lives");
    ok(!s.probes[APP_READINESS].ok, "and is not ready before its probe says so");
    is_int(s.probes[APP_READINESS].next_ms, 99, "which is asked after initialDelaySeconds");
    s.probes[APP_READINESS].ok = true;
    s.probes[APP_READINESS].next_ms = 7;
    spec.probes[APP_STARTUP].kind = PROBE_TCP;
    app_probes_follow(&s, &spec, &a, 50);
    ok(s.probes[APP_READINESS].ok && s.probes[APP_READINESS].next_ms == 7, "the same instance goes on");
    ok(s.probes[APP_STARTUP].ok, "a startup probe that comes later does not make it start again");
    app_probes_follow(&s, &spec, &b, 50);
    ok(!s.probes[APP_READINESS].ok && !s.probes[APP_STARTUP].ok, "another begins anew");
    spec.probes[APP_STARTUP].kind = PROBE_NONE;
    app_probes_follow(&s, &spec, &old, 50);
    ok(s.probes[APP_STARTUP].ok && s.probes[APP_READINESS].ok, "one of an older revision that nobody knows passes for ready");
}

// Which of the probes are tried: S startup, L liveness, R readiness.
static void applies(const struct app_spec *spec, const struct app_slot *s, const struct inst *i, const char *want, const char *when)
{
    static const char letters[APP_PROBES + 1] = "SLR";
    char got[APP_PROBES + 1] = "";
    for (int use = 0; use < APP_PROBES; use++)
        if (app_probe_applies(spec, s, i, (enum app_probe_use)use))
            strncat(got, &letters[use], 1);
    is_str(got, want, "tried %s", when);
}

static void test_applies(void)
{
    struct app_spec spec = { .process.revision = "new" };
    struct inst a = running("a", "new"), old = running("a", "old"), starting = { .state = INST_STARTING };
    struct app_slot s = { 0 };
    app_probes_follow(&s, &spec, &a, 0);
    applies(&spec, &s, &a, "", "without a probe");
    for (int use = 0; use < APP_PROBES; use++)
        spec.probes[use].kind = PROBE_TCP;
    applies(&spec, &s, &a, "LR", "when it has started");
    s.probes[APP_STARTUP].ok = false;
    applies(&spec, &s, &a, "S", "until it has started");
    applies(&spec, &s, NULL, "", "when nothing runs");
    applies(&spec, &s, &starting, "", "when no process is there yet");
    applies(&spec, &s, &old, "", "when it is to be replaced");
    s.unhealthy = uid_hash("a");
    applies(&spec, &s, &a, "", "when it is to be ended");
}

int main(void)
{
    row("defaults", 1, 3, "+--+---+", "RRRRRRXR");
    row("never ready: told once", 1, 3, "------", "..X...");
    row("told again after it was ready", 1, 2, "--+--", ".XRRX");
    row("three successes", 3, 1, "++-+++-", "..X..RX");
    row("one failure", 1, 1, "+-+-", "RXRX");
    test_follow();
    test_applies();
    return done_testing();
}
