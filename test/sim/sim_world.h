// SPDX-License-Identifier: Apache-2.0
// sim_world — one machine with its agent, one server, one network, and what happens to them.
//
// sim_plan.c draws what will happen; sim_story.c plays it: chaos, peace, doubt; sim_users.c and sim_acts.c do each act; sim_machine.c lets
// the agent live and die. sim_check.c knows what must be true at peace, sim_rules.c what must be true at any moment; sim_witness.c writes
// down what the agent promised, and looks at each thing the server accepts.
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "flow/agent.h"
#include "sim_disk.h"
#include "sim_net.h"
#include "sim_plan.h"
#include "sim_policy.h"
#include "sim_server.h"

enum { LOG_LINES = 120, LOG_LINE_MAX = 300 };

// The fake port as the machine's platform: what a dead agent wants does not happen, what a live one does is written down.
struct sim_port {
    struct sim *sim;
    struct port *port;
    struct port_ops ops; // the fake's own, with ours in front
    const struct port_ops *fake;
    struct fake_behaviour normal, now;
    enum bad_program bad; // what is wrong with `now`
    bool is_bad;
    uint64_t starts, stops, logs_removed;
    int64_t change_began_ms[CONFIGS]; // the last onChange of each config that went well, -1 = none
    int64_t change_ends_ms[CONFIGS];
};

// An event that the agent committed to its outbox.
struct promise {
    struct list link;
    int64_t seq; // its place in the ring
    char name[SIM_NAME_MAX];
    int64_t after_us, at_us; // true times: the look at the outbox that did not show it yet, and the one that did
    int boot;
    bool trusted, kept;
    bool offline, online; // it tells of an outage: its beginning, its end
};

// A status that the agent committed to its outbox.
struct version {
    struct list link;
    char key[200], uid[OBJ_UID_MAX];
    int64_t seq;
    uint64_t hash;
    bool let_through; // it can be of what a window let through, while a newer one waits
};

// The ring of events as a look finds it; not valid where there are too many.
enum { RING_MAX = 100 };
struct ring_event {
    int64_t seq;
    bool warning, waits;
};
struct ring {
    bool valid;
    int kind; // enum outbox_shed, -1 = more than one can be in force
    int life;
    int64_t dropped;
    size_t n;
    struct ring_event at[RING_MAX];
};

struct witness {
    struct list promises, versions;
    struct ring ring;
    int64_t last_seq;
    int64_t seen_us;      // true time of the last look at the outbox
    int64_t life_us;      // when the agent that lived then was started
    int64_t readable_ms;  // when the store that cannot be read now could last; 0 = it can be read
    uint64_t commits;     // seen so far, of the agent that lives
    int64_t committed_ms; // when the last of them was seen
    uint64_t failures;    // its commits that had failed then: what was in one may show later
    bool store_rots;      // since then the store may forget, and say older things again
    int64_t rot_ms;       // when rows may have gone, for the last time
    uint64_t salvaged;    // losses that the store of this life knows of
    bool rot_unread;      // damaged, and no agent opened it since
    bool log_rots;        // that was in its log
};

// A place where configs write.
struct managed_path {
    char path[64];
    bool settled;      // owned and right at the last peace, and nobody touched it since
    bool released;     // since then
    bool before_known; // what lay there before it was owned
    char before[32];   // "" = nothing
    char policy[16];   // of its last owner
};

// What lay at a managed path before the agent wrote there last.
struct undo {
    bool can, orphan; // orphan: the agent died right after it
    char text[48];
    uint64_t nth;
    int64_t at_ms;
};

// What sim_rules.c remembers. Off where users go past sim_users.c.
enum {
    RULES_REPORTS = 65, // the rate of a second (50), its ends, and one burst (10)
    RULES_TRIES = 60    // of the link in a minute
};
struct rules {
    bool on;
    struct list wanted, started, runs; // runs: of jobs
    uint64_t nth;
    bool jobs_forgotten; // the store was lost: what it knew of runs is not to be had again
    // Since when the agent of that life could begin what is due; which spec of a job it has, and since when.
    int64_t calm_since_ms, job_spec_ms, jobs_looked_ms, disk_well_ms;
    int calm_life;
    uint64_t job_spec;
    // Of apps: which spec is seen to run as a whole, since when; instances stopped to try again what was given up before the store was lost.
    int64_t whole_since_ms[APPS], apps_looked_ms;
    uint64_t whole_of[APPS], second_tries;
    uint64_t written[PATHS]; // the place in history of what the agent wrote there last
    struct undo undo[PATHS];
    int64_t reports_ms[RULES_REPORTS], tries_ms[RULES_TRIES];
    uint64_t n_reports, n_tries;
    struct list put_off; // reports with a Retry-After
    int64_t watches_ms;  // when it was all right that a watch is open, or none was
};

// What lasts for a while: when it ends.
struct weather {
    struct sim_event lossy, slow, storm, nonsense, token, cert, crd, account, full, errors, slow_disk, ahead, drift;
};

struct world {
    struct sim sim;
    struct sim_rng rng;
    struct sim_clock clock;
    struct sim_disk disk;
    struct sim_server server;
    struct sim_net net;
    struct sim_port port;
    struct witness witness;
    struct rules rules;
    struct policies policies;
    // The agent, NULL = dead. The loop is the next one's then.
    struct loop *loop;
    struct config config;
    struct agent *agent;
    bool fatal_is_power_cut;
    int64_t fatal_down_ms;
    int64_t comes_back_ms; // of a dead one; INT64_MAX = when somebody starts it
    int lives;
    int64_t life_us; // true time when the last one was started
    // What the seed made of it.
    const char *mode;
    char cluster[40]; // uid of kube-system when the node was joined, as its identity has it
    int64_t max_events;
    struct managed_path paths[PATHS];
    struct sim_event minute;
    int64_t lease_rv, lease_moved_ms; // as check_right() saw it last
    bool store_was_lost;              // in this doubt
    bool store_went_back;             // in this doubt, to what lay before damage to its log
    struct weather weather;
    char log[LOG_LINES][LOG_LINE_MAX];
    uint64_t n_log;
};

