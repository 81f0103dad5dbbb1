// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgejob_record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/sha256.h"
#include "data/json.h"

#define RECORD_INTENT "job"

enum { RECORD_BYTES_MAX = 64 * 1024, OWNER_HEX = 12, VERSION = 1 };

const char *const job_end_words[JOB_ENDS] = { [JOB_NO_END] = "None",
                                              [JOB_SUCCEEDED] = "Succeeded",
                                              [JOB_FAILED] = "Failed",
                                              [JOB_UNKNOWN] = "Unknown",
                                              [JOB_DEADLINE_EXCEEDED] = "DeadlineExceeded",
                                              [JOB_REPLACED] = "Replaced" };

// --- As JSON. A moment is a list: boot id, boot time, wall time, trusted.

static struct json *instant_json(const struct instant *t)
{
    struct json *j = json_array();
    json_push(j, json_string(t->boot_id));
    json_push(j, json_int(t->boot_ms));
    json_push(j, json_int(t->wall_us));
    json_push(j, json_boolean(t->trusted));
    return j;
}

static struct json *run_json(const struct job_run *r)
{
    struct json *j = json_object();
    json_set_str(j, "id", r->id);
    json_set_int(j, "scheduled", r->scheduled_s);
    json_set_str(j, "revision", r->revision);
    json_set_int(j, "attempts", r->attempts);
    json_set_bool(j, "begun", r->begun);
    json_set_bool(j, "once", r->once);
    json_set_str(j, "stop", job_end_words[r->stop]);
    json_set(j, "first", instant_json(&r->first));
    json_set(j, "since", instant_json(&r->since));
    return j;
}

static struct json *runs_json(const struct job_record *r)
{
    struct json *list = json_array();
    for (size_t i = 0; i < r->n_runs; i++)
        json_push(list, run_json(&r->runs[i]));
    return list;
}

static struct json *spans_json(const struct job_record *r)
{
    struct json *list = json_array();
    for (size_t i = 0; i < r->n_spans; i++) {
        struct json *j = json_array();
        json_push(j, json_int(r->spans[i].from));
        json_push(j, json_int(r->spans[i].to));
        json_push(list, j);
    }
    return list;
}

static struct json *kept_json(const struct job_record *r)
{
    struct json *list = json_array();
    for (size_t i = 0; i < r->n_kept; i++) {
        const struct job_kept *k = &r->kept[i];
        struct json *j = json_object();
        json_set_str(j, "id", k->id);
        if (k->timed) {
            json_set(j, "start", instant_json(&k->start));
            json_set(j, "end", instant_json(&k->end));
        }
        json_push(list, j);
    }
    return list;
}

static int record_text(const struct job_record *r, struct buf *out, struct err *e)
{
    (void)json_ok();
    AUTO_JSON struct json *j = json_object();
    json_set_int(j, "version", VERSION);
    json_set_str(j, "uid", r->uid);
    json_set_str(j, "done", r->done);
    json_set_int(j, "runsMade", r->runs_made);
    json_set_str(j, "when", r->when);
    json_set_int(j, "since", r->since_s);
    json_set(j, "spans", spans_json(r));
    json_set_int(j, "lastScheduled", r->last_scheduled_s);
    json_set_int(j, "lastSuccess", r->last_success_s);
    json_set_int(j, "succeeded", r->succeeded);
    json_set_int(j, "failed", r->failed);
    json_set_int(j, "skipped", r->skipped);
    json_set_int(j, "missed", r->missed);
    json_set_str(j, "lastEnd", job_end_words[r->last_end]);
    json_set_str(j, "lastText", r->last_text);
    json_set(j, "runs", runs_json(r));
    json_set(j, "kept", kept_json(r));
    if (!json_ok())
        return err_set(e, E_NOMEM, "record of a job");
    return json_print(j, out, e);
}

// --- And back. Whatever is not as it was written makes the whole record unreadable: half of one would repeat or forget something.

struct reader {
    bool bad;
};

static void read_text(struct reader *r, const struct json *j, const char *name, char *out, size_t max)
{
    const char *s = json_str(json_get(j, name));
    r->bad = r->bad || s == NULL || strlen(s) >= max;
    snprintf(out, max, "%s", s != NULL ? s : "");
}

