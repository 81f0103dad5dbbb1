// SPDX-License-Identifier: Apache-2.0
// Joining against servers that show their CA in different ways, and renewing a token.
#include "wire/enroll.c"
#include "wire/renew.c"

#include "http_rig.h"
#include "tap.h"

static struct http_rig g;
static char ca_hash[TLS_HASH_MAX];

static struct enroll_conf conf_for(const char *server)
{
    static char url[64];

    snprintf(url, sizeof url, "https://127.0.0.1:%d", http_rig_port(&g, server));
    return (struct enroll_conf){ .server = url, .ca_hash = ca_hash, .node = "a", .ns = "edge-a", .token = g.join_token };
}

static int join(const struct enroll_conf *c, struct cred *out, struct err *e)
{
    *out = (struct cred){ 0 };
    *e = ERR_INIT;
    return enroll_join(out, g.loop, c, e);
}

static void test_ways(void)
{
    static const char *const ways[] = { "k3s", "kubeadm", "chain" };
    struct cred cred;
    struct err e;

    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        struct enroll_conf c = conf_for(ways[i]);
        is_int(join(&c, &cred, &e), 0, "join by %s: %s", ways[i], e.msg);
        ok(cred_same_ca(cred.ca_pem, g.ca), "only the CA of that hash is kept");
        is_str(cred.ns, "edge-a", "the namespace is kept");
        is_str(cred.server, c.server, "and the server");
        struct token_claims claims = { 0 };
        is_int(token_read(cred.token != NULL ? cred.token : "", &claims, NULL), 0, "a token came");
        is_int(claims.expires - claims.issued, YEAR_S, "for a year");
        cred_fini(&cred);
    }
}

static void test_given_ca(void)
{
    struct cred cred;
    struct err e;
    struct enroll_conf c = conf_for("shy");

    is_int(join(&c, &cred, &e), E_AUTH, "a server that shows no CA");
    has_str(e.msg, "--ca-file", "and what to do about it");
    cred_fini(&cred);
    c = conf_for("garbage");
    is_int(join(&c, &cred, &e), E_AUTH, "a server that shows something else");
    cred_fini(&cred);

    c = conf_for("shy");
    c.ca_pem = g.ca;
    c.lifetime_s = 7200;
    is_int(join(&c, &cred, &e), 0, "with --ca-file: %s", e.msg);
    is_int(token_expiry(cred.token) / 10, (clock_wall_us(&g.clock.clock) / 1000000 + 7200) / 10, "for as long as asked for");
    cred_fini(&cred);
    c.ca_hash = NULL;
    is_int(join(&c, &cred, &e), 0, "and no hash beside it");
    cred_fini(&cred);
    c = conf_for("shy");
    c.ca_pem = g.other_ca;
    is_int(join(&c, &cred, &e), E_AUTH, "a CA file of another hash");
    has_str(e.msg, ca_hash, "which names what was expected");
    cred_fini(&cred);
    c.ca_hash = NULL;
    is_int(join(&c, &cred, &e), E_AUTH, "a CA that is not the server's");
    cred_fini(&cred);

    // What limpetctl prints: the token and the CA in one JSON object.
    AUTO_JSON struct json *j = json_object();
    AUTO_BUF struct buf text = BUF_INIT(65536);
    json_set_str(j, "token", "x");
    json_set_str(j, "ca", g.ca);
    char *bare, *ca;
    is_int(enroll_parse_token(g.join_token, strlen(g.join_token), &bare, &ca, NULL), 0, "a bare token");
    json_set_str(j, "token", bare);
    free(bare);
    is_int(json_print(j, &text, NULL), 0, "as JSON with the CA");
    c = conf_for("shy");
    c.token = buf_str(&text);
    is_int(join(&c, &cred, &e), 0, "is enough for a server that shows nothing: %s", e.msg);
    cred_fini(&cred);
}

