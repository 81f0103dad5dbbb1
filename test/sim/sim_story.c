// SPDX-License-Identifier: Apache-2.0
// The plot: users change specs, machines and networks fail, and then there is peace.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim_world.h"

enum { SPEC_MAX = 2000, PEACE_MAX_MS = 25 * MINUTE, PEACE_STEP_MS = 20 * 1000, AFTERMATH_MS = 20 * MINUTE };

// --- Specs. Each carries a running number, so that no two are equal by accident.

static void app_spec(struct world *w, char out[SPEC_MAX])
{
    static const char *const restarts[] = { "Always", "Always", "OnFailure" };
    static const char *const probes[] = {
        "", "", ",\"readinessProbe\":{\"tcpSocket\":{\"port\":80},\"periodSeconds\":7}",
        ",\"readinessProbe\":{\"exec\":{\"command\":[\"/bin/ready\"]},\"initialDelaySeconds\":2,\"periodSeconds\":11}"
    };
    struct sim_rng *r = &w->rng;
    int replicas = (int)rng_between(r, 0, 3);
    int64_t version = rng_chance(r, 60) ? ++w->edits : rng_below(r, 3); // an old one comes back at times
    snprintf(out, SPEC_MAX,
             "{\"command\":[\"/bin/app\",\"--version\",\"%" PRId64
             "\"],\"replicas\":%d,\"restartPolicy\":\"%s\",\"terminationGracePeriodSeconds\":%d,"
             "\"env\":[{\"name\":\"COLOUR\",\"value\":\"c%d\"}]%s}",
             version, replicas, restarts[rng_below(r, 3)], (int)rng_between(r, 1, 20), (int)rng_below(r, 2), probes[rng_below(r, 4)]);
}

static void invalid_app_spec(struct world *w, char out[SPEC_MAX])
{
    snprintf(out, SPEC_MAX, "{\"command\":[],\"replicas\":%d}", ++w->edits);
}

static const char *path_of(int config, int file, char out[64])
{
    snprintf(out, 64, "/etc/app/cfg-%d-%c.conf", config, 'a' + file);
    return out;
}

static void config_spec(struct world *w, int index, char out[SPEC_MAX])
{
    static const char *const policies[] = { "Restore", "Delete", "Keep" };
    struct sim_rng *r = &w->rng;
    char path[64];
    int files = (int)rng_between(r, 1, FILES_EACH);
    int n = snprintf(out, SPEC_MAX, "{\"deletionPolicy\":\"%s\"", policies[(index + (rng_chance(r, 20) ? 1 : 0)) % 3]);
    if (index % 2 == 0)
        n += snprintf(out + n, SPEC_MAX - (size_t)n, ",\"onChange\":{\"command\":[\"/bin/reload\",\"cfg-%d\"]}", index);
    if (index == 1)
        n += snprintf(out + n, SPEC_MAX - (size_t)n, ",\"validate\":{\"command\":[\"/bin/validate\"]}");
    n += snprintf(out + n, SPEC_MAX - (size_t)n, ",\"files\":[");
    for (int i = 0; i < files; i++)
        n += snprintf(out + n, SPEC_MAX - (size_t)n, "%s{\"path\":\"%s\",\"content\":\"text %d of cfg-%d\\n\",\"mode\":\"%s\"}",
                      i > 0 ? "," : "", path_of(index, i, path), ++w->edits, index, rng_chance(r, 80) ? "0644" : "0600");
    snprintf(out + n, SPEC_MAX - (size_t)n, "]}");
}

// --- Users

static void touch_paths(struct world *w, int config)
{
    for (int i = 0; i < FILES_EACH; i++)
        w->paths[config * FILES_EACH + i].settled = false;
}

static void edit_app(struct world *w)
{
    char name[16], spec[SPEC_MAX];
    snprintf(name, sizeof(name), "app-%d", (int)rng_below(&w->rng, APPS));
    struct sim_object *o = sim_server_find(&w->server, "edgeapps", name);
    if (rng_chance(&w->rng, 5))
        invalid_app_spec(w, spec);
    else
        app_spec(w, spec);
    if (o == NULL)
        sim_server_create(&w->server, "edgeapps", name, spec);
    else
        sim_server_set_spec(&w->server, o, spec);
}

static const char *policy_of(const struct sim_object *o)
{
    const char *s = json_str(json_path(o->json, "spec.deletionPolicy"));
    return s != NULL ? s : "";
}

