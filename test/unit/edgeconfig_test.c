// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgeconfig.c"

#include "kind_rig.h"

#define CFG "edgeconfigs", "conf"
#define FILE_A(content) "{\"path\":\"/etc/a\",\"content\":\"" content "\"}"
#define ONE(content) "{\"files\":[" FILE_A(content) "]}"
#define ON_CHANGE ",\"onChange\":{\"command\":[\"reload\"]}"
#define VALIDATE ",\"validate\":{\"command\":[\"judge\",\"$(STAGED_FILE)\",\"$(STAGED_DIR)\"]}"

enum { SETTLE_MS = 200 };

// --- Hands on the seams: counted commands, a disk that fails

static int commands;           // started
static char command_text[512]; // the last one, words joined by blanks
static char fail_path[64];     // writes to it fail ...
static int fail_errno;
static int writes; // to fail_path when fail_errno is 0
static struct port_ops port_hands;
static struct disk_ops disk_hands;
static const struct port_ops *port_real;
static const struct disk_ops *disk_real;

static int counting_run(struct port *p, struct port_run *run, struct err *e)
{
    commands++;
    command_text[0] = '\0';
    for (size_t i = 0; run->exec.argv[i] != NULL; i++) {
        size_t n = strlen(command_text);
        snprintf(command_text + n, sizeof(command_text) - n, "%s%s", n > 0 ? " " : "", run->exec.argv[i]);
    }
    return port_real->run(p, run, e);
}

static int failing_write(struct disk *d, const char *path, const void *p, size_t n, uint32_t mode, uint32_t uid, uint32_t gid,
                         unsigned flags, struct err *e)
{
    char staged[CFG_PATH_MAX + 64];
    cfg_staged_name(fail_path[0] != '\0' ? fail_path : "/", staged);
    bool meant = strcmp(path, fail_path) == 0 || strcmp(path, staged) == 0;
    if (meant && fail_errno != 0)
        return err_sys(e, fail_errno, "%s", path);
    writes += meant;
    return disk_real->write(d, path, p, n, mode, uid, gid, flags, e);
}

static void lay_hands_on(struct rig *r)
{
    port_real = r->port->ops;
    port_hands = *port_real;
    port_hands.run = counting_run;
    r->port->ops = &port_hands;
    disk_real = r->disk->ops;
    disk_hands = *disk_real;
    disk_hands.write = failing_write;
    r->disk->ops = &disk_hands;
    commands = writes = fail_errno = 0;
    fail_path[0] = '\0';
}

static void start(struct rig *r)
{
    rig_start(r);
    lay_hands_on(r);
}

static void crash(struct rig *r)
{
    rig_crash(r);
    int n = commands;
    lay_hands_on(r);
    commands = n;
}

static void end(struct rig *r)
{
    rig_end(r);
}

static bool exists(struct rig *r, const char *path)
{
    struct stat st;
    return lstat(rig_path(r, path), &st) == 0;
}

static bool is_empty_dir(struct rig *r, const char *path)
{
    return !exists(r, path) || rmdir(rig_path(r, path)) == 0;
}

// --- Writing

static void test_write(void)
{
    struct rig r;
    start(&r);
    rig_apply(
        &r, CFG,
        "{\"files\":[" FILE_A("one\\n") ",{\"path\":\"/etc/deep/er/b\",\"content\":\"AAE=\",\"encoding\":\"base64\",\"mode\":\"0600\"}]}");
    rig_run(&r, SETTLE_MS);
    is_str(rig_read(&r, "/etc/a"), "one\n", "write: content");
    is_int(rig_mode(&r, "/etc/a"), 0644, "the default mode");
    is_int(rig_mode(&r, "/etc/deep/er/b"), 0600, "a mode, and directories are made");
    is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "ready");
    is_str(rig_condition(&r, CFG, "Accepted"), "True Valid", "accepted");
    is_str(rig_condition(&r, CFG, "Progressing"), "False Complete", "nothing under way");
    is_str(rig_condition(&r, CFG, "DriftFight"), "False Peace", "peace");
    is_str(rig_field(&r, CFG, "files"), "2", "files");
    is_str(rig_field(&r, CFG, "driftRepairs"), "0", "no repairs");
    is_str(rig_field(&r, CFG, "differences"), "[]", "no differences");
    has_str(rig_field(&r, CFG, "lastAppliedTime"), "2026-01-01T", "when");
    has_str(rig_field(&r, CFG, "revision"), "\"1-", "revision");
    uint64_t n = rig_status_writes(&r);
    snprintf(fail_path, sizeof(fail_path), "/etc/a");
    rig_run(&r, 3600000);
    is_int((intmax_t)(rig_status_writes(&r) - n), 0, "an hour in which nothing happens writes nothing");
    is_int(writes, 0, "no file either");
    ok(rig_passes(&r) < 40, "and looks now and then only (%d passes)", (int)rig_passes(&r));
    rig_apply(&r, CFG, ONE("two"));
    rig_run(&r, SETTLE_MS);
    is_str(rig_read(&r, "/etc/a"), "two", "a new content");
    ok(!exists(&r, "/etc/deep/er/b"), "a file that left the list is removed: nothing lay there before");
    is_str(rig_field(&r, CFG, "driftRepairs"), "0", "a change of the spec is no drift");
    end(&r);
}

