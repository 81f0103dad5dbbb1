// SPDX-License-Identifier: Apache-2.0
#include "local/web.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/num.h"
#include "config/options.h"

#if OPT_METRICS
#include <microhttpd.h>

enum { CONNECTIONS = 8, CONNECTION_MEMORY = 8192, PATIENCE_S = 10, ANSWER_MAX = 1 << 20 };

struct web {
    struct loop *loop;
    struct MHD_Daemon *daemon;
    struct loop_fd fd; // the library's epoll descriptor
    struct timer due;
    web_answer *answer;
    void *ctx;
};

// --- Requests

// Takes the buffer's memory.
static enum MHD_Result send_text(struct MHD_Connection *c, unsigned status, struct buf *text, const char *type)
{
    size_t n = text->len;
    struct MHD_Response *r =
        n > 0 ? MHD_create_response_from_buffer_with_free_callback(n, text->data, free) : MHD_create_response_from_buffer_static(0, "");
    if (r == NULL)
        return MHD_NO;
    if (n > 0)
        buf_init(text, 0);
    enum MHD_Result ok = MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (ok == MHD_YES)
        ok = MHD_queue_response(c, status, r);
    MHD_destroy_response(r);
    return ok;
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *c, const char *path, const char *method, const char *version,
                                  const char *upload, size_t *upload_size, void **req_ctx)
{
    static int seen;
    struct web *w = ctx;
    struct buf out AUTO_BUF = BUF_INIT(ANSWER_MAX);
    const char *type = "text/plain; charset=utf-8";
    (void)version;
    (void)upload;
    if (*req_ctx == NULL) { // the head alone is here; the library calls again when all of it is
        *req_ctx = &seen;
        return MHD_YES;
    }
    if (*upload_size > 0) { // nobody wants it
        *upload_size = 0;
        return MHD_YES;
    }
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return send_text(c, MHD_HTTP_METHOD_NOT_ALLOWED, &out, type);
    bool verbose = MHD_lookup_connection_value_n(c, MHD_GET_ARGUMENT_KIND, "verbose", 7, NULL, NULL) == MHD_YES;
    int status = w->answer(w->ctx, path, verbose, &out, &type);
    return send_text(c, (unsigned)status, &out, type);
}

// --- The library on the loop

static void turn(struct web *w)
{
    uint64_t ms = 0;
    (void)MHD_run(w->daemon);
    if (MHD_get_timeout64(w->daemon, &ms) != MHD_YES)
        timer_cancel(w->loop, &w->due);
    else if (timer_in(w->loop, &w->due, (int64_t)MIN(ms, UINT64_C(3600000))) < 0)
        log_error("web", "no-timer");
}

static void on_ready(struct loop_fd *f, unsigned events)
{
    (void)events;
    turn(container_of(f, struct web, fd));
}

static void on_due(struct timer *t)
{
    turn(container_of(t, struct web, due));
}

// --- The address

union address {
    struct sockaddr sa;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static bool parse_host(union address *a, char *host, uint16_t port)
{
    size_t n = strlen(host);
    if (n == 0)
        a->v6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_ANY_INIT };
    else if (host[0] == '[' && host[n - 1] == ']') {
        host[n - 1] = '\0';
        a->v6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(port) };
        return inet_pton(AF_INET6, host + 1, &a->v6.sin6_addr) == 1;
    } else {
        a->v4 = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port) };
        return inet_pton(AF_INET, host, &a->v4.sin_addr) == 1;
    }
    return true;
}

static int parse_address(union address *a, const char *listen_on, struct err *e)
{
    char host[80];
    const char *colon = strrchr(listen_on, ':');
    int64_t port = 0;
    if (colon == NULL || (size_t)(colon - listen_on) >= sizeof(host) || num_i64(colon + 1, 1, 65535, &port, e) < 0)
        return err_set(e, E_INVAL, "\"%.80s\" is no ADDRESS:PORT", listen_on);
    snprintf(host, sizeof(host), "%.*s", (int)(colon - listen_on), listen_on);
    if (!parse_host(a, host, (uint16_t)port))
        return err_set(e, E_INVAL, "\"%.80s\": the address must be numeric, and in brackets for IPv6", listen_on);
    return 0;
}

// --- Start and stop

// Ours and not the library's, which does not tell why it could not.
static int open_socket(int *out, const union address *a, const char *listen_on, struct err *e)
{
    const int on = 1;
    bool is_v6 = a->sa.sa_family == AF_INET6, any = is_v6 && IN6_IS_ADDR_UNSPECIFIED(&a->v6.sin6_addr);
    int fd AUTO_CLOSE = socket(a->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), v6_only = !any;
    if (fd < 0)
        return err_sys(e, errno, "socket for %s", listen_on);
    bool made = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
                (!is_v6 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof(v6_only)) == 0) &&
                bind(fd, &a->sa, is_v6 ? sizeof(a->v6) : sizeof(a->v4)) == 0 && listen(fd, CONNECTIONS) == 0;
    if (!made && errno == EADDRINUSE)
        return err_set(e, E_BUSY, "%s: somebody else listens there", listen_on);
    if (!made)
        return err_sys(e, errno, "listening on %s", listen_on);
    *out = steal_fd(&fd);
    return 0;
}

static int start_daemon(struct web *w, const union address *a, const char *listen_on, struct err *e)
{
    int fd = -1;
    int rc = open_socket(&fd, a, listen_on, e);
    if (rc < 0)
        return rc;
    w->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_THREAD_SAFETY, 0, NULL, NULL, on_request, w, MHD_OPTION_LISTEN_SOCKET, fd,
                                 MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                                 (size_t)CONNECTION_MEMORY, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)PATIENCE_S, MHD_OPTION_END);
    if (w->daemon == NULL) {
        close(fd);
        return err_set(e, E_NOMEM, "the server on %s does not start", listen_on);
    }
    const union MHD_DaemonInfo *i = MHD_get_daemon_info(w->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    return i != NULL ? loop_fd_add(w->loop, &w->fd, i->epoll_fd, LOOP_IN, on_ready, e) : err_set(e, E_UNSUP, "no epoll");
}

int web_start(struct web **out, struct loop *l, const char *listen_on, web_answer *answer, void *ctx, struct err *e)
{
    union address a = { 0 };
    int rc = parse_address(&a, listen_on, e);
    if (rc < 0)
        return rc;
    struct web *w = calloc(1, sizeof(*w));
    if (w == NULL)
        return err_set(e, E_NOMEM, "web");
    w->loop = l;
    w->answer = answer;
    w->ctx = ctx;
    timer_init(&w->due, on_due);
    rc = start_daemon(w, &a, listen_on, e);
    if (rc < 0) {
        web_stop(w);
        return rc;
    }
    turn(w);
    *out = w;
    return 0;
}

void web_stop(struct web *w)
{
    if (w == NULL)
        return;
    loop_fd_del(w->loop, &w->fd);
    timer_cancel(w->loop, &w->due);
    if (w->daemon != NULL)
        MHD_stop_daemon(w->daemon);
    free(w);
}

#else

int web_start(struct web **out, struct loop *l, const char *listen_on, web_answer *answer, void *ctx, struct err *e)
{
    (void)out, (void)l, (void)answer, (void)ctx;
    return err_set(e, E_UNSUP, "%s: this limpet was built without metrics (OPT_METRICS=0)", listen_on);
}

void web_stop(struct web *w)
{
    (void)w;
}

#endif
