// SPDX-License-Identifier: Apache-2.0
// One machine of a fleet: its agent's turns, lives and objects.
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "fleet.h"
#include "kinds/edgeapp_spec.h"

#define FILE_PATH "/etc/app/fleet.conf"

enum { SPIN_MAX = 20000, REPLICAS = 2, SPEC_MAX = 400, SPEC_MEMORY = 1 << 20 };

// --- Turns. The loop's wait is where the world is left: it says when to come back.

struct node_backend {
    struct loop_backend backend;
    struct fleet_node *node;
};

static int fd_set_nothing(struct loop_backend *b UNUSED, struct loop_fd *f UNUSED, struct err *e UNUSED)
{
    return 0;
}

static void fd_del_nothing(struct loop_backend *b UNUSED, struct loop_fd *f UNUSED)
{
}

static void turn(struct fleet_node *n);

static void on_wake(struct sim_event *ev)
{
    turn(container_of(ev, struct fleet_node, wake));
}

static int wait_for_world(struct loop_backend *b, struct loop *l, int64_t timeout_ms, struct err *e)
{
    struct fleet_node *n = container_of(b, struct node_backend, backend)->node;
    struct loop_fd *fd = n->ringing;
    n->ringing = NULL;
    if (fd != NULL)
        loop_dispatch_fd(l, fd, LOOP_IN);
    if (fd != NULL || timeout_ms == 0)
        return 0;
    sim_unset(&n->wake);
    if (timeout_ms > 0)
        sim_in(&n->fleet->sim, &n->wake, timeout_ms, on_wake);
    return err_set(e, E_BUSY, "%s sleeps", n->name);
}

static void free_backend(struct loop_backend *b)
{
    free(container_of(b, struct node_backend, backend));
}

static struct loop *loop_of(struct fleet_node *n)
{
    struct loop *l = NULL;
    struct err e = ERR_INIT;
    struct node_backend *b = calloc(1, sizeof(*b));
    if (b == NULL)
        abort();
    *b = (struct node_backend){ { fd_set_nothing, fd_del_nothing, wait_for_world, free_backend }, n };
    if (loop_new(&l, &n->clock.clock, &b->backend, &e) < 0)
        abort();
    return l;
}

static void watch_for_spinning(struct fleet_node *n)
{
    struct sim *s = &n->fleet->sim;
    n->turns = n->began_ms == s->now_ms ? n->turns + 1 : 0;
    n->began_ms = s->now_ms;
    if (n->turns > SPIN_MAX)
        sim_violation(s, "%s turns and turns and no time passes", n->name);
}

static void note_told(struct fleet_node *n)
{
    struct outbox_stats s;
    if (n->online_ms < 0 || n->told_ms >= 0 || outbox_stats(n->agent->outbox, &s, NULL) < 0)
        return;
    if (s.events_pending + s.status_pending == 0)
        n->told_ms = n->fleet->sim.now_ms;
}

static void keep_line(void *ctx, const char *line, size_t len)
{
    struct fleet_node *n = ctx;
    char *out = n->fleet->last_log[n->fleet->n_log++ % LOG_LINES];
    snprintf(out, LOG_LINE_MAX, "%s %.*s", n->name, (int)MIN(len, (size_t)LOG_LINE_MAX - 40), line);
    out[strcspn(out, "\n")] = '\0';
}

static void turn(struct fleet_node *n)
{
    struct err e = ERR_INIT;
    int rc = 0;
    if (n->agent == NULL)
        return;
    log_set_sink(keep_line, n);
    while (rc == 0 && !n->fleet->sim.broken) {
        rc = loop_turn(n->loop, -1, &e);
        watch_for_spinning(n);
    }
    if (rc != E_BUSY && !n->fleet->sim.broken)
        sim_violation(&n->fleet->sim, "%s: the loop fails: %s", n->name, e.msg);
    note_told(n);
}

static void dispatch(struct sim *s UNUSED, struct loop *l, struct loop_fd *fd)
{
    struct fleet_node *n = container_of(container_of(loop_clock(l), struct sim_clock, clock), struct fleet_node, clock);
    n->ringing = fd;
    turn(n);
}

// --- Lives

static void on_link(void *ctx, enum link_state state, const char *why UNUSED)
{
    struct fleet_node *n = ctx;
    if (state == LINK_ONLINE && n->fleet->measured_from_ms >= 0 && n->online_ms < 0)
        n->online_ms = n->fleet->sim.now_ms;
}

static void configure(struct fleet_node *n)
{
    char name[64], ns[80];
    struct buf problems AUTO_BUF = BUF_INIT(4096);
    struct err e = ERR_INIT;
    snprintf(name, sizeof(name), "node.name=%s", n->name);
    snprintf(ns, sizeof(ns), "node.namespace=%s", n->ns);
    const char *const overrides[] = { name, ns, "manifests.dir=", NULL };
    if (config_load(&n->config, &n->disk.disk, "/etc/limpet/limpet.ini", false, overrides, NULL, &problems, &e) < 0)
        sim_violation(&n->fleet->sim, "the configuration is refused: %s", buf_str(&problems));
}

