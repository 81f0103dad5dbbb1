// SPDX-License-Identifier: Apache-2.0
// The two splitters: a watch stream into lines, a List document into items.
#include "data/object.h"

#include <string.h>

// A list's metadata holds a resourceVersion and a continue token; the API server's tokens are below 1 KB.
enum { LIST_META_MAX = 64 * 1024 };

static void report_too_big(object_too_big_fn *fn, void *ctx, const char *head, size_t len)
{
    struct object_view v;
    bool known = object_peek(&v, head, len);
    if (fn != NULL)
        fn(ctx, known ? v.ns : "", known ? v.name : "");
}

// --- Lines

void line_splitter_init(struct line_splitter *s, size_t max, int (*fn)(void *, const char *, size_t), void *ctx)
{
    *s = (struct line_splitter){ .fn = fn, .ctx = ctx };
    buf_init(&s->partial, max);
}

void line_splitter_fini(struct line_splitter *s)
{
    buf_fini(&s->partial);
    s->skipping = false;
}

// Where the object begins in the head of a watch event; the head itself when it does not show.
static struct span object_of_head(const char *head, size_t len)
{
    struct json_scan scan;
    size_t at = 0, key = 0;
    bool is_object = false;
    json_scan_init(&scan);
    for (;;) {
        enum scan_event ev = json_scan_run(&scan, head, len, &at);
        if (ev == SCAN_MORE || ev == SCAN_BAD)
            return (struct span){ head, len };
        if (ev == SCAN_VALUE_BEGIN && scan.depth == 1 && is_object)
            return (struct span){ head + at, len - at };
        if (ev == SCAN_KEY_BEGIN)
            key = at;
        if (ev == SCAN_KEY_END)
            is_object = scan.depth == 1 && at - key == 8 && memcmp(head + key, "\"object\"", 8) == 0;
    }
}

static void line_over(struct line_splitter *s)
{
    struct span object = object_of_head(buf_str(&s->partial), s->partial.len);
    s->too_long++;
    s->skipping = true;
    report_too_big(s->too_big, s->ctx, object.p, object.n);
    buf_fini(&s->partial);
}

// Keeps what has come of a line; over the bound, keeps as much as it may and gives the line up.
static int line_keep(struct line_splitter *s, const char *p, size_t n, struct err *e)
{
    if (s->skipping)
        return 0;
    size_t room = s->partial.max - s->partial.len;
    int r = buf_add(&s->partial, p, MIN(n, room), e);
    if (r == 0 && n > room)
        line_over(s);
    return r;
}

// A whole line, most often still in the chunk.
static int line_end(struct line_splitter *s, const char *p, size_t n, struct err *e)
{
    if (s->partial.len == 0 && !s->skipping && n <= s->partial.max)
        return s->fn(s->ctx, p, n);
    int r = line_keep(s, p, n, e);
    if (r == 0 && !s->skipping)
        r = s->fn(s->ctx, buf_str(&s->partial), s->partial.len);
    buf_fini(&s->partial); // a long line's memory is not kept for the short ones that follow
    s->skipping = false;
    return r;
}

int line_splitter_feed(struct line_splitter *s, const void *p, size_t n, struct err *e)
{
    const char *at = p, *end = at + n;
    while (at < end) {
        const char *nl = memchr(at, '\n', (size_t)(end - at));
        if (nl == NULL)
            return line_keep(s, at, (size_t)(end - at), e);
        int r = line_end(s, at, (size_t)(nl - at), e);
        if (r != 0)
            return r;
        at = nl + 1;
    }
    return 0;
}

// --- Lists

// What the bytes in `pending` are.
enum capture { CAP_NONE, CAP_KEY, CAP_KIND, CAP_META, CAP_ITEM, CAP_ITEMS_AHEAD, CAP_KIND_AHEAD, CAP_META_AHEAD };

