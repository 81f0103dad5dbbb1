// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <string.h>

#include "local/cli.h"
#include "local/credentials.h"
#include "wire/enroll.h"
#include "wire/pending.h"

enum { TOKEN_MAX = 64 * 1024 };

struct join_args {
    const char *server, *ca_hash, *node, *ns, *token_file, *ca_file, *proxy, *certificate;
    bool force;
};

// The token, from a file or standard input; blanks around it go.
static int read_token(const char *file, struct buf *out, struct err *e)
{
    bool from_stdin = file == NULL || strcmp(file, "-") == 0;
    FILE *f = from_stdin ? stdin : fopen(file, "re");
    char piece[4096];
    size_t n;
    int rc = 0;
    if (f == NULL)
        return err_sys(e, errno, "token file %s", file);
    while (rc == 0 && (n = fread(piece, 1, sizeof(piece), f)) > 0)
        rc = buf_add(out, piece, n, e);
    if (!from_stdin)
        fclose(f);
    memset(piece, 0, sizeof(piece));
    while (rc == 0 && out->len > 0 && strchr(" \t\r\n", out->data[out->len - 1]) != NULL)
        out->data[--out->len] = '\0';
    if (rc == 0 && out->len == 0)
        return err_set(e, E_INVAL, "no token: give it by --token-file FILE, or on standard input");
    return rc;
}

static int parse(struct cli *c, struct join_args *a)
{
    const struct {
        const char *name;
        const char **field;
    } options[] = { { "--server", &a->server }, { "--ca-hash", &a->ca_hash },        { "--node", &a->node },
                    { "--namespace", &a->ns },  { "--token-file", &a->token_file },  { "--ca-file", &a->ca_file },
                    { "--proxy", &a->proxy },   { "--certificate", &a->certificate } };
    for (int i = 1; i < c->argc; i++) {
        bool missing = false, found = strcmp(c->argv[i], "--force") == 0;
        a->force = a->force || found;
        for (size_t k = 0; k < ARRAY_LEN(options) && !found && !missing; k++) {
            const char *v = cli_value(c, &i, options[k].name, &missing);
            found = v != NULL;
            if (found)
                *options[k].field = v;
        }
        if (!found)
            return cli_usage(c, missing ? "%s needs a value" : "unknown argument %s", c->argv[i]);
    }
    if (a->server == NULL || a->node == NULL || a->ns == NULL || (a->ca_hash == NULL && a->ca_file == NULL))
        return cli_usage(c, "--server, --node, --namespace and --ca-hash (or --ca-file) are needed");
    return 0;
}

static int exchange(struct cli *c, const struct join_args *a, const char *token, const char *ca_pem, struct cred *cred, struct err *e)
{
    CLEANUP(cred_fini) struct cred way = { 0 };
    struct loop_backend *b;
    struct loop *l = NULL;
    int rc = credentials_way(&way, &c->config, c->disk, a->server, e);
    if (rc < 0)
        return rc;
    struct enroll_conf ec = { .server = a->server,
                              .ca_hash = a->ca_hash,
                              .node = a->node,
                              .ns = a->ns,
                              .service_account = "limpet",
                              .proxy = a->proxy != NULL ? a->proxy : way.proxy,
                              .server_name = c->config.server_name,
                              .proxy_auth = way.proxy_auth,
                              .no_proxy = way.no_proxy,
                              .extra_ca_pem = way.extra_ca_pem,
                              .proxy_ca_pem = way.proxy_ca_pem,
                              .token = token,
                              .ca_pem = ca_pem };
    rc = loop_backend_epoll(&b, e);
    if (rc == 0)
        rc = loop_new(&l, &c->clock, b, e);
    if (rc == 0)
        rc = enroll_join(cred, l, &ec, e);
    loop_free(l);
    return rc;
}

// What this machine is joined as. E_NOTFOUND in any case in which it cannot be told.
static int known_identity(struct cli *c, struct cred *known, char node[254])
{
    node[0] = '\0';
    return cred_load_identity(known, c->disk, c->config.state_dir, node, NULL) == 0 ? 0 : E_NOTFOUND;
}

#define OTHERWISE "; `limpet leave` ends that, --force joins all the same"

// Its workloads are those of another node: a command that was meant for another machine must not take them over.
static int same_node(const struct join_args *a, const struct cred *known, const char *node, struct err *e)
{
    if (strcmp(a->node, node) != 0)
        return err_set(e, E_CONFLICT, "this machine is node %s, not %s" OTHERWISE, node, a->node);
    if (strcmp(a->ns, known->ns) != 0)
        return err_set(e, E_CONFLICT, "this node's namespace is %s, not %s" OTHERWISE, known->ns, a->ns);
    return 0;
}

// Identities of before do not tell the cluster; then its authority speaks for it.
static int same_cluster(const struct cred *known, const struct cred *now, struct err *e)
{
    bool told = known->cluster != NULL && now->cluster != NULL;
    if (told ? strcmp(known->cluster, now->cluster) == 0 : cred_same_ca(known->ca_pem, now->ca_pem))
        return 0;
    return err_set(e, E_CONFLICT, "this node is joined to another cluster, at %s (%s differs)" OTHERWISE, known->server,
                   told ? "the uid of kube-system" : "its authority");
}

// The owner says who the server is: the agent takes the cluster and the namespace that it finds there for its own.
static int note_join(struct cli *c, struct err *e)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/" AGENT_JOINED, c->config.state_dir);
    return fs_write(c->disk, path, "", 0, 0600, 0, e);
}