static void switch_on(struct sim_event *ev)
{
    struct fleet_node *n = container_of(ev, struct fleet_node, next);
    struct err e = ERR_INIT;
    struct agent_seams seams = { .loop = n->loop, .clock = &n->clock.clock, .port = n->port };
    struct agent_conf conf = { .config = &n->config, .node = n->name, .ns = n->ns, .link_changed = on_link, .ctx = n };
    log_set_sink(keep_line, n);
    seams.disk = sim_disk_for(&n->disk, n->loop);
    seams.transport = sim_net_for(&n->net, n->loop);
    configure(n);
    int rc = agent_new(&n->agent, &seams, &conf, &e);
    sim_vfs_many_stores();
    if (rc == 0)
        rc = agent_start(n->agent, &e);
    if (rc < 0)
        sim_violation(&n->fleet->sim, "%s: the agent does not start: %s", n->name, e.msg);
    turn(n);
}

static void clear_away(struct fleet_node *n)
{
    struct loop *old = n->loop;
    struct err e = ERR_INIT;
    log_set_sink(keep_line, n);
    n->fleet->sim.dead = true; // what it does on its way out reaches nobody
    agent_abandon(n->agent);
    n->agent = NULL;
    n->ringing = NULL;
    sim_unset(&n->wake);
    sim_disk_leave(&n->disk);
    sim_net_leave(&n->net);
    config_fini(&n->config);
    sim_disk_power_cut(&n->disk);
    port_fake_reboot(n->port);
    sim_clock_reboot(&n->clock);
    n->loop = loop_of(n);
    if (port_fake_agent_died(n->port, &n->port, n->loop, &e) < 0)
        abort();
    loop_free(old);
    n->fleet->sim.dead = false;
}

void node_power_cut(struct fleet_node *n, int64_t down_ms)
{
    if (n->agent == NULL)
        return;
    clear_away(n);
    n->was_cut = true;
    sim_in(&n->fleet->sim, &n->next, down_ms, switch_on);
}

// --- Its objects

static void app_spec(struct fleet_node *n, char out[SPEC_MAX])
{
    snprintf(out, SPEC_MAX, "{\"command\":[\"/bin/app\",\"--version\",\"%d\"],\"replicas\":%d,\"terminationGracePeriodSeconds\":5}",
             ++n->versions, REPLICAS);
}

static void file_spec(struct fleet_node *n, char out[SPEC_MAX])
{
    snprintf(out, SPEC_MAX, "{\"files\":[{\"path\":\"" FILE_PATH "\",\"content\":\"text %d\\n\",\"mode\":\"0644\"}]}", ++n->versions);
}

static struct sim_object *object_of(struct fleet_node *n, const char *plural, const char *name)
{
    return sim_store_get(&n->fleet->server, sim_type_find(&n->fleet->server, "edge.limpet.dev", "v1alpha1", plural), n->ns, name);
}

static void create(struct fleet_node *n, const char *plural, const char *name, const char *spec)
{
    struct json *j = json_object(), *body = NULL;
    struct err e = ERR_INIT;
    if (json_parse(&body, spec, strlen(spec), &e) < 0)
        abort();
    json_set(j, "spec", body);
    sim_store_add(&n->fleet->server, sim_type_find(&n->fleet->server, "edge.limpet.dev", "v1alpha1", plural), n->ns, name, j);
}

static void create_all(struct fleet_node *n)
{
    char spec[SPEC_MAX];
    struct json *ns = json_object(), *status = json_object();
    json_set_str(status, "phase", "Active");
    json_set(ns, "status", status);
    sim_store_add(&n->fleet->server, sim_type_find(&n->fleet->server, "", "v1", "namespaces"), "", n->ns, ns);
    create(n, "edgenodes", n->name, "{\"description\":\"one of many\"}");
    app_spec(n, spec);
    create(n, "edgeapps", "app", spec);
    file_spec(n, spec);
    create(n, "edgeconfigs", "file", spec);
}

void node_edit_app(struct fleet_node *n)
{
    char spec[SPEC_MAX];
    app_spec(n, spec);
    sim_server_set_spec(&n->fleet->server, object_of(n, "edgeapps", "app"), spec);
}

void node_edit_file(struct fleet_node *n)
{
    char spec[SPEC_MAX];
    file_spec(n, spec);
    sim_server_set_spec(&n->fleet->server, object_of(n, "edgeconfigs", "file"), spec);
}

// --- The machine

