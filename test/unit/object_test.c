// SPDX-License-Identifier: Apache-2.0
#include "data/json_scan.c"
#include "data/object.c"
#include "data/object_list.c"

#include "tap.h"

// --- The grammar: RFC 8259, each rule from both sides

struct text {
    const char *p;
    size_t n;
};
#define T(literal)                   \
    {                                \
        literal, sizeof(literal) - 1 \
    }

static const struct text good[] = {
    T("{}"),
    T("[]"),
    T("null"),
    T("true"),
    T("false"),
    T("0"),
    T("\"\""),
    T(" \t\r\n[ ] \n"),
    T("[[],[[]]]"),
    T("{\"\":0}"),
    T("-0"),
    T("-0.0"),
    T("10"),
    T("1.25"),
    T("1e9"),
    T("1E+9"),
    T("1e-09"),
    T("-12.5e3"),
    T("123456789012345678901234567890"),
    T("0e0"),
    T("[0]"),
    T("{\"a\":1}"),
    T("{\"a\":1,\"a\":2}"),
    T("{\"a\" : {\"b\" : [ true , false , null ] } }"),
    T("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e4\\uABCD\""),
    T("\"\\ud83d\\ude00\""),
    T("\"\\u0000\""),
    T("\"\\uFFFF\""),
    T("\"\x7f\""),
    T("\"\xc2\x80\""),
    T("\"\xdf\xbf\""),
    T("\"\xe0\xa0\x80\""),
    T("\"\xed\x9f\xbf\""),
    T("\"\xee\x80\x80\""),
    T("\"\xef\xbf\xbf\""),
    T("\"\xf0\x90\x80\x80\""),
    T("\"\xf4\x8f\xbf\xbf\""),
    T("{\"\\u0061\":\"\xe2\x82\xac\"}"),
    T("\"/*no comment*/\""),
};

static const struct text bad_texts[] = {
    T(""),
    T(" "),
    T("\xef\xbb\xbf{}"),
    T("{"),
    T("["),
    T("}"),
    T("]"),
    T("[}"),
    T("{]"),
    T("[1"),
    T("[1,"),
    T("[,1]"),
    T("[1,]"),
    T("[1 2]"),
    T("[1]]"),
    T("{} {}"),
    T("[],"),
    T("{,}"),
    T("{\"a\"}"),
    T("{\"a\":}"),
    T("{\"a\":1,}"),
    T("{\"a\" 1}"),
    T("{a:1}"),
    T("{1:1}"),
    T("{null:1}"),
    T("{\"a\":1 \"b\":2}"),
    T("{\"a\":1:2}"),
    T("{\"a\"::1}"),
    T("[\"a\":1]"),
    T("\""),
    T("\"a"),
    T("'a'"),
    T("\"a\nb\""),
    T("\"a\tb\""),
    T("\"\0\""),
    T("\"a\x1f\""),
    T("\"\\x41\""),
    T("\"\\"),
    T("\"\\\""),
    T("\"\\u\""),
    T("\"\\u12\""),
    T("\"\\u12g4\""),
    T("\"\\U0041\""),
    T("\"\\0\""),
    T("\"\\ud800\""),
    T("\"\\ud800x\""),
    T("\"\\ud800\\n\""),
    T("\"\\ud800\\ud800\""),
    T("\"\\udc00\""),
    T("\"\\ud800\\u0041\""),
    T("\"\x80\""),
    T("\"\xbf\""),
    T("\"\xc0\x80\""),
    T("\"\xc1\xbf\""),
    T("\"\xc3\""),
    T("\"\xc3\x28\""),
    T("\"\xe0\x80\x80\""),
    T("\"\xe0\x9f\xbf\""),
    T("\"\xed\xa0\x80\""),
    T("\"\xed\xbf\xbf\""),
    T("\"\xe2\x82\""),
    T("\"\xf0\x80\x80\x80\""),
    T("\"\xf0\x8f\xbf\xbf\""),
    T("\"\xf4\x90\x80\x80\""),
    T("\"\xf5\x80\x80\x80\""),
    T("\"\xff\""),
    T("\"\xfe\""),
    T("\xc3\xa4"),
    T("01"),
    T("-"),
    T("-a"),
    T("+1"),
    T("1."),
    T(".5"),
    T("-.5"),
    T("1.e5"),
    T("1e"),
    T("1e+"),
    T("1e+-1"),
    T("1ee1"),
    T("1.2.3"),
    T("0x10"),
    T("1_000"),
    T("00"),
    T("-01"),
    T("Infinity"),
    T("-Infinity"),
    T("NaN"),
    T("1a"),
    T("[1a]"),
    T("nul"),
    T("nulll"),
    T("True"),
    T("tru e"),
    T("falsey"),
    T("undefined"),
    T("// c\n{}"),
    T("{}/**/"),
    T("[1]\0"),
    T("\0"),
    T("[\v1]"),
    T("[\xc2\xa0\x31]"),
    T("[1\f]"),
    T("{\"a\":1}}"),
    T("[[]"),
};

