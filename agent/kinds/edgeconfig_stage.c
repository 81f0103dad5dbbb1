// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgeconfig_stage.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "config/config.h"

void cfg_stage_dir(const struct kind_env *env, const char *key, char *out, size_t max)
{
    char hex[SHA256_HEX];
    sha256_hex(key, strlen(key), hex);
    snprintf(out, max, "%s/stage/%.16s", env->config->run_dir, hex);
}

static int stage_one(const struct kind_env *env, const char *dir, const struct cfg_item *i, struct err *e)
{
    char path[PATH_MAX + CFG_PATH_MAX], parent[PATH_MAX + CFG_PATH_MAX];
    if (strlen(dir) + strlen(i->want->path) >= PATH_MAX)
        return err_set(e, E_INVAL, "%s: too long to be staged", i->want->path);
    snprintf(path, sizeof(path), "%s%.*s", dir, CFG_PATH_MAX, i->want->path);
    if (i->want->is_dir)
        return env->disk->ops->mkdirs(env->disk, path, 0700, FS_NOSYNC, e);
    snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(path, '/') - path), path);
    int rc = env->disk->ops->mkdirs(env->disk, parent, 0700, FS_NOSYNC, e);
    if (rc == 0)
        rc = env->disk->ops->write(env->disk, path, i->want->content, i->want->len, i->version.mode, i->version.uid, i->version.gid,
                                   FS_NOSYNC, e);
    return rc;
}

int cfg_stage_write(const struct kind_env *env, const char *key, const struct cfg_item *items, size_t n, struct err *e)
{
    char dir[PATH_MAX];
    cfg_stage_dir(env, key, dir, sizeof(dir));
    int rc = env->disk->ops->rmtree(env->disk, dir, e);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = stage_one(env, dir, &items[i], e);
    return rc < 0 ? err_wrap(e, "staging") : 0;
}

void cfg_stage_remove(const struct kind_env *env, const char *key)
{
    char dir[PATH_MAX];
    struct err e = ERR_INIT;
    cfg_stage_dir(env, key, dir, sizeof(dir));
    if (env->disk->ops->rmtree(env->disk, dir, &e) < 0)
        log_warn("edgeconfig", "stage_left dir=%s error=\"%s\"", dir, e.msg);
}