static void edit_config(struct world *w)
{
    char name[16], spec[SPEC_MAX], before[16] = "";
    int index = (int)rng_below(&w->rng, CONFIGS);
    snprintf(name, sizeof(name), "cfg-%d", index);
    struct sim_object *o = sim_server_find(&w->server, "edgeconfigs", name);
    config_spec(w, index, spec);
    if (o == NULL) {
        touch_paths(w, index);
        sim_server_create(&w->server, "edgeconfigs", name, spec);
        return;
    }
    snprintf(before, sizeof(before), "%s", policy_of(o));
    sim_server_set_spec(&w->server, o, spec);
    if (strcmp(before, policy_of(o)) != 0) // which of the two the agent knows at the end is not ours to say
        touch_paths(w, index);
}

static struct sim_object *any_object(struct world *w)
{
    char name[16];
    bool app = rng_chance(&w->rng, 60);
    snprintf(name, sizeof(name), app ? "app-%d" : "cfg-%d", (int)rng_below(&w->rng, app ? APPS : CONFIGS));
    return sim_server_find(&w->server, app ? "edgeapps" : "edgeconfigs", name);
}

static void delete_one(struct world *w)
{
    struct sim_object *o = any_object(w);
    if (o != NULL)
        sim_server_delete(&w->server, o);
}

// The same name, another uid.
static void replace_one(struct world *w)
{
    char name[SIM_NAME_MAX], spec[SPEC_MAX];
    struct sim_object *o = any_object(w);
    if (o == NULL)
        return;
    const char *plural = o->type->plural;
    snprintf(name, sizeof(name), "%s", o->name);
    int config = sim_port_index_of_config(name);
    if (config >= 0)
        touch_paths(w, config);
    if (config >= 0)
        config_spec(w, config, spec);
    else
        app_spec(w, spec);
    sim_server_delete(&w->server, o);
    sim_server_create(&w->server, plural, name, spec);
}

static void wipe_a_status(struct world *w)
{
    struct sim_object *o = any_object(w);
    if (o != NULL)
        sim_server_wipe_status(&w->server, o);
}

// --- The machine

static void crash_instance(struct world *w)
{
    char owner[64];
    if (w->agent == NULL)
        return;
    snprintf(owner, sizeof(owner), "edgeapps/" SIM_NS "/app-%d", (int)rng_below(&w->rng, APPS));
    int n = port_fake_crash(w->port.port, owner, (int)rng_below(&w->rng, 3), rng_chance(&w->rng, 70) ? 1 : 0);
    if (n > 0)
        sim_note(&w->sim, "machine", "an instance of %s ends", owner);
}

static void drift(struct world *w)
{
    int i = (int)rng_below(&w->rng, PATHS);
    char path[64];
    path_of(i / FILES_EACH, i % FILES_EACH, path);
    w->paths[i].settled = w->paths[i].before_known = false;
    if (rng_chance(&w->rng, 40)) {
        sim_note(&w->sim, "machine", "somebody removes %s", path);
        sim_disk_remove(&w->disk, path);
    } else {
        sim_note(&w->sim, "machine", "somebody writes %s", path);
        sim_disk_put(&w->disk, path, "scribble\n", 0666);
    }
}

static void make_unstable(struct world *w)
{
    struct fake_behaviour b = w->port.normal;
    b.run_ms = rng_between(&w->rng, 100, 30000);
    b.exit_code = (int)rng_below(&w->rng, 2);
    b.stop_ms = rng_between(&w->rng, 0, 40000);
    b.check_ok = rng_chance(&w->rng, 50);
    b.run_code = rng_chance(&w->rng, 30) ? 1 : 0;
    b.start_errno = rng_chance(&w->rng, 20) ? 2 : 0;
    sim_note(&w->sim, "machine", "programs behave badly");
    port_fake_behave(w->port.port, NULL, &b);
}

static void make_stable(struct world *w)
{
    port_fake_behave(w->port.port, NULL, &w->port.normal);
}

static void fill_disk(struct world *w)
{
    w->disk.full = !w->disk.full;
    sim_note(&w->sim, "machine", "the disk %s", w->disk.full ? "is full" : "has room");
}

static void die_at_an_effect(struct world *w)
{
    w->fatal_is_power_cut = rng_chance(&w->rng, 50);
    w->sim.fatal = w->sim.effects + (uint64_t)rng_between(&w->rng, 1, 80);
}

static int64_t down_time(struct world *w)
{
    return rng_chance(&w->rng, 70) ? rng_between(&w->rng, 1, 20) * 1000 : rng_between(&w->rng, 60, 600) * 1000;
}

