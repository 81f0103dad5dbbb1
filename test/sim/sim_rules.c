// SPDX-License-Identifier: Apache-2.0
// What must be true at any moment: nothing starts on a superseded configuration, nothing stops and no file goes without a reason, bounds.
//
// The reason is sought in the history of what users wanted (each spec that an object ever had, and each time it was not there), never in
// what the agent believes. What it acted on last is a place in that history; only what came after it can be a reason.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kinds/edgeapp_spec.h"
#include "sim_world.h"

enum { SPEC_MEMORY = 1 << 20, OUTBOX_AT_ONCE_MAX = 8, STORE_FILES_MAX = 8, STORE_MEMORY_MAX = 2 << 20, LEFT_MAX = 200 };

struct wanted {
    struct list link;
    char name[16], uid[40];
    uint64_t nth;
    bool there, valid; // an invalid spec is no reason for anything
    int64_t generation;
    bool suspended; // a job
    // Of an app.
    int replicas;
    char revision[INST_REV_MAX];
    // Of a config: what each of its paths should hold, "" = nothing.
    char content[FILES_EACH][48];
};

struct started {
    struct list link;
    char uid[INST_UID_MAX], name[16], revision[INST_REV_MAX];
    int index;
    uint64_t nth; // of what was wanted when it was started
};

// --- History

static struct wanted *wanted_new(struct world *w, const struct sim_object *o)
{
    struct wanted *v = calloc(1, sizeof(*v));
    if (v == NULL)
        abort();
    v->nth = ++w->rules.nth;
    snprintf(v->name, sizeof(v->name), "%.15s", o->name);
    snprintf(v->uid, sizeof(v->uid), "%s", o->uid);
    list_add_tail(&w->rules.wanted, &v->link);
    return v;
}

static void note_app(struct wanted *v, const struct sim_object *o)
{
    struct app_spec spec;
    struct arena a;
    struct err e = ERR_INIT;
    arena_init(&a, SPEC_MEMORY);
    v->valid = app_spec_decode(&spec, json_get(o->json, "spec"), SIM_NODE, &a, &e) == 0;
    if (v->valid) {
        v->replicas = spec.replicas;
        snprintf(v->revision, sizeof(v->revision), "%s", spec.process.revision);
    }
    arena_reset(&a);
}

static void note_config(struct wanted *v, const struct sim_object *o, int index)
{
    char path[64];
    v->valid = true;
    json_each(f, json_path(o->json, "spec.files"))
    {
        for (int i = 0; i < FILES_EACH; i++)
            if (strcmp(json_str(json_get(f, "path")), managed_path_of(index * FILES_EACH + i, path)) == 0)
                snprintf(v->content[i], sizeof(v->content[i]), "%s", json_str(json_get(f, "content")));
    }
}

void history_edited(struct world *w, const struct sim_object *o)
{
    struct wanted *v = wanted_new(w, o);
    int config = sim_port_index_of_config(o->name);
    v->there = true;
    v->generation = o->generation;
    v->suspended = json_bool(json_path(o->json, "spec.suspend"), false);
    if (strncmp(o->name, "job-", 4) == 0)
        v->valid = true;
    else if (config >= 0)
        note_config(v, o, config);
    else
        note_app(v, o);
}

void history_deleted(struct world *w, const struct sim_object *o)
{
    wanted_new(w, o);
}

static struct wanted *wanted_of(struct list *l)
{
    return container_of(l, struct wanted, link);
}

#define each_wanted(v, w, of)                                                                                               \
    for (struct wanted *v = wanted_of((w)->rules.wanted.next); &v->link != &(w)->rules.wanted; v = wanted_of(v->link.next)) \
        if (strcmp(v->name, of) == 0)

// A store that rots, or was lost, says nothing certain about what the agent acted on.
static bool can_judge(const struct world *w)
{
    return w->rules.on && !w->witness.store_rots;
}

// --- Instances

static const char *name_in(const char *key)
{
    return strrchr(key, '/') + 1;
}

// What the agent has committed of an object; NULL = not to be had.
static struct wanted *committed(struct world *w, const char *key)
{
    AS_AGENT;
    struct cached row AUTO_CACHED = CACHED_INIT;
    w->disk.calm = true;
    int rc = cache_get(w->agent->cache, key, &row, NULL);
    w->disk.calm = false;
    each_wanted(v, w, name_in(key))
    {
        if (rc == 0 && v->there && v->generation == row.generation && strcmp(v->uid, row.uid) == 0)
            return v;
    }
    return NULL;
}

static void note_start(struct world *w, const struct inst_spec *s, uint64_t nth)
{
    struct started *x = calloc(1, sizeof(*x));
    if (x == NULL)
        abort();
    *x = (struct started){ .index = s->index, .nth = nth };
    snprintf(x->uid, sizeof(x->uid), "%s", s->uid);
    snprintf(x->name, sizeof(x->name), "%.15s", name_in(s->owner));
    snprintf(x->revision, sizeof(x->revision), "%s", s->revision);
    list_add_tail(&w->rules.started, &x->link);
}

void rules_start(struct world *w, const struct inst_spec *s)
{
    if (!w->rules.on)
        return;
    const struct wanted *v = committed(w, s->owner);
    if (strncmp(s->owner, "edgejobs/", 9) == 0)
        rules_job_start(w, s, v != NULL && v->suspended);
    if (strncmp(s->owner, "edgeapps/", 9) != 0 || !can_judge(w))
        return;
    if (v == NULL || !v->valid || strcmp(v->revision, s->revision) != 0 || s->index >= v->replicas)
        sim_violation(&w->sim, "%s #%d was started with revision %s; committed is %s of %d", s->owner, s->index, s->revision,
                      v != NULL ? v->revision : "nothing", v != NULL ? v->replicas : 0);
    note_start(w, s, v != NULL ? v->nth : 0);
}

