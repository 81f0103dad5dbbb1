// SPDX-License-Identifier: Apache-2.0
#include "flow/fields.h"

#include <stdio.h>
#include <string.h>

struct search {
    size_t unknown;
    char *first;
    char path[FIELDS_PATH_MAX]; // of what is looked at
};

// --- Outlines

static const char *next_line(const char *line)
{
    return strchr(line, '\n') + 1;
}

static size_t depth_of(const char *line)
{
    return strspn(line, " ");
}

// Of what begins at `line`, with all its siblings, the one of that name; NULL = there is none.
static const char *find(const char *line, const char *name)
{
    size_t depth = depth_of(line), n = strlen(name);
    for (; *line != '\0' && depth_of(line) >= depth; line = next_line(line))
        if (depth_of(line) == depth && strncmp(line + depth, name, n) == 0 && strchr("{\n", line[depth + n]) != NULL)
            return line;
    return NULL;
}

static bool takes_any(const char *line)
{
    return next_line(line)[-2] == '}';
}

// The first field below; NULL = it has none of its own.
static const char *below(const char *line)
{
    const char *next = next_line(line);
    return *next != '\0' && depth_of(next) > depth_of(line) ? next : NULL;
}

// --- Objects

// Adds to the path and returns where it ended before.
static size_t enter(struct search *s, const char *fmt, ...) PRINTF_LIKE(2, 3);
static size_t enter(struct search *s, const char *fmt, ...)
{
    size_t before = strlen(s->path);
    va_list ap;
    va_start(ap, fmt);
    if (vsnprintf(s->path + before, sizeof(s->path) - before, fmt, ap) >= (int)(sizeof(s->path) - before))
        memcpy(s->path + sizeof(s->path) - sizeof("..."), "...", sizeof("..."));
    va_end(ap);
    return before;
}

static void note(struct search *s)
{
    if (s->unknown++ == 0)
        snprintf(s->first, FIELDS_PATH_MAX, "%s", s->path);
}

static void look_at_members(struct search *s, const char *fields, const struct json *object);

// As deep as the outline: what has no fields there is not looked into, nor is a list in a list.
static void look_at_value(struct search *s, const char *fields, const struct json *value)
{
    size_t i = 0;
    if (json_type(value) != JSON_ARRAY) {
        look_at_members(s, fields, value);
        return;
    }
    json_each(item, value)
    {
        size_t before = enter(s, "[%zu]", i++);
        look_at_members(s, fields, item);
        s->path[before] = '\0';
    }
}

static void look_at_members(struct search *s, const char *fields, const struct json *object)
{
    if (json_type(object) != JSON_OBJECT)
        return;
    json_each(m, object)
    {
        const char *line = find(fields, json_key(m));
        size_t before = enter(s, ".%s", json_key(m));
        if (line == NULL)
            note(s);
        else if (below(line) != NULL && !takes_any(line))
            look_at_value(s, below(line), m);
        s->path[before] = '\0';
    }
}

static const char *outline_of(const struct kind *k)
{
    for (const struct kind_fields *f = kind_fields; f->kind != NULL; f++)
        if (strcmp(f->kind, k->name) == 0)
            return f->outline;
    return NULL;
}

// Those of an object that a server gave are known, too: files are made of such.
static const char root[] = "apiVersion\nkind\nmetadata\nspec\nstatus\n";
static const char metadata[] = "name\nnamespace\nlabels{}\nannotations{}\nuid\nresourceVersion\ngeneration\ncreationTimestamp\n"
                               "managedFields\nfinalizers\nownerReferences\ngenerateName\nselfLink\ndeletionTimestamp\n"
                               "deletionGracePeriodSeconds\n";

static void look_below(struct search *s, const char *fields, const struct json *object, const char *name)
{
    snprintf(s->path, sizeof(s->path), "%s", name);
    if (fields != NULL)
        look_at_members(s, fields, json_get(object, name));
}

size_t fields_unknown(const struct kind *k, const struct json *object, char first[FIELDS_PATH_MAX])
{
    struct search s = { .first = first };
    first[0] = '\0';
    json_each(m, object)
    {
        if (find(root, json_key(m)) != NULL)
            continue;
        snprintf(s.path, sizeof(s.path), "%s", json_key(m));
        note(&s);
    }
    look_below(&s, metadata, object, "metadata");
    look_below(&s, outline_of(k), object, "spec");
    return s.unknown;
}
