// SPDX-License-Identifier: Apache-2.0
#include "sim_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim.h"
#include "sim_net.h"

enum { CHAOS_ACTS = 40, FIRST_EDITS = 3, POLICY_PERCENT = 35 };

// How a parameter is drawn: uniform in [low, high], or a time somebody is away (mostly seconds, at times minutes).
struct range {
    int64_t low, high;
};
#define AWAY \
    {        \
        1, 0 \
    }

const char *const plan_kinds[KINDS] = { "edgeapps", "edgeconfigs", "edgejobs" };
const char *const plan_policy_keys[POLICIES] = { SIM_NS "/pol-a", SIM_NS "/pol-b", SIM_SHARED_NS "/pol-a", SIM_SHARED_NS "/pol-0" };

// In the words %a and %b stand for the parameters. Of the word lists below %l, %p, %v, %o and %f take the one of a; %d, %c and %k that of b.
static const struct {
    const char *words;
    int weight; // in chaos
    struct range a, b;
} kinds[ACTS] = {
    [ACT_EDIT_APP] = { "app-%a is given another spec", 22, { 0, APPS - 1 }, { 0, 0 } },
    [ACT_EDIT_CONFIG] = { "cfg-%a is given another spec", 16, { 0, CONFIGS - 1 }, { 0, 0 } },
    [ACT_DELETE_APP] = { "app-%a is deleted", 4, { 0, APPS - 1 }, { 0, 0 } },
    [ACT_DELETE_CONFIG] = { "cfg-%a is deleted", 2, { 0, CONFIGS - 1 }, { 0, 0 } },
    [ACT_REPLACE_APP] = { "app-%a is deleted and made again", 3, { 0, APPS - 1 }, { 0, 0 } },
    [ACT_REPLACE_CONFIG] = { "cfg-%a is deleted and made again", 2, { 0, CONFIGS - 1 }, { 0, 0 } },
    [ACT_EDIT_JOB] = { "job-%a is given another spec", 5, { 0, JOBS - 1 }, { 0, 0 } },
    [ACT_DELETE_JOB] = { "job-%a is deleted", 1, { 0, JOBS - 1 }, { 0, 0 } },
    // Only where there are policies (plan_policies).
    [ACT_EDIT_POLICY] = { "policy %o is given another spec", 0, { 0, POLICIES - 1 }, { 0, 0 } },
    [ACT_BREAK_POLICY] = { "policy %o is given an invalid spec", 0, { 0, POLICIES - 1 }, { 0, 0 } },
    [ACT_DELETE_POLICY] = { "policy %o is deleted", 0, { 0, POLICIES - 1 }, { 0, 0 } },
    [ACT_JOB_SHIM_KILL] = { "the shims of job-%a are killed", 2, { 0, JOBS - 1 }, { 0, 0 } },
    [ACT_WIPE_STATUS] = { "the status of app-%a is wiped", 2, { 0, APPS - 1 }, { 0, 0 } },
    [ACT_CRASH] = { "instance %b of app-%a ends", 12, { 0, APPS - 1 }, { 0, 2 } },
    [ACT_SHIM_KILL] = { "the shim of instance %b of app-%a is killed", 3, { 0, APPS - 1 }, { 0, 2 } },
    [ACT_SCRIBBLE] = { "somebody writes into managed file %a", 5, { 0, PATHS - 1 }, { 0, 0 } },
    [ACT_REMOVE_FILE] = { "somebody removes managed file %a", 3, { 0, PATHS - 1 }, { 0, 0 } },
    [ACT_BAD_PROGRAMS] = { "programs from now on %p", 4, { 0, PROGRAM_KINDS - 1 }, { 0, 0 } },
    [ACT_GOOD_PROGRAMS] = { "programs from now on do as they should", 4, { 0, 0 }, { 0, 0 } },
    [ACT_LINK] = { "the link: %l", 7, { NET_FINE + 1, NET_LINKS - 1 }, { 0, 0 } },
    [ACT_LINK_FINE] = { "the link: fine", 7, { 0, 0 }, { 0, 0 } },
    [ACT_LOSSY] = { "%b of 100 requests meet a fault for %a s", 5, { 10, 400 }, { 1, 40 } },
    [ACT_SLOW] = { "latency of up to %b ms for %a s", 2, { 10, 400 }, { 200, 5000 } },
    [ACT_HALF_OPEN] = { "the connection dies and nobody is told", 3, { 0, 0 }, { 0, 0 } },
    [ACT_STORM] = { "the server answers 5xx for %a s", 2, { 5, 300 }, { 0, 0 } },
    [ACT_NONSENSE] = { "doubt for %a s: %d", 2, { 5, 300 }, { 0, 0 } },
    [ACT_TOKEN] = { "the token is rotated, the new one comes %a s later", 2, { 0, 120 }, { 0, 0 } },
    [ACT_CERT] = { "the server's certificate has expired for %a s", 1, { 5, 600 }, { 0, 0 } },
    [ACT_CRD_CHANGED] = { "the CRD of %v gets another field", 1, { 0, KINDS - 1 }, { 0, 0 } },
    [ACT_CRD_REMOVED] = { "the CRD of %v is removed, its objects with it, and back after %b s", 1, { 0, KINDS - 1 }, { 5, 300 } },
    [ACT_ACCOUNT] = { "the account is deleted, and the node joined again after %a s", 1, { 15, 400 }, { 0, 0 } },
    [ACT_COMPACT] = { "the watch history is compacted", 3, { 0, 0 }, { 0, 0 } },
    [ACT_SERVER_RESTART] = { "the server restarts", 2, { 0, 0 }, { 0, 0 } },
    [ACT_KILL] = { "kill -9 the agent, back in %a s", 4, AWAY, { 0, 0 } },
    [ACT_RESTART] = { "the agent is restarted in good order, back in %a s", 2, { 1, 5 }, { 0, 0 } },
    [ACT_POWER_CUT] = { "power cut, back in %a s, the clock %c", 3, AWAY, { 0, BOOT_CLOCKS - 1 } },
    [ACT_REBOOT] = { "reboot in good order, back in %a s, the clock %c", 1, { 10, 90 }, { 0, BOOT_CLOCKS - 1 } },
    [ACT_DIE_IN_STEP] = { "%k at the %a. effect from now", 6, { 1, 80 }, { 0, 1 } },
    [ACT_DISK_FULL] = { "the disk is full for %a s", 2, { 5, 600 }, { 0, 0 } },
    [ACT_DISK_ERRORS] = { "%b of 1000 disk operations fail for %a s", 2, { 5, 300 }, { 5, 300 } },
    [ACT_DISK_SLOW] = { "each fsync takes %b ms for %a s", 1, { 5, 200 }, { 50, 4000 } },
    [ACT_FLIP] = { "a byte flips in %f", 1, { 0, FLIPPED_FILES - 1 }, { 0, 0 } },
    [ACT_CLOCK_AHEAD] = { "the clock is ten years ahead for %a s", 1, { 5, 900 }, { 0, 0 } },
    [ACT_CLOCK_DRIFT] = { "the clock runs with %a s more or less a day for %b s", 1, { -9000, 9000 }, { 60, 3600 } },
    [ACT_CLOCK_RIGHT] = { "the clock is set right", 2, { 0, 0 }, { 0, 0 } },
    [ACT_DOUBT] = { "doubt: %d", 0, { 0, 0 }, { DOUBT_NONE + 1, DOUBTS - 1 } },
    [ACT_LOSE_STORE] = { "kill -9 the agent and remove its store, back in %a s", 0, { 1, 5 }, { 0, 0 } },
};