static int64_t read_int(struct reader *r, const struct json *j)
{
    int64_t v = 0;
    r->bad = r->bad || !json_i64(j, &v);
    return v;
}

static int64_t read_count(struct reader *r, const struct json *j, const char *name)
{
    int64_t v = read_int(r, json_get(j, name));
    r->bad = r->bad || v < 0;
    return v;
}

static enum job_end read_end(struct reader *r, const struct json *j)
{
    const char *s = json_str(j);
    for (int i = 0; s != NULL && i < JOB_ENDS; i++)
        if (strcmp(s, job_end_words[i]) == 0)
            return (enum job_end)i;
    r->bad = true;
    return JOB_NO_END;
}

static void read_instant(struct reader *r, const struct json *j, struct instant *out)
{
    const char *boot = json_str(json_at(j, 0));
    r->bad = r->bad || boot == NULL || strlen(boot) >= sizeof(out->boot_id);
    snprintf(out->boot_id, sizeof(out->boot_id), "%s", boot != NULL ? boot : "");
    out->boot_ms = read_int(r, json_at(j, 1));
    out->wall_us = read_int(r, json_at(j, 2));
    out->trusted = json_bool(json_at(j, 3), false);
}

static void read_run(struct reader *r, const struct json *j, struct job_run *out)
{
    read_text(r, j, "id", out->id, sizeof(out->id));
    read_text(r, j, "revision", out->revision, sizeof(out->revision));
    out->scheduled_s = read_count(r, j, "scheduled");
    out->attempts = (int)MIN(read_count(r, j, "attempts"), (int64_t)INT32_MAX);
    out->begun = json_bool(json_get(j, "begun"), true);
    out->once = json_bool(json_get(j, "once"), true);
    out->stop = read_end(r, json_get(j, "stop"));
    read_instant(r, json_get(j, "first"), &out->first);
    read_instant(r, json_get(j, "since"), &out->since);
}

static void read_kept(struct reader *r, const struct json *j, struct job_kept *out)
{
    read_text(r, j, "id", out->id, sizeof(out->id));
    out->timed = json_get(j, "start") != NULL;
    if (!out->timed)
        return;
    read_instant(r, json_get(j, "start"), &out->start);
    read_instant(r, json_get(j, "end"), &out->end);
}

static void read_lists(struct reader *r, const struct json *j, struct job_record *out)
{
    const struct json *runs = json_get(j, "runs"), *kept = json_get(j, "kept"), *spans = json_get(j, "spans");
    if (json_len(runs) > JOB_RUNS_MAX || json_len(kept) > JOB_KEPT_MAX || json_len(spans) > JOB_SPANS_MAX) {
        r->bad = true;
        return;
    }
    json_each(i, runs) read_run(r, i, &out->runs[out->n_runs++]);
    json_each(i, kept) read_kept(r, i, &out->kept[out->n_kept++]);
    json_each(i, spans)
    {
        struct job_span *s = &out->spans[out->n_spans++];
        s->from = read_int(r, json_at(i, 0));
        s->to = read_int(r, json_at(i, 1));
    }
}

static bool read_record(const struct json *j, struct job_record *out)
{
    struct reader r = { .bad = json_type(j) != JSON_OBJECT || read_count(&(struct reader){ 0 }, j, "version") != VERSION };
    *out = (struct job_record){ 0 };
    read_text(&r, j, "uid", out->uid, sizeof(out->uid));
    read_text(&r, j, "done", out->done, sizeof(out->done));
    read_text(&r, j, "when", out->when, sizeof(out->when));
    read_text(&r, j, "lastText", out->last_text, sizeof(out->last_text));
    out->runs_made = read_count(&r, j, "runsMade");
    out->since_s = read_count(&r, j, "since");
    out->last_scheduled_s = read_count(&r, j, "lastScheduled");
    out->last_success_s = read_count(&r, j, "lastSuccess");
    out->succeeded = read_count(&r, j, "succeeded");
    out->failed = read_count(&r, j, "failed");
    out->skipped = read_count(&r, j, "skipped");
    out->missed = read_count(&r, j, "missed");
    out->last_end = read_end(&r, json_get(j, "lastEnd"));
    read_lists(&r, j, out);
    return !r.bad;
}