void node_crash(struct fleet_node *n)
{
    char owner[100];
    snprintf(owner, sizeof(owner), "edgeapps/%s/app", n->ns);
    if (n->agent == NULL)
        return;
    port_fake_crash(n->port, owner, 0, 1);
    turn(n);
}

void node_drift(struct fleet_node *n)
{
    if (n->agent != NULL)
        sim_disk_put(&n->disk, FILE_PATH, "scribble\n", 0644);
}

// --- Is it right?

struct tally {
    const char *revision;
    int running;
};

static int count(void *ctx, const struct inst *i)
{
    struct tally *t = ctx;
    t->running += i->state == INST_RUNNING && strcmp(i->revision, t->revision) == 0;
    return 0;
}

static bool app_is_right(struct fleet_node *n)
{
    char owner[100];
    struct app_spec spec;
    struct arena a;
    struct err e = ERR_INIT;
    struct tally t = { 0 };
    arena_init(&a, SPEC_MEMORY);
    snprintf(owner, sizeof(owner), "edgeapps/%s/app", n->ns);
    int rc = app_spec_decode(&spec, json_get(object_of(n, "edgeapps", "app")->json, "spec"), n->name, &a, &e);
    t.revision = spec.process.revision;
    if (rc == 0)
        rc = n->port->ops->each(n->port, owner, count, &t, &e);
    arena_reset(&a);
    return rc == 0 && t.running == REPLICAS;
}

static bool file_is_right(struct fleet_node *n)
{
    struct sim_file *f = sim_disk_at(&n->disk, FILE_PATH);
    const struct json *files = json_path(object_of(n, "edgeconfigs", "file")->json, "spec.files");
    json_each(j, files) return f != NULL && strcmp(buf_str(&f->now), json_str(json_get(j, "content"))) == 0;
    return false;
}

static bool status_is_current(struct fleet_node *n, const char *plural, const char *name)
{
    int64_t seen = -1;
    const struct sim_object *o = object_of(n, plural, name);
    return json_i64(json_path(o->json, "status.observedGeneration"), &seen) && seen == o->generation;
}

bool node_is_right(struct fleet_node *n, char why[256])
{
    const char *wrong = n->agent == NULL                               ? "is off"
                        : !app_is_right(n)                             ? "does not run what it should"
                        : !file_is_right(n)                            ? "has another file"
                        : !status_is_current(n, "edgeapps", "app")     ? "did not report its app"
                        : !status_is_current(n, "edgeconfigs", "file") ? "did not report its file"
                        : !status_is_current(n, "edgenodes", n->name)  ? "did not report itself"
                        : n->told_ms < 0                               ? "still has something to tell"
                                                                       : NULL;
    if (wrong != NULL)
        snprintf(why, 256, "%s %s", n->name, wrong);
    return wrong == NULL;
}

// --- The whole

static void make_dirs(struct fleet_node *n)
{
    static const char *const dirs[] = { "/etc/app", "/etc/limpet", "/var/lib", "/run/limpet", "/var/log", "/proc/net" };
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
        if (n->disk.disk.ops->mkdirs(&n->disk.disk, dirs[i], 0755, 0, NULL) < 0)
            abort();
    sim_disk_put(&n->disk, "/etc/hostname", n->name, 0644);
    sim_disk_put(&n->disk, "/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n", 0644);
}

static struct sim_rng stream(struct fleet_node *n, const char *what)
{
    char name[64];
    snprintf(name, sizeof(name), "%s of %s", what, n->name);
    return sim_stream(&n->fleet->sim, name);
}

static void heard(struct sim_net *net, const char *method, const char *url, bool connects, int status);

static void node_init(struct fleet *f, struct fleet_node *n, int number)
{
    static const struct fake_behaviour well = { .start_ms = 40, .run_ms = -1, .stop_ms = 150, .run_delay_ms = 30, .check_ok = true };
    struct err e = ERR_INIT;
    *n = (struct fleet_node){ .fleet = f, .first_contact_ms = -1, .online_ms = -1, .told_ms = -1 };
    snprintf(n->name, sizeof(n->name), "node-%04d", number);
    snprintf(n->ns, sizeof(n->ns), "edge-%s", n->name);
    sim_clock_init(&n->clock, &f->sim);
    sim_disk_init(&n->disk, &f->sim);
    sim_net_init(&n->net, &f->sim, &f->server);
    n->clock.rng = stream(n, "agent");
    n->disk.rng = stream(n, "disk");
    n->net.rng = stream(n, "net");
    n->net.heard = heard;
    n->loop = loop_of(n);
    if (port_fake_new(&n->port, n->loop, &e) < 0)
        abort();
    port_fake_behave(n->port, NULL, &well);
    sim_disk_for(&n->disk, n->loop);
    make_dirs(n);
    sim_disk_leave(&n->disk);
    create_all(n);
}

