// SPDX-License-Identifier: Apache-2.0
#include "config/config.h"

#include <ctype.h>
#include <ini.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "config/config_keys.h"

enum { DIR_LEN_MAX = 255 }; // so that every path below them fits the buffers made for it
enum { FILE_MAX = 256 * 1024, CONF_D_MAX = 64 };

struct reader {
    struct config *c;
    struct disk *d;
    struct buf *problems;
    const char *file;
    enum config_origin origin; // of what is being read
    int count;
    bool no_memory;
};

static void problem(struct reader *r, int line, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void problem(struct reader *r, int line, const char *fmt, ...)
{
    char text[600];
    struct err e = ERR_INIT;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    r->count++;
    int rc =
        line > 0 ? buf_addf(r->problems, &e, "%s:%d: %s\n", r->file, line, text) : buf_addf(r->problems, &e, "%s: %s\n", r->file, text);
    if (rc < 0)
        r->no_memory = true;
}

static const struct config_key *find_key(const char *section, const char *name)
{
    for (size_t i = 0; i < n_config_keys; i++)
        if (strcmp(config_keys[i].section, section) == 0 && strcmp(config_keys[i].name, name) == 0)
            return &config_keys[i];
    return NULL;
}

static bool is_section(const char *name)
{
    for (size_t i = 0; i < n_config_keys; i++)
        if (strcmp(config_keys[i].section, name) == 0)
            return true;
    return false;
}

// Setting one field.

static int set_text(char **field, const char *value, struct err *e)
{
    char *copy = value[0] != '\0' ? strdup(value) : NULL;
    if (value[0] != '\0' && copy == NULL)
        return err_set(e, E_NOMEM, "configuration");
    free(*field);
    *field = copy;
    return 0;
}

static void free_paths(char **paths)
{
    for (size_t i = 0; paths[i] != NULL; i++)
        free(steal(paths[i]));
}

static int set_paths(char **paths, const char *value, struct err *e)
{
    char word[PATH_MAX];
    size_t n = 0;
    free_paths(paths);
    for (const char *p = value; *p != '\0';) {
        size_t len = strcspn(p, " \t,");
        if (len >= sizeof(word))
            return err_set(e, E_INVAL, "a path that is too long");
        if (len > 0) {
            snprintf(word, sizeof(word), "%.*s", (int)len, p);
            if (n == GUARD_PATHS_MAX)
                return err_set(e, E_INVAL, "more than %d paths", GUARD_PATHS_MAX);
            int rc = path_check(word, e);
            if (rc == 0)
                rc = set_text(&paths[n++], word, e);
            if (rc < 0)
                return rc;
        }
        p += len;
        p += strspn(p, " \t,");
    }
    return 0;
}

static int set_word(const struct config_key *k, void *field, const char *value, struct err *e)
{
    for (size_t i = 0; k->words[i] != NULL; i++)
        if (strcmp(k->words[i], value) == 0) {
            *(int *)field = (int)i;
            return 0;
        }
    return err_set(e, E_INVAL, "\"%s\" is none of the words (%s)", value, k->help);
}

static int set_number(const struct config_key *k, void *field, const char *value, struct err *e)
{
    int64_t v = 0;
    int rc;
    if (k->type == KEY_DURATION)
        rc = num_duration_ms(value, &v, e);
    else if (k->type == KEY_SIZE)
        rc = num_quantity(value, 1, &v, e);
    else
        rc = num_i64(value, INT64_MIN, INT64_MAX, &v, e);
    if (rc < 0)
        return rc;
    if (v < k->min || v > k->max)
        return err_set(e, E_INVAL, "\"%s\" is out of range (%lld to %lld %s)", value, (long long)k->min, (long long)k->max,
                       k->type == KEY_DURATION ? "ms" : (k->type == KEY_SIZE ? "bytes" : ""));
    *(int64_t *)field = v;
    return 0;
}

static int set_field(struct config *c, const struct config_key *k, const char *value, struct err *e)
{
    void *field = (char *)c + k->offset;
    int rc = 0;
    switch (k->type) {
    case KEY_BOOL:
        return num_bool(value, field, e);
    case KEY_ENUM:
        return set_word(k, field, value, e);
    case KEY_PATHS:
        return set_paths(field, value, e);
    case KEY_PATH:
        rc = value[0] != '\0' ? path_check(value, e) : 0;
        return rc < 0 ? rc : set_text(field, value, e);
    case KEY_STRING:
        return set_text(field, value, e);
    default:
        return set_number(k, field, value, e);
    }
}

static int set_key(struct reader *r, const struct config_key *k, const char *value, struct err *e)
{
    r->c->origins[k - config_keys] = (unsigned char)r->origin;
    return set_field(r->c, k, value, e);
}

static void assign(struct reader *r, int line, const char *section, const char *name, const char *value)
{
    struct err e = ERR_INIT;
    const struct config_key *k = find_key(section, name);
    if (k != NULL) {
        if (set_key(r, k, value, &e) < 0)
            problem(r, line, "[%s] %s: %s", section, name, e.msg);
        return;
    }
    bool known = is_section(section);
    const char *near = config_nearest(section, known ? name : section, !known);
    problem(r, line, known ? "[%s] %s: unknown key%s%s%s" : "[%s] %s: unknown section%s%s%s", section, name,
            near != NULL ? "; did you mean \"" : "", near != NULL ? near : "", near != NULL ? "\"?" : "");
}

// Sources.

static int on_ini(void *user, const char *section, const char *name, const char *value, int line)
{
    assign(user, line, section, name != NULL ? name : "", value != NULL ? value : "");
    return 1;
}

static void read_text(struct reader *r, const char *text)
{
    int line = ini_parse_string(text, on_ini, r);
    if (line > 0)
        problem(r, line, "neither [section] nor key = value");
    else if (line < 0)
        r->no_memory = true;
}

// False: it was not there.
static bool read_file(struct reader *r, const char *path)
{
    struct buf text AUTO_BUF = BUF_INIT(FILE_MAX);
    struct err e = ERR_INIT;
    r->file = path;
    int rc = fs_read(r->d, path, FILE_MAX, 0, &text, &e);
    if (rc == E_NOTFOUND)
        return false;
    if (rc < 0)
        problem(r, 0, "%s", e.msg);
    else if (memchr(buf_str(&text), '\0', text.len) != NULL)
        problem(r, 0, "holds a NUL byte: not a text file");
    else
        read_text(r, buf_str(&text));
    return true;
}

struct names {
    char *name[CONF_D_MAX];
    size_t n;
    bool too_many;
};

static int collect(void *ctx, const char *name, enum fs_type t)
{
    struct names *list = ctx;
    size_t len = strlen(name);
    if (t == FS_DIR || name[0] == '.' || len < 5 || strcmp(name + len - 4, ".ini") != 0)
        return 0;
    if (list->n == CONF_D_MAX) {
        list->too_many = true;
        return 0;
    }
    list->name[list->n] = strdup(name);
    list->n += list->name[list->n] != NULL ? 1 : 0;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// conf.d beside the file, in order of names.
static void read_conf_d(struct reader *r, const char *file)
{
    char dir[PATH_MAX], path[PATH_MAX + NAME_MAX + 2];
    struct names list = { .n = 0 };
    struct err e = ERR_INIT;
    const char *slash = strrchr(file, '/');
    snprintf(dir, sizeof(dir), "%.*s/conf.d", slash != NULL ? (int)(slash - file) : 1, slash != NULL ? file : ".");
    int rc = r->d->ops->list(r->d, dir, collect, &list, &e);
    r->file = dir;
    if (rc < 0 && rc != E_NOTFOUND)
        problem(r, 0, "%s", e.msg);
    if (list.too_many)
        problem(r, 0, "more than %d files", CONF_D_MAX);
    qsort(list.name, list.n, sizeof(char *), by_name);
    for (size_t i = 0; i < list.n; i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, list.name[i]);
        (void)read_file(r, path);
        free(list.name[i]);
    }
}

// LIMPET_SYNC_INTERVAL sets [sync] interval.
static bool env_matches(const char *env, size_t len, const struct config_key *k)
{
    char name[128];
    int n = snprintf(name, sizeof(name), "LIMPET_%s_%s", k->section, k->name);
    if (n < 0 || (size_t)n != len)
        return false;
    for (size_t i = 0; i < len; i++)
        if (toupper((unsigned char)name[i]) != env[i])
            return false;
    return true;
}

static void read_env_entry(struct reader *r, const char *entry)
{
    struct err e = ERR_INIT;
    const char *eq = strchr(entry, '=');
    if (eq == NULL || strncmp(entry, "LIMPET_", 7) != 0)
        return;
    size_t len = (size_t)(eq - entry);
    for (size_t i = 0; i < n_config_keys; i++) {
        if (!env_matches(entry, len, &config_keys[i]))
            continue;
        if (set_key(r, &config_keys[i], eq + 1, &e) < 0)
            problem(r, 0, "%.*s: %s", (int)len, entry, e.msg);
        return;
    }
    // LIMPET_INSTANCE is what a workload is told about itself; it may call us.
    if (strncmp(entry, "LIMPET_CONFIG=", 14) != 0 && strncmp(entry, "LIMPET_INSTANCE=", 16) != 0)
        problem(r, 0, "%.*s: no such setting (LIMPET_<SECTION>_<KEY>)", (int)MIN(len, (size_t)100), entry);
}

static void read_override(struct reader *r, const char *text)
{
    char section[64], name[64];
    const char *dot = strchr(text, '.'), *eq = strchr(text, '=');
    if (dot == NULL || eq == NULL || dot > eq || (size_t)(dot - text) >= sizeof(section) || (size_t)(eq - dot) > sizeof(name)) {
        problem(r, 0, "%.100s: not section.key=value", text);
        return;
    }
    snprintf(section, sizeof(section), "%.*s", (int)(dot - text), text);
    snprintf(name, sizeof(name), "%.*s", (int)(eq - dot - 1), dot + 1);
    assign(r, 0, section, name, eq + 1);
}

static void set_defaults(struct reader *r)
{
    r->file = "defaults";
    for (size_t i = 0; i < n_config_keys; i++) {
        struct err e = ERR_INIT;
        if (config_keys[i].dflt != NULL && set_field(r->c, &config_keys[i], config_keys[i].dflt, &e) < 0)
            problem(r, 0, "[%s] %s: %s", config_keys[i].section, config_keys[i].name, e.msg);
    }
}

// What holds between keys.
static void check_whole(struct reader *r)
{
    const struct config *c = r->c;
    r->file = "configuration";
    if (c->lease_renew_ms * 2 > c->lease_duration_ms)
        problem(r, 0, "[lease] renew must be at most half of duration, or one lost renewal makes the node unknown");
    if (c->sync_backoff_min_ms > c->sync_backoff_cap_ms)
        problem(r, 0, "[sync] backoff is above backoffCap");
    if (c->port_name == NULL ||
        (strcmp(c->port_name, "exec") != 0 && strcmp(c->port_name, "systemd") != 0 && strcmp(c->port_name, "null") != 0))
        problem(r, 0, "[port] name: \"%s\" is none of exec, systemd, null", c->port_name != NULL ? c->port_name : "");
    if ((c->server_cert_file == NULL) != (c->server_key_file == NULL))
        problem(r, 0, "[server] clientCertificate and clientKey go together");
    if (c->state_dir == NULL || c->run_dir == NULL || c->log_dir == NULL)
        problem(r, 0, "[paths] state, run and log must be set");
    else if (strlen(c->state_dir) > DIR_LEN_MAX || strlen(c->run_dir) > DIR_LEN_MAX || strlen(c->log_dir) > DIR_LEN_MAX)
        problem(r, 0, "[paths] state, run and log may have %d bytes each", DIR_LEN_MAX);
}

int config_load(struct config *c, struct disk *d, const char *file, bool must_exist, const char *const *overrides, char *const *environ_,
                struct buf *problems, struct err *e)
{
    struct reader r = { .c = c, .d = d, .problems = problems };
    *c = (struct config){ 0 };
    set_defaults(&r);
    r.origin = CONFIG_FILE;
    if (file != NULL) {
        bool found = read_file(&r, file);
        if (!found && must_exist)
            problem(&r, 0, "no such file");
        if (found && set_text(&c->config_file, file, e) < 0)
            return e->cls;
        read_conf_d(&r, file);
    }
    r.file = "environment";
    r.origin = CONFIG_ENVIRONMENT;
    for (size_t i = 0; environ_ != NULL && environ_[i] != NULL; i++)
        read_env_entry(&r, environ_[i]);
    r.file = "command line";
    r.origin = CONFIG_FLAG;
    for (size_t i = 0; overrides != NULL && overrides[i] != NULL; i++)
        read_override(&r, overrides[i]);
    check_whole(&r);
    if (r.no_memory)
        return err_set(e, E_NOMEM, "reading the configuration");
    return r.count > 0 ? err_set(e, E_INVAL, "%d problem%s in the configuration", r.count, r.count == 1 ? "" : "s") : 0;
}

void config_fini(struct config *c)
{
    for (size_t i = 0; i < n_config_keys; i++) {
        void *field = (char *)c + config_keys[i].offset;
        if (config_keys[i].type == KEY_STRING || config_keys[i].type == KEY_PATH)
            free(steal(*(char **)field));
        else if (config_keys[i].type == KEY_PATHS)
            free_paths(field);
    }
    free(steal(c->config_file));
}

const char *const *config_guard_paths(const struct config *c)
{
    return (const char *const *)c->guard_paths;
}

enum config_origin config_origin_of(const struct config *c, const char *section, const char *name)
{
    const struct config_key *k = find_key(section, name);
    return k != NULL ? (enum config_origin)c->origins[k - config_keys] : CONFIG_DEFAULT;
}

// Printing.

static int print_value(const struct config *c, const struct config_key *k, struct buf *out, struct err *e)
{
    const void *field = (const char *)c + k->offset;
    int64_t n = k->type == KEY_INT || k->type == KEY_DURATION || k->type == KEY_SIZE ? *(const int64_t *)field : 0;
    const char *text = k->type == KEY_STRING || k->type == KEY_PATH ? *(char *const *)field : NULL;
    int rc = 0;
    switch (k->type) {
    case KEY_BOOL:
        return buf_adds(out, *(const bool *)field ? "true" : "false", e);
    case KEY_ENUM:
        return buf_adds(out, k->words[*(const int *)field], e);
    case KEY_DURATION:
        return n % 1000 == 0 ? buf_addf(out, e, "%llds", (long long)(n / 1000)) : buf_addf(out, e, "%lldms", (long long)n);
    case KEY_INT:
    case KEY_SIZE:
        return buf_addf(out, e, "%lld", (long long)n);
    case KEY_PATHS:
        for (char *const *p = field; *p != NULL && rc == 0; p++)
            rc = buf_addf(out, e, "%s%s", p == field ? "" : " ", *p);
        return rc;
    default:
        return buf_adds(out, text != NULL ? text : "", e);
    }
}

// A proxy URL may hold a password.
static bool is_secret(const struct config *c, const struct config_key *k)
{
    return k->offset == offsetof(struct config, server_proxy) && c->server_proxy != NULL && strchr(c->server_proxy, '@') != NULL;
}

int config_print(const struct config *c, struct buf *out, struct err *e)
{
    const char *section = "";
    int rc = 0;
    for (size_t i = 0; i < n_config_keys && rc == 0; i++) {
        const struct config_key *k = &config_keys[i];
        if (strcmp(section, k->section) != 0)
            rc = buf_addf(out, e, "%s[%s]\n", i == 0 ? "" : "\n", k->section);
        section = k->section;
        if (rc == 0)
            rc = buf_addf(out, e, "# %s\n", k->help);
        if (rc == 0 && is_secret(c, k))
            rc = buf_addf(out, e, "# %s is set; not shown, for it holds a password", k->name);
        else if (rc == 0 && (rc = buf_addf(out, e, "%s = ", k->name)) == 0)
            rc = print_value(c, k, out, e);
        if (rc == 0)
            rc = buf_adds(out, "\n", e);
    }
    return rc;
}
