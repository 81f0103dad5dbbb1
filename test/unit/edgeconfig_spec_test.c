// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgeconfig_spec.c"

#include "spec_rig.h"

static struct arena arena;
static const char *const trees[] = { "/etc", "/srv", NULL };
static const struct cfg_guard guard = { trees, { "/var/lib/limpet", "/run/limpet", "/var/log/limpet", "/etc/limpet" } };

// The same verdicts as the CRD's schema, and what only the node knows: which trees may be written.
static const struct verdict verdicts[] = {
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\"}]}", NULL, 0 },
    { "{}", "spec.files: is required", 0 },
    { "{\"files\":[]}", "spec.files: must have 1..64 items, has 0", 0 },
    { "{\"files\":[{\"content\":\"\"}]}", "spec.files[0].path: is required", 0 },
    { "{\"files\":[{\"path\":\"/etc/f\"}]}", "spec.files[0].content: is required", 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":7}]}", "spec.files[0].content: must be a string", 0 },
    { "{\"files\":[{\"path\":\"/\",\"content\":\"\"}]}", "spec.files[0].path: must have at least 2", 0 },
    { "{\"files\":[{\"path\":\"/etc/@\",\"content\":\"\"}]}", NULL, 255 },
    { "{\"files\":[{\"path\":\"/etc/@\",\"content\":\"\"}]}", "spec.files[0].path: ", 256 }, // no file system has such a name
    { "{\"files\":[{\"path\":\"/etc/@\",\"content\":\"\"}]}", "spec.files[0].path: must have at most 1024", 1020 },
    { "{\"files\":[{\"path\":\"etc/f\",\"content\":\"\"}]}", "spec.files[0].path: ", 0 },
    { "{\"files\":[{\"path\":\"/etc/../f\",\"content\":\"\"}]}", "spec.files[0].path: ", 0 },
    { "{\"files\":[{\"path\":\"/etc/..\",\"content\":\"\"}]}", "spec.files[0].path: ", 0 },
    { "{\"files\":[{\"path\":\"/etc/.\",\"content\":\"\"}]}", "spec.files[0].path: ", 0 },
    { "{\"files\":[{\"path\":\"/etc//f\",\"content\":\"\"}]}", "spec.files[0].path: ", 0 },
    { "{\"files\":[{\"path\":\"/etc/\",\"content\":\"\"}]}", "spec.files[0].path: ", 0 },
    { "{\"files\":[{\"path\":\"/etc/a\\nb\",\"content\":\"\"}]}", "spec.files[0].path: must have no control characters", 0 },
    { "{\"files\":[{\"path\":\"/etc/.hidden\",\"content\":\"\"}]}", NULL, 0 },
    { "{\"files\":[{\"path\":\"/etc/...\",\"content\":\"\"}]}", NULL, 0 },
    { "{\"files\":[{\"path\":\"/etc/..f\",\"content\":\"\"}]}", NULL, 0 },
    { "{\"files\":[{\"path\":\"/etc/with space/\xc3\xbc\",\"content\":\"\"}]}", NULL, 0 },

    { "{\"files\":[{\"path\":\"/usr/bin/f\",\"content\":\"\"}]}",
      "spec.files[0].path: /usr/bin/f is not below a directory that this node lets be written", 0 },
    { "{\"files\":[{\"path\":\"/etcetera/f\",\"content\":\"\"}]}", "is not below a directory", 0 },
    { "{\"files\":[{\"path\":\"/etc/limpet/limpet.ini\",\"content\":\"\"}]}", "lies in the agent's own directory /etc/limpet", 0 },
    { "{\"files\":[{\"path\":\"/etc/limpet\",\"content\":\"\"}]}", "lies in the agent's own directory", 0 },
    { "{\"files\":[{\"path\":\"/etc/limpets\",\"content\":\"\"}]}", NULL, 0 },

    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"@\"}]}", NULL, 1048576 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"@\"}]}", "spec.files[0].content: must have at most 1048576", 1048577 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\",\"encoding\":\"gzip\"}]}", "spec.files[0].encoding: must be one of utf-8, base64",
      0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"not base64!\"}]}", NULL, 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"not base64!\",\"encoding\":\"base64\"}]}", "spec.files[0].content: must be base64",
      0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"AA=A\",\"encoding\":\"base64\"}]}", "spec.files[0].content: must be base64", 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"AA===\",\"encoding\":\"base64\"}]}", "spec.files[0].content: must be base64", 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"AAECA\",\"encoding\":\"base64\"}]}", "spec.files[0].content: must be base64", 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"AAEC\\r\\nAwQF\\r\\n\",\"encoding\":\"base64\"}]}", NULL, 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"AAE= \\n\",\"encoding\":\"base64\"}]}", NULL, 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\",\"encoding\":\"base64\"}]}", NULL, 0 },

    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\",\"mode\":\"644\"}]}", NULL, 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\",\"mode\":\"4755\"}]}", NULL, 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\",\"mode\":\"04755\"}]}", NULL, 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\",\"mode\":\"0000\"}]}", NULL, 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\",\"mode\":\"64\"}]}", "spec.files[0].mode: must have at least 3", 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\",\"mode\":\"000644\"}]}", "spec.files[0].mode: must have at most 5", 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\",\"mode\":\"14755\"}]}", "spec.files[0].mode: must be permission bits", 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\",\"mode\":\"0648\"}]}",
      "spec.files[0].mode: must be permission bits in octal, is \"0648\"", 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\",\"mode\":644}]}", "spec.files[0].mode: must be a string", 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\",\"owner\":\"-root\"}]}", "spec.files[0].owner: must be", 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\",\"group\":\"4294967295\"}]}", "spec.files[0].group: must be", 0 },

    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\"},{\"path\":\"/etc/f\",\"content\":\"\"}]}",
      "spec.files[1]: path /etc/f is there twice", 0 },
    { "{\"files\":[{\"path\":\"/etc/a\",\"content\":\"\"},{\"path\":\"/etc/a/b\",\"content\":\"\"}]}", "spec.files[1]: /etc/a and /etc/a/b",
      0 },
    { "{\"files\":[{\"path\":\"/etc/a/b\",\"content\":\"\"},{\"path\":\"/etc/a\",\"content\":\"\"}]}", "spec.files[1]: /etc/a/b and /etc/a",
      0 },
    { "{\"files\":[{\"path\":\"/etc/a\",\"content\":\"\"},{\"path\":\"/etc/ab\",\"content\":\"\"}]}", NULL, 0 },

    { "{\"directories\":[{\"path\":\"/etc/d\"}]}", NULL, 0 },
    { "{\"directories\":[{\"path\":\"/etc/d\",\"mode\":\"2750\",\"owner\":\"bin\",\"group\":\"0\"}]}", NULL, 0 },
    { "{\"directories\":[]}", "spec.directories: must have 1..32 items, has 0", 0 },
    { "{\"directories\":[{}]}", "spec.directories[0].path: is required", 0 },
    { "{\"directories\":[{\"path\":\"/etc/d/\"}]}", "spec.directories[0].path: ", 0 },
    { "{\"directories\":[{\"path\":\"/usr/d\"}]}", "spec.directories[0].path: /usr/d is not below a directory", 0 },
    { "{\"directories\":[{\"path\":\"/var/lib/limpet/d\"}]}", "lies in the agent's own directory", 0 },
    { "{\"directories\":[{\"path\":\"/etc/d\",\"mode\":\"0788\"}]}", "spec.directories[0].mode: must be permission bits", 0 },
    { "{\"directories\":[{\"path\":\"/etc/d\"},{\"path\":\"/etc/d\"}]}", "spec.directories[1]: path /etc/d is there twice", 0 },
    { "{\"directories\":[{\"path\":\"/etc/d\"},{\"path\":\"/etc/d/e\"}],\"files\":[{\"path\":\"/etc/d/e/f\",\"content\":\"\"}]}", NULL, 0 },
    { "{\"directories\":[{\"path\":\"/etc/f\"}],\"files\":[{\"path\":\"/etc/f\",\"content\":\"\"}]}",
      "spec.files[0]: path /etc/f is there twice", 0 },
    { "{\"directories\":[{\"path\":\"/etc/f/d\"}],\"files\":[{\"path\":\"/etc/f\",\"content\":\"\"}]}",
      "spec.files[0]: /etc/f/d and /etc/f: one would have to be a directory and a file", 0 },

    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\"}],\"onChange\":{\"app\":{\"name\":\"a\",\"signal\":\"HUP\"}}}", NULL, 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\"}],\"onChange\":{\"app\":{\"name\":\"a\",\"restart\":true}}}", NULL, 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\"}],\"onChange\":{\"app\":{\"name\":\"a\"}}}",
      "spec.onChange.app: give exactly one of signal and restart", 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\"}],\"onChange\":{\"app\":{\"name\":\"a\",\"signal\":\"HUP\",\"restart\":true}}}",
      "spec.onChange.app: give exactly one", 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\"}],\"onChange\":{\"app\":{\"signal\":\"HUP\"}}}",
      "spec.onChange.app.name: is required", 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\"}],\"onChange\":{\"app\":{\"name\":\"a\",\"signal\":\"KILL\"}}}",
      "spec.onChange.app.signal: must be one of HUP", 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\"}],\"onChange\":{\"command\":[\"x\"],\"app\":{\"name\":\"a\",\"signal\":\"HUP\"}}}",
      "spec.onChange: give exactly one of command and app", 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\"}],\"confirmSeconds\":10}", NULL, 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\"}],\"confirmSeconds\":9}", "spec.confirmSeconds: must be 10..3600, is 9", 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\"}],\"confirmSeconds\":3601}", "spec.confirmSeconds: must be 10..3600", 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"template\":true,\"content\":\"${node.labels.a/b} $${x\"}]}", NULL, 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"template\":true,\"content\":\"${nodename}\"}]}",
      "spec.files[0].content: line 1, column 1: nothing is known as ${nodename}", 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\"}],\"validate\":{}}", "spec.validate.command: is required", 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\"}],\"validate\":{\"command\":[\"\"]}}",
      "spec.validate.command[0]: names the program", 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\"}],\"validate\":{\"command\":[\"x\"],\"timeoutSeconds\":300}}", NULL, 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\"}],\"onChange\":{\"command\":[\"x\"],\"timeoutSeconds\":0}}",
      "spec.onChange.timeoutSeconds: must be 1..300", 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\"}],\"deletionPolicy\":\"Orphan\"}",
      "spec.deletionPolicy: must be one of Restore, Delete, Keep", 0 },
    { "{\"files\":[{\"path\":\"/etc/f\",\"content\":\"\"}],\"nodeName\":\"edge-2\"}", "spec.nodeName: is \"edge-2\"", 0 },
};

