// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

static int no_memory;

static void *test_calloc(size_t n, size_t size)
{
    return no_memory ? NULL : calloc(n, size);
}

#define calloc(n, size) test_calloc(n, size)
#include "base/table.c"
#undef calloc

#include "tap.h"

enum { MANY = 2000 };

struct thing {
    struct table_node node;
    char key[24];
    unsigned seen;
};

static struct thing things[MANY];

static void fill(struct table *t)
{
    struct err e = ERR_INIT;
    unsigned failed = 0;
    table_init(t);
    for (int i = 0; i < MANY; i++) {
        snprintf(things[i].key, sizeof(things[i].key), "edgeapp/ns/%d", i);
        things[i].node = (struct table_node){ .key = things[i].key };
        things[i].seen = 0;
        failed += table_put(t, &things[i].node, &e) != 0;
    }
    is_int(failed, 0, "%d keys go in", MANY);
    is_int(table_count(t), MANY, "and are counted");
}

static void test_many(void)
{
    struct table t;
    fill(&t);
    unsigned wrong = 0;
    for (int i = 0; i < MANY; i++) {
        char key[24];
        strcpy(key, things[i].key);
        wrong += table_get(&t, key) != &things[i].node;
    }
    is_int(wrong, 0, "each is found by an equal text");
    ok(table_get(&t, "edgeapp/ns/") == NULL && table_get(&t, "") == NULL, "no other is");
    struct err e = ERR_INIT;
    struct table_node twin = { .key = "edgeapp/ns/7" };
    is_int(table_put(&t, &twin, &e), E_EXISTS, "a key is in once");
    ok(table_get(&t, "edgeapp/ns/7") == &things[7].node, "the first one stays");

    for (int i = 0; i < MANY; i += 2)
        table_del(&t, &things[i].node);
    wrong = 0;
    for (int i = 0; i < MANY; i++)
        wrong += (table_get(&t, things[i].key) != NULL) != (i % 2 != 0);
    is_int(wrong, 0, "every other one deleted, the rest still found");
    table_del(&t, &things[0].node);
    is_int(table_count(&t), MANY / 2, "deleting what is not inside changes nothing");
    is_int(table_put(&t, &things[0].node, &e), 0, "a deleted one goes in again");
    table_fini(&t);
    is_int(table_count(&t), 0, "nothing is left");
    ok(table_get(&t, "edgeapp/ns/7") == NULL, "and nothing found");
    table_fini(&t);
}

static struct thing *thing_of(struct table_node *n)
{
    return container_of(n, struct thing, node);
}

static void test_iteration(void)
{
    struct table t;
    fill(&t);
    table_each_safe(n, &t) thing_of(n)->seen++;
    unsigned wrong = 0;
    for (int i = 0; i < MANY; i++)
        wrong += things[i].seen != 1;
    is_int(wrong, 0, "each is visited once");

    table_each_safe(n, &t)
    {
        table_del(&t, n);
        memset(n, 0xee, sizeof(*n)); // as if freed
    }
    is_int(table_count(&t), 0, "each may be deleted when it is visited");
    ok(table_first(&t) == NULL, "and then there is none");
    table_fini(&t);
    ok(table_first(&t) == NULL, "nor in a table without memory");
}

static void test_memory(void)
{
    struct table t;
    struct err e = ERR_INIT;
    struct table_node n = { .key = "first" };
    table_init(&t);
    no_memory = 1;
    is_int(table_put(&t, &n, &e), E_NOMEM, "without memory the first does not go in");
    is_int(table_count(&t), 0, "nothing is counted");
    no_memory = 0;
    is_int(table_put(&t, &n, &e), 0, "with memory it does");
    no_memory = 1;
    unsigned failed = 0, lost = 0;
    for (int i = 0; i < MANY; i++) {
        snprintf(things[i].key, sizeof(things[i].key), "%d", i);
        things[i].node = (struct table_node){ .key = things[i].key };
        failed += table_put(&t, &things[i].node, &e) != 0;
    }
    for (int i = 0; i < MANY; i++)
        lost += table_get(&t, things[i].key) != &things[i].node;
    no_memory = 0;
    is_int(failed, 0, "then no memory to grow only makes it slower");
    is_int(lost, 0, "and loses nothing");
    table_fini(&t);
}

int main(void)
{
    test_many();
    test_iteration();
    test_memory();
    return done_testing();
}
