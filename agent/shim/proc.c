// SPDX-License-Identifier: Apache-2.0
#include "shim/proc.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

enum {
    STAT_MAX = 1024,          // a stat line has 52 numbers and a name of at most 64 bytes
    ENVIRON_MAX = 256 * 1024, // of one process; what a shell makes of a large environment still fits
    ENVIRON_CHUNK = 4096,
};

static bool next_number(const char **p, int64_t *out)
{
    char *end;
    errno = 0;
    long long n = strtoll(*p, &end, 10);
    if (end == *p || errno != 0)
        return false;
    *p = end;
    *out = n;
    return true;
}

static bool next_int(const char **p, int *out)
{
    int64_t n;
    if (!next_number(p, &n) || n < INT_MIN || n > INT_MAX)
        return false;
    *out = (int)n;
    return true;
}

// The name in parentheses is the process's own choice and may itself look like the rest of a line, so the rest begins after the
// *last* parenthesis: no later field can hold one.
bool proc_stat_parse(const char *line, struct proc_stat *out)
{
    enum { FIELDS_UP_TO_SESSION = 6, FIELD_START = 22 };
    const char *head = line;
    const char *p = strrchr(line, ')');
    struct proc_stat s = { 0 };
    if (p == NULL || p[1] != ' ' || !isalpha((unsigned char)p[2]) || p[3] != ' ' || !next_int(&head, &s.pid))
        return false;
    s.state = p[2];
    p += 3;
    if (!next_int(&p, &s.ppid) || !next_int(&p, &s.pgrp) || !next_int(&p, &s.session))
        return false;
    for (int field = FIELDS_UP_TO_SESSION; field < FIELD_START; field++)
        if (!next_number(&p, &s.start))
            return false;
    *out = s;
    return true;
}

static int open_proc(int pid, const char *file)
{
    char path[40];
    snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
    return open(path, O_RDONLY | O_CLOEXEC);
}

bool proc_stat(int pid, struct proc_stat *out)
{
    char line[STAT_MAX];
    AUTO_CLOSE int fd = open_proc(pid, "stat");
    ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);
    if (n <= 0)
        return false;
    line[n] = '\0';
    return proc_stat_parse(line, out);
}

int64_t proc_start(int pid)
{
    struct proc_stat s;
    return proc_stat(pid, &s) ? s.start : 0;
}

bool proc_is(int pid, int64_t start)
{
    struct proc_stat s;
    return pid > 0 && proc_stat(pid, &s) && s.start == start && s.state != 'Z' && s.state != 'X';
}

static int pid_of_name(const char *name)
{
    char *end;
    if (!isdigit((unsigned char)name[0]))
        return 0;
    long n = strtol(name, &end, 10);
    return *end == '\0' && n <= INT_MAX ? (int)n : 0;
}

bool proc_each(bool (*fn)(void *ctx, const struct proc_stat *s), void *ctx)
{
    DIR *d = opendir("/proc");
    if (d == NULL)
        return false;
    bool stopped = false;
    for (struct dirent *de; !stopped && (de = readdir(d)) != NULL;) {
        struct proc_stat s;
        int pid = pid_of_name(de->d_name);
        if (pid > 0 && proc_stat(pid, &s))
            stopped = fn(ctx, &s);
    }
    closedir(d);
    return stopped;
}

// Looks for the entry in a stream of NUL-terminated strings that arrives in pieces: `at` is how much of it has matched so far in the
// current string, -1 when that string differs.
struct env_search {
    const char *entry;
    size_t len; // with its terminator
    ssize_t at;
};

static bool env_feed(struct env_search *s, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (s->at >= 0 && p[i] == s->entry[s->at])
            s->at++;
        else
            s->at = -1;
        if (s->at == (ssize_t)s->len)
            return true;
        if (p[i] == '\0')
            s->at = 0;
    }
    return false;
}

bool proc_has_env(int pid, const char *entry)
{
    char chunk[ENVIRON_CHUNK];
    struct env_search s = { .entry = entry, .len = strlen(entry) + 1 };
    AUTO_CLOSE int fd = open_proc(pid, "environ");
    if (fd < 0)
        return false;
    bool found = false;
    ssize_t n = 1;
    for (size_t total = 0; n > 0 && !found && total < ENVIRON_MAX; total += (size_t)MAX(n, 0)) {
        n = read(fd, chunk, sizeof(chunk));
        found = n > 0 && env_feed(&s, chunk, (size_t)n);
    }
    explicit_bzero(chunk, sizeof(chunk)); // the environments of others hold secrets
    return found;
}
