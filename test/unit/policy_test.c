// SPDX-License-Identifier: Apache-2.0
// The merge, windows, who stops offline, and what is in force as time and link go on.
#include "flow/policy.c"
#include "flow/policy_merge.c"
#include "flow/policy_offline.c"
#include "flow/policy_window.c"

#include "kinds/edgepolicy.h"
#include "store_rig.h"

#define OWN "edge-a"

static unsigned told;
static struct loop *loop;
static struct config config;
static struct policy *policy;

static void on_changed(void *ctx, unsigned what)
{
    (void)ctx;
    told |= what;
}

static unsigned heard(void)
{
    unsigned what = told;
    told = 0;
    return what;
}

// A document from its spec; "ns/name".
static struct policy_doc *doc(const char *name, const char *text)
{
    char key[KEY_MAX];
    struct err e = ERR_INIT;
    struct json *spec AUTO_JSON = NULL;
    snprintf(key, sizeof(key), "edgepolicies/%s", name);
    struct policy_doc *d = policy_doc_new(key, OWN, &e);
    if (d == NULL || json_parse(&spec, text, strlen(text), &e) < 0 || edgepolicy_decode(d, spec, rig_disk, &e) < 0) {
        fail("%s: %s", name, e.msg);
        exit(1);
    }
    return d;
}

static void put(const char *name, const char *text)
{
    struct err e = ERR_INIT;
    is_int(policy_put(policy, doc(name, text), &e), 0, "%s is taken", name);
}

static const char *setter(enum policy_field f)
{
    static char out[300];
    const struct policy_doc *d = policy->merged.from[f];
    snprintf(out, sizeof(out), "%s%s%s", d != NULL ? d->ns : "", d != NULL ? "/" : "", d != NULL ? d->name : "");
    return out;
}

static void start(void)
{
    struct err e = ERR_INIT;
    struct policy_conf pc = { .loop = loop, .clock = &rig_clock.clock, .db = rig_db, .config = &config, .changed = on_changed };
    if (policy_new(&policy, &pc, &e) < 0)
        fail("%s", e.msg);
    told = 0;
}

static void pass_time(int64_t ms)
{
    struct err e = ERR_INIT;
    fake_clock_advance(&rig_clock, ms);
    if (loop_turn(loop, 0, &e) < 0)
        fail("turn: %s", e.msg);
}

// Wall time, as "2026-03-29T01:30:00Z".
static void set_wall(const char *at)
{
    if (!rfc3339_parse(at, &rig_clock.wall_us))
        fail("%s", at);
}

static int64_t seconds_of(const char *at)
{
    int64_t us = 0;
    ok(rfc3339_parse(at, &us), "%s", at);
    return us / 1000000;
}

