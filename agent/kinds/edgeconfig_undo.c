// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgeconfig_undo.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "config/config.h"
#include "kinds/edgeconfig_record.h"

#define SWITCH_INTENT "switch"

enum { SWITCH_MAX = 512 * 1024 + 2 * CFG_ON_CHANGE_MAX }; // as JSON in JSON

static const char *const state_words[] = { "none", "going", "trial", "back", "failed", NULL };

// --- The intent

static struct json *undo_json(const struct cfg_undo *u)
{
    struct json *j = json_object();
    json_set_str(j, "path", u->path);
    json_set_bool(j, "ours", u->ours);
    json_set_bool(j, "dir", u->is_dir);
    if (u->present)
        json_set(j, "was", cfg_version_json(&u->was));
    return j;
}

static struct json *switch_json(const struct cfg_switch *s)
{
    char hash[20];
    struct json *j = json_object(), *files = json_array();
    snprintf(hash, sizeof(hash), "%016" PRIx64, s->spec);
    json_set_str(j, "state", state_words[s->state]);
    json_set_str(j, "revision", s->revision);
    json_set_str(j, "spec", hash);
    json_set_int(j, "confirm", s->confirm_ms);
    if (s->on_change != NULL)
        json_set_str(j, "onChange", s->on_change);
    json_set_str(j, "boot", s->boot_id);
    json_set_int(j, "untilBoot", s->until_boot_ms);
    json_set_int(j, "untilWall", s->until_wall_us);
    json_set_bool(j, "rebooted", s->rebooted);
    for (size_t i = 0; i < s->n; i++)
        json_push(files, undo_json(&s->files[i]));
    json_set(j, "files", files);
    return j;
}

int cfg_switch_put(struct db *db, const char *key, const struct cfg_switch *s, struct err *e)
{
    if (s->state == SWITCH_NONE)
        return intent_delete(db, key, SWITCH_INTENT, e);
    AUTO_BUF struct buf text = BUF_INIT(SWITCH_MAX);
    (void)json_ok();
    AUTO_JSON struct json *j = switch_json(s);
    int rc = json_ok() ? json_print(j, &text, e) : err_set(e, E_NOMEM, "switch");
    return rc == 0 ? intent_put(db, key, SWITCH_INTENT, buf_str(&text), e) : rc;
}

static int state_of_word(const char *word)
{
    for (int i = 0; word != NULL && state_words[i] != NULL; i++)
        if (strcmp(state_words[i], word) == 0)
            return i;
    return -1;
}

static bool read_text(const struct json *j, char *out, size_t max)
{
    const char *s = json_str(j);
    if (s == NULL || strlen(s) >= max)
        return false;
    memcpy(out, s, strlen(s) + 1);
    return true;
}

static bool read_head(struct cfg_switch *s, const struct json *j)
{
    const char *hash = json_str(json_get(j, "spec"));
    int state = state_of_word(json_str(json_get(j, "state")));
    if (state < 0 || hash == NULL || sscanf(hash, "%" SCNx64, &s->spec) != 1)
        return false;
    s->state = (enum cfg_switch_state)state;
    s->rebooted = json_bool(json_get(j, "rebooted"), false);
    return read_text(json_get(j, "revision"), s->revision, sizeof(s->revision)) &&
           read_text(json_get(j, "boot"), s->boot_id, sizeof(s->boot_id)) && json_i64(json_get(j, "confirm"), &s->confirm_ms) &&
           json_i64(json_get(j, "untilBoot"), &s->until_boot_ms) && json_i64(json_get(j, "untilWall"), &s->until_wall_us);
}

static bool read_files(struct cfg_switch *s, const struct json *list, struct arena *a)
{
    json_each(item, list)
    {
        const char *path = json_str(json_get(item, "path"));
        const struct json *was = json_get(item, "was");
        struct cfg_undo *u = &s->files[s->n++];
        *u = (struct cfg_undo){ .path = path != NULL ? arena_strdup(a, path) : NULL, .present = was != NULL };
        u->ours = json_bool(json_get(item, "ours"), false);
        u->is_dir = json_bool(json_get(item, "dir"), false);
        if (u->path == NULL || (u->present && !cfg_version_read(was, &u->was)))
            return false;
    }
    return true;
}

