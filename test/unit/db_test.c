// SPDX-License-Identifier: Apache-2.0
#include "data/db.c"
#include "data/db_schema.c"

#include <fcntl.h>
#include <sys/stat.h>

#include "fake_clock.h"
#include "tap.h"
#include "test_vfs.h"

static char dir[] = "/tmp/limpet-db-XXXXXX";
static char root[64]; // a directory below it that stands for the machine's root
static struct fake_clock fc;
static struct disk *disk;

#define STORE "/var/lib/limpet/store.db"

static char *real_path(const char *path, char out[200])
{
    snprintf(out, 200, "%s%s", root, path);
    return out;
}

// Each test has a root of its own.
static void new_root(void)
{
    static int n;
    struct err e = ERR_INIT;
    disk_free(disk);
    disk = NULL;
    snprintf(root, sizeof(root), "%s/%d", dir, n++);
    if (mkdir(root, 0755) != 0 || disk_real_new(&disk, NULL, root, &e) != 0)
        fail("a new root: %s", e.msg);
    disk->sqlite_vfs = "test";
    test_vfs = (struct test_vfs_state){ .room = -1, .bad_read_at = -1 };
}

static int try_open(struct db **db, int64_t max, struct err *e)
{
    *e = ERR_INIT;
    *db = NULL;
    return db_open(db, disk, &fc.clock, &(struct db_conf){ STORE, max }, e);
}

static struct db *open_store(void)
{
    struct db *db;
    struct err e;
    if (try_open(&db, 0, &e) != 0)
        fail("opening: %s", e.msg);
    return db;
}

static int put_intent(struct db *db, const char *key, const char *data, struct err *e)
{
    struct db_stmt *s = db_stmt(db, "INSERT INTO intent(key,name,data,crc) VALUES(?1,'n',?2,row_crc('intent',?1,'n',?2))");
    db_bind_text(s, 1, key);
    db_bind_text(s, 2, data);
    return db_run(s, e);
}

static int64_t count_intents(struct db *db)
{
    struct err e;
    struct db_stmt *s = db_stmt(db, "SELECT count(*) FROM intent NOT INDEXED WHERE crc=row_crc('intent',key,name,data)");
    if (db_step(s, &e) != 1)
        return -1;
    int64_t n = db_int(s, 0);
    db_done(s);
    return n;
}

static void commit(struct db *db)
{
    struct err e = ERR_INIT;
    is_int(db_commit(db, &e), 0, "commits (%s)", e.msg);
}

static int64_t file_size(const char *path)
{
    struct stat st;
    char p[200];
    return stat(real_path(path, p), &st) == 0 ? st.st_size : -1;
}

static unsigned mode_of(const char *path)
{
    struct stat st;
    char p[200];
    return stat(real_path(path, p), &st) == 0 ? st.st_mode & 07777 : 0;
}

// --- The ordinary

static void test_crc(void)
{
    is_int(crc32c_bytes(0, "123456789", 9), 0xe3069283, "the check value of CRC-32C");
    is_int(crc32c_bytes(crc32c_bytes(0, "1234", 4), "56789", 5), 0xe3069283, "in two pieces");
}

static void test_fresh(void)
{
    new_root();
    struct db *db = open_store();
    is_int(mode_of(STORE), 0600, "the file is the agent's alone");
    is_int(mode_of("/var/lib/limpet"), 0700, "so is its directory");
    ok(!db_salvaged(db)->happened, "nothing was salvaged");
    int64_t v = 0;
    ok(db_query_int(db->sq, "PRAGMA page_size", &v, NULL) == 0 && v == 1024, "page size");
    ok(db_query_int(db->sq, "PRAGMA synchronous", &v, NULL) == 0 && v == 2, "synchronous");
    ok(db_query_int(db->sq, "PRAGMA secure_delete", &v, NULL) == 0 && v == 1, "what is deleted is overwritten");
    ok(db_query_int(db->sq, "PRAGMA user_version", &v, NULL) == 0 && v == ARRAY_LEN(steps), "schema version");
    struct err e;
    is_int(put_intent(db, "k", "v", &e), 0, "a row");
    commit(db);
    is_int(mode_of(STORE "-wal"), 0600, "the log is the agent's alone, too");
    is_int(file_size(STORE "-shm"), -1, "no shared memory");
    db_close(db);
    is_int(file_size(STORE "-wal"), -1, "an orderly stop leaves no log");
    db = open_store();
    is_int(count_intents(db), 1, "the row is there");
    db_close(db);
}

static void test_transaction(void)
{
    new_root();
    struct db *db = open_store();
    struct err e;
    ok(!db_dirty(db), "nothing open");
    is_int(put_intent(db, "a", "1", &e), 0, "a write");
    ok(db_dirty(db), "opens a transaction");
    db_rollback(db);
    ok(!db_dirty(db), "rolled back");
    is_int(count_intents(db), 0, "the row is gone");
    is_int(put_intent(db, "a", "1", &e), 0, "again");
    is_int(put_intent(db, "a", "2", &e), E_EXISTS, "the same key");
    ok(db_dirty(db), "fails alone, the transaction stands");
    is_int(put_intent(db, "b", NULL, &e), E_INVAL, "a NULL where none may be");
    commit(db);
    is_int(count_intents(db), 1, "the first row was kept");
    commit(db);
    struct db_stats st;
    db_stats(db, &st);
    is_int(st.commits, 1, "a commit with nothing open is none");
    ok(st.file_bytes > 0 && st.wal_bytes > 0, "sizes");
    is_int(put_intent(db, "c", "1", &e), 0, "a row that is not committed");
    db_abandon(db);
    db = open_store();
    is_int(count_intents(db), 1, "is not there after a crash, the others are");
    ok(!db_salvaged(db)->happened, "a crash is no damage");
    db_close(db);
}

static void test_statements(void)
{
    static const char all[] = "SELECT key FROM intent ORDER BY key";
    new_root();
    struct db *db = open_store();
    struct err e = ERR_INIT;
    for (char k[2] = "a"; k[0] < 'e'; k[0]++)
        is_int(put_intent(db, k, "x", &e), 0, "row %s", k);
    struct db_stmt *outer = db_stmt(db, all);
    is_int(db_step(outer, &e), 1, "the outer one");
    struct db_stmt *inner = db_stmt(db, all);
    ok(inner != outer, "the same text while it is in use is another statement");
    int n = 0;
    while (db_step(inner, &e) == 1)
        n++;
    is_int(n, 4, "the inner one reads all");
    is_int(db_step(outer, &e), 1, "the outer one goes on");
    is_str(db_text(outer, 0), "b", "where it was");
    db_done(outer);
    ok(db_stmt(db, all) == outer || db_stmt(db, all) == inner, "then it is used again");

    struct db_stmt *bad = db_stmt(db, "SELECT nonsense FROM nowhere");
    db_bind_int(bad, 1, 1);
    is_int(db_step(bad, &e), E_IO, "a text that is no SQL fails in the first step");
    has_str(e.msg, "nowhere", "... and says why");
    struct db_stmt *over = db_stmt(db, "SELECT 1");
    db_bind_int(over, 5, 1);
    ok(db_step(over, &e) < 0, "so does a value for no parameter");
    db_close(db);
}

