// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgenode.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "config/config.h"
#include "data/key.h"
#include "kinds/edgenode_inventory.h"
#include "kinds/field.h"
#include "kinds/registry.h"
#include "version.h"

// Enough that a short outage is not reported when it is over; free space with a gap between on and off, so that it does not flap.
enum { BACKLOG_MANY = 1000, DISK_LOW_PERCENT = 5, DISK_ENOUGH_PERCENT = 8, RECHECK_MS = 60000 };

struct node_run {
    int64_t lost_told; // events lost when the outbox was last empty
};

// --- Facts from elsewhere

static struct node_fact *fact_of(struct node_facts *f, const char *type)
{
    struct node_fact *empty = NULL;
    for (size_t i = 0; f != NULL && i < NODE_FACTS_MAX; i++) {
        if (f->fact[i].type != NULL && strcmp(f->fact[i].type, type) == 0)
            return &f->fact[i];
        if (f->fact[i].type == NULL && empty == NULL)
            empty = &f->fact[i];
    }
    return empty;
}

void node_facts_set(const struct kind_env *env, const char *type, enum cond value, const char *reason, const char *fmt, ...)
{
    char key[KEY_MAX];
    struct err e = ERR_INIT;
    struct node_fact *f = fact_of(env->facts, type), new = { .type = type, .value = value };
    if (f == NULL)
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(new.message, sizeof(new.message), fmt, ap);
    va_end(ap);
    snprintf(new.reason, sizeof(new.reason), "%s", reason);
    bool same = f->type != NULL && f->value == value && strcmp(f->reason, new.reason) == 0 && strcmp(f->message, new.message) == 0;
    *f = new;
    if (same || env->engine == NULL || env->ns[0] == '\0')
        return;
    if (key_make(key, kind_edgenode.type.plural, env->ns, env->node, &e) == 0 && engine_state_of(env->engine, key) != NULL)
        engine_touch(env->engine, key, "fact");
}

// --- Inventory

static void set_known(struct json *obj, const char *name, const char *value)
{
    if (value[0] != '\0')
        json_set_str(obj, name, value);
}

static struct json *info_json(const struct kind_env *env, const struct inventory *inv)
{
    struct json *j = json_object();
    char boot_id[37];
    env->clock->ops->boot_id(env->clock, boot_id);
    set_known(j, "machineID", inv->machine_id);
    set_known(j, "bootID", boot_id);
    set_known(j, "kernelVersion", inv->kernel);
    set_known(j, "osImage", inv->os_image);
    set_known(j, "architecture", inv->arch);
    set_known(j, "hostname", inv->hostname);
    json_set_str(j, "agentVersion", LIMPET_VERSION);
    json_set_str(j, "port", env->port->ops->name);
    return j;
}

static struct json *capacity_json(const struct inventory *inv)
{
    char text[32];
    struct json *j = json_object();
    if (inv->cpus > 0) {
        snprintf(text, sizeof(text), "%d", inv->cpus);
        json_set_str(j, "cpu", text);
    }
    if (inv->memory_kib > 0) {
        snprintf(text, sizeof(text), "%" PRId64 "Ki", inv->memory_kib);
        json_set_str(j, "memory", text);
    }
    return j;
}

static void add_address(struct json *list, const char *type, const char *address)
{
    struct json *j = json_object();
    json_set_str(j, "type", type);
    json_set_str(j, "address", address);
    json_push(list, j);
}

static struct json *addresses_json(const struct inventory *inv)
{
    struct json *list = json_array();
    for (size_t i = 0; i < inv->n_addresses; i++)
        add_address(list, "InternalIP", inv->addresses[i]);
    if (inv->hostname[0] != '\0' && strlen(inv->hostname) <= 253)
        add_address(list, "Hostname", inv->hostname);
    return list;
}

// --- Conditions

static void clock_condition(struct pass *p)
{
    const struct clock *c = p->env->clock;
    if (clock_trusted(p->env->clock) && c->floor_lowered)
        status_cond(p->status, "ClockTrusted", COND_TRUE, "ServerAgreed",
                    "the time is the server's; a later one that this machine once believed was given up, as the server kept to its own");
    else if (clock_trusted(p->env->clock))
        status_cond(p->status, "ClockTrusted", COND_TRUE, "Trusted", "the clock is known to be right");
    else if (c->earlier > 0)
        status_cond(p->status, "ClockTrusted", COND_FALSE, "ServerIsEarlier",
                    "the server's time is before one that this machine believed; it is taken when the server keeps to it for %d minutes",
                    CLOCK_AGREE_MS / 60000);
    else
        status_cond(p->status, "ClockTrusted", COND_FALSE, "NotSynchronised",
                    "the clock was neither synchronised nor confirmed in this boot");
}

static void disk_condition(struct pass *p)
{
    struct err e = ERR_INIT;
    uint64_t avail, total;
    bool present;
    const char *dir = p->env->config->state_dir;
    if (p->env->disk->ops->free_bytes(p->env->disk, dir, &avail, &total, &e) < 0 || total == 0) {
        status_cond(p->status, "DiskPressure", COND_UNKNOWN, "Unreadable", "%s", e.msg);
        return;
    }
    bool was = status_cond_value(p->status, "DiskPressure", &present) == COND_TRUE && present;
    uint64_t percent = avail / (total / 100 + 1);
    if (percent < (was ? DISK_ENOUGH_PERCENT : DISK_LOW_PERCENT))
        status_cond(p->status, "DiskPressure", COND_TRUE, "LittleSpace", "less than %d %% of the file system of %s is free",
                    DISK_ENOUGH_PERCENT, dir);
    else
        status_cond(p->status, "DiskPressure", COND_FALSE, "EnoughSpace", "%s has room", dir);
}

