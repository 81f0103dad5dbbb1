// SPDX-License-Identifier: Apache-2.0
#include "flow/manifests.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "flow/manifests_priv.h"

enum { SETTLE_MS = 200, SETTLE_MOST_MS = 2000, GONE_AFTER_MS = 2000, NAME_LIMIT = 256, NAMES_MAX = 512 * 1024 };
#define META_DIR "manifests:directory" // its inode when its files were taken last

struct absent {
    struct table_node node;
    int64_t since_ms;
    char key[];
};

static struct loop *loop_of(const struct manifests *m)
{
    return m->conf.env->loop;
}

static void in(struct manifests *m, struct timer *t, int64_t ms)
{
    if (timer_in(loop_of(m), t, ms) < 0)
        log_error("manifests", "no-timer");
}

// --- What is in no file any more

static void forget_absents(struct manifests *m)
{
    table_each_safe(n, &m->absents)
    {
        table_del(&m->absents, n);
        free(container_of(n, struct absent, node));
    }
}

// Since when it is missing, by the readings.
static int64_t missing_since(struct manifests *m, const char *key)
{
    struct table_node *n = table_get(&m->absents, key);
    size_t len = strlen(key) + 1;
    if (n != NULL)
        return container_of(n, struct absent, node)->since_ms;
    struct absent *a = calloc(1, sizeof(*a) + len);
    if (a == NULL)
        return INT64_MAX;
    memcpy(a->key, key, len);
    a->node.key = a->key;
    a->since_ms = loop_now(loop_of(m));
    if (table_put(&m->absents, &a->node, NULL) < 0)
        free(a);
    return loop_now(loop_of(m));
}

struct sweep {
    struct manifests *m;
    struct err *e;
    bool other_dir; // missing things prove nothing
    size_t waiting, kept, there;
};

static int remove_row(struct manifests *m, const char *key, struct err *e)
{
    char uid[OBJ_UID_MAX];
    manifests_uid(key, uid);
    int rc = cache_delete_file(m->conf.env->cache, key, e);
    if (rc < 0)
        return rc;
    log_info("manifests", "gone key=%s", key);
    rc = cache_has(m->conf.env->cache, key, e);
    if (rc == 1) // the server's is what is wanted now
        m->conf.changed(m->conf.ctx, key);
    else if (rc == 0)
        m->conf.gone(m->conf.ctx, key, uid);
    return MIN(rc, 0);
}

static int sweep_key(void *ctx, const char *key)
{
    struct sweep *s = ctx;
    struct manifests *m = s->m;
    struct table_node *n = table_get(&m->absents, key);
    bool there = manifests_owner(m, key) != NULL;
    s->there += there;
    if (there && n != NULL) {
        table_del(&m->absents, n);
        free(container_of(n, struct absent, node));
    }
    if (there)
        return 0;
    if (s->other_dir && !m->accept) {
        s->kept++;
        return 0;
    }
    int64_t since = missing_since(m, key);
    if (loop_now(loop_of(m)) - since >= GONE_AFTER_MS)
        return remove_row(m, key, s->e);
    s->waiting++;
    return 0;
}

static int note_directory(struct manifests *m, struct err *e)
{
    char known[32] = "", now[32];
    snprintf(now, sizeof(now), "%" PRIu64, m->inode);
    int rc = db_meta_get(m->conf.env->db, META_DIR, known, sizeof(known), e);
    if (rc < 0 && rc != E_NOTFOUND)
        return rc;
    return strcmp(known, now) == 0 ? 0 : db_meta_set(m->conf.env->db, META_DIR, now, e);
}

static bool is_other_directory(const struct manifests *m)
{
    char known[32] = "", now[32];
    snprintf(now, sizeof(now), "%" PRIu64, m->inode);
    return db_meta_get(m->conf.env->db, META_DIR, known, sizeof(known), NULL) == 0 && strcmp(known, now) != 0;
}

static void directory_problem(struct manifests *m, const char *why)
{
    if (strcmp(m->dir_problem, why) != 0 && why[0] != '\0')
        log_warn("manifests", "directory dir=%s why=\"%s\"", m->conf.dir, why);
    snprintf(m->dir_problem, sizeof(m->dir_problem), "%s", why);
}

// One whose objects still wait to be gone is remembered: it may come back, and be half written then.
static void drop_unseen(struct manifests *m)
{
    table_each_safe(n, &m->files)
    {
        struct file *f = container_of(n, struct file, node);
        if (f->seen != m->stats.scans)
            manifest_file_free(m, f);
    }
}

