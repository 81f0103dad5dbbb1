// SPDX-License-Identifier: Apache-2.0
// cron_priv — what the files of cron share.
#ifndef EXPR_CRON_PRIV_H
#define EXPR_CRON_PRIV_H

#include <stdbool.h>

#include "expr/cron.h"

#define CRON_STAR (UINT64_C(1) << 63)

// A duration as Go writes it, in whole seconds, at least one. E_INVAL.
int cron_parse_every(const char *text, int64_t *s, struct err *e) MUST_USE;

#endif
