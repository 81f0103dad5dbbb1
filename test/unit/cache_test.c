// SPDX-License-Identifier: Apache-2.0
#include "data/cache.c"
#include "data/intent.c"
#include "data/marks.c"

#include "store_rig.h"

#define SRC "edge.limpet.dev/v1alpha1/edgeapps@edge-a"

static struct cache *cache;

static void open_cache(void)
{
    struct err e = ERR_INIT;
    if (cache_open(&cache, rig_db, &e) != 0)
        fail("opening the cache: %s", e.msg);
}

static void fresh(void)
{
    rig_fresh();
    open_cache();
}

static void reopen(bool orderly)
{
    if (orderly) {
        cache_close(cache);
        db_close(rig_db);
    } else {
        db_abandon(rig_db);
        // What a crash does to memory: the notes are gone, and their nodes must not reach the store any more.
        cache->lazy.link = (struct list){ 0 };
        cache_close(cache);
    }
    rig_open();
    open_cache();
}

// An object as the API server sends it.
static int put_full(const char *name, const char *uid, const char *rv, const char *spec, const char *status, const char *source)
{
    char json[4000], key[KEY_MAX];
    struct object_view v;
    struct err e = ERR_INIT;
    snprintf(json, sizeof(json),
             "{\"kind\":\"EdgeApp\",\"metadata\":{\"name\":\"%s\",\"uid\":\"%s\",\"resourceVersion\":\"%s\",\"generation\":3,"
             "\"managedFields\":[{\"time\":\"%s\"}]},\"spec\":%s,\"status\":%s}",
             name, uid, rv, rv, spec, status);
    snprintf(key, sizeof(key), "edgeapps/a/%s", name);
    if (object_scan(&v, json, strlen(json), &e) != 0)
        fail("%s: %s", json, e.msg);
    int r = cache_put(cache, source, key, &v, json, strlen(json), &e);
    if (r < 0)
        diag("put %s: %s", key, e.msg);
    return r;
}

static int put_object(const char *name, const char *uid, const char *rv, const char *spec)
{
    return put_full(name, uid, rv, spec, "{\"ready\":true}", SRC);
}

static const char *rv_of(const char *name)
{
    static char rv[OBJ_RV_MAX];
    char key[KEY_MAX], uid[OBJ_UID_MAX];
    struct err e = ERR_INIT;
    snprintf(key, sizeof(key), "edgeapps/a/%s", name);
    return cache_rv(cache, key, rv, uid, &e) == 0 ? rv : err_word(e.cls);
}

static void test_put_get(void)
{
    fresh();
    struct err e = ERR_INIT;
    struct cached row AUTO_CACHED = CACHED_INIT;
    is_int(cache_get(cache, "edgeapps/a/web", &row, &e), E_NOTFOUND, "nothing there");
    is_int(put_object("web", "u1", "10", "{\"replicas\":12345678901234567890}"), CACHE_NEW, "a new object");
    is_int(cache_get(cache, "edgeapps/a/web", &row, &e), 0, "is there");
    is_str(buf_str(&row.json),
           "{\"kind\":\"EdgeApp\",\"metadata\":{\"name\":\"web\",\"uid\":\"u1\",\"resourceVersion\":\"10\",\"generation\":3},"
           "\"spec\":{\"replicas\":12345678901234567890}}",
           "byte for byte, without status and managedFields");
    is_str(row.key, "edgeapps/a/web", "key");
    is_str(row.source, SRC, "source");
    is_str(row.uid, "u1", "uid");
    is_str(row.rv, "10", "resourceVersion");
    is_int(row.generation, 3, "generation");
    is_int(put_object("web", "u1", "10", "{\"replicas\":12345678901234567890}"), CACHE_SAME, "the same again");
    is_int(put_object("web", "u1", "11", "{\"replicas\":2}"), CACHE_CHANGED, "another spec");
    is_int(put_object("web", "u2", "12", "{\"replicas\":2}"), CACHE_REPLACED, "the same name, another uid");
    rig_commit();
    reopen(false);
    is_int(cache_get(cache, "edgeapps/a/web", &row, &e), 0, "is there after a crash");
    is_str(row.uid, "u2", "as it was last");
    is_int(cache_delete(cache, "edgeapps/a/web", &e), 0, "deleting");
    is_int(cache_get(cache, "edgeapps/a/web", &row, &e), E_NOTFOUND, "works");
    rig_commit();
    is_int(cache_delete(cache, "edgeapps/a/web", &e), 0, "what is absent");
    ok(!db_dirty(rig_db), "writes nothing");
    cache_close(cache);
    db_close(rig_db);
}

