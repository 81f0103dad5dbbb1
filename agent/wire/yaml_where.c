// SPDX-License-Identifier: Apache-2.0
// Follows a path through libyaml's events. Only for what is to be told to a person: it parses the text a second time.
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "wire/yaml.h"

struct follow {
    const char *rest; // of the path: below the collection that we are in
    size_t line;      // of what was found last
    size_t depth;     // of the collections that are open
    size_t at;        // the depth in which `rest` is looked for
    bool mapping;     // what is open there
    bool is_value;    // the next node there is the value of a key
    bool wanted;      // and it is the one
    size_t item;
};

// How much of `rest` names this key; 0 = none of it.
static size_t key_fits(const struct follow *f, const yaml_event_t *ev)
{
    size_t n = ev->type == YAML_SCALAR_EVENT ? ev->data.scalar.length : 0;
    size_t skip = f->rest[0] == '.';
    if (n == 0 || strncmp(f->rest + skip, (const char *)ev->data.scalar.value, n) != 0)
        return 0;
    return strchr(".[", f->rest[skip + n]) != NULL ? skip + n : 0; // the end of the path fits, too
}

static size_t item_fits(const struct follow *f)
{
    char step[32];
    int n = snprintf(step, sizeof(step), "[%zu]", f->item);
    return strncmp(f->rest, step, (size_t)n) == 0 ? (size_t)n : 0;
}

static bool begins_collection(const yaml_event_t *ev)
{
    return ev->type == YAML_MAPPING_START_EVENT || ev->type == YAML_SEQUENCE_START_EVENT;
}

static void go_in(struct follow *f, const yaml_event_t *ev)
{
    f->at = f->depth + 1;
    f->mapping = ev->type == YAML_MAPPING_START_EVENT;
    f->is_value = f->wanted = false;
    f->item = 0;
}

// A node of the collection that is looked through. True: there is nothing more to find.
static bool look(struct follow *f, const yaml_event_t *ev)
{
    bool here = f->wanted;
    size_t n = 0;
    if (!f->mapping) {
        n = item_fits(f);
        f->item++;
        here = n > 0;
    } else if (!f->is_value) {
        n = key_fits(f, ev);
        f->wanted = n > 0;
    }
    if (n > 0) {
        f->rest += n;
        f->line = ev->start_mark.line + 1;
    }
    bool value = !f->mapping || f->is_value;
    f->is_value = f->mapping && !f->is_value;
    if (n > 0 && f->rest[0] == '\0')
        return true;
    if (!value || !here)
        return false;
    if (begins_collection(ev))
        go_in(f, ev);
    return !begins_collection(ev); // an alias, or not what the path expects
}

// True: the search ends.
static bool take(struct follow *f, const yaml_event_t *ev)
{
    bool end = ev->type == YAML_MAPPING_END_EVENT || ev->type == YAML_SEQUENCE_END_EVENT;
    bool node = begins_collection(ev) || ev->type == YAML_SCALAR_EVENT || ev->type == YAML_ALIAS_EVENT;
    if (end)
        return f->depth-- == f->at;
    bool done = false;
    if (node && f->at == 0)
        go_in(f, ev);
    else if (node && f->depth == f->at)
        done = look(f, ev);
    f->depth += begins_collection(ev);
    return done || ev->type == YAML_DOCUMENT_END_EVENT;
}

size_t yaml_line_of(const char *yaml, size_t len, size_t line, const char *path)
{
    struct follow f = { .rest = path, .line = line };
    yaml_parser_t p;
    bool in_document = false, done = false;
    if (!yaml_parser_initialize(&p))
        return line;
    yaml_parser_set_input_string(&p, (const unsigned char *)yaml, len);
    while (!done) {
        yaml_event_t ev;
        if (!yaml_parser_parse(&p, &ev))
            break;
        if (begins_collection(&ev) || ev.type == YAML_SCALAR_EVENT)
            in_document = in_document || ev.start_mark.line + 1 >= line;
        done = ev.type == YAML_STREAM_END_EVENT || (in_document && take(&f, &ev));
        yaml_event_delete(&ev);
    }
    yaml_parser_delete(&p);
    return f.line;
}
