// SPDX-License-Identifier: Apache-2.0
#include "data/json.h"

#include <cJSON.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "data/json_scan.h"

enum {
    TREE_DEPTH_MAX = 2 * JSON_DEPTH_MAX, // a parsed tree hung into a built one
    SMALL_OBJECT = 16,                   // members up to which looking through them all beats sorting
};
#define EXACT_MAX 9007199254740991.0 // 2^53 - 1: the next integer is what two different texts may have meant

// --- Memory: every allocation of cJSON, counted

static struct {
    size_t used, limit; // bytes; limit SIZE_MAX = none
    bool hooked, over, failed;
} mem = { .limit = SIZE_MAX };

static void *count_alloc(size_t n)
{
    if (n > mem.limit || mem.used > mem.limit - n) {
        mem.over = true;
        return NULL;
    }
    void *p = malloc(n);
    mem.failed = mem.failed || p == NULL;
    mem.used += malloc_usable_size(p); // 0 for NULL
    return p;
}

static void count_free(void *p)
{
    mem.used -= malloc_usable_size(p);
    free(p);
}

static void hook(void)
{
    if (mem.hooked)
        return;
    cJSON_InitHooks(&(cJSON_Hooks){ count_alloc, count_free });
    mem.hooked = true;
}

void json_cap(size_t bytes)
{
    mem.limit = bytes == 0 || bytes > SIZE_MAX - mem.used ? SIZE_MAX : mem.used + bytes;
}

static int no_memory(struct err *e)
{
    bool over = mem.over;
    mem.over = false;
    return over ? err_set(e, E_TOOBIG, "JSON needs more memory than a pass may use") : err_set(e, E_NOMEM, "no memory for JSON");
}

// --- Between the opaque type and cJSON

static cJSON *tree(struct json *j)
{
    return (cJSON *)j;
}

static const cJSON *node(const struct json *j)
{
    return (const cJSON *)j;
}

static struct json *wrap(cJSON *c)
{
    return (struct json *)c;
}

static const struct json *cwrap(const cJSON *c)
{
    return (const struct json *)c;
}

void json_free(struct json *j)
{
    if (j != NULL)
        cJSON_Delete(tree(j));
}

// --- Walking a tree without recursion

struct tree_walk {
    const cJSON *at;
    const cJSON *up[TREE_DEPTH_MAX];
    int depth;
};

// The node after w->at, depth first; NULL at the end. false: too deep.
static bool walk_next(struct tree_walk *w)
{
    if (w->at->child != NULL) {
        if (w->depth == TREE_DEPTH_MAX)
            return false;
        w->up[w->depth++] = w->at;
        w->at = w->at->child;
        return true;
    }
    while (w->depth > 0 && w->at->next == NULL)
        w->at = w->up[--w->depth];
    w->at = w->depth > 0 ? w->at->next : NULL;
    return true;
}

// --- Members in the order of their names

struct member {
    const cJSON *item;
    size_t place;
};

static int by_name(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    int c = strcmp(x->item->string, y->item->string);
    return c != 0 ? c : x->place < y->place ? -1 : 1;
}

static size_t count(const cJSON *c)
{
    size_t n = 0;
    for (const cJSON *it = c->child; it != NULL; it = it->next)
        n++;
    return n;
}

// Those of one name in the order they stand. malloc'd; NULL when out of memory.
static struct member *sorted(const cJSON *obj, size_t n)
{
    struct member *m = malloc((n + 1) * sizeof(*m));
    size_t i = 0;
    if (m == NULL)
        return NULL;
    for (const cJSON *it = obj->child; it != NULL; it = it->next, i++)
        m[i] = (struct member){ it, i };
    qsort(m, n, sizeof(*m), by_name);
    return m;
}

// --- Parsing

static bool has_later_twin(const cJSON *item)
{
    for (const cJSON *it = item->next; it != NULL; it = it->next)
        if (strcmp(it->string, item->string) == 0)
            return true;
    return false;
}

