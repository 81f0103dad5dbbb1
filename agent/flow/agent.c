// SPDX-License-Identifier: Apache-2.0
#include "flow/agent.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "data/key.h"
#include "flow/agent_store.h"

enum { HOUSEKEEPING_MS = 60000, STORE_RETRY_MS = 5000, HOLDER_BYTES = 8 };

static struct agent *agent_of(void *ctx)
{
    return ctx;
}

// Hooks of sync.

static void on_changed(void *ctx, const char *key)
{
    struct agent *a = ctx;
    if (registry_of_key(a->registry, key) == NULL) {
        refs_changed(a->refs, key);
        return;
    }
    engine_object_changed(a->engine, key);
    agent_policy_heard(ctx, key);
}

static void on_gone(void *ctx, const char *key, const char *uid)
{
    struct agent *a = ctx;
    struct err e = ERR_INIT;
    if (engine_tombstone(a->db, key, uid, &e) < 0)
        log_error("agent", "no-tombstone key=%s error=\"%s\"", key, e.msg);
    engine_object_gone(a->engine, key);
}

static void on_swept(void *ctx, const struct kind *k, const char *ns)
{
    engine_swept(agent_of(ctx)->engine, k, ns);
}

static void on_server_status(void *ctx, const char *key, const char *uid, const char *status, size_t len)
{
    engine_server_status(agent_of(ctx)->engine, key, uid, status, len);
}

static void on_too_large(void *ctx, const struct kind *k, const char *name, const char *why)
{
    (void)ctx;
    log_error("agent", "too-large kind=%s name=%s why=\"%s\"", k->name, name != NULL ? name : "?", why);
}

static void on_unauthorized(void *ctx)
{
    struct agent *a = ctx;
    if (a->unauthorized != NULL)
        a->unauthorized(a->ctx);
}

static void on_doubt(void *ctx)
{
    sync_doubt(agent_of(ctx)->sync);
}

static void note_clock(struct agent *a);

static void on_link(void *ctx, enum link_state state, const char *why)
{
    struct agent *a = ctx;
    bool online = state == LINK_ONLINE;
    a->is_online = online;
    agent_policy_link(a, state);
    contact_link(a->contact, a->seams.clock, online);
    agent_outage_link(a, state);
    egress_online(a->egress, online);
    if (a->lease != NULL && online && !lease_is_running(a->lease))
        lease_start(a->lease);
    if (a->lease != NULL && !online && state != LINK_STANDBY)
        lease_stop(a->lease);
    if (online)
        note_clock(a);
    if (a->link_changed != NULL)
        a->link_changed(a->ctx, state, why);
    agent_refresh_facts(a);
}

// Specs are taken only by the holder of the lease, so after an outage it is renewed before anything else.
static bool on_admit(void *ctx)
{
    struct agent *a = ctx;
    if (a->lease == NULL || (a->is_holder && a->config->server_metaserver))
        return true;
    lease_start(a->lease);
    return false;
}

// Hooks of the lease.

static void on_role(void *ctx, bool holder, const char *other)
{
    struct agent *a = ctx;
    a->is_holder = holder;
    snprintf(a->other_holder, sizeof(a->other_holder), "%s", holder ? "" : other);
    sync_standby(a->sync, !holder);
    agent_refresh_facts(a);
}

static void on_beat(void *ctx, bool ok, const struct err *e)
{
    struct agent *a = ctx;
    if (ok) {
        sync_admit(a->sync, lease_rv(a->lease));
        return;
    }
    if (e->cls == E_AUTH)
        on_unauthorized(a);
    if (e->cls == E_AUTH || e->cls == E_NOTFOUND)
        sync_doubt(a->sync); // with the credentials that were just read again
    // No permission for leases: nothing to stand by for. And a lease that is ours but cannot be written as meant stops nobody.
    if (e->cls == E_FORBIDDEN || (a->is_holder && e->cls == E_INVAL)) {
        sync_admit(a->sync, NULL);
        return;
    }
    sync_refused(a->sync, e);
    if (!a->is_online && a->other_holder[0] == '\0')
        lease_stop(a->lease); // the next contact asks for it
    if (e->cls == E_TIMEOUT || e->cls == E_OFFLINE)
        http_condemn(a->kube.transport);
}

