// SPDX-License-Identifier: Apache-2.0
#include "port/systemd_unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/num.h"
#include "base/utf8.h"
#include "port/insts.h"

#define PREFIX "limpet-"
#define SUFFIX ".service"
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

enum { NAME_PART_MAX = 160, LINE_MAX_BYTES = 1024 * 1024 - 64, SINCE_RESTART_STEPS = 254 };

// --- names

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == ':' || c == '_' || c == '.';
}

bool unit_escape(const char *s, char *out, size_t size)
{
    size_t n = 0;
    for (const char *c = s; *c != '\0'; c++) {
        char piece[8];
        bool plain = is_plain(*c) && (*c != '.' || c != s);
        int len = *c == '/' ? snprintf(piece, sizeof(piece), "-")
                  : plain   ? snprintf(piece, sizeof(piece), "%c", *c)
                            : snprintf(piece, sizeof(piece), "\\x%02x", (unsigned char)*c);
        if (n + (size_t)len >= size)
            return false;
        memcpy(out + n, piece, (size_t)len);
        n += (size_t)len;
    }
    out[n] = '\0';
    return true;
}

// A long name is cut: it is for people, and the uid tells.
void unit_name(const char *owner, const char *uid, char out[UNIT_NAME_MAX])
{
    const char *slash = strrchr(owner, '/');
    char name[NAME_PART_MAX + 1], escaped[NAME_PART_MAX + 1];
    size_t n = (size_t)snprintf(name, sizeof(name), "%s", slash != NULL ? slash + 1 : owner);
    n = MIN(n, sizeof(name) - 1);
    while (!unit_escape(name, escaped, sizeof(escaped)))
        name[--n] = '\0';
    snprintf(out, UNIT_NAME_MAX, PREFIX "%s-%s" SUFFIX, escaped, uid);
}

bool unit_uid(const char *unit, char uid[INST_UID_MAX])
{
    size_t n = strlen(unit), head = strlen(PREFIX), tail = strlen(SUFFIX);
    if (n <= head + tail || strncmp(unit, PREFIX, head) != 0 || strcmp(unit + n - tail, SUFFIX) != 0)
        return false;
    const char *dash = strchr(unit + head, '-');
    size_t len = dash != NULL && dash < unit + n - tail ? (size_t)(unit + n - tail - dash) - 1 : 0;
    if (len == 0 || len >= INST_UID_MAX)
        return false;
    memcpy(uid, dash + 1, len);
    uid[len] = '\0';
    return inst_uid_ok(uid);
}

int64_t unit_number(const char *s, int64_t max)
{
    struct err ignored = ERR_INIT;
    int64_t v = 0;
    return num_i64(s, 0, max, &v, &ignored) == 0 ? v : 0;
}

// --- quoting

// One word of a command line, or a text of ours: in double quotes, whatever is special written in C's way. `percent`: systemd expands
// specifiers there; `dollar`: and variables.
static int add_word(struct buf *b, const char *s, bool percent, bool dollar, struct err *e)
{
    int rc = buf_adds(b, "\"", e);
    for (; *s != '\0' && rc == 0; s++) {
        unsigned char c = (unsigned char)*s;
        if (c < ' ' || c == 0x7f)
            rc = buf_addf(b, e, "\\x%02x", c);
        else if (c == '"' || c == '\\')
            rc = buf_addf(b, e, "\\%c", c);
        else if ((c == '%' && percent) || (c == '$' && dollar))
            rc = buf_addf(b, e, "%c%c", c, c);
        else
            rc = buf_add(b, s, 1, e);
    }
    return rc < 0 ? rc : buf_adds(b, "\"", e);
}

// A value that systemd takes to the end of the line: no quoting is known there.
static int add_path(struct buf *b, const char *key, const char *path, struct err *e)
{
    int rc = buf_addf(b, e, "%s=", key);
    for (const char *c = path; *c != '\0' && rc == 0; c++)
        rc = *c == '%' ? buf_adds(b, "%%", e) : buf_add(b, c, 1, e);
    return rc < 0 ? rc : buf_adds(b, "\n", e);
}

static bool is_line(const char *s)
{
    size_t n = strlen(s);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] < ' ' || s[i] == 0x7f)
            return false;
    return n > 0 && s[n - 1] != ' ' && s[n - 1] != '\\' && utf8_valid(s, n);
}

static int check_path(const char *what, const char *path, struct err *e)
{
    if (path[0] == '/' && strlen(path) < UNIT_PATH_MAX && is_line(path))
        return 0;
    return err_set(e, E_INVAL, "%s: systemd takes an absolute path without control characters, not ending in a blank or backslash", what);
}

