// SPDX-License-Identifier: Apache-2.0
// refs — what objects take from the Secrets and ConfigMaps of their namespace: who refers to which keys, and what is known of those.
//
// A pass declares what its object refers to. From that follows what is stored (a row holds the keys that somebody refers to and nothing
// else), what is followed (a kind that nobody refers to is not asked for) and who is looked at again when a value changes. All of it is
// decided when every object has been looked at once since the boot; until then the rows stay as they are.
// A key that vanished, or whose object did, keeps its last value for whoever needs it; an optional reference does without.
// Not a cache of its own: values are read from data/cache, decoded into the arena of whoever asks, and never printed.
//
// Memory: some 200 bytes a reference. One reference of an object to a key is kept once, however often it stands in the spec.
#ifndef FLOW_REFS_H
#define FLOW_REFS_H

#include "base/buf.h"
#include "data/cache.h"
#include "data/json.h"

struct kind;

enum { REFS_MAX = 512 }; // of one object; the decoders refuse more

enum ref_kind { REF_SECRET, REF_CONFIGMAP, REF_KINDS };

struct ref {
    enum ref_kind kind;
    const char *name; // of the object; NULL = no reference
    const char *key;  // NULL = all of its keys
    bool optional;
};

extern const struct kind kind_secret, kind_configmap; // what sync follows; not in the registry
const struct kind *ref_kind_of(enum ref_kind k);
// "Secret a, key b" for messages.
void ref_text(const struct ref *r, char *out, size_t max);

struct refs;
struct refs_conf {
    const char *ns;
    void (*follow)(void *ctx, const struct kind *k, bool on); // somebody refers to one of this kind, or nobody does any more
    void (*refresh)(void *ctx, const struct kind *k);         // keys are wanted that were not: ask for all of the kind again
    void (*touch)(void *ctx, const char *key);                // what this object refers to is another
    void *ctx;
};
int refs_new(struct refs **out, struct cache *c, const struct refs_conf *conf, struct err *e) MUST_USE;
void refs_free(struct refs *r); // NULL is fine

// What the object `key` refers to is this, from now on. E_NOMEM: it is as before.
int refs_declare(struct refs *r, const char *key, const struct ref *list, size_t n, struct err *e) MUST_USE;
void refs_forget(struct refs *r, const char *key); // the object is gone and stopped
// After the passes of a turn. settled: every object has been looked at since the boot.
void refs_run(struct refs *r, bool settled);

// From sync. What is kept of an object, appended to `out`; nothing = nobody refers to it.
int refs_reduce(struct refs *r, const char *key, const char *json, size_t len, struct buf *out, struct err *e) MUST_USE;
void refs_changed(struct refs *r, const char *key); // its row is another, or the object is gone
// The kind is current (e NULL), is not asked for as there is no link (E_OFFLINE), is asked for now (E_BUSY), or cannot be read and why.
void refs_known(struct refs *r, const struct kind *k, const struct err *e);

// Reading.
enum ref_state {
    REF_FOUND,
    REF_KEPT,    // its last value: the key, or the object, is gone
    REF_ABSENT,  // the server says that there is none
    REF_UNKNOWN, // nobody could be asked yet
    REF_PENDING, // it is being asked for
};
struct ref_value {
    enum ref_state state;
    const char *data; // decoded, with a NUL behind it; NULL unless found or kept
    size_t len;
};
// One pass's reading: the object read last stays, as references to one commonly follow each other.
struct refs_reader {
    struct refs *refs; // NULL: nothing is known
    struct arena *arena;
    char key[KEY_MAX];
    struct json *row;
    bool gone;
};
void refs_reader_init(struct refs_reader *rd, struct refs *r, struct arena *a);
void refs_reader_fini(struct refs_reader *rd);
#define AUTO_REFS CLEANUP(refs_reader_fini)
int refs_read(struct refs_reader *rd, const struct ref *ref, struct ref_value *out, struct err *e) MUST_USE;
// Of a reference to a whole object: fn for each key, in order. *state is FOUND, KEPT, ABSENT, UNKNOWN or PENDING.
int refs_read_all(struct refs_reader *rd, const struct ref *ref, enum ref_state *state,
                  int (*fn)(void *ctx, const char *key, const struct ref_value *v), void *ctx, struct err *e) MUST_USE;
// Why the kind cannot be read at present; NULL = it can, or was not asked for.
const struct err *refs_trouble(const struct refs *r, enum ref_kind k);

#endif
