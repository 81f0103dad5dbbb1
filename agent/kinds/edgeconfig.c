// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgeconfig.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "config/config.h"
#include "flow/status.h"
#include "kinds/command.h"
#include "kinds/edgeconfig_stage.h"
#include "kinds/edgeconfig_watch.h"
#include "kinds/registry.h"

enum {
    DIFFERENCES_MAX = 16, // as the CRD bounds them
    CONFLICT_RETRY_MS = 30000,
    OWNER_RETRY_MS = 60000,
    CHANGE_RETRY_FIRST_MS = 1000,
    CHANGE_RETRY_MAX_MS = 300000,
};

enum command_role { ROLE_VALIDATE, ROLE_ON_CHANGE };

struct cfg_run {
    struct command *command; // under way, or ended and not looked at yet
    enum command_role role;
    uint64_t command_spec;        // hash of the spec it was started for
    uint64_t validated, rejected; // specs that were judged
    uint64_t failed_change;       // the spec whose onChange failed last
    int change_failures;          // in a row
    int64_t change_at_ms;         // the next try
    char *verdict;                // of the last command that failed
    struct cfg_fight *fight;      // NULL = nothing was ever repaired
    struct cfg_watches watches;
    int64_t repairs, applied_us; // as in status; applied 0 = never
    bool loaded;
};

// One pass.
struct work {
    struct pass *p;
    struct cfg_run *run;
    struct kind_env *env;
    int64_t now_ms;
    uint64_t spec_hash;
    struct cfg_spec spec;
    struct cfg_records records;
    struct cfg_item *items;
    bool judged;                // this very pass heard a verdict of validate
    bool owed;                  // an onChange
    bool held;                  // drift stays for now: another writer keeps at it
    int64_t look_ms;            // monotonic: come back then; INT64_MAX = no need
    const char *progress, *why; // reason and message of Progressing=True; NULL = nothing is under way
};

// A step of the pass: < 0 an error, STEP_ON to the next, STEP_END: this pass ends here.
enum { STEP_ON, STEP_END };

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
    enum { CHECK_MEMORY = 8 << 20 };
    struct cfg_spec spec;
    struct arena a;
    (void)k;
    arena_init(&a, CHECK_MEMORY);
    int rc = decode(env, json_get(object, "spec"), &a, &spec, e);
    arena_reset(&a);
    return rc;
}

// --- Small things

// True when it is another than the one kept: only then is it news.
static bool keep_verdict(struct cfg_run *run, const char *text)
{
    bool news = run->verdict == NULL || strcmp(run->verdict, text) != 0;
    if (news) {
        free(run->verdict);
        run->verdict = strdup(text);
    }
    return news;
}

static void drop_verdict(struct cfg_run *run)
{
    free(run->verdict);
    run->verdict = NULL;
}

static const char *verdict(const struct cfg_run *run)
{
    return run->verdict != NULL ? run->verdict : "";
}

static void come_back(struct work *w, int64_t at_ms)
{
    w->look_ms = MIN(w->look_ms, at_ms);
}

static bool must_write(const struct work *w, const struct cfg_item *i)
{
    return i->differs && !(w->held && cfg_item_is_drift(i));
}

static bool something_new(const struct work *w)
{
    for (size_t i = 0; i < w->spec.n_files; i++)
        if (w->items[i].differs && !cfg_item_is_drift(&w->items[i]))
            return true;
    return false;
}

static int block(struct work *w, const char *reason, const char *text)
{
    status_cond(w->p->status, "Ready", COND_FALSE, reason, "%s", text);
    return STEP_END;
}

static int refuse(struct work *w, const char *reason, const char *text)
{
    status_cond(w->p->status, "Accepted", COND_FALSE, reason, "%s", text);
    return block(w, reason, text);
}

// --- Looking

static void load_prev(struct work *w)
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

