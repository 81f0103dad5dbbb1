// SPDX-License-Identifier: Apache-2.0
// kind_rig — one kind on the real engine, store, outbox and disk (a temporary directory as root), with a fake port and a clock that only
// moves when nothing is left to do.
//
//     rig_start(&r);
//     rig_apply(&r, "edgeapps", "web", "{\"command\":[\"x\"]}");
//     rig_run(&r, 1000);                                  // a second of the fake clock
//     is_str(rig_condition(&r, "edgeapps", "web", "Ready"), "True AllReady", "...");
//     rig_crash(&r);                                      // the agent dies as by kill -9 and starts again
//     rig_end(&r);
//
// Not the simulator: no server, no transport; what sync would do is done by rig_apply() and rig_delete().
#ifndef TEST_KIND_RIG_H
#define TEST_KIND_RIG_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "config/config.h"
#include "data/key.h"
#include "fake_clock.h"
#include "flow/contact.h"
#include "flow/policy.h"
#include "flow/reconcile.h"
#include "flow/refs.h"
#include "kinds/edgenode.h"
#include "tap.h"

#define RIG_NS "edge-a"

enum { RIG_FDS = 8, RIG_TEXTS = 16, RIG_TEXT_MAX = 2048 };

struct rig {
    struct loop_backend backend;
    struct loop_fd *fds[RIG_FDS];
    struct fake_clock fc;
    struct loop *loop;
    struct disk *disk;
    struct port *port;
    struct db *db;
    struct cache *cache;
    struct outbox *outbox;
    struct registry *registry;
    struct engine *engine;
    struct policy *policy;
    struct refs *refs;
    bool followed[REF_KINDS]; // somebody refers to one: sync would follow it
    struct config config;
    struct node_facts facts;
    struct contact contact; // the server: online, and whether it answers
    bool answers;
    struct kind_env env;
    struct loop_hook commit_in, work, commit_out;
    struct timer store_retry;
    char root[64];
    bool commits_fail; // as with a full disk: what a turn wrote is gone
    int64_t generation;
    int64_t max_events;                 // of the outbox, from the next agent on; 0 = its default
    char text[RIG_TEXTS][RIG_TEXT_MAX]; // what the rig_...() below return; each lasts for the next RIG_TEXTS calls
    size_t next_text;
};

static void rig_must(int rc, const struct err *e, const char *what)
{
    if (rc == 0)
        return;
    printf("Bail out! %s: %s\n", what, e->msg);
    exit(1);
}

// --- The wait: real descriptors at once, else the clock moves on

static int rig_fd_set(struct loop_backend *b, struct loop_fd *f, struct err *e)
{
    struct rig *r = container_of(b, struct rig, backend);
    for (size_t i = 0; i < RIG_FDS; i++)
        if (r->fds[i] == NULL || r->fds[i] == f) {
            r->fds[i] = f;
            return 0;
        }
    return err_set(e, E_NOMEM, "more descriptors than the rig has room for");
}

static void rig_fd_del(struct loop_backend *b, struct loop_fd *f)
{
    struct rig *r = container_of(b, struct rig, backend);
    for (size_t i = 0; i < RIG_FDS; i++)
        if (r->fds[i] == f)
            r->fds[i] = NULL;
}

static int rig_wait(struct loop_backend *b, struct loop *l, int64_t timeout_ms, struct err *e)
{
    struct rig *r = container_of(b, struct rig, backend);
    bool any = false;
    (void)e;
    for (size_t i = 0; i < RIG_FDS; i++) {
        struct pollfd p = { r->fds[i] != NULL ? r->fds[i]->fd : -1, POLLIN, 0 };
        if (poll(&p, 1, 0) != 1)
            continue;
        any = true;
        loop_dispatch_fd(l, r->fds[i], LOOP_IN);
    }
    if (!any)
        fake_clock_advance(&r->fc, MAX(timeout_ms, 0));
    return 0;
}

static void rig_free_backend(struct loop_backend *b)
{
    (void)b;
}

// --- The server, as far as it can be asked

static void rig_ask(struct contact *c)
{
    struct rig *r = container_of(c, struct rig, contact);
    if (r->answers)
        c->proved_ms = r->fc.boot_ms;
}

static UNUSED void rig_server(struct rig *r, bool there)
{
    contact_link(&r->contact, &r->fc.clock, there);
    r->answers = there;
}

// --- The agent

enum { RIG_STORE_RETRY_MS = 5000 };

