// SPDX-License-Identifier: Apache-2.0
// What a pass says: status and conditions.
#include <inttypes.h>

#include "kinds/edgeconfig_pass.h"

enum { DIFFERENCES_MAX = 16 }; // as the CRD bounds them

static void fight_condition(struct cfg_pass *w)
{
    char path[CFG_SHOWN_MAX];
    const struct cfg_fight *f = w->run->fight;
    if (f == NULL || f->level == 0)
        status_cond(w->p->status, "DriftFight", COND_FALSE, "Peace", "no other writer is at these files");
    else
        status_cond(w->p->status, "DriftFight", COND_TRUE, "AnotherWriter",
                    "%s is changed again and again; it is put right every %" PRId64 " s", cfg_shown(path, f->path),
                    fight_wait_ms(f) / 1000);
}

struct counts {
    int64_t files, dirs; // as they should be
};

static void report_body(struct cfg_pass *w, struct counts *kept)
{
    char what[64], at[RFC3339_MAX];
    struct json *body = status_body(w->p->status), *list = json_array();
    *kept = (struct counts){ 0 };
    for (size_t i = 0; i < w->spec.n_entries; i++) {
        if (w->items[i].observed && !w->items[i].differs)
            ++*(i < w->spec.n_dirs ? &kept->dirs : &kept->files);
        else if (w->items[i].observed && json_len(list) + 4 <= DIFFERENCES_MAX) // a file adds at most four
            cfg_item_differences(&w->items[i], what, list);
    }
    json_set_str(body, "revision", w->spec.revision);
    json_set_int(body, "files", kept->files);
    json_set_int(body, "directories", kept->dirs);
    json_set_int(body, "driftRepairs", w->run->repairs);
    if (w->run->applied_us != 0)
        json_set_str(body, "lastAppliedTime", rfc3339_sec(w->run->applied_us, at));
    json_set(body, "differences", list);
}

void cfg_report(struct cfg_pass *w, const struct err *failed)
{
    char path[CFG_SHOWN_MAX];
    struct status *s = w->p->status;
    struct counts kept;
    report_body(w, &kept);
    fight_condition(w);
    references_condition(&w->found, s);
    if (failed != NULL)
        status_cond(s, "Ready", COND_FALSE, "ApplyFailed", "%s", failed->msg);
    if (!status_cond_is_set(s, "Ready") && w->held)
        status_cond(s, "Ready", COND_FALSE, "DriftFight", "%s differs, and another writer keeps at it",
                    cfg_shown(path, w->run->fight->path));
    else if (!status_cond_is_set(s, "Ready"))
        status_cond(s, "Ready", COND_TRUE, "AllApplied", "%" PRId64 " of %zu files%s are as they should be", kept.files + kept.dirs,
                    w->spec.n_entries, w->spec.n_dirs > 0 ? " and directories" : "");
    if (failed != NULL)
        status_cond(s, "Progressing", COND_TRUE, "Retrying", "%s", failed->msg);
    else if (w->progress != NULL)
        status_cond(s, "Progressing", COND_TRUE, w->progress, "%s", w->why);
    else
        status_cond(s, "Progressing", COND_FALSE, "Complete", "nothing is under way");
}
