// SPDX-License-Identifier: Apache-2.0
#include "shim/group.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"

enum { FILE_PATH_MAX = 320, EVENTS_MAX = 512 };

static int open_file(const char *group, const char *file, int flags)
{
    char path[FILE_PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s/%s", group, file);
    if (n < 0 || (size_t)n >= sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(path, flags | O_CLOEXEC);
}

int group_write(const char *group, const char *file, const char *text)
{
    AUTO_CLOSE int fd = open_file(group, file, O_WRONLY);
    if (fd < 0)
        return errno;
    ssize_t n = write(fd, text, strlen(text));
    return n < 0 ? errno : (size_t)n == strlen(text) ? 0 : EIO;
}

int group_enter(const char *group)
{
    return group_write(group, GROUP_PROCS, "0");
}

void group_kill(const char *group)
{
    (void)group_write(group, "cgroup.kill", "1");
}

// Of a file of lines "name number"; 0 when it does not say.
static long long event(const char *group, const char *file, const char *name)
{
    char text[EVENTS_MAX];
    AUTO_CLOSE int fd = open_file(group, file, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    size_t len = strlen(name);
    text[MAX(n, 0)] = '\0';
    for (const char *line = text; *line != '\0';) {
        if (strncmp(line, name, len) == 0 && line[len] == ' ')
            return strtoll(line + len, NULL, 10);
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    return 0;
}

bool group_has_processes(const char *group)
{
    return event(group, "cgroup.events", "populated") > 0;
}

bool group_out_of_memory(const char *group)
{
    return event(group, "memory.events", "oom_kill") > 0;
}

int group_remove(const char *group)
{
    return rmdir(group) == 0 || errno == ENOENT ? 0 : errno;
}
