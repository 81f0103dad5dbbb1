// SPDX-License-Identifier: Apache-2.0
// Lists and watches.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim_server.h"

enum { BOOKMARK_MIN_MS = 50 * 1000, BOOKMARK_MAX_MS = 70 * 1000, SHORT_WATCH_S = 8, STREAM_MAX = 16 << 20 };

static bool of_list(const struct sim_object *o, const struct sim_type *t, const char *ns)
{
    return o->type == t && !o->hidden && strcmp(o->ns, ns) == 0;
}

static void add(struct buf *b, const char *text)
{
    struct err e = ERR_INIT;
    if (buf_adds(b, text, &e) < 0)
        abort();
}

// --- Lists, by pages when there is a limit

static struct sim_snapshot *snapshot(struct sim_server *v, const struct sim_type *t, const char *ns)
{
    struct sim_snapshot *s = &v->tokens[v->n_tokens % SIM_TOKENS];
    for (size_t i = 0; i < s->n; i++)
        free(s->texts[i]);
    *s = (struct sim_snapshot){ .used = true, .id = ++v->n_tokens, .rv = v->rv };
    sim_each_object(o, v) if (of_list(o, t, ns) && s->n < ARRAY_LEN(s->texts)) s->texts[s->n++] = strdup(o->text);
    return s;
}

static struct sim_snapshot *snapshot_of(struct sim_server *v, const char *token, size_t *from)
{
    int id = 0;
    if (sscanf(token, "token-%d-%zu", &id, from) != 2)
        return NULL;
    for (size_t i = 0; i < SIM_TOKENS; i++)
        if (v->tokens[i].used && v->tokens[i].id == id)
            return &v->tokens[i];
    return NULL;
}

static void print_page(const struct sim_type *t, const struct sim_snapshot *s, size_t from, size_t limit, struct sim_answer *a)
{
    char text[200];
    size_t end = limit > 0 ? MIN(s->n, from + limit) : s->n;
    buf_reset(&a->body);
    snprintf(text, sizeof(text), "{\"kind\":\"%sList\",\"apiVersion\":\"%s/%s\",\"metadata\":{\"resourceVersion\":\"%" PRId64 "\"", t->kind,
             t->group, t->version, s->rv);
    add(&a->body, text);
    if (end < s->n) {
        snprintf(text, sizeof(text), ",\"continue\":\"token-%d-%zu\",\"remainingItemCount\":%zu", s->id, end, s->n - end);
        add(&a->body, text);
    }
    add(&a->body, "},\"items\":[");
    for (size_t i = from; i < end; i++) {
        add(&a->body, i > from ? "," : "");
        add(&a->body, s->texts[i]);
    }
    add(&a->body, "]}");
    a->status = 200;
}

static void list_page(struct sim_server *v, const struct sim_type *t, const char *ns, const char *url, struct sim_answer *a)
{
    char limit[16], token[64];
    size_t from = 0;
    struct sim_snapshot *s;
    sim_query(url, "limit", limit, sizeof(limit));
    if (sim_query(url, "continue", token, sizeof(token)))
        s = snapshot_of(v, token, &from);
    else
        s = snapshot(v, t, ns);
    if (s == NULL)
        sim_fail(a, 410, "Expired", "The provided continue parameter is too old");
    else
        print_page(t, s, from, (size_t)strtoul(limit, NULL, 10), a);
}

// --- Watches

static void emit(struct sim_stream *st, const char *what, const char *object)
{
    struct err e = ERR_INIT;
    if (buf_addf(&st->out, &e, "{\"type\":\"%s\",\"object\":", what) < 0)
        abort();
    add(&st->out, object);
    add(&st->out, "}\n");
}

static void emit_bookmark(struct sim_stream *st, bool first)
{
    char text[300];
    snprintf(text, sizeof(text),
             "{\"kind\":\"%s\",\"apiVersion\":\"%s/%s\",\"metadata\":{\"resourceVersion\":\"%" PRId64
             "\",\"creationTimestamp\":null%s},\"spec\":{}}",
             st->type->kind, st->type->group, st->type->version, st->server->rv,
             first ? ",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}" : "");
    emit(st, "BOOKMARK", text);
    st->rv = st->server->rv;
}

static void on_bookmark(struct sim_event *ev)
{
    struct sim_stream *st = container_of(ev, struct sim_stream, bookmark);
    if (!st->mute)
        emit_bookmark(st, false);
    sim_in(st->server->sim, &st->bookmark, rng_between(&st->server->rng, BOOKMARK_MIN_MS, BOOKMARK_MAX_MS), on_bookmark);
    st->wake(st);
}

static void on_end(struct sim_event *ev)
{
    struct sim_stream *st = container_of(ev, struct sim_stream, end);
    st->ended = true;
    st->wake(st);
}

void sim_tell_streams(struct sim_server *v, const struct sim_change *c)
{
    list_each_safe(it, next, &v->streams) {
        struct sim_stream *st = container_of(it, struct sim_stream, link);
        if (st->ended || st->mute || st->type != c->type || strcmp(st->ns, c->ns) != 0)
            continue;
        emit(st, c->what, c->text);
        st->rv = c->rv;
        st->wake(st);
    }
}

