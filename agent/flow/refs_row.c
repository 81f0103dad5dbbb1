// SPDX-License-Identifier: Apache-2.0
//
// A row of a Secret or ConfigMap is the object without what nobody refers to:
//   {"metadata":{...},"whole":true,"data":{KEY:..},"binaryData":{..},"keptData":{..},"keptBinaryData":{..}}
// "whole" when somebody refers to all of it. The values stand as they came. What is kept was in the row before, is in the object no more, and somebody cannot do without it. A row
// without a source is the last state of an object that is gone.
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "data/object.h"
#include "flow/refs_priv.h"
#include "kinds/kind.h"

const char *const ref_members[4] = { "data", "binaryData", "keptData", "keptBinaryData" };

enum { LIVE_MEMBERS = 2 };

static bool is_needed(const struct want *w)
{
    list_each(n, &w->uses)
        if (container_of(n, struct use, of_want)->needed)
            return true;
    return false;
}

struct text {
    const char *json;
    size_t len;
};

// A member of `out`: the values of those keys that are wanted of member `from`.
struct part {
    struct buf *out;
    size_t n; // values so far
};

static int add_value(struct part *p, const char *key, struct span value, struct err *e)
{
    int rc = p->n++ > 0 ? buf_adds(p->out, ",", e) : 0;
    if (rc == 0)
        rc = json_quote(p->out, key, strlen(key), e);
    if (rc == 0)
        rc = buf_adds(p->out, ":", e);
    return rc == 0 ? buf_add(p->out, value.p, value.n, e) : rc;
}

static bool has_key(const struct text *t, const char *key)
{
    struct span sp;
    for (int i = 0; i < LIVE_MEMBERS; i++)
        if (object_member(t->json, t->len, ref_members[i], key, &sp))
            return true;
    return false;
}

// The object's own: all of it when somebody refers to the whole.
static int add_wanted(struct part *p, const struct target *t, const struct text *from, const char *member, struct err *e)
{
    struct span sp;
    int rc = 0;
    if (target_want(t, WANT_ALL) != NULL) {
        bool there = object_member(from->json, from->len, NULL, member, &sp) && sp.n > 2 && sp.p[0] == '{';
        return there ? buf_add(p->out, sp.p + 1, sp.n - 2, e) : 0;
    }
    list_each(n, &t->wants) {
        const struct want *w = container_of(n, struct want, link);
        if (rc == 0 && object_member(from->json, from->len, member, w->key, &sp))
            rc = add_value(p, w->key, sp, e);
    }
    return rc;
}

// From the row as it was: what is gone from the object, be it since now or for longer.
static int add_kept(struct part *p, const struct target *t, const struct text *from, const struct text *row, int member, struct err *e)
{
    struct span sp;
    int rc = 0;
    list_each(n, &t->wants) {
        const struct want *w = container_of(n, struct want, link);
        if (rc != 0 || !is_needed(w) || has_key(from, w->key))
            continue;
        if (object_member(row->json, row->len, ref_members[member], w->key, &sp) ||
            object_member(row->json, row->len, ref_members[member - LIVE_MEMBERS], w->key, &sp))
            rc = add_value(p, w->key, sp, e);
    }
    return rc;
}

// Does what will be in the row tell all keys that there are? Not when it is made from a row that held some of them.
static bool is_whole(const struct target *t, const struct text *from, const struct text *row)
{
    struct span sp;
    return target_want(t, WANT_ALL) != NULL && (from != row || object_member(row->json, row->len, NULL, REF_WHOLE, &sp));
}

static int add_members(struct buf *out, const struct target *t, const struct text *from, const struct text *row, struct err *e)
{
    int rc = is_whole(t, from, row) ? buf_adds(out, ",\"" REF_WHOLE "\":true", e) : 0;
    for (int i = 0; i < (int)ARRAY_LEN(ref_members) && rc == 0; i++) {
        struct part p = { out, 0 };
        rc = buf_addf(out, e, ",\"%s\":{", ref_members[i]);
        if (rc == 0)
            rc = i < LIVE_MEMBERS ? add_wanted(&p, t, from, ref_members[i], e) : add_kept(&p, t, from, row, i, e);
        if (rc == 0)
            rc = buf_adds(out, "}", e);
    }
    return rc;
}

static int add_head(struct buf *out, const struct object_view *v, struct err *e)
{
    // Names, uids and resourceVersions hold nothing that has to be escaped, the scanner's bounds hold them.
    return buf_addf(out, e, "{\"metadata\":{\"name\":\"%s\",\"namespace\":\"%s\",\"uid\":\"%s\",\"resourceVersion\":\"%s\"}", v->name,
                    v->ns, v->uid, v->rv);
}

static int reduce(const struct target *t, const struct text *from, const struct text *row, struct buf *out, struct err *e)
{
    struct object_view v;
    int rc = object_scan(&v, from->json, from->len, e);
    if (rc == 0)
        rc = add_head(out, &v, e);
    if (rc == 0)
        rc = add_members(out, t, from, row, e);
    return rc == 0 ? buf_adds(out, "}", e) : rc;
}

int refs_reduce(struct refs *r, const char *key, const char *json, size_t len, struct buf *out, struct err *e)
{
    struct cached row AUTO_CACHED = CACHED_INIT;
    const struct target *t = refs_target(r, key);
    if (t == NULL || list_empty(&t->wants))
        return 0;
    bool known = cache_get(r->cache, key, &row, NULL) == 0;
    struct text was = { known ? buf_str(&row.json) : "{}", known ? row.json.len : 2 };
    return reduce(t, &(struct text){ json, len }, &was, out, e);
}

// From the row itself. Its source stays: what is gone stays gone.
static int rewrite(struct refs *r, const struct target *t, const struct cached *row, struct err *e)
{
    struct buf out AUTO_WIPE = BUF_INIT(OBJ_MAX);
    struct text was = { buf_str(&row->json), row->json.len };
    struct object_view v;
    int rc = reduce(t, &was, &was, &out, e);
    if (rc == 0)
        rc = object_scan(&v, out.data, out.len, e);
    if (rc == 0)
        rc = cache_put(r->cache, row->source, row->key, &v, out.data, out.len, e);
    return MIN(rc, 0);
}

int refs_row_shrink(struct refs *r, const char *key, struct err *e)
{
    struct cached row AUTO_CACHED = CACHED_INIT;
    const struct target *t = refs_target(r, key);
    if (t == NULL || list_empty(&t->wants))
        return cache_delete(r->cache, key, e);
    int rc = cache_get(r->cache, key, &row, e);
    if (rc == E_NOTFOUND || rc == E_CORRUPT)
        return 0; // nothing there, or the next list writes it anew
    return rc == 0 ? rewrite(r, t, &row, e) : rc;
}

static int settle_row(void *ctx, const char *key)
{
    struct refs *r = ctx;
    struct err e = ERR_INIT;
    if (strncmp(key, "secrets/", 8) != 0 && strncmp(key, "configmaps/", 11) != 0)
        return 0;
    if (refs_row_shrink(r, key, &e) < 0)
        log_error("refs", "not-reduced key=%s error=\"%s\"", key, e.msg);
    return 0;
}

void refs_rows_settle(struct refs *r)
{
    struct err e = ERR_INIT;
    if (cache_each_key(r->cache, NULL, settle_row, r, &e) < 0)
        log_error("refs", "not-settled error=\"%s\"", e.msg);
}
