// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

static int no_memory;

static void *test_realloc(void *p, size_t n)
{
    return no_memory ? NULL : realloc(p, n);
}

#define realloc(p, n) test_realloc(p, n)
#include "base/loop.c"
#undef realloc
#include "base/loop_epoll.c"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "fake_clock.h"
#include "tap.h"

// --- a backend whose wait only moves the clock

struct fake_wait {
    struct loop_backend base;
    struct fake_clock *fc;
    int64_t last_timeout;
    int64_t late_ms; // each wait takes so much longer
    unsigned waits;
    bool failing, freed;
};

static int fw_fd_set(struct loop_backend *b UNUSED, struct loop_fd *f UNUSED, struct err *e UNUSED)
{
    return 0;
}
static void fw_fd_del(struct loop_backend *b UNUSED, struct loop_fd *f UNUSED)
{
}
static int fw_wait(struct loop_backend *b, struct loop *l UNUSED, int64_t timeout_ms, struct err *e)
{
    struct fake_wait *w = container_of(b, struct fake_wait, base);
    w->waits++;
    w->last_timeout = timeout_ms;
    if (w->failing)
        return err_set(e, E_IO, "wait");
    fake_clock_advance(w->fc, MAX(timeout_ms, 0) + w->late_ms);
    return 0;
}
static void fw_free(struct loop_backend *b)
{
    container_of(b, struct fake_wait, base)->freed = true;
}

struct rig {
    struct fake_clock fc;
    struct fake_wait wait;
    struct loop *l;
};

static void rig_init(struct rig *r)
{
    struct err e = ERR_INIT;
    memset(r, 0, sizeof(*r));
    fake_clock_init(&r->fc, 1);
    r->wait.base = (struct loop_backend){ fw_fd_set, fw_fd_del, fw_wait, fw_free };
    r->wait.fc = &r->fc;
    if (loop_new(&r->l, &r->fc.clock, &r->wait.base, &e) != 0)
        fail("loop: %s", e.msg);
}

static void turn(struct rig *r, int64_t max_wait_ms)
{
    struct err e = ERR_INIT;
    if (loop_turn(r->l, max_wait_ms, &e) != 0)
        fail("turn: %s", e.msg);
}

// --- timers

struct tick {
    struct timer t;
    struct rig *r;
    unsigned fired;
    int64_t fired_at;
    void (*then)(struct tick *k);
    struct tick *other;
};

static void on_tick(struct timer *t)
{
    struct tick *k = container_of(t, struct tick, t);
    k->fired++;
    k->fired_at = loop_now(k->r->l);
    if (k->then != NULL)
        k->then(k);
}

static void tick_init(struct tick *k, struct rig *r)
{
    *k = (struct tick){ .r = r };
    timer_init(&k->t, on_tick);
}

static void use_up_100_ms(struct tick *k)
{
    fake_clock_advance(&k->r->fc, 100);
    timer_in(k->r->l, &k->other->t, 50);
}

// What the server asked us to wait for must not be over earlier because an fsync came before it in the turn.
static void test_delay_late_in_a_turn(void)
{
    struct rig r;
    struct tick slow, after;
    rig_init(&r);
    tick_init(&slow, &r);
    tick_init(&after, &r);
    slow.then = use_up_100_ms;
    slow.other = &after;
    int64_t start = loop_now(r.l);
    timer_in(r.l, &slow.t, 10);
    turn(&r, -1);
    is_int(loop_now(r.l), start + 10, "the turn's time stands still");
    is_int(loop_in(r.l, 0), start + 10, "no delay is now, in this turn");
    turn(&r, -1);
    is_int(after.fired_at, start + 160, "a delay counts from the moment in which it is asked for");
    loop_free(r.l);
}

