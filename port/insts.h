// SPDX-License-Identifier: Apache-2.0
// insts — the instances of a port in the order of (owner, index, start), and the telling of changes.
//
// Shared by the ports. Telling is always later, from the loop, so that no verb of a port calls back from inside: a change is marked, and
// a timer of this turn or the next calls port->changed() once for each marked instance.
// Not the owner of what embeds a node: the port frees it after insts_del().
#ifndef PORT_INSTS_H
#define PORT_INSTS_H

#include "port/port.h"

struct inst_node {
    struct list link;
    struct inst i;
    bool changed;
};

struct insts {
    struct list all;
    size_t n;
    struct loop *loop;
    struct port *port;
    struct timer tell;
};

// Before, at or behind: by owner, index, start.
int inst_order(const struct inst *a, const struct inst *b);

void insts_init(struct insts *s, struct loop *l, struct port *p);
void insts_fini(struct insts *s); // the nodes must be gone

// Fills node->i of a new start: uid, owner, revision, index, STARTING, started = now.
void insts_fill(struct insts *s, struct inst_node *n, const struct inst_spec *spec);
void insts_add(struct insts *s, struct inst_node *n);
void insts_del(struct insts *s, struct inst_node *n);
void insts_moved(struct insts *s, struct inst_node *n);               // its owner, index or start changed: to its new place
struct inst_node *insts_find(const struct insts *s, const char *uid); // NULL = none
int insts_each(const struct insts *s, const char *owner, int (*fn)(void *ctx, const struct inst *i), void *ctx);
void insts_changed(struct insts *s, struct inst_node *n);

// What every port asks of a spec, whatever it then does with it. E_INVAL.
int inst_spec_check(const struct inst_spec *s, struct err *e) MUST_USE;
bool inst_uid_ok(const char *uid); // [a-z0-9.-]+, no dot in front, shorter than INST_UID_MAX
int log_name_check(const char *name, struct err *e) MUST_USE;

#endif
