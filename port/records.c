// SPDX-License-Identifier: Apache-2.0
#include "port/records.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/util.h"

static int open_dir(int at, const char *path)
{
    return openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int records_open(struct records *r, struct disk *d, struct err *e)
{
    if (r->fd >= 0)
        return 0;
    int rc = d->ops->mkdirs(d, r->dir, 0700, FS_NOSYNC, e);
    if (rc < 0)
        return rc;
    r->fd = open_dir(AT_FDCWD, r->dir);
    return r->fd < 0 ? err_sys(e, errno, "%s", r->dir) : 0;
}

void records_fini(struct records *r)
{
    if (r->fd >= 0)
        close(r->fd);
    r->fd = -1;
    free(r->dir);
    r->dir = NULL;
}

bool records_write(const struct records *r, const char *uid, const char *name, const char *text)
{
    int errnum = mkdirat(r->fd, uid, 0700) != 0 && errno != EEXIST ? errno : 0;
    AUTO_CLOSE int dir = errnum == 0 ? open_dir(r->fd, uid) : -1;
    if (errnum == 0)
        errnum = dir < 0 ? errno : record_write(dir, name, text);
    if (errnum != 0)
        log_warn(r->who, "record-not-written uid=%s reason=\"%s\"", uid, strerror(errnum));
    return errnum == 0;
}

bool records_read(const struct records *r, const char *uid, const char *name, char text[RECORD_MAX])
{
    AUTO_CLOSE int dir = open_dir(r->fd, uid);
    return dir >= 0 && record_read(dir, name, text) == 0;
}

void records_remove(const struct records *r, const char *uid, const char *const names[], size_t n)
{
    AUTO_CLOSE int dir = open_dir(r->fd, uid);
    for (size_t i = 0; i < n && dir >= 0; i++)
        unlinkat(dir, names[i], 0);
    unlinkat(r->fd, uid, AT_REMOVEDIR);
}
