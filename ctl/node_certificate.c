// SPDX-License-Identifier: Apache-2.0
//
// limpetctl node requests, node approve: which nodes ask for a client certificate, and a yes to one of them.
#include "ctl/node_certificate.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "ctl/cmd.h"
#include "wire/base64.h"
#include "wire/http_csr.h"
#include "wire/pending.h"

#define SIGNER "kubernetes.io/kube-apiserver-client"
#define CSR_API "certificates.k8s.io/v1"
#define RBAC_API "rbac.authorization.k8s.io/v1"

enum { NAME_MAX_HERE = NAMESPACE_MAX + 32, PEM_MAX = 16 * 1024 };

// --- The user ------------------------------------------------------------------------------------------------------------------------

void node_user_new(char out[CERT_USER_MAX], struct api *a, const char *node)
{
    uint32_t random;
    a->clock.ops->random(&a->clock, &random, sizeof(random));
    snprintf(out, CERT_USER_MAX, "limpet:node:%s:%08x", node, random);
}

static int delete_one(struct api *a, const char *api_version, const char *kind, const char *ns, const char *name, struct err *e)
{
    char path[HTTP_URL_MAX];
    struct err why = ERR_INIT;

    int r = api_path(path, api_version, kind, ns, name, e);
    if (r != 0)
        return r;
    r = api_delete(a, path, &why);
    if (r == 0 || r == E_NOTFOUND)
        return 0;
    *e = why;
    return err_wrap(e, "deleting %s %s", kind, name);
}

// Whom the node's rights are bound to. E_NOTFOUND: it is no node with certificates.
static int bound_user(struct api *a, const char *ns, char out[CERT_USER_MAX], struct err *e)
{
    char path[HTTP_URL_MAX];
    struct json *binding AUTO_JSON = NULL;

    int r = api_path(path, RBAC_API, "RoleBinding", ns, "limpet-certificate", e);
    if (r == 0)
        r = api_get(a, path, &binding, e);
    if (r != 0)
        return r;
    const char *user = json_str(json_get(json_at(json_get(binding, "subjects"), 0), "name"));
    if (user == NULL || strlen(user) >= CERT_USER_MAX)
        return err_set(e, E_CORRUPT, "RoleBinding %s/limpet-certificate names no user", ns);
    strcpy(out, user);
    return 0;
}

// The binding in the namespace goes last: it tells that there is something to take away. Who has no such nodes needs no rights for it.
int node_user_revoke(struct api *a, const char *ns, struct err *e)
{
    char name[NAME_MAX_HERE], request[NAME_MAX_HERE], user[CERT_USER_MAX];
    struct err why = ERR_INIT;

    int r = bound_user(a, ns, user, &why);
    if (r == E_NOTFOUND)
        return 0;
    if (r != 0 && r != E_CORRUPT) {
        *e = why;
        return r;
    }
    snprintf(name, sizeof(name), "limpet-%s-certificate", ns);
    snprintf(request, sizeof(request), "limpet-%s", ns);
    r = delete_one(a, RBAC_API, "ClusterRoleBinding", "", name, e);
    if (r == 0)
        r = delete_one(a, RBAC_API, "ClusterRole", "", name, e);
    if (r == 0)
        r = delete_one(a, RBAC_API, "RoleBinding", "kube-system", name, e);
    if (r == 0)
        r = delete_one(a, RBAC_API, "RoleBinding", "edge-system", name, e);
    if (r == 0)
        r = delete_one(a, CSR_API, "CertificateSigningRequest", "", request, e);
    return r != 0 ? r : delete_one(a, RBAC_API, "RoleBinding", ns, "limpet-certificate", e);
}

// --- The request ---------------------------------------------------------------------------------------------------------------------

static bool has_usages(const struct json *spec)
{
    const struct json *usages = json_get(spec, "usages");
    bool sign = false, client = false;
    size_t n = 0;

    json_each(u, usages)
    {
        const char *word = json_str(u);
        sign = sign || (word != NULL && strcmp(word, "digital signature") == 0);
        client = client || (word != NULL && strcmp(word, "client auth") == 0);
        n++;
    }
    return sign && client && n == 2;
}

