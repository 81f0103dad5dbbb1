// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/num.h"
#include "kinds/edgeapp_spec.h"
#include "local/cli.h"
#include "port/port.h"
#include "wire/base64.h"

static int print_json(void *ctx, const struct json *line)
{
    struct buf b AUTO_BUF = BUF_INIT(8 * 1024 * 1024);
    struct err e = ERR_INIT;
    (void)ctx;
    if (json_print(line, &b, &e) < 0)
        return e.cls;
    puts(buf_str(&b));
    return 0;
}

static const char *age(int64_t sec, char out[32])
{
    if (sec < 120)
        snprintf(out, 32, "%" PRId64 "s", sec);
    else if (sec < 7200)
        snprintf(out, 32, "%" PRId64 "m", sec / 60);
    else if (sec < 172800)
        snprintf(out, 32, "%" PRId64 "h", sec / 3600);
    else
        snprintf(out, 32, "%" PRId64 "d", sec / 86400);
    return out;
}

// Output format of "-o WORD"; -1 = a usage error was printed.
static int output_of(struct cli *c, const char *const *words, int *i)
{
    bool missing;
    const char *v = cli_value(c, i, "-o", &missing);
    for (int k = 0; v != NULL && words[k] != NULL; k++)
        if (strcmp(words[k], v) == 0)
            return k + 1;
    if (v != NULL || missing) {
        cli_usage(c, "-o takes %s%s%s", words[0], words[1] != NULL ? " or " : "", words[1] != NULL ? words[1] : "");
        return -1;
    }
    return 0;
}

// status

struct status_view {
    bool json;
    int code;
};

static void show_credential(const struct json *j)
{
    const char *expires = json_path_str(j, "expires"), *remedy = json_path_str(j, "remedy");
    bool expired = json_bool(json_get(j, "expired"), false);
    if (expires[0] != '\0')
        printf("credential %s %s\n", expired ? "expired at" : "good until", expires);
    const char *kind = json_path_str(j, "kind"), *request = json_path_str(j, "request");
    if (kind[0] != '\0')
        printf("in use     %s of %s\n", kind, json_path_str(j, "user"));
    if (request[0] != '\0')
        printf("request    %s: %s\n", request, json_path_str(j, "requestMessage"));
    if (remedy[0] != '\0')
        printf("remedy     everything goes on; %s\n", remedy);
}

static int show_status(void *ctx, const struct json *j)
{
    struct status_view *v = ctx;
    char since[32];
    const char *state = json_path_str(j, "link.state");
    v->code = strcmp(state, "Online") == 0 ? EXIT_OK : EXIT_FAIL;
    if (v->json)
        return print_json(NULL, j);
    printf("node       %s (namespace %s)\n", json_path_str(j, "node"), json_path_str(j, "namespace"));
    printf("version    %s\n", json_path_str(j, "version"));
    printf("server     %s\n",
           json_path_str(j, "server")[0] != '\0' ? json_path_str(j, "server") : "none: not enrolled, running from the cache");
    printf("link       %s for %s: %s\n", state, age(json_path_i64(j, "link.sinceSeconds"), since), json_path_str(j, "link.why"));
    show_credential(json_get(j, "credential"));
    if (json_path_str(j, "link.held")[0] != '\0')
        printf("held       deletes wait: %s; `limpet resync --accept` lets them through\n", json_path_str(j, "link.held"));
    json_each(s, json_path(j, "link.sources")) printf("source     %s: %s%s%s\n", json_path_str(s, "source"), json_path_str(s, "state"),
                                                      json_path_str(s, "error")[0] != '\0' ? ": " : "", json_path_str(s, "error"));
    printf("lease      %s\n", json_path_str(j, "lease"));
    printf("clock      %s\n", json_bool(json_get(j, "clockTrusted"), false) ? "trusted" : "not trusted");
    printf("objects    %" PRId64 ", %" PRId64 " of them at work\n", json_path_i64(j, "engine.objects"), json_path_i64(j, "engine.waiting"));
    printf("outbox     %" PRId64 " statuses, %" PRId64 " events to send", json_path_i64(j, "outbox.statusPending"),
           json_path_i64(j, "outbox.eventsPending"));
    if (json_path_str(j, "outbox.oldest")[0] != '\0')
        printf(", oldest of %s", json_path_str(j, "outbox.oldest"));
    if (json_path_i64(j, "outbox.eventsLost") > 0)
        printf(", %" PRId64 " events lost", json_path_i64(j, "outbox.eventsLost"));
    printf("\nstore      %" PRId64 " KiB\n", json_path_i64(j, "store.bytes") / 1024);
    if (json_path_i64(j, "manifests.files") > 0 || json_path_str(j, "manifests.problem")[0] != '\0')
        printf("manifests  %" PRId64 " objects in %" PRId64 " files of %s, %" PRId64 " of them bad, %" PRId64 " with unknown fields\n",
               json_path_i64(j, "manifests.objects"), json_path_i64(j, "manifests.files"), json_path_str(j, "manifests.dir"),
               json_path_i64(j, "manifests.bad"), json_path_i64(j, "manifests.unknownFields"));
    if (json_path_str(j, "manifests.problem")[0] != '\0')
        printf("           %s\n", json_path_str(j, "manifests.problem"));
    if (json_path_str(j, "store.damagedFile")[0] != '\0')
        printf("salvaged   the store was damaged; the old file is %s\n", json_path_str(j, "store.damagedFile"));
    return 0;
}

