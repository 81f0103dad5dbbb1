// SPDX-License-Identifier: Apache-2.0
// The contract of port.h, the same cases for every port. A new port: a line in `ports` and what rig.c needs to know of it.
#include <errno.h>
#include <signal.h>

#include "rig.h"
#include "shim/spec.h"
#include "tap.h"

static const char *const ports[] = { "exec", "systemd", "systemd-boot", "container", "null", "fake" };

static const char APP[] = "edgeapps/ns/app";

struct test_case {
    const char *name;
    unsigned needs; // RIG_*
    void (*fn)(struct rig *r);
};

#define starts(r, uid, owner, index, what)                                        \
    ({                                                                            \
        struct err e_ = ERR_INIT;                                                 \
        int rc_ = rig_start(r, uid, owner, index, what, &e_);                     \
        is_str(rc_ == 0 ? "" : e_.msg, "", "%s: %s is accepted", (r)->name, uid); \
    })

// --- life of an instance

static void start_and_observe(struct rig *r)
{
    struct inst i = { 0 };
    starts(r, "a-1", APP, 4, RUNS);
    ok(rig_state(r, "a-1") == INST_STARTING || rig_state(r, "a-1") == INST_RUNNING, "%s: is observed at once", r->name);
    is_int(r->changes, 0, "%s: nobody is called from inside start()", r->name);
    ok(rig_until_state(r, "a-1", INST_RUNNING), "%s: runs", r->name);
    rig_turns(r, 3);
    ok(r->changes > 0, "%s: the change is told", r->name);
    is_str(r->owner, APP, "%s: with its owner", r->name);
    ok(rig_inst(r, "a-1", &i), "%s: is observed", r->name);
    is_str(i.owner, APP, "%s: owner", r->name);
    is_str(i.revision, "r1", "%s: revision", r->name);
    is_int(i.index, 4, "%s: index", r->name);
    is_int(strlen(i.started.boot_id), 36, "%s: start has a boot id", r->name);
    ok(i.started.boot_ms <= clock_boot(&r->clock), "%s: start is not in the future", r->name);
    if (r->can & RIG_REAL)
        ok(rig_alive(i.pid), "%s: has a process", r->name);
}

static void zero_is_valid(struct rig *r)
{
    const char *argv[] = { "true", NULL };
    struct inst_spec s = { .uid = "zero", .owner = APP, .exec = { .argv = argv } };
    struct inst i = { 0 };
    struct err e = ERR_INIT;
    if (strcmp(r->name, "fake") == 0)
        port_fake_behave(r->port, NULL, &(struct fake_behaviour){ .run_ms = 0 });
    is_int(rig_start_spec(r, &s, &e), 0, "%s: uid, owner and argv are enough", r->name);
    if (r->can & RIG_ENDS) {
        ok(rig_until_exited(r, "zero", &i), "%s: and it runs", r->name);
        is_int(i.exit.code, 0, "%s: to its end", r->name);
    }
}

static void refuses_bad_specs(struct rig *r)
{
    static const char *const good[] = { "true", NULL }, *const none[] = { NULL }, *const empty[] = { "", NULL };
    static const struct {
        const char *name;
        struct inst_spec s;
    } bad[] = {
        { "no uid", { .owner = APP, .exec.argv = good } },
        { "uid with a slash", { .uid = "../x", .owner = APP, .exec.argv = good } },
        { "uid that begins with a dot", { .uid = ".x", .owner = APP, .exec.argv = good } },
        { "uid in capitals", { .uid = "X", .owner = APP, .exec.argv = good } },
        { "uid too long", { .uid = "0123456789012345678901234567890123456789012345678901234567890123", .owner = APP, .exec.argv = good } },
        { "no owner", { .uid = "x", .exec.argv = good } },
        { "owner with a newline", { .uid = "x", .owner = "a\nb", .exec.argv = good } },
        { "no argv", { .uid = "x", .owner = APP } },
        { "empty argv", { .uid = "x", .owner = APP, .exec.argv = none } },
        { "empty command", { .uid = "x", .owner = APP, .exec.argv = empty } },
        { "log name with a slash", { .uid = "x", .owner = APP, .exec.argv = good, .log_name = "a/b" } },
        { "log name ..", { .uid = "x", .owner = APP, .exec.argv = good, .log_name = ".." } },
        { "negative grace", { .uid = "x", .owner = APP, .exec.argv = good, .grace_ms = -5 } },
        { "too many log files", { .uid = "x", .owner = APP, .exec.argv = good, .log_files = 17 } },
        { "revision too long", { .uid = "x", .owner = APP, .exec.argv = good, .revision = "0123456789012345678901234" } },
    };
    for (size_t k = 0; k < ARRAY_LEN(bad); k++) {
        struct err e = ERR_INIT;
        is_int(rig_start_spec(r, &bad[k].s, &e), E_INVAL, "%s: %s is refused", r->name, bad[k].name);
        ok(e.msg[0] != '\0', "%s: %s: and why", r->name, bad[k].name);
    }
    is_int(rig_count(r, NULL), 0, "%s: nothing was started", r->name);
}

