// SPDX-License-Identifier: Apache-2.0
//
// limpetctl, the operator's tool: what is done to a cluster so that nodes can join it. The machine's own tool is limpet.
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "ctl/cmd.h"

enum takes { TAKES_NOTHING, TAKES_NODE };

// What an option stores is a member of struct options.
struct option_spec {
    const char *name;
    char letter; // '\0' = none
    bool has_value;
    size_t member;
};

#define FLAG(name, letter, member)                            \
    {                                                         \
        name, letter, false, offsetof(struct options, member) \
    }
#define VALUE(name, letter, member)                          \
    {                                                        \
        name, letter, true, offsetof(struct options, member) \
    }

static const struct option_spec common_options[] = {
    VALUE("kubeconfig", '\0', kubeconfig),
    VALUE("context", '\0', context),
};
static const struct option_spec install_options[] = {
    FLAG("dry-run", '\0', dry_run),
    FLAG("print", '\0', print),
    VALUE("output", 'o', output),
};
static const struct option_spec add_options[] = {
    VALUE("server", '\0', server),
    VALUE("credential", '\0', credential),
    FLAG("replace", '\0', replace),
    FLAG("force", '\0', force),
};
static const struct option_spec approve_options[] = { FLAG("yes", 'y', yes) };
static const struct option_spec list_options[] = { VALUE("output", 'o', output) };
static const struct option_spec rm_options[] = { FLAG("yes", 'y', yes), FLAG("no-wait", '\0', no_wait) };

#define COMMON_HELP                                                                           \
    "  --kubeconfig FILE   whose server and credentials to use (default: $KUBECONFIG, else\n" \
    "                      ~/.kube/config)\n"                                                 \
    "  --context NAME      the context in it (default: its current-context)\n"                \
    "  -h, --help          this text\n"

#define EXIT_HELP "\nExit status: 0 done; 1 refused or failed; 2 the command line is wrong.\n"