static void test_timer_basics(void)
{
    struct rig r;
    struct tick a, b;
    rig_init(&r);
    tick_init(&a, &r);
    tick_init(&b, &r);
    int64_t start = loop_now(r.l);
    turn(&r, 0);
    is_int(r.wait.last_timeout, 0, "asked not to wait, it does not");
    is_int(loop_wakeups(r.l), 0, "which is no wake-up");
    turn(&r, -1);
    is_int(r.wait.last_timeout, -1, "without timers the wait has no end");
    is_int(loop_wakeups(r.l), 1, "which is one");

    ok(!timer_is_set(&a.t), "a new timer is not set");
    is_int(timer_in(r.l, &a.t, 500), 0, "set");
    ok(timer_is_set(&a.t), "is set");
    is_int(timer_set(r.l, &b.t, start + 200), 0, "another, earlier");
    turn(&r, 100);
    is_int(r.wait.last_timeout, 100, "the caller's bound is kept");
    ok(a.fired == 0 && b.fired == 0, "nothing is due");
    turn(&r, -1);
    ok(a.fired == 0 && b.fired == 1, "the earlier one first");
    is_int(b.fired_at, start + 200, "at its time, which is what loop_now() says");
    ok(!timer_is_set(&b.t), "fired: not set any more");
    turn(&r, -1);
    is_int(a.fired_at, start + 500, "then the other");

    timer_in(r.l, &a.t, 100);
    timer_in(r.l, &a.t, 1000);
    turn(&r, -1);
    is_int(a.fired_at, start + 1500, "a timer set again is moved, later");
    timer_in(r.l, &a.t, 1000);
    timer_in(r.l, &a.t, 10);
    turn(&r, -1);
    is_int(a.fired_at, start + 1510, "or earlier");
    timer_in(r.l, &a.t, 10);
    timer_cancel(r.l, &a.t);
    timer_cancel(r.l, &a.t);
    turn(&r, 1000);
    is_int(a.fired, 3, "cancelled, also twice: it does not fire");
    timer_in(r.l, &a.t, -50);
    turn(&r, -1);
    is_int(r.wait.last_timeout, 0, "a delay below zero is now");
    is_int(a.fired, 4, "and fires");
    timer_in(r.l, &a.t, INT64_MAX);
    turn(&r, 5);
    is_int(a.fired, 4, "for ever is no overflow");
    loop_free(r.l);
    ok(r.wait.freed, "the backend goes with the loop");
}

// Random sets, moves and cancels against a plain list of times.
static void test_timer_order(void)
{
    enum { N = 300 };
    static struct tick k[N];
    struct rig r;
    rig_init(&r);
    int64_t want[N]; // -1 = not set
    for (int i = 0; i < N; i++) {
        tick_init(&k[i], &r);
        want[i] = -1;
    }
    unsigned wrong_heap = 0, wrong_fire = 0;
    for (int step = 0; step < 20000; step++) {
        int i = (int)clock_rand(&r.fc.clock, N);
        int64_t what = clock_rand(&r.fc.clock, 10);
        if (what < 6) {
            want[i] = r.fc.mono_ms + 1 + clock_rand(&r.fc.clock, 1000);
            timer_set(r.l, &k[i].t, want[i]);
        } else if (what < 8) {
            want[i] = -1;
            timer_cancel(r.l, &k[i].t);
        } else {
            for (int j = 0; j < N; j++)
                k[j].fired = 0;
            turn(&r, 50);
            for (int j = 0; j < N; j++) {
                bool due = want[j] >= 0 && want[j] <= r.fc.mono_ms;
                wrong_fire += k[j].fired != due;
                if (due)
                    want[j] = -1;
            }
        }
        for (size_t p = 2; p <= r.l->n; p++)
            wrong_heap += r.l->heap[p / 2]->at_ms > r.l->heap[p]->at_ms || r.l->heap[p]->heap_pos != p;
    }
    is_int(wrong_heap, 0, "the heap stays a heap, 20000 random steps");
    is_int(wrong_fire, 0, "each timer fires once, when due, and no other");
    loop_free(r.l);
}

static void set_again_now(struct tick *k)
{
    timer_set(k->r->l, &k->t, 0);
}
static void cancel_other(struct tick *k)
{
    timer_cancel(k->r->l, &k->other->t);
}
static void move_other(struct tick *k)
{
    timer_in(k->r->l, &k->other->t, 1000);
}
static void free_other(struct tick *k)
{
    timer_cancel(k->r->l, &k->other->t);
    free(k->other);
    k->other = NULL;
}

