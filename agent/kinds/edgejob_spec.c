// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgejob_spec.h"

#include <stdio.h>
#include <string.h>

#include "base/sha256.h"

enum { SECOND_MS = 1000, YEAR_S = 366 * 86400, BACKOFF_LIMIT = 6 };

static bool is_printable(const char *s)
{
    for (; *s != '\0'; s++)
        if (*s < ' ' || *s > '~')
            return false;
    return true;
}

static void decode_schedule(struct job_spec *s, const struct field *spec)
{
    static const struct text_rule schedule_rule = { 1, 256, is_printable, "in printable ASCII" };
    struct field f = field_get(spec, "schedule");
    struct err why = ERR_INIT;
    s->scheduled = field_present(&f);
    s->schedule = field_text(spec, "schedule", &schedule_rule, "");
    if (s->schedule[0] != '\0' && cron_parse(&s->cron, s->schedule, &why) < 0)
        field_bad(&f, "%s", why.msg);
}

static void needs_schedule(const struct job_spec *s, const struct field *spec, const char *name)
{
    struct field f = field_get(spec, name);
    if (!s->scheduled && field_present(&f))
        field_bad(&f, "needs a schedule");
}

static void decode_when(struct job_spec *s, const struct field *spec)
{
    static const struct text_rule zone_rule = { 1, 128, is_printable, "in printable ASCII" };
    char text[512], hex[SHA256_HEX];
    decode_schedule(s, spec);
    s->zone = field_text(spec, "timeZone", &zone_rule, "UTC");
    s->starting_deadline_s = field_int(spec, "startingDeadlineSeconds", 1, YEAR_S, -1);
    needs_schedule(s, spec, "timeZone");
    needs_schedule(s, spec, "startingDeadlineSeconds");
    snprintf(text, sizeof(text), "%s\n%s", s->schedule, s->zone);
    sha256_hex(text, strlen(text), hex);
    snprintf(s->when, sizeof(s->when), "%.16s", s->scheduled ? hex : "");
}

static void decode_tries(struct job_spec *s, const struct field *spec)
{
    static const char *const executions[] = { "AtLeastOnce", "AtMostOnce", NULL };
    struct field limit = field_get(spec, "backoffLimit");
    s->once = field_choice(spec, "execution", executions, 0) == 1;
    s->backoff_limit = (int)field_int(spec, "backoffLimit", 0, 1000, s->once ? 0 : BACKOFF_LIMIT);
    if (s->once && s->backoff_limit != 0)
        field_bad(&limit, "must be 0 with execution AtMostOnce");
    int64_t deadline = field_int(spec, "activeDeadlineSeconds", 1, YEAR_S, -1);
    s->active_deadline = deadline > 0 ? deadline * SECOND_MS : -1;
}

int job_spec_decode(struct job_spec *s, const struct json *spec, const char *node, struct arena *a, struct err *e)
{
    static const char *const policies[] = { "Allow", "Forbid", "Replace", NULL };
    struct decode d = { .arena = a, .err = e };
    struct field f = field_root(&d, spec, "spec"), command = field_get(&f, "command");
    *s = (struct job_spec){ 0 };
    field_require(&f);
    field_node_name(&f, node);
    decode_when(s, &f);
    decode_tries(s, &f);
    s->policy = (enum job_policy)field_choice(&f, "concurrencyPolicy", policies, JOB_ALLOW);
    s->suspend = field_bool(&f, "suspend", false);
    s->keep_succeeded = (int)field_int(&f, "successfulJobsHistoryLimit", 0, JOB_HISTORY_MAX, 3);
    s->keep_failed = (int)field_int(&f, "failedJobsHistoryLimit", 0, JOB_HISTORY_MAX, 1);
    s->output_max = (int)field_int(&f, "outputLimitBytes", 0, JOB_OUTPUT_MAX, 1024);
    process_decode(&s->process, &f);
    field_require(&command);
    return d.rc;
}
