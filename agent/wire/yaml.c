// SPDX-License-Identifier: Apache-2.0
// libyaml's events become JSON as they come; nesting lives on a bounded stack of our own. An alias copies the JSON that was written
// for what it names.
#include "wire/yaml.h"

#include <string.h>
#include <yaml.h>

#include "base/table.h"
#include "wire/yaml_scalar.h"

// A key that was seen in a mapping that is still open, as it stands in the JSON.
struct seen_key {
    struct table_node node;
    struct seen_key *next;
    char text[];
};

enum { NO_MERGE = 0, MERGE_VALUE, MERGED };

struct frame {
    bool mapping, want_value;
    size_t items;
    size_t height;   // levels below this one so far
    size_t anchor;   // 1-based, 0 = none
    int merge;       // MERGE_VALUE: what comes is the value of "<<"
    size_t merge_at; // where it begins in `out`; it is moved from there to `merged`
    struct buf merged;
    struct table keys;
    struct seen_key *all_keys;
};

struct anchor {
    char *name;
    size_t start, end; // of its JSON in out; end 0 = not complete
    size_t height;
    bool moved; // its JSON was part of what a mapping merges
};

struct conv {
    yaml_parser_t parser;
    struct buf *out;
    struct err *e;
    struct frame stack[YAML_DEPTH_MAX];
    size_t depth;
    struct anchor anchors[YAML_ANCHORS_MAX];
    size_t n_anchors;
    size_t expanded;
};

static int refuse_at(struct conv *c, int cls, const yaml_mark_t *at, const char *why)
{
    return err_set(c->e, cls, "line %zu, column %zu: %s", at->line + 1, at->column + 1, why);
}

static int refuse(struct conv *c, const yaml_event_t *ev, const char *why)
{
    return refuse_at(c, E_INVAL, &ev->start_mark, why);
}

static struct yaml_scalar scalar_of(const yaml_event_t *ev)
{
    return (struct yaml_scalar){
        .text = (const char *)ev->data.scalar.value,
        .len = ev->data.scalar.length,
        .tag = (const char *)ev->data.scalar.tag,
        .plain = ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE,
    };
}

// --- keys ------------------------------------------------------------------------------------------------------------------------

static void forget_keys(struct frame *f)
{
    for (struct seen_key *k = f->all_keys, *next; k != NULL; k = next) {
        next = k->next;
        free(k);
    }
    f->all_keys = NULL;
    buf_fini(&f->merged);
    table_fini(&f->keys);
}

static int remember_key(struct conv *c, const yaml_event_t *ev, struct frame *f, const char *text, size_t len)
{
    struct seen_key *k = malloc(sizeof *k + len + 1);
    if (k == NULL)
        return err_set(c->e, E_NOMEM, "no memory for YAML");
    memcpy(k->text, text, len);
    k->text[len] = '\0';
    if (table_get(&f->keys, k->text) != NULL) {
        free(k);
        return refuse(c, ev, "this key stands twice in one mapping");
    }
    k->node = (struct table_node){ .key = k->text };
    k->next = f->all_keys;
    f->all_keys = k;
    return table_put(&f->keys, &k->node, c->e);
}

static bool is_merge(const yaml_event_t *ev)
{
    const char *tag = (const char *)ev->data.scalar.tag;
    return ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && tag == NULL && strcmp((const char *)ev->data.scalar.value, "<<") == 0;
}

static int begin_merge(struct conv *c, const yaml_event_t *ev, struct frame *f)
{
    if (f->merge == MERGED)
        return refuse(c, ev, "a second merge in one mapping");
    f->merge = MERGE_VALUE;
    f->merge_at = c->out->len;
    f->want_value = true;
    return 0;
}

