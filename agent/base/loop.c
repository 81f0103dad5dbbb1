// SPDX-License-Identifier: Apache-2.0
#include "base/loop.h"

#include <string.h>

struct loop {
    struct clock *clock;
    struct loop_backend *backend;
    int64_t now_ms;
    uint64_t wakeups;
    bool stop;
    bool more;  // a hook wants the next turn at once
    bool waked; // now_ms is of this turn

    struct timer **heap; // [1..n], the earliest first; slot 0 is not used
    size_t n, alloc;
    // Timers that are due in this turn, taken out of the heap first: one that sets itself to a time gone by then waits for the
    // next turn instead of starving the others. A timer that waits here has DUE set in heap_pos; a cancelled one leaves NULL.
    struct timer **due;
    size_t n_due;

    struct list hooks;
};

#define DUE ((size_t)1 << (sizeof(size_t) * 8 - 1))

int loop_new(struct loop **out, struct clock *c, struct loop_backend *b, struct err *e)
{
    struct loop *l = calloc(1, sizeof(*l));
    if (l == NULL) {
        b->free(b);
        return err_set(e, E_NOMEM, "no memory for the loop");
    }
    l->clock = c;
    l->backend = b;
    l->now_ms = clock_mono(c);
    list_init(&l->hooks);
    *out = l;
    return 0;
}

void loop_free(struct loop *l)
{
    if (l == NULL)
        return;
    l->backend->free(l->backend);
    free(l->heap);
    free(l->due);
    free(l);
}

struct clock *loop_clock(struct loop *l)
{
    return l->clock;
}

int64_t loop_now(struct loop *l)
{
    return l->now_ms;
}

uint64_t loop_wakeups(const struct loop *l)
{
    return l->wakeups;
}

void loop_stop(struct loop *l)
{
    l->stop = true;
}

// --- timers

static void heap_place(struct loop *l, struct timer *t, size_t pos)
{
    l->heap[pos] = t;
    t->heap_pos = pos;
}

static void heap_up(struct loop *l, struct timer *t, size_t pos)
{
    for (; pos > 1 && l->heap[pos / 2]->at_ms > t->at_ms; pos /= 2)
        heap_place(l, l->heap[pos / 2], pos);
    heap_place(l, t, pos);
}

static void heap_down(struct loop *l, struct timer *t, size_t pos)
{
    for (size_t child; (child = pos * 2) <= l->n; pos = child) {
        if (child < l->n && l->heap[child + 1]->at_ms < l->heap[child]->at_ms)
            child++;
        if (l->heap[child]->at_ms >= t->at_ms)
            break;
        heap_place(l, l->heap[child], pos);
    }
    heap_place(l, t, pos);
}

static void heap_fix(struct loop *l, struct timer *t, size_t pos)
{
    if (pos > 1 && l->heap[pos / 2]->at_ms > t->at_ms)
        heap_up(l, t, pos);
    else
        heap_down(l, t, pos);
}

static void heap_remove(struct loop *l, struct timer *t)
{
    size_t pos = t->heap_pos;
    struct timer *last = l->heap[l->n--];
    if (last != t)
        heap_fix(l, last, pos);
    t->heap_pos = 0;
}

static bool grow_array(struct timer ***array, size_t alloc)
{
    struct timer **p = realloc(*array, alloc * sizeof(*p));
    if (p != NULL)
        *array = p;
    return p != NULL;
}

// `due` never holds more than the heap did, so it grows with it and firing needs no memory.
static int heap_reserve(struct loop *l)
{
    if (l->n + 1 < l->alloc)
        return 0;
    size_t alloc = l->alloc > 0 ? l->alloc * 2 : 16;
    if (!grow_array(&l->heap, alloc) || !grow_array(&l->due, alloc))
        return E_NOMEM;
    l->alloc = alloc;
    return 0;
}

void timer_init(struct timer *t, void (*fn)(struct timer *t))
{
    *t = (struct timer){ .fn = fn };
}

bool timer_is_set(const struct timer *t)
{
    return t->heap_pos != 0;
}

void timer_cancel(struct loop *l, struct timer *t)
{
    if (t->heap_pos == 0)
        return;
    if (t->heap_pos & DUE) {
        l->due[t->heap_pos & ~DUE] = NULL;
        t->heap_pos = 0;
    } else {
        heap_remove(l, t);
    }
}

