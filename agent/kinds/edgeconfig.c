// SPDX-License-Identifier: Apache-2.0
// edgeconfig — the kind EdgeConfig: files and directories kept as given, with validation before and a command after a change.
//
// A pass looks at every file, and in this order, each only when needed: validates what is new, saves what lies there and writes the intents
// (commit), gives back files that left the list, writes (directories first), gives back directories, runs the onChange that is owed. A change that
// touches several files, or has confirmSeconds, is made by edgeconfig_switch.c, all or none. A file found changed by somebody else is drift: it
// is put right without validation, counted, and backed off from when the other writer keeps at it (edgeconfig_fight.h).
// Directories that are on no list but were made for a file are not removed with it. A deleted EdgeConfig gives its files back and runs no onChange: the command left
// with the spec.
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "config/config.h"
#include "kinds/edgeconfig_pass.h"
#include "kinds/edgeconfig_stage.h"
#include "kinds/registry.h"

enum {
    FACT_RETRY_MS = 30000,
    CONFLICT_RETRY_MS = 30000,
    OWNER_RETRY_MS = 60000,
    VALIDATE_RETRY_MS = 300000,
    CHECK_MEMORY = 8 << 20,
};

// --- The spec

static void guard_of(const struct config *c, struct cfg_guard *g, char own_config[PATH_MAX])
{
    *g = (struct cfg_guard){ config_guard_paths(c), { c->state_dir, c->run_dir, c->log_dir, NULL } };
    const char *file = c->config_file != NULL ? c->config_file : "/etc/limpet/limpet.ini";
    const char *slash = strrchr(file, '/');
    static const char own[] = "/limpet";
    size_t n = slash != NULL ? (size_t)(slash - file) : 0;
    // The directory when it is ours alone, else only the file.
    bool ours = n >= sizeof(own) - 1 && memcmp(file + n - (sizeof(own) - 1), own, sizeof(own) - 1) == 0;
    snprintf(own_config, PATH_MAX, "%.*s", ours ? (int)n : (int)strlen(file), file);
    g->own[3] = own_config;
}

static int decode(const struct kind_env *env, const struct json *spec, struct arena *a, struct cfg_spec *out, struct err *e)
{
    struct cfg_guard g;
    char own_config[PATH_MAX];
    guard_of(env->config, &g, own_config);
    return cfg_spec_decode(out, spec, env->node, &g, a, e);
}

static int cfg_check(const struct kind *k, const struct kind_env *env, const struct json *object, struct err *e)
{
    struct cfg_spec spec;
    struct arena a;
    (void)k;
    arena_init(&a, CHECK_MEMORY);
    int rc = decode(env, json_get(object, "spec"), &a, &spec, e);
    arena_reset(&a);
    return rc;
}

static bool read_spec(const struct kind_env *env, const struct json *object, struct arena *a, struct cfg_spec *out)
{
    struct err ignored = ERR_INIT;
    return decode(env, json_get(object, "spec"), a, out, &ignored) == 0;
}

// The command that a change of files brings: commonly it restarts who reads them.
static bool cfg_disturbs(const struct kind *k, const struct kind_env *env, const struct json *now, const struct json *next)
{
    struct cfg_spec was, will;
    struct arena a;
    (void)k;
    arena_init(&a, CHECK_MEMORY);
    bool readable = read_spec(env, now, &a, &was) && read_spec(env, next, &a, &will);
    bool disturbs = readable && cfg_has_on_change(&will) && strcmp(was.revision, will.revision) != 0;
    arena_reset(&a);
    return disturbs;
}

// --- Small things

const char *cfg_shown(char out[CFG_SHOWN_MAX], const char *path)
{
    size_t n = strlen(path), cut = utf8_cut(path, MIN(n, (size_t)CFG_SHOWN_MAX - 4));
    snprintf(out, CFG_SHOWN_MAX, "%.*s%s", (int)cut, path, cut < n ? "..." : "");
    return out;
}

void cfg_come_back(struct cfg_pass *w, int64_t at_ms)
{
    w->look_ms = MIN(w->look_ms, at_ms);
}

int cfg_block(struct cfg_pass *w, const char *reason, const char *text)
{
    status_cond(w->p->status, "Ready", COND_FALSE, reason, "%s", text);
    return CFG_END;
}

