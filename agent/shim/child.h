// SPDX-License-Identifier: Apache-2.0
// child — the last steps from a process of ours to the command: control group, limits, user, directory, PATH, exec.
//
// Runs in a process that becomes the command or ends; it may use the heap and stdio, nobody sees them again.
#ifndef SHIM_CHILD_H
#define SHIM_CHILD_H

#include <sys/resource.h>

#include "shim/spec.h"

// Becomes the command. On failure writes one struct shim_report to report_fd (close-on-exec, so that success is its end of file)
// and exits with 127. Standard input, output and error are already in place, everything else is close-on-exec. `core` is the core limit to
// put back, NULL = leave it. An instance (s->uid set) outlives its parent; a command that runs once is killed with it.
_Noreturn void child_exec(const struct shim_spec *s, int report_fd, const struct rlimit *core);

#endif
