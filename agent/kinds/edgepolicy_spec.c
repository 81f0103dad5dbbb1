// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "kinds/edgepolicy.h"
#include "kinds/field.h"

enum { PRIORITY_MAX = 1000000, ZONES_MAX = 2 * POLICY_WINDOWS_MAX };
#define SEC INT64_C(1000)
#define DAY (86400 * SEC)

struct reading {
    struct policy_doc *d;
    struct decode decode;
    struct disk *disk;
};

static const char *const modes[] = { "auto", "watch", "poll", "list", NULL }; // enum sync_mode

static void has(struct reading *r, enum policy_field f)
{
    r->d->v.set |= 1U << f;
}

// "10s". Absent: false.
static bool read_duration(const struct field *obj, const char *name, int64_t min_ms, int64_t max_ms, int64_t *out)
{
    static const struct text_rule any = { 1, 32, NULL, NULL };
    struct err why = ERR_INIT;
    struct field f = field_get(obj, name);
    const char *text = field_text(obj, name, &any, NULL);
    int64_t ms = 0;
    if (text == NULL)
        return false;
    if (num_duration_ms(text, &ms, &why) < 0)
        field_bad(&f, "%s", why.msg);
    else if (ms < min_ms || ms > max_ms)
        field_bad(&f, "must be %lld..%lld s, is %s", (long long)(min_ms / SEC), (long long)(max_ms / SEC), text);
    *out = ms;
    return true;
}

// --- Labels

static void read_labels(struct reading *r, const struct field *selector, struct policy_labels *out)
{
    static const struct text_rule value_rule = { 0, 63, NULL, NULL };
    struct field f = field_get(selector, "matchLabels");
    if (!field_present(&f))
        return;
    if (json_type(f.j) != JSON_OBJECT || json_len(f.j) > POLICY_LABELS_MAX) {
        field_bad(&f, "must be an object with at most %d members", POLICY_LABELS_MAX);
        return;
    }
    out->list = arena_alloc(&r->d->arena, (json_len(f.j) + 1) * sizeof(*out->list));
    if (out->list == NULL) {
        field_no_memory(&f);
        return;
    }
    json_each(it, f.j)
    {
        const char *value = field_text(&f, json_key(it), &value_rule, "");
        out->list[out->n++] = (struct policy_label){ json_key(it), value };
    }
}

// --- Windows

static const struct tz *read_zone(struct reading *r, const struct field *w)
{
    static const struct text_rule any = { 1, 64, NULL, NULL };
    struct err why = ERR_INIT;
    struct policy_doc *d = r->d;
    struct field f = field_get(w, "timeZone");
    const char *name = field_text(w, "timeZone", &any, NULL);
    struct tz *zone = NULL;
    if (name == NULL)
        return NULL;
    if (d->zones == NULL)
        d->zones = arena_alloc(&d->arena, ZONES_MAX * sizeof(*d->zones));
    if (d->zones == NULL)
        field_no_memory(&f);
    else if (tz_load(&zone, r->disk, name, &why) < 0)
        field_bad(&f, "%s", why.msg);
    else
        d->zones[d->n_zones++] = zone;
    return zone;
}

// "02:30"
static bool is_time_of_day(const char *s)
{
    int h = -1, m = -1;
    char end;
    return strlen(s) == 5 && sscanf(s, "%2d:%2d%c", &h, &m, &end) == 2 && h >= 0 && h < 24 && m >= 0 && m < 60;
}

static int minutes_of(const char *s)
{
    return (s[0] - '0') * 600 + (s[1] - '0') * 60 + (s[3] - '0') * 10 + (s[4] - '0');
}

static void read_days(struct reading *r, const struct field *w, char out[64])
{
    static const char *const days[] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", NULL };
    struct field list = field_get(w, "days");
    size_t n = field_count(&list, 1, 7), i = 0, at = 0;
    (void)r;
    snprintf(out, 64, "*");
    json_each(item, n > 0 ? list.j : NULL)
    {
        struct field f = field_item(&list, item, i++);
        const char *word = json_str(item);
        int d = 0;
        while (days[d] != NULL && (word == NULL || strcmp(days[d], word) != 0))
            d++;
        if (days[d] == NULL)
            field_bad(&f, "must be one of Sun, Mon, Tue, Wed, Thu, Fri, Sat");
        else
            at += (size_t)snprintf(out + at, 64 - at, "%s%d", at > 0 ? "," : "", d);
    }
}

