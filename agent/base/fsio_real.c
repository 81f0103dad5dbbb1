// SPDX-License-Identifier: Apache-2.0
#include "base/fsio_real.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/statvfs.h>

static int real_free_bytes(struct disk *d, const char *path, uint64_t *avail, uint64_t *total, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    struct statvfs st;
    int r = fs_open(fs_real(d), path, O_PATH, 0, &fd, e);
    if (r != 0)
        return r;
    if (fstatvfs(fd, &st) != 0)
        return err_sys(e, errno, "%s", path);
    *avail = (uint64_t)st.f_bavail * st.f_frsize;
    *total = (uint64_t)st.f_blocks * st.f_frsize;
    return 0;
}

static void real_free(struct disk *d)
{
    struct real_disk *r = fs_real(d);
    fs_watcher_fini(&r->watcher);
    close(r->root_fd);
    free(r);
}

static const struct disk_ops real_ops = {
    .read = fs_real_read,
    .write = fs_real_write,
    .append = fs_real_append,
    .stat = fs_real_stat,
    .chattr = fs_real_chattr,
    .unlink = fs_real_unlink,
    .rename = fs_real_rename,
    .mkdirs = fs_real_mkdirs,
    .rmdir = fs_real_rmdir,
    .rmtree = fs_real_rmtree,
    .list = fs_real_list,
    .free_bytes = real_free_bytes,
    .watch = fs_real_watch,
    .unwatch = fs_real_unwatch,
    .user = fs_real_user,
    .group = fs_real_group,
    .free = real_free,
};

int disk_real_new(struct disk **out, struct loop *l, const char *root, struct err *e)
{
    int rc = root[0] != '\0' ? path_check(root, e) : 0;
    if (rc != 0)
        return rc;
    if (strcmp(root, "/") == 0)
        root = "";
    size_t n = strlen(root);
    struct real_disk *r = calloc(1, sizeof(*r) + n + 1);
    if (r == NULL)
        return err_set(e, E_NOMEM, "no memory for the disk");
    memcpy(r->root, root, n + 1);
    r->base = (struct disk){ .ops = &real_ops, .root = r->root };
    r->watcher = (struct fs_watcher){ .fd = -1, .loop = l };
    list_init(&r->watcher.dirs);
    r->has_openat2 = fs_probe_openat2();
    r->root_fd = open(n > 0 ? root : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (r->root_fd < 0) {
        rc = err_sys(e, errno, "root %s", root);
        free(r);
        return rc;
    }
    *out = &r->base;
    return 0;
}
