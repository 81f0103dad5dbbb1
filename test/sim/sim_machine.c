// SPDX-License-Identifier: Apache-2.0
// The agent's lives on its machine.
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "sim_world.h"

// --- The log

static void keep_line(void *ctx, const char *line, size_t len)
{
    struct world *w = ctx;
    char *out = w->log[w->n_log++ % LOG_LINES];
    snprintf(out, LOG_LINE_MAX, "%.*s", (int)MIN(len, (size_t)LOG_LINE_MAX - 1), line);
    out[strcspn(out, "\n")] = '\0';
    if (w->sim.verbose)
        printf("#     %s\n", out);
}

void world_shows_log(const struct world *w, size_t last)
{
    uint64_t n = MIN(MIN(w->n_log, (uint64_t)LOG_LINES), (uint64_t)last);
    for (uint64_t i = w->n_log - n; i < w->n_log; i++)
        printf("#     %s\n", w->log[i % LOG_LINES]);
}

// --- Starting

static void clear_away(struct world *w, bool power_cut);

static void configure(struct world *w)
{
    char mode[32], events[48];
    struct buf problems AUTO_BUF = BUF_INIT(4096);
    struct err e = ERR_INIT;
    snprintf(mode, sizeof(mode), "sync.mode=%s", w->mode);
    snprintf(events, sizeof(events), "outbox.maxEvents=%lld", (long long)w->max_events);
    const char *const overrides[] = { "guard.restoreHold=30m",
                                      "store.maxSize=4Mi",
                                      "node.name=" SIM_NODE,
                                      "node.namespace=" SIM_NS,
                                      "manifests.dir=",
                                      w->policies.on && !w->policies.pinned ? NULL : mode,
                                      events,
                                      NULL };
    w->disk.calm = true; // main.c would end, and be started again
    if (config_load(&w->config, &w->disk.disk, "/etc/limpet/limpet.ini", false, overrides, NULL, &problems, &e) < 0)
        sim_violation(&w->sim, "the configuration is refused: %s", buf_str(&problems));
    w->disk.calm = false;
}

// As main.c does: the token's file is read on a 401, and each minute.
static void reread_token(struct world *w)
{
    AS_AGENT;
    if (sim_net_reread(&w->net) && w->agent != NULL)
        sync_kick(w->agent->sync, true);
}

static void on_unauthorized(void *ctx)
{
    reread_token(ctx);
}

static void on_minute(struct sim_event *ev)
{
    struct world *w = container_of(ev, struct world, minute);
    reread_token(w);
    sim_in(&w->sim, &w->minute, MINUTE, on_minute);
}

static void on_link(void *ctx, enum link_state s, const char *why UNUSED)
{
    policies_link(ctx, s);
}

static int try_to_start(struct world *w, struct err *e)
{
    AS_AGENT;
    struct agent_seams seams = { .loop = w->loop, .clock = &w->clock.clock, .port = w->port.port };
    struct agent_conf conf = { .config = &w->config,
                               .node = SIM_NODE,
                               .ns = SIM_NS,
                               .cluster = w->cluster,
                               .unauthorized = on_unauthorized,
                               .link_changed = on_link,
                               .ctx = w };
    seams.disk = sim_disk_for(&w->disk, w->loop);
    seams.transport = sim_net_for(&w->net, w->loop);
    reread_token(w);
    configure(w);
    int rc = agent_new(&w->agent, &seams, &conf, e);
    return rc == 0 ? agent_start(w->agent, e) : rc;
}

// The service manager starts it again. Only a disk that fails excuses an agent that does not start.
static void did_not_start(struct world *w, const struct err *e)
{
    enum { AGAIN_MS = 5000 };
    if (w->disk.error_permille == 0 && !w->disk.full) {
        sim_violation(&w->sim, "the agent does not start: %s", e->msg);
        return;
    }
    sim_note(&w->sim, "world", "the agent does not start: %s", e->msg);
    clear_away(w, false);
    w->comes_back_ms = w->sim.now_ms + AGAIN_MS;
}

