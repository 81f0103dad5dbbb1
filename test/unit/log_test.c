// SPDX-License-Identifier: Apache-2.0
#include "base/log.c"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/un.h>

#include "fake_clock.h"
#include "tap.h"

static struct fake_clock fc;
static char got[3 * LINE_CAP];
static size_t got_len;
static unsigned lines;

static void sink(void *ctx UNUSED, const char *line, size_t len)
{
    lines++;
    if (got_len + len < sizeof(got)) {
        memcpy(got + got_len, line, len);
        got_len += len;
        got[got_len] = '\0';
    }
}

// Each start has an hour of its own, so that no site is over its limit from before.
static void start(enum log_format format)
{
    fake_clock_advance(&fc, 3600000);
    fc.wall_us = INT64_C(1767225600123456);
    log_setup(LOG_DEBUG, format, &fc.clock);
    lg.journal = false;
    log_set_sink(sink, NULL);
    log_set_trace(0);
    got[0] = '\0';
    got_len = 0;
    lines = 0;
}

#define HEAD(level) "{\"ts\":\"2026-01-01T00:00:00.123456Z\",\"level\":\"" level "\",\"module\":\"m\""

static void test_json(void)
{
    start(LOG_JSON);
    log_info("m", "relist kind=%s rv=%d", "EdgeApp", 7);
    is_str(got, HEAD("info") ",\"event\":\"relist\",\"kind\":\"EdgeApp\",\"rv\":\"7\"}\n", "event and pairs");
    start(LOG_JSON);
    log_set_trace(0x2a);
    log_warn("m", "watch failed err=\"%s\" again=%dms now", "no route", 800);
    is_str(got,
           HEAD("warn") ",\"event\":\"watch\",\"trace_id\":\"000000000000002a\",\"err\":\"no route\",\"again\":\"800ms\",\"msg\":\"failed "
                        "now\"}\n",
           "quoted value, trace, and the other words");
    start(LOG_JSON);
    log_error("m", "a=1 b=");
    is_str(got, HEAD("error") ",\"a\":\"1\",\"b\":\"\"}\n", "no event when the first word is a pair; an empty value");
    start(LOG_JSON);
    log_debug("m", "%s", "");
    is_str(got, HEAD("debug") "}\n", "nothing to say");
    start(LOG_JSON);
    log_info("m", "x level=9 ts=1 module=2 event=3 msg=4 trace_id=5");
    is_str(got,
           HEAD("info") ",\"event\":\"x\",\"level_\":\"9\",\"ts_\":\"1\",\"module_\":\"2\",\"event_\":\"3\",\"msg_\":\"4\",\"trace_id_\":"
                        "\"5\"}\n",
           "members of its own are not overwritten");
    start(LOG_JSON);
    log_info("m", "x %d%% a-b.c_D=%5.2f|% d ==y", 50, 1.5, 3);
    is_str(got, HEAD("info") ",\"event\":\"x\",\"a-b.c_D\":\" 1.50| 3\",\"msg\":\"50% ==y\"}\n",
           "conversions are no keys, their blanks no gaps");
    start(LOG_JSON);
    log_setup(LOG_INFO, LOG_JSON, NULL);
    log_info("m", "early");
    is_str(got, "{\"level\":\"info\",\"module\":\"m\",\"event\":\"early\"}\n", "before there is a clock");
}

// A value stays a value, whatever is in it.
static void test_hostile(void)
{
    start(LOG_JSON);
    log_info("m", "x name=%s n=%d", "a b=c level=evil \"q\" \\ ", 1);
    is_str(got, HEAD("info") ",\"event\":\"x\",\"name\":\"a b=c level=evil \\\"q\\\" \\\\ \",\"n\":\"1\"}\n",
           "blanks, quotes and equal signs do not break out");
    start(LOG_JSON);
    log_info("m", "x name=%s",
             "1\n2\r3\t4\x01"
             "5\x7f"
             "6");
    is_str(got, HEAD("info") ",\"event\":\"x\",\"name\":\"1\\u000a2\\u000d3\\u00094\\u00015\\u007f6\"}\n", "control bytes are escaped");
    start(LOG_JSON);
    log_info("m", "x name=%s", "\xff \xc3( \xed\xa0\x80 gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80");
    is_str(got, HEAD("info") ",\"event\":\"x\",\"name\":\"\\ufffd \\ufffd( \\ufffd\\ufffd\\ufffd gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80\"}\n",
           "damaged UTF-8 is marked, sound UTF-8 kept");
    start(LOG_JSON);
    log_info("m", "x name=%s",
             "a\x1flevel\x1e"
             "evil");
    is_str(got, HEAD("info") ",\"event\":\"x\",\"msg\":\"name=a?level?evil\"}\n", "the marks themselves bring no member in");
    start(LOG_JSON);
    log_info("m", "%s", "evil=1 more=2");
    is_str(got, HEAD("info") ",\"event\":\"evil=1 more=2\"}\n", "nor does a whole text that looks like pairs");

    start(LOG_TEXT);
    log_info("m", "x name=%s",
             "1\n2 error other: forged\x1b[31m\xc2\x9b"
             "1m\xff");
    is_int(lines, 1, "text: one line");
    ok(strchr(got, '\n') == got + got_len - 1, "with one newline, at its end");
    has_str(got, "info  m: x name=\"1\\x0a2 error other: forged\\x1b[31m\\u009b1m\\xff\"\n", "what a terminal would obey is escaped");
}