static void test_rv_only(void)
{
    fresh();
    struct err e = ERR_INIT;
    struct cached row AUTO_CACHED = CACHED_INIT;
    is_int(put_object("web", "u1", "9", "{}"), CACHE_NEW, "an object");
    rig_commit();
    uint64_t writes = test_vfs.writes;
    is_int(put_full("web", "u1", "10", "{}", "{\"ready\":false,\"more\":1}", SRC), CACHE_RV_ONLY,
           "its status changed, and the digits of its version");
    is_str(rv_of("web"), "10", "the new resourceVersion is known");
    is_int(cache_get(cache, "edgeapps/a/web", &row, &e), 0, "also");
    is_str(row.rv, "10", "with the row");
    is_int(put_full("web", "u1", "10", "{}", "{}", SRC), CACHE_SAME, "nothing new");
    cache_note_rv(cache, "edgeapps/a/web", "u1", "12");
    is_str(rv_of("web"), "12", "our own write was answered");
    cache_note_rv(cache, "edgeapps/a/web", "u1", "11");
    is_str(rv_of("web"), "12", "an older answer that comes late changes nothing");
    cache_note_rv(cache, "edgeapps/a/web", "other", "13");
    is_str(rv_of("web"), "12", "nor one about another object of that name");
    cache_note_rv(cache, "edgeapps/a/none", "u1", "13");
    is_str(rv_of("none"), "NotFound", "nor one about none");
    rig_commit();
    is_int(test_vfs.writes, writes, "none of it was written");
    reopen(false);
    is_str(rv_of("web"), "9", "and is lost in a crash");
    is_int(put_full("web", "u1", "12", "{}", "{}", SRC), CACHE_RV_ONLY, "the list brings it again");
    is_int(put_object("db", "u7", "13", "{}"), CACHE_NEW, "a real write");
    rig_commit();
    reopen(false);
    is_str(rv_of("web"), "12", "takes it along");
    cache_note_rv(cache, "edgeapps/a/web", "u1", "20");
    reopen(true);
    is_str(rv_of("web"), "20", "an orderly stop writes it");
    cache_note_rv(cache, "edgeapps/a/web", "u1", "21");
    is_int(put_object("web", "u1", "22", "{\"x\":1}"), CACHE_CHANGED, "a new spec");
    is_str(rv_of("web"), "22", "overrules what was noted");
    is_int(put_object("db", "u7", "30", "{}"), CACHE_RV_ONLY, "noted");
    is_int(put_object("db", "u8", "31", "{}"), CACHE_REPLACED, "then replaced");
    is_str(rv_of("db"), "31", "the note went with the old one");
    cache_close(cache);
    db_close(rig_db);
}

static void test_rv_survives_rollback(void)
{
    fresh();
    is_int(put_object("web", "u1", "1", "{}"), CACHE_NEW, "an object");
    rig_commit();
    cache_note_rv(cache, "edgeapps/a/web", "u1", "2");
    is_int(put_object("db", "u2", "3", "{}"), CACHE_NEW, "a write");
    struct err e = ERR_INIT;
    test_vfs.fail_writes = true;
    is_int(db_commit(rig_db, &e), E_IO, "that fails");
    test_vfs.fail_writes = false;
    is_str(rv_of("web"), "2", "the note is still known");
    is_str(rv_of("db"), "NotFound", "the object is not");
    is_int(put_object("db", "u2", "3", "{}"), CACHE_NEW, "the write again");
    rig_commit();
    reopen(false);
    is_str(rv_of("web"), "2", "and now both are there");
    is_str(rv_of("db"), "3", "indeed");
    cache_close(cache);
    db_close(rig_db);
}

