// SPDX-License-Identifier: Apache-2.0
// refs: who refers to what, what of it is stored, what is read, and what happens when it changes, goes or is forbidden.
#include "data/cache.c"

#include "flow/refs.c"
#include "flow/refs_read.c"
#include "flow/refs_row.c"
#include "store_rig.h"

#define SECRET "secrets/edge-a/db"
#define SOURCE "/v1/secrets@edge-a"

static struct cache *cache;
static struct refs *refs;
static struct arena arena;
static int follows, refreshes, touches;
static char touched[64];

static void on_follow(void *ctx, const struct kind *k, bool on)
{
    (void)ctx;
    (void)k;
    follows += on ? 1 : -1;
}

static void on_refresh(void *ctx, const struct kind *k)
{
    (void)ctx;
    (void)k;
    refreshes++;
}

static void on_touch(void *ctx, const char *key)
{
    (void)ctx;
    touches++;
    snprintf(touched, sizeof(touched), "%s", key);
}

static void begin(void)
{
    struct err e = ERR_INIT;
    struct refs_conf c = { .ns = "edge-a", .follow = on_follow, .refresh = on_refresh, .touch = on_touch };
    follows = refreshes = touches = 0;
    arena_init(&arena, 1 << 20);
    rig_fresh();
    is_int(cache_open(&cache, rig_db, &e), 0, "a store");
    is_int(refs_new(&refs, cache, &c, &e), 0, "and references");
}

static void end(void)
{
    refs_free(refs);
    cache_close(cache);
    db_close(rig_db);
    arena_reset(&arena);
}

static void declare(const char *user, const struct ref *list, size_t n)
{
    struct err e = ERR_INIT;
    is_int(refs_declare(refs, user, list, n, &e), 0, "%s refers to %zu", user, n);
    refs_run(refs, true);
}

// What sync does with an object that it hears of.
static void hear(const char *json)
{
    struct err e = ERR_INIT;
    struct buf out AUTO_BUF = BUF_INIT(OBJ_MAX);
    struct object_view v;
    int rc = refs_reduce(refs, SECRET, json, strlen(json), &out, &e);
    if (rc == 0 && out.len > 0)
        rc = object_scan(&v, out.data, out.len, &e);
    if (rc == 0 && out.len > 0)
        rc = cache_put(cache, SOURCE, SECRET, &v, out.data, out.len, &e);
    if (rc < 0)
        fail("heard: %s", e.msg);
    refs_changed(refs, SECRET);
}

#define OBJECT(rv, data)                                                                                                   \
    "{\"kind\":\"Secret\",\"metadata\":{\"name\":\"db\",\"namespace\":\"edge-a\",\"uid\":\"u1\",\"resourceVersion\":\"" rv \
    "\",\"annotations\":{\"hint\":\"cGVwcGVy\"}},\"type\":\"Opaque\",\"data\":{" data "}}"

static const char *row(void)
{
    static char text[2048];
    struct cached c AUTO_CACHED = CACHED_INIT;
    if (cache_get(cache, SECRET, &c, NULL) < 0)
        return "";
    snprintf(text, sizeof(text), "%s", buf_str(&c.json));
    return text;
}

static const struct ref password = { REF_SECRET, "db", "password", false };
static const struct ref optional = { REF_SECRET, "db", "password", true };
static const struct ref whole = { REF_SECRET, "db", NULL, false };

static const char *value(const struct ref *r, enum ref_state want, const char *when)
{
    struct err e = ERR_INIT;
    struct ref_value v;
    struct refs_reader rd AUTO_REFS;
    refs_reader_init(&rd, refs, &arena);
    is_int(refs_read(&rd, r, &v, &e), 0, "%s: it can be read", when);
    is_int(v.state, want, "%s: its state", when);
    return v.data != NULL ? v.data : "";
}

