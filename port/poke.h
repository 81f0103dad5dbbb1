// SPDX-License-Identifier: Apache-2.0
// poke — what systemd runs when a unit of ours has started or ended (`limpet poke DIRECTORY UNIT`), and what it leaves behind.
//
// It writes down in <directory>/<uid>/ what happened, and then touches <directory>/poke, which an agent that is there watches. So it never
// waits for anybody, is of use without an agent, and how a unit ended is known even after systemd has dropped it from its memory.
// The directory is in /run, root's alone, and dies with the boot.
#ifndef PORT_POKE_H
#define PORT_POKE_H

#include "port/port.h"

#define POKE_FILE "poke"   // changes with each poke
#define POKE_START "start" // a state_record (shim/record.h): main process, and when it began
#define POKE_EXIT "exit"   // an exit_record: how the last run ended; gone while another one runs

// The whole program; argv as main() got it: {"limpet", "poke", DIRECTORY, UNIT}. 0, or an exit code that systemd is told to ignore.
int poke_main(int argc, char **argv);

// systemd's word of an end ($EXIT_CODE, $EXIT_STATUS, $SERVICE_RESULT) as port.h has it. Pure.
void poke_exit(const char *code, const char *status, const char *result, struct inst_exit *out);
int poke_signal(const char *name); // "TERM", "RTMIN+3" -> its number; 0 = none

#endif
