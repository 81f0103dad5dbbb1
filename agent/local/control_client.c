// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "data/object.h"
#include "local/local.h"

static int dial(const struct config *c, struct err *e)
{
    struct sockaddr_un sa = { .sun_family = AF_UNIX };
    int n = snprintf(sa.sun_path, sizeof(sa.sun_path), "%s%s/control.sock", c->port_root != NULL ? c->port_root : "", c->run_dir);
    if (n < 0 || (size_t)n >= sizeof(sa.sun_path))
        return err_set(e, E_INVAL, "[paths] run is too long for a socket");
    int fd AUTO_CLOSE = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_sys(e, errno, "socket");
    if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0)
        return steal_fd(&fd);
    if (errno == EACCES)
        return err_set(e, E_FORBIDDEN, "%s: permission denied; be root or in the group %s", sa.sun_path, c->control_group);
    return err_set(e, E_OFFLINE, "no agent runs here (%s: %s)", sa.sun_path, strerror(errno));
}

static int send_all(int fd, const char *p, size_t n, struct err *e)
{
    while (n > 0) {
        ssize_t w = send(fd, p, n, MSG_NOSIGNAL);
        if (w < 0 && errno != EINTR)
            return err_sys(e, errno, "asking the agent");
        if (w > 0) {
            p += w;
            n -= (size_t)w;
        }
    }
    return 0;
}

static int set_patience(int fd, int64_t ms, struct err *e)
{
    struct timeval t = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
    if (ms == 0 ||
        (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)) == 0 && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)) == 0))
        return 0;
    return err_sys(e, errno, "socket");
}

static int heard_nothing(int sys, struct err *e)
{
    return sys == EAGAIN ? err_set(e, E_TIMEOUT, "the agent says nothing") : err_sys(e, sys, "hearing from the agent");
}

int control_lock_free(const struct config *c, struct err *e)
{
    char path[512];
    snprintf(path, sizeof(path), "%s%s/agent.lock", c->port_root != NULL ? c->port_root : "", c->run_dir);
    int fd AUTO_CLOSE = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return 0;
    return err_set(e, E_BUSY, "%s is locked", path);
}

int control_ask(const struct config *c, const char *request, int64_t patience_ms, int (*line)(void *ctx, const char *json, size_t len),
                void *ctx, struct err *e)
{
    char piece[16384];
    struct line_splitter s;
    int fd AUTO_CLOSE = dial(c, e);
    int rc = fd < 0 ? fd : set_patience(fd, patience_ms, e);
    if (rc == 0)
        rc = send_all(fd, request, strlen(request), e);
    if (rc == 0)
        rc = send_all(fd, "\n", 1, e);
    line_splitter_init(&s, 4 * 1024 * 1024, line, ctx);
    while (rc == 0) {
        ssize_t n = recv(fd, piece, sizeof(piece), 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = heard_nothing(errno, e);
        if (n <= 0)
            break;
        rc = line_splitter_feed(&s, piece, (size_t)n, e);
    }
    line_splitter_fini(&s);
    return rc;
}
