// SPDX-License-Identifier: Apache-2.0
//
// The engine's rules, with a kind made for the purpose, a real store in a temporary directory, and a clock that the loop moves.
#include "data/key.h"
#include "flow/reconcile.c"

#include "fake_clock.h"
#include "tap.h"

// A loop that does not sleep: it moves the clock to the next timer.
static struct fake_clock fc;
static int jump(struct loop_backend *b, struct loop *l, int64_t timeout_ms, struct err *e)
{
    (void)b;
    (void)l;
    (void)e;
    fake_clock_advance(&fc, timeout_ms < 0 ? 1000 : timeout_ms);
    return 0;
}
static int no_set(struct loop_backend *b, struct loop_fd *f, struct err *e)
{
    (void)b;
    (void)f;
    (void)e;
    return 0;
}
static void no_del(struct loop_backend *b, struct loop_fd *f)
{
    (void)b;
    (void)f;
}
static void no_free(struct loop_backend *b)
{
    (void)b;
}
static struct loop_backend backend = { .fd_set = no_set, .fd_del = no_del, .wait = jump, .free = no_free };

// The kind under test does what `script` says.
static struct {
    int (*reconcile)(struct pass *p, struct err *e);
    int passes, gones, cancels, waiting, most_waiting;
    int64_t times[64];
    struct object_state *waiters[8];
    int gone_busy;
} script;

static int test_reconcile(struct pass *p, struct err *e)
{
    if (script.passes < 64)
        script.times[script.passes] = fc.mono_ms;
    script.passes++;
    return script.reconcile(p, e);
}

static int test_gone(struct pass *p, struct err *e)
{
    script.gones++;
    if (script.gone_busy > 0) {
        script.gone_busy--;
        p->requeue_ms = 100;
        return err_set(e, E_BUSY, "still stopping");
    }
    return 0;
}

static void test_cancel(struct pass *p)
{
    (void)p;
    script.cancels++;
    script.waiting--;
}

static int test_check(const struct kind *k, const struct kind_env *env, const struct json *object, struct err *e)
{
    (void)k;
    (void)env;
    if (json_get(json_get(object, "spec"), "bad") != NULL)
        return err_set(e, E_INVAL, "spec.bad: must not be there");
    return 0;
}

static const char *const conditions[] = { "Accepted", "Ready", NULL };
static const struct kind kind = { .type = { "example.com", "v1", "things" },
                                  .name = "Thing",
                                  .conditions = conditions,
                                  .state_size = 16,
                                  .max_concurrent = 2,
                                  .write_status = true,
                                  .check = test_check,
                                  .reconcile = test_reconcile,
                                  .gone = test_gone,
                                  .cancel = test_cancel };

static char dir[] = "/tmp/limpet-engine.XXXXXX";
static struct disk *disk;
static struct kind_env env;
static struct registry *registry;
static struct engine *engine;
static struct loop_hook work, commit;

static bool on_work(struct loop_hook *h)
{
    (void)h;
    return engine_run(engine);
}

static bool on_commit(struct loop_hook *h)
{
    struct err e = ERR_INIT;
    (void)h;
    if (db_commit(env.db, &e) < 0)
        ok(false, "commit: %s", e.msg);
    return false;
}

#define NEEDS(call)                          \
    do {                                     \
        struct err e = ERR_INIT;             \
        if ((call) < 0) {                    \
            printf("Bail out! %s\n", e.msg); \
            exit(1);                         \
        }                                    \
    } while (0)

static char asked_for[KEY_MAX];

static void on_unreadable(void *ctx, const char *key)
{
    (void)ctx;
    snprintf(asked_for, sizeof(asked_for), "%s", key);
}