static void test_refusals(void)
{
    static const char wrong[] = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    struct cred cred;
    struct err e;
    struct enroll_conf c = conf_for("k3s");

    c.ca_hash = wrong;
    is_int(join(&c, &cred, &e), E_AUTH, "a wrong hash");
    has_str(e.msg, ca_hash, "names the one that was seen");
    has_str(e.msg, wrong, "and the one that was expected");
    ok(cred.token == NULL && cred.ca_pem == NULL, "and nothing is kept");
    c.ca_hash = "sha256:abc";
    is_int(join(&c, &cred, &e), E_INVAL, "no hash at all");

    c = conf_for("k3s");
    c.ns = "edge-b";
    is_int(join(&c, &cred, &e), E_INVAL, "a token for another namespace");
    c = conf_for("k3s");
    c.token = "abc";
    is_int(join(&c, &cred, &e), E_INVAL, "no ServiceAccount token");
    ok(strstr(e.msg, "abc") == NULL, "which is not repeated");
    c.server = "http://127.0.0.1:1";
    is_int(join(&c, &cred, &e), E_INVAL, "a server without TLS");
    c = conf_for("closed");
    is_int(join(&c, &cred, &e), E_OFFLINE, "a server that is not there");
    c = conf_for("elsewhere");
    c.ca_pem = g.ca;
    is_int(join(&c, &cred, &e), E_AUTH, "a server of our CA with another name: %s", e.msg);

    AUTO_FREE char *revoked = strdup(g.join_token);
    memcpy(strstr(revoked, ".join"), ".gone", 5);
    c = conf_for("k3s");
    c.token = revoked;
    is_int(join(&c, &cred, &e), E_AUTH, "a token that the server does not accept");
    has_str(e.msg, "new join command", "and what to do about it");
}

static void test_token_files(void)
{
    static const struct {
        const char *text, *token, *ca;
    } cases[] = {
        { " a.b.c\r\n", "a.b.c", NULL },
        { "{\"token\":\"a.b.c\"}", "a.b.c", NULL },
        { "\n{\"ca\":\"PEM\",\"token\":\"t\",\"more\":1} ", "t", "PEM" },
        { "{\"token\":\"t\",\"ca\":\"\"}", "t", NULL },
        { "", NULL, NULL },
        { " \n ", NULL, NULL },
        { "two words", NULL, NULL },
        { "{\"token\":5}", NULL, NULL },
        { "{\"ca\":\"PEM\"}", NULL, NULL },
        { "{\"token\":\"a b\"}", NULL, NULL },
        { "{\"token\":\"t\"", NULL, NULL },
        { "t\xc3\xa9", NULL, NULL },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char *token, *ca;
        struct err e = ERR_INIT;
        int rc = enroll_parse_token(cases[i].text, strlen(cases[i].text), &token, &ca, &e);
        is_int(rc, cases[i].token != NULL ? 0 : E_INVAL, "token file %d: %s", (int)i, e.msg);
        is_str(token, cases[i].token, "its token");
        is_str(ca, cases[i].ca, "its CA");
        free(token);
        free(ca);
    }
}

static void test_claims(void)
{
    // {"sub":"system:serviceaccount:ns:sa","exp":1700000000,"iat":1600000000}
    static const char good[] = "e30.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6bnM6c2EiLCJleHAiOjE3MDAwMDAwMDAsImlhdCI6MTYwMDAwMDAwMH0.x";
    static const char *const bad[] = { "", ".", "..", "e30", "e30.e30", "e30.!!.x", "e30.e30x.y", "e30.W10=.", "e30.eyJleHAiOi0xfQ.x" };
    struct token_claims c;

    is_int(token_read(good, &c, NULL), 0, "a token");
    is_int(c.expires, 1700000000, "its expiry");
    is_int(c.issued, 1600000000, "its beginning");
    is_str(c.ns, "ns", "its namespace");
    is_str(c.account, "sa", "its account");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        is_int(token_expiry(bad[i]), 0, "no expiry in \"%s\"", bad[i]);
    is_int(token_expiry(NULL), 0, "nor in nothing");
}

// --- renewal

struct renewal {
    struct disk *disk;
    struct transport *t;
    struct kube k;
    struct cred cred;
    struct enroll_renew *r;
    char dir[300];
};

static void begin_renewal(struct renewal *n, const char *server)
{
    struct enroll_conf c = conf_for(server);
    struct err e = ERR_INIT;
    struct http_conf http = { .base_url = c.server, .ca_pem = g.ca };

    *n = (struct renewal){ 0 };
    c.ca_pem = g.ca;
    snprintf(n->dir, sizeof n->dir, "%s/state", g.dir);
    if (join(&c, &n->cred, &e) < 0 || disk_real_new(&n->disk, NULL, "", &e) < 0 || http_new(&n->t, g.loop, &http, &e) < 0 ||
        n->disk->ops->mkdirs(n->disk, n->dir, 0700, 0, &e) < 0 || cred_save_identity(&n->cred, n->disk, n->dir, "a", &e) < 0 ||
        http_set_bearer(n->t, n->cred.token, &e) < 0)
        diag("no renewal: %s", e.msg);
    n->k = (struct kube){ .transport = n->t, .clock = &g.clock.clock };
}

