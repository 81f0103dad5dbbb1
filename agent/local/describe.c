// SPDX-License-Identifier: Apache-2.0
#include "local/describe.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "data/json_scan.h"
#include "local/columns.h"

enum { TEXT_MAX = 8 * 1024 * 1024, FIELDS_MAX = 1024, ANNOTATION_MAX = 140, LABEL_MAX = 256 };

#define REPORTER "edge.limpet.dev/limpet" // reportingController of our events (flow/egress.c)

// What is written, as cells, before it is laid out. The first thing that goes wrong stays.
struct page {
    struct buf text;
    struct err *e;
    int rc;
};

// Texts come from others: what would steer a terminal is shown instead.
static void add_safe(struct page *p, const char *s, size_t n)
{
    for (size_t i = 0; i < n && p->rc == 0; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == 0x1b || c == '\r')
            p->rc = buf_adds(&p->text, c == '\r' ? "\\r" : "^[", p->e);
        else
            p->rc = buf_add(&p->text, c == '\n' || c == '\t' || (c >= ' ' && c != 0x7f) ? s + i : "?", 1, p->e);
    }
}

static void add(struct page *p, const char *s)
{
    add_safe(p, s, strlen(s));
}

static void indent(struct page *p, int level)
{
    for (; level > 0; level--)
        add(p, "  ");
}

// --- labels of fields ------------------------------------------------------------------------------------------------------------

static bool is_plain(const char *field)
{
    for (; *field != '\0'; field++)
        if (!isalpha((unsigned char)*field) && *field != '-')
            return false;
    return true;
}

// Where the word that begins at s ends: "observedGeneration" is two, "podIPs" ends in "I" and "Ps" as kubectl has it.
static size_t word_length(const char *s)
{
    size_t n = 1;
    if (*s == '-')
        return strspn(s, "-");
    if (isupper((unsigned char)*s)) {
        while (isupper((unsigned char)s[n]))
            n++;
        if (!islower((unsigned char)s[n]))
            return n;
        if (n > 1)
            return n - 1; // the last capital begins the next word
    }
    while (islower((unsigned char)s[n]))
        n++;
    return n;
}

static bool is_acronym(const char *s, size_t n)
{
    static const char *const known[] = { "API", "URL", "UID", "OSB", "GUID" };
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strlen(known[i]) == n && strncasecmp(known[i], s, n) == 0)
            return true;
    return false;
}

// "observedGeneration" is labelled "Observed Generation", "apiVersion" "API Version".
static void add_label(struct page *p, const char *field)
{
    if (!is_plain(field)) {
        add(p, field);
        return;
    }
    for (const char *s = field; *s != '\0';) {
        size_t n = word_length(s);
        bool loud = is_acronym(s, n);
        if (s != field)
            add(p, " ");
        for (size_t i = 0; i < n; i++) {
            char c = (char)(loud || i == 0 ? toupper((unsigned char)s[i]) : s[i]);
            add_safe(p, &c, 1);
        }
        s += n;
    }
}

// --- values ----------------------------------------------------------------------------------------------------------------------

static void add_value(struct page *p, const struct json *v)
{
    struct buf text AUTO_BUF = BUF_INIT(TEXT_MAX);
    if (json_type(v) == JSON_STRING) {
        add(p, json_str(v));
        return;
    }
    if (json_type(v) == JSON_NULL) {
        add(p, "<nil>");
        return;
    }
    if (p->rc == 0)
        p->rc = json_print(v, &text, p->e);
    add(p, buf_str(&text));
}

static int by_key(const void *a, const void *b)
{
    return strcmp(json_key(*(const struct json *const *)a), json_key(*(const struct json *const *)b));
}

// The members in order of their names. The number; more than fit is an error.
static size_t sorted(struct page *p, const struct json *object, const struct json *out[FIELDS_MAX])
{
    size_t n = 0;
    json_each(m, object)
    {
        if (n == FIELDS_MAX) {
            if (p->rc == 0)
                p->rc = err_set(p->e, E_TOOBIG, "more than %d fields in one place", FIELDS_MAX);
            return 0;
        }
        out[n++] = m;
    }
    qsort(out, n, sizeof(out[0]), by_key);
    return n;
}

// Shown on top, or nobody's business. As in kubectl, of the object's own metadata alone.
static bool is_skipped(const struct json *m, int level, const char *parent)
{
    static const char *const names[] = { "managedFields", "name", "namespace", "labels", "annotations" };
    for (size_t i = 0; level == 1 && strcmp(parent, "metadata") == 0 && i < ARRAY_LEN(names); i++)
        if (strcmp(json_key(m), names[i]) == 0)
            return true;
    return false;
}

