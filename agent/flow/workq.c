// SPDX-License-Identifier: Apache-2.0
#include "flow/workq.h"

#include <stdio.h>
#include <string.h>

#include "base/table.h"

// One node a key, as long as the key is waiting, being worked, or has failures to remember.
struct item {
    struct table_node node;
    struct list ready; // linked: its time has come
    size_t heap_pos;   // 1-based, 0 = not in the heap
    int64_t at_ms;
    uint64_t arrival;
    enum workq_prio prio;
    bool working;
    bool again; // pushed while being worked: at_ms, prio and why hold the request
    unsigned failures;
    char why[WORKQ_WHY_MAX];
    char key[];
};

struct workq {
    struct table items;
    struct list ready[2]; // due, by priority, in order of due time
    size_t n_ready;
    struct item **heap; // the delayed ones by due time; heap[0] unused
    size_t len, alloc, max_keys;
    uint64_t arrivals, retries;
    struct histo waited;
};

static struct item *item_of(struct table_node *n)
{
    return container_of(n, struct item, node);
}

int workq_new(struct workq **out, size_t max_keys, struct err *e)
{
    struct workq *q = calloc(1, sizeof(*q));
    if (q == NULL)
        return err_set(e, E_NOMEM, "work queue");
    table_init(&q->items);
    list_init(&q->ready[WORKQ_HIGH]);
    list_init(&q->ready[WORKQ_LOW]);
    q->max_keys = max_keys;
    *out = q;
    return 0;
}

void workq_free(struct workq *q)
{
    if (q == NULL)
        return;
    table_each_safe(n, &q->items) free(item_of(n));
    table_fini(&q->items);
    free(q->heap);
    free(q);
}

// The heap by due time.

static void heap_put(struct workq *q, size_t pos, struct item *it)
{
    q->heap[pos] = it;
    it->heap_pos = pos;
}

static bool due_before(const struct item *a, const struct item *b)
{
    return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->arrival < b->arrival;
}

static void heap_up(struct workq *q, size_t pos)
{
    struct item *it = q->heap[pos];
    for (; pos > 1 && due_before(it, q->heap[pos / 2]); pos /= 2)
        heap_put(q, pos, q->heap[pos / 2]);
    heap_put(q, pos, it);
}

static void heap_down(struct workq *q, size_t pos)
{
    struct item *it = q->heap[pos];
    for (size_t child; (child = 2 * pos) <= q->len; pos = child) {
        if (child < q->len && due_before(q->heap[child + 1], q->heap[child]))
            child++;
        if (!due_before(q->heap[child], it))
            break;
        heap_put(q, pos, q->heap[child]);
    }
    heap_put(q, pos, it);
}

static void heap_remove(struct workq *q, struct item *it)
{
    size_t pos = it->heap_pos;
    if (pos == 0)
        return;
    it->heap_pos = 0;
    struct item *last = q->heap[q->len--];
    if (last == it)
        return;
    heap_put(q, pos, last);
    heap_up(q, pos);
    heap_down(q, last->heap_pos);
}

static int heap_reserve(struct workq *q, struct err *e)
{
    if (q->len + 2 <= q->alloc)
        return 0;
    size_t n = q->alloc == 0 ? 64 : q->alloc * 2;
    struct item **h = realloc(q->heap, n * sizeof(struct item *));
    if (h == NULL)
        return err_set(e, E_NOMEM, "work queue of %zu keys", n);
    q->heap = h;
    q->alloc = n;
    return 0;
}

static void heap_add(struct workq *q, struct item *it)
{
    heap_put(q, ++q->len, it);
    heap_up(q, q->len);
}

// Items.

static bool is_queued(const struct item *it)
{
    return it->heap_pos != 0 || list_linked(&it->ready);
}

static void unqueue(struct workq *q, struct item *it)
{
    heap_remove(q, it);
    if (!list_linked(&it->ready))
        return;
    list_del(&it->ready);
    q->n_ready--;
}

static struct item *item_get(const struct workq *q, const char *key)
{
    struct table_node *n = table_get(&q->items, key);
    return n != NULL ? item_of(n) : NULL;
}

static struct item *item_new(struct workq *q, const char *key, struct err *e)
{
    if (table_count(&q->items) >= q->max_keys) {
        err_set(e, E_TOOBIG, "work queue: more than %zu keys", q->max_keys);
        return NULL;
    }
    size_t n = strlen(key) + 1;
    struct item *it = calloc(1, sizeof(*it) + n);
    if (it == NULL) {
        err_set(e, E_NOMEM, "work queue: %s", key);
        return NULL;
    }
    memcpy(it->key, key, n);
    it->node.key = it->key;
    list_init(&it->ready);
    if (table_put(&q->items, &it->node, e) < 0) {
        free(it);
        return NULL;
    }
    return it;
}

// An item without a reason to exist goes.
static void item_settle(struct workq *q, struct item *it)
{
    if (is_queued(it) || it->working || it->failures > 0)
        return;
    table_del(&q->items, &it->node);
    free(it);
}

static void set_why(struct item *it, const char *why)
{
    snprintf(it->why, sizeof(it->why), "%s", why != NULL ? why : "");
}

