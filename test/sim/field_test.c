// SPDX-License-Identifier: Apache-2.0
// field — what goes wrong in the field, line by line of docs/FIELD-CASES.md, done on purpose to the very agent in the simulator.
//
// sim_test leaves it to chance what happens; here each world has a plot and each check a name, so that code which guards a line of that
// page cannot go without one of these failing. All times are the world's: nothing here measures a speed.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/manifests.h"
#include "sim_world.h"
#include "tap.h"
#include "wire/yaml.h"

enum { SEED = 20, SETTLE_MS = 2 * MINUTE, SOURCES = 6, BACK_MS = 5 * MINUTE, SHOWN = 40 };

#define APP "edgeapps/" SIM_NS "/app-0"
#define FILE_0 "/etc/app/cfg-0-a.conf"

static const char app_spec[] = "{\"command\":[\"/bin/app\"],\"replicas\":2,\"terminationGracePeriodSeconds\":1}";
static const char file_spec[] =
    "{\"files\":[{\"path\":\"" FILE_0 "\",\"content\":\"one\\n\",\"mode\":\"0644\"}],\"deletionPolicy\":\"Delete\"}";

// --- A world

static struct world *world_new(const char *mode)
{
    struct world *w = calloc(1, sizeof(*w));
    if (w == NULL)
        abort();
    world_init(w, SEED, false);
    w->mode = mode;
    w->max_events = 5000;
    check_note_peace(w);
    sim_server_create(&w->server, "edgenodes", SIM_NODE, "{\"description\":\"under test\"}");
    return w;
}

static const char *wrong(struct world *w)
{
    static char why[256];
    return w->agent == NULL ? "no agent lives" : check_right(w, why);
}

// One app, one config, everything as it should be.
static struct world *world_at_work(const char *mode)
{
    struct world *w = world_new(mode);
    sim_server_create(&w->server, "edgeapps", "app-0", app_spec);
    sim_server_create(&w->server, "edgeconfigs", "cfg-0", file_spec);
    agent_start_now(w);
    world_live(w, SETTLE_MS);
    if (wrong(w) != NULL)
        fail("the world at its beginning: %s", wrong(w));
    return w;
}

static void world_end(struct world *w, const char *what)
{
    if (!ok(!w->sim.broken, "%s: no invariant of the simulator broke", what)) {
        diag("%s", w->sim.verdict);
        sim_shows(&w->sim, SHOWN);
        world_shows_log(w, SHOWN);
    }
    world_fini(w);
    free(w);
}

static void is_right(struct world *w, const char *what)
{
    if (ok(wrong(w) == NULL, "%s", what))
        return;
    diag("%s", wrong(w));
    sim_shows(&w->sim, SHOWN);
    world_shows_log(w, SHOWN);
}

// Lives until all is right, or `most_ms` passed.
static void becomes_right(struct world *w, int64_t most_ms, const char *what)
{
    int64_t until = w->sim.now_ms + most_ms;
    while (wrong(w) != NULL && w->sim.now_ms < until && !w->sim.broken)
        world_live(w, 1000);
    is_right(w, what);
}

static int count_running(void *ctx, const struct inst *i)
{
    *(int *)ctx += i->state == INST_RUNNING;
    return 0;
}

static int running(struct world *w)
{
    int n = 0;
    struct err e = ERR_INIT;
    (void)!w->port.port->ops->each(w->port.port, NULL, count_running, &n, &e);
    return n;
}

static const char *file_0(struct world *w)
{
    struct sim_file *f = sim_disk_at(&w->disk, FILE_0);
    return f != NULL ? buf_str(&f->now) : "";
}

// A number of an instance in the status that the server has; -1 = not there.
static int64_t of_instance(struct world *w, int index, const char *path)
{
    int64_t at, v = -1;
    struct sim_object *o = sim_server_find(&w->server, "edgeapps", "app-0");
    json_each(i, json_path(o->json, "status.instances"))
    {
        if (json_i64(json_get(i, "index"), &at) && at == index && json_i64(json_path(i, path), &v))
            return v;
    }
    return -1;
}

static int events_of(struct world *w, const char *reason)
{
    int n = 0;
    sim_each_object(o, &w->server)
    {
        const char *s = json_str(json_get(o->json, "reason"));
        n += strcmp(o->type->plural, "events") == 0 && s != NULL && strcmp(s, reason) == 0;
    }
    return n;
}

static enum link_state link_of(struct world *w)
{
    struct sync_stats s;
    sync_stats(w->agent->sync, &s);
    return s.link;
}