static int load(struct work *w, struct err *e)
{
    int rc = decode(w->env, w->p->spec, w->p->arena, &w->spec, e);
    if (rc == 0)
        rc = cfg_records_load(&w->records, w->env->db, w->p->key, w->spec.n_files, w->p->arena, e);
    if (rc == 0)
        rc = cfg_owed_get(w->env->db, w->p->key, &w->owed, e);
    if (rc < 0)
        return rc;
    w->spec_hash = json_hash(w->p->spec);
    w->items = arena_alloc(w->p->arena, (w->spec.n_files + 1) * sizeof(*w->items));
    if (w->items == NULL)
        return err_set(e, E_NOMEM, "files");
    for (size_t i = 0; i < w->spec.n_files; i++) {
        w->items[i].want = &w->spec.files[i];
        w->items[i].record = cfg_record_of(&w->records, w->spec.files[i].path);
    }
    return 0;
}

// What the machine itself answers; none of it changes without somebody's doing.
static int not_observed(struct work *w, int rc, struct err *e)
{
    if (rc == E_FORBIDDEN && e->sys == 0)
        return refuse(w, "PathRefused", e->msg);
    if (rc == E_INVAL)
        return block(w, "NotAFile", e->msg);
    if (rc != E_NOTFOUND)
        return rc;
    come_back(w, w->now_ms + OWNER_RETRY_MS);
    return block(w, "OwnerUnknown", e->msg);
}

static int observe(struct work *w, struct err *e)
{
    for (size_t i = 0; i < w->spec.n_files; i++) {
        struct err why = ERR_INIT;
        int rc = cfg_item_observe(w->env, &w->items[i], &why);
        if (rc < 0) {
            err_wrap(&why, "%.200s", w->items[i].want->path);
            rc = not_observed(w, rc, &why);
            if (rc < 0)
                *e = why;
            return rc;
        }
    }
    return STEP_ON;
}

// --- What the last command said

static void judged(struct work *w, const struct command *c)
{
    struct cfg_run *run = w->run;
    cfg_stage_remove(w->env, w->p->key);
    w->judged = true;
    if (c->ok) {
        run->validated = run->command_spec;
        drop_verdict(run);
        return;
    }
    run->rejected = run->command_spec;
    if (keep_verdict(run, c->verdict.msg))
        pass_event(w->p, true, "ValidationFailed", "Validate", "nothing was replaced: %s", c->verdict.msg);
}

static int changed(struct work *w, const struct command *c, struct err *e)
{
    struct cfg_run *run = w->run;
    if (c->ok) {
        run->change_failures = 0;
        w->owed = false;
        drop_verdict(run);
        return cfg_owed_set(w->env->db, w->p->key, false, e);
    }
    int shift = MIN(run->change_failures, 9);
    run->change_failures++;
    run->failed_change = run->command_spec;
    run->change_at_ms = w->now_ms + MIN((int64_t)CHANGE_RETRY_FIRST_MS << shift, CHANGE_RETRY_MAX_MS);
    if (keep_verdict(run, c->verdict.msg))
        pass_event(w->p, true, "OnChangeFailed", "OnChange", "%s", c->verdict.msg);
    return 0;
}

static int take_verdict(struct work *w, struct err *e)
{
    struct command *c = w->run->command;
    int rc = 0;
    if (c == NULL)
        return STEP_ON;
    if (!c->done) // the pass is held open for it; whatever woke us, it is still awaited
        return command_wait(c, w->p), STEP_END;
    w->run->command = NULL;
    if (w->run->role == ROLE_VALIDATE)
        judged(w, c);
    else
        rc = changed(w, c, e);
    command_free(c);
    return rc;
}

// --- One path, one owner

static int settle_owner(struct work *w, struct err *e)
{
    struct cfg_owner other;
    char text[ERR_MSG_MAX];
    bool taken = false;
    for (size_t i = 0; i < w->spec.n_files; i++) {
        const struct cfg_item *it = &w->items[i];
        int rc = it->record == NULL ? cfg_find_owner(w->env->db, w->p->key, it->want->path, &taken, &other, e) : 0;
        if (rc < 0)
            return rc;
        if (!taken)
            continue;
        come_back(w, w->now_ms + CONFLICT_RETRY_MS);
        snprintf(text, sizeof(text), "%.150s belongs to %.150s", other.path, other.key);
        return refuse(w, "PathConflict", text);
    }
    return STEP_ON;
}

