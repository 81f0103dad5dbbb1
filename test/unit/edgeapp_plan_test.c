// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgeapp_plan.c"

#include "tap.h"

enum { NOW = 1000000, BOOT = 5000000, MAX_INSTS = 8 };
#define BOOT_ID "b00t"
#define REV "1-new"

// --- Plans. An instance is written "index state revision": s starting, r running and ready, u running and not ready, y ready
// and not for long enough, x one whose probe
// failed, p stopping, e ended; n new revision, o old.

struct plan_case {
    const char *name;
    int replicas;
    enum app_restart restart;
    const char *insts; // "0rn 1en"
    const char *slots; // one letter an index: - fresh, f failed and due, c completed and due, w failed and waits, R reported exit
    const char *want;  // "stop0 forget1 start1", in the order of the plan
    int64_t next_in;   // of the next start; 0 = none
};

static const struct plan_case plans[] = {
    { "nothing runs: start", 1, APP_ALWAYS, "", "-", "start0", 0 },
    { "three are missing", 3, APP_ALWAYS, "1rn", "---", "start0 start2", 0 },
    { "all is well", 2, APP_ALWAYS, "0rn 1sn", "--", "", 0 },
    { "replicas 0 stops all", 0, APP_ALWAYS, "0rn 1rn", "", "stop0 stop1", 0 },
    { "scaled down", 1, APP_ALWAYS, "0rn 1rn 2sn", "-", "stop1 stop2", 0 },
    { "superseded: stop first, start when it has ended", 1, APP_ALWAYS, "0ro", "-", "stop0", 0 },
    { "superseded and stopping: wait", 1, APP_ALWAYS, "0po", "-", "", 0 },
    { "current and stopping: wait", 1, APP_ALWAYS, "0pn", "-", "", 0 },
    { "superseded has ended: start the new one", 1, APP_ALWAYS, "0eo", "-", "start0", 0 },
    { "three are superseded: one at a time", 3, APP_ALWAYS, "0ro 1ro 2ro", "---", "stop0", 0 },
    { "one is stopping: the others wait", 3, APP_ALWAYS, "0po 1ro 2ro", "---", "", 0 },
    { "one is not back yet: the others wait", 3, APP_ALWAYS, "0sn 1ro 2ro", "---", "", 0 },
    { "one runs and is not ready: the others wait", 3, APP_ALWAYS, "0un 1ro 2ro", "---", "", 0 },
    { "it is ready, and not for long enough: the others wait", 3, APP_ALWAYS, "0yn 1ro 2ro", "---", "", 0 },
    { "it is available: the next", 3, APP_ALWAYS, "0rn 1ro 2ro", "---", "stop1", 0 },
    { "the new one crashes: the others stay", 3, APP_ALWAYS, "0en 1ro 2ro", "w--", "", 7000 },
    { "the new one has ended for good: the next", 3, APP_ON_FAILURE, "1ro 2ro", "c--", "stop1", 0 },
    { "old ones that are not ready go at once", 4, APP_ALWAYS, "0uo 1so 2xo 3ro", "----", "stop0 stop1 stop2", 0 },
    { "of the scaled down ones none is counted", 2, APP_ALWAYS, "0ro 1ro 2rn", "--", "stop0 stop2", 0 },
    { "its probe failed: stop", 1, APP_ALWAYS, "0xn", "-", "stop0", 0 },
    { "its probe failed, and the others live", 3, APP_ALWAYS, "0rn 1xn 2rn", "---", "stop1", 0 },
    { "two of one index: the older goes", 1, APP_ALWAYS, "0rn 0rn", "-", "stop0", 0 },
    { "an old and a new of one index: the old goes", 1, APP_ALWAYS, "0ro 0rn", "-", "stop0", 0 },
    { "ended, not reported yet: kept, and started again", 1, APP_ALWAYS, "0en", "f", "start0", 0 },
    { "ended and reported: forgotten", 1, APP_ALWAYS, "0en", "R", "forget0 start0", 0 },
    { "two ended: only the newest is kept", 1, APP_ALWAYS, "0en 0en", "f", "forget0 start0", 0 },
    { "ended with an index not wanted: forgotten", 1, APP_ALWAYS, "0rn 1en", "-", "forget1", 0 },
    { "ended while another runs", 1, APP_ALWAYS, "0en 0rn", "R", "forget0", 0 },
    { "crashed: wait for the backoff", 1, APP_ALWAYS, "0en", "w", "", 7000 },
    { "one waits, the other starts", 2, APP_ALWAYS, "", "wf", "start1", 7000 },
    { "Always starts after exit code 0", 1, APP_ALWAYS, "", "c", "start0", 0 },
    { "OnFailure does not start after exit code 0", 1, APP_ON_FAILURE, "", "c", "", 0 },
    { "OnFailure starts after a failure", 1, APP_ON_FAILURE, "", "f", "start0", 0 },
    { "OnFailure backs off", 1, APP_ON_FAILURE, "", "w", "", 7000 },
    { "Never does not start after exit code 0", 1, APP_NEVER, "", "c", "", 0 },
    { "Never does not start after a failure", 1, APP_NEVER, "", "f", "", 0 },
    { "Never starts what never ran", 2, APP_NEVER, "", "c-", "start1", 0 },
};

