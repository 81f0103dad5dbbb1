// SPDX-License-Identifier: Apache-2.0
// systemd_unit — the unit file of an instance: its name, its text, and what is read back from one. Pure.
//
// A unit is named limpet-<name>-<uid>.service, where <name> is the last part of the owner's key, escaped as systemd-escape does it, and
// there for people; the uid is what it is known by. Commands are quoted so that systemd gives the process the very bytes of the spec.
// What systemd cannot be told (a text that is not UTF-8, a program named with quotes) is refused, never altered.
#ifndef PORT_SYSTEMD_UNIT_H
#define PORT_SYSTEMD_UNIT_H

#include "port/port.h"

enum { UNIT_NAME_MAX = 256, UNIT_TEXT_MAX = 3 * 1024 * 1024, UNIT_ENV_MAX = 4 * 1024 * 1024, UNIT_PATH_MAX = 4096 };

void unit_name(const char *owner, const char *uid, char out[UNIT_NAME_MAX]);
bool unit_uid(const char *unit, char uid[INST_UID_MAX]); // false: no name that unit_name() makes
// As `systemd-escape`: '/' to '-', all but letters, digits, ':', '_' and '.' (not in front) to \xNN. False: it does not fit.
bool unit_escape(const char *s, char *out, size_t size);

// A number of systemd's, at most `max`; what is none, or is below 0 or above, is 0.
int64_t unit_number(const char *s, int64_t max);

struct unit_place {
    const char *self;     // the limpet binary
    const char *records;  // directory of the pokes
    const char *env_file; // 0600, beside it nothing secret is written
    const char *program;  // absolute path of argv[0]
    int version;          // of systemd; 0 = not known: nothing newer than 240 is used
};
// The unit file. E_INVAL: systemd cannot be told so; E_TOOBIG.
int unit_text(const struct inst_spec *s, const struct unit_place *w, struct buf *out, struct err *e) MUST_USE;
// The file for EnvironmentFile=. E_INVAL (names the variable, never its value), E_TOOBIG.
int unit_env_text(const char *const *env, struct buf *out, struct err *e) MUST_USE;

// Where the program of a spec lies: argv[0] below the working directory, or in PATH. What is in no directory of PATH is named in the first.
int unit_program(const struct exec_env *x, char out[UNIT_PATH_MAX], struct err *e) MUST_USE;

// What limpet reads back from a unit file of its own.
struct unit_meta {
    char uid[INST_UID_MAX], owner[INST_OWNER_MAX], revision[INST_REV_MAX];
    int index;
    int64_t grace_ms;
    char program[UNIT_PATH_MAX], workdir[UNIT_PATH_MAX];
};
bool unit_parse(const char *text, struct unit_meta *out); // false: not one of ours

#endif
