// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <sys/epoll.h>

#include "base/loop.h"

enum { BATCH = 64 };

struct epoll_backend {
    struct loop_backend base;
    int epfd;
    // The batch being dispatched. A descriptor removed meanwhile is cleared from it: its node may be gone.
    struct epoll_event batch[BATCH];
    int batch_at, batch_len;
};

static struct epoll_backend *self(struct loop_backend *b)
{
    return container_of(b, struct epoll_backend, base);
}

static int ep_fd_set(struct loop_backend *b, struct loop_fd *f, struct err *e)
{
    struct epoll_event ev = { .data.ptr = f };
    if (f->events & LOOP_IN)
        ev.events |= EPOLLIN;
    if (f->events & LOOP_OUT)
        ev.events |= EPOLLOUT;
    // epoll reports a hang-up even to those who asked for nothing, turn after turn: such a descriptor is taken out.
    if (f->events == 0) {
        b->fd_del(b, f);
        return 0;
    }
    if (f->added && epoll_ctl(self(b)->epfd, EPOLL_CTL_MOD, f->fd, &ev) == 0)
        return 0;
    if (f->added && errno != ENOENT)
        return err_sys(e, errno, "changing the watch of descriptor %d", f->fd);
    if (epoll_ctl(self(b)->epfd, EPOLL_CTL_ADD, f->fd, &ev) != 0)
        return err_sys(e, errno, "watching descriptor %d", f->fd);
    return 0;
}

static void ep_fd_del(struct loop_backend *b, struct loop_fd *f)
{
    struct epoll_backend *ep = self(b);
    epoll_ctl(ep->epfd, EPOLL_CTL_DEL, f->fd, NULL); // fails when it was watched for nothing
    for (int i = ep->batch_at; i < ep->batch_len; i++)
        if (ep->batch[i].data.ptr == f)
            ep->batch[i].data.ptr = NULL;
}

// What the node asks for now, which an earlier callback of this batch may have changed.
static unsigned wanted(const struct loop_fd *f, uint32_t got)
{
    unsigned events = 0;
    if (got & EPOLLIN)
        events |= LOOP_IN;
    if (got & EPOLLOUT)
        events |= LOOP_OUT;
    events &= f->events;
    if (got & (EPOLLERR | EPOLLHUP))
        events |= LOOP_IN;
    return events;
}

static int ep_wait(struct loop_backend *b, struct loop *l, int64_t timeout_ms, struct err *e)
{
    struct epoll_backend *ep = self(b);
    int timeout = timeout_ms < 0 ? -1 : (int)MIN(timeout_ms, INT32_MAX);
    int n = epoll_wait(ep->epfd, ep->batch, BATCH, timeout);
    if (n < 0 && errno != EINTR)
        return err_sys(e, errno, "waiting for events");
    ep->batch_len = MAX(n, 0);
    for (ep->batch_at = 0; ep->batch_at < ep->batch_len; ep->batch_at++) {
        struct epoll_event *ev = &ep->batch[ep->batch_at];
        struct loop_fd *f = ev->data.ptr;
        if (f != NULL)
            loop_dispatch_fd(l, f, wanted(f, ev->events));
    }
    ep->batch_at = ep->batch_len = 0;
    return 0;
}

static void ep_free(struct loop_backend *b)
{
    close(self(b)->epfd);
    free(self(b));
}

int loop_backend_epoll(struct loop_backend **out, struct err *e)
{
    struct epoll_backend *ep = calloc(1, sizeof(*ep));
    if (ep == NULL)
        return err_set(e, E_NOMEM, "no memory for the loop");
    ep->epfd = epoll_create1(EPOLL_CLOEXEC);
    if (ep->epfd < 0) {
        int r = err_sys(e, errno, "creating the event queue");
        free(ep);
        return r;
    }
    ep->base = (struct loop_backend){ ep_fd_set, ep_fd_del, ep_wait, ep_free };
    *out = &ep->base;
    return 0;
}
