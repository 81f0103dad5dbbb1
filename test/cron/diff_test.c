// SPDX-License-Identifier: Apache-2.0
// Our schedules against the library that Kubernetes uses: build/cron/robfig (test/cron/robfig) makes random schedules, zones and
// instants from a seed and says what the library makes of each; here the same is asked of us. SEED=N and CASES=N choose others.
#include <stdlib.h>

#include "expr/cron.h"
#include "tap.h"

enum { LINE_MAX_LEN = 1024, SHOWN = 20 };

struct line {
    char schedule[LINE_MAX_LEN], zone[LINE_MAX_LEN], want[64];
    bool back; // the library fell back behind the instant
    long long after_s;
};

struct tally {
    int lines, differ;
    int due, invalid, never, still; // what the library said
    int back, changed;              // it fell back; runs with another offset than at the instant that was asked about
};

static struct disk *disk;
static struct tz *zone;
static char zone_name[LINE_MAX_LEN];

static const char *setting(const char *name, const char *otherwise)
{
    const char *v = getenv(name);
    return v != NULL && *v != '\0' ? v : otherwise;
}

static void unescape(char *s)
{
    char *to = s;
    for (unsigned byte; *s != '\0'; s++)
        if (*s == '%' && sscanf(s + 1, "%2X", &byte) == 1) {
            *to++ = (char)byte;
            s += 2;
        } else {
            *to++ = *s;
        }
    *to = '\0';
}

static bool read_line(FILE *in, struct line *l)
{
    char text[3 * LINE_MAX_LEN];
    if (fgets(text, sizeof text, in) == NULL)
        return false;
    if (sscanf(text, "%1023[^\t]\t%1023[^\t]\t%lld\t%63s", l->schedule, l->zone, &l->after_s, l->want) != 4) {
        fail("a line that can be read: %s", text);
        return false;
    }
    l->back = l->want[0] == '<';
    memmove(l->want, l->want + l->back, sizeof l->want - l->back);
    return true;
}

// The same zone comes many times in a row.
static void load_zone(const char *name)
{
    struct err e = ERR_INIT;
    if (strcmp(name, zone_name) == 0)
        return;
    tz_free(zone);
    zone = NULL;
    snprintf(zone_name, sizeof zone_name, "%s", name);
    if (tz_load(&zone, disk, name, &e) != 0)
        fail("zone %s: %s", name, e.msg);
}

static int64_t answer(const struct line *l, char out[64])
{
    char text[LINE_MAX_LEN];
    struct err e = ERR_INIT;
    struct cron c;
    int64_t next = -1;
    memcpy(text, l->schedule, sizeof text);
    unescape(text);
    if (cron_parse(&c, text, &e) != 0) {
        snprintf(out, 64, "invalid");
        return -1;
    }
    next = cron_next(&c, zone, l->after_s);
    snprintf(out, 64, next < 0 ? "never" : "%" PRId64, next);
    return next;
}

static void count(struct tally *t, const struct line *l, int64_t next)
{
    t->lines++;
    t->invalid += strcmp(l->want, "invalid") == 0;
    t->never += strcmp(l->want, "never") == 0;
    t->still += strcmp(l->want, "still") == 0;
    t->back += l->back;
    t->due += l->want[0] >= '0' && l->want[0] <= '9';
    t->changed += next >= 0 && tz_offset(zone, next) != tz_offset(zone, l->after_s);
}

static void compare(const struct line *l, struct tally *t)
{
    char got[64];
    load_zone(l->zone);
    int64_t next = answer(l, got);
    count(t, l, next);
    bool same = strcmp(l->want, "still") == 0 ? strcmp(got, "invalid") != 0 : strcmp(got, l->want) == 0;
    if (same && (next < 0 || next > l->after_s))
        return;
    if (t->differ++ < SHOWN)
        diag("\"%s\" in %s after %lld: Kubernetes %s, we %s", l->schedule, l->zone, l->after_s, l->want, got);
}

int main(void)
{
    const char *seed = setting("SEED", "1"), *cases = setting("CASES", "100000"), *build = setting("BUILD", "build");
    char command[4200];
    struct err e = ERR_INIT;
    struct line l;
    struct tally t = { 0 };

    if (!is_int(disk_real_new(&disk, NULL, "", &e), 0, "the disk of this machine"))
        return done_testing();
    snprintf(command, sizeof command, "exec '%s/cron/robfig' -seed '%s' -cases '%s'", build, seed, cases);
    FILE *in = popen(command, "re");
    while (in != NULL && read_line(in, &l))
        compare(&l, &t);
    ok(in != NULL && pclose(in) == 0, "the library answered all (test/reference.sh builds it)");

    diag("seed %s: %d runs, %d of them behind a change of the clocks; %d never due; %d refused; %d that only we can answer; %d where the "
         "library first fell back",
         seed, t.due, t.changed, t.never, t.invalid, t.still, t.back);
    is_int(t.lines, atoll(cases), "as many cases as were asked for");
    is_int(t.differ, 0, "seed %s: the same answer as the library's", seed);
    // So that the generator cannot go blind unnoticed.
    ok(t.due > t.lines / 2 && t.changed > t.lines / 50 && t.invalid > t.lines / 50 && t.never > t.lines / 500 && t.back > 0,
       "of each kind enough");
    tz_free(zone);
    disk_free(disk);
    return done_testing();
}