static void exit_codes(struct rig *r)
{
    struct inst i = { 0 };
    starts(r, "zero", APP, 0, EXITS_0);
    ok(rig_until_exited(r, "zero", &i), "%s: ends", r->name);
    ok(i.exit.known && i.exit.code == 0 && i.exit.signal == 0 && i.exit.start_errno == 0, "%s: with exit code 0", r->name);
    is_str(i.exit.reason, "Completed", "%s: reason", r->name);
    is_int(i.pid, 0, "%s: has no process any more", r->name);
    ok(i.ended.boot_ms >= i.started.boot_ms, "%s: ended after it was started", r->name);
    is_str(i.ended.boot_id, i.started.boot_id, "%s: in the same boot", r->name);
    starts(r, "three", "edgeapps/ns/other", 0, EXITS_3);
    ok(rig_until_exited(r, "three", &i), "%s: ends", r->name);
    is_int(i.exit.code, 3, "%s: exit code 3", r->name);
    is_str(i.exit.reason, "Error", "%s: reason", r->name);
    unsigned before = r->changes;
    rig_turns(r, 3);
    ok(r->changes <= before + 1, "%s: and is then quiet", r->name);
}

static void killed_by_signal(struct rig *r)
{
    struct inst i = { 0 };
    struct err e = ERR_INIT;
    starts(r, "a", APP, 0, RUNS);
    ok(rig_until_state(r, "a", INST_RUNNING), "%s: runs", r->name);
    is_int(r->port->ops->signal(r->port, "a", SIGKILL, &e), 0, "%s: is sent SIGKILL", r->name);
    ok(rig_until_exited(r, "a", &i), "%s: ends", r->name);
    is_int(i.exit.signal, SIGKILL, "%s: by signal 9", r->name);
    is_int(i.exit.code, -1, "%s: without an exit code", r->name);
    ok(i.exit.known, "%s: that is known", r->name);
    is_str(i.exit.reason, "Error", "%s: reason", r->name);
}

static void cannot_start(struct rig *r)
{
    struct inst i = { 0 };
    starts(r, "a", APP, 0, CANNOT_START);
    ok(rig_until_exited(r, "a", &i), "%s: ends", r->name);
    is_int(i.exit.start_errno, ENOENT, "%s: never ran: ENOENT", r->name);
    is_str(i.exit.reason, "StartError", "%s: reason", r->name);
    has_str(i.exit.detail, "No such file or directory", "%s: in words", r->name);
    is_int(rig_forget(r, "a"), 0, "%s: is forgotten", r->name);
    is_int(rig_state(r, "a"), -1, "%s: and gone", r->name);
}

// --- ending

static void stop_within_grace(struct rig *r)
{
    struct inst i = { 0 };
    starts(r, "a", APP, 0, RUNS);
    ok(rig_until_state(r, "a", INST_RUNNING), "%s: runs", r->name);
    rig_turns(r, 2);
    unsigned before = r->changes;
    is_int(rig_stop(r, "a", 3600 * 1000), 0, "%s: is told to stop within an hour", r->name);
    is_int(r->changes, before, "%s: nobody is called from inside stop()", r->name);
    ok(rig_state(r, "a") == INST_STOPPING || rig_state(r, "a") == INST_EXITED, "%s: is stopping", r->name);
    ok(rig_until_exited(r, "a", &i), "%s: obeys at once", r->name);
    ok(i.exit.known, "%s: how it ended is known", r->name);
    if (r->can & RIG_ENDS)
        is_int(i.exit.signal, SIGTERM, "%s: by SIGTERM", r->name);
}