static void start_renewal(struct renewal *n)
{
    if (enroll_renew_new(&n->r, g.loop, &n->k, n->disk, n->dir, "a", &n->cred, n->t, NULL) < 0)
        abort();
}

static void end_renewal(struct renewal *n)
{
    enroll_renew_free(n->r);
    transport_free(n->t);
    disk_free(n->disk);
    cred_fini(&n->cred);
}

static void test_due(void)
{
    int64_t least = INT64_MAX, most = 0;

    for (int i = 0; i < 1000; i++) {
        int64_t at = due_after(1000, &g.clock.clock);
        least = MIN(least, at);
        most = MAX(most, at);
    }
    ok(least >= 700 && least < 720 && most <= 900 && most > 880, "due between 70 and 90 %% of the life: %d to %d", (int)least, (int)most);
}

// As after a reboot: how long ago it came is not known.
static void other_boot(struct renewal *n)
{
    if (cred_set(&n->cred.received_boot, "another", NULL) < 0)
        abort();
}

static void test_renewal(void)
{
    struct renewal n;
    struct cred stored = { 0 };
    char node[254], prev[400];

    begin_renewal(&n, "shy");
    AUTO_FREE char *first = strdup(n.cred.token);
    start_renewal(&n);
    turn_for(&g, 100);
    is_str(n.cred.token, first, "a fresh token is not renewed");
    enroll_renew_free(n.r);
    g.clock.wall_shift_us = INT64_C(1000000) * YEAR_S / 100 * 95;
    start_renewal(&n);
    turn_for(&g, 100);
    is_str(n.cred.token, first, "nor one of this boot for what the wall clock says");
    enroll_renew_free(n.r);
    other_boot(&n);

    g.clock.wall_shift_us = INT64_C(1000000) * YEAR_S / 100 * 95;
    g.clock.synced = false;
    g.clock.clock.floor_us = INT64_MAX / 2;
    start_renewal(&n);
    turn_for(&g, 100);
    is_str(n.cred.token, first, "nor one that only an untrusted clock calls old");
    enroll_renew_free(n.r);

    g.clock.synced = true;
    start_renewal(&n);
    for (int i = 0; i < 600 && strcmp(n.cred.token, first) == 0; i++)
        turn_for(&g, 100);
    ok(strcmp(n.cred.token, first) != 0, "an old one is");
    is_int(cred_load_identity(&stored, n.disk, n.dir, node, NULL), 0, "the identity is stored");
    is_str(stored.token, n.cred.token, "with the new token");
    cred_fini(&stored);
    snprintf(prev, sizeof prev, "%s/identity.json.prev", n.dir);
    AUTO_BUF struct buf text = BUF_INIT(65536);
    is_int(fs_read(n.disk, prev, 65536, 0, &text, NULL), 0, "the one before is kept");
    has_str(buf_str(&text), first, "with the old token");
    struct fs_stat st = { 0 };
    is_int(n.disk->ops->stat(n.disk, prev, 0, &st, NULL), 0, "and is");
    is_int(st.mode, 0600, "readable for the owner only");
    end_renewal(&n);
    g.clock.wall_shift_us = 0;
    g.clock.clock.floor_us = 0;
}

static void test_failed_renewal(void)
{
    struct renewal n;

    begin_renewal(&n, "shy");
    AUTO_FREE char *first = strdup(n.cred.token);
    is_int(http_set_bearer(n.t, "revoked", NULL), 0, "the server stops accepting the token");
    other_boot(&n);
    g.clock.wall_shift_us = INT64_C(1000000) * YEAR_S / 100 * 95;
    start_renewal(&n);
    for (int i = 0; i < 600 && n.r->retry_ms == RETRY_MIN_MS; i++)
        turn_for(&g, 100);
    is_int(n.r->retry_ms, 2 * RETRY_MIN_MS, "a renewal that fails is tried again later, and later each time");
    ok(timer_is_set(&n.r->timer), "by a timer");
    is_str(n.cred.token, first, "and the old token stays");
    end_renewal(&n);
    g.clock.wall_shift_us = 0;
}

// A token of this boot, when the wall clock lies in the past: it is renewed all the same.
static void test_boot_time(void)
{
    struct renewal n;

    begin_renewal(&n, "shy");
    AUTO_FREE char *first = strdup(n.cred.token);
    n.cred.received_ms -= INT64_C(1000) * YEAR_S / 100 * 95;
    g.clock.wall_shift_us = -INT64_C(1000000) * YEAR_S * 20;
    g.clock.synced = false;
    start_renewal(&n);
    for (int i = 0; i < 600 && strcmp(n.cred.token, first) == 0; i++)
        turn_for(&g, 100);
    ok(strcmp(n.cred.token, first) != 0, "by boot-time it is old, whatever the wall clock says");
    ok(n.r->due_boot_ms > clock_boot(&g.clock.clock), "the new one is due by boot-time, too");
    end_renewal(&n);
    g.clock.wall_shift_us = 0;
    g.clock.synced = true;
}