static int check(struct text t)
{
    struct err e = ERR_INIT;
    int r = json_check(t.p, t.n, NULL, &e);
    return r;
}

// The same byte by byte: the state survives any cut.
static int check_bytewise(struct text t)
{
    struct json_scan s;
    json_scan_init(&s);
    for (size_t i = 0; i < t.n; i++)
        for (size_t at = 0; at < 1;)
            if (json_scan_run(&s, t.p + i, 1, &at) == SCAN_BAD)
                return E_INVAL;
    return json_scan_done(&s) ? 0 : E_INVAL;
}

static void test_grammar(void)
{
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        ok(check(good[i]) == 0 && check_bytewise(good[i]) == 0, "taken: case %zu", i);
    for (size_t i = 0; i < ARRAY_LEN(bad_texts); i++)
        ok(check(bad_texts[i]) == E_INVAL && check_bytewise(bad_texts[i]) == E_INVAL, "refused: case %zu", i);
}

static void test_depth(void)
{
    enum { DEPTH = JSON_SCAN_DEPTH + 1 };
    static char text[2 * DEPTH];
    memset(text, '[', DEPTH);
    memset(text + DEPTH, ']', DEPTH);
    struct json_facts facts;
    is_int(check((struct text){ text + 1, 2 * JSON_SCAN_DEPTH }), 0, "as deep as an API server lets it be");
    is_int(json_check(text + 1, 2 * JSON_SCAN_DEPTH, &facts, NULL), 0, "... and what is too deep for a tree");
    is_int(facts.depth, JSON_SCAN_DEPTH, "... is told");
    is_int(check((struct text){ text, sizeof(text) }), E_INVAL, "one array more");
    is_int(json_check("\"\\u0001\"", 8, &facts, NULL), 0, "an escaped control character");
    ok(!facts.has_nul, "is no NUL");
    is_int(json_check("[\"\\u0000\"]", 10, &facts, NULL), 0, "an escaped NUL is JSON");
    ok(facts.has_nul, "... and told");
}

static void test_events(void)
{
    static const char text[] = "{\"a\":[1,{}],\"b\":\"x\"}";
    struct json_scan s;
    char trace[200] = "";
    json_scan_init(&s);
    enum scan_event ev;
    for (size_t at = 0; (ev = json_scan_run(&s, text, sizeof(text) - 1, &at)) != SCAN_MORE;)
        snprintf(trace + strlen(trace), sizeof(trace) - strlen(trace), "%c%d@%zu ", ".kKvV!"[ev], s.depth, at);
    is_str(trace, "v0@0 k1@1 K1@4 v1@5 v2@6 V2@7 v2@8 V2@10 V1@11 k1@12 K1@15 v1@16 V1@19 V0@20 ",
           "what begins and ends where, at which depth");
}

// --- Objects

#define META "\"metadata\":{\"name\":\"web\",\"namespace\":\"edge-a\",\"uid\":\"u-1\",\"resourceVersion\":\"42\",\"generation\":3}"

static int scan(struct object_view *v, const char *json, struct err *e)
{
    *e = ERR_INIT;
    return object_scan(v, json, strlen(json), e);
}

static bool span_is(struct span s, const char *want)
{
    return s.p != NULL && s.n == strlen(want) && memcmp(s.p, want, s.n) == 0;
}

