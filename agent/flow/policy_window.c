// SPDX-License-Identifier: Apache-2.0
// Is a window open at an instant? Pure.
#include "flow/policy.h"

// Windows of one schedule may follow each other without a gap; how far that is followed only decides what people are told.
enum { CHAIN_MAX = 64 };

static struct policy_gate window_at(const struct policy_window *w, int64_t now_s)
{
    int64_t t = cron_next(&w->at, w->zone, now_s - w->duration_s);
    if (t < 0 || t > now_s)
        return (struct policy_gate){ false, t };
    int64_t end = t + w->duration_s;
    for (int i = 0; i < CHAIN_MAX; i++) {
        t = cron_next(&w->at, w->zone, t);
        if (t < 0 || t > end)
            break;
        end = t + w->duration_s;
    }
    return (struct policy_gate){ true, end };
}

// -1 is never, so later than anything.
static bool is_sooner(int64_t a, int64_t b)
{
    return a >= 0 && (b < 0 || a < b);
}

struct policy_gate policy_windows_at(const struct policy_windows *w, int64_t wall_s)
{
    struct policy_gate all = { false, -1 };
    for (size_t i = 0; i < w->n; i++) {
        struct policy_gate one = window_at(&w->list[i], wall_s);
        if (one.open && (!all.open || one.until_s > all.until_s))
            all = one;
        else if (!one.open && !all.open && is_sooner(one.until_s, all.until_s))
            all.until_s = one.until_s;
    }
    return all;
}