// --- Validating what is new

static int start_command(struct work *w, enum command_role role, const struct cfg_command *what, const char *const *vars, struct err *e)
{
    struct cfg_run *run = w->run;
    int rc = command_start(&run->command, w->p, what->argv, vars, what->timeout_ms, e);
    if (rc < 0)
        return err_wrap(e, role == ROLE_VALIDATE ? "validate" : "onChange");
    run->role = role;
    run->command_spec = w->spec_hash;
    command_wait(run->command, w->p);
    return STEP_END;
}

static int validate(struct work *w, struct err *e)
{
    struct cfg_run *run = w->run;
    char dir[PATH_MAX], first[PATH_MAX + CFG_PATH_MAX];
    if (w->spec.validate.argv == NULL || run->validated == w->spec_hash || !something_new(w))
        return STEP_ON;
    // Judged already: not again until something changes, or the long requeue comes round.
    if (run->rejected == w->spec_hash && (w->judged || strcmp(w->p->why, "resync") != 0))
        return block(w, "ValidationFailed", verdict(run));
    run->rejected = 0;
    int rc = cfg_stage_write(w->env, w->p->key, w->items, w->spec.n_files, e);
    if (rc < 0)
        return rc;
    cfg_stage_dir(w->env, w->p->key, dir, sizeof(dir));
    snprintf(first, sizeof(first), "%s%s", dir, w->spec.files[0].path);
    const char *const vars[] = { "STAGED_DIR", dir, "STAGED_FILE", first, NULL };
    return start_command(w, ROLE_VALIDATE, &w->spec.validate, vars, e);
}

// --- Another writer

static int settle_fight(struct work *w, struct err *e)
{
    struct cfg_fight *f = w->run->fight;
    bool drift = false;
    (void)e;
    for (size_t i = 0; i < w->spec.n_files; i++)
        drift |= cfg_item_is_drift(&w->items[i]);
    if (f == NULL)
        return STEP_ON;
    if (drift && !fight_allows(f, w->now_ms)) {
        w->held = true;
        come_back(w, f->until_ms);
    } else if (!drift && f->level > 0) {
        int64_t look = INT64_MAX;
        if (fight_calm(f, w->now_ms, &look))
            pass_event(w->p, false, "DriftFightOver", "Repair", "nobody changes the files any more");
        else
            come_back(w, look);
    }
    return STEP_ON;
}

static void count_repair(struct work *w, const struct cfg_item *i, const char *what)
{
    struct cfg_run *run = w->run;
    run->repairs++;
    pass_event(w->p, false, "DriftRepaired", "Repair", "%.600s: %s", i->want->path, what);
    if (run->fight == NULL)
        run->fight = calloc(1, sizeof(*run->fight));
    if (run->fight == NULL || !fight_repaired(run->fight, i->want->path, w->now_ms))
        return;
    pass_event(w->p, true, "DriftFight", "Repair", "another writer keeps changing %.600s; repairs come at longer intervals now",
               i->want->path);
}

static void fight_condition(struct work *w)
{
    const struct cfg_fight *f = w->run->fight;
    if (f == NULL || f->level == 0)
        status_cond(w->p->status, "DriftFight", COND_FALSE, "Peace", "no other writer is at these files");
    else
        status_cond(w->p->status, "DriftFight", COND_TRUE, "AnotherWriter",
                    "%.600s is changed again and again; it is put right every %" PRId64 " s", f->path, fight_wait_ms(f) / 1000);
}

// --- Intents: durable before the machine is touched

