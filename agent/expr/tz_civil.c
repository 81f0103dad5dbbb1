// SPDX-License-Identifier: Apache-2.0
// The calendar. Years are counted from 1 March, so that the leap day is the last of its year and months need no table.
#include "expr/tz_priv.h"

enum { ERA_YEARS = 400, ERA_DAYS = 146097, MARCH_1_OF_0 = -719468 }; // days from 1970-01-01 to 0000-03-01

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

// Days of a year that began on 1 March until the first of month m, 0 = March: 31 30 31 30 31, again and again.
static int64_t days_until(int64_t m)
{
    return (153 * m + 2) / 5;
}

void tz_civil_of(int64_t local_s, struct tz_civil *out)
{
    int64_t days = floor_div(local_s, DAY_S), second = local_s - days * DAY_S;
    int64_t since = days - MARCH_1_OF_0, era = floor_div(since, ERA_DAYS);
    int64_t in_era = since - era * ERA_DAYS;
    // 1460 days until the first leap day, 36524 until a century lacks one, 146096 until an era has it after all.
    int64_t year = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
    int64_t in_year = in_era - (365 * year + year / 4 - year / 100);
    int64_t m = (5 * in_year + 2) / 153;
    *out = (struct tz_civil){
        .year = era * ERA_YEARS + year + (m >= 10),
        .month = (int)(m < 10 ? m + 3 : m - 9),
        .day = (int)(in_year - days_until(m)) + 1,
        .hour = (int)(second / 3600),
        .min = (int)(second / 60 % 60),
        .sec = (int)(second % 60),
        .wday = (int)(days + 4 - 7 * floor_div(days + 4, 7)), // 1970 began on a Thursday
    };
}

int64_t tz_civil_s(const struct tz_civil *c)
{
    int64_t months = c->year * 12 + c->month - 3; // since March of year 0
    int64_t year = floor_div(months, 12), era = floor_div(year, ERA_YEARS);
    int64_t in_era = year - era * ERA_YEARS;
    int64_t days = MARCH_1_OF_0 + era * ERA_DAYS + 365 * in_era + in_era / 4 - in_era / 100 + days_until(months - year * 12) + c->day - 1;
    return days * DAY_S + (int64_t)c->hour * 3600 + (int64_t)c->min * 60 + c->sec;
}
