// SPDX-License-Identifier: Apache-2.0
// exit_text — how a process ended, for people, with what to do about it when it could not be started.
#ifndef KINDS_EXIT_TEXT_H
#define KINDS_EXIT_TEXT_H

#include "port/port.h"

// "ended with exit code 1", "was ended by signal 9", "could not be started: ...; ...", "ended, and nobody saw how".
void exit_text(const struct inst_exit *x, char *out, size_t max);

#endif
