// SPDX-License-Identifier: Apache-2.0
// edgeconfig_fight — notices another writer who keeps undoing our repairs, and makes them rarer. Pure.
//
// More than five repairs of one path within a minute are a fight: from then on repairs come 10 s, 20 s, ... 5 min after each other. It is
// over when nothing had to be repaired for twice the last wait, at least a minute.
#ifndef KINDS_EDGECONFIG_FIGHT_H
#define KINDS_EDGECONFIG_FIGHT_H

#include "kinds/edgeconfig_spec.h"

enum { FIGHT_REPAIRS = 5, FIGHT_WINDOW_MS = 60000, FIGHT_WAIT_FIRST_MS = 10000, FIGHT_WAIT_MAX_MS = 300000 };

struct cfg_repairs {
    uint64_t path; // hash
    int64_t since_ms;
    int count;
};

struct cfg_fight {
    struct cfg_repairs paths[CFG_ENTRIES_MAX];
    size_t n;
    int level;                   // 0 = peace
    int64_t until_ms;            // no repair before
    int64_t last_ms;             // last repair
    char path[CFG_PATH_MAX + 1]; // that the fight is about
};

// May something be repaired now? Else at f->until_ms.
bool fight_allows(const struct cfg_fight *f, int64_t now_ms);
// A repair of `path` was made. True: this begins a fight.
bool fight_repaired(struct cfg_fight *f, const char *path, int64_t now_ms);
int64_t fight_wait_ms(const struct cfg_fight *f); // the wait between repairs now; 0 in peace
// Nothing differs now. True: the fight is over with that. Else, in a fight, *look_ms is when it could be.
bool fight_calm(struct cfg_fight *f, int64_t now_ms, int64_t *look_ms);

#endif
