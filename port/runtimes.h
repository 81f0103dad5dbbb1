// SPDX-License-Identifier: Apache-2.0
// runtimes — several platforms of one machine behind one port: each start names its own (inst_spec.runtime), or takes the node's default.
//
// What has a uid is asked of all, as only one knows it. Commands and checks are the first port's. Not a scheduler: who is named runs it or
// refuses.
#ifndef PORT_RUNTIMES_H
#define PORT_RUNTIMES_H

#include "port/port.h"

enum { RUNTIMES_MAX = 4 };

// Takes the ports, also on failure: they are freed in the opposite order. A port that its probe refuses is not used, and a start on it is
// E_UNSUP with the reason. The first must be usable: E_UNSUP otherwise. `dflt` is the name of the default one; the new port bears it. E_NOMEM.
int port_runtimes_new(struct port **out, struct port *const *ports, size_t n, const char *dflt, struct err *e) MUST_USE;

#endif
