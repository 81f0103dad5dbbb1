// SPDX-License-Identifier: Apache-2.0
// json — reading and building JSON trees; the only user of cJSON.
//
// For specs (small, already inside the allocation cap of a pass) and for what the agent itself writes. Whole API objects and lists never
// pass here: data/object.h cuts them by a byte scanner first.
// Integers: cJSON holds doubles, exact to 2^53; json_i64() refuses what is not exact. Absent and zero are different: every getter says
// which. Allocation is capped: json_cap(bytes) bounds how much the trees may grow in all until json_cap(0); over it, E_TOOBIG.
// Depth is at most JSON_DEPTH_MAX (json_scan.h). Not thread-safe.
#ifndef DATA_JSON_H
#define DATA_JSON_H

#include "base/buf.h"
#include "base/err.h"

struct json; // a node; a cJSON underneath

void json_cap(size_t bytes);
// Strict (json_scan.h), trailing bytes refused. Of a member that stands twice the last one counts, as on the API server. E_INVAL with
// the offset; also for what a tree cannot hold: \u0000, a number longer than 63 bytes or beyond a double. E_TOOBIG, E_NOMEM.
int json_parse(struct json **out, const char *text, size_t len, struct err *e) MUST_USE;
void json_free(struct json *j); // NULL is fine
static inline void json_freep(struct json **j)
{
    json_free(*j);
}
#define AUTO_JSON CLEANUP(json_freep)

// Reading. j may be NULL (reads as absent).
enum json_type { JSON_ABSENT, JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };
enum json_type json_type(const struct json *j);
const struct json *json_get(const struct json *j, const char *key);     // member, NULL = absent or not an object
const struct json *json_path(const struct json *j, const char *dotted); // "status.conditions"; keys with dots cannot be named
const char *json_str(const struct json *j);                             // NULL unless a string
const char *json_path_str(const struct json *j, const char *dotted);    // the string there, "" where there is none
int64_t json_path_i64(const struct json *j, const char *dotted);        // the integer there, 0 where there is none
bool json_bool(const struct json *j, bool dflt);
bool json_i64(const struct json *j, int64_t *out); // false unless an integer within +-(2^53 - 1)
double json_num(const struct json *j, double dflt);
size_t json_len(const struct json *j); // members of an array or object
const struct json *json_at(const struct json *j, size_t i);
const struct json *json_first(const struct json *j); // iteration over array or object
const struct json *json_next(const struct json *item);
const char *json_key(const struct json *item); // member name, NULL in arrays
#define json_each(it, j) for (const struct json *it = json_first(j); it != NULL; it = json_next(it))

// By meaning: member order is ignored, 3 equals 3.0.
bool json_equal(const struct json *a, const struct json *b);
// Hash by meaning (same order rule).
uint64_t json_hash(const struct json *j);

// Building. Adding takes ownership of the child, also on failure. The _set_ forms replace an existing member. E_NOMEM/E_TOOBIG are
// collected: json_ok() once at the end tells whether every step worked. Giving a step what an earlier one failed to make is fine.
struct json *json_object(void);
struct json *json_array(void);
struct json *json_string(const char *s);
struct json *json_int(int64_t v); // exact within +-2^53
struct json *json_boolean(bool v);
struct json *json_copy(const struct json *j);
void json_set(struct json *obj, const char *key, struct json *child);
void json_set_str(struct json *obj, const char *key, const char *s); // s NULL: no member, an existing one goes
void json_set_int(struct json *obj, const char *key, int64_t v);
void json_set_bool(struct json *obj, const char *key, bool v);
void json_push(struct json *arr, struct json *child);
void json_del(struct json *obj, const char *key);
bool json_ok(void); // false when any building step since the last call failed
// Appends it, compact. Integers up to 2^53 without exponent; bytes that are no UTF-8 become U+FFFD.
int json_print(const struct json *j, struct buf *out, struct err *e) MUST_USE;
// Appends one string with its quotes, likewise.
int json_quote(struct buf *out, const char *s, size_t n, struct err *e) MUST_USE;

#endif