int cli_status(struct cli *c)
{
    struct status_view v = { .code = EXIT_FAIL };
    struct err e = ERR_INIT;
    if (cli_operands(c, NULL, 0, &v.json) != EXIT_OK)
        return EXIT_BAD_USAGE;
    struct json *q AUTO_JSON = cli_request("status");
    return cli_ask(c, q, show_status, &v, &e) < 0 ? cli_fail(&e) : v.code;
}

// get

struct get_view {
    bool json, header;
};

static const struct json *condition(const struct json *status, const char *type)
{
    json_each(c, json_get(status, "conditions")) if (strcmp(json_path_str(c, "type"), type) == 0) return c;
    return NULL;
}

static int show_object(void *ctx, const struct json *j)
{
    struct get_view *v = ctx;
    const struct json *o = json_get(j, "object"), *status = json_get(o, "status");
    if (v->json)
        return print_json(NULL, o);
    if (!v->header)
        printf("%-12s %-28s %-8s %-18s %-9s %s\n", "KIND", "NAME", "READY", "STATE", "REPORTED", "REASON");
    v->header = true;
    const struct json *ready = condition(status, "Ready"), *accepted = condition(status, "Accepted");
    const struct json *why = strcmp(json_path_str(accepted, "status"), "False") == 0 ? accepted : ready;
    printf("%-12s %-28s %-8s %-18s %-9s %s%s%s\n", json_path_str(o, "kind"), json_path_str(o, "metadata.name"),
           ready != NULL ? json_path_str(ready, "status") : "-",
           json_path_str(status, "state")[0] != '\0' ? json_path_str(status, "state") : "-",
           json_bool(json_get(j, "reported"), false) ? "yes" : "no", json_path_str(why, "reason"),
           json_path_str(why, "message")[0] != '\0' ? ": " : "", json_path_str(why, "message"));
    return 0;
}

static int show_differences(void *ctx, const struct json *j)
{
    const struct json *list = json_get(j, "differences");
    (void)ctx;
    if (json_len(list) == 0)
        puts("no difference");
    json_each(d, list) printf("%s %s\n  want %s\n  have %s\n", json_path_str(d, "path"), json_path_str(d, "field"),
                              json_path_str(d, "want"), json_path_str(d, "have"));
    return 0;
}

int cli_get(struct cli *c)
{
    static const char *const words[] = { "json", "diff", NULL };
    const char *kind = NULL, *name = NULL;
    struct get_view v = { 0 };
    struct err e = ERR_INIT;
    bool diff = false;
    for (int i = 1; i < c->argc; i++) {
        int o = output_of(c, words, &i);
        if (o < 0)
            return EXIT_BAD_USAGE;
        v.json = v.json || o == 1;
        diff = diff || o == 2;
        if (o > 0)
            continue;
        if (c->argv[i][0] == '-' || name != NULL)
            return cli_usage(c, "unknown argument %s", c->argv[i]);
        *(kind == NULL ? &kind : &name) = c->argv[i];
    }
    if (diff && name == NULL)
        return cli_usage(c, "-o diff needs KIND and NAME");
    struct json *q AUTO_JSON = cli_request(diff ? "diff" : "get");
    json_set_str(q, "kind", kind);
    json_set_str(q, "name", name);
    json_set_bool(q, "whole", v.json);
    int rc = cli_ask(c, q, diff ? show_differences : show_object, &v, &e);
    if (rc < 0)
        return cli_fail(&e);
    if (!diff && !v.json && !v.header)
        puts("no objects on this node");
    return EXIT_OK;
}

// logs

enum { JOURNAL_NAME_MAX = 256 };