static void rig_store_retry(struct timer *t)
{
    struct rig *r = container_of(t, struct rig, store_retry);
    struct err e = ERR_INIT;
    rig_must(engine_store_retry(r->engine, &e), &e, "the store's retry");
}

// As the agent does it: what a failed commit took is looked at again, all of it, later.
static bool rig_commit(struct rig *r)
{
    struct err e = ERR_INIT;
    if (!db_dirty(r->db))
        return false;
    if (!r->commits_fail && db_commit(r->db, &e) == 0)
        return false;
    if (r->commits_fail)
        db_rollback(r->db);
    else
        diag("commit: %s", e.msg);
    engine_store_failed(r->engine);
    rig_must(timer_in(r->loop, &r->store_retry, RIG_STORE_RETRY_MS), &e, "timer");
    return false;
}

static bool rig_commit_in(struct loop_hook *h)
{
    return rig_commit(container_of(h, struct rig, commit_in));
}

static bool rig_work(struct loop_hook *h)
{
    struct rig *r = container_of(h, struct rig, work);
    struct engine_stats s;
    bool more = engine_run(r->engine);
    engine_stats(r->engine, &s);
    refs_run(r->refs, s.settled);
    return more;
}

static bool rig_commit_out(struct loop_hook *h)
{
    return rig_commit(container_of(h, struct rig, commit_out));
}

static int rig_touch(void *ctx, struct object_state *os)
{
    engine_touch_state(ctx, os, "policy");
    return 0;
}

static void rig_policy_changed(void *ctx, unsigned what)
{
    struct rig *r = ctx;
    if ((what & POLICY_CHANGED_WINDOWS) != 0)
        engine_windows_changed(r->engine);
    if ((what & POLICY_CHANGED_OFFLINE) != 0)
        engine_each(r->engine, rig_touch, r->engine);
}

static void rig_follow(void *ctx, const struct kind *k, bool on)
{
    struct rig *r = ctx;
    r->followed[k == &kind_secret ? REF_SECRET : REF_CONFIGMAP] = on;
}

static void rig_refresh(void *ctx, const struct kind *k)
{
    (void)ctx;
    (void)k;
}

static void rig_touch_referrer(void *ctx, const char *key)
{
    struct rig *r = ctx;
    engine_touch(r->engine, key, "reference");
}

static void rig_open(struct rig *r)
{
    struct err e = ERR_INIT;
    struct db_conf dc = { .path = "/var/lib/limpet/limpet.db" };
    struct engine_conf ec = { 0 };
    rig_must(disk_real_new(&r->disk, r->loop, r->root, &e), &e, "disk");
    rig_must(db_open(&r->db, r->disk, &r->fc.clock, &dc, &e), &e, "store");
    rig_must(cache_open(&r->cache, r->db, &e), &e, "cache");
    rig_must(outbox_open(&r->outbox, r->db, &r->fc.clock, &(struct outbox_conf){ .max_events = r->max_events }, &e), &e, "outbox");
    rig_must(registry_new(&r->registry, &e), &e, "registry");
    rig_must(registry_add(r->registry, &kind_edgeapp, &e), &e, "EdgeApp");
    rig_must(registry_add(r->registry, &kind_edgeconfig, &e), &e, "EdgeConfig");
    rig_must(registry_add(r->registry, &kind_edgejob, &e), &e, "EdgeJob");
    rig_must(registry_add(r->registry, &kind_edgenode, &e), &e, "EdgeNode");
    rig_must(registry_add(r->registry, &kind_edgepolicy, &e), &e, "EdgePolicy");
    struct policy_conf pc = {
        .loop = r->loop, .clock = &r->fc.clock, .db = r->db, .config = &r->config, .changed = rig_policy_changed, .ctx = r
    };
    rig_must(policy_new(&r->policy, &pc, &e), &e, "policy");
    struct refs_conf rc = { .ns = RIG_NS, .follow = rig_follow, .refresh = rig_refresh, .touch = rig_touch_referrer, .ctx = r };
    rig_must(refs_new(&r->refs, r->cache, &rc, &e), &e, "references");
    r->env = (struct kind_env){ .loop = r->loop,
                                .clock = &r->fc.clock,
                                .disk = r->disk,
                                .port = r->port,
                                .db = r->db,
                                .cache = r->cache,
                                .outbox = r->outbox,
                                .config = &r->policy->effective,
                                .policy = r->policy,
                                .refs = r->refs,
                                .contact = &r->contact,
                                .facts = &r->facts,
                                .node = "edge-1",
                                .ns = RIG_NS };
    r->contact = (struct contact){ .ask = rig_ask }; // a new agent heard nothing yet
    rig_must(engine_new(&r->engine, &r->env, r->registry, &ec, &e), &e, "engine");
    timer_init(&r->store_retry, rig_store_retry);
    loop_hook_add(r->loop, &r->commit_in, rig_commit_in);
    loop_hook_add(r->loop, &r->work, rig_work);
    loop_hook_add(r->loop, &r->commit_out, rig_commit_out);
    rig_must(r->port->ops->adopt(r->port, &e), &e, "adopt");
    rig_must(engine_boot(r->engine, &e), &e, "boot");
    engine_windows_changed(r->engine);
}

