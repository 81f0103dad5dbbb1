// SPDX-License-Identifier: Apache-2.0
// Several files as one change, and changes on trial (confirmSeconds).
#include "kinds/edgeconfig.c"

#include "kind_rig.h"

#define CFG "edgeconfigs", "conf"
#define TWO(a, b) "{\"files\":[{\"path\":\"/etc/a\",\"content\":\"" a "\"},{\"path\":\"/etc/b\",\"content\":\"" b "\"}]"
#define ON_CHANGE ",\"onChange\":{\"command\":[\"reload\"]}"
#define CONFIRM ",\"confirmSeconds\":30"

enum { SETTLE_MS = 400 };

// --- Hands on the disk: effects are counted; from one of them on there is no power; one path cannot be replaced

static struct disk_ops hands;
static const struct disk_ops *real;
static struct port_ops port_hands;
static const struct port_ops *port_real;
static struct rig *rig_of_hands;
static int effects, cut_at = -1, commands;
static bool dark;
static char stuck[64];

static int effect(struct err *e)
{
    if (!dark && effects++ == cut_at) {
        dark = true;
        rig_of_hands->commits_fail = true; // nor does the store get anything any more
    }
    return dark ? err_set(e, E_IO, "no power") : 0;
}

static int cut_write(struct disk *d, const char *path, const void *p, size_t n, uint32_t mode, uint32_t uid, uint32_t gid, unsigned flags,
                     struct err *e)
{
    int rc = effect(e);
    if (rc == 0 && strcmp(path, stuck) == 0)
        rc = err_sys(e, EBUSY, "%s", path);
    return rc == 0 ? real->write(d, path, p, n, mode, uid, gid, flags, e) : rc;
}

static int cut_rename(struct disk *d, const char *from, const char *to, unsigned flags, struct err *e)
{
    int rc = effect(e);
    if (rc == 0 && strcmp(to, stuck) == 0)
        rc = err_sys(e, EBUSY, "%s", to);
    return rc == 0 ? real->rename(d, from, to, flags, e) : rc;
}

static int cut_unlink(struct disk *d, const char *path, unsigned flags, struct err *e)
{
    int rc = effect(e);
    return rc == 0 ? real->unlink(d, path, flags, e) : rc;
}

static int cut_mkdirs(struct disk *d, const char *path, uint32_t mode, unsigned flags, struct err *e)
{
    int rc = effect(e);
    return rc == 0 ? real->mkdirs(d, path, mode, flags, e) : rc;
}

static int cut_chattr(struct disk *d, const char *path, uint32_t mode, uint32_t uid, uint32_t gid, unsigned flags, struct err *e)
{
    int rc = effect(e);
    return rc == 0 ? real->chattr(d, path, mode, uid, gid, flags, e) : rc;
}

static int cut_rmdir(struct disk *d, const char *path, unsigned flags, struct err *e)
{
    int rc = effect(e);
    return rc == 0 ? real->rmdir(d, path, flags, e) : rc;
}

static int cut_rmtree(struct disk *d, const char *path, struct err *e)
{
    int rc = effect(e);
    return rc == 0 ? real->rmtree(d, path, e) : rc;
}

static int counting_run(struct port *p, struct port_run *run, struct err *e)
{
    commands++;
    return port_real->run(p, run, e);
}

static void lay_hands_on(struct rig *r)
{
    rig_of_hands = r;
    real = r->disk->ops;
    hands = *real;
    hands.write = cut_write;
    hands.rename = cut_rename;
    hands.unlink = cut_unlink;
    hands.mkdirs = cut_mkdirs;
    hands.chattr = cut_chattr;
    hands.rmdir = cut_rmdir;
    hands.rmtree = cut_rmtree;
    r->disk->ops = &hands;
    if (r->port->ops != &port_hands) // after a power cut it is the same port
        port_real = r->port->ops;
    port_hands = *port_real;
    port_hands.run = counting_run;
    r->port->ops = &port_hands;
    dark = false;
    cut_at = -1;
    r->commits_fail = false;
}

static void behave(struct rig *r, int code, int64_t delay_ms)
{
    struct fake_behaviour b = { .run_ms = -1, .run_code = code, .run_delay_ms = delay_ms };
    port_fake_behave(r->port, NULL, &b);
}

static void start(struct rig *r)
{
    rig_start(r);
    stuck[0] = '\0';
    commands = 0;
    lay_hands_on(r);
    behave(r, 0, 10);
}

