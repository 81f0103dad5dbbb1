// SPDX-License-Identifier: Apache-2.0
// hosts — addresses of a name without asking anybody: numeric, or from /etc/hosts. Checks must not wait for a name server.
#ifndef PORT_HOSTS_H
#define PORT_HOSTS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum { HOST_ADDRS_MAX = 4 };

struct host_addr {
    struct sockaddr_storage sa;
    socklen_t len;
};

// How many addresses were found, at most HOST_ADDRS_MAX. "localhost" always has one.
size_t host_find(const char *host, uint16_t port, struct host_addr out[HOST_ADDRS_MAX]);

#endif
