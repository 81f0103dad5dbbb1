// SPDX-License-Identifier: Apache-2.0
// pretend — commands and checks that only take time: for the ports that run nothing (null, fake).
#ifndef PORT_PRETEND_H
#define PORT_PRETEND_H

#include "port/port.h"

struct pretend {
    struct loop *loop;
    struct list all;
    size_t n_runs, n_checks;
};

void pretend_init(struct pretend *p, struct loop *l);
void pretend_fini(struct pretend *p); // forgets all; their done() is never called

// Calls r->done() after delay_ms with exit code `code`; a delay over the command's time-out ends in E_TIMEOUT. E_INVAL, E_NOMEM, E_BUSY.
int pretend_run(struct pretend *p, struct port_run *r, int64_t delay_ms, int code, struct err *e) MUST_USE;
// Calls c->done() from the loop: yes, or E_OFFLINE. E_INVAL, E_NOMEM, E_BUSY.
int pretend_check(struct pretend *p, struct port_check *c, bool answer, struct err *e) MUST_USE;
// impl of a port_run or port_check; NULL is fine.
void pretend_cancel(void *impl);

#endif
