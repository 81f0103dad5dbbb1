// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgenode.c"

#include "kind_rig.h"

#define NODE "edgenodes", "edge-1"

enum { SETTLE_MS = 100 };

static void make_machine(struct rig *r)
{
    static const char *const dirs[] = { "/proc", "/proc/sys",    "/proc/sys/kernel",    "/proc/net",
                                        "/sys",  "/sys/devices", "/sys/devices/system", "/sys/devices/system/cpu" };
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
        (void)mkdir(rig_path(r, dirs[i]), 0755);
    rig_write(r, "/etc/machine-id", "0123456789abcdef0123456789abcdef\n", 0444);
    rig_write(r, "/etc/os-release", "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n", 0644);
    rig_write(r, "/proc/sys/kernel/osrelease", "6.1.0-1-amd64\n", 0444);
    rig_write(r, "/proc/sys/kernel/hostname", "box\n", 0444);
    rig_write(r, "/proc/sys/kernel/arch", "riscv64\n", 0444);
    rig_write(r, "/proc/meminfo", "MemTotal:        3921772 kB\n", 0444);
    rig_write(r, "/sys/devices/system/cpu/online", "0-3\n", 0444);
    rig_write(r, "/proc/net/fib_trie", "   |-- 192.0.2.7\n      /32 host LOCAL\n", 0444);
}

static void test_inventory(void)
{
    struct rig r;
    rig_start(&r);
    make_machine(&r);
    rig_apply(&r, NODE, "{\"description\":\"Hall 3\"}");
    rig_run(&r, SETTLE_MS);
    is_str(rig_field(&r, NODE, "nodeInfo"),
           "{\"machineID\":\"0123456789abcdef0123456789abcdef\",\"bootID\":\"00000000-1111-2222-3333-444444444444\","
           "\"kernelVersion\":\"6.1.0-1-amd64\",\"osImage\":\"Debian GNU/Linux 12 (bookworm)\",\"architecture\":\"riscv64\","
           "\"hostname\":\"box\",\"agentVersion\":\"" LIMPET_VERSION "\",\"port\":\"fake\"}",
           "nodeInfo");
    is_str(rig_field(&r, NODE, "capacity"), "{\"cpu\":\"4\",\"memory\":\"3921772Ki\"}", "capacity");
    is_str(rig_field(&r, NODE, "addresses"),
           "[{\"type\":\"InternalIP\",\"address\":\"192.0.2.7\"},{\"type\":\"Hostname\",\"address\":\"box\"}]", "addresses");
    is_str(rig_condition(&r, NODE, "ClockTrusted"), "True Trusted", "ClockTrusted");
    is_str(rig_condition(&r, NODE, "OutboxBacklog"), "False Short", "OutboxBacklog");
    is_str(rig_condition(&r, NODE, "StoreSalvaged"), "False Intact", "StoreSalvaged");
    is_str(rig_condition(&r, NODE, "IdentityLost"), "False Known", "IdentityLost");
    is_str(rig_condition(&r, NODE, "DuplicateNode"), "False Alone", "DuplicateNode");
    ok(rig_condition(&r, NODE, "DiskPressure")[0] != '\0', "DiskPressure");
    uint64_t writes = rig_status_writes(&r);
    rig_run(&r, 3600000);
    is_int((intmax_t)(rig_status_writes(&r) - writes), 0, "an hour in which nothing happens writes nothing");
    rig_end(&r);
}

static void test_bare_machine(void)
{
    struct rig r;
    rig_start(&r);
    rig_apply(&r, NODE, "{}");
    rig_run(&r, SETTLE_MS);
    is_str(rig_field(&r, NODE, "nodeInfo.machineID"), "", "what cannot be read is left out");
    is_str(rig_field(&r, NODE, "capacity"), "{}", "no capacity");
    has_str(rig_field(&r, NODE, "nodeInfo.agentVersion"), LIMPET_VERSION, "what is known is told");
    rig_end(&r);
}

