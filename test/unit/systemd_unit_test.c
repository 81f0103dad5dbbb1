// SPDX-License-Identifier: Apache-2.0
#include "port/systemd_unit.c"

#include "port/poke.c"
#include "port/systemd_show.c"
#include "tap.h"

static const char *const argv[] = { "/bin/sh", "-c", "echo \"$HOME\" 100% \\ \n;", "", NULL };
static const char *const env[] = { "PATH=/bin", "SECRET=hunter \"2\" $x `y` \\ 'z'\nnext", "USER=me", NULL };

static struct inst_spec spec(void)
{
    return (struct inst_spec){ .uid = "abc-0-def",
                               .owner = "edgeapps/edge-n/web-ui",
                               .revision = "1-0123456789ab",
                               .index = 3,
                               .exec = { .argv = argv, .env = env, .user = "www", .workdir = "/srv/50%" },
                               .log_name = "edge-n_web_0",
                               .grace_ms = 7500 };
}

static const struct unit_place place = {
    .self = "/usr/sbin/limpet", .records = "/run/limpet/units", .env_file = "/var/lib/limpet/units/x.env", .program = "/bin/sh"
};

static const char *text_of(const struct inst_spec *s, const struct unit_place *w, struct err *e)
{
    static struct buf b = BUF_INIT(UNIT_TEXT_MAX);
    *e = ERR_INIT;
    buf_reset(&b);
    return unit_text(s, w, &b, e) == 0 ? buf_str(&b) : "";
}

static void names(void)
{
    char out[UNIT_NAME_MAX], uid[INST_UID_MAX], owner[300];
    unit_name("edgeapps/ns/web", "abc-0-1", out);
    is_str(out, "limpet-web-abc-0-1.service", "a unit is named after its owner's name and the uid");
    unit_name("edgeapps/ns/my-web.app", "abc", out);
    is_str(out, "limpet-my\\x2dweb.app-abc.service", "escaped as systemd-escape does");
    ok(unit_uid(out, uid), "the uid is found in it");
    is_str(uid, "abc", "again");
    memset(owner, '-', sizeof(owner) - 1);
    owner[sizeof(owner) - 1] = '\0';
    unit_name(owner, "abc-0-1", out);
    ok(strlen(out) < UNIT_NAME_MAX && unit_uid(out, uid) && strcmp(uid, "abc-0-1") == 0, "a long name is cut, the uid is not");
    static const char *const others[] = { "limpet.service",       "limpet-.service",      "limpet-web.service",     "limpet-web-.service",
                                          "limpet-web-A.service", "limpet-web-abc.timer", "limpet-web-a/b.service", "x-web-abc.service" };
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        ok(!unit_uid(others[i], uid), "%s is no unit of ours", others[i]);
    ok(unit_escape(".a/b\xc3\xa9", out, sizeof(out)), "escaping");
    is_str(out, "\\x2ea-b\\xc3\\xa9", "a dot in front, a slash, a letter that is not ASCII");
    ok(!unit_escape("-", out, 4), "what does not fit is not cut");
}

static void text(void)
{
    struct inst_spec s = spec();
    struct err e;
    const char *t = text_of(&s, &place, &e);
    has_str(t, "\nExecStart=@\"/bin/sh\" \"/bin/sh\" \"-c\" \"echo \\\"$$HOME\\\" 100%% \\\\ \\x0a;\" \"\"\n", "the command");
    has_str(t, "\nExecStopPost=-+\"/usr/sbin/limpet\" poke \"/run/limpet/units\" %n\n", "its poke");
    has_str(t, "\nWorkingDirectory=/srv/50%%\n", "a percent sign in a path");
    has_str(t, "\nEnvironmentFile=/var/lib/limpet/units/x.env\n", "the file of its environment");
    has_str(t, "\nUser=www\n", "user");
    has_str(t, "\nRestart=no\n", "zero: systemd does not restart it");
    has_str(t, "\nTimeoutStopSec=7500ms\n", "grace");
    has_str(t, "\nSyslogIdentifier=edge-n_web_0\n", "the journal's name for it");
    ok(strstr(t, "hunter") == NULL, "no value of the environment is in the unit");
    ok(strstr(t, "[Install]") == NULL && strstr(t, "MemoryMax") == NULL && strstr(t, "Limit") == strstr(t, "LimitIntervalSec"),
       "what is not asked for is not there");
    ok(strstr(t, " USER") == NULL && strstr(t, " HOME") != NULL, "variables of systemd go, those of the spec stay");
}