static struct cfg_record *new_record(struct work *w, struct cfg_item *i)
{
    struct cfg_record *r = &w->records.items[w->records.n++];
    *r = (struct cfg_record){ .path = arena_strdup(w->p->arena, i->want->path) };
    i->record = r;
    return r->path != NULL ? r : NULL;
}

static int put_record(struct work *w, const struct cfg_item *i, struct err *e)
{
    i->record->policy = w->spec.deletion;
    return cfg_record_put(w->env->db, w->p->key, i->record, e);
}

// A path that is not ours yet: what lies there is saved before anything else may happen to it.
static int take_over(struct work *w, struct cfg_item *i, bool *commit, struct err *e)
{
    struct cfg_record *r = new_record(w, i);
    if (r == NULL)
        return err_set(e, E_NOMEM, "record of %s", i->want->path);
    int rc = cfg_item_backup(w->env, w->p->key, i, r, w->spec.deletion, e);
    if (rc < 0)
        return rc;
    cfg_record_aim(r, &i->version);
    r->applied = !i->differs;
    *commit |= i->differs;
    return put_record(w, i, e);
}

static int intend_item(struct work *w, struct cfg_item *i, bool *commit, struct err *e)
{
    if (i->record == NULL)
        return take_over(w, i, commit, e);
    bool same = cfg_version_equal(&i->record->written, &i->version);
    bool settled = i->record->applied || i->differs;
    if (same && settled && i->record->policy == w->spec.deletion)
        return 0;
    // Without an onChange to owe, the write may come first: should we die in between, the file matches and the next pass takes note.
    if (!same && i->differs && w->spec.on_change.argv == NULL)
        return 0;
    if (!same)
        cfg_record_aim(i->record, &i->version);
    i->record->applied = !i->differs || (same && i->record->applied);
    return put_record(w, i, e);
}

static int removal_of(struct work *w, const struct cfg_record *r, enum cfg_release *what, struct err *e)
{
    *what = CFG_UNTOUCHED;
    return cfg_spec_file(&w->spec, r->path) == NULL ? cfg_release_plan(w->env, r, w->spec.deletion, what, e) : 0;
}

static int will_touch(struct work *w, bool *touch, struct err *e)
{
    enum cfg_release what;
    *touch = false;
    for (size_t i = 0; i < w->spec.n_files; i++)
        *touch |= must_write(w, &w->items[i]);
    for (size_t i = 0; !*touch && i < w->records.n; i++) {
        int rc = removal_of(w, &w->records.items[i], &what, e);
        if (rc < 0)
            return rc;
        *touch = what == CFG_RESTORED || what == CFG_REMOVED;
    }
    return 0;
}

static int owe_change(struct work *w, bool *commit, struct err *e)
{
    bool touch = false;
    bool wanted = w->spec.on_change.argv != NULL;
    int rc = wanted && !w->owed ? will_touch(w, &touch, e) : 0;
    if (rc < 0 || (wanted ? !touch : !w->owed))
        return rc;
    *commit |= wanted;
    w->owed = wanted;
    return cfg_owed_set(w->env->db, w->p->key, wanted, e);
}

static int record_intents(struct work *w, struct err *e)
{
    bool commit = false;
    int rc = owe_change(w, &commit, e);
    for (size_t i = 0; rc == 0 && i < w->spec.n_files; i++)
        rc = intend_item(w, &w->items[i], &commit, e);
    if (rc == E_TOOBIG)
        return block(w, "CannotSave", e->msg);
    if (rc < 0 || !commit)
        return rc;
    w->progress = "Applying";
    w->why = "files are about to be written";
    status_cond(w->p->status, "Ready", COND_FALSE, "Applying", "%s", w->why);
    pass_after_commit(w->p);
    return STEP_END;
}

// --- Acting