static int sweep(struct manifests *m, struct err *e)
{
    struct sweep s = { .m = m, .e = e, .other_dir = is_other_directory(m) };
    int rc = m->incomplete ? 0 : cache_each_file(m->conf.env->cache, sweep_key, &s, e);
    if (rc < 0 || m->incomplete)
        return rc;
    m->stats.objects = s.there;
    if (s.kept > 0) {
        directory_problem(m, "another directory than before (not mounted?), without objects that were there: they are kept; `limpet resync "
                             "--accept` believes it");
        return 0;
    }
    directory_problem(m, "");
    if (s.waiting == 0)
        drop_unseen(m);
    m->again = m->again || s.waiting > 0;
    m->accept = m->accept && s.waiting > 0;
    return m->accept ? 0 : note_directory(m, e);
}

// --- A scan

static void scan(struct manifests *m);

static void end_scan(struct manifests *m, struct err *e, int rc)
{
    m->scanning = false;
    manifests_drop_claims(m);
    if (rc < 0) {
        log_error("manifests", "not-read dir=%s class=%s error=\"%s\"", m->conf.dir, err_word(rc), e->msg);
        forget_absents(m);
        m->again = true;
    }
    if (m->again)
        in(m, &m->settle, GONE_AFTER_MS);
    m->again = false;
    if (m->conf.read != NULL)
        m->conf.read(m->conf.ctx);
}

static void on_step(struct timer *t)
{
    struct manifests *m = container_of(t, struct manifests, step);
    struct err e = ERR_INIT;
    if (m->at >= m->names.len) {
        int rc = sweep(m, &e);
        end_scan(m, &e, rc);
        return;
    }
    const char *name = m->names.data + m->at;
    m->at += strlen(name) + 1;
    struct file *f = manifest_file_of(m, name, &e);
    int rc = f != NULL ? 0 : E_NOMEM;
    if (rc == 0) {
        f->seen = m->stats.scans;
        rc = manifest_file_read(m, f, &e);
    }
    if (rc < 0)
        end_scan(m, &e, rc);
    else
        in(m, &m->step, 0);
}

struct listing {
    struct manifests *m;
    struct err *e;
    char *names[MANIFEST_FILES_MAX];
    size_t n;
};