static void drop_twins_small(cJSON *obj)
{
    for (cJSON *it = obj->child, *next; it != NULL; it = next) {
        next = it->next;
        if (has_later_twin(it))
            cJSON_Delete(cJSON_DetachItemViaPointer(obj, it));
    }
}

static int drop_twins(cJSON *obj, struct err *e)
{
    size_t n = count(obj);
    if (n <= SMALL_OBJECT) {
        drop_twins_small(obj);
        return 0;
    }
    AUTO_FREE struct member *m = sorted(obj, n);
    if (m == NULL)
        return err_set(e, E_NOMEM, "no memory for JSON");
    for (size_t i = 0; i + 1 < n; i++)
        if (strcmp(m[i].item->string, m[i + 1].item->string) == 0)
            cJSON_Delete(cJSON_DetachItemViaPointer(obj, (cJSON *)m[i].item));
    return 0;
}

// What the grammar allows and a tree of doubles cannot hold, or must not hold twice.
static int settle(cJSON *root, struct err *e)
{
    struct tree_walk w = { .at = root };
    while (w.at != NULL) {
        if (cJSON_IsNumber(w.at) && !isfinite(w.at->valuedouble))
            return err_set(e, E_INVAL, "JSON: a number is beyond what a double holds");
        if (cJSON_IsObject(w.at)) {
            int r = drop_twins((cJSON *)w.at, e);
            if (r != 0)
                return r;
        }
        if (!walk_next(&w))
            return err_set(e, E_INVAL, "JSON: nested too deeply");
    }
    return 0;
}

static bool only_space(const char *p, const char *end)
{
    while (p < end && strchr(" \t\r\n", *p) != NULL)
        p++;
    return p == end;
}

int json_parse(struct json **out, const char *text, size_t len, struct err *e)
{
    struct json_facts facts;
    int r = json_check(text, len, &facts, e);
    if (r != 0)
        return r;
    if (facts.depth > JSON_DEPTH_MAX)
        return err_set(e, E_TOOBIG, "JSON: nested too deeply: %d levels, more than %d", facts.depth, JSON_DEPTH_MAX);
    if (facts.has_nul)
        return err_set(e, E_INVAL, "JSON: a string holds \\u0000");
    hook();
    mem.over = mem.failed = false;
    const char *end = NULL;
    cJSON *root = cJSON_ParseWithLengthOpts(text, len, &end, false);
    if (root == NULL && (mem.over || mem.failed))
        return no_memory(e);
    // The one thing that the check lets pass and cJSON does not take: it stops inside the number, and at the top that is no error to it.
    if (root == NULL || !only_space(end, text + len))
        r = err_set(e, E_INVAL, "JSON at byte %zu: a number is longer than 63 bytes", end == NULL ? 0 : (size_t)(end - text));
    else
        r = settle(root, e);
    if (r != 0) {
        cJSON_Delete(root);
        return r;
    }
    *out = wrap(root);
    return 0;
}

// --- Reading

enum json_type json_type(const struct json *j)
{
    if (j == NULL)
        return JSON_ABSENT;
    switch (node(j)->type & 0xff) {
    case cJSON_False:
    case cJSON_True:
        return JSON_BOOL;
    case cJSON_Number:
        return JSON_NUMBER;
    case cJSON_String:
        return JSON_STRING;
    case cJSON_Array:
        return JSON_ARRAY;
    case cJSON_Object:
        return JSON_OBJECT;
    default:
        return JSON_NULL;
    }
}

static const struct json *get_n(const struct json *j, const char *key, size_t n)
{
    if (json_type(j) != JSON_OBJECT)
        return NULL;
    for (const cJSON *it = node(j)->child; it != NULL; it = it->next)
        if (strncmp(it->string, key, n) == 0 && it->string[n] == '\0')
            return cwrap(it);
    return NULL;
}

const struct json *json_get(const struct json *j, const char *key)
{
    return get_n(j, key, strlen(key));
}

const struct json *json_path(const struct json *j, const char *dotted)
{
    for (;;) {
        size_t n = strcspn(dotted, ".");
        j = get_n(j, dotted, n);
        if (j == NULL || dotted[n] == '\0')
            return j;
        dotted += n + 1;
    }
}

