// SPDX-License-Identifier: Apache-2.0
#include "kinds/registry.c"

#include "tap.h"

static const char *const shorts[] = { "eapp", "ea", NULL };
static const struct kind app = { .type = { "edge.limpet.dev", "v1alpha1", "edgeapps" }, .name = "EdgeApp", .short_names = shorts };
static const struct kind config = { .type = { "edge.limpet.dev", "v1alpha1", "edgeconfigs" }, .name = "EdgeConfig" };
static const struct kind other = { .type = { "example.org", "v1", "edgeapps" }, .name = "Other" };

static int count(void *ctx, const struct kind *k)
{
    (void)k;
    return ++*(int *)ctx == 2 ? 42 : 0;
}

int main(void)
{
    struct registry *r;
    struct err e = ERR_INIT;
    int n = 0;
    is_int(registry_new(&r, &e), 0, "a registry");
    is_int(registry_add(r, &app, &e), 0, "a kind");
    is_int(registry_add(r, &config, &e), 0, "another");
    is_int(registry_add(r, &app, &e), E_EXISTS, "the same twice");
    is_int(registry_add(r, &other, &e), E_EXISTS, "the same plural of another group: a key names no group");
    has_str(e.msg, "edgeapps is taken by EdgeApp", "and says so");
    is_int((intmax_t)registry_count(r), 2, "two kinds");
    ok(registry_of_key(r, "edgeapps/ns/x") == &app, "by key");
    ok(registry_of_key(r, "edgeapp/ns/x") == NULL, "a part of the plural is none");
    ok(registry_of_key(r, "edgeappsx/ns/x") == NULL, "nor is more than it");
    ok(registry_of_key(r, "") == NULL, "nor nothing");
    ok(registry_find(r, "EDGEAPPS") == &app, "by plural, any case");
    ok(registry_find(r, "edgeapp") == &app, "by singular");
    ok(registry_find(r, "EdgeConfig") == &config, "by Kind");
    ok(registry_find(r, "ea") == &app, "by short name");
    ok(registry_find(r, "ecfg") == NULL, "none of that name");
    is_int(registry_each(r, count, &n), 42, "each stops when told");
    is_int(n, 2, "in order");
    registry_remove(r, &app);
    registry_remove(r, &app);
    ok(registry_of_key(r, "edgeapps/ns/x") == NULL, "removed, and again");
    is_int(registry_add(r, &other, &e), 0, "the plural is free again");
    registry_free(r);
    return done_testing();
}
