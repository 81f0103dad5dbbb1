// SPDX-License-Identifier: Apache-2.0
#include "kinds/process.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/num.h"
#include "base/sha256.h"

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

#define LIMIT_MEMORY (INT64_C(1) << 50)

enum { LIMIT_CPUS = 4096, LIMIT_PIDS = 1 << 22 };
enum { MS = 1000, MAX_LOG_FILE = 1 << 30, MIN_LOG_FILE = 4096, PASSWD_MAX = 1 << 20 };

// --- Decoding

bool process_is_env_name(const char *s)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    static const char rest[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    return strspn(s, letters) > 0 && s[strspn(s, rest)] == '\0';
}

static bool is_absolute(const char *s)
{
    return s[0] == '/';
}

// An empty value beside a reference is the default of the CRD.
static void decode_value_from(const struct field *f, const struct env_var *v, struct ref *ref)
{
    struct field from = field_get(f, "valueFrom");
    if (!field_present(&from))
        return;
    if (v->value[0] != '\0')
        field_bad(f, "give value or valueFrom, not both");
    ref_decode_key(ref, &from);
}

static bool decode_env_var(const struct field *f, struct env_var *v, struct ref *ref, const struct env_var *earlier, size_t n)
{
    static const struct text_rule name_rule = { 1, 256, process_is_env_name, "letters, digits and underscores, not starting with a digit" };
    static const struct text_rule value_rule = { 0, 32000, NULL, NULL };
    struct field name = field_get(f, "name");
    field_require(&name);
    v->name = field_text(f, "name", &name_rule, "");
    v->value = field_text(f, "value", &value_rule, "");
    for (size_t i = 0; i < n; i++)
        if (strcmp(earlier[i].name, v->name) == 0)
            field_bad(&name, "\"%s\" is there twice", v->name);
    decode_value_from(f, v, ref);
    return f->d->rc == 0;
}

static void decode_env(struct process *s, const struct field *spec)
{
    struct field list = field_get(spec, "env");
    size_t n = field_count(&list, 0, PROCESS_ENV_MAX);
    s->env = arena_alloc(list.d->arena, (n + 1) * sizeof(*s->env));
    s->env_refs = arena_alloc(list.d->arena, (n + 1) * sizeof(*s->env_refs));
    if (s->env == NULL || s->env_refs == NULL) {
        field_no_memory(&list);
        return;
    }
    const struct json *item = json_first(list.j);
    for (size_t i = 0; i < n; i++, item = json_next(item)) {
        struct field f = field_item(&list, item, i);
        if (!decode_env_var(&f, &s->env[i], &s->env_refs[i], s->env, i))
            return;
        s->n_env++;
    }
}

static void decode_env_source(const struct field *f, struct env_from *from)
{
    static const struct text_rule prefix_rule = { 0, 256, NULL, NULL };
    struct field secret = field_get(f, "secretRef"), map = field_get(f, "configMapRef"), prefix = field_get(f, "prefix");
    if (field_present(&secret) + field_present(&map) != 1)
        field_bad(f, "give exactly one of secretRef and configMapRef");
    ref_decode_whole(&from->ref, f, "secretRef", REF_SECRET);
    ref_decode_whole(&from->ref, f, "configMapRef", REF_CONFIGMAP);
    from->prefix = field_text(f, "prefix", &prefix_rule, "");
    if (from->prefix[0] != '\0' && !process_is_env_name(from->prefix))
        field_bad(&prefix, "must be letters, digits and underscores, not starting with a digit");
}

static void decode_env_from(struct process *s, const struct field *spec)
{
    struct field list = field_get(spec, "envFrom");
    size_t n = field_count(&list, 0, PROCESS_ENV_FROM_MAX);
    s->env_from = arena_alloc(list.d->arena, (n + 1) * sizeof(*s->env_from));
    if (s->env_from == NULL) {
        field_no_memory(&list);
        return;
    }
    const struct json *item = json_first(list.j);
    for (; s->n_env_from < n && list.d->rc == 0; item = json_next(item), s->n_env_from++) {
        struct field f = field_item(&list, item, s->n_env_from);
        decode_env_source(&f, &s->env_from[s->n_env_from]);
    }
}

static const char *const limit_names[] = { "as", "core", "cpu", "data", "fsize", "memlock", "nofile", "nproc", "stack", NULL };
static const int limit_resources[] = { RLIMIT_AS,      RLIMIT_CORE,   RLIMIT_CPU,   RLIMIT_DATA, RLIMIT_FSIZE,
                                       RLIMIT_MEMLOCK, RLIMIT_NOFILE, RLIMIT_NPROC, RLIMIT_STACK };

static const char *limit_name(int resource)
{
    size_t i = 0;
    while (limit_resources[i] != resource)
        i++;
    return limit_names[i];
}