static void power_cut(struct rig *r)
{
    rig_power_cut(r);
    lay_hands_on(r);
    behave(r, 0, 10);
}

static void agent_restart(struct rig *r)
{
    rig_crash(r);
    lay_hands_on(r);
    behave(r, 0, 10);
}

static bool both_are(struct rig *r, const char *a, const char *b)
{
    return strcmp(rig_read(r, "/etc/a"), a) == 0 && strcmp(rig_read(r, "/etc/b"), b) == 0;
}

// Nothing of ours is left beside the files, nor in the state directory.
static bool is_clean(struct rig *r)
{
    char command[300];
    snprintf(command, sizeof(command),
             "test -z \"$(find '%s/etc' '%s/var/lib/limpet/undo' -name '*limpet-*' -o -path '*/undo/*' 2>/dev/null)\"", r->root, r->root);
    return system(command) == 0;
}

// --- All or none

static void test_both(void)
{
    struct rig r;
    start(&r);
    rig_apply(&r, CFG, TWO("one", "one") "}");
    rig_run(&r, SETTLE_MS);
    ok(both_are(&r, "one", "one"), "two files");
    is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "ready");
    is_str(rig_field(&r, CFG, "driftRepairs"), "0", "no drift");
    rig_run(&r, 600000);
    ok(is_clean(&r), "no copy is left");
    rig_delete(&r, CFG);
    rig_run(&r, SETTLE_MS);
    ok(both_are(&r, "(absent)", "(absent)"), "and given back");
    rig_end(&r);
}

static void must_be_dir(struct rig *r, const char *path)
{
    if (mkdir(rig_path(r, path), 0755) != 0)
        fail("%s cannot be made", path);
}

static int tries;

static int counting_rename(struct disk *d, const char *from, const char *to, unsigned flags, struct err *e)
{
    tries += strcmp(to, stuck) == 0;
    return cut_rename(d, from, to, flags, e);
}

// A set that cannot be made costs little: it is tried ever more seldom.
static void test_tries_become_rarer(void)
{
    struct rig r;
    start(&r);
    hands.rename = counting_rename;
    tries = 0;
    strcpy(stuck, "/etc/b");
    rig_apply(&r, CFG, TWO("one", "one") "}");
    rig_run(&r, 3600000);
    ok(tries >= 15 && tries <= 22, "an hour: %d tries", tries);
    is_str(rig_condition(&r, CFG, "Progressing"), "True Retrying", "which is said");
    has_str(rig_message(&r, CFG, "Progressing"), "every 5 min", "and how often");
    is_int(rig_events(&r, "ApplyFailed"), 1, "told once");
    tries = 0;
    rig_apply(&r, CFG, TWO("two", "two") "}");
    rig_run(&r, SETTLE_MS);
    is_int(tries, 1, "another spec is tried at once");
    rig_end(&r);
}

static void test_second_cannot(void)
{
    struct rig r;
    start(&r);
    rig_write(&r, "/etc/b", "theirs", 0640);
    rig_apply(&r, CFG, TWO("one", "one") ON_CHANGE "}");
    strcpy(stuck, "/etc/b");
    rig_run(&r, SETTLE_MS);
    ok(both_are(&r, "(absent)", "theirs"), "the second file cannot be replaced: the first is gone again");
    is_int(rig_mode(&r, "/etc/b"), 0640, "the second as it was");
    is_str(rig_condition(&r, CFG, "Ready"), "False ApplyFailed", "a condition");
    has_str(rig_message(&r, CFG, "Ready"), "nothing was changed: ", "says that nothing was changed");
    has_str(rig_message(&r, CFG, "Ready"), "/etc/b", "and which file stood in the way");
    is_int(commands, 0, "no onChange");
    stuck[0] = '\0';
    rig_run(&r, 310000);
    ok(both_are(&r, "one", "one"), "when it can be replaced both are");
    is_int(commands, 1, "one onChange");
    strcpy(stuck, "/etc/b");
    rig_apply(&r, CFG, TWO("two", "two") ON_CHANGE "}");
    rig_run(&r, SETTLE_MS);
    ok(both_are(&r, "one", "one"), "a later version: both stay as they were");
    rig_apply(&r, CFG, TWO("three", "one") ON_CHANGE "}");
    rig_run(&r, SETTLE_MS);
    ok(both_are(&r, "three", "one"), "another spec goes on without the stuck one");
    is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "ready");
    rig_delete(&r, CFG);
    stuck[0] = '\0';
    rig_run(&r, SETTLE_MS);
    ok(both_are(&r, "(absent)", "theirs"), "what was there first comes back");
    is_int(rig_events(&r, "KeptForeign"), 0, "nothing was taken for foreign");
    rig_end(&r);
}

