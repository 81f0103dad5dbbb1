// SPDX-License-Identifier: Apache-2.0
// Credentials on a disk: files that rotate, the identity of a joined node, CA fingerprints.
#include "wire/cred.c"
#include "wire/identity.c"

#include <sys/stat.h>
#include <unistd.h>

#include "tap.h"

static char root[300];
static struct disk *disk;

static char *shell(const char *cmd)
{
    static char out[65536];
    FILE *f = popen(cmd, "r");
    size_t n = f != NULL ? fread(out, 1, sizeof out - 1, f) : 0;

    out[n] = '\0';
    if (f != NULL)
        pclose(f);
    return out;
}

static void put(const char *path, const char *text)
{
    if (fs_write(disk, path, text, strlen(text), 0600, FS_NOSYNC, NULL) < 0)
        diag("cannot write %s", path);
}

static void make_dir(const char *path)
{
    if (disk->ops->mkdirs(disk, path, 0700, FS_NOSYNC, NULL) < 0)
        diag("cannot make %s", path);
}

static void test_reload(void)
{
    struct cred c = { 0 };
    struct err e = ERR_INIT;
    bool changed = false;

    put("/token", "one\n");
    put("/ca", "CA\n");
    ok(cred_set(&c.token_file, "/token", NULL) == 0 && cred_set(&c.ca_file, "/ca", NULL) == 0, "files are named");
    is_int(cred_reload(&c, disk, &changed, &e), 0, "and read");
    ok(changed, "which is a change");
    is_str(c.token, "one", "blanks at the end go");
    is_int(cred_reload(&c, disk, &changed, &e), 0, "read again");
    ok(!changed, "nothing changed");
    put("/token", "two");
    is_int(cred_reload(&c, disk, &changed, &e), 0, "rotated");
    ok(changed, "is a change");
    is_str(c.token, "two", "field 9: to the new one");
    put("/token", "three");
    put("/ca", " \n");
    is_int(cred_reload(&c, disk, &changed, &e), E_INVAL, "one file of two is empty");
    has_str(e.msg, "/ca", "and named");
    is_str(c.token, "two", "field 9: then both stay as they were");
    is_str(c.ca_pem, "CA", "both");
    ok(!changed, "and that is no change");
    disk->ops->unlink(disk, "/ca", 0, NULL);
    is_int(cred_reload(&c, disk, &changed, &e), E_NOTFOUND, "one file is gone");
    is_str(c.ca_pem, "CA", "and its value stays");
    cred_fini(&c);
    ok(c.token == NULL && c.ca_file == NULL, "finished");
    cred_fini(&c);
}

static void test_in_cluster(void)
{
    struct cred c = { 0 };
    struct err e = ERR_INIT;

    is_int(cred_in_cluster(&c, disk, "10.43.0.1", "443", &e), E_NOTFOUND, "not in a pod");
    cred_fini(&c);
    make_dir(SERVICE_ACCOUNT_DIR);
    put(SERVICE_ACCOUNT_DIR "/token", "tok");
    put(SERVICE_ACCOUNT_DIR "/ca.crt", "CA");
    put(SERVICE_ACCOUNT_DIR "/namespace", "edge-a");
    is_int(cred_in_cluster(&c, disk, "10.43.0.1", "443", &e), 0, "in a pod: %s", e.msg);
    is_str(c.server, "https://10.43.0.1:443", "its server");
    is_str(c.token, "tok", "its token");
    is_str(c.ns, "edge-a", "its namespace");
    is_int(cred_in_cluster(&c, disk, "fd00::1", "6443", &e), 0, "IPv6");
    is_str(c.server, "https://[fd00::1]:6443", "gets brackets");
    cred_fini(&c);
}