static int switch_parse(struct cfg_switch *s, const struct buf *text, size_t more, struct arena *a, struct err *e)
{
    AUTO_JSON struct json *j = NULL;
    if (json_parse(&j, buf_str(text), text->len, NULL) < 0)
        return err_set(e, E_CORRUPT, "the record of a change under way is damaged");
    s->room = json_len(json_get(j, "files")) + more;
    s->files = arena_alloc(a, (s->room + 1) * sizeof(*s->files));
    if (s->files == NULL)
        return err_set(e, E_NOMEM, "switch");
    const char *change = json_str(json_get(j, "onChange"));
    s->on_change = change != NULL ? arena_strdup(a, change) : NULL;
    if (change != NULL && s->on_change == NULL)
        return err_set(e, E_NOMEM, "switch");
    if (!read_head(s, j) || !read_files(s, json_get(j, "files"), a))
        return err_set(e, E_CORRUPT, "the record of a change under way is damaged");
    return 0;
}

int cfg_switch_load(struct cfg_switch *out, struct db *db, const char *key, size_t more, struct arena *a, struct err *e)
{
    struct err why = ERR_INIT;
    AUTO_BUF struct buf text = BUF_INIT(SWITCH_MAX);
    *out = (struct cfg_switch){ 0 };
    int rc = intent_get(db, key, SWITCH_INTENT, &text, &why);
    if (rc == 0)
        return switch_parse(out, &text, more, a, e);
    if (rc != E_NOTFOUND) {
        *e = why;
        return rc;
    }
    out->room = more;
    out->files = arena_alloc(a, (more + 1) * sizeof(*out->files));
    return out->files != NULL ? 0 : err_set(e, E_NOMEM, "switch");
}

// --- The bytes

const struct cfg_undo *cfg_undo_of(const struct cfg_switch *s, const char *path)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->files[i].path, path) == 0)
            return &s->files[i];
    return NULL;
}

static int keep_bytes(const struct kind_env *env, const char *key, const char *path, const struct buf *content, struct err *e)
{
    char dir[PATH_MAX], file[PATH_MAX];
    cfg_kept_dir(env, "undo", key, dir);
    cfg_kept_file(env, "undo", key, path, file);
    int rc = env->disk->ops->mkdirs(env->disk, dir, 0700, 0, e);
    if (rc == 0)
        rc = fs_write(env->disk, file, buf_str(content), content->len, 0600, 0, e);
    return rc < 0 ? err_wrap(e, "keeping what lies at %s", path) : 0;
}

static bool is_before(const struct cfg_undo *a, const struct cfg_undo *b)
{
    return a->is_dir != b->is_dir ? a->is_dir : strcmp(a->path, b->path) < 0;
}

static void insert(struct cfg_switch *s, const struct cfg_undo *u)
{
    size_t at = s->n++;
    for (; at > 0 && is_before(u, &s->files[at - 1]); at--)
        s->files[at] = s->files[at - 1];
    s->files[at] = *u;
}

int cfg_undo_add(const struct kind_env *env, const char *key, struct cfg_switch *s, const struct cfg_entry *x, bool ours, struct err *e)
{
    struct buf content AUTO_BUF = BUF_INIT(CFG_BACKUP_MAX);
    const char *path = x->path;
    struct cfg_actual now;
    if (s->n == s->room)
        return err_set(e, E_TOOBIG, "more files change than can be put back");
    int rc = cfg_look(env, path, x->is_dir, &now, &content, e);
    if (rc == 0 && now.too_big)
        rc = err_set(e, E_TOOBIG, "%s: what lies there has more than %d bytes and could not be put back", path, CFG_BACKUP_MAX);
    if (rc == 0 && now.present && !x->is_dir)
        rc = keep_bytes(env, key, path, &content, e);
    if (rc == 0)
        insert(s, &(struct cfg_undo){ .path = path, .is_dir = x->is_dir, .present = now.present, .was = now.version, .ours = ours });
    return rc;
}

int cfg_undo_forget(const struct kind_env *env, const char *key, struct err *e)
{
    char dir[PATH_MAX];
    cfg_kept_dir(env, "undo", key, dir);
    return env->disk->ops->rmtree(env->disk, dir, e);
}

// --- Putting back

void cfg_staged_name(const char *path, char out[CFG_PATH_MAX + 64])
{
    const char *name = strrchr(path, '/') + 1;
    snprintf(out, CFG_PATH_MAX + 64, "%.*s.%016" PRIx64 ".limpet-new", (int)(name - path), path, hash_bytes(HASH_SEED, path, strlen(path)));
}