static void test_merge(void)
{
    start();
    is_int(policy->effective.sync_interval_ms, 10000, "without policies the configuration counts");
    put("edge-system/b", "{\"sync\":{\"interval\":\"20s\"},\"lease\":{\"interval\":\"30s\"}}");
    is_int(heard(), POLICY_CHANGED_SYNC | POLICY_CHANGED_LEASE, "what changed is told");
    is_int(policy->effective.sync_interval_ms, 20000, "a policy is above it");
    is_int(policy->effective.lease_duration_ms, 60000, "the lease counts twice its interval at least, whoever set it");
    put("edge-system/a", "{\"sync\":{\"interval\":\"21s\"}}");
    is_str(setter(POLICY_SYNC_INTERVAL), "edge-system/a", "of one priority the name that comes first");
    put("edge-system/z", "{\"priority\":1,\"sync\":{\"interval\":\"22s\"}}");
    is_str(setter(POLICY_SYNC_INTERVAL), "edge-system/z", "a higher priority first");
    put(OWN "/z", "{\"priority\":1,\"sync\":{\"interval\":\"23s\"}}");
    is_str(setter(POLICY_SYNC_INTERVAL), OWN "/z", "of one priority and name the node's own");
    is_str(setter(POLICY_LEASE_INTERVAL), "edge-system/b", "each field for itself");
    put(OWN "/z", "{\"priority\":1,\"outbox\":{\"maxEvents\":10}}");
    is_str(setter(POLICY_SYNC_INTERVAL), "edge-system/z", "a new version without the field leaves it to others");
    is_int(policy->effective.outbox_max_events, 10, "and sets another");
    put("edge-system/n", "{\"priority\":-1,\"sync\":{\"interval\":\"9s\",\"mode\":\"poll\"}}");
    is_str(setter(POLICY_SYNC_MODE), "edge-system/n", "the lowest priority wins where it is alone");
    is_int(policy->effective.sync_mode, SYNC_POLL, "and is in force");
    (void)heard();
    for (const char *const *k = (const char *const[]){ "edge-system/a", "edge-system/b", "edge-system/z", "edge-system/n", OWN "/z", NULL };
         *k != NULL; k++) {
        char key[KEY_MAX];
        snprintf(key, sizeof(key), "edgepolicies/%s", *k);
        policy_drop(policy, key);
    }
    is_int(policy->effective.sync_interval_ms, 10000, "without them the configuration counts again");
    is_int(policy->effective.sync_mode, SYNC_AUTO, "in all");
    is_int(policy->n_docs, 0, "nothing is left");
    policy_free(policy);
}

static void test_pinned(void)
{
    struct config pinned = config;
    pinned.origins[0] = 0;
    for (size_t i = 0; i < CONFIG_KEYS_MAX; i++)
        pinned.origins[i] = CONFIG_ENVIRONMENT;
    struct err e = ERR_INIT;
    struct policy_conf pc = { .loop = loop, .clock = &rig_clock.clock, .config = &pinned };
    is_int(policy_new(&policy, &pc, &e), 0, "a policy of its own");
    put(OWN "/p", "{\"sync\":{\"interval\":\"20s\",\"metered\":{\"mode\":\"list\",\"windows\":[{\"daily\":\"00:00-00:00\"}]}}}");
    is_int(policy->effective.sync_interval_ms, 10000, "what the environment or a flag set stays");
    ok(policy->metered, "a window of a whole day is always open");
    is_int(policy->effective.sync_mode, SYNC_AUTO, "a metered link does not change it either");
    policy_free(policy);
}

static void test_too_many(void)
{
    char name[64];
    struct err e = ERR_INIT;
    start();
    for (int i = 0; i < POLICY_DOCS_MAX; i++) {
        snprintf(name, sizeof(name), "edge-system/p%d", i);
        if (policy_put(policy, doc(name, "{}"), &e) < 0)
            fail("%s", e.msg);
    }
    is_int(policy_put(policy, doc("edge-system/more", "{}"), &e), E_NOSPC, "one more than there may be is refused");
    put("edge-system/p3", "{\"priority\":3}");
    is_int(policy->n_docs, POLICY_DOCS_MAX, "a new version of one of them is not one more");
    policy_free(policy);
}

static void is_gate(const char *windows, const char *at, bool open, const char *until)
{
    char text[600];
    snprintf(text, sizeof(text), "{\"maintenance\":{\"windows\":%s}}", windows);
    struct policy_doc *d = doc(OWN "/w", text);
    struct policy_gate g = policy_windows_at(&d->v.maintenance, seconds_of(at));
    is_int(g.open, open, "%s at %s", windows, at);
    is_int(g.until_s, until[0] != '\0' ? seconds_of(until) : -1, "until %s", until);
    policy_doc_free(d);
}