static void doubt_the_clock(struct world *w)
{
    if (!rng_chance(&w->rng, 40))
        return;
    w->clock.synced = false;
    w->clock.wall_off_us = -rng_between(&w->rng, 1, 3000) * 86400 * 1000000;
}

static void cut_power(struct world *w)
{
    if (w->agent == NULL)
        return;
    doubt_the_clock(w);
    machine_power_cut(w, down_time(w));
}

static void kill_agent(struct world *w)
{
    agent_kill(w, down_time(w));
}

static void restart_agent(struct world *w)
{
    agent_restart(w, rng_between(&w->rng, 1, 5) * 1000);
}

// --- The network and the server

static void change_link(struct world *w)
{
    static const enum sim_link links[] = { NET_FINE, NET_FINE, NET_REFUSED, NET_DROPS };
    w->net.fault_percent = rng_chance(&w->rng, 40) ? (int)rng_between(&w->rng, 1, 30) : 0;
    w->net.latency_ms = rng_chance(&w->rng, 20) ? rng_between(&w->rng, 100, 3000) : 20;
    sim_net_link(&w->net, links[rng_below(&w->rng, 4)]);
}

static void compact(struct world *w)
{
    sim_server_compact(&w->server);
}

static void restart_server(struct world *w)
{
    sim_note(&w->sim, "server", "restart");
    sim_server_restart(&w->server);
}

// --- Chaos

static const struct {
    void (*act)(struct world *w);
    int weight;
} acts_of_chaos[] = {
    { edit_app, 22 },  { edit_config, 16 },  { delete_one, 6 }, { replace_one, 4 },      { wipe_a_status, 2 }, { crash_instance, 14 },
    { drift, 8 },      { change_link, 14 },  { compact, 3 },    { restart_server, 2 },   { make_unstable, 2 }, { make_stable, 3 },
    { kill_agent, 4 }, { restart_agent, 2 }, { cut_power, 3 },  { die_at_an_effect, 6 }, { fill_disk, 1 },
};

static void one_act(struct world *w)
{
    int all = 0;
    for (size_t i = 0; i < ARRAY_LEN(acts_of_chaos); i++)
        all += acts_of_chaos[i].weight;
    int64_t at = rng_below(&w->rng, all);
    for (size_t i = 0; i < ARRAY_LEN(acts_of_chaos); i++) {
        at -= acts_of_chaos[i].weight;
        if (at < 0) {
            acts_of_chaos[i].act(w);
            return;
        }
    }
}

void story_begin(struct world *w)
{
    static const char *const modes[] = { "auto", "auto", "watch", "poll", "list" };
    w->mode = modes[rng_below(&w->rng, ARRAY_LEN(modes))];
    w->max_events = rng_chance(&w->rng, 25) ? rng_between(&w->rng, 10, 40) : 5000;
    w->server.old_server = rng_chance(&w->rng, 30);
    doubt_the_clock(w);
    sim_note(&w->sim, "world", "seed %" PRIu64 " mode=%s max_events=%" PRId64 " old_server=%d", w->sim.seed, w->mode, w->max_events,
             w->server.old_server);
    for (int i = 0; i < PATHS; i += 3) { // somebody was here before
        char path[64];
        sim_disk_put(&w->disk, path_of(i / FILES_EACH, i % FILES_EACH, path), "before us\n", 0640);
    }
    check_note_peace(w);
    sim_server_create(&w->server, "edgenodes", SIM_NODE, "{\"description\":\"under test\"}");
    for (int i = 0; i < 3; i++) {
        edit_app(w);
        edit_config(w);
    }
    if (rng_chance(&w->rng, 30)) // first boot without a network
        sim_net_link(&w->net, NET_REFUSED);
    agent_start_now(w);
}

void story_chaos(struct world *w, int acts)
{
    for (int i = 0; i < acts && !w->sim.broken; i++) {
        one_act(w);
        int64_t pause = rng_chance(&w->rng, 60) ? rng_between(&w->rng, 10, 3000) : rng_between(&w->rng, 5, 240) * 1000;
        world_live(w, pause);
    }
}

// --- Peace

static void mend(struct world *w)
{
    sim_note(&w->sim, "world", "peace");
    w->sim.fatal = 0;
    w->disk.full = false;
    w->net.fault_percent = 0;
    w->net.latency_ms = 20;
    sim_net_link(&w->net, NET_FINE);
    make_stable(w);
    if (w->agent == NULL)
        w->comes_back_ms = w->sim.now_ms;
}

