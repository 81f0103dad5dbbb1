// SPDX-License-Identifier: Apache-2.0
// field — reads a spec out of JSON with the verdicts of the CRD's schema, and says where what is wrong stands.
//
// A field is a place in a document: it knows its parent, so that an error reads "spec.files[2].mode: must be octal permission bits".
// The first error wins and sticks in the decode; getters then give defaults, so a decoder reads everything and asks once at the
// end. Absent and null are the same here (the API server drops a null), absent and zero are not. Unknown members are passed over, as
// the API server prunes them.
// Not a schema interpreter: each kind says in C what its CRD says in YAML; test/unit/edge*_spec_test.c hold both to the same list.
// Texts are borrowed from the document, arrays lie in the arena.
#ifndef KINDS_FIELD_H
#define KINDS_FIELD_H

#include "base/buf.h"
#include "data/json.h"

struct decode {
    struct arena *arena;
    struct err *err;
    int rc; // 0 or the class of the first error
};

struct field {
    struct decode *d;
    const struct json *j; // NULL = absent
    const struct field *parent;
    const char *name; // NULL: an item of an array
    size_t index;
};

struct text_rule {
    size_t min, max;                // characters
    bool (*fits)(const char *text); // may be NULL
    const char *what;               // "must be <what>"
};

struct field field_root(struct decode *d, const struct json *j, const char *name);
struct field field_get(const struct field *obj, const char *name); // also checks that obj is an object
struct field field_item(const struct field *array, const struct json *item, size_t index);
bool field_present(const struct field *f);
// Sets the error unless there is one. "must be ..." is the usual wording.
void field_bad(const struct field *f, const char *fmt, ...) PRINTF_LIKE(2, 3);
void field_no_memory(const struct field *f);
void field_require(const struct field *f);

// Each reads member `name` of obj; absent gives dflt.
int64_t field_int(const struct field *obj, const char *name, int64_t min, int64_t max, int64_t dflt);
const char *field_text(const struct field *obj, const char *name, const struct text_rule *r, const char *dflt);
int field_choice(const struct field *obj, const char *name, const char *const *words, int dflt); // position in words (NULL-terminated)
bool field_bool(const struct field *obj, const char *name, bool dflt);
int64_t field_quantity(const struct field *obj, const char *name, int64_t min, int64_t max, int64_t dflt); // bytes
// Number of items, checked against the bounds; 0 when absent.
size_t field_count(const struct field *array, size_t min, size_t max);
// A list of texts, NULL-terminated, in the arena; absent gives an empty list.
const char *const *field_texts(const struct field *obj, const char *name, size_t min, size_t max, const struct text_rule *r, size_t *n);
// A command: 1..64 words, the first not empty. NULL when it is absent.
const char *const *field_command(const struct field *obj, const char *name, size_t *n);
// spec.nodeName: absent, or us.
void field_node_name(const struct field *spec, const char *node);

// A user or group: a name or a number below 2^32-1.
extern const struct text_rule text_account;
extern const struct text_rule text_object_name; // of another object in the namespace
extern const struct text_rule text_word;        // an argument: anything a C string can hold, up to 32767 characters

size_t text_chars(const char *s); // characters of UTF-8 text

#endif