static void test_drift(void)
{
    struct rig r;
    start(&r);
    rig_apply(&r, CFG, "{\"files\":[{\"path\":\"/etc/d/a\",\"content\":\"mine\"}]}");
    rig_run(&r, SETTLE_MS);
    rig_write(&r, "/etc/d/a", "theirs", 0644);
    rig_run(&r, 1000);
    is_str(rig_read(&r, "/etc/d/a"), "mine", "drift: a changed content is put right within a second");
    is_int(rig_events(&r, "DriftRepaired"), 1, "an event says so");
    is_str(rig_field(&r, CFG, "driftRepairs"), "1", "counted");
    is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "ready");
    rig_run(&r, 120000);
    (void)unlink(rig_path(&r, "/etc/d/a"));
    rig_run(&r, 1000);
    is_str(rig_read(&r, "/etc/d/a"), "mine", "a removed file");
    rig_run(&r, 120000);
    (void)chmod(rig_path(&r, "/etc/d/a"), 0777);
    rig_run(&r, 1000);
    is_int(rig_mode(&r, "/etc/d/a"), 0644, "a changed mode");
    rig_run(&r, 120000);
    (void)unlink(rig_path(&r, "/etc/d/a"));
    (void)rmdir(rig_path(&r, "/etc/d"));
    rig_run(&r, 1000);
    is_str(rig_read(&r, "/etc/d/a"), "mine", "the whole directory removed");
    rig_run(&r, 120000);
    rig_write(&r, "/etc/d/a", "theirs", 0644);
    rig_run(&r, 1000);
    is_str(rig_read(&r, "/etc/d/a"), "mine", "the directory made anew is looked at, too");
    rig_run(&r, 120000);
    (void)rename(rig_path(&r, "/etc/d"), rig_path(&r, "/etc/moved"));
    rig_run(&r, 1000);
    is_str(rig_read(&r, "/etc/d/a"), "mine", "the directory moved away");
    is_str(rig_field(&r, CFG, "driftRepairs"), "6", "each counted");
    crash(&r);
    rig_run(&r, SETTLE_MS);
    rig_write(&r, "/etc/d/a", "theirs", 0644);
    rig_run(&r, 1000);
    is_str(rig_field(&r, CFG, "driftRepairs"), "7", "the count survives the agent");
    end(&r);
}

static void test_drift_while_away(void)
{
    struct rig r;
    start(&r);
    rig_apply(&r, CFG, ONE("mine"));
    rig_run(&r, SETTLE_MS);
    rig_close(&r, true);
    rig_write(&r, "/etc/a", "theirs", 0644);
    rig_open(&r);
    rig_run(&r, SETTLE_MS);
    is_str(rig_read(&r, "/etc/a"), "mine", "what was changed while no agent was there is put right at boot");
    is_str(rig_field(&r, CFG, "driftRepairs"), "1", "and counted as drift");
    end(&r);
}

// Field 25: another program rewrites the file each second.
static void test_field_25(void)
{
    struct rig r;
    start(&r);
    rig_apply(&r, CFG, ONE("mine"));
    rig_run(&r, SETTLE_MS);
    snprintf(fail_path, sizeof(fail_path), "/etc/a");
    uint64_t passes = rig_passes(&r);
    for (int second = 0; second < 1200; second++) {
        rig_write(&r, "/etc/a", second % 2 ? "theirs" : "others", 0644);
        rig_run(&r, 1000);
    }
    // Six at once, then after 10, 20, 40, 80, 160, 300, 300 s.
    ok(writes >= 10 && writes <= 14, "field 25: 20 minutes of fight bring %d repairs", writes);
    ok(rig_passes(&r) - passes < 100, "field 25: no busy loop: %d passes for 1200 changes", (int)(rig_passes(&r) - passes));
    is_str(rig_condition(&r, CFG, "DriftFight"), "True AnotherWriter", "field 25: a condition says so");
    has_str(rig_message(&r, CFG, "DriftFight"), "/etc/a", "and names the path");
    is_str(rig_condition(&r, CFG, "Ready"), "False DriftFight", "the file is not as it should be");
    has_str(rig_field(&r, CFG, "differences.0"), "\"path\":\"/etc/a\",\"field\":\"content\"", "what differs");
    is_int(rig_events(&r, "DriftFight"), 1, "one event");
    rig_apply(&r, CFG, ONE("new"));
    rig_run(&r, SETTLE_MS);
    is_str(rig_read(&r, "/etc/a"), "new", "a change of the spec does not wait for the fight");
    rig_run(&r, 1200000);
    is_str(rig_read(&r, "/etc/a"), "new", "the other writer gave up");
    is_str(rig_condition(&r, CFG, "DriftFight"), "False Peace", "peace");
    is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "ready");
    is_int(rig_events(&r, "DriftFightOver"), 1, "told");
    rig_write(&r, "/etc/a", "theirs", 0644);
    rig_run(&r, 1000);
    is_str(rig_read(&r, "/etc/a"), "new", "repairs come at once again");
    end(&r);
}

