// SPDX-License-Identifier: Apache-2.0
#include "flow/workq.c"

#include "tap.h"

static struct workq *q;

static void fresh(size_t max)
{
    struct err e = ERR_INIT;
    workq_free(q);
    if (workq_new(&q, max, &e) < 0)
        abort();
}

static int push(const char *key, int64_t at, enum workq_prio prio, const char *why)
{
    struct err e = ERR_INIT;
    return workq_push(q, key, at, prio, why, &e);
}

// The next key at `now`, or "-".
static const char *pop_if(int64_t now, bool (*may)(void *, const char *))
{
    static char key[64], why[WORKQ_WHY_MAX];
    return workq_pop(q, now, may, NULL, key, sizeof(key), why) ? key : "-";
}

static const char *pop(int64_t now)
{
    return pop_if(now, NULL);
}

static void a_set(void)
{
    fresh(10);
    push("a", 0, WORKQ_LOW, "x");
    push("a", 0, WORKQ_LOW, "x");
    push("a", 5, WORKQ_HIGH, "x");
    is_int((int64_t)workq_len(q), 1, "a key queued three times is one");
    is_str(pop(10), "a", "and is worked");
    is_str(pop(10), "-", "once");
    workq_done(q, "a");
    is_str(pop(10), "-", "done is done");
    is_int((int64_t)table_count(&q->items), 0, "and nothing of it is kept");
}

static void while_worked(void)
{
    fresh(10);
    push("a", 0, WORKQ_LOW, "x");
    pop(0);
    push("a", 0, WORKQ_HIGH, "again");
    push("a", 0, WORKQ_HIGH, "again");
    is_str(pop(0), "-", "a key is never worked twice at the same time");
    ok(workq_working(q, "a"), "it is being worked");
    workq_done(q, "a");
    is_str(pop(0), "a", "pushed while worked: runs once more");
    workq_done(q, "a");
    is_str(pop(0), "-", "and not twice more");
}

static void order(void)
{
    fresh(10);
    push("low-early", 1, WORKQ_LOW, "");
    push("high-late", 3, WORKQ_HIGH, "");
    push("high-early", 2, WORKQ_HIGH, "");
    push("high-late2", 3, WORKQ_HIGH, "");
    push("future", 50, WORKQ_HIGH, "");
    is_int(workq_next_ms(q), 1, "the earliest delayed key is known");
    is_str(pop(10), "high-early", "high before low, early before late");
    is_str(pop(10), "high-late", "arrival decides a tie");
    is_str(pop(10), "high-late2", "first come, first served");
    is_str(pop(10), "low-early", "low comes last");
    is_str(pop(10), "-", "the future waits");
    is_int(workq_next_ms(q), 50, "until its time");
    is_str(pop(50), "future", "and then runs");
}

static void earlier_wins(void)
{
    fresh(10);
    push("a", 100, WORKQ_LOW, "resync");
    push("a", 20, WORKQ_LOW, "timer");
    push("a", 300, WORKQ_LOW, "resync");
    is_str(pop(19), "-", "not before its time");
    is_str(pop(20), "a", "an earlier time wins over a later one already set, and is not undone by a later one");
    workq_done(q, "a");
    push("b", 1000, WORKQ_LOW, "resync");
    push("b", 1000, WORKQ_HIGH, "change");
    push("c", 1000, WORKQ_LOW, "");
    is_str(pop(1000), "b", "a higher priority wins over a lower one already set");
    push("d", 0, WORKQ_LOW, "");
    is_str(pop(1000), "c", "c was due");
    push("d", 0, WORKQ_HIGH, "");
    push("e", 0, WORKQ_HIGH, "");
    is_str(pop(1000), "d", "a due key can be raised");
}

static bool not_a(void *ctx, const char *key)
{
    (void)ctx;
    return key[0] != 'a';
}

static void blocked(void)
{
    fresh(10);
    push("a1", 0, WORKQ_HIGH, "");
    push("b1", 0, WORKQ_LOW, "");
    is_str(pop_if(0, not_a), "b1", "what may not run is passed over");
    is_str(pop_if(0, not_a), "-", "and waits");
    is_int(workq_next_ms(q), INT64_MAX, "without waking anybody");
    is_str(pop(0), "a1", "until it may");
}

