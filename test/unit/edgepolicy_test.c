// SPDX-License-Identifier: Apache-2.0
// The kind EdgePolicy, the engine's gate and EdgeApps that stop offline, on the fake port.
#include "kinds/edgepolicy_spec.c"

#include "kind_rig.h"

static struct rig r;

// --- What is refused, and in which words

static void is_refused(const char *text, const char *words)
{
    struct err e = ERR_INIT;
    struct json *spec AUTO_JSON = NULL;
    struct policy_doc *d = policy_doc_new("edgepolicies/" RIG_NS "/p", RIG_NS, &e);
    rig_must(d != NULL ? json_parse(&spec, text, strlen(text), &e) : e.cls, &e, text);
    is_int(edgepolicy_decode(d, spec, r.disk, &e), E_INVAL, "%s", text);
    has_str(e.msg, words, "says %s", words);
    policy_doc_free(d);
}

static void test_refused(void)
{
    is_refused("[]", "spec: must be an object");
    is_refused("{\"priority\":1000001}", "spec.priority: must be -1000000..1000000");
    is_refused("{\"nodeSelector\":{\"matchLabels\":{\"a\":1}}}", "spec.nodeSelector.matchLabels.a: must be a string");
    is_refused("{\"sync\":{\"mode\":\"push\"}}", "spec.sync.mode: must be one of auto, watch, poll, list");
    is_refused("{\"sync\":{\"interval\":\"499ms\"}}", "spec.sync.interval: must be");
    is_refused("{\"sync\":{\"interval\":\"5 minutes\"}}", "spec.sync.interval: ");
    is_refused("{\"lease\":{\"interval\":\"20s\",\"duration\":\"39s\"}}", "spec.lease: interval must be at most half of duration");
    is_refused("{\"offline\":[{}]}", "spec.offline[0].behavior: is required");
    is_refused("{\"offline\":[{\"behavior\":\"Stop\",\"after\":\"9s\"}]}", "spec.offline[0].after: must be");
    is_refused("{\"outbox\":{\"maxEvents\":9}}", "spec.outbox.maxEvents: must be 10..1000000");
    is_refused("{\"outbox\":{\"shedFirst\":\"Newest\"}}", "spec.outbox.shedFirst: must be one of");
#define WINDOWS(w) "{\"maintenance\":{\"windows\":[" w "]}}"
    is_refused(WINDOWS("{}"), "spec.maintenance.windows[0]: give either schedule, or start");
    is_refused(WINDOWS("{\"start\":\"02:00\"}"), "spec.maintenance.windows[0].duration: is required");
    is_refused(WINDOWS("{\"start\":\"24:00\",\"duration\":\"1h\"}"), "spec.maintenance.windows[0].start: must be a time of day");
    is_refused(WINDOWS("{\"start\":\"02:00\",\"duration\":\"59s\"}"), "spec.maintenance.windows[0].duration: must be");
    is_refused(WINDOWS("{\"start\":\"02:00\",\"days\":[\"Sunday\"],\"duration\":\"1h\"}"),
               "spec.maintenance.windows[0].days[0]: must be one of");
    is_refused(WINDOWS("{\"schedule\":\"99 * * * *\",\"duration\":\"1h\"}"), "spec.maintenance.windows[0].schedule: ");
    is_refused(WINDOWS("{\"schedule\":\"@every 1h\",\"duration\":\"1h\"}"), "@every has no place on a calendar");
    is_refused(WINDOWS("{\"daily\":\"22:00-06:00\",\"duration\":\"1h\"}"), "duration has no place beside it");
    is_refused(WINDOWS("{\"daily\":\"22:00-24:00\"}"), "spec.maintenance.windows[0].daily: must be two times of day");
    is_refused(WINDOWS("{\"daily\":\"22:00-06:00\",\"timeZone\":\"Mars/Olympus\"}"), "spec.maintenance.windows[0].timeZone: ");
}

// --- The kind

#define POLICY "edgepolicies"
#define SETTLE_MS 100

static int64_t interval(void)
{
    return r.policy->effective.sync_interval_ms;
}

static void apply(const char *name, const char *spec)
{
    rig_apply(&r, POLICY, name, spec);
    rig_run(&r, SETTLE_MS);
}