static void test_facts(void)
{
    struct rig r;
    rig_start(&r);
    rig_apply(&r, NODE, "{}");
    rig_run(&r, SETTLE_MS);
    uint64_t passes = rig_passes(&r);
    node_facts_set(&r.env, "IdentityLost", COND_TRUE, "Unauthorized", "the server answers %d", 401);
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, NODE, "IdentityLost"), "True Unauthorized", "a fact from elsewhere shows at once");
    is_str(rig_message(&r, NODE, "IdentityLost"), "the server answers 401", "with its message");
    is_int((intmax_t)(rig_passes(&r) - passes), 1, "after one pass");
    node_facts_set(&r.env, "IdentityLost", COND_TRUE, "Unauthorized", "the server answers %d", 401);
    rig_run(&r, SETTLE_MS);
    is_int((intmax_t)(rig_passes(&r) - passes), 1, "the same fact again brings none");
    node_facts_set(&r.env, "IdentityLost", COND_FALSE, "Known", "back");
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, NODE, "IdentityLost"), "False Known", "taken back");
    struct kind_env bare = r.env;
    bare.facts = NULL;
    node_facts_set(&bare, "IdentityLost", COND_TRUE, "X", "x");
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, NODE, "IdentityLost"), "False Known", "where nobody keeps facts nothing happens");
    rig_end(&r);
}

// The disk's room as this test wants it.
static uint64_t free_percent;

static int pretend_free(struct disk *d, const char *path, uint64_t *avail, uint64_t *total, struct err *e)
{
    (void)d;
    (void)path;
    (void)e;
    *total = 1000000;
    *avail = free_percent * 10000;
    return 0;
}

static void test_slow_conditions(void)
{
    struct rig r;
    struct disk_ops hands;
    rig_start(&r);
    hands = *r.disk->ops;
    hands.free_bytes = pretend_free;
    const struct disk_ops *real = r.disk->ops;
    r.disk->ops = &hands;
    r.fc.synced = false;
    free_percent = 50;
    rig_apply(&r, NODE, "{}");
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, NODE, "ClockTrusted"), "False NotSynchronised", "an untrusted clock");
    is_str(rig_condition(&r, NODE, "DiskPressure"), "False EnoughSpace", "room");
    r.fc.synced = true;
    rig_run(&r, 61000);
    is_str(rig_condition(&r, NODE, "ClockTrusted"), "True Trusted", "synchronised: noticed within a minute");
    static const struct {
        uint64_t percent;
        const char *want;
    } steps[] = { { 6, "False EnoughSpace" }, { 4, "True LittleSpace" }, { 6, "True LittleSpace" }, { 9, "False EnoughSpace" } };
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        free_percent = steps[i].percent;
        engine_touch(r.engine, rig_key(&r, NODE), "test");
        rig_run(&r, SETTLE_MS);
        is_str(rig_condition(&r, NODE, "DiskPressure"), steps[i].want, "%d %% free", (int)free_percent);
    }
    r.disk->ops = real;
    rig_end(&r);
}

static void test_backlog(void)
{
    struct rig r;
    rig_start(&r);
    rig_apply(&r, NODE, "{}");
    rig_run(&r, SETTLE_MS);
    struct object_state *os = engine_state_of(r.engine, rig_key(&r, NODE));
    for (int i = 0; i < BACKLOG_MANY; i++)
        engine_event(r.engine, os, false, "Test", "Test", "event %d", i);
    rig_run(&r, SETTLE_MS);
    engine_touch(r.engine, rig_key(&r, NODE), "test");
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, NODE, "OutboxBacklog"), "True ManyPending", "a thousand events wait");
    rig_end(&r);
}

static void test_not_us(void)
{
    struct rig r;
    rig_start(&r);
    rig_apply(&r, "edgenodes", "other", "{}");
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, "edgenodes", "other", "Accepted"), "False Invalid", "another node's object is not ours");
    is_str(rig_field(&r, "edgenodes", "other", "nodeInfo"), "", "and gets no inventory");
    rig_end(&r);
}

int main(void)
{
    test_inventory();
    test_bare_machine();
    test_facts();
    test_slow_conditions();
    test_backlog();
    test_not_us();
    return done_testing();
}
