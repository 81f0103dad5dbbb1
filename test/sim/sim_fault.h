// SPDX-License-Identifier: Apache-2.0
// sim_fault — what can go wrong in the world, and how often it did.
//
// A fault counts when it hits the agent (a request that met it, a write that failed), not when it is planned. `make sim` ends with the
// table, and fails when a fault never hit.
#ifndef SIM_FAULT_H
#define SIM_FAULT_H

enum sim_fault {
    // Network.
    F_SLOW,
    F_LOST_REQUEST,
    F_LOST_ANSWER,
    F_NO_ANSWER,
    F_REFUSED,
    F_PARTITION_OUT,
    F_PARTITION_IN,
    F_HALF_OPEN,
    F_CUT_BODY,
    F_CUT_LINE,
    F_RESET,
    F_LATE,
    F_CERT,
    F_PORTAL,
    // Server.
    F_401,
    F_429,
    F_503,
    F_5XX,
    F_STORM,
    F_TOKEN,
    F_403,
    F_COMPACTED,
    F_RESTART,
    F_WIPED,
    F_TRUNCATED,
    F_OTHER_CLUSTER,
    F_NAMESAKE,
    F_RESTORED,
    F_TERMINATING,
    F_NO_NAMESPACE,
    F_NO_CRD,
    F_CRD_CHANGED,
    F_CRD_REMOVED,
    F_ACCOUNT,
    F_POLICY_INVALID,
    F_POLICY_STOPS,
    F_POLICY_WAITS,
    // Disk.
    F_FORGOT,
    F_TORN,
    F_NAME_UNDONE,
    F_FULL,
    F_READ_ERROR,
    F_WRITE_ERROR,
    F_SYNC_ERROR,
    F_SLOW_DISK,
    F_FLIPPED,
    F_STORE_LOST,
    // Clock.
    F_1970,
    F_AHEAD,
    F_DRIFT,
    F_UNTRUSTED,
    // Machine.
    F_CRASH,
    F_HANG,
    F_FORK,
    F_IGNORES_TERM,
    F_EXITS_AT_ONCE,
    F_NOT_EXECUTABLE,
    F_COMMAND_FAILS,
    F_SHIM_KILLED,
    F_SCRIBBLE,
    F_KILL,
    F_KILL_IN_STEP,
    F_POWER_CUT,
    F_POWER_CUT_IN_STEP,
    F_REBOOT,
    SIM_FAULTS
};

extern const char *const sim_fault_words[SIM_FAULTS];

#endif