void agent_start_now(struct world *w)
{
    struct err e = ERR_INIT;
    w->lives++;
    w->life_us = sim_true_us(&w->sim);
    w->comes_back_ms = INT64_MAX;
    w->witness.commits = UINT64_MAX; // what its predecessor committed while dying shows in its first turn
    sim_note(&w->sim, "world", "agent %d starts", w->lives);
    sim_in(&w->sim, &w->minute, MINUTE, on_minute);
    if (w->disk.sync_failed && w->disk.error_permille > 0) // what it reads may not lie on the disk, and it cannot write it again
        witness_store_rots(w);
    witness_store_opens(w);
    if (try_to_start(w, &e) < 0 && !w->sim.dead)
        did_not_start(w, &e);
}

// --- Ending. What it does on its way out reaches nobody.

static void clear_away(struct world *w, bool power_cut)
{
    struct loop *old = w->loop;
    w->sim.dead = true;
    witness_agent_dies(w);
    rules_pace_forget(w);
    agent_abandon(w->agent);
    w->agent = NULL;
    sim_unset(&w->minute);
    sim_disk_leave(&w->disk);
    sim_net_leave(&w->net);
    config_fini(&w->config);
    if (power_cut) {
        if (sim_disk_at(&w->disk, "/run/limpet/store/limpet.db") != NULL) // it had no better place, and said so
            witness_store_rots(w);
        w->witness.rot_ms = w->sim.now_ms;
        sim_disk_power_cut(&w->disk);
        sim_port_reboot(&w->port);
        sim_clock_reboot(&w->clock);
    }
    w->loop = sim_loop_new(&w->sim, &w->clock);
    sim_port_agent_died(&w->port, w->loop);
    loop_free(old);
    w->sim.dead = false;
    w->sim.fatal = 0;
    rules_agent_is_gone(w);
}

static void end_agent(struct world *w, bool power_cut, int64_t down_ms)
{
    sim_note(&w->sim, "world", "%s, back in %lld s", power_cut ? "POWER CUT" : "kill -9", (long long)down_ms / 1000);
    clear_away(w, power_cut);
    w->comes_back_ms = w->sim.now_ms + down_ms;
}

void agent_kill(struct world *w, int64_t down_ms)
{
    if (w->agent != NULL)
        end_agent(w, false, down_ms);
}

void machine_power_cut(struct world *w, int64_t down_ms)
{
    if (w->agent != NULL)
        end_agent(w, true, down_ms);
}

static void stop_agent(struct world *w)
{
    AS_AGENT;
    agent_stop(w->agent);
    w->agent = NULL;
}

void agent_restart(struct world *w, int64_t down_ms)
{
    if (w->agent == NULL)
        return;
    sim_note(&w->sim, "world", "the agent is stopped in good order, back in %lld s", (long long)down_ms / 1000);
    stop_agent(w);
    clear_away(w, false);
    w->comes_back_ms = w->sim.now_ms + down_ms;
}

// Everything is stopped and written back before the machine starts again.
void machine_reboot(struct world *w, int64_t down_ms)
{
    if (w->agent == NULL)
        return;
    sim_note(&w->sim, "world", "reboot, back in %lld s", (long long)down_ms / 1000);
    stop_agent(w);
    sim_disk_write_back(&w->disk);
    clear_away(w, true);
    w->comes_back_ms = w->sim.now_ms + down_ms;
}

static void dies_in_step(struct world *w)
{
    sim_hit(&w->sim, w->fatal_is_power_cut ? F_POWER_CUT_IN_STEP : F_KILL_IN_STEP);
    end_agent(w, w->fatal_is_power_cut, w->fatal_down_ms);
}

// --- Living

void (*sim_hook)(struct world *w);

static void look_at(struct world *w)
{
    witness_turn(w);
    policies_turn(w);
    rules_turn(w);
}

static void turn_loop(struct world *w, int64_t until_ms)
{
    AS_AGENT;
    struct err e = ERR_INIT;
    if (loop_turn(w->loop, until_ms - w->sim.now_ms, &e) < 0 && !w->sim.broken)
        sim_violation(&w->sim, "the loop fails: %s", e.msg);
}

