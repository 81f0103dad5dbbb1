// SPDX-License-Identifier: Apache-2.0
// onChange.app, and templates.
#include "kinds/edgeconfig.c"

#include <signal.h>

#include "kind_rig.h"

#define CFG "edgeconfigs", "conf"
#define APP "edgeapps", "web"
#define FILE_A(text) "\"files\":[{\"path\":\"/etc/a\",\"content\":\"" text "\"}]"
#define RESTART ",\"onChange\":{\"app\":{\"name\":\"web\",\"restart\":true}}"
#define SIGNAL ",\"onChange\":{\"app\":{\"name\":\"web\",\"signal\":\"USR1\"}}"

static struct port_ops hands;
static const struct port_ops *real;
static int signals, last_signal, fail_signals;

static int counting_signal(struct port *p, const char *uid, int sig, struct err *e)
{
    if (fail_signals > 0) {
        fail_signals--;
        return err_sys(e, EPERM, "kill");
    }
    signals++;
    last_signal = sig;
    return real->signal(p, uid, sig, e);
}

static void lay_hands_on(struct rig *r)
{
    real = r->port->ops;
    hands = *real;
    hands.signal = counting_signal;
    r->port->ops = &hands;
}

static void start(struct rig *r)
{
    struct fake_behaviour b = { .start_ms = 50, .run_ms = -1, .stop_ms = 50, .check_ok = true };
    rig_start(r);
    signals = fail_signals = 0;
    lay_hands_on(r);
    port_fake_behave(r->port, NULL, &b);
}

struct uids {
    char text[400];
    int running;
};

static int add_uid(void *ctx, const struct inst *i)
{
    struct uids *u = ctx;
    size_t n = strlen(u->text);
    if (i->state != INST_RUNNING)
        return 0;
    u->running++;
    snprintf(u->text + n, sizeof(u->text) - n, "%s ", i->uid);
    return 0;
}

static void uids_of(struct rig *r, struct uids *u)
{
    struct err e = ERR_INIT;
    *u = (struct uids){ "", 0 };
    rig_must(r->port->ops->each(r->port, rig_key(r, APP), add_uid, u, &e), &e, "each");
}

static bool share_any(const struct uids *a, const struct uids *b)
{
    char copy[sizeof(a->text)], *save = NULL;
    memcpy(copy, a->text, sizeof(copy));
    for (char *w = strtok_r(copy, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save))
        if (strstr(b->text, w) != NULL)
            return true;
    return false;
}

static void test_signal(void)
{
    struct rig r;
    start(&r);
    rig_apply(&r, CFG, "{" FILE_A("one") SIGNAL "}");
    rig_run(&r, 1000);
    is_str(rig_read(&r, "/etc/a"), "one", "signal: the file is there");
    is_str(rig_condition(&r, CFG, "Ready"), "False AppNotFound", "there is no such app");
    has_str(rig_message(&r, CFG, "Ready"), "EdgeApp web", "which is named");
    rig_apply(&r, APP, "{\"command\":[\"x\"],\"replicas\":2}");
    rig_run(&r, 31000);
    is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "when there is one it goes on by itself");
    signals = 0;
    rig_apply(&r, CFG, "{" FILE_A("two") SIGNAL "}");
    rig_run(&r, 1000);
    is_int(signals, 2, "a change: each instance gets");
    is_int(last_signal, SIGUSR1, "that signal");
    fail_signals = 1;
    signals = 0;
    rig_apply(&r, CFG, "{" FILE_A("three") SIGNAL "}");
    rig_run(&r, 1000);
    ok(signals >= 2, "one that failed is owed, and sent again");
    is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "until it succeeded");
    rig_end(&r);
}

