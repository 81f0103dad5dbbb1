// SPDX-License-Identifier: Apache-2.0
// A change of several files, or one on trial: all of it or none.
//
//  state  | what it means                          | next
//  NONE   | nothing is under way                   | GOING when a change touches several files, or one and confirmSeconds is set
//  GOING  | old files are kept, new ones move in   | all moved: NONE, or TRIAL; a failure puts back and stays; another spec: back, NONE
//  TRIAL  | waits for the server                   | reached: NONE; too late: BACK; another spec: back, NONE
//  BACK   | the old files return                   | all there: FAILED
//  FAILED | the old files are looked after          | another spec: NONE
//
// The order of effects is what makes it whole: copies, then the intent (commit), then new content under other names, then one rename after
// the other, then the intent that all stands. A cut before the last of these finds GOING at the next start, and puts back.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "flow/contact.h"
#include "kinds/edgeapp_mark.h"
#include "kinds/edgeconfig_pass.h"

// An outage that just began may be ours; one that lasts is none of this change's doing.
enum { REACH_WINDOW_MS = 60000, ASK_EVERY_MS = 1000 };
enum { OFTEN = 3 }; // tries of a set that fail: from then on it is said that they become rarer

static bool is_same_change(const struct cfg_pass *w)
{
    return strcmp(w->sw.revision, w->spec.revision) == 0;
}

static bool is_part(const struct cfg_item *i)
{
    return i->differs && !cfg_item_is_drift(i);
}

static int put_state(struct cfg_pass *w, enum cfg_switch_state state, struct err *e)
{
    w->sw.state = state;
    if (state == SWITCH_NONE) {
        w->sw.n = 0;
        w->run->tidied = false;
    }
    return cfg_switch_put(w->env->db, w->p->key, &w->sw, e);
}

// --- Beginning

// What a server that is out of reach says of a change that was made while it was out of reach already: nothing.
static void decide_trial(struct cfg_pass *w)
{
    const struct contact *c = w->env->contact;
    w->sw.confirm_ms = w->spec.confirm_ms;
    if (w->spec.confirm_ms == 0 || (c != NULL && contact_recent(c, w->env->clock, MAX(w->spec.confirm_ms, (int64_t)REACH_WINDOW_MS))))
        return;
    w->sw.confirm_ms = 0;
    pass_event(w->p, false, "NoTrial", "Apply", "the server is out of reach already: the change is not on trial and stays");
}

static int keep_item(struct cfg_pass *w, const struct cfg_item *i, size_t *added, struct err *e)
{
    if (!is_part(i) || cfg_undo_of(&w->sw, i->want->path) != NULL)
        return 0;
    ++*added;
    return cfg_undo_add(w->env, w->p->key, &w->sw, i->want, i->record != NULL, e);
}

// What is to be given back with the change. Directories are when it stands.
static int plan_removal(struct cfg_pass *w, const struct cfg_record *r, bool *touches, struct err *e)
{
    enum cfg_release what = CFG_UNTOUCHED;
    int rc = !r->is_dir && cfg_leaves(w, r) ? cfg_release_plan(w->env, r, w->spec.deletion, &what, e) : 0;
    *touches = what == CFG_RESTORED || what == CFG_REMOVED;
    return rc;
}

static int keep_removed(struct cfg_pass *w, const struct cfg_record *r, size_t *added, struct err *e)
{
    const struct cfg_entry x = { .path = r->path, .is_dir = r->is_dir };
    bool touches = false;
    int rc = cfg_undo_of(&w->sw, r->path) == NULL ? plan_removal(w, r, &touches, e) : 0;
    if (rc < 0 || !touches)
        return rc;
    ++*added;
    return cfg_undo_add(w->env, w->p->key, &w->sw, &x, true, e);
}

static int keep_all(struct cfg_pass *w, size_t *added, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < w->spec.n_entries; i++)
        rc = keep_item(w, &w->items[i], added, e);
    for (size_t i = 0; rc == 0 && i < w->records.n; i++)
        rc = keep_removed(w, &w->records.items[i], added, e);
    return rc;
}

static int count_touched(struct cfg_pass *w, size_t *n, struct err *e)
{
    *n = 0;
    for (size_t i = 0; i < w->spec.n_entries; i++)
        *n += is_part(&w->items[i]);
    for (size_t i = 0; i < w->records.n; i++) {
        bool touches;
        int rc = plan_removal(w, &w->records.items[i], &touches, e);
        if (rc < 0)
            return rc;
        *n += touches;
    }
    return 0;
}

