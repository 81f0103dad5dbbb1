// SPDX-License-Identifier: Apache-2.0
// limpet apply, delete and diff: what lies in the manifest directory. They need no agent: one that runs sees the files change.
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "flow/manifest.h"
#include "local/cli.h"
#include "local/credentials.h"
#include "wire/yaml.h"
#include "wire/yaml_print.h"

enum { INPUTS_MAX = 64, DIFF_FAILED = 2 };

// An object, and where it stands.
struct item {
    struct list link;
    struct manifest_object object;
    char *file; // name in the manifest directory; NULL: of -f
};

struct manifest_cli {
    struct cli *c;
    struct disk *disk; // below [port] root
    const char *dir;
    struct registry *registry;
    struct kind_env env;
    struct manifest_env menv;
    char node[254], ns[64];
    struct list wanted, there;
    const char *inputs[INPUTS_MAX];
    size_t n_inputs;
    const char *kind;
    const char *names[INPUTS_MAX];
    size_t n_names;
};

static void forget(struct list *items)
{
    list_each_safe(n, next, items) {
        struct item *it = container_of(n, struct item, link);
        list_del(n);
        json_free(it->object.json);
        free(it->file);
        free(it);
    }
}

static void fini(struct manifest_cli *m)
{
    forget(&m->wanted);
    forget(&m->there);
    registry_free(m->registry);
    if (m->disk != NULL)
        disk_free(m->disk);
}

// --- Reading

struct gather {
    struct list *into;
    const char *file;
    struct err *e;
};

// What a person puts there is to be right, as kubectl has it by default; what lies there may be of a newer version.
static int refuse_unknown(const struct gather *g, const struct manifest_object *o)
{
    char text[ERR_MSG_MAX];
    if (o->n_unknown == 0 || g->file != NULL)
        return 0;
    manifest_say_unknown(o, text, sizeof(text));
    return err_set(g->e, E_INVAL, "%s", text);
}

static int gather(void *ctx, struct manifest_object *o)
{
    struct gather *g = ctx;
    if (refuse_unknown(g, o) < 0)
        return E_INVAL;
    struct item *it = calloc(1, sizeof(*it));
    if (it == NULL)
        return E_NOMEM;
    it->object = *o;
    it->file = g->file != NULL ? strdup(g->file) : NULL;
    o->json = NULL;
    list_add_tail(g->into, &it->link);
    return 0;
}

static int read_text(struct manifest_cli *m, const char *path, const char *shown, struct gather *g, struct err *e)
{
    struct buf text AUTO_BUF = BUF_INIT(YAML_TEXT_MAX);
    struct err why = ERR_INIT;
    g->e = &why;
    int rc = fs_read(g->file != NULL ? m->disk : m->c->disk, path, YAML_TEXT_MAX, 0, &text, &why);
    if (rc == 0)
        rc = manifest_read(&m->menv, buf_str(&text), text.len, gather, g, &why);
    return rc < 0 ? err_set(e, rc, "%s: %s", shown, why.msg) : 0;
}

static int read_stdin(struct manifest_cli *m, struct gather *g, struct err *e)
{
    struct buf text AUTO_BUF = BUF_INIT(YAML_TEXT_MAX);
    struct err why = ERR_INIT;
    char piece[4096];
    int rc = 0;
    g->e = &why;
    for (size_t n; rc == 0 && (n = fread(piece, 1, sizeof(piece), stdin)) > 0;)
        rc = buf_add(&text, piece, n, &why);
    if (rc == 0)
        rc = manifest_read(&m->menv, buf_str(&text), text.len, gather, g, &why);
    return rc < 0 ? err_set(e, rc, "standard input: %s", why.msg) : 0;
}

static int only_manifests(const struct dirent *d)
{
    return manifest_is_name(d->d_name);
}

