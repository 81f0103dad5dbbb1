// SPDX-License-Identifier: Apache-2.0
#include "wire/base64.c"
#include "wire/kubeconfig.c"

#include "tap.h"

// "PEM one" and "PEM two"
#define ONE "UEVNIG9uZQ=="
#define TWO "UEVNIHR3bw=="

#define HEAD "apiVersion: v1\nkind: Config\ncurrent-context: main\n"
#define CONTEXT "contexts:\n- name: main\n  context: {cluster: c, user: u}\n"
#define CLUSTER "clusters:\n- name: c\n  cluster: {server: https://s:6443, certificate-authority-data: " ONE "}\n"
#define USER "users:\n- name: u\n  user: {token: secret-token}\n"

static int parse(struct cred *c, const char *yaml, const char *context, struct err *e)
{
    *c = (struct cred){ 0 };
    return kubeconfig_parse(c, yaml, strlen(yaml), "/etc/limpet/kubeconfig", context, e);
}

static void test_everything(void)
{
    static const char yaml[] =
        HEAD "clusters:\n"
             "- name: other\n  cluster: {server: 'https://no'}\n"
             "- name: c\n  cluster:\n"
             "    server: https://s:6443\n    certificate-authority: pki/ca.pem\n"
             "    tls-server-name: api.example\n    proxy-url: http://proxy:3128\n    insecure-skip-tls-verify: false\n"
             "users:\n- name: u\n  user:\n    tokenFile: ./token\n    token: older\n"
             "    client-certificate: /pki/me.pem\n    client-key-data: " TWO "\n"
             "contexts:\n- name: main\n  context: {cluster: c, user: u, namespace: edge-a}\n"
             "preferences: {}\nextensions: [{name: x}]\n";
    struct cred c;
    struct err e = ERR_INIT;

    is_int(parse(&c, yaml, NULL, &e), 0, "all that a kubeconfig can say: %s", e.msg);
    is_str(c.server, "https://s:6443", "server");
    is_str(c.ca_file, "/etc/limpet/pki/ca.pem", "a relative file is beside the kubeconfig");
    is_str(c.server_name, "api.example", "tls-server-name");
    is_str(c.proxy, "http://proxy:3128", "proxy-url");
    is_str(c.ns, "edge-a", "namespace");
    is_str(c.token_file, "/etc/limpet/token", "tokenFile");
    ok(c.token == NULL, "wins over token");
    is_str(c.cert_file, "/pki/me.pem", "an absolute file stays");
    is_str(c.key_pem, "PEM two", "data is decoded");
    cred_fini(&c);
    is_int(parse(&c, HEAD CONTEXT CLUSTER USER, "", &e), 0, "the least");
    is_str(c.token, "secret-token", "its token");
    is_str(c.ca_pem, "PEM one", "its CA");
    cred_fini(&c);
}

// What kubectl, k3s and kubeadm write: JSON is YAML, nulls and empty strings for what is not set.
static void test_forms(void)
{
    struct cred c;
    struct err e = ERR_INIT;
    const char *json =
        "{\"current-context\":\"\",\"contexts\":[{\"name\":\"x\",\"context\":{\"cluster\":\"c\",\"user\":\"u\",\"namespace\":\"\"}}],"
        "\"clusters\":[{\"name\":\"c\",\"cluster\":{\"server\":\"https://s\",\"certificate-authority\":null}}],"
        "\"users\":[{\"name\":\"u\",\"user\":{\"username\":\"\",\"exec\":null,\"token\":\"t\"}}]}";

    is_int(parse(&c, json, "x", &e), 0, "as JSON, by context: %s", e.msg);
    ok(c.ns == NULL && c.ca_pem == NULL && c.ca_file == NULL, "empty is absent");
    cred_fini(&c);
    is_int(parse(&c, json, "y", &e), E_INVAL, "a context that is not there");
    has_str(e.msg, "contexts \"y\"", "is named");
    cred_fini(&c);
    is_int(parse(&c, json, NULL, &e), E_INVAL, "no context at all");
    cred_fini(&c);
}