static int add_key(struct conv *c, const yaml_event_t *ev, struct frame *f)
{
    const char *why = NULL;
    if (ev->type != YAML_SCALAR_EVENT)
        return refuse(c, ev, ev->type == YAML_ALIAS_EVENT ? "an alias cannot be a key" : "a key must be a scalar");
    if (ev->data.scalar.anchor != NULL)
        return refuse(c, ev, "an anchor on a key is not supported");
    if (is_merge(ev))
        return begin_merge(c, ev, f);
    struct yaml_scalar s = scalar_of(ev);
    int rc = f->items++ > 0 ? buf_add(c->out, ",", 1, c->e) : 0;
    size_t at = c->out->len;
    if (rc == 0)
        rc = yaml_put_key(c->out, &s, &why, c->e);
    if (why != NULL)
        return refuse(c, ev, why);
    if (rc == 0)
        rc = remember_key(c, ev, f, c->out->data + at, c->out->len - at);
    f->want_value = true;
    return rc == 0 ? buf_add(c->out, ":", 1, c->e) : rc;
}

// --- anchors ---------------------------------------------------------------------------------------------------------------------

// The newest of that name: YAML lets a name be given again.
static struct anchor *find_anchor(struct conv *c, const char *name)
{
    for (size_t i = c->n_anchors; i > 0; i--)
        if (strcmp(c->anchors[i - 1].name, name) == 0)
            return &c->anchors[i - 1];
    return NULL;
}

// *index stays 0 when the event has no anchor.
static int begin_anchor(struct conv *c, const yaml_event_t *ev, const yaml_char_t *name, size_t *index)
{
    if (name == NULL)
        return 0;
    if (c->n_anchors == YAML_ANCHORS_MAX)
        return refuse_at(c, E_TOOBIG, &ev->start_mark, "too many anchors");
    struct anchor *a = &c->anchors[c->n_anchors];
    *a = (struct anchor){ .name = strdup((const char *)name), .start = c->out->len };
    if (a->name == NULL)
        return err_set(c->e, E_NOMEM, "no memory for YAML");
    *index = ++c->n_anchors;
    return 0;
}

static void end_anchor(struct conv *c, size_t index, size_t height)
{
    if (index == 0)
        return;
    c->anchors[index - 1].end = c->out->len;
    c->anchors[index - 1].height = height;
}

static int add_alias(struct conv *c, const yaml_event_t *ev, size_t *height)
{
    struct anchor *a = find_anchor(c, (const char *)ev->data.alias.anchor);

    if (a == NULL)
        return refuse(c, ev, "this alias names no anchor before it");
    if (a->end == 0)
        return refuse(c, ev, "an alias inside of what it names");
    if (a->moved)
        return refuse(c, ev, "what this alias names lies inside of a merge");
    size_t n = a->end - a->start;
    if (n > YAML_EXPANSION_MAX - c->expanded)
        return refuse_at(c, E_TOOBIG, &ev->start_mark, "the aliases expand to too much");
    if (c->depth + a->height > YAML_DEPTH_MAX)
        return refuse_at(c, E_TOOBIG, &ev->start_mark, "nested too deeply");
    c->expanded += n;
    *height = a->height;
    // The source lies in the buffer that may move while it grows.
    int rc = buf_reserve(c->out, n, c->e);
    return rc == 0 ? buf_add(c->out, c->out->data + a->start, n, c->e) : rc;
}

// --- values ----------------------------------------------------------------------------------------------------------------------

static int add_scalar(struct conv *c, const yaml_event_t *ev)
{
    const char *why = NULL;
    struct yaml_scalar s = scalar_of(ev);
    int rc = yaml_put_scalar(c->out, &s, &why, c->e);

    return why != NULL ? refuse(c, ev, why) : rc;
}

static struct frame *top(struct conv *c)
{
    return c->depth > 0 ? &c->stack[c->depth - 1] : NULL;
}

// --- merges: what "<<" names is kept aside and its members follow those of the mapping, as far as those do not say otherwise. ---------

