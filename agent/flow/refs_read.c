// SPDX-License-Identifier: Apache-2.0
// Values out of the rows: a Secret's are base64, a ConfigMap's text, its binaryData base64.
#include <stdio.h>
#include <string.h>

#include "data/key.h"
#include "flow/refs_priv.h"
#include "kinds/kind.h"
#include "wire/base64.h"

enum { VALUE_MAX = 2 * 1024 * 1024 };

void refs_reader_init(struct refs_reader *rd, struct refs *r, struct arena *a)
{
    *rd = (struct refs_reader){ .refs = r, .arena = a };
}

void refs_reader_fini(struct refs_reader *rd)
{
    json_free(rd->row);
    rd->row = NULL;
}

// E_NOTFOUND: there is no row.
static int load(struct refs_reader *rd, const struct ref *ref, struct err *e)
{
    struct cached row AUTO_CACHED = CACHED_INIT;
    char key[KEY_MAX];
    int rc = key_make(key, ref_kind_of(ref->kind)->type.plural, rd->refs->conf.ns, ref->name, e);
    if (rc < 0 || (rd->row != NULL && strcmp(rd->key, key) == 0))
        return rc;
    refs_reader_fini(rd);
    rc = cache_get(rd->refs->cache, key, &row, e);
    if (rc == 0)
        rc = json_parse(&rd->row, buf_str(&row.json), row.json.len, e);
    if (rc < 0)
        return rc;
    memcpy(rd->key, key, sizeof(key));
    rd->gone = row.source[0] == '\0';
    return 0;
}

static enum ref_state absent(const struct refs *r, enum ref_kind k)
{
    const struct known *known = &r->kinds[k];
    if (known->trouble.cls != 0)
        return REF_UNKNOWN;
    if (known->asked || !known->followed)
        return known->offline ? REF_UNKNOWN : REF_PENDING;
    return REF_ABSENT;
}

// One that is damaged is asked for again.
static enum ref_state no_row(struct refs *r, enum ref_kind k, int rc)
{
    if (rc != E_CORRUPT)
        return absent(r, k);
    r->kinds[k].refresh = true;
    return REF_UNKNOWN;
}

static int decode(struct refs_reader *rd, enum ref_kind kind, int member, const struct json *j, struct ref_value *out, struct err *e)
{
    const char *text = json_str(j);
    bool plain = kind == REF_CONFIGMAP && member % 2 == 0;
    struct buf bytes AUTO_WIPE = BUF_INIT(VALUE_MAX);
    if (text == NULL)
        return err_set(e, E_INVAL, "a value that is no text");
    int rc = plain ? buf_adds(&bytes, text, e) : base64_decode(text, strlen(text), &bytes, e);
    char *copy = rc == 0 ? arena_alloc(rd->arena, bytes.len + 1) : NULL;
    if (rc < 0)
        return rc;
    if (copy == NULL)
        return err_set(e, E_TOOBIG, "a value of %zu bytes is too large for the memory of a pass", bytes.len);
    memcpy(copy, buf_str(&bytes), bytes.len);
    out->state = rd->gone || member >= 2 ? REF_KEPT : REF_FOUND;
    out->data = copy;
    out->len = bytes.len;
    return 0;
}

static int in_words(const struct ref *ref, int rc, struct err *e)
{
    char text[512];
    ref_text(ref, text, sizeof(text));
    return rc < 0 ? err_wrap(e, "%s", text) : 0;
}

int refs_read(struct refs_reader *rd, const struct ref *ref, struct ref_value *out, struct err *e)
{
    *out = (struct ref_value){ .state = REF_UNKNOWN };
    if (rd->refs == NULL)
        return 0;
    int rc = load(rd, ref, e);
    if (rc == E_NOTFOUND || rc == E_CORRUPT) {
        out->state = no_row(rd->refs, ref->kind, rc);
        return 0;
    }
    if (rc < 0)
        return in_words(ref, rc, e);
    out->state = absent(rd->refs, ref->kind);
    for (int i = 0; i < (int)ARRAY_LEN(ref_members); i++) {
        const struct json *j = json_get(json_get(rd->row, ref_members[i]), ref->key);
        if (j == NULL)
            continue;
        rc = decode(rd, ref->kind, i, j, out, e);
        if (rc == 0 && ref->optional && out->state == REF_KEPT)
            *out = (struct ref_value){ .state = REF_ABSENT };
        return in_words(ref, rc, e);
    }
    return 0;
}

int refs_read_all(struct refs_reader *rd, const struct ref *ref, enum ref_state *state,
                  int (*fn)(void *ctx, const char *key, const struct ref_value *v), void *ctx, struct err *e)
{
    *state = REF_UNKNOWN;
    if (rd->refs == NULL)
        return 0;
    int rc = load(rd, ref, e);
    if (rc == E_NOTFOUND || rc == E_CORRUPT) {
        *state = no_row(rd->refs, ref->kind, rc);
        return 0;
    }
    if (rc < 0)
        return in_words(ref, rc, e);
    if (json_get(rd->row, REF_WHOLE) == NULL) {
        *state = absent(rd->refs, ref->kind);
        return 0;
    }
    *state = rd->gone && ref->optional ? REF_ABSENT : rd->gone ? REF_KEPT : REF_FOUND;
    for (int i = 0; i < 2 && rc == 0 && *state != REF_ABSENT; i++)
        json_each(j, json_get(rd->row, ref_members[i]))
        {
            struct ref_value v;
            if (rc == 0)
                rc = decode(rd, ref->kind, i, j, &v, e);
            if (rc == 0)
                rc = fn(ctx, json_key(j), &v);
        }
    return in_words(ref, rc, e);
}