void list_splitter_init(struct list_splitter *s, int (*item)(void *, const char *, size_t), void *ctx)
{
    *s = (struct list_splitter){ .item = item, .ctx = ctx, .remaining = -1, .capture = CAP_NONE };
    json_scan_init(&s->scan);
    buf_init(&s->pending, OBJ_MAX);
}

void list_splitter_fini(struct list_splitter *s)
{
    buf_fini(&s->pending);
    free(steal(s->continue_token));
}

static int corrupt(struct list_splitter *s, struct err *e, const char *why)
{
    return err_set(e, E_CORRUPT, "list at byte %zu: %s", s->scan.offset, why);
}

static size_t capture_max(const struct list_splitter *s)
{
    return s->capture == CAP_ITEM ? OBJ_MAX : LIST_META_MAX;
}

static int keep(struct list_splitter *s, const char *p, size_t n, struct err *e)
{
    if (s->skipping || s->capture == CAP_NONE || s->capture >= CAP_ITEMS_AHEAD)
        return 0;
    size_t room = capture_max(s) - s->pending.len;
    int r = buf_add(&s->pending, p, MIN(n, room), e);
    if (r != 0 || n <= room)
        return r;
    if (s->capture != CAP_ITEM)
        return corrupt(s, e, "a name, the kind or the metadata is endless");
    s->too_large++;
    s->skipping = true;
    report_too_big(s->too_big, s->ctx, buf_str(&s->pending), s->pending.len);
    buf_fini(&s->pending);
    return 0;
}

static bool pending_is(const struct list_splitter *s, const char *name)
{
    char text[16];
    return span_string((struct span){ s->pending.data, s->pending.len }, text, sizeof(text)) && strcmp(text, name) == 0;
}

// A member name of the document is whole: what its value will be.
static int key_end(struct list_splitter *s, struct err *e)
{
    s->capture = CAP_NONE;
    if (pending_is(s, "kind")) {
        s->capture = CAP_KIND_AHEAD;
    } else if (pending_is(s, "metadata")) {
        s->capture = CAP_META_AHEAD;
    } else if (pending_is(s, "items")) {
        if (s->seen_items)
            return corrupt(s, e, "items stands twice");
        s->seen_items = true;
        s->capture = CAP_ITEMS_AHEAD;
    }
    return 0;
}

static int items_begin(struct list_splitter *s, char first, struct err *e)
{
    s->capture = CAP_NONE;
    s->in_items = first == '[';
    return first == '[' || first == 'n' ? 0 : corrupt(s, e, "items is no array");
}

static int value_begin(struct list_splitter *s, char first, struct err *e)
{
    if (s->scan.depth == 0)
        return first == '{' ? 0 : corrupt(s, e, "not a JSON object");
    if (s->scan.depth == 2 && s->in_items) {
        s->capture = CAP_ITEM;
        return first == '{' ? 0 : corrupt(s, e, "an item is no object");
    }
    if (s->scan.depth != 1)
        return 0;
    if (s->capture == CAP_ITEMS_AHEAD)
        return items_begin(s, first, e);
    if (s->capture == CAP_KIND_AHEAD)
        s->capture = CAP_KIND;
    else if (s->capture == CAP_META_AHEAD)
        s->capture = CAP_META;
    return 0;
}

static int take_continue(struct list_splitter *s, struct span value, struct err *e)
{
    AUTO_FREE char *token = malloc(value.n + 1);
    if (token == NULL)
        return err_set(e, E_NOMEM, "no memory for a continue token");
    if (!span_string(value, token, value.n + 1))
        return corrupt(s, e, "unreadable continue token");
    free(s->continue_token);
    s->continue_token = token[0] != '\0' ? steal(token) : NULL;
    return 0;
}

static int64_t digits(struct span v)
{
    int64_t n = 0;
    for (size_t i = 0; i < v.n; i++)
        if (v.p[i] < '0' || v.p[i] > '9' || n > INT64_MAX / 10 - 10)
            return -1;
        else
            n = n * 10 + (v.p[i] - '0');
    return n;
}