static struct inst make_inst(const char *text, size_t nth)
{
    struct inst i = { .index = text[0] - '0' };
    static const char letters[] = "srpe";
    i.state = strchr("uxy", text[1]) != NULL ? INST_RUNNING : (enum inst_state)(strchr(letters, text[1]) - letters);
    snprintf(i.uid, sizeof(i.uid), "uid-%zu", nth);
    snprintf(i.revision, sizeof(i.revision), "%s", text[2] == 'n' ? REV : "1-old");
    return i;
}

static size_t make_insts(const char *text, struct inst out[MAX_INSTS])
{
    size_t n = 0;
    for (; *text != '\0'; text += 3 + (text[3] == ' ')) {
        out[n] = make_inst(text, n);
        n++;
    }
    return n;
}

static void make_slots(const char *text, struct app_slot out[APP_REPLICAS_MAX])
{
    memset(out, 0, APP_REPLICAS_MAX * sizeof(*out));
    for (size_t i = 0; text[i] != '\0'; i++) {
        struct app_slot *s = &out[i];
        app_slot_revision(s, REV);
        if (text[i] == '-')
            continue;
        s->ended = true;
        s->exit = (struct app_exit){ .present = true, .known = true, .code = text[i] == 'c' ? 0 : 1 };
        s->reported = text[i] == 'R';
        s->not_before_ms = text[i] == 'w' ? NOW + 7000 : NOW;
        s->crashes = text[i] == 'w' ? 2 : 1;
    }
}

// What the probes said of the instances in `text`.
static void make_verdicts(const char *text, const struct inst *insts, size_t n, struct app_slot *slots)
{
    for (size_t i = 0; i < n; i++) {
        char letter = text[4 * i + 1];
        struct app_slot *s = &slots[insts[i].index];
        if (insts[i].state != INST_RUNNING)
            continue;
        s->probed = uid_hash(insts[i].uid);
        s->probes[APP_STARTUP].ok = s->probes[APP_LIVENESS].ok = true;
        s->probes[APP_READINESS].ok = letter != 'u';
        s->available = letter == 'r';
        if (letter == 'x')
            s->unhealthy = s->probed;
    }
}

static void plan_text(const struct app_plan *p, char *out, size_t max)
{
    static const char *const verbs[] = { [APP_STOP] = "stop", [APP_FORGET] = "forget", [APP_START] = "start" };
    out[0] = '\0';
    for (size_t i = 0; i < p->n; i++) {
        size_t n = strlen(out);
        snprintf(out + n, max - n, "%s%s%d", n > 0 ? " " : "", verbs[p->steps[i].kind], p->steps[i].index);
    }
}

static struct app_spec make_spec(int replicas, enum app_restart restart)
{
    return (struct app_spec){ .replicas = replicas, .max_unavailable = 1, .restart = restart, .process.revision = REV };
}

static void test_plans(void)
{
    struct inst insts[MAX_INSTS];
    struct app_slot slots[APP_REPLICAS_MAX];
    struct app_step steps[MAX_INSTS + APP_REPLICAS_MAX];
    char text[256];
    for (size_t i = 0; i < ARRAY_LEN(plans); i++) {
        const struct plan_case *c = &plans[i];
        struct app_spec spec = make_spec(c->replicas, c->restart);
        struct app_plan p = { .steps = steps };
        size_t n = make_insts(c->insts, insts);
        make_slots(c->slots, slots);
        make_verdicts(c->insts, insts, n, slots);
        app_plan(&spec, insts, n, slots, NOW, &p);
        plan_text(&p, text, sizeof(text));
        is_str(text, c->want, "plan: %s", c->name);
        is_int(p.next_ms == INT64_MAX ? 0 : p.next_ms - NOW, c->next_in, "  next start");
    }
}

static void test_which_goes(void)
{
    struct inst insts[2] = { make_inst("0rn", 0), make_inst("0rn", 1) };
    struct app_slot slots[APP_REPLICAS_MAX];
    struct app_step steps[2 + APP_REPLICAS_MAX];
    struct app_spec spec = make_spec(1, APP_ALWAYS);
    struct app_plan p = { .steps = steps };
    make_slots("-", slots);
    app_plan(&spec, insts, 2, slots, NOW, &p);
    is_str(p.n == 1 ? p.steps[0].inst->uid : "", "uid-0", "of two of one index the later stays");
}