static void test_scan(void)
{
    static const char json[] =
        "{\"apiVersion\":\"edge.limpet.dev/v1alpha1\", \"kind\":\"EdgeApp\"," META ",\"spec\": {\"name\":\"not this\"},\"status\":{}}";
    struct object_view v;
    struct err e;
    is_int(scan(&v, json, &e), 0, "an object");
    is_str(v.api_version, "edge.limpet.dev/v1alpha1", "apiVersion");
    is_str(v.kind, "EdgeApp", "kind");
    is_str(v.name, "web", "name");
    is_str(v.ns, "edge-a", "namespace");
    is_str(v.uid, "u-1", "uid");
    is_str(v.rv, "42", "resourceVersion");
    is_int(v.generation, 3, "generation");
    ok(!v.deleting, "not being deleted");
    ok(span_is(v.spec, "{\"name\":\"not this\"}"), "spec");
    ok(span_is(v.status, "{}"), "status");
    ok(v.metadata.p != NULL && v.metadata.p[0] == '{', "metadata");
    ok(v.managed_fields.p == NULL, "no managedFields");
}

static void test_scan_odd(void)
{
    struct object_view v;
    struct err e;
    is_int(scan(&v, "{\"metadata\":{\"n\\u0061me\":\"w\\u0065b\",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"}}", &e), 0, "escaped");
    is_str(v.name, "web", "names and values are compared as text");
    ok(v.deleting, "deletionTimestamp");
    is_int(scan(&v, "{\"metadata\":{\"name\":null,\"deletionTimestamp\":null,\"generation\":null}}", &e), 0, "nulls");
    ok(v.name[0] == '\0' && !v.deleting && v.generation == 0, "are as good as absent");
    is_int(scan(&v, "{\"metadata\":null,\"spec\":null}", &e), 0, "no metadata");
    ok(span_is(v.spec, "null"), "a null spec is there");
    is_int(scan(&v, "{\"spec\":{\"metadata\":{\"name\":\"deep\"}},\"x\":{\"name\":\"n\"}}", &e), 0, "look-alikes elsewhere");
    is_str(v.name, "", "are not taken");
    is_int(scan(&v, "{\"metadata\":{\"generation\":9223372036854775807}}", &e), 0, "a large generation");
    ok(v.generation == INT64_MAX, "is exact");
}

static void test_scan_refused(void)
{
    static const struct {
        const char *json;
        int cls;
        const char *says;
    } cases[] = {
        { "[]", E_INVAL, "not a JSON object" },
        { "\"x\"", E_INVAL, "not a JSON object" },
        { "{\"kind\":\"A\"", E_INVAL, "too early" },
        { "{\"kind\":1}", E_INVAL, "kind is not a string" },
        { "{\"metadata\":[]}", E_INVAL, "metadata is not an object" },
        { "{\"metadata\":{\"name\":{}}}", E_INVAL, "name is not a string" },
        { "{\"metadata\":{\"generation\":1.5}}", E_INVAL, "generation" },
        { "{\"metadata\":{\"generation\":9223372036854775808}}", E_INVAL, "generation" },
        { "{\"metadata\":{\"name\":\"a\"},\"metadata\":{}}", E_INVAL, "twice" },
        { "{\"status\":1,\"st\\u0061tus\":2}", E_INVAL, "twice" },
        { "{\"metadata\":{\"uid\":\"a\",\"uid\":\"a\"}}", E_INVAL, "twice" },
        { "{\"metadata\":{\"resourceVersion\":\"0123456789012345678901234567890123456789012345678901234567890123\"}}", E_TOOBIG,
          "resourceVersion" },
        { "{\"a\":tru}", E_INVAL, "byte 8" },
    };
    struct object_view v;
    struct err e;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        is_int(scan(&v, cases[i].json, &e), cases[i].cls, "refused: %s", cases[i].json);
        has_str(e.msg, cases[i].says, "... and says why");
    }
    is_int(object_scan(&v, "{}", (size_t)OBJ_MAX + 1, &e), E_TOOBIG, "over the bound it is not even looked at");
}

