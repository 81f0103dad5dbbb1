// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgeapp_spec.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/sha256.h"

enum { MS = 1000 };

// Path and query of a request line: printable ASCII without spaces, so that nothing can be smuggled into it.
static bool is_http_path(const char *s)
{
    for (const char *c = s; *c != '\0'; c++)
        if (*c < '!' || *c > '~')
            return false;
    return s[0] == '/';
}

static bool is_ipv4_like(const char *s)
{
    for (int part = 0; part < 4; part++) {
        size_t n = strspn(s, "0123456789");
        if (n < 1 || n > 3 || s[n] != (part < 3 ? '.' : '\0'))
            return false;
        s += n + 1;
    }
    return true;
}

static bool is_host(const char *s)
{
    size_t first = strspn(s, "0123456789abcdefABCDEF");
    bool ipv6_like = s[first] == ':' && s[strspn(s, "0123456789abcdefABCDEF:.")] == '\0';
    return strcmp(s, "localhost") == 0 || ipv6_like || is_ipv4_like(s);
}

static void decode_port(struct app_probe *p, const struct field *f)
{
    static const struct text_rule host_rule = { 1, 64, is_host, "an IP address or localhost" };
    struct field port = field_get(f, "port");
    field_require(&port);
    p->port = (int)field_int(f, "port", 1, 65535, 1);
    p->host = field_text(f, "host", &host_rule, "127.0.0.1");
}

static void decode_http(struct app_probe *p, const struct field *f)
{
    static const struct text_rule path_rule = { 1, 2048, is_http_path, "a path in printable ASCII" };
    static const char *const schemes[] = { "HTTP", NULL };
    decode_port(p, f);
    p->path = field_text(f, "path", &path_rule, "/");
    (void)field_choice(f, "scheme", schemes, 0);
}

static void decode_probe_action(struct app_probe *p, const struct field *f)
{
    struct field exec = field_get(f, "exec"), http = field_get(f, "httpGet"), tcp = field_get(f, "tcpSocket");
    size_t n;
    if (field_present(&exec) + field_present(&http) + field_present(&tcp) != 1) {
        field_bad(f, "give exactly one of exec, httpGet and tcpSocket");
    } else if (field_present(&exec)) {
        struct field command = field_get(&exec, "command");
        field_require(&command);
        p->kind = PROBE_EXEC;
        p->command = field_command(&exec, "command", &n);
    } else if (field_present(&http)) {
        p->kind = PROBE_HTTP;
        decode_http(p, &http);
    } else {
        p->kind = PROBE_TCP;
        decode_port(p, &tcp);
    }
}

const char *app_probe_word(enum app_probe_use use)
{
    static const char *const words[APP_PROBES] = { "startup", "liveness", "readiness" };
    return words[use];
}

// One success is enough to live, or to have started: as in Kubernetes, a higher threshold is refused and not passed over.
static void decode_probe(struct app_probe *p, const struct field *spec, enum app_probe_use use)
{
    static const char *const names[APP_PROBES] = { "startupProbe", "livenessProbe", "readinessProbe" };
    struct field f = field_get(spec, names[use]);
    if (!field_present(&f))
        return;
    decode_probe_action(p, &f);
    p->delay_ms = MS * field_int(&f, "initialDelaySeconds", 0, 3600, 0);
    p->period_ms = MS * field_int(&f, "periodSeconds", 1, 3600, 10);
    p->timeout_ms = MS * field_int(&f, "timeoutSeconds", 1, 300, 1);
    p->successes = (int)field_int(&f, "successThreshold", 1, use == APP_READINESS ? 100 : 1, 1);
    p->failures = (int)field_int(&f, "failureThreshold", 1, use == APP_STARTUP ? 1000 : 100, 3);
}

static void decode_update(struct app_spec *s, const struct field *spec)
{
    struct field f = field_get(spec, "update");
    s->max_unavailable = (int)field_int(&f, "maxUnavailable", 1, APP_REPLICAS_MAX, 1);
    s->min_ready_ms = MS * field_int(&f, "minReadySeconds", 0, 3600, 10);
    s->progress_deadline_ms = MS * field_int(&f, "progressDeadlineSeconds", 1, 86400, 600);
    s->rollback = field_bool(&f, "rollback", true);
}

// --- Container

