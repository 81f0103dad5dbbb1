// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgeapp.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "flow/policy.h"
#include "kinds/edgeapp_probe.h"
#include "kinds/edgeapp_rollout.h"
#include "kinds/edgeapp_status.h"
#include "kinds/observe.h"
#include "kinds/process_refs.h"
#include "kinds/registry.h"

enum { PROBE_WHY_MAX = 128, GRACE_OF_START = -1, CHECK_MEMORY = 8 << 20 };

struct app_run {
    struct kind_env *env;
    struct app_slot *slots;
    int n_slots;
    bool loaded;
    bool has_grace;
    bool stopped;     // offline for too long, as a policy says
    int64_t grace_ms; // of the last spec that was read
    struct app_rollout rollout;
    enum image_state image_state; // what was told of
    bool image_stale;
    char stop_why[160];
    char probe_why[PROBE_WHY_MAX]; // of the probe that failed last:
    bool probe_untold;             // its event is still to be said
    int probe_index;
    enum app_probe_use probe_use;
};

void app_log_name(char out[APP_LOG_NAME_MAX], const char *ns, const char *name, int index)
{
    enum { HEAD_MAX = 180 };
    char whole[512], hex[SHA256_HEX];
    snprintf(whole, sizeof(whole), "%s_%s", ns, name);
    if (strlen(whole) <= HEAD_MAX) {
        snprintf(out, APP_LOG_NAME_MAX, "%.*s_%d", HEAD_MAX, whole, index);
        return;
    }
    sha256_hex(whole, strlen(whole), hex);
    snprintf(out, APP_LOG_NAME_MAX, "%.*s-%.12s_%d", HEAD_MAX, whole, hex, index);
}

bool app_log_in_journal(const struct json *object, const char *dflt)
{
    const char *runtime = json_str(json_path(object, "spec.runtime"));
    return strcmp(runtime != NULL ? runtime : dflt, "systemd") == 0;
}

static int app_check(const struct kind *k, const struct kind_env *env, const struct json *object, struct err *e)
{
    struct app_spec spec;
    struct arena a;
    (void)k;
    arena_init(&a, CHECK_MEMORY);
    int rc = app_spec_decode(&spec, json_get(object, "spec"), env->node, &a, e);
    arena_reset(&a);
    return rc;
}

static const char *revision_of(struct app_spec *s, const struct kind_env *env, const struct json *object, struct arena *a)
{
    struct err ignored = ERR_INIT;
    if (app_spec_decode(s, json_get(object, "spec"), env->node, a, &ignored) < 0)
        return NULL;
    app_spec_runtime(s, env->port->ops->name);
    return s->process.revision;
}

// Another revision stops what runs. Scaling, probes and logs disturb nobody.
static bool app_disturbs(const struct kind *k, const struct kind_env *env, const struct json *now, const struct json *next)
{
    struct app_spec was, will;
    struct arena a;
    (void)k;
    arena_init(&a, CHECK_MEMORY);
    const char *from = revision_of(&was, env, now, &a), *to = revision_of(&will, env, next, &a);
    bool disturbs = from != NULL && to != NULL && was.replicas > 0 && strcmp(from, to) != 0;
    arena_reset(&a);
    return disturbs;
}

// --- Observing

// A record with no sensible index is nobody's replica: stopped as one too many.
static int observe_app(struct pass *p, struct observed *o, struct err *e)
{
    int rc = observe(p, o, e);
    for (size_t i = 0; i < o->n; i++)
        if (o->insts[i].index < 0 || o->insts[i].index >= APP_REPLICAS_MAX)
            o->insts[i].index = APP_REPLICAS_MAX;
    return rc;
}

// --- Slots

static int grow_slots(struct app_run *st, int n, struct err *e)
{
    if (n <= st->n_slots)
        return 0;
    struct app_slot *slots = realloc(st->slots, (size_t)n * sizeof(*slots));
    if (slots == NULL)
        return err_set(e, E_NOMEM, "%d instances", n);
    memset(slots + st->n_slots, 0, (size_t)(n - st->n_slots) * sizeof(*slots));
    for (int i = 0; i < st->n_slots; i++)
        app_tries_moved(&slots[i]);
    st->slots = slots;
    st->n_slots = n;
    return 0;
}