static uint64_t relists(struct world *w)
{
    struct sync_stats s;
    sync_stats(w->agent->sync, &s);
    return s.relists;
}

// --- 1: a boot without a server

static void boot_without_server(enum sim_link link, const char *how)
{
    struct world *w = world_at_work("auto");
    uint64_t heard = w->server.requests;
    sim_net_link(&w->net, link);
    machine_power_cut(w, 5000);
    sim_disk_remove(&w->disk, FILE_0);
    world_live(w, 4000);
    is_int(running(w), 0, "field 1: %s: after the power cut nothing runs", how);
    world_live(w, MINUTE);
    is_int(running(w), 2, "field 1: %s: the app was started from the cache", how);
    is_str(file_0(w), "one\n", "field 1: %s: and the file was written from it", how);
    is_int((intmax_t)(w->server.requests - heard), 0, "field 1: %s: the server heard nothing", how);
    world_end(w, "field 1");
}

// --- 2: supervision without a server

static void exits_while_offline(void)
{
    struct world *w = world_at_work("auto");
    sim_net_link(&w->net, NET_DROPS);
    world_live(w, 10 * MINUTE);
    is_int(port_fake_crash(w->port.port, APP, 0, 3), 1, "field 2: ten minutes offline, then an instance ends");
    world_live(w, MINUTE);
    is_int(running(w), 2, "field 2: it was started again, offline");
    for (int i = 0; i < 3; i++) {
        port_fake_crash(w->port.port, APP, 0, 3);
        world_live(w, 5 * MINUTE + 1000);
        is_int(running(w), 2, "field 2: and again (%d)", i + 1);
    }
    world_end(w, "field 2");
}

// Statuses and events that the server has not acknowledged.
static int64_t waiting(struct world *w)
{
    struct outbox_stats s = { 0 };
    struct err e = ERR_INIT;
    (void)!outbox_stats(w->agent->outbox, &s, &e);
    return s.status_pending + s.events_pending;
}

// --- 5: a status is not lost on a link that is bad

static void status_on_bad_link(void)
{
    enum { EXITS = 40 };
    struct world *w = world_at_work("auto");
    sim_net_link(&w->net, NET_REFUSED);
    for (int i = 1; i <= EXITS; i++) {
        port_fake_crash(w->port.port, APP, 1, i);
        world_live(w, 6 * MINUTE);
    }
    is_int(of_instance(w, 1, "restarts"), 0, "field 5: offline the server knows nothing of a restart");
    is_int(events_of(w, "Exited"), 0, "field 5: and of no exit");
    agent_kill(w, 1000);
    world_live(w, MINUTE);
    w->net.fault_percent = 40;
    sim_net_link(&w->net, NET_FINE);
    for (int i = 0; i < 3600 && waiting(w) > 0; i++) // 8 minutes; 5 hours when one broken request takes all others of a start with it
        world_live(w, 1000);
    is_int(waiting(w), 0, "field 5: over a link that loses requests and answers everything arrives");
    w->net.fault_percent = 0;
    becomes_right(w, BACK_MS, "field 5: and all is right");
    is_int(of_instance(w, 1, "restarts"), EXITS, "field 5: the restarts");
    is_int(of_instance(w, 1, "lastExit.code"), EXITS, "field 5: and how it came to the last one");
    is_int(events_of(w, "Exited"), EXITS, "field 5: the event of each, once");
    witness_sums_up(w);
    world_end(w, "field 5");
}

// --- 6: what was done while the node was away

static void changes_while_away(const char *mode, bool gap, bool old_server)
{
    struct world *w = world_new(mode);
    w->server.old_server = old_server;
    sim_server_create(&w->server, "edgeapps", "app-0", app_spec);
    sim_server_create(&w->server, "edgeapps", "app-1", app_spec);
    sim_server_create(&w->server, "edgeapps", "app-2", app_spec);
    sim_server_create(&w->server, "edgeconfigs", "cfg-0", file_spec);
    agent_start_now(w);
    world_live(w, SETTLE_MS);
    is_int(running(w), 6, "field 6: %s: six instances run", mode);
    agent_kill(w, 10 * MINUTE);
    sim_server_delete(&w->server, sim_server_find(&w->server, "edgeapps", "app-1"));
    sim_server_set_spec(&w->server, sim_server_find(&w->server, "edgeconfigs", "cfg-0"),
                        "{\"files\":[{\"path\":\"" FILE_0 "\",\"content\":\"two\\n\",\"mode\":\"0644\"}]}");
    if (gap)
        sim_server_compact(&w->server); // the watch history of what was done is gone
    world_live(w, 10 * MINUTE);
    becomes_right(w, BACK_MS, "field 6: the deletion and the change are noticed");
    is_int(running(w), 4, "field 6: %s%s: the deleted app was stopped", mode, gap ? ", behind a gap" : "");
    is_str(file_0(w), "two\n", "field 6: %s%s: the changed file was written", mode, gap ? ", behind a gap" : "");
    world_end(w, "field 6");
}

