// SPDX-License-Identifier: Apache-2.0
// soak — weeks without a server: the very agent, cut off for DAYS days, while something changes on its machine each minute.
//
//     soak_test [--days N] [--seed N] [--steady | --rough] [-v]
//
// steady: one agent lives through all of it. An instance crashes or its shim is killed, a probe fails or recovers, somebody writes or removes
// a managed file; two jobs run by their schedules. What it holds and writes is measured, day by day. rough: each day a power cut, a kill -9
// and a restart as well, at times with a clock that is not trusted. Meanwhile users change specs on the server. In the end the network is back,
// and the rules of the simulator say what must be true. Last, what a day costs with one status change a minute, and with nothing at all.
//
// Memory is the agent's alone (sim_heap.h). Written is what the file system is given at each fsync, in blocks of 4 KiB.
//
// timeout: 900
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "data/db.h"
#include "sim_world.h"
#include "tap.h"

#ifdef __SANITIZE_ADDRESS__
enum { DAYS = 1 };
#else
enum { DAYS = 3 };
#endif
enum {
    SEED = 1,
    DAY = 24 * HOUR,
    DAY_MINUTES = 24 * 60,
    SETTLE_MS = 15 * MINUTE,
    WARM_UP_MINUTES = 2 * 60, // the memory of the last day is compared with that of the second hour and the first
    GROWTH_MAX = 16 << 10,    // bytes
    SQLITE_MAX = 448 << 10,   // bytes; the page cache is 192 KiB of it
    STORE_MAX = 5 << 20,      // file and log; store.maxSize is 4 MiB
    DAY_BYTES_MAX = 15000000, // online, too, where each event and each status is acknowledged
    LEAK = 100,
};

struct day {
    struct heap_count own, sqlite;
    int64_t store, log, written, lost, waiting;
    uint64_t attempts, commits;
    int files;
};

struct soak {
    struct world *w;
    struct sim_rng rng;
    int days;
    bool rough;
    int number;        // of the acts so far
    int64_t own_early; // the most that the agent held in the first two hours
    struct day last;
};

// --- The machine's troubles

static void do_act(struct soak *k, enum act_kind kind, int64_t a, int64_t b)
{
    act_do(k->w, &(struct act){ .number = ++k->number, .kind = kind, .a = a, .b = b, .seed = rng_next(&k->rng) });
}

// The probe of app-1 fails from now on, or no more.
static void flip_probe(struct soak *k)
{
    struct fake_behaviour *b = &k->w->port.now;
    b->check_ok = !b->check_ok;
    port_fake_behave(k->w->port.port, NULL, b);
    sim_note(&k->w->sim, "act", "the probe of app-1 %s", b->check_ok ? "recovers" : "fails");
}

static void change(struct soak *k)
{
    int64_t which = rng_below(&k->rng, 100);
    if (which < 30)
        do_act(k, ACT_CRASH, rng_below(&k->rng, APPS), rng_below(&k->rng, 2));
    else if (which < 40)
        do_act(k, ACT_SHIM_KILL, rng_below(&k->rng, APPS), rng_below(&k->rng, 2));
    else if (which < 65)
        flip_probe(k);
    else if (which < 85)
        do_act(k, ACT_SCRIBBLE, rng_below(&k->rng, PATHS), 0);
    else if (which < 95)
        do_act(k, ACT_REMOVE_FILE, rng_below(&k->rng, PATHS), 0);
    else
        do_act(k, ACT_JOB_SHIM_KILL, rng_between(&k->rng, 2, 3), 0);
}

// Each six hours somebody changes a spec on the server; the agent hears of it in the end.
static void users_work(struct soak *k, int minute)
{
    if (minute % 360 == 359)
        do_act(k, rng_chance(&k->rng, 50) ? ACT_EDIT_APP : ACT_EDIT_CONFIG, rng_below(&k->rng, CONFIGS), 0);
}

static void machine_fails(struct soak *k, int minute)
{
    switch (minute % DAY_MINUTES) {
    case 200:
        do_act(k, ACT_KILL, rng_between(&k->rng, 1, 20), 0);
        break;
    case 600:
        do_act(k, ACT_POWER_CUT, rng_between(&k->rng, 1, 600), rng_chance(&k->rng, 30) ? BOOT_CLOCK_BEHIND : BOOT_CLOCK_RIGHT);
        break;
    case 900:
        do_act(k, ACT_RESTART, 1, 0);
        break;
    case 1300: // a radio clock, or somebody with a watch
        do_act(k, ACT_CLOCK_RIGHT, 0, 0);
        break;
    default:
        break;
    }
}

// No two days are cut off in the same way.
static void cut_off(struct soak *k, int minute)
{
    if (minute % DAY_MINUTES == 0)
        do_act(k, ACT_LINK, NET_REFUSED + minute / DAY_MINUTES % (NET_LINKS - NET_REFUSED), 0);
}

// --- Measuring