static void test_notes_bound(void)
{
    fresh();
    char name[20];
    int wrong = 0;
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof(name), "o%d", i);
        wrong += put_object(name, "u", "1", "{}") != CACHE_NEW;
    }
    rig_commit();
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof(name), "o%d", i);
        wrong += put_object(name, "u", "2", "{}") != CACHE_RV_ONLY;
        wrong += table_count(&cache->notes) > RV_NOTES_MAX;
    }
    is_int(wrong, 0, "1,000 statuses moved: never more than %d notes", RV_NOTES_MAX);
    ok(db_dirty(rig_db), "the others were written");
    rig_commit();
    is_int(table_count(&cache->notes), 0, "and the rest went along");
    reopen(false);
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof(name), "o%d", i);
        wrong += strcmp(rv_of(name), "2") != 0;
    }
    is_int(wrong, 0, "each is there");
    cache_close(cache);
    db_close(rig_db);
}

static void test_same_but_rv(void)
{
    static const struct {
        const char *a, *b;
        bool same;
    } cases[] = {
        { "{\"metadata\":{\"resourceVersion\":\"9\",\"x\":1}}", "{\"metadata\":{\"resourceVersion\":\"10\",\"x\":1}}", true },
        { "{\"metadata\":{\"resourceVersion\":\"9\",\"x\":1}}", "{\"metadata\":{\"resourceVersion\":\"10\",\"x\":2}}", false },
        { "{\"a\":1,\"metadata\":{\"resourceVersion\":\"9\"}}", "{\"a\":2,\"metadata\":{\"resourceVersion\":\"9\"}}", false },
        { "{\"a\":11,\"metadata\":{\"resourceVersion\":\"9\"}}", "{\"a\":1,\"metadata\":{\"resourceVersion\":\"10\"}}", false },
        { "{\"metadata\":{}}", "{\"metadata\":{}}", true },
        { "{\"metadata\":{}}", "{\"metadata\":{\"resourceVersion\":\"9\"}}", false },
        { "{\"spec\":{\"resourceVersion\":\"9\"},\"metadata\":{\"resourceVersion\":\"9\"}}",
          "{\"spec\":{\"resourceVersion\":\"8\"},\"metadata\":{\"resourceVersion\":\"9\"}}", false },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        is_int(same_but_rv(cases[i].a, strlen(cases[i].a), cases[i].b, strlen(cases[i].b)), cases[i].same,
               "the same but for its version: case %zu", i);
}

// --- Mark and sweep

static int collect(void *ctx, const char *key)
{
    char *text = ctx;
    size_t at = strlen(text);
    snprintf(text + at, 400 - at, "%s ", key + strlen("edgeapps/a/"));
    return 0;
}

static int delete_it(void *ctx, const char *key)
{
    struct err e = ERR_INIT;
    (void)ctx;
    return cache_delete(cache, key, &e);
}

static int stop_it(void *ctx, const char *key)
{
    (void)key;
    ++*(int *)ctx;
    return E_CANCELED;
}

static void test_sweep(void)
{
    fresh();
    struct err e = ERR_INIT;
    char text[400] = "";
    int calls = 0;
    is_int(cache_unmarked(cache, SRC, collect, text, &e), E_INVAL, "without a list nothing is unmarked");
    for (char name[2] = "a"; name[0] <= 'e'; name[0]++)
        is_int(put_object(name, "u", "1", "{}"), CACHE_NEW, "object %s", name);
    is_int(put_full("x", "u", "1", "{}", "{}", "other"), CACHE_NEW, "one of another source");
    is_int(cache_mark_begin(cache, SRC, &e), 0, "a list begins");
    is_int(put_object("b", "u", "1", "{}"), CACHE_SAME, "it shows one that we have");
    is_int(put_object("f", "u", "1", "{}"), CACHE_NEW, "and one that we have not");
    is_int(cache_mark_begin(cache, "other", &e), 0, "a list of the other source begins meanwhile");
    is_int(cache_mark(cache, "edgeapps/a/d", &e), 0, "and one too large to be read");
    is_int(cache_unmarked(cache, SRC, stop_it, &calls, &e), E_CANCELED, "a walk can be stopped");
    is_int(calls, 1, "at once");
    is_int(cache_unmarked(cache, SRC, collect, text, &e), 0, "and made again");
    is_str(text, "a c e ", "what was not shown");
    is_int(cache_unmarked(cache, SRC, collect, text, &e), E_INVAL, "then the list is used up");
    text[0] = '\0';
    is_int(cache_unmarked(cache, "other", collect, text, &e), 0, "the other one");
    is_str(text, "x ", "is not");
    is_int(cache_mark_begin(cache, SRC, &e), 0, "a list begins");
    is_int(cache_mark(cache, "edgeapps/a/a", &e), 0, "shows something");
    is_int(cache_mark_begin(cache, SRC, &e), 0, "and begins again");
    is_int(cache_mark(cache, "edgeapps/a/e", &e), 0, "shows something else");
    is_int(cache_unmarked(cache, SRC, delete_it, NULL, &e), 0, "the sweep may write");
    text[0] = '\0';
    is_int(cache_each_key(cache, NULL, collect, text, &e), 0, "all");
    is_str(text, "e x ", "what is left");
    int64_t n = 0;
    ok(cache_count(cache, SRC, &n, &e) == 0 && n == 1, "of the source");
    ok(cache_count(cache, NULL, &n, &e) == 0 && n == 2, "in all");
    cache_close(cache);
    db_close(rig_db);
}

static void test_relist_writes_nothing(void)
{
    fresh();
    struct err e = ERR_INIT;
    char name[20];
    int wrong = 0;
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof(name), "o%d", i);
        wrong += put_object(name, "u", "1", "{\"some\":\"spec\"}") != CACHE_NEW;
    }
    rig_commit();
    reopen(true);
    uint64_t writes = test_vfs.writes, syncs = test_vfs.syncs;
    is_int(cache_mark_begin(cache, SRC, &e), 0, "a list of the 1,000 that we have");
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof(name), "o%d", i);
        wrong += put_object(name, "u", "1", "{\"some\":\"spec\"}") != CACHE_SAME;
    }
    char text[400] = "";
    is_int(cache_unmarked(cache, SRC, collect, text, &e), 0, "swept");
    is_str(text, "", "nothing is gone");
    rig_commit();
    is_int(wrong, 0, "nothing changed");
    reopen(true);
    ok(test_vfs.writes == writes && test_vfs.syncs == syncs, "and nothing was written");
    cache_close(cache);
    db_close(rig_db);
}

