// SPDX-License-Identifier: Apache-2.0
#include "wire/yaml.c"

#include <stdio.h>

#include "tap.h"

static char *repeat(const char *s, size_t n)
{
    size_t len = strlen(s);
    char *p = malloc(len * n + 1);

    for (size_t i = 0; i < n; i++)
        memcpy(p + i * len, s, len);
    p[len * n] = '\0';
    return p;
}

static void check_doc(const char *yaml, size_t len, int index, const char *want, const char *name)
{
    AUTO_BUF struct buf out = BUF_INIT(1 << 20);
    struct err e = ERR_INIT;
    int rc = yaml_to_json(yaml, len, index, &out, &e);

    if (rc < 0)
        diag("%s", e.msg);
    is_str(rc < 0 ? NULL : buf_str(&out), want, "%s", name);
}

static void check(const char *yaml, const char *want)
{
    char name[80];

    snprintf(name, sizeof name, "%.60s", yaml);
    for (char *p = name; *p != '\0'; p++)
        if (*p == '\n' || *p == '\r' || *p == '#')
            *p = '|';
    check_doc(yaml, strlen(yaml), 0, want, name);
}

static void test_values(void)
{
    static const struct {
        const char *yaml, *json;
    } cases[] = {
        { "a: 1\nb: [x, 'y', \"z\"]\n", "{\"a\":1,\"b\":[\"x\",\"y\",\"z\"]}" },
        { "{}", "{}" },
        { "[]", "[]" },
        { "- - 1\n  - 2\n- {a: {}}\n", "[[1,2],{\"a\":{}}]" },
        { "just text", "\"just text\"" },
        { "a:\nb: ~\nc: null\nd: ''\n", "{\"a\":null,\"b\":null,\"c\":null,\"d\":\"\"}" },
        { "[true, False, TRUE, yes, No, on, y, OFF, tRue]", "[true,false,true,true,false,true,true,false,\"tRue\"]" },
        { "[0644, -0755, 0o644, 08, 0b101, 1_000, 0_7]", "[420,-493,420,8,5,1000,7]" },
        { "['true', \"1\", !!str 1, ! 2]", "[\"true\",\"1\",\"1\",\"2\"]" },
        { "[0, -1, +7, 12345678901234567890123]", "[0,-1,7,12345678901234567890123]" },
        { "[0x1f, 0o17, 0xFFFFFFFFFFFFFFFF, -0x1, 0x]", "[31,15,18446744073709551615,-1,\"0x\"]" },
        { "[1.5, .5, 1., -0.25e+3, 1e3, +1E-2, 1e, ., -, 1e+, 1.2.3, 1e400]",
          "[1.5,0.5,1.0,-0.25e+3,1e3,1e-2,\"1e\",\".\",\"-\",\"1e+\",\"1.2.3\",\"1e400\"]" },
        { "[!!int 3, !!float 3, !!bool true, !!null ~]", "[3,3,true,null]" },
        { "[2026-11-30, 12:30:45, 1:2]", "[\"2026-11-30\",\"12:30:45\",\"1:2\"]" },
        { "text: |\n  two\n  lines\nfold: >-\n  one\n  line\n", "{\"text\":\"two\\nlines\\n\",\"fold\":\"one line\"}" },
        { "s: \"q\\\" b\\\\ n\\n t\\t r\\r bell\\a e\\x1b u\\u00e9 \\U0001F600\"",
          "{\"s\":\"q\\\" b\\\\ n\\n t\\t r\\r bell\\u0007 e\\u001b u\xc3\xa9 \xf0\x9f\x98\x80\"}" },
        { "1: a\ntrue: b\n? c\n: d\n", "{\"1\":\"a\",\"true\":\"b\",\"c\":\"d\"}" },
        { "a: &x {k: 1}\nb: *x\nc: [*x, *x]\n", "{\"a\":{\"k\":1},\"b\":{\"k\":1},\"c\":[{\"k\":1},{\"k\":1}]}" },
        { "[&a 1, &a 2, *a]", "[1,2,2]" },
        { "x: &b {a: 1, k: 1}\nc:\n  <<: *b\n  a: 2\nd: 3\n", "{\"x\":{\"a\":1,\"k\":1},\"c\":{\"a\":2,\"k\":1},\"d\":3}" },
        { "- &a {k: 1}\n- &b {k: 2, l: \"}\\\",{:\"}\n- <<: [*a, *b, {m: [1, {}]}]\n",
          "[{\"k\":1},{\"k\":2,\"l\":\"}\\\",{:\"},{\"k\":1,\"l\":\"}\\\",{:\",\"m\":[1,{}]}]" },
        { "x: &x {<<: &y {a: 1}, b: 2}\nz: *x\n", "{\"x\":{\"b\":2,\"a\":1},\"z\":{\"b\":2,\"a\":1}}" },
        { "a: {<<: {}}\nb: {<<: []}\n\"<<\": x\n", "{\"a\":{},\"b\":{},\"<<\":\"x\"}" },
        { "on: 1\n0x10: 2\n", "{\"true\":1,\"16\":2}" },
        { "\xef\xbb\xbf"
          "a: 1\r\nb:\r\n  - 2\r\n",
          "{\"a\":1,\"b\":[2]}" },
        { "# comment only a\na: 1 # and here\n", "{\"a\":1}" },
        { "%YAML 1.2\n---\na: 1\n...\n", "{\"a\":1}" },
        { "--- \n", "null" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        check(cases[i].yaml, cases[i].json);
}

static void test_refusals(void)
{
    static const struct {
        const char *yaml;
        int cls;
        const char *says;
    } cases[] = {
        { "a: 1\na: 2\n", E_INVAL, "line 2, column 1: this key stands twice" },
        { "a: 1\n\"a\": 2\n", E_INVAL, "twice" },
        { "x:\n  b: 1\n  c: {d: 1, d: 2}\n", E_INVAL, "line 3, column 13" },
        { "base: &b {a: 1}\nc:\n  a: 2\n  <<: *b\n", E_INVAL, "line 4, column 7: this merge has a key that stands before it" },
        { "a:\n  <<: x\n", E_INVAL, "line 2, column 7: a merge takes a mapping" },
        { "a:\n  <<: [{}, [{}]]\n", E_INVAL, "a merge takes a mapping" },
        { "a:\n  <<: {}\n  <<: {}\n", E_INVAL, "a second merge" },
        { "a: {<<: &m {b: 1}}\nc: *m\n", E_INVAL, "inside of a merge" },
        { "1.5: x\n", E_INVAL, "quote it" },
        { "~: x\n", E_INVAL, "a key without text" },
        { "a: *none\n", E_INVAL, "names no anchor" },
        { "a: &a [*a]\n", E_INVAL, "inside of what it names" },
        { "? [a, b]\n: 1\n", E_INVAL, "a key must be a scalar" },
        { "k: &k x\n*k : 1\n", E_INVAL, "alias cannot be a key" },
        { "&k a: 1\n", E_INVAL, "anchor on a key" },
        { "a: .inf\n", E_INVAL, "infinity" },
        { "a: -.NaN\nb: .nan\n", E_INVAL, "not-a-number" },
        { "a: !!binary aGk=\n", E_INVAL, "tag" },
        { "a: !!int x\n", E_INVAL, "tag" },
        { "a: !mine {b: 1}\n", E_INVAL, "tag" },
        { "a: \"x\\0y\"\n", E_INVAL, "NUL" },
        { "\"a\\0b\": 1\n", E_INVAL, "NUL" },
        { "a:\n\t- b\n", E_INVAL, "line 2, column 1" },
        { "a: [1, 2\n", E_INVAL, "line 2" },
        { "a: {b: 1\n", E_INVAL, "line 2" },
        { "a: \"open\n", E_INVAL, "line" },
        { "a: b: c\n", E_INVAL, "line 1, column 5" },
        { "- a\nb: 1\n", E_INVAL, "line 2" },
        { "a: 1\n b: 2\n", E_INVAL, "line 2" },
        { "a: '\xff\xfe'\n", E_INVAL, "line 1, column 5" },
        { "ok: 1\nbad: \xc3\n", E_INVAL, "line 2, column 7" },
        { "a: \x01\n", E_INVAL, "line 1" },
        { "\"\\ud800\"", E_INVAL, "line 1" },
        { "%TAG ! x\n", E_INVAL, "line" },
        { "", E_NOTFOUND, "no document number 0" },
        { "# nothing\n", E_NOTFOUND, "no document" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        AUTO_BUF struct buf out = BUF_INIT(1 << 20);
        struct err e = ERR_INIT;
        is_int(buf_adds(&out, "before", &e), 0, "case %d", (int)i);
        is_int(yaml_to_json(cases[i].yaml, strlen(cases[i].yaml), 0, &out, &e), cases[i].cls, "refused: %s", e.msg);
        has_str(e.msg, cases[i].says, "and says why");
        is_str(buf_str(&out), "before", "the buffer is as it was");
    }
}

static int class_of(const char *yaml, size_t len, size_t max)
{
    AUTO_BUF struct buf out = BUF_INIT(max);
    struct err e = ERR_INIT;
    int rc = yaml_to_json(yaml, len, 0, &out, &e);

    if (rc < 0)
        diag("%s", e.msg);
    return rc;
}

static void test_depth(void)
{
    AUTO_FREE char *deepest = repeat("[", YAML_DEPTH_MAX);
    AUTO_FREE char *ends = repeat("]", YAML_DEPTH_MAX);
    AUTO_FREE char *over = repeat("[", 100000);
    AUTO_FREE char *maps = repeat("{a: ", 100000);
    AUTO_FREE char *text = malloc(2 * YAML_DEPTH_MAX + 1);

    sprintf(text, "%s%s", deepest, ends);
    is_int(class_of(text, strlen(text), 1 << 20), 0, "as deep as allowed");
    is_int(class_of(over, strlen(over), 1 << 20), E_TOOBIG, "100,000 open sequences");
    is_int(class_of(maps, strlen(maps), 1 << 20), E_TOOBIG, "100,000 open mappings");

    // Each anchor holds the one before, one level deeper: small as text, deep as JSON.
    AUTO_BUF struct buf chain = BUF_INIT(1 << 20);
    int rc = buf_adds(&chain, "- &a0 []\n", NULL);
    for (int i = 1; i < 100 && rc == 0; i++)
        rc = buf_addf(&chain, NULL, "- &a%d [*a%d]\n", i, i - 1);
    is_int(rc, 0, "a chain of anchors");
    is_int(class_of(chain.data, chain.len, 1 << 20), E_TOOBIG, "cannot nest deeper than text can");
}

static void test_bombs(void)
{
    AUTO_BUF struct buf laughs = BUF_INIT(1 << 20);
    int rc = buf_adds(&laughs, "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n", NULL);

    for (int i = 1; i < 12 && rc == 0; i++)
        rc = buf_addf(&laughs, NULL, "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i, i, i - 1, i - 1, i - 1, i - 1,
                      i - 1, i - 1, i - 1, i - 1, i - 1);
    is_int(rc, 0, "a billion laughs");
    is_int(class_of(laughs.data, laughs.len, 64 << 20), E_TOOBIG, "are not told");

    AUTO_BUF struct buf anchors = BUF_INIT(1 << 20);
    rc = 0;
    for (int i = 0; i < 1000 && rc == 0; i++)
        rc = buf_addf(&anchors, NULL, "- &a%d x\n", i);
    is_int(rc, 0, "a thousand anchors");
    is_int(class_of(anchors.data, anchors.len, 1 << 20), E_TOOBIG, "are refused");
}

static void test_sizes(void)
{
    enum { MB = 1 << 20 };
    AUTO_FREE char *big = repeat("x", MB);
    AUTO_BUF struct buf out = BUF_INIT(2 * MB);
    struct err e = ERR_INIT;

    is_int(yaml_to_json(big, MB, 0, &out, &e), 0, "a scalar of 1 MB");
    is_int(out.len, MB + 2, "comes out whole");
    is_int(class_of(big, MB, MB), E_TOOBIG, "and is refused where it does not fit");

    AUTO_BUF struct buf keys = BUF_INIT(4 * MB);
    int rc = 0;
    for (int i = 0; i < 100000 && rc == 0; i++)
        rc = buf_addf(&keys, NULL, "k%d: 1\n", i);
    is_int(class_of(keys.data, keys.len, 4 * MB), 0, "a mapping of 100,000 keys");
    rc = buf_adds(&keys, "k77: 2\n", NULL);
    is_int(rc == 0 ? class_of(keys.data, keys.len, 4 * MB) : rc, E_INVAL, "one of which stands twice");

    AUTO_FREE char *huge = repeat("- 1\n", MB + 1);
    is_int(class_of(huge, strlen(huge), 16 * MB), E_TOOBIG, "a text over the bound");
}

static void test_documents(void)
{
    const char *two = "a: 1\n---\n# second\n- 2\n--- three\n";

    check_doc(two, strlen(two), 0, "{\"a\":1}", "first of three documents");
    check_doc(two, strlen(two), 1, "[2]", "second of three documents");
    check_doc(two, strlen(two), 2, "\"three\"", "third of three documents");
    check_doc(two, strlen(two), 3, NULL, "no fourth");
    check_doc("a: 1\n---\nb: [\n", 13, 0, "{\"a\":1}", "a document is usable when a later one is broken");
}

// Every prefix of a document is either a document or refused: nothing reads past its end.
static void test_truncation(void)
{
    const char *whole = "a: &x [1, \"two\\n\", {b: 'c'}]\nd: |\n  text\ne: *x\n";
    size_t refused = 0;

    for (size_t n = 0; n <= strlen(whole); n++) {
        AUTO_BUF struct buf out = BUF_INIT(1 << 16);
        AUTO_FREE char *cut = malloc(n + 1); // exactly as long as it may be, for the sanitizers
        memcpy(cut, whole, n);
        refused += yaml_to_json(cut, n, 0, &out, NULL) < 0;
    }
    ok(refused > 20 && refused < strlen(whole), "%d of %d prefixes are refused", (int)refused, (int)strlen(whole) + 1);
}

static void test_lines(void)
{
    static const char text[] = "# first\n"          // 1
                               "a: {b: 1}\n"        // 2
                               "---\n"              // 3
                               "base: &x\n"         // 4
                               "  c: [1]\n"         // 5
                               "spec:\n"            // 6
                               "  ab: skip\n"       // 7
                               "  a:\n"             // 8
                               "  - 1\n"            // 9
                               "  - [{z: 1}, 2]\n"  // 10
                               "  - {b: 2,\n"       // 11
                               "     'c.d': 3}\n"   // 12
                               "  more:\n"          // 13
                               "    <<: *x\n"       // 14
                               "  \"q\": {r: 1}\n"  // 15
                               "--- {a: {b: 1}}\n"; // 16
    static const struct {
        size_t document;
        const char *path;
        size_t line;
    } cases[] = {
        { 2, "a.b", 2 },
        { 4, "spec", 6 },
        { 4, "spec.a[2].b", 11 },
        { 4, "spec.a[2].c.d", 12 },
        { 4, "spec.a", 8 },
        { 4, "spec.a[1][0].z", 10 },
        { 4, "spec.a[1][1]", 10 },
        { 4, "spec.a[3]", 8 },
        { 4, "spec.more.c", 13 },
        { 4, "spec.q.r", 15 },
        { 4, "nothing", 4 },
        { 4, "spec.missing", 6 },
        { 4, "", 4 },
        { 16, "a.b", 16 },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        is_int((int64_t)yaml_line_of(text, sizeof(text) - 1, cases[i].document, cases[i].path), (int64_t)cases[i].line, "line of \"%s\"",
               cases[i].path);
    is_int((int64_t)yaml_line_of("a: [", 4, 1, "a[0].b"), 1, "what is no YAML");
}

int main(void)
{
    test_lines();
    test_values();
    test_refusals();
    test_depth();
    test_bombs();
    test_sizes();
    test_documents();
    test_truncation();
    return done_testing();
}
