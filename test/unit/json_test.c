// SPDX-License-Identifier: Apache-2.0
#include "data/json.c"

#include "tap.h"

static struct json *parse(const char *text)
{
    struct json *j = NULL;
    struct err e = ERR_INIT;
    if (json_parse(&j, text, strlen(text), &e) != 0)
        diag("%s: %s", text, e.msg);
    return j;
}

static int refused(const char *text, size_t n, struct err *e)
{
    struct json *j = NULL;
    *e = ERR_INIT;
    int r = json_parse(&j, text, n, e);
    json_free(j);
    return r;
}

static void is_printed(const struct json *j, const char *want, const char *what)
{
    AUTO_BUF struct buf out = BUF_INIT(1 << 20);
    struct err e = ERR_INIT;
    is_int(json_print(j, &out, &e), 0, "%s: prints", what);
    is_str(buf_str(&out), want, "%s", what);
}

static void test_types(void)
{
    AUTO_JSON struct json *j = parse("{\"n\":null,\"b\":true,\"i\":0,\"s\":\"\",\"a\":[],\"o\":{}}");
    static const struct {
        const char *key;
        enum json_type type;
    } want[] = {
        { "n", JSON_NULL },  { "b", JSON_BOOL },   { "i", JSON_NUMBER }, { "s", JSON_STRING },
        { "a", JSON_ARRAY }, { "o", JSON_OBJECT }, { "x", JSON_ABSENT },
    };
    for (size_t i = 0; i < ARRAY_LEN(want); i++)
        is_int(json_type(json_get(j, want[i].key)), want[i].type, "type of %s", want[i].key);
    is_int(json_type(json_get(NULL, "x")), JSON_ABSENT, "a member of nothing is absent");
    is_int(json_type(json_get(json_get(j, "s"), "x")), JSON_ABSENT, "a member of a string is absent");
    is_int(json_len(j), 6, "members");
    is_int(json_len(json_get(j, "s")), 0, "a string has no members");
    ok(json_str(json_get(j, "b")) == NULL, "a bool is no string");
    is_str(json_str(json_get(j, "s")), "", "an empty string is a string");
    ok(json_bool(json_get(j, "b"), false), "a bool");
    ok(json_bool(json_get(j, "i"), true), "a number is no bool: the default");
}

static void test_paths(void)
{
    AUTO_JSON struct json *j = parse("{\"status\":{\"conditions\":[{\"type\":\"Ready\"}],\"sta\":1},\"a\":{\"b\":{\"c\":7}}}");
    int64_t n = 0;
    ok(json_i64(json_path(j, "a.b.c"), &n) && n == 7, "three levels");
    is_int(json_len(json_path(j, "status.conditions")), 1, "two levels");
    ok(json_path(j, "status.cond") == NULL, "a prefix of a name is not the name");
    ok(json_path(j, "status.conditions.x") == NULL, "an array has no names");
    ok(json_path(j, "") == NULL, "no name");
    is_str(json_str(json_get(json_at(json_path(j, "status.conditions"), 0), "type")), "Ready", "into an array");
    ok(json_at(json_path(j, "status.conditions"), 1) == NULL, "behind its end");
}

static void test_iteration(void)
{
    AUTO_JSON struct json *j = parse("{\"a\":1,\"b\":2,\"c\":3}");
    char keys[8] = "";
    json_each(it, j) strcat(keys, json_key(it));
    is_str(keys, "abc", "each member, in order");
    int n = 0;
    json_each(none, NULL) n++;
    is_int(n, 0, "nothing has no members");
}

static void test_integers(void)
{
    static const struct {
        const char *text;
        bool exact;
        int64_t want;
    } cases[] = {
        { "0", true, 0 },
        { "-0", true, 0 },
        { "3", true, 3 },
        { "3.0", true, 3 },
        { "3e2", true, 300 },
        { "-7", true, -7 },
        { "9007199254740991", true, INT64_C(9007199254740991) },
        { "-9007199254740991", true, INT64_C(-9007199254740991) },
        { "9007199254740992", false, 0 }, // 9007199254740993 would read the same
        { "9223372036854775807", false, 0 },
        { "3.5", false, 0 },
        { "1e300", false, 0 },
        { "\"3\"", false, 0 },
        { "null", false, 0 },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        AUTO_JSON struct json *j = parse(cases[i].text);
        int64_t n = 0;
        ok(json_i64(j, &n) == cases[i].exact && n == cases[i].want, "%s as an integer", cases[i].text);
    }
    int64_t n = 5;
    ok(!json_i64(NULL, &n) && n == 5, "absent is no integer and touches nothing");
    ok(json_num(NULL, 1.5) == 1.5, "absent as a number is the default");
}