// Why systemd cannot be told this program's name; it refuses what is special in a shell's eyes.
static int check_program(const char *path, struct err *e)
{
    int rc = check_path("command", path, e);
    if (rc == 0 && strpbrk(path, "\"'\\") != NULL)
        return err_set(e, E_INVAL, "command: systemd runs no program whose path has a quote or a backslash in it");
    return rc;
}

// --- the program

static const char *path_of(const char *const *env)
{
    for (; env != NULL && *env != NULL; env++)
        if (strncmp(*env, "PATH=", 5) == 0)
            return *env + 5;
    return DEFAULT_PATH;
}

static bool in_path(const char *path, const char *name, char out[UNIT_PATH_MAX])
{
    for (const char *dir = path; *dir != '\0';) {
        size_t n = strcspn(dir, ":");
        int len = snprintf(out, UNIT_PATH_MAX, "%.*s/%s", (int)n, dir, name);
        if (dir[0] == '/' && len > 0 && len < UNIT_PATH_MAX && access(out, X_OK) == 0)
            return true;
        dir += n + (dir[n] == ':');
    }
    return false;
}

int unit_program(const struct exec_env *x, char out[UNIT_PATH_MAX], struct err *e)
{
    const char *name = x->argv[0], *path = path_of(x->env);
    int len = 0;
    if (name[0] == '/')
        len = snprintf(out, UNIT_PATH_MAX, "%s", name);
    else if (strchr(name, '/') != NULL)
        len = snprintf(out, UNIT_PATH_MAX, "%s/%s", x->workdir != NULL ? x->workdir : "", name);
    else if (!in_path(path, name, out))
        len =
            snprintf(out, UNIT_PATH_MAX, "%.*s/%s", path[0] == '/' ? (int)strcspn(path, ":") : 8, path[0] == '/' ? path : "/usr/bin", name);
    return len >= UNIT_PATH_MAX ? err_set(e, E_INVAL, "command: its path is over %d bytes", UNIT_PATH_MAX - 1) : check_program(out, e);
}

// --- the text

static int add_command(struct buf *b, const struct inst_spec *s, const struct unit_place *w, struct err *e)
{
    size_t before = b->len;
    int rc = buf_adds(b, "ExecStart=@", e);
    if (rc == 0)
        rc = add_word(b, w->program, true, false, e);
    for (const char *const *a = s->exec.argv; *a != NULL && rc == 0; a++) {
        if (!utf8_valid(*a, strlen(*a)))
            return err_set(e, E_INVAL, "command, word %zu: systemd takes only UTF-8", (size_t)(a - s->exec.argv) + 1);
        rc = buf_adds(b, " ", e);
        if (rc == 0)
            rc = add_word(b, *a, true, true, e);
    }
    if (rc == 0 && b->len - before > LINE_MAX_BYTES)
        return err_set(e, E_TOOBIG, "command: over what systemd reads as one line, 1 MiB");
    return rc < 0 ? rc : buf_adds(b, "\n", e);
}

static int add_pokes(struct buf *b, const struct unit_place *w, struct err *e)
{
    static const char *const keys[] = { "ExecStartPost", "ExecStopPost" };
    int rc = 0;
    for (size_t i = 0; i < ARRAY_LEN(keys) && rc == 0; i++) {
        rc = buf_addf(b, e, "%s=-+", keys[i]); // - its failure is none of the unit's; + as root, whatever User= says
        if (rc == 0)
            rc = add_word(b, w->self, true, false, e);
        if (rc == 0)
            rc = buf_adds(b, " poke ", e);
        if (rc == 0)
            rc = add_word(b, w->records, true, true, e);
        if (rc == 0)
            rc = buf_adds(b, " %n\n", e);
    }
    return rc;
}

static bool has_env(const char *const *env, const char *name)
{
    size_t n = strlen(name);
    for (; env != NULL && *env != NULL; env++)
        if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
            return true;
    return false;
}