static void test_many_statements(void)
{
    new_root();
    struct db *db = open_store();
    static char sql[DB_STMTS + 8][32];
    struct err e = ERR_INIT;
    int good = 0;
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < ARRAY_LEN(sql); i++) {
            snprintf(sql[i], sizeof(sql[i]), "SELECT %zu", i);
            struct db_stmt *s = db_stmt(db, sql[i]);
            good += db_step(s, &e) == 1 && db_int(s, 0) == (int64_t)i;
            db_done(s);
        }
    is_int(good, 2 * ARRAY_LEN(sql), "more texts than places");
    for (size_t i = 0; i < DB_STMTS; i++)
        db_stmt(db, sql[i]);
    is_int(db_step(db_stmt(db, sql[DB_STMTS]), &e), E_BUSY, "all in use at once is refused, not overrun");
    db_close(db);
}

static void test_blobs(void)
{
    new_root();
    struct db *db = open_store();
    struct err e = ERR_INIT;
    AUTO_FREE char *big = malloc(3 << 20);
    memset(big, 'x', 3 << 20);
    struct db_stmt *s = db_stmt(db, "SELECT ?1,?2,?3");
    db_bind_blob(s, 1, big, 3 << 20);
    db_bind_blob(s, 2, NULL, 0);
    db_bind_text(s, 3, NULL);
    is_int(db_step(s, &e), 1, "a blob of 3 MB");
    size_t n;
    const void *p = db_blob(s, 0, &n);
    ok(n == 3 << 20 && memcmp(p, big, n) == 0, "comes back");
    db_blob(s, 1, &n);
    is_int(n, 0, "an empty one");
    ok(db_text(s, 2) == NULL, "NULL text");
    db_done(s);
    AUTO_FREE char *huge = malloc(DB_ROW_MAX + 1);
    memset(huge, 'y', DB_ROW_MAX + 1);
    s = db_stmt(db, "SELECT ?1");
    db_bind_blob(s, 1, huge, DB_ROW_MAX + 1);
    is_int(db_step(s, &e), E_TOOBIG, "over the bound of a row");
    db_close(db);
}

static void test_meta(void)
{
    new_root();
    struct db *db = open_store();
    struct err e = ERR_INIT;
    char out[20];
    is_int(db_meta_get(db, "x", out, sizeof(out), &e), E_NOTFOUND, "not there");
    is_int(db_meta_set(db, "x", "1", &e), 0, "set");
    is_int(db_meta_set(db, "x", "2", &e), 0, "set again");
    ok(db_meta_get(db, "x", out, sizeof(out), &e) == 0 && strcmp(out, "2") == 0, "the last value");
    commit(db);
    is_int(db_meta_set(db, "y", NULL, &e), 0, "removing what is not there");
    ok(!db_dirty(db), "writes nothing");
    is_int(db_meta_set(db, "x", NULL, &e), 0, "removing what is there");
    is_int(db_meta_get(db, "x", out, sizeof(out), &e), E_NOTFOUND, "works");
    is_int(db_meta_set(db, "long", "0123456789012345678901234567890", &e), 0, "a long value");
    is_int(db_meta_get(db, "long", out, sizeof(out), &e), E_TOOBIG, "is not cut in silence");
    is_int(db_exec(db->sq, "UPDATE meta SET value='other' WHERE name='long'", &e), 0, "a value changed behind our back");
    is_int(db_meta_get(db, "long", out, sizeof(out), &e), E_CORRUPT, "is noticed");
    struct db_stats st;
    db_stats(db, &st);
    is_int(st.rows_bad_crc, 1, "and counted");
    db_close(db);
}

// --- Waiting writes

static int lazy_calls;
static struct db *lazy_db;

static void lazy_fn(struct db_lazy *l)
{
    struct err e = ERR_INIT;
    (void)l;
    lazy_calls++;
    is_int(put_intent(lazy_db, "lazy", "x", &e), 0, "written with the transaction");
}

static void test_lazy(void)
{
    new_root();
    struct db *db = open_store();
    struct err e = ERR_INIT;
    char out[20];
    struct db_lazy l = { .fn = lazy_fn };
    lazy_db = db;
    lazy_calls = 0;
    uint64_t writes = test_vfs.writes;
    is_int(db_lazy_meta(db, "rv", "1", &e), 0, "a value that waits");
    is_int(db_lazy_meta(db, "rv", "2", &e), 0, "and a newer one");
    db_lazy_add(db, &l);
    db_lazy_add(db, &l);
    ok(db_meta_get(db, "rv", out, sizeof(out), &e) == 0 && strcmp(out, "2") == 0, "is seen at once");
    for (int i = 0; i < 100; i++)
        if (db_commit(db, &e) != 0)
            fail("an idle commit: %s", e.msg);
    is_int(test_vfs.writes, writes, "field 13: an idle store writes nothing");
    is_int(put_intent(db, "real", "x", &e), 0, "a real write");
    commit(db);
    is_int(lazy_calls, 1, "takes the waiting one along, once");
    is_int(put_intent(db, "real2", "x", &e), 0, "another");
    commit(db);
    is_int(lazy_calls, 1, "not again");
    db_abandon(db);
    db = open_store();
    ok(db_meta_get(db, "rv", out, sizeof(out), &e) == 0 && strcmp(out, "2") == 0, "it was written");
    is_int(db_lazy_meta(db, "rv", "3", &e), 0, "one more");
    db_abandon(db);
    db = open_store();
    ok(db_meta_get(db, "rv", out, sizeof(out), &e) == 0 && strcmp(out, "2") == 0, "is lost in a crash");
    is_int(db_lazy_meta(db, "rv", "4", &e), 0, "and again");
    db_close(db);
    db = open_store();
    ok(db_meta_get(db, "rv", out, sizeof(out), &e) == 0 && strcmp(out, "4") == 0, "but not in an orderly stop");
    is_int(db_lazy_meta(db, "rv", "5", &e), 0, "a waiting value");
    is_int(db_meta_set(db, "rv", NULL, &e), 0, "is overruled by a removal");
    is_int(db_meta_get(db, "rv", out, sizeof(out), &e), E_NOTFOUND, "nothing is left of it");
    is_int(put_intent(db, "real3", "x", &e), 0, "a transaction");
    is_int(db_lazy_meta(db, "rv", "6", &e), 0, "and a value that waits");
    commit(db);
    is_int(db_lazy_meta(db, "rv", "7", &e), 0, "and a newer one, too soon for the next transaction");
    is_int(put_intent(db, "real4", "x", &e), 0, "which is this");
    db_lazies_along(db);
    commit(db);
    db_abandon(db);
    db = open_store();
    ok(db_meta_get(db, "rv", out, sizeof(out), &e) == 0 && strcmp(out, "7") == 0, "goes along when it is told to");
    db_close(db);
}

static void test_lazy_bound(void)
{
    new_root();
    struct db *db = open_store();
    struct err e = ERR_INIT;
    char name[20];
    int failed = 0;
    for (int i = 0; i < DB_LAZY_META_MAX; i++) {
        snprintf(name, sizeof(name), "n%d", i);
        failed += db_lazy_meta(db, name, "v", &e) != 0;
    }
    is_int(failed, 0, "as many values as may wait");
    ok(!db_dirty(db), "wait");
    is_int(db_lazy_meta(db, "one more", "v", &e), 0, "one more");
    ok(db_dirty(db), "is written at once");
    db_close(db);
}