static void test_printing(void)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        { "{ \"a\" : [ 1 , 2, { } , [ ] ], \"b\":{\"c\":null} }", "{\"a\":[1,2,{},[]],\"b\":{\"c\":null}}" },
        { "[]", "[]" },
        { "{}", "{}" },
        { "[[],[[]],{}]", "[[],[[]],{}]" },
        { "true", "true" },
        { "1e15", "1000000000000000" },
        { "123456789012345", "123456789012345" },
        { "9007199254740992", "9007199254740992" },
        { "-5", "-5" },
        { "0.1", "0.1" },
        { "2.5", "2.5" },
        { "0.30000000000000004", "0.30000000000000004" },
        { "1e300", "1e+300" },
        { "\"a\\u0001\\n\\\"\\\\\\/\\u00e4\"", "\"a\\u0001\\n\\\"\\\\/\xc3\xa4\"" },
        { "\"\\ud83d\\ude00\"", "\"\xf0\x9f\x98\x80\"" },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        AUTO_JSON struct json *j = parse(cases[i].text);
        is_printed(j, cases[i].want, cases[i].text);
        struct err e;
        is_int(refused(cases[i].want, strlen(cases[i].want), &e), 0, "what was printed reads back");
    }
}

static void test_bad_utf8_is_replaced(void)
{
    AUTO_JSON struct json *j = json_string("a\xff\xc3\x28z");
    is_printed(j, "\"a\xef\xbf\xbd\xef\xbf\xbd(z\"", "bytes from elsewhere that are no UTF-8");
}

static void test_refused(void)
{
    static const char *const bad[] = {
        "",
        " ",
        "{",
        "[1",
        "{\"a\":1}x",
        "{} {}",
        "nul",
        "\"\\ud800\"",
        "'a'",
        "[1,]",
        "01",
        "\"\\u0000\"",
        "[1e400]",
        "1000000000000000000000000000000000000000000000000000000000000000", // 64 digits
    };
    struct err e;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        is_int(refused(bad[i], strlen(bad[i]), &e), E_INVAL, "refused: %s", bad[i]);
        has_str(e.msg, "JSON", "... and says why");
    }
    is_int(refused("\"a\0b\"", 5, &e), E_INVAL, "a raw NUL byte");
    is_int(refused("{}\0", 3, &e), E_INVAL, "a NUL byte behind the end");
    is_int(refused("{\"a\":x}", 7, &e), E_INVAL, "what is no value");
    has_str(e.msg, "byte 5", "the error says where");
}

static void test_depth(void)
{
    enum { DEPTH = JSON_DEPTH_MAX + 1 };
    char text[2 * DEPTH];
    struct err e;
    memset(text, '[', DEPTH);
    memset(text + DEPTH, ']', DEPTH);
    is_int(refused(text + 1, 2 * JSON_DEPTH_MAX, &e), 0, "%d levels are taken", JSON_DEPTH_MAX);
    is_int(refused(text, sizeof(text), &e), E_TOOBIG, "one more is not");
    has_str(e.msg, "deep", "... and says so");
}

static void test_twins(void)
{
    AUTO_JSON struct json *j = parse("{\"a\":1,\"b\":2,\"a\":{\"x\":1,\"x\":2}}");
    is_printed(j, "{\"b\":2,\"a\":{\"x\":2}}", "the last of twins counts");

    AUTO_BUF struct buf text = BUF_INIT(100000);
    struct err e;
    int r = buf_adds(&text, "{\"k0\":\"old\"", &e);
    for (int i = 0; i < 1000 && r == 0; i++)
        r = buf_addf(&text, &e, ",\"k%d\":%d", i % 500, i);
    is_int(r ? r : buf_adds(&text, "}", &e), 0, "a large object of twins");
    AUTO_JSON struct json *big = parse(text.data);
    is_int(json_len(big), 500, "each name once");
    int64_t n = 0;
    ok(json_i64(json_get(big, "k0"), &n) && n == 500, "the last one of three");
}

static void test_cap(void)
{
    AUTO_BUF struct buf text = BUF_INIT(1 << 20);
    struct err e = ERR_INIT;
    int r = buf_adds(&text, "[1", &e);
    for (int i = 0; i < 50000 && r == 0; i++)
        r = buf_adds(&text, ",1", &e);
    is_int(r ? r : buf_adds(&text, "]", &e), 0, "100 KB that would make 3 MB of nodes");
    size_t before = mem.used;
    json_cap(1 << 20);
    is_int(refused(text.data, text.len, &e), E_TOOBIG, "over the cap");
    is_int(mem.used, before, "nothing is left of it");
    AUTO_JSON struct json *small = parse("{\"a\":[1,2,3]}");
    ok(small != NULL, "a small one fits under the same cap");
    json_cap(64);
    AUTO_JSON struct json *o = json_object();
    json_set_str(o, "name", "a text that is longer than what is left of the cap, whatever the allocator rounds to");
    ok(!json_ok(), "a building step over the cap is collected");
    json_cap(0);
    is_int(refused(text.data, text.len, &e), 0, "without the cap it is taken");
    is_int(mem.used > before, 1, "what lives is counted");
}