// systemd gives every service some of its own. What tells a program of its unit and journal stays.
static int add_unset(struct buf *b, const char *const *env, struct err *e)
{
    static const char *const given[] = { "PATH",
                                         "LANG",
                                         "LANGUAGE",
                                         "LC_ALL",
                                         "LC_CTYPE",
                                         "LC_NUMERIC",
                                         "LC_TIME",
                                         "LC_COLLATE",
                                         "LC_MONETARY",
                                         "LC_MESSAGES",
                                         "LC_PAPER",
                                         "LC_NAME",
                                         "LC_ADDRESS",
                                         "LC_TELEPHONE",
                                         "LC_MEASUREMENT",
                                         "LC_IDENTIFICATION",
                                         "USER",
                                         "LOGNAME",
                                         "HOME",
                                         "SHELL",
                                         "TERM",
                                         "MEMORY_PRESSURE_WATCH",
                                         "MEMORY_PRESSURE_WRITE" };
    int rc = buf_adds(b, "UnsetEnvironment=", e);
    for (size_t i = 0; i < ARRAY_LEN(given) && rc == 0; i++)
        if (!has_env(env, given[i]))
            rc = buf_addf(b, e, "%s ", given[i]);
    return rc < 0 ? rc : buf_adds(b, "\n", e);
}

static int add_account(struct buf *b, const struct exec_env *x, struct err *e)
{
    const char *const names[] = { x->user, x->group };
    int rc = 0;
    for (size_t i = 0; i < ARRAY_LEN(names) && rc == 0; i++) {
        if (names[i] == NULL)
            continue;
        if (!is_line(names[i]) || strpbrk(names[i], "% /") != NULL)
            return err_set(e, E_INVAL, "%s: not a name that systemd takes", i == 0 ? "user" : "group");
        rc = buf_addf(b, e, "%s=%s\n", i == 0 ? "User" : "Group", names[i]);
    }
    return rc;
}

static const char *limit_key(int resource)
{
    static const struct {
        int resource;
        const char *key;
    } keys[] = { { RLIMIT_AS, "AS" },         { RLIMIT_CORE, "CORE" },   { RLIMIT_CPU, "CPU" },
                 { RLIMIT_DATA, "DATA" },     { RLIMIT_FSIZE, "FSIZE" }, { RLIMIT_MEMLOCK, "MEMLOCK" },
                 { RLIMIT_NOFILE, "NOFILE" }, { RLIMIT_NPROC, "NPROC" }, { RLIMIT_STACK, "STACK" } };
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (keys[i].resource == resource)
            return keys[i].key;
    return NULL;
}

static int add_amount(struct buf *b, int64_t v, struct err *e)
{
    return v < 0 ? buf_adds(b, "infinity", e) : buf_addf(b, e, "%" PRId64, v);
}

static int add_rlimits(struct buf *b, const struct exec_env *x, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; i < x->n_rlimits && rc == 0; i++) {
        const char *key = limit_key(x->rlimits[i].resource);
        if (key == NULL)
            return err_set(e, E_INVAL, "rlimit %d is not known here", x->rlimits[i].resource);
        rc = buf_addf(b, e, "Limit%s=", key);
        if (rc == 0)
            rc = add_amount(b, x->rlimits[i].soft, e);
        if (rc == 0)
            rc = buf_adds(b, ":", e);
        if (rc == 0)
            rc = add_amount(b, x->rlimits[i].hard, e);
        if (rc == 0)
            rc = buf_adds(b, "\n", e);
    }
    return rc;
}

// CPUQuota is in whole percents of one processor: rounded up, as a limit that is too tight would be a fault of ours.
static int add_limits(struct buf *b, const struct inst_limits *l, struct err *e)
{
    int rc = 0;
    if (l->memory > 0)
        rc = buf_addf(b, e, "MemoryMax=%" PRId64 "\nMemorySwapMax=0\n", l->memory);
    if (rc == 0 && l->cpu_milli > 0)
        rc = buf_addf(b, e, "CPUQuota=%" PRId64 "%%\n", (l->cpu_milli + 9) / 10);
    if (rc == 0 && l->pids > 0)
        rc = buf_addf(b, e, "TasksMax=%" PRId64 "\n", l->pids);
    return rc;
}

// While an agent is there it takes an ended unit over before systemd would start it again, and restarts it by its own rules; these here are
// for the time without one. Backoff of systemd itself came with 254.
static int add_restart(struct buf *b, const struct inst_spec *s, int version, struct err *e)
{
    static const char *const words[] = {
        [INST_RESTART_NO] = "no", [INST_RESTART_ON_FAILURE] = "on-failure", [INST_RESTART_ALWAYS] = "always"
    };
    int rc = buf_addf(b, e, "Restart=%s\nRestartSec=10\n", words[s->restart]);
    return rc < 0 || version < SINCE_RESTART_STEPS ? rc : buf_adds(b, "RestartSteps=5\nRestartMaxDelaySec=300\n", e);
}

