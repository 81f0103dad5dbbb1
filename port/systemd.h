// SPDX-License-Identifier: Apache-2.0
// systemd — the port that makes each instance a unit of the machine's systemd. This header is private to port/systemd*.c.
//
//   systemd.c         the verbs: start, stop, signal, forget, each
//   systemd_unit.c    a unit file's name and text, and what is read back from it (pure)
//   systemd_show.c    what `systemctl show` says (pure)
//   systemd_files.c   unit, environment and record of an instance on the disk
//   systemd_ask.c     the one systemctl at a time, and what it is to be asked next
//   systemd_state.c   from its answers and the pokes to the state of an instance; adoption
//   poke.c            what systemd runs when a unit started or ended
//
// Who restarts? While an agent is there, the kind does, by its own rules: an instance that ended is taken over (stopped, so that systemd
// does not start it) before RestartSec is over. While none is there, systemd does, by Restart= in the unit; the agent that comes next finds
// the instance running and counts NRestarts. Instances that are to run without an agent have their unit in the directory of the
// configuration, enabled for the boot. All others, and all where that directory cannot be written, lie in /run and die with the boot.
// What is true of an instance lies in its unit file, in systemd and in the pokes' records, never only in the agent.
#ifndef PORT_SYSTEMD_H
#define PORT_SYSTEMD_H

#include "port/insts.h"
#include "port/records.h"
#include "port/systemd_show.h"

enum sd_step { SD_NOTHING, SD_STOP, SD_KILL, SD_RESET, SD_RELOAD, SD_START, SD_LOOK, SD_VERSION };

struct sd_port {
    struct port port;
    struct port *exec; // runs systemctl, commands and checks; not ours
    struct loop *loop;
    struct clock *clock;
    struct disk *disk;
    char *unit_dir, *state_dir, *systemctl;
    struct records records; // of the pokes, and of stops
    char self[UNIT_PATH_MAX];
    int version;
    bool unit_dir_refused; // read-only: said once
    struct insts insts;
    // systemctl
    bool dirty;       // unit files changed since the last daemon-reload
    bool look;        // something may have changed
    struct buf reset; // forgotten units that failed, each with its NUL: they would stay in systemd's memory
    enum sd_step step;
    struct port_run run;
    struct arena args;
    int64_t retry_ms;   // last delay after a failure of systemctl itself
    struct timer next;  // ask what is to be asked
    struct timer again; // look while something is on its way
    struct timer slow;  // look in any case
    int64_t again_ms;
    struct fs_watch poked;
};

struct sd_inst {
    struct inst_node node;
    struct sd_port *port;
    char unit[UNIT_NAME_MAX], *program, *workdir;
    bool boot;                          // in the directory of the configuration, started at boot
    bool start_due, started;            // to be started; systemctl was told
    bool stop_due, stop_told, kill_due; // the same
    bool stopping;                      // by us
    bool taking_over;                   // it ended, and systemd must not start it again
    bool killable;                      // the last look saw a process that SIGTERM has reached
    bool adopted;                       // by this agent
    bool in_step;                       // named in the systemctl under way
    int64_t grace_ms;                   // of its spec
    int64_t child_start;                // of the main process
    int restarts_before;                // NRestarts that an earlier agent told
    int64_t kill_at;                    // boot-time ms; < 0 = systemd's own time
    struct timer kill;
    bool failed;           // as the last look said
    struct inst_exit seen; // how the main process ended, as the last look said; not known = it did not
};

static inline struct sd_inst *sd_inst_of(struct inst_node *n)
{
    return container_of(n, struct sd_inst, node);
}
#define sd_each(x, p)                                                \
    for (struct list *it_ = (p)->insts.all.next, *next_ = it_->next; \
         it_ != &(p)->insts.all && ((x) = sd_inst_of(container_of(it_, struct inst_node, link)), true); it_ = next_, next_ = it_->next)

// --- systemd_files.c

// Unit, environment and link of a new start. E_EXISTS: a unit of that name is there, and is not ours. x->boot is set as it came out.
int sd_files_make(struct sd_inst *x, const struct inst_spec *s, struct err *e) MUST_USE;
int sd_files_remove(struct sd_inst *x, struct err *e) MUST_USE; // absent is success
// Our unit of that name in either directory. E_NOTFOUND; E_EXISTS: somebody else's.
int sd_unit_read(struct sd_port *p, const char *unit, struct unit_meta *m, bool *boot, struct err *e) MUST_USE;
int sd_units_each(struct sd_port *p, void (*fn)(struct sd_port *p, const char *unit), struct err *e) MUST_USE;

void sd_records_remove(struct sd_port *p, const char *uid);

// --- systemd_ask.c

void sd_ask_init(struct sd_port *p);
void sd_ask_fini(struct sd_port *p);
void sd_ask(struct sd_port *p);        // something is due: in this turn's timers or the next
void sd_look(struct sd_port *p);       // look at all, soon
void sd_look_again(struct sd_port *p); // something is on its way: look a little later, and later still

// --- systemd_state.c

struct sd_inst *sd_inst_new(struct sd_port *p, const char *owner, const char *uid, const struct unit_meta *m); // NULL: no memory
void sd_inst_free(struct sd_inst *x);
void sd_take_show(struct sd_port *p, const char *text); // an answer of `systemctl show`
void sd_never_ran(struct sd_inst *x);                   // stopped before it was started
int sd_adopt(struct sd_port *p, struct err *e) MUST_USE;
void sd_adopt_unit(struct sd_port *p, const char *unit);
void sd_arm_kill(struct sd_inst *x);

#define SD_STOP_RECORD "stop" // when it is to be killed, boot-time ms; -1 = by systemd
#define SD_SEEN_RECORD "seen" // NRestarts that was told

#endif