static void start_stubborn(struct rig *r, const char *uid)
{
    starts(r, uid, APP, 0, STUBBORN);
    ok(rig_until_state(r, uid, INST_RUNNING), "%s: runs", r->name);
    if (r->can & RIG_REAL)
        ok(rig_until_file(r, "stubborn", 1), "%s: ignores SIGTERM now", r->name);
}

static void killed_after_grace(struct rig *r)
{
    struct inst i = { 0 };
    start_stubborn(r, "a");
    rig_turns(r, 1); // timers count from the turn's time
    int64_t begin = clock_mono(&r->clock);
    is_int(rig_stop(r, "a", 300), 0, "%s: is told to stop within 300 ms", r->name);
    ok(rig_until_exited(r, "a", &i), "%s: ends", r->name);
    is_int(i.exit.signal, SIGKILL, "%s: by SIGKILL", r->name);
    ok(clock_mono(&r->clock) - begin >= 300, "%s: not before the grace was over", r->name);
}

static void no_grace(struct rig *r)
{
    struct inst i = { 0 };
    start_stubborn(r, "a");
    is_int(rig_stop(r, "a", 0), 0, "%s: is to end at once", r->name);
    ok(rig_until_exited(r, "a", &i), "%s: ends", r->name);
    is_int(i.exit.signal, SIGKILL, "%s: by SIGKILL", r->name);
}

static void grace_of_spec(struct rig *r)
{
    static const char *const argv[] = { "/bin/sh", "-c", "trap '' TERM; echo ready >>\"$RIG/stubborn\"; while :; do sleep 0.1; done",
                                        NULL };
    char where[256];
    snprintf(where, sizeof(where), "RIG=%s", r->dir);
    const char *env[] = { where, "PATH=/usr/bin:/bin", NULL };
    struct inst_spec s = { .uid = "a", .owner = APP, .exec = { .argv = argv, .env = env }, .grace_ms = 200 };
    struct inst i = { 0 };
    struct err e = ERR_INIT;
    if (strcmp(r->name, "fake") == 0)
        port_fake_behave(r->port, APP, &(struct fake_behaviour){ .run_ms = -1, .stop_ms = 3600 * 1000 });
    is_int(rig_start_spec(r, &s, &e), 0, "%s: starts with a grace of 200 ms", r->name);
    ok(rig_until_state(r, "a", INST_RUNNING), "%s: runs", r->name);
    if (r->can & RIG_REAL)
        ok(rig_until_file(r, "stubborn", 1), "%s: ignores SIGTERM now", r->name);
    is_int(rig_stop(r, "a", -1), 0, "%s: is told to stop within its own grace", r->name);
    ok(rig_until_exited(r, "a", &i), "%s: ends", r->name);
    is_int(i.exit.signal, SIGKILL, "%s: by SIGKILL", r->name);
}

static void earlier_end_counts(struct rig *r)
{
    struct inst i = { 0 };
    start_stubborn(r, "a");
    is_int(rig_stop(r, "a", 3600 * 1000), 0, "%s: is told to stop within an hour", r->name);
    rig_turns(r, 3);
    is_int(rig_state(r, "a"), INST_STOPPING, "%s: takes its time", r->name);
    is_int(rig_stop(r, "a", 7200 * 1000), 0, "%s: a later end changes nothing", r->name);
    is_int(rig_stop(r, "a", 100), 0, "%s: an earlier end", r->name);
    ok(rig_until_exited(r, "a", &i), "%s: counts", r->name);
    is_int(i.exit.signal, SIGKILL, "%s: by SIGKILL", r->name);
}