static void test_one_leaves(void)
{
    struct rig r;
    start(&r);
    rig_write(&r, "/etc/b", "theirs", 0640);
    rig_apply(&r, CFG, TWO("one", "one") "}");
    rig_run(&r, SETTLE_MS);
    strcpy(stuck, "/etc/a");
    rig_apply(&r, CFG, "{\"files\":[{\"path\":\"/etc/a\",\"content\":\"two\"}]}");
    rig_run(&r, SETTLE_MS);
    ok(both_are(&r, "one", "one"), "a file that leaves the list is part of the change: it stays while the other cannot be replaced");
    stuck[0] = '\0';
    rig_run(&r, 310000);
    ok(both_are(&r, "two", "theirs"), "then both change");
    is_int(rig_events(&r, "Released") >= 1, 1, "which is told");
    rig_end(&r);
}

static void lose_copies(struct rig *r, const char *dir)
{
    char command[200];
    snprintf(command, sizeof(command), "rm -rf '%s'/*", rig_path(r, dir));
    ok(system(command) == 0, "the copies are lost");
}

// A store that went back to before a damage speaks of copies that were used up since.
static void test_one_leaves_without_copy(void)
{
    struct rig r;
    start(&r);
    rig_write(&r, "/etc/b", "theirs", 0640);
    rig_apply(&r, CFG, TWO("one", "one") "}");
    rig_run(&r, SETTLE_MS);
    lose_copies(&r, "/var/lib/limpet/backup");
    rig_apply(&r, CFG, "{\"files\":[{\"path\":\"/etc/a\",\"content\":\"two\"}]}");
    rig_run(&r, SETTLE_MS);
    ok(both_are(&r, "two", "one"), "what cannot be put back stays, and holds up nothing else");
    is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "the change is made");
    is_int(rig_events(&r, "KeptNoBackup"), 1, "and somebody hears of it");
    rig_end(&r);
}

// Until the power goes, at most.
static void run_until_dark(struct rig *r, int64_t ms)
{
    struct err e = ERR_INIT;
    int64_t end = r->fc.mono_ms + ms;
    for (int turn = 0; !dark && (turn < 12 || r->fc.mono_ms < end); turn++)
        rig_must(loop_turn(r->loop, turn < 12 ? 0 : end - r->fc.mono_ms, &e), &e, "turn");
    for (int turn = 0; !dark && turn < 12; turn++)
        rig_must(loop_turn(r->loop, 0, &e), &e, "turn");
}

// The power goes at one effect after the other: what lies there when the agent has started again is one version or the other, of both.
static bool cut_once(int at, const char *then, const char *final)
{
    struct rig r;
    start(&r);
    rig_write(&r, "/etc/b", "theirs", 0640);
    rig_apply(&r, CFG, TWO("one", "one") ON_CHANGE "}");
    rig_run(&r, SETTLE_MS);
    effects = 0;
    cut_at = at;
    rig_apply(&r, CFG, TWO("two", "two") ON_CHANGE "}");
    run_until_dark(&r, SETTLE_MS);
    bool was_cut = dark;
    power_cut(&r);
    ok(both_are(&r, "one", "one") || both_are(&r, "two", "two"), "cut at effect %d: one version of both (%s, %s)", at,
       rig_read(&r, "/etc/a"), rig_read(&r, "/etc/b"));
    commands = 0;
    rig_apply(&r, CFG, then);
    rig_run(&r, 2000);
    ok(both_are(&r, final, final), "  then the version that is wanted");
    is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "  ready");
    if (was_cut)
        ok(commands >= 1, "  onChange ran");
    is_str(rig_field(&r, CFG, "driftRepairs"), "0", "  no drift");
    rig_run(&r, 600000);
    ok(is_clean(&r), "  nothing is left");
    rig_delete(&r, CFG);
    rig_run(&r, SETTLE_MS);
    ok(both_are(&r, "(absent)", "theirs"), "  and at last what was there first");
    rig_end(&r);
    return was_cut;
}

