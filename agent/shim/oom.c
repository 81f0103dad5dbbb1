// SPDX-License-Identifier: Apache-2.0
#include "shim/oom.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"

enum {
    RECORD_MAX = 8192,     // the kernel's own bound of what one read gives
    RECORDS_MAX = 1 << 16, // read at most: a log that is filled faster than we read has no end
    FIRST_NOT_KERNELS = 8, // priorities from here on are of programs that write into the log
};

int oom_watch(void)
{
    int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && lseek(fd, 0, SEEK_END) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static const char *after(const char *text, const char *head)
{
    size_t n = strlen(head);
    return strncmp(text, head, n) == 0 ? text + n : NULL;
}

static bool is_number(const char *text, int n, char end)
{
    char *stop;
    return strtol(text, &stop, 10) == n && stop != text && *stop == end;
}

// "Killed process 12 (name) ...", with what was out of memory before it.
static bool says_killed(const char *message, int pid)
{
    static const char *const heads[] = { "Memory cgroup out of memory: Killed process ", "Out of memory: Killed process ",
                                         "Killed process " };
    for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
        const char *rest = after(message, heads[i]);
        if (rest != NULL)
            return is_number(rest, pid, ' ');
    }
    return false;
}

// "oom-kill:...,task=name,pid=12,uid=0": said before the signal, so it is there when the process has ended, but not each time. The name is
// the process's own choice; the last ",pid=" is the kernel's.
static bool says_chosen(const char *message, int pid)
{
    const char *at = after(message, "oom-kill:"), *last = NULL;
    while (at != NULL && (at = strstr(at, ",pid=")) != NULL)
        last = at += strlen(",pid=");
    return last != NULL && is_number(last, pid, ',');
}

// A record is "priority,sequence,time,flags;message" and lines of details.
static bool record_says(const char *record, int pid)
{
    const char *message = strchr(record, ';');
    if (message == NULL || strtol(record, NULL, 10) >= FIRST_NOT_KERNELS)
        return false;
    return says_killed(message + 1, pid) || says_chosen(message + 1, pid);
}

// EPIPE: what was next has been overwritten, and the next read goes on with the oldest that is left.
bool oom_killed(int fd, int pid)
{
    char record[RECORD_MAX + 1];
    for (int i = 0; fd >= 0 && i < RECORDS_MAX; i++) {
        ssize_t n = read(fd, record, RECORD_MAX);
        if (n == 0 || (n < 0 && errno != EPIPE && errno != EINTR))
            return false;
        record[MAX(n, 0)] = '\0';
        if (n > 0 && record_says(record, pid))
            return true;
    }
    return false;
}
