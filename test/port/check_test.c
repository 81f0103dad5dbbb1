// SPDX-License-Identifier: Apache-2.0
// Checks against servers of this program: each listener gets one behaviour and lives in the same loop.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "port/check.h"
#include "port/hosts.h"
#include "rig.h"
#include "tap.h"

// --- a server

struct server {
    struct rig *rig;
    struct loop_fd listener, conn; // one connection at a time is enough
    const char *answer;            // NULL: says nothing; sent once the request is there
    bool hang_up;                  // closes without a word
    int port;
    char request[2048];
    size_t got;
};

static void on_conn(struct loop_fd *f, unsigned events UNUSED)
{
    struct server *s = container_of(f, struct server, conn);
    ssize_t n = read(f->fd, s->request + s->got, sizeof(s->request) - 1 - s->got);
    s->got += n > 0 ? (size_t)n : 0;
    s->request[s->got] = '\0';
    bool whole = strstr(s->request, "\r\n\r\n") != NULL;
    if (whole && s->answer != NULL)
        (void)!write(f->fd, s->answer, strlen(s->answer));
    if (n <= 0 || (whole && s->answer != NULL)) {
        loop_fd_del(s->rig->loop, f);
        close(f->fd);
        f->fd = -1;
    }
}

static void on_listener(struct loop_fd *f, unsigned events UNUSED)
{
    struct server *s = container_of(f, struct server, listener);
    struct err e = ERR_INIT;
    int fd = accept4(f->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    if (s->hang_up || s->conn.fd >= 0 || loop_fd_add(s->rig->loop, &s->conn, fd, LOOP_IN, on_conn, &e) != 0)
        close(fd);
    s->got = 0;
}

static bool server_start(struct server *s, struct rig *r, const char *answer)
{
    struct err e = ERR_INIT;
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(a);
    *s = (struct server){ .rig = r, .answer = answer, .conn.fd = -1 };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&a, sizeof(a)) != 0 || listen(fd, 16) != 0 || getsockname(fd, (struct sockaddr *)&a, &len) != 0)
        return false;
    s->port = ntohs(a.sin_port);
    return loop_fd_add(r->loop, &s->listener, fd, LOOP_IN, on_listener, &e) == 0;
}

static void server_stop(struct server *s)
{
    loop_fd_del(s->rig->loop, &s->conn);
    if (s->conn.fd >= 0)
        close(s->conn.fd);
    loop_fd_del(s->rig->loop, &s->listener);
    close(s->listener.fd);
}

// --- a check

struct probe {
    struct port_check check;
    struct rig *rig;
    unsigned done;
    bool inside, failed;
    struct err err;
};

static void on_done(struct port_check *c, const struct err *e)
{
    struct probe *p = container_of(c, struct probe, check);
    p->done++;
    p->inside = p->inside || p->rig->inside;
    p->failed = e != NULL;
    if (e != NULL)
        p->err = *e;
}

static int begin(struct rig *r, struct probe *p, bool http, const char *host, int port, const char *path)
{
    struct err e = ERR_INIT;
    int64_t timeout_ms = p->check.timeout_ms > 0 ? p->check.timeout_ms : 20 * 1000;
    *p = (struct probe){ .rig = r,
                         .check = { .http = http, .host = host, .port = port, .path = path, .timeout_ms = timeout_ms, .done = on_done } };
    r->inside = true;
    int rc = r->port->ops->check(r->port, &p->check, &e);
    r->inside = false;
    return rc;
}

static bool is_done(struct rig *r UNUSED, void *ctx)
{
    return ((struct probe *)ctx)->done > 0;
}

static void check(struct rig *r, struct probe *p, bool http, const char *host, int port, const char *path)
{
    is_int(begin(r, p, http, host, port, path), 0, "%s:%d%s is accepted", host, port, path != NULL ? path : "");
    ok(rig_until(r, is_done, p), "is answered");
    is_int(p->done, 1, "once");
    ok(!p->inside, "and not from inside the call");
}

// A port on which nobody listens: one that was just given back.
static int free_port(struct rig *r)
{
    struct server s;
    if (!server_start(&s, r, NULL))
        return 1;
    server_stop(&s);
    return s.port;
}

// --- cases

static void tcp(struct rig *r)
{
    struct server s;
    struct probe p = { .done = 0 };
    ok(server_start(&s, r, NULL), "a server");
    check(r, &p, false, "127.0.0.1", s.port, NULL);
    ok(!p.failed, "TCP: who listens answers");
    p.done = 0;
    check(r, &p, false, "localhost", s.port, NULL);
    ok(!p.failed, "TCP: by the name localhost");
    server_stop(&s);
    check(r, &p, false, "127.0.0.1", free_port(r), NULL);
    ok(p.failed && p.err.sys == ECONNREFUSED && p.err.cls == E_OFFLINE, "TCP: refused");
}

