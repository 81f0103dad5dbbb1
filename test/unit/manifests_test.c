// SPDX-License-Identifier: Apache-2.0
#include "flow/manifests.h"

#include "kind_rig.h"

#define DIR "/etc/manifests"

enum { GOT_MAX = KEY_MAX + 32 };

static struct rig r;
static struct manifests *m;

static void on_changed(void *ctx, const char *key)
{
    engine_object_changed(((struct rig *)ctx)->engine, key);
}

static void on_gone(void *ctx, const char *key, const char *uid)
{
    struct rig *rig = ctx;
    struct err e = ERR_INIT;
    rig_must(engine_tombstone(rig->db, key, uid, &e), &e, "tombstone");
    engine_object_gone(rig->engine, key);
}

static void begin(void)
{
    struct err e = ERR_INIT;
    struct manifests_conf c = { .dir = DIR, .registry = r.registry, .env = &r.env, .changed = on_changed, .gone = on_gone, .ctx = &r };
    rig_must(manifests_new(&m, &c, &e), &e, "manifests");
    manifests_start(m);
    rig_run(&r, 100);
}

static void start(void)
{
    rig_start(&r);
    (void)mkdir(rig_path(&r, DIR), 0755);
    begin();
}

static void end(void)
{
    manifests_free(m);
    rig_end(&r);
}

// Another agent on the same machine and store.
static void restart(void)
{
    manifests_free(m);
    rig_close(&r, false);
    rig_open(&r);
    begin();
}

static const char *config_yaml(const char *name, const char *content)
{
    char *t = rig_text(&r);
    snprintf(t, RIG_TEXT_MAX,
             "apiVersion: edge.limpet.dev/v1alpha1\nkind: EdgeConfig\nmetadata: {name: %s}\nspec:\n"
             "  files: [{path: /srv/%s, content: %s}]\n",
             name, name, content);
    return t;
}

static void put(const char *file, const char *text)
{
    char path[128];
    snprintf(path, sizeof(path), DIR "/%s", file);
    rig_write(&r, path, text, 0644);
}

static void take_away(const char *file)
{
    char path[128];
    snprintf(path, sizeof(path), DIR "/%s", file);
    (void)unlink(rig_path(&r, path));
}

static struct manifests_stats stats(void)
{
    struct manifests_stats s;
    manifests_stats(m, &s);
    return s;
}

static const char *both(const char *a, const char *b)
{
    char *t = rig_text(&r);
    snprintf(t, RIG_TEXT_MAX, "%s---\n%s", a, b);
    return t;
}

static void test_a_file_is_made_true(void)
{
    start();
    put("a.yaml", config_yaml("a", "one"));
    put("notes.txt", "nothing");
    put(".hidden.yaml", config_yaml("hidden", "x"));
    rig_run(&r, 1000);
    is_str(rig_read(&r, "/srv/a"), "one", "what a file says is made true");
    is_str(rig_read(&r, "/srv/hidden"), "(absent)", "hidden files and others do not count");
    is_str(rig_condition(&r, "edgeconfigs", "a", "Ready"), "True AllApplied", "its status is known here");
    struct outbox_stats o;
    struct err e = ERR_INIT;
    is_int(outbox_stats(r.outbox, &o, &e), 0, "what the server has to hear");
    is_int(o.status_pending + o.events_pending, 0, "nothing of it");

    struct cached row AUTO_CACHED = CACHED_INIT;
    is_int(cache_get(r.cache, rig_key(&r, "edgeconfigs", "a"), &row, &e), 0, "it lies in the cache");
    is_int(row.generation, 1, "generation 1");
    put("a.yaml", config_yaml("a", "two"));
    rig_run(&r, 1000);
    is_str(rig_read(&r, "/srv/a"), "two", "a change is heard");
    is_int(cache_get(r.cache, rig_key(&r, "edgeconfigs", "a"), &row, &e), 0, "the row");
    is_int(row.generation, 2, "has the next generation");
    uint64_t scans = stats().scans;
    rig_run(&r, 600000);
    is_int(stats().scans, scans, "nothing is read while nothing changes");
    end();
}

