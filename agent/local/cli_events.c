// SPDX-License-Identifier: Apache-2.0
// limpet events: laid out as `kubectl get events` does, and it tells the same.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "local/cli.h"
#include "local/columns.h"
#include "local/describe.h"

enum { TEXT_MAX = 8 * 1024 * 1024 };

struct events_view {
    const struct cli *cli;
    bool json;
    struct buf rows;
};

static int add_row(struct events_view *v, const struct json *ev, struct err *e)
{
    char kind[64], age[32];
    struct clock clock = v->cli->clock;
    int64_t last_us = 0, count = json_path_i64(ev, "count");
    ascii_lower(json_path_str(ev, "kind"), kind, sizeof(kind));
    (void)rfc3339_parse(json_path_str(ev, "last"), &last_us);
    // A row is a line, so a note ends where its first line does.
    const char *note = json_path_str(ev, "note");
    size_t line = strcspn(note, "\n");
    int rc = buf_addf(&v->rows, e, "%s\t%s\t%s\t%s/%s\t%.*s%s", age_text((clock_wall_us(&clock) - last_us) / 1000000, age),
                      json_bool(json_get(ev, "warning"), false) ? "Warning" : "Normal", json_path_str(ev, "reason"), kind,
                      json_path_str(ev, "name"), (int)line, note, note[line] != '\0' ? "..." : "");
    if (rc == 0 && count > 1)
        rc = buf_addf(&v->rows, e, " (%" PRId64 " times)", count);
    if (rc == 0)
        rc = buf_adds(&v->rows, json_bool(json_get(ev, "pending"), false) ? " [not sent yet]\n" : "\n", e);
    return rc;
}

static int show(void *ctx, const struct json *ev)
{
    struct events_view *v = ctx;
    struct err e = ERR_INIT;
    struct buf line AUTO_BUF = BUF_INIT(64 * 1024);
    if (!v->json)
        return add_row(v, ev, &e);
    int rc = json_print(ev, &line, &e);
    if (rc == 0)
        puts(buf_str(&line));
    return rc;
}

static int print_rows(struct events_view *v, struct err *e)
{
    static const char head[] = "LAST SEEN\tTYPE\tREASON\tOBJECT\tMESSAGE\n";
    struct buf all AUTO_BUF = BUF_INIT(TEXT_MAX), out AUTO_BUF = BUF_INIT(2 * TEXT_MAX);
    if (v->json)
        return 0;
    if (v->rows.len == 0) {
        puts("nothing has happened, as far as it is kept");
        return 0;
    }
    int rc = buf_adds(&all, head, e);
    if (rc == 0)
        rc = buf_adds(&all, buf_str(&v->rows), e);
    if (rc == 0)
        rc = columns_print(buf_str(&all), &out, e);
    if (rc == 0)
        fputs(buf_str(&out), stdout);
    return rc;
}

int cli_events(struct cli *c)
{
    const char *object[] = { NULL, NULL }; // kind, name
    struct events_view v = { .cli = c, .rows = BUF_INIT(TEXT_MAX) };
    struct err e = ERR_INIT;
    if (cli_operands(c, object, ARRAY_LEN(object), &v.json) != EXIT_OK)
        return EXIT_BAD_USAGE;
    struct json *q AUTO_JSON = cli_request("events");
    if (object[0] != NULL)
        json_set_str(q, "kind", object[0]);
    if (object[1] != NULL)
        json_set_str(q, "name", object[1]);
    int rc = cli_ask(c, q, show, &v, &e);
    if (rc == 0)
        rc = print_rows(&v, &e);
    buf_fini(&v.rows);
    return rc < 0 ? cli_fail(&e) : EXIT_OK;
}
