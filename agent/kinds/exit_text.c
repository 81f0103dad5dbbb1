// SPDX-License-Identifier: Apache-2.0
#include "kinds/exit_text.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static bool begins(const char *s, const char *head)
{
    return strncmp(s, head, strlen(head)) == 0;
}

// What to do about it. The port's detail begins with what it was doing: "exec", "chdir", "user", "group", ...
static const char *remedy(const struct inst_exit *x)
{
    if (begins(x->detail, "chdir"))
        return "make that directory or correct spec.workingDir";
    if (begins(x->detail, "resource limit"))
        return "correct spec.rlimits; only an agent that is root may raise a hard limit";
    if (begins(x->detail, "set"))
        return "only an agent that is root may start others";
    if (begins(x->detail, "user") && x->start_errno == ENOENT)
        return "add it to this machine or correct spec.user";
    if (begins(x->detail, "group") && x->start_errno == ENOENT)
        return "add it to this machine or correct spec.group";
    switch (x->start_errno) {
    case ENOENT:
        return "install it on this machine or correct spec.command";
    case EACCES:
    case EPERM:
        return "make it executable and reachable for its user";
    case ENOEXEC:
        return "it is not built for this machine, or its first line names no interpreter";
    case E2BIG:
        return "make arguments and environment smaller";
    case EAGAIN:
        return "the process table or the user's limit is full";
    case EMFILE:
    case ENFILE:
        return "too many files are open, or spec.rlimits leaves too few";
    case ENOMEM:
        return "memory is short";
    default:
        return "the agent's log may say more";
    }
}

static const char *because(const struct inst_exit *x)
{
    if (strcmp(x->reason, "OOMKilled") == 0)
        return " as memory ran out";
    return strcmp(x->reason, "Unhealthy") == 0 ? " as its probe failed" : "";
}

// " (SIGKILL)"; "" for one that has no common name.
static const char *signal_name(int signal)
{
    static const struct {
        int signal;
        const char *name;
    } names[] = { { SIGHUP, " (SIGHUP)" },   { SIGINT, " (SIGINT)" },   { SIGQUIT, " (SIGQUIT)" }, { SIGILL, " (SIGILL)" },
                  { SIGTRAP, " (SIGTRAP)" }, { SIGABRT, " (SIGABRT)" }, { SIGBUS, " (SIGBUS)" },   { SIGFPE, " (SIGFPE)" },
                  { SIGKILL, " (SIGKILL)" }, { SIGUSR1, " (SIGUSR1)" }, { SIGSEGV, " (SIGSEGV)" }, { SIGUSR2, " (SIGUSR2)" },
                  { SIGPIPE, " (SIGPIPE)" }, { SIGALRM, " (SIGALRM)" }, { SIGTERM, " (SIGTERM)" }, { SIGXCPU, " (SIGXCPU)" },
                  { SIGXFSZ, " (SIGXFSZ)" }, { SIGSYS, " (SIGSYS)" } };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].signal == signal)
            return names[i].name;
    return "";
}

void exit_text(const struct inst_exit *x, char *out, size_t max)
{
    if (x->start_errno != 0)
        snprintf(out, max, "could not be started: %s; %s", x->detail[0] != '\0' ? x->detail : strerror(x->start_errno), remedy(x));
    else if (!x->known)
        snprintf(out, max, "ended, and nobody saw how");
    else if (x->signal != 0)
        snprintf(out, max, "was ended by signal %d%s%s", x->signal, signal_name(x->signal), because(x));
    else
        snprintf(out, max, "ended with exit code %d%s", x->code, because(x));
}
