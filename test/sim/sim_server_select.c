// SPDX-License-Identifier: Apache-2.0
// Selectors: labels, and fields that the kind says can be selected.
#include <stdio.h>
#include <string.h>

#include "sim_server.h"

enum { KEY_LEN_MAX = 128, WORDS_MAX = 8 };

// One requirement. Without values it asks whether the key is there.
struct requirement {
    char key[KEY_LEN_MAX], values[WORDS_MAX][KEY_LEN_MAX];
    size_t n_values;
    bool negated;
};

static void trim(char *s)
{
    size_t n = strlen(s), lead = strspn(s, " ");
    while (n > lead && s[n - 1] == ' ')
        n--;
    memmove(s, s + lead, n - lead);
    s[n - lead] = '\0';
}

static bool put(char out[KEY_LEN_MAX], const char *s, size_t n)
{
    snprintf(out, KEY_LEN_MAX, "%.*s", (int)n, s);
    trim(out);
    return out[0] != '\0' && strpbrk(out, "=!() ") == NULL;
}

static bool read_set(struct requirement *r, const char *s)
{
    const char *open = strchr(s, '('), *close = strchr(s, ')');
    char word[KEY_LEN_MAX];
    if (open == NULL || close == NULL || close < open)
        return false;
    for (const char *p = open + 1; p <= close && r->n_values < WORDS_MAX;) {
        size_t n = strcspn(p, ",)");
        snprintf(word, sizeof(word), "%.*s", (int)n, p);
        trim(word);
        memcpy(r->values[r->n_values++], word, sizeof(word));
        p += n + 1;
    }
    return true;
}

// "a=b", "a==b", "a!=b", "a in (b,c)", "a notin (b)", "a", "!a"; of fields only the first three.
static bool read_requirement(struct requirement *r, const char *s, bool fields)
{
    *r = (struct requirement){ 0 };
    const char *eq = strchr(s, '='), *in = strstr(s, " in "), *notin = strstr(s, " notin ");
    if (eq != NULL) {
        r->negated = eq > s && eq[-1] == '!';
        r->n_values = 1;
        snprintf(r->values[0], KEY_LEN_MAX, "%s", eq + (eq[1] == '=' ? 2 : 1));
        trim(r->values[0]);
        return put(r->key, s, (size_t)(eq - s) - r->negated) && strchr(r->values[0], '=') == NULL;
    }
    if (fields)
        return false;
    if (notin != NULL || in != NULL) {
        r->negated = notin != NULL;
        return put(r->key, s, (size_t)((notin != NULL ? notin : in) - s)) && read_set(r, s);
    }
    while (*s == ' ')
        s++;
    r->negated = *s == '!';
    return put(r->key, s + r->negated, strlen(s) - r->negated);
}

// Up to the next comma that stands in no parentheses; NULL = that was all.
static const char *next_part(const char *s, char part[256])
{
    int depth = 0;
    size_t n = 0;
    for (; s[n] != '\0' && (s[n] != ',' || depth > 0); n++)
        depth += (s[n] == '(') - (s[n] == ')');
    snprintf(part, 256, "%.*s", (int)n, s);
    return s[n] == ',' ? s + n + 1 : NULL;
}

static bool is_selectable(const struct sim_type *t, const char *key)
{
    if (strcmp(key, "metadata.name") == 0 || strcmp(key, "metadata.namespace") == 0)
        return true;
    if (strcmp(t->plural, "namespaces") == 0 && strcmp(key, "status.phase") == 0)
        return true;
    for (size_t i = 0; t->schema != NULL && i < t->schema->n_selectable; i++)
        if (strcmp(t->schema->selectable[i], key) == 0)
            return true;
    return false;
}

static bool labels_are_valid(const char *labels, struct sim_answer *a)
{
    char part[256];
    struct requirement r;
    for (const char *p = labels[0] != '\0' ? labels : NULL; p != NULL;) {
        p = next_part(p, part);
        if (read_requirement(&r, part, false))
            continue;
        sim_fail(a, 400, "BadRequest", "unable to parse requirement: %.100s", part);
        return false;
    }
    return true;
}

static bool fields_are_valid(const struct sim_type *t, const char *fields, struct sim_answer *a)
{
    char part[256];
    struct requirement r;
    for (const char *p = fields[0] != '\0' ? fields : NULL; p != NULL;) {
        p = next_part(p, part);
        if (!read_requirement(&r, part, true))
            sim_fail(a, 400, "BadRequest", "invalid selector: '%.100s'; can't understand '%.100s'", fields, part);
        else if (!is_selectable(t, r.key))
            sim_fail(a, 400, "BadRequest", "field label not supported: %s", r.key);
        else
            continue;
        return false;
    }
    return true;
}

bool sim_selectors_are_valid(const struct sim_type *t, const char *labels, const char *fields, struct sim_answer *a)
{
    return labels_are_valid(labels, a) && fields_are_valid(t, fields, a);
}

static bool holds(const struct requirement *r, const char *value)
{
    bool found = value != NULL && r->n_values == 0;
    for (size_t i = 0; i < r->n_values && value != NULL; i++)
        found = found || strcmp(r->values[i], value) == 0;
    return found != r->negated;
}

bool sim_selected(const char *labels, const char *fields, const struct json *object)
{
    char part[256];
    struct requirement r;
    for (const char *p = labels[0] != '\0' ? labels : NULL; p != NULL;) {
        p = next_part(p, part);
        if (read_requirement(&r, part, false) && !holds(&r, json_str(json_get(json_path(object, "metadata.labels"), r.key))))
            return false;
    }
    for (const char *p = fields[0] != '\0' ? fields : NULL; p != NULL;) {
        p = next_part(p, part);
        const char *value = read_requirement(&r, part, true) ? json_str(json_path(object, r.key)) : NULL;
        if (!holds(&r, value != NULL ? value : ""))
            return false;
    }
    return true;
}