// For the way back, when nobody can say any more what this spec was.
static int keep_on_change(struct cfg_pass *w, struct err *e)
{
    struct buf text AUTO_BUF = BUF_INIT(CFG_ON_CHANGE_MAX);
    const struct json *change = json_get(w->p->spec, "onChange");
    if (change == NULL)
        return 0;
    int rc = json_print(change, &text, e);
    if (rc < 0)
        return err_wrap(e, "onChange");
    w->sw.on_change = arena_strdup(w->p->arena, buf_str(&text));
    return w->sw.on_change != NULL ? 0 : err_set(e, E_NOMEM, "onChange");
}

int cfg_switch_intend(struct cfg_pass *w, bool *commit, struct err *e)
{
    size_t touched, added = 0;
    if (w->sw.state != SWITCH_NONE && w->sw.state != SWITCH_GOING)
        return 0;
    int rc = count_touched(w, &touched, e);
    if (rc < 0 || touched == 0 || (w->sw.state == SWITCH_NONE && touched == 1 && w->spec.confirm_ms == 0))
        return rc;
    rc = keep_all(w, &added, e);
    if (rc < 0 || (w->sw.state == SWITCH_GOING && added == 0))
        return rc;
    if (w->sw.state == SWITCH_NONE) {
        decide_trial(w);
        snprintf(w->sw.revision, sizeof(w->sw.revision), "%s", w->spec.revision);
        rc = keep_on_change(w, e);
    }
    if (rc < 0)
        return rc;
    w->sw.spec = w->spec_hash;
    *commit = true;
    return put_state(w, SWITCH_GOING, e);
}

// --- Replacing

static int stage_one(struct cfg_pass *w, const struct cfg_item *it, struct err *e)
{
    char staged[CFG_PATH_MAX + 64];
    if (it->want->is_dir)
        return cfg_item_write(w->env, it, e);
    cfg_staged_name(it->want->path, staged);
    return cfg_version_write(w->env, staged, it->want->content, it->want->len, &it->version, e);
}

// Directories are made at once: there new content finds its place.
static int stage_all(struct cfg_pass *w, struct err *e)
{
    for (size_t i = 0; i < w->spec.n_entries; i++) {
        const struct cfg_item *it = &w->items[i];
        int rc = is_part(it) ? stage_one(w, it, e) : 0;
        if (rc < 0)
            return err_wrap(e, "preparing");
    }
    return 0;
}

static int release_all(struct cfg_pass *w, enum cfg_release *done, struct err *e)
{
    for (size_t i = 0; i < w->records.n; i++) {
        const struct cfg_record *r = &w->records.items[i];
        done[i] = CFG_UNTOUCHED;
        if (cfg_undo_of(&w->sw, r->path) == NULL || !cfg_leaves(w, r))
            continue;
        int rc = cfg_release_plan(w->env, r, w->spec.deletion, &done[i], e);
        if (rc == 0)
            rc = cfg_release_do(w->env, w->p->key, r, &done[i], e);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int move_all(struct cfg_pass *w, struct err *e)
{
    char staged[CFG_PATH_MAX + 64];
    struct disk *d = w->env->disk;
    for (size_t i = 0; i < w->spec.n_entries; i++) {
        const struct cfg_item *it = &w->items[i];
        if (!is_part(it) || it->want->is_dir)
            continue;
        cfg_staged_name(it->want->path, staged);
        int rc = d->ops->rename(d, staged, it->want->path, FS_GUARDED, e);
        if (rc < 0)
            return err_wrap(e, "writing");
    }
    return 0;
}

// Where it lies again as it was, the error that kept the change away is told; else that, too.
static void undo_half(struct cfg_pass *w, struct err *e)
{
    struct err why = ERR_INIT;
    if (cfg_undo_restore(w->env, w->p->key, &w->sw, &why) < 0)
        err_wrap(e, "%.200s; before that", why.msg);
    else
        err_wrap(e, "nothing was changed");
}

static int await_retry(struct cfg_pass *w)
{
    cfg_come_back(w, w->run->set.at_ms);
    w->progress = "Retrying";
    w->why =
        w->run->set.failures < OFTEN ? "the change is tried again" : "the change is tried again, ever more seldom, at last every 5 min";
    return cfg_block(w, "ApplyFailed", cfg_verdict(w->run));
}

// Each try copies, writes and takes back all of the set, so there must not be many of them.
static int set_failed(struct cfg_pass *w, struct err *e)
{
    undo_half(w, e);
    int64_t wait = cfg_retry_later(&w->run->set, w->spec_hash, w->now_ms);
    log_warn("edgeconfig", "not_changed key=%s retry_ms=%" PRId64 " error=\"%s\"", w->p->key, wait, e->msg);
    if (cfg_keep_verdict(w->run, e->msg))
        pass_event(w->p, true, "ApplyFailed", "Apply", "%s", e->msg);
    return await_retry(w);
}

static int begin_trial(struct cfg_pass *w, struct err *e)
{
    struct instant now;
    clock_instant(w->env->clock, &now);
    snprintf(w->sw.boot_id, sizeof(w->sw.boot_id), "%s", now.boot_id);
    w->sw.until_boot_ms = now.boot_ms + w->sw.confirm_ms;
    w->sw.until_wall_us = now.trusted ? now.wall_us + w->sw.confirm_ms * 1000 : 0;
    w->sw.rebooted = false;
    w->sw.spec = w->spec_hash;
    w->run->settled_ms = 0;
    cfg_come_back(w, w->now_ms + w->sw.confirm_ms);
    return put_state(w, SWITCH_TRIAL, e);
}

static int set_stands(struct cfg_pass *w, const enum cfg_release *done, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < w->spec.n_entries; i++)
        rc = is_part(&w->items[i]) ? cfg_item_stands(w, &w->items[i], e) : 0;
    for (size_t i = 0; rc == 0 && i < w->records.n; i++)
        if (done[i] == CFG_RESTORED || done[i] == CFG_REMOVED) // of what stays it is told when its record goes
            cfg_tell_released(w->p, w->records.items[i].path, done[i]);
    if (rc < 0)
        return rc;
    return w->sw.confirm_ms > 0 ? begin_trial(w, e) : put_state(w, SWITCH_NONE, e);
}

int cfg_switch_files(struct cfg_pass *w, struct err *e)
{
    if (w->sw.state != SWITCH_GOING)
        return CFG_ON;
    if (!cfg_retry_due(&w->run->set, w->spec_hash, w->now_ms))
        return await_retry(w);
    enum cfg_release *done = arena_alloc(w->p->arena, (w->records.n + 1) * sizeof(*done));
    int rc = done != NULL ? stage_all(w, e) : err_set(e, E_NOMEM, "switch");
    if (rc == 0)
        rc = release_all(w, done, e);
    if (rc == 0)
        rc = move_all(w, e);
    if (rc < 0)
        return set_failed(w, e);
    w->run->set.failures = 0;
    rc = set_stands(w, done, e);
    return rc < 0 ? rc : CFG_ON;
}

// --- Putting back

// Records speak of what lies there now.
static int mend_records(struct cfg_pass *w, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < w->sw.n; i++) {
        const struct cfg_undo *u = &w->sw.files[i];
        struct cfg_record *r = cfg_record_of(&w->records, u->path, u->is_dir);
        if (u->lost) // what lies there may well be what its record says
            cfg_tell_released(w->p, u->path, CFG_NO_BACKUP);
        if (r == NULL || u->lost)
            continue;
        if (!u->ours) {
            rc = cfg_record_delete(w->env->db, w->p->key, r, e);
            continue;
        }
        if (u->present)
            cfg_record_aim(r, &u->was);
        r->applied = true;
        rc = cfg_record_put(w->env->db, w->p->key, r, e);
    }
    return rc;
}

