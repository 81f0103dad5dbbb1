// SPDX-License-Identifier: Apache-2.0
// systemd_show — what `systemctl show` says of units, read by property. Pure.
#ifndef PORT_SYSTEMD_SHOW_H
#define PORT_SYSTEMD_SHOW_H

#include "port/systemd_unit.h"

// The properties that are asked for, in the form of --property=.
extern const char show_properties[];

enum show_active { SHOW_INACTIVE, SHOW_ACTIVE, SHOW_ACTIVATING, SHOW_DEACTIVATING }; // failed counts as inactive

struct show_unit {
    char id[UNIT_NAME_MAX];
    char load[24], sub[24], result[24];
    enum show_active active;
    bool has_job; // something is still queued for it
    int main_pid;
    int exec_code, exec_status;    // of the main process that ended: CLD_*, and its code or signal; 0 = none has
    int64_t started_us, exited_us; // monotonic; 0 = not
    int restarts;
};

// The next unit of the text at *at, which moves on. False: there is none.
bool show_next(const char **at, struct show_unit *out);

#endif