// Every file of a directory that a person named, in the order of their names.
static int read_input_dir(struct manifest_cli *m, const char *path, struct gather *g, struct err *e)
{
    struct dirent **names = NULL;
    char file[PATH_MAX];
    int rc = 0, n = scandir(path, &names, only_manifests, alphasort);
    if (n < 0)
        return err_sys(e, errno, "%s", path);
    for (int i = 0; i < n; i++) {
        if (rc == 0 && snprintf(file, sizeof(file), "%s/%s", path, names[i]->d_name) < (int)sizeof(file))
            rc = read_text(m, file, file, g, e);
        free(names[i]);
    }
    free(names);
    return rc;
}

static int read_inputs(struct manifest_cli *m, struct err *e)
{
    struct gather g = { .into = &m->wanted };
    char whole[PATH_MAX];
    struct stat st;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < m->n_inputs; i++) {
        const char *path = cli_path(m->inputs[i], whole);
        if (strcmp(m->inputs[i], "-") == 0)
            rc = read_stdin(m, &g, e);
        else if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
            rc = read_input_dir(m, path, &g, e);
        else
            rc = read_text(m, path, m->inputs[i], &g, e);
    }
    return rc == 0 && m->n_inputs > 0 && list_empty(&m->wanted) ? err_set(e, E_INVAL, "no objects in what -f names") : rc;
}

// A file there that cannot be read hides what it defines: said, and passed over.
static int read_there_file(void *ctx, const char *name, enum fs_type type)
{
    struct manifest_cli *m = ctx;
    struct gather g = { .into = &m->there, .file = name };
    struct err e = ERR_INIT;
    char path[PATH_MAX];
    if (type == FS_DIR || !manifest_is_name(name) || snprintf(path, sizeof(path), "%s/%s", m->dir, name) >= (int)sizeof(path))
        return 0;
    if (read_text(m, path, name, &g, &e) < 0)
        fprintf(stderr, "limpet: warning: %s/%s\n", m->dir, e.msg);
    return 0;
}

static int read_there(struct manifest_cli *m, struct err *e)
{
    struct err why = ERR_INIT;
    int rc = m->disk->ops->list(m->disk, m->dir, read_there_file, m, &why);
    if (rc < 0 && rc != E_NOTFOUND)
        *e = why;
    return rc == E_NOTFOUND ? 0 : rc;
}

static const struct item *find(const struct list *items, const char *plural, const char *name)
{
    list_each(n, items) {
        const struct item *it = container_of(n, struct item, link);
        if (strcmp(it->object.kind->type.plural, plural) == 0 && strcmp(it->object.name, name) == 0)
            return it;
    }
    return NULL;
}

static bool is_alone_in_file(const struct manifest_cli *m, const struct item *it)
{
    list_each(n, &m->there) {
        const struct item *other = container_of(n, struct item, link);
        if (other != it && strcmp(other->file, it->file) == 0)
            return false;
    }
    return true;
}

// "edgeapp.edge.limpet.dev", as kubectl names a resource in what it says.
static void resource(const struct kind *k, char out[200])
{
    char kind[80];
    ascii_lower(k->name, kind, sizeof(kind));
    snprintf(out, 200, "%s.%s", kind, k->type.group);
}

static int not_alone(const struct item *it, const char *dir, struct err *e)
{
    return err_set(e, E_CONFLICT, "%s %s is defined by %s/%s together with other objects: edit that file", it->object.kind->name,
                   it->object.name, dir, it->file);
}

// --- The commands

static int apply_one(struct manifest_cli *m, const struct item *want, struct err *e)
{
    const struct item *is = find(&m->there, want->object.kind->type.plural, want->object.name);
    char path[PATH_MAX], kind[80], what[200];
    struct buf text AUTO_BUF = BUF_INIT(YAML_TEXT_MAX);
    bool same = is != NULL && json_equal(is->object.json, want->object.json);
    if (is != NULL && !same && !is_alone_in_file(m, is))
        return not_alone(is, m->dir, e);
    ascii_lower(want->object.kind->name, kind, sizeof(kind));
    int n = is != NULL ? snprintf(path, sizeof(path), "%s/%s", m->dir, is->file)
                       : snprintf(path, sizeof(path), "%s/%s-%.220s.yaml", m->dir, kind, want->object.name);
    int rc = n < (int)sizeof(path) ? yaml_print(want->object.json, &text, e) : err_set(e, E_TOOBIG, "%s: the path is too long", m->dir);
    if (rc == 0 && !same)
        rc = fs_write(m->disk, path, buf_str(&text), text.len, 0600, 0, e);
    if (rc < 0)
        return rc;
    resource(want->object.kind, what);
    printf("%s/%s %s\n", what, want->object.name, is == NULL ? "created" : same ? "unchanged" : "configured");
    return 0;
}