static void idempotent(struct rig *r)
{
    struct inst a = { 0 }, b = { 0 };
    is_int(rig_stop(r, "nobody", 10), 0, "%s: stopping the unknown succeeds", r->name);
    is_int(rig_forget(r, "nobody"), 0, "%s: forgetting the unknown succeeds", r->name);
    starts(r, "a", APP, 0, RUNS);
    starts(r, "a", APP, 0, RUNS);
    ok(rig_until_state(r, "a", INST_RUNNING) && rig_inst(r, "a", &a), "%s: runs", r->name);
    starts(r, "a", APP, 0, RUNS);
    is_int(rig_count(r, NULL), 1, "%s: started three times, there once", r->name);
    is_int(rig_forget(r, "a"), E_BUSY, "%s: who runs is not forgotten", r->name);
    ok(rig_inst(r, "a", &b) && b.pid == a.pid, "%s: it is still the same", r->name);
    is_int(rig_stop(r, "a", 60 * 1000), 0, "%s: stop", r->name);
    is_int(rig_stop(r, "a", 60 * 1000), 0, "%s: stop again", r->name);
    ok(rig_until_exited(r, "a", &a), "%s: ended", r->name);
    is_int(rig_stop(r, "a", 60 * 1000), 0, "%s: stopping what has ended", r->name);
    starts(r, "a", APP, 0, RUNS);
    rig_turns(r, 3);
    is_int(rig_state(r, "a"), INST_EXITED, "%s: what has ended is not started again under its uid", r->name);
    is_int(rig_forget(r, "a"), 0, "%s: forget", r->name);
    is_int(rig_forget(r, "a"), 0, "%s: forget again", r->name);
    is_int(rig_count(r, NULL), 0, "%s: nothing is left", r->name);
}

static void signals(struct rig *r)
{
    struct err e = ERR_INIT;
    is_int(r->port->ops->signal(r->port, "nobody", SIGHUP, &e), E_NOTFOUND, "%s: no signal to the unknown", r->name);
    starts(r, "a", APP, 0, RUNS);
    ok(rig_until_state(r, "a", INST_RUNNING), "%s: runs", r->name);
    is_int(r->port->ops->signal(r->port, "a", 0, &e), E_INVAL, "%s: signal 0 is none", r->name);
    is_int(r->port->ops->signal(r->port, "a", 1000, &e), E_INVAL, "%s: signal 1000 is none", r->name);
    is_int(r->port->ops->signal(r->port, "a", SIGCONT, &e), 0, "%s: SIGCONT is sent", r->name);
    rig_stop(r, "a", 0);
    ok(rig_until_state(r, "a", INST_EXITED), "%s: ended", r->name);
    is_int(r->port->ops->signal(r->port, "a", SIGHUP, &e), E_NOTFOUND, "%s: no signal to what has ended", r->name);
}

static void signal_arrives(struct rig *r)
{
    struct inst i = { 0 };
    struct err e = ERR_INIT;
    is_int(rig_script(r, "a", "trap 'exit 7' USR1; echo ready >>\"$RIG/ready\"; while :; do sleep 0.05; done", &e), 0, "starts");
    ok(rig_until_file(r, "ready", 1) && rig_until_state(r, "a", INST_RUNNING), "has set its trap");
    is_int(r->port->ops->signal(r->port, "a", SIGUSR1, &e), 0, "is sent SIGUSR1");
    ok(rig_until_exited(r, "a", &i), "ends");
    is_int(i.exit.code, 7, "from its trap");
}

// --- more than one

struct seen {
    char text[400];
    int stop_after;
};

static int note(void *ctx, const struct inst *i)
{
    struct seen *s = ctx;
    size_t n = strlen(s->text);
    snprintf(s->text + n, sizeof(s->text) - n, "%s ", i->uid);
    return --s->stop_after == 0 ? 42 : 0;
}