static struct heard {
    struct db_hook hook;
    int calls, cls;
} heard;

static void hear(struct db_hook *h, int cls)
{
    (void)h;
    heard.calls++;
    heard.cls = cls;
}

static void test_hooks(void)
{
    new_root();
    struct db *db = open_store();
    struct err e = ERR_INIT;
    heard = (struct heard){ .hook = { .ended = hear } };
    db_hook_add(db, &heard.hook);
    commit(db);
    is_int(heard.calls, 0, "nothing open, nothing told");
    is_int(put_intent(db, "a", "x", &e), 0, "a write");
    commit(db);
    ok(heard.calls == 1 && heard.cls == 0, "a commit is told");
    is_int(put_intent(db, "b", "x", &e), 0, "a write");
    db_rollback(db);
    ok(heard.calls == 2 && heard.cls == E_CANCELED, "a rollback is told");
    db_hook_del(&heard.hook);
    is_int(put_intent(db, "b", "x", &e), 0, "a write");
    commit(db);
    is_int(heard.calls, 2, "whoever left hears no more");
    db_close(db);
}

static void test_idle_open(void)
{
    new_root();
    db_close(open_store());
    uint64_t writes = test_vfs.writes, syncs = test_vfs.syncs;
    struct db *db = open_store();
    char out[20];
    struct err e;
    (void)!db_meta_get(db, "x", out, sizeof(out), &e);
    db_close(db);
    is_int(test_vfs.writes, writes, "opening, reading and closing writes nothing");
    is_int(test_vfs.syncs, syncs, "and syncs nothing");
}

static void test_second_process(void)
{
    new_root();
    struct db *db = open_store(), *other;
    struct err e;
    is_int(put_intent(db, "a", "x", &e), 0, "one has it");
    commit(db);
    is_int(try_open(&other, 0, &e), E_BUSY, "a second one is refused");
    has_str(e.msg, "another process", "... and told why");
    is_int(count_intents(db), 1, "the first goes on");
    is_int(put_intent(db, "b", "x", &e), 0, "and writes");
    commit(db);
    db_close(db);
    is_int(try_open(&other, 0, &e), 0, "then the second may");
    db_close(other);
}

static void test_bad_paths(void)
{
    new_root();
    struct db *db = NULL;
    struct err e = ERR_INIT;
    is_int(db_open(&db, disk, &fc.clock, &(struct db_conf){ "relative.db", 0 }, &e), E_INVAL, "a relative path");
    is_int(db_open(&db, disk, &fc.clock, &(struct db_conf){ "/a/../b.db", 0 }, &e), E_INVAL, "a path with ..");
    char long_path[400];
    memset(long_path, 'a', sizeof(long_path));
    memcpy(long_path, "/d/", 3);
    long_path[100] = long_path[200] = '/';
    long_path[sizeof(long_path) - 150] = '\0';
    is_int(db_open(&db, disk, &fc.clock, &(struct db_conf){ long_path, 0 }, &e), E_INVAL, "a path that leaves no room for its suffixes");
}

static int make_dir_there(const char *path)
{
    char inside[256];
    snprintf(inside, sizeof(inside), "%s/x", path);
    return mkdir(path, 0755) == 0 ? mkdir(inside, 0755) : -1;
}

static int make_fifo(const char *path)
{
    return mkfifo(path, 0644);
}

static int make_link(const char *path)
{
    return symlink("/etc/passwd", path);
}

// Opened, a FIFO would be waited for, and what a link leads to is not ours.
static void test_no_file(void)
{
    static int (*const make[])(const char *) = { make_dir_there, make_fifo, make_link };
    static const char *const names[] = { STORE, STORE "-wal" };
    char p[200], aside[200];
    for (size_t i = 0; i < ARRAY_LEN(make) * 2; i++) {
        new_root();
        db_close(open_store());
        if (i % 2 == 0)
            (void)!unlink(real_path(STORE, p));
        is_int(make[i / 2](real_path(names[i % 2], p)), 0, "no file is there (%zu)", i);
        struct db *db = open_store();
        struct stat st;
        ok(db_salvaged(db)->happened, "a store opens all the same, and says so");
        ok(lstat(real_path(db_salvaged(db)->aside, aside), &st) == 0 && !S_ISREG(st.st_mode), "what was there is beside it");
        ok(lstat(p, &st) == 0 && S_ISREG(st.st_mode), "in its place is a file");
        db_close(db);
    }
}

static void test_open_to_others(void)
{
    char p[200];
    struct stat st;
    new_root();
    db_close(open_store());
    is_int(chmod(real_path(STORE, p), 0666) + (geteuid() == 0 ? chown(p, 65534, 65534) : 0), 0, "anybody may write the store");
    struct db *db = open_store();
    ok(stat(p, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 0777) == 0600, "it is ours again");
    ok(!db_salvaged(db)->happened, "and sound");
    db_close(db);
}

// --- Migration

static const char *const test_steps[] = {
    "CREATE TABLE meta(id INTEGER PRIMARY KEY, name TEXT NOT NULL, value TEXT NOT NULL, crc INTEGER NOT NULL) STRICT;"
    "CREATE UNIQUE INDEX meta_name ON meta(name); CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT); INSERT INTO t(a) VALUES('one')",
    "CREATE TABLE t2(id INTEGER PRIMARY KEY, a TEXT, b TEXT); INSERT INTO t2 SELECT id, a, 'new' FROM t; DROP TABLE t;",
    "UPDATE t2 SET b = a || b",
};

static struct sqlite3 *raw_db(const char *path)
{
    struct sqlite3 *sq = NULL;
    char p[200];
    if (sqlite3_open(real_path(path, p), &sq) != SQLITE_OK || db_add_crc_function(sq, NULL) != 0)
        fail("opening %s", path);
    return sq;
}

static void test_migration(void)
{
    new_root();
    for (int from = 0; from <= 3; from++) {
        char name[20];
        snprintf(name, sizeof(name), "/m%d", from);
        struct sqlite3 *sq = raw_db(name);
        struct err e = ERR_INIT;
        is_int(migrate(sq, test_steps, from, &e), 0, "a store of version %d", from);
        is_int(migrate(sq, test_steps, 3, &e), 0, "becomes one of version 3 (%s)", e.msg);
        int64_t v = 0;
        ok(db_query_int(sq, "PRAGMA user_version", &v, &e) == 0 && v == 3 && witness(sq, "schema") == 3, "both witnesses say so");
        ok(db_query_int(sq, "SELECT b='onenew' FROM t2", &v, &e) == 0 && v == 1, "its rows went along");
        is_int(migrate(sq, test_steps, 3, &e), 0, "and nothing is left to do");
        is_int(migrate(sq, test_steps, 2, &e), E_UNSUP, "an older program refuses it");
        has_str(e.msg, "newer", "... and says why");
        sqlite3_close(sq);
    }
}

