// SPDX-License-Identifier: Apache-2.0
#include "kinds/edgejob_spec.c"

#include "kinds/edgejob_status.h"
#include "spec_rig.h"

#define JOB(fields) "{\"command\":[\"x\"]" fields "}"
#define CRON ",\"schedule\":\"* * * * *\""

static struct arena arena;
static struct job_spec spec;

static const struct verdict verdicts[] = {
    { JOB(""), NULL, 0 },
    { "{}", "spec.command: is required", 0 },
    { JOB(",\"nodeName\":\"edge-2\""), "spec.nodeName: is \"edge-2\"", 0 },
    { JOB(",\"env\":[{\"name\":\"1A\"}]"), "spec.env[0].name: must be letters", 0 },
    { JOB(CRON), NULL, 0 },
    { JOB(",\"schedule\":\"30 3 * * MON-FRI\""), NULL, 0 },
    { JOB(",\"schedule\":\"\""), "spec.schedule: must not be empty", 0 },
    { JOB(",\"schedule\":\"* * * *\""), "spec.schedule: ", 0 },
    { JOB(",\"schedule\":\"61 * * * *\""), "spec.schedule: ", 0 },
    { JOB(",\"schedule\":\"* * * *\\n*\""), "spec.schedule: must be in printable ASCII", 0 },
    { JOB(",\"schedule\":\"@\""), "spec.schedule: must have at most 256 characters", 257 },
    { JOB(",\"schedule\":5"), "spec.schedule: must be a string", 0 },
    { JOB(CRON ",\"timeZone\":\"Europe/Berlin\""), NULL, 0 },
    { JOB(CRON ",\"timeZone\":\"\""), "spec.timeZone: must not be empty", 0 },
    { JOB(CRON ",\"timeZone\":\"@\""), "spec.timeZone: must have at most 128 characters", 129 },
    { JOB(",\"timeZone\":\"UTC\""), "spec.timeZone: needs a schedule", 0 },
    { JOB(",\"startingDeadlineSeconds\":60"), "spec.startingDeadlineSeconds: needs a schedule", 0 },
    { JOB(CRON ",\"startingDeadlineSeconds\":0"), "spec.startingDeadlineSeconds: must be 1..31622400, is 0", 0 },
    { JOB(",\"concurrencyPolicy\":\"Queue\""), "spec.concurrencyPolicy: must be one of Allow, Forbid, Replace", 0 },
    { JOB(",\"suspend\":\"yes\""), "spec.suspend: must be true or false", 0 },
    { JOB(",\"suspend\":true"), NULL, 0 },
    { JOB(",\"execution\":\"ExactlyOnce\""), "spec.execution: must be one of AtLeastOnce, AtMostOnce", 0 },
    { JOB(",\"execution\":\"AtMostOnce\""), NULL, 0 },
    { JOB(",\"execution\":\"AtMostOnce\",\"backoffLimit\":0"), NULL, 0 },
    { JOB(",\"execution\":\"AtMostOnce\",\"backoffLimit\":1"), "spec.backoffLimit: must be 0 with execution AtMostOnce", 0 },
    { JOB(",\"backoffLimit\":-1"), "spec.backoffLimit: must be 0..1000", 0 },
    { JOB(",\"activeDeadlineSeconds\":0"), "spec.activeDeadlineSeconds: must be 1..31622400", 0 },
    { JOB(",\"successfulJobsHistoryLimit\":11"), "spec.successfulJobsHistoryLimit: must be 0..10", 0 },
    { JOB(",\"failedJobsHistoryLimit\":-1"), "spec.failedJobsHistoryLimit: must be 0..10", 0 },
    { JOB(",\"outputLimitBytes\":4097"), "spec.outputLimitBytes: must be 0..4096", 0 },
};

static int decode(const struct json *j, struct err *e)
{
    arena_reset(&arena);
    return job_spec_decode(&spec, j, "edge-1", &arena, e);
}

static struct job_spec decoded(const char *text)
{
    struct err e = ERR_INIT;
    static struct json *j;
    json_free(j); // the one before: its texts are borrowed
    if (json_parse(&j, text, strlen(text), &e) < 0 || decode(j, &e) < 0)
        fail("%s: %s", text, e.msg);
    return spec;
}

static void test_defaults(void)
{
    struct job_spec s = decoded(JOB(""));
    ok(!s.scheduled && !s.suspend && !s.once, "a one-shot, at least once");
    is_int(s.backoff_limit, 6, "backoffLimit is 6");
    is_int(decoded(JOB(",\"execution\":\"AtMostOnce\"")).backoff_limit, 0, "0 with AtMostOnce");
    is_int(s.policy, JOB_ALLOW, "concurrencyPolicy is Allow");
    ok(s.active_deadline == -1 && s.starting_deadline_s == -1, "no deadlines");
    ok(s.keep_succeeded == 3 && s.keep_failed == 1, "three and one are kept");
    is_int(s.output_max, 1024, "1 KiB of output");
    is_str(s.when, "", "a one-shot has no times");
    struct job_spec a = decoded(JOB(CRON)), b = decoded(JOB(CRON ",\"timeZone\":\"UTC\"")),
                    c = decoded(JOB(CRON ",\"timeZone\":\"CET-1\""));
    ok(strcmp(a.when, b.when) == 0, "UTC is the default");
    ok(strcmp(a.when, c.when) != 0, "another zone is another schedule");
    is_int(decoded(JOB(",\"schedule\":\"@every 90m\"")).cron.every_s, 5400, "@every"); // an @ in the table above means something else
    ok(decoded(JOB(",\"schedule\":\"@hourly\"")).scheduled, "@hourly");
    is_str(a.process.revision, s.process.revision, "a schedule makes no revision");
}

static const char *tail(const char *bytes, size_t max)
{
    static struct buf out;
    struct err e = ERR_INIT;
    buf_fini(&out);
    out = (struct buf)BUF_INIT(1000);
    return job_tail_text(bytes, strlen(bytes), max, &out, &e) == 0 ? buf_str(&out) : "(error)";
}

static void test_tail(void)
{
    is_str(tail("one\ntwo\n", 100), "one\ntwo\n", "output: as it is");
    is_str(tail("one\ntwo\n", 4), "two\n", "its end");
    is_str(tail("caf\303\251", 1), "", "not from the middle of a character");
    is_str(tail("caf\303\251", 2), "\303\251", "a whole one");
    is_str(tail("a\033[1mb\a\tc\r\n", 100), "a?[1mb?\tc\n", "no control characters");
    is_str(tail("\377\303", 100), "??", "what is no UTF-8 is marked");
    is_str(tail("", 100), "", "nothing");
}

static void test_names(void)
{
    char a[JOB_LOG_NAME_MAX], b[JOB_LOG_NAME_MAX], name[254];
    memset(name, 'n', 253);
    name[253] = '\0';
    job_log_name(a, "edge-a", "backup", "29384750");
    is_str(a, "edge-a_backup.29384750", "the log of a run");
    job_log_name(a, "edge-a", name, "1");
    name[252] = 'm';
    job_log_name(b, "edge-a", name, "1");
    ok(strlen(a) < JOB_LOG_NAME_MAX - 1 && strcmp(a, b) != 0, "long names fit, and are not confused");
}

int main(void)
{
    arena_init(&arena, 1 << 20);
    check_verdicts(verdicts, ARRAY_LEN(verdicts), decode);
    test_defaults();
    test_tail();
    test_names();
    arena_reset(&arena);
    return done_testing();
}