static int metadata_end(struct list_splitter *s, struct err *e)
{
    // Wrapped as it was, so that its members are found as those of any object's metadata.
    AUTO_BUF struct buf doc = BUF_INIT(LIST_META_MAX + 64);
    int r = buf_addf(&doc, e, "{\"metadata\":%s}", buf_str(&s->pending));
    if (r != 0)
        return r;
    struct span v;
    if (object_member(doc.data, doc.len, "metadata", "resourceVersion", &v) && !span_string(v, s->rv, sizeof(s->rv)))
        return corrupt(s, e, "unreadable resourceVersion");
    if (object_member(doc.data, doc.len, "metadata", "remainingItemCount", &v))
        s->remaining = digits(v);
    if (object_member(doc.data, doc.len, "metadata", "continue", &v) && v.p[0] == '"')
        return take_continue(s, v, e);
    return 0;
}

static int item_end(struct list_splitter *s)
{
    if (s->skipping)
        return 0;
    s->items++;
    return s->item(s->ctx, buf_str(&s->pending), s->pending.len);
}

static int value_end(struct list_splitter *s, struct err *e)
{
    int r = 0;
    if (s->scan.depth == 2 && s->capture == CAP_ITEM)
        r = item_end(s);
    else if (s->scan.depth != 1)
        return 0;
    else if (s->capture == CAP_KIND && !span_string((struct span){ s->pending.data, s->pending.len }, s->kind, sizeof(s->kind)))
        r = corrupt(s, e, "unreadable kind");
    else if (s->capture == CAP_META)
        r = metadata_end(s, e);
    if (s->scan.depth == 1)
        s->in_items = false;
    s->capture = CAP_NONE;
    s->skipping = false;
    return r;
}

static int on_event(struct list_splitter *s, enum scan_event ev, char at, struct err *e)
{
    switch (ev) {
    case SCAN_KEY_BEGIN:
        if (s->scan.depth == 1)
            s->capture = CAP_KEY;
        return 0;
    case SCAN_KEY_END:
        return s->scan.depth == 1 ? key_end(s, e) : 0;
    case SCAN_VALUE_BEGIN:
        return value_begin(s, at, e);
    case SCAN_VALUE_END:
        return value_end(s, e);
    case SCAN_BAD:
        return corrupt(s, e, s->scan.why);
    case SCAN_MORE:
        break;
    }
    return 0;
}

// One step of the scanner: the bytes it went over belong to what is being captured, then its event changes what that is.
static int feed_step(struct list_splitter *s, const char *p, size_t n, size_t *at, struct err *e)
{
    size_t from = *at;
    enum scan_event ev = json_scan_run(&s->scan, p, n, at);
    int r = keep(s, p + from, *at - from, e);
    if (r != 0)
        return r;
    int captured = s->capture;
    r = on_event(s, ev, *at < n ? p[*at] : '\0', e);
    if (s->capture != captured)
        buf_reset(&s->pending);
    return r;
}

int list_splitter_feed(struct list_splitter *s, const void *p, size_t n, struct err *e)
{
    if (s->failed != 0)
        return err_set(e, s->failed, "list was given up before byte %zu", s->scan.offset);
    size_t at = 0;
    while (at < n && s->failed == 0)
        s->failed = feed_step(s, p, n, &at, e);
    return s->failed;
}

int list_splitter_end(struct list_splitter *s, struct err *e)
{
    if (s->failed != 0)
        return err_set(e, s->failed, "list was given up before byte %zu", s->scan.offset);
    if (!json_scan_done(&s->scan))
        return corrupt(s, e, "ends too early");
    if (!s->seen_items)
        return corrupt(s, e, "has no items");
    return s->rv[0] != '\0' ? 0 : corrupt(s, e, "has no resourceVersion");
}