static void test_migration_fails_whole(void)
{
    static const char *const bad[] = { test_steps[0], "CREATE TABLE u(x); INSERT INTO nowhere VALUES(1)" };
    new_root();
    struct sqlite3 *sq = raw_db("/m");
    struct err e = ERR_INIT;
    is_int(migrate(sq, bad, 1, &e), 0, "version 1");
    ok(migrate(sq, bad, 2, &e) < 0, "a step that fails in the middle");
    int64_t v = 0;
    ok(db_query_int(sq, "PRAGMA user_version", &v, &e) == 0 && v == 1, "leaves the old version");
    ok(db_query_int(sq, "SELECT count(*) FROM sqlite_schema WHERE name='u'", &v, &e) == 0 && v == 0, "whole");
    sqlite3_close(sq);
}

static void slurp(const char *path, struct buf *out)
{
    struct err e = ERR_INIT;
    if (fs_read(disk, path, 16 << 20, 0, out, &e) != 0)
        fail("reading %s: %s", path, e.msg);
}

static void test_newer_is_untouched(void)
{
    new_root();
    struct db *db = open_store();
    struct err e;
    is_int(set_version(db->sq, 99, &e), 0, "a store from the future");
    db_abandon(db);
    AUTO_BUF struct buf before = BUF_INIT(16 << 20), after = BUF_INIT(16 << 20);
    AUTO_BUF struct buf log_before = BUF_INIT(16 << 20), log_after = BUF_INIT(16 << 20);
    slurp(STORE, &before);
    slurp(STORE "-wal", &log_before);
    is_int(try_open(&db, 0, &e), E_UNSUP, "is refused");
    has_str(e.msg, "schema 99", "with its version");
    slurp(STORE, &after);
    slurp(STORE "-wal", &log_after);
    ok(before.len == after.len && memcmp(before.data, after.data, after.len) == 0, "the file is untouched");
    ok(log_before.len == log_after.len && memcmp(log_before.data, log_after.data, log_after.len) == 0, "and so is its log");
}

// --- A full disk

static void test_full_disk(void)
{
    new_root();
    struct db *db = open_store();
    struct err e = ERR_INIT;
    char key[20];
    int committed = 0, r = 0;
    test_vfs.room = 20000;
    for (int i = 0; i < 200 && r == 0; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        r = put_intent(db, key, "some data that takes a little room in the store", &e);
        if (r == 0)
            r = db_commit(db, &e);
        committed += r == 0;
    }
    is_int(r, E_NOSPC, "at last the disk is full");
    ok(!db_dirty(db), "the transaction is rolled back");
    is_int(count_intents(db), committed, "what was committed is there");
    struct db_stats st;
    db_stats(db, &st);
    ok(st.nospc > 0, "it is counted");
    is_int(put_intent(db, "again", "x", &e), 0, "the log was emptied into the file: its blocks serve the next write");
    commit(db);
    committed++;
    r = 0;
    for (int i = 0; i < 1000 && r == 0; i++) {
        snprintf(key, sizeof(key), "m%d", i);
        r = put_intent(db, key, "some data that takes a little room in the store", &e);
        if (r == 0)
            r = db_commit(db, &e);
        committed += r == 0;
    }
    is_int(r, E_NOSPC, "with no room even for that it is full for good");
    test_vfs.room = -1;
    is_int(put_intent(db, "after", "x", &e), 0, "space is freed");
    commit(db);
    is_int(count_intents(db), committed + 1, "and it goes on, nothing committed is lost");
    db_abandon(db);
    db = open_store();
    is_int(count_intents(db), committed + 1, "also after a crash");
    ok(!db_salvaged(db)->happened, "without any damage");
    db_close(db);
}

static void test_page_bound(void)
{
    new_root();
    struct db *db;
    struct err e;
    is_int(try_open(&db, 64 * 1024, &e), 0, "a store of at most 64 KiB");
    char key[20];
    int r = 0, committed = 0;
    int64_t room = db_room(db);
    ok(room > 0 && room < 64 * 1024, "tells its room");
    for (int i = 0; i < 1000 && r == 0; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        r = put_intent(db, key, "some data that takes a little room in the store", &e);
        if (r == 0)
            r = db_commit(db, &e);
        committed += r == 0;
    }
    is_int(r, E_NOSPC, "is full at its bound");
    ok(db_room(db) < room && committed > 100, "after taking what fits");
    is_int(count_intents(db), committed, "what was committed is there");
    is_int(db_commit(db, &e), 0, "the write that failed had nobody before it: there is nothing to say");

    static char large[32 * 1024];
    memset(large, 'x', sizeof(large) - 1);
    is_int(db_run(db_stmt(db, "DELETE FROM intent WHERE key='k1'"), &e), 0, "one writes");
    is_int(put_intent(db, "large", large, &e), E_NOSPC, "the next one finds no room, and that rolls back the first");
    is_int(db_run(db_stmt(db, "DELETE FROM intent WHERE key='k2'"), &e), 0, "a third one writes");
    ok(db_dirty(db), "so there is something to say");
    is_int(db_commit(db, &e), E_NOSPC, "the commit says it, for the first knows nothing of it");
    is_int(count_intents(db), committed, "and keeps nothing of the third");
    ok(!db_dirty(db), "then it is said");

    is_int(db_run(db_stmt(db, "DELETE FROM intent WHERE key LIKE 'k1%'"), &e), 0, "after deleting");
    commit(db);
    is_int(put_intent(db, "after", "x", &e), 0, "there is room again");
    commit(db);
    db_close(db);
    ok(file_size(STORE) <= 64 * 1024, "the file is not over its bound");
}

static void test_failing_writes(void)
{
    new_root();
    struct db *db = open_store();
    struct err e = ERR_INIT;
    heard = (struct heard){ .hook = { .ended = hear } };
    db_hook_add(db, &heard.hook);
    is_int(put_intent(db, "a", "x", &e), 0, "a row");
    commit(db);
    static bool *const faults[] = { &test_vfs.fail_writes, &test_vfs.fail_sync };
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        is_int(put_intent(db, "b", "x", &e), 0, "a row");
        is_int(db_lazy_meta(db, "rv", "9", &e), 0, "and a value that waits");
        *faults[i] = true;
        is_int(db_commit(db, &e), E_IO, "a disk that fails");
        *faults[i] = false;
        is_int(heard.cls, E_IO, "the hooks hear it");
        is_int(count_intents(db), 1, "nothing is half there");
    }
    is_int(put_intent(db, "c", "x", &e), 0, "the disk works again");
    commit(db);
    db_abandon(db);
    db = open_store();
    char out[8];
    is_int(count_intents(db), 2, "the store goes on");
    is_int(db_meta_get(db, "rv", out, sizeof(out), &e), E_NOTFOUND, "what waited is gone with the rows it may stand for");
    db_close(db);
}

static void test_log_stays_small(void)
{
    new_root();
    struct db *db = open_store();
    struct err e = ERR_INIT;
    int64_t largest = 0;
    char data[20];
    is_int(put_intent(db, "k", "0", &e), 0, "a row");
    for (int i = 0; i < 2000; i++) {
        struct db_stmt *s = db_stmt(db, "UPDATE intent SET data=?1,crc=row_crc('intent',key,name,?1) WHERE key='k'");
        snprintf(data, sizeof(data), "%d", i);
        db_bind_text(s, 1, data);
        if (db_run(s, &e) != 0 || db_commit(db, &e) != 0)
            return (void)fail("commit %d: %s", i, e.msg);
        largest = MAX(largest, file_size(STORE "-wal"));
    }
    ok(largest <= 512 * 1024, "2,000 commits: the log was never over 512 KiB (%lld)", (long long)largest);
    db_close(db);
}

