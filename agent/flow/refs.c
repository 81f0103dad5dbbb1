// SPDX-License-Identifier: Apache-2.0
// Who refers to what. What is stored of it: refs_row.c; what is read: refs_read.c.
#include "flow/refs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "data/key.h"
#include "flow/refs_priv.h"
#include "kinds/kind.h"

const struct kind kind_secret = { .type = { "", "v1", "secrets" }, .name = "Secret", .referred = true };
const struct kind kind_configmap = { .type = { "", "v1", "configmaps" }, .name = "ConfigMap", .referred = true };

const struct kind *ref_kind_of(enum ref_kind k)
{
    return k == REF_SECRET ? &kind_secret : &kind_configmap;
}

void ref_text(const struct ref *r, char *out, size_t max)
{
    snprintf(out, max, "%s %s%s%s", ref_kind_of(r->kind)->name, r->name, r->key != NULL ? ", key " : "", r->key != NULL ? r->key : "");
}

static enum ref_kind kind_of_key(const char *key)
{
    return strncmp(key, "secrets/", 8) == 0 ? REF_SECRET : REF_CONFIGMAP;
}

int refs_new(struct refs **out, struct cache *c, const struct refs_conf *conf, struct err *e)
{
    struct refs *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return err_set(e, E_NOMEM, "references");
    r->cache = c;
    r->conf = *conf;
    for (int k = 0; k < REF_KINDS; k++)
        r->kinds[k].offline = true;
    table_init(&r->targets);
    table_init(&r->users);
    *out = r;
    return 0;
}

// --- Targets, what is wanted of them, and by whom

struct target *refs_target(const struct refs *r, const char *key)
{
    struct table_node *n = table_get(&r->targets, key);
    return n != NULL ? container_of(n, struct target, node) : NULL;
}

static struct target *target_new(struct refs *r, const char *key)
{
    size_t n = strlen(key) + 1;
    struct target *t = calloc(1, sizeof(*t) + n);
    if (t == NULL)
        return NULL;
    memcpy(t->key, key, n);
    t->node.key = t->key;
    t->kind = kind_of_key(key);
    list_init(&t->wants);
    if (table_put(&r->targets, &t->node, NULL) < 0) {
        free(t);
        return NULL;
    }
    r->kinds[t->kind].targets++;
    return t;
}

struct want *target_want(const struct target *t, const char *key)
{
    list_each(n, &t->wants) {
        struct want *w = container_of(n, struct want, link);
        if (strcmp(w->key, key) == 0)
            return w;
    }
    return NULL;
}

static struct want *want_new(struct refs *r, struct target *t, const char *key)
{
    size_t n = strlen(key) + 1;
    struct want *w = calloc(1, sizeof(*w) + n);
    if (w == NULL)
        return NULL;
    memcpy(w->key, key, n);
    w->target = t;
    list_init(&w->uses);
    list_add_tail(&t->wants, &w->link);
    r->kinds[t->kind].refresh = true;
    return w;
}

// What nobody wants any more leaves its row when the turn's passes are through.
static void want_free(struct refs *r, struct want *w)
{
    w->target->shrunk = true;
    r->shrunk = true;
    list_del(&w->link);
    free(w);
}

static void use_free(struct refs *r, struct use *u)
{
    struct want *w = u->want;
    list_del(&u->of_want);
    list_del(&u->of_user);
    free(u);
    if (list_empty(&w->uses))
        want_free(r, w);
}

static struct use *use_add(struct refs *r, struct user *user, const struct ref *ref)
{
    char key[KEY_MAX];
    if (key_make(key, ref_kind_of(ref->kind)->type.plural, r->conf.ns, ref->name, NULL) < 0)
        return NULL;
    struct target *t = refs_target(r, key);
    if (t == NULL && (t = target_new(r, key)) == NULL)
        return NULL;
    const char *name = ref->key != NULL ? ref->key : WANT_ALL;
    struct want *w = target_want(t, name);
    if (w == NULL && (w = want_new(r, t, name)) == NULL)
        return NULL;
    list_each(n, &user->uses) {
        struct use *u = container_of(n, struct use, of_user);
        if (u->want != w)
            continue;
        u->needed |= !ref->optional;
        return u;
    }
    struct use *u = calloc(1, sizeof(*u));
    if (u == NULL) {
        if (list_empty(&w->uses))
            want_free(r, w);
        return NULL;
    }
    u->want = w;
    u->user = user;
    u->needed = !ref->optional;
    list_add_tail(&w->uses, &u->of_want);
    list_add_tail(&user->uses, &u->of_user);
    return u;
}

// --- Users

static struct user *user_of(const struct refs *r, const char *key)
{
    struct table_node *n = table_get(&r->users, key);
    return n != NULL ? container_of(n, struct user, node) : NULL;
}

static struct user *user_new(struct refs *r, const char *key)
{
    size_t n = strlen(key) + 1;
    struct user *u = calloc(1, sizeof(*u) + n);
    if (u == NULL)
        return NULL;
    memcpy(u->key, key, n);
    u->node.key = u->key;
    list_init(&u->uses);
    if (table_put(&r->users, &u->node, NULL) < 0) {
        free(u);
        return NULL;
    }
    return u;
}

static void user_free(struct refs *r, struct user *u)
{
    list_each_safe(n, next, &u->uses)
        use_free(r, container_of(n, struct use, of_user));
    table_del(&r->users, &u->node);
    free(u);
}

static uint64_t hash_text(uint64_t h, const char *s)
{
    return s != NULL ? hash_bytes(h, s, strlen(s) + 1) : hash_bytes(h, "\1", 1);
}