static const char *const link_words[] = { "fine", "refused", "drops packets", "nothing gets out", "nothing comes in" };
static const char *const program_words[] = { "crash",        "hang",          "leave children behind", "ignore SIGTERM",
                                             "exit at once", "cannot be run", "and commands fail" };
static const char *const clock_words[] = { "right", "behind", "at 1970" };
static const char *const death_words[] = { "the agent is killed", "the power is cut" };
static const char *const file_words[] = { "the store", "the store's log", "a managed file" };

// --- Words

static const char *word_of(char letter, const struct act *a, char number[24])
{
    switch (letter) {
    case 'l':
        return link_words[a->a];
    case 'p':
        return program_words[a->a];
    case 'o':
        return plan_policy_keys[a->a];
    case 'v':
        return plan_kinds[a->a];
    case 'f':
        return file_words[MIN(a->a, (int64_t)FLIP_MANAGED)];
    case 'd':
        return sim_doubt_words[a->b];
    case 'c':
        return clock_words[a->b];
    case 'k':
        return death_words[a->b];
    default:
        snprintf(number, 24, "%" PRId64, letter == 'a' ? a->a : a->b);
        return number;
    }
}

const char *act_words(const struct act *a, char out[WORDS_MAX])
{
    char number[24];
    size_t at = 0;
    for (const char *p = kinds[a->kind].words; *p != '\0' && at + 1 < WORDS_MAX; p++) {
        if (*p != '%') {
            out[at++] = *p;
            continue;
        }
        const char *word = word_of(*++p, a, number);
        at += (size_t)snprintf(out + at, WORDS_MAX - at, "%s", word);
        at = MIN(at, (size_t)WORDS_MAX - 1);
    }
    out[at] = '\0';
    return out;
}

