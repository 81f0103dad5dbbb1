// SPDX-License-Identifier: Apache-2.0
// curl's sockets and time on our loop. We open the sockets ourselves, so that the bytes on them can be counted by asking the kernel.
#include <arpa/inet.h>
#include <linux/tcp.h> // struct tcp_info of glibc lacks the byte counts
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "wire/http_curl.h"

enum {
    UNACKED_MAX_MS = 30000, // sent and not acknowledged for that long: the connection is dead (keepalive only looks at idle ones)
    IDLE_CONNECTIONS = 4,
    CONNECTIONS_MAX = 64,  // HTTP/1.1 needs one for each watch
    STATE_ESTABLISHED = 1, // of tcpi_state; linux/tcp.h has no name for it
};

// A descriptor that curl wants watched.
struct sock {
    struct list link;
    struct loop_fd node;
    struct curl_transport *t;
};

// A socket we opened for curl, until curl closes it.
struct conn {
    struct list link;
    int fd;
};

// --- descriptors and bytes -------------------------------------------------------------------------------------------------------

// True when there was a connection, not only an attempt.
static bool add_wire_bytes(int fd, struct http_stats *s)
{
    struct tcp_info ti = { 0 };
    socklen_t len = sizeof ti;

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &ti, &len) < 0)
        return false;
    s->bytes_in += ti.tcpi_bytes_received;
    s->bytes_out += ti.tcpi_bytes_acked;
    return ti.tcpi_state == STATE_ESTABLISHED || ti.tcpi_bytes_received > 0;
}

void http_wire_bytes(const struct curl_transport *t, struct http_stats *s)
{
    list_each(it, &t->conns)
        (void)add_wire_bytes(container_of(it, struct conn, link)->fd, s);
}

static void note_address(struct curl_transport *t, const struct curl_sockaddr *a)
{
    char text[INET6_ADDRSTRLEN] = "";

    if (a->family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)&a->addr)->sin_addr, text, sizeof text);
    else if (a->family == AF_INET6)
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)&a->addr)->sin6_addr, text, sizeof text);
    memcpy(t->address, text, sizeof text);
}

curl_socket_t http_open_socket(void *ctx, curlsocktype purpose UNUSED, struct curl_sockaddr *a)
{
    struct xfer *x = ctx;
    struct curl_transport *t = x->t;
    AUTO_FREE struct conn *c = calloc(1, sizeof *c);
    int unacked_ms = UNACKED_MAX_MS;

    if (c == NULL)
        return CURL_SOCKET_BAD;
    c->fd = socket(a->family, a->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->protocol);
    if (c->fd < 0)
        return CURL_SOCKET_BAD;
    note_address(t, a);
    x->handshakes = 0;
    // Only makes the discovery of a dead connection faster, so a kernel without it is good enough.
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacked_ms, sizeof unacked_ms);
    t->stats.connections++;
    t->resolved = true;
    int fd = c->fd;
    list_add_tail(&t->conns, &steal(c)->link);
    return fd;
}

int http_close_socket(void *ctx, curl_socket_t fd)
{
    struct curl_transport *t = ctx;

    list_each_safe(it, tmp, &t->conns) {
        struct conn *c = container_of(it, struct conn, link);
        if (c->fd != fd)
            continue;
        t->connected = add_wire_bytes(fd, &t->stats);
        list_del(&c->link);
        free(c);
    }
    return close(fd);
}

static void on_ready(struct loop_fd *f, unsigned events)
{
    struct sock *s = container_of(f, struct sock, node);
    int what = ((events & LOOP_IN) ? CURL_CSELECT_IN : 0) | ((events & LOOP_OUT) ? CURL_CSELECT_OUT : 0);

    http_drive(s->t, f->fd, what);
}

static void sock_free(struct sock *s)
{
    loop_fd_del(s->t->loop, &s->node);
    list_del(&s->link);
    free(s);
}

static struct sock *sock_new(struct curl_transport *t, int fd, unsigned events)
{
    struct sock *s = calloc(1, sizeof *s);

    if (s == NULL)
        return NULL;
    s->t = t;
    if (loop_fd_add(t->loop, &s->node, fd, events, on_ready, NULL) < 0) {
        free(s);
        return NULL;
    }
    list_add_tail(&t->socks, &s->link);
    return s;
}

// curl's CURLMOPT_SOCKETFUNCTION. -1 makes curl give up every transfer it has, which is what no memory for a node comes to.
static int watch_socket(CURL *easy UNUSED, curl_socket_t fd, int what, void *ctx, void *known)
{
    struct curl_transport *t = ctx;
    struct sock *s = known;
    unsigned events = ((what & CURL_POLL_IN) ? LOOP_IN : 0u) | ((what & CURL_POLL_OUT) ? LOOP_OUT : 0u);

    if (what == CURL_POLL_REMOVE) {
        if (s != NULL)
            sock_free(s);
        return 0;
    }
    if (s != NULL)
        return loop_fd_mod(t->loop, &s->node, events, NULL) < 0 ? -1 : 0;
    s = sock_new(t, fd, events);
    if (s == NULL)
        return -1;
    curl_multi_assign(t->multi, fd, s);
    return 0;
}

static int watch_time(CURLM *multi UNUSED, long ms, void *ctx)
{
    struct curl_transport *t = ctx;

    timer_set(t->loop, &t->clockwork, ms < 0 ? PARKED : loop_now(t->loop) + ms);
    return 0;
}

// --- the multi handle ------------------------------------------------------------------------------------------------------------

int http_need_multi(struct curl_transport *t, struct err *e)
{
    if (t->multi != NULL)
        return 0;
    t->multi = curl_multi_init();
    if (t->multi == NULL)
        return err_set(e, E_NOMEM, "no memory for the HTTP client");
    curl_multi_setopt(t->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
    curl_multi_setopt(t->multi, CURLMOPT_SOCKETDATA, t);
    curl_multi_setopt(t->multi, CURLMOPT_TIMERFUNCTION, watch_time);
    curl_multi_setopt(t->multi, CURLMOPT_TIMERDATA, t);
    curl_multi_setopt(t->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_MULTIPLEX);
    curl_multi_setopt(t->multi, CURLMOPT_MAXCONNECTS, (long)IDLE_CONNECTIONS);
    curl_multi_setopt(t->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)CONNECTIONS_MAX);
    return 0;
}

void http_drop_multi(struct curl_transport *t)
{
    if (t->multi == NULL)
        return;
    curl_multi_cleanup(t->multi);
    t->multi = NULL;
    timer_set(t->loop, &t->clockwork, PARKED);
    list_each_safe(it, tmp, &t->socks)
        sock_free(container_of(it, struct sock, link));
}
