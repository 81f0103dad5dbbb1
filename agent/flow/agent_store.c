// SPDX-License-Identifier: Apache-2.0
#include "flow/agent_store.h"

#include <stdio.h>

#include "base/log.h"

enum { PLACE_MAX = 512 };

static void place_in(char out[PLACE_MAX], const char *dir, const char *name)
{
    snprintf(out, PLACE_MAX, "%s/%s", dir, name);
}

static int open_at(struct db **out, struct disk *d, struct clock *c, const struct config *config, const char *path, struct err *e)
{
    return db_open(out, d, c, &(struct db_conf){ .path = path, .max_bytes = config->store_max_bytes }, e);
}

// The store is opened by one process at a time and closed now: a copy of the file, and of its log where it has one, is the store.
static int copy(struct disk *d, const struct config *config, const char *from, const char *to, unsigned flags, struct err *e)
{
    struct buf text AUTO_BUF = BUF_INIT((size_t)config->store_max_bytes * 2);
    int rc = fs_read(d, from, text.max, 0, &text, e);
    return rc < 0 ? rc : fs_write(d, to, text.data, text.len, 0600, flags, e);
}

static int flee(struct disk *d, const struct config *config, const char *home, const char *refuge, struct err *e)
{
    char dir[PLACE_MAX], from[PLACE_MAX + 8], to[PLACE_MAX + 8];
    place_in(dir, config->run_dir, "store");
    snprintf(from, sizeof(from), "%s-wal", home);
    snprintf(to, sizeof(to), "%s-wal", refuge);
    int rc = d->ops->rmtree(d, dir, e); // half a copy, from a flight that did not end
    if (rc == 0)
        rc = d->ops->mkdirs(d, dir, 0700, FS_NOSYNC, e);
    if (rc == 0)
        rc = copy(d, config, from, to, FS_NOSYNC, e);
    if (rc == 0 || rc == E_NOTFOUND)
        rc = copy(d, config, home, refuge, FS_NOSYNC, e);
    return rc == E_NOTFOUND ? 0 : rc; // there never was a store: an empty one
}

// A store that was closed in good order is its file alone.
static int settle(struct disk *d, struct clock *c, const struct config *config, const char *path, struct err *e)
{
    struct db *db = NULL;
    int rc = open_at(&db, d, c, config, path, e);
    if (rc == 0)
        db_close(db);
    return rc;
}

// The old store's log must be gone before another file takes its place: SQLite would play it over that one.
static int go_home(struct disk *d, struct clock *c, const struct config *config, const char *home, const char *refuge, struct err *e)
{
    char dir[PLACE_MAX];
    place_in(dir, config->run_dir, "store");
    int rc = settle(d, c, config, refuge, e);
    if (rc == 0)
        rc = settle(d, c, config, home, e);
    if (rc == 0)
        rc = copy(d, config, refuge, home, 0, e);
    if (rc == 0)
        rc = d->ops->rmtree(d, dir, e);
    if (rc == 0)
        log_info("store", "back-home path=%s", home);
    return rc;
}

bool agent_store_can_go_home(struct disk *d, const struct config *config)
{
    char probe[PLACE_MAX];
    struct err e = ERR_INIT;
    place_in(probe, config->state_dir, "writable");
    return fs_write(d, probe, "", 0, 0600, FS_NOSYNC, &e) == 0 && d->ops->unlink(d, probe, FS_NOSYNC, &e) == 0;
}

static bool is_there(struct disk *d, const char *path)
{
    struct fs_stat st;
    return d->ops->stat(d, path, 0, &st, NULL) == 0;
}

// Only what the disk refuses is fled from; a store that is too new, or in use, is a matter for somebody.
static bool may_flee(int rc)
{
    return rc == E_FORBIDDEN || rc == E_IO;
}

static int open_in_refuge(struct db **out, struct disk *d, struct clock *c, const struct config *config, const char *home,
                          const char *refuge, struct err *e)
{
    int rc = flee(d, config, home, refuge, e);
    return rc < 0 ? rc : open_at(out, d, c, config, refuge, e);
}

int agent_store_open(struct db **out, struct disk *d, struct clock *c, const struct config *config, bool *away, struct err *e)
{
    char home[PLACE_MAX], refuge[PLACE_MAX];
    struct err why = ERR_INIT;
    place_in(home, config->state_dir, "limpet.db");
    place_in(refuge, config->run_dir, "store/limpet.db");
    *away = is_there(d, refuge) && (!agent_store_can_go_home(d, config) || go_home(d, c, config, home, refuge, &why) < 0);
    if (*away) {
        log_warn("store", "still-away path=%s error=\"%s\"", refuge, why.msg);
        return open_at(out, d, c, config, refuge, e);
    }
    int rc = open_at(out, d, c, config, home, e);
    if (rc == 0 || !may_flee(rc) || agent_store_can_go_home(d, config))
        return rc;
    log_error("store", "away path=%s home=%s error=\"%s\" remedy=\"make the state directory writable: the copy dies with the boot\"",
              refuge, home, e->msg);
    *away = true;
    return open_in_refuge(out, d, c, config, home, refuge, e);
}
