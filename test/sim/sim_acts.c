// SPDX-License-Identifier: Apache-2.0
// Each act of the plan, done. What lasts for a while ends by an event of its own, or at peace (weather_clears).
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim_world.h"

static int64_t seconds(int64_t s)
{
    return s * 1000;
}

// --- Instances

static void owner_of(const struct act *a, char out[64])
{
    snprintf(out, 64, "edgeapps/" SIM_NS "/app-%d", (int)a->a);
}

static void crash(struct world *w, const struct act *a)
{
    char owner[64];
    struct sim_rng r = { a->seed };
    owner_of(a, owner);
    if (port_fake_crash(w->port.port, owner, (int)a->b, rng_chance(&r, 70) ? 1 : 0) > 0)
        sim_hit(&w->sim, F_CRASH);
}

static void kill_shim(struct world *w, const struct act *a)
{
    char owner[64];
    owner_of(a, owner);
    if (port_fake_lose(w->port.port, owner, (int)a->b) > 0)
        sim_hit(&w->sim, F_SHIM_KILLED);
}

static void bad_programs(struct world *w, const struct act *a)
{
    static const int errors[] = { ENOENT, ENOEXEC, EACCES, EAGAIN };
    struct sim_rng r = { a->seed };
    struct fake_behaviour *b = &w->port.now;
    *b = w->port.normal;
    b->stop_ms = rng_between(&r, 0, 10000);
    switch ((enum bad_program)a->a) {
    case PROGRAM_CRASHES:
        b->run_ms = rng_between(&r, 100, 30000);
        b->exit_code = (int)rng_below(&r, 2);
        break;
    case PROGRAM_HANGS:
        b->check_ok = false;
        b->run_delay_ms = 100000;
        break;
    case PROGRAM_FORKS:
        b->run_ms = rng_between(&r, 0, 20000);
        b->linger_ms = rng_between(&r, 100, 5000);
        break;
    case PROGRAM_IGNORES_TERM:
        b->stop_ms = HOUR;
        break;
    case PROGRAM_EXITS_AT_ONCE:
        b->run_ms = 0;
        b->exit_code = (int)rng_below(&r, 2);
        break;
    case PROGRAM_NOT_EXECUTABLE:
        b->start_errno = errors[rng_below(&r, 4)];
        break;
    default:
        b->run_code = 1;
        b->check_ok = rng_chance(&r, 50);
    }
    w->port.bad = (enum bad_program)a->a;
    w->port.is_bad = true;
    port_fake_behave(w->port.port, NULL, b);
}

static void good_programs(struct world *w, const struct act *a UNUSED)
{
    w->port.now = w->port.normal;
    w->port.is_bad = false;
    port_fake_behave(w->port.port, NULL, &w->port.normal);
}

// --- Files

static void disturb(struct world *w, const struct act *a, char path[64])
{
    managed_path_of((int)a->a, path);
    w->paths[a->a].settled = w->paths[a->a].before_known = false;
    sim_hit(&w->sim, F_SCRIBBLE);
}

static void scribble(struct world *w, const struct act *a)
{
    char path[64];
    disturb(w, a, path);
    sim_disk_put(&w->disk, path, "scribble\n", 0666);
}

static void remove_file(struct world *w, const struct act *a)
{
    char path[64];
    disturb(w, a, path);
    sim_disk_remove(&w->disk, path);
}

// --- The network and the server

static void link_state(struct world *w, const struct act *a)
{
    sim_net_link(&w->net, (enum sim_link)a->a);
}

static void end_lossy(struct sim_event *ev)
{
    container_of(ev, struct world, weather.lossy)->net.fault_percent = 0;
}

static void lossy(struct world *w, const struct act *a)
{
    w->net.fault_percent = (int)a->b;
    sim_in(&w->sim, &w->weather.lossy, seconds(a->a), end_lossy);
}

static void end_slow(struct sim_event *ev)
{
    container_of(ev, struct world, weather.slow)->net.latency_ms = NET_LATENCY_MS;
}

static void slow(struct world *w, const struct act *a)
{
    w->net.latency_ms = a->b;
    sim_in(&w->sim, &w->weather.slow, seconds(a->a), end_slow);
}

static void half_open(struct world *w, const struct act *a UNUSED)
{
    sim_net_half_open(&w->net);
}

static void end_storm(struct sim_event *ev)
{
    container_of(ev, struct world, weather.storm)->net.storm = false;
}

