// SPDX-License-Identifier: Apache-2.0
// agent_store — where the store lies: in the state directory, or, while nothing can be written there, as a copy below the run directory.
//
// A file system that went read-only (a worn flash, an error the kernel would not live with) is no reason to leave the machine unattended:
// what it is to do can still be read. The copy is in memory and dies with the boot; the EdgeNode's condition StoreVolatile says so. When
// the state directory can be written again, the copy goes home: it is what the store was, and what was learned since.
// Blocks on the disk.
#ifndef FLOW_AGENT_STORE_H
#define FLOW_AGENT_STORE_H

#include "config/config.h"
#include "data/db.h"

// Opens the store wherever it can be. *away: it is the copy. Errors as of db_open().
int agent_store_open(struct db **out, struct disk *d, struct clock *c, const struct config *config, bool *away, struct err *e) MUST_USE;
// The state directory takes files again.
bool agent_store_can_go_home(struct disk *d, const struct config *config);

#endif
