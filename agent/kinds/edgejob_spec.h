// SPDX-License-Identifier: Apache-2.0
// edgejob_spec — what an EdgeJob asks for, decoded, with its defaults. Pure.
//
// Whether the time zone is known is a question to the machine and not answered here.
#ifndef KINDS_EDGEJOB_SPEC_H
#define KINDS_EDGEJOB_SPEC_H

#include "expr/cron.h"
#include "kinds/process.h"

enum { JOB_HISTORY_MAX = 10, JOB_OUTPUT_MAX = 4096, JOB_WHEN_MAX = 17 };

enum job_policy { JOB_ALLOW, JOB_FORBID, JOB_REPLACE };

struct job_spec {
    struct process process;
    bool scheduled; // else it runs once a revision
    struct cron cron;
    const char *schedule, *zone; // zone: "UTC" by default
    char when[JOB_WHEN_MAX];     // names schedule and zone: instants count anew when it changes
    int64_t starting_deadline_s; // -1 = none
    enum job_policy policy;
    bool suspend;
    bool once;               // AtMostOnce
    int backoff_limit;       // attempts after the first
    int64_t active_deadline; // ms a run may take, -1 = none
    int keep_succeeded, keep_failed;
    int output_max; // bytes of the tail that a record keeps
};

// E_INVAL names the field; E_TOOBIG: over the memory of a pass. Texts are borrowed from `spec`.
int job_spec_decode(struct job_spec *s, const struct json *spec, const char *node, struct arena *a, struct err *e) MUST_USE;

#endif
