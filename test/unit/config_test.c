// SPDX-License-Identifier: Apache-2.0
#include "config/config.c"
#include "config/config_keys.c"

#include <sys/stat.h>

#include "tap.h"

static struct disk *disk;
static char dir[] = "/tmp/limpet-config.XXXXXX";
static char path[PATH_MAX];
static struct config c;
static char problems[65536];

static void put(const char *name, const char *text)
{
    char p[PATH_MAX + 64];
    struct err e = ERR_INIT;
    snprintf(p, sizeof(p), "%s/%s", dir, name);
    if (fs_write(disk, p, text, strlen(text), 0600, FS_NOSYNC, &e) < 0)
        abort();
}

static int load_with(const char *const *overrides, char *const *env)
{
    struct buf b AUTO_BUF = BUF_INIT(sizeof(problems) - 1);
    struct err e = ERR_INIT;
    config_fini(&c);
    int rc = config_load(&c, disk, path, true, overrides, env, &b, &e);
    snprintf(problems, sizeof(problems), "%s", buf_str(&b));
    return rc;
}

static int load(const char *text)
{
    put("limpet.ini", text);
    return load_with(NULL, NULL);
}

static bool says(const char *what)
{
    return strstr(problems, what) != NULL;
}

static void defaults(void)
{
    is_int(load(""), 0, "an empty file is fine");
    is_int(c.sync_interval_ms, 10000, "interval");
    is_int(c.sync_mode, SYNC_AUTO, "mode");
    is_int(c.lease_duration_ms, 40000, "lease");
    is_int(c.store_max_bytes, 64 << 20, "store");
    is_str(c.state_dir, "/var/lib/limpet", "state");
    is_str(c.guard_paths[0], "/etc", "first guarded path");
    ok(c.node_name == NULL, "a node name is not invented");
    is_int(c.log_level, LOG_INFO, "log level");
}

static void values(void)
{
    is_int(load("[sync]\nmode = poll\ninterval=1m30s\n[guard]\npaths = /a /b,/c\n[lease]\nenabled = no\n[log]\nlevel=debug ; comment\n"), 0,
           "good values: %s", problems);
    is_int(c.sync_mode, SYNC_POLL, "mode");
    is_int(c.sync_interval_ms, 90000, "duration");
    is_str(c.guard_paths[1], "/b", "paths");
    is_str(c.guard_paths[2], "/c", "separated by commas too");
    ok(c.guard_paths[3] == NULL && !c.lease_enabled, "and no more");
    is_int(c.log_level, LOG_DEBUG, "comments end a value");
}

// Field 20: a typo is not accepted and ignored.
static void all_at_once(void)
{
    int rc = load("[sync]\nintervall = 5s\nmode = wacth\n\n[synch]\ninterval = 5s\n[outbox]\nmaxEvents = many\nrate = "
                  "0\njunk\n[guard]\npaths = etc\n");
    is_int(rc, E_INVAL, "field 20: mistakes are an error");
    ok(says("limpet.ini:2: [sync] intervall: unknown key; did you mean \"interval\"?"), "field 20: file, line and the nearest key");
    ok(says("limpet.ini:3: [sync] mode: \"wacth\""), "field 20: a bad word, with its line");
    ok(says("limpet.ini:6: [synch] interval: unknown section; did you mean \"sync\"?"), "field 20: the nearest section");
    ok(says("limpet.ini:8: [outbox] maxEvents"), "field 20: a bad number");
    ok(says("limpet.ini:9: [outbox] rate: \"0\" is out of range (1 to 10000"), "field 20: a number out of range, with the range");
    ok(says("limpet.ini:10: "), "field 20: a line that is nothing");
    ok(says("limpet.ini:12: [guard] paths"), "field 20: a path that is not absolute");
}

static void between_keys(void)
{
    is_int(load("[lease]\nduration = 10s\nrenew = 8s\n"), E_INVAL, "a lease that one lost renewal ends");
    ok(says("at most half"), "is explained");
    is_int(load("[server]\nclientCertificate = /x\n"), E_INVAL, "a certificate without a key");
    is_int(load("[port]\nname = docker\n"), E_INVAL, "a platform that is not there");
    ok(says("exec, systemd, null"), "the platforms are named");
    char deep[400] = "[paths]\nstate = /";
    memset(deep + strlen(deep), 'd', 300);
    is_int(load(deep), E_INVAL, "a directory whose paths would not fit");
    ok(says("255 bytes"), "the bound is named");
}