static void storm(struct world *w, const struct act *a)
{
    w->net.storm = true;
    sim_in(&w->sim, &w->weather.storm, seconds(a->a), end_storm);
}

static void end_nonsense(struct sim_event *ev)
{
    sim_server_doubt(&container_of(ev, struct world, weather.nonsense)->server, DOUBT_NONE);
}

static void nonsense(struct world *w, const struct act *a)
{
    sim_server_doubt(&w->server, (enum sim_doubt)a->b);
    sim_in(&w->sim, &w->weather.nonsense, seconds(a->a), end_nonsense);
}

// The kubelet, or whoever writes the token's file, comes later than the rotation.
static void on_token_file(struct sim_event *ev)
{
    struct world *w = container_of(ev, struct world, weather.token);
    w->net.token_in_file = w->net.token_valid;
}

static void rotate_token(struct world *w, const struct act *a)
{
    w->net.token_valid++;
    sim_in(&w->sim, &w->weather.token, seconds(a->a), on_token_file);
}

static void end_cert(struct sim_event *ev)
{
    container_of(ev, struct world, weather.cert)->net.cert_expired = false;
}

static void expire_cert(struct world *w, const struct act *a)
{
    w->net.cert_expired = true;
    sim_in(&w->sim, &w->weather.cert, seconds(a->a), end_cert);
}

static struct sim_type *type_of(struct world *w, int64_t kind)
{
    return sim_type_find(&w->server, "edge.limpet.dev", "v1alpha1", plan_kinds[kind]);
}

// As a new version of limpet brings it: a field more, and a default for it in objects that nobody touches.
static void change_crd(struct world *w, const struct act *a)
{
    char field[32];
    struct sim_type *t = type_of(w, a->a);
    if (!t->served)
        return;
    struct json *crd AUTO_JSON = json_copy(t->schema->crd);
    struct json *version = (struct json *)(uintptr_t)json_at(json_path(crd, "spec.versions"), 0);
    struct json *fields = (struct json *)(uintptr_t)json_path(version, "schema.openAPIV3Schema.properties.spec.properties");
    struct json *added = json_object();
    snprintf(field, sizeof(field), "addedBy%d", a->number);
    json_set_str(added, "type", "string");
    json_set_str(added, "default", "as before");
    json_set(fields, field, added);
    if (fields == NULL || !json_ok())
        abort();
    sim_server_install(&w->server, crd);
}

static void end_crd(struct sim_event *ev)
{
    struct world *w = container_of(ev, struct world, weather.crd);
    for (int i = 0; i < KINDS; i++) {
        struct json *crd AUTO_JSON = json_copy(type_of(w, i)->schema->crd);
        if (!type_of(w, i)->served)
            sim_server_install(&w->server, crd);
    }
}

static void remove_crd(struct world *w, const struct act *a)
{
    const struct sim_type *t = type_of(w, a->a);
    if (!t->served)
        return;
    sim_each_object(o, &w->server) if (o->type == t) history_deleted(w, o);
    sim_server_remove_kind(&w->server, t->plural);
    sim_in(&w->sim, &w->weather.crd, seconds(a->b), end_crd);
}

static void end_account(struct sim_event *ev)
{
    struct world *w = container_of(ev, struct world, weather.account);
    sim_note(&w->sim, "server", "the node is joined again");
    w->server.dead_token_ms = INT64_MAX;
    w->net.token_in_file = ++w->net.token_valid;
}

static void delete_account(struct world *w, const struct act *a)
{
    sim_server_delete_account(&w->server);
    sim_in(&w->sim, &w->weather.account, seconds(a->a), end_account);
}

static void compact(struct world *w, const struct act *a UNUSED)
{
    sim_hit(&w->sim, F_COMPACTED);
    sim_server_compact(&w->server);
}

static void restart_server(struct world *w, const struct act *a UNUSED)
{
    sim_hit(&w->sim, F_RESTART);
    sim_server_restart(&w->server);
}

static void doubt(struct world *w, const struct act *a)
{
    sim_server_doubt(&w->server, (enum sim_doubt)a->b);
}

// --- The machine

static void kill_agent(struct world *w, const struct act *a)
{
    if (w->agent != NULL)
        sim_hit(&w->sim, F_KILL);
    agent_kill(w, seconds(a->a));
}

static void restart_agent(struct world *w, const struct act *a)
{
    agent_restart(w, seconds(a->a));
}