static void lost_event(void *ctx, int index)
{
    struct pass *p = ctx;
    pass_event(p, true, "Lost", "Observe", "instance %d is gone, and nobody saw how it ended; restartPolicy Never does not start it again",
               index);
}

// Killed: by a signal, for want of memory, or by us for its probe, however it took that.
static const char *exit_reason(const struct app_exit *x, bool told)
{
    if (told)
        return "Stopped";
    if (x->start_errno != 0)
        return "StartFailed";
    return x->signal != 0 || x->unhealthy || strcmp(x->reason, "OOMKilled") == 0 ? "Killed" : "Exited";
}

static void exit_event(struct pass *p, int index, const struct app_slot *s, bool told)
{
    char text[256];
    app_exit_text(&s->exit, text, sizeof(text));
    const char *reason = exit_reason(&s->exit, told);
    pass_event(p, !told && app_exit_failed(&s->exit), reason, "Observe", "instance %d %s", index, text);
}

// An end that was taken over and is in no status yet: the commit of that pass failed, and what it told went with it.
static bool must_be_told_again(const struct app_slot *s, const struct inst *inst)
{
    return s->counted == uid_hash(inst->uid) && !s->reported;
}

// Takes over how instances ended. True: there was news, and the port must keep its record until the status is durable.
static bool absorb_exits(struct pass *p, const struct app_spec *spec, const struct observed *o, int64_t now_ms)
{
    struct app_run *st = p->state;
    struct instant now;
    bool news = false;
    clock_instant(p->env->clock, &now);
    for (size_t i = 0; i < o->n; i++) {
        const struct inst *inst = &o->insts[i];
        if (inst->state != INST_EXITED || inst->index >= app_remembers(spec))
            continue;
        struct app_slot *s = &st->slots[inst->index];
        bool told = s->told == uid_hash(inst->uid) || !app_is_current(spec, inst);
        bool again = must_be_told_again(s, inst);
        if (!app_slot_exit(s, inst, now_ms, now.boot_ms, now.boot_id) && !again)
            continue;
        news = true;
        exit_event(p, inst->index, s, told);
        if (!again && app_slot_waits(s, spec, now_ms))
            pass_event(p, true, "BackOff", "Restart", "instance %d is started again after %" PRId64 " s", inst->index,
                       app_slot_delay(s) / 1000);
    }
    return news;
}

// The platform started it again by itself, while no agent was there to count.
static void note_restarts(struct pass *p, struct app_slot *s, const struct inst *i)
{
    int known = s->restarted == uid_hash(i->uid) ? s->restarts_seen : 0, more = i->restarts - known;
    s->restarted = uid_hash(i->uid);
    s->restarts_seen = i->restarts;
    if (more <= 0)
        return;
    s->restarts += more;
    pass_event(p, true, "Restarted", "Observe", "instance %d ended while no agent was there, and was started again: %d times", i->index,
               more);
}

static void note_start(struct pass *p, struct app_slot *s, const struct inst *i)
{
    if (s->running == uid_hash(i->uid))
        return;
    s->running = uid_hash(i->uid);
    pass_event(p, false, "Started", "Start", "instance %d was started", i->index);
}

// Returns when the next one that is ready becomes available, INT64_MAX = none.
static int64_t note_running(struct pass *p, const struct app_spec *spec, const struct observed *o, int64_t now_ms)
{
    struct app_run *st = p->state;
    int64_t next = INT64_MAX;
    for (int index = 0; index < spec->replicas; index++) {
        const struct inst *i = app_live(o->insts, o->n, index);
        struct app_slot *s = &st->slots[index];
        if (i != NULL && i->state == INST_RUNNING) {
            note_restarts(p, s, i);
            app_probes_follow(s, spec, i, now_ms);
            note_start(p, s, i);
        }
        next = MIN(next, app_slot_ready(s, spec, i, now_ms));
    }
    return next;
}