static void test_last_good(void)
{
    rig_start(&r);
    apply("p", "{\"sync\":{\"interval\":\"20s\"}}");
    is_int(interval(), 20000, "a policy is in force");
    is_str(rig_condition(&r, POLICY, "p", "Ready"), "True InForce", "and says so");
    is_str(rig_field(&r, POLICY, "p", "inForceGeneration"), "1", "with its generation");
    apply("p", "{\"sync\":{\"interval\":\"30s\",\"mode\":\"push\"}}");
    is_str(rig_condition(&r, POLICY, "p", "Accepted"), "False Invalid", "one that is not valid is refused");
    has_str(rig_message(&r, POLICY, "p", "Accepted"), "spec.sync.mode: must be one of", "naming the field");
    has_str(rig_message(&r, POLICY, "p", "Accepted"), "generation 1 stays in force", "and what is in force");
    is_int(interval(), 20000, "the last good one is");
    is_str(rig_field(&r, POLICY, "p", "inForceGeneration"), "1", "still");
    rig_power_cut(&r);
    is_int(interval(), 20000, "at boot, before any pass");
    rig_run(&r, SETTLE_MS);
    is_int(interval(), 20000, "and after it");
    apply("p", "{\"sync\":{\"interval\":\"40s\"}}");
    is_int(interval(), 40000, "the next good one takes its place");
    struct err e = ERR_INIT;
    rig_must(cache_delete(r.cache, rig_key(&r, POLICY, "p"), &e), &e, "lost row");
    rig_settle(&r);
    rig_crash(&r);
    rig_run(&r, SETTLE_MS);
    is_int(interval(), 40000, "a row that is lost without proof changes nothing");
    engine_swept(r.engine, &kind_edgepolicy, "edge-system");
    rig_run(&r, SETTLE_MS);
    is_int(interval(), 40000, "nor does a complete list of the other namespace");
    engine_swept(r.engine, &kind_edgepolicy, RIG_NS);
    rig_run(&r, SETTLE_MS);
    is_int(interval(), 0, "one of its own does: the configuration counts again");
    rig_end(&r);
}

static void test_shared(void)
{
    rig_start(&r);
    rig_apply(&r, "edgenodes", "edge-1", "{}");
    rig_apply_in(&r, POLICY_SHARED_NS, POLICY, "fleet", "{\"sync\":{\"interval\":\"20s\"}}");
    rig_run(&r, SETTLE_MS);
    is_int(interval(), 20000, "a shared policy is in force");
    struct status_slot slot AUTO_SLOT = STATUS_SLOT_INIT;
    is_int(outbox_status_get(r.outbox, "edgepolicies/edge-system/fleet", &slot, NULL), E_NOTFOUND, "and has no status");
    rig_apply_in(&r, POLICY_SHARED_NS, POLICY, "fleet", "{\"priority\":\"high\"}");
    rig_run(&r, SETTLE_MS);
    is_int(interval(), 20000, "the last good one stays");
    is_int(rig_events(&r, "PolicyRefused"), 1, "an event about the EdgeNode tells");
    rig_run(&r, 700000);
    rig_crash(&r);
    rig_run(&r, SETTLE_MS);
    is_int(rig_events(&r, "PolicyRefused"), 1, "once a generation");
    is_int(outbox_status_get(r.outbox, "edgepolicies/edge-system/fleet", &slot, NULL), E_NOTFOUND, "still without a status");
    rig_apply_in(&r, POLICY_SHARED_NS, POLICY, "fleet", "{\"nodeSelector\":{\"matchLabels\":{\"kubernetes.io/hostname\":\"edge-2\"}}}");
    rig_run(&r, SETTLE_MS);
    is_int(interval(), 0, "one that is for another node is not");
    rig_end(&r);
}

// The first that a node hears after its store was lost may be its policies.
static void test_selected_before_the_node_is_known(void)
{
    rig_start(&r);
    rig_apply_in(&r, POLICY_SHARED_NS, POLICY, "fleet",
                 "{\"sync\":{\"interval\":\"20s\"},\"nodeSelector\":{\"matchLabels\":{\"kubernetes.io/hostname\":\"edge-1\"}}}");
    rig_apply_in(&r, POLICY_SHARED_NS, POLICY, "site",
                 "{\"sync\":{\"interval\":\"30s\"},\"priority\":5,\"nodeSelector\":{\"matchLabels\":{\"site\":\"north\"}}}");
    rig_run(&r, SETTLE_MS);
    is_int(interval(), 20000, "a policy that names the node is in force without its EdgeNode, one by a label is not");
    rig_end(&r);
}

