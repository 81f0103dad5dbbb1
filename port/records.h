// SPDX-License-Identifier: Apache-2.0
// records — what a port writes down of its instances for the next agent of this boot: a directory for each, below one of the port's in /run.
//
// For ports whose instances have no shim that would do it. Nothing is synced: /run dies with the boot, as the instances do.
#ifndef PORT_RECORDS_H
#define PORT_RECORDS_H

#include "base/fsio.h"
#include "shim/record.h"

struct records {
    const char *who; // the port, for the log
    char *dir;       // ours, from malloc
    int fd;          // < 0: not opened
};
#define RECORDS_INIT(port)      \
    {                           \
        .who = (port), .fd = -1 \
    }

// Makes the directory and opens it; nothing when it is open.
int records_open(struct records *r, struct disk *d, struct err *e) MUST_USE;
void records_fini(struct records *r);
// False: it could not be written (a full /run), which is logged; only the next agent misses it.
bool records_write(const struct records *r, const char *uid, const char *name, const char *text);
bool records_read(const struct records *r, const char *uid, const char *name, char text[RECORD_MAX]);
void records_remove(const struct records *r, const char *uid, const char *const names[], size_t n); // these files and the directory

#endif
