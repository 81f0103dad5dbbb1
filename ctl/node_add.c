// SPDX-License-Identifier: Apache-2.0
//
// limpetctl node add: a node's namespace and rights on the server, and the one command to be run on the machine.
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "ctl/cmd.h"
#include "ctl/node_certificate.h"

enum {
    TOKEN_SECONDS = 3600,
    REMEDY_MAX = 400,
    MANIFEST_MAX = 64 * 1024,
    TOKEN_MAX = 16 * 1024,
    JOIN_CA_MAX = 16 * 1024, // bytes; a larger bundle is left to the node to find
};

// --- Whether it may be done ----------------------------------------------------------------------------------------------------------

static bool wants_certificate(const struct options *o)
{
    return o->credential != NULL && strcmp(o->credential, "certificate") == 0;
}

static int check_options(const struct options *o)
{
    struct err e = ERR_INIT;
    if (o->credential != NULL && !wants_certificate(o) && strcmp(o->credential, "token") != 0) {
        err_set(&e, E_INVAL, "--credential: neither token nor certificate");
        cmd_fail(&e, NULL);
        return EXIT_USAGE;
    }
    if (node_name_check(o->node, &e) != 0) {
        cmd_fail(&e, "a node is commonly called as its machine is, for instance edge-17 or pump.hall3.example");
        return EXIT_USAGE;
    }
    if (server_url_check(o->server, &e) != 0) {
        cmd_fail(&e, "give the address of the API server as the machine reaches it, for instance https://192.0.2.1:6443");
        return EXIT_USAGE;
    }
    if (server_url_is_loopback(o->server) && !o->force) {
        err_set(&e, E_INVAL, "%s is this very machine to whoever reads it", o->server);
        cmd_fail(&e, "give the address of the API server as the machine reaches it; --force is for a node on the server's own machine");
        return EXIT_USAGE;
    }
    return EXIT_DONE;
}

// The kind must be served before an object of it can be applied; a missing one is the most common mistake.
static int check_installed(struct api *a)
{
    struct json *list AUTO_JSON = NULL;
    struct err e = ERR_INIT;
    int r = api_get(a, "/apis/edge.limpet.dev/v1alpha1", &list, &e);
    if (r == 0)
        return EXIT_DONE;
    if (r != E_UNSUP && r != E_NOTFOUND)
        return cmd_fail(&e, NULL);
    err_set(&e, E_NOTFOUND, "the server does not know the edge resources");
    return cmd_fail(&e, "run limpetctl install first");
}

static int refuse_claim(enum node_claim claim, const struct options *o, const char *ns, const char *owner)
{
    char remedy[REMEDY_MAX];
    struct err e = ERR_INIT;

    if (claim == NODE_TERMINATING) {
        err_set(&e, E_CONFLICT, "namespace %s is being deleted", ns);
        return cmd_fail(&e, "run the same command again when it is gone");
    }
    if (claim == NODE_OURS) {
        err_set(&e, E_EXISTS, "node %s exists already, with namespace %s", o->node, ns);
        return cmd_fail(&e, "--replace keeps its resources, revokes its credential and makes a new join command");
    }
    if (owner[0] != '\0') {
        err_set(&e, E_EXISTS, "namespace %s belongs to node %s", ns, owner);
        return cmd_fail(&e, "choose a name that differs in more than dots and dashes");
    }
    err_set(&e, E_EXISTS, "namespace %s exists and is not a node's", ns);
    snprintf(remedy, sizeof(remedy), "if it may become this node's: kubectl annotate namespace %s %s=%s, then add it with --replace", ns,
             NODE_ANNOTATION, o->node);
    return cmd_fail(&e, remedy);
}

static int check_claim(struct api *a, const struct options *o, const char *ns)
{
    enum node_claim claim;
    char owner[NODE_NAME_MAX + 1];
    struct err e = ERR_INIT;

    if (node_claim(a, o->node, ns, &claim, owner, &e) != 0)
        return cmd_fail(&e, NULL);
    if (claim == NODE_ABSENT || (claim == NODE_OURS && o->replace))
        return EXIT_DONE;
    return refuse_claim(claim, o, ns, owner);
}

// --- Doing it ------------------------------------------------------------------------------------------------------------------------

// A ServiceAccount's tokens die with it; one made anew under the same name has another uid, so they stay dead.
static int revoke_credential(struct api *a, const char *ns, struct err *e)
{
    char path[HTTP_URL_MAX];
    struct err why = ERR_INIT;

    int r = api_path(path, "v1", "ServiceAccount", ns, NODE_SERVICE_ACCOUNT, e);
    if (r != 0)
        return r;
    r = api_delete(a, path, &why);
    if (r == 0 || r == E_NOTFOUND)
        return 0;
    *e = why;
    return err_wrap(e, "revoking the old credential");
}

static int apply_one(struct api *a, const struct manifest *m, const struct node_names *names, struct err *e)
{
    struct buf text AUTO_BUF = BUF_INIT(MANIFEST_MAX);
    struct buf in AUTO_BUF = BUF_INIT(HTTP_URL_MAX);
    struct buf name AUTO_BUF = BUF_INIT(HTTP_URL_MAX);
    char label[NODE_NAME_MAX + 64];
    enum applied how;

    int r = node_fill(&text, m->text, names, e);
    if (r == 0)
        r = node_fill(&in, m->ns, names, e);
    if (r == 0)
        r = node_fill(&name, m->name, names, e);
    if (r != 0)
        return r;
    api_label(label, sizeof(label), m->api_version, m->kind, buf_str(&name));
    r = api_apply(a, m, buf_str(&in), buf_str(&name), buf_str(&text), false, &how, e);
    if (r != 0)
        return err_wrap(e, "applying %s", label);
    fprintf(stderr, "%s %s\n", label, applied_word(how));
    return 0;
}

