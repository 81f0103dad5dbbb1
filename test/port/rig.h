// SPDX-License-Identifier: Apache-2.0
// rig — a port with all that it needs, for the tests of ports: loop, clock, disk, directories; and waiting for what it does.
//
// A test program that uses the exec port is its own `limpet`: its main() begins with RIG_MAIN(argc, argv). RIG_SELF in the environment
// names another binary, e.g. to measure the shims of build/limpet.
// The systemd port makes units of the machine that it runs on, so it is only there with RIG_SYSTEMD in the environment (test/e2e/systemd_port.t).
// "systemd" has units that die with the boot, "systemd-boot" such that start at boot and are restarted by systemd.
// The container port needs an image that has this machine's /usr, /tmp and test programs: RIG_CONTAINER names it (test/e2e/container.t makes one),
// RIG_CONTAINER_TOOL the tool.
// Nothing here checks: it waits, with a generous deadline, and says whether it came true.
#ifndef TEST_PORT_RIG_H
#define TEST_PORT_RIG_H

#include <string.h>

#include "port/poke.h"
#include "port/port.h"
#include "shim/shim.h"

#define RIG_MAIN(argc, argv)                              \
    do {                                                  \
        if ((argc) > 1 && strcmp((argv)[1], "shim") == 0) \
            return shim_main((argc), (argv));             \
        if ((argc) > 1 && strcmp((argv)[1], "poke") == 0) \
            return poke_main((argc), (argv));             \
        if (getenv(RIG_DUMP) != NULL)                     \
            return rig_dump((argc), (argv));              \
    } while (0)

// A program started with this variable writes what it was started with to the file that it names: "A" before each word of argv, "E"
// before each variable, each with its NUL.
#define RIG_DUMP "RIG_DUMP"

// What a port can show.
enum {
    RIG_REAL = 1,   // there are processes, logs and sockets
    RIG_ENDS = 2,   // instances can end in other ways than by stop()
    RIG_ADOPTS = 4, // instances outlive the agent
    RIG_CHEAP = 8,  // hundreds of instances cost nothing
};

struct rig {
    const char *name; // "exec", "systemd", "systemd-boot", "container", "null", "fake"
    unsigned can;     // RIG_*
    struct loop *loop;
    struct clock clock;
    struct disk *disk;
    struct port *port;
    struct port *helper; // the exec port under a systemd or container port
    char dir[200], run_dir[256], log_dir[256];
    unsigned changes;           // how often changed() was called
    char owner[INST_OWNER_MAX]; // the last one
    void (*on_change)(struct rig *r, const char *owner);
    bool inside; // a verb is being called: nobody may call back now
    unsigned calls_inside;
};

// What instances run. Each port has its own way to make it come true.
enum program {
    RUNS,     // until it is told to end
    STUBBORN, // ignores SIGTERM
    EXITS_0,
    EXITS_3,       // soon
    EXITS_7_LATER, // after half a second
    CANNOT_START,  // no such program
    PROGRAMS
};

int rig_dump(int argc, char **argv);
const char *rig_exe(void); // path of this test program

unsigned rig_abilities(const char *port);
bool rig_is_there(const char *port); // can it be used on this machine, in this test?
bool rig_init(struct rig *r, const char *name);
void rig_fini(struct rig *r);      // ends every instance first
bool rig_new_agent(struct rig *r); // the agent dies, another one begins; it has not adopted yet

int rig_start(struct rig *r, const char *uid, const char *owner, int index, enum program what, struct err *e);
int rig_start_spec(struct rig *r, const struct inst_spec *s, struct err *e);
// sh -c script, on the exec port.
int rig_script(struct rig *r, const char *uid, const char *script, struct err *e);
int rig_stop(struct rig *r, const char *uid, int64_t grace_ms);
int rig_forget(struct rig *r, const char *uid);

bool rig_inst(struct rig *r, const char *uid, struct inst *out); // false: none
int rig_state(struct rig *r, const char *uid);                   // -1: none
size_t rig_count(struct rig *r, const char *owner);

// Runs the loop until fn is true; false: 120 s passed.
bool rig_until(struct rig *r, bool (*fn)(struct rig *r, void *ctx), void *ctx);
bool rig_until_state(struct rig *r, const char *uid, enum inst_state state);
bool rig_until_exited(struct rig *r, const char *uid, struct inst *out);
bool rig_until_file(struct rig *r, const char *file, size_t lines); // <dir>/file has so many lines at least
void rig_turns(struct rig *r, int n);                               // n turns without a wait

// Whole file below r->dir, "" when absent; valid until the next call. lines: how many.
const char *rig_file(struct rig *r, const char *file);
size_t rig_lines(struct rig *r, const char *file);
bool rig_alive(int pid); // there, and no zombie

#endif
