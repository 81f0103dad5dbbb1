// SPDX-License-Identifier: Apache-2.0
// logwriter — takes whatever an instance prints, for ever, and keeps the newest of it within a size and a rate.
//
// Never fails and never waits: what cannot be written now (the disk is full, the directory is gone, too much a second) is dropped, whole
// lines where there are lines, counted, and a line in the log says how many bytes are missing and why. A workload therefore never hangs on
// its own log, and a flood costs CPU but no disk. Nothing is synced: a log may lose its last seconds with the power.
// Rate: 1 MiB a second on average with as much at once; reading it back is port/logs.c.
#ifndef SHIM_LOGWRITER_H
#define SHIM_LOGWRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct logwriter {
    const char *dir, *name; // borrowed
    int64_t max;            // bytes a file
    int files;              // the newest and those kept behind it
    int fd;                 // -1 = not open
    int64_t begin, size;    // of the newest file: absolute offset, bytes
    int64_t tokens;         // bytes that may be written now
    int64_t filled_ms;      // when tokens were added last
    int64_t resume_ms;      // while dropping: not before this
    uint64_t dropped;       // bytes since the last note about it; > 0 = dropping
    bool disk;              // dropping because the disk refuses, else because of the rate
    bool midline;           // the last byte written was no newline
    bool skipping;          // the last byte dropped was no newline
};

// max 0 = 1 MiB, files 0 = 2, at most LOGFILES_MAX.
void logwriter_init(struct logwriter *w, const char *dir, const char *name, int64_t max, int files, int64_t now_ms);
void logwriter_add(struct logwriter *w, const char *p, size_t n, int64_t now_ms);
// When logwriter_tick() wants to be called to say what was dropped (monotonic ms), -1 = never.
int64_t logwriter_due(const struct logwriter *w);
void logwriter_tick(struct logwriter *w, int64_t now_ms);
// Says at last what was dropped, and closes.
void logwriter_fini(struct logwriter *w, int64_t now_ms);

#endif
