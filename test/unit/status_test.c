// SPDX-License-Identifier: Apache-2.0
#include "flow/status.c"

#include "fake_clock.h"
#include "tap.h"

static struct fake_clock fc;
static const char *const types[] = { "Accepted", "Ready", NULL };

static struct json *parse(const char *text)
{
    struct json *j = NULL;
    struct err e = ERR_INIT;
    if (json_parse(&j, text, strlen(text), &e) < 0)
        abort();
    return j;
}

static struct status *begin(const char *prev, int64_t generation)
{
    struct status *s;
    struct err e = ERR_INIT;
    struct json *p AUTO_JSON = prev != NULL ? parse(prev) : NULL;
    if (status_new(&s, &fc.clock, p, types, generation, &e) < 0)
        abort();
    return s;
}

// Finishes into a static text; returns the hash.
static char text[8192];
static uint64_t end(struct status *s)
{
    struct buf b AUTO_BUF = BUF_INIT(sizeof(text) - 1);
    struct err e = ERR_INIT;
    uint64_t hash = 0;
    if (status_finish(s, &hash, &e) < 0 || status_print(s, &b, &e) < 0)
        abort();
    snprintf(text, sizeof(text), "%s", buf_str(&b));
    status_free(s);
    return hash;
}

static const char *member(const char *path_in_first_ready)
{
    static char out[2048];
    struct json *j AUTO_JSON = parse(text);
    out[0] = '\0';
    json_each(c, json_get(j, "conditions"))
    {
        const char *t = json_str(json_get(c, "type"));
        if (t != NULL && strcmp(t, "Ready") == 0)
            snprintf(out, sizeof(out), "%s", json_str(json_get(c, path_in_first_ready)));
    }
    return out;
}

static void transitions(void)
{
    struct status *s = begin(NULL, 1);
    fc.wall_us = INT64_C(1000000) * 1000000;
    status_cond(s, "Ready", COND_FALSE, "Starting", "not yet");
    uint64_t h1 = end(s);
    is_str(member("lastTransitionTime"), "1970-01-12T13:46:40Z", "the first value is a transition");
    char first[sizeof(text)];
    memcpy(first, text, sizeof(first));

    fc.wall_us += 60 * 1000000;
    s = begin(first, 1);
    status_cond(s, "Ready", COND_FALSE, "Starting", "not yet");
    is_int((int64_t)end(s), (int64_t)h1, "the same again: the same status, to the hash");

    s = begin(first, 1);
    status_cond(s, "Ready", COND_FALSE, "Waiting", "still not");
    ok(end(s) != h1, "another reason is another status");
    is_str(member("lastTransitionTime"), "1970-01-12T13:46:40Z", "but no transition");

    s = begin(first, 1);
    status_cond(s, "Ready", COND_TRUE, "ScaledToZero", "replicas is 0");
    status_cond(s, "Ready", COND_FALSE, "Starting", "not yet");
    is_int((int64_t)end(s), (int64_t)h1, "what a pass says and takes back is none");

    s = begin(first, 2);
    status_cond(s, "Ready", COND_TRUE, "Running", "up");
    end(s);
    is_str(member("lastTransitionTime"), "1970-01-12T13:47:40Z", "another value is a transition, when it happened");
    is_str(member("status"), "True", "and the value is there");
}

static void what_stays(void)
{
    static const char prev[] = "{\"replicas\":3,\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"Up\",\"message\":"
                               "\"m\",\"lastTransitionTime\":"
                               "\"2020-01-01T00:00:00Z\",\"observedGeneration\":4},{\"type\":\"Foreign\",\"status\":\"True\"}]}";
    struct status *s = begin(prev, 5);
    status_cond(s, "Accepted", COND_FALSE, "Invalid", "no");
    end(s);
    is_str(member("reason"), "Up", "a condition that was not set in this pass stays");
    ok(strstr(text, "\"observedGeneration\":4") != NULL, "and speaks for the generation it saw, not for this one");
    ok(strstr(text, "Foreign") == NULL, "conditions of others are not ours to repeat");
    ok(strstr(text, "replicas") == NULL, "other members that were not set are dropped");
    s = begin(prev, 5);
    status_keep_prev(s);
    end(s);
    ok(strstr(text, "\"replicas\":3") != NULL, "unless the pass could not look");
}

static void long_messages(void)
{
    char big[5000];
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    memcpy(big + MESSAGE_MAX - 4, "\xc3\xa4\xc3\xa4", 4); // a two-byte letter across the cut
    struct status *s = begin(NULL, 1);
    status_cond(s, "Ready", COND_FALSE, "Long", "%s", big);
    end(s);
    size_t n = strlen(member("message"));
    ok(n <= MESSAGE_MAX && n >= MESSAGE_MAX - 4, "a long message is bounded (%zu)", n);
    is_str(member("message") + n - 3, "...", "and says that it was cut");
    status_cond(NULL == NULL ? (s = begin(NULL, 1)) : NULL, "NotMine", COND_TRUE, "X", "y");
    end(s);
    ok(strstr(text, "NotMine") == NULL, "a type that the kind did not declare is not written");
}

static bool covered(const char *a, const char *b)
{
    struct json *x AUTO_JSON = parse(a), *y AUTO_JSON = parse(b);
    return status_covered(x, y);
}

static void coverage(void)
{
    ok(covered("{\"a\":1}", "{\"a\":1.0,\"b\":2}"), "more members on the server are not ours");
    ok(!covered("{\"a\":1}", "{\"a\":2}"), "another value differs");
    ok(!covered("{\"a\":1}", "{}"), "a missing one differs");
    ok(covered("{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}",
               "{\"conditions\":[{\"type\":\"Other\",\"status\":\"False\"},{\"status\":\"True\",\"type\":\"Ready\"}]}"),
       "conditions are compared by type, whatever the order");
    ok(!covered("{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}",
                "{\"conditions\":[{\"type\":\"Other\",\"status\":\"True\"}]}"),
       "a condition that the server lost differs");
    struct json *ours AUTO_JSON = parse("{\"a\":1}");
    ok(!status_covered(ours, NULL), "no status at all differs");
}

static void differences(void)
{
    struct json *list AUTO_JSON = json_array();
    for (int i = 0; i < 100; i++)
        difference_add(list, "/etc/x", "mode", "0644", "0600");
    is_int((int64_t)json_len(list), 64, "the list of differences is bounded");
    is_str(json_str(json_get(json_at(list, 0), "have")), "0600", "each says what is there");
}

int main(void)
{
    fake_clock_init(&fc, 1);
    fc.synced = true;
    transitions();
    what_stays();
    long_messages();
    coverage();
    differences();
    return done_testing();
}
