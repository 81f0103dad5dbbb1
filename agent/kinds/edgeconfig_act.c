// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"
#include "kinds/edgeapp_mark.h"
#include "kinds/edgeconfig_pass.h"

static bool must_write(const struct cfg_pass *w, const struct cfg_item *i)
{
    return i->differs && !(w->held && cfg_item_is_drift(i));
}

// --- Intents: durable before the machine is touched

static struct cfg_record *new_record(struct cfg_pass *w, struct cfg_item *i)
{
    struct cfg_record *r = &w->records.items[w->records.n++];
    *r = (struct cfg_record){ .path = arena_strdup(w->p->arena, i->want->path), .is_dir = i->want->is_dir };
    i->record = r;
    return r->path != NULL ? r : NULL;
}

static int put_record(struct cfg_pass *w, const struct cfg_item *i, struct err *e)
{
    i->record->policy = w->spec.deletion;
    return cfg_record_put(w->env->db, w->p->key, i->record, e);
}

// A path that is not ours yet: what lies there is saved before anything else may happen to it.
static int take_over(struct cfg_pass *w, struct cfg_item *i, bool *commit, struct err *e)
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

static int intend_item(struct cfg_pass *w, struct cfg_item *i, bool *commit, struct err *e)
{
    if (i->record == NULL)
        return take_over(w, i, commit, e);
    bool same = cfg_version_equal(&i->record->written, &i->version);
    bool settled = i->record->applied || i->differs;
    if (same && settled && i->record->policy == w->spec.deletion)
        return 0;
    // Without an onChange to owe, the write may come first: should we die in between, the file matches and the next pass takes note.
    if (!same && i->differs && !cfg_has_on_change(&w->spec))
        return 0;
    if (!same)
        cfg_record_aim(i->record, &i->version);
    i->record->applied = !i->differs || (same && i->record->applied);
    return put_record(w, i, e);
}

bool cfg_leaves(const struct cfg_pass *w, const struct cfg_record *r)
{
    return cfg_spec_entry(&w->spec, r->path, r->is_dir) == NULL;
}

// On trial what left is needed for the way back, and after it it is what is wanted.
static bool keeps_all(const struct cfg_pass *w)
{
    return w->sw.state == SWITCH_TRIAL || w->sw.state == SWITCH_FAILED || w->partial;
}

static int removal_of(struct cfg_pass *w, const struct cfg_record *r, enum cfg_release *what, struct err *e)
{
    *what = CFG_UNTOUCHED;
    return cfg_leaves(w, r) && !keeps_all(w) ? cfg_release_plan(w->env, r, w->spec.deletion, what, e) : 0;
}

// A directory that leaves the list changes nothing that anybody reads: it is given back at last, when its files are.
static int will_touch(struct cfg_pass *w, bool *touch, struct err *e)
{
    enum cfg_release what = CFG_UNTOUCHED;
    *touch = false;
    for (size_t i = 0; i < w->spec.n_entries; i++)
        *touch |= must_write(w, &w->items[i]);
    for (size_t i = 0; !*touch && i < w->records.n; i++) {
        int rc = w->records.items[i].is_dir ? 0 : removal_of(w, &w->records.items[i], &what, e);
        if (rc < 0)
            return rc;
        *touch = what == CFG_RESTORED || what == CFG_REMOVED;
    }
    return 0;
}

static int owe_change(struct cfg_pass *w, bool *commit, struct err *e)
{
    bool touch = false;
    bool wanted = cfg_has_on_change(&w->spec);
    int rc = wanted ? will_touch(w, &touch, e) : 0;
    if (rc == 0 && touch && w->owed) // a restart that is under way does not know of this change
        return app_mark_delete(w->env->db, w->p->key, e);
    if (rc < 0 || (wanted ? !touch : !w->owed))
        return rc;
    *commit |= wanted;
    w->owed = wanted;
    return cfg_owed_set(w->env->db, w->p->key, wanted, e);
}

int cfg_intend(struct cfg_pass *w, struct err *e)
{
    bool commit = false;
    int rc = owe_change(w, &commit, e);
    if (rc == 0)
        rc = cfg_switch_intend(w, &commit, e);
    for (size_t i = 0; rc == 0 && i < w->spec.n_entries; i++)
        rc = intend_item(w, &w->items[i], &commit, e);
    if (rc == E_TOOBIG)
        return cfg_block(w, "CannotSave", e->msg);
    if (rc < 0 || !commit)
        return rc;
    w->progress = "Applying";
    w->why = w->owed ? "files are being written, then onChange runs" : "files are about to be written";
    status_cond(w->p->status, "Ready", COND_FALSE, "Applying", "%s", w->why);
    pass_after_commit(w->p);
    return CFG_END;
}