static int apply(struct manifest_cli *m, struct err *e)
{
    int rc = m->disk->ops->mkdirs(m->disk, m->dir, 0755, 0, e);
    list_each(n, &m->wanted)
        if (rc == 0)
            rc = apply_one(m, container_of(n, struct item, link), e);
    return rc;
}

static int delete_one(struct manifest_cli *m, const struct kind *k, const char *name, struct err *e)
{
    const struct item *is = find(&m->there, k->type.plural, name);
    char path[PATH_MAX], what[200];
    if (is == NULL)
        return err_set(e, E_NOTFOUND, "%s \"%s\" not found in %s", k->type.plural, name, m->dir);
    if (!is_alone_in_file(m, is))
        return not_alone(is, m->dir, e);
    snprintf(path, sizeof(path), "%s/%s", m->dir, is->file);
    int rc = m->disk->ops->unlink(m->disk, path, 0, e);
    resource(k, what);
    if (rc == 0)
        printf("%s \"%s\" deleted\n", what, name);
    return rc;
}

static int delete (struct manifest_cli *m, struct err *e)
{
    const struct kind *k = m->kind != NULL ? registry_find(m->registry, m->kind) : NULL;
    int rc = m->kind != NULL && k == NULL ? err_set(e, E_NOTFOUND, "no kind \"%.60s\"", m->kind) : 0;
    for (size_t i = 0; rc == 0 && i < m->n_names; i++)
        rc = delete_one(m, k, m->names[i], e);
    list_each(n, &m->wanted) {
        const struct manifest_object *o = &container_of(n, struct item, link)->object;
        if (rc == 0)
            rc = delete_one(m, o->kind, o->name, e);
    }
    return rc;
}

static int write_side(struct manifest_cli *m, const char *tmp, const char *side, const struct item *it, const struct manifest_object *o,
                      struct err *e)
{
    char path[PATH_MAX];
    struct buf text AUTO_BUF = BUF_INIT(YAML_TEXT_MAX);
    snprintf(path, sizeof(path), "%s/%s/%s.%.220s", tmp, side, o->kind->type.plural, o->name);
    int rc = it == NULL ? 0 : yaml_print(it->object.json, &text, e);
    return rc < 0 || it == NULL ? rc : fs_write(m->c->disk, path, buf_str(&text), text.len, 0600, FS_NOSYNC, e);
}

static int run_diff(const char *tmp)
{
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (chdir(tmp) == 0)
            execlp("diff", "diff", "-u", "-N", "-r", "there", "applied", (char *)NULL);
        fprintf(stderr, "limpet: diff: %s\n", strerror(errno));
        _exit(DIFF_FAILED);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
        return DIFF_FAILED;
    return WEXITSTATUS(status);
}

static int diff(struct manifest_cli *m, struct err *e)
{
    char tmp[] = "/tmp/limpet-diff-XXXXXX", path[64];
    if (mkdtemp(tmp) == NULL)
        return err_sys(e, errno, "%s", tmp);
    static const char *const sides[] = { "there", "applied" };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(sides); i++) {
        snprintf(path, sizeof(path), "%s/%s", tmp, sides[i]);
        rc = m->c->disk->ops->mkdirs(m->c->disk, path, 0700, FS_NOSYNC, e);
    }
    list_each(n, &m->wanted) {
        const struct item *want = container_of(n, struct item, link);
        const struct item *is = find(&m->there, want->object.kind->type.plural, want->object.name);
        if (rc == 0)
            rc = write_side(m, tmp, "there", is, &want->object, e);
        if (rc == 0)
            rc = write_side(m, tmp, "applied", want, &want->object, e);
    }
    if (rc == 0)
        rc = run_diff(tmp);
    struct err ignored = ERR_INIT;
    (void)!m->c->disk->ops->rmtree(m->c->disk, tmp, &ignored);
    return rc;
}

