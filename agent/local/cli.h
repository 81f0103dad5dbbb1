// SPDX-License-Identifier: Apache-2.0
// cli — what the files of the command line share.
#ifndef LOCAL_CLI_H
#define LOCAL_CLI_H

#include <limits.h>
#include <stdio.h>

#include "data/json.h"
#include "local/local.h"

enum { CLI_SETS_MAX = 32 };

struct cli {
    struct config config;
    struct disk *disk;
    struct clock clock;
    const char *config_file;
    char config_path[PATH_MAX]; // of it, when it was given relative to the working directory
    bool config_named;
    const char *sets[CLI_SETS_MAX + 1];
    size_t n_sets;
    int64_t patience_ms; // for an answer of the agent, 0 = for ever
    const struct cli_hooks *hooks;
    int argc; // what is left after the global options; argv[0] is the command
    char **argv;
};

struct cli_command {
    const char *name, *args, *help; // one line
    const char *more;               // for `limpet help NAME`
    bool needs_config;
    int (*fn)(struct cli *c); // exit code
};

// A usage error: prints it with the command's usage, returns EXIT_BAD_USAGE.
int cli_usage(const struct cli *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
// An error on stderr as "limpet: <text>"; the exit code that fits its class.
int cli_fail(const struct err *e);
// Takes "--name VALUE" or "--name=VALUE" at argv[*i]; advances *i. NULL: it is another argument.
const char *cli_value(const struct cli *c, int *i, const char *name, bool *missing);
// Takes the operands of the command, at most `most` (those that are not given stay as they are), and "-o json". EXIT_BAD_USAGE: said already.
int cli_operands(struct cli *c, const char **operand, size_t most, bool *json);
// A file named relative to the working directory, as a whole path: the disk takes no other.
const char *cli_path(const char *name, char out[PATH_MAX]);
// Asks the agent; each line as a tree. An {"error"} line becomes the error. fn may be NULL.
int cli_ask(const struct cli *c, const struct json *request, int (*fn)(void *ctx, const struct json *line), void *ctx, struct err *e);
struct json *cli_request(const char *op);

// Fills c->config; `problems` gets one line each. E_INVAL ...
int cli_load(struct cli *c, struct buf *problems, struct err *e) MUST_USE;

int cli_apply(struct cli *c);
int cli_check(struct cli *c);
int cli_delete(struct cli *c);
int cli_describe(struct cli *c);
int cli_diff(struct cli *c);
int cli_events(struct cli *c);
int cli_status(struct cli *c);
int cli_get(struct cli *c);
int cli_logs(struct cli *c);
int cli_outbox(struct cli *c);
int cli_policy(struct cli *c);
int cli_resync(struct cli *c);
int cli_store(struct cli *c);
int cli_join(struct cli *c);
int cli_leave(struct cli *c);

#endif
