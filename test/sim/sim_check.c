// SPDX-License-Identifier: Apache-2.0
// What must be true at peace: the machine is as the specs say, and the server's status says so.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "data/db.h"
#include "data/key.h"
#include "kinds/edgeapp_spec.h"
#include "sim_world.h"

enum { SPEC_MEMORY = 1 << 20, IN_FLIGHT_MAX = 40, FILE_BYTES_MAX = 5 << 20, LOG_BYTES_MAX = 600 << 10 };
// Bytes. "Most" is with what a single pass or transaction needs for a moment. SQLite, once all is full, in KiB: the page cache (192 are asked
// for, and it holds 213), the index of the log (32), schema, lookaside and the connection (21), and DB_STMTS statements, of 3 to 4 on average
// as they were seen, of 5.6 as they are allowed here.
enum { OWN_MEMORY_MAX = 256 << 10, OWN_MEMORY_MOST = 512 << 10, STORE_MEMORY_MAX = 448 << 10, STORE_MEMORY_MOST = 512 << 10 };

#define WRONG(...) (snprintf(why, 256, __VA_ARGS__), false)

// --- Status, as the server has it

static const struct json *condition(const struct sim_object *o, const char *type)
{
    json_each(c, json_path(o->json, "status.conditions"))
    {
        const char *t = json_str(json_get(c, "type"));
        if (t != NULL && strcmp(t, type) == 0)
            return c;
    }
    return NULL;
}

static bool says(const struct sim_object *o, const char *type, const char *value)
{
    const char *s = json_str(json_get(condition(o, type), "status"));
    return s != NULL && strcmp(s, value) == 0;
}

static bool says_why(const struct sim_object *o, const char *type, const char *reason)
{
    const char *s = json_str(json_get(condition(o, type), "reason"));
    return s != NULL && strcmp(s, reason) == 0;
}

static int64_t number(const struct sim_object *o, const char *path)
{
    int64_t v;
    return json_i64(json_path(o->json, path), &v) ? v : -1;
}

static bool status_is_current(const struct sim_object *o, char why[256])
{
    if (number(o, "status.observedGeneration") != o->generation)
        return WRONG("the status of %s/%s speaks of generation %" PRId64 ", not %" PRId64, o->type->plural, o->name,
                     number(o, "status.observedGeneration"), o->generation);
    return true;
}

// --- Apps

struct tally {
    const struct app_spec *spec;
    const struct sim_object *object;
    char *why;
    int live[APP_REPLICAS_MAX];
    int running;
};

static bool status_shows_pid(const struct sim_object *o, const struct inst *i)
{
    int64_t index, pid;
    json_each(j, json_path(o->json, "status.instances"))
    {
        if (json_i64(json_get(j, "index"), &index) && index == i->index && json_i64(json_get(j, "pid"), &pid) && pid == i->pid)
            return true;
    }
    return false;
}

static int tally_one(void *ctx, const struct inst *i)
{
    struct tally *t = ctx;
    char *why = t->why;
    if (i->state == INST_EXITED) // its record goes when the status speaks of it
        return i->index >= t->spec->replicas ? 0 : WRONG("%.150s #%d ended, and that is not taken over", i->owner, i->index) - 1;
    if (i->index < 0 || i->index >= t->spec->replicas || strcmp(i->revision, t->spec->process.revision) != 0)
        return WRONG("%.150s #%d of revision %s runs and should not", i->owner, i->index, i->revision) - 1;
    if (++t->live[i->index] > 1)
        return WRONG("%.150s #%d runs twice", i->owner, i->index) - 1;
    if (i->state != INST_RUNNING)
        return WRONG("%.150s #%d does not run", i->owner, i->index) - 1;
    if (!status_shows_pid(t->object, i))
        return WRONG("the status of %.150s does not show pid %d", i->owner, i->pid) - 1;
    t->running++;
    return 0;
}

// OnFailure: an instance that ended well stays ended.
static bool may_be_ended(const struct sim_object *o, int index)
{
    int64_t at, code = -1;
    const char *policy = json_str(json_path(o->json, "spec.restartPolicy"));
    bool kept = says_why(o, "Ready", "RolledBack"); // of the spec that runs instead the policy is not known here
    if (!kept && (policy == NULL || strcmp(policy, "OnFailure") != 0))
        return false;
    json_each(j, json_path(o->json, "status.instances"))
    {
        if (json_i64(json_get(j, "index"), &at) && at == index && json_i64(json_path(j, "lastExit.code"), &code))
            return code == 0;
    }
    return false;
}