static void node_fini(struct fleet_node *n)
{
    if (n->agent != NULL)
        clear_away(n);
    sim_unset(&n->next);
    n->port->ops->free(n->port);
    loop_free(n->loop);
    sim_net_fini(&n->net);
    sim_disk_fini(&n->disk);
}

void fleet_init(struct fleet *f, uint64_t seed, int nodes)
{
    *f = (struct fleet){ .n = nodes, .measured_from_ms = -1 };
    sim_init(&f->sim, seed, false);
    f->sim.dispatch = dispatch;
    f->rng = sim_stream(&f->sim, "fleet");
    sim_server_init(&f->server, &f->sim);
    sim_server_keep_rings(&f->server);
    f->nodes = calloc((size_t)nodes, sizeof(*f->nodes));
    if (f->nodes == NULL)
        abort();
    for (int i = 0; i < nodes; i++)
        node_init(f, &f->nodes[i], i);
    log_setup(LOG_WARN, LOG_TEXT, &f->nodes[0].clock.clock);
}

void fleet_fini(struct fleet *f)
{
    for (int i = 0; i < f->n; i++)
        node_fini(&f->nodes[i]);
    free(f->nodes);
    sim_server_fini(&f->server);
    log_set_sink(NULL, NULL);
    log_setup(LOG_INFO, LOG_TEXT, NULL);
}

void fleet_boot(struct fleet *f, int64_t spread_ms)
{
    for (int i = 0; i < f->n; i++)
        sim_in(&f->sim, &f->nodes[i].next, rng_below(&f->rng, spread_ms), switch_on);
}

void fleet_live(struct fleet *f, int64_t until_ms)
{
    while (!f->sim.broken && sim_next(&f->sim) <= until_ms)
        sim_run_due(&f->sim, sim_next(&f->sim));
    f->sim.now_ms = MAX(f->sim.now_ms, until_ms);
}

void fleet_link(struct fleet *f, enum sim_link link)
{
    for (int i = 0; i < f->n; i++)
        sim_net_link(&f->nodes[i].net, link);
}

void fleet_measure(struct fleet *f)
{
    memset(f->asked, 0, sizeof(f->asked));
    f->measured_from_ms = f->sim.now_ms;
    for (int i = 0; i < f->n; i++)
        f->nodes[i].first_contact_ms = f->nodes[i].online_ms = f->nodes[i].told_ms = -1;
}

// --- Counting

const char *const fleet_ask_words[ASKS] = { "connections", "LISTs", "LISTs of one", "watches", "GETs", "lease", "status", "events" };

static bool has(const char *url, const char *key, const char *value)
{
    char text[32];
    return sim_query(url, key, text, sizeof(text)) && strcmp(text, value) == 0;
}

static enum fleet_ask ask_of(const char *method, const char *url)
{
    const char *type = strstr(url, "/leases") != NULL ? "lease" : strstr(url, "/events") != NULL ? "event" : "";
    if (type[0] == 'l')
        return ASK_LEASE;
    if (strcmp(method, "GET") != 0)
        return type[0] == 'e' ? ASK_EVENT : ASK_STATUS;
    if (has(url, "sendInitialEvents", "true"))
        return ASK_LIST;
    if (has(url, "watch", "true") || has(url, "watch", "1"))
        return ASK_WATCH;
    if (strstr(url, "/apis/") == NULL)
        return ASK_GET;
    return has(url, "limit", "1") ? ASK_PROBE : ASK_LIST;
}

static void heard(struct sim_net *net, const char *method, const char *url, bool connects, int status)
{
    struct fleet_node *n = container_of(net, struct fleet_node, net);
    struct fleet *f = n->fleet;
    enum fleet_ask ask = ask_of(method, url);
    int64_t second = (f->sim.now_ms - MAX(f->measured_from_ms, (int64_t)0)) / 1000;
    if (second >= FLEET_SECONDS)
        return;
    f->asked[ask][second]++;
    f->asked[ASK_CONNECT][second] += connects;
    if (f->measured_from_ms < 0)
        return;
    if (n->first_contact_ms < 0)
        n->first_contact_ms = f->sim.now_ms;
    n->lists += ask == ASK_LIST && status == 200;
    f->turned_away += status == 429;
}

uint32_t fleet_asked(const struct fleet *f, unsigned asks, int from, int seconds)
{
    uint32_t sum = 0;
    for (int s = from; s < from + seconds; s++)
        for (int a = 0; a < ASKS; a++)
            sum += (asks >> a & 1) != 0 ? f->asked[a][s] : 0;
    return sum;
}

uint32_t fleet_worst(const struct fleet *f, unsigned asks, int from, int seconds)
{
    uint32_t worst = 0;
    for (; from + seconds <= FLEET_SECONDS; from++)
        worst = MAX(worst, fleet_asked(f, asks, from, seconds));
    return worst;
}
