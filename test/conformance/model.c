// SPDX-License-Identifier: Apache-2.0
// model — the simulator's API server on a pipe, for test/conformance.
//
// Reads one JSON object a line and answers each with one: {"do":"request","method":…,"url":…,"type":…,"accept":…,"body":…} with
// {"status":…,"content_type":…,"retry_after":…,"body":…}, and "watch":N where the answer goes on. {"do":"collect","watch":N,"ms":…} lets
// time pass until the watch has ended, or for so long, and answers with what it said and whether it ended. {"do":"pass","ms":…} only lets time
// pass. "compact", "restart", "delete-account", "restore-account" are what happens to the server. Not strict: the server has to say itself
// what is wrong. Time is the world's own: nothing here waits.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/sim/sim_server.h"

enum { WATCHES = 64, LINE_ROOM = 8 << 20 };

static struct sim sim;
static struct sim_server server;
static struct sim_stream *watches[WATCHES];

static const char *text_of(const struct json *j, const char *key)
{
    const char *s = json_str(json_get(j, key));
    return s != NULL ? s : "";
}

static int64_t number_of(const struct json *j, const char *key)
{
    int64_t v = 0;
    return json_i64(json_get(j, key), &v) ? v : 0;
}

static void say(struct json *answer)
{
    struct buf b AUTO_BUF = BUF_INIT(LINE_ROOM);
    struct err e = ERR_INIT;
    if (json_print(answer, &b, &e) < 0 || !json_ok())
        abort();
    puts(buf_str(&b));
    fflush(stdout);
    json_free(answer);
}

static int keep(struct sim_stream *st)
{
    for (int i = 0; i < WATCHES; i++)
        if (watches[i] == NULL) {
            watches[i] = st;
            return i;
        }
    abort();
}

static void request(const struct json *ask)
{
    const char *body = text_of(ask, "body"), *accept = json_str(json_get(ask, "accept"));
    struct sim_request r = { text_of(ask, "method"), text_of(ask, "url"), text_of(ask, "type"), body, strlen(body), accept };
    struct sim_answer a;
    struct json *out = json_object();
    sim_server_answer(&server, &r, &a);
    json_set_int(out, "status", a.status);
    json_set_str(out, "content_type", a.content_type);
    json_set_int(out, "retry_after", a.retry_after_s);
    json_set_str(out, "body", buf_str(&a.body));
    if (a.stream != NULL)
        json_set_int(out, "watch", keep(a.stream));
    sim_answer_fini(&a);
    say(out);
}

static void collect(const struct json *ask)
{
    int64_t until_ms = sim.now_ms + number_of(ask, "ms");
    int at = (int)number_of(ask, "watch");
    struct sim_stream *st = at >= 0 && at < WATCHES ? watches[at] : NULL;
    struct json *out = json_object();
    if (st == NULL)
        abort();
    while (!st->ended && sim_next(&sim) <= until_ms)
        sim_run_due(&sim, sim_next(&sim));
    json_set_str(out, "body", buf_str(&st->out));
    json_set_bool(out, "ended", st->ended);
    buf_reset(&st->out);
    if (st->ended) {
        sim_stream_close(st);
        watches[at] = NULL;
    } else {
        sim_run_to(&sim, until_ms);
    }
    say(out);
}

static void happen(const struct json *ask)
{
    const char *what = text_of(ask, "do");
    if (strcmp(what, "compact") == 0)
        sim_server_compact(&server);
    else if (strcmp(what, "restart") == 0)
        sim_server_restart(&server);
    else if (strcmp(what, "delete-account") == 0)
        sim_server_delete_account(&server);
    else if (strcmp(what, "restore-account") == 0)
        server.dead_token_ms = INT64_MAX;
    else if (strcmp(what, "pass") == 0)
        sim_run_to(&sim, sim.now_ms + number_of(ask, "ms"));
    else
        abort();
    say(json_object());
}

static void answer(const char *line, size_t n)
{
    struct json *ask AUTO_JSON = NULL;
    struct err e = ERR_INIT;
    if (json_parse(&ask, line, n, &e) < 0) {
        fprintf(stderr, "model: %s\n", e.msg);
        exit(2);
    }
    const char *what = text_of(ask, "do");
    if (strcmp(what, "request") == 0)
        request(ask);
    else if (strcmp(what, "collect") == 0)
        collect(ask);
    else
        happen(ask);
}

int main(void)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    sim_init(&sim, 1, false);
    sim_server_init(&server, &sim);
    server.strict = false;
    server.http_410_percent = 0;
    while ((n = getline(&line, &room, stdin)) > 0)
        answer(line, (size_t)n);
    free(line);
    for (int i = 0; i < WATCHES; i++)
        if (watches[i] != NULL)
            sim_stream_close(watches[i]);
    sim_server_fini(&server);
    return 0;
}
