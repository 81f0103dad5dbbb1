// SPDX-License-Identifier: Apache-2.0
// meta — the very agent behind KubeEdge's MetaServer (sim_meta.h), seed by seed.
//
//     meta_test [--seed N] [--seeds N] [-v]
//
// Users make, change and delete; the cloud goes, freezes and comes back; other programs of the node fill the cache with what gets old; the
// agent dies; the namespace seems to be gone for a while, or is forbidden. All the time: what no user deleted stays, and nothing becomes older than it was. When the cloud is there for good and the cache is honest, the machine is as the specs say and the server knows it.
//
// timeout: 600
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim_meta.h"
#include "sim_world.h"
#include "tap.h"

enum { SEEDS = 30, ACTS_EACH = 60, YOUNG_MS = MINUTE, SETTLE_MS = 3 * MINUTE, PEACE_MS = 25 * MINUTE, SHOWN = 60 };

static const char ini[] = "[server]\nmetaServer = true\n[sync]\ninterval = 20s\n";

// What users know of each app.
struct truth {
    bool there;
    int64_t made_ms;
};

struct play {
    struct world *w;
    struct sim_meta meta;
    struct truth apps[APPS];
    struct sim_rng rng;
};

static void name_of(int i, char out[16])
{
    snprintf(out, 16, "app-%d", i);
}

// --- Users

static void put_app(struct play *p, int i)
{
    char name[16], spec[200];
    struct truth *t = &p->apps[i];
    name_of(i, name);
    snprintf(spec, sizeof(spec), "{\"command\":[\"/bin/app\",\"%" PRIu64 "\"],\"replicas\":2,\"terminationGracePeriodSeconds\":1}",
             rng_next(&p->rng) % 1000);
    struct sim_object *o = sim_server_find(&p->w->server, "edgeapps", name);
    if (o == NULL) {
        sim_server_create(&p->w->server, "edgeapps", name, spec);
        t->made_ms = p->w->sim.now_ms;
    } else {
        sim_server_set_spec(&p->w->server, o, spec);
    }
    t->there = true;
}

static void delete_app(struct play *p, int i)
{
    char name[16];
    name_of(i, name);
    struct sim_object *o = sim_server_find(&p->w->server, "edgeapps", name);
    if (o == NULL)
        return;
    sim_server_delete(&p->w->server, o);
    p->apps[i].there = false;
}

// --- What must hold

// What the agent knows of an app.
struct row {
    bool known;
    char rv[OBJ_RV_MAX], uid[OBJ_UID_MAX];
};

static void look(struct world *w, int i, struct row *r)
{
    char key[64];
    snprintf(key, sizeof(key), "edgeapps/" SIM_NS "/app-%d", i);
    r->known = w->agent != NULL && cache_rv(w->agent->cache, key, r->rv, r->uid, NULL) == 0;
}

// Of one that was deleted and made again shortly before, the earlier one may just have been taken away.
static void check_one(struct play *p, int i, const struct row *was)
{
    struct row is;
    look(p->w, i, &is);
    bool old = p->apps[i].there && p->w->sim.now_ms - p->apps[i].made_ms > YOUNG_MS;
    if (p->w->agent == NULL || !was->known)
        return;
    if (!is.known && old)
        sim_violation(&p->w->sim, "app-%d was taken away, and nobody deleted it", i);
    if (is.known && strcmp(was->uid, is.uid) == 0 && rv_compare(is.rv, was->rv, NULL) < 0)
        sim_violation(&p->w->sim, "app-%d went back from resourceVersion %s to %s", i, was->rv, is.rv);
}

static void live_on(struct play *p, int64_t ms)
{
    struct row was[APPS];
    int64_t until_ms = p->w->sim.now_ms + ms;
    while (p->w->sim.now_ms < until_ms && !p->w->sim.broken) {
        for (int i = 0; i < APPS; i++)
            look(p->w, i, &was[i]);
        world_live(p->w, MIN(until_ms - p->w->sim.now_ms, 1000));
        for (int i = 0; i < APPS; i++)
            check_one(p, i, &was[i]);
    }
}

// --- Acts

static void change_cloud(struct play *p)
{
    static const enum sim_cloud clouds[] = { CLOUD_THERE, CLOUD_THERE, CLOUD_AWAY, CLOUD_AWAY, CLOUD_FROZEN };
    enum sim_cloud c = clouds[rng_below(&p->rng, 5)];
    sim_meta_cloud(&p->meta, c);
    if (c != CLOUD_THERE) // once lost it is not back before 31 s
        live_on(p, 31 * 1000 + rng_below(&p->rng, 10000));
}

// What the cloud says of a namespace that is gone, or that may not be read, comes through as empty lists and objects that are not found.
static void doubt_namespace(struct play *p)
{
    static const enum sim_doubt doubts[] = { DOUBT_TERMINATING, DOUBT_NO_NAMESPACE, DOUBT_FORBIDDEN };
    sim_server_doubt(&p->w->server, doubts[rng_below(&p->rng, 3)]);
    live_on(p, rng_between(&p->rng, 5, 120) * 1000);
    sim_server_doubt(&p->w->server, DOUBT_NONE);
}