static void test_bad_file(void)
{
    start();
    put("a.yaml", config_yaml("a", "one"));
    put("b.yaml", config_yaml("b", "one"));
    rig_run(&r, 1000);
    put("a.yaml", "apiVersion: edge.limpet.dev/v1alpha1\nkind: [EdgeConfig\n");
    rig_run(&r, 10000);
    is_str(rig_read(&r, "/srv/a"), "one", "a file that is broken is left alone");
    has_str(stats().problem, "a.yaml: line 3, column 1", "and named with its line: %s", stats().problem);
    put("a.yaml", "\n---\napiVersion: edge.limpet.dev/v1alpha1\nkind: EdgeConfig\nmetadata: {name: a}\nspec: {files: [{path: x}]}\n");
    rig_run(&r, 10000);
    has_str(stats().problem, "a.yaml: line 6: EdgeConfig a: spec.files[0]", "what its kind refuses too: %s", stats().problem);
    put("a.yaml", "");
    rig_run(&r, 10000);
    is_str(rig_read(&r, "/srv/a"), "one", "an empty file removes nothing");
    restart();
    rig_run(&r, 10000);
    is_str(rig_read(&r, "/srv/a"), "one", "nor after a restart");
    is_int(stats().bad, 1, "one is bad");
    put("b.yaml", config_yaml("b", "two"));
    rig_run(&r, 1000);
    is_str(rig_read(&r, "/srv/b"), "two", "others count all the same");
    put("a.yaml", config_yaml("a", "three"));
    rig_run(&r, 1000);
    is_str(rig_read(&r, "/srv/a"), "three", "right again, it counts again");
    is_int(stats().bad, 0, "none is bad");
    end();
}

static void test_gone(void)
{
    start();
    put("a.yaml", both(config_yaml("a", "one"), config_yaml("b", "one")));
    rig_run(&r, 5000);
    is_str(rig_read(&r, "/srv/b"), "one", "two documents");
    put("a.yaml", config_yaml("a", "one"));
    rig_run(&r, 1000);
    is_str(rig_read(&r, "/srv/b"), "one", "the second is not gone at once");
    rig_run(&r, 5000);
    is_str(rig_read(&r, "/srv/b"), "(absent)", "but when it stays away");
    take_away("a.yaml");
    rig_run(&r, 1000);
    put("a.yaml", "half: [");
    rig_run(&r, 10000);
    is_str(rig_read(&r, "/srv/a"), "one", "a file that an editor took away, and wrote half, is a bad one");
    put("a.yaml", config_yaml("a", "two"));
    rig_run(&r, 10000);
    take_away("a.yaml");
    rig_run(&r, 10000);
    is_str(rig_read(&r, "/srv/a"), "(absent)", "a file that is gone takes its objects with it");
    ok(rig_status(&r, "edgeconfigs", "a") == NULL, "and their status");
    is_int(stats().files, 0, "nothing is remembered of it");
    put("c.yaml", config_yaml("c", "one"));
    rig_run(&r, 1000);
    manifests_free(m);
    take_away("c.yaml");
    begin();
    rig_run(&r, 10000);
    is_str(rig_read(&r, "/srv/c"), "(absent)", "also one that went while nobody looked");
    end();
}

static void move(const char *from, const char *to)
{
    if (rename(rig_path(&r, from), rig_path(&r, to)) < 0)
        fail("%s: %s", from, strerror(errno));
}

static void test_no_directory(void)
{
    start();
    put("a.yaml", config_yaml("a", "one"));
    put("b.yaml", config_yaml("b", "one"));
    rig_run(&r, 1000);
    move(DIR, "/etc/away");
    rig_run(&r, 100000);
    is_str(rig_read(&r, "/srv/a"), "one", "a directory that vanished removes nothing");
    restart();
    rig_run(&r, 100000);
    is_str(rig_read(&r, "/srv/a"), "one", "nor after a restart");
    (void)mkdir(rig_path(&r, DIR), 0755);
    rig_run(&r, 100000);
    is_str(rig_read(&r, "/srv/a"), "one", "nor one that is another than before");
    has_str(stats().problem, "not mounted", "it says so");
    put("b.yaml", config_yaml("b", "two"));
    rig_run(&r, 10000);
    is_str(rig_read(&r, "/srv/b"), "two", "what it has counts");
    is_str(rig_read(&r, "/srv/a"), "one", "what it lacks does not");
    manifests_accept(m);
    rig_run(&r, 10000);
    is_str(rig_read(&r, "/srv/a"), "(absent)", "until somebody says that it is right");
    is_str(rig_read(&r, "/srv/b"), "two", "the rest stays");
    is_str(stats().problem, "", "and that is no problem any more");
    end();
}

