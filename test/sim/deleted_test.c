// SPDX-License-Identifier: Apache-2.0
// deleted — what is proven deleted stays so, whenever the agent dies afterwards.
//
// A watch that begins before an object was made tells it as new once more, and its row is gone by then: a job would run again, an app be
// started for a moment, a file written that nobody wants. The agents here die before anything else is committed.
#include <stdlib.h>
#include <string.h>

#include "flow/sync_priv.h"
#include "sim_world.h"
#include "tap.h"

enum { SEED = 21, SETTLE_MS = 20 * 1000, PROOF_MS = 15 * 1000, BRIEFLY_MS = 2000, SHOWN = 60 };

static const struct sort {
    const char *plural, *name, *spec;
} sorts[] = {
    { "edgejobs", "job-0", "{\"command\":[\"/bin/job\"],\"execution\":\"AtMostOnce\"}" },
    { "edgeapps", "app-0", "{\"command\":[\"/bin/app\"],\"terminationGracePeriodSeconds\":1}" },
    { "edgeconfigs", "cfg-0",
      "{\"files\":[{\"path\":\"/etc/app/0\",\"content\":\"x\\n\",\"mode\":\"0644\"}],\"deletionPolicy\":\"Delete\","
      "\"onChange\":{\"command\":[\"/bin/reload\",\"cfg-0\"]}}" },
};
static const char *const modes[] = { "watch", "poll", "list" };

// The resourceVersions that are stored are of the beginning, before anything was made.
static struct world *world_without_objects(const char *mode)
{
    static const struct fake_behaviour brief = { .start_ms = 40, .run_ms = 3000, .stop_ms = 100 };
    struct world *w = calloc(1, sizeof(*w));
    if (w == NULL)
        abort();
    world_init(w, SEED, false);
    w->mode = mode;
    w->max_events = 5000;
    sim_server_create(&w->server, "edgenodes", SIM_NODE, "{\"description\":\"under test\"}");
    port_fake_behave(w->port.port, "edgejobs/" SIM_NS "/job-0", &brief);
    agent_start_now(w);
    world_live(w, SETTLE_MS);
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

static void make(struct world *w, const struct sort *s, const char *name)
{
    sim_server_create(&w->server, s->plural, name, s->spec);
}

static void take_away(struct world *w, const struct sort *s, const char *name)
{
    sim_server_delete(&w->server, sim_server_find(&w->server, s->plural, name));
}

static bool has_row(struct world *w, const struct sort *s, const char *name)
{
    char key[KEY_MAX], rv[OBJ_RV_MAX], uid[OBJ_UID_MAX];
    snprintf(key, sizeof(key), "%s/" SIM_NS "/%s", s->plural, name);
    return cache_rv(w->agent->cache, key, rv, uid, NULL) == 0;
}

// Instances that were started, or when the command of the file that was written began.
static int64_t done(const struct world *w)
{
    return (int64_t)w->port.starts + w->port.change_began_ms[0];
}

static void live_without_row(struct world *w, const struct sort *s)
{
    for (int i = 0; i < PROOF_MS && has_row(w, s, s->name); i++)
        world_live(w, 1);
}

static void killed_after_proof(const char *mode, const struct sort *s)
{
    struct world *w = world_without_objects(mode);
    int64_t idle = done(w);
    make(w, s, s->name);
    world_live(w, SETTLE_MS);
    int64_t once = done(w);
    ok(once > idle, "%s: %s: was made, and is at work", mode, s->name);
    take_away(w, s, s->name);
    live_without_row(w, s);
    ok(!has_row(w, s, s->name), "%s: %s: its deletion is proven", mode, s->name);
    world_live(w, BRIEFLY_MS);
    agent_kill(w, 1000);
    world_live(w, 2 * MINUTE);
    is_int(done(w), once, "%s: %s: it is not made again by an agent that was killed", mode, s->name);
    world_end(w, mode);
}

// --- Killed while another deletion of the same source still waits for proof

static struct source *source_of(struct world *w, const struct sort *s)
{
    list_each(n, &w->agent->sync->sources) {
        struct source *src = container_of(n, struct source, link);
        if (strcmp(src->kind->type.plural, s->plural) == 0)
            return src;
    }
    abort();
}

static void killed_between_proofs(void)
{
    const struct sort *s = &sorts[0];
    struct world *w = world_without_objects("watch");
    make(w, s, s->name);
    make(w, s, "job-1");
    world_live(w, SETTLE_MS);
    int64_t once = done(w);
    take_away(w, s, s->name);
    for (int i = 0; i < PROOF_MS && !w->agent->sync->verifying; i++)
        world_live(w, 1);
    take_away(w, s, "job-1");
    live_without_row(w, s);
    ok(!has_row(w, s, s->name), "between two proofs: one job is gone");
    is_int((intmax_t)table_count(&source_of(w, s)->pending), 1, "between two proofs: the other waits");
    agent_kill(w, 1000);
    world_live(w, 2 * MINUTE);
    is_int(done(w), once, "between two proofs: neither runs again");
    ok(!has_row(w, s, "job-1"), "between two proofs: the other is noticed as well");
    world_end(w, "between two proofs");
}

// --- What the resourceVersion stands for is kept with it: a status that was taken is not sent again on top of an older object, in vain

static void others_are_kept_up(void)
{
    const struct sort *s = &sorts[1];
    struct outbox_stats o = { 0 };
    struct err e = ERR_INIT;
    struct world *w = world_without_objects("watch");
    make(w, s, s->name);
    make(w, s, "app-1");
    world_live(w, SETTLE_MS);
    take_away(w, s, s->name);
    live_without_row(w, s);
    agent_kill(w, 1000);
    world_live(w, 2 * MINUTE);
    is_int(outbox_stats(w->agent->outbox, &o, &e), 0, "another app: the outbox is read");
    is_int(o.status_pending, 0, "another app: its status does not wait");
    world_end(w, "another app");
}

int main(void)
{
    for (size_t m = 0; m < ARRAY_LEN(modes); m++)
        for (size_t i = 0; i < ARRAY_LEN(sorts); i++)
            killed_after_proof(modes[m], &sorts[i]);
    killed_between_proofs();
    others_are_kept_up();
    return done_testing();
}