// Field 26: nothing is written through a symlink, wherever it stands.
static void test_field_26(void)
{
    struct rig r;
    start(&r);
    (void)mkdir(rig_path(&r, "/outside"), 0755);
    (void)symlink("/outside", rig_path(&r, "/etc/link"));
    rig_apply(&r, CFG, "{\"files\":[{\"path\":\"/etc/link/f\",\"content\":\"x\"}]}");
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, CFG, "Accepted"), "False PathRefused", "field 26: a parent is a symlink");
    has_str(rig_message(&r, CFG, "Accepted"), "/etc/link/f", "the path is named");
    is_str(rig_condition(&r, CFG, "Ready"), "False PathRefused", "not ready");
    ok(!exists(&r, "/outside/f"), "field 26: nothing was written behind it");
    rig_write(&r, "/outside/target", "safe", 0600);
    (void)symlink("../outside/target", rig_path(&r, "/etc/a"));
    rig_apply(&r, CFG, ONE("x"));
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, CFG, "Accepted"), "False PathRefused", "field 26: the file itself is a symlink");
    is_str(rig_read(&r, "/outside/target"), "safe", "what it leads to is untouched");
    (void)unlink(rig_path(&r, "/etc/a"));
    rig_run(&r, 400000);
    is_str(rig_read(&r, "/etc/a"), "x", "once the link is gone, the file is written");
    is_str(rig_condition(&r, CFG, "Accepted"), "True Valid", "and the spec accepted");
    rig_apply(&r, CFG, "{\"files\":[{\"path\":\"/etc/x/../../outside/f\",\"content\":\"x\"}]}");
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, CFG, "Accepted"), "False Invalid", "field 26: a path with ..");
    is_str(rig_read(&r, "/etc/a"), "x", "an invalid spec changes nothing");
    end(&r);
}

static void test_swapped_for_a_link(void)
{
    struct rig r;
    start(&r);
    rig_apply(&r, CFG, "{\"files\":[{\"path\":\"/etc/d/a\",\"content\":\"mine\"}]}");
    rig_run(&r, SETTLE_MS);
    (void)mkdir(rig_path(&r, "/outside"), 0755);
    rig_write(&r, "/outside/a", "safe", 0644);
    (void)rename(rig_path(&r, "/etc/d"), rig_path(&r, "/etc/moved"));
    (void)symlink("/outside", rig_path(&r, "/etc/d"));
    rig_run(&r, 1000);
    is_str(rig_condition(&r, CFG, "Accepted"), "False PathRefused", "field 26: a directory swapped for a symlink later");
    is_str(rig_read(&r, "/outside/a"), "safe", "what lies behind it is untouched");
    rig_delete(&r, CFG);
    rig_run(&r, 1000);
    is_str(rig_read(&r, "/outside/a"), "safe", "also by giving the file back");
    is_int(rig_events(&r, "KeptForeign"), 1, "which says so");
    end(&r);
}

static void test_not_a_file(void)
{
    struct rig r;
    start(&r);
    (void)mkdir(rig_path(&r, "/etc/a"), 0755);
    rig_apply(&r, CFG, ONE("x"));
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, CFG, "Ready"), "False NotAFile", "a directory lies there");
    rig_apply(&r, CFG, "{\"files\":[{\"path\":\"/etc/b\",\"content\":\"x\",\"owner\":\"no-such-user\"}]}");
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, CFG, "Ready"), "False OwnerUnknown", "an owner that this machine does not know");
    has_str(rig_message(&r, CFG, "Ready"), "no-such-user", "which one");
    rig_write(&r, "/etc/passwd", "no-such-user:x:0:0::/:/bin/sh\n", 0644);
    rig_run(&r, 61000);
    is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "once there is such a user it goes on by itself");
    end(&r);
}