static void test_strip(void)
{
    static const struct {
        const char *json, *want;
    } cases[] = {
        { "{\"a\":1}", "{\"a\":1}" },
        { "{\"status\":{\"x\":[1,2]}}", "{}" },
        { "{ \"status\" : 1 , \"a\" : 2 }", "{  \"a\" : 2 }" },
        { "{\"a\":1 , \"status\":{} }", "{\"a\":1  }" },
        { "{\"a\":1,\"status\":{},\"b\":2}", "{\"a\":1,\"b\":2}" },
        { "{\"metadata\":{\"managedFields\":[{}]},\"status\":1}", "{\"metadata\":{}}" },
        { "{\"status\":1,\"metadata\":{\"managedFields\":[{}],\"name\":\"a\"}}", "{\"metadata\":{\"name\":\"a\"}}" },
        { "{\"metadata\":{\"name\":\"a\",\"managedFields\":null},\"spec\":{\"status\":1,\"managedFields\":2}}",
          "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"status\":1,\"managedFields\":2}}" },
        { "{\"n\":12345678901234567890,\"s\":\"\\u00e4\",\"status\":\"}{\\\"\"}", "{\"n\":12345678901234567890,\"s\":\"\\u00e4\"}" },
        { "{\"a\":1,\"status\":null}\n", "{\"a\":1}\n" },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct object_view v;
        struct err e;
        AUTO_BUF struct buf out = BUF_INIT(4096);
        is_int(scan(&v, cases[i].json, &e), 0, "case %zu scans", i);
        is_int(object_strip(&v, cases[i].json, strlen(cases[i].json), &out, &e), 0, "strips");
        is_str(buf_str(&out), cases[i].want, "only what goes is gone");
        is_int(scan(&v, buf_str(&out), &e), 0, "the rest is an object");
        ok(v.status.p == NULL && v.managed_fields.p == NULL, "without them");
    }
}

static void test_member(void)
{
    static const char json[] = "{\"metadata\":{\"labels\":{\"a\":\"b\"}},\"type\":\"x\",\"type\":\"y\",\"labels\":1}";
    size_t n = sizeof(json) - 1;
    struct span s;
    ok(object_member(json, n, "metadata", "labels", &s) && span_is(s, "{\"a\":\"b\"}"), "a member of metadata");
    ok(object_member(json, n, NULL, "labels", &s) && span_is(s, "1"), "a top-level one of the same name");
    ok(object_member(json, n, NULL, "type", &s) && span_is(s, "\"y\""), "the last of twins");
    ok(!object_member(json, n, "metadata", "a", &s), "not one level deeper");
    ok(!object_member(json, n, "labels", "a", &s), "not of another parent");
}

static void test_span_string(void)
{
    static const char text[] = "\"\\u00e4\\n\\ud83d\\ude00\\\\\\u20AC\\u007f\"";
    char out[32];
    ok(span_string((struct span){ text, sizeof(text) - 1 }, out, sizeof(out)), "escapes");
    is_str(out, "\xc3\xa4\n\xf0\x9f\x98\x80\\\xe2\x82\xac\x7f", "undone");
    ok(span_string((struct span){ "\"abc\"", 5 }, out, 4), "fits exactly");
    ok(!span_string((struct span){ "\"abc\"", 5 }, out, 3), "too long");
    ok(!span_string((struct span){ "\"a\\u0000\"", 9 }, out, 32), "NUL cannot be held");
    ok(!span_string((struct span){ "12", 2 }, out, 32), "a number is no string");
    ok(!span_string((struct span){ 0 }, out, 32), "absent is no string");
}

static void test_peek(void)
{
    struct object_view v;
    static const char head[] = "{\"kind\":\"EdgeApp\",\"metadata\":{\"name\":\"web\",\"namespace\":\"a\"},\"spec\":{\"x\":\"yyy";
    ok(object_peek(&v, head, sizeof(head) - 1), "a cut object");
    is_str(v.name, "web", "still tells its name");
    ok(!object_peek(&v, "{\"metadata\":{\"name\":\"we", 23), "a cut name is none");
    ok(!object_peek(&v, "\x80", 1), "nor is rubbish");
}