static int put_back(struct cfg_pass *w, enum cfg_switch_state next, struct err *e)
{
    bool in_effect = w->sw.state != SWITCH_GOING;
    int rc = cfg_undo_restore(w->env, w->p->key, &w->sw, e);
    if (rc == 0)
        rc = mend_records(w, e);
    if (rc == 0 && in_effect && cfg_has_on_change(&w->spec))
        rc = cfg_owed_set(w->env->db, w->p->key, true, e);
    if (rc == 0)
        rc = app_mark_delete(w->env->db, w->p->key, e);
    if (rc == 0)
        rc = put_state(w, next, e);
    if (rc < 0)
        return rc;
    w->run->applied_us = clock_wall_us(w->env->clock);
    w->progress = "PuttingBack";
    w->why = "what was there before this change is back";
    pass_after_commit(w->p);
    return cfg_block(w, "PuttingBack", w->why);
}

static int give_up(struct cfg_pass *w, struct err *e)
{
    pass_event(w->p, true, "RolledBack", "Apply", "the server was not reached within %" PRId64 " s: what was there before is put back",
               w->sw.confirm_ms / 1000);
    int rc = put_state(w, SWITCH_BACK, e);
    if (rc < 0)
        return rc;
    w->progress = "PuttingBack";
    w->why = "the server was not reached in time; what was there before is put back";
    pass_after_commit(w->p);
    return cfg_block(w, "PuttingBack", w->why);
}

static int settle_trial(struct cfg_pass *w, struct err *e)
{
    struct instant now;
    clock_instant(w->env->clock, &now);
    if (!is_same_change(w))
        return put_back(w, SWITCH_NONE, e);
    if (!cfg_trial_resume(&w->sw, &now))
        return give_up(w, e);
    cfg_come_back(w, w->now_ms + (w->sw.until_boot_ms - now.boot_ms));
    return CFG_ON;
}

// --- After it was put back

static bool is_failed_spec(const struct cfg_pass *w)
{
    // What it refers to is a part of the hash: while that is not there, nothing can be said, and nothing tried.
    return w->sw.state == SWITCH_FAILED && (w->found.missing || w->partial || (w->sw.spec == w->spec_hash && is_same_change(w)));
}

