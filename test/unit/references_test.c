// SPDX-License-Identifier: Apache-2.0
// What EdgeApps and EdgeJobs do with references: they wait, take values, keep them, and restart only when asked to.
#include "kinds/edgeapp.c"

#include "kind_rig.h"

#define APP "edgeapps", "web"

enum { SETTLE_MS = 100 };

static struct inst first;

static int take_first(void *ctx, const struct inst *i)
{
    if (i->state == INST_EXITED)
        return 0;
    first = *i;
    ++*(int *)ctx;
    return 0;
}

static int live(struct rig *r, const char *plural, const char *name)
{
    struct err e = ERR_INIT;
    int n = 0;
    rig_must(r->port->ops->each(r->port, rig_key(r, plural, name), take_first, &n, &e), &e, "each");
    return n;
}

// What the newest instance was started with: the port tells nobody, so its start is listened to.
static struct port_ops spied;
static const struct port_ops *real;
static char started_env[64][256], started_args[8][256];
static size_t n_env, n_args;

static size_t keep(char (*to)[256], size_t max, const char *const *texts)
{
    size_t n = 0;
    for (; texts[n] != NULL && n < max; n++)
        snprintf(to[n], sizeof(to[n]), "%s", texts[n]);
    return n;
}

static int on_start(struct port *p, const struct inst_spec *is, struct err *e)
{
    n_env = keep(started_env, ARRAY_LEN(started_env), is->exec.env);
    n_args = keep(started_args, ARRAY_LEN(started_args), is->exec.argv);
    return real->start(p, is, e);
}

static const char *env_of(const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < n_env; i++)
        if (strncmp(started_env[i], name, n) == 0 && started_env[i][n] == '=')
            return started_env[i] + n + 1;
    return "(unset)";
}

static void spy(struct rig *r)
{
    real = r->port->ops;
    spied = *real;
    spied.start = on_start;
    r->port->ops = &spied;
    n_env = n_args = 0;
}

static void begin(struct rig *r)
{
    rig_start(r);
    port_fake_behave(r->port, NULL, &(struct fake_behaviour){ .run_ms = -1, .check_ok = true });
    spy(r);
}

static void listed(struct rig *r)
{
    refs_known(r->refs, &kind_secret, &(struct err){ .cls = E_BUSY });
    refs_known(r->refs, &kind_secret, NULL);
    refs_known(r->refs, &kind_configmap, &(struct err){ .cls = E_BUSY });
    refs_known(r->refs, &kind_configmap, NULL);
}

#define FROM_SECRET                                                                                                                  \
    "{\"command\":[\"x\",\"$(PW)\",\"$(ZONE)\"],\"env\":[{\"name\":\"PW\",\"value\":\"\",\"valueFrom\":{\"secretKeyRef\":{\"name\":" \
    "\"db\",\"key\":\"pw\"}}},"                                                                                                      \
    "{\"name\":\"ZONE\",\"valueFrom\":{\"configMapKeyRef\":{\"name\":\"site\",\"key\":\"zone\",\"optional\":true}}}]%s}"

static void apply(struct rig *r, const char *rest)
{
    char spec[1024];
    snprintf(spec, sizeof(spec), FROM_SECRET, rest);
    rig_apply(r, APP, spec);
    rig_run(r, SETTLE_MS);
}

static void test_app_waits(void)
{
    struct rig r = { 0 };
    begin(&r);
    apply(&r, "");
    ok(r.followed[REF_SECRET] && r.followed[REF_CONFIGMAP], "what is referred to is followed");
    listed(&r);
    rig_run(&r, SETTLE_MS);
    is_int(live(&r, APP), 0, "field 31: the Secret is not there: nothing is started");
    is_str(rig_condition(&r, APP, "Ready"), "False CreateContainerConfigError", "field 31: and why");
    is_str(rig_condition(&r, APP, "ResolvedRefs"), "False NotFound", "which one is told apart");
    rig_refer(&r, REF_SECRET, "db", "\"data\":{\"pw\":\"czNjcmV0\",\"other\":\"bm8=\"}");
    rig_run(&r, SETTLE_MS);
    is_int(live(&r, APP), 1, "field 31: it goes on by itself when the Secret comes");
    is_str(rig_condition(&r, APP, "ResolvedRefs"), "True Resolved", "all is there");
    is_str(env_of("PW"), "s3cret", "the value is in its environment");
    is_str(env_of("ZONE"), "(unset)", "what is optional and absent is left out");
    is_str(started_args[1], "$(PW)", "a Secret's value reaches no argument");
    char uid[INST_UID_MAX];
    memcpy(uid, first.uid, sizeof(uid));
    rig_refer(&r, REF_SECRET, "db", "\"data\":{\"pw\":\"bmV3\"}");
    rig_run(&r, SETTLE_MS);
    is_int(live(&r, APP), 1, "a new value");
    is_str(first.uid, uid, "restarts nothing");
    rig_unrefer(&r, REF_SECRET, "db");
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, APP, "ResolvedRefs"), "False Gone", "deleted: it says so");
    is_str(rig_condition(&r, APP, "Ready"), "True AllReady", "and goes on");
    r.port->ops = real;
    rig_power_cut(&r);
    spy(&r);
    rig_run(&r, SETTLE_MS);
    is_int(live(&r, APP), 1, "after a reboot without a server it starts, from what is stored");
    is_str(env_of("PW"), "new", "with the last value");
    rig_end(&r);
}