static void test_cut_at_each_effect(void)
{
    int at = 0;
    while (cut_once(at, TWO("two", "two") ON_CHANGE "}", "two"))
        at++;
    ok(at >= 8, "%d effects were cut", at);
    for (int k = 0; k < at; k++)
        (void)cut_once(k, TWO("three", "three") ON_CHANGE "}", "three");
}

// --- Directories

#define ONE "{\"files\":[{\"path\":\"/etc/a\",\"content\":\"one\"}]"
#define TREE                                                                              \
    "{\"directories\":[{\"path\":\"/etc/d/e\"},{\"path\":\"/etc/d\",\"mode\":\"0750\"}]," \
    "\"files\":[{\"path\":\"/etc/d/e/f\",\"content\":\"two\"},{\"path\":\"/etc/a\",\"content\":\"two\"}]"

static bool is_one(struct rig *r)
{
    return strcmp(rig_read(r, "/etc/a"), "one") == 0 && strcmp(rig_read(r, "/etc/d/e/f"), "(absent)") == 0;
}

static bool is_tree(struct rig *r)
{
    return strcmp(rig_read(r, "/etc/a"), "two") == 0 && strcmp(rig_read(r, "/etc/d/e/f"), "two") == 0 && rig_mode(r, "/etc/d") == 0750 &&
           rig_mode(r, "/etc/d/e") == 0755;
}

static bool has_dirs(struct rig *r)
{
    return rig_mode(r, "/etc/d") != 0;
}

static void test_tree_cannot(void)
{
    struct rig r;
    start(&r);
    rig_apply(&r, CFG, ONE "}");
    rig_run(&r, SETTLE_MS);
    strcpy(stuck, "/etc/a");
    rig_apply(&r, CFG, TREE "}");
    rig_run(&r, SETTLE_MS);
    ok(is_one(&r) && !has_dirs(&r), "a file cannot be replaced: the directories that were made for the change are gone, too");
    is_str(rig_condition(&r, CFG, "Ready"), "False ApplyFailed", "a condition");
    stuck[0] = '\0';
    rig_run(&r, 310000);
    ok(is_tree(&r), "then all of it");
    rig_delete(&r, CFG);
    rig_run(&r, SETTLE_MS);
    ok(!has_dirs(&r), "given back");
    is_int(rig_events(&r, "KeptForeign"), 0, "nothing was taken for foreign");
    rig_end(&r);
}

// One way or the other; directories that were ours may still be there, they are removed when the rest stands.
static bool cut_tree(int at, bool there)
{
    struct rig r;
    start(&r);
    rig_apply(&r, CFG, there ? ONE ON_CHANGE "}" : TREE ON_CHANGE "}");
    rig_run(&r, SETTLE_MS);
    effects = 0;
    cut_at = at;
    rig_apply(&r, CFG, there ? TREE ON_CHANGE "}" : ONE ON_CHANGE "}");
    run_until_dark(&r, SETTLE_MS);
    bool was_cut = dark;
    power_cut(&r);
    ok(is_one(&r) || is_tree(&r), "directories %s, cut at effect %d: one version of all (%s, %s)", there ? "come" : "leave", at,
       rig_read(&r, "/etc/a"), rig_read(&r, "/etc/d/e/f"));
    if (there && is_one(&r))
        ok(!has_dirs(&r), "  and no directory of the other");
    rig_run(&r, 2000);
    ok(there ? is_tree(&r) : is_one(&r) && !has_dirs(&r), "  then the version that is wanted");
    is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "  ready");
    is_str(rig_field(&r, CFG, "driftRepairs"), "0", "  no drift");
    rig_run(&r, 600000);
    ok(is_clean(&r), "  nothing is left");
    rig_delete(&r, CFG);
    rig_run(&r, SETTLE_MS);
    ok(!has_dirs(&r) && strcmp(rig_read(&r, "/etc/a"), "(absent)") == 0, "  and at last what was there first: nothing");
    rig_end(&r);
    return was_cut;
}

static void test_cut_tree(bool there)
{
    int at = 0;
    while (cut_tree(at, there))
        at++;
    ok(at >= 8, "%d effects were cut", at);
}

