// SPDX-License-Identifier: Apache-2.0
#include "flow/outage.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

#define META "outage"

enum { MINUTE_S = 60, HOUR_S = 3600, DAY_S = 86400 };

// --- Words

// "40 s", "3 min", "5 h 20 min", "2 d 7 h".
static const char *span_text(int64_t ms, char out[48])
{
    int64_t s = ms / 1000;
    if (s < 2 * MINUTE_S)
        snprintf(out, 48, "%" PRId64 " s", s);
    else if (s < HOUR_S)
        snprintf(out, 48, "%" PRId64 " min", s / MINUTE_S);
    else if (s < DAY_S)
        snprintf(out, 48, "%" PRId64 " h %" PRId64 " min", s / HOUR_S, s % HOUR_S / MINUTE_S);
    else
        snprintf(out, 48, "%" PRId64 " d %" PRId64 " h", s / DAY_S, s % DAY_S / HOUR_S);
    return out;
}

// How long it has lasted; -1: it began in another boot, and the clock was or is not to be trusted.
static int64_t length_ms(const struct outage *o)
{
    struct instant now;
    clock_instant(o->clock, &now);
    if (strcmp(now.boot_id, o->since.boot_id) == 0)
        return now.boot_ms - o->since.boot_ms;
    return now.trusted && o->since.trusted && now.wall_us > o->since.wall_us ? (now.wall_us - o->since.wall_us) / 1000 : -1;
}

// --- What the store keeps: when the outage that was told began

static bool parse(const char *text, struct instant *at)
{
    int trusted;
    if (sscanf(text, "%36s %" SCNd64 " %" SCNd64 " %d", at->boot_id, &at->boot_ms, &at->wall_us, &trusted) != 4)
        return false;
    at->trusted = trusted != 0;
    return true;
}

void outage_recall(struct outage *o)
{
    char text[160];
    struct instant since;
    int rc = db_meta_get(o->db, META, text, sizeof(text), NULL);
    o->unread = rc < 0 && rc != E_NOTFOUND && rc != E_CORRUPT;
    if (o->unread)
        return;
    bool is_kept = rc == 0 && parse(text, &since);
    if (o->told && !is_kept)
        o->told_ms = 0; // nobody was
    o->told = is_kept;
    if (is_kept)
        o->since = since;
}

// since NULL: none.
static int keep(const struct outage *o, const struct instant *since, struct err *e)
{
    char text[160];
    if (since == NULL)
        return db_meta_set(o->db, META, NULL, e);
    snprintf(text, sizeof(text), "%s %" PRId64 " %" PRId64 " %d", since->boot_id, since->boot_ms, since->wall_us, since->trusted);
    return db_meta_set(o->db, META, text, e);
}

// --- The link

static void begin(struct outage *o, bool was_reached)
{
    o->was_reached = was_reached;
    if (!o->told) // else it goes on
        clock_instant(o->clock, &o->since);
}

static void open_window(struct outage *o, int64_t now_ms)
{
    o->window_ms = now_ms;
    o->untold = o->untold_long = 0;
    o->untold_ms = 0;
}

static bool is_worth_telling(const struct outage *o)
{
    return o->untold_long > 0 || o->untold >= OUTAGE_FLAPS;
}

static void count(struct outage *o)
{
    int64_t ms = length_ms(o), now_ms = clock_mono(o->clock);
    if (o->window_ms == 0 || (now_ms >= o->window_ms + OUTAGE_GAP_MS && !is_worth_telling(o)))
        open_window(o, MAX(now_ms, INT64_C(1)));
    o->untold++;
    o->untold_long += ms >= o->least_ms;
    o->untold_ms += MAX(ms, INT64_C(0));
}

void outage_link(struct outage *o, enum outage_link link)
{
    enum outage_link was = o->link;
    if (was == link)
        return;
    o->link = link;
    if (link == OUTAGE_AWAY)
        begin(o, was == OUTAGE_REACHED);
    else if (was == OUTAGE_AWAY && link == OUTAGE_REACHED && o->was_reached && !o->told)
        count(o);
}

// --- What is to be told

int64_t outage_next_ms(const struct outage *o)
{
    if (o->link == OUTAGE_AWAY && !o->told)
        return MAX(clock_mono(o->clock) + MAX(o->least_ms - length_ms(o), INT64_C(0)), o->told_ms > 0 ? o->told_ms + OUTAGE_GAP_MS : 0);
    return o->link == OUTAGE_REACHED && is_worth_telling(o) ? o->window_ms + OUTAGE_GAP_MS : INT64_MAX;
}

static void name(struct outage_news *n)
{
    snprintf(n->id, sizeof(n->id), "%s-%.8s-%" PRId64, n->reason, n->at.boot_id, n->at.boot_ms);
}

static void say_offline(const struct outage *o, const char *why, struct outage_news *n)
{
    int64_t ms = length_ms(o); // what the clock says now counts: it may have been set since
    n->reason = "Offline";
    n->at.boot_ms -= ms;
    n->at.wall_us -= ms * 1000;
    snprintf(n->note, sizeof(n->note), "no contact with the server: %.250s", why[0] != '\0' ? why : "none since the agent began");
}

static void say_online(const struct outage *o, struct outage_news *n)
{
    char span[48];
    int64_t ms = length_ms(o);
    n->reason = "Online";
    if (ms < 0)
        snprintf(n->note, sizeof(n->note), "in contact with the server again; since when it was not, the clock could not tell");
    else
        snprintf(n->note, sizeof(n->note), "in contact with the server again after %s", span_text(ms, span));
}

static void say_flapping(const struct outage *o, int64_t now_ms, struct outage_news *n)
{
    char span[48], within[48];
    n->reason = "Flapping";
    snprintf(n->note, sizeof(n->note), "contact with the server was lost %d times, for %s in all, within %s", o->untold,
             span_text(o->untold_ms, span), span_text(now_ms - o->window_ms, within));
}

bool outage_news(struct outage *o, const char *why, struct outage_news *out)
{
    if (o->unread)
        outage_recall(o);
    if (o->unread)
        return false;
    int64_t now_ms = clock_mono(o->clock);
    clock_instant(o->clock, &out->at);
    if (o->told && o->link == OUTAGE_REACHED)
        say_online(o, out);
    else if (now_ms < outage_next_ms(o))
        return false;
    else if (o->link == OUTAGE_AWAY)
        say_offline(o, why, out);
    else
        say_flapping(o, now_ms, out);
    name(out);
    return true;
}

int outage_told(struct outage *o, const struct outage_news *n, struct err *e)
{
    bool offline = strcmp(n->reason, "Offline") == 0;
    if (strcmp(n->reason, "Flapping") == 0) {
        open_window(o, 0);
        return 0;
    }
    if (keep(o, offline ? &n->at : NULL, e) < 0)
        return e->cls;
    o->told = offline;
    if (offline) {
        o->since = n->at;
        o->told_ms = MAX(clock_mono(o->clock), INT64_C(1));
    }
    return 0;
}
