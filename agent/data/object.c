// SPDX-License-Identifier: Apache-2.0
#include "data/object.h"

#include <string.h>

// Nothing that is looked for lies deeper than this, or has a longer name.
enum { WALK_DEPTH = 2, WALK_NAME_MAX = 32 };

// Visits the members of the document and of its top-level objects, in the order they stand.
struct walk {
    struct json_scan scan;
    const char *p;
    size_t n, at;
    size_t key_from[WALK_DEPTH + 1], value_from[WALK_DEPTH + 1];
    char key[WALK_DEPTH + 1][WALK_NAME_MAX]; // "" for longer ones
    // Of the member that just ended:
    int depth;
    struct span member, value;
};

static void walk_init(struct walk *w, const char *p, size_t n)
{
    memset(w, 0, sizeof(*w));
    json_scan_init(&w->scan);
    w->p = p;
    w->n = n;
}

static struct span between(const char *p, size_t from, size_t to)
{
    return (struct span){ p + from, to - from };
}

static void walk_key(struct walk *w, int depth)
{
    struct span name = between(w->p, w->key_from[depth], w->at);
    if (!span_string(name, w->key[depth], WALK_NAME_MAX))
        w->key[depth][0] = '\0';
}

// SCAN_VALUE_END: a member ended, at depth 1 or 2, or the document, at depth 0. SCAN_MORE: the text is used up.
static enum scan_event walk_next(struct walk *w)
{
    for (;;) {
        enum scan_event ev = json_scan_run(&w->scan, w->p, w->n, &w->at);
        int depth = w->scan.depth;
        if (ev == SCAN_MORE || ev == SCAN_BAD)
            return ev;
        if (depth > WALK_DEPTH)
            continue;
        if (ev == SCAN_KEY_BEGIN) {
            w->key_from[depth] = w->at;
        } else if (ev == SCAN_KEY_END) {
            walk_key(w, depth);
        } else if (ev == SCAN_VALUE_BEGIN) {
            w->value_from[depth] = w->at;
        } else {
            w->depth = depth;
            w->member = between(w->p, w->key_from[depth], w->at);
            w->value = between(w->p, w->value_from[depth], w->at);
            return ev;
        }
    }
}

// Is the member that just ended `parent`.`key` (parent NULL: a top-level one)?
static bool walk_is(const struct walk *w, const char *parent, const char *key)
{
    if (parent == NULL)
        return w->depth == 1 && strcmp(w->key[1], key) == 0;
    return w->depth == 2 && strcmp(w->key[1], parent) == 0 && strcmp(w->key[2], key) == 0;
}

static bool span_is_null(struct span s)
{
    return s.n == 4 && memcmp(s.p, "null", 4) == 0;
}

// --- What an object_view is made of

enum member_kind { M_TEXT, M_VALUE, M_CUT, M_OBJECT, M_NUMBER, M_SET };

#define AT(field) offsetof(struct object_view, field)
#define TEXT(field) AT(field), sizeof(((struct object_view *)0)->field)

static const struct member {
    const char *parent, *name;
    enum member_kind kind;
    size_t offset;
    size_t size;       // M_TEXT
    size_t cut_offset; // M_CUT: the span of the whole member
} members[] = {
    { NULL, "apiVersion", M_TEXT, TEXT(api_version), 0 },
    { NULL, "kind", M_TEXT, TEXT(kind), 0 },
    { NULL, "metadata", M_OBJECT, AT(metadata), 0, 0 },
    { NULL, "spec", M_VALUE, AT(spec), 0, 0 },
    { NULL, "status", M_CUT, AT(status), 0, AT(status_member) },
    { "metadata", "name", M_TEXT, TEXT(name), 0 },
    { "metadata", "namespace", M_TEXT, TEXT(ns), 0 },
    { "metadata", "uid", M_TEXT, TEXT(uid), 0 },
    { "metadata", "resourceVersion", M_TEXT, TEXT(rv), 0 },
    { "metadata", "generation", M_NUMBER, AT(generation), 0, 0 },
    { "metadata", "deletionTimestamp", M_SET, AT(deleting), 0, 0 },
    { "metadata", "managedFields", M_CUT, 0, 0, AT(managed_fields) },
};

