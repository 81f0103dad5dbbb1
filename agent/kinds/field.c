// SPDX-License-Identifier: Apache-2.0
#include "kinds/field.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"

enum { PATH_TEXT_MAX = 200, PATH_DEPTH_MAX = 12, COMMAND_MAX = 64 };

struct field field_root(struct decode *d, const struct json *j, const char *name)
{
    return (struct field){ .d = d, .j = json_type(j) == JSON_NULL ? NULL : j, .name = name };
}

struct field field_get(const struct field *obj, const char *name)
{
    const struct json *j = NULL;
    if (field_present(obj) && json_type(obj->j) != JSON_OBJECT)
        field_bad(obj, "must be an object");
    else
        j = json_get(obj->j, name);
    return (struct field){ .d = obj->d, .j = json_type(j) == JSON_NULL ? NULL : j, .parent = obj, .name = name };
}

struct field field_item(const struct field *array, const struct json *item, size_t index)
{
    return (struct field){ .d = array->d, .j = item, .parent = array, .index = index };
}

bool field_present(const struct field *f)
{
    return f->j != NULL;
}

// "spec.files[2].mode"
static void path_text(const struct field *f, char *out, size_t max)
{
    const struct field *chain[PATH_DEPTH_MAX];
    size_t depth = 0, n = 0;
    for (; f != NULL && depth < PATH_DEPTH_MAX; f = f->parent)
        chain[depth++] = f;
    out[0] = '\0';
    while (depth-- > 0 && n < max) {
        int w = chain[depth]->name != NULL ? snprintf(out + n, max - n, "%s%s", n > 0 ? "." : "", chain[depth]->name)
                                           : snprintf(out + n, max - n, "[%zu]", chain[depth]->index);
        n += w > 0 ? (size_t)w : 0;
    }
}

void field_bad(const struct field *f, const char *fmt, ...)
{
    char path[PATH_TEXT_MAX], text[ERR_MSG_MAX];
    if (f->d->rc != 0)
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    path_text(f, path, sizeof(path));
    f->d->rc = err_set(f->d->err, E_INVAL, "%s: %s", path, text);
}

void field_no_memory(const struct field *f)
{
    char path[PATH_TEXT_MAX];
    if (f->d->rc != 0)
        return;
    path_text(f, path, sizeof(path));
    f->d->rc = err_set(f->d->err, E_TOOBIG, "%s: too large for the memory of a pass", path);
}

void field_require(const struct field *f)
{
    if (!field_present(f))
        field_bad(f, "is required");
}

int64_t field_int(const struct field *obj, const char *name, int64_t min, int64_t max, int64_t dflt)
{
    struct field f = field_get(obj, name);
    int64_t v;
    if (!field_present(&f))
        return dflt;
    if (!json_i64(f.j, &v))
        field_bad(&f, "must be an integer");
    else if ((v < min || v > max) && max == INT64_MAX)
        field_bad(&f, "must be at least %" PRId64 ", is %" PRId64, min, v);
    else if (v < min || v > max)
        field_bad(&f, "must be %" PRId64 "..%" PRId64 ", is %" PRId64, min, max, v);
    else
        return v;
    return dflt;
}

size_t text_chars(const char *s)
{
    size_t n = 0;
    for (; *s != '\0'; s++)
        n += ((unsigned char)*s & 0xC0) != 0x80;
    return n;
}

// The text of f if it obeys the rule.
static const char *text_of(const struct field *f, const struct text_rule *r)
{
    const char *s = json_str(f->j);
    if (s == NULL) {
        field_bad(f, "must be a string");
        return NULL;
    }
    size_t n = text_chars(s);
    if (n < r->min)
        field_bad(f, r->min == 1 ? "must not be empty" : "must have at least %zu characters", r->min);
    else if (n > r->max)
        field_bad(f, "must have at most %zu characters, has %zu", r->max, n);
    else if (r->fits != NULL && !r->fits(s))
        field_bad(f, "must be %s, is \"%.64s\"", r->what, s);
    else
        return s;
    return NULL;
}

const char *field_text(const struct field *obj, const char *name, const struct text_rule *r, const char *dflt)
{
    struct field f = field_get(obj, name);
    const char *s = field_present(&f) ? text_of(&f, r) : NULL;
    return s != NULL ? s : dflt;
}

int field_choice(const struct field *obj, const char *name, const char *const *words, int dflt)
{
    struct field f = field_get(obj, name);
    if (!field_present(&f))
        return dflt;
    const char *s = json_str(f.j);
    char known[128] = "";
    for (int i = 0; words[i] != NULL; i++) {
        if (s != NULL && strcmp(words[i], s) == 0)
            return i;
        size_t n = strlen(known);
        snprintf(known + n, sizeof(known) - n, "%s%s", n > 0 ? ", " : "", words[i]);
    }
    field_bad(&f, "must be one of %s, is \"%.64s\"", known, s != NULL ? s : "not a string");
    return dflt;
}