static bool app_runs(struct world *w, const struct sim_object *o, const struct app_spec *spec, char why[256])
{
    char owner[200];
    struct err e = ERR_INIT;
    struct tally t = { .spec = spec, .object = o, .why = why };
    snprintf(owner, sizeof(owner), "%s/%s/%s", o->type->plural, o->ns, o->name);
    if (w->port.port->ops->each(w->port.port, owner, tally_one, &t, &e) != 0)
        return false;
    int ended = 0;
    for (int i = 0; i < spec->replicas; i++) {
        if (t.live[i] == 0 && !may_be_ended(o, i))
            return WRONG("%s #%d is not there", owner, i);
        ended += t.live[i] == 0;
    }
    bool whole = ended == 0 && !says_why(o, "Ready", "RolledBack");
    if (number(o, "status.readyReplicas") != t.running)
        return WRONG("%s: %d run, the status says %" PRId64, owner, t.running, number(o, "status.readyReplicas"));
    if (!says(o, "Ready", whole ? "True" : "False"))
        return WRONG("%s: Ready is not %s", owner, whole ? "True" : "False");
    return true;
}

// What was asked for did not come up: the earlier revision is the one to be there.
static bool went_back(struct world *w, const struct sim_object *o, struct app_spec *spec, char why[256])
{
    const char *revision = json_str(json_path(o->json, "status.revision"));
    if (revision == NULL || !rules_gave_up(w, o, revision))
        return WRONG("%s: RolledBack, and nothing was a reason for it", o->name);
    snprintf(spec->process.revision, sizeof(spec->process.revision), "%s", revision);
    return true;
}

static bool app_is_right(struct world *w, const struct sim_object *o, char why[256])
{
    struct app_spec spec;
    struct arena a;
    struct err e = ERR_INIT;
    arena_init(&a, SPEC_MEMORY);
    bool right = status_is_current(o, why);
    bool valid = app_spec_decode(&spec, json_get(o->json, "spec"), SIM_NODE, &a, &e) == 0;
    if (right && !valid)
        right = says(o, "Accepted", "False") || WRONG("%s is invalid and Accepted is not False", o->name);
    if (right && valid && says_why(o, "Ready", "RolledBack"))
        right = went_back(w, o, &spec, why);
    if (right && valid)
        right = app_runs(w, o, &spec, why);
    arena_reset(&a);
    return right;
}

static int nobodys(void *ctx, const struct inst *i)
{
    struct tally *t = ctx;
    struct world *w = (struct world *)(uintptr_t)t->object;
    char *why = t->why;
    const char *plural = strncmp(i->owner, "edgejobs/", 9) == 0 ? "edgejobs" : "edgeapps";
    if (sim_server_find(&w->server, plural, strrchr(i->owner, '/') + 1) == NULL)
        return WRONG("%.150s #%d is left of a deleted object", i->owner, i->index) - 1;
    return 0;
}

static bool nothing_is_left(struct world *w, char why[256])
{
    struct err e = ERR_INIT;
    struct tally t = { .object = (const void *)w, .why = why };
    return w->port.port->ops->each(w->port.port, NULL, nobodys, &t, &e) == 0;
}

// --- Configs

static const struct json *owner_of(struct world *w, int index, const char **policy, const struct json **file)
{
    char name[16];
    snprintf(name, sizeof(name), "cfg-%d", index / FILES_EACH);
    struct sim_object *o = sim_server_find(&w->server, "edgeconfigs", name);
    *file = NULL;
    *policy = o != NULL ? json_str(json_path(o->json, "spec.deletionPolicy")) : NULL;
    json_each(f, o != NULL ? json_path(o->json, "spec.files") : NULL)
    {
        if (strcmp(json_str(json_get(f, "path")), w->paths[index].path) == 0)
            *file = f;
    }
    return *file;
}

static const char *content(struct world *w, const char *path)
{
    struct sim_file *f = sim_disk_at(&w->disk, path);
    return f != NULL ? buf_str(&f->now) : "";
}

static bool file_is_right(struct world *w, const struct managed_path *p, const struct json *file, char why[256])
{
    struct sim_file *f = sim_disk_at(&w->disk, p->path);
    if (f == NULL || strcmp(content(w, p->path), json_str(json_get(file, "content"))) != 0)
        return WRONG("%s is not as it should be", p->path);
    if (f->mode != strtoul(json_str(json_get(file, "mode")), NULL, 8))
        return WRONG("%s has mode %o", p->path, f->mode);
    return true;
}