static void test_restart(void)
{
    struct rig r;
    struct uids before, now;
    start(&r);
    rig_apply(&r, APP, "{\"command\":[\"x\"],\"replicas\":3,\"update\":{\"minReadySeconds\":0}}");
    rig_apply(&r, CFG, "{" FILE_A("one") RESTART "}");
    rig_run(&r, 20000);
    is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "restart: ready");
    uids_of(&r, &before);
    is_int(before.running, 3, "three instances");
    rig_run(&r, 600000);
    uids_of(&r, &now);
    is_str(now.text, before.text, "which stay");
    rig_apply(&r, CFG, "{" FILE_A("two") RESTART "}");
    int least = 3;
    for (int i = 0; i < 200; i++) {
        rig_run(&r, 20);
        uids_of(&r, &now);
        least = MIN(least, now.running);
    }
    ok(!share_any(&before, &now), "a change: none of them is left");
    is_int(now.running, 3, "three others");
    is_int(least, 2, "never more than one was missing");
    rig_run(&r, 5000);
    is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "ready");
    is_str(rig_condition(&r, APP, "Ready"), "True AllReady", "the app, too");
    is_int(rig_events(&r, "BackOff"), 0, "nothing was taken for a crash");
    before = now;
    rig_crash(&r);
    rig_run(&r, 600000);
    uids_of(&r, &now);
    is_str(now.text, before.text, "the next agent restarts nothing");
    rig_end(&r);
}

// The agent dies before the restart was done: it is still owed, and is done once.
static void test_restart_over_crashes(void)
{
    for (int after = 0; after < 400; after += 40) {
        struct rig r;
        struct uids before, now;
        start(&r);
        rig_apply(&r, APP, "{\"command\":[\"x\"],\"replicas\":2}");
        rig_apply(&r, CFG, "{" FILE_A("one") RESTART "}");
        rig_run(&r, 20000);
        uids_of(&r, &before);
        rig_apply(&r, CFG, "{" FILE_A("two") RESTART "}");
        rig_run(&r, after);
        rig_crash(&r);
        rig_run(&r, 20000);
        uids_of(&r, &now);
        ok(now.running == 2 && !share_any(&before, &now), "killed %d ms after the change: both are new", after);
        is_str(rig_condition(&r, CFG, "Ready"), "True AllApplied", "  ready");
        rig_end(&r);
    }
}

static void test_template(void)
{
    struct rig r;
    start(&r);
    (void)mkdir(rig_path(&r, "/proc"), 0755);
    (void)mkdir(rig_path(&r, "/proc/sys"), 0755);
    (void)mkdir(rig_path(&r, "/proc/sys/kernel"), 0755);
    rig_write(&r, "/proc/sys/kernel/hostname", "hall-3\n", 0644);
    rig_apply(&r, CFG,
              "{\"files\":[{\"path\":\"/etc/a\",\"template\":true,\"content\":\"${node.name} ${node.namespace} ${node.hostname} $${x}\"},"
              "{\"path\":\"/etc/b\",\"content\":\"${node.name}\"}]}");
    rig_run(&r, 1000);
    is_str(rig_read(&r, "/etc/a"), "edge-1 edge-a hall-3 ${x}", "template: facts are put in");
    is_str(rig_read(&r, "/etc/b"), "${node.name}", "only where it is asked for");
    rig_write(&r, "/proc/sys/kernel/hostname", "hall-4\n", 0644);
    rig_run(&r, 400000);
    is_str(rig_read(&r, "/etc/a"), "edge-1 edge-a hall-4 ${x}", "a fact that changed makes the file anew");
    is_str(rig_field(&r, CFG, "driftRepairs"), "0", "which is no drift");
    rig_write(&r, "/proc/sys/kernel/hostname", "\n", 0644);
    rig_run(&r, 400000);
    is_str(rig_condition(&r, CFG, "Accepted"), "False FactUnknown", "a fact that the machine does not have");
    has_str(rig_message(&r, CFG, "Accepted"), "spec.files[0].content: line 1, column 32: nothing is known as ${node.hostname}", "where");
    is_str(rig_read(&r, "/etc/a"), "edge-1 edge-a hall-4 ${x}", "the file stays");
    rig_write(&r, "/proc/sys/kernel/hostname", "hall-5\n", 0644);
    rig_run(&r, 31000);
    is_str(rig_read(&r, "/etc/a"), "edge-1 edge-a hall-5 ${x}", "when it is known it goes on by itself");
    rig_apply(&r, CFG, "{\"files\":[{\"path\":\"/etc/a\",\"template\":true,\"content\":\"a\\n ${node.nmae}\"}]}");
    rig_run(&r, 1000);
    is_str(rig_condition(&r, CFG, "Accepted"), "False Invalid", "a name that nothing has");
    has_str(rig_message(&r, CFG, "Accepted"), "spec.files[0].content: line 2, column 2: nothing is known as ${node.nmae}",
            "and where it is");
    rig_end(&r);
}

int main(void)
{
    test_signal();
    test_restart();
    test_restart_over_crashes();
    test_template();
    return done_testing();
}