static bool asked_by_node(const char *who, const char *ns, const char *user)
{
    char account[NAMESPACE_MAX + 64];
    snprintf(account, sizeof(account), "system:serviceaccount:%s:%s", ns, NODE_SERVICE_ACCOUNT);
    return strcmp(who, account) == 0 || strcmp(who, user) == 0;
}

int node_request_judge(struct api *a, const struct json *request, const char *node, const char *ns, const char *user, struct err *e)
{
    struct buf pem AUTO_BUF = BUF_INIT(PEM_MAX);
    const struct json *spec = json_get(request, "spec");
    const char *coded = json_path_str(spec, "request"), *who = json_path_str(spec, "username");

    if (strcmp(json_path_str(spec, "signerName"), SIGNER) != 0)
        return err_set(e, E_FORBIDDEN, "it is for another signer than " SIGNER);
    if (!has_usages(spec))
        return err_set(e, E_FORBIDDEN, "it is for other usages than digital signature and client auth");
    if (!asked_by_node(who, ns, user))
        return err_set(e, E_FORBIDDEN, "it was made by %.200s, which is not node %.100s", who, node);
    if (base64_decode(coded, strlen(coded), &pem, NULL) < 0 || !tls_csr_asks_for(buf_str(&pem), CERTIFICATE_GROUP, user, &a->clock))
        return err_set(e, E_FORBIDDEN, "it asks for another name than CN=%.200s, O=" CERTIFICATE_GROUP ", or for more than that", user);
    return 0;
}

static bool is_decided(const struct json *request)
{
    json_each(c, json_path(request, "status.conditions"))
    {
        const char *type = json_path_str(c, "type");
        if (strcmp(type, "Approved") == 0 || strcmp(type, "Denied") == 0 || strcmp(type, "Failed") == 0)
            return true;
    }
    return false;
}

static int print_yes(struct json *request, struct buf *out, struct err *e)
{
    struct json *status = json_object(), *list = json_array(), *yes = json_object();

    json_set_str(yes, "type", "Approved");
    json_set_str(yes, "status", "True");
    json_set_str(yes, "reason", "LimpetctlApprove");
    json_set_str(yes, "message", "approved by limpetctl node approve");
    json_push(list, yes);
    json_set(status, "conditions", list);
    json_del(request, "status");
    json_set(request, "status", status);
    if (!json_ok())
        return err_set(e, E_NOMEM, "no memory");
    return json_print(request, out, e);
}

// With the resourceVersion that was looked at: one that was made anew meanwhile is a conflict.
static int say_yes(struct api *a, struct json *request, struct err *e)
{
    char path[HTTP_URL_MAX];
    struct buf text AUTO_BUF = BUF_INIT(64 * 1024);
    struct buf name AUTO_BUF = BUF_INIT(HTTP_URL_MAX - 1);

    int r = buf_addf(&name, e, "%s/approval", json_path_str(request, "metadata.name"));
    if (r == 0)
        r = api_path(path, CSR_API, "CertificateSigningRequest", "", buf_str(&name), e);
    if (r == 0)
        r = print_yes(request, &text, e);
    return r != 0 ? r : api_put(a, path, buf_str(&text), text.len, e);
}

// --- The commands --------------------------------------------------------------------------------------------------------------------

static bool is_confirmed(const char *node)
{
    char line[NODE_NAME_MAX + 2];
    fprintf(stderr, "Type the name of the node to approve it: ");
    if (fgets(line, sizeof(line), stdin) == NULL)
        return false;
    line[strcspn(line, "\n")] = '\0';
    return strcmp(line, node) == 0;
}