static void test_refusals(void)
{
    static const struct {
        const char *yaml;
        int cls;
        const char *says;
    } cases[] = {
        { HEAD CONTEXT CLUSTER "users:\n- name: u\n  user:\n    exec: {command: aws}\n", E_UNSUP, "users \"u\": exec" },
        { HEAD CONTEXT CLUSTER "users:\n- name: u\n  user:\n    auth-provider: {name: gcp}\n", E_UNSUP, "auth-provider" },
        { HEAD CONTEXT CLUSTER "users:\n- name: u\n  user: {username: a, password: hunter2}\n", E_UNSUP, "username" },
        { HEAD CONTEXT CLUSTER "users:\n- name: u\n  user: {token: t, as: root}\n", E_UNSUP, "impersonation" },
        { HEAD CONTEXT "clusters:\n- name: c\n  cluster: {server: https://s, insecure-skip-tls-verify: true}\n" USER, E_UNSUP,
          "clusters \"c\": insecure-skip-tls-verify" },
        { HEAD CONTEXT "clusters:\n- name: c\n  cluster: {}\n" USER, E_INVAL, "server: missing" },
        { HEAD CONTEXT "clusters:\n- name: c\n" USER, E_INVAL, "cluster: missing" },
        { HEAD CONTEXT "clusters:\n- name: d\n  cluster: {server: https://s}\n" USER, E_INVAL, "clusters \"c\": there is none" },
        { HEAD CONTEXT CLUSTER, E_INVAL, "users \"u\": there is none" },
        { HEAD CLUSTER USER, E_INVAL, "contexts \"main\": there is none" },
        { HEAD "contexts:\n- name: main\n  context: {cluster: c}\n" CLUSTER USER, E_INVAL, "needs a cluster and a user" },
        { HEAD CONTEXT "clusters:\n- name: c\n  cluster: {server: https://s, certificate-authority-data: '%%%'}\n" USER, E_INVAL,
          "certificate-authority-data: not base64" },
        { HEAD CONTEXT "clusters:\n- name: c\n  cluster: {server: https://s, certificate-authority-data: AAAA}\n" USER, E_INVAL,
          "not PEM" },
        { HEAD CONTEXT "clusters:\n- name: c\n  cluster: {server: 5}\n" USER, E_INVAL, "server: must be a string" },
        { HEAD CONTEXT CLUSTER "users:\n- name: u\n  user: {client-certificate-data: " ONE "}\n", E_INVAL, "needs its key" },
        { HEAD CONTEXT CLUSTER "users:\n- name: u\n  user: {token: 12345}\n", E_INVAL, "token: must be a string" },
        { "current-context: main\n\tclusters: x\n", E_INVAL, "/etc/limpet/kubeconfig: line 2" },
        { "- a\n- list\n", E_INVAL, "not a kubeconfig" },
        { "", E_NOTFOUND, "no document" },
        { HEAD "contexts: {main: 1}\n", E_INVAL, "there is none" },
        { HEAD "contexts: [1, null, {name: main}]\n", E_INVAL, "context: missing" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct cred c;
        struct err e = ERR_INIT;
        is_int(parse(&c, cases[i].yaml, NULL, &e), cases[i].cls, "case %d: %s", (int)i, e.msg);
        has_str(e.msg, cases[i].says, "says what and where");
        ok(strstr(e.msg, "hunter2") == NULL && strstr(e.msg, "12345") == NULL, "and repeats no secret");
        cred_fini(&c);
    }
}

static void test_bounds(void)
{
    AUTO_BUF struct buf b = BUF_INIT(4 << 20);
    struct cred c = { 0 };
    struct err e = ERR_INIT;
    int rc = buf_adds(&b, HEAD CONTEXT "clusters:\n- name: c\n  cluster: {server: https://s, certificate-authority-data: ", NULL);

    for (int i = 0; i < 100000 && rc == 0; i++)
        rc = buf_adds(&b, "QUFB", NULL);
    if (rc == 0)
        rc = buf_adds(&b, "}\n" USER, NULL);
    is_int(rc, 0, "a CA of 300 KB");
    is_int(kubeconfig_parse(&c, b.data, b.len, "k", NULL, &e), E_INVAL, "is refused: %s", e.msg);
    cred_fini(&c);
    for (int i = 0; i < 80000 && rc == 0; i++)
        rc = buf_adds(&b, "# comment comment", NULL);
    is_int(kubeconfig_parse(&c, b.data, b.len, "k", NULL, &e), E_TOOBIG, "a kubeconfig over 1 MB: %s", e.msg);
    cred_fini(&c);
}

static void test_cluster_info(void)
{
    AUTO_BUF struct buf pem = BUF_INIT(1000);
    static const char yaml[] = "clusters:\n- name: ''\n  cluster: {server: https://s, certificate-authority-data: " TWO "}\n";

    is_int(kubeconfig_ca(yaml, strlen(yaml), &pem, NULL), 0, "the CA of a kubeconfig without users");
    is_str(buf_str(&pem), "PEM two", "is found");
    buf_reset(&pem);
    is_int(kubeconfig_ca("clusters: []\n", 13, &pem, NULL), E_NOTFOUND, "or not");
    is_int(kubeconfig_ca("x", 1, &pem, NULL), E_NOTFOUND, "in any text");
}

static void test_base64(void)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        { "", "" },       { "QQ==", "A" },   { "QUI=", "AB" },           { "QUJD", "ABC" },          { "QUJ D\nRA = =", "ABCD" },
        { "QQ", "A" },    { "QUI", "AB" },   { "_-_-", "\xff\xef\xfe" }, { "/+/+", "\xff\xef\xfe" }, { "Q", NULL },
        { "Q=Q=", NULL }, { "QQ===", NULL }, { "QQ==QQ==", NULL },       { "Q\xc3", NULL },          { "QUJD*", NULL },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        AUTO_BUF struct buf b = BUF_INIT(100);
        int rc = base64_decode(cases[i].in, strlen(cases[i].in), &b, NULL);
        is_str(rc == 0 ? buf_str(&b) : NULL, cases[i].out, "base64 \"%s\"", cases[i].out != NULL ? cases[i].out : "(refused)");
    }
}