static void test_timer_reentry(void)
{
    struct rig r;
    struct tick a, b;
    rig_init(&r);
    tick_init(&a, &r);
    tick_init(&b, &r);
    a.then = set_again_now;
    r.wait.late_ms = 10; // all that is set below for up to 10 ms is due in one turn
    timer_in(r.l, &a.t, 5);
    timer_in(r.l, &b.t, 6);
    turn(&r, 10);
    turn(&r, 10);
    ok(a.fired == 2 && b.fired == 1, "one that sets itself to a time gone by comes once a turn and starves nobody");
    is_int(r.wait.last_timeout, 0, "and is not waited for");

    a.then = cancel_other;
    a.other = &b;
    timer_in(r.l, &a.t, 1);
    timer_in(r.l, &b.t, 1);
    turn(&r, 10);
    is_int(b.fired, 1, "due in the same turn, but cancelled by the first: not called");
    ok(!timer_is_set(&b.t), "nor set");

    a.then = move_other;
    timer_in(r.l, &a.t, 1);
    timer_in(r.l, &b.t, 1);
    turn(&r, 10);
    is_int(b.fired, 1, "moved by the first: not called now");
    ok(timer_is_set(&b.t), "but set");
    turn(&r, -1);
    is_int(b.fired, 2, "and called later");

    struct tick *c = malloc(sizeof(*c));
    if (c == NULL)
        return;
    tick_init(c, &r);
    a.then = free_other;
    a.other = c;
    timer_in(r.l, &a.t, 1);
    timer_in(r.l, &c->t, 2);
    turn(&r, 10);
    ok(a.other == NULL, "freed by the first: nothing touches it (the sanitizers watch)");
    loop_free(r.l);
}

static void test_timer_memory(void)
{
    static struct tick k[100];
    struct rig r;
    rig_init(&r);
    for (int i = 0; i < 100; i++)
        tick_init(&k[i], &r);
    no_memory = 1;
    is_int(timer_in(r.l, &k[0].t, 1), E_NOMEM, "no memory for the first timer");
    ok(!timer_is_set(&k[0].t), "it is not set");
    no_memory = 0;
    int set = 0;
    is_int(timer_in(r.l, &k[set++].t, 1), 0, "with memory it is");
    no_memory = 1;
    while (set < 100 && timer_in(r.l, &k[set].t, 1) == 0)
        set++;
    ok(set > 1 && set < 100, "memory lasts for %d", set);
    is_int(timer_in(r.l, &k[0].t, 50), 0, "moving one needs none");
    timer_cancel(r.l, &k[0].t);
    is_int(timer_in(r.l, &k[set].t, 1), 0, "and a cancelled one makes room");
    turn(&r, 10);
    unsigned fired = 0;
    for (int i = 0; i < 100; i++)
        fired += k[i].fired;
    is_int(fired, set, "all that were set fire, without memory");
    no_memory = 0;
    loop_free(r.l);
}

// The wait is reckoned from the time it begins, not from the one the turn began with.
static void spend_time(struct tick *k)
{
    fake_clock_advance(&k->r->fc, 300);
}
static void test_timer_drift(void)
{
    struct rig r;
    struct tick a, b;
    rig_init(&r);
    tick_init(&a, &r);
    tick_init(&b, &r);
    a.then = spend_time;
    timer_in(r.l, &a.t, 100);
    timer_in(r.l, &b.t, 500);
    int64_t start = loop_now(r.l);
    turn(&r, -1);
    is_int(loop_now(r.l), start + 100, "the time stands still during a turn");
    turn(&r, -1);
    is_int(r.wait.last_timeout, 100, "what a callback spent is not waited once more");
    is_int(b.fired_at, start + 500, "so the next is in time");
    loop_free(r.l);
}

// --- hooks

struct pin {
    struct loop_hook h;
    struct rig *r;
    char name;
    unsigned more; // turns it asks for
    struct pin *drop, *add;
};

static char order[64];