const char *json_str(const struct json *j)
{
    return json_type(j) == JSON_STRING ? node(j)->valuestring : NULL;
}

bool json_bool(const struct json *j, bool dflt)
{
    return json_type(j) == JSON_BOOL ? cJSON_IsTrue(node(j)) != 0 : dflt;
}

bool json_i64(const struct json *j, int64_t *out)
{
    if (json_type(j) != JSON_NUMBER)
        return false;
    double d = node(j)->valuedouble;
    if (!(d >= -EXACT_MAX && d <= EXACT_MAX) || d != trunc(d))
        return false;
    *out = (int64_t)d;
    return true;
}

const char *json_path_str(const struct json *j, const char *dotted)
{
    const char *s = json_str(json_path(j, dotted));
    return s != NULL ? s : "";
}

int64_t json_path_i64(const struct json *j, const char *dotted)
{
    int64_t v = 0;
    return json_i64(json_path(j, dotted), &v) ? v : 0;
}

double json_num(const struct json *j, double dflt)
{
    return json_type(j) == JSON_NUMBER ? node(j)->valuedouble : dflt;
}

size_t json_len(const struct json *j)
{
    enum json_type t = json_type(j);
    return t == JSON_ARRAY || t == JSON_OBJECT ? count(node(j)) : 0;
}

const struct json *json_at(const struct json *j, size_t i)
{
    const struct json *it = json_first(j);
    while (it != NULL && i-- > 0)
        it = json_next(it);
    return it;
}

const struct json *json_first(const struct json *j)
{
    return j == NULL ? NULL : cwrap(node(j)->child);
}

const struct json *json_next(const struct json *item)
{
    return cwrap(node(item)->next);
}

const char *json_key(const struct json *item)
{
    return item == NULL ? NULL : node(item)->string;
}

// --- Comparing. Recursion here is on our own bound (JSON_DEPTH_MAX for what was parsed), not on the input.

static bool equal(const cJSON *a, const cJSON *b, int depth);

static bool equal_arrays(const cJSON *a, const cJSON *b, int depth)
{
    const cJSON *x = a->child, *y = b->child;
    for (; x != NULL && y != NULL; x = x->next, y = y->next)
        if (!equal(x, y, depth))
            return false;
    return x == y; // both NULL
}

static bool equal_small(const cJSON *a, const cJSON *b, int depth)
{
    for (const cJSON *x = a->child; x != NULL; x = x->next) {
        const cJSON *y = cJSON_GetObjectItemCaseSensitive(b, x->string);
        if (y == NULL || !equal(x, y, depth))
            return false;
    }
    return true;
}

static bool equal_objects(const cJSON *a, const cJSON *b, int depth)
{
    size_t n = count(a);
    if (n != count(b))
        return false;
    AUTO_FREE struct member *x = n > SMALL_OBJECT ? sorted(a, n) : NULL;
    AUTO_FREE struct member *y = n > SMALL_OBJECT ? sorted(b, n) : NULL;
    if (x == NULL || y == NULL)
        return equal_small(a, b, depth);
    for (size_t i = 0; i < n; i++)
        if (strcmp(x[i].item->string, y[i].item->string) != 0 || !equal(x[i].item, y[i].item, depth))
            return false;
    return true;
}

static bool equal(const cJSON *a, const cJSON *b, int depth)
{
    int type = a->type & 0xff;
    if (type != (b->type & 0xff) || depth > TREE_DEPTH_MAX)
        return false;
    switch (type) {
    case cJSON_Number:
        return a->valuedouble == b->valuedouble;
    case cJSON_String:
        return strcmp(a->valuestring, b->valuestring) == 0;
    case cJSON_Array:
        return equal_arrays(a, b, depth + 1);
    case cJSON_Object:
        return equal_objects(a, b, depth + 1);
    default:
        return true;
    }
}

bool json_equal(const struct json *a, const struct json *b)
{
    return a == NULL || b == NULL ? a == b : equal(node(a), node(b), 0);
}