static void order(struct rig *r)
{
    struct seen s = { .text = "" };
    struct err e = ERR_INIT;
    starts(r, "b1", "edgeapps/ns/b", 1, RUNS);
    starts(r, "b0", "edgeapps/ns/b", 0, RUNS);
    starts(r, "a5", "edgeapps/ns/a", 5, RUNS);
    rig_until_state(r, "b0", INST_RUNNING);
    starts(r, "b0.later", "edgeapps/ns/b", 0, RUNS);
    ok(rig_until_state(r, "b0.later", INST_RUNNING) && rig_until_state(r, "a5", INST_RUNNING), "%s: run", r->name);
    is_int(r->port->ops->each(r->port, NULL, note, &s, &e), 0, "%s: each", r->name);
    is_str(s.text, "a5 b0 b0.later b1 ", "%s: by owner, index, start", r->name);
    s = (struct seen){ .text = "" };
    is_int(r->port->ops->each(r->port, "edgeapps/ns/b", note, &s, &e), 0, "%s: each of one owner", r->name);
    is_str(s.text, "b0 b0.later b1 ", "%s: only his", r->name);
    s = (struct seen){ .text = "", .stop_after = 2 };
    is_int(r->port->ops->each(r->port, NULL, note, &s, &e), 42, "%s: what fn returns ends the walk", r->name);
    is_str(s.text, "a5 b0 ", "%s: there", r->name);
    is_int(rig_count(r, "edgeapps/ns/nobody"), 0, "%s: an owner without instances", r->name);
}

static const char *numbered(int k)
{
    static char uid[INST_UID_MAX];
    snprintf(uid, sizeof(uid), "many-%d", k);
    return uid;
}

static bool all_in_state(struct rig *r, void *ctx)
{
    const int *want = ctx;
    for (int k = 0; k < 64; k++)
        if (rig_state(r, numbered(k)) != *want)
            return false;
    return true;
}

static void many(struct rig *r)
{
    struct err e = ERR_INIT;
    int running = INST_RUNNING, exited = INST_EXITED, failed = 0;
    for (int k = 0; k < 64; k++)
        failed += rig_start(r, numbered(k), APP, k, RUNS, &e) != 0;
    is_int(failed, 0, "%s: 64 instances are accepted", r->name);
    ok(rig_until(r, all_in_state, &running), "%s: 64 instances run", r->name);
    for (int k = 0; k < 64; k++)
        failed += rig_stop(r, numbered(k), 60 * 1000) != 0;
    ok(rig_until(r, all_in_state, &exited), "%s: 64 instances end", r->name);
    for (int k = 0; k < 64; k++)
        failed += rig_forget(r, numbered(k)) != 0;
    is_int(failed, 0, "%s: each verb succeeded", r->name);
    is_int(rig_count(r, NULL), 0, "%s: nothing is left", r->name);
}

static void bound(struct rig *r)
{
    struct err e = ERR_INIT;
    int failed = 0;
    for (int k = 0; k < PORT_INSTANCES_MAX; k++)
        failed += rig_start(r, numbered(k), APP, k, RUNS, &e) != 0;
    is_int(failed, 0, "%s: as many as there may be", r->name);
    is_int(rig_start(r, "one-more", APP, 0, RUNS, &e), E_BUSY, "%s: one more is refused", r->name);
    is_int(rig_start(r, "many-5", APP, 5, RUNS, &e), 0, "%s: one of them again is not", r->name);
}

static void on_change_forget(struct rig *r, const char *owner UNUSED)
{
    struct err e = ERR_INIT;
    if (rig_state(r, "a") == INST_EXITED)
        r->port->ops->forget(r->port, "a", &e);
    if (rig_state(r, "next") == -1)
        (void)!rig_start(r, "next", APP, 0, RUNS, &e);
}

static bool replaced(struct rig *r, void *ctx UNUSED)
{
    return rig_state(r, "next") == INST_RUNNING && rig_state(r, "a") == -1;
}

static void callbacks_may_act(struct rig *r)
{
    starts(r, "a", APP, 0, RUNS);
    ok(rig_until_state(r, "a", INST_RUNNING), "%s: runs", r->name);
    r->on_change = on_change_forget;
    rig_stop(r, "a", 0);
    ok(rig_until(r, replaced, NULL), "%s: changed() may start another and forget what ended", r->name);
}

// --- what a process sees

enum { HOSTILES = 24, WORDS_MAX = 12, VARS_MAX = 8, TEXT_MAX = 64 };

static uint64_t dice = 20261130;

