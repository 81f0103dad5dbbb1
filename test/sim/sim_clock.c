// SPDX-License-Identifier: Apache-2.0
// Time, chance, what is due, the timeline.
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sim.h"

// --- Chance (splitmix64)

uint64_t rng_next(struct sim_rng *r)
{
    uint64_t z = (r->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

int64_t rng_below(struct sim_rng *r, int64_t n)
{
    return n > 0 ? (int64_t)(rng_next(r) % (uint64_t)n) : 0;
}

int64_t rng_between(struct sim_rng *r, int64_t low, int64_t high)
{
    return low + rng_below(r, high - low + 1);
}

bool rng_chance(struct sim_rng *r, int percent)
{
    return rng_below(r, 100) < percent;
}

struct sim_rng sim_stream(const struct sim *s, const char *name)
{
    struct sim_rng r = { hash_bytes(HASH_SEED ^ s->seed, name, strlen(name)) };
    rng_next(&r);
    return r;
}

// --- What is due

void sim_init(struct sim *s, uint64_t seed, bool verbose)
{
    *s = (struct sim){ .seed = seed, .verbose = verbose, .hash = HASH_SEED };
}

// In the order of their times; of equal ones the one set first comes first.
static bool is_before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->nth < b->nth;
}

static struct sim_event *meld(struct sim_event *a, struct sim_event *b)
{
    if (a == NULL || b == NULL)
        return a != NULL ? a : b;
    struct sim_event *first = is_before(b, a) ? b : a, *other = first == a ? b : a;
    other->next = first->child;
    if (other->next != NULL)
        other->next->prev = other;
    other->prev = first;
    first->child = other;
    return first;
}

// Two by two, then all into one, from the back.
static struct sim_event *meld_all(struct sim_event *list)
{
    struct sim_event *pairs = NULL, *all = NULL;
    while (list != NULL) {
        struct sim_event *a = list, *b = a->next;
        list = b != NULL ? b->next : NULL;
        a->next = NULL;
        a = meld(a, b);
        a->next = pairs;
        pairs = a;
    }
    while (pairs != NULL) {
        struct sim_event *rest = pairs->next;
        all = meld(pairs, all);
        pairs = rest;
    }
    return all;
}

static void put_in_place(struct sim_event *ev, struct sim_event *before, struct sim_event *after, bool first)
{
    struct sim_event *at = ev != NULL ? ev : after;
    if (first)
        before->child = at;
    else
        before->next = at;
    if (ev != NULL) {
        ev->prev = before;
        ev->next = after;
    }
    if (after != NULL)
        after->prev = ev != NULL ? ev : before;
}

bool sim_is_set(const struct sim_event *ev)
{
    return ev->prev != NULL;
}

// What came after it takes its place.
void sim_unset(struct sim_event *ev)
{
    if (!sim_is_set(ev))
        return;
    struct sim_event *before = ev->prev, *after = ev->next;
    bool first = before->child == ev;
    put_in_place(meld_all(ev->child), before, after, first);
    ev->child = ev->next = ev->prev = NULL;
}

void sim_at(struct sim *s, struct sim_event *ev, int64_t at_ms, void (*fn)(struct sim_event *ev))
{
    sim_unset(ev);
    ev->at_ms = MAX(at_ms, s->now_ms);
    ev->nth = ++s->n_set;
    ev->fn = fn;
    ev->next = NULL;
    put_in_place(meld(s->due.child, ev), &s->due, NULL, true);
}

void sim_in(struct sim *s, struct sim_event *ev, int64_t delay_ms, void (*fn)(struct sim_event *ev))
{
    sim_at(s, ev, s->now_ms + delay_ms, fn);
}

int64_t sim_next(const struct sim *s)
{
    return s->due.child != NULL ? s->due.child->at_ms : INT64_MAX;
}

void sim_run_due(struct sim *s, int64_t at_ms)
{
    s->now_ms = MAX(s->now_ms, at_ms);
    while (sim_next(s) <= s->now_ms) {
        struct sim_event *ev = s->due.child;
        sim_unset(ev);
        ev->fn(ev);
    }
}

void sim_run_to(struct sim *s, int64_t at_ms)
{
    while (sim_next(s) <= at_ms)
        sim_run_due(s, sim_next(s));
    s->now_ms = MAX(s->now_ms, at_ms);
}

// --- The timeline

static int stamp(const struct sim *s, char *out, size_t max, const char *who)
{
    int64_t ms = s->now_ms;
    return snprintf(out, max, "%3" PRId64 ":%02" PRId64 ".%03" PRId64 " %-7s ", ms / MINUTE, ms / 1000 % 60, ms % 1000, who);
}

void sim_note(struct sim *s, const char *who, const char *fmt, ...)
{
    char *line = s->notes[s->n_notes++ % NOTES_KEPT];
    int n = stamp(s, line, NOTE_MAX, who);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line + n, (size_t)(NOTE_MAX - n), fmt, ap);
    va_end(ap);
    s->hash = hash_bytes(s->hash, line, strlen(line));
    if (s->verbose)
        printf("# %s\n", line);
}