static int apply_all(struct api *a, const struct manifest *m, const struct node_names *names, struct err *e)
{
    int r = 0;
    for (; m->kind != NULL && r == 0; m++)
        r = apply_one(a, m, names, e);
    return r;
}

static int request_token(struct api *a, const char *ns, struct buf *token, struct err *e)
{
    char path[HTTP_URL_MAX];
    struct json *answer AUTO_JSON = NULL;
    struct json *body AUTO_JSON = json_object();
    struct json *spec = json_object();

    json_set_int(spec, "expirationSeconds", TOKEN_SECONDS);
    json_set(body, "spec", spec);
    if (!json_ok())
        return err_set(e, E_NOMEM, "no memory");
    int r = api_path(path, "v1", "ServiceAccount", ns, NODE_SERVICE_ACCOUNT "/token", e);
    if (r == 0)
        r = api_post(a, path, body, &answer, e);
    if (r != 0)
        return err_wrap(e, "asking for a join token");
    const char *text = json_str(json_path(answer, "status.token"));
    // It goes between two lines of a shell's here-document.
    if (text == NULL || *text == '\0' || text[strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=")] != '\0')
        return err_set(e, E_CORRUPT, "the server answered with no usable token");
    return buf_adds(token, text, e);
}

static int add_member(struct buf *out, const char *before, const char *text, struct err *e)
{
    struct json *j AUTO_JSON = json_string(text);
    if (!json_ok())
        return err_set(e, E_NOMEM, "no memory");
    int r = buf_adds(out, before, e);
    return r != 0 ? r : json_print(j, out, e);
}

// What the node reads: the token, and the CA that most servers do not show to strangers. The CA is no secret, and the node checks it by
// its hash. Two lines, since a terminal takes no line longer than 4 KB.
static int join_file(struct buf *out, const char *token, const char *ca_pem, struct err *e)
{
    int r = add_member(out, "{\"token\":", token, e);
    if (r == 0 && strlen(ca_pem) <= JOIN_CA_MAX)
        r = add_member(out, ",\n\"ca\":", ca_pem, e);
    return r != 0 ? r : buf_adds(out, "}", e);
}

// The only thing on standard output, so that it can be piped to a shell on the machine. The token is in the here-document, which a
// shell hands over as a file: it is in no argument list.
static void print_join(const struct options *o, const struct node_names *names, const char *ca_hash, const char *file)
{
    printf("limpet join --server %s --ca-hash %s --node %s --namespace %s%s%s --token-file - <<'EOF'\n%s\nEOF\n", o->server, ca_hash,
           names->node, names->ns, names->user[0] != '\0' ? " --certificate " : "", names->user, file);
}

static int prepare(struct api *a, const struct options *o, const struct node_names *names, char ca_hash[72], struct err *e)
{
    // First of all, since nothing should have been made when there is no CA to pin.
    if (a->cred.ca_pem == NULL)
        return err_set(e, E_INVAL, "the kubeconfig names no certificate authority, so the node could not check the server");
    int r = cred_ca_hash(a->cred.ca_pem, ca_hash, e);
    if (r == 0 && o->replace)
        r = revoke_credential(a, names->ns, e);
    if (r == 0 && o->replace)
        r = node_user_revoke(a, names->ns, e);
    if (r == 0)
        r = apply_all(a, node_manifests, names, e);
    return r == 0 && names->user[0] != '\0' ? apply_all(a, certificate_manifests, names, e) : r;
}

static int add(struct api *a, const struct options *o, const char *ns, struct err *e)
{
    struct buf token CLEANUP(buf_wipe) = BUF_INIT(TOKEN_MAX);
    struct buf file CLEANUP(buf_wipe) = BUF_INIT(TOKEN_MAX + 2 * JOIN_CA_MAX);
    char ca_hash[72], user[CERT_USER_MAX] = "";
    struct node_names names = { o->node, ns, user };

    if (wants_certificate(o))
        node_user_new(user, a, o->node);
    int r = prepare(a, o, &names, ca_hash, e);
    if (r == 0)
        r = request_token(a, ns, &token, e);
    if (r == 0)
        r = join_file(&file, buf_str(&token), a->cred.ca_pem, e);
    if (r != 0)
        return r;
    fprintf(stderr, "\nRun this on %s as root within an hour:\n\n", o->node);
    fflush(stderr);
    print_join(o, &names, ca_hash, buf_str(&file));
    if (user[0] != '\0')
        fprintf(stderr, "\nWhen it has joined: limpetctl node approve %s\n", o->node);
    return 0;
}

int cmd_node_add(const struct options *o)
{
    struct api a;
    struct err e = ERR_INIT;
    char ns[NAMESPACE_MAX + 1];

    int status = check_options(o);
    if (status == EXIT_DONE)
        status = cmd_open(&a, o);
    if (status != EXIT_DONE)
        return status;
    node_namespace(o->node, ns);
    status = check_installed(&a);
    if (status == EXIT_DONE)
        status = check_claim(&a, o, ns);
    if (status == EXIT_DONE && add(&a, o, ns, &e) != 0)
        status = cmd_fail(&e, NULL);
    api_close(&a);
    return status;
}