static int64_t decode_limit(const struct field *f, const char *name)
{
    struct field v = field_get(f, name);
    field_require(&v);
    return field_int(f, name, -1, INT64_MAX, -1);
}

// Kept in order of the names: the order of the list means nothing, and numbers differ between architectures.
static void insert_limit(struct process *s, const struct field *f, const struct rlimit_spec *new)
{
    size_t at = 0;
    while (at < s->n_rlimits && strcmp(limit_name(s->rlimits[at].resource), limit_name(new->resource)) < 0)
        at++;
    if (at < s->n_rlimits && s->rlimits[at].resource == new->resource) {
        field_bad(f, "this name is there twice");
        return;
    }
    memmove(&s->rlimits[at + 1], &s->rlimits[at], (s->n_rlimits - at) * sizeof(*new));
    s->rlimits[at] = *new;
    s->n_rlimits++;
}

static void decode_rlimits(struct process *s, const struct field *spec)
{
    struct field list = field_get(spec, "rlimits");
    size_t n = field_count(&list, 0, RLIMITS_MAX - 1);
    const struct json *item = json_first(list.j);
    for (size_t i = 0; i < n; i++, item = json_next(item)) {
        struct field f = field_item(&list, item, i), name = field_get(&f, "name");
        field_require(&name);
        struct rlimit_spec l = { .resource = limit_resources[field_choice(&f, "name", limit_names, 0)] };
        l.soft = decode_limit(&f, "soft");
        l.hard = decode_limit(&f, "hard");
        if (l.hard != -1 && (l.soft == -1 || l.soft > l.hard))
            field_bad(&f, "soft must not be above hard");
        insert_limit(s, &f, &l);
    }
}

// As Kubernetes writes them: a number or a text, 1 and "1" and "1000m" are the same.
static int64_t decode_amount(const struct field *limits, const char *name, int64_t scale, int64_t max)
{
    struct field f = field_get(limits, name);
    struct err why = ERR_INIT;
    int64_t v = 0, whole;
    const char *text = json_str(f.j);
    if (!field_present(&f))
        return 0;
    if (text != NULL && num_quantity(text, scale, &v, &why) < 0)
        field_bad(&f, "%s", why.msg);
    else if (text == NULL && json_i64(f.j, &whole))
        v = whole < max / scale ? whole * scale : max + 1;
    if (v < 1 || v > max)
        field_bad(&f, "not between 1/%lld and %lld", (long long)scale, (long long)(max / scale));
    return v;
}

static void decode_resources(struct process *s, const struct field *spec)
{
    struct field resources = field_get(spec, "resources"), limits = field_get(&resources, "limits");
    s->limits.cpu_milli = decode_amount(&limits, "cpu", 1000, LIMIT_CPUS * 1000);
    s->limits.memory = decode_amount(&limits, "memory", 1, LIMIT_MEMORY);
    s->limits.pids = field_int(&limits, "pids", 1, LIMIT_PIDS, 0);
}

static void decode_logs(struct process *s, const struct field *spec)
{
    struct field f = field_get(spec, "logs");
    s->log_max = field_quantity(&f, "maxSize", MIN_LOG_FILE, MAX_LOG_FILE, 1 << 20);
    s->log_files = (int)field_int(&f, "maxFiles", 1, 10, 2);
}

static void decode_command(struct process *s, const struct field *spec)
{
    s->command = field_command(spec, "command", &s->n_command);
    s->args = field_texts(spec, "args", 0, PROCESS_ARGS_MAX, &text_word, &s->n_args);
}

static void decode_account(struct process *s, const struct field *spec)
{
    static const struct text_rule dir_rule = { 1, 4000, is_absolute, "an absolute path" };
    s->user = field_text(spec, "user", &text_account, NULL);
    s->group = field_text(spec, "group", &text_account, NULL);
    s->workdir = field_text(spec, "workingDir", &dir_rule, "/");
}

// --- Revision

static void add_text(struct sha256 *h, const char *s)
{
    uint64_t n = strlen(s);
    unsigned char length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(n >> (56 - 8 * i));
    sha256_add(h, length, sizeof(length));
    sha256_add(h, s, n);
}

static void add_number(struct sha256 *h, int64_t v)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRId64, v);
    add_text(h, text);
}

static void add_ref(struct sha256 *h, const struct ref *r)
{
    add_number(h, r->kind * 2 + r->optional);
    add_text(h, r->name);
    add_text(h, r->key != NULL ? r->key : "");
}

// What is referred to. The values are not in it: edgeapp.c.
static void add_refs(struct sha256 *h, const struct process *s)
{
    for (size_t i = 0; i < s->n_env_from; i++) {
        add_text(h, "envFrom");
        add_ref(h, &s->env_from[i].ref);
        add_text(h, s->env_from[i].prefix);
    }
    for (size_t i = 0; i < s->n_env; i++)
        if (s->env_refs[i].name != NULL) {
            add_text(h, "valueFrom");
            add_number(h, (int64_t)i);
            add_ref(h, &s->env_refs[i]);
        }
}