static void read_cron(const struct field *f, const char *text, struct cron *out)
{
    struct err why = ERR_INIT;
    if (cron_parse(out, text, &why) < 0)
        field_bad(f, "%s", why.msg);
    else if (out->every_s > 0)
        field_bad(f, "@every has no place on a calendar; give the five fields");
}

// {schedule | days and start, duration, timeZone}
static void read_window(struct reading *r, const struct field *w, struct policy_window *out)
{
    static const struct text_rule time_rule = { 5, 5, is_time_of_day, "a time of day such as 02:30" }, any = { 1, 128, NULL, NULL };
    char days[64], text[96];
    struct field schedule = field_get(w, "schedule"), start = field_get(w, "start"), f = field_get(w, "duration");
    int64_t ms = 0;
    if (field_present(&schedule) == field_present(&start) || (field_present(&schedule) && json_get(w->j, "days") != NULL))
        field_bad(w, "give either schedule, or start with or without days");
    const char *cron = field_text(w, "schedule", &any, NULL), *time = field_text(w, "start", &time_rule, "00:00");
    read_days(r, w, days);
    snprintf(text, sizeof(text), "%d %d * * %s", minutes_of(time) % 60, minutes_of(time) / 60, days);
    read_cron(field_present(&schedule) ? &schedule : &start, cron != NULL ? cron : text, &out->at);
    field_require(&f);
    if (read_duration(w, "duration", 60 * SEC, POLICY_WINDOW_MAX_S * SEC, &ms))
        out->duration_s = ms / SEC;
    out->zone = read_zone(r, w);
}

// "22:00-06:00", each day
static void read_daily(struct reading *r, const struct field *w, struct policy_window *out)
{
    static const struct text_rule any = { 11, 11, NULL, NULL };
    const char *text = field_text(w, "daily", &any, NULL);
    char from[6], to[6], cron[32];
    struct field f = field_get(w, "daily");
    if (text == NULL)
        return;
    for (const char *const *other = (const char *const[]){ "schedule", "start", "days", "duration", NULL }; *other != NULL; other++)
        if (json_get(w->j, *other) != NULL)
            field_bad(w, "daily says it all; %s has no place beside it", *other);
    snprintf(from, sizeof(from), "%.5s", text);
    snprintf(to, sizeof(to), "%.5s", text + 6);
    if (text[5] != '-' || !is_time_of_day(from) || !is_time_of_day(to)) {
        field_bad(&f, "must be two times of day such as 22:00-06:00");
        return;
    }
    int minutes = (minutes_of(to) - minutes_of(from) + 1440) % 1440;
    snprintf(cron, sizeof(cron), "%d %d * * *", minutes_of(from) % 60, minutes_of(from) / 60);
    read_cron(&f, cron, &out->at);
    out->duration_s = (minutes > 0 ? minutes : 1440) * 60;
    out->zone = read_zone(r, w);
}

static bool read_windows(struct reading *r, const struct field *obj, struct policy_windows *out)
{
    struct field list = field_get(obj, "windows");
    size_t n = field_count(&list, 0, POLICY_WINDOWS_MAX), i = 0;
    if (!field_present(&list))
        return false;
    out->list = arena_alloc(&r->d->arena, (n + 1) * sizeof(*out->list));
    if (out->list == NULL)
        field_no_memory(&list);
    json_each(item, out->list != NULL && n > 0 ? list.j : NULL)
    {
        struct field w = field_item(&list, item, i), daily = field_get(&w, "daily");
        if (field_present(&daily))
            read_daily(r, &w, &out->list[i++]);
        else
            read_window(r, &w, &out->list[i++]);
    }
    out->n = i;
    return true;
}

// --- The parts

static void read_sync(struct reading *r, const struct field *spec)
{
    struct policy_values *v = &r->d->v;
    struct field sync = field_get(spec, "sync"), mode = field_get(&sync, "mode"), metered = field_get(&sync, "metered");
    struct field metered_mode = field_get(&metered, "mode");
    v->sync_mode = (enum sync_mode)field_choice(&sync, "mode", modes, SYNC_AUTO);
    v->metered_mode = (enum sync_mode)field_choice(&metered, "mode", modes, SYNC_POLL);
    if (field_present(&mode))
        has(r, POLICY_SYNC_MODE);
    if (field_present(&metered_mode))
        has(r, POLICY_METERED_MODE);
    if (read_duration(&sync, "interval", SEC / 2, DAY, &v->sync_interval_ms))
        has(r, POLICY_SYNC_INTERVAL);
    if (read_duration(&metered, "interval", SEC / 2, DAY, &v->metered_interval_ms))
        has(r, POLICY_METERED_INTERVAL);
    if (read_windows(r, &metered, &v->metered))
        has(r, POLICY_METERED_WINDOWS);
}

