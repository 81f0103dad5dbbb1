// SPDX-License-Identifier: Apache-2.0
// What the server hears of its object while a file of this node defines the same one: Accepted=False, ShadowedByFile, in a slot beside
// the file's own status, which is for nobody but this machine.
#include <string.h>

#include "flow/reconcile_priv.h"

static bool is_told(const struct status_slot *slot, const char *uid, uint64_t hash)
{
    return strcmp(slot->uid, uid) == 0 && slot->hash == hash;
}

static int tell(struct engine *g, const char *slot_key, const char *uid, int64_t generation, const char *file, struct err *e)
{
    static const char *const conditions[] = { "Accepted", NULL };
    struct status_slot slot AUTO_SLOT = STATUS_SLOT_INIT;
    struct buf text AUTO_BUF = BUF_INIT(4096);
    struct json *prev AUTO_JSON = NULL;
    struct status *s = NULL;
    uint64_t hash = 0;
    if (outbox_status_get(g->env->outbox, slot_key, &slot, NULL) == 0 && strcmp(slot.uid, uid) == 0 &&
        json_parse(&prev, buf_str(&slot.json), slot.json.len, NULL) < 0)
        prev = NULL;
    int rc = status_new(&s, g->env->clock, prev, conditions, generation, e);
    if (rc < 0)
        return rc;
    status_cond(s, "Accepted", COND_FALSE, "ShadowedByFile", "manifest %s on the node defines it; what that says is what is made true",
                file);
    rc = status_finish(s, &hash, e);
    if (rc == 0 && !is_told(&slot, uid, hash))
        rc = status_print(s, &text, e);
    if (rc == 0 && text.len > 0)
        rc = outbox_status_put(g->env->outbox, slot_key, uid, generation, buf_str(&text), text.len, hash, e);
    status_free(s);
    return MIN(rc, 0);
}

int twin_report(struct engine *g, const struct object_state *os, const char *source, struct err *e)
{
    char rv[OBJ_RV_MAX], uid[OBJ_UID_MAX], slot_key[KEY_MAX + sizeof(OUTBOX_TWIN)];
    int64_t generation = 0;
    struct err why = ERR_INIT;
    outbox_twin_key(os->key, slot_key);
    int rc = cache_rv(g->env->cache, os->key, rv, uid, &why);
    if (rc == E_NOTFOUND)
        return outbox_status_delete(g->env->outbox, slot_key, e);
    if (rc < 0 || !os->kind->write_status) // damaged: it is told when it is whole again
        return 0;
    rc = cache_generation(g->env->cache, os->key, &generation, e);
    return rc < 0 ? rc : tell(g, slot_key, uid, generation, source + strlen(CACHE_FILE_SOURCE), e);
}

int twin_forget(struct engine *g, const char *key, struct err *e)
{
    char slot_key[KEY_MAX + sizeof(OUTBOX_TWIN)];
    outbox_twin_key(key, slot_key);
    return outbox_status_delete(g->env->outbox, slot_key, e);
}
