// SPDX-License-Identifier: Apache-2.0
// What must be true of the agent's requests at any moment: how many reports at once and in a second, how often it tries a server that does
// not let it in, and that what was put off with a Retry-After is not asked before that has passed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim_world.h"

enum { AT_ONCE_MAX = 8 };

// A report that the server wants later.
struct put_off {
    struct list link;
    uint64_t report;
    int64_t until_ms;
};

static bool is_report(const struct http_req *r)
{
    return (strcmp(r->method, "PATCH") == 0 && strstr(r->url, "/status") != NULL) ||
           (strcmp(r->method, "POST") == 0 && strstr(r->url, "/events") != NULL);
}

// The first thing that is asked when the link is tried.
static bool is_try(const struct http_req *r)
{
    return strcmp(r->method, "GET") == 0 && strstr(r->url, "/namespaces/kube-system") != NULL;
}

// True: the oldest of the moments that it holds lies less than `span_ms` back, and there are as many as it can hold.
static bool too_often(int64_t *moments, size_t n, uint64_t *seen, int64_t now_ms, int64_t span_ms)
{
    int64_t *slot = &moments[(*seen)++ % n];
    bool often = *seen > n && now_ms - *slot < span_ms;
    *slot = now_ms;
    return often;
}

// --- The mode

// How long a stream may last, in seconds; 0 = it is none.
static int stream_seconds(const struct http_req *r)
{
    static const char timeout[] = "timeoutSeconds=";
    const char *at = strstr(r->url, timeout);
    if (strcmp(r->method, "GET") != 0 || strstr(r->url, "watch=1") == NULL || at == NULL)
        return 0;
    return atoi(at + strlen(timeout));
}

// A list that is streamed, and a poll, end within two minutes.
static bool is_long_watch(const struct http_req *r)
{
    return stream_seconds(r) > 120;
}

static void check_mode(struct world *w, const struct http_req *r)
{
    enum { LONG = 1U << SYNC_AUTO | 1U << SYNC_WATCH };
    if (stream_seconds(r) == 0)
        return;
    unsigned modes = policies_modes(w);
    if (modes == 1U << SYNC_LIST || (is_long_watch(r) && (modes & LONG) == 0))
        sim_violation(&w->sim, "a stream of %d s is opened, and the modes that can be in force are %#x: %.100s", stream_seconds(r), modes,
                      r->url);
}

// One that was opened before the mode was another ends.
void rules_modes(struct world *w)
{
    enum { LONG = 1U << SYNC_AUTO | 1U << SYNC_WATCH, PATIENCE_MS = 30 * 1000 };
    if (w->agent == NULL || sim_net_under_way(&w->net, is_long_watch) == 0 || (policies_modes(w) & LONG) != 0)
        w->rules.watches_ms = w->sim.now_ms;
    else if (w->sim.now_ms - w->rules.watches_ms > PATIENCE_MS)
        sim_violation(&w->sim, "watches are open, and the modes that can be in force are %#x", policies_modes(w));
}

// --- Retry-After

// All events are posted to one address: there it is the name that tells them apart.
static uint64_t report_id(const struct http_req *r)
{
    static const char name[] = "\"name\":\"";
    uint64_t h = hash_bytes(HASH_SEED, r->url, strlen(r->url));
    const char *at = strcmp(r->method, "POST") == 0 ? memmem(r->body, r->body_len, name, strlen(name)) : NULL;
    if (at == NULL)
        return h;
    at += strlen(name);
    const char *end = memchr(at, '"', r->body_len - (size_t)(at - (const char *)r->body));
    return end != NULL ? hash_bytes(h, at, (size_t)(end - at)) : h;
}

static struct put_off *put_off_of(struct world *w, uint64_t report)
{
    list_each(it, &w->rules.put_off)
        if (container_of(it, struct put_off, link)->report == report)
            return container_of(it, struct put_off, link);
    return NULL;
}

void rules_put_off(struct world *w, const struct http_req *r)
{
    AS_WORLD;
    if (!is_report(r))
        return;
    struct put_off *p = put_off_of(w, report_id(r));
    if (p == NULL && (p = calloc(1, sizeof(*p))) == NULL)
        abort();
    p->report = report_id(r);
    p->until_ms = w->sim.now_ms + r->head.retry_after_ms;
    if (!list_linked(&p->link))
        list_add_tail(&w->rules.put_off, &p->link);
}

static void check_put_off(struct world *w, const struct http_req *r)
{
    struct put_off *p = put_off_of(w, report_id(r));
    if (p == NULL)
        return;
    if (w->sim.now_ms < p->until_ms)
        sim_violation(&w->sim, "a report is sent %lld ms before its Retry-After has passed: %s %.100s",
                      (long long)(p->until_ms - w->sim.now_ms), r->method, r->url);
    list_del(&p->link);
    free(p);
}

// --- All of it

void rules_request(struct world *w, const struct http_req *r)
{
    struct rules *u = &w->rules;
    if (u->on && is_try(r) && too_often(u->tries_ms, RULES_TRIES, &u->n_tries, w->sim.now_ms, MINUTE))
        sim_violation(&w->sim, "the link is tried more than %d times in a minute", RULES_TRIES);
    if (strcmp(r->method, "GET") != 0 && strstr(r->url, "/namespaces/" SIM_SHARED_NS "/") != NULL)
        sim_violation(&w->sim, "%s %.100s: what all nodes share is written to", r->method, r->url);
    check_mode(w, r);
    if (!is_report(r))
        return;
    if (too_often(u->reports_ms, RULES_REPORTS, &u->n_reports, w->sim.now_ms, 1000))
        sim_violation(&w->sim, "more than %d reports in a second", RULES_REPORTS);
    if (sim_net_under_way(&w->net, is_report) >= AT_ONCE_MAX)
        sim_violation(&w->sim, "more than %d reports under way", AT_ONCE_MAX);
    check_put_off(w, r);
}

// What the server asked of it was in its memory.
void rules_pace_forget(struct world *w)
{
    w->rules.n_tries = 0;
    list_each_safe(it, next, &w->rules.put_off) {
        list_del(it);
        free(container_of(it, struct put_off, link));
    }
}