static void test_tree_on_trial(void)
{
    struct rig r;
    start(&r);
    rig_server(&r, true);
    rig_apply(&r, CFG, ONE CONFIRM "}");
    rig_run(&r, 3000);
    rig_server(&r, false);
    rig_apply(&r, CFG, TREE CONFIRM "}");
    rig_run(&r, SETTLE_MS);
    ok(is_tree(&r), "on trial: all is there");
    rig_run(&r, 31000);
    ok(is_one(&r) && !has_dirs(&r), "put back: all is gone");
    rig_server(&r, true);
    rig_apply(&r, CFG, TREE ",\"confirmSeconds\":60}");
    rig_run(&r, 3000);
    ok(is_tree(&r), "confirmed this time");
    rig_server(&r, false);
    rig_apply(&r, CFG, ONE CONFIRM ON_CHANGE "}");
    rig_run(&r, 20000);
    ok(is_one(&r) && has_dirs(&r), "directories that leave stay during the trial");
    is_int(commands, 1, "one onChange");
    rig_run(&r, 11000);
    ok(is_tree(&r), "put back");
    rig_server(&r, true);
    rig_apply(&r, CFG, ONE ON_CHANGE "}");
    rig_run(&r, 3000);
    ok(is_one(&r) && !has_dirs(&r), "and go when the change stands");
    rig_end(&r);
}

// --- On trial

static void test_confirmed(void)
{
    struct rig r;
    start(&r);
    rig_server(&r, true);
    rig_apply(&r, CFG, TWO("one", "one") ON_CHANGE CONFIRM "}");
    rig_run(&r, SETTLE_MS);
    ok(both_are(&r, "one", "one"), "on trial: written");
    rig_run(&r, 2000);
    is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "the server answers: it stays");
    is_int(rig_events(&r, "Confirmed"), 1, "told");
    rig_run(&r, 600000);
    ok(both_are(&r, "one", "one"), "and stays");
    is_int(commands, 1, "one onChange");
    ok(is_clean(&r), "no copy is left");
    rig_end(&r);
}

// One file is enough for a trial.
static void go_on_trial(struct rig *r)
{
    start(r);
    rig_server(r, true);
    rig_apply(r, CFG, TWO("one", "one") ON_CHANGE CONFIRM "}");
    rig_run(r, 3000);
    is_str(rig_condition(r, CFG, "Ready"), "True AllApplied", "the first version was confirmed");
    commands = 0;
    rig_server(r, false); // what the change does
    rig_apply(r, CFG, TWO("two", "one") ON_CHANGE CONFIRM "}");
    rig_run(r, SETTLE_MS);
    ok(both_are(r, "two", "one"), "on trial");
    is_str(rig_condition(r, CFG, "Ready"), "False OnTrial", "which is said");
    has_str(rig_message(r, CFG, "Ready"), "within 30 s", "and for how long");
}

static void check_back(struct rig *r)
{
    ok(both_are(r, "one", "one"), "what was there is back");
    is_str(rig_condition(r, CFG, "Ready"), "False RolledBack", "which is said");
    is_int(rig_events(r, "RolledBack"), 1, "told once");
    ok(commands >= 2, "onChange ran for both ways (%d)", commands);
}

static void test_put_back(void)
{
    struct rig r;
    go_on_trial(&r);
    rig_run(&r, 28000);
    ok(both_are(&r, "two", "one"), "not before its time");
    rig_run(&r, 3000);
    check_back(&r);
    int n = commands;
    rig_server(&r, true);
    rig_run(&r, 3600000);
    ok(both_are(&r, "one", "one"), "it is not tried again");
    is_int(commands, n, "nothing runs");
    agent_restart(&r);
    rig_server(&r, true);
    rig_run(&r, 600000);
    ok(both_are(&r, "one", "one"), "nor by another agent");
    is_str(rig_condition(&r, CFG, "Ready"), "False RolledBack", "which says so, too");
    rig_apply(&r, CFG, TWO("two", "one") ON_CHANGE ",\"confirmSeconds\":60}");
    rig_run(&r, 3000);
    ok(both_are(&r, "two", "one"), "a changed spec is tried");
    is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "and confirmed this time");
    rig_run(&r, 600000);
    ok(is_clean(&r), "no copy is left");
    rig_end(&r);
}

