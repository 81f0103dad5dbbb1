// SPDX-License-Identifier: Apache-2.0
//
// born FIFO NAME — a workload that says when it started: one line "NANOSECONDS NAME" (CLOCK_MONOTONIC) into the FIFO, then it waits for a signal.
// The first thing it does is to look at the clock, so that the line tells of the start and not of the line.
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    int fd = argc == 3 ? open(argv[1], O_WRONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    if (fd < 0 || dprintf(fd, "%lld %s\n", (long long)t.tv_sec * 1000000000 + t.tv_nsec, argv[2]) < 0)
        return 1;
    for (;;)
        pause();
}