static void test_disk_full(void)
{
    struct rig r;
    start(&r);
    rig_write(&r, "/etc/b", "old b", 0644);
    rig_apply(&r, CFG, "{\"files\":[" FILE_A("one") ",{\"path\":\"/etc/b\",\"content\":\"one\"}]}");
    snprintf(fail_path, sizeof(fail_path), "/etc/b");
    fail_errno = ENOSPC;
    rig_run(&r, SETTLE_MS);
    is_str(rig_read(&r, "/etc/a"), "(absent)", "full in the middle: the first file is not written either");
    is_str(rig_read(&r, "/etc/b"), "old b", "the second is as it was");
    is_str(rig_condition(&r, CFG, "Ready"), "False ApplyFailed", "a condition");
    has_str(rig_message(&r, CFG, "Ready"), "No space left", "says why");
    is_str(rig_field(&r, CFG, "files"), "0", "no file is as it should be");
    uint64_t passes = rig_passes(&r);
    rig_run(&r, 600000);
    ok(rig_passes(&r) - passes < 60, "tried again with backoff: %d passes in 10 min", (int)(rig_passes(&r) - passes));
    fail_errno = 0;
    rig_run(&r, 310000);
    is_str(rig_read(&r, "/etc/b"), "one", "when there is room again it goes on by itself");
    is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "ready");
    end(&r);
}

// --- Commands

static void behave(struct rig *r, int code, int64_t delay_ms)
{
    struct fake_behaviour b = { .run_ms = -1, .run_code = code, .run_delay_ms = delay_ms };
    port_fake_behave(r->port, NULL, &b);
}

static void test_on_change_after_salvage(void)
{
    struct rig r;
    start(&r);
    behave(&r, 0, 100);
    rig_apply(&r, CFG, "{\"files\":[" FILE_A("one") "]" ON_CHANGE "}");
    rig_run(&r, 1000);
    is_int(commands, 1, "an onChange was run");
    ((struct db_salvage *)(uintptr_t)db_salvaged(r.env.db))->times++;
    rig_run(&r, 600000);
    is_int(commands, 2, "and once more after the store was salvaged: the note that it is owed may be what was lost");
    rig_run(&r, 3600000);
    is_int(commands, 2, "not more often");
    end(&r);
}

static void test_on_change(void)
{
    struct rig r;
    start(&r);
    behave(&r, 0, 100);
    rig_apply(&r, CFG, "{\"files\":[" FILE_A("one") "]" ON_CHANGE "}");
    rig_run(&r, 1000);
    is_int(commands, 1, "onChange: runs once");
    is_str(command_text, "reload", "this command");
    is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "ready after it");
    rig_run(&r, 3600000);
    is_int(commands, 1, "not again without a change");
    rig_apply(&r, CFG, "{\"files\":[" FILE_A("one") "],\"onChange\":{\"command\":[\"other\"]}}");
    rig_run(&r, 1000);
    is_int(commands, 1, "nor for a new command alone");
    rig_write(&r, "/etc/a", "theirs", 0644);
    rig_run(&r, 1000);
    is_int(commands, 2, "after a repair");
    is_str(command_text, "other", "the new command");
    behave(&r, 7, 100);
    rig_apply(&r, CFG, "{\"files\":[" FILE_A("two") "]" ON_CHANGE "}");
    rig_run(&r, 500);
    is_str(rig_read(&r, "/etc/a"), "two", "onChange that fails: the file is there");
    is_str(rig_condition(&r, CFG, "Ready"), "False OnChangeFailed", "not ready");
    has_str(rig_message(&r, CFG, "Ready"), "exit code 7", "how it failed");
    int n = commands;
    rig_run(&r, 600000);
    ok(commands - n >= 8 && commands - n <= 12, "owed: tried again with backoff (%d times in 10 min)", commands - n);
    is_int(rig_events(&r, "OnChangeFailed"), 1, "told once");
    behave(&r, 0, 100);
    rig_run(&r, 310000);
    is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "until it succeeds");
    n = commands;
    rig_run(&r, 3600000);
    is_int(commands, n, "then no more");
    end(&r);
}

static void test_on_change_is_owed(void)
{
    struct rig r;
    start(&r);
    behave(&r, 0, 100);
    rig_apply(&r, CFG, "{\"files\":[" FILE_A("one") "]" ON_CHANGE "}");
    rig_run(&r, 1000);
    behave(&r, 0, 20000);
    rig_apply(&r, CFG, "{\"files\":[" FILE_A("two") "]" ON_CHANGE "}");
    rig_run(&r, 1000);
    is_int(commands, 2, "owed: under way");
    is_str(rig_read(&r, "/etc/a"), "two", "the file matches already");
    crash(&r);
    behave(&r, 0, 100);
    rig_run(&r, 1000);
    is_int(commands, 3, "after a crash no difference would tell: it is run because it is owed");
    rig_run(&r, 600000);
    is_int(commands, 3, "once");
    is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "ready");
    behave(&r, 1, 100);
    rig_apply(&r, CFG, "{\"files\":[" FILE_A("three") "]" ON_CHANGE "}");
    rig_run(&r, 1000);
    rig_apply(&r, CFG, ONE("three"));
    rig_run(&r, 1000);
    is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "an onChange taken out of the spec is owed no more");
    end(&r);
}

