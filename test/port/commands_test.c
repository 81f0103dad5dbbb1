// SPDX-License-Identifier: Apache-2.0
// The contract of port.h for commands that run once: every port for what it can show, exec for what only processes can.
#include <errno.h>
#include <signal.h>

#include "rig.h"
#include "tap.h"

static const char *const ports[] = { "exec", "null", "fake" };

struct job {
    struct port_run run;
    struct rig *rig;
    unsigned done;
    bool inside; // done() was called from inside run()
    bool failed;
    struct err err;
    void (*then)(struct job *j);
};

static void on_done(struct port_run *r, const struct err *e)
{
    struct job *j = container_of(r, struct job, run);
    j->done++;
    j->inside = j->inside || j->rig->inside;
    j->failed = e != NULL;
    if (e != NULL)
        j->err = *e;
    if (j->then != NULL)
        j->then(j);
}

static int begin(struct rig *r, struct job *j, const char *const *argv)
{
    struct err e = ERR_INIT;
    j->rig = r;
    j->run.exec.argv = argv;
    j->run.done = on_done;
    if (j->run.output_max == 0)
        j->run.output_max = 4096;
    r->inside = true;
    int rc = r->port->ops->run(r->port, &j->run, &e);
    r->inside = false;
    if (rc != 0)
        diag("%s", e.msg);
    return rc;
}

static bool is_done(struct rig *r UNUSED, void *ctx)
{
    return ((struct job *)ctx)->done > 0;
}

// sh -c script, to its end.
static void run_script(struct rig *r, struct job *j, const char *script)
{
    const char *argv[] = { "sh", "-c", script, NULL };
    is_int(begin(r, j, argv), 0, "%s: is accepted: %s", r->name, script);
    ok(rig_until(r, is_done, j), "%s: ends", r->name);
    rig_turns(r, 2);
    is_int(j->done, 1, "%s: is told once", r->name);
    ok(!j->inside, "%s: and not from inside the call", r->name);
}

static void ok_and_not_ok(struct rig *r)
{
    struct job j = { .done = 0 };
    run_script(r, &j, "true");
    ok(!j.failed && j.run.code == 0 && j.run.signal == 0, "%s: code 0", r->name);
    buf_fini(&j.run.output);
    if (strcmp(r->name, "null") == 0)
        return;
    if (strcmp(r->name, "fake") == 0)
        port_fake_behave(r->port, NULL, &(struct fake_behaviour){ .run_ms = -1, .run_code = 9 });
    j = (struct job){ .done = 0 };
    run_script(r, &j, "exit 9");
    ok(!j.failed && j.run.code == 9, "%s: code 9 is a result, not an error", r->name);
    buf_fini(&j.run.output);
}

static void times_out(struct rig *r)
{
    struct job j = { .run.timeout_ms = 200 };
    rig_turns(r, 1); // timers count from the turn's time
    int64_t begin_ms = clock_mono(&r->clock);
    if (strcmp(r->name, "fake") == 0)
        port_fake_behave(r->port, NULL, &(struct fake_behaviour){ .run_ms = -1, .run_delay_ms = 3600 * 1000 });
    run_script(r, &j, "sleep 1000");
    ok(j.failed && j.err.cls == E_TIMEOUT, "%s: too long is E_TIMEOUT", r->name);
    is_int(j.run.signal, SIGKILL, "%s: killed", r->name);
    ok(clock_mono(&r->clock) - begin_ms >= 199, "%s: not before its time", r->name);
    buf_fini(&j.run.output);
}

static void cancelled(struct rig *r)
{
    static const char *const argv[] = { "sleep", "1000", NULL };
    struct job j = { .done = 0 }, other = { .done = 0 };
    if (strcmp(r->name, "fake") == 0)
        port_fake_behave(r->port, NULL, &(struct fake_behaviour){ .run_ms = -1, .run_delay_ms = 20 });
    is_int(begin(r, &j, argv), 0, "%s: is accepted", r->name);
    r->port->ops->run_cancel(r->port, &j.run);
    r->port->ops->run_cancel(r->port, &j.run);
    run_script(r, &other, "sleep 0.2");
    is_int(j.done, 0, "%s: who was cancelled is not told", r->name);
    r->port->ops->run_cancel(r->port, &j.run);
    r->port->ops->run_cancel(r->port, &other.run);
    ok(!other.failed, "%s: cancelling what has ended, or twice, is nothing", r->name);
    buf_fini(&j.run.output);
    buf_fini(&other.run.output);
}

static void again(struct job *j)
{
    static const char *const argv[] = { "true", NULL };
    buf_fini(&j->run.output);
    if (j->done < 3)
        (void)begin(j->rig, j, argv);
}