static void one_turn(struct world *w, int64_t until_ms)
{
    turn_loop(w, until_ms);
    if (w->sim.dead)
        dies_in_step(w);
    else
        look_at(w);
    if (sim_hook != NULL)
        sim_hook(w);
}

void world_live(struct world *w, int64_t for_ms)
{
    int64_t until_ms = w->sim.now_ms + for_ms;
    while (!w->sim.broken && w->sim.now_ms < until_ms) {
        if (w->agent == NULL)
            sim_run_to(&w->sim, MIN(until_ms, w->comes_back_ms));
        if (w->agent == NULL && w->sim.now_ms >= w->comes_back_ms)
            agent_start_now(w);
        if (w->sim.dead) // already in its first steps
            dies_in_step(w);
        else if (w->agent != NULL)
            one_turn(w, until_ms);
    }
}

// --- The whole: who looks at what the agent does

static void on_written(struct sim_disk *d, const char *path, const void *p, size_t n)
{
    rules_written(container_of(d, struct world, disk), path, p, n);
}

static void on_removed(struct sim_disk *d, const char *path)
{
    rules_removed(container_of(d, struct world, disk), path);
}

static void on_asked(struct sim_net *n, const struct http_req *r)
{
    rules_request(container_of(n, struct world, net), r);
}

static void on_put_off(struct sim_net *n, const struct http_req *r)
{
    rules_put_off(container_of(n, struct world, net), r);
}

static void make_dirs(struct world *w)
{
    static const char *const dirs[] = { "/etc/app", "/etc/limpet", "/var/lib", "/run/limpet", "/var/log", "/proc/net" };
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
        if (w->disk.disk.ops->mkdirs(&w->disk.disk, dirs[i], 0755, 0, NULL) < 0)
            abort();
    sim_disk_put(&w->disk, "/etc/hostname", "sim-machine\n", 0644);
    sim_disk_put(&w->disk, "/etc/machine-id", "0123456789abcdef0123456789abcdef\n", 0444);
    sim_disk_put(&w->disk, "/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n", 0644);
}

void world_init(struct world *w, uint64_t seed, bool verbose)
{
    *w = (struct world){ .comes_back_ms = INT64_MAX };
    sim_init(&w->sim, seed, verbose);
    w->rng = sim_stream(&w->sim, "world");
    sim_clock_init(&w->clock, &w->sim);
    log_setup(verbose ? LOG_DEBUG : LOG_INFO, LOG_TEXT, &w->clock.clock);
    log_set_sink(keep_line, w);
    sim_disk_init(&w->disk, &w->sim);
    sim_server_init(&w->server, &w->sim);
    const struct sim_type *namespaces = sim_type_find(&w->server, "", "v1", "namespaces");
    snprintf(w->cluster, sizeof(w->cluster), "%s", sim_store_get(&w->server, namespaces, "", "kube-system")->uid);
    sim_net_init(&w->net, &w->sim, &w->server);
    w->loop = sim_loop_new(&w->sim, &w->clock);
    sim_port_init(&w->port, &w->sim, w->loop);
    witness_init(w);
    rules_init(w);
    policies_init(w);
    w->disk.written = on_written;
    w->disk.removed = on_removed;
    w->net.asked = on_asked;
    w->net.put_off_by = on_put_off;
    sim_disk_for(&w->disk, w->loop);
    make_dirs(w);
    sim_disk_leave(&w->disk);
}

void world_fini(struct world *w)
{
    if (w->agent != NULL)
        clear_away(w, false);
    w->port.port->ops = w->port.fake;
    w->port.port->ops->free(w->port.port);
    loop_free(w->loop);
    witness_fini(w);
    rules_fini(w);
    policies_fini(w);
    sim_net_fini(&w->net);
    sim_server_fini(&w->server);
    sim_disk_fini(&w->disk);
    log_set_sink(NULL, NULL);
    log_setup(LOG_INFO, LOG_TEXT, NULL);
}
