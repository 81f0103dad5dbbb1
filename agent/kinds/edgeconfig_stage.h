// SPDX-License-Identifier: Apache-2.0
// edgeconfig_stage — the new files in a private place, each below its own full path, for the validate command to judge.
//
// Lies in <run>/stage/<hash of key>, mode 0700: it dies with the boot and wears no flash.
#ifndef KINDS_EDGECONFIG_STAGE_H
#define KINDS_EDGECONFIG_STAGE_H

#include "kinds/edgeconfig_apply.h"

void cfg_stage_dir(const struct kind_env *env, const char *key, char *out, size_t max);
// Writes all items; what an earlier try left is removed first.
int cfg_stage_write(const struct kind_env *env, const char *key, const struct cfg_item *items, size_t n, struct err *e) MUST_USE;
void cfg_stage_remove(const struct kind_env *env, const char *key);

#endif
