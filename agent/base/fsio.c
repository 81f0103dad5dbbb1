// SPDX-License-Identifier: Apache-2.0
// What is the same for every disk. The machine's own is fsio_real.c and the files beside it.
#include "base/fsio.h"

#include <limits.h>
#include <string.h>

void disk_free(struct disk *d)
{
    if (d != NULL)
        d->ops->free(d);
}

int fs_read(struct disk *d, const char *path, size_t max, unsigned flags, struct buf *out, struct err *e)
{
    return d->ops->read(d, path, max, flags, out, e);
}

int fs_write(struct disk *d, const char *path, const void *p, size_t n, uint32_t mode, unsigned flags, struct err *e)
{
    return d->ops->write(d, path, p, n, mode, UINT32_MAX, UINT32_MAX, flags, e);
}

static int check_component(const char *path, const char *at, size_t n, struct err *e)
{
    if (n == 0)
        return err_set(e, E_INVAL, "path %s: empty component", path);
    if (n > NAME_MAX)
        return err_set(e, E_INVAL, "path %s: component longer than %d bytes", path, NAME_MAX);
    if ((n == 1 && at[0] == '.') || (n == 2 && at[0] == '.' && at[1] == '.'))
        return err_set(e, E_INVAL, "path %s: component \"%.*s\"", path, (int)n, at);
    return 0;
}

int path_check(const char *path, struct err *e)
{
    if (path[0] != '/')
        return err_set(e, E_INVAL, "path %s: not absolute", path[0] != '\0' ? path : "\"\"");
    if (strnlen(path, PATH_MAX) == PATH_MAX)
        return err_set(e, E_INVAL, "path %.60s...: longer than %d bytes", path, PATH_MAX - 1);
    if (path[1] == '\0')
        return 0;
    for (const char *at = path; *at == '/';) {
        at++;
        size_t n = strcspn(at, "/");
        int r = check_component(path, at, n, e);
        if (r != 0)
            return r;
        at += n;
    }
    return 0;
}

bool path_below(const char *path, const char *dir)
{
    size_t n = strlen(dir);
    if (strcmp(dir, "/") == 0)
        return true;
    return strncmp(path, dir, n) == 0 && (path[n] == '/' || path[n] == '\0');
}