// --- 7: one that cannot be sent does not hold up the others

static int64_t statuses_waiting(struct world *w)
{
    struct outbox_stats s = { 0 };
    struct err e = ERR_INIT;
    (void)!outbox_stats(w->agent->outbox, &s, &e);
    return s.status_pending;
}

static void crash_and_see(struct world *w, const char *what)
{
    int64_t before = of_instance(w, 0, "restarts");
    int exits = events_of(w, "Exited");
    port_fake_crash(w->port.port, APP, 0, 1);
    world_live(w, 2 * MINUTE);
    is_int(events_of(w, "Exited"), exits + 1, "field 7: %s: an event about another passes", what);
    is_int(of_instance(w, 0, "restarts"), before + 1, "field 7: %s: the others are told", what);
}

static void no_line_to_wait_in(void)
{
    enum { SLOW = 24 }; // more than can be under way at once
    struct world *w = world_at_work("auto");
    char name[16];
    w->net.put_off = "/slow-";
    for (int i = 0; i < SLOW; i++) {
        snprintf(name, sizeof(name), "slow-%d", i);
        sim_server_create(&w->server, "edgeapps", name, "{\"command\":[\"/bin/app\"],\"replicas\":0}");
    }
    world_live(w, MINUTE);
    is_int(statuses_waiting(w), SLOW, "field 7: the statuses of 24 objects are put off for an hour");
    crash_and_see(w, "some are put off");
    w->net.put_off = NULL;
    becomes_right(w, 2 * HOUR, "field 7: what was put off is sent when its time has come");

    w->net.unanswered = "/slow-";
    for (int i = 0; i < SLOW; i++) {
        snprintf(name, sizeof(name), "slow-%d", i);
        sim_server_set_spec(&w->server, sim_server_find(&w->server, "edgeapps", name), "{\"command\":[\"/bin/other\"],\"replicas\":0}");
    }
    world_live(w, MINUTE);
    is_int(statuses_waiting(w), SLOW, "field 7: the statuses of 24 objects get no answer");
    crash_and_see(w, "some get no answer");
    w->net.unanswered = NULL;
    becomes_right(w, BACK_MS, "field 7: and is sent when somebody answers");
    world_end(w, "field 7");
}

// --- 12: the disk is full

// So large that the blocks of the log, which can be used again, do not take it.
static void create_large_app(struct world *w)
{
    enum { ARGS = 100, EACH = 4000 };
    struct buf spec AUTO_BUF = BUF_INIT(1 << 20);
    struct err e = ERR_INIT;
    int rc = buf_adds(&spec, "{\"command\":[\"/bin/app\"],\"replicas\":2,\"terminationGracePeriodSeconds\":1,\"args\":[", &e);
    for (int i = 0; rc == 0 && i < ARGS; i++)
        rc = buf_addf(&spec, &e, "%s\"%0*d\"", i > 0 ? "," : "", EACH, i);
    if (rc < 0 || buf_adds(&spec, "]}", &e) < 0)
        abort();
    sim_server_create(&w->server, "edgeapps", "app-1", buf_str(&spec));
}

static void full_disk(void)
{
    struct world *w = world_at_work("auto");
    w->disk.full = true;
    for (int i = 0; i < 3; i++) {
        port_fake_crash(w->port.port, APP, i % 2, 3);
        world_live(w, 6 * MINUTE);
        is_int(running(w), 2, "field 12: nothing can be written: what ends is started again all the same (%d)", i + 1);
    }
    create_large_app(w);
    world_live(w, MINUTE);
    is_int(running(w), 2, "field 12: what is new and finds no room waits");
    uint64_t asked = w->server.requests;
    world_live(w, 10 * MINUTE);
    asked = w->server.requests - asked;
    ok(asked < 600, "field 12: what cannot be stored is asked for ever more seldom: %" PRIu64 " requests in 10 minutes", asked);
    w->disk.full = false;
    becomes_right(w, BACK_MS, "field 12: there is room again: the agent goes on by itself");
    is_int(running(w), 4, "field 12: with what is new");
    is_int(of_instance(w, 0, "restarts"), 2, "field 12: and tells what happened");
    is_int(events_of(w, "Exited"), 3, "field 12: with an event for each end");
    witness_sums_up(w);
    world_end(w, "field 12");
}

