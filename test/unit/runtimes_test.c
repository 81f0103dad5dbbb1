// SPDX-License-Identifier: Apache-2.0
#include "port/runtimes.c"

#include "tap.h"

static const char *const argv[] = { "x", NULL };

static int refusing(struct port *p UNUSED, struct err *e)
{
    return err_set(e, E_UNSUP, "not here");
}

static int note(void *ctx, const struct inst *i)
{
    char *text = ctx;
    snprintf(text + strlen(text), 100 - strlen(text), "%s ", i->uid);
    return 0;
}

static const char *all_of(struct port *p, const char *owner)
{
    static char text[100];
    struct err e = ERR_INIT;
    text[0] = '\0';
    is_int(p->ops->each(p, owner, note, text, &e), 0, "each");
    return text;
}

static int start(struct port *p, const char *uid, const char *owner, int index, const char *runtime, struct err *e)
{
    struct inst_spec s = { .uid = uid, .owner = owner, .index = index, .exec.argv = argv, .runtime = runtime };
    return p->ops->start(p, &s, e);
}

static unsigned told;
static void on_changed(void *ctx UNUSED, const char *owner UNUSED)
{
    told++;
}

static void routes(struct loop *l)
{
    struct port *p = NULL, *list[3];
    struct err e = ERR_INIT;
    static struct port_ops not_here;
    is_int(port_fake_new(&list[0], l, &e) | port_null_new(&list[1], l, &e) | port_null_new(&list[2], l, &e), 0, "three ports");
    not_here = *list[2]->ops;
    not_here.name = "elsewhere";
    not_here.probe = refusing;
    list[2]->ops = &not_here;
    is_int(port_runtimes_new(&p, list, 3, "null", &e), 0, "are one");
    is_str(p->ops->name, "null", "named after the default");
    p->changed = on_changed;
    is_int(start(p, "b1", "b", 1, "fake", &e), 0, "a start on one");
    is_int(start(p, "b0", "b", 0, NULL, &e), 0, "on the default");
    is_int(start(p, "a0", "a", 0, "fake", &e), 0, "on the other again");
    is_int(start(p, "x", "a", 0, "elsewhere", &e), E_UNSUP, "on one that cannot be used");
    has_str(e.msg, "not here", "it is said why");
    is_int(start(p, "x", "a", 0, "container", &e), E_UNSUP, "on one that is not known");
    is_str(all_of(p, NULL), "a0 b0 b1 ", "all of them in order");
    is_str(all_of(p, "b"), "b0 b1 ", "of one owner");
    is_str(all_of(list[0], NULL), "a0 b1 ", "each has its own");
    is_int(p->ops->signal(p, "b0", 1, &e), 0, "a signal finds its instance");
    is_int(p->ops->signal(p, "nobody", 1, &e), E_NOTFOUND, "or says that there is none");
    is_int(p->ops->stop(p, "b0", 0, &e), 0, "a stop does, too");
    is_int(p->ops->forget(p, "b0", &e), 0, "and is forgotten");
    is_str(all_of(p, NULL), "a0 b1 ", "that one alone");
    is_int(loop_turn(l, 0, &e) | loop_turn(l, 0, &e), 0, "a turn");
    ok(told > 0, "changes are told");
    p->ops->free(p);
}

static void first_must_do(struct loop *l)
{
    struct port *p = NULL, *list[1];
    struct err e = ERR_INIT;
    static struct port_ops not_here;
    is_int(port_null_new(&list[0], l, &e), 0, "a port");
    not_here = *list[0]->ops;
    not_here.probe = refusing;
    list[0]->ops = &not_here;
    is_int(port_runtimes_new(&p, list, 1, "null", &e), E_UNSUP, "without the first there is nothing");
    ok(p == NULL, "no port");
}

int main(void)
{
    struct clock clock;
    struct loop_backend *b;
    struct loop *l;
    struct err e = ERR_INIT;
    clock_real_init(&clock);
    if (loop_backend_epoll(&b, &e) != 0 || loop_new(&l, &clock, b, &e) != 0)
        return 1;
    routes(l);
    first_must_do(l);
    loop_free(l);
    return done_testing();
}