static void cut_power(struct world *w, const struct act *a)
{
    if (w->agent == NULL)
        return;
    sim_hit(&w->sim, F_POWER_CUT);
    machine_power_cut(w, seconds(a->a));
    world_boot_clock(w, (int)a->b, a->seed);
}

static void reboot(struct world *w, const struct act *a)
{
    if (w->agent == NULL)
        return;
    sim_hit(&w->sim, F_REBOOT);
    machine_reboot(w, seconds(a->a));
    world_boot_clock(w, (int)a->b, a->seed);
}

static void die_in_step(struct world *w, const struct act *a)
{
    struct sim_rng r = { a->seed };
    w->fatal_is_power_cut = a->b == 1;
    w->fatal_down_ms = seconds(rng_between(&r, 1, 60));
    w->sim.fatal = w->sim.effects + (uint64_t)a->a;
}

static void end_full(struct sim_event *ev)
{
    container_of(ev, struct world, weather.full)->disk.full = false;
}

static void fill_disk(struct world *w, const struct act *a)
{
    w->disk.full = true;
    sim_in(&w->sim, &w->weather.full, seconds(a->a), end_full);
}

static void end_errors(struct sim_event *ev)
{
    container_of(ev, struct world, weather.errors)->disk.error_permille = 0;
}

static void disk_errors(struct world *w, const struct act *a)
{
    struct sim_rng r = { a->seed };
    w->disk.error_permille = (int)a->b;
    w->disk.reads_fail = rng_chance(&r, 30);
    sim_in(&w->sim, &w->weather.errors, seconds(a->a), end_errors);
}

static void end_slow_disk(struct sim_event *ev)
{
    container_of(ev, struct world, weather.slow_disk)->disk.sync_ms = 0;
}

static void slow_disk(struct world *w, const struct act *a)
{
    w->disk.sync_ms = a->b;
    sim_in(&w->sim, &w->weather.slow_disk, seconds(a->a), end_slow_disk);
}

static void flip(struct world *w, const struct act *a)
{
    char path[64] = "/var/lib/limpet/limpet.db-wal";
    struct sim_rng r = { a->seed };
    int managed = (int)rng_below(&r, PATHS);
    if (a->a == FLIP_STORE)
        snprintf(path, sizeof(path), "/var/lib/limpet/limpet.db");
    else if (a->a >= FLIP_MANAGED)
        managed_path_of(managed, path);
    if (!sim_disk_flip(&w->disk, path, rng_next(&r)))
        return;
    if (a->a >= FLIP_MANAGED) {
        w->paths[managed].settled = w->paths[managed].before_known = false;
        return;
    }
    witness_store_rots(w);
    w->witness.rot_unread = true;
    w->witness.log_rots |= a->a != FLIP_STORE;
}

static void lose_store(struct world *w, const struct act *a)
{
    static const char *const files[] = { "/var/lib/limpet/limpet.db", "/var/lib/limpet/limpet.db-wal" };
    kill_agent(w, a);
    if (w->agent != NULL) // it is just being started
        return;
    sim_hit(&w->sim, F_STORE_LOST);
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        sim_disk_remove(&w->disk, files[i]);
    check_forget_paths(w);
    w->store_was_lost = true;
    witness_store_lost(w);
    rules_store_lost(w);
}

// --- The clock

static void end_ahead(struct sim_event *ev)
{
    struct world *w = container_of(ev, struct world, weather.ahead);
    sim_note(&w->sim, "machine", "the clock is back from the future");
    sim_clock_step(&w->clock, 0);
}

static void clock_ahead(struct world *w, const struct act *a)
{
    sim_hit(&w->sim, F_AHEAD);
    sim_clock_step(&w->clock, INT64_C(3650) * 86400 * 1000000);
    sim_in(&w->sim, &w->weather.ahead, seconds(a->a), end_ahead);
}

static void end_drift(struct sim_event *ev)
{
    sim_clock_drift(&container_of(ev, struct world, weather.drift)->clock, 0);
}

static void clock_drift(struct world *w, const struct act *a)
{
    sim_hit(&w->sim, F_DRIFT);
    sim_clock_drift(&w->clock, a->a);
    sim_in(&w->sim, &w->weather.drift, seconds(a->b), end_drift);
}