static size_t roll(size_t n)
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return (size_t)(dice % n);
}

// Texts in which shells, systemd and their like see something else than text.
static void hostile_text(char out[TEXT_MAX])
{
    static const char *const pieces[] = { "%",     "%n",     "%%",         "$",  "$$",  "${HOME}", "$HOME", "\"",   "'",    "\\",
                                          "\\x41", "\\n",    "\n",         "\r", "\t",  " ",       ";",     "&",    "|",    "#",
                                          "=",     "`id`",   "*",          "?",  "[a]", "{b}",     "~",     "-",    "--",   "@",
                                          "+",     "!",      ":",          ",",  "(",   ")",       "<",     ">",    "\x01", "\x1b",
                                          "\x7f",  "\u00e9", "\U0001f600", "a",  "Z",   "9",       "\\\n",  "\"\"", "''" };
    out[0] = '\0';
    for (size_t n = roll(7); n > 0; n--)
        snprintf(out + strlen(out), TEXT_MAX - strlen(out), "%s", pieces[roll(ARRAY_LEN(pieces))]);
}

struct hostile {
    char words[WORDS_MAX][TEXT_MAX], vars[VARS_MAX + 2][256];
    const char *argv[WORDS_MAX + 1], *env[VARS_MAX + 3];
};

static void make_hostile(const struct rig *r, int k, struct hostile *h)
{
    size_t n_words = 1 + roll(WORDS_MAX - 1), n_vars = roll(VARS_MAX);
    *h = (struct hostile){ .argv = { rig_exe() } };
    for (size_t i = 1; i < n_words; i++) {
        hostile_text(h->words[i]);
        h->argv[i] = h->words[i];
    }
    for (size_t i = 0; i < n_vars; i++) {
        char value[TEXT_MAX];
        hostile_text(value);
        snprintf(h->vars[i], sizeof(h->vars[i]), "_Var%zu=%s", i, value);
        h->env[i] = h->vars[i];
    }
    snprintf(h->vars[n_vars], sizeof(h->vars[0]), RIG_DUMP "=%s/dump-%d", r->dir, k);
    h->env[n_vars] = h->vars[n_vars];
}

static bool is_allowed(const char *var)
{
    static const char *const own[] = { SPEC_MARK "=", "INVOCATION_ID=", "JOURNAL_STREAM=", "SYSTEMD_EXEC_PID=",
                                       // of an image, and of podman:
                                       "PATH=", "HOME=", "HOSTNAME=", "TERM=", "container=" };
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        if (strncmp(var, own[i], strlen(own[i])) == 0)
            return true;
    return false;
}

// "" when the process saw what the spec says and nothing else, in whatever order its environment is.
static const char *compare(const struct hostile *h, const char *dump, size_t len)
{
    static char wrong[512];
    size_t words = 0, vars = 0, i;
    for (const char *p = dump; p < dump + len; p += strlen(p) + 1) {
        const char *const *list = *p == 'A' ? &h->argv[words] : h->env;
        for (i = 0; list[i] != NULL && strcmp(list[i], p + 1) != 0; i++)
            ;
        snprintf(wrong, sizeof(wrong), "it saw %.400s", p);
        if (*p == 'A' && (list[0] == NULL || i != 0))
            return wrong;
        if (*p == 'E' && list[i] == NULL && !is_allowed(p + 1))
            return wrong;
        words += *p == 'A';
        vars += *p == 'E' && list[i] != NULL;
    }
    for (i = 0; h->env[i] != NULL; i++)
        ;
    snprintf(wrong, sizeof(wrong), "it saw %zu words, %zu of %zu variables", words, vars, i);
    return h->argv[words] == NULL && vars == i ? "" : wrong;
}

static bool all_dumped(struct rig *r, void *ctx UNUSED)
{
    struct inst i;
    char uid[INST_UID_MAX];
    for (int k = 0; k < HOSTILES; k++) {
        snprintf(uid, sizeof(uid), "hostile-%d", k);
        if (!rig_inst(r, uid, &i) || i.state != INST_EXITED)
            return false;
    }
    return true;
}