static void test_on_change_times_out(void)
{
    struct rig r;
    start(&r);
    behave(&r, 0, 60000);
    rig_apply(&r, CFG, "{\"files\":[" FILE_A("one") "],\"onChange\":{\"command\":[\"hang\"],\"timeoutSeconds\":3}}");
    rig_run(&r, 1000);
    is_str(rig_condition(&r, CFG, "Ready"), "False Applying", "while a command runs it is being applied");
    has_str(rig_message(&r, CFG, "Ready"), "then onChange runs", "which is said before");
    rig_run(&r, 2500);
    is_str(rig_condition(&r, CFG, "Ready"), "False OnChangeFailed", "a command that hangs has failed");
    has_str(rig_message(&r, CFG, "Ready"), "no end within 3 s", "and why");
    end(&r);
}

static void test_validate(void)
{
    struct rig r;
    start(&r);
    rig_write(&r, "/etc/a", "old", 0640);
    behave(&r, 1, 50);
    rig_apply(&r, CFG, "{\"files\":[" FILE_A("bad") "]" VALIDATE "}");
    rig_run(&r, 1000);
    is_str(rig_read(&r, "/etc/a"), "old", "validate refuses: the machine is unchanged");
    is_int(rig_mode(&r, "/etc/a"), 0640, "its mode, too");
    is_str(rig_condition(&r, CFG, "Ready"), "False ValidationFailed", "a condition");
    has_str(rig_message(&r, CFG, "Ready"), "exit code 1", "with the verdict");
    is_int(commands, 1, "judged once");
    has_str(command_text, "judge /run/limpet/stage/", "with the staged file's path");
    has_str(command_text, "/etc/a ", "below its own full path");
    ok(is_empty_dir(&r, "/run/limpet/stage"), "nothing staged is left");
    rig_run(&r, 200000);
    is_int(commands, 1, "not judged again without a reason");
    rig_run(&r, 400000);
    ok(commands >= 2 && commands <= 4, "but at the long requeue: what it needs may be there now");
    is_int(rig_events(&r, "ValidationFailed"), 1, "the same verdict again is no news");
    int n = commands;
    behave(&r, 0, 50);
    rig_apply(&r, CFG, "{\"files\":[" FILE_A("good") "]" VALIDATE ON_CHANGE "}");
    rig_run(&r, 1000);
    is_str(rig_read(&r, "/etc/a"), "good", "validate agrees: written");
    is_int(commands - n, 2, "one validate, one onChange");
    is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "ready");
    rig_write(&r, "/etc/a", "theirs", 0644);
    n = commands;
    rig_run(&r, 1000);
    is_str(rig_read(&r, "/etc/a"), "good", "a repair");
    is_int(commands - n, 1, "needs no validation, only the onChange");
    end(&r);
}

static void test_deleted_while_waiting(void)
{
    struct rig r;
    start(&r);
    behave(&r, 0, 20000);
    rig_apply(&r, CFG, "{\"files\":[" FILE_A("x") "]" VALIDATE "}");
    rig_run(&r, 1000);
    rig_delete(&r, CFG);
    rig_run(&r, 60000);
    ok(!exists(&r, "/etc/a"), "deleted while it was judged: nothing is written");
    ok(engine_state_of(r.engine, rig_key(&r, CFG)) == NULL, "and nothing remembered");
    ok(is_empty_dir(&r, "/run/limpet/stage"), "nothing staged is left");
    end(&r);
}

// --- Giving back

struct release_case {
    const char *policy;
    const char *before;  // NULL = absent
    const char *foreign; // what somebody else makes of it while no agent is there: NULL = nothing, "" = removes it
    const char *want;    // NULL = absent
    const char *event;
};

static const struct release_case releases[] = {
    { "Restore", "old", NULL, "old", "Released" },
    { "Restore", NULL, NULL, NULL, "Released" },
    { "Restore", "old", "theirs", "theirs", "KeptForeign" },
    { "Restore", NULL, "theirs", "theirs", "KeptForeign" },
    { "Restore", "old", "", "old", "Released" },
    { "Restore", NULL, "", NULL, NULL },
    { "Restore", "old", "old", "old", NULL },
    { "Delete", "old", NULL, NULL, "Released" },
    { "Delete", NULL, NULL, NULL, "Released" },
    { "Delete", "old", "theirs", "theirs", "KeptForeign" },
    { "Delete", "old", "", NULL, NULL },
    { "Keep", "old", NULL, "new", NULL },
    { "Keep", NULL, NULL, "new", NULL },
    { "Keep", "old", "theirs", "theirs", NULL },
};