// --- Acting

static void make_uid(struct pass *p, int index, char out[INST_UID_MAX])
{
    char hex[SHA256_HEX];
    sha256_hex(p->key, strlen(p->key), hex);
    snprintf(out, INST_UID_MAX, "%.12s-%d-%012" PRIx64, hex, index, clock_rand64(p->env->clock) >> 16);
}

// What has to be there before anything is started, or taken away for what is to be started. A kubelet's words.
struct app_needs {
    struct process_refs refs;
    const char *reason, *why; // what is missing; NULL = nothing is
    struct image_view image;
};

static int start_instance(struct pass *p, const struct app_spec *spec, const struct app_needs *needs, int index, struct err *e)
{
    static const enum inst_restart restarts[] = {
        [APP_ALWAYS] = INST_RESTART_ALWAYS, [APP_ON_FAILURE] = INST_RESTART_ON_FAILURE, [APP_NEVER] = INST_RESTART_NO
    };
    struct app_run *st = p->state;
    struct port *port = p->env->port;
    struct account who;
    char uid[INST_UID_MAX], log_name[APP_LOG_NAME_MAX];
    struct inst_spec is = { .uid = uid,
                            .owner = p->key,
                            .revision = spec->process.revision,
                            .index = index,
                            .log_name = log_name,
                            .log_max = spec->process.log_max,
                            .log_files = spec->process.log_files,
                            .grace_ms = MAX(spec->process.grace_ms, 1),
                            .runtime = spec->runtime,
                            .restart = restarts[spec->restart],
                            .limits = spec->process.limits,
                            .image = spec->image,
                            .entrypoint = spec->process.n_command > 0 };
    process_account(p->env->disk, &spec->process, &who);
    make_uid(p, index, uid);
    app_log_name(log_name, p->ns, p->name, index);
    int rc = app_exec_env(spec, index, &who, p->arena, &is.exec, e);
    if (rc == 0)
        rc = port->ops->start(port, &is, e);
    if (rc < 0)
        return err_wrap(e, "starting instance %d", index);
    st->slots[index].restarts += st->slots[index].ended;
    st->slots[index].ended = false;
    if (needs->refs.skipped[0] != '\0')
        pass_event(p, true, "InvalidEnvironmentVariableNames", "Start", "of envFrom these are no variables: %s", needs->refs.skipped);
    return 0;
}

static int stop_instance(struct pass *p, const struct app_step *step, int64_t grace_ms, struct err *e)
{
    struct app_run *st = p->state;
    struct port *port = p->env->port;
    struct app_slot *s = step->index < st->n_slots ? &st->slots[step->index] : NULL;
    if (s != NULL && s->unhealthy != uid_hash(step->inst->uid))
        s->told = uid_hash(step->inst->uid);
    log_info("edgeapp", "stop key=%s index=%d why=\"%s\"", p->key, step->index, step->why);
    int rc = port->ops->stop(port, step->inst->uid, grace_ms, e);
    return rc < 0 ? err_wrap(e, "stopping instance %d", step->index) : 0;
}

static int take_step(struct pass *p, const struct app_spec *spec, const struct app_needs *needs, const struct app_step *step, struct err *e)
{
    struct port *port = p->env->port;
    switch (step->kind) {
    case APP_STOP:
        return stop_instance(p, step, spec->process.grace_ms, e);
    case APP_FORGET:
        return port->ops->forget(port, step->inst->uid, e);
    case APP_START:
        log_info("edgeapp", "start key=%s index=%d why=%s revision=%s", p->key, step->index, step->why, spec->process.revision);
        return start_instance(p, spec, needs, step->index, e);
    }
    return 0;
}

// Without what it refers to nothing is started, so that what runs of another revision is not taken away for it either.
static bool must_wait(const struct app_spec *spec, const struct app_needs *needs, const struct app_step *step)
{
    if (needs->reason == NULL || step->kind == APP_FORGET)
        return false;
    return step->kind == APP_START || (step->index < spec->replicas && !app_is_current(spec, step->inst));
}

