// SPDX-License-Identifier: Apache-2.0
#include "port/insts.c"

#include "fake_clock.h"
#include "tap.h"

// What ports share: telling is later, once, and survives whatever the callback does.
struct told {
    struct port port;
    struct insts *set;
    char text[200];
    struct inst_node *remove; // taken out by the callback
    int again;                // how often the callback marks the first one anew
};

static void on_changed(void *ctx, const char *owner)
{
    struct told *t = ctx;
    size_t n = strlen(t->text);
    snprintf(t->text + n, sizeof(t->text) - n, "%s ", owner);
    if (t->remove != NULL)
        insts_del(t->set, t->remove);
    t->remove = NULL;
    if (t->again-- > 0)
        insts_changed(t->set, container_of(t->set->all.next, struct inst_node, link));
}

static void turn(struct loop *l)
{
    struct err e = ERR_INIT;
    ok(loop_turn(l, 0, &e) == 0, "a turn");
}

static void add(struct insts *s, struct inst_node *n, const char *uid, const char *owner, int index)
{
    struct inst_spec spec = { .uid = uid, .owner = owner, .index = index };
    insts_fill(s, n, &spec);
    insts_add(s, n);
}

static void telling(struct loop *l)
{
    struct insts s;
    struct inst_node a, b, c;
    struct told t = { .port = { .changed = on_changed, .ctx = &t }, .set = &s };
    insts_init(&s, l, &t.port);
    add(&s, &a, "a", "A", 0);
    add(&s, &b, "b", "B", 0);
    add(&s, &c, "c", "C", 0);
    insts_changed(&s, &c);
    insts_changed(&s, &a);
    insts_changed(&s, &a);
    is_str(t.text, "", "nobody is told from inside");
    turn(l);
    is_str(t.text, "A C ", "each one once, in order");
    t.text[0] = '\0';
    insts_changed(&s, &a);
    insts_changed(&s, &b);
    insts_changed(&s, &c);
    t.remove = &b;
    turn(l);
    is_str(t.text, "A C ", "who was taken out by the callback is not told of");
    t.text[0] = '\0';
    t.again = 1000;
    insts_changed(&s, &a);
    turn(l);
    ok(strlen(t.text) <= 4, "a callback that marks anew does not keep the turn");
    t.again = 0;
    turn(l);
    t.port.changed = NULL;
    insts_changed(&s, &a);
    turn(l);
    ok(!a.changed, "without a listener nothing is told");
    insts_del(&s, &a);
    insts_del(&s, &c);
    is_int(s.n, 0, "all are gone");
    insts_fini(&s);
}

static void names(void)
{
    ok(inst_uid_ok("a-1.b") && inst_uid_ok("0"), "good uids");
    static const char *const bad[] = { "", ".", "..", ".a", "a/b", "A", "a b", "a_b", "\xc3\xa4" };
    for (size_t k = 0; k < ARRAY_LEN(bad); k++)
        ok(!inst_uid_ok(bad[k]), "not a uid: \"%s\"", bad[k]);
    ok(!inst_uid_ok(NULL), "no uid");
    static const char *const logs[] = { "", ".", ".x", "a/b", "a\nb" };
    for (size_t k = 0; k < ARRAY_LEN(logs); k++)
        is_int(log_name_check(logs[k], NULL), E_INVAL, "not a log name: %zu", k);
    is_int(log_name_check("web-0", NULL), 0, "a log name");
}

int main(void)
{
    struct fake_clock fc;
    struct loop *l;
    struct loop_backend *b;
    struct err e = ERR_INIT;
    fake_clock_init(&fc, 1);
    if (!ok(loop_backend_epoll(&b, &e) == 0 && loop_new(&l, &fc.clock, b, &e) == 0, "a loop"))
        return done_testing();
    telling(l);
    names();
    loop_free(l);
    return done_testing();
}