static void test_watch_event(void)
{
    static const struct {
        const char *line;
        int cls;
        const char *type, *object;
    } cases[] = {
        { "{\"type\":\"ADDED\",\"object\":{\"a\":1}}", 0, "ADDED", "{\"a\":1}" },
        { "{\"object\":{},\"type\":\"ERROR\"}\r", 0, "ERROR", "{}" },
        { "{\"type\":\"ADDED\"}", E_INVAL, NULL, NULL },
        { "{\"object\":{}}", E_INVAL, NULL, NULL },
        { "{\"type\":\"ADDED\",\"object\":[]}", E_INVAL, NULL, NULL },
        { "{\"type\":1,\"object\":{}}", E_INVAL, NULL, NULL },
        { "{\"type\":\"AVERYVERYLONGTYPE\",\"object\":{}}", E_INVAL, NULL, NULL },
        { "{\"type\":\"ADDED\",\"object\":{}} {}", E_INVAL, NULL, NULL },
        { "{\"type\":\"ADDED\",\"object\":{", E_INVAL, NULL, NULL },
        { "<html>", E_INVAL, NULL, NULL },
        { "", E_INVAL, NULL, NULL },
        { "[]", E_INVAL, NULL, NULL },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct watch_event ev;
        struct err e = ERR_INIT;
        is_int(watch_event_scan(&ev, cases[i].line, strlen(cases[i].line), &e), cases[i].cls, "watch event, case %zu", i);
        if (cases[i].cls == 0)
            ok(strcmp(ev.type, cases[i].type) == 0 && span_is(ev.object, cases[i].object), "type and object");
    }
}

static void test_rv_compare(void)
{
    static const struct {
        const char *a, *b;
        int want;
        bool ordered;
    } cases[] = {
        { "9", "10", -1, true },    { "10", "9", 1, true },
        { "42", "42", 0, true },    { "18446744073709551616", "18446744073709551615", 1, true },
        { "abc", "abc", 0, false }, { "abc", "abd", 1, false },
        { "", "1", 1, false },      { "1", "1a", 1, false },
        { "01", "1", 1, false },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        bool ordered;
        int c = rv_compare(cases[i].a, cases[i].b, &ordered);
        ok((c > 0) - (c < 0) == cases[i].want && ordered == cases[i].ordered, "%s against %s", cases[i].a, cases[i].b);
    }
    is_int(rv_compare("1", "2", NULL), -1, "without asking whether they are ordered");
}

// --- The splitters. What they hand out is written down as one line, to be compared.

struct heard {
    char text[2000];
    int stop_at, calls;
};

static void hear(struct heard *h, const char *mark, const char *p, size_t n)
{
    size_t at = strlen(h->text);
    snprintf(h->text + at, sizeof(h->text) - at, "%s%.*s;", mark, (int)n, p);
}

static int hear_one(void *ctx, const char *p, size_t n)
{
    struct heard *h = ctx;
    hear(h, "", p, n);
    return ++h->calls == h->stop_at ? E_CANCELED : 0;
}

static void hear_big(void *ctx, const char *ns, const char *name)
{
    hear(ctx, "BIG ", ns, strlen(ns));
    hear(ctx, "/", name, strlen(name));
}

static int feed_lines(struct heard *h, size_t max, const char *text, size_t cut, uint64_t *too_long)
{
    struct line_splitter s;
    struct err e = ERR_INIT;
    size_t n = strlen(text);
    line_splitter_init(&s, max, hear_one, h);
    s.too_big = hear_big;
    int r = line_splitter_feed(&s, text, cut, &e);
    if (r == 0)
        r = line_splitter_feed(&s, text + cut, n - cut, &e);
    *too_long = s.too_long;
    line_splitter_fini(&s);
    return r;
}

static void test_lines(void)
{
    static const char text[] = "one\n\ntwo\nthree, without its end";
    uint64_t too_long;
    for (size_t cut = 0; cut < sizeof(text); cut++) {
        struct heard h = { 0 };
        int r = feed_lines(&h, 100, text, cut, &too_long);
        ok(r == 0 && too_long == 0 && strcmp(h.text, "one;;two;") == 0, "lines, cut at %zu", cut);
    }
    struct heard h = { .stop_at = 1 };
    is_int(feed_lines(&h, 100, text, 0, &too_long), E_CANCELED, "a line can stop it");
    is_str(h.text, "one;", "... at once");
}

static void test_long_lines(void)
{
    static const char text[] =
        "short\n"
        "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":\"web\",\"namespace\":\"a\"},\"spec\":\"0123456789\"}}\n"
        "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\n"
        "short too\n";
    uint64_t too_long;
    int wrong = 0;
    for (size_t cut = 0; cut < sizeof(text); cut++) {
        struct heard h = { 0 };
        int r = feed_lines(&h, 80, text, cut, &too_long);
        if (r != 0 || too_long != 2 || strcmp(h.text, "short;BIG a;/web;BIG ;/;short too;") != 0) {
            wrong++;
            diag("cut at %zu: r=%d too_long=%d: %s", cut, r, (int)too_long, h.text);
        }
    }
    is_int(wrong, 0, "lines over the bound are told by name and dropped, wherever the chunks are cut");
    struct heard h = { 0 };
    is_int(feed_lines(&h, 5, "12345\n123456\n1\n", 3, &too_long), 0, "at the bound and one over it");
    is_str(h.text, "12345;BIG ;/;1;", "one is a line, the other is not");
}

