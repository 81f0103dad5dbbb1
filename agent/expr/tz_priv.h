// SPDX-License-Identifier: Apache-2.0
// tz_priv — what the files of tz share: a zone's table and the rule that goes on where it ends.
#ifndef EXPR_TZ_PRIV_H
#define EXPR_TZ_PRIV_H

#include <stdbool.h>

#include "expr/tz.h"

enum { DAY_S = 86400 };

// A POSIX TZ string. The day of a change, in the calendar of its year, and the time of day by the clocks as they stand before it.
struct tz_day {
    enum { DAY_JULIAN, DAY_ZERO, DAY_WEEK } kind; // Jn: 1-365, never 29 February; n: 0-365, with it; Mm.w.d
    int n;                                        // DAY_WEEK: the day of the week, 0 = Sunday
    int month, week;                              // DAY_WEEK; week 5 = the last
    int32_t time_s;                               // -167 to 167 hours
};
struct tz_rule {
    int32_t std, dst; // seconds east of UTC
    bool changes;     // there is a summer time, and the days are set
    struct tz_day from, to;
};

// E_INVAL.
int tz_rule_parse(struct tz_rule *r, const char *text, struct err *e) MUST_USE;
int32_t tz_rule_offset(const struct tz_rule *r, int64_t at_s);

struct tz {
    int32_t before; // up to the first change
    bool ruled;     // from the last change on, or always, `rule` says
    struct tz_rule rule;
    size_t n;
    struct tz_change {
        int64_t at_s;
        int32_t offset; // from then on
    } change[];         // in order, each later than the one before
};

#endif
