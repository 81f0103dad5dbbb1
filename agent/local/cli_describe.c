// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "local/cli.h"
#include "local/describe.h"

enum { PAGE_MAX = 16 * 1024 * 1024 };

struct describe_view {
    const struct cli *cli;
    bool json;
};

static int show(void *ctx, const struct json *answer)
{
    struct describe_view *v = ctx;
    struct buf out AUTO_BUF = BUF_INIT(PAGE_MAX);
    struct clock clock = v->cli->clock;
    int rc = v->json ? json_print(answer, &out, NULL) : describe_print(answer, clock_wall_us(&clock), &out, NULL);
    if (rc < 0)
        return rc;
    fputs(buf_str(&out), stdout);
    if (v->json)
        putchar('\n');
    return 0;
}

int cli_describe(struct cli *c)
{
    const char *kind = NULL, *name = NULL;
    struct describe_view v = { .cli = c };
    struct err e = ERR_INIT;
    for (int i = 1; i < c->argc; i++) {
        bool missing;
        const char *o = cli_value(c, &i, "-o", &missing);
        if (missing || (o != NULL && strcmp(o, "json") != 0))
            return cli_usage(c, "-o takes json");
        v.json = v.json || o != NULL;
        if (o != NULL)
            continue;
        if (c->argv[i][0] == '-' || name != NULL)
            return cli_usage(c, "unknown argument %s", c->argv[i]);
        *(kind == NULL ? &kind : &name) = c->argv[i];
    }
    if (name == NULL)
        return cli_usage(c, "describe needs KIND and NAME");
    struct json *q AUTO_JSON = cli_request("describe");
    json_set_str(q, "kind", kind);
    json_set_str(q, "name", name);
    return cli_ask(c, q, show, &v, &e) < 0 ? cli_fail(&e) : EXIT_OK;
}