static const struct command {
    const char *group, *name; // group NULL: a word of its own
    int (*run)(const struct options *o);
    enum takes takes;
    const struct option_spec *options;
    size_t n_options;
    const char *needs; // an option that must be given
    const char *summary;
    const char *help;
} commands[] = {
    { NULL, "install", cmd_install, TAKES_NOTHING, install_options, ARRAY_LEN(install_options), NULL,
      "make the cluster know the kinds of limpet",
      "usage: limpetctl install [--dry-run | --print [-o yaml|json]]\n\n"
      "Applies the custom resource definitions, the namespace edge-system and the cluster roles, and waits until the\n"
      "resources are served. Running it again changes nothing; a newer limpetctl upgrades in place.\n\n"
      "  --dry-run           let the server check and tell, and store nothing\n"
      "  --print             print the objects, and ask no server; for kubectl apply -f - or a repository\n"
      "  -o, --output FMT    with --print: yaml (the default) or json\n" COMMON_HELP EXIT_HELP },
    { "node", "add", cmd_node_add, TAKES_NODE, add_options, ARRAY_LEN(add_options), "server",
      "make room for a node and print its join command",
      "usage: limpetctl node add NAME --server URL [--credential token|certificate] [--replace] [--force]\n\n"
      "Makes the node's namespace (edge-NAME, dots become dashes), its account with exactly the rights it needs, its\n"
      "EdgeNode and its Lease. Prints one command that is to be run on the machine; the token in it is valid for an hour.\n"
      "The command alone goes to standard output, so it can be piped:\n\n"
      "  limpetctl node add pump-3 --server https://192.0.2.1:6443 | ssh root@pump-3 sh\n\n"
      "  --server URL        address of the API server as the node reaches it\n"
      "  --credential KIND   token (the default); certificate: the node asks for a client certificate, which is to be approved\n"
      "                      (limpetctl node approve) and signed by the cluster, and goes on with its token until then\n"
      "  --replace           for a node that exists: revoke its credential and make a new join command; its resources stay\n"
      "  --force             allow a server URL that is a loopback address\n" COMMON_HELP EXIT_HELP },
    { "node", "approve", cmd_node_approve, TAKES_NODE, approve_options, ARRAY_LEN(approve_options), NULL,
      "approve a node's client certificate",
      "usage: limpetctl node approve NAME [--yes]\n\n"
      "Looks whether the node's request is exactly what this node may ask for (signer, usages, name, group, who made it,\n"
      "nothing besides), asks, and approves it; the cluster's controller signs it then. Needs the right to approve for the\n"
      "signer kubernetes.io/kube-apiserver-client.\n\n"
      "  -y, --yes           do not ask\n" COMMON_HELP EXIT_HELP },
    { "node", "requests", cmd_node_requests, TAKES_NOTHING, NULL, 0, NULL, "show the nodes that wait for a client certificate",
      "usage: limpetctl node requests\n\n"
      "Each request that nobody has decided, and whether it is what that node may ask for.\n\n" COMMON_HELP EXIT_HELP },
    { "node", "list", cmd_node_list, TAKES_NOTHING, list_options, ARRAY_LEN(list_options), NULL,
      "show all nodes and which of them can be reached",
      "usage: limpetctl node list [-o json|name]\n\n"
      "READY is True while the node's Lease is fresh, else Unknown: nobody but the node knows how it is. LAST-SEEN is how\n"
      "long ago the Lease was renewed, by the server's clock.\n\n"
      "  -o, --output FMT    json or name instead of a table\n" COMMON_HELP EXIT_HELP },
    { "node", "rm", cmd_node_rm, TAKES_NODE, rm_options, ARRAY_LEN(rm_options), NULL, "delete a node with all its resources",
      "usage: limpetctl node rm NAME [--yes] [--no-wait]\n\n"
      "Says what will go, asks, and deletes the node's namespace with all that is in it. The machine keeps what it runs\n"
      "until `limpet leave` is run there.\n\n"
      "  -y, --yes           do not ask\n"
      "  --no-wait           return at once, not when the namespace is gone\n" COMMON_HELP EXIT_HELP },
    { NULL, "version", cmd_version, TAKES_NOTHING, NULL, 0, NULL, "print the version", "usage: limpetctl version\n" EXIT_HELP },
};

static void usage(FILE *out)
{
    fprintf(out, "usage: limpetctl COMMAND [OPTION...]\n\n");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        const struct command *c = &commands[i];
        char name[32];
        snprintf(name, sizeof(name), "%s%s%s", c->group != NULL ? c->group : "", c->group != NULL ? " " : "", c->name);
        fprintf(out, "  %-14s %s\n", name, c->summary);
    }
    fprintf(out, "\nlimpetctl COMMAND --help tells more.\n" EXIT_HELP);
}

static const struct command *find_command(const char *group, const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        const struct command *c = &commands[i];
        bool same_group = c->group == group || (c->group != NULL && group != NULL && strcmp(c->group, group) == 0);
        if (same_group && name != NULL && strcmp(c->name, name) == 0)
            return c;
    }
    return NULL;
}

// --- Options -------------------------------------------------------------------------------------------------------------------------

enum { OPTIONS_MAX = 8, HELP = 1000 };

static const struct option_spec *option_at(const struct command *c, size_t i)
{
    if (i < c->n_options)
        return &c->options[i];
    i -= c->n_options;
    return i < ARRAY_LEN(common_options) ? &common_options[i] : NULL;
}

static void store(struct options *o, const struct option_spec *s, const char *value)
{
    char *member = (char *)o + s->member;
    if (s->has_value)
        *(const char **)member = value;
    else
        *(bool *)member = true;
}