static bool on_pin(struct loop_hook *h)
{
    struct pin *p = container_of(h, struct pin, h);
    size_t n = strlen(order);
    order[n] = p->name;
    order[n + 1] = '\0';
    if (p->drop != NULL)
        loop_hook_del(&steal(p->drop)->h);
    if (p->add != NULL)
        loop_hook_add(p->r->l, &steal(p->add)->h, on_pin);
    return p->more > 0 && p->more-- > 0;
}

static void test_hooks(void)
{
    struct rig r;
    rig_init(&r);
    struct pin p[4] = { { .name = 'a' }, { .name = 'b' }, { .name = 'c' }, { .name = 'd' } };
    for (int i = 0; i < 4; i++)
        p[i].r = &r;
    for (int i = 0; i < 3; i++)
        loop_hook_add(r.l, &p[i].h, on_pin);
    turn(&r, -1);
    is_str(order, "abc", "in the order they were added");
    order[0] = '\0';
    p[1].more = 1;
    turn(&r, -1);
    turn(&r, -1);
    is_int(r.wait.last_timeout, 0, "one that has more to do is not made to wait");
    turn(&r, -1);
    is_int(r.wait.last_timeout, -1, "once it is done, there is sleep again");

    order[0] = '\0';
    p[1].drop = &p[1];
    turn(&r, 0);
    turn(&r, 0);
    is_str(order, "abcac", "one may remove itself");
    order[0] = '\0';
    p[0].drop = &p[2];
    turn(&r, 0);
    is_str(order, "a", "or the next, which is then not called");
    order[0] = '\0';
    p[0].add = &p[3];
    turn(&r, 0);
    is_str(order, "ad", "or add one, which is called in the same turn");
    order[0] = '\0';
    p[3].drop = &p[0];
    turn(&r, 0);
    turn(&r, 0);
    is_str(order, "add", "or remove an earlier one");
    loop_hook_del(&p[3].h);
    loop_hook_del(&p[3].h);
    order[0] = '\0';
    turn(&r, 0);
    is_str(order, "", "removed from outside, twice");
    loop_free(r.l);
}

static void stop_loop(struct tick *k)
{
    loop_stop(k->r->l);
}
static void test_run(void)
{
    struct rig r;
    struct tick a;
    struct err e = ERR_INIT;
    struct pin p = { .name = 'h', .r = &r };
    rig_init(&r);
    tick_init(&a, &r);
    a.then = stop_loop;
    timer_in(r.l, &a.t, 100);
    loop_hook_add(r.l, &p.h, on_pin);
    order[0] = '\0';
    is_int(loop_run(r.l, &e), 0, "runs until it is stopped");
    is_str(order, "h", "and ends the turn in which it was");
    loop_stop(r.l);
    unsigned waits = r.wait.waits;
    is_int(loop_run(r.l, &e), 0, "stopped before it runs");
    is_int(r.wait.waits, waits, "it does not begin");
    r.wait.failing = true;
    is_int(loop_run(r.l, &e), E_IO, "a wait that fails ends it");
    loop_free(r.l);
}

// --- descriptors, on epoll

struct real_rig {
    struct clock clock;
    struct loop *l;
};

static void real_init(struct real_rig *r)
{
    struct err e = ERR_INIT;
    struct loop_backend *b = NULL;
    clock_real_init(&r->clock);
    if (loop_backend_epoll(&b, &e) != 0 || loop_new(&r->l, &r->clock, b, &e) != 0)
        fail("epoll: %s", e.msg);
}

static void real_turn(struct real_rig *r, int64_t max_wait_ms)
{
    struct err e = ERR_INIT;
    if (loop_turn(r->l, max_wait_ms, &e) != 0)
        fail("turn: %s", e.msg);
}

struct ear {
    struct loop_fd f;
    struct real_rig *r;
    unsigned calls, events;
    struct ear *drop;    // removes it
    struct ear *silence; // modifies it to hear nothing but LOOP_OUT
    bool free_dropped;
};

static struct ear *last_called;