static struct started *started_as(struct world *w, const char *uid)
{
    list_each(it, &w->rules.started)
        if (strcmp(container_of(it, struct started, link)->uid, uid) == 0)
            return container_of(it, struct started, link);
    return NULL;
}

void rules_stop(struct world *w, const char *uid)
{
    const struct started *x = started_as(w, uid);
    if (!can_judge(w) || x == NULL)
        return;
    each_wanted(v, w, x->name)
    {
        if (v->nth < x->nth)
            continue;
        if (!v->there || (v->valid && (x->index >= v->replicas || strcmp(x->revision, v->revision) != 0)))
            return;
    }
    sim_violation(&w->sim, "%s #%d of revision %s is stopped, and nobody ever wanted that", x->name, x->index, x->revision);
}

// --- Files

static bool split_path(const char *path, int *config, int *file, char name[16])
{
    char own[64];
    for (int i = 0; i < PATHS; i++) {
        if (strcmp(managed_path_of(i, own), path) != 0)
            continue;
        *config = i / FILES_EACH;
        *file = i % FILES_EACH;
        snprintf(name, 16, "cfg-%d", *config);
        return true;
    }
    return false;
}

static bool was_released(struct world *w, const char *name, int file, uint64_t since)
{
    each_wanted(v, w, name)
    {
        if (v->nth >= since && (!v->there || v->content[file][0] == '\0'))
            return true;
    }
    return false;
}

// Text that some spec asked for comes in the order of the specs. Any other is what lay there before, and comes back on release alone. (An
// agent that lost its store takes what it wrote itself for what lay there before.)
void rules_written(struct world *w, const char *path, const char *text, size_t n)
{
    char name[16];
    int config, file;
    if (!can_judge(w) || !split_path(path, &config, &file, name))
        return;
    uint64_t *last = &w->rules.written[config * FILES_EACH + file], nth = 0;
    each_wanted(v, w, name)
    {
        if (strlen(v->content[file]) == n && memcmp(v->content[file], text, n) == 0)
            nth = v->nth;
    }
    if ((nth == 0 || nth < *last) && !was_released(w, name, file, *last))
        sim_violation(
            &w->sim,
            nth == 0 ? "%s is put back as it was before, and nobody released it" : "%s is given an older content after a newer one", path);
    *last = MAX(*last, nth);
}

void rules_removed(struct world *w, const char *path)
{
    char name[16];
    int config, file;
    if (!can_judge(w) || !split_path(path, &config, &file, name))
        return;
    if (!was_released(w, name, file, w->rules.written[config * FILES_EACH + file]))
        sim_violation(&w->sim, "%s is removed, and nobody released it", path);
}

// --- Requests

static bool is_report(const struct http_req *r)
{
    return (strcmp(r->method, "PATCH") == 0 && strstr(r->url, "/status") != NULL) ||
           (strcmp(r->method, "POST") == 0 && strstr(r->url, "/events") != NULL);
}

void rules_request(struct world *w, const struct http_req *r)
{
    struct rules *u = &w->rules;
    if (!is_report(r))
        return;
    // The oldest of so many must lie a second back.
    int64_t *slot = &u->reports_ms[u->n_reports++ % RULES_REPORTS];
    if (u->n_reports > RULES_REPORTS && w->sim.now_ms - *slot < 1000)
        sim_violation(&w->sim, "more than %d reports in a second", RULES_REPORTS);
    *slot = w->sim.now_ms;
    if (sim_net_under_way(&w->net, is_report) >= OUTBOX_AT_ONCE_MAX)
        sim_violation(&w->sim, "more than %d reports under way", OUTBOX_AT_ONCE_MAX);
}

// --- What the agent holds

void rules_turn(struct world *w)
{
    if (w->disk.open_files > STORE_FILES_MAX)
        sim_violation(&w->sim, "%d files of the store are open", w->disk.open_files);
    if (sim_vfs_memory() > STORE_MEMORY_MAX)
        sim_violation(&w->sim, "the store holds %" PRId64 " bytes of memory", sim_vfs_memory());
}

// A loop, which is its next life's.
void rules_agent_is_gone(struct world *w)
{
    struct heap_count c = sim_heap_of(OF_AGENT), s = sim_heap_of(OF_STORE);
    if (sim_heap_counts() && (c.blocks != 1 || c.bytes > LEFT_MAX))
        sim_violation(&w->sim, "an agent that is gone left %" PRId64 " bytes of memory in %" PRId64 " blocks", c.bytes, c.blocks);
    if (s.bytes > LEFT_MAX)
        sim_violation(&w->sim, "SQLite holds %" PRId64 " bytes of memory in %" PRId64 " blocks, and no store is open", s.bytes, s.blocks);
}

void rules_init(struct world *w)
{
    list_init(&w->rules.wanted);
    list_init(&w->rules.started);
    list_init(&w->rules.runs);
}

void rules_fini(struct world *w)
{
    list_each_safe(it, next, &w->rules.wanted)
        free(wanted_of(it));
    list_each_safe(it, next, &w->rules.started)
        free(container_of(it, struct started, link));
    rules_jobs_fini(w);
}
