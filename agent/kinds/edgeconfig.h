// SPDX-License-Identifier: Apache-2.0
// edgeconfig — the kind EdgeConfig: files kept as given, with validation before and a command after a change.
//
// A pass looks at every file, and in this order, each only when needed: validates what is new, saves what lies there and writes the intents
// (commit), gives back files that left the list, writes, runs the onChange that is owed. A file found changed by somebody else is drift: it
// is put right without validation, counted, and backed off from when the other writer keeps at it (edgeconfig_fight.h).
// Directories made for a file are not removed with it. A deleted EdgeConfig gives its files back and runs no onChange: the command left
// with the spec.
#ifndef KINDS_EDGECONFIG_H
#define KINDS_EDGECONFIG_H

#include "kinds/edgeconfig_apply.h"
#include "kinds/edgeconfig_fight.h"

#endif
