// SPDX-License-Identifier: Apache-2.0
// edgejob — the kind EdgeJob: a program that runs to its end, once or by a schedule.
//
// A pass reads the record (edgejob_record.h) and the port, plans (edgejob_plan.h), writes record, status and events, and acts on what an
// earlier pass committed. Attempts are instances of the port: they live under their own supervisor and are not noticed by a restart of
// the agent. An ended one is forgotten by the port only after its end is in the committed record.
#ifndef KINDS_EDGEJOB_H
#define KINDS_EDGEJOB_H

#include "kinds/edgejob_status.h"
#include "kinds/kind.h"

// The log of one run of a job, for `limpet logs`. run: its name or id; NULL = the newest, which `status` tells. E_NOTFOUND: it has none.
int job_log_find(const struct json *status, const char *ns, const char *job, const char *run, char out[JOB_LOG_NAME_MAX],
                 struct err *e) MUST_USE;

#endif
