// SPDX-License-Identifier: Apache-2.0
// sim_shrink — the fewest of some numbered things with which a failure still comes about. Pure.
#ifndef SIM_SHRINK_H
#define SIM_SHRINK_H

#include <stdbool.h>
#include <stddef.h>

// `items` holds n numbers with which it fails. Leaves out halves, quarters, ... and at last single ones, as long as fails() says it still
// does, and stops after max_tries calls of it. Returns how many are left; they are in front, in their order.
size_t shrink(int *items, size_t n, bool (*fails)(void *ctx, const int *items, size_t n), void *ctx, int max_tries);

#endif
