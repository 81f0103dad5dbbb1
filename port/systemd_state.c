// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/log.h"
#include "port/poke.h"
#include "port/systemd.h"
#include "shim/proc.h"

// --- one

static void on_kill(struct timer *t)
{
    struct sd_inst *x = container_of(t, struct sd_inst, kill);
    x->kill_due = true;
    x->port->look = x->port->look || !x->killable;
    sd_ask(x->port);
}

struct sd_inst *sd_inst_new(struct sd_port *p, const char *owner, const char *uid, const struct unit_meta *m)
{
    struct sd_inst *x = calloc(1, sizeof(*x));
    if (x == NULL)
        return NULL;
    x->port = p;
    x->kill_at = -1;
    x->grace_ms = m->grace_ms;
    x->program = strdup(m->program);
    x->workdir = strdup(m->workdir);
    timer_init(&x->kill, on_kill);
    unit_name(owner, uid, x->unit);
    // Its room in the heap is taken now, so that arming it later cannot fail.
    if (x->program == NULL || x->workdir == NULL || timer_in(p->loop, &x->kill, 0) != 0) {
        sd_inst_free(x);
        return NULL;
    }
    timer_cancel(p->loop, &x->kill);
    return x;
}

void sd_inst_free(struct sd_inst *x)
{
    timer_cancel(x->port->loop, &x->kill);
    if (list_linked(&x->node.link))
        insts_del(&x->port->insts, &x->node);
    free(x->program);
    free(x->workdir);
    free(x);
}

void sd_arm_kill(struct sd_inst *x)
{
    if (x->kill_at >= 0)
        (void)timer_in(x->port->loop, &x->kill, x->kill_at - clock_boot(x->port->clock));
}

// --- how it ended

static bool is_ours_now(struct sd_port *p, const struct instant *t)
{
    struct instant now;
    clock_instant(p->clock, &now);
    return strcmp(t->boot_id, now.boot_id) == 0;
}

// A program that was there and looked like one has run, and chose systemd's number for "could not be executed" itself.
static int exec_errno(const struct sd_inst *x)
{
    char magic[2];
    struct stat st;
    if (stat(x->program, &st) != 0)
        return errno;
    if (!S_ISREG(st.st_mode) || access(x->program, X_OK) != 0)
        return EACCES;
    AUTO_CLOSE int fd = open(x->program, O_RDONLY | O_CLOEXEC);
    bool runs = fd >= 0 && read(fd, magic, sizeof(magic)) == 2 && (memcmp(magic, "#!", 2) == 0 || memcmp(magic, "\177E", 2) == 0);
    return runs ? 0 : ENOEXEC;
}

static int chdir_errno(const struct sd_inst *x)
{
    struct stat st;
    if (stat(x->workdir, &st) != 0)
        return errno;
    return S_ISDIR(st.st_mode) ? EACCES : ENOTDIR;
}

// systemd says by an exit code from 200 on what it could not do for a process (systemd.exec(5), "Process exit codes").
static void find_start_error(const struct sd_inst *x, struct inst_exit *out)
{
    static const struct {
        int code, errnum;
        const char *what;
    } steps[] = { { 203, 0, "exec" },           { 200, 0, "chdir" },     { 216, ENOENT, "group" },        { 217, ENOENT, "user" },
                  { 205, EINVAL, "setrlimit" }, { 211, EIO, "keyring" }, { 209, EIO, "standard output" }, { 219, EIO, "control group" } };
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        if (steps[i].code != out->code)
            continue;
        int errnum = out->code == 203 ? exec_errno(x) : out->code == 200 ? chdir_errno(x) : steps[i].errnum;
        if (errnum == 0)
            return;
        *out = (struct inst_exit){ .known = true, .code = -1, .start_errno = errnum, .reason = "StartError" };
        snprintf(out->detail, sizeof(out->detail), "%s %.100s: %s", steps[i].what,
                 out->start_errno != 0 && i == 0 ? x->program
                 : i == 1                        ? x->workdir
                                                 : "",
                 strerror(errnum));
    }
}

static void end(struct sd_inst *x, const struct inst_exit *exit, const struct instant *at)
{
    struct inst *i = &x->node.i;
    struct sd_port *p = x->port;
    i->exit = *exit;
    i->ended = *at;
    i->pid = 0;
    i->state = INST_EXITED;
    x->start_due = x->stop_due = x->kill_due = false;
    timer_cancel(p->loop, &x->kill);
    insts_changed(&p->insts, &x->node);
}

static void refused(struct sd_inst *x, const char *load)
{
    struct inst_exit exit = { .known = true, .code = -1, .start_errno = EINVAL, .reason = "StartError" };
    struct instant now;
    snprintf(exit.detail, sizeof(exit.detail), "systemd does not take the unit: %.60s", load);
    clock_instant(x->port->clock, &now);
    end(x, &exit, &now);
}