// One failure does not keep the other instances from what they need; the first one is returned.
static int act(struct pass *p, const struct app_spec *spec, const struct app_needs *needs, const struct app_plan *plan, struct err *e)
{
    int first = 0;
    for (size_t i = 0; i < plan->n; i++) {
        struct err local = ERR_INIT;
        if (must_wait(spec, needs, &plan->steps[i]))
            continue;
        int rc = take_step(p, spec, needs, &plan->steps[i], &local);
        if (rc < 0 && first == 0) {
            first = rc;
            *e = local;
        }
    }
    return first;
}

// --- Probes

static void tell_probe_failed(struct app_run *st)
{
    static const char *const verdicts[APP_PROBES] = { "has not started", "does not live", "is not ready" };
    if (st->probe_untold)
        engine_event(st->env->engine, object_state_from_data(st), true, "ProbeFailed", "Probe", "instance %d %s: %s", st->probe_index,
                     verdicts[st->probe_use], st->probe_why);
    st->probe_untold = false;
}

// One that did not start or does not live is ended by the next pass, and started again as restartPolicy says. The pass says the event, too:
// said here it would cost a commit of its own.
static void probe_failed(struct app_run *st, int index, enum app_probe_use use, const char *why)
{
    struct app_slot *s = &st->slots[index];
    tell_probe_failed(st); // of another instance, in this turn
    st->probe_untold = true;
    st->probe_index = index;
    st->probe_use = use;
    snprintf(st->probe_why, sizeof(st->probe_why), "%.*s", (int)utf8_cut(why, MIN(strlen(why), (size_t)PROBE_WHY_MAX - 1)), why);
    if (use != APP_READINESS)
        s->unhealthy = s->probed;
}

static void probe_answered(void *ctx, int index, enum app_probe_use use, bool changed, bool failing, const char *why)
{
    struct app_run *st = ctx;
    if (failing)
        probe_failed(st, index, use, why);
    if (changed || failing)
        engine_touch_state(st->env->engine, object_state_from_data(st), "probe");
}

// One in a container has its environment and user from there.
static int start_probe(struct pass *p, const struct app_spec *spec, int index, const char *uid, enum app_probe_use use, struct err *e)
{
    const struct app_probe *probe = &spec->probes[use];
    struct app_run *st = p->state;
    struct account who;
    struct exec_env exec = { 0 };
    struct app_try *t = app_try_new(p->env->port, &st->slots[index].probes[use], index, use, probe);
    if (t != NULL && spec->image != NULL)
        snprintf(t->inside, sizeof(t->inside), "%s", uid);
    if (t == NULL)
        return err_set(e, E_NOMEM, "%s probe", app_probe_word(use));
    t->answer = probe_answered;
    t->ctx = st;
    if (probe->kind == PROBE_EXEC && spec->image == NULL) {
        process_account(p->env->disk, &spec->process, &who);
        int rc = app_exec_env(spec, index, &who, &t->arena, &exec, e);
        if (rc < 0) {
            app_try_drop(t);
            return rc;
        }
    }
    return app_try_start(t, probe, &exec, e);
}

// One try that is due. Returns when the next one is.
static int64_t probe_instance(struct pass *p, const struct app_spec *spec, const struct inst *i, enum app_probe_use use, int64_t now_ms)
{
    int index = i->index;
    struct app_run *st = p->state;
    struct app_probing *r = &st->slots[index].probes[use];
    struct err err = ERR_INIT;
    if (now_ms >= r->next_ms) {
        r->next_ms = now_ms + spec->probes[use].period_ms;
        if (r->try == NULL && start_probe(p, spec, index, i->uid, use, &err) < 0)
            log_warn("edgeapp", "probe_not_started key=%s index=%d probe=%s error=\"%s\"", p->key, index, app_probe_word(use), err.msg);
    }
    return r->next_ms;
}

