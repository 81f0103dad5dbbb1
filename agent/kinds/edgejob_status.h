// SPDX-License-Identifier: Apache-2.0
// edgejob_status — a job's runs and record as status, and the history of finished runs from one status to the next.
//
// The history lies in the status alone: `runs`, newest first, as many as the spec keeps.
#ifndef KINDS_EDGEJOB_STATUS_H
#define KINDS_EDGEJOB_STATUS_H

#include "flow/status.h"
#include "kinds/edgejob_plan.h"

enum { JOB_LOG_NAME_MAX = 240 };

// "<job>-<id>".
void job_run_name(char *out, size_t max, const char *job, const char *id);
// The log of a run, as the port has it; all its attempts write there.
void job_log_name(char out[JOB_LOG_NAME_MAX], const char *ns, const char *job, const char *id);

// The tail of a log as text that a status can carry: whole characters, no control characters but tab and newline, at most max bytes.
int job_tail_text(const char *bytes, size_t n, size_t max, struct buf *out, struct err *e) MUST_USE;

// A finished run for the history. output: its tail, "" = none.
struct json *job_run_json(const char *job, const struct job_finished *f, const char *output);
// The history: the new runs (oldest first; taken over) before those of the previous status, within the spec's limits.
struct json *job_history(const struct job_spec *spec, const struct json *prev_runs, struct json *new_runs);
bool job_history_has(const struct json *runs, const char *job, const char *id);
// Tells the moments of a run anew, now that the clock is trusted.
void job_history_correct(struct json *runs, const char *job, const struct job_kept *k, const struct instant *now);

struct job_report {
    const char *job;
    const struct job_spec *spec;
    const struct job_record *record;
    const struct job_seen *seen;
    const struct job_plan *plan;
    const char *zone_error; // why the time zone is not known
    const char *stop_why;   // which policy stopped it
    const char *error;      // a start that the port refused; NULL = none
    const char *waits_for;  // no attempt begins without it; NULL = none waits
};
// Everything but `runs`.
void job_report_write(struct status *s, const struct job_report *r);

#endif
