// SPDX-License-Identifier: Apache-2.0
#include "flow/status.h"

#include <stdio.h>
#include <string.h>

enum { COND_MAX = 12, REASON_MAX = 128, MESSAGE_MAX = 1024 };

struct condition {
    const char *type; // the kind's constant
    bool present, set;
    enum cond value;
    char reason[REASON_MAX];
    char message[MESSAGE_MAX + 1];
    char since[RFC3339_MAX];
    int64_t generation;
    // As the pass found it.
    bool was_present;
    enum cond was;
    char was_since[RFC3339_MAX];
};

struct status {
    struct clock *clock;
    struct json *body; // everything but conditions and observedGeneration
    struct json *prev;
    int64_t generation;
    size_t n;
    struct condition cond[COND_MAX];
};

static const char *const words[] = { "False", "True", "Unknown" };

static struct condition *find(struct status *s, const char *type)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->cond[i].type, type) == 0)
            return &s->cond[i];
    return NULL;
}

static void copy_text(char *out, size_t max, const char *in)
{
    snprintf(out, max, "%s", in != NULL ? in : "");
}

static bool word_value(const char *word, enum cond *v)
{
    for (size_t i = 0; word != NULL && i < ARRAY_LEN(words); i++)
        if (strcmp(words[i], word) == 0) {
            *v = (enum cond)i;
            return true;
        }
    return false;
}

static void load_condition(struct status *s, const struct json *j)
{
    const char *type = json_str(json_get(j, "type"));
    struct condition *c = type != NULL ? find(s, type) : NULL;
    if (c == NULL || !word_value(json_str(json_get(j, "status")), &c->value))
        return;
    c->present = true;
    copy_text(c->reason, sizeof(c->reason), json_str(json_get(j, "reason")));
    copy_text(c->message, sizeof(c->message), json_str(json_get(j, "message")));
    copy_text(c->since, sizeof(c->since), json_str(json_get(j, "lastTransitionTime")));
    c->was_present = true;
    c->was = c->value;
    memcpy(c->was_since, c->since, sizeof(c->was_since));
    if (!json_i64(json_get(j, "observedGeneration"), &c->generation))
        c->generation = 0;
}

int status_new(struct status **out, struct clock *c, const struct json *prev, const char *const *conditions, int64_t generation,
               struct err *e)
{
    struct status *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return err_set(e, E_NOMEM, "status");
    s->clock = c;
    s->generation = generation;
    s->body = json_object();
    for (; conditions != NULL && conditions[s->n] != NULL && s->n < COND_MAX; s->n++)
        s->cond[s->n].type = conditions[s->n];
    if (prev != NULL) {
        s->prev = json_copy(prev);
        json_each(j, json_get(prev, "conditions")) load_condition(s, j);
    }
    if (s->body == NULL || (prev != NULL && s->prev == NULL)) {
        status_free(s);
        return err_set(e, E_NOMEM, "status");
    }
    *out = s;
    return 0;
}

void status_free(struct status *s)
{
    if (s == NULL)
        return;
    json_free(s->body);
    json_free(s->prev);
    free(s);
}

static void vprint_message(char out[MESSAGE_MAX + 1], const char *fmt, va_list ap)
{
    int n = vsnprintf(out, MESSAGE_MAX + 1, fmt, ap);
    if (n <= MESSAGE_MAX)
        return;
    size_t cut = MESSAGE_MAX - 3;
    while (cut > 0 && ((unsigned char)out[cut] & 0xC0) == 0x80) // not inside a UTF-8 sequence
        cut--;
    memcpy(out + cut, "...", 4);
}

void status_cond(struct status *s, const char *type, enum cond value, const char *reason, const char *fmt, ...)
{
    struct condition *c = find(s, type);
    if (c == NULL)
        return;
    // What a pass says first and takes back is no transition.
    if (c->was_present && c->was == value)
        memcpy(c->since, c->was_since, sizeof(c->since));
    else
        rfc3339_sec(clock_wall_us(s->clock), c->since);
    c->present = c->set = true;
    c->value = value;
    c->generation = s->generation;
    copy_text(c->reason, sizeof(c->reason), reason);
    va_list ap;
    va_start(ap, fmt);
    vprint_message(c->message, fmt, ap);
    va_end(ap);
}

void status_cond_generation(struct status *s, const char *type, int64_t generation)
{
    struct condition *c = find(s, type);
    if (c != NULL)
        c->generation = generation;
}

void status_cond_drop(struct status *s, const char *type)
{
    struct condition *c = find(s, type);
    if (c != NULL)
        c->present = c->set = false;
}

bool status_cond_is_set(const struct status *s, const char *type)
{
    const struct condition *c = find((struct status *)s, type);
    return c != NULL && c->set;
}

enum cond status_cond_value(const struct status *s, const char *type, bool *present)
{
    const struct condition *c = find((struct status *)s, type);
    *present = c != NULL && c->present;
    return *present ? c->value : COND_UNKNOWN;
}

void status_keep_prev(struct status *s)
{
    json_each(m, s->prev)
    {
        if (strcmp(json_key(m), "conditions") != 0)
            json_set(s->body, json_key(m), json_copy(m));
    }
}

struct json *status_body(struct status *s)
{
    return s->body;
}

const struct json *status_prev(const struct status *s)
{
    return s->prev;
}

static struct json *condition_json(const struct condition *c)
{
    struct json *j = json_object();
    json_set_str(j, "type", c->type);
    json_set_str(j, "status", words[c->value]);
    json_set_int(j, "observedGeneration", c->generation);
    json_set_str(j, "lastTransitionTime", c->since);
    json_set_str(j, "reason", c->reason);
    json_set_str(j, "message", c->message);
    return j;
}

int status_finish(struct status *s, uint64_t *hash, struct err *e)
{
    (void)json_ok();
    struct json *list = json_array();
    for (size_t i = 0; i < s->n; i++)
        if (s->cond[i].present)
            json_push(list, condition_json(&s->cond[i]));
    json_set_int(s->body, "observedGeneration", s->generation);
    json_set(s->body, "conditions", list);
    if (!json_ok())
        return err_set(e, E_NOMEM, "status");
    *hash = json_hash(s->body);
    return 0;
}

int status_print(const struct status *s, struct buf *out, struct err *e)
{
    return json_print(s->body, out, e);
}

// A condition of ours in the server's list, by type.
static const struct json *condition_in(const struct json *list, const char *type)
{
    json_each(j, list)
    {
        const char *t = json_str(json_get(j, "type"));
        if (t != NULL && type != NULL && strcmp(t, type) == 0)
            return j;
    }
    return NULL;
}

bool status_covered(const struct json *ours, const struct json *servers)
{
    json_each(m, ours)
    {
        const struct json *theirs = json_get(servers, json_key(m));
        if (strcmp(json_key(m), "conditions") != 0) {
            if (!json_equal(m, theirs))
                return false;
            continue;
        }
        json_each(c, m) if (!json_equal(c, condition_in(theirs, json_str(json_get(c, "type"))))) return false;
    }
    return true;
}

void difference_add(struct json *array, const char *path, const char *field, const char *want, const char *have)
{
    enum { DIFFERENCES_MAX = 64, VALUE_MAX = 256 };
    if (json_len(array) >= DIFFERENCES_MAX)
        return;
    char w[VALUE_MAX], h[VALUE_MAX];
    copy_text(w, sizeof(w), want);
    copy_text(h, sizeof(h), have);
    struct json *d = json_object();
    json_set_str(d, "path", path);
    json_set_str(d, "field", field);
    json_set_str(d, "want", w);
    json_set_str(d, "have", h);
    json_push(array, d);
}