// Starts the tries that are due, and ends those of what nobody asks about any more. Returns when the next one is, INT64_MAX = never.
static int64_t probe_instances(struct pass *p, const struct app_spec *spec, const struct observed *o, int64_t now_ms)
{
    struct app_run *st = p->state;
    int64_t next = INT64_MAX;
    for (int index = 0; index < st->n_slots; index++) {
        struct app_slot *s = &st->slots[index];
        const struct inst *i = index < spec->replicas ? app_live(o->insts, o->n, index) : NULL;
        for (int use = 0; use < APP_PROBES; use++) {
            if (app_probe_applies(spec, s, i, (enum app_probe_use)use))
                next = MIN(next, probe_instance(p, spec, i, (enum app_probe_use)use, now_ms));
            else
                app_try_cancel(&s->probes[use]);
        }
    }
    return next;
}

// --- The pass

// While a policy wants it stopped there is nothing to run; what is remembered of its instances stays.
static void obey_offline(struct pass *p, struct app_spec *spec)
{
    struct app_run *st = p->state;
    struct policy_subject self = { p->kind->name, p->name, json_path(p->object, "metadata.labels") };
    bool was = st->stopped;
    st->stopped = p->env->policy != NULL && policy_stopped_offline(p->env->policy, &self, st->stop_why, sizeof(st->stop_why));
    if (st->stopped) {
        spec->remembered = spec->replicas;
        spec->replicas = 0;
    }
    if (st->stopped && !was)
        pass_event(p, false, "StoppedOffline", "Stop", "%s", st->stop_why);
}

// When it goes on, it begins anew.
static void obey_suspend(struct pass *p, struct app_spec *spec)
{
    struct app_run *st = p->state;
    if (!spec->suspend)
        return;
    for (int i = 0; i < st->n_slots; i++)
        app_slot_begin_anew(&st->slots[i]);
    spec->replicas = 0;
}

static int prepare(struct pass *p, struct app_spec *spec, struct app_needs *needs, struct observed *o, struct err *e)
{
    struct app_run *st = p->state;
    const struct json *prev = p->status != NULL ? status_prev(p->status) : NULL;
    st->env = p->env;
    int rc = app_spec_decode(spec, p->spec, p->env->node, p->arena, e);
    if (rc < 0)
        return rc;
    *needs = (struct app_needs){ 0 };
    app_spec_runtime(spec, p->env->port->ops->name);
    rc = app_rollout_begin(&st->rollout, p, spec, e);
    if (rc == 0)
        rc = process_resolve(&spec->process, p, spec->restart_on_change, &needs->refs, e);
    if (rc == 0)
        rc = app_mark_load(&spec->mark, p->env->db, p->key, e);
    if (rc == 0)
        rc = observe_app(p, o, e);
    if (rc == 0)
        rc = grow_slots(st, spec->replicas, e);
    if (rc < 0)
        return rc;
    st->grace_ms = spec->process.grace_ms;
    st->has_grace = true;
    if (!st->loaded && p->status != NULL) {
        app_slots_load(st->slots, spec, prev, o->insts, o->n, lost_event, p);
        st->loaded = true;
    }
    for (int i = 0; i < spec->replicas; i++)
        app_slot_revision(&st->slots[i], spec->process.revision);
    app_slots_reported(st->slots, spec->replicas, prev);
    obey_suspend(p, spec);
    obey_offline(p, spec);
    return 0;
}

// --- What it needs

static const char *image_reason(const struct image_view *v)
{
    static const char *const reasons[] = { [IMAGE_ASKED] = "ContainerCreating",
                                           [IMAGE_PULLING] = "Pulling",
                                           [IMAGE_FAILED] = "ErrImagePull",
                                           [IMAGE_ABSENT] = "ErrImageNeverPull" };
    return v->state == IMAGE_FAILED && v->waits ? "ImagePullBackOff" : reasons[v->state];
}