// The turn.

static void retry_store(struct agent *a)
{
    if (timer_in(a->seams.loop, &a->store_retry, STORE_RETRY_MS) < 0)
        log_error("store", "no-retry-timer");
}

static void commit_failed(struct agent *a, const struct err *e)
{
    a->commit_failures++;
    log_error("store", "commit-failed class=%s error=\"%s\"", err_word(e->cls), e->msg);
    engine_store_failed(a->engine);
    if (a->manifests != NULL)
        manifests_again(a->manifests);
    if (a->sync != NULL)
        outage_recall(&a->outage);
    if (a->sync != NULL)
        sync_store_failed(a->sync);
    retry_store(a);
}

static void commit(struct agent *a)
{
    struct err e = ERR_INIT;
    if (!db_dirty(a->db))
        return;
    int64_t began_us = clock_mono_us(a->seams.clock);
    int rc = db_commit(a->db, &e);
    histo_add(&a->commit_time, clock_mono_us(a->seams.clock) - began_us);
    if (rc < 0) {
        commit_failed(a, &e);
        return;
    }
    if (a->sync != NULL)
        sync_stored(a->sync);
    if (a->egress != NULL)
        egress_wake(a->egress);
}

static bool on_commit_in(struct loop_hook *h)
{
    commit(container_of(h, struct agent, commit_in));
    return false;
}

static bool on_work(struct loop_hook *h)
{
    struct agent *a = container_of(h, struct agent, work);
    bool more = engine_run(a->engine);
    agent_refs_run(a);
    return more;
}

static bool on_commit_out(struct loop_hook *h)
{
    commit(container_of(h, struct agent, commit_out));
    return false;
}

static bool on_send(struct loop_hook *h)
{
    struct agent *a = container_of(h, struct agent, send);
    return a->egress != NULL && egress_run(a->egress);
}

static void on_store_retry(struct timer *t)
{
    struct agent *a = container_of(t, struct agent, store_retry);
    struct err e = ERR_INIT;
    if (engine_store_retry(a->engine, &e) == 0) {
        agent_outage_look(a);
        return;
    }
    log_warn("store", "not-read error=\"%s\"", e.msg);
    retry_store(a);
}

// Slow things, once a minute.

// Set by somebody, or the machine slept, or it is believed now: who waits for a time of day looks again. A slow drift is none of that: no
// wait is longer than the long look of the engine.
static void note_step(struct agent *a, bool trusted)
{
    enum { STEP_US = 500000 };
    struct clock *c = a->seams.clock;
    int64_t offset_us = clock_wall_us(c) - clock_mono(c) * 1000, step_us = offset_us - a->wall_offset_us;
    if (trusted != a->clock_was_trusted || step_us > STEP_US || step_us < -STEP_US)
        engine_clock_changed(a->engine);
    a->wall_offset_us = offset_us;
}

static void note_clock(struct agent *a)
{
    char text[32];
    struct err e = ERR_INIT;
    bool trusted = clock_trusted(a->seams.clock);
    if (trusted && !a->clock_was_trusted) {
        struct instant now;
        clock_instant(a->seams.clock, &now);
        if (outbox_clock_corrected(a->outbox, now.boot_id, now.wall_us - now.boot_ms * 1000, &e) < 0)
            log_error("agent", "times-not-corrected error=\"%s\"", e.msg);
    }
    if (trusted && !a->clock_was_trusted && a->seams.clock->floor_lowered)
        log_warn("agent", "clock-floor-lowered why=\"the server kept to an earlier time than this machine once believed\"");
    note_step(a, trusted);
    a->clock_was_trusted = trusted;
    if (!clock_vouched(a->seams.clock))
        return;
    snprintf(text, sizeof(text), "%" PRId64, clock_wall_us(a->seams.clock));
    if (db_lazy_meta(a->db, "clock_floor", text, &e) < 0)
        log_debug("agent", "floor-not-kept error=\"%s\"", e.msg);
}

