// SPDX-License-Identifier: Apache-2.0
// edgejob_plan — from a job's spec, its record, what runs and the time to what becomes of it: who ended and how, what begins, what is
// stopped. Pure: it changes the record that it is given and starts nothing.
//
// Decide, commit, act. What the plan changes in the record must be durable before it is acted upon: an attempt that the plan begins is
// started by the first pass that reads it from a committed record, in the same agent (`armed`). A begun attempt without an instance that this
// agent did not begin itself is one that nobody knows about: it may have run.
// Only stopping needs no commit: what has to end, ends, also on a full disk.
//
// Backoff as in a Kubernetes Job: 10 s doubling to 6 min between attempts of a run, by the boot clock. Catch-ups (LATE_S and more after their
// instant) of several jobs are spread over JOB_SPREAD_MS by `spread`, which is the job's own.
#ifndef KINDS_EDGEJOB_PLAN_H
#define KINDS_EDGEJOB_PLAN_H

#include "kinds/edgejob_when.h"

enum { JOB_BACKOFF_FIRST_MS = 10000, JOB_BACKOFF_MAX_MS = 360000, JOB_LATE_S = 10, JOB_SPREAD_MS = 60000 };

struct job_now {
    struct instant at; // its boot time decides, its wall time is used where `trusted`
    int64_t wall_s;
};

// What the plan is made from, besides the record.
struct job_seen {
    const struct job_spec *spec;
    const struct tz *zone;    // NULL = UTC
    bool zone_ok;             // the time zone is known on this machine
    bool waits;               // for what it refers to: no attempt begins
    bool stopped;             // by a policy, as the node is offline: nothing begins, what runs is ended
    const struct inst *insts; // of this object
    size_t n_insts;
    const char *key, *uid;
    uint64_t armed[JOB_RUNS_MAX]; // hashes of the attempts that this agent began and did not start yet; 0 = none
    struct job_now now;
    uint64_t spread;       // of this job: any number, always the same
    int64_t late_since_ms; // boot time when a catch-up was first seen to be due; -1 = none. Kept by the caller
};

struct job_finished {
    struct job_run run;
    enum job_end end;
    char text[JOB_TEXT_MAX]; // for people
    bool ran;                // its last attempt has an instance, and `exit` says how it ended
    struct inst_exit exit;
    struct instant start, ended;
};

enum job_note_kind { JOB_NOTE_SKIPPED, JOB_NOTE_MISSED, JOB_NOTE_RETRY, JOB_NOTE_FULL };
struct job_note {
    enum job_note_kind kind;
    int64_t count;     // missed
    int64_t instant_s; // skipped
    int64_t delay_ms;  // retry
    struct inst_exit exit;
};

enum job_step_kind { JOB_START, JOB_STOP, JOB_FORGET };
struct job_step {
    enum job_step_kind kind;
    char run[JOB_ID_MAX];    // JOB_START
    const struct inst *inst; // the others
};

enum { JOB_NOTES_MAX = JOB_RUNS_MAX + 2, JOB_STEPS_MAX = JOB_RUNS_MAX + 128 };

struct job_plan {
    bool changed; // the record: nothing of `steps` but JOB_STOP before it is committed
    struct job_finished finished[2 * JOB_RUNS_MAX];
    size_t n_finished;
    struct job_note notes[JOB_NOTES_MAX];
    size_t n_notes;
    struct job_step steps[JOB_STEPS_MAX];
    size_t n_steps;
    uint64_t begun[JOB_RUNS_MAX]; // to be armed
    size_t n_begun;
    int64_t late_since_ms;
    int64_t next_instant_s; // of the schedule; -1 = none or unknown
    int64_t wait_ms;        // until it has to be looked at again; INT64_MAX = no time decides
};

void job_plan(const struct job_seen *seen, struct job_record *r, struct job_plan *out);

int64_t job_backoff_ms(int attempts);
uint64_t job_inst_hash(const char *inst_uid);
// The live or ended instance of a run's last attempt; NULL = none.
const struct inst *job_run_inst(const struct job_seen *seen, const struct job_run *run);
// How old a moment is. -1: of another boot, nobody knows.
int64_t job_age_ms(const struct instant *then, const struct instant *now);

#endif