static void test_base64_encode(void)
{
    static const char *const cases[][2] = { { "", "" }, { "A", "QQ==" }, { "AB", "QUI=" }, { "ABC", "QUJD" }, { "\xff\xef\xfe", "/+/+" } };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        AUTO_BUF struct buf b = BUF_INIT(100);
        int rc = base64_encode(cases[i][0], strlen(cases[i][0]), &b, NULL);
        is_str(rc == 0 ? buf_str(&b) : NULL, cases[i][1], "encoded: \"%s\"", cases[i][1]);
    }
    AUTO_BUF struct buf tight = BUF_INIT(7);
    is_int(base64_encode("ABCD", 4, &tight, NULL), E_TOOBIG, "over the bound: refused");
    is_int((intmax_t)tight.len, 0, "and nothing is appended");
    AUTO_BUF struct buf zeros = BUF_INIT(100), back = BUF_INIT(100);
    is_int(base64_encode("\0\0a", 3, &zeros, NULL), 0, "zero bytes");
    is_int(base64_decode(buf_str(&zeros), zeros.len, &back, NULL), 0, "and back");
    ok(back.len == 3 && memcmp(back.data, "\0\0a", 3) == 0, "are kept");
}

int main(void)
{
    test_everything();
    test_forms();
    test_refusals();
    test_bounds();
    test_cluster_info();
    test_base64();
    test_base64_encode();
    return done_testing();
}
