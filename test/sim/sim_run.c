// SPDX-License-Identifier: Apache-2.0
#include "sim_run.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim_shrink.h"

enum { SHOWN_NOTES = 70, SHOWN_LOG = 40, SHRINK_TRIES = 300, HANGS_AFTER_S = 300 };

static void summarise(const struct world *w, struct outcome *out)
{
    *out = (struct outcome){ .broken = w->sim.broken,
                             .hash = w->sim.hash,
                             .requests = w->server.requests,
                             .facts = w->sim.n_notes,
                             .lives = w->lives,
                             .memory = sim_heap_of(OF_AGENT).most,
                             .store_memory = sim_heap_of(OF_STORE).most,
                             .hours = (double)w->sim.now_ms / HOUR };
    memcpy(out->hits, w->sim.hits, sizeof(out->hits));
    snprintf(out->rule, sizeof(out->rule), "%s", w->sim.rule != NULL ? w->sim.rule : "");
    snprintf(out->verdict, sizeof(out->verdict), "%s", w->sim.verdict);
}

void run_plan(const struct plan *p, enum show show, struct outcome *out)
{
    struct world *w = calloc(1, sizeof(*w));
    if (w == NULL)
        abort();
    world_init(w, p->seed, show == SHOW_ALL);
    story_play(w, p);
    summarise(w, out);
    if (w->sim.broken && show != SHOW_NOTHING) {
        printf("# BROKEN: %s\n# the timeline:\n", w->sim.verdict);
        sim_shows(&w->sim, SHOWN_NOTES);
        printf("# the agent's log:\n");
        world_shows_log(w, SHOWN_LOG);
    }
    world_fini(w);
    free(w);
}

// --- In children

static struct outcome *shared(size_t n)
{
    void *p = mmap(NULL, n * sizeof(struct outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        abort();
    return p;
}

static pid_t play_in_child(const struct plan *p, enum show show, struct outcome *out)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0)
        abort();
    if (pid > 0)
        return pid;
    alarm(HANGS_AFTER_S);
    run_plan(p, show, out);
    fflush(stdout);
    _exit(0);
}

static void note_death(struct outcome *out, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    *out = (struct outcome){ .broken = true, .hung = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM };
    snprintf(out->rule, sizeof(out->rule), "death %d", status);
    if (WIFSIGNALED(status))
        snprintf(out->verdict, sizeof(out->verdict), "the simulator died of signal %d", WTERMSIG(status));
    else
        snprintf(out->verdict, sizeof(out->verdict), "the simulator exited with %d", WEXITSTATUS(status));
}

void run_apart(const struct plan *p, enum show show, struct outcome *out)
{
    struct outcome *from_child = shared(1);
    int status = -1;
    pid_t pid = play_in_child(p, show, from_child);
    while (waitpid(pid, &status, 0) < 0)
        ;
    note_death(from_child, status);
    *out = *from_child;
    munmap(from_child, sizeof(*from_child));
}

// --- Shrinking

struct shrinking {
    const struct plan *whole;
    const char *rule;
};

static bool still_fails(void *ctx, const int *numbers, size_t n)
{
    const struct shrinking *s = ctx;
    struct plan p = *s->whole;
    struct outcome out;
    plan_keep(&p, numbers, n);
    run_apart(&p, SHOW_NOTHING, &out);
    return out.broken && strcmp(out.rule, s->rule) == 0;
}

bool run_shrink(struct plan *p, struct outcome *out)
{
    int numbers[PLAN_MAX];
    struct plan whole = *p;
    run_apart(p, SHOW_NOTHING, out);
    if (!out->broken)
        return false;
    struct shrinking s = { &whole, out->rule };
    for (size_t i = 0; i < p->n; i++)
        numbers[i] = p->acts[i].number;
    size_t n = shrink(numbers, p->n, still_fails, &s, SHRINK_TRIES);
    plan_keep(p, numbers, n);
    return true;
}

static const char *phase_words(enum sim_phase phase)
{
    static const char *const words[SIM_PHASES] = { "at the beginning", "in the chaos", "in doubt", "in the second chaos" };
    return words[phase];
}

static void show_plan(const struct plan *p)
{
    char words[WORDS_MAX];
    enum sim_phase phase = SIM_PHASES;
    for (size_t i = 0; i < p->n; i++) {
        const struct act *a = &p->acts[i];
        if (a->phase != phase)
            printf("#   %s:\n", phase_words(a->phase));
        phase = a->phase;
        printf("#     #%-3d +%" PRId64 ":%06.3f  %s\n", a->number, a->at_ms / MINUTE, (double)(a->at_ms % MINUTE) / 1000,
               act_words(a, words));
    }
}

static void show_numbers(const struct plan *p)
{
    for (size_t i = 0; i < p->n; i++)
        printf("%s%d", i > 0 ? "," : "", p->acts[i].number);
    printf("%s\n", p->n == 0 ? "0" : "");
}