// Nobody owns it: what became of it follows from the last owner's policy, where that is known.
static bool is_released(struct world *w, const struct managed_path *p, char why[256])
{
    const char *now = content(w, p->path), *want = NULL;
    if (!p->settled)
        return true;
    if (strcmp(p->policy, "Keep") == 0) // with what text depends on the last spec that the agent saw
        return now[0] != '\0' || WRONG("%s was released (Keep) and is not there", p->path);
    if (strcmp(p->policy, "Delete") == 0)
        want = "";
    else if (p->before_known)
        want = p->before;
    return want == NULL || strcmp(now, want) == 0 ||
           WRONG("%s was released (%s) and holds \"%.40s\" instead of \"%.40s\"", p->path, p->policy, now, want);
}

static bool change_was_told(struct world *w, const struct sim_object *o, char why[256])
{
    int index = sim_port_index_of_config(o->name);
    int64_t written = 0;
    if (json_path(o->json, "spec.onChange") == NULL)
        return true;
    for (int i = index * FILES_EACH; i < (index + 1) * FILES_EACH; i++) {
        const struct sim_file *f = sim_disk_at(&w->disk, w->paths[i].path);
        const char *policy;
        const struct json *file;
        if (f != NULL && owner_of(w, i, &policy, &file) != NULL)
            written = MAX(written, (f->mtime_us - sim_true_us(&w->sim)) / 1000 + w->sim.now_ms);
    }
    if (witness_may_lack(w, written)) // what is owed is a row
        return true;
    return w->port.change_began_ms[index] >= written || WRONG("%s: onChange is owed and was not run", o->name);
}

static bool config_is_right(struct world *w, const struct sim_object *o, char why[256])
{
    if (!status_is_current(o, why))
        return false;
    if (!says(o, "Ready", "True"))
        return WRONG("%s: Ready is not True", o->name);
    return change_was_told(w, o, why);
}

static bool paths_are_right(struct world *w, char why[256])
{
    for (int i = 0; i < PATHS; i++) {
        const char *policy;
        const struct json *file;
        const struct managed_path *p = &w->paths[i];
        bool right = owner_of(w, i, &policy, &file) != NULL ? file_is_right(w, p, file, why) : is_released(w, p, why);
        if (!right)
            return false;
    }
    return true;
}

void check_note_peace(struct world *w)
{
    for (int i = 0; i < PATHS; i++) {
        struct managed_path *p = &w->paths[i];
        const char *policy;
        const struct json *file;
        managed_path_of(i, p->path);
        bool owned = owner_of(w, i, &policy, &file) != NULL;
        if (owned) {
            snprintf(p->policy, sizeof(p->policy), "%s", policy);
        } else {
            p->before_known = true;
            snprintf(p->before, sizeof(p->before), "%s", content(w, p->path));
        }
        p->settled = owned;
        p->released = false;
    }
}

// The store may know no more which files are the agent's and what lay there before: it takes what it wrote itself for that.
void check_forget_paths(struct world *w)
{
    for (int i = 0; i < PATHS; i++)
        w->paths[i].settled = w->paths[i].before_known = false;
}

// --- All of it

static bool object_is_right(struct world *w, const struct sim_object *o, char why[256])
{
    if (strcmp(o->type->plural, "edgeapps") == 0)
        return app_is_right(w, o, why);
    if (strcmp(o->type->plural, "edgeconfigs") == 0)
        return config_is_right(w, o, why);
    if (strcmp(o->type->plural, "edgejobs") == 0)
        return status_is_current(o, why) && job_is_right(w, o, why);
    bool shared = strcmp(o->ns, SIM_SHARED_NS) == 0;
    if (shared && json_get(o->json, "status") != NULL)
        return WRONG("%s/%s of all nodes has a status", o->type->plural, o->name);
    bool reported = strcmp(o->type->plural, "edgenodes") == 0 || strcmp(o->type->plural, "edgepolicies") == 0;
    return !reported || shared || status_is_current(o, why);
}

static bool all_is_told(struct world *w, char why[256])
{
    AS_AGENT;
    struct outbox_stats s;
    struct err e = ERR_INIT;
    if (outbox_stats(w->agent->outbox, &s, &e) < 0)
        return WRONG("the outbox cannot be read: %.200s", e.msg);
    return s.events_pending + s.status_pending == 0 ||
           WRONG("%" PRId64 " events and %" PRId64 " statuses still wait", s.events_pending, s.status_pending);
}

static bool is_there(struct world *w, const char *key)
{
    char own[KEY_MAX];
    sim_each_object(o, &w->server)
    {
        snprintf(own, sizeof(own), "%s/%s/%s", o->type->plural, o->ns, o->name);
        if (strcmp(own, key) == 0)
            return true;
    }
    return false;
}

