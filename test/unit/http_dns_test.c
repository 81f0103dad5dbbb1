// SPDX-License-Identifier: Apache-2.0
// A name server that takes questions and never answers, as a network does that is down somewhere behind the router: it must not stop
// the loop, neither while a name is being resolved nor when the request is taken back. In namespaces of its own, with a resolv.conf of its own; skipped
// where that is not permitted.
#include "wire/http_curl.c"

#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tap.h"

enum { TICK_MS = 50, BLOCKED_MS = 2500, CONNECT_MS = 700 }; // an answer that does not come takes a resolver 5 s and more

static struct clock wall;
static struct loop *loop;
static int64_t last_tick, longest_gap;
static int ended;
static struct err last_err;

static void on_tick(struct timer *t)
{
    int64_t now = clock_mono(&wall);

    longest_gap = MAX(longest_gap, now - last_tick);
    last_tick = now;
    timer_in(loop, t, TICK_MS);
}

static void on_end(struct http_req *r UNUSED, const struct err *e)
{
    ended++;
    last_err = e != NULL ? *e : ERR_INIT;
}

static bool use_own_resolv_conf(void)
{
    char path[300];
    const char text[] = "nameserver 127.0.0.1\noptions timeout:5 attempts:2\n";

    snprintf(path, sizeof path, "%s/resolv.conf", getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    bool written = fd >= 0 && write(fd, text, sizeof text - 1) == sizeof text - 1;
    close(fd);
    return written && mount(path, "/etc/resolv.conf", NULL, MS_BIND, NULL) == 0;
}

static bool raise_loopback(void)
{
    struct ifreq r = { .ifr_name = "lo", .ifr_flags = IFF_UP };
    AUTO_CLOSE int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    return fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &r) == 0;
}

// The silent name server: a socket that nobody reads from. Its queue shows that somebody asked.
static int open_name_server(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(53), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    return bind(fd, (struct sockaddr *)&at, sizeof at) == 0 ? fd : -1;
}

static struct transport *open_transport(int64_t connect_ms)
{
    struct transport *t = NULL;
    struct http_conf c = { .base_url = "http://api.somewhere.example:6443", .connect_timeout_ms = connect_ms };

    if (http_new(&t, loop, &c, NULL) < 0)
        abort();
    return t;
}

static void start(struct transport *t, struct http_req *r)
{
    *r = (struct http_req){ .method = "GET", .url = "/", .on_done = on_end };
    if (http_submit(t, r, NULL) < 0)
        abort();
}

static void turn_for(int64_t ms)
{
    for (int64_t end = clock_mono(&wall) + ms; clock_mono(&wall) < end;)
        if (loop_turn(loop, TICK_MS, NULL) < 0)
            return;
}

static void begin_measuring(void)
{
    last_tick = clock_mono(&wall);
    longest_gap = 0;
    ended = 0;
}

static void test_silence(int name_server)
{
    struct http_req r[4];
    struct pollfd asked = { .fd = name_server, .events = POLLIN };
    struct transport *t = open_transport(CONNECT_MS);

    begin_measuring();
    for (size_t i = 0; i < ARRAY_LEN(r); i++)
        start(t, &r[i]);
    for (int64_t end = clock_mono(&wall) + 30000; ended < 4 && clock_mono(&wall) < end;)
        turn_for(TICK_MS);
    is_int(ended, 4, "a name server that does not answer: the requests end");
    is_int(last_err.cls, E_OFFLINE, "offline: %s", last_err.msg);
    has_str(last_err.msg, "name server", "saying where to look");
    ok(longest_gap < BLOCKED_MS, "timers went on, the longest gap was %d ms", (int)longest_gap);
    is_int(poll(&asked, 1, 0), 1, "the name server had been asked");

    begin_measuring();
    start(t, &r[0]);
    turn_for(200);
    http_cancel(t, &r[0]);
    turn_for(TICK_MS);
    ok(longest_gap < BLOCKED_MS, "taken back while resolving: %d ms", (int)longest_gap);

    begin_measuring();
    start(t, &r[0]);
    turn_for(200);
    http_condemn(t);
    turn_for(2 * TICK_MS);
    is_int(ended, 1, "condemned while resolving");
    ok(longest_gap < BLOCKED_MS, "without waiting: %d ms", (int)longest_gap);

    begin_measuring();
    start(t, &r[0]);
    turn_for(200);
    transport_free(t);
    turn_for(TICK_MS);
    ok(longest_gap < BLOCKED_MS, "freed while resolving: %d ms", (int)longest_gap);
}

int main(void)
{
    struct loop_backend *b;
    struct timer tick;

    if (unshare(CLONE_NEWNET | CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || !use_own_resolv_conf()) {
        skip("namespaces need root");
        return done_testing();
    }
    int name_server = open_name_server();
    if (!raise_loopback() || name_server < 0) {
        fail("a silent name server");
        return done_testing();
    }
    clock_real_init(&wall);
    if (loop_backend_epoll(&b, NULL) < 0 || loop_new(&loop, &wall, b, NULL) < 0)
        return 1;
    timer_init(&tick, on_tick);
    timer_in(loop, &tick, TICK_MS);
    test_silence(name_server);
    timer_cancel(loop, &tick);
    loop_free(loop);
    return done_testing();
}
