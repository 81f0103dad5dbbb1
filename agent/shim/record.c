// SPDX-License-Identifier: Apache-2.0
#include "shim/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// --- writing

static bool fits(int n)
{
    return n >= 0 && n < RECORD_MAX;
}

bool state_format(const struct state_record *r, char out[RECORD_MAX])
{
    const struct instant *t = &r->started;
    return fits(snprintf(out, RECORD_MAX,
                         "limpet-state 1\nuid %s\nowner %s\nrevision %s\nindex %d\n"
                         "shim %d %" PRId64 "\nchild %d %" PRId64 "\ntime %s %" PRId64 " %" PRId64 " %d\n%s%s%s",
                         r->uid, r->owner, r->revision, r->index, r->shim_pid, r->shim_start, r->child_pid, r->child_start, t->boot_id,
                         t->boot_ms, t->wall_us, t->trusted, r->cgroup[0] != '\0' ? "cgroup " : "", r->cgroup,
                         r->cgroup[0] != '\0' ? "\n" : ""));
}

bool exit_format(const struct exit_record *r, char out[RECORD_MAX])
{
    const struct inst_exit *x = &r->exit;
    const struct instant *t = &r->ended;
    return fits(snprintf(out, RECORD_MAX,
                         "limpet-exit 1\nknown %d\ncode %d\nsignal %d\nerrno %d\nreason %s\ndetail %s\n"
                         "time %s %" PRId64 " %" PRId64 " %d\n",
                         x->known, x->code, x->signal, x->start_errno, x->reason, x->detail, t->boot_id, t->boot_ms, t->wall_us,
                         t->trusted));
}

static int write_all(int fd, const char *text, size_t n)
{
    while (n > 0) {
        ssize_t done = write(fd, text, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? errno : EIO;
        text += done;
        n -= (size_t)done;
    }
    return 0;
}

int record_write(int dirfd, const char *name, const char *text)
{
    char tmp[32];
    snprintf(tmp, sizeof(tmp), "%s.new", name);
    int fd = openat(dirfd, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    int r = write_all(fd, text, strlen(text));
    close(fd);
    if (r == 0 && renameat(dirfd, tmp, dirfd, name) != 0)
        r = errno;
    if (r != 0)
        unlinkat(dirfd, tmp, 0);
    return r;
}

// --- reading

int record_read(int dirfd, const char *name, char out[RECORD_MAX])
{
    size_t len = 0;
    AUTO_CLOSE int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno;
    for (;;) {
        ssize_t n = read(fd, out + len, RECORD_MAX - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        len += (size_t)n;
        if (len == RECORD_MAX)
            return EFBIG;
        if (n == 0)
            break;
    }
    out[len] = '\0';
    return 0;
}

// Copies the value of `name` (to the end of its line) into out; false when absent or too long.
static bool field(const char *text, const char *name, char *out, size_t size)
{
    size_t len = strlen(name);
    for (const char *line = text; *line != '\0';) {
        size_t n = strcspn(line, "\n");
        if (line[n] != '\n')
            return false; // cut off
        if (n > len && strncmp(line, name, len) == 0 && line[len] == ' ') {
            if (n - len - 1 >= size)
                return false;
            memcpy(out, line + len + 1, n - len - 1);
            out[n - len - 1] = '\0';
            return true;
        }
        line += n + 1;
    }
    return false;
}

static bool field_int(const char *text, const char *name, int *out)
{
    char value[24], rest;
    return field(text, name, value, sizeof(value)) && sscanf(value, "%d%c", out, &rest) == 1;
}

// pid 0: not known yet
static bool field_process(const char *text, const char *name, int *pid, int64_t *start)
{
    char value[48], rest;
    return field(text, name, value, sizeof(value)) && sscanf(value, "%d %" SCNd64 "%c", pid, start, &rest) == 2 && *pid >= 0;
}

static bool field_time(const char *text, struct instant *out)
{
    char value[128], rest;
    int trusted;
    struct instant t = { .boot_id = "" };
    if (!field(text, "time", value, sizeof(value)) ||
        sscanf(value, "%36s %" SCNd64 " %" SCNd64 " %d%c", t.boot_id, &t.boot_ms, &t.wall_us, &trusted, &rest) != 4)
        return false;
    t.trusted = trusted != 0;
    *out = t;
    return true;
}

static bool starts_with(const char *text, const char *line)
{
    return strncmp(text, line, strlen(line)) == 0;
}

bool state_parse(const char *text, struct state_record *out)
{
    struct state_record r = { 0 };
    if (!starts_with(text, "limpet-state 1\n") || !field(text, "uid", r.uid, sizeof(r.uid)) ||
        !field(text, "owner", r.owner, sizeof(r.owner)) || !field_int(text, "index", &r.index) ||
        !field_process(text, "shim", &r.shim_pid, &r.shim_start) || !field_process(text, "child", &r.child_pid, &r.child_start) ||
        !field_time(text, &r.started))
        return false;
    if (!field(text, "revision", r.revision, sizeof(r.revision)))
        r.revision[0] = '\0';
    if (!field(text, "cgroup", r.cgroup, sizeof(r.cgroup)))
        r.cgroup[0] = '\0';
    *out = r;
    return true;
}

bool exit_parse(const char *text, struct exit_record *out)
{
    struct exit_record r = { 0 };
    int known;
    if (!starts_with(text, "limpet-exit 1\n") || !field_int(text, "known", &known) || !field_int(text, "code", &r.exit.code) ||
        !field_int(text, "signal", &r.exit.signal) || !field_int(text, "errno", &r.exit.start_errno) ||
        !field(text, "reason", r.exit.reason, sizeof(r.exit.reason)) || !field_time(text, &r.ended))
        return false;
    r.exit.known = known != 0;
    if (!field(text, "detail", r.exit.detail, sizeof(r.exit.detail)))
        r.exit.detail[0] = '\0';
    *out = r;
    return true;
}