static void http_status(struct rig *r)
{
    static const struct {
        const char *line;
        int status;
        bool yes;
    } table[] = {
        { "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, true },
        { "HTTP/1.0 204 No Content\r\n\r\n", 204, true },
        { "HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n", 302, true },
        { "HTTP/1.1 399 \r\n\r\n", 399, true },
        { "HTTP/1.1 200\r\n\r\n", 200, true },
        { "HTTP/1.1 200\n", 200, true },
        { "HTTP/1.1 404 Not Found\r\n\r\n", 404, false },
        { "HTTP/1.1 500 Oops\r\n\r\n", 500, false },
        { "HTTP/1.1 199 Hm\r\n\r\n", 199, false },
        { "HTTP/2 200\r\n\r\n", 0, false },
        { "HTTP/1.1 2000 OK\r\n\r\n", 0, false },
        { "HTTP/1.1 20 OK\r\n\r\n", 0, false },
        { "HTTP/1.1  200 OK\r\n\r\n", 0, false },
        { "HTTP/1.1 -20 OK\r\n\r\n", 0, false },
        { "SSH-2.0-OpenSSH_9.2p1\r\n", 0, false },
        { "\r\n", 0, false },
        { "HTTP/1.", 0, false },
        { "", 0, false },
    };
    for (size_t k = 0; k < ARRAY_LEN(table); k++) {
        struct server s;
        struct probe p = { .done = 0 };
        ok(server_start(&s, r, table[k].line), "a server");
        check(r, &p, true, "127.0.0.1", s.port, "/healthz?x=1");
        is_int(p.check.status, table[k].status, "status %d", table[k].status);
        ok(p.failed != table[k].yes, "is a %s", table[k].yes ? "yes" : "no");
        if (table[k].status > 0 && p.failed)
            is_int(p.err.http, table[k].status, "the error carries the status");
        if (k == 0) {
            char host[64];
            snprintf(host, sizeof(host), "\r\nHost: 127.0.0.1:%d\r\n", s.port);
            ok(strncmp(s.request, "GET /healthz?x=1 HTTP/1.1\r\n", 27) == 0, "asks for the path");
            has_str(s.request, host, "names the host");
            has_str(s.request, "\r\nConnection: close\r\n", "once");
        }
        server_stop(&s);
    }
}

static void http_refused_and_silent(struct rig *r)
{
    struct server s;
    struct probe p = { .done = 0 };
    check(r, &p, true, "127.0.0.1", free_port(r), "/");
    ok(p.failed && p.err.cls == E_OFFLINE, "HTTP: refused");
    ok(server_start(&s, r, NULL), "a server that says nothing");
    p = (struct probe){ .check.timeout_ms = 150 };
    rig_turns(r, 1); // timers count from the turn's time
    int64_t begin_ms = clock_mono(&r->clock);
    check(r, &p, true, "127.0.0.1", s.port, "/");
    ok(p.failed && p.err.cls == E_TIMEOUT, "HTTP: no answer is E_TIMEOUT");
    ok(clock_mono(&r->clock) - begin_ms >= 149, "not before its time");
    s.hang_up = true;
    p = (struct probe){ .done = 0 };
    check(r, &p, true, "127.0.0.1", s.port, "/");
    ok(p.failed && p.err.cls == E_OFFLINE, "HTTP: closed without a word");
    server_stop(&s);
}

// 192.0.2.0/24 is for documentation: a route may or may not exist, an answer never comes.
static void cannot_connect(struct rig *r)
{
    struct probe p = { .check.timeout_ms = 200 };
    check(r, &p, false, "192.0.2.1", 9, NULL);
    ok(p.failed && (p.err.cls == E_TIMEOUT || p.err.cls == E_OFFLINE), "TCP: no connection");
}

static void endless_header(struct rig *r)
{
    static char line[8192];
    struct server s;
    struct probe p = { .done = 0 };
    memset(line, 'x', sizeof(line) - 1);
    memcpy(line, "HTTP/1.1 200 ", 13);
    ok(server_start(&s, r, line), "a server with an endless status line");
    check(r, &p, true, "127.0.0.1", s.port, NULL);
    ok(p.failed && p.err.cls == E_CORRUPT, "is cut off");
    server_stop(&s);
}

static void refuses(struct rig *r)
{
    struct probe p = { .done = 0 };
    is_int(begin(r, &p, true, "127.0.0.1", 80, "/a\r\nX: y"), E_INVAL, "a path with a line break");
    is_int(begin(r, &p, true, "127.0.0.1", 80, "/a b"), E_INVAL, "a path with a blank");
    is_int(begin(r, &p, false, "127.0.0.1", 0, NULL), E_INVAL, "port 0");
    is_int(begin(r, &p, false, "127.0.0.1", 65536, NULL), E_INVAL, "port 65536");
    is_int(begin(r, &p, false, "name.that.is.nowhere.invalid", 80, NULL), E_INVAL, "a name that is not in /etc/hosts");
    is_int(begin(r, &p, false, NULL, 80, NULL), E_INVAL, "no host");
    rig_turns(r, 2);
    is_int(p.done, 0, "are refused by the call, not told besides");
}

static void cancelled(struct rig *r)
{
    struct server s;
    struct probe p = { .check.timeout_ms = 100 }, q = { .done = 0 };
    ok(server_start(&s, r, NULL), "a server that says nothing");
    is_int(begin(r, &p, true, "127.0.0.1", s.port, "/"), 0, "a check");
    r->port->ops->check_cancel(r->port, &p.check);
    r->port->ops->check_cancel(r->port, &p.check);
    q.check.timeout_ms = 300;
    check(r, &q, true, "127.0.0.1", s.port, "/");
    is_int(p.done, 0, "who was cancelled is not told");
    server_stop(&s);
}

static bool all_done(struct rig *r UNUSED, void *ctx)
{
    struct probe *p = ctx;
    for (int k = 0; k < PORT_CHECKS_MAX; k++)
        if (p[k].done == 0)
            return false;
    return true;
}

static void many(struct rig *r)
{
    static struct probe p[PORT_CHECKS_MAX + 1];
    struct server s;
    int failed = 0;
    memset(p, 0, sizeof(p));
    ok(server_start(&s, r, NULL), "a server");
    for (int k = 0; k < PORT_CHECKS_MAX; k++)
        failed += begin(r, &p[k], false, "127.0.0.1", s.port, NULL) != 0;
    is_int(failed, 0, "as many at once as there may be");
    is_int(begin(r, &p[PORT_CHECKS_MAX], false, "127.0.0.1", s.port, NULL), E_BUSY, "one more is refused");
    ok(rig_until(r, all_done, p), "all are answered");
    for (int k = 0; k < PORT_CHECKS_MAX; k++)
        failed += p[k].failed;
    is_int(failed, 0, "with yes");
    server_stop(&s);
}

static void pretended(const char *name)
{
    struct rig r;
    struct probe p = { .done = 0 };
    if (!ok(rig_init(&r, name), "%s: is made", name))
        return;
    check(&r, &p, true, "127.0.0.1", 1, "/");
    ok(!p.failed, "%s: says yes", name);
    if (strcmp(name, "fake") == 0) {
        port_fake_behave(r.port, NULL, &(struct fake_behaviour){ .run_ms = -1, .check_ok = false });
        check(&r, &p, true, "127.0.0.1", 1, "/");
        ok(p.failed, "%s: says no when told to", name);
    }
    is_int(begin(&r, &p, false, "127.0.0.1", 0, NULL), E_INVAL, "%s: port 0", name);
    rig_fini(&r);
}

static void hosts(void)
{
    struct host_addr a[HOST_ADDRS_MAX];
    is_int(host_find("::1", 80, a), 1, "an IPv6 address");
    is_int(a[0].sa.ss_family, AF_INET6, "its family");
    is_int(host_find("127.0.0.1", 80, a), 1, "an IPv4 address");
    is_int(ntohs(((struct sockaddr_in *)&a[0].sa)->sin_port), 80, "its port");
    ok(host_find("LOCALHOST", 80, a) >= 1, "names have no case");
    is_int(host_find("127.1", 80, a), 0, "no address in short");
    is_int(host_find("", 80, a), 0, "no name");
}

static void (*const cases[])(struct rig *) = {
    tcp, http_status, http_refused_and_silent, cannot_connect, endless_header, refuses, cancelled, many,
};

int main(int argc, char **argv)
{
    RIG_MAIN(argc, argv);
    hosts();
    pretended("null");
    pretended("fake");
    for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
        struct rig r;
        if (!ok(rig_init(&r, "exec"), "exec: is made"))
            continue;
        cases[k](&r);
        rig_fini(&r);
    }
    return done_testing();
}
