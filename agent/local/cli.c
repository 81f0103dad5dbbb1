// SPDX-License-Identifier: Apache-2.0
#include "local/cli.h"

#include <stdlib.h>
#include <string.h>

#include "version.h"

#define DEFAULT_CONFIG "/etc/limpet/limpet.ini"

extern char **environ;

static int cmd_run(struct cli *c);
static int cmd_check_config(struct cli *c);
static int cmd_version(struct cli *c);
static int cmd_help(struct cli *c);

static const struct cli_command commands[] = {
    { "run", "", "run the agent in the foreground (what the service does)",
      "Starts from the local cache at once, then follows the server. Ends orderly on SIGTERM or SIGINT; workloads keep running and are\n"
      "adopted by the next agent. SIGHUP reads the credentials again.\n",
      true, cmd_run },
    { "join",
      "--server URL --ca-hash HASH --node NAME --namespace NS [--token-file FILE|-] [--ca-file FILE] [--proxy URL] [--certificate USER] "
      "[--force]",
      "exchange a join token for this node's own credential",
      "`limpetctl node add NAME --server URL` prints this command. The token is read from a file or from standard input, never from an\n"
      "argument. The server's CA must match the hash (sha256 of its public key). A machine that is joined already keeps all it has when "
      "it\n"
      "joins again; as another node, or to another cluster, only with --force.\n",
      true, cli_join },
    { "leave", "[--yes] [--keep-workloads]", "stop and remove everything that was made here, and forget the identity",
      "Without a running agent, or with --keep-workloads, only the identity is forgotten.\n", true, cli_leave },
    { "status", "[-o json]", "how the agent is: link, sources, lease, outbox",
      "Exit code 0: online. 1: offline, standing by or identity lost (everything keeps running). 3: no agent runs here.\n", true,
      cli_status },
    { "check", "[-o json]", "look at everything that can be wrong: configuration, credential, way to the server, rights, machine",
      "Each check is ok, warn, fail or skip, with what was seen, the likely cause and a remedy; it changes nothing. Exit code 0: all are\n"
      "ok, warn or skip. 1: one failed. As root it sees the most.\n",
      false, cli_check },
    { "get", "[KIND [NAME]] [-o json|diff]", "objects of this node with their state; differences between spec and machine",
      "KIND is a plural, singular, kind or short name (edgeapps, eapp, EdgeConfig ...).\n", true, cli_get },
    { "describe", "KIND NAME [-o json]", "an object with conditions, differences and events, laid out as kubectl describe does", "", true,
      cli_describe },
    { "apply", "-f FILE|DIR|-", "put objects into the manifest directory, each into a file of its own",
      "Nothing is written unless all of them are understood. Needs no server and no running agent; one that runs sees the files change.\n"
      "An object that stands alone in a file there is changed in that one. -f may be given several times.\n",
      true, cli_apply },
    { "delete", "KIND NAME... | -f FILE|DIR|-", "remove objects from the manifest directory",
      "Only what files there define; the agent removes it from the machine 2 s after it is gone from them.\n", true, cli_delete },
    { "diff", "-f FILE|DIR|-", "what `limpet apply` would change, as diff(1) shows it", "Exit code 0: nothing. 1: something. 2: trouble.\n",
      true, cli_diff },
    { "logs", "[KIND/]NAME [-f] [--index N | --run RUN] [--tail BYTES]", "output of an EdgeApp or EdgeJob", "", true, cli_logs },
    { "events", "[KIND [NAME]] [-o json]", "what happened on this node, oldest first, laid out as kubectl get events does",
      "The newest thousand, of those that are kept ([outbox] maxEvents); what the server has not heard yet is marked.\n", true,
      cli_events },
    { "outbox", "[--all] [-o json]", "what the server still has to hear, oldest first",
      "--all shows the events that were acknowledged too, as far as they are kept.\n", true, cli_outbox },
    { "policy", "[-o json]", "the values that policies can set: what is in force, and who set it",
      "Policies are EdgePolicy objects of this node's namespace and of edge-system. A value that the environment or --set gives to "
      "`limpet\n"
      "run` is not changed by policies.\n",
      true, cli_policy },
    { "resync", "[--accept]", "list everything again",
      "--accept lets deletes through that are held back because the server's database seems restored, and accepts a changed cluster.\n",
      true, cli_resync },
    { "store", "dump", "print the local store as JSON lines",
      "Asks the running agent (the store is locked while it runs), or reads the store itself when none runs.\n", true, cli_store },
    { "check-config", "[--print]", "check the configuration; all problems at once, exit 78",
      "--print shows every key with its effective value.\n", false, cmd_check_config },
    { "version", "", "print the version", "", false, cmd_version },
    { "help", "[COMMAND]", "this text, or that of a command", "", false, cmd_help },
};

static const char usage_line[] = "limpet [--config FILE] [--set SECTION.KEY=VALUE] COMMAND";

