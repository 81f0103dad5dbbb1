// SPDX-License-Identifier: Apache-2.0
#include "port/check.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "port/hosts.h"

enum {
    ANSWER_MAX = 1024,  // bytes in which the status line must end
    REQUEST_MAX = 2048, // of which the path may have most
    DEFAULT_TIMEOUT_MS = 1000,
};

struct check {
    struct list link;
    struct checks *set;
    struct port_check *c;
    struct host_addr addr[HOST_ADDRS_MAX];
    size_t n_addr, next;        // the next address to try
    struct loop_fd sock;        // fd -1 = none
    struct timer timeout, fail; // fail: tells from the loop what was known at once
    struct err last;            // why the last address did not do
    char *request;              // NULL for TCP
    size_t sent;
    bool connected;
    char answer[ANSWER_MAX];
    size_t got;
};

void checks_init(struct checks *s, struct loop *l)
{
    *s = (struct checks){ .loop = l };
    list_init(&s->all);
}

static void close_socket(struct check *x)
{
    loop_fd_del(x->set->loop, &x->sock);
    if (x->sock.fd >= 0)
        close(x->sock.fd);
    x->sock.fd = -1;
}

static void check_free(struct check *x)
{
    close_socket(x);
    timer_cancel(x->set->loop, &x->timeout);
    timer_cancel(x->set->loop, &x->fail);
    if (list_linked(&x->link)) {
        list_del(&x->link);
        x->set->n--;
    }
    free(x->request);
    free(x);
}

// e NULL: yes. The last thing done: c may be gone afterwards.
static void finish(struct check *x, const struct err *e)
{
    struct port_check *c = x->c;
    struct err why = e != NULL ? *e : ERR_INIT;
    check_free(x);
    c->impl = NULL;
    c->done(c, e != NULL ? &why : NULL);
}

// --- HTTP

