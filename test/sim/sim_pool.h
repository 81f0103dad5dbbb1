// SPDX-License-Identifier: Apache-2.0
// sim_pool — where the simulator's heap has its blocks from: sizes in classes, and one that was given back is the next of its class.
//
// A seed takes a million small blocks and is over in half a second. The C library of the agent is made for small machines: it hands pages
// back to the kernel as soon as they are empty, and fetches them again. That was a third of a seed's time. Here nothing goes back before
// the process ends, except what is too large for a class. Not for threads.
#ifndef SIM_POOL_H
#define SIM_POOL_H

#include <stddef.h>

// NULL: no memory. Aligned for everything.
void *sim_pool_take(size_t n);
// `n` and `was` as they were asked for.
void sim_pool_give(void *p, size_t n);
// The block, or another one with what it held. NULL: no memory, and p is as it was.
void *sim_pool_resize(void *p, size_t was, size_t n);

#endif
