// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgeconfig_record.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "config/config.h"

#define FILE_INTENT "file:"
#define DIR_INTENT "dir:"
#define OWED_INTENT "onChange"
#define KEY_PREFIX "edgeconfigs/"

static const char *const before_words[] = { "absent", "file", "tooBig", "directory" };

// --- The record as JSON

struct json *cfg_version_json(const struct cfg_version *v)
{
    struct json *j = json_object();
    json_set_str(j, "sha256", v->sha);
    json_set_int(j, "mode", v->mode);
    json_set_int(j, "uid", v->uid);
    json_set_int(j, "gid", v->gid);
    return j;
}

static bool has_backup(enum cfg_before b)
{
    return b == CFG_WAS_FILE || b == CFG_WAS_DIR;
}

static int record_text(const struct cfg_record *r, struct buf *out, struct err *e)
{
    (void)json_ok();
    AUTO_JSON struct json *j = json_object();
    json_set_str(j, "before", before_words[r->before]);
    if (has_backup(r->before))
        json_set(j, "backup", cfg_version_json(&r->backup));
    json_set(j, "written", cfg_version_json(&r->written));
    json_set_str(j, "former", r->former);
    json_set_bool(j, "applied", r->applied);
    json_set_str(j, "policy", cfg_deletion_words[r->policy]);
    if (!json_ok())
        return err_set(e, E_NOMEM, "record of %s", r->path);
    return json_print(j, out, e);
}

static int word_of(const struct json *j, const char *const *words, size_t n)
{
    const char *s = json_str(j);
    for (size_t i = 0; s != NULL && i < n; i++)
        if (strcmp(words[i], s) == 0)
            return (int)i;
    return -1;
}

static bool read_sha(const struct json *j, char out[SHA256_HEX])
{
    const char *s = json_str(j);
    if (s == NULL || strlen(s) >= SHA256_HEX)
        return false;
    snprintf(out, SHA256_HEX, "%s", s);
    return true;
}

static bool read_u32(const struct json *j, uint32_t *out)
{
    int64_t v;
    if (!json_i64(j, &v) || v < 0 || v > UINT32_MAX)
        return false;
    *out = (uint32_t)v;
    return true;
}

bool cfg_version_read(const struct json *j, struct cfg_version *v)
{
    return read_sha(json_get(j, "sha256"), v->sha) && read_u32(json_get(j, "mode"), &v->mode) && read_u32(json_get(j, "uid"), &v->uid) &&
           read_u32(json_get(j, "gid"), &v->gid);
}

static int record_parse(struct cfg_record *r, const char *path, const char *data, struct err *e)
{
    AUTO_JSON struct json *j = NULL;
    int rc = json_parse(&j, data, strlen(data), e);
    if (rc < 0)
        return err_set(e, E_CORRUPT, "the record of %s is damaged", path);
    int before = word_of(json_get(j, "before"), before_words, ARRAY_LEN(before_words));
    int policy = word_of(json_get(j, "policy"), cfg_deletion_words, 3);
    bool ok =
        before >= 0 && policy >= 0 && cfg_version_read(json_get(j, "written"), &r->written) && read_sha(json_get(j, "former"), r->former);
    if (ok && has_backup((enum cfg_before)before))
        ok = cfg_version_read(json_get(j, "backup"), &r->backup);
    if (!ok)
        return err_set(e, E_CORRUPT, "the record of %s is damaged", path);
    r->before = (enum cfg_before)before;
    r->policy = (enum cfg_deletion)policy;
    r->applied = json_bool(json_get(j, "applied"), false);
    return 0;
}

// --- Loading and storing

struct load {
    struct cfg_records *out;
    size_t room;
    struct arena *arena;
    struct err *e;
};

static const char *after(const char *prefix, const char *name)
{
    size_t n = strlen(prefix);
    return strncmp(name, prefix, n) == 0 ? name + n : NULL;
}

static const char *path_of_intent(const char *name)
{
    const char *path = after(FILE_INTENT, name);
    return path != NULL ? path : after(DIR_INTENT, name);
}

