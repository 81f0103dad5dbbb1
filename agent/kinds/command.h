// SPDX-License-Identifier: Apache-2.0
// command — one command that a pass waits for: started, held with everything the port borrows, its end kept for the next pass.
//
// Owned by the kind's state. A pass starts it and returns pass_wait(); when it ends the engine runs the key's pass again, which reads the
// verdict and frees it. Output is bounded to its tail.
#ifndef KINDS_COMMAND_H
#define KINDS_COMMAND_H

#include "kinds/kind.h"

enum { COMMAND_OUTPUT_MAX = 320, COMMAND_ENV_MAX = 4 };

struct command {
    struct kind_env *env;
    struct object_state *os;
    struct arena arena;
    struct port_run run;
    bool done, ok;
    struct err verdict; // its msg, for people: "exit code 1: ...", "no end within 30 s"
};

// `vars`: pairs of name and value, NULL-terminated, put into the environment beside PATH and expanded as $(NAME) in argv. All is copied.
// The answer comes through engine_resume().
int command_start(struct command **out, struct pass *p, const char *const *argv, const char *const *vars, int64_t timeout_ms,
                  struct err *e) MUST_USE;
// Ends and frees it; NULL is fine.
void command_free(struct command *c);
// pass_wait() for it.
int command_wait(const struct command *c, struct pass *p);

#endif
