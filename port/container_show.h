// SPDX-License-Identifier: Apache-2.0
// container_show — what podman and docker say, read. Pure.
//
// Both are asked with templates of their own language, so that one form comes back from both: a line of JSON a container. What else they
// print (warnings on standard error come along) is passed over.
#ifndef PORT_CONTAINER_SHOW_H
#define PORT_CONTAINER_SHOW_H

#include "port/port.h"

enum { CONTAINER_ID_MAX = 72, CONTAINER_SIGNAL_MAX = 16 };

// Labels of a container of ours; adoption reads them.
#define CONTAINER_LABEL "dev.limpet."

// For `TOOL ps --format` and `TOOL container inspect --format`.
extern const char show_ids[], show_container[];

enum show_status { SHOW_CREATED, SHOW_RUNNING, SHOW_ENDED };

struct show_container {
    char id[CONTAINER_ID_MAX];
    char uid[INST_UID_MAX], owner[INST_OWNER_MAX], revision[INST_REV_MAX];
    char boot[37]; // in which it was made
    int index;
    enum show_status status;
    int pid, code;
    bool oom;
    char error[160];                   // the engine's own, of a start that failed
    int64_t started_us, ended_us;      // wall time; 0 = not
    char signal[CONTAINER_SIGNAL_MAX]; // that asks it to end
};

// The next one of the text at *at, which moves on. False: there is none.
bool show_container_next(const char **at, struct show_container *out);
// The next whole id in the text.
bool show_id_next(const char **at, char id[CONTAINER_ID_MAX]);

// The line of a failed command's output that says why, without what leads it in.
void show_reason(const char *output, char *out, size_t size);
// Does this output say that there is no such image, and not that something is wrong?
bool show_no_image(const char *output);

enum container_tool { TOOL_PODMAN, TOOL_DOCKER };
enum container_tool show_tool(const char *version);

#endif
