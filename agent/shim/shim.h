// SPDX-License-Identifier: Apache-2.0
// shim — the supervisor of one instance: it starts it, keeps its log, ends it, and writes down how it ended.
//
// One small process an instance, so that the agent can be restarted, upgraded or killed without anybody noticing: an adopted process
// cannot be waited for (its exit code would be lost), and a pipe that the agent held would break with the agent.
// Not a restarter: when its child has ended, so does the shim. Restart policy is the kinds' business.
//
// The agent runs `limpet shim UID` (an instance) or `limpet shim run` (a command that runs once; it becomes that command) with
// the descriptors that spec.h names. Who runs it by hand is told so, exit 64.
//
// In the instance's directory (0700, named after its uid) lie
//   lock    locked (flock) for as long as the shim lives, from before it was started
//   state   who this is, shim and child with their start times; there before the child executes anything
//   exit    how the child ended; the last thing that the shim does
//   grace   written by the agent: stop, with so many milliseconds between SIGTERM and SIGKILL; SIGTERM makes the shim read it
// The directory is in /run and dies with the boot, so nothing in it is ever synced to a disk.
#ifndef SHIM_SHIM_H
#define SHIM_SHIM_H

enum { SHIM_USAGE = 64 }; // exit code of one that was told nothing

#define SHIM_LOCK "lock"
#define SHIM_STATE "state"
#define SHIM_EXIT "exit"
#define SHIM_GRACE "grace"

// The whole life of a shim; argv as main() got it: {"limpet", "shim", UID or "run"}. Never returns in the "run" form when that succeeds.
// Call it before anything is set up: each page touched before is paid once an instance.
int shim_main(int argc, char **argv);

#endif