static void test_only_what_is_referred_to(void)
{
    begin();
    hear(OBJECT("5", "\"password\":\"czNjcmV0\",\"other\":\"bm8=\""));
    is_str(row(), "", "nobody refers to it: no row");
    declare("edgeapps/edge-a/web", &password, 1);
    is_int(follows, 1, "the first reference follows the kind");
    value(&password, REF_UNKNOWN, "before a link is there");
    refs_known(refs, &kind_secret, &(struct err){ .cls = E_BUSY });
    value(&password, REF_PENDING, "while it is asked for");
    hear(OBJECT("5", "\"password\":\"czNjcmV0\",\"other\":\"bm8=\""));
    ok(strstr(row(), "czNjcmV0") != NULL, "the key that is referred to is stored");
    ok(strstr(row(), "bm8=") == NULL && strstr(row(), "cGVwcGVy") == NULL, "no other, and no annotation");
    is_str(value(&password, REF_FOUND, "heard"), "s3cret", "decoded");
    is_str(touched, "edgeapps/edge-a/web", "who refers to it is looked at");
    refs_known(refs, &kind_secret, NULL);

    static const struct ref both[] = { { REF_SECRET, "db", "password", false }, { REF_SECRET, "db", "other", false } };
    declare("edgejobs/edge-a/nightly", both, 2);
    is_int(refreshes, 1, "a key that was not wanted before is asked for");
    value(&both[1], REF_PENDING, "and pending until then");
    hear(OBJECT("5", "\"password\":\"czNjcmV0\",\"other\":\"bm8=\""));
    is_str(value(&both[1], REF_FOUND, "listed once more"), "no", "it is there");
    declare("edgejobs/edge-a/nightly", NULL, 0);
    ok(strstr(row(), "bm8=") == NULL && strstr(row(), "czNjcmV0") != NULL, "what nobody refers to any more leaves the row");
    refs_forget(refs, "edgeapps/edge-a/web");
    refs_run(refs, true);
    is_str(row(), "", "nor does the row stay without a reference");
    is_int(follows, 0, "and the kind is followed no more");
    end();
}

static int count_key(void *ctx, const char *key, const struct ref_value *v)
{
    char *text = ctx;
    size_t n = strlen(text);
    snprintf(text + n, 128 - n, "%s=%s ", key, v->data);
    return 0;
}

static const char *all_of(const struct ref *r, enum ref_state want, const char *when)
{
    static char text[128];
    struct err e = ERR_INIT;
    enum ref_state state;
    struct refs_reader rd AUTO_REFS;
    text[0] = '\0';
    refs_reader_init(&rd, refs, &arena);
    is_int(refs_read_all(&rd, r, &state, count_key, text, &e), 0, "%s: it can be read", when);
    is_int(state, want, "%s: its state", when);
    return text;
}

static void test_whole(void)
{
    begin();
    declare("edgeapps/edge-a/web", &password, 1);
    hear(OBJECT("5", "\"a\":\"MQ==\",\"password\":\"czNjcmV0\""));
    refs_known(refs, &kind_secret, NULL);
    declare("edgeapps/edge-a/all", &whole, 1);
    refs_known(refs, &kind_secret, &(struct err){ .cls = E_BUSY });
    is_str(all_of(&whole, REF_PENDING, "only some keys are stored"), "", "nothing yet");
    hear(OBJECT("5", "\"a\":\"MQ==\",\"password\":\"czNjcmV0\""));
    is_str(all_of(&whole, REF_FOUND, "heard"), "a=1 password=s3cret ", "all keys, in order");
    hear(OBJECT("6", ""));
    is_str(all_of(&whole, REF_FOUND, "emptied"), "", "a key that left is not there for the whole");
    is_str(value(&password, REF_KEPT, "emptied"), "s3cret", "but kept for whom it is needed");
    end();
}

static void test_what_goes_is_kept(void)
{
    struct err e = ERR_INIT;
    begin();
    declare("edgeapps/edge-a/web", &password, 1);
    hear(OBJECT("5", "\"password\":\"czNjcmV0\""));
    refs_known(refs, &kind_secret, NULL);
    hear(OBJECT("6", "\"x\":\"eA==\""));
    is_str(value(&password, REF_KEPT, "the key went"), "s3cret", "its last value");
    value(&optional, REF_ABSENT, "the key went, who can do without it does");
    hear(OBJECT("7", "\"x\":\"eQ==\""));
    is_str(value(&password, REF_KEPT, "and stays away"), "s3cret", "still");
    hear(OBJECT("8", "\"password\":\"bmV3\""));
    is_str(value(&password, REF_FOUND, "it is back"), "new", "with its new value");
    is_int(cache_disown(cache, SECRET, &e), 0, "the object is deleted");
    rig_commit();
    is_str(value(&password, REF_KEPT, "the object went"), "new", "its last value");
    value(&optional, REF_ABSENT, "the object went, optional");
    is_int(cache_mark_begin(cache, SOURCE, &e), 0, "a list");
    is_int(cache_unmarked(cache, SOURCE, NULL, NULL, &e), 0, "no list misses it");
    declare("edgeapps/edge-a/web", &password, 1);
    ok(strstr(row(), "bmV3") != NULL, "it is in the row");
    end();
}

