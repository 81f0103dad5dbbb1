// SPDX-License-Identifier: Apache-2.0
// process_refs — a process's environment out of Secrets and ConfigMaps, with Kubernetes' rules: envFrom first, a later one over an earlier
// one, env over all; what is optional and absent is left out; a key that is no name of a variable is passed over.
#ifndef KINDS_PROCESS_REFS_H
#define KINDS_PROCESS_REFS_H

#include "kinds/kind.h"
#include "kinds/process.h"
#include "kinds/references.h"

struct process_refs {
    struct references found;
    const char *skipped; // keys that are no names of variables, for an event; "" = none
};
// Declares what the process refers to and puts the values into s->env. In p->arena. With `digest` its revision names the values, too, as soon
// as all are there: keyed with a secret of this machine, so that a status that shows it lets nobody try guesses.
int process_resolve(struct process *s, struct pass *p, bool digest, struct process_refs *out, struct err *e) MUST_USE;

#endif