// The grace is kept exactly by the agent. Within this time the poke has to run, too, so that it is not less than some seconds.
static int64_t stop_timeout_ms(const struct inst_spec *s)
{
    int64_t grace_ms = s->grace_ms > 0 ? s->grace_ms : 30 * 1000;
    return MAX(grace_ms, 5000);
}

static int add_service(struct buf *b, const struct inst_spec *s, const struct unit_place *w, struct err *e)
{
    int rc = add_command(b, s, w, e);
    if (rc == 0)
        rc = add_pokes(b, w, e);
    if (rc == 0)
        rc = add_path(b, "WorkingDirectory", s->exec.workdir != NULL ? s->exec.workdir : "/", e);
    if (rc == 0)
        rc = add_path(b, "EnvironmentFile", w->env_file, e);
    if (rc == 0)
        rc = add_unset(b, s->exec.env, e);
    if (rc == 0)
        rc = add_account(b, &s->exec, e);
    if (rc == 0)
        rc = add_rlimits(b, &s->exec, e);
    if (rc == 0)
        rc = add_limits(b, &s->limits, e);
    if (rc == 0)
        rc = add_restart(b, s, w->version, e);
    if (rc == 0)
        rc = buf_addf(b, e, "TimeoutStopSec=%" PRId64 "ms\n", stop_timeout_ms(s));
    return rc < 0 ? rc : add_path(b, "SyslogIdentifier", s->log_name != NULL ? s->log_name : s->uid, e);
}

static int add_meta(struct buf *b, const struct inst_spec *s, const struct unit_place *w, struct err *e)
{
    const struct {
        const char *key, *value;
    } texts[] = { { "Owner", s->owner },
                  { "Revision", s->revision != NULL ? s->revision : "" },
                  { "Program", w->program },
                  { "Directory", s->exec.workdir != NULL ? s->exec.workdir : "/" } };
    int rc =
        buf_addf(b, e, "\n[X-Limpet]\nUid=%s\nIndex=%d\nGrace=%" PRId64 "\n", s->uid, s->index, s->grace_ms > 0 ? s->grace_ms : 30 * 1000);
    for (size_t i = 0; i < ARRAY_LEN(texts) && rc == 0; i++) {
        rc = buf_addf(b, e, "%s=", texts[i].key);
        if (rc == 0)
            rc = add_word(b, texts[i].value, false, false, e);
        if (rc == 0)
            rc = buf_adds(b, "\n", e);
    }
    return rc;
}

static int add_head(struct buf *b, const struct inst_spec *s, const struct unit_place *w, struct err *e)
{
    char about[INST_OWNER_MAX];
    snprintf(about, sizeof(about), "%s", s->owner);
    for (char *c = about; *c != '\0'; c++)
        if (!is_plain(*c) && *c != '/' && *c != '-')
            *c = '?';
    int rc = buf_addf(b, e,
                      "# limpet made this unit and removes it. Changes belong into limpet-.service.d/NAME.conf beside it.\n"
                      "[Unit]\nDescription=limpet %s %d\n"
                      "StartLimitIntervalSec=0\n"
                      "# How it ended is in the poke's record: what failed need not stay in the memory of systemd.\n"
                      "CollectMode=inactive-or-failed\n",
                      about, s->index);
    if (rc == 0)
        rc = add_path(b, "RequiresMountsFor", w->env_file, e);
    return rc < 0 ? rc : buf_adds(b, "\n[Service]\nType=exec\nIgnoreSIGPIPE=no\nUMask=0022\nStandardOutput=journal\n", e);
}

int unit_text(const struct inst_spec *s, const struct unit_place *w, struct buf *out, struct err *e)
{
    int rc = check_path("workingDir", s->exec.workdir != NULL ? s->exec.workdir : "/", e);
    if (rc == 0)
        rc = check_path("environment file", w->env_file, e);
    if (rc == 0 && strpbrk(w->env_file, " *?[\"'\\") != NULL)
        rc = err_set(e, E_INVAL, "environment file: systemd takes no blank, wildcard or quote in its path");
    if (rc == 0 && s->log_name != NULL && !is_line(s->log_name))
        rc = err_set(e, E_INVAL, "log name: systemd takes one line of UTF-8");
    if (rc == 0)
        rc = add_head(out, s, w, e);
    if (rc == 0)
        rc = add_service(out, s, w, e);
    if (rc == 0 && s->restart != INST_RESTART_NO)
        rc = buf_adds(out, "\n[Install]\nWantedBy=multi-user.target\n", e);
    return rc < 0 ? rc : add_meta(out, s, w, e);
}