// --- 14: "too old resource version"

static void too_old_once(bool old_server)
{
    struct world *w = world_new("watch");
    w->server.old_server = old_server;
    sim_server_create(&w->server, "edgeapps", "app-0", app_spec);
    agent_start_now(w);
    world_live(w, SETTLE_MS);
    is_right(w, "field 14: all is right");
    sim_net_link(&w->net, NET_REFUSED);
    world_live(w, MINUTE);
    sim_server_create(&w->server, "edgeapps", "app-1", app_spec);
    sim_server_compact(&w->server);
    uint64_t before = relists(w);
    sim_net_link(&w->net, NET_FINE);
    becomes_right(w, BACK_MS, "field 14: the resourceVersion is too old: the agent lists again");
    world_live(w, 10 * MINUTE);
    is_int((intmax_t)(relists(w) - before), SOURCES, "field 14: each source once (%s)", old_server ? "pages" : "streamed");
    world_end(w, "field 14");
}

// Every resourceVersion is too old, even that of the list before.
static void too_old_always(bool old_server)
{
    struct world *w = world_at_work("watch");
    w->server.old_server = old_server;
    w->server.compacted_rv = INT64_MAX;
    sim_server_restart(&w->server);
    world_live(w, 5 * MINUTE);
    uint64_t before = w->server.requests;
    world_live(w, HOUR);
    uint64_t per_minute = (w->server.requests - before) / 60;
    ok(per_minute < 40, "field 14: a server for which all is too old gets %" PRIu64 " requests a minute (%s)", per_minute,
       old_server ? "pages" : "streamed");
    is_int(running(w), 2, "field 14: and nothing was stopped");
    w->server.compacted_rv = w->server.rv;
    becomes_right(w, BACK_MS, "field 14: and all is well when it has come to its senses");
    world_end(w, "field 14");
}

// --- 17, 18: what is no proof that anything was deleted

// Ten minutes of it, a restart of the agent and ten minutes more change nothing; what runs is looked after.
static void stands(struct world *w, const char *line, const char *word)
{
    uint64_t print = check_fingerprint(w), stops = w->port.stops;
    for (int i = 0; i < 2; i++) {
        world_live(w, 10 * MINUTE);
        ok(check_fingerprint(w) == print && w->port.stops == stops, "%s: %s: everything stands%s", line, word,
           i > 0 ? ", after a restart of the agent too" : "");
        is_int(running(w), 2, "%s: %s: and runs", line, word);
        if (i == 0)
            agent_restart(w, 1000);
    }
    port_fake_crash(w->port.port, APP, 0, 1);
    world_live(w, MINUTE);
    is_int(running(w), 2, "%s: %s: and is looked after", line, word);
}

static void is_over(struct world *w, const char *line, const char *word)
{
    becomes_right(w, BACK_MS, "field 17, 18: when the doubt is over all is right");
    sim_server_delete(&w->server, sim_server_find(&w->server, "edgeapps", "app-0"));
    world_live(w, MINUTE);
    is_int(running(w), 0, "%s: %s: a deletion that is one is one", line, word);
    world_end(w, line);
}

static void doubt(enum sim_doubt d, const char *line, enum link_state link)
{
    struct world *w = world_at_work("auto");
    sim_server_doubt(&w->server, d);
    world_live(w, 5 * MINUTE);
    is_int(link_of(w), link, "%s: %s: is told as what it is", line, sim_doubt_words[d]);
    stands(w, line, sim_doubt_words[d]);
    sim_server_doubt(&w->server, DOUBT_NONE);
    is_over(w, line, sim_doubt_words[d]);
}

// Watches that are open stay open and say nothing of it; the lease, or a status, is what is refused.
static void doubt_beside_watches(enum sim_doubt d, bool crash, int64_t most_ms)
{
    struct world *w = world_at_work("watch");
    w->server.doubt = d;
    if (crash)
        port_fake_crash(w->port.port, APP, 0, 1);
    world_live(w, most_ms);
    is_int(link_of(w), LINK_IDENTITY_LOST, "field 17: %s, while a watch is open: is told after %d s", sim_doubt_words[d],
           (int)(most_ms / 1000));
    stands(w, "field 17", sim_doubt_words[d]);
    sim_server_doubt(&w->server, DOUBT_NONE);
    is_over(w, "field 17", sim_doubt_words[d]);
}