static void test_windows(void)
{
    static const char night[] = "[{\"daily\":\"22:00-06:00\"}]";
    is_gate("[]", "2026-06-01T00:00:00Z", false, "");
    is_gate(night, "2026-06-01T21:59:59Z", false, "2026-06-01T22:00:00Z");
    is_gate(night, "2026-06-01T22:00:00Z", true, "2026-06-02T06:00:00Z");
    is_gate(night, "2026-06-02T05:59:59Z", true, "2026-06-02T06:00:00Z");
    is_gate(night, "2026-06-02T06:00:00Z", false, "2026-06-02T22:00:00Z");
    static const char weekend[] = "[{\"days\":[\"Sat\",\"Sun\"],\"start\":\"02:30\",\"duration\":\"90m\"}]";
    is_gate(weekend, "2026-06-05T02:30:00Z", false, "2026-06-06T02:30:00Z"); // a Friday
    is_gate(weekend, "2026-06-06T03:59:00Z", true, "2026-06-06T04:00:00Z");
    static const char cron[] = "[{\"schedule\":\"*/30 * * * *\",\"duration\":\"10m\"}]";
    is_gate(cron, "2026-06-05T02:09:59Z", true, "2026-06-05T02:10:00Z");
    is_gate(cron, "2026-06-05T02:10:00Z", false, "2026-06-05T02:30:00Z");
    // Of two that overlap the later end, of two that are closed the sooner opening.
    static const char two[] = "[{\"daily\":\"01:00-03:00\"},{\"daily\":\"02:00-05:00\"}]";
    is_gate(two, "2026-06-05T02:30:00Z", true, "2026-06-05T05:00:00Z");
    is_gate(two, "2026-06-05T12:00:00Z", false, "2026-06-06T01:00:00Z");
    is_gate("[{\"schedule\":\"0 0 30 2 *\",\"duration\":\"1h\"}]", "2026-06-05T12:00:00Z", false, "");
    // The clocks of a place, by a POSIX string: no tzdata is needed. 02:30 does not exist on 2026-03-29 in Berlin.
    static const char berlin[] = "[{\"start\":\"02:30\",\"duration\":\"1h\",\"timeZone\":\"CET-1CEST,M3.5.0,M10.5.0/3\"}]";
    is_gate(berlin, "2026-03-28T01:29:00Z", false, "2026-03-28T01:30:00Z");
    is_gate(berlin, "2026-03-29T01:45:00Z", false, "2026-03-30T00:30:00Z");
}

static bool stops(const char *rules, const char *name, const char *labels, int64_t ms)
{
    char text[800];
    struct err e = ERR_INIT;
    struct json *l AUTO_JSON = NULL;
    snprintf(text, sizeof(text), "{\"offline\":%s}", rules);
    struct policy_doc *d = doc(OWN "/o", text);
    if (labels != NULL && json_parse(&l, labels, strlen(labels), &e) < 0)
        fail("%s", e.msg);
    struct policy_subject s = { "EdgeApp", name, l };
    bool yes = policy_stops(&d->v.offline, &s, ms) != NULL;
    policy_doc_free(d);
    return yes;
}

static void test_rules(void)
{
    static const char stop[] = "[{\"behavior\":\"Stop\",\"selector\":{\"names\":[\"a\",\"b\"]},\"after\":\"1m\"}]";
    ok(!stops("[]", "a", NULL, INT64_MAX), "without rules everything runs");
    ok(!stops(stop, "a", NULL, 59999), "not before its time");
    ok(stops(stop, "a", NULL, 60000), "then it stops");
    ok(!stops(stop, "c", NULL, 60000), "what is not selected runs on");
    static const char safe[] =
        "[{\"behavior\":\"RunOnly\",\"selector\":{\"matchLabels\":{\"safe\":\"yes\",\"hall\":\"2\"}},\"after\":\"1m\"}]";
    ok(!stops(safe, "a", "{\"safe\":\"yes\",\"hall\":\"2\",\"x\":\"y\"}", 60000), "RunOnly: who has all the labels runs on");
    ok(stops(safe, "a", "{\"safe\":\"yes\"}", 60000), "who lacks one does not");
    ok(stops(safe, "a", NULL, 60000), "nor who has none");
    ok(!stops(safe, "a", NULL, 59999), "not before its time");
    static const char first[] = "[{\"behavior\":\"Keep\",\"selector\":{\"names\":[\"a\"]}},{\"behavior\":\"Stop\",\"after\":\"1m\"},"
                                "{\"behavior\":\"Keep\"}]";
    ok(!stops(first, "a", NULL, 60000), "the first rule that says something decides: Keep");
    ok(stops(first, "b", NULL, 60000), "and Stop of all others");
    static const char only[] = "[{\"behavior\":\"RunOnly\",\"selector\":{\"names\":[\"a\"]},\"after\":\"1h\"},{\"behavior\":\"Stop\"}]";
    ok(!stops(only, "a", NULL, 7200000) && !stops(only, "b", NULL, 600000), "RunOnly says something of everything: no rule comes after it");
    ok(!stops("[{\"behavior\":\"Stop\",\"selector\":{\"kinds\":[\"EdgeJob\"]}}]", "a", NULL, 600000), "another kind");
    ok(stops("[{\"behavior\":\"Stop\"}]", "a", NULL, 300000) && !stops("[{\"behavior\":\"Stop\"}]", "a", NULL, 299999), "5 min by default");
}