static void test_identity(void)
{
    struct cred c = { 0 }, back = { 0 };
    struct err e = ERR_INIT;
    char node[254] = "", line[500];

    make_dir("/state");
    is_int(cred_load_identity(&back, disk, "/state", node, &e), E_NOTFOUND, "not joined");
    ok(cred_set(&c.server, "https://s", NULL) == 0 && cred_set(&c.ca_pem, "CA\n\"x\"\n", NULL) == 0 &&
           cred_set(&c.ns, "edge-a", NULL) == 0 && cred_set(&c.token, "t1", NULL) == 0,
       "an identity");
    is_int(cred_save_identity(&c, disk, "/state", "node.a", &e), 0, "is saved: %s", e.msg);
    is_int(cred_load_identity(&back, disk, "/state", node, &e), 0, "and loaded: %s", e.msg);
    is_str(node, "node.a", "with the node");
    is_str(back.ca_pem, c.ca_pem, "byte for byte");
    is_str(back.token, "t1", "and the token");
    ok(back.cert_pem == NULL && back.proxy == NULL, "what was absent is absent");
    struct fs_stat st = { 0 };
    is_int(disk->ops->stat(disk, "/state/identity.json", 0, &st, NULL), 0, "the file");
    is_int(st.mode, 0600, "is readable for its owner only");

    ok(cred_set(&c.token, "t2", NULL) == 0, "a new token");
    is_int(cred_save_identity(&c, disk, "/state", "node.a", &e), 0, "is saved");
    put("/state/identity.json", "{\"version\":1,\"token\":\"t2");
    is_int(cred_load_identity(&back, disk, "/state", node, &e), 0, "a damaged file: the one before is used");
    is_str(back.token, "t1", "with its token");
    put("/state/identity.json.prev", "");
    is_int(cred_load_identity(&back, disk, "/state", node, &e), E_CORRUPT, "both are damaged");
    ok(strstr(e.msg, "t2") == NULL, "and no piece of the token is shown: %s", e.msg);
    ok(back.token == NULL, "and nothing is loaded");
    put("/state/identity.json", "{\"version\":2}");
    is_int(cred_load_identity(&back, disk, "/state", node, &e), E_UNSUP, "a newer version is left alone");
    put("/state/identity.json", "{\"version\":1,\"node\":\"n\",\"server\":\"https://s\"}");
    is_int(cred_load_identity(&back, disk, "/state", node, &e), E_CORRUPT, "one without a CA");

    snprintf(line, sizeof line, "rm -rf '%s/state'", root);
    shell(line);
    is_int(cred_save_identity(&c, disk, "/state", "node.a", &e), E_NOTFOUND, "nowhere to save to: %s", e.msg);
    cred_fini(&c);
    cred_fini(&back);
}

static void test_ca(void)
{
    char cmd[1000], want[128], hash[72];
    struct err e = ERR_INIT;

    snprintf(cmd, sizeof cmd,
             "cd '%s' && for n in a b; do openssl req -x509 -newkey rsa:2048 -nodes -keyout $n.key -out $n.pem -subj /CN=$n -days 9 "
             "2>/dev/null; done; openssl x509 -in a.pem -pubkey -noout | openssl pkey -pubin -outform der | sha256sum | cut -c 1-64",
             root);
    snprintf(want, sizeof want, "sha256:%.64s", shell(cmd));
    snprintf(cmd, sizeof cmd, "cat '%s/a.pem'", root);
    AUTO_FREE char *a = strdup(shell(cmd));
    snprintf(cmd, sizeof cmd, "cat '%s/b.pem'", root);
    AUTO_FREE char *b = strdup(shell(cmd));
    AUTO_FREE char *ab = NULL, *ba = NULL, *aa = NULL;
    ok(asprintf(&ab, "%s%s", a, b) > 0 && asprintf(&ba, "# bundle\n%s\n%s", b, a) > 0 && asprintf(&aa, "%s%s", a, a) > 0, "bundles");
    is_int(cred_ca_hash(a, hash, &e), 0, "a CA has a hash: %s", e.msg);
    is_str(hash, want, "the same that openssl computes");
    is_int(cred_ca_hash(ab, hash, &e), 0, "a bundle");
    is_str(hash, want, "has that of its first");
    is_int(cred_ca_hash("", hash, &e), E_INVAL, "nothing has none");
    is_int(cred_ca_hash("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", hash, &e), E_INVAL, "nor has garbage");
    ok(cred_same_ca(ab, ba), "order does not matter");
    ok(cred_same_ca(a, aa), "nor repetition");
    ok(!cred_same_ca(a, b) && !cred_same_ca(a, ab) && !cred_same_ca(ab, a), "different keys do");
    ok(!cred_same_ca(a, "x") && !cred_same_ca(NULL, a), "unreadable is never the same");
}

int main(void)
{
    struct err e = ERR_INIT;

    snprintf(root, sizeof root, "%s/cred-test-XXXXXX", getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    if (mkdtemp(root) == NULL || disk_real_new(&disk, NULL, root, &e) < 0) {
        fail("a disk: %s", e.msg);
        return done_testing();
    }
    log_setup(LOG_ERROR, LOG_TEXT, NULL);
    test_reload();
    test_in_cluster();
    test_identity();
    test_ca();
    disk_free(disk);
    char cmd[400];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", root);
    shell(cmd);
    return done_testing();
}