static void look(struct world *w, struct day *d)
{
    struct outbox_stats o = { 0 };
    struct db_stats s = { 0 };
    struct err e = ERR_INIT;
    if (w->agent != NULL && outbox_stats(w->agent->outbox, &o, &e) == 0)
        db_stats(w->agent->db, &s);
    d->own = sim_heap_of(OF_AGENT);
    d->sqlite = sim_heap_of(OF_STORE);
    d->files = w->disk.open_files;
    d->store = s.file_bytes;
    d->log = s.wal_bytes;
    d->commits = s.commits;
    d->written = (int64_t)w->disk.blocks_synced * SIM_BLOCK;
    d->attempts = w->net.submitted;
    d->lost = o.events_lost;
    d->waiting = o.events_pending;
}

static void show_head(void)
{
    diag("%4s %8s %8s %8s %8s %5s %8s %8s %10s %7s %7s %7s %8s", "day", "memory", "at most", "SQLite", "at most", "files", "store",
         "its log", "written", "commits", "waiting", "lost", "attempts");
}

static void show(int day, const struct day *d, const struct day *before)
{
    diag("%4d %8" PRId64 " %8" PRId64 " %8" PRId64 " %8" PRId64 " %5d %8" PRId64 " %8" PRId64 " %10" PRId64 " %7" PRIu64 " %7" PRId64
         " %7" PRId64 " %8" PRIu64,
         day, d->own.bytes, d->own.most, d->sqlite.bytes, d->sqlite.most, d->files, d->store, d->log, d->written - before->written,
         d->commits - (d->commits >= before->commits ? before->commits : 0), d->waiting, d->lost - before->lost,
         d->attempts - before->attempts);
}

static void day_ends(struct soak *k, int day, struct day *before)
{
    look(k->w, &k->last);
    show(day, &k->last, before);
    *before = k->last;
    sim_heap_begin();
}

// --- Days

static void live_minutes(struct soak *k, int from, int to)
{
    for (int m = from; m < to && !k->w->sim.broken; m++) {
        int64_t at_ms = rng_below(&k->rng, MINUTE);
        cut_off(k, m);
        world_live(k->w, at_ms);
        change(k);
        users_work(k, m);
        if (k->rough)
            machine_fails(k, m);
        world_live(k->w, MINUTE - at_ms);
    }
}

static void live_days(struct soak *k)
{
    struct day before;
    look(k->w, &before);
    sim_heap_begin();
    live_minutes(k, 0, WARM_UP_MINUTES);
    k->own_early = sim_heap_of(OF_AGENT).most;
    live_minutes(k, WARM_UP_MINUTES, DAY_MINUTES);
    show_head();
    day_ends(k, 1, &before);
    for (int day = 2; day <= k->days && !k->w->sim.broken; day++) {
        live_minutes(k, (day - 1) * DAY_MINUTES, day * DAY_MINUTES);
        day_ends(k, day, &before);
    }
}

static void begin(struct soak *k, uint64_t seed, bool verbose)
{
    struct world *w = calloc(1, sizeof(*w));
    if (w == NULL)
        abort();
    world_init(w, seed, verbose);
    k->w = w;
    k->rng = sim_stream(&w->sim, "soak");
    w->rules.on = true;
    w->mode = "auto";
    w->max_events = 5000;
    check_note_peace(w);
    sim_server_create(&w->server, "edgenodes", SIM_NODE, "{\"description\":\"under test\"}");
    for (int i = 0; i < APPS; i++) {
        char name[16], spec[300];
        snprintf(name, sizeof(name), "app-%d", i);
        snprintf(spec, sizeof(spec), "{\"command\":[\"/bin/app\",\"%d\"],\"replicas\":%d%s}", i, i == 1 ? 1 : 2,
                 i == 1 ? ",\"readinessProbe\":{\"tcpSocket\":{\"port\":80},\"periodSeconds\":7,\"failureThreshold\":1}" : "");
        history_edited(w, sim_server_create(&w->server, "edgeapps", name, spec));
    }
    for (int i = 0; i < CONFIGS; i++)
        do_act(k, ACT_EDIT_CONFIG, i, 0);
    for (int i = 0; i < JOBS; i++)
        do_act(k, ACT_EDIT_JOB, i, 0);
    agent_start_now(w);
    story_peace(w);
    world_live(w, SETTLE_MS);
}

static void end(struct soak *k)
{
    if (k->w->sim.broken) {
        diag("%s", k->w->sim.verdict);
        sim_shows(&k->w->sim, 60);
        world_shows_log(k->w, 40);
    }
    world_fini(k->w);
    free(k->w);
}

// --- What must be true

