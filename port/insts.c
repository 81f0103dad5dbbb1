// SPDX-License-Identifier: Apache-2.0
#include "port/insts.h"

#include <stdio.h>
#include <string.h>

enum { LOG_NAME_MAX = 160 };

static struct inst_node *node_of(struct list *l)
{
    return container_of(l, struct inst_node, link);
}

// --- telling

// The callback may start, stop and forget: after each one the walk begins anew, and each round unmarks one.
static bool tell_one(struct insts *s)
{
    char owner[INST_OWNER_MAX];
    list_each(it, &s->all) {
        struct inst_node *n = node_of(it);
        if (!n->changed)
            continue;
        n->changed = false;
        memcpy(owner, n->i.owner, sizeof(owner));
        if (s->port->changed != NULL)
            s->port->changed(s->port->ctx, owner);
        return true;
    }
    return false;
}

// At most as many as there are: a callback that changes what it is told about is told again in the next turn.
static void tell(struct timer *t)
{
    struct insts *s = container_of(t, struct insts, tell);
    size_t left = s->n;
    while (left > 0 && tell_one(s))
        left--;
}

// The heap has kept the room that insts_init() took; without memory all the same, it is told with the next change.
void insts_changed(struct insts *s, struct inst_node *n)
{
    n->changed = true;
    (void)timer_in(s->loop, &s->tell, 0);
}

void insts_init(struct insts *s, struct loop *l, struct port *p)
{
    *s = (struct insts){ .loop = l, .port = p };
    list_init(&s->all);
    timer_init(&s->tell, tell);
    if (timer_in(l, &s->tell, 0) == 0)
        timer_cancel(l, &s->tell);
}

void insts_fini(struct insts *s)
{
    timer_cancel(s->loop, &s->tell);
}

// --- order

int inst_order(const struct inst *a, const struct inst *b)
{
    int r = strcmp(a->owner, b->owner);
    if (r == 0)
        r = (a->index > b->index) - (a->index < b->index);
    if (r == 0)
        r = (a->started.boot_ms > b->started.boot_ms) - (a->started.boot_ms < b->started.boot_ms);
    return r;
}

static void insert(struct insts *s, struct inst_node *n)
{
    struct list *at = s->all.prev;
    while (at != &s->all && inst_order(&node_of(at)->i, &n->i) > 0)
        at = at->prev;
    list_add_tail(at->next, &n->link);
}

void insts_fill(struct insts *s, struct inst_node *n, const struct inst_spec *spec)
{
    *n = (struct inst_node){ .i = { .index = spec->index, .state = INST_STARTING } };
    snprintf(n->i.uid, sizeof(n->i.uid), "%s", spec->uid);
    snprintf(n->i.owner, sizeof(n->i.owner), "%s", spec->owner);
    snprintf(n->i.revision, sizeof(n->i.revision), "%s", spec->revision != NULL ? spec->revision : "");
    clock_instant(loop_clock(s->loop), &n->i.started);
}

void insts_add(struct insts *s, struct inst_node *n)
{
    insert(s, n);
    s->n++;
}

void insts_del(struct insts *s, struct inst_node *n)
{
    list_del(&n->link);
    s->n--;
}

void insts_moved(struct insts *s, struct inst_node *n)
{
    list_del(&n->link);
    insert(s, n);
}

struct inst_node *insts_find(const struct insts *s, const char *uid)
{
    list_each(it, &s->all)
        if (strcmp(node_of(it)->i.uid, uid) == 0)
            return node_of(it);
    return NULL;
}

int insts_each(const struct insts *s, const char *owner, int (*fn)(void *ctx, const struct inst *i), void *ctx)
{
    int r = 0;
    list_each(it, &s->all) {
        const struct inst *i = &node_of(it)->i;
        if (owner == NULL || strcmp(i->owner, owner) == 0)
            r = fn(ctx, i);
        if (r != 0)
            break;
    }
    return r;
}

// --- what may be asked for

bool inst_uid_ok(const char *uid)
{
    size_t n = uid != NULL ? strlen(uid) : 0;
    return n > 0 && n < INST_UID_MAX && uid[0] != '.' && strspn(uid, "abcdefghijklmnopqrstuvwxyz0123456789.-") == n;
}

// They become lines of a record.
static int check_line(const char *s, size_t size, const char *what, struct err *e)
{
    if (strlen(s) >= size)
        return err_set(e, E_INVAL, "%s: longer than %zu bytes", what, size - 1);
    for (; *s != '\0'; s++)
        if ((unsigned char)*s < ' ')
            return err_set(e, E_INVAL, "%s: has a control character", what);
    return 0;
}

int log_name_check(const char *name, struct err *e)
{
    if (name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL)
        return err_set(e, E_INVAL, "log name \"%s\": not a plain file name", name);
    return check_line(name, LOG_NAME_MAX, "log name", e);
}

int inst_spec_check(const struct inst_spec *s, struct err *e)
{
    if (!inst_uid_ok(s->uid))
        return err_set(e, E_INVAL, "instance uid \"%.80s\": not [a-z0-9.-]+ shorter than %d", s->uid != NULL ? s->uid : "", INST_UID_MAX);
    if (s->owner == NULL || s->owner[0] == '\0')
        return err_set(e, E_INVAL, "instance %s has no owner", s->uid);
    bool no_argv = s->exec.argv == NULL || s->exec.argv[0] == NULL;
    if (no_argv ? s->image == NULL || s->entrypoint : s->exec.argv[0][0] == '\0' && (s->image == NULL || s->entrypoint))
        return err_set(e, E_INVAL, "instance %s has no command", s->uid);
    if (s->log_max < 0 || s->log_files < 0 || s->log_files > 16 || s->grace_ms < 0)
        return err_set(e, E_INVAL, "instance %s: log size, log files (at most 16) and grace cannot be negative", s->uid);
    int r = check_line(s->owner, INST_OWNER_MAX, "owner", e);
    if (r == 0 && s->revision != NULL)
        r = check_line(s->revision, INST_REV_MAX, "revision", e);
    if (r == 0 && s->log_name != NULL)
        r = log_name_check(s->log_name, e);
    return r;
}
