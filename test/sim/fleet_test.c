// SPDX-License-Identifier: Apache-2.0
// fleet — what a fleet asks of its API server when that is back after an hour.
//
//     fleet_test [--nodes N] [--seed N] [--seconds] [--only VARIANT]
//
// N agents (100; `make sim-fleet`: 1,000) boot and settle; then the server cannot be reached for an hour, in which machines lose power, apps
// crash, files drift and users change specs. Counted is what arrives at the server once it can be reached again. The bounds are for 1,000
// agents and hold for fewer. --seconds prints the load second by second.
//
// timeout: 900
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fleet.h"
#include "tap.h"

enum { NODES = 100, SEED = 3, BOOT_MS = 10 * MINUTE, SETTLED_MS = 20 * MINUTE, WATCHED_MS = 6 * MINUTE };
enum { RESUMED_PERCENT = 60, CURRENT_MS = 2 * MINUTE, PER_SECOND_MAX = 50 };
// While packets vanish each agent tries for 5 s of 50. When they pass again, those whose kernel asks once more in that second (1 and 3 s after
// it asked first) come beside those who try just then: three times 1,000 / 50.
enum { FIRST_OF_WAITING_MAX = 90 };
// Every agent has to list each of its six sources, and a server that turns away what is too much hears that again.
enum { NEW_SERVER_MAX = 125 };
// In the outage, of 1,000 nodes:
enum { POWER_CUTS = 100, CRASHES = 60, DRIFTS = 30, APP_EDITS = 50, FILE_EDITS = 20 };

struct variant {
    const char *name;
    enum sim_link link;
    int first_max;   // connections and LISTs in the first second; in the others PER_SECOND_MAX
    bool new_server; // its process ends and another one begins: no history, and it turns away what is too much at first
};

// --- The hour

struct incident {
    struct sim_event event;
    struct fleet_node *node;
    void (*act)(struct fleet_node *n);
};

static void on_incident(struct sim_event *ev)
{
    struct incident *i = container_of(ev, struct incident, event);
    i->act(i->node);
}

static void cut_power(struct fleet_node *n)
{
    node_power_cut(n, rng_between(&n->fleet->rng, 10, 600) * 1000);
}

static size_t add(struct fleet *f, struct incident *list, size_t at, int per_thousand, void (*act)(struct fleet_node *n))
{
    int times = MAX(f->n * per_thousand / 1000, 1);
    for (int i = 0; i < times; i++) {
        struct incident *in = &list[at++];
        *in = (struct incident){ .node = &f->nodes[rng_below(&f->rng, f->n)], .act = act };
        sim_in(&f->sim, &in->event, rng_between(&f->rng, 1000, HOUR - 12 * MINUTE), on_incident);
    }
    return at;
}

static void the_hour(struct fleet *f, const struct variant *v)
{
    struct incident *list = calloc((size_t)f->n + 8, sizeof(*list));
    size_t n = 0;
    if (list == NULL)
        abort();
    n = add(f, list, n, POWER_CUTS, cut_power);
    n = add(f, list, n, CRASHES, node_crash);
    n = add(f, list, n, DRIFTS, node_drift);
    if (!v->new_server) { // else the users cannot reach it either
        n = add(f, list, n, APP_EDITS, node_edit_app);
        add(f, list, n, FILE_EDITS, node_edit_file);
    }
    fleet_live(f, f->sim.now_ms + HOUR);
    free(list);
}

// --- What came of it

struct sum {
    int came, resumed, online, right;
    int64_t last_contact_ms, slowest_ms, slowest_told_ms;
    char why[256];
};

static void sum_up(struct fleet *f, struct sum *s)
{
    *s = (struct sum){ 0 };
    for (int i = 0; i < f->n; i++) {
        struct fleet_node *n = &f->nodes[i];
        s->came += n->first_contact_ms >= 0;
        s->online += n->online_ms >= 0;
        s->resumed += n->online_ms >= 0 && n->lists == 0;
        s->right += node_is_right(n, s->why);
        s->last_contact_ms = MAX(s->last_contact_ms, n->first_contact_ms - f->measured_from_ms);
        s->slowest_ms = MAX(s->slowest_ms, n->online_ms - n->first_contact_ms);
        s->slowest_told_ms = MAX(s->slowest_told_ms, n->told_ms - n->first_contact_ms);
    }
}