// What was put back is looked after as any other version.
static void test_drift_after_put_back(void)
{
    struct rig r;
    go_on_trial(&r);
    rig_run(&r, 31000);
    check_back(&r);
    int n = commands;
    rig_write(&r, "/etc/a", "theirs", 0644);
    rig_run(&r, SETTLE_MS);
    ok(both_are(&r, "one", "one"), "somebody changes what was put back: it is put right");
    is_int(rig_events(&r, "DriftRepaired"), 1, "which is told");
    rig_write(&r, "/etc/b", "theirs", 0644);
    rig_run(&r, SETTLE_MS);
    ok(both_are(&r, "one", "one"), "so is a file that the change did not touch");
    is_int(commands, n + 2, "onChange runs for each");
    is_str(rig_condition(&r, CFG, "Ready"), "False RolledBack", "it is still said that it was put back");
    agent_restart(&r);
    unlink(rig_path(&r, "/etc/a"));
    rig_run(&r, SETTLE_MS);
    ok(both_are(&r, "one", "one"), "by another agent, too");
    is_str(rig_field(&r, CFG, "differences"), "[]", "nothing differs");
    rig_delete(&r, CFG);
    rig_run(&r, SETTLE_MS);
    ok(both_are(&r, "(absent)", "(absent)") && is_clean(&r), "deleted: given back");
    rig_end(&r);
}

// A file that the failed change brought is nobody's any more.
static void test_new_file_after_put_back(void)
{
    struct rig r;
    start(&r);
    rig_server(&r, true);
    rig_apply(&r, CFG, ONE CONFIRM "}");
    rig_run(&r, 3000);
    rig_server(&r, false);
    rig_apply(&r, CFG, TREE CONFIRM "}");
    rig_run(&r, 31000);
    ok(is_one(&r), "put back");
    must_be_dir(&r, "/etc/d");
    must_be_dir(&r, "/etc/d/e");
    rig_write(&r, "/etc/d/e/f", "theirs", 0644);
    rig_write(&r, "/etc/a", "theirs", 0644);
    rig_run(&r, 400000);
    is_str(rig_read(&r, "/etc/d/e/f"), "theirs", "what the change would have brought is somebody else's");
    is_str(rig_read(&r, "/etc/a"), "one", "what was there before is ours");
    rig_end(&r);
}

// A spec that nobody understands comes while a change is on trial.
static void test_invalid_on_trial(bool server)
{
    struct rig r;
    go_on_trial(&r);
    rig_run(&r, 10000);
    rig_apply(&r, CFG, "{\"files\":[{\"path\":\"etc/a\",\"content\":\"x\"}]}");
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, CFG, "Accepted"), "False Invalid", "a spec that is not understood");
    if (server) {
        rig_server(&r, true);
        rig_run(&r, 3000);
        is_int(rig_events(&r, "Confirmed"), 2, "the server answers: this change is confirmed, too");
        rig_run(&r, 600000);
        ok(both_are(&r, "two", "one"), "and stays");
    } else {
        rig_run(&r, 22000);
        ok(both_are(&r, "one", "one"), "the server does not: the change is put back in time");
        is_int(rig_events(&r, "RolledBack"), 1, "told once");
        ok(commands >= 2, "with its onChange (%d)", commands);
        is_str(rig_condition(&r, CFG, "Accepted"), "False Invalid", "the other is still not understood");
        rig_server(&r, true);
    }
    rig_apply(&r, CFG, TWO("three", "one") ON_CHANGE CONFIRM "}");
    rig_run(&r, 3000);
    ok(both_are(&r, "three", "one"), "a spec that is understood is made");
    is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "ready");
    rig_end(&r);
}

// What a change refers to goes away while it is on trial.
static void test_reference_lost_on_trial(bool server)
{
    struct rig r;
    start(&r);
    rig_server(&r, true);
    rig_refer(&r, REF_CONFIGMAP, "m", "\"data\":{\"k\":\"two\"}");
    rig_apply(&r, CFG, TWO("one", "one") CONFIRM "}");
    rig_run(&r, 3000);
    rig_server(&r, false);
    rig_apply(&r, CFG,
              "{\"files\":[{\"path\":\"/etc/a\",\"contentFrom\":{\"configMapKeyRef\":{\"name\":\"m\",\"key\":\"k\"}}},"
              "{\"path\":\"/etc/b\",\"content\":\"one\"}]" CONFIRM "}");
    rig_run(&r, SETTLE_MS);
    rig_refer(&r, REF_CONFIGMAP, "m", "\"data\":{\"k\":\"two\"}");
    rig_run(&r, 5000);
    ok(both_are(&r, "two", "one"), "on trial, with a content from elsewhere");
    rig_refer(&r, REF_CONFIGMAP, "m", "\"data\":{\"other\":\"x\"}");
    rig_run(&r, 5000);
    ok(strncmp(rig_condition(&r, CFG, "ResolvedRefs"), "False", 5) == 0, "it goes away");
    ok(both_are(&r, "two", "one"), "which takes nothing away");
    rig_server(&r, server);
    rig_run(&r, 40000);
    ok(both_are(&r, server ? "two" : "one", "one"), server ? "the server answers: confirmed" : "put back in time");
    rig_end(&r);
}

