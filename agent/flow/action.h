// SPDX-License-Identifier: Apache-2.0
// action — the one table from error class to what the queue does. Pure.
#ifndef FLOW_ACTION_H
#define FLOW_ACTION_H

#include "base/err.h"
#include "base/util.h"

enum action {
    ACT_RETRY,   // exponential, rate limited, jittered
    ACT_WAIT,    // not an error of the object: come back when asked to, or at the next change
    ACT_GIVE_UP, // status says so; only a change starts it again
};
struct action_row {
    int cls;
    enum action action;
    bool warn;          // log at warning (else debug)
    const char *reason; // condition reason
};
const struct action_row *action_of(int cls); // never NULL
#endif