static void test_metered_and_maintenance(void)
{
    char why[256];
    set_wall("2026-06-01T05:59:59.500Z");
    start();
    put(OWN "/m", "{\"sync\":{\"mode\":\"watch\",\"metered\":{\"interval\":\"5m\",\"windows\":[{\"daily\":\"06:00-20:00\"}]}},"
                  "\"maintenance\":{\"windows\":[{\"daily\":\"06:00-06:30\"}]}}");
    is_int(policy->effective.sync_mode, SYNC_WATCH, "before the metered window");
    ok(!policy_disruption_allowed(policy, why, sizeof(why)), "no window is open");
    is_str(why, "until the maintenance window of policy edge-a/m opens at 2026-06-01T06:00:00Z", "and it says until when");
    (void)heard();
    pass_time(600);
    is_int(heard(), POLICY_CHANGED_SYNC | POLICY_CHANGED_WINDOWS, "windows open by themselves, to the second");
    is_int(policy->effective.sync_mode, SYNC_POLL, "a metered link is polled");
    is_int(policy->effective.sync_interval_ms, 300000, "at its own interval");
    ok(policy_disruption_allowed(policy, why, sizeof(why)), "and changes are let through");
    rig_clock.synced = false;
    rig_clock.clock.no_rtc = true;
    policy_look(policy);
    ok(!policy_disruption_allowed(policy, why, sizeof(why)), "without a clock that is trusted no window is open");
    has_str(why, "while the clock is not trusted", "and it says so");
    is_int(policy->effective.sync_mode, SYNC_WATCH, "nor a metered one");
    rig_clock.synced = true;
    set_wall("2026-06-01T21:00:00Z"); // set by somebody
    policy_look(policy);
    is_int(policy->effective.sync_mode, SYNC_WATCH, "a clock that was set is seen by the next look");
    policy_drop(policy, "edgepolicies/" OWN "/m");
    ok(policy_disruption_allowed(policy, why, sizeof(why)), "without windows everything is allowed");
    policy_free(policy);
}

static bool is_stopped(void)
{
    char why[160];
    struct policy_subject s = { "EdgeApp", "web", NULL };
    return policy_stopped_offline(policy, &s, why, sizeof(why));
}

static void restart(bool reboot, int64_t off_ms, bool trusted)
{
    policy_free(policy);
    rig_commit();
    if (reboot) {
        rig_clock.boot_id[0]++;
        rig_clock.boot_ms = 20000;
        rig_clock.wall_us += off_ms * 1000;
    }
    rig_clock.synced = trusted;
    start();
    put(OWN "/o", "{\"offline\":[{\"behavior\":\"Stop\",\"after\":\"1h\"}]}");
}