// --- Damage

enum { ROWS = 60 };

// A closed store with ROWS intents, some with overflow pages; its bytes.
static void make_sample(struct buf *image)
{
    struct db *db = open_store();
    struct err e = ERR_INIT;
    char key[20];
    AUTO_FREE char *long_text = malloc(3001);
    memset(long_text, 'z', 3000);
    long_text[3000] = '\0';
    int failed = 0;
    for (int i = 0; i < ROWS; i++) {
        snprintf(key, sizeof(key), "key-%d", i);
        failed += put_intent(db, key, i % 10 == 9 ? long_text : "a short text", &e) != 0;
    }
    is_int(failed + db_meta_set(db, "m", "v", &e), 0, "a sample of %d rows", ROWS);
    db_close(db);
    slurp(STORE, image);
}

// As its header says; what follows them is room to grow.
static size_t pages_of(const struct buf *image)
{
    const unsigned char *h = (const unsigned char *)image->data;
    return (size_t)h[30] << 8 | h[31];
}

// Puts a file in the store's place, with nothing beside it.
static void place(const void *p, size_t n)
{
    char path[200];
    static const char *const beside[] = { "-wal", ".salvaged", ".fresh" };
    for (size_t i = 0; i < ARRAY_LEN(beside); i++) {
        snprintf(path, sizeof(path), "%s%s%s", root, STORE, beside[i]);
        unlink(path);
    }
    struct err e = ERR_INIT;
    if (fs_write(disk, STORE, p, n, 0600, FS_NOSYNC, &e) != 0)
        fail("placing a file: %s", e.msg);
}

static int64_t count_all(struct db *db)
{
    struct err e;
    struct db_stmt *s = db_stmt(db, "SELECT count(*) FROM intent");
    if (db_step(s, &e) != 1)
        return -1;
    int64_t n = db_int(s, 0);
    db_done(s);
    return n;
}

// One turn that reads and writes. < 0 while there is damage.
static int use(struct db *db, struct err *e)
{
    char out[8];
    int64_t n = count_intents(db);
    if (n >= 0 && n < count_all(db))
        return E_CORRUPT; // a row that its checksum gives away
    int r = db_meta_set(db, "turn", "1", e);
    if (r == 0)
        r = put_intent(db, "turn", "x", e);
    if (r == 0)
        r = db_run(db_stmt(db, "DELETE FROM intent WHERE key='turn'"), e);
    int c = db_commit(db, e);
    if (r != 0 || c != 0)
        return r != 0 ? r : c;
    r = db_meta_get(db, "m", out, sizeof(out), e);
    return r == E_NOTFOUND ? 0 : r;
}

// Whatever lies in the store's place: it opens, and after at most one turn it works. Returns the rows that are there and right, < 0 when
// a promise is broken.
static int64_t survive(const char *what, bool *told)
{
    struct db *db;
    struct err e;
    int r = try_open(&db, 0, &e);
    if (r != 0) {
        diag("%s: does not open: %s", what, e.msg);
        return -1;
    }
    int first = use(db, &e);
    int second = first != 0 ? use(db, &e) : 0;
    struct db_stats st;
    db_stats(db, &st);
    int64_t n = count_intents(db);
    *told = db_salvaged(db)->happened || st.rows_bad_crc > 0 || first != 0 || n < count_all(db); // the last: by their checksum, when read
    bool bad_row = second == E_CORRUPT && n >= 0;                                                // stays until somebody writes it again
    if (second != 0 && !bad_row) {
        diag("%s: unusable: %d then %d: %s", what, first, second, e.msg);
        n = -1;
    }
    db_close(db);
    return n;
}

static void test_flipped_bytes(void)
{
    new_root();
    AUTO_BUF struct buf image = BUF_INIT(16 << 20);
    make_sample(&image);
    int broken = 0, silent = 0, opened = 0, worst = ROWS;
    for (size_t at = 0; at < pages_of(&image) * DB_PAGE; at += at < 1024 ? 1 : 61) {
        image.data[at] ^= 0x41;
        place(image.data, image.len);
        image.data[at] ^= 0x41;
        char what[40];
        bool told = false;
        snprintf(what, sizeof(what), "byte %zu", at);
        int64_t n = survive(what, &told);
        opened++;
        broken += n < 0;
        if (n >= 0 && n < ROWS && !told) {
            diag("%s: %lld rows, and nothing said", what, (long long)n);
            silent++;
        }
        worst = n >= 0 && n < worst ? (int)n : worst;
    }
    is_int(broken, 0, "a flipped byte, %d places: each opens and works", opened);
    is_int(silent, 0, "no row is lost in silence");
    ok(worst >= ROWS / 2, "at worst %d of %d rows are left", worst, (int)ROWS);
}

static void test_pages_gone(void)
{
    new_root();
    AUTO_BUF struct buf image = BUF_INIT(16 << 20);
    make_sample(&image);
    int broken = 0, silent = 0;
    static const char zeros[DB_PAGE];
    for (size_t page = 0; page < pages_of(&image); page++) {
        char kept[DB_PAGE], what[40];
        bool told = false;
        memcpy(kept, image.data + page * DB_PAGE, DB_PAGE);
        memcpy(image.data + page * DB_PAGE, zeros, DB_PAGE);
        place(image.data, image.len);
        memcpy(image.data + page * DB_PAGE, kept, DB_PAGE);
        snprintf(what, sizeof(what), "page %zu zeroed", page + 1);
        int64_t n = survive(what, &told);
        broken += n < 0;
        if (n >= 0 && n < ROWS && !told) {
            diag("%s: %lld rows, and nothing said", what, (long long)n);
            silent++;
        }
    }
    is_int(broken, 0, "a zeroed page: each opens and works");
    is_int(silent, 0, "no row is lost in silence");
}

static void test_truncated(void)
{
    new_root();
    AUTO_BUF struct buf image = BUF_INIT(16 << 20);
    make_sample(&image);
    int broken = 0, silent = 0, tries = 0;
    for (size_t n = 0; n < pages_of(&image) * DB_PAGE; n += 512, tries++) {
        char what[40];
        bool told = false;
        place(image.data, n);
        snprintf(what, sizeof(what), "cut at %zu", n);
        broken += survive(what, &told) < 0;
        silent += !told;
    }
    is_int(broken, 0, "cut short at %d places: each opens and works", tries);
    is_int(silent, 0, "and each is told");
}