void sd_never_ran(struct sd_inst *x)
{
    struct inst_exit exit = { .known = true, .code = -1, .signal = SIGTERM, .reason = "Error", .detail = "stopped before it was started" };
    struct instant now;
    clock_instant(x->port->clock, &now);
    end(x, &exit, &now);
}

// The poke's record says how, and when. Where the poke could not run, systemd's own memory does, if it has not dropped the unit.
static void ended(struct sd_inst *x)
{
    struct sd_port *p = x->port;
    char text[RECORD_MAX];
    struct exit_record r;
    if (!records_read(&p->records, x->node.i.uid, POKE_EXIT, text) || !exit_parse(text, &r) || !is_ours_now(p, &r.ended)) {
        r = (struct exit_record){ .exit = x->seen };
        if (!x->seen.known)
            r.exit = (struct inst_exit){ .code = -1, .reason = "Unknown" };
        clock_instant(p->clock, &r.ended);
    }
    if (r.exit.known && r.exit.code >= 200)
        find_start_error(x, &r.exit);
    if (r.ended.boot_ms < x->node.i.started.boot_ms)
        x->node.i.started = r.ended; // it is the start of a run that came after that we know
    end(x, &r.exit, &r.ended);
}

// --- what a look says

static void note_seen(struct sd_inst *x, const struct show_unit *u)
{
    bool exited = u->exec_code == CLD_EXITED;
    if (u->exec_code == 0)
        return;
    x->seen = (struct inst_exit){ .known = true, .code = exited ? u->exec_status : -1, .signal = exited ? 0 : u->exec_status };
    const char *reason = strcmp(u->result, "oom-kill") == 0 ? "OOMKilled" : exited && u->exec_status == 0 ? "Completed" : "Error";
    snprintf(x->seen.reason, sizeof(x->seen.reason), "%s", reason);
}

static bool read_start(struct sd_inst *x, struct state_record *r)
{
    char text[RECORD_MAX];
    return records_read(&x->port->records, x->node.i.uid, POKE_START, text) && state_parse(text, r) && is_ours_now(x->port, &r->started);
}

// The moment of its start: the poke's word, else systemd's by the monotonic clock.
static void take_start(struct sd_inst *x, const struct show_unit *u)
{
    struct sd_port *p = x->port;
    struct inst *i = &x->node.i;
    struct state_record r;
    if (read_start(x, &r) && r.child_pid == u->main_pid) {
        i->started = r.started;
    } else {
        clock_instant(p->clock, &i->started);
        int64_t ago_ms = MAX(clock_mono(p->clock) - u->started_us / 1000, 0);
        i->started.boot_ms -= ago_ms;
        i->started.wall_us -= ago_ms * 1000;
    }
    insts_moved(&p->insts, &x->node);
}

static void note_restarts(struct sd_inst *x, const struct show_unit *u)
{
    char text[16];
    if (u->restarts - x->restarts_before == x->node.i.restarts)
        return;
    if (u->restarts < x->restarts_before)
        x->restarts_before = 0; // systemd counts anew since somebody else started it
    x->node.i.restarts = u->restarts - x->restarts_before;
    snprintf(text, sizeof(text), "%d", u->restarts);
    (void)records_write(&x->port->records, x->node.i.uid, SD_SEEN_RECORD, text);
    insts_changed(&x->port->insts, &x->node);
}

static void runs(struct sd_inst *x, const struct show_unit *u)
{
    struct inst *i = &x->node.i;
    bool new = i->pid != u->main_pid;
    if (x->taking_over && !x->stop_told) // systemd was faster: it runs again
        x->taking_over = x->stop_due = false;
    if (new) {
        i->pid = u->main_pid;
        x->child_start = proc_start(u->main_pid);
        x->seen = (struct inst_exit){ 0 };
        take_start(x, u);
    }
    enum inst_state state = x->stopping ? INST_STOPPING : INST_RUNNING;
    if (new || i->state != state)
        insts_changed(&x->port->insts, &x->node);
    i->state = state;
    note_restarts(x, u);
}

// It ended, and systemd is about to start it again: that is the kind's business now.
static void take_over(struct sd_inst *x)
{
    if (!x->stopping && !x->taking_over)
        x->stop_due = true;
    x->taking_over = true;
}

// An agent died between writing the unit and starting it, or somebody cancelled that.
static bool was_never_started(const struct sd_inst *x)
{
    char text[RECORD_MAX];
    return x->adopted && !x->stopping && !x->taking_over && !x->seen.known && x->node.i.pid == 0 &&
           !records_read(&x->port->records, x->node.i.uid, POKE_EXIT, text) &&
           !records_read(&x->port->records, x->node.i.uid, POKE_START, text);
}

