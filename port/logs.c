// SPDX-License-Identifier: Apache-2.0
#include "port/logs.h"

#include <errno.h>
#include <fcntl.h>

#include "port/insts.h"
#include "shim/logfile.h"

static int open_dir(const char *dir, struct err *e)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 ? fd : err_sys(e, errno, "log directory %s", dir);
}

// Into what is kept: too old goes forward, from behind counts from the end, beyond the end means that the log began anew.
static int64_t place(const struct logfiles *l, int64_t offset)
{
    int64_t oldest = l->begin[l->n - 1];
    if (offset < 0)
        offset = offset < oldest - l->end ? oldest : l->end + offset;
    return offset < oldest || offset > l->end ? oldest : offset;
}

// Appends from file k at absolute offset `at`; bytes, 0 = it has no more, or an error.
static ssize_t read_piece(const struct logfiles *l, int k, int64_t at, size_t max, struct buf *out, struct err *e)
{
    int64_t left = l->begin[k] + l->size[k] - at;
    size_t want = MIN((size_t)MAX(left, 0), max);
    if (want == 0)
        return 0;
    int r = buf_reserve(out, want, e);
    if (r != 0)
        return r;
    ssize_t n = pread(l->fd[k], out->data + out->len, want, at - l->begin[k]);
    if (n < 0)
        return err_sys(e, errno, "reading a log");
    out->len += (size_t)n;
    out->data[out->len] = '\0';
    return n;
}

// From the oldest file to the newest; each gives what lies in it.
static int read_files(const struct logfiles *l, int64_t *offset, size_t max, struct buf *out, struct err *e)
{
    int64_t at = place(l, *offset);
    for (int k = l->n - 1; k >= 0 && max > 0;) {
        at = MAX(at, l->begin[k]); // somebody may have cut the file before
        ssize_t n = at < l->begin[k] + l->size[k] ? read_piece(l, k, at, max, out, e) : 0;
        if (n < 0)
            return (int)n;
        at += n;
        max -= (size_t)n;
        if (n == 0)
            k--;
    }
    *offset = at;
    return 0;
}

// As it was: *offset did not move either.
static void cut_back(struct buf *b, size_t len)
{
    if (b->len > len) {
        b->len = len;
        b->data[len] = '\0';
    }
}

int logs_read(const char *dir, const char *name, int64_t *offset, size_t max, struct buf *out, struct err *e)
{
    struct logfiles l;
    int r = log_name_check(name, e);
    if (r != 0)
        return r;
    AUTO_CLOSE int fd = open_dir(dir, e);
    if (fd < 0)
        return fd;
    int errnum = logfiles_open(&l, fd, name);
    if (errnum != 0)
        return err_sys(e, errnum, "log %s", name);
    size_t before = out->len;
    r = l.n > 0 ? read_files(&l, offset, max, out, e) : err_set(e, E_NOTFOUND, "no log named %s", name);
    logfiles_close(&l);
    if (r != 0)
        cut_back(out, before);
    return r;
}

int logs_remove(const char *dir, const char *name, struct err *e)
{
    struct err why = ERR_INIT;
    int r = log_name_check(name, e);
    if (r != 0)
        return r;
    AUTO_CLOSE int fd = open_dir(dir, &why);
    if (fd == E_NOTFOUND)
        return 0;
    if (fd < 0)
        return err_set(e, fd, "%s", why.msg);
    int errnum = logfile_remove(fd, name);
    return errnum != 0 ? err_sys(e, errnum, "removing log %s", name) : 0;
}
