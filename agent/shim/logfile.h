// SPDX-License-Identifier: Apache-2.0
// logfile — where the bytes of a log lie: the names of its files, and the absolute offset at which each begins.
//
// A log is one endless stream of bytes. NAME.log holds the newest of them, NAME.log.1 those before, and so on; what is older is gone.
// NAME.log.offset says at which absolute offset one file (by inode) begins; rotation moves files and then writes it anew, so after a
// crash in between the inode still tells which file is meant, and the others follow from the sizes.
// Shared by the shim, which writes, and the port, which reads; not a lock between them: a reader that meets a rotation looks again.
#ifndef SHIM_LOGFILE_H
#define SHIM_LOGFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { LOGFILES_MAX = 16, LOGFILE_NAME_MAX = 200 };

// File name of generation k, 0 = the newest.
void logfile_name(char out[LOGFILE_NAME_MAX], const char *log, int k);

struct logfiles {
    int n;                       // files that are there, the newest first
    int fd[LOGFILES_MAX];        // open for reading
    int64_t begin[LOGFILES_MAX]; // absolute offset of its first byte
    int64_t size[LOGFILES_MAX];
    ino_t ino[LOGFILES_MAX];
    int64_t end; // absolute offset after the newest byte; also known when no file is left
};

// Opens what is there; n may be 0. 0 or an errno. EAGAIN: it was rotated under our hands three times.
int logfiles_open(struct logfiles *l, int dirfd, const char *log);
void logfiles_close(struct logfiles *l);

// Writes down that the file `ino` begins at `begin`. 0 or an errno.
int logfile_mark(int dirfd, const char *log, int64_t begin, ino_t ino);

// Removes all files of the log; absent is success. 0 or an errno.
int logfile_remove(int dirfd, const char *log);

#endif
