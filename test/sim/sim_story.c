// SPDX-License-Identifier: Apache-2.0
// The plot: users change specs, machines and networks fail as the plan says, and then there is peace.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim_world.h"

enum { PEACE_MAX_MS = 25 * MINUTE, PEACE_STEP_MS = 20 * 1000, AFTERMATH_MS = 20 * MINUTE, ALONE_MS = 5 * MINUTE };

// --- The acts of a phase, each at its time

static void play(struct world *w, const struct plan *p, enum sim_phase phase)
{
    int64_t began_ms = w->sim.now_ms;
    for (size_t i = 0; i < p->n && !w->sim.broken; i++) {
        const struct act *a = &p->acts[i];
        if (a->phase != phase)
            continue;
        world_live(w, began_ms + a->at_ms - w->sim.now_ms);
        if (!w->sim.broken)
            act_do(w, a);
    }
    world_live(w, began_ms + p->length_ms[phase] - w->sim.now_ms);
}

static void begin(struct world *w, const struct plan *p)
{
    w->rules.on = true;
    w->mode = p->mode;
    w->max_events = p->max_events;
    w->server.old_server = p->old_server;
    world_boot_clock(w, p->boot_clock, p->seed);
    sim_note(&w->sim, "world", "seed %" PRIu64 " mode=%s max_events=%" PRId64 " old_server=%d", p->seed, p->mode, p->max_events,
             p->old_server);
    for (int i = 0; i < PATHS; i += 3) { // somebody was here before
        char path[64];
        sim_disk_put(&w->disk, managed_path_of(i, path), "before us\n", 0640);
    }
    check_note_peace(w);
    sim_server_create(&w->server, "edgenodes", SIM_NODE, "{\"description\":\"under test\"}");
    for (size_t i = 0; i < p->n; i++)
        if (p->acts[i].phase == PHASE_BEGIN)
            act_do(w, &p->acts[i]);
    if (p->offline_boot)
        sim_net_link(&w->net, NET_REFUSED);
    agent_start_now(w);
}

// --- Peace

void story_peace(struct world *w)
{
    char why[256] = "";
    int64_t until_ms = w->sim.now_ms + PEACE_MAX_MS;
    if (w->sim.broken)
        return;
    sim_note(&w->sim, "world", "peace");
    weather_clears(w);
    if (w->agent == NULL)
        w->comes_back_ms = w->sim.now_ms;
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
    check_memory(w);
    witness_sums_up(w);
}

// --- Idleness costs nothing

void story_idle_hour(struct world *w, bool offline)
{
    char why[256];
    for (int i = 0; i < JOBS; i++) // schedules know no idleness
        user_deletes_job(w, &(struct act){ .a = i });
    world_live(w, AFTERMATH_MS);
    if (offline)
        sim_net_link(&w->net, NET_REFUSED);
    if (offline)
        world_live(w, ALONE_MS);
    uint64_t writes = w->disk.store_writes, patches = w->server.status_patches, print = check_fingerprint(w);
    sim_note(&w->sim, "world", "an idle hour begins");
    world_live(w, HOUR);
    if (w->sim.broken)
        return;
    if (w->disk.store_writes != writes)
        sim_violation(&w->sim, "an idle hour cost %" PRIu64 " writes to the store", w->disk.store_writes - writes);
    if (w->server.status_patches != patches)
        sim_violation(&w->sim, "an idle hour cost %" PRIu64 " status patches", w->server.status_patches - patches);
    if (check_fingerprint(w) != print || (!offline && check_right(w, why) != NULL))
        sim_violation(&w->sim, "the machine changed in an idle hour");
}

// --- Doubt: the server says nonsense; nothing may be lost by it

static enum sim_doubt doubt_of(const struct plan *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->acts[i].kind == ACT_DOUBT)
            return (enum sim_doubt)p->acts[i].b;
    return DOUBT_NONE;
}

static void check_doubt(struct world *w, enum sim_doubt d, const char *when, uint64_t print, uint64_t files, uint64_t stops)
{
    if (w->sim.broken || w->store_went_back) // to any spec that there ever was
        return;
    // Without its store the agent does not know that an instance had ended for good, and starts it again.
    bool same = w->store_was_lost ? check_files_print(w) == files : check_fingerprint(w) == print;
    if (w->port.stops - w->rules.second_tries != stops || !same)
        sim_violation(&w->sim, "the machine was changed %s doubt (%s)", when, sim_doubt_words[d]);
}

static void play_doubt(struct world *w, const struct plan *p)
{
    world_live(w, MINUTE); // the last program that was started while they behaved badly has ended
    story_peace(w);
    enum sim_doubt d = doubt_of(p);
    uint64_t print = check_fingerprint(w), files = check_files_print(w), stops = w->port.stops;
    w->rules.second_tries = 0;
    if (w->sim.broken)
        return;
    w->store_was_lost = w->store_went_back = false;
    play(w, p, PHASE_DOUBT);
    check_doubt(w, d, "on", print, files, stops);
    sim_server_doubt(&w->server, DOUBT_NONE);
    story_peace(w);
    check_doubt(w, d, "after", print, files, stops);
}

void story_play(struct world *w, const struct plan *p)
{
    begin(w, p);
    play(w, p, PHASE_CHAOS);
    story_peace(w);
    if (w->sim.broken || p->brief)
        return;
    play_doubt(w, p);
    play(w, p, PHASE_CHAOS_AGAIN);
    story_peace(w);
    if (!w->sim.broken)
        story_idle_hour(w, p->offline_idle);
}
