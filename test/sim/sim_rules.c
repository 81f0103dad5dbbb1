// SPDX-License-Identifier: Apache-2.0
// What must be true at any moment: nothing starts on a superseded configuration, nothing stops and no file goes without a reason, how an
// instance ended is not forgotten, bounds.
//
// The reason is sought in the history of what users wanted (each spec that an object ever had, and each time it was not there), never in
// what the agent believes. What it acted on last is a place in that history; only what came after it can be a reason.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kinds/edgeapp_spec.h"
#include "sim_rules.h"

enum { SPEC_MEMORY = 1 << 20, STORE_FILES_MAX = 8, STORE_MEMORY_MAX = 2 << 20, LEFT_MAX = 200 };

// --- History

static struct wanted *wanted_new(struct world *w, const struct sim_object *o)
{
    struct wanted *v = calloc(1, sizeof(*v));
    if (v == NULL)
        abort();
    v->nth = ++w->rules.nth;
    v->at_ms = w->sim.now_ms;
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

static const char *colour_of(const char *const *env)
{
    for (; env != NULL && *env != NULL; env++)
        if (strncmp(*env, "COLOUR=", 7) == 0)
            return *env + 7;
    return "";
}

// Command and environment, as a spec says it...
static void wanted_program(const struct sim_object *o, char out[160])
{
    const char *colour = json_str(json_get(json_at(json_path(o->json, "spec.env"), 0), "value"));
    size_t n = 0;
    out[0] = '\0';
    json_each(word, json_path(o->json, "spec.command")) n += (size_t)snprintf(out + n, 160 - n, "%.40s ", json_str(word));
    snprintf(out + n, 160 - n, "(%.20s)", colour != NULL ? colour : "");
}

// ... and as it is started.
void rules_started_program(const struct inst_spec *s, char out[160])
{
    size_t n = 0;
    for (const char *const *word = s->exec.argv; *word != NULL && n < 100; word++)
        n += (size_t)snprintf(out + n, 160 - n, "%.40s ", *word);
    snprintf(out + n, 160 - n, "(%.20s)", colour_of(s->exec.env));
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
    wanted_program(o, v->program);
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

// A store that rots, or was lost, says nothing certain about what the agent acted on.
bool rules_can_judge(const struct world *w)
{
    return w->rules.on && !w->witness.store_rots;
}

// --- Instances

// What the agent has committed of an object; NULL = not to be had.
struct wanted *rules_wanted(struct world *w, const char *key)
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

uint64_t rules_committed(struct world *w, const char *key)
{
    const struct wanted *v = rules_wanted(w, key);
    return v != NULL && !v->suspended ? v->nth : 0;
}

static void note_start(struct world *w, const struct inst_spec *s, uint64_t nth)
{
    struct started *x = calloc(1, sizeof(*x));
    if (x == NULL)
        abort();
    *x = (struct started){ .index = s->index, .nth = nth, .at_ms = w->sim.now_ms };
    snprintf(x->uid, sizeof(x->uid), "%s", s->uid);
    snprintf(x->name, sizeof(x->name), "%.15s", name_in(s->owner));
    snprintf(x->revision, sizeof(x->revision), "%s", s->revision);
    list_add_tail(&w->rules.started, &x->link);
}

static void check_program(struct world *w, const struct wanted *v, const struct inst_spec *s)
{
    char program[160];
    rules_started_program(s, program);
    const struct wanted *back = rollout_way_back(w, v, s->revision), *of = back != NULL ? back : v;
    if (of != NULL && of->valid && strcmp(program, of->program) != 0)
        sim_violation(&w->sim, "%s #%d was started as %s; committed is %s", s->owner, s->index, program, of->program);
}

static void check_revision(struct world *w, struct wanted *v, const struct inst_spec *s)
{
    bool fits = v != NULL && v->valid && s->index < v->replicas;
    if (fits && rollout_way_back(w, v, s->revision) != NULL)
        v->given_up = true;
    else if (fits && rollout_was_given_up(w, v))
        sim_violation(&w->sim, "%s #%d is started with revision %s, which was given up", s->owner, s->index, s->revision);
    else if (!fits || strcmp(v->revision, s->revision) != 0)
        sim_violation(&w->sim, "%s #%d was started with revision %s; committed is %s of %d", s->owner, s->index, s->revision,
                      v != NULL ? v->revision : "nothing", v != NULL ? v->replicas : 0);
    if (v != NULL)
        v->seen = true;
}

static unsigned who_is(const char *owner)
{
    int i = owner[strlen(owner) - 1] - '0';
    return strncmp(owner, "edgejobs/", 9) == 0 ? WHO_JOB(i) : WHO_APP(i);
}

void rules_start(struct world *w, const struct inst_spec *s)
{
    if (!w->rules.on)
        return;
    struct wanted *row = rules_wanted(w, s->owner), *v = rules_can_judge(w) ? gate_start(w, s, row) : row;
    if (rules_can_judge(w))
        check_program(w, v, s);
    if (rules_can_judge(w) && policies_forbid_start(w, who_is(s->owner)))
        sim_violation(&w->sim, "%s #%d is started, and a policy stops it offline", s->owner, s->index);
    if (strncmp(s->owner, "edgejobs/", 9) == 0)
        rules_job_start(w, s, row != NULL && row->suspended);
    if (strncmp(s->owner, "edgeapps/", 9) != 0)
        return;
    if (rules_can_judge(w))
        check_revision(w, v, s);
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
    if (x == NULL)
        return;
    policies_refresh(w);
    if (policies_may_stop(w, who_is(x->name))) {
        sim_hit(&w->sim, F_POLICY_STOPS);
        w->policies.stops++;
        return;
    }
    w->rules.second_tries += rollout_is_second_try(w, x);
    if (!rules_can_judge(w))
        return;
    uint64_t high = gate_high(w, x->name);
    each_wanted(v, w, x->name)
    {
        if (v->nth < x->nth || (v->there && v->nth > high))
            continue;
        if (!v->there || (v->valid && (x->index >= v->replicas || strcmp(x->revision, v->revision) != 0)))
            return;
    }
    if (rollout_may_end(w, x))
        return;
    sim_violation(&w->sim, "%s #%d of revision %s is stopped, and nobody ever wanted that", x->name, x->index, x->revision);
}

// --- Offline

static int is_live(void *ctx UNUSED, const struct inst *i)
{
    return i->state != INST_EXITED;
}

// Of an app whose spec is not valid what ran before runs on.
void rules_offline(struct world *w)
{
    enum { PATIENCE_MS = 90 * 1000 };
    char key[64];
    for (int i = 0; rules_can_judge(w) && i < APPS + JOBS; i++) {
        if (!policies_must_stop(w, 1U << i, PATIENCE_MS))
            continue;
        snprintf(key, sizeof(key), i < APPS ? "edgeapps/" SIM_NS "/app-%d" : "edgejobs/" SIM_NS "/job-%d", i < APPS ? i : i - APPS);
        const struct wanted *v = rules_wanted(w, key);
        if (v != NULL && v->valid && w->port.fake->each(w->port.port, key, is_live, NULL, NULL) != 0)
            sim_violation(&w->sim, "%s runs, and a policy stops it offline", key);
    }
}

// --- How an instance ended

struct ended {
    const char *uid;
    char owner[200];
    int index;
    struct inst_exit exit;
    int64_t wall_us;
    bool found, newer; // newer: another one of that index ended later
};

static int look_for_ended(void *ctx, const struct inst *i)
{
    struct ended *x = ctx;
    if (i->state != INST_EXITED)
        return 0;
    if (strcmp(i->uid, x->uid) == 0) {
        *x = (struct ended){ .uid = x->uid, .index = i->index, .exit = i->exit, .wall_us = i->ended.wall_us, .found = true };
        snprintf(x->owner, sizeof(x->owner), "%.199s", i->owner);
    } else if (x->found && i->index == x->index && strcmp(i->owner, x->owner) == 0) {
        x->newer = true;
    }
    return 0;
}

static bool is_told(const struct ended *x, const struct json *status)
{
    char at[RFC3339_MAX];
    json_each(i, json_get(status, "instances"))
    {
        int64_t index = -1, code = -1;
        const struct json *last = json_get(i, "lastExit");
        const char *when = json_str(json_get(last, "at"));
        if (!json_i64(json_get(i, "index"), &index) || index != x->index)
            continue;
        (void)!json_i64(json_get(last, "code"), &code);
        return when != NULL && strcmp(when, rfc3339_sec(x->wall_us, at)) == 0 && (code < 0 || code == (x->exit.code & 0xff));
    }
    return false;
}

// By a version that counts while a newer one waits.
static bool one_too_many(struct world *w, const struct ended *x, const struct wanted *row)
{
    uint64_t low = gate_low(w, row->name);
    each_wanted(v, w, row->name)
    {
        if (v->there && v->nth >= low && v->nth <= row->nth && (!v->valid || x->index >= v->replicas))
            return true;
    }
    return false;
}

// The record is all there is of it, until a status that speaks of it is committed. Of several that ended while nothing could be committed
// the last one is enough; of an index that nobody wants any more, none is.
void rules_forgets(struct world *w, const char *uid)
{
    AS_AGENT; // what is read fills its page cache
    struct ended x = { .uid = uid };
    struct status_slot slot AUTO_SLOT = STATUS_SLOT_INIT;
    struct json *status AUTO_JSON = NULL;
    (void)!w->port.fake->each(w->port.port, NULL, look_for_ended, &x, NULL);
    if (!rules_can_judge(w) || !x.found || x.newer || strncmp(x.owner, "edgeapps/", 9) != 0)
        return;
    const struct wanted *v = rules_wanted(w, x.owner);
    w->disk.calm = true;
    int rc = outbox_status_get(w->agent->outbox, x.owner, &slot, NULL);
    w->disk.calm = false;
    const struct sim_object *o = sim_server_find(&w->server, "edgeapps", name_in(x.owner));
    if (rc < 0 || v == NULL || !v->valid || x.index >= v->replicas || strcmp(slot.uid, v->uid) != 0 || one_too_many(w, &x, v))
        return;
    if (o == NULL || strcmp(o->uid, v->uid) != 0) // deleted meanwhile: nobody looks at its status any more
        return;
    if (json_parse(&status, buf_str(&slot.json), slot.json.len, NULL) < 0 || !is_told(&x, status) ||
        !witness_may_have(w, x.owner, slot.seq))
        sim_violation(&w->sim, "the record of how %s #%d ended is dropped, and no status that is committed speaks of it", x.owner, x.index);
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

static void note_undo(struct world *w, int i, const char *path)
{
    const struct sim_file *f = sim_disk_at(&w->disk, path);
    struct undo *u = &w->rules.undo[i];
    *u = (struct undo){ .can = true, .nth = w->rules.written[i], .at_ms = w->sim.now_ms };
    snprintf(u->text, sizeof(u->text), "%s", f != NULL ? buf_str(&f->now) : "");
}

// Several files change as one: while the disk fails, or when the agent died among them, those that were written are put back.
static bool is_put_back(struct world *w, int i, const char *text, size_t n)
{
    struct undo *u = &w->rules.undo[i];
    bool failing = w->disk.error_permille > 0 || w->disk.full;
    if (!u->can || (!failing && !u->orphan) || strlen(u->text) != n || memcmp(u->text, text, n) != 0)
        return false;
    w->rules.written[i] = u->nth;
    u->can = false;
    return true;
}

// Also when all were written, and no commit since could say so.
static void orphan_undos(struct world *w)
{
    for (int i = 0; i < PATHS; i++) {
        struct undo *u = &w->rules.undo[i];
        u->orphan |= w->sim.now_ms - u->at_ms <= MINUTE || u->at_ms >= w->witness.committed_ms;
    }
}

// Text that some spec asked for comes in the order of the specs. Any other is what lay there before, and comes back on release alone. (An
// agent that lost its store takes what it wrote itself for what lay there before.)
void rules_written(struct world *w, const char *path, const char *text, size_t n)
{
    char name[16];
    int config, file;
    if (!rules_can_judge(w) || !split_path(path, &config, &file, name))
        return;
    int i = config * FILES_EACH + file;
    uint64_t *last = &w->rules.written[i], nth = 0;
    if (is_put_back(w, i, text, n))
        return;
    note_undo(w, i, path);
    each_wanted(v, w, name)
    {
        if (strlen(v->content[file]) == n && memcmp(v->content[file], text, n) == 0)
            nth = v->nth;
    }
    if (nth > gate_high(w, name))
        sim_violation(&w->sim, "%s is given a content that waits for a window", path);
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
    if (!rules_can_judge(w) || !split_path(path, &config, &file, name))
        return;
    if (!is_put_back(w, config * FILES_EACH + file, "", 0) && !was_released(w, name, file, w->rules.written[config * FILES_EACH + file]))
        sim_violation(&w->sim, "%s is removed, and nobody released it", path);
}

// --- What the agent holds

void rules_turn(struct world *w)
{
    if (w->rules.on && w->agent != NULL)
        rules_jobs_turn(w);
    if (w->rules.on && w->agent != NULL)
        rollout_turn(w);
    if (w->disk.open_files > STORE_FILES_MAX)
        sim_violation(&w->sim, "%d files of the store are open", w->disk.open_files);
    if (sim_vfs_memory() > STORE_MEMORY_MAX)
        sim_violation(&w->sim, "the store holds %" PRId64 " bytes of memory", sim_vfs_memory());
}

// A loop, which is its next life's.
void rules_agent_is_gone(struct world *w)
{
    orphan_undos(w);
    struct heap_count c = sim_heap_of(OF_AGENT), s = sim_heap_of(OF_STORE);
    if (sim_heap_counts() && (c.blocks != 1 || c.bytes > LEFT_MAX))
        sim_violation(&w->sim, "an agent that is gone left %" PRId64 " bytes of memory in %" PRId64 " blocks", c.bytes, c.blocks);
    if (s.bytes > LEFT_MAX)
        sim_violation(&w->sim, "SQLite holds %" PRId64 " bytes of memory in %" PRId64 " blocks, and no store is open", s.bytes, s.blocks);
    if (w->disk.open_files != 0)
        sim_violation(&w->sim, "an agent that is gone left %d files of the store open", w->disk.open_files);
}

void rules_init(struct world *w)
{
    list_init(&w->rules.wanted);
    list_init(&w->rules.started);
    list_init(&w->rules.runs);
    list_init(&w->rules.put_off);
}

void rules_fini(struct world *w)
{
    list_each_safe(it, next, &w->rules.wanted)
        free(wanted_of(it));
    list_each_safe(it, next, &w->rules.started)
        free(container_of(it, struct started, link));
    rules_jobs_fini(w);
    rules_pace_forget(w);
}
