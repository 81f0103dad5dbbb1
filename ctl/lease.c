// SPDX-License-Identifier: Apache-2.0
#include "ctl/lease.h"

#include <stdio.h>

#include "base/util.h"

enum lease_state lease_judge(const struct lease_facts *l, int64_t now_us)
{
    if (!l->renewed)
        return LEASE_NEVER;
    int64_t age_s = now_us / 1000000 - l->renew_us / 1000000;
    if (age_s > l->duration_s)
        return LEASE_EXPIRED;
    return age_s < -l->duration_s ? LEASE_AHEAD : LEASE_FRESH;
}

const char *lease_ready(enum lease_state s)
{
    return s == LEASE_FRESH ? "True" : "Unknown";
}

const char *lease_reason(enum lease_state s)
{
    static const char *const words[] = {
        [LEASE_FRESH] = "LeaseRenewed",
        [LEASE_EXPIRED] = "LeaseExpired",
        [LEASE_NEVER] = "NeverJoined",
        [LEASE_AHEAD] = "ClockAhead",
    };
    return words[s];
}

static const struct unit {
    int64_t seconds;
    char letter;
    int64_t alone_from; // from so many seconds on, the next smaller unit is left out
} units[] = {
    { 86400, 'd', 8 * 86400 },
    { 3600, 'h', 10 * 3600 },
    { 60, 'm', 10 * 60 },
    { 1, 's', 0 },
};

char *span_text(int64_t seconds, char out[SPAN_TEXT_MAX])
{
    if (seconds < 0)
        seconds = 0;
    size_t u = 0;
    while (u + 1 < ARRAY_LEN(units) && seconds < units[u].seconds)
        u++;
    int n = snprintf(out, SPAN_TEXT_MAX, "%lld%c", (long long)(seconds / units[u].seconds), units[u].letter);
    if (seconds >= units[u].alone_from || u + 1 == ARRAY_LEN(units))
        return out;
    int64_t rest = seconds % units[u].seconds / units[u + 1].seconds;
    if (rest > 0)
        snprintf(out + n, SPAN_TEXT_MAX - (size_t)n, "%lld%c", (long long)rest, units[u + 1].letter);
    return out;
}
