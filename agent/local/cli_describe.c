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
    const char *object[] = { NULL, NULL }; // kind, name
    struct describe_view v = { .cli = c };
    struct err e = ERR_INIT;
    if (cli_operands(c, object, ARRAY_LEN(object), &v.json) != EXIT_OK)
        return EXIT_BAD_USAGE;
    if (object[1] == NULL)
        return cli_usage(c, "describe needs KIND and NAME");
    struct json *q AUTO_JSON = cli_request("describe");
    json_set_str(q, "kind", object[0]);
    json_set_str(q, "name", object[1]);
    return cli_ask(c, q, show, &v, &e) < 0 ? cli_fail(&e) : EXIT_OK;
}
