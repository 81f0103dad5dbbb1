// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <string.h>

#include "local/cli.h"

static int print(const struct json *j, const char *end)
{
    struct buf b AUTO_BUF = BUF_INIT(4 * 1024 * 1024);
    struct err e = ERR_INIT;
    if (json_print(j, &b, &e) < 0)
        return e.cls;
    printf("%s%s", buf_str(&b), end);
    return 0;
}

static void show_value(const struct json *v)
{
    const char *value = json_path_str(v, "value");
    bool is_list = json_type(json_get(v, "value")) == JSON_ARRAY;
    printf("%-24s %-10s ", json_path_str(v, "name"),
           is_list ? (json_len(json_get(v, "value")) > 0 ? "below" : "none") : (value[0] != '\0' ? value : "-"));
    if (strcmp(json_path_str(v, "source"), "policy") == 0)
        printf("policy %s (priority %" PRId64 ")\n", json_path_str(v, "policy"), json_path_i64(v, "priority"));
    else
        printf("%s\n", json_path_str(v, "source"));
    json_each(item, is_list ? json_get(v, "value") : NULL)
    {
        fputs("    ", stdout);
        (void)print(item, "\n");
    }
}

static int show(void *ctx, const struct json *j)
{
    const struct json *m = json_get(j, "maintenance");
    if (*(const bool *)ctx)
        return print(j, "\n");
    printf("%-24s %-10s %s\n", "VALUE", "NOW", "SET BY");
    json_each(v, json_get(j, "values")) show_value(v);
    if (json_bool(json_get(j, "metered"), false))
        puts("The link is metered now: sync.metered counts instead of sync.");
    if (json_path_i64(j, "offlineSeconds") > 0)
        printf("Offline for %" PRId64 " s.\n", json_path_i64(j, "offlineSeconds"));
    if (!json_bool(json_get(m, "windows"), false))
        puts("Maintenance: always, as no policy has a window.");
    else if (json_bool(json_get(m, "open"), false))
        printf("Maintenance: a window is open until %s.\n", json_path_str(m, "closes"));
    else
        printf("Maintenance: changes that disturb wait %s.\n", json_path_str(m, "why"));
    return 0;
}

int cli_policy(struct cli *c)
{
    struct err e = ERR_INIT;
    bool json;
    if (cli_operands(c, NULL, 0, &json) != EXIT_OK)
        return EXIT_BAD_USAGE;
    struct json *q AUTO_JSON = cli_request("policy");
    return cli_ask(c, q, show, &json, &e) < 0 ? cli_fail(&e) : EXIT_OK;
}