// --- The crash loop

static struct inst ended(unsigned nth, int code, int64_t ran_ms, int64_t ago_ms)
{
    struct inst i = make_inst("0en", nth);
    i.exit = (struct inst_exit){ .known = true, .code = code, .reason = "Error" };
    i.ended = (struct instant){ .boot_id = BOOT_ID, .boot_ms = BOOT - ago_ms };
    i.started = (struct instant){ .boot_id = BOOT_ID, .boot_ms = BOOT - ago_ms - ran_ms };
    return i;
}

static void test_crash_loop(void)
{
    static const int64_t want_s[] = { 0, 10, 20, 40, 80, 160, 300, 300, 300 };
    struct app_slot s = { 0 };
    app_slot_revision(&s, REV);
    for (unsigned i = 0; i < ARRAY_LEN(want_s); i++) {
        struct inst x = ended(i, 1, 1000, 0);
        ok(app_slot_exit(&s, &x, NOW, BOOT, BOOT_ID), "crash %u is news", i + 1);
        is_int(s.not_before_ms - NOW, want_s[i] * 1000, "crash %u: next start after %lld s", i + 1, (long long)want_s[i]);
        is_int(app_slot_delay(&s), want_s[i] * 1000, "  and says so");
        s.ended = false;
    }
    struct inst long_run = ended(90, 1, APP_BACKOFF_RESET_MS, 0);
    (void)app_slot_exit(&s, &long_run, NOW, BOOT, BOOT_ID);
    is_int(s.not_before_ms - NOW, 0, "after 10 min of running the next start is at once");
    struct inst again = ended(91, 1, APP_BACKOFF_RESET_MS - 1, 0);
    (void)app_slot_exit(&s, &again, NOW, BOOT, BOOT_ID);
    is_int(s.not_before_ms - NOW, 10000, "just below 10 min counts on");
    ok(!app_slot_exit(&s, &again, NOW, BOOT, BOOT_ID), "one exit counts once");
    struct inst heard_late = ended(92, 1, 1000, 15000);
    (void)app_slot_exit(&s, &heard_late, NOW, BOOT, BOOT_ID);
    is_int(s.not_before_ms - NOW, 5000, "the wait counts from the end, not from when it was heard of");
    struct inst of_old = ended(93, 1, 1000, 0);
    snprintf(of_old.revision, sizeof(of_old.revision), "1-old");
    s.ended = false;
    (void)app_slot_exit(&s, &of_old, NOW, BOOT, BOOT_ID);
    ok(!s.ended && s.exit.present, "the end of a superseded instance is no crash");
    struct inst told = ended(94, 1, 1000, 0);
    s.told = uid_hash(told.uid);
    (void)app_slot_exit(&s, &told, NOW, BOOT, BOOT_ID);
    ok(!s.ended, "an end that was asked for is no crash");
    app_slot_revision(&s, "1-next");
    ok(s.crashes == 0 && !s.ended && s.exit.present, "a new revision begins anew, the last exit is remembered");
}

// Field 30: clock steps. Nothing above looks at the wall clock; an exit of another boot has no age.
static void test_field_30(void)
{
    struct app_slot s = { 0 };
    app_slot_revision(&s, REV);
    struct inst first = ended(0, 1, 1000, 0), second = ended(1, 1, 1000, 0);
    second.ended.wall_us = INT64_C(-5) * 1000000000000;
    second.ended.boot_ms = BOOT - 3600000;
    snprintf(second.ended.boot_id, sizeof(second.ended.boot_id), "earlier");
    (void)app_slot_exit(&s, &first, NOW, BOOT, BOOT_ID);
    (void)app_slot_exit(&s, &second, NOW, BOOT, BOOT_ID);
    is_int(s.not_before_ms - NOW, 10000, "field 30: neither a wall clock nor another boot shortens the backoff");
}

// --- In one word

struct sum_case {
    const char *name;
    int replicas;
    enum app_restart restart;
    const char *insts, *slots;
    enum app_state state;
    int replicas_out, updated, ready;
};