// A store that went back to before a damage speaks of copies that were used up since: there is nothing to wait for.
static void test_put_back_without_copy(void)
{
    struct rig r;
    go_on_trial(&r);
    lose_copies(&r, "/var/lib/limpet/undo");
    rig_run(&r, 40000);
    ok(both_are(&r, "two", "one"), "what cannot be put back stays");
    is_str(rig_condition(&r, CFG, "Ready"), "False RolledBack", "the trial is over all the same");
    is_int(rig_events(&r, "KeptNoBackup"), 1, "and somebody hears of it, once");
    rig_server(&r, true);
    rig_apply(&r, CFG, TWO("three", "three") "}");
    rig_run(&r, SETTLE_MS);
    ok(both_are(&r, "three", "three"), "another spec is made");
    is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "as always");
    rig_end(&r);
}

// Another spec comes while the copies of the change that is under way are lost.
static void test_another_spec_without_copy(void)
{
    struct rig r;
    go_on_trial(&r);
    lose_copies(&r, "/var/lib/limpet/undo");
    rig_apply(&r, CFG, TWO("three", "three") "}");
    rig_run(&r, SETTLE_MS);
    ok(both_are(&r, "three", "three"), "the next spec is made from what lies there");
    is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "and stands");
    rig_end(&r);
}

static void test_restart_on_trial(void)
{
    struct rig r;
    go_on_trial(&r);
    rig_run(&r, 10000);
    agent_restart(&r);
    rig_run(&r, 15000);
    ok(both_are(&r, "two", "one"), "an agent that starts again goes on with the trial");
    rig_run(&r, 7000);
    check_back(&r);
    rig_end(&r);
}

static void test_reboot_on_trial(void)
{
    struct rig r;
    go_on_trial(&r);
    rig_close(&r, true);
    r.fc.wall_us += 3600 * INT64_C(1000000);
    port_fake_reboot(r.port);
    r.fc.boot_ms = 5000;
    r.fc.boot_id[0]++;
    r.fc.synced = true;
    rig_open(&r);
    ok(both_are(&r, "one", "one"), "booted an hour later: put back before any pass");
    lay_hands_on(&r);
    behave(&r, 0, 10);
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, CFG, "Ready"), "False RolledBack", "which is said");
    rig_end(&r);
}

// Without a clock to be trusted the time begins anew, once.
static void test_trial_without_clock(void)
{
    struct instant now = { .boot_id = "b", .boot_ms = 1000, .wall_us = 99, .trusted = false };
    struct cfg_switch s = { .state = SWITCH_TRIAL, .confirm_ms = 30000, .boot_id = "a", .until_boot_ms = 500, .until_wall_us = 50 };
    ok(cfg_trial_resume(&s, &now), "booted, and nobody knows the time: it goes on");
    is_int(s.until_boot_ms, 31000, "for its whole time");
    now.boot_ms = 30999;
    ok(cfg_trial_resume(&s, &now), "until then");
    now.boot_ms = 31000;
    ok(!cfg_trial_resume(&s, &now), "and no longer");
    strcpy(now.boot_id, "c");
    now.boot_ms = 1;
    ok(!cfg_trial_resume(&s, &now), "nor over a second boot");
    s = (struct cfg_switch){ .state = SWITCH_TRIAL, .confirm_ms = 30000, .boot_id = "a", .until_boot_ms = 500, .until_wall_us = 10000099 };
    now.trusted = true;
    ok(cfg_trial_resume(&s, &now), "with a clock: what is left of its time");
    is_int(s.until_boot_ms, 10001, "10 s");
    now.wall_us = 0;
    s.boot_id[0] = 'a';
    s.rebooted = false;
    ok(cfg_trial_resume(&s, &now), "a clock that was set back");
    is_int(s.until_boot_ms, 10001, "gives no more than the whole time");
}

