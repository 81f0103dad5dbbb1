// SPDX-License-Identifier: Apache-2.0
// A look at a store that nobody has open: what it sees, and that it leaves everything as it was.
#include "data/db_look.c"

#include "store_rig.h"

static int look(struct db_look *l, struct err *e)
{
    *e = ERR_INIT;
    return db_look(rig_disk, "/store.db", l, e);
}

static uint64_t contents(const char *name)
{
    struct buf text AUTO_BUF = BUF_INIT(4 * 1024 * 1024);
    int rc = fs_read(rig_disk, name, 4 * 1024 * 1024, 0, &text, NULL);
    return rc < 0 ? 0 : hash_bytes(HASH_SEED, buf_str(&text), text.len);
}

static void fill(int n)
{
    struct err e = ERR_INIT;
    char name[32];
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "name%d", i);
        if (db_meta_set(rig_db, name, "some value", &e) < 0)
            fail("%s", e.msg);
    }
    rig_commit();
}

static void patch(const char *name, size_t at, const char *bytes)
{
    struct buf text AUTO_BUF = BUF_INIT(4 * 1024 * 1024);
    struct err e = ERR_INIT;
    int rc = fs_read(rig_disk, name, 4 * 1024 * 1024, 0, &text, &e);
    if (rc == 0 && at + strlen(bytes) <= text.len) {
        memcpy(text.data + at, bytes, strlen(bytes));
        rc = fs_write(rig_disk, name, text.data, text.len, 0600, 0, &e);
    }
    if (rc < 0)
        fail("%s", e.msg);
}

// Where the last of these bytes stands.
static size_t find_last(const char *name, const char *what)
{
    struct buf text AUTO_BUF = BUF_INIT(4 * 1024 * 1024);
    size_t found = 0, n = strlen(what);
    if (fs_read(rig_disk, name, 4 * 1024 * 1024, 0, &text, NULL) == 0)
        for (size_t i = 0; i + n <= text.len; i++)
            if (memcmp(text.data + i, what, n) == 0)
                found = i;
    return found;
}

int main(void)
{
    struct db_look l;
    struct err e;
    if (!rig_start())
        return done_testing();
    is_int(look(&l, &e), E_NOTFOUND, "no store");

    rig_fresh();
    fill(50);
    db_close(rig_db);
    uint64_t before = contents("/store.db");
    is_int(look(&l, &e), 0, "a closed store: %s", e.msg);
    ok(l.rows >= 50 && l.rows_bad == 0 && l.bytes > 0, "has its rows, all of them right");
    is_int(contents("/store.db") == before, true, "and is as it was");

    rig_open();
    fill(80);
    db_abandon(rig_db);
    uint64_t log = contents("/store.db-wal");
    before = contents("/store.db");
    is_int(look(&l, &e), 0, "one that was not closed: %s", e.msg);
    ok(l.rows >= 80, "with what its log holds");
    ok(contents("/store.db") == before && contents("/store.db-wal") == log && log != 0, "file and log are as they were");

    rig_open();
    db_close(rig_db);
    patch("/store.db", find_last("/store.db", "some value"), "sOme value");
    is_int(look(&l, &e), E_CORRUPT, "a flipped byte in a row: %s", e.msg);
    is_int(l.rows_bad, 1, "is one bad row");
    patch("/store.db", 0, "SQLite fOrmat 3");
    is_int(look(&l, &e), E_CORRUPT, "no database at all: %s", e.msg);
    is_int(fs_write(rig_disk, "/store.db", "", 0, 0600, 0, &e), 0, "an empty file");
    is_int(look(&l, &e), E_CORRUPT, "is damaged, too: %s", e.msg);
    rig_end();
    return done_testing();
}