// sim_port.c
void sim_port_init(struct sim_port *p, struct sim *s, struct loop *l);
void sim_port_agent_died(struct sim_port *p, struct loop *next);
void sim_port_reboot(struct sim_port *p);
int sim_port_index_of_config(const char *name); // "cfg-2" -> 2, -1 = none

// sim_machine.c
void world_init(struct world *w, uint64_t seed, bool verbose);
void world_fini(struct world *w);
void world_live(struct world *w, int64_t for_ms); // time passes; who is dead comes back when due
void agent_start_now(struct world *w);
void agent_kill(struct world *w, int64_t down_ms);    // kill -9
void agent_restart(struct world *w, int64_t down_ms); // stopped in good order
void machine_power_cut(struct world *w, int64_t down_ms);
void machine_reboot(struct world *w, int64_t down_ms);
void world_shows_log(const struct world *w, size_t last);

// For tests of the simulator itself: looks at a world after each turn, and may break a rule of its own.
extern void (*sim_hook)(struct world *w);

// sim_users.c
const char *managed_path_of(int path, char out[64]);
void user_edits_app(struct world *w, const struct act *a);
void user_deletes_app(struct world *w, const struct act *a);
void user_replaces_app(struct world *w, const struct act *a);
void user_wipes_status(struct world *w, const struct act *a);
void user_edits_config(struct world *w, const struct act *a);
void user_deletes_config(struct world *w, const struct act *a);
void user_replaces_config(struct world *w, const struct act *a);

// sim_jobs.c
void user_edits_job(struct world *w, const struct act *a);
void user_deletes_job(struct world *w, const struct act *a);
void kill_job_shims(struct world *w, const struct act *a);
void rules_job_start(struct world *w, const struct inst_spec *s, bool suspended);
void rules_job_told(struct world *w, const char *key, const struct json *status); // is committed
void rules_jobs_turn(struct world *w);
bool rules_is_job(struct world *w, const char *uid); // an instance of one
void rules_jobs_fini(struct world *w);
bool job_is_right(struct world *w, const struct sim_object *o, char why[256]);

// sim_acts.c
void act_do(struct world *w, const struct act *a);
void weather_clears(struct world *w); // whatever lasts ends now
void world_boot_clock(struct world *w, int boot_clock, uint64_t seed);

// sim_story.c
void story_play(struct world *w, const struct plan *p);
void story_peace(struct world *w); // everything works again; it must come right
void story_idle_hour(struct world *w, bool offline);

// sim_witness.c
void witness_init(struct world *w);
void witness_fini(struct world *w);
void witness_turn(struct world *w); // after each turn of the loop
void witness_agent_dies(struct world *w);
bool witness_may_have(struct world *w, const char *key, int64_t seq);
void witness_store_lost(struct world *w);                 // its order begins anew
void witness_store_rots(struct world *w);                 // what it held may be gone, or old again
bool witness_may_lack(struct world *w, int64_t since_ms); // a row that was written then
void witness_store_opens(struct world *w);
void witness_sums_up(struct world *w); // at peace: is every promise kept?

// sim_shed.c
void shed_look(struct world *w); // after each commit

// sim_rules.c
void rules_init(struct world *w);
void rules_fini(struct world *w);
void rules_turn(struct world *w);
void rules_offline(struct world *w);                          // who is to be stopped is
void rules_agent_is_gone(struct world *w);                    // and the next one's loop is there
void rules_start(struct world *w, const struct inst_spec *s); // is about to be started
void rules_stop(struct world *w, const char *uid);
void rules_written(struct world *w, const char *path, const char *text, size_t n); // by the agent
void rules_removed(struct world *w, const char *path);
uint64_t rules_committed(struct world *w, const char *key); // which spec of it the agent goes by; 0 = none, or one that is suspended
bool rules_gave_up(struct world *w, const struct sim_object *o, const char *revision); // and runs this one instead
void rules_store_lost(struct world *w);                                                // the agent does not know any more what it gave up
void rules_forgets(struct world *w, const char *uid);                                  // the record of an instance that ended
void history_edited(struct world *w, const struct sim_object *o);                      // a user gave it a spec
void history_deleted(struct world *w, const struct sim_object *o);                     // a user is about to delete it

// sim_pace.c
void rules_request(struct world *w, const struct http_req *r); // is about to be sent
void rules_put_off(struct world *w, const struct http_req *r); // the agent was told a Retry-After
void rules_modes(struct world *w);                             // does it follow the server as policies say?
void rules_pace_forget(struct world *w);                       // the agent died

// sim_check.c
const char *check_right(struct world *w, char why[256]); // NULL = the machine and the server's status are as the specs say
void check_note_peace(struct world *w);                  // remembers what lies where
void check_forget_paths(struct world *w);                // what is known of them counts no more
uint64_t check_fingerprint(struct world *w);             // of running instances and managed files
uint64_t check_files_print(struct world *w);             // of the files alone
void check_bounds(struct world *w);
void check_memory(struct world *w); // what the agent holds when there is peace, and held at most

#endif