static void setup(void)
{
    char path[128];
    static struct db_conf dc;
    static struct outbox_conf oc;
    static struct engine_conf ec = { .passes_per_turn = 8, .unreadable = on_unreadable };
    snprintf(path, sizeof(path), "%s/limpet.db", dir);
    dc.path = path;
    fake_clock_init(&fc, 7);
    fc.synced = true;
    NEEDS(loop_new(&env.loop, &fc.clock, &backend, &e));
    NEEDS(disk_real_new(&disk, NULL, "", &e));
    env.clock = &fc.clock;
    env.disk = disk;
    env.node = "n";
    env.ns = "ns";
    NEEDS(db_open(&env.db, disk, &fc.clock, &dc, &e));
    NEEDS(cache_open(&env.cache, env.db, &e));
    NEEDS(outbox_open(&env.outbox, env.db, &fc.clock, &oc, &e));
    NEEDS(port_fake_new(&env.port, env.loop, &e));
    NEEDS(registry_new(&registry, &e));
    NEEDS(registry_add(registry, &kind, &e));
    NEEDS(engine_new(&engine, &env, registry, &ec, &e));
    loop_hook_add(env.loop, &work, on_work);
    loop_hook_add(env.loop, &commit, on_commit);
}

static void put_uid(const char *name, const char *uid, const char *spec, int generation)
{
    char text[512], key[KEY_MAX];
    struct object_view v;
    snprintf(text, sizeof(text),
             "{\"apiVersion\":\"example.com/v1\",\"kind\":\"Thing\",\"metadata\":{\"name\":\"%s\",\"namespace\":\"ns\",\"uid\":\"%s\","
             "\"resourceVersion\":\"%d\",\"generation\":%d},\"spec\":%s}",
             name, uid, generation + 100, generation, spec);
    NEEDS(key_make(key, "things", "ns", name, &e));
    NEEDS(object_scan(&v, text, strlen(text), &e));
    NEEDS(cache_put(env.cache, "src", key, &v, text, strlen(text), &e));
    engine_object_changed(engine, key);
}

static void put(const char *name, const char *spec, int generation)
{
    put_uid(name, "u1", spec, generation);
}

static void turn(int n)
{
    for (int i = 0; i < n; i++)
        NEEDS(loop_turn(env.loop, 0, &e));
}

static void run_for(int64_t ms)
{
    for (int64_t end = fc.mono_ms + ms; fc.mono_ms < end;)
        NEEDS(loop_turn(env.loop, end - fc.mono_ms, &e));
}

static void reset(int (*fn)(struct pass *, struct err *))
{
    memset(&script, 0, sizeof(script));
    script.reconcile = fn;
}

static const char *status_of(const char *name)
{
    static struct buf b = BUF_INIT(65536);
    struct status_slot s = STATUS_SLOT_INIT;
    char key[KEY_MAX];
    NEEDS(key_make(key, "things", "ns", name, &e));
    buf_reset(&b);
    if (outbox_status_get(env.outbox, key, &s, NULL) == 0)
        NEEDS(buf_add(&b, buf_str(&s.json), s.json.len, &e));
    status_slot_fini(&s);
    return buf_str(&b);
}

static bool says(const char *name, const char *what)
{
    bool yes = strstr(status_of(name), what) != NULL;
    if (!yes)
        printf("#   status of %s: %s\n", name, status_of(name));
    return yes;
}

// --- the scripts

static int fine(struct pass *p, struct err *e)
{
    (void)e;
    status_cond(p->status, "Ready", COND_TRUE, "Fine", "fine");
    return 0;
}

static int fails_io(struct pass *p, struct err *e)
{
    (void)p;
    return err_set(e, E_IO, "the disk said no");
}

static int fails_for_good(struct pass *p, struct err *e)
{
    (void)p;
    return err_set(e, E_TERMINAL, "never");
}

static int waits(struct pass *p, struct err *e)
{
    (void)e;
    script.waiters[script.waiting] = p->os;
    script.waiting++;
    script.most_waiting = MAX(script.most_waiting, script.waiting);
    return pass_wait(p, 0);
}