static void *field(struct object_view *v, size_t offset)
{
    return (char *)v + offset;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// The member with the comma before it; with the one behind it when it is the first.
static struct span with_comma(const struct walk *w)
{
    size_t from = (size_t)(w->member.p - w->p), to = from + w->member.n;
    size_t before = from, behind = to;
    while (before > 0 && is_space(w->p[before - 1]))
        before--;
    if (before > 0 && w->p[before - 1] == ',')
        return between(w->p, before - 1, to);
    while (behind < w->n && is_space(w->p[behind]))
        behind++;
    if (behind < w->n && w->p[behind] == ',')
        to = behind + 1;
    return between(w->p, from, to);
}

static int take_text(struct object_view *v, const struct member *m, struct span value, struct err *e)
{
    if (span_string(value, field(v, m->offset), m->size))
        return 0;
    if (value.p[0] != '"')
        return err_set(e, E_INVAL, "%s is not a string", m->name);
    return err_set(e, E_TOOBIG, "%s is longer than %zu bytes or holds NUL", m->name, m->size - 1);
}

static int take_number(int64_t *out, const char *name, struct span value, struct err *e)
{
    bool negative = value.p[0] == '-';
    int64_t n = 0;
    for (size_t i = negative; i < value.n; i++)
        if (value.p[i] < '0' || value.p[i] > '9' || __builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, value.p[i] - '0', &n))
            return err_set(e, E_INVAL, "%s is not an integer of 64 bits", name);
    *out = negative ? -n : n;
    return 0;
}

static int take(struct object_view *v, const struct member *m, const struct walk *w, struct err *e)
{
    if (m->kind == M_CUT)
        *(struct span *)field(v, m->cut_offset) = with_comma(w);
    if (m->kind == M_VALUE || (m->kind == M_CUT && m->offset != 0) || m->kind == M_OBJECT)
        *(struct span *)field(v, m->offset) = w->value;
    if (span_is_null(w->value))
        return 0; // as good as absent
    switch (m->kind) {
    case M_TEXT:
        return take_text(v, m, w->value, e);
    case M_NUMBER:
        return take_number(field(v, m->offset), m->name, w->value, e);
    case M_SET:
        *(bool *)field(v, m->offset) = true;
        return 0;
    case M_OBJECT:
        return w->value.p[0] == '{' ? 0 : err_set(e, E_INVAL, "%s is not an object", m->name);
    case M_VALUE:
    case M_CUT:
        break;
    }
    return 0;
}

static const struct member *find_member(const struct walk *w)
{
    for (size_t i = 0; i < ARRAY_LEN(members); i++)
        if (walk_is(w, members[i].parent, members[i].name))
            return &members[i];
    return NULL;
}

// Fills v up to the end of the text or to what is wrong in it.
static int fill(struct object_view *v, struct walk *w, struct err *e)
{
    unsigned seen = 0;
    enum scan_event ev;
    while ((ev = walk_next(w)) == SCAN_VALUE_END) {
        const struct member *m = find_member(w);
        if (m == NULL)
            continue;
        unsigned bit = 1U << (m - members);
        if ((seen & bit) != 0)
            return err_set(e, E_INVAL, "JSON at byte %zu: %s stands twice", w->scan.offset, m->name);
        seen |= bit;
        int r = take(v, m, w, e);
        if (r != 0)
            return r;
    }
    if (ev == SCAN_BAD)
        return err_set(e, E_INVAL, "JSON at byte %zu: %s", w->scan.offset, w->scan.why);
    return 0;
}

int object_scan(struct object_view *v, const char *json, size_t len, struct err *e)
{
    memset(v, 0, sizeof(*v));
    if (len > OBJ_MAX)
        return err_set(e, E_TOOBIG, "object of %zu bytes, at most %d are taken", len, OBJ_MAX);
    struct walk w;
    walk_init(&w, json, len);
    int r = fill(v, &w, e);
    if (r != 0)
        return r;
    if (!json_scan_done(&w.scan))
        return err_set(e, E_INVAL, "JSON ends too early, at byte %zu", len);
    return json[w.value_from[0]] == '{' ? 0 : err_set(e, E_INVAL, "not a JSON object");
}

bool object_peek(struct object_view *v, const char *json, size_t len)
{
    memset(v, 0, sizeof(*v));
    struct walk w;
    walk_init(&w, json, len);
    (void)!fill(v, &w, NULL); // whatever is wrong comes after what was found
    return v->name[0] != '\0';
}