static void inactive(struct sd_inst *x, const struct show_unit *u)
{
    if (u != NULL && u->has_job) {
        sd_look_again(x->port);
    } else if (was_never_started(x)) {
        x->adopted = x->started = false; // once
        x->start_due = x->port->dirty = true;
    } else if (u != NULL && strcmp(u->load, "loaded") != 0 && strcmp(u->load, "not-found") != 0) {
        refused(x, u->load);
    } else {
        ended(x);
    }
}

// The poke is its last step before it is active, and tells the moment of its start.
static bool has_poked(struct sd_inst *x, const struct show_unit *u)
{
    struct state_record r;
    return strcmp(u->sub, "start-post") == 0 && read_start(x, &r) && r.child_pid == u->main_pid;
}

static void take_unit(struct sd_inst *x, const struct show_unit *u)
{
    x->killable = false;
    x->failed = u != NULL && strcmp(u->sub, "failed") == 0;
    if (u == NULL || u->active == SHOW_INACTIVE) {
        if (u != NULL)
            note_seen(x, u);
        inactive(x, u);
        return;
    }
    if (u->main_pid == 0)
        note_seen(x, u);
    if (u->main_pid > 0 && (u->active == SHOW_ACTIVE || has_poked(x, u))) {
        runs(x, u);
        return;
    }
    if (strncmp(u->sub, "auto-restart", 12) == 0)
        take_over(x);
    x->killable = u->active == SHOW_DEACTIVATING && strcmp(u->sub, "stop-post") != 0 && strncmp(u->sub, "final", 5) != 0;
    sd_look_again(x->port);
}

static struct sd_inst *find_unit(struct sd_port *p, const char *unit)
{
    struct sd_inst *x;
    sd_each(x, p) if (strcmp(x->unit, unit) == 0) return x;
    return NULL;
}

// What was told to start, or may have been by another agent, and has not ended.
static bool is_known(const struct sd_inst *x)
{
    return (x->started || x->adopted) && !x->start_due && x->node.i.state != INST_EXITED;
}

void sd_take_show(struct sd_port *p, const char *text)
{
    struct show_unit u;
    struct sd_inst *x;
    sd_each(x, p) x->in_step = false;
    while (show_next(&text, &u)) {
        x = find_unit(p, u.id);
        if (x == NULL || !is_known(x))
            continue;
        x->in_step = true; // seen
        take_unit(x, &u);
    }
    sd_each(x, p)
    {
        bool seen = x->in_step;
        x->in_step = false;
        if (!seen && is_known(x))
            take_unit(x, NULL);
    }
}

// --- adoption

static void take_stop(struct sd_inst *x)
{
    char text[RECORD_MAX];
    if (!records_read(&x->port->records, x->node.i.uid, SD_STOP_RECORD, text))
        return;
    x->kill_at = strtoll(text, NULL, 10);
    x->stopping = x->stop_due = true; // told again: the earlier agent may have died before it told systemd
    x->node.i.state = INST_STOPPING;
    sd_arm_kill(x);
}

// The process that its last poke told of is there: it runs, without waiting for systemd's word.
static void take_running(struct sd_inst *x)
{
    struct state_record r;
    if (!read_start(x, &r) || !proc_is(r.child_pid, r.child_start))
        return;
    x->node.i.pid = r.child_pid;
    x->node.i.started = r.started;
    x->node.i.state = INST_RUNNING;
    x->child_start = r.child_start;
}

void sd_adopt_unit(struct sd_port *p, const char *unit)
{
    struct unit_meta m;
    struct err why = ERR_INIT;
    bool boot;
    char text[RECORD_MAX];
    int rc = sd_unit_read(p, unit, &m, &boot, &why);
    if (rc < 0) {
        log_warn("systemd", "not-adopted unit=%s reason=\"%s\"", unit, why.msg);
        return;
    }
    struct sd_inst *x = insts_find(&p->insts, m.uid) == NULL ? sd_inst_new(p, m.owner, m.uid, &m) : NULL;
    if (x == NULL)
        return;
    struct inst_spec s = { .uid = m.uid, .owner = m.owner, .revision = m.revision, .index = m.index };
    insts_fill(&p->insts, &x->node, &s);
    snprintf(x->unit, sizeof(x->unit), "%s", unit);
    x->boot = boot;
    x->adopted = true;
    if (records_read(&p->records, m.uid, SD_SEEN_RECORD, text))
        x->restarts_before = (int)unit_number(text, INT_MAX);
    take_running(x);
    take_stop(x);
    insts_add(&p->insts, &x->node);
    insts_changed(&p->insts, &x->node);
}

int sd_adopt(struct sd_port *p, struct err *e)
{
    int rc = sd_units_each(p, sd_adopt_unit, e);
    p->look = p->insts.n > 0;
    sd_ask(p); // for systemd's version, at least
    return rc;
}
