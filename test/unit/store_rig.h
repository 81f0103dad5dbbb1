// SPDX-License-Identifier: Apache-2.0
// store_rig — a store in a directory of its own, behind the counting VFS, for the tests of what lies on it.
#ifndef TEST_STORE_RIG_H
#define TEST_STORE_RIG_H

#include <stdlib.h>
#include <sys/stat.h>

#include "base/log.h"
#include "data/db.h"
#include "fake_clock.h"
#include "tap.h"
#include "test_vfs.h"

static char rig_dir[] = "/tmp/limpet-store-XXXXXX";
static struct fake_clock rig_clock;
static struct disk *rig_disk;
static struct db *rig_db;
static int64_t rig_max_bytes;

static void rig_quiet(void *ctx, const char *line, size_t n)
{
    (void)ctx;
    (void)line;
    (void)n;
}

static void rig_open(void)
{
    struct err e = ERR_INIT;
    if (db_open(&rig_db, rig_disk, &rig_clock.clock, &(struct db_conf){ "/store.db", rig_max_bytes }, &e) != 0)
        fail("opening the store: %s", e.msg);
}

static bool rig_start(void)
{
    struct err e = ERR_INIT;
    fake_clock_init(&rig_clock, 7);
    log_setup(LOG_WARN, LOG_TEXT, &rig_clock.clock);
    log_set_sink(rig_quiet, NULL);
    test_vfs_register();
    if (mkdtemp(rig_dir) == NULL || disk_real_new(&rig_disk, NULL, rig_dir, &e) != 0)
        return false;
    rig_disk->sqlite_vfs = "test";
    return true;
}

// An empty store.
static void rig_fresh(void)
{
    struct err e = ERR_INIT;
    test_vfs = (struct test_vfs_state){ .room = -1, .bad_read_at = -1 };
    static const char *const files[] = { "/store.db", "/store.db-wal" };
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        if (rig_disk->ops->unlink(rig_disk, files[i], 0, &e) != 0)
            fail("%s", e.msg);
    rig_open();
}

static void rig_commit(void)
{
    struct err e = ERR_INIT;
    int r = db_commit(rig_db, &e);
    if (r != 0)
        fail("commit: %s", e.msg);
}

// Changes the store behind everybody's back.
static UNUSED void rig_damage(const char *sql)
{
    struct err e = ERR_INIT;
    if (db_run(db_stmt(rig_db, sql), &e) != 0)
        fail("%s: %s", sql, e.msg);
    rig_commit();
}

static void rig_end(void)
{
    struct err e = ERR_INIT;
    disk_free(rig_disk);
    if (disk_real_new(&rig_disk, NULL, "", &e) == 0) {
        (void)!rig_disk->ops->rmtree(rig_disk, rig_dir, &e);
        disk_free(rig_disk);
    }
}

#endif