static void test_restart_on_change(void)
{
    struct rig r = { 0 };
    char uid[INST_UID_MAX], revision[INST_REV_MAX];
    begin(&r);
    rig_refer(&r, REF_SECRET, "db", "\"data\":{\"pw\":\"czNjcmV0\"}");
    apply(&r, ",\"restartOnChange\":true");
    rig_refer(&r, REF_SECRET, "db", "\"data\":{\"pw\":\"czNjcmV0\"}");
    listed(&r);
    rig_run(&r, SETTLE_MS);
    is_int(live(&r, APP), 1, "it runs");
    memcpy(uid, first.uid, sizeof(uid));
    memcpy(revision, first.revision, sizeof(revision));
    r.port->ops = real;
    rig_crash(&r);
    spy(&r);
    rig_run(&r, SETTLE_MS);
    is_int(live(&r, APP), 1, "the next agent");
    is_str(first.uid, uid, "finds the same values and restarts nothing");
    rig_refer(&r, REF_SECRET, "db", "\"data\":{\"pw\":\"bmV3\"}");
    rig_run(&r, 60000);
    is_int(live(&r, APP), 1, "a new value");
    ok(strcmp(first.uid, uid) != 0, "replaces the instance");
    ok(strcmp(first.revision, revision) != 0, "by another revision");
    is_str(env_of("PW"), "new", "which has it");
    memcpy(uid, first.uid, sizeof(uid));
    rig_refer(&r, REF_SECRET, "db", "\"data\":{\"pw\":\"bmV3\",\"more\":\"eA==\"}");
    rig_unrefer(&r, REF_SECRET, "db");
    rig_run(&r, 60000);
    is_int(live(&r, APP), 1, "another key, and the end of it");
    is_str(first.uid, uid, "restart nothing");
    rig_end(&r);
}

static void test_new_revision_waits(void)
{
    struct rig r = { 0 };
    char uid[INST_UID_MAX];
    begin(&r);
    rig_apply(&r, APP, "{\"command\":[\"x\"]}");
    rig_run(&r, 20000);
    is_int(live(&r, APP), 1, "an app without references");
    memcpy(uid, first.uid, sizeof(uid));
    apply(&r, "");
    listed(&r);
    rig_run(&r, 1000000);
    is_int(live(&r, APP), 1, "its new revision needs what is not there");
    is_str(first.uid, uid, "the old one goes on, past the deadline of a rollout");
    is_str(rig_condition(&r, APP, "Ready"), "False CreateContainerConfigError", "why");
    rig_refer(&r, REF_SECRET, "db", "\"data\":{\"pw\":\"czNjcmV0\"}");
    rig_run(&r, 60000);
    is_int(live(&r, APP), 1, "it came");
    ok(strcmp(first.uid, uid) != 0, "the new one is in its place");
    rig_end(&r);
}

static void test_env_from(void)
{
    struct rig r = { 0 };
    begin(&r);
    rig_apply(&r, APP,
              "{\"command\":[\"x\"],\"env\":[{\"name\":\"B\",\"value\":\"own\"}],\"envFrom\":[{\"configMapRef\":{\"name\":\"site\"}},"
              "{\"prefix\":\"S_\",\"secretRef\":{\"name\":\"db\",\"optional\":true}}]}");
    rig_run(&r, SETTLE_MS);
    rig_refer(&r, REF_CONFIGMAP, "site",
              "\"data\":{\"A\":\"1\",\"B\":\"2\",\"no.name\":\"3\"},\"binaryData\":{\"C\":\"NA==\",\"D\":\"AA==\"}");
    listed(&r);
    rig_run(&r, SETTLE_MS);
    is_int(live(&r, APP), 1, "started, the optional one is absent");
    is_str(env_of("A"), "1", "of a ConfigMap");
    is_str(env_of("B"), "own", "env wins");
    is_str(env_of("C"), "4", "its binaryData");
    is_str(env_of("no.name"), "(unset)", "no name of a variable");
    is_str(env_of("D"), "(unset)", "nor a value that can be one");
    ok(rig_events(&r, "InvalidEnvironmentVariableNames") == 1, "an event says so");
    rig_end(&r);
}

static void test_forbidden(void)
{
    struct rig r = { 0 };
    begin(&r);
    apply(&r, "");
    rig_refer(&r, REF_SECRET, "db", "\"data\":{\"pw\":\"czNjcmV0\"}");
    listed(&r);
    rig_run(&r, SETTLE_MS);
    is_int(live(&r, APP), 1, "it runs");
    refs_known(r.refs, &kind_secret, &(struct err){ .cls = E_FORBIDDEN, .msg = "secrets is forbidden" });
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, APP, "ResolvedRefs"), "False Forbidden", "forbidden: it says so");
    is_str(rig_condition(&r, APP, "Ready"), "True AllReady", "and goes on with the last value");
    refs_known(r.refs, &kind_secret, NULL);
    rig_run(&r, SETTLE_MS);
    is_str(rig_condition(&r, APP, "ResolvedRefs"), "True Resolved", "allowed again");
    rig_end(&r);
}