static void check_release(const struct release_case *c, bool whole_object)
{
    struct rig r;
    char spec[256], name[160];
    snprintf(name, sizeof(name), "%s, %s before, then %s, %s", c->policy, c->before != NULL ? c->before : "absent",
             c->foreign == NULL      ? "untouched"
             : c->foreign[0] != '\0' ? c->foreign
                                     : "removed",
             whole_object ? "object deleted" : "file taken off the list");
    start(&r);
    if (c->before != NULL)
        rig_write(&r, "/etc/a", c->before, 0604);
    snprintf(spec, sizeof(spec), "{\"files\":[" FILE_A("new") ",{\"path\":\"/etc/stays\",\"content\":\"\"}],\"deletionPolicy\":\"%s\"}",
             c->policy);
    rig_apply(&r, CFG, spec);
    rig_run(&r, SETTLE_MS);
    is_str(rig_read(&r, "/etc/a"), "new", "%s: applied", name);
    rig_close(&r, false);
    if (c->foreign != NULL && c->foreign[0] != '\0')
        rig_write(&r, "/etc/a", c->foreign, 0604);
    else if (c->foreign != NULL)
        (void)unlink(rig_path(&r, "/etc/a"));
    rig_open(&r);
    snprintf(spec, sizeof(spec), "{\"files\":[{\"path\":\"/etc/stays\",\"content\":\"\"}],\"deletionPolicy\":\"%s\"}", c->policy);
    if (whole_object)
        rig_delete(&r, CFG);
    else
        rig_apply(&r, CFG, spec);
    rig_run(&r, 1000);
    is_str(rig_read(&r, "/etc/a"), c->want != NULL ? c->want : "(absent)", "%s: what lies there", name);
    if (c->before != NULL && c->want != NULL && strcmp(c->want, "old") == 0)
        is_int(rig_mode(&r, "/etc/a"), 0604, "  with its own mode");
    if (c->event != NULL)
        ok(rig_events(&r, c->event) >= 1, "  event %s", c->event);
    if (whole_object) {
        ok(engine_state_of(r.engine, rig_key(&r, CFG)) == NULL, "  nothing is remembered");
        ok(is_empty_dir(&r, "/var/lib/limpet/backup"), "  no copy is left");
    }
    end(&r);
}

static void test_release(void)
{
    for (size_t i = 0; i < ARRAY_LEN(releases); i++) {
        check_release(&releases[i], true);
        check_release(&releases[i], false);
    }
}

static void test_release_of_an_earlier_version(void)
{
    struct rig r;
    start(&r);
    rig_write(&r, "/etc/a", "old", 0600);
    rig_apply(&r, CFG, ONE("one"));
    rig_run(&r, SETTLE_MS);
    rig_apply(&r, CFG, ONE("two"));
    rig_run(&r, SETTLE_MS);
    rig_delete(&r, CFG);
    rig_run(&r, SETTLE_MS);
    is_str(rig_read(&r, "/etc/a"), "old", "what comes back is what lay there before us, not our version before");
    is_int(rig_mode(&r, "/etc/a"), 0600, "with its mode");
    end(&r);
}

static void test_policy_changes(void)
{
    struct rig r;
    start(&r);
    rig_write(&r, "/etc/a", "old", 0600);
    rig_apply(&r, CFG, "{\"files\":[" FILE_A("new") "],\"deletionPolicy\":\"Delete\"}");
    rig_run(&r, SETTLE_MS);
    rig_apply(&r, CFG, ONE("new"));
    rig_run(&r, SETTLE_MS);
    crash(&r);
    rig_delete(&r, CFG);
    rig_run(&r, SETTLE_MS);
    is_str(rig_read(&r, "/etc/a"), "old", "the last deletionPolicy counts, also when it is all that changed");
    end(&r);
}

static void test_lost_copy(void)
{
    struct rig r;
    char command[200];
    start(&r);
    rig_write(&r, "/etc/a", "old", 0600);
    rig_apply(&r, CFG, ONE("new"));
    rig_run(&r, SETTLE_MS);
    snprintf(command, sizeof(command), "rm -rf '%s'/*", rig_path(&r, "/var/lib/limpet/backup"));
    ok(system(command) == 0, "the copy is lost");
    rig_delete(&r, CFG);
    rig_run(&r, SETTLE_MS);
    is_str(rig_read(&r, "/etc/a"), "new", "then the file stays");
    is_int(rig_events(&r, "KeptNoBackup"), 1, "and somebody hears of it");
    ok(engine_state_of(r.engine, rig_key(&r, CFG)) == NULL, "it is not tried for ever");
    end(&r);
}

