// SPDX-License-Identifier: Apache-2.0
#include "shim/proc.c"

#include <sys/prctl.h>
#include <sys/wait.h>

#include "tap.h"

// A stat line with a name of its process's own choice; 22nd field is the start time.
static const char *line_of(const char *name)
{
    static char line[512];
    snprintf(line, sizeof(line), "4242 (%s) S 1 17 18 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654321 12 13 18446744073709551615\n", name);
    return line;
}

static void parses(void)
{
    static const char *const names[] = {
        "sleep",
        "",
        ")",
        "(",
        "a b",
        "a) R 1 2 3 4 5 6",
        "x) Z 99 98 97 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1",
        "\n",
        "))))",
        "1 (init) S 0 1 1",
    };
    for (size_t k = 0; k < ARRAY_LEN(names); k++) {
        struct proc_stat s = { 0 };
        ok(proc_stat_parse(line_of(names[k]), &s), "field 27: a process that calls itself \"%s\"",
           names[k][0] == '\n' ? "newline" : names[k]);
        ok(s.pid == 4242 && s.ppid == 1 && s.pgrp == 17 && s.session == 18 && s.state == 'S', "deceives nobody about its family");
        is_int(s.start, 987654321, "nor about its start");
    }
}

static void refuses(void)
{
    static const char *const bad[] = {
        "",
        "4242",
        "4242 (x)",
        "4242 (x) ",
        "4242 (x) S",
        "4242 (x) S 1",
        "4242 (x) S 1 2 3",
        "(x) S 1 2 3 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5",
        "4242 (x) 7 1 17 18 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5",
        "4242 (x) S 99999999999 17 18 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5",
        "4242 (x) S 1 17 18 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0",
        "4242 (x) S 1 17 18 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 999999999999999999999",
    };
    struct proc_stat s = { .pid = 7 };
    for (size_t k = 0; k < ARRAY_LEN(bad); k++)
        ok(!proc_stat_parse(bad[k], &s) && s.pid == 7, "refuses \"%.30s\"", bad[k]);
}

static void this_process(void)
{
    struct proc_stat s;
    ok(proc_stat(getpid(), &s), "we are there");
    is_int(s.ppid, getppid(), "our parent");
    ok(s.start > 0 && proc_start(getpid()) == s.start, "our start");
    ok(proc_is(getpid(), s.start), "we are we");
    ok(!proc_is(getpid(), s.start + 1), "field 27: with another start time we are somebody else");
    ok(!proc_is(0, 0) && !proc_is(-1, 0), "nobody has such a pid");
    is_int(proc_start(-5), 0, "nor a start");
}

static void zombies(void)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_NAME, "x) S 1 1 1 0");
        _exit(0);
    }
    siginfo_t info;
    waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
    struct proc_stat s = { 0 };
    ok(proc_stat(pid, &s) && s.state == 'Z' && s.ppid == getpid(), "a zombie with a false name is still listed");
    ok(!proc_is(pid, s.start), "but not alive");
    waitpid(pid, NULL, 0);
    ok(!proc_stat(pid, &s), "and then gone");
}

static bool find_self(void *ctx, const struct proc_stat *s)
{
    ++*(int *)ctx;
    return s->pid == getpid();
}

static void walks(void)
{
    int n = 0;
    ok(proc_each(find_self, &n), "the walk meets us and stops");
    ok(n > 0, "after some");
}

static void environments(void)
{
    struct env_search s = { .entry = "A=1", .len = 4 };
    ok(env_feed(&s, "B=2\0A=1\0C=3", 12), "an entry");
    s.at = 0;
    ok(!env_feed(&s, "AA=1\0A=12\0xA=1\0A=", 17) && env_feed(&s, "1\0", 2), "that came in two pieces, after some that look like it");
    s.at = 0;
    ok(!env_feed(&s, "A=1", 3), "an entry without its end is none yet");
    fflush(stdout);
    int p[2];
    ok(pipe(p) == 0, "a pipe");
    pid_t pid = fork();
    if (pid == 0) {
        char *env[] = { "FIRST=x", "_LIMPET_SHIM=abc", NULL };
        dup2(p[0], 0);
        close(p[1]);
        execle("/bin/cat", "cat", (char *)NULL, env);
        _exit(1);
    }
    close(p[0]);
    bool found = false;
    for (int i = 0; i < 3000 && !found; i++, usleep(1000))
        found = proc_has_env(pid, "_LIMPET_SHIM=abc");
    ok(found, "a process with the mark");
    ok(!proc_has_env(pid, "_LIMPET_SHIM=ab") && !proc_has_env(pid, "_LIMPET_SHIM=abcd"), "not with another");
    close(p[1]);
    waitpid(pid, NULL, 0);
    ok(!proc_has_env(pid, "_LIMPET_SHIM=abc"), "nobody has it when it has ended");
}

int main(void)
{
    parses();
    refuses();
    this_process();
    zombies();
    walks();
    environments();
    return done_testing();
}