static int decode(const struct json *spec, struct err *e)
{
    struct cfg_spec s;
    return cfg_spec_decode(&s, spec, "edge-1", &guard, &arena, e);
}

static struct json *kept[32]; // the decoded spec borrows from it
static size_t n_kept;

static struct cfg_spec decoded(const char *text)
{
    struct cfg_spec s = { 0 };
    struct json *j = NULL;
    struct err e = ERR_INIT;
    if (json_parse(&j, text, strlen(text), &e) < 0 || cfg_spec_decode(&s, j, "edge-1", &guard, &arena, &e) < 0)
        fail("%s: %s", text, e.msg);
    if (n_kept < ARRAY_LEN(kept))
        kept[n_kept++] = j;
    return s;
}

static void test_defaults(void)
{
    struct cfg_spec s = decoded("{\"files\":[{\"path\":\"/etc/f\",\"content\":\"hi\\n\"}],\"onChange\":{\"command\":[\"x\"]}}");
    is_int(s.entries[0].mode, 0644, "mode is 0644 by default");
    ok(s.entries[0].owner == NULL && s.entries[0].group == NULL, "as the agent");
    is_int(s.entries[0].len, 3, "content as it is");
    is_int(s.deletion, CFG_RESTORE, "deletionPolicy is Restore");
    is_int(s.on_change.timeout_ms, 30000, "30 s");
    ok(s.validate.argv == NULL, "no validate");
}