// The end of the JSON value at p, in text of our own making.
static const char *value_end(const char *p, const char *end)
{
    size_t depth = 0;
    bool quoted = false;
    for (; p < end; p++) {
        if (quoted && *p == '\\')
            p++;
        else if (*p == '"')
            quoted = !quoted;
        else if (!quoted && (*p == '{' || *p == '['))
            depth++;
        else if (!quoted && depth == 0 && (*p == ',' || *p == '}' || *p == ']' || *p == ':'))
            break;
        else if (!quoted && (*p == '}' || *p == ']'))
            depth--;
    }
    return p;
}

// Before the merge is taken this only looks: YAML lets a key that stands before it win, kubectl the merged one.
static int merge_member(struct conv *c, struct frame *f, const yaml_event_t *ev, const char *key, size_t n_key, size_t n_all)
{
    char *text = strndup(key, n_key);
    if (text == NULL)
        return err_set(c->e, E_NOMEM, "no memory for YAML");
    bool known = table_get(&f->keys, text) != NULL;
    free(text);
    if (f->merge == MERGE_VALUE)
        return known ? refuse(c, ev, "this merge has a key that stands before it: put the merge first") : 0;
    if (known)
        return 0;
    int rc = remember_key(c, ev, f, key, n_key);
    if (rc == 0 && f->items++ > 0)
        rc = buf_add(c->out, ",", 1, c->e);
    return rc == 0 ? buf_add(c->out, key, n_all, c->e) : rc;
}

// p is at the brace of an object.
static int merge_object(struct conv *c, struct frame *f, const yaml_event_t *ev, const char *p, const char *end)
{
    int rc = 0;
    for (p++; rc == 0 && p < end && *p != '}';) {
        const char *key_end = value_end(p, end), *value = key_end + 1, *past = value_end(value, end);
        rc = merge_member(c, f, ev, p, (size_t)(key_end - p), (size_t)(past - p));
        p = *past == ',' ? past + 1 : past;
    }
    return rc;
}

static int add_merged(struct conv *c, struct frame *f, const yaml_event_t *ev)
{
    const char *p = buf_str(&f->merged), *end = p + f->merged.len;
    int rc = 0;
    if (*p == '{')
        return merge_object(c, f, ev, p, end);
    for (p++; rc == 0 && p < end && *p != ']';) {
        const char *past = value_end(p, end);
        rc = merge_object(c, f, ev, p, past);
        p = *past == ',' ? past + 1 : past;
    }
    return rc;
}

static bool is_mergeable(const char *p, const char *end)
{
    if (*p == '{')
        return true;
    if (*p != '[')
        return false;
    for (p++; p < end && *p != ']';) {
        if (*p != '{')
            return false;
        p = value_end(p, end);
        p += *p == ',';
    }
    return true;
}

static int end_merge(struct conv *c, struct frame *f, const yaml_event_t *ev)
{
    const char *p = buf_str(c->out) + f->merge_at, *end = buf_str(c->out) + c->out->len;
    if (!is_mergeable(p, end))
        return refuse(c, ev, "a merge takes a mapping or a list of mappings");
    f->merged = (struct buf)BUF_INIT(c->out->max);
    int rc = buf_add(&f->merged, p, (size_t)(end - p), c->e);
    if (rc == 0)
        rc = add_merged(c, f, ev);
    f->merge = MERGED;
    for (size_t i = 0; i < c->n_anchors; i++)
        c->anchors[i].moved = c->anchors[i].moved || c->anchors[i].start >= f->merge_at;
    c->out->len = f->merge_at;
    return rc;
}

// A value of that many levels is complete.
static int end_value(struct conv *c, const yaml_event_t *ev, size_t height)
{
    struct frame *f = top(c);

    if (f == NULL)
        return 0;
    f->height = MAX(f->height, height);
    f->want_value = false;
    return f->merge == MERGE_VALUE ? end_merge(c, f, ev) : 0;
}