void sim_trace(const struct sim *s, const char *fmt, ...)
{
    char line[NOTE_MAX];
    va_list ap;
    if (!s->verbose)
        return;
    stamp(s, line, sizeof(line), "...");
    printf("# %s", line);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
}

void sim_shows(const struct sim *s, size_t last)
{
    uint64_t n = MIN(MIN(s->n_notes, (uint64_t)NOTES_KEPT), (uint64_t)last);
    for (uint64_t i = s->n_notes - n; i < s->n_notes; i++)
        printf("# %s\n", s->notes[i % NOTES_KEPT]);
}

void sim_violation(struct sim *s, const char *fmt, ...)
{
    if (s->broken)
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(s->verdict, sizeof(s->verdict), fmt, ap);
    va_end(ap);
    s->rule = fmt;
    s->broken = true;
    sim_note(s, "BROKEN", "%.200s", s->verdict);
}

void sim_hit(struct sim *s, enum sim_fault f)
{
    s->hits[f]++;
}

bool sim_effect(struct sim *s)
{
    s->effects++;
    if (s->fatal != 0 && s->effects >= s->fatal && !s->dead) {
        s->dead = true;
        sim_note(s, "world", "the agent dies at effect %" PRIu64, s->effects);
    }
    return !s->dead;
}

// --- The machine's clock

#define WORLD_BEGAN_US (INT64_C(1893456000) * 1000000) // 2030-01-01T00:00:00Z
enum { MONO_AT_BOOT_MS = 7000 };

int64_t sim_true_us(const struct sim *s)
{
    return WORLD_BEGAN_US + s->now_ms * 1000;
}

static struct sim_clock *self(struct clock *c)
{
    return container_of(c, struct sim_clock, clock);
}

static int64_t mono_ms(struct clock *c)
{
    return self(c)->sim->now_ms - self(c)->booted_ms + MONO_AT_BOOT_MS;
}

static int64_t drifted_us(const struct sim_clock *c)
{
    return (c->sim->now_ms - c->drift_from_ms) * 1000 * c->drift_s_day / 86400;
}

static int64_t wall_us(struct clock *c)
{
    return sim_true_us(self(c)->sim) + self(c)->wall_off_us + drifted_us(self(c));
}

void sim_clock_step(struct sim_clock *c, int64_t off_us)
{
    c->wall_off_us = off_us;
    c->drift_from_ms = c->sim->now_ms;
    c->lied = c->lied || off_us > 0 || (c->synced && off_us != 0);
}

void sim_clock_drift(struct sim_clock *c, int64_t s_per_day)
{
    c->wall_off_us += drifted_us(c);
    c->drift_from_ms = c->sim->now_ms;
    c->drift_s_day = s_per_day;
    c->lied = c->lied || (c->synced && s_per_day != 0);
}

static bool synced(struct clock *c)
{
    return self(c)->synced;
}

static void random_bytes(struct clock *c, void *p, size_t n)
{
    for (unsigned char *at = p; n > 0; at++, n--)
        *at = (unsigned char)(rng_next(&self(c)->rng) >> 32);
}

static void boot_id(struct clock *c, char out[37])
{
    snprintf(out, 37, "%08x-5eed-4000-8000-%012x", (unsigned)self(c)->boots, (unsigned)self(c)->sim->seed);
}

void sim_clock_init(struct sim_clock *c, struct sim *s)
{
    static const struct clock_ops ops = { mono_ms, mono_ms, wall_us, synced, random_bytes, boot_id, NULL };
    *c = (struct sim_clock){
        .clock.ops = &ops, .sim = s, .rng = sim_stream(s, "agent"), .booted_ms = s->now_ms, .synced = true, .boots = 1
    };
}

void sim_clock_reboot(struct sim_clock *c)
{
    const struct clock_ops *ops = c->clock.ops;
    c->clock = (struct clock){ .ops = ops }; // what the agent learned of it was in its memory
    c->booted_ms = c->sim->now_ms;
    c->boots++;
}
