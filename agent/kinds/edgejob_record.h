// SPDX-License-Identifier: Apache-2.0
// edgejob_record — what of a job must neither be repeated nor forgotten: which instants were decided, which runs are under way, what was
// counted. One intent of the object, written before anything that it speaks of happens.
//
// Not the history: what a finished run was like lies in the status (edgejob_status.h) and in its event. The record remembers the names of
// those runs only, for their logs, and their moments while the clock was not to be trusted.
#ifndef KINDS_EDGEJOB_RECORD_H
#define KINDS_EDGEJOB_RECORD_H

#include "base/clock.h"
#include "data/cache.h"
#include "kinds/edgejob_spec.h"

// Runs of one job at the same time; finished ones whose logs are there; stretches of decided instants.
enum { JOB_RUNS_MAX = 16, JOB_KEPT_MAX = 2 * JOB_HISTORY_MAX + JOB_RUNS_MAX, JOB_SPANS_MAX = 4, JOB_ID_MAX = 36, JOB_TEXT_MAX = 200 };

// A run ends as one of these.
enum job_end {
    JOB_NO_END,
    JOB_SUCCEEDED,
    JOB_FAILED,            // the last attempt that backoffLimit allows failed
    JOB_UNKNOWN,           // AtMostOnce, and nobody knows how it ended, or whether it began
    JOB_DEADLINE_EXCEEDED, // activeDeadlineSeconds
    JOB_REPLACED,          // by a later run (Replace), or by a new revision of a one-shot
};
enum { JOB_ENDS = JOB_REPLACED + 1 };
extern const char *const job_end_words[JOB_ENDS];

struct job_run {
    char id[JOB_ID_MAX];         // its name is "<job>-<id>"
    int64_t scheduled_s;         // seconds since 1970; 0 = a one-shot
    char revision[INST_REV_MAX]; // of the attempt that was begun last
    int attempts;                // that were begun
    bool begun;                  // the last one was, and its end was not heard yet; else the next one waits for its time
    bool once;                   // it was begun as AtMostOnce
    enum job_end stop;           // it is being stopped, and this is how it will have ended
    struct instant first;        // when the first attempt was begun
    struct instant since;        // of a run that waits for its next attempt: when the last one ended
};

struct job_kept {
    char id[JOB_ID_MAX];
    bool timed; // the moments below still have to be told anew
    struct instant start, end;
};

// Instants of the schedule that were decided, first and last included: all between them ran, were skipped, or were missed for good.
struct job_span {
    int64_t from, to;
};

struct job_record {
    char uid[OBJ_UID_MAX];   // of the object that it speaks of
    char done[INST_REV_MAX]; // one-shot: the revision that the newest run was made for
    int64_t runs_made;       // one-shots
    char when[JOB_WHEN_MAX]; // the schedule that the following are about
    int64_t since_s;         // instants count from here; 0 = the clock was never trusted
    struct job_span spans[JOB_SPANS_MAX];
    size_t n_spans;
    int64_t last_scheduled_s, last_success_s; // 0 = never
    int64_t succeeded, failed, skipped, missed;
    enum job_end last_end; // of the run that ended last
    char last_text[JOB_TEXT_MAX];
    struct job_run runs[JOB_RUNS_MAX]; // in the order they were made
    size_t n_runs;
    struct job_kept kept[JOB_KEPT_MAX]; // oldest first
    size_t n_kept;
};

// E_NOTFOUND: none; E_CORRUPT: there was one, and it cannot be read.
int job_record_load(struct db *db, const char *key, struct job_record *out, struct err *e) MUST_USE;
// What is there already is not written.
int job_record_save(struct db *db, const char *key, const struct job_record *r, struct err *e) MUST_USE;

struct job_run *job_record_run(struct job_record *r, const char *id); // NULL = none
void job_record_drop(struct job_record *r, const struct job_run *run);
// Remembers a finished run for its log; at the bound the oldest goes (its log was removed long before).
void job_record_keep(struct job_record *r, const char *id, const struct instant *start, const struct instant *end);

// The name of the instance of a run's last attempt: "<12 hex>-<id>-<attempt>". The hex digits name key and uid, so that an object made again
// under its name does not take over the runs of the former one.
void job_inst_uid(char out[INST_UID_MAX], const char *key, const char *obj_uid, const struct job_run *run);
// From such a name back. False: it is none of this object.
bool job_inst_parse(const char *inst_uid, const char *key, const char *obj_uid, struct job_run *out);

#endif