static void test_garbage(void)
{
    new_root();
    AUTO_BUF struct buf image = BUF_INIT(16 << 20);
    struct err e;
    char name[512];
    make_sample(&image);
    clock_rand64(&fc.clock);
    AUTO_FREE char *noise = malloc(20000);
    fc.clock.ops->random(&fc.clock, noise, 20000);
    place(noise, 20000);
    struct db *db = open_store();
    ok(db_salvaged(db)->happened, "a file of noise");
    is_int(db_salvaged(db)->rows_kept, 0, "has nothing to keep");
    is_int(mode_of(db_salvaged(db)->aside), 0600, "it lies aside, readable by nobody else");
    is_int(file_size(db_salvaged(db)->aside), 20000, "as it was");
    snprintf(name, sizeof(name), "%s", db_salvaged(db)->aside);
    db_close(db);
    fake_clock_advance(&fc, 5000);
    place("", 0);
    db = open_store();
    ok(db_salvaged(db)->happened, "an empty file is a loss, too");
    is_int(file_size(name), -1, "only the last damaged file is kept");
    is_int(put_intent(db, "a", "x", &e), 0, "and the store works");
    commit(db);
    db_close(db);
    // Half of it noise.
    memcpy(image.data, noise, image.len / 2 < 20000 ? image.len / 2 : 20000);
    place(image.data, image.len);
    db = open_store();
    ok(db_salvaged(db)->happened && db_salvaged(db)->rows_kept > 0 && db_salvaged(db)->rows_kept < ROWS + 1,
       "field 4: half a store: %lld rows", (long long)db_salvaged(db)->rows_kept);
    is_int(count_intents(db) > 0, 1, "are there");
    db_close(db);
}

// Of a store that is open: what SQLite reads of it from now on is noise.
static void spoil_page(int64_t page)
{
    char path[200], noise[DB_PAGE];
    memset(noise, 0xff, sizeof(noise));
    int fd = open(real_path(STORE, path), O_WRONLY);
    if (pwrite(fd, noise, sizeof(noise), (page - 1) * DB_PAGE) != (ssize_t)sizeof(noise))
        fail("spoiling page %d", (int)page);
    close(fd);
}

static void test_salvage_counts(void)
{
    new_root();
    AUTO_BUF struct buf image = BUF_INIT(16 << 20);
    make_sample(&image);
    // The root page of the table `intent`: everything below it is out of SQLite's reach.
    struct db *db = open_store();
    int64_t page = 0;
    struct err e;
    is_int(db_query_int(db->sq, "SELECT rootpage FROM sqlite_schema WHERE name='intent'", &page, &e), 0, "the root page");
    db_close(db);
    db = open_store();
    spoil_page(page);
    is_int(count_intents(db), -1, "nothing of the table can be read");
    is_int(db_commit(db, &e), E_CORRUPT, "the turn's end salvages");
    has_str(e.msg, "salvaged", "... and says so");
    is_int(count_intents(db), ROWS, "every row, the page held none");
    is_int(db_salvaged(db)->rows_lost, 0, "none lost");
    is_int(db_salvaged(db)->rows_kept, ROWS + 1, "all kept");
    is_int(db_commit(db, &e), 0, "then it is whole");
    db_close(db);
    // A leaf: its rows are lost, the index knows how many there were.
    slurp(STORE, &image);
    int lost = 0;
    for (size_t i = 1; i < image.len / DB_PAGE && lost == 0; i++) {
        unsigned char *p = (unsigned char *)image.data + i * DB_PAGE;
        if (p[0] == 0x0d && memmem(p, DB_PAGE, "key-", 4) != NULL) {
            lost = p[3] << 8 | p[4];
            memset(p, 0, DB_PAGE);
        }
    }
    place(image.data, image.len);
    db = open_store();
    (void)!use(db, &e);
    is_int(db_salvaged(db)->rows_lost, lost, "a lost leaf: as many rows as it had are counted as lost");
    is_int(count_intents(db), ROWS - lost, "the others are there");
    db_close(db);
}

// The log of a predecessor is written back before anything is added to it; when that fails at the start, it is tried again.
static void test_log_written_back(void)
{
    new_root();
    struct db *db = open_store();
    struct err e;
    is_int(put_intent(db, "k", "of the predecessor", &e), 0, "a row");
    commit(db);
    db_abandon(db);
    test_vfs.fail_sync = true;
    is_int(try_open(&db, 0, &e), 0, "opened while the disk cannot sync");
    int64_t left = file_size(STORE "-wal");
    ok(left > 0, "the log stays");
    is_int(put_intent(db, "x", "y", &e), 0, "something is written");
    ok(db_commit(db, &e) != 0, "and cannot be made durable");
    test_vfs.fail_sync = false;
    fake_clock_advance(&fc, DB_TIGHT_MS);
    is_int(db_begin(db, &e), 0, "the next transaction, when the disk is well");
    is_int(file_size(STORE "-wal"), 0, "finds the log written back");
    is_int(put_intent(db, "x", "y", &e), 0, "before it adds anything");
    commit(db);
    is_int(count_intents(db), 2, "nothing is lost");
    db_close(db);
}

static void break_page(size_t page, int reads)
{
    struct stat st;
    char path[200];
    test_vfs.bad_inode = stat(real_path(STORE, path), &st) == 0 ? st.st_ino : 0;
    test_vfs.bad_read_at = (int64_t)page * DB_PAGE + 16;
    test_vfs.bad_reads = reads;
}

// As the turns of the loop do, for as long as a read that fails may be doubted.
static void live_through_doubt(struct db *db)
{
    struct err e;
    for (int i = 0; i < DOUBTS; i++) {
        (void)!db_commit(db, &e);
        fake_clock_advance(&fc, HEAL_AGAIN_MS);
    }
}

// A cable that fails for a moment: at any page, while opening and while running, for one read or for as many as an opening tries.
static void test_read_fails_once(void)
{
    new_root();
    AUTO_BUF struct buf image = BUF_INIT(16 << 20);
    make_sample(&image);
    int salvaged = 0, failed = 0;
    for (size_t page = 0; page < pages_of(&image); page++) {
        struct db *db;
        struct err e;
        place(image.data, image.len);
        break_page(page, 1 + (int)page % 2);
        if (try_open(&db, 0, &e) != 0) {
            failed++;
            continue;
        }
        salvaged += db_salvaged(db)->happened;
        break_page(page, 1);
        for (int i = 0; i < 3; i++) {
            (void)!use(db, &e);
            live_through_doubt(db);
        }
        salvaged += db_salvaged(db)->happened;
        failed += use(db, &e) != 0 || db_dirty(db);
        db_close(db);
    }
    test_vfs.bad_read_at = -1;
    is_int(failed, 0, "a read that fails once or twice: the store goes on");
    is_int(salvaged, 0, "it is no damage, nothing is salvaged");
}

// What cannot be read for a minute may be read after it.
static void test_read_fails_for_a_while(void)
{
    new_root();
    AUTO_BUF struct buf image = BUF_INIT(16 << 20);
    make_sample(&image);
    struct db *db = open_store();
    struct err e;
    int64_t page = 0;
    is_int(db_query_int(db->sq, "SELECT rootpage FROM sqlite_schema WHERE name='intent'", &page, &e), 0, "the root page of a table");
    db_close(db);
    db = open_store();
    break_page((size_t)page - 1, 0);
    is_int(count_intents(db), -1, "it cannot be read");
    ok(db_dirty(db), "which is looked into");
    is_int(db_commit(db, &e), 0, "by the next turn");
    ok(!db_salvaged(db)->happened, "a first look decides nothing");
    is_int(db_commit(db, &e), 0, "there is no other at once");
    ok(!db_salvaged(db)->happened && db->doubts == 1, "nor does it count");
    fake_clock_advance(&fc, HEAL_AGAIN_MS);
    is_int(db_commit(db, &e), 0, "a second look");
    test_vfs.bad_read_at = -1;
    fake_clock_advance(&fc, HEAL_AGAIN_MS);
    is_int(db_commit(db, &e), 0, "the third finds it well");
    ok(!db_salvaged(db)->happened && !db_dirty(db), "nothing was salvaged");
    is_int(count_intents(db), ROWS, "every row is there");
    db_close(db);
    db = open_store();
    break_page((size_t)page - 1, 0);
    is_int(use(db, &e), E_IO, "and when it stays so");
    live_through_doubt(db);
    ok(db_salvaged(db)->happened, "it is salvaged");
    is_int(db_salvaged(db)->rows_lost, 0, "that page held no row");
    is_int(use(db, &e), 0, "and works");
    db_close(db);
    test_vfs.bad_read_at = -1;
}

