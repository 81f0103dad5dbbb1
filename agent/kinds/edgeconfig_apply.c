// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgeconfig_apply.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "flow/status.h"

// --- Looking

static int look_content(const struct kind_env *env, const char *path, struct cfg_actual *out, struct buf *content, struct err *e)
{
    struct err why = ERR_INIT;
    struct buf own AUTO_BUF = BUF_INIT(CFG_BACKUP_MAX);
    struct buf *into = content != NULL ? content : &own;
    int rc = fs_read(env->disk, path, CFG_BACKUP_MAX, FS_GUARDED, into, &why);
    if (rc == E_TOOBIG) {
        out->too_big = true;
        return 0;
    }
    if (rc == 0)
        sha256_hex(buf_str(into), into->len, out->version.sha);
    else
        *e = why;
    return rc;
}

int cfg_look(const struct kind_env *env, const char *path, bool is_dir, struct cfg_actual *out, struct buf *content, struct err *e)
{
    struct err why = ERR_INIT;
    struct fs_stat st;
    *out = (struct cfg_actual){ 0 };
    int rc = env->disk->ops->stat(env->disk, path, FS_GUARDED, &st, &why);
    if (rc == E_NOTFOUND)
        return 0;
    if (rc < 0) {
        *e = why;
        return rc;
    }
    if (st.type == FS_LINK)
        return err_set(e, E_FORBIDDEN, "is a symbolic link");
    if (st.type != (is_dir ? FS_DIR : FS_FILE))
        return err_set(e, E_INVAL, is_dir ? "is no directory" : "is no regular file");
    out->present = true;
    out->version.mode = st.mode;
    out->version.uid = st.uid;
    out->version.gid = st.gid;
    if (is_dir) {
        strcpy(out->version.sha, CFG_DIR_SHA);
        return 0;
    }
    rc = look_content(env, path, out, content, e);
    if (rc != E_NOTFOUND)
        return rc;
    *out = (struct cfg_actual){ 0 }; // it went between the two looks
    return 0;
}

static int resolve_owner(const struct kind_env *env, struct cfg_item *i, struct err *e)
{
    const struct cfg_entry *f = i->want;
    struct cfg_version *v = &i->version;
    v->uid = geteuid();
    v->gid = getegid();
    int rc = f->owner != NULL ? env->disk->ops->user(env->disk, f->owner, &v->uid, &v->gid, e) : 0;
    if (rc < 0)
        return err_wrap(e, "owner");
    if (v->gid == UINT32_MAX) // a number that no account has: it brings no group
        v->gid = getegid();
    rc = f->group != NULL ? env->disk->ops->group(env->disk, f->group, &v->gid, e) : 0;
    return rc < 0 ? err_wrap(e, "group") : 0;
}

int cfg_item_observe(const struct kind_env *env, struct cfg_item *i, struct err *e)
{
    int rc = resolve_owner(env, i, e);
    if (rc < 0)
        return rc;
    snprintf(i->version.sha, sizeof(i->version.sha), "%s", i->want->sha);
    i->version.mode = i->want->mode;
    rc = cfg_look(env, i->want->path, i->want->is_dir, &i->actual, NULL, e);
    if (rc < 0)
        return rc;
    i->differs = !i->actual.present || !cfg_version_equal(&i->actual.version, &i->version);
    i->observed = true;
    return 0;
}

bool cfg_item_is_drift(const struct cfg_item *i)
{
    return i->differs && i->record != NULL && i->record->applied && cfg_version_equal(&i->record->written, &i->version);
}

struct naming {
    const char *path;
    char *text;
    struct json *out;
};

static void name_difference(const struct naming *n, const char *field, const char *want, const char *have)
{
    enum { TEXT_MAX = 64 };
    size_t len = strlen(n->text);
    snprintf(n->text + len, TEXT_MAX - len, "%s%s", len > 0 ? ", " : "", field);
    if (n->out != NULL)
        difference_add(n->out, n->path, field, want, have);
}