static void test_two_files_one_object(void)
{
    start();
    put("b.yaml", both(config_yaml("x", "from-b"), config_yaml("z", "from-b")));
    rig_run(&r, 1000);
    put("a.yaml", config_yaml("x", "from-a"));
    rig_run(&r, 1000);
    is_str(rig_read(&r, "/srv/x"), "from-a", "the first file by name has the object, whichever came first");
    is_str(rig_read(&r, "/srv/z"), "from-b", "the other's other objects count");
    has_str(stats().problem, "b.yaml: line 1: EdgeConfig x is defined by a.yaml", "and it is named: %s", stats().problem);
    take_away("a.yaml");
    rig_run(&r, 1000);
    is_str(rig_read(&r, "/srv/x"), "from-b", "when the first goes the second has it");
    is_int(stats().bad, 0, "and nothing is wrong");
    put("b.yaml", both(config_yaml("x", "v1"), config_yaml("x", "v2")));
    rig_run(&r, 1000);
    has_str(stats().problem, "line 7: EdgeConfig x stands twice, first in line 1", "twice in one file: %s", stats().problem);
    is_str(rig_read(&r, "/srv/x"), "from-b", "neither counts");
    end();
}

static const char *twin_status(void)
{
    struct status_slot slot AUTO_SLOT = STATUS_SLOT_INIT;
    struct err e = ERR_INIT;
    char *t = rig_text(&r), key[KEY_MAX + sizeof(OUTBOX_TWIN)];
    outbox_twin_key(rig_key(&r, "edgeconfigs", "a"), key);
    if (outbox_status_get(r.outbox, key, &slot, &e) < 0)
        return "(none)";
    snprintf(t, RIG_TEXT_MAX, "%s %s %.1500s", slot.uid, slot.pending ? "pending" : "told", buf_str(&slot.json));
    return t;
}

static void test_twins(void)
{
    static const char servers[] = "{\"files\":[{\"path\":\"/srv/a\",\"content\":\"server\"}]}";
    start();
    rig_apply(&r, "edgeconfigs", "a", servers);
    rig_run(&r, 1000);
    is_str(rig_read(&r, "/srv/a"), "server", "the server's object");
    put("a.yaml", config_yaml("a", "file"));
    rig_run(&r, 1000);
    is_str(rig_read(&r, "/srv/a"), "file", "a file wins over it");
    has_str(twin_status(), "uid-edgeconfigs-a pending", "the server hears of its own: %s", twin_status());
    has_str(twin_status(), "\"status\":\"False\"", "not accepted");
    has_str(twin_status(), "\"reason\":\"ShadowedByFile\"", "and why");
    has_str(twin_status(), "a.yaml", "and by which");
    rig_apply(&r, "edgeconfigs", "a", "{\"files\":[{\"path\":\"/srv/a\",\"content\":\"server2\"}]}");
    rig_run(&r, 1000);
    is_str(rig_read(&r, "/srv/a"), "file", "whatever the server says");
    has_str(twin_status(), "\"observedGeneration\":2", "that is seen");
    restart();
    rig_run(&r, 1000);
    is_str(rig_read(&r, "/srv/a"), "file", "also after a restart");
    take_away("a.yaml");
    rig_run(&r, 10000);
    is_str(rig_read(&r, "/srv/a"), "server2", "without the file the server's takes over");
    is_str(twin_status(), "(none)", "and is accepted");
    is_str(rig_condition(&r, "edgeconfigs", "a", "Ready"), "True AllApplied", "and reported");
    put("a.yaml", config_yaml("a", "file"));
    rig_run(&r, 1000);
    rig_delete(&r, "edgeconfigs", "a");
    rig_run(&r, 10000);
    is_str(rig_read(&r, "/srv/a"), "file", "the server's deletion does not reach the file's");
    is_str(twin_status(), "(none)", "there is no twin any more");
    take_away("a.yaml");
    rig_run(&r, 10000);
    is_str(rig_read(&r, "/srv/a"), "(absent)", "without either it is gone");
    end();
}

// An older agent with a file for a newer one, or a typo.
static void test_unknown_fields(void)
{
    start();
    put("a.yaml", "apiVersion: edge.limpet.dev/v1alpha1\nkind: EdgeConfig\nmetadata: {name: a}\nspec:\n  files:\n  - path: /srv/a\n"
                  "    content: one\n    nmode: '0600'\n  fyles: []\n");
    rig_run(&r, 1000);
    is_str(rig_read(&r, "/srv/a"), "one", "what is understood is made true");
    is_str(stats().problem, "a.yaml: line 8: EdgeConfig a: unknown field spec.files[0].nmode, and 1 more", "what is not is named");
    is_int(stats().unknown, 1, "it is one file");
    is_int(stats().bad, 0, "that is not left alone");
    restart();
    rig_run(&r, 1000);
    is_str(rig_read(&r, "/srv/a"), "one", "a restart changes nothing");
    is_int(stats().unknown, 1, "and it is named again");
    put("b.yaml", "x: [");
    rig_run(&r, 1000);
    has_str(stats().problem, "b.yaml", "a file that is left alone comes first: %s", stats().problem);
    put("a.yaml", config_yaml("a", "two"));
    take_away("b.yaml");
    rig_run(&r, 10000);
    is_str(stats().problem, "", "right again, there is nothing to say");
    is_int(stats().unknown, 0, "of no file");
    end();
}