static void getopt_tables(const struct command *c, struct option longs[OPTIONS_MAX + 2], char shorts[2 * OPTIONS_MAX + 2])
{
    size_t n = 0;
    for (const struct option_spec *s; n < OPTIONS_MAX && (s = option_at(c, n)) != NULL; n++) {
        longs[n] = (struct option){ s->name, s->has_value ? required_argument : no_argument, NULL, (int)n };
        if (s->letter != '\0') {
            *shorts++ = s->letter;
            if (s->has_value)
                *shorts++ = ':';
        }
    }
    longs[n++] = (struct option){ "help", no_argument, NULL, HELP };
    longs[n] = (struct option){ 0 };
    *shorts++ = 'h';
    *shorts = '\0';
}

static const struct option_spec *option_by_letter(const struct command *c, int letter)
{
    const struct option_spec *s;
    for (size_t i = 0; (s = option_at(c, i)) != NULL; i++)
        if (s->letter != '\0' && s->letter == letter)
            return s;
    return NULL;
}

static int usage_error(const struct command *c, const char *problem, const char *what)
{
    fprintf(stderr, "limpetctl: %s%s\n  %.*s\n", problem, what, (int)strcspn(c->help, "\n"), c->help);
    return EXIT_USAGE;
}

static int check_operands(const struct command *c, struct options *o, int argc, char **argv)
{
    int wanted = c->takes == TAKES_NODE;
    if (argc - optind < wanted)
        return usage_error(c, "the name of the node is missing", "");
    if (argc - optind > wanted)
        return usage_error(c, "too many words, the first of them: ", argv[optind + wanted]);
    if (wanted > 0)
        o->node = argv[optind];
    if (c->needs != NULL && o->server == NULL)
        return usage_error(c, "an option is missing: --", c->needs);
    return EXIT_DONE;
}

// argv[0] is the last word of the command. *done: help was asked for and given.
static int parse(const struct command *c, int argc, char **argv, struct options *o, bool *done)
{
    struct option longs[OPTIONS_MAX + 2];
    char shorts[2 * OPTIONS_MAX + 2];
    char program[] = "limpetctl";
    int got;

    getopt_tables(c, longs, shorts);
    argv[0] = program; // getopt names it in its messages
    while ((got = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        if (got == 'h' || got == HELP) {
            fputs(c->help, stdout);
            *done = true;
            return EXIT_DONE;
        }
        const struct option_spec *s = got < OPTIONS_MAX ? option_at(c, (size_t)got) : option_by_letter(c, got);
        if (s == NULL) {
            fprintf(stderr, "  %.*s\n", (int)strcspn(c->help, "\n"), c->help);
            return EXIT_USAGE;
        }
        store(o, s, optarg);
    }
    return check_operands(c, o, argc, argv);
}

// --- Main ----------------------------------------------------------------------------------------------------------------------------

// Tokens pass through our memory: no core file, no debugger of the same user.
static void protect_memory(void)
{
    setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
    prctl(PR_SET_DUMPABLE, 0);
}

static int run(const struct command *c, int argc, char **argv)
{
    struct options o = { 0 };
    bool done = false;
    int status = parse(c, argc, argv, &o, &done);
    if (status != EXIT_DONE || done)
        return status;
    status = c->run(&o);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    perror("limpetctl: writing the output");
    return EXIT_FAILED;
}

static bool asks_for_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

int main(int argc, char **argv)
{
    static char version[] = "version";

    protect_memory();
    if (argc < 2) {
        usage(stderr);
        return EXIT_USAGE;
    }
    if (asks_for_help(argv[1]) || (argc > 2 && strcmp(argv[1], "node") == 0 && asks_for_help(argv[2]))) {
        usage(stdout);
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "--version") == 0)
        argv[1] = version;
    const struct command *c = find_command(NULL, argv[1]);
    if (c != NULL)
        return run(c, argc - 1, argv + 1);
    c = find_command(argv[1], argc > 2 ? argv[2] : NULL);
    if (c != NULL)
        return run(c, argc - 2, argv + 2);
    fprintf(stderr, "limpetctl: unknown command: %s%s%s\n\n", argv[1], argc > 2 ? " " : "", argc > 2 ? argv[2] : "");
    usage(stderr);
    return EXIT_USAGE;
}
