// SPDX-License-Identifier: Apache-2.0
// Credentials on a disk: files that rotate, the identity of a joined node, CA fingerprints.
#include "wire/cred.c"
#include "wire/identity.c"

#include <sys/stat.h>
#include <unistd.h>

#include "fake_clock.h"
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

// --- a power cut while an identity is saved: the disk does `cut` writes more, and the next one as far as `last` says

enum last { NOT_BEGUN, HALF_A_TEMPORARY, RENAMED }; // how far a write came
static struct {
    struct disk disk;
    struct disk_ops ops;
    int left;
    enum last last;
} cut;

static int cut_write(struct disk *d, const char *path, const void *p, size_t n, uint32_t mode, uint32_t uid, uint32_t gid, unsigned flags,
                     struct err *e)
{
    char temporary[300];
    (void)d;
    if (cut.left-- > 0)
        return disk->ops->write(disk, path, p, n, mode, uid, gid, flags, e);
    snprintf(temporary, sizeof temporary, "%s.torn", path);
    if (cut.last == HALF_A_TEMPORARY && disk->ops->write(disk, temporary, p, n / 2, mode, uid, gid, flags, NULL) < 0)
        diag("no temporary");
    if (cut.last == RENAMED && disk->ops->write(disk, path, p, n, mode, uid, gid, flags, NULL) < 0)
        diag("not written");
    return err_set(e, E_IO, "the power is gone");
}

static int cut_read(struct disk *d, const char *path, size_t max, unsigned flags, struct buf *out, struct err *e)
{
    (void)d;
    return disk->ops->read(disk, path, max, flags, out, e);
}

static void cut_after(int writes, enum last last)
{
    cut.ops = *disk->ops;
    cut.ops.write = cut_write;
    cut.ops.read = cut_read;
    cut.disk = (struct disk){ .ops = &cut.ops, .root = disk->root };
    cut.left = writes;
    cut.last = last;
}

static void save_with(struct disk *d, struct cred *c, const char *token, bool cuts)
{
    if (cred_set(&c->token, token, NULL) < 0)
        abort();
    int rc = cred_save_identity(c, d, "/state", "node.a", NULL);
    if ((rc < 0) != cuts)
        fail("saving %s: %d", token, rc);
}

static void is_private(const char *path)
{
    struct fs_stat st = { 0 };
    if (disk->ops->stat(disk, path, 0, &st, NULL) == 0)
        is_int(st.mode, 0600, "%s is readable for its owner only", path);
}

static void test_power_cut(void)
{
    struct cred c = { 0 };
    bool damaged[] = { false, true };

    if (cred_set(&c.server, "https://s", NULL) < 0 || cred_set(&c.ca_pem, "CA", NULL) < 0 || cred_set(&c.ns, "edge-a", NULL) < 0)
        abort();
    for (size_t d = 0; d < ARRAY_LEN(damaged); d++)
        for (int writes = 0; writes < (damaged[d] ? 1 : 2); writes++)
            for (enum last last = NOT_BEGUN; last <= RENAMED; last++) {
                struct cred back = { 0 };
                struct err e = ERR_INIT;
                char node[254] = "";
                make_dir("/state");
                save_with(disk, &c, "first", false);
                save_with(disk, &c, "second", false);
                if (damaged[d])
                    put("/state/identity.json", "{\"version\":1,\"tok");
                cut_after(writes, last);
                save_with(&cut.disk, &c, "third", true);
                is_int(cred_load_identity(&back, disk, "/state", node, &e), 0, "field 11: cut in write %d (%d)%s: there is an identity",
                       writes, (int)last, damaged[d] ? ", the file was damaged" : "");
                const char *want =
                    damaged[d] ? (last == RENAMED ? "third" : "first") : (writes == 1 && last == RENAMED ? "third" : "second");
                is_str(back.token, want, "field 11: a whole one");
                is_private("/state/identity.json");
                is_private("/state/identity.json.prev");
                cred_fini(&back);
                save_with(disk, &c, "fourth", false);
                is_int(cred_load_identity(&back, disk, "/state", node, &e), 0, "and the next one");
                is_str(back.token, "fourth", "is taken");
                cred_fini(&back);
            }
    cred_fini(&c);
}

static void test_lifetime(void)
{
    struct cred c = { 0 }, other = { 0 };
    struct fake_clock clock;
    struct cred back = { 0 };
    char node[254] = "";
    int64_t began, expires;

    fake_clock_init(&clock, 7);
    ok(!cred_lifetime(&c, &began, &expires), "nothing has no lifetime");
    // {"sub":"system:serviceaccount:ns:sa","exp":1700000000,"iat":1600000000}
    ok(cred_set(&c.token, "e30.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6bnM6c2EiLCJleHAiOjE3MDAwMDAwMDAsImlhdCI6MTYwMDAwMDAwMH0.x", NULL) ==
               0 &&
           cred_lifetime(&c, &began, &expires),
       "a token has");
    ok(began == 1600000000 && expires == 1700000000, "that of its claims");
    is_int(cred_received(&c, &clock.clock, 1600000005, NULL), 0, "when it came");
    ok(cred_set(&c.server, "https://s", NULL) == 0 && cred_set(&c.ca_pem, "CA", NULL) == 0 && cred_set(&c.ns, "n", NULL) == 0 &&
           cred_set(&c.cluster, "uid-1", NULL) == 0,
       "and of which cluster it is");
    make_dir("/state");
    is_int(cred_save_identity(&c, disk, "/state", "a", NULL), 0, "is kept");
    is_int(cred_load_identity(&back, disk, "/state", node, NULL), 0, "and read");
    is_str(back.received_boot, c.received_boot, "its boot");
    ok(back.received_ms == c.received_ms && back.received_s == 1600000005, "and its times");
    is_str(back.cluster, "uid-1", "its cluster");
    ok(cred_same_proof(&c, &back) && cred_same_place(&c, &back), "the two are the same");
    ok(cred_set(&other.token, "t", NULL) == 0 && cred_take_proof(&back, &other, NULL) == 0, "another proof");
    ok(!cred_same_proof(&c, &back) && cred_same_place(&c, &back) && back.received_boot == NULL, "for the same place");
    cred_fini(&c);
    cred_fini(&other);
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
    test_power_cut();
    test_lifetime();
    test_ca();
    disk_free(disk);
    char cmd[400];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", root);
    shell(cmd);
    return done_testing();
}