// An app of runtime systemd: the machine's journal has its output, of this instance under this identifier, over all its restarts.
static int show_journal(const char *name, bool follow)
{
    char identifier[JOURNAL_NAME_MAX + 20];
    snprintf(identifier, sizeof(identifier), "--identifier=%s", name);
    execlp("journalctl", "journalctl", "--quiet", "--no-pager", "--output=cat", "--unit=limpet-*", identifier,
           follow ? "--follow" : (char *)NULL, (char *)NULL);
    fprintf(stderr, "limpet: journalctl: %s\n", strerror(errno));
    return EXIT_FAIL;
}

// One of runtime container: podman or docker has it, for as long as that container is there.
static int show_container_log(struct cli *c, const char *name, bool follow)
{
    char tool[CONTAINER_TOOL_MAX];
    struct err e = ERR_INIT;
    if (port_container_here(c->config.port_container_tool, tool, &e) < 0)
        return cli_fail(&e);
    if (follow)
        execl(tool, tool, "logs", "--follow", name, (char *)NULL);
    else
        execl(tool, tool, "logs", name, (char *)NULL);
    fprintf(stderr, "limpet: %s: %s\n", tool, strerror(errno));
    return EXIT_FAIL;
}

struct elsewhere {
    char journal[JOURNAL_NAME_MAX], container[CONTAINER_NAME_MAX];
};

static int show_log(void *ctx, const struct json *j)
{
    struct elsewhere *at = ctx;
    const char *container = json_str(json_get(j, "container"));
    struct buf bytes AUTO_BUF = BUF_INIT(64 * 1024);
    const char *coded = json_path_str(j, "bytes"), *journal = json_str(json_get(j, "journal"));
    struct err e = ERR_INIT;
    if (journal != NULL) {
        snprintf(at->journal, sizeof(at->journal), "%s", journal);
        return 0;
    }
    if (container != NULL) {
        snprintf(at->container, sizeof(at->container), "%s", container);
        return 0;
    }
    int rc = base64_decode(coded, strlen(coded), &bytes, &e);
    if (rc < 0)
        return rc;
    return fwrite(buf_str(&bytes), 1, bytes.len, stdout) == bytes.len && fflush(stdout) == 0 ? 0 : E_IO;
}

// "--name N" with N from min to max into the request. 1: it was that; 0: it is another argument; -1: a usage error was printed.
static int number_option(struct cli *c, int *i, const char *name, int64_t min, int64_t max, struct json *q, const char *member)
{
    bool missing;
    int64_t n;
    const char *v = cli_value(c, i, name, &missing);
    if (missing) {
        cli_usage(c, "%s needs a value", name);
        return -1;
    }
    if (v == NULL)
        return 0;
    if (num_i64(v, min, max, &n, NULL) < 0) {
        cli_usage(c, "%s: \"%s\" is no number from %" PRId64 " to %" PRId64, name, v, min, max);
        return -1;
    }
    json_set_int(q, member, n);
    return 1;
}

// "--run NAME" into the request: as number_option().
static int run_option(struct cli *c, int *i, struct json *q)
{
    bool missing;
    const char *v = cli_value(c, i, "--run", &missing);
    if (missing) {
        cli_usage(c, "--run needs a value");
        return -1;
    }
    json_set_str(q, "run", v);
    return v != NULL;
}

// "NAME", or "KIND/NAME" as kubectl takes it.
static void set_logger(struct json *q, const char *word)
{
    char kind[64];
    const char *slash = strchr(word, '/');
    if (slash != NULL) {
        snprintf(kind, sizeof(kind), "%.*s", (int)(slash - word), word);
        json_set_str(q, "kind", kind);
    }
    json_set_str(q, "name", slash != NULL ? slash + 1 : word);
}