static void settings(void)
{
    struct inst_spec s = spec();
    struct unit_place w = place;
    struct err e;
    s.restart = INST_RESTART_ON_FAILURE;
    s.limits = (struct inst_limits){ .memory = 64 << 20, .cpu_milli = 255, .pids = 100 };
    s.exec.rlimits[0] = (struct rlimit_spec){ RLIMIT_NOFILE, 1024, -1 };
    s.exec.n_rlimits = 1;
    const char *t = text_of(&s, &w, &e);
    has_str(t, "\nMemoryMax=67108864\n", "memory");
    has_str(t, "\nCPUQuota=26%\n", "processor, rounded up");
    has_str(t, "\nTasksMax=100\n", "tasks");
    has_str(t, "\nLimitNOFILE=1024:infinity\n", "rlimit");
    has_str(t, "\nRestart=on-failure\nRestartSec=10\n", "restart");
    has_str(t, "\nWantedBy=multi-user.target\n", "starts at boot");
    ok(strstr(t, "RestartSteps") == NULL, "a systemd that is not known is told nothing new");
    w.version = 254;
    has_str(text_of(&s, &w, &e), "\nRestartSteps=5\nRestartMaxDelaySec=300\n", "one that is, is");
    s.grace_ms = 100;
    has_str(text_of(&s, &w, &e), "\nTimeoutStopSec=5000ms\n", "the poke has time");
}

static void refused(void)
{
    static const char *const latin[] = { "/bin/sh", "caf\xe9", NULL };
    struct inst_spec s = spec();
    struct unit_place w = place;
    struct buf b = BUF_INIT(UNIT_ENV_MAX);
    struct err e = ERR_INIT;
    char program[UNIT_PATH_MAX];
    s.exec.argv = latin;
    is_str(text_of(&s, &w, &e), "", "not UTF-8");
    is_int(e.cls, E_INVAL, "is refused");
    s = spec();
    s.exec.workdir = "/a\nExecStartPre=/bin/evil";
    is_str(text_of(&s, &w, &e), "", "a directory of two lines");
    s = spec();
    s.exec.user = "root\nExecStartPre=/bin/evil";
    is_str(text_of(&s, &w, &e), "", "a user of two lines");
    s = spec();
    s.log_name = "a\\";
    is_str(text_of(&s, &w, &e), "", "a log name that would go on in the next line");
    const char *const bad_env[] = { "A B=secret", NULL }, *const latin_env[] = { "X=caf\xe9", NULL };
    is_int(unit_env_text(bad_env, &b, &e), E_INVAL, "a variable without a name");
    ok(strstr(e.msg, "secret") == NULL, "its value is not told");
    is_int(unit_env_text(latin_env, &b, &e), E_INVAL, "a variable that is not UTF-8");
    const char *const quote[] = { "/bin/a\"b", NULL };
    struct exec_env x = { .argv = quote };
    is_int(unit_program(&x, program, &e), E_INVAL, "a program with a quote in its name");
    buf_fini(&b);
}

static void environment(void)
{
    struct buf b = BUF_INIT(UNIT_ENV_MAX);
    struct err e = ERR_INIT;
    is_int(unit_env_text(env, &b, &e), 0, "environment");
    is_str(buf_str(&b), "PATH=\"/bin\"\nSECRET=\"hunter \\\"2\\\" \\$x \\`y\\` \\\\ 'z'\nnext\"\nUSER=\"me\"\n", "as systemd reads it");
    buf_reset(&b);
    is_int(unit_env_text(NULL, &b, &e), 0, "none");
    is_str(buf_str(&b), "PATH=\"" DEFAULT_PATH "\"\n", "is PATH alone");
    buf_fini(&b);
}