static void test_equal(void)
{
    static const struct {
        const char *a, *b;
        bool same;
    } cases[] = {
        { "{\"a\":1,\"b\":[1,2]}", "{\"b\":[1,2.0],\"a\":1e0}", true },
        { "{\"a\":1}", "{\"a\":1,\"b\":null}", false },
        { "{\"a\":1,\"b\":1}", "{\"a\":1,\"c\":1}", false },
        { "[1,2]", "[2,1]", false },
        { "[1]", "[1,1]", false },
        { "[]", "{}", false },
        { "0", "-0", true },
        { "\"3\"", "3", false },
        { "null", "false", false },
        { "true", "false", false },
        { "{\"a\":{\"b\":{\"c\":[{}]}}}", "{\"a\":{\"b\":{\"c\":[{}]}}}", true },
        { "{\"a\":{\"b\":{\"c\":[{}]}}}", "{\"a\":{\"b\":{\"c\":[[]]}}}", false },
        { "{\"a\":\"x\",\"b\":\"y\"}", "{\"a\":\"y\",\"b\":\"x\"}", false }, // a plain sum of hashes would not see it
        { "[[1],[]]", "[[],[1]]", false },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        AUTO_JSON struct json *a = parse(cases[i].a);
        AUTO_JSON struct json *b = parse(cases[i].b);
        is_int(json_equal(a, b), cases[i].same, "%s = %s", cases[i].a, cases[i].b);
        is_int(json_hash(a) == json_hash(b), cases[i].same, "... and so the hashes");
    }
    AUTO_JSON struct json *a = parse("{}");
    ok(json_equal(NULL, NULL) && !json_equal(a, NULL), "absent equals only absent");
}

// The order of a large object is turned round.
static void test_equal_large(void)
{
    AUTO_JSON struct json *a = json_object();
    AUTO_JSON struct json *b = json_object();
    for (int i = 0; i < 300; i++) {
        char up[16], down[16];
        snprintf(up, sizeof(up), "k%d", i);
        snprintf(down, sizeof(down), "k%d", 299 - i);
        json_set_int(a, up, i);
        json_set_int(b, down, 299 - i);
    }
    ok(json_ok(), "built");
    ok(json_equal(a, b), "equal whatever the order");
    is_int(json_hash(a) == json_hash(b), 1, "the same hash");
    json_set_int(b, "k7", 8);
    ok(!json_equal(a, b), "one member differs");
    ok(json_hash(a) != json_hash(b), "so does the hash");
}

static void test_building(void)
{
    AUTO_JSON struct json *o = json_object();
    struct json *list = json_array();
    json_push(list, json_int(1));
    json_push(list, json_boolean(true));
    json_set(o, "list", list);
    json_set_str(o, "s", "one");
    json_set_str(o, "s", "two");
    json_set_str(o, "gone", "x");
    json_set_str(o, "gone", NULL);
    json_set_str(o, "none", NULL);
    json_set_int(o, "n", INT64_C(4102444800000));
    json_set_bool(o, "b", false);
    json_del(o, "not there");
    ok(json_ok(), "every step worked");
    is_printed(o, "{\"list\":[1,true],\"s\":\"two\",\"n\":4102444800000,\"b\":false}", "what was built");
    AUTO_JSON struct json *copy = json_copy(o);
    ok(json_equal(o, copy), "a copy is equal");

    json_push(o, json_int(1));
    ok(!json_ok(), "pushing into an object fails, the child is freed");
    ok(json_ok(), "told once");
    json_set(o, "x", NULL);
    ok(!json_ok(), "what could not be made cannot be set");
    json_set(NULL, "x", json_int(1));
    ok(!json_ok(), "nor set into what could not be made");
}

static void test_too_deep_to_print(void)
{
    struct json *j = json_array();
    for (int i = 0; i < TREE_DEPTH_MAX + 1; i++) {
        struct json *outer = json_array();
        json_push(outer, j);
        j = outer;
    }
    AUTO_BUF struct buf out = BUF_INIT(4096);
    struct err e = ERR_INIT;
    is_int(json_print(j, &out, &e), E_TOOBIG, "a tree built too deep is refused, not overrun");
    json_free(j);
    is_int(json_print(NULL, &out, &e), E_INVAL, "nothing to print");
}

static void test_print_bound(void)
{
    AUTO_JSON struct json *j = parse("{\"a\":\"0123456789\"}");
    AUTO_BUF struct buf out = BUF_INIT(8);
    struct err e = ERR_INIT;
    is_int(json_print(j, &out, &e), E_TOOBIG, "the buffer's bound is kept");
}

int main(void)
{
    test_types();
    test_paths();
    test_iteration();
    test_integers();
    test_printing();
    test_bad_utf8_is_replaced();
    test_refused();
    test_depth();
    test_twins();
    test_cap();
    test_equal();
    test_equal_large();
    test_building();
    test_too_deep_to_print();
    test_print_bound();
    is_int(mem.used, 0, "nothing leaked");
    return done_testing();
}