// A proxy that cuts lists and streams and ends them as if they were whole.
static void cut_and_hidden(const char *mode)
{
    const char *word = strcmp(mode, "list") == 0 ? "pages that end in the middle" : "streams that end in the middle";
    struct world *w = world_at_work(mode);
    w->net.hides_cuts = true;
    sim_server_doubt(&w->server, DOUBT_TRUNCATED);
    sync_resync(w->agent->sync, false);
    stands(w, "field 18", word);
    sim_server_doubt(&w->server, DOUBT_NONE);
    is_over(w, "field 18", word);
}

static void set_uid(struct world *w, const char *namespace, const char *uid)
{
    struct sim_object *o = sim_store_get(&w->server, sim_type_find(&w->server, "", "v1", "namespaces"), "", namespace);
    json_set_str((struct json *)json_get(o->json, "metadata"), "uid", uid);
    sim_store_changed(&w->server, o);
}

static void swap_cluster(struct world *w, const char *system, const char *own, bool empty)
{
    set_uid(w, "kube-system", system);
    set_uid(w, SIM_NS, own);
    sim_each_object(o, &w->server) o->hidden = empty && strcmp(o->type->group, "edge.limpet.dev") == 0;
    sim_server_compact(&w->server);
    sim_server_restart(&w->server);
}

// Another cluster answers; it has a namespace of our name, with nothing in it, and takes our credential.
static void other_cluster_of_same_names(void)
{
    char system[40], own[40];
    struct world *w = world_at_work("auto");
    const struct sim_type *t = sim_type_find(&w->server, "", "v1", "namespaces");
    snprintf(system, sizeof(system), "%s", sim_store_get(&w->server, t, "", "kube-system")->uid);
    snprintf(own, sizeof(own), "%s", sim_store_get(&w->server, t, "", SIM_NS)->uid);
    swap_cluster(w, "99999999-0000-4000-8000-000000000001", "99999999-0000-4000-8000-000000000002", true);
    stands(w, "field 18", "an empty namesake");
    is_int(link_of(w), LINK_IDENTITY_LOST, "field 18: an empty namesake: is told as what it is");
    swap_cluster(w, system, own, false);
    is_over(w, "field 18", "an empty namesake");
}

// The duration that a lease lasts is told again when the request that told it got no answer.
static void lease_told_without_answer(void)
{
    struct world *w = world_at_work("watch");
    sim_net_link(&w->net, NET_DROPS_OUT);
    lease_tune(w->agent->lease, 77000, 11000);
    world_live(w, MINUTE);
    sim_net_link(&w->net, NET_FINE);
    world_live(w, 5 * MINUTE);
    int64_t s = 0;
    const struct sim_object *o = sim_server_find(&w->server, "leases", SIM_NODE);
    ok(json_i64(json_path(o->json, "spec.leaseDurationSeconds"), &s) && s == 77,
       "the lease lasts as long as it was tuned to, %" PRId64 " s", s);
    world_end(w, "lease");
}

// An event whose row is damaged has to go before the next one is sent, and the disk takes no writes then. When it does again nothing else is
// committed that would wake whoever sends.
static void told_when_disk_is_well(void)
{
    struct world *w = world_at_work("watch");
    struct err e = ERR_INIT;
    struct outbox_stats s = { 0 };
    struct event_in ev = {
        .key = APP, .uid = "u", .kind = "EdgeApp", .api_version = "edge.limpet.dev/v1alpha1", .ns = SIM_NS, .name = "app-0"
    };
    ev.reason = ev.action = "Tried", ev.note = "the first";
    int rc = outbox_event(w->agent->outbox, &ev, &e);
    ev.note = "the second";
    rc = rc == 0 ? outbox_event(w->agent->outbox, &ev, &e) : rc;
    rc = rc == 0 ? db_run(db_stmt(w->agent->db, "UPDATE event SET count=7 WHERE note='the first'"), &e) : rc;
    rc = rc == 0 ? db_commit(w->agent->db, &e) : rc;
    is_int(rc, 0, "two events wait, the row of the first is damaged");
    w->disk.error_permille = 1000;
    egress_wake(w->agent->egress);
    world_live(w, MINUTE);
    w->disk.error_permille = 0;
    world_live(w, MINUTE);
    is_int(outbox_stats(w->agent->outbox, &s, &e), 0, "the disk is well again");
    is_int(s.events_pending, 0, "the second one is told");
    is_int(s.events_lost, 1, "the first is owned up to");
    world_end(w, "disk");
}

