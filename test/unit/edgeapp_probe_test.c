// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgeapp_probe.c"

#include "tap.h"

// What comes out of a row of answers: + success, - failure. After each: R ready, . not; capital X when the failing is to be told.
static void row(const char *name, int successes, int failures, const char *answers, const char *want)
{
    struct app_readiness r = { 0 };
    char got[64] = "";
    bool changed, failing, was = false;
    for (size_t i = 0; answers[i] != '\0'; i++) {
        app_readiness_count(&r, successes, failures, answers[i] == '+', &changed, &failing);
        got[i] = failing ? 'X' : r.ready ? 'R' : '.';
        if (changed != (r.ready != was))
            fail("%s: answer %zu: changed is wrong", name, i + 1);
        was = r.ready;
    }
    is_str(got, want, "%s: %s", name, answers);
}

int main(void)
{
    row("defaults", 1, 3, "+--+---+", "RRRRRRXR");
    row("never ready: told once", 1, 3, "------", "..X...");
    row("told again after it was ready", 1, 2, "--+--", ".XRRX");
    row("three successes", 3, 1, "++-+++-", "..X..RX");
    row("one failure", 1, 1, "+-+-", "RXRX");
    struct app_readiness r = { .ready = true, .uid = uid_hash("a"), .next_ms = 7 };
    app_readiness_follow(&r, "a", 99, false);
    ok(r.ready && r.next_ms == 7, "the same instance goes on");
    app_readiness_follow(&r, "b", 99, false);
    ok(!r.ready && r.next_ms == 99, "another begins anew");
    app_readiness_follow(&r, "c", 5, true);
    ok(r.ready, "unless it is known to be ready");
    return done_testing();
}