static void test_long(void)
{
    char big[5000];
    memset(big, 'a', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    start(LOG_JSON);
    log_info("m", "x name=%s", big);
    ok(got_len < MSG_MAX + 200, "a long message is cut");
    is_str(got + got_len - 6, "...\"}\n", "says so, and is still a whole line");
    start(LOG_JSON);
    memset(big, 0x01, sizeof(big) - 1);
    log_info("m", "x name=%s", big);
    ok(got_len > 6000 && got_len < LINE_CAP, "every byte escaped: %zu bytes", got_len);
    is_str(got + got_len - 6, "...\"}\n", "still a whole line");
    start(LOG_JSON);
    for (size_t i = 0; i < sizeof(big) - 2; i += 2)
        memcpy(big + i, "\xc3\xa4", 2);
    log_info("m", "x n=%s", big);
    ok(strstr(got, "fffd") == NULL, "cut between characters");
    // A format that is itself too long for marking is text.
    start(LOG_JSON);
    struct log_site site = { 0 };
    memset(big, 'f', 400);
    strcpy(big + 400, " a=1");
    log_at(
        &site, LOG_INFO, "m",
        "%s "
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
        "ff a=1",
        "x");
    has_str(got, " a=1\"}\n", "a very long format has no pairs");
}

static void test_text(void)
{
    start(LOG_TEXT);
    log_set_trace(1);
    log_info("sync", "relist kind=%s err=%s none=%s", "EdgeApp", "not now", "");
    is_str(got, "2026-01-01T00:00:00.123456Z info  sync: relist kind=EdgeApp err=\"not now\" none=\"\" trace_id=0000000000000001\n",
           "text");
    start(LOG_TEXT);
    lg.journal = true;
    log_error("m", "e");
    log_warn("m", "w");
    log_info("m", "i");
    log_debug("m", "d");
    is_str(got, "<3>error m: e\n<4>warn  m: w\n<6>info  m: i\n<7>debug m: d\n", "the journal gets priorities and keeps its own time");
}

static void test_level(void)
{
    start(LOG_TEXT);
    log_setup(LOG_WARN, LOG_TEXT, &fc.clock);
    log_error("m", "e");
    log_warn("m", "w");
    log_info("m", "i");
    log_debug("m", "d");
    is_int(lines, 2, "what is below the level is not written");
    ok(log_enabled(LOG_ERROR) && log_enabled(LOG_WARN) && !log_enabled(LOG_INFO), "and is known beforehand");
}

static void say(int n)
{
    log_info("m", "again n=%d", n);
}

static void test_limit(void)
{
    start(LOG_JSON);
    for (int i = 0; i < 1000; i++)
        say(i);
    is_int(lines, 20, "field 24: a call site has 20 lines a minute");
    log_info("m", "other");
    is_int(lines, 21, "another site has its own");
    fake_clock_advance(&fc, 59999);
    say(1);
    is_int(lines, 21, "field 24: a minute is a minute");
    got_len = 0;
    fake_clock_advance(&fc, 1);
    say(1);
    is_int(lines, 23, "then it goes on");
    has_str(got, "\"event\":\"left-out\",\"count\":\"981\",\"of\":\"again\"}\n", "field 24: having said how many were left out");
    got_len = 0;
    fake_clock_advance(&fc, 60000);
    say(1);
    is_int(lines, 24, "and says it once");
}

// --- the real stderr

static int saved_stderr;

static void stderr_is(int fd)
{
    fflush(stderr);
    dup2(fd, STDERR_FILENO);
}

static size_t drain(int fd, char *out, size_t max)
{
    size_t n = 0;
    ssize_t r;
    while (n + 1 < max && (r = read(fd, out + n, max - 1 - n)) > 0)
        n += (size_t)r;
    out[n] = '\0';
    return n;
}

static bool each_line_is_whole(char *text)
{
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
        if (line[0] != '{' || line[strlen(line) - 1] != '}')
            return false;
    return true;
}

// A reader that does not read: the caller is not held for ever, and what was lost is told once there is room.
static void test_full(const char *what, const int fds[2])
{
    static char text[1 << 20];
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    start(LOG_JSON);
    log_set_sink(NULL, NULL);
    stderr_is(fds[1]);
    log_setup(LOG_INFO, LOG_AUTO, NULL); // without a clock there is no limit per site
    bool json = lg.json;
    for (int i = 0; i < 20000; i++)
        log_info("m", "line n=%d", i);
    unsigned lost = lg.lost;
    size_t n = drain(fds[0], text, sizeof(text));
    log_info("m", "after");
    size_t m = drain(fds[0], text + n, sizeof(text) - n);
    stderr_is(saved_stderr);

    ok(json, "%s: JSON lines where no person looks", what);
    ok(lost > 0 && n > 1000, "%s: when it is full the rest is dropped (%u lines)", what, lost);
    char want[80];
    snprintf(want, sizeof(want), "\"event\":\"lines-lost\",\"count\":\"%u\"}\n", lost);
    has_str(text + n, want, "%s: the loss is told", what);
    has_str(text + n, "\"event\":\"after\"}\n", "%s: and it goes on (%zu bytes)", what, m);
    ok(each_line_is_whole(text), "%s: every line is whole", what);
    close(fds[0]);
    close(fds[1]);
}

// A line longer than a piece may be written in part; the next one begins on a line of its own.
static void test_torn(void)
{
    static char text[1 << 20];
    char big[1000];
    int fds[2];
    memset(big, 0x01, sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    // One byte ahead, so that the pipe's pages do not run out exactly between two lines.
    if (pipe(fds) != 0 || write(fds[1], "\n", 1) != 1)
        return;
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    stderr_is(fds[1]);
    log_setup(LOG_INFO, LOG_JSON, NULL);
    for (int i = 0; i < 1000 && !lg.torn; i++)
        log_info("m", "big text=%s", big);
    bool torn = lg.torn;
    size_t n = drain(fds[0], text, sizeof(text));
    log_info("m", "after");
    drain(fds[0], text + n, sizeof(text) - n);
    stderr_is(saved_stderr);
    ok(torn && text[n - 1] != '\n', "a long line was cut in the middle");
    ok(strncmp(text + n, "\n{\"level\":\"warn\"", 16) == 0, "the next begins on its own line");
    ok(!lg.torn && lg.lost == 0, "and all is well again");
    close(fds[0]);
    close(fds[1]);
}

static void test_closed(void)
{
    int fds[2];
    start(LOG_JSON);
    log_set_sink(NULL, NULL);
    if (pipe(fds) != 0)
        return;
    signal(SIGPIPE, SIG_IGN);
    stderr_is(fds[1]);
    log_setup(LOG_INFO, LOG_JSON, NULL);
    close(fds[0]);
    close(fds[1]);
    log_info("m", "nobody reads");
    unsigned lost = lg.lost;
    stderr_is(saved_stderr);
    lg.lost = 0;
    lg.torn = false;
    is_int(lost, 1, "a reader that is gone is a loss, not an end");
}

static void test_journal(void)
{
    int sv[2];
    char env[64], text[4096];
    struct stat st;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv) != 0)
        return;
    fstat(sv[1], &st);
    fcntl(sv[0], F_SETFL, O_NONBLOCK);
    snprintf(env, sizeof(env), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
    setenv("JOURNAL_STREAM", env, 1);
    stderr_is(sv[1]);
    log_setup(LOG_INFO, LOG_AUTO, &fc.clock);
    log_set_sink(NULL, NULL);
    log_warn("m", "hello");
    stderr_is(saved_stderr);
    drain(sv[0], text, sizeof(text));
    is_str(text, "<4>warn  m: hello\n", "stderr is the journal: its form");

    snprintf(env, sizeof(env), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino + 1);
    setenv("JOURNAL_STREAM", env, 1);
    stderr_is(sv[1]);
    log_setup(LOG_INFO, LOG_AUTO, &fc.clock);
    stderr_is(saved_stderr);
    ok(lg.json && !lg.journal, "the variable speaks of another stream: JSON");
    setenv("JOURNAL_STREAM", "nonsense", 1);
    log_setup(LOG_INFO, LOG_AUTO, &fc.clock);
    ok(!lg.journal, "or of none");
    unsetenv("JOURNAL_STREAM");
    close(sv[0]);
    close(sv[1]);
}

// --- the log daemon

static char daemon_path[64];

static int daemon_begins(void)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", daemon_path);
    unlink(daemon_path);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&a, sizeof(a)) != 0)
        fail("binding %s: %s", daemon_path, strerror(errno));
    return fd;
}