// Every text carries its length, every list its number of items: no two specs share an encoding. Fields at their default are left
// out. Where it runs is not in it: edgeapp_spec.c.
static void compute_revision(struct process *s)
{
    char hex[SHA256_HEX];
    struct sha256 h;
    sha256_init(&h);
    add_text(&h, "argv");
    add_number(&h, (int64_t)(s->n_command + s->n_args));
    for (size_t i = 0; i < s->n_command + s->n_args; i++)
        add_text(&h, i < s->n_command ? s->command[i] : s->args[i - s->n_command]);
    if (s->n_env > 0) {
        add_text(&h, "env");
        add_number(&h, (int64_t)s->n_env);
    }
    for (size_t i = 0; i < s->n_env; i++) {
        add_text(&h, s->env[i].name);
        add_text(&h, s->env[i].value);
    }
    const struct env_var texts[] = { { "user", s->user },
                                     { "group", s->group },
                                     { "workingDir", s->workdir[1] != '\0' ? s->workdir : NULL } };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        if (texts[i].value != NULL) {
            add_text(&h, texts[i].name);
            add_text(&h, texts[i].value);
        }
    for (size_t i = 0; i < s->n_rlimits; i++) {
        add_text(&h, "rlimit");
        add_text(&h, limit_name(s->rlimits[i].resource));
        add_number(&h, s->rlimits[i].soft);
        add_number(&h, s->rlimits[i].hard);
    }
    const struct {
        const char *name;
        int64_t v;
    } limits[] = { { "cpu", s->limits.cpu_milli }, { "memory", s->limits.memory }, { "pids", s->limits.pids } };
    for (size_t i = 0; i < ARRAY_LEN(limits); i++)
        if (limits[i].v > 0) {
            add_text(&h, limits[i].name);
            add_number(&h, limits[i].v);
        }
    add_refs(&h, s);
    sha256_end_hex(&h, hex);
    snprintf(s->revision, sizeof(s->revision), "1-%.12s", hex);
}

void process_decode(struct process *s, const struct field *spec)
{
    decode_command(s, spec);
    decode_env(s, spec);
    decode_env_from(s, spec);
    decode_account(s, spec);
    s->grace_ms = MS * field_int(spec, "terminationGracePeriodSeconds", 0, 3600, 30);
    decode_rlimits(s, spec);
    decode_resources(s, spec);
    decode_logs(s, spec);
    if (spec->d->rc == 0)
        compute_revision(s);
}

// --- What an instance is started with

// One field of a passwd line: up to the next ':' or the line's end; moves *p behind it.
static size_t passwd_field(const char **p, const char **start)
{
    *start = *p;
    size_t n = strcspn(*p, ":\n");
    *p += n + ((*p)[n] == ':');
    return n;
}

static bool is_text(const char *p, size_t n, const char *s)
{
    return strlen(s) == n && memcmp(p, s, n) == 0;
}

bool account_find(struct account *out, const char *passwd, const char *user)
{
    for (const char *line = passwd; *line != '\0'; line += strspn(line, "\n")) {
        const char *field[6], *p = line;
        size_t len[6];
        for (int i = 0; i < 6; i++)
            len[i] = passwd_field(&p, &field[i]);
        line += strcspn(line, "\n");
        if (!is_text(field[0], len[0], user) && !is_text(field[2], len[2], user))
            continue;
        snprintf(out->name, sizeof(out->name), "%.*s", (int)MIN(len[0], sizeof(out->name)), field[0]);
        snprintf(out->home, sizeof(out->home), "%.*s", (int)MIN(len[5], sizeof(out->home)), field[5]);
        return true;
    }
    return false;
}

static const struct env_var *find_env(const struct env_var *env, size_t n_env, const char *name, size_t n)
{
    for (size_t i = 0; i < n_env; i++)
        if (is_text(name, n, env[i].name))
            return &env[i];
    return NULL;
}

struct environment {
    const struct process *s;
    const struct env_var *vars; // the spec's are the last ones
    size_t n;
};

static bool is_secret(const struct environment *all, const struct env_var *v)
{
    size_t i = (size_t)(v - all->vars), own = all->n - all->s->n_env;
    return i >= own && all->s->env_refs[i - own].name != NULL && all->s->env_refs[i - own].kind == REF_SECRET;
}

static const char *lookup_env(const void *ctx, const char *name, size_t n)
{
    const struct environment *all = ctx;
    const struct env_var *v = find_env(all->vars, all->n, name, n);
    return v != NULL && !is_secret(all, v) ? v->value : NULL;
}