// Feeds a list in two pieces; fills h and, when the list is whole, a summary.
static int feed_list(struct heard *h, const char *text, size_t n, size_t cut, struct err *e)
{
    struct list_splitter s;
    list_splitter_init(&s, hear_one, h);
    s.too_big = hear_big;
    *e = ERR_INIT;
    int r = list_splitter_feed(&s, text, cut, e);
    if (r == 0)
        r = list_splitter_feed(&s, text + cut, n - cut, e);
    if (r == 0)
        r = list_splitter_end(&s, e);
    if (r == 0) {
        char sum[400];
        snprintf(sum, sizeof(sum), "kind=%s rv=%s continue=%s remaining=%d items=%zu", s.kind, s.rv,
                 s.continue_token ? s.continue_token : "-", (int)s.remaining, s.items);
        hear(h, "", sum, strlen(sum));
    }
    list_splitter_fini(&s);
    return r;
}

static void test_lists(void)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        { "{\"kind\":\"EdgeAppList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"12\",\"continue\":\"to\\u006ben\","
          "\"remainingItemCount\":7},"
          "\"items\":[{\"a\":\"]},{\\\"\"}, {\"items\":[{}],\"metadata\":{\"resourceVersion\":\"1\"}} ,{}]}\n",
          "{\"a\":\"]},{\\\"\"};{\"items\":[{}],\"metadata\":{\"resourceVersion\":\"1\"}};{};kind=EdgeAppList rv=12 continue=token "
          "remaining=7 items=3;" },
        { "{ \"items\" : [ {\"b\":[1,2.5e1]} ] , \"metadata\" : { \"resourceVersion\" : \"9\" , \"continue\" : \"\" } , \"kind\" : \"L\" }",
          "{\"b\":[1,2.5e1]};kind=L rv=9 continue=- remaining=-1 items=1;" },
        { "{\"metadata\":{\"resourceVersion\":\"3\"},\"items\":null}", "kind= rv=3 continue=- remaining=-1 items=0;" },
        { "{\"items\":[],\"metadata\":{\"resourceVersion\":\"3\"},\"extra\":{\"items\":[{\"no\":1}]},\"n\":-1.5,\"t\":[{}]}",
          "kind= rv=3 continue=- remaining=-1 items=0;" },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        size_t n = strlen(cases[i].text);
        int wrong = 0;
        for (size_t cut = 0; cut <= n; cut++) {
            struct heard h = { 0 };
            struct err e;
            int r = feed_list(&h, cases[i].text, n, cut, &e);
            if (r != 0 || strcmp(h.text, cases[i].want) != 0) {
                wrong++;
                diag("cut at %zu: r=%d %s: %s", cut, r, e.msg, h.text);
            }
        }
        is_int(wrong, 0, "list %zu is the same wherever it is cut", i);
        wrong = 0;
        for (size_t end = 0; end < n - (cases[i].text[n - 1] == '\n'); end++) {
            struct heard h = { 0 };
            struct err e;
            wrong += feed_list(&h, cases[i].text, end, end / 2, &e) != E_CORRUPT;
        }
        is_int(wrong, 0, "list %zu: each truncation is E_CORRUPT", i);
    }
}