// Depth is bounded by the parser; an explicit stack of what is still to be written.
struct task {
    const struct json *object; // its members, from `next` on, are to be written
    const struct json **field;
    size_t n, next;
    const struct json *element; // the next one of the list that is being written, NULL = no list
    int level;
    const char *parent;
};

static bool open_object(struct page *p, struct task *t, const struct json *object, int level, const char *parent)
{
    const struct json *all[FIELDS_MAX];
    size_t n = sorted(p, object, all);
    *t = (struct task){ .object = object, .n = n, .level = level, .parent = parent };
    t->field = n > 0 ? malloc(n * sizeof(all[0])) : NULL;
    if (n > 0 && t->field == NULL) {
        p->rc = err_set(p->e, E_NOMEM, "no memory for a description");
        return false;
    }
    if (n > 0)
        memcpy(t->field, all, n * sizeof(all[0]));
    return true;
}

// One member. Returns the object to be written next, inside of it, or NULL.
static const struct json *print_member(struct page *p, struct task *t, const struct json *m)
{
    enum json_type type = json_type(m);
    indent(p, t->level);
    add_label(p, json_key(m));
    if (type != JSON_OBJECT && type != JSON_ARRAY) {
        add(p, ":\t");
        add_value(p, m);
        add(p, "\n");
        return NULL;
    }
    add(p, ":\n");
    if (type == JSON_OBJECT)
        return m;
    t->element = json_first(m);
    return NULL;
}

// One element of a list, likewise.
static const struct json *print_element(struct page *p, struct task *t)
{
    const struct json *v = t->element;
    t->element = json_next(v);
    if (json_type(v) == JSON_OBJECT)
        return v;
    indent(p, t->level + 1);
    add_value(p, v);
    add(p, "\n");
    return NULL;
}

// The next thing to do of this task; false: it is done. *inner: an object inside.
static bool step(struct page *p, struct task *t, const struct json **inner, const char **name)
{
    *inner = NULL;
    *name = t->next > 0 ? json_key(t->field[t->next - 1]) : "";
    if (t->element != NULL) {
        *inner = print_element(p, t);
        return true;
    }
    if (t->next == t->n)
        return false;
    const struct json *m = t->field[t->next++];
    *name = json_key(m);
    if (!is_skipped(m, t->level, t->parent))
        *inner = print_member(p, t, m);
    return true;
}

static void print_object(struct page *p, const struct json *object)
{
    struct task stack[JSON_DEPTH_MAX + 1];
    int depth = 0;
    if (!open_object(p, &stack[0], object, 0, ""))
        return;
    while (depth >= 0 && p->rc == 0) {
        const struct json *inner;
        const char *name;
        if (!step(p, &stack[depth], &inner, &name)) {
            free(stack[depth--].field);
        } else if (inner != NULL && depth < JSON_DEPTH_MAX) {
            if (open_object(p, &stack[depth + 1], inner, stack[depth].level + 1, name))
                depth++;
        }
    }
    for (; depth >= 0; depth--)
        free(stack[depth].field);
}

// --- the top ---------------------------------------------------------------------------------------------------------------------

static void print_labels(struct page *p, const struct json *labels)
{
    const struct json *all[FIELDS_MAX];
    size_t n = sorted(p, labels, all);
    add(p, "Labels:\t");
    if (n == 0)
        add(p, "<none>\n");
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            add(p, "\t");
        add(p, json_key(all[i]));
        add(p, "=");
        add_value(p, all[i]);
        add(p, "\n");
    }
}

// Long ones, and those of several lines, are shortened line by line below their name.
static void print_long(struct page *p, const char *value)
{
    add(p, ":\n");
    for (const char *s = value, *end; s != NULL; s = *end == '\n' ? end + 1 : NULL) {
        end = s + strcspn(s, "\n");
        size_t n = (size_t)(end - s);
        add(p, "\t  ");
        add_safe(p, s, MIN(n, (size_t)ANNOTATION_MAX - 2));
        add(p, n > ANNOTATION_MAX - 2 ? "...\n" : "\n");
    }
}

static void print_annotation(struct page *p, const struct json *m)
{
    const char *value = json_str(m) != NULL ? json_str(m) : "";
    add(p, json_key(m));
    if (strlen(value) + strlen(json_key(m)) + 2 > ANNOTATION_MAX || strchr(value, '\n') != NULL) {
        print_long(p, value);
        return;
    }
    add(p, ": ");
    add(p, value);
    add(p, "\n");
}

static void print_annotations(struct page *p, const struct json *annotations)
{
    const struct json *all[FIELDS_MAX];
    size_t n = sorted(p, annotations, all), shown = 0;
    add(p, "Annotations:\t");
    for (size_t i = 0; i < n; i++) {
        if (strcmp(json_key(all[i]), "kubectl.kubernetes.io/last-applied-configuration") == 0)
            continue;
        if (shown++ > 0)
            add(p, "\t");
        print_annotation(p, all[i]);
    }
    if (shown == 0)
        add(p, "<none>\n");
}

