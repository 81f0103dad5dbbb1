// SPDX-License-Identifier: Apache-2.0
// Contents out of Secrets and ConfigMaps.
#include <string.h>

#include "kinds/edgeconfig_pass.h"

static int declare(struct cfg_pass *w, struct err *e)
{
    size_t n = 0;
    struct ref *list = arena_alloc(w->p->arena, (w->spec.n_entries + 1) * sizeof(*list));
    if (list == NULL)
        return err_set(e, E_NOMEM, "references");
    for (size_t i = 0; i < w->spec.n_entries; i++)
        if (w->spec.entries[i].from.name != NULL)
            list[n++] = w->spec.entries[i].from;
    return w->env->refs != NULL ? refs_declare(w->env->refs, w->p->key, list, n, e) : 0;
}

// False: there is nothing to write. Of a file that we once wrote, not knowing is no reason to take it away.
static bool take(struct cfg_pass *w, struct cfg_entry *f, const struct ref_value *v)
{
    if (!references_note(&w->found, w->env->refs, &f->from, v->state)) {
        if (v->state == REF_UNKNOWN && cfg_record_of(&w->records, f->path, false) != NULL)
            references_unfit(&w->found, &f->from, "not known at present; its file stays");
        return false;
    }
    if (v->len > CFG_CONTENT_MAX) {
        references_unfit(&w->found, &f->from, "is larger than a file may be");
        return false;
    }
    f->content = v->data;
    f->len = v->len;
    sha256_hex(v->data, v->len, f->sha);
    w->spec_hash = hash_bytes(w->spec_hash, f->sha, strlen(f->sha)); // a new value is validated anew
    return true;
}

int cfg_resolve(struct cfg_pass *w, struct err *e)
{
    struct refs_reader reader AUTO_REFS;
    struct ref_value v;
    size_t kept = 0;
    int rc = declare(w, e);
    refs_reader_init(&reader, w->env->refs, w->p->arena);
    for (size_t i = 0; i < w->spec.n_entries && rc == 0; i++) {
        struct cfg_entry *f = &w->spec.entries[i];
        if (f->from.name != NULL)
            rc = refs_read(&reader, &f->from, &v, e);
        if (rc == 0 && (f->from.name == NULL || take(w, f, &v)))
            w->spec.entries[kept++] = *f;
    }
    if (rc == 0)
        w->spec.n_entries = kept;
    return rc;
}