static void act(struct play *p)
{
    int64_t which = rng_below(&p->rng, 100);
    int app = (int)rng_below(&p->rng, APPS);
    if (which < 40)
        put_app(p, app);
    else if (which < 55)
        delete_app(p, app);
    else if (which < 80)
        change_cloud(p);
    else if (which < 85)
        agent_kill(p->w, 3000);
    else if (which < 90)
        machine_power_cut(p->w, 5000);
    else if (which < 93)
        sim_server_restart(&p->w->server);
    else if (which < 97)
        sim_meta_forget(&p->meta);
    else
        doubt_namespace(p);
}

static void chaos(struct play *p)
{
    for (int i = 0; i < ACTS_EACH && !p->w->sim.broken; i++) {
        act(p);
        // Long, to let lists come between; or short, to be in the middle of one and its GETs.
        live_on(p, rng_chance(&p->rng, 50) ? rng_between(&p->rng, 1, 2000) : rng_between(&p->rng, 5, 90) * 1000);
    }
}

static void peace(struct play *p)
{
    char why[256] = "";
    int64_t until_ms = p->w->sim.now_ms + PEACE_MS;
    sim_meta_cloud(&p->meta, CLOUD_THERE);
    sim_meta_forget(&p->meta);
    p->meta.curious_percent = 0;
    const char *wrong = why;
    while (wrong != NULL && !p->w->sim.broken && p->w->sim.now_ms < until_ms) {
        live_on(p, 10000);
        wrong = p->w->agent != NULL ? check_right(p->w, why) : "no agent";
    }
    if (wrong != NULL)
        sim_violation(&p->w->sim, "not right after peace: %s", wrong);
}

// --- A seed

static void begin(struct play *p, uint64_t seed, bool verbose)
{
    struct world *w = p->w;
    world_init(w, seed, verbose);
    p->rng = sim_stream(&w->sim, "plot");
    w->mode = "auto";
    w->max_events = 5000;
    sim_disk_put(&w->disk, "/etc/limpet/limpet.ini", ini, 0644);
    sim_meta_init(&p->meta, &w->server);
    check_note_peace(w);
    sim_server_create(&w->server, "edgenodes", SIM_NODE, "{\"description\":\"under test\"}");
    for (int i = 0; i < APPS; i++)
        put_app(p, i);
    agent_start_now(w);
    live_on(p, SETTLE_MS);
}

static void finish(struct play *p)
{
    sim_meta_fini(&p->meta);
    world_fini(p->w);
    free(p->w);
}

static void run_seed(uint64_t seed, bool verbose)
{
    struct world *w = calloc(1, sizeof(*w));
    struct play p = { .w = w };
    if (w == NULL)
        abort();
    begin(&p, seed, verbose);
    chaos(&p);
    peace(&p);
    if (!ok(!w->sim.broken, "seed %" PRIu64 ": %d lives in %.1f h, %" PRIu64 " requests, %" PRIu64 " answered by the cache", seed, w->lives,
            (double)w->sim.now_ms / HOUR, w->server.requests + p.meta.lies, p.meta.lies)) {
        diag("%s", w->sim.verdict);
        sim_shows(&w->sim, SHOWN);
        world_shows_log(w, SHOWN);
    }
    finish(&p);
}

// Made again under its name: it is empty, and in every answer of MetaServer a namespace that is there. Only its uid tells.
static void run_made_again(void)
{
    struct world *w = calloc(1, sizeof(*w));
    struct play p = { .w = w };
    struct sync_stats st = { 0 };
    if (w == NULL)
        abort();
    begin(&p, 1, false);
    struct sim_object *ns = sim_store_get(&w->server, sim_type_find(&w->server, "", "v1", "namespaces"), "", SIM_NS);
    json_set_str((struct json *)json_get(ns->json, "metadata"), "uid", "99999999-0000-4000-8000-000000000001");
    sim_store_changed(&w->server, ns);
    sim_each_object(o, &w->server) o->hidden = strcmp(o->type->group, "edge.limpet.dev") == 0;
    live_on(&p, SETTLE_MS);
    sync_stats(w->agent->sync, &st);
    is_int(st.link, LINK_IDENTITY_LOST, "a namespace that was made again is another: the identity is lost");
    ok(!w->sim.broken, "and everything is kept: %s", w->sim.verdict);
    finish(&p);
}

int main(int argc, char **argv)
{
    uint64_t seed = 0, seeds = SEEDS;
    bool verbose = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-v") == 0)
            verbose = true;
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc)
            seeds = strtoull(argv[++i], NULL, 10);
        else
            return fprintf(stderr, "usage: %s [--seed N] [--seeds N] [-v]\n", argv[0]), 2;
    }
    if (seed == 0)
        run_made_again();
    for (uint64_t s = seed != 0 ? seed : 1; s <= (seed != 0 ? seed : seeds); s++)
        run_seed(s, verbose);
    return done_testing();
}