static void test_base64(void)
{
    struct cfg_spec s = decoded("{\"files\":[{\"path\":\"/etc/f\",\"content\":\"AAEC\\nAw==\\n\",\"encoding\":\"base64\"},"
                                "{\"path\":\"/etc/g\",\"content\":\"/+8\",\"encoding\":\"base64\"}]}");
    is_int(s.entries[0].len, 4, "four bytes");
    ok(memcmp(s.entries[0].content, "\0\1\2\3", 4) == 0, "with a NUL among them");
    ok(s.entries[1].len == 2 && memcmp(s.entries[1].content, "\xff\xef", 2) == 0, "without padding");
}

static void test_directories(void)
{
    struct cfg_spec s = decoded("{\"directories\":[{\"path\":\"/etc/d/e\",\"mode\":\"700\"},{\"path\":\"/etc/d\"}],"
                                "\"files\":[{\"path\":\"/etc/a\",\"content\":\"\"}]}");
    is_int(s.n_entries, 3, "two directories and a file");
    is_int(s.n_dirs, 2, "directories first");
    is_str(s.entries[0].path, "/etc/d", "the one that holds the other before it");
    is_int(s.entries[0].mode, 0755, "mode 0755");
    is_int(s.entries[1].mode, 0700, "or the given one");
    ok(cfg_spec_entry(&s, "/etc/d", true) == &s.entries[0] && cfg_spec_entry(&s, "/etc/d", false) == NULL, "found as what it is");
    ok(cfg_spec_entry(&s, "/etc/a", false) == &s.entries[2] && cfg_spec_entry(&s, "/etc/a", true) == NULL, "so is the file");
}