// True when it is another than the one kept: only then is it news.
bool cfg_keep_verdict(struct cfg_run *run, const char *text)
{
    bool news = run->verdict == NULL || strcmp(run->verdict, text) != 0;
    if (news) {
        free(run->verdict);
        run->verdict = strdup(text);
    }
    return news;
}

void cfg_drop_verdict(struct cfg_run *run)
{
    free(run->verdict);
    run->verdict = NULL;
}

const char *cfg_verdict(const struct cfg_run *run)
{
    return run->verdict != NULL ? run->verdict : "";
}

static bool something_new(const struct cfg_pass *w)
{
    for (size_t i = 0; i < w->spec.n_entries; i++)
        if (w->items[i].differs && !cfg_item_is_drift(&w->items[i]))
            return true;
    return false;
}

static int refuse(struct cfg_pass *w, const char *reason, const char *text)
{
    status_cond(w->p->status, "Accepted", COND_FALSE, reason, "%s", text);
    return cfg_block(w, reason, text);
}

// --- Looking

static void load_prev(struct cfg_pass *w)
{
    const struct json *prev = status_prev(w->p->status);
    const char *at = json_str(json_get(prev, "lastAppliedTime"));
    if (w->run->loaded)
        return;
    w->run->loaded = true;
    (void)json_i64(json_get(prev, "driftRepairs"), &w->run->repairs);
    if (at != NULL && !rfc3339_parse(at, &w->run->applied_us))
        w->run->applied_us = 0;
}

// A fact that is missing for a while, as the address of a machine whose network is down, must not look like another version of what is under way.
static int render(struct cfg_pass *w, struct err *e)
{
    int rc = cfg_spec_render(&w->spec, w->env, w->p->arena, &w->unknown);
    if (rc == 0)
        return 0;
    if (rc != E_NOTFOUND) {
        *e = w->unknown;
        return rc;
    }
    if (w->sw.state != SWITCH_NONE)
        snprintf(w->spec.revision, sizeof(w->spec.revision), "%s", w->sw.revision);
    return 0;
}

static int load(struct cfg_pass *w, struct err *e)
{
    int rc = decode(w->env, w->p->spec, w->p->arena, &w->spec, e);
    if (rc == 0)
        rc = cfg_records_load(&w->records, w->env->db, w->p->key, w->spec.n_entries, w->p->arena, e);
    if (rc == 0)
        rc = cfg_switch_load(&w->sw, w->env->db, w->p->key, w->spec.n_entries + w->records.n, w->p->arena, e);
    if (rc == 0)
        rc = cfg_owed_get(w->env->db, w->p->key, &w->owed, e);
    if (rc < 0)
        return rc;
    w->spec_hash = json_hash(w->p->spec);
    rc = render(w, e);
    if (rc == 0)
        rc = cfg_resolve(w, e);
    if (rc == 0)
        rc = cfg_former(w, e);
    if (rc < 0)
        return rc;
    w->items = arena_alloc(w->p->arena, (w->spec.n_entries + 1) * sizeof(*w->items));
    if (w->items == NULL)
        return err_set(e, E_NOMEM, "files");
    for (size_t i = 0; i < w->spec.n_entries; i++) {
        w->items[i].want = &w->spec.entries[i];
        w->items[i].record = cfg_record_of(&w->records, w->items[i].want->path, w->items[i].want->is_dir);
    }
    return 0;
}

static int settle_facts(struct cfg_pass *w, struct err *e)
{
    if (w->unknown.cls == 0 || w->former)
        return CFG_ON;
    int rc = cfg_judge(w, e);
    if (rc < 0 || w->p->waiting)
        return rc;
    cfg_come_back(w, w->now_ms + FACT_RETRY_MS);
    return refuse(w, "FactUnknown", w->unknown.msg);
}

// All or none: nothing of a set is touched while something of it is not there.
static int await_references(struct cfg_pass *w, struct err *e)
{
    if (!w->found.missing || w->former)
        return CFG_ON;
    int rc = cfg_judge(w, e);
    return rc < 0 || w->p->waiting ? rc : cfg_block(w, "CreateContainerConfigError", w->found.why);
}

