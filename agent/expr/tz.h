// SPDX-License-Identifier: Apache-2.0
// tz — how far the wall clock of a place is from UTC at an instant, and back.
//
// From the system's tzdata where it is installed, and from a POSIX TZ string where it is not (a router). Not the zone of this machine:
// TZ and /etc/localtime are never looked at. Immutable once loaded; a new tzdata counts from the next tz_load() on. Knows the
// Gregorian calendar and no leap seconds. Blocks only in tz_load(), which reads one small file.
#ifndef EXPR_TZ_H
#define EXPR_TZ_H

#include <stddef.h>

#include "base/err.h"
#include "base/fsio.h"

struct tz; // a few KiB for what tzdata has, 120 KiB at most

// "UTC"; else a name of tzdata ("Europe/Berlin") from below /usr/share/zoneinfo of the disk; else a POSIX TZ string with its rules
// ("CET-1CEST,M3.5.0,M10.5.0/3"). A name that could leave that directory is never looked up. The caller owns *out, which is
// untouched on error.
// E_INVAL: neither a name nor a POSIX string, "Local", or a file that is damaged. E_NOTFOUND: a name that tzdata does not have here; the
// text says what to do. E_NOMEM, and what the disk says.
int tz_load(struct tz **out, struct disk *d, const char *name, struct err *e) MUST_USE;
void tz_free(struct tz *z); // NULL is fine

// The contents of a TZif file (RFC 9636; version 1, and 2 or later with its 64-bit data and footer), trusting none of them.
// E_INVAL: it says what is wrong, or that the file counts leap seconds. E_NOMEM.
int tz_parse_file(struct tz **out, const void *data, size_t n, struct err *e) MUST_USE;

// Seconds east of UTC at `at_s` (seconds since 1970); z NULL = UTC.
int tz_offset(const struct tz *z, int64_t at_s);

// A date and time of day, without saying where.
struct tz_civil {
    int64_t year;
    int month, day; // from 1
    int hour, min, sec;
    int wday; // 0 = Sunday; not read by tz_civil_s()
};

// From seconds since 1970 as a clock at offset 0 shows them, and back. On the way back month, day and the time of day may be beyond their
// ends and carry over (month 13 is January, day 0 the last of the month before). Years -30,000 to 30,000.
void tz_civil_of(int64_t local_s, struct tz_civil *out);
int64_t tz_civil_s(const struct tz_civil *c);

// The instant at which the clocks of the zone show `local_s`. One that they show twice, or not at all, gives what Go's time.Date()
// gives: an instant by one of the two offsets around that change.
int64_t tz_from_local(const struct tz *z, int64_t local_s);

#endif