#define F "{\"path\":\"/etc/a\",\"content\":\"1\"}"
#define G "{\"path\":\"/etc/b\",\"content\":\"2\"}"

static void test_revision(void)
{
    struct cfg_spec base = decoded("{\"files\":[" F "," G "]}");
    static const struct {
        const char *spec;
        bool same;
        const char *what;
    } cases[] = {
        { "{\"files\":[" G "," F "]}", true, "the order of files" },
        { "{\"files\":[" F "," G "],\"onChange\":{\"command\":[\"x\"]}}", true, "onChange" },
        { "{\"files\":[" F "," G "],\"deletionPolicy\":\"Keep\"}", true, "deletionPolicy" },
        { "{\"files\":[{\"path\":\"/etc/a\",\"content\":\"MQ==\",\"encoding\":\"base64\",\"mode\":\"644\"}," G "]}", true,
          "another way to write the same" },
        { "{\"files\":[" F "]}", false, "a file less" },
        { "{\"files\":[" F ",{\"path\":\"/etc/b\",\"content\":\"3\"}]}", false, "content" },
        { "{\"files\":[" F ",{\"path\":\"/etc/b\",\"content\":\"2\",\"mode\":\"600\"}]}", false, "mode" },
        { "{\"files\":[" F ",{\"path\":\"/etc/b\",\"content\":\"2\",\"owner\":\"bin\"}]}", false, "owner" },
        { "{\"files\":[" F ",{\"path\":\"/etc/b\",\"content\":\"2\",\"group\":\"bin\"}]}", false, "group" },
        { "{\"files\":[" F "," G "],\"directories\":[{\"path\":\"/etc/d\"}]}", false, "a directory" },
    };
    is_str(base.revision, "1-25776c85e9f7", "golden: must not change by accident");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct cfg_spec s = decoded(cases[i].spec);
        ok((strcmp(s.revision, base.revision) == 0) == cases[i].same, "revision: %s %s", cases[i].what,
           cases[i].same ? "does not count" : "counts");
    }
}

int main(void)
{
    arena_init(&arena, 64 << 20);
    check_verdicts(verdicts, ARRAY_LEN(verdicts), decode);
    test_defaults();
    test_base64();
    test_directories();
    test_revision();
    for (size_t i = 0; i < n_kept; i++)
        json_free(kept[i]);
    arena_reset(&arena);
    return done_testing();
}