// Bytes that the text at `in`, which starts with '$', stands for; *used of the input are consumed.
static const char *expand_one(const char *in, const char *(*lookup)(const void *, const char *, size_t), const void *ctx, size_t *used,
                              size_t *n)
{
    const char *end = in[1] == '(' ? strchr(in, ')') : NULL;
    const char *value = end != NULL ? lookup(ctx, in + 2, (size_t)(end - in) - 2) : NULL;
    if (value != NULL) {
        *used = (size_t)(end - in) + 1;
        *n = strlen(value);
        return value;
    }
    // Unknown, or no reference at all: as it stands, except that $$ is one $.
    *used = end != NULL ? (size_t)(end - in) + 1 : in[1] != '\0' ? 2 : 1;
    *n = in[1] == '$' ? 1 : *used;
    return in;
}

char *process_expand(const char *text, const char *(*lookup)(const void *ctx, const char *name, size_t n), const void *ctx, struct arena *a)
{
    size_t total = 0, used, n;
    for (const char *in = text; *in != '\0'; in += used, total += n)
        if (*in != '$')
            used = n = strcspn(in, "$");
        else
            (void)expand_one(in, lookup, ctx, &used, &n);
    char *out = arena_alloc(a, total + 1), *to = out;
    if (out == NULL)
        return NULL;
    for (const char *in = text; *in != '\0'; in += used, to += n) {
        const char *from = in;
        if (*in != '$')
            used = n = strcspn(in, "$");
        else
            from = expand_one(in, lookup, ctx, &used, &n);
        memcpy(to, from, n);
    }
    return out;
}

void process_account(struct disk *d, const struct process *s, struct account *out)
{
    char self[16];
    struct err ignored = ERR_INIT;
    AUTO_BUF struct buf passwd = BUF_INIT(PASSWD_MAX);
    *out = (struct account){ "", "" };
    snprintf(self, sizeof(self), "%u", (unsigned)geteuid());
    if (fs_read(d, "/etc/passwd", PASSWD_MAX, 0, &passwd, &ignored) == 0)
        (void)account_find(out, buf_str(&passwd), s->user != NULL ? s->user : self);
}

static void add_own(const struct process *s, const char *name, const char *value, struct environment *all, struct env_var *vars)
{
    if (value != NULL && find_env(s->env, s->n_env, name, strlen(name)) == NULL)
        vars[all->n++] = (struct env_var){ name, value };
}

static const char *const *env_texts(const struct environment *all, struct arena *a)
{
    const char **out = arena_alloc(a, (all->n + 1) * sizeof(*out));
    for (size_t i = 0; out != NULL && i < all->n; i++) {
        out[i] = arena_printf(a, "%s=%s", all->vars[i].name, all->vars[i].value);
        if (out[i] == NULL)
            return NULL;
    }
    return out;
}

static const char *const *argv_texts(const struct process *s, const struct environment *all, struct arena *a)
{
    size_t n = s->n_command + s->n_args;
    const char **out = arena_alloc(a, (n + 1) * sizeof(*out));
    for (size_t i = 0; out != NULL && i < n; i++) {
        out[i] = process_expand(i < s->n_command ? s->command[i] : s->args[i - s->n_command], lookup_env, all, a);
        if (out[i] == NULL)
            return NULL;
    }
    return out;
}

int process_exec_env(const struct process *s, const struct env_var *own, size_t n_own, const struct account *who, struct arena *a,
                     struct exec_env *out, struct err *e)
{
    struct env_var *vars = arena_alloc(a, (s->n_env + 3 + n_own) * sizeof(*vars));
    if (vars == NULL)
        return err_set(e, E_TOOBIG, "spec.env: too large for the memory of a pass");
    struct environment all = { s, vars, 0 };
    if (who != NULL) {
        add_own(s, "PATH", DEFAULT_PATH, &all, vars);
        add_own(s, "HOME", who->home[0] != '\0' ? who->home : NULL, &all, vars);
        add_own(s, "USER", who->name[0] != '\0' ? who->name : NULL, &all, vars);
    }
    for (size_t i = 0; i < n_own; i++)
        add_own(s, own[i].name, own[i].value, &all, vars);
    for (size_t i = 0; i < s->n_env; i++)
        vars[all.n++] = s->env[i];
    *out = (struct exec_env){ .argv = argv_texts(s, &all, a),
                              .env = env_texts(&all, a),
                              .user = s->user,
                              .group = s->group,
                              .workdir = s->workdir,
                              .n_rlimits = s->n_rlimits };
    memcpy(out->rlimits, s->rlimits, sizeof(out->rlimits));
    if (out->argv == NULL || out->env == NULL)
        return err_set(e, E_TOOBIG, "spec.command, args and env: too large for the memory of a pass");
    return 0;
}