static const char *heard(int fd)
{
    static char text[LINE_CAP];
    ssize_t n = recv(fd, text, sizeof(text) - 1, 0);
    text[MAX(n, 0)] = '\0';
    return text;
}

static void to_daemon(enum log_format format)
{
    start(format);
    log_target(LOG_TO_SYSLOG, daemon_path);
    log_setup(LOG_DEBUG, format, NULL); // without a clock there is no limit per site
    log_set_sink(NULL, NULL);
}

static void test_daemon_form(int fd)
{
    static const int priorities[] = { 27, 28, 30, 31 };
    char want[128];
    to_daemon(LOG_AUTO);
    for (int level = LOG_ERROR; level <= LOG_DEBUG; level++) {
        struct log_site site = { 0 };
        log_at(&site, (enum log_level)level, "m", "hello name=%s", "a b");
        snprintf(want, sizeof(want), "<%d>limpet[%d]: %-5s m: hello name=\"a b\"", priorities[level], (int)getpid(), level_names[level]);
        is_str(heard(fd), want, "a datagram a line, facility daemon, without a time: %s", level_names[level]);
    }
    log_info("m", "x text=%s", "two\nlines");
    has_str(heard(fd), "text=two\\x0alines", "a line is one line");
    to_daemon(LOG_JSON);
    log_info("m", "hello");
    has_str(heard(fd), "]: {\"level\":\"info\",\"module\":\"m\",\"event\":\"hello\"}", "JSON, if that is asked for");
}