// The token in use, and in the file, is one that the server does not take.
static void spoil(struct renewal *n, const char *tail)
{
    size_t len = strlen(n->cred.token);
    AUTO_FREE char *bad = strdup(n->cred.token);

    memcpy(bad + len - 4, tail, 4);
    if (cred_set(&n->cred.token, bad, NULL) < 0 || cred_save_identity(&n->cred, n->disk, n->dir, "a", NULL) < 0 ||
        http_set_bearer(n->t, bad, NULL) < 0)
        abort();
}

static bool wait_for_token(struct renewal *n, const char *other_than)
{
    for (int i = 0; i < 600 && (n->r->call.active || strcmp(n->cred.token, other_than) == 0); i++)
        turn_for(&g, 100);
    return strcmp(n->cred.token, other_than) != 0;
}

static void test_previous(void)
{
    struct renewal n;
    struct cred stored = { 0 };
    char node[254];

    begin_renewal(&n, "shy");
    spoil(&n, "gone");
    AUTO_FREE char *refused = strdup(n.cred.token);
    start_renewal(&n);
    is_int(enroll_renew_look(n.r), ENROLL_SAME, "nothing new in the file");
    is_int(enroll_renew_refused(n.r), ENROLL_SWITCHED, "refused: the one before is tried");
    AUTO_FREE char *before = strdup(n.cred.token);
    ok(strcmp(before, refused) != 0, "which is another one");
    is_int(enroll_renew_refused(n.r), ENROLL_SAME, "a late refusal of the first is not one of the second");
    is_str(n.cred.token, before, "which stays in use");
    ok(wait_for_token(&n, before), "and gives a new one at once");
    ok(strcmp(n.cred.token, refused) != 0 && !n.r->on_previous, "which is neither");
    is_int(cred_load_identity(&stored, n.disk, n.dir, node, NULL), 0, "it is stored");
    is_str(stored.token, n.cred.token, "at once");
    cred_fini(&stored);
    end_renewal(&n);

    begin_renewal(&n, "shy");
    spoil(&n, "lost");
    spoil(&n, "gone");
    AUTO_FREE char *last = strdup(n.cred.token);
    start_renewal(&n);
    is_int(enroll_renew_refused(n.r), ENROLL_SWITCHED, "both are refused: the one before is tried");
    AUTO_FREE char *older = strdup(n.cred.token);
    ok(wait_for_token(&n, older), "and left");
    is_str(n.cred.token, last, "for the newest");
    is_int(enroll_renew_refused(n.r), ENROLL_SAME, "and is not tried twice");
    is_str(n.cred.token, last, "so that one stays");

    // Somebody joins anew.
    struct cred fresh = { 0 };
    struct err e;
    struct enroll_conf c = conf_for("shy");
    c.ca_pem = g.ca;
    is_int(join(&c, &fresh, &e), 0, "a new join");
    is_int(cred_save_identity(&fresh, n.disk, n.dir, "a", NULL), 0, "is stored");
    is_int(enroll_renew_refused(n.r), ENROLL_SWITCHED, "field 10: it is found at the next refusal");
    is_str(n.cred.token, fresh.token, "and in use");
    is_int(enroll_renew_look(n.r), ENROLL_SAME, "once");
    is_int(cred_set(&fresh.ns, "edge-b", NULL), 0, "another namespace");
    is_int(cred_save_identity(&fresh, n.disk, n.dir, "a", NULL), 0, "is stored");
    is_int(enroll_renew_look(n.r), ENROLL_OTHER, "and is nothing to go on with");
    cred_fini(&fresh);
    end_renewal(&n);
}

int main(void)
{
    test_token_files();
    test_claims();
    if (!http_rig_start(&g) || cred_ca_hash(g.ca, ca_hash, NULL) < 0) {
        fail("the test servers start");
        return done_testing();
    }
    log_setup(LOG_ERROR, LOG_TEXT, &g.clock.clock);
    test_ways();
    test_given_ca();
    test_refusals();
    test_due();
    test_renewal();
    test_failed_renewal();
    test_boot_time();
    test_previous();
    http_rig_stop(&g);
    return done_testing();
}
