// SPDX-License-Identifier: Apache-2.0
#include "shim/logwriter.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "shim/logfile.h"

enum {
    RATE = 1024 * 1024,   // bytes a second, and at once
    RESERVE = 16 * 1024,  // left over when a gap begins; more than one piece of output
    RATE_PAUSE_MS = 500,  // over the rate: quiet for so long, so that notes are rare
    DISK_PAUSE_MS = 1000, // a failed write is tried again no sooner
};

void logwriter_init(struct logwriter *w, const char *dir, const char *name, int64_t max, int files, int64_t now_ms)
{
    *w = (struct logwriter){
        .dir = dir,
        .name = name,
        .max = max > 0 ? max : 1024 * 1024,
        .files = files > 0 ? MIN(files, LOGFILES_MAX) : 2,
        .fd = -1,
        .tokens = RATE,
        .filled_ms = now_ms,
    };
}

// --- files

static int open_dir(const struct logwriter *w)
{
    int fd = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && mkdir(w->dir, 0750) == 0)
        fd = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd;
}

static int open_newest(const struct logwriter *w, int dir, struct stat *st)
{
    char name[LOGFILE_NAME_MAX];
    logfile_name(name, w->name, 0);
    // O_NONBLOCK: a fifo in its place must not hold us up.
    int fd = openat(dir, name, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd >= 0 && (fstat(fd, st) != 0 || !S_ISREG(st->st_mode))) {
        close(fd);
        errno = EINVAL;
        return -1;
    }
    return fd;
}

// Goes on where the log ended: after an earlier instance, or after somebody removed the files under us.
static bool log_open(struct logwriter *w)
{
    struct logfiles l;
    struct stat st;
    AUTO_CLOSE int dir = open_dir(w);
    if (dir < 0 || logfiles_open(&l, dir, w->name) != 0)
        return false;
    int64_t end = MAX(l.end, w->begin + w->size);
    logfiles_close(&l);
    w->fd = open_newest(w, dir, &st);
    if (w->fd < 0)
        return false;
    w->size = st.st_size;
    w->begin = end - st.st_size;
    w->midline = false;
    logfile_mark(dir, w->name, w->begin, st.st_ino); // without it only followers over a rotation miss something
    return true;
}

static void log_close(struct logwriter *w)
{
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
}

static bool move_files(const struct logwriter *w, int dir)
{
    char from[LOGFILE_NAME_MAX], to[LOGFILE_NAME_MAX];
    for (int k = w->files; k < LOGFILES_MAX; k++) { // left from when more were kept
        logfile_name(to, w->name, k);
        if (unlinkat(dir, to, 0) != 0 && errno == ENOENT)
            break;
    }
    for (int k = w->files - 1; k > 0; k--) {
        logfile_name(from, w->name, k - 1);
        logfile_name(to, w->name, k);
        if (renameat(dir, from, dir, to) != 0 && errno != ENOENT)
            return false;
    }
    logfile_name(from, w->name, 0);
    return w->files > 1 || unlinkat(dir, from, 0) == 0 || errno == ENOENT;
}

// When the files cannot be moved the newest stays full, and nothing is written: the bound holds.
static bool rotate(struct logwriter *w)
{
    AUTO_CLOSE int dir = open_dir(w);
    if (dir < 0 || !move_files(w, dir))
        return false;
    log_close(w);
    struct stat st;
    w->begin += w->size;
    w->size = 0;
    w->fd = open_newest(w, dir, &st);
    if (w->fd < 0)
        return false;
    w->size = st.st_size;
    logfile_mark(dir, w->name, w->begin, st.st_ino);
    return true;
}

static bool is_removed(int fd)
{
    struct stat st;
    return fstat(fd, &st) != 0 || st.st_nlink == 0;
}

static bool ready(struct logwriter *w)
{
    if (w->fd >= 0 && is_removed(w->fd))
        log_close(w);
    return w->fd >= 0 || log_open(w);
}

// How much of n bytes goes into the newest file: up to the end of a line if there is one that fits. 0 = rotate first.
static size_t piece(const struct logwriter *w, const char *p, size_t n)
{
    int64_t room = w->max - w->size;
    if (room <= 0)
        return 0;
    if ((int64_t)n <= room)
        return n;
    const char *newline = memrchr(p, '\n', (size_t)room);
    if (newline != NULL)
        return (size_t)(newline + 1 - p);
    return w->size > 0 ? 0 : (size_t)room;
}

