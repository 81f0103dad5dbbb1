// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgeconfig_watch.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

struct watched {
    struct list link;
    struct fs_watch watch;
    struct kind_env *env;
    struct object_state *os;
    bool on;
    size_t n;
    uint64_t names[CFG_ENTRIES_MAX]; // hashes of the names in this directory that are ours
    char dir[];
};

static uint64_t name_hash(const char *name)
{
    return hash_bytes(HASH_SEED, name, strlen(name));
}

static void on_event(struct fs_watch *fw, const char *name)
{
    struct watched *w = container_of(fw, struct watched, watch);
    uint64_t hash = name != NULL ? name_hash(name) : 0;
    bool ours = name == NULL;
    for (size_t i = 0; !ours && i < w->n; i++)
        ours = w->names[i] == hash;
    if (name == NULL) // lost events, or the directory is gone: the pass looks anew
        w->on = false;
    if (ours)
        engine_touch_state(w->env->engine, w->os, "drift");
}

static struct watched *dir_of(struct cfg_watches *ws, struct kind_env *env, struct object_state *os, const char *dir)
{
    list_each(it, &ws->dirs) {
        struct watched *w = container_of(it, struct watched, link);
        if (strcmp(w->dir, dir) == 0)
            return w;
    }
    struct watched *w = calloc(1, sizeof(*w) + strlen(dir) + 1);
    if (w == NULL)
        return NULL;
    w->env = env;
    w->os = os;
    w->watch.fn = on_event;
    strcpy(w->dir, dir);
    list_add_tail(&ws->dirs, &w->link);
    return w;
}

static void add_path(struct cfg_watches *ws, struct kind_env *env, struct object_state *os, const char *path)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(dir, sizeof(dir), "%.*s", slash == path ? 1 : (int)(slash - path), path);
    struct watched *w = dir_of(ws, env, os, dir);
    if (w != NULL)
        w->names[w->n++] = name_hash(slash + 1);
}

static void look(struct watched *w)
{
    struct err e = ERR_INIT;
    struct disk *d = w->env->disk;
    if (w->on)
        return;
    d->ops->unwatch(d, &w->watch);
    w->on = d->ops->watch(d, &w->watch, w->dir, &e) == 0;
    if (!w->on)
        log_debug("edgeconfig", "not_watched dir=%s error=\"%s\"", w->dir, e.msg);
}

void cfg_watch(struct cfg_watches *ws, struct kind_env *env, struct object_state *os, const struct cfg_spec *s)
{
    if (strcmp(ws->revision, s->revision) != 0) {
        cfg_unwatch(ws, env);
        list_init(&ws->dirs);
        for (size_t i = 0; i < s->n_entries; i++)
            add_path(ws, env, os, s->entries[i].path);
        snprintf(ws->revision, sizeof(ws->revision), "%s", s->revision);
    }
    list_each(it, &ws->dirs)
        look(container_of(it, struct watched, link));
}

void cfg_unwatch(struct cfg_watches *ws, const struct kind_env *env)
{
    ws->revision[0] = '\0';
    if (ws->dirs.next == NULL)
        return;
    list_each_safe(it, next, &ws->dirs) {
        struct watched *w = container_of(it, struct watched, link);
        env->disk->ops->unwatch(env->disk, &w->watch);
        list_del(it);
        free(w);
    }
}