// --- Intents over crashes

static void turns(struct rig *r, int n)
{
    struct err e = ERR_INIT;
    while (n-- > 0)
        rig_must(loop_turn(r->loop, 0, &e), &e, "turn");
}

// At whatever turn the agent dies: the file comes to be what it should, and what lay there before comes back in the end.
static void test_crash_at_each_turn(void)
{
    for (int at = 0; at < 8; at++) {
        struct rig r;
        start(&r);
        behave(&r, 0, 10);
        rig_write(&r, "/etc/a", "old", 0604);
        rig_apply(&r, CFG, "{\"files\":[" FILE_A("new") "]" ON_CHANGE "}");
        turns(&r, at);
        bool kept = strcmp(rig_read(&r, "/etc/a"), "old") != 0; // by now something was done, so the spec is durable
        crash(&r);
        behave(&r, 0, 10);
        rig_apply(&r, CFG, "{\"files\":[" FILE_A("new") "]" ON_CHANGE "}");
        rig_run(&r, 1000);
        is_str(rig_read(&r, "/etc/a"), "new", "killed at turn %d (%s): applied", at, kept ? "written" : "not yet written");
        ok(commands >= 1, "  onChange ran");
        is_str(rig_field(&r, CFG, "driftRepairs"), "0", "  no drift");
        is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "  ready");
        rig_delete(&r, CFG);
        turns(&r, at);
        crash(&r);
        if (at == 0) // the deletion itself was lost
            rig_delete(&r, CFG);
        rig_run(&r, 1000);
        is_str(rig_read(&r, "/etc/a"), "old", "  killed at turn %d of the end: given back", at);
        ok(is_empty_dir(&r, "/var/lib/limpet/backup"), "  no copy is left");
        end(&r);
    }
}

// Deleted between the intent of a new version and its writing: what lies there is our former version, so it is given back.
static void test_deleted_before_written(void)
{
    struct rig r;
    start(&r);
    behave(&r, 0, 10);
    rig_write(&r, "/etc/a", "old", 0604);
    rig_apply(&r, CFG, "{\"files\":[" FILE_A("one") "]" ON_CHANGE "}");
    rig_run(&r, 1000);
    rig_apply(&r, CFG, "{\"files\":[" FILE_A("two") "]" ON_CHANGE "}");
    for (int i = 0; i < 5 && strcmp(rig_condition(&r, CFG, "Ready"), "False Applying") != 0; i++)
        turns(&r, 1);
    is_str(rig_read(&r, "/etc/a"), "one", "intended, not yet written");
    rig_delete(&r, CFG);
    rig_run(&r, 1000);
    is_str(rig_read(&r, "/etc/a"), "old", "deleted then: what lay there first comes back");
    is_int(rig_events(&r, "KeptForeign"), 0, "our own former version is not foreign");
    end(&r);
}

static void test_not_written_before_commit(void)
{
    struct rig r;
    start(&r);
    rig_write(&r, "/etc/a", "old", 0604);
    rig_apply(&r, CFG, ONE("new"));
    rig_commit(&r);
    r.commits_fail = true;
    rig_settle(&r);
    is_str(rig_read(&r, "/etc/a"), "old", "no intent, no deed: with a full store the file stays as it is");
    r.commits_fail = false;
    rig_run(&r, RIG_STORE_RETRY_MS + SETTLE_MS);
    is_str(rig_read(&r, "/etc/a"), "new", "when there is room again it goes on");
    end(&r);
}

static void test_orphaned_copies(void)
{
    struct rig r;
    start(&r);
    rig_write(&r, "/etc/a", "old", 0604);
    rig_apply(&r, CFG, ONE("new"));
    rig_run(&r, SETTLE_MS);
    (void)mkdir(rig_path(&r, "/var/lib/limpet/backup/0123456789abcdef"), 0700);
    rig_write(&r, "/var/lib/limpet/backup/0123456789abcdef/x", "orphan", 0600);
    crash(&r);
    ok(!exists(&r, "/var/lib/limpet/backup/0123456789abcdef"), "a copy that no record speaks of is removed at boot");
    rig_delete(&r, CFG);
    rig_run(&r, SETTLE_MS);
    is_str(rig_read(&r, "/etc/a"), "old", "the others stay and serve");
    end(&r);
}

// --- Two objects