static void backoff(void)
{
    fresh(10);
    int64_t want = 5;
    push("a", 0, WORKQ_LOW, "");
    pop(0);
    for (int i = 0; i < 8; i++, want *= 2)
        is_int(workq_fail(q, "a", 0, 12345), want, "failure %d waits %d ms", i, (int)want);
    for (int i = 0; i < 40; i++) {
        int64_t d = workq_fail(q, "a", 0, (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15));
        if (d < 500 || d > WORKQ_BACKOFF_MAX_MS)
            ok(false, "failure %d waits %d ms", i, (int)d);
    }
    ok(workq_fail(q, "a", 0, UINT64_MAX) <= WORKQ_BACKOFF_MAX_MS, "bounded");
    int64_t asked = workq_fail(q, "a", 1000000, 77);
    ok(asked >= 1000000 && asked <= 1100000, "Retry-After is a lower bound, with jitter");
    workq_done(q, "a");
    ok(workq_failures(q, "a") > 40, "failures are remembered after the work");
    workq_forget(q, "a");
    is_int((int64_t)workq_failures(q, "a"), 0, "success forgets them");
    is_int((int64_t)table_count(&q->items), 0, "and the key");
}

static void bounds(void)
{
    fresh(2);
    is_int(push("a", 0, WORKQ_LOW, ""), 0, "first");
    is_int(push("b", 0, WORKQ_LOW, ""), 0, "second");
    is_int(push("c", 0, WORKQ_LOW, ""), E_TOOBIG, "over the bound is refused");
    is_int(push("a", 0, WORKQ_HIGH, ""), 0, "what is there can still be pushed");
    workq_remove(q, "b");
    is_int(push("c", 0, WORKQ_LOW, ""), 0, "and room is used again");
}

// Against a naive model: random pushes, pops, ends; nothing is lost, nothing runs early or twice.
static void random_walk(void)
{
    enum { KEYS = 40 };
    int64_t due[KEYS], now = 0;
    bool queued[KEYS] = { false }, working[KEYS] = { false }, again[KEYS] = { false };
    uint64_t r = 42;
    int bad = 0;
    fresh(KEYS);
    for (int step = 0; step < 200000; step++) {
        r = r * 6364136223846793005ULL + 1442695040888963407ULL;
        int k = (int)((r >> 33) % KEYS);
        char key[16];
        snprintf(key, sizeof(key), "k%d", k);
        switch ((r >> 60) & 3) {
        case 0: {
            int64_t at = now + (int64_t)((r >> 20) % 50);
            bad += push(key, at, (r >> 50) & 1 ? WORKQ_HIGH : WORKQ_LOW, "") != 0;
            bool *flag = working[k] ? &again[k] : &queued[k];
            due[k] = *flag ? MIN(due[k], at) : at;
            *flag = true;
            break;
        }
        case 1: {
            const char *got = pop(now);
            bool any = false;
            for (int i = 0; i < KEYS; i++)
                any = any || (queued[i] && !working[i] && due[i] <= now);
            if (got[0] == '-') {
                bad += any;
                break;
            }
            int g = atoi(got + 1);
            bad += !queued[g] || working[g] || due[g] > now;
            queued[g] = false;
            working[g] = true;
            break;
        }
        case 2:
            if (working[k]) {
                workq_done(q, key);
                working[k] = false;
                queued[k] = again[k];
                again[k] = false;
            }
            break;
        default:
            now += (int64_t)((r >> 40) % 20);
            break;
        }
    }
    is_int(bad, 0, "200,000 random steps agree with a naive model");
}

static void what_is_counted(void)
{
    struct workq_stats s;
    fresh(10);
    push("a", 100, WORKQ_HIGH, "x");
    push("a", 50, WORKQ_HIGH, "x");
    push("b", 60, WORKQ_LOW, "x");
    push("c", 900, WORKQ_LOW, "x");
    workq_stats(q, &s);
    is_int((intmax_t)s.adds, 3, "three keys came to wait, one of them twice");
    is_int((intmax_t)s.delayed, 3, "none is due");
    (void)pop(75);
    workq_stats(q, &s);
    is_int((intmax_t)s.ready, 1, "one is due and was not taken");
    is_int((intmax_t)s.delayed, 1, "one is not due");
    is_int((intmax_t)s.waited.sum_us, 25000, "the other was taken 25 ms after its time");
    (void)workq_fail(q, "a", 0, 0);
    workq_stats(q, &s);
    is_int((intmax_t)s.retries, 1, "a failure is tried again");
}

int main(void)
{
    a_set();
    while_worked();
    order();
    earlier_wins();
    blocked();
    backoff();
    bounds();
    random_walk();
    what_is_counted();
    workq_free(q);
    return done_testing();
}