// The store is lost while another cluster answers: the identity still knows which one is ours.
static void other_cluster_without_store(void)
{
    char system[40];
    struct world *w = world_at_work("auto");
    snprintf(system, sizeof(system), "%s", w->cluster);
    set_uid(w, "kube-system", "99999999-0000-4000-8000-000000000001");
    sim_each_object(o, &w->server) o->hidden = strcmp(o->type->group, "edge.limpet.dev") == 0;
    sim_server_restart(&w->server);
    agent_kill(w, HOUR);
    sim_disk_remove(&w->disk, "/var/lib/limpet/limpet.db");
    sim_disk_remove(&w->disk, "/var/lib/limpet/limpet.db-wal");
    witness_store_lost(w);
    rules_store_lost(w);
    agent_start_now(w);
    world_live(w, 5 * MINUTE);
    is_int(link_of(w), LINK_IDENTITY_LOST, "field 18: without a store: an empty namesake is no cluster of ours");
    is_int(running(w), 2, "field 18: without a store: what runs is kept");
    set_uid(w, "kube-system", system);
    sim_each_object(o, &w->server) o->hidden = false;
    sim_server_compact(&w->server);
    becomes_right(w, 5 * MINUTE, "field 18: without a store: ours is known again");
    world_end(w, "field 18");
}

// The owner joins the node anew: another namespace is then what he means. What is missing there stays for the hold, nothing else waits.
static void joined_anew(void)
{
    struct world *w = world_at_work("auto");
    swap_cluster(w, "99999999-0000-4000-8000-000000000001", "99999999-0000-4000-8000-000000000002", false);
    sim_each_object(o, &w->server) o->hidden = strcmp(o->type->plural, "edgeconfigs") == 0;
    world_live(w, 5 * MINUTE);
    is_int(link_of(w), LINK_IDENTITY_LOST, "field 17: another namespace of that name: identity lost");
    sim_disk_put(&w->disk, "/var/lib/limpet/" AGENT_JOINED, "", 0600);
    agent_restart(w, 1000);
    world_live(w, 5 * MINUTE);
    is_int(link_of(w), LINK_ONLINE, "field 17: joined anew: online");
    is_str(file_0(w), "one\n", "field 17: joined anew: what is not there any more waits for the hold");
    ok(sim_disk_at(&w->disk, "/var/lib/limpet/" AGENT_JOINED) == NULL, "the note about the join was taken");
    sim_server_delete(&w->server, sim_server_find(&w->server, "edgeapps", "app-0"));
    world_live(w, 2 * HOUR);
    is_int(running(w), 0, "field 17: joined anew: deletions are heard after the hold");
    is_str(file_0(w), "", "field 17: joined anew: and what was missing goes");
    set_uid(w, SIM_NS, "99999999-0000-4000-8000-000000000003");
    sim_net_link(&w->net, NET_REFUSED);
    world_live(w, MINUTE);
    sim_net_link(&w->net, NET_FINE);
    world_live(w, 5 * MINUTE);
    is_int(link_of(w), LINK_IDENTITY_LOST, "field 17: one join is one namespace");
    world_end(w, "field 17");
}

// --- 31: what is needed comes later

static void crd_comes_later(void)
{
    struct world *w = world_new("auto");
    sim_server_doubt(&w->server, DOUBT_NO_CRD);
    agent_start_now(w);
    world_live(w, HOUR);
    struct sync_stats s;
    sync_stats(w->agent->sync, &s);
    is_int((intmax_t)s.current, 0, "field 31: the CRDs are not there: no source is current");
    ok(w->server.requests < 1500, "field 31: an hour of waiting is %" PRIu64 " requests", w->server.requests);
    sim_server_doubt(&w->server, DOUBT_NONE);
    sim_server_create(&w->server, "edgeapps", "app-0", app_spec);
    sim_server_create(&w->server, "edgeconfigs", "cfg-0", file_spec);
    becomes_right(w, 3 * MINUTE, "field 31: they come, and the agent goes on by itself");
    is_int(running(w), 2, "field 31: the app runs");
    is_str(file_0(w), "one\n", "field 31: the file is written");
    world_end(w, "field 31");
}

// --- 30: the wall clock steps

struct steps {
    struct sim_event next;
    struct world *w;
    struct sim_rng rng;
};

static void on_step(struct sim_event *ev)
{
    struct steps *s = container_of(ev, struct steps, next);
    s->w->clock.wall_off_us = rng_between(&s->rng, -40000, 40000) * INT64_C(86400000000);
    sim_in(&s->w->sim, &s->next, rng_between(&s->rng, 50, 9000), on_step);
}

