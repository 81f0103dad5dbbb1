// SPDX-License-Identifier: Apache-2.0
// sim_heap — how much memory the agent holds, to the byte, though it shares a process with its world.
//
// Every block of the heap belongs to whoever was in charge when it was taken, and is given back to his account by whoever frees it. The
// agent is in charge while its loop turns, its callbacks included; the world while it waits, and in what the agent calls of it. SQLite is the
// agent's, too, and counted apart: OF_STORE is its page cache and all it needs beside that. Counted is what malloc hands out, without its own overhead; stacks and what is static are not.
// Under a sanitizer, which has an allocator of its own, nothing is counted: sim_heap_counts() is false.
#ifndef SIM_HEAP_H
#define SIM_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/util.h"

enum heap_owner { OF_WORLD, OF_AGENT, OF_STORE, HEAP_OWNERS };

struct heap_count {
    int64_t bytes, most; // most: since sim_heap_begin()
    int64_t blocks;
};

extern volatile enum heap_owner sim_heap_owner; // volatile: to the compiler, malloc looks at nothing

static inline enum heap_owner sim_heap_take(enum heap_owner o)
{
    enum heap_owner was = sim_heap_owner;
    sim_heap_owner = o;
    return was;
}

static inline void sim_heap_give_back(const enum heap_owner *was)
{
    sim_heap_owner = *was;
}

// In charge until the end of the block.
#define AS_WORLD CLEANUP(sim_heap_give_back) enum heap_owner in_charge_before UNUSED = sim_heap_take(OF_WORLD)
#define AS_AGENT CLEANUP(sim_heap_give_back) enum heap_owner in_charge_before UNUSED = sim_heap_take(OF_AGENT)
#define AS_STORE CLEANUP(sim_heap_give_back) enum heap_owner in_charge_before UNUSED = sim_heap_take(OF_STORE)

bool sim_heap_counts(void);
struct heap_count sim_heap_of(enum heap_owner o);
void sim_heap_begin(void); // `most` begins anew, at what is held now

#endif