static void test_offline_already(void)
{
    struct rig r;
    start(&r);
    rig_apply(&r, CFG, TWO("one", "one") CONFIRM "}");
    rig_run(&r, SETTLE_MS);
    ok(both_are(&r, "one", "one"), "out of reach already: made");
    is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "not on trial");
    is_int(rig_events(&r, "NoTrial"), 1, "which is told");
    rig_run(&r, 600000);
    ok(both_are(&r, "one", "one"), "stays");
    rig_server(&r, true);
    rig_server(&r, false);
    rig_run(&r, 20000);
    rig_apply(&r, CFG, TWO("two", "two") CONFIRM "}");
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, CFG, "Ready"), "False OnTrial", "out of reach for 20 s only: that may be chance, so it is on trial");
    rig_run(&r, 31000);
    ok(both_are(&r, "one", "one"), "and put back");
    rig_end(&r);
}

// The command that takes the network down may never end.
static void test_on_change_hangs(void)
{
    struct rig r;
    start(&r);
    rig_server(&r, true);
    behave(&r, 0, 1000000);
    rig_apply(&r, CFG, TWO("one", "one") ",\"onChange\":{\"command\":[\"x\"],\"timeoutSeconds\":300}" CONFIRM "}");
    rig_run(&r, 20000);
    ok(both_are(&r, "one", "one"), "onChange hangs");
    rig_run(&r, 13000);
    ok(both_are(&r, "(absent)", "(absent)"), "put back all the same when the time is over");
    rig_end(&r);
}

static void test_another_spec_on_trial(void)
{
    struct rig r;
    go_on_trial(&r);
    rig_apply(&r, CFG, TWO("three", "one") ON_CHANGE CONFIRM "}");
    rig_server(&r, true);
    rig_run(&r, 5000);
    ok(both_are(&r, "three", "one"), "another spec meanwhile: that one");
    is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "confirmed");
    rig_apply(&r, CFG, TWO("four", "one") ON_CHANGE CONFIRM "}");
    rig_run(&r, SETTLE_MS);
    rig_delete(&r, CFG);
    rig_run(&r, 5000);
    ok(both_are(&r, "(absent)", "(absent)"), "deleted: all is given back");
    rig_end(&r);
}

static void test_removed_on_trial(void)
{
    struct rig r;
    start(&r);
    rig_write(&r, "/etc/b", "theirs", 0640);
    rig_server(&r, true);
    rig_apply(&r, CFG, TWO("one", "one") CONFIRM "}");
    rig_run(&r, 3000);
    rig_server(&r, false);
    rig_apply(&r, CFG, "{\"files\":[{\"path\":\"/etc/a\",\"content\":\"two\"}]" CONFIRM "}");
    rig_run(&r, SETTLE_MS);
    ok(both_are(&r, "two", "theirs"), "a file left the list");
    rig_run(&r, 31000);
    ok(both_are(&r, "one", "one"), "put back with the rest");
    rig_delete(&r, CFG);
    rig_run(&r, 3000);
    ok(both_are(&r, "(absent)", "theirs"), "its first content is not forgotten");
    rig_end(&r);
}

// The power goes while it is put back, too.
static bool cut_the_way_back(int at)
{
    struct rig r;
    go_on_trial(&r);
    effects = 0;
    cut_at = at;
    run_until_dark(&r, 31000);
    bool was_cut = dark;
    power_cut(&r);
    rig_run(&r, 62000);
    ok(both_are(&r, "one", "one"), "cut at effect %d of the way back: back", at);
    is_str(rig_condition(&r, CFG, "Ready"), "False RolledBack", "  and said");
    rig_end(&r);
    return was_cut;
}

static void test_cut_the_way_back(void)
{
    int at = 0;
    while (cut_the_way_back(at))
        at++;
    ok(at >= 2, "%d effects were cut", at);
}

int main(void)
{
    test_both();
    test_second_cannot();
    test_tries_become_rarer();
    test_one_leaves();
    test_one_leaves_without_copy();
    test_cut_at_each_effect();
    test_tree_cannot();
    test_cut_tree(true);
    test_cut_tree(false);
    test_tree_on_trial();
    test_confirmed();
    test_put_back();
    test_drift_after_put_back();
    test_new_file_after_put_back();
    test_invalid_on_trial(true);
    test_invalid_on_trial(false);
    test_reference_lost_on_trial(true);
    test_reference_lost_on_trial(false);
    test_put_back_without_copy();
    test_another_spec_without_copy();
    test_restart_on_trial();
    test_reboot_on_trial();
    test_trial_without_clock();
    test_offline_already();
    test_on_change_hangs();
    test_another_spec_on_trial();
    test_removed_on_trial();
    test_cut_the_way_back();
    return done_testing();
}