static bool intended_before, committed_between;
static int intends(struct pass *p, struct err *why)
{
    struct buf b AUTO_BUF = BUF_INIT(64);
    if (intent_get(p->env->db, p->key, "mine", &b, NULL) == 0) {
        committed_between = !db_dirty(p->env->db);
        return fine(p, why);
    }
    if (intended_before)
        return fine(p, why);
    intended_before = true;
    NEEDS(intent_put(p->env->db, p->key, "mine", "1", &e));
    engine_touch(p->env->engine, p->key, "impatient"); // even a touch in between must not overtake the commit
    return pass_after_commit(p);
}

// --- the rules

static void success(void)
{
    reset(fine);
    put("a", "{}", 1);
    turn(2);
    is_int(script.passes, 1, "a change is one pass");
    ok(says("a", "\"observedGeneration\":1") && says("a", "\"reason\":\"Fine\""), "its status is kept");
    struct engine_stats st;
    engine_stats(engine, &st);
    uint64_t writes = st.status_writes;
    engine_touch(engine, "things/ns/a", "look");
    turn(2);
    is_int(script.passes, 2, "a look is a pass, though the generation was seen already: drift needs no new generation");
    engine_stats(engine, &st);
    is_int((int64_t)st.status_writes, (int64_t)writes, "field 13: no write without a difference");
    ok(!db_dirty(env.db), "and no transaction");
    run_for(250000);
    is_int(script.passes, 2, "stable: not looked at for minutes");
    run_for(100000);
    is_int(script.passes, 3, "and then looked at again");
}

static void failures(void)
{
    reset(fails_io);
    put("b", "{}", 1);
    turn(2);
    ok(says("b", "\"type\":\"Ready\",\"status\":\"False\"") && says("b", "IOError") && says("b", "the disk said no"),
       "an error becomes the Ready condition");
    run_for(2000);
    ok(script.passes >= 7 && script.passes <= 12, "it is tried again at growing intervals: %d passes in 2 s", script.passes);
    int before = script.passes;
    script.reconcile = fine;
    run_for(6000);
    is_int(script.passes, before + 1, "success ends it");
    is_int(workq_failures(engine->q, "things/ns/b"), 0, "and forgets the history");

    reset(fails_for_good);
    put("b", "{\"x\":1}", 2);
    run_for(60000);
    is_int(script.passes, 1, "a permanent error is status, not a retry");
    script.reconcile = fine;
    put("b", "{\"x\":2}", 3);
    turn(2);
    ok(says("b", "\"observedGeneration\":3") && says("b", "Fine"), "until something changes");
}

static void invalid(void)
{
    reset(fine);
    put("c", "{}", 1);
    turn(2);
    put("c", "{\"bad\":1}", 2);
    turn(2);
    is_int(script.passes, 1, "an invalid spec reaches no reconcile");
    ok(says("c", "\"type\":\"Accepted\",\"status\":\"False\"") && says("c", "spec.bad: must not be there"),
       "Accepted=False names field and reason");
    ok(says("c", "\"type\":\"Ready\",\"status\":\"True\",\"observedGeneration\":1"), "Ready still speaks for the generation it saw");
}

static void concurrency(void)
{
    reset(waits);
    for (int i = 0; i < 5; i++) {
        char name[8];
        snprintf(name, sizeof(name), "w%d", i);
        put(name, "{}", 1);
    }
    turn(5);
    is_int(script.waiting, 2, "at most max_concurrent passes of a kind are open");
    put("w0", "{\"again\":1}", 2);
    turn(3);
    is_int(script.passes, 2, "and one pass a key: a change waits for the open one");
    struct object_state *first = script.waiters[0];
    script.reconcile = fine;
    engine_resume(engine, first);
    script.waiting--;
    turn(3);
    ok(script.passes >= 3, "what was waited for goes on");
    engine_resume(engine, script.waiters[1]);
    turn(6);
    ok(says("w0", "\"observedGeneration\":2"), "the change that waited is made");
    ok(says("w4", "Fine"), "and the others had their turn");
    is_int(script.most_waiting, 2, "never more than two");
}

