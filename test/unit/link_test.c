// SPDX-License-Identifier: Apache-2.0
// In a network namespace of its own; skipped where that is not permitted.
#include "wire/link.c"

#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include "tap.h"

static int ups;

static void on_up(struct link_watch *w UNUSED)
{
    ups++;
}

static bool turn_until(struct loop *l, int n)
{
    for (int i = 0; i < 600 && ups < n; i++)
        if (loop_turn(l, 100, NULL) < 0)
            return false;
    return ups >= n;
}

static void drain(struct loop *l)
{
    int before;

    do {
        before = ups;
        for (int i = 0; i < 5; i++)
            if (loop_turn(l, 20, NULL) < 0)
                return;
    } while (ups != before);
}

static bool set_loopback(bool up)
{
    struct ifreq r = { .ifr_name = "lo" };
    AUTO_CLOSE int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &r) < 0)
        return false;
    r.ifr_flags = (short)(up ? r.ifr_flags | IFF_UP : r.ifr_flags & ~IFF_UP);
    return ioctl(fd, SIOCSIFFLAGS, &r) == 0;
}

static void test_messages(void)
{
    struct {
        struct nlmsghdr h;
        union {
            struct ifinfomsg link;
            struct rtmsg route;
        };
    } m = { .h = { .nlmsg_len = sizeof m, .nlmsg_type = RTM_NEWLINK } };

    m.link.ifi_flags = IFF_UP;
    ok(!has_hope(&m, sizeof m), "a link without carrier");
    m.link.ifi_flags = IFF_UP | IFF_RUNNING;
    ok(has_hope(&m, sizeof m), "a running link");
    m.h.nlmsg_type = RTM_DELLINK;
    ok(!has_hope(&m, sizeof m), "a link that goes");
    m.h.nlmsg_type = RTM_NEWROUTE;
    m.h.nlmsg_len = NLMSG_LENGTH(sizeof m.route);
    m.route = (struct rtmsg){ .rtm_type = RTN_UNICAST, .rtm_table = RT_TABLE_MAIN };
    ok(has_hope(&m, m.h.nlmsg_len), "a route");
    m.route.rtm_type = RTN_LOCAL;
    ok(!has_hope(&m, m.h.nlmsg_len), "the kernel's entry for an own address");
    m.route.rtm_type = RTN_UNICAST;
    m.h.nlmsg_len = NLMSG_LENGTH(1);
    ok(!has_hope(&m, m.h.nlmsg_len), "a message cut short");
    m.h.nlmsg_len = 1 << 20;
    ok(!has_hope(&m, sizeof m), "a message that claims more than came");
    ok(!has_hope(&m, 3), "a few bytes");
}

static void test_kernel(void)
{
    struct clock c;
    struct loop *l;
    struct loop_backend *b;
    struct link_watch w;
    struct err e = ERR_INIT;

    if (unshare(CLONE_NEWNET) < 0) {
        skip("a network namespace needs root");
        return;
    }
    clock_real_init(&c);
    if (loop_backend_epoll(&b, &e) < 0 || loop_new(&l, &c, b, &e) < 0 || !is_int(link_watch_start(&w, l, on_up, &e), 0, "%s", e.msg))
        return;
    drain(l);
    is_int(ups, 0, "nothing happens, nobody is called");
    ok(set_loopback(true), "a link comes up");
    ok(turn_until(l, 1), "and is heard of");
    drain(l);
    int before = ups;
    ok(set_loopback(false), "it goes down");
    drain(l);
    is_int(ups, before, "which is no reason to try again");
    ok(set_loopback(true), "it comes back");
    ok(turn_until(l, before + 1), "and is heard of again");
    link_watch_stop(&w);
    link_watch_stop(&w);
    before = ups;
    set_loopback(false);
    set_loopback(true);
    drain(l);
    is_int(ups, before, "not after the watch was stopped");
    loop_free(l);
}

int main(void)
{
    test_messages();
    test_kernel();
    return done_testing();
}
