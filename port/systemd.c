// SPDX-License-Identifier: Apache-2.0
#include "port/systemd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "port/exec.h"
#include "port/poke.h"

static struct sd_port *self(struct port *p)
{
    return container_of(p, struct sd_port, port);
}

static struct sd_inst *find(struct port *p, const char *uid)
{
    struct inst_node *n = uid != NULL ? insts_find(&self(p)->insts, uid) : NULL;
    return n != NULL ? sd_inst_of(n) : NULL;
}

static const char *find_systemctl(void)
{
    static const char *const places[] = { "/usr/bin/systemctl", "/bin/systemctl" };
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (access(places[i], X_OK) == 0)
            return places[i];
    return "";
}

int port_systemd_here(struct err *e)
{
    if (access("/run/systemd/system", F_OK) != 0)
        return err_set(e, E_UNSUP, "this machine was not booted with systemd");
    return find_systemctl()[0] == '\0' ? err_set(e, E_UNSUP, "there is no systemctl") : 0;
}

static int sd_probe(struct port *port, struct err *e)
{
    if (self(port)->disk->root[0] != '\0')
        return err_set(e, E_UNSUP, "a container cannot make units of the machine");
    return port_systemd_here(e);
}

// --- start

// Not before it is used: a machine with another init system has nothing of this.
static int open_records(struct sd_port *p, struct err *e);

static int fill_meta(struct sd_port *p, const struct inst_spec *s, struct unit_meta *m, struct err *e)
{
    *m = (struct unit_meta){ .grace_ms = s->grace_ms > 0 ? s->grace_ms : 30 * 1000 };
    snprintf(m->workdir, sizeof(m->workdir), "%s", s->exec.workdir != NULL ? s->exec.workdir : "/");
    int rc = unit_program(&s->exec, m->program, e);
    if (rc == 0 && p->self[0] == '\0')
        rc = err_set(e, E_UNSUP, "limpet does not know its own path");
    return rc;
}

static int start_new(struct sd_port *p, const struct inst_spec *s, struct err *e)
{
    struct unit_meta m;
    int rc = open_records(p, e);
    if (rc == 0)
        rc = fill_meta(p, s, &m, e);
    if (rc < 0)
        return rc;
    struct sd_inst *x = sd_inst_new(p, s->owner, s->uid, &m);
    if (x == NULL)
        return err_set(e, E_NOMEM, "no memory for instance %s", s->uid);
    insts_fill(&p->insts, &x->node, s);
    sd_records_remove(p, s->uid);
    rc = sd_files_make(x, s, e);
    if (rc < 0) {
        sd_inst_free(x);
        return rc;
    }
    x->start_due = p->dirty = true;
    insts_add(&p->insts, &x->node);
    sd_ask(p);
    return 0;
}

static int sd_start(struct port *port, const struct inst_spec *s, struct err *e)
{
    struct sd_port *p = self(port);
    struct unit_meta m;
    struct err why = ERR_INIT;
    char unit[UNIT_NAME_MAX];
    bool boot;
    int rc = inst_spec_check(s, e);
    if (rc != 0 || find(port, s->uid) != NULL)
        return rc;
    if (p->insts.n >= PORT_INSTANCES_MAX)
        return err_set(e, E_BUSY, "%d instances are there already, no more are kept", PORT_INSTANCES_MAX);
    unit_name(s->owner, s->uid, unit);
    rc = sd_unit_read(p, unit, &m, &boot, &why);
    if (rc == E_NOTFOUND)
        return start_new(p, s, e);
    if (rc != 0)
        return err_set(e, rc, "%s", why.msg);
    sd_adopt_unit(p, unit); // another agent's
    sd_look(p);
    return 0;
}

// --- stop, signal, forget

static void write_stop(struct sd_inst *x)
{
    char text[32];
    snprintf(text, sizeof(text), "%" PRId64 "\n", x->kill_at);
    (void)records_write(&x->port->records, x->node.i.uid, SD_STOP_RECORD, text);
}

static int sd_stop(struct port *port, const char *uid, int64_t grace_ms, struct err *e UNUSED)
{
    struct sd_inst *x = find(port, uid);
    if (x == NULL || x->node.i.state == INST_EXITED)
        return 0;
    int64_t at = clock_boot(self(port)->clock) + (grace_ms < 0 ? x->grace_ms : grace_ms);
    if (x->stopping && at >= x->kill_at)
        return 0;
    x->kill_at = at;
    write_stop(x);
    sd_arm_kill(x);
    if (!x->stopping) {
        x->stopping = true;
        x->node.i.state = INST_STOPPING;
        insts_changed(&x->port->insts, &x->node);
        if (x->start_due && !x->in_step)
            sd_never_ran(x);
        else
            x->stop_due = true;
    }
    sd_ask(x->port);
    return 0;
}

static int sd_signal(struct port *port, const char *uid, int sig, struct err *e)
{
    struct sd_inst *x = find(port, uid);
    return exec_signal_inst(uid, x != NULL ? x->node.i.pid : 0, x != NULL ? x->child_start : 0, sig, e);
}

static int sd_forget(struct port *port, const char *uid, struct err *e)
{
    struct sd_inst *x = find(port, uid);
    struct sd_port *p = self(port);
    if (x == NULL)
        return 0;
    if (x->node.i.state != INST_EXITED)
        return err_set(e, E_BUSY, "instance %s has not ended", uid);
    int rc = sd_files_remove(x, e);
    if (rc < 0)
        return rc;
    sd_records_remove(p, uid);
    if (x->failed)
        (void)!buf_add(&p->reset, x->unit, strlen(x->unit) + 1, NULL);
    sd_inst_free(x);
    p->dirty = true;
    sd_ask(p);
    return 0;
}

