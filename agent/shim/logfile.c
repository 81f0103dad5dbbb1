// SPDX-License-Identifier: Apache-2.0
#include "shim/logfile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"

void logfile_name(char out[LOGFILE_NAME_MAX], const char *log, int k)
{
    if (k == 0)
        snprintf(out, LOGFILE_NAME_MAX, "%s.log", log);
    else
        snprintf(out, LOGFILE_NAME_MAX, "%s.log.%d", log, k);
}

// --- the mark

struct mark {
    int64_t begin;
    uint64_t ino; // 0 = there is no mark
};

static struct mark read_mark(int dirfd, const char *log)
{
    char name[LOGFILE_NAME_MAX], text[64] = "", rest;
    struct mark m = { 0 };
    snprintf(name, sizeof(name), "%s.log.offset", log);
    AUTO_CLOSE int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0 || sscanf(text, "%" SCNd64 " %" SCNu64 "%c", &m.begin, &m.ino, &rest) != 3 ||
        rest != '\n' || m.begin < 0)
        return (struct mark){ 0 };
    return m;
}

int logfile_mark(int dirfd, const char *log, int64_t begin, ino_t ino)
{
    char name[LOGFILE_NAME_MAX], tmp[LOGFILE_NAME_MAX], text[64];
    snprintf(name, sizeof(name), "%s.log.offset", log);
    snprintf(tmp, sizeof(tmp), "%s.log.offset.new", log);
    int n = snprintf(text, sizeof(text), "%" PRId64 " %" PRIu64 "\n", begin, (uint64_t)ino);
    int fd = openat(dirfd, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    ssize_t done = write(fd, text, (size_t)n);
    int r = done == n ? 0 : done < 0 ? errno : ENOSPC;
    close(fd);
    if (r == 0 && renameat(dirfd, tmp, dirfd, name) != 0)
        r = errno;
    if (r != 0)
        unlinkat(dirfd, tmp, 0);
    return r;
}

// --- the files

void logfiles_close(struct logfiles *l)
{
    while (l->n > 0)
        close(l->fd[--l->n]);
}

// Takes generation k into l; 0 or an errno.
static int add_file(struct logfiles *l, int dirfd, const char *log, int k)
{
    char name[LOGFILE_NAME_MAX];
    struct stat st;
    logfile_name(name, log, k);
    // O_NONBLOCK: a fifo in its place must not stop anybody.
    int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return EINVAL;
    }
    l->fd[l->n] = fd;
    l->size[l->n] = st.st_size;
    l->ino[l->n++] = st.st_ino;
    return 0;
}

// The newest is missing for a moment in each rotation, and for longer when the shim was killed in one.
static int add_files(struct logfiles *l, int dirfd, const char *log)
{
    for (int k = 0; k < LOGFILES_MAX; k++) {
        int r = add_file(l, dirfd, log, k);
        if (r == ENOENT && k > 0)
            return 0;
        if (r != 0 && r != ENOENT)
            return r;
    }
    return 0;
}

// The newest is opened first, so a rotation meanwhile shows as one file seen twice.
static bool seen_twice(const struct logfiles *l)
{
    for (int k = 1; k < l->n; k++)
        if (l->ino[k] == l->ino[k - 1])
            return true;
    return false;
}

static int marked_file(const struct logfiles *l, struct mark m)
{
    for (int k = 0; k < l->n; k++)
        if (m.ino != 0 && (uint64_t)l->ino[k] == m.ino)
            return k;
    return -1;
}

// From the one file whose begin is known to the others.
static void place(struct logfiles *l, int known, int64_t begin)
{
    l->end = begin;
    if (l->n == 0)
        return;
    l->begin[known] = begin;
    for (int k = known; k > 0; k--)
        l->begin[k - 1] = l->begin[k] + l->size[k];
    for (int k = known + 1; k < l->n; k++)
        l->begin[k] = l->begin[k - 1] - l->size[k];
    l->end = l->begin[0] + l->size[0];
}

// The mark is read before the files: the file it means is then still among them, if only further back.
static int open_once(struct logfiles *l, int dirfd, const char *log, bool last_try)
{
    l->n = 0;
    struct mark m = read_mark(dirfd, log);
    int r = add_files(l, dirfd, log);
    int known = marked_file(l, m);
    if (r == 0 && seen_twice(l))
        r = EAGAIN;
    if (r == 0 && known < 0 && m.ino != 0 && l->n > 0 && !last_try)
        r = EAGAIN;
    if (r != 0) {
        logfiles_close(l);
        return r;
    }
    place(l, known >= 0 ? known : MAX(l->n - 1, 0), m.begin); // without its file the mark is a bound for the oldest
    return 0;
}

int logfiles_open(struct logfiles *l, int dirfd, const char *log)
{
    enum { TRIES = 3 };
    int r = EAGAIN;
    for (int i = 1; r == EAGAIN && i <= TRIES; i++)
        r = open_once(l, dirfd, log, i == TRIES);
    return r;
}

int logfile_remove(int dirfd, const char *log)
{
    char name[LOGFILE_NAME_MAX];
    int r = 0;
    for (int k = LOGFILES_MAX - 1; k >= 0; k--) {
        logfile_name(name, log, k);
        if (unlinkat(dirfd, name, 0) != 0 && errno != ENOENT)
            r = errno;
    }
    snprintf(name, sizeof(name), "%s.log.offset", log);
    if (unlinkat(dirfd, name, 0) != 0 && errno != ENOENT)
        r = errno;
    return r;
}
