// SPDX-License-Identifier: Apache-2.0
// comeback — what one agent asks of a server that was away: when it lists, and when it asks again.
//
// fleet_test counts what a thousand of them do; here each rule that makes their load what it is has a check of its own.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim_world.h"
#include "tap.h"

enum { SEED = 15, SOURCES = 6, LISTS_MAX = 64, SPREAD_MS = 90 * 1000 };

// The LISTs that the server heard since it was back, and its first contact.
static struct {
    int64_t contact_ms, at_ms[LISTS_MAX];
    int n;
} heard;

static void on_heard(struct sim_net *net, const char *method, const char *url, bool connects UNUSED, int status UNUSED)
{
    if (heard.contact_ms < 0)
        heard.contact_ms = net->sim->now_ms;
    if (strcmp(method, "GET") == 0 && strstr(url, "sendInitialEvents=true") != NULL && heard.n < LISTS_MAX)
        heard.at_ms[heard.n++] = net->sim->now_ms;
}

static enum link_state link_of(struct world *w)
{
    struct sync_stats s;
    sync_stats(w->agent->sync, &s);
    return s.link;
}

static struct world *world_at_work(void)
{
    struct world *w = calloc(1, sizeof(*w));
    if (w == NULL)
        abort();
    world_init(w, SEED, false);
    w->mode = "watch";
    w->max_events = 5000;
    sim_server_create(&w->server, "edgenodes", SIM_NODE, "{\"description\":\"under test\"}");
    sim_server_create(&w->server, "edgeapps", "app-0", "{\"command\":[\"/bin/app\"]}");
    agent_start_now(w);
    world_live(w, 2 * MINUTE);
    is_int(link_of(w), LINK_ONLINE, "the world at its beginning");
    w->net.heard = on_heard;
    return w;
}

static void world_end(struct world *w)
{
    if (!ok(!w->sim.broken, "no invariant of the simulator broke"))
        diag("%s", w->sim.verdict);
    world_fini(w);
    free(w);
}

// The server cannot be reached for so long, and has no history when it can.
static void be_away(struct world *w, int64_t ms)
{
    sim_net_link(&w->net, NET_REFUSED);
    world_live(w, ms);
    sim_server_create(&w->server, "edgeapps", "app-1", "{\"command\":[\"/bin/app\"]}");
    sim_server_compact(&w->server);
    memset(&heard, 0, sizeof(heard));
    heard.contact_ms = -1;
    sim_net_link(&w->net, NET_FINE);
}

// Milliseconds from the first contact to the last LIST.
static int64_t last_list_ms(void)
{
    return heard.n > 0 ? heard.at_ms[heard.n - 1] - heard.contact_ms : -1;
}

static int most_in_a_second(void)
{
    int most = 0;
    for (int i = 0; i < heard.n; i++) {
        int n = 0;
        for (int j = i; j < heard.n && heard.at_ms[j] < heard.at_ms[i] + 1000; j++)
            n++;
        most = MAX(most, n);
    }
    return most;
}

static void lists_are_spread(void)
{
    struct world *w = world_at_work();
    be_away(w, HOUR);
    world_live(w, 3 * MINUTE);
    is_int(heard.n, SOURCES, "field 15: after an hour each source lists once");
    ok(most_in_a_second() <= 2 && last_list_ms() > SPREAD_MS / 4 && last_list_ms() <= SPREAD_MS,
       "field 15: not all at the same moment: at most %d in a second, the last %" PRId64 " ms after the first contact", most_in_a_second(),
       last_list_ms());
    is_int(link_of(w), LINK_ONLINE, "field 15: and all is current");
    world_end(w);
}

static void until_contact(struct world *w)
{
    heard.contact_ms = -1;
    while (heard.contact_ms < 0 && !w->sim.broken)
        world_live(w, 100);
}

static void drawn_once(void)
{
    struct world *w = world_at_work();
    be_away(w, HOUR);
    until_contact(w);
    world_live(w, 2000);
    ok(heard.n < SOURCES, "field 15: a link that breaks before all is listed");
    sim_net_link(&w->net, NET_REFUSED);
    world_live(w, SPREAD_MS);
    sim_net_link(&w->net, NET_FINE);
    until_contact(w);
    world_live(w, 3000);
    is_int(link_of(w), LINK_ONLINE, "field 15: puts no list off any further");
    world_end(w);
}

static void at_once(int64_t away_ms, bool own_link, const char *why)
{
    struct world *w = world_at_work();
    be_away(w, away_ms);
    if (own_link)
        sync_kick(w->agent->sync, false);
    world_live(w, 3 * MINUTE);
    is_int(heard.n, SOURCES, "field 15: %s: each source lists once", why);
    ok(last_list_ms() <= 3000, "field 15: %s: at once (%" PRId64 " ms)", why, last_list_ms());
    world_end(w);
}

// 503 with Retry-After: an hour.
static void comes_when_told(void)
{
    struct world *w = world_at_work();
    w->net.put_off = "/";
    be_away(w, MINUTE);
    until_contact(w);
    uint64_t before = w->net.submitted;
    world_live(w, 50 * MINUTE);
    is_int((intmax_t)(w->net.submitted - before), 0, "field 15: told to come again in an hour it does not ask before");
    w->net.put_off = NULL;
    world_live(w, 15 * MINUTE);
    is_int(link_of(w), LINK_ONLINE, "field 15: and then does");
    world_end(w);
}

int main(void)
{
    lists_are_spread();
    drawn_once();
    at_once(9 * MINUTE, false, "nine minutes away");
    at_once(HOUR, true, "an hour away, and our own link came up");
    comes_when_told();
    return done_testing();
}