static void clock_right(struct world *w, const struct act *a UNUSED)
{
    sim_unset(&w->weather.ahead);
    sim_unset(&w->weather.drift);
    sim_clock_drift(&w->clock, 0);
    sim_clock_step(&w->clock, 0);
    w->clock.synced = true;
}

void world_boot_clock(struct world *w, int boot_clock, uint64_t seed)
{
    struct sim_rng r = { seed };
    if (boot_clock == BOOT_CLOCK_RIGHT)
        return;
    w->clock.synced = false;
    sim_hit(&w->sim, boot_clock == BOOT_CLOCK_1970 ? F_1970 : F_UNTRUSTED);
    sim_clock_step(&w->clock, boot_clock == BOOT_CLOCK_1970 ? -sim_true_us(&w->sim) : -rng_between(&r, 1, 3000) * 86400 * 1000000);
}

// --- All of them

static void (*const acts[ACTS])(struct world *w, const struct act *a) = {
    [ACT_EDIT_APP] = user_edits_app,
    [ACT_EDIT_CONFIG] = user_edits_config,
    [ACT_DELETE_APP] = user_deletes_app,
    [ACT_DELETE_CONFIG] = user_deletes_config,
    [ACT_REPLACE_APP] = user_replaces_app,
    [ACT_REPLACE_CONFIG] = user_replaces_config,
    [ACT_EDIT_JOB] = user_edits_job,
    [ACT_DELETE_JOB] = user_deletes_job,
    [ACT_EDIT_POLICY] = user_edits_policy,
    [ACT_BREAK_POLICY] = user_breaks_policy,
    [ACT_DELETE_POLICY] = user_deletes_policy,
    [ACT_JOB_SHIM_KILL] = kill_job_shims,
    [ACT_WIPE_STATUS] = user_wipes_status,
    [ACT_CRASH] = crash,
    [ACT_SHIM_KILL] = kill_shim,
    [ACT_SCRIBBLE] = scribble,
    [ACT_REMOVE_FILE] = remove_file,
    [ACT_BAD_PROGRAMS] = bad_programs,
    [ACT_GOOD_PROGRAMS] = good_programs,
    [ACT_LINK] = link_state,
    [ACT_LINK_FINE] = link_state,
    [ACT_LOSSY] = lossy,
    [ACT_SLOW] = slow,
    [ACT_HALF_OPEN] = half_open,
    [ACT_STORM] = storm,
    [ACT_NONSENSE] = nonsense,
    [ACT_TOKEN] = rotate_token,
    [ACT_CERT] = expire_cert,
    [ACT_CRD_CHANGED] = change_crd,
    [ACT_CRD_REMOVED] = remove_crd,
    [ACT_ACCOUNT] = delete_account,
    [ACT_COMPACT] = compact,
    [ACT_SERVER_RESTART] = restart_server,
    [ACT_KILL] = kill_agent,
    [ACT_RESTART] = restart_agent,
    [ACT_POWER_CUT] = cut_power,
    [ACT_REBOOT] = reboot,
    [ACT_DIE_IN_STEP] = die_in_step,
    [ACT_DISK_FULL] = fill_disk,
    [ACT_DISK_ERRORS] = disk_errors,
    [ACT_DISK_SLOW] = slow_disk,
    [ACT_FLIP] = flip,
    [ACT_CLOCK_AHEAD] = clock_ahead,
    [ACT_CLOCK_DRIFT] = clock_drift,
    [ACT_CLOCK_RIGHT] = clock_right,
    [ACT_DOUBT] = doubt,
    [ACT_LOSE_STORE] = lose_store,
};

void act_do(struct world *w, const struct act *a)
{
    char words[WORDS_MAX];
    sim_note(&w->sim, "act", "#%d %s", a->number, act_words(a, words));
    acts[a->kind](w, a);
}

void weather_clears(struct world *w)
{
    struct weather *t = &w->weather;
    struct sim_event *const all[] = { &t->lossy,   &t->slow, &t->storm,  &t->nonsense,  &t->token, &t->cert, &t->crd,
                                      &t->account, &t->full, &t->errors, &t->slow_disk, &t->ahead, &t->drift };
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        if (!sim_is_set(all[i]))
            continue;
        sim_unset(all[i]);
        all[i]->fn(all[i]);
    }
    w->sim.fatal = 0;
    sim_net_link(&w->net, NET_FINE);
    good_programs(w, NULL);
    if (w->policies.on) // windows open by a clock that can be trusted
        clock_right(w, NULL);
}