// What the machine itself answers; none of it changes without somebody's doing.
static int not_observed(struct cfg_pass *w, const struct cfg_entry *x, int rc, struct err *e)
{
    if (rc == E_FORBIDDEN && e->sys == 0)
        return refuse(w, "PathRefused", e->msg);
    if (rc == E_INVAL)
        return cfg_block(w, x->is_dir ? "NotADirectory" : "NotAFile", e->msg);
    if (rc != E_NOTFOUND)
        return rc;
    cfg_come_back(w, w->now_ms + OWNER_RETRY_MS);
    return cfg_block(w, "OwnerUnknown", e->msg);
}

int cfg_observe(struct cfg_pass *w, struct err *e)
{
    for (size_t i = 0; i < w->spec.n_entries; i++) {
        struct err why = ERR_INIT;
        int rc = cfg_item_observe(w->env, &w->items[i], &why);
        if (rc < 0) {
            err_wrap(&why, "%.200s", w->items[i].want->path);
            rc = not_observed(w, w->items[i].want, rc, &why);
            if (rc < 0)
                *e = why;
            return rc;
        }
    }
    return CFG_ON;
}

// --- What the last command said

static void judged(struct cfg_pass *w, const struct command *c)
{
    struct cfg_run *run = w->run;
    cfg_stage_remove(w->env, w->p->key);
    w->judged = true;
    if (c->ok) {
        run->validated = run->command_spec;
        cfg_drop_verdict(run);
        return;
    }
    run->rejected = run->command_spec;
    run->rejected_ms = w->now_ms;
    if (cfg_keep_verdict(run, c->verdict.msg))
        pass_event(w->p, true, "ValidationFailed", "Validate", "nothing was replaced: %s", c->verdict.msg);
}

static int take_verdict(struct cfg_pass *w, struct err *e)
{
    struct command *c = w->run->command;
    int rc = 0;
    if (c == NULL)
        return CFG_ON;
    if (!c->done) // the pass is held open for it; whatever woke us, it is still awaited
        return command_wait(c, w->p), CFG_END;
    w->run->command = NULL;
    if (w->run->role == ROLE_VALIDATE)
        judged(w, c);
    else
        rc = cfg_changed(w, c, e);
    command_free(c);
    return rc;
}

// What is not needed any more by the word of the store goes, now that this word is durable.
static int tidy(struct cfg_pass *w, struct err *e)
{
    if (w->run->tidied)
        return CFG_ON;
    int rc = cfg_backup_tidy(w->env, w->p->key, &w->records, e);
    if (rc == 0 && w->sw.n == 0)
        rc = cfg_undo_forget(w->env, w->p->key, e);
    w->run->tidied = rc == 0;
    return rc < 0 ? rc : CFG_ON;
}

// --- One path, one owner

static int settle_owner(struct cfg_pass *w, struct err *e)
{
    struct cfg_owner other;
    struct err text = ERR_INIT; // err_set() mends what is cut inside a character
    bool taken = false;
    for (size_t i = 0; i < w->spec.n_entries; i++) {
        const struct cfg_item *it = &w->items[i];
        int rc = it->record == NULL ? cfg_find_owner(w->env->db, w->p->key, it->want, &taken, &other, e) : 0;
        if (rc < 0)
            return rc;
        if (!taken)
            continue;
        cfg_come_back(w, w->now_ms + CONFLICT_RETRY_MS);
        err_set(&text, E_EXISTS, "%.150s belongs to %.150s", other.path, other.key);
        return refuse(w, "PathConflict", text.msg);
    }
    return CFG_ON;
}

// --- Validating what is new

int cfg_start_command(struct cfg_pass *w, enum command_role role, const struct cfg_command *what, const char *const *vars, struct err *e)
{
    struct cfg_run *run = w->run;
    int rc = command_start(&run->command, w->p, what->argv, vars, what->timeout_ms, e);
    if (rc < 0)
        return err_wrap(e, role == ROLE_VALIDATE ? "validate" : "onChange");
    run->role = role;
    run->command_spec = w->spec_hash;
    command_wait(run->command, w->p);
    return CFG_END;
}