static const struct cli_command *find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static void print_help(FILE *f)
{
    fprintf(f, "limpet: makes this machine match its custom resources, online or not\n\nusage: %s\n\n", usage_line);
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        fprintf(f, "  %-13s %s\n", commands[i].name, commands[i].help);
    fprintf(f, "\nlimpet help COMMAND tells more. Configuration: %s, conf.d/*.ini beside it, LIMPET_<SECTION>_<KEY>, --set.\n",
            DEFAULT_CONFIG);
}

int cli_usage(const struct cli *c, const char *fmt, ...)
{
    va_list ap;
    const struct cli_command *cmd = c->argc > 0 ? find(c->argv[0]) : NULL;
    va_start(ap, fmt);
    fputs("limpet: ", stderr);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    if (cmd != NULL)
        fprintf(stderr, "\nusage: limpet %s %s\n", cmd->name, cmd->args);
    else
        fprintf(stderr, "\nusage: %s; see limpet --help\n", usage_line);
    return EXIT_BAD_USAGE;
}

int cli_fail(const struct err *e)
{
    fprintf(stderr, "limpet: %s\n", e->msg);
    return e->cls == E_OFFLINE ? EXIT_NOT_RUNNING : EXIT_FAIL;
}

const char *cli_value(const struct cli *c, int *i, const char *name, bool *missing)
{
    size_t n = strlen(name);
    const char *arg = c->argv[*i];
    *missing = false;
    if (strncmp(arg, name, n) != 0)
        return NULL;
    if (arg[n] == '=')
        return arg + n + 1;
    if (arg[n] != '\0')
        return NULL;
    if (*i + 1 >= c->argc) {
        *missing = true;
        return NULL;
    }
    return c->argv[++*i];
}

int cli_operands(struct cli *c, const char **operand, size_t most, bool *json)
{
    size_t n = 0;
    *json = false;
    for (int i = 1; i < c->argc; i++) {
        bool missing;
        const char *o = cli_value(c, &i, "-o", &missing);
        if (missing || (o != NULL && strcmp(o, "json") != 0))
            return cli_usage(c, "-o takes json");
        if (o != NULL)
            *json = true;
        else if (c->argv[i][0] == '-' || n == most)
            return cli_usage(c, "unknown argument %s", c->argv[i]);
        else
            operand[n++] = c->argv[i];
    }
    return EXIT_OK;
}

const char *cli_path(const char *name, char out[PATH_MAX])
{
    char here[PATH_MAX];
    if (name[0] == '/')
        return name;
    if (realpath(name, out) != NULL)
        return out;
    if (getcwd(here, sizeof(here)) == NULL || snprintf(out, PATH_MAX, "%s/%s", here, name) >= PATH_MAX)
        return name;
    return out;
}

// Talking to the agent.

struct json *cli_request(const char *op)
{
    struct json *j = json_object();
    (void)json_ok();
    json_set_str(j, "op", op);
    return j;
}

struct answer {
    int (*fn)(void *ctx, const struct json *line);
    void *ctx;
    struct err error;
    bool ended;
};

static int class_of_word(const char *word)
{
    for (int cls = -1; word != NULL && cls >= E_CLASS_LAST; cls--)
        if (strcmp(err_word(cls), word) == 0)
            return cls;
    return E_IO;
}

static int on_answer(void *ctx, const char *text, size_t len)
{
    struct answer *a = ctx;
    struct json *j AUTO_JSON = NULL;
    int rc = json_parse(&j, text, len, &a->error);
    if (rc < 0)
        return rc;
    const char *msg = json_str(json_get(j, "error"));
    if (msg != NULL && json_get(j, "class") != NULL)
        return err_set(&a->error, class_of_word(json_str(json_get(j, "class"))), "%s", msg);
    if (json_get(j, "end") != NULL) {
        a->ended = true;
        return 0;
    }
    return a->fn != NULL ? a->fn(a->ctx, j) : 0;
}

int cli_ask(const struct cli *c, const struct json *request, int (*fn)(void *ctx, const struct json *line), void *ctx, struct err *e)
{
    struct answer a = { .fn = fn, .ctx = ctx };
    struct buf text AUTO_BUF = BUF_INIT(64 * 1024);
    int rc = json_print(request, &text, e);
    if (rc == 0)
        rc = control_ask(&c->config, buf_str(&text), c->patience_ms, on_answer, &a, e);
    if (a.error.cls != 0) {
        *e = a.error;
        return e->cls;
    }
    if (rc < 0 && e->cls == 0)
        return err_set(e, rc, "the answer cannot be written: %s", err_word(rc));
    if (rc == 0 && !a.ended)
        return err_set(e, E_IO, "the agent hung up in the middle of its answer");
    return rc;
}

// Commands that need no agent.

static int cmd_run(struct cli *c)
{
    if (c->argc > 1)
        return cli_usage(c, "run takes no arguments");
    return c->hooks->run(&c->config, LIMPET_VERSION);
}

int cli_load(struct cli *c, struct buf *problems, struct err *e)
{
    return config_load(&c->config, c->disk, c->config_file, c->config_named, c->sets, environ, problems, e);
}