// Once a state.
static void image_event(struct pass *p, const struct image_view *v, const char *reason)
{
    struct app_run *st = p->state;
    bool news = st->image_state != v->state || st->image_stale != v->stale;
    st->image_state = v->state;
    st->image_stale = v->stale;
    if (news && (v->state == IMAGE_FAILED || v->state == IMAGE_ABSENT))
        pass_event(p, true, reason, "Pull", "%s", v->why);
    else if (news && v->stale)
        pass_event(p, true, "ImageFromBefore", "Pull", "the registry cannot be asked, the machine's own copy is used: %s", v->why);
}

static bool starts_anything(const struct app_spec *spec, const struct app_plan *plan)
{
    for (size_t i = 0; i < plan->n; i++) {
        const struct app_step *step = &plan->steps[i];
        if (step->kind == APP_START || (step->kind == APP_STOP && step->index < spec->replicas && !app_is_current(spec, step->inst)))
            return true;
    }
    return false;
}

// The image is asked about when it is about to be used. A platform that is missing keeps what runs as much as a missing image does.
static void look_for_needs(struct pass *p, const struct app_spec *spec, const struct app_plan *plan, struct app_needs *n)
{
    struct port *port = p->env->port;
    struct err why = ERR_INIT;
    if (n->refs.found.missing) {
        n->reason = "CreateContainerConfigError";
        n->why = n->refs.found.why;
    }
    if (n->reason != NULL || spec->image == NULL || port->ops->image == NULL || !starts_anything(spec, plan))
        return;
    if (port->ops->image(port, p->key, spec->process.revision, spec->image, spec->pull, &n->image, &why) < 0) {
        n->reason = "StartFailed";
        n->why = arena_strdup(p->arena, why.msg);
    } else {
        n->reason = image_reason(&n->image);
        n->why = n->image.why;
        image_event(p, &n->image, n->reason);
    }
}

static int make_plan(struct pass *p, const struct app_spec *spec, const struct observed *o, int64_t now_ms, struct app_plan *plan,
                     struct err *e)
{
    const struct app_run *st = p->state;
    plan->steps = arena_alloc(p->arena, (o->n + APP_REPLICAS_MAX) * sizeof(*plan->steps));
    if (plan->steps == NULL)
        return err_set(e, E_NOMEM, "plan");
    app_plan(spec, o->insts, o->n, st->slots, now_ms, plan);
    return 0;
}

// An instance that became ready in this very pass lets the next older one go: nothing else would tell.
static bool is_next_due(const struct app_spec *spec, const struct app_needs *needs, const struct app_plan *plan)
{
    for (size_t i = 0; i < plan->n; i++)
        if (plan->steps[i].kind == APP_STOP && !must_wait(spec, needs, &plan->steps[i]))
            return true;
    return false;
}

static const char *waits_for(const struct app_spec *spec, const struct app_needs *needs, const struct app_plan *plan)
{
    for (size_t i = 0; i < plan->n; i++)
        if (must_wait(spec, needs, &plan->steps[i]))
            return needs->why;
    return NULL;
}

// Why a revision does not come up, from what its instances did.
static void tell_lateness(const struct app_run *st, const struct app_spec *spec, const struct app_summary *sum, char out[256])
{
    char text[160] = "";
    const struct app_slot *w = sum->worst >= 0 ? &st->slots[sum->worst] : NULL;
    if (w != NULL && w->ended)
        app_exit_text(&w->exit, text, sizeof(text));
    else if (st->probe_why[0] != '\0')
        snprintf(text, sizeof(text), "%s", st->probe_why);
    snprintf(out, 256, "%d of %d instances were available%s%s", sum->available, spec->replicas, text[0] != '\0' ? "; the last one " : "",
             text);
}