static void on_housekeeping(struct timer *t)
{
    struct agent *a = container_of(t, struct agent, housekeeping);
    note_clock(a);
    agent_refresh_facts(a);
    if (a->store_away && a->restart != NULL && agent_store_can_go_home(a->seams.disk, a->config))
        a->restart(a->ctx);
    agent_policy_minute(a);
    if (a->manifests != NULL)
        manifests_look(a->manifests);
    agent_outage_look(a);
    if (timer_in(a->seams.loop, t, HOUSEKEEPING_MS) < 0)
        log_error("agent", "no-housekeeping-timer");
}

// Start.

static void load_clock_floor(struct agent *a)
{
    char text[32];
    if (db_meta_get(a->db, "clock_floor", text, sizeof(text), NULL) == 0)
        clock_floor(a->seams.clock, strtoll(text, NULL, 10));
    a->clock_was_trusted = clock_trusted(a->seams.clock);
}

static void make_holder(struct agent *a)
{
    unsigned char raw[HOLDER_BYTES];
    a->seams.clock->ops->random(a->seams.clock, raw, sizeof(raw));
    for (size_t i = 0; i < sizeof(raw); i++)
        snprintf(a->holder + 2 * i, 3, "%02x", raw[i]);
}

// The holder id lives in its own file, not in the store: a salvaged store must not make a second agent of us.
static int load_holder(struct agent *a, struct err *e)
{
    char path[512];
    struct buf b AUTO_BUF = BUF_INIT(64);
    snprintf(path, sizeof(path), "%s/holder", a->config->state_dir);
    if (fs_read(a->seams.disk, path, 64, 0, &b, NULL) == 0 && b.len >= 2 * HOLDER_BYTES) {
        snprintf(a->holder, sizeof(a->holder), "%.16s", buf_str(&b));
        return 0;
    }
    make_holder(a);
    int rc = fs_write(a->seams.disk, path, a->holder, strlen(a->holder), 0600, 0, e);
    return a->store_away ? 0 : rc; // not kept: another agent after the next start, as it has to be
}

static int open_store(struct agent *a, struct err *e)
{
    struct outbox_conf oc = { .max_events = a->config->outbox_max_events };
    int rc = a->seams.disk->ops->mkdirs(a->seams.disk, a->config->state_dir, 0700, 0, e);
    if (rc == 0)
        rc = agent_store_open(&a->db, a->seams.disk, a->seams.clock, a->config, &a->store_away, e);
    if (rc == 0)
        rc = cache_open(&a->cache, a->db, e);
    if (rc == 0)
        rc = outbox_open(&a->outbox, a->db, a->seams.clock, &oc, e);
    return rc < 0 ? err_wrap(e, "store %s/limpet.db", a->config->state_dir) : 0;
}

// Who we are outlives the identity: without one (lost, damaged) the cache still speaks of this node and its namespace.
static int keep_name(struct agent *a, const char *meta, const char *value, struct err *e)
{
    char known[OBJ_NAME_MAX] = "";
    int rc = db_meta_get(a->db, meta, known, sizeof(known), e);
    if (rc < 0 && rc != E_NOTFOUND)
        return rc;
    return strcmp(known, value) == 0 ? 0 : db_meta_set(a->db, meta, value, e);
}

// A node without a server has what its files say, in a namespace that no server knows of.
static int settle_names(struct agent *a, struct err *e)
{
    bool alone = a->ns[0] == '\0' && a->config->manifests_dir != NULL && a->config->manifests_dir[0] != '\0';
    if (alone && db_meta_get(a->db, "namespace", a->ns, sizeof(a->ns), NULL) == E_NOTFOUND) {
        snprintf(a->ns, sizeof(a->ns), "edge-local");
        return 0;
    }
    if (alone)
        a->ns[0] = '\0';
    if (a->ns[0] == '\0') {
        if (db_meta_get(a->db, "namespace", a->ns, sizeof(a->ns), NULL) < 0)
            a->ns[0] = '\0';
        else if (db_meta_get(a->db, "node", a->node, sizeof(a->node), e) < 0)
            return e->cls;
        return 0;
    }
    int rc = keep_name(a, "namespace", a->ns, e);
    return rc < 0 ? rc : keep_name(a, "node", a->node, e);
}