static void read_lease(struct reading *r, const struct field *spec)
{
    struct policy_values *v = &r->d->v;
    struct field lease = field_get(spec, "lease");
    bool interval = read_duration(&lease, "interval", SEC, DAY, &v->lease_interval_ms);
    bool duration = read_duration(&lease, "duration", 2 * SEC, DAY, &v->lease_duration_ms);
    if (interval)
        has(r, POLICY_LEASE_INTERVAL);
    if (duration)
        has(r, POLICY_LEASE_DURATION);
    if (interval && duration && 2 * v->lease_interval_ms > v->lease_duration_ms)
        field_bad(&lease, "interval must be at most half of duration, or one lost renewal makes the node unknown");
}

static bool can_be_stopped(const char *kind)
{
    return strcmp(kind, "EdgeApp") == 0 || strcmp(kind, "EdgeJob") == 0;
}

static void read_rule(struct reading *r, const struct field *f, struct policy_rule *out)
{
    static const char *const behaviors[] = { "Keep", "Stop", "RunOnly", NULL }; // enum policy_behavior
    static const struct text_rule kind_rule = { 1, 63, can_be_stopped, "EdgeApp or EdgeJob" }, name_rule = { 1, 253, NULL, NULL };
    struct field selector = field_get(f, "selector"), behavior = field_get(f, "behavior");
    size_t n;
    field_require(&behavior);
    out->behavior = (enum policy_behavior)field_choice(f, "behavior", behaviors, POLICY_KEEP);
    out->kinds = field_texts(&selector, "kinds", 0, 8, &kind_rule, &n);
    out->names = field_texts(&selector, "names", 0, POLICY_NAMES_MAX, &name_rule, &n);
    read_labels(r, &selector, &out->labels);
    out->after_ms = 5 * 60 * SEC;
    (void)read_duration(f, "after", 10 * SEC, 3650 * DAY, &out->after_ms);
}

static void read_offline(struct reading *r, const struct field *spec)
{
    struct policy_rules *out = &r->d->v.offline;
    struct field list = field_get(spec, "offline");
    size_t n = field_count(&list, 0, POLICY_RULES_MAX);
    if (!field_present(&list))
        return;
    has(r, POLICY_OFFLINE);
    out->list = arena_alloc(&r->d->arena, (n + 1) * sizeof(*out->list));
    if (out->list == NULL)
        field_no_memory(&list);
    json_each(item, out->list != NULL && n > 0 ? list.j : NULL)
    {
        struct field f = field_item(&list, item, out->n);
        read_rule(r, &f, &out->list[out->n++]);
    }
}

static void read_outbox(struct reading *r, const struct field *spec)
{
    static const char *const firsts[] = { "Oldest", "Normal", "Warning", NULL }; // enum outbox_shed
    struct policy_values *v = &r->d->v;
    struct field outbox = field_get(spec, "outbox"), max = field_get(&outbox, "maxEvents"), first = field_get(&outbox, "shedFirst");
    v->max_events = field_int(&outbox, "maxEvents", 10, 1000000, 5000);
    v->shed_first = (enum outbox_shed)field_choice(&outbox, "shedFirst", firsts, OUTBOX_SHED_OLDEST);
    if (field_present(&max))
        has(r, POLICY_MAX_EVENTS);
    if (field_present(&first))
        has(r, POLICY_SHED_FIRST);
}

static void read_maintenance(struct reading *r, const struct field *spec)
{
    struct field f = field_get(spec, "maintenance");
    if (read_windows(r, &f, &r->d->v.maintenance))
        has(r, POLICY_MAINTENANCE);
}

int edgepolicy_decode(struct policy_doc *d, const struct json *spec, struct disk *disk, struct err *e)
{
    struct reading r = { .d = d, .decode = { .arena = &d->arena, .err = e }, .disk = disk };
    d->spec = json_copy(spec); // the document outlives the pass
    if (spec != NULL && d->spec == NULL)
        return err_set(e, E_NOMEM, "policy %s", d->key);
    struct field f = field_root(&r.decode, d->spec, "spec"), nodes = field_get(&f, "nodeSelector");
    field_require(&f);
    d->priority = field_int(&f, "priority", -PRIORITY_MAX, PRIORITY_MAX, 0);
    read_labels(&r, &nodes, &d->nodes);
    read_sync(&r, &f);
    read_lease(&r, &f);
    read_offline(&r, &f);
    read_outbox(&r, &f);
    read_maintenance(&r, &f);
    return r.decode.rc;
}