static void name_number(const struct naming *n, const char *field, const char *form, uint32_t want, uint32_t have)
{
    char w[24], h[24];
    if (want == have)
        return;
    snprintf(w, sizeof(w), form[0] == 'o' ? "%04o" : "%u", want);
    snprintf(h, sizeof(h), form[0] == 'o' ? "%04o" : "%u", have);
    name_difference(n, field, w, h);
}

void cfg_item_differences(const struct cfg_item *i, char text[64], struct json *out)
{
    const struct cfg_version *want = &i->version, *have = &i->actual.version;
    const struct naming n = { i->want->path, text, out };
    char w[32], h[32];
    text[0] = '\0';
    if (!i->actual.present) {
        name_difference(&n, "existence", "present", "absent");
        return;
    }
    if (strcmp(want->sha, have->sha) != 0) {
        bool former = i->want->former;                                                // of a Secret or not, nobody knows any more
        bool secret = i->want->from.name != NULL && i->want->from.kind == REF_SECRET; // a digest lets guesses be tried
        snprintf(w, sizeof(w), former ? "as before" : secret ? "the Secret's" : "sha256:%.12s", want->sha);
        snprintf(h, sizeof(h), former || secret ? "another" : i->actual.too_big ? "too large" : "sha256:%.12s", have->sha);
        name_difference(&n, "content", w, h);
    }
    name_number(&n, "mode", "octal", want->mode, have->mode);
    name_number(&n, "owner", "decimal", want->uid, have->uid);
    name_number(&n, "group", "decimal", want->gid, have->gid);
}

// --- Writing

int cfg_item_backup(const struct kind_env *env, const char *key, struct cfg_item *i, struct cfg_record *r, enum cfg_deletion policy,
                    struct err *e)
{
    struct buf content AUTO_BUF = BUF_INIT(CFG_BACKUP_MAX);
    struct cfg_actual now;
    int rc = cfg_look(env, i->want->path, i->want->is_dir, &now, &content, e);
    if (rc < 0)
        return rc;
    if (now.too_big && policy == CFG_RESTORE)
        return err_set(e, E_TOOBIG, "%s: what lies there has more than %d bytes and cannot be saved, as deletionPolicy Restore needs",
                       i->want->path, CFG_BACKUP_MAX);
    r->before = !now.present ? CFG_WAS_ABSENT : now.too_big ? CFG_WAS_TOO_BIG : r->is_dir ? CFG_WAS_DIR : CFG_WAS_FILE;
    r->backup = now.version;
    r->policy = policy;
    return r->before == CFG_WAS_FILE ? cfg_backup_write(env, key, i->want->path, &content, e) : 0;
}

void cfg_record_aim(struct cfg_record *r, const struct cfg_version *v)
{
    if (strcmp(r->written.sha, v->sha) != 0)
        memcpy(r->former, r->written.sha, sizeof(r->former));
    r->written = *v;
}

static int make_parents(const struct kind_env *env, const char *path, struct err *e)
{
    char dir[PATH_MAX];
    snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(path, '/') - path), path);
    return dir[0] != '\0' ? env->disk->ops->mkdirs(env->disk, dir, 0755, FS_GUARDED, e) : 0;
}

int cfg_version_write(const struct kind_env *env, const char *path, const void *p, size_t n, const struct cfg_version *v, struct err *e)
{
    int rc = make_parents(env, path, e);
    return rc == 0 ? env->disk->ops->write(env->disk, path, p, n, v->mode, v->uid, v->gid, FS_GUARDED, e) : rc;
}

// Nobody gets in before it has its mode and owner.
int cfg_dir_write(const struct kind_env *env, const char *path, const struct cfg_version *v, struct err *e)
{
    struct disk *d = env->disk;
    int rc = make_parents(env, path, e);
    if (rc == 0)
        rc = d->ops->mkdirs(d, path, 0700, FS_GUARDED, e);
    return rc == 0 ? d->ops->chattr(d, path, v->mode, v->uid, v->gid, FS_GUARDED, e) : rc;
}

int cfg_item_write(const struct kind_env *env, const struct cfg_item *i, struct err *e)
{
    if (i->want->is_dir)
        return cfg_dir_write(env, i->want->path, &i->version, e);
    return cfg_version_write(env, i->want->path, i->want->content, i->want->len, &i->version, e);
}