// A copy that is lost or damaged cannot be put back, now or later: the file stays, and somebody hears of it.
static int release(struct pass *p, const struct cfg_record *r, enum cfg_deletion policy, struct err *e)
{
    static const char *const what_text[] = { [CFG_RESTORED] = "restored", [CFG_REMOVED] = "removed" };
    struct err why = ERR_INIT;
    enum cfg_release what;
    int rc = cfg_release_plan(p->env, r, policy, &what, e);
    if (rc < 0)
        return rc;
    rc = cfg_release_do(p->env, p->key, r, what, &why);
    if (what == CFG_RESTORED && (rc == E_NOTFOUND || rc == E_CORRUPT))
        what = CFG_NO_BACKUP;
    else if (rc < 0) {
        *e = why;
        return rc;
    }
    if (what == CFG_FOREIGN)
        pass_event(p, true, "KeptForeign", "Release", "%.600s was changed by somebody else and stays as it is", r->path);
    else if (what == CFG_NO_BACKUP)
        pass_event(p, true, "KeptNoBackup", "Release", "%.600s stays as it is: what lay there before could not be kept", r->path);
    else if (what != CFG_UNTOUCHED)
        pass_event(p, false, "Released", "Release", "%.600s was %s", r->path, what_text[what]);
    rc = cfg_record_delete(p->env->db, p->key, r->path, e);
    return rc == 0 ? cfg_backup_remove(p->env, p->key, r->path, e) : rc;
}

static int release_removed(struct work *w, struct err *e)
{
    for (size_t i = 0; i < w->records.n; i++) {
        const struct cfg_record *r = &w->records.items[i];
        int rc = cfg_spec_file(&w->spec, r->path) == NULL ? release(w->p, r, w->spec.deletion, e) : 0;
        if (rc < 0)
            return rc;
    }
    return STEP_ON;
}

static int write_item(struct work *w, struct cfg_item *i, struct err *e)
{
    char what[64];
    bool drift = cfg_item_is_drift(i);
    cfg_item_differences(i, what, NULL);
    int rc = cfg_item_write(w->env, i, e);
    if (rc < 0)
        return err_wrap(e, "writing");
    log_info("edgeconfig", "wrote key=%s path=%s differed=\"%s\"", w->p->key, i->want->path, what);
    if (drift)
        count_repair(w, i, what);
    i->differs = false;
    w->run->applied_us = clock_wall_us(w->env->clock);
    if (drift)
        return 0;
    cfg_record_aim(i->record, &i->version);
    i->record->applied = true;
    return put_record(w, i, e);
}

static int write_files(struct work *w, struct err *e)
{
    for (size_t i = 0; i < w->spec.n_files; i++) {
        int rc = must_write(w, &w->items[i]) ? write_item(w, &w->items[i], e) : 0;
        if (rc < 0)
            return rc;
    }
    return STEP_ON;
}

static int run_on_change(struct work *w, struct err *e)
{
    static const char *const no_vars[] = { NULL };
    struct cfg_run *run = w->run;
    char text[ERR_MSG_MAX];
    if (!w->owed)
        return STEP_ON;
    if (run->failed_change != w->spec_hash)
        run->change_failures = 0;
    if (run->change_failures == 0 || w->now_ms >= run->change_at_ms)
        return start_command(w, ROLE_ON_CHANGE, &w->spec.on_change, no_vars, e);
    come_back(w, run->change_at_ms);
    w->progress = "OnChangeFailed";
    w->why = "onChange is tried again";
    snprintf(text, sizeof(text), "onChange: %.360s", verdict(run));
    return block(w, "OnChangeFailed", text);
}

// --- Reporting

static void report_body(struct work *w, int64_t *kept)
{
    char what[64], at[RFC3339_MAX];
    struct json *body = status_body(w->p->status), *list = json_array();
    *kept = 0;
    for (size_t i = 0; i < w->spec.n_files; i++) {
        if (w->items[i].observed && !w->items[i].differs)
            ++*kept;
        else if (w->items[i].observed && json_len(list) + 4 <= DIFFERENCES_MAX) // a file adds at most four
            cfg_item_differences(&w->items[i], what, list);
    }
    json_set_str(body, "revision", w->spec.revision);
    json_set_int(body, "files", *kept);
    json_set_int(body, "driftRepairs", w->run->repairs);
    if (w->run->applied_us != 0)
        json_set_str(body, "lastAppliedTime", rfc3339_sec(w->run->applied_us, at));
    json_set(body, "differences", list);
}

