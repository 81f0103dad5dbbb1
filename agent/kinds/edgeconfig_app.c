// SPDX-License-Identifier: Apache-2.0
// onChange.app: an EdgeApp is made to read its files anew, by a signal to each of its instances or by new instances.
//
// A restart is a mark on the app (edgeapp_mark.h): instances from before are superseded, and the app replaces them as it would for a new
// revision, maxUnavailable at a time. It has succeeded when none of them is left. "restarting" is the intent that says which mark is ours.
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "data/key.h"
#include "flow/policy.h"
#include "kinds/edgeapp_mark.h"
#include "kinds/edgeconfig_pass.h"
#include "kinds/registry.h"

enum { APP_MISSING_MS = 30000, WINDOW_MS = 60000, ROLLING_MS = 1000 };

static int wait_for(struct cfg_pass *w, int64_t ms, const char *reason, const char *text)
{
    cfg_come_back(w, w->now_ms + ms);
    w->progress = reason;
    w->why = "onChange is owed";
    return cfg_block(w, reason, text);
}

static int app_key(const struct cfg_pass *w, char key[KEY_MAX], struct err *e)
{
    return key_make(key, kind_edgeapp.type.plural, w->p->ns, w->spec.on_app.name, e);
}

// --- A signal

struct signalling {
    struct cfg_pass *w;
    char uids[PORT_INSTANCES_MAX][INST_UID_MAX];
    size_t n;
};

static int collect_running(void *ctx, const struct inst *i)
{
    struct signalling *s = ctx;
    if (i->state == INST_RUNNING && s->n < PORT_INSTANCES_MAX)
        memcpy(s->uids[s->n++], i->uid, INST_UID_MAX);
    return 0;
}

// One that ended meanwhile needs none: the next one reads the new files.
static int signal_all(struct cfg_pass *w, const char *key, struct err *e)
{
    struct port *port = w->env->port;
    struct signalling *s = arena_alloc(w->p->arena, sizeof(*s));
    if (s == NULL)
        return err_set(e, E_NOMEM, "instances of %s", key);
    s->n = 0;
    int rc = port->ops->each(port, key, collect_running, s, e);
    for (size_t i = 0; rc == 0 && i < s->n; i++) {
        struct err why = ERR_INIT;
        int sent = port->ops->signal(port, s->uids[i], w->spec.on_app.signal, &why);
        if (sent < 0 && sent != E_NOTFOUND) {
            *e = why;
            return sent;
        }
    }
    return rc;
}

// --- A restart

struct counting {
    const struct app_mark *mark;
    int old;
};

static int count_old(void *ctx, const struct inst *i)
{
    struct counting *c = ctx;
    c->old += i->state != INST_EXITED && app_mark_outdates(c->mark, i);
    return 0;
}

static bool is_window(const struct cfg_pass *w, char *why, size_t max)
{
    const struct policy *p = w->env->policy;
    return p == NULL || !policy_has_windows(p) || policy_disruption_allowed(p, why, max);
}

static int begin_restart(struct cfg_pass *w, const char *key, struct err *e)
{
    char why[160];
    if (!is_window(w, why, sizeof(why)))
        return wait_for(w, WINDOW_MS, "MaintenanceWindow", why);
    int rc = app_mark_put(w->env, key, e);
    if (rc == 0)
        rc = app_mark_copy(w->env->db, key, w->p->key, e);
    if (rc < 0)
        return rc;
    w->run->app_told = false;
    pass_after_commit(w->p);
    return wait_for(w, ROLLING_MS, "Restarting", "the app is about to be restarted");
}

static int follow_restart(struct cfg_pass *w, const char *key, const struct app_mark *mark, struct err *e)
{
    struct counting c = { mark, 0 };
    struct err text = ERR_INIT;
    int rc = w->env->port->ops->each(w->env->port, key, count_old, &c, e);
    if (rc < 0)
        return rc;
    if (!w->run->app_told)
        engine_touch(w->env->engine, key, "restart");
    w->run->app_told = true;
    if (c.old == 0)
        return CFG_ON;
    err_set(&text, E_BUSY, "EdgeApp %.100s: %d of its instances are still from before the change", w->spec.on_app.name, c.old);
    return wait_for(w, ROLLING_MS, "Restarting", text.msg);
}

static int restart(struct cfg_pass *w, const char *key, struct err *e)
{
    struct app_mark mark;
    int rc = app_mark_load(&mark, w->env->db, w->p->key, e);
    if (rc < 0)
        return rc;
    return mark.boot_id[0] != '\0' ? follow_restart(w, key, &mark, e) : begin_restart(w, key, e);
}

// CFG_ON: done.
int cfg_change_app(struct cfg_pass *w, struct err *e)
{
    char key[KEY_MAX], rv[OBJ_RV_MAX], uid[OBJ_UID_MAX];
    struct err why = ERR_INIT;
    int rc = app_key(w, key, e);
    if (rc == 0)
        rc = cache_rv(w->env->cache, key, rv, uid, &why);
    if (rc == E_NOTFOUND) {
        err_set(&why, E_NOTFOUND, "onChange: there is no EdgeApp %.200s here", w->spec.on_app.name);
        return wait_for(w, APP_MISSING_MS, "AppNotFound", why.msg);
    }
    if (rc < 0) {
        *e = why;
        return rc;
    }
    return w->spec.on_app.restart ? restart(w, key, e) : signal_all(w, key, e);
}
