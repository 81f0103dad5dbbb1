// SPDX-License-Identifier: Apache-2.0
#include "wire/link.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>

enum { READS_A_TURN = 64, MESSAGE_BYTES = 8192 };

// A carrier that comes back is announced without saying what changed, so each announcement of a running link counts.
static bool is_link_up(const struct nlmsghdr *h)
{
    const struct ifinfomsg *m = NLMSG_DATA(h);

    return h->nlmsg_len >= NLMSG_LENGTH(sizeof *m) && (m->ifi_flags & IFF_UP) && (m->ifi_flags & IFF_RUNNING);
}

// Not the kernel's own entries for local and broadcast addresses.
static bool is_way_out(const struct nlmsghdr *h)
{
    const struct rtmsg *m = NLMSG_DATA(h);

    return h->nlmsg_len >= NLMSG_LENGTH(sizeof *m) && m->rtm_type == RTN_UNICAST && m->rtm_table != RT_TABLE_LOCAL;
}

static bool is_hopeful(const struct nlmsghdr *h)
{
    switch (h->nlmsg_type) {
    case RTM_NEWLINK:
        return is_link_up(h);
    case RTM_NEWROUTE:
        return is_way_out(h);
    case RTM_NEWADDR:
        return true;
    default:
        return false;
    }
}

static bool has_hope(const void *data, size_t len)
{
    const char *at = data;

    while (len >= sizeof(struct nlmsghdr)) {
        const struct nlmsghdr *h = (const void *)at;
        if (h->nlmsg_len < sizeof *h || h->nlmsg_len > len)
            return false;
        if (is_hopeful(h))
            return true;
        size_t step = MIN(NLMSG_ALIGN((size_t)h->nlmsg_len), len);
        at += step;
        len -= step;
    }
    return false;
}

static void on_ready(struct loop_fd *f, unsigned events UNUSED)
{
    struct link_watch *w = container_of(f, struct link_watch, fd);
    _Alignas(struct nlmsghdr) char data[MESSAGE_BYTES];
    bool hope = false;

    for (int i = 0; i < READS_A_TURN; i++) {
        ssize_t n = recv(f->fd, data, sizeof data, 0);
        if (n > 0)
            hope |= has_hope(data, (size_t)n);
        else if (n < 0 && errno == ENOBUFS)
            hope = true; // so much happened that some of it was lost
        else if (n == 0 || errno != EINTR)
            break;
    }
    if (hope)
        w->up(w);
}

static int open_socket(int *out, struct err *e)
{
    struct sockaddr_nl addr = {
        .nl_family = AF_NETLINK,
        .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE,
    };
    AUTO_CLOSE int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);

    if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof addr) < 0)
        return err_set(e, E_UNSUP, "rtnetlink: %s", strerror(errno));
    *out = steal_fd(&fd);
    return 0;
}

int link_watch_start(struct link_watch *w, struct loop *l, void (*up)(struct link_watch *), struct err *e)
{
    AUTO_CLOSE int fd = -1;

    *w = (struct link_watch){ .up = up, .loop = l, .fd.fd = -1 };
    int rc = open_socket(&fd, e);
    if (rc == 0)
        rc = loop_fd_add(l, &w->fd, fd, LOOP_IN, on_ready, e);
    if (rc == 0)
        (void)steal_fd(&fd);
    return rc;
}

void link_watch_stop(struct link_watch *w)
{
    if (w->loop == NULL || !w->fd.added)
        return;
    int fd = w->fd.fd;
    loop_fd_del(w->loop, &w->fd);
    close(fd);
}