static void test_marks(void)
{
    struct marks m = { 0 };
    struct err e = ERR_INIT;
    char key[20];
    int wrong = marks_has(&m, "k");
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 5000; i++) {
            snprintf(key, sizeof(key), "k%d", i);
            wrong += marks_has(&m, key) || marks_add(&m, key, &e) != 0 || marks_add(&m, key, &e) != 0 || !marks_has(&m, key);
        }
        wrong += m.count != 5000;
        marks_clear(&m);
    }
    is_int(wrong, 0, "5,000 marks, cleared, and again");
    marks_fini(&m);
}

// --- Reading

static int collect_row(void *ctx, const struct cached *row)
{
    struct object_view v;
    struct err e;
    if (object_scan(&v, row->json.data, row->json.len, &e) != 0)
        return E_CORRUPT;
    return collect(ctx, row->key);
}

static int delete_row(void *ctx, const struct cached *row)
{
    return delete_it(ctx, row->key);
}

static void test_each(void)
{
    fresh();
    struct err e = ERR_INIT;
    char text[400] = "";
    static const char *const names[] = { "a", "b", "b1", "c" };
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        is_int(put_object(names[i], "u", "1", "{}"), CACHE_NEW, "object %s", names[i]);
    is_int(cache_each(cache, "edgeapps/a/", collect_row, text, &e), 0, "all of a namespace");
    is_str(text, "a b b1 c ", "in order");
    text[0] = '\0';
    is_int(cache_each(cache, "edgeapps/a/b", collect_row, text, &e), 0, "a prefix that is a key itself");
    is_str(text, "b b1 ", "both");
    text[0] = '\0';
    is_int(cache_each(cache, "edgeconfigs/", collect_row, text, &e), 0, "another kind");
    is_str(text, "", "none");
    is_int(cache_each(cache, "", delete_row, NULL, &e), 0, "each may write");
    int64_t n = 1;
    ok(cache_count(cache, NULL, &n, &e) == 0 && n == 0, "all gone");
    cache_close(cache);
    db_close(rig_db);
}

