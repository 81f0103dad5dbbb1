// SPDX-License-Identifier: Apache-2.0
// cmd — the commands of limpetctl: each a function from options to an exit status, with its own help.
//
// What a command found goes to standard output, what people should know besides to standard error. A command reports its
// own errors (cmd_fail), so that each names a remedy.
#ifndef CTL_CMD_H
#define CTL_CMD_H

#include <stdbool.h>

#include "ctl/api.h"

enum exit_status {
    EXIT_DONE = 0,
    EXIT_FAILED = 1, // the server refused, could not be reached, or the state does not allow it
    EXIT_USAGE = 2,  // the command line is wrong; nothing was tried
};

struct options {
    const char *kubeconfig, *context;
    const char *server, *output, *credential;
    bool dry_run, print, replace, force, yes, no_wait;
    const char *node; // NAME, NULL where the command takes none
};

int cmd_install(const struct options *o);
int cmd_node_add(const struct options *o);
int cmd_node_approve(const struct options *o);
int cmd_node_list(const struct options *o);
int cmd_node_requests(const struct options *o);
int cmd_node_rm(const struct options *o);
int cmd_version(const struct options *o);

// Prints "limpetctl: <error>" and, on a line of its own, what can be done about it; `remedy` NULL: chosen by the class, if there is one.
// Returns EXIT_FAILED.
int cmd_fail(const struct err *e, const char *remedy);

// Opens the API as the options say. On failure it has been reported.
int cmd_open(struct api *a, const struct options *o);

#endif