// SQLite's page cache fills until it is full, for as many hours as the events that wait take to be as many pages.
static void memory_is_flat(const struct soak *k)
{
    const struct day *d = &k->last;
    if (!sim_heap_counts())
        return;
    ok(d->own.most > 0 && d->own.most <= k->own_early + GROWTH_MAX,
       "day %d: the agent held %" PRId64 " bytes at most; in the first two hours it was %" PRId64, k->days, d->own.most, k->own_early);
    ok(d->sqlite.most > 0 && d->sqlite.most <= SQLITE_MAX, "day %d: SQLite held %" PRId64 " bytes at most", k->days, d->sqlite.most);
}

static void store_is_bounded(const struct soak *k, const char *how)
{
    ok(k->last.store > 0 && k->last.store + k->last.log < STORE_MAX, "%s: the store has %" PRId64 " bytes, its log %" PRId64, how,
       k->last.store, k->last.log);
    ok(k->last.waiting <= k->w->max_events && k->last.files <= 2, "%s: %" PRId64 " events wait, %d files of the store are open", how,
       k->last.waiting, k->last.files);
}

// What never arrived is what the outbox says it lost, no more and no less.
static void all_is_told(struct soak *k, const char *how)
{
    int64_t began_ms = k->w->sim.now_ms;
    struct day d;
    story_peace(k->w);
    look(k->w, &d);
    ok(!k->w->sim.broken,
       "%s: back after %d days, all is told and right after %" PRId64 " s; %" PRId64 " events went over the edge, and are owned up to", how,
       k->days, (k->w->sim.now_ms - began_ms) / 1000, d.lost);
}

static void soak(int days, uint64_t seed, bool rough, bool verbose)
{
    struct soak k = { .days = days, .rough = rough };
    const char *how = rough ? "rough" : "steady";
    begin(&k, seed, verbose);
    live_days(&k);
    if (!rough)
        memory_is_flat(&k);
    store_is_bounded(&k, how);
    all_is_told(&k, how);
    end(&k);
}

// --- What a day costs

static int64_t written_in(struct soak *k, bool flips)
{
    uint64_t before = k->w->disk.blocks_synced;
    for (int m = 0; m < DAY_MINUTES && !k->w->sim.broken; m++) {
        world_live(k->w, MINUTE);
        if (flips)
            flip_probe(k);
    }
    return (int64_t)(k->w->disk.blocks_synced - before) * SIM_BLOCK;
}

// Each second change of the status comes with an event.
static void cost_of_a_day(enum sim_link link, int64_t bytes_max, const char *how)
{
    struct soak k = { .days = 1 };
    begin(&k, SEED, false);
    for (int i = 0; i < JOBS; i++)
        do_act(&k, ACT_DELETE_JOB, i, 0);
    world_live(k.w, HOUR);
    do_act(&k, ACT_LINK, link, 0);
    world_live(k.w, HOUR);
    int64_t idle = written_in(&k, false);
    int64_t busy = written_in(&k, true);
    is_int(idle, 0, "%s: a day without a change writes nothing", how);
    ok(busy > 0 && busy <= bytes_max, "%s: a day with one status change a minute writes %" PRId64 " bytes", how, busy);
    ok(!k.w->sim.broken, "%s: and no rule was broken", how);
    end(&k);
}

// --- That it can fail

static struct list kept;

static void keep_more(struct world *w UNUSED)
{
    AS_AGENT;
    struct list *block = malloc(LEAK);
    if (block == NULL)
        abort();
    list_add_tail(&kept, block);
}

static void growth_is_found(void)
{
    struct soak k = { .days = 1 };
    begin(&k, SEED, false);
    list_init(&kept);
    sim_hook = keep_more;
    live_minutes(&k, 0, WARM_UP_MINUTES);
    story_peace(k.w);
    sim_hook = NULL;
    ok(k.w->sim.broken && strstr(k.w->sim.verdict, "the agent holds") != NULL, "%d bytes more each turn are found: %s", LEAK,
       k.w->sim.verdict);
    list_each_safe(it, next, &kept)
        free(it);
    k.w->sim.broken = false;
    end(&k);
}

int main(int argc, char **argv)
{
    int days = DAYS;
    uint64_t seed = SEED;
    bool steady = true, rough = true, verbose = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-v") == 0)
            verbose = true;
        else if (strcmp(argv[i], "--steady") == 0)
            rough = false;
        else if (strcmp(argv[i], "--rough") == 0)
            steady = false;
        else if (strcmp(argv[i], "--days") == 0 && i + 1 < argc)
            days = atoi(argv[++i]);
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 10);
        else
            return fprintf(stderr, "usage: %s [--days N] [--seed N] [--steady | --rough] [-v]\n", argv[0]), 2;
    }
    if (steady)
        soak(days, seed, false, verbose);
    if (rough)
        soak(days, seed, true, verbose);
    if (steady && sim_heap_counts()) { // numbers; under a sanitizer only time would be spent on them
        cost_of_a_day(NET_REFUSED, DAY_BYTES_MAX, "offline");
        cost_of_a_day(NET_FINE, DAY_BYTES_MAX, "online");
        growth_is_found();
    }
    return done_testing();
}