static bool is_known_collection(const char *tag)
{
    return tag == NULL || strcmp(tag, "!") == 0 || strcmp(tag, YAML_SEQ_TAG) == 0 || strcmp(tag, YAML_MAP_TAG) == 0;
}

static int open_collection(struct conv *c, const yaml_event_t *ev, const yaml_char_t *tag, const yaml_char_t *anchor)
{
    size_t index = 0;

    if (!is_known_collection((const char *)tag))
        return refuse(c, ev, "this tag is not supported");
    if (c->depth == YAML_DEPTH_MAX)
        return refuse_at(c, E_TOOBIG, &ev->start_mark, "nested too deeply");
    int rc = begin_anchor(c, ev, anchor, &index);
    if (rc < 0)
        return rc;
    struct frame *f = &c->stack[c->depth++];
    *f = (struct frame){ .mapping = ev->type == YAML_MAPPING_START_EVENT, .anchor = index };
    table_init(&f->keys);
    return buf_add(c->out, f->mapping ? "{" : "[", 1, c->e);
}

static int close_collection(struct conv *c, const yaml_event_t *ev)
{
    struct frame *f = top(c);
    size_t height = f->height + 1;
    int rc = f->merge == MERGED ? add_merged(c, f, ev) : 0;
    if (rc == 0)
        rc = buf_add(c->out, f->mapping ? "}" : "]", 1, c->e);
    if (rc < 0)
        return rc;
    forget_keys(f);
    c->depth--;
    end_anchor(c, f->anchor, height);
    return end_value(c, ev, height);
}

static int add_leaf(struct conv *c, const yaml_event_t *ev)
{
    size_t index = 0, height = 0;
    int rc;

    if (ev->type == YAML_ALIAS_EVENT) {
        rc = add_alias(c, ev, &height);
    } else {
        rc = begin_anchor(c, ev, ev->data.scalar.anchor, &index);
        if (rc == 0)
            rc = add_scalar(c, ev);
        end_anchor(c, index, 0);
    }
    return rc < 0 ? rc : end_value(c, ev, height);
}

static int add_node(struct conv *c, const yaml_event_t *ev)
{
    struct frame *f = top(c);

    if (f != NULL && f->mapping && !f->want_value)
        return add_key(c, ev, f);
    if (f != NULL && !f->mapping && f->items++ > 0) {
        int rc = buf_add(c->out, ",", 1, c->e);
        if (rc < 0)
            return rc;
    }
    if (ev->type == YAML_SEQUENCE_START_EVENT)
        return open_collection(c, ev, ev->data.sequence_start.tag, ev->data.sequence_start.anchor);
    if (ev->type == YAML_MAPPING_START_EVENT)
        return open_collection(c, ev, ev->data.mapping_start.tag, ev->data.mapping_start.anchor);
    return add_leaf(c, ev);
}

// --- events ----------------------------------------------------------------------------------------------------------------------

// libyaml's reader knows only the offset of a bad byte.
static yaml_mark_t mark_of_offset(const char *text, size_t len, size_t offset)
{
    yaml_mark_t at = { 0 };

    for (size_t i = 0; i < MIN(len, offset); i++) {
        at.column = text[i] == '\n' ? 0 : at.column + 1;
        at.line += text[i] == '\n';
    }
    return at;
}

static int refuse_syntax(struct conv *c, const char *text, size_t len)
{
    const yaml_parser_t *p = &c->parser;
    const char *why = p->problem != NULL ? p->problem : "not YAML";
    yaml_mark_t at;

    if (p->error == YAML_MEMORY_ERROR)
        return err_set(c->e, E_NOMEM, "no memory for YAML");
    if (p->error != YAML_READER_ERROR)
        return refuse_at(c, E_INVAL, &p->problem_mark, why);
    at = mark_of_offset(text, len, p->problem_offset);
    return refuse_at(c, E_INVAL, &at, why);
}

