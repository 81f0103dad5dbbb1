// SPDX-License-Identifier: Apache-2.0
#include "port/container_args.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/num.h"

enum { NAME_PART_MAX = 160, WORDS_FIXED = 64, LOG_WORDS = 7 };

void port_container_name(const char *owner, const char *uid, char out[CONTAINER_NAME_MAX])
{
    const char *slash = strrchr(owner, '/');
    char part[NAME_PART_MAX];
    snprintf(part, sizeof(part), "%s", slash != NULL ? slash + 1 : owner);
    for (char *c = part; *c != '\0'; c++)
        if ((*c < 'a' || *c > 'z') && (*c < 'A' || *c > 'Z') && (*c < '0' || *c > '9') && strchr("_.-", *c) == NULL)
            *c = '-';
    snprintf(out, CONTAINER_NAME_MAX, "limpet-%s-%s", part, uid);
}

// --- words

struct words {
    struct container_command *c;
    size_t n;
    bool full;
};

static void add(struct words *w, const char *word)
{
    w->full = w->full || word == NULL;
    if (!w->full)
        w->c->words[w->n++] = word;
}

static void PRINTF_LIKE(2, 3) addf(struct words *w, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    add(w, n >= 0 && (size_t)n < sizeof(text) ? arena_strdup(&w->c->arena, text) : NULL);
}

static void add_text(struct words *w, const char *option, const char *text)
{
    add(w, option);
    add(w, arena_strdup(&w->c->arena, text));
}

static void add_labels(struct words *w, const struct inst_spec *s, const struct container_place *place)
{
    addf(w, "--label=" CONTAINER_LABEL "uid=%s", s->uid);
    addf(w, "--label=" CONTAINER_LABEL "owner=%s", s->owner);
    addf(w, "--label=" CONTAINER_LABEL "revision=%s", s->revision != NULL ? s->revision : "");
    addf(w, "--label=" CONTAINER_LABEL "index=%d", s->index);
    addf(w, "--label=" CONTAINER_LABEL "boot=%s", place->boot_id);
    addf(w, "--label=" CONTAINER_LABEL "dir=%s", place->dir);
}

static const char *limit_name(int resource)
{
    static const struct {
        int resource;
        const char *name;
    } names[] = { { RLIMIT_CORE, "core" },       { RLIMIT_CPU, "cpu" },       { RLIMIT_DATA, "data" },   { RLIMIT_FSIZE, "fsize" },
                  { RLIMIT_MEMLOCK, "memlock" }, { RLIMIT_NOFILE, "nofile" }, { RLIMIT_NPROC, "nproc" }, { RLIMIT_STACK, "stack" } };
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (names[i].resource == resource)
            return names[i].name;
    return NULL;
}

static int add_limits(struct words *w, const struct inst_spec *s, struct err *e)
{
    const struct inst_limits *l = &s->limits;
    for (size_t i = 0; i < s->exec.n_rlimits; i++) {
        const struct rlimit_spec *r = &s->exec.rlimits[i];
        const char *name = limit_name(r->resource);
        if (name == NULL)
            return err_set(e, E_INVAL, "containers have no such limit as rlimit number %d", r->resource);
        addf(w, "--ulimit=%s=%" PRId64 ":%" PRId64, name, r->soft, r->hard);
    }
    if (l->memory > 0) {
        addf(w, "--memory=%" PRId64 "b", l->memory);
        addf(w, "--memory-swap=%" PRId64 "b", l->memory); // no swap on top, as Kubernetes has it
    }
    if (l->cpu_milli > 0)
        addf(w, "--cpus=%" PRId64 ".%03d", l->cpu_milli / 1000, (int)(l->cpu_milli % 1000));
    if (l->pids > 0)
        addf(w, "--pids-limit=%" PRId64, l->pids);
    return 0;
}

static void add_account(struct words *w, const struct exec_env *x)
{
    if (x->user != NULL && x->group != NULL)
        addf(w, "--user=%s:%s", x->user, x->group);
    else if (x->user != NULL)
        addf(w, "--user=%s", x->user);
    if (x->workdir != NULL)
        add_text(w, "--workdir", x->workdir);
}

// --- environment

// A variable of this name would change what the tool does. Better one too many than one too few: these only go another way.
static bool is_tools_own(const char *name, size_t n)
{
    static const char *const names[] = { "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG", "LANGUAGE", "TZ" };
    static const char *const heads[] = { "LD_",     "LC_",      "GO",       "DOCKER_",  "CONTAINER", "_CONTAINER",
                                         "PODMAN_", "BUILDAH_", "BUILDKIT", "STORAGE_", "REGISTRY_", "XDG_",
                                         "SSL_",    "DBUS_",    "NOTIFY_",  "LISTEN_",  "OTEL_",     "OCI_" };
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strlen(names[i]) == n && strncmp(name, names[i], n) == 0)
            return true;
    for (size_t i = 0; i < ARRAY_LEN(heads); i++)
        if (strncmp(name, heads[i], strlen(heads[i])) == 0)
            return true;
    return n > 6 && strncasecmp(name + n - 6, "_proxy", 6) == 0;
}

static int check_name(const char *var, size_t n, struct err *e)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    if (var[n] == '=' && n > 0 && strspn(var, plain) >= n)
        return 0;
    return err_set(e, E_INVAL, "containers take only letters, digits and underscores as name of a variable, not \"%.*s\"",
                   (int)MIN(n, (size_t)64), var);
}

