// SPDX-License-Identifier: Apache-2.0
// sim_plan — what will happen in the world of a seed, as data: who does what, when, with what.
//
// Everything that users, machines and networks do is an act of the plan, drawn before the world begins. An act carries what it needs of
// chance in it, and no act shifts another: one can be left out, and all others are the same. That is how a failure is shrunk.
// Not in the plan: what meets a single request or write by chance while a fault lasts; that comes from the seed's streams.
#ifndef SIM_PLAN_H
#define SIM_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { APPS = 5, CONFIGS = 4, FILES_EACH = 2, PATHS = CONFIGS * FILES_EACH, JOBS = 4, POLICIES = 4, KINDS = 3 };
enum { PLAN_MAX = 160, WORDS_MAX = 160 };

// What programs do that do not as they should.
enum bad_program {
    PROGRAM_CRASHES,
    PROGRAM_HANGS,
    PROGRAM_FORKS,
    PROGRAM_IGNORES_TERM,
    PROGRAM_EXITS_AT_ONCE,
    PROGRAM_NOT_EXECUTABLE,
    PROGRAM_COMMANDS_FAIL,
    PROGRAM_KINDS
};

// Where a byte flips; mostly in a managed file, for after one in the store less can be demanded.
enum flipped { FLIP_STORE, FLIP_STORE_LOG, FLIP_MANAGED, FLIPPED_FILES = 6 };

// Peace follows each but the first; an idle hour follows the last.
enum sim_phase { PHASE_BEGIN, PHASE_CHAOS, PHASE_DOUBT, PHASE_CHAOS_AGAIN, SIM_PHASES };

enum act_kind {
    ACT_EDIT_APP,
    ACT_EDIT_CONFIG,
    ACT_DELETE_APP,
    ACT_DELETE_CONFIG,
    ACT_REPLACE_APP,
    ACT_REPLACE_CONFIG,
    ACT_EDIT_JOB,
    ACT_DELETE_JOB,
    ACT_EDIT_POLICY,
    ACT_BREAK_POLICY,
    ACT_DELETE_POLICY,
    ACT_WIPE_STATUS,
    ACT_CRASH,
    ACT_SHIM_KILL,
    ACT_JOB_SHIM_KILL,
    ACT_SCRIBBLE,
    ACT_REMOVE_FILE,
    ACT_BAD_PROGRAMS,
    ACT_GOOD_PROGRAMS,
    ACT_LINK,
    ACT_LINK_FINE,
    ACT_LOSSY,
    ACT_SLOW,
    ACT_HALF_OPEN,
    ACT_STORM,
    ACT_NONSENSE,
    ACT_TOKEN,
    ACT_CERT,
    ACT_CRD_CHANGED,
    ACT_CRD_REMOVED,
    ACT_ACCOUNT,
    ACT_COMPACT,
    ACT_SERVER_RESTART,
    ACT_KILL,
    ACT_RESTART,
    ACT_POWER_CUT,
    ACT_REBOOT,
    ACT_DIE_IN_STEP,
    ACT_DISK_FULL,
    ACT_DISK_ERRORS,
    ACT_DISK_SLOW,
    ACT_FLIP,
    ACT_CLOCK_AHEAD,
    ACT_CLOCK_DRIFT,
    ACT_CLOCK_RIGHT,
    // Of the phase of doubt alone.
    ACT_DOUBT,
    ACT_LOSE_STORE,
    ACTS
};

// How the clock of a machine stands after a boot.
enum { BOOT_CLOCK_RIGHT, BOOT_CLOCK_BEHIND, BOOT_CLOCK_1970, BOOT_CLOCKS };

struct act {
    int number; // from 1; what ONLY= takes
    enum sim_phase phase;
    int64_t at_ms; // since the phase began
    enum act_kind kind;
    int64_t a, b;  // see the table in sim_plan.c
    uint64_t seed; // of what else it draws
};

struct plan {
    uint64_t seed;
    const char *mode;
    int64_t max_events;
    bool old_server, offline_boot, offline_idle;
    bool policies, pinned; // users have EdgePolicies; flags set what policies set, too
    bool brief;            // it ends with the first peace
    int boot_clock;
    int64_t length_ms[SIM_PHASES];
    struct act acts[PLAN_MAX]; // by phase and time
    size_t n;
};

extern const char *const plan_kinds[KINDS];          // their plurals
extern const char *const plan_policy_keys[POLICIES]; // namespace/name
void plan_make(struct plan *p, uint64_t seed);
// Leaves only the acts with these numbers.
void plan_keep(struct plan *p, const int *numbers, size_t n);
const char *act_words(const struct act *a, char out[WORDS_MAX]);

#endif