void run_report(uint64_t seed)
{
    struct plan p;
    struct outcome out;
    plan_make(&p, seed);
    size_t all = p.n;
    if (!run_shrink(&p, &out)) {
        printf("# seed %" PRIu64 " does not fail: a world that is not the same twice\n", seed);
        return;
    }
    printf("# seed %" PRIu64 ": %s\n", seed, out.verdict);
    printf("# %zu of %zu acts are enough (mode=%s%s%s):\n", p.n, all, p.mode, p.old_server ? ", an old server" : "",
           p.offline_boot ? ", first boot without a network" : "");
    show_plan(&p);
    run_apart(&p, SHOW_FAILURE, &out);
    printf("# again: make sim SEED=%" PRIu64 " ONLY=", seed);
    show_numbers(&p);
}

// --- Many

enum { JOBS_MAX = 64, FAILED_MAX = 20, REPORTED_MAX = 3, PROGRESS = 100 };

struct tally {
    const struct many *m;
    struct outcome *outcomes; // one for each job
    struct {
        pid_t pid; // 0 = free
        uint64_t seed;
    } job[JOBS_MAX];
    uint64_t next, done, failures, failed[FAILED_MAX], hits[SIM_FAULTS], seeds_hit[SIM_FAULTS];
    double hours;
    int64_t memory, store_memory;
};

// The only moment the simulator asks for: how long all of it took.
static double seconds_passed(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static volatile sig_atomic_t stopped;

static void on_stop(int sig UNUSED)
{
    stopped = 1;
}

static void start_jobs(struct tally *t)
{
    for (int i = 0; i < t->m->jobs; i++) {
        struct plan p;
        if (t->job[i].pid != 0 || stopped || (t->m->seeds != 0 && t->next >= t->m->first + t->m->seeds))
            continue;
        t->job[i].seed = t->next++;
        plan_make(&p, t->job[i].seed);
        t->job[i].pid = play_in_child(&p, SHOW_NOTHING, &t->outcomes[i]);
    }
}

static void add_up(struct tally *t, uint64_t seed, const struct outcome *out)
{
    t->done++;
    t->hours += out->hours;
    t->memory = MAX(t->memory, out->memory);
    t->store_memory = MAX(t->store_memory, out->store_memory);
    for (size_t f = 0; f < SIM_FAULTS; f++) {
        t->hits[f] += out->hits[f];
        t->seeds_hit[f] += out->hits[f] > 0;
    }
    if (!out->broken)
        return;
    if (t->failures < FAILED_MAX)
        t->failed[t->failures] = seed;
    t->failures++;
    printf("not ok - seed %" PRIu64 ": %s\n", seed, out->verdict);
    fflush(stdout);
}

// False: no job is there any more.
static bool wait_for_one(struct tally *t)
{
    int status;
    pid_t pid = waitpid(-1, &status, 0);
    for (int i = 0; pid > 0 && i < t->m->jobs; i++) {
        if (t->job[i].pid != pid)
            continue;
        note_death(&t->outcomes[i], status);
        t->job[i].pid = 0;
        if (stopped == 0 || !t->outcomes[i].broken)
            add_up(t, t->job[i].seed, &t->outcomes[i]);
    }
    return pid > 0;
}

static double seconds_worked(void)
{
    struct rusage r;
    getrusage(RUSAGE_CHILDREN, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) + (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

static void show_progress(const struct tally *t, double since)
{
    double s = seconds_passed() - since;
    printf("# %" PRIu64 " seeds, %" PRIu64 " failed, %.0f s, %.0f seeds a minute, %.2f s of processor a seed\n", t->done, t->failures, s,
           (double)t->done * 60 / s, seconds_worked() / (double)MAX(t->done, (uint64_t)1));
    fflush(stdout);
}

static int show_faults(const struct tally *t)
{
    int never = 0;
    printf("# %-52s %12s %8s\n", "fault", "hits", "seeds");
    for (size_t f = 0; f < SIM_FAULTS; f++) {
        printf("# %-52s %12" PRIu64 " %8" PRIu64 "\n", sim_fault_words[f], t->hits[f], t->seeds_hit[f]);
        never += t->hits[f] == 0;
    }
    return never;
}

int run_many(const struct many *m)
{
    static struct tally t;
    double began = seconds_passed();
    t = (struct tally){ .m = m, .outcomes = shared((size_t)m->jobs), .next = m->first };
    signal(SIGINT, on_stop);
    signal(SIGTERM, on_stop);
    for (start_jobs(&t); wait_for_one(&t); start_jobs(&t))
        if (t.done % PROGRESS == 0)
            show_progress(&t, began);
    show_progress(&t, began);
    for (uint64_t i = 0; i < MIN(t.failures, (uint64_t)REPORTED_MAX); i++)
        run_report(t.failed[i]);
    int never = show_faults(&t);
    printf("# %.0f simulated hours\n", t.hours);
    if (sim_heap_counts())
        printf("# no agent held more than %" PRId64 " bytes of memory, no store more than %" PRId64 "\n", t.memory, t.store_memory);
    if (never > 0 && m->all_faults)
        printf("not ok - %d faults never hit\n", never);
    return (int)MIN(t.failures, (uint64_t)100) + (m->all_faults ? never : 0);
}
