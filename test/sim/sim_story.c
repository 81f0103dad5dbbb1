// SPDX-License-Identifier: Apache-2.0
// The plot: users change specs, machines and networks fail as the plan says, and then there is peace.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim_world.h"

enum { PEACE_MAX_MS = 25 * MINUTE, PEACE_STEP_MS = 20 * 1000, AFTERMATH_MS = 20 * MINUTE, ALONE_MS = 5 * MINUTE };
// While a policy stops somebody offline, how long that lasts is written down: whenever it grew by ten minutes.
enum { KEPT_AN_HOUR = 7 };

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

// What flags do not set, policies may.
static void share(struct world *w, const struct plan *p)
{
    char text[100];
    sim_server_share(&w->server);
    snprintf(text, sizeof(text), "[sync]\nmode = %s\n[outbox]\nmaxEvents = %" PRId64 "\n", p->mode, p->max_events);
    sim_disk_put(&w->disk, "/etc/limpet/limpet.ini", text, 0644);
}

static void begin(struct world *w, const struct plan *p)
{
    w->rules.on = true;
    w->mode = p->mode;
    w->max_events = p->max_events;
    w->server.old_server = p->old_server;
    w->policies.on = p->policies;
    w->policies.pinned = p->pinned;
    if (p->policies)
        share(w, p);
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

static uint64_t commits(struct world *w)
{
    struct db_stats s;
    db_stats(w->agent->db, &s);
    return s.commits;
}

void story_idle_hour(struct world *w, bool offline)
{
    char why[256];
    for (int i = 0; i < JOBS; i++) // schedules know no idleness
        user_deletes_job(w, &(struct act){ .a = i });
    world_live(w, AFTERMATH_MS);
    if (offline)
        sim_net_link(&w->net, NET_REFUSED);
    if (offline)
        world_live(w, w->policies.on ? 2 * ALONE_MS : ALONE_MS); // what a policy stops is stopped then
    uint64_t writes = w->disk.store_writes, said = commits(w), patches = w->server.status_patches, print = check_fingerprint(w);
    sim_note(&w->sim, "world", "an idle hour begins");
    world_live(w, HOUR);
    if (w->sim.broken)
        return;
    bool keeps = offline && policies_have_offline(w);
    if (keeps && commits(w) - said > KEPT_AN_HOUR)
        sim_violation(&w->sim, "an idle hour offline cost %" PRIu64 " commits", commits(w) - said);
    if (!keeps && w->disk.store_writes != writes)
        sim_violation(&w->sim, "an idle hour cost %" PRIu64 " writes to the store", w->disk.store_writes - writes);
    if (w->server.status_patches != patches)
        sim_violation(&w->sim, "an idle hour cost %" PRIu64 " status patches", w->server.status_patches - patches);
    if (check_fingerprint(w) != print)
        sim_violation(&w->sim, "the machine changed in an idle hour");
    if (!offline && check_right(w, why) != NULL)
        sim_violation(&w->sim, "not right after an idle hour: %s", why);
}

// --- Doubt: the server says nonsense; nothing may be lost by it

static enum sim_doubt doubt_of(const struct plan *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->acts[i].kind == ACT_DOUBT)
            return (enum sim_doubt)p->acts[i].b;
    return DOUBT_NONE;
}

struct before {
    uint64_t print, files, stops, by_policy;
};

static struct before machine_now(struct world *w)
{
    return (struct before){ check_fingerprint(w), check_files_print(w), w->port.stops, w->policies.stops };
}

// What a policy stops offline is judged when it is stopped, and started again when doubt is over.
static void check_doubt(struct world *w, enum sim_doubt d, const char *when, const struct before *b)
{
    if (w->sim.broken || w->store_went_back) // to any spec that there ever was
        return;
    // Without its store the agent does not know that an instance had ended for good, and starts it again.
    struct before now = machine_now(w);
    bool files_alone = w->store_was_lost || now.by_policy != b->by_policy;
    bool same = files_alone ? now.files == b->files : now.print == b->print;
    if (now.stops - b->stops != now.by_policy - b->by_policy + w->rules.second_tries || !same)
        sim_violation(&w->sim, "the machine was changed %s doubt (%s)", when, sim_doubt_words[d]);
}

static void play_doubt(struct world *w, const struct plan *p)
{
    world_live(w, MINUTE); // the last program that was started while they behaved badly has ended
    story_peace(w);
    enum sim_doubt d = doubt_of(p);
    struct before before = machine_now(w);
    w->rules.second_tries = 0;
    if (w->sim.broken)
        return;
    w->store_was_lost = w->store_went_back = false;
    play(w, p, PHASE_DOUBT);
    check_doubt(w, d, "on", &before);
    sim_server_doubt(&w->server, DOUBT_NONE);
    story_peace(w);
    check_doubt(w, d, "after", &before);
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