// What a registry or a command line could take for something else than a name is refused.
static bool is_image(const char *s)
{
    static const char rest[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/@-";
    return strchr("._:/@-", s[0]) == NULL && s[strspn(s, rest)] == '\0';
}

// As Kubernetes: what may have another meaning tomorrow is asked for.
static enum image_pull default_pull(const char *image)
{
    const char *slash = strrchr(image, '/'), *tag = strrchr(slash != NULL ? slash : image, ':');
    if (strchr(image, '@') != NULL)
        return IMAGE_PULL_MISSING;
    return tag == NULL || strcmp(tag, ":latest") == 0 ? IMAGE_PULL_ALWAYS : IMAGE_PULL_MISSING;
}

// The pull policy is no part of it: it says how the image comes here.
static void add_image_to_revision(struct app_spec *s, bool own_dir)
{
    char text[1024], hex[SHA256_HEX];
    int n = snprintf(text, sizeof(text), "%s\n%s\n%d%d", s->process.revision, s->image, s->process.n_command > 0, own_dir);
    sha256_hex(text, (size_t)n, hex);
    snprintf(s->process.revision, sizeof(s->process.revision), "1-%.12s", hex);
}

static void check_container(const struct app_spec *s, const struct field *spec)
{
    struct field group = field_get(spec, "group"), rlimits = field_get(spec, "rlimits");
    if (s->process.group != NULL && s->process.user == NULL)
        field_bad(&group, "needs a user where there is an image");
    for (size_t i = 0; i < s->process.n_rlimits; i++)
        if (s->process.rlimits[i].resource == RLIMIT_AS)
            field_bad(&rlimits, "containers have no limit \"as\"");
}

static void decode_image(struct app_spec *s, const struct field *spec)
{
    static const struct text_rule image_rule = { 1, 512, is_image, "registry/name:tag or registry/name@sha256:..." };
    static const char *const policies[] = { "Always", "IfNotPresent", "Never", NULL };
    struct field image = field_get(spec, "image"), policy = field_get(spec, "imagePullPolicy"), dir = field_get(spec, "workingDir"),
                 command = field_get(spec, "command"), runtime = field_get(spec, "runtime");
    bool container = s->runtime != NULL && strcmp(s->runtime, RUNTIME_CONTAINER) == 0;
    s->image = field_text(spec, "image", &image_rule, NULL);
    if (s->image == NULL) {
        field_require(&command);
        if (container)
            field_bad(&image, "is required for runtime container");
        if (field_present(&policy))
            field_bad(&policy, "is about an image, and there is none");
        return;
    }
    if (s->runtime != NULL && !container)
        field_bad(&runtime, "must be container where there is an image");
    s->runtime = RUNTIME_CONTAINER;
    s->pull = (enum image_pull)field_choice(spec, "imagePullPolicy", policies, (int)default_pull(s->image));
    if (!field_present(&dir))
        s->process.workdir = NULL;
    check_container(s, spec);
    if (spec->d->rc == 0)
        add_image_to_revision(s, field_present(&dir));
}

int app_spec_decode(struct app_spec *s, const struct json *spec, const char *node, struct arena *a, struct err *e)
{
    static const char *const runtimes[] = { "exec", "systemd", RUNTIME_CONTAINER, NULL };
    static const char *const policies[] = { "Always", "OnFailure", "Never", NULL };
    struct decode d = { .arena = a, .err = e };
    struct field f = field_root(&d, spec, "spec");
    *s = (struct app_spec){ 0 };
    field_require(&f);
    field_node_name(&f, node);
    process_decode(&s->process, &f);
    struct field runtime = field_get(&f, "runtime");
    s->runtime = field_present(&runtime) ? runtimes[field_choice(&f, "runtime", runtimes, 0)] : NULL;
    decode_image(s, &f);
    s->replicas = (int)field_int(&f, "replicas", 0, APP_REPLICAS_MAX, 1);
    s->restart = (enum app_restart)field_choice(&f, "restartPolicy", policies, APP_ALWAYS);
    s->suspend = field_bool(&f, "suspend", false);
    s->restart_on_change = field_bool(&f, "restartOnChange", false);
    decode_update(s, &f);
    for (int use = 0; use < APP_PROBES; use++)
        decode_probe(&s->probes[use], &f, (enum app_probe_use)use);
    return d.rc;
}

void app_spec_runtime(struct app_spec *s, const char *dflt)
{
    static const char systemd[] = "systemd";
    if (s->runtime == NULL)
        s->runtime = strcmp(dflt, systemd) == 0 ? systemd : "exec"; // the others (null, fake) do not look at it
    size_t n = strlen(s->process.revision);
    if (strcmp(s->runtime, "exec") != 0)
        snprintf(s->process.revision + n, sizeof(s->process.revision) - n, "-%.8s", s->runtime);
    snprintf(s->asked, sizeof(s->asked), "%s", s->process.revision);
}

int app_exec_env(const struct app_spec *s, int index, const struct account *who, struct arena *a, struct exec_env *out, struct err *e)
{
    char number[16];
    snprintf(number, sizeof(number), "%d", index);
    struct env_var own = { "LIMPET_INSTANCE", arena_strdup(a, number) };
    return process_exec_env(&s->process, &own, 1, s->image == NULL ? who : NULL, a, out, e);
}