static void test_job(void)
{
    struct rig r = { 0 };
    begin(&r);
    rig_apply(&r, "edgejobs", "once",
              "{\"command\":[\"x\"],\"execution\":\"AtMostOnce\",\"env\":[{\"name\":\"PW\",\"valueFrom\":{\"secretKeyRef\":{\"name\":"
              "\"db\",\"key\":\"pw\"}}}]}");
    rig_run(&r, SETTLE_MS);
    listed(&r);
    rig_run(&r, SETTLE_MS);
    is_int(live(&r, "edgejobs", "once"), 0, "a job waits, too");
    is_str(rig_condition(&r, "edgejobs", "once", "Ready"), "False CreateContainerConfigError", "and says why");
    r.port->ops = real;
    rig_crash(&r);
    spy(&r);
    rig_refer(&r, REF_SECRET, "db", "\"data\":{\"pw\":\"czNjcmV0\"}");
    rig_run(&r, SETTLE_MS);
    rig_refer(&r, REF_SECRET, "db", "\"data\":{\"pw\":\"czNjcmV0\"}");
    rig_run(&r, SETTLE_MS);
    is_int(live(&r, "edgejobs", "once"), 1, "no attempt was begun meanwhile that would be Unknown now: it runs");
    is_str(env_of("PW"), "s3cret", "with the value");
    rig_end(&r);
}

#define CFG "edgeconfigs", "key"

static const char *file_of(struct rig *r, const char *path, unsigned *mode)
{
    static char text[256];
    struct stat st;
    FILE *f = fopen(rig_path(r, path), "r");
    if (f == NULL || fstat(fileno(f), &st) < 0)
        return "(none)";
    text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
    fclose(f);
    if (mode != NULL)
        *mode = st.st_mode & 07777;
    return text;
}

static void test_config(void)
{
    struct rig r = { 0 };
    unsigned mode = 0;
    begin(&r);
    rig_apply(
        &r, CFG,
        "{\"files\":[{\"path\":\"/etc/plain\",\"content\":\"p\"},{\"path\":\"/etc/key\",\"contentFrom\":{\"secretKeyRef\":{\"name\":\"db\","
        "\"key\":\"pw\"}}},{\"path\":\"/etc/"
        "maybe\",\"contentFrom\":{\"configMapKeyRef\":{\"name\":\"site\",\"key\":\"a\",\"optional\":true}}}]}");
    rig_run(&r, SETTLE_MS);
    listed(&r);
    rig_run(&r, SETTLE_MS);
    is_str(file_of(&r, "/etc/plain", NULL), "(none)", "field 31: without the Secret nothing of the set is written");
    is_str(rig_condition(&r, CFG, "Ready"), "False CreateContainerConfigError", "field 31: and why");
    rig_refer(&r, REF_SECRET, "db", "\"data\":{\"pw\":\"czNjcmV0\"}");
    rig_run(&r, SETTLE_MS);
    is_str(file_of(&r, "/etc/key", &mode), "s3cret", "field 31: it came, the file is there");
    is_int((int)mode, 0600, "nobody else reads a Secret's file");
    is_str(file_of(&r, "/etc/plain", NULL), "p", "and the others");
    is_str(file_of(&r, "/etc/maybe", NULL), "(none)", "what is optional and absent is no file");
    rig_refer(&r, REF_CONFIGMAP, "site", "\"data\":{\"a\":\"text\"}");
    rig_run(&r, SETTLE_MS);
    is_str(file_of(&r, "/etc/maybe", &mode), "text", "until it is there");
    is_int((int)mode, 0644, "with the common mode");
    rig_refer(&r, REF_SECRET, "db", "\"data\":{\"pw\":\"bmV3\"}");
    rig_run(&r, SETTLE_MS);
    is_str(file_of(&r, "/etc/key", NULL), "new", "a new value is written");
    rig_unrefer(&r, REF_SECRET, "db");
    rig_run(&r, SETTLE_MS);
    is_str(file_of(&r, "/etc/key", NULL), "new", "the last value stays when the Secret is deleted");
    is_str(rig_condition(&r, CFG, "ResolvedRefs"), "False Gone", "it says so");
    ok(unlink(rig_path(&r, "/etc/key")) == 0, "drift");
    rig_run(&r, 400000);
    is_str(file_of(&r, "/etc/key", NULL), "new", "is repaired with it");
    rig_unrefer(&r, REF_CONFIGMAP, "site");
    rig_run(&r, SETTLE_MS);
    is_str(file_of(&r, "/etc/maybe", NULL), "(none)", "an optional one goes with its ConfigMap");
    rig_end(&r);
}

int main(void)
{
    test_app_waits();
    test_restart_on_change();
    test_new_revision_waits();
    test_env_from();
    test_forbidden();
    test_job();
    test_config();
    return done_testing();
}