static int fetch(struct api *a, const char *ns, char user[CERT_USER_MAX], struct json **request, struct err *e)
{
    char path[HTTP_URL_MAX], name[NAME_MAX_HERE];
    struct err why = ERR_INIT;

    snprintf(name, sizeof(name), "limpet-%s", ns);
    int r = bound_user(a, ns, user, &why);
    if (r == E_NOTFOUND)
        return err_set(e, E_NOTFOUND, "it was not added with --credential certificate");
    if (r == 0)
        r = api_path(path, CSR_API, "CertificateSigningRequest", "", name, &why);
    if (r == 0)
        r = api_get(a, path, request, &why);
    if (r == E_NOTFOUND)
        return err_set(e, E_NOTFOUND, "it asks for no certificate now");
    if (r != 0)
        *e = why;
    return r;
}

static int approve(struct api *a, const struct options *o, const char *ns, struct err *e)
{
    char user[CERT_USER_MAX];
    struct json *request AUTO_JSON = NULL;

    int r = fetch(a, ns, user, &request, e);
    if (r == 0 && is_decided(request))
        return err_set(e, E_CONFLICT, "its request was decided already");
    if (r == 0)
        r = node_request_judge(a, request, o->node, ns, user, e);
    if (r != 0)
        return err_wrap(e, "node %s", o->node);
    fprintf(stderr, "Node %s asks for a client certificate for %s, at %s.\n", o->node, user,
            json_path_str(request, "metadata.creationTimestamp"));
    if (!o->yes && !is_confirmed(o->node))
        return err_set(e, E_CANCELED, "nothing was approved");
    r = say_yes(a, request, e);
    if (r == 0)
        printf("node %s approved\n", o->node);
    return r;
}

int cmd_node_approve(const struct options *o)
{
    struct api a;
    struct err e = ERR_INIT;
    char ns[NAMESPACE_MAX + 1];

    if (node_name_check(o->node, &e) != 0) {
        cmd_fail(&e, "limpetctl node requests shows who asks");
        return EXIT_USAGE;
    }
    int status = cmd_open(&a, o);
    if (status != EXIT_DONE)
        return status;
    node_namespace(o->node, ns);
    if (approve(&a, o, ns, &e) != 0)
        status = cmd_fail(&e, "limpetctl node requests shows who asks; a request that is not as it should be: kubectl describe csr");
    api_close(&a);
    return status;
}

static void print_clean(const char *s)
{
    for (; *s != '\0'; s++)
        putchar(isprint((unsigned char)*s) ? *s : '?');
}

struct listing {
    struct api *api;
    size_t shown;
};

// The annotation is the requestor's word; what is judged is the node that it names.
static int show_request(void *ctx, const struct json *item, struct err *e UNUSED)
{
    struct listing *l = ctx;
    char user[CERT_USER_MAX], ns[NAMESPACE_MAX + 1], wanted[NAME_MAX_HERE];
    struct err why = ERR_INIT;
    const char *node = json_str(json_get(json_path(item, "metadata.annotations"), NODE_ANNOTATION));

    if (node == NULL || is_decided(item) || node_name_check(node, &why) != 0)
        return 0;
    node_namespace(node, ns);
    snprintf(wanted, sizeof(wanted), "limpet-%s", ns);
    if (strcmp(json_path_str(item, "metadata.name"), wanted) != 0)
        return 0;
    int r = bound_user(l->api, ns, user, &why);
    if (r == 0)
        r = node_request_judge(l->api, item, node, ns, user, &why);
    if (l->shown++ == 0)
        printf("NAME\tREQUESTED\tVERDICT\n");
    print_clean(node);
    printf("\t%s\t", json_path_str(item, "metadata.creationTimestamp"));
    print_clean(r == 0 ? "as it should be" : why.msg);
    putchar('\n');
    return 0;
}

int cmd_node_requests(const struct options *o)
{
    struct api a;
    struct err e = ERR_INIT;
    char path[HTTP_URL_MAX];
    struct listing l = { .api = &a };

    int status = cmd_open(&a, o);
    if (status != EXIT_DONE)
        return status;
    int r = api_path(path, CSR_API, "CertificateSigningRequest", "", NULL, &e);
    if (r == 0)
        r = api_each(&a, path, show_request, &l, &e);
    if (r != 0)
        status = cmd_fail(&e, NULL);
    else if (l.shown == 0)
        fprintf(stderr, "No node waits for a certificate.\n");
    api_close(&a);
    return status;
}