static int write_back(const struct kind_env *env, const char *key, struct cfg_undo *u, struct err *e)
{
    char file[PATH_MAX], sha[SHA256_HEX];
    struct err why = ERR_INIT;
    struct buf content AUTO_BUF = BUF_INIT(CFG_BACKUP_MAX);
    cfg_kept_file(env, "undo", key, u->path, file);
    int rc = fs_read(env->disk, file, CFG_BACKUP_MAX, 0, &content, &why);
    if (rc < 0 && rc != E_NOTFOUND) {
        *e = why;
        return rc;
    }
    sha256_hex(buf_str(&content), content.len, sha);
    u->lost = rc == E_NOTFOUND || strcmp(sha, u->was.sha) != 0;
    if (u->lost) {
        log_warn("edgeconfig", "copy_lost key=%s path=%s", key, u->path);
        return 0;
    }
    log_info("edgeconfig", "put_back key=%s path=%s", key, u->path);
    return cfg_version_write(env, u->path, buf_str(&content), content.len, &u->was, e);
}

static int unmake_dir(const struct kind_env *env, const char *key, const struct cfg_undo *u, struct err *e)
{
    struct err why = ERR_INIT;
    int rc = env->disk->ops->rmdir(env->disk, u->path, FS_GUARDED, &why);
    if (rc < 0 && rc != E_EXISTS) {
        *e = why;
        return rc;
    }
    log_info("edgeconfig", "%s key=%s path=%s", rc == 0 ? "put_back" : "not_empty", key, u->path);
    return 0;
}

static int restore_dir(const struct kind_env *env, const char *key, struct cfg_undo *u, struct err *e)
{
    struct cfg_actual now;
    int rc = cfg_look(env, u->path, true, &now, NULL, e);
    if (rc < 0 || (!u->present && !now.present) || (u->present && now.present && cfg_version_equal(&now.version, &u->was)))
        return rc;
    if (!u->present)
        return unmake_dir(env, key, u, e);
    log_info("edgeconfig", "put_back key=%s path=%s", key, u->path);
    return cfg_dir_write(env, u->path, &u->was, e);
}

static int restore_file(const struct kind_env *env, const char *key, struct cfg_undo *u, struct err *e)
{
    struct cfg_actual now;
    char staged[CFG_PATH_MAX + 64];
    struct disk *d = env->disk;
    cfg_staged_name(u->path, staged);
    int rc = d->ops->unlink(d, staged, FS_GUARDED, e);
    if (rc == 0)
        rc = cfg_look(env, u->path, false, &now, NULL, e);
    if (rc < 0 || (now.present == u->present && (!now.present || cfg_version_equal(&now.version, &u->was))))
        return rc;
    if (u->present)
        return write_back(env, key, u, e);
    log_info("edgeconfig", "put_back key=%s path=%s", key, u->path);
    return d->ops->unlink(d, u->path, FS_GUARDED, e);
}

int cfg_undo_restore(const struct kind_env *env, const char *key, struct cfg_switch *s, struct err *e)
{
    int first = 0;
    for (size_t i = s->n; i-- > 0;) {
        struct err why = ERR_INIT;
        int rc = (s->files[i].is_dir ? restore_dir : restore_file)(env, key, &s->files[i], &why);
        if (rc == 0 || first != 0)
            continue;
        err_wrap(&why, "putting back %.200s", s->files[i].path);
        first = rc;
        *e = why;
    }
    return first;
}

int cfg_undo_again(const struct kind_env *env, const char *key, struct cfg_switch *s, const char *path, struct err *e)
{
    for (size_t i = 0; i < s->n; i++) {
        struct cfg_undo *u = &s->files[i];
        if (strcmp(u->path, path) != 0)
            continue;
        int rc = write_back(env, key, u, e);
        return rc == 0 && u->lost ? err_set(e, E_TERMINAL, "%s: the copy of it is lost", path) : rc;
    }
    return err_set(e, E_TERMINAL, "%s: there is no copy of it", path);
}

// --- Trials over time

