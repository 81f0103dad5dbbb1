// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgeconfig_fight.h"

#include <stdio.h>
#include <string.h>

bool fight_allows(const struct cfg_fight *f, int64_t now_ms)
{
    return f->level == 0 || now_ms >= f->until_ms;
}

int64_t fight_wait_ms(const struct cfg_fight *f)
{
    if (f->level == 0)
        return 0;
    return f->level > 5 ? FIGHT_WAIT_MAX_MS : MIN(FIGHT_WAIT_FIRST_MS << (f->level - 1), FIGHT_WAIT_MAX_MS);
}

// The counter of a path; when all are taken, the one that is longest without a repair begins anew.
static struct cfg_repairs *repairs_of(struct cfg_fight *f, const char *path, int64_t now_ms)
{
    uint64_t hash = hash_bytes(HASH_SEED, path, strlen(path));
    struct cfg_repairs *oldest = &f->paths[0];
    for (size_t i = 0; i < f->n; i++) {
        if (f->paths[i].path == hash)
            return &f->paths[i];
        if (f->paths[i].since_ms < oldest->since_ms)
            oldest = &f->paths[i];
    }
    struct cfg_repairs *r = f->n < CFG_ENTRIES_MAX ? &f->paths[f->n++] : oldest;
    *r = (struct cfg_repairs){ .path = hash, .since_ms = now_ms };
    return r;
}

bool fight_repaired(struct cfg_fight *f, const char *path, int64_t now_ms)
{
    struct cfg_repairs *r = repairs_of(f, path, now_ms);
    if (now_ms - r->since_ms >= FIGHT_WINDOW_MS)
        *r = (struct cfg_repairs){ .path = r->path, .since_ms = now_ms };
    r->count++;
    f->last_ms = now_ms;
    bool begins = f->level == 0 && r->count > FIGHT_REPAIRS;
    if (f->level == 0 && !begins)
        return false;
    // Several paths repaired in one go are one round of the fight.
    if (begins || now_ms >= f->until_ms) {
        f->level++;
        f->until_ms = now_ms + fight_wait_ms(f);
        snprintf(f->path, sizeof(f->path), "%s", path);
    }
    return begins;
}

bool fight_calm(struct cfg_fight *f, int64_t now_ms, int64_t *look_ms)
{
    if (f->level == 0)
        return false;
    *look_ms = f->last_ms + MAX(2 * fight_wait_ms(f), (int64_t)FIGHT_WINDOW_MS);
    if (now_ms < *look_ms)
        return false;
    *f = (struct cfg_fight){ 0 };
    return true;
}