static void test_damaged_row(void)
{
    fresh();
    struct err e = ERR_INIT;
    struct cached row AUTO_CACHED = CACHED_INIT;
    char text[400] = "", rv[OBJ_RV_MAX], uid[OBJ_UID_MAX];
    for (char name[2] = "a"; name[0] <= 'c'; name[0]++)
        is_int(put_object(name, "u", "1", "{}"), CACHE_NEW, "object %s", name);
    rig_commit();
    rig_damage("UPDATE object SET json=x'7b7d' WHERE key='edgeapps/a/b'");
    is_int(cache_get(cache, "edgeapps/a/b", &row, &e), E_CORRUPT, "a row that is not what it was");
    is_int(cache_rv(cache, "edgeapps/a/b", rv, uid, &e), E_CORRUPT, "its version is not believed either");
    is_int(cache_each(cache, "", collect_row, text, &e), 0, "the others");
    is_str(text, "a c ", "are read");
    text[0] = '\0';
    is_int(cache_each_key(cache, SRC, collect, text, &e), 0, "its key");
    is_str(text, "a b c ", "is still known");
    struct db_stats st;
    db_stats(rig_db, &st);
    ok(st.rows_bad_crc >= 2, "it is counted");
    is_int(put_object("b", "u", "1", "{}"), CACHE_CHANGED, "the next put makes it whole");
    is_int(cache_get(cache, "edgeapps/a/b", &row, &e), 0, "again");
    cache_close(cache);
    db_close(rig_db);
}

static void test_bounds(void)
{
    fresh();
    struct err e = ERR_INIT;
    struct object_view v;
    static const char json[] = "{\"metadata\":{\"name\":\"a\",\"uid\":\"u\",\"resourceVersion\":\"1\"}}";
    char long_key[KEY_MAX + 1];
    memset(long_key, 'k', KEY_MAX);
    long_key[KEY_MAX] = '\0';
    is_int(object_scan(&v, json, sizeof(json) - 1, &e), 0, "an object");
    is_int(cache_put(cache, SRC, long_key, &v, json, sizeof(json) - 1, &e), E_INVAL, "a key over its bound is refused, not cut");
    AUTO_FREE char *big = malloc(OBJ_MAX + 1);
    int n = snprintf(big, OBJ_MAX, "{\"metadata\":{\"name\":\"big\",\"uid\":\"u\",\"resourceVersion\":\"1\"},\"spec\":\"");
    memset(big + n, 'x', (size_t)(OBJ_MAX - n));
    memcpy(big + OBJ_MAX - 2, "\"}", 2);
    is_int(object_scan(&v, big, OBJ_MAX, &e), 0, "an object at the bound");
    is_int(cache_put(cache, SRC, "edgeapps/a/big", &v, big, OBJ_MAX, &e), CACHE_NEW, "is taken (%s)", e.msg);
    rig_commit();
    struct cached row AUTO_CACHED = CACHED_INIT;
    is_int(cache_get(cache, "edgeapps/a/big", &row, &e), 0, "and comes back");
    ok(row.json.len == OBJ_MAX && memcmp(row.json.data, big, OBJ_MAX) == 0, "whole");
    is_int(cache_put(cache, SRC, "edgeapps/a/big", &v, big, OBJ_MAX, &e), CACHE_SAME, "the same again");
    cache_close(cache);
    db_close(rig_db);
}

// --- Intent

static int collect_intent(void *ctx, const char *key, const char *name, const char *data)
{
    char *text = ctx;
    size_t at = strlen(text);
    snprintf(text + at, 400 - at, "%s/%s=%s ", key, name, data);
    return 0;
}

static int drop_intent(void *ctx, const char *key, const char *name, const char *data)
{
    struct err e;
    (void)ctx;
    (void)data;
    return intent_delete(rig_db, key, name, &e);
}

static int collect_named(void *ctx, const char *key, const char *name)
{
    char *text = ctx;
    snprintf(text + strlen(text), 200 - strlen(text), "%s.%s ", key, name);
    return strcmp(name, "stop") == 0 ? 7 : 0;
}

