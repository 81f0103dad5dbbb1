// SPDX-License-Identifier: Apache-2.0
// Directories of an EdgeConfig: made, kept, given back; never more than ours.
#include "kinds/edgeconfig.c"

#include "kind_rig.h"

#define CFG "edgeconfigs", "conf"
#define DIR(more) "{\"directories\":[{\"path\":\"/srv/d\"" more "}]"
#define WITH_FILE ",\"files\":[{\"path\":\"/srv/d/f\",\"content\":\"x\"}]"

enum { SETTLE_MS = 300 };

static bool is_there(struct rig *r, const char *path)
{
    struct stat st;
    return lstat(rig_path(r, path), &st) == 0;
}

static void must_be_dir(struct rig *r, const char *path, mode_t mode)
{
    if (mkdir(rig_path(r, path), mode) != 0 || chmod(rig_path(r, path), mode) != 0)
        fail("%s cannot be made", path);
}

static void apply(struct rig *r, const char *spec)
{
    rig_apply(r, CFG, spec);
    rig_run(r, SETTLE_MS);
}

static void delete (struct rig *r)
{
    rig_delete(r, CFG);
    rig_run(r, SETTLE_MS);
}

static void test_made(void)
{
    struct rig r;
    rig_start(&r);
    apply(&r, "{\"directories\":[{\"path\":\"/srv/a/b/c\"},{\"path\":\"/srv/a/b\",\"mode\":\"2770\",\"group\":\"7\"}]}");
    is_int(rig_mode(&r, "/srv/a/b"), 02770, "made, with its mode");
    is_int(rig_mode(&r, "/srv/a/b/c"), 0755, "mode 0755 if none is given");
    struct stat st;
    ok(stat(rig_path(&r, "/srv/a/b"), &st) == 0 && st.st_gid == 7, "its group");
    is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "ready");
    is_str(rig_message(&r, CFG, "Ready"), "2 of 2 files and directories are as they should be", "says so");
    is_str(rig_field(&r, CFG, "directories"), "2", "counted");
    is_str(rig_field(&r, CFG, "files"), "0", "apart from files");
    uint64_t writes = rig_status_writes(&r);
    rig_run(&r, 3600000);
    is_int(rig_status_writes(&r), (long)writes, "no write without a difference");
    delete (&r);
    ok(!is_there(&r, "/srv/a/b"), "given back, the deepest first");
    ok(is_there(&r, "/srv/a"), "one that was made on the way stays");
    is_int(rig_events(&r, "Released"), 2, "which is told");
    rig_end(&r);
}

static void test_drift(void)
{
    struct rig r;
    rig_start(&r);
    apply(&r, DIR("") WITH_FILE "}");
    is_str(rig_read(&r, "/srv/d/f"), "x", "a file in a directory of the same set");
    chmod(rig_path(&r, "/srv/d"), 0777);
    rig_run(&r, SETTLE_MS);
    is_int(rig_mode(&r, "/srv/d"), 0755, "another mode is put right");
    is_str(rig_field(&r, CFG, "driftRepairs"), "1", "counted");
    unlink(rig_path(&r, "/srv/d/f"));
    rmdir(rig_path(&r, "/srv/d"));
    rig_run(&r, SETTLE_MS);
    is_str(rig_read(&r, "/srv/d/f"), "x", "removed with what is in it: both are made again");
    is_int(rig_mode(&r, "/srv/d"), 0755, "the directory as it was");
    rig_end(&r);
}

static void test_foreign_content(void)
{
    struct rig r;
    rig_start(&r);
    apply(&r, DIR("") WITH_FILE "}");
    rig_write(&r, "/srv/d/theirs", "t", 0644);
    delete (&r);
    is_str(rig_read(&r, "/srv/d/theirs"), "t", "what somebody else put there stays, and its directory");
    ok(!is_there(&r, "/srv/d/f"), "our file does not");
    is_int(rig_events(&r, "KeptForeign"), 1, "which is told");
    rig_end(&r);
}

static void test_policies(void)
{
    struct rig r;
    rig_start(&r);
    must_be_dir(&r, "/srv/d", 0700);
    apply(&r, DIR(",\"mode\":\"0750\"") "}");
    is_int(rig_mode(&r, "/srv/d"), 0750, "one that is there: its mode is changed");
    delete (&r);
    is_int(rig_mode(&r, "/srv/d"), 0700, "Restore: as it was, and still there");
    apply(&r, DIR("") ",\"deletionPolicy\":\"Keep\"}");
    delete (&r);
    is_int(rig_mode(&r, "/srv/d"), 0755, "Keep: as it is");
    apply(&r, DIR("") ",\"deletionPolicy\":\"Delete\"}");
    delete (&r);
    ok(!is_there(&r, "/srv/d"), "Delete: removed, for it is empty");
    rig_end(&r);
}

