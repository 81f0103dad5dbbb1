// SPDX-License-Identifier: Apache-2.0
// shrink — the simulator of the simulator: a rule that is broken on purpose is found, shrunk to what it takes, and breaks again from that.
#include <stdlib.h>
#include <string.h>

#include "sim_run.h"
#include "sim_shrink.h"
#include "tap.h"

enum { SEEDS = 20 };

// --- The search itself

static bool holds_3_and_11(void *ctx, const int *items, size_t n)
{
    bool three = false, eleven = false;
    ++*(int *)ctx;
    for (size_t i = 0; i < n; i++) {
        three = three || items[i] == 3;
        eleven = eleven || items[i] == 11;
    }
    return three && eleven;
}

static size_t search(int items[64], int max_tries, int *tries)
{
    *tries = 0;
    for (int i = 0; i < 64; i++)
        items[i] = i;
    return shrink(items, 64, holds_3_and_11, tries, max_tries);
}

static void finds_the_two(void)
{
    int items[64], tries;
    size_t n = search(items, 1000, &tries);
    is_int((intmax_t)n, 2, "of 64 two are left");
    ok(items[0] == 3 && items[1] == 11, "the right ones, in their order");
    ok(tries < 64, "after %d tries", tries);
    n = search(items, 5, &tries);
    ok(n > 2 && n < 64 && tries == 5, "stopped early, it has what it found so far: %zu", n);
    ok(holds_3_and_11(&tries, items, n), "with which it still fails");
}

// --- A broken rule: it takes two specs of app-1 and two of cfg-0

static bool changed(struct world *w, const char *plural, const char *name)
{
    const struct sim_object *o = sim_server_find(&w->server, plural, name);
    return o != NULL && o->generation >= 2;
}

static void no_two_changed(struct world *w)
{
    if (changed(w, "edgeapps", "app-1") && changed(w, "edgeconfigs", "cfg-0"))
        sim_violation(&w->sim, "both were changed");
}

static bool find_seed(struct plan *p, struct outcome *out)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        plan_make(p, seed);
        p->brief = true;
        run_apart(p, SHOW_NOTHING, out);
        if (out->broken)
            return true;
    }
    return false;
}

static void shrinks_to_what_it_takes(void)
{
    struct plan p;
    struct outcome out, again;
    sim_hook = no_two_changed;
    if (!ok(find_seed(&p, &out), "a seed breaks the rule"))
        return;
    size_t all = p.n;
    ok(run_shrink(&p, &out), "and does so again");
    is_str(out.verdict, "both were changed", "with the same words");
    is_int((intmax_t)p.n, 4, "of its %zu acts it takes four", all);
    run_apart(&p, SHOW_NOTHING, &again);
    ok(again.broken && strcmp(again.verdict, out.verdict) == 0, "these four break it");
    uint64_t hash = again.hash;
    run_apart(&p, SHOW_NOTHING, &again);
    ok(again.hash == hash, "in the same world each time");
    int three[] = { p.acts[0].number, p.acts[1].number, p.acts[2].number };
    plan_keep(&p, three, 3);
    run_apart(&p, SHOW_NOTHING, &again);
    ok(!again.broken, "and three of them do not");
}

static void die(struct world *w UNUSED)
{
    abort();
}

static void a_crash_is_an_outcome(void)
{
    struct plan p;
    struct outcome out;
    plan_make(&p, 1);
    sim_hook = die;
    run_apart(&p, SHOW_NOTHING, &out);
    ok(out.broken, "an agent that crashes is an outcome: %s", out.verdict);
    sim_hook = NULL;
}

int main(void)
{
    finds_the_two();
    shrinks_to_what_it_takes();
    a_crash_is_an_outcome();
    return done_testing();
}
