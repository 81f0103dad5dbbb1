// SPDX-License-Identifier: Apache-2.0
// fleet — many machines, each with its very agent, beside one API server.
//
// One world's time for all of them. A node has its own disk, clock, network, port and loop. An agent does not wait: its loop is turned when
// something is there for it (sim_dispatch) or when the first of its timers is due, so that the turns of all agents interleave as they would on
// machines of their own. What the server hears is counted second by second.
// Not a test of what is right (sim_story.c): here it is about how many come when.
#ifndef FLEET_H
#define FLEET_H

#include "sim_world.h"

enum { FLEET_SECONDS = 6 * 3600 };

// What a request costs the server.
enum fleet_ask { ASK_CONNECT, ASK_LIST, ASK_PROBE, ASK_WATCH, ASK_GET, ASK_LEASE, ASK_STATUS, ASK_EVENT, ASKS };
extern const char *const fleet_ask_words[ASKS];

struct fleet;

struct fleet_node {
    struct fleet *fleet;
    char name[32], ns[48];
    struct sim_clock clock;
    struct sim_disk disk;
    struct sim_net net;
    struct port *port;
    struct config config;
    struct loop *loop;
    struct loop_fd *ringing;
    struct agent *agent; // NULL = the machine is off
    struct sim_event wake, next;
    int64_t began_ms; // turns at one moment are counted
    int turns, versions;
    // Since fleet_measure().
    int64_t first_contact_ms, online_ms, told_ms; // -1 = not yet
    int lists;
    bool was_cut; // its power, in the outage
};

struct fleet {
    struct sim sim;
    struct sim_rng rng;
    struct sim_server server;
    struct fleet_node *nodes;
    int n;
    int64_t measured_from_ms; // -1 = not yet
    uint32_t asked[ASKS][FLEET_SECONDS];
    uint64_t turned_away;
    char last_log[LOG_LINES][LOG_LINE_MAX];
    uint64_t n_log;
};

void fleet_init(struct fleet *f, uint64_t seed, int nodes);
void fleet_fini(struct fleet *f);
void fleet_boot(struct fleet *f, int64_t spread_ms); // each machine is switched on at a moment of its own
void fleet_live(struct fleet *f, int64_t until_ms);
void fleet_link(struct fleet *f, enum sim_link link); // of all nodes at once
void fleet_measure(struct fleet *f);                  // from now on
// Of these (1 << ASK_...) together: those in `seconds` from second `from` on; the most in so many seconds that begin there or later.
uint32_t fleet_asked(const struct fleet *f, unsigned asks, int from, int seconds);
uint32_t fleet_worst(const struct fleet *f, unsigned asks, int from, int seconds);

// What happens to one node.
void node_power_cut(struct fleet_node *n, int64_t down_ms);
void node_crash(struct fleet_node *n);    // an instance of its app ends
void node_drift(struct fleet_node *n);    // somebody edits its file
void node_edit_app(struct fleet_node *n); // the user wants another version
void node_edit_file(struct fleet_node *n);
bool node_is_right(struct fleet_node *n, char why[256]); // the machine is as the specs say, and all of it was told

#endif