// A fresh connection takes the log up to the first frame that is damaged. Who has in memory what was behind it must hear of that.
static void test_judged_and_gone_back(void)
{
    new_root();
    struct db *db = open_store();
    struct err e;
    char path[200], byte = 'x';
    is_int(put_intent(db, "a", "first", &e), 0, "a row");
    commit(db);
    int64_t end = file_size(STORE "-wal");
    is_int(put_intent(db, "b", "second", &e), 0, "and another");
    commit(db);
    heard = (struct heard){ .hook = { .ended = hear } };
    db_hook_add(db, &heard.hook);
    int fd = open(real_path(STORE "-wal", path), O_WRONLY);
    is_int(pwrite(fd, &byte, 1, end + 200), 1, "a byte flips in the log, under the second");
    close(fd);
    db->doubtful = true;
    is_int(db_commit(db, &e), E_CORRUPT, "a look at the store in doubt finds it gone back");
    is_int(heard.cls, E_CORRUPT, "which everybody hears");
    is_int(count_intents(db), 1, "the first is there");
    is_int(put_intent(db, "b", "second", &e), 0, "the second is made again");
    commit(db);
    is_int(heard.cls, 0, "and stands");
    db->doubtful = true;
    heard.calls = 0;
    is_int(db_commit(db, &e), 0, "another doubt finds all as it was");
    is_int(heard.calls, 0, "and nobody hears of it");
    is_int(count_intents(db), 2, "both are there");
    db_close(db);
}

static void test_unreadable_sector(void)
{
    new_root();
    AUTO_BUF struct buf image = BUF_INIT(16 << 20);
    make_sample(&image);
    int broken = 0;
    for (size_t page = 0; page < pages_of(&image); page++) {
        char what[40];
        struct db *db;
        struct err e;
        place(image.data, image.len);
        break_page(page, 0);
        snprintf(what, sizeof(what), "page %zu", page + 1);
        int r = try_open(&db, 0, &e);
        (void)!(r == 0 ? use(db, &e) : 0);
        if (r == 0)
            live_through_doubt(db);
        if (r != 0 || use(db, &e) != 0) { // the new file has other sectors
            diag("%s: %s", what, e.msg);
            broken++;
        }
        db_close(db);
    }
    test_vfs.bad_read_at = -1;
    is_int(broken, 0, "a sector that cannot be read costs what is on it, no more");
}

