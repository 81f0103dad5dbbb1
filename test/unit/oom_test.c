// SPDX-License-Identifier: Apache-2.0
#include "shim/oom.c"

#include <sys/socket.h>

#include "tap.h"

static void one_record(void)
{
    ok(record_says("3,1234,5000000,-;Memory cgroup out of memory: Killed process 77 (tail) total-vm:1kB, anon-rss:1kB", 77),
       "a control group ran out");
    ok(record_says("3,1,5,-;Out of memory: Killed process 77 (a b) total-vm:1kB", 77), "the machine ran out");
    ok(record_says("3,1,5,-;Killed process 77 (x) total-vm:1kB", 77), "as older kernels say it");
    ok(record_says("6,1,5,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=tail,pid=77,uid=0", 77), "who was chosen");
    ok(!record_says("3,1,5,-;Memory cgroup out of memory: Killed process 77 (tail) total-vm:1kB", 7), "not a pid that begins alike");
    ok(!record_says("3,1,5,-;Memory cgroup out of memory: Killed process 7 (tail) total-vm:1kB", 77), "nor a shorter one");
    ok(!record_says("6,1,5,-;oom-kill:constraint=NONE,task=,pid=77,uid=0,pid=8,uid=0", 77), "a name that looks like the rest says nothing");
    ok(!record_says("12,1,5,-;Killed process 77 (x) total-vm:1kB", 77), "a program that writes into the log is not the kernel");
    ok(!record_says("6,1,5,-;x: Killed process 77 (x)", 77), "nor is it a message of something else");
    ok(!record_says("", 77) && !record_says("3", 77) && !record_says("3,1,5,-;", 77) && !record_says(";Killed process ", 0),
       "no record says nothing");
}

static void send_record(int fd, const char *text)
{
    ok(send(fd, text, strlen(text), 0) == (ssize_t)strlen(text), "a record");
}

// A socket that keeps messages apart reads as the log does.
static void many_records(void)
{
    int fd[2];
    if (!ok(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fd) == 0, "a log"))
        return;
    ok(!oom_killed(fd[0], 77), "an empty log is not waited for");
    send_record(fd[1], "6,1,5,-;eth0: link up");
    send_record(fd[1], "3,2,6,-;Out of memory: Killed process 76 (x) total-vm:1kB");
    ok(!oom_killed(fd[0], 77), "somebody else was ended");
    send_record(fd[1], "6,3,7,-;eth0: link down");
    send_record(fd[1], "3,4,8,-;Out of memory: Killed process 77 (x) total-vm:1kB\n SUBSYSTEM=x");
    ok(oom_killed(fd[0], 77), "it was, behind other records");
    ok(!oom_killed(-1, 77), "without a log nobody knows");
    close(fd[0]);
    close(fd[1]);
}

int main(void)
{
    one_record();
    many_records();
    return done_testing();
}