// One that is refused before the EdgeNode is known is told of when it is.
static void test_refused_before_the_node_is_known(void)
{
    rig_start(&r);
    rig_apply_in(&r, POLICY_SHARED_NS, POLICY, "fleet", "{\"priority\":\"high\"}");
    rig_run(&r, SETTLE_MS);
    is_int(rig_events(&r, "PolicyRefused"), 0, "there is nothing that an event could be about");
    rig_apply(&r, "edgenodes", "edge-1", "{}");
    rig_run(&r, 700000);
    is_int(rig_events(&r, "PolicyRefused"), 1, "when there is, it is told, once");
    rig_end(&r);
}

// --- What waits for a window

#define CLOSED "{\"maintenance\":{\"windows\":[{\"schedule\":\"0 0 29 2 *\",\"duration\":\"1m\"}]}}"
#define OPEN "{\"maintenance\":{\"windows\":[{\"daily\":\"00:00-00:00\"}]}}"
#define APP "edgeapps", "web"

static int keep_revision(void *ctx, const struct inst *i)
{
    if (i->state != INST_EXITED)
        snprintf(ctx, INST_REV_MAX, "%s", i->revision);
    return 0;
}

// Of what runs; "" = nothing does.
static const char *revision(void)
{
    static char out[INST_REV_MAX];
    struct err e = ERR_INIT;
    out[0] = '\0';
    rig_must(r.port->ops->each(r.port, rig_key(&r, APP), keep_revision, out, &e), &e, "each");
    return out;
}

static void test_waiting(void)
{
    char first[INST_REV_MAX], second[INST_REV_MAX];
    rig_start(&r);
    apply("q", "{\"maintenance\":{\"windows\":[]}}"); // the first one at boot, and beaten by the next
    apply("p", CLOSED);
    rig_apply(&r, APP, "{\"command\":[\"a\"]}");
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, APP, "Ready"), "True AllReady", "a new app does not wait");
    snprintf(first, sizeof(first), "%s", revision());
    rig_apply(&r, APP, "{\"command\":[\"b\"]}");
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, APP, "Waiting"), "True MaintenanceWindow", "its new revision does");
    is_str(rig_condition(&r, APP, "Accepted"), "True Valid", "accepted");
    is_str(rig_field(&r, APP, "observedGeneration"), "3", "the status speaks of the version that runs");
    is_str(revision(), first, "which goes on");
    port_fake_crash(r.port, NULL, 0, 3);
    rig_run(&r, SETTLE_MS);
    is_str(revision(), first, "and is healed as it was");
    rig_apply(&r, APP, "{\"command\":\"not a list\"}");
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, APP, "Accepted"), "False Invalid", "what is not understood is refused at once");
    rig_apply(&r, APP, "{\"command\":[\"c\"]}");
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, APP, "Waiting"), "True MaintenanceWindow", "the next one waits again");
    is_str(revision(), first, "and was compared with what runs");
    rig_power_cut(&r);
    rig_run(&r, SETTLE_MS);
    is_str(revision(), first, "after a power cut the former version starts");
    apply("p", OPEN);
    snprintf(second, sizeof(second), "%s", revision());
    ok(second[0] != '\0' && strcmp(first, second) != 0, "an open window lets it through");
    is_str(rig_condition(&r, APP, "Waiting"), "", "it waits no more");
    apply("p", CLOSED);
    port_fake_crash(r.port, NULL, 0, 3);
    rig_power_cut(&r);
    rig_run(&r, SETTLE_MS);
    is_str(revision(), second, "and no crash leads back");
    rig_apply(&r, APP, "{\"command\":[\"c\"],\"replicas\":0}");
    rig_run(&r, SETTLE_MS);
    is_str(revision(), "", "scaling does not wait");
    rig_apply(&r, APP, "{\"command\":[\"d\"],\"replicas\":1}");
    rig_run(&r, SETTLE_MS);
    ok(revision()[0] != '\0', "nor does a revision when nothing runs");
    rig_apply(&r, APP, "{\"command\":[\"e\"]}");
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, APP, "Waiting"), "True MaintenanceWindow", "one that runs does");
    rig_delete(&r, POLICY, "p");
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, APP, "Waiting"), "", "without windows nothing waits");
    struct buf kept AUTO_BUF = BUF_INIT(65536);
    is_int(intent_get(r.db, rig_key(&r, APP), "let-through", &kept, NULL), E_NOTFOUND, "and nothing is kept");
    rig_end(&r);
}