// In the store first: what is lost between the two is only the file's second reading.
static int take_note_of_join(struct agent *a, struct err *e)
{
    char path[512];
    struct disk *d = a->seams.disk;
    struct buf b AUTO_BUF = BUF_INIT(64);
    snprintf(path, sizeof(path), "%s/" AGENT_JOINED, a->config->state_dir);
    if (fs_read(d, path, 64, 0, &b, NULL) < 0)
        return 0;
    int rc = db_meta_set(a->db, SYNC_JOINED, "1", e);
    if (rc == 0)
        rc = db_commit(a->db, e);
    return rc == 0 ? d->ops->unlink(d, path, 0, e) : rc;
}

static int add_kinds(struct agent *a, struct err *e)
{
    static const struct kind *const built_in[] = { &kind_edgenode, &kind_edgeconfig, &kind_edgeapp, &kind_edgejob, &kind_edgepolicy };
    int rc = registry_new(&a->registry, e);
    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(built_in); i++)
        rc = registry_add(a->registry, built_in[i], e);
    return rc;
}

static void on_unreadable(void *ctx, const char *key)
{
    struct agent *a = ctx;
    if (a->sync != NULL)
        sync_unreadable(a->sync, key);
    if (a->manifests != NULL)
        manifests_again(a->manifests);
}

static int make_engine(struct agent *a, struct err *e)
{
    struct engine_conf ec = { .requeue_ms = a->config->engine_resync_ms,
                              .pass_deadline_ms = a->config->engine_pass_deadline_ms,
                              .max_objects = (size_t)MAX(a->config->engine_max_objects, (int64_t)0),
                              .unreadable = on_unreadable,
                              .ctx = a };
    a->env = (struct kind_env){ .loop = a->seams.loop,
                                .clock = a->seams.clock,
                                .disk = a->seams.disk,
                                .port = a->seams.port,
                                .db = a->db,
                                .cache = a->cache,
                                .outbox = a->outbox,
                                .config = a->config,
                                .policy = a->policy,
                                .refs = a->refs,
                                .facts = &a->facts,
                                .node = a->node,
                                .ns = a->ns };
    return engine_new(&a->engine, &a->env, a->registry, &ec, e);
}

static void on_manifests_read(void *ctx)
{
    agent_refresh_facts(ctx);
}

static int make_manifests(struct agent *a, struct err *e)
{
    struct manifests_conf mc = { .dir = a->config->manifests_dir,
                                 .registry = a->registry,
                                 .env = &a->env,
                                 .changed = on_changed,
                                 .gone = on_gone,
                                 .read = on_manifests_read,
                                 .ctx = a };
    if (a->config->manifests_dir == NULL || a->config->manifests_dir[0] == '\0' || a->ns[0] == '\0')
        return 0;
    int rc = manifests_new(&a->manifests, &mc, e);
    return rc < 0 ? err_wrap(e, "[manifests] dir") : 0;
}

static int make_network(struct agent *a, const struct agent_conf *c, struct err *e)
{
    struct loop *l = a->seams.loop;
    struct sync_conf sc = { .config = a->config,
                            .ns = a->ns,
                            .node = a->node,
                            .cluster = c->cluster,
                            .changed = on_changed,
                            .gone = on_gone,
                            .swept = on_swept,
                            .server_status = on_server_status,
                            .link = on_link,
                            .admit = on_admit,
                            .unauthorized = on_unauthorized,
                            .too_large = on_too_large,
                            .reduce = agent_refs_reduce,
                            .known = agent_refs_known,
                            .ctx = a };
    struct lease_conf lc = { .ns = a->ns,
                             .node = a->node,
                             .holder = a->holder,
                             .duration_ms = a->config->lease_duration_ms,
                             .renew_ms = a->config->lease_renew_ms,
                             .role = on_role,
                             .beat = on_beat,
                             .ctx = a };
    struct egress_conf gc = { .rate_per_s = a->config->outbox_rate,
                              .hold_max_ms = a->config->sync_backoff_cap_ms,
                              .node = a->node,
                              .ns = a->ns,
                              .unauthorized = on_unauthorized,
                              .identity_doubt = on_doubt,
                              .ctx = a };
    a->kube = (struct kube){ .transport = a->seams.transport, .clock = a->seams.clock };
    int rc = load_holder(a, e);
    if (rc == 0)
        rc = contact_new(&a->contact, &a->kube, a->ns, e);
    if (rc == 0)
        rc = egress_new(&a->egress, l, &a->kube, a->outbox, a->cache, a->registry, &gc, e);
    if (rc == 0)
        rc = sync_new(&a->sync, l, &a->kube, a->db, a->cache, a->registry, &sc, e);
    if (rc == 0 && a->config->lease_enabled)
        rc = lease_new(&a->lease, l, &a->kube, &lc, e);
    // A MetaServer answers from its cache: an answer of it proves no reach.
    a->env.contact = a->config->server_metaserver ? NULL : a->contact;
    return rc;
}