static void test_lists_refused(void)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        { "{\"metadata\":{\"resourceVersion\":\"3\"}}", "no items" },
        { "{\"items\":[]}", "no resourceVersion" },
        { "{\"items\":[],\"metadata\":{\"resourceVersion\":\"\"}}", "no resourceVersion" },
        { "{\"items\":[],\"metadata\":{\"resourceVersion\":7}}", "unreadable resourceVersion" },
        { "{\"items\":{},\"metadata\":{\"resourceVersion\":\"3\"}}", "no array" },
        { "{\"items\":\"x\",\"metadata\":{\"resourceVersion\":\"3\"}}", "no array" },
        { "{\"items\":[1],\"metadata\":{\"resourceVersion\":\"3\"}}", "no object" },
        { "{\"items\":[],\"items\":[],\"metadata\":{\"resourceVersion\":\"3\"}}", "twice" },
        { "[{\"items\":[]}]", "not a JSON object" },
        { "{\"items\":[{}],\"metadata\":{\"resourceVersion\":\"3\"}}{", "after the document" },
        { "<!DOCTYPE html>", "byte 0" },
        { "{\"kind\":5,\"items\":[],\"metadata\":{\"resourceVersion\":\"3\"}}", "kind" },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct heard h = { 0 };
        struct err e;
        is_int(feed_list(&h, cases[i].text, strlen(cases[i].text), 1, &e), E_CORRUPT, "refused: %s", cases[i].text);
        has_str(e.msg, cases[i].says, "... and says why");
    }
    struct list_splitter s;
    struct heard h = { .stop_at = 2 };
    struct err e = ERR_INIT;
    list_splitter_init(&s, hear_one, &h);
    is_int(list_splitter_feed(&s, "{\"items\":[{},{},{}]", 19, &e), E_CANCELED, "an item can stop it");
    is_int(h.calls, 2, "... at once");
    is_int(list_splitter_feed(&s, "}", 1, &e), E_CANCELED, "and it stays stopped");
    is_int(list_splitter_end(&s, &e), E_CANCELED, "to the end");
    list_splitter_fini(&s);
}

static bool put(struct buf *b, const char *s)
{
    return buf_adds(b, s, NULL) == 0;
}

static void test_big_item(void)
{
    AUTO_BUF struct buf text = BUF_INIT(16 << 20);
    AUTO_FREE char *filler = malloc(OBJ_MAX + 1);
    memset(filler, 'x', OBJ_MAX);
    filler[OBJ_MAX] = '\0';
    ok(put(&text, "{\"items\":[{\"a\":1},{\"metadata\":{\"name\":\"huge\",\"namespace\":\"a\"},\"spec\":\"") && put(&text, filler) &&
           put(&text, "\"},{\"spec\":\"") && put(&text, filler) && put(&text, "\",\"metadata\":{\"name\":\"late\"}},{\"b\":2}],") &&
           put(&text, "\"metadata\":{\"resourceVersion\":\"5\"}}"),
       "a list with two items over the bound");
    struct list_splitter s;
    struct heard h = { 0 };
    struct err e = ERR_INIT;
    int r = 0;
    size_t most = 0;
    list_splitter_init(&s, hear_one, &h);
    s.too_big = hear_big;
    for (size_t at = 0; at < text.len && r == 0; at += 1000) {
        r = list_splitter_feed(&s, text.data + at, MIN((size_t)1000, text.len - at), &e);
        most = MAX(most, s.pending.alloc);
    }
    is_int(r != 0 ? r : list_splitter_end(&s, &e), 0, "is still a list");
    is_str(h.text, "{\"a\":1};BIG a;/huge;BIG ;/;{\"b\":2};", "they are told, by name when the head has it");
    is_int(s.too_large, 2, "and counted");
    is_int(s.items, 2, "apart from the others");
    ok(most <= OBJ_MAX + 1, "memory stayed at one item (%zu)", most);
    list_splitter_fini(&s);
}

static void test_big_metadata(void)
{
    AUTO_BUF struct buf text = BUF_INIT(1 << 20);
    AUTO_FREE char *filler = calloc(1, LIST_META_MAX + 1);
    memset(filler, 'x', LIST_META_MAX);
    ok(put(&text, "{\"metadata\":{\"continue\":\"") && put(&text, filler) && put(&text, "\"}}"), "endless metadata");
    struct heard h = { 0 };
    struct err e;
    is_int(feed_list(&h, text.data, text.len, 10, &e), E_CORRUPT, "is refused");
    has_str(e.msg, "endless", "... and says so");
}

int main(void)
{
    test_grammar();
    test_depth();
    test_events();
    test_scan();
    test_scan_odd();
    test_scan_refused();
    test_strip();
    test_member();
    test_span_string();
    test_peek();
    test_watch_event();
    test_rv_compare();
    test_lines();
    test_long_lines();
    test_lists();
    test_lists_refused();
    test_big_item();
    test_big_metadata();
    return done_testing();
}