static void test_config_waits(void)
{
    rig_start(&r);
    apply("p", CLOSED);
    rig_apply(&r, "edgeconfigs", "c", "{\"files\":[{\"path\":\"/etc/c\",\"content\":\"one\"}]}");
    rig_run(&r, SETTLE_MS);
    rig_apply(&r, "edgeconfigs", "c", "{\"files\":[{\"path\":\"/etc/c\",\"content\":\"two\"}]}");
    rig_run(&r, SETTLE_MS);
    is_str(rig_read(&r, "/etc/c"), "two", "a change without an onChange does not wait");
    rig_apply(&r, "edgeconfigs", "c", "{\"files\":[{\"path\":\"/etc/c\",\"content\":\"three\"}],\"onChange\":{\"command\":[\"x\"]}}");
    rig_run(&r, SETTLE_MS);
    is_str(rig_read(&r, "/etc/c"), "two", "one with an onChange does");
    is_str(rig_condition(&r, "edgeconfigs", "c", "Waiting"), "True MaintenanceWindow", "and says so");
    rig_write(&r, "/etc/c", "drift", 0644);
    rig_run(&r, 400000);
    is_str(rig_read(&r, "/etc/c"), "two", "drift is put right meanwhile");
    apply("p", OPEN);
    rig_run(&r, 1000);
    is_str(rig_read(&r, "/etc/c"), "three", "an open window lets it through");
    rig_end(&r);
}

#define JOB "edgejobs", "j"

static int64_t job_count(const char *field)
{
    return strtoll(rig_field(&r, JOB, field), NULL, 10);
}

static void behave(int64_t run_ms)
{
    port_fake_behave(r.port, NULL, &(struct fake_behaviour){ .run_ms = run_ms, .exit_code = 0, .stop_ms = 500 });
}

static void test_job_waits(void)
{
    rig_start(&r);
    behave(60000);
    apply("p", CLOSED);
    rig_apply(&r, JOB, "{\"command\":[\"a\"]}");
    rig_run(&r, SETTLE_MS);
    is_str(rig_field(&r, JOB, "state"), "\"Running\"", "a new job does not wait");
    rig_apply(&r, JOB, "{\"command\":[\"b\"]}");
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, JOB, "Waiting"), "True MaintenanceWindow", "another revision does");
    is_int(rig_events(&r, "RunReplaced"), 0, "and what runs goes on");
    rig_run(&r, 120000);
    is_int(job_count("succeeded"), 1, "to its end");
    is_str(rig_condition(&r, JOB, "Waiting"), "True MaintenanceWindow", "the other waits on");
    apply("p", OPEN);
    rig_run(&r, 120000);
    is_int(job_count("succeeded"), 2, "an open window lets it run");
    is_str(rig_condition(&r, JOB, "Waiting"), "", "it waits no more");
    apply("p", CLOSED);
    rig_apply(&r, JOB, "{\"command\":[\"b\"],\"schedule\":\"* * * * *\"}");
    rig_apply(&r, JOB, "{\"command\":[\"c\"],\"schedule\":\"* * * * *\"}");
    rig_run(&r, 600000);
    is_str(rig_condition(&r, JOB, "Waiting"), "", "with a schedule nothing waits");
    ok(job_count("succeeded") > 4, "and it runs by its own");
    rig_apply(&r, JOB, "{\"command\":[\"c\"]}");
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, JOB, "Waiting"), "True MaintenanceWindow", "taking the schedule away would run it now: that waits");
    rig_end(&r);
}

// --- Who stops offline

