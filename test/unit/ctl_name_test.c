// SPDX-License-Identifier: Apache-2.0
#include "ctl/name.c"
#include "tap.h"

static void check_valid(void)
{
    static const char *const names[] = { "a", "edge-1", "0", "pump.hall3.example", "a--b", "1.2.3" };
    char label[254];

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        is_int(node_name_check(names[i], NULL), 0, "%s is a name", names[i]);
    memset(label, 'a', 63);
    label[63] = '\0';
    is_int(node_name_check(label, NULL), 0, "a part of 63 characters");
    memset(label, 'a', 253);
    label[63] = label[127] = label[191] = '.';
    label[253] = '\0';
    is_int(node_name_check(label, NULL), 0, "a name of 253 characters");
}

static void check_invalid(void)
{
    static const struct {
        const char *name, *says;
    } cases[] = {
        { "", "empty part" },
        { "a..b", "empty part" },
        { ".a", "empty part" },
        { "a.", "empty part" },
        { "Edge", "lower-case" },
        { "a_b", "lower-case" },
        { "a b", "lower-case" },
        { "-a", "dash" },
        { "a-", "dash" },
        { "a.-b", "dash" },
        { "\xc3\xbc", "lower-case" },
        { "a\nb", "lower-case" },
        { "x;reboot", "lower-case" },
        { "../etc", "empty part" },
    };
    char longer[300];

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        is_int(node_name_check(cases[i].name, &e), E_INVAL, "\"%s\" is no name", cases[i].name);
        has_str(e.msg, cases[i].says, "and it says why");
    }
    memset(longer, 'a', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    is_int(node_name_check(longer, NULL), E_INVAL, "too long a name");
    longer[64] = '\0';
    is_int(node_name_check(longer, NULL), E_INVAL, "too long a part");
}

static const char *map(const char *node)
{
    static char ns[NAMESPACE_MAX + 1];
    node_namespace(node, ns);
    return ns;
}

// Like Kubernetes: a DNS label.
static bool is_namespace(const char *ns)
{
    size_t n = strlen(ns);
    return n > 0 && n <= 63 && strspn(ns, "abcdefghijklmnopqrstuvwxyz0123456789-") == n && ns[0] != '-' && ns[n - 1] != '-';
}

static void check_mapping(void)
{
    char node[254];

    is_str(map("pump-3"), "edge-pump-3", "a plain name");
    is_str(map("pump.hall3.example"), "edge-pump-hall3-example", "dots become dashes");
    memset(node, 'a', 58);
    node[58] = '\0';
    is_int(strlen(map(node)), 63, "58 characters just fit");
    ok(strstr(map(node), "-aaaa") != NULL && map(node)[62] == 'a', "and are not hashed");
    node[58] = 'a';
    node[59] = '\0';
    is_int(strlen(map(node)), 63, "59 characters are shortened");
    // printf '%s' aaa...a (59 times) | sha256sum
    is_str(map(node) + 52, "-111bb26127", "and end in a dash and the begin of the hash");
}

static void check_long_names(void)
{
    char a[254], b[254];
    char first[NAMESPACE_MAX + 1];

    memset(a, 'a', 200);
    for (size_t i = 50; i < 200; i += 50)
        a[i] = '.';
    a[200] = '\0';
    memcpy(b, a, sizeof(b));
    b[199] = 'b';
    node_namespace(a, first);
    ok(strcmp(first, map(b)) != 0, "names that differ only at their far end get different namespaces");
    for (size_t cut = 59; cut <= 200; cut++) {
        memcpy(b, a, cut);
        b[cut] = '\0';
        if (b[cut - 1] == '.')
            b[cut - 1] = '-';
        if (!is_namespace(map(b)))
            fail("%s is not a namespace", map(b));
    }
    memset(a, 'a', 60);
    memcpy(a + 40, ".b-----------c.d", 17);
    ok(is_namespace(map(a)) && strstr(map(a), "-------------") == NULL, "dashes before the hash are dropped");
}

static void check_urls(void)
{
    static const char *const valid[] = { "https://192.0.2.1:6443", "https://k8s.example.org", "https://[2001:db8::1]:6443",
                                         "https://[2001:db8::1]", "https://api:1" };
    static const char *const invalid[] = { "",
                                           "http://192.0.2.1:6443",
                                           "192.0.2.1:6443",
                                           "https://",
                                           "https://:6443",
                                           "https://a:",
                                           "https://a:0",
                                           "https://a:65536",
                                           "https://a:x",
                                           "https://a:123456",
                                           "https://a/path",
                                           "https://a?x",
                                           "https://user@a",
                                           "https://[::1",
                                           "https://[]:1",
                                           "https://a b",
                                           "https://a;reboot",
                                           "https://$(reboot)",
                                           "https://a'b",
                                           "https://a\nb" };
    for (size_t i = 0; i < ARRAY_LEN(valid); i++)
        is_int(server_url_check(valid[i], NULL), 0, "%s", valid[i]);
    for (size_t i = 0; i < ARRAY_LEN(invalid); i++)
        is_int(server_url_check(invalid[i], NULL), E_INVAL, "invalid URL %zu", i);
}

static void check_loopback(void)
{
    static const char *const here[] = { "https://localhost:6443", "https://LocalHost",       "https://127.0.0.1:6443",
                                        "https://127.1.2.3",      "https://[::1]:6443",      "https://0.0.0.0:6443",
                                        "https://[::]:6443",      "https://api.localhost:1", "https://127.1" };
    static const char *const there[] = { "https://192.0.2.1:6443", "https://127.example.org",       "https://[2001:db8::1]",
                                         "https://mylocalhost",    "https://localhost.example.org", "https://10.127.0.1" };
    for (size_t i = 0; i < ARRAY_LEN(here); i++)
        ok(server_url_is_loopback(here[i]), "%s is loopback", here[i]);
    for (size_t i = 0; i < ARRAY_LEN(there); i++)
        ok(!server_url_is_loopback(there[i]), "%s is not", there[i]);
}

int main(void)
{
    check_valid();
    check_invalid();
    check_mapping();
    check_long_names();
    check_urls();
    check_loopback();
    return done_testing();
}
