// SPDX-License-Identifier: Apache-2.0
// The fake port on a clock that stands still: everything it does is determined.
#include "port/fake.c"

#include "fake_clock.h"
#include "tap.h"

static struct fake_clock fc;
static struct loop *loop;
static struct port *port;

static void pass(int64_t ms)
{
    struct err e = ERR_INIT;
    fake_clock_advance(&fc, ms);
    if (loop_turn(loop, 0, &e) != 0)
        fail("a turn: %s", e.msg);
}

static void start(const char *uid, const char *owner, int index)
{
    static const char *const argv[] = { "x", NULL };
    struct inst_spec s = { .uid = uid, .owner = owner, .index = index, .exec.argv = argv };
    struct err e = ERR_INIT;
    is_int(port->ops->start(port, &s, &e), 0, "%s is started", uid);
}

static const struct inst *get(const char *uid)
{
    struct inst_node *n = insts_find(&self(port)->insts, uid);
    return n != NULL ? &n->i : NULL;
}

static void life(void)
{
    port_fake_behave(port, "A", &(struct fake_behaviour){ .start_ms = 100, .run_ms = 1000, .exit_code = 4, .stop_ms = 50 });
    start("a", "A", 0);
    pass(99);
    is_int(get("a")->state, INST_STARTING, "99 ms: starting");
    pass(1);
    is_int(get("a")->state, INST_RUNNING, "100 ms: runs");
    is_int(get("a")->started.boot_ms, fc.boot_ms, "since now");
    pass(999);
    is_int(get("a")->state, INST_RUNNING, "999 ms later: runs");
    pass(1);
    is_int(get("a")->state, INST_EXITED, "1000 ms later: ended");
    ok(get("a")->exit.known && get("a")->exit.code == 4, "with its code");
    start("b", "A", 1);
    pass(150);
    is_int(port->ops->stop(port, "b", 40, NULL), 0, "another is told to stop faster than it can");
    pass(39);
    is_int(get("b")->state, INST_STOPPING, "39 ms: stopping");
    pass(1);
    ok(get("b")->state == INST_EXITED && get("b")->exit.signal == SIGKILL, "40 ms: killed");
}

static void crash(void)
{
    port_fake_behave(port, "C", &(struct fake_behaviour){ .run_ms = -1 });
    start("c0", "C", 0);
    start("c1", "C", 1);
    is_int(port_fake_crash(port, "C", 0, 9), 0, "who does not run yet cannot crash");
    pass(1);
    is_int(port_fake_crash(port, "C", 1, 9), 1, "one crashes");
    ok(get("c0")->state == INST_RUNNING && get("c1")->exit.code == 9, "the right one");
    is_int(port_fake_crash(port, "C", 1, 9), 0, "once");
}

// The machine goes on while no agent is there; the next one learns when things were, not when it heard.
static void agent_died(void)
{
    struct port *next;
    struct err e = ERR_INIT;
    port_fake_behave(port, "D", &(struct fake_behaviour){ .start_ms = 10, .run_ms = 200, .exit_code = 2 });
    start("d", "D", 0);
    pass(1);
    int64_t begin = fc.boot_ms;
    is_int(port_fake_agent_died(port, &next, loop, &e), 0, "the agent dies");
    port = next;
    ok(get("d") == NULL, "the next one knows nothing yet");
    pass(5000);
    pass(0);
    is_int(port->ops->adopt(port, &e), 0, "it adopts");
    ok(get("d")->state == INST_EXITED && get("d")->exit.code == 2, "the instance has ended");
    is_int(get("d")->ended.boot_ms, begin + 9 + 200, "when it was due");
    is_int(get("d")->started.boot_ms, begin + 9, "as its start was");
    port_fake_reboot(port);
    is_int(self(port)->insts.n, 0, "after a reboot nothing is left");
    port_fake_behave(port, "D", &(struct fake_behaviour){ .run_ms = -1 });
    start("d", "D", 0);
    pass(1);
    is_int(get("d")->state, INST_RUNNING, "and the same uid can be started");
}

int main(void)
{
    struct loop_backend *b;
    struct err e = ERR_INIT;
    fake_clock_init(&fc, 7);
    if (!ok(loop_backend_epoll(&b, &e) == 0 && loop_new(&loop, &fc.clock, b, &e) == 0 && port_fake_new(&port, loop, &e) == 0,
            "a fake port"))
        return done_testing();
    life();
    crash();
    agent_died();
    port->ops->free(port);
    loop_free(loop);
    return done_testing();
}