// Bytes written; less than n: the disk refused.
static size_t put(struct logwriter *w, const char *p, size_t n)
{
    size_t done = 0;
    if (!ready(w))
        return 0;
    while (done < n) {
        size_t len = piece(w, p + done, n - done);
        if (len == 0) {
            if (!rotate(w))
                break;
            continue;
        }
        ssize_t r = write(w->fd, p + done, len);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            break;
        done += (size_t)r;
        w->size += r;
    }
    if (done > 0)
        w->midline = p[done - 1] != '\n';
    return done;
}

// --- dropping

static void drop(struct logwriter *w, const char *p, size_t n)
{
    w->dropped += n;
    if (n > 0)
        w->skipping = p[n - 1] != '\n';
}

static void begin_drop(struct logwriter *w, const char *p, size_t n, bool full, int64_t now_ms)
{
    w->disk = full;
    w->resume_ms = now_ms + (full ? DISK_PAUSE_MS : RATE_PAUSE_MS);
    drop(w, p, n);
}

// Ends the dropping with a line that says so; false: still not possible.
static bool note(struct logwriter *w, int64_t now_ms)
{
    char text[112];
    int n = snprintf(text, sizeof(text), "%slimpet: %" PRIu64 " bytes of this log were dropped (%s)\n", w->midline ? "\n" : "", w->dropped,
                     w->disk ? "they could not be written" : "over 1 MiB a second");
    if (put(w, text, (size_t)n) < (size_t)n) {
        w->resume_ms = now_ms + DISK_PAUSE_MS;
        return false;
    }
    w->dropped = 0;
    return true;
}

static void refill(struct logwriter *w, int64_t now_ms)
{
    int64_t passed = MIN(MAX(now_ms - w->filled_ms, 0), 1000);
    w->filled_ms = now_ms;
    w->tokens = MIN(w->tokens + passed * RATE / 1000, RATE);
}

// How many of the n bytes still belong to the gap: all during the pause, then up to the end of the line that was begun.
static size_t in_gap(const struct logwriter *w, const char *p, size_t n, int64_t now_ms)
{
    if (now_ms < w->resume_ms)
        return n;
    if (!w->skipping)
        return 0;
    const char *newline = memchr(p, '\n', n);
    return newline != NULL ? (size_t)(newline + 1 - p) : n;
}

// How much may be written now. Near the end of what a second allows it ends with a line, so that the gap begins with one.
static size_t affordable(const struct logwriter *w, const char *p, size_t n)
{
    if ((int64_t)n + RESERVE <= w->tokens)
        return n;
    const char *newline = memrchr(p, '\n', (size_t)MIN((int64_t)n, MAX(w->tokens, 0)));
    return newline != NULL ? (size_t)(newline + 1 - p) : 0;
}

void logwriter_add(struct logwriter *w, const char *p, size_t n, int64_t now_ms)
{
    refill(w, now_ms);
    if (w->dropped > 0) {
        size_t gap = in_gap(w, p, n, now_ms);
        drop(w, p, gap);
        p += gap;
        n -= gap;
        if (n == 0)
            return;
        if (!note(w, now_ms)) {
            drop(w, p, n);
            return;
        }
    }
    size_t len = affordable(w, p, n);
    size_t done = put(w, p, len);
    w->tokens -= (int64_t)done;
    if (done < n)
        begin_drop(w, p + done, n - done, done < len, now_ms);
}

// Whether the disk is better shows with the next output, and so does the end of a line that was cut; only a pause for the rate ends by
// itself.
int64_t logwriter_due(const struct logwriter *w)
{
    return w->dropped > 0 && !w->disk && !w->skipping ? w->resume_ms : -1;
}

void logwriter_tick(struct logwriter *w, int64_t now_ms)
{
    int64_t due = logwriter_due(w);
    if (due >= 0 && now_ms >= due)
        note(w, now_ms);
}

void logwriter_fini(struct logwriter *w, int64_t now_ms)
{
    if (w->dropped > 0)
        note(w, now_ms);
    log_close(w);
}