static void test_offline_time(void)
{
    start();
    put(OWN "/o", "{\"offline\":[{\"behavior\":\"Stop\",\"after\":\"1h\"}]}");
    policy_link(policy, true);
    pass_time(7200000);
    ok(!is_stopped(), "online nothing stops");
    policy_link(policy, false);
    (void)heard();
    pass_time(3599000);
    ok(!is_stopped() && heard() == 0, "offline, not yet");
    pass_time(1000);
    ok(is_stopped() && heard() == POLICY_CHANGED_OFFLINE, "then it is told at once");
    restart(false, 0, true);
    ok(is_stopped(), "a restart of the agent does not begin anew");
    restart(true, 0, true);
    ok(is_stopped(), "nor does a reboot");
    policy_link(policy, true);
    ok(!is_stopped(), "until the node is back");
    restart(true, 0, true);
    ok(!is_stopped(), "and that is remembered, too");
    pass_time(1800000);
    policy_keep_offline(policy, false);
    restart(true, 1900000, true);
    ok(is_stopped(), "the time switched off counts between two trusted clocks");
    policy_link(policy, true);
    policy_link(policy, false);
    pass_time(1800000);
    policy_keep_offline(policy, false);
    restart(true, 1900000, false);
    is_int(policy_offline_ms(policy) / 1000, 1820, "with an untrusted one only what the machine saw: before, and since it booted");
    rig_clock.synced = true;
    policy_free(policy);
}

// What a transaction that failed took with it is written again, be it that we are offline or that we are not any more.
static void test_offline_time_is_lost(void)
{
    start();
    policy_link(policy, true);
    rig_commit();
    put(OWN "/o", "{\"offline\":[{\"behavior\":\"Stop\",\"after\":\"1h\"}]}");
    policy_link(policy, false);
    pass_time(3600000);
    ok(is_stopped(), "offline for an hour");
    db_rollback(rig_db);
    policy_keep_offline(policy, false);
    ok(db_dirty(rig_db), "the next minute writes it down again");
    restart(true, 0, false);
    ok(is_stopped(), "for the next boot to know");
    policy_link(policy, true);
    db_rollback(rig_db);
    policy_keep_offline(policy, false);
    ok(db_dirty(rig_db), "as it does what has been forgotten");
    restart(true, 0, false);
    ok(!is_stopped(), "and that it is over");
    rig_clock.synced = true;
    policy_free(policy);
}

// A device that loses power each day gets on all the same, and does not write all the time.
static void test_offline_writes(void)
{
    struct db_stats before, after;
    start();
    put(OWN "/o", "{\"offline\":[{\"behavior\":\"Stop\",\"after\":\"8760h\"}]}");
    rig_commit();
    db_stats(rig_db, &before);
    for (int minute = 0; minute < 30 * 1440; minute++) {
        pass_time(60000);
        policy_keep_offline(policy, false);
        if (db_dirty(rig_db))
            rig_commit();
    }
    db_stats(rig_db, &after);
    ok(after.commits - before.commits < 80, "a month offline is %d writes", (int)(after.commits - before.commits));
    ok(policy_offline_ms(policy) - policy->kept_ms < policy_offline_ms(policy) / 8, "and power lost costs an eighth at most");
    policy_free(policy);
}

int main(void)
{
    struct loop_backend *b;
    struct err e = ERR_INIT;
    if (!rig_start() || loop_backend_epoll(&b, &e) < 0 || loop_new(&loop, &rig_clock.clock, b, &e) < 0) {
        fail("rig: %s", e.msg);
        return done_testing();
    }
    config = (struct config){ .sync_interval_ms = 10000, .lease_renew_ms = 10000, .lease_duration_ms = 40000, .outbox_max_events = 5000 };
    rig_fresh();
    test_merge();
    test_pinned();
    test_too_many();
    test_windows();
    test_rules();
    test_metered_and_maintenance();
    test_offline_time();
    test_offline_time_is_lost();
    test_offline_writes();
    db_close(rig_db);
    loop_free(loop);
    rig_end();
    return done_testing();
}