// --- the rest

static int sd_port_adopt(struct port *port, struct err *e)
{
    int rc = open_records(self(port), e);
    return rc < 0 ? rc : sd_adopt(self(port), e);
}

static int sd_port_each(struct port *port, const char *owner, int (*fn)(void *ctx, const struct inst *i), void *ctx, struct err *e UNUSED)
{
    return insts_each(&self(port)->insts, owner, fn, ctx);
}

static int sd_run(struct port *port, struct port_run *r, struct err *e)
{
    return self(port)->exec->ops->run(self(port)->exec, r, e);
}

static void sd_run_cancel(struct port *port, struct port_run *r)
{
    self(port)->exec->ops->run_cancel(self(port)->exec, r);
}

static int sd_check(struct port *port, struct port_check *c, struct err *e)
{
    return self(port)->exec->ops->check(self(port)->exec, c, e);
}

static void sd_check_cancel(struct port *port, struct port_check *c)
{
    self(port)->exec->ops->check_cancel(self(port)->exec, c);
}

static int sd_log_read(struct port *port UNUSED, const char *log, int64_t *offset UNUSED, size_t max UNUSED, struct buf *out UNUSED,
                       struct err *e)
{
    return err_set(e, E_NOTFOUND, "the journal has the log: journalctl --identifier=%s", log);
}

static int sd_log_remove(struct port *port UNUSED, const char *log UNUSED, struct err *e UNUSED)
{
    return 0; // the journal's owner decides how long it keeps what
}

static void sd_free(struct port *port)
{
    struct sd_port *p = self(port);
    sd_ask_fini(p);
    if (p->poked.fn != NULL)
        p->disk->ops->unwatch(p->disk, &p->poked);
    list_each_safe(it, next, &p->insts.all)
        sd_inst_free(sd_inst_of(container_of(it, struct inst_node, link)));
    insts_fini(&p->insts);
    records_fini(&p->records);
    free(p->unit_dir);
    free(p->state_dir);
    free(p->systemctl);
    free(p);
}

static const struct port_ops sd_ops = {
    .name = "systemd",
    .probe = sd_probe,
    .adopt = sd_port_adopt,
    .each = sd_port_each,
    .start = sd_start,
    .stop = sd_stop,
    .signal = sd_signal,
    .forget = sd_forget,
    .run = sd_run,
    .run_cancel = sd_run_cancel,
    .check = sd_check,
    .check_cancel = sd_check_cancel,
    .log_read = sd_log_read,
    .log_remove = sd_log_remove,
    .free = sd_free,
};

// --- making one

static void on_poked(struct fs_watch *w, const char *name)
{
    struct sd_port *p = container_of(w, struct sd_port, poked);
    if (name == NULL || strcmp(name, POKE_FILE) == 0)
        sd_look(p);
}

// The path, not the file: after an upgrade the pokes run the new program. systemd would expand what is no plain path.
static void find_self(const char *path, char out[UNIT_PATH_MAX])
{
    ssize_t n = readlink(path, out, UNIT_PATH_MAX - 1);
    if (n <= 0)
        n = snprintf(out, UNIT_PATH_MAX, "%s", path);
    out[MIN(n, (ssize_t)UNIT_PATH_MAX - 1)] = '\0';
}

static int copy_conf(struct sd_port *p, const struct systemd_port_conf *c, struct err *e)
{
    if (strlen(c->unit_dir) + UNIT_NAME_MAX + 32 >= UNIT_PATH_MAX || strlen(c->state_dir) + INST_UID_MAX + 16 >= UNIT_PATH_MAX ||
        strlen(c->run_dir) + INST_UID_MAX + 32 >= UNIT_PATH_MAX)
        return err_set(e, E_INVAL, "the paths of unit, state and run directory are too long for %d bytes", UNIT_PATH_MAX - 1);
    p->unit_dir = strdup(c->unit_dir);
    p->state_dir = strdup(c->state_dir);
    p->systemctl = strdup(find_systemctl());
    if (asprintf(&p->records.dir, "%s/units", c->run_dir) < 0)
        p->records.dir = NULL;
    find_self(c->self, p->self);
    return p->unit_dir == NULL || p->state_dir == NULL || p->systemctl == NULL || p->records.dir == NULL
               ? err_set(e, E_NOMEM, "no memory for the systemd port")
               : 0;
}

// Without the watch (no inotify to be had) the slow look remains.
static int open_records(struct sd_port *p, struct err *e)
{
    struct err why = ERR_INIT;
    if (p->records.fd >= 0)
        return 0;
    int rc = records_open(&p->records, p->disk, e);
    if (rc < 0)
        return rc;
    p->poked.fn = on_poked;
    if (p->disk->ops->watch(p->disk, &p->poked, p->records.dir, &why) < 0)
        log_warn("systemd", "no-pokes error=\"%s\"", why.msg);
    return 0;
}

int port_systemd_new(struct port **out, struct port *exec, struct loop *l, struct disk *d, const struct systemd_port_conf *c, struct err *e)
{
    struct sd_port *p = calloc(1, sizeof(*p));
    if (p == NULL)
        return err_set(e, E_NOMEM, "no memory for the systemd port");
    *p = (struct sd_port){
        .port = { .ops = &sd_ops }, .exec = exec, .loop = l, .clock = loop_clock(l), .disk = d, .records = RECORDS_INIT("systemd")
    };
    insts_init(&p->insts, l, &p->port);
    sd_ask_init(p);
    int rc = copy_conf(p, c, e);
    if (rc == 0)
        *out = &p->port;
    else
        sd_free(&p->port);
    return rc;
}
