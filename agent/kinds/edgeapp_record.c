// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgeapp_record.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/utf8.h"

#define RECORD "rollout" // intents: the record, and the spec it speaks of
#define SPEC "good-spec"

enum { RECORD_MAX = 16 * 1024 };

// --- The record as JSON

static struct json *failed_json(const struct app_failed *f)
{
    char at[RFC3339_MAX];
    struct json *j = json_object();
    json_set_str(j, "revision", f->revision);
    json_set_str(j, "message", f->why);
    json_set_str(j, "at", rfc3339_sec(f->at_us, at));
    return j;
}

static int store_record(const struct app_record *r, const struct pass *p, struct err *e)
{
    struct buf text AUTO_BUF = BUF_INIT(RECORD_MAX);
    (void)json_ok();
    struct json *j AUTO_JSON = json_object(), *list = json_array();
    json_set_str(j, "good", r->good);
    json_set_str(j, "uid", r->uid);
    json_set_int(j, "generation", r->generation);
    for (size_t i = 0; i < r->n_failed; i++)
        json_push(list, failed_json(&r->failed[i]));
    json_set(j, "failed", list);
    if (!json_ok())
        return err_set(e, E_NOMEM, "record of the rollout");
    int rc = json_print(j, &text, e);
    return rc < 0 ? rc : intent_put(p->env->db, p->key, RECORD, buf_str(&text), e);
}

static void copy(char *out, size_t max, const struct json *j)
{
    const char *s = json_str(j);
    snprintf(out, max, "%s", s != NULL && strlen(s) < max ? s : "");
}

static void load_failed(struct app_failed *f, const struct json *j)
{
    const char *at = json_str(json_get(j, "at"));
    copy(f->revision, sizeof(f->revision), json_get(j, "revision"));
    copy(f->why, sizeof(f->why), json_get(j, "message"));
    if (at == NULL || !rfc3339_parse(at, &f->at_us))
        f->at_us = 0;
}

int app_record_load(struct app_record *r, const struct pass *p, struct err *e)
{
    struct buf text AUTO_BUF = BUF_INIT(RECORD_MAX);
    struct json *j AUTO_JSON = NULL;
    *r = (struct app_record){ 0 };
    int rc = intent_get(p->env->db, p->key, RECORD, &text, e);
    if (rc == E_NOTFOUND)
        return 0;
    if (rc == 0)
        rc = json_parse(&j, buf_str(&text), text.len, e);
    if (rc == E_CORRUPT || rc == E_INVAL) {
        log_warn("edgeapp", "record-damaged key=%s error=\"%s\"", p->key, e->msg);
        return 0;
    }
    if (rc < 0)
        return rc;
    copy(r->good, sizeof(r->good), json_get(j, "good"));
    copy(r->uid, sizeof(r->uid), json_get(j, "uid"));
    if (!json_i64(json_get(j, "generation"), &r->generation))
        r->generation = 0;
    if (strcmp(r->uid, p->uid) != 0) { // of an object of that name that is gone
        *r = (struct app_record){ 0 };
        return 0;
    }
    json_each(f, json_get(j, "failed")) if (r->n_failed < APP_FAILED_MAX) load_failed(&r->failed[r->n_failed++], f);
    return 0;
}

const struct app_failed *app_record_failed(const struct app_record *r, const char *revision)
{
    for (size_t i = 0; i < r->n_failed; i++)
        if (strcmp(r->failed[i].revision, revision) == 0)
            return &r->failed[i];
    return NULL;
}

int app_record_spec(const struct pass *p, struct json **out, struct err *e)
{
    struct buf text AUTO_BUF = BUF_INIT(OBJ_MAX);
    int rc = intent_get(p->env->db, p->key, SPEC, &text, e);
    return rc < 0 ? rc : json_parse(out, buf_str(&text), text.len, e);
}

static void forgive(struct app_record *r, const char *revision)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->n_failed; i++)
        if (strcmp(r->failed[i].revision, revision) != 0)
            r->failed[kept++] = r->failed[i];
    r->n_failed = kept;
}

int app_record_good(struct app_record *r, const struct pass *p, const char *revision, struct err *e)
{
    struct buf text AUTO_BUF = BUF_INIT(OBJ_MAX);
    if (strcmp(r->good, revision) == 0 && r->generation == p->generation && strcmp(r->uid, p->uid) == 0)
        return 0;
    int rc = json_print(p->spec, &text, e);
    if (rc == 0)
        rc = intent_put(p->env->db, p->key, SPEC, buf_str(&text), e);
    snprintf(r->good, sizeof(r->good), "%s", revision);
    snprintf(r->uid, sizeof(r->uid), "%s", p->uid);
    r->generation = p->generation;
    forgive(r, revision);
    return rc < 0 ? rc : store_record(r, p, e);
}

int app_record_fail(struct app_record *r, const struct pass *p, const char *revision, const char *why, int64_t at_us, struct err *e)
{
    if (r->n_failed == APP_FAILED_MAX)
        memmove(&r->failed[0], &r->failed[1], --r->n_failed * sizeof(r->failed[0]));
    struct app_failed *f = &r->failed[r->n_failed++];
    snprintf(f->revision, sizeof(f->revision), "%s", revision);
    snprintf(f->why, sizeof(f->why), "%.*s", (int)utf8_cut(why, MIN(strlen(why), sizeof(f->why) - 1)), why);
    f->at_us = at_us;
    snprintf(r->uid, sizeof(r->uid), "%s", p->uid);
    return store_record(r, p, e);
}
