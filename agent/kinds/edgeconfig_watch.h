// SPDX-License-Identifier: Apache-2.0
// edgeconfig_watch — looks at the directories of an EdgeConfig's files and touches its key when one of them changes.
//
// A help, not a promise: events may be lost and directories may be missing; the periodic pass finds what this does not.
#ifndef KINDS_EDGECONFIG_WATCH_H
#define KINDS_EDGECONFIG_WATCH_H

#include "kinds/edgeconfig_spec.h"
#include "kinds/kind.h"

struct cfg_watches {
    struct list dirs;            // zeroed = none yet
    char revision[INST_REV_MAX]; // of the spec whose paths are looked at
};

// Looks at the directories of these files; what is looked at already stays.
void cfg_watch(struct cfg_watches *w, struct kind_env *env, struct object_state *os, const struct cfg_spec *s);
void cfg_unwatch(struct cfg_watches *w, const struct kind_env *env);

#endif