static int validate(struct cfg_pass *w, struct err *e)
{
    struct cfg_run *run = w->run;
    char dir[PATH_MAX], first[PATH_MAX + CFG_PATH_MAX];
    if (w->spec.validate.argv == NULL || w->former || run->validated == w->spec_hash || !something_new(w))
        return CFG_ON;
    // Judged already: not again until something changes, or the long requeue comes round. (Windows that open and close put that off.)
    bool again = strcmp(w->p->why, "resync") == 0 || w->now_ms - run->rejected_ms >= VALIDATE_RETRY_MS;
    if (run->rejected == w->spec_hash && (w->judged || !again))
        return cfg_block(w, "ValidationFailed", cfg_verdict(run));
    run->rejected = 0;
    int rc = cfg_stage_write(w->env, w->p->key, w->items, w->spec.n_entries, e);
    if (rc < 0)
        return rc;
    cfg_stage_dir(w->env, w->p->key, dir, sizeof(dir));
    snprintf(first, sizeof(first), "%s%s", dir, w->spec.n_dirs < w->spec.n_entries ? w->spec.entries[w->spec.n_dirs].path : "");
    const char *const vars[] = { "STAGED_DIR", dir, "STAGED_FILE", first, NULL };
    return cfg_start_command(w, ROLE_VALIDATE, &w->spec.validate, vars, e);
}

// --- Another writer

static int settle_fight(struct cfg_pass *w, struct err *e)
{
    struct cfg_fight *f = w->run->fight;
    bool drift = false;
    (void)e;
    for (size_t i = 0; i < w->spec.n_entries; i++)
        drift |= cfg_item_is_drift(&w->items[i]);
    if (f == NULL)
        return CFG_ON;
    if (drift && !fight_allows(f, w->now_ms)) {
        w->held = true;
        cfg_come_back(w, f->until_ms);
    } else if (!drift && f->level > 0) {
        int64_t look = INT64_MAX;
        if (fight_calm(f, w->now_ms, &look))
            pass_event(w->p, false, "DriftFightOver", "Repair", "nobody changes the files any more");
        else
            cfg_come_back(w, look);
    }
    return CFG_ON;
}

static void follow_drift(struct cfg_pass *w)
{
    // The other writer must not wake us each time while we hold back, nor must our own way there and back.
    if (w->held || w->sw.state == SWITCH_GOING)
        cfg_unwatch(&w->run->watches, w->env);
    else
        cfg_watch(&w->run->watches, w->env, w->p->os, &w->spec);
}

static int cfg_reconcile(struct pass *p, struct err *e)
{
    static int (*const steps[])(struct cfg_pass *, struct err *) = {
        take_verdict, tidy,       cfg_settle_switch, await_references,  settle_facts,    settle_owner,     cfg_observe,       validate,
        settle_fight, cfg_intend, cfg_switch_files,  cfg_release_files, cfg_write_files, cfg_release_dirs, cfg_run_on_change, cfg_confirm,
    };
    struct cfg_pass w = { .p = p, .run = p->state, .env = p->env, .now_ms = clock_mono(p->env->clock), .look_ms = INT64_MAX };
    int rc = load(&w, e);
    if (rc == 0)
        rc = cfg_owe_after_salvage(&w, e);
    if (rc < 0) {
        status_keep_prev(p->status);
        return rc;
    }
    load_prev(&w);
    for (size_t i = 0; rc == CFG_ON && i < ARRAY_LEN(steps); i++)
        rc = steps[i](&w, e);
    if (p->waiting)
        return 0;
    follow_drift(&w);
    cfg_report(&w, rc < 0 ? e : NULL);
    if (w.look_ms < INT64_MAX)
        p->requeue_ms = MAX(w.look_ms - w.now_ms, 1);
    return rc < 0 ? rc : 0;
}

