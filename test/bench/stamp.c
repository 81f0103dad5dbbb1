// SPDX-License-Identifier: Apache-2.0
//
// stamp DIRECTORY... — tells when files in these directories got new content.
//
// One line for each file that was closed after writing, or renamed into place: "NANOSECONDS PATH FIRST-LINE" (CLOCK_MONOTONIC, taken as soon
// as the kernel reported it, before the file is read). First it prints "ready".
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

static char **dirs; // by watch descriptor, which counts from 1

static long long now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void tell(long long ns, const struct inotify_event *ev)
{
    char path[PATH_MAX], line[128] = "";
    snprintf(path, sizeof(path), "%s/%s", dirs[ev->wd], ev->name);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return; // renamed away meanwhile: the rename is told
    if (fgets(line, sizeof(line), f) != NULL)
        line[strcspn(line, "\n")] = '\0';
    fclose(f);
    printf("%lld %s %s\n", ns, path, line);
}

static void tell_all(const char *p, size_t n)
{
    long long ns = now_ns();
    for (const char *end = p + n; p < end;) {
        const struct inotify_event *ev = (const void *)p;
        if (ev->len > 0)
            tell(ns, ev);
        p += sizeof(*ev) + ev->len;
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    _Alignas(struct inotify_event) char piece[65536];
    int fd = inotify_init1(IN_CLOEXEC);
    dirs = argv;
    for (int i = 1; i < argc; i++)
        if (inotify_add_watch(fd, argv[i], IN_CLOSE_WRITE | IN_MOVED_TO) != i) {
            perror(argv[i]);
            return 1;
        }
    puts("ready");
    fflush(stdout);
    for (ssize_t n; (n = read(fd, piece, sizeof(piece))) > 0;)
        tell_all(piece, (size_t)n);
    return 1;
}