static bool done_three(struct rig *r UNUSED, void *ctx)
{
    return ((struct job *)ctx)->done == 3;
}

static void done_may_run_again(struct rig *r)
{
    static const char *const argv[] = { "true", NULL };
    struct job j = { .then = again };
    is_int(begin(r, &j, argv), 0, "%s: is accepted", r->name);
    ok(rig_until(r, done_three, &j), "%s: done() may run the same again", r->name);
}

static void bound(struct rig *r)
{
    static const char *const argv[] = { "sleep", "1000", NULL };
    static struct job jobs[PORT_RUNS_MAX + 1];
    int failed = 0;
    memset(jobs, 0, sizeof(jobs));
    for (int k = 0; k < PORT_RUNS_MAX; k++)
        failed += begin(r, &jobs[k], argv) != 0;
    is_int(failed, 0, "%s: as many at once as there may be", r->name);
    is_int(begin(r, &jobs[PORT_RUNS_MAX], argv), E_BUSY, "%s: one more is refused", r->name);
    for (int k = 0; k < PORT_RUNS_MAX; k++)
        r->port->ops->run_cancel(r->port, &jobs[k].run);
}

static void free_while_running(struct rig *r)
{
    static const char *const argv[] = { "sleep", "1000", NULL };
    struct job j = { .done = 0 };
    is_int(begin(r, &j, argv), 0, "%s: is accepted", r->name);
    ok(rig_new_agent(r), "%s: the agent ends", r->name);
    rig_turns(r, 3);
    is_int(j.done, 0, "%s: nobody is told", r->name);
    r->port->ops->run_cancel(r->port, &j.run);
}

static void refuses(struct rig *r)
{
    static const char *const none[] = { NULL };
    struct job j = { .done = 0 };
    is_int(begin(r, &j, none), E_INVAL, "%s: no command is refused", r->name);
    rig_turns(r, 2);
    is_int(j.done, 0, "%s: and not told besides", r->name);
}

// --- only with processes

static void output(struct rig *r)
{
    struct job j = { .run.output_max = 64 };
    run_script(r, &j, "echo out; echo err >&2");
    is_str(buf_str(&j.run.output), "out\nerr\n", "stdout and stderr, in order");
    is_int(j.run.output_dropped, 0, "nothing is dropped");
    buf_fini(&j.run.output);
    j = (struct job){ .run.output_max = 10 };
    run_script(r, &j, "i=0; while [ $i -lt 50000 ]; do echo line; i=$((i+1)); done; echo the end");
    is_str(buf_str(&j.run.output), "e\nthe end\n", "of too much the tail is kept");
    is_int(j.run.output_dropped, 50000 * 5 + 8 - 10, "and the rest is counted");
    buf_fini(&j.run.output);
}

static void no_room_for_output(struct rig *r)
{
    static const char *const argv[] = { "echo", "hello", NULL };
    struct err e = ERR_INIT;
    struct job j = { .rig = r, .run = { .exec.argv = argv, .done = on_done, .output_max = 0 } };
    is_int(r->port->ops->run(r->port, &j.run, &e), 0, "output_max 0 is accepted");
    ok(rig_until(r, is_done, &j), "ends");
    is_int(j.run.output.len, 0, "nothing is kept");
    is_int(j.run.output_dropped, 6, "all is counted");
}

static void signal_result(struct rig *r)
{
    struct job j = { .done = 0 };
    run_script(r, &j, "kill -9 $$");
    ok(!j.failed, "ended by a signal of its own is a result");
    is_int(j.run.signal, SIGKILL, "signal 9");
    is_int(j.run.code, -1, "no code");
    buf_fini(&j.run.output);
}

static void cannot_execute(struct rig *r)
{
    static const char *const missing[] = { "/nonexistent/program", NULL }, *const nowhere[] = { "no-such-program-anywhere", NULL };
    struct job j = { .done = 0 };
    is_int(begin(r, &j, missing), 0, "a missing program is accepted");
    ok(rig_until(r, is_done, &j), "ends");
    ok(j.failed && j.err.sys == ENOENT, "as an error, ENOENT");
    is_str(j.err.msg, "exec /nonexistent/program: No such file or directory", "that says which");
    j = (struct job){ .done = 0 };
    is_int(begin(r, &j, nowhere), 0, "a program that is in no directory of PATH");
    ok(rig_until(r, is_done, &j), "ends");
    ok(j.failed && j.err.sys == ENOENT, "as an error, ENOENT");
    j = (struct job){ .run.exec.workdir = "/nonexistent" };
    static const char *const true_argv[] = { "true", NULL };
    is_int(begin(r, &j, true_argv), 0, "a missing working directory");
    ok(rig_until(r, is_done, &j), "ends");
    has_str(j.err.msg, "chdir /nonexistent", "as an error that says so");
}