static void test_unclean_damage(void)
{
    new_root();
    struct db *db = open_store();
    struct err e = ERR_INIT;
    char key[20];
    int failed = 0;
    for (int i = 0; i < ROWS; i++) {
        snprintf(key, sizeof(key), "key-%d", i);
        failed += put_intent(db, key, "first", &e) != 0;
    }
    failed += db_commit(db, &e) != 0;
    sqlite3_wal_checkpoint_v2(db->sq, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    failed += db_run(db_stmt(db, "UPDATE intent SET data='second',crc=row_crc('intent',key,name,'second') WHERE key='key-7'"), &e) != 0;
    failed += db_commit(db, &e) != 0;
    is_int(failed, 0, "a store with its last change in the log");
    db_abandon(db);
    // Destroy the header of the file: the log's page still says what was committed last.
    char path[200];
    int fd = open(real_path(STORE, path), O_WRONLY);
    is_int(pwrite(fd, "garbage garbage garbage", 23, 0), 23, "and the header destroyed");
    close(fd);
    db = open_store();
    ok(db_salvaged(db)->happened, "is salvaged");
    is_int(count_intents(db), ROWS, "with every row");
    int64_t n = 0;
    ok(db_query_int(db->sq, "SELECT count(*) FROM intent WHERE data='second'", &n, &e) == 0 && n == 1, "and the last change from the log");
    char log[600];
    snprintf(log, sizeof(log), "%s-wal", db_salvaged(db)->aside);
    ok(file_size(log) > 0, "the log lies aside, too");
    db_close(db);
}

// What flips in the log is checkpointed like the rest, so a file that was closed in good order may be damaged.
static void test_clean_damage(void)
{
    new_root();
    AUTO_BUF struct buf image = BUF_INIT(16 << 20);
    make_sample(&image);
    int broken = 0, salvaged = 0;
    for (size_t page = 1; page < pages_of(&image); page++) {
        struct db *db;
        struct err e;
        char kept[DB_PAGE];
        memcpy(kept, image.data + page * DB_PAGE, DB_PAGE);
        memset(image.data + page * DB_PAGE, 0, DB_PAGE);
        place(image.data, image.len);
        memcpy(image.data + page * DB_PAGE, kept, DB_PAGE);
        int r = try_open(&db, 0, &e);
        salvaged += r == 0 && db_salvaged(db)->happened;
        if (r != 0 || count_intents(db) < 0) {
            diag("page %zu: %s", page + 1, e.msg);
            broken++;
        }
        db_close(db);
    }
    is_int(broken, 0, "a damaged file that was closed well is mended before anybody reads it");
    ok(salvaged > 0, "%d times by salvage", salvaged);
}

static void test_torn_log(void)
{
    new_root();
    struct db *db = open_store();
    struct err e = ERR_INIT;
    char key[20];
    for (int i = 0; i < 10; i++) {
        snprintf(key, sizeof(key), "key-%d", i);
        if (put_intent(db, key, "x", &e) != 0 || db_commit(db, &e) != 0)
            return (void)fail("%s", e.msg);
    }
    AUTO_BUF struct buf image = BUF_INIT(16 << 20), log = BUF_INIT(16 << 20);
    slurp(STORE, &image);
    slurp(STORE "-wal", &log);
    db_abandon(db);
    int wrong = 0;
    int64_t before = 0;
    for (size_t n = 0, done = 0; !done; n += 131) {
        done = n >= log.len;
        n = MIN(n, log.len);
        place(image.data, image.len);
        if (fs_write(disk, STORE "-wal", log.data, n, 0600, FS_NOSYNC, &e) != 0)
            return (void)fail("%s", e.msg);
        db = open_store();
        int64_t rows = count_intents(db);
        if (rows < before || db_salvaged(db)->happened || use(db, &e) != 0) {
            diag("log cut at %zu: %lld rows", n, (long long)rows);
            wrong++;
        }
        before = rows;
        db_close(db);
    }
    is_int(wrong, 0, "a log cut anywhere gives the transactions that were whole, in order");
    is_int(before, 10, "up to the last");
    for (size_t at = 0; at < log.len; at += 97) {
        log.data[at] ^= 0x10;
        place(image.data, image.len);
        if (fs_write(disk, STORE "-wal", log.data, log.len, 0600, FS_NOSYNC, &e) != 0)
            return (void)fail("%s", e.msg);
        log.data[at] ^= 0x10;
        db = open_store();
        // Without its header the whole log counts for nothing: that is said.
        if (count_intents(db) < 0 || db_salvaged(db)->happened != (at < 32) || use(db, &e) != 0) {
            diag("log flipped at %zu", at);
            wrong++;
        }
        db_close(db);
    }
    is_int(wrong, 0, "a flipped byte in it ends it there");
}

static void test_between_renames(void)
{
    new_root();
    AUTO_BUF struct buf image = BUF_INIT(16 << 20);
    struct err e = ERR_INIT;
    make_sample(&image);
    // A crash after the damaged file went aside and before the salvaged one took its place.
    char from[200], to[200];
    is_int(rename(real_path(STORE, from), real_path(STORE ".salvaged", to)), 0, "the salvaged store is not yet in its place");
    is_int(fs_write(disk, STORE "-wal", "old log", 7, 0600, FS_NOSYNC, &e), 0, "the damaged one's log still is");
    struct db *db = open_store();
    is_int(count_intents(db), ROWS, "it is taken");
    db_close(db);
    is_int(fs_write(disk, STORE ".salvaged", "half", 4, 0600, FS_NOSYNC, &e), 0, "a salvage that was not finished");
    db = open_store();
    is_int(count_intents(db), ROWS, "is not taken");
    is_int(file_size(STORE ".salvaged"), -1, "but removed");
    db_close(db);
    unlink(real_path(STORE, from));
    is_int(fs_write(disk, STORE ".fresh", "half", 4, 0600, FS_NOSYNC, &e), 0, "a first start that was not finished");
    db = open_store();
    is_int(count_intents(db), 0, "begins again");
    ok(!db_salvaged(db)->happened, "and is no damage");
    db_close(db);
}

static void test_damage_and_full_disk(void)
{
    new_root();
    AUTO_BUF struct buf image = BUF_INIT(16 << 20);
    make_sample(&image);
    memset(image.data, 'x', 100);
    place(image.data, image.len);
    struct db *db;
    struct err e;
    test_vfs.room = 3000;
    is_int(try_open(&db, 0, &e), E_NOSPC, "no room for a new file: an error that can be tried again");
    is_int(file_size(STORE), image.len, "the damaged one stays where it is");
    test_vfs.room = -1;
    is_int(try_open(&db, 0, &e), 0, "with room");
    is_int(count_intents(db), ROWS, "everything is salvaged");
    db_close(db);
}

static void test_no_room_to_heal(void)
{
    new_root();
    AUTO_BUF struct buf image = BUF_INIT(16 << 20);
    make_sample(&image);
    struct db *db = open_store();
    struct err e = ERR_INIT;
    int64_t page = 0;
    is_int(db_query_int(db->sq, "SELECT rootpage FROM sqlite_schema WHERE name='intent'", &page, &e), 0, "the root page of a table");
    db_close(db);
    db = open_store();
    spoil_page(page);
    is_int(count_intents(db), -1, "is found damaged while running");
    test_vfs.room = 3000;
    is_int(db_commit(db, &e), E_NOSPC, "and the disk is full");
    ok(!db_dirty(db), "it is not tried again at once");
    is_int(db_commit(db, &e), 0, "not even when asked");
    is_int(put_intent(db, "x", "y", &e), E_IO, "until then everything fails");
    is_int(file_size(STORE), image.len, "the damaged file stays in its place");
    test_vfs.room = -1;
    fake_clock_advance(&fc, HEAL_AGAIN_MS);
    ok(db_dirty(db), "after a while it is");
    is_int(db_commit(db, &e), E_CORRUPT, "and then it is salvaged");
    is_int(count_intents(db), ROWS, "all of it");
    is_int(put_intent(db, "x", "y", &e), 0, "it works");
    commit(db);
    db_close(db);
}

static int dump_line(void *ctx, const char *json, size_t n)
{
    struct err e;
    struct buf *out = ctx;
    return buf_add(out, json, n, &e) < 0 ? E_TOOBIG : buf_adds(out, "\n", &e);
}

static void test_dump(void)
{
    new_root();
    struct db *db = open_store();
    struct err e = ERR_INIT;
    is_int(put_intent(db, "k", "say \"hi\"", &e), 0, "a row");
    is_int(
        db_run(db_stmt(db, "INSERT INTO object(key,source,uid,rv,generation,json,crc) VALUES('a','s','u','1',2,x'7b2261223a317d',7)"), &e),
        0, "and one whose checksum is wrong");
    commit(db);
    AUTO_BUF struct buf out = BUF_INIT(100000);
    is_int(db_dump(db, dump_line, &out, &e), 0, "dumps");
    has_str(buf_str(&out), "{\"table\":\"meta\",\"crc_ok\":true,\"row\":{\"id\":1,\"name\":\"schema\",\"value\":\"1\"}}", "meta");
    has_str(buf_str(&out),
            "{\"table\":\"intent\",\"crc_ok\":true,\"row\":{\"id\":1,\"key\":\"k\",\"name\":\"n\",\"data\":\"say \\\"hi\\\"\"}}", "a row");
    has_str(buf_str(&out),
            "{\"table\":\"object\",\"crc_ok\":false,\"row\":{\"id\":1,\"key\":\"a\",\"source\":\"s\",\"uid\":\"u\",\"rv\":\"1\","
            "\"generation\":2,\"json\":{\"a\":1}}}",
            "JSON as it is, and a checksum that does not fit is told");
    db_close(db);
}

static void quiet(void *ctx, const char *line, size_t n)
{
    (void)ctx;
    (void)line;
    (void)n;
}

int main(void)
{
    struct err e = ERR_INIT;
    if (mkdtemp(dir) == NULL)
        return 1;
    fake_clock_init(&fc, 1);
    log_setup(LOG_WARN, LOG_TEXT, &fc.clock);
    log_set_sink(quiet, NULL);
    test_vfs_register();
    test_crc();
    test_fresh();
    test_transaction();
    test_statements();
    test_many_statements();
    test_blobs();
    test_meta();
    test_lazy();
    test_lazy_bound();
    test_hooks();
    test_idle_open();
    test_second_process();
    test_bad_paths();
    test_no_file();
    test_open_to_others();
    test_migration();
    test_migration_fails_whole();
    test_newer_is_untouched();
    test_full_disk();
    test_page_bound();
    test_failing_writes();
    test_log_stays_small();
    test_flipped_bytes();
    test_pages_gone();
    test_truncated();
    test_garbage();
    test_salvage_counts();
    test_log_written_back();
    test_read_fails_once();
    test_read_fails_for_a_while();
    test_judged_and_gone_back();
    test_unreadable_sector();
    test_unclean_damage();
    test_clean_damage();
    test_torn_log();
    test_between_renames();
    test_damage_and_full_disk();
    test_no_room_to_heal();
    test_dump();
    disk_free(disk);
    if (disk_real_new(&disk, NULL, "", &e) == 0) {
        (void)!disk->ops->rmtree(disk, dir, &e);
        disk_free(disk);
    }
    return done_testing();
}