int agent_new(struct agent **out, const struct agent_seams *seams, const struct agent_conf *c, struct err *e)
{
    struct agent *a = calloc(1, sizeof(*a));
    if (a == NULL)
        return err_set(e, E_NOMEM, "agent");
    a->seams = *seams;
    a->config = c->config;
    a->unauthorized = c->unauthorized;
    a->link_changed = c->link_changed;
    a->credential = c->credential;
    a->restart = c->restart;
    a->ctx = c->ctx;
    snprintf(a->node, sizeof(a->node), "%s", c->node != NULL ? c->node : "");
    snprintf(a->ns, sizeof(a->ns), "%s", c->ns != NULL ? c->ns : "");
    timer_init(&a->housekeeping, on_housekeeping);
    timer_init(&a->store_retry, on_store_retry);
    agent_outage_init(a);
    int rc = open_store(a, e);
    if (rc == 0)
        rc = settle_names(a, e);
    if (rc == 0)
        rc = take_note_of_join(a, e);
    if (rc == 0)
        rc = add_kinds(a, e);
    if (rc == 0)
        rc = agent_policy_new(a, e);
    if (rc == 0)
        rc = agent_refs_new(a, e);
    if (rc == 0)
        rc = make_engine(a, e);
    if (rc == 0)
        rc = make_manifests(a, e);
    if (rc == 0 && seams->transport != NULL)
        rc = make_network(a, c, e);
    if (rc < 0) {
        agent_stop(a);
        return rc;
    }
    load_clock_floor(a);
    *out = a;
    return 0;
}

int agent_start(struct agent *a, struct err *e)
{
    struct loop *l = a->seams.loop;
    loop_hook_add(l, &a->commit_in, on_commit_in);
    loop_hook_add(l, &a->work, on_work);
    loop_hook_add(l, &a->commit_out, on_commit_out);
    loop_hook_add(l, &a->send, on_send);
    agent_refresh_facts(a);
    int rc = a->seams.port->ops->adopt(a->seams.port, e);
    if (rc == 0)
        rc = engine_boot(a->engine, e);
    if (rc == 0)
        engine_windows_changed(a->engine); // what was kept for windows that are no more
    if (rc == 0 && a->manifests != NULL)
        manifests_start(a->manifests);
    if (rc == 0 && a->sync != NULL)
        agent_outage_start(a);
    if (rc == 0 && a->sync != NULL)
        rc = sync_start(a->sync, e);
    if (rc == 0)
        rc = timer_in(l, &a->housekeeping, HOUSEKEEPING_MS) < 0 ? err_set(e, E_NOMEM, "timer") : 0;
    return rc;
}

static void tear_down(struct agent *a)
{
    timer_cancel(a->seams.loop, &a->housekeeping);
    timer_cancel(a->seams.loop, &a->store_retry);
    timer_cancel(a->seams.loop, &a->outage_timer);
    loop_hook_del(&a->commit_in);
    loop_hook_del(&a->work);
    loop_hook_del(&a->commit_out);
    loop_hook_del(&a->send);
    lease_free(a->lease);
    egress_free(a->egress);
    sync_free(a->sync);
    contact_free(a->contact);
    manifests_free(a->manifests);
    engine_free(a->engine);
    refs_free(a->refs);
    registry_free(a->registry);
    policy_free(a->policy);
    outbox_close(a->outbox);
    cache_close(a->cache);
}

void agent_stop(struct agent *a)
{
    if (a == NULL)
        return;
    tear_down(a);
    if (a->db != NULL)
        db_close(a->db);
    free(a);
}

void agent_abandon(struct agent *a)
{
    if (a == NULL)
        return;
    tear_down(a);
    if (a->db != NULL)
        db_abandon(a->db);
    free(a);
}
