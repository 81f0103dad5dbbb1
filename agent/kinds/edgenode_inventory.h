// SPDX-License-Identifier: Apache-2.0
// edgenode_inventory — what this machine is: facts that change with a reboot or an update, read from files alone.
//
// Everything passes the disk seam, so that the simulator can be any machine; the parsers are pure. A fact that cannot be read is left out.
#ifndef KINDS_EDGENODE_INVENTORY_H
#define KINDS_EDGENODE_INVENTORY_H

#include "base/fsio.h"

enum { FACT_MAX = 257, ADDRESS_MAX = 46, ADDRESSES_MAX = 16 };

struct inventory {
    char machine_id[65], kernel[FACT_MAX], os_image[FACT_MAX], arch[65], hostname[FACT_MAX];
    int cpus;                                   // 0 = unknown
    int64_t memory_kib;                         // 0 = unknown
    char addresses[ADDRESSES_MAX][ADDRESS_MAX]; // the one with the default route first
    size_t n_addresses;
};
void inventory_read(struct inventory *out, struct disk *d);

// The parsers, for tests. Each takes the text of one file.
bool parse_os_release(const char *text, char out[FACT_MAX]); // PRETTY_NAME, unquoted
int parse_cpu_list(const char *text);                        // "0-3,5" -> 5; 0 = unreadable
int64_t parse_meminfo(const char *text);                     // MemTotal in KiB; 0 = unreadable
// The interface with the default route, and the subnet of an interface: /proc/net/route.
bool parse_default_route(const char *route, char ifname[16]);
bool address_is_on(const char *route, const char *ifname, uint32_t address);
// Local IPv4 addresses of /proc/net/fib_trie, without loopback and link-local ones; host byte order. Returns how many.
size_t parse_fib_trie(const char *text, uint32_t *out, size_t max);
// Global, lasting IPv6 addresses of /proc/net/if_inet6 into out[*n...].
void parse_if_inet6(const char *text, char out[][ADDRESS_MAX], size_t max, size_t *n);

#endif
