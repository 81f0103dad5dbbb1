// SPDX-License-Identifier: Apache-2.0
// How long we have been offline, and who may run then.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "flow/policy.h"

enum { KEEP_FIRST_MS = 600000, KEEP_PART = 8 };
#define META "offline"

// --- Rules

static const char *label_of(const struct json *labels, const char *key)
{
    return json_str(json_get(labels, key));
}

bool policy_labels_match(const struct policy_labels *wanted, const struct json *labels)
{
    for (size_t i = 0; i < wanted->n; i++) {
        const char *have = label_of(labels, wanted->list[i].key);
        if (have == NULL || strcmp(have, wanted->list[i].value) != 0)
            return false;
    }
    return true;
}

// An empty list asks for nothing.
static bool is_listed(const char *const *list, const char *text)
{
    if (list == NULL || list[0] == NULL)
        return true;
    for (; *list != NULL; list++)
        if (strcmp(*list, text) == 0)
            return true;
    return false;
}

static bool is_selected(const struct policy_rule *r, const struct policy_subject *s)
{
    return is_listed(r->kinds, s->kind) && is_listed(r->names, s->name) && policy_labels_match(&r->labels, s->labels);
}

const struct policy_rule *policy_stops(const struct policy_rules *r, const struct policy_subject *s, int64_t offline_ms)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct policy_rule *rule = &r->list[i];
        bool selected = is_selected(rule, s);
        bool stops = rule->behavior == POLICY_STOP || (rule->behavior == POLICY_RUN_ONLY && !selected);
        if (selected || rule->behavior == POLICY_RUN_ONLY)
            return stops && offline_ms >= rule->after_ms ? rule : NULL;
    }
    return NULL;
}

bool policy_stopped_offline(const struct policy *p, const struct policy_subject *s, char *why, size_t max)
{
    const struct policy_doc *from = p->merged.from[POLICY_OFFLINE];
    if (p->online || from == NULL)
        return false;
    const struct policy_rule *r = policy_stops(&p->merged.v.offline, s, policy_offline_ms(p));
    if (r != NULL)
        snprintf(why, max, "offline for %" PRId64 " s or more: %s of policy %s/%s", r->after_ms / 1000,
                 r->behavior == POLICY_STOP ? "Stop" : "RunOnly", from->ns, from->name);
    return r != NULL;
}

// --- Time

int64_t policy_offline_ms(const struct policy *p)
{
    return p->online ? 0 : p->carried_ms + MAX(clock_boot(p->conf.clock) - p->since_ms, (int64_t)1);
}

// What is kept: boot id, boot-time, wall time, whether that was trusted, and how long we had been offline then.
static void write_down(struct policy *p, int64_t offline_ms, bool now)
{
    char text[160];
    struct instant at;
    struct err e = ERR_INIT;
    clock_instant(p->conf.clock, &at);
    snprintf(text, sizeof(text), "%s %" PRId64 " %" PRId64 " %d %" PRId64, at.boot_id, at.boot_ms, at.wall_us, at.trusted, offline_ms);
    int rc = now ? db_meta_set(p->conf.db, META, text, &e) : db_lazy_meta(p->conf.db, META, text, &e);
    if (rc < 0)
        log_warn("policy", "offline-time-not-kept error=\"%s\"", e.msg);
    else if (now)
        p->kept_ms = offline_ms;
    p->keeping = p->keeping || (rc == 0 && now);
    if (now)
        p->keep_again = rc < 0;
}

void policy_kept(struct db_hook *h, int cls)
{
    struct policy *p = container_of(h, struct policy, ended);
    p->keep_again = p->keep_again || (p->keeping && cls != 0);
    p->keeping = false;
}

static void forget(struct policy *p)
{
    char text[160];
    struct err e = ERR_INIT;
    int rc = p->conf.db != NULL ? db_meta_get(p->conf.db, META, text, sizeof(text), &e) : E_NOTFOUND;
    p->keeping = rc == 0;
    if (rc == 0)
        rc = db_meta_set(p->conf.db, META, NULL, &e);
    p->keep_again = rc < 0 && rc != E_NOTFOUND;
    if (p->keep_again)
        log_warn("policy", "offline-time-not-forgotten error=\"%s\"", e.msg);
    p->kept_ms = 0;
}

// Each loss of power costs at most an eighth of the time, and a month offline some seventy small writes.
void policy_keep_offline(struct policy *p, bool now)
{
    int64_t ms = policy_offline_ms(p);
    if (p->online && p->keep_again)
        forget(p);
    if (p->online || p->conf.db == NULL || p->merged.v.offline.n == 0)
        return;
    write_down(p, ms, now || p->keep_again || ms - p->kept_ms >= MAX(p->kept_ms / KEEP_PART, (int64_t)KEEP_FIRST_MS));
}

// Of another boot only as much as two trusted clocks say has passed since; without them the time switched off does not count.
static int64_t since_then(struct policy *p, const char *boot_id, int64_t boot_ms, int64_t wall_us, bool trusted)
{
    struct instant now;
    clock_instant(p->conf.clock, &now);
    if (strcmp(now.boot_id, boot_id) == 0)
        return now.boot_ms - boot_ms;
    return trusted && now.trusted ? (now.wall_us - wall_us) / 1000 : now.boot_ms;
}

void policy_recall_offline(struct policy *p)
{
    char text[160], boot_id[37];
    int64_t boot_ms, wall_us, ms;
    int trusted;
    p->since_ms = clock_boot(p->conf.clock);
    if (p->conf.db == NULL || db_meta_get(p->conf.db, META, text, sizeof(text), NULL) < 0)
        return;
    if (sscanf(text, "%36s %" SCNd64 " %" SCNd64 " %d %" SCNd64, boot_id, &boot_ms, &wall_us, &trusted, &ms) != 5)
        return;
    p->carried_ms = ms + MAX(since_then(p, boot_id, boot_ms, wall_us, trusted != 0), (int64_t)0);
    p->kept_ms = ms;
}

void policy_link(struct policy *p, bool online)
{
    if (p->online == online)
        return;
    p->online = online;
    p->since_ms = clock_boot(p->conf.clock);
    p->carried_ms = 0;
    if (online)
        forget(p);
    policy_look(p);
}