static int load_one(void *ctx, const char *key, const char *name, const char *data)
{
    struct load *l = ctx;
    const char *path = path_of_intent(name);
    (void)key;
    if (path == NULL)
        return 0;
    if (l->out->n == l->room)
        return err_set(l->e, E_TOOBIG, "more than %zu records", l->room);
    struct cfg_record *r = &l->out->items[l->out->n];
    *r = (struct cfg_record){ .path = arena_strdup(l->arena, path), .is_dir = after(DIR_INTENT, name) != NULL };
    if (r->path == NULL)
        return err_set(l->e, E_NOMEM, "record of %s", path);
    int rc = record_parse(r, path, data, l->e);
    l->out->n += rc == 0;
    return rc;
}

// Up to the entries of a former spec and those of a new one.
enum { RECORDS_MAX = 2 * CFG_ENTRIES_MAX };

int cfg_records_load(struct cfg_records *out, struct db *db, const char *key, size_t more, struct arena *a, struct err *e)
{
    struct load l = { .out = out, .room = RECORDS_MAX, .arena = a, .e = e };
    out->n = 0;
    out->items = arena_alloc(a, (RECORDS_MAX + more) * sizeof(*out->items));
    if (out->items == NULL)
        return err_set(e, E_NOMEM, "records");
    return intent_each(db, key, load_one, &l, e);
}

struct cfg_record *cfg_record_of(const struct cfg_records *r, const char *path, bool is_dir)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->items[i].is_dir == is_dir && strcmp(r->items[i].path, path) == 0)
            return &r->items[i];
    return NULL;
}

static void intent_name(bool is_dir, const char *path, char out[CFG_PATH_MAX + 16])
{
    snprintf(out, CFG_PATH_MAX + 16, "%s%s", is_dir ? DIR_INTENT : FILE_INTENT, path);
}

int cfg_record_put(struct db *db, const char *key, const struct cfg_record *r, struct err *e)
{
    char name[CFG_PATH_MAX + 16];
    AUTO_BUF struct buf text = BUF_INIT(CFG_RECORD_MAX);
    int rc = record_text(r, &text, e);
    if (rc < 0)
        return rc;
    intent_name(r->is_dir, r->path, name);
    return intent_put(db, key, name, buf_str(&text), e);
}

int cfg_record_delete(struct db *db, const char *key, const struct cfg_record *r, struct err *e)
{
    char name[CFG_PATH_MAX + 16];
    intent_name(r->is_dir, r->path, name);
    return intent_delete(db, key, name, e);
}

bool cfg_version_equal(const struct cfg_version *a, const struct cfg_version *b)
{
    return strcmp(a->sha, b->sha) == 0 && a->mode == b->mode && a->uid == b->uid && a->gid == b->gid;
}

struct search {
    const char *key;
    bool *found;
    struct cfg_owner *out;
};

static int search_one(void *ctx, const char *key, const char *name)
{
    struct search *s = ctx;
    if (strcmp(key, s->key) == 0 || strncmp(key, KEY_PREFIX, sizeof(KEY_PREFIX) - 1) != 0)
        return 0;
    *s->found = true;
    snprintf(s->out->key, sizeof(s->out->key), "%s", key);
    snprintf(s->out->path, sizeof(s->out->path), "%s", path_of_intent(name));
    return 1;
}

// Who has this very path? < 0, 1 = found.
static int search_path(struct search *s, struct db *db, bool is_dir, const char *path, struct err *e)
{
    char from[CFG_PATH_MAX + 16], to[CFG_PATH_MAX + 18];
    intent_name(is_dir, path, from);
    snprintf(to, sizeof(to), "%s\x01", from);
    return intent_named(db, from, to, search_one, s, e);
}

static int search_below(struct search *s, struct db *db, bool is_dir, const char *path, struct err *e)
{
    char from[CFG_PATH_MAX + 18], to[CFG_PATH_MAX + 18], name[CFG_PATH_MAX + 16];
    intent_name(is_dir, path, name);
    snprintf(from, sizeof(from), "%s/", name);
    snprintf(to, sizeof(to), "%s0", name); // the byte after the slash
    return intent_named(db, from, to, search_one, s, e);
}

