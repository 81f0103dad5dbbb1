// SPDX-License-Identifier: Apache-2.0
// What of `limpet check` is pure, and that the rights it asks for are those that limpetctl grants. test/e2e/check.t has the rest.
#include "local/check_rbac.c"

#include "tap.h"
#include "wire/yaml.h"

static void test_judgements(void)
{
    is_int(check_judge_skew(0), CHECK_OK, "the same time");
    is_int(check_judge_skew(-59), CHECK_OK, "nearly");
    is_int(check_judge_skew(60), CHECK_WARN, "a minute");
    is_int(check_judge_skew(-3599), CHECK_WARN, "less than an hour");
    is_int(check_judge_skew(-3600), CHECK_FAIL, "an hour behind");
    is_int(check_judge_skew(INT64_C(300000000)), CHECK_FAIL, "years ahead");

    int64_t day = 86400;
    is_int(check_judge_expiry(100 * day, 0, 100 * day), CHECK_FAIL, "it expires now");
    is_int(check_judge_expiry(100 * day, 0, 106 * day), CHECK_WARN, "in six days");
    is_int(check_judge_expiry(100 * day, 0, 108 * day), CHECK_OK, "in eight");
    is_int(check_judge_expiry(3000, 0, 3600), CHECK_WARN, "an hour's token whose beginning is not known");
    is_int(check_judge_expiry(3000, 1, 3600), CHECK_OK, "an hour's token, at five sixths of it");
    is_int(check_judge_expiry(3500, 1, 3600), CHECK_WARN, "overdue");

    uint64_t mib = 1 << 20;
    is_int(check_judge_space(0, 100 * mib), CHECK_FAIL, "a full disk");
    is_int(check_judge_space(mib, 4 * mib), CHECK_WARN, "a megabyte left");
    is_int(check_judge_space(3 * mib, 4 * mib), CHECK_OK, "three of a router's four");
    is_int(check_judge_space(100 * mib, 100000 * mib), CHECK_WARN, "little of a large disk");
    is_int(check_judge_space(300 * mib, 100000 * mib), CHECK_OK, "enough");
    is_int(check_judge_inodes(0, 0), CHECK_OK, "inodes that nobody counts");
    is_int(check_judge_inodes(3, 1000), CHECK_FAIL, "no inodes");
    is_int(check_judge_inodes(100, 1000), CHECK_WARN, "few inodes");
    is_int(check_judge_inodes(900, 1000), CHECK_OK, "enough inodes");
}

static void test_texts(void)
{
    struct check_result r = { 0 };
    char when[48], far[1200];
    is_str(check_when(0, when), "in 0 seconds", "now");
    is_str(check_when(-1, when), "1 second ago", "one");
    is_str(check_when(119, when), "in 119 seconds", "until two minutes seconds are told");
    is_str(check_when(-7200, when), "2 hours ago", "hours");
    is_str(check_when(86400 * 300, when), "in 300 days", "days");
    memset(far, 'x', sizeof(far) - 1);
    far[sizeof(far) - 1] = '\0';
    check_say(&r, CHECK_FAIL, "a\nb\033c %s", far);
    has_str(r.seen, "a b c xxx", "what would steer a terminal is blanks");
    is_str(r.seen + strlen(r.seen) - 5, "xx...", "a text that is too long says so");
    ok(r.holds, "what fails holds up others");
    check_say(&r, CHECK_WARN, "w");
    ok(!r.holds, "a warning does not");
    check_needs(&r, "login");
    ok(r.status == CHECK_SKIP && r.holds, "what needs another one does");
    is_str(r.needs, "login", "and names it");
}

// --- rights ----------------------------------------------------------------------------------------------------------------------

enum { RIGHTS_MAX = 100 };

struct granted {
    char text[RIGHTS_MAX][160];
    size_t n;
};

static void grant(struct granted *g, int where, const char *group, const char *resource, const char *name, const char *verb)
{
    if (g->n < RIGHTS_MAX)
        snprintf(g->text[g->n++], sizeof(g->text[0]), "%d %s %s [%s] %s", where, group, resource, name, verb);
}

static void grant_rule(struct granted *g, int where, const struct json *rule)
{
    const struct json *names = json_get(rule, "resourceNames");
    json_each(group, json_get(rule, "apiGroups")) json_each(resource, json_get(rule, "resources")) json_each(verb, json_get(rule, "verbs"))
        grant(g, where, json_str(group), json_str(resource), names != NULL ? json_str(json_at(names, 0)) : "", json_str(verb));
}

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "r");
    static char text[256 * 1024];
    size_t n = f != NULL ? fread(text, 1, sizeof(text) - 1, f) : 0;
    text[n] = '\0';
    if (f != NULL)
        fclose(f);
    return text;
}

// The rules of each Role and ClusterRole of that name in the file.
static void grant_file(struct granted *g, const char *path, const char *role, int where)
{
    const char *text = read_file(path);
    for (int i = 0; i < 20; i++) {
        struct buf b AUTO_BUF = BUF_INIT(256 * 1024);
        struct json *j AUTO_JSON = NULL;
        if (yaml_to_json(text, strlen(text), i, &b, NULL) < 0 || json_parse(&j, buf_str(&b), b.len, NULL) < 0)
            return;
        if (strstr(json_path_str(j, "kind"), "Role") != NULL && strcmp(json_path_str(j, "metadata.name"), role) == 0)
            json_each(rule, json_get(j, "rules")) grant_rule(g, where, rule);
    }
}

static void ask_for(struct granted *g, const struct check_right *r)
{
    char resource[80], verb[16];
    snprintf(resource, sizeof(resource), "%s%s%s", r->resource, r->sub[0] != '\0' ? "/" : "", r->sub);
    for (const char *v = r->verbs; *v != '\0'; v += strspn(v, " ")) {
        size_t n = strcspn(v, " ");
        snprintf(verb, sizeof(verb), "%.*s", (int)n, v);
        grant(g, r->where, r->group, resource, r->name != NULL ? r->name : "", verb);
        v += n;
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void test_rights(void)
{
    static struct granted granted, asked;
    grant_file(&granted, "crd/node.yaml.in", "limpet", RIGHT_OWN);
    grant_file(&granted, "crd/rbac.yaml", "limpet-node-shared", RIGHT_SHARED);
    grant_file(&granted, "crd/rbac.yaml", "limpet-node-cluster", RIGHT_SYSTEM);
    for (size_t i = 0; i < n_check_rights; i++)
        ask_for(&asked, &check_rights[i]);
    qsort(granted.text, granted.n, sizeof(granted.text[0]), by_text);
    qsort(asked.text, asked.n, sizeof(asked.text[0]), by_text);
    ok(granted.n > 30, "limpetctl grants %zu rights", granted.n);
    is_int((int)asked.n, (int)granted.n, "as many are asked for");
    for (size_t i = 0; i < MIN(granted.n, asked.n); i++)
        is_str(asked.text[i], granted.text[i], "asked for: %s", granted.text[i]);
}

int main(void)
{
    test_judgements();
    test_texts();
    test_rights();
    return done_testing();
}
