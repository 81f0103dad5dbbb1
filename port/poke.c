// SPDX-License-Identifier: Apache-2.0
#include "port/poke.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "port/systemd_unit.h"
#include "shim/proc.h"
#include "shim/record.h"

// --- systemd's words

static const struct {
    const char *name;
    int number;
} signal_names[] = {
    { "HUP", SIGHUP },       { "INT", SIGINT },   { "QUIT", SIGQUIT }, { "ILL", SIGILL },   { "TRAP", SIGTRAP },   { "ABRT", SIGABRT },
    { "BUS", SIGBUS },       { "FPE", SIGFPE },   { "KILL", SIGKILL }, { "USR1", SIGUSR1 }, { "SEGV", SIGSEGV },   { "USR2", SIGUSR2 },
    { "PIPE", SIGPIPE },     { "ALRM", SIGALRM }, { "TERM", SIGTERM }, { "CHLD", SIGCHLD }, { "CONT", SIGCONT },   { "STOP", SIGSTOP },
    { "TSTP", SIGTSTP },     { "TTIN", SIGTTIN }, { "TTOU", SIGTTOU }, { "URG", SIGURG },   { "XCPU", SIGXCPU },   { "XFSZ", SIGXFSZ },
    { "VTALRM", SIGVTALRM }, { "PROF", SIGPROF }, { "IO", SIGIO },     { "PWR", SIGPWR },   { "WINCH", SIGWINCH }, { "SYS", SIGSYS },
};

int poke_signal(const char *name)
{
    enum { RTMIN = 34 }; // of the C libraries of systemd's hosts; ours may count otherwise
    if (strncmp(name, "RTMIN+", 6) == 0)
        return RTMIN + (int)unit_number(name + 6, 30);
    for (size_t i = 0; i < ARRAY_LEN(signal_names); i++)
        if (strcmp(signal_names[i].name, name) == 0)
            return signal_names[i].number;
    return 0;
}

void poke_exit(const char *code, const char *status, const char *result, struct inst_exit *out)
{
    *out = (struct inst_exit){ .code = -1 };
    bool exited = strcmp(code, "exited") == 0;
    if (exited)
        out->code = (int)unit_number(status, 255);
    else if (strcmp(code, "killed") == 0 || strcmp(code, "dumped") == 0)
        out->signal = poke_signal(status);
    out->known = exited || out->signal != 0;
    const char *reason = !out->known ? "Unknown" : exited && out->code == 0 ? "Completed" : "Error";
    if (strcmp(result, "oom-kill") == 0)
        reason = "OOMKilled";
    snprintf(out->reason, sizeof(out->reason), "%s", reason);
    if (out->signal != 0)
        snprintf(out->detail, sizeof(out->detail), "signal %d", out->signal);
}

// --- the records

static int open_dir(int at, const char *name)
{
    if (mkdirat(at, name, 0700) != 0 && errno != EEXIST)
        return -1;
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

// Where no agent was in this boot the directory above is missing, too.
static int open_records(const char *path)
{
    char parent[4096];
    snprintf(parent, sizeof(parent), "%s", path);
    char *slash = strrchr(parent, '/');
    if (slash != NULL && slash != parent) {
        *slash = '\0';
        (void)!mkdir(parent, 0755);
    }
    return open_dir(AT_FDCWD, path);
}

static const char *variable(const char *name)
{
    const char *v = getenv(name);
    return v != NULL ? v : "";
}

static int write_start(int dir, const char *uid, const struct instant *now)
{
    char text[RECORD_MAX];
    struct state_record r = { .child_pid = (int)unit_number(variable("MAINPID"), INT_MAX), .started = *now };
    snprintf(r.uid, sizeof(r.uid), "%s", uid);
    r.child_start = r.child_pid > 0 ? proc_start(r.child_pid) : 0;
    unlinkat(dir, POKE_EXIT, 0);
    return state_format(&r, text) ? record_write(dir, POKE_START, text) : EOVERFLOW;
}

static int write_exit(int dir, const struct instant *now)
{
    char text[RECORD_MAX];
    struct exit_record r = { .ended = *now };
    poke_exit(variable("EXIT_CODE"), variable("EXIT_STATUS"), variable("SERVICE_RESULT"), &r.exit);
    return exit_format(&r, text) ? record_write(dir, POKE_EXIT, text) : EOVERFLOW;
}

int poke_main(int argc, char **argv)
{
    struct clock clock;
    struct instant now;
    char uid[INST_UID_MAX];
    if (argc != 4 || !unit_uid(argv[3], uid)) {
        fprintf(stderr, "limpet poke: systemd runs this for the units that limpet makes\n");
        return 64;
    }
    clock_real_init(&clock);
    clock_instant(&clock, &now);
    AUTO_CLOSE int records = open_records(argv[2]);
    AUTO_CLOSE int dir = records < 0 ? -1 : open_dir(records, uid);
    int errnum = dir < 0 ? errno : getenv("SERVICE_RESULT") != NULL ? write_exit(dir, &now) : write_start(dir, uid, &now);
    if (errnum == 0)
        errnum = record_write(records, POKE_FILE, uid);
    if (errnum != 0)
        fprintf(stderr, "limpet poke: %s: %s\n", argv[2], strerror(errnum));
    return errnum != 0;
}