static int list_name(void *ctx, const char *name, enum fs_type type)
{
    struct listing *l = ctx;
    if (type == FS_DIR || !manifest_is_name(name) || strlen(name) >= NAME_LIMIT)
        return 0;
    if (l->n == MANIFEST_FILES_MAX) {
        l->m->incomplete = true;
        return 0;
    }
    l->names[l->n] = strdup(name);
    return l->names[l->n++] != NULL ? 0 : err_set(l->e, E_NOMEM, "manifests");
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_names(struct manifests *m, struct err *e)
{
    struct disk *d = m->conf.env->disk;
    struct listing *l = calloc(1, sizeof(*l));
    struct fs_stat st;
    if (l == NULL)
        return err_set(e, E_NOMEM, "manifests");
    l->m = m;
    l->e = e;
    m->incomplete = false;
    buf_reset(&m->names);
    int rc = d->ops->list(d, m->conf.dir, list_name, l, e);
    if (rc == 0)
        rc = d->ops->stat(d, m->conf.dir, 0, &st, e);
    if (rc == 0)
        m->inode = st.inode;
    qsort(l->names, l->n, sizeof(l->names[0]), by_name);
    for (size_t i = 0; i < l->n; i++) {
        if (rc == 0)
            rc = buf_add(&m->names, l->names[i], strlen(l->names[i]) + 1, e);
        free(l->names[i]);
    }
    free(l);
    if (rc == 0 && m->incomplete)
        log_error("manifests", "too-many dir=%s most=%d why=\"the ones beyond are not read, and nothing is removed\"", m->conf.dir,
                  MANIFEST_FILES_MAX);
    return rc;
}

static void watch(struct manifests *m);

// A directory that cannot be read says nothing: what its files said stays.
static void scan(struct manifests *m)
{
    struct err e = ERR_INIT;
    if (m->scanning) {
        m->again = true;
        return;
    }
    m->first_event_ms = 0;
    watch(m);
    if (list_names(m, &e) < 0) {
        forget_absents(m);
        directory_problem(m, e.cls == E_NOTFOUND && table_count(&m->files) == 0 ? "" : e.msg);
        return;
    }
    m->scanning = true;
    m->stats.scans++;
    m->at = 0;
    in(m, &m->step, 0);
}

static void on_settle(struct timer *t)
{
    scan(container_of(t, struct manifests, settle));
}

// --- Watching

static void soon(struct manifests *m)
{
    int64_t now = loop_now(loop_of(m));
    if (m->first_event_ms == 0)
        m->first_event_ms = now;
    in(m, &m->settle, MAX((int64_t)0, MIN((int64_t)SETTLE_MS, m->first_event_ms + SETTLE_MOST_MS - now)));
}

static void on_event(struct fs_watch *w, const char *name)
{
    struct manifests *m = container_of(w, struct manifests, watch);
    const char *own = strrchr(m->conf.dir, '/') + 1;
    if (name == NULL || (m->on_parent ? strcmp(name, own) == 0 : manifest_is_name(name)))
        soon(m);
}

// The directory, or where it would be.
static void watch(struct manifests *m)
{
    struct disk *d = m->conf.env->disk;
    char parent[PATH_MAX];
    struct err e = ERR_INIT;
    d->ops->unwatch(d, &m->watch);
    m->watch = (struct fs_watch){ .fn = on_event };
    m->on_parent = false;
    if (d->ops->watch(d, &m->watch, m->conf.dir, &e) == 0)
        return;
    size_t n = (size_t)(strrchr(m->conf.dir, '/') - m->conf.dir);
    snprintf(parent, sizeof(parent), "%.*s", (int)MAX(n, (size_t)1), m->conf.dir);
    m->on_parent = true;
    (void)!d->ops->watch(d, &m->watch, parent, &e); // else the next look finds it
}

void manifests_look(struct manifests *m)
{
    struct disk *d = m->conf.env->disk;
    struct fs_stat st;
    struct err e = ERR_INIT;
    bool there = d->ops->stat(d, m->conf.dir, 0, &st, &e) == 0 && st.type == FS_DIR;
    bool watched = m->watch.impl != NULL && !m->on_parent;
    if (there != watched || (there && st.inode != m->inode))
        soon(m);
}

void manifests_again(struct manifests *m)
{
    table_each_safe(n, &m->files) container_of(n, struct file, node)->sha[0] = '\0';
    soon(m);
}

void manifests_accept(struct manifests *m)
{
    m->accept = true;
    soon(m);
}

// --- Beginning and end

// What the files said before this start, so that one which is bad now keeps it.
static int remember_row(void *ctx, const char *key)
{
    struct manifests *m = ctx;
    struct cached row AUTO_CACHED = CACHED_INIT;
    struct err e = ERR_INIT;
    if (cache_get(m->conf.env->cache, key, &row, &e) < 0 || !cache_is_file(row.source))
        return 0; // damaged: read again
    struct file *f = manifest_file_of(m, row.source + strlen(CACHE_FILE_SOURCE), &e);
    if (f == NULL || manifest_file_define(f, key, false, &e) < 0)
        log_error("manifests", "not-remembered key=%s error=\"%s\"", key, e.msg);
    return 0;
}

int manifests_new(struct manifests **out, const struct manifests_conf *c, struct err *e)
{
    struct manifests *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return err_set(e, E_NOMEM, "manifests");
    m->conf = *c;
    m->env = (struct manifest_env){ .registry = c->registry, .env = c->env, .ns = c->env->ns };
    m->names = (struct buf)BUF_INIT(NAMES_MAX);
    m->watch.fn = on_event;
    timer_init(&m->settle, on_settle);
    timer_init(&m->step, on_step);
    table_init(&m->files);
    table_init(&m->claims);
    table_init(&m->absents);
    int rc = path_check(c->dir, e);
    if (rc == 0)
        rc = cache_each_file(c->env->cache, remember_row, m, e);
    if (rc < 0) {
        manifests_free(m);
        return rc;
    }
    *out = m;
    return 0;
}

void manifests_start(struct manifests *m)
{
    scan(m);
}

void manifests_free(struct manifests *m)
{
    if (m == NULL)
        return;
    timer_cancel(loop_of(m), &m->settle);
    timer_cancel(loop_of(m), &m->step);
    m->conf.env->disk->ops->unwatch(m->conf.env->disk, &m->watch);
    manifests_drop_claims(m);
    forget_absents(m);
    table_each_safe(n, &m->files) manifest_file_free(m, container_of(n, struct file, node));
    table_fini(&m->files);
    table_fini(&m->claims);
    table_fini(&m->absents);
    buf_fini(&m->names);
    free(m);
}

static void say_file(struct manifests_stats *out, const struct file *f)
{
    if (snprintf(out->problem, sizeof(out->problem), "%s: %s", f->name, f->problem) >= (int)sizeof(out->problem))
        out->problem[sizeof(out->problem) - 1] = '\0';
}

void manifests_stats(const struct manifests *m, struct manifests_stats *out)
{
    const struct file *bad = NULL, *unknown = NULL;
    *out = m->stats;
    out->files = table_count(&m->files);
    for (struct table_node *n = table_first(&m->files); n != NULL; n = table_after(&m->files, n)) {
        const struct file *f = container_of(n, struct file, node);
        if (f->problem[0] == '\0')
            continue;
        const struct file **first = f->in_force ? &unknown : &bad;
        *(f->in_force ? &out->unknown : &out->bad) += 1;
        if (*first == NULL || strcmp(f->name, (*first)->name) < 0)
            *first = f;
    }
    snprintf(out->problem, sizeof(out->problem), "%s", m->dir_problem);
    if (out->problem[0] == '\0' && (bad != NULL || unknown != NULL))
        say_file(out, bad != NULL ? bad : unknown);
}