static void programs(void)
{
    static const char *const in_bin[] = { "sh", NULL }, *const nowhere[] = { "no-such-program", NULL }, *const below[] = { "./x", NULL };
    static const char *const path[] = { "PATH=/nonexistent:/bin", NULL };
    struct exec_env x = { .argv = in_bin, .env = path, .workdir = "/srv" };
    struct err e = ERR_INIT;
    char out[UNIT_PATH_MAX];
    ok(unit_program(&x, out, &e) == 0 && strcmp(out, "/bin/sh") == 0, "found in PATH");
    x.argv = nowhere;
    ok(unit_program(&x, out, &e) == 0 && strcmp(out, "/nonexistent/no-such-program") == 0, "not found: named in the first directory");
    x.argv = below;
    ok(unit_program(&x, out, &e) == 0 && strcmp(out, "/srv/./x") == 0, "below the working directory");
}

static void back(void)
{
    struct inst_spec s = spec();
    struct unit_meta m;
    struct err e;
    s.owner = "edgeapps/ns/\"odd\\ % $x\x7f";
    ok(unit_parse(text_of(&s, &place, &e), &m), "what was written is read");
    is_str(m.uid, s.uid, "uid");
    is_str(m.owner, s.owner, "owner");
    is_str(m.revision, s.revision, "revision");
    is_int(m.index, 3, "index");
    is_int(m.grace_ms, 7500, "grace");
    is_str(m.program, "/bin/sh", "program");
    is_str(m.workdir, "/srv/50%", "directory");
    ok(!unit_parse("[Unit]\nDescription=somebody's\n", &m), "somebody else's unit");
    ok(!unit_parse("\n[X-Limpet]\nUid=../x\nIndex=0\nGrace=1\nOwner=\"o\"\nRevision=\"\"\nProgram=\"\"\nDirectory=\"\"\n", &m),
       "a bad uid");
    ok(!unit_parse("\n[X-Limpet]\nUid=x\nIndex=0\nGrace=1\nOwner=\"o\nRevision=\"\"\n", &m), "an open quote");
}

static void show(void)
{
    static const char said[] =
        "Id=limpet-a-1.service\nLoadState=loaded\nActiveState=active\nSubState=running\nJob=\nMainPID=42\nNRestarts=2\n"
        "ExecMainStartTimestampMonotonic=1234567\nUnknown=x=y\n\n"
        "Id=limpet-b-1.service\nActiveState=failed\nSubState=failed\nResult=oom-kill\nJob=77\nExecMainCode=2\nExecMainStatus=9\n";
    const char *at = said;
    struct show_unit u;
    ok(show_next(&at, &u), "a unit");
    is_str(u.id, "limpet-a-1.service", "its name");
    ok(u.active == SHOW_ACTIVE && u.main_pid == 42 && u.restarts == 2 && u.started_us == 1234567 && !u.has_job, "it runs");
    ok(show_next(&at, &u), "another");
    ok(u.active == SHOW_INACTIVE && u.has_job && u.exec_code == 2 && u.exec_status == 9 && u.main_pid == 0, "it failed");
    is_str(u.result, "oom-kill", "for want of memory");
    ok(!show_next(&at, &u), "no more");
    at = "";
    ok(!show_next(&at, &u), "nothing");
}

static void ends(void)
{
    struct inst_exit x;
    poke_exit("exited", "7", "exit-code", &x);
    ok(x.known && x.code == 7 && x.signal == 0, "exit code");
    is_str(x.reason, "Error", "is an error");
    poke_exit("exited", "0", "success", &x);
    is_str(x.reason, "Completed", "done");
    poke_exit("killed", "TERM", "success", &x);
    ok(x.known && x.code == -1 && x.signal == SIGTERM, "signal");
    poke_exit("dumped", "SEGV", "core-dump", &x);
    is_int(x.signal, SIGSEGV, "with a core");
    poke_exit("killed", "KILL", "oom-kill", &x);
    is_str(x.reason, "OOMKilled", "out of memory");
    poke_exit("", "", "resources", &x);
    ok(!x.known && x.code == -1, "nothing ran");
    is_int(poke_signal("RTMIN+2"), 36, "a real-time signal");
    is_int(poke_signal("NONSENSE"), 0, "no signal");
}

int main(void)
{
    names();
    text();
    settings();
    refused();
    environment();
    programs();
    back();
    show();
    ends();
    return done_testing();
}