// Looks how the revision in force comes along. *next: when to look again. One that waits for what it refers to takes nothing away and has as
// long as that takes.
static int follow_rollout(struct pass *p, const struct app_spec *spec, const struct app_needs *needs, const struct app_summary *sum,
                          int64_t now_ms, int64_t *next, struct err *e)
{
    char why[256];
    struct app_run *st = p->state;
    *next = INT64_MAX;
    if (needs->reason != NULL) {
        st->rollout.watch.revision[0] = '\0';
        return 0;
    }
    switch (app_rollout_judge(&st->rollout, spec, sum, now_ms, next)) {
    case ROLLOUT_GOOD:
        return app_rollout_good(&st->rollout, p, spec, e);
    case ROLLOUT_LATE:
        tell_lateness(st, spec, sum, why);
        return app_rollout_late(&st->rollout, p, spec, why, e);
    default:
        return 0;
    }
}

static void report(struct pass *p, const struct app_spec *spec, const struct observed *o, const struct app_summary *summary, int64_t now_ms,
                   const char *start_error, const struct app_needs *needs, const char *wait_why)
{
    const struct app_run *st = p->state;
    struct app_report r = { .spec = spec,
                            .insts = o->insts,
                            .n_insts = o->n,
                            .slots = st->slots,
                            .summary = summary,
                            .now_ms = now_ms,
                            .start_error = start_error,
                            .waits_for = wait_why,
                            .waits_reason = needs->reason,
                            .rollout = &st->rollout,
                            .probe_why = st->probe_why };
    app_report_write(p->status, &r);
    references_condition(&needs->refs.found, p->status);
    if (st->stopped)
        status_cond(p->status, "Ready", COND_FALSE, "StoppedOffline", "%s", st->stop_why);
}

// Nothing new is known: what was reported stands.
static int unknown(struct pass *p, int rc)
{
    status_keep_prev(p->status);
    return rc;
}

// What the pass saw and did becomes the status, and says when the next one is. next_ms: monotonic, INT64_MAX = when something changes.
static int conclude(struct pass *p, const struct app_spec *spec, const struct observed *o, int64_t now_ms, int acted, int64_t next_ms,
                    bool news, const struct app_needs *needs, const char *wait_why, struct err *e)
{
    const struct app_run *st = p->state;
    struct app_summary sum;
    struct err why = ERR_INIT;
    int64_t deadline;
    app_summarize(spec, o->insts, o->n, st->slots, now_ms, &sum);
    int rc = follow_rollout(p, spec, needs, &sum, now_ms, &deadline, &why);
    report(p, spec, o, &sum, now_ms, acted < 0 ? e->msg : NULL, needs, wait_why);
    if (acted < 0 && !p->after_commit)
        return acted;
    if (rc < 0) {
        *e = why;
        return rc;
    }
    int64_t next = MIN(next_ms, deadline);
    p->requeue_ms = next < INT64_MAX ? MAX(next - now_ms, 1) : 0;
    return news ? pass_after_commit(p) : 0;
}

static int app_reconcile(struct pass *p, struct err *e)
{
    int64_t now_ms = clock_mono(p->env->clock);
    struct app_spec spec;
    struct app_needs needs;
    struct observed o = { 0 };
    struct app_plan plan, after;
    tell_probe_failed(p->state);
    int rc = prepare(p, &spec, &needs, &o, e);
    if (rc < 0)
        return unknown(p, rc);
    bool news = absorb_exits(p, &spec, &o, now_ms);
    note_running(p, &spec, &o, now_ms);
    rc = make_plan(p, &spec, &o, now_ms, &plan, e);
    if (rc < 0)
        return unknown(p, rc);
    look_for_needs(p, &spec, &plan, &needs);
    int acted = act(p, &spec, &needs, &plan, e);
    rc = observe_app(p, &o, e);
    int64_t available = rc == 0 ? note_running(p, &spec, &o, now_ms) : 0;
    if (rc == 0)
        rc = make_plan(p, &spec, &o, now_ms, &after, e);
    if (rc < 0)
        return unknown(p, rc);
    int64_t next = MIN(plan.next_ms, probe_instances(p, &spec, &o, now_ms));
    int64_t due = is_next_due(&spec, &needs, &after) ? now_ms : MIN(next, available);
    const char *wait_why = waits_for(&spec, &needs, &plan);
    return conclude(p, &spec, &o, now_ms, acted, due, news, &needs, wait_why, e);
}

// --- The end