static const char *dump_of(struct rig *r, int k, char *out, size_t size, size_t *len)
{
    snprintf(out, size, "%s/dump-%d", r->dir, k);
    FILE *f = fopen(out, "r");
    *len = f != NULL ? fread(out, 1, size, f) : 0;
    if (f != NULL)
        fclose(f);
    return out;
}

static void hostile_texts(struct rig *r)
{
    static struct hostile h[HOSTILES];
    static char dump[32768];
    struct err e = ERR_INIT;
    char uid[INST_UID_MAX];
    size_t len;
    for (int k = 0; k < HOSTILES; k++) {
        make_hostile(r, k, &h[k]);
        snprintf(uid, sizeof(uid), "hostile-%d", k);
        struct inst_spec s = { .uid = uid, .owner = APP, .index = k, .exec = { .argv = h[k].argv, .env = h[k].env } };
        is_str(rig_start_spec(r, &s, &e) == 0 ? "" : e.msg, "", "%s: hostile texts %d are accepted", r->name, k);
    }
    ok(rig_until(r, all_dumped, NULL), "%s: the programs run to their end", r->name);
    for (int k = 0; k < HOSTILES; k++) {
        const char *text = dump_of(r, k, dump, sizeof(dump), &len);
        is_str(compare(&h[k], text, len), "", "%s: process %d sees its spec, byte for byte", r->name, k);
    }
}

// --- the agent dies

static void adopt_running(struct rig *r)
{
    struct inst before = { 0 }, after = { 0 };
    struct err e = ERR_INIT;
    starts(r, "a", APP, 2, RUNS);
    ok(rig_until_state(r, "a", INST_RUNNING) && rig_inst(r, "a", &before), "%s: runs", r->name);
    ok(rig_new_agent(r), "%s: the agent dies, another comes", r->name);
    is_int(rig_count(r, NULL), 0, "%s: which knows nothing before it adopts", r->name);
    r->changes = 0;
    r->inside = true;
    is_int(r->port->ops->adopt(r->port, &e), 0, "%s: adopts", r->name);
    r->inside = false;
    ok(rig_until_state(r, "a", INST_RUNNING) && rig_inst(r, "a", &after), "%s: it still runs", r->name);
    rig_turns(r, 2);
    ok(r->changes > 0, "%s: that is told", r->name);
    is_str(r->owner, APP, "%s: with its owner", r->name);
    is_int(after.pid, before.pid, "%s: it is the same process", r->name);
    is_int(after.index, 2, "%s: index", r->name);
    is_str(after.revision, "r1", "%s: revision", r->name);
    is_int(after.started.boot_ms, before.started.boot_ms, "%s: start", r->name);
    is_int(after.started.wall_us, before.started.wall_us, "%s: start by the wall", r->name);
    starts(r, "a", APP, 2, RUNS);
    ok(rig_inst(r, "a", &after) && after.pid == before.pid, "%s: it is not started again", r->name);
    is_int(rig_stop(r, "a", 60 * 1000), 0, "%s: it can be stopped", r->name);
    ok(rig_until_exited(r, "a", &after), "%s: ends", r->name);
    is_int(after.exit.signal, SIGTERM, "%s: how is known", r->name);
    is_int(rig_forget(r, "a"), 0, "%s: is forgotten", r->name);
    ok(rig_new_agent(r) && r->port->ops->adopt(r->port, &e) == 0 && rig_count(r, NULL) == 0, "%s: for good", r->name);
}

static void exit_after_adoption(struct rig *r)
{
    struct inst i = { 0 };
    struct err e = ERR_INIT;
    starts(r, "a", APP, 0, EXITS_7_LATER);
    ok(rig_until_state(r, "a", INST_RUNNING), "%s: runs", r->name);
    ok(rig_new_agent(r) && r->port->ops->adopt(r->port, &e) == 0, "%s: another agent adopts", r->name);
    ok(rig_until_exited(r, "a", &i), "%s: ends", r->name);
    ok(i.exit.known && i.exit.code == 7, "%s: its exit code is seen by who did not start it", r->name);
}

static bool later(struct rig *r, void *ctx)
{
    return clock_mono(&r->clock) > *(int64_t *)ctx;
}

