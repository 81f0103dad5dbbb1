// SPDX-License-Identifier: Apache-2.0
// lease — whether a node can be reached, judged from its Lease, and how people read a time span.
//
// Pure: the time comes in as an argument; it should be the server's, since the machine that limpetctl runs on may be wrong.
#ifndef CTL_LEASE_H
#define CTL_LEASE_H

#include <stdbool.h>
#include <stdint.h>

enum lease_state {
    LEASE_FRESH,   // renewed within its duration: READY is True
    LEASE_EXPIRED, // nothing was heard for longer than that: Unknown, the node may be well
    LEASE_NEVER,   // no agent ever renewed it
    LEASE_AHEAD,   // renewed in the future: the node's clock is wrong, so its Lease tells nothing
};

struct lease_facts {
    bool renewed;       // renewTime is there
    int64_t renew_us;   // renewTime, microseconds since 1970
    int64_t duration_s; // leaseDurationSeconds
};

enum lease_state lease_judge(const struct lease_facts *l, int64_t now_us);
const char *lease_ready(enum lease_state s);  // "True" or "Unknown"
const char *lease_reason(enum lease_state s); // one CamelCase word

// "12s", "3m12s", "5h2m", "12d": two units at most, and fewer the longer it is. Below zero reads as 0s.
enum { SPAN_TEXT_MAX = 24 };
char *span_text(int64_t seconds, char out[SPAN_TEXT_MAX]);

#endif