static int store(struct cli *c, const struct join_args *a, const struct cred *cred, struct err *e)
{
    int rc = cred_save_identity(cred, c->disk, c->config.state_dir, a->node, e);
    return rc == 0 ? note_join(c, e) : rc;
}

// Asked before the token is used, as far as that can be.
static int join_as_known(struct cli *c, const struct join_args *a, const char *token, const char *ca_pem, struct err *e)
{
    CLEANUP(cred_fini) struct cred known = { 0 };
    CLEANUP(cred_fini) struct cred now = { 0 };
    char node[254];
    bool bound = known_identity(c, &known, node) == 0 && !a->force;
    int rc = bound ? same_node(a, &known, node, e) : 0;
    if (rc == 0)
        rc = exchange(c, a, token, ca_pem, &now, e);
    if (rc == 0 && bound)
        rc = same_cluster(&known, &now, e);
    if (rc == 0)
        rc = cred_set(&now.user, a->certificate, e);
    return rc == 0 ? store(c, a, &now, e) : rc;
}

static int join(struct cli *c, const struct join_args *a, struct err *e)
{
    CLEANUP(buf_wipe) struct buf token = BUF_INIT(TOKEN_MAX);
    struct buf ca AUTO_BUF = BUF_INIT(1024 * 1024);
    char path[PATH_MAX];
    int rc = read_token(a->token_file, &token, e);
    if (rc == 0 && a->ca_file != NULL)
        rc = fs_read(c->disk, cli_path(a->ca_file, path), 1024 * 1024, 0, &ca, e);
    if (rc == 0)
        rc = c->disk->ops->mkdirs(c->disk, c->config.state_dir, 0700, 0, e);
    return rc == 0 ? join_as_known(c, a, buf_str(&token), a->ca_file != NULL ? buf_str(&ca) : NULL, e) : rc;
}

// A running agent begins anew with the new identity; its workloads stay.
static void tell_agent(struct cli *c)
{
    struct err e = ERR_INIT;
    struct json *q AUTO_JSON = cli_request("restart");
    int rc = cli_ask(c, q, NULL, NULL, &e);
    if (rc == 0)
        puts("the running agent takes the new identity");
    else if (rc == E_OFFLINE)
        puts("start the agent: systemctl start limpet (or limpet run)");
    else
        printf("joined, but the running agent could not be told (%s): restart it\n", e.msg);
}

int cli_join(struct cli *c)
{
    struct join_args a = { 0 };
    struct err e = ERR_INIT;
    int rc = parse(c, &a);
    if (rc != 0)
        return rc;
    if (join(c, &a, &e) < 0) {
        fprintf(stderr, "limpet: join: %s\n", e.msg);
        return EXIT_FAIL;
    }
    printf("joined %s as node %s, namespace %s\n", a.server, a.node, a.ns);
    tell_agent(c);
    return EXIT_OK;
}

// leave

static int forget_identity(struct cli *c, struct err *e)
{
    static const char *const files[] = { "identity.json", "identity.json.prev", PENDING_FILE, "holder", AGENT_JOINED };
    char path[512];
    int rc = 0;
    for (size_t i = 0; i < ARRAY_LEN(files) && rc == 0; i++) {
        snprintf(path, sizeof(path), "%s/%s", c->config.state_dir, files[i]);
        rc = c->disk->ops->unlink(c->disk, path, 0, e);
    }
    return rc;
}

static int objects_left(void *ctx, const struct json *j)
{
    (void)j;
    ++*(int *)ctx;
    return 0;
}

static int stop_workloads(struct cli *c, struct err *e)
{
    enum { TRIES = 1200 };
    struct json *q AUTO_JSON = cli_request("leave"), *ask AUTO_JSON = cli_request("leaving");
    int rc = cli_ask(c, q, NULL, NULL, e);
    // The agent stops everything in order; it is done when no object is left.
    for (int i = 0, left = 1; rc == 0 && left > 0 && i < TRIES; i++) {
        left = 0;
        rc = cli_ask(c, ask, objects_left, &left, e);
        if (rc == 0 && left > 0)
            usleep(100000);
        if (rc == 0 && left > 0 && i == TRIES - 1)
            rc = err_set(e, E_TIMEOUT, "%d objects did not stop in time; see limpet get", left);
    }
    return rc;
}

int cli_leave(struct cli *c)
{
    bool yes = false, keep = false;
    struct err e = ERR_INIT;
    for (int i = 1; i < c->argc; i++) {
        if (strcmp(c->argv[i], "--yes") == 0)
            yes = true;
        else if (strcmp(c->argv[i], "--keep-workloads") == 0)
            keep = true;
        else
            return cli_usage(c, "unknown argument %s", c->argv[i]);
    }
    if (!yes)
        return cli_usage(c, "leave stops every workload of this node, undoes its EdgeConfigs by their deletionPolicy and forgets the "
                            "identity; say --yes to do it");
    int rc = keep ? 0 : stop_workloads(c, &e);
    if (rc == E_OFFLINE) {
        fputs("limpet: no agent runs here: workloads, if any, are left as they are\n", stderr);
        rc = 0;
    }
    if (rc == 0)
        rc = forget_identity(c, &e);
    if (rc < 0)
        return cli_fail(&e);
    struct json *q AUTO_JSON = cli_request("restart");
    (void)cli_ask(c, q, NULL, NULL, &e);
    puts("left: the identity is forgotten");
    if (c->config.server_url != NULL || c->config.server_kubeconfig != NULL)
        fprintf(stderr,
                "limpet: [server] %s still names a credential, with which the objects come back: take it out of the configuration\n",
                c->config.server_url != NULL ? "url" : "kubeconfig");
    return EXIT_OK;
}