static void test_daemon_full(int fd)
{
    to_daemon(LOG_AUTO);
    for (int i = 0; i < 5000; i++)
        log_info("m", "line n=%d", i);
    unsigned lost = lg.lost;
    ok(lost > 0, "nobody reads: what the socket does not take is dropped, and nobody waits (%u lines)", lost);
    int n = 0;
    while (*heard(fd) != '\0')
        n++;
    is_int(n + (int)lost, 5000, "each is there or counted");
    log_info("m", "after");
    char want[64];
    snprintf(want, sizeof(want), "warn  log: lines-lost count=%u", lost);
    has_str(heard(fd), want, "the loss is told");
    has_str(heard(fd), "info  m: after", "and it goes on");
}

static void test_daemon_restart(int fd)
{
    to_daemon(LOG_AUTO);
    close(fd);
    log_info("m", "into the void");
    is_int(lg.lost, 1, "the daemon is gone: a line is lost");
    unlink(daemon_path);
    log_info("m", "into the void");
    is_int(lg.lost, 2, "its socket, too: another one");
    fd = daemon_begins();
    log_info("m", "back");
    has_str(heard(fd), "lines-lost count=2", "a new one hears of it");
    has_str(heard(fd), "back", "and the rest");
    close(fd);
    unlink(daemon_path);
    fd = daemon_begins();
    log_info("m", "again");
    has_str(heard(fd), "again", "one that took its place between two lines is found, and nothing is lost");
    close(fd);
    unlink(daemon_path);
}

static void test_target(void)
{
    char path[200];
    log_target(LOG_TO_STDERR, daemon_path);
    ok(!lg.daemon, "stderr");
    log_target(LOG_TO_AUTO, daemon_path);
    ok(!lg.daemon, "auto: stderr goes somewhere");
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    stderr_is(null);
    log_target(LOG_TO_AUTO, daemon_path);
    bool nowhere = lg.daemon;
    close(STDERR_FILENO);
    log_target(LOG_TO_AUTO, daemon_path);
    bool closed = lg.daemon;
    stderr_is(saved_stderr);
    close(null);
    ok(nowhere, "auto: stderr is /dev/null: the log daemon");
    ok(closed, "auto: or closed");
    memset(path, 'a', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    log_target(LOG_TO_SYSLOG, path);
    ok(!lg.daemon, "a path that no socket can have: stderr");
    log_target(LOG_TO_STDERR, daemon_path);
}

static void test_daemon(void)
{
    char dir[] = "/tmp/limpet-log-XXXXXX";
    if (mkdtemp(dir) == NULL)
        fail("mkdtemp");
    snprintf(daemon_path, sizeof(daemon_path), "%s/log", dir);
    int fd = daemon_begins();
    test_daemon_form(fd);
    test_daemon_full(fd);
    test_daemon_restart(fd);
    test_target();
    rmdir(dir);
}

int main(void)
{
    int fds[2];
    saved_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
    fake_clock_init(&fc, 1);
    test_json();
    test_hostile();
    test_long();
    test_text();
    test_level();
    test_limit();
    if (pipe(fds) == 0)
        test_full("pipe", fds);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0)
        test_full("socket", fds);
    test_torn();
    test_closed();
    test_journal();
    test_daemon();
    return done_testing();
}