static void free_slots(struct app_run *st)
{
    for (int i = 0; i < st->n_slots; i++)
        app_tries_cancel(&st->slots[i]);
    free(st->slots);
    st->slots = NULL;
    st->n_slots = 0;
}

static int remove_logs(struct pass *p, struct err *e)
{
    struct port *port = p->env->port;
    char name[APP_LOG_NAME_MAX];
    for (int index = 0; index < APP_REPLICAS_MAX; index++) {
        app_log_name(name, p->ns, p->name, index);
        int rc = port->ops->log_remove(port, name, e);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int end_instance(struct pass *p, const struct inst *i, struct err *e)
{
    const struct app_run *st = p->state;
    struct port *port = p->env->port;
    struct app_step step = { APP_STOP, i->index, i, "deleted" };
    if (i->state == INST_EXITED)
        return port->ops->forget(port, i->uid, e);
    return i->state == INST_STOPPING ? 0 : stop_instance(p, &step, st->has_grace ? st->grace_ms : GRACE_OF_START, e);
}

static int app_gone(struct pass *p, struct err *e)
{
    free_slots(p->state);
    int rc = observe_ended(p, end_instance, e);
    return rc < 0 ? rc : remove_logs(p, e);
}

static void app_fini(const struct kind_env *env, void *state)
{
    struct app_run *st = state;
    (void)env;
    app_rollout_fini(&st->rollout);
    free_slots(st);
}

// --- `limpet get -o diff`

// No step is due for what waits in its backoff, or for its turn; the difference is there all the same.
static void name_waits(const struct app_run *st, const struct app_spec *spec, const struct observed *o, int64_t now_ms, struct json *out)
{
    char path[32], have[64];
    for (int i = 0; i < spec->replicas; i++) {
        const struct app_slot *s = &st->slots[i];
        const struct inst *live = app_live(o->insts, o->n, i);
        snprintf(path, sizeof(path), "instances[%d]", i);
        if (live != NULL && !app_is_current(spec, live))
            difference_add(out, path, "revision", spec->process.revision, live->revision);
        if (live != NULL || !app_slot_waits(s, spec, now_ms))
            continue;
        snprintf(have, sizeof(have), "ended, starts again in %" PRId64 " s", (s->not_before_ms - now_ms + 999) / 1000);
        difference_add(out, path, "state", "running", have);
    }
}

static int app_differences(struct pass *p, struct json *out, struct err *e)
{
    static const char *const verbs[] = { [APP_STOP] = "stopped", [APP_START] = "running" };
    int64_t now_ms = clock_mono(p->env->clock);
    struct app_spec spec;
    struct app_needs needs;
    struct observed o = { 0 };
    struct app_plan plan;
    char path[32];
    int rc = prepare(p, &spec, &needs, &o, e);
    if (rc == 0)
        rc = make_plan(p, &spec, &o, now_ms, &plan, e);
    for (size_t i = 0; rc == 0 && i < plan.n; i++) {
        const struct app_step *step = &plan.steps[i];
        if (step->kind == APP_FORGET)
            continue;
        snprintf(path, sizeof(path), "instances[%d]", step->index);
        difference_add(out, path, "state", verbs[step->kind], step->why);
    }
    if (rc == 0)
        name_waits(p->state, &spec, &o, now_ms, out);
    return rc;
}

static const char *const app_short_names[] = { "eapp", NULL };
static const char *const app_conditions[] = { "Accepted", "Progressing", "Ready", "ResolvedRefs", "Waiting", NULL };

const struct kind kind_edgeapp = {
    .type = { "edge.limpet.dev", "v1alpha1", "edgeapps" },
    .name = "EdgeApp",
    .short_names = app_short_names,
    .conditions = app_conditions,
    .state_size = sizeof(struct app_run),
    .max_concurrent = 8,
    .write_status = true,
    .check = app_check,
    .reconcile = app_reconcile,
    .disturbs = app_disturbs,
    .gone = app_gone,
    .fini = app_fini,
    .differences = app_differences,
};