static uint64_t hash_of(const struct ref *list, size_t n)
{
    uint64_t h = HASH_SEED;
    for (size_t i = 0; i < n; i++) {
        unsigned char how[2] = { (unsigned char)list[i].kind, list[i].optional };
        h = hash_text(hash_text(hash_bytes(h, how, sizeof(how)), list[i].name), list[i].key);
    }
    return h;
}

// The new ones first, so that what is wanted before and after is never unwanted in between.
static int user_refers(struct refs *r, struct user *u, const struct ref *list, size_t n, struct err *e)
{
    struct list before;
    int rc = 0;
    list_init(&before);
    list_each_safe(it, next, &u->uses) {
        list_del(it);
        list_add_tail(&before, it);
    }
    for (size_t i = 0; i < n && rc == 0; i++)
        if (list[i].name != NULL && use_add(r, u, &list[i]) == NULL)
            rc = err_set(e, E_NOMEM, "references of %s", u->key);
    struct list *drop = rc == 0 ? &before : &u->uses;
    list_each_safe(it, next, drop)
        use_free(r, container_of(it, struct use, of_user));
    list_each_safe(it, next, &before) {
        list_del(it);
        list_add_tail(&u->uses, it);
    }
    return rc;
}

int refs_declare(struct refs *r, const char *key, const struct ref *list, size_t n, struct err *e)
{
    uint64_t h = hash_of(list, n);
    struct user *u = user_of(r, key);
    if (u == NULL && n == 0)
        return 0;
    if (u != NULL && u->hash == h)
        return 0;
    if (u == NULL && (u = user_new(r, key)) == NULL)
        return err_set(e, E_NOMEM, "references of %s", key);
    int rc = user_refers(r, u, list, n, e);
    if (rc == 0)
        u->hash = h;
    if (list_empty(&u->uses))
        user_free(r, u);
    return rc;
}

void refs_forget(struct refs *r, const char *key)
{
    struct user *u = r != NULL ? user_of(r, key) : NULL;
    if (u != NULL)
        user_free(r, u);
}

void refs_free(struct refs *r)
{
    if (r == NULL)
        return;
    table_each_safe(n, &r->users) user_free(r, container_of(n, struct user, node));
    table_each_safe(n, &r->targets)
    {
        table_del(&r->targets, n);
        free(container_of(n, struct target, node));
    }
    table_fini(&r->users);
    table_fini(&r->targets);
    free(r);
}

// --- After the passes

static void target_free(struct refs *r, struct target *t)
{
    r->kinds[t->kind].targets--;
    table_del(&r->targets, &t->node);
    free(t);
}

static void shrink(struct refs *r)
{
    struct err e = ERR_INIT;
    table_each_safe(n, &r->targets)
    {
        struct target *t = container_of(n, struct target, node);
        if (t->shrunk && refs_row_shrink(r, t->key, &e) < 0)
            log_error("refs", "not-reduced key=%s error=\"%s\"", t->key, e.msg);
        t->shrunk = false;
        if (list_empty(&t->wants))
            target_free(r, t);
    }
    r->shrunk = false;
}

static void follow(struct refs *r, enum ref_kind k)
{
    struct known *known = &r->kinds[k];
    bool on = known->targets > 0;
    if (on != known->followed) {
        known->followed = on;
        known->asked = on;
        known->trouble = ERR_INIT;
        r->conf.follow(r->conf.ctx, ref_kind_of(k), on);
    } else if (on && known->refresh) {
        known->asked = true;
        r->conf.refresh(r->conf.ctx, ref_kind_of(k));
    }
    known->refresh = false;
}

void refs_run(struct refs *r, bool settled)
{
    if (!settled)
        return;
    if (!r->settled)
        refs_rows_settle(r);
    r->settled = true;
    if (r->shrunk)
        shrink(r);
    for (int k = 0; k < REF_KINDS; k++)
        follow(r, (enum ref_kind)k);
}

// --- From sync

static void touch_users(struct refs *r, const struct target *t)
{
    list_each(n, &t->wants) {
        const struct want *w = container_of(n, struct want, link);
        list_each(m, &w->uses)
            r->conf.touch(r->conf.ctx, container_of(m, struct use, of_want)->user->key);
    }
}

void refs_changed(struct refs *r, const char *key)
{
    const struct target *t = refs_target(r, key);
    if (t != NULL)
        touch_users(r, t);
}

// A complete list also tells what is not there; whoever waits for that is looked at again, and so is everybody when the verdict on the
// whole kind is another.
void refs_known(struct refs *r, const struct kind *k, const struct err *e)
{
    struct known *known = &r->kinds[k == &kind_secret ? REF_SECRET : REF_CONFIGMAP];
    int cls = e != NULL ? e->cls : 0;
    bool news;
    known->offline = cls == E_OFFLINE;
    if (cls == E_BUSY)
        return;
    if (cls == E_OFFLINE) {
        news = known->asked;
    } else {
        news = known->asked || known->trouble.cls != cls;
        known->asked = false;
        known->trouble = ERR_INIT;
        if (e != NULL)
            known->trouble = *e;
    }
    table_each_safe(n, &r->targets)
    {
        const struct target *t = container_of(n, struct target, node);
        if (news && ref_kind_of(t->kind) == k)
            touch_users(r, t);
    }
}

const struct err *refs_trouble(const struct refs *r, enum ref_kind k)
{
    return r != NULL && r->kinds[k].trouble.cls != 0 ? &r->kinds[k].trouble : NULL;
}