void story_peace(struct world *w)
{
    char why[256] = "";
    int64_t until_ms = w->sim.now_ms + PEACE_MAX_MS;
    mend(w);
    const char *wrong = why;
    while (wrong != NULL && !w->sim.broken && w->sim.now_ms < until_ms) {
        world_live(w, PEACE_STEP_MS);
        wrong = w->agent != NULL ? check_right(w, why) : "the agent is not there";
    }
    if (wrong != NULL)
        sim_violation(&w->sim, "not right after %d minutes of peace: %s", PEACE_MAX_MS / MINUTE, wrong);
    if (w->sim.broken)
        return;
    sim_note(&w->sim, "world", "all is right");
    check_note_peace(w);
    witness_sums_up(w);
}

// --- Idleness costs nothing

void story_idle_hour(struct world *w)
{
    char why[256];
    world_live(w, AFTERMATH_MS);
    uint64_t writes = w->disk.store_writes, patches = w->server.status_patches, print = check_fingerprint(w);
    sim_note(&w->sim, "world", "an idle hour begins");
    world_live(w, HOUR);
    if (w->sim.broken)
        return;
    if (w->disk.store_writes != writes)
        sim_violation(&w->sim, "an idle hour cost %" PRIu64 " writes to the store", w->disk.store_writes - writes);
    if (w->server.status_patches != patches)
        sim_violation(&w->sim, "an idle hour cost %" PRIu64 " status patches", w->server.status_patches - patches);
    if (check_fingerprint(w) != print || check_right(w, why) != NULL)
        sim_violation(&w->sim, "the machine changed in an idle hour");
}

// --- Doubt

// Somebody removes the store of an agent that is down. It knows nothing then, and knowing nothing proves nothing. (A restored database or
// another cluster it could not tell from the right one.)
static void lose_store(struct world *w)
{
    static const char *const files[] = { "/var/lib/limpet/limpet.db", "/var/lib/limpet/limpet.db-wal" };
    sim_note(&w->sim, "machine", "the store is lost");
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        sim_disk_remove(&w->disk, files[i]);
    for (int i = 0; i < PATHS; i++)
        w->paths[i].settled = w->paths[i].before_known = false;
    w->store_was_lost = true;
    witness_store_lost(w);
}

static bool may_lose_store(enum sim_doubt d)
{
    return d != DOUBT_RESTORED && d != DOUBT_OTHER_CLUSTER;
}

static void live_in_doubt(struct world *w, enum sim_doubt d)
{
    int64_t until_ms = w->sim.now_ms + rng_between(&w->rng, 2, 18) * MINUTE;
    while (w->sim.now_ms < until_ms && !w->sim.broken) {
        world_live(w, rng_between(&w->rng, 5, 200) * 1000);
        if (rng_chance(&w->rng, 25))
            agent_kill(w, 3000);
        else if (rng_chance(&w->rng, 25))
            agent_restart(w, 1000);
        if (w->agent == NULL && may_lose_store(d) && rng_chance(&w->rng, 20))
            lose_store(w);
    }
    world_live(w, 30 * 1000); // it is there again, and has looked at the machine
}

static void check_doubt(struct world *w, enum sim_doubt d, const char *when, uint64_t print, uint64_t files, uint64_t stops)
{
    if (w->sim.broken)
        return;
    // Without its store the agent does not know that an instance had ended for good, and starts it again.
    bool same = w->store_was_lost ? check_files_print(w) == files : check_fingerprint(w) == print;
    if (w->port.stops != stops || !same)
        sim_violation(&w->sim, "the machine was changed %s doubt (%s)", when, sim_doubt_words[d]);
}

void story_doubt(struct world *w)
{
    world_live(w, MINUTE); // the last program that was started while they behaved badly has ended
    story_peace(w);
    enum sim_doubt d = (enum sim_doubt)rng_between(&w->rng, DOUBT_NONE + 1, DOUBTS - 1);
    uint64_t print = check_fingerprint(w), files = check_files_print(w), stops = w->port.stops;
    if (w->sim.broken)
        return;
    w->store_was_lost = false;
    sim_server_doubt(&w->server, d);
    live_in_doubt(w, d);
    check_doubt(w, d, "on", print, files, stops);
    sim_server_doubt(&w->server, DOUBT_NONE);
    story_peace(w);
    check_doubt(w, d, "after", print, files, stops);
}