static void test_after_a_boot(void)
{
    struct err e = ERR_INIT;
    static const struct ref other = { REF_SECRET, "db", "other", false };
    begin();
    static const struct ref both[] = { { REF_SECRET, "db", "password", false }, { REF_SECRET, "db", "other", false } };
    declare("edgeapps/edge-a/web", both, 2);
    hear(OBJECT("5", "\"password\":\"czNjcmV0\",\"other\":\"bm8=\""));
    refs_free(refs);
    struct refs_conf c = { .ns = "edge-a", .follow = on_follow, .refresh = on_refresh, .touch = on_touch };
    is_int(refs_new(&refs, cache, &c, &e), 0, "the agent starts again");
    follows = 0;
    is_int(refs_declare(refs, "edgeapps/edge-a/web", &password, 1, &e), 0, "one has been looked at");
    refs_run(refs, false);
    is_int(follows, 0, "nothing is asked before all have been");
    is_str(value(&other, REF_FOUND, "nobody has said yet that it is not wanted"), "no", "it is kept");
    is_str(value(&password, REF_FOUND, "offline, after a boot"), "s3cret", "the value is there");
    refs_run(refs, true);
    ok(strstr(row(), "bm8=") == NULL, "looked at all: what nobody refers to goes");
    is_int(follows, 1, "and the kind is followed");
    end();
}

static void test_verdicts(void)
{
    begin();
    declare("edgeapps/edge-a/web", &password, 1);
    refs_known(refs, &kind_secret, &(struct err){ .cls = E_BUSY });
    touches = 0;
    refs_known(refs, &kind_secret, NULL);
    is_int(touches, 1, "a complete list without it tells, too");
    value(&password, REF_ABSENT, "listed");
    refs_known(refs, &kind_secret, NULL);
    is_int(touches, 1, "the same again is no news");
    refs_known(refs, &kind_secret, &(struct err){ .cls = E_OFFLINE });
    is_int(touches, 1, "nor is a link that went");
    value(&password, REF_ABSENT, "what was heard is known without a link, too");
    refs_known(refs, &kind_secret, &(struct err){ .cls = E_FORBIDDEN, .msg = "no" });
    is_int(touches, 2, "forbidden: they are looked at");
    ok(refs_trouble(refs, REF_SECRET) != NULL && refs_trouble(refs, REF_CONFIGMAP) == NULL, "one kind alone");
    value(&password, REF_UNKNOWN, "forbidden");
    refs_known(refs, &kind_secret, NULL);
    is_int(touches, 3, "allowed again");
    end();
}

static void test_many(void)
{
    char key[64];
    struct err e = ERR_INIT;
    begin();
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof(key), "edgeapps/edge-a/app-%d", i);
        if (refs_declare(refs, key, &password, 1, &e) < 0)
            fail("%s: %s", key, e.msg);
    }
    refs_run(refs, true);
    touches = 0;
    hear(OBJECT("5", "\"password\":\"czNjcmV0\""));
    is_int(touches, 1000, "a thousand refer to one: each is looked at once");
    is_int((int)table_count(&refs->targets), 1, "kept once");
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof(key), "edgeapps/edge-a/app-%d", i);
        refs_forget(refs, key);
    }
    refs_run(refs, true);
    is_int((int)(table_count(&refs->targets) + table_count(&refs->users)), 0, "nothing stays of them");
    end();
}

int main(void)
{
    if (!rig_start())
        return 1;
    test_only_what_is_referred_to();
    test_whole();
    test_what_goes_is_kept();
    test_after_a_boot();
    test_verdicts();
    test_many();
    rig_end();
    return done_testing();
}
