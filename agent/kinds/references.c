// SPDX-License-Identifier: Apache-2.0
#include "kinds/references.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "flow/status.h"
#include "kinds/kind.h"

// --- The fields

static bool is_key_name(const char *s)
{
    return s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._")] == '\0';
}

void ref_decode_whole(struct ref *r, const struct field *f, const char *name, enum ref_kind kind)
{
    struct field ref = field_get(f, name), n = field_get(&ref, "name");
    if (!field_present(&ref))
        return;
    field_require(&n);
    r->kind = kind;
    r->name = field_text(&ref, "name", &text_object_name, "");
    r->key = NULL;
    r->optional = field_bool(&ref, "optional", false);
}

static void decode_key_of(struct ref *r, const struct field *f, const char *name, enum ref_kind kind)
{
    static const struct text_rule key_rule = { 1, 253, is_key_name, "letters, digits, dots, dashes and underscores" };
    struct field ref = field_get(f, name), key = field_get(&ref, "key");
    if (!field_present(&ref))
        return;
    ref_decode_whole(r, f, name, kind);
    field_require(&key);
    r->key = field_text(&ref, "key", &key_rule, "");
}

void ref_decode_key(struct ref *r, const struct field *f)
{
    struct field secret = field_get(f, "secretKeyRef"), map = field_get(f, "configMapKeyRef");
    if (field_present(&secret) + field_present(&map) != 1) {
        field_bad(f, "give exactly one of secretKeyRef and configMapKeyRef");
        return;
    }
    decode_key_of(r, f, "secretKeyRef", REF_SECRET);
    decode_key_of(r, f, "configMapKeyRef", REF_CONFIGMAP);
}

// --- What was found

static void say(struct references *x, bool missing, const char *reason, const struct ref *ref, const char *what)
{
    char text[160];
    if (x->reason != NULL && (x->missing || !missing))
        return;
    ref_text(ref, text, sizeof(text));
    x->reason = reason;
    size_t room = sizeof(x->why) - sizeof(text) - 2;
    snprintf(x->why, sizeof(x->why), "%s: %.*s", text, (int)utf8_cut(what, MIN(strlen(what), room)), what);
    x->missing |= missing;
}

bool references_note(struct references *x, const struct refs *refs, const struct ref *ref, enum ref_state state)
{
    const struct err *trouble = refs_trouble(refs, ref->kind);
    const char *reason = trouble != NULL && trouble->cls == E_FORBIDDEN ? "Forbidden" : "NotReadable";
    char text[200];
    x->n++;
    switch (state) {
    case REF_FOUND:
        snprintf(text, sizeof(text), "its last known value is used: %.160s", trouble != NULL ? trouble->msg : "");
        if (trouble != NULL)
            say(x, false, reason, ref, text);
        return true;
    case REF_KEPT:
        say(x, false, "Gone", ref, "gone; its last value is used");
        return true;
    case REF_PENDING:
        say(x, true, "Pending", ref, "the server is being asked for it");
        return false;
    case REF_ABSENT:
        if (!ref->optional)
            say(x, true, "NotFound", ref, "not found");
        return false;
    case REF_UNKNOWN:
        break;
    }
    if (trouble != NULL)
        say(x, !ref->optional, reason, ref, trouble->msg);
    else if (!ref->optional)
        say(x, true, "Unknown", ref, "the server could not be asked for it yet");
    return false;
}

void references_unfit(struct references *x, const struct ref *ref, const char *what)
{
    say(x, true, "Unfit", ref, what);
}

void references_condition(const struct references *x, struct status *s)
{
    if (x->n == 0)
        status_cond_drop(s, "ResolvedRefs");
    else if (x->reason == NULL)
        status_cond(s, "ResolvedRefs", COND_TRUE, "Resolved", "all that is referred to is there");
    else
        status_cond(s, "ResolvedRefs", COND_FALSE, x->reason, "%s", x->why);
}