// --- Drawing

static int64_t away(struct sim_rng *r)
{
    return rng_chance(r, 70) ? rng_between(r, 1, 20) : rng_between(r, 60, 600);
}

static int64_t draw(struct sim_rng *r, const struct range *range)
{
    return range->low > range->high ? away(r) : rng_between(r, range->low, range->high);
}

// What makes a single answer nonsense, and can come and go while users work.
static int64_t passing_doubt(struct sim_rng *r)
{
    static const enum sim_doubt doubts[] = { DOUBT_PORTAL, DOUBT_UNAUTHORIZED, DOUBT_FORBIDDEN, DOUBT_NO_CRD, DOUBT_TRUNCATED };
    return doubts[rng_below(r, ARRAY_LEN(doubts))];
}

static struct act *add(struct plan *p, struct sim_rng *r, enum sim_phase phase, int64_t at_ms, enum act_kind kind)
{
    if (p->n >= PLAN_MAX)
        return &p->acts[PLAN_MAX - 1];
    struct act *a = &p->acts[p->n++];
    *a = (struct act){ .number = (int)p->n, .phase = phase, .at_ms = at_ms, .kind = kind };
    a->a = draw(r, &kinds[kind].a);
    a->b = kind == ACT_NONSENSE ? passing_doubt(r) : draw(r, &kinds[kind].b);
    a->seed = rng_next(r);
    return a;
}

static enum act_kind any_kind(struct sim_rng *r)
{
    int all = 0;
    for (size_t i = 0; i < ACTS; i++)
        all += kinds[i].weight;
    int64_t at = rng_below(r, all);
    size_t i = 0;
    while ((at -= kinds[i].weight) >= 0)
        i++;
    return (enum act_kind)i;
}

static void plan_chaos(struct plan *p, struct sim_rng *r, enum sim_phase phase)
{
    int64_t at_ms = 0;
    for (int i = 0; i < CHAOS_ACTS; i++) {
        add(p, r, phase, at_ms, any_kind(r));
        at_ms += rng_chance(r, 60) ? rng_between(r, 10, 3000) : rng_between(r, 5, 240) * 1000;
    }
    p->length_ms[phase] = at_ms;
}

// (An agent without a store could not tell a restored database from the right one. Another cluster it can, by its identity.)
static bool may_lose_store(int64_t doubt)
{
    return doubt != DOUBT_RESTORED;
}

