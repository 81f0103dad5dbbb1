// SPDX-License-Identifier: Apache-2.0
// The layout of kubectl describe, and the columns under it. test/e2e/describe.t compares with kubectl itself.
#include "local/describe.c"

#include "tap.h"

static const char *laid_out(const char *text)
{
    static struct buf out = BUF_INIT(65536);
    buf_reset(&out);
    return columns_print(text, &out, NULL) == 0 ? buf_str(&out) : "error";
}

static void test_columns(void)
{
    is_str(laid_out("Name:\tx\nNamespace:\ty\n"), "Name:       x\nNamespace:  y\n",
           "a column is as wide as its widest cell and two blanks");
    is_str(laid_out("A:\tx\nSpec:\n  Long Name:\ty\n"), "A:  x\nSpec:\n  Long Name:  y\n", "a line without cells ends it");
    is_str(laid_out("a\tb\tc\nd\n"), "a  b  c\nd\n", "cells of one line");
    is_str(laid_out("a\tbbbb\tc\naa\tb\tc\n"), "a   bbbb  c\naa  b     c\n", "several columns");
    is_str(laid_out("a\tbbbb\tc\naa\tb\naaa\tb\tc\n"), "a    bbbb  c\naa   b\naaa  b  c\n", "a column ends where a line has no cell of it");
    is_str(laid_out("\tx\n"), "  x\n", "an empty cell has its gap");
    is_str(laid_out("\xc3\xa4\tx\nab\ty\n"), "\xc3\xa4   x\nab  y\n", "characters count, not bytes");
    is_str(laid_out("a\tb"), "a  b", "no line end at the end");
    is_str(laid_out("1\t2\t3\t4\t5\t6\t7\t8\t9\t10\t11\t12\t13\t14\t15\t16\t17\t18"),
           "1  2  3  4  5  6  7  8  9  10  11  12  13  14  15  16  17 18", "beyond the last column a tab is a blank");
}

static const char *label(const char *field)
{
    static struct page p = { .text = BUF_INIT(1024) };
    buf_reset(&p.text);
    add_label(&p, field);
    return buf_str(&p.text);
}

static void test_labels(void)
{
    is_str(label("observedGeneration"), "Observed Generation", "words of a field's name");
    is_str(label("apiVersion"), "API Version", "acronyms");
    is_str(label("uid"), "UID", "in any case");
    is_str(label("podIPs"), "Pod I Ps", "capitals as kubectl splits them");
    is_str(label("sha256"), "sha256", "a name that is not letters alone stays");
    is_str(label("edge.limpet.dev/node"), "edge.limpet.dev/node", "likewise");
}

static void test_ages(void)
{
    static const struct {
        int64_t s;
        const char *want;
    } table[] = { { -5, "0s" },      { 119, "119s" },    { 120, "2m" },       { 125, "2m5s" },         { 600, "10m" },
                  { 10799, "179m" }, { 10800, "3h" },    { 11000, "3h3m" },   { 28800, "8h" },         { 172799, "47h" },
                  { 172800, "2d" },  { 180000, "2d2h" }, { 8 * 86400, "8d" }, { 729 * 86400, "729d" }, { 800 * 86400, "2y70d" } };
    char text[32];
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        is_str(age_text(table[i].s, text), table[i].want, "%" PRId64 " s", table[i].s);
}

static const char *described(const char *json)
{
    static struct buf out = BUF_INIT(1024 * 1024);
    static struct err e;
    struct json *j AUTO_JSON = NULL;
    int64_t now = 0;
    buf_reset(&out);
    (void)rfc3339_parse("2026-11-30T12:00:00Z", &now);
    if (json_parse(&j, json, strlen(json), &e) < 0 || describe_print(j, now, &out, &e) < 0)
        return e.msg;
    return buf_str(&out);
}

static void test_whole(void)
{
    is_str(described(
               "{\"object\":{\"kind\":\"EdgeApp\",\"apiVersion\":\"edge.limpet.dev/v1alpha1\",\"metadata\":{\"name\":\"web\",\"namespace\":"
               "\"edge-a\",\"uid\":\"u\",\"generation\":2,\"labels\":{\"b\":\"2\",\"a\":\"1\"},\"managedFields\":[{\"x\":1}]},"
               "\"spec\":{\"env\":[{\"value\":\"v\",\"name\":\"N\"}],\"command\":[\"/bin/sh\",\"-c\"],\"suspend\":false,\"nothing\":null},"
               "\"status\":{\"conditions\":[]}},\"reported\":true,\"differences\":[],\"events\":[]}"),
           "Name:         web\n"
           "Namespace:    edge-a\n"
           "Labels:       a=1\n"
           "              b=2\n"
           "Annotations:  <none>\n"
           "API Version:  edge.limpet.dev/v1alpha1\n"
           "Kind:         EdgeApp\n"
           "Metadata:\n"
           "  Generation:  2\n"
           "  UID:         u\n"
           "Spec:\n"
           "  Command:\n"
           "    /bin/sh\n"
           "    -c\n"
           "  Env:\n"
           "    Name:   N\n"
           "    Value:  v\n"
           "  Nothing:  <nil>\n"
           "  Suspend:  false\n"
           "Status:\n"
           "  Conditions:\n"
           "Reported:     yes\n"
           "Differences:  <none>\n"
           "Events:       <none>\n",
           "an object");
    const char *text =
        described("{\"object\":{\"metadata\":{\"name\":\"x\",\"annotations\":{\"a\":\"two\\nlines\","
                  "\"kubectl.kubernetes.io/last-applied-configuration\":\"{}\"}}},\"reported\":false,"
                  "\"differences\":[{\"path\":\"/f\",\"field\":\"mode\",\"want\":\"0644\",\"have\":\"0600\"}],"
                  "\"events\":[{\"reason\":\"Started\",\"note\":\"it \\u001b[31m runs\",\"at\":\"2026-11-30T11:58:00Z\",\"last\":"
                  "\"2026-11-30T11:59:00Z\",\"count\":3},{\"warning\":true,\"reason\":\"Killed\",\"note\":\"n\",\"at\":"
                  "\"2026-11-30T11:59:50Z\",\"count\":1,\"pending\":true}]}");
    has_str(text, "Annotations:  a:\n                two\n                lines\n", "an annotation of several lines");
    ok(strstr(text, "last-applied") == NULL, "kubectl's own annotation is left out");
    has_str(text, "Differences:\n  Path  Field  Want  Have\n  ----  -----  ----  ----\n  /f    mode   0644  0600\n", "differences");
    has_str(text, "  Normal   Started  60s (x3 over 2m)  edge.limpet.dev/limpet  it ^[[31m runs\n",
            "an event that came several times; a terminal is not steered");
    has_str(text, "  Warning  Killed   10s               edge.limpet.dev/limpet  n [not sent yet]\n", "one that waits");
}

int main(void)
{
    test_columns();
    test_labels();
    test_ages();
    test_whole();
    return done_testing();
}