// No row speaks of what is not there any more, and the ring of events is none too long, those included that the server has.
static bool store_is_tidy(struct world *w, char why[256])
{
    AS_AGENT;
    struct db *db = w->agent->db;
    bool tidy = true;
    if (w->witness.store_rots) // rows were damaged, and nobody may know whose they are
        return true;
    struct db_stmt *s = db_stmt(db, "SELECT key FROM object UNION ALL SELECT key FROM status UNION ALL SELECT key FROM intent");
    while (tidy && db_step(s, NULL) == 1)
        tidy = is_there(w, db_text(s, 0)) || WRONG("the store keeps a row of %.200s, which is not there", db_text(s, 0));
    db_done(s);
    s = db_stmt(db, "SELECT count(*) FROM event");
    if (tidy && db_step(s, NULL) == 1)
        tidy = db_int(s, 0) <= policies_max_events(w) || WRONG("the store keeps %" PRId64 " events", db_int(s, 0));
    db_done(s);
    return tidy;
}

static bool is_online(struct world *w, char why[256])
{
    struct sync_stats s;
    sync_stats(w->agent->sync, &s);
    return s.link == LINK_ONLINE || WRONG("the agent is not online: %.200s", sync_why(w->agent->sync));
}

static bool lease_is_renewed(struct world *w, char why[256])
{
    const struct sim_object *o = sim_server_find(&w->server, "leases", SIM_NODE);
    if (o != NULL && o->rv != w->lease_rv) {
        w->lease_rv = o->rv;
        w->lease_moved_ms = w->sim.now_ms;
    }
    return w->sim.now_ms - w->lease_moved_ms <= MINUTE || WRONG("the lease is not renewed");
}

const char *check_right(struct world *w, char why[256])
{
    if (!is_online(w, why) || !lease_is_renewed(w, why))
        return why;
    sim_each_object(o, &w->server) if (!object_is_right(w, o, why)) return why;
    if (policies_are_right(w, why) != NULL)
        return why;
    return paths_are_right(w, why) && nothing_is_left(w, why) && all_is_told(w, why) && store_is_tidy(w, why) ? NULL : why;
}

static int mix_instance(void *ctx, const struct inst *i)
{
    uint64_t *h = ctx;
    if (i->state != INST_EXITED && strncmp(i->owner, "edgejobs/", 9) != 0)
        *h = hash_bytes(*h, i->uid, strlen(i->uid));
    return 0;
}

uint64_t check_files_print(struct world *w)
{
    uint64_t h = HASH_SEED;
    for (int i = 0; i < PATHS; i++)
        h = hash_bytes(h, content(w, w->paths[i].path), strlen(content(w, w->paths[i].path)) + 1);
    return h;
}

uint64_t check_fingerprint(struct world *w)
{
    struct err e = ERR_INIT;
    uint64_t h = check_files_print(w);
    (void)!w->port.port->ops->each(w->port.port, NULL, mix_instance, &h, &e);
    return h;
}

void check_bounds(struct world *w)
{
    AS_AGENT;
    struct outbox_stats s;
    struct db_stats d;
    struct err e = ERR_INIT;
    if (outbox_stats(w->agent->outbox, &s, &e) < 0)
        return;          // sim_witness.c says so
    policies_refresh(w); // one that allowed less may have gone in this very turn, and more events came behind it
    if (s.events_pending > policies_max_events(w))
        sim_violation(&w->sim, "%" PRId64 " events wait, %" PRId64 " are allowed", s.events_pending, policies_max_events(w));
    db_stats(w->agent->db, &d);
    if (d.file_bytes > FILE_BYTES_MAX)
        sim_violation(&w->sim, "the store has %" PRId64 " bytes", d.file_bytes);
    if (d.wal_bytes > LOG_BYTES_MAX)
        sim_violation(&w->sim, "the log of the store has %" PRId64 " bytes", d.wal_bytes);
    if (w->net.most_under_way > IN_FLIGHT_MAX)
        sim_violation(&w->sim, "%zu requests at once", w->net.most_under_way);
}

// Of an agent with its dozen objects.
void check_memory(struct world *w)
{
    struct heap_count own = sim_heap_of(OF_AGENT), store = sim_heap_of(OF_STORE);
    if (!sim_heap_counts())
        return;
    if (own.bytes > OWN_MEMORY_MAX || store.bytes > STORE_MEMORY_MAX)
        sim_violation(&w->sim, "at peace the agent holds %" PRId64 " bytes of memory, its store %" PRId64, own.bytes, store.bytes);
    if (own.most > OWN_MEMORY_MOST || store.most > STORE_MEMORY_MOST)
        sim_violation(&w->sim, "the agent held %" PRId64 " bytes of memory, its store %" PRId64, own.most, store.most);
}
