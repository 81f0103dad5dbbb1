// SPDX-License-Identifier: Apache-2.0
// syslogd — the socket of the machine's log daemon: rsyslog, OpenWrt's logd, busybox's syslogd, journald. One datagram a line.
//
// Never blocks, and keeps nothing: what the socket does not take at once is lost, and the caller counts it. A daemon that was started again
// is found with the next line.
#ifndef BASE_SYSLOGD_H
#define BASE_SYSLOGD_H

#include <stdbool.h>
#include <stddef.h>

enum { SYSLOGD_PATH_MAX = 108 }; // sun_path

struct syslogd {
    bool connected;
    int fd;
    char path[SYSLOGD_PATH_MAX];
};

// Takes the path; false when it is too long. What was open is closed.
bool syslogd_init(struct syslogd *s, const char *path);
void syslogd_fini(struct syslogd *s);
// `line` as the daemons take it: "<PRIORITY>TAG: text", no newline, no time (they have the machine's own). False: it was lost.
bool syslogd_send(struct syslogd *s, const char *line, size_t n);

#endif