static struct cfg_entry former_entry(struct cfg_pass *w, const struct cfg_undo *u)
{
    struct cfg_entry x = { .path = u->path, .is_dir = u->is_dir, .content = "", .mode = u->was.mode, .former = true };
    char owner[16], group[16];
    snprintf(owner, sizeof(owner), "%" PRIu32, u->was.uid);
    snprintf(group, sizeof(group), "%" PRIu32, u->was.gid);
    memcpy(x.sha, u->was.sha, sizeof(x.sha));
    x.owner = arena_strdup(w->p->arena, owner);
    x.group = arena_strdup(w->p->arena, group);
    return x;
}

// Ours before the change, and put back.
static bool is_former(const struct cfg_pass *w, const struct cfg_undo *u)
{
    const struct cfg_record *r = cfg_record_of(&w->records, u->path, u->is_dir);
    return u->ours && u->present && r != NULL && cfg_version_equal(&r->written, &u->was);
}

int cfg_former(struct cfg_pass *w, struct err *e)
{
    struct cfg_spec *s = &w->spec;
    size_t n = 0;
    if (!is_failed_spec(w))
        return 0;
    struct cfg_entry *all = arena_alloc(w->p->arena, (s->n_entries + w->sw.n + 1) * sizeof(*all));
    if (all == NULL)
        return err_set(e, E_NOMEM, "files");
    for (size_t i = 0; i < s->n_entries; i++) {
        const struct cfg_entry *x = &s->entries[i];
        if (cfg_undo_of(&w->sw, x->path) == NULL && cfg_record_of(&w->records, x->path, x->is_dir) != NULL)
            all[n++] = *x;
    }
    for (size_t i = 0; i < w->sw.n; i++)
        if (is_former(w, &w->sw.files[i]))
            all[n++] = former_entry(w, &w->sw.files[i]);
    s->entries = all;
    s->n_entries = n;
    w->former = true;
    return cfg_spec_revise(s, w->p->arena, e);
}

static int stay_back(struct cfg_pass *w)
{
    if (w->found.missing)
        return cfg_block(w, "CreateContainerConfigError", w->found.why);
    return cfg_block(
        w, "RolledBack",
        "the server was out of reach after this change; what was there before is back, and this is not tried again until the spec "
        "changes");
}

int cfg_settle_switch(struct cfg_pass *w, struct err *e)
{
    switch (w->sw.state) {
    case SWITCH_NONE:
        break;
    case SWITCH_GOING:
        return is_same_change(w) ? CFG_ON : put_back(w, SWITCH_NONE, e);
    case SWITCH_TRIAL:
        return settle_trial(w, e);
    case SWITCH_BACK:
        return put_back(w, SWITCH_FAILED, e);
    case SWITCH_FAILED:
        if (!w->former && !w->partial) {
            int rc = put_state(w, SWITCH_NONE, e);
            return rc < 0 ? rc : CFG_ON;
        }
        break;
    }
    return CFG_ON;
}

// --- Confirming

static int confirmed(struct cfg_pass *w, struct err *e)
{
    pass_event(w->p, false, "Confirmed", "Apply", "the server was reached after the change: it stays");
    int rc = put_state(w, SWITCH_NONE, e);
    if (rc == 0)
        rc = cfg_release_files(w, e);
    return rc < 0 ? rc : cfg_release_dirs(w, e);
}

// Only a question that was asked after everything of the change was in effect counts.
int cfg_confirm(struct cfg_pass *w, struct err *e)
{
    struct contact *c = w->env->contact;
    struct err text = ERR_INIT;
    int64_t boot_ms = clock_boot(w->env->clock);
    if (w->sw.state == SWITCH_FAILED)
        return stay_back(w);
    if (w->sw.state != SWITCH_TRIAL)
        return CFG_ON;
    if (w->run->settled_ms == 0)
        w->run->settled_ms = boot_ms;
    if (c != NULL && c->proved_ms >= w->run->settled_ms)
        return confirmed(w, e);
    if (c != NULL)
        c->ask(c);
    cfg_come_back(w, w->now_ms + ASK_EVERY_MS);
    w->progress = "OnTrial";
    w->why = "the server has to be reached after the change";
    err_set(&text, E_BUSY, "put back unless the server is reached within %" PRId64 " s of the change", w->sw.confirm_ms / 1000);
    return cfg_block(w, "OnTrial", text.msg);
}

int cfg_judge(struct cfg_pass *w, struct err *e)
{
    w->partial = true;
    int rc = w->sw.state == SWITCH_TRIAL || w->sw.state == SWITCH_FAILED ? cfg_run_on_change(w, e) : CFG_ON;
    return rc == CFG_ON ? cfg_confirm(w, e) : rc;
}