// --- Acting

void cfg_tell_released(struct pass *p, const char *path, enum cfg_release what)
{
    char shown[CFG_SHOWN_MAX];
    (void)cfg_shown(shown, path);
    switch (what) {
    case CFG_RESTORED:
        pass_event(p, false, "Released", "Release", "%s was restored", shown);
        break;
    case CFG_REMOVED:
        pass_event(p, false, "Released", "Release", "%s was removed", shown);
        break;
    case CFG_FOREIGN:
        pass_event(p, true, "KeptForeign", "Release", "%s was changed by somebody else and stays as it is", shown);
        break;
    case CFG_NOT_EMPTY:
        pass_event(p, true, "KeptForeign", "Release", "%s is not empty and stays: what is in it is somebody else's", shown);
        break;
    case CFG_NO_BACKUP:
        pass_event(p, true, "KeptNoBackup", "Release", "%s stays as it is: what lay there before could not be kept", shown);
        break;
    case CFG_UNTOUCHED:
        break;
    }
}

int cfg_release(struct pass *p, const struct cfg_record *r, enum cfg_deletion policy, struct err *e)
{
    struct cfg_run *run = p->state;
    enum cfg_release what;
    int rc = cfg_release_plan(p->env, r, policy, &what, e);
    if (rc == 0)
        rc = cfg_release_do(p->env, p->key, r, &what, e);
    if (rc < 0)
        return rc;
    cfg_tell_released(p, r->path, what);
    run->tidied = false; // the copy goes when this is durable
    return cfg_record_delete(p->env->db, p->key, r, e);
}

static int release_leaving(struct cfg_pass *w, bool dirs, struct err *e)
{
    if (keeps_all(w))
        return CFG_ON;
    for (size_t i = w->records.n; i-- > 0;) { // the deepest directory first
        const struct cfg_record *r = &w->records.items[i];
        int rc = r->is_dir == dirs && cfg_leaves(w, r) ? cfg_release(w->p, r, w->spec.deletion, e) : 0;
        if (rc < 0)
            return rc;
    }
    return CFG_ON;
}

int cfg_release_files(struct cfg_pass *w, struct err *e)
{
    return release_leaving(w, false, e);
}

int cfg_release_dirs(struct cfg_pass *w, struct err *e)
{
    return release_leaving(w, true, e);
}

static void count_repair(struct cfg_pass *w, const struct cfg_item *i, const char *what)
{
    char path[CFG_SHOWN_MAX];
    struct cfg_run *run = w->run;
    run->repairs++;
    pass_event(w->p, false, "DriftRepaired", "Repair", "%s: %s", cfg_shown(path, i->want->path), what);
    if (run->fight == NULL)
        run->fight = calloc(1, sizeof(*run->fight));
    if (run->fight == NULL || !fight_repaired(run->fight, i->want->path, w->now_ms))
        return;
    pass_event(w->p, true, "DriftFight", "Repair", "another writer keeps changing %s; repairs come at longer intervals now", path);
}

int cfg_item_stands(struct cfg_pass *w, struct cfg_item *i, struct err *e)
{
    char what[64];
    cfg_item_differences(i, what, NULL);
    log_info("edgeconfig", "wrote key=%s path=%s differed=\"%s\"", w->p->key, i->want->path, what);
    i->differs = false;
    w->run->applied_us = clock_wall_us(w->env->clock);
    cfg_record_aim(i->record, &i->version);
    i->record->applied = true;
    return put_record(w, i, e);
}

static int write_wanted(struct cfg_pass *w, const struct cfg_item *i, struct err *e)
{
    if (i->want->former && !i->want->is_dir)
        return cfg_undo_again(w->env, w->p->key, &w->sw, i->want->path, e);
    return cfg_item_write(w->env, i, e);
}

static int write_item(struct cfg_pass *w, struct cfg_item *i, struct err *e)
{
    char what[64];
    bool drift = cfg_item_is_drift(i);
    cfg_item_differences(i, what, NULL);
    int rc = write_wanted(w, i, e);
    if (rc < 0)
        return err_wrap(e, "writing");
    if (!drift)
        return cfg_item_stands(w, i, e);
    log_info("edgeconfig", "repaired key=%s path=%s differed=\"%s\"", w->p->key, i->want->path, what);
    count_repair(w, i, what);
    i->differs = false;
    w->run->applied_us = clock_wall_us(w->env->clock);
    return 0;
}

int cfg_write_files(struct cfg_pass *w, struct err *e)
{
    for (size_t i = 0; i < w->spec.n_entries; i++) {
        int rc = must_write(w, &w->items[i]) ? write_item(w, &w->items[i], e) : 0;
        if (rc < 0)
            return rc;
    }
    return CFG_ON;
}