static void plan_doubt(struct plan *p, struct sim_rng *r)
{
    enum { END = 30 * 1000 }; // by then the agent is there again, and has looked at the machine
    int64_t length_ms = rng_between(r, 2, 18) * MINUTE, at_ms = 0;
    int64_t doubt = add(p, r, PHASE_DOUBT, 0, ACT_DOUBT)->b;
    while ((at_ms += rng_between(r, 5, 200) * 1000) < length_ms) {
        if (may_lose_store(doubt) && rng_chance(r, 10))
            add(p, r, PHASE_DOUBT, at_ms, ACT_LOSE_STORE);
        else if (rng_chance(r, 20))
            add(p, r, PHASE_DOUBT, at_ms, ACT_KILL)->a = 3;
        else if (rng_chance(r, 25))
            add(p, r, PHASE_DOUBT, at_ms, ACT_RESTART);
    }
    p->length_ms[PHASE_DOUBT] = at_ms + END;
}

// In the order of their times; those of one moment as they were drawn.
static void sort(struct plan *p)
{
    for (size_t i = 1; i < p->n; i++) {
        struct act a = p->acts[i];
        size_t at = i;
        for (; at > 0 && (p->acts[at - 1].phase > a.phase || (p->acts[at - 1].phase == a.phase && p->acts[at - 1].at_ms > a.at_ms)); at--)
            p->acts[at] = p->acts[at - 1];
        p->acts[at] = a;
    }
}

static void plan_some(struct plan *p, struct sim_rng *r, enum sim_phase phase)
{
    for (int64_t n = rng_between(r, 2, 6); n > 0; n--) {
        static const enum act_kind any[] = { ACT_EDIT_POLICY, ACT_EDIT_POLICY, ACT_EDIT_POLICY, ACT_BREAK_POLICY, ACT_DELETE_POLICY };
        add(p, r, phase, rng_below(r, p->length_ms[phase] + 1), any[rng_below(r, ARRAY_LEN(any))]);
    }
}

// Policies decide what may stop and what may wait: in most seeds nobody has one. They come from a stream of their own, so all other acts
// are what they would be without them.
static void plan_policies(struct plan *p)
{
    struct sim s = { .seed = p->seed };
    struct sim_rng r = sim_stream(&s, "policies");
    p->policies = rng_chance(&r, POLICY_PERCENT);
    if (!p->policies)
        return;
    p->pinned = rng_chance(&r, 20);
    for (int64_t n = rng_between(&r, 0, 2); n > 0; n--)
        add(p, &r, PHASE_BEGIN, 0, ACT_EDIT_POLICY);
    plan_some(p, &r, PHASE_CHAOS);
    plan_some(p, &r, PHASE_CHAOS_AGAIN);
    sort(p);
}

void plan_make(struct plan *p, uint64_t seed)
{
    static const char *const modes[] = { "auto", "auto", "watch", "poll", "list" };
    struct sim s = { .seed = seed };
    struct sim_rng r = sim_stream(&s, "plan");
    *p = (struct plan){ .seed = seed, .mode = modes[rng_below(&r, ARRAY_LEN(modes))] };
    p->max_events = rng_chance(&r, 25) ? rng_between(&r, 10, 40) : 5000;
    p->old_server = rng_chance(&r, 30);
    p->offline_boot = rng_chance(&r, 30);
    p->offline_idle = rng_chance(&r, 30);
    p->boot_clock = rng_chance(&r, 40) ? (int)rng_between(&r, BOOT_CLOCK_BEHIND, BOOT_CLOCKS - 1) : BOOT_CLOCK_RIGHT;
    for (int i = 0; i < FIRST_EDITS; i++) {
        add(p, &r, PHASE_BEGIN, 0, ACT_EDIT_APP);
        add(p, &r, PHASE_BEGIN, 0, ACT_EDIT_CONFIG);
    }
    add(p, &r, PHASE_BEGIN, 0, ACT_EDIT_JOB);
    plan_chaos(p, &r, PHASE_CHAOS);
    plan_doubt(p, &r);
    plan_chaos(p, &r, PHASE_CHAOS_AGAIN);
    plan_policies(p);
}

static bool is_in(int number, const int *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (numbers[i] == number)
            return true;
    return false;
}

void plan_keep(struct plan *p, const int *numbers, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->n; i++)
        if (is_in(p->acts[i].number, numbers, n))
            p->acts[kept++] = p->acts[i];
    p->n = kept;
}