static void on_ear(struct loop_fd *f, unsigned events)
{
    struct ear *x = container_of(f, struct ear, f);
    struct err e = ERR_INIT;
    last_called = x;
    x->calls++;
    x->events |= events;
    if (x->drop != NULL) {
        struct ear *d = steal(x->drop);
        loop_fd_del(x->r->l, &d->f);
        if (x->free_dropped)
            free(d);
    }
    if (x->silence != NULL && loop_fd_mod(x->r->l, &steal(x->silence)->f, LOOP_OUT, &e) != 0)
        fail("mod: %s", e.msg);
}

static void ear_add(struct ear *x, struct real_rig *r, int fd, unsigned events)
{
    struct err e = ERR_INIT;
    *x = (struct ear){ .r = r };
    if (loop_fd_add(r->l, &x->f, fd, events, on_ear, &e) != 0)
        fail("add: %s", e.msg);
}

static void poke(int fd)
{
    if (write(fd, "x", 1) != 1)
        fail("write");
}

static void pair(int sv[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv) != 0)
        fail("socketpair");
}

static void test_fd_events(void)
{
    struct real_rig r;
    struct ear x;
    int sv[2];
    struct err e = ERR_INIT;
    real_init(&r);
    pair(sv);
    ear_add(&x, &r, sv[0], LOOP_IN);
    real_turn(&r, 0);
    is_int(x.calls, 0, "nothing there, nothing called");
    poke(sv[1]);
    real_turn(&r, 10000);
    ok(x.calls == 1 && x.events == LOOP_IN, "readable");
    real_turn(&r, 10000);
    is_int(x.calls, 2, "still readable: called again");
    is_int(loop_fd_mod(r.l, &x.f, LOOP_OUT, &e), 0, "other events");
    x.events = 0;
    real_turn(&r, 10000);
    is_int(x.events, LOOP_OUT, "writable, and only that");
    is_int(loop_fd_mod(r.l, &x.f, 0, &e), 0, "none");
    x.calls = 0;
    close(sv[1]);
    real_turn(&r, 0);
    is_int(x.calls, 0, "watched for nothing, a hang-up does not spin");
    is_int(loop_fd_mod(r.l, &x.f, LOOP_OUT, &e), 0, "watched again");
    x.events = 0;
    real_turn(&r, 10000);
    ok(x.events & LOOP_IN, "the hang-up is reported as LOOP_IN, asked or not");
    loop_fd_del(r.l, &x.f);
    loop_fd_del(r.l, &x.f);
    x.calls = 0;
    real_turn(&r, 0);
    is_int(x.calls, 0, "removed, twice: not called");
    ear_add(&x, &r, sv[0], 0);
    real_turn(&r, 0);
    is_int(x.calls, 0, "added for nothing");
    loop_fd_del(r.l, &x.f);
    close(sv[0]);
    loop_free(r.l);
}

static void test_fd_errors(void)
{
    struct real_rig r;
    struct ear x, y = { 0 };
    struct err e = ERR_INIT;
    int sv[2];
    real_init(&r);
    pair(sv);
    is_int(loop_fd_add(r.l, &y.f, -1, LOOP_IN, on_ear, &e), E_IO, "no descriptor");
    ok(!y.f.added, "is not added");
    loop_fd_del(r.l, &y.f);
    ear_add(&x, &r, sv[0], LOOP_IN);
    is_int(loop_fd_add(r.l, &y.f, sv[0], LOOP_IN, on_ear, &e), E_EXISTS, "one descriptor has one node");
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    is_int(loop_fd_add(r.l, &y.f, fd, LOOP_IN, on_ear, &e), E_FORBIDDEN, "a file cannot be waited for");
    close(fd);
    loop_fd_del(r.l, &x.f);
    close(sv[0]);
    close(sv[1]);
    loop_free(r.l);
}