int cli_logs(struct cli *c)
{
    const char *whose = NULL;
    struct elsewhere at = { .journal = "" };
    struct err e = ERR_INIT;
    struct json *q AUTO_JSON = cli_request("logs");
    for (int i = 1; i < c->argc; i++) {
        int n = number_option(c, &i, "--index", 0, APP_REPLICAS_MAX - 1, q, "index");
        if (n == 0)
            n = number_option(c, &i, "--tail", 1, INT32_MAX, q, "tailBytes");
        if (n == 0)
            n = run_option(c, &i, q);
        if (n < 0)
            return EXIT_BAD_USAGE;
        if (n > 0)
            continue;
        if (strcmp(c->argv[i], "-f") == 0 || strcmp(c->argv[i], "--follow") == 0)
            json_set_bool(q, "follow", true);
        else if (c->argv[i][0] != '-' && whose == NULL)
            whose = c->argv[i];
        else
            return cli_usage(c, "unknown argument %s", c->argv[i]);
    }
    if (whose == NULL)
        return cli_usage(c, "of which app or job?");
    set_logger(q, whose);
    if (cli_ask(c, q, show_log, &at, &e) < 0)
        return cli_fail(&e);
    if (at.journal[0] != '\0' && json_get(q, "tailBytes") != NULL)
        return cli_usage(c, "%s is in the journal, which counts lines: journalctl --unit='limpet-*' --identifier=%s --lines=N", whose,
                         at.journal);
    if (at.container[0] != '\0' && json_get(q, "tailBytes") != NULL)
        return cli_usage(c, "%s is a container, whose log counts lines: podman logs --tail N %s", whose, at.container);
    if (at.container[0] != '\0')
        return show_container_log(c, at.container, json_bool(json_get(q, "follow"), false));
    return at.journal[0] != '\0' ? show_journal(at.journal, json_bool(json_get(q, "follow"), false)) : EXIT_OK;
}

// outbox

struct outbox_view {
    bool json;
    int64_t n;
};

static int show_item(void *ctx, const struct json *j)
{
    struct outbox_view *v = ctx;
    bool event = strcmp(json_path_str(j, "type"), "event") == 0;
    v->n++;
    if (v->json)
        return print_json(NULL, j);
    printf("%-28s %-7s %s%s%s%s%s", json_path_str(j, "at"), json_path_str(j, "type"), json_path_str(j, "key"), event ? " " : "",
           event ? json_path_str(j, "reason") : "", event ? ": " : "", event ? json_path_str(j, "note") : "");
    if (json_path_i64(j, "count") > 1)
        printf(" (%" PRId64 " times)", json_path_i64(j, "count"));
    puts(event && !json_bool(json_get(j, "pending"), true) ? " [sent]" : "");
    return 0;
}

int cli_outbox(struct cli *c)
{
    static const char *const words[] = { "json", NULL };
    struct outbox_view v = { 0 };
    struct err e = ERR_INIT;
    struct json *q AUTO_JSON = cli_request("outbox");
    for (int i = 1; i < c->argc; i++) {
        int o = output_of(c, words, &i);
        if (o < 0)
            return EXIT_BAD_USAGE;
        v.json = v.json || o == 1;
        if (strcmp(c->argv[i], "--all") == 0)
            json_set_bool(q, "all", true);
        else if (o == 0)
            return cli_usage(c, "unknown argument %s", c->argv[i]);
    }
    if (cli_ask(c, q, show_item, &v, &e) < 0)
        return cli_fail(&e);
    if (v.n == 0 && !v.json)
        puts("nothing: the server has heard everything");
    return EXIT_OK;
}

int cli_resync(struct cli *c)
{
    struct err e = ERR_INIT;
    struct json *q AUTO_JSON = cli_request("resync");
    bool accept = c->argc > 1 && strcmp(c->argv[1], "--accept") == 0;
    if (c->argc > 1 + accept)
        return cli_usage(c, "unknown argument %s", c->argv[1 + accept]);
    json_set_bool(q, "accept", accept);
    return cli_ask(c, q, NULL, NULL, &e) < 0 ? cli_fail(&e) : EXIT_OK;
}

// store dump

static int dump_line(void *ctx, const char *json, size_t n)
{
    (void)ctx;
    return fwrite(json, 1, n, stdout) == n && putchar('\n') != EOF ? 0 : E_IO;
}

static int dump_file(struct cli *c, struct err *e)
{
    struct db *db = NULL;
    char path[512];
    struct fs_stat st;
    struct db_conf dc = { .path = path, .max_bytes = c->config.store_max_bytes };
    snprintf(path, sizeof(path), "%s/limpet.db", c->config.state_dir);
    int rc = c->disk->ops->stat(c->disk, path, 0, &st, e);
    if (rc == 0)
        rc = db_open(&db, c->disk, &c->clock, &dc, e);
    if (rc < 0)
        return rc;
    rc = db_dump(db, dump_line, NULL, e);
    db_close(db);
    return rc;
}

int cli_store(struct cli *c)
{
    struct err e = ERR_INIT;
    struct json *q AUTO_JSON = cli_request("dump");
    if (c->argc != 2 || strcmp(c->argv[1], "dump") != 0)
        return cli_usage(c, "what about the store?");
    int rc = cli_ask(c, q, print_json, NULL, &e);
    if (rc == E_OFFLINE) {
        e = ERR_INIT;
        rc = dump_file(c, &e);
    }
    return rc < 0 ? cli_fail(&e) : EXIT_OK;
}