// --- The command line

static int take_args(struct manifest_cli *m, bool names)
{
    struct cli *c = m->c;
    for (int i = 1; i < c->argc; i++) {
        bool missing;
        const char *f = cli_value(c, &i, "-f", &missing);
        if (f == NULL && !missing)
            f = cli_value(c, &i, "--filename", &missing);
        if (missing || (f != NULL && m->n_inputs == INPUTS_MAX))
            return cli_usage(c, missing ? "-f needs a file, a directory or -" : "too many files");
        if (f != NULL)
            m->inputs[m->n_inputs++] = f;
        else if (c->argv[i][0] == '-' || !names || m->n_names == INPUTS_MAX)
            return cli_usage(c, "unknown argument %s", c->argv[i]);
        else if (m->kind == NULL)
            m->kind = c->argv[i];
        else
            m->names[m->n_names++] = c->argv[i];
    }
    bool named = m->kind != NULL && m->n_names > 0;
    if (m->kind != NULL ? !named || m->n_inputs > 0 : m->n_inputs == 0)
        return cli_usage(c, names ? "either -f, or KIND and NAME" : "-f is needed");
    return EXIT_OK;
}

static int add_kinds(struct registry *r, struct err *e)
{
    static const struct kind *const kinds[] = { &kind_edgeapp, &kind_edgeconfig, &kind_edgejob, &kind_edgenode, &kind_edgepolicy };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(kinds); i++)
        rc = registry_add(r, kinds[i], e);
    return rc;
}

// The namespace is left to the agent, who knows it.
static int open_all(struct manifest_cli *m, struct err *e)
{
    struct config *config = &m->c->config;
    struct cred none = { 0 };
    if (config->manifests_dir == NULL || config->manifests_dir[0] == '\0')
        return err_set(e, E_INVAL, "[manifests] dir is empty");
    m->dir = config->manifests_dir;
    credentials_names(config, &none, m->node, m->ns);
    int rc = path_check(m->dir, e);
    if (rc == 0)
        rc = registry_new(&m->registry, e);
    if (rc == 0)
        rc = add_kinds(m->registry, e);
    if (rc == 0)
        rc = disk_real_new(&m->disk, NULL, config->port_root != NULL ? config->port_root : "", e);
    m->env = (struct kind_env){ .disk = m->disk, .clock = &m->c->clock, .config = config, .node = m->node, .ns = m->ns };
    m->menv = (struct manifest_env){ .registry = m->registry, .env = &m->env };
    return rc;
}

static int work(struct cli *c, bool names, int failed, int (*fn)(struct manifest_cli *m, struct err *e))
{
    struct manifest_cli m = { .c = c };
    struct err e = ERR_INIT;
    list_init(&m.wanted);
    list_init(&m.there);
    int rc = take_args(&m, names);
    if (rc != EXIT_OK)
        return rc;
    rc = open_all(&m, &e);
    if (rc == 0)
        rc = read_inputs(&m, &e);
    if (rc == 0)
        rc = read_there(&m, &e);
    if (rc == 0)
        rc = fn(&m, &e);
    fini(&m);
    if (rc >= 0)
        return rc;
    (void)cli_fail(&e);
    return failed;
}

int cli_apply(struct cli *c)
{
    return work(c, false, EXIT_FAIL, apply);
}

int cli_delete(struct cli *c)
{
    return work(c, true, EXIT_FAIL, delete);
}

int cli_diff(struct cli *c)
{
    return work(c, false, DIFF_FAILED, diff); // 1 says that something differs
}