bool field_bool(const struct field *obj, const char *name, bool dflt)
{
    struct field f = field_get(obj, name);
    if (field_present(&f) && json_type(f.j) != JSON_BOOL)
        field_bad(&f, "must be true or false");
    return json_bool(f.j, dflt);
}

// The schema's pattern: a whole number, not all that Kubernetes calls a quantity.
static bool is_byte_quantity(const char *s)
{
    static const char *const units[] = { "", "k", "Ki", "M", "Mi", "G", "Gi" };
    const char *unit = s + strspn(s, "0123456789");
    if (s[0] < '1' || s[0] > '9')
        return false;
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (strcmp(units[i], unit) == 0)
            return true;
    return false;
}

int64_t field_quantity(const struct field *obj, const char *name, int64_t min, int64_t max, int64_t dflt)
{
    static const struct text_rule rule = { 1, 12, is_byte_quantity, "a number of bytes such as 512Ki or 1Mi" };
    struct err ignored = ERR_INIT;
    int64_t v = INT64_MAX; // what does not fit is above any bound
    struct field f = field_get(obj, name);
    const char *s = field_present(&f) ? text_of(&f, &rule) : NULL;
    if (s == NULL)
        return dflt;
    if (num_quantity(s, 1, &v, &ignored) < 0 || v < min || v > max)
        field_bad(&f, "must be %" PRId64 "..%" PRId64 " bytes, is %s", min, max, s);
    else
        return v;
    return dflt;
}

size_t field_count(const struct field *array, size_t min, size_t max)
{
    if (!field_present(array))
        return 0;
    if (json_type(array->j) != JSON_ARRAY) {
        field_bad(array, "must be a list");
        return 0;
    }
    size_t n = json_len(array->j);
    if (n >= min && n <= max)
        return n;
    field_bad(array, "must have %zu..%zu items, has %zu", min, max, n);
    return 0;
}

const char *const *field_texts(const struct field *obj, const char *name, size_t min, size_t max, const struct text_rule *r, size_t *n)
{
    struct field array = field_get(obj, name);
    size_t count = field_count(&array, min, max);
    const char **out = arena_alloc(array.d->arena, (count + 1) * sizeof(*out));
    *n = 0;
    if (out == NULL) {
        field_no_memory(&array);
        return NULL;
    }
    const struct json *item = json_first(array.j);
    for (; *n < count; item = json_next(item)) {
        struct field f = field_item(&array, item, *n);
        out[(*n)++] = text_of(&f, r);
    }
    return out;
}

const char *const *field_command(const struct field *obj, const char *name, size_t *n)
{
    struct field f = field_get(obj, name);
    *n = 0;
    if (!field_present(&f))
        return NULL;
    const char *const *words = field_texts(obj, name, 1, COMMAND_MAX, &text_word, n);
    if (*n > 0 && words[0] != NULL && words[0][0] == '\0') {
        struct field first = field_item(&f, json_first(f.j), 0);
        field_bad(&first, "names the program and must not be empty");
    }
    return words;
}

void field_node_name(const struct field *spec, const char *node)
{
    static const struct text_rule any = { 1, 253, NULL, NULL };
    const char *name = field_text(spec, "nodeName", &any, node);
    if (strcmp(name, node) == 0)
        return;
    struct field f = field_get(spec, "nodeName");
    field_bad(&f, "is \"%.64s\", but this node is \"%s\"", name, node);
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_account_number(const char *s)
{
    size_t n = strspn(s, "0123456789");
    return n > 0 && n <= 10 && s[n] == '\0' && strtoull(s, NULL, 10) < UINT32_MAX;
}

static bool is_account(const char *s)
{
    if (!is_letter(s[0]))
        return is_account_number(s);
    while (is_letter(*s) || is_digit(*s) || *s == '.' || *s == '-')
        s++;
    return s[*s == '$'] == '\0';
}

static bool is_object_name(const char *s)
{
    static const char inner[] = "abcdefghijklmnopqrstuvwxyz0123456789-.";
    size_t n = strlen(s);
    return s[strspn(s, inner)] == '\0' && strchr("-.", s[0]) == NULL && strchr("-.", s[n - 1]) == NULL;
}

const struct text_rule text_object_name = { 1, 253, is_object_name, "the name of an object" };
const struct text_rule text_account = { 1, 32, is_account, "the name or number of an account" };
const struct text_rule text_word = { 0, 32767, NULL, NULL };
