// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgeconfig_fight.c"

#include "tap.h"

enum { START = 1000000 };

static void test_begins(void)
{
    struct cfg_fight f = { 0 };
    for (int i = 0; i < FIGHT_REPAIRS; i++) {
        ok(fight_allows(&f, START + i), "field 25: repair %d comes at once", i + 1);
        ok(!fight_repaired(&f, "/etc/a", START + i), "  and is no fight yet");
    }
    ok(fight_repaired(&f, "/etc/a", START + 10), "field 25: the sixth within a minute begins a fight");
    is_str(f.path, "/etc/a", "about this path");
    ok(!fight_allows(&f, START + 10), "repairs are held back");
    ok(!fight_allows(&f, START + 10 + 9999), "for 10 s");
    ok(fight_allows(&f, START + 10 + 10000), "then one is allowed");
}

static void test_waits_grow(void)
{
    static const int64_t want_s[] = { 10, 20, 40, 80, 160, 300, 300, 300 };
    struct cfg_fight f = { 0 };
    int64_t now = START;
    for (int i = 0; i < FIGHT_REPAIRS; i++)
        (void)fight_repaired(&f, "/etc/a", now);
    int begun = 0;
    for (size_t i = 0; i < ARRAY_LEN(want_s); i++) {
        begun += fight_repaired(&f, "/etc/a", now);
        is_int(fight_wait_ms(&f), want_s[i] * 1000, "field 25: wait %zu is %lld s", i + 1, (long long)want_s[i]);
        is_int(f.until_ms - now, want_s[i] * 1000, "  from the repair on");
        now = f.until_ms;
    }
    is_int(begun, 1, "it begins once");
}

static void test_slow_is_no_fight(void)
{
    struct cfg_fight f = { 0 };
    bool begun = false;
    for (int i = 0; i < 30; i++)
        begun |= fight_repaired(&f, "/etc/a", START + i * 15000);
    ok(!begun, "one repair every 15 s is no fight");
    for (int i = 0; i < FIGHT_REPAIRS; i++) {
        begun |= fight_repaired(&f, "/etc/b", START + 1000000 + i);
        begun |= fight_repaired(&f, "/etc/c", START + 1000000 + i);
    }
    ok(!begun, "five each of two paths are none either");
}

static void test_one_round(void)
{
    struct cfg_fight f = { 0 };
    for (int i = 0; i <= FIGHT_REPAIRS; i++)
        (void)fight_repaired(&f, "/etc/a", START);
    int64_t now = f.until_ms;
    (void)fight_repaired(&f, "/etc/a", now);
    (void)fight_repaired(&f, "/etc/b", now);
    is_int(f.level, 2, "two paths put right together are one round");
}

static void test_calm(void)
{
    struct cfg_fight f = { 0 };
    int64_t look = -1;
    ok(!fight_calm(&f, START, &look), "peace does not end");
    is_int(look, -1, "and nobody need look");
    for (int i = 0; i <= FIGHT_REPAIRS; i++)
        (void)fight_repaired(&f, "/etc/a", START);
    ok(!fight_calm(&f, START + 59999, &look), "not over before a minute");
    is_int(look, START + 60000, "then it could be");
    ok(fight_calm(&f, START + 60000, &look), "over");
    ok(fight_allows(&f, START + 60000), "repairs come at once again");
    for (int i = 0; i <= FIGHT_REPAIRS; i++)
        (void)fight_repaired(&f, "/etc/a", START);
    for (int i = 0; i < 3; i++)
        (void)fight_repaired(&f, "/etc/a", f.until_ms);
    ok(!fight_calm(&f, f.last_ms + 2 * 80000 - 1, &look), "after long waits it takes longer");
    ok(fight_calm(&f, f.last_ms + 2 * 80000, &look), "twice the wait");
}

static void test_many_paths(void)
{
    struct cfg_fight f = { 0 };
    char path[32];
    for (int i = 0; i < 3 * CFG_ENTRIES_MAX; i++) {
        snprintf(path, sizeof(path), "/etc/%d", i);
        (void)fight_repaired(&f, path, START + i);
    }
    is_int(f.n, CFG_ENTRIES_MAX, "no more paths are counted than a spec can hold");
    ok(f.level == 0, "and none of them fights");
}

int main(void)
{
    test_begins();
    test_waits_grow();
    test_slow_is_no_fight();
    test_one_round();
    test_calm();
    test_many_paths();
    return done_testing();
}
