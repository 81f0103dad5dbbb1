// SPDX-License-Identifier: Apache-2.0
// backoff — how long to wait before the server is tried again, given how long it has been away.
//
// Doubles from `min_ms` up to a twentieth of the outage so far, between 5 s and `cap_ms`; drawn from the upper half of that. A node is back
// within about 5 % of the time it was away, and a fleet is spread: who always waits at least half comes a sixth later on average than one who
// draws from all of it, but of a fleet a third fewer come in the first second. Pure. Not the queue's backoff (workq) nor an item's (egress), which know no outage.
#ifndef FLOW_BACKOFF_H
#define FLOW_BACKOFF_H

#include <stdint.h>

// Milliseconds, half of the bound of this try .. the bound. `tries`: failures so far, 0 at the first. `rnd`: any 64 random bits.
int64_t backoff_next_ms(int64_t outage_ms, unsigned tries, int64_t min_ms, int64_t cap_ms, uint64_t rnd);

#endif