int timer_set(struct loop *l, struct timer *t, int64_t at_ms)
{
    if (t->heap_pos != 0 && (t->heap_pos & DUE) == 0) {
        t->at_ms = at_ms;
        heap_fix(l, t, t->heap_pos);
        return 0;
    }
    timer_cancel(l, t);
    if (heap_reserve(l) != 0)
        return E_NOMEM;
    t->at_ms = at_ms;
    heap_up(l, t, ++l->n);
    return 0;
}

int64_t loop_in(struct loop *l, int64_t delay_ms)
{
    if (delay_ms <= 0)
        return l->now_ms;
    int64_t now = clock_mono(l->clock);
    return delay_ms > INT64_MAX - now ? INT64_MAX : now + delay_ms;
}

int timer_in(struct loop *l, struct timer *t, int64_t delay_ms)
{
    return timer_set(l, t, loop_in(l, delay_ms));
}

static void fire_due(struct loop *l)
{
    l->n_due = 0;
    while (l->n > 0 && l->heap[1]->at_ms <= l->now_ms) {
        struct timer *t = l->heap[1];
        heap_remove(l, t);
        l->due[l->n_due] = t;
        t->heap_pos = DUE | l->n_due++;
    }
    for (size_t i = 0; i < l->n_due; i++) {
        struct timer *t = l->due[i];
        if (t == NULL)
            continue;
        t->heap_pos = 0;
        t->fn(t);
    }
    l->n_due = 0;
}

// --- descriptors

int loop_fd_add(struct loop *l, struct loop_fd *f, int fd, unsigned events, void (*fn)(struct loop_fd *, unsigned), struct err *e)
{
    *f = (struct loop_fd){ .fd = fd, .events = events, .fn = fn };
    int r = l->backend->fd_set(l->backend, f, e);
    f->added = r == 0;
    return r;
}

int loop_fd_mod(struct loop *l, struct loop_fd *f, unsigned events, struct err *e)
{
    unsigned old = f->events;
    if (events == old)
        return 0;
    f->events = events;
    int r = l->backend->fd_set(l->backend, f, e);
    if (r != 0)
        f->events = old;
    return r;
}

void loop_fd_del(struct loop *l, struct loop_fd *f)
{
    if (!f->added)
        return;
    f->added = false;
    l->backend->fd_del(l->backend, f);
}

static void refresh_now(struct loop *l)
{
    if (!l->waked)
        l->now_ms = clock_mono(l->clock);
    l->waked = true;
}

// The first descriptor of a turn is dispatched from inside the wait, so the time is read here if not yet.
void loop_dispatch_fd(struct loop *l, struct loop_fd *f, unsigned events)
{
    refresh_now(l);
    if (f->added && events != 0)
        f->fn(f, events);
}

// --- hooks and turns

void loop_hook_add(struct loop *l, struct loop_hook *h, bool (*fn)(struct loop_hook *h))
{
    h->fn = fn;
    list_add_tail(&l->hooks, &h->link);
}

void loop_hook_del(struct loop_hook *h)
{
    list_del(&h->link);
}

// A marker keeps the place while a hook removes itself or its neighbours.
static void run_hooks(struct loop *l)
{
    struct list mark = { NULL, NULL };
    struct list *at = l->hooks.next;
    while (at != &l->hooks) {
        list_add_tail(at->next, &mark);
        struct loop_hook *h = container_of(at, struct loop_hook, link);
        if (h->fn(h))
            l->more = true;
        at = mark.next;
        list_del(&mark);
    }
}

static int64_t wait_time(struct loop *l, int64_t max_wait_ms)
{
    if (l->more || l->stop)
        return 0;
    int64_t wait = max_wait_ms < 0 ? -1 : max_wait_ms;
    if (l->n == 0)
        return wait;
    // The callbacks of the last turn took time: ask again.
    int64_t left = l->heap[1]->at_ms - clock_mono(l->clock);
    left = MAX(left, 0);
    return wait < 0 ? left : MIN(wait, left);
}

int loop_turn(struct loop *l, int64_t max_wait_ms, struct err *e)
{
    int64_t wait = wait_time(l, max_wait_ms);
    l->more = false;
    if (wait != 0)
        l->wakeups++;
    l->waked = false;
    int r = l->backend->wait(l->backend, l, wait, e);
    if (r != 0)
        return r;
    refresh_now(l);
    fire_due(l);
    run_hooks(l);
    return 0;
}

int loop_run(struct loop *l, struct err *e)
{
    int r = 0;
    while (r == 0 && !l->stop)
        r = loop_turn(l, -1, e);
    l->stop = false;
    return r;
}
