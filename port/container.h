// SPDX-License-Identifier: Apache-2.0
// container — the port that makes each instance a container of podman or docker. This header is private to port/container*.c.
//
//   container.c         the verbs: start, stop, signal, forget, each; commands in a container
//   container_args.c    the command that makes a container (pure)
//   container_show.c    what the tools say (pure)
//   container_ask.c     the one tool at a time, and what it is to be asked next
//   container_state.c   from its answers to the state of an instance; records and adoption
//   container_image.c   is an image there, and bringing it; beside the one tool, for it may take long
//
// Who restarts? The kind: containers are made with --restart=no, so that nothing starts while no agent is there. What runs outlives the agent.
// How does it hear of an end? By a pidfd of the container's first process, which costs nothing, where `podman events` would be a second
// process of 40 MB; what the tool says then (exit code, OOMKilled) is what counts. A look at all of them every 5 min sees the rest.
// What is true of an instance lies in its container and its labels, and, in this boot, in a record: a container of ours without a record
// that has ended is a leftover, and removed. Only ids that carry our labels and this agent's directory are ever removed or signalled.
#ifndef PORT_CONTAINER_H
#define PORT_CONTAINER_H

#include "port/container_args.h"
#include "port/insts.h"
#include "port/records.h"

enum ct_step { CT_NOTHING, CT_VERSION, CT_STOP, CT_KILL, CT_REMOVE, CT_LIST, CT_INSPECT, CT_START, CT_RUN };
enum { CT_IMAGES_MAX = 512, CT_OUTPUT_MAX = 2 * 1024 * 1024 };

struct ct_image;

struct ct_port {
    struct port port;
    struct port *exec; // runs the tool, commands and checks; not ours
    struct loop *loop;
    struct clock *clock;
    struct disk *disk;
    char *wanted, *used; // name of the tool; directory that says that containers were made
    struct records records;
    char tool[CONTAINER_TOOL_MAX];
    struct insts insts;
    // the tool
    bool asked_version;
    enum container_tool kind;
    bool look;         // something may have changed
    struct buf ids;    // of the look under way, each with its NUL
    bool partial;      // they are not all
    struct buf remove; // ids of forgotten ones, each with its NUL
    enum ct_step step;
    struct ct_inst *one; // whom CT_STOP, CT_KILL, CT_START and CT_RUN are about; NULL = it is gone
    struct port_run run;
    struct arena args;
    int64_t retry_ms;
    struct timer next, again, slow;
    int64_t again_ms;
    // images
    struct list images;
    size_t n_images;
    struct ct_image *busy; // asked for now
    struct port_run image_run;
    struct arena image_args;
    struct timer image_next;
    struct list inside; // commands in containers
};

struct ct_inst {
    struct inst_node node;
    struct ct_port *port;
    char id[CONTAINER_ID_MAX];         // "" = not known
    char signal[CONTAINER_SIGNAL_MAX]; // that asks it to end
    struct container_command command;  // until it was used
    bool run_due, start_due;           // to be made; made by an earlier agent, and to be started
    bool recorded;                     // only its record is known, of an earlier agent
    bool start_tried;
    bool stopping, stop_due, stop_told, kill_due;
    int64_t grace_ms, kill_at; // boot-time ms
    int64_t child_start;       // of the first process
    struct timer kill;
    struct loop_fd process; // pidfd
    bool has_failed, seen;
    struct inst_exit failure; // of the start
};

static inline struct ct_inst *ct_inst_of(struct inst_node *n)
{
    return container_of(n, struct ct_inst, node);
}
#define ct_each(x, p)                                                \
    for (struct list *it_ = (p)->insts.all.next, *next_ = it_->next; \
         it_ != &(p)->insts.all && ((x) = ct_inst_of(container_of(it_, struct inst_node, link)), true); it_ = next_, next_ = it_->next)

// --- container_ask.c

void ct_ask_init(struct ct_port *p);
void ct_ask_fini(struct ct_port *p);
void ct_ask(struct ct_port *p);
void ct_look(struct ct_port *p);
void ct_look_again(struct ct_port *p); // something is on its way: look a little later, and later still
// The tool's own environment: what it needs of the agent's; with what a registry behind a proxy needs. `more` may be NULL. NULL: no memory.
const char **ct_environment(struct arena *a, bool network, const char *const *more);

// --- container_state.c

struct ct_inst *ct_inst_new(struct ct_port *p); // NULL: no memory
void ct_inst_free(struct ct_inst *x);
void ct_end(struct ct_inst *x, const struct inst_exit *exit, const struct instant *at);
void ct_never_ran(struct ct_inst *x);                                                     // stopped before it was started
void ct_run_failed(struct ct_inst *x, int code, const char *output, const struct err *e); // how is told once a look saw what is left
void ct_take_looked(struct ct_port *p, const char *text, bool partial);
int ct_adopt(struct ct_port *p, struct err *e) MUST_USE;
void ct_arm_kill(struct ct_inst *x);
int ct_open_records(struct ct_port *p, struct err *e) MUST_USE;
bool ct_record_state(struct ct_inst *x);
void ct_records_remove(struct ct_port *p, const char *uid);

#define CT_STATE_RECORD "state"
#define CT_STOP_RECORD "stop" // when it is to be killed, boot-time ms

// --- container_image.c

void ct_images_init(struct ct_port *p);
void ct_images_fini(struct ct_port *p);
int ct_image(struct port *port, const char *owner, const char *revision, const char *image, enum image_pull pull, struct image_view *out,
             struct err *e) MUST_USE;
void ct_image_lost(struct ct_port *p, const char *owner); // a start found that it is not there

#endif