// A day in which all that waits is waited for: a probe, crash loops, the stop of a stubborn process, a command that does not end, outages.
static void busy_day(struct world *w)
{
    struct fake_behaviour stubborn = w->port.normal, failing = w->port.normal;
    stubborn.stop_ms = 100000;
    stubborn.check_ok = false;
    failing.run_ms = 3000;
    failing.exit_code = 1;
    sim_server_create(&w->server, "edgeapps", "app-0",
                      "{\"command\":[\"/bin/app\"],\"terminationGracePeriodSeconds\":20,\"readinessProbe\":{\"tcpSocket\":{\"port\":80},"
                      "\"initialDelaySeconds\":5,\"periodSeconds\":7,\"failureThreshold\":3}}");
    sim_server_create(&w->server, "edgeapps", "app-1", app_spec);
    port_fake_behave(w->port.port, "edgeapps/" SIM_NS "/app-1", &failing);
    agent_start_now(w);
    world_live(w, 10 * MINUTE);
    port_fake_behave(w->port.port, APP, &stubborn);
    world_live(w, 10 * MINUTE);
    sim_server_set_spec(&w->server, sim_server_find(&w->server, "edgeapps", "app-0"),
                        "{\"command\":[\"/bin/other\"],\"terminationGracePeriodSeconds\":20}");
    world_live(w, 10 * MINUTE);
    sim_net_link(&w->net, NET_DROPS);
    world_live(w, HOUR);
    sim_net_link(&w->net, NET_REFUSED);
    world_live(w, HOUR);
    sim_net_link(&w->net, NET_FINE);
    world_live(w, HOUR);
}

static uint64_t day_with(bool steps, uint64_t *requests)
{
    struct world *w = world_new("watch");
    struct steps s = { .w = w, .rng = sim_stream(&w->sim, "steps") };
    if (steps)
        sim_in(&w->sim, &s.next, 1000, on_step);
    busy_day(w);
    uint64_t hash = w->sim.hash;
    *requests = w->net.submitted;
    sim_unset(&s.next);
    if (steps && getenv("FIELD_SHOWS") != NULL)
        sim_shows(&w->sim, NOTES_KEPT);
    world_end(w, "field 30");
    return hash;
}

static void clock_steps(void)
{
    uint64_t n, m, calm = day_with(false, &n), wild = day_with(true, &m);
    ok(calm == wild, "field 30: with a wall clock that leaps over decades every start, stop, status and event comes at the same moment");
    is_int((intmax_t)m, (intmax_t)n, "field 30: and as many requests are made");
}

// --- A CRD changes: streams that were open tell an object as the old schema cuts it, and end before their time

static void end_streams(struct world *w)
{
    list_each_safe(it, next, &w->server.streams) {
        struct sim_stream *st = container_of(it, struct sim_stream, link);
        st->ended = true;
        st->wake(st);
    }
}

// What the object was all the while: the same resourceVersion, and no watch says it again.
static void was_whole(struct sim_object *o)
{
    struct json *spec = json_copy(json_get(o->json, "spec"));
    char *digit = strstr(o->text, "\"replicas\":1,");
    if (digit == NULL || spec == NULL)
        abort();
    digit[strlen("\"replicas\":")] = '3';
    json_set_int(spec, "replicas", 3);
    json_set(o->json, "spec", spec);
}

static struct json *crd_of_apps(void)
{
    struct buf text AUTO_BUF = BUF_INIT(1 << 20);
    struct json *crd = NULL;
    const struct manifest *m = cluster_manifests;
    struct err e = ERR_INIT;
    while (m->kind != NULL && (strcmp(m->kind, "CustomResourceDefinition") != 0 || strcmp(m->name, "edgeapps.edge.limpet.dev") != 0))
        m++;
    if (m->kind == NULL || yaml_to_json(m->text, strlen(m->text), 0, &text, &e) < 0 || json_parse(&crd, text.data, text.len, &e) < 0)
        abort();
    return crd;
}

// The CRD is put back to one that does not know a field of the status, and then made the right one again.
static void status_cut_by_old_crd(void)
{
    struct world *w = world_at_work("auto");
    struct json *old = crd_of_apps(), *right = crd_of_apps();
    const struct json *status =
        json_path(json_at(json_path(old, "spec.versions"), 0), "schema.openAPIV3Schema.properties.status.properties");
    struct sim_object *o = sim_server_find(&w->server, "edgeapps", "app-0");
    json_del((struct json *)status, "readyReplicas");
    sim_server_install(&w->server, old);
    world_live(w, MINUTE);
    sim_server_set_spec(&w->server, o, "{\"command\":[\"/bin/app\"],\"replicas\":3,\"terminationGracePeriodSeconds\":1}");
    world_live(w, MINUTE);
    ok(json_path(o->json, "status.replicas") != NULL && json_path(o->json, "status.readyReplicas") == NULL,
       "field 14: an old CRD: the status is told without what it does not know");
    sim_server_install(&w->server, right);
    world_live(w, 8 * MINUTE);
    int64_t ready = 0;
    ok(json_i64(json_path(o->json, "status.readyReplicas"), &ready) && ready == 3,
       "field 14: the CRD is the right one again: what was cut arrives, and nothing had to change for it");
    json_free(old);
    json_free(right);
    world_end(w, "a status that an old CRD cut");
}