static void backlog_condition(struct pass *p)
{
    struct node_run *run = p->state;
    struct outbox_stats s;
    struct err e = ERR_INIT;
    if (outbox_stats(p->env->outbox, &s, &e) < 0) {
        status_cond(p->status, "OutboxBacklog", COND_UNKNOWN, "Unreadable", "%s", e.msg);
        return;
    }
    if (s.status_pending + s.events_pending == 0)
        run->lost_told = s.events_lost;
    if (s.events_lost > run->lost_told)
        status_cond(p->status, "OutboxBacklog", COND_TRUE, "EventsLost", "the outbox was full, and the oldest events were dropped");
    else if (s.status_pending + s.events_pending >= BACKLOG_MANY)
        status_cond(p->status, "OutboxBacklog", COND_TRUE, "ManyPending", "%d observations or more wait to be reported", BACKLOG_MANY);
    else
        status_cond(p->status, "OutboxBacklog", COND_FALSE, "Short", "little waits to be reported");
}

static void store_condition(struct pass *p)
{
    const struct db_salvage *s = db_salvaged(p->env->db);
    if (s->happened)
        status_cond(p->status, "StoreSalvaged", COND_TRUE, "Salvaged",
                    "the store was damaged: %" PRId64 " rows kept, %" PRId64 " lost; the damaged file is %.200s", s->rows_kept,
                    s->rows_lost, s->aside);
    else
        status_cond(p->status, "StoreSalvaged", COND_FALSE, "Intact", "the store was sound when it was opened");
}

static void known_elsewhere(struct pass *p)
{
    bool was;
    const struct node_facts *f = p->env->facts;
    for (size_t i = 0; f != NULL && i < NODE_FACTS_MAX; i++)
        if (f->fact[i].type != NULL)
            status_cond(p->status, f->fact[i].type, f->fact[i].value, f->fact[i].reason, "%s", f->fact[i].message);
    // Said once a pass: a second word would look like a transition.
    if (!status_cond_is_set(p->status, "IdentityLost"))
        status_cond(p->status, "IdentityLost", COND_FALSE, "Known", "the server knows this node");
    if (!status_cond_is_set(p->status, "DuplicateNode"))
        status_cond(p->status, "DuplicateNode", COND_FALSE, "Alone", "no other agent uses this name");
    if (!status_cond_is_set(p->status, "StoreVolatile"))
        status_cond(p->status, "StoreVolatile", COND_FALSE, "Durable", "the store lies on disk");
    (void)status_cond_value(p->status, "CertificateIssued", &was);
    if (was && !status_cond_is_set(p->status, "CertificateIssued"))
        status_cond(p->status, "CertificateIssued", COND_FALSE, "NotWanted", "this node was joined without a certificate");
}

// --- The kind

static int node_check(const struct kind *k, const struct kind_env *env, const struct json *object, struct err *e)
{
    static const struct text_rule any = { 0, 256, NULL, NULL };
    const char *name = json_str(json_path(object, "metadata.name"));
    struct decode d = { .err = e };
    struct field spec = field_root(&d, json_get(object, "spec"), "spec");
    (void)k;
    if (name == NULL || strcmp(name, env->node) != 0)
        return err_set(e, E_INVAL, "metadata.name: is \"%.64s\", but this node is \"%s\"", name != NULL ? name : "", env->node);
    (void)field_text(&spec, "description", &any, NULL);
    return d.rc;
}

static int node_reconcile(struct pass *p, struct err *e)
{
    struct inventory inv;
    struct json *body = status_body(p->status);
    (void)e;
    inventory_read(&inv, p->env->disk);
    json_set(body, "nodeInfo", info_json(p->env, &inv));
    json_set(body, "capacity", capacity_json(&inv));
    json_set(body, "addresses", addresses_json(&inv));
    clock_condition(p);
    disk_condition(p);
    backlog_condition(p);
    store_condition(p);
    known_elsewhere(p);
    // Nobody tells when the kernel's clock has been synchronised.
    p->requeue_ms = clock_trusted(p->env->clock) ? 0 : RECHECK_MS;
    return 0;
}

static int node_gone(struct pass *p, struct err *e)
{
    (void)p;
    (void)e;
    return 0; // it made nothing on this machine
}

static const char *const node_short_names[] = { "enode", NULL };
static const char *const node_conditions[] = { "Accepted",
                                               "ClockTrusted",
                                               "DiskPressure",
                                               "OutboxBacklog",
                                               "IdentityLost",
                                               "StoreSalvaged",
                                               "StoreVolatile",
                                               "DuplicateNode",
                                               "ManifestsAccepted",
                                               "CertificateIssued",
                                               NULL };

const struct kind kind_edgenode = {
    .type = { "edge.limpet.dev", "v1alpha1", "edgenodes" },
    .name = "EdgeNode",
    .short_names = node_short_names,
    .conditions = node_conditions,
    .state_size = sizeof(struct node_run),
    .write_status = true,
    .check = node_check,
    .reconcile = node_reconcile,
    .gone = node_gone,
};