// --- Giving back

static bool is_ours(const struct cfg_record *r, const struct cfg_actual *a)
{
    return !a->too_big && (strcmp(a->version.sha, r->written.sha) == 0 || strcmp(a->version.sha, r->former) == 0);
}

static enum cfg_release plan_removal(const struct cfg_record *r, const struct cfg_actual *a)
{
    if (!a->present)
        return CFG_UNTOUCHED;
    return is_ours(r, a) ? CFG_REMOVED : CFG_FOREIGN;
}

static enum cfg_release plan_restore(const struct cfg_record *r, const struct cfg_actual *a)
{
    if (r->before == CFG_WAS_ABSENT)
        return plan_removal(r, a);
    if (r->before == CFG_WAS_TOO_BIG)
        return CFG_NO_BACKUP;
    if (a->present && cfg_version_equal(&a->version, &r->backup))
        return CFG_UNTOUCHED;
    bool only_mode = a->present && strcmp(a->version.sha, r->backup.sha) == 0;
    return !a->present || only_mode || is_ours(r, a) ? CFG_RESTORED : CFG_FOREIGN;
}

int cfg_release_plan(const struct kind_env *env, const struct cfg_record *r, enum cfg_deletion policy, enum cfg_release *out, struct err *e)
{
    struct err why = ERR_INIT;
    struct cfg_actual a;
    *out = CFG_UNTOUCHED;
    if (policy == CFG_KEEP)
        return 0;
    int rc = cfg_look(env, r->path, r->is_dir, &a, NULL, &why);
    if (rc == 0)
        *out = policy == CFG_DELETE ? plan_removal(r, &a) : plan_restore(r, &a);
    else if (rc == E_INVAL || (rc == E_FORBIDDEN && why.sys == 0)) // something else by now
        *out = CFG_FOREIGN;
    else {
        *e = why;
        return rc;
    }
    return 0;
}

static int put_back(const struct kind_env *env, const char *key, const struct cfg_record *r, struct err *e)
{
    struct buf content AUTO_BUF = BUF_INIT(CFG_BACKUP_MAX);
    char sha[SHA256_HEX];
    if (r->is_dir)
        return cfg_dir_write(env, r->path, &r->backup, e);
    int rc = cfg_backup_read(env, key, r->path, &content, e);
    if (rc < 0)
        return err_wrap(e, "the copy of what lay at %s", r->path);
    sha256_hex(buf_str(&content), content.len, sha);
    if (strcmp(sha, r->backup.sha) != 0)
        return err_set(e, E_CORRUPT, "the copy of what lay at %s is damaged", r->path);
    return cfg_version_write(env, r->path, buf_str(&content), content.len, &r->backup, e);
}

static int restore(const struct kind_env *env, const char *key, const struct cfg_record *r, enum cfg_release *what, struct err *e)
{
    struct err why = ERR_INIT;
    int rc = put_back(env, key, r, &why);
    if (rc == E_NOTFOUND || rc == E_CORRUPT) {
        *what = CFG_NO_BACKUP;
        return 0;
    }
    if (rc < 0)
        *e = why;
    return rc;
}

static int remove_dir(const struct kind_env *env, const char *path, enum cfg_release *what, struct err *e)
{
    struct err why = ERR_INIT;
    int rc = env->disk->ops->rmdir(env->disk, path, FS_GUARDED, &why);
    if (rc == E_EXISTS) {
        *what = CFG_NOT_EMPTY;
        return 0;
    }
    if (rc < 0)
        *e = why;
    return rc;
}

int cfg_release_do(const struct kind_env *env, const char *key, const struct cfg_record *r, enum cfg_release *what, struct err *e)
{
    switch (*what) {
    case CFG_RESTORED:
        return restore(env, key, r, what, e);
    case CFG_REMOVED:
        if (r->is_dir)
            return remove_dir(env, r->path, what, e);
        return env->disk->ops->unlink(env->disk, r->path, FS_GUARDED, e);
    case CFG_UNTOUCHED:
    case CFG_FOREIGN:
    case CFG_NO_BACKUP:
    case CFG_NOT_EMPTY:
        break;
    }
    return 0;
}