// Merges a request into what is already asked for: earlier wins, higher priority wins.
static void merge(struct item *it, bool asked, int64_t at_ms, enum workq_prio prio, const char *why)
{
    if (!asked || prio < it->prio || (prio == it->prio && at_ms < it->at_ms))
        set_why(it, why);
    it->at_ms = asked ? MIN(it->at_ms, at_ms) : at_ms;
    it->prio = asked ? MIN(it->prio, prio) : prio;
}

int workq_push(struct workq *q, const char *key, int64_t at_ms, enum workq_prio prio, const char *why, struct err *e)
{
    int rc = heap_reserve(q, e);
    if (rc < 0)
        return rc;
    struct item *it = item_get(q, key);
    if (it == NULL && (it = item_new(q, key, e)) == NULL)
        return e != NULL && e->cls != 0 ? e->cls : E_NOMEM;
    if (it->working) {
        merge(it, it->again, at_ms, prio, why);
        it->again = true;
        return 0;
    }
    if (list_linked(&it->ready) && prio >= it->prio)
        return 0; // its time has come already
    bool waiting = is_queued(it);
    if (waiting)
        unqueue(q, it);
    else
        it->arrival = ++q->arrivals;
    merge(it, waiting, at_ms, prio, why);
    heap_add(q, it);
    return 0;
}

// Delayed keys whose time has come move to the list of their priority, in order of due time.
static void promote(struct workq *q, int64_t now_ms)
{
    while (q->len > 0 && q->heap[1]->at_ms <= now_ms) {
        struct item *it = q->heap[1];
        heap_remove(q, it);
        list_add_tail(&q->ready[it->prio], &it->ready);
        q->n_ready++;
    }
}

static struct item *first_allowed(struct list *l, bool (*may)(void *ctx, const char *key), void *ctx)
{
    list_each(n, l) {
        struct item *it = container_of(n, struct item, ready);
        if (may == NULL || may(ctx, it->key))
            return it;
    }
    return NULL;
}

bool workq_pop(struct workq *q, int64_t now_ms, bool (*may)(void *ctx, const char *key), void *ctx, char *key, size_t key_max,
               char why[WORKQ_WHY_MAX])
{
    promote(q, now_ms);
    struct item *it = first_allowed(&q->ready[WORKQ_HIGH], may, ctx);
    if (it == NULL)
        it = first_allowed(&q->ready[WORKQ_LOW], may, ctx);
    if (it == NULL || strlen(it->key) >= key_max)
        return false;
    unqueue(q, it);
    it->working = true;
    histo_add(&q->waited, 1000 * (now_ms - it->at_ms));
    snprintf(key, key_max, "%s", it->key);
    snprintf(why, WORKQ_WHY_MAX, "%s", it->why);
    return true;
}

void workq_done(struct workq *q, const char *key)
{
    struct item *it = item_get(q, key);
    if (it == NULL || !it->working)
        return;
    it->working = false;
    if (it->again) {
        it->again = false;
        it->arrival = ++q->arrivals;
        heap_add(q, it); // room was reserved by the push
    }
    item_settle(q, it);
}

int64_t workq_fail(struct workq *q, const char *key, int64_t retry_after_ms, uint64_t rnd)
{
    struct item *it = item_get(q, key);
    unsigned n = it != NULL ? it->failures : 0;
    int64_t delay = WORKQ_BACKOFF_MIN_MS;
    q->retries++;
    for (unsigned i = 0; i < n && delay < WORKQ_BACKOFF_MAX_MS; i++)
        delay *= 2;
    delay = MIN(delay, (int64_t)WORKQ_BACKOFF_MAX_MS);
    if (it != NULL && it->failures < 64)
        it->failures++;
    // Full jitter would make the first, short tries meaningless; above a second it spreads a fleet.
    if (delay > 1000)
        delay = delay / 2 + (int64_t)(rnd % (uint64_t)(delay / 2 + 1));
    if (retry_after_ms > delay)
        delay = retry_after_ms + (int64_t)(rnd % (uint64_t)(retry_after_ms / 10 + 1));
    return delay;
}

void workq_forget(struct workq *q, const char *key)
{
    struct item *it = item_get(q, key);
    if (it == NULL)
        return;
    it->failures = 0;
    item_settle(q, it);
}

void workq_remove(struct workq *q, const char *key)
{
    struct item *it = item_get(q, key);
    if (it == NULL)
        return;
    unqueue(q, it);
    it->again = false;
    it->failures = 0;
    item_settle(q, it);
}

int64_t workq_next_ms(const struct workq *q)
{
    return q->len > 0 ? q->heap[1]->at_ms : INT64_MAX;
}

size_t workq_len(const struct workq *q)
{
    return q->len + q->n_ready;
}

void workq_stats(const struct workq *q, struct workq_stats *out)
{
    *out = (struct workq_stats){ .adds = q->arrivals, .retries = q->retries, .ready = q->n_ready, .delayed = q->len, .waited = q->waited };
}

unsigned workq_failures(const struct workq *q, const char *key)
{
    const struct item *it = item_get(q, key);
    return it != NULL ? it->failures : 0;
}

bool workq_working(const struct workq *q, const char *key)
{
    const struct item *it = item_get(q, key);
    return it != NULL && it->working;
}