int cfg_find_owner(struct db *db, const char *key, const struct cfg_entry *x, bool *found, struct cfg_owner *out, struct err *e)
{
    struct search s = { key, found, out };
    char above[CFG_PATH_MAX + 1];
    *found = false;
    int rc = search_path(&s, db, true, x->path, e);
    if (rc == 0 && !x->is_dir)
        rc = search_below(&s, db, false, x->path, e);
    if (rc == 0 && !x->is_dir)
        rc = search_below(&s, db, true, x->path, e);
    snprintf(above, sizeof(above), "%s", x->path);
    while (rc == 0 && above[0] != '\0') {
        rc = search_path(&s, db, false, above, e);
        *strrchr(above, '/') = '\0'; // /a/b, then /a
    }
    return MIN(rc, 0);
}

int cfg_owed_set(struct db *db, const char *key, bool owed, struct err *e)
{
    return owed ? intent_put(db, key, OWED_INTENT, "owed", e) : intent_delete(db, key, OWED_INTENT, e);
}

int cfg_owed_get(struct db *db, const char *key, bool *owed, struct err *e)
{
    struct err why = ERR_INIT;
    AUTO_BUF struct buf text = BUF_INIT(64);
    int rc = intent_get(db, key, OWED_INTENT, &text, &why);
    *owed = rc == 0;
    if (rc == 0 || rc == E_NOTFOUND)
        return 0;
    *e = why;
    return rc;
}

// --- Backups

void cfg_kept_name(const char *text, char out[CFG_KEPT_HEX + 1])
{
    char hex[SHA256_HEX];
    sha256_hex(text, strlen(text), hex);
    snprintf(out, CFG_KEPT_HEX + 1, "%.*s", CFG_KEPT_HEX, hex);
}

void cfg_kept_dir(const struct kind_env *env, const char *what, const char *key, char out[PATH_MAX])
{
    char hash[CFG_KEPT_HEX + 1];
    cfg_kept_name(key, hash);
    snprintf(out, PATH_MAX, "%s/%s/%s", env->config->state_dir, what, hash);
}

void cfg_kept_file(const struct kind_env *env, const char *what, const char *key, const char *path, char out[PATH_MAX])
{
    char k[CFG_KEPT_HEX + 1], p[CFG_KEPT_HEX + 1];
    cfg_kept_name(key, k);
    cfg_kept_name(path, p);
    snprintf(out, PATH_MAX, "%s/%s/%s/%s", env->config->state_dir, what, k, p);
}

static void backup_root(const struct kind_env *env, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/backup", env->config->state_dir);
}

int cfg_backup_write(const struct kind_env *env, const char *key, const char *path, const struct buf *content, struct err *e)
{
    char dir[PATH_MAX], file[PATH_MAX];
    cfg_kept_dir(env, "backup", key, dir);
    cfg_kept_file(env, "backup", key, path, file);
    int rc = env->disk->ops->mkdirs(env->disk, dir, 0700, 0, e);
    if (rc == 0)
        rc = fs_write(env->disk, file, buf_str(content), content->len, 0600, 0, e);
    return rc < 0 ? err_wrap(e, "saving what lies at %s", path) : 0;
}

int cfg_backup_read(const struct kind_env *env, const char *key, const char *path, struct buf *content, struct err *e)
{
    char file[PATH_MAX];
    cfg_kept_file(env, "backup", key, path, file);
    return fs_read(env->disk, file, CFG_BACKUP_MAX, 0, content, e);
}

int cfg_backup_remove_all(const struct kind_env *env, const char *key, struct err *e)
{
    char dir[PATH_MAX];
    cfg_kept_dir(env, "backup", key, dir);
    return env->disk->ops->rmtree(env->disk, dir, e);
}

// Names of files, back to back, that no record speaks of.
struct tidy {
    const struct cfg_records *records;
    struct buf drop;
};