// The spec is not understood. A change on trial does not wait for one that is.
static int cfg_refused(struct pass *p, struct err *e)
{
    struct cfg_pass w = { .p = p, .run = p->state, .env = p->env, .now_ms = clock_mono(p->env->clock), .look_ms = INT64_MAX };
    AUTO_JSON struct json *on_change = NULL; // the spec borrows from it
    int rc = cfg_records_load(&w.records, w.env->db, p->key, 0, p->arena, e);
    if (rc == 0)
        rc = cfg_switch_load(&w.sw, w.env->db, p->key, 0, p->arena, e);
    if (rc < 0 || w.sw.state == SWITCH_NONE || w.sw.state == SWITCH_GOING)
        return rc;
    w.partial = true;
    w.spec_hash = w.sw.spec;
    memcpy(w.spec.revision, w.sw.revision, sizeof(w.spec.revision));
    rc = cfg_owed_get(w.env->db, p->key, &w.owed, e);
    if (rc == 0)
        rc = cfg_spec_on_change(&w.spec, w.sw.on_change, &on_change, p->arena, e);
    if (rc == 0)
        rc = take_verdict(&w, e);
    if (rc == CFG_ON)
        rc = cfg_settle_switch(&w, e);
    if (rc == CFG_ON)
        rc = cfg_judge(&w, e);
    if (!p->waiting && w.look_ms < INT64_MAX)
        p->requeue_ms = MAX(w.look_ms - w.now_ms, 1);
    return rc < 0 ? rc : 0;
}

// --- The end

static void stop_command(const struct kind_env *env, struct cfg_run *run, const char *key)
{
    if (run->command == NULL)
        return;
    command_free(steal(run->command));
    if (run->role == ROLE_VALIDATE && key != NULL)
        cfg_stage_remove(env, key);
}

static void cfg_cancel(struct pass *p)
{
    stop_command(p->env, p->state, p->key);
}

static int cfg_gone(struct pass *p, struct err *e)
{
    struct cfg_run *run = p->state;
    struct cfg_records records;
    stop_command(p->env, run, p->key);
    cfg_unwatch(&run->watches, p->env);
    int rc = cfg_records_load(&records, p->env->db, p->key, 0, p->arena, e);
    if (rc == 0 && records.n == 0)
        rc = cfg_undo_forget(p->env, p->key, e);
    if (rc == 0 && records.n == 0)
        return cfg_backup_remove_all(p->env, p->key, e);
    for (size_t i = records.n; rc == 0 && i-- > 0;) // files, then directories, the deepest first
        rc = cfg_release(p, &records.items[i], records.items[i].policy, e);
    return rc == 0 ? pass_after_commit(p) : rc;
}

static void cfg_fini(const struct kind_env *env, void *state)
{
    struct cfg_run *run = state;
    stop_command(env, run, NULL);
    cfg_unwatch(&run->watches, env);
    cfg_drop_verdict(run);
    free(run->fight);
    run->fight = NULL;
}

static int cfg_boot(const struct kind *k, struct kind_env *env, struct err *e)
{
    (void)k;
    int rc = cfg_undo_boot(env, e);
    return rc == 0 ? cfg_backup_sweep(env, e) : rc;
}

// --- `limpet get -o diff`

static int cfg_differences(struct pass *p, struct json *out, struct err *e)
{
    struct cfg_pass w = { .p = p, .run = p->state, .env = p->env };
    char what[64];
    int rc = load(&w, e);
    for (size_t i = 0; rc == 0 && i < w.spec.n_entries; i++) {
        struct cfg_item *item = &w.items[i];
        struct err why = ERR_INIT;
        if (cfg_item_observe(w.env, item, &why) < 0) // what hides one file does not hide the others
            difference_add(out, item->want->path, "existence", item->want->is_dir ? "directory" : "regular file", why.msg);
        else if (item->differs)
            cfg_item_differences(item, what, out);
    }
    return rc;
}

static const char *const cfg_short_names[] = { "ecfg", NULL };
static const char *const cfg_conditions[] = { "Accepted", "Progressing", "Ready", "DriftFight", "ResolvedRefs", "Waiting", NULL };

const struct kind kind_edgeconfig = {
    .type = { "edge.limpet.dev", "v1alpha1", "edgeconfigs" },
    .name = "EdgeConfig",
    .short_names = cfg_short_names,
    .conditions = cfg_conditions,
    .state_size = sizeof(struct cfg_run),
    .max_concurrent = 4,
    .write_status = true,
    .check = cfg_check,
    .reconcile = cfg_reconcile,
    .refused = cfg_refused,
    .disturbs = cfg_disturbs,
    .gone = cfg_gone,
    .cancel = cfg_cancel,
    .fini = cfg_fini,
    .boot = cfg_boot,
    .differences = cfg_differences,
};
