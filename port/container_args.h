// SPDX-License-Identifier: Apache-2.0
// container_args — the command that makes a container of an instance, for podman and docker alike. Pure.
//
// No value of a variable is ever in it: `--env NAME` lets the tool take the value from its own environment, byte for byte. The names that
// the tool itself listens to (PATH, HOME, DOCKER_HOST ...) would change what it does; those go by a file that only root reads.
#ifndef PORT_CONTAINER_ARGS_H
#define PORT_CONTAINER_ARGS_H

#include "port/container_show.h"

enum { CONTAINER_ARGS_MAX = 12 * 1024 * 1024 };

struct container_place {
    const char *boot_id;
    const char *dir;      // whose container it is: the agent's directory of records
    const char *env_file; // where the file will be
};

struct container_command {
    struct arena arena;
    const char **words; // behind "TOOL run --detach", without those that depend on the tool; NULL-terminated
    const char **env;   // "NAME=value", for the tool's own environment; NULL-terminated
    struct buf file;    // "NAME=value" a line; empty = no file is needed
    int64_t log_max;
    int log_files;
};

// E_INVAL: cannot be told to the tools (the text names a variable, never its value); E_TOOBIG. *out is to be freed in any case.
int container_command_make(struct container_command *out, const struct inst_spec *s, const struct container_place *w,
                           struct err *e) MUST_USE;
void container_command_free(struct container_command *c); // wipes the values
// The words for the output, for one tool: at most 7 with their NULL. The numbers lie in `a`; NULL: no memory.
const char **container_log_words(const struct container_command *c, enum container_tool tool, struct arena *a);

#endif