// Spreads every bit over the word, so that sums of members do not cancel out.
static uint64_t mix(uint64_t h)
{
    h = (h ^ (h >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    h = (h ^ (h >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    return h ^ (h >> 32);
}

static uint64_t hash(const cJSON *c, int depth)
{
    unsigned char type = (unsigned char)c->type;
    uint64_t h = hash_bytes(HASH_SEED, &type, 1);
    if (type == cJSON_String)
        return hash_bytes(h, c->valuestring, strlen(c->valuestring));
    if (type == cJSON_Number) {
        double d = c->valuedouble == 0 ? 0 : c->valuedouble; // -0 is 0
        return hash_bytes(h, &d, sizeof(d));
    }
    for (const cJSON *it = c->child; it != NULL && depth < TREE_DEPTH_MAX; it = it->next) {
        uint64_t v = hash(it, depth + 1);
        if (type == cJSON_Object)
            h += mix(hash_bytes(v, it->string, strlen(it->string))); // a sum: the order does not matter
        else
            h = mix(h ^ v);
    }
    return h;
}

uint64_t json_hash(const struct json *j)
{
    return j == NULL ? 0 : mix(hash(node(j), 0));
}

// --- Building

static bool build_failed;

static struct json *made(cJSON *c)
{
    build_failed = build_failed || c == NULL;
    return wrap(c);
}

struct json *json_object(void)
{
    hook();
    return made(cJSON_CreateObject());
}

struct json *json_array(void)
{
    hook();
    return made(cJSON_CreateArray());
}

struct json *json_string(const char *s)
{
    hook();
    return made(cJSON_CreateString(s));
}

struct json *json_int(int64_t v)
{
    hook();
    return made(cJSON_CreateNumber((double)v));
}

struct json *json_boolean(bool v)
{
    hook();
    return made(cJSON_CreateBool(v));
}

struct json *json_copy(const struct json *j)
{
    hook();
    return made(j == NULL ? NULL : cJSON_Duplicate(node(j), true));
}

// A step that cannot be taken: the child is ours and goes.
static void give_up(struct json *child)
{
    json_free(child);
    build_failed = true;
}

void json_set(struct json *obj, const char *key, struct json *child)
{
    if (child == NULL || json_type(obj) != JSON_OBJECT) {
        give_up(child);
        return;
    }
    json_del(obj, key);
    if (!cJSON_AddItemToObject(tree(obj), key, tree(child)))
        give_up(child);
}

void json_set_str(struct json *obj, const char *key, const char *s)
{
    if (s == NULL)
        json_del(obj, key);
    else
        json_set(obj, key, json_string(s));
}

void json_set_int(struct json *obj, const char *key, int64_t v)
{
    json_set(obj, key, json_int(v));
}

void json_set_bool(struct json *obj, const char *key, bool v)
{
    json_set(obj, key, json_boolean(v));
}

void json_push(struct json *arr, struct json *child)
{
    if (child == NULL || json_type(arr) != JSON_ARRAY || !cJSON_AddItemToArray(tree(arr), tree(child)))
        give_up(child);
}

void json_del(struct json *obj, const char *key)
{
    if (json_type(obj) == JSON_OBJECT)
        cJSON_DeleteItemFromObjectCaseSensitive(tree(obj), key);
}

bool json_ok(void)
{
    bool was_ok = !build_failed;
    build_failed = false;
    return was_ok;
}

// --- Printing

// An escape for c, NULL when it may stand as it is.
static const char *escape(unsigned char c, char room[8])
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *at = c == 0 ? NULL : strchr(from, c);
    if (at != NULL)
        snprintf(room, 8, "\\%c", to[at - from]);
    else if (c < 0x20)
        snprintf(room, 8, "\\u%04x", c);
    else
        return NULL;
    return room;
}

static size_t plain_run(const char *s, size_t n)
{
    size_t i = 0;
    for (; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c < 0x20 || c >= 0x80 || c == '"' || c == '\\')
            break;
    }
    return i;
}

// The character at s, of *len bytes, which is not a plain one.
static int quote_one(struct buf *out, const char *s, size_t n, size_t *len, struct err *e)
{
    char room[8];
    const char *as = escape((unsigned char)*s, room);
    *len = utf8_seq(s, n);
    if (*len == 0) {
        as = "\xef\xbf\xbd";
        *len = 1;
    }
    return as != NULL ? buf_adds(out, as, e) : buf_add(out, s, *len, e);
}

int json_quote(struct buf *out, const char *s, size_t n, struct err *e)
{
    int r = buf_add(out, "\"", 1, e);
    for (size_t i = 0, run; i < n && r == 0; i += run) {
        run = plain_run(s + i, n - i);
        r = run > 0 ? buf_add(out, s + i, run, e) : quote_one(out, s + i, n - i, &run, e);
    }
    return r != 0 ? r : buf_add(out, "\"", 1, e);
}

static int print_number(double d, struct buf *out, struct err *e)
{
    if (!isfinite(d))
        return buf_adds(out, "null", e);
    if (d == trunc(d) && fabs(d) <= EXACT_MAX + 1)
        return buf_addf(out, e, "%lld", (long long)d);
    char text[32];
    for (int digits = 15; digits <= 17; digits++) { // the shortest that reads back the same
        snprintf(text, sizeof(text), "%.*g", digits, d);
        if (strtod(text, NULL) == d)
            break;
    }
    return buf_adds(out, text, e);
}

static int print_scalar(const cJSON *c, struct buf *out, struct err *e)
{
    switch (c->type & 0xff) {
    case cJSON_True:
        return buf_adds(out, "true", e);
    case cJSON_False:
        return buf_adds(out, "false", e);
    case cJSON_Number:
        return print_number(c->valuedouble, out, e);
    case cJSON_String:
        return json_quote(out, c->valuestring, strlen(c->valuestring), e);
    default:
        return buf_adds(out, "null", e);
    }
}

static bool is_container(const cJSON *c)
{
    return cJSON_IsArray(c) || cJSON_IsObject(c);
}

// What stands before a child: its name, when it has one.
static int print_name(const cJSON *c, const cJSON *parent, struct buf *out, struct err *e)
{
    if (parent == NULL || !cJSON_IsObject(parent))
        return 0;
    int r = json_quote(out, c->string, strlen(c->string), e);
    return r != 0 ? r : buf_add(out, ":", 1, e);
}

static int print_open(const cJSON *c, struct buf *out, struct err *e)
{
    if (!is_container(c))
        return print_scalar(c, out, e);
    int r = buf_add(out, cJSON_IsArray(c) ? "[" : "{", 1, e);
    return r != 0 || c->child != NULL ? r : buf_add(out, cJSON_IsArray(c) ? "]" : "}", 1, e);
}

// From `w->at`, which is printed, to the next node: the brackets and the comma between them.
static int print_step(struct tree_walk *w, struct buf *out, struct err *e)
{
    const cJSON *before = w->at;
    int depth = w->depth, r = 0;
    if (!walk_next(w))
        return err_set(e, E_TOOBIG, "JSON tree deeper than %d", TREE_DEPTH_MAX);
    if (before->child != NULL)
        return 0;
    for (int i = depth; i > w->depth && r == 0; i--)
        r = buf_add(out, cJSON_IsArray(w->up[i - 1]) ? "]" : "}", 1, e);
    return r != 0 || w->at == NULL ? r : buf_add(out, ",", 1, e);
}

int json_print(const struct json *j, struct buf *out, struct err *e)
{
    if (j == NULL)
        return err_set(e, E_INVAL, "no JSON to print");
    struct tree_walk w = { .at = node(j) };
    int r = 0;
    while (w.at != NULL && r == 0) {
        r = print_name(w.at, w.depth > 0 ? w.up[w.depth - 1] : NULL, out, e);
        if (r == 0)
            r = print_open(w.at, out, e);
        if (r == 0)
            r = print_step(&w, out, e);
    }
    return r;
}
