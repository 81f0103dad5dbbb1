// SPDX-License-Identifier: Apache-2.0
// edgeapp — the kind EdgeApp: a program kept running on this machine, in a number of instances.
//
// A pass observes the port, takes over what ended, plans (edgeapp_plan.h), acts, starts the readiness probes that are due and writes
// status. It waits for nothing: what it started is heard of through port->changed(), and the next start or probe is its requeue time.
// An ended instance is forgotten by the port only after its exit is in the durable status.
#ifndef KINDS_EDGEAPP_H
#define KINDS_EDGEAPP_H

#include "kinds/kind.h"

enum { APP_LOG_NAME_MAX = 220 };

// The log's name of one instance, as the port has it: "<ns>_<name>_<index>"; a name too long for a file keeps its head and gets a hash.
void app_log_name(char out[APP_LOG_NAME_MAX], const char *ns, const char *name, int index);
// Is the output of this app in the machine's journal, given the node's default runtime ([port] name)?
bool app_log_in_journal(const struct json *object, const char *dflt);

#endif