static int tidy_entry(void *ctx, const char *name, enum fs_type t)
{
    struct tidy *x = ctx;
    struct err e = ERR_INIT;
    char hash[CFG_KEPT_HEX + 1];
    bool known = t != FS_FILE || strlen(name) != CFG_KEPT_HEX;
    for (size_t i = 0; !known && i < x->records->n; i++) {
        cfg_kept_name(x->records->items[i].path, hash);
        known = strcmp(hash, name) == 0;
    }
    return known ? 0 : buf_add(&x->drop, name, CFG_KEPT_HEX + 1, &e);
}

int cfg_backup_tidy(const struct kind_env *env, const char *key, const struct cfg_records *r, struct err *e)
{
    enum { NAMES_MAX = 64 * 1024 };
    char dir[PATH_MAX], file[PATH_MAX + CFG_KEPT_HEX + 2];
    struct err why = ERR_INIT;
    struct tidy x = { r, BUF_INIT(NAMES_MAX) };
    cfg_kept_dir(env, "backup", key, dir);
    int rc = env->disk->ops->list(env->disk, dir, tidy_entry, &x, &why);
    for (size_t at = 0; rc == 0 && at < x.drop.len; at += CFG_KEPT_HEX + 1) {
        snprintf(file, sizeof(file), "%s/%s", dir, x.drop.data + at);
        rc = env->disk->ops->unlink(env->disk, file, 0, &why);
    }
    buf_fini(&x.drop);
    if (rc == 0 || rc == E_NOTFOUND) // it never saved anything
        return 0;
    *e = why;
    return rc;
}

// Names of directories that must stay, back to back; then of those that must go.
struct sweep {
    struct buf keep, drop;
    struct err *e;
};

static bool is_listed(const struct buf *names, const char *name)
{
    for (size_t at = 0; at < names->len; at += CFG_KEPT_HEX + 1)
        if (strcmp(names->data + at, name) == 0)
            return true;
    return false;
}

static int sweep_keep(void *ctx, const char *key, const char *name, const char *data)
{
    struct sweep *s = ctx;
    char hash[CFG_KEPT_HEX + 1];
    (void)data;
    if (path_of_intent(name) == NULL)
        return 0;
    cfg_kept_name(key, hash);
    return is_listed(&s->keep, hash) ? 0 : buf_add(&s->keep, hash, sizeof(hash), s->e);
}

static int sweep_entry(void *ctx, const char *name, enum fs_type t)
{
    struct sweep *s = ctx;
    if (t != FS_DIR || strlen(name) != CFG_KEPT_HEX || is_listed(&s->keep, name))
        return 0;
    return buf_add(&s->drop, name, CFG_KEPT_HEX + 1, s->e);
}

static int sweep_drop(const struct kind_env *env, const struct buf *names, struct err *e)
{
    char dir[PATH_MAX];
    for (size_t at = 0; at < names->len; at += CFG_KEPT_HEX + 1) {
        snprintf(dir, sizeof(dir), "%s/backup/%s", env->config->state_dir, names->data + at);
        log_info("edgeconfig", "backup_without_record dir=%s", dir);
        int rc = env->disk->ops->rmtree(env->disk, dir, e);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int cfg_backup_sweep(const struct kind_env *env, struct err *e)
{
    enum { NAMES_MAX = 512 * 1024 };
    if (db_salvaged(env->db)->happened) // records may be among what was lost: no doubt may remove a copy
        return 0;
    char root[PATH_MAX];
    struct err why = ERR_INIT;
    struct sweep s = { BUF_INIT(NAMES_MAX), BUF_INIT(NAMES_MAX), &why };
    backup_root(env, root);
    int rc = intent_each(env->db, NULL, sweep_keep, &s, &why);
    if (rc == 0)
        rc = env->disk->ops->list(env->disk, root, sweep_entry, &s, &why);
    if (rc == 0)
        rc = sweep_drop(env, &s.drop, &why);
    buf_fini(&s.keep);
    buf_fini(&s.drop);
    if (rc == 0 || rc == E_NOTFOUND) // no backup was ever made
        return 0;
    *e = why;
    return rc;
}
