// SPDX-License-Identifier: Apache-2.0
// The onChange that is owed: run until it succeeded once, ever more seldom while it fails.
#include <stdio.h>
#include <string.h>

#include "kinds/edgeapp_mark.h"
#include "kinds/edgeconfig_pass.h"

enum { RETRY_FIRST_MS = 1000, RETRY_MAX_MS = 300000 };

bool cfg_has_on_change(const struct cfg_spec *s)
{
    return s->on_change.argv != NULL || s->on_app.name != NULL;
}

// A salvaged store may have lost the note that an onChange is owed, and a file that matches shows nothing: once too often is the lesser harm.
int cfg_owe_after_salvage(struct cfg_pass *w, struct err *e)
{
    int times = db_salvaged(w->env->db)->times;
    bool may_be_lost = times != w->run->salvages && !w->owed && cfg_has_on_change(&w->spec);
    w->run->salvages = times;
    if (!may_be_lost)
        return 0;
    w->owed = true;
    return cfg_owed_set(w->env->db, w->p->key, true, e);
}

int64_t cfg_retry_later(struct cfg_retry *r, uint64_t spec, int64_t now_ms)
{
    int64_t wait = MIN((int64_t)RETRY_FIRST_MS << MIN(r->failures, 9), RETRY_MAX_MS);
    *r = (struct cfg_retry){ r->failures + 1, spec, now_ms + wait };
    return wait;
}

bool cfg_retry_due(struct cfg_retry *r, uint64_t spec, int64_t now_ms)
{
    if (r->spec != spec)
        r->failures = 0;
    return r->failures == 0 || now_ms >= r->at_ms;
}

static int succeeded(struct cfg_pass *w, struct err *e)
{
    w->run->change.failures = 0;
    w->owed = false;
    cfg_drop_verdict(w->run);
    int rc = app_mark_delete(w->env->db, w->p->key, e);
    return rc == 0 ? cfg_owed_set(w->env->db, w->p->key, false, e) : rc;
}

static void failed(struct cfg_pass *w, uint64_t spec, const char *why)
{
    (void)cfg_retry_later(&w->run->change, spec, w->now_ms);
    if (cfg_keep_verdict(w->run, why))
        pass_event(w->p, true, "OnChangeFailed", "OnChange", "%s", why);
}

int cfg_changed(struct cfg_pass *w, const struct command *c, struct err *e)
{
    if (c->ok)
        return succeeded(w, e);
    failed(w, w->run->command_spec, c->verdict.msg);
    return 0;
}

// A change on trial waits for its end no longer than for the server.
static int64_t time_allowed(const struct cfg_pass *w)
{
    int64_t left = w->sw.until_boot_ms - clock_boot(w->env->clock);
    return w->sw.state == SWITCH_TRIAL ? MIN(w->spec.on_change.timeout_ms, MAX(left, (int64_t)1)) : w->spec.on_change.timeout_ms;
}

static int try_it(struct cfg_pass *w, struct err *e)
{
    static const char *const no_vars[] = { NULL };
    struct cfg_command command = w->spec.on_change;
    if (w->spec.on_app.name != NULL) {
        int rc = cfg_change_app(w, e);
        return rc == CFG_ON ? succeeded(w, e) : rc;
    }
    command.timeout_ms = time_allowed(w);
    return cfg_start_command(w, ROLE_ON_CHANGE, &command, no_vars, e);
}

int cfg_run_on_change(struct cfg_pass *w, struct err *e)
{
    struct cfg_run *run = w->run;
    struct err text = ERR_INIT;
    if (!w->owed)
        return CFG_ON;
    if (cfg_retry_due(&run->change, w->spec_hash, w->now_ms))
        return try_it(w, e);
    cfg_come_back(w, run->change.at_ms);
    w->progress = "OnChangeFailed";
    w->why = "onChange is tried again";
    err_set(&text, E_TERMINAL, "onChange: %s", cfg_verdict(run));
    return cfg_block(w, "OnChangeFailed", text.msg);
}
