// SPDX-License-Identifier: Apache-2.0
// outage — the very agent, a server that is away for good, and a million attempts to reach it.
//
// Beside the attempts an app fails over and over and a file is fought over, so that statuses, events and log lines come about all the time
// and nobody takes them. What is measured is the whole process with the simulator in it: that one keeps nothing of a failed attempt.
// Under a sanitizer, which is slow, it is a tenth of it.
//
// timeout: 600
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "sim_world.h"
#include "tap.h"

#ifdef __SANITIZE_ADDRESS__
enum { ATTEMPTS = 100000, WARM_UP = 200000 };
extern size_t __sanitizer_get_current_allocated_bytes(void);
#else
enum { ATTEMPTS = 1000000, WARM_UP = 250000 };
#endif
enum { SEED = 8, EVENTS = 200, GROWTH_MAX = 256 * 1024, STORE_MAX = 5 << 20, LINES_A_MINUTE = 100, BYTES_A_DAY = 2 << 20 };

// Few limits are as low as these: more attempts in less time.
static const char ini[] = "[sync]\nbackoff = 100ms\nbackoffCap = 1s\n";

static struct {
    uint64_t lines, bytes;
} said;

static void count_line(void *ctx UNUSED, const char *line UNUSED, size_t len)
{
    said.lines++;
    said.bytes += len;
}

// Bytes that the process holds.
static int64_t memory(void)
{
#ifdef __SANITIZE_ADDRESS__
    return (int64_t)__sanitizer_get_current_allocated_bytes();
#else
    long long size, resident;
    FILE *f = fopen("/proc/self/statm", "r");
    int n = f != NULL ? fscanf(f, "%lld %lld", &size, &resident) : 0;
    if (f != NULL)
        fclose(f);
    return n == 2 ? resident * sysconf(_SC_PAGESIZE) : -1;
#endif
}

static struct world *world_at_work(void)
{
    struct world *w = calloc(1, sizeof(*w));
    if (w == NULL)
        abort();
    world_init(w, SEED, false);
    w->mode = "auto";
    w->max_events = EVENTS;
    sim_disk_put(&w->disk, "/etc/limpet/limpet.ini", ini, 0644);
    sim_server_create(&w->server, "edgenodes", SIM_NODE, "{\"description\":\"under test\"}");
    sim_server_create(&w->server, "edgeapps", "app-0", "{\"command\":[\"/bin/app\"],\"replicas\":3}");
    sim_server_create(&w->server, "edgeconfigs", "cfg-0", "{\"files\":[{\"path\":\"/etc/app/cfg-0-a.conf\",\"content\":\"one\\n\"}]}");
    agent_start_now(w);
    world_live(w, 2 * MINUTE);
    return w;
}

// The machine's troubles: an app that ends with another exit code each time, so that no two events are one; somebody else who writes the
// same file.
struct trouble {
    struct sim_event next;
    struct world *w;
    struct fake_behaviour app;
};

static void on_trouble(struct sim_event *ev)
{
    struct trouble *t = container_of(ev, struct trouble, next);
    t->app.exit_code = t->app.exit_code % 250 + 1;
    port_fake_behave(t->w->port.port, NULL, &t->app);
    sim_disk_put(&t->w->disk, "/etc/app/cfg-0-a.conf", "mine\n", 0644);
    sim_in(&t->w->sim, ev, 5 * MINUTE, on_trouble);
}

static void try_until(struct world *w, uint64_t attempts)
{
    struct err e = ERR_INIT;
    uint64_t end = w->net.submitted + attempts;
    while (w->net.submitted < end && !w->sim.broken)
        if (loop_turn(w->loop, HOUR, &e) < 0 && !w->sim.broken)
            sim_violation(&w->sim, "the loop fails: %s", e.msg);
}

static void is_bounded(struct world *w)
{
    struct outbox_stats o = { 0 };
    struct db_stats d;
    struct err e = ERR_INIT;
    (void)!outbox_stats(w->agent->outbox, &o, &e);
    db_stats(w->agent->db, &d);
    is_int(o.events_pending, EVENTS, "field 8: the ring of events is full and not fuller");
    ok(o.events_lost > 0, "field 8: what went over its edge is counted (%" PRId64 " events)", o.events_lost);
    ok(o.status_pending > 0 && o.status_pending <= 3, "field 8: %" PRId64 " statuses wait, one an object at most", o.status_pending);
    ok(d.file_bytes + d.wal_bytes < STORE_MAX, "field 8: the store has %" PRId64 " bytes", d.file_bytes + d.wal_bytes);
    ok(w->net.most_under_way <= 16, "field 8: never more than %zu requests at once", w->net.most_under_way);
}

int main(void)
{
    struct world *w = world_at_work();
    struct trouble trouble = { .w = w, .app = w->port.normal };
    trouble.app.run_ms = 2000;
    port_fake_crash(w->port.port, "edgeapps/" SIM_NS "/app-0", 0, 1);
    sim_in(&w->sim, &trouble.next, 0, on_trouble);
    sim_net_link(&w->net, NET_REFUSED);
    log_setup(LOG_DEBUG, LOG_JSON, &w->clock.clock);
    log_set_sink(count_line, NULL);

    try_until(w, WARM_UP);
    int64_t before = memory(), began_ms = w->sim.now_ms;
    uint64_t tried = w->net.submitted;
    said.lines = said.bytes = 0;
    try_until(w, ATTEMPTS);
    int64_t grown = memory() - before, minutes = (w->sim.now_ms - began_ms) / MINUTE;
    ok(before > 0 && grown < GROWTH_MAX, "field 8: %" PRIu64 " failed attempts in %" PRId64 " h cost %" PRId64 " bytes of memory",
       w->net.submitted - tried, minutes / 60, grown);
    is_bounded(w);
    ok(said.lines < (uint64_t)minutes * LINES_A_MINUTE,
       "field 24: with every detail logged it is %" PRIu64 " lines a minute, over %" PRIu64 " attempts in it",
       said.lines / (uint64_t)minutes, (w->net.submitted - tried) / (uint64_t)minutes);

    log_setup(LOG_INFO, LOG_JSON, &w->clock.clock);
    said.lines = said.bytes = 0;
    began_ms = w->sim.now_ms;
    try_until(w, ATTEMPTS / 10);
    int64_t days = MAX((w->sim.now_ms - began_ms) / (24 * (int64_t)HOUR), 1);
    ok(said.bytes / (uint64_t)days < BYTES_A_DAY, "field 24: by default it is %" PRIu64 " bytes a day", said.bytes / (uint64_t)days);
    ok(!w->sim.broken, "field 8: no invariant of the simulator broke");
    if (w->sim.broken)
        diag("%s", w->sim.verdict);
    sim_unset(&trouble.next);
    world_fini(w);
    free(w);
    return done_testing();
}