int object_strip(const struct object_view *v, const char *json, size_t len, struct buf *out, struct err *e)
{
    struct span first = v->status_member, second = v->managed_fields;
    if (first.p == NULL || (second.p != NULL && second.p < first.p)) {
        struct span t = first;
        first = second;
        second = t;
    }
    const char *at = json, *end = json + len;
    size_t before = out->len;
    int r = buf_reserve(out, len, e);
    if (r == 0 && first.p != NULL) {
        r = buf_add(out, at, (size_t)(first.p - at), e);
        at = first.p + first.n;
    }
    if (r == 0 && second.p != NULL) {
        r = buf_add(out, at, (size_t)(second.p - at), e);
        at = second.p + second.n;
    }
    if (r == 0)
        r = buf_add(out, at, (size_t)(end - at), e);
    if (r != 0)
        out->len = before;
    return r;
}

bool object_member(const char *json, size_t len, const char *parent, const char *key, struct span *out)
{
    struct walk w;
    bool found = false;
    walk_init(&w, json, len);
    while (walk_next(&w) == SCAN_VALUE_END)
        if (walk_is(&w, parent, key)) {
            *out = w.value;
            found = true;
        }
    return found;
}

int watch_event_scan(struct watch_event *ev, const char *line, size_t len, struct err *e)
{
    *ev = (struct watch_event){ 0 };
    struct walk w;
    walk_init(&w, line, len);
    enum scan_event got;
    while ((got = walk_next(&w)) == SCAN_VALUE_END) {
        if (walk_is(&w, NULL, "object"))
            ev->object = w.value;
        else if (walk_is(&w, NULL, "type") && !span_string(w.value, ev->type, sizeof(ev->type)))
            return err_set(e, E_INVAL, "watch event: unreadable type");
    }
    if (got == SCAN_BAD)
        return err_set(e, E_INVAL, "watch event at byte %zu: %s", w.scan.offset, w.scan.why);
    if (!json_scan_done(&w.scan))
        return err_set(e, E_INVAL, "watch event ends too early, at byte %zu", len);
    if (ev->type[0] == '\0' || ev->object.p == NULL || ev->object.p[0] != '{')
        return err_set(e, E_INVAL, "watch event without type or object");
    return 0;
}

// --- Strings

static size_t put_utf8(char out[4], uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)((0xf00 >> n & 0xff) | c);
    return n;
}

static uint32_t hex4(const char *p)
{
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        v = v << 4 | (uint32_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return v;
}

// Undoes the escape at s->p[*i] (a backslash) of a scanned string; *i moves behind it.
static size_t unescape(struct span s, size_t *i, char out[4])
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = s.p[*i + 1];
    *i += 2;
    if (c != 'u') {
        out[0] = to[strchr(from, c) - from];
        return 1;
    }
    uint32_t unit = hex4(s.p + *i);
    *i += 4;
    if (unit >= 0xd800 && unit <= 0xdbff) {
        unit = 0x10000 + ((unit - 0xd800) << 10) + (hex4(s.p + *i + 2) - 0xdc00);
        *i += 6;
    }
    return put_utf8(out, unit);
}

bool span_string(struct span s, char *out, size_t max)
{
    if (s.p == NULL || s.n < 2 || s.p[0] != '"' || max == 0)
        return false;
    size_t len = 0;
    for (size_t i = 1; i < s.n - 1;) {
        char piece[4];
        size_t n = 1;
        if (s.p[i] == '\\')
            n = unescape(s, &i, piece);
        else
            piece[0] = s.p[i++];
        if (piece[0] == '\0' || n >= max - len)
            return false;
        memcpy(out + len, piece, n);
        len += n;
    }
    out[len] = '\0';
    return true;
}

static bool is_decimal(const char *s)
{
    return s[0] >= '1' && s[0] <= '9' && s[strspn(s, "0123456789")] == '\0';
}

int rv_compare(const char *a, const char *b, bool *ordered)
{
    bool both = is_decimal(a) && is_decimal(b);
    if (ordered != NULL)
        *ordered = both;
    size_t na = strlen(a), nb = strlen(b);
    if (!both)
        return strcmp(a, b) != 0;
    if (na != nb)
        return na < nb ? -1 : 1;
    return memcmp(a, b, na);
}