static void rig_close(struct rig *r, bool crash)
{
    timer_cancel(r->loop, &r->store_retry);
    loop_hook_del(&r->commit_in);
    loop_hook_del(&r->work);
    loop_hook_del(&r->commit_out);
    engine_free(r->engine);
    refs_free(r->refs);
    policy_free(r->policy);
    registry_free(r->registry);
    if (crash)
        db_abandon(r->db);
    outbox_close(r->outbox);
    cache_close(r->cache);
    if (!crash)
        db_close(r->db);
    disk_free(r->disk);
}

static char *rig_text(struct rig *r)
{
    char *t = r->text[r->next_text++ % RIG_TEXTS];
    t[0] = '\0';
    return t;
}

// A path of the machine as this process sees it.
static const char *rig_path(struct rig *r, const char *path)
{
    char *t = rig_text(r);
    snprintf(t, RIG_TEXT_MAX, "%s%s", r->root, path);
    return t;
}

static void rig_start(struct rig *r)
{
    static char *trees[] = { (char *)"/etc", (char *)"/srv", NULL };
    struct err e = ERR_INIT;
    const char *tmp = getenv("TMPDIR");
    *r = (struct rig){ .backend = { rig_fd_set, rig_fd_del, rig_wait, rig_free_backend } };
    r->config = (struct config){ .state_dir = (char *)"/var/lib/limpet",
                                 .run_dir = (char *)"/run/limpet",
                                 .log_dir = (char *)"/var/log/limpet",
                                 .config_file = (char *)"/etc/limpet/limpet.ini" };
    memcpy(r->config.guard_paths, trees, sizeof(trees));
    snprintf(r->root, sizeof(r->root), "%.40s/kind.XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(r->root) == NULL)
        rig_must(err_sys(&e, errno, "%s", r->root), &e, "root");
    (void)mkdir(rig_path(r, "/etc"), 0755);
    (void)mkdir(rig_path(r, "/srv"), 0755);
    fake_clock_init(&r->fc, 7);
    log_setup(LOG_ERROR, LOG_TEXT, &r->fc.clock);
    rig_must(loop_new(&r->loop, &r->fc.clock, &r->backend, &e), &e, "loop");
    rig_must(port_fake_new(&r->port, r->loop, &e), &e, "port");
    rig_open(r);
}

static void rig_end(struct rig *r)
{
    char command[128];
    rig_close(r, false);
    r->port->ops->free(r->port);
    loop_free(r->loop);
    snprintf(command, sizeof(command), "rm -rf '%s'", r->root);
    if (system(command) != 0)
        diag("%s is left", r->root);
}

// The agent dies and another starts; what ran on the machine goes on. Nothing that was not committed survives.
static UNUSED void rig_crash(struct rig *r)
{
    struct err e = ERR_INIT;
    struct port *next;
    rig_close(r, true);
    rig_must(port_fake_agent_died(r->port, &next, r->loop, &e), &e, "next port");
    r->port = next;
    rig_open(r);
}

// Power cut: the instances are gone, too.
static UNUSED void rig_power_cut(struct rig *r)
{
    rig_close(r, true);
    port_fake_reboot(r->port);
    r->fc.boot_ms = 5000;
    r->fc.boot_id[0]++;
    rig_open(r);
}

// What is due now, and what comes of it at once.
static void rig_settle(struct rig *r)
{
    struct err e = ERR_INIT;
    for (int turns = 0; turns < 12; turns++)
        rig_must(loop_turn(r->loop, 0, &e), &e, "turn");
}

// Lets ms of the fake clock go by.
static UNUSED uint64_t rig_commits(struct rig *r)
{
    struct db_stats s = { 0 };
    db_stats(r->db, &s);
    return s.commits;
}

static void rig_run(struct rig *r, int64_t ms)
{
    struct err e = ERR_INIT;
    int64_t end = r->fc.mono_ms + ms;
    rig_settle(r);
    for (long turns = 0; r->fc.mono_ms < end; turns++) {
        if (turns == 2000000) {
            fail("the loop does not come to rest");
            return;
        }
        rig_must(loop_turn(r->loop, end - r->fc.mono_ms, &e), &e, "turn");
    }
    rig_settle(r);
}

// --- What sync does

// A Secret or ConfigMap as the server has it: its data, members and all.
static UNUSED void rig_refer(struct rig *r, enum ref_kind kind, const char *name, const char *members)
{
    struct err e = ERR_INIT;
    struct object_view v;
    struct buf part AUTO_BUF = BUF_INIT(1 << 20);
    char key[KEY_MAX], json[4096];
    static int64_t rv = 1000;
    rig_must(key_make(key, ref_kind_of(kind)->type.plural, RIG_NS, name, &e), &e, "key");
    snprintf(json, sizeof(json),
             "{\"metadata\":{\"name\":\"%s\",\"namespace\":\"" RIG_NS "\",\"uid\":\"u-%s\",\"resourceVersion\":\"%lld\"},%s}", name, name,
             (long long)++rv, members);
    rig_must(refs_reduce(r->refs, key, json, strlen(json), &part, &e), &e, "reduce");
    if (part.len > 0) {
        rig_must(object_scan(&v, part.data, part.len, &e), &e, "scan");
        rig_must(MIN(cache_put(r->cache, "v1", key, &v, part.data, part.len, &e), 0), &e, "put");
    }
    refs_changed(r->refs, key);
}

// It is deleted: its row stays, without a source.
static UNUSED void rig_unrefer(struct rig *r, enum ref_kind kind, const char *name)
{
    struct err e = ERR_INIT;
    char key[KEY_MAX];
    rig_must(key_make(key, ref_kind_of(kind)->type.plural, RIG_NS, name, &e), &e, "key");
    rig_must(cache_disown(r->cache, key, &e), &e, "disown");
    refs_changed(r->refs, key);
}

static const char *rig_key_in(struct rig *r, const char *ns, const char *plural, const char *name)
{
    char *t = rig_text(r);
    snprintf(t, RIG_TEXT_MAX, "%s/%s/%s", plural, ns, name);
    return t;
}

static const char *rig_key(struct rig *r, const char *plural, const char *name)
{
    return rig_key_in(r, RIG_NS, plural, name);
}

static void rig_apply_in(struct rig *r, const char *ns, const char *plural, const char *name, const char *spec)
{
    struct err e = ERR_INIT;
    struct object_view v;
    struct buf json = BUF_INIT(OBJ_MAX);
    r->generation++;
    rig_must(buf_addf(&json, &e,
                      "{\"apiVersion\":\"edge.limpet.dev/v1alpha1\",\"kind\":\"K\",\"metadata\":{\"name\":\"%s\",\"namespace\":\"%s\","
                      "\"uid\":\"uid-%s-%s\",\"resourceVersion\":\"%lld\",\"generation\":%lld},\"spec\":%s}",
                      name, ns, plural, name, (long long)r->generation, (long long)r->generation, spec),
             &e, "object");
    rig_must(object_scan(&v, json.data, json.len, &e), &e, "scan");
    const char *key = rig_key_in(r, ns, plural, name);
    if (cache_put(r->cache, "test", key, &v, json.data, json.len, &e) < 0)
        rig_must(e.cls, &e, "cache");
    engine_object_changed(r->engine, key);
    buf_fini(&json);
}

static void rig_apply(struct rig *r, const char *plural, const char *name, const char *spec)
{
    rig_apply_in(r, RIG_NS, plural, name, spec);
}

static UNUSED void rig_delete(struct rig *r, const char *plural, const char *name)
{
    struct err e = ERR_INIT;
    char uid[OBJ_UID_MAX];
    const char *key = rig_key(r, plural, name);
    snprintf(uid, sizeof(uid), "uid-%.20s-%.20s", plural, name);
    rig_must(cache_delete(r->cache, key, &e), &e, "delete");
    rig_must(engine_tombstone(r->db, key, uid, &e), &e, "tombstone");
    engine_object_gone(r->engine, key);
}

// --- What is reported

// The status of an object; free with json_free(). NULL = none.
static struct json *rig_status(struct rig *r, const char *plural, const char *name)
{
    struct err e = ERR_INIT;
    struct status_slot slot AUTO_SLOT = STATUS_SLOT_INIT;
    struct json *j = NULL;
    if (outbox_status_get(r->outbox, rig_key(r, plural, name), &slot, &e) < 0)
        return NULL;
    rig_must(json_parse(&j, buf_str(&slot.json), slot.json.len, &e), &e, "status");
    return j;
}

// "True AllReady"; "" = no such condition.
static UNUSED const char *rig_condition(struct rig *r, const char *plural, const char *name, const char *type)
{
    AUTO_JSON struct json *j = rig_status(r, plural, name);
    char *t = rig_text(r);
    json_each(c, json_get(j, "conditions"))
    {
        if (strcmp(json_str(json_get(c, "type")), type) == 0)
            snprintf(t, RIG_TEXT_MAX, "%s %s", json_str(json_get(c, "status")), json_str(json_get(c, "reason")));
    }
    return t;
}

static UNUSED const char *rig_message(struct rig *r, const char *plural, const char *name, const char *type)
{
    AUTO_JSON struct json *j = rig_status(r, plural, name);
    char *t = rig_text(r);
    json_each(c, json_get(j, "conditions"))
    {
        if (strcmp(json_str(json_get(c, "type")), type) == 0)
            snprintf(t, RIG_TEXT_MAX, "%s", json_str(json_get(c, "message")));
    }
    return t;
}

// A member of the status as JSON text; "" = absent. "instances.0.lastExit" works, too.
static UNUSED const char *rig_field(struct rig *r, const char *plural, const char *name, const char *path)
{
    AUTO_JSON struct json *j = rig_status(r, plural, name);
    struct buf out AUTO_BUF = BUF_INIT(RIG_TEXT_MAX - 1);
    struct err e = ERR_INIT;
    char part[64], *t = rig_text(r);
    const struct json *at = j;
    for (const char *p = path; *p != '\0'; p += strcspn(p, "."), p += *p == '.') {
        snprintf(part, sizeof(part), "%.*s", (int)strcspn(p, "."), p);
        at = json_type(at) == JSON_ARRAY ? json_at(at, (size_t)atoi(part)) : json_get(at, part);
    }
    if (at != NULL && json_print(at, &out, &e) == 0)
        snprintf(t, RIG_TEXT_MAX, "%s", buf_str(&out));
    return t;
}

struct rig_events {
    const char *reason;
    int64_t n;
    char last[1025];
};

static int rig_count_event(void *ctx, const struct event_row *ev)
{
    struct rig_events *c = ctx;
    if (strcmp(ev->reason, c->reason) != 0)
        return 0;
    c->n += ev->count;
    snprintf(c->last, sizeof(c->last), "%s", ev->note);
    return 0;
}

// How many events of this reason there are, repeats included.
static UNUSED int64_t rig_events(struct rig *r, const char *reason)
{
    struct rig_events c = { .reason = reason };
    struct err e = ERR_INIT;
    rig_must(outbox_events(r->outbox, 0, 10000, false, rig_count_event, &c, &e), &e, "events");
    return c.n;
}

static UNUSED uint64_t rig_passes(struct rig *r)
{
    struct engine_stats s;
    engine_stats(r->engine, &s);
    return s.passes;
}

static UNUSED uint64_t rig_status_writes(struct rig *r)
{
    struct engine_stats s;
    engine_stats(r->engine, &s);
    return s.status_writes;
}

// --- The machine's files

static UNUSED void rig_write(struct rig *r, const char *path, const char *text, unsigned mode)
{
    const char *real = rig_path(r, path);
    int fd = open(real, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) < 0 || fchmod(fd, mode) < 0)
        fail("writing %s: %s", real, strerror(errno));
    close(fd);
}

// The text of a file; "(absent)" when it is not there.
static UNUSED const char *rig_read(struct rig *r, const char *path)
{
    char *t = rig_text(r);
    int fd = open(rig_path(r, path), O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return "(absent)";
    ssize_t n = read(fd, t, RIG_TEXT_MAX - 1);
    t[MAX(n, 0)] = '\0';
    close(fd);
    return t;
}

static UNUSED unsigned rig_mode(struct rig *r, const char *path)
{
    struct stat st;
    return lstat(rig_path(r, path), &st) == 0 ? st.st_mode & 07777 : 0;
}

#endif