// Both are readable in one batch; whichever comes first acts on the other.
static void test_fd_same_batch(void)
{
    struct real_rig r;
    struct ear x, y;
    int a[2], b[2];
    real_init(&r);
    pair(a);
    pair(b);
    poke(a[1]);
    poke(b[1]);
    ear_add(&x, &r, a[0], LOOP_IN);
    ear_add(&y, &r, b[0], LOOP_IN);
    x.drop = &y;
    y.drop = &x;
    real_turn(&r, 10000);
    is_int(x.calls + y.calls, 1, "removed while its event was pending: not called");
    loop_fd_del(r.l, &x.f);
    loop_fd_del(r.l, &y.f);

    ear_add(&x, &r, a[0], LOOP_IN);
    ear_add(&y, &r, b[0], LOOP_IN);
    x.silence = &y;
    y.silence = &x;
    real_turn(&r, 10000);
    is_int((x.events | y.events) & LOOP_OUT, 0, "what was not asked for in time is not told");
    is_int((x.events & LOOP_IN) + (y.events & LOOP_IN), LOOP_IN, "nor what is not asked for any more");
    loop_fd_del(r.l, &x.f);
    loop_fd_del(r.l, &y.f);

    // The one that is called frees the other; the freed one must not be touched (the sanitizers watch).
    struct ear *p = malloc(sizeof(*p)), *q = malloc(sizeof(*q));
    if (p == NULL || q == NULL)
        return;
    ear_add(p, &r, a[0], LOOP_IN);
    ear_add(q, &r, b[0], LOOP_IN);
    p->drop = q;
    q->drop = p;
    p->free_dropped = q->free_dropped = true;
    last_called = NULL;
    real_turn(&r, 10000);
    ok(last_called == p || last_called == q, "one of them was called");
    is_int(last_called->calls, 1, "and only that one");
    loop_fd_del(r.l, &last_called->f);
    free(last_called);
    loop_free(r.l);
    close(a[0]);
    close(a[1]);
    close(b[0]);
    close(b[1]);
}

static void test_fd_many(void)
{
    enum { N = 200 };
    static struct ear x[N];
    static int sv[N][2];
    struct real_rig r;
    real_init(&r);
    for (int i = 0; i < N; i++) {
        pair(sv[i]);
        ear_add(&x[i], &r, sv[i][0], LOOP_IN);
        poke(sv[i][1]);
    }
    unsigned quiet = N;
    for (int turns = 0; quiet > 0 && turns < 100; turns++) {
        real_turn(&r, 1000);
        quiet = 0;
        for (int i = 0; i < N; i++)
            quiet += x[i].calls == 0;
    }
    is_int(quiet, 0, "more descriptors than a batch holds: all are heard");
    for (int i = 0; i < N; i++) {
        loop_fd_del(r.l, &x[i].f);
        close(sv[i][0]);
        close(sv[i][1]);
    }
    loop_free(r.l);
}

static void on_alarm(int sig UNUSED)
{
}

static void test_signal(void)
{
    struct real_rig r;
    struct sigaction sa = { .sa_handler = on_alarm }, old;
    struct itimerval soon = { .it_value.tv_usec = 20000 }, never = { 0 };
    real_init(&r);
    sigaction(SIGALRM, &sa, &old);
    setitimer(ITIMER_REAL, &soon, NULL);
    real_turn(&r, 600000); // ten minutes, unless the signal ends it
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &old, NULL);
    ok(true, "a signal ends the wait, and is no error");
    loop_free(r.l);
}

struct beat {
    struct timer t;
    struct loop *l;
    int64_t at;
};
static void on_beat(struct timer *t)
{
    struct beat *b = container_of(t, struct beat, t);
    b->at = clock_mono(loop_clock(b->l));
    loop_stop(b->l);
}
static void test_real_timer(void)
{
    struct real_rig r;
    struct err e = ERR_INIT;
    struct beat b = { 0 };
    real_init(&r);
    b.l = r.l;
    timer_init(&b.t, on_beat);
    int64_t want = clock_mono(&r.clock) + 30;
    timer_set(r.l, &b.t, want);
    is_int(loop_run(r.l, &e), 0, "a real timer");
    ok(b.at >= want, "is never early");
    loop_free(r.l);
}

int main(void)
{
    test_timer_basics();
    test_delay_late_in_a_turn();
    test_timer_order();
    test_timer_reentry();
    test_timer_memory();
    test_timer_drift();
    test_hooks();
    test_run();
    test_fd_events();
    test_fd_errors();
    test_fd_same_batch();
    test_fd_many();
    test_signal();
    test_real_timer();
    return done_testing();
}
