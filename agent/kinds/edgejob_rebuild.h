// SPDX-License-Identifier: Apache-2.0
// edgejob_rebuild — the record of a job, also when there is none any more: made again from the last status and from what runs.
//
// A record may be damaged, or lost with the store, or be of a former object of that name. What was promised holds all the same as far as
// anything still tells: a run that runs is taken over, not repeated; an AtMostOnce job that may have run does not run.
#ifndef KINDS_EDGEJOB_REBUILD_H
#define KINDS_EDGEJOB_REBUILD_H

#include "kinds/edgejob_status.h"
#include "kinds/kind.h"

// The record that counts for this pass. Errors are those of reading; a damaged record is none.
int job_record_get(struct pass *p, const struct job_spec *spec, const struct inst *insts, size_t n, struct job_record *out,
                   struct err *e) MUST_USE;

#endif