static void background_does_not_hold(struct rig *r)
{
    char script[512];
    struct job j = { .run.timeout_ms = 25 * 1000 };
    snprintf(script, sizeof(script), "echo first; sleep 1000 & echo $! >'%s/pid'; exit 4", r->dir);
    run_script(r, &j, script);
    ok(!j.failed, "a background process that holds the output does not hold the command");
    is_int(j.run.code, 4, "its code");
    is_str(buf_str(&j.run.output), "first\n", "its output");
    int pid = (int)strtol(rig_file(r, "pid"), NULL, 10);
    ok(rig_alive(pid), "it goes on");
    if (pid > 0)
        kill(pid, SIGKILL);
    buf_fini(&j.run.output);
}

static void timeout_kills_group(struct rig *r)
{
    char script[512];
    struct job j = { .run.timeout_ms = 300 };
    snprintf(script, sizeof(script), "sleep 1000 & echo $! >'%s/pid'; wait", r->dir);
    run_script(r, &j, script);
    ok(j.failed && j.err.cls == E_TIMEOUT, "E_TIMEOUT");
    int pid = (int)strtol(rig_file(r, "pid"), NULL, 10);
    ok(pid > 0, "it had a child");
    for (int i = 0; i < 500 && rig_alive(pid); i++)
        usleep(10 * 1000);
    ok(!rig_alive(pid), "which is killed with it");
    buf_fini(&j.run.output);
}

// A flood must neither stop the loop nor be kept.
static void flood(struct rig *r)
{
    struct job j = { .run = { .timeout_ms = 500, .output_max = 100 } };
    run_script(r, &j, "while :; do echo 0123456789012345678901234567890123456789; done");
    ok(j.failed && j.err.cls == E_TIMEOUT, "its time-out still comes");
    ok(j.run.output.len <= 100, "only the tail is kept");
    ok(j.run.output_dropped > 1000, "the rest is counted");
    buf_fini(&j.run.output);
}

static void environment(struct rig *r)
{
    static const char *const argv[] = { "/usr/bin/env", NULL }, *const env[] = { "B=2", "PATH=/bin", "A=x y", NULL };
    struct job j = { .done = 0 };
    setenv("LEAK", "agent", 1);
    is_int(begin(r, &j, argv), 0, "env NULL");
    ok(rig_until(r, is_done, &j), "ends");
    is_str(buf_str(&j.run.output), "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n", "is PATH alone");
    buf_fini(&j.run.output);
    j = (struct job){ .run.exec.env = env };
    is_int(begin(r, &j, argv), 0, "a given environment");
    ok(rig_until(r, is_done, &j), "ends");
    is_str(buf_str(&j.run.output), "B=2\nPATH=/bin\nA=x y\n", "is the whole");
    buf_fini(&j.run.output);
}

struct run_case {
    const char *name;
    unsigned needs;
    void (*fn)(struct rig *r);
};

static const struct run_case cases[] = {
    { "ok and not ok", 0, ok_and_not_ok },
    { "times out", RIG_ENDS, times_out },
    { "cancelled", 0, cancelled },
    { "done() may run again", 0, done_may_run_again },
    { "the bound", 0, bound },
    { "the agent ends meanwhile", 0, free_while_running },
    { "no command", 0, refuses },
    { "output", RIG_REAL, output },
    { "no room for output", RIG_REAL, no_room_for_output },
    { "ended by a signal", RIG_REAL, signal_result },
    { "field 28: a command that cannot be executed", RIG_REAL, cannot_execute },
    { "background processes do not hold it", RIG_REAL, background_does_not_hold },
    { "the time-out kills the group", RIG_REAL, timeout_kills_group },
    { "a flood", RIG_REAL, flood },
    { "environment", RIG_REAL, environment },
};

int main(int argc, char **argv)
{
    RIG_MAIN(argc, argv);
    for (size_t p = 0; p < ARRAY_LEN(ports); p++)
        for (size_t c = 0; c < ARRAY_LEN(cases); c++) {
            struct rig r;
            if ((rig_abilities(ports[p]) & cases[c].needs) != cases[c].needs || (argc > 1 && strcmp(argv[1], cases[c].name) != 0))
                continue;
            diag("%s: %s", ports[p], cases[c].name);
            if (!ok(rig_init(&r, ports[p]), "%s: is made", ports[p]))
                continue;
            cases[c].fn(&r);
            rig_fini(&r);
        }
    return done_testing();
}