static void report(struct work *w, const struct err *failed)
{
    struct status *s = w->p->status;
    int64_t kept;
    report_body(w, &kept);
    fight_condition(w);
    if (failed != NULL)
        status_cond(s, "Ready", COND_FALSE, "ApplyFailed", "%s", failed->msg);
    if (!status_cond_is_set(s, "Ready") && w->held)
        status_cond(s, "Ready", COND_FALSE, "DriftFight", "%.600s differs, and another writer keeps at it", w->run->fight->path);
    else if (!status_cond_is_set(s, "Ready"))
        status_cond(s, "Ready", COND_TRUE, "AllApplied", "%" PRId64 " of %zu files are as they should be", kept, w->spec.n_files);
    if (failed != NULL)
        status_cond(s, "Progressing", COND_TRUE, "Retrying", "%s", failed->msg);
    else if (w->progress != NULL)
        status_cond(s, "Progressing", COND_TRUE, w->progress, "%s", w->why);
    else
        status_cond(s, "Progressing", COND_FALSE, "Complete", "nothing is under way");
}

static void follow_drift(struct work *w)
{
    // The other writer must not wake us each time while we hold back.
    if (w->held)
        cfg_unwatch(&w->run->watches, w->env);
    else
        cfg_watch(&w->run->watches, w->env, w->p->os, &w->spec);
}

static int cfg_reconcile(struct pass *p, struct err *e)
{
    static int (*const steps[])(struct work *, struct err *) = {
        take_verdict, settle_owner, observe, validate, settle_fight, record_intents, release_removed, write_files, run_on_change,
    };
    struct work w = { .p = p, .run = p->state, .env = p->env, .now_ms = clock_mono(p->env->clock), .look_ms = INT64_MAX };
    int rc = load(&w, e);
    if (rc < 0) {
        status_keep_prev(p->status);
        return rc;
    }
    load_prev(&w);
    for (size_t i = 0; rc == STEP_ON && i < ARRAY_LEN(steps); i++)
        rc = steps[i](&w, e);
    if (p->waiting)
        return 0;
    follow_drift(&w);
    report(&w, rc < 0 ? e : NULL);
    if (w.look_ms < INT64_MAX)
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
        return cfg_backup_remove_all(p->env, p->key, e);
    for (size_t i = 0; rc == 0 && i < records.n; i++)
        rc = release(p, &records.items[i], records.items[i].policy, e);
    return rc == 0 ? pass_after_commit(p) : rc;
}

static void cfg_fini(const struct kind_env *env, void *state)
{
    struct cfg_run *run = state;
    stop_command(env, run, NULL);
    cfg_unwatch(&run->watches, env);
    drop_verdict(run);
    free(run->fight);
    run->fight = NULL;
}

static int cfg_boot(const struct kind *k, struct kind_env *env, struct err *e)
{
    (void)k;
    return cfg_backup_sweep(env, e);
}

// --- `limpet get -o diff`

static int cfg_differences(struct pass *p, struct json *out, struct err *e)
{
    struct work w = { .p = p, .run = p->state, .env = p->env };
    char what[64];
    int rc = load(&w, e);
    for (size_t i = 0; rc == 0 && i < w.spec.n_files; i++) {
        rc = cfg_item_observe(w.env, &w.items[i], e);
        if (rc == 0 && w.items[i].differs)
            cfg_item_differences(&w.items[i], what, out);
    }
    return rc;
}

static const char *const cfg_short_names[] = { "ecfg", NULL };
static const char *const cfg_conditions[] = { "Accepted", "Progressing", "Ready", "DriftFight", NULL };

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
    .gone = cfg_gone,
    .cancel = cfg_cancel,
    .fini = cfg_fini,
    .boot = cfg_boot,
    .differences = cfg_differences,
};