// How long the machine was off only a trusted clock can tell. Without one the time begins anew, once: a machine that a watchdog restarts
// again and again, because it is out of reach, gets its files back at the second boot.
bool cfg_trial_resume(struct cfg_switch *s, const struct instant *now)
{
    if (strcmp(s->boot_id, now->boot_id) == 0)
        return now->boot_ms < s->until_boot_ms;
    bool timed = s->until_wall_us != 0 && now->trusted;
    int64_t left = timed ? (s->until_wall_us - now->wall_us) / 1000 : s->confirm_ms;
    if (left <= 0 || s->rebooted)
        return false;
    s->rebooted = true;
    snprintf(s->boot_id, sizeof(s->boot_id), "%s", now->boot_id);
    s->until_boot_ms = now->boot_ms + MIN(left, s->confirm_ms);
    return true;
}

// --- Start of the agent

static int boot_key(struct kind_env *env, const char *key, struct err *e)
{
    struct cfg_switch s;
    struct instant now;
    struct arena a;
    bool was_rebooted;
    arena_init(&a, 2 * SWITCH_MAX);
    int rc = cfg_switch_load(&s, env->db, key, 0, &a, e);
    clock_instant(env->clock, &now);
    if (rc == 0 && s.state == SWITCH_TRIAL) {
        was_rebooted = s.rebooted;
        bool goes_on = cfg_trial_resume(&s, &now);
        if (!goes_on)
            s.state = SWITCH_BACK;
        if (!goes_on || s.rebooted != was_rebooted)
            rc = cfg_switch_put(env->db, key, &s, e);
    }
    if (rc == 0 && (s.state == SWITCH_GOING || s.state == SWITCH_BACK))
        rc = cfg_undo_restore(env, key, &s, e);
    arena_reset(&a);
    return rc;
}

static int collect_key(void *ctx, const char *key, const char *name)
{
    struct err e = ERR_INIT;
    return strcmp(name, SWITCH_INTENT) == 0 ? buf_add(ctx, key, strlen(key) + 1, &e) : 0;
}

struct sweep {
    const struct buf *keys; // back to back
    struct buf drop;        // names of directories, back to back
};

static int sweep_entry(void *ctx, const char *name, enum fs_type t)
{
    struct sweep *s = ctx;
    struct err e = ERR_INIT;
    char hash[CFG_KEPT_HEX + 1];
    bool known = t != FS_DIR || strlen(name) != CFG_KEPT_HEX;
    for (size_t at = 0; !known && at < s->keys->len; at += strlen(s->keys->data + at) + 1) {
        cfg_kept_name(s->keys->data + at, hash);
        known = strcmp(hash, name) == 0;
    }
    return known ? 0 : buf_add(&s->drop, name, CFG_KEPT_HEX + 1, &e);
}

// Bytes of sets that stand: a cut came before they were removed.
static int sweep(struct kind_env *env, const struct buf *keys, struct err *e)
{
    char root[PATH_MAX], dir[PATH_MAX + CFG_KEPT_HEX + 2];
    struct err why = ERR_INIT;
    struct sweep s = { keys, BUF_INIT(512 * 1024) };
    snprintf(root, sizeof(root), "%s/undo", env->config->state_dir);
    int rc = db_salvaged(env->db)->happened ? 0 : env->disk->ops->list(env->disk, root, sweep_entry, &s, &why);
    for (size_t at = 0; rc == 0 && at < s.drop.len; at += CFG_KEPT_HEX + 1) {
        snprintf(dir, sizeof(dir), "%s/%s", root, s.drop.data + at);
        rc = env->disk->ops->rmtree(env->disk, dir, &why);
    }
    buf_fini(&s.drop);
    if (rc == 0 || rc == E_NOTFOUND) // there never was a set
        return 0;
    *e = why;
    return rc;
}

// One that cannot be put back now does not keep the others from it; its own pass tries again.
int cfg_undo_boot(struct kind_env *env, struct err *e)
{
    struct buf keys AUTO_BUF = BUF_INIT(16 * 1024 * 1024);
    int rc = intent_named(env->db, SWITCH_INTENT, SWITCH_INTENT "!", collect_key, &keys, e);
    for (size_t at = 0; rc == 0 && at < keys.len; at += strlen(keys.data + at) + 1) {
        struct err why = ERR_INIT;
        if (boot_key(env, keys.data + at, &why) < 0)
            log_error("edgeconfig", "not_put_back key=%s error=\"%s\"", keys.data + at, why.msg);
    }
    return rc == 0 ? sweep(env, &keys, e) : rc;
}