static int refuse(void *ctx, struct manifest_object *o)
{
    snprintf(ctx, GOT_MAX, "%s@%zu", o->key, o->line);
    return 0;
}

static void test_reading(void)
{
#define HEAD "apiVersion: edge.limpet.dev/v1alpha1\nkind: EdgeConfig\n"
    static const struct {
        const char *text;
        int cls;
        const char *says;
    } cases[] = {
        { HEAD "metadata: {name: a}\nspec: {files: [{path: /srv/a, content: x}]}\n", 0, "edgeconfigs/edge-a/a@1" },
        { "# c\n---\n---\n" HEAD
          "metadata: {name: a.b-c, namespace: edge-a, uid: x}\nspec: {files: [{path: /srv/a, content: x}]}\nstatus: 1\n",
          0, "edgeconfigs/edge-a/a.b-c@4" },
        { "kind: List\napiVersion: v1\nitems:\n- apiVersion: edge.limpet.dev/v1alpha1\n  kind: EdgeConfig\n  metadata: {name: a}\n"
          "  spec: {files: [{path: /srv/a, content: x}]}\n",
          0, "edgeconfigs/edge-a/a@1" },
        { "{\"apiVersion\":\"edge.limpet.dev/v1alpha1\",\"kind\":\"EdgeNode\",\"metadata\":{\"name\":\"edge-1\"}}", 0,
          "edgenodes/edge-a/edge-1@1" },
        { "\n" HEAD "metadata: {name: A}\n", E_INVAL, "line 2: EdgeConfig A: metadata.name" },
        { HEAD "metadata: {name: a-}\n", E_INVAL, "metadata.name" },
        { HEAD "metadata: {name: a.-b}\n", E_INVAL, "metadata.name" },
        { HEAD "metadata: {}\n", E_INVAL, "metadata.name" },
        { HEAD "metadata: {name: a, namespace: b}\n", E_INVAL, "metadata.namespace: must be absent or edge-a" },
        { HEAD "metadata: {name: a}\nspec: {files: [{path: /usr/a, content: x}]}\n", E_INVAL,
          "line 4: EdgeConfig a: spec.files[0].path: " },
        { "kind: List\napiVersion: v1\nitems:\n- apiVersion: edge.limpet.dev/v1alpha1\n  kind: EdgeConfig\n  metadata: {name: a}\n"
          "  spec:\n    files:\n    - path: /srv/a\n      content: x\n      mode: rw\n",
          E_INVAL, "line 11: EdgeConfig a: spec.files[0].mode: " },
        { HEAD "metadata: {name: a, labels: {a: 1}}\nspec: {files: [{path: /srv/a, content: x}]}\n", E_INVAL,
          "line 3: EdgeConfig a: metadata.labels.a: must be text" },
        { HEAD "metadata: {name: a, annotations: [a]}\nspec: {files: [{path: /srv/a, content: x}]}\n", E_INVAL,
          "line 3: EdgeConfig a: metadata.annotations: must be an object" },
        { "kind: EdgeConfig\napiVersion: edge.limpet.dev/v2\nmetadata: {name: a}\n", E_INVAL, "v2 is no kind" },
        { "kind: Pod\napiVersion: v1\n", E_INVAL, "Pod of v1 is no kind" },
        { "a: 1\n", E_INVAL, "apiVersion and kind" },
        { "- a\n", E_INVAL, "line 1: not an object" },
        { "a: 1\n---\n\tb\n", E_INVAL, "line 1: apiVersion" },
        { HEAD "metadata: {name: a}\nmetadata: {name: b}\n", E_INVAL, "line 4, column 1: this key stands twice" },
    };
    rig_start(&r);
    struct manifest_env env = { .registry = r.registry, .env = &r.env, .ns = RIG_NS };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        char got[GOT_MAX] = "";
        is_int(manifest_read(&env, cases[i].text, strlen(cases[i].text), refuse, got, &e), cases[i].cls, "case %d: %s", (int)i, e.msg);
        has_str(cases[i].cls == 0 ? got : e.msg, cases[i].says, "as it should be");
    }
    rig_end(&r);
}

int main(void)
{
    test_reading();
    test_a_file_is_made_true();
    test_bad_file();
    test_unknown_fields();
    test_gone();
    test_no_directory();
    test_two_files_one_object();
    test_twins();
    return done_testing();
}