// Takes one event of the wanted document. 1 = it is complete.
static int take(struct conv *c, const yaml_event_t *ev)
{
    switch (ev->type) {
    case YAML_ALIAS_EVENT:
    case YAML_SCALAR_EVENT:
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        return add_node(c, ev);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return close_collection(c, ev);
    case YAML_DOCUMENT_END_EVENT:
        return 1;
    default:
        return 0;
    }
}

static int run(struct conv *c, const char *text, size_t len, int index)
{
    int number = -1; // of the document we are in
    int rc = 0;

    while (rc == 0) {
        yaml_event_t ev;
        if (!yaml_parser_parse(&c->parser, &ev))
            return refuse_syntax(c, text, len);
        if (ev.type == YAML_DOCUMENT_START_EVENT)
            number++;
        if (ev.type == YAML_STREAM_END_EVENT)
            rc = err_set(c->e, E_NOTFOUND, "there is no document number %d", index);
        else if (number == index)
            rc = take(c, &ev);
        yaml_event_delete(&ev);
    }
    return rc > 0 ? 0 : rc;
}

static void forget_document(struct conv *c)
{
    while (c->depth > 0)
        forget_keys(&c->stack[--c->depth]);
    while (c->n_anchors > 0)
        free(c->anchors[--c->n_anchors].name);
    c->expanded = 0;
}

static int run_all(struct conv *c, const char *text, size_t len, int (*fn)(void *ctx, const char *json, size_t n, size_t line), void *ctx)
{
    size_t line = 0;
    int rc = 0;

    for (bool more = true; rc == 0 && more;) {
        yaml_event_t ev;
        if (!yaml_parser_parse(&c->parser, &ev))
            return refuse_syntax(c, text, len);
        more = ev.type != YAML_STREAM_END_EVENT;
        if (line == 0 && ev.type != YAML_DOCUMENT_START_EVENT && ev.type != YAML_STREAM_START_EVENT)
            line = ev.start_mark.line + 1;
        rc = take(c, &ev);
        yaml_event_delete(&ev);
        if (rc != 1)
            continue;
        rc = fn(ctx, buf_str(c->out), c->out->len, line);
        forget_document(c);
        buf_reset(c->out);
        line = 0;
    }
    return rc;
}

static void conv_free(struct conv *c)
{
    forget_document(c);
    yaml_parser_delete(&c->parser);
    free(c);
}

static struct conv *conv_new(const char *yaml, size_t len, struct buf *out, struct err *e)
{
    if (len > YAML_TEXT_MAX) {
        err_set(e, E_TOOBIG, "YAML of more than %d bytes", YAML_TEXT_MAX);
        return NULL;
    }
    struct conv *c = calloc(1, sizeof *c);
    if (c == NULL || !yaml_parser_initialize(&c->parser)) {
        free(c);
        err_set(e, E_NOMEM, "no memory for YAML");
        return NULL;
    }
    c->out = out;
    c->e = e;
    yaml_parser_set_input_string(&c->parser, (const unsigned char *)yaml, len);
    return c;
}

int yaml_to_json(const char *yaml, size_t len, int index, struct buf *out, struct err *e)
{
    size_t before = out->len;
    struct err own = ERR_INIT; // the caller may want none
    struct conv *c = conv_new(yaml, len, out, e != NULL ? e : &own);

    if (c == NULL)
        return e != NULL ? e->cls : own.cls;
    int rc = run(c, yaml, len, index);
    conv_free(c);
    if (rc < 0 && out->data != NULL) {
        out->len = before;
        out->data[before] = '\0';
    }
    return rc;
}

int yaml_documents(const char *yaml, size_t len, size_t max, int (*fn)(void *ctx, const char *json, size_t n, size_t line), void *ctx,
                   struct err *e)
{
    struct buf out AUTO_BUF = BUF_INIT(max);
    struct conv *c = conv_new(yaml, len, &out, e);

    if (c == NULL)
        return e->cls;
    int rc = run_all(c, yaml, len, fn, ctx);
    conv_free(c);
    return rc;
}