// "HTTP/1.1 204 ..." or "HTTP/1.0 ...": the code, 0 when the line is none.
static int status_of(const char *line, size_t n)
{
    static const char digits[] = "0123456789";
    if (n < sizeof("HTTP/1.1 200") - 1 || memcmp(line, "HTTP/1.", 7) != 0 || line[7] == '\0' || strchr("01", line[7]) == NULL ||
        line[8] != ' ')
        return 0;
    if (strspn(line + 9, digits) < 3 || (n > 12 && line[12] != ' ' && line[12] != '\r'))
        return 0;
    return (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
}

static void judge(struct check *x, const char *end)
{
    struct err e = ERR_INIT;
    int status = status_of(x->answer, (size_t)(end - x->answer));
    x->c->status = status;
    if (status >= 200 && status < 400) {
        finish(x, NULL);
        return;
    }
    if (status == 0)
        err_set(&e, E_CORRUPT, "the answer is not HTTP");
    else
        err_set(&e, E_SERVER, "HTTP status %d", status);
    e.http = status;
    finish(x, &e);
}

static void end_without_answer(struct check *x, int errnum)
{
    struct err e = ERR_INIT;
    if (errnum != 0)
        err_sys(&e, errnum, "no answer");
    else if (x->got == sizeof(x->answer) - 1)
        err_set(&e, E_CORRUPT, "the answer has no status line in its first %d bytes", ANSWER_MAX - 1);
    else
        err_set(&e, E_OFFLINE, "the connection was closed without an answer");
    finish(x, &e);
}

static void receive(struct check *x)
{
    ssize_t n = recv(x->sock.fd, x->answer + x->got, sizeof(x->answer) - 1 - x->got, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    int errnum = n < 0 ? errno : 0;
    x->got += n > 0 ? (size_t)n : 0;
    x->answer[x->got] = '\0';
    const char *end = memchr(x->answer, '\n', x->got);
    if (end != NULL)
        judge(x, end);
    else if (n <= 0 || x->got == sizeof(x->answer) - 1)
        end_without_answer(x, errnum);
}

static void transmit(struct check *x)
{
    size_t left = strlen(x->request) - x->sent;
    ssize_t n = send(x->sock.fd, x->request + x->sent, left, MSG_NOSIGNAL);
    struct err e = ERR_INIT;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0) {
        end_without_answer(x, errno);
        return;
    }
    x->sent += (size_t)n;
    if (x->sent == strlen(x->request) && loop_fd_mod(x->set->loop, &x->sock, LOOP_IN, &e) != 0)
        finish(x, &e);
}

static int make_request(struct check *x, struct err *e)
{
    const struct port_check *c = x->c;
    const char *path = c->path != NULL && c->path[0] != '\0' ? c->path : "/";
    bool v6 = strchr(c->host, ':') != NULL;
    for (const char *p = path; *p != '\0'; p++)
        if ((unsigned char)*p <= ' ' || *p == 0x7f)
            return err_set(e, E_INVAL, "path: has a blank or a control character");
    int n = asprintf(&x->request,
                     "GET %s%s HTTP/1.1\r\nHost: %s%s%s:%d\r\nUser-Agent: limpet-probe\r\nAccept: */*\r\nConnection: close\r\n\r\n",
                     path[0] == '/' ? "" : "/", path, v6 ? "[" : "", c->host, v6 ? "]" : "", c->port);
    if (n < 0) {
        x->request = NULL;
        return err_set(e, E_NOMEM, "no memory for a check");
    }
    return n <= REQUEST_MAX ? 0 : err_set(e, E_INVAL, "path: longer than a check sends");
}

// --- connecting

static void try_next(struct check *x);

static void address_failed(struct check *x, int errnum)
{
    err_sys(&x->last, errnum, "connect");
    close_socket(x);
    try_next(x);
}

static void on_connected(struct check *x)
{
    int errnum = 0;
    socklen_t len = sizeof(errnum);
    if (getsockopt(x->sock.fd, SOL_SOCKET, SO_ERROR, &errnum, &len) != 0)
        errnum = errno;
    if (errnum != 0) {
        address_failed(x, errnum);
        return;
    }
    x->connected = true;
    if (x->request == NULL)
        finish(x, NULL);
    else
        transmit(x);
}

static void on_socket(struct loop_fd *f, unsigned events UNUSED)
{
    struct check *x = container_of(f, struct check, sock);
    if (!x->connected)
        on_connected(x);
    else if (x->sent < strlen(x->request))
        transmit(x);
    else
        receive(x);
}

static int open_socket(struct check *x, const struct host_addr *a)
{
    int fd = socket(a->sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    x->sock.fd = -1;
    if (connect(fd, (const struct sockaddr *)&a->sa, a->len) != 0 && errno != EINPROGRESS) {
        int errnum = errno;
        close(fd);
        return errnum;
    }
    struct err e = ERR_INIT;
    if (loop_fd_add(x->set->loop, &x->sock, fd, LOOP_IN | LOOP_OUT, on_socket, &e) != 0) {
        close(fd);
        x->sock.fd = -1;
        return ENOMEM;
    }
    return 0;
}

// When every address is refused on the spot the answer still comes from the loop, not from inside check_start().
static void try_next(struct check *x)
{
    while (x->next < x->n_addr) {
        int errnum = open_socket(x, &x->addr[x->next++]);
        if (errnum == 0)
            return;
        err_sys(&x->last, errnum, "connect");
    }
    (void)timer_in(x->set->loop, &x->fail, 0); // has room: the time-out's is there; without it, that speaks
}

static void on_fail(struct timer *t)
{
    struct check *x = container_of(t, struct check, fail);
    struct err e = x->last;
    finish(x, &e);
}

static void on_timeout(struct timer *t)
{
    struct check *x = container_of(t, struct check, timeout);
    struct err e = ERR_INIT;
    err_set(&e, E_TIMEOUT, x->connected ? "connected, but no answer in time" : "no connection in time");
    finish(x, &e);
}

// --- the verbs

static int prepare(struct check *x, struct err *e)
{
    const struct port_check *c = x->c;
    if (c->host == NULL || c->port <= 0 || c->port > 65535)
        return err_set(e, E_INVAL, "check: no host, or port %d", c->port);
    x->n_addr = host_find(c->host, (uint16_t)c->port, x->addr);
    if (x->n_addr == 0)
        return err_set(e, E_INVAL, "host %.80s: neither an address nor in /etc/hosts", c->host);
    return c->http ? make_request(x, e) : 0;
}

int check_start(struct checks *s, struct port_check *c, struct err *e)
{
    c->status = 0;
    c->impl = NULL;
    if (s->n >= PORT_CHECKS_MAX)
        return err_set(e, E_BUSY, "%d checks are under way already", PORT_CHECKS_MAX);
    struct check *x = calloc(1, sizeof(*x));
    if (x == NULL)
        return err_set(e, E_NOMEM, "no memory for a check");
    x->set = s;
    x->c = c;
    x->sock.fd = -1;
    timer_init(&x->timeout, on_timeout);
    timer_init(&x->fail, on_fail);
    int r = prepare(x, e);
    if (r == 0 && timer_in(s->loop, &x->timeout, c->timeout_ms > 0 ? c->timeout_ms : DEFAULT_TIMEOUT_MS) != 0)
        r = err_set(e, E_NOMEM, "no memory for a check's deadline");
    if (r != 0) {
        check_free(x);
        return r;
    }
    list_add_tail(&s->all, &x->link);
    s->n++;
    c->impl = x;
    try_next(x);
    return 0;
}

void check_cancel(struct checks *s UNUSED, struct port_check *c)
{
    struct check *x = c->impl;
    c->impl = NULL;
    if (x != NULL)
        check_free(x);
}

void checks_fini(struct checks *s)
{
    list_each_safe(it, next, &s->all) {
        struct check *x = container_of(it, struct check, link);
        x->c->impl = NULL;
        check_free(x);
    }
}