static void deadline(void)
{
    reset(waits);
    put("d", "{}", 1);
    turn(2);
    is_int(script.waiting, 1, "a pass waits");
    run_for(4900);
    is_int(script.cancels, 0, "within its deadline");
    script.reconcile = fine;
    run_for(200);
    is_int(script.cancels, 1, "at the deadline what it started is cancelled");
    ok(says("d", "Timeout") || says("d", "Fine"), "and the object says so");
    run_for(2000);
    ok(says("d", "Fine"), "and is tried again");
}

static void durable_first(void)
{
    reset(intends);
    intended_before = committed_between = false;
    put("i", "{}", 1);
    turn(4);
    is_int(script.passes, 2, "an intent takes two passes");
    ok(committed_between, "the second comes after the commit");
}

static int touched(void *ctx, const char *key)
{
    (void)ctx;
    (void)key;
    return 0;
}

static void absence(void)
{
    reset(fine);
    put("g", "{}", 1);
    turn(2);
    // The row is lost, as a damaged store loses it: no proof.
    NEEDS(cache_delete(env.cache, "things/ns/g", &e));
    engine_touch(engine, "things/ns/g", "look");
    turn(2);
    is_int(script.gones, 0, "absence without proof stops nothing");
    NEEDS(intent_put(env.db, "things/ns/g", "mine", "1", &e));
    engine_swept(engine, &kind, "ns");
    script.gone_busy = 2;
    turn(1);
    run_for(1000);
    is_int(script.gones, 3, "a complete list is proof; a stop that takes time is asked again");
    struct buf b AUTO_BUF = BUF_INIT(64);
    is_int(intent_get(env.db, "things/ns/g", "mine", &b, NULL), E_NOTFOUND, "then nothing of it is left");
    ok(engine_state_of(engine, "things/ns/g") == NULL && status_of("g")[0] == '\0', "neither state nor status");

    put("h", "{}", 1);
    turn(2);
    NEEDS(cache_delete(env.cache, "things/ns/h", &e));
    NEEDS(engine_tombstone(env.db, "things/ns/h", "u1", &e));
    engine_object_gone(engine, "things/ns/h");
    put_uid("h", "u2", "{}", 1); // made again before its stop began
    script.gones = 0;
    turn(3);
    is_int(script.gones, 0, "deleted and made again at once: it goes on");
    is_int(intent_get(env.db, "things/ns/h", "gone", &b, NULL), E_NOTFOUND, "and the tombstone is gone");
    NEEDS(cache_each_key(env.cache, NULL, touched, NULL, &e));
}

static void stopped_in_a_commit_that_failed(void)
{
    struct buf b AUTO_BUF = BUF_INIT(64);
    reset(fine);
    put("k", "{}", 1);
    turn(2);
    NEEDS(cache_delete(env.cache, "things/ns/k", &e));
    NEEDS(engine_tombstone(env.db, "things/ns/k", "u1", &e));
    NEEDS(db_commit(env.db, &e));
    engine_object_gone(engine, "things/ns/k");
    (void)engine_run(engine);
    db_rollback(env.db);
    engine_store_failed(engine);
    is_int(intent_get(env.db, "things/ns/k", "gone", &b, NULL), 0, "a stop was finished, and that was not committed: it is owed again");
    script.gones = 0;
    NEEDS(engine_store_retry(engine, &e));
    turn(2);
    is_int(script.gones, 1, "it is asked for when the store is tried again");
    is_int(intent_get(env.db, "things/ns/k", "gone", &b, NULL), E_NOTFOUND, "then it is owed no more");
    is_str(status_of("k"), "", "and its status is gone");
}