int job_record_load(struct db *db, const char *key, struct job_record *out, struct err *e)
{
    AUTO_JSON struct json *j = NULL;
    struct buf text AUTO_BUF = BUF_INIT(RECORD_BYTES_MAX);
    int rc = intent_get(db, key, RECORD_INTENT, &text, e);
    if (rc < 0)
        return rc;
    if (json_parse(&j, buf_str(&text), text.len, NULL) == 0 && read_record(j, out))
        return 0;
    return err_set(e, E_CORRUPT, "the record of %s cannot be read", key);
}

int job_record_save(struct db *db, const char *key, const struct job_record *r, struct err *e)
{
    struct buf text AUTO_BUF = BUF_INIT(RECORD_BYTES_MAX);
    int rc = record_text(r, &text, e);
    return rc == 0 ? intent_put(db, key, RECORD_INTENT, buf_str(&text), e) : rc;
}

// --- Runs

struct job_run *job_record_run(struct job_record *r, const char *id)
{
    for (size_t i = 0; i < r->n_runs; i++)
        if (strcmp(r->runs[i].id, id) == 0)
            return &r->runs[i];
    return NULL;
}

void job_record_drop(struct job_record *r, const struct job_run *run)
{
    size_t at = (size_t)(run - r->runs);
    r->n_runs--;
    memmove(&r->runs[at], &r->runs[at + 1], (r->n_runs - at) * sizeof(r->runs[0]));
}

void job_record_keep(struct job_record *r, const char *id, const struct instant *start, const struct instant *end)
{
    if (r->n_kept == JOB_KEPT_MAX)
        memmove(&r->kept[0], &r->kept[1], --r->n_kept * sizeof(r->kept[0]));
    struct job_kept *k = &r->kept[r->n_kept++];
    *k = (struct job_kept){ .timed = !start->trusted || !end->trusted, .start = *start, .end = *end };
    snprintf(k->id, sizeof(k->id), "%s", id);
}

// --- Names of instances

static void owner_hex(char out[OWNER_HEX + 1], const char *key, const char *obj_uid)
{
    char text[KEY_MAX + OBJ_UID_MAX], hex[SHA256_HEX];
    snprintf(text, sizeof(text), "%s\n%s", key, obj_uid);
    sha256_hex(text, strlen(text), hex);
    snprintf(out, OWNER_HEX + 1, "%.12s", hex);
}

void job_inst_uid(char out[INST_UID_MAX], const char *key, const char *obj_uid, const struct job_run *run)
{
    char owner[OWNER_HEX + 1];
    owner_hex(owner, key, obj_uid);
    snprintf(out, INST_UID_MAX, "%s-%s-%d", owner, run->id, run->attempts);
}

// "29384750" is a minute since 1970, "1764518400s" a second.
static int64_t instant_of_id(const char *id)
{
    char digits[JOB_ID_MAX];
    int64_t v;
    size_t n = strspn(id, "0123456789");
    bool seconds = id[n] == 's' && id[n + 1] == '\0';
    if (n == 0 || (id[n] != '\0' && !seconds))
        return 0;
    snprintf(digits, sizeof(digits), "%.*s", (int)n, id);
    return num_i64(digits, 0, INT64_MAX / 60, &v, NULL) == 0 ? v * (seconds ? 1 : 60) : 0;
}

bool job_inst_parse(const char *inst_uid, const char *key, const char *obj_uid, struct job_run *out)
{
    char owner[OWNER_HEX + 1];
    int64_t attempt;
    owner_hex(owner, key, obj_uid);
    const char *last = strrchr(inst_uid, '-');
    if (strncmp(inst_uid, owner, OWNER_HEX) != 0 || inst_uid[OWNER_HEX] != '-' || last <= inst_uid + OWNER_HEX + 1)
        return false;
    const char *id = inst_uid + OWNER_HEX + 1;
    if ((size_t)(last - id) >= JOB_ID_MAX || num_i64(last + 1, 1, INT32_MAX, &attempt, NULL) < 0)
        return false;
    *out = (struct job_run){ .attempts = (int)attempt, .begun = true };
    snprintf(out->id, sizeof(out->id), "%.*s", (int)(last - id), id);
    out->scheduled_s = instant_of_id(out->id);
    return true;
}