static const struct sum_case sums[] = {
    { "nothing yet", 1, APP_ALWAYS, "", "-", APP_PENDING, 0, 0, 0 },
    { "starting", 1, APP_ALWAYS, "0sn", "-", APP_STARTING, 1, 1, 0 },
    { "running", 1, APP_ALWAYS, "0rn", "-", APP_RUNNING, 1, 1, 1 },
    { "some", 2, APP_ALWAYS, "0rn 1sn", "--", APP_DEGRADED, 2, 2, 1 },
    { "the old one ends", 1, APP_ALWAYS, "0po", "-", APP_STOPPING, 1, 0, 0 },
    { "the old one runs still: ready, but not of this revision", 1, APP_ALWAYS, "0ro", "-", APP_DEGRADED, 1, 0, 1 },
    { "of three one is new", 3, APP_ALWAYS, "0rn 1ro 2ro", "---", APP_DEGRADED, 3, 1, 3 },
    { "one is not ready", 2, APP_ALWAYS, "0rn 1un", "--", APP_DEGRADED, 2, 2, 1 },
    { "its probe failed", 1, APP_ALWAYS, "0xn", "-", APP_STARTING, 1, 1, 0 },
    { "crash loop", 1, APP_ALWAYS, "", "w", APP_CRASH_LOOP, 1, 0, 0 },
    { "one crashes, one runs", 2, APP_ALWAYS, "1rn", "w-", APP_CRASH_LOOP, 2, 1, 1 },
    { "scaled down, the rest is well", 1, APP_ALWAYS, "0rn 1pn", "-", APP_RUNNING, 2, 1, 1 },
    { "to zero, on the way", 0, APP_ALWAYS, "0pn", "", APP_STOPPING, 1, 0, 0 },
    { "zero", 0, APP_ALWAYS, "", "", APP_STOPPED, 0, 0, 0 },
    { "succeeded", 2, APP_NEVER, "", "cc", APP_SUCCEEDED, 2, 0, 0 },
    { "failed", 2, APP_NEVER, "", "cf", APP_FAILED, 2, 0, 0 },
    { "half done", 2, APP_ON_FAILURE, "1rn", "c-", APP_DEGRADED, 2, 1, 1 },
};

static void test_sums(void)
{
    struct inst insts[MAX_INSTS];
    struct app_slot slots[APP_REPLICAS_MAX];
    for (size_t i = 0; i < ARRAY_LEN(sums); i++) {
        const struct sum_case *c = &sums[i];
        struct app_spec spec = make_spec(c->replicas, c->restart);
        struct app_summary s;
        size_t n = make_insts(c->insts, insts);
        make_slots(c->slots, slots);
        make_verdicts(c->insts, insts, n, slots);
        app_summarize(&spec, insts, n, slots, NOW, &s);
        is_str(app_state_word(s.state), app_state_word(c->state), "state: %s", c->name);
        is_int(s.replicas, c->replicas_out, "  replicas");
        is_int(s.updated, c->updated, "  updated");
        is_int(s.ready, c->ready, "  ready");
    }
}

static void test_worst(void)
{
    struct inst insts[MAX_INSTS];
    struct app_slot slots[APP_REPLICAS_MAX];
    struct app_spec spec = make_spec(4, APP_ALWAYS);
    struct app_summary s;
    size_t n = make_insts("0sn 3rn", insts);
    make_slots("-ww-", slots);
    app_summarize(&spec, insts, n, slots, NOW, &s);
    is_int(s.worst, 1, "a crash explains more than a start under way");
    slots[2].exit.start_errno = 2;
    app_summarize(&spec, insts, n, slots, NOW, &s);
    is_int(s.worst, 2, "a failed start explains more than a crash");
}

static void test_ready(void)
{
    struct inst i = make_inst("0rn", 0);
    struct app_slot s = { .probed = uid_hash("uid-0") };
    ok(!app_is_ready(&i, &s), "running alone is not ready");
    s.probes[APP_READINESS].ok = true;
    ok(!app_is_ready(&i, &s), "nor is what has not started");
    s.probes[APP_STARTUP].ok = true;
    ok(app_is_ready(&i, &s), "both are");
    s.unhealthy = s.probed;
    ok(!app_is_ready(&i, &s), "not when it is to be ended for its probe");
    s.unhealthy = 0;
    s.probed++;
    ok(!app_is_ready(&i, &s), "nor when another instance was asked");
}

// As in Kubernetes: what a probe ended is started again also after exit code 0, except with Never, where it has then failed.
static void test_unhealthy_exit(void)
{
    struct app_spec spec = make_spec(1, APP_ON_FAILURE);
    struct app_slot s = { 0 };
    struct inst x = ended(0, 0, 1000, 0);
    app_slot_revision(&s, REV);
    s.unhealthy = uid_hash(x.uid);
    ok(app_slot_exit(&s, &x, NOW, BOOT, BOOT_ID), "the end of one whose probe failed is news");
    is_str(s.exit.reason, APP_UNHEALTHY, "and says why");
    ok(!app_slot_finished(&s, &spec), "OnFailure starts it again after exit code 0, too");
    is_int(s.crashes, 1, "it counts as a crash");
    spec.restart = APP_NEVER;
    ok(app_slot_finished(&s, &spec) && app_exit_failed(&s.exit), "Never does not, and it has failed");
}

int main(void)
{
    test_plans();
    test_which_goes();
    test_crash_loop();
    test_field_30();
    test_sums();
    test_worst();
    test_ready();
    test_unhealthy_exit();
    return done_testing();
}