// A line of the file is taken as it is by all versions of the tools when it looks like this.
static int add_to_file(struct buf *file, const char *var, size_t n, struct err *e)
{
    const char *v = var + n + 1;
    size_t len = strlen(v);
    bool blank = len > 0 && (strchr(" \t\"'", v[0]) != NULL || strchr(" \t\"'", v[len - 1]) != NULL);
    if (blank || v[strcspn(v, "\n\r")] != '\0')
        return err_set(e, E_INVAL,
                       "variable %.*s: its value cannot be told to the container tool, which knows a variable of this name itself",
                       (int)MIN(n, (size_t)64), var);
    return buf_addf(file, e, "%s\n", var);
}

static int add_env(struct words *w, const struct inst_spec *s, const struct container_place *place, struct err *e)
{
    struct container_command *c = w->c;
    size_t n_env = 0;
    for (const char *const *v = s->exec.env; v != NULL && *v != NULL; v++) {
        size_t n = strcspn(*v, "=");
        int rc = check_name(*v, n, e);
        if (rc == 0 && is_tools_own(*v, n)) {
            rc = add_to_file(&c->file, *v, n, e);
        } else if (rc == 0) {
            add(w, "--env");
            add(w, arena_strndup(&c->arena, *v, n));
            c->env[n_env++] = arena_strdup(&c->arena, *v);
            w->full = w->full || c->env[n_env - 1] == NULL;
        }
        if (rc < 0)
            return rc;
    }
    if (c->file.len > 0)
        add_text(w, "--env-file", place->env_file);
    return 0;
}

// --- the whole

static size_t count(const char *const *list)
{
    size_t n = 0;
    while (list != NULL && list[n] != NULL)
        n++;
    return n;
}

static int add_image(struct words *w, const struct inst_spec *s, struct err *e)
{
    const char *const *argv = s->exec.argv;
    size_t n = count(argv), first = s->entrypoint ? 1 : 0;
    if (s->image[0] == '-')
        return err_set(e, E_INVAL, "\"%.64s\" is no name of an image", s->image);
    if (s->entrypoint && argv[0][0] == '[')
        return err_set(e, E_INVAL, "podman does not take a program whose name begins with '['");
    if (s->entrypoint)
        add_text(w, "--entrypoint", argv[0]);
    add(w, arena_strdup(&w->c->arena, s->image));
    for (size_t i = first; i < n; i++)
        add(w, arena_strdup(&w->c->arena, argv[i]));
    return 0;
}

static void add_fixed(struct words *w, const struct inst_spec *s)
{
    static const char *const fixed[] = { "--pull=never", "--restart=no", "--network=host", "--no-healthcheck" };
    char name[CONTAINER_NAME_MAX];
    for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
        add(w, fixed[i]);
    port_container_name(s->owner, s->uid, name);
    addf(w, "--name=%s", name);
    addf(w, "--stop-timeout=%" PRId64, ((s->grace_ms > 0 ? s->grace_ms : 30 * 1000) + 999) / 1000);
}

int container_command_make(struct container_command *out, const struct inst_spec *s, const struct container_place *w, struct err *e)
{
    struct words words = { .c = out };
    size_t n_env = count(s->exec.env), n = WORDS_FIXED + 2 * n_env + count(s->exec.argv);
    *out = (struct container_command){ .log_max = s->log_max > 0 ? s->log_max : 1 << 20, .log_files = s->log_files > 0 ? s->log_files : 2 };
    arena_init(&out->arena, CONTAINER_ARGS_MAX);
    buf_init(&out->file, CONTAINER_ARGS_MAX);
    out->words = arena_alloc(&out->arena, n * sizeof(*out->words));
    out->env = arena_alloc(&out->arena, (n_env + 1) * sizeof(*out->env));
    if (out->words == NULL || out->env == NULL)
        return err_set(e, E_NOMEM, "no memory for the command of a container");
    add_fixed(&words, s);
    add_labels(&words, s, w);
    add_account(&words, &s->exec);
    int rc = add_limits(&words, s, e);
    if (rc == 0)
        rc = add_env(&words, s, w, e);
    if (rc == 0)
        rc = add_image(&words, s, e);
    return rc == 0 && words.full ? err_set(e, E_TOOBIG, "the command of the container is too large") : rc;
}

void container_command_free(struct container_command *c)
{
    for (const char **v = c->env; v != NULL && *v != NULL; v++)
        explicit_bzero((char *)(uintptr_t)*v, strlen(*v));
    arena_reset(&c->arena);
    c->words = c->env = NULL;
    buf_wipe(&c->file);
}

// podman has one file and empties it when it is full; docker turns several.
const char **container_log_words(const struct container_command *c, enum container_tool tool, struct arena *a)
{
    const char **w = arena_alloc(a, LOG_WORDS * sizeof(*w));
    bool docker = tool == TOOL_DOCKER;
    int64_t max = docker ? c->log_max : c->log_max * c->log_files;
    if (w == NULL)
        return NULL;
    w[0] = docker ? "--log-driver=json-file" : "--log-driver=k8s-file";
    w[1] = "--log-opt";
    w[2] = arena_printf(a, "max-size=%" PRId64, max);
    w[3] = docker ? "--log-opt" : NULL;
    w[4] = docker ? arena_printf(a, "max-file=%d", c->log_files) : NULL;
    return w[2] != NULL && (!docker || w[4] != NULL) ? w : NULL;
}
