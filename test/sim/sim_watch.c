// SPDX-License-Identifier: Apache-2.0
// Lists and watches.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim_server.h"

enum { BOOKMARK_MIN_MS = 50 * 1000, BOOKMARK_MAX_MS = 70 * 1000, SHORT_WATCH_S = 8, STREAM_MAX = 16 << 20, TOO_NEW_MS = 3000 };

static void add(struct buf *b, const char *text)
{
    struct err e = ERR_INIT;
    if (buf_adds(b, text, &e) < 0)
        abort();
}

// What a list or a watch was asked for.
struct query {
    char limit[24], token[200], rv[32], match[24], initial[8], labels[200], fields[200];
    bool watch, has_initial, stream, bookmarks;
    int64_t from; // rv as a number, 0 = not given
};

static void read_query(const char *url, struct query *q)
{
    char text[24];
    *q = (struct query){ 0 };
    sim_query(url, "limit", q->limit, sizeof(q->limit));
    sim_query(url, "continue", q->token, sizeof(q->token));
    sim_query(url, "resourceVersion", q->rv, sizeof(q->rv));
    sim_query(url, "resourceVersionMatch", q->match, sizeof(q->match));
    sim_query(url, "labelSelector", q->labels, sizeof(q->labels));
    sim_query(url, "fieldSelector", q->fields, sizeof(q->fields));
    q->has_initial = sim_query(url, "sendInitialEvents", q->initial, sizeof(q->initial));
    q->stream = strcmp(q->initial, "true") == 0;
    q->bookmarks = sim_query(url, "allowWatchBookmarks", text, sizeof(text)) && strcmp(text, "true") == 0;
    q->watch = sim_query(url, "watch", text, sizeof(text)) && (strcmp(text, "1") == 0 || strcmp(text, "true") == 0);
    q->from = strtoll(q->rv, NULL, 10);
}

static bool of_list(const struct sim_object *o, const struct sim_type *t, const char *ns, const struct query *q)
{
    return o->type == t && !o->hidden && (ns[0] == '\0' || strcmp(o->ns, ns) == 0) && sim_selected(q->labels, q->fields, o->json);
}

static bool is_number(const char *s)
{
    return s[strspn(s, "0123456789")] == '\0';
}

// --- What may not be asked

static bool forbidden(struct sim_answer *a, const char *field, const char *reason, const char *what)
{
    struct json *causes = json_array();
    sim_cause(causes, reason, field, "%s", what);
    sim_fail_invalid(a, "meta.k8s.io", "ListOptions", "", causes);
    return false;
}

