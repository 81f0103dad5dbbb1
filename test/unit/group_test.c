// SPDX-License-Identifier: Apache-2.0
#include "shim/group.c"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tap.h"

static char dir[200];

static void put(const char *file, const char *text)
{
    char path[300];
    snprintf(path, sizeof(path), "%s/%s", dir, file);
    FILE *f = fopen(path, "w");
    if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0)
        printf("# %s is not written\n", path);
}

static void reads(void)
{
    ok(!group_out_of_memory(dir) && !group_has_processes(dir), "a group without its files says nothing");
    put("memory.events", "low 0\nhigh 0\nmax 31\noom 2\noom_kill 0\noom_group_kill 0\n");
    ok(!group_out_of_memory(dir), "it hit its limit, and nobody was ended");
    put("memory.events", "low 0\nhigh 0\nmax 31\noom 2\noom_kill 3\noom_group_kill 1\n");
    ok(group_out_of_memory(dir), "three were ended");
    put("memory.events", "oom_kill");
    ok(!group_out_of_memory(dir), "cut off");
    put("cgroup.events", "frozen 1\npopulated 0\n");
    ok(!group_has_processes(dir), "nobody is in it");
    put("cgroup.events", "populated 1\nfrozen 0\n");
    ok(group_has_processes(dir), "somebody is");
}

static void writes(void)
{
    is_int(group_write(dir, "pids.max", "3"), ENOENT, "no controller");
    put("pids.max", "max\n");
    is_int(group_write(dir, "pids.max", "3"), 0, "a limit");
    is_int(group_remove(dir), ENOTEMPTY, "it is not empty");
    is_int(group_remove("/nowhere/at/all"), 0, "what is absent is removed");
}

// A real one, where there is a hierarchy in which we may make it; limits it need not have.
static void real(const char *top)
{
    char path[300];
    snprintf(path, sizeof(path), "%s/limpet-test.%d", top, (int)getpid());
    if (mkdir(path, 0755) != 0) {
        printf("# no groups can be made in %s\n", top);
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        if (group_enter(path) != 0)
            _exit(1);
        for (int i = 0; i < 3; i++)
            if (fork() == 0)
                break;
        for (;;)
            pause();
    }
    for (int i = 0; i < 10000 && !group_has_processes(path); i++)
        usleep(1000);
    ok(group_has_processes(path), "a process is in a group of this machine");
    is_int(group_remove(path), EBUSY, "which cannot be removed");
    group_kill(path);
    int status;
    is_int(waitpid(pid, &status, 0), pid, "it ends");
    ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "by SIGKILL");
    for (int i = 0; i < 10000 && group_has_processes(path); i++)
        usleep(1000);
    ok(!group_has_processes(path), "and all that it started");
    is_int(group_remove(path), 0, "then the group goes");
}

int main(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof(dir), "%.100s/group.XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(dir) == NULL)
        return 1;
    reads();
    writes();
    real(access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/unified");
    char command[300];
    snprintf(command, sizeof(command), "rm -r '%s'", dir);
    (void)!system(command);
    return done_testing();
}