static void order(void)
{
    char p[PATH_MAX];
    snprintf(p, sizeof(p), "%s/conf.d", dir);
    mkdir(p, 0700);
    put("limpet.ini", "[sync]\ninterval = 1s\npageSize = 11\n");
    put("conf.d/10-a.ini", "[sync]\ninterval = 2s\n");
    put("conf.d/20-b.ini", "[sync]\ninterval = 3s\n");
    put("conf.d/30-no.txt", "[nonsense]\n");
    put("conf.d/.hidden.ini", "[nonsense]\n");
    is_int(load_with(NULL, NULL), 0, "conf.d is read");
    is_int(c.sync_interval_ms, 3000, "in order of names");
    is_int(c.sync_page, 11, "over limpet.ini, key by key");
    char *env[] = { "LIMPET_SYNC_INTERVAL=4s", "LIMPETER=1", "LIMPET_INSTANCE=web-0", "PATH=/bin", NULL };
    is_int(load_with(NULL, env), 0, "the environment");
    is_int(c.sync_interval_ms, 4000, "wins over files");
    const char *flags[] = { "sync.interval=5s", NULL };
    is_int(load_with(flags, env), 0, "flags");
    is_int(c.sync_interval_ms, 5000, "win over all");
    char *bad[] = { "LIMPET_SYNC_INTERVALL=4s", "LIMPET_SYNC_PAGESIZE=x", NULL };
    const char *badflags[] = { "sync.nothing=1", "nonsense", NULL };
    is_int(load_with(badflags, bad), E_INVAL, "mistakes there are errors too");
    ok(says("LIMPET_SYNC_INTERVALL: no such setting") && says("LIMPET_SYNC_PAGESIZE") && says("command line: [sync] nothing") &&
           says("nonsense: not section.key=value"),
       "each named with its place");
    put("conf.d/20-b.ini", "[sync]\nintervall = 3s\n");
    load_with(NULL, NULL);
    ok(says("conf.d/20-b.ini:2: "), "a mistake in conf.d names that file");
    put("conf.d/20-b.ini", "");
    put("conf.d/10-a.ini", "");
}

static void hostile(void)
{
    static char big[300000];
    memset(big, 'a', sizeof(big) - 1);
    is_int(load(big), E_INVAL, "a file of one endless line is refused");
    is_int(load("[sync]\ninterval = 99999999999999999999s\n"), E_INVAL, "a number beyond all bounds");
    is_int(load("[sync\ninterval = 1s\n"), E_INVAL, "a section that does not end");
    is_int(load("interval = 1s\n"), E_INVAL, "a key without a section");
    is_int(load("[\xff\xfe]\n\x01 = \x02\n"), E_INVAL, "bytes that are no text");
    is_int(load("[node]\nname = %s%n%s%n\n"), 0, "printf patterns are text");
    is_str(c.node_name, "%s%n%s%n", "and stay so");
    char p[PATH_MAX + 64], nul[] = "[sync]\ninterval = 1s\n\0[x]\n";
    struct err e = ERR_INIT;
    snprintf(p, sizeof(p), "%s/limpet.ini", dir);
    if (fs_write(disk, p, nul, sizeof(nul), 0600, FS_NOSYNC, &e) < 0)
        abort();
    is_int(load_with(NULL, NULL), E_INVAL, "a NUL byte");
    struct buf b AUTO_BUF = BUF_INIT(4096);
    config_fini(&c);
    is_int(config_load(&c, disk, "/nonexistent/limpet.ini", true, NULL, NULL, &b, &e), E_INVAL, "a file that was named must be there");
    config_fini(&c);
    is_int(config_load(&c, disk, "/nonexistent/limpet.ini", false, NULL, NULL, &b, &e), 0, "the default one need not");
}

static void printing(void)
{
    struct buf b AUTO_BUF = BUF_INIT(65536);
    struct err e = ERR_INIT;
    load("[server]\nproxy = http://user:secret@proxy:3128\n[sync]\ninterval = 1500ms\n");
    is_int(config_print(&c, &b, &e), 0, "printed");
    ok(strstr(buf_str(&b), "secret") == NULL, "a password in a proxy URL is not");
    ok(strstr(buf_str(&b), "interval = 1500ms\n") != NULL, "values as they are in force");
    put("limpet.ini", buf_str(&b));
    for (size_t i = 0; i < n_config_keys; i++)
        if (strstr(buf_str(&b), config_keys[i].name) == NULL)
            ok(false, "%s is missing", config_keys[i].name);
    is_int(load(strstr(buf_str(&b), "[sync]")), 0, "what is printed can be read: %s", problems);
}

int main(void)
{
    struct err e = ERR_INIT;
    if (mkdtemp(dir) == NULL || disk_real_new(&disk, NULL, "", &e) < 0)
        abort();
    snprintf(path, sizeof(path), "%s/limpet.ini", dir);
    defaults();
    values();
    all_at_once();
    between_keys();
    order();
    hostile();
    printing();
    config_fini(&c);
    if (disk->ops->rmtree(disk, dir, &e) < 0)
        ok(false, "clean-up: %s", e.msg);
    disk_free(disk);
    return done_testing();
}