static void print_top(struct page *p, const struct json *o)
{
    add(p, "Name:\t");
    add(p, json_path_str(o, "metadata.name"));
    add(p, "\nNamespace:\t");
    add(p, json_path_str(o, "metadata.namespace"));
    add(p, "\n");
    print_labels(p, json_path(o, "metadata.labels"));
    print_annotations(p, json_path(o, "metadata.annotations"));
}

// --- what only the node knows ----------------------------------------------------------------------------------------------------

static void print_differences(struct page *p, const struct json *answer)
{
    const struct json *list = json_get(answer, "differences");
    add(p, "Reported:\t");
    add(p, json_bool(json_get(answer, "reported"), false) ? "yes\n" : "no: the server has not heard this status yet\n");
    if (json_type(list) != JSON_ARRAY) {
        add(p, "Differences:\tunknown: ");
        add(p, json_path_str(answer, "differencesError"));
        add(p, "\n");
        return;
    }
    if (json_len(list) == 0) {
        add(p, "Differences:\t<none>\n");
        return;
    }
    add(p, "Differences:\n  Path\tField\tWant\tHave\n  ----\t-----\t----\t----\n");
    json_each(d, list)
    {
        static const char *const fields[] = { "path", "field", "want", "have" };
        for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
            add(p, i == 0 ? "  " : "\t");
            add(p, json_path_str(d, fields[i]));
        }
        add(p, "\n");
    }
}

// --- events ----------------------------------------------------------------------------------------------------------------------

// Two units while the first is small.
char *age_text(int64_t s, char out[32])
{
    if (s < 120)
        snprintf(out, 32, "%" PRId64 "s", MAX(s, (int64_t)0));
    else if (s < 600 && s % 60 != 0)
        snprintf(out, 32, "%" PRId64 "m%" PRId64 "s", s / 60, s % 60);
    else if (s < 3 * 3600)
        snprintf(out, 32, "%" PRId64 "m", s / 60);
    else if (s < 8 * 3600 && s / 60 % 60 != 0)
        snprintf(out, 32, "%" PRId64 "h%" PRId64 "m", s / 3600, s / 60 % 60);
    else if (s < 48 * 3600)
        snprintf(out, 32, "%" PRId64 "h", s / 3600);
    else if (s < 8 * 86400 && s / 3600 % 24 != 0)
        snprintf(out, 32, "%" PRId64 "d%" PRId64 "h", s / 86400, s / 3600 % 24);
    else if (s < 2 * 365 * 86400)
        snprintf(out, 32, "%" PRId64 "d", s / 86400);
    else
        snprintf(out, 32, "%" PRId64 "y%" PRId64 "d", s / (365 * 86400), s / 86400 % 365);
    return out;
}

static int64_t age_of(const struct json *ev, const char *member, int64_t now_us)
{
    int64_t us = now_us;
    (void)rfc3339_parse(json_path_str(ev, member), &us);
    return (now_us - us) / 1000000;
}

static void print_event(struct page *p, const struct json *ev, int64_t now_us)
{
    char since[32], last[32], text[120];
    int64_t count = json_path_i64(ev, "count");
    age_text(age_of(ev, "at", now_us), since);
    snprintf(text, sizeof(text), "%s", since);
    if (count > 1)
        snprintf(text, sizeof(text), "%s (x%" PRId64 " over %s)", age_text(age_of(ev, "last", now_us), last), count, since);
    add(p, "  ");
    add(p, json_bool(json_get(ev, "warning"), false) ? "Warning\t" : "Normal\t");
    add(p, json_path_str(ev, "reason"));
    add(p, "\t");
    add(p, text);
    add(p, "\t" REPORTER "\t");
    add(p, json_path_str(ev, "note"));
    add(p, json_bool(json_get(ev, "pending"), false) ? " [not sent yet]\n" : "\n");
}

static void print_events(struct page *p, const struct json *events, int64_t now_us)
{
    if (json_len(events) == 0) {
        add(p, "Events:\t<none>\n");
        return;
    }
    add(p, "Events:\n  Type\tReason\tAge\tFrom\tMessage\n  ----\t------\t----\t----\t-------\n");
    json_each(ev, events) print_event(p, ev, now_us);
}

int describe_print(const struct json *answer, int64_t now_us, struct buf *out, struct err *e)
{
    struct page p = { .text = BUF_INIT(TEXT_MAX), .e = e };
    const struct json *o = json_get(answer, "object");
    print_top(&p, o);
    print_object(&p, o);
    print_differences(&p, answer);
    print_events(&p, json_get(answer, "events"), now_us);
    if (p.rc == 0)
        p.rc = columns_print(buf_str(&p.text), out, e);
    buf_fini(&p.text);
    return p.rc;
}
