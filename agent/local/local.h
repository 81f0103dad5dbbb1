// SPDX-License-Identifier: Apache-2.0
// local — what a person on the machine sees: the command line, and the control socket of the running agent.
#ifndef LOCAL_LOCAL_H
#define LOCAL_LOCAL_H

#include "config/config.h"
#include "flow/agent.h"

// Exit codes, as systemctl and sysexits have them.
enum { EXIT_OK = 0, EXIT_FAIL = 1, EXIT_BAD_USAGE = 2, EXIT_NOT_RUNNING = 3, EXIT_CONFIG = 78 };

// The whole command line. `run` is what `limpet run` does (main.c has the real seams): returns an exit code.
struct cli_hooks {
    int (*run)(const struct config *c, const char *version);
};
int cli_main(int argc, char **argv, const struct cli_hooks *h);

// Control socket: <run>/control.sock, 0660 root:<group>. A request is one JSON line, at most 64 KiB, within 5 s; at most 8 clients; the
// answer is JSON lines, the last one {"end":true} or {"error":..,"class":..}. Peers are known by SO_PEERCRED: the group
// reads, uid 0 and the agent's own user change and dump; one place is kept for these.
struct control;
struct control_conf {
    struct agent *agent;
    const char *version;
    const char *server;         // URL, for status
    const char *trouble;        // why the credentials are of no use, for status; "" = nothing
    void (*restart)(void *ctx); // the identity changed: begin anew, workloads stay
    void (*reload)(void *ctx);  // read the credentials again
    void *ctx;
};
int control_start(struct control **out, struct loop *l, const struct config *c, const struct control_conf *conf, struct err *e) MUST_USE;
void control_stop(struct control *c);

// Client side, blocking, for the command line. Calls line() for each answer line. E_OFFLINE: no agent runs here. E_TIMEOUT: patience_ms
// passed without a byte (0 = for ever).
int control_ask(const struct config *c, const char *request, int64_t patience_ms, int (*line)(void *ctx, const char *json, size_t len),
                void *ctx, struct err *e) MUST_USE;

// E_BUSY: an agent has the lock of the run directory. 0: none has, or we may not look.
int control_lock_free(const struct config *c, struct err *e) MUST_USE;

#endif