// Connections and LISTs.
static void judge_load(const struct fleet *f, const struct variant *v)
{
    unsigned costly = 1u << ASK_CONNECT | 1u << ASK_LIST | 1u << ASK_PROBE;
    uint32_t first = fleet_asked(f, costly, 0, 1), worst = fleet_worst(f, costly, 1, 1);
    double over_ten = fleet_worst(f, costly, 0, 10) / 10.0;
    if (v->new_server) {
        ok(over_ten <= NEW_SERVER_MAX, "field 15: %s: at most %.1f connections and LISTs a second over ten, %u in one", v->name, over_ten,
           worst);
        return;
    }
    ok(over_ten <= PER_SECOND_MAX, "field 15: %s: at most %.1f connections and LISTs a second over ten", v->name, over_ten);
    ok(first <= (uint32_t)v->first_max, "field 15: %s: %u of them in the first second", v->name, first);
    ok(worst <= PER_SECOND_MAX, "field 15: %s: at most %u in any other one", v->name, worst);
}

static void print_load(const struct fleet *f, bool all_seconds)
{
    for (int a = 0; a < ASKS; a++) {
        uint64_t all = 0;
        for (int s = 0; s < FLEET_SECONDS; s++)
            all += f->asked[a][s];
        diag("  %-13s %6" PRIu64 " in all, at most %3u in a second, %5.1f a second over ten", fleet_ask_words[a], all,
             fleet_worst(f, 1u << a, 0, 1), fleet_worst(f, 1u << a, 0, 10) / 10.0);
    }
    for (int s = 0; all_seconds && s < 120; s++)
        diag("  %3d s: %3u connect %3u list %3u probe %3u watch %3u get %3u lease %3u status %3u event", s, f->asked[ASK_CONNECT][s],
             f->asked[ASK_LIST][s], f->asked[ASK_PROBE][s], f->asked[ASK_WATCH][s], f->asked[ASK_GET][s], f->asked[ASK_LEASE][s],
             f->asked[ASK_STATUS][s], f->asked[ASK_EVENT][s]);
}

static void judge(struct fleet *f, const struct variant *v, bool all_seconds)
{
    struct sum s;
    sum_up(f, &s);
    ok(!f->sim.broken, "%s: nothing that must not be: %s", v->name, f->sim.verdict);
    ok(s.right == f->n, "%s: %d of %d are as they should be, and told it%s%s", v->name, s.right, f->n, s.right < f->n ? "; " : "", s.why);
    judge_load(f, v);
    if (v->new_server)
        diag("%s: %d went on without a LIST, %" PRIu64 " requests were turned away", v->name, s.resumed, f->turned_away);
    else
        ok(s.resumed * 100 >= f->n * RESUMED_PERCENT, "%s: %d of %d went on without a LIST", v->name, s.resumed, f->n);
    ok(s.online == f->n && s.slowest_ms <= CURRENT_MS, "%s: %d are current, the slowest %.1f s after its first contact", v->name, s.online,
       (double)s.slowest_ms / 1000);
    diag("%s: the last one came after %.1f s; the slowest had told all %.1f s after its first contact", v->name,
         (double)s.last_contact_ms / 1000, (double)s.slowest_told_ms / 1000);
    print_load(f, all_seconds);
}

static void end_of_outage(struct fleet *f, const struct variant *v)
{
    if (v->new_server) {
        sim_server_keep_rings(&f->server);
        f->server.max_per_s = MAX(f->n / 5, 10); // the leases of them all are half of that
    }
    fleet_measure(f);
    fleet_link(f, NET_FINE);
}

static void play(const struct variant *v, uint64_t seed, int nodes, bool all_seconds)
{
    struct fleet *f = calloc(1, sizeof(*f));
    if (f == NULL)
        abort();
    fleet_init(f, seed, nodes);
    fleet_boot(f, BOOT_MS);
    fleet_live(f, SETTLED_MS);
    if (v->new_server)
        sim_server_restart(&f->server);
    fleet_link(f, v->link);
    the_hour(f, v);
    end_of_outage(f, v);
    fleet_live(f, f->sim.now_ms + WATCHED_MS);
    judge(f, v, all_seconds);
    fleet_fini(f);
    free(f);
}

int main(int argc, char **argv)
{
    static const struct variant variants[] = {
        { "refused", NET_REFUSED, PER_SECOND_MAX, false },
        { "dropped", NET_DROPS, FIRST_OF_WAITING_MAX, false },
        { "a new server", NET_REFUSED, 0, true },
    };
    uint64_t seed = SEED;
    int nodes = NODES;
    const char *only = NULL;
    bool seconds = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seconds") == 0)
            seconds = true;
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            only = argv[++i];
        else if (strcmp(argv[i], "--nodes") == 0 && i + 1 < argc)
            nodes = (int)strtol(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 10);
        else
            return fprintf(stderr, "usage: %s [--nodes N] [--seed N] [--seconds] [--only VARIANT]\n", argv[0]), 2;
    }
    for (size_t i = 0; i < ARRAY_LEN(variants); i++)
        if (only == NULL || strcmp(only, variants[i].name) == 0)
            play(&variants[i], seed, nodes, seconds);
    return done_testing();
}