static void schema_switch(const char *mode)
{
    struct world *w = world_at_work(mode);
    struct sim_object *o = sim_server_find(&w->server, "edgeapps", "app-0");
    sim_server_set_spec(&w->server, o, "{\"command\":[\"/bin/app\"],\"replicas\":1,\"terminationGracePeriodSeconds\":1}");
    world_live(w, 600);
    was_whole(o);
    end_streams(w);
    becomes_right(w, 2 * MINUTE, "what an old schema had cut from an object becomes known");
    is_int(running(w), 3, "... in %s mode", mode);
    world_end(w, "a schema that changes under an open watch");
}

// The RTC's battery is empty, or worse: the machine believes in another time over a reboot without a server, then is right again.
static void wrong_at_boot(int64_t years)
{
    struct world *w = world_at_work("watch");
    int64_t off = years * 365 * INT64_C(86400000000);
    sim_net_link(&w->net, NET_REFUSED);
    world_live(w, MINUTE);
    w->clock.synced = false;
    w->clock.wall_off_us = off;
    machine_reboot(w, 5000);
    world_live(w, HOUR);
    is_int(running(w), 2, "field 3: %+d years at boot: what is in the cache runs", (int)years);
    port_fake_crash(w->port.port, APP, 0, 1);
    world_live(w, MINUTE);
    is_int(running(w), 2, "field 3: %+d years at boot: and is looked after", (int)years);
    w->clock.wall_off_us = 0;
    machine_reboot(w, 5000);
    sim_net_link(&w->net, NET_FINE);
    becomes_right(w, BACK_MS, "field 3: right again");
    int64_t wrong_us = clock_wall_us(&w->clock.clock) - sim_true_us(&w->sim);
    ok(wrong_us > -60000000 && wrong_us < 60000000, "field 3: %+d years at boot: nothing of it stays (%" PRId64 " s)", (int)years,
       wrong_us / 1000000);
    world_end(w, "field 3");
}

int main(void)
{
    boot_without_server(NET_REFUSED, "refused");
    boot_without_server(NET_DROPS, "packets vanish");
    exits_while_offline();
    status_on_bad_link();
    changes_while_away("watch", false, false);
    changes_while_away("watch", true, false);
    changes_while_away("watch", true, true);
    changes_while_away("poll", true, false);
    changes_while_away("list", false, true);
    no_line_to_wait_in();
    full_disk();
    status_cut_by_old_crd();
    schema_switch("watch");
    schema_switch("poll");
    too_old_once(false);
    too_old_once(true);
    too_old_always(false);
    too_old_always(true);
    doubt(DOUBT_TERMINATING, "field 17", LINK_IDENTITY_LOST);
    doubt(DOUBT_NO_NAMESPACE, "field 17", LINK_IDENTITY_LOST);
    doubt(DOUBT_FORBIDDEN, "field 17", LINK_IDENTITY_LOST);
    doubt(DOUBT_UNAUTHORIZED, "field 17", LINK_IDENTITY_LOST);
    doubt_beside_watches(DOUBT_UNAUTHORIZED, false, 40000);
    doubt_beside_watches(DOUBT_FORBIDDEN, true, 15000);
    doubt_beside_watches(DOUBT_NO_NAMESPACE, true, 15000);
    doubt(DOUBT_TRUNCATED, "field 18", LINK_OFFLINE);
    doubt(DOUBT_PORTAL, "field 18", LINK_OFFLINE);
    doubt(DOUBT_OTHER_CLUSTER, "field 18", LINK_IDENTITY_LOST);
    cut_and_hidden("auto");
    cut_and_hidden("list");
    other_cluster_of_same_names();
    other_cluster_without_store();
    lease_told_without_answer();
    told_when_disk_is_well();
    joined_anew();
    crd_comes_later();
    clock_steps();
    wrong_at_boot(-60);
    wrong_at_boot(+10);
    return done_testing();
}