static void exit_without_agent(struct rig *r)
{
    struct inst i = { 0 };
    struct err e = ERR_INIT;
    starts(r, "a", APP, 0, EXITS_7_LATER);
    ok(rig_until_state(r, "a", INST_RUNNING), "%s: runs", r->name);
    ok(rig_new_agent(r), "%s: the agent dies", r->name);
    int64_t at = clock_mono(&r->clock) + 1000;
    ok(rig_until(r, later, &at), "%s: time passes", r->name);
    is_int(r->port->ops->adopt(r->port, &e), 0, "%s: another adopts", r->name);
    ok(rig_until_exited(r, "a", &i), "%s: it has ended meanwhile", r->name);
    ok(i.exit.known && i.exit.code == 7, "%s: with the exit code nobody waited for", r->name);
    ok(i.ended.boot_ms <= clock_boot(&r->clock) - 100, "%s: when it ended, not when that was found", r->name);
}

static void stop_goes_on(struct rig *r)
{
    struct inst i = { 0 };
    struct err e = ERR_INIT;
    start_stubborn(r, "a");
    is_int(rig_stop(r, "a", 400), 0, "%s: is told to stop", r->name);
    ok(rig_new_agent(r) && r->port->ops->adopt(r->port, &e) == 0, "%s: the agent dies, another adopts", r->name);
    ok(rig_state(r, "a") == INST_STOPPING || rig_state(r, "a") == INST_EXITED, "%s: it is stopping", r->name);
    ok(rig_until_exited(r, "a", &i), "%s: ends without being told again", r->name);
    is_int(i.exit.signal, SIGKILL, "%s: by SIGKILL", r->name);
}

static const struct test_case cases[] = {
    { "start and observe", 0, start_and_observe },
    { "zero is valid", 0, zero_is_valid },
    { "bad specs", 0, refuses_bad_specs },
    { "exit codes", RIG_ENDS, exit_codes },
    { "killed by a signal", RIG_ENDS, killed_by_signal },
    { "cannot be started", RIG_ENDS, cannot_start },
    { "stop within the grace", 0, stop_within_grace },
    { "killed after the grace", RIG_ENDS, killed_after_grace },
    { "no grace", RIG_ENDS, no_grace },
    { "the grace of the spec", RIG_ENDS, grace_of_spec },
    { "the earlier end counts", RIG_ENDS, earlier_end_counts },
    { "every verb twice", 0, idempotent },
    { "signals", 0, signals },
    { "a signal arrives", RIG_REAL, signal_arrives },
    { "order", 0, order },
    { "many", 0, many },
    { "the bound", RIG_CHEAP, bound },
    { "callbacks may act", 0, callbacks_may_act },
    { "hostile texts", RIG_REAL, hostile_texts },
    { "adopt what runs", RIG_ADOPTS, adopt_running },
    { "exit after adoption", RIG_ADOPTS, exit_after_adoption },
    { "exit without an agent", RIG_ADOPTS, exit_without_agent },
    { "a stop goes on", RIG_ADOPTS, stop_goes_on },
};

static void run_case(const char *port, const struct test_case *c)
{
    struct rig r;
    if (!rig_is_there(port) || (rig_abilities(port) & c->needs) != c->needs)
        return;
    diag("%s: %s", port, c->name);
    if (!ok(rig_init(&r, port), "%s: is made", port))
        return;
    c->fn(&r);
    is_int(r.calls_inside, 0, "%s: %s: no callback came from inside a call", port, c->name);
    rig_fini(&r);
}

// conformance_test [CASE [PORT]]; "" = all
static bool is_wanted(int argc, char **argv, int at, const char *name)
{
    return argc <= at || argv[at][0] == '\0' || strcmp(argv[at], name) == 0;
}

int main(int argc, char **argv)
{
    RIG_MAIN(argc, argv);
    for (size_t p = 0; p < ARRAY_LEN(ports); p++)
        for (size_t c = 0; c < ARRAY_LEN(cases); c++)
            if (is_wanted(argc, argv, 1, cases[c].name) && is_wanted(argc, argv, 2, ports[p]))
                run_case(ports[p], &cases[c]);
    return done_testing();
}