static void test_conflict(void)
{
    struct rig r;
    start(&r);
    rig_apply(&r, CFG, ONE("first"));
    rig_run(&r, SETTLE_MS);
    rig_apply(&r, "edgeconfigs", "second", "{\"files\":[" FILE_A("second") ",{\"path\":\"/etc/b\",\"content\":\"b\"}]}");
    rig_run(&r, SETTLE_MS);
    is_str(rig_read(&r, "/etc/a"), "first", "conflict: the older owner keeps the path");
    ok(!exists(&r, "/etc/b"), "nothing of the second is carried out");
    is_str(rig_condition(&r, "edgeconfigs", "second", "Accepted"), "False PathConflict", "which says so");
    has_str(rig_message(&r, "edgeconfigs", "second", "Accepted"), "/etc/a belongs to edgeconfigs/edge-a/conf", "and names the owner");
    is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "the first does not notice");
    rig_apply(&r, "edgeconfigs", "third", "{\"files\":[{\"path\":\"/etc/a/below\",\"content\":\"\"}]}");
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, "edgeconfigs", "third", "Accepted"), "False PathConflict", "a path below is a conflict, too");
    rig_delete(&r, CFG);
    rig_run(&r, 31000);
    is_str(rig_read(&r, "/etc/a"), "second", "when the owner is gone the second gets the path by itself");
    is_str(rig_condition(&r, "edgeconfigs", "second", "Ready"), "True AllApplied", "ready");
    end(&r);
}

static void test_large(void)
{
    struct rig r;
    size_t n = CFG_CONTENT_MAX + 1;
    char *spec = malloc(n + 200);
    start(&r);
    int head = sprintf(spec, "{\"files\":[{\"path\":\"/etc/a\",\"content\":\"");
    memset(spec + head, 'x', n);
    strcpy(spec + head + n, "\"}]}");
    rig_apply(&r, CFG, spec);
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, CFG, "Accepted"), "False Invalid", "more than 1 MiB is refused");
    ok(!exists(&r, "/etc/a"), "whole");
    memcpy(spec + head + n - 1, "\"}]}", 5);
    rig_apply(&r, CFG, spec);
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "1 MiB is written");
    free(spec);
    end(&r);
}

// What lies there is saved before it is replaced, or it is not replaced.
static void test_too_large_to_save(void)
{
    struct rig r;
    struct stat st;
    start(&r);
    rig_write(&r, "/etc/a", "", 0644);
    ok(truncate(rig_path(&r, "/etc/a"), CFG_BACKUP_MAX + 1) == 0, "a large file lies there");
    rig_apply(&r, CFG, ONE("new"));
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, CFG, "Ready"), "False CannotSave", "too large to be saved, and Restore is asked for");
    ok(stat(rig_path(&r, "/etc/a"), &st) == 0 && st.st_size == CFG_BACKUP_MAX + 1, "so it stays");
    rig_apply(&r, CFG, "{\"files\":[" FILE_A("new") "],\"deletionPolicy\":\"Delete\"}");
    rig_run(&r, SETTLE_MS);
    is_str(rig_read(&r, "/etc/a"), "new", "with Delete nothing need be saved");
    rig_apply(&r, CFG, ONE("new"));
    rig_run(&r, SETTLE_MS);
    rig_delete(&r, CFG);
    rig_run(&r, SETTLE_MS);
    is_str(rig_read(&r, "/etc/a"), "new", "with Restore asked for later the file stays");
    is_int(rig_events(&r, "KeptNoBackup"), 1, "and somebody hears of it");
    end(&r);
}

static void test_differences(void)
{
    struct rig r;
    struct err e = ERR_INIT;
    struct json *out AUTO_JSON = json_array();
    start(&r);
    rig_apply(&r, CFG, ONE("x"));
    rig_run(&r, SETTLE_MS);
    is_int(engine_differences(r.engine, rig_key(&r, CFG), out, &e), 0, "differences");
    is_int((intmax_t)json_len(out), 0, "none");
    (void)chmod(rig_path(&r, "/etc/a"), 0600);
    is_int(engine_differences(r.engine, rig_key(&r, CFG), out, &e), 0, "differences");
    is_str(json_str(json_get(json_at(out, 0), "field")), "mode", "the mode");
    is_str(json_str(json_get(json_at(out, 0), "have")), "0600", "as it is");
    end(&r);
}

int main(void)
{
    test_write();
    test_drift();
    test_drift_while_away();
    test_field_25();
    test_field_26();
    test_swapped_for_a_link();
    test_not_a_file();
    test_disk_full();
    test_on_change();
    test_on_change_after_salvage();
    test_on_change_is_owed();
    test_on_change_times_out();
    test_validate();
    test_deleted_while_waiting();
    test_release();
    test_release_of_an_earlier_version();
    test_policy_changes();
    test_lost_copy();
    test_crash_at_each_turn();
    test_deleted_before_written();
    test_not_written_before_commit();
    test_orphaned_copies();
    test_conflict();
    test_large();
    test_too_large_to_save();
    test_differences();
    return done_testing();
}