static void test_intent_named(void)
{
    struct err e = ERR_INIT;
    char text[200] = "";
    static const char *const rows[][2] = { { "k", "/b" },  { "j", "/a/x" }, { "k", "/a/y" }, { "i", "/a" },
                                           { "i", "/a0" }, { "k", "stop" }, { "j", "stop" } };
    rig_fresh();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        is_int(intent_put(rig_db, rows[i][0], rows[i][1], "1", &e), 0, "put %s of %s", rows[i][1], rows[i][0]);
    is_int(intent_named(rig_db, "/a/", "/a0", collect_named, text, &e), 0, "those below /a");
    is_str(text, "j./a/x k./a/y ", "of any key, without /a itself and /a0");
    text[0] = '\0';
    is_int(intent_named(rig_db, "c", "d", collect_named, text, &e), 0, "where nothing is");
    is_str(text, "", "nothing is said");
    is_int(intent_named(rig_db, "stop", "stop\x01", collect_named, text, &e), 7, "what the callback returns ends it");
    ok(strcmp(text, "k.stop ") == 0 || strcmp(text, "j.stop ") == 0, "after one");
    rig_damage("UPDATE intent SET data='5' WHERE name='/a/x'");
    text[0] = '\0';
    is_int(intent_named(rig_db, "/a/", "/a0", collect_named, text, &e), 0, "with a damaged row");
    is_str(text, "k./a/y ", "it is left out");
    db_close(rig_db);
}

static void test_intent(void)
{
    fresh();
    struct err e = ERR_INIT;
    AUTO_BUF struct buf data = BUF_INIT(1000);
    char text[400] = "";
    is_int(intent_get(rig_db, "k", "owed", &data, &e), E_NOTFOUND, "nothing owed");
    is_int(intent_put(rig_db, "k", "owed", "1", &e), 0, "put");
    is_int(intent_put(rig_db, "k", "backup", "{\"a\":2}", &e), 0, "another");
    is_int(intent_put(rig_db, "j", "owed", "3", &e), 0, "of another key");
    is_int(intent_put(rig_db, "k", "owed", "4", &e), 0, "put again");
    rig_commit();
    is_int(intent_put(rig_db, "k", "owed", "4", &e), 0, "the same again");
    ok(!db_dirty(rig_db), "writes nothing");
    reopen(false);
    ok(intent_get(rig_db, "k", "owed", &data, &e) == 0 && strcmp(buf_str(&data), "4") == 0, "is there after a crash");
    is_int(intent_each(rig_db, NULL, collect_intent, text, &e), 0, "all");
    is_str(text, "j/owed=3 k/backup={\"a\":2} k/owed=4 ", "in order");
    text[0] = '\0';
    is_int(intent_each(rig_db, "k", collect_intent, text, &e), 0, "of one key");
    is_str(text, "k/backup={\"a\":2} k/owed=4 ", "only those");
    rig_damage("UPDATE intent SET data='5' WHERE key='k' AND name='backup'");
    is_int(intent_get(rig_db, "k", "backup", &data, &e), E_CORRUPT, "a damaged one is not believed");
    text[0] = '\0';
    is_int(intent_each(rig_db, NULL, collect_intent, text, &e), 0, "and left out");
    is_str(text, "j/owed=3 k/owed=4 ", "the others are not");
    is_int(intent_put(rig_db, "k", "backup", "5", &e), 0, "putting it anew");
    ok(intent_get(rig_db, "k", "backup", &data, &e) == 0, "makes it whole");
    is_int(intent_delete(rig_db, "k", "owed", &e), 0, "deleting one");
    is_int(intent_get(rig_db, "k", "owed", &data, &e), E_NOTFOUND, "works");
    is_int(intent_delete_all(rig_db, "k", &e), 0, "deleting all of a key");
    is_int(intent_each(rig_db, NULL, drop_intent, NULL, &e), 0, "each may write");
    rig_commit();
    is_int(intent_delete_all(rig_db, "k", &e), 0, "deleting what is not there");
    ok(!db_dirty(rig_db), "writes nothing");
    char long_name[INTENT_NAME_MAX + 1];
    memset(long_name, 'n', INTENT_NAME_MAX);
    long_name[INTENT_NAME_MAX] = '\0';
    is_int(intent_put(rig_db, "k", long_name, "1", &e), E_INVAL, "too long a name is refused, not cut");
    cache_close(cache);
    db_close(rig_db);
}

int main(void)
{
    if (!rig_start())
        return 1;
    test_put_get();
    test_rv_only();
    test_rv_survives_rollback();
    test_notes_bound();
    test_same_but_rv();
    test_sweep();
    test_relist_writes_nothing();
    test_marks();
    test_each();
    test_damaged_row();
    test_bounds();
    test_intent();
    test_intent_named();
    rig_end();
    return done_testing();
}