static void wake_nobody(struct sim_stream *st UNUSED)
{
}

static struct sim_stream *stream_new(struct sim_server *v, const struct sim_type *t, const char *ns, const char *url)
{
    char text[24];
    struct sim_stream *st = calloc(1, sizeof(*st));
    if (st == NULL)
        abort();
    *st = (struct sim_stream){ .server = v, .type = t, .out = BUF_INIT(STREAM_MAX), .wake = wake_nobody };
    snprintf(st->ns, sizeof(st->ns), "%s", ns);
    st->bookmarks = sim_query(url, "allowWatchBookmarks", text, sizeof(text)) && strcmp(text, "true") == 0;
    list_add_tail(&v->streams, &st->link);
    int64_t seconds = sim_query(url, "timeoutSeconds", text, sizeof(text)) ? strtoll(text, NULL, 10) : 1800;
    sim_in(v->sim, &st->end, seconds * 1000, on_end);
    if (!st->bookmarks)
        return st;
    // Long ones get about one a minute; one of 8 s gets one, shorter ones get none.
    if (seconds > SHORT_WATCH_S)
        sim_in(v->sim, &st->bookmark, rng_between(&v->rng, BOOKMARK_MIN_MS, BOOKMARK_MAX_MS), on_bookmark);
    else if (seconds == SHORT_WATCH_S)
        sim_in(v->sim, &st->bookmark, rng_between(&v->rng, 2000, 7500), on_bookmark);
    return st;
}

void sim_stream_close(struct sim_stream *st)
{
    sim_unset(&st->bookmark);
    sim_unset(&st->end);
    list_del(&st->link);
    buf_fini(&st->out);
    free(st);
}

static void too_old(struct sim_server *v, struct sim_stream *st)
{
    struct sim_answer status = { .body = BUF_INIT(4096) };
    sim_fail(&status, 410, "Expired", "too old resource version");
    emit(st, "ERROR", buf_str(&status.body));
    sim_answer_fini(&status);
    st->ended = true;
    sim_unset(&st->bookmark);
    sim_in(v->sim, &st->end, 0, on_end);
}

static void replay(struct sim_server *v, struct sim_stream *st)
{
    list_each(it, &v->history) {
        const struct sim_change *c = container_of(it, struct sim_change, link);
        if (c->rv > st->rv && c->type == st->type && strcmp(c->ns, st->ns) == 0)
            emit(st, c->what, c->text);
    }
    st->rv = v->rv;
}

static void first_list(struct sim_server *v, struct sim_stream *st)
{
    sim_each_object(o, v) if (of_list(o, st->type, st->ns)) emit(st, "ADDED", o->text);
    emit_bookmark(st, true);
}

static bool initial_events_are_valid(struct sim_server *v, const char *url, struct sim_answer *a)
{
    char match[32], bookmarks[8];
    sim_query(url, "resourceVersionMatch", match, sizeof(match));
    sim_query(url, "allowWatchBookmarks", bookmarks, sizeof(bookmarks));
    if (v->old_server) {
        sim_fail(a, 422, "Invalid", "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled");
        return false;
    }
    if (strcmp(match, "NotOlderThan") != 0 || strcmp(bookmarks, "true") != 0)
        sim_violation(v->sim, "a streamed list without resourceVersionMatch=NotOlderThan or bookmarks");
    return true;
}

static void watch(struct sim_server *v, const struct sim_type *t, const char *ns, const char *url, struct sim_answer *a)
{
    char rv[32], initial[8];
    sim_query(url, "resourceVersion", rv, sizeof(rv));
    bool stream = sim_query(url, "sendInitialEvents", initial, sizeof(initial)) && strcmp(initial, "true") == 0;
    if (stream && !initial_events_are_valid(v, url, a))
        return;
    if (!stream && rv[0] == '\0')
        sim_violation(v->sim, "a watch of %s that names no resourceVersion", t->plural);
    int64_t from = strtoll(rv, NULL, 10);
    bool gone = !stream && sim_store_too_old(v, t, from);
    if (gone && rng_chance(&v->rng, 30)) {
        sim_fail(a, 410, "Expired", "too old resource version: %s (%" PRId64 ")", rv, v->compacted_rv);
        return;
    }
    struct sim_stream *st = stream_new(v, t, ns, url);
    st->rv = from;
    a->status = 200;
    a->stream = st;
    if (gone)
        too_old(v, st);
    else if (stream)
        first_list(v, st);
    else if (from <= v->rv)
        replay(v, st);
    else
        st->mute = true;
}

void sim_list(struct sim_server *v, const struct sim_type *t, const char *ns, const struct sim_request *r, struct sim_answer *a)
{
    char w[8];
    if (sim_query(r->url, "watch", w, sizeof(w)) && (strcmp(w, "1") == 0 || strcmp(w, "true") == 0))
        watch(v, t, ns, r->url, a);
    else
        list_page(v, t, ns, r->url, a);
}