static void damaged(void)
{
    reset(fine);
    put("x", "{}", 1);
    turn(2);
    struct db_stmt *s = db_stmt(env.db, "UPDATE object SET json = x'7b7d' WHERE key = 'things/ns/x'");
    NEEDS(db_run(s, &e));
    script.passes = 0;
    engine_touch(engine, "things/ns/x", "look");
    turn(2);
    is_int(script.passes + script.gones, 0, "a damaged row is unknown: neither a pass nor an end");
    struct engine_stats st;
    engine_stats(engine, &st);
    ok(st.skipped_corrupt > 0, "it is counted");
    is_str(asked_for, "things/ns/x", "it is asked for again");
}

static void large(void)
{
    static char text[2200000];
    struct object_view v;
    int n = snprintf(text, sizeof(text),
                     "{\"kind\":\"Thing\",\"metadata\":{\"name\":\"big\",\"namespace\":\"ns\",\"uid\":\"u1\",\"resourceVersion\":\"5\","
                     "\"generation\":1},\"spec\":{\"a\":\"");
    memset(text + n, 'x', 2100000);
    strcpy(text + n + 2100000, "\"}}");
    reset(fine);
    NEEDS(object_scan(&v, text, strlen(text), &e));
    NEEDS(cache_put(env.cache, "src", "things/ns/big", &v, text, strlen(text), &e));
    engine_object_changed(engine, "things/ns/big");
    turn(3);
    is_int(script.passes, 0, "a 2 MB object reaches no reconcile");
    ok(says("big", "TooLarge"), "and says why");
    // An ordinary size whose tree is over a pass's memory: many small values.
    char *p = text + snprintf(text, sizeof(text),
                              "{\"kind\":\"Thing\",\"metadata\":{\"name\":\"ones\",\"namespace\":\"ns\",\"uid\":\"u1\",\"resourceVersion\":"
                              "\"5\",\"generation\":1},\"spec\":{\"a\":[1");
    for (int i = 0; i < 900000; i++, p += 2)
        memcpy(p, ",1", 2);
    strcpy(p, "]}}");
    NEEDS(object_scan(&v, text, strlen(text), &e));
    NEEDS(cache_put(env.cache, "src", "things/ns/ones", &v, text, strlen(text), &e));
    engine_object_changed(engine, "things/ns/ones");
    turn(3);
    ok(says("ones", "TooLarge"), "so does one whose tree would be");
}

// Sound JSON that no tree can hold.
static void unreadable(void)
{
    char deep[2 * JSON_DEPTH_MAX + 8] = "{\"a\":";
    reset(fine);
    put("nul", "{\"a\":\"x\\u0000\"}", 1);
    turn(3);
    ok(says("nul", "Invalid") && says("nul", "u0000"), "a text with a NUL is refused, and why");
    memset(deep + 5, '[', JSON_DEPTH_MAX);
    memset(deep + 5 + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
    strcpy(deep + 5 + 2 * JSON_DEPTH_MAX, "}");
    put("deep", deep, 1);
    turn(3);
    ok(says("deep", "TooLarge") && says("deep", "deep"), "so is what is nested too deeply");
    is_int(script.passes, 0, "neither reaches a reconcile");
}

int main(void)
{
    struct err e = ERR_INIT;
    log_setup(LOG_ERROR, LOG_TEXT, NULL);
    if (mkdtemp(dir) == NULL)
        return 1;
    setup();
    success();
    failures();
    invalid();
    concurrency();
    deadline();
    durable_first();
    absence();
    stopped_in_a_commit_that_failed();
    damaged();
    large();
    unreadable();
    engine_free(engine);
    registry_free(registry);
    outbox_close(env.outbox);
    cache_close(env.cache);
    db_close(env.db);
    env.port->ops->free(env.port);
    if (disk->ops->rmtree(disk, dir, &e) < 0)
        ok(false, "clean-up: %s", e.msg);
    disk_free(disk);
    loop_free(env.loop);
    return done_testing();
}