// --- the environment file

// In double quotes a backslash takes the meaning from these four, and is itself one of them. Everything else is as it stands.
static int add_env_value(struct buf *b, const char *v, struct err *e)
{
    int rc = buf_adds(b, "\"", e);
    for (; *v != '\0' && rc == 0; v++) {
        if (strchr("\"\\`$", *v) != NULL)
            rc = buf_adds(b, "\\", e);
        if (rc == 0)
            rc = buf_add(b, v, 1, e);
    }
    return rc < 0 ? rc : buf_adds(b, "\"\n", e);
}

static bool is_env_name(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!is_plain(s[i]) || s[i] == ':' || s[i] == '.')
            return false;
    return n > 0 && (s[0] < '0' || s[0] > '9');
}

int unit_env_text(const char *const *env, struct buf *out, struct err *e)
{
    static const char *const path_alone[] = { "PATH=" DEFAULT_PATH, NULL };
    int rc = 0;
    for (env = env != NULL ? env : path_alone; *env != NULL && rc == 0; env++) {
        size_t n = strcspn(*env, "=");
        if ((*env)[n] != '=' || !is_env_name(*env, n))
            return err_set(e, E_INVAL, "an environment variable has no name of letters, digits and underscores");
        if (!utf8_valid(*env, strlen(*env)))
            return err_set(e, E_INVAL, "environment variable %.*s: systemd takes only UTF-8", (int)MIN(n, (size_t)200), *env);
        rc = buf_add(out, *env, n + 1, e);
        if (rc == 0)
            rc = add_env_value(out, *env + n + 1, e);
    }
    return rc;
}

// --- reading back

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// What add_word() wrote, without its doublings. False: it is not whole, or too long.
static bool unquote(const char *s, size_t n, char *out, size_t size)
{
    size_t len = 0;
    if (n < 2 || s[0] != '"' || s[n - 1] != '"')
        return false;
    for (size_t i = 1; i < n - 1; i++) {
        char c = s[i];
        if (c == '\\' && s[i + 1] == 'x' && i + 3 < n - 1 && hex(s[i + 2]) >= 0 && hex(s[i + 3]) >= 0) {
            c = (char)(hex(s[i + 2]) * 16 + hex(s[i + 3]));
            i += 3;
        } else if (c == '\\') {
            c = s[++i];
        }
        if (i >= n - 1 || len + 1 >= size)
            return false;
        out[len++] = c;
    }
    out[len] = '\0';
    return true;
}

// The value of `key` in our own section; false: none.
static bool meta_field(const char *section, const char *key, const char **value, size_t *n)
{
    size_t len = strlen(key);
    for (const char *line = section; *line != '\0';) {
        size_t all = strcspn(line, "\n");
        if (all > len && strncmp(line, key, len) == 0 && line[len] == '=') {
            *value = line + len + 1;
            *n = all - len - 1;
            return true;
        }
        line += all + (line[all] == '\n');
    }
    return false;
}

static bool meta_text(const char *section, const char *key, char *out, size_t size)
{
    const char *v;
    size_t n;
    return meta_field(section, key, &v, &n) && unquote(v, n, out, size);
}

static bool meta_number(const char *section, const char *key, int64_t *out)
{
    const char *v;
    char text[24], rest;
    size_t n;
    if (!meta_field(section, key, &v, &n) || n >= sizeof(text))
        return false;
    memcpy(text, v, n);
    text[n] = '\0';
    return sscanf(text, "%" SCNd64 "%c", out, &rest) == 1;
}

bool unit_parse(const char *text, struct unit_meta *out)
{
    static const char head[] = "\n[X-Limpet]\n";
    const char *section = strstr(text, head), *uid;
    int64_t index = 0;
    size_t n;
    if (section == NULL || !meta_field(section, "Uid", &uid, &n) || n >= INST_UID_MAX)
        return false;
    *out = (struct unit_meta){ 0 };
    memcpy(out->uid, uid, n);
    if (!inst_uid_ok(out->uid) || !meta_number(section, "Index", &index) || !meta_number(section, "Grace", &out->grace_ms))
        return false;
    out->index = (int)index;
    return meta_text(section, "Owner", out->owner, sizeof(out->owner)) &&
           meta_text(section, "Revision", out->revision, sizeof(out->revision)) &&
           meta_text(section, "Program", out->program, sizeof(out->program)) &&
           meta_text(section, "Directory", out->workdir, sizeof(out->workdir));
}