static void test_job_stops_offline(void)
{
    rig_start(&r);
    behave(60000);
    policy_link(r.policy, true);
    apply("p", "{\"offline\":[{\"behavior\":\"Stop\",\"after\":\"10s\",\"selector\":{\"kinds\":[\"EdgeJob\"]}}]}");
    rig_apply(&r, JOB, "{\"command\":[\"a\"],\"backoffLimit\":1}");
    rig_apply(&r, "edgejobs", "cron", "{\"command\":[\"a\"],\"schedule\":\"*/5 * * * *\",\"startingDeadlineSeconds\":3600}");
    rig_apply(&r, APP, "{\"command\":[\"a\"]}");
    rig_run(&r, SETTLE_MS);
    is_str(rig_field(&r, JOB, "state"), "\"Running\"", "a job runs");
    policy_link(r.policy, false);
    rig_run(&r, 11000);
    is_str(rig_condition(&r, JOB, "Ready"), "False StoppedOffline", "offline for too long it is stopped");
    is_str(rig_field(&r, JOB, "state"), "\"Suspended\"", "nothing of it runs");
    is_str(rig_condition(&r, JOB, "Suspended"), "True StoppedOffline", "as if suspended");
    is_int(rig_events(&r, "StoppedOffline"), 2, "which is told, of each");
    rig_run(&r, 1200000);
    is_str(rig_field(&r, JOB, "active.0.state"), "\"BackOff\"", "its run waits");
    is_str(rig_field(&r, "edgejobs", "cron", "state"), "\"Suspended\"", "a schedule stands");
    is_int(strtoll(rig_field(&r, "edgejobs", "cron", "succeeded"), NULL, 10), 0, "nothing of it ran");
    ok(strcmp(rig_condition(&r, APP, "Ready"), "False StoppedOffline") != 0, "an app that is not selected is not stopped");
    rig_power_cut(&r);
    behave(60000);
    rig_run(&r, 60000);
    is_str(rig_field(&r, JOB, "state"), "\"Suspended\"", "a reboot begins nothing");
    policy_link(r.policy, true);
    rig_run(&r, 200000);
    is_int(job_count("succeeded"), 1, "the server does: the run is tried again");
    is_str(rig_field(&r, JOB, "runs.0.attempts"), "2", "as after an attempt that failed");
    is_str(rig_condition(&r, JOB, "Ready"), "True Succeeded", "and is ready");
    ok(strtoll(rig_field(&r, "edgejobs", "cron", "succeeded"), NULL, 10) == 1, "of the instants meanwhile the latest runs");
    rig_end(&r);
}

static void test_stops_offline(void)
{
    char was[INST_REV_MAX];
    rig_start(&r);
    rig_apply(&r, APP, "{\"command\":[\"a\"]}");
    policy_link(r.policy, true);
    apply("p", "{\"offline\":[{\"behavior\":\"Stop\",\"after\":\"10s\"}]}");
    snprintf(was, sizeof(was), "%s", revision());
    ok(was[0] != '\0', "online it runs");
    policy_link(r.policy, false);
    rig_run(&r, 9900);
    is_str(revision(), was, "offline too, for a while");
    rig_run(&r, 200);
    is_str(revision(), "", "then it stops");
    rig_run(&r, 1000);
    is_str(rig_condition(&r, APP, "Ready"), "False StoppedOffline", "and says why");
    is_int(rig_events(&r, "StoppedOffline"), 1, "and when");
    rig_power_cut(&r);
    rig_run(&r, SETTLE_MS);
    is_str(revision(), "", "a reboot does not start it");
    policy_link(r.policy, true);
    rig_run(&r, SETTLE_MS);
    is_str(revision(), was, "the server does");
    is_str(rig_condition(&r, APP, "Ready"), "True AllReady", "and it is ready");
    rig_end(&r);
}

// What is remembered of instances is in the status: also while none may run.
static void test_finished_stays_finished(void)
{
    rig_start(&r);
    behave(3000);
    policy_link(r.policy, true);
    apply("p", "{\"offline\":[{\"behavior\":\"Stop\",\"after\":\"10s\"}]}");
    rig_apply(&r, APP, "{\"command\":[\"a\"],\"restartPolicy\":\"OnFailure\"}");
    rig_run(&r, 8000);
    is_str(rig_field(&r, APP, "state"), "\"Succeeded\"", "an app has ended well");
    policy_link(r.policy, false);
    rig_run(&r, 11000);
    is_str(rig_condition(&r, APP, "Ready"), "False StoppedOffline", "and is stopped offline");
    is_str(rig_field(&r, APP, "instances.0.state"), "\"Succeeded\"", "its status remembers that it has ended");
    rig_power_cut(&r);
    behave(3000);
    rig_run(&r, SETTLE_MS);
    policy_link(r.policy, true);
    rig_run(&r, 8000);
    is_str(rig_field(&r, APP, "state"), "\"Succeeded\"", "after a loss of power, and online again, it is still that");
    is_str(rig_field(&r, APP, "instances.0.restarts"), "0", "and is not run a second time");
    is_int(rig_events(&r, "Started"), 1, "no event speaks of a start");
    rig_end(&r);
}

int main(void)
{
    rig_start(&r);
    test_refused();
    rig_end(&r);
    test_last_good();
    test_shared();
    test_selected_before_the_node_is_known();
    test_refused_before_the_node_is_known();
    test_waiting();
    test_config_waits();
    test_job_waits();
    test_stops_offline();
    test_finished_stays_finished();
    test_job_stops_offline();
    return done_testing();
}