static bool match_is_valid(const struct query *q, struct sim_answer *a)
{
    static const char field[] = "resourceVersionMatch";
    if (q->match[0] == '\0')
        return true;
    if (q->watch && !q->has_initial)
        return forbidden(a, field, "FieldValueForbidden",
                         "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
    if (!q->watch && q->rv[0] == '\0')
        return forbidden(a, field, "FieldValueForbidden",
                         "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided");
    if (strcmp(q->match, "NotOlderThan") != 0 && (q->watch || strcmp(q->match, "Exact") != 0))
        return forbidden(a, field, "FieldValueNotSupported", "Unsupported value");
    return true;
}

static bool not_with_this_match(const struct query *q, struct sim_answer *a)
{
    struct json *causes = json_array();
    sim_cause(causes, "FieldValueForbidden", "resourceVersionMatch", "sendInitialEvents requires setting it to NotOlderThan");
    if (q->match[0] != '\0')
        sim_cause(causes, "FieldValueNotSupported", "resourceVersionMatch", "Unsupported value");
    sim_fail_invalid(a, "meta.k8s.io", "ListOptions", "", causes);
    return false;
}

static bool initial_is_valid(struct sim_server *v, const struct query *q, struct sim_answer *a)
{
    if (!q->has_initial)
        return true;
    if (v->old_server)
        return forbidden(a, "sendInitialEvents", "FieldValueForbidden",
                         "Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled");
    if (!q->watch)
        return forbidden(a, "sendInitialEvents", "FieldValueForbidden", "Forbidden: sendInitialEvents is forbidden for list");
    return strcmp(q->match, "NotOlderThan") == 0 || not_with_this_match(q, a);
}

static bool rv_is_valid(const struct query *q, struct sim_answer *a)
{
    if (is_number(q->rv))
        return true;
    if (q->watch) // so it says
        sim_fail(a, 500, NULL, "resourceVersion: Invalid value: \"%s\": strconv.ParseUint: parsing \"%s\": invalid syntax", q->rv, q->rv);
    else
        sim_fail(a, 400, "BadRequest",
                 "invalid resource version: resourceVersion: Invalid value: \"%s\": strconv.ParseUint: parsing \"%s\": invalid syntax",
                 q->rv, q->rv);
    return false;
}

static bool limit_is_valid(const struct query *q, struct sim_answer *a)
{
    if (is_number(q->limit[0] == '-' ? q->limit + 1 : q->limit))
        return true;
    sim_fail(a, 400, "BadRequest", "strconv.ParseInt: parsing \"%s\": invalid syntax", q->limit);
    return false;
}

// --- Lists, by pages when there is a limit

void sim_snapshot_fini(struct sim_snapshot *s)
{
    for (size_t i = 0; i < s->n; i++) {
        free(s->texts[i]);
        free(s->names[i]);
    }
    free(s->texts);
    free(s->names);
    *s = (struct sim_snapshot){ 0 };
}

static int by_name(const void *a, const void *b)
{
    const struct sim_object *const *x = a, *const *y = b;
    int ns = strcmp((*x)->ns, (*y)->ns);
    return ns != 0 ? ns : strcmp((*x)->name, (*y)->name);
}

// The objects of a list in the order of their names; the caller's.
static const struct sim_object **sorted(struct sim_server *v, const struct sim_type *t, const char *ns, const struct query *q, size_t *n)
{
    size_t all = 1;
    sim_each_object(o, v) all += of_list(o, t, ns, q);
    const struct sim_object **list = calloc(all, sizeof(struct sim_object *));
    if (list == NULL)
        abort();
    *n = 0;
    sim_each_object(o, v) if (of_list(o, t, ns, q)) list[(*n)++] = o;
    qsort(list, *n, sizeof(struct sim_object *), by_name);
    return list;
}

static void take_snapshot(struct sim_server *v, const struct sim_type *t, const char *ns, const struct query *q, struct sim_snapshot *s)
{
    size_t n;
    const struct sim_object **list = sorted(v, t, ns, q, &n);
    *s = (struct sim_snapshot){ .rv = v->rv, .n = n, .texts = calloc(n + 1, sizeof(char *)), .names = calloc(n + 1, sizeof(char *)) };
    if (s->texts == NULL || s->names == NULL)
        abort();
    for (size_t i = 0; i < n; i++) {
        s->texts[i] = strdup(list[i]->text);
        s->names[i] = strdup(list[i]->name);
    }
    free(list);
}

// The place of one that stays, for tokens.
static struct sim_snapshot *kept_snapshot(struct sim_server *v, const struct sim_snapshot *s)
{
    struct sim_snapshot *kept = &v->tokens[v->n_tokens % SIM_TOKENS];
    sim_snapshot_fini(kept);
    *kept = *s;
    kept->id = ++v->n_tokens;
    return kept;
}

static struct sim_snapshot *snapshot_of(struct sim_server *v, int id)
{
    for (size_t i = 0; i < SIM_TOKENS; i++)
        if (v->tokens[i].id == id)
            return &v->tokens[i];
    return NULL;
}

// A token names a snapshot and the last object that was told.
static size_t after(const struct sim_snapshot *s, const char *name)
{
    size_t i = 0;
    while (i < s->n && strcmp(s->names[i], name) <= 0)
        i++;
    return i;
}

static void print_token(char out[200], const struct sim_snapshot *s, size_t end)
{
    snprintf(out, 200, "token_%d_%s", s->id, end > 0 ? s->names[end - 1] : "");
}

static void print_page(const struct sim_type *t, const struct sim_snapshot *s, size_t from, size_t limit, bool selected,
                       struct sim_answer *a)
{
    char text[600], token[200];
    size_t end = limit > 0 ? MIN(s->n, from + limit) : s->n;
    buf_reset(&a->body);
    snprintf(text, sizeof(text), "{\"kind\":\"%sList\",\"apiVersion\":\"%s%s%s\",\"metadata\":{\"resourceVersion\":\"%" PRId64 "\"",
             t->kind, t->group, t->group[0] != '\0' ? "/" : "", t->version, s->rv);
    add(&a->body, text);
    if (end < s->n) {
        print_token(token, s, end);
        snprintf(text, sizeof(text), ",\"continue\":\"%s\"", token);
        add(&a->body, text);
    }
    if (end < s->n && !selected) { // of a selection it does not know how much is left
        snprintf(text, sizeof(text), ",\"remainingItemCount\":%zu", s->n - end);
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

static void too_new(struct sim_server *v, const struct query *q, struct sim_answer *a)
{
    struct json *causes = json_array();
    sim_cause(causes, "ResourceVersionTooLarge", NULL, "Too large resource version");
    sim_fail_later(a, 504, "Timeout", causes, "Timeout: Too large resource version: %s, current: %" PRId64, q->rv, v->rv);
}

// With it comes a token that goes on from the same place in another snapshot.
static void token_expired(struct sim_server *v, const struct sim_type *t, const char *ns, const struct query *q, const char *last,
                          struct sim_answer *a)
{
    char token[200];
    struct sim_snapshot now;
    take_snapshot(v, t, ns, q, &now);
    snprintf(token, sizeof(token), "token_%d_%s", kept_snapshot(v, &now)->id, last);
    sim_fail(a, 410, "Expired", "The provided continue parameter is too old to display a consistent list result.");
    struct json *j = NULL;
    struct err e = ERR_INIT;
    if (json_parse(&j, buf_str(&a->body), a->body.len, &e) < 0)
        abort();
    json_set_str((struct json *)json_get(j, "metadata"), "continue", token);
    buf_reset(&a->body);
    if (json_print(j, &a->body, &e) < 0)
        abort();
    json_free(j);
}

static bool is_selection(const struct query *q)
{
    return q->labels[0] != '\0' || q->fields[0] != '\0';
}

static void first_page(struct sim_server *v, const struct sim_type *t, const char *ns, const struct query *q, size_t limit,
                       struct sim_answer *a)
{
    struct sim_snapshot now;
    if (q->from > v->rv) {
        too_new(v, q, a);
        return;
    }
    take_snapshot(v, t, ns, q, &now);
    if (limit > 0 && limit < now.n) {
        print_page(t, kept_snapshot(v, &now), 0, limit, is_selection(q), a);
        return;
    }
    print_page(t, &now, 0, 0, false, a);
    sim_snapshot_fini(&now);
}

static void list_page(struct sim_server *v, const struct sim_type *t, const char *ns, const struct query *q, struct sim_answer *a)
{
    int id = 0;
    char last[SIM_NAME_MAX] = "";
    size_t limit = (size_t)MAX(strtol(q->limit, NULL, 10), 0L);
    if (q->token[0] == '\0') {
        first_page(v, t, ns, q, limit, a);
    } else if (q->rv[0] != '\0') {
        sim_fail(a, 400, "BadRequest", "specifying resource version is not allowed when using continue");
    } else if (sscanf(q->token, "token_%d_%127s", &id, last) < 1) {
        sim_fail(a, 400, "BadRequest", "invalid continue token: continue key is not valid");
    } else {
        struct sim_snapshot *s = snapshot_of(v, id);
        if (s == NULL)
            token_expired(v, t, ns, q, last, a);
        else
            print_page(t, s, after(s, last), limit, is_selection(q), a);
    }
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

static void emit_bookmark(struct sim_stream *st, bool ends_initial_events)
{
    char text[500];
    snprintf(text, sizeof(text),
             "{\"kind\":\"%s\",\"apiVersion\":\"%s%s%s\",\"metadata\":{\"resourceVersion\":\"%" PRId64 "\",\"creationTimestamp\":null%s}}",
             st->type->kind, st->type->group, st->type->group[0] != '\0' ? "/" : "", st->type->version, st->rv,
             ends_initial_events ? ",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}" : "");
    emit(st, "BOOKMARK", text);
}

static void on_bookmark(struct sim_event *ev)
{
    struct sim_stream *st = container_of(ev, struct sim_stream, bookmark);
    if (st->ended || st->mute)
        return;
    st->rv = st->server->rv;
    emit_bookmark(st, false);
    sim_in(st->server->sim, ev, rng_between(&st->server->rng, BOOKMARK_MIN_MS, BOOKMARK_MAX_MS), on_bookmark);
    st->wake(st);
}

static void on_end(struct sim_event *ev)
{
    struct sim_stream *st = container_of(ev, struct sim_stream, end);
    st->ended = true;
    st->wake(st);
}

void sim_stream_end_in(struct sim_stream *st, int64_t ms)
{
    sim_in(st->server->sim, &st->end, ms, on_end);
}

static struct json *parse(const char *text)
{
    struct json *j = NULL;
    struct err e = ERR_INIT;
    if (json_parse(&j, text, strlen(text), &e) < 0)
        abort();
    return j;
}

// A watch from before its CRD changed knows only the fields of then.
static void emit_by_old_schema(struct sim_stream *st, const char *what, const char *text)
{
    struct buf b AUTO_BUF = BUF_INIT(4 << 20);
    struct err e = ERR_INIT;
    struct json *j AUTO_JSON = parse(text);
    sim_schema_prune(st->schema, j);
    if (json_print(j, &b, &e) < 0)
        abort();
    emit(st, what, buf_str(&b));
}

static void emit_object(struct sim_stream *st, const char *what, const char *text)
{
    if (st->schema != st->type->schema)
        emit_by_old_schema(st, what, text);
    else
        emit(st, what, text);
}

static bool selects(const struct sim_stream *st, const char *text)
{
    if (text == NULL)
        return false;
    struct json *j AUTO_JSON = parse(text);
    return sim_selected(st->labels, st->fields, j);
}

// As it was when it was seen last, at the resourceVersion of what took it out of sight.
static void emit_deselected(struct sim_stream *st, const struct sim_change *c)
{
    char rv[24];
    struct buf b AUTO_BUF = BUF_INIT(4 << 20);
    struct err e = ERR_INIT;
    struct json *j AUTO_JSON = parse(c->before);
    snprintf(rv, sizeof(rv), "%" PRId64, c->rv);
    json_set_str((struct json *)json_get(j, "metadata"), "resourceVersion", rv);
    if (json_print(j, &b, &e) < 0)
        abort();
    emit_object(st, "DELETED", buf_str(&b));
}

// What a change is for a watch that sees only some objects: one that is not selected any more is gone for it.
static void tell(struct sim_stream *st, const struct sim_change *c)
{
    if (st->type != c->type || (st->ns[0] != '\0' && strcmp(st->ns, c->ns) != 0))
        return;
    if (st->labels[0] == '\0' && st->fields[0] == '\0') {
        emit_object(st, c->what, c->text);
        return;
    }
    bool was = selects(st, c->before), is = selects(st, c->text), gone = strcmp(c->what, "DELETED") == 0;
    if (was && gone)
        emit_object(st, "DELETED", c->text);
    else if (was && !is)
        emit_deselected(st, c);
    else if (!gone && is)
        emit_object(st, was ? "MODIFIED" : "ADDED", c->text);
}

void sim_tell_streams(struct sim_server *v, const struct sim_change *c)
{
    list_each_safe(it, next, &v->streams) {
        struct sim_stream *st = container_of(it, struct sim_stream, link);
        size_t had = st->out.len;
        if (st->ended || st->mute)
            continue;
        tell(st, c);
        if (st->out.len == had)
            continue;
        st->rv = c->rv;
        st->wake(st);
    }
}

static void wake_nobody(struct sim_stream *st UNUSED)
{
}

static struct sim_stream *stream_new(struct sim_server *v, const struct sim_type *t, const char *ns, const struct query *q, const char *url)
{
    char text[24];
    struct sim_stream *st = calloc(1, sizeof(*st));
    if (st == NULL)
        abort();
    *st = (struct sim_stream){ .server = v, .type = t, .out = BUF_INIT(STREAM_MAX), .wake = wake_nobody, .bookmarks = q->bookmarks };
    st->schema = sim_schema_ref(t->schema);
    snprintf(st->ns, sizeof(st->ns), "%s", ns);
    snprintf(st->labels, sizeof(st->labels), "%s", q->labels);
    snprintf(st->fields, sizeof(st->fields), "%s", q->fields);
    list_add_tail(&v->streams, &st->link);
    int64_t seconds = sim_query(url, "timeoutSeconds", text, sizeof(text)) ? strtoll(text, NULL, 10) : 1800;
    sim_stream_end_in(st, seconds * 1000);
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
    sim_schema_unref(st->schema);
    free(st);
}

// An ERROR event with the Status of `why` is the last thing it says.
static void end_with(struct sim_stream *st, struct sim_answer *why, int64_t ms)
{
    emit(st, "ERROR", buf_str(&why->body));
    sim_answer_fini(why);
    sim_unset(&st->bookmark);
    sim_stream_end_in(st, ms);
}

static void say_too_old(const struct sim_type *t, const struct query *q, struct sim_answer *a)
{
    sim_fail(a, 410, "Expired", "too old resource version: %s (%" PRId64 ")", q->rv, t->oldest_rv);
}

static void replay(struct sim_server *v, struct sim_stream *st)
{
    list_each(it, &v->history) {
        const struct sim_change *c = container_of(it, struct sim_change, link);
        if (c->rv > st->rv)
            tell(st, c);
    }
    st->rv = v->rv;
}

static void first_list(struct sim_server *v, struct sim_stream *st, const struct query *q)
{
    size_t n;
    const struct sim_object **list = sorted(v, st->type, st->ns, q, &n);
    for (size_t i = 0; i < n; i++)
        emit(st, "ADDED", list[i]->text);
    free(list);
    st->rv = v->rv;
    if (q->stream && q->bookmarks)
        emit_bookmark(st, true);
}

static void watch(struct sim_server *v, const struct sim_type *t, const char *ns, const struct query *q, const char *url,
                  struct sim_answer *a)
{
    struct sim_answer why = { .body = BUF_INIT(4096) };
    bool all = q->stream || q->from == 0;
    if (v->strict && ((!q->stream && q->rv[0] == '\0') || (q->stream && !q->bookmarks)))
        sim_violation(v->sim, "a watch of %s that names no resourceVersion, or a streamed list without bookmarks", t->plural);
    bool gone = !all && sim_store_too_old(v, t, q->from);
    if (gone && rng_chance(&v->rng, v->http_410_percent)) {
        say_too_old(t, q, a);
        return;
    }
    struct sim_stream *st = stream_new(v, t, ns, q, url);
    st->rv = q->from;
    a->status = 200;
    a->stream = st;
    if (gone) {
        say_too_old(t, q, &why);
        end_with(st, &why, 0);
    } else if (q->stream && q->from > v->rv) {
        too_new(v, q, &why);
        st->mute = true;
        end_with(st, &why, TOO_NEW_MS);
    } else if (all) {
        first_list(v, st, q);
    } else if (q->from <= v->rv) {
        replay(v, st);
    } else {
        st->mute = true;
    }
}

void sim_list(struct sim_server *v, const struct sim_type *t, const char *ns, const struct sim_request *r, struct sim_answer *a)
{
    struct query q;
    read_query(r->url, &q);
    if (!limit_is_valid(&q, a) || !initial_is_valid(v, &q, a) || !match_is_valid(&q, a) ||
        !sim_selectors_are_valid(t, q.labels, q.fields, a) || !rv_is_valid(&q, a))
        return;
    if (v->sim->now_ms < t->ready_ms) {
        sim_fail_later(a, 429, "TooManyRequests", NULL, "storage is (re)initializing");
    } else if (q.watch) {
        watch(v, t, ns, &q, r->url, a);
    } else {
        list_page(v, t, ns, &q, a);
    }
}