static void test_leaves_the_list(void)
{
    struct rig r;
    rig_start(&r);
    apply(&r, DIR("") WITH_FILE "}");
    apply(&r, "{\"directories\":[{\"path\":\"/srv/e\"}]}");
    ok(!is_there(&r, "/srv/d") && is_there(&r, "/srv/e"), "one that leaves the list goes after its file");
    apply(&r, "{\"files\":[{\"path\":\"/srv/e/f\",\"content\":\"x\"}]}");
    ok(is_there(&r, "/srv/e/f"), "one that leaves while a file of the new list is in it stays");
    is_int(rig_events(&r, "KeptForeign"), 1, "which is told");
    rig_end(&r);
}

static void test_in_the_way(void)
{
    struct rig r;
    rig_start(&r);
    rig_write(&r, "/srv/d", "a file", 0644);
    apply(&r, DIR("") "}");
    is_str(rig_condition(&r, CFG, "Ready"), "False NotADirectory", "a file where the directory should be");
    has_str(rig_message(&r, CFG, "Ready"), "/srv/d: is no directory", "says which");
    is_str(rig_read(&r, "/srv/d"), "a file", "and stays");
    delete (&r);
    is_str(rig_read(&r, "/srv/d"), "a file", "also at the end");
    unlink(rig_path(&r, "/srv/d"));
    must_be_dir(&r, "/srv/real", 0700);
    ok(symlink("real", rig_path(&r, "/srv/d")) == 0, "a symbolic link");
    apply(&r, DIR(",\"mode\":\"0777\"") "}");
    is_str(rig_condition(&r, CFG, "Accepted"), "False PathRefused", "is refused");
    is_int(rig_mode(&r, "/srv/real"), 0700, "and what it leads to is not touched");
    rig_end(&r);
}

static void test_replaced_by_a_file(void)
{
    struct rig r;
    rig_start(&r);
    apply(&r, DIR("") "}");
    rmdir(rig_path(&r, "/srv/d"));
    rig_write(&r, "/srv/d", "theirs", 0644);
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, CFG, "Ready"), "False NotADirectory", "somebody put a file in its place");
    delete (&r);
    is_str(rig_read(&r, "/srv/d"), "theirs", "it is not removed");
    is_int(rig_events(&r, "KeptForeign"), 1, "which is told");
    rig_end(&r);
}

static void test_owners(void)
{
    struct rig r;
    rig_start(&r);
    apply(&r, DIR("") "}");
    rig_apply(&r, "edgeconfigs", "guest", "{\"files\":[{\"path\":\"/srv/d/theirs\",\"content\":\"g\"}]}");
    rig_apply(&r, "edgeconfigs", "rival", "{\"directories\":[{\"path\":\"/srv/d\",\"mode\":\"0700\"}]}");
    rig_apply(&r, "edgeconfigs", "file", "{\"files\":[{\"path\":\"/srv/d\",\"content\":\"g\"}]}");
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, "edgeconfigs", "guest", "Ready"), "True AllApplied", "another EdgeConfig may have a file in it");
    is_str(rig_condition(&r, "edgeconfigs", "rival", "Accepted"), "False PathConflict", "but not the directory itself");
    is_str(rig_condition(&r, "edgeconfigs", "file", "Accepted"), "False PathConflict", "nor a file in its place");
    is_int(rig_mode(&r, "/srv/d"), 0755, "it is as it was");
    rig_apply(&r, "edgeconfigs", "below", "{\"directories\":[{\"path\":\"/srv/d/theirs/x\"}]}");
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, "edgeconfigs", "below", "Accepted"), "False PathConflict", "nor a directory below a file");
    delete (&r);
    is_str(rig_read(&r, "/srv/d/theirs"), "g", "deleted: the guest's file stays");
    rig_end(&r);
}

static void test_validate_and_change(void)
{
    struct rig r;
    rig_start(&r);
    struct fake_behaviour b = { .run_ms = -1, .run_code = 1, .run_delay_ms = 10 };
    port_fake_behave(r.port, NULL, &b);
    apply(&r, DIR("") WITH_FILE ",\"validate\":{\"command\":[\"check\"]}}");
    is_str(rig_condition(&r, CFG, "Ready"), "False ValidationFailed", "the files are refused");
    ok(!is_there(&r, "/srv/d"), "no directory is made for them");
    rig_end(&r);
}

static void test_crash(void)
{
    struct rig r;
    rig_start(&r);
    apply(&r, DIR("") "}");
    rig_crash(&r);
    rig_run(&r, SETTLE_MS);
    delete (&r);
    ok(!is_there(&r, "/srv/d"), "another agent knows that it was made");
    rig_end(&r);
}

int main(void)
{
    test_made();
    test_drift();
    test_foreign_content();
    test_policies();
    test_leaves_the_list();
    test_in_the_way();
    test_replaced_by_a_file();
    test_owners();
    test_validate_and_change();
    test_crash();
    return done_testing();
}
