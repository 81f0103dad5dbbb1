// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/log.h"
#include "local/control_priv.h"

enum { FOLLOW_MS = 250 };

static void close_client(struct client *c)
{
    struct control *ctl = c->control;
    if (ctl == NULL)
        return;
    timer_cancel(ctl->loop, &c->timer);
    timer_cancel(ctl->loop, &c->more);
    loop_fd_del(ctl->loop, &c->fd);
    close(c->fd.fd);
    buf_fini(&c->in);
    buf_fini(&c->out);
    c->control = NULL;
}

static void on_impatient(struct timer *t)
{
    close_client(container_of(t, struct client, timer));
}

// False: the client is closed.
static bool patience(struct client *c)
{
    if (timer_in(c->control->loop, &c->timer, CONTROL_PATIENCE_MS) == 0)
        return true;
    close_client(c);
    return false;
}

// What the socket takes now. E_OFFLINE: the client hung up.
static int send_some(struct client *c)
{
    while (c->sent < c->out.len) {
        ssize_t n = send(c->fd.fd, c->out.data + c->sent, c->out.len - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? 0 : E_OFFLINE;
        c->sent += (size_t)n;
    }
    return 0;
}

// Everything was sent: a stream goes on, any other answer is at its end.
static int go_on(struct client *c)
{
    buf_reset(&c->out);
    c->sent = 0;
    if (!c->streaming)
        return c->answered ? E_OFFLINE : 0;
    timer_cancel(c->control->loop, &c->timer);
    return timer_in(c->control->loop, &c->more, 0);
}

// Sends what there is. The client is closed when it hung up, or when everything was said.
static void flush(struct client *c)
{
    struct err e = ERR_INIT;
    size_t sent = c->sent;
    int rc = send_some(c);
    bool all = c->sent == c->out.len;
    if (rc == 0 && c->sent > sent && !patience(c))
        return;
    if (rc == 0 && all)
        rc = go_on(c);
    if (rc == 0)
        rc = loop_fd_mod(c->control->loop, &c->fd, all ? LOOP_IN : LOOP_IN | LOOP_OUT, &e);
    if (rc < 0)
        close_client(c);
}

// Only when everything before was sent: a slow reader costs one piece of memory.
static void on_more(struct timer *t)
{
    struct client *c = container_of(t, struct client, more);
    int rc = control_stream(c);
    if (rc < 0)
        c->streaming = false;
    if (rc != 0)
        flush(c);
    else if (timer_in(c->control->loop, t, FOLLOW_MS) < 0)
        close_client(c);
}

static void answer(struct client *c, size_t len)
{
    c->answered = true;
    if (!patience(c))
        return;
    control_answer(c, buf_str(&c->in), len);
    flush(c);
}

static void on_client(struct loop_fd *f, unsigned events)
{
    struct client *c = container_of(f, struct client, fd);
    struct err e = ERR_INIT;
    char piece[4096];
    if ((events & LOOP_OUT) != 0) {
        flush(c);
        return;
    }
    ssize_t n = recv(f->fd, piece, sizeof(piece), MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        close_client(c);
        return;
    }
    if (n < 0 || c->answered)
        return;
    if (buf_add(&c->in, piece, (size_t)n, &e) < 0) { // over the bound
        c->answered = true;
        control_end(c, &e);
        flush(c);
        return;
    }
    const char *nl = memchr(buf_str(&c->in), '\n', c->in.len);
    if (nl != NULL)
        answer(c, (size_t)(nl - buf_str(&c->in)));
}

// The last free place is kept for those who may change things: readers cannot lock them out.
static struct client *free_slot(struct control *ctl, bool may_change)
{
    struct client *found = NULL;
    size_t n = 0;
    for (size_t i = 0; i < CONTROL_CLIENTS; i++)
        if (ctl->clients[i].control == NULL) {
            found = &ctl->clients[i];
            n++;
        }
    return n > 1 || may_change ? found : NULL;
}

static bool peer_may_change(int fd)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && (peer.uid == 0 || peer.uid == geteuid());
}

static void welcome(struct control *ctl, struct client *c, int fd, bool may_change)
{
    struct err e = ERR_INIT;
    *c = (struct client){ .control = ctl };
    buf_init(&c->in, CONTROL_REQUEST_MAX);
    buf_init(&c->out, CONTROL_ANSWER_MAX);
    timer_init(&c->timer, on_impatient);
    timer_init(&c->more, on_more);
    c->may_change = may_change;
    if (loop_fd_add(ctl->loop, &c->fd, fd, LOOP_IN, on_client, &e) < 0) {
        c->control = NULL;
        close(fd);
        return;
    }
    (void)patience(c);
}

static void on_connect(struct loop_fd *f, unsigned events)
{
    struct control *ctl = container_of(f, struct control, listener);
    static const char busy[] = "{\"error\":\"too many clients\",\"class\":\"Busy\"}\n";
    (void)events;
    int fd = accept4(f->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    bool may_change = peer_may_change(fd);
    struct client *c = free_slot(ctl, may_change);
    if (c != NULL) {
        welcome(ctl, c, fd, may_change);
        return;
    }
    if (send(fd, busy, sizeof(busy) - 1, MSG_NOSIGNAL) < 0)
        log_debug("control", "client-gone");
    close(fd);
}

// Without the group only root can read.
static void hand_to_group(const char *path, const char *group)
{
    const struct group *g = group != NULL ? getgrnam(group) : NULL;
    if (g == NULL)
        log_info("control", "root-only why=\"there is no group %s\"", group != NULL ? group : "");
    else if (chown(path, (uid_t)-1, g->gr_gid) < 0)
        log_warn("control", "no-group-access group=%s", group);
}

static int listen_at(const char *path, const char *group, struct err *e)
{
    struct sockaddr_un sa = { .sun_family = AF_UNIX };
    if (strlen(path) >= sizeof(sa.sun_path))
        return err_set(e, E_INVAL, "%s: longer than %zu bytes; set [paths] run to a shorter one", path, sizeof(sa.sun_path) - 1);
    memcpy(sa.sun_path, path, strlen(path));
    int fd AUTO_CLOSE = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    unlink(path);
    mode_t old = umask(0117); // born 0660
    int rc = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&sa, sizeof(sa));
    umask(old);
    if (rc < 0 || listen(fd, CONTROL_CLIENTS) < 0)
        return err_sys(e, errno, "control socket %s", path);
    hand_to_group(path, group);
    return steal_fd(&fd);
}

int control_start(struct control **out, struct loop *l, const struct config *c, const struct control_conf *conf, struct err *e)
{
    struct control *ctl = calloc(1, sizeof(*ctl));
    if (ctl == NULL)
        return err_set(e, E_NOMEM, "control socket");
    ctl->loop = l;
    ctl->conf = *conf;
    snprintf(ctl->path, sizeof(ctl->path), "%s%s/control.sock", c->port_root != NULL ? c->port_root : "", c->run_dir);
    int fd = listen_at(ctl->path, c->control_group, e);
    int rc = fd < 0 ? fd : loop_fd_add(l, &ctl->listener, fd, LOOP_IN, on_connect, e);
    if (rc < 0) {
        if (fd >= 0)
            close(fd);
        free(ctl);
        return rc;
    }
    *out = ctl;
    return 0;
}

void control_stop(struct control *ctl)
{
    if (ctl == NULL)
        return;
    for (size_t i = 0; i < CONTROL_CLIENTS; i++)
        close_client(&ctl->clients[i]);
    loop_fd_del(ctl->loop, &ctl->listener);
    close(ctl->listener.fd);
    unlink(ctl->path);
    free(ctl);
}