static int load(struct cli *c)
{
    struct buf problems AUTO_BUF = BUF_INIT(1024 * 1024);
    struct err e = ERR_INIT;
    int rc = cli_load(c, &problems, &e);
    if (rc == 0)
        return 0;
    fputs(buf_str(&problems), stderr);
    fprintf(stderr, "limpet: %s\n", e.msg);
    return rc == E_INVAL ? EXIT_CONFIG : EXIT_FAIL;
}

static int cmd_check_config(struct cli *c)
{
    bool print = c->argc > 1 && strcmp(c->argv[1], "--print") == 0;
    struct buf text AUTO_BUF = BUF_INIT(1024 * 1024);
    struct err e = ERR_INIT;
    if (c->argc > 1 + print)
        return cli_usage(c, "unknown argument %s", c->argv[1 + print]);
    int rc = load(c);
    if (rc != 0)
        return rc;
    if (!print) {
        printf("%s: ok\n", c->config.config_file != NULL ? c->config.config_file : "defaults");
        return EXIT_OK;
    }
    if (config_print(&c->config, &text, &e) < 0)
        return cli_fail(&e);
    fputs(buf_str(&text), stdout);
    return EXIT_OK;
}

static int print_version(void)
{
    printf("limpet %s (%s)\n", LIMPET_VERSION, LIMPET_COMMIT);
    return EXIT_OK;
}

static int cmd_version(struct cli *c)
{
    return c->argc > 1 ? cli_usage(c, "version takes no arguments") : print_version();
}

static int cmd_help(struct cli *c)
{
    const struct cli_command *cmd = c->argc > 1 ? find(c->argv[1]) : NULL;
    if (c->argc > 2)
        return cli_usage(c, "unknown argument %s", c->argv[2]);
    if (c->argc > 1 && cmd == NULL)
        return cli_usage(c, "no command %s", c->argv[1]);
    if (cmd == NULL)
        print_help(stdout);
    else
        printf("usage: limpet %s %s\n\n%s.\n%s", cmd->name, cmd->args, cmd->help, cmd->more);
    return EXIT_OK;
}

// One global option at argv[*i]. -1: go on; else an exit code.
static int global(struct cli *c, int *i)
{
    bool missing = false;
    const char *arg = c->argv[*i], *v = cli_value(c, i, "--config", &missing);
    if (v != NULL) {
        c->config_file = v;
        c->config_named = true;
        return -1;
    }
    if (!missing && (v = cli_value(c, i, "--set", &missing)) != NULL) {
        if (c->n_sets == CLI_SETS_MAX)
            return cli_usage(c, "--set: more than %d", CLI_SETS_MAX);
        c->sets[c->n_sets++] = v;
        return -1;
    }
    if (missing)
        return cli_usage(c, "%s needs a value", arg);
    if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
        print_help(stdout);
        return EXIT_OK;
    }
    return strcmp(arg, "--version") == 0 ? print_version() : cli_usage(c, "unknown option %s", arg);
}

// Global options, up to the command. -1: go on; else an exit code.
static int globals(struct cli *c)
{
    int i = 1;
    for (int rc = -1; i < c->argc && c->argv[i][0] == '-'; i++)
        if ((rc = global(c, &i)) >= 0)
            return rc;
    c->argc -= i;
    c->argv += i;
    if (c->argc > 0)
        return -1;
    print_help(stderr);
    return EXIT_BAD_USAGE;
}

static bool wants_help(const struct cli *c)
{
    for (int i = 1; i < c->argc; i++)
        if (strcmp(c->argv[i], "--help") == 0 || strcmp(c->argv[i], "-h") == 0)
            return true;
    return false;
}

static int dispatch(struct cli *c)
{
    const struct cli_command *cmd = find(c->argv[0]);
    if (cmd == NULL)
        return cli_usage(c, "no command %s", c->argv[0]);
    if (wants_help(c)) {
        char *argv[] = { c->argv[0], (char *)(uintptr_t)cmd->name };
        struct cli help = { .argc = 2, .argv = argv };
        return cmd_help(&help);
    }
    int rc = cmd->needs_config ? load(c) : 0;
    return rc != 0 ? rc : cmd->fn(c);
}

int cli_main(int argc, char **argv, const struct cli_hooks *h)
{
    struct cli c = { .config_file = getenv("LIMPET_CONFIG"), .hooks = h, .argc = argc, .argv = argv };
    struct err e = ERR_INIT;
    c.config_named = c.config_file != NULL;
    if (c.config_file == NULL)
        c.config_file = DEFAULT_CONFIG;
    int rc = globals(&c);
    if (rc >= 0)
        return rc;
    c.config_file = cli_path(c.config_file, c.config_path);
    clock_real_init(&c.clock);
    if (disk_real_new(&c.disk, NULL, "", &e) < 0)
        return cli_fail(&e);
    rc = dispatch(&c);
    config_fini(&c.config);
    disk_free(c.disk);
    return fflush(stdout) == 0 ? rc : EXIT_FAIL;
}
